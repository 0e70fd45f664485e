//! What the open journal knows of each record: its version, where its newest value is, and
//! what it counts against the budget. Values that changed since the snapshot are shared images,
//! encoded whole only when a checkpoint, or the budget, asks for them.

use std::collections::HashMap;
use std::sync::Arc;

use overlane_core::store::{Image, RecordName, StoreError};

use super::bad::Bad;
use super::snapshot::{Listed, RECORD_OVERHEAD_BYTES};

/// The version of a value that no delta applies to.
const NO_VERSION: u64 = u64::MAX;

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) version: u64,
    /// The number of the frame that changed it last.
    pub(super) stamp: u64,
    pub(super) place: Place,
    /// Its length, or more: a delta is counted as if it only added.
    pub(super) bytes_bound: u64,
}

#[derive(Debug, Clone)]
pub(super) enum Place {
    Snapshot(Listed),
    Image(Arc<dyn Image>),
    Bad(Arc<Bad>),
}

/// One record as a checkpoint finds it.
#[derive(Debug)]
pub(super) struct Frozen {
    pub(super) name: RecordName,
    pub(super) entry: Entry,
}

#[derive(Debug)]
pub(super) struct Table {
    entries: HashMap<RecordName, Entry>,
    held_bound: u64,
    budget_bytes: u64,
}

impl Table {
    pub(super) fn new(budget_bytes: u64) -> Self {
        Self {
            entries: HashMap::new(),
            held_bound: 0,
            budget_bytes,
        }
    }

    pub(super) fn entry(&self, name: RecordName) -> Option<&Entry> {
        self.entries.get(&name)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bound
    }

    pub(super) fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    pub(super) fn put(&mut self, name: RecordName, entry: Entry) {
        let bytes = counted(entry.bytes_bound);
        let old = self.entries.insert(name, entry);
        let old = old.map_or(0, |old| counted(old.bytes_bound));
        self.held_bound = self.held_bound.saturating_sub(old).saturating_add(bytes);
    }

    pub(super) fn remove(&mut self, name: RecordName) {
        if let Some(old) = self.entries.remove(&name) {
            self.held_bound = self.held_bound.saturating_sub(counted(old.bytes_bound));
        }
    }

    /// Whether the store may hold what it does.
    pub(super) fn check_budget(&self) -> Result<(), StoreError> {
        self.refuse_beyond(self.held_bound)
    }

    /// Whether these new lengths fit: `None` for a record that leaves. `exact` gives a
    /// record's true new length where the bound does not fit.
    pub(super) fn check_change(
        &mut self,
        change: &[(RecordName, Option<u64>)],
        exact: impl Fn(usize) -> Option<u64>,
    ) -> Result<(), StoreError> {
        let needed = self.needed(change);
        if needed <= self.budget_bytes || needed <= self.held_bound {
            return Ok(());
        }
        self.count_exactly();
        let exactly: Vec<_> = change
            .iter()
            .enumerate()
            .map(|(index, (name, bound))| (*name, bound.and(exact(index))))
            .collect();
        let needed = self.needed(&exactly);
        if needed <= self.held_bound {
            return Ok(());
        }
        self.refuse_beyond(needed)
    }

    fn needed(&self, change: &[(RecordName, Option<u64>)]) -> u64 {
        change
            .iter()
            .fold(self.held_bound, |needed, (name, bytes)| {
                let old = self
                    .entry(*name)
                    .map_or(0, |entry| counted(entry.bytes_bound));
                let new = bytes.map_or(0, counted);
                needed.saturating_sub(old).saturating_add(new)
            })
    }

    fn refuse_beyond(&self, needed_bytes: u64) -> Result<(), StoreError> {
        if needed_bytes > self.budget_bytes {
            return Err(StoreError::BudgetExhausted {
                budget_bytes: self.budget_bytes,
                needed_bytes,
            });
        }
        Ok(())
    }

    fn count_exactly(&mut self) {
        self.held_bound = 0;
        for entry in self.entries.values_mut() {
            if let Place::Image(image) = &entry.place {
                entry.bytes_bound = image.whole().len() as u64;
            }
            let bytes = counted(entry.bytes_bound);
            self.held_bound = self.held_bound.saturating_add(bytes);
        }
    }

    /// Every record as it is now, in the order of the names.
    pub(super) fn freeze(&self) -> Vec<Frozen> {
        let mut frozen: Vec<Frozen> = self
            .entries
            .iter()
            .map(|(name, entry)| Frozen {
                name: *name,
                entry: entry.clone(),
            })
            .collect();
        frozen.sort_unstable_by_key(|frozen| frozen.name);
        frozen
    }

    /// A durable snapshot holds these: whatever has not changed since is found there now.
    pub(super) fn thaw(&mut self, stamps: &[u64], listed: &[Listed]) {
        for (stamp, listed) in stamps.iter().zip(listed) {
            let Some(entry) = self.entries.get_mut(&listed.name) else {
                continue;
            };
            if entry.stamp != *stamp || matches!(entry.place, Place::Bad(_)) {
                continue;
            }
            entry.place = Place::Snapshot(*listed);
            // Its bytes went bad under the open store. The owner still has the value: the next
            // one is written whole and heals it.
            if listed.bad.is_some() {
                entry.version = NO_VERSION;
            }
        }
    }
}

fn counted(record_bytes: u64) -> u64 {
    record_bytes.saturating_add(RECORD_OVERHEAD_BYTES as u64)
}
