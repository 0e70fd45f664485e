//! Which rows a transaction changed, and tables made again from rows that were kept.

use super::Tables;
use super::link::{Due, Head, LinkTable};
use super::names::{Id, LinkId, LocalObject, LocalPromise};
use super::rows::Logged;
use crate::refs::limits::Limits;
use crate::refs::wire::{Epoch, Seq};
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};
use std::collections::BTreeSet;

/// A row to write, or to remove.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Change {
    /// The row's name.
    pub key: Vec<u8>,
    /// Its bytes, if it is there.
    pub value: Option<Vec<u8>>,
}

/// Rows that are not those of tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A row that does not decode.
    #[error("the row {key:02x?} does not decode: {error}")]
    Row {
        /// The row's name.
        key: Vec<u8>,
        /// What is wrong with it.
        error: CborError,
    },
    /// A row of a link that has none of its own.
    #[error("the row {key:02x?} is of link {link}, which has no epoch")]
    NoLink {
        /// The row's name.
        key: Vec<u8>,
        /// The link.
        link: LinkId,
    },
    /// Rows that contradict each other.
    #[error(transparent)]
    Inconsistent(#[from] super::Inconsistency),
}

/// The name of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    Next,
    Object(LocalObject),
    Promise(LocalPromise),
    /// Before the other rows of the link.
    Link(LinkId),
    Entry(LinkId, Id),
    Pending(LinkId, Seq, u32),
    Tombstone(LinkId, Id),
    Outbox(LinkId, Seq),
    Due(LinkId, Due),
    Hold(LinkId, Seq, LocalPromise),
}

/// What is kept of a link besides its tables.
struct LinkRow {
    epoch: Epoch,
    limits: Limits,
    head: Head,
}

impl Tables {
    /// Tables made of the rows that a store kept, which it follows from now on.
    ///
    /// # Errors
    /// A row that does not decode, or rows that contradict each other.
    pub fn load<'r>(
        limits: Limits,
        rows: impl IntoIterator<Item = (&'r [u8], &'r [u8])>,
    ) -> Result<Self, LoadError> {
        let mut tables = Self {
            unsaved: Some(BTreeSet::new()),
            ..Self::new(limits)
        };
        let mut of_links = Vec::new();
        for (key, value) in rows {
            let name = from_slice(key).map_err(|error| broken(key, error))?;
            let loaded = match name {
                Key::Next => from_slice(value).map(|next| tables.next = Logged::new(next)),
                Key::Object(name) => from_slice(value).map(|row| tables.objects.load(name, row)),
                Key::Promise(name) => from_slice(value).map(|row| tables.promises.load(name, row)),
                Key::Link(link) => from_slice(value).map(|row: LinkRow| {
                    let mut table = LinkTable::new(row.epoch, row.limits);
                    table.head = Logged::new(row.head);
                    tables.links.insert(link, table);
                }),
                _ => {
                    of_links.push((name, key, value));
                    Ok(())
                }
            };
            loaded.map_err(|error| broken(key, error))?;
        }
        for (name, key, value) in of_links {
            let Some(link) = name.link() else {
                continue;
            };
            let Some(table) = tables.links.get_mut(&link) else {
                let key = key.to_vec();
                return Err(LoadError::NoLink { key, link });
            };
            table
                .load(name, value)
                .map_err(|error| broken(key, error))?;
        }
        tables.audit()?;
        Ok(tables)
    }

    /// The rows that changed since they were taken last. A store that follows the tables keeps all
    /// of them, or none.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let Some(unsaved) = &mut self.unsaved else {
            return Vec::new();
        };
        let keys = std::mem::take(unsaved);
        let changes = keys.into_iter().map(|key| Change {
            key: to_vec(&key),
            value: self.row(key),
        });
        changes.collect()
    }

    /// Whether there is anything that a store has not been told of.
    pub fn has_changes(&self) -> bool {
        self.unsaved.as_ref().is_some_and(|keys| !keys.is_empty())
    }

    fn row(&self, key: Key) -> Option<Vec<u8>> {
        match key {
            Key::Next => Some(to_vec(self.next.get())),
            Key::Object(name) => self.objects.get(&name).map(to_vec),
            Key::Promise(name) => self.promises.get(&name).map(to_vec),
            _ => {
                let table = self.links.get(&key.link()?)?;
                table.row(key)
            }
        }
    }

    /// Notes what a transaction changed, before its logs are cleared.
    pub(super) fn record(&mut self, touched: &BTreeSet<LinkId>) {
        let Some(unsaved) = &mut self.unsaved else {
            return;
        };
        if self.next.is_changed() {
            unsaved.insert(Key::Next);
        }
        unsaved.extend(self.objects.changed().map(|&name| Key::Object(name)));
        unsaved.extend(self.promises.changed().map(|&name| Key::Promise(name)));
        for &link in touched {
            let Some(table) = self.links.get(&link) else {
                continue;
            };
            if table.head.is_changed() {
                unsaved.insert(Key::Link(link));
            }
            let entries = table.entries.changed();
            unsaved.extend(entries.map(|&id| Key::Entry(link, id)));
            let pending = table.pending.changed();
            unsaved.extend(pending.map(|&(seq, index)| Key::Pending(link, seq, index)));
            let tombstones = table.tombstones.changed();
            unsaved.extend(tombstones.map(|&id| Key::Tombstone(link, id)));
            unsaved.extend(table.outbox.changed().map(|&seq| Key::Outbox(link, seq)));
            unsaved.extend(table.due.changed().map(|&due| Key::Due(link, due)));
            let holds = table.holds.changed();
            unsaved.extend(holds.map(|&(seq, promise)| Key::Hold(link, seq, promise)));
        }
    }

    /// Notes that nothing is left of a link.
    pub(super) fn record_end(&mut self, link: LinkId, table: &LinkTable) {
        let Some(unsaved) = &mut self.unsaved else {
            return;
        };
        unsaved.insert(Key::Link(link));
        unsaved.extend(table.keys(link));
    }
}

impl LinkTable {
    /// The names of all rows of the link but its first.
    fn keys(&self, link: LinkId) -> impl Iterator<Item = Key> {
        let entries = self
            .entries
            .iter()
            .map(move |(&id, _)| Key::Entry(link, id));
        let pending = self.pending.iter();
        let pending = pending.map(move |(&(seq, index), _)| Key::Pending(link, seq, index));
        let buried = self.tombstones.iter();
        let buried = buried.map(move |(&id, _)| Key::Tombstone(link, id));
        let outbox = self
            .outbox
            .iter()
            .map(move |(&seq, _)| Key::Outbox(link, seq));
        let due = self.due.iter().map(move |(&due, ())| Key::Due(link, due));
        let holds = self.holds.iter();
        let holds = holds.map(move |(&(seq, name), ())| Key::Hold(link, seq, name));
        entries
            .chain(pending)
            .chain(buried)
            .chain(outbox)
            .chain(due)
            .chain(holds)
    }

    fn row(&self, key: Key) -> Option<Vec<u8>> {
        let present = |there: bool| there.then(|| to_vec(&true));
        match key {
            Key::Link(_) => Some(to_vec(&LinkRow {
                epoch: self.epoch,
                limits: self.limits,
                head: *self.head.get(),
            })),
            Key::Entry(_, id) => self.entries.get(&id).map(to_vec),
            Key::Pending(_, seq, index) => self.pending.get(&(seq, index)).map(to_vec),
            Key::Tombstone(_, id) => self.tombstones.get(&id).map(to_vec),
            Key::Outbox(_, seq) => self.outbox.get(&seq).map(to_vec),
            Key::Due(_, due) => present(self.due.contains(&due)),
            Key::Hold(_, seq, promise) => present(self.holds.contains(&(seq, promise))),
            Key::Next | Key::Object(_) | Key::Promise(_) => None,
        }
    }

    fn load(&mut self, name: Key, value: &[u8]) -> Result<(), CborError> {
        match name {
            Key::Entry(_, id) => {
                let entry: super::link::Entry = from_slice(value)?;
                self.entries.load(id, entry);
                if !entry.retiring {
                    self.by_local.load(entry.local().into(), id);
                }
            }
            Key::Pending(_, seq, index) => self.pending.load((seq, index), from_slice(value)?),
            Key::Tombstone(_, id) => self.tombstones.load(id, from_slice(value)?),
            Key::Outbox(_, seq) => self.outbox.load(seq, from_slice(value)?),
            Key::Due(_, due) => self.due.load(due, present(value)?),
            Key::Hold(_, seq, promise) => self.holds.load((seq, promise), present(value)?),
            Key::Next | Key::Object(_) | Key::Promise(_) | Key::Link(_) => {}
        }
        Ok(())
    }
}

/// A row of which only the name says something.
fn present(value: &[u8]) -> Result<(), CborError> {
    match from_slice(value)? {
        true => Ok(()),
        false => Err(Reader::invalid(0, "row without content")),
    }
}

fn broken(key: &[u8], error: CborError) -> LoadError {
    let key = key.to_vec();
    LoadError::Row { key, error }
}

impl Key {
    fn link(self) -> Option<LinkId> {
        match self {
            Self::Next | Self::Object(_) | Self::Promise(_) => None,
            Self::Link(link)
            | Self::Entry(link, _)
            | Self::Pending(link, ..)
            | Self::Tombstone(link, _)
            | Self::Outbox(link, _)
            | Self::Due(link, _)
            | Self::Hold(link, ..) => Some(link),
        }
    }
}

impl Encode for Key {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Next => writer.array(1).uint(0),
            Self::Object(name) => writer.array(2).uint(1).value(name),
            Self::Promise(name) => writer.array(2).uint(2).value(name),
            Self::Link(link) => writer.array(2).uint(3).value(link),
            Self::Entry(link, id) => writer.array(3).uint(4).value(link).value(id),
            Self::Pending(link, seq, index) => {
                writer.array(4).uint(5).value(link).value(seq).value(index)
            }
            Self::Tombstone(link, id) => writer.array(3).uint(6).value(link).value(id),
            Self::Outbox(link, seq) => writer.array(3).uint(7).value(link).value(seq),
            Self::Due(link, due) => writer.array(3).uint(8).value(link).value(due),
            Self::Hold(link, seq, name) => {
                writer.array(4).uint(9).value(link).value(seq).value(name)
            }
        };
    }
}

impl<'a> Decode<'a> for Key {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        match (reader.u8()?, fields) {
            (0, 1) => Ok(Self::Next),
            (1, 2) => reader.value().map(Self::Object),
            (2, 2) => reader.value().map(Self::Promise),
            (3, 2) => reader.value().map(Self::Link),
            (4, 3) => Ok(Self::Entry(reader.value()?, reader.value()?)),
            (5, 4) => Ok(Self::Pending(
                reader.value()?,
                reader.value()?,
                reader.value()?,
            )),
            (6, 3) => Ok(Self::Tombstone(reader.value()?, reader.value()?)),
            (7, 3) => Ok(Self::Outbox(reader.value()?, reader.value()?)),
            (8, 3) => Ok(Self::Due(reader.value()?, reader.value()?)),
            (9, 4) => Ok(Self::Hold(
                reader.value()?,
                reader.value()?,
                reader.value()?,
            )),
            _ => Err(Reader::invalid(at, "name of a row")),
        }
    }
}

impl Encode for LinkRow {
    fn encode(&self, writer: &mut Writer) {
        let limits = self.limits;
        writer.array(3).value(&self.epoch).array(12);
        writer
            .value(&limits.exports)
            .value(&limits.imports)
            .value(&limits.promises)
            .value(&limits.unacked_frames)
            .value(&limits.queued_messages)
            .value(&limits.introductions_per_s)
            .value(&limits.frames_per_s)
            .value(&limits.soft_violations)
            .value(&limits.ack_delay_ms)
            .value(&limits.probe_ms)
            .value(&limits.ack_deadline_ms)
            .value(&limits.explicit_seq)
            .value(&self.head);
    }
}

impl<'a> Decode<'a> for LinkRow {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(3)?;
        let epoch = reader.value()?;
        reader.expect_array(12)?;
        let limits = Limits {
            exports: reader.value()?,
            imports: reader.value()?,
            promises: reader.value()?,
            unacked_frames: reader.value()?,
            queued_messages: reader.value()?,
            introductions_per_s: reader.value()?,
            frames_per_s: reader.value()?,
            soft_violations: reader.value()?,
            ack_delay_ms: reader.value()?,
            probe_ms: reader.value()?,
            ack_deadline_ms: reader.value()?,
            explicit_seq: reader.value()?,
        };
        let head = reader.value()?;
        Ok(Self {
            epoch,
            limits,
            head,
        })
    }
}
