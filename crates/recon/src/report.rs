//! How an exchange ended and what it moved.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::codec::Refusal;
use crate::item::Id;

/// How an exchange ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Every range is settled. Items refused on either side are in the report.
    Settled,
    /// A bound was reached first; opening again later is safe and continues from what is held by then.
    GaveUp(Bound),
    /// The peer refused the message with a code.
    Refused {
        /// The code, as `class/reason`.
        code: String,
    },
    /// The peer's answer is no RECON message.
    BrokeRules {
        /// What is wrong with it.
        refusal: Refusal,
    },
}

/// The bound at which an exchange gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Too many rounds.
    Rounds,
    /// Too many payload bytes.
    Bytes,
    /// Too many pushes.
    Pushes,
    /// Nothing moved for too long.
    Idle,
    /// The same message again and again over an unchanged set: the peer repeats itself.
    Stalled,
    /// The link closed.
    Link,
}

impl End {
    /// The stable code of the end.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Settled => "recon/settled",
            Self::GaveUp(Bound::Rounds) => "recon/gave_up_rounds",
            Self::GaveUp(Bound::Bytes) => "recon/gave_up_bytes",
            Self::GaveUp(Bound::Pushes) => "recon/gave_up_pushes",
            Self::GaveUp(Bound::Idle) => "recon/gave_up_idle",
            Self::GaveUp(Bound::Stalled) => "recon/gave_up_stalled",
            Self::GaveUp(Bound::Link) => "recon/gave_up_link",
            Self::Refused { .. } => "recon/refused",
            Self::BrokeRules { .. } => "recon/broke_rules",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settled => f.write_str("settled"),
            Self::GaveUp(bound) => write!(f, "gave up: {bound}"),
            Self::Refused { code } => write!(f, "refused by the peer: {code}"),
            Self::BrokeRules { refusal } => write!(f, "the peer broke the rules: {refusal}"),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rounds => "too many rounds; open again to continue",
            Self::Bytes => "too many bytes; open again to continue",
            Self::Pushes => "the peer pushes without end",
            Self::Idle => "the peer is silent; open again when it answers",
            Self::Stalled => {
                "the peer repeats itself; it may withhold items, or hold too many at one seq"
            }
            Self::Link => "the link closed; open again when it is back",
        })
    }
}

/// An item one side would not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its content address.
    pub id: Id,
    /// The code or reason given.
    pub why: String,
}

/// What an exchange did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How it ended; none while it runs.
    pub end: Option<End>,
    /// Messages sent, each with or waiting for an answer.
    pub rounds: u32,
    /// Payload bytes sent.
    pub bytes_out: u64,
    /// Payload bytes received.
    pub bytes_in: u64,
    /// Bytes of the largest payload of either direction.
    pub largest_message: usize,
    /// Pushes that came, whatever became of them.
    pub pushes: u64,
    /// Items received by push.
    pub received: u64,
    /// Items pushed that were held already.
    pub received_again: u64,
    /// Items sent and acknowledged.
    pub sent: u64,
    /// Messages of ours that the planner laid out.
    pub planned: u64,
    /// Answers and acknowledgements nobody waited for.
    pub unexpected: u64,
    /// Ids the peer named and did not push, ascending.
    pub missing: Vec<Id>,
    /// Further such ids, beyond the bound of what is remembered; one id may count more than once.
    pub missing_untracked: u64,
    /// Items sent and neither acknowledged nor refused, ascending.
    pub unacknowledged: Vec<Id>,
    /// Items the peer refused, and its codes.
    pub refused_by_peer: Vec<Refused>,
    /// Pushed items refused here, and why.
    pub refused_here: Vec<Refused>,
    /// Further refused pushes, beyond the bound of what is remembered.
    pub refused_untracked: u64,
}

impl Report {
    /// Payload bytes, both directions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes_out + self.bytes_in
    }
}
