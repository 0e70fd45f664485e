//! The store of one file a record (seed 1, "Persistence and bounds"; protocol decision 5).
//!
//! A record's file is named by its record's 40 hex digits. A batch writes and flushes a
//! temporary file a record, renames them all, and flushes the folder once (laws release and
//! atomicity). Beside each durable record lies an empty marker `<name>.p`: it is made only
//! after the record's rename is flushed and removed, with a flush of its own, before the
//! record, so a marker without its record is a record that something outside the store took
//! (law missing). Any failure inside a batch poisons the store (law fail-closed); a record
//! that does not read whole is kept, named and never written over (law never-delete).

mod admin;
#[cfg(any(test, feature = "testkit"))]
pub(crate) use envelope::ENVELOPE_BYTES;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use overlane_core::store::{
    Change, Effect, Found, RecordName, RecordStore, Scan, StoreError, envelope,
};

use crate::RECORD_BYTES_MAX;
use crate::folder::{Folder, KIND_FILE, StoreKind, TEMP_SUFFIX, is_cleared, record_of};
use crate::mutant::broken;
use crate::vfs::{Entry, EntryKind, OpenMode, Vfs, failed, read_whole};

/// What the node's store may hold. Never reached by a full replay table (28,692,288 bytes of
/// records, seed 1, and their envelopes): the refusal is a bound, not an expected path.
pub const FILES_BUDGET_BYTES: u64 = 40 * 1024 * 1024;

const RECORDS_MAX: u64 = 32_768;
const REPLAY_STORE_BYTES_MAX: u64 = 28_692_288;
const _: () = assert!(
    REPLAY_STORE_BYTES_MAX + RECORDS_MAX * envelope::ENVELOPE_BYTES as u64 <= FILES_BUDGET_BYTES
);

const MARKER_SUFFIX: &str = ".p";
const FILE_BYTES_MAX: usize = RECORD_BYTES_MAX + envelope::ENVELOPE_BYTES;

/// The store of one file a record. Dropping it gives up its lock.
#[derive(Debug)]
pub struct FilesStore {
    folder: Folder,
    budget_bytes: u64,
    held: BTreeMap<RecordName, Held>,
    held_bytes: u64,
    foreign_entries: usize,
    cleared_kept: usize,
    leftovers_removed: usize,
    unflushed_markers: bool,
    poisoned: Option<String>,
}

/// What the store knows of one name.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// The record's file: its length, or nothing where there is none that is a plain file.
    file: FileOf,
    marked: bool,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileOf {
    Record { bytes: u64 },
    NoPlainFile,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not read since the store was opened.
    Unread,
    Whole,
    Bad,
}

struct Staged {
    name: RecordName,
    /// The record's new file; `None` removes it.
    file: Option<Vec<u8>>,
}

impl FilesStore {
    /// Opens the store in this folder, and makes it if the folder has none.
    ///
    /// # Errors
    /// [`StoreError`]: the folder cannot be written, is held by another process, is another
    /// kind of store, or holds more than the budget.
    pub fn open(vfs: Arc<dyn Vfs>, path: &Path, budget_bytes: u64) -> Result<Self, StoreError> {
        let of_files = |name: &str| {
            record_of(name, "")
                .or(record_of(name, MARKER_SUFFIX))
                .is_some()
        };
        let (mut folder, entries) = Folder::open(vfs, path, StoreKind::Files.name(), of_files)?;
        if folder.settings.is_none() {
            folder.mark_kind(StoreKind::Files.name(), "")?;
        }
        let mut store = Self {
            folder,
            budget_bytes,
            held: BTreeMap::new(),
            held_bytes: 0,
            foreign_entries: 0,
            cleared_kept: 0,
            leftovers_removed: 0,
            unflushed_markers: false,
            poisoned: None,
        };
        store.take_in(&entries)?;
        store.check_budget(store.held_bytes)?;
        // What an earlier process renamed and did not live to flush is shown to the caller, so
        // it must be durable first, and before any marker vouches for it.
        store.folder.flush()?;
        store.mark_unmarked()?;
        store.flush_markers()?;
        Ok(store)
    }

    fn take_in(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        for entry in entries {
            if let Some(name) = record_of(&entry.name, "") {
                let held = self.held.entry(name).or_insert(Held::NOTHING);
                held.file = match entry.kind {
                    EntryKind::File { bytes } => FileOf::Record { bytes },
                    EntryKind::Other => FileOf::NoPlainFile,
                };
            } else if let Some(name) = record_of(&entry.name, MARKER_SUFFIX) {
                self.held.entry(name).or_insert(Held::NOTHING).marked = true;
            } else if is_leftover(entry) {
                self.folder.remove_if_there(&entry.name)?;
                self.leftovers_removed = self.leftovers_removed.saturating_add(1);
            } else if is_cleared(&entry.name) {
                self.cleared_kept = self.cleared_kept.saturating_add(1);
            } else if ![KIND_FILE, crate::folder::LOCK_FILE].contains(&entry.name.as_str()) {
                self.foreign_entries = self.foreign_entries.saturating_add(1);
            }
        }
        self.held_bytes = self.held.values().map(Held::bytes).sum();
        Ok(())
    }

    /// A crash between a rename and its marker leaves a record unmarked.
    fn mark_unmarked(&mut self) -> Result<(), StoreError> {
        for (name, held) in &mut self.held {
            if !held.marked && held.file != FileOf::Nothing {
                make_marker(&self.folder, *name)?;
                held.marked = true;
                self.unflushed_markers = true;
            }
        }
        Ok(())
    }

    fn flush_markers(&mut self) -> Result<(), StoreError> {
        if self.unflushed_markers {
            self.folder.flush()?;
            self.unflushed_markers = false;
        }
        Ok(())
    }

    fn check_budget(&self, needed_bytes: u64) -> Result<(), StoreError> {
        if needed_bytes > self.budget_bytes {
            return Err(StoreError::BudgetExhausted {
                budget_bytes: self.budget_bytes,
                needed_bytes,
            });
        }
        Ok(())
    }

    fn read_record(&mut self, name: RecordName) -> Found {
        let found = self.read_file(name);
        if let Some(held) = self.held.get_mut(&name) {
            held.state = match found {
                Found::Bytes(_) => State::Whole,
                _ => State::Bad,
            };
        }
        found
    }

    fn read_file(&self, name: RecordName) -> Found {
        let file = self
            .held
            .get(&name)
            .map_or(FileOf::Nothing, |held| held.file);
        if file == FileOf::NoPlainFile {
            return Found::Unreadable("it is not a plain file".into());
        }
        let path = self.folder.path.join(name.to_string());
        match read_whole(self.folder.vfs.as_ref(), &path, FILE_BYTES_MAX) {
            Ok(bytes) if bytes.len() > FILE_BYTES_MAX => {
                Found::Torn("it is longer than any record".into())
            }
            Ok(bytes) => envelope::open(name, &bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Missing,
            Err(error) => Found::Unreadable(error.to_string()),
        }
    }

    /// Checks and encodes a batch. Nothing is written, so a refusal leaves the store as it was.
    fn stage(&mut self, batch: &[Change]) -> Result<(Vec<Staged>, u64), StoreError> {
        let mut needed_bytes = self.held_bytes;
        let mut staged = Vec::with_capacity(batch.len());
        for change in batch {
            let name = change.name;
            self.refuse_bad(name)?;
            let old_bytes = self.held.get(&name).map_or(0, Held::bytes);
            let file = match &change.effect {
                Effect::Write(image) => Some(encode(name, &image.whole())?),
                Effect::Remove => None,
            };
            let new_bytes = file.as_ref().map_or(0, |file| file.len() as u64);
            needed_bytes = needed_bytes
                .saturating_sub(old_bytes)
                .saturating_add(new_bytes);
            staged.push(Staged { name, file });
        }
        if needed_bytes > self.held_bytes {
            self.check_budget(needed_bytes)?;
        }
        Ok((staged, needed_bytes))
    }

    fn refuse_bad(&mut self, name: RecordName) -> Result<(), StoreError> {
        if self
            .held
            .get(&name)
            .is_some_and(|held| held.state == State::Unread)
        {
            self.read_record(name);
        }
        match self.held.get(&name) {
            Some(held) if held.state == State::Bad => Err(StoreError::BadRecord { name }),
            _ => Ok(()),
        }
    }

    /// Every new value is durable before any record leaves (law removals-last). A marker leaves
    /// before its record, and durably so: a crash between the two must not show a record that
    /// is gone and still vouched for.
    fn commit(&mut self, staged: &[Staged]) -> Result<(), StoreError> {
        let written = || {
            staged
                .iter()
                .filter_map(|it| Some((it.name, it.file.as_ref()?)))
        };
        for (name, file) in written() {
            self.folder.write_temp(&name.to_string(), file)?;
        }
        for (name, _) in written() {
            self.folder.rename_temp(&name.to_string())?;
        }
        if broken!(MarkerFirst) {
            written().try_for_each(|(name, _)| make_marker(&self.folder, name))?;
        }
        let removed = || staged.iter().filter(|it| it.file.is_none());
        if !broken!(MarkerWithRecord) {
            for Staged { name, .. } in removed() {
                self.unmark(*name)?;
            }
        }
        self.folder.flush()?;
        self.unflushed_markers = false;
        for Staged { name, .. } in removed() {
            self.unmark(*name)?;
            self.folder.remove_if_there(&name.to_string())?;
        }
        if removed().next().is_some() {
            self.folder.flush()?;
        }
        self.mark_written(staged)
    }

    fn unmark(&mut self, name: RecordName) -> Result<(), StoreError> {
        if let Some(held) = self.held.get_mut(&name).filter(|held| held.marked) {
            self.folder.remove(&marker(name))?;
            held.marked = false;
        }
        Ok(())
    }

    fn mark_written(&mut self, staged: &[Staged]) -> Result<(), StoreError> {
        for Staged { name, file } in staged {
            let Some(file) = file else {
                self.held.remove(name);
                continue;
            };
            let held = self.held.entry(*name).or_insert(Held::NOTHING);
            held.file = FileOf::Record {
                bytes: file.len() as u64,
            };
            held.state = State::Whole;
            if !held.marked {
                make_marker(&self.folder, *name)?;
                held.marked = true;
                self.unflushed_markers = true;
            }
        }
        Ok(())
    }

    fn refuse_poisoned(&self) -> Result<(), StoreError> {
        match &self.poisoned {
            Some(cause) => Err(StoreError::Poisoned {
                cause: cause.clone(),
            }),
            None => Ok(()),
        }
    }

    fn poison(&mut self, error: StoreError) -> StoreError {
        tracing::error!(store = %self.folder.path.display(), %error, "the store failed closed");
        self.poisoned.get_or_insert(error.to_string());
        error
    }
}

impl RecordStore for FilesStore {
    fn scan(&mut self) -> Result<Scan, StoreError> {
        self.refuse_poisoned()?;
        let names: Vec<RecordName> = self.held.keys().copied().collect();
        let records = names
            .into_iter()
            .map(|name| (name, self.read_record(name)))
            .collect();
        Ok(Scan { records })
    }

    fn write(&mut self, batch: &[Change]) -> Result<(), StoreError> {
        self.refuse_poisoned()?;
        let (staged, held_bytes) = self.stage(batch)?;
        if staged.is_empty() {
            return Ok(());
        }
        self.commit(&staged).map_err(|error| self.poison(error))?;
        self.held_bytes = held_bytes;
        Ok(())
    }

    fn seal(&mut self) -> Result<(), StoreError> {
        self.refuse_poisoned()?;
        self.flush_markers().map_err(|error| self.poison(error))
    }
}

impl Held {
    const NOTHING: Self = Self {
        file: FileOf::Nothing,
        marked: false,
        state: State::Unread,
    };

    fn bytes(&self) -> u64 {
        match self.file {
            FileOf::Record { bytes } => bytes,
            FileOf::NoPlainFile | FileOf::Nothing => 0,
        }
    }
}

fn encode(name: RecordName, record: &[u8]) -> Result<Vec<u8>, StoreError> {
    if record.len() > RECORD_BYTES_MAX {
        return Err(StoreError::RecordTooLarge {
            name,
            bytes: record.len(),
            bytes_max: RECORD_BYTES_MAX,
        });
    }
    Ok(envelope::seal(name, record))
}

fn marker(name: RecordName) -> String {
    format!("{name}{MARKER_SUFFIX}")
}

fn make_marker(folder: &Folder, name: RecordName) -> Result<(), StoreError> {
    let path = folder.path.join(marker(name));
    let made = folder.vfs.open(&path, OpenMode::Create);
    made.map(drop).map_err(failed("create", &path))
}

/// A file that a process was writing when it ended, or that a removal gave up (Windows).
fn is_leftover(entry: &Entry) -> bool {
    let Some(stem) = entry.name.strip_suffix(TEMP_SUFFIX) else {
        return false;
    };
    let of_a_record = || stem.split('.').next().and_then(|name| record_of(name, ""));
    let ours = stem == KIND_FILE || of_a_record().is_some();
    ours && matches!(entry.kind, EntryKind::File { .. })
}
