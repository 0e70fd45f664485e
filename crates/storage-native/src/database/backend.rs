//! The database's file, behind the one door to the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overlane_core::store::StoreError;
use redb::StorageBackend;

use crate::mutant::broken;
use crate::vfs::{VfsFile, failed, read_full_at, write_all_at};

/// How much of the file is written back at a time.
const STEP_BYTES: usize = 256 * 1024;

/// The file of a database. Clones share it.
///
/// Law (fail-closed): after the first call that fails, every later one does. What the database
/// tries then, closing the file among it, changes nothing more.
#[derive(Debug, Clone)]
pub(super) struct Backend {
    path: Arc<Path>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    file: Box<dyn VfsFile>,
    failure: Option<StoreError>,
}

impl Backend {
    pub(super) fn new(file: Box<dyn VfsFile>, path: PathBuf) -> Self {
        let failure = None;
        Self {
            path: path.into(),
            state: Arc::new(Mutex::new(State { file, failure })),
        }
    }

    /// The first call that failed.
    pub(super) fn failure(&self) -> Option<StoreError> {
        self.state().failure.clone()
    }

    /// Writes the file in the place of itself and flushes it.
    ///
    /// An earlier process may have ended after a flush that failed: what it read back then, and
    /// what is read now, is perhaps only in the system's cache, where it counts as written. After
    /// this it is on the device, and may be built on.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        if broken!(TrustCache) {
            return Ok(());
        }
        let settled = self.call("write back", |file| {
            let mut step = vec![0; STEP_BYTES];
            let mut at = 0;
            loop {
                let read = read_full_at(file, &mut step, at)?;
                write_all_at(file, step.get(..read).unwrap_or_default(), at)?;
                at = at.saturating_add(read as u64);
                if read < STEP_BYTES {
                    return file.flush();
                }
            }
        });
        settled.map_err(|error| self.named(&error))
    }

    pub(super) fn length(&self) -> Result<u64, StoreError> {
        self.len().map_err(|error| self.named(&error))
    }

    /// The failure as it was noted.
    fn named(&self, error: &io::Error) -> StoreError {
        self.failure().unwrap_or_else(|| StoreError::Io {
            action: "use",
            path: self.path.display().to_string(),
            cause: error.to_string(),
        })
    }

    fn call<T>(
        &self,
        action: &'static str,
        call: impl FnOnce(&mut dyn VfsFile) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state();
        if let Some(failure) = &state.failure {
            return Err(io::Error::other(failure.to_string()));
        }
        call(state.file.as_mut()).map_err(|error| {
            let again = io::Error::new(error.kind(), error.to_string());
            state.failure = Some(failed(action, &self.path)(error));
            again
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.call("measure", |file| file.length())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call("read", |file| {
            match read_full_at(file, out, offset)? == out.len() {
                true => Ok(()),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call("resize", |file| file.resize(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        if broken!(NoDatabaseFlush) {
            return Ok(());
        }
        self.call("flush", |file| file.flush())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call("write", |file| write_all_at(file, data, offset))
    }
}
