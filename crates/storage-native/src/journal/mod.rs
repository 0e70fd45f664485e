//! The journal store, the default (protocol decision 5): one append and one flush a batch.
//!
//! A batch becomes one `frame` appended to a zero-written `segment`; the flush of that
//! frame is what a release waits for (law release). Each cell carries its own checksum and the
//! versions it leads from and to (laws atomicity and order). Any failure of a write or a flush
//! poisons the store (law fail-closed); opening it again writes once more, in an epoch of its
//! own, the last frame: the one that may be readable and not durable. A `snapshot` compacts
//! the journal while it runs; its directory is the presence set (law missing). What was
//! damaged is named, kept and never written over (laws isolation and never-delete).
//!
//! `docs/store-format.md` describes it to the byte.

mod admin;
mod bad;
mod cell;
mod checkpoint;
mod fields;
mod frame;
mod load;
#[cfg(any(test, feature = "testkit"))]
mod locate;
mod make;
mod open;
mod recover;
mod segment;
mod snapshot;
mod stage;
mod table;

use std::path::Path;
use std::sync::Arc;

use overlane_core::store::{Change, RecordName, RecordStore, Scan, StoreError};

use overlane_core::replay::record;

use crate::RECORD_BYTES_MAX;
use crate::folder::Folder;
use crate::mutant::broken;
use crate::vfs::Vfs;
use checkpoint::{Checkpoint, Done, Old, Running};
use fields::{HASH_BYTES, Keys};
use frame::{BLOCK_BYTES, FrameKind, FrameWriter, Head};
use segment::Segments;
use snapshot::Header;
use stage::{Stage, Staged};
use table::{Entry, Place, Table};

pub use checkpoint::Pace;
#[cfg(any(test, feature = "testkit"))]
pub(crate) use locate::locate;
pub(crate) use make::refuse_used;
#[cfg(any(test, feature = "testkit"))]
pub(crate) use snapshot::RECORD_OVERHEAD_BYTES;

/// Brings a whole record and the deltas that follow it together.
pub type ApplyDeltas = fn(whole: &[u8], deltas: &[Vec<u8>]) -> Result<Vec<u8>, String>;

/// What the node's journal may hold in records; a full replay table fits (seed 1).
pub const JOURNAL_BUDGET_BYTES: u64 = 40 * 1024 * 1024;

const RECORDS_MAX: u64 = 32_768;
const REPLAY_STORE_BYTES_MAX: u64 = 28_692_288;
const _: () = assert!(
    REPLAY_STORE_BYTES_MAX + RECORDS_MAX * snapshot::RECORD_OVERHEAD_BYTES as u64
        <= JOURNAL_BUDGET_BYTES
);

/// The fewest segments: one in use, one to go on in.
const SEGMENTS_MIN: usize = 2;
/// The shortest segment.
const SEGMENT_BLOCKS_MIN: usize = 8;
/// A record takes half a segment at most: the names of the frame before it, which the frame
/// that holds it repeats, take less than a quarter.
const SEGMENT_SHARE: usize = 2;

/// How a journal is made and run. What a made one was made with is written in it and stands.
#[derive(Debug, Clone, Copy)]
pub struct JournalConfig {
    /// What its records may take together.
    pub budget_bytes: u64,
    /// How many segments it is made with, two at least.
    pub segments: usize,
    /// The length of each; a multiple of 4 KiB, 32 KiB at least. All of them together are
    /// what the disk must have free when the store is made.
    pub segment_bytes: usize,
    /// Who runs its checkpoints.
    pub pace: Pace,
    /// How its deltas are applied.
    pub apply: ApplyDeltas,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            budget_bytes: JOURNAL_BUDGET_BYTES,
            segments: 4,
            segment_bytes: 8 * 1024 * 1024,
            pace: Pace::Background,
            apply: apply_replay_deltas,
        }
    }
}

/// The deltas of replay records.
fn apply_replay_deltas(whole: &[u8], deltas: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    record::apply_all(whole, deltas.iter().map(Vec::as_slice)).map_err(|error| error.to_string())
}

/// The journal store. Dropping it waits for a checkpoint under way and gives up the lock; what
/// was written after the last seal stays without one.
#[derive(Debug)]
pub struct JournalStore {
    folder: Folder,
    keys: Keys,
    pace: Pace,
    table: Table,
    segments: Segments,
    position: Position,
    stage: Stage,
    writer: FrameWriter,
    snapshot: Old,
    running: Option<Running>,
    scanned: Option<Scan>,
    foreign_entries: usize,
    cleared_kept: usize,
    leftovers_removed: usize,
    poisoned: Option<String>,
}

/// Where the journal stands.
#[derive(Debug)]
struct Position {
    epoch: u64,
    epoch_start: u64,
    /// The last frame's.
    number: u64,
    hash: [u8; HASH_BYTES],
    names: Vec<RecordName>,
    sealed: bool,
}

impl JournalStore {
    /// Opens the store in this folder, and makes it if the folder has none.
    ///
    /// # Errors
    /// [`StoreError`]: the folder cannot be written or has no room, is held by another
    /// process, is another kind of store, holds more than the budget, or is damaged so that
    /// the records it concerns cannot be named.
    pub fn open(vfs: Arc<dyn Vfs>, path: &Path, config: JournalConfig) -> Result<Self, StoreError> {
        open::open(vfs, path, config)
    }

    /// Writes a snapshot now, whatever the segments have room for.
    ///
    /// # Errors
    /// [`StoreError`]; the store is then poisoned.
    pub fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.refuse_poisoned()?;
        self.checkpoint_now().map_err(|error| self.poison(error))
    }

    /// One frame and one flush, or as many as the batch needs where it outgrows a segment.
    fn commit(&mut self, stage: &Stage, batch: &[Change]) -> Result<(), StoreError> {
        let mut in_frame = stage.list();
        let mut count = 0_usize;
        for staged in stage.list() {
            let bytes = stage.bytes(staged);
            let witnesses = self.position.names.len();
            let blocks = self.writer.blocks_with(witnesses, bytes.len());
            if blocks > self.segments.blocks() && !self.writer.is_empty() {
                self.append(FrameKind::Batch)?;
                let (appended, rest) = in_frame.split_at(count);
                self.settle(appended, batch);
                (in_frame, count) = (rest, 0);
            }
            let head = (staged.kind, staged.old, staged.new);
            self.writer.push(staged.name, head, bytes);
            count = count.saturating_add(1);
        }
        self.append(FrameKind::Batch)?;
        self.settle(in_frame, batch);
        Ok(())
    }

    /// The table follows each frame, so that a checkpoint never covers more than it holds.
    fn settle(&mut self, in_frame: &[Staged], batch: &[Change]) {
        let rows = in_frame.iter().filter_map(|staged| staged.row);
        rows.for_each(|row| self.table.fetch(row));
        for staged in in_frame {
            let Some(image) = staged.image(batch) else {
                self.table.remove(staged.name);
                continue;
            };
            let entry = Entry {
                version: staged.new,
                stamp: self.position.number,
                place: Place::Image(Arc::clone(image)),
                bytes_bound: staged.bytes_bound,
            };
            match staged.row {
                Some(row) => self.table.put_at(row, entry),
                None => self.table.put(staged.name, entry),
            }
        }
    }

    /// Appends what the writer holds as the next frame and makes it durable.
    fn append(&mut self, kind: FrameKind) -> Result<(), StoreError> {
        let blocks = self.writer.blocks(self.position.names.len());
        if !self.segments.has_room(blocks) {
            self.turn()?;
        }
        let head = Head {
            kind,
            epoch: self.position.epoch,
            epoch_start: self.position.epoch_start,
            number: self.position.number.saturating_add(1),
            previous: self.position.hash,
        };
        let (bytes, hash) = self.writer.finish(&head, &self.position.names);
        self.segments.append(bytes, head.number)?;
        self.position.number = head.number;
        self.position.hash = hash;
        self.position.names.clear();
        self.position.names.extend(self.writer.names());
        self.writer.clear();
        self.position.sealed = kind == FrameKind::Seal;
        Ok(())
    }

    /// Goes on in a free segment; makes one free if there is none.
    fn turn(&mut self) -> Result<(), StoreError> {
        self.harvest()?;
        let freed_early = broken!(FreeAtBegin) && self.running.is_some();
        let covered = match freed_early {
            true => self.position.number,
            false => self.snapshot.covered,
        };
        if !self.segments.turn(covered) {
            self.checkpoint_now()?;
            self.segments.turn(self.snapshot.covered);
        }
        let free = self.segments.free(self.snapshot.covered);
        if self.running.is_none() && free < self.segments.count() / 2 {
            self.running = Some(Running::start(self.begin_checkpoint()?, self.pace)?);
        }
        Ok(())
    }

    fn begin_checkpoint(&self) -> Result<Checkpoint, StoreError> {
        Checkpoint::begin(
            Arc::clone(&self.folder.vfs),
            self.folder.path.clone(),
            self.keys.clone(),
            Header {
                epoch: self.position.epoch,
                covered: self.position.number,
                hash: self.position.hash,
            },
            self.snapshot.clone(),
            self.table.freeze(),
        )
    }

    /// Runs the checkpoint under way to its end, and one more if it does not cover everything.
    fn checkpoint_now(&mut self) -> Result<(), StoreError> {
        if let Some(running) = self.running.take() {
            let done = running.wait()?;
            self.take_in(done);
        }
        if self.snapshot.covered < self.position.number {
            let done = self.begin_checkpoint()?.run()?;
            self.take_in(done);
        }
        Ok(())
    }

    /// Takes in a checkpoint that has ended.
    fn harvest(&mut self) -> Result<(), StoreError> {
        if let Some(running) = self.running.take() {
            match running.poll() {
                Ok(done) => self.take_in(done?),
                Err(running) => self.running = Some(running),
            }
        }
        Ok(())
    }

    fn take_in(&mut self, done: Done) {
        self.table.thaw(&done.stamps, &done.listed);
        self.snapshot = Old {
            covered: done.covered,
            file_bytes: done.file_bytes,
            keep: false,
        };
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

impl RecordStore for JournalStore {
    fn scan(&mut self) -> Result<Scan, StoreError> {
        self.refuse_poisoned()?;
        match self.scanned.take() {
            Some(scan) => Ok(scan),
            None => self.scan_again(),
        }
    }

    fn write(&mut self, batch: &[Change]) -> Result<(), StoreError> {
        self.refuse_poisoned()?;
        let harvested = self.harvest();
        harvested.map_err(|error| self.poison(error))?;
        if batch.is_empty() {
            return Ok(());
        }
        let segment_bytes = self.segments.blocks().saturating_mul(BLOCK_BYTES);
        let bytes_max = RECORD_BYTES_MAX.min(segment_bytes / SEGMENT_SHARE);
        let mut stage = std::mem::take(&mut self.stage);
        let filled = stage.fill(batch, &mut self.table, bytes_max);
        let written = filled.and_then(|()| {
            let committed = self.commit(&stage, batch);
            committed.map_err(|error| self.poison(error))
        });
        self.stage = stage;
        written
    }

    fn seal(&mut self) -> Result<(), StoreError> {
        self.refuse_poisoned()?;
        let sealed = self.harvest().and_then(|()| match self.position.sealed {
            true => Ok(()),
            false => self.append(FrameKind::Seal),
        });
        sealed.map_err(|error| self.poison(error))
    }
}

impl Drop for JournalStore {
    fn drop(&mut self) {
        // A checkpoint writes in the folder: it must end before the lock does. What came of it
        // the next open sees.
        if let Some(Running::Thread(thread)) = self.running.take() {
            drop(thread.join());
        }
    }
}
