//! Sends: what is asked for, what is known afterwards, why one is refused.

use bytes::Bytes;
use overlane_core::replay;
use overlane_core::transaction::{Data, PROOF_TTL_DEFAULT_MS, SignError, VerifyError};
use overlane_core::{Class, Coded, Did, Fault, StreamKey, TransactionDigest, TxId};

use super::PENDING_SENDS_MAX;
use super::refs::RESERVED_NAMESPACES;

/// A message to sign and send.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Whom it is for.
    pub destination: Did,
    /// What it says.
    pub data: Data,
    /// Its own name, drawn at random by whoever sends it.
    pub tx_id: TxId,
    /// How long its proof counts.
    pub ttl_ms: u64,
    /// The node by way of which it goes, where that is not the ring's to choose.
    pub via: Option<Did>,
    /// The node by way of which answers to it are heard.
    pub reply_via: Option<Did>,
}

impl Outgoing {
    /// A message whose proof counts as long as proofs do by default.
    pub fn new(destination: Did, data: Data, tx_id: TxId) -> Self {
        let ttl_ms = PROOF_TTL_DEFAULT_MS;
        Self {
            destination,
            data,
            tx_id,
            ttl_ms,
            via: None,
            reply_via: None,
        }
    }

    pub(super) fn class(&self) -> Class {
        self.data.class()
    }

    pub(crate) fn data_bytes(&self) -> u64 {
        u64::try_from(self.data.as_bytes().len()).unwrap_or(u64::MAX)
    }
}

/// What is known here once a message is signed and in its lane: its sequence lies under a durable
/// lease, and the link took it. Whether the destination admits it is the destination's to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The message's stream.
    pub stream: StreamKey,
    /// Its sequence in the stream.
    pub sequence: u64,
    /// The transaction's digest.
    pub digest: TransactionDigest,
    /// The signed frame, which can be offered again while its proof lives.
    pub signed: Bytes,
}

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No link leads there. Nothing was signed, or the link went down before its lane took the
    /// message; a sequence may be passed over.
    #[error("no link leads to {destination}: join a ring by a peer, or wait until one is linked")]
    Unreachable {
        /// Whom the message was for.
        destination: Did,
    },
    /// A message to this node's own account.
    #[error("{destination} is this node itself")]
    ToItself {
        /// This node.
        destination: Did,
    },
    /// The replay boundary reserved no sequence.
    #[error(transparent)]
    Replay(#[from] replay::Refusal),
    /// The message cannot be signed as asked.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// The bytes to offer again are no signed payload frame.
    #[error("these are no signed bytes of a message: {0}")]
    NotSigned(VerifyError),
    /// A namespace that the node keeps for itself.
    #[error(
        "namespaces that begin with \"{RESERVED_NAMESPACES}\" are the node's own: choose another"
    )]
    ReservedNamespace,
    /// As many sends as may be are on their way, to this destination or in all.
    #[error(
        "as many sends as may be ({PENDING_SENDS_MAX} in all, a share of them to one destination) are on their way already: wait for one of them"
    )]
    TooManyPending,
    /// It was taken back before a lane took it.
    #[error("the send was cancelled before it left")]
    Cancelled,
    /// The node has shut down.
    #[error("the node has shut down")]
    Closed,
}

impl Coded for SendError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "send/unreachable",
            Self::ToItself { .. } => "send/to_itself",
            Self::Replay(refusal) => refusal.code(),
            Self::Sign(error) => error.code(),
            Self::NotSigned(_) => "send/not_signed",
            Self::ReservedNamespace => "send/reserved_namespace",
            Self::TooManyPending => "send/too_many_pending",
            Self::Cancelled => "send/cancelled",
            Self::Closed => "node/closed",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Unreachable { .. } => Fault::Unreachable,
            Self::ToItself { .. }
            | Self::NotSigned(_)
            | Self::ReservedNamespace
            | Self::Cancelled
            | Self::Closed => Fault::Usage,
            Self::Replay(refusal) => refusal.fault(),
            Self::Sign(error) => error.fault(),
            Self::TooManyPending => Fault::RefusedByBound,
        }
    }
}
