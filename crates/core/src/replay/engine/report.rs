//! What the engine tells about itself.

use std::sync::Arc;

use super::{Authority, Engine};
use crate::ids::{Class, Did, StreamKey};
use crate::replay::bounds::{self, Bound, Level, Levels};
use crate::replay::counters::Counters;
use crate::replay::outcome::Candidate;
use crate::replay::quota::{Bucket, QuotaLimits};
use crate::replay::record::{FloorRecord, ForkRecord, ReceiverRecord, SenderRecord};
use crate::replay::slots::{Introducer, Slot};
use crate::replay::unrestorable::Unrestorable;
use crate::store::StoreError;

impl<T: Candidate> Engine<T> {
    /// How often each thing has happened.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What windows said, by class and verdict, of what was released.
    pub fn verdicts(&self) -> impl Iterator<Item = (Class, &'static str, u64)> {
        self.verdicts.iter()
    }

    /// Every bound, how full it is and has been, in the order of the sheet.
    pub fn bounds(&self) -> impl Iterator<Item = Bound> {
        let slots = self.state.tables.slots.count();
        let slot = self.state.tables.slots.fullest();
        let connection = self.state.volatile.fullest();
        bounds::sheet(slots, self.levels(slot, connection), self.high_water)
    }

    /// Whether a store was scanned and has not failed since.
    pub const fn is_open(&self) -> bool {
        matches!(self.authority, Authority::Scanned)
    }

    /// The failure after which the store must be opened and scanned again.
    pub fn failure(&self) -> Option<&StoreError> {
        match &self.authority {
            Authority::Failed(cause) => Some(cause),
            Authority::Absent | Authority::Scanned => None,
        }
    }

    /// Transitions whose answers wait for the store.
    pub fn pending(&self) -> usize {
        let in_flight = self.in_flight.as_ref().map_or(0, |it| it.waiting.len());
        in_flight + self.waiting.len()
    }

    /// Those of them that the open batch has gathered.
    pub fn gathered(&self) -> usize {
        self.waiting.len()
    }

    /// The retained receiver streams, by key. Their records may be ahead of the store by what is
    /// pending.
    pub fn receivers(&self) -> impl Iterator<Item = &ReceiverRecord> {
        let receivers = self.state.tables.receivers.values();
        receivers.map(|receiver| &*receiver.record)
    }

    /// One retained receiver stream.
    pub fn receiver(&self, stream: &StreamKey) -> Option<&ReceiverRecord> {
        let receiver = self.state.tables.receivers.get(stream)?;
        Some(&receiver.record)
    }

    /// The retained sender streams, by key.
    pub fn senders(&self) -> impl Iterator<Item = &SenderRecord> {
        let senders = self.state.tables.senders.values();
        senders.map(|sender| &*sender.record)
    }

    /// The sequence that a stream signs next, where it is retained.
    pub fn next_sequence(&self, stream: &StreamKey) -> Option<u64> {
        let sender = self.state.tables.senders.get(stream)?;
        Some(sender.lease.next())
    }

    /// The floors that outlive retired streams.
    pub fn floor(&self) -> &FloorRecord {
        &self.state.tables.floor
    }

    /// The fork log, by stream.
    pub fn forks(&self) -> impl Iterator<Item = &ForkRecord> {
        self.state.tables.forks.values().map(Arc::as_ref)
    }

    /// The records that do not restore, by name.
    pub const fn unrestorable(&self) -> &Unrestorable {
        &self.state.tables.unrestorable
    }

    /// Mails in custody, in the whole store.
    pub fn custody(&self) -> usize {
        self.state.tables.custody.len()
    }

    /// How many streams an introducer is charged.
    pub fn charged(&self, introducer: Introducer) -> usize {
        self.state.tables.slots.charged(introducer)
    }

    /// The peer whose connection holds this slot.
    pub fn slot_peer(&self, slot: Slot) -> Option<Did> {
        self.state.tables.slots.peer(slot)
    }

    /// What is left of a stream's quota. A stream that has rested has none noted.
    pub fn quota(&self, stream: &StreamKey) -> Option<Bucket> {
        self.state.quota.bucket(stream)
    }

    /// The quota every origin has here.
    pub const fn quota_limits(&self) -> &QuotaLimits {
        self.state.quota.limits()
    }

    pub(super) fn note_high_water(&mut self) {
        let slot = self.state.tables.slots.fullest_ever();
        let connection = self.state.volatile.fullest_ever();
        let levels = self.levels(slot, connection);
        for (high, level) in self.high_water.iter_mut().zip(levels) {
            *high = (*high).max(level);
        }
    }

    fn levels(&self, fullest_slot: usize, fullest_connection: usize) -> Levels {
        let tables = &self.state.tables;
        let quota = |class| self.state.quota.records(class);
        let mut levels = Levels::default();
        let mut set = |level: Level, full: usize| {
            if let Some(entry) = levels.get_mut(level as usize) {
                *entry = full;
            }
        };
        set(Level::ReceiverStreams, tables.receivers_used());
        set(Level::SenderStreams, tables.senders_used());
        set(Level::Slots, tables.slots.connected());
        set(Level::SlotFloor, fullest_slot);
        set(Level::SlotPool, tables.slots.pool());
        set(Level::InboxShare, tables.slots.charged(Introducer::Inbox));
        set(Level::OwnShare, tables.slots.charged(Introducer::Own));
        set(Level::Custody, tables.custody.len());
        set(Level::QuotaControl, quota(Class::Control));
        set(Level::QuotaStorage, quota(Class::Storage));
        set(Level::QuotaE2e, quota(Class::E2e));
        set(Level::QuotaApplication, quota(Class::Application));
        set(Level::LinkLocal, fullest_connection);
        set(Level::Namespaces, self.state.volatile.namespaces());
        set(Level::ForkLog, tables.forks.len());
        set(Level::Headers, self.headers.len());
        set(Level::Pending, self.pending());
        levels
    }
}
