//! Nodes with groups on virtual time: messages that a seed delivers, loses and delays, stores that
//! crash and fail. Nothing here waits for anything.

pub(crate) mod alone;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use overlane_core::group::GroupId;
use overlane_core::identity::{AccountKey, Signer};
use overlane_core::replay::Now;
use overlane_core::seal::{SealingKey, SealingSecret};
use overlane_core::transaction::Data;
use overlane_core::{Did, NetworkId};
use overlane_node::peer::groups::{
    Ask, AskId, Effect, GroupCounters, GroupEvent, GroupTicket, GroupView, Groups, GroupsError,
    Own, PAGE_MAX, PostView, Reply,
};
use overlane_relay::log::LogId;
use overlane_relay::log::testkit::MemoryLogs;
use overlane_storage_native::testkit::Seeded;
use zeroize::Zeroizing;

pub(crate) use alone::{account, acknowledged, frames_in, group_of_two, over};

use alone::signer;

pub(crate) const START_MS: u64 = 1_900_000_000_000;
pub(crate) const NETWORK: NetworkId = NetworkId(7);

/// One node.
pub(crate) struct Node {
    pub(crate) did: Did,
    pub(crate) key: AccountKey,
    number: u8,
    signer: Arc<Signer>,
    /// `None` while it is down.
    groups: Option<Groups<MemoryLogs>>,
    /// What its store keeps while it is down.
    store: Option<MemoryLogs>,
    pub(crate) answers: BTreeMap<AskId, Result<Reply, GroupsError>>,
    pub(crate) events: Vec<GroupEvent>,
    pub(crate) failed: Option<String>,
    pub(crate) given: u64,
    pub(crate) taken: u64,
    next_ask: u64,
    lives: u8,
    dirty: bool,
}

/// The nodes, what is on its way between them, the time.
pub(crate) struct Net {
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: BTreeMap<(usize, usize), VecDeque<Data>>,
    links: BTreeSet<(usize, usize)>,
    pub(crate) now_ms: u64,
    random: Seeded,
    /// Of a thousand messages, so many are lost.
    pub(crate) loses: u64,
    /// Messages said so far.
    pub(crate) said: u64,
    /// Nodes whose machines hear nothing: a test answers in their place.
    pub(crate) deaf: BTreeSet<usize>,
    /// Whether messages are lost that give the roster of an epoch that is over.
    pub(crate) loses_earlier: bool,
    /// How far the wall clocks of some nodes are ahead, in milliseconds.
    pub(crate) ahead_ms: BTreeMap<usize, u64>,
}

#[derive(Clone, Copy)]
enum Step {
    Deliver(usize, usize),
    Flush(usize),
}

impl Net {
    pub(crate) fn new(count: u8, seed: u64) -> Self {
        let mut net = Self {
            nodes: Vec::new(),
            wires: BTreeMap::new(),
            links: BTreeSet::new(),
            now_ms: START_MS,
            random: Seeded::new(seed),
            loses: 0,
            said: 0,
            deaf: BTreeSet::new(),
            loses_earlier: false,
            ahead_ms: BTreeMap::new(),
        };
        for number in 0..count {
            let account = account(number);
            let signer = signer(&account, number);
            net.nodes.push(Node {
                did: account.did(),
                key: account.key().clone(),
                number,
                signer,
                groups: None,
                store: Some(MemoryLogs::default()),
                answers: BTreeMap::new(),
                events: Vec::new(),
                failed: None,
                given: 0,
                taken: 0,
                next_ask: 0,
                lives: 0,
                dirty: false,
            });
            net.start(usize::from(number));
        }
        net
    }

    /// As [`new`](Self::new), everybody linked to everybody.
    pub(crate) fn linked(count: u8, seed: u64) -> Self {
        let mut net = Self::new(count, seed);
        for one in 0..usize::from(count) {
            for other in 0..one {
                net.link(one, other);
            }
        }
        net
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            wall_ms: self.now_ms,
            steady_ms: self.now_ms - START_MS,
        }
    }

    /// The same by the clocks of one node.
    fn now_of(&self, node: usize) -> Now {
        let now = self.now();
        Now {
            wall_ms: now.wall_ms + self.ahead_ms.get(&node).unwrap_or(&0),
            ..now
        }
    }

    pub(crate) fn groups(&mut self, node: usize) -> &mut Groups<MemoryLogs> {
        self.nodes[node].dirty = true;
        self.nodes[node].groups.as_mut().expect("the node is up")
    }

    pub(crate) fn start(&mut self, node: usize) {
        let now = self.now();
        let it = &mut self.nodes[node];
        it.lives += 1;
        let own = Own {
            signer: Arc::clone(&it.signer),
            secret: SealingSecret::of_account(&account(it.number)),
            seed: Zeroizing::new(
                [it.number + 100 * (it.lives % 2); 32].map(|byte| byte ^ it.lives),
            ),
        };
        let store = it.store.take().expect("the node is down").reopened();
        it.groups = Some(Groups::open(store, own, now).expect("it opens"));
        it.dirty = true;
        it.failed = None;
        let far: Vec<_> = self.far(node).collect();
        for far in far {
            let (did, own) = (self.nodes[far].did, self.nodes[node].did);
            self.groups(node).handle_linked(did, now);
            if self.nodes[far].groups.is_some() {
                self.groups(far).handle_linked(own, now);
            }
        }
    }

    /// The node loses everything but what is durable.
    pub(crate) fn crash(&mut self, node: usize) {
        let groups = self.nodes[node].groups.take().expect("the node is up");
        self.nodes[node].store = Some(groups.into_store());
        self.nodes[node].answers.clear();
        self.wires
            .retain(|(from, to), _| *from != node && *to != node);
        let now = self.now();
        let did = self.nodes[node].did;
        let far: Vec<_> = self.far(node).collect();
        for far in far {
            if self.nodes[far].groups.is_some() {
                self.groups(far).handle_unlinked(did, now);
            }
        }
    }

    /// What is durable at a node now.
    pub(crate) fn copied(&mut self, node: usize) -> MemoryLogs {
        self.groups(node).logs().store().clone()
    }

    /// The node is put back from a copy of what was durable.
    pub(crate) fn put_back(&mut self, node: usize, copy: MemoryLogs) {
        self.crash(node);
        self.nodes[node].store = Some(copy);
        self.start(node);
    }

    pub(crate) fn link(&mut self, one: usize, other: usize) {
        self.links.insert((one.min(other), one.max(other)));
        let now = self.now();
        for (at, far) in [(one, other), (other, one)] {
            let did = self.nodes[far].did;
            if self.nodes[at].groups.is_some() && self.nodes[far].groups.is_some() {
                self.groups(at).handle_linked(did, now);
            }
        }
    }

    pub(crate) fn unlink(&mut self, one: usize, other: usize) {
        self.links.remove(&(one.min(other), one.max(other)));
        self.wires.remove(&(one, other));
        self.wires.remove(&(other, one));
        let now = self.now();
        for (at, far) in [(one, other), (other, one)] {
            let did = self.nodes[far].did;
            if self.nodes[at].groups.is_some() {
                self.groups(at).handle_unlinked(did, now);
            }
        }
    }

    fn far(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        let links = self.links.clone();
        links
            .into_iter()
            .filter_map(move |(one, other)| match node {
                it if it == one => Some(other),
                it if it == other => Some(one),
                _ => None,
            })
    }

    /// Asks; what comes of it is among the node's answers.
    pub(crate) fn ask(&mut self, node: usize, ask: Ask) -> AskId {
        let now = self.now_of(node);
        self.nodes[node].next_ask += 1;
        let id = AskId(self.nodes[node].next_ask);
        self.groups(node).ask(id, ask, now);
        id
    }

    /// Asks, and lets happen what can until it is answered.
    pub(crate) fn asked(&mut self, node: usize, ask: Ask) -> Result<Reply, GroupsError> {
        let id = self.ask(node, ask);
        self.run_until(|net| net.nodes[node].answers.contains_key(&id));
        self.nodes[node]
            .answers
            .remove(&id)
            .expect("it is answered")
    }

    /// Lets things happen in an order the seed decides, and time pass, until `done`.
    pub(crate) fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            if !self.step() {
                self.pass_time();
            }
        }
        panic!("it never comes to that");
    }

    /// Lets everything happen that can without time passing.
    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    /// Lets so much time pass, and everything happen in it.
    pub(crate) fn run_for(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        self.settle();
        while self.next_due_ms() <= until_ms {
            self.pass_time();
            self.settle();
        }
        self.now_ms = until_ms;
    }

    fn step(&mut self) -> bool {
        let mut steps = Vec::new();
        for (&(from, to), wire) in &self.wires {
            if !wire.is_empty() && self.nodes[to].groups.is_some() && !self.deaf.contains(&to) {
                steps.push(Step::Deliver(from, to));
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if node.dirty && node.groups.is_some() {
                steps.push(Step::Flush(index));
            }
        }
        if steps.is_empty() {
            return false;
        }
        let chosen = self.random.below(steps.len() as u64);
        match steps[usize::try_from(chosen).unwrap()] {
            Step::Deliver(from, to) => self.deliver(from, to),
            Step::Flush(node) => self.flush(node),
        }
        true
    }

    pub(crate) fn deliver(&mut self, from: usize, to: usize) {
        let Some(data) = self
            .wires
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front)
        else {
            return;
        };
        if self.random.below(1_000) < self.loses {
            return;
        }
        let (did, now) = (self.nodes[from].did, self.now_of(to));
        let body = data.message().body().to_vec();
        if self.loses_earlier && body.get(..2) == Some(&[0x82, 8]) {
            return;
        }
        self.nodes[to].given += 1;
        self.groups(to).handle_message(did, &body, now);
    }

    pub(crate) fn flush(&mut self, node: usize) {
        let now = self.now_of(node);
        let groups = self.groups(node);
        groups.flush(now);
        let effects: Vec<_> = std::iter::from_fn(|| groups.poll_effect()).collect();
        self.nodes[node].dirty = false;
        for effect in effects {
            let it = &mut self.nodes[node];
            match effect {
                Effect::Say { to, data } => self.say(node, to, data),
                Effect::Taken => it.taken += 1,
                Effect::Answer(id, answer) => {
                    assert!(it.answers.insert(id, answer).is_none(), "answered twice");
                }
                Effect::Event(event) => it.events.push(event),
                Effect::Failed { cause } => {
                    assert!(it.failed.replace(cause).is_none(), "it fails once");
                }
            }
        }
    }

    fn say(&mut self, from: usize, to: Did, data: Data) {
        self.said += 1;
        let now = self.now_of(from);
        let far = self.nodes.iter().position(|node| node.did == to);
        let reached = far.filter(|far| {
            let link = (from.min(*far), from.max(*far));
            self.links.contains(&link) && self.nodes[*far].groups.is_some()
        });
        let result = match reached {
            Some(far) => {
                self.wires.entry((from, far)).or_default().push_back(data);
                Ok(())
            }
            None => Err("send/unreachable"),
        };
        self.groups(from).handle_said(to, result, now);
    }

    fn next_due_ms(&self) -> u64 {
        let nodes = self.nodes.iter();
        let due = nodes.filter_map(|node| node.groups.as_ref()?.poll_timeout());
        due.min()
            .map_or(u64::MAX, |due| START_MS.saturating_add(due))
    }

    fn pass_time(&mut self) {
        self.now_ms = self.now_ms.max(self.next_due_ms());
        for node in 0..self.nodes.len() {
            let now = self.now_of(node);
            if self.nodes[node].groups.is_some() {
                self.groups(node).handle_timeout(now);
            }
        }
    }

    // What groups do most.

    pub(crate) fn create(&mut self, node: usize, hosts: &[usize]) -> GroupId {
        let ask = Ask::Create {
            name: "team".into(),
            hosts: hosts.iter().map(|host| self.nodes[*host].did).collect(),
        };
        match self.asked(node, ask) {
            Ok(Reply::Group(view)) => view.group,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn invite(&mut self, owner: usize, group: GroupId, who: usize) -> GroupTicket {
        let ask = Ask::Invite {
            group,
            account: self.nodes[who].did,
            member: SealingKey::of_account(&self.nodes[who].key),
            hosts: false,
        };
        match self.asked(owner, ask) {
            Ok(Reply::Ticket(ticket)) => *ticket,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn join(&mut self, node: usize, ticket: GroupTicket) -> GroupView {
        match self.asked(node, Ask::Join { ticket, name: None }) {
            Ok(Reply::Group(view)) => *view,
            other => panic!("{other:?}"),
        }
    }

    /// Node 0 owns and hosts a group, and the others are members.
    pub(crate) fn team(&mut self) -> GroupId {
        let group = self.create(0, &[]);
        for node in 1..self.nodes.len() {
            let ticket = self.invite(0, group, node);
            let view = self.join(node, ticket);
            assert!(view.member, "{view:?}");
        }
        group
    }

    pub(crate) fn post(&mut self, node: usize, group: GroupId, bodies: &[&str]) -> AskId {
        let bodies = bodies.iter().map(|body| body.as_bytes().to_vec()).collect();
        self.ask(node, Ask::Post { group, bodies })
    }

    /// All posts that a node has, in the order it reads them.
    pub(crate) fn read(&mut self, node: usize, group: GroupId, complete: bool) -> Vec<PostView> {
        let mut posts = Vec::new();
        let mut next = Some(0);
        while let Some(from) = next {
            let ask = Ask::Read {
                group,
                from,
                most: PAGE_MAX,
                complete,
            };
            match self.asked(node, ask) {
                Ok(Reply::Page(page)) => {
                    posts.extend(page.posts);
                    next = page.next;
                }
                other => panic!("{other:?}"),
            }
        }
        posts
    }

    pub(crate) fn bodies(&mut self, node: usize, group: GroupId) -> Vec<String> {
        let posts = self.read(node, group, true).into_iter();
        let body = |post: PostView| String::from_utf8(post.body.expect("it opens")).unwrap();
        posts.map(body).collect()
    }

    /// Envelopes that a node holds, without any step.
    pub(crate) fn held(&mut self, node: usize, group: GroupId) -> u64 {
        let groups = self.nodes[node].groups.as_mut().expect("the node is up");
        groups.logs().size(&LogId::group(group)).unwrap().0
    }

    /// Counts of a node, without any step.
    pub(crate) fn counters(&self, node: usize) -> GroupCounters {
        let groups = self.nodes[node].groups.as_ref().expect("the node is up");
        groups.counters()
    }

    /// Runs until the nodes hold as many posts as said, and those that follow know that it is all.
    pub(crate) fn run_until_all_hold(&mut self, nodes: &[usize], group: GroupId, count: u64) {
        self.run_until(|net| nodes.iter().all(|node| net.held(*node, group) == count));
        self.run_until(|net| {
            nodes.iter().all(|node| {
                let id = AskId(u64::MAX - *node as u64);
                let now = net.now();
                let ask = Ask::Read {
                    group,
                    from: count,
                    most: 1,
                    complete: true,
                };
                net.groups(*node).ask(id, ask, now);
                net.flush(*node);
                let answer = net.nodes[*node].answers.remove(&id);
                matches!(answer, Some(Ok(Reply::Page(page))) if !page.posts.is_empty())
            })
        });
    }

    /// The frames of logs on their way from one node to another.
    pub(crate) fn frames(&self, from: usize, to: usize) -> Vec<&'static str> {
        let wire = self.wires.get(&(from, to)).into_iter().flatten();
        wire.flat_map(|data| frames_in(data.message().body()))
            .collect()
    }
}
