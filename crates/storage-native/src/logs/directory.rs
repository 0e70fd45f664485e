//! The leaves of a log in one order, a line each, and the fingerprints of ranges that were asked before.

use std::collections::BTreeMap;
use std::ops::Range;

use overlane_recon::{Fingerprint, Record};

/// Fingerprints kept of a log in one order; beyond it all of them are forgotten.
pub(super) const KEPT_MAX: usize = 8_192;

/// Ranges of fewer records are hashed anew.
const KEPT_RECORDS_MIN: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Directory {
    /// A lower bound of each leaf's records, ascending; the first is zero.
    lowers: Vec<Record>,
    /// Records up to the end of each leaf.
    ends: Vec<usize>,
    /// By the first record of a range and how many it has: law (no stale answer), one goes when a record between its
    /// first and its last comes or goes.
    kept: BTreeMap<(Record, usize), Kept>,
    /// Which use of all directories was its last.
    pub(super) used: u64,
}

#[derive(Debug)]
struct Kept {
    last: Record,
    fingerprint: Fingerprint,
}

impl FromIterator<(Record, usize)> for Directory {
    fn from_iter<I: IntoIterator<Item = (Record, usize)>>(leaves: I) -> Self {
        let mut this = Self::default();
        for (lower, records) in leaves {
            this.push(lower, records);
        }
        this
    }
}

impl Directory {
    pub(super) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn push(&mut self, lower: Record, records: usize) {
        let end = self.len() + records;
        self.lowers.push(lower);
        self.ends.push(end);
    }

    /// The leaf that holds a record if any does, and the records before it.
    pub(super) fn leaf_of(&self, record: &Record) -> Option<(Record, usize)> {
        let leaf = self.lowers.partition_point(|lower| lower <= record);
        self.leaf(leaf.checked_sub(1)?)
    }

    /// The leaf that holds the record at a position, and the records before it.
    pub(super) fn leaf_at(&self, position: usize) -> Option<(Record, usize)> {
        self.leaf(self.ends.partition_point(|end| *end <= position))
    }

    fn leaf(&self, leaf: usize) -> Option<(Record, usize)> {
        let before = leaf
            .checked_sub(1)
            .map_or(Some(0), |it| self.ends.get(it).copied());
        Some((*self.lowers.get(leaf)?, before?))
    }

    /// Takes over how many records leaves have now, none for one that is gone; and which records came or went,
    /// ascending.
    pub(super) fn take_over(
        &mut self,
        changed: &BTreeMap<Record, Option<usize>>,
        records: &[Record],
    ) {
        let first = changed.keys().next();
        let first = first.unwrap_or(&super::order::TOP_RECORD);
        let unchanged = self.lowers.partition_point(|lower| lower < first);
        let lowers = self.lowers.split_off(unchanged);
        let ends = self.ends.split_off(unchanged);
        let mut before = self.len();
        let mut leaves = BTreeMap::new();
        for (lower, end) in lowers.into_iter().zip(ends) {
            leaves.insert(lower, Some(end - before));
            before = end;
        }
        leaves.extend(changed);
        for (lower, records) in leaves {
            if let Some(records) = records {
                self.push(lower, records);
            }
        }
        self.kept.retain(|(first, _), kept| {
            let at = records.partition_point(|record| record < first);
            records.get(at).is_none_or(|record| *record > kept.last)
        });
    }

    pub(super) fn kept(&self, first: &Record, range: &Range<usize>) -> Option<Fingerprint> {
        let kept = self.kept.get(&(*first, range.len()));
        kept.map(|it| it.fingerprint)
    }

    /// Whether the fingerprint of such a range is kept.
    pub(super) fn keeps(range: &Range<usize>) -> bool {
        range.len() >= KEPT_RECORDS_MIN
    }

    /// Keeps the fingerprint of a range, given its first record and its last.
    pub(super) fn keep(
        &mut self,
        first: Record,
        last: Record,
        range: &Range<usize>,
        fingerprint: Fingerprint,
    ) {
        if self.kept.len() >= KEPT_MAX {
            self.kept.clear();
        }
        let kept = Kept { last, fingerprint };
        self.kept.insert((first, range.len()), kept);
    }

    /// Fingerprints kept.
    pub(super) fn fingerprints(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn forget_fingerprints(&mut self) {
        self.kept = BTreeMap::new();
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::floor;
    use super::*;

    #[test]
    fn law_the_directory_knows_the_leaf_of_every_number_and_position() {
        let leaves = [(floor(0), 3), (floor(10), 2), (floor(20), 4)];
        let mut directory: Directory = leaves.into_iter().collect();
        let of = |it: &Directory, seq| it.leaf_of(&floor(seq));
        assert_eq!(of(&directory, 0), Some((floor(0), 0)));
        assert_eq!(of(&directory, 9), Some((floor(0), 0)));
        assert_eq!(of(&directory, 10), Some((floor(10), 3)));
        assert_eq!(of(&directory, 25), Some((floor(20), 5)));
        assert_eq!(directory.leaf_at(4), Some((floor(10), 3)));
        assert_eq!(directory.leaf_at(5), Some((floor(20), 5)));
        assert_eq!(directory.len(), 9);
        assert_eq!(directory.leaf_at(9), None);
        // The middle leaf goes, the last is split.
        let changed = [
            (floor(10), None),
            (floor(20), Some(3)),
            (floor(30), Some(2)),
        ];
        directory.take_over(&changed.into_iter().collect(), &[]);
        assert_eq!(of(&directory, 19), Some((floor(0), 0)));
        assert_eq!(directory.leaf_at(6), Some((floor(30), 6)));
        assert_eq!(directory.len(), 8);
        let fresh = [(floor(0), 3), (floor(20), 3), (floor(30), 2)];
        let fresh: Directory = fresh.into_iter().collect();
        assert_eq!(
            (fresh.lowers, fresh.ends),
            (directory.lowers, directory.ends)
        );
    }

    #[test]
    fn law_logs_a_kept_fingerprint_goes_with_a_change_between_its_ends_and_with_no_other() {
        let range = 0..100;
        let fingerprint = Fingerprint([7; 32]);
        for (changed, stays) in [(9, true), (10, false), (15, false), (20, false), (21, true)] {
            let mut directory = Directory::default();
            directory.keep(floor(10), floor(20), &range, fingerprint);
            directory.take_over(&BTreeMap::new(), &[floor(5), floor(changed), floor(30)]);
            let kept = directory.kept(&floor(10), &range);
            assert_eq!(kept.is_some(), stays, "{changed}");
        }
    }

    #[test]
    fn law_logs_the_fingerprints_kept_of_a_log_are_bounded() {
        let mut directory = Directory::default();
        for first in 0..=KEPT_MAX as u64 {
            assert!(directory.fingerprints() <= KEPT_MAX);
            directory.keep(floor(first), floor(first), &(0..100), Fingerprint([7; 32]));
        }
        assert_eq!(directory.fingerprints(), 1);
        // The same again takes no more room.
        directory.keep(floor(0), floor(0), &(0..100), Fingerprint([7; 32]));
        directory.keep(floor(0), floor(0), &(0..100), Fingerprint([7; 32]));
        assert_eq!(directory.fingerprints(), 2);
    }
}
