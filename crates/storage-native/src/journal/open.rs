//! Opening a journal: snapshot, journal, and the first frame of a new epoch.

use std::path::Path;
use std::sync::Arc;

use overlane_core::store::{RecordName, Scan, StoreError};

use super::bad::BadKind;
use super::cell::{Cell, CellKind};
use super::checkpoint::{Old, give_up};
use super::fields::Keys;
use super::frame::{BLOCK_BYTES, Frame, FrameKind, FrameWriter};
use super::load::{Loaded, Record, Value};
use super::make::{self, Made};
use super::recover::{Found, Logged, Recovered};
use super::segment::{SEGMENT_PREFIX, Segments};
use super::snapshot::{self, BlockReader, Header, SNAPSHOT_PREFIX, Spot};
use super::stage::Stage;
use super::table::{Entry, Place, Table};
use super::{JournalConfig, JournalStore, Position};
use crate::folder::{Folder, KIND_FILE, LOCK_FILE, StoreKind, TEMP_SUFFIX, is_cleared, record_of};
use crate::mutant::broken;
use crate::vfs::{self, EntryKind, OpenMode, Vfs, failed};

pub(super) fn open(
    vfs: Arc<dyn Vfs>,
    path: &Path,
    config: JournalConfig,
) -> Result<JournalStore, StoreError> {
    let of_files = |name: &str| record_of(name, "").is_some();
    let (mut folder, entries) = Folder::open(vfs, path, StoreKind::Journal.name(), of_files)?;
    let keys = Keys::new();
    let made = match &folder.settings {
        Some(settings) => Made::from_settings(settings).ok_or_else(|| StoreError::WrongKind {
            path: path.display().to_string(),
            cause: format!("its file `{KIND_FILE}` does not say how it was made"),
        })?,
        None => {
            make::refuse_used(folder.vfs.as_ref(), path, &entries)?;
            let made = Made::of(&config);
            make::make(&mut folder, &keys, made)?;
            made
        }
    };
    let listing = Listing::of(&folder)?;
    // What an earlier process renamed and did not live to flush must be durable before it is
    // built on.
    folder.flush()?;
    let (reader, header, loaded) = load_snapshot(&folder, &keys, &listing)?;
    drop(reader);
    let mut opening = Opening {
        folder,
        keys,
        config,
        listing,
        header,
        loaded,
    };
    let (segments, recovered) = opening.load_journal(made)?;
    opening.finish(segments, recovered)
}

/// What the folder holds beside the segments.
struct Listing {
    /// The newest snapshot.
    covered: u64,
    file_bytes: u64,
    foreign_entries: usize,
    cleared_kept: usize,
    leftovers_removed: usize,
}

impl Listing {
    /// Lists the folder; removes leftovers, and snapshots that a newer one replaced.
    fn of(folder: &Folder) -> Result<Self, StoreError> {
        let path = &folder.path;
        let entries = folder.vfs.list(path).map_err(failed("list", path))?;
        let mut snapshots = Vec::new();
        let mut listing = Self {
            covered: 0,
            file_bytes: 0,
            foreign_entries: 0,
            cleared_kept: 0,
            leftovers_removed: 0,
        };
        for entry in &entries {
            let name = entry.name.as_str();
            let bytes = match entry.kind {
                EntryKind::File { bytes } => bytes,
                EntryKind::Other => 0,
            };
            if let Some(covered) = snapshot::covered_of(name) {
                snapshots.push((covered, bytes));
            } else if is_leftover(name) {
                folder.remove_if_there(name)?;
                listing.leftovers_removed = listing.leftovers_removed.saturating_add(1);
            } else if is_cleared(name) {
                listing.cleared_kept = listing.cleared_kept.saturating_add(1);
            } else if !is_own(name) {
                listing.foreign_entries = listing.foreign_entries.saturating_add(1);
            }
        }
        let newest = snapshots.iter().max().copied();
        let (covered, file_bytes) = newest.ok_or_else(|| StoreError::Damaged {
            path: path.display().to_string(),
            cause: "its snapshot is gone".into(),
        })?;
        for (older, _) in snapshots.iter().filter(|(older, _)| *older < covered) {
            // The newer one is durable only once the folder is flushed.
            folder.flush()?;
            give_up(folder.vfs.as_ref(), path, *older, false)?;
            listing.leftovers_removed = listing.leftovers_removed.saturating_add(1);
        }
        listing.covered = covered;
        listing.file_bytes = file_bytes;
        Ok(listing)
    }
}

fn is_leftover(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(TEMP_SUFFIX) else {
        return false;
    };
    stem == KIND_FILE
        || stem.starts_with(SEGMENT_PREFIX)
        || stem.starts_with(SNAPSHOT_PREFIX)
        || stem.starts_with(DAMAGED_PREFIX)
        || is_cleared(stem)
}

/// What the journal keeps of damaged blocks and snapshots.
const DAMAGED_PREFIX: &str = "damaged-";

fn is_own(name: &str) -> bool {
    [KIND_FILE, LOCK_FILE].contains(&name)
        || name.starts_with(SEGMENT_PREFIX)
        || name.starts_with(DAMAGED_PREFIX)
}

fn load_snapshot(
    folder: &Folder,
    keys: &Keys,
    listing: &Listing,
) -> Result<(BlockReader, Header, Loaded), StoreError> {
    let path = folder.path.join(snapshot::file_name(listing.covered));
    let mut reader =
        BlockReader::open(folder.vfs.as_ref(), &path, keys.clone(), listing.file_bytes)?;
    let (header, listed) = reader.read_ends(&path)?;
    let mut loaded = Loaded::new();
    for listed in listed {
        let block = reader.read(&listed);
        loaded.take_block(listed, block);
    }
    Ok((reader, header, loaded))
}

struct Opening {
    folder: Folder,
    keys: Keys,
    config: JournalConfig,
    listing: Listing,
    header: Header,
    loaded: Loaded,
}

impl Opening {
    fn load_journal(&mut self, made: Made) -> Result<(Segments, Recovered), StoreError> {
        let covered = self.header.covered;
        let mut found = Found::default();
        let keys = &self.keys;
        let mut segments =
            Segments::open(&self.folder, made.segments, made.blocks, |index, read| {
                found.walk(keys, index, &read, covered);
            })?;
        let recovered =
            found
                .recover(covered, self.header.hash)
                .map_err(|cause| StoreError::Damaged {
                    path: self.folder.path.display().to_string(),
                    cause,
                })?;
        for (segment, number) in &recovered.occupied {
            segments.occupy(*segment, *number);
        }
        for frame in &recovered.frames {
            self.loaded.take_frame(self.config.apply, frame);
        }
        self.loaded.settle(self.config.apply);
        Ok((segments, recovered))
    }

    fn finish(self, segments: Segments, recovered: Recovered) -> Result<JournalStore, StoreError> {
        self.keep_damaged(&segments, &recovered)?;
        let mut table = Table::new(self.config.budget_bytes);
        let mut records = Vec::with_capacity(self.loaded.records.len());
        let mut bad_cells = Vec::new();
        let mut keep_snapshot = false;
        for (name, record) in self.loaded.records {
            if record.newly_bad {
                bad_cells.extend(bad_cell(&record).map(|cell| (name, cell)));
            }
            keep_snapshot |= is_unreadable(&record);
            records.push((name, record.found()));
            table.put(name, entry_of(record, self.header.covered));
        }
        table.check_budget()?;
        let last = recovered.frames.into_iter().next_back();

        let last = last.and_then(|frame| match frame {
            Logged::Whole(frame) => Some(frame),
            Logged::Damaged { .. } => None,
        });
        let position = position_after(&self.header, last.as_ref(), recovered.epoch);
        let mut store = JournalStore {
            stage: Stage::default(),
            writer: FrameWriter::new(self.keys.clone()),
            folder: self.folder,
            keys: self.keys,
            pace: self.config.pace,
            table,
            segments,
            position,
            snapshot: Old {
                covered: self.header.covered,
                file_bytes: self.listing.file_bytes,
                keep: keep_snapshot,
            },
            running: None,
            scanned: Some(Scan { records }),
            foreign_entries: self.listing.foreign_entries,
            cleared_kept: self.listing.cleared_kept,
            leftovers_removed: self.listing.leftovers_removed,
            poisoned: None,
        };
        let last = last.filter(|_| !broken!(TrustLastFrame));
        store.begin_epoch(last, bad_cells)?;
        Ok(store)
    }

    /// Copies the blocks of damaged frames to files of their own: the segment that holds them
    /// will be used again.
    fn keep_damaged(&self, segments: &Segments, recovered: &Recovered) -> Result<(), StoreError> {
        let mut kept = false;
        for frame in &recovered.frames {
            let Logged::Damaged {
                number,
                at: Some(at),
                ..
            } = frame
            else {
                continue;
            };
            let path = segments.path(at.segment);
            let file = self.folder.vfs.open(&path, OpenMode::Read);
            let mut file = file.map_err(failed("open", &path))?;
            let mut bytes = vec![0; at.blocks.saturating_mul(BLOCK_BYTES)];
            let offset = at.start.saturating_mul(BLOCK_BYTES) as u64;
            vfs::read_full_at(file.as_mut(), &mut bytes, offset).map_err(failed("read", &path))?;
            let name = format!("{DAMAGED_PREFIX}frame-{number:016x}");
            self.folder.replace(&name, &bytes)?;
            kept = true;
        }
        if kept {
            self.folder.flush()?;
        }
        Ok(())
    }
}

/// The new epoch takes the number of the last frame, and so its place: that frame alone may be
/// readable without being durable, and what the new epoch writes does not depend on it.
fn position_after(header: &Header, last: Option<&Frame>, epoch: u64) -> Position {
    let epoch = epoch.max(header.epoch).saturating_add(1);
    let (number, hash, names) = match last {
        Some(last) if broken!(TrustLastFrame) => (
            last.head.number,
            last.hash,
            last.cells.iter().map(|(name, _)| *name).collect(),
        ),
        Some(last) => (
            last.head.number.saturating_sub(1),
            last.head.previous,
            last.witnesses.clone(),
        ),
        None => (header.covered, header.hash, Vec::new()),
    };
    Position {
        epoch,
        epoch_start: number.saturating_add(1),
        number,
        hash,
        names,
        sealed: false,
    }
}

fn bad_cell(record: &Record) -> Option<Cell> {
    match &record.value {
        Value::Whole(_) => None,
        Value::Bad(bad) => Some(Cell {
            kind: CellKind::Bad,
            old: record.version,
            new: record.version,
            bytes: bad.cell_bytes(),
        }),
    }
}

fn is_unreadable(record: &Record) -> bool {
    let of_snapshot = record.listed.is_some_and(|listed| listed.bad.is_none());
    of_snapshot && matches!(&record.value, Value::Bad(bad) if bad.kind == BadKind::Unreadable)
}

fn entry_of(record: Record, covered: u64) -> Entry {
    let bytes_bound = record.bytes();
    let place = match (record.value, record.stamp, record.listed) {
        (Value::Bad(bad), ..) => Place::Bad(Arc::new(bad)),
        (Value::Whole(_), None, Some(listed)) => Place::Snapshot(Spot::of(&listed)),
        (Value::Whole(bytes), ..) => Place::Image(Arc::new(bytes)),
    };
    Entry {
        version: record.version,
        stamp: record.stamp.unwrap_or(covered),
        place,
        bytes_bound,
    }
}

impl JournalStore {
    /// Writes the first frame of the epoch: the cells of the last frame once more, and what
    /// was found bad. Where it has no free segment, or does not fit one, a snapshot of
    /// everything comes first.
    fn begin_epoch(
        &mut self,
        last: Option<Frame>,
        bad_cells: Vec<(RecordName, Cell)>,
    ) -> Result<(), StoreError> {
        let (last_number, last_hash) = last
            .as_ref()
            .map_or((self.position.number, self.position.hash), |last| {
                (last.head.number, last.hash)
            });
        let is_bad = |name: &RecordName| bad_cells.iter().any(|(bad, _)| bad == name);
        let carried = last.into_iter().flat_map(|last| last.cells);
        for (name, cell) in carried.filter(|(name, _)| !is_bad(name)) {
            let head = (cell.kind, cell.old, cell.new);
            self.writer.push(name, head, &cell.bytes);
        }
        for (name, cell) in &bad_cells {
            let head = (cell.kind, cell.old, cell.new);
            self.writer.push(*name, head, &cell.bytes);
        }
        let blocks = self.writer.blocks(self.position.names.len());
        let fits = blocks <= self.segments.blocks();
        if !fits || !self.segments.turn(self.snapshot.covered) {
            self.writer.clear();
            self.position.number = last_number;
            self.position.hash = last_hash;
            self.position.names = Vec::new();
            self.position.epoch_start = last_number.saturating_add(1);
            self.checkpoint_now()?;
            self.segments.turn(self.snapshot.covered);
        }
        self.append(FrameKind::Open)
    }
}
