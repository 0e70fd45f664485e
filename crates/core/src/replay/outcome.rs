//! What the engine answers, and the proofs it answers with.
//!
//! Law (release): an answer exists only once everything it depends on is durable. [`Admitted`],
//! [`Custodial`] and [`Reservation`] have no public constructor and cannot be copied; they are made
//! in `Staged::release` alone, for answers whose batch became durable.

use std::ops::Range;
use std::sync::Arc;

use super::refusal::Refusal;
use super::window::Verdict;
use crate::ids::{StreamKey, TransactionDigest};
use crate::store::StoreError;

/// What the engine has to know of a transaction. The node's is `Verified<Payload>`, so that only
/// what passed both signatures can be admitted.
pub trait Candidate {
    /// The transaction's stream.
    fn stream(&self) -> StreamKey;
    /// Its sequence.
    fn sequence(&self) -> u64;
    /// Its digest.
    fn digest(&self) -> TransactionDigest;
    /// The length of its signed data, in bytes: what it costs of the quota.
    fn data_bytes(&self) -> u64;
    /// When its proof was issued, by its signer's clock.
    fn issued_ms(&self) -> u64;
    /// The last instant of its proof and of its signer's delegation, the earlier of the two.
    fn last_ms(&self) -> u64;
    /// The namespace of an application message.
    fn namespace(&self) -> Option<&str>;
    /// Everything its signature covers but the data itself, encoded: one half of the evidence,
    /// should its origin sign another transaction under the same sequence.
    fn signed_header(&self) -> Vec<u8>;
}

/// One call's place among all calls of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// The answer to one call.
#[derive(Debug)]
pub enum Outcome<T> {
    /// The transaction entered its window, durably: it may be dispatched, once.
    Admitted(Admitted<T>),
    /// The mail is in its window and in custody, durably: it may be offered to its application,
    /// and dispatched once taken.
    InCustody(Custodial<T>),
    /// The sequences are this caller's, durably: they may be signed.
    Reserved(Reservation),
    /// The evidence is in the fork log, durably.
    EvidenceKept(StreamKey),
    /// Nothing happened, for a stated reason.
    Refused {
        /// Why.
        refusal: Refusal,
        /// What was to be admitted or taken, given back.
        item: Option<T>,
    },
}

/// A transaction that may be dispatched.
#[derive(Debug, PartialEq, Eq)]
pub struct Admitted<T> {
    item: T,
    verdict: Verdict,
}

impl<T> Admitted<T> {
    /// What the window said. For mail, what it said to the copy that was taken: one that came
    /// again while in custody was a [`Verdict::Replay`].
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The transaction.
    pub const fn item(&self) -> &T {
        &self.item
    }

    /// The transaction, for what is done to it without changing what was admitted.
    pub(crate) const fn item_mut(&mut self) -> &mut T {
        &mut self.item
    }

    /// The transaction, for its handler.
    pub fn into_item(self) -> T {
        self.item
    }
}

/// A mail that its application may take ([`Engine::stage_take`](super::Engine::stage_take)).
#[derive(Debug, PartialEq, Eq)]
pub struct Custodial<T> {
    pub(super) item: T,
    pub(super) verdict: Verdict,
}

impl<T> Custodial<T> {
    /// The mail.
    pub const fn item(&self) -> &T {
        &self.item
    }

    /// What the window said; [`Verdict::Replay`] of a copy that came again.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// Sequences that a durable record covers and that nobody else was given.
#[derive(Debug, PartialEq, Eq)]
pub struct Reservation {
    stream: StreamKey,
    sequences: Range<u64>,
}

impl Reservation {
    /// The stream they belong to.
    pub const fn stream(&self) -> &StreamKey {
        &self.stream
    }

    /// The sequences.
    pub fn sequences(&self) -> Range<u64> {
        self.sequences.clone()
    }

    /// The first of them, for a reservation of one.
    pub const fn first(&self) -> u64 {
        self.sequences.start
    }
}

/// An answer that waits for its batch.
#[derive(Debug, Clone)]
pub(super) enum Staged<T> {
    Admit {
        item: T,
        verdict: Verdict,
        local: bool,
    },
    Take {
        item: T,
        verdict: Verdict,
    },
    Hold {
        item: T,
        verdict: Verdict,
    },
    Reserve {
        stream: StreamKey,
        sequences: Range<u64>,
    },
    Keep(StreamKey),
    Refuse {
        refusal: Refusal,
        item: Option<T>,
    },
}

impl<T> Staged<T> {
    /// The answer, now that its batch is durable.
    pub(super) fn release(self) -> Outcome<T> {
        match self {
            Self::Admit { item, verdict, .. } | Self::Take { item, verdict } => {
                Outcome::Admitted(Admitted { item, verdict })
            }
            Self::Hold { item, verdict } => Outcome::InCustody(Custodial { item, verdict }),
            Self::Reserve { stream, sequences } => {
                Outcome::Reserved(Reservation { stream, sequences })
            }
            Self::Keep(stream) => Outcome::EvidenceKept(stream),
            Self::Refuse { refusal, item } => Outcome::Refused { refusal, item },
        }
    }

    /// The same call's answer, now that its batch has failed.
    pub(super) fn failed(self, cause: Arc<StoreError>) -> Self {
        let item = match self {
            Self::Admit { item, .. } | Self::Take { item, .. } | Self::Hold { item, .. } => {
                Some(item)
            }
            Self::Refuse { item, .. } => item,
            Self::Reserve { .. } | Self::Keep(_) => None,
        };
        let refusal = Refusal::StoreFailed { cause };
        Self::Refuse { refusal, item }
    }
}
