//! Why a link could not be had, and why one ended.

use overlane_core::lane::{CloseReason, SendError};
use overlane_core::ring::RingError;
use overlane_core::signal::SignalError;
use overlane_core::{Coded, Did, Fault};

use super::http::HttpError;
use super::id::LinkId;
use super::transport::{Ended, TransportError};
use crate::policy::PolicyRefusal;

/// Why a call on links failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No such link, or one that is down.
    #[error("link {0} is down, or there never was one")]
    Unknown(LinkId),
    /// The lane did not take the frame.
    #[error("link {link}: {error}")]
    Lane {
        /// The link.
        link: LinkId,
        /// Why.
        error: SendError,
    },
    /// The connection could not be made.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The peer's offer or answer is refused.
    #[error(transparent)]
    Signal(#[from] SignalError),
    /// The peer could not be asked.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The peer refused this node's offer.
    #[error("{url} refused the offer: {message} ({code})")]
    RefusedByPeer {
        /// Where it was asked.
        url: String,
        /// The peer's code.
        code: String,
        /// The peer's words.
        message: String,
    },
    /// The link did not open in time.
    #[error("the link to {peer} did not open: {reason}")]
    NotOpened {
        /// Who answered.
        peer: Did,
        /// How far it came.
        reason: DownReason,
    },
    /// The peer is this node itself.
    #[error("this node answered its own offer: give another node's URL")]
    Itself,
    /// Another node's signature than the one that was asked, or that brought the offer.
    #[error("{found} signed where {wanted} was to: no link is made")]
    OtherSigner {
        /// Who was to sign.
        wanted: Did,
        /// Who did.
        found: Did,
    },
    /// The node could not be asked by way of the ring, or declined.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Both sides offered at the same time, and the other one's offer stands.
    #[error("an offer from {peer} crossed this one and stands: wait for its link")]
    Crossed {
        /// The peer.
        peer: Did,
    },
    /// The policy of the program that embeds this node.
    #[error(transparent)]
    Policy(#[from] PolicyRefusal),
    /// No place for another link.
    #[error("{max} links are up, and no more are allowed: drop one first")]
    LinksFull {
        /// The bound.
        max: usize,
    },
    /// No place for another handshake.
    #[error("{max} handshakes are under way, and no more are allowed: try again later")]
    HandshakesFull {
        /// The bound.
        max: usize,
    },
    /// The source of the offer has as many places as are left for all others.
    #[error(
        "{held} {places} are from there, as many as there is room for from elsewhere: try again later"
    )]
    ShareFull {
        /// Places that the source holds.
        held: usize,
        /// What they are places for: handshakes, or links.
        places: &'static str,
    },
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
}

impl Coded for LinkError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "link/unknown",
            Self::Lane { error, .. } => error.code(),
            Self::Transport(error) => error.code(),
            Self::Signal(error) => error.code(),
            Self::Http(error) => error.code(),
            Self::RefusedByPeer { .. } => "link/refused_by_peer",
            Self::NotOpened { .. } => "link/not_opened",
            Self::Itself => "link/itself",
            Self::OtherSigner { .. } => "link/other_signer",
            Self::Ring(error) => error.code(),
            Self::Crossed { .. } => "link/crossed",
            Self::Policy(refusal) => refusal.code(),
            Self::LinksFull { .. } => "link/links_full",
            Self::HandshakesFull { .. } => "link/handshakes_full",
            Self::ShareFull { .. } => "link/share_full",
            Self::ShuttingDown => "link/shutting_down",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Unknown(_) | Self::RefusedByPeer { .. } | Self::ShuttingDown => {
                Fault::Unreachable
            }
            Self::Lane { error, .. } => error.fault(),
            Self::Transport(error) => error.fault(),
            Self::Signal(error) => error.fault(),
            Self::Http(error) => error.fault(),
            Self::NotOpened { reason, .. } => reason.fault(),
            Self::OtherSigner { .. } => Fault::PeerMisbehaved,
            Self::Ring(error) => error.fault(),
            Self::Policy(refusal) => refusal.fault(),
            Self::Itself => Fault::Usage,
            Self::Crossed { .. }
            | Self::LinksFull { .. }
            | Self::HandshakesFull { .. }
            | Self::ShareFull { .. } => Fault::RefusedByBound,
        }
    }
}

/// Why a link generation is down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownReason {
    /// The session ended, and says why.
    #[error(transparent)]
    Session(#[from] CloseReason),
    /// The connection ended under it.
    #[error(transparent)]
    Transport(#[from] Ended),
    /// A frame could not be handed to the connection.
    #[error(transparent)]
    Send(#[from] TransportError),
    /// The peer sent a payload frame that no honest peer sends.
    #[error("cut by this node: the peer broke the payload protocol ({code})")]
    Payload {
        /// The code of the frame's refusal.
        code: &'static str,
    },
    /// Another link to the same peer took its place.
    #[error("link {by} to the same peer took its place")]
    Replaced {
        /// The other link.
        by: LinkId,
    },
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
}

impl DownReason {
    /// Whether another attempt may do better: the network lost something, or the peer was slow.
    pub(super) const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Session(CloseReason::HandshakeTimeout { .. })
                | Self::Transport(Ended::Lost | Ended::Vanished | Ended::Closed)
                | Self::Send(TransportError::SendDeadline { .. })
        )
    }
}

impl Coded for DownReason {
    fn code(&self) -> &'static str {
        match self {
            Self::Session(reason) => reason.code(),
            Self::Transport(ended) => ended.code(),
            Self::Send(error) => error.code(),
            Self::Payload { .. } => "link/payload_violation",
            Self::Replaced { .. } => "link/replaced",
            Self::ShuttingDown => "link/shutting_down",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Session(reason) => reason.fault(),
            Self::Transport(ended) => ended.fault(),
            Self::Send(error) => error.fault(),
            Self::Payload { .. } => Fault::PeerMisbehaved,
            Self::Replaced { .. } => Fault::RefusedByBound,
            Self::ShuttingDown => Fault::Usage,
        }
    }
}
