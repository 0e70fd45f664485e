//! Why something that was asked about references was not done.

use overlane_core::{Coded, Did, Fault};
use overlane_relay::refs;

use super::{EXPORTS_MAX, FARS_MAX, KEPT_MAX, NOTE_MAX_BYTES, TICKETS_MAX};

/// Why a request about references changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The node was given no store of references.
    #[error("this node keeps no references: give its builder a store of references")]
    NoStore,
    /// The store of references failed.
    #[error(
        "the store of references failed, and all of it is refused until the node is started again: {cause}"
    )]
    StoreFailed {
        /// What it said.
        cause: String,
    },
    /// The tables refused.
    #[error(transparent)]
    Tables(#[from] refs::SendError),
    /// As many services are offered as may be.
    #[error("{EXPORTS_MAX} services are offered, and no more are allowed: revoke and drop one")]
    ExportsFull,
    /// As many references are kept as may be.
    #[error("{KEPT_MAX} references are kept, and no more are allowed: drop one")]
    KeptFull,
    /// The note is too long.
    #[error("the note has {bytes} bytes; at most {NOTE_MAX_BYTES} are allowed")]
    NoteTooLong {
        /// Its length.
        bytes: usize,
    },
    /// As many tickets lead to one reference as may.
    #[error("{TICKETS_MAX} tickets lead to the reference, and no more are allowed")]
    TicketsFull,
    /// No reference is kept under this number.
    #[error("no reference is kept under the number {number}")]
    NotKept {
        /// The number.
        number: u64,
    },
    /// Only an object of this node's own can be offered.
    #[error("the reference is another node's; only its owner can do that")]
    NotOwn,
    /// Others hold what is to be let go of.
    #[error("{holders} other nodes hold the reference: revoke it, and they are told")]
    HeldElsewhere {
        /// How many.
        holders: usize,
    },
    /// A call that is answered already, or never was one.
    #[error("the call is not open; it was answered, or its caller is gone")]
    NoSuchCall,
    /// No link leads to the node.
    #[error("no link to {peer}: add it as a peer, or wait until it is linked")]
    Unreachable {
        /// The node.
        peer: Did,
    },
    /// The node is linked, and does not speak of references.
    #[error("{peer} does not answer about references: it may run without a store of them")]
    NoAnswer {
        /// The node.
        peer: Did,
    },
    /// As many nodes share references with this one as may.
    #[error(
        "references are shared with {FARS_MAX} nodes, all in use, and no more are allowed: drop some"
    )]
    PeersFull,
    /// As many requests wait for one node as may.
    #[error("too many requests wait until references are shared with {peer}: wait for one of them")]
    TooManyWaiting {
        /// The node.
        peer: Did,
    },
    /// A request to this node itself.
    #[error("{did} is this node itself")]
    ToItself {
        /// This node.
        did: Did,
    },
    /// The node has shut down.
    #[error("the node has shut down")]
    Closed,
}

impl Coded for ReferenceError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoStore => "refs/no_store",
            Self::StoreFailed { .. } => "refs/store_failed",
            Self::Tables(error) => error.code(),
            Self::ExportsFull => "refs/exports_full",
            Self::KeptFull => "refs/kept_full",
            Self::NoteTooLong { .. } => "refs/note_too_long",
            Self::TicketsFull => "refs/tickets_full",
            Self::NotKept { .. } => "refs/not_kept",
            Self::NotOwn => "refs/not_owner",
            Self::HeldElsewhere { .. } => "refs/held_elsewhere",
            Self::NoSuchCall => "refs/no_such_call",
            Self::Unreachable { .. } => "refs/unreachable",
            Self::NoAnswer { .. } => "refs/no_answer",
            Self::PeersFull => "refs/peers_full",
            Self::TooManyWaiting { .. } => "refs/too_many_waiting",
            Self::ToItself { .. } => "refs/to_itself",
            Self::Closed => "node/closed",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NoStore | Self::StoreFailed { .. } => Fault::StoreFailedClosed,
            Self::Tables(error) => error.fault(),
            Self::ExportsFull
            | Self::KeptFull
            | Self::NoteTooLong { .. }
            | Self::TicketsFull
            | Self::PeersFull
            | Self::TooManyWaiting { .. }
            | Self::HeldElsewhere { .. } => Fault::RefusedByBound,
            Self::Unreachable { .. } | Self::NoAnswer { .. } => Fault::Unreachable,
            Self::NotKept { .. }
            | Self::NotOwn
            | Self::NoSuchCall
            | Self::ToItself { .. }
            | Self::Closed => Fault::Usage,
        }
    }
}
