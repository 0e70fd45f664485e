//! Nodes with the production tables, and the channels between them.
//!
//! A channel keeps the order and may lose frames, as the application transactions do that carry them.

use overlane_core::{Coded, Fault};
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{
    Event, LinkId, Local, LocalObject, Mutant, ObjectState, Source, Step, Tables,
};
use overlane_relay::refs::wire::{Body, Epoch, Side, WireId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// When acknowledgements that wait for company go alone.
const ACKS_MS: u64 = 50;

/// When a node asks where its peer is.
const PROBE_MS: u64 = 5_000;

/// One node and what its application does with what it is told: it keeps one handle of each
/// reference it is given, and writes down the numbers that its objects are sent.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Node {
    pub tables: Tables,
    pub door: LocalObject,
    pub doors: BTreeMap<usize, LocalObject>,
    pub held: BTreeSet<Local>,
    /// For each object and each series of numbers, the last that came.
    pub got: BTreeMap<(LocalObject, u8), u8>,
    /// Promises this application is to resolve.
    pub deciding: BTreeSet<overlane_relay::refs::table::LocalPromise>,
    pub budget: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub nodes: Vec<Node>,
    pub channels: BTreeMap<(usize, usize), VecDeque<Arc<[u8]>>>,
    /// Numbers sent, come, and refused without an answer.
    pub sent: u8,
    pub came: u8,
    pub refused: u8,
    /// Faults that may still happen.
    pub faults: u8,
    /// Messages that a bound refused, in a world whose limits are meant to be reached.
    pub full: u8,
    tight: bool,
    /// The time, which stands still until the world is to come to rest.
    now_ms: u64,
    /// On the way to rest, where every state was audited when it was reached by single steps.
    audited: bool,
}

fn link_to(peer: usize) -> LinkId {
    LinkId(peer as u32)
}

/// A message of one number of one series.
pub fn numbered(series: u8, number: u8) -> Body<Local> {
    Body::data(&[series, number])
}

impl World {
    /// Nodes with budgets, linked as said, each end holding the other's door.
    pub fn new(
        budgets: &[u8],
        links: &[(usize, usize)],
        limits: Limits,
        broken: &[Mutant],
    ) -> Self {
        let mut nodes: Vec<_> = budgets
            .iter()
            .map(|&budget| {
                let mut tables = Tables::new(limits).broken_by(broken);
                let door = tables.export();
                Node {
                    tables,
                    door,
                    doors: BTreeMap::new(),
                    held: BTreeSet::new(),
                    got: BTreeMap::new(),
                    deciding: BTreeSet::new(),
                    budget,
                }
            })
            .collect();
        let mut channels = BTreeMap::new();
        for &(one, other) in links {
            for (at, peer) in [(one, other), (other, one)] {
                let node = &mut nodes[at];
                let theirs = node
                    .tables
                    .open_link(link_to(peer), Epoch(1), limits, node.door, 0)
                    .unwrap();
                node.doors.insert(peer, theirs);
                channels.insert((at, peer), VecDeque::new());
            }
        }
        Self {
            nodes,
            channels,
            sent: 0,
            came: 0,
            refused: 0,
            faults: 0,
            full: 0,
            tight: limits != Limits::default(),
            now_ms: 0,
            audited: false,
        }
    }

    /// Sends a body to the door of `peer`.
    pub fn send_to_door(
        &mut self,
        at: usize,
        peer: usize,
        body: Body<Local>,
    ) -> Result<(), String> {
        let door = self.nodes[at].doors[&peer];
        self.send(at, door.into(), body)
    }

    pub fn send(&mut self, at: usize, target: Local, body: Body<Local>) -> Result<(), String> {
        use overlane_relay::refs::table::Answer;
        let tables = &mut self.nodes[at].tables;
        let (_, step) = match tables.send(target, body, Answer::Unwanted, 0) {
            Ok(sent) => sent,
            Err(error) if self.tight && error.fault() == Fault::RefusedByBound => {
                self.full += 1;
                return Ok(());
            }
            Err(error) => return Err(format!("node {at} cannot send: {error}")),
        };
        self.take(at, step)
    }

    /// The next message of a series, counted.
    pub fn send_number(&mut self, at: usize, target: Local, series: u8) -> Result<(), String> {
        self.sent += 1;
        let number = self.sent;
        let full = self.full;
        self.send(at, target, numbered(series, number))?;
        if self.full > full {
            self.sent -= 1;
        }
        Ok(())
    }

    /// The application of `at` lets go of a reference.
    pub fn release(&mut self, at: usize, local: Local) -> Result<(), String> {
        self.nodes[at].held.remove(&local);
        let step = self.nodes[at]
            .tables
            .release(local, 0)
            .map_err(|error| format!("node {at} cannot release: {error}"))?;
        self.take(at, step)
    }

    /// What a step did: frames go into channels, the application looks at its events.
    pub fn take(&mut self, at: usize, step: Step) -> Result<(), String> {
        if step.counts.soft_violations > 0 {
            return Err(format!(
                "I6 node {at}: a message to what the peer knew takes none"
            ));
        }
        if step.counts.undeliverable > 0 && !self.tight {
            return Err(format!("L3 node {at}: a message was not delivered"));
        }
        self.refused += step.counts.dead_letters as u8;
        for transmit in step.transmits {
            let channel = (at, transmit.link.0 as usize);
            if let Some(channel) = self.channels.get_mut(&channel) {
                channel.push_back(transmit.bytes);
            }
        }
        for event in step.events {
            self.event(at, event)?;
        }
        if self.audited {
            return Ok(());
        }
        let audit = self.nodes[at].tables.audit();
        audit.map_err(|error| format!("node {at}: {error}"))
    }

    fn event(&mut self, at: usize, event: Event) -> Result<(), String> {
        match event {
            Event::Deliver {
                target,
                body,
                from,
                result,
            } => {
                self.nodes[at].deciding.extend(result);
                self.write_down(at, target, from, &body)?;
                self.keep(at, body.refs().copied().collect())
            }
            Event::Resolved { outcome, .. } => self.keep(at, outcome.refs().copied().collect()),
            Event::Revoked { object, .. } => {
                let gone = matches!(
                    self.nodes[at].tables.object(object),
                    Some(ObjectState::Broken(_))
                );
                if gone && self.nodes[at].held.contains(&object.into()) {
                    self.release(at, object.into())?;
                }
                Ok(())
            }
            Event::Unreferenced(_) | Event::Unwanted(_) => Ok(()),
            Event::Ended { cause, .. } => Err(format!(
                "I2 node {at} ended the epoch: {} ({cause})",
                cause.code()
            )),
        }
    }

    /// I14: the numbers of a series come to an object in the order they were sent.
    fn write_down(
        &mut self,
        at: usize,
        target: LocalObject,
        from: Source,
        body: &Body<Local>,
    ) -> Result<(), String> {
        let [series, number] = *body.bytes else {
            return Ok(());
        };
        self.came += 1;
        let last = self.nodes[at].got.insert((target, series), number);
        if last.is_some_and(|last| last >= number) {
            return Err(format!(
                "I14 node {at}: {number} of series {series} came after {last:?}, from {from:?}"
            ));
        }
        Ok(())
    }

    /// One handle of each reference is kept. Doors have theirs anyway.
    fn keep(&mut self, at: usize, locals: Vec<Local>) -> Result<(), String> {
        for local in locals {
            let node = &mut self.nodes[at];
            let own = node.doors.values().any(|&door| local == door.into());
            let first = !own
                && !node.held.contains(&local)
                && !matches!(local, Local::Object(object) if self.nodes[at].tables.object(object)
                    .is_some_and(|state| matches!(state, ObjectState::Broken(_))))
                && self.nodes[at].tables.handles(local) == 1;
            if first {
                self.nodes[at].held.insert(local);
            } else {
                let step = self.nodes[at]
                    .tables
                    .release(local, 0)
                    .map_err(|error| format!("node {at}: {error}"))?;
                self.take(at, step)?;
            }
        }
        Ok(())
    }

    /// The next frame of a channel arrives.
    pub fn arrive(&mut self, from: usize, to: usize) -> Result<(), String> {
        let Some(bytes) = self
            .channels
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front)
        else {
            return Ok(());
        };
        let tables = &mut self.nodes[to].tables;
        let step = tables.handle_frame(link_to(from), &bytes, self.now_ms);
        self.take(to, step)
    }

    /// The next frame of a channel is lost.
    pub fn lose(&mut self, from: usize, to: usize) {
        self.channels.get_mut(&(from, to)).unwrap().pop_front();
    }

    /// The connection breaks, everything under way is lost, and it is made again. So is a node that
    /// crashed after making a step durable and before sending what came of it.
    pub fn reconnect(&mut self, one: usize, other: usize) -> Result<(), String> {
        for (at, peer) in [(one, other), (other, one)] {
            self.channels.get_mut(&(at, peer)).unwrap().clear();
        }
        for (at, peer) in [(one, other), (other, one)] {
            let step = self.nodes[at].tables.handle_connected(link_to(peer), 0);
            self.take(at, step)?;
        }
        Ok(())
    }

    /// Acknowledgements that wait for company go alone.
    pub fn timer(&mut self, at: usize, now_ms: u64) -> Result<(), String> {
        let step = self.nodes[at].tables.handle_timeout(now_ms);
        self.take(at, step)
    }

    /// Whether a node has an acknowledgement to give.
    pub fn owes_ack(&self, at: usize) -> bool {
        self.nodes[at]
            .tables
            .poll_timeout()
            .is_some_and(|at_ms| at_ms <= ACKS_MS)
    }

    pub fn acks(&mut self, at: usize) -> Result<(), String> {
        self.timer(at, ACKS_MS)
    }

    pub fn is_quiet(&self) -> bool {
        self.channels.values().all(VecDeque::is_empty)
    }

    /// Lets everything under way arrive and every timer fire until nothing more happens; then nothing
    /// may be left that waits (I3, L1, L2, L4), and the two ends of each link must agree (I5).
    pub fn comes_to_rest(&self) -> Result<Self, String> {
        let mut world = self.clone();
        world.audited = true;
        for round in 1..=8 {
            world.deliver_all()?;
            for at in 0..world.nodes.len() {
                world.timer(at, world.now_ms + ACKS_MS)?;
            }
            world.deliver_all()?;
            if world.at_rest() {
                world.agree()?;
                world.audited = false;
                return Ok(world);
            }
            world.now_ms = PROBE_MS * round;
            for at in 0..world.nodes.len() {
                world.timer(at, world.now_ms)?;
            }
        }
        let mut left = String::new();
        for &(at, peer) in world.channels.keys() {
            let view = world.nodes[at].tables.link(link_to(peer));
            left += &format!(" node {at}: {view:?}");
        }
        Err(format!("I3 something is left at rest:{left}"))
    }

    fn deliver_all(&mut self) -> Result<(), String> {
        while !self.is_quiet() {
            let channels: Vec<_> = self.channels.keys().copied().collect();
            for (from, to) in channels {
                self.arrive(from, to)?;
            }
        }
        Ok(())
    }

    fn at_rest(&self) -> bool {
        self.channels.keys().all(|&(at, peer)| {
            let view = self.nodes[at].tables.link(link_to(peer)).unwrap();
            view.pending + view.tombstones + view.outbox + view.due == 0
        })
    }

    fn agree(&self) -> Result<(), String> {
        for &(at, peer) in self.channels.keys().filter(|(at, peer)| at < peer) {
            let ours: BTreeSet<_> = self.nodes[at]
                .tables
                .names(link_to(peer))
                .map(|name| (name.id, name.ours, name.revoked))
                .collect();
            let theirs: BTreeSet<_> = self.nodes[peer]
                .tables
                .names(link_to(at))
                .map(|name| (flipped(name.id), !name.ours, name.revoked))
                .collect();
            if ours != theirs {
                return Err(format!("I5 nodes {at} and {peer}: {ours:?}, {theirs:?}"));
            }
        }
        Ok(())
    }

    /// I1: what a node holds of another's, that one has a name for.
    pub fn no_dangling_import(&self) -> Result<(), String> {
        for &(at, peer) in self.channels.keys() {
            let theirs: BTreeSet<_> = self.nodes[peer]
                .tables
                .names(link_to(at))
                .map(|name| flipped(name.id))
                .collect();
            for name in self.nodes[at].tables.names(link_to(peer)) {
                let import = matches!(name.local, Local::Object(_)) && !name.ours;
                if import && !theirs.contains(&name.id) {
                    return Err(format!("I1 node {at} holds {} of node {peer}", name.id));
                }
            }
        }
        Ok(())
    }
}

fn flipped(id: WireId) -> WireId {
    let side = match id.side {
        Side::Sender => Side::Receiver,
        Side::Receiver => Side::Sender,
    };
    WireId { side, ..id }
}
