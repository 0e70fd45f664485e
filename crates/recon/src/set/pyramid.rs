//! Chaining values of the BLAKE3 tree over the records from one start, so that a range from that start to any end
//! costs a logarithm instead of a pass.
//!
//! Law kept here: *same bytes*. The count of a range stands in the first chunk only, so every later chunk of the
//! tree is the same for all ends; the tree is put together as BLAKE3 (section 2.1 of its paper) does. A leaf of this
//! pyramid is a group of [`GROUP_CHUNKS`] chunks. A range with another start shares no chunk, by construction.

use alloc::vec::Vec;
use core::ops::Range;

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};

use super::leaves::Leaves;
use crate::fingerprint::{self, HEADER_BYTES};
use crate::item::{Fingerprint, RECORD_BYTES};

const CHUNK_BYTES: usize = blake3::CHUNK_LEN;

/// Chunks in a group, a power of two: as many as the widest vector unit hashes at once.
const GROUP_CHUNKS: usize = 16;
const GROUP_BYTES: usize = GROUP_CHUNKS * CHUNK_BYTES;
const _: () = assert!(GROUP_CHUNKS.is_power_of_two() && GROUP_CHUNKS > 1);
const _: () = assert!(HEADER_BYTES < CHUNK_BYTES);

#[derive(Clone, Default)]
pub(super) struct Pyramid {
    /// Subtrees beside chunk 0 inside the first group: chunk 1, chunks 2 and 3, chunks 4 to 7.
    head: Vec<ChainingValue>,
    /// `levels[h][k - 1]` covers groups `k << h` to `(k + 1) << h`; `k = 0` would hold the count and is not kept.
    levels: Vec<Vec<ChainingValue>>,
}

impl Pyramid {
    /// Forgets what was made of records at or after `count` from the start.
    pub(super) fn cut(&mut self, count: usize) {
        let whole = (HEADER_BYTES + count * RECORD_BYTES) / GROUP_BYTES;
        if whole == 0 {
            self.head.clear();
        }
        for (height, level) in self.levels.iter_mut().enumerate() {
            level.truncate((whole >> height).saturating_sub(1));
        }
    }

    /// The fingerprint of the `count` records from position `start`, and how many bytes had to be hashed.
    pub(super) fn fingerprint(
        &mut self,
        leaves: &Leaves,
        start: usize,
        count: usize,
    ) -> (Fingerprint, u64) {
        let stream = Stream {
            leaves,
            start,
            count,
        };
        let groups = stream.bytes().div_ceil(GROUP_BYTES);
        if groups < 2 {
            let mut hasher = fingerprint::begin(count);
            stream.feed(&mut hasher, HEADER_BYTES, stream.bytes());
            return (
                Fingerprint(*hasher.finalize().as_bytes()),
                stream.bytes() as u64,
            );
        }
        let mut hashed = self.extend(&stream);
        hashed += CHUNK_BYTES + stream.bytes() % GROUP_BYTES;
        let left = largest_power_below(groups);
        let root = merge_subtrees_root(
            &self.subtree(&stream, 0, left),
            &self.subtree(&stream, left, groups),
            Mode::Hash,
        );
        (Fingerprint(*root.as_bytes()), hashed as u64)
    }

    pub(super) fn bytes(&self) -> usize {
        let values: usize = self.levels.iter().map(Vec::capacity).sum();
        (values + self.head.capacity()) * size_of::<ChainingValue>()
            + self.levels.capacity() * size_of::<Vec<ChainingValue>>()
    }

    /// Hashes the whole groups that are not kept yet.
    fn extend(&mut self, stream: &Stream<'_>) -> usize {
        let whole = stream.bytes() / GROUP_BYTES;
        let mut hashed = 0;
        if self.head.is_empty() && whole > 0 {
            let mut from = 1;
            while from < GROUP_CHUNKS {
                self.head
                    .push(stream.subtree(from * CHUNK_BYTES, 2 * from * CHUNK_BYTES));
                from *= 2;
            }
            hashed += GROUP_BYTES - CHUNK_BYTES;
        }
        let kept = self.levels.first().map_or(0, Vec::len);
        if let Some(more) = whole.checked_sub(kept + 1)
            && let Some(level) = self.levels.first_mut()
        {
            level.reserve_exact(more);
        }
        for group in kept + 1..whole {
            self.push(
                group,
                stream.subtree(group * GROUP_BYTES, (group + 1) * GROUP_BYTES),
            );
            hashed += GROUP_BYTES;
        }
        hashed
    }

    /// Adds the next group, and every subtree it completes.
    fn push(&mut self, group: usize, value: ChainingValue) {
        let (mut node, mut value, mut height) = (group, value, 0);
        loop {
            if self.levels.len() == height {
                self.levels.push(Vec::new());
            }
            let Some(level) = self.levels.get_mut(height) else {
                return;
            };
            level.push(value);
            if node % 2 == 0 || node == 1 {
                return;
            }
            let Some([.., left, right]) = level.get(..) else {
                return;
            };
            value = merge_subtrees_non_root(left, right, Mode::Hash);
            node /= 2;
            height += 1;
        }
    }

    /// The chaining value over groups `from..to`, where `from` is a multiple of the power of two at or above `to - from`.
    fn subtree(&self, stream: &Stream<'_>, from: usize, to: usize) -> ChainingValue {
        let groups = to - from;
        if from == 0 && groups == 1 {
            return self.first_group(stream);
        }
        if groups == 1 {
            return self
                .kept(0, from)
                .filter(|_| (to * GROUP_BYTES) <= stream.bytes())
                .unwrap_or_else(|| {
                    stream.subtree(from * GROUP_BYTES, stream.bytes().min(to * GROUP_BYTES))
                });
        }
        let whole = groups.is_power_of_two() && to * GROUP_BYTES <= stream.bytes();
        if whole
            && from > 0
            && let Some(kept) = self.kept(groups.trailing_zeros() as usize, from / groups)
        {
            return kept;
        }
        let middle = from + largest_power_below(groups);
        merge_subtrees_non_root(
            &self.subtree(stream, from, middle),
            &self.subtree(stream, middle, to),
            Mode::Hash,
        )
    }

    fn kept(&self, height: usize, node: usize) -> Option<ChainingValue> {
        self.levels.get(height)?.get(node.checked_sub(1)?).copied()
    }

    fn first_group(&self, stream: &Stream<'_>) -> ChainingValue {
        let mut hasher = fingerprint::begin(stream.count);
        stream.feed(&mut hasher, HEADER_BYTES, CHUNK_BYTES);
        self.head
            .iter()
            .fold(hasher.finalize_non_root(), |left, right| {
                merge_subtrees_non_root(&left, right, Mode::Hash)
            })
    }
}

/// The preimage of a range as bytes: header, then records.
struct Stream<'a> {
    leaves: &'a Leaves,
    start: usize,
    count: usize,
}

impl Stream<'_> {
    fn bytes(&self) -> usize {
        HEADER_BYTES + self.count * RECORD_BYTES
    }

    /// Chaining value over the bytes `from..to`, `from` on a chunk's edge after the first chunk.
    fn subtree(&self, from: usize, to: usize) -> ChainingValue {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(from as u64);
        self.feed(&mut hasher, from, to);
        hasher.finalize_non_root()
    }

    /// Gives the hasher the bytes `from..to`, both after the header: in one update where one leaf holds them, else
    /// put together first, as a hasher fed in pieces cannot use its widest path.
    fn feed(&self, hasher: &mut blake3::Hasher, from: usize, to: usize) {
        let (from, to) = (from - HEADER_BYTES, to - HEADER_BYTES);
        let records = from / RECORD_BYTES..to.div_ceil(RECORD_BYTES);
        let positions = self.start + records.start..self.start + records.end;
        let within = from - records.start * RECORD_BYTES..to - records.start * RECORD_BYTES;
        let mut runs = self.leaves.runs(positions.clone());
        let first = runs.next().unwrap_or_default().as_flattened();
        match first.get(within.clone()) {
            Some(bytes) => {
                hasher.update(bytes);
            }
            None => self.feed_staged(hasher, positions, &within),
        }
    }

    #[cold]
    fn feed_staged(
        &self,
        hasher: &mut blake3::Hasher,
        positions: Range<usize>,
        within: &Range<usize>,
    ) {
        let mut staged = Vec::with_capacity(positions.len() * RECORD_BYTES);
        for run in self.leaves.runs(positions) {
            staged.extend_from_slice(run.as_flattened());
        }
        hasher.update(staged.get(within.clone()).unwrap_or_default());
    }
}

/// The largest power of two below `count`, for a count of at least two: where BLAKE3 parts a tree.
fn largest_power_below(count: usize) -> usize {
    count.next_power_of_two() / 2
}
