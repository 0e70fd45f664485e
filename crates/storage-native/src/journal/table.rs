//! What the open journal knows of each record: its version, where its newest value is, and
//! what it counts against the budget. Values that changed since the snapshot are shared images,
//! encoded whole only when a checkpoint, or the budget, asks for them.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use overlane_core::store::{Image, RecordName, StoreError};

use super::bad::Bad;
use super::snapshot::{Listed, RECORD_OVERHEAD_BYTES, Spot};

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
    Snapshot(Spot),
    Image(Arc<dyn Image>),
    Bad(Arc<Bad>),
}

/// One record as a checkpoint finds it.
#[derive(Debug)]
pub(super) struct Frozen {
    pub(super) name: RecordName,
    pub(super) entry: Entry,
}

/// Where the table has a record; it stays there until it is removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row(u32);

#[derive(Debug)]
struct Held {
    name: RecordName,
    entry: Option<Entry>,
}

/// A batch looks each record up once, in an index small enough to stay in a cache; what
/// changes stands in rows.
#[derive(Debug)]
pub(super) struct Table {
    index: HashTable<u32>,
    hashed: RandomState,
    rows: Vec<Held>,
    free: Vec<u32>,
    held_bound: u64,
    budget_bytes: u64,
}

impl Table {
    pub(super) fn new(budget_bytes: u64) -> Self {
        Self {
            index: HashTable::new(),
            hashed: RandomState::default(),
            rows: Vec::new(),
            free: Vec::new(),
            held_bound: 0,
            budget_bytes,
        }
    }

    pub(super) fn row(&self, name: RecordName) -> Option<Row> {
        let is_own = |row: &u32| {
            self.rows
                .get(*row as usize)
                .is_some_and(|it| it.name == name)
        };
        self.index
            .find(hash(&self.hashed, name), is_own)
            .copied()
            .map(Row)
    }

    pub(super) fn entry_at(&self, row: Row) -> Option<&Entry> {
        self.rows.get(row.0 as usize)?.entry.as_ref()
    }

    pub(super) fn entry(&self, name: RecordName) -> Option<&Entry> {
        self.entry_at(self.row(name)?)
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bound
    }

    pub(super) fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    pub(super) fn put(&mut self, name: RecordName, entry: Entry) {
        let row = self.row(name).unwrap_or_else(|| self.new_row(name));
        self.put_at(row, entry);
    }

    /// Reads a value that is about to go. The reads of one batch overlap, where dropping the values
    /// would wait for memory once each.
    pub(super) fn fetch(&self, row: Row) {
        if let Some(Place::Image(image)) = self.entry_at(row).map(|entry| &entry.place) {
            let _version = image.version();
        }
    }

    /// Sets a record that is there.
    pub(super) fn put_at(&mut self, row: Row, entry: Entry) {
        let Some(held) = self.rows.get_mut(row.0 as usize) else {
            return;
        };
        let bytes = counted(entry.bytes_bound);
        let old = held.entry.replace(entry);
        let old = old.map_or(0, |old| counted(old.bytes_bound));
        self.held_bound = self.held_bound.saturating_sub(old).saturating_add(bytes);
    }

    pub(super) fn remove(&mut self, name: RecordName) {
        let rows = &self.rows;
        let is_own = |row: &u32| rows.get(*row as usize).is_some_and(|it| it.name == name);
        let Ok(found) = self.index.find_entry(hash(&self.hashed, name), is_own) else {
            return;
        };
        let (row, _) = found.remove();
        self.free.push(row);
        let held = self.rows.get_mut(row as usize);
        if let Some(old) = held.and_then(|held| held.entry.take()) {
            self.held_bound = self.held_bound.saturating_sub(counted(old.bytes_bound));
        }
    }

    fn new_row(&mut self, name: RecordName) -> Row {
        let held = Held { name, entry: None };
        let row = match self.free.pop() {
            Some(row) => row,
            // As many as `ENTRIES_MAX` of a snapshot at most.
            None => u32::try_from(self.rows.len()).unwrap_or(u32::MAX),
        };
        match self.rows.get_mut(row as usize) {
            Some(free) => *free = held,
            None => self.rows.push(held),
        }
        let Self {
            index,
            hashed,
            rows,
            ..
        } = self;
        let hash_of = |row: &u32| {
            rows.get(*row as usize)
                .map_or(0, |it| hash(hashed, it.name))
        };
        index.insert_unique(hash(hashed, name), row, hash_of);
        Row(row)
    }

    /// Whether the store may hold what it does.
    pub(super) fn check_budget(&self) -> Result<(), StoreError> {
        self.refuse_beyond(self.held_bound)
    }

    /// Whether a batch fits that takes `leaving` bytes out and brings `coming` in. Exact
    /// where it says yes: what is held is counted as its length or more.
    pub(super) fn fits(&self, leaving: u64, coming: u64) -> bool {
        let needed = self
            .held_bound
            .saturating_sub(leaving)
            .saturating_add(coming);
        needed <= self.budget_bytes || needed <= self.held_bound
    }

    /// Whether these true new lengths fit: `None` for a record that leaves.
    ///
    /// # Errors
    /// [`StoreError::BudgetExhausted`].
    pub(super) fn check_exactly(
        &mut self,
        change: &[(RecordName, Option<u64>)],
    ) -> Result<(), StoreError> {
        self.count_exactly();
        let needed = self.needed(change);
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
        for entry in self.rows.iter_mut().filter_map(|held| held.entry.as_mut()) {
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
            .rows
            .iter()
            .filter_map(|held| {
                let (name, entry) = (held.name, held.entry.clone()?);
                Some(Frozen { name, entry })
            })
            .collect();
        frozen.sort_unstable_by_key(|frozen| frozen.name);
        frozen
    }

    /// A durable snapshot holds these: whatever has not changed since is found there now.
    pub(super) fn thaw(&mut self, stamps: &[u64], listed: &[Listed]) {
        for (stamp, listed) in stamps.iter().zip(listed) {
            let row = self
                .row(listed.name)
                .and_then(|row| self.rows.get_mut(row.0 as usize));
            let Some(entry) = row.and_then(|held| held.entry.as_mut()) else {
                continue;
            };
            if entry.stamp != *stamp || matches!(entry.place, Place::Bad(_)) {
                continue;
            }
            entry.place = Place::Snapshot(Spot::of(listed));
            // Its bytes went bad under the open store. The owner still has the value: the next
            // one is written whole and heals it.
            if listed.bad.is_some() {
                entry.version = NO_VERSION;
            }
        }
    }
}

/// A name is a hash already, but a stranger may have chosen of which key: it is mixed with what
/// only this process knows.
fn hash(state: &RandomState, RecordName(name): RecordName) -> u64 {
    let [first, ..] = name.as_chunks::<8>().0 else {
        return 0;
    };
    state.hash_one(u64::from_ne_bytes(*first))
}

/// What a record of this length counts against the budget.
pub(super) const fn counted(record_bytes: u64) -> u64 {
    record_bytes.saturating_add(RECORD_OVERHEAD_BYTES as u64)
}
