//! Logs: sets of sealed envelopes that some nodes keep for others, numbered as they come, reconciled
//! when sides meet again.
//!
//! - [`Frame`]: what the two sides say.
//! - [`LogStore`]: what keeps envelopes, and answers a reconciliation without loading them.
//! - [`Rules`]: who may do what with a log, and what an envelope of it is.
//! - [`Logs`]: the machine of one node, for the logs it hosts and for those it follows.
//!
//! Laws, each checked by tests that name it:
//!
//! - **Content address.** An envelope is named by its content. Whoever receives one names it itself.
//! - **Numbered once.** The holder numbers an envelope when it first sees it, in the transaction that
//!   keeps it. The same envelope again is answered with the number it has.
//! - **Durable first.** No acknowledgement, push or answer leaves before what it speaks of is durable.
//!   After a store that failed nothing leaves any more until the logs are opened again.
//! - **Pushes before the answer.** A round's envelopes leave before the payload that answers it.
//! - **Acknowledgements before advancing.** A side answers when all it sent is acknowledged or refused.
//! - **Told.** What is refused, on either side, is named with a reason.
//! - **Bounded.** What a peer makes a node keep, hash or send is bounded, and paid by the byte.
//!
//! Source: protocol decision 8, seed 2 (RECON), threats 15, 21, 22 and 25.

mod book;
pub mod bounds;
mod exchange;
mod frame;
pub mod group;
mod id;
mod keep;
mod logs;
mod mutant;
mod owing;
mod refusal;
mod retention;
mod rules;
mod serve;
mod stage;
mod store;
#[cfg(feature = "testkit")]
pub mod testkit;
mod told;

pub use book::Numbering;
pub use frame::{Frame, Named, Refused, Space, Turn};
pub(crate) use id::mail_id;
pub use id::{EnvelopeId, LogId, address, shared_place};
pub use logs::Logs;
#[cfg(not(feature = "mutants"))]
pub(crate) use mutant::Mutant;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use refusal::{Refusal, is_numbered_anew, is_passing};
pub use retention::{Full, Retention};
pub use rules::{Access, Allowance, Judged, Rules};
pub use store::{Change, Entry, LogStore, Row};
pub use told::{Counters, Event, LogsError, Peer, Planned, Transmit};
