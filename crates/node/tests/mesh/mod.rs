//! Many peers on virtual time: simulated links, a store each that crashes, and one seed that
//! decides every interleaving. Nothing here waits for anything.

#![allow(dead_code, reason = "each test file uses its part of it")]

pub(crate) mod broken;
pub(crate) mod mail;
pub(crate) mod ring;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use overlane_core::e2e::Sessions;
use overlane_core::identity::{
    Account, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Life, Signer, VerifyContext,
};
use overlane_core::receipt::AdmissionSubject;
use overlane_core::replay::{Batch, BatchId, Now};
use overlane_core::seal::SealingSecret;
use overlane_core::store::{RecordStore, StoreError};
use overlane_core::transaction::{Data, Message, Namespace};
use overlane_core::wire::cbor::to_vec;
use overlane_core::{Class, Did, NetworkId, TransactionDigest, TxId};
use overlane_node::link::LinkId;
use overlane_node::peer::groups::{self, Groups};
use overlane_node::peer::refs::{self, Ask, AskId, References};
use overlane_node::peer::{
    Admission, Delivery, Effect, Event, Heard, Keeper, LaneAnswer, Outgoing, Peer, PlaceId,
    Receipt, SealJob, SealSeed, SealTicket, SendError, SendId, VerifyJob, VerifyTicket,
};
use overlane_relay::log::testkit::MemoryLogs;
use overlane_storage_native::testkit::{MemoryStore, Seeded};
use zeroize::Zeroizing;

use broken::Broken;

/// When every simulation begins, in milliseconds of Unix time.
pub(crate) const START_MS: u64 = 1_900_000_000_000;

/// The network of a mesh.
pub(crate) const NETWORK: NetworkId = NetworkId(7);

/// Frames that a simulated lane queues.
pub(crate) const LANE_PLACES: usize = 24;

/// Frames that a simulated lane lets be untaken at its far end.
const LANE_CREDIT: usize = 16;

/// One node of a mesh.
pub(crate) struct SimNode {
    pub(crate) did: Did,
    pub(crate) signer: Arc<Signer>,
    pub(crate) store: MemoryStore,
    /// `None` while it is crashed.
    peer: Option<Peer>,
    jobs: Vec<(VerifyTicket, VerifyJob)>,
    seals: Vec<(SealTicket, SealJob)>,
    /// Its account, and whether it takes the application's messages only if they are sealed.
    account: Account,
    pub(crate) requires_sealed: bool,
    /// Bodies that came in sessions: from whom, and what.
    pub(crate) in_sessions: Vec<(Did, Vec<u8>)>,
    starts: u8,
    writing: Option<Batch>,
    waiting: VecDeque<(PlaceId, Class, Delivery)>,
    /// Frames in its driver's hand, where drivers are slow.
    placing: VecDeque<(LinkId, Class, Vec<u8>)>,
    /// How far its wall clock is ahead of the mesh's time.
    pub(crate) ahead_ms: u64,
    /// Namespaces that it starts with as delegating their replay.
    pub(crate) delegating: Vec<&'static str>,
    /// Whether its application takes what was dispatched.
    pub(crate) takes: bool,
    /// Everything its application ever took, over all its lives.
    pub(crate) taken: Vec<Taken>,
    pub(crate) sent: BTreeMap<SendId, Result<Receipt, SendError>>,
    pub(crate) events: Vec<Event>,
    pub(crate) ring: ring::Ring,
    pub(crate) batches: u64,
    next_send: u64,
    /// What its store of references holds, if it has one.
    pub(crate) rows: Option<BTreeMap<Vec<u8>, Vec<u8>>>,
    committing: Option<refs::Commit>,
    /// What references told its application, in this life.
    pub(crate) told: Vec<refs::Effect>,
    next_ask: u64,
    lives: u8,
    /// Its groups, if it has a store of logs and is up.
    pub(crate) groups: Option<Groups<MemoryLogs>>,
    /// Its store of logs, while it is down.
    logs: Option<MemoryLogs>,
    /// What its groups have not heard yet.
    hearing: VecDeque<Heard>,
    pub(crate) answered: BTreeMap<groups::AskId, Result<groups::Reply, groups::GroupsError>>,
    pub(crate) mail: mail::Mail,
    /// The receipts that it asked for and that came.
    pub(crate) proofs: Vec<AdmissionSubject>,
}

/// A message that an application took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) class: Class,
    pub(crate) sequence: u64,
    pub(crate) digest: TransactionDigest,
    pub(crate) body: Vec<u8>,
}

/// One direction of one lane.
#[derive(Default)]
struct Lane {
    frames: VecDeque<Vec<u8>>,
    untaken: usize,
    refused: bool,
    delivered: u64,
    /// In a broken mesh: what waits, and since which delivery.
    held: Option<(u64, Vec<u8>)>,
}

impl Lane {
    /// Keeps a frame back until more than a window's worth has passed it.
    fn hold_back(&mut self, frame: Vec<u8>) -> Vec<u8> {
        const HELD_AT: u64 = 5;
        const PASSES: u64 = 40;
        match self.held.take() {
            None if self.delivered == HELD_AT => match self.frames.pop_front() {
                Some(next) => {
                    self.held = Some((self.delivered, frame));
                    next
                }
                None => frame,
            },
            Some((since, held)) if self.delivered == since + PASSES => {
                self.frames.push_front(frame);
                held
            }
            held => {
                self.held = held;
                frame
            }
        }
    }
}

/// The nodes, the links between them, the time.
pub(crate) struct Mesh {
    pub(crate) nodes: Vec<SimNode>,
    links: BTreeMap<LinkId, [usize; 2]>,
    lanes: BTreeMap<(LinkId, usize, Class), Lane>,
    next_link: u64,
    /// Links that take no frames any more, and are not told to be down.
    pub(crate) leaving: BTreeSet<LinkId>,
    pub(crate) now_ms: u64,
    random: Seeded,
    broken: Option<Broken>,
    /// Whether drivers put a frame in its lane some time after they were told to.
    pub(crate) slow_lanes: bool,
    /// Whether offers that come wait for ever.
    pub(crate) holds_offers: bool,
    /// Nodes that no link can be made between.
    pub(crate) apart: BTreeSet<usize>,
    /// Two nodes each that no link can be made between.
    pub(crate) strangers: BTreeSet<[usize; 2]>,
    /// Nodes that read nothing.
    pub(crate) deaf: BTreeSet<usize>,
    /// Nodes that read everything and do nothing about it.
    pub(crate) idle: BTreeSet<usize>,
    /// Control frames that those read, and who sent them.
    pub(crate) told_idle: Vec<(usize, Vec<u8>)>,
    /// Whether nodes may close links, and those they closed: by whom, to whom.
    pub(crate) may_close: bool,
    pub(crate) closed: Vec<(usize, Did)>,
    /// Every frame that this node put in a lane, or that came to it, if somebody listens.
    pub(crate) overheard: Option<(usize, Vec<Vec<u8>>)>,
}

/// Something that can happen next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Deliver(LinkId, usize, Class),
    Verify(usize, usize),
    Seal(usize, usize),
    Write(usize),
    Take(usize),
    Place(usize),
    Commit(usize),
    Keep(usize),
    KeepMail(usize),
}

impl Mesh {
    /// `count` nodes without links; `seed` decides every interleaving.
    pub(crate) fn new(count: usize, seed: u64) -> Self {
        let mut mesh = Self {
            nodes: Vec::new(),
            links: BTreeMap::new(),
            lanes: BTreeMap::new(),
            next_link: 0,
            leaving: BTreeSet::new(),
            now_ms: START_MS,
            random: Seeded::new(seed),
            broken: broken::now(),
            holds_offers: false,
            slow_lanes: false,
            apart: BTreeSet::new(),
            strangers: BTreeSet::new(),
            deaf: BTreeSet::new(),
            idle: BTreeSet::new(),
            told_idle: Vec::new(),
            may_close: false,
            closed: Vec::new(),
            overheard: None,
        };
        for index in 0..count {
            let signer = signer(u8::try_from(index).unwrap(), NETWORK, START_MS);
            let store = MemoryStore::new();
            mesh.nodes.push(SimNode {
                did: signer.did(),
                signer,
                store,
                peer: None,
                jobs: Vec::new(),
                seals: Vec::new(),
                account: account(u8::try_from(index).unwrap()),
                requires_sealed: false,
                in_sessions: Vec::new(),
                starts: 0,
                writing: None,
                waiting: VecDeque::new(),
                placing: VecDeque::new(),
                ahead_ms: 0,
                delegating: Vec::new(),
                takes: true,
                taken: Vec::new(),
                sent: BTreeMap::new(),
                events: Vec::new(),
                ring: ring::Ring::default(),
                batches: 0,
                next_send: 0,
                rows: None,
                committing: None,
                told: Vec::new(),
                next_ask: 0,
                lives: 0,
                groups: None,
                logs: None,
                hearing: VecDeque::new(),
                answered: BTreeMap::new(),
                mail: mail::Mail::default(),
                proofs: Vec::new(),
            });
            mesh.start(index, true);
        }
        mesh
    }

    /// Now by the clocks of one node.
    pub(crate) fn now(&self, index: usize) -> Now {
        Now {
            wall_ms: self.now_ms + self.nodes[index].ahead_ms,
            steady_ms: self.now_ms - START_MS,
        }
    }

    /// Time passes, and nothing happens meanwhile.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    /// Starts a crashed node over what its store holds; without a store if told so.
    pub(crate) fn start(&mut self, index: usize, with_store: bool) {
        let now = self.now(index);
        let node = &mut self.nodes[index];
        node.store.reopen();
        let scan = with_store.then(|| node.store.scan().unwrap());
        let mut peer = Peer::new(Arc::clone(&node.signer), scan, now);
        peer.open_with(Arc::new(SealingSecret::for_account(&node.account).unwrap()));
        peer.require_sealed(node.requires_sealed);
        node.starts += 1;
        let mut seed = [node.starts; 32];
        seed[..8].copy_from_slice(&index.to_be_bytes());
        let secret = Arc::new(SealingSecret::for_account(&node.account).unwrap());
        let sessions = Sessions::new(NETWORK, node.did, secret, Zeroizing::new(seed));
        peer.hold_sessions(sessions, seed);
        for namespace in &node.delegating {
            assert!(peer.delegate_replay(namespace));
        }
        if let Some(rows) = &node.rows {
            let rows: Vec<_> = rows.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            let references = References::open(node.did, refs::limits(), &rows, now).unwrap();
            node.lives += 1;
            peer.carry(references, [node.lives; 32]);
        }
        node.told.clear();
        if let Some(logs) = node.logs.take() {
            node.lives += 1;
            let account = Account::ed25519(Zeroizing::new([index as u8 + 1; 32])).unwrap();
            let own = groups::Own {
                signer: Arc::clone(&node.signer),
                secret: SealingSecret::of_account(&account),
                seed: Zeroizing::new([node.lives.wrapping_mul(31) ^ index as u8; 32]),
            };
            node.groups = Some(Groups::open(logs.reopened(), own, now).unwrap());
            peer.attach_keeper(Keeper::Groups, [node.lives; 32]);
        }
        node.lives += 1;
        node.mail.start(&mut peer, node.did, node.lives, now);
        node.peer = Some(peer);
    }

    /// Gives the node another account, and starts it again with it.
    pub(crate) fn with_account(&mut self, index: usize, account: Account) {
        let number = u8::try_from(index).unwrap();
        let signer = signer_of(&account, number, NETWORK, START_MS);
        let node = &mut self.nodes[index];
        (node.did, node.signer, node.account) = (signer.did(), signer, account);
        self.start(index, true);
    }

    /// Gives the node a store of logs, and starts it again with it.
    pub(crate) fn with_groups(&mut self, index: usize) {
        self.nodes[index].logs = Some(MemoryLogs::default());
        self.start(index, true);
    }

    /// Asks a node about groups; what comes of it is among what it has `answered`.
    pub(crate) fn ask_groups(&mut self, index: usize, ask: groups::Ask) -> groups::AskId {
        let now = self.now(index);
        let node = &mut self.nodes[index];
        node.next_ask += 1;
        let id = groups::AskId(node.next_ask);
        node.groups
            .as_mut()
            .expect("it has groups")
            .ask(id, ask, now);
        self.keep(index);
        id
    }

    /// Lets a node's groups hear what waits, makes it durable, and does what they want done.
    fn keep(&mut self, index: usize) {
        let now = self.now(index);
        let node = &mut self.nodes[index];
        let Some(groups) = &mut node.groups else {
            return node.hearing.clear();
        };
        while let Some(heard) = node.hearing.pop_front() {
            match heard {
                Heard::Message { delivery, .. } => {
                    let payload = delivery.item();
                    groups.handle_message(payload.origin(), payload.message().body(), now);
                }
                Heard::Linked(peer) => groups.handle_linked(peer, now),
                Heard::Unlinked(peer) => groups.handle_unlinked(peer, now),
                Heard::Said { to, result } => groups.handle_said(to, result, now),
            }
        }
        groups.flush(now);
        let effects: Vec<_> = std::iter::from_fn(|| groups.poll_effect()).collect();
        for effect in effects {
            match effect {
                groups::Effect::Say { to, data } => {
                    self.peer(index).say_for(Keeper::Groups, to, data, now);
                }
                groups::Effect::Taken => self.peer(index).handle_keeper_took(Keeper::Groups, now),
                groups::Effect::Answer(id, answer) => {
                    self.nodes[index].answered.insert(id, answer);
                }
                groups::Effect::Event(_) => {}
                groups::Effect::Failed { cause } => panic!("{cause}"),
            }
            self.drain(index);
        }
    }

    /// Gives the node a store of references, and starts it again with it.
    pub(crate) fn with_references(&mut self, index: usize) {
        self.nodes[index].rows = Some(BTreeMap::new());
        self.start(index, true);
    }

    /// Asks a node about references; what comes of it is among what it is `told`.
    pub(crate) fn ask_references(&mut self, index: usize, ask: Ask) -> AskId {
        let now = self.now(index);
        let node = &mut self.nodes[index];
        node.next_ask += 1;
        let id = AskId(node.next_ask);
        self.peer(index).ask_references(id, ask, now);
        self.drain(index);
        id
    }

    /// The node loses everything but its store; a batch in flight becomes durable or not.
    pub(crate) fn crash(&mut self, index: usize, batch_lands: bool) {
        let node = &mut self.nodes[index];
        if let Some(batch) = node.writing.take()
            && batch_lands
        {
            node.store.write(&batch.changes).unwrap();
        }
        if let (Some(commit), true) = (node.committing.take(), batch_lands) {
            node.commit(&commit);
        }
        node.peer = None;
        node.hearing.clear();
        if let Some(groups) = node.groups.take() {
            node.logs = Some(groups.into_store());
        }
        node.mail
            .crash(self.broken == Some(Broken::MailToldBeforeDurable));
        node.jobs.clear();
        node.seals.clear();
        node.waiting.clear();
        node.placing.clear();
        let held = self.links.iter().filter(|(_, ends)| ends.contains(&index));
        let dead: Vec<_> = held.map(|(&link, _)| link).collect();
        for link in dead {
            self.cut(link);
        }
    }

    /// The link is gone, with everything on it.
    pub(crate) fn cut(&mut self, link: LinkId) {
        self.lanes.retain(|(of, ..), _| *of != link);
        for end in self.links.remove(&link).expect("there is such a link") {
            let now = self.now(end);
            self.nodes[end].placing.retain(|(of, ..)| *of != link);
            if let Some(peer) = &mut self.nodes[end].peer {
                peer.handle_link_down(link, "the other side is gone", now);
            }
            self.drain(end);
        }
    }

    /// A link that `one` dialled to `other`, which answered just now, by its clock.
    pub(crate) fn link(&mut self, one: usize, other: usize) -> LinkId {
        let link = LinkId(self.next_link);
        self.next_link += 1;
        self.link_as(link, one, other);
        link
    }

    /// A link of this number between two nodes.
    pub(crate) fn link_as(&mut self, link: LinkId, one: usize, other: usize) {
        self.links.insert(link, [one, other]);
        let answered_ms = self.now(other).wall_ms;
        for (end, far, witness_ms) in [(one, other, Some(answered_ms)), (other, one, None)] {
            let (did, now) = (self.nodes[far].did, self.now(end));
            self.peer(end).handle_link_up(link, did, witness_ms, now);
            self.drain(end);
        }
    }

    pub(crate) fn peer(&mut self, index: usize) -> &mut Peer {
        self.nodes[index].peer.as_mut().expect("the node is up")
    }

    /// Asks a node to send; the result is in its `sent`.
    pub(crate) fn send(&mut self, from: usize, to: Did, class: Class, body: &[u8]) -> SendId {
        self.send_data(from, to, data(class, body))
    }

    /// As [`send`](Self::send), of an application's message in this namespace.
    pub(crate) fn send_in(&mut self, from: usize, to: Did, name: &str, body: &[u8]) -> SendId {
        self.send_data(from, to, data_in(name, body))
    }

    /// As [`send`](Self::send), of an application's message that is sealed.
    pub(crate) fn send_sealed(&mut self, from: usize, to: Did, body: &[u8]) -> SendId {
        self.send_to_seal(from, to, data_in("test", body))
    }

    /// As [`send_sealed`](Self::send_sealed), of this data.
    pub(crate) fn send_to_seal(&mut self, from: usize, to: Did, data: Data) -> SendId {
        if self.broken == Some(Broken::SentPlain) {
            return self.send_data(from, to, data);
        }
        let mut seed = [3; 32];
        seed[..8].copy_from_slice(&self.nodes[from].next_send.to_be_bytes());
        seed[8..16].copy_from_slice(&self.now_ms.to_be_bytes());
        self.send_outgoing(from, to, data, Some(SealSeed::new(Zeroizing::new(seed))))
    }

    /// Sends a body in a session.
    pub(crate) fn say(&mut self, from: usize, to: Did, body: &[u8]) -> SendId {
        let id = self.next_send(from);
        let mut name = [1; 16];
        name[..8].copy_from_slice(&id.0.to_be_bytes());
        let outgoing = Outgoing::new(to, data(Class::E2e, body), TxId(name)).in_session();
        let now = self.now(from);
        self.peer(from).send(id, outgoing, now);
        self.drain(from);
        id
    }

    /// As [`send`](Self::send), of this data.
    pub(crate) fn send_data(&mut self, from: usize, to: Did, data: Data) -> SendId {
        self.send_outgoing(from, to, data, None)
    }

    fn send_outgoing(
        &mut self,
        from: usize,
        to: Did,
        data: Data,
        seal: Option<SealSeed>,
    ) -> SendId {
        let id = self.next_send(from);
        let mut name = [0; 16];
        name[..8].copy_from_slice(&id.0.to_be_bytes());
        name[8..].copy_from_slice(&self.now_ms.to_be_bytes());
        let mut outgoing = Outgoing::new(to, data, TxId(name));
        outgoing.seal = seal;
        let now = self.now(from);
        self.peer(from).send(id, outgoing, now);
        self.drain(from);
        id
    }

    /// Whether a lane of this node's has no place free.
    pub(crate) fn is_full(&self, from: usize) -> bool {
        let mut lanes = self.lanes.iter().filter(|((_, of, _), _)| *of == from);
        lanes.any(|(_, lane)| lane.frames.len() >= LANE_PLACES)
    }

    /// Asks a node to take a send back.
    pub(crate) fn cancel(&mut self, from: usize, id: SendId) {
        let in_hand = !self.nodes[from].placing.is_empty();
        if self.broken == Some(Broken::CancelForgottenInHand) && in_hand {
            return;
        }
        let now = self.now(from);
        self.peer(from).cancel(id, now);
        self.drain(from);
    }

    /// Asks for the receipt of what a node sent; whether it waits for it.
    pub(crate) fn ask_receipt(&mut self, from: usize, of: Admission) -> bool {
        let now = self.now(from);
        let waits = self.peer(from).ask_receipt(of, now);
        self.drain(from);
        waits
    }

    /// Asks a node to offer signed bytes again, by way of `via`.
    pub(crate) fn offer(&mut self, from: usize, signed: &[u8], via: Option<Did>) -> SendId {
        let id = self.next_send(from);
        let now = self.now(from);
        self.peer(from).offer_again(id, signed, via, now);
        self.drain(from);
        id
    }

    /// Puts any bytes in a lane, as a hostile peer does.
    pub(crate) fn inject(&mut self, from: usize, to: usize, class: Class, frame: Vec<u8>) {
        let ends = |ends: &[usize; 2]| ends.contains(&from) && ends.contains(&to);
        let link = self
            .links
            .iter()
            .rfind(|(_, at)| ends(at))
            .map(|(&link, _)| link);
        let lane = self
            .lanes
            .entry((link.expect("they are linked"), from, class));
        lane.or_default().frames.push_back(frame);
    }

    /// Lets things happen in an order the seed decides, until nothing more can, or `stop` says so.
    pub(crate) fn run(&mut self, mut stop: impl FnMut(&Self) -> bool) {
        loop {
            while !stop(self) {
                let steps = self.steps();
                if steps.is_empty() {
                    break;
                }
                let chosen = self.random.below(steps.len() as u64);
                self.step(steps[usize::try_from(chosen).unwrap()]);
            }
            if stop(self) || !self.pass_time() {
                return;
            }
        }
    }

    /// Lets everything happen that can.
    pub(crate) fn settle(&mut self) {
        self.run(|_| false);
    }

    /// Refusals a node told of, by code.
    pub(crate) fn refusals(&self, index: usize) -> BTreeMap<&'static str, u64> {
        let peer = self.nodes[index].peer.as_ref().expect("the node is up");
        peer.counters().refused.clone()
    }

    /// Every digest that the node's application took, and that it took none twice.
    pub(crate) fn taken_once(&self, index: usize) -> BTreeSet<TransactionDigest> {
        let taken = &self.nodes[index].taken;
        let digests: BTreeSet<_> = taken.iter().map(|taken| taken.digest).collect();
        assert_eq!(digests.len(), taken.len(), "a message was dispatched twice");
        digests
    }

    fn next_send(&mut self, from: usize) -> SendId {
        let node = &mut self.nodes[from];
        node.next_send += 1;
        SendId(node.next_send)
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (&(link, from, class), lane) in &self.lanes {
            let [one, other] = self.links[&link];
            let to = if one == from { other } else { one };
            let reads = !self.deaf.contains(&to) && lane.untaken < LANE_CREDIT;
            if !lane.frames.is_empty() && reads {
                steps.push(Step::Deliver(link, from, class));
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            steps.extend((0..node.jobs.len()).map(|job| Step::Verify(index, job)));
            steps.extend((0..node.seals.len()).map(|job| Step::Seal(index, job)));
            steps.extend(node.writing.iter().map(|_| Step::Write(index)));
            steps.extend(node.committing.iter().map(|_| Step::Commit(index)));
            if node.mail.has_work() {
                steps.push(Step::KeepMail(index));
            }
            if !node.placing.is_empty() {
                steps.push(Step::Place(index));
            }
            if !node.hearing.is_empty() {
                steps.push(Step::Keep(index));
            }
            if node.takes && !node.waiting.is_empty() {
                steps.push(Step::Take(index));
            }
        }
        steps
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Deliver(link, from, class) => self.deliver(link, from, class),
            Step::Verify(index, job) => {
                let (mut ticket, job) = self.nodes[index].jobs.remove(job);
                if let (Some(Broken::AnswersOfWorkersSwapped), Some((other, _))) =
                    (self.broken, self.nodes[index].jobs.first_mut())
                {
                    std::mem::swap(&mut ticket, other);
                }
                let result = job.run();
                let now = self.now(index);
                self.peer(index).handle_verified(ticket, result, now);
                self.drain(index);
            }
            Step::Seal(index, job) => {
                let (mut ticket, job) = self.nodes[index].seals.remove(job);
                if let (Some(Broken::AnswersOfSealersSwapped), Some((other, _))) =
                    (self.broken, self.nodes[index].seals.first_mut())
                {
                    std::mem::swap(&mut ticket, other);
                }
                let result = job.run();
                let now = self.now(index);
                self.peer(index).handle_sealed(ticket, result, now);
                self.drain(index);
            }
            Step::Write(index) => {
                if let Some(batch) = self.nodes[index].writing.take() {
                    let written = self.nodes[index].store.write(&batch.changes);
                    match self.broken {
                        Some(Broken::DurableBeforeItIs) => {}
                        Some(Broken::StoreFailureSwallowed) => {
                            self.batch_done(index, batch.id, Ok(()));
                        }
                        _ => self.batch_done(index, batch.id, written),
                    }
                }
            }
            Step::Commit(index) => {
                if let Some(commit) = self.nodes[index].committing.take() {
                    self.nodes[index].commit(&commit);
                    let now = self.now(index);
                    self.peer(index).handle_committed(commit.id, Ok(()), now);
                    self.drain(index);
                }
            }
            Step::Keep(index) => self.keep(index),
            Step::KeepMail(index) => self.keep_mail(index),
            Step::Place(index) => {
                if let Some((link, class, frame)) = self.nodes[index].placing.pop_front() {
                    self.place(index, link, class, frame);
                    self.drain(index);
                }
            }
            Step::Take(index) => {
                let now = self.now(index);
                let node = &mut self.nodes[index];
                if let Some((place, class, delivery)) = node.waiting.pop_front() {
                    node.taken.push(Taken::of(class, &delivery));
                    if self.broken != Some(Broken::PlacesFreedBeforeTaken) {
                        self.peer(index).handle_dispatch_taken(place, now);
                    }
                    self.drain(index);
                }
            }
        }
    }

    /// Puts a frame in its lane, and says what became of it.
    fn place(&mut self, index: usize, link: LinkId, class: Class, frame: Vec<u8>) {
        let gone = self.leaving.contains(&link) || !self.links.contains_key(&link);
        let answer = if gone {
            LaneAnswer::Gone
        } else {
            if let Some((of, heard)) = &mut self.overheard
                && (*of == index || self.links[&link].contains(of))
            {
                heard.push(frame.clone());
            }
            let lost = self.broken == Some(Broken::HeirsNotSought) && self.seeks(index, &frame);
            let lane = self.lanes.entry((link, index, class)).or_default();
            if lost {
                LaneAnswer::Placed
            } else if lane.frames.len() < LANE_PLACES {
                lane.frames.push_back(frame);
                LaneAnswer::Placed
            } else {
                lane.refused = true;
                LaneAnswer::Full
            }
        };
        let now = self.now(index);
        self.peer(index).handle_lane(link, class, answer, now);
    }

    /// A node closes one of its links.
    fn close(&mut self, index: usize, link: LinkId) {
        // Both ends may close it at once.
        if let Some(ends) = self.links.get(&link) {
            let far = self.nodes[ends[usize::from(ends[0] == index)]].did;
            let needs = self.peer(index).ring().map(|ring| ring.needs());
            let needs = needs.unwrap_or_default();
            assert!(!needs.contains(&far), "{index} closed a link that it needs");
            self.closed.push((index, far));
            self.cut(link);
        }
    }

    fn batch_done(&mut self, index: usize, id: BatchId, written: Result<(), StoreError>) {
        let now = self.now(index);
        self.nodes[index].batches += 1;
        self.peer(index).handle_batch_done(id, written, now);
        self.drain(index);
    }

    fn deliver(&mut self, link: LinkId, from: usize, class: Class) {
        let ends = self.links[&link];
        let to = if ends[0] == from { ends[1] } else { ends[0] };
        let now = self.now(to);
        let lane = self.lanes.get_mut(&(link, from, class)).unwrap();
        let mut frame = lane.frames.pop_front().unwrap();
        lane.delivered += 1;
        let idle = self.idle.contains(&to);
        lane.untaken += usize::from(!idle);
        if self.broken == Some(Broken::FrameHeldBack) {
            frame = lane.hold_back(frame);
        }
        let told_full = std::mem::take(&mut lane.refused);
        if !idle {
            self.peer(to).handle_frame(link, class, &frame, now);
            self.drain(to);
        } else if class == Class::Control {
            self.told_idle.push((from, frame));
        }
        if told_full {
            let now = self.now(from);
            self.peer(from).handle_lane_room(link, class, now);
            self.drain(from);
        }
    }

    /// Moves the clock to the next instant a peer asked for.
    fn pass_time(&mut self) -> bool {
        let due = self
            .nodes
            .iter()
            .filter_map(|node| node.peer.as_ref()?.poll_timeout());
        let kept = self.nodes.iter();
        let kept = kept.filter_map(|node| node.groups.as_ref()?.poll_timeout());
        let Some(due_ms) = due.chain(kept).min() else {
            return false;
        };
        self.now_ms = self.now_ms.max(START_MS + due_ms);
        for index in 0..self.nodes.len() {
            let now = self.now(index);
            if self.nodes[index].peer.is_some() {
                self.peer(index).handle_timeout(now);
                self.drain(index);
            }
            if let Some(groups) = &mut self.nodes[index].groups {
                groups.handle_timeout(now);
                self.keep(index);
            }
        }
        true
    }

    fn drain(&mut self, index: usize) {
        let now = self.now(index);
        while let Some(effect) = self.nodes[index].peer.as_mut().and_then(Peer::poll_effect) {
            let node = &mut self.nodes[index];
            match effect {
                Effect::Send { link, class, frame } if self.slow_lanes => {
                    node.placing.push_back((link, class, frame));
                }
                Effect::Send { link, class, frame } => self.place(index, link, class, frame),
                Effect::Verify { ticket, job } => node.jobs.push((ticket, job)),
                Effect::Seal { ticket, job } => node.seals.push((ticket, job)),
                Effect::Write(batch) => {
                    if self.broken == Some(Broken::DurableBeforeItIs) {
                        let id = batch.id;
                        // What is not yet written when the next batch comes is as good as lost.
                        node.writing = Some(batch);
                        self.batch_done(index, id, Ok(()));
                        continue;
                    }
                    assert!(node.writing.is_none(), "one batch is in flight at a time");
                    node.writing = Some(batch);
                }
                Effect::Dispatch {
                    place,
                    class,
                    delivery,
                } => {
                    node.waiting.push_back((place, class, *delivery));
                    if self.broken == Some(Broken::PlacesFreedBeforeTaken) {
                        self.peer(index).handle_dispatch_taken(place, now);
                    }
                }
                Effect::InSession { place, from, body } => {
                    node.in_sessions.push((from, body.to_vec()));
                    self.peer(index).handle_dispatch_taken(place, now);
                }
                Effect::Taken { .. }
                    if self.broken == Some(Broken::RefusedFrameNotCredited)
                        && matches!(node.events.last(), Some(Event::Refused { .. })) => {}
                Effect::Taken { link, class } => {
                    let far = self
                        .links
                        .get(&link)
                        .map(|ends| ends[usize::from(ends[0] == index)]);
                    let lane = far.and_then(|far| self.lanes.get_mut(&(link, far, class)));
                    if let Some(lane) = lane {
                        lane.untaken = lane.untaken.checked_sub(1).expect("taken once a frame");
                    }
                }
                Effect::Close { link } if self.may_close => self.close(index, link),
                Effect::Close { link } => panic!("no slot for {link}"),
                Effect::Cut { link, .. } => self.cut(link),
                Effect::Connect { peer } => self.offer_link(index, peer),
                Effect::Offered {
                    offer, from, bytes, ..
                } => self.answer_link(index, offer, from, &bytes),
                Effect::Asked { id, result } => self.asked(index, id, result),
                Effect::Sent { id, result } => {
                    let told = node.sent.insert(id, result);
                    assert_eq!(told, None, "a send has one result");
                }
                Effect::Commit(commit) => {
                    assert!(
                        node.committing.is_none(),
                        "one commit is in flight at a time"
                    );
                    node.committing = Some(commit);
                }
                Effect::Receipt { receipt, .. } => node.proofs.push(*receipt.subject()),
                Effect::References(told) => node.told.push(told),
                Effect::Keeper(Keeper::Groups, heard) => node.hearing.push_back(heard),
                Effect::Keep(work) => node.mail.note_work(work, node.did, self.broken),
                Effect::Mail(effect) => node.mail.note(effect),
                Effect::Event(event) => {
                    if self.broken == Some(Broken::MailReleasedUntaken) {
                        node.mail.release(&event, &node.signer, now);
                    }
                    node.events.push(event);
                }
            }
        }
    }
}

impl SimNode {
    /// The receipts of the sends that succeeded, in the order they were asked for.
    pub(crate) fn receipts(&self) -> Vec<Receipt> {
        self.sent
            .values()
            .filter_map(|sent| sent.clone().ok())
            .collect()
    }

    /// Frames in its driver's hand.
    pub(crate) fn in_hand(&self) -> usize {
        self.placing.len()
    }

    /// Messages dispatched and not taken.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn commit(&mut self, commit: &refs::Commit) {
        let rows = self.rows.as_mut().expect("it has a store of references");
        for change in &commit.changes {
            match &change.value {
                Some(value) => rows.insert(change.key.clone(), value.clone()),
                None => rows.remove(&change.key),
            };
        }
    }

    /// Whether a batch is in flight.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }
}

impl Taken {
    fn of(class: Class, delivery: &Delivery) -> Self {
        let payload = delivery.item();
        Self {
            class,
            sequence: payload.sequence(),
            digest: payload.digest(),
            body: payload.message().body().to_vec(),
        }
    }
}

/// A signer of its own account, under a delegation issued at `issued_ms`.
pub(crate) fn signer(number: u8, network: NetworkId, issued_ms: u64) -> Arc<Signer> {
    type Made = BTreeMap<(u8, NetworkId, u64), Arc<Signer>>;
    // Many meshes of one test have the same accounts.
    thread_local!(static MADE: RefCell<Made> = RefCell::default());
    let make = || delegatee_of(number, number, network, issued_ms);
    MADE.with_borrow_mut(|made| {
        let named = made.entry((number, network, issued_ms));
        Arc::clone(named.or_insert_with(make))
    })
}

/// A signer of account `number` with another delegatee.
pub(crate) fn delegatee_of(
    number: u8,
    delegatee: u8,
    network: NetworkId,
    issued_ms: u64,
) -> Arc<Signer> {
    signer_of(&account(number), delegatee, network, issued_ms)
}

/// The account of this number.
pub(crate) fn account(number: u8) -> Account {
    Account::ed25519(Zeroizing::new([number + 1; 32])).unwrap()
}

/// A signer of this account.
pub(crate) fn signer_of(
    account: &Account,
    delegatee: u8,
    network: NetworkId,
    issued_ms: u64,
) -> Arc<Signer> {
    let delegatee = Delegatee::from_seed(Zeroizing::new([delegatee + 101; 32]));
    let life = Life {
        issued_ms,
        ttl_ms: DELEGATION_TTL_DEFAULT_MS,
    };
    let context = VerifyContext {
        network,
        now_ms: issued_ms,
    };
    let delegation = Delegation::issue(account, &delegatee, network, life).unwrap();
    let delegation = delegation.verify(&context).unwrap();
    Arc::new(Signer::new(delegatee, delegation).unwrap())
}

/// A message of this class.
pub(crate) fn data(class: Class, body: &[u8]) -> Data {
    let message = match class {
        Class::Control => Message::Control(body),
        Class::Storage => Message::Storage(body),
        Class::E2e => Message::E2e(body),
        Class::Application => return data_in("test", body),
    };
    Data::parse_large(to_vec(&message)).unwrap()
}

/// An application's message in this namespace.
pub(crate) fn data_in(namespace: &str, body: &[u8]) -> Data {
    let message = Message::Application {
        namespace: Namespace::new(namespace).unwrap(),
        body,
    };
    Data::parse_large(to_vec(&message)).unwrap()
}
