//! Copies of a whole home, taken while its node runs, and what putting one back costs.
//!
//! Law (one instant): while a copy is taken no store is written, so all of it is of one instant, as after
//! a crash at that instant. Law (said): a copy is whole when its list of files is there, and is put back
//! only if every file is as the list says. Law (nothing twice): what is put back signs no sequence again,
//! since every stream goes on above everything that can have been signed before; and it admits nothing
//! again, since it is not started before every proof from before has ended, and refuses mail of before. So
//! no node is started in the copy itself.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use overlane_core::replay::record::{FloorRecord, Record, RecordId};
use overlane_core::replay::{Lease, MAIL_LIFE_MAX_MS, RIPE_MS, restored};
use overlane_core::store::{Change, Effect, RecordStore, Scan, StoreError};
use overlane_core::wire::cbor::to_vec;
use overlane_core::{Coded, Fault};
use overlane_relay::log::{Change as LogChange, Entry, EnvelopeId, LogId, LogStore};
use overlane_relay::refs::store::{Row, Store};
use overlane_relay::refs::table::Change as RowChange;
use overlane_storage_native::vfs::RealVfs;
use overlane_storage_native::{StoreAdmin, kind_of};
use serde::{Deserialize, Serialize};

use super::{Home, HomeError, files};
use crate::words::instant;

/// The list of files; there once the copy is whole.
const LIST: &str = "backup.json";

/// Says until when a home that was put back is not to be started.
const RESTORED: &str = "restored.json";

/// Files and folders of a home that are copied.
const COPIED: [&str; 7] = [
    "delegated.key",
    "account.key",
    "config.toml",
    "replay",
    "references",
    "groups",
    "inbox",
];

/// How often a copy that does not restore is taken again: a store may write its next snapshot meanwhile.
const TRIES: u32 = 3;

/// Records that are written at once when a copy is put back.
const BATCH_RECORDS: usize = 64;

/// The form of the list.
const FORM: u32 = 1;

/// Holds the stores of a running node still.
#[derive(Debug, Clone, Default)]
pub struct Stillness(Arc<Mutex<()>>);

impl Stillness {
    /// The store, which is not written while something is copied.
    pub fn keep<S>(&self, store: S) -> Kept<S> {
        Kept {
            store,
            still: self.clone(),
        }
    }

    fn hold(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store that can be held still. Whoever writes it waits meanwhile.
#[derive(Debug)]
pub struct Kept<S> {
    store: S,
    still: Stillness,
}

impl RecordStore for Kept<Box<dyn StoreAdmin>> {
    fn scan(&mut self) -> Result<Scan, StoreError> {
        let _held = self.still.hold();
        self.store.scan()
    }

    fn write(&mut self, batch: &[Change]) -> Result<(), StoreError> {
        let _held = self.still.hold();
        self.store.write(batch)
    }

    fn seal(&mut self) -> Result<(), StoreError> {
        let _held = self.still.hold();
        self.store.seal()
    }
}

impl<S: Store> Store for Kept<S> {
    type Error = S::Error;

    fn rows(&mut self) -> Result<Vec<Row>, S::Error> {
        let _held = self.still.hold();
        self.store.rows()
    }

    fn commit(&mut self, changes: Vec<RowChange>) -> Result<(), S::Error> {
        let _held = self.still.hold();
        self.store.commit(changes)
    }
}

impl<S: LogStore> LogStore for Kept<S> {
    type Error = S::Error;
    type Index<'s>
        = S::Index<'s>
    where
        Self: 's;

    fn index(&mut self, log: &LogId) -> Result<S::Index<'_>, S::Error> {
        self.store.index(log)
    }

    fn shared_index(&mut self, log: &LogId) -> Result<S::Index<'_>, S::Error> {
        self.store.shared_index(log)
    }

    fn seq_of(&mut self, log: &LogId, id: &EnvelopeId) -> Result<Option<u64>, S::Error> {
        self.store.seq_of(log, id)
    }

    fn entry(&mut self, log: &LogId, seq: u64) -> Result<Option<Entry>, S::Error> {
        self.store.entry(log, seq)
    }

    fn envelope(&mut self, log: &LogId, seq: u64) -> Result<Option<Vec<u8>>, S::Error> {
        self.store.envelope(log, seq)
    }

    fn entries(&mut self, log: &LogId, from: u64, most: usize) -> Result<Vec<Entry>, S::Error> {
        self.store.entries(log, from, most)
    }

    fn rows(&mut self, prefix: &[u8]) -> Result<Vec<Row>, S::Error> {
        self.store.rows(prefix)
    }

    fn commit(&mut self, changes: Vec<LogChange>) -> Result<(), S::Error> {
        let _held = self.still.hold();
        self.store.commit(changes)
    }
}

/// A copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    form: u32,
    /// The account's place.
    pub did: String,
    /// Its instant, in milliseconds since the Unix epoch.
    pub taken_ms: u64,
    /// Replay records in it.
    pub records: usize,
    files: Vec<Listed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Listed {
    path: String,
    bytes: u64,
    blake3: String,
}

/// Why no copy was taken or put back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// There is something already.
    #[error("{} is there already", .0.display())]
    There(PathBuf),
    /// No folder can be made where the copy is to go.
    #[error("nothing can be copied to {}: {cause}", path.display())]
    NoPlace {
        /// Where.
        path: PathBuf,
        /// Why not.
        cause: String,
    },
    /// It is no whole copy.
    #[error("{} is no whole copy: {cause}", path.display())]
    NotWhole {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// It is a copy, and no home to start a node in.
    #[error("{} is a copy of a home: started as it is, its node would sign sequences twice and admit messages twice", .0.display())]
    IsCopy(PathBuf),
    /// The home was put back a short while ago.
    #[error(
        "this home was put back from a copy: what was admitted since the copy could be admitted once more \
         for another {} minutes, until {until_ms} ms of Unix time", left_ms.div_ceil(60_000)
    )]
    NotRipe {
        /// Until when.
        until_ms: u64,
        /// How long that is from now.
        left_ms: u64,
    },
    /// The home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Its replay store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Coded for BackupError {
    fn code(&self) -> &'static str {
        match self {
            Self::There(_) => "backup/there",
            Self::IsCopy(_) => "backup/is_copy",
            Self::NoPlace { .. } => "backup/no_place",
            Self::NotWhole { .. } => "backup/not_whole",
            Self::NotRipe { .. } => "backup/not_ripe",
            Self::Home(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::There(_) | Self::IsCopy(_) | Self::NoPlace { .. } => Fault::Usage,
            Self::NotWhole { .. } => Fault::StoreFailedClosed,
            Self::NotRipe { .. } => Fault::RefusedByBound,
            Self::Home(error) => error.fault(),
            Self::Store(error) => error.fault(),
        }
    }
}

impl Backup {
    /// What putting it back costs, in words.
    pub fn cost(&self) -> String {
        format!(
            "It is the state of {}. Putting it back loses what this home learnt since: peers, references, \
             and which messages were admitted. So that none is admitted twice, the node is not started for {} minutes after it \
             was put back, as long as a proof from before may live, and refuses all mail that was sent before. So that no \
             sequence is signed twice, every stream of this node goes on above all that it can have signed: its readers see a \
             gap, and lose nothing. The node it is of must have stopped for good.",
            instant(self.taken_ms),
            RIPE_MS.div_ceil(60_000),
        )
    }
}

/// Copies the home to `to`, which is not there yet, while whoever holds its stores keeps them still.
///
/// # Errors
/// [`BackupError`]; what was copied by then is left there, without its list.
pub fn backup(home: &Home, to: &Path, still: &Stillness) -> Result<Backup, BackupError> {
    if files::exists(to).map_err(no_place(to))? {
        return Err(BackupError::There(to.to_owned()));
    }
    let mut tries = 0;
    loop {
        tries += 1;
        match copied(home, to, still) {
            Ok(backup) => return Ok(backup),
            Err(BackupError::Store(_)) if tries < TRIES => {
                fs::remove_dir_all(to).map_err(HomeError::io("remove", to))?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Where to is the asker's to say: what is wrong with it is no fault of the home.
fn no_place(to: &Path) -> impl FnOnce(HomeError) -> BackupError {
    let path = to.to_owned();
    move |error| BackupError::NoPlace {
        path,
        cause: error.to_string(),
    }
}

fn copied(home: &Home, to: &Path, still: &Stillness) -> Result<Backup, BackupError> {
    let did = home.account_key()?.0.did().to_string();
    files::private_dir(to).map_err(no_place(to))?;
    let held = still.hold();
    let taken_ms = wall_ms();
    for name in COPIED {
        copy(&home.dir().join(name), &to.join(name))?;
    }
    drop(held);
    // Opening it reads every record: what would not restore is no copy.
    let records = match kind_of(&RealVfs, &Home::at(to).store_path())? {
        None => 0,
        Some(kind) => Home::at(to).open_store(kind)?.scan()?.records.len(),
    };
    if files::exists(&Home::at(to).references_path())? {
        Home::at(to).open_references()?;
    }
    if files::exists(&Home::at(to).groups_path())? {
        Home::at(to).open_groups()?;
    }
    if files::exists(&Home::at(to).inbox_path())? {
        Home::at(to).open_inbox()?;
    }
    let mut listed = Vec::new();
    for name in COPIED {
        list(to, Path::new(name), &mut listed)?;
    }
    let backup = Backup {
        form: FORM,
        did,
        taken_ms,
        records,
        files: listed,
    };
    let text = serde_json::to_vec_pretty(&backup).unwrap_or_default();
    files::replace(&to.join(LIST), &text, 0o600)?;
    Ok(backup)
}

/// Puts the copy at `from` back into a home without an account, and moves its floors.
///
/// # Errors
/// [`BackupError`]; a copy that is not as its list says is not touched.
pub fn restore(home: &Home, from: &Path) -> Result<Backup, BackupError> {
    let backup = checked(from)?;
    files::private_dir(home.dir())?;
    let _lock = home.lock()?;
    let names = COPIED.iter().map(|name| home.dir().join(name));
    for there in names {
        if files::exists(&there)? {
            return Err(BackupError::There(there));
        }
    }
    // The account comes last, or what signs for it: without them nothing starts here.
    let now_ms = wall_ms();
    for name in COPIED.iter().rev() {
        if *name == "account.key" {
            move_floors(home, now_ms)?;
            let until_ms = now_ms.saturating_add(RIPE_MS);
            let text = format!("{{\"until_ms\": {until_ms}}}\n");
            files::replace(&home.dir().join(RESTORED), text.as_bytes(), 0o600)?;
        }
        copy(&from.join(name), &home.dir().join(name))?;
    }
    Ok(backup)
}

/// Whether a node may be started in a home: not in a copy, and not too soon in one that was put back.
///
/// # Errors
/// [`BackupError::IsCopy`]; [`BackupError::NotRipe`]: not yet.
pub fn check_start(home: &Home) -> Result<(), BackupError> {
    #[derive(Deserialize)]
    struct Until {
        until_ms: u64,
    }
    if files::exists(&home.dir().join(LIST))? {
        return Err(BackupError::IsCopy(home.dir().to_owned()));
    }
    let path = home.dir().join(RESTORED);
    if !files::exists(&path)? {
        return Ok(());
    }
    let text = fs::read(&path).map_err(HomeError::io("read", &path))?;
    let until = serde_json::from_slice::<Until>(&text);
    let Until { until_ms } = until.map_err(|cause| BackupError::NotWhole {
        path: path.clone(),
        cause: cause.to_string(),
    })?;
    let now_ms = wall_ms();
    if now_ms <= until_ms {
        let left_ms = until_ms - now_ms;
        return Err(BackupError::NotRipe { until_ms, left_ms });
    }
    Ok(())
}

/// The same, before a start: one that was put back long enough ago is as any other from here on.
///
/// # Errors
/// As [`check_start`], and what the file system refuses.
pub fn check_ripe(home: &Home) -> Result<(), BackupError> {
    check_start(home)?;
    let path = home.dir().join(RESTORED);
    if files::exists(&path)? {
        fs::remove_file(&path).map_err(HomeError::io("remove", &path))?;
    }
    Ok(())
}

/// Lets every stream of this node go on above what it can have signed, and mail of before be refused.
fn move_floors(home: &Home, now_ms: u64) -> Result<(), BackupError> {
    let Some(kind) = kind_of(&RealVfs, &home.store_path())? else {
        return Ok(());
    };
    let mut store = home.open_store(kind)?;
    let exhausted = |_| BackupError::NotWhole {
        path: home.store_path(),
        cause: "this clock is beyond the last sequence".to_owned(),
    };
    let above = Lease::start(now_ms, 0).map_err(exhausted)?.end();
    let mut floor = FloorRecord::default();
    let mut changes = Vec::new();
    let write = |record: &Record| Change {
        name: record.id().name(),
        effect: Effect::Write(Arc::new(to_vec(record))),
    };
    for (name, found) in store.scan()?.records {
        match restored(name, found) {
            Ok(Record::Sender(mut sender)) => {
                sender.version = sender.version.saturating_add(1);
                sender.end = sender.end.max(above);
                changes.push(write(&Record::Sender(sender)));
            }
            Ok(Record::Floor(found)) => floor = found,
            // A record that does not restore refuses its own stream, here as before.
            Ok(_) | Err(_) => {}
        }
    }
    let mail_ms = now_ms
        .saturating_add(RIPE_MS)
        .saturating_add(MAIL_LIFE_MAX_MS);
    let floor = Record::Floor(FloorRecord {
        version: floor.version.saturating_add(1),
        mail_ms: floor.mail_ms.max(mail_ms),
        sender_end: floor.sender_end.max(above),
    });
    debug_assert_eq!(floor.id().name(), RecordId::Floor.name());
    changes.push(write(&floor));
    for batch in changes.chunks(BATCH_RECORDS) {
        store.write(batch)?;
    }
    store.seal()?;
    Ok(())
}

fn checked(from: &Path) -> Result<Backup, BackupError> {
    let path = from.join(LIST);
    let not_whole = |cause: String| BackupError::NotWhole {
        path: from.to_owned(),
        cause,
    };
    let text = fs::read(&path).map_err(|cause| not_whole(format!("{LIST}: {cause}")))?;
    let backup = serde_json::from_slice::<Backup>(&text);
    let backup = backup.map_err(|cause| not_whole(format!("{LIST}: {cause}")))?;
    if backup.form != FORM {
        return Err(not_whole(format!("its form is {}", backup.form)));
    }
    let mut there = Vec::new();
    for name in COPIED {
        list(from, Path::new(name), &mut there)?;
    }
    let differs = |one: &[Listed], other: &[Listed]| {
        one.iter()
            .find(|it| !other.contains(it))
            .map(|it| it.path.clone())
    };
    let other = differs(&there, &backup.files).or_else(|| differs(&backup.files, &there));
    match other {
        Some(path) => Err(not_whole(format!("{path} is not as {LIST} says"))),
        None => Ok(backup),
    }
}

/// Copies a file or a folder with all in it, durably; nothing where there is nothing. Links and sockets are
/// nobody's state.
fn copy(from: &Path, to: &Path) -> Result<(), HomeError> {
    if !files::exists(from)? {
        return Ok(());
    }
    let about = fs::symlink_metadata(from).map_err(HomeError::io("look at", from))?;
    if about.is_dir() {
        files::private_dir(to)?;
        for entry in entries(from)? {
            if let Some(name) = entry.file_name() {
                copy(&entry, &to.join(name))?;
            }
        }
        let flushed = File::open(to).and_then(|dir| dir.sync_all());
        return flushed.map_err(HomeError::io("flush", to));
    }
    if !about.is_file() {
        return Ok(());
    }
    fs::copy(from, to).map_err(HomeError::io("copy", from))?;
    let flushed = File::open(to).and_then(|file| file.sync_all());
    flushed.map_err(HomeError::io("flush", to))
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, HomeError> {
    let listed = fs::read_dir(dir).map_err(HomeError::io("list", dir))?;
    let mut paths = Vec::new();
    for entry in listed {
        paths.push(entry.map_err(HomeError::io("list", dir))?.path());
    }
    paths.sort();
    Ok(paths)
}

fn list(root: &Path, name: &Path, listed: &mut Vec<Listed>) -> Result<(), HomeError> {
    let path = root.join(name);
    if !files::exists(&path)? {
        return Ok(());
    }
    if path.is_dir() {
        for entry in entries(&path)? {
            if let Some(inside) = entry.file_name() {
                list(root, &name.join(inside), listed)?;
            }
        }
        return Ok(());
    }
    let mut file = File::open(&path).map_err(HomeError::io("open", &path))?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut bytes = 0_u64;
    loop {
        let count = file
            .read(&mut buffer)
            .map_err(HomeError::io("read", &path))?;
        if count == 0 {
            break;
        }
        let hashed = hasher.write_all(buffer.get(..count).unwrap_or_default());
        hashed.map_err(HomeError::io("read", &path))?;
        bytes = bytes.saturating_add(count as u64);
    }
    listed.push(Listed {
        path: name.display().to_string(),
        bytes,
        blake3: hasher.finalize().to_hex().to_string(),
    });
    Ok(())
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
