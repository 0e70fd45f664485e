//! An operator's view of the journal.

use std::sync::Arc;

use overlane_core::store::{Found, RecordName, Scan, StoreError};

use super::cell::CellKind;
use super::checkpoint::Old;
use super::frame::FrameKind;
use super::snapshot::{self, Block, BlockReader};
use super::table::{Entry, Frozen, Place};
use super::{JournalStore, bad::Bad};
use crate::admin::{Cleared, StoreAdmin, StoreSummary};
use crate::folder::StoreKind;

impl StoreAdmin for JournalStore {
    fn summary(&self) -> StoreSummary {
        StoreSummary {
            kind: StoreKind::Journal,
            folder: self.folder.path.clone(),
            records: self.table.len(),
            held_bytes: self.table.held_bytes(),
            budget_bytes: self.table.budget_bytes(),
            foreign_entries: self.foreign_entries,
            cleared_kept: self.cleared_kept,
            leftovers_removed: self.leftovers_removed,
        }
    }

    fn show(&mut self, name: RecordName) -> Result<Found, StoreError> {
        let entry = self.table.entry(name);
        let entry = entry.ok_or(StoreError::UnknownRecord { name })?.clone();
        let mut reader = self.block_reader()?;
        Ok(read_entry(&mut reader, name, &entry).0)
    }

    fn clear(&mut self, name: RecordName) -> Result<Cleared, StoreError> {
        self.refuse_poisoned()?;
        let entry = self.table.entry(name);
        let entry = entry.ok_or(StoreError::UnknownRecord { name })?.clone();
        let cleared = self.block_reader().and_then(|mut reader| {
            let (found, kept) = read_entry(&mut reader, name, &entry);
            let file = self.set_aside(name, entry.version, &kept)?;
            Ok((found, file))
        });
        let (found, kept) = cleared.map_err(|error| self.poison(error))?;
        self.table.remove(name);
        self.cleared_kept = self.cleared_kept.saturating_add(1);
        let kept = self.folder.path.join(kept);
        Ok(Cleared { found, kept })
    }
}

impl JournalStore {
    /// What is left of the record goes to a file of its own; then the journal forgets it.
    fn set_aside(
        &mut self,
        name: RecordName,
        version: u64,
        kept: &[u8],
    ) -> Result<String, StoreError> {
        let file = self.folder.free_cleared_name(name)?;
        self.folder.replace(&file, kept)?;
        self.folder.flush()?;
        self.writer.push(name, (CellKind::Clear, version, 0), &[]);
        self.append(FrameKind::Batch)?;
        Ok(file)
    }

    /// Reads the whole store once more.
    pub(super) fn scan_again(&self) -> Result<Scan, StoreError> {
        let mut reader = self.block_reader()?;
        let records = self.table.freeze().into_iter();
        let records = records
            .map(|Frozen { name, entry }| (name, read_entry(&mut reader, name, &entry).0))
            .collect();
        Ok(Scan { records })
    }

    fn block_reader(&self) -> Result<BlockReader, StoreError> {
        let Old {
            covered,
            file_bytes,
            ..
        } = self.snapshot;
        let path = self.folder.path.join(snapshot::file_name(covered));
        let vfs = Arc::clone(&self.folder.vfs);
        BlockReader::open(vfs.as_ref(), &path, self.keys.clone(), file_bytes)
    }
}

/// What is found of a record, and the bytes that are left of it.
fn read_entry(reader: &mut BlockReader, name: RecordName, entry: &Entry) -> (Found, Vec<u8>) {
    let of_bad = |bad: &Bad| (bad.found(), bad.kept.clone());
    match &entry.place {
        Place::Bad(bad) => of_bad(bad),
        Place::Image(image) => {
            let whole = image.whole();
            (Found::Bytes(whole.clone()), whole)
        }
        Place::Snapshot(spot) => match reader.read(&spot.listed(name)) {
            Block::Whole(bytes) => (Found::Bytes(bytes.clone()), bytes),
            Block::Bad(bad) => of_bad(&bad),
        },
    }
}
