//! Places for links: who gets one, and who gives one up.
//!
//! Law (the topology comes first): a link that the ring needs, at this end or as far as this node can tell at
//! the other, or that the user keeps, is never given up for another; some places are for such links alone, so
//! that a crowd of others cannot keep a neighbour out. The nearest before this node have it among their
//! successors, and would be declined for ever by one whose places are taken. Each link that has a place holds the cleanest free connection slot of the replay engine.
//! Source: protocol decision 7, seed 1 ("Receiver streams by connection slot"), failure story 24.

use overlane_core::Did;
use overlane_core::replay::Bound;
use overlane_core::ring::bounds::{CONNECTIONS_MAX, SUCCESSORS_KEPT};
use overlane_core::ring::is_between;

use super::super::{Effect, Now, Peer};
use super::RingPart;
use crate::Limits;
use crate::link::config::PEERS_DEFAULT_MAX;

/// Peers that a node of the default profile is linked to at once.
pub const LINKS_DEFAULT_MAX: usize = PEERS_DEFAULT_MAX;

/// Of them, places for links that the ring needs.
pub const RING_RESERVE: usize = 8;

const _: () = assert!(
    RING_RESERVE >= 2 * SUCCESSORS_KEPT,
    "a place for each that this node has among its successors, and for each that has it"
);
const _: () = assert!(RING_RESERVE < LINKS_DEFAULT_MAX && LINKS_DEFAULT_MAX <= CONNECTIONS_MAX);

impl RingPart {
    /// How many links there are, and may be.
    pub(in crate::peer) fn links_bound(&self) -> Bound {
        Bound {
            name: "links.max",
            limit: self.links_max as u64,
            current: self.linked.len() as u64,
            high_water: self.linked_high_water as u64,
            unit: "links",
            at_limit: "a link that nobody needs gives way, the one linked longest first",
        }
    }

    /// Places for links that the ring need not need: all where there are too few to set some apart.
    fn places_for_anybody(&self) -> usize {
        match self.links_max.checked_sub(RING_RESERVE) {
            None | Some(0) => self.links_max,
            Some(places) => places,
        }
    }
}

impl Peer {
    /// Keeps within these bounds; no more links than there are connection slots.
    pub fn set_limits(&mut self, limits: &Limits) {
        self.ring.links_max = limits.links_max.min(CONNECTIONS_MAX);
        self.outbound.set_max_bytes(limits.sends_max_bytes);
        self.dispatch.set_max_bytes(limits.dispatch_max_bytes);
        self.chunks.set_max_bytes(limits.chunks_max_bytes);
    }

    /// Links to this peer are the user's own wish: they are not given up for others.
    pub fn pin(&mut self, peer: Did) {
        self.ring.pinned.insert(peer);
    }

    /// They are no longer.
    pub fn unpin(&mut self, peer: Did) {
        self.ring.pinned.remove(&peer);
    }

    /// Whether a link to `peer` may take a place: while there are some for anybody, or because the ring
    /// needs it.
    pub(super) fn has_place_for(&self, peer: Did) -> bool {
        let linked = &self.ring.linked;
        if linked.contains(&peer) || linked.len() < self.ring.places_for_anybody() {
            return true;
        }
        self.is_needed(peer) || self.would_be_neighbour(peer) || self.is_shortly_before(peer)
    }

    /// A link to `newcomer` came up: where the places for anybody are passed, one that nobody needs is
    /// closed, the one linked longest first, the newcomer last.
    pub(super) fn make_room(&mut self, newcomer: Did, now: Now) {
        if self.ring.linked.len() <= self.ring.places_for_anybody() {
            return;
        }
        let spare = |peer: &Did| {
            let needed = self.is_needed(*peer) || self.is_shortly_before(*peer);
            !needed && !self.ring.pinned.contains(peer)
        };
        let linked = self.links.iter().map(|(_, peer)| peer);
        let mut spare = linked.filter(spare).collect::<Vec<_>>();
        spare.sort_by_key(|peer| *peer == newcomer);
        // One that was closed and is not down yet has given its place up already.
        let link_to = |peer: Did| Some((peer, self.links.to(peer)?));
        if let Some((peer, link)) = spare.into_iter().find_map(link_to) {
            self.counters.links_evicted = self.counters.links_evicted.saturating_add(1);
            self.effects.push_back(Effect::Close { link });
            self.links.gone(link);
            self.ring_links_changed(peer, now);
        }
    }

    fn is_needed(&self, peer: Did) -> bool {
        let ring = self.ring.ring.as_ref();
        ring.is_some_and(|ring| ring.needs().contains(&peer))
    }

    /// Whether fewer linked peers than a node keeps successors lie between `peer` and this node: it has this
    /// one among its successors, or will.
    fn is_shortly_before(&self, peer: Did) -> bool {
        let between = |of: &&Did| is_between(peer, **of, self.did);
        self.ring.ring.is_some()
            && self.ring.linked.iter().filter(between).count() < SUCCESSORS_KEPT
    }

    fn would_be_neighbour(&self, peer: Did) -> bool {
        let Some(members) = self.ring.ring.as_ref().map(|ring| ring.members()) else {
            return false;
        };
        let nearer = |known: Option<Did>, between: &dyn Fn(Did) -> bool| known.is_none_or(between);
        nearer(members.first(), &|first| is_between(self.did, peer, first))
            || nearer(members.predecessor(), &|last| {
                is_between(last, peer, self.did)
            })
    }
}
