//! The world of group commit: a writer that fails, callers that go away, crashes at any point.

use std::collections::{BTreeMap, BTreeSet};

use super::item::{Item, stream};
use super::{World, check, hash};
use crate::ids::{Class, StreamKey, TransactionDigest};
use crate::replay::clock::Now;
use crate::replay::engine::{BatchId, Engine, EngineConfig};
use crate::replay::mutant::Mutant;
use crate::replay::outcome::{Candidate, Outcome, Ticket};
use crate::replay::record::{self, Record, Table};
use crate::replay::refusal::Refusal;
use crate::replay::slots::Introducer;
use crate::store::{Change, Effect, Found, RecordName, Scan, StoreError};

const NOW: Now = Now {
    wall_ms: 1_800_000_000_000,
    steady_ms: 0,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// A transaction of this stream, with this sequence and this digest.
    Offer(u8, u64, u8),
    Reserve(u8, u64),
    /// The caller that waits longest, or shortest, goes away.
    AbandonOldest,
    AbandonNewest,
    TakeBatch,
    Done,
    /// The write fails with these of its records durable.
    Fail(u32),
    /// The store refuses the batch before it writes.
    Refuse,
    /// The process crashes with these records of the batch in flight durable, and starts again.
    Crash(u32),
    /// The store that failed is opened and scanned again.
    Reopen,
}

/// One record's change as the writer sees it.
#[derive(Debug, Clone, Hash)]
struct Written {
    name: RecordName,
    whole: Option<Vec<u8>>,
    delta: Option<Vec<u8>>,
}

#[derive(Clone)]
struct Commit {
    engine: Engine<Item>,
    disk: BTreeMap<RecordName, Vec<u8>>,
    in_flight: Option<(BatchId, Vec<Written>)>,
    /// The callers that still wait, and how many batches were done since.
    calls: Vec<(Ticket, u32)>,
    dispatched: BTreeSet<Item>,
    signed: BTreeSet<(StreamKey, u64)>,
    offers: &'static [Action],
    failures_left: u32,
}

impl Commit {
    fn new(offers: &'static [Action], failures: u32) -> Self {
        Self {
            engine: Engine::restore(EngineConfig::default(), Scan::default(), NOW),
            disk: BTreeMap::new(),
            in_flight: None,
            calls: Vec::new(),
            dispatched: BTreeSet::new(),
            signed: BTreeSet::new(),
            offers,
            failures_left: failures,
        }
    }

    /// The world after these.
    fn after(mut self, actions: &[Action]) -> Self {
        for action in actions {
            self.act(*action).unwrap();
        }
        self
    }

    fn called(&mut self, ticket: Ticket) {
        self.calls.push((ticket, 0));
    }

    fn abandon(&mut self, at: Option<usize>) {
        if let Some(at) = at {
            let (ticket, _) = self.calls.remove(at);
            self.engine.abandon(ticket);
        }
    }

    fn land(&mut self, written: &[Written], which: u32) -> Result<(), String> {
        for (at, change) in written.iter().enumerate() {
            if which >> at & 1 == 1 {
                self.apply(change)?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, change: &Written) -> Result<(), String> {
        let Some(whole) = &change.whole else {
            self.disk.remove(&change.name);
            return Ok(());
        };
        if let Some(delta) = &change.delta {
            let before = self.disk.get(&change.name).map_or(&[][..], Vec::as_slice);
            let led = record::apply(before, delta);
            if led.as_ref() != Ok(whole) {
                return Err(format!("law delta: it leads to {led:?}"));
            }
        }
        self.disk.insert(change.name, whole.clone());
        Ok(())
    }

    fn scan(&self) -> Scan {
        let records = self.disk.iter();
        let records = records.map(|(name, bytes)| (*name, Found::Bytes(bytes.clone())));
        Scan {
            records: records.collect(),
        }
    }

    fn receiver(&self, stream: &StreamKey) -> Option<record::ReceiverRecord> {
        let bytes = self.disk.get(&Table::Receiver.record_name(stream))?;
        match Record::decode(bytes) {
            Ok(Record::Receiver(record)) => Some(*record),
            other => panic!("{other:?}"),
        }
    }

    fn sender_end(&self, stream: &StreamKey) -> u64 {
        let bytes = self.disk.get(&Table::Sender.record_name(stream));
        match bytes.map(|bytes| Record::decode(bytes)) {
            None => 0,
            Some(Ok(Record::Sender(record))) => record.end,
            Some(other) => panic!("{other:?}"),
        }
    }

    /// Every answer comes in order, within two batches, and is true on the disk.
    fn answers(&mut self) -> Result<(), String> {
        while let Some((ticket, outcome)) = self.engine.poll_outcome() {
            self.check(outcome)?;
            if self.calls.first().map(|it| it.0) != Some(ticket) {
                return Err(format!("law order: {ticket:?} is answered out of turn"));
            }
            let (_, batches) = self.calls.remove(0);
            if batches > 2 {
                return Err(format!("law latency: {batches} batches"));
            }
        }
        Ok(())
    }

    fn check(&mut self, outcome: Outcome<Item>) -> Result<(), String> {
        match outcome {
            Outcome::Admitted(admitted) => {
                let item = admitted.into_item();
                if !self.remembers(&item, item.digest()) {
                    return Err(format!("law release: {item:?} is not durable"));
                }
                if !self.dispatched.insert(item) {
                    return Err(format!("law window: {item:?} is dispatched twice"));
                }
            }
            Outcome::Reserved(reservation) => {
                let stream = *reservation.stream();
                for sequence in reservation.sequences() {
                    if sequence >= self.sender_end(&stream) {
                        return Err(format!("law release: {sequence} is not leased durably"));
                    }
                    if !self.signed.insert((stream, sequence)) {
                        return Err(format!("law lease: {sequence} is signed twice"));
                    }
                }
            }
            Outcome::Refused {
                refusal,
                item: Some(item),
            } => {
                let durable = match &refusal {
                    Refusal::Replay { .. } => self.remembers(&item, item.digest()),
                    Refusal::Fork(forked) => self.remembers(&item, forked.accepted),
                    Refusal::Stale { lowest, .. } => {
                        let record = self.receiver(&item.stream);
                        record.is_some_and(|record| record.window.lowest() >= *lowest)
                    }
                    _ => true,
                };
                if !durable {
                    return Err(format!("law release: {refusal}, and it is not durable"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the disk refuses the item's sequence for good, for this digest's sake where its
    /// window still speaks for it.
    fn remembers(&self, item: &Item, digest: TransactionDigest) -> bool {
        self.receiver(&item.stream).is_some_and(|record| {
            let window = &record.window;
            window.at(item.sequence) == Some(digest) || window.lowest() > item.sequence
        })
    }
}

fn written(change: &Change) -> Written {
    let (whole, delta) = match &change.effect {
        Effect::Write(image) => (Some(image.whole()), image.delta().map(|it| it.bytes)),
        Effect::Remove => (None, None),
    };
    Written {
        name: change.name,
        whole,
        delta,
    }
}

fn failure() -> StoreError {
    StoreError::Poisoned {
        cause: String::from("flush"),
    }
}

impl World for Commit {
    type Action = Action;

    fn actions(&self) -> Vec<Action> {
        let mut actions = self.offers.to_vec();
        if !self.calls.is_empty() {
            actions.push(Action::AbandonNewest);
        }
        if self.calls.len() > 1 {
            actions.push(Action::AbandonOldest);
        }
        let records = self.in_flight.as_ref().map_or(0, |it| it.1.len());
        if self.in_flight.is_none() {
            actions.push(Action::TakeBatch);
        } else {
            actions.push(Action::Done);
        }
        if self.failures_left > 0 {
            actions.extend((0..1 << records).map(Action::Crash));
            if self.in_flight.is_some() {
                actions.push(Action::Refuse);
                actions.extend((0..1 << records).map(Action::Fail));
            }
        }
        if self.engine.failure().is_some() {
            actions.push(Action::Reopen);
        }
        actions
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Offer(origin, sequence, tag) => {
                let item = Item {
                    stream: stream(origin, Class::Application),
                    sequence,
                    tag,
                    issued_ms: NOW.wall_ms,
                    last_ms: NOW.wall_ms + 600_000,
                };
                let ticket = self.engine.stage_admission(item, Introducer::Own, NOW);
                self.called(ticket);
            }
            Action::Reserve(to, count) => {
                let stream = stream(to, Class::Storage);
                let ticket = self.engine.stage_reservation(stream, count, NOW);
                self.called(ticket);
            }
            Action::AbandonOldest => self.abandon(Some(0)),
            Action::AbandonNewest => self.abandon(self.calls.len().checked_sub(1)),
            Action::TakeBatch => {
                if let Some(batch) = self.engine.take_batch() {
                    let changes = batch.changes.iter().map(written).collect();
                    self.in_flight = Some((batch.id, changes));
                }
            }
            Action::Done | Action::Fail(_) | Action::Refuse => {
                let Some((id, changes)) = self.in_flight.take() else {
                    return Ok(());
                };
                let (landed, result) = match action {
                    Action::Done => (u32::MAX, Ok(())),
                    Action::Fail(landed) => (landed, Err(failure())),
                    _ => {
                        let refusal = StoreError::BudgetExhausted {
                            budget_bytes: 0,
                            needed_bytes: 0,
                        };
                        (0, Err(refusal))
                    }
                };
                self.failures_left -= u32::from(result.is_err());
                self.land(&changes, landed)?;
                self.calls.iter_mut().for_each(|call| call.1 += 1);
                let done = self.engine.batch_done(id, result);
                done.map_err(|it| it.to_string())?;
            }
            Action::Crash(landed) => {
                self.failures_left -= 1;
                if let Some((_, changes)) = self.in_flight.take() {
                    self.land(&changes, landed)?;
                }
                self.calls.clear();
                self.engine = Engine::restore(EngineConfig::default(), self.scan(), NOW);
            }
            Action::Reopen => self.engine.handle_scan(Ok(self.scan()), NOW),
        }
        self.answers()
    }

    fn fingerprint(&self) -> u64 {
        hash((
            self.engine.fingerprint(),
            &self.disk,
            self.in_flight.as_ref().map(|it| &it.1),
            self.calls.iter().map(|it| it.1).collect::<Vec<_>>(),
            &self.dispatched,
            &self.signed,
            self.failures_left,
        ))
    }
}

#[test]
fn law_release_order_fail_closed_latency_hold_in_every_state_of_a_small_world_s14() {
    const OFFERS: &[Action] = &[
        Action::Offer(1, 40, 1),
        Action::Offer(1, 40, 2),
        Action::Offer(2, 1, 1),
    ];
    // A stream that is there already, so that its next batch is a delta.
    const BEFORE: [Action; 3] = [Action::Offer(1, 10, 1), Action::TakeBatch, Action::Done];
    let world = || Commit::new(OFFERS, 2).after(&BEFORE);
    let broken = [
        Mutant::ForgetsTheBatchInFlight,
        Mutant::RefusesAtOnce,
        Mutant::UndoesTheBatchInFlightAlone,
        Mutant::UndoesTheOpenBatchAlone,
        Mutant::GoesOnAfterAFailure,
        Mutant::DropsABatchOfNobody,
    ];
    check("group commit", world, 6, &broken);
}

#[test]
fn law_lease_holds_in_every_state_of_a_small_world() {
    const OFFERS: &[Action] = &[
        Action::Reserve(1, 1),
        Action::Reserve(1, 64),
        Action::Reserve(2, 2),
    ];
    // A stream that has used up its first lease.
    const BEFORE: [Action; 3] = [Action::Reserve(1, 64), Action::TakeBatch, Action::Done];
    let world = || Commit::new(OFFERS, 2).after(&BEFORE);
    let broken = [
        Mutant::ForgetsTheBatchInFlight,
        Mutant::RenewsInMemoryAlone,
        Mutant::ResumesInsideTheLease,
        Mutant::UndoesTheOpenBatchAlone,
        Mutant::UndoesTheBatchInFlightAlone,
    ];
    check("leases", world, 6, &broken);
}
