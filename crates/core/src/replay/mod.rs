//! Replay protection: every signed transaction is admitted at most once, across restarts and
//! crashes.
//!
//! A **stream** is what one account sends another in one class. Its destination keeps a
//! [`Window`] of what it admitted, its origin a [`Lease`] on the sequences it may sign. Both are
//! records of one store, and nothing that depends on a record is released before the batch that
//! holds it is durable. Sources: seed 1 (transaction replay); protocol decisions 2 to 5.

mod custody;
mod lease;
pub mod record;
mod slots;
mod spent;
mod window;

pub use custody::{CUSTODY_CAPACITY, CustodyEntry};
pub use lease::{LEASE_SEQUENCES, Lease, RESERVATION_MAX, START_SHIFT, SequencesExhausted};
pub use slots::{
    INBOX_SHARE, Introducer, OWN_SHARE, SLOT_FLOOR, SLOT_POOL, SLOTS, STREAM_CAPACITY, SUCCESSORS,
    Share, ShareFull, Slot, slot_count,
};
pub use spent::{MAIL_LIFE_MAX_MS, Now, PROOF_LIFE_MAX_MS, RIPE_MS, SKEW_MS, spent_ms};
pub use window::{InvalidWindow, Verdict, WINDOW_SLOTS, Window, observe};
