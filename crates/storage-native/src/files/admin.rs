//! An operator's view of the files store.

use overlane_core::store::{Found, RecordName, StoreError};

use super::{CLEARED_INFIX, FileOf, FilesStore, marker};
use crate::admin::{Cleared, StoreAdmin, StoreSummary};
use crate::folder::StoreKind;

/// How often one name can be cleared before its kept copies must be taken away.
const CLEARED_COPIES_MAX: u32 = 1_000;

impl StoreAdmin for FilesStore {
    fn summary(&self) -> StoreSummary {
        StoreSummary {
            kind: StoreKind::Files,
            folder: self.folder.path.clone(),
            records: self.held.len(),
            held_bytes: self.held_bytes,
            budget_bytes: self.budget_bytes,
            foreign_entries: self.foreign_entries,
            cleared_kept: self.cleared_kept,
            leftovers_removed: self.leftovers_removed,
        }
    }

    fn show(&mut self, name: RecordName) -> Result<Found, StoreError> {
        if !self.held.contains_key(&name) {
            return Err(StoreError::UnknownRecord { name });
        }
        Ok(self.read_record(name))
    }

    fn clear(&mut self, name: RecordName) -> Result<Cleared, StoreError> {
        self.refuse_poisoned()?;
        let found = self.show(name)?;
        let kept = self.set_aside(name).map_err(|error| self.poison(error))?;
        if let Some(held) = self.held.remove(&name) {
            self.held_bytes = self.held_bytes.saturating_sub(held.bytes());
        }
        self.cleared_kept = self.cleared_kept.saturating_add(1);
        let kept = self.folder.path.join(kept);
        Ok(Cleared { found, kept })
    }
}

impl FilesStore {
    /// Marker first, as in every removal; then the record takes a name that is no record's.
    fn set_aside(&mut self, name: RecordName) -> Result<String, StoreError> {
        let kept = self.free_name(name)?;
        let held = self.held.get_mut(&name).filter(|held| held.marked);
        if let Some(held) = held {
            self.folder.remove(&marker(name))?;
            held.marked = false;
            self.folder.flush()?;
        }
        match self.held.get(&name).map(|held| held.file) {
            None | Some(FileOf::Nothing) => self.folder.replace(&kept, b"")?,
            Some(_) => self.folder.rename(&name.to_string(), &kept)?,
        }
        self.folder.flush()?;
        Ok(kept)
    }

    fn free_name(&self, name: RecordName) -> Result<String, StoreError> {
        let path = &self.folder.path;
        let entries = self.folder.vfs.list(path);
        let entries = entries.map_err(crate::vfs::failed("list", path))?;
        (1..=CLEARED_COPIES_MAX)
            .map(|copy| format!("{name}{CLEARED_INFIX}{copy}"))
            .find(|kept| !entries.iter().any(|entry| entry.name == *kept))
            .ok_or_else(|| StoreError::Io {
                action: "set aside",
                path: path.join(name.to_string()).display().to_string(),
                cause: format!("{CLEARED_COPIES_MAX} copies of it are kept already"),
            })
    }
}
