//! A peer's part of the ring: its control messages, what it passes on for others, the links it needs.
//!
//! The ring itself is `overlane_core::ring`; here its messages become control transactions, signed, paced
//! and admitted as any. Laws: **a relay keeps nothing** (`forward`): what is for others is verified, signed
//! anew for its next hop and put in a lane; no replay state is read or changed. **A report is believed
//! once** (`reports`): by the digest of something sent not long ago. **The topology comes first**
//! (`slots`): a link that the ring needs is never given up for another.
//! Source: protocol decisions 6 and 7.

mod asks;
mod control;
mod forward;
mod reports;
mod slots;

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::Did;
use overlane_core::ring::{RequestId, Ring, RingConfig, Route, route};

use super::{Now, Peer};
use crate::status::{NeighbourStatus, Role};

pub use asks::{Ask, AskId, OFFERS_MAX, OfferId};
pub use control::OWN_SENDS_MAX;
pub(super) use control::is_own;
pub use forward::FORWARDED_MAX;
pub use reports::{RECENT_CHUNKS_MAX, RECENT_MAX, REPORTS};
pub use slots::{LINKS_DEFAULT_MAX, RING_RESERVE};

use asks::Asks;
use control::Controls;
use reports::Reports;

/// Peers whose links failed, remembered with the last code.
const FAILURES_MAX: usize = 64;

/// All that a peer keeps for the ring.
#[derive(Debug)]
pub(super) struct RingPart {
    own: Did,
    /// Peers with a link that carries.
    linked: BTreeSet<Did>,
    linked_high_water: usize,
    /// None until the peer is told to join.
    pub(super) ring: Option<Ring>,
    controls: Controls,
    asks: Asks,
    reports: Reports,
    links_max: usize,
    pinned: BTreeSet<Did>,
    failures: BTreeMap<Did, &'static str>,
}

impl RingPart {
    pub(super) fn new(own: Did, steady_ms: u64) -> Self {
        Self {
            own,
            linked: BTreeSet::new(),
            linked_high_water: 0,
            ring: None,
            controls: Controls::new([0; 32]),
            asks: Asks::default(),
            reports: Reports::new(steady_ms),
            links_max: LINKS_DEFAULT_MAX,
            pinned: BTreeSet::new(),
            failures: BTreeMap::new(),
        }
    }

    fn note_failure(&mut self, peer: Did, code: &'static str) {
        if self.failures.len() >= FAILURES_MAX && !self.failures.contains_key(&peer) {
            self.failures.pop_first();
        }
        self.failures.insert(peer, code);
    }

    /// Whether no link carries anything: whoever was in its ring cannot be asked.
    pub(super) fn is_alone(&self) -> bool {
        self.linked.is_empty()
    }

    /// Where a message for `destination` goes from here.
    pub(super) fn route(&self, destination: Did, handed_off: bool) -> Route {
        route(self.own, &self.linked, destination, handed_off)
    }
}

impl Peer {
    // What it is.

    /// This node's part of the ring; `None` until it joins one.
    pub fn ring(&self) -> Option<&Ring> {
        self.ring.ring.as_ref()
    }

    /// Peers that the ring needs and could not be linked to, with the code of the last failure.
    pub fn link_failures(&self) -> impl Iterator<Item = (Did, &'static str)> {
        self.ring.failures.iter().map(|(&peer, &code)| (peer, code))
    }

    /// The nodes that this one's place in the ring needs, the most needed first, and how each is
    /// reached.
    pub fn neighbours(&self) -> Vec<NeighbourStatus> {
        let Some(ring) = &self.ring.ring else {
            return Vec::new();
        };
        let members = ring.members();
        let status = |did: Did| NeighbourStatus {
            did,
            role: if members.successors().contains(&did) {
                Role::Successor
            } else if members.predecessor() == Some(did) {
                Role::Predecessor
            } else {
                Role::Finger
            },
            next_hop: self.route(did).next_hop(),
            error: self.ring.failures.get(&did).copied(),
        };
        ring.needs().into_iter().map(status).collect()
    }

    /// Where a message for `destination` goes from here.
    pub fn route(&self, destination: Did) -> Route {
        self.ring.route(destination, false)
    }

    // What its user wants.

    /// Takes its place in the ring: asks for neighbours and fingers by way of whom it is linked to, and
    /// answers others. `seed` is drawn at random; it spreads pauses and names control messages.
    pub fn join_ring(&mut self, seed: [u8; 32], now: Now) {
        let [a, b, c, d, e, f, g, h, ..] = seed;
        let config = RingConfig::new(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        let mut ring = Ring::new(self.did, config, now.steady_ms);
        for &peer in &self.ring.linked {
            ring.handle_linked(peer, now.steady_ms);
        }
        self.ring.ring = Some(ring);
        self.ring.controls = Controls::new(seed);
        self.seed_mail(&seed);
        self.settle(now);
    }

    /// Leaves the ring: tells the neighbours, and asks for nothing any more.
    pub fn leave_ring(&mut self, now: Now) {
        if let Some(ring) = &mut self.ring.ring {
            ring.leave();
        }
        self.settle(now);
    }

    /// Whether its neighbours' lanes have the word that it leaves ([`leave_ring`](Self::leave_ring)); so
    /// it is where there is nobody to tell.
    pub fn has_left(&self) -> bool {
        self.farewells_said()
    }

    // What happened.

    /// A link that was asked for with [`Effect::Connect`](super::Effect::Connect) could not be had.
    pub fn handle_connect_failed(&mut self, peer: Did, code: &'static str, now: Now) {
        self.ring.note_failure(peer, code);
        if let Some(ring) = &mut self.ring.ring {
            ring.handle_connect_failed(peer, now.steady_ms);
        }
        self.settle(now);
    }

    /// The links to `peer` may have changed.
    pub(super) fn ring_links_changed(&mut self, peer: Did, now: Now) {
        let carries = self.links.to(peer).is_some();
        let changed = if carries {
            let changed = self.ring.linked.insert(peer);
            let high_water = self.ring.linked_high_water.max(self.ring.linked.len());
            self.ring.linked_high_water = high_water;
            changed
        } else {
            self.ring.linked.remove(&peer)
        };
        let Some(ring) = self.ring.ring.as_mut().filter(|_| changed) else {
            return;
        };
        if carries {
            self.ring.failures.remove(&peer);
            ring.handle_linked(peer, now.steady_ms);
            self.make_room(peer, now);
        } else {
            ring.handle_unlinked(peer, now.steady_ms);
        }
    }

    pub(super) fn ring_timeout(&mut self, now: Now) {
        if let Some(ring) = &mut self.ring.ring {
            ring.handle_timeout(now.steady_ms);
        }
    }

    pub(super) fn ring_due_ms(&self) -> Option<u64> {
        self.ring.ring.as_ref()?.poll_timeout()
    }
}
