//! The platform's own file system.
//!
//! Linux is tested. Apple's full flush (`F_FULLFSYNC`: `fsync` alone stops at the drive's
//! cache there) and Windows' write-through renames (`MoveFileExW`; a folder cannot be flushed
//! there, so every rename and removal is its own barrier) stand behind `cfg` and are untested.
//! Assumed of the file system: a rename is atomic, which needs a journaled one, and a flush
//! reaches the device. On any other target a rename's durability is the file system's own.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this module is the door that every other one goes through"
)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use super::{Entry, EntryKind, OpenMode, Vfs, VfsFile};

/// The platform's own file system. Files are made readable to their owner only.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealVfs;

impl Vfs for RealVfs {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        platform::folder_builder().create(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        fs::read_dir(folder)?
            .map(|entry| {
                let entry = entry?;
                let is_file = entry.file_type()?.is_file();
                let kind = if is_file {
                    let bytes = entry.metadata()?.len();
                    EntryKind::File { bytes }
                } else {
                    EntryKind::Other
                };
                let name = entry.file_name().to_string_lossy().into_owned();
                Ok(Entry { name, kind })
            })
            .collect()
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        if mode == OpenMode::Direct
            && let Some(file) = platform::open_direct(path)
        {
            return Ok(Box::new(DirectFile(RealFile(file))));
        }
        let mut options = platform::options();
        match mode {
            OpenMode::Read => options.read(true),
            OpenMode::Update | OpenMode::Direct => options.read(true).write(true),
            OpenMode::Create => options.read(true).write(true).create(true).truncate(true),
        };
        Ok(Box::new(RealFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        platform::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        platform::remove(path)
    }

    fn flush_folder(&self, folder: &Path) -> io::Result<()> {
        platform::flush_folder(folder)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        platform::lock(path).map(|file| Box::new(RealFile(file)) as Box<dyn VfsFile>)
    }
}

#[derive(Debug)]
struct RealFile(File);

impl VfsFile for RealFile {
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        platform::read_at(&self.0, into, offset)
    }

    fn write_at(&mut self, from: &[u8], offset: u64) -> io::Result<usize> {
        platform::write_at(&self.0, from, offset)
    }

    fn length(&mut self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn resize(&mut self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        platform::flush(&self.0)
    }
}

/// A file whose aligned writes go past the page cache.
#[derive(Debug)]
struct DirectFile(RealFile);

impl VfsFile for DirectFile {
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn write_at(&mut self, from: &[u8], offset: u64) -> io::Result<usize> {
        match self.0.write_at(from, offset) {
            // Not aligned as this disk asks: nothing was written.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                platform::end_direct(&self.0.0)?;
                self.0.write_at(from, offset)
            }
            written => written,
        }
    }

    fn length(&mut self) -> io::Result<u64> {
        self.0.length()
    }

    fn resize(&mut self, bytes: u64) -> io::Result<()> {
        self.0.resize(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(unix)]
mod platform {
    use std::fs::DirBuilder;
    use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};

    use rustix::fs::{FlockOperation, flock};

    use super::{File, OpenOptions, Path, fs, io};

    pub(super) fn folder_builder() -> DirBuilder {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        builder
    }

    pub(super) fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.mode(0o600);
        options
    }

    /// `None` where the file system has no direct writes.
    #[cfg(target_os = "linux")]
    pub(super) fn open_direct(path: &Path) -> Option<File> {
        let flag = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).ok()?;
        let mut options = options();
        options.read(true).write(true).custom_flags(flag);
        options.open(path).ok()
    }

    #[cfg(target_os = "linux")]
    pub(super) fn end_direct(file: &File) -> io::Result<()> {
        let flags = rustix::fs::fcntl_getfl(file)? - rustix::fs::OFlags::DIRECT;
        Ok(rustix::fs::fcntl_setfl(file, flags)?)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn open_direct(_path: &Path) -> Option<File> {
        None
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn end_direct(_file: &File) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    pub(super) fn remove(path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    pub(super) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(into, offset)
    }

    pub(super) fn write_at(file: &File, from: &[u8], offset: u64) -> io::Result<usize> {
        file.write_at(from, offset)
    }

    // `File::sync_data` would call again after an interruption. A flush that did not say yes
    // is a failed flush, so the bare call is made, once.
    #[cfg(not(target_vendor = "apple"))]
    pub(super) fn flush(file: &File) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(file)?)
    }

    #[cfg(not(target_vendor = "apple"))]
    pub(super) fn flush_folder(folder: &Path) -> io::Result<()> {
        Ok(rustix::fs::fsync(File::open(folder)?)?)
    }

    #[cfg(target_vendor = "apple")]
    pub(super) fn flush(file: &File) -> io::Result<()> {
        Ok(rustix::fs::fcntl_fullfsync(file)?)
    }

    #[cfg(target_vendor = "apple")]
    pub(super) fn flush_folder(folder: &Path) -> io::Result<()> {
        flush(&File::open(folder)?)
    }

    pub(super) fn lock(path: &Path) -> io::Result<File> {
        let file = options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }
}

#[cfg(windows)]
mod platform {
    use std::ffi::OsString;
    use std::fs::DirBuilder;
    use std::os::windows::fs::{FileExt, OpenOptionsExt};

    use super::{File, OpenOptions, Path, fs, io};

    const FILE_SHARE_READ: u32 = 1;
    const ERROR_SHARING_VIOLATION: i32 = 32;

    pub(super) fn folder_builder() -> DirBuilder {
        DirBuilder::new()
    }

    pub(super) fn options() -> OpenOptions {
        OpenOptions::new()
    }

    pub(super) fn open_direct(_path: &Path) -> Option<File> {
        None
    }

    pub(super) fn end_direct(_file: &File) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
        atomicwrites::replace_atomic(from, to)
    }

    // A removal has no write-through form: the name is given up by a rename that has one. What
    // a crash leaves under the other name is a leftover that the next open removes.
    pub(super) fn remove(path: &Path) -> io::Result<()> {
        let mut aside = OsString::from(path.as_os_str());
        aside.push(".tmp");
        rename(path, Path::new(&aside))?;
        fs::remove_file(aside)
    }

    pub(super) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek_read(into, offset)
    }

    pub(super) fn write_at(file: &File, from: &[u8], offset: u64) -> io::Result<usize> {
        file.seek_write(from, offset)
    }

    pub(super) fn flush(file: &File) -> io::Result<()> {
        file.sync_data()
    }

    // Every rename and removal was its own barrier.
    pub(super) fn flush_folder(_folder: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn lock(path: &Path) -> io::Result<File> {
        options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .share_mode(FILE_SHARE_READ)
            .open(path)
            .map_err(|error| match error.raw_os_error() {
                Some(ERROR_SHARING_VIOLATION) => io::ErrorKind::WouldBlock.into(),
                _ => error,
            })
    }
}
