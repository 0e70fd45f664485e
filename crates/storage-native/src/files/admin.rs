//! An operator's view of the files store.

use overlane_core::store::{Found, RecordName, StoreError};

use super::{FileOf, FilesStore, marker};
use crate::admin::{Cleared, StoreAdmin, StoreSummary};
use crate::folder::StoreKind;

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
        let kept = self.folder.free_cleared_name(name)?;
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
}
