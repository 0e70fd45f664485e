//! One daemon a home. Law: the lock is the operating system's, so it ends with the process that
//! holds it, however that ends; the file's content only says who.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::HomeError;

/// A home taken for this process, until dropped.
#[derive(Debug)]
#[must_use]
pub struct HomeLock {
    _file: File,
}

impl HomeLock {
    pub(super) fn take(path: &Path, home: &Path) -> Result<Self, HomeError> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(HomeError::io("open", path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(HomeError::InUse {
                    path: home.to_owned(),
                    pid: holder(&mut file),
                });
            }
            Err(errno) => return Err(HomeError::io("lock", path)(errno.into())),
        }
        name_holder(&mut file).map_err(HomeError::io("write", path))?;
        Ok(Self { _file: file })
    }
}

fn name_holder(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
