//! One transaction: envelopes, names, leaves and rows together.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use overlane_core::store::StoreError;
use overlane_core::wire::cbor::Writer;
use overlane_recon::Record;
use overlane_relay::log::{self, Change, LogId};
use redb::{ReadableTable as _, WriteTransaction};

use super::directory::Directory;
use super::order::{Order, TOP_RECORD, floor};
use super::{ENVELOPES, LogsStore, NAMES, ROWS, named, numbered};
use crate::mutant::broken;

/// What changes in one log's index in one order, as it comes: the record, and whether it comes or goes.
type IndexChange = Vec<(Record, bool)>;

/// How many records each changed leaf has now, none for one that is gone.
type Leaves = BTreeMap<Record, Option<usize>>;

impl LogsStore {
    pub(super) fn write(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        if changes.is_empty() {
            return self.database.check();
        }
        let mut index: BTreeMap<(LogId, Order), IndexChange> = BTreeMap::new();
        for change in &changes {
            let (log, seq, id, comes) = match change {
                Change::Append { log, entry, .. } => (log, entry.seq, entry.id, true),
                Change::Remove { log, seq, id } => (log, *seq, *id, false),
                Change::Row { .. } => continue,
            };
            for order in Order::BOTH {
                // An item at the top is in no index, and is refused before it comes here.
                if let Some(record) = order.record(seq, id) {
                    let changes = index.entry((*log, order)).or_default();
                    changes.push((record, comes));
                }
            }
        }
        for (log, order) in index.keys() {
            self.load_directory(log, *order)?;
        }
        if broken!(IndexApart) {
            self.database.write(|it| write_envelopes(it, &changes))?;
        }
        let directories = &self.directories;
        let changed = self.database.write(|transaction| {
            write_envelopes(transaction, &changes)?;
            let mut changed = Vec::new();
            for (key, change) in &index {
                // All of them were loaded, and none is let go of in between.
                let Some(directory) = directories.get(key) else {
                    return Err(redb::Error::Corrupted("a directory is gone".into()));
                };
                changed.push((*key, write_index(transaction, *key, directory, change)?));
            }
            Ok(changed)
        })?;
        for (key, leaves) in changed {
            let records = index.remove(&key).unwrap_or_default();
            let mut records: Vec<Record> = records.into_iter().map(|it| it.0).collect();
            records.sort_unstable();
            if let Some(directory) = self.directories.get_mut(&key) {
                directory.take_over(&leaves, &records);
            }
        }
        self.let_directories_go(None);
        Ok(())
    }
}

pub(super) fn write_envelopes(
    transaction: &WriteTransaction,
    changes: &[Change],
) -> Result<(), redb::Error> {
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

pub(super) fn write_index(
    transaction: &WriteTransaction,
    (log, order): (LogId, Order),
    directory: &Directory,
    change: &IndexChange,
) -> Result<Leaves, redb::Error> {
    let mut table = transaction.open_table(order.leaves())?;
    let mut lines = transaction.open_table(order.lines())?;
    let mut leaves: BTreeMap<Record, Vec<Record>> = BTreeMap::new();
    let last = directory.leaf_of(&TOP_RECORD).map(|it| it.0);
    let mut at_end = true;
    for (record, comes) in change {
        let lower = directory.leaf_of(record);
        let lower = lower.map_or(floor(0), |it| it.0);
        let leaf = match leaves.entry(lower) {
            Entry::Occupied(leaf) => leaf.into_mut(),
            Entry::Vacant(vacant) => {
                let leaf = table.get(&order.key(&log, &lower)[..])?;
                let leaf = leaf.map(|it| it.value().as_chunks().0.to_vec());
                vacant.insert(leaf.unwrap_or_default())
            }
        };
        let place = leaf.partition_point(|it| it < record);
        let is_last = place == leaf.len() && last.is_none_or(|it| it == lower);
        at_end &= *comes && is_last;
        match (leaf.get(place) == Some(record), comes) {
            (false, true) => leaf.insert(place, *record),
            (true, false) => drop(leaf.remove(place)),
            _ => {}
        }
    }
    let most = order.leaf_records();
    let mut counts = Leaves::new();
    for (lower, leaf) in leaves {
        if leaf.is_empty() {
            let key = order.key(&log, &lower);
            table.remove(&key[..])?;
            lines.remove(&key[..])?;
            counts.insert(lower, None);
            continue;
        }
        // One that grows at its end leaves full leaves behind; one that grows inside is halved.
        let piece = if at_end || leaf.len() <= most {
            most
        } else {
            most / 2
        };
        let mut lower = lower;
        for (at, piece) in leaf.chunks(piece).enumerate() {
            if let Some(first) = piece.first().filter(|_| at > 0) {
                lower = order.lower_of(first);
            }
            let count = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let key = order.key(&log, &lower);
            table.insert(&key[..], piece.as_flattened())?;
            lines.insert(&key[..], &count.to_be_bytes()[..])?;
            counts.insert(lower, Some(piece.len()));
        }
    }
    Ok(counts)
}
