//! A node's place between its neighbours: successors and predecessor, and the steps by which they change.
//!
//! The steps are those of Zave's corrected Chord ("How to make Chord correct", 2017): a successor list is
//! taken over whole from a live node that was just asked, and put behind that node, never patched from
//! what one remembers; a dead first successor is dropped, nothing else; a predecessor is taken only if it
//! is nearer, or if there is none. Law (order): a list is in the order of the ring, without this node and without
//! repetition, and holds no more than its bound.

use super::place::{Distance, is_between};
use crate::ids::Did;

/// A node's neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Members {
    own: Did,
    kept: usize,
    successors: Vec<Did>,
    predecessor: Option<Did>,
}

impl Members {
    pub(super) fn new(own: Did, kept: usize) -> Self {
        Self {
            own,
            kept,
            successors: Vec::new(),
            predecessor: None,
        }
    }

    /// The successors, nearest first.
    pub fn successors(&self) -> &[Did] {
        &self.successors
    }

    /// The nearest successor.
    pub fn first(&self) -> Option<Did> {
        self.successors.first().copied()
    }

    /// The predecessor.
    pub fn predecessor(&self) -> Option<Did> {
        self.predecessor
    }

    /// Whether `node` lies before the first successor, so that it may take its place.
    pub(super) fn is_nearer(&self, node: Did) -> bool {
        let near = match self.first() {
            Some(first) => is_between(self.own, node, first),
            None => true,
        };
        node != self.own && (near || mutant!(TakesAnyCandidate))
    }

    /// `first` was asked just now and answered that `rest` come after it. Whether anything changed.
    pub(super) fn adopt(&mut self, first: Did, rest: &[Did]) -> bool {
        let old = self.successors.clone();
        let rest = if mutant!(KeepsItsOldTail) { &old } else { rest };
        let mut list: Vec<Did> = Vec::with_capacity(self.kept);
        for &node in std::iter::once(&first).chain(rest) {
            let reach = Distance::between(self.own, node);
            let behind = list.last().map(|&last| Distance::between(self.own, last));
            let past_itself = node == self.own || behind.is_some_and(|last| reach <= last);
            if list.len() == self.kept || (past_itself && !mutant!(ListsRoundTheRing)) {
                break;
            }
            list.push(node);
        }
        let changed = list != old;
        self.successors = list;
        changed
    }

    /// A successor is gone. Whether it was the first.
    pub(super) fn drop_successor(&mut self, node: Did) -> bool {
        let was_first = self.first() == Some(node);
        if was_first && mutant!(DropsAllSuccessors) {
            self.successors.clear();
        }
        self.successors.retain(|&successor| successor != node);
        was_first
    }

    /// `node` takes this node for its successor. Whether it is the predecessor now.
    pub(super) fn rectify(&mut self, node: Did) -> bool {
        let nearer = match self.predecessor {
            Some(known) => is_between(known, node, self.own),
            None => true,
        };
        if node != self.own && nearer {
            self.predecessor = Some(node);
        }
        self.predecessor == Some(node)
    }

    /// The predecessor is gone.
    pub(super) fn drop_predecessor(&mut self, node: Did) -> bool {
        let was = self.predecessor == Some(node);
        if was {
            self.predecessor = None;
        }
        was
    }

    /// Whether `successors` are in the order of the ring after `of`, without it.
    pub(super) fn is_ordered(of: Did, successors: &[Did]) -> bool {
        let reach = |&node: &Did| Distance::between(of, node);
        !successors.contains(&of) && successors.iter().map(reach).is_sorted_by(|a, b| a < b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::mutant::{Mutant, with};

    fn did(first: u8) -> Did {
        let mut bytes = [0; 20];
        bytes[0] = first;
        Did(bytes)
    }

    fn dids(firsts: &[u8]) -> Vec<Did> {
        firsts.iter().map(|&first| did(first)).collect()
    }

    #[test]
    fn law_a_list_is_in_order_without_its_own_node_and_bounded() {
        let mut members = Members::new(did(100), 3);
        assert!(members.adopt(did(120), &dids(&[140, 160, 180])));
        assert_eq!(members.successors(), dids(&[120, 140, 160]));
        assert!(!members.adopt(did(120), &dids(&[140, 160])));
        // A small ring comes back to its own node.
        members.adopt(did(200), &dids(&[100, 200]));
        assert_eq!(members.successors(), dids(&[200]));
        members.adopt(did(200), &dids(&[50, 150]));
        assert_eq!(members.successors(), dids(&[200, 50]));
        assert!(members.drop_successor(did(200)));
        assert!(!members.drop_successor(did(200)));
        assert_eq!(members.first(), Some(did(50)));
    }

    #[test]
    fn law_a_list_that_comes_round_the_ring_ends_before_its_own_node() {
        let list = || {
            let mut members = Members::new(did(100), 3);
            members.adopt(did(200), &dids(&[100, 200]));
            Members::is_ordered(did(100), members.successors())
        };
        assert!(list());
        assert!(!with(Mutant::ListsRoundTheRing, list), "not caught");
    }

    #[test]
    fn a_predecessor_is_taken_if_it_is_nearer_or_the_only_one() {
        let mut members = Members::new(did(100), 3);
        assert!(members.rectify(did(50)));
        assert!(!members.rectify(did(40)));
        assert!(members.rectify(did(60)));
        assert!(!members.rectify(did(100)));
        assert!(!members.drop_predecessor(did(50)));
        assert!(members.drop_predecessor(did(60)));
        assert!(members.rectify(did(40)));
    }

    #[test]
    fn lists_of_others_must_be_in_order() {
        assert!(Members::is_ordered(did(200), &dids(&[220, 10, 30])));
        for lie in [&[220, 10, 10][..], &[10, 220], &[220, 200], &[200]] {
            assert!(!Members::is_ordered(did(200), &dids(lie)), "{lie:?}");
        }
        assert!(Members::is_ordered(did(200), &[]));
    }
}
