//! What waits for the next transaction, and what leaves with it.

use super::bounds::{STAGED_MAX, STAGED_MAX_BYTES};
use super::id::{EnvelopeId, LogId};
use super::store::{Change, Entry};
use super::told::{Event, Owed};
use overlane_core::Did;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Stage {
    changes: Vec<Change>,
    bytes: usize,
    ids: BTreeMap<(LogId, EnvelopeId), u64>,
    entries: BTreeMap<(LogId, u64), Entry>,
    gone: BTreeSet<(LogId, u64)>,
    gone_ids: BTreeSet<(LogId, EnvelopeId)>,
    pub(super) books: BTreeSet<LogId>,
    /// Told once it is durable, in this order.
    pub(super) owed: Vec<(Did, Owed)>,
    pub(super) events: Vec<Event>,
}

impl Stage {
    pub(super) fn is_full(&self) -> bool {
        self.changes.len() >= STAGED_MAX || self.bytes >= STAGED_MAX_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.owed.is_empty() && self.events.is_empty()
    }

    /// The staged number of an envelope; `Some(None)` if it is about to go.
    pub(super) fn find(&self, log: &LogId, id: &EnvelopeId) -> Option<Option<u64>> {
        if let Some(seq) = self.ids.get(&(*log, *id)) {
            return Some(Some(*seq));
        }
        self.gone_ids.contains(&(*log, *id)).then_some(None)
    }

    pub(super) fn is_gone(&self, log: &LogId, seq: u64) -> bool {
        self.gone.contains(&(*log, seq))
    }

    pub(super) fn entry(&self, log: &LogId, seq: u64) -> Option<&Entry> {
        self.entries.get(&(*log, seq))
    }

    /// The first staged entry of a log.
    pub(super) fn first(&self, log: &LogId) -> Option<&Entry> {
        let mut range = self.entries.range((*log, 0)..=(*log, u64::MAX));
        range.next().map(|(_, entry)| entry)
    }

    /// The first staged entry of an author.
    pub(super) fn first_of(&self, log: &LogId, author: &Did) -> Option<&Entry> {
        let mut range = self.entries.range((*log, 0)..=(*log, u64::MAX));
        let found = range.find(|(_, entry)| entry.author == *author);
        found.map(|(_, entry)| entry)
    }

    pub(super) fn append(&mut self, log: LogId, entry: Entry, envelope: Vec<u8>) {
        self.bytes += envelope.len();
        self.ids.insert((log, entry.id), entry.seq);
        self.entries.insert((log, entry.seq), entry);
        self.gone_ids.remove(&(log, entry.id));
        self.gone.remove(&(log, entry.seq));
        self.changes.push(Change::Append {
            log,
            entry,
            envelope,
        });
        self.books.insert(log);
    }

    pub(super) fn remove(&mut self, log: LogId, entry: &Entry) {
        let (seq, id) = (entry.seq, entry.id);
        self.ids.remove(&(log, id));
        self.entries.remove(&(log, seq));
        self.gone.insert((log, seq));
        self.gone_ids.insert((log, id));
        self.changes.push(Change::Remove { log, seq, id });
        self.books.insert(log);
    }

    pub(super) fn row(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += value.as_ref().map_or(0, Vec::len);
        self.changes.push(Change::Row { key, value });
    }

    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        self.bytes = 0;
        self.ids.clear();
        self.entries.clear();
        self.gone.clear();
        self.gone_ids.clear();
        std::mem::take(&mut self.changes)
    }
}
