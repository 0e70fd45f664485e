//! Why an epoch ended, and why a request of the application was refused.

use super::table::LinkId;
use super::wire::{Epoch, Seq, WireId};
use overlane_core::wire::cbor::CborError;
use overlane_core::{Coded, Fault};

/// What ended the epoch of a link. Ids are written as the frame of the peer has them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LinkError {
    /// Bytes that are no frame.
    #[error("the frame does not decode: {0}")]
    Malformed(Malformed),
    /// An acknowledgement of what was never sent.
    #[error("frame {acked} is acknowledged, and {sent} were sent")]
    AckBeyondSent {
        /// What was acknowledged.
        acked: Seq,
        /// Our newest frame.
        sent: Seq,
    },
    /// A reference that was known once and is not any more.
    #[error("the {0} is known no longer")]
    UnknownRef(WireId),
    /// A reference that was never given.
    #[error("the {0} was never given to the peer")]
    ForgedRef(WireId),
    /// An id introduced again after it was dropped or retired.
    #[error("the {0} was used before")]
    IdReuse(WireId),
    /// An id introduced before the one that is next.
    #[error("the {0} is introduced, and {1} would be next")]
    IdJump(WireId, /** The number that would be next. */ u64),
    /// A drop of what was dropped.
    #[error("the {0} was dropped already")]
    DoubleDrop(WireId),
    /// A drop of what the peer does not hold.
    #[error("the {0} is not the peer's to drop")]
    NotHeld(WireId),
    /// A message to what the peer itself owns.
    #[error("a message for the {0}, which is the peer's own")]
    Misdirected(WireId),
    /// A resolution of, or a claim to resolve, what the peer does not decide.
    #[error("the {0} is not the peer's to decide")]
    NotDecider(WireId),
    /// A revocation of what the peer does not own.
    #[error("the {0} is not the peer's to revoke")]
    NotExported(WireId),
    /// A revocation that adds nothing to the one before.
    #[error("the {0} was revoked already")]
    RepeatedRevoke(WireId),
    /// An object where a promise belongs, or the other way round.
    #[error("the {0} is of the wrong kind here")]
    KindMismatch(WireId),
    /// More than was agreed on.
    #[error("more than {limit} {what}, which was the limit agreed on")]
    LimitExceeded {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: u32,
    },
    /// Too many messages to what the peer knew takes none.
    #[error("{0} messages to what the peer knew takes none")]
    SoftViolations(u32),
    /// The peer is connected and does not acknowledge.
    #[error("frame {seq} was not acknowledged for {waited_ms} ms")]
    AckDeadline {
        /// The oldest frame that waits.
        seq: Seq,
        /// How long it has waited.
        waited_ms: u64,
    },
    /// The peer has lost what it acknowledged: its store was put back to an earlier state.
    #[error("the peer knows our frames up to {recv}, after it acknowledged {acked}")]
    PeerRolledBack {
        /// What the peer says it processed, or sent.
        recv: Seq,
        /// What it had acknowledged, or what of it was processed here.
        acked: Seq,
    },
    /// This node has lost what it sent or acknowledged: its store was put back to an earlier state.
    #[error("the peer knows frame {peer}, and this node knows none after {ours}")]
    WeRolledBack {
        /// What the peer knows.
        peer: Seq,
        /// What this node knows.
        ours: Seq,
    },
    /// The peer began another epoch.
    #[error("the peer is in epoch {theirs}, this node in {ours}")]
    OtherEpoch {
        /// The peer's.
        theirs: Epoch,
        /// Ours.
        ours: Epoch,
    },
    /// The peer ended the epoch.
    #[error("the peer ended the epoch with {code}: {text}")]
    PeerClosed {
        /// The stable code it gave.
        code: String,
        /// What it said.
        text: String,
    },
    /// This node's operator or policy ended the epoch.
    #[error("the epoch was ended here")]
    Ended,
}

/// A decoding error that can be kept in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub CborError);

impl std::hash::Hash for Malformed {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.at.hash(state);
        self.0.code().hash(state);
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl From<CborError> for LinkError {
    fn from(error: CborError) -> Self {
        Self::Malformed(Malformed(error))
    }
}

impl Coded for LinkError {
    fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "refs/malformed",
            Self::AckBeyondSent { .. } => "refs/ack_beyond_sent",
            Self::UnknownRef(_) => "refs/unknown_ref",
            Self::ForgedRef(_) => "refs/forged_ref",
            Self::IdReuse(_) => "refs/id_reuse",
            Self::IdJump(..) => "refs/id_jump",
            Self::DoubleDrop(_) => "refs/double_drop",
            Self::NotHeld(_) => "refs/not_held",
            Self::Misdirected(_) => "refs/misdirected",
            Self::NotDecider(_) => "refs/not_decider",
            Self::NotExported(_) => "refs/not_exported",
            Self::RepeatedRevoke(_) => "refs/repeated_revoke",
            Self::KindMismatch(_) => "refs/kind_mismatch",
            Self::LimitExceeded { .. } => "refs/limit_exceeded",
            Self::SoftViolations(_) => "refs/soft_violations",
            Self::AckDeadline { .. } => "refs/ack_deadline",
            Self::PeerRolledBack { .. } => "refs/peer_rolled_back",
            Self::WeRolledBack { .. } => "refs/we_rolled_back",
            Self::OtherEpoch { .. } => "refs/other_epoch",
            Self::PeerClosed { .. } => "refs/peer_closed",
            Self::Ended => "refs/ended",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::AckDeadline { .. } => Fault::RefusedByBound,
            Self::WeRolledBack { .. } => Fault::StoreFailedClosed,
            Self::OtherEpoch { .. } | Self::PeerClosed { .. } => Fault::Unreachable,
            Self::Ended => Fault::Usage,
            _ => Fault::PeerMisbehaved,
        }
    }
}

/// Why a request of the application changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SendError {
    /// The other end of the link holds as much of ours as it may.
    #[error(
        "link {0} holds as many references as it may; revoke some, or wait for it to drop them"
    )]
    TableFull(LinkId),
    /// Too much is unacknowledged.
    #[error("link {0} has not acknowledged what was sent; wait for it")]
    WindowFull(LinkId),
    /// Too much waits for one promise.
    #[error("too many messages wait for the promise; wait for it to be resolved")]
    QueueFull,
    /// The message does not fit a frame.
    #[error("the message does not fit a frame; send it in parts, or less of it")]
    TooLarge,
    /// The message speaks of promises whose outcomes together are too many for a frame.
    #[error("the message speaks of too many resolved promises; send their outcomes in parts")]
    TooManyResolutions,
    /// The message mentions an object that was revoked for good.
    #[error("the message mentions an object that was revoked for good")]
    Taboo,
    /// The application does not hold the reference.
    #[error("the reference is not held; it was released, or never given")]
    NotHeld,
    /// The promise is not this application's to resolve, or is resolved.
    #[error("the promise is not open for this application to resolve")]
    NotDecider,
    /// The object is not this application's.
    #[error("the object belongs to another node; only its owner revokes it")]
    NotOwner,
    /// The object was revoked as much as this before.
    #[error("the object was revoked before")]
    AlreadyRevoked,
    /// There is no such link, or its epoch has ended.
    #[error("link {0} has no epoch; open one")]
    NoLink(LinkId),
    /// The link is open already.
    #[error("link {0} is open; end its epoch first")]
    LinkOpen(LinkId),
}

impl Coded for SendError {
    fn code(&self) -> &'static str {
        match self {
            Self::TableFull(_) => "refs/table_full",
            Self::WindowFull(_) => "refs/window_full",
            Self::QueueFull => "refs/queue_full",
            Self::TooLarge => "refs/too_large",
            Self::TooManyResolutions => "refs/too_many_resolutions",
            Self::Taboo => "refs/taboo",
            Self::NotHeld => "refs/reference_not_held",
            Self::NotDecider => "refs/not_open",
            Self::NotOwner => "refs/not_owner",
            Self::AlreadyRevoked => "refs/already_revoked",
            Self::NoLink(_) => "refs/no_link",
            Self::LinkOpen(_) => "refs/link_open",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::TableFull(_)
            | Self::WindowFull(_)
            | Self::QueueFull
            | Self::TooLarge
            | Self::TooManyResolutions => Fault::RefusedByBound,
            Self::NoLink(_) => Fault::Unreachable,
            _ => Fault::Usage,
        }
    }
}
