//! How much mail is held, for whom, and for how long what is remembered of it.

use crate::log::{Full, Retention};
use overlane_core::mail::{HELD_MAIL_MAX_BYTES, MAIL_LIFE_MAX_MS};
use overlane_core::replay::CUSTODY_CAPACITY;

/// Mails in one inbox, unless its holder is told otherwise. Source: protocol decision 8.
pub const INBOX_MAILS: u64 = 64;

/// The most mails that a holder may be told to keep in one inbox.
pub const INBOX_MAILS_MAX: u64 = 1_024;

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

/// Mails that the owner has fetched and not taken; what more a holder gives is refused.
pub const IN_HAND_MAX: usize = 2_048;

/// Of them, so many at most when a node gives some that the ring does not name a holder: what it makes up
/// leaves room for what the others hold.
pub const IN_HAND_OTHERS_MAX: usize = 512;

/// Mails that can be admitted no more and are remembered, so that they are not fetched again; the one that
/// was noted first is forgotten.
pub const LOST_KEPT: usize = 256;

/// How long the owner waits for a holder that says nothing more, in milliseconds.
pub const DRAIN_IDLE_MS: u64 = 15_000;

/// Questions that the owner of an inbox puts to one holder, one after the other, before it asks it no further for this
/// time; a full inbox takes a few.
pub const DRAIN_ROUNDS_MAX: u32 = 64;

/// Mails that a holder may give meanwhile, what is no mail and what comes again among them.
pub const DRAIN_PUSHES_MAX: u64 = 2 * IN_HAND_MAX as u64;

/// Digests that the owner of an inbox remembers as removed and not yet heard by all its holders.
pub const REMOVING_MAX: usize = 1_024;

/// Digests of taken mail that its owner remembers, so that a holder that comes back with it lets go of it
/// too; the one that was taken first is forgotten.
pub const TAKEN_KEPT: usize = 4_096;

/// The most bytes of an inbox's own frame.
pub const FRAME_MAX_BYTES: usize = 16 * 1024;

/// The most outcomes in one frame.
pub const OUTCOMES_PER_FRAME: usize = 64;

/// What an inbox of so many mails keeps.
pub(super) const fn retention(mails: u64) -> Retention {
    Retention {
        entries: mails,
        bytes: mails * HELD_MAIL_MAX_BYTES as u64,
        age_ms: MAIL_LIFE_MAX_MS,
        full: Full::Fair,
    }
}

const _: () = assert!(INBOX_MAILS as usize == CUSTODY_CAPACITY);
const _: () = assert!(INBOX_MAILS <= INBOX_MAILS_MAX && (INBOX_MAILS_MAX as usize) < IN_HAND_MAX);
const _: () =
    assert!(INBOX_MAILS as usize <= IN_HAND_OTHERS_MAX && IN_HAND_OTHERS_MAX < IN_HAND_MAX);
const _: () = assert!(DRAIN_PUSHES_MAX > INBOX_MAILS_MAX);
const _: () = assert!(SLOT_BYTES >= INBOX_BYTES && SLOT_BYTES <= ALL_BYTES);
