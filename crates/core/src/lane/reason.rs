//! Why a frame was not queued, and why a link ended.

use super::bounds::{CONTROL_WINDOW_FRAMES, HELLOS_TAKEN_MAX, QUEUED_MAX, QUEUED_MAX_BYTES};
use crate::fault::{Coded, Fault};
use crate::ids::{Class, NetworkId};
use crate::wire::cbor::CborError;
use crate::wire::frame::FrameError;

/// Why a frame was not queued. The frame is the caller's to offer again or to give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The lane's reserve and the shared places are full.
    #[error(
        "the {class} lane holds {queued} frames and the peer's {QUEUED_MAX} places are used up: \
         wait until some have left"
    )]
    LaneFull {
        /// The lane.
        class: Class,
        /// Frames that wait in it.
        queued: usize,
    },
    /// The lane's reserve of bytes and the shared bytes are full.
    #[error(
        "the {class} lane holds {queued_bytes} bytes and the peer's {QUEUED_MAX_BYTES} are used up: \
         wait until some have left"
    )]
    LaneFullBytes {
        /// The lane.
        class: Class,
        /// Bytes that wait in it.
        queued_bytes: usize,
    },
    /// The lane's reserve of bytes is full, and so is what all lanes of the node may hold beyond
    /// theirs.
    #[error(
        "the lanes of this node hold as many bytes beyond their reserves as they may: wait until some \
         have left"
    )]
    NodeFull {
        /// The lane.
        class: Class,
    },
    /// Not a payload frame of this protocol, or larger than one may be.
    #[error("not a payload frame: {0}")]
    NotPayload(FrameError),
    /// The link is closing or closed.
    #[error("the link takes no more frames: it is closing or closed")]
    Ended,
}

impl SendError {
    /// Whether the lane takes the frame later: [`SessionEvent::Room`](super::SessionEvent::Room)
    /// says when.
    pub fn is_full(&self) -> bool {
        self.fault() == Fault::RefusedByBound
    }
}

impl Coded for SendError {
    fn code(&self) -> &'static str {
        match self {
            Self::LaneFull { .. } => "lane/full",
            Self::LaneFullBytes { .. } => "lane/full_bytes",
            Self::NodeFull { .. } => "lane/node_full",
            Self::NotPayload(_) => "lane/not_payload",
            Self::Ended => "lane/ended",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::LaneFull { .. } | Self::LaneFullBytes { .. } | Self::NodeFull { .. } => {
                Fault::RefusedByBound
            }
            Self::NotPayload(_) => Fault::Usage,
            Self::Ended => Fault::Unreachable,
        }
    }
}

/// Why a link generation ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// This end closed it, and the other took everything that was queued.
    #[error("closed by this node")]
    Local,
    /// The other end closed it, and each took everything that the other had queued.
    #[error("closed by the peer")]
    Peer,
    /// Not every channel answered its HELLO in time.
    #[error("the handshake did not end within {deadline_ms} ms; still unanswered: {waiting}")]
    HandshakeTimeout {
        /// The deadline.
        deadline_ms: u64,
        /// The lanes that wait, by name.
        waiting: String,
    },
    /// A closing link did not deliver what was queued in time.
    #[error("closing took more than {deadline_ms} ms; {unconfirmed} frames may be undelivered")]
    FinTimeout {
        /// The deadline.
        deadline_ms: u64,
        /// Frames that the peer has not confirmed.
        unconfirmed: u64,
    },
    /// A probe was not answered.
    #[error("the peer did not answer a probe for {unanswered_ms} ms")]
    Gone {
        /// How long the probe went unanswered.
        unanswered_ms: u64,
    },
    /// The transport ended under the link.
    #[error("the transport ended: {0}")]
    Transport(String),
    /// The other end did what no honest one does.
    #[error("the peer broke the link protocol: {0}")]
    Violation(#[from] Violation),
}

impl Coded for CloseReason {
    fn code(&self) -> &'static str {
        match self {
            Self::Local => "link/closed_local",
            Self::Peer => "link/closed_peer",
            Self::HandshakeTimeout { .. } => "link/handshake_timeout",
            Self::FinTimeout { .. } => "link/fin_timeout",
            Self::Gone { .. } => "link/peer_gone",
            Self::Transport(_) => "link/transport_ended",
            Self::Violation(violation) => violation.code(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Local => Fault::Usage,
            Self::Violation(violation) => violation.fault(),
            Self::FinTimeout { .. } => Fault::RefusedByBound,
            _ => Fault::Unreachable,
        }
    }
}

/// What the other end did that no honest one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Bytes that are no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A control frame that is not in its one form.
    #[error("malformed link control frame: {0}")]
    Control(#[from] CborError),
    /// A control frame on a channel that it does not belong to.
    #[error("a control frame of the {belongs} channel came on the {arrived} channel")]
    WrongChannel {
        /// Where it belongs.
        belongs: Class,
        /// Where it came.
        arrived: Class,
    },
    /// The other end is of another network.
    #[error("the peer is in network {theirs}, this node in {ours}")]
    WrongNetwork {
        /// This end's network.
        ours: NetworkId,
        /// The other end's.
        theirs: NetworkId,
    },
    /// A HELLO that differs from the first.
    #[error("a HELLO on the {0} channel differs from the link's first one")]
    HelloChanged(Class),
    /// More HELLOs on one channel than an honest end sends.
    #[error("more than {HELLOS_TAKEN_MAX} HELLOs on the {0} channel")]
    HelloFlood(Class),
    /// Anything before the channel's HELLO.
    #[error("a frame came on the {0} channel before its HELLO")]
    BeforeHello(Class),
    /// An answer to a HELLO or a FIN that this end has not sent.
    #[error("an answer on the {0} channel to what was not sent")]
    Unasked(Class),
    /// A payload frame after the lane's FIN.
    #[error("a payload frame came on the {0} lane after its FIN")]
    AfterFin(Class),
    /// A FIN that tells another number of frames than came.
    #[error("the {class} lane ended with {announced} frames, {received} came")]
    FinCount {
        /// The lane.
        class: Class,
        /// What the FIN, or an earlier one, tells.
        announced: u64,
        /// What came.
        received: u64,
    },
    /// More messages with payload on a lane than were granted.
    #[error("more untaken messages on the {0} lane than were granted")]
    OverLaneFrames(Class),
    /// More payload bytes on a lane than were granted.
    #[error("more than {window_bytes} untaken bytes on the {class} lane")]
    OverLaneBytes {
        /// The lane.
        class: Class,
        /// The lane's window.
        window_bytes: u64,
    },
    /// More payload bytes on the link than were granted.
    #[error("more than {window_bytes} uncredited bytes on the link")]
    OverLinkBytes {
        /// The link's window.
        window_bytes: u64,
    },
    /// More control frames than the window allows before an answer.
    #[error("more than {CONTROL_WINDOW_FRAMES} unanswered control frames")]
    OverControl,
    /// Control frame numbers that do not follow each other.
    #[error("control frame {number} came after {heard}")]
    ControlGap {
        /// The number that came.
        number: u64,
        /// The one before it.
        heard: u64,
    },
    /// Credit for what was never sent.
    #[error("credit on the {0} lane for more than was sent")]
    CreditUnsent(Class),
    /// The other end says it heard, drained or answers what was never sent.
    #[error("the peer says it heard more than was sent")]
    HeardUnsent,
}

impl Coded for Violation {
    fn code(&self) -> &'static str {
        match self {
            Self::Frame(error) => error.code(),
            Self::Control(_) => "link/control_malformed",
            Self::WrongChannel { .. } => "link/wrong_channel",
            Self::WrongNetwork { .. } => "link/wrong_network",
            Self::HelloChanged(_) => "link/hello_changed",
            Self::HelloFlood(_) => "link/hello_flood",
            Self::BeforeHello(_) => "link/before_hello",
            Self::Unasked(_) => "link/unasked",
            Self::AfterFin(_) => "link/after_fin",
            Self::FinCount { .. } => "link/fin_count",
            Self::OverLaneFrames(_) => "link/over_lane_frames",
            Self::OverLaneBytes { .. } => "link/over_lane_bytes",
            Self::OverLinkBytes { .. } => "link/over_link_bytes",
            Self::OverControl => "link/over_control",
            Self::ControlGap { .. } => "link/control_gap",
            Self::CreditUnsent(_) => "link/credit_unsent",
            Self::HeardUnsent => "link/heard_unsent",
        }
    }

    fn fault(&self) -> Fault {
        Fault::PeerMisbehaved
    }
}
