//! Rows of form 1: the index by name is made from the names.

use overlane_recon::Record;
use overlane_relay::log::LogId;
use redb::{ReadableTable as _, Table, WriteTransaction};

use super::NAMES;
use super::order::{NAME_LEAF_RECORDS, Order, floor};

/// Records of a leaf that is made so: some come before it is full.
const FILLED: usize = NAME_LEAF_RECORDS * 3 / 4;

/// Makes the index by name anew, whatever was there: an older program may have had the database since, which changes
/// names alone. Holds one leaf in memory; the transaction's pages are in the database's cache, which is bounded.
pub(super) fn index_the_names(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.delete_table(Order::Names.leaves())?;
    transaction.delete_table(Order::Names.lines())?;
    let names = transaction.open_table(NAMES)?;
    let mut made = Made {
        leaves: transaction.open_table(Order::Names.leaves())?,
        lines: transaction.open_table(Order::Names.lines())?,
        log: None,
        leaf: Vec::new(),
        lower: floor(0),
    };
    for name in names.iter()? {
        let (key, _) = name?;
        let key = key.value();
        let (log, id) = key.split_at_checked(32).unwrap_or_default();
        let (Ok(log), Ok(id)) = (log.try_into(), id.try_into()) else {
            return Err(redb::Error::Corrupted("a name is none".into()));
        };
        made.add(LogId(log), overlane_recon::Id(id))?;
    }
    made.write()
}

/// The index as far as it is made. Names come in the order of the leaves.
struct Made<'t> {
    leaves: Table<'t, &'static [u8], &'static [u8]>,
    lines: Table<'t, &'static [u8], &'static [u8]>,
    log: Option<LogId>,
    leaf: Vec<Record>,
    lower: Record,
}

impl Made<'_> {
    fn add(&mut self, log: LogId, id: overlane_recon::Id) -> Result<(), redb::Error> {
        let Some(record) = Order::Names.record(0, id) else {
            return Ok(());
        };
        let other = self.log != Some(log);
        if other || self.leaf.len() >= FILLED {
            self.write()?;
            self.log = Some(log);
            self.lower = if other { floor(0) } else { record };
        }
        self.leaf.push(record);
        Ok(())
    }

    fn write(&mut self) -> Result<(), redb::Error> {
        let Some(log) = self.log.filter(|_| !self.leaf.is_empty()) else {
            return Ok(());
        };
        let key = Order::Names.key(&log, &self.lower);
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
        let filled = FILLED as u64;
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
        old().write(index_the_names).unwrap();
        let name = |transaction: &WriteTransaction| {
            let changes = [append(LOGS[0], 4), append(LOGS[1], 201)];
            super::super::write::write_envelopes(transaction, &changes)?;
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
