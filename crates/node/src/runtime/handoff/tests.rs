//! The hand-off under a checker that decides who runs next: the very ends that a node runs, over
//! channels of the checker's. Each fault put in here has to be caught.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overlane_core::replay::record::{Record, Table};
use overlane_core::replay::{Candidate, Engine, EngineConfig, Introducer, Now, Outcome, Ticket};
use overlane_core::store::{Change, Found};
use overlane_core::{Class, Did, NetworkId, StreamKey, TransactionDigest};
use overlane_storage_native::testkit::MemoryStore;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::mpsc::{self, TryRecvError, TrySendError};
use shuttle::{Config, Runner, thread};

use super::*;

/// Decides every schedule.
const SEED: u64 = 0x6f76_6572_6c61_6e65;
/// Schedules drawn of each kind.
const SCHEDULES: usize = 200;
/// Threads of the checker have this much stack; the engine's calls are deep in a debug build.
const STACK_BYTES: usize = 1 << 20;
/// How many threads may be chosen at most against their turn, where that is bounded.
const CHANGES_OF_TURN: usize = 3;

const CALLERS: u8 = 3;
/// Transactions that each caller offers.
const OFFERS: u64 = 2;
/// This caller goes away without reading an answer.
const LEAVES: u8 = 2;

const NOW: Now = Now {
    wall_ms: 1_800_000_000_000,
    steady_ms: 0,
};

/// What the store does when it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Works,
    /// Fails at this write.
    FailsAt(u64),
    /// Panics at this write.
    PanicsAt(u64),
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// A batch is told to be durable as it is handed over.
    TellsBeforeItWrites,
    /// A batch that comes between the thread's look and its sleep wakes nobody.
    LosesAWakeUp,
    /// The thread ends without a word when the store panics.
    PanicsUntold,
    /// A shutdown does not wait for the batch in flight nor for the open one.
    HangsUpAtOnce,
    /// The thread does not mark the end of what it wrote.
    ClosesUnmarked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Offer {
    caller: u8,
    sequence: u64,
}

impl Candidate for Offer {
    fn stream(&self) -> StreamKey {
        StreamKey {
            network: NetworkId(1),
            origin: Did([self.caller + 1; 20]),
            destination: Did([0xbb; 20]),
            class: Class::Application,
        }
    }
    fn sequence(&self) -> u64 {
        self.sequence
    }
    fn digest(&self) -> TransactionDigest {
        TransactionDigest([u8::try_from(self.sequence).unwrap(); 32])
    }
    fn data_bytes(&self) -> u64 {
        1
    }
    fn issued_ms(&self) -> u64 {
        NOW.wall_ms
    }
    fn last_ms(&self) -> u64 {
        NOW.wall_ms + 600_000
    }
    fn namespace(&self) -> Option<&str> {
        None
    }
    fn signed_header(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// What comes to the driver.
enum Told {
    Offer(Offer, mpsc::Sender<bool>),
    Done(BatchDone),
    Shutdown,
}

/// What the test sees of the store.
#[derive(Debug, Default)]
struct Seen {
    writes: u64,
    unmarked: bool,
    closed: bool,
}

fn see(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store that lets others run in the middle of a write.
#[derive(Debug)]
struct Slow {
    memory: MemoryStore,
    seen: Arc<Mutex<Seen>>,
    does: Store,
    marks: bool,
}

impl RecordStore for Slow {
    fn scan(&mut self) -> Result<Scan, StoreError> {
        self.memory.scan()
    }

    fn write(&mut self, batch: &[Change]) -> Result<(), StoreError> {
        thread::yield_now();
        let write = {
            let mut seen = see(&self.seen);
            seen.writes += 1;
            seen.unmarked = true;
            seen.writes
        };
        match self.does {
            Store::FailsAt(at) if at == write => self.memory.fail_next(),
            Store::PanicsAt(at) => assert_ne!(at, write, "a store with a fault"),
            _ => {}
        }
        self.memory.write(batch)?;
        thread::yield_now();
        Ok(())
    }

    fn seal(&mut self) -> Result<(), StoreError> {
        see(&self.seen).unmarked = !self.marks;
        Ok(())
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        see(&self.seen).closed = true;
    }
}

/// The driver's end, over the checker's channel.
struct ToThread {
    batches: mpsc::SyncSender<Batch>,
    /// Where a faulty end tells too early.
    early: Option<mpsc::Sender<Told>>,
}

impl Outbox for ToThread {
    fn put(&self, batch: Batch) -> Result<(), Batch> {
        if let Some(driver) = &self.early {
            driver.send(Told::Done((batch.id, Ok(())))).unwrap();
        }
        self.batches.try_send(batch).map_err(|refused| {
            let (TrySendError::Full(batch) | TrySendError::Disconnected(batch)) = refused;
            batch
        })
    }
}

/// The thread's end; whether it was idle for long is drawn.
struct FromDriver {
    batches: mpsc::Receiver<Batch>,
    /// A faulty end looks first, then sleeps until it is woken after that.
    deaf: bool,
}

impl Inbox for FromDriver {
    fn next(&self, idle_ends: bool) -> Next {
        if self.deaf {
            return match self.batches.try_recv() {
                Ok(batch) => Next::Write(batch),
                Err(TryRecvError::Disconnected) => Next::HungUp,
                Err(TryRecvError::Empty) => {
                    thread::yield_now();
                    // What came meanwhile is slept through: only a later batch wakes.
                    let slept_through = self.batches.try_recv();
                    let woken = self.batches.recv();
                    match slept_through.or(woken.map_err(|_| TryRecvError::Disconnected)) {
                        Ok(batch) => Next::Write(batch),
                        Err(_) => Next::HungUp,
                    }
                }
            };
        }
        if idle_ends && thread_rng().gen_bool(0.5) {
            return match self.batches.try_recv() {
                Ok(batch) => Next::Write(batch),
                Err(TryRecvError::Empty) => Next::Idle,
                Err(TryRecvError::Disconnected) => Next::HungUp,
            };
        }
        self.batches.recv().map_or(Next::HungUp, Next::Write)
    }
}

/// The way back, and whether it is used.
struct ToDriver(mpsc::Sender<Told>, Fault);

impl Results for ToDriver {
    fn tell(&self, done: BatchDone) -> bool {
        match self.1 {
            Fault::TellsBeforeItWrites => true,
            Fault::PanicsUntold if done.1.is_err() => false,
            _ => self.0.send(Told::Done(done)).is_ok(),
        }
    }
}

/// What a crash at this instant would leave of an offer.
fn is_durable(memory: &MemoryStore, offer: Offer) -> bool {
    let name = Table::Receiver.record_name(&offer.stream());
    let Some(Found::Bytes(bytes)) = memory.found(name) else {
        return false;
    };
    let Record::Receiver(left) = Record::decode(&bytes).unwrap() else {
        return false;
    };
    left.window.at(offer.sequence) == Some(offer.digest())
}

/// A node's driver, as far as the store is concerned.
struct Driver {
    engine: Engine<Offer>,
    memory: MemoryStore,
    callers: BTreeMap<Ticket, mpsc::Sender<bool>>,
    staged: VecDeque<Ticket>,
    admitted: BTreeSet<Offer>,
}

impl Driver {
    fn run(&mut self, told: &mpsc::Receiver<Told>, outbox: &impl Outbox, fault: Fault) {
        let mut closing = false;
        loop {
            while let Some(batch) = self.engine.take_batch() {
                if let Err((id, result)) = hand_over(batch, outbox) {
                    self.engine.batch_done(id, result).unwrap();
                }
            }
            self.release();
            let settled = self.engine.pending() == 0 || fault == Fault::HangsUpAtOnce;
            if closing && settled {
                return;
            }
            match told
                .recv()
                .expect("law told: somebody still has something to say")
            {
                Told::Offer(offer, caller) => {
                    let ticket = self.engine.stage_admission(offer, Introducer::Own, NOW);
                    self.callers.insert(ticket, caller);
                    self.staged.push_back(ticket);
                }
                Told::Done((id, result)) => self.engine.batch_done(id, result).unwrap(),
                Told::Shutdown => closing = true,
            }
        }
    }

    fn release(&mut self) {
        while let Some((ticket, outcome)) = self.engine.poll_outcome() {
            assert_eq!(self.staged.pop_front(), Some(ticket), "law order");
            if let Outcome::Admitted(admitted) = &outcome {
                let offer = *admitted.item();
                assert!(is_durable(&self.memory, offer), "law release: {offer:?}");
                self.admitted.insert(offer);
            }
            let admitted = matches!(outcome, Outcome::Admitted(_));
            // Whoever asked may have gone.
            let _ = self.callers.remove(&ticket).unwrap().send(admitted);
        }
    }
}

/// A caller: offers, then waits for every answer, or goes away.
fn call(caller: u8, driver: &mpsc::Sender<Told>) {
    let (reply, answers) = mpsc::channel();
    for sequence in 1..=OFFERS {
        let offer = Offer { caller, sequence };
        driver.send(Told::Offer(offer, reply.clone())).unwrap();
    }
    drop(reply);
    if caller != LEAVES {
        let answered = std::iter::from_fn(|| answers.recv().ok()).count() as u64;
        assert_eq!(answered, OFFERS, "law told: every caller is answered");
    }
}

/// One run of a whole node's hand-off, from the first offer to the closed store.
fn world(does: Store, fault: Fault) {
    let memory = MemoryStore::new();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (driver_out, told) = mpsc::channel();
    let (batches, inbox) = mpsc::sync_channel(1);
    let store = Slow {
        memory: memory.clone(),
        seen: Arc::clone(&seen),
        does,
        marks: fault != Fault::ClosesUnmarked,
    };
    let results = ToDriver(driver_out.clone(), fault);
    let inbox = FromDriver {
        batches: inbox,
        deaf: fault == Fault::LosesAWakeUp,
    };
    let mut guarded = Guarded::new(Box::new(store));
    let scan = guarded.scan().unwrap();
    let thread = thread::spawn(move || guarded.serve(&inbox, &results));
    let early = fault == Fault::TellsBeforeItWrites;
    let outbox = ToThread {
        batches,
        early: early.then(|| driver_out.clone()),
    };
    let mut driver = Driver {
        engine: Engine::restore(EngineConfig::default(), scan, NOW),
        memory: memory.clone(),
        callers: BTreeMap::new(),
        staged: VecDeque::new(),
        admitted: BTreeSet::new(),
    };
    let driving = thread::spawn(move || {
        driver.run(&told, &outbox, fault);
        drop(outbox);
        driver.admitted
    });
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let driver = driver_out.clone();
            thread::spawn(move || call(caller, &driver))
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    driver_out.send(Told::Shutdown).unwrap();
    let admitted = driving.join().unwrap();
    thread.join().unwrap();

    let seen = see(&seen);
    assert!(seen.closed, "law closed");
    match does {
        Store::Works => {
            let offered = u64::from(CALLERS) * OFFERS;
            assert_eq!(admitted.len() as u64, offered, "law flush");
            assert!(!seen.unmarked, "law closed: the end is marked");
        }
        Store::FailsAt(at) | Store::PanicsAt(at) => {
            let before = admitted.len() as u64;
            assert!(before < u64::from(CALLERS) * OFFERS, "law fail closed");
            assert!(at > 1 || admitted.is_empty(), "law fail closed");
        }
    }
}

/// Runs the world under both kinds of schedules.
fn explore(does: Store, fault: Fault) {
    let random = RandomScheduler::new_from_seed(SEED, SCHEDULES);
    let bounded = PctScheduler::new_from_seed(SEED, CHANGES_OF_TURN, SCHEDULES);
    explore_by(random, does, fault);
    explore_by(bounded, does, fault);
}

fn explore_by(scheduler: impl Scheduler + 'static, does: Store, fault: Fault) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(scheduler, config).run(move || world(does, fault));
}

#[test]
fn law_release_holds_in_every_schedule_of_the_hand_off_s14() {
    explore(Store::Works, Fault::Nothing);
}

#[test]
fn law_fail_closed_holds_in_every_schedule_of_the_hand_off() {
    for at in 1..=2 {
        explore(Store::FailsAt(at), Fault::Nothing);
        explore(Store::PanicsAt(at), Fault::Nothing);
    }
}

/// What the checker says of a fault.
fn caught(does: Store, fault: Fault) -> String {
    let panic = catch_unwind(|| explore(does, fault));
    let said = panic.expect_err("the fault was not caught");
    match said.downcast::<String>() {
        Ok(said) => *said,
        Err(said) => (*said.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
fn broken_hand_offs_are_caught_by_the_law_they_break() {
    for (does, fault, law) in [
        (Store::Works, Fault::TellsBeforeItWrites, "law release"),
        (Store::Works, Fault::LosesAWakeUp, "deadlock"),
        (Store::PanicsAt(1), Fault::PanicsUntold, "deadlock"),
        (Store::Works, Fault::HangsUpAtOnce, "law flush"),
        (Store::Works, Fault::ClosesUnmarked, "law closed"),
    ] {
        let said = caught(does, fault);
        assert!(said.contains(law), "{fault:?}: {said}");
    }
}
