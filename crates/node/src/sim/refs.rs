//! References: what applications share, fetch, call, let go of and take back, and the store's thread of each node. The
//! simulated twin of `runtime::references` and `runtime::committer`.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::{Coded, Did};
use overlane_relay::refs::store::Store as _;
use overlane_relay::refs::table::{Local, LocalObject, LocalPromise};
use overlane_relay::refs::wire::{Body, Hardness, Outcome, Reason};
use overlane_storage_native::RefsStore;

use super::check::Shared;
use super::mailbox::OnDisk;
use super::names::Broken;
use super::node::seed_of;
use super::report::Phase;
use super::world::{Event, Life, World};
use crate::peer::refs::{
    self, Ask, AskId, Call, CallId, Commit, Effect, RefState, References, Reply, Token, limits,
    ticket_digest,
};

/// Objects that one node's application has shared and not taken back, at most.
const SHARED_MAX: usize = 2;

/// References of others that one node's application holds at most.
const HELD_MAX: usize = 4;

/// What an application wrote down of an object that it shares: it outlives its node's process.
#[derive(Debug)]
pub(super) struct Offered {
    /// Which object of the simulation.
    pub(super) number: Shared,
    secret: [u8; 32],
    /// Under which it is kept, once that was answered.
    token: Option<Token>,
    /// Whoever shows the secret gets it.
    is_admitted: bool,
    is_taken_back: bool,
}

/// A reference that an application holds while its process lives.
#[derive(Debug)]
struct Held {
    of: Shared,
    local: Local,
}

/// What a request was asked for.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Export(Shared),
    Keep(Shared),
    Admit(Shared),
    Attach(Shared),
    /// When it was asked, an owner had been answered that it took it back.
    Fetch(Shared, bool),
    Call(Shared, u64),
    Answer,
    Revoke(Shared),
}

/// What a process has of references.
#[derive(Debug)]
pub(super) struct RefsRoom {
    store: RefsStore,
    /// The commit on its way to the store.
    writing: Option<Commit>,
    asked: BTreeMap<AskId, Asked>,
    next_ask: u64,
    promises: BTreeMap<LocalPromise, Asked>,
    objects: BTreeMap<LocalObject, Shared>,
    held: Vec<Held>,
    /// Calls that were handed over in this life.
    given: BTreeSet<CallId>,
}

impl OnDisk for RefsRoom {
    fn rests(&self) -> bool {
        self.writing.is_none()
    }

    fn finish(&mut self) {
        if let Some(commit) = self.writing.take() {
            // A failure here is the next opening's to find.
            let _ = self.store.commit(commit.changes);
        }
    }
}

impl World<'_> {
    /// Opens a node's store of references, and what it holds.
    ///
    /// # Errors
    /// As the store says, or what is in it.
    pub(super) fn open_references(
        &mut self,
        number: usize,
    ) -> Result<Option<(RefsStore, References)>, String> {
        if !self.config.has_references() {
            return Ok(None);
        }
        let now = self.now_at(number);
        let Some(node) = self.nodes.get_mut(number) else {
            return Ok(None);
        };
        let mut store = node.refs_disk.open_references()?;
        let rows = store.rows().map_err(|error| error.to_string())?;
        let references = References::open(node.did, limits(), &rows, now);
        let references = references.map_err(|error| error.to_string())?;
        Ok(Some((store, references)))
    }

    /// A node that has just started carries references, and its application answers for what it shared.
    pub(super) fn begin_references(
        &mut self,
        number: usize,
        opened: Option<(RefsStore, References)>,
    ) {
        let Some((store, references)) = opened else {
            return;
        };
        let seed = *seed_of(&mut self.chance);
        let Some(running) = self.running(number) else {
            return;
        };
        running.peer.carry(references, seed);
        running.refs = Some(RefsRoom {
            store,
            writing: None,
            asked: BTreeMap::new(),
            next_ask: 0,
            promises: BTreeMap::new(),
            objects: BTreeMap::new(),
            held: Vec::new(),
            given: BTreeSet::new(),
        });
        let Some(node) = self.nodes.get_mut(number) else {
            return;
        };
        // Of what was not answered to be kept nobody knows under which number it is.
        node.offered.retain(|it| it.token.is_some());
        let kept = node.offered.iter();
        let kept: Vec<_> = kept.filter_map(|it| Some((it.number, it.token?))).collect();
        for (shared, token) in kept {
            self.ask_references(number, Asked::Attach(shared), Ask::Attach(token));
        }
    }

    /// The node's application does something with references some time later.
    pub(super) fn references_later(&mut self, node: usize) {
        if !self.config.has_references() {
            return;
        }
        let a_minute = self.config.references_per_minute;
        if let Some(mean_ms) = 60_000_u64.checked_div(a_minute) {
            let wait_ms = self.between(mean_ms / 2, mean_ms * 3 / 2);
            self.after(wait_ms.max(1), Event::Reference(node));
        }
    }

    /// The node's application shares something, fetches what another shares, calls it, lets go of it, or takes back what
    /// it shares.
    pub(super) fn use_references(&mut self, node: usize) {
        if self.phase != Phase::Faults {
            return;
        }
        self.references_later(node);
        let up = self.running(node).filter(|it| !it.leaving);
        let Some(held) = up.and_then(|it| Some(it.refs.as_ref()?.held.len())) else {
            return;
        };
        match self.chance.below(10) {
            0..2 => self.share(node),
            2..5 if held < HELD_MAX => self.fetch(node),
            8 => self.let_go_of_one(node),
            9 => self.take_back(node),
            _ => self.call_one(node),
        }
    }

    fn share(&mut self, node: usize) {
        let secret = *seed_of(&mut self.chance);
        let number = Shared {
            node,
            number: self.counts.references.shared,
        };
        let Some(state) = self.nodes.get_mut(node) else {
            return;
        };
        let shares = state.offered.iter().filter(|it| !it.is_taken_back);
        if shares.count() >= SHARED_MAX {
            return;
        }
        state.offered.push(Offered {
            number,
            secret,
            token: None,
            is_admitted: false,
            is_taken_back: false,
        });
        self.counts.references.shared += 1;
        self.ask_references(node, Asked::Export(number), Ask::Export);
    }

    /// Fetches something of a node that this one is linked to, with its secret, which came some other way.
    fn fetch(&mut self, node: usize) {
        let linked = self.nodes.get(node).map(|it| it.linked());
        let linked = linked.unwrap_or_default();
        let far = self.nodes.iter().filter(|it| linked.contains(&it.did));
        let offered: Vec<(Did, Shared, [u8; 32])> = far
            .flat_map(|far| far.offered.iter().map(move |it| (far.did, it)))
            .filter(|(_, it)| it.is_admitted)
            .map(|(did, it)| (did, it.number, it.secret))
            .collect();
        let drawn = self.any_of(offered.len());
        let Some(&(owner, of, secret)) = offered.get(drawn) else {
            return;
        };
        let asked = Asked::Fetch(of, self.checks.references.is_taken_back(of));
        self.ask_references(node, asked, Ask::Redeem(owner, secret));
    }

    fn call_one(&mut self, node: usize) {
        let Some((of, local)) = self.one_held(node) else {
            return;
        };
        self.counts.references.calls += 1;
        let number = self.counts.references.calls;
        let ask = Ask::Send {
            target: local,
            bytes: number.to_be_bytes().to_vec(),
            refs: Vec::new(),
        };
        self.checks.references.called(number, of);
        self.ask_references(node, Asked::Call(of, number), ask);
    }

    fn one_held(&mut self, node: usize) -> Option<(Shared, Local)> {
        let held = self.running(node)?.refs.as_ref()?.held.len();
        let drawn = self.any_of(held);
        let room = self.running(node)?.refs.as_ref()?;
        room.held.get(drawn).map(|held| (held.of, held.local))
    }

    fn let_go_of_one(&mut self, node: usize) {
        if let Some((_, local)) = self.one_held(node) {
            self.counts.references.let_go += 1;
            self.let_go(node, local);
        }
    }

    fn let_go(&mut self, node: usize, local: Local) {
        let now = self.now_at(node);
        let Some(running) = self.running(node) else {
            return;
        };
        if let Some(room) = &mut running.refs {
            room.held.retain(|held| held.local != local);
        }
        running.peer.let_go_of(local, 1, now);
        self.dirty_nodes.insert(node);
    }

    fn take_back(&mut self, node: usize) {
        let room = self.running(node).and_then(|it| it.refs.as_ref());
        let objects: Vec<(LocalObject, Shared)> = room
            .map(|room| room.objects.iter().map(|(&at, &of)| (at, of)).collect())
            .unwrap_or_default();
        let drawn = self.any_of(objects.len());
        if let Some(&(object, of)) = objects.get(drawn) {
            self.revoke(node, object, of);
        }
    }

    fn revoke(&mut self, node: usize, object: LocalObject, of: Shared) {
        let hardness = match self.permille(500) {
            true => Hardness::Soft,
            false => Hardness::Hard,
        };
        let Some(offered) = self.offered_as(of).filter(|it| it.is_admitted) else {
            return;
        };
        offered.is_taken_back = true;
        let ask = Ask::Revoke {
            object,
            hardness,
            reason: Reason::FIRST_FREE,
            text: "taken back".to_owned(),
        };
        self.ask_references(node, Asked::Revoke(of), ask);
    }

    fn offered_as(&mut self, of: Shared) -> Option<&mut Offered> {
        let mut offered = self.nodes.get_mut(of.node)?.offered.iter_mut();
        offered.find(|it| it.number == of)
    }

    fn is_to_be_taken_back(&mut self, of: Shared) -> bool {
        self.offered_as(of).is_some_and(|it| it.is_taken_back)
    }

    fn ask_references(&mut self, node: usize, asked: Asked, ask: Ask) {
        let now = self.now_at(node);
        let Some(running) = self.running(node) else {
            return;
        };
        let Some(room) = &mut running.refs else {
            return;
        };
        room.next_ask += 1;
        let id = AskId(room.next_ask);
        room.asked.insert(id, asked);
        running.peer.ask_references(id, ask, now);
        self.dirty_nodes.insert(node);
    }

    // The store's thread.

    /// A node gives its store of references a commit.
    pub(super) fn commit_references(&mut self, node: usize, commit: Commit) {
        let slow = self.permille(20);
        let wait_ms = self.idle_ms(node) + self.chance.below(if slow { 200 } else { 4 });
        let life = self.life(node);
        self.maybe_cut_power(life, wait_ms);
        let room = self.running(node).and_then(|it| it.refs.as_mut());
        let Some(room) = room.filter(|room| room.writing.is_none()) else {
            return self.broke("one commit at a time", format!("node {node} has two"));
        };
        room.writing = Some(commit);
        self.after(wait_ms, Event::Committed(life));
    }

    /// The commit is durable, or not.
    pub(super) fn committed(&mut self, life: Life) {
        let node = life.node;
        let now = self.now_at(node);
        let forgetful = self.is_broken(Broken::ForgetfulReferences);
        let Some(running) = self.living(life) else {
            return;
        };
        let Some(room) = &mut running.refs else {
            return;
        };
        let Some(commit) = room.writing.take() else {
            return;
        };
        let result = room.store.commit(commit.changes);
        let failed = result.is_err();
        let result = result.map_err(|error| error.to_string());
        running.peer.handle_committed(commit.id, result, now);
        self.dirty_nodes.insert(node);
        if let Some(state) = self.nodes.get_mut(node) {
            state.refs_disk.wrote(forgetful);
            state.store_failed |= failed;
        }
        if failed {
            self.counts.stores_failed += 1;
            self.mend_later(life);
        }
    }

    // What references tell the application.

    pub(super) fn references_did(&mut self, node: usize, effect: Effect) {
        match effect {
            Effect::Answer(id, answer) => {
                let room = self.running(node).and_then(|it| it.refs.as_mut());
                let asked = room.and_then(|room| room.asked.remove(&id));
                match (asked, answer) {
                    (None, _) => {
                        let words = format!("node {node} answered a request twice");
                        self.broke("one result a request", words);
                    }
                    (Some(asked), Ok(reply)) => self.replied(node, asked, reply),
                    (Some(asked), Err(error)) => self.refused_reference(node, asked, &error),
                }
            }
            Effect::Call(call) => self.called(node, &call),
            Effect::Became { promise, outcome } => self.became(node, promise, outcome),
            Effect::State { object, state } if state != RefState::Live => {
                // What works no longer is let go of.
                let local = Local::Object(object);
                let room = self.running(node).and_then(|it| it.refs.as_ref());
                if room.is_some_and(|room| room.held.iter().any(|held| held.local == local)) {
                    self.counts.references.heard += 1;
                    self.let_go(node, local);
                }
            }
            Effect::Ended { code, .. } => {
                *self.counts.references.ended.entry(code).or_default() += 1;
            }
            Effect::State { .. }
            | Effect::Detach(_)
            | Effect::Failed { .. }
            | Effect::Say { .. }
            | Effect::Taken => {}
        }
    }

    fn replied(&mut self, node: usize, asked: Asked, reply: Reply) {
        match (asked, reply) {
            (Asked::Export(of), Reply::Handle(handle)) => {
                if let Some(room) = self.running(node).and_then(|it| it.refs.as_mut())
                    && let Local::Object(object) = handle.local
                {
                    room.objects.insert(object, of);
                }
                let local = handle.local;
                let note = of.number.to_be_bytes().to_vec();
                self.ask_references(node, Asked::Keep(of), Ask::Keep { local, note });
            }
            (Asked::Keep(of), Reply::Kept(token)) => {
                let Some(offered) = self.offered_as(of) else {
                    return;
                };
                offered.token = Some(token);
                let digest = ticket_digest(&offered.secret);
                self.ask_references(node, Asked::Admit(of), Ask::Admit(token, digest));
            }
            (Asked::Admit(of), Reply::Done) => {
                if let Some(offered) = self.offered_as(of) {
                    offered.is_admitted = true;
                }
            }
            (Asked::Attach(of), Reply::Handle(handle)) => {
                let live = handle.state == RefState::Live;
                if let Err((law, words)) = self.checks.references.attached(of, live) {
                    self.broke(law, words);
                }
                let Local::Object(object) = handle.local else {
                    return;
                };
                if let Some(room) = self.running(node).and_then(|it| it.refs.as_mut()) {
                    room.objects.insert(object, of);
                }
                // What was asked for in an earlier life, and nobody knows what came of it, is asked for again.
                let known = self.offered_as(of).filter(|_| live);
                match known.map(|it| (it.token, it.secret, it.is_admitted, it.is_taken_back)) {
                    Some((Some(token), secret, false, _)) => {
                        let ask = Ask::Admit(token, ticket_digest(&secret));
                        self.ask_references(node, Asked::Admit(of), ask);
                    }
                    Some((.., true, true)) => self.revoke(node, object, of),
                    _ => {}
                }
            }
            (Asked::Fetch(..) | Asked::Call(..), Reply::Promise(promise)) => {
                if let Some(room) = self.running(node).and_then(|it| it.refs.as_mut()) {
                    room.promises.insert(promise, asked);
                }
            }
            (Asked::Revoke(of), Reply::Done) => {
                self.counts.references.taken_back += 1;
                self.checks.references.taken_back(of);
                let number = of.number.to_be_bytes();
                self.trace.note(self.now_ms, &[b"taken back", &number], || {
                    format!("node {node} took back what it shared as {}", of.number)
                });
            }
            (Asked::Answer, Reply::Done) => self.counts.references.answered += 1,
            (asked, reply) => {
                let words = format!("node {node} was answered {reply:?} for {asked:?}");
                self.broke("one result a request", words);
            }
        }
    }

    fn refused_reference(&mut self, node: usize, asked: Asked, error: &refs::ReferenceError) {
        use refs::ReferenceError::{ExportsFull, StoreFailed};
        let code = error.code();
        *self.counts.references.refused.entry(code).or_default() += 1;
        // Neither a store that failed nor a table that is full says what is kept.
        let unsaid = matches!(error, StoreFailed { .. } | ExportsFull);
        // Of what was taken back for good there may be nothing to answer for.
        if let (Asked::Attach(of), false) = (asked, unsaid)
            && !self.is_to_be_taken_back(of)
        {
            let words = format!(
                "node {node} does not have what it shared as {}: {code}",
                of.number
            );
            self.broke("what is kept survives", words);
        }
    }

    /// The node's application answers a call with what it says.
    fn called(&mut self, node: usize, call: &Call) {
        let room = self.running(node).and_then(|it| it.refs.as_mut());
        let Some(room) = room else {
            return;
        };
        let (of, first) = (
            room.objects.get(&call.target).copied(),
            room.given.insert(call.id),
        );
        let bytes = call.body.bytes.to_vec();
        let judged = self
            .checks
            .references
            .served(of, &bytes, (first, call.again));
        self.counts.references.served += 1;
        if let Err((law, words)) = judged {
            self.broke(law, format!("node {node}: {words}"));
        }
        let outcome = Outcome::Data(Body::data(&bytes));
        let call = call.id;
        self.ask_references(node, Asked::Answer, Ask::Answer { call, outcome });
    }

    fn became(&mut self, node: usize, promise: LocalPromise, outcome: Outcome<refs::Handle>) {
        let room = self.running(node).and_then(|it| it.refs.as_mut());
        let asked = room.and_then(|room| room.promises.remove(&promise));
        let Some(asked) = asked else {
            let words = format!("node {node} was told an outcome that it did not wait for");
            return self.broke("one result a request", words);
        };
        match (asked, outcome) {
            (Asked::Fetch(of, gone), Outcome::Reference(handle)) => {
                self.counts.references.fetched += 1;
                let live = handle.state == RefState::Live;
                if gone && live {
                    let words = format!("node {node} was given {} of node {}", of.number, of.node);
                    self.broke("nothing is served once it was taken back", words);
                }
                let local = handle.local;
                let known = self
                    .running(node)
                    .and_then(|it| it.refs.as_mut())
                    .is_some_and(|room| {
                        let known = room.held.iter().any(|held| held.local == local);
                        if live && !known {
                            room.held.push(Held { of, local });
                        }
                        known
                    });
                if known || !live {
                    // One handle of it is enough.
                    let now = self.now_at(node);
                    if let Some(running) = self.running(node) {
                        running.peer.let_go_of(local, 1, now);
                    }
                }
            }
            (Asked::Call(of, number), Outcome::Data(body)) => {
                self.counts.references.heard_back += 1;
                let judged = self.checks.references.answered(number, of, &body.bytes);
                if let Err((law, words)) = judged {
                    self.broke(law, format!("node {node}: {words}"));
                }
            }
            (_, Outcome::Broken { reason, .. }) => {
                *self.counts.references.broken.entry(reason.0).or_default() += 1;
            }
            (asked, outcome) => {
                let words = format!("node {node} was told {outcome:?} for {asked:?}");
                self.broke("one result a request", words);
            }
        }
        self.let_go(node, promise.into());
    }
}
