//! The tables in memory: every stream's record, and what is derived from the records.
//!
//! Records are immutable behind an `Arc`: a batch holds a snapshot of each record it writes
//! without copying it, and the first change after that copies it once. Whatever is derived from the
//! records (slot charges, the custody index, the retirement schedule) changes where a record does,
//! here, so that undoing a record undoes it all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::schedule::{Schedule, ripe_ms};
use crate::ids::StreamKey;
use crate::replay::lease::Lease;
use crate::replay::record::{FloorRecord, ForkRecord, ReceiverRecord, SenderRecord};
use crate::replay::slots::Slots;
use crate::replay::unrestorable::Unrestorable;
use crate::store::RecordName;

/// A retained receiver stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Receiver {
    pub(super) record: Arc<ReceiverRecord>,
    /// The record's name, which is a hash.
    pub(super) name: RecordName,
    /// When this process loaded the stream or last admitted on it, by the steady clock.
    pub(super) used_ms: u64,
}

/// A retained sender stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sender {
    pub(super) record: Arc<SenderRecord>,
    pub(super) lease: Lease,
    /// When this process loaded the stream or last reserved on it, by the steady clock.
    pub(super) used_ms: u64,
}

/// Every table.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) receivers: BTreeMap<StreamKey, Receiver>,
    pub(super) senders: BTreeMap<StreamKey, Sender>,
    pub(super) floor: Arc<FloorRecord>,
    pub(super) forks: BTreeMap<StreamKey, Arc<ForkRecord>>,
    pub(super) unrestorable: Unrestorable,
    pub(super) slots: Slots,
    /// Every mail in custody: when it is spent, its stream, its sequence.
    pub(super) custody: BTreeSet<(u64, StreamKey, u64)>,
    pub(super) receivers_due: Schedule,
    pub(super) senders_due: Schedule,
}

impl Tables {
    pub(super) fn new(slots: Slots) -> Self {
        Self {
            receivers: BTreeMap::new(),
            senders: BTreeMap::new(),
            floor: Arc::default(),
            forks: BTreeMap::new(),
            unrestorable: Unrestorable::new(),
            slots,
            custody: BTreeSet::new(),
            receivers_due: Schedule::default(),
            senders_due: Schedule::default(),
        }
    }

    /// Places of the receiver table that are taken; a bad record takes one of every table.
    pub(super) fn receivers_used(&self) -> usize {
        self.receivers.len() + self.unrestorable.len()
    }

    /// Places of the sender table that are taken.
    pub(super) fn senders_used(&self) -> usize {
        self.senders.len() + self.unrestorable.len()
    }

    /// Sets or removes a receiver stream as a whole.
    pub(super) fn put_receiver(&mut self, stream: StreamKey, receiver: Option<Receiver>) {
        if let Some(old) = self.receivers.remove(&stream) {
            self.slots.discharge(old.record.introducer);
            for entry in &old.record.custody {
                self.custody
                    .remove(&(entry.spent_ms, stream, entry.sequence));
            }
        }
        if let Some(new) = receiver {
            self.slots.charge(new.record.introducer);
            let custody = new.record.custody.iter();
            self.custody
                .extend(custody.map(|entry| (entry.spent_ms, stream, entry.sequence)));
            self.receivers_due.schedule(ripe_ms(new.used_ms), stream);
            self.receivers.insert(stream, new);
        }
    }

    /// Sets or removes a sender stream as a whole.
    pub(super) fn put_sender(&mut self, stream: StreamKey, sender: Option<Sender>) {
        match sender {
            None => {
                self.senders.remove(&stream);
            }
            Some(new) => {
                self.senders_due.schedule(ripe_ms(new.used_ms), stream);
                self.senders.insert(stream, new);
            }
        }
    }

    /// Sets or removes an evidence.
    pub(super) fn put_fork(&mut self, stream: StreamKey, fork: Option<Arc<ForkRecord>>) {
        match fork {
            None => self.forks.remove(&stream),
            Some(fork) => self.forks.insert(stream, fork),
        };
    }
}
