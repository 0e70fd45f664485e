//! Files by reference: a service that is built in. One node offers a file and gives a ticket; who has
//! the ticket fetches it in parts, checks it against its hash, and goes on where it was after either
//! node was away or started again. The owner can end it for everyone, and say why.
//!
//! The file stays where it is and is read when it is asked for: one that was changed meanwhile is
//! refused, and what arrives is believed only by its hash.

mod error;
mod fetch;
mod file;
mod note;

pub use error::ShareError;
pub use fetch::Fetch;
pub use file::{Offer, restore, share};
pub use note::{About, Note};

use crate::refs::BODY_MAX_BYTES;

/// The most bytes of a file in one answer.
pub const PART_BYTES: usize = 60 * 1024;

const _: () = assert!(PART_BYTES <= BODY_MAX_BYTES, "a part fits an answer");

/// Parts of one fetch that are asked for and not here.
pub const PARTS_AHEAD: usize = 8;

/// The longest name of a file, in bytes.
pub const NAME_MAX_BYTES: usize = 255;

/// The longest path of a shared file, in bytes.
pub const PATH_MAX_BYTES: usize = 3 * 1024;

const _: () = assert!(
    PATH_MAX_BYTES + NAME_MAX_BYTES + 256 <= crate::refs::NOTE_MAX_BYTES,
    "what is noted of a file fits beside a kept reference"
);
