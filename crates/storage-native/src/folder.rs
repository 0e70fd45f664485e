//! A store's folder: made durable, held by one process, and of one kind.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

use overlane_core::store::{RecordName, StoreError};

use crate::journal;
use crate::mutant::broken;
use crate::vfs::{Entry, OpenMode, Vfs, VfsFile, failed, read_whole, write_all_at};

/// Names the kind of store a folder holds; written last when a store is made.
pub(crate) const KIND_FILE: &str = "kind";
/// Held while a process has the store open; its pid is inside.
pub(crate) const LOCK_FILE: &str = "lock";
/// A file being written; never read, removed at open.
pub(crate) const TEMP_SUFFIX: &str = ".tmp";

const KIND_FILE_BYTES_MAX: usize = 256;
const CLEARED_INFIX: &str = ".cleared-";

/// How often one name can be cleared before its kept copies must be taken away.
const CLEARED_COPIES_MAX: u32 = 1_000;

const PID_DIGITS: usize = 10;

/// The kinds of store a folder can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// One file a record.
    Files,
    /// A journal with a snapshot.
    Journal,
}

impl StoreKind {
    /// The kind's one name, in configuration, in the `kind` file and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Journal => "journal",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Files, Self::Journal]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A folder that this process holds.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) path: PathBuf,
    /// The settings lines of the `kind` file; `None` when the store is yet to be made.
    pub(crate) settings: Option<String>,
    _lock: Box<dyn VfsFile>,
}

impl Folder {
    /// Makes the folder if need be, takes its lock and checks its kind. `is_of_a_store` tells
    /// the names that a store gives its files: a folder that has some and no `kind` file is
    /// not taken for a new one.
    pub(crate) fn open(
        vfs: Arc<dyn Vfs>,
        path: &Path,
        kind: &str,
        is_of_a_store: impl Fn(&str) -> bool,
    ) -> Result<(Self, Vec<Entry>), StoreError> {
        create_folders(vfs.as_ref(), path)?;
        let lock = take_lock(vfs.as_ref(), path)?;
        let entries = vfs.list(path).map_err(failed("list", path))?;
        let settings = read_kind(vfs.as_ref(), path, kind)?;
        if settings.is_none()
            && let Some(entry) = entries.iter().find(|entry| is_of_a_store(&entry.name))
        {
            return Err(kind_lost(path, &entry.name));
        }
        if settings.is_none() {
            flush_above(vfs.as_ref(), path)?;
        }
        let folder = Self {
            vfs,
            path: path.to_owned(),
            settings,
            _lock: lock,
        };
        Ok((folder, entries))
    }

    /// Writes the `kind` file: from here on the folder is a store.
    pub(crate) fn mark_kind(&mut self, kind: &str, settings: &str) -> Result<(), StoreError> {
        let text = format!("overlane {kind}\n{settings}");
        self.replace(KIND_FILE, text.as_bytes())?;
        self.flush()?;
        self.settings = Some(settings.to_owned());
        Ok(())
    }

    /// Puts a whole file in the place of another; durable after the folder's flush.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.write_temp(name, bytes)?;
        self.rename_temp(name)
    }

    /// Writes and flushes the file that is to be renamed to `name`.
    pub(crate) fn write_temp(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let temp = self.temp_path(name);
        let mut file = self
            .vfs
            .open(&temp, OpenMode::Create)
            .map_err(failed("create", &temp))?;
        write_all_at(file.as_mut(), bytes, 0).map_err(failed("write", &temp))?;
        if broken!(NoValueFlush) {
            return Ok(());
        }
        file.flush().map_err(failed("flush", &temp))
    }

    /// Where the file that is to be renamed to `name` is written.
    pub(crate) fn temp_path(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}{TEMP_SUFFIX}"))
    }

    /// Gives a written and flushed file its name; durable after the folder's flush.
    pub(crate) fn rename_temp(&self, name: &str) -> Result<(), StoreError> {
        self.rename(&format!("{name}{TEMP_SUFFIX}"), name)
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let (from, to) = (self.path.join(from), self.path.join(to));
        self.vfs.rename(&from, &to).map_err(failed("rename", &from))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path.join(name);
        self.vfs.remove(&path).map_err(failed("remove", &path))
    }

    /// Removes what may already be gone.
    pub(crate) fn remove_if_there(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path.join(name);
        match self.vfs.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(failed("remove", &path)),
        }
    }

    /// The first free name for a record that is set aside.
    pub(crate) fn free_cleared_name(&self, name: RecordName) -> Result<String, StoreError> {
        let entries = self
            .vfs
            .list(&self.path)
            .map_err(failed("list", &self.path))?;
        (1..=CLEARED_COPIES_MAX)
            .map(|copy| format!("{name}{CLEARED_INFIX}{copy}"))
            .find(|kept| !entries.iter().any(|entry| entry.name == *kept))
            .ok_or_else(|| StoreError::Io {
                action: "set aside",
                path: self.path.join(name.to_string()).display().to_string(),
                cause: format!("{CLEARED_COPIES_MAX} copies of it are kept already"),
            })
    }

    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        if broken!(NoFolderFlush) {
            return Ok(());
        }
        self.vfs
            .flush_folder(&self.path)
            .map_err(failed("flush", &self.path))
    }
}

/// The kind of store a folder holds, as its `kind` file says; `None` when it holds none.
///
/// # Errors
/// [`StoreError`] when the file cannot be read, names no known kind, or is gone and what a store
/// wrote is there.
pub fn kind_of(vfs: &dyn Vfs, path: &Path) -> Result<Option<StoreKind>, StoreError> {
    let Some((name, _)) = kind_text(vfs, path)? else {
        let entries = match vfs.list(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries.map_err(failed("list", path))?,
        };
        let is_record = |entry: &&Entry| record_of(&entry.name, "").is_some();
        if let Some(entry) = entries.iter().find(is_record) {
            return Err(kind_lost(path, &entry.name));
        }
        journal::refuse_used(vfs, path, &entries)?;
        return Ok(None);
    };
    let kind = StoreKind::from_name(&name).ok_or_else(|| no_known_store(path))?;
    Ok(Some(kind))
}

fn read_kind(vfs: &dyn Vfs, path: &Path, wanted: &str) -> Result<Option<String>, StoreError> {
    match kind_text(vfs, path)? {
        Some((kind, _)) if kind != wanted => Err(StoreError::WrongKind {
            path: path.display().to_string(),
            cause: format!("it is a {kind} store, and {wanted} is asked for"),
        }),
        found => Ok(found.map(|(_, settings)| settings)),
    }
}

/// The name of the kind, and the settings lines.
fn kind_text(vfs: &dyn Vfs, path: &Path) -> Result<Option<(String, String)>, StoreError> {
    let file = path.join(KIND_FILE);
    let bytes = match read_whole(vfs, &file, KIND_FILE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(failed("read", &file))?,
    };
    let text = String::from_utf8_lossy(&bytes);
    let (first, settings) = text.split_once('\n').unwrap_or((&text, ""));
    let is_name = |name: &&str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase());
    let kind = first.strip_prefix("overlane ").filter(is_name);
    let kind = kind.ok_or_else(|| no_known_store(path))?;
    Ok(Some((kind.to_owned(), settings.to_owned())))
}

/// A folder with what a store wrote and without its `kind` file is no new store's: what it holds
/// would count as never written.
pub(crate) fn kind_lost(path: &Path, found: &str) -> StoreError {
    StoreError::Damaged {
        path: path.display().to_string(),
        cause: format!(
            "{found} is there, and the file `{KIND_FILE}`, which says what store it is of, is gone: \
             put the folder back whole, or move it away to start with a new store, which resets \
             every stream"
        ),
    }
}

fn no_known_store(path: &Path) -> StoreError {
    StoreError::WrongKind {
        path: path.display().to_string(),
        cause: format!("its file `{KIND_FILE}` names no known store"),
    }
}

/// Makes the folder and every missing one above it.
fn create_folders(vfs: &dyn Vfs, path: &Path) -> Result<(), StoreError> {
    match vfs.create_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| *parent != path);
            let parent = parent.ok_or(error).map_err(failed("create", path))?;
            create_folders(vfs, parent)?;
            vfs.create_folder(path).map_err(failed("create", path))
        }
        made => made.map_err(failed("create", path)),
    }
}

/// Makes the folder durable in its parent, and so on upwards, whoever made them: an earlier
/// process may have ended between making them and flushing. A folder above that may not be
/// read is not one that a node made.
fn flush_above(vfs: &dyn Vfs, path: &Path) -> Result<(), StoreError> {
    for folder in path.ancestors().skip(1) {
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        match vfs.flush_folder(folder) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            flushed => flushed.map_err(failed("flush", folder))?,
        }
    }
    Ok(())
}

fn take_lock(vfs: &dyn Vfs, folder: &Path) -> Result<Box<dyn VfsFile>, StoreError> {
    let path = folder.join(LOCK_FILE);
    let mut lock = match vfs.lock(&path) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(StoreError::Locked {
                path: folder.display().to_string(),
                pid: lock_holder(vfs, &path),
            });
        }
        lock => lock.map_err(failed("lock", &path))?,
    };
    let pid = format!("{:<PID_DIGITS$}\n", process::id());
    write_all_at(lock.as_mut(), pid.as_bytes(), 0).map_err(failed("write", &path))?;
    Ok(lock)
}

/// Who holds the lock. The lock ends with its process, so this one is alive.
fn lock_holder(vfs: &dyn Vfs, path: &Path) -> Option<u32> {
    let bytes = read_whole(vfs, path, PID_DIGITS).ok()?;
    String::from_utf8_lossy(bytes.get(..PID_DIGITS)?)
        .trim()
        .parse()
        .ok()
}

/// The record that a file of this name is, or is the marker of.
pub(crate) fn record_of(name: &str, suffix: &str) -> Option<RecordName> {
    name.strip_suffix(suffix)?.parse().ok()
}

/// A record that an operator cleared, kept aside.
pub(crate) fn is_cleared(name: &str) -> bool {
    name.split_once(CLEARED_INFIX)
        .is_some_and(|(record, _)| record_of(record, "").is_some())
}
