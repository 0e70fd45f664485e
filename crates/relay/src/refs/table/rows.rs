//! Rows that remember what they were until a transaction ends.
//!
//! Law (frame-atomic): a step either takes effect whole or leaves no trace. Every change is logged
//! with the row it replaced; undoing plays the log backwards, and a store that follows the tables
//! finds in it which rows to write.

use super::sorted::Sorted;

/// A sorted table with an undo log. Between transactions the log is empty, so two equal tables
/// compare and hash alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Rows<K, V> {
    rows: Sorted<K, V>,
    log: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Rows<K, V> {
    fn default() -> Self {
        Self {
            rows: Sorted::default(),
            log: Vec::new(),
        }
    }
}

impl<K: Ord + Clone, V: Clone> Rows<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.rows.get(key).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    /// The rows whose keys are this one or come after it.
    pub(super) fn starting_at(&self, key: &K) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.starting_at(key)
    }

    pub(super) fn first(&self) -> Option<(&K, &V)> {
        self.rows.iter().next()
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        let old = self.rows.insert(key.clone(), value);
        self.log.push((key, old));
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let (key, old) = self.rows.remove(key)?;
        self.log.push((key, Some(old.clone())));
        Some(old)
    }

    /// Changes a row that is there.
    pub(super) fn update<T>(&mut self, key: &K, change: impl FnOnce(&mut V) -> T) -> Option<T> {
        let row = self.rows.get_mut(key)?;
        self.log.push((key.clone(), Some(row.clone())));
        Some(change(row))
    }

    pub(super) fn savepoint(&self) -> usize {
        self.log.len()
    }

    pub(super) fn rollback_to(&mut self, savepoint: usize) {
        while self.log.len() > savepoint {
            match self.log.pop() {
                Some((key, Some(old))) => {
                    self.rows.insert(key, old);
                }
                Some((key, None)) => {
                    self.rows.remove(&key);
                }
                None => return,
            }
        }
    }

    pub(super) fn commit(&mut self) {
        self.log.clear();
    }

    /// The keys of the rows that this transaction changed.
    pub(super) fn changed(&self) -> impl Iterator<Item = &K> {
        self.log.iter().map(|(key, _)| key)
    }

    /// Puts back a row that was kept elsewhere.
    pub(super) fn load(&mut self, key: K, value: V) {
        self.rows.insert(key, value);
    }
}

/// One value that remembers what it was until a transaction ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Logged<T> {
    value: T,
    log: Vec<T>,
}

impl<T: Copy + PartialEq> Logged<T> {
    pub(super) fn new(value: T) -> Self {
        let log = Vec::new();
        Self { value, log }
    }

    pub(super) fn get(&self) -> &T {
        &self.value
    }

    pub(super) fn change(&mut self) -> &mut T {
        self.log.push(self.value);
        &mut self.value
    }

    pub(super) fn savepoint(&self) -> usize {
        self.log.len()
    }

    pub(super) fn rollback_to(&mut self, savepoint: usize) {
        if let Some(&old) = self.log.get(savepoint) {
            self.value = old;
            self.log.truncate(savepoint);
        }
    }

    pub(super) fn commit(&mut self) {
        self.log.clear();
    }

    pub(super) fn is_changed(&self) -> bool {
        self.log.first().is_some_and(|old| *old != self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_undoing_to_a_savepoint_leaves_what_was_there() {
        let mut rows = Rows::default();
        rows.insert(1, "one");
        rows.commit();
        let whole = rows.clone();
        rows.insert(2, "two");
        rows.update(&1, |row| *row = "uno");
        let middle = rows.savepoint();
        let at_middle: Vec<_> = rows.iter().map(|(k, v)| (*k, *v)).collect();
        rows.remove(&1);
        rows.insert(2, "dos");
        rows.rollback_to(middle);
        assert_eq!(
            rows.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>(),
            at_middle
        );
        rows.rollback_to(0);
        assert_eq!(rows, whole);

        let mut value = Logged::new(1);
        *value.change() = 2;
        let middle = value.savepoint();
        *value.change() = 3;
        *value.change() = 4;
        value.rollback_to(middle);
        assert_eq!(value.get(), &2);
        value.rollback_to(0);
        assert_eq!(value, Logged::new(1));
    }
}
