//! Why mail is not held, or not taken from a holder.

use crate::fault::{Coded, Fault};
use crate::identity::StatementError;
use crate::ids::{Class, Did};
use crate::transaction::VerifyError;
use crate::wire::cbor::CborError;

/// Why mail is not held, or not taken from a holder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    /// Not the one form of held mail.
    #[error("not held mail: {0}")]
    Malformed(#[from] CborError),
    /// Only application mail is held.
    #[error("a transaction of class {class}; only sealed application messages are held")]
    NotApplication {
        /// Its class.
        class: Class,
    },
    /// Its holders could read it.
    #[error("the message is not sealed to its destination; holders keep sealed messages alone")]
    NotSealed,
    /// Too large to be held.
    #[error("{size_bytes} bytes of data; mail has at most {bound_bytes}")]
    TooLarge {
        /// Its data.
        size_bytes: usize,
        /// The bound.
        bound_bytes: usize,
    },
    /// For another destination than the inbox's owner.
    #[error("mail for {found} does not belong in the inbox of {wanted}")]
    WrongDestination {
        /// The inbox's owner.
        wanted: Did,
        /// Whom it is for.
        found: Did,
    },
    /// The hold proof is of another transaction.
    #[error("the hold proof is of another transaction than the one beside it")]
    OtherTransaction,
    /// The hold proof does not count.
    #[error(transparent)]
    Hold(#[from] StatementError),
    /// The payload does not verify as of the hold instant.
    #[error("as of its hold instant: {0}")]
    Payload(#[from] VerifyError),
}

impl Coded for MailError {
    fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "mail/malformed",
            Self::NotApplication { .. } => "mail/not_application",
            Self::NotSealed => "mail/not_sealed",
            Self::TooLarge { .. } => "mail/too_large",
            Self::WrongDestination { .. } => "mail/wrong_destination",
            Self::OtherTransaction => "mail/other_transaction",
            Self::Hold(error) => error.code(),
            Self::Payload(error) => error.code(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Hold(error) => error.fault(),
            Self::Payload(error) => error.fault(),
            Self::TooLarge { .. } => Fault::RefusedByBound,
            _ => Fault::PeerMisbehaved,
        }
    }
}
