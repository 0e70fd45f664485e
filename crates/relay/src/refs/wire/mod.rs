//! What two reference tables say to each other: frames, operations, and the names in them.
//!
//! Law (one form): bytes are accepted only if encoding what they say gives the same bytes again.
//! Law (cheap refusal): every list has a bound, checked before anything is allocated for it.

mod body;
mod frame;
mod id;
mod op;

pub use body::{AsKind, Body, Outcome, Reason, Slot};
pub use frame::{AckOnly, Close, Frame, Numbered, Resume};
pub use id::{Epoch, Kind, Seq, Side, WireId};
pub use op::{Hardness, Op, Resolution, Revocation};

use overlane_core::wire::bounds::DATA_MAX_BYTES;

/// The largest frame. It rides in one application transaction, with room for what wraps it there.
pub const FRAME_MAX_BYTES: usize = DATA_MAX_BYTES - 512;

/// The most operations in a frame.
pub const OPS_PER_FRAME_MAX: usize = 64;

/// The most references in one body, and the most ids in one DROP.
pub const REFS_PER_BODY_MAX: usize = 64;

/// The most promises that one RESOLVE resolves together, its ancillary ones included.
pub const RESOLUTIONS_PER_OP_MAX: usize = 64;

/// The most error data that a revocation carries, in bytes.
pub const ERROR_MAX_BYTES: usize = 16 * 1024;

/// The longest code and the longest text of a CLOSE, in bytes.
pub const CLOSE_TEXT_MAX_BYTES: usize = 256;

const _: () = assert!(
    ERROR_MAX_BYTES * 2 < FRAME_MAX_BYTES,
    "a mention and the REVOKE beside it fit a frame"
);
