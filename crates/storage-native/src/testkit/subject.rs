//! A store as the suites see it.

use std::path::{Path, PathBuf};

use overlane_core::store::{Change, Found, RecordName, RecordStore, Scan, StoreError};

use super::splice;
use super::{Disk, Image};
use crate::journal::{self, JournalConfig, JournalStore, Pace};
use crate::{Cleared, FilesStore, StoreAdmin, StoreSummary};

/// Where a subject's store lies on the disk.
pub const STORE_FOLDER: &str = "/home/replay";

/// One store under test, and how something outside it would harm it on the disk. The store is
/// closed while it is harmed.
pub trait Subject: Sync {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Opens the store in [`STORE_FOLDER`].
    ///
    /// # Errors
    /// As the store says.
    fn open(&self, disk: &Disk, budget_bytes: u64) -> Result<Box<dyn StoreAdmin>, StoreError>;

    /// Flips one bit of a record.
    fn damage(&self, image: &mut Image, name: RecordName);

    /// Takes one record away.
    fn take_away(&self, image: &mut Image, name: RecordName);

    /// Puts a copy of one record in the place of another.
    fn misplace(&self, image: &mut Image, of: RecordName, under: RecordName);

    /// What `record_bytes` bytes of records, `records` in number, count against the budget.
    fn budget_of(&self, records: u64, record_bytes: u64) -> u64;
}

/// The store of one file a record.
#[derive(Debug, Clone, Copy, Default)]
pub struct FilesSubject;

impl FilesSubject {
    fn path(name: RecordName) -> PathBuf {
        Path::new(STORE_FOLDER).join(name.to_string())
    }
}

impl Subject for FilesSubject {
    fn name(&self) -> &'static str {
        "files"
    }

    fn open(&self, disk: &Disk, budget_bytes: u64) -> Result<Box<dyn StoreAdmin>, StoreError> {
        let store = FilesStore::open(disk.vfs(), Path::new(STORE_FOLDER), budget_bytes)?;
        Ok(Box::new(store))
    }

    fn damage(&self, image: &mut Image, name: RecordName) {
        let path = Self::path(name);
        let mut bytes = image.take(&path).unwrap_or_default();
        let middle = bytes.len() / 2;
        bytes
            .iter_mut()
            .skip(middle)
            .take(1)
            .for_each(|byte| *byte ^= 1);
        image.put(&path, bytes);
    }

    fn take_away(&self, image: &mut Image, name: RecordName) {
        image.take(&Self::path(name));
    }

    fn misplace(&self, image: &mut Image, of: RecordName, under: RecordName) {
        let bytes = image.file(&Self::path(of)).unwrap_or_default().to_vec();
        image.put(&Self::path(under), bytes);
    }

    fn budget_of(&self, records: u64, record_bytes: u64) -> u64 {
        records
            .saturating_mul(crate::files::ENVELOPE_BYTES as u64)
            .saturating_add(record_bytes)
    }
}

/// The journal, with segments so short that every scenario of some length turns them.
#[derive(Debug, Clone, Copy)]
pub struct JournalSubject {
    /// How many segments.
    pub segments: usize,
    /// How many records of a checkpoint each batch writes; with none, a checkpoint goes on only
    /// when the journal cannot without it.
    pub step_records: usize,
    /// Whether sealing writes a snapshot too, so that records are found in it.
    pub snapshot_at_seal: bool,
}

impl JournalSubject {
    /// Two segments, records in the journal.
    pub const SHORT: Self = Self {
        segments: 2,
        step_records: 1,
        snapshot_at_seal: false,
    };
    /// Checkpoints that end as late as they can.
    pub const LATE: Self = Self {
        segments: 2,
        step_records: 0,
        snapshot_at_seal: false,
    };
    /// Records in the snapshot.
    pub const COMPACTED: Self = Self {
        segments: 3,
        step_records: 1,
        snapshot_at_seal: true,
    };

    fn config(self, budget_bytes: u64) -> JournalConfig {
        JournalConfig {
            budget_bytes,
            segments: self.segments,
            segment_bytes: 0,
            pace: Pace::Stepped {
                records: self.step_records,
            },
            apply: splice::apply,
        }
    }

    /// Lets `harm` at every copy of the record's bytes.
    fn harm(image: &mut Image, name: RecordName, harm: impl Fn(&mut [u8])) {
        let paths: Vec<PathBuf> = image.files().map(Path::to_path_buf).collect();
        for path in paths {
            let file_name = path.file_name().unwrap_or_default().to_string_lossy();
            let mut bytes = image.take(&path).unwrap_or_default();
            for range in journal::locate(&file_name, &bytes, name) {
                harm(bytes.get_mut(range).unwrap_or_default());
            }
            image.put(&path, bytes);
        }
    }

    fn copy_of(image: &Image, name: RecordName) -> Vec<u8> {
        let copy = image.files().find_map(|path| {
            let file_name = path.file_name()?.to_string_lossy();
            let bytes = image.file(path)?;
            let range = journal::locate(&file_name, bytes, name).pop()?;
            bytes.get(range).map(<[u8]>::to_vec)
        });
        copy.unwrap_or_default()
    }
}

impl Subject for JournalSubject {
    fn name(&self) -> &'static str {
        match (self.snapshot_at_seal, self.step_records) {
            (true, _) => "journal with snapshots",
            (false, 0) => "journal with late checkpoints",
            (false, _) => "journal",
        }
    }

    fn open(&self, disk: &Disk, budget_bytes: u64) -> Result<Box<dyn StoreAdmin>, StoreError> {
        let config = self.config(budget_bytes);
        let store = JournalStore::open(disk.vfs(), Path::new(STORE_FOLDER), config)?;
        Ok(match self.snapshot_at_seal {
            true => Box::new(SnapshotAtSeal(store)),
            false => Box::new(store),
        })
    }

    fn damage(&self, image: &mut Image, name: RecordName) {
        Self::harm(image, name, |bytes| {
            let middle = bytes.len() / 2;
            bytes
                .iter_mut()
                .skip(middle)
                .take(1)
                .for_each(|byte| *byte ^= 1);
        });
    }

    fn take_away(&self, image: &mut Image, name: RecordName) {
        Self::harm(image, name, |bytes| bytes.fill(0));
    }

    fn misplace(&self, image: &mut Image, of: RecordName, under: RecordName) {
        let copy = Self::copy_of(image, of);
        Self::harm(image, under, |bytes| {
            bytes
                .iter_mut()
                .zip(&copy)
                .for_each(|(to, from)| *to = *from);
        });
    }

    fn budget_of(&self, records: u64, record_bytes: u64) -> u64 {
        records
            .saturating_mul(journal::RECORD_OVERHEAD_BYTES as u64)
            .saturating_add(record_bytes)
    }
}

/// A journal whose seals write a snapshot first.
#[derive(Debug)]
struct SnapshotAtSeal(JournalStore);

impl RecordStore for SnapshotAtSeal {
    fn scan(&mut self) -> Result<Scan, StoreError> {
        self.0.scan()
    }

    fn write(&mut self, batch: &[Change]) -> Result<(), StoreError> {
        self.0.write(batch)
    }

    fn seal(&mut self) -> Result<(), StoreError> {
        self.0.checkpoint()?;
        self.0.seal()
    }
}

impl StoreAdmin for SnapshotAtSeal {
    fn summary(&self) -> StoreSummary {
        self.0.summary()
    }

    fn show(&mut self, name: RecordName) -> Result<Found, StoreError> {
        self.0.show(name)
    }

    fn clear(&mut self, name: RecordName) -> Result<Cleared, StoreError> {
        self.0.clear(name)
    }
}
