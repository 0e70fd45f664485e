//! Sends that are taken back.
//!
//! Law **cancellation**: a send that was withdrawn has one result as any has: that it was cancelled,
//! and then no lane took it whole and its destination never admits it; or its receipt, and then the
//! wish came too late. The wish is never lost, wherever the message is: waiting for its pace, with the
//! engine, in the queue of a lane, with the driver. A sequence that was reserved is passed over.
//! Dropping a wait is no such wish: it abandons only the wait. Source: protocol decision 6, seed 1.

use super::outbound::{LaneKey, Paced, Placing, Withdrawn};
use super::ring::is_own;
use super::{Now, Peer, SendError, SendId, Staged};

impl Peer {
    /// Takes a send back, if no lane took it yet. Its result says what came of it; without a result
    /// to come nothing happens.
    pub fn cancel(&mut self, id: SendId, now: Now) {
        if is_own(id) {
            return;
        }
        if self.withdraw_unsealed(id, now) || self.withdraw_from_session(id) {
            return self.settle(now);
        }
        match self.outbound.withdraw(id) {
            Withdrawn::Unsigned(destination, bytes) => {
                self.outbound.end(id, destination, bytes, None);
                self.sent(id, Err(SendError::Cancelled));
            }
            Withdrawn::Queued(lane, placing) => {
                self.take_back(*placing);
                self.pump_out_lane(lane, now);
            }
            Withdrawn::InHand => {}
            Withdrawn::NotHere => {
                let of =
                    |staged: &Staged| matches!(staged, Staged::Reservation(_, it, _) if *it == id);
                if self.staged.values().any(of) {
                    self.outbound.withdraw_later(id);
                }
            }
        }
        self.settle(now);
    }

    /// Takes the lane's first message back, if that is wished and the driver has not placed it whole.
    pub(super) fn take_back_head(&mut self, lane: LaneKey) -> bool {
        let Some(placing) = self.outbound.withdrawn_head(lane) else {
            return false;
        };
        self.take_back(placing);
        true
    }

    pub(super) fn take_back(&mut self, placing: Placing) {
        let is_cut = placing.cut.is_some();
        match placing.paced {
            Some(paced) => self.take_back_paced(placing.id, paced, is_cut),
            None => {
                let to = placing.receipt.stream.destination;
                self.outbound.end(placing.id, to, placing.bytes, None);
                self.sent(placing.id, Err(SendError::Cancelled));
            }
        }
    }

    /// A message past its pace does not leave; one in chunks would have paid with the last of them.
    pub(super) fn take_back_paced(&mut self, id: SendId, paced: Paced, is_cut: bool) {
        if !is_cut {
            self.outbound.give_back(paced);
        }
        let ((destination, _), bytes) = paced;
        self.outbound.end(id, destination, bytes, Some(paced));
        self.sent(id, Err(SendError::Cancelled));
    }
}
