//! A store in memory that a test can make fail, and take a copy of as after a crash. For tests and
//! measurements: it forgets everything with its process.

use super::id::{EnvelopeId, LogId, shared_place};
use super::store::{Change, Entry, LogStore, Row};
use overlane_recon::{Fingerprint, Item, ItemSet, Record, Storage};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;

/// What the store in memory fails with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store was made to fail")]
pub struct MadeToFail;

/// Envelopes and rows in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryLogs {
    logs: BTreeMap<LogId, MemoryLog>,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Commits so far.
    pub commits: u64,
    /// Rows read so far.
    pub rows_read: u64,
    /// Envelopes read so far.
    pub envelopes_read: u64,
    /// Reads so far.
    pub reads: u64,
    /// The commit that fails, counted from one, and whether its changes are kept all the same.
    pub fail_at: Option<(u64, bool)>,
    failed: bool,
}

#[derive(Debug, Clone, Default)]
struct MemoryLog {
    entries: BTreeMap<u64, (Entry, Vec<u8>)>,
    ids: BTreeMap<EnvelopeId, u64>,
    set: ItemSet,
    shared: ItemSet,
}

/// The index of one log.
#[derive(Debug)]
pub struct MemoryIndex<'s>(&'s mut ItemSet);

impl MemoryLogs {
    /// The store as it is after the process ended.
    #[must_use]
    pub fn reopened(mut self) -> Self {
        self.failed = false;
        self.fail_at = None;
        self
    }

    /// Bytes of index records that were read or hashed so far, of the log in both orders.
    #[must_use]
    pub fn index_bytes(&self, log: &LogId) -> u64 {
        let bytes = |log: &MemoryLog| log.set.work_bytes() + log.shared.work_bytes();
        self.log(log).map_or(0, bytes)
    }

    fn log(&self, log: &LogId) -> Option<&MemoryLog> {
        self.logs.get(log)
    }

    fn check(&self) -> Result<(), MadeToFail> {
        if self.failed { Err(MadeToFail) } else { Ok(()) }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Append {
                log,
                entry,
                envelope,
            } => {
                let log = self.logs.entry(log).or_default();
                let (seq, id) = (entry.seq, entry.id);
                let held = log.entries.insert(seq, (entry, envelope));
                assert!(held.is_none(), "number {seq} is taken");
                let held = log.ids.insert(id, seq);
                assert!(held.is_none(), "envelope {id} has a number");
                for (set, seq) in [(&mut log.set, seq), (&mut log.shared, shared_place(&id))] {
                    assert_eq!(set.insert(Item { seq, id }), Ok(true));
                }
            }
            Change::Remove { log, seq, id } => {
                if let Some(log) = self.logs.get_mut(&log) {
                    log.entries.remove(&seq);
                    log.ids.remove(&id);
                    log.set.remove(&Item { seq, id });
                    let seq = shared_place(&id);
                    log.shared.remove(&Item { seq, id });
                }
            }
            Change::Row { key, value } => {
                match value {
                    Some(value) => self.rows.insert(key, value),
                    None => self.rows.remove(&key),
                };
            }
        }
    }
}

impl LogStore for MemoryLogs {
    type Error = MadeToFail;
    type Index<'s> = MemoryIndex<'s>;

    fn index(&mut self, log: &LogId) -> Result<MemoryIndex<'_>, MadeToFail> {
        self.reads += 1;
        self.check()?;
        Ok(MemoryIndex(&mut self.logs.entry(*log).or_default().set))
    }

    fn shared_index(&mut self, log: &LogId) -> Result<MemoryIndex<'_>, MadeToFail> {
        self.reads += 1;
        self.check()?;
        let log = self.logs.entry(*log).or_default();
        Ok(MemoryIndex(&mut log.shared))
    }

    fn seq_of(&mut self, log: &LogId, id: &EnvelopeId) -> Result<Option<u64>, MadeToFail> {
        self.reads += 1;
        self.check()?;
        Ok(self.log(log).and_then(|log| log.ids.get(id)).copied())
    }

    fn entry(&mut self, log: &LogId, seq: u64) -> Result<Option<Entry>, MadeToFail> {
        self.reads += 1;
        self.check()?;
        let found = self.log(log).and_then(|log| log.entries.get(&seq));
        Ok(found.map(|it| it.0))
    }

    fn envelope(&mut self, log: &LogId, seq: u64) -> Result<Option<Vec<u8>>, MadeToFail> {
        self.reads += 1;
        self.check()?;
        self.envelopes_read += 1;
        let found = self.log(log).and_then(|log| log.entries.get(&seq));
        Ok(found.map(|it| it.1.clone()))
    }

    fn entries(&mut self, log: &LogId, from: u64, most: usize) -> Result<Vec<Entry>, MadeToFail> {
        self.reads += 1;
        self.check()?;
        let log = self.log(log).into_iter();
        let entries = log.flat_map(|log| log.entries.range(from..));
        Ok(entries.take(most).map(|(_, it)| it.0).collect())
    }

    fn rows(&mut self, prefix: &[u8]) -> Result<Vec<Row>, MadeToFail> {
        self.reads += 1;
        self.check()?;
        let rows = self.rows.range(prefix.to_vec()..);
        let rows = rows.take_while(|(key, _)| key.starts_with(prefix));
        let rows: Vec<_> = rows
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        self.rows_read += rows.len() as u64;
        Ok(rows)
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), MadeToFail> {
        self.check()?;
        self.commits += 1;
        let fails = self.fail_at.filter(|it| it.0 == self.commits);
        if fails.is_none_or(|it| it.1) {
            changes.into_iter().for_each(|change| self.apply(change));
        }
        self.failed = fails.is_some();
        self.check()
    }
}

impl Storage for MemoryIndex<'_> {
    type Error = MadeToFail;

    fn position(&mut self, bound: u64) -> Result<usize, MadeToFail> {
        sure(self.0.position(bound))
    }

    fn seq_at(&mut self, position: usize) -> Result<Option<u64>, MadeToFail> {
        sure(self.0.seq_at(position))
    }

    fn visit(
        &mut self,
        range: Range<usize>,
        each: &mut dyn FnMut(&[Record]),
    ) -> Result<(), MadeToFail> {
        sure(self.0.visit(range, each))
    }

    fn fingerprint(&mut self, range: Range<usize>) -> Result<Fingerprint, MadeToFail> {
        sure(self.0.fingerprint(range))
    }

    fn work_bytes(&self) -> u64 {
        self.0.work_bytes()
    }
}

fn sure<T>(result: Result<T, Infallible>) -> Result<T, MadeToFail> {
    let Ok(value) = result;
    Ok(value)
}
