//! Laws **ordered lists** and **one ordered ring**: Zave's invariants of Chord, judged by what nodes
//! say of their neighbours ("How to make Chord correct", 2017).
//!
//! A list of successors is ordered and bounded whatever happens. That the nodes form one ring, in the order
//! of their places, which every other member leads to, holds as long as failures come one after another and are
//! found out without error; whoever asks sees to that.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::Did;
use overlane_core::ring::bounds::SUCCESSORS_KEPT;
use overlane_core::ring::{Distance, is_between};

/// A node that is up, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sim) struct Member {
    pub(in crate::sim) did: Did,
    pub(in crate::sim) successors: Vec<Did>,
    pub(in crate::sim) predecessor: Option<Did>,
}

impl Member {
    /// Whether its list is in the order of the ring after it, without it, and within its bound.
    pub(in crate::sim) fn is_ordered(&self) -> bool {
        let reach = |node: &Did| Distance::between(self.did, *node);
        let ordered = self.successors.iter().map(reach).is_sorted_by(|a, b| a < b);
        ordered && self.successors.len() <= SUCCESSORS_KEPT && !self.successors.contains(&self.did)
    }
}

/// Zave's invariants over the nodes that are up. Those without a successor are in no ring yet.
///
/// # Errors
/// The first that does not hold, in words.
pub(in crate::sim) fn of_ring(up: &BTreeMap<Did, Member>) -> Result<(), String> {
    let members: Vec<&Member> = up.values().filter(|it| !it.successors.is_empty()).collect();
    let best = |member: &Member| {
        let mut successors = member.successors.iter();
        successors.find(|of| up.contains_key(of)).copied()
    };
    if let Some(lost) = members.iter().find(|member| best(member).is_none()) {
        return Err(format!("one live successor: {} has none", lost.did));
    }
    let wanted = SUCCESSORS_KEPT.min(members.len().saturating_sub(1));
    let principals = principals(&members);
    if principals < wanted {
        return Err(format!("sufficient principals: {principals} of {wanted}"));
    }
    let next: BTreeMap<Did, Did> = members
        .iter()
        .filter_map(|member| Some((member.did, best(member)?)))
        .collect();
    // After as many steps as there are nodes, everybody is on a ring.
    let rings = members.iter().map(|member| {
        let mut at = member.did;
        for _ in 0..next.len() {
            at = next.get(&at).copied().unwrap_or(at);
        }
        let steps = std::iter::successors(Some(at), |at| next.get(at).copied());
        steps.take(next.len()).collect::<BTreeSet<Did>>()
    });
    let rings: BTreeSet<BTreeSet<Did>> = rings.collect();
    let Some(ring) = rings.first().filter(|_| rings.len() == 1) else {
        let sizes: Vec<usize> = rings.iter().map(BTreeSet::len).collect();
        return Err(format!(
            "one ring, and connected appendages: rings of {sizes:?} nodes"
        ));
    };
    let skips = ring.iter().find(|&&at| {
        let to = next.get(&at).copied().unwrap_or(at);
        ring.iter()
            .any(|&other| other != to && is_between(at, other, to))
    });
    match skips {
        Some(at) => Err(format!("an ordered ring: {at} skips others on it")),
        None => Ok(()),
    }
}

/// Whether the proof is of one more that joins: as many members as are wanted then are skipped by nobody. Who has joined
/// and is not in the lists of all before it yet is skipped: in a ring of few the next comes too soon then.
pub(in crate::sim) fn lets_another_join(up: &BTreeMap<Did, Member>) -> bool {
    let members: Vec<&Member> = up.values().filter(|it| !it.successors.is_empty()).collect();
    members.len() > SUCCESSORS_KEPT || principals(&members) >= members.len()
}

/// Members that no member's list, itself before it, skips.
fn principals(members: &[&Member]) -> usize {
    let pairs = members.iter().flat_map(|member| {
        let list = std::iter::once(member.did).chain(member.successors.iter().copied());
        let list: Vec<Did> = list.collect();
        list.windows(2)
            .filter_map(|pair| pair.first().copied().zip(pair.last().copied()))
            .collect::<Vec<_>>()
    });
    let pairs: BTreeSet<(Did, Did)> = pairs.collect();
    let skipped = |node: Did| {
        pairs
            .iter()
            .any(|&(from, to)| node != to && node != from && is_between(from, node, to))
    };
    members.iter().filter(|member| !skipped(member.did)).count()
}

/// The nodes whose neighbours are not those that they should be.
pub(in crate::sim) fn is_ideal(up: &BTreeMap<Did, Member>) -> Vec<String> {
    let all: Vec<Did> = up.keys().copied().collect();
    let count = all.len();
    let kept = SUCCESSORS_KEPT.min(count.saturating_sub(1));
    let mut wrong = Vec::new();
    for (at, member) in up.values().enumerate() {
        let after = |by: usize| all.get((at + by) % count.max(1)).copied();
        let next: Vec<Did> = (1..=kept).filter_map(after).collect();
        if member.successors != next {
            wrong.push(format!("{} has not its successors", member.did));
        }
        if count > 1 && member.predecessor != after(count - 1) {
            wrong.push(format!("{} has not its predecessor", member.did));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(first: u8) -> Did {
        let mut bytes = [0; 20];
        bytes[0] = first;
        Did(bytes)
    }

    fn ring(members: &[(u8, &[u8], Option<u8>)]) -> BTreeMap<Did, Member> {
        let member = |&(own, successors, predecessor): &(u8, &[u8], Option<u8>)| Member {
            did: did(own),
            successors: successors.iter().map(|&of| did(of)).collect(),
            predecessor: predecessor.map(did),
        };
        members.iter().map(|of| (did(of.0), member(of))).collect()
    }

    fn ideal() -> BTreeMap<Did, Member> {
        ring(&[
            (10, &[20, 30, 40], Some(50)),
            (20, &[30, 40, 50], Some(10)),
            (30, &[40, 50, 10], Some(20)),
            (40, &[50, 10, 20], Some(30)),
            (50, &[10, 20, 30], Some(40)),
        ])
    }

    #[test]
    fn an_ideal_ring_breaks_nothing_and_each_invariant_is_seen_to_be_broken() {
        assert_eq!(of_ring(&ideal()), Ok(()));
        assert!(is_ideal(&ideal()).is_empty());
        let broken = |own: u8, successors: &[u8]| {
            let mut ring = ideal();
            let member = ring.get_mut(&did(own)).unwrap();
            member.successors = successors.iter().map(|&of| did(of)).collect();
            (member.is_ordered(), of_ring(&ring).unwrap_err())
        };
        // Its only successor is none that is up.
        let (_, words) = broken(10, &[15]);
        assert!(words.starts_with("one live successor"), "{words}");
        let (_, words) = broken(50, &[40]);
        assert!(words.starts_with("sufficient principals"), "{words}");
        let two = ring(&[
            (10, &[30], None),
            (20, &[40], None),
            (30, &[10], None),
            (40, &[20], None),
        ]);
        assert!(of_ring(&two).is_err());
        let mut lists = ideal();
        lists.get_mut(&did(10)).unwrap().successors = vec![did(30), did(20)];
        assert!(!lists[&did(10)].is_ordered());
        assert!(!is_ideal(&lists).is_empty());
        lists.get_mut(&did(10)).unwrap().successors = vec![did(20), did(10)];
        assert!(!lists[&did(10)].is_ordered());
    }

    #[test]
    fn in_a_ring_of_few_one_joins_after_the_other() {
        let two = ring(&[(10, &[20], Some(20)), (20, &[10], Some(10))]);
        assert!(lets_another_join(&two));
        // The third is in nobody's list yet, and both skip it.
        let mut three = two;
        three.extend(ring(&[(15, &[20, 10], None)]));
        assert_eq!(of_ring(&three), Ok(()));
        assert!(!lets_another_join(&three));
        let mut four = three.clone();
        four.extend(ring(&[(17, &[20, 10], None)]));
        assert!(
            of_ring(&four)
                .unwrap_err()
                .starts_with("sufficient principals")
        );
        // Its predecessor knows it; the other's list ends before it.
        three.extend(ring(&[(10, &[15, 20], Some(20))]));
        three.extend(ring(&[(20, &[10, 15], Some(15))]));
        assert!(lets_another_join(&three));
        let mut many = ideal();
        many.extend(ring(&[(25, &[30, 40, 50], None)]));
        assert!(lets_another_join(&many));
    }

    #[test]
    fn who_is_in_no_ring_yet_is_no_member() {
        let mut joining = ideal();
        joining.extend(ring(&[(25, &[], None)]));
        assert_eq!(of_ring(&joining), Ok(()));
        assert!(!is_ideal(&joining).is_empty());
    }
}
