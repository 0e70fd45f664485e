//! Why a message of a session is refused, and why a body is not sent in one.

use super::bounds::{
    BODY_MAX_BYTES, SESSION_ANSWER_MS, SESSION_TRIES, SESSION_WAITING_MAX,
    SESSION_WAITING_MAX_BYTES,
};
use super::frame::SessionId;
use crate::fault::{Coded, Fault};
use crate::wire::cbor::CborError;

/// Why a message of a session is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// Not the one form of a message of a session.
    #[error("malformed message of a session: {0}")]
    Malformed(#[from] CborError),
    /// The handshake does not hold: other keys, another network or account, or changed on the way.
    #[error("the handshake of a session does not hold for who signed it")]
    Handshake,
    /// It began more handshakes than it may.
    #[error("more handshakes than may begin in a minute")]
    Paced,
    /// An answer to no handshake of this node's.
    #[error("an answer to no handshake that is open ({0:?})")]
    Unasked(SessionId),
    /// A session that is not known here; its node is told.
    #[error("no session {0:?} is known here: it ended, or this node was restarted")]
    Unknown(SessionId),
    /// It does not open under its session.
    #[error("the message does not open under its session")]
    DoesNotOpen,
    /// It was taken before.
    #[error("message {number} of the session was taken before")]
    Again {
        /// Its number.
        number: u64,
    },
}

impl Coded for SessionRefusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "e2e/malformed",
            Self::Handshake => "e2e/handshake",
            Self::Paced => "e2e/paced",
            Self::Unasked(_) => "e2e/unasked",
            Self::Unknown(_) => "e2e/unknown_session",
            Self::DoesNotOpen => "e2e/does_not_open",
            Self::Again { .. } => "e2e/again",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Paced | Self::Unknown(_) => Fault::RefusedByBound,
            _ => Fault::PeerMisbehaved,
        }
    }
}

/// Why a body is not sent in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Larger than a session's messages may be.
    #[error("a body of {bytes} bytes; a session carries at most {BODY_MAX_BYTES} at once")]
    TooLarge {
        /// How large.
        bytes: usize,
    },
    /// As many bodies to this node as may be wait for a session.
    #[error(
        "{SESSION_WAITING_MAX} bodies, or {SESSION_WAITING_MAX_BYTES} bytes of them, wait for a session with this node already"
    )]
    WaitingFull,
    /// The other node does not answer the handshake.
    #[error(
        "the other node answered none of {SESSION_TRIES} handshakes, {SESSION_ANSWER_MS} ms each"
    )]
    NoAnswer,
    /// The session was ended meanwhile.
    #[error("the session was ended before this was sent")]
    Ended,
    /// The other node's key gives every secret the same answer.
    #[error("the other node's key is of small order: no session can be had with it")]
    WeakKey,
}

impl Coded for SessionError {
    fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "e2e/too_large",
            Self::WaitingFull => "e2e/waiting_full",
            Self::NoAnswer => "e2e/no_answer",
            Self::Ended => "e2e/ended",
            Self::WeakKey => "e2e/weak_key",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::TooLarge { .. } | Self::Ended => Fault::Usage,
            Self::WaitingFull => Fault::RefusedByBound,
            Self::NoAnswer => Fault::Unreachable,
            Self::WeakKey => Fault::PeerMisbehaved,
        }
    }
}
