//! A checkpoint: the next snapshot, written while the journal goes on.
//!
//! It is written beside the snapshot in use, a step at a time, so that one thread can run it
//! and a test can crash between any two steps. Only when the new one is durable under its name
//! does the old one go, and do the segments it covers become free.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use overlane_core::store::StoreError;

use super::bad::{Bad, BadKind};
use super::fields::Keys;
use super::snapshot::{self, Block, BlockReader, Header, Listed, SnapshotWriter};
use super::table::{Frozen, Place};
use crate::folder::TEMP_SUFFIX;
use crate::mutant::broken;
use crate::vfs::{Vfs, failed};

/// Who runs a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// A thread of its own.
    Background,
    /// Each batch takes this many records further: the same effects in the same order on every
    /// run.
    Stepped {
        /// Records a batch.
        records: usize,
    },
}

/// The snapshot that a checkpoint replaces.
#[derive(Debug, Clone)]
pub(super) struct Old {
    pub(super) covered: u64,
    pub(super) file_bytes: u64,
    /// It holds what cannot be read: it is set aside, not removed.
    pub(super) keep: bool,
}

/// A finished checkpoint.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) covered: u64,
    pub(super) file_bytes: u64,
    pub(super) stamps: Vec<u64>,
    pub(super) listed: Vec<Listed>,
}

#[derive(Debug)]
pub(super) struct Checkpoint {
    vfs: Arc<dyn Vfs>,
    folder: PathBuf,
    covered: u64,
    old: Old,
    keep_old: bool,
    reader: BlockReader,
    writer: SnapshotWriter,
    frozen: std::vec::IntoIter<Frozen>,
    stamps: Vec<u64>,
}

/// A checkpoint under way.
#[derive(Debug)]
pub(super) enum Running {
    Thread(JoinHandle<Result<Done, StoreError>>),
    Steps(Box<Checkpoint>, usize),
}

impl Checkpoint {
    pub(super) fn begin(
        vfs: Arc<dyn Vfs>,
        folder: PathBuf,
        keys: Keys,
        header: Header,
        old: Old,
        frozen: Vec<Frozen>,
    ) -> Result<Self, StoreError> {
        let covered = header.covered;
        let temp = folder.join(format!("{}{TEMP_SUFFIX}", snapshot::file_name(covered)));
        let old_path = folder.join(snapshot::file_name(old.covered));
        let reader = BlockReader::open(vfs.as_ref(), &old_path, keys.clone(), old.file_bytes)?;
        let writer = SnapshotWriter::create(vfs.as_ref(), temp, keys, header, frozen.len())?;
        Ok(Self {
            vfs,
            folder,
            covered,
            keep_old: old.keep,
            old,
            reader,
            writer,
            stamps: Vec::with_capacity(frozen.len()),
            frozen: frozen.into_iter(),
        })
    }

    /// Writes up to this many records; tells whether there are more.
    fn step(&mut self, records: usize) -> Result<bool, StoreError> {
        for Frozen { name, entry } in self.frozen.by_ref().take(records) {
            let block = match &entry.place {
                Place::Image(image) => Block::Whole(image.whole()),
                Place::Bad(bad) => Block::Bad(Bad::clone(bad)),
                Place::Snapshot(spot) => self.reader.read(&spot.listed(name)),
            };
            if let Block::Bad(bad) = &block {
                self.keep_old |= bad.kind == BadKind::Unreadable && bad.kept.is_empty();
            }
            self.writer.push(name, entry.version, &block)?;
            self.stamps.push(entry.stamp);
        }
        Ok(self.frozen.len() > 0)
    }

    fn finish(self) -> Result<Done, StoreError> {
        let name = snapshot::file_name(self.covered);
        let (listed, file_bytes) = self.writer.finish()?;
        let replaced = |folder| {
            let replaces = self.old.covered != self.covered;
            let old = replaces.then_some(self.old.covered);
            old.map_or(Ok(()), |old| {
                give_up(self.vfs.as_ref(), folder, old, self.keep_old)
            })
        };
        if broken!(OldSnapshotFirst) {
            replaced(&self.folder)?;
        }
        let path = self.folder.join(&name);
        let temp = self.folder.join(format!("{name}{TEMP_SUFFIX}"));
        self.vfs
            .rename(&temp, &path)
            .map_err(failed("rename", &temp))?;
        self.vfs
            .flush_folder(&self.folder)
            .map_err(failed("flush", &self.folder))?;
        if !broken!(OldSnapshotFirst) {
            replaced(&self.folder)?;
        }
        Ok(Done {
            covered: self.covered,
            file_bytes,
            stamps: self.stamps,
            listed,
        })
    }

    pub(super) fn run(mut self) -> Result<Done, StoreError> {
        while self.step(usize::MAX)? {}
        self.finish()
    }
}

/// Removes a snapshot that a durable one replaces, or sets it aside.
pub(super) fn give_up(
    vfs: &dyn Vfs,
    folder: &std::path::Path,
    covered: u64,
    keep: bool,
) -> Result<(), StoreError> {
    let name = snapshot::file_name(covered);
    let path = folder.join(&name);
    if keep {
        let aside = folder.join(format!("damaged-{name}"));
        return vfs.rename(&path, &aside).map_err(failed("rename", &path));
    }
    vfs.remove(&path).map_err(failed("remove", &path))
}

impl Running {
    pub(super) fn start(checkpoint: Checkpoint, pace: Pace) -> Result<Self, StoreError> {
        match pace {
            Pace::Stepped { records } => Ok(Self::Steps(Box::new(checkpoint), records)),
            Pace::Background => {
                let folder = checkpoint.folder.clone();
                std::thread::Builder::new()
                    .name("checkpoint".into())
                    .spawn(|| checkpoint.run())
                    .map(Self::Thread)
                    .map_err(failed("start a checkpoint of", &folder))
            }
        }
    }

    /// Goes on as far as the pace says; what it came to, once it has.
    pub(super) fn poll(self) -> Result<Result<Done, StoreError>, Self> {
        match self {
            Self::Thread(thread) if !thread.is_finished() => Err(Self::Thread(thread)),
            Self::Steps(mut checkpoint, records) => match checkpoint.step(records) {
                Ok(true) => Err(Self::Steps(checkpoint, records)),
                Ok(false) => Ok(checkpoint.finish()),
                Err(error) => Ok(Err(error)),
            },
            finished => Ok(finished.wait()),
        }
    }

    /// Runs it to its end.
    pub(super) fn wait(self) -> Result<Done, StoreError> {
        match self {
            Self::Steps(checkpoint, _) => checkpoint.run(),
            Self::Thread(thread) => thread.join().unwrap_or_else(|_| {
                Err(StoreError::Poisoned {
                    cause: "the checkpoint's thread ended early".into(),
                })
            }),
        }
    }
}
