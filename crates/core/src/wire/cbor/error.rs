//! Why bytes are not the one form of what was asked for.

use super::{DEPTH_MAX, Kind};
use crate::fault::{Coded, Fault};

/// A refusal, and the offset in the input of the item it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("CBOR at byte {at}: {reason}")]
pub struct CborError {
    /// Offset of the item in the input, in bytes.
    pub at: usize,
    /// What is wrong with it.
    pub reason: CborReason,
}

/// What is wrong with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CborReason {
    /// The input ends inside an item.
    #[error("the input ends inside an item")]
    Truncated,
    /// A reserved additional-information value, or a break outside an indefinite item.
    #[error("no item begins like this")]
    Malformed,
    /// A number or a length in more bytes than it needs.
    #[error("the head is not in its shortest form")]
    NotShortest,
    /// A string or a container of indefinite length.
    #[error("lengths must be definite")]
    Indefinite,
    /// A length that the rest of the input cannot hold.
    #[error("a length of {declared} with {remaining} bytes left")]
    TooLong {
        /// Bytes of a string, or items of a container.
        declared: usize,
        /// Bytes left after the head.
        remaining: usize,
    },
    /// Containers nested deeper than [`DEPTH_MAX`].
    #[error("containers nest deeper than {DEPTH_MAX}")]
    TooDeep,
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    NotUtf8,
    /// Map keys that do not ascend in the order of their encodings, or repeat.
    #[error("map keys must ascend and never repeat")]
    KeyOrder,
    /// A tag, `undefined`, or a simple value other than a boolean or null.
    #[error("tags, undefined and unassigned simple values are not used")]
    NotUsed,
    /// An item of another kind.
    #[error("expected {wanted}, found {found}")]
    Unexpected {
        /// What the reader was asked for.
        wanted: Kind,
        /// What is there.
        found: Kind,
    },
    /// An array of another length, or a byte string of another length.
    #[error("expected a length of {wanted}, found {found}")]
    Length {
        /// The length the structure has.
        wanted: usize,
        /// The length found.
        found: usize,
    },
    /// A list longer than its bound.
    #[error("a list of {found} where at most {bound} are allowed")]
    OverBound {
        /// The most that is allowed.
        bound: usize,
        /// The length found.
        found: usize,
    },
    /// An item of the right kind whose value is not one of this type's.
    #[error("not a valid {0}")]
    Invalid(&'static str),
    /// Bytes after the value, or a container not read to its end.
    #[error("something follows the value")]
    Trailing,
}

impl Coded for CborError {
    fn code(&self) -> &'static str {
        match self.reason {
            CborReason::Truncated => "cbor/truncated",
            CborReason::Malformed => "cbor/malformed",
            CborReason::NotShortest => "cbor/not_shortest",
            CborReason::Indefinite => "cbor/indefinite",
            CborReason::TooLong { .. } => "cbor/too_long",
            CborReason::TooDeep => "cbor/too_deep",
            CborReason::NotUtf8 => "cbor/not_utf8",
            CborReason::KeyOrder => "cbor/key_order",
            CborReason::NotUsed => "cbor/not_used",
            CborReason::Unexpected { .. } => "cbor/unexpected",
            CborReason::Length { .. } => "cbor/length",
            CborReason::OverBound { .. } => "cbor/over_bound",
            CborReason::Invalid(_) => "cbor/invalid",
            CborReason::Trailing => "cbor/trailing",
        }
    }

    fn fault(&self) -> Fault {
        Fault::PeerMisbehaved
    }
}
