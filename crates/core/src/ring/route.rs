//! The delivery rule: how a message comes to a node, which is not how the owner of a place is found.
//!
//! Law (a route ends): a hop sends on to the linked peer nearest the destination without passing it;
//! where there is none, once, marked, to the first linked peer after it; a second crossing ends the
//! route. So the distance to the destination shrinks with every hop but one, and no route of honest
//! hops comes twice to the same node in the same state. A hop that breaks this is found by the next
//! ([`is_progress`]); where several conspire, the hop budget ends it. Source: protocol decision 7.

use std::collections::BTreeSet;

use super::place::{Distance, is_between};
use crate::ids::Did;
use crate::transaction::RelayFields;

/// Where a message goes from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// To this peer, nearer the destination, or the destination itself.
    On(Did),
    /// To this peer, the first one after the destination: the one hand-off.
    Across(Did),
    /// Nowhere: it would cross its destination a second time, or nobody is linked.
    Ends,
}

impl Route {
    /// The peer that it goes to.
    pub fn next_hop(self) -> Option<Did> {
        match self {
            Self::On(peer) | Self::Across(peer) => Some(peer),
            Self::Ends => None,
        }
    }
}

/// Where a message for `destination` goes from `own`, which is not it.
pub fn route(own: Did, linked: &BTreeSet<Did>, destination: Did, handed_off: bool) -> Route {
    if let Some(nearest) = nearest_at(own, linked, destination) {
        return Route::On(nearest);
    }
    match first_after(destination, linked) {
        Some(peer) if !handed_off => Route::Across(peer),
        _ => Route::Ends,
    }
}

/// Whether a hop from `hop` to `own` with these fields follows the rule as far as `own` can tell.
pub fn is_progress(hop: Did, own: Did, relay: &RelayFields) -> bool {
    let (before, after) = (
        Distance::between(hop, relay.destination),
        Distance::between(own, relay.destination),
    );
    relay.handed_off || after < before
}

/// The peer of `linked` nearest `destination` clockwise, at it included, that lies after `own`.
fn nearest_at(own: Did, linked: &BTreeSet<Did>, destination: Did) -> Option<Did> {
    let mut backwards = linked.range(..=destination).rev();
    let nearest = backwards.next().or_else(|| linked.iter().next_back());
    let nearest = nearest.copied().filter(|&peer| peer != own);
    nearest.filter(|&peer| peer == destination || is_between(own, peer, destination))
}

/// The peer of `linked` that comes first after `place` clockwise.
pub(super) fn first_after(place: Did, linked: &BTreeSet<Did>) -> Option<Did> {
    let after = (std::ops::Bound::Excluded(place), std::ops::Bound::Unbounded);
    let mut after = linked.range(after);
    after.next().or_else(|| linked.iter().next()).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn did(first: u8) -> Did {
        let mut bytes = [0; 20];
        bytes[0] = first;
        Did(bytes)
    }

    fn linked(peers: &[u8]) -> BTreeSet<Did> {
        peers.iter().map(|&peer| did(peer)).collect()
    }

    fn relay(destination: u8, handed_off: bool) -> RelayFields {
        RelayFields {
            destination: did(destination),
            handed_off,
            ..RelayFields::direct(did(0))
        }
    }

    #[test]
    fn the_nearest_without_passing_then_one_hand_off_then_the_end() {
        let peers = linked(&[10, 20, 30, 200]);
        let from_5 = |destination, handed| route(did(5), &peers, did(destination), handed);
        assert_eq!(from_5(20, false), Route::On(did(20)));
        assert_eq!(from_5(25, false), Route::On(did(20)));
        assert_eq!(from_5(3, false), Route::On(did(200)));
        assert_eq!(from_5(7, false), Route::Across(did(10)));
        assert_eq!(from_5(7, true), Route::Ends);
        assert_eq!(
            route(did(220), &peers, did(3), false),
            Route::Across(did(10))
        );
        assert_eq!(route(did(5), &linked(&[]), did(3), false), Route::Ends);
        // A star: everything goes through the middle, across where that is not on the way.
        assert_eq!(
            route(did(50), &linked(&[10]), did(60), false),
            Route::Across(did(10))
        );
        assert_eq!(
            route(did(50), &linked(&[10]), did(20), false),
            Route::On(did(10))
        );
    }

    #[test]
    fn a_step_back_without_a_hand_off_is_no_progress() {
        assert!(is_progress(did(10), did(20), &relay(30, false)));
        assert!(is_progress(did(10), did(30), &relay(30, false)));
        assert!(!is_progress(did(20), did(10), &relay(30, false)));
        assert!(!is_progress(did(10), did(40), &relay(30, false)));
        assert!(is_progress(did(10), did(40), &relay(30, true)));
        // A destination sends nothing on that is for itself.
        assert!(!is_progress(did(30), did(40), &relay(30, false)));
    }

    /// Follows the rule from `from`, and gives the hops, or the end.
    fn follow(links: &BTreeMap<Did, BTreeSet<Did>>, from: Did, to: Did) -> Option<Vec<Did>> {
        let (mut at, mut handed_off, mut hops) = (from, false, Vec::new());
        while at != to {
            assert!(hops.len() <= 2 * links.len(), "no end: {hops:?}");
            let routed = route(at, &links[&at], to, handed_off);
            let next = routed.next_hop()?;
            handed_off |= matches!(routed, Route::Across(_));
            let fields = RelayFields {
                destination: to,
                handed_off,
                ..RelayFields::direct(next)
            };
            assert!(is_progress(at, next, &fields), "{at} to {next} for {to}");
            hops.push(next);
            at = next;
        }
        Some(hops)
    }

    proptest! {
        /// Whatever links there are.
        #[test]
        fn law_every_route_ends_and_each_hop_is_progress(
            edges in proptest::collection::vec((0u8..12, 0u8..12), 0..40)
        ) {
            let mut links: BTreeMap<_, _> =
                (0..12).map(|node| (did(20 * node), BTreeSet::new())).collect();
            for (one, other) in edges.into_iter().filter(|(one, other)| one != other) {
                links.entry(did(20 * one)).or_default().insert(did(20 * other));
                links.entry(did(20 * other)).or_default().insert(did(20 * one));
            }
            for from in 0..12 {
                for to in 0..12 {
                    follow(&links, did(20 * from), did(20 * to));
                }
            }
        }

        /// Nodes that are linked to their successors and to whatever else.
        #[test]
        fn law_where_successors_are_linked_every_node_is_reached_s20(
            extra in proptest::collection::vec((0u8..12, 0u8..12), 0..20)
        ) {
            let ring = (0..12).map(|node| (node, (node + 1) % 12));
            let edges = ring.chain(extra).filter(|(one, other)| one != other);
            let mut links: BTreeMap<Did, BTreeSet<Did>> = BTreeMap::new();
            for (one, other) in edges {
                links.entry(did(20 * one)).or_default().insert(did(20 * other));
                links.entry(did(20 * other)).or_default().insert(did(20 * one));
            }
            for from in 0..12 {
                for to in 0..12 {
                    let hops = follow(&links, did(20 * from), did(20 * to));
                    prop_assert!(hops.is_some(), "{from} to {to}");
                }
            }
        }
    }
}
