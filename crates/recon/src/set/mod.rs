//! The set in memory: flat 40-byte records in leaf blocks, with the fingerprints worth keeping.
//!
//! Laws kept here: *exact* (a kept fingerprint is what hashing anew would give) and *bounded* (memo and pyramids
//! together stay within a few bytes per record).

mod leaves;
mod memo;
mod pyramid;

use alloc::collections::BTreeMap;
use core::convert::Infallible;
use core::ops::Range;

use self::leaves::Leaves;
use self::memo::{MEMO_RANGE_RECORDS, Memo};
use self::pyramid::Pyramid;
use crate::fingerprint;
use crate::item::{Fingerprint, Item, RECORD_BYTES, Record, ReservedSeq, record_seq};
use crate::storage::{Storage, infallible};

/// Ranges of at least this many records get a pyramid: below, hashing anew is as cheap.
const PYRAMID_RANGE_RECORDS: usize = 2048;

/// Most starts that have a pyramid. The longest unused quarter makes room.
const PYRAMIDS_MAX: usize = 1024;

/// Bytes of all pyramids, per record of the set.
const PYRAMID_BYTES_PER_RECORD: usize = 4;

/// A set of items in memory.
#[derive(Clone, Default)]
pub struct ItemSet {
    leaves: Leaves,
    memo: Memo,
    pyramids: BTreeMap<Record, Kept>,
    pyramid_bytes: usize,
    uses: u64,
    work_bytes: u64,
}

#[derive(Clone, Default)]
struct Kept {
    pyramid: Pyramid,
    /// The set's clock when the pyramid was last known true, and for how many records.
    made: u64,
    count: usize,
    used: u64,
}

impl ItemSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Items held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the item is held, at that seq.
    #[must_use]
    pub fn contains(&self, item: &Item) -> bool {
        item.record()
            .is_ok_and(|record| self.leaves.contains(&record))
    }

    /// Adds an item: cheap above all others, local to a leaf block elsewhere. Says whether it is new.
    pub fn insert(&mut self, item: Item) -> Result<bool, ReservedSeq> {
        Ok(self.leaves.insert(item.record()?))
    }

    /// Takes an item out. Says whether it was held.
    pub fn remove(&mut self, item: &Item) -> bool {
        item.record()
            .is_ok_and(|record| self.leaves.remove(&record))
    }

    /// Moves an item to the seq its relay gave it. The old one need not be held.
    pub fn renumber(&mut self, old: &Item, seq: u64) -> Result<bool, ReservedSeq> {
        let record = Item { seq, id: old.id }.record()?;
        if old.seq != seq {
            self.remove(old);
        }
        Ok(self.leaves.insert(record))
    }

    /// Takes out every item below `seq`. Returns how many.
    pub fn remove_before(&mut self, seq: u64) -> usize {
        self.leaves.remove_before(seq)
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = Item> {
        self.leaves
            .runs(0..self.len())
            .flatten()
            .map(Item::from_record)
    }

    /// The item above all others.
    #[must_use]
    pub fn last(&self) -> Option<Item> {
        self.leaves.last().map(Item::from_record)
    }

    /// The fingerprint of the whole set.
    pub fn whole_fingerprint(&mut self) -> Fingerprint {
        infallible(self.fingerprint(0..self.len()))
    }

    /// Bytes held: records with spare room, memo and pyramids.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.leaves.bytes()
            + self.memo.bytes()
            + self.pyramid_bytes
            + self.pyramids.len() * (size_of::<Kept>() + size_of::<Record>())
    }

    fn pyramid_fingerprint(&mut self, first: &Record, range: &Range<usize>) -> Fingerprint {
        self.make_room();
        self.uses += 1;
        let kept = self.pyramids.entry(*first).or_default();
        let before = kept.pyramid.bytes();
        let known = range.start..(range.start + kept.count).min(self.leaves.len());
        let true_until = self
            .leaves
            .changed_after(known.clone(), kept.made)
            .unwrap_or(known.end);
        kept.pyramid.cut(true_until - range.start);
        let (fingerprint, hashed) =
            kept.pyramid
                .fingerprint(&self.leaves, range.start, range.len());
        kept.count = range.len().max(true_until - range.start);
        kept.made = self.leaves.clock();
        kept.used = self.uses;
        self.pyramid_bytes = self.pyramid_bytes + kept.pyramid.bytes() - before;
        self.work_bytes += hashed;
        fingerprint
    }

    /// Drops the longest unused pyramids when there are too many, or they are too large for the set.
    fn make_room(&mut self) {
        let room = PYRAMID_BYTES_PER_RECORD * self.len();
        if self.pyramids.len() < PYRAMIDS_MAX && self.pyramid_bytes <= room {
            return;
        }
        let mut used: alloc::vec::Vec<u64> = self.pyramids.values().map(|kept| kept.used).collect();
        used.sort_unstable();
        let oldest_kept = used.get(used.len() / 4).copied().unwrap_or(0);
        self.pyramids.retain(|_, kept| kept.used > oldest_kept);
        self.pyramid_bytes = self
            .pyramids
            .values()
            .map(|kept| kept.pyramid.bytes())
            .sum();
    }
}

impl Storage for ItemSet {
    type Error = Infallible;

    fn position(&mut self, bound: u64) -> Result<usize, Infallible> {
        Ok(self.leaves.position(bound))
    }

    fn seq_at(&mut self, position: usize) -> Result<Option<u64>, Infallible> {
        Ok(self.leaves.at(position).map(record_seq))
    }

    fn visit(
        &mut self,
        range: Range<usize>,
        each: &mut dyn FnMut(&[Record]),
    ) -> Result<(), Infallible> {
        self.work_bytes += (range.len() * RECORD_BYTES) as u64;
        self.leaves.runs(range).for_each(each);
        Ok(())
    }

    fn fingerprint(&mut self, range: Range<usize>) -> Result<Fingerprint, Infallible> {
        let range = range.start..range.end.min(self.len());
        let count = range.len();
        let first = match self.leaves.at(range.start) {
            Some(first) if count >= MEMO_RANGE_RECORDS => *first,
            _ => {
                return fingerprint::of_range(self, range);
            }
        };
        let kept = self.memo.find(&first, count, |made| {
            self.leaves.changed_after(range.clone(), made).is_none()
        });
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let made = self.leaves.clock();
        let fresh = if count >= PYRAMID_RANGE_RECORDS {
            self.pyramid_fingerprint(&first, &range)
        } else {
            fingerprint::of_range(self, range)?
        };
        self.memo
            .keep(&first, count, made, fresh, self.leaves.len());
        Ok(fresh)
    }

    fn work_bytes(&self) -> u64 {
        self.work_bytes
    }
}

impl FromIterator<Item> for ItemSet {
    /// Items at the reserved seq are left out; insert them one by one to be told.
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        let mut set = Self::new();
        for item in items {
            if let Ok(record) = item.record() {
                set.leaves.insert(record);
            }
        }
        set
    }
}

impl core::fmt::Debug for ItemSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ItemSet")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
