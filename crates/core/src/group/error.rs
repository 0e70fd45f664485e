//! Why something of a group does not count.

use super::roster::GroupId;
use crate::fault::{Coded, Fault};
use crate::identity::StatementError;
use crate::ids::Did;
use crate::seal::SealError;
use crate::wire::cbor::CborError;

/// Why something of a group does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Not the one form of a post or roster.
    #[error("neither post nor roster: {0}")]
    Malformed(#[from] CborError),
    /// Its statement does not count.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// Of another group.
    #[error("of group {found}, not of {wanted}")]
    OtherGroup {
        /// The group asked about.
        wanted: GroupId,
        /// The group it is of.
        found: GroupId,
    },
    /// By someone who is no member.
    #[error("{author} is no member of group {group}: ask its owner for an invitation")]
    NotAMember {
        /// The group.
        group: GroupId,
        /// Who wrote.
        author: Did,
    },
    /// Sealed under a key this member does not have.
    #[error("a post of epoch {epoch}, whose key this member does not have")]
    NoKey {
        /// The epoch.
        epoch: u64,
    },
    /// It does not open under its epoch's key.
    #[error("the post does not open under the key of epoch {epoch}")]
    DoesNotOpen {
        /// The epoch.
        epoch: u64,
    },
    /// The group key could not be sealed to, or opened by, a member.
    #[error("the group key of {member}: {error}")]
    Key {
        /// The member.
        member: Did,
        /// Why.
        error: SealError,
    },
    /// Too many members or hosts, or a post too long.
    #[error("{found} {what}; at most {bound} are allowed")]
    OverBound {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        found: usize,
        /// The bound.
        bound: usize,
    },
    /// A roster that is not newer than the one in force.
    #[error("a roster of revision {found} does not follow revision {current}")]
    OldRevision {
        /// The revision in force.
        current: u64,
        /// The one offered.
        found: u64,
    },
}

impl Coded for GroupError {
    fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "group/malformed",
            Self::Statement(error) => error.code(),
            Self::OtherGroup { .. } => "group/other_group",
            Self::NotAMember { .. } => "group/not_a_member",
            Self::NoKey { .. } => "group/no_key",
            Self::DoesNotOpen { .. } => "group/does_not_open",
            Self::Key { error, .. } => error.code(),
            Self::OverBound { .. } => "group/over_bound",
            Self::OldRevision { .. } => "group/old_revision",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Statement(error) => error.fault(),
            Self::NoKey { .. } | Self::OverBound { .. } | Self::OldRevision { .. } => {
                Fault::RefusedByBound
            }
            _ => Fault::PeerMisbehaved,
        }
    }
}
