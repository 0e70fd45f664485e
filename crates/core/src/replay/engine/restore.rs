//! Restoring the tables from one scan of the store.
//!
//! Law (one scan): a scan is read once and whole; no later call reads the store. Law (isolation):
//! what does not restore joins the set U and harms no other record.

use std::sync::Arc;

use super::state::State;
use super::table::{Receiver, Sender, Tables};
use crate::replay::clock::Now;
use crate::replay::lease::Lease;
use crate::replay::record::Record;
use crate::replay::unrestorable::Bad;
use crate::store::{Found, RecordName, Scan};

impl State {
    /// Replaces the tables by what the scan found. Connections keep their slots.
    pub(super) fn restore(&mut self, scan: Scan, now: Now) {
        self.tables = Tables::new(self.tables.slots.without_charges());
        self.open = Default::default();
        for (name, found) in scan.records {
            match restored(name, found) {
                Ok(record) => self.put(name, record, now),
                Err(bad) => {
                    self.tables.unrestorable.insert(name, bad);
                }
            }
        }
    }

    fn put(&mut self, name: RecordName, record: Record, now: Now) {
        let used_ms = now.steady_ms;
        match record {
            Record::Receiver(record) => {
                let stream = record.stream;
                let record = Arc::from(record);
                let receiver = Receiver {
                    record,
                    name,
                    used_ms,
                };
                self.tables.put_receiver(stream, Some(receiver));
            }
            Record::Sender(record) => {
                let sender = Sender {
                    lease: Lease::resume(if mutant!(ResumesInsideTheLease) {
                        record.end - 1
                    } else {
                        record.end
                    }),
                    used_ms,
                    record: Arc::new(record),
                };
                let stream = sender.record.stream;
                self.tables.put_sender(stream, Some(sender));
            }
            Record::Floor(record) => self.tables.floor = Arc::new(record),
            Record::Fork(record) => {
                let stream = record.stream;
                self.tables.put_fork(stream, Some(Arc::new(record)));
            }
        }
    }
}

/// The record that a store holds under `name`, or why it does not restore.
///
/// # Errors
/// What is wrong with it.
pub fn restored(name: RecordName, found: Found) -> Result<Record, Bad> {
    match found {
        Found::Bytes(bytes) => Record::decode_filed(&bytes, name).map_err(Bad::from),
        Found::Torn(cause) => Err(Bad::Torn(cause)),
        Found::Foreign(own) => Err(Bad::Foreign(own)),
        Found::Unreadable(cause) => Err(Bad::Unreadable(cause)),
        Found::Missing => Err(Bad::Missing),
    }
}
