//! Why something signed is refused, or cannot be signed.

use crate::fault::{Coded, Fault};
use crate::identity::{DelegationDigest, DelegationError, LifeError};
use crate::ids::Did;
use crate::wire::bounds::{DATA_MAX_BYTES, MESSAGE_MAX_BYTES};
use crate::wire::cbor::{CborError, CborReason};
use crate::wire::frame::FrameError;
use std::fmt;

/// Whose proof an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The origin of the transaction.
    Origin,
    /// The hop that carried it last.
    Hop,
    /// The reporter of a fork.
    Reporter,
}

impl Role {
    /// The domain that keeps one role's signatures from counting in another.
    pub(super) const fn domain(self) -> &'static str {
        match self {
            Self::Origin => "overlane transaction proof",
            Self::Hop => "overlane hop",
            Self::Reporter => "overlane fork",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Origin => "origin",
            Self::Hop => "hop",
            Self::Reporter => "reporter",
        })
    }
}

/// Why a payload is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// No payload frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A link control frame where a payload was expected.
    #[error("a link control frame is no payload")]
    NotPayload,
    /// Not the one form of a payload.
    #[error("malformed payload: {0}")]
    Malformed(#[from] CborError),
    /// A reference to a delegation this node does not know.
    #[error("the {role}'s delegation {digest} is not known here; it must come inline first")]
    UnknownDelegation {
        /// Whose.
        role: Role,
        /// The digest referred to.
        digest: DelegationDigest,
    },
    /// A delegation that does not count.
    #[error("{role}: {error}")]
    Delegation {
        /// Whose.
        role: Role,
        /// Why.
        error: DelegationError,
    },
    /// A proof that does not count now.
    #[error("proof of the {role} {did}: {error}")]
    Life {
        /// Whose.
        role: Role,
        /// The account it claims.
        did: Did,
        /// Why.
        error: LifeError,
    },
    /// A proof that its delegatee did not sign.
    #[error("the signature of the {role} {did} does not verify")]
    BadSignature {
        /// Whose.
        role: Role,
        /// The account it claims.
        did: Did,
    },
}

impl Coded for VerifyError {
    fn code(&self) -> &'static str {
        match self {
            Self::Frame(error) => error.code(),
            Self::NotPayload => "payload/not_payload",
            Self::Malformed(_) => "payload/malformed",
            Self::UnknownDelegation { .. } => "payload/unknown_delegation",
            Self::Delegation { error, .. } => error.code(),
            Self::Life { error, .. } => match error {
                LifeError::FromTheFuture { .. } => "payload/from_the_future",
                LifeError::Expired { .. } => "payload/expired",
                LifeError::TooLong { .. } => "payload/life_too_long",
            },
            Self::BadSignature { .. } => "payload/bad_signature",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Delegation { error, .. } => error.fault(),
            Self::UnknownDelegation { .. } | Self::Life { .. } => Fault::RefusedByBound,
            _ => Fault::PeerMisbehaved,
        }
    }
}

/// Why something cannot be signed as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The message is larger than one payload carries, or than its chunks may.
    #[error(
        "a message of {size_bytes} bytes; at most {DATA_MAX_BYTES} are carried in one frame and \
         {MESSAGE_MAX_BYTES} in chunks, heads included"
    )]
    Oversized {
        /// Its size, heads included.
        size_bytes: usize,
    },
    /// The data is no message.
    #[error("the data is no message: {0}")]
    NotMessage(CborError),
    /// The life asked for is longer than a proof's may be.
    #[error("a proof of {ttl_ms} ms; at most {ttl_max_ms} ms are allowed")]
    LifeTooLong {
        /// The life asked for.
        ttl_ms: u64,
        /// The most there is.
        ttl_max_ms: u64,
    },
    /// More hops than a route may have.
    #[error("a hop budget of {hops}; at most {bound} are allowed")]
    TooManyHops {
        /// The budget asked for.
        hops: u8,
        /// The most there is.
        bound: u8,
    },
    /// The transaction names its delegation by digest, so its origin is not known.
    #[error("the transaction's delegation {0} must be resolved before it is carried")]
    Unresolved(DelegationDigest),
}

impl From<CborError> for SignError {
    fn from(error: CborError) -> Self {
        match error.reason {
            CborReason::OverBound { found, bound }
                if bound == DATA_MAX_BYTES || bound == MESSAGE_MAX_BYTES =>
            {
                Self::Oversized { size_bytes: found }
            }
            _ => Self::NotMessage(error),
        }
    }
}

impl Coded for SignError {
    fn code(&self) -> &'static str {
        match self {
            Self::Oversized { .. } => "sign/oversized",
            Self::NotMessage(_) => "sign/not_message",
            Self::LifeTooLong { .. } => "sign/life_too_long",
            Self::TooManyHops { .. } => "sign/too_many_hops",
            Self::Unresolved(_) => "sign/unresolved_delegation",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotMessage(_) | Self::Unresolved(_) => Fault::Usage,
            _ => Fault::RefusedByBound,
        }
    }
}
