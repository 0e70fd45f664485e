//! A store in memory, for tests above the store: it keeps what was written as long as it
//! lives, and fails when told to. It is not durable and no node is built on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overlane_core::store::{Change, Effect, Found, RecordName, RecordStore, Scan, StoreError};

/// A store in memory. Clones share what it holds, so a test can keep one and open another.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    records: BTreeMap<RecordName, Found>,
    fail_next: bool,
    poisoned: bool,
    scans: u64,
    writes: u64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next write fails and poisons the store.
    pub fn fail_next(&self) {
        self.memory().fail_next = true;
    }

    /// What opening the store again does.
    pub fn reopen(&self) {
        self.memory().poisoned = false;
    }

    /// Puts something under a name, as something outside the store would.
    pub fn put(&self, name: RecordName, found: Found) {
        self.memory().records.insert(name, found);
    }

    /// What is under a name.
    pub fn found(&self, name: RecordName) -> Option<Found> {
        self.memory().records.get(&name).cloned()
    }

    /// How often it was scanned.
    pub fn scans(&self) -> u64 {
        self.memory().scans
    }

    /// How many batches became durable.
    pub fn writes(&self) -> u64 {
        self.memory().writes
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn refuse_poisoned(&self) -> Result<(), StoreError> {
        if self.poisoned {
            let cause = "a write was told to fail".into();
            return Err(StoreError::Poisoned { cause });
        }
        Ok(())
    }
}

impl RecordStore for MemoryStore {
    fn scan(&mut self) -> Result<Scan, StoreError> {
        let mut memory = self.memory();
        memory.refuse_poisoned()?;
        memory.scans = memory.scans.saturating_add(1);
        let records = memory.records.clone().into_iter().collect();
        Ok(Scan { records })
    }

    fn write(&mut self, batch: &[Change]) -> Result<(), StoreError> {
        let mut memory = self.memory();
        memory.refuse_poisoned()?;
        if std::mem::take(&mut memory.fail_next) {
            memory.poisoned = true;
            return Err(StoreError::Io {
                action: "write",
                path: "memory".into(),
                cause: "told to fail".into(),
            });
        }
        let bad = |name| !matches!(memory.records.get(&name), None | Some(Found::Bytes(_)));
        if let Some(change) = batch.iter().find(|change| bad(change.name)) {
            return Err(StoreError::BadRecord { name: change.name });
        }
        for change in batch {
            match &change.effect {
                Effect::Write(image) => {
                    let found = Found::Bytes(image.whole());
                    memory.records.insert(change.name, found);
                }
                Effect::Remove => {
                    memory.records.remove(&change.name);
                }
            }
        }
        memory.writes = memory.writes.saturating_add(1);
        Ok(())
    }
}
