//! Why a log does not do what it was asked.

use super::bounds::{EXCHANGE_ITEMS_MAX, NUMBER_MAX, PEERS_MAX, SHARELESS_MAX};
use super::id::{EnvelopeId, LogId};
use overlane_core::wire::cbor::CborError;
use overlane_core::{Coded, Did, Fault};

/// Why a log does not do what it was asked. The peer is told the code; the session lives on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not a frame.
    #[error("not a frame of a log: {0}")]
    Malformed(#[from] CborError),
    /// This node does not keep the log, or not for this peer. It does not say which.
    #[error("log {log} is not kept here for {peer}")]
    NotHere {
        /// The log.
        log: LogId,
        /// Who asked.
        peer: Did,
    },
    /// The log's own rules refuse the envelope.
    #[error("{reason}")]
    Rules {
        /// The stable code.
        code: &'static str,
        /// The reason in words.
        reason: String,
        /// Whose fault it is.
        fault: Fault,
    },
    /// A member brought what another wrote.
    #[error("envelope {id} is by {author}, who brings it itself; a member sends what it wrote")]
    NotItsAuthor {
        /// The envelope.
        id: EnvelopeId,
        /// Who wrote it.
        author: Did,
    },
    /// The envelope is over already, or as old as what was let go of.
    #[error("the envelope is older than what log {log} keeps")]
    TooOld {
        /// The log.
        log: LogId,
    },
    /// The log is full, and the author has its share of it.
    #[error("log {log} is full and {author} has its share of it; ask its host for a larger one")]
    ShareFull {
        /// The log.
        log: LogId,
        /// The author.
        author: Did,
    },
    /// The author's or the slot's share of what this node keeps is used up.
    #[error("slot {slot} has brought its {bound_bytes} bytes; it waits until some of it is gone")]
    SlotFull {
        /// The slot.
        slot: u32,
        /// Its bound.
        bound_bytes: u64,
    },
    /// A number that another envelope has here.
    #[error("number {seq} of log {log} is another envelope's here; the host numbers anew")]
    NumberTaken {
        /// The log.
        log: LogId,
        /// The number.
        seq: u64,
    },
    /// A number that no honest host comes to.
    #[error("number {seq} of log {log} is above {NUMBER_MAX}, which no host comes to")]
    NumberTooHigh {
        /// The log.
        log: LogId,
        /// The number.
        seq: u64,
    },
    /// As many authors as may be have no share of their own in the log.
    #[error(
        "log {log} has envelopes of {SHARELESS_MAX} authors who are in it no more, and takes those of no other"
    )]
    AuthorsFull {
        /// The log.
        log: LogId,
    },
    /// An envelope that was not asked for.
    #[error("nothing was asked about log {log}")]
    NotAsked {
        /// The log.
        log: LogId,
    },
    /// The peer's allowance is used up.
    #[error("the allowance of {of} is used up; it may ask again in {retry_ms} ms")]
    Exhausted {
        /// Which allowance.
        of: &'static str,
        /// When it may ask again.
        retry_ms: u64,
    },
    /// The peer did not take yet what it asked for before.
    #[error("{owed} frames wait for the peer; it takes them before it asks again")]
    Unread {
        /// How many.
        owed: usize,
    },
    /// More waits for the next transaction than it takes.
    #[error("the next transaction is full; try again when it is durable")]
    Busy,
    /// Too many peers at once.
    #[error("{PEERS_MAX} peers are served at a time")]
    PeersFull,
    /// Too many reconciliations at once.
    #[error("as many reconciliations as are driven at a time run already")]
    ExchangesFull,
    /// A log too large to be taken into memory.
    #[error("log {log} has {items} items; {EXCHANGE_ITEMS_MAX} can be reconciled from this side")]
    TooLarge {
        /// The log.
        log: LogId,
        /// Its items.
        items: u64,
    },
    /// The RECON payload is refused.
    #[error("RECON payload: {reason}")]
    Recon {
        /// The payload's own code.
        code: &'static str,
        /// The reason in words.
        reason: String,
    },
}

impl Refusal {
    /// When to try again, in milliseconds; zero where trying again as it is helps nothing.
    pub fn retry_ms(&self) -> u64 {
        match self {
            Self::Exhausted { retry_ms, .. } => *retry_ms,
            Self::Unread { .. } | Self::Busy => 100,
            Self::PeersFull | Self::ExchangesFull => 60_000,
            Self::ShareFull { .. } | Self::SlotFull { .. } => 3_600_000,
            _ => 0,
        }
    }
}

/// Whether a peer that refused something with this code may take it a little later, as it is.
pub fn is_passing(code: &str) -> bool {
    matches!(
        code,
        "log/exhausted" | "log/unread" | "log/busy" | "log/peers_full" | "log/exchanges_full"
    )
}

/// Whether something was refused with this code because its host numbers anew what had other numbers, or as nobody does.
pub fn is_numbered_anew(code: &str) -> bool {
    matches!(code, "log/number_taken" | "log/number_too_high")
}

impl Coded for Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "log/malformed",
            Self::NotHere { .. } => "log/not_here",
            Self::Rules { code, .. } | Self::Recon { code, .. } => code,
            Self::NotItsAuthor { .. } => "log/not_its_author",
            Self::TooOld { .. } => "log/too_old",
            Self::ShareFull { .. } => "log/share_full",
            Self::SlotFull { .. } => "log/slot_full",
            Self::NumberTaken { .. } => "log/number_taken",
            Self::NumberTooHigh { .. } => "log/number_too_high",
            Self::AuthorsFull { .. } => "log/authors_full",
            Self::NotAsked { .. } => "log/not_asked",
            Self::Exhausted { .. } => "log/exhausted",
            Self::Unread { .. } => "log/unread",
            Self::Busy => "log/busy",
            Self::PeersFull => "log/peers_full",
            Self::ExchangesFull => "log/exchanges_full",
            Self::TooLarge { .. } => "log/too_large",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Rules { fault, .. } => *fault,
            Self::Malformed(_)
            | Self::NotItsAuthor { .. }
            | Self::NumberTooHigh { .. }
            | Self::NotAsked { .. }
            | Self::Recon { .. } => Fault::PeerMisbehaved,
            _ => Fault::RefusedByBound,
        }
    }
}

/// What the rules say no with.
impl Refusal {
    /// The rules refuse an envelope because of `error`.
    pub fn rules(error: &(impl Coded + std::fmt::Display)) -> Self {
        Self::Rules {
            code: error.code(),
            reason: error.to_string(),
            fault: error.fault(),
        }
    }
}
