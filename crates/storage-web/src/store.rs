//! The record store on IndexedDB.
//!
//! A batch is one strict transaction and, but for a fold, one row in it (see [`rows`](crate::rows)).
//! Laws: release, atomicity, order, removals-last (all of a transaction is there, or nothing of it),
//! fail-closed, never-delete, one-scan, budget. A call that is dropped before it ended leaves the store
//! poisoned: nobody knows then what is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use overlane_core::replay::record;
use overlane_core::store::{
    Change, Effect, Found, Image, RECORD_BYTES_MAX, RecordName, Scan, StoreError, envelope,
};
use overlane_core::wire::cbor::Writer;
use wasm_bindgen::JsValue;
use web_sys::IdbObjectStore;

use crate::idb::{Health, Idb, frame_key, frame_keys, record_key, value};
use crate::lock::Held as Lock;
use crate::rows::directory::Directory;
use crate::rows::frame::{self, Change as CellChange};
use crate::rows::{self, ApplyDeltas, Base, DIRECTORIES, Loaded};
use crate::{FRAME_BYTES_MAX, FRAMES_MAX, LOCK_WAIT_MS, RECORDS_MAX};

mod admin;

pub use admin::{Cleared, WebSummary};

/// The version of the database, and so of what its rows mean.
const VERSION: u32 = 1;

/// What an application may set.
#[derive(Debug, Clone, Copy)]
pub struct WebConfig {
    /// How many records the store takes.
    pub records_max: u64,
    /// How many frames are kept before a batch folds them; with none, every batch writes rows.
    pub frames_max: u64,
    /// How many bytes of frames are kept before a batch folds them.
    pub frame_bytes_max: usize,
    /// How long to wait for another page to let go of the store; with zero it is refused at once.
    pub lock_wait_ms: u32,
    /// Brings a record's whole value and the deltas after it together.
    pub apply: ApplyDeltas,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            records_max: RECORDS_MAX,
            frames_max: FRAMES_MAX,
            frame_bytes_max: FRAME_BYTES_MAX,
            lock_wait_ms: LOCK_WAIT_MS,
            apply: apply_replay_deltas,
        }
    }
}

fn apply_replay_deltas(whole: &[u8], deltas: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let deltas = deltas.iter().map(Vec::as_slice);
    record::apply_all(whole, deltas).map_err(|error| error.to_string())
}

/// The replay store of one node in this origin. Dropping it lets go of it; [`close`](Self::close)
/// seals it first.
#[derive(Debug)]
pub struct WebStore {
    path: String,
    config: WebConfig,
    health: Health,
    idb: Idb,
    /// Every record, bad ones among them.
    held: BTreeMap<RecordName, Held>,
    /// Records that left since the last fold and have a row still.
    removed: BTreeSet<RecordName>,
    frames: std::ops::Range<u64>,
    frame_bytes: usize,
    newest: Vec<RecordName>,
    sealed: bool,
    damaged: Vec<(u64, Vec<u8>)>,
    foreign_rows: usize,
    cleared_kept: usize,
    /// What opening read, until the first scan takes it.
    opened: Option<Scan>,
    // Given back last, once the database is closed.
    _lock: Lock,
}

/// What the store knows of one record.
#[derive(Debug)]
struct Held {
    base: Base,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Its row says what it is.
    Folded,
    /// A frame changed it since; this is what the next fold writes.
    Newest(Arc<dyn Image>),
    /// It is kept as it is, and never written over. The cause is one that nothing but a frame tells.
    Bad(Option<String>),
}

/// A batch, checked, and what it leads to.
struct Staged<'a> {
    changes: Vec<(RecordName, CellChange)>,
    newest: Vec<(RecordName, Option<&'a Arc<dyn Image>>)>,
}

impl WebStore {
    /// Opens the store of the node of this name, and makes it if the origin has none.
    ///
    /// # Errors
    /// [`StoreError`]: another page has it open, the browser keeps nothing for this page or promises no
    /// strict commit, a page of an older version is in the way, the store is damaged or of another
    /// kind, or holds more records than it may.
    pub async fn open(node: &str, config: WebConfig) -> Result<Self, StoreError> {
        Self::open_version(node, config, VERSION).await
    }

    /// As [`open`](Self::open), as a later version of this store would.
    ///
    /// # Errors
    /// As there.
    #[doc(hidden)]
    pub async fn open_version(
        node: &str,
        config: WebConfig,
        version: u32,
    ) -> Result<Self, StoreError> {
        let path = database_name(node);
        let health = Health::default();
        let lock = Lock::take(&path, config.lock_wait_ms, &health).await?;
        let first = Directory {
            frames_from: 1,
            names: BTreeSet::new(),
        };
        let idb = Idb::open(&path, version, &directory_rows(&first), &health).await?;
        idb.check_strict().await?;
        let loaded = rows::load(&path, idb.rows().await?, config.apply)?;
        let mut store = Self {
            path,
            config,
            health,
            idb,
            held: BTreeMap::new(),
            removed: BTreeSet::new(),
            frames: 0..0,
            frame_bytes: 0,
            newest: Vec::new(),
            sealed: false,
            damaged: Vec::new(),
            foreign_rows: 0,
            cleared_kept: 0,
            opened: None,
            _lock: lock,
        };
        store.opened = Some(store.take_in(loaded));
        store.check_capacity(0, store.held.len())?;
        store.seal().await?;
        Ok(store)
    }

    /// The name of its database, which is also that of its lock.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reads everything once. The first scan is what opening read.
    ///
    /// # Errors
    /// [`StoreError`] when the store as a whole cannot be read.
    pub async fn scan(&mut self) -> Result<Scan, StoreError> {
        self.health.check()?;
        if let Some(scan) = self.opened.take() {
            return Ok(scan);
        }
        let rows = self.idb.rows().await?;
        let loaded = rows::load(&self.path, rows, self.config.apply)?;
        Ok(self.take_in(loaded))
    }

    /// Makes every change of the batch durable, each name at most once in a batch, and ends only then:
    /// as [`RecordStore::write`](overlane_core::store::RecordStore::write).
    ///
    /// # Errors
    /// As there.
    pub async fn write(&mut self, batch: &[Change]) -> Result<(), StoreError> {
        self.health.check()?;
        let staged = self.stage(batch)?;
        if staged.changes.is_empty() {
            return Ok(());
        }
        self.opened = None;
        let cells = staged.changes.iter().map(|(name, change)| (*name, change));
        let row = frame::seal(self.frames.end, &self.newest, cells);
        let frames = self.frames.end.saturating_sub(self.frames.start);
        let bytes = self.frame_bytes.saturating_add(row.len());
        if frames >= self.config.frames_max || bytes > self.config.frame_bytes_max {
            self.keep(&staged);
            return self.fold().await;
        }
        let key = frame_key(self.frames.end);
        let put = async |store: &IdbObjectStore| store.put_with_key(&value(&row), &key).map(drop);
        self.commit(put).await?;
        self.keep(&staged);
        self.frames.end = self.frames.end.saturating_add(1);
        self.frame_bytes = bytes;
        self.newest = staged.changes.into_iter().map(|(name, _)| name).collect();
        self.sealed = false;
        Ok(())
    }

    /// Marks the newest frame, so that its loss is noticed. For idle moments.
    ///
    /// # Errors
    /// [`StoreError`]; the store is then poisoned.
    pub async fn seal(&mut self) -> Result<(), StoreError> {
        self.health.check()?;
        let Some(newest) = self.frames.end.checked_sub(1) else {
            return Ok(());
        };
        if self.sealed || self.frames.is_empty() {
            return Ok(());
        }
        let row = frame::seal_row(newest, &self.newest);
        let key = JsValue::from_str(rows::SEAL);
        let put = async |store: &IdbObjectStore| store.put_with_key(&value(&row), &key).map(drop);
        self.commit(put).await?;
        self.sealed = true;
        Ok(())
    }

    /// Whether nothing was written since it was sealed.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Seals the store and lets go of it.
    ///
    /// # Errors
    /// [`StoreError`]: the seal did not become durable. It is let go of all the same.
    pub async fn close(mut self) -> Result<(), StoreError> {
        self.seal().await
    }

    /// Writes the rows of everything that the frames changed, and removes the frames.
    async fn fold(&mut self) -> Result<(), StoreError> {
        let puts = self.fold_puts();
        let removed: Vec<JsValue> = self.removed.iter().map(|it| record_key(*it)).collect();
        let frames = (!self.frames.is_empty()).then(|| frame_keys(&self.frames));
        let change = async |store: &IdbObjectStore| {
            for (key, value) in &puts {
                store.put_with_key(value, key)?;
            }
            for key in &removed {
                store.delete(key)?;
            }
            if let Some(frames) = frames {
                store.delete(&frames?.into())?;
            }
            Ok(())
        };
        self.commit(change).await?;
        for held in self.held.values_mut() {
            held.base = Base::Row;
            match &mut held.state {
                State::Newest(_) => held.state = State::Folded,
                State::Bad(cause) => *cause = None,
                State::Folded => {}
            }
        }
        self.removed.clear();
        self.damaged.clear();
        self.frames.start = self.frames.end;
        self.frame_bytes = 0;
        self.newest.clear();
        self.sealed = true;
        Ok(())
    }

    fn fold_puts(&self) -> Vec<(JsValue, JsValue)> {
        let mut puts = Vec::new();
        for (name, held) in &self.held {
            match &held.state {
                State::Newest(image) => {
                    let row = envelope::seal(*name, &image.whole());
                    puts.push((record_key(*name), value(&row)));
                }
                State::Bad(Some(cause)) => {
                    let mut row = Writer::new();
                    row.text(cause);
                    let key = JsValue::from_str(&rows::bad_key(*name));
                    puts.push((key, value(row.as_bytes())));
                }
                State::Bad(None) | State::Folded => {}
            }
        }
        for (number, row) in &self.damaged {
            puts.push((JsValue::from_str(&rows::kept_key(*number)), value(row)));
        }
        puts.extend(directory_rows(&self.directory()));
        puts
    }

    /// What the directory says after a fold.
    fn directory(&self) -> Directory {
        Directory {
            frames_from: self.frames.end,
            names: self.held.keys().copied().collect(),
        }
    }

    /// One strict transaction. Until it is complete, nothing of the store may be believed.
    async fn commit<T>(
        &mut self,
        change: impl AsyncFnOnce(&IdbObjectStore) -> Result<T, JsValue>,
    ) -> Result<T, StoreError> {
        let health = std::mem::take(&mut self.health);
        self.health
            .fail("a write was given up before it ended".into());
        let changed = self.idb.change(change).await;
        if let Err(error) = &changed {
            health.fail(error.to_string());
        }
        self.health = health;
        changed
    }

    /// Checks and encodes a batch. Nothing is written, so a refusal leaves the store as it was.
    fn stage<'a>(&self, batch: &'a [Change]) -> Result<Staged<'a>, StoreError> {
        let (mut made, mut left) = (0_usize, 0_usize);
        let mut staged = Staged {
            changes: Vec::with_capacity(batch.len()),
            newest: Vec::with_capacity(batch.len()),
        };
        for change in batch {
            let name = change.name;
            let held = self.held.get(&name);
            if matches!(held, Some(held) if matches!(held.state, State::Bad(_))) {
                return Err(StoreError::BadRecord { name });
            }
            match &change.effect {
                Effect::Write(image) => {
                    made = made.saturating_add(usize::from(held.is_none()));
                    staged.changes.push((name, cell(name, held, image)?));
                    staged.newest.push((name, Some(image)));
                }
                Effect::Remove => {
                    left = left.saturating_add(usize::from(held.is_some()));
                    staged.changes.push((name, CellChange::Remove));
                    staged.newest.push((name, None));
                }
            }
        }
        let needed = self.held.len().saturating_add(made).saturating_sub(left);
        self.check_capacity(self.held.len(), needed)?;
        Ok(staged)
    }

    /// A store that grows, or is opened, must hold no more than it may.
    fn check_capacity(&self, held: usize, needed: usize) -> Result<(), StoreError> {
        let needed = u64::try_from(needed).unwrap_or(u64::MAX);
        let grows = needed > u64::try_from(held).unwrap_or(u64::MAX);
        if grows && needed > self.config.records_max {
            return Err(StoreError::CapacityExhausted {
                capacity: self.config.records_max,
                needed,
            });
        }
        Ok(())
    }

    /// Follows a batch in memory.
    fn keep(&mut self, staged: &Staged<'_>) {
        for (name, image) in &staged.newest {
            let base = match self.held.get(name) {
                Some(held) => held.base,
                None if self.removed.contains(name) => Base::Row,
                None => Base::Nothing,
            };
            match image {
                Some(image) => {
                    self.removed.remove(name);
                    let state = State::Newest(Arc::clone(image));
                    self.held.insert(*name, Held { base, state });
                }
                None => {
                    self.held.remove(name);
                    if base == Base::Row {
                        self.removed.insert(*name);
                    }
                }
            }
        }
    }

    /// What the store is, from what was read of it.
    fn take_in(&mut self, loaded: Loaded) -> Scan {
        self.held.clear();
        self.removed = loaded.removed.into_iter().collect();
        self.frames = loaded.frames;
        self.frame_bytes = loaded.frame_bytes;
        self.newest = loaded.newest;
        self.sealed = loaded.sealed;
        self.damaged = loaded.damaged;
        self.foreign_rows = loaded.foreign_rows;
        self.cleared_kept = loaded.cleared_kept;
        let mut scan = Scan::default();
        for (name, entry) in loaded.records {
            let state = match &entry.found {
                Found::Bytes(bytes) if entry.dirty => State::Newest(Arc::new(bytes.clone())),
                Found::Bytes(_) => State::Folded,
                _ => State::Bad(entry.bad_by_frame),
            };
            let base = entry.base;
            self.held.insert(name, Held { base, state });
            scan.records.push((name, entry.found));
        }
        scan
    }
}

/// The change of one record, as short as it can be said.
fn cell(
    name: RecordName,
    held: Option<&Held>,
    image: &Arc<dyn Image>,
) -> Result<CellChange, StoreError> {
    let delta = held.and_then(|_| image.delta());
    let change = match delta {
        Some(delta) => CellChange::Delta(delta.bytes),
        None => CellChange::Whole(image.whole()),
    };
    let (CellChange::Delta(bytes) | CellChange::Whole(bytes)) = &change else {
        return Ok(change);
    };
    if bytes.len() > RECORD_BYTES_MAX {
        return Err(StoreError::RecordTooLarge {
            name,
            bytes: bytes.len(),
            bytes_max: RECORD_BYTES_MAX,
        });
    }
    Ok(change)
}

fn directory_rows(directory: &Directory) -> Vec<(JsValue, JsValue)> {
    let row = value(&directory.seal());
    let rows = DIRECTORIES.iter();
    rows.map(|key| (JsValue::from_str(key), row.clone()))
        .collect()
}

/// The database of a node's replay store.
fn database_name(node: &str) -> String {
    format!("overlane-replay/{node}")
}
