//! Why an offer or an answer is refused.

use super::guard::OFFER_GUARD_MAX;
use crate::fault::{Coded, Fault};
use crate::identity::{DelegationError, LifeError};
use crate::ids::Did;
use crate::wire::bounds::{SDP_MAX_BYTES, SIGNAL_MAX_BYTES};
use crate::wire::cbor::CborError;

/// Why an offer or an answer is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// Larger than any offer or answer.
    #[error("{size_bytes} bytes; an offer or an answer has at most {SIGNAL_MAX_BYTES}")]
    Oversized {
        /// Its size.
        size_bytes: usize,
    },
    /// A session description over its bound.
    #[error("a session description of {size_bytes} bytes; at most {SDP_MAX_BYTES} are taken")]
    DescriptionTooLong {
        /// Its size.
        size_bytes: usize,
    },
    /// Not the one form of an offer or an answer.
    #[error("malformed offer or answer: {0}")]
    Malformed(#[from] CborError),
    /// Its delegation does not count.
    #[error(transparent)]
    Delegation(#[from] DelegationError),
    /// Whole, but refused.
    #[error("offer or answer of {signer}: {refusal}")]
    Refused {
        /// The account it claims.
        signer: Did,
        /// Why.
        refusal: SignalRefusal,
    },
}

/// Why a whole offer or answer is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignalRefusal {
    /// It does not count now.
    #[error(transparent)]
    Life(LifeError),
    /// Its signature does not verify.
    #[error("the signature does not verify")]
    BadSignature,
    /// An answer to another offer.
    #[error("it answers another offer")]
    OtherOffer,
    /// An offer that came before.
    #[error("the offer was taken once already; make a new one")]
    Replayed,
    /// A session description that another account signed before.
    #[error("{first} signed this session description before")]
    Resigned {
        /// The account that signed it first.
        first: Did,
    },
    /// An offer that was over when the guard forgot offers of its time.
    #[error("it was over at {last_ms}, and offers were forgotten up to {floor_ms}")]
    BeforeFloor {
        /// Its last instant.
        last_ms: u64,
        /// The instant up to which offers may be forgotten.
        floor_ms: u64,
    },
    /// The guard remembers as many live offers as it may.
    #[error("{OFFER_GUARD_MAX} offers are remembered; try again when some are over")]
    GuardFull,
    /// The source of the offer has as many places as are left for all others.
    #[error(
        "{held} offers from there are remembered, as many as there is room for from elsewhere; try again when some are over"
    )]
    ShareFull {
        /// Places that the source holds.
        held: usize,
    },
}

impl Coded for SignalError {
    fn code(&self) -> &'static str {
        match self {
            Self::Oversized { .. } => "signal/oversized",
            Self::DescriptionTooLong { .. } => "signal/description_too_long",
            Self::Malformed(_) => "signal/malformed",
            Self::Delegation(error) => error.code(),
            Self::Refused { refusal, .. } => match refusal {
                SignalRefusal::Life(LifeError::FromTheFuture { .. }) => "signal/from_the_future",
                SignalRefusal::Life(LifeError::Expired { .. }) => "signal/expired",
                SignalRefusal::Life(LifeError::TooLong { .. }) => "signal/life_too_long",
                SignalRefusal::BadSignature => "signal/bad_signature",
                SignalRefusal::OtherOffer => "signal/other_offer",
                SignalRefusal::Replayed => "signal/replayed",
                SignalRefusal::Resigned { .. } => "signal/resigned",
                SignalRefusal::BeforeFloor { .. } => "signal/before_floor",
                SignalRefusal::GuardFull => "signal/guard_full",
                SignalRefusal::ShareFull { .. } => "signal/share_full",
            },
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Delegation(error) => error.fault(),
            Self::Refused {
                refusal:
                    SignalRefusal::Life(_)
                    | SignalRefusal::BeforeFloor { .. }
                    | SignalRefusal::GuardFull
                    | SignalRefusal::ShareFull { .. },
                ..
            } => Fault::RefusedByBound,
            _ => Fault::PeerMisbehaved,
        }
    }
}
