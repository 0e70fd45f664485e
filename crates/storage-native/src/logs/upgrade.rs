//! Rows of form 1: the index is made anew from the envelopes and their names.
//!
//! Form 1 had no index by name. In its index by number a transaction over more logs than have their directories in memory
//! put records into leaves that were not theirs, which nothing that such a store does later mends.

use overlane_recon::Record;
use overlane_relay::log::LogId;
use redb::{ReadableTable as _, Table, WriteTransaction};

use super::order::{LEAF_RECORDS, NAME_LEAF_RECORDS, Order, floor};
use super::{ENVELOPES, NAMES, entry_in, number_of};

/// Makes the index anew in both orders, whatever was there: an older program may have had the database since, which
/// changes numbers alone. Reads each envelope once, and holds one leaf in memory; the transaction's pages are in the
/// database's cache, which is bounded.
pub(super) fn index_anew(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    index_the_numbers(transaction)?;
    index_the_names(transaction)
}

fn index_the_numbers(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let mut made = Made::new(transaction, Order::Numbers)?;
    for envelope in transaction.open_table(ENVELOPES)?.iter()? {
        let (key, value) = envelope?;
        let (key, value) = (key.value(), value.value());
        let log = key.first_chunk().copied();
        let read = log.zip(entry_in(number_of(key), value));
        let Some((log, entry)) = read else {
            let (log, seq) = (log.map(LogId), number_of(key));
            let cause = format!("envelope {seq} of log {log:?} does not read");
            return Err(redb::Error::Corrupted(cause));
        };
        made.add(LogId(log), entry.seq, entry.id)?;
    }
    made.write()
}

fn index_the_names(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let mut made = Made::new(transaction, Order::Names)?;
    for name in transaction.open_table(NAMES)?.iter()? {
        let (key, seq) = name?;
        let key = key.value();
        let (log, id) = key.split_at_checked(32).unwrap_or_default();
        let (Ok(log), Ok(id)) = (log.try_into(), id.try_into()) else {
            return Err(redb::Error::Corrupted("a name is none".into()));
        };
        made.add(LogId(log), number_of(seq.value()), overlane_recon::Id(id))?;
    }
    made.write()
}

/// The records of a leaf that is made so: where they come inside, some come before it is full.
const fn filled(order: Order) -> usize {
    match order {
        Order::Numbers => LEAF_RECORDS,
        Order::Names => NAME_LEAF_RECORDS * 3 / 4,
    }
}

/// The index in one order, as far as it is made. Records come in the order of the leaves.
struct Made<'t> {
    order: Order,
    leaves: Table<'t, &'static [u8], &'static [u8]>,
    lines: Table<'t, &'static [u8], &'static [u8]>,
    log: Option<LogId>,
    leaf: Vec<Record>,
    lower: Record,
}

impl<'t> Made<'t> {
    /// Nothing, in place of what there was.
    fn new(transaction: &'t WriteTransaction, order: Order) -> Result<Self, redb::Error> {
        transaction.delete_table(order.leaves())?;
        transaction.delete_table(order.lines())?;
        Ok(Self {
            order,
            leaves: transaction.open_table(order.leaves())?,
            lines: transaction.open_table(order.lines())?,
            log: None,
            leaf: Vec::new(),
            lower: floor(0),
        })
    }

    fn add(&mut self, log: LogId, seq: u64, id: overlane_recon::Id) -> Result<(), redb::Error> {
        let Some(record) = self.order.record(seq, id) else {
            return Ok(());
        };
        let other = self.log != Some(log);
        if other || self.leaf.len() >= filled(self.order) {
            self.write()?;
            self.log = Some(log);
            self.lower = if other {
                floor(0)
            } else {
                self.order.lower_of(&record)
            };
        }
        self.leaf.push(record);
        Ok(())
    }

    fn write(&mut self) -> Result<(), redb::Error> {
        let Some(log) = self.log.filter(|_| !self.leaf.is_empty()) else {
            return Ok(());
        };
        let key = self.order.key(&log, &self.lower);
        let count = u32::try_from(self.leaf.len()).unwrap_or(u32::MAX);
        self.leaves.insert(&key[..], self.leaf.as_flattened())?;
        self.lines.insert(&key[..], &count.to_be_bytes()[..])?;
        self.leaf.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use overlane_core::Did;
    use overlane_core::store::StoreError;
    use overlane_relay::log::{Change, Entry, EnvelopeId, LogStore as _};

    use super::super::directory::Directory;
    use super::super::write::{write_envelopes, write_index};
    use super::super::{LOGS_CACHE_BYTES, LogsStore};
    use super::*;
    use crate::database::{Database, Form};
    use crate::testkit::{CrashChoices, Disk, Mutant};

    const FOLDER: &str = "/home/logs";
    const LOGS: [LogId; 3] = [LogId([1; 32]), LogId([2; 32]), LogId([0xff; 32])];

    const FIRST: Form = Form {
        kind: "logs",
        rows: 1,
        cache_bytes: LOGS_CACHE_BYTES,
        make: super::super::make,
        older: None,
    };

    fn id(seq: u64) -> EnvelopeId {
        overlane_recon::Id(*blake3::hash(&seq.to_be_bytes()).as_bytes())
    }

    fn append(log: LogId, seq: u64) -> Change {
        let entry = Entry {
            seq,
            id: id(seq),
            author: Did([1; 20]),
            slot: 0,
            stored_ms: 5,
            expires_ms: 9,
            bytes: 1,
        };
        let envelope = vec![seq as u8];
        Change::Append {
            log,
            entry,
            envelope,
        }
    }

    fn open(disk: &Disk) -> Result<LogsStore, StoreError> {
        LogsStore::open_on(disk.vfs(), Path::new(FOLDER))
    }

    /// A disk with what a store of form 1 held, of so many envelopes a log.
    fn first_form(disk: &Disk, envelopes: [u64; 3]) {
        let database = Database::open(disk.vfs(), Path::new(FOLDER), FIRST).unwrap();
        let mut store = LogsStore {
            database,
            directories: Default::default(),
            uses: 0,
        };
        for (log, count) in LOGS.into_iter().zip(envelopes) {
            let changes = (1..=count).map(|seq| append(log, seq)).collect();
            store.commit(changes).unwrap();
        }
        // What this program wrote of its own index, the one before did not.
        let forget = |transaction: &WriteTransaction| {
            transaction.delete_table(Order::Names.leaves())?;
            transaction.delete_table(Order::Names.lines())?;
            Ok(())
        };
        store.database.write(forget).unwrap();
    }

    fn check(disk: &Disk, envelopes: [u64; 3]) -> Result<(), String> {
        let mut store = open(disk).map_err(|error| format!("does not open: {error}"))?;
        for (log, count) in LOGS.into_iter().zip(envelopes) {
            store.verify(&log).map_err(|error| error.to_string())?;
            let held = store.entries(&log, 0, usize::MAX).unwrap().len();
            assert_eq!(held as u64, count);
        }
        // And it goes on.
        let more = (10_001..10_300).map(|seq| append(LOGS[1], seq));
        store.commit(more.collect()).unwrap();
        store.verify(&LOGS[1]).map_err(|error| error.to_string())
    }

    #[test]
    fn law_logs_a_store_of_the_form_before_is_given_its_index_by_name() {
        let filled = filled(Order::Names) as u64;
        for envelopes in [[0, 0, 0], [3, 0, 1], [filled, filled + 1, 5 * filled + 7]] {
            let disk = Disk::new();
            first_form(&disk, envelopes);
            check(&disk, envelopes).unwrap();
            let mut again = open(&disk).unwrap();
            again.verify(&LOGS[1]).unwrap();
            drop(again);
            // The program before does not take what it would not keep up.
            let older = Database::open(disk.vfs(), Path::new(FOLDER), FIRST).unwrap_err();
            assert!(older.to_string().contains("form 2"), "{older}");
        }
    }

    /// What the program before changed after a making that was cut short is in the index.
    #[test]
    fn law_logs_an_index_that_was_made_before_is_made_anew() {
        let disk = Disk::new();
        first_form(&disk, [3, 200, 1]);
        let old = || Database::open(disk.vfs(), Path::new(FOLDER), FIRST).unwrap();
        old().write(index_anew).unwrap();
        let name = |transaction: &WriteTransaction| {
            let changes = [append(LOGS[0], 4), append(LOGS[1], 201)];
            write_envelopes(transaction, &changes)?;
            let numbers = Order::Numbers;
            for (log, seq) in [(LOGS[0], 4), (LOGS[1], 201)] {
                let record = numbers.record(seq, id(seq));
                let key = numbers.key(&log, &floor(0));
                let mut leaves = transaction.open_table(numbers.leaves())?;
                let mut leaf = leaves.get(&key[..])?.unwrap().value().to_vec();
                leaf.extend(record.unwrap());
                let count = (leaf.len() / overlane_recon::RECORD_BYTES) as u32;
                leaves.insert(&key[..], &leaf[..])?;
                let mut lines = transaction.open_table(numbers.lines())?;
                lines.insert(&key[..], &count.to_be_bytes()[..])?;
            }
            Ok(())
        };
        old().write(name).unwrap();
        check(&disk, [4, 201, 1]).unwrap();
    }

    /// A transaction over more logs than have their directories in memory changed the leaves of one by no directory.
    fn damage_the_numbers(disk: &Disk) {
        let key = (LOGS[1], Order::Numbers);
        let mut database = Database::open(disk.vfs(), Path::new(FOLDER), FIRST).unwrap();
        let changes = |it: &[Change], transaction: &WriteTransaction, directory| {
            write_envelopes(transaction, it)?;
            let records = it.iter().map(|it| match it {
                Change::Append { entry, .. } => (entry.seq, entry.id, true),
                Change::Remove { seq, id, .. } => (*seq, *id, false),
                Change::Row { .. } => panic!("no change of the index"),
            });
            let records = records.map(|(seq, id, comes)| (key.1.record(seq, id).unwrap(), comes));
            write_index(transaction, key, directory, &records.collect()).map(drop)
        };
        let (log, seq) = (LOGS[1], 7);
        let removed = [Change::Remove {
            log,
            seq,
            id: id(7),
        }];
        let none = Directory::default();
        let gone = |it: &WriteTransaction| changes(&removed, it, &none);
        database.write(gone).unwrap();
        let comes = |it: &WriteTransaction| changes(&[append(log, 1_001)], it, &none);
        database.write(comes).unwrap();
    }

    #[test]
    fn law_logs_leaves_of_numbers_that_a_program_before_damaged_are_made_anew() {
        let envelopes = [3, 1_000, 1];
        let damaged = || {
            let disk = Disk::new();
            first_form(&disk, envelopes);
            damage_the_numbers(&disk);
            disk
        };
        check(&damaged(), envelopes).unwrap();
        // It is damage, and an index by name alone leaves it.
        let disk = damaged();
        let mut database = Database::open(disk.vfs(), Path::new(FOLDER), FIRST).unwrap();
        database.write(index_the_names).unwrap();
        let mut store = LogsStore {
            database,
            directories: Default::default(),
            uses: 0,
        };
        let words = store.verify(&LOGS[1]).unwrap_err().to_string();
        assert!(words.contains("by Numbers"), "{words}");
        drop(store);
        // What began to be made by such a program is made again.
        check(&disk, envelopes).unwrap();
    }

    /// How many crash images of the first open were opened, all different.
    fn crashes() -> Result<usize, String> {
        let envelopes = [5, 40, 0];
        let disk = Disk::new();
        first_form(&disk, envelopes);
        let from = disk.position();
        drop(open(&disk).map_err(|error| format!("on a sound disk: {error}"))?);
        let choices = CrashChoices {
            exhaustive_max: 3,
            samples: 4,
            seed: 7,
            last_kept: false,
        };
        let recording = disk.recording();
        let (mut seen, mut violation) = (HashSet::new(), None);
        for position in from..=recording.len() {
            recording.crash_images(position, choices, |image| {
                if violation.is_none() && seen.insert(image.digest()) {
                    let why = check(&Disk::from_image(&image), envelopes).err();
                    violation = why.map(|why| format!("effect {position}, seed 7: {why}"));
                }
            });
        }
        violation.map_or(Ok(seen.len()), Err)
    }

    #[test]
    fn crash_logs_a_store_of_the_form_before_is_whole_wherever_its_first_open_ends() {
        let images = crashes().unwrap_or_else(|why| panic!("{why}"));
        println!("logs of form 1: {images} distinct crash images, 0 violations");
        assert!(images > 20, "{images}");
    }

    #[test]
    fn law_logs_a_form_that_is_said_too_early_is_caught_by_a_crash() {
        let caught = Mutant::FormFirst.run(crashes);
        assert!(caught.is_err(), "{caught:?}");
    }
}
