//! Why the engine refuses, each with a stable code and the stream, record or slot it is about.

use std::sync::Arc;

use super::custody::CUSTODY_CAPACITY;
use super::forks::FORK_LOG_CAPACITY;
use super::lease::RESERVATION_MAX;
use super::quota::QuotaRefusal;
use super::record::{EVIDENCE_MAX_BYTES, Table};
use super::slots::{STREAM_CAPACITY, ShareFull};
use super::unrestorable::Bad;
use super::volatile::VOLATILE_STREAMS;
use crate::fault::{Coded, Fault};
use crate::ids::{StreamKey, TransactionDigest};
use crate::store::{RecordName, StoreError};

/// Transitions that may wait for a batch at once.
pub const PENDING_MAX: usize = 65_536;

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The node runs without an authoritative store.
    #[error("the node has no replay store, so it neither sends nor admits: configure one")]
    StorageUnavailable,
    /// A batch did not become durable, or an earlier one did not and the store was not scanned
    /// since.
    #[error("the replay store failed, nothing was admitted or reserved: {cause}")]
    StoreFailed {
        /// The store's first failure.
        cause: Arc<StoreError>,
    },
    /// The stream's record does not restore.
    #[error(
        "the {} record {record} of stream {stream} does not restore ({bad}): stop the node, look \
         with `overlane replay show {record}` and clear it with `overlane replay clear {record}`",
        table.name()
    )]
    StreamUnavailable {
        /// The table.
        table: Table,
        /// The stream.
        stream: StreamKey,
        /// The record.
        record: RecordName,
        /// What is wrong with it.
        bad: Bad,
    },
    /// The very transaction was admitted before.
    #[error("sequence {sequence} of stream {stream} was admitted before")]
    Replay {
        /// The stream.
        stream: StreamKey,
        /// The sequence.
        sequence: u64,
    },
    /// Another transaction was admitted under the sequence.
    #[error(transparent)]
    Fork(Box<Forked>),
    /// The sequence is below the window.
    #[error("sequence {sequence} of stream {stream} is below the window, which starts at {lowest}")]
    Stale {
        /// The stream.
        stream: StreamKey,
        /// The sequence.
        sequence: u64,
        /// The lowest sequence the window speaks for.
        lowest: u64,
    },
    /// The stream's quota is used up.
    #[error("stream {stream}: {quota}")]
    Quota {
        /// The stream.
        stream: StreamKey,
        /// Which quota, and until when.
        quota: QuotaRefusal,
    },
    /// The introducer of a new stream has used up its share of the table.
    #[error("new stream {stream}: {full}")]
    StreamShareFull {
        /// The stream.
        stream: StreamKey,
        /// Whose share, and which bound.
        full: ShareFull,
    },
    /// This node sends on as many streams as it may.
    #[error(
        "new stream {stream}: this node holds {STREAM_CAPACITY} sending streams; it ends as they \
         are spent"
    )]
    SenderStreamsFull {
        /// The stream.
        stream: StreamKey,
    },
    /// As many mails as allowed wait for their applications.
    #[error(
        "{CUSTODY_CAPACITY} mails wait to be taken; mail of stream {stream} stays with its holders \
         until one is taken, or is spent at {earliest_ms} ms"
    )]
    RelayCustodyFull {
        /// The stream.
        stream: StreamKey,
        /// When the first of them is spent, in Unix milliseconds.
        earliest_ms: u64,
    },
    /// The mail was taken already, or was spent before it was.
    #[error("sequence {sequence} of stream {stream} is not in custody")]
    NotInCustody {
        /// The stream.
        stream: StreamKey,
        /// The sequence.
        sequence: u64,
    },
    /// The mail is spent as of the mail floor: its stream may have been retired.
    #[error(
        "mail with sequence {sequence} of stream {stream} is spent: its stream may be one that \
         was retired at {floor_ms} ms"
    )]
    SpentMail {
        /// The stream.
        stream: StreamKey,
        /// The sequence.
        sequence: u64,
        /// What the mail was judged at, in Unix milliseconds.
        floor_ms: u64,
    },
    /// The proof ended while the transaction waited for its turn.
    #[error(
        "the proof of sequence {sequence} of stream {stream} ended at {last_ms} ms, while it \
         waited: take messages sooner, or send with longer proofs"
    )]
    Expired {
        /// The stream.
        stream: StreamKey,
        /// The sequence.
        sequence: u64,
        /// The proof's last instant, in Unix milliseconds.
        last_ms: u64,
    },
    /// The clock is behind an instant at which streams were retired, and no peer confirms it.
    #[error(
        "new stream {stream}: this clock is behind {floor_ms} ms, when streams were retired, and \
         no peer confirms it: check the clock"
    )]
    ClockSuspect {
        /// The stream.
        stream: StreamKey,
        /// The mail floor, in Unix milliseconds.
        floor_ms: u64,
    },
    /// The connection has as many link-local streams as it may.
    #[error("new link-local stream {stream}: the connection holds {VOLATILE_STREAMS}")]
    LinkLocalStreamsFull {
        /// The stream.
        stream: StreamKey,
    },
    /// The stream has no sequence left, or the clock is beyond what a start can hold.
    #[error("stream {stream} has no sequence left to sign: check the clock")]
    SequencesExhausted {
        /// The stream.
        stream: StreamKey,
    },
    /// A reservation of none, or of too many.
    #[error("{count} sequences at once; between 1 and {RESERVATION_MAX} can be reserved")]
    ReservationSize {
        /// How many were asked for.
        count: u64,
    },
    /// The fork log is full. Nothing is evicted from it.
    #[error("the fork log holds {FORK_LOG_CAPACITY} evidences: export and clear some")]
    ForkLogFull,
    /// The evidence is over its bound.
    #[error("an evidence of {evidence_bytes} bytes; at most {EVIDENCE_MAX_BYTES} are kept")]
    EvidenceTooLarge {
        /// Its size.
        evidence_bytes: usize,
    },
    /// As many transitions wait for the store as may.
    #[error("{PENDING_MAX} transitions wait for the replay store")]
    PendingFull,
}

/// A sequence that its origin signed twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "sequence {sequence} of stream {stream} was signed twice: {accepted} was admitted, {offered} \
     is refused"
)]
pub struct Forked {
    /// The stream.
    pub stream: StreamKey,
    /// The sequence.
    pub sequence: u64,
    /// The admitted transaction.
    pub accepted: TransactionDigest,
    /// The refused one.
    pub offered: TransactionDigest,
    /// The admitted one's signed header, where it is still held.
    pub accepted_header: Option<Arc<[u8]>>,
}

impl Refusal {
    /// Whether the same transaction is refused for ever: it was judged, and not only held off by a bound,
    /// the store or the clock.
    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Replay { .. }
                | Self::Fork(_)
                | Self::Stale { .. }
                | Self::NotInCustody { .. }
                | Self::SpentMail { .. }
                | Self::Expired { .. }
        )
    }
}

impl Coded for Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::StorageUnavailable => "replay/storage_unavailable",
            Self::StoreFailed { .. } => "replay/store_failed",
            Self::StreamUnavailable { .. } => "replay/stream_unavailable",
            Self::Replay { .. } => "replay/replay",
            Self::Fork(_) => "replay/fork",
            Self::Stale { .. } => "replay/stale",
            Self::Quota { quota, .. } => match quota {
                QuotaRefusal::Messages { .. } => "replay/quota_messages",
                QuotaRefusal::Bytes { .. } => "replay/quota_bytes",
                QuotaRefusal::OverBurst { .. } => "replay/quota_over_burst",
                QuotaRefusal::Records => "replay/quota_records",
            },
            Self::StreamShareFull { .. } => "replay/stream_share_full",
            Self::SenderStreamsFull { .. } => "replay/sender_streams_full",
            Self::RelayCustodyFull { .. } => "replay/relay_custody_full",
            Self::NotInCustody { .. } => "replay/not_in_custody",
            Self::SpentMail { .. } => "replay/spent_mail",
            Self::Expired { .. } => "replay/expired",
            Self::ClockSuspect { .. } => "replay/clock_suspect",
            Self::LinkLocalStreamsFull { .. } => "replay/link_local_streams_full",
            Self::SequencesExhausted { .. } => "replay/sequences_exhausted",
            Self::ReservationSize { .. } => "replay/reservation_size",
            Self::ForkLogFull => "replay/fork_log_full",
            Self::EvidenceTooLarge { .. } => "replay/evidence_too_large",
            Self::PendingFull => "replay/pending_full",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::StorageUnavailable
            | Self::StoreFailed { .. }
            | Self::StreamUnavailable { .. } => Fault::StoreFailedClosed,
            Self::Replay { .. } | Self::Fork(_) | Self::Stale { .. } => Fault::PeerMisbehaved,
            Self::ReservationSize { .. } | Self::EvidenceTooLarge { .. } => Fault::Usage,
            Self::Quota { .. }
            | Self::StreamShareFull { .. }
            | Self::SenderStreamsFull { .. }
            | Self::RelayCustodyFull { .. }
            | Self::NotInCustody { .. }
            | Self::SpentMail { .. }
            | Self::Expired { .. }
            | Self::ClockSuspect { .. }
            | Self::LinkLocalStreamsFull { .. }
            | Self::SequencesExhausted { .. }
            | Self::ForkLogFull
            | Self::PendingFull => Fault::RefusedByBound,
        }
    }
}
