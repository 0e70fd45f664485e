//! What a keeper is given to do, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use overlane_core::identity::Signer;
use overlane_core::mail::{HoldProof, Mail};
use overlane_core::{Did, TransactionDigest};
use overlane_relay::inbox::Outcome;
use overlane_relay::log::Peer as Bringer;

use super::super::book::HeldElsewhere;

/// Something for the keeper to do.
#[derive(Debug)]
pub enum Job {
    /// Mail for an account that is away.
    Deposit {
        /// The sender's payload frame, not verified.
        payload: Vec<u8>,
        /// Who brought it.
        by: Bringer,
        /// The account it is for, as far as that is known without checking it.
        owner: Did,
        /// The holders of that account's inbox, by the ring.
        chain: Vec<Did>,
        /// Signs the receipt.
        signer: Arc<Signer>,
    },
    /// A frame of a log.
    Log {
        /// Who says it.
        by: Bringer,
        /// The frame.
        frame: Vec<u8>,
    },
    /// A frame of an inbox.
    Frame {
        /// Who says it.
        by: Bringer,
        /// The frame.
        frame: Vec<u8>,
    },
    /// An account is met: it is told what became of its mail.
    Met(Did),
    /// The last link to an account is down.
    Unlinked(Did),
    /// By the ring, these hold an account's inbox, and those may have until not long ago.
    Chain {
        /// The account.
        owner: Did,
        /// The holders, the nearest first.
        chain: Vec<Did>,
        /// Who held until not long ago.
        former: Vec<Did>,
        /// Those of them that said they hold some: they are asked too.
        asked: Vec<Did>,
    },
    /// By the ring, these hold this node's own inbox.
    Holders(Vec<Did>),
    /// Fetch what these hold for this node.
    Fetch(Vec<Did>),
    /// A mail that was fetched is in no custody: it waits at its holders.
    NotKept(TransactionDigest),
    /// A mail that was fetched can be admitted no more.
    Lost(TransactionDigest),
    /// A mail was taken, durably, or had been: its holders let go of it.
    Taken(TransactionDigest),
    /// These hold a mail of this node's own: its end is owed from now on.
    Remember {
        /// Its transaction.
        digest: TransactionDigest,
        /// Whom it is for.
        destination: Did,
        /// Who holds it, and until when.
        by: Vec<(Did, u64)>,
        /// Who was asked to hold it as well: their receipts count later.
        asked: Vec<Did>,
    },
    /// What a holder said became of a mail that came into the book meanwhile.
    Outcome(Did, Outcome),
    /// The same of one that the ring names a holder by now, and that was not asked.
    HandedOn(Did, Outcome),
    /// Signs what was taken since, for whoever has not let go of it.
    SignRemovals(Arc<Signer>),
    /// Time for maintenance.
    Maintain,
}

/// A job, and when.
#[derive(Debug)]
pub struct Work {
    /// What.
    pub job: Job,
    /// The time on the wall, in Unix milliseconds.
    pub now_ms: u64,
    /// Whether a message of another node holds a place until this is done.
    pub holds_place: bool,
}

/// What came of work, after it is durable.
#[derive(Debug)]
pub enum Told {
    /// Say this frame of an inbox.
    Say(Did, Vec<u8>),
    /// Say this frame of an inbox's log.
    SayLog(Did, Vec<u8>),
    /// Tell the sender of a mail that it is not held here.
    Refused(Did, TransactionDigest, &'static str),
    /// A holder has mail of this node's own.
    Receipt(Box<HoldProof>),
    /// What a node says became of mail of this node's own that is not in the book, or not as held by that node.
    Outcome(Did, Outcome),
    /// A mail of this node's own that others hold, as the book has it now; none if it is forgotten.
    Sent(TransactionDigest, Option<Box<HeldElsewhere>>),
    /// A mail of this node's own is in the book, as was asked.
    Remembered(TransactionDigest),
    /// The end of a mail of this node's own is known, as the book has it.
    Ended(TransactionDigest),
    /// A node says that it holds mail for an account, and that this node should.
    Announced {
        /// The account.
        owner: Did,
        /// Who says so.
        by: Did,
    },
    /// A mail for this node.
    Fetched(Box<Mail>),
    /// A holder of this node's own inbox was asked to its end.
    Drained {
        /// Who.
        from: Did,
        /// Whether it gave all that it holds.
        settled: bool,
        /// Whether it is to let go of something that was taken.
        lets_go: bool,
        /// The code of its end, if it would have gone on without one, or said what is no answer.
        never_ends: Option<&'static str>,
    },
    /// The policy let mail that another holder handed on not be held; its code.
    NotLetIn(&'static str),
    /// What is held here for others.
    Held(Holdings),
    /// So many mails are held here for this account now.
    Holds(Did, u64),
    /// So many messages that held a place are dealt with.
    Done(usize),
    /// The store failed: nothing is held and nothing fetched until the node starts again.
    Failed(String),
}

/// What a node holds for others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Mails by their owner; also of owners that nothing is held of any more.
    pub inboxes: BTreeMap<Did, u64>,
    /// What was kept since the start.
    pub kept: u64,
    /// What was let go of at its end or to make room since the start.
    pub let_go: u64,
    /// Frames and mail that were refused since the start.
    pub refused: u64,
    /// Transactions of the store since the start.
    pub flushes: u64,
    /// Outcomes that were not kept for their senders.
    pub outcomes_lost: u64,
    /// Frames that were none, or did not count.
    pub bad_frames: u64,
}
