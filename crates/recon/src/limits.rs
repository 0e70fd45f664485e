//! What a side may be asked to stay under: bytes and open ranges of a message, ids named to the application.

use crate::bounds::{
    MESSAGE_BYTES, MESSAGE_BYTES_MIN, OPEN_RANGES_MIN, OPEN_RANGES_PLAIN_PEER, PUSH_IDS, RANGES_MAX,
};

/// Limits of the messages one side makes. Below all of them its answers are the plain ones, byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    message_bytes: usize,
    open_ranges: usize,
    push_ids: usize,
    push_bytes: u64,
    peer_has_planner: bool,
    stable_splits: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: MESSAGE_BYTES,
            open_ranges: RANGES_MAX,
            push_ids: PUSH_IDS,
            push_bytes: u64::MAX,
            peer_has_planner: true,
            stable_splits: false,
        }
    }
}

impl Limits {
    /// Messages of at most this many bytes, [`MESSAGE_BYTES_MIN`] at least. Derive it from the transport's own limit.
    #[must_use]
    pub fn message_bytes(mut self, bytes: usize) -> Self {
        self.message_bytes = bytes.max(MESSAGE_BYTES_MIN);
        self
    }

    /// At most this many ranges that are not skipped, between [`OPEN_RANGES_MIN`] and [`RANGES_MAX`].
    #[must_use]
    pub fn open_ranges(mut self, ranges: usize) -> Self {
        self.open_ranges = ranges.clamp(OPEN_RANGES_MIN, RANGES_MAX);
        self
    }

    /// At most this many ids pushed for one message, or sent for one answer.
    #[must_use]
    pub fn push_ids(mut self, ids: usize) -> Self {
        self.push_ids = ids;
        self
    }

    /// At most this many bytes of envelopes pushed for one message, as sized by the caller; one envelope at least.
    #[must_use]
    pub fn push_bytes(mut self, bytes: u64) -> Self {
        self.push_bytes = bytes;
        self
    }

    /// For a peer that answers plainly whatever it costs: few open ranges, so that its range budget never binds
    /// and the exchange always ends. Slower: use it when the peer is not known to plan.
    #[must_use]
    pub fn for_plain_peer(self) -> Self {
        let mut limits = self.open_ranges(self.open_ranges.min(OPEN_RANGES_PLAIN_PEER));
        limits.peer_has_planner = false;
        limits
    }

    /// Splits at positions that do not move while a set grows at its end: every bucket is a power of two, cut at its
    /// multiples. Ranges asked for again, by this peer or another in step with it, are then answered from what is
    /// kept instead of hashed. Legal for any peer, but not the bytes of plain answers, so it is off unless asked for.
    #[must_use]
    pub fn stable_splits(mut self) -> Self {
        self.stable_splits = true;
        self
    }

    pub(crate) fn splits_are_stable(&self) -> bool {
        self.stable_splits
    }

    pub(crate) fn bytes(&self) -> usize {
        self.message_bytes
    }

    pub(crate) fn open(&self) -> usize {
        self.open_ranges
    }

    /// Ranges of a message. For a plain peer every open range may have a merged skip on both sides, and no more.
    pub(crate) fn ranges(&self) -> usize {
        if self.peer_has_planner {
            RANGES_MAX
        } else {
            2 * self.open_ranges + 1
        }
    }

    pub(crate) fn ids(&self) -> usize {
        self.push_ids
    }

    pub(crate) fn envelope_bytes(&self) -> u64 {
        self.push_bytes
    }

    /// Items a planned split aims to leave in a range, to be named next: as many as let the byte and the range limit
    /// bind together.
    pub(crate) fn planned_piece(&self) -> usize {
        if !self.peer_has_planner {
            return PLANNED_PIECE_MIN;
        }
        (self.message_bytes / (RANGES_MAX * 34)).clamp(PLANNED_PIECE_MIN, PLANNED_PIECE_MAX)
    }
}

const PLANNED_PIECE_MIN: usize = 8;
const PLANNED_PIECE_MAX: usize = 64;
