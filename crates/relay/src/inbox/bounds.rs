//! How much mail is held, for whom, and for how long what is remembered of it.

use crate::log::{Full, Retention};
use overlane_core::mail::{HELD_MAIL_MAX_BYTES, MAIL_LIFE_MAX_MS};
use overlane_core::replay::CUSTODY_CAPACITY;

/// Mails in one inbox. Source: protocol decision 8.
pub const INBOX_MAILS: u64 = 64;

/// Bytes of one inbox.
pub const INBOX_BYTES: u64 = INBOX_MAILS * HELD_MAIL_MAX_BYTES as u64;

/// Inboxes that one node holds.
pub const INBOXES_MAX: usize = 4_096;

/// Bytes of mail that one node holds in all.
pub const ALL_BYTES: u64 = 256 * 1024 * 1024;

/// Bytes of mail that one connection slot may have brought.
pub const SLOT_BYTES: u64 = 8 * 1024 * 1024;

/// Members of the chain that holds an inbox: the owner of the place and its next two successors.
pub const CHAIN: usize = 3;

/// Removals remembered for one inbox; the one that ends first makes room.
pub const REMOVALS_KEPT: usize = 64;

/// Outcomes kept for one sender until it has heard them; more are counted and not kept.
pub const OUTCOMES_PER_ORIGIN: usize = 256;

/// Outcomes kept in all.
pub const OUTCOMES_MAX: usize = 16_384;

/// How long an outcome is kept for a sender that does not come, in milliseconds.
pub const OUTCOME_LIFE_MS: u64 = MAIL_LIFE_MAX_MS;

/// Digests that the owner of an inbox remembers as removed and not yet heard by all its holders.
pub const REMOVING_MAX: usize = 1_024;

/// The most bytes of an inbox's own frame.
pub const FRAME_MAX_BYTES: usize = 16 * 1024;

/// The most outcomes in one frame.
pub const OUTCOMES_PER_FRAME: usize = 64;

/// What an inbox keeps.
pub const RETENTION: Retention = Retention {
    entries: INBOX_MAILS,
    bytes: INBOX_BYTES,
    age_ms: MAIL_LIFE_MAX_MS,
    full: Full::Fair,
};

const _: () = assert!(INBOX_MAILS as usize == CUSTODY_CAPACITY);
const _: () = assert!(SLOT_BYTES >= INBOX_BYTES && SLOT_BYTES <= ALL_BYTES);
