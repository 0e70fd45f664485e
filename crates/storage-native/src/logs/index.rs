//! The index of one log, as a reconciliation reads it: leaf by leaf, and no envelope.

use std::ops::Range;

use overlane_core::store::StoreError;
use overlane_recon::{Fingerprint, RECORD_BYTES, Record, Storage, fingerprint, record_seq};
use overlane_relay::log::LogId;

use super::directory::Directory;
use super::numbered;
use crate::database::{Database, ReadOnlyBytes};

/// The index of one log as it was committed when it was asked for.
pub struct LogIndex<'s> {
    log: LogId,
    database: &'s Database,
    leaves: ReadOnlyBytes,
    directory: &'s mut Directory,
    work_bytes: u64,
}

impl<'s> LogIndex<'s> {
    pub(super) fn new(
        log: LogId,
        database: &'s Database,
        leaves: ReadOnlyBytes,
        directory: &'s mut Directory,
    ) -> Self {
        Self {
            log,
            database,
            leaves,
            directory,
            work_bytes: 0,
        }
    }

    /// Hands the records of a leaf to `read`.
    fn leaf<T>(&self, lower: u64, read: impl FnOnce(&[Record]) -> T) -> Result<T, StoreError> {
        let leaf = self.leaves.get(&numbered(&self.log, lower)[..]);
        let leaf = leaf.map_err(|error| self.database.named(&error.into()))?;
        let missing = || {
            self.database
                .damaged(&format!("leaf {lower} of log {}", self.log))
        };
        let leaf = leaf.ok_or_else(missing)?;
        Ok(read(leaf.value().as_chunks().0))
    }
}

impl Storage for LogIndex<'_> {
    type Error = StoreError;

    fn position(&mut self, bound: u64) -> Result<usize, StoreError> {
        let Some((lower, before)) = self.directory.leaf_of(bound) else {
            return Ok(0);
        };
        self.work_bytes += RECORD_BYTES as u64;
        self.leaf(lower, |records| {
            before + records.partition_point(|record| record_seq(record) < bound)
        })
    }

    fn seq_at(&mut self, position: usize) -> Result<Option<u64>, StoreError> {
        let Some((lower, before)) = self.directory.leaf_at(position) else {
            return Ok(None);
        };
        self.work_bytes += RECORD_BYTES as u64;
        self.leaf(lower, |records| {
            records.get(position - before).map(record_seq)
        })
    }

    fn visit(
        &mut self,
        range: Range<usize>,
        each: &mut dyn FnMut(&[Record]),
    ) -> Result<(), StoreError> {
        self.work_bytes += (range.len() * RECORD_BYTES) as u64;
        let mut position = range.start;
        while position < range.end {
            let Some((lower, before)) = self.directory.leaf_at(position) else {
                return Ok(());
            };
            let read = self.leaf(lower, |records| {
                let from = position - before;
                let to = records.len().min(range.end - before);
                let run = records.get(from..to).unwrap_or_default();
                each(run);
                run.len()
            })?;
            if read == 0 {
                return Err(self.database.damaged(&format!(
                    "leaf {lower} of log {} has fewer records than its directory says",
                    self.log
                )));
            }
            position += read;
        }
        Ok(())
    }

    fn fingerprint(&mut self, range: Range<usize>) -> Result<Fingerprint, StoreError> {
        let range = range.start..range.end.min(self.directory.len());
        let Some(first) = self.seq_at(range.start)? else {
            return fingerprint::of_range(self, range);
        };
        if let Some(kept) = self.directory.kept(first, &range) {
            return Ok(kept);
        }
        let fresh = fingerprint::of_range(self, range.clone())?;
        self.directory.keep(first, &range, fresh);
        Ok(fresh)
    }

    fn work_bytes(&self) -> u64 {
        self.work_bytes
    }
}

impl std::fmt::Debug for LogIndex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("LogIndex");
        shown.field("log", &self.log).finish_non_exhaustive()
    }
}
