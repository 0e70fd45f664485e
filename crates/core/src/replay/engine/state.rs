//! The effects of transitions on the tables, each noted in the open batch before it happens.
//!
//! Nothing here judges; what is called has been judged. Every method first notes what the thing
//! it changes was, so that [`Touched::undo`](super::batch::Touched::undo) is exact.

use std::sync::Arc;

use super::batch::Touched;
use super::schedule::{Due, ripe_ms};
use super::table::{Receiver, Sender, Tables};
use crate::ids::StreamKey;
use crate::replay::clock::{Now, Witness};
use crate::replay::lease::Lease;
use crate::replay::quota::{Bucket, Quota};
use crate::replay::record::{DeltaError, ForkRecord, Op, RecordId, Table};
use crate::replay::record::{ReceiverRecord, SenderRecord};
use crate::replay::slots::Slot;
use crate::replay::volatile::Volatile;
use crate::replay::window::Window;

/// Everything a transition may change.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) tables: Tables,
    pub(super) quota: Quota,
    pub(super) volatile: Volatile,
    pub(super) witness: Witness,
    pub(super) open: Touched,
}

/// An admission that was charged to its stream's quota.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    pub(super) now: Now,
    /// The quota before the charge.
    pub(super) bucket: Option<Bucket>,
}

impl State {
    /// Starts a receiver stream. One that the open batch has just retired goes on counting its
    /// versions.
    pub(super) fn create_receiver(&mut self, mut record: ReceiverRecord, used: Use) {
        let stream = record.stream;
        let bucket = self.open.bucket_before(&stream, used.bucket);
        let touch = self.open.receiver(stream, None);
        touch.write(None);
        touch.charged(bucket);
        if let Some(before) = touch.before() {
            record.version = before.record.version.saturating_add(1);
        }
        self.open.will_write();
        let receiver = Receiver {
            record: Arc::new(record),
            name: Table::Receiver.record_name(&stream),
            used_ms: used.now.steady_ms,
        };
        self.tables.put_receiver(stream, Some(receiver));
    }

    /// Changes a receiver stream that is there. `used` says that it admitted something.
    ///
    /// # Errors
    /// [`DeltaError`] for a change the record cannot undergo; nothing is changed.
    pub(super) fn change_receiver(
        &mut self,
        stream: StreamKey,
        op: Op,
        used: Option<Use>,
    ) -> Result<(), DeltaError> {
        let Some(receiver) = self.tables.receivers.get_mut(&stream) else {
            return Err(op.misfit());
        };
        let bucket = used.map(|used| self.open.bucket_before(&stream, used.bucket));
        let touch = self.open.receiver(stream, Some(receiver));
        let record = Arc::make_mut(&mut receiver.record);
        let left = match op {
            Op::LeaveCustody { sequence } => record.custody_entry(sequence).copied(),
            _ => None,
        };
        record.apply(&op)?;
        if touch.write(Some(op)) {
            record.version = record.version.saturating_add(1);
        }
        if let Some(bucket) = bucket {
            touch.charged(bucket);
        }
        self.open.will_write();
        if let Some(used) = used {
            receiver.used_ms = used.now.steady_ms;
        }
        let index = &mut self.tables.custody;
        match op {
            Op::Admit {
                sequence,
                spent_ms,
                custody: true,
                ..
            } => {
                index.insert((spent_ms, stream, sequence));
            }
            Op::LeaveCustody { sequence } => {
                if let Some(entry) = left {
                    index.remove(&(entry.spent_ms, stream, sequence));
                }
            }
            Op::Admit { .. } | Op::Lease { .. } | Op::RaiseFloor { .. } => {}
        }
        Ok(())
    }

    /// Sets a sender stream's lease; `spent_ms` where the lease has to be made durable first.
    pub(super) fn set_lease(
        &mut self,
        stream: StreamKey,
        lease: Lease,
        spent_ms: Option<u64>,
        now: Now,
    ) {
        let skipped = mutant!(RenewsInMemoryAlone) && self.open.writes();
        let held = self.tables.senders.get(&stream).cloned();
        let touch = self.open.sender(stream, held.as_ref());
        let mut record = held.map_or_else(
            || {
                // One that the open batch has just retired goes on counting its versions.
                let before = touch.before().map(|it| it.record.version);
                let version = before.map_or(0, |version| version.saturating_add(1));
                Arc::new(SenderRecord {
                    stream,
                    version,
                    end: 0,
                    spent_ms: 0,
                })
            },
            |sender| sender.record,
        );
        if let Some(spent_ms) = spent_ms.filter(|_| !skipped) {
            let end = lease.end();
            let record = Arc::make_mut(&mut record);
            record.end = end;
            record.spent_ms = record.spent_ms.max(spent_ms);
            let op = Op::Lease {
                end,
                spent_ms: record.spent_ms,
            };
            if touch.write(Some(op)) {
                record.version = record.version.saturating_add(1);
            }
            self.open.will_write();
        }
        let sender = Sender {
            record,
            lease,
            used_ms: now.steady_ms,
        };
        match self.tables.senders.get_mut(&stream) {
            Some(held) => *held = sender,
            None => self.tables.put_sender(stream, Some(sender)),
        }
    }

    /// Keeps an evidence of a stream that has none.
    pub(super) fn keep_fork(&mut self, stream: StreamKey, sequence: u64, evidence: Vec<u8>) {
        self.open.fork(stream, None).write(None);
        self.open.will_write();
        let record = ForkRecord {
            stream,
            version: 1,
            sequence,
            evidence,
        };
        self.tables.put_fork(stream, Some(Arc::new(record)));
    }

    /// Sets a link-local window.
    pub(super) fn set_window(&mut self, slot: Slot, stream: StreamKey, window: Window, used: Use) {
        self.open.link_local_charged(stream, used.bucket);
        let before = self.volatile.window(slot, &stream);
        self.open.window(slot, stream, before);
        self.volatile.put(slot, stream, Some(window));
    }

    /// Lets go what is spent: first mail in custody, then streams. Nothing goes while the wall
    /// clock is not confirmed, and no stream while the floors cannot be raised durably.
    pub(super) fn retire_spent(&mut self, now: Now) {
        if !self.witness.confirms(now) {
            return;
        }
        self.expire_custody(now);
        let floor = RecordId::Floor.name();
        if self.tables.unrestorable.contains_key(&floor) {
            return;
        }
        while let Some(stream) = self.spent_receiver(now) {
            let held = self.tables.receivers.get(&stream);
            self.open.receiver(stream, held).write(None);
            self.tables.put_receiver(stream, None);
            self.raise_floor(now.wall_ms, 0);
            self.open.retired.receivers += 1;
        }
        while let Some((stream, end)) = self.spent_sender(now) {
            let held = self.tables.senders.get(&stream);
            self.open.sender(stream, held).write(None);
            self.tables.put_sender(stream, None);
            self.raise_floor(0, end);
            self.open.retired.senders += 1;
        }
    }

    fn expire_custody(&mut self, now: Now) {
        while let Some(&(spent_ms, stream, sequence)) = self.tables.custody.first() {
            let op = Op::LeaveCustody { sequence };
            if spent_ms >= now.wall_ms || self.change_receiver(stream, op, None).is_err() {
                break;
            }
            self.open.retired.custody += 1;
        }
    }

    fn spent_receiver(&mut self, now: Now) -> Option<StreamKey> {
        let Tables {
            receivers,
            receivers_due,
            ..
        } = &mut self.tables;
        receivers_due.pop(now, |stream| {
            receivers.get(stream).map(|it| Due {
                ripe_ms: ripe_ms(it.used_ms),
                spent_ms: it.record.spent_ms,
            })
        })
    }

    fn spent_sender(&mut self, now: Now) -> Option<(StreamKey, u64)> {
        let Tables {
            senders,
            senders_due,
            ..
        } = &mut self.tables;
        let stream = senders_due.pop(now, |stream| {
            senders.get(stream).map(|it| Due {
                ripe_ms: ripe_ms(it.used_ms),
                spent_ms: it.record.spent_ms,
            })
        })?;
        let end = senders.get(&stream)?.lease.end();
        Some((stream, end))
    }

    fn raise_floor(&mut self, mail_ms: u64, sender_end: u64) {
        if mutant!(RaisesNoFloor) {
            return;
        }
        let mail_ms = mail_ms.max(self.tables.floor.mail_ms);
        let sender_end = sender_end.max(self.tables.floor.sender_end);
        let touch = self.open.floor(&self.tables.floor);
        let floor = Arc::make_mut(&mut self.tables.floor);
        let op = Op::RaiseFloor {
            mail_ms,
            sender_end,
        };
        floor.mail_ms = mail_ms;
        floor.sender_end = sender_end;
        if touch.write(Some(op)) {
            floor.version = floor.version.saturating_add(1);
        }
        self.open.will_write();
    }
}
