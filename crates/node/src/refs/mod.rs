//! References, for whoever embeds a node: names of things at other nodes, which survive
//! reconnects and restarts, are let go of by dropping them, and can be taken back.
//!
//! A [`Ref`] is offered with [`Node::export`](crate::Node::export), and comes to others in a call,
//! in the answer to one, or by a [`Ticket`]. Calls arrive once and in order while both nodes keep
//! their stores; a service that was given a call when its process ended is given it again.
//!
//! Law **nothing from a destructor**: the last drop of a [`Ref`] only queues that it is let go of.

mod call;
mod error;
mod handle;
mod of_node;
mod service;
mod ticket;

pub use call::{Answer, Call, Pending, Reply};
pub use error::CallError;
pub use handle::Ref;
pub use of_node::{RedeemError, ReferenceStatus};
pub use service::Service;
pub use ticket::{BadTicket, TICKET_MAX_CHARS, TICKET_URL_MAX_BYTES, Ticket};

pub use crate::peer::refs::{
    CALLS_MAX, EXPORTS_MAX, FARS_MAX, FarView, KEPT_MAX, KeptView, NOTE_MAX_BYTES, RefState,
    ReferenceCounters, ReferenceError, TICKETS_MAX, TakenBack, Token,
};
pub use overlane_relay::refs::wire::{FRAME_MAX_BYTES, REFS_PER_BODY_MAX, Reason};

pub(crate) use call::spoken;
pub(crate) use handle::Shared;
pub(crate) use service::serve;

/// Requests about references that were not answered; more wait in their callers.
pub const ASKS_MAX: usize = 1_024;

/// The most bytes of a call or an answer that speaks of no references. What speaks of some has a
/// little less room.
pub const BODY_MAX_BYTES: usize = FRAME_MAX_BYTES - 1_024;
