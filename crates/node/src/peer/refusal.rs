//! Why a frame went no further.

use overlane_core::e2e::SessionRefusal;
use overlane_core::lane::chunks::ChunkRefusal;
use overlane_core::ring::{RingRefusal, WhyUnreachable};
use overlane_core::seal::SealError;
use overlane_core::transaction::{Role, VerifyError};
use overlane_core::{Class, Coded, Did, Fault, replay};

use crate::policy::PolicyRefusal;

/// Why a frame was refused. Each is counted under its code and told to whoever watches. The frame's
/// credit goes back, unless the refusal is one that cuts its link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The lane is not its class's.
    #[error("a message of class {signed} came on the lane of class {lane}")]
    WrongLane {
        /// The class of the signed data.
        signed: Class,
        /// The lane's class.
        lane: Class,
    },
    /// No payload frame, or its signatures, a life or the network do not hold.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The hop proof is another node's than the link's peer.
    #[error("the link's peer passed on a payload under the hop proof of {signer}")]
    WrongHop {
        /// Who signed the hop proof.
        signer: Did,
    },
    /// The relay fields, which the hop signs, name another node.
    #[error("the frame is for {next_hop}, and came here")]
    WrongNextHop {
        /// Whom it is for.
        next_hop: Did,
    },
    /// The frame came on a link that was cut for an earlier one.
    #[error("the link was cut for what its peer sent before")]
    LinkCut,
    /// The link passed on too many transactions whose origin's proof fails; no frame is refused for
    /// it, the link is cut.
    #[error("the link's peer passes on transactions that it cannot have checked")]
    BadOrigins,
    /// The transaction is for another node, and its hops end here.
    #[error("the transaction is for {destination}, and its last hop brought it here")]
    WrongDestination {
        /// Whom it is for.
        destination: Did,
    },
    /// The transaction is for another node, and goes no further from here.
    #[error("the message for {destination} goes no further: {}", why.code())]
    Route {
        /// Whom it is for.
        destination: Did,
        /// Why.
        why: WhyUnreachable,
    },
    /// The hop that brought it was to send it nearer to its destination, and did not.
    #[error("the link's peer sent a message for {destination} back, against the delivery rule")]
    NoProgress {
        /// Whom it is for.
        destination: Did,
    },
    /// A message of the ring that is refused; it was admitted, and changed nothing else.
    #[error(transparent)]
    Ring(RingRefusal),
    /// A report about nothing that this node sent.
    #[error("{reporter} reports a message that this node did not send, or not lately")]
    UnknownReport {
        /// Who reports.
        reporter: Did,
    },
    /// A chunk, or the message that chunks gave.
    #[error(transparent)]
    Chunk(#[from] ChunkRefusal),
    /// The policy of the program that embeds this node. Nothing of the message was admitted.
    #[error(transparent)]
    Policy(#[from] PolicyRefusal),
    /// The replay boundary refused.
    #[error(transparent)]
    Replay(#[from] replay::Refusal),
    /// A sealed message does not open. It was admitted, and is consumed.
    #[error(transparent)]
    Seal(SealError),
    /// A message that is not sealed, where this node asks for that. It was admitted, and is consumed.
    #[error("the message is not sealed, and this node takes sealed messages only")]
    NotSealed,
    /// A message of an E2E session. It was admitted, and is consumed.
    #[error(transparent)]
    Session(SessionRefusal),
    /// A message of an E2E session of an account whose static key is not known here.
    #[error("{from} speaks in a session, and its contact card is not known here")]
    NoSessionKey {
        /// Who speaks.
        from: Did,
    },
    /// The link went down while too much of what it brought was waiting.
    #[error("the link went down before its frames were admitted, and too many wait already")]
    Orphaned,
    /// Verification stopped without an answer.
    #[error("verification of the frame stopped without an answer")]
    VerifierStopped,
}

impl Refusal {
    /// Whether the origin's proof fails under a hop proof that holds. Time alone does not count: a
    /// proof may end on its way.
    pub(super) fn is_bad_origin(&self) -> bool {
        match self {
            Self::Verify(VerifyError::BadSignature { role, .. }) => *role == Role::Origin,
            Self::Verify(VerifyError::Delegation { role, error }) => {
                *role == Role::Origin && error.fault() == Fault::PeerMisbehaved
            }
            _ => false,
        }
    }

    /// Whether only the link's own peer can have caused it, and no honest one does: the frame's form
    /// and lane, and the hop proof over it. What an origin further back may have caused is not, nor
    /// what time alone does to an honest frame.
    pub(super) fn cuts_link(&self) -> bool {
        match self {
            Self::WrongLane { .. }
            | Self::WrongHop { .. }
            | Self::WrongNextHop { .. }
            | Self::NoProgress { .. } => true,
            Self::Verify(error) => match error {
                VerifyError::Frame(_) | VerifyError::NotPayload | VerifyError::Malformed(_) => true,
                VerifyError::BadSignature { role, .. } => *role == Role::Hop,
                VerifyError::Delegation { role, error } => {
                    *role == Role::Hop && error.fault() == Fault::PeerMisbehaved
                }
                VerifyError::UnknownDelegation { .. } | VerifyError::Life { .. } => false,
            },
            Self::WrongDestination { .. }
            | Self::Route { .. }
            | Self::Ring(_)
            | Self::UnknownReport { .. }
            | Self::LinkCut
            | Self::BadOrigins
            | Self::Chunk(_)
            | Self::Replay(_)
            | Self::Policy(_)
            | Self::Seal(_)
            | Self::NotSealed
            | Self::Session(_)
            | Self::NoSessionKey { .. }
            | Self::Orphaned
            | Self::VerifierStopped => false,
        }
    }
}

impl Coded for Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::WrongLane { .. } => "payload/wrong_lane",
            Self::Verify(error) => error.code(),
            Self::WrongHop { .. } => "payload/wrong_hop",
            Self::WrongNextHop { .. } => "payload/wrong_next_hop",
            Self::LinkCut => "payload/link_cut",
            Self::BadOrigins => "payload/bad_origins",
            Self::WrongDestination { .. } => "payload/wrong_destination",
            Self::Route { why, .. } => why.code(),
            Self::NoProgress { .. } => "route/no_progress",
            Self::Ring(refusal) => refusal.code(),
            Self::UnknownReport { .. } => "route/unknown_report",
            Self::Chunk(refusal) => refusal.code(),
            Self::Replay(refusal) => refusal.code(),
            Self::Policy(refusal) => refusal.code(),
            Self::Seal(error) => error.code(),
            Self::NotSealed => "seal/required",
            Self::Session(refusal) => refusal.code(),
            Self::NoSessionKey { .. } => "e2e/no_key",
            Self::Orphaned => "payload/orphaned",
            Self::VerifierStopped => "payload/verifier_stopped",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Verify(error) => error.fault(),
            Self::Chunk(refusal) => refusal.fault(),
            Self::Replay(refusal) => refusal.fault(),
            Self::Policy(refusal) => refusal.fault(),
            Self::Route { why, .. } => why.fault(),
            Self::Ring(refusal) => refusal.fault(),
            Self::Seal(error) => error.fault(),
            Self::Session(refusal) => refusal.fault(),
            Self::NoProgress { .. }
            | Self::UnknownReport { .. }
            | Self::WrongLane { .. }
            | Self::WrongHop { .. }
            | Self::WrongNextHop { .. }
            | Self::WrongDestination { .. }
            | Self::LinkCut
            | Self::BadOrigins => Fault::PeerMisbehaved,
            Self::NotSealed
            | Self::NoSessionKey { .. }
            | Self::Orphaned
            | Self::VerifierStopped => Fault::RefusedByBound,
        }
    }
}
