//! Nodes, and frames between them that a test delivers one by one.

use overlane_relay::refs::table::{
    Answer, Counts, Event, LinkId, LinkView, Local, LocalObject, LocalPromise, Mutant, Name, Step,
    Tables,
};
use overlane_relay::refs::wire::{
    Body, Epoch, Frame, Hardness, Numbered, Op, Outcome, Reason, Seq,
};
use overlane_relay::refs::{Limits, LinkError, SendError};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub(crate) const WHY: Reason = Reason(300);

pub(crate) struct Node {
    pub(crate) tables: Tables,
    pub(crate) door: LocalObject,
    pub(crate) doors: BTreeMap<usize, LocalObject>,
    pub(crate) events: Vec<Event>,
    pub(crate) counts: Counts,
}

pub(crate) struct Mesh {
    pub(crate) nodes: Vec<Node>,
    pub(crate) under_way: BTreeMap<(usize, usize), VecDeque<Arc<[u8]>>>,
    pub(crate) now_ms: u64,
}

pub(crate) fn link(peer: usize) -> LinkId {
    LinkId(peer as u32)
}

/// Two nodes, linked.
pub(crate) fn pair() -> Mesh {
    mesh(2, &[(0, 1)], Limits::default())
}

pub(crate) fn mesh(nodes: usize, links: &[(usize, usize)], limits: Limits) -> Mesh {
    broken_mesh(nodes, links, limits, &[])
}

pub(crate) fn broken_mesh(
    nodes: usize,
    links: &[(usize, usize)],
    limits: Limits,
    broken: &[Mutant],
) -> Mesh {
    let node = |_| {
        let mut tables = Tables::new(limits).broken_by(broken);
        let door = tables.export();
        Node {
            tables,
            door,
            doors: BTreeMap::new(),
            events: Vec::new(),
            counts: Counts::default(),
        }
    };
    let mut mesh = Mesh {
        nodes: (0..nodes).map(node).collect(),
        under_way: BTreeMap::new(),
        now_ms: 0,
    };
    for &(one, other) in links {
        for (at, peer) in [(one, other), (other, one)] {
            let node = &mut mesh.nodes[at];
            let door = node.door;
            let theirs = node
                .tables
                .open_link(link(peer), Epoch(1), limits, door, 0)
                .unwrap();
            node.doors.insert(peer, theirs);
            mesh.under_way.insert((at, peer), VecDeque::new());
        }
    }
    mesh
}

impl Mesh {
    pub(crate) fn take(&mut self, at: usize, step: Step) {
        for transmit in step.transmits {
            let channel = (at, transmit.link.0 as usize);
            self.under_way
                .get_mut(&channel)
                .unwrap()
                .push_back(transmit.bytes);
        }
        let node = &mut self.nodes[at];
        node.events.extend(step.events);
        node.counts.drops_executed += step.counts.drops_executed;
        node.counts.drops_uninformed += step.counts.drops_uninformed;
        node.counts.resurrections += step.counts.resurrections;
        node.counts.dead_letters += step.counts.dead_letters;
        node.counts.undeliverable += step.counts.undeliverable;
        node.counts.duplicates += step.counts.duplicates;
        node.counts.soft_violations += step.counts.soft_violations;
        node.counts.gaps += step.counts.gaps;
        node.counts.stale += step.counts.stale;
        node.counts.hurried += step.counts.hurried;
        node.tables.audit().unwrap();
    }

    pub(crate) fn door(&self, at: usize, peer: usize) -> Local {
        self.nodes[at].doors[&peer].into()
    }

    pub(crate) fn export(&mut self, at: usize) -> LocalObject {
        self.nodes[at].tables.export()
    }

    pub(crate) fn promise(&mut self, at: usize) -> LocalPromise {
        self.nodes[at].tables.promise_new()
    }

    pub(crate) fn try_send(
        &mut self,
        at: usize,
        target: impl Into<Local>,
        body: Body<Local>,
        answer: Answer,
    ) -> Result<Option<LocalPromise>, SendError> {
        let now_ms = self.now_ms;
        let tables = &mut self.nodes[at].tables;
        let before = tables.clone();
        match tables.send(target.into(), body, answer, now_ms) {
            Ok((result, step)) => {
                self.take(at, step);
                Ok(result)
            }
            Err(error) => {
                assert!(*tables == before, "a refused message changes nothing");
                Err(error)
            }
        }
    }

    pub(crate) fn send(&mut self, at: usize, target: impl Into<Local>, body: Body<Local>) {
        self.try_send(at, target, body, Answer::Unwanted).unwrap();
    }

    /// Says nothing of interest to a peer, which acknowledges what came from it.
    pub(crate) fn say(&mut self, at: usize, peer: usize) {
        self.send(at, self.door(at, peer), Body::data(b"hello"));
    }

    pub(crate) fn ask(
        &mut self,
        at: usize,
        target: impl Into<Local>,
        bytes: &[u8],
    ) -> LocalPromise {
        let asked = self.try_send(at, target, Body::data(bytes), Answer::New);
        asked.unwrap().unwrap()
    }

    pub(crate) fn mention(&mut self, at: usize, peer: usize, local: impl Into<Local>) {
        self.send(at, self.door(at, peer), Body::of([local.into()]));
    }

    /// Mentions a reference to a peer that then holds it, and forgets how that went.
    pub(crate) fn give(&mut self, at: usize, peer: usize, local: impl Into<Local>) -> Local {
        self.mention(at, peer, local);
        self.deliver(at, peer);
        let given = self.handed(peer);
        self.nodes[peer].events.clear();
        given[0]
    }

    /// The references in the messages a node got.
    pub(crate) fn handed(&self, at: usize) -> Vec<Local> {
        let bodies = self.nodes[at]
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Deliver { body, .. } => Some(body),
                _ => None,
            });
        bodies.flat_map(|body| body.refs().copied()).collect()
    }

    pub(crate) fn release(&mut self, at: usize, local: impl Into<Local>) {
        let step = self.nodes[at]
            .tables
            .release(local.into(), self.now_ms)
            .unwrap();
        self.take(at, step);
    }

    pub(crate) fn resolve(&mut self, at: usize, promise: LocalPromise, outcome: Outcome<Local>) {
        let step = self.nodes[at]
            .tables
            .resolve(promise, outcome, self.now_ms)
            .unwrap();
        self.take(at, step);
    }

    pub(crate) fn revoke(&mut self, at: usize, object: LocalObject, hardness: Hardness) {
        let step = self.nodes[at]
            .tables
            .revoke(object, hardness, WHY, b"plan expired", self.now_ms)
            .unwrap();
        self.take(at, step);
    }

    /// The next frame on a way, decoded, which stays there.
    pub(crate) fn next(&self, from: usize, to: usize) -> Frame {
        Frame::from_bytes(self.under_way[&(from, to)].front().expect("a frame")).unwrap()
    }

    /// The operations of the next frame on a way.
    pub(crate) fn next_ops(&self, from: usize, to: usize) -> Vec<Op> {
        match self.next(from, to) {
            Frame::Numbered(frame) => frame.ops,
            other => panic!("not numbered: {other:?}"),
        }
    }

    /// The next frame arrives.
    pub(crate) fn deliver(&mut self, from: usize, to: usize) {
        let bytes = self.under_way.get_mut(&(from, to)).unwrap().pop_front();
        self.arrive(from, to, &bytes.expect("a frame is under way"));
    }

    pub(crate) fn arrive(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let step = self.nodes[to]
            .tables
            .handle_frame(link(from), bytes, self.now_ms);
        self.take(to, step);
    }

    pub(crate) fn deliver_all(&mut self) {
        let ways: Vec<_> = self.under_way.keys().copied().collect();
        while ways.iter().any(|way| !self.under_way[way].is_empty()) {
            for &(from, to) in &ways {
                if !self.under_way[&(from, to)].is_empty() {
                    self.deliver(from, to);
                }
            }
        }
    }

    /// Everything arrives and is acknowledged; nothing may wait after that.
    pub(crate) fn rest(&mut self) {
        for _ in 0..4 {
            self.deliver_all();
            self.now_ms += 5_000;
            for at in 0..self.nodes.len() {
                let step = self.nodes[at].tables.handle_timeout(self.now_ms);
                self.take(at, step);
            }
        }
        self.deliver_all();
        for &(at, peer) in self.under_way.keys() {
            if let Some(view) = self.nodes[at].tables.link(link(peer)) {
                let left = view.pending + view.tombstones + view.outbox + view.due;
                assert_eq!(left, 0, "node {at} to {peer}: {view:?}");
            }
        }
    }

    /// A frame of operations that the peer's tables would not send, in its turn.
    pub(crate) fn forge(&mut self, from: usize, to: usize, ack_delta: u64, ops: Vec<Op>) {
        let view = self.view(to, from);
        let frame = Frame::Numbered(Numbered {
            epoch: view.epoch,
            seq: Some(Seq(view.recv.0 + 1)),
            ack_delta,
            ops,
        });
        self.arrive(from, to, &frame.to_bytes());
    }

    pub(crate) fn view(&self, at: usize, peer: usize) -> LinkView {
        self.nodes[at]
            .tables
            .link(link(peer))
            .expect("the link has an epoch")
    }

    /// The name a reference has on a link.
    pub(crate) fn name(&self, at: usize, peer: usize, local: impl Into<Local>) -> Option<Name> {
        let local = local.into();
        let mut names = self.nodes[at].tables.names(link(peer));
        names.find(|name| name.local == local)
    }

    /// The bytes of the messages that an object got, in order.
    pub(crate) fn got(&self, at: usize, object: LocalObject) -> Vec<Vec<u8>> {
        let messages = self.nodes[at]
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Deliver { target, body, .. } if *target == object => {
                    Some(body.bytes.to_vec())
                }
                _ => None,
            });
        messages.collect()
    }

    /// What the application was told that a promise became.
    pub(crate) fn told(&self, at: usize, promise: LocalPromise) -> Vec<Outcome<Local>> {
        let told = self.nodes[at]
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Resolved {
                    promise: told,
                    outcome,
                } if *told == promise => Some(outcome.clone()),
                _ => None,
            });
        told.collect()
    }

    /// Why the epoch of a link ended, if it did.
    pub(crate) fn ended(&self, at: usize) -> Option<LinkError> {
        self.nodes[at].events.iter().find_map(|event| match event {
            Event::Ended { cause, .. } => Some(cause.clone()),
            _ => None,
        })
    }
}

/// What an answer to something that was taken back is.
pub(crate) fn revoked() -> Outcome<Local> {
    Outcome::Broken {
        reason: WHY,
        error: b"plan expired"[..].into(),
    }
}

pub(crate) fn object(local: Local) -> LocalObject {
    match local {
        Local::Object(object) => object,
        Local::Promise(_) => panic!("a promise"),
    }
}

pub(crate) fn promise(local: Local) -> LocalPromise {
    match local {
        Local::Promise(promise) => promise,
        Local::Object(_) => panic!("an object"),
    }
}
