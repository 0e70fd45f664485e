//! One transaction: envelopes, names, leaves and rows together.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use overlane_core::store::StoreError;
use overlane_core::wire::cbor::Writer;
use overlane_recon::{Item, Record};
use overlane_relay::log::{self, Change, LogId};
use redb::{ReadableTable as _, WriteTransaction};

use super::directory::Directory;
use super::{DIRECTORY, ENVELOPES, LEAF_RECORDS, LEAVES, LogsStore, NAMES, ROWS, named, numbered};

/// What changes in one log's index.
#[derive(Debug, Default)]
struct IndexChange {
    /// In order: the record, and whether it comes.
    records: Vec<(Record, bool)>,
}

/// How many records each changed leaf has now, none for one that is gone; and whether nothing but
/// the end of the log changed.
type Changed = BTreeMap<LogId, (BTreeMap<u64, Option<usize>>, bool)>;

impl LogsStore {
    pub(super) fn write(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        if changes.is_empty() {
            return self.database.check();
        }
        let mut index: BTreeMap<LogId, IndexChange> = BTreeMap::new();
        for change in &changes {
            let (log, item, comes) = match change {
                Change::Append { log, entry, .. } => {
                    let (seq, id) = (entry.seq, entry.id);
                    (log, Item { seq, id }, true)
                }
                Change::Remove { log, seq, id } => (log, Item { seq: *seq, id: *id }, false),
                Change::Row { .. } => continue,
            };
            // An item at the top is in no index, and is refused before it comes here.
            if let Ok(record) = item.record() {
                index.entry(*log).or_default().records.push((record, comes));
            }
        }
        for log in index.keys() {
            self.directory(log)?;
        }
        let directories = &self.directories;
        let changed = self.database.write(|transaction| {
            write_envelopes(transaction, &changes)?;
            let mut changed = Changed::new();
            for (log, change) in &index {
                let none = Directory::default();
                let directory = directories.get(log).unwrap_or(&none);
                changed.insert(*log, write_index(transaction, log, directory, change)?);
            }
            Ok(changed)
        })?;
        for (log, (leaves, at_end)) in changed {
            if let Some(directory) = self.directories.get_mut(&log) {
                directory.take_over(&leaves, at_end);
            }
        }
        Ok(())
    }
}

fn write_envelopes(transaction: &WriteTransaction, changes: &[Change]) -> Result<(), redb::Error> {
    let mut envelopes = transaction.open_table(ENVELOPES)?;
    let mut names = transaction.open_table(NAMES)?;
    let mut rows = transaction.open_table(ROWS)?;
    for change in changes {
        match change {
            Change::Append {
                log,
                entry,
                envelope,
            } => {
                let value = value_of(entry, envelope);
                envelopes.insert(&numbered(log, entry.seq)[..], &value[..])?;
                names.insert(&named(log, &entry.id)[..], &entry.seq.to_be_bytes()[..])?;
            }
            Change::Remove { log, seq, id } => {
                envelopes.remove(&numbered(log, *seq)[..])?;
                names.remove(&named(log, id)[..])?;
            }
            Change::Row { key, value } => {
                match value {
                    Some(value) => rows.insert(&key[..], &value[..])?,
                    None => rows.remove(&key[..])?,
                };
            }
        }
    }
    Ok(())
}

fn value_of(entry: &log::Entry, envelope: &[u8]) -> Vec<u8> {
    let mut writer = Writer::append(Vec::with_capacity(envelope.len() + 96));
    writer.array(2).value(entry).bytes(envelope);
    writer.into_bytes()
}

fn write_index(
    transaction: &WriteTransaction,
    log: &LogId,
    directory: &Directory,
    change: &IndexChange,
) -> Result<(BTreeMap<u64, Option<usize>>, bool), redb::Error> {
    let mut table = transaction.open_table(LEAVES)?;
    let mut lines = transaction.open_table(DIRECTORY)?;
    let mut leaves: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    let mut at_end = true;
    for (record, comes) in &change.records {
        let lower = directory.leaf_of(overlane_recon::record_seq(record));
        let lower = lower.map_or(0, |it| it.0);
        let leaf = match leaves.entry(lower) {
            Entry::Occupied(leaf) => leaf.into_mut(),
            Entry::Vacant(vacant) => {
                let leaf = table.get(&numbered(log, lower)[..])?;
                let leaf = leaf.map(|it| it.value().as_chunks().0.to_vec());
                vacant.insert(leaf.unwrap_or_default())
            }
        };
        let place = leaf.partition_point(|it| it < record);
        let last =
            place == leaf.len() && directory.leaf_of(u64::MAX).is_none_or(|it| it.0 == lower);
        at_end &= *comes && last;
        match (leaf.get(place) == Some(record), comes) {
            (false, true) => leaf.insert(place, *record),
            (true, false) => drop(leaf.remove(place)),
            _ => {}
        }
    }
    let mut counts = BTreeMap::new();
    for (lower, leaf) in leaves {
        if leaf.is_empty() {
            table.remove(&numbered(log, lower)[..])?;
            lines.remove(&numbered(log, lower)[..])?;
            counts.insert(lower, None);
            continue;
        }
        // One that grows at its end leaves full leaves behind; one that grows inside is halved.
        let piece = if at_end || leaf.len() <= LEAF_RECORDS {
            LEAF_RECORDS
        } else {
            LEAF_RECORDS / 2
        };
        let mut key = lower;
        for (at, piece) in leaf.chunks(piece).enumerate() {
            if let Some(first) = piece.first().filter(|_| at > 0) {
                key = overlane_recon::record_seq(first);
            }
            let count = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            table.insert(&numbered(log, key)[..], piece.as_flattened())?;
            lines.insert(&numbered(log, key)[..], &count.to_be_bytes()[..])?;
            counts.insert(key, Some(piece.len()));
        }
    }
    Ok((counts, at_end))
}
