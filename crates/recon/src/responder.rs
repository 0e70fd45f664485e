//! The answering side, as a state machine without I/O.
//!
//! Law kept here: *pushes before the answer*. What is to be sent is handed out in the one order that lets the peer
//! compute its next message against what it will hold. Source: seed 4, "Two ordering rules".

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::answer::{Least, Role, Settling, StepError, answer, judge};
use crate::budget::{Budget, Exhausted};
use crate::codec::Message;
use crate::item::Item;
use crate::limits::Limits;
use crate::storage::Storage;

/// What a responder says to one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Items the peer lacks, ascending by id, each id once. Their envelopes go out before the reply.
    pub push: Vec<Item>,
    /// Whether a push bound left items out; their ranges stay open, so the peer asks again.
    pub push_cut: bool,
    /// The answering payload.
    pub reply: Vec<u8>,
    /// Whether the planner laid the reply out because the plain one would break a limit.
    pub planned: bool,
}

/// Answers one message. The state is the peer's to keep: this depends on the set and the payload alone.
pub fn respond<S: Storage>(
    set: &mut S,
    payload: &[u8],
    limits: &Limits,
) -> Result<Response, StepError<S::Error>> {
    respond_sized(set, payload, limits, &mut |_| 0)
}

/// As [`respond`], with the size of each item's envelope for [`Limits::push_bytes`].
pub fn respond_sized<S: Storage>(
    set: &mut S,
    payload: &[u8],
    limits: &Limits,
    envelope_bytes: &mut dyn FnMut(&Item) -> u64,
) -> Result<Response, StepError<S::Error>> {
    let message = Message::decode(payload)?;
    let mut lacked = Least::new(limits.ids());
    let settling = Settling::NothingStrange;
    let judged =
        judge(set, &message, &settling, &mut lacked, &mut |_| {}).map_err(StepError::Storage)?;
    let (push, cutoff) = lacked.finish(limits.envelope_bytes(), envelope_bytes);
    let answered = answer(set, &judged, cutoff.as_ref(), Role::Responder, limits)
        .map_err(StepError::Storage)?;
    Ok(Response {
        push,
        push_cut: cutoff.is_some(),
        reply: answered.payload,
        planned: answered.planned,
    })
}

/// One peer's exchanges over one set.
#[derive(Debug, Default)]
pub struct Responder {
    limits: Limits,
    budget: Budget,
    due: VecDeque<Outgoing>,
    served: Served,
}

/// What a responder wants sent, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// The envelope of an item.
    Push(Item),
    /// A RECON payload.
    Reply(Vec<u8>),
}

/// What a responder has done for its peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    /// Messages answered.
    pub messages: u64,
    /// Messages refused: payload, allowance, or sent before the last answer was taken.
    pub refused: u64,
    /// Items pushed.
    pub pushed: u64,
    /// Answers the planner laid out.
    pub planned: u64,
}

/// Why a responder did not answer. The session lives on after each.
#[derive(Debug, thiserror::Error)]
pub enum NotAnswered<E: core::error::Error + 'static> {
    /// The payload is refused or the set could not be read.
    #[error(transparent)]
    Step(#[from] StepError<E>),
    /// The peer's allowance is used up.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// The peer sent a message before it was given the last answer whole.
    #[error("the last answer is not sent yet; {0} pieces are waiting")]
    Unread(usize),
}

impl<E: core::error::Error + 'static> NotAnswered<E> {
    /// The wire code to refuse the message with.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Step(step) => step.code(),
            Self::Exhausted(_) | Self::Unread(_) => "retry/backpressure",
        }
    }
}

impl Responder {
    /// A responder for one peer.
    #[must_use]
    pub fn new(limits: Limits, budget: Budget) -> Self {
        Self {
            limits,
            budget,
            ..Self::default()
        }
    }

    /// A message arrived. `envelope_bytes` sizes what would be pushed. Poll [`Self::poll_transmit`] next.
    pub fn handle_message<S: Storage>(
        &mut self,
        set: &mut S,
        payload: &[u8],
        envelope_bytes: &mut dyn FnMut(&Item) -> u64,
        now_ms: u64,
    ) -> Result<(), NotAnswered<S::Error>> {
        let outcome = self.answer(set, payload, envelope_bytes, now_ms);
        match &outcome {
            Ok(()) => self.served.messages += 1,
            Err(_) => self.served.refused += 1,
        }
        outcome
    }

    /// What to send next, until there is nothing: pushes first, then the reply.
    pub fn poll_transmit(&mut self) -> Option<Outgoing> {
        self.due.pop_front()
    }

    /// What was done so far.
    #[must_use]
    pub fn served(&self) -> Served {
        self.served
    }

    fn answer<S: Storage>(
        &mut self,
        set: &mut S,
        payload: &[u8],
        envelope_bytes: &mut dyn FnMut(&Item) -> u64,
        now_ms: u64,
    ) -> Result<(), NotAnswered<S::Error>> {
        if !self.due.is_empty() {
            return Err(NotAnswered::Unread(self.due.len()));
        }
        self.budget.ask(now_ms)?;
        let before = set.work_bytes();
        let outcome = respond_sized(set, payload, &self.limits, envelope_bytes);
        let work = set.work_bytes().saturating_sub(before) + payload.len() as u64;
        let response = match outcome {
            Ok(response) => response,
            Err(refusal) => {
                self.budget.charge(work, 0);
                return Err(refusal.into());
            }
        };
        let sizes = response.push.iter().map(envelope_bytes);
        let pushed = sizes.fold(0, u64::saturating_add);
        self.budget.charge(work, pushed);
        self.served.pushed += response.push.len() as u64;
        self.served.planned += u64::from(response.planned);
        self.due
            .extend(response.push.into_iter().map(Outgoing::Push));
        self.due.push_back(Outgoing::Reply(response.reply));
        Ok(())
    }
}
