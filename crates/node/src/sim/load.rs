//! What applications do: they send, in bursts of every class and size, and offer again.

use overlane_core::transaction::{Data, Message, Namespace};
use overlane_core::wire::cbor::to_vec;
use overlane_core::{Class, Did, StreamKey, TransactionDigest, TxId};

use super::check::Seen;
use super::names::{Fault, Topology};
use super::node::Asked;
use super::report::Phase;
use super::world::{Event, World};
use crate::peer::{Outgoing, Receipt, SendId};

/// Messages of an average burst.
const BURST_MEAN: u64 = 8;

/// Longest wait before signed bytes are offered again.
const AGAIN_WITHIN_MS: u64 = 120_000;

/// Messages to one destination that an application may offer again once its link is back.
const RECENT_MAX: usize = 12;

/// Nodes anywhere on the ring that each node sends to once everything is healed.
const PROBES: usize = 4;

/// Times that a message's way may be congested once everything is healed, the messages sent in its place with it.
const CONGESTED_MAX: u8 = 3;

/// From which node to which, its class, and how often the way was congested.
pub(super) type SentAgain = (usize, usize, Class, u8);

/// How long applications go on sending once everything is healed.
const LOAD_AFTER_MS: u64 = 20_000;

impl World<'_> {
    /// The node's application sends some time later.
    pub(super) fn load_later(&mut self, node: usize) {
        let a_minute = self.config.messages_per_minute;
        if let Some(mean_ms) = (60_000 * BURST_MEAN).checked_div(a_minute) {
            let wait_ms = self.between(mean_ms / 2, mean_ms * 3 / 2);
            self.after(wait_ms.max(1), Event::Load(node));
        }
    }

    /// Whom an application sends to: any other node on a ring, one that it is linked to in a mesh.
    fn destination(&mut self, node: usize) -> Option<Did> {
        let state = self.nodes.get(node)?;
        let own = state.did;
        let candidates: Vec<Did> = match self.config.topology {
            Topology::Mesh => state.linked().into_iter().collect(),
            Topology::Ring => self.nodes.iter().map(|it| it.did).collect(),
        };
        let drawn = self.any_of(candidates.len());
        candidates.get(drawn).copied().filter(|&to| to != own)
    }

    /// The node's application sends a burst to another.
    pub(super) fn load(&mut self, node: usize) {
        let rests_ms = self.healed_ms.map(|healed_ms| healed_ms + LOAD_AFTER_MS);
        if rests_ms.is_some_and(|rests_ms| self.now_ms > rests_ms) {
            return;
        }
        self.load_later(node);
        self.application_time(node);
        let Some(to) = self.destination(node) else {
            return;
        };
        let class = self.class();
        let count = match self.chance.below(100) {
            0..70 => 1,
            70..90 => self.between(2, 8),
            90..98 => self.between(20, 60),
            _ => self.between(100, 240),
        };
        for _ in 0..count {
            let size_bytes = match self.chance.below(100) {
                0..80 => self.between(16, 200),
                80..97 => self.between(200, 2_000),
                _ => self.between(8_000, 60_000),
            };
            self.send(node, to, class, size_bytes);
        }
    }

    /// Every node sends on every class of every link, and on a ring to some nodes wherever they are.
    pub(super) fn probe(&mut self) {
        for node in 0..self.nodes.len() {
            let linked = self.nodes.get(node).map(|it| it.linked());
            let mut to: Vec<Did> = linked.unwrap_or_default().into_iter().collect();
            if self.config.topology == Topology::Ring {
                to.extend((0..PROBES).filter_map(|_| self.destination(node)));
            }
            for to in to {
                for class in Class::ALL {
                    for _ in 0..3 {
                        self.send(node, to, class, 64);
                    }
                }
            }
        }
    }

    fn send(&mut self, from: usize, to: Did, class: Class, size_bytes: u64) {
        let Some(node) = self.nodes.get_mut(from).filter(|it| it.running.is_some()) else {
            return;
        };
        node.next_number += 1;
        if let Some(data) = data(class, node.next_number, size_bytes) {
            self.send_data(from, to, data);
        }
    }

    pub(super) fn send_data(&mut self, from: usize, to: Did, data: Data) {
        let Some(&number) = self.by_did.get(&to) else {
            return;
        };
        let name = [self.chance.next_u64(), self.chance.next_u64()];
        let now = self.now_at(from);
        let Some(node) = self.nodes.get_mut(from) else {
            return;
        };
        let Some(running) = node.running.as_mut().filter(|it| !it.leaving) else {
            return;
        };
        running.next_send += 1;
        let id = SendId(running.next_send);
        running.asked.insert(
            id,
            Asked {
                to: number,
                again: false,
                congested: 0,
            },
        );
        let mut tx_id = [0; 16];
        for (bytes, drawn) in tx_id.chunks_mut(8).zip(name) {
            bytes.copy_from_slice(&drawn.to_be_bytes());
        }
        running
            .peer
            .send(id, Outgoing::new(to, data, TxId(tx_id)), now);
        self.dirty_nodes.insert(from);
    }

    /// The way of a message was congested, as its sender was told: once everything is healed it sends another in its
    /// place some time later, up to a bound.
    pub(super) fn congested(&mut self, node: usize, stream: StreamKey, digest: TransactionDigest) {
        let before = self.congested.remove(&digest).unwrap_or_default();
        let Some(&to) = self.by_did.get(&stream.destination) else {
            return;
        };
        if before < CONGESTED_MAX && self.checks.congested(digest) {
            self.sent_later += 1;
            let wait_ms = self.between(1_000, 5_000);
            let again = (node, to, stream.class, before + 1);
            self.after(wait_ms, Event::SendAgain(again));
        }
    }

    /// A node sends what it was told does not arrive.
    pub(super) fn send_again(&mut self, (node, to, class, congested): SentAgain) {
        self.sent_later = self.sent_later.saturating_sub(1);
        let Some(to) = self.nodes.get(to).map(|it| it.did) else {
            return;
        };
        self.counts.sent_in_place += 1;
        self.send(node, to, class, 64);
        if let Some(running) = self.running(node) {
            let id = SendId(running.next_send);
            if let Some(asked) = running.asked.get_mut(&id) {
                asked.congested = congested;
            }
        }
    }

    /// A message is signed: it may be offered again some time later, by anyone.
    pub(super) fn maybe_again(&mut self, origin: usize, receipt: &Receipt) {
        if !self.duplicates() {
            return;
        }
        if let Some(node) = self.nodes.get_mut(origin) {
            let recent = node.recent.entry(receipt.stream.destination).or_default();
            recent.push_back(receipt.signed.clone());
            if recent.len() > RECENT_MAX {
                recent.pop_front();
            }
        }
        if !self.permille(80) {
            return;
        }
        for _ in 0..self.between(1, 2) {
            let by_origin = self.permille(500);
            let any = self.chance.below(self.nodes.len().try_into().unwrap_or(1));
            let any = usize::try_from(any).unwrap_or_default();
            let carrier = if by_origin { origin } else { any };
            let wait_ms = self.between(0, AGAIN_WITHIN_MS);
            self.after(wait_ms, Event::Again(carrier, receipt.signed.clone()));
        }
    }

    /// A link is back: its node's application does not know what became of what it sent last.
    pub(super) fn not_sure(&mut self, origin: usize, to: Did) {
        if !self.duplicates() || !self.permille(700) {
            return;
        }
        let recent = self
            .nodes
            .get_mut(origin)
            .and_then(|it| it.recent.remove(&to));
        for signed in recent.unwrap_or_default() {
            let wait_ms = self.between(0, 3_000);
            self.after(wait_ms, Event::Again(origin, signed));
        }
    }

    fn duplicates(&self) -> bool {
        self.phase == Phase::Faults && self.config.faults.has(Fault::Duplicate)
    }

    /// Signed bytes are offered again by a node that may be linked to their destination.
    pub(super) fn again(&mut self, carrier: usize, signed: &[u8]) {
        if self.phase != Phase::Faults {
            return;
        }
        let Some(message) = super::drive::signed(signed) else {
            return;
        };
        let Some(&to) = self.by_did.get(&message.stream.destination) else {
            return;
        };
        let now = self.now_at(carrier);
        self.see(&Seen::OfferedAgain(message.digest));
        let Some(running) = self.running(carrier).filter(|it| !it.leaving) else {
            return;
        };
        running.next_send += 1;
        let id = SendId(running.next_send);
        let asked = Asked {
            to,
            again: true,
            congested: 0,
        };
        running.asked.insert(id, asked);
        running.peer.offer_again(id, signed, None, now);
        self.dirty_nodes.insert(carrier);
    }

    fn class(&mut self) -> Class {
        let drawn = u8::try_from(self.chance.below(4)).unwrap_or_default();
        Class::from_index(drawn).unwrap_or(Class::Application)
    }
}

/// A message of this class and about this size, unlike any other of its node.
pub(super) fn data(class: Class, number: u64, size_bytes: u64) -> Option<Data> {
    let mut body = number.to_be_bytes().to_vec();
    let size = usize::try_from(size_bytes).ok()?;
    body.resize(size.max(body.len()), 0xa5);
    let body = body.as_slice();
    let message = match class {
        Class::Control => Message::Control(body),
        Class::Storage => Message::Storage(body),
        Class::E2e => Message::E2e(body),
        Class::Application => Message::Application {
            namespace: Namespace::new("sim").ok()?,
            body,
        },
    };
    Data::parse(to_vec(&message)).ok()
}
