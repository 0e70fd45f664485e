//! An embedded database in a folder of its own: tables of rows, changed in transactions. What is
//! kept for references lies in one, and what is kept for logs and mail is to.
//!
//! Law (one flush): a transaction becomes durable with one flush of one file, whatever it changes.
//! Law (fail-closed): after a failed call the database is poisoned until it is opened again.
//! Law (nothing unsettled): what was read from a file after a process ended on a failed flush is
//! made durable before anything is built on it.
//!
//! # Why redb
//!
//! Two databases came into question, redb and SQLite. The bench program `embedded` measures both; on
//! a million rows of 240 bytes, on two shared cores and a virtual disk:
//!
//! | | redb 4.6 | SQLite (WAL, FULL) |
//! |---|---:|---:|
//! | file | 570 MB | 298 MB |
//! | open after an orderly end | 12 ms | below 1 ms |
//! | open after a kill | 2.5 s | 2 ms |
//! | 300 ranges of 16 rows, cold, warm | 9.3, 1.7 ms | 6.4, 4.2 ms |
//! | rows a second, 1, 64, 512 a transaction | 134, 25,574, 58,885 | 5,226, 12,918, 60,717 |
//! | memory at most | 22 MB | 23 MB |
//!
//! For redb: it reads and writes through this crate's own door to the disk, so the suites that
//! enumerate crashes and failing calls run over its real files (SQLite's door is a C interface, and
//! the workspace has no unsafe code); every page is under a checksum that its parent page holds,
//! so damage is noticed where a SQLite file just reads otherwise; readers go on while a
//! transaction is written; and it is Rust alone. Against it: single rows, which is why steps are
//! to be gathered into one transaction; the size of its files; and the open after a kill, which
//! walks the whole file. A large database is therefore to be closed in order, or to record its
//! allocator's state when it is idle, which makes that open one of milliseconds.

mod backend;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use overlane_core::store::StoreError;
use redb::{ReadTransaction, ReadableDatabase as _, WriteTransaction};

use crate::folder::{Folder, KIND_FILE, TEMP_SUFFIX};
use crate::mutant::broken;
use crate::vfs::{EntryKind, OpenMode, Vfs, failed};
use backend::Backend;

/// A table of byte strings by byte strings.
pub(crate) type Bytes = redb::TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Such a table, read for a while.
pub(crate) type ReadOnlyBytes = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

/// The database's one file.
pub(crate) const DATABASE_FILE: &str = "database";

/// What a database holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// The name of its kind.
    pub(crate) kind: &'static str,
    /// The form of its rows: another number is another program's, and is refused.
    pub(crate) rows: u32,
    /// How much of it is kept in memory.
    pub(crate) cache_bytes: usize,
    /// Makes its tables.
    pub(crate) make: Change,
    /// The form of rows that is taken as well, and what makes this one of it. It may have been done before.
    pub(crate) older: Option<(u32, Change)>,
}

/// What is done in one transaction.
pub(crate) type Change = fn(&WriteTransaction) -> Result<(), redb::Error>;

impl Form {
    fn settings(&self) -> String {
        settings(self.rows)
    }

    /// What makes this form of the one that a folder's settings say, if they say the older one.
    fn older_of(&self, said: &str) -> Option<Change> {
        let (rows, change) = self.older?;
        (said == settings(rows)).then_some(change)
    }
}

fn settings(rows: u32) -> String {
    format!("rows {rows}\n")
}

/// A database that this process holds. Dropping it closes the file in order and gives up its lock.
pub(crate) struct Database {
    // Closed before the lock is given up.
    redb: redb::Database,
    file: Backend,
    poisoned: Option<String>,
    folder: Folder,
}

impl Database {
    /// Opens the database in this folder, and makes it if the folder has none. The whole file is
    /// checked, whatever its last process came to.
    pub(crate) fn open(vfs: Arc<dyn Vfs>, path: &Path, form: Form) -> Result<Self, StoreError> {
        let (mut folder, entries) =
            Folder::open(vfs, path, form.kind, |name| name == DATABASE_FILE)?;
        let has = |name: &str| {
            let is_file = |kind| matches!(kind, EntryKind::File { .. });
            let mut entries = entries.iter();
            entries.any(|entry| entry.name == name && is_file(entry.kind))
        };
        let temp = format!("{DATABASE_FILE}{TEMP_SUFFIX}");
        let older = folder.settings.as_deref();
        let older = older.and_then(|it| form.older_of(it));
        match folder.settings.clone() {
            Some(settings) if settings != form.settings() && older.is_none() => {
                return Err(of_another_form(path, &settings, form));
            }
            Some(_) if has(DATABASE_FILE) => {}
            // Its making was cut short: nothing was ever kept in it.
            Some(_) if has(&temp) => make(&mut folder, form)?,
            Some(_) => {
                return Err(StoreError::Damaged {
                    path: path.display().to_string(),
                    cause: format!("its file `{DATABASE_FILE}` is gone"),
                });
            }
            None => make(&mut folder, form)?,
        }
        // What an earlier process renamed and did not live to flush.
        folder.flush()?;
        let (redb, file) = open_file(&folder, DATABASE_FILE, form)?;
        if let Some(upgrade) = older {
            if broken!(FormFirst) {
                folder.mark_kind(form.kind, &form.settings())?;
            }
            // Until the form is said, the older program may open it again, and this is done again.
            transact(&redb, upgrade).map_err(|error| named(&error, &file, path))?;
            folder.mark_kind(form.kind, &form.settings())?;
        }
        Ok(Self {
            redb,
            file,
            poisoned: None,
            folder,
        })
    }

    /// Reads one state of the tables.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        self.check()?;
        let transaction = self.redb.begin_read().map_err(redb::Error::from);
        let done = transaction.and_then(|transaction| read(&transaction));
        done.map_err(|error| named(&error, &self.file, &self.folder.path))
    }

    /// A table as it is now, to be read for a while; errors of it are named by [`Self::named`].
    pub(crate) fn begin(&self, table: Bytes) -> Result<ReadOnlyBytes, StoreError> {
        self.read(|transaction| Ok(transaction.open_table(table)?))
    }

    /// An error of a table that is being read.
    pub(crate) fn named(&self, error: &redb::Error) -> StoreError {
        named(error, &self.file, &self.folder.path)
    }

    /// What was read is not what this program wrote.
    pub(crate) fn damaged(&self, cause: &dyn fmt::Display) -> StoreError {
        damaged(&self.folder.path, cause)
    }

    /// Changes the tables in one transaction, and returns when all of it is durable. After an
    /// error none of it may be, or all: the database is poisoned.
    pub(crate) fn write<T>(
        &mut self,
        change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        self.check()?;
        let done = transact(&self.redb, change);
        done.map_err(|error| {
            let error = named(&error, &self.file, &self.folder.path);
            self.poisoned = Some(error.to_string());
            error
        })
    }

    /// Refuses what is asked of a poisoned database.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match &self.poisoned {
            Some(cause) => Err(StoreError::Poisoned {
                cause: cause.clone(),
            }),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("folder", &self.folder.path)
            .field("poisoned", &self.poisoned)
            .finish_non_exhaustive()
    }
}

/// Makes the database beside its name, says the kind, and gives it its name last: a folder of
/// this kind without the file has lost it, unless the one beside it is still there.
fn make(folder: &mut Folder, form: Form) -> Result<(), StoreError> {
    let temp = format!("{DATABASE_FILE}{TEMP_SUFFIX}");
    let path = folder.path.join(&temp);
    let file = folder.vfs.open(&path, OpenMode::Create);
    let file = Backend::new(file.map_err(failed("create", &path))?, path);
    let made = builder(form).create_with_backend(file.clone());
    let made = made.map_err(redb::Error::from);
    let made = made.and_then(|redb| {
        transact(&redb, form.make)?;
        Ok(redb.close()?)
    });
    made.map_err(|error| named(&error, &file, &folder.path))?;
    drop(file);
    if !broken!(KindFirst) {
        folder.flush()?;
    }
    if folder.settings.is_none() {
        folder.mark_kind(form.kind, &form.settings())?;
    }
    folder.rename_temp(DATABASE_FILE)
}

fn open_file(
    folder: &Folder,
    name: &str,
    form: Form,
) -> Result<(redb::Database, Backend), StoreError> {
    let path = folder.path.join(name);
    let file = folder.vfs.open(&path, OpenMode::Update);
    let file = Backend::new(file.map_err(failed("open", &path))?, path);
    // The database takes an empty file for one that is to be made.
    if file.length()? == 0 {
        return Err(damaged(&folder.path, &"it is empty"));
    }
    file.settle()?;
    let opened = builder(form).create_with_backend(file.clone());
    match opened {
        Ok(redb) => Ok((redb, file)),
        Err(error) => Err(named(&error.into(), &file, &folder.path)),
    }
}

fn builder(form: Form) -> redb::Builder {
    let mut builder = redb::Builder::new();
    builder.set_cache_size(form.cache_bytes);
    builder.set_check_integrity_on_open(true);
    builder
}

fn transact<T>(
    redb: &redb::Database,
    change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
) -> Result<T, redb::Error> {
    let transaction = redb.begin_write()?;
    let value = change(&transaction)?;
    transaction.commit()?;
    Ok(value)
}

/// The error of a call to the disk, where one failed, or what the database says.
fn named(error: &redb::Error, file: &Backend, folder: &Path) -> StoreError {
    file.failure().unwrap_or_else(|| damaged(folder, error))
}

fn damaged(folder: &Path, cause: &dyn fmt::Display) -> StoreError {
    StoreError::Damaged {
        path: folder.join(DATABASE_FILE).display().to_string(),
        cause: cause.to_string(),
    }
}

fn of_another_form(path: &Path, settings: &str, form: Form) -> StoreError {
    let said = settings
        .strip_prefix("rows ")
        .and_then(|rest| rest.strip_suffix('\n'));
    let cause = match said.and_then(|rows| rows.parse::<u32>().ok()) {
        Some(rows) => format!(
            "its rows are of form {rows}, and this program's are of form {}: use the program that wrote it",
            form.rows
        ),
        None => format!("its file `{KIND_FILE}` does not say what form its rows have"),
    };
    StoreError::WrongKind {
        path: path.display().to_string(),
        cause,
    }
}
