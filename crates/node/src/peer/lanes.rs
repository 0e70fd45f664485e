//! Frames in the order their lanes brought them, through workers that finish in any order.
//!
//! Law **lane order**: what a lane's frames became leaves here in the order the frames arrived on
//! that lane, however verification finishes; no lane waits for another. A lane is a peer's, not a
//! link's: what a new link to the same peer brings goes behind what the old one left, so that a
//! stream is not overtaken by itself. How many frames a link has here is bounded by the credit it
//! granted, which comes back only for frames that left.
//! Source: protocol decision 4, seed 1 ("Stream and transcript").

use std::collections::{BTreeMap, VecDeque};

use overlane_core::{Class, Did};

use crate::link::LinkId;

/// Names one frame that is with a verification worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerifyTicket(pub u64);

/// One class of what one peer brings.
pub(super) type InboundLane = (Did, Class);

/// The inbound lanes of every peer; `T` is what a frame became.
#[derive(Debug)]
pub(super) struct InboundLanes<T> {
    lanes: BTreeMap<InboundLane, VecDeque<Slot<T>>>,
    working: BTreeMap<VerifyTicket, InboundLane>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Slot<T> {
    link: LinkId,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
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
    /// A frame of `link` whose outcome is known at once.
    pub(super) fn push_ready(&mut self, lane: InboundLane, link: LinkId, outcome: T) {
        let state = State::Ready(outcome);
        let slots = self.lanes.entry(lane).or_default();
        slots.push_back(Slot { link, state });
    }

    /// A frame of `link` that goes to a worker.
    pub(super) fn push_working(&mut self, lane: InboundLane, link: LinkId) -> VerifyTicket {
        let ticket = VerifyTicket(self.next_ticket);
        self.next_ticket += 1;
        self.working.insert(ticket, lane);
        let state = State::Working(ticket);
        let slots = self.lanes.entry(lane).or_default();
        slots.push_back(Slot { link, state });
        ticket
    }

    /// What a lane's first frames made together goes to a worker, in their place.
    pub(super) fn push_front_working(&mut self, lane: InboundLane, link: LinkId) -> VerifyTicket {
        let ticket = VerifyTicket(self.next_ticket);
        self.next_ticket += 1;
        self.working.insert(ticket, lane);
        let state = State::Working(ticket);
        let slots = self.lanes.entry(lane).or_default();
        slots.push_front(Slot { link, state });
        ticket
    }

    /// A worker finished: the lane and the link it was for. `None` when its frame was forgotten
    /// meanwhile.
    pub(super) fn finish(
        &mut self,
        ticket: VerifyTicket,
        outcome: T,
    ) -> Option<(InboundLane, LinkId)> {
        let lane = self.working.remove(&ticket)?;
        let slots = self.lanes.get_mut(&lane)?;
        let slot = slots
            .iter_mut()
            .find(|slot| matches!(slot.state, State::Working(working) if working == ticket))?;
        slot.state = State::Ready(outcome);
        Some((lane, slot.link))
    }

    /// What the lane's first frame became, once that is known.
    pub(super) fn head(&self, lane: InboundLane) -> Option<&T> {
        match &self.lanes.get(&lane)?.front()?.state {
            State::Ready(outcome) => Some(outcome),
            State::Working(_) => None,
        }
    }

    /// Takes the lane's first frame out, once it is known what it became, and names its link.
    pub(super) fn pop(&mut self, lane: InboundLane) -> Option<(LinkId, T)> {
        let slots = self.lanes.get_mut(&lane)?;
        let Slot { link, state } = slots.pop_front()?;
        let outcome = match state {
            State::Ready(outcome) => outcome,
            state @ State::Working(_) => {
                slots.push_front(Slot { link, state });
                return None;
            }
        };
        if slots.is_empty() {
            self.lanes.remove(&lane);
        }
        Some((link, outcome))
    }

    /// Drops the frames of a link to `peer` that are still here, and says how many they were, by
    /// class.
    pub(super) fn forget(&mut self, peer: Did, link: LinkId) -> Vec<(Class, usize)> {
        let mut dropped = Vec::new();
        for class in Class::ALL {
            let Some(slots) = self.lanes.get_mut(&(peer, class)) else {
                continue;
            };
            let before = slots.len();
            slots.retain(|slot| {
                if let (true, State::Working(ticket)) = (slot.link == link, &slot.state) {
                    self.working.remove(ticket);
                }
                slot.link != link
            });
            dropped.push((class, before - slots.len()));
            if slots.is_empty() {
                self.lanes.remove(&(peer, class));
            }
        }
        dropped
    }

    /// How many frames are with a worker.
    pub(super) fn verifying(&self) -> usize {
        self.working.len()
    }

    /// How many frames are here, with workers or behind them, of links that `counts`.
    pub(super) fn count(&self, counts: impl Fn(LinkId) -> bool) -> usize {
        let slots = self.lanes.values().flatten();
        slots.filter(|slot| counts(slot.link)).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINK: LinkId = LinkId(7);
    const LANE: InboundLane = (Did([1; 20]), Class::Storage);

    proptest! {
        /// Frames of two lanes finish in an order drawn at random.
        #[test]
        fn law_lane_order_holds_however_workers_finish(
            order in Just((0..24usize).collect::<Vec<_>>()).prop_shuffle()
        ) {
            let mut lanes = InboundLanes::default();
            let other = (LANE.0, Class::Control);
            let tickets: Vec<_> = (0..24)
                .map(|index| lanes.push_working(if index % 2 == 0 { LANE } else { other }, LINK))
                .collect();
            let mut left = BTreeMap::<InboundLane, Vec<usize>>::new();
            for index in order {
                let lane = lanes.finish(tickets[index], index);
                let (lane, _) = lane.ok_or(TestCaseError::fail("the lane is known"))?;
                while let Some((_, index)) = lanes.pop(lane) {
                    left.entry(lane).or_default().push(index);
                }
            }
            prop_assert_eq!(&left[&LANE], &(0..24).step_by(2).collect::<Vec<_>>());
            prop_assert_eq!(&left[&other], &(1..24).step_by(2).collect::<Vec<_>>());
            prop_assert_eq!(lanes.count(|_| true), 0);
        }
    }

    #[test]
    fn a_ready_frame_waits_behind_one_that_is_worked_on_also_on_an_older_link() {
        let mut lanes = InboundLanes::default();
        let newer = LinkId(8);
        let ticket = lanes.push_working(LANE, LINK);
        lanes.push_ready(LANE, newer, "second");
        assert_eq!(lanes.head(LANE), None);
        assert_eq!(lanes.pop(LANE), None);
        assert_eq!(lanes.finish(ticket, "first"), Some((LANE, LINK)));
        assert_eq!(lanes.head(LANE), Some(&"first"));
        assert_eq!(lanes.pop(LANE), Some((LINK, "first")));
        assert_eq!(lanes.pop(LANE), Some((newer, "second")));
        assert_eq!(lanes.pop(LANE), None);
    }

    #[test]
    fn what_finishes_after_it_was_forgotten_is_nothing() {
        let mut lanes = InboundLanes::default();
        let ticket = lanes.push_working(LANE, LINK);
        lanes.push_ready(LANE, LinkId(8), "other");
        assert_eq!(lanes.forget(LANE.0, LINK), [(Class::Storage, 1)]);
        assert_eq!(lanes.finish(ticket, "late"), None);
        assert_eq!(lanes.count(|link| link == LINK), 0);
        assert_eq!(lanes.pop(LANE), Some((LinkId(8), "other")));
        assert_eq!(lanes.count(|_| true), 0);
    }
}
