//! How much a log, a peer or a batch may cost, and what follows from what.

use overlane_core::wire::bounds::DATA_MAX_BYTES;

/// The largest frame: it rides in one application or storage transaction.
pub const FRAME_MAX_BYTES: usize = DATA_MAX_BYTES - 512;

/// The largest envelope: a PUSH of it fits a frame.
pub const ENVELOPE_MAX_BYTES: usize = FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES;

/// The largest RECON payload this side makes.
pub const RECON_MAX_BYTES: usize = FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES;

/// What a frame adds to what it carries, at most: heads, the log's name, a number or two.
pub const FRAME_OVERHEAD_BYTES: usize = 128;

/// The longest code in a refusal, in bytes.
pub const CODE_MAX_BYTES: usize = 64;

/// Envelopes pushed for one RECON message. What is left out keeps its range open, so the peer asks again.
pub const PUSH_IDS: usize = 1_024;

/// Envelopes staged for one transaction, after which a flush is due.
pub const STAGED_MAX: usize = 1_024;

/// Bytes staged for one transaction, after which a flush is due.
pub const STAGED_MAX_BYTES: usize = 8 * 1024 * 1024;

/// Peers with something in memory: what they are owed and what they may still cost.
pub const PEERS_MAX: usize = 1_024;

/// How long a peer that says nothing and is owed nothing is remembered, in milliseconds: what it may
/// cost is whole again by then.
pub const PEER_IDLE_MS: u64 = 60_000;

/// Frames owed to one peer that it has not been given yet, acknowledgements and refusals included.
pub const OWED_MAX: usize = 2 * PUSH_IDS;

/// RECON messages of one peer that wait for the next flush.
pub const ASKED_MAX: usize = 4;

/// Reconciliations this node drives at a time; each holds the index of its log in memory.
pub const EXCHANGES_MAX: usize = 4;

/// Items of a log that this node takes into memory to drive a reconciliation.
pub const EXCHANGE_ITEMS_MAX: u64 = 2 * 1_048_576;

/// The highest number that is taken from another: a host that lies gives none from which this node's own could not go on.
pub const NUMBER_MAX: u64 = 1 << 62;

/// Authors of one log that have no share of their own there; together they have one.
pub const SHARELESS_MAX: usize = 1_024;

/// Logs whose account is kept in memory between flushes.
pub const BOOKS_CACHED: usize = 1_024;

/// Envelopes that one call lets go of by age or by bound.
pub const EVICTED_PER_CALL: usize = 256;

/// Entries that are read at once to find an author's oldest.
pub const OLDEST_PAGE: usize = 1_024;

/// How often that is done in a call; the next goes on from there.
pub const OLDEST_PAGES_PER_CALL: usize = 64;

/// Bytes hashed for one peer in a minute, and at once.
pub const WORK_BYTES_PER_MINUTE: u64 = 4 << 30;

/// Bytes of envelopes pushed to one peer in a minute, and at once.
pub const PUSH_BYTES_PER_MINUTE: u64 = 1 << 30;

/// Envelopes named in a plan, after which it says what it came to so far.
pub const PLAN_ITEMS_MAX: u64 = 16 * 1_024;

/// What naming one envelope costs of [`WORK_BYTES_PER_MINUTE`].
pub const NAMED_WORK_BYTES: u64 = 512;

/// What checking one sent envelope costs of [`WORK_BYTES_PER_MINUTE`]: three signatures, in bytes that
/// hash in the same time.
pub const CHECK_WORK_BYTES: u64 = 512 * 1024;

/// What any frame costs of it besides.
pub const FRAME_WORK_BYTES: u64 = 4 * 1024;

const _: () = assert!(ENVELOPE_MAX_BYTES >= overlane_core::group::POST_MAX_BYTES);
const _: () = assert!(ENVELOPE_MAX_BYTES >= overlane_core::mail::HELD_MAIL_MAX_BYTES);
const _: () = assert!(RECON_MAX_BYTES >= overlane_recon::bounds::MESSAGE_BYTES_MIN);
const _: () = assert!(PUSH_IDS < OWED_MAX);
const _: () =
    assert!(PUSH_IDS * super::frame::NAMED_BYTES + FRAME_OVERHEAD_BYTES <= FRAME_MAX_BYTES);
const _: () = assert!(STAGED_MAX_BYTES >= ENVELOPE_MAX_BYTES);
