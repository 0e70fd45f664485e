//! What the logs say to whoever drives them: frames to send, events, counts, errors; and what they
//! owe a peer.

use super::frame::{Refused, Space, Turn};
use super::id::{EnvelopeId, LogId};
use super::refusal::Refusal;
use super::store::Entry;
use overlane_core::{Coded, Did, Fault};
use overlane_recon::{Budget, Report};
use std::collections::VecDeque;

/// A peer as its link knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The account that proved itself.
    pub account: Did,
    /// The connection slot that what it brings is charged to.
    pub slot: u32,
}

/// A frame to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// To whom.
    pub to: Did,
    /// The frame.
    pub frame: Vec<u8>,
}

/// What happened, told once it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An envelope is kept that was not before.
    Kept {
        /// The log.
        log: LogId,
        /// What is known of it.
        entry: Entry,
    },
    /// An envelope went: its time was over, or its log is full.
    LetGo {
        /// The log.
        log: LogId,
        /// What was known of it.
        entry: Entry,
        /// Whether its own time was over; else it made room.
        expired: bool,
    },
    /// An envelope of this node's own was refused by the host of a log it follows.
    PostRefused {
        /// The log.
        log: LogId,
        /// The envelope.
        id: EnvelopeId,
        /// The host's code.
        code: String,
    },
    /// A reconciliation that this node drove has ended.
    Synced {
        /// The log.
        log: LogId,
        /// With whom.
        with: Did,
        /// How, and what it moved.
        report: Report,
    },
    /// A plan of a reconciliation has ended.
    Planned {
        /// The log.
        log: LogId,
        /// With whom.
        with: Did,
        /// What the reconciliation would move.
        planned: Planned,
    },
}

/// What a reconciliation would move, found by going through its rounds with names in place of envelopes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Planned {
    /// Envelopes that would come.
    pub receive: u64,
    /// Their bytes.
    pub receive_bytes: u64,
    /// Envelopes that would go, those that wait for a number among them.
    pub send: u64,
    /// Their bytes.
    pub send_bytes: u64,
    /// How the rounds ended, and what they took.
    pub report: Report,
}

/// What the logs did since they were opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Transactions that became durable.
    pub flushes: u64,
    /// Envelopes kept.
    pub kept: u64,
    /// Envelopes that were here already.
    pub known: u64,
    /// Envelopes refused.
    pub refused: u64,
    /// Envelopes let go of.
    pub let_go: u64,
    /// Those of them that made room for others in a full log.
    pub made_room: u64,
    /// Those of these that made room for their own author, which had its share.
    pub own_room: u64,
    /// RECON messages answered.
    pub answered: u64,
    /// RECON messages refused.
    pub not_answered: u64,
    /// Envelopes pushed.
    pub pushed: u64,
    /// Frames that nothing was asked for.
    pub unexpected: u64,
}

/// Why the logs do nothing more, or a peer's frame was none.
#[derive(Debug, thiserror::Error)]
pub enum LogsError<E> {
    /// The peer sent what no honest peer sends, and there is no log to tell it about.
    #[error(transparent)]
    Peer(Refusal),
    /// The store failed.
    #[error("the store of logs failed: {0}")]
    Store(E),
    /// A row of the store's is not what this node wrote.
    #[error("the store of logs cannot be trusted: the account of log {log} does not read")]
    Corrupt {
        /// The log.
        log: LogId,
    },
    /// The store failed before.
    #[error("the store of logs failed before; open it again")]
    Closed,
}

impl<E> Coded for LogsError<E> {
    fn code(&self) -> &'static str {
        match self {
            Self::Peer(refusal) => refusal.code(),
            Self::Store(_) => "log/store_failed",
            Self::Corrupt { .. } => "log/store_corrupt",
            Self::Closed => "log/store_closed",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Peer(refusal) => refusal.fault(),
            _ => Fault::StoreFailedClosed,
        }
    }
}

/// A frame that is owed to a peer, its envelope still in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owed {
    Ack(LogId, EnvelopeId, u64),
    Push(LogId, u64),
    /// Envelopes that are named and not pushed, as they stand in the frame.
    Named(LogId, Vec<u8>),
    Send(LogId, EnvelopeId),
    /// An envelope of the outbox.
    Post(LogId, EnvelopeId),
    Recon(LogId, Space, Turn, Vec<u8>),
    Refuse(LogId, Refused, String, u64),
}

/// What one peer is owed and may still cost.
#[derive(Debug)]
pub(super) struct PeerState {
    pub(super) owed: VecDeque<Owed>,
    pub(super) asked: VecDeque<(LogId, Space, Turn, Vec<u8>)>,
    /// When it was last heard.
    pub(super) heard_ms: u64,
    pub(super) budget: Budget,
}

/// Refused, or the store failed.
#[derive(Debug)]
pub(super) enum Failure<E> {
    Refused(Refusal),
    Failed(LogsError<E>),
}

impl<E> From<Refusal> for Failure<E> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl<E> From<LogsError<E>> for Failure<E> {
    fn from(error: LogsError<E>) -> Self {
        Self::Failed(error)
    }
}

/// Where an accepted envelope is numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Next,
    At(u64),
}
