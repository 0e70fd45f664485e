//! Records in leaf blocks: a middle insertion moves one block, a whole block hashes at full speed.

use alloc::vec::Vec;
use core::ops::Range;

use crate::item::{RECORD_BYTES, Record, record_seq};

/// Most records in a leaf: 80 KiB. A leaf that overflows in the middle is cut in two.
pub(super) const LEAF_RECORDS: usize = 2048;

#[derive(Clone)]
pub(super) struct Leaf {
    records: Vec<Record>,
    /// When the leaf last changed other than by an append at the very end of the set.
    stamp: u64,
}

/// All records, ascending, and the clock by which caches tell what changed.
#[derive(Clone, Default)]
pub(super) struct Leaves {
    leaves: Vec<Leaf>,
    /// Position of each leaf's first record.
    starts: Vec<usize>,
    len: usize,
    clock: u64,
}

impl Leaves {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The present time: everything stamped later changed after now.
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    pub(super) fn last(&self) -> Option<&Record> {
        self.leaves.last()?.records.last()
    }

    pub(super) fn at(&self, position: usize) -> Option<&Record> {
        let index = self.leaf_of_position(position)?;
        let start = self.starts.get(index)?;
        self.leaves
            .get(index)?
            .records
            .get(position.checked_sub(*start)?)
    }

    /// Records with a seq below `bound`.
    pub(super) fn position(&self, bound: u64) -> usize {
        let later = self.leaves.partition_point(|leaf| leaf.first_seq() < bound);
        let Some(index) = later.checked_sub(1) else {
            return 0;
        };
        let within = self.leaves.get(index).map_or(0, |leaf| {
            leaf.records
                .partition_point(|record| record_seq(record) < bound)
        });
        self.starts.get(index).copied().unwrap_or(0) + within
    }

    pub(super) fn contains(&self, record: &Record) -> bool {
        self.leaf_of_record(record)
            .and_then(|index| self.leaves.get(index))
            .is_some_and(|leaf| leaf.records.binary_search(record).is_ok())
    }

    /// The runs of records that make up a range.
    pub(super) fn runs(&self, range: Range<usize>) -> impl Iterator<Item = &[Record]> {
        let first = self
            .leaf_of_position(range.start)
            .unwrap_or(self.leaves.len());
        let leaves = self.leaves.iter().zip(&self.starts).skip(first);
        leaves
            .take_while({
                let end = range.end;
                move |(_, start)| **start < end
            })
            .filter_map(move |(leaf, start)| {
                let from = range.start.saturating_sub(*start);
                let to = range.end.saturating_sub(*start).min(leaf.records.len());
                leaf.records.get(from..to)
            })
    }

    /// The first position in the range whose leaf changed after `since`, other than by appends at the end.
    pub(super) fn changed_after(&self, range: Range<usize>, since: u64) -> Option<usize> {
        let first = self.leaf_of_position(range.start)?;
        self.leaves
            .iter()
            .zip(&self.starts)
            .skip(first)
            .take_while(|(_, start)| **start < range.end)
            .find(|(leaf, _)| leaf.stamp > since)
            .map(|(_, start)| (*start).max(range.start))
    }

    /// Adds a record above all others.
    pub(super) fn append(&mut self, record: Record) {
        self.len += 1;
        if let Some(leaf) = self.leaves.last_mut()
            && leaf.records.len() < LEAF_RECORDS
        {
            leaf.records.push(record);
            return;
        }
        self.clock += 1;
        self.starts.push(self.len - 1);
        let mut records = Vec::with_capacity(if self.leaves.is_empty() {
            0
        } else {
            LEAF_RECORDS
        });
        records.push(record);
        self.leaves.push(Leaf {
            records,
            stamp: self.clock,
        });
    }

    /// Adds a record at its place. False if it is there already.
    pub(super) fn insert(&mut self, record: Record) -> bool {
        if self.last().is_none_or(|last| *last < record) {
            self.append(record);
            return true;
        }
        let index = self.leaf_of_record(&record).unwrap_or(0);
        let Some(leaf) = self.leaves.get_mut(index) else {
            return false;
        };
        let Err(place) = leaf.records.binary_search(&record) else {
            return false;
        };
        self.clock += 1;
        leaf.stamp = self.clock;
        leaf.records.insert(place, record);
        self.len += 1;
        let upper_half = (leaf.records.len() > LEAF_RECORDS).then(|| leaf.cut(self.clock));
        self.shift_after(index, 1);
        if let Some(upper_half) = upper_half {
            let start = self.starts.get(index).copied().unwrap_or(0)
                + self.leaves.get(index).map_or(0, |leaf| leaf.records.len());
            self.leaves.insert(index + 1, upper_half);
            self.starts.insert(index + 1, start);
        }
        true
    }

    /// Takes a record out. False if it is not there.
    pub(super) fn remove(&mut self, record: &Record) -> bool {
        let Some(index) = self.leaf_of_record(record) else {
            return false;
        };
        let Some(leaf) = self.leaves.get_mut(index) else {
            return false;
        };
        let Ok(place) = leaf.records.binary_search(record) else {
            return false;
        };
        self.clock += 1;
        leaf.records.remove(place);
        leaf.stamp = self.clock;
        self.len -= 1;
        let emptied = leaf.records.is_empty();
        self.shift_after(index, -1);
        if emptied {
            self.leaves.remove(index);
            self.starts.remove(index);
            self.stamp(index.saturating_sub(1));
            self.stamp(index);
        }
        true
    }

    /// Takes out every record with a seq below `bound`. Returns how many.
    pub(super) fn remove_before(&mut self, bound: u64) -> usize {
        let removed = self.position(bound);
        if removed == 0 {
            return 0;
        }
        let whole = self.starts.partition_point(|start| *start <= removed) - 1;
        let kept = self.starts.get(whole).map_or(0, |start| removed - start);
        self.leaves.drain(..whole);
        self.starts.drain(..whole);
        if let Some(leaf) = self.leaves.first_mut() {
            leaf.records.drain(..kept);
            if leaf.records.is_empty() {
                self.leaves.remove(0);
                self.starts.remove(0);
            }
        }
        self.starts
            .iter_mut()
            .for_each(|start| *start = start.saturating_sub(removed));
        self.len -= removed;
        self.clock += 1;
        self.stamp(0);
        removed
    }

    /// Bytes held, spare room included.
    pub(super) fn bytes(&self) -> usize {
        let records: usize = self.leaves.iter().map(|leaf| leaf.records.capacity()).sum();
        records * RECORD_BYTES
            + self.leaves.capacity() * size_of::<Leaf>()
            + self.starts.capacity() * size_of::<usize>()
    }

    fn stamp(&mut self, index: usize) {
        if let Some(leaf) = self.leaves.get_mut(index) {
            leaf.stamp = self.clock;
        }
    }

    fn shift_after(&mut self, index: usize, by: isize) {
        self.starts
            .iter_mut()
            .skip(index + 1)
            .for_each(|start| *start = start.saturating_add_signed(by));
    }

    fn leaf_of_position(&self, position: usize) -> Option<usize> {
        if position >= self.len {
            return None;
        }
        self.starts
            .partition_point(|start| *start <= position)
            .checked_sub(1)
    }

    /// The leaf a record belongs to: the last one that does not start above it.
    fn leaf_of_record(&self, record: &Record) -> Option<usize> {
        self.leaves
            .partition_point(|leaf| leaf.records.first().is_some_and(|first| first <= record))
            .checked_sub(1)
    }
}

impl Leaf {
    fn first_seq(&self) -> u64 {
        self.records.first().map_or(0, record_seq)
    }

    /// Keeps the lower half and gives the upper one away.
    fn cut(&mut self, stamp: u64) -> Leaf {
        let half = self.records.len() / 2;
        let mut records = Vec::with_capacity(LEAF_RECORDS);
        records.extend(self.records.drain(half..));
        self.records.shrink_to(LEAF_RECORDS);
        Leaf { records, stamp }
    }
}
