//! Replay protection: every signed transaction is admitted at most once, across restarts and
//! crashes.
//!
//! A **stream** is what one account sends another in one class. Its destination keeps a
//! [`Window`] of what it admitted, its origin a [`Lease`] on the sequences it may sign. Both are
//! records of one store, and nothing that depends on a record is released before the batch that
//! holds it is durable. Sources: seed 1 (transaction replay); protocol decisions 2 to 5.

#[macro_use]
mod mutant;

mod admissible;
mod bounds;
mod clock;
mod counters;
mod custody;
mod engine;
#[cfg(test)]
mod explore;
mod forks;
mod gather;
#[cfg(feature = "inspect")]
pub mod inspect;
mod lease;
mod outcome;
mod quota;
pub mod record;
mod refusal;
mod slots;
mod spent;
mod unrestorable;
mod verdicts;
mod volatile;
mod window;

pub use bounds::Bound;
pub use clock::{Now, WITNESS_LIFE_MS, WITNESS_WITHIN_MS};
pub use counters::Counters;
pub use custody::{CUSTODY_CAPACITY, CustodyEntry};
pub use engine::{
    Batch, BatchId, Engine, EngineConfig, LEASE_LIFE_MS, NotInFlight, SIGN_WITHIN_MS, restored,
};
pub use forks::{FORK_LOG_CAPACITY, HEADER_MAX_BYTES, HEADER_RING_CAPACITY};
pub use gather::{GATHER_RESULTS, Gather};
pub use lease::{LEASE_SEQUENCES, Lease, RESERVATION_MAX, START_SHIFT, SequencesExhausted};
pub use outcome::{Admitted, Candidate, Custodial, Outcome, Reservation, Ticket};
pub use quota::{Bucket, QUOTA_RECORDS, QuotaLimits, QuotaRefusal};
pub use refusal::{Forked, PENDING_MAX, Refusal};
pub use slots::{
    INBOX_SHARE, Introducer, OWN_SHARE, SLOT_FLOOR, SLOT_POOL, SLOTS, STREAM_CAPACITY, SUCCESSORS,
    Share, ShareFull, Slot, slot_count,
};
pub use spent::{MAIL_LIFE_MAX_MS, RIPE_MS, spent_ms};
pub use unrestorable::{Bad, Unrestorable};
pub use verdicts::VERDICTS;
pub use volatile::{DELEGATING_NAMESPACES, VOLATILE_STREAMS};
pub use window::{InvalidWindow, Verdict, WINDOW_SLOTS, Window, observe};
