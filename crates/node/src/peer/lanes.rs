//! Frames in the order their lanes brought them, through workers that finish in any order.
//!
//! Law **lane order**: what a lane's frames became leaves here in the order the frames arrived on
//! that lane, however verification finishes; no lane waits for another. How many frames a lane
//! holds is bounded by the credit the link granted, which comes back only for frames that left.
//! Source: protocol decision 4, seed 1 ("Stream and transcript").

use std::collections::{BTreeMap, VecDeque};

use overlane_core::Class;

use crate::link::LinkId;

/// Names one frame that is with a verification worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerifyTicket(pub u64);

/// One lane of one link.
pub(super) type LaneKey = (LinkId, Class);

/// The inbound lanes of every link; `T` is what a frame became.
#[derive(Debug)]
pub(super) struct InboundLanes<T> {
    lanes: BTreeMap<LaneKey, VecDeque<Slot<T>>>,
    working: BTreeMap<VerifyTicket, LaneKey>,
    next_ticket: u64,
}

#[derive(Debug)]
enum Slot<T> {
    Working(VerifyTicket),
    Ready(T),
}

impl<T> Default for InboundLanes<T> {
    fn default() -> Self {
        Self {
            lanes: BTreeMap::new(),
            working: BTreeMap::new(),
            next_ticket: 0,
        }
    }
}

impl<T> InboundLanes<T> {
    /// A frame whose outcome is known at once.
    pub(super) fn push_ready(&mut self, lane: LaneKey, outcome: T) {
        let slots = self.lanes.entry(lane).or_default();
        slots.push_back(Slot::Ready(outcome));
    }

    /// A frame that goes to a worker.
    pub(super) fn push_working(&mut self, lane: LaneKey) -> VerifyTicket {
        let ticket = VerifyTicket(self.next_ticket);
        self.next_ticket += 1;
        self.working.insert(ticket, lane);
        let slots = self.lanes.entry(lane).or_default();
        slots.push_back(Slot::Working(ticket));
        ticket
    }

    /// A worker finished: the lane it was for. `None` when its frame was forgotten meanwhile.
    pub(super) fn finish(&mut self, ticket: VerifyTicket, outcome: T) -> Option<LaneKey> {
        let lane = self.working.remove(&ticket)?;
        let slots = self.lanes.get_mut(&lane)?;
        let slot = slots
            .iter_mut()
            .find(|slot| matches!(slot, Slot::Working(working) if *working == ticket))?;
        *slot = Slot::Ready(outcome);
        Some(lane)
    }

    /// What the lane's first frame became, once that is known.
    pub(super) fn head(&self, lane: LaneKey) -> Option<&T> {
        match self.lanes.get(&lane)?.front()? {
            Slot::Ready(outcome) => Some(outcome),
            Slot::Working(_) => None,
        }
    }

    /// Takes the lane's first frame out, once it is known what it became.
    pub(super) fn pop(&mut self, lane: LaneKey) -> Option<T> {
        let slots = self.lanes.get_mut(&lane)?;
        let outcome = match slots.pop_front()? {
            Slot::Ready(outcome) => outcome,
            working @ Slot::Working(_) => {
                slots.push_front(working);
                return None;
            }
        };
        if slots.is_empty() {
            self.lanes.remove(&lane);
        }
        Some(outcome)
    }

    /// Drops the frames of a link that are still here, and says how many they were, by class.
    pub(super) fn forget(&mut self, link: LinkId) -> Vec<(Class, usize)> {
        self.working.retain(|_, lane| lane.0 != link);
        let lanes = Class::ALL.iter().filter_map(|&class| {
            let slots = self.lanes.remove(&(link, class))?;
            Some((class, slots.len()))
        });
        lanes.collect()
    }

    /// How many frames are here, with workers or behind them, of links that `counts`.
    pub(super) fn count(&self, counts: impl Fn(LinkId) -> bool) -> usize {
        let of_link = self.lanes.iter().filter(|((link, _), _)| counts(*link));
        of_link.map(|(_, slots)| slots.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LANE: LaneKey = (LinkId(7), Class::Storage);

    proptest! {
        /// Frames of two lanes finish in an order drawn at random.
        #[test]
        fn law_lane_order_holds_however_workers_finish(
            order in Just((0..24usize).collect::<Vec<_>>()).prop_shuffle()
        ) {
            let mut lanes = InboundLanes::default();
            let other = (LinkId(7), Class::Control);
            let tickets: Vec<_> = (0..24)
                .map(|index| lanes.push_working(if index % 2 == 0 { LANE } else { other }))
                .collect();
            let mut left = BTreeMap::<LaneKey, Vec<usize>>::new();
            for index in order {
                let lane = lanes.finish(tickets[index], index);
                let lane = lane.ok_or(TestCaseError::fail("the lane is known"))?;
                while lanes.head(lane).is_some() {
                    left.entry(lane).or_default().extend(lanes.pop(lane));
                }
            }
            prop_assert_eq!(&left[&LANE], &(0..24).step_by(2).collect::<Vec<_>>());
            prop_assert_eq!(&left[&other], &(1..24).step_by(2).collect::<Vec<_>>());
            prop_assert_eq!(lanes.count(|_| true), 0);
        }
    }

    #[test]
    fn a_ready_frame_waits_behind_one_that_is_worked_on() {
        let mut lanes = InboundLanes::default();
        let ticket = lanes.push_working(LANE);
        lanes.push_ready(LANE, "second");
        assert_eq!(lanes.pop(LANE), None);
        assert_eq!(lanes.finish(ticket, "first"), Some(LANE));
        assert_eq!(lanes.pop(LANE), Some("first"));
        assert_eq!(lanes.pop(LANE), Some("second"));
        assert_eq!(lanes.pop(LANE), None);
    }

    #[test]
    fn what_finishes_after_it_was_forgotten_is_nothing() {
        let mut lanes = InboundLanes::default();
        let ticket = lanes.push_working(LANE);
        lanes.push_ready((LinkId(8), Class::Storage), "other");
        assert_eq!(lanes.forget(LinkId(7)), [(Class::Storage, 1)]);
        assert_eq!(lanes.finish(ticket, "late"), None);
        assert_eq!(lanes.count(|link| link == LinkId(7)), 0);
        assert_eq!(lanes.count(|_| true), 1);
    }
}
