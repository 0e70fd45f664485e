//! The references of a node, as a state machine: what other nodes say about them comes in, what is
//! to be said, kept and told goes out.
//!
//! [`References`] is to the tables of references (`overlane_relay::refs`) what [`Peer`](super::Peer)
//! is to the replay engine: it carries their frames in application transactions, which arrive once
//! but may be lost, agrees with each other node on an epoch, keeps what outlives the process, and
//! answers at the door. It does no I/O, reads no clock and draws nothing at random.
//!
//! Laws. **Durable first**: what came of a message or a request is said, told and answered after the
//! commit that holds it, and never before; commits are one at a time, and everything that happens
//! meanwhile shares the next. **Fails closed**: after a commit that failed nothing is said, told or
//! promised any more. **Answered once**: a call that was committed is handed to its service until it
//! is answered, over restarts too, and its answer and its end are one commit. **Its own link alone**:
//! what a node sends that no honest one does ends what is shared with that node, and nothing else.
//! Source: seed 3, protocol decision 9.

mod asks;
mod book;
mod calls;
mod effect;
mod epochs;
mod error;
mod open;
mod rows;
mod view;
mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use overlane_core::lane::bounds::{GONE_MS, PROBE_IDLE_MS};
use overlane_core::{Coded, Did};
use overlane_relay::refs::table::{
    Counts, Event, LinkId, Local, LocalObject, Source, Step, Tables,
};
use overlane_relay::refs::wire::Reason;
use overlane_relay::refs::{Limits, LinkError};

use super::Now;

pub use effect::{Ask, AskId, Call, Commit, CommitId, Effect, Handle, RefState, Reply, TakenBack};
pub use error::ReferenceError;
pub use open::OpenError;
pub use rows::{CallId, Token};
pub use view::{FarView, KeptView, ReferenceCounters};
pub use wire::{REFERENCES_NAMESPACE, RESERVED_NAMESPACES};

pub(crate) use asks::ticket_digest;

use book::{Book, Saying};
use calls::OpenCall;
use effect::map_outcome;
use rows::{FarRow, KeptRow, Key, Numbers};
use wire::Said;

/// Nodes that references are shared with.
pub const FARS_MAX: usize = 1_024;

/// Services that are offered at once.
pub const EXPORTS_MAX: usize = 4_096;

/// References that are kept over restarts.
pub const KEPT_MAX: usize = 4_096;

/// The longest note beside a kept reference, in bytes.
pub const NOTE_MAX_BYTES: usize = 4_096;

/// Tickets that lead to one reference.
pub const TICKETS_MAX: usize = 16;

/// Calls of one sender that are not answered; more are refused as busy.
pub const CALLS_MAX: usize = 256;

/// Requests that wait until an epoch with one node begins.
pub const WAITING_MAX: usize = 64;

/// Messages to one node that are on their way to its lane.
pub const IN_HAND_MAX: usize = 16;

/// Answers on their way to nodes that references are not shared with; more are not given.
pub const STRAYS_MAX: usize = 16;

/// How often an epoch is asked for, in milliseconds.
pub const ASK_AGAIN_MS: u64 = 1_000;

/// How long an epoch is asked for, in milliseconds.
pub const ASK_WITHIN_MS: u64 = 30_000;

/// How long an epoch lasts at least before another begins at the other node's wish, in milliseconds.
pub const EPOCH_PAUSE_MS: u64 = 1_000;

/// How long a frame may stay unacknowledged while its node is linked, in milliseconds. A node that
/// was killed counts as linked until its link is known to be gone, and what is shared with it must
/// outlast that.
pub const ACK_DEADLINE_MS: u64 = 180_000;

const _: () = assert!(
    ACK_DEADLINE_MS > 2 * (PROBE_IDLE_MS + GONE_MS),
    "a link that is gone is known to be before what is shared over it is given up"
);

/// The limits of each link of a node's references.
#[must_use]
pub fn limits() -> Limits {
    Limits {
        ack_deadline_ms: ACK_DEADLINE_MS,
        ..Limits::default()
    }
}

/// All that a node knows of references.
#[derive(Debug)]
pub struct References {
    did: Did,
    limits: Limits,
    tables: Tables,
    /// What the tables' clock shows when the steady clock shows zero. It goes on from the wall
    /// clock of the start, and never jumps.
    base_ms: u64,
    linked: BTreeSet<Did>,
    book: Book,
    strays: usize,
    numbers: Numbers,
    kept: BTreeMap<Token, KeptRow>,
    tickets: BTreeMap<[u8; 32], Token>,
    calls: BTreeMap<CallId, OpenCall>,
    calls_of: BTreeMap<Source, usize>,
    attached: BTreeSet<LocalObject>,
    /// What owners said when they took an object back.
    said: BTreeMap<LocalObject, (Reason, Arc<[u8]>)>,
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    held: Vec<Held>,
    writing: Option<(CommitId, Vec<Held>)>,
    next_commit: u64,
    failure: Option<String>,
    out: VecDeque<Effect>,
    counters: ReferenceCounters,
}

/// What waits for a commit.
#[derive(Debug)]
enum Held {
    Tell(Effect),
    Say(LinkId, Saying),
    /// To a node that nothing is shared with.
    SayStray(Did, Vec<u8>),
}

impl References {
    // What happened.

    /// A message about references from another node was admitted; `sequence` is that of its
    /// transaction, which grows in the order they were signed. [`Effect::Taken`] says when its place on
    /// the application's side is free.
    pub fn handle_message(&mut self, from: Did, sequence: u64, body: &[u8], now: Now) {
        if self.failure.is_some() {
            return self.out.push_back(Effect::Taken);
        }
        let now_ms = self.at(now);
        match Said::read(body) {
            Ok(Said::Begin(epoch, limits)) => self.asked_to_begin(from, epoch, limits, now_ms),
            Ok(Said::Begun(epoch, limits)) => self.has_begun(from, epoch, limits, now_ms),
            Ok(Said::Frame(frame)) => {
                if self.is_in_order(from, sequence, frame) {
                    self.receive(from, frame, now_ms);
                }
            }
            // Nothing is what no frame is: it ends what is shared.
            Err(_) => self.receive(from, &[], now_ms),
        }
        self.hold(Effect::Taken);
    }

    /// A node is linked, or linked once more.
    pub fn handle_linked(&mut self, peer: Did, now: Now) {
        self.linked.insert(peer);
        let now_ms = self.at(now);
        if let Some(link) = self.book.link(peer)
            && let Some(far) = self.book.far_mut(link)
        {
            far.linked = true;
            let shared = far.door.is_some();
            if shared && self.failure.is_none() {
                let step = self.tables.handle_connected(link, now_ms);
                self.follow(step, now_ms);
            }
        }
    }

    /// No link leads to a node any more.
    pub fn handle_unlinked(&mut self, peer: Did, now: Now) {
        self.linked.remove(&peer);
        let now_ms = self.at(now);
        let Some(link) = self.book.link(peer) else {
            return;
        };
        if let Some(far) = self.book.far_mut(link) {
            far.linked = false;
            far.forget_sayings();
        }
        if self.failure.is_none() {
            let step = self.tables.handle_disconnected(link);
            self.follow(step, now_ms);
        }
    }

    /// What was to be said to `peer` is in a lane, or was lost: if it matters it is said again.
    pub fn handle_said(&mut self, peer: Did) {
        match self
            .book
            .link(peer)
            .and_then(|link| self.book.far_mut(link))
        {
            Some(far) => far.said(),
            None => self.strays = self.strays.saturating_sub(1),
        }
    }

    /// A commit became durable, or it is not known whether it did.
    pub fn handle_committed(&mut self, id: CommitId, result: Result<(), String>) {
        let Some((_, held)) = self.writing.take_if(|(writing, _)| *writing == id) else {
            return;
        };
        match result {
            Ok(()) => {
                self.counters.commits += 1;
                self.let_go(held);
            }
            Err(cause) => self.fail(held, cause),
        }
    }

    /// Time passed. Called at [`poll_timeout`](Self::poll_timeout) or later.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.failure.is_some() {
            return;
        }
        let now_ms = self.at(now);
        if self
            .tables
            .poll_timeout()
            .is_some_and(|due_ms| due_ms <= now_ms)
        {
            let step = self.tables.handle_timeout(now_ms);
            self.follow(step, now_ms);
        }
        self.ask_again(now_ms);
    }

    // What it wants done.

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if self.writing.is_none() && !self.held.is_empty() && !self.is_dirty() {
            let held = std::mem::take(&mut self.held);
            self.let_go(held);
        }
        let next = self.out.pop_front();
        next.or_else(|| self.next_saying())
    }

    /// The next commit, once there is nothing else to do and none is on its way.
    pub fn poll_commit(&mut self) -> Option<Commit> {
        if self.writing.is_some() || self.failure.is_some() || !self.is_dirty() {
            return None;
        }
        let tables = self.tables.take_changes();
        let own = std::mem::take(&mut self.changes);
        let own = own
            .into_iter()
            .map(|(key, value)| overlane_relay::refs::table::Change { key, value });
        let id = CommitId(self.next_commit);
        self.next_commit += 1;
        self.writing = Some((id, std::mem::take(&mut self.held)));
        Some(Commit {
            id,
            changes: tables.into_iter().chain(own).collect(),
        })
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due, by the steady clock.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.failure.is_some() {
            return None;
        }
        let due = [self.tables.poll_timeout(), self.book.due_ms()];
        let due_ms = due.into_iter().flatten().min()?;
        Some(due_ms.saturating_sub(self.base_ms))
    }

    /// Whether nothing waits for a commit.
    pub fn is_settled(&self) -> bool {
        let quiet = self.writing.is_none() && self.held.is_empty() && self.out.is_empty();
        quiet && (self.failure.is_some() || !self.is_dirty())
    }

    /// Whether a frame says nothing that was overtaken. Only a RESUME does: what it says of its sender
    /// was so when it was signed, and is a rollback if it is taken for how things are now.
    fn is_in_order(&mut self, from: Did, sequence: u64, frame: &[u8]) -> bool {
        const RESUME: Option<&u8> = Some(&2);
        let link = self.book.link(from);
        let Some(far) = link.and_then(|link| self.book.far_mut(link)) else {
            return true;
        };
        let overtaken = sequence <= far.newest;
        far.newest = far.newest.max(sequence);
        if overtaken && frame.get(1) == RESUME {
            self.counters.stale += 1;
            return false;
        }
        true
    }

    fn is_dirty(&self) -> bool {
        !self.changes.is_empty() || self.tables.has_changes()
    }

    fn at(&self, now: Now) -> u64 {
        self.base_ms.saturating_add(now.steady_ms)
    }

    fn change(&mut self, change: overlane_relay::refs::table::Change) {
        self.changes.insert(change.key, change.value);
    }

    fn keep_numbers(&mut self) {
        self.change(Key::Numbers.holds(&self.numbers));
    }

    fn keep_far(&mut self, link: LinkId) {
        if let Some(far) = self.book.far(link) {
            let row = FarRow {
                did: far.did,
                floor: far.floor,
                door: far.door,
            };
            self.change(Key::Far(link).holds(&row));
        }
    }

    fn hold(&mut self, effect: Effect) {
        self.held.push(Held::Tell(effect));
    }

    /// An answer comes before what came of the request: a call to what was taken back has its outcome
    /// at once, and whoever waits for that must know of the promise by then.
    fn hold_answer(&mut self, at: usize, id: AskId, answer: Result<Reply, ReferenceError>) {
        let answer = Held::Tell(Effect::Answer(id, answer));
        self.held.insert(at.min(self.held.len()), answer);
    }

    fn say(&mut self, link: LinkId, saying: Saying) {
        self.held.push(Held::Say(link, saying));
    }

    /// What is durable is said and told.
    fn let_go(&mut self, held: Vec<Held>) {
        for held in held {
            match held {
                Held::Tell(effect) => self.out.push_back(effect),
                Held::Say(link, saying) => {
                    if let Some(far) = self.book.far_mut(link) {
                        far.say(saying);
                    }
                }
                Held::SayStray(peer, frame) => self.say_stray(peer, &frame),
            }
        }
    }

    fn fail(&mut self, held: Vec<Held>, cause: String) {
        let refusal = ReferenceError::StoreFailed {
            cause: cause.clone(),
        };
        self.failure = Some(cause.clone());
        let waiting = std::mem::take(&mut self.held);
        for held in held.into_iter().chain(waiting) {
            match held {
                Held::Tell(Effect::Answer(ask, _)) => {
                    let refused = Effect::Answer(ask, Err(refusal.clone()));
                    self.out.push_back(refused);
                }
                Held::Tell(Effect::Taken) => self.out.push_back(Effect::Taken),
                _ => {}
            }
        }
        for (_, far) in self.book.iter_mut() {
            far.forget_sayings();
            let waiting = far.asked.take().map(|asked| asked.waiting);
            for (ask, _) in waiting.unwrap_or_default() {
                let refused = Effect::Answer(ask, Err(refusal.clone()));
                self.out.push_back(refused);
            }
        }
        self.out.push_back(Effect::Failed { cause });
    }

    fn next_saying(&mut self) -> Option<Effect> {
        if self.failure.is_some() {
            return None;
        }
        let limits = self.limits;
        let (peer, saying) = self
            .book
            .iter_mut()
            .find_map(|(_, far)| Some((far.did, far.next()?)))?;
        let said = match &saying {
            Saying::Begin(epoch) => Said::Begin(*epoch, limits),
            Saying::Begun(epoch) => Said::Begun(*epoch, limits),
            Saying::Numbered(_, bytes) | Saying::Other(_, bytes) => Said::Frame(bytes),
        };
        match said.to_data() {
            Ok(data) => Some(Effect::Say { peer, data }),
            Err(error) => {
                tracing::error!(%error, "a frame of references fits no transaction");
                self.handle_said(peer);
                None
            }
        }
    }

    /// Takes what one transaction of the tables did.
    fn follow(&mut self, step: Step, now_ms: u64) {
        self.count(&step.counts);
        for transmit in step.transmits {
            let saying = Saying::frame(transmit.seq, transmit.bytes);
            self.say(transmit.link, saying);
        }
        for (index, event) in step.events.into_iter().enumerate() {
            match event {
                Event::Deliver {
                    from,
                    target,
                    body,
                    result,
                } => {
                    let index = u32::try_from(index).unwrap_or(u32::MAX);
                    let named = step.cause.map(|(link, seq)| (link, seq, index));
                    self.delivered(
                        named,
                        calls::Delivered {
                            from,
                            target,
                            body,
                            result,
                        },
                        now_ms,
                    );
                }
                Event::Resolved { promise, outcome } => {
                    let outcome = map_outcome(outcome, |local| self.handle(local));
                    self.hold(Effect::Became { promise, outcome });
                }
                Event::Revoked {
                    object,
                    reason,
                    error,
                    ..
                } => self.taken_back(object, reason, &error),
                Event::Unreferenced(object) => self.unreferenced(object),
                Event::Unwanted(_) => self.counters.answers_unwanted += 1,
                Event::Ended { link, cause } => self.ended(link, &cause, now_ms),
            }
        }
    }

    fn count(&mut self, counts: &Counts) {
        let of = |count: u32| u64::from(count);
        let counters = &mut self.counters;
        counters.drops_executed += of(counts.drops_executed);
        counters.drops_uninformed += of(counts.drops_uninformed);
        counters.resurrections += of(counts.resurrections);
        counters.dead_letters += of(counts.dead_letters);
        counters.undeliverable += of(counts.undeliverable);
        counters.soft_violations += of(counts.soft_violations);
        counters.duplicates += of(counts.duplicates);
        counters.gaps += of(counts.gaps);
        counters.stale += of(counts.stale);
    }

    fn count_end(&mut self, cause: &LinkError) {
        let ends = self.counters.ends.entry(cause.code()).or_default();
        *ends = ends.saturating_add(1);
    }

    /// One handle, and what it is worth.
    fn handle(&self, local: Local) -> Handle {
        Handle {
            local,
            state: self.state(local),
        }
    }

    /// An object was taken back by its owner, or lost: whoever holds it is told.
    fn taken_back(&mut self, object: LocalObject, reason: Reason, text: &Arc<[u8]>) {
        self.said.insert(object, (reason, Arc::clone(text)));
        let local = Local::Object(object);
        let kept = self.kept.iter().filter(|(_, row)| row.local == local);
        let kept: Vec<_> = kept.map(|(&id, _)| id).collect();
        for id in kept {
            if let Some(row) = self.kept.get_mut(&id) {
                row.taken_back = Some((reason, text.to_vec()));
                let change = Key::Kept(id).holds(row);
                self.change(change);
            }
        }
        let state = self.state(local);
        self.hold(Effect::State { object, state });
    }

    /// Nobody else holds an object of the application's: it is gone if the application does not
    /// either.
    fn unreferenced(&mut self, object: LocalObject) {
        if self.tables.object(object).is_none() {
            self.said.remove(&object);
            if self.attached.remove(&object) {
                self.hold(Effect::Detach(object));
            }
        }
    }
}
