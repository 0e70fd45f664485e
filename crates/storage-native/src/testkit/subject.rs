//! A store as the suites see it.

use std::path::{Path, PathBuf};

use overlane_core::store::{RecordName, StoreError};

use super::{Disk, Image};
use crate::{FilesStore, StoreAdmin};

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
