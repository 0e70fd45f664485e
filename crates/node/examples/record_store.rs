//! A record store of one's own, checked by the conformance kit before a node trusts it: one that tells how many
//! batches it was given, around the store of files. A node is at most as good as its store, so the kit
//! crashes it at every effect, fails its flushes, damages its records, and judges it law by law; the same store
//! with a write left out does not pass.
//!
//! Run it with `cargo run --release -p overlane-node --example record_store`.

use std::error::Error;

use overlane_core::store::{Change, Found, RecordName, RecordStore, Scan, StoreError};
use overlane_storage_native::testkit::conformance::{self as kit, Checked};
use overlane_storage_native::testkit::{Disk, FilesSubject, Image, Subject};
use overlane_storage_native::{Cleared, StoreAdmin, StoreSummary};

/// The store: what it is given goes through, and is counted.
#[derive(Debug)]
struct Counting {
    inner: Box<dyn StoreAdmin>,
    batches: u64,
    /// Every third batch is said to be durable, and is not.
    forgets: bool,
}

impl RecordStore for Counting {
    fn scan(&mut self) -> Result<Scan, StoreError> {
        self.inner.scan()
    }

    fn write(&mut self, batch: &[Change]) -> Result<(), StoreError> {
        self.batches += 1;
        if self.forgets && self.batches.is_multiple_of(3) {
            return Ok(());
        }
        self.inner.write(batch)
    }

    fn seal(&mut self) -> Result<(), StoreError> {
        self.inner.seal()
    }
}

impl StoreAdmin for Counting {
    fn summary(&self) -> StoreSummary {
        self.inner.summary()
    }

    fn show(&mut self, name: RecordName) -> Result<Found, StoreError> {
        self.inner.show(name)
    }

    fn clear(&mut self, name: RecordName) -> Result<Cleared, StoreError> {
        self.inner.clear(name)
    }
}

/// How the kit opens it, and how something outside it would harm it.
struct CountingSubject {
    forgets: bool,
}

impl Subject for CountingSubject {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn open(&self, disk: &Disk, budget_bytes: u64) -> Result<Box<dyn StoreAdmin>, StoreError> {
        Ok(Box::new(Counting {
            inner: FilesSubject.open(disk, budget_bytes)?,
            batches: 0,
            forgets: self.forgets,
        }))
    }

    fn damage(&self, image: &mut Image, name: RecordName) {
        FilesSubject.damage(image, name);
    }

    fn take_away(&self, image: &mut Image, name: RecordName) {
        FilesSubject.take_away(image, name);
    }

    fn misplace(&self, image: &mut Image, of: RecordName, under: RecordName) {
        FilesSubject.misplace(image, of, under);
    }

    fn budget_of(&self, records: u64, record_bytes: u64) -> u64 {
        FilesSubject.budget_of(records, record_bytes)
    }
}

type Law = (&'static str, fn(&dyn Subject) -> Checked);

const LAWS: [Law; 8] = [
    ("release", kit::law_release),
    ("atomicity", kit::law_atomicity),
    ("order", kit::law_order),
    ("fail closed", kit::law_fail_closed),
    ("isolation", kit::law_isolation),
    ("never delete", kit::law_never_delete),
    ("budget", kit::law_budget),
    ("one owner", kit::law_one_owner),
];

fn main() -> Result<(), Box<dyn Error>> {
    let good = CountingSubject { forgets: false };
    for (name, law) in LAWS {
        law(&good)?;
        println!("{name:<12} holds");
    }
    let broken = CountingSubject { forgets: true };
    let noticed = LAWS
        .iter()
        .find_map(|(name, law)| Some((name, law(&broken).err()?)));
    let (law, why) = noticed.ok_or("a store that forgets has passed")?;
    println!("with a write left out, {law} does not: {why}");
    Ok(())
}
