//! The index of one log in one order, as a reconciliation reads it: leaf by leaf, and no envelope.
//!
//! Law (what is asked is what is read): a leaf is read when a record of it is asked for, and the leaves of a range that
//! was hashed before are not, as long as nothing in it came or went.

use std::ops::Range;

use overlane_core::store::StoreError;
use overlane_recon::{Fingerprint, RECORD_BYTES, Record, Storage, fingerprint, record_seq};
use overlane_relay::log::LogId;

use super::directory::Directory;
use super::order::{Order, floor};
use crate::database::{Database, ReadOnlyBytes};

/// The index of one log as it was committed when it was asked for.
pub struct LogIndex<'s> {
    log: LogId,
    order: Order,
    database: &'s Database,
    leaves: ReadOnlyBytes,
    directory: &'s mut Directory,
    work_bytes: u64,
    rows_read: u64,
}

impl<'s> LogIndex<'s> {
    pub(super) fn new(
        (log, order): (LogId, Order),
        database: &'s Database,
        leaves: ReadOnlyBytes,
        directory: &'s mut Directory,
    ) -> Self {
        Self {
            log,
            order,
            database,
            leaves,
            directory,
            work_bytes: 0,
            rows_read: 0,
        }
    }

    /// Rows of the database that were read through this index.
    pub fn rows_read(&self) -> u64 {
        self.rows_read
    }

    /// Hands the records of a leaf to `read`.
    fn leaf<T>(
        &mut self,
        lower: &Record,
        read: impl FnOnce(&[Record]) -> T,
    ) -> Result<T, StoreError> {
        self.rows_read += 1;
        let leaf = self.leaves.get(&self.order.key(&self.log, lower)[..]);
        let leaf = leaf.map_err(|error| self.database.named(&error.into()))?;
        let leaf = leaf.ok_or_else(|| self.damaged(lower, "is gone"))?;
        Ok(read(leaf.value().as_chunks().0))
    }

    fn damaged(&self, lower: &Record, what: &str) -> StoreError {
        let (log, place) = (self.log, record_seq(lower));
        let cause = format!("leaf {place} of log {log}, by {:?}, {what}", self.order);
        self.database.damaged(&cause)
    }

    fn record_at(&mut self, position: usize) -> Result<Option<Record>, StoreError> {
        let Some((lower, before)) = self.directory.leaf_at(position) else {
            return Ok(None);
        };
        self.work_bytes += RECORD_BYTES as u64;
        self.leaf(&lower, |records| records.get(position - before).copied())
    }
}

impl Storage for LogIndex<'_> {
    type Error = StoreError;

    fn position(&mut self, bound: u64) -> Result<usize, StoreError> {
        let Some((lower, before)) = self.directory.leaf_of(&floor(bound)) else {
            return Ok(0);
        };
        self.work_bytes += RECORD_BYTES as u64;
        self.leaf(&lower, |records| {
            before + records.partition_point(|record| record_seq(record) < bound)
        })
    }

    fn seq_at(&mut self, position: usize) -> Result<Option<u64>, StoreError> {
        let record = self.record_at(position)?;
        Ok(record.as_ref().map(record_seq))
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
            let read = self.leaf(&lower, |records| {
                let from = position - before;
                let to = records.len().min(range.end - before);
                let run = records.get(from..to).unwrap_or_default();
                each(run);
                run.len()
            })?;
            if read == 0 {
                return Err(self.damaged(&lower, "has fewer records than its directory says"));
            }
            position += read;
        }
        Ok(())
    }

    fn fingerprint(&mut self, range: Range<usize>) -> Result<Fingerprint, StoreError> {
        let range = range.start..range.end.min(self.directory.len());
        if !Directory::keeps(&range) {
            return fingerprint::of_range(self, range);
        }
        let first = self.record_at(range.start)?;
        if let Some(first) = &first
            && let Some(kept) = self.directory.kept(first, &range)
        {
            return Ok(kept);
        }
        let fresh = fingerprint::of_range(self, range.clone())?;
        let last = self.record_at(range.end - 1)?;
        if let (Some(first), Some(last)) = (first, last) {
            self.directory.keep(first, last, &range, fresh);
        }
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
