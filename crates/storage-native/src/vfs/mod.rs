//! The only door to the disk.
//!
//! A store of this crate touches files through [`Vfs`] and nothing else (clippy's
//! `disallowed-methods` keeps it so), so that the in-memory disk of the test kit can record
//! every effect, fail any call and crash at any point. Every call blocks: who calls a store
//! keeps it off the asynchronous workers.

mod real;

use std::fmt;
use std::io;
use std::path::Path;

use overlane_core::store::StoreError;

pub use real::RealVfs;

/// How often a read or write that a signal interrupted is tried again before it counts as
/// failed. A flush is never tried again: what a failed flush leaves behind is unknown.
pub const INTERRUPTED_RETRIES_MAX: u32 = 64;

/// How memory and place of a direct write are aligned, and what its length is a multiple of.
pub const DIRECT_BYTES: usize = 4096;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// To be read; it must exist.
    Read,
    /// To be read and written in place; it must exist.
    Update,
    /// To be written in place, whole blocks of [`DIRECT_BYTES`] from memory so aligned, past the
    /// page cache where the platform and the file system can; it must exist. What cannot be
    /// written so goes through the cache as ever.
    Direct,
    /// To be written from the beginning; made, or cut to nothing.
    Create,
}

/// What a folder's entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A plain file of this many bytes.
    File {
        /// Its length.
        bytes: u64,
    },
    /// A folder, a link, a device: nothing a store makes.
    Other,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name. A name that is not UTF-8 shows replacement characters, which no name of a
    /// store has.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
}

/// A file system, as far as a store needs one.
pub trait Vfs: fmt::Debug + Send + Sync {
    /// Makes one folder, whose parent exists.
    ///
    /// # Errors
    /// As the platform says; `AlreadyExists` when it is there.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// A folder's entries, in no particular order.
    ///
    /// # Errors
    /// As the platform says; `NotFound` when there is no such folder.
    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>>;

    /// Opens a plain file. A made file's entry is durable only after its folder's flush.
    ///
    /// # Errors
    /// As the platform says.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>>;

    /// Gives a file another name in the same folder, in the place of what had that name.
    /// Atomic; durable only after the folder's flush.
    ///
    /// # Errors
    /// As the platform says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Durable only after the folder's flush.
    ///
    /// # Errors
    /// As the platform says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes every entry made, renamed and removed in this folder so far durable.
    ///
    /// # Errors
    /// As the platform says; nothing is then known about what is durable.
    fn flush_folder(&self, folder: &Path) -> io::Result<()>;

    /// Opens a file, making it if need be, and holds it against every other opener of this
    /// kind until it is dropped or the process ends.
    ///
    /// # Errors
    /// `WouldBlock` when another holds it; else as the platform says.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn VfsFile>>;
}

/// An open file.
pub trait VfsFile: fmt::Debug + Send {
    /// Reads at an offset; may read less than asked for, and reads nothing at the end.
    ///
    /// # Errors
    /// As the platform says, `Interrupted` among them.
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at an offset; may write less than asked for. Durable only after
    /// [`flush`](Self::flush).
    ///
    /// # Errors
    /// As the platform says, `Interrupted` among them.
    fn write_at(&mut self, from: &[u8], offset: u64) -> io::Result<usize>;

    /// How many bytes the file has.
    ///
    /// # Errors
    /// As the platform says.
    fn length(&mut self) -> io::Result<u64>;

    /// Gives the file this length: cuts what is over, and fills what is missing with zeros.
    /// Durable only after [`flush`](Self::flush).
    ///
    /// # Errors
    /// As the platform says.
    fn resize(&mut self, bytes: u64) -> io::Result<()>;

    /// Makes what was written, and the file's length, durable on the device.
    ///
    /// # Errors
    /// As the platform says; nothing is then known about what is durable, and a later flush
    /// that succeeds proves nothing about what this one lost.
    fn flush(&mut self) -> io::Result<()>;
}

/// Writes all of `bytes` at `offset`, over short writes and interruptions.
///
/// # Errors
/// As the platform says; `WriteZero` when it takes nothing more.
pub fn write_all_at(file: &mut dyn VfsFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut rest = bytes;
    let mut offset = offset;
    let mut interrupted = 0;
    while !rest.is_empty() {
        match file.write_at(rest, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => {
                rest = rest.get(taken..).unwrap_or_default();
                offset = offset.saturating_add(taken as u64);
            }
            Err(error) => try_again(error, &mut interrupted)?,
        }
    }
    Ok(())
}

/// Reads from `offset` until `into` is full or the file ends, over short reads and
/// interruptions; returns how many bytes were read.
///
/// # Errors
/// As the platform says.
pub fn read_full_at(file: &mut dyn VfsFile, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    let mut interrupted = 0;
    while let Some(rest) = into.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(read as u64)) {
            Ok(0) => break,
            Ok(taken) => read = read.saturating_add(taken),
            Err(error) => try_again(error, &mut interrupted)?,
        }
    }
    Ok(read)
}

/// A whole file of at most `bytes_max` bytes; of a longer one, `bytes_max + 1` bytes, so that
/// nothing outside the store makes it read without end.
///
/// # Errors
/// As the platform says.
pub fn read_whole(vfs: &dyn Vfs, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    const STEP_BYTES: usize = 8 * 1024;
    let mut file = vfs.open(path, OpenMode::Read)?;
    let mut bytes = Vec::new();
    while bytes.len() <= bytes_max {
        let start = bytes.len();
        let step = STEP_BYTES.min(bytes_max.saturating_add(1).saturating_sub(start));
        bytes.resize(start.saturating_add(step), 0);
        let into = bytes.get_mut(start..).unwrap_or_default();
        let read = read_full_at(file.as_mut(), into, start as u64)?;
        bytes.truncate(start.saturating_add(read));
        if read < step {
            break;
        }
    }
    Ok(bytes)
}

/// Names what failed and where.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.display().to_string();
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { path },
        _ => StoreError::Io {
            action,
            path,
            cause: error.to_string(),
        },
    }
}

fn try_again(error: io::Error, interrupted: &mut u32) -> io::Result<()> {
    if error.kind() != io::ErrorKind::Interrupted || *interrupted >= INTERRUPTED_RETRIES_MAX {
        return Err(error);
    }
    *interrupted = interrupted.saturating_add(1);
    Ok(())
}
