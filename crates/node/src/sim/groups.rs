//! Groups: what their people do, and the keeper of groups of each node. The simulated twin of
//! `runtime::keeper`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use overlane_core::group::GroupId;
use overlane_core::identity::CLOCK_SKEW_MS;
use overlane_core::seal::SealingKey;
use overlane_core::transaction::Message;
use overlane_core::{Coded, Did};
use overlane_relay::log::EnvelopeId;
use overlane_storage_native::LogsStore;

use super::check::Read;
use super::clock::START_MS;
use super::mailbox::OnDisk;
use super::names::Broken;
use super::node::seed_of;
use super::report::Phase;
use super::world::{Event, Life, World};
use crate::peer::groups::{
    Ask, AskId, Effect, GroupEvent, GroupTicket, Groups, GroupsError, Own, PAGE_MAX, PostView,
    Reply,
};
use crate::peer::{Heard, Keeper, Now};

/// Members of a group, its owner among them; one more hosts it and reads nothing.
const MEMBERS: usize = 5;

/// Fewest nodes of a simulation with groups.
const NODES_LEAST: usize = 4;

/// Between two things that the people of a group do.
const STEP_MS: (u64, u64) = (1_000, 5_000);

/// A group, and how far its people are with it.
#[derive(Debug)]
pub(super) struct SimGroup {
    /// The owner first; the last is removed some time.
    members: Vec<usize>,
    host: usize,
    ticket: Option<GroupTicket>,
    invited: BTreeSet<usize>,
    joined: BTreeSet<usize>,
    /// The revision of the roster that the last member is not on.
    removed_at: Option<u64>,
    /// What the last member wrote.
    wrote: BTreeSet<EnvelopeId>,
    /// When each post was written, in simulated time.
    posted_ms: BTreeMap<EnvelopeId, u64>,
    posts: u64,
}

/// What an application waits for.
#[derive(Debug)]
enum Doing {
    Create(usize),
    Invite(usize, usize),
    Join(usize),
    Remove(usize),
    Post(usize, Vec<Vec<u8>>),
    Look,
    Read(usize, Option<Did>),
}

/// What a keeper is to hear.
#[derive(Debug)]
enum Input {
    Heard(Heard),
    Ask(AskId, Box<Ask>),
}

/// What a node's process has of groups.
#[derive(Debug)]
pub(super) struct GroupRoom {
    groups: Groups<LogsStore>,
    inputs: VecDeque<Input>,
    due: bool,
    wake_ms: Option<u64>,
    doing: BTreeMap<AskId, Doing>,
    next_ask: u64,
    /// Pages of groups that are being read.
    pages: BTreeMap<usize, Vec<Read>>,
    /// The newest rosters that its application heard of.
    revisions: BTreeMap<GroupId, u64>,
    now: Now,
    deaf: bool,
}

impl GroupRoom {
    /// Does what waits, and makes it durable.
    fn work(&mut self, now: Now) -> Vec<Effect> {
        self.now = now;
        self.groups.handle_timeout(now);
        while let Some(input) = self.inputs.pop_front() {
            match input {
                Input::Heard(Heard::Message { delivery, .. }) => {
                    let payload = delivery.item();
                    let (from, message) = (payload.origin(), payload.message());
                    let body = match message {
                        Message::Application { body, .. } if !self.deaf => body,
                        _ => &[][..],
                    };
                    self.groups.handle_message(from, body, now);
                }
                Input::Heard(Heard::Linked(peer)) => self.groups.handle_linked(peer, now),
                Input::Heard(Heard::Unlinked(peer)) => self.groups.handle_unlinked(peer, now),
                Input::Heard(Heard::Said { to, result }) => {
                    self.groups.handle_said(to, result, now);
                }
                Input::Ask(id, ask) => self.groups.ask(id, *ask, now),
            }
            if self.groups.is_full() {
                break;
            }
        }
        self.groups.flush(now);
        std::iter::from_fn(|| self.groups.poll_effect()).collect()
    }

    fn ask(&mut self, ask: Ask, doing: Doing) {
        self.next_ask += 1;
        let id = AskId(self.next_ask);
        self.doing.insert(id, doing);
        self.inputs.push_back(Input::Ask(id, Box::new(ask)));
    }
}

impl OnDisk for GroupRoom {
    fn rests(&self) -> bool {
        self.inputs.is_empty()
    }

    fn finish(&mut self) {
        while !self.inputs.is_empty() {
            self.work(self.now);
        }
    }
}

impl World<'_> {
    /// Chooses the groups and their people.
    pub(super) fn begin_groups(&mut self) {
        if !self.config.has_groups() || self.nodes.len() < NODES_LEAST {
            return;
        }
        for number in 0..self.config.groups {
            let mut people = Vec::new();
            let honest = self.nodes.len() - self.hostile.len();
            while people.len() < honest.min(MEMBERS + 1) {
                let drawn = self.any_of(self.nodes.len());
                if !people.contains(&drawn) && !self.hostile.contains(&drawn) {
                    people.push(drawn);
                }
            }
            let host = people.pop().unwrap_or_default();
            self.groups.push(SimGroup {
                members: people,
                host,
                ticket: None,
                invited: BTreeSet::new(),
                joined: BTreeSet::new(),
                removed_at: None,
                wrote: BTreeSet::new(),
                posted_ms: BTreeMap::new(),
                posts: 0,
            });
            self.group_later(number);
        }
    }

    fn group_later(&mut self, group: usize) {
        let wait_ms = self.between(STEP_MS.0, STEP_MS.1);
        self.after(wait_ms, Event::Group(group));
    }

    /// Opens a node's store of groups.
    ///
    /// # Errors
    /// As the store says.
    pub(super) fn open_groups(&mut self, number: usize) -> Result<Option<LogsStore>, String> {
        let node = self.nodes.get_mut(number);
        match node.filter(|_| self.config.has_groups()) {
            Some(node) => node.group_disk.open_store().map(Some),
            None => Ok(None),
        }
    }

    /// A node that has just started keeps groups.
    ///
    /// # Errors
    /// What the store holds does not read.
    pub(super) fn begin_keeping(
        &mut self,
        number: usize,
        store: Option<LogsStore>,
    ) -> Result<(), String> {
        let Some(store) = store else {
            return Ok(());
        };
        let deaf = self.is_broken(Broken::DeafKeeper);
        let (seed, names) = (seed_of(&mut self.chance), *seed_of(&mut self.chance));
        let now = self.now_at(number);
        let Some(node) = self.nodes.get_mut(number) else {
            return Ok(());
        };
        let (secret, life) = (node.sealing(), node.life);
        let Some(running) = &mut node.running else {
            return Ok(());
        };
        let own = Own {
            signer: Arc::clone(&running.signer),
            secret,
            seed,
        };
        let groups = Groups::open(store, own, now).map_err(|error| error.to_string())?;
        running.peer.attach_keeper(Keeper::Groups, names);
        running.groups = Some(GroupRoom {
            groups,
            inputs: VecDeque::new(),
            due: false,
            wake_ms: None,
            doing: BTreeMap::new(),
            next_ask: 0,
            pages: BTreeMap::new(),
            revisions: BTreeMap::new(),
            now,
            deaf: deaf && life > 1,
        });
        self.keeper_soon(number);
        Ok(())
    }

    // The keeper's thread.

    /// The peer has something for a keeper.
    pub(super) fn hear(&mut self, node: usize, heard: Heard) {
        let Some(room) = self.running(node).and_then(|it| it.groups.as_mut()) else {
            return self.broke("one keeper of groups", format!("node {node} has none"));
        };
        room.inputs.push_back(Input::Heard(heard));
        self.keeper_soon(node);
    }

    fn ask_groups(&mut self, node: usize, ask: Ask, doing: Doing) {
        let running = self.running(node).filter(|it| !it.leaving);
        if let Some(room) = running.and_then(|it| it.groups.as_mut()) {
            room.ask(ask, doing);
            self.keeper_soon(node);
        }
    }

    fn keeper_soon(&mut self, node: usize) {
        let life = self.life(node);
        let room = self.running(node).and_then(|it| it.groups.as_mut());
        if room.is_some_and(|room| !std::mem::replace(&mut room.due, true)) {
            let slow = self.permille(20);
            let wait_ms = self.idle_ms(node) + self.chance.below(if slow { 200 } else { 4 });
            self.maybe_cut_power(life, wait_ms);
            self.after(wait_ms, Event::Keeper(life));
        }
    }

    /// A node's keeper of groups works.
    pub(super) fn keeper_works(&mut self, life: Life) {
        let node = life.node;
        let now = self.now_at(node);
        let Some(running) = self.living(life) else {
            return;
        };
        let Some(room) = &mut running.groups else {
            return;
        };
        room.due = false;
        room.wake_ms = None;
        room.groups.sign_with(Arc::clone(&running.signer));
        let effects = room.work(now);
        let more = !room.inputs.is_empty();
        if let Some(node) = self.nodes.get_mut(node) {
            node.group_disk.wrote(false);
        }
        for effect in effects {
            self.keeper_did(life, effect, now);
        }
        if more {
            self.keeper_soon(node);
        }
        self.wake_keeper(node);
        self.dirty_nodes.insert(node);
    }

    /// A keeper is due.
    pub(super) fn keeper_due(&mut self, life: Life) {
        let now = self.now_at(life.node);
        let room = self.living(life).and_then(|it| it.groups.as_mut());
        let Some(room) = room else {
            return;
        };
        room.wake_ms = None;
        let due = room.groups.poll_timeout();
        if due.is_some_and(|due_ms| due_ms <= now.steady_ms) {
            self.keeper_soon(life.node);
        } else {
            self.wake_keeper(life.node);
        }
    }

    fn wake_keeper(&mut self, node: usize) {
        let (life, now_ms) = (self.life(node), self.now_ms);
        let clock = self.nodes.get(node).map(|it| it.clock);
        let room = self.running(node).and_then(|it| it.groups.as_mut());
        let Some((room, clock)) = room.zip(clock).filter(|it| !it.0.due) else {
            return;
        };
        let due_ms = room
            .groups
            .poll_timeout()
            .map(|due| clock.when(due, now_ms));
        if let Some(due_ms) = due_ms.filter(|due| room.wake_ms.is_none_or(|at| *due < at)) {
            room.wake_ms = Some(due_ms);
            self.queue.push(due_ms, Event::KeeperDue(life));
        }
    }

    fn keeper_did(&mut self, life: Life, effect: Effect, now: Now) {
        let node = life.node;
        match effect {
            Effect::Say { to, data } => {
                if let Some(running) = self.running(node) {
                    running.peer.say_for(Keeper::Groups, to, data, now);
                }
            }
            Effect::Taken => {
                if let Some(running) = self.running(node) {
                    running.peer.handle_keeper_took(Keeper::Groups, now);
                }
            }
            Effect::Answer(id, result) => {
                let room = self.running(node).and_then(|it| it.groups.as_mut());
                match room.and_then(|room| room.doing.remove(&id)) {
                    Some(doing) => self.group_answered(node, doing, result),
                    None => {
                        let words = format!("node {node} answered a request twice");
                        self.broke("one result a request", words);
                    }
                }
            }
            Effect::Event(event) => self.group_told(node, event),
            Effect::Failed { .. } => {
                self.counts.stores_failed += 1;
                if let Some(state) = self.nodes.get_mut(node) {
                    state.store_failed = true;
                }
                self.mend_later(life);
            }
        }
    }

    // What people do.

    /// The people of a group do the next thing.
    pub(super) fn group_step(&mut self, number: usize) {
        if matches!(self.phase, Phase::Healed | Phase::Over) {
            return;
        }
        self.group_later(number);
        let Some(group) = self.groups.get(number) else {
            return;
        };
        let owner = group.members.first().copied().unwrap_or_default();
        let signs = self.is_dated_right(owner);
        let people = group.members.iter().skip(1).chain([&group.host]).copied();
        let uninvited = people.clone().find(|it| !group.invited.contains(it));
        let outside: Vec<usize> = people
            .filter(|it| group.invited.contains(it) && !group.joined.contains(it))
            .collect();
        // The owner is in it from the start; the host joins too.
        let all = group.joined.len() == group.members.len();
        let may_remove = all && group.removed_at.is_none() && self.now_ms > self.remove_ms();
        match (group.ticket.clone(), uninvited) {
            _ if !signs => {}
            (None, _) => self.create(number, owner),
            (Some(ticket), Some(who)) => self.invite(number, owner, who, &ticket),
            (Some(_), None) if may_remove => self.remove(number, owner),
            _ => {}
        }
        for who in outside {
            let ticket = self.groups.get(number).and_then(|it| it.ticket.clone());
            if let Some(ticket) = ticket {
                let ask = Ask::Join { ticket, name: None };
                self.ask_groups(who, ask, Doing::Join(number));
            }
        }
        if self.phase == Phase::Faults {
            self.post(number);
        }
    }

    /// Whether what a node signs is of this time, and so its delegation: what is dated ahead is refused until
    /// then, by each node at another time.
    fn is_dated_right(&self, node: usize) -> bool {
        let Some(node) = self.nodes.get(node) else {
            return false;
        };
        let signer = node.running.as_ref().map(|it| &it.signer);
        let issued_ms = signer.map(|it| it.delegation().life().issued_ms);
        let true_ms = START_MS + self.now_ms;
        let right = issued_ms.is_some_and(|it| it <= true_ms + CLOCK_SKEW_MS);
        node.clock.wrong_by_ms == 0 && right
    }

    fn remove_ms(&self) -> u64 {
        self.config.minutes * 60_000 / 2
    }

    fn create(&mut self, number: usize, owner: usize) {
        let host = self.groups.get(number).map(|it| it.host);
        let host = host.and_then(|it| self.nodes.get(it)).map(|it| it.did);
        let ask = Ask::Create {
            name: format!("group {number}"),
            hosts: host.into_iter().collect(),
        };
        self.ask_groups(owner, ask, Doing::Create(number));
    }

    fn invite(&mut self, number: usize, owner: usize, who: usize, ticket: &GroupTicket) {
        let host = self.groups.get(number).is_some_and(|it| it.host == who);
        if host {
            // It was named when the group was made.
            if let Some(group) = self.groups.get_mut(number) {
                group.invited.insert(who);
            }
            return;
        }
        let Some((account, key)) = self.nodes.get(who).map(|it| (it.did, it.key())) else {
            return;
        };
        let ask = Ask::Invite {
            group: ticket.group,
            account,
            member: SealingKey::of_account(&key),
            hosts: false,
        };
        self.ask_groups(owner, ask, Doing::Invite(number, who));
    }

    fn remove(&mut self, number: usize, owner: usize) {
        let Some(group) = self.groups.get_mut(number) else {
            return;
        };
        let who = group.members.last().and_then(|&it| self.nodes.get(it));
        let Some((who, ticket)) = who.map(|it| it.did).zip(group.ticket.clone()) else {
            return;
        };
        self.group_watch.removes(number, who, &group.wrote);
        if self.config.broken == Some(Broken::ForgottenRemoval) {
            group.removed_at = Some(u64::MAX);
            return;
        }
        let ask = Ask::Remove {
            group: ticket.group,
            account: who,
        };
        self.ask_groups(owner, ask, Doing::Remove(number));
    }

    fn post(&mut self, number: usize) {
        let count = self.groups.get(number).map_or(0, |it| it.members.len());
        let (drawn, posts) = (self.any_of(count), self.between(1, 3));
        let Some(group) = self.groups.get_mut(number) else {
            return;
        };
        let Some(&who) = group.members.get(drawn) else {
            return;
        };
        let Some(id) = group.ticket.as_ref().map(|it| it.group) else {
            return;
        };
        let owner = group.members.first() == Some(&who);
        let removed = group.removed_at.is_some() && group.members.last() == Some(&who);
        if removed || !owner && !group.joined.contains(&who) {
            return;
        }
        let bodies: Vec<Vec<u8>> = (0..posts)
            .map(|_| {
                group.posts += 1;
                format!("post {} of group {number}", group.posts).into_bytes()
            })
            .collect();
        let removed_at = group.removed_at;
        if !self.is_dated_right(who) {
            return;
        }
        let room = self.running(who).and_then(|it| it.groups.as_mut());
        let Some(room) = room else {
            return;
        };
        let heard = room.revisions.get(&id).copied().unwrap_or_default();
        let knows = removed_at.is_some_and(|at| owner || heard >= at);
        for body in bodies.iter().filter(|_| knows) {
            self.group_watch.posts_later(number, body);
        }
        let ask = Ask::Post {
            group: id,
            bodies: bodies.clone(),
        };
        self.ask_groups(who, ask, Doing::Post(number, bodies));
    }

    /// Everything healed: members read what they have, from the first post.
    pub(super) fn read_groups(&mut self) {
        // The host too, which reads nothing: it is its numbers that others have.
        let people = self
            .groups
            .iter()
            .flat_map(|it| it.members.iter().chain([&it.host]));
        let people: BTreeSet<usize> = people.copied().collect();
        for who in people {
            let room = self.running(who).and_then(|it| it.groups.as_ref());
            let reading = room.is_some_and(|room| !room.doing.is_empty());
            if !reading {
                self.ask_groups(who, Ask::List, Doing::Look);
            }
        }
    }

    /// What members lack of posts.
    pub(super) fn groups_lack(&self) -> Option<String> {
        let mut groups = self.groups.iter().enumerate();
        groups.find_map(|(number, group)| {
            let joined =
                |it: &&usize| group.members.first() == Some(*it) || group.joined.contains(*it);
            let members = group.members.iter().filter(joined);
            let members = members.filter_map(|&it| Some(self.nodes.get(it)?.did));
            self.group_watch.lacks(number, &members.collect::<Vec<_>>())
        })
    }

    fn group_answered(&mut self, node: usize, doing: Doing, result: Result<Reply, GroupsError>) {
        let did = self
            .nodes
            .get(node)
            .map(|it| it.did)
            .unwrap_or(Did([0; 20]));
        if let Err(error) = &result {
            let refused = &mut self.counts.groups.refused;
            *refused.entry(error.code()).or_default() += 1;
        }
        match (doing, result) {
            (Doing::Create(number), Ok(Reply::Group(view))) => {
                let host = self
                    .groups
                    .get(number)
                    .and_then(|it| self.nodes.get(it.host));
                let hosts = [Some(did), host.map(|it| it.did)];
                if let Some(group) = self.groups.get_mut(number) {
                    group.ticket.get_or_insert(GroupTicket {
                        network: view.network,
                        group: view.group,
                        owner: view.owner,
                        revision: view.revision,
                        hosts: hosts.into_iter().flatten().collect(),
                        name: view.name,
                        url: None,
                    });
                    self.counts.groups.groups += 1;
                }
            }
            (
                Doing::Invite(number, who),
                Ok(Reply::Ticket(_)) | Err(GroupsError::InAlready { .. }),
            ) => {
                if let Some(group) = self.groups.get_mut(number) {
                    group.invited.insert(who);
                }
            }
            (Doing::Join(number), Ok(Reply::Group(view))) => {
                self.joined(node, number, view.revision);
            }
            // It looks whether the roster has come meanwhile.
            (Doing::Join(_), Err(GroupsError::KnownAlready { .. })) => {
                self.ask_groups(node, Ask::List, Doing::Look);
            }
            (Doing::Remove(number), Ok(Reply::Group(view))) => {
                self.counts.groups.removed += 1;
                if let Some(group) = self.groups.get_mut(number) {
                    group.removed_at.get_or_insert(view.revision);
                }
            }
            // It was done before the process ended that was asked.
            (Doing::Remove(number), Err(GroupsError::NotIn { .. })) => {
                if let Some(group) = self.groups.get_mut(number) {
                    group.removed_at.get_or_insert(u64::MAX);
                }
            }
            (Doing::Post(number, bodies), Ok(Reply::Posted(posted))) => {
                let now_ms = self.now_ms;
                for (post, body) in posted.iter().zip(&bodies) {
                    self.counts.groups.posts += 1;
                    let noted: [&[u8]; 3] = [b"posted", &did.0, &post.id.0];
                    self.trace.note(now_ms, &noted, || {
                        format!("node {node} posted {} to group {number}", post.id)
                    });
                    self.group_watch.posted(number, did, post.id, body);
                    if let Some(group) = self.groups.get_mut(number) {
                        group.posted_ms.insert(post.id, now_ms);
                        if group.members.last() == Some(&node) {
                            group.wrote.insert(post.id);
                        }
                    }
                }
            }
            (Doing::Look, Ok(Reply::Groups(views))) => {
                for view in views {
                    if let Some(number) = self.group_of(view.group) {
                        self.joined(node, number, view.revision);
                        self.read_from(node, number, view.group, 0, view.follows);
                    }
                }
            }
            (Doing::Read(number, follows), Ok(Reply::Page(page))) => {
                self.read_page(node, number, page.posts, page.next, follows);
            }
            _ => {}
        }
    }

    /// A node is in a group once it has a roster: with it come the keys, of the epoch that it is of and no earlier.
    fn joined(&mut self, node: usize, number: usize, revision: u64) {
        let group = self.groups.get_mut(number).filter(|_| revision > 0);
        let Some(group) = group.filter(|it| it.members.first() != Some(&node)) else {
            return;
        };
        if (group.members.contains(&node) || group.host == node) && group.joined.insert(node) {
            self.counts.groups.joined += 1;
        }
    }

    fn group_of(&self, id: GroupId) -> Option<usize> {
        let is_it = |it: &SimGroup| it.ticket.as_ref().is_some_and(|it| it.group == id);
        self.groups.iter().position(is_it)
    }

    fn read_from(
        &mut self,
        node: usize,
        number: usize,
        group: GroupId,
        from: u64,
        of: Option<Did>,
    ) {
        let ask = Ask::Read {
            group,
            from,
            most: PAGE_MAX,
            complete: false,
        };
        self.ask_groups(node, ask, Doing::Read(number, of));
    }

    fn read_page(
        &mut self,
        node: usize,
        number: usize,
        posts: Vec<PostView>,
        next: Option<u64>,
        follows: Option<Did>,
    ) {
        let group = self.groups.get(number).and_then(|it| it.ticket.as_ref());
        let group = group.map(|it| it.group);
        let Some(did) = self.nodes.get(node).map(|it| it.did) else {
            return;
        };
        let Some(room) = self.running(node).and_then(|it| it.groups.as_mut()) else {
            return;
        };
        let read = room.pages.entry(number).or_default();
        read.extend(posts.into_iter().map(|post| Read {
            seq: post.seq,
            id: post.id,
            body: post.body,
        }));
        match (next, group) {
            (Some(from), Some(group)) => self.read_from(node, number, group, from, follows),
            _ => {
                let read = room.pages.remove(&number).unwrap_or_default();
                if let Err((law, words)) = self.group_watch.read(number, did, read, follows) {
                    self.broke(law, words);
                }
            }
        }
    }

    fn group_told(&mut self, node: usize, event: GroupEvent) {
        match event {
            GroupEvent::Kept {
                group, id, author, ..
            } => {
                let noted: [&[u8]; 3] = [b"post", &node.to_be_bytes(), &id.0];
                self.trace.note(self.now_ms, &noted, || {
                    format!("node {node} has post {id} of group {group}")
                });
                let started = self.nodes.get(node).map_or(0, |it| it.clock.started_ms);
                let did = self.nodes.get(node).map(|it| it.did);
                let number = self.group_of(group);
                let posted = number.and_then(|it| self.groups.get(it)?.posted_ms.get(&id).copied());
                if did != Some(author) {
                    self.counts.groups.came += 1;
                    if posted.is_some_and(|at_ms| at_ms < started) {
                        self.counts.groups.caught_up += 1;
                    }
                }
            }
            GroupEvent::PostRefused { group, id, code } => {
                *self.counts.groups.posts_refused.entry(code).or_default() += 1;
                if let Some(number) = self.group_of(group) {
                    self.group_watch.refused(number, id);
                }
            }
            GroupEvent::Roster { group, revision } => {
                let noted: [&[u8]; 3] = [b"roster", &node.to_be_bytes(), &revision.to_be_bytes()];
                self.trace.note(self.now_ms, &noted, || {
                    format!("node {node} has roster {revision} of group {group}")
                });
                if let Some(room) = self.running(node).and_then(|it| it.groups.as_mut()) {
                    room.revisions.insert(group, revision);
                }
                if let Some(number) = self.group_of(group) {
                    self.joined(node, number, revision);
                }
            }
            GroupEvent::Complete { .. } | GroupEvent::Keys { .. } => {}
        }
    }
}
