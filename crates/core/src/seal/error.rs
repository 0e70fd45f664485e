//! Why something could not be sealed or opened.

use crate::fault::{Coded, Fault};
use crate::wire::cbor::CborError;

/// Why something could not be sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// A public key that gives every secret the same answer.
    #[error("the sealing key is of small order: ask its owner for another contact card")]
    WeakKey,
    /// Not the form of a sealed message.
    #[error("not a sealed message: {0}")]
    Malformed(CborError),
    /// It does not open: sealed to another key, for another network or origin, or changed on the way.
    #[error("the message does not open with this key for its network, origin and destination")]
    DoesNotOpen,
    /// What is inside, or was to be, is no application message, or one that is sealed itself.
    #[error("what is sealed is no application message: {0}")]
    NotAMessage(CborError),
    /// Too large for a message once sealed.
    #[error("a sealed message of {size_bytes} bytes; at most {bound_bytes} are sent")]
    TooLarge {
        /// Its size once sealed.
        size_bytes: usize,
        /// The bound.
        bound_bytes: usize,
    },
}

impl Coded for SealError {
    fn code(&self) -> &'static str {
        match self {
            Self::WeakKey => "seal/weak_key",
            Self::Malformed(_) => "seal/malformed",
            Self::DoesNotOpen => "seal/does_not_open",
            Self::NotAMessage(_) => "seal/not_a_message",
            Self::TooLarge { .. } => "seal/too_large",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::TooLarge { .. } => Fault::RefusedByBound,
            _ => Fault::PeerMisbehaved,
        }
    }
}
