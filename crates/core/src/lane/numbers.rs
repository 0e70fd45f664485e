//! The numbers of control frames: both sides count, so that every control frame is an answer.
//!
//! CREDIT, PING and PONG are numbered from 1 on the ordered control channel, and each says the
//! highest number it heard. A repeated frame is known by its number and changes nothing. Law
//! (bounded control): at most [`CONTROL_WINDOW_FRAMES`] of a side's frames are unheard at any time.

use super::bounds::{
    ANSWER_DUE_FRAMES, ANSWER_EARLY_FRAMES, CONTROL_WINDOW_FRAMES, STATEMENTS_ALONE_MAX,
};
use super::reason::Violation;

/// The numbers of one link, both directions.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The last number this side sent.
    sent: u64,
    /// The highest number of this side that the other said it heard.
    answered: u64,
    /// The last number that came.
    heard: u64,
    /// The highest number that this side told the other it heard.
    told: u64,
}

/// What a number that came says about its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It came before; its frame changes nothing.
    Repeated,
    /// It is the next one.
    Next {
        /// Frames of this side that it answers and that nothing answered before.
        answers: u64,
    },
}

impl Numbers {
    /// Whether another frame may be sent that leaves `reserve` places free.
    pub(super) const fn has_room(&self, reserve: u64) -> bool {
        self.unanswered().saturating_add(reserve) < CONTROL_WINDOW_FRAMES
    }

    /// Numbers a frame to send: its number, and the number it says was heard.
    pub(super) fn next(&mut self) -> (u64, u64) {
        self.sent = self.sent.saturating_add(1);
        self.told = self.heard;
        (self.sent, self.heard)
    }

    /// Takes the numbers of a frame that came.
    pub(super) fn receive(&mut self, number: u64, heard: u64) -> Result<Arrival, Violation> {
        if heard > self.sent {
            return Err(Violation::HeardUnsent);
        }
        if number <= self.heard {
            return Ok(Arrival::Repeated);
        }
        if number.saturating_sub(self.heard) > 1 {
            let heard = self.heard;
            return Err(Violation::ControlGap { number, heard });
        }
        if number.saturating_sub(self.told) > CONTROL_WINDOW_FRAMES {
            return Err(Violation::OverControl);
        }
        self.heard = number;
        let answers = heard.saturating_sub(self.answered);
        self.answered = self.answered.max(heard);
        Ok(Arrival::Next { answers })
    }

    /// Whether so many frames were heard that the other side needs an answer to go on.
    pub(super) const fn answer_due(&self) -> bool {
        self.untold() >= ANSWER_DUE_FRAMES
    }

    /// Whether so many frames were heard that an answer goes if it finds a place early.
    pub(super) const fn answer_early(&self) -> bool {
        self.untold() >= ANSWER_EARLY_FRAMES
    }

    /// Whether the other side's early grants find their places, once all that it sent is here.
    pub(super) const fn hears_early(&self) -> bool {
        self.untold() < STATEMENTS_ALONE_MAX
    }

    /// Whether a frame finds a place early.
    pub(super) const fn has_room_early(&self) -> bool {
        self.unanswered() < STATEMENTS_ALONE_MAX
    }

    /// Frames that were heard and that the other side was not told of.
    const fn untold(&self) -> u64 {
        self.heard.saturating_sub(self.told)
    }

    /// The last number this side sent.
    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Frames of this side that the other has not said it heard.
    pub(super) const fn unanswered(&self) -> u64 {
        self.sent.saturating_sub(self.answered)
    }
}
