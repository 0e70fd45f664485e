//! The engine: group commit over every window and lease of a node.
//!
//! A transition is judged, takes effect in memory and joins the one open batch; a writer takes the
//! batch, makes it durable and says so; only then do its answers come out. Transitions that run
//! meanwhile gather in the next. The laws, each with a test of its name:
//!
//! - **Release.** No answer comes out before every batch it depends on is durable; that holds for
//!   a refusal, and for a reservation inside its lease that writes nothing.
//! - **Atomicity.** A batch is one snapshot of each record it changes, and a record is one change.
//! - **Order.** Each record's values become durable in the order of the transitions.
//! - **Fail closed.** A failed batch fails, and undoes exactly, every pending transition: its own
//!   and those that gathered on top of it. It is counted once.
//! - **Latency.** A transition waits for at most two batch writes: the one in flight, and its own.
//! - **Cancellation.** A caller that goes away abandons its wait, never its effect.
//!
//! There is no I/O in here. One owner serialises the calls; the writer runs outside. Sources: seed 1,
//! "Persistence and bounds"; paper `durable-records`, group commit.

mod batch;
#[cfg(test)]
mod fingerprint;
mod judge;
mod report;
mod restore;
mod schedule;
mod state;
mod table;

pub use judge::{LEASE_LIFE_MS, SIGN_WITHIN_MS};
pub use restore::restored;

use std::collections::VecDeque;
use std::sync::Arc;

use self::batch::Touched;
use self::judge::Judged;
use self::state::State;
use self::table::Tables;
use super::bounds::Levels;
use super::clock::{Now, Witness};
use super::counters::{Counters, add, bump};
use super::forks::{FORK_LOG_CAPACITY, HeaderRing};
use super::outcome::{Candidate, Custodial, Outcome, Staged, Ticket};
use super::quota::{Quota, QuotaLimits};
use super::record::{EVIDENCE_MAX_BYTES, Table};
use super::refusal::{PENDING_MAX, Refusal};
use super::slots::{Introducer, SUCCESSORS, Slot, Slots, slot_count};
use super::unrestorable::Bad;
use super::verdicts::ByClass;
use super::volatile::Volatile;
use crate::identity::Verified;
use crate::ids::{Did, StreamKey};
use crate::store::{Change, Scan, StoreError};
use crate::transaction::{Fork, ForkEvidence};
use crate::wire::cbor::to_vec;

/// What an operator may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineConfig {
    /// Successors the node keeps: they decide how many slots it has.
    pub successors: u16,
    /// The origin quota.
    pub quota: QuotaLimits,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            successors: SUCCESSORS,
            quota: QuotaLimits::default(),
        }
    }
}

/// One batch's place among all batches of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(u64);

/// What a writer is to make durable at once.
#[derive(Debug)]
pub struct Batch {
    /// To say which batch is done.
    pub id: BatchId,
    /// One change a record.
    pub changes: Vec<Change>,
}

/// A batch was reported that is not in flight: its engine has scanned the store since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("batch {} is not in flight", .0.0)]
pub struct NotInFlight(pub BatchId);

/// Whether there is a store behind the engine that may be believed.
#[derive(Debug, Clone)]
enum Authority {
    Absent,
    Scanned,
    Failed(Arc<StoreError>),
}

#[derive(Debug, Clone)]
struct Waiter<T> {
    ticket: Ticket,
    staged: Staged<T>,
    abandoned: bool,
}

#[derive(Debug, Clone)]
struct InFlight<T> {
    id: BatchId,
    changes: u64,
    touched: Touched,
    waiting: Vec<Waiter<T>>,
}

/// Every window and lease of a node. `T` is what is admitted: a node's is a verified payload.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Engine<T> {
    state: State,
    authority: Authority,
    /// Those whose effects are in the open batch, by ticket.
    waiting: Vec<Waiter<T>>,
    in_flight: Option<InFlight<T>>,
    /// Answers whose batch is durable, and those of failed ones.
    ready: VecDeque<(Ticket, Staged<T>)>,
    headers: HeaderRing,
    counters: Counters,
    verdicts: ByClass,
    high_water: Levels,
    next_ticket: u64,
    next_batch: u64,
}

impl<T: Candidate> Engine<T> {
    /// An engine without a store: it refuses every call with [`Refusal::StorageUnavailable`]
    /// until a scan is handled.
    pub fn new(config: EngineConfig) -> Self {
        let slots = Slots::new(slot_count(config.successors));
        Self {
            state: State {
                tables: Tables::new(slots),
                quota: Quota::new(config.quota),
                volatile: Volatile::default(),
                witness: Witness::default(),
                open: Touched::default(),
            },
            authority: Authority::Absent,
            waiting: Vec::new(),
            in_flight: None,
            ready: VecDeque::new(),
            headers: HeaderRing::default(),
            counters: Counters::default(),
            verdicts: ByClass::default(),
            high_water: Levels::default(),
            next_ticket: 0,
            next_batch: 0,
        }
    }

    /// An engine over the store that was scanned.
    pub fn restore(config: EngineConfig, scan: Scan, now: Now) -> Self {
        let mut engine = Self::new(config);
        engine.handle_scan(Ok(scan), now);
        engine
    }

    /// A scan of the store, opened or opened again, is done. Whatever was pending fails; what the
    /// scan found is what there is.
    pub fn handle_scan(&mut self, scan: Result<Scan, StoreError>, now: Now) {
        match scan {
            Ok(scan) => {
                if self.pending() > 0 {
                    let cause = String::from("the store was opened again");
                    self.fail_pending(&Arc::new(StoreError::Poisoned { cause }));
                }
                self.state.restore(scan, now);
                self.authority = Authority::Scanned;
                let unrestorable = self.state.tables.unrestorable.len();
                self.counters.unrestorable_record = unrestorable.try_into().unwrap_or(u64::MAX);
            }
            Err(cause) => self.fail(cause),
        }
    }

    /// Gives an admitted connection of `peer` the cleanest free slot; `None` where all are taken.
    pub fn claim_slot(&mut self, peer: Did) -> Option<Slot> {
        self.state.tables.slots.claim(peer)
    }

    /// The connection in this slot is gone, and its link-local windows with it. The streams it
    /// introduced stay charged to the slot.
    pub fn release_slot(&mut self, slot: Slot) {
        self.state.tables.slots.release(slot);
        self.state.volatile.end(slot);
        self.state.open.end(slot);
        if let Some(batch) = &mut self.in_flight {
            batch.touched.end(slot);
        }
    }

    /// Registers a namespace that acts on each of its payloads at most once by its own durable
    /// key; `false` where as many as allowed are registered.
    pub fn delegate_replay(&mut self, namespace: &str) -> bool {
        self.state.volatile.register(namespace)
    }

    /// A peer proved, freshly (over a nonce of ours), that it signed at `issued_ms` by its clock.
    pub fn handle_witness(&mut self, issued_ms: u64, now: Now) {
        self.state.witness.hear(issued_ms, now);
    }

    /// Stages the admission of a verified transaction whose final destination is this node.
    pub fn stage_admission(&mut self, item: T, introducer: Introducer, now: Now) -> Ticket {
        let judged = self.check_open().and_then(|()| {
            self.state.retire_spent(now);
            self.state.judge(&item, introducer, now)
        });
        let staged = match judged {
            Ok(Judged::Admit { verdict, local }) => Staged::Admit {
                item,
                verdict,
                local,
            },
            Ok(Judged::Hold(verdict)) => Staged::Hold { item, verdict },
            Err(refusal) => Staged::Refuse {
                refusal,
                item: Some(item),
            },
        };
        self.stage(staged)
    }

    /// Stages the taking of a mail by its application: the step after which it is dispatched.
    pub fn stage_take(&mut self, mail: Custodial<T>, now: Now) -> Ticket {
        let Custodial { item, verdict } = mail;
        let taken = self.check_open().and_then(|()| {
            self.state.retire_spent(now);
            self.state.take(&item)
        });
        self.stage(match taken {
            Ok(()) => Staged::Take { item, verdict },
            Err(refusal) => Staged::Refuse {
                refusal,
                item: Some(item),
            },
        })
    }

    /// Stages the reservation of `count` sequences of a stream that this node signs on.
    pub fn stage_reservation(&mut self, stream: StreamKey, count: u64, now: Now) -> Ticket {
        let reserved = self.check_open().and_then(|()| {
            self.state.retire_spent(now);
            self.state.reserve(stream, count, now)
        });
        self.stage(match reserved {
            Ok(first) => Staged::Reserve {
                stream,
                sequences: first..first.saturating_add(count),
            },
            Err(refusal) => refuse(refusal),
        })
    }

    /// Stages a signed evidence of a fork for the fork log. The log keeps a stream's first.
    pub fn stage_evidence(&mut self, evidence: &Verified<ForkEvidence>) -> Ticket {
        let Fork {
            stream, sequence, ..
        } = *evidence.facts();
        let kept = self.check_open().and_then(|()| {
            self.state.check_available(Table::Fork, &stream)?;
            if self.state.tables.forks.contains_key(&stream) {
                return Ok(());
            }
            let bytes = to_vec(evidence);
            if bytes.len() > EVIDENCE_MAX_BYTES {
                let evidence_bytes = bytes.len();
                return Err(Refusal::EvidenceTooLarge { evidence_bytes });
            }
            if self.state.tables.forks.len() >= FORK_LOG_CAPACITY {
                return Err(Refusal::ForkLogFull);
            }
            self.state.keep_fork(stream, sequence, bytes);
            Ok(())
        });
        self.stage(kept.map_or_else(refuse, |()| Staged::Keep(stream)))
    }

    /// The caller of this ticket has gone away. Its effect stays; its answer is dropped.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.ready.retain(|(ready, _)| *ready != ticket);
        let in_flight = self.in_flight.iter_mut().map(|batch| &mut batch.waiting);
        for waiting in in_flight.chain([&mut self.waiting]) {
            let found = waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket);
            if let Some(waiter) = found.ok().and_then(|at| waiting.get_mut(at)) {
                waiter.abandoned = true;
            }
        }
        if mutant!(DropsABatchOfNobody) && self.waiting.iter().all(|it| it.abandoned) {
            self.state.open = Touched::default();
            self.waiting.clear();
        }
    }

    /// The open batch, for a writer to make durable; `None` while one is in flight or nothing is
    /// to be written.
    pub fn take_batch(&mut self) -> Option<Batch> {
        if self.in_flight.is_some() || !self.state.open.writes() {
            return None;
        }
        let id = BatchId(self.next_batch);
        self.next_batch += 1;
        let mut touched = std::mem::take(&mut self.state.open);
        let changes = touched.changes(&self.state.tables);
        self.in_flight = Some(InFlight {
            id,
            changes: changes.len().try_into().unwrap_or(u64::MAX),
            touched,
            waiting: std::mem::take(&mut self.waiting),
        });
        Some(Batch { id, changes })
    }

    /// The writer is done with a batch.
    ///
    /// # Errors
    /// [`NotInFlight`] for any batch but the one in flight; nothing happens.
    pub fn batch_done(
        &mut self,
        id: BatchId,
        written: Result<(), StoreError>,
    ) -> Result<(), NotInFlight> {
        let Some(batch) = self.in_flight.take_if(|batch| batch.id == id) else {
            return Err(NotInFlight(id));
        };
        match written {
            Ok(()) => {
                bump(&mut self.counters.batches);
                add(&mut self.counters.changes, batch.changes);
                let retired = batch.touched.retired;
                add(&mut self.counters.retired_receiver, retired.receivers);
                add(&mut self.counters.retired_sender, retired.senders);
                add(&mut self.counters.custody_expired, retired.custody);
                self.release(batch.waiting);
                self.settle();
            }
            Err(cause) => {
                self.in_flight = Some(batch);
                self.fail(cause);
            }
        }
        Ok(())
    }

    /// The next answer, in the order of the calls.
    pub fn poll_outcome(&mut self) -> Option<(Ticket, Outcome<T>)> {
        let (ticket, staged) = self.ready.pop_front()?;
        Some((ticket, staged.release()))
    }

    fn check_open(&self) -> Result<(), Refusal> {
        match &self.authority {
            Authority::Absent => Err(Refusal::StorageUnavailable),
            Authority::Failed(cause) => Err(Refusal::StoreFailed {
                cause: Arc::clone(cause),
            }),
            Authority::Scanned if self.pending() >= PENDING_MAX => Err(Refusal::PendingFull),
            Authority::Scanned => Ok(()),
        }
    }

    fn stage(&mut self, staged: Staged<T>) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.push(Waiter {
            ticket,
            staged,
            abandoned: false,
        });
        self.note_high_water();
        #[cfg(test)]
        if mutant!(RefusesAtOnce) {
            self.refuse_at_once();
        }
        self.settle();
        ticket
    }

    /// Releases the open batch where nothing has to be written for it and nothing it depends on
    /// is in flight.
    fn settle(&mut self) {
        let depends = self.in_flight.is_some() && !mutant!(ForgetsTheBatchInFlight);
        if !depends && !self.state.open.writes() {
            self.state.open = Touched::default();
            let waiting = std::mem::take(&mut self.waiting);
            self.release(waiting);
        }
    }

    fn release(&mut self, waiting: Vec<Waiter<T>>) {
        for mut waiter in waiting {
            self.counters.count(&waiter.staged);
            self.verdicts.count(&waiter.staged);
            self.trade_headers(&mut waiter.staged);
            if !waiter.abandoned {
                self.ready.push_back((waiter.ticket, waiter.staged));
            }
        }
    }

    /// Holds the header of what was admitted, and gives out that of what was forked.
    fn trade_headers(&mut self, staged: &mut Staged<T>) {
        match staged {
            Staged::Admit { item, .. } | Staged::Hold { item, .. } => {
                self.headers.hold(item.digest(), item.signed_header());
            }
            Staged::Refuse {
                refusal: Refusal::Fork(forked),
                ..
            } => forked.accepted_header = self.headers.header(&forked.accepted),
            _ => {}
        }
    }

    /// A batch or a scan failed. What the store says it refused before it wrote leaves the store
    /// as it was, so the engine goes on; after anything else only a scan knows what is durable.
    fn fail(&mut self, cause: StoreError) {
        bump(&mut self.counters.persistence_failure);
        let cause = Arc::new(cause);
        self.fail_pending(&cause);
        match &*cause {
            StoreError::BudgetExhausted { .. } | StoreError::CapacityExhausted { .. } => {}
            StoreError::BadRecord { name } => {
                let bad = Bad::Unreadable(String::from("the store keeps it as bad"));
                self.state.tables.unrestorable.insert(*name, bad);
            }
            _ if mutant!(GoesOnAfterAFailure) => {}
            _ => self.authority = Authority::Failed(cause),
        }
    }

    fn fail_pending(&mut self, cause: &Arc<StoreError>) {
        let State {
            tables,
            quota,
            volatile,
            open,
            ..
        } = &mut self.state;
        let gathered = std::mem::take(open);
        if !mutant!(UndoesTheBatchInFlightAlone) {
            gathered.undo(tables, quota, volatile);
        }
        let mut waiting = Vec::new();
        if let Some(batch) = self.in_flight.take() {
            if !mutant!(UndoesTheOpenBatchAlone) {
                batch.touched.undo(tables, quota, volatile);
            }
            waiting = batch.waiting;
        }
        waiting.append(&mut self.waiting);
        let heard = waiting.into_iter().filter(|waiter| !waiter.abandoned);
        self.ready
            .extend(heard.map(|it| (it.ticket, it.staged.failed(Arc::clone(cause)))));
    }
}

fn refuse<T>(refusal: Refusal) -> Staged<T> {
    Staged::Refuse {
        refusal,
        item: None,
    }
}
