//! Sends: what is asked for, what is known afterwards, why one is refused.

use bytes::Bytes;
use overlane_core::e2e::SessionError;
use overlane_core::identity::DelegationError;
use overlane_core::replay;
use overlane_core::seal::{SEALED_NAMESPACE, SealError, sealed_bytes};
use overlane_core::transaction::{Data, PROOF_TTL_DEFAULT_MS, SignError, VerifyError};
use overlane_core::{Class, Coded, Did, Fault, StreamKey, TransactionDigest, TxId};

use super::refs::RESERVED_NAMESPACES;
use super::session::SESSION_OVERHEAD_BYTES;
use super::{ASKED_KEYS_MAX, PENDING_SENDS_MAX, SealSeed};

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
    /// What an application's message is sealed with to its destination before it is signed; `None` to
    /// send it as it is.
    pub seal: Option<SealSeed>,
    /// Whether it is the body of an E2E message to be sent in a session.
    pub in_session: bool,
    /// What it is counted for, where that is not its data's size.
    pub(super) counted_bytes: Option<u64>,
    /// The node by way of which it goes, where that is not the ring's to choose.
    pub via: Option<Did>,
    /// The node by way of which answers to it are heard.
    pub reply_via: Option<Did>,
}

impl Outgoing {
    /// A message that is sent as it is, whose proof counts as long as proofs do by default.
    pub fn new(destination: Did, data: Data, tx_id: TxId) -> Self {
        let ttl_ms = PROOF_TTL_DEFAULT_MS;
        Self {
            destination,
            data,
            tx_id,
            ttl_ms,
            seal: None,
            in_session: false,
            counted_bytes: None,
            via: None,
            reply_via: None,
        }
    }

    /// The same, to be sealed with this before it is signed.
    #[must_use]
    pub fn sealed(mut self, seed: SealSeed) -> Self {
        self.seal = Some(seed);
        self
    }

    /// The same, in a session with its destination.
    #[must_use]
    pub fn in_session(mut self) -> Self {
        self.in_session = true;
        self
    }

    pub(super) fn class(&self) -> Class {
        self.data.class()
    }

    /// The size of its signed data, of which one to be sealed has more than now.
    pub(crate) fn data_bytes(&self) -> u64 {
        let bytes = self.data.as_bytes().len();
        let bytes = match self.seal {
            Some(_) => sealed_bytes(bytes),
            None if self.in_session => bytes.saturating_add(SESSION_OVERHEAD_BYTES),
            None => bytes,
        };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.counted_bytes.unwrap_or(bytes)
    }
}

/// What is known here once a message is signed and in its lane: its sequence lies under a durable
/// lease, and the link took it. One that is to be [held](super::Peer::send_or_hold) is signed also where nothing leads
/// to its destination, and is in no lane then. Whether the destination admits it is the destination's to say.
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
    /// The word of this node's account is over, and nobody gave it another.
    #[error("{0}; ask the account for another")]
    NotDelegated(DelegationError),
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
        "\"{SEALED_NAMESPACE}\" and namespaces that begin with \"{RESERVED_NAMESPACES}\" are the node's own: choose another"
    )]
    ReservedNamespace,
    /// The destination's sealing key is not known here, and was not to be had: nothing was signed.
    #[error(
        "the key that messages to {destination} are sealed to is not known here, and could not be had ({why}): neither that node nor those behind its place tell it; name the account by its did:key, which says the key, send it again when that node answers, or send unsealed (--plain)"
    )]
    NoKey {
        /// Whom the message was for.
        destination: Did,
        /// Why, as a code.
        why: &'static str,
    },
    /// As many destinations as may be are being asked for their keys.
    #[error(
        "{ASKED_KEYS_MAX} destinations are being asked for their sealing keys: send it again when some answered"
    )]
    KeysAsked,
    /// The message cannot be sealed.
    #[error(transparent)]
    Seal(SealError),
    /// It is not sent in a session.
    #[error(transparent)]
    Session(SessionError),
    /// What was to be sealed is lost. Nothing was signed.
    #[error("sealing the message stopped without an answer: send it again")]
    SealerStopped,
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
            Self::NotDelegated(error) => error.code(),
            Self::Replay(refusal) => refusal.code(),
            Self::Sign(error) => error.code(),
            Self::NotSigned(_) => "send/not_signed",
            Self::ReservedNamespace => "send/reserved_namespace",
            Self::NoKey { .. } => "seal/no_key",
            Self::KeysAsked => "seal/keys_asked",
            Self::Seal(error) => error.code(),
            Self::SealerStopped => "seal/stopped",
            Self::Session(error) => error.code(),
            Self::TooManyPending => "send/too_many_pending",
            Self::Cancelled => "send/cancelled",
            Self::Closed => "node/closed",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Unreachable { .. } | Self::NoKey { .. } => Fault::Unreachable,
            Self::Seal(error) => error.fault(),
            Self::Session(error) => error.fault(),
            Self::ToItself { .. }
            | Self::NotSigned(_)
            | Self::ReservedNamespace
            | Self::Cancelled
            | Self::Closed => Fault::Usage,
            Self::NotDelegated(error) => error.fault(),
            Self::Replay(refusal) => refusal.fault(),
            Self::Sign(error) => error.fault(),
            Self::TooManyPending | Self::KeysAsked | Self::SealerStopped => Fault::RefusedByBound,
        }
    }
}
