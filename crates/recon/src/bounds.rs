//! Every number the protocol fixes, and every bound this crate adds.
//!
//! Law kept here: *bounded*. What a peer can make this side hold or send is one of these numbers, and where one
//! follows from another the compiler checks it.

/// Version of the payload. Source: seed 4 (RECON), "Shape".
pub const VERSION: u64 = 1;

/// Items in a differing range up to which its ids are named instead of splitting it. Source: seed 4, "Roles".
pub const IDLIST_LIMIT: usize = 16;

/// Most sub-ranges a differing range is split into. Source: seed 4, "Roles".
pub const SPLIT_FACTOR: usize = 8;

/// Most ranges in one message. Source: seed 4, "Rules a receiver enforces".
pub const RANGES_MAX: usize = 1024;

/// Most ids in one range. Source: seed 4, "Rules a receiver enforces".
pub const IDS_PER_RANGE_MAX: usize = 4096;

/// The upper bound of every message's last range. No item may have this seq.
pub const TOP: u64 = u64::MAX;

/// Largest message this side sends unless told otherwise, in bytes: a frame of 1 MiB + 4 KiB has room for it.
pub const MESSAGE_BYTES: usize = 1024 * 1024;

/// Smallest message limit that can be asked for, in bytes: below it the first open range might not fit.
pub const MESSAGE_BYTES_MIN: usize = 2048;

/// Smallest limit on open (not skipped) ranges that can be asked for.
pub const OPEN_RANGES_MIN: usize = 16;

/// Open ranges per message under which a peer without a planner never runs out of its own range budget.
pub const OPEN_RANGES_PLAIN_PEER: usize = 112;

/// Ids pushed for one message, and ids sent for one answer, unless told otherwise.
pub const PUSH_IDS: usize = 65_536;

/// Rounds after which an initiator gives up unless told otherwise.
pub const ROUNDS_MAX: u32 = 1024;

/// Payload bytes, both directions, after which an initiator gives up unless told otherwise.
pub const EXCHANGE_BYTES_MAX: u64 = 1 << 30;

/// Pushes, whatever comes of them, after which an initiator gives up unless told otherwise.
pub const PUSHES_MAX: u64 = 4 * 1024 * 1024;

/// Time without an answer, a push of something new or an acknowledgement after which an initiator gives up, in
/// milliseconds.
pub const IDLE_MS: u64 = 60_000;

/// Times one message may be repeated over an unchanged set before the exchange is called stalled.
pub const REPEATS_MAX: u32 = 3;

/// Ids an initiator remembers as named by the peer and not yet received, and as pushed and refused; beyond it they are
/// only counted.
pub const MISSING_TRACKED_MAX: usize = 65_536;

/// Bytes of a peer's code, or of a reason for refusing a push, that an initiator keeps; what is longer is cut.
pub const REASON_BYTES_MAX: usize = 256;

/// Bytes of a fingerprint range in a message, at most: `83`, a bound of nine bytes, mode, `58 20`, 32 bytes.
pub(crate) const FINGERPRINT_RANGE_BYTES: usize = 1 + 9 + 1 + 34;

/// Bytes of an id list range of `ids` ids, at most.
pub(crate) const fn list_range_bytes(ids: usize) -> usize {
    1 + 9 + 1 + 3 + 34 * ids
}

/// Bytes of a message around its ranges, at most: `82 01` and an array head.
pub(crate) const MESSAGE_HEAD_BYTES: usize = 2 + 3;

/// One share in this many of a planned message is kept for the ranges behind the answered ones.
pub(crate) const TAIL_SHARE: usize = 8;

// A planned message always has room for the answer of its first open range, the skip before it and a folded tail.
const _: () = assert!(
    MESSAGE_HEAD_BYTES + 12 + list_range_bytes(IDLIST_LIMIT) + MESSAGE_BYTES_MIN / TAIL_SHARE
        <= MESSAGE_BYTES_MIN
);
const _: () = assert!(
    MESSAGE_HEAD_BYTES
        + 12
        + SPLIT_FACTOR * FINGERPRINT_RANGE_BYTES
        + MESSAGE_BYTES_MIN / TAIL_SHARE
        <= MESSAGE_BYTES_MIN
);
const _: () = assert!(MESSAGE_BYTES_MIN / TAIL_SHARE >= FINGERPRINT_RANGE_BYTES);
const _: () = assert!(OPEN_RANGES_MIN >= SPLIT_FACTOR + OPEN_RANGES_MIN / TAIL_SHARE);
const _: () = assert!(OPEN_RANGES_MIN / TAIL_SHARE >= 1);
// A peer that splits every open range of ours, and answers every skip, stays within the range limit.
const _: () = assert!(OPEN_RANGES_PLAIN_PEER * SPLIT_FACTOR + OPEN_RANGES_PLAIN_PEER < RANGES_MAX);
const _: () = assert!(IDLIST_LIMIT <= IDS_PER_RANGE_MAX);
