//! A log's leaves, a line each, and the fingerprints of ranges that were asked before.

use std::collections::BTreeMap;
use std::ops::Range;

use overlane_recon::Fingerprint;

/// Fingerprints kept for a log; beyond it all are forgotten.
const KEPT_MAX: usize = 8_192;

/// Ranges of fewer records are hashed anew.
const KEPT_RECORDS_MIN: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Directory {
    /// Lowest number each leaf may hold, ascending; the first is zero.
    lowers: Vec<u64>,
    /// Records up to the end of each leaf.
    ends: Vec<usize>,
    /// By the first number of a range and its records: law (no stale answer), all of them go when
    /// anything but the end of the log changes.
    kept: BTreeMap<(u64, usize), Fingerprint>,
}

impl FromIterator<(u64, usize)> for Directory {
    fn from_iter<I: IntoIterator<Item = (u64, usize)>>(leaves: I) -> Self {
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

    fn push(&mut self, lower: u64, records: usize) {
        let end = self.len() + records;
        self.lowers.push(lower);
        self.ends.push(end);
    }

    /// The leaf that holds a number if any does, and the records before it.
    pub(super) fn leaf_of(&self, seq: u64) -> Option<(u64, usize)> {
        let leaf = self.lowers.partition_point(|lower| *lower <= seq);
        self.leaf(leaf.checked_sub(1)?)
    }

    /// The leaf that holds the record at a position, and the records before it.
    pub(super) fn leaf_at(&self, position: usize) -> Option<(u64, usize)> {
        self.leaf(self.ends.partition_point(|end| *end <= position))
    }

    fn leaf(&self, leaf: usize) -> Option<(u64, usize)> {
        let before = leaf
            .checked_sub(1)
            .map_or(Some(0), |it| self.ends.get(it).copied());
        Some((*self.lowers.get(leaf)?, before?))
    }

    /// Takes over how many records leaves have now; none for one that is gone. `at_end` says that
    /// nothing but the end changed.
    pub(super) fn take_over(&mut self, changed: &BTreeMap<u64, Option<usize>>, at_end: bool) {
        let first = changed.keys().next().copied().unwrap_or(u64::MAX);
        let unchanged = self.lowers.partition_point(|lower| *lower < first);
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
        if !at_end {
            self.kept.clear();
        }
    }

    pub(super) fn kept(&self, first: u64, range: &Range<usize>) -> Option<Fingerprint> {
        self.kept.get(&(first, range.len())).copied()
    }

    pub(super) fn keep(&mut self, first: u64, range: &Range<usize>, fingerprint: Fingerprint) {
        if range.len() < KEPT_RECORDS_MIN {
            return;
        }
        if self.kept.len() >= KEPT_MAX {
            self.kept.clear();
        }
        self.kept.insert((first, range.len()), fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_the_directory_knows_the_leaf_of_every_number_and_position() {
        let mut directory: Directory = [(0, 3), (10, 2), (20, 4)].into_iter().collect();
        let leaves = |it: &Directory| {
            let of = |seq| it.leaf_of(seq);
            (
                of(0),
                of(9),
                of(10),
                of(25),
                it.leaf_at(4),
                it.leaf_at(5),
                it.len(),
            )
        };
        let expected = (
            Some((0, 0)),
            Some((0, 0)),
            Some((10, 3)),
            Some((20, 5)),
            Some((10, 3)),
            Some((20, 5)),
            9,
        );
        assert_eq!(leaves(&directory), expected);
        assert_eq!(directory.leaf_at(9), None);
        // The middle leaf goes, the last is split.
        let changed = [(10, None), (20, Some(3)), (30, Some(2))]
            .into_iter()
            .collect();
        directory.take_over(&changed, false);
        assert_eq!(directory.leaf_of(19), Some((0, 0)));
        assert_eq!(directory.leaf_at(6), Some((30, 6)));
        assert_eq!(directory.len(), 8);
        let fresh: Directory = [(0, 3), (20, 3), (30, 2)].into_iter().collect();
        assert_eq!(
            (fresh.lowers, fresh.ends),
            (directory.lowers, directory.ends)
        );
    }
}
