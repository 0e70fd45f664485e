//! What the peer says of mail to its driver and to whoever watches.

use std::collections::BTreeMap;

use overlane_core::mail::{HoldProof, MailError};
use overlane_core::{Coded, Did, Fault, TransactionDigest};
use overlane_relay::inbox::OutcomeKind;

use super::super::{Delivery, SendId};
use super::SENDING_MAX;
use super::book::HeldElsewhere;
use overlane_core::replay::{self, CUSTODY_CAPACITY};

/// Names one taking of mail until its result is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TakeId(pub u64);

/// What mail tells the driver.
#[derive(Debug)]
pub enum Effect {
    /// What became of a message that was to be delivered or held; after its [`Sent`](super::super::Effect::Sent).
    Arrived(SendId, Result<Arrived, InboxError>),
    /// What came of a taking.
    Taken(TakeId, Result<Box<Delivery>, InboxError>),
}

/// Where a message of this node's is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrived {
    /// Its destination has admitted it.
    Delivered,
    /// These hold it for its destination, which is away. Each proof says by whom and until when.
    Held(Vec<HoldProof>),
}

/// What happened to mail, for whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailEvent {
    /// A mail for this node is in custody, and waits to be taken.
    Waits {
        /// Who sent it.
        origin: Did,
        /// Its transaction.
        digest: TransactionDigest,
    },
    /// A mail for this node can be admitted no more.
    Lost {
        /// Who sent it.
        origin: Did,
        /// Its transaction.
        digest: TransactionDigest,
        /// Why.
        code: &'static str,
    },
    /// What became of a mail of this node's own that others held.
    Ended {
        /// Whom it was for.
        destination: Did,
        /// Its transaction.
        digest: TransactionDigest,
        /// How it ended.
        kind: OutcomeKind,
        /// The holder that says so.
        by: Did,
    },
    /// What is held here for another account changed.
    Holds {
        /// Whose mail it is.
        owner: Did,
        /// How many there are now.
        mails: u64,
    },
    /// Other nodes hold this node's mail now while it is away.
    Holders(Vec<Did>),
}

/// Why a message is neither delivered nor held, or why no mail is taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// The node was given no store of mail.
    #[error("this node keeps no mail: give its builder a store of mail")]
    NoStore,
    /// The store of mail failed.
    #[error(
        "the store of mail failed, and all about mail is refused until the node starts again: {cause}"
    )]
    StoreFailed {
        /// What it said.
        cause: String,
    },
    /// The message cannot be held.
    #[error("{destination} does not answer, and the message cannot be held for it: {error}")]
    NotHoldable {
        /// Whom it is for.
        destination: Did,
        /// Why.
        error: MailError,
    },
    /// As many messages as may be wait to be delivered or held.
    #[error("{SENDING_MAX} messages wait to be delivered or held: wait for one of them")]
    TooManySends,
    /// The ring names nobody who would hold it.
    #[error(
        "{destination} does not answer, and the ring names nobody to hold mail for it ({code})"
    )]
    NoHolder {
        /// Whom it is for.
        destination: Did,
        /// What the ring said.
        code: &'static str,
    },
    /// None of its holders keeps it.
    #[error("{destination} does not answer, and none of those that would hold mail for it does{}", said(.refused))]
    NotHeld {
        /// Whom it is for.
        destination: Did,
        /// Who refused it, with the code; who is not here said nothing.
        refused: BTreeMap<Did, String>,
    },
    /// As many mails are here as may be, so no other comes.
    #[error("{CUSTODY_CAPACITY} mails are here and were not taken: no other comes until one is")]
    CustodyFull,
    /// No mail waits to be taken.
    #[error("no mail waits to be taken")]
    Empty,
    /// This mail does not wait to be taken.
    #[error("no mail {digest} waits to be taken here")]
    NotWaiting {
        /// The mail.
        digest: TransactionDigest,
    },
    /// The replay boundary did not let it out of custody.
    #[error(transparent)]
    Replay(#[from] replay::Refusal),
    /// The node has shut down.
    #[error("the node has shut down")]
    Closed,
}

fn said(refused: &BTreeMap<Did, String>) -> String {
    let one = |(did, code): (&Did, &String)| format!("; {did} says {code}");
    let all: String = refused.iter().map(one).collect();
    if all.is_empty() {
        String::from("; none of them answers")
    } else {
        all
    }
}

impl Coded for InboxError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoStore => "inbox/no_store",
            Self::StoreFailed { .. } => "inbox/store_failed",
            Self::CustodyFull => "inbox/custody_full",
            Self::NotHoldable { error, .. } => error.code(),
            Self::TooManySends => "inbox/too_many_sends",
            Self::NoHolder { .. } => "inbox/no_holder",
            Self::NotHeld { .. } => "inbox/not_held",
            Self::Empty => "inbox/empty",
            Self::NotWaiting { .. } => "inbox/not_waiting",
            Self::Replay(refusal) => refusal.code(),
            Self::Closed => "node/closed",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NoStore | Self::StoreFailed { .. } => Fault::StoreFailedClosed,
            Self::NotHoldable { error, .. } => error.fault(),
            Self::TooManySends | Self::CustodyFull => Fault::RefusedByBound,
            Self::NoHolder { .. } | Self::NotHeld { .. } => Fault::Unreachable,
            Self::Empty | Self::NotWaiting { .. } | Self::Closed => Fault::Usage,
            Self::Replay(refusal) => refusal.fault(),
        }
    }
}

/// A mail that waits to be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingMail {
    /// Its transaction.
    pub digest: TransactionDigest,
    /// Who sent it.
    pub origin: Did,
    /// Its sequence in its stream.
    pub sequence: u64,
    /// Its data, in bytes.
    pub bytes: usize,
    /// The holder that it came from.
    pub holder: Did,
    /// When that holder took it, by its clock.
    pub held_ms: u64,
}

/// A node's mail at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailStatus {
    /// Whether there is a store of mail.
    pub has_store: bool,
    /// Why that store failed.
    pub failure: Option<String>,
    /// Mail in custody, in the order it came in.
    pub waiting: Vec<WaitingMail>,
    /// Mails in custody, with those whose body was not fetched again yet.
    pub custody: usize,
    /// Mails that were fetched and wait for room in custody; their holders keep them.
    pub fetched: usize,
    /// When custody has room again if nothing is taken, while it is full.
    pub full_until_ms: Option<u64>,
    /// The first instant at which a holder lets go of a mail that was fetched and waits for room.
    pub waits_until_ms: Option<u64>,
    /// Who holds this node's inbox, by the ring.
    pub holders: Vec<Did>,
    /// Those of them that gave all they hold since they are holders.
    pub drained: Vec<Did>,
    /// Messages of this node's that wait to be delivered or held.
    pub sending: usize,
    /// Mails of this node's that others hold, and whose end is not known.
    pub held: Vec<HeldElsewhere>,
    /// Those whose end is known, for [a day](super::ENDED_KEPT_MS) after it.
    pub ended: Vec<HeldElsewhere>,
    /// What is held here for others.
    pub holdings: super::Holdings,
    /// Counts since the start.
    pub counters: super::MailCounters,
}
