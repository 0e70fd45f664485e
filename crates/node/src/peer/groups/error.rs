//! Why something that was asked about groups was not done.

use overlane_core::group::{GroupError, GroupId};
use overlane_core::{Coded, Did, Fault};
use overlane_relay::log::Refusal;

use super::{ASKS_WAITING_MAX, GROUPS_MAX, NAME_MAX_BYTES, POSTS_PER_ASK, POSTS_WAITING_MAX};

/// Why a request about groups changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupsError {
    /// The node was given no store of logs.
    #[error("this node keeps no groups: give its builder a store of logs")]
    NoStore,
    /// The store of logs failed.
    #[error(
        "the store of logs failed, and all about groups is refused until the node is started again: {cause}"
    )]
    StoreFailed {
        /// What it said.
        cause: String,
    },
    /// What the group is made of refuses.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The log refuses.
    #[error(transparent)]
    Log(#[from] Refusal),
    /// No such group here.
    #[error("this node knows no such group: {group}")]
    NotKnown {
        /// The group.
        group: GroupId,
    },
    /// The group is here already.
    #[error("this node has the group already, as \"{name}\"")]
    KnownAlready {
        /// Its name here.
        name: String,
    },
    /// As many groups as may be.
    #[error("this node has {GROUPS_MAX} groups, and no more are allowed: leave one")]
    Full,
    /// Text that names no group.
    #[error("a group's name has 1 to {NAME_MAX_BYTES} bytes, and no control characters")]
    BadName,
    /// Another group has this name here.
    #[error("another group is called \"{name}\" here: choose another name")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// Only the group's owner changes its roster.
    #[error("only its owner, {owner}, changes who is in the group")]
    NotOwner {
        /// Who it is.
        owner: Did,
    },
    /// No roster has come yet.
    #[error("no host of the group has answered yet: it has the group's roster")]
    NoRoster,
    /// This account's kind has no key to seal to.
    #[error(
        "an account of this kind has no key that a group's key could be sealed to: use an Ed25519 account"
    )]
    NoSealingKey,
    /// It is in the group already.
    #[error("{account} is in the group already")]
    InAlready {
        /// Who.
        account: Did,
    },
    /// The group's next key cannot be sealed to a member.
    #[error("the key of {account}, a member, is not known here: invite it again by its did:key")]
    MemberKeyUnknown {
        /// Who.
        account: Did,
    },
    /// It is not in the group.
    #[error("{account} is not in the group")]
    NotIn {
        /// Who.
        account: Did,
    },
    /// The owner leaves last.
    #[error("the owner leaves its group last: remove the others first: {members} of them")]
    OwnerStays {
        /// How many others there are, hosts included.
        members: usize,
    },
    /// Too much in one request.
    #[error("{posts} posts in one request; at most {POSTS_PER_ASK} are allowed")]
    TooManyPosts {
        /// How many.
        posts: usize,
    },
    /// As many posts wait for the host as may.
    #[error(
        "{POSTS_WAITING_MAX} posts wait for the group's host to number them, and no more are allowed: wait until it can be reached, or reconcile with another host (group sync --host)"
    )]
    PostsWaiting,
    /// As many requests wait for other nodes as may.
    #[error("{ASKS_WAITING_MAX} requests wait for other nodes, and no more are allowed")]
    AsksFull,
    /// There is nobody to reconcile with.
    #[error("this node hosts the group alone: there is nobody to reconcile with")]
    Alone,
    /// It does not host the group.
    #[error("{host} is no host of the group, by the roster that is here")]
    NotAHost {
        /// Who.
        host: Did,
    },
    /// The host did not answer in time.
    #[error("{host} gave no answer about the group")]
    NoAnswer {
        /// Who.
        host: Did,
    },
    /// Nothing comes through to the host.
    #[error("nothing comes through to {host}: {code}")]
    Unreachable {
        /// Who.
        host: Did,
        /// Why, as a code.
        code: String,
    },
    /// The host does not keep the group for this node.
    #[error(
        "{host} does not keep the group for this node: it is not on the roster there, or not yet"
    )]
    NotHere {
        /// Who.
        host: Did,
    },
    /// The node has shut down.
    #[error("the node has shut down")]
    Closed,
}

impl Coded for GroupsError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoStore => "group/no_store",
            Self::StoreFailed { .. } => "group/store_failed",
            Self::Group(error) => error.code(),
            Self::Log(refusal) => refusal.code(),
            Self::NotKnown { .. } => "group/not_known",
            Self::KnownAlready { .. } => "group/known_already",
            Self::Full => "group/full",
            Self::BadName => "group/bad_name",
            Self::NameTaken { .. } => "group/name_taken",
            Self::NotOwner { .. } => "group/not_owner",
            Self::NoRoster => "group/no_roster",
            Self::NoSealingKey => "group/no_sealing_key",
            Self::InAlready { .. } => "group/in_already",
            Self::MemberKeyUnknown { .. } => "group/member_key_unknown",
            Self::NotIn { .. } => "group/not_in",
            Self::OwnerStays { .. } => "group/owner_stays",
            Self::TooManyPosts { .. } => "group/too_many_posts",
            Self::PostsWaiting => "group/posts_waiting",
            Self::AsksFull => "group/asks_full",
            Self::Alone => "group/alone",
            Self::NotAHost { .. } => "group/not_a_host",
            Self::NoAnswer { .. } => "group/no_answer",
            Self::Unreachable { .. } => "group/unreachable",
            Self::NotHere { .. } => "group/not_here",
            Self::Closed => "group/closed",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Group(error) => error.fault(),
            Self::Log(refusal) => refusal.fault(),
            Self::StoreFailed { .. } => Fault::StoreFailedClosed,
            Self::Full | Self::PostsWaiting | Self::AsksFull => Fault::RefusedByBound,
            Self::NoRoster
            | Self::NoAnswer { .. }
            | Self::Unreachable { .. }
            | Self::NotHere { .. }
            | Self::Closed => Fault::Unreachable,
            _ => Fault::Usage,
        }
    }
}
