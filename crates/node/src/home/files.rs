//! Small files that are whole at their previous or their new value after any crash.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::HomeError;

/// Everybody's permission bits but the owner's.
pub(super) const OTHERS: u32 = 0o077;

/// The mode of a file for its owner's eyes only.
pub(super) const PRIVATE: u32 = 0o600;

/// Makes `dir` and what leads to it, readable by its owner alone. A folder that is there stays
/// as it is.
pub(super) fn private_dir(dir: &Path) -> Result<(), HomeError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(HomeError::io("create the folder", dir))
}

/// Everybody's permission to write, beside that of the owner and its group.
const OTHERS_WRITE: u32 = 0o002;

/// Whether what is in a folder is its owner's alone to change: who may rename there puts other files under
/// the names that are trusted.
pub(super) fn check_folder(dir: &Path) -> Result<(), HomeError> {
    let about = fs::metadata(dir).map_err(HomeError::io("look at", dir))?;
    let open = |cause: String| HomeError::FolderOpen {
        path: dir.to_owned(),
        cause,
    };
    let user = rustix::process::geteuid().as_raw();
    // Root changes what it likes in any case.
    if about.uid() != user && about.uid() != 0 {
        return Err(open(format!(
            "the folder belongs to user {}, but this process runs as user {user}",
            about.uid()
        )));
    }
    if about.mode() & OTHERS_WRITE != 0 {
        let mode = about.mode() & 0o7777;
        return Err(open(format!(
            "the folder has mode {mode:04o}: others on this machine can put other files there"
        )));
    }
    Ok(())
}

/// Whether something is at `path`; only absence means no.
pub(super) fn exists(path: &Path) -> Result<bool, HomeError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(HomeError::io("look at", path)(error)),
    }
}

/// The folder that a file is in; the current one for a bare name.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Puts `bytes` at `path` in one step: a temporary file with its final mode from its first
/// byte on, flushed, renamed, and the folder flushed.
pub(super) fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), HomeError> {
    let temporary = path.with_extension("new");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(HomeError::io("remove", &temporary)(error));
        }
        _ => {}
    }
    let write = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(folder_of(path))?.sync_all()
    };
    write().map_err(HomeError::io("write", path))
}
