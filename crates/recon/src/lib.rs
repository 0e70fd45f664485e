//! Deterministic reconciliation of two sets over their sequence space (RECON): after days apart, two sides find what
//! differs at the cost of what differs.
//!
//! The laws, each checked by a test that names it: *exact* (every published vector, byte for byte), *always ends* (an
//! exchange settles, gives up at a named bound, or is refused with a code), *never too large* (no message above the
//! caller's limit), *total* (any bytes decode or are refused), *bounded* (memory and work per byte received).
//!
//! Start at [`Initiator`] and [`Responder`], or at the pure steps [`initiate`], [`respond`] and [`advance`] under
//! them. The bytes are described in the crate's README. No I/O, no clock, no randomness; `no_std` with `alloc`.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate self as overlane_recon;
#[cfg(test)]
extern crate std;

mod answer;
pub mod bounds;
mod budget;
mod codec;
pub mod fingerprint;
pub mod frames;
mod initiator;
mod item;
mod limits;
pub mod pair;
mod plan;
mod report;
mod responder;
mod set;
mod storage;

pub use answer::StepError;
pub use budget::{Budget, Exhausted};
pub use codec::{CborFault, Content, HeaderFault, IdList, Message, Range, Refusal};
pub use initiator::{Initiator, Patience, Request, Step, advance, initiate};
pub use item::{Fingerprint, Id, Item, RECORD_BYTES, Record, ReservedSeq, record_id, record_seq};
pub use limits::Limits;
pub use plan::{Differences, Plan, plan};
pub use report::{Bound, End, Refused, Report};
pub use responder::{NotAnswered, Outgoing, Responder, Response, Served, respond, respond_sized};
pub use set::ItemSet;
pub use storage::Storage;
