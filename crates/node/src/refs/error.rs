//! Why a call has no answer.

use bytes::Bytes;
use overlane_core::{Coded, Fault};

use super::{Reason, TakenBack};

/// Why a call was not answered with what it asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The service refused, in bytes of its own.
    #[error("refused: {}", String::from_utf8_lossy(.0))]
    Refused(Bytes),
    /// What was called was taken back, lost, or could not be reached within the bounds.
    #[error("{}: {}", words(.0.reason), .0)]
    Broken(TakenBack),
    /// This node has shut down. If the call was on its way, it still is.
    #[error("the node has shut down")]
    Closed,
}

impl Coded for CallError {
    fn code(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refs/refused",
            Self::Broken(TakenBack { reason, .. }) => match *reason {
                Reason::DISCONNECTED => "refs/disconnected",
                Reason::CANNOT_SEND_TO_DATA => "refs/cannot_send_to_data",
                Reason::UNDELIVERABLE => "refs/undeliverable",
                Reason::RESOLVED_TO_PROMISE => "refs/resolved_to_promise",
                Reason::BUSY => "refs/busy",
                Reason::SERVICE_ENDED => "refs/service_ended",
                Reason::UNKNOWN_TICKET => "refs/unknown_ticket",
                _ => "refs/revoked",
            },
            Self::Closed => "node/closed",
        }
    }

    /// An answer that is no is the other side's, as what it misbehaves is: exit code 1.
    fn fault(&self) -> Fault {
        match self {
            Self::Broken(TakenBack { reason, .. }) => match *reason {
                Reason::DISCONNECTED => Fault::Unreachable,
                Reason::UNDELIVERABLE | Reason::BUSY => Fault::RefusedByBound,
                Reason::CANNOT_SEND_TO_DATA | Reason::RESOLVED_TO_PROMISE => Fault::Usage,
                _ => Fault::PeerMisbehaved,
            },
            Self::Refused(_) => Fault::PeerMisbehaved,
            Self::Closed => Fault::Usage,
        }
    }
}

/// What happened to what was called, before its owner's words.
fn words(reason: Reason) -> &'static str {
    match reason {
        Reason::DISCONNECTED => "the reference is lost",
        Reason::CANNOT_SEND_TO_DATA | Reason::RESOLVED_TO_PROMISE => "it cannot be called",
        Reason::UNDELIVERABLE | Reason::BUSY => "the call did not reach it",
        Reason::SERVICE_ENDED => "nobody answers",
        Reason::UNKNOWN_TICKET => "the ticket leads nowhere",
        _ => "the reference was revoked",
    }
}
