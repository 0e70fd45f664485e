//! What a link needs of a connection: four ordered, reliable channels, one a class, and nothing
//! else. WebRTC is behind this seam ([`super::connection`]), so that another implementation can
//! take its place.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use overlane_core::wire::bounds::FRAME_MAX_BYTES;
use overlane_core::{Class, Coded, Fault};
use tokio::sync::mpsc;

use super::ice::LinkPath;
use super::sdp::SdpError;

/// What a channel holds unacknowledged before a send waits, in bytes.
pub const SEND_BUFFER_MAX_BYTES: usize = 256 * 1024;

/// Transport events not yet taken by the link's driver. The driver always takes them at once, so
/// this bounds a burst, not a backlog.
pub const EVENTS_MAX: usize = 256;

const _: () = assert!(SEND_BUFFER_MAX_BYTES >= FRAME_MAX_BYTES);

/// Makes transports.
#[async_trait]
pub trait Connector: fmt::Debug + Send + Sync + 'static {
    /// A new transport with its socket bound, and what will happen on it.
    ///
    /// # Errors
    /// [`TransportError::Open`] when no socket can be had.
    async fn open(&self) -> Result<Opened, TransportError>;

    /// Judges the other side's session description by itself, before anything is opened for it.
    ///
    /// # Errors
    /// [`SdpError`]; a transport of this make would refuse it too.
    fn check(&self, sdp: &str) -> Result<(), SdpError>;
}

/// A new transport.
#[derive(Debug)]
pub struct Opened {
    /// The transport.
    pub transport: Arc<dyn Transport>,
    /// What happens on it, in order for each class; ends when the transport is closed.
    pub events: mpsc::Receiver<TransportEvent>,
}

/// One connection between two nodes. Exactly one of [`Self::offer`] (then [`Self::conclude`])
/// and [`Self::answer`] is called, once.
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// This side's session description, as the one that offers.
    ///
    /// # Errors
    /// [`TransportError`]; the transport is then of no more use than to be closed.
    async fn offer(&self) -> Result<String, TransportError>;

    /// This side's session description, in answer to `offer`.
    ///
    /// # Errors
    /// As [`Self::offer`]; [`TransportError::Sdp`] when `offer` is refused.
    async fn answer(&self, offer: &str) -> Result<String, TransportError>;

    /// Takes the other side's answer to this side's offer.
    ///
    /// # Errors
    /// As [`Self::answer`].
    async fn conclude(&self, answer: &str) -> Result<(), TransportError>;

    /// Does this beside what it does itself, in the same task where it has one: what works for one connection alone then
    /// wakes nobody else.
    fn beside(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(work);
    }

    /// The address of the other side's host, once the way is known and leads there without a relay.
    fn far_host(&self) -> Option<IpAddr> {
        None
    }

    /// Resolves once the class's channel has taken the message into its send buffer.
    ///
    /// # Errors
    /// [`TransportError::SendDeadline`] when the buffer stayed full, [`TransportError::Closed`],
    /// [`TransportError::MessageTooLong`].
    async fn send(
        &self,
        class: Class,
        message: Vec<u8>,
        deadline: Duration,
    ) -> Result<(), TransportError>;

    /// What may lie between the channels and the link, in bytes: chosen from the socket's buffer.
    fn byte_window(&self) -> u32;

    /// How many times that may be under way from a far peer.
    fn window_scale_max(&self) -> u8;

    /// Ends the connection and releases its socket. What a channel still holds may be lost: a
    /// link says FIN before. Repeating it does nothing.
    async fn close(&self);
}

/// Something that happened on a transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportEvent {
    /// The class's channel can send.
    Open(Class),
    /// A whole message came.
    Message(Class, Bytes),
    /// The way that the connection took. Comes before any channel is open.
    Path(LinkPath),
    /// Whether nothing was heard of the other side for a while. It may come back, or be gone.
    Disturbed(bool),
    /// The connection is over, and why.
    Ended(Ended),
}

/// How a transport ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The other side closed it.
    #[error("the other side closed the connection")]
    Closed,
    /// Nothing was heard for too long, or the handshake of the transport failed.
    #[error("nothing was heard of the other side any more")]
    Lost,
    /// Its socket is closed, as its host says: the process ended without a word.
    #[error("the other side's socket is closed: its process ended without a word")]
    Vanished,
    /// The certificate is not the one whose fingerprint was signed.
    #[error("the other side's certificate is not the one that was signed for")]
    WrongCertificate,
    /// It goes by way of a TURN server, and links are to be direct.
    #[error("the link would be relayed by a TURN server, and links.require is \"direct\"")]
    Relayed,
    /// The other side opened a channel that is none of the four.
    #[error("the other side opened a channel of its own")]
    ForeignChannel,
}

impl Coded for Ended {
    fn code(&self) -> &'static str {
        match self {
            Self::Closed => "transport/closed_by_peer",
            Self::Lost => "transport/lost",
            Self::Vanished => "transport/vanished",
            Self::WrongCertificate => "transport/wrong_certificate",
            Self::Relayed => "transport/relayed",
            Self::ForeignChannel => "transport/foreign_channel",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Closed | Self::Lost | Self::Vanished => Fault::Unreachable,
            Self::Relayed => Fault::RefusedByBound,
            Self::WrongCertificate | Self::ForeignChannel => Fault::PeerMisbehaved,
        }
    }
}

/// Why a transport refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No connection could be made: no socket, no file descriptor, no certificate.
    #[error("cannot open a connection: {0}")]
    Open(String),
    /// The other side's session description is refused.
    #[error(transparent)]
    Sdp(#[from] SdpError),
    /// The WebRTC stack refused.
    #[error("cannot {action}: {cause}")]
    Negotiation {
        /// What was being done.
        action: &'static str,
        /// The stack's words.
        cause: String,
    },
    /// The send buffer stayed full.
    #[error("the {class} channel took nothing for {deadline_ms} ms: the peer does not read")]
    SendDeadline {
        /// The channel.
        class: Class,
        /// How long was waited.
        deadline_ms: u64,
    },
    /// Longer than [`FRAME_MAX_BYTES`].
    #[error("a message of {bytes} bytes; {FRAME_MAX_BYTES} are allowed")]
    MessageTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
}

impl Coded for TransportError {
    fn code(&self) -> &'static str {
        match self {
            Self::Open(_) => "transport/open",
            Self::Sdp(error) => error.code(),
            Self::Negotiation { .. } => "transport/negotiation",
            Self::SendDeadline { .. } => "transport/send_deadline",
            Self::MessageTooLong { .. } => "transport/message_too_long",
            Self::Closed => "transport/closed",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Open(_) => Fault::RefusedByBound,
            Self::Sdp(error) => error.fault(),
            Self::Negotiation { .. } | Self::SendDeadline { .. } => Fault::PeerMisbehaved,
            Self::MessageTooLong { .. } => Fault::Usage,
            Self::Closed => Fault::Unreachable,
        }
    }
}
