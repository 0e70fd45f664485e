//! Custody: mail that was admitted and that its application has not taken.
//!
//! Law (custody): a mail is dispatched only by being taken, and it is taken at most once. What
//! comes out of a relay inbox enters the window and custody in one batch; until it is taken it may
//! come again, by any carrier, across restarts and however far the window has moved, and is the
//! same mail; taking it is its own durable step, after which the window alone judges it. An entry
//! leaves only so, or once its transaction is spent; no carrier's silence removes it. Source: seed 1, "Receiver streams by connection slot".

use crate::ids::TransactionDigest;

/// How many mails are in custody at most, in the whole store.
pub const CUSTODY_CAPACITY: usize = 64;

/// One mail in custody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CustodyEntry {
    /// Its sequence.
    pub sequence: u64,
    /// Its digest.
    pub digest: TransactionDigest,
    /// When no carrier can deliver it any more.
    pub spent_ms: u64,
}
