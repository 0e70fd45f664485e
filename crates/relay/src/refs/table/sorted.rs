//! A sorted map that is close to full: rows lie in runs, one behind the other.
//!
//! Names are given in ascending order, so a run is full before the next one begins. A B-tree of the
//! standard library splits its nodes in half then, and would hold the same rows in twice the room.

use std::hash::{Hash, Hasher};

/// The most rows of a run. Two neighbours that have half of it together become one.
const RUN_MAX: usize = 64;

/// Rows by their keys, ascending. Two maps of the same rows are equal, however they lie.
#[derive(Debug, Clone)]
pub(super) struct Sorted<K, V> {
    /// Ascending, none of them empty.
    runs: Vec<Vec<(K, V)>>,
    len: usize,
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            len: 0,
        }
    }
}

/// A run is made for so many rows: an empty table takes little, a long one has its full runs.
const RUN_MIN: usize = 4;

fn run_with<K, V>(key: K, value: V, rows: usize) -> Vec<(K, V)> {
    let mut run = Vec::with_capacity(rows);
    run.push((key, value));
    run
}

impl<K: Ord, V> Sorted<K, V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let run = self.runs.get(self.run_of(key)?)?;
        let at = position(run, key).ok()?;
        run.get(at).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.run_of(key)?;
        let run = self.runs.get_mut(at)?;
        let at = position(run, key).ok()?;
        run.get_mut(at).map(|(_, value)| value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some(at) = self.run_of(&key) else {
            // Before the first row, or the first of all.
            match self.runs.first_mut() {
                Some(run) if run.len() < RUN_MAX => run.insert(0, (key, value)),
                _ => self.runs.insert(0, run_with(key, value, RUN_MIN)),
            }
            self.len += 1;
            return None;
        };
        let is_last = at + 1 == self.runs.len();
        let run = self.runs.get_mut(at)?;
        let within = match position(run, &key) {
            Ok(within) => {
                let (_, old) = run.get_mut(within)?;
                return Some(std::mem::replace(old, value));
            }
            Err(within) => within,
        };
        self.len += 1;
        if run.len() < RUN_MAX {
            run.insert(within, (key, value));
        } else if within == run.len() && is_last {
            self.runs.push(run_with(key, value, RUN_MAX));
        } else {
            let mut upper = run.split_off(RUN_MAX / 2);
            run.shrink_to_fit();
            match within.checked_sub(RUN_MAX / 2) {
                Some(within) => upper.insert(within, (key, value)),
                None => run.insert(within, (key, value)),
            }
            self.runs.insert(at + 1, upper);
        }
        None
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<(K, V)> {
        let at = self.run_of(key)?;
        let run = self.runs.get_mut(at)?;
        let within = position(run, key).ok()?;
        let removed = run.remove(within);
        self.len -= 1;
        if run.is_empty() {
            self.runs.remove(at);
        } else {
            self.close_up(at);
        }
        Some(removed)
    }

    /// Makes one of two neighbours that are nearly empty.
    fn close_up(&mut self, at: usize) {
        let length = |at: usize| self.runs.get(at).map(Vec::len);
        let few = |at: usize| Some(length(at)? + length(at + 1)? <= RUN_MAX / 2);
        let lower = match (at.checked_sub(1), few(at)) {
            (_, Some(true)) => at,
            (Some(before), _) if few(before) == Some(true) => before,
            _ => return,
        };
        let upper = self.runs.remove(lower + 1);
        if let Some(run) = self.runs.get_mut(lower) {
            run.extend(upper);
            run.shrink_to(RUN_MAX / 2);
        }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let rows = self.runs.iter().flatten();
        rows.map(|(key, value)| (key, value))
    }

    /// The rows whose keys are this one or come after it.
    pub(super) fn starting_at(&self, key: &K) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let first = self.run_of(key).unwrap_or(0);
        let runs = self.runs.get(first..).unwrap_or_default();
        let before = runs.first().map_or(0, |run| match position(run, key) {
            Ok(at) | Err(at) => at,
        });
        let runs = runs.iter().enumerate();
        let rows = runs.flat_map(move |(at, run)| {
            let skipped = if at == 0 { before } else { 0 };
            run.get(skipped..).unwrap_or_default()
        });
        rows.map(|(key, value)| (key, value))
    }

    /// The run in which the key is, if it is anywhere.
    fn run_of(&self, key: &K) -> Option<usize> {
        let begins = |run: &Vec<(K, V)>| run.first().is_some_and(|(first, _)| first <= key);
        // Most names that are asked for are among the newest.
        match self.runs.last() {
            Some(last) if begins(last) => Some(self.runs.len() - 1),
            _ => self.runs.partition_point(begins).checked_sub(1),
        }
    }
}

fn position<K: Ord, V>(run: &[(K, V)], key: &K) -> Result<usize, usize> {
    run.binary_search_by(|(found, _)| found.cmp(key))
}

impl<K: PartialEq, V: PartialEq> PartialEq for Sorted<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.runs.iter().flatten().eq(other.runs.iter().flatten())
    }
}

impl<K: Eq, V: Eq> Eq for Sorted<K, V> {}

impl<K: Hash, V: Hash> Hash for Sorted<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len.hash(state);
        self.runs.iter().flatten().for_each(|row| row.hash(state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn hash<T: Hash>(value: &T) -> u64 {
        let mut state = std::collections::hash_map::DefaultHasher::new();
        value.hash(&mut state);
        state.finish()
    }

    fn of(rows: &BTreeMap<u16, u16>) -> Sorted<u16, u16> {
        let mut sorted = Sorted::default();
        for (&key, &value) in rows {
            sorted.insert(key, value);
        }
        sorted
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever is done to it, it is the map that the standard library has.
        #[test]
        fn prop_the_rows_are_those_of_a_btree(
            acts in prop::collection::vec((0_u8..4, 0_u16..700, any::<u16>()), 0..2_000),
            from in 0_u16..700,
        ) {
            let (mut sorted, mut model) = (Sorted::default(), BTreeMap::new());
            let mut next = 0;
            for (what, key, value) in acts {
                match what {
                    0 => prop_assert_eq!(sorted.insert(key, value), model.insert(key, value)),
                    1 => {
                        next += 1;
                        prop_assert_eq!(sorted.insert(next, value), model.insert(next, value));
                    }
                    2 => prop_assert_eq!(sorted.remove(&key), model.remove_entry(&key)),
                    _ => {
                        let changed = model.get_mut(&key).map(|row| *row = value);
                        prop_assert_eq!(sorted.get_mut(&key).map(|row| *row = value), changed);
                    }
                }
                prop_assert_eq!(sorted.len(), model.len());
                prop_assert_eq!(sorted.get(&key), model.get(&key));
            }
            prop_assert!(sorted.iter().eq(model.iter()));
            prop_assert!(sorted.starting_at(&from).eq(model.range(from..)));
            prop_assert!(sorted.starting_at(&from).rev().eq(model.range(from..).rev()));
            let again = of(&model);
            prop_assert!(sorted == again);
            prop_assert_eq!(hash(&sorted), hash(&again));
        }
    }

    /// The reason for it: rows that came in order lie close.
    #[test]
    fn law_runs_that_came_in_order_are_full_and_thin_ones_become_one() {
        let mut sorted = Sorted::default();
        for key in 0..64 * RUN_MAX {
            sorted.insert(key, ());
        }
        assert_eq!(sorted.runs.len(), 64);
        let room: usize = sorted.runs.iter().map(Vec::capacity).sum();
        assert_eq!(room, 64 * RUN_MAX);
        for key in (0..64 * RUN_MAX).filter(|key| key % 8 != 0) {
            sorted.remove(&key);
        }
        assert_eq!(sorted.len(), 8 * RUN_MAX);
        let room: usize = sorted.runs.iter().map(Vec::capacity).sum();
        assert!(room <= 4 * sorted.len(), "{room} for {}", sorted.len());
    }
}
