//! Rows and frames put together: what each record is, judged once.
//!
//! Laws: isolation (what is wrong with a record, a row or a frame refuses the records it concerns, and
//! no other), missing, own-key, never-delete. Where it cannot be told which records are concerned
//! (both copies of the directory are gone, or two frames in a row), the store as a whole is damaged.

use std::collections::BTreeMap;

use overlane_core::store::{Found, RecordName, StoreError, envelope};
use overlane_core::wire::cbor::Reader;

use super::directory::Directory;
use super::frame::{self, Change, Frame};
use super::{CLEARED, DIRECTORIES, Key, Row, SEAL, bad_key};

/// Brings a record's whole value and the deltas after it together.
pub type ApplyDeltas = fn(&[u8], &[Vec<u8>]) -> Result<Vec<u8>, String>;

/// What lies under a record's name besides the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// Its row, or the directory says there should be one.
    Row,
    /// Nothing: the record is in the frames alone.
    Nothing,
}

/// One record that the store holds or has witnessed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What was found.
    pub found: Found,
    /// Whether there is, or should be, a row.
    pub base: Base,
    /// Whether a frame changed it.
    pub dirty: bool,
    /// Why it is bad, where nothing but a frame says so: the next fold has to write it down.
    pub bad_by_frame: Option<String>,
}

/// Everything a store holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Every record.
    pub records: BTreeMap<RecordName, Entry>,
    /// Records with a row that left in a frame: the next fold removes the rows.
    pub removed: Vec<RecordName>,
    /// The number of the first frame, and the number that the next one gets.
    pub frames: std::ops::Range<u64>,
    /// The sum of the frames' lengths.
    pub frame_bytes: usize,
    /// Whose changes the newest frame holds.
    pub newest: Vec<RecordName>,
    /// Whether a seal says so too.
    pub sealed: bool,
    /// Frames that are there and damaged, whole or in part: the next fold keeps them aside.
    pub damaged: Vec<(u64, Vec<u8>)>,
    /// Rows that are nobody's: left alone, and not counted as records.
    pub foreign_rows: usize,
    /// Records that were cleared and are kept aside.
    pub cleared_kept: usize,
}

/// Puts the rows of `path` together.
///
/// # Errors
/// [`StoreError::Damaged`] where it cannot be told which records are concerned.
pub fn load(path: &str, rows: Vec<Row>, apply: ApplyDeltas) -> Result<Loaded, StoreError> {
    let damaged = |cause: String| StoreError::Damaged {
        path: path.to_owned(),
        cause,
    };
    let mut sorted = Sorted::of(rows);
    let directory = sorted
        .directories
        .drain(..)
        .max_by_key(|it| it.frames_from)
        .ok_or_else(|| damaged("both copies of its directory are gone or damaged".into()))?;
    let mut records = sorted.base(&directory);
    let mut loaded = Loaded {
        foreign_rows: sorted.foreign,
        cleared_kept: sorted.cleared,
        ..Loaded::default()
    };
    Frames::of(&mut sorted, &directory)
        .follow(&mut records, &mut loaded)
        .map_err(damaged)?;
    for (name, record) in records {
        let (base, dirty) = (record.base, record.dirty);
        match record.settle(apply) {
            None if base == Base::Row => loaded.removed.push(name),
            None => {}
            Some((found, bad_by_frame)) => {
                let entry = Entry {
                    found,
                    base,
                    dirty,
                    bad_by_frame,
                };
                loaded.records.insert(name, entry);
            }
        }
    }
    Ok(loaded)
}

/// Rows by what they are.
#[derive(Default)]
struct Sorted {
    directories: Vec<Directory>,
    frames: BTreeMap<u64, Option<Vec<u8>>>,
    rows: BTreeMap<RecordName, Option<Vec<u8>>>,
    bad: BTreeMap<String, Option<Vec<u8>>>,
    seal: Option<(u64, Vec<RecordName>)>,
    foreign: usize,
    cleared: usize,
}

impl Sorted {
    fn of(rows: Vec<Row>) -> Self {
        let mut sorted = Self::default();
        for Row { key, bytes } in rows {
            match key {
                Key::Frame(number) => {
                    sorted.frames.insert(number, bytes);
                }
                Key::Record(name) => {
                    sorted.rows.insert(name, bytes);
                }
                Key::Text(key) => sorted.text(key, bytes),
                Key::Other => sorted.foreign = sorted.foreign.saturating_add(1),
            }
        }
        sorted
    }

    fn text(&mut self, key: String, bytes: Option<Vec<u8>>) {
        if DIRECTORIES.contains(&key.as_str()) {
            let directory = bytes.as_deref().and_then(Directory::open);
            self.directories.extend(directory);
        } else if key == SEAL {
            self.seal = bytes.as_deref().and_then(frame::open_seal);
        } else if key.starts_with("bad/") {
            self.bad.insert(key, bytes);
        } else if key.starts_with(CLEARED) {
            self.cleared = self.cleared.saturating_add(1);
        } else if !key.starts_with("kept/") {
            self.foreign = self.foreign.saturating_add(1);
        }
    }

    /// What the last fold left of each record.
    fn base(&mut self, directory: &Directory) -> BTreeMap<RecordName, Folding> {
        let mut records = BTreeMap::new();
        for name in &directory.names {
            let found = match self.rows.remove(name) {
                None => Found::Missing,
                Some(None) => Found::Unreadable("its row holds no bytes".into()),
                Some(Some(row)) => envelope::open(*name, &row),
            };
            let found = match self.bad.get(&bad_key(*name)) {
                None => found,
                Some(cause) => Found::Torn(cause_of(cause.as_deref())),
            };
            records.insert(*name, Folding::based(found));
        }
        // Only something outside the store can have put these there.
        for name in std::mem::take(&mut self.rows).into_keys() {
            let found = Found::Unreadable("the store never made this row".into());
            records.insert(name, Folding::based(found));
        }
        records
    }
}

/// What a `bad/NAME` row says.
fn cause_of(row: Option<&[u8]>) -> String {
    let said = row.and_then(|row| Reader::new(row).text().ok());
    said.unwrap_or("it was found bad before").to_owned()
}

/// The frames since the last fold, each read or not.
struct Frames {
    read: Vec<(u64, Option<Frame>)>,
    raw: BTreeMap<u64, Vec<u8>>,
    from: u64,
    seal: Option<(u64, Vec<RecordName>)>,
    stale: usize,
}

impl Frames {
    fn of(sorted: &mut Sorted, directory: &Directory) -> Self {
        let from = directory.frames_from;
        let mut rows = std::mem::take(&mut sorted.frames);
        let current = rows.split_off(&from);
        let seal = sorted.seal.take().filter(|(number, _)| *number >= from);
        let newest = current.keys().next_back().copied();
        let newest = newest.max(seal.as_ref().map(|(number, _)| *number));
        let mut read = Vec::new();
        let mut expected = from;
        // Walks what is there, not the numbers: a stray key far away must not cost a walk to it.
        for (number, row) in &current {
            if expected < *number {
                read.push((expected, None));
                if expected.saturating_add(1) < *number {
                    read.push((expected.saturating_add(1), None));
                }
            }
            let frame = row.as_deref().and_then(frame::open);
            read.push((*number, frame.filter(|it| it.number == *number)));
            expected = number.saturating_add(1);
        }
        if let Some(newest) = newest.filter(|newest| expected <= *newest) {
            read.push((expected, None));
            if expected < newest {
                read.push((newest, None));
            }
        }
        let raw = current.into_iter();
        Self {
            read,
            raw: raw.filter_map(|(at, row)| Some((at, row?))).collect(),
            from,
            seal,
            stale: rows.len(),
        }
    }

    fn follow(
        self,
        records: &mut BTreeMap<RecordName, Folding>,
        loaded: &mut Loaded,
    ) -> Result<(), String> {
        let Self {
            read,
            mut raw,
            from,
            seal,
            stale,
        } = self;
        loaded.foreign_rows = loaded.foreign_rows.saturating_add(stale);
        loaded.frame_bytes = raw.values().map(Vec::len).sum();
        let next = read.last().map_or(from, |(at, _)| at.saturating_add(1));
        loaded.frames = from..next;
        let sealed = seal.filter(|(number, _)| number.saturating_add(1) == next);
        for at in 0..read.len() {
            let Some((number, frame)) = read.get(at) else {
                break;
            };
            let whose = match frame {
                Some(frame) => frame.cells.iter().map(|cell| cell.name).collect(),
                None => whose(*number, read.get(at.saturating_add(1)), sealed.as_ref())?,
            };
            let damaged = follow_frame(*number, frame.as_ref(), &whose, records);
            if let Some(row) = damaged.then(|| raw.remove(number)).flatten() {
                loaded.damaged.push((*number, row));
            }
            loaded.newest = whose;
        }
        loaded.sealed = sealed.is_some() || read.is_empty();
        Ok(())
    }
}

/// Whose changes a frame held that cannot be read: the next frame says, or the seal.
fn whose(
    number: u64,
    next: Option<&(u64, Option<Frame>)>,
    seal: Option<&(u64, Vec<RecordName>)>,
) -> Result<Vec<RecordName>, String> {
    let after = number.saturating_add(1);
    let said = match next {
        Some((at, Some(next))) if *at == after => Some(&next.before),
        Some(_) => None,
        None => seal.map(|(_, names)| names),
    };
    said.cloned().ok_or_else(|| {
        format!("frame {number} is gone or damaged, and nothing says whose changes it held")
    })
}

/// Whether anything of the frame is damaged.
fn follow_frame(
    number: u64,
    frame: Option<&Frame>,
    whose: &[RecordName],
    records: &mut BTreeMap<RecordName, Folding>,
) -> bool {
    let Some(frame) = frame else {
        for name in whose {
            let record = records.entry(*name).or_insert_with(Folding::nothing);
            record.lose(format!(
                "frame {number}, which changed it, is gone or damaged"
            ));
        }
        return true;
    };
    let mut damaged = false;
    for cell in &frame.cells {
        let record = records.entry(cell.name).or_insert_with(Folding::nothing);
        match &cell.change {
            None => {
                damaged = true;
                record.lose(format!("its bytes in frame {number} are damaged"));
            }
            Some(change) => record.follow(number, change),
        }
    }
    damaged
}

/// A record on its way through the frames.
struct Folding {
    base: Base,
    dirty: bool,
    value: Option<Found>,
    deltas: Vec<Vec<u8>>,
    lost: Option<String>,
}

impl Folding {
    const fn nothing() -> Self {
        Self {
            base: Base::Nothing,
            dirty: false,
            value: None,
            deltas: Vec::new(),
            lost: None,
        }
    }

    fn based(found: Found) -> Self {
        Self {
            base: Base::Row,
            value: Some(found),
            ..Self::nothing()
        }
    }

    /// What it is can no longer be told.
    fn lose(&mut self, cause: String) {
        self.dirty = true;
        self.lost.get_or_insert(cause);
    }

    fn follow(&mut self, number: u64, change: &Change) {
        self.dirty = true;
        match change {
            Change::Whole(bytes) => {
                self.value = Some(Found::Bytes(bytes.clone()));
                self.deltas.clear();
            }
            Change::Delta(bytes) if self.value.is_some() => self.deltas.push(bytes.clone()),
            Change::Delta(_) => self.lose(format!("frame {number} changes what is not there")),
            Change::Remove => {
                self.value = None;
                self.deltas.clear();
            }
        }
    }

    /// What was found, and why it is bad where only the frames say so; nothing where it left.
    fn settle(self, apply: ApplyDeltas) -> Option<(Found, Option<String>)> {
        if let Some(cause) = self.lost {
            return Some((Found::Torn(cause.clone()), Some(cause)));
        }
        let found = self.value?;
        match found {
            Found::Bytes(whole) if !self.deltas.is_empty() => {
                Some(match apply(&whole, &self.deltas) {
                    Ok(whole) => (Found::Bytes(whole), None),
                    Err(cause) => (Found::Torn(cause.clone()), Some(cause)),
                })
            }
            found => Some((found, None)),
        }
    }
}

#[cfg(test)]
mod tests;
