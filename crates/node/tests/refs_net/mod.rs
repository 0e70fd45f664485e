//! The references of several nodes on virtual time, over a network that loses, repeats and reorders
//! what they say, with stores that crash. One seed decides every interleaving.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::Did;
use overlane_core::replay::Now;
use overlane_node::peer::refs::{
    Ask, AskId, Call, CallId, Commit, Effect, Handle, RefState, ReferenceError, References, Reply,
    TakenBack,
};
use overlane_node::refs::Token;
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{Local, LocalObject, LocalPromise};
use overlane_relay::refs::wire::{Body, Outcome};
use overlane_storage_native::testkit::Seeded;

pub(crate) const START_MS: u64 = 1_900_000_000_000;

/// One node.
pub(crate) struct End {
    pub(crate) did: Did,
    pub(crate) refs: References,
    pub(crate) rows: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) committing: Option<Commit>,
    /// Everything it was told in this life, in order.
    pub(crate) told: Vec<Effect>,
    /// Calls that were given to it and are not answered, in this life.
    pub(crate) calls: Vec<Call>,
    /// Every call it was ever given, by its name.
    pub(crate) given: BTreeMap<CallId, Vec<u8>>,
    /// The names of calls in the order they came first.
    pub(crate) order: Vec<CallId>,
    /// Whether its services answer what they are given, with the bytes they got.
    pub(crate) echoes: bool,
    pub(crate) taken: usize,
    next_ask: u64,
}

pub(crate) struct Net {
    pub(crate) ends: Vec<End>,
    pub(crate) under_way: Vec<(usize, usize, u64, Vec<u8>)>,
    /// Transactions that were signed, over all.
    signed: u64,
    pub(crate) linked: BTreeSet<(usize, usize)>,
    pub(crate) now_ms: u64,
    pub(crate) random: Seeded,
    /// Of a hundred messages, how many are lost, and how many are repeated.
    pub(crate) loses: u64,
    pub(crate) repeats: u64,
    /// Whether messages overtake each other.
    pub(crate) reorders: bool,
    /// What was said before it was durable, if anything was.
    pub(crate) limits: Limits,
}

pub(crate) fn did(index: usize) -> Did {
    Did([u8::try_from(index).unwrap() + 1; 20])
}

impl Net {
    /// Nodes, each linked to every other, over a network that does no harm yet.
    pub(crate) fn new(count: usize, seed: u64) -> Self {
        Self::limited(count, seed, Limits::default())
    }

    pub(crate) fn limited(count: usize, seed: u64, limits: Limits) -> Self {
        let now = Now {
            wall_ms: START_MS,
            steady_ms: 0,
        };
        let end = |index| End {
            did: did(index),
            refs: References::open(did(index), limits, &[], now).unwrap(),
            rows: BTreeMap::new(),
            committing: None,
            told: Vec::new(),
            calls: Vec::new(),
            given: BTreeMap::new(),
            order: Vec::new(),
            echoes: true,
            taken: 0,
            next_ask: 0,
        };
        let mut net = Self {
            ends: (0..count).map(end).collect(),
            under_way: Vec::new(),
            signed: 0,
            linked: BTreeSet::new(),
            now_ms: 0,
            random: Seeded::new(seed),
            loses: 0,
            repeats: 0,
            reorders: false,
            limits,
        };
        for one in 0..count {
            for other in 0..one {
                net.link(one, other);
            }
        }
        net
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            wall_ms: START_MS + self.now_ms,
            steady_ms: self.now_ms,
        }
    }

    pub(crate) fn link(&mut self, one: usize, other: usize) {
        let now = self.now();
        for (at, far) in [(one, other), (other, one)] {
            self.linked.insert((at, far));
            let far = self.ends[far].did;
            self.ends[at].refs.handle_linked(far, now);
            self.drain(at);
        }
    }

    pub(crate) fn unlink(&mut self, one: usize, other: usize) {
        let now = self.now();
        self.under_way
            .retain(|&(from, to, ..)| (from, to) != (one, other) && (from, to) != (other, one));
        for (at, far) in [(one, other), (other, one)] {
            self.linked.remove(&(at, far));
            let far = self.ends[far].did;
            self.ends[at].refs.handle_unlinked(far, now);
            self.drain(at);
        }
    }

    pub(crate) fn ask(&mut self, at: usize, ask: Ask) -> AskId {
        let now = self.now();
        let end = &mut self.ends[at];
        end.next_ask += 1;
        let id = AskId(end.next_ask);
        end.refs.ask(id, ask, now);
        self.drain(at);
        id
    }

    /// Asks, lets everything happen, and gives the answer.
    pub(crate) fn asked(&mut self, at: usize, ask: Ask) -> Result<Reply, ReferenceError> {
        let id = self.ask(at, ask);
        self.settle();
        self.answer(at, id).expect("it is answered")
    }

    pub(crate) fn answer(&self, at: usize, id: AskId) -> Option<Result<Reply, ReferenceError>> {
        self.ends[at].told.iter().find_map(|told| match told {
            Effect::Answer(of, answer) if *of == id => Some(answer.clone()),
            _ => None,
        })
    }

    pub(crate) fn export(&mut self, at: usize) -> Local {
        handle(self.asked(at, Ask::Export))
    }

    /// Calls, and gives the promise.
    pub(crate) fn call(
        &mut self,
        at: usize,
        target: Local,
        bytes: &[u8],
        refs: &[Local],
    ) -> LocalPromise {
        promise(self.asked(at, send(target, bytes, refs)))
    }

    /// An object of `at`, kept, with a ticket whose secret is this; and its token.
    pub(crate) fn share(&mut self, at: usize, secret: [u8; 32]) -> (Local, Token) {
        let local = self.export(at);
        let note = b"note".to_vec();
        let Ok(Reply::Kept(token)) = self.asked(at, Ask::Keep { local, note }) else {
            panic!("it is kept");
        };
        let digest = blake3::derive_key("overlane reference ticket", &secret);
        assert_eq!(self.asked(at, Ask::Admit(token, digest)), Ok(Reply::Done));
        (local, token)
    }

    /// What `at` gets for a secret of `from`'s.
    pub(crate) fn redeem(&mut self, at: usize, from: usize, secret: [u8; 32]) -> Outcome<Handle> {
        let did = self.ends[from].did;
        let promise = promise(self.asked(at, Ask::Redeem(did, secret)));
        self.settle();
        let outcome = self.became(at, promise).expect("the door answers");
        let now = self.now();
        self.ends[at].refs.let_go_of(promise.into(), 1, now);
        self.drain(at);
        self.settle();
        outcome
    }

    /// A reference of `from`'s at `at`.
    pub(crate) fn give(&mut self, from: usize, at: usize, secret: [u8; 32]) -> Local {
        match self.redeem(at, from, secret) {
            Outcome::Reference(handle) => handle.local,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn became(&self, at: usize, promise: LocalPromise) -> Option<Outcome<Handle>> {
        self.ends[at].told.iter().find_map(|told| match told {
            Effect::Became {
                promise: of,
                outcome,
            } if *of == promise => Some(outcome.clone()),
            _ => None,
        })
    }

    /// The last state that the node was told of.
    pub(crate) fn state(&self, at: usize, object: Local) -> Option<RefState> {
        self.ends[at].told.iter().rev().find_map(|told| match told {
            Effect::State { object: of, state } if Local::Object(*of) == object => {
                Some(state.clone())
            }
            _ => None,
        })
    }

    pub(crate) fn ends_told(&self, at: usize) -> Vec<&'static str> {
        let told = self.ends[at].told.iter();
        told.filter_map(|told| match told {
            Effect::Ended { code, .. } => Some(*code),
            _ => None,
        })
        .collect()
    }

    /// The node loses everything but its rows; a commit on its way becomes durable or not.
    pub(crate) fn crash(&mut self, at: usize, lands: bool) {
        if let (Some(commit), true) = (self.ends[at].committing.take(), lands) {
            self.ends[at].keep(&commit);
        }
        let far: Vec<_> = self
            .linked
            .iter()
            .filter(|(one, _)| *one == at)
            .copied()
            .collect();
        for &(_, far) in &far {
            self.unlink(at, far);
        }
        self.restart(at);
        for (_, far) in far {
            self.link(at, far);
        }
    }

    /// The node starts on what its rows are.
    pub(crate) fn restart(&mut self, at: usize) {
        let now = self.now();
        let limits = self.limits;
        let end = &mut self.ends[at];
        let rows: Vec<_> = end
            .rows
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        end.refs = References::open(end.did, limits, &rows, now).unwrap();
        end.committing = None;
        end.told.clear();
        end.calls.clear();
        self.drain(at);
    }

    /// One thing happens, as the seed decides; `false` when nothing can.
    pub(crate) fn step(&mut self) -> bool {
        let mut could: Vec<Step> = Vec::new();
        let messages = if self.reorders {
            self.under_way.len()
        } else {
            self.under_way.len().min(1)
        };
        could.extend((0..messages).map(Step::Message));
        for (at, end) in self.ends.iter().enumerate() {
            could.extend(end.committing.iter().map(|_| Step::Commit(at)));
            if end.echoes && !end.calls.is_empty() {
                could.push(Step::Answer(at));
            }
        }
        if could.is_empty() {
            return false;
        }
        let chosen = self.random.below(could.len() as u64);
        match could[usize::try_from(chosen).unwrap()] {
            Step::Message(index) => self.message(index),
            Step::Commit(at) => self.commit(at),
            Step::Answer(at) => {
                let call = self.ends[at].calls.remove(0);
                let outcome = Outcome::Data(Body::data(&call.body.bytes));
                self.ask(
                    at,
                    Ask::Answer {
                        call: call.id,
                        outcome,
                    },
                );
            }
        }
        true
    }

    /// Everything happens that can, without time passing.
    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    /// Everything happens, and time passes until this long was quiet.
    pub(crate) fn quiet(&mut self, for_ms: u64) {
        let until_ms = self.now_ms + for_ms;
        loop {
            self.settle();
            let due = self
                .ends
                .iter()
                .filter_map(|end| end.refs.poll_timeout())
                .min();
            match due {
                Some(due_ms) if due_ms <= until_ms => self.pass_to(due_ms.max(self.now_ms + 1)),
                _ => {
                    self.pass_to(until_ms);
                    return self.settle();
                }
            }
        }
    }

    pub(crate) fn pass_to(&mut self, at_ms: u64) {
        self.now_ms = at_ms;
        let now = self.now();
        for at in 0..self.ends.len() {
            self.ends[at].refs.handle_timeout(now);
            self.drain(at);
        }
    }

    /// A message comes to `to` as if `from` had just said it.
    pub(crate) fn inject(&mut self, from: usize, to: usize, body: &[u8]) {
        self.signed += 1;
        self.bring(from, to, self.signed, body);
    }

    fn bring(&mut self, from: usize, to: usize, sequence: u64, body: &[u8]) {
        let (now, from) = (self.now(), self.ends[from].did);
        self.ends[to].refs.handle_message(from, sequence, body, now);
        self.drain(to);
    }

    pub(crate) fn commit(&mut self, at: usize) {
        if let Some(commit) = self.ends[at].committing.take() {
            self.ends[at].keep(&commit);
            self.ends[at].refs.handle_committed(commit.id, Ok(()));
            self.drain(at);
        }
    }

    fn message(&mut self, index: usize) {
        let (from, to, sequence, body) = self.under_way.remove(index);
        if self.random.below(100) < self.loses {
            return;
        }
        if self.random.below(100) < self.repeats {
            self.under_way.push((from, to, sequence, body.clone()));
        }
        self.bring(from, to, sequence, &body);
    }

    pub(crate) fn drain(&mut self, at: usize) {
        while let Some(effect) = self.ends[at].refs.poll_effect() {
            match effect {
                Effect::Say { peer, data } => {
                    let to = self.ends.iter().position(|end| end.did == peer).unwrap();
                    if self.linked.contains(&(at, to)) {
                        let body = data.message().body().to_vec();
                        self.signed += 1;
                        self.under_way.push((at, to, self.signed, body));
                    }
                    self.ends[at].refs.handle_said(peer);
                }
                Effect::Call(call) => self.ends[at].take(*call),
                Effect::Taken => self.ends[at].taken += 1,
                Effect::Became { promise, outcome } => {
                    // Who waits for an outcome knows of the promise by then.
                    let told = &mut self.ends[at].told;
                    let promised = told.iter().any(|told| {
                        matches!(told, Effect::Answer(_, Ok(Reply::Promise(of))) if *of == promise)
                    });
                    assert!(promised, "an outcome before its promise");
                    told.push(Effect::Became { promise, outcome });
                }
                told => self.ends[at].told.push(told),
            }
        }
        if self.ends[at].committing.is_none() {
            self.ends[at].committing = self.ends[at].refs.poll_commit();
        }
    }
}

#[derive(Clone, Copy)]
enum Step {
    Message(usize),
    Commit(usize),
    Answer(usize),
}

impl End {
    fn keep(&mut self, commit: &Commit) {
        for change in &commit.changes {
            match &change.value {
                Some(value) => self.rows.insert(change.key.clone(), value.clone()),
                None => self.rows.remove(&change.key),
            };
        }
    }

    fn take(&mut self, call: Call) {
        let bytes = call.body.bytes.to_vec();
        match self.given.get(&call.id) {
            Some(before) => {
                assert!(call.again, "a call is given twice in one life");
                assert_eq!(before, &bytes, "one name, two calls");
            }
            None => {
                self.order.push(call.id);
                self.given.insert(call.id, bytes);
            }
        }
        self.calls.push(call);
    }

    /// What every node is in when nothing happens: nothing waits anywhere.
    pub(crate) fn assert_at_rest(&self) {
        assert!(self.refs.is_settled());
        for far in self.refs.fars() {
            let link = far.link.expect("an epoch lasts");
            assert_eq!(
                (link.outbox, link.pending, link.tombstones, link.due),
                (0, 0, 0, 0),
                "{far:?}"
            );
        }
    }
}

pub(crate) fn send(target: Local, bytes: &[u8], refs: &[Local]) -> Ask {
    Ask::Send {
        target,
        bytes: bytes.to_vec(),
        refs: refs.to_vec(),
    }
}

pub(crate) fn handle(answer: Result<Reply, ReferenceError>) -> Local {
    match answer {
        Ok(Reply::Handle(handle)) => handle.local,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn promise(answer: Result<Reply, ReferenceError>) -> LocalPromise {
    match answer {
        Ok(Reply::Promise(promise)) => promise,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn object(local: Local) -> LocalObject {
    match local {
        Local::Object(object) => object,
        Local::Promise(_) => panic!("a promise"),
    }
}

/// Why it is broken.
pub(crate) fn broken(outcome: &Outcome<Handle>) -> Option<(u32, String)> {
    match outcome {
        Outcome::Broken { reason, error } => {
            let text = String::from_utf8_lossy(error).into_owned();
            Some((reason.0, text))
        }
        _ => None,
    }
}

pub(crate) fn said(state: Option<RefState>) -> Option<(u32, String)> {
    match state {
        Some(RefState::Revoked(TakenBack { reason, text, .. }))
        | Some(RefState::Broken(TakenBack { reason, text, .. })) => Some((reason.0, text)),
        _ => None,
    }
}
