//! Why a message of the ring is refused, and why a request fails.

use super::bounds::REQUESTS_MAX;
use super::message::{RequestId, WhyUnreachable};
use crate::fault::{Coded, Fault};
use crate::ids::Did;
use crate::wire::cbor::CborError;

/// Why a message of the ring is refused. Nothing of it has changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingRefusal {
    /// Not the one form of a ring message.
    #[error("malformed ring message: {0}")]
    Malformed(#[from] CborError),
    /// An answer to no request of this node's, or by another node than it asked.
    #[error("{from} answers request {} that it was not asked", id.0)]
    Unasked {
        /// Who answers.
        from: Did,
        /// The request it names.
        id: RequestId,
    },
    /// Neighbours that are not in the order of the ring.
    #[error("{from} names neighbours out of the ring's order")]
    Disordered {
        /// Who names them.
        from: Did,
    },
    /// A lookup's answer that lies no nearer, or an owner that cannot own the place.
    #[error("{from} answers a lookup with a node that is no nearer to the place")]
    NoProgress {
        /// Who answers.
        from: Did,
    },
    /// An answer of another kind than was asked for.
    #[error("{from} answers request {} with something else", id.0)]
    OtherAnswer {
        /// Who answers.
        from: Did,
        /// The request.
        id: RequestId,
    },
}

impl Coded for RingRefusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "ring/malformed",
            Self::Unasked { .. } => "ring/unasked",
            Self::Disordered { .. } => "ring/disordered",
            Self::NoProgress { .. } => "ring/no_progress",
            Self::OtherAnswer { .. } => "ring/other_answer",
        }
    }

    fn fault(&self) -> Fault {
        Fault::PeerMisbehaved
    }
}

/// Why a request of this node's user failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// No answer came.
    #[error("{to} gave no answer within {waited_ms} ms: it may be down, or not on this ring")]
    NoAnswer {
        /// Who was asked.
        to: Did,
        /// How long was waited.
        waited_ms: u64,
    },
    /// A node on the way says that nothing leads there.
    #[error("{to} is not reachable ({}), says {reporter}", why.code())]
    Unreachable {
        /// Who was asked.
        to: Did,
        /// The node where the route ended.
        reporter: Did,
        /// Why.
        why: WhyUnreachable,
    },
    /// The request could not be sent.
    #[error("the request to {to} could not be sent: {code}")]
    NotSent {
        /// Who was to be asked.
        to: Did,
        /// The code of the refusal.
        code: &'static str,
    },
    /// An offer was declined.
    #[error("{by} takes no link from this node now: {code}")]
    Declined {
        /// Who declined.
        by: Did,
        /// Its code.
        code: String,
    },
    /// This node is in no ring.
    #[error("this node has joined no ring")]
    NotJoined,
    /// It is this node that would be asked.
    #[error("{did} is this node itself")]
    ToItself {
        /// This node.
        did: Did,
    },
    /// As many requests as may be have no answer yet.
    #[error("{REQUESTS_MAX} requests wait for their answers: wait for one of them")]
    TooManyRequests,
}

impl Coded for RingError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoAnswer { .. } => "ring/no_answer",
            Self::Unreachable { why, .. } => why.code(),
            Self::NotSent { code, .. } => code,
            Self::Declined { .. } => "ring/declined",
            Self::NotJoined => "ring/not_joined",
            Self::ToItself { .. } => "ring/to_itself",
            Self::TooManyRequests => "ring/too_many_requests",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NoAnswer { .. } | Self::Unreachable { .. } | Self::NotSent { .. } => {
                Fault::Unreachable
            }
            Self::Declined { .. } | Self::TooManyRequests => Fault::RefusedByBound,
            Self::NotJoined | Self::ToItself { .. } => Fault::Usage,
        }
    }
}
