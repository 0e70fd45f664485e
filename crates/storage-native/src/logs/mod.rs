//! What is kept of logs and mail: envelopes by their numbers, and an index that reconciles without
//! reading one, in an embedded database.
//!
//! Law (durable first): `commit` returns when all changes of a step are durable, and a step that it
//! did not return from is whole or absent after the next open.
//!
//! Law (one index): the leaves hold exactly the numbers and names of the envelopes, once in the order of the numbers and
//! once in that of the names. They change in the transaction that changes the envelopes.
//!
//! Law (small memory): beside the database's own cache, which is bounded, memory holds a line for each leaf of a
//! bounded number of logs, and fingerprints up to a bound; never an envelope, never the index itself.
//!
//! | table | key | value |
//! |---|---|---|
//! | `envelopes` | log, number | `[entry, envelope]` |
//! | `names` | log, name | number |
//! | `leaves` | log, lowest number of the leaf | up to [`LEAF_RECORDS`] records of 40 bytes |
//! | `directory` | log, lowest number of the leaf | how many records it has |
//! | `name-leaves` | log, lowest name of the leaf | up to [`NAME_LEAF_RECORDS`] records of 40 bytes, each at its shared place |
//! | `name-directory` | log, lowest name of the leaf | how many records it has |
//! | `rows` | any | any |
//!
//! A leaf's key is a lower bound of its numbers, or names; the first leaf's is zero. A leaf goes when it is empty, and is
//! not joined to its neighbour before.
//!
//! Rows of form 1 had no `name-` tables, and could have records in leaves that are not theirs: the index is made anew in
//! both orders as the store is opened, in one transaction.

mod directory;
mod index;
mod order;
mod upgrade;
mod write;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use overlane_core::store::StoreError;
use overlane_core::wire::cbor::Reader;
use overlane_relay::log::{Change, Entry, EnvelopeId, LogId, LogStore, Row};
use redb::{ReadTransaction, ReadableTable as _, TableDefinition, WriteTransaction};

use crate::database::{Bytes, Database, Form};
use crate::vfs::{RealVfs, Vfs};
use directory::Directory;
pub use index::LogIndex;
pub use order::{LEAF_RECORDS, NAME_LEAF_RECORDS};
use order::{Order, TOP_RECORD, floor};

const ENVELOPES: Bytes = TableDefinition::new("envelopes");
const NAMES: Bytes = TableDefinition::new("names");
const ROWS: Bytes = TableDefinition::new("rows");

const FORM: Form = Form {
    kind: "logs",
    rows: 2,
    cache_bytes: LOGS_CACHE_BYTES,
    make,
    older: Some((1, upgrade::index_anew)),
};

/// How much of the file is kept in memory: the index of a million envelopes, and some room.
pub const LOGS_CACHE_BYTES: usize = 56 * 1024 * 1024;

/// How much of the index is read into memory as the store is opened, so that the first question about a
/// large log waits for no disk.
pub const LOGS_WARMED_BYTES: usize = 44 * 1024 * 1024;

// Nine tenths of the cache are for what was read.
const _: () = assert!(LOGS_WARMED_BYTES < LOGS_CACHE_BYTES / 10 * 9);

/// Logs whose directories are kept in memory, one for each order.
pub const DIRECTORIES_CACHED: usize = 64;

/// Fingerprints kept of all logs; beyond it those of all but the log that is asked about are forgotten.
pub const FINGERPRINTS_KEPT: usize = 65_536;

/// The store of a node's logs and mail. One owner at a time; dropping it gives up its lock.
#[derive(Debug)]
pub struct LogsStore {
    database: Database,
    directories: BTreeMap<(LogId, Order), Directory>,
    /// How often a directory was used.
    uses: u64,
}

impl LogsStore {
    /// Opens the store in this folder of the platform's file system, and makes it if the folder
    /// has none.
    ///
    /// # Errors
    /// [`StoreError`]: the folder cannot be written, is held by another process, is another kind
    /// of store or of another program's form, or the file is damaged.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_on(Arc::new(RealVfs), path)
    }

    /// The same behind any door to a disk.
    ///
    /// # Errors
    /// As [`LogsStore::open`].
    pub fn open_on(vfs: Arc<dyn Vfs>, path: &Path) -> Result<Self, StoreError> {
        let database = Database::open(vfs, path, FORM)?;
        database.read(|transaction| warm(transaction, LOGS_WARMED_BYTES))?;
        Ok(Self {
            database,
            directories: BTreeMap::new(),
            uses: 0,
        })
    }

    /// Holds the index of a log, in both orders, against its envelopes.
    ///
    /// # Errors
    /// They differ, or cannot be read.
    pub fn verify(&mut self, log: &LogId) -> Result<(), StoreError> {
        use overlane_recon::Storage as _;
        let entries = self.entries(log, 0, usize::MAX)?;
        for entry in &entries {
            if self.seq_of(log, &entry.id)? != Some(entry.seq) {
                return Err(self.damaged(format!("{} has no name in log {log}", entry.id)));
            }
        }
        for order in Order::BOTH {
            let items = entries.iter().map(|it| order.record(it.seq, it.id));
            let mut items: Vec<_> = items.flatten().collect();
            items.sort_unstable();
            let mut index = self.index_in(log, order)?;
            let mut held = Vec::new();
            let count = index.position(overlane_recon::bounds::TOP)?;
            index.visit(0..count, &mut |records| held.extend_from_slice(records))?;
            if items != held {
                return Err(self.damaged(format!(
                    "the index of log {log}, by {order:?}, is not that of its envelopes"
                )));
            }
        }
        Ok(())
    }

    fn damaged(&self, cause: String) -> StoreError {
        self.database.damaged(&cause)
    }

    /// Reads the log's directory, unless it is in memory. It is the one used last.
    fn load_directory(&mut self, log: &LogId, order: Order) -> Result<(), StoreError> {
        self.uses += 1;
        if let Some(directory) = self.directories.get_mut(&(*log, order)) {
            directory.used = self.uses;
            return Ok(());
        }
        let mut directory = self.database.read(|transaction| {
            let table = transaction.open_table(order.lines())?;
            let (from, to) = (order.key(log, &floor(0)), order.key(log, &TOP_RECORD));
            let leaves = table.range(&from[..]..=&to[..])?.map(|row| {
                let (key, count) = row?;
                Ok((order.lower(key.value()), count_of(count.value())))
            });
            leaves.collect::<Result<Directory, redb::Error>>()
        })?;
        directory.used = self.uses;
        self.directories.insert((*log, order), directory);
        Ok(())
    }

    /// Lets go of directories beyond the bound, those that were not used for longest, and of fingerprints beyond theirs;
    /// not of those of the log in hand.
    fn let_directories_go(&mut self, in_hand: Option<(LogId, Order)>) {
        let most = DIRECTORIES_CACHED * Order::BOTH.len();
        let over = self.directories.len().saturating_sub(most);
        if over > 0 {
            let others = self.directories.iter();
            let others = others.filter(|it| Some(*it.0) != in_hand);
            let mut others: Vec<_> = others.map(|it| (it.1.used, *it.0)).collect();
            others.sort_unstable();
            for (_, key) in others.into_iter().take(over) {
                self.directories.remove(&key);
            }
        }
        forget_fingerprints(&mut self.directories, in_hand, FINGERPRINTS_KEPT);
    }

    fn index_in(&mut self, log: &LogId, order: Order) -> Result<LogIndex<'_>, StoreError> {
        let key = (*log, order);
        self.load_directory(log, order)?;
        self.let_directories_go(Some(key));
        let leaves = self.database.begin(order.leaves())?;
        let gone = StoreError::Poisoned {
            cause: "a directory is gone".into(),
        };
        let directory = self.directories.get_mut(&key).ok_or(gone)?;
        Ok(LogIndex::new(key, &self.database, leaves, directory))
    }

    fn read_envelope<T>(
        &self,
        log: &LogId,
        seq: u64,
        read: impl Fn(u64, &[u8]) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let found = self.database.read(|transaction| {
            let table = transaction.open_table(ENVELOPES)?;
            let row = table.get(&numbered(log, seq)[..])?;
            Ok(row.map(|row| read(seq, row.value())))
        })?;
        let bad = || self.damaged(format!("envelope {seq} of log {log} does not read"));
        found.map(|read| read.ok_or_else(bad)).transpose()
    }
}

impl LogStore for LogsStore {
    type Error = StoreError;
    type Index<'s> = LogIndex<'s>;

    fn index(&mut self, log: &LogId) -> Result<LogIndex<'_>, StoreError> {
        self.index_in(log, Order::Numbers)
    }

    fn shared_index(&mut self, log: &LogId) -> Result<LogIndex<'_>, StoreError> {
        self.index_in(log, Order::Names)
    }

    fn seq_of(&mut self, log: &LogId, id: &EnvelopeId) -> Result<Option<u64>, StoreError> {
        self.database.read(|transaction| {
            let table = transaction.open_table(NAMES)?;
            let seq = table.get(&named(log, id)[..])?;
            Ok(seq.map(|seq| number_of(seq.value())))
        })
    }

    fn entry(&mut self, log: &LogId, seq: u64) -> Result<Option<Entry>, StoreError> {
        self.read_envelope(log, seq, entry_in)
    }

    fn envelope(&mut self, log: &LogId, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.read_envelope(log, seq, |_, value| {
            let mut reader = Reader::new(value);
            reader.expect_array(2).ok()?;
            reader.value::<Entry>().ok()?;
            reader.bytes().ok().map(<[u8]>::to_vec)
        })
    }

    fn entries(&mut self, log: &LogId, from: u64, most: usize) -> Result<Vec<Entry>, StoreError> {
        let entries = self.database.read(|transaction| {
            let table = transaction.open_table(ENVELOPES)?;
            let rows = table
                .range(&numbered(log, from)[..]..=&numbered(log, u64::MAX)[..])?
                .take(most)
                .map(|row| {
                    let (key, value) = row?;
                    Ok(entry_in(number_of(key.value()), value.value()))
                });
            rows.collect::<Result<Option<Vec<Entry>>, redb::Error>>()
        })?;
        entries.ok_or_else(|| self.damaged(format!("an envelope of log {log} does not read")))
    }

    fn rows(&mut self, prefix: &[u8]) -> Result<Vec<Row>, StoreError> {
        self.database.read(|transaction| {
            let table = transaction.open_table(ROWS)?;
            let mut rows = Vec::new();
            for row in table.range(prefix..)? {
                let (key, value) = row?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                rows.push((key.value().to_vec(), value.value().to_vec()));
            }
            Ok(rows)
        })
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.write(changes)
    }
}

fn make(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    for table in [ENVELOPES, NAMES, ROWS] {
        transaction.open_table(table)?;
    }
    for order in Order::BOTH {
        transaction.open_table(order.leaves())?;
        transaction.open_table(order.lines())?;
    }
    Ok(())
}

/// Forgets the fingerprints of all but the log in hand, if there are so many.
fn forget_fingerprints(
    directories: &mut BTreeMap<(LogId, Order), Directory>,
    in_hand: Option<(LogId, Order)>,
    most: usize,
) {
    let kept: usize = directories.values().map(Directory::fingerprints).sum();
    if kept < most {
        return;
    }
    for (key, directory) in directories {
        if Some(*key) != in_hand {
            directory.forget_fingerprints();
        }
    }
}

/// Reads leaves into the database's cache, so many bytes of them at most; gives how many.
fn warm(transaction: &ReadTransaction, most_bytes: usize) -> Result<usize, redb::Error> {
    let mut read = 0;
    for leaf in transaction.open_table(Order::Numbers.leaves())?.iter()? {
        let more = read + leaf?.1.value().len();
        if more > most_bytes {
            break;
        }
        read = more;
    }
    Ok(read)
}

fn entry_in(seq: u64, value: &[u8]) -> Option<Entry> {
    let mut reader = Reader::new(value);
    reader.expect_array(2).ok()?;
    let entry: Entry = reader.value().ok()?;
    Some(Entry { seq, ..entry })
}

const KEY_BYTES: usize = 40;

/// The key of a number in a log.
fn numbered(log: &LogId, seq: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let source = log.0.into_iter().chain(seq.to_be_bytes());
    key.iter_mut().zip(source).for_each(|(to, from)| *to = from);
    key
}

fn named(log: &LogId, id: &EnvelopeId) -> [u8; 64] {
    let mut key = [0; 64];
    let source = log.0.into_iter().chain(id.0);
    key.iter_mut().zip(source).for_each(|(to, from)| *to = from);
    key
}

/// The number at the end of a key, or a value that is one.
fn number_of(bytes: &[u8]) -> u64 {
    bytes.last_chunk().map_or(0, |it| u64::from_be_bytes(*it))
}

fn count_of(bytes: &[u8]) -> usize {
    let count = bytes.first_chunk().map_or(0, |it| u32::from_be_bytes(*it));
    count as usize
}

#[cfg(test)]
mod tests {
    use overlane_core::Did;
    use overlane_recon::RECORD_BYTES;

    use super::*;
    use crate::testkit::Disk;

    fn append(log: LogId, seq: u64) -> Change {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&seq.to_be_bytes());
        let entry = Entry {
            seq,
            id: overlane_recon::Id(id),
            author: Did([1; 20]),
            slot: 0,
            stored_ms: seq,
            expires_ms: u64::MAX,
            bytes: 1,
        };
        Change::Append {
            log,
            entry,
            envelope: vec![1],
        }
    }

    fn open() -> LogsStore {
        LogsStore::open_on(Disk::new().vfs(), Path::new("/home/logs")).unwrap()
    }

    /// Each log of a transaction is changed by its own directory, however many there are, and few are kept after it.
    #[test]
    fn law_logs_a_transaction_changes_more_logs_than_have_their_directories_in_memory() {
        const LOGS: usize = 2 * DIRECTORIES_CACHED + 2;
        let name = |log: usize| LogId([log as u8; 32]);
        let mut store = open();
        let many = 1..2 * LEAF_RECORDS as u64;
        for log in [name(0), name(LOGS - 1)] {
            let changes = many.clone().map(|seq| append(log, seq));
            store.commit(changes.collect()).unwrap();
        }
        let more = (0..LOGS).map(|log| append(name(log), many.end));
        store.commit(more.collect()).unwrap();
        let kept = DIRECTORIES_CACHED * Order::BOTH.len();
        assert_eq!(store.directories.len(), kept);
        for log in 0..LOGS {
            store.verify(&name(log)).unwrap();
            assert!(store.directories.len() <= kept);
        }
        assert_eq!(store.entries(&name(0), many.end, 9).unwrap().len(), 1);
    }

    /// One that is used between others stays, whatever its name.
    #[test]
    fn law_logs_the_directory_that_was_not_used_for_longest_goes_first() {
        let name = |log: usize| LogId([log as u8; 32]);
        let mut store = open();
        for log in 0..3 * DIRECTORIES_CACHED {
            for used in [name(0), name(log)] {
                store.commit(vec![append(used, log as u64 + 1)]).unwrap();
            }
            assert!(store.directories.len() <= 2 * DIRECTORIES_CACHED);
        }
        let kept: Vec<LogId> = store.directories.keys().map(|it| it.0).collect();
        let last = 2 * DIRECTORIES_CACHED + 1..3 * DIRECTORIES_CACHED;
        let last = last.map(name);
        let wanted: Vec<LogId> = [name(0)].into_iter().chain(last).collect();
        let wanted: Vec<LogId> = wanted.into_iter().flat_map(|it| [it, it]).collect();
        assert_eq!(kept, wanted);
    }

    #[test]
    fn law_logs_the_fingerprints_kept_of_all_logs_are_bounded() {
        let mut directories = BTreeMap::new();
        for log in 0..4_u8 {
            let mut directory = Directory::default();
            for first in 0..10 {
                let fingerprint = overlane_recon::Fingerprint([1; 32]);
                directory.keep(floor(first), floor(first), &(0..100), fingerprint);
            }
            directories.insert((LogId([log; 32]), Order::Names), directory);
        }
        let in_hand = (LogId([2; 32]), Order::Names);
        let kept = |all: &BTreeMap<_, Directory>| {
            let kept = all.values().map(Directory::fingerprints);
            kept.collect::<Vec<_>>()
        };
        forget_fingerprints(&mut directories, Some(in_hand), 41);
        assert_eq!(kept(&directories), [10; 4]);
        forget_fingerprints(&mut directories, Some(in_hand), 40);
        assert_eq!(kept(&directories), [0, 0, 10, 0]);
        const { assert!(directory::KEPT_MAX < FINGERPRINTS_KEPT) };
    }

    /// The constant is the bound that `open` gives; filling it takes over a million envelopes.
    #[test]
    fn law_logs_no_more_of_the_index_is_warmed_than_the_bound() {
        const LOG: LogId = LogId([3; 32]);
        let envelopes = 3 * LEAF_RECORDS as u64;
        let mut store = open();
        let changes = (1..=envelopes).map(|seq| append(LOG, seq));
        store.commit(changes.collect()).unwrap();
        let all = envelopes as usize * RECORD_BYTES;
        let warmed = |most| store.database.read(|it| warm(it, most)).unwrap();
        assert_eq!(warmed(all), all);
        assert_eq!(warmed(usize::MAX), all);
        let mut sizes = Vec::new();
        for most in (0..all).step_by(1_000) {
            let read = warmed(most);
            assert!(read <= most, "{read} of {most} bytes");
            sizes.push(read);
        }
        // It is the bound that ends it, leaf by leaf.
        sizes.dedup();
        assert!(sizes.len() >= 3 && sizes[0] == 0, "{sizes:?}");
    }
}
