//! A store in memory, and an engine driven by hand on two clocks that only tests move.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use overlane_core::replay::record::{self, Record};
use overlane_core::replay::{
    Candidate, Engine, EngineConfig, Introducer, Now, Outcome, Refusal, Ticket,
};
use overlane_core::store::{Change, Effect, Found, RecordName, Scan, StoreError};
use overlane_core::{Class, Did, NetworkId, StreamKey, TransactionDigest};

pub(crate) const DAY_MS: u64 = 24 * 3_600_000;
pub(crate) const YEAR_MS: u64 = 365 * DAY_MS;
/// Any instant of this century.
pub(crate) const START: Now = Now {
    wall_ms: 1_800_000_000_000,
    steady_ms: 1_000,
};
pub(crate) const HERE: Did = Did([0xbb; 20]);

pub(crate) fn did(tag: u64) -> Did {
    let mut did = [0; 20];
    did[12..].copy_from_slice(&tag.to_be_bytes());
    Did(did)
}

/// The stream from the account of this number to here.
pub(crate) fn stream_of(origin: u64, class: Class) -> StreamKey {
    StreamKey {
        network: NetworkId(1),
        origin: did(origin),
        destination: HERE,
        class,
    }
}

/// The application stream from the account of this number to here.
pub(crate) fn stream(origin: u64) -> StreamKey {
    stream_of(origin, Class::Application)
}

/// The application stream from here to the account of this number.
pub(crate) fn outgoing(destination: u64) -> StreamKey {
    StreamKey {
        origin: HERE,
        destination: did(destination),
        ..stream(0)
    }
}

/// What went wrong elsewhere (failure stories), put back between the engine and its surroundings:
/// the story's law has to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// One sequence for all classes (story 1).
    OneSequenceForAllClasses,
    /// Every newcomer is charged to one share (story 4).
    OneShareForAll,
    /// A record that does not restore, or is gone, is as if it had never been (stories 5 and 7).
    BadIsAbsent,
    /// One bad record fails the scan (story 6).
    OneBadFailsAll,
    /// A flushed write a transition (story 8).
    AWriteEach,
    /// What was durable is gone after a restart (story 10).
    StoreInMemory,
    /// A durable write a sequence (story 11).
    AWriteASequence,
    /// An application that takes nothing empties custody (story 12).
    EmptyDrainDropsCustody,
    /// An admission writes every stream (story 13).
    WritesEveryStream,
}

thread_local!(static FAULT: Cell<Option<Fault>> = const { Cell::new(None) });

/// Whether this thread's tests run with this fault.
pub(crate) fn faulty(fault: Fault) -> bool {
    FAULT.get() == Some(fault)
}

/// Runs a law's test with a fault, and tells whether it failed.
pub(crate) fn fails_with(fault: Fault, law: fn()) -> bool {
    FAULT.set(Some(fault));
    let said = catch_unwind(AssertUnwindSafe(law));
    FAULT.set(None);
    said.is_err()
}

/// What a test admits in place of a verified payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) stream: StreamKey,
    pub(crate) sequence: u64,
    pub(crate) tag: u8,
    pub(crate) data_bytes: u64,
    pub(crate) issued_ms: u64,
    pub(crate) last_ms: u64,
    pub(crate) namespace: Option<&'static str>,
}

impl Item {
    /// A transaction issued now with the usual life; `tag` makes the digest.
    pub(crate) fn new(stream: StreamKey, sequence: u64, tag: u8, now: Now) -> Self {
        Self {
            stream,
            sequence,
            tag,
            data_bytes: 100,
            issued_ms: now.wall_ms,
            last_ms: now.wall_ms + 600_000,
            namespace: None,
        }
    }
}

impl Candidate for Item {
    fn stream(&self) -> StreamKey {
        self.stream
    }
    fn sequence(&self) -> u64 {
        self.sequence
    }
    fn digest(&self) -> TransactionDigest {
        let mut digest = [self.tag; 32];
        digest[..8].copy_from_slice(&self.sequence.to_be_bytes());
        TransactionDigest(digest)
    }
    fn data_bytes(&self) -> u64 {
        self.data_bytes
    }
    fn issued_ms(&self) -> u64 {
        self.issued_ms
    }
    fn last_ms(&self) -> u64 {
        self.last_ms
    }
    fn namespace(&self) -> Option<&str> {
        self.namespace
    }
    fn signed_header(&self) -> Vec<u8> {
        let mut header = self.digest().0.to_vec();
        header.extend_from_slice(b"header");
        header
    }
}

/// Records by name, as a disk would hold them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) records: BTreeMap<RecordName, Vec<u8>>,
}

impl Disk {
    /// Makes one change durable. A delta, where there is one, has to lead to the same bytes.
    pub(crate) fn apply(&mut self, change: &Change) {
        match &change.effect {
            Effect::Remove => {
                assert!(self.records.remove(&change.name).is_some());
            }
            Effect::Write(image) => {
                let whole = image.whole();
                let record = Record::decode_filed(&whole, change.name).unwrap();
                assert_eq!(record.version(), image.version());
                let before = self.records.get(&change.name);
                let version = before.map_or(0, |it| Record::decode(it).unwrap().version());
                assert_eq!(record.version(), version + 1, "a batch counts one version");
                if let Some(delta) = image.delta() {
                    let applied = record::apply(before.unwrap(), &delta.bytes);
                    assert_eq!(applied.as_ref(), Ok(&whole), "a delta leads elsewhere");
                }
                self.records.insert(change.name, whole);
            }
        }
    }

    pub(crate) fn scan(&self) -> Scan {
        let records = self.records.iter();
        Scan {
            records: records
                .map(|(name, bytes)| (*name, Found::Bytes(bytes.clone())))
                .collect(),
        }
    }

    pub(crate) fn record(&self, table: record::Table, stream: &StreamKey) -> Option<Record> {
        let bytes = self.records.get(&table.record_name(stream))?;
        Some(Record::decode(bytes).unwrap())
    }
}

pub(crate) fn io_error() -> StoreError {
    StoreError::Io {
        action: "flush",
        path: String::from("record"),
        cause: String::from("input/output error"),
    }
}

/// An engine, its disk and its clocks.
pub(crate) struct Node {
    pub(crate) engine: Engine<Item>,
    pub(crate) disk: Disk,
    pub(crate) now: Now,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self::over(Disk::default(), START)
    }

    pub(crate) fn over(disk: Disk, now: Now) -> Self {
        let engine = Engine::restore(EngineConfig::default(), disk.scan(), now);
        Self { engine, disk, now }
    }

    /// The node after a crash: what the disk holds, and a process that has just started.
    pub(crate) fn restarted(self) -> Self {
        let now = Now {
            steady_ms: 1_000,
            ..self.now
        };
        match faulty(Fault::StoreInMemory) {
            true => Self::over(Disk::default(), now),
            false => Self::over(self.disk, now),
        }
    }

    /// The store was opened again, and this is what it found.
    pub(crate) fn rescan(&mut self, scan: Scan) {
        let is_bad = |(_, found): &(RecordName, Found)| !matches!(found, Found::Bytes(_));
        let scan = match faulty(Fault::OneBadFailsAll) && scan.records.iter().any(is_bad) {
            true => Err(io_error()),
            false => Ok(scan),
        };
        self.engine.handle_scan(scan, self.now);
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now.wall_ms += ms;
        self.now.steady_ms += ms;
    }

    pub(crate) fn item(&self, stream: StreamKey, sequence: u64, tag: u8) -> Item {
        Item::new(stream, sequence, tag, self.now)
    }

    pub(crate) fn offer(&mut self, item: Item, introducer: Introducer) -> Ticket {
        let ticket = self.engine.stage_admission(item, introducer, self.now);
        if faulty(Fault::AWriteEach) {
            self.write();
        }
        ticket
    }

    /// Offers and waits until it is answered.
    pub(crate) fn admit(&mut self, item: Item, introducer: Introducer) -> Outcome<Item> {
        let ticket = self.offer(item, introducer);
        self.answer(ticket)
    }

    pub(crate) fn reserve(&mut self, stream: StreamKey, count: u64) -> Result<u64, Refusal> {
        let ticket = self.engine.stage_reservation(stream, count, self.now);
        match self.answer(ticket) {
            Outcome::Reserved(reservation) => {
                assert_eq!(reservation.sequences().count() as u64, count);
                Ok(reservation.first())
            }
            Outcome::Refused { refusal, .. } => Err(refusal),
            other => panic!("a reservation answered {other:?}"),
        }
    }

    /// The answer to a ticket, writing whatever has to be written for it.
    pub(crate) fn answer(&mut self, ticket: Ticket) -> Outcome<Item> {
        loop {
            while let Some((answered, outcome)) = self.engine.poll_outcome() {
                if answered == ticket {
                    return outcome;
                }
            }
            assert!(self.write(), "{ticket:?} is never answered");
        }
    }

    /// Writes the open batch, if there is one.
    pub(crate) fn write(&mut self) -> bool {
        let Some(batch) = self.engine.take_batch() else {
            return false;
        };
        batch
            .changes
            .iter()
            .for_each(|change| self.disk.apply(change));
        self.engine.batch_done(batch.id, Ok(())).unwrap();
        true
    }

    pub(crate) fn drain(&mut self) -> Vec<(Ticket, Outcome<Item>)> {
        std::iter::from_fn(|| self.engine.poll_outcome()).collect()
    }
}

/// An outcome in one word: the verdict's name, "held", "reserved", or the refusal's code.
pub(crate) fn word(outcome: &Outcome<Item>) -> &'static str {
    use overlane_core::Coded;
    match outcome {
        Outcome::Admitted(admitted) => admitted.verdict().name(),
        Outcome::InCustody(_) => "held",
        Outcome::Reserved(_) => "reserved",
        Outcome::EvidenceKept(_) => "kept",
        Outcome::Refused { refusal, .. } => refusal.code(),
    }
}
