//! Fingers: for each power of two, the first node at or after the place that lies so far ahead.
//!
//! Law (range proof): an owner found for a slot's place owns every place between that and itself, so
//! one lookup proves all slots up to its answer, and a table of 160 slots takes as many lookups as it
//! has different nodes. Source: protocol decision 7.

use std::collections::BTreeSet;

use super::bounds::FINGER_SLOTS;
use super::place::Distance;
use crate::ids::Did;

/// The finger table of one node.
#[derive(Debug, Clone)]
pub struct Fingers {
    own: Did,
    slots: Vec<Option<Did>>,
}

impl Fingers {
    pub(super) fn new(own: Did) -> Self {
        let slots = vec![None; usize::from(FINGER_SLOTS)];
        Self { own, slots }
    }

    /// The place of a slot.
    pub(super) fn place(&self, slot: u8) -> Did {
        Distance::power_of_two(slot).after(self.own)
    }

    /// The node of a slot, where one is proven. This node itself stands for "nobody else".
    pub fn slot(&self, slot: u8) -> Option<Did> {
        self.slots.get(usize::from(slot)).copied().flatten()
    }

    /// The different nodes, in order of their places; this one aside.
    pub fn nodes(&self) -> BTreeSet<Did> {
        let nodes = self.slots.iter().flatten().copied();
        nodes.filter(|&node| node != self.own).collect()
    }

    /// How many slots are proven.
    pub fn proven(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// The first slot that is not proven.
    pub(super) fn unproven(&self) -> Option<u8> {
        (0..FINGER_SLOTS).find(|&slot| self.slot(slot).is_none())
    }

    /// The first slot of the next other node than this slot's; the first of all after the last.
    pub(super) fn next_run(&self, slot: u8) -> u8 {
        let node = self.slot(slot);
        let after = slot.saturating_add(1)..FINGER_SLOTS;
        let mut others = after.filter(|&other| self.slot(other) != node);
        others.next().unwrap_or_default()
    }

    /// `owner` owns the place of `slot`: it is proven for every slot whose place lies between.
    pub(super) fn prove(&mut self, slot: u8, owner: Did) {
        let reach = Distance::between(self.own, owner);
        for slot in slot..FINGER_SLOTS {
            let all = owner == self.own;
            if !all && Distance::power_of_two(slot) > reach {
                return;
            }
            if let Some(of) = self.slots.get_mut(usize::from(slot)) {
                *of = Some(owner);
            }
        }
    }

    /// Successors own what lies between them: their slots need no lookup.
    pub(super) fn prove_successors(&mut self, successors: &[Did]) {
        let mut slot = 0;
        for &successor in successors {
            let reach = Distance::between(self.own, successor);
            while slot < FINGER_SLOTS && Distance::power_of_two(slot) <= reach {
                if let Some(of) = self.slots.get_mut(usize::from(slot)) {
                    *of = Some(successor);
                }
                slot = slot.saturating_add(1);
            }
        }
    }

    /// A node is gone: its slots are to be proven again.
    pub(super) fn forget(&mut self, node: Did) {
        for slot in &mut self.slots {
            if *slot == Some(node) {
                *slot = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(bit: u8) -> Did {
        Distance::power_of_two(bit).after(Did([7; 20]))
    }

    #[test]
    fn law_one_lookup_proves_every_slot_up_to_its_answer() {
        let mut fingers = Fingers::new(Did([7; 20]));
        assert_eq!(fingers.unproven(), Some(0));
        fingers.prove(0, after(150));
        assert_eq!(fingers.proven(), 151);
        assert_eq!(fingers.unproven(), Some(151));
        fingers.prove(151, after(157));
        assert_eq!(
            (fingers.slot(150), fingers.slot(157)),
            (Some(after(150)), Some(after(157)))
        );
        // Nobody is between the slot's place and this node: nor for any later slot.
        fingers.prove(158, Did([7; 20]));
        assert_eq!(fingers.unproven(), None);
        assert_eq!(fingers.nodes(), BTreeSet::from([after(150), after(157)]));
        assert_eq!((fingers.next_run(0), fingers.next_run(151)), (151, 158));
        assert_eq!(fingers.next_run(159), 0);
    }

    #[test]
    fn an_answer_proves_nothing_beyond_itself_and_what_is_gone_nothing_at_all() {
        let mut fingers = Fingers::new(Did([7; 20]));
        fingers.prove_successors(&[after(140), after(145), after(152)]);
        assert_eq!(fingers.slot(140), Some(after(140)));
        assert_eq!(fingers.slot(141), Some(after(145)));
        assert_eq!(fingers.unproven(), Some(153));
        fingers.forget(after(145));
        assert_eq!(fingers.unproven(), Some(141));
        assert_eq!(fingers.slot(146), Some(after(152)));
    }
}
