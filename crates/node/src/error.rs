//! Why a node did not start, or can no longer answer.

use std::net::SocketAddr;

use overlane_core::identity::DelegationError;
use overlane_core::replay::DELEGATING_NAMESPACES;
use overlane_core::ring::RingError;
use overlane_core::store::StoreError;
use overlane_core::{Coded, Fault};

use crate::link::LinkError;
use crate::peer::groups;
use crate::peer::refs::OpenError;
use crate::runtime::PEERS_MAX;

/// A refusal of the node as a whole.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The builder was given no account.
    #[error("a node needs an account: give the builder one")]
    NoAccount,
    /// Another program listens there.
    #[error("{address} is in use by another program: stop it, or listen on another port")]
    ListenInUse {
        /// The address asked for.
        address: SocketAddr,
    },
    /// The platform refused to listen there.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The platform's words.
        cause: String,
    },
    /// The record store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store of references cannot be read.
    #[error("the store of references cannot be read: {cause}")]
    ReferenceStore {
        /// What it said.
        cause: String,
    },
    /// The store of mail cannot be read.
    #[error("the store of mail cannot be read: {cause}")]
    InboxStore {
        /// What it said.
        cause: String,
    },
    /// What the store of references holds are no references.
    #[error(transparent)]
    References(#[from] OpenError),
    /// What the store of logs holds are no groups, or it cannot be read.
    #[error(transparent)]
    Groups(#[from] groups::OpenError),
    /// A link could not be made.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Another node could not be asked by way of the ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The platform gave no randomness.
    #[error("the platform gives no randomness: {cause}")]
    Random {
        /// The platform's words.
        cause: String,
    },
    /// The platform gave no thread.
    #[error("the platform starts no thread: {cause}")]
    Thread {
        /// The platform's words.
        cause: String,
    },
    /// The delegation's life is not one that a delegation may have.
    #[error("no delegation can be made: {cause}")]
    Delegation {
        /// What is wrong.
        cause: String,
    },
    /// The account that this node signs for is kept elsewhere, so nobody here can sign for another delegatee.
    #[error("the account's key is kept elsewhere: only there can another delegatee be signed for")]
    Delegated,
    /// A signer of another account or network, or for a node that has its account's own key.
    #[error(
        "this node cannot sign with that: it is of another account or network, or the account's own key is here"
    )]
    OtherAccount,
    /// What the account signed does not count.
    #[error(transparent)]
    NotDelegated(#[from] DelegationError),
    /// As many peers are kept as may be.
    #[error("{PEERS_MAX} peers are kept, and no more are allowed: drop one")]
    PeersFull,
    /// As many namespaces delegate their replay as may.
    #[error(
        "namespace {namespace:?} cannot delegate its replay: {DELEGATING_NAMESPACES} do, and no \
         more are allowed"
    )]
    DelegatingFull {
        /// The first one that found no place.
        namespace: String,
    },
    /// The node broke off without being asked to.
    #[error("the node broke off: what was durable is kept")]
    Broken,
    /// The node has shut down.
    #[error("the node has shut down")]
    Closed,
}

impl Coded for NodeError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoAccount => "node/no_account",
            Self::ListenInUse { .. } => "node/listen_in_use",
            Self::Listen { .. } => "node/listen",
            Self::Store(error) => error.code(),
            Self::ReferenceStore { .. } => "refs/store_unreadable",
            Self::InboxStore { .. } => "inbox/store_unreadable",
            Self::References(error) => error.code(),
            Self::Groups(error) => error.code(),
            Self::Link(error) => error.code(),
            Self::Ring(error) => error.code(),
            Self::Random { .. } => "node/random",
            Self::Thread { .. } => "node/thread",
            Self::Delegation { .. } => "node/delegation",
            Self::Delegated => "node/delegated",
            Self::OtherAccount => "node/other_account",
            Self::NotDelegated(error) => error.code(),
            Self::PeersFull => "node/peers_full",
            Self::DelegatingFull { .. } => "node/delegating_full",
            Self::Broken => "node/broken",
            Self::Closed => "node/closed",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Store(error) => error.fault(),
            Self::Link(error) => error.fault(),
            Self::Ring(error) => error.fault(),
            Self::References(error) => error.fault(),
            Self::Groups(error) => error.fault(),
            Self::NotDelegated(error) => error.fault(),
            Self::Broken | Self::ReferenceStore { .. } | Self::InboxStore { .. } => {
                Fault::StoreFailedClosed
            }
            Self::NoAccount | Self::ListenInUse { .. } | Self::Listen { .. } => Fault::Usage,
            Self::Random { .. } | Self::Thread { .. } | Self::PeersFull => Fault::RefusedByBound,
            Self::Delegated
            | Self::OtherAccount
            | Self::Delegation { .. }
            | Self::Closed
            | Self::DelegatingFull { .. } => Fault::Usage,
        }
    }
}
