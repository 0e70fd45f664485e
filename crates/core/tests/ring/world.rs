//! Many nodes' parts of the ring on virtual time: the tests' world, and the benches'.
//!
//! A message takes the delivery rule's way, hop by hop, over the links that nodes asked for. Links
//! come up when both ends live; a node that fails says nothing, and its links go down later.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::Did;
use overlane_core::ring::{
    RequestId, Ring, RingAction, RingAnswer, RingConfig, RingError, RingMessage, Route,
    WhyUnreachable,
};
use overlane_core::transaction::HOP_BUDGET_MAX;

/// A hop takes so long at least, and up to twice that.
const HOP_MS: u64 = 20;
/// From wanting a link to having it.
const CONNECT_MS: u64 = 500;
/// From a node's end to its links'.
const DETECT_MS: u64 = 10_000;

/// SplitMix64.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn did(&mut self) -> Did {
        let mut bytes = [0; 20];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_be_bytes()[..chunk.len()]);
        }
        Did(bytes)
    }
}

/// What is on its way.
#[derive(Debug, Clone)]
struct Parcel {
    origin: Did,
    /// Where its way goes first.
    toward: Did,
    to: Did,
    reply_via: Option<Did>,
    hops: u8,
    handed_off: bool,
    message: RingMessage,
}

#[derive(Debug)]
enum Event {
    Arrive(Did, Parcel),
    Unreachable(Did, RequestId, Did, WhyUnreachable),
    Link(Did, Did),
    Unlink(Did, Did),
    Timeout(Did),
}

/// Counts of a world.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) messages: u64,
    pub(crate) hops: u64,
    pub(crate) lost: u64,
    pub(crate) unreachable: u64,
    pub(crate) refused: u64,
}

/// Everything.
pub(crate) struct World {
    pub(crate) now_ms: u64,
    pub(crate) chance: Chance,
    pub(crate) nodes: BTreeMap<Did, Ring>,
    pub(crate) sent: Sent,
    /// Messages are lost, one in so many; none at zero.
    pub(crate) loses_one_in: u64,
    /// Nodes that no link can be made to but from `middle`.
    pub(crate) unlinkable: BTreeSet<Did>,
    pub(crate) done: Vec<(Did, RequestId, Result<RingAnswer, RingError>)>,
    queue: BTreeMap<(u64, u64), Event>,
    wakes: BTreeMap<Did, u64>,
    events: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now_ms: 0,
            chance: Chance(seed),
            nodes: BTreeMap::new(),
            sent: Sent::default(),
            loses_one_in: 0,
            unlinkable: BTreeSet::new(),
            done: Vec::new(),
            queue: BTreeMap::new(),
            wakes: BTreeMap::new(),
            events: 0,
        }
    }

    /// A new node, linked to `contact`.
    pub(crate) fn join(&mut self, did: Did, contact: Option<Did>) {
        let config = RingConfig::new(self.chance.next());
        let ring = Ring::new(did, config, self.now_ms);
        self.nodes.insert(did, ring);
        if let Some(contact) = contact {
            self.link(did, contact);
        }
        self.drain(did);
    }

    /// The node ends without a word.
    pub(crate) fn fail(&mut self, did: Did) {
        let Some(ring) = self.nodes.remove(&did) else {
            return;
        };
        for &peer in ring.linked() {
            self.after(DETECT_MS, Event::Unlink(peer, did));
        }
    }

    /// The node leaves in order.
    pub(crate) fn leave(&mut self, did: Did) {
        if let Some(ring) = self.nodes.get_mut(&did) {
            ring.leave();
        }
        self.drain(did);
        let Some(ring) = self.nodes.remove(&did) else {
            return;
        };
        for &peer in ring.linked() {
            self.after(HOP_MS * 4, Event::Unlink(peer, did));
        }
    }

    /// Both ends have a link to each other.
    pub(crate) fn link(&mut self, one: Did, other: Did) {
        if one == other || !self.nodes.contains_key(&one) || !self.nodes.contains_key(&other) {
            return;
        }
        for (at, peer) in [(one, other), (other, one)] {
            if let Some(ring) = self.nodes.get_mut(&at) {
                ring.handle_linked(peer, self.now_ms);
            }
        }
        self.drain(one);
        self.drain(other);
    }

    /// What a user asks of a node.
    pub(crate) fn ask<T>(&mut self, did: Did, ask: impl FnOnce(&mut Ring, u64) -> T) -> T {
        let now_ms = self.now_ms;
        let asked = ask(self.nodes.get_mut(&did).unwrap(), now_ms);
        self.drain(did);
        asked
    }

    /// Runs for so long.
    pub(crate) fn run(&mut self, for_ms: u64) {
        let until_ms = self.now_ms + for_ms;
        while let Some((&(at_ms, _), _)) = self.queue.first_key_value()
            && at_ms <= until_ms
        {
            self.step();
        }
        self.now_ms = until_ms;
    }

    /// Runs until every node's neighbours are right, for at most so long; gives how long it took.
    pub(crate) fn settle(&mut self, within_ms: u64) -> Option<u64> {
        let start_ms = self.now_ms;
        while self.now_ms - start_ms <= within_ms {
            if self.wrong().is_empty() {
                return Some(self.now_ms - start_ms);
            }
            self.run(500);
        }
        None
    }

    /// The nodes whose successors or predecessor are not the right ones.
    pub(crate) fn wrong(&self) -> Vec<Did> {
        let all: Vec<Did> = self.nodes.keys().copied().collect();
        let mut wrong = Vec::new();
        for (at, did) in all.iter().enumerate() {
            let members = self.nodes[did].members();
            let kept = 3.min(all.len() - 1);
            let next = |by: usize| all[(at + by) % all.len()];
            let successors: Vec<Did> = (1..=kept).map(next).collect();
            let predecessor = (all.len() > 1).then(|| next(all.len() - 1));
            if members.successors() != successors || members.predecessor() != predecessor {
                wrong.push(*did);
            }
        }
        wrong
    }

    /// The hops of a message by the delivery rule, as links are now; `None` where it does not arrive.
    pub(crate) fn hops(&self, from: Did, to: Did) -> Option<u32> {
        let (mut at, mut handed_off, mut hops) = (from, false, 0);
        while at != to {
            let routed = self.nodes.get(&at)?.route(to, handed_off);
            handed_off |= matches!(routed, Route::Across(_));
            at = routed.next_hop()?;
            hops += 1;
            if hops > u32::from(HOP_BUDGET_MAX) {
                return None;
            }
        }
        Some(hops)
    }

    fn step(&mut self) {
        let Some(((at_ms, _), event)) = self.queue.pop_first() else {
            return;
        };
        self.now_ms = self.now_ms.max(at_ms);
        match event {
            Event::Arrive(at, parcel) => self.arrive(at, parcel),
            Event::Unreachable(at, id, reporter, why) => {
                if let Some(ring) = self.nodes.get_mut(&at) {
                    ring.handle_unreachable(id, reporter, why, self.now_ms);
                }
                self.drain(at);
            }
            Event::Link(one, other) => {
                let barred = |did| self.unlinkable.contains(&did);
                let barred = barred(one) && barred(other);
                if barred || !self.nodes.contains_key(&other) {
                    if let Some(ring) = self.nodes.get_mut(&one) {
                        ring.handle_connect_failed(other, self.now_ms);
                    }
                    self.drain(one);
                } else {
                    self.link(one, other);
                }
            }
            Event::Unlink(at, peer) => {
                if let Some(ring) = self.nodes.get_mut(&at) {
                    ring.handle_unlinked(peer, self.now_ms);
                }
                self.drain(at);
            }
            Event::Timeout(at) => {
                if self.wakes.get(&at) == Some(&at_ms) {
                    self.wakes.remove(&at);
                    if let Some(ring) = self.nodes.get_mut(&at) {
                        ring.handle_timeout(self.now_ms);
                    }
                    self.drain(at);
                }
            }
        }
    }

    fn arrive(&mut self, at: Did, mut parcel: Parcel) {
        let Some(ring) = self.nodes.get_mut(&at) else {
            self.sent.lost += 1;
            return;
        };
        if at == parcel.to {
            let Parcel {
                origin,
                reply_via,
                hops,
                message,
                ..
            } = parcel;
            if ring
                .handle_message(origin, reply_via, hops, message, self.now_ms)
                .is_err()
            {
                self.sent.refused += 1;
            }
            return self.drain(at);
        }
        if at == parcel.toward {
            parcel.toward = parcel.to;
        }
        self.forward(at, parcel);
    }

    fn forward(&mut self, at: Did, mut parcel: Parcel) {
        let routed = self.nodes[&at].route(parcel.toward, parcel.handed_off);
        let why = match routed {
            Route::Ends => Some(WhyUnreachable::NoRoute),
            _ if parcel.hops >= HOP_BUDGET_MAX => Some(WhyUnreachable::HopBudget),
            _ => None,
        };
        if let (Some(why), asks) = (why, parcel.message.asks()) {
            self.sent.unreachable += 1;
            if let Some(id) = asks {
                let report = Event::Unreachable(parcel.origin, id, at, why);
                self.after(HOP_MS * u64::from(parcel.hops), report);
            }
            return;
        }
        parcel.handed_off |= matches!(routed, Route::Across(_));
        parcel.hops += 1;
        self.sent.hops += 1;
        if self.loses_one_in > 0 && self.chance.next().is_multiple_of(self.loses_one_in) {
            self.sent.lost += 1;
            return;
        }
        if let Some(next) = routed.next_hop() {
            let takes_ms = HOP_MS + self.chance.next() % HOP_MS;
            self.after(takes_ms, Event::Arrive(next, parcel));
        }
    }

    fn drain(&mut self, at: Did) {
        while let Some(action) = self.nodes.get_mut(&at).and_then(Ring::poll_action) {
            match action {
                RingAction::Send {
                    to,
                    via,
                    reply_via,
                    message,
                } => {
                    self.sent.messages += 1;
                    let parcel = Parcel {
                        origin: at,
                        toward: via.unwrap_or(to),
                        to,
                        reply_via,
                        hops: 0,
                        handed_off: false,
                        message,
                    };
                    self.forward(at, parcel);
                }
                RingAction::Connect { peer } => self.after(CONNECT_MS, Event::Link(at, peer)),
                RingAction::Done { id, result } => self.done.push((at, id, result)),
            }
        }
        let due = self.nodes.get(&at).and_then(Ring::poll_timeout);
        if let Some(due_ms) = due {
            let due_ms = due_ms.max(self.now_ms);
            let known = self.wakes.get(&at).copied();
            if known.is_none_or(|known| known > due_ms || known < self.now_ms) {
                self.wakes.insert(at, due_ms);
                self.at(due_ms, Event::Timeout(at));
            }
        }
    }

    fn after(&mut self, in_ms: u64, event: Event) {
        self.at(self.now_ms + in_ms, event);
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        self.events += 1;
        self.queue.insert((at_ms, self.events), event);
    }
}
