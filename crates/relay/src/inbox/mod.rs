//! Inboxes: mail that this node holds for those who are away, and mail that others hold for it.
//!
//! The inbox of an account is a [log](crate::log) that the **chain** holds: the owner of the account's
//! place and its next two successors. A mail in it is named by its transaction's digest, so holders who
//! hold one mail under their own hold proofs hold the same, and reconcile in the space they share.
//!
//! - [`Inboxes`]: the holder's side.
//! - [`Drain`]: the side of the account that comes back.
//! - [`Frame`]: what they and the sender say besides the frames of the log.
//!
//! Laws, each checked by tests that name it:
//!
//! - **Held when told.** A receipt leaves after the mail is durable here.
//! - **Fresh.** A holder takes mail from its sender only while the sender's proof lives by the holder's
//!   own clock; what another holder hands on is judged as of the instant it was held.
//! - **Only its owner removes.** Mail leaves by its owner's signed removal, by its own end, or by making
//!   room for those who have less; the sender is told which. A removal outlives the mail it removes,
//!   so a holder that had not heard brings nothing back.
//! - **Copy, acknowledge, delete.** A holder that leaves the chain lets go of what every member of the
//!   chain has acknowledged, and of nothing that came meanwhile.
//! - **Who writes.** Into an inbox come sealed mail for its owner from whoever signed it, and copies
//!   from members of the chain; a stranger neither fills nor shadows one.
//! - **Nothing proves nothing.** A holder that is empty or silent changes nothing at the owner.
//!
//! Source: protocol decision 8, seed 1 (relay inbox), stories 12 and 25 to 27.

pub mod bounds;
mod drain;
mod frame;
mod holder;
mod outcome;
mod rules;

pub use drain::{Drain, DrainEvent};
pub use frame::Frame;
pub use holder::{Event, Inboxes, InboxesError};
pub use outcome::{Outcome, OutcomeKind};
pub use overlane_recon::{Bound, End};
pub use rules::{InboxRefusal, InboxRules, MayHold};
