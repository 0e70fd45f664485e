//! One batch's changes, and how to undo them.
//!
//! Law (fail closed): undoing a batch leaves every table exactly as it was before the batch's
//! first change. A batch keeps what each record, bucket and window was before its first change in
//! this batch; transitions of a batch are never undone one by one. Law (order): a record changed
//! several times in one batch is written once, with its last value.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::table::{Receiver, Sender, Tables};
use crate::ids::StreamKey;
use crate::replay::quota::{Bucket, Quota};
use crate::replay::record::{DELTA_OPS_MAX, Op, RecordId, RecordImage, Table};
use crate::replay::record::{FloorRecord, ForkRecord};
use crate::replay::slots::Slot;
use crate::replay::volatile::Volatile;
use crate::replay::window::Window;
use crate::store::{Change, Effect, Image, RecordName};

/// What a batch does to one record.
#[derive(Debug, Clone, Hash)]
pub(super) struct Touch<E> {
    /// The record before the batch.
    before: Option<E>,
    /// What it underwent since; of no meaning once `whole` is set.
    ops: Vec<Op>,
    /// Whether only the whole record says what became of it.
    whole: bool,
    /// Whether the record is to be written or removed at all.
    dirty: bool,
    /// The stream's quota before the batch first charged it; `None` where it did not.
    bucket: Option<Option<Bucket>>,
}

impl<E> Touch<E> {
    fn new(before: Option<E>) -> Self {
        Self {
            whole: before.is_none(),
            before,
            ops: Vec::new(),
            dirty: false,
            bucket: None,
        }
    }

    pub(super) const fn before(&self) -> Option<&E> {
        self.before.as_ref()
    }

    /// Notes that the stream's quota was charged, and what it was.
    pub(super) fn charged(&mut self, before: Option<Bucket>) {
        self.bucket.get_or_insert(before);
    }

    /// Marks the record to be written, and tells whether it was not until now.
    pub(super) fn write(&mut self, op: Option<Op>) -> bool {
        match op {
            Some(op) if !self.whole && self.ops.len() < DELTA_OPS_MAX => self.ops.push(op),
            _ => {
                self.whole = true;
                self.ops.clear();
            }
        }
        !std::mem::replace(&mut self.dirty, true)
    }

    fn image<R>(&mut self, record: &Arc<R>) -> Arc<RecordImage<R>> {
        let ops = std::mem::take(&mut self.ops);
        Arc::new(RecordImage::new(Arc::clone(record), ops))
    }
}

/// What a batch lets go, for the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Retired {
    pub(super) receivers: u64,
    pub(super) senders: u64,
    pub(super) custody: u64,
}

/// Everything a batch has changed so far.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Touched {
    receivers: BTreeMap<StreamKey, Touch<Receiver>>,
    senders: BTreeMap<StreamKey, Touch<Sender>>,
    floor: Option<Touch<Arc<FloorRecord>>>,
    forks: BTreeMap<StreamKey, Touch<Arc<ForkRecord>>>,
    /// Quota before the batch first charged it, of link-local streams.
    link_local: BTreeMap<StreamKey, Option<Bucket>>,
    windows: BTreeMap<(Slot, StreamKey), Option<Window>>,
    pub(super) retired: Retired,
    writes: bool,
}

impl Touched {
    /// Whether a store has to write anything before the batch's answers are true for good.
    pub(super) const fn writes(&self) -> bool {
        self.writes
    }

    /// The batch is going to write something.
    pub(super) const fn will_write(&mut self) {
        self.writes = true;
    }

    pub(super) fn receiver(
        &mut self,
        stream: StreamKey,
        now: Option<&Receiver>,
    ) -> &mut Touch<Receiver> {
        let touch = self.receivers.entry(stream);
        touch.or_insert_with(|| Touch::new(now.cloned()))
    }

    pub(super) fn sender(&mut self, stream: StreamKey, now: Option<&Sender>) -> &mut Touch<Sender> {
        let touch = self.senders.entry(stream);
        touch.or_insert_with(|| Touch::new(now.cloned()))
    }

    pub(super) fn floor(&mut self, now: &Arc<FloorRecord>) -> &mut Touch<Arc<FloorRecord>> {
        self.floor
            .get_or_insert_with(|| Touch::new(Some(Arc::clone(now))))
    }

    pub(super) fn fork(
        &mut self,
        stream: StreamKey,
        now: Option<&Arc<ForkRecord>>,
    ) -> &mut Touch<Arc<ForkRecord>> {
        let touch = self.forks.entry(stream);
        touch.or_insert_with(|| Touch::new(now.cloned()))
    }

    /// The quota that the stream had before the batch, its quota now being `now`: a stream may be
    /// charged as a link-local one and as another in one batch.
    pub(super) fn bucket_before(&self, stream: &StreamKey, now: Option<Bucket>) -> Option<Bucket> {
        let link_local = || self.link_local.get(stream).copied();
        let noted = (!self.link_local.is_empty()).then(link_local).flatten();
        noted.unwrap_or(now)
    }

    /// Notes that a link-local stream's quota was charged, and what it was.
    pub(super) fn link_local_charged(&mut self, stream: StreamKey, before: Option<Bucket>) {
        let durable = self.receivers.get(&stream).and_then(|touch| touch.bucket);
        let noted = self.link_local.entry(stream);
        noted.or_insert(durable.unwrap_or(before));
    }

    pub(super) fn window(&mut self, slot: Slot, stream: StreamKey, before: Option<&Window>) {
        let window = self.windows.entry((slot, stream));
        window.or_insert_with(|| before.cloned());
    }

    /// The connection in this slot has ended, and its windows with it.
    pub(super) fn end(&mut self, slot: Slot) {
        self.windows.retain(|(held, _), _| *held != slot);
    }

    /// The batch's changes, one a record, each with a snapshot of the record as it is now.
    pub(super) fn changes(&mut self, tables: &Tables) -> Vec<Change> {
        let mut changes = Vec::with_capacity(self.receivers.len() + self.senders.len());
        for (stream, touch) in &mut self.receivers {
            let now = tables.receivers.get(stream);
            let held = now.or(touch.before()).map(|it| it.name);
            let name = held.unwrap_or_else(|| Table::Receiver.record_name(stream));
            change(&mut changes, name, touch, now.map(|it| &it.record));
        }
        for (stream, touch) in &mut self.senders {
            let now = tables.senders.get(stream).map(|it| &it.record);
            change(&mut changes, Table::Sender.record_name(stream), touch, now);
        }
        if let Some(touch) = &mut self.floor {
            let name = RecordId::Floor.name();
            change(&mut changes, name, touch, Some(&tables.floor));
        }
        for (stream, touch) in &mut self.forks {
            let now = tables.forks.get(stream);
            change(&mut changes, Table::Fork.record_name(stream), touch, now);
        }
        changes
    }

    /// Puts everything back to what it was before the batch.
    pub(super) fn undo(self, tables: &mut Tables, quota: &mut Quota, volatile: &mut Volatile) {
        for (stream, touch) in self.receivers {
            tables.put_receiver(stream, touch.before);
            if let Some(before) = touch.bucket {
                quota.restore(&stream, before);
            }
        }
        for (stream, touch) in self.senders {
            tables.put_sender(stream, touch.before);
        }
        if let Some(floor) = self.floor.and_then(|touch| touch.before) {
            tables.floor = floor;
        }
        for (stream, touch) in self.forks {
            tables.put_fork(stream, touch.before);
        }
        for (stream, before) in self.link_local {
            quota.restore(&stream, before);
        }
        for ((slot, stream), before) in self.windows {
            volatile.put(slot, stream, before);
        }
    }
}

fn change<E, R>(
    changes: &mut Vec<Change>,
    name: RecordName,
    touch: &mut Touch<E>,
    now: Option<&Arc<R>>,
) where
    RecordImage<R>: Image + 'static,
{
    let effect = match now {
        _ if !touch.dirty => return,
        Some(record) => Effect::Write(touch.image(record)),
        None if touch.before.is_some() => Effect::Remove,
        None => return,
    };
    changes.push(Change { name, effect });
}
