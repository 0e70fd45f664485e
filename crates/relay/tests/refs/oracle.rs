//! Random conversations of several nodes, beside an oracle that knows who holds what.
//!
//! The oracle has no frames, no acknowledgements and no tables: it knows each object's owner, and for
//! each way on which a reference was passed on, how many handles the application at its end has. An
//! object that came from its owner over two others is another reference than one that came at once,
//! as nobody but the nodes on the way knows that both are one; passed back the way it came, it is what
//! it was.
//!
//! Laws: a handle of what is alive is the same each time, and no name ever means something else. A
//! message reaches the object it was sent to once, in the order of its sender and reference, unless
//! the object was taken back; then nobody who was told reaches it. At rest each node has a name for
//! exactly what an application still holds, and after everything was let go of, for nothing.

use crate::crossing_faults::reconnect;
use crate::mesh::{Mesh, WHY, broken_mesh, object};
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{Answer, Event, Local, LocalObject, Mutant, ObjectState};
use overlane_relay::refs::wire::{Body, Hardness};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;

const NODES: usize = 3;
const LINKS: [(usize, usize); 3] = [(0, 1), (1, 2), (0, 2)];
const WAY_MAX: usize = 5;

/// An object by its number, and the nodes over which a reference to it came, its owner first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    object: usize,
    nodes: Vec<usize>,
}

impl Way {
    fn end(&self) -> usize {
        *self.nodes.last().unwrap()
    }

    /// What the node at the other end of a link gets when this is mentioned to it.
    fn passed_to(&self, peer: usize) -> Self {
        let mut nodes = self.nodes.clone();
        let came_from = nodes.len().checked_sub(2).map(|at| nodes[at]);
        if came_from == Some(peer) {
            nodes.pop();
        } else {
            nodes.push(peer);
        }
        let object = self.object;
        Self { object, nodes }
    }
}

#[derive(Debug, Default)]
struct Truth {
    owners: Vec<(usize, LocalObject)>,
    /// Handles of the application at the end of each way.
    handles: BTreeMap<Way, u32>,
    /// What a node's application knows each way as, for as long as it has a handle.
    locals: BTreeMap<Way, LocalObject>,
    /// What each name of a node has ever meant.
    meanings: BTreeMap<(usize, LocalObject), Way>,
    taken_back: BTreeMap<usize, Hardness>,
    /// Ways whose ends were told so.
    told: Vec<Way>,
    /// What is said by number: a mention of this, or a call through this.
    said: Vec<Said>,
    /// The numbers of the calls that each object got, in order.
    got: BTreeMap<usize, Vec<u32>>,
}

#[derive(Debug, Clone)]
struct Said {
    way: Way,
    /// To whom it is mentioned; nobody: it is called.
    to: Option<usize>,
    /// A call by who knew that the object was taken back.
    knowing: bool,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Export(usize),
    Mention(usize, usize, usize),
    Call(usize, usize),
    Release(usize, usize),
    Revoke(usize, bool),
    Arrive(usize),
    Reconnect(usize),
    Time,
}

fn act() -> impl Strategy<Value = Act> {
    let (node, one) = (0..NODES, 0_usize..64);
    prop_oneof![
        1 => node.clone().prop_map(Act::Export),
        5 => (node.clone(), node.clone(), one.clone()).prop_map(|(at, to, of)| Act::Mention(at, to, of)),
        2 => (node.clone(), one.clone()).prop_map(|(at, of)| Act::Call(at, of)),
        4 => (node, one.clone()).prop_map(|(at, of)| Act::Release(at, of)),
        1 => (one.clone(), any::<bool>()).prop_map(|(of, hard)| Act::Revoke(of, hard)),
        9 => one.clone().prop_map(Act::Arrive),
        1 => one.prop_map(Act::Reconnect),
        1 => Just(Act::Time),
    ]
}

struct Run {
    mesh: Mesh,
    truth: Truth,
    /// How far each node's events were looked at.
    seen: [usize; NODES],
}

impl Run {
    fn new(broken: &[Mutant]) -> Self {
        let mut run = Self {
            mesh: broken_mesh(NODES, &LINKS, Limits::default(), broken),
            truth: Truth::default(),
            seen: [0; NODES],
        };
        for at in 0..NODES {
            run.export(at);
        }
        run
    }

    fn export(&mut self, at: usize) {
        let made = self.mesh.export(at);
        let truth = &mut self.truth;
        let way = Way {
            object: truth.owners.len(),
            nodes: vec![at],
        };
        truth.owners.push((at, made));
        truth.handles.insert(way.clone(), 1);
        truth.locals.insert(way.clone(), made);
        truth.meanings.insert((at, made), way);
    }

    /// One of the references that a node's application holds.
    fn held(&self, at: usize, of: usize) -> Option<(Way, LocalObject)> {
        let held = self.truth.locals.iter();
        let held: Vec<_> = held.filter(|(way, _)| way.end() == at).collect();
        let (way, local) = held.get(of.checked_rem(held.len())?)?;
        Some(((*way).clone(), **local))
    }

    fn say(&mut self, at: usize, target: Local, refs: Option<Local>, said: Said) {
        let number = u32::try_from(self.truth.said.len()).unwrap();
        let mut body = Body::of(refs);
        body.bytes = number.to_be_bytes()[..].into();
        // A full window is an answer of its own: nothing was said.
        if self
            .mesh
            .try_send(at, target, body, Answer::Unwanted)
            .is_ok()
        {
            self.truth.said.push(said);
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Export(at) => self.export(at),
            Act::Mention(at, to, of) => {
                let Some((way, local)) = self.held(at, of).filter(|_| at != to) else {
                    return;
                };
                if way.nodes.len() < WAY_MAX {
                    let door = self.mesh.door(at, to);
                    let to = Some(to);
                    let knowing = false;
                    self.say(at, door, Some(local.into()), Said { way, to, knowing });
                }
            }
            Act::Call(at, of) => {
                if let Some((way, local)) = self.held(at, of) {
                    let known_here = way.nodes.len() == 1 && self.is_taken_back(&way);
                    let knowing = known_here || self.truth.told.contains(&way);
                    let to = None;
                    self.say(at, local.into(), None, Said { way, to, knowing });
                }
            }
            Act::Release(at, of) => {
                if let Some((way, local)) = self.held(at, of) {
                    self.release(&way, local);
                }
            }
            Act::Revoke(of, hard) => {
                let number = of % self.truth.owners.len();
                let (at, made) = self.truth.owners[number];
                let hardness = if hard { Hardness::Hard } else { Hardness::Soft };
                let now_ms = self.mesh.now_ms;
                let tables = &mut self.mesh.nodes[at].tables;
                if let Ok(step) = tables.revoke(made, hardness, WHY, b"", now_ms) {
                    self.mesh.take(at, step);
                    self.truth.taken_back.insert(number, hardness);
                }
            }
            Act::Arrive(which) => {
                let ways = self.mesh.under_way.iter();
                let ways: Vec<_> = ways.filter(|(_, frames)| !frames.is_empty()).collect();
                if let Some(at) = which.checked_rem(ways.len()) {
                    let (from, to) = *ways[at].0;
                    self.mesh.deliver(from, to);
                }
            }
            Act::Reconnect(which) => {
                let (one, other) = LINKS[which % LINKS.len()];
                reconnect(&mut self.mesh, one, other);
            }
            Act::Time => {
                self.mesh.now_ms += 1_000;
                for at in 0..NODES {
                    let now_ms = self.mesh.now_ms;
                    let step = self.mesh.nodes[at].tables.handle_timeout(now_ms);
                    self.mesh.take(at, step);
                }
            }
        }
        self.look();
    }

    fn is_taken_back(&self, way: &Way) -> bool {
        self.truth.taken_back.contains_key(&way.object)
    }

    fn release(&mut self, way: &Way, local: LocalObject) {
        self.mesh.release(way.end(), local);
        let handles = self.truth.handles.get_mut(way).unwrap();
        *handles -= 1;
        if *handles == 0 {
            self.truth.handles.remove(way);
            self.truth.locals.remove(way);
        }
    }

    /// What the applications were told since.
    fn look(&mut self) {
        for at in 0..NODES {
            let events = self.mesh.nodes[at].events.clone();
            let from = std::mem::replace(&mut self.seen[at], events.len());
            for event in &events[from..] {
                match event {
                    Event::Deliver { target, body, .. } => self.delivered(at, *target, body),
                    Event::Revoked { object, .. } => {
                        let way = &self.truth.meanings[&(at, *object)];
                        assert!(self.is_taken_back(way), "{way:?} was not taken back");
                        self.truth.told.push(way.clone());
                    }
                    Event::Unreferenced(_) | Event::Unwanted(_) => {}
                    other => panic!("node {at} is told {other:?}"),
                }
            }
        }
        self.compare();
    }

    fn delivered(&mut self, at: usize, target: LocalObject, body: &Body<Local>) {
        let number = u32::from_be_bytes(body.bytes[..].try_into().unwrap());
        let said = self.truth.said[number as usize].clone();
        let Some(peer) = said.to else {
            let (owner, made) = self.truth.owners[said.way.object];
            assert_eq!((at, target), (owner, made), "{said:?} reached another");
            assert!(!said.knowing, "{said:?} reached what was taken back");
            self.truth
                .got
                .entry(said.way.object)
                .or_default()
                .push(number);
            return;
        };
        assert_eq!((at, target), (peer, self.mesh.nodes[at].door), "{said:?}");
        let Some(&arrived) = body.refs().next() else {
            let hardness = self.truth.taken_back.get(&said.way.object);
            assert_eq!(
                hardness,
                Some(&Hardness::Hard),
                "{said:?} arrived without it"
            );
            return;
        };
        let (arrived, way) = (object(arrived), said.way.passed_to(peer));
        if let Some(&known) = self.truth.locals.get(&way) {
            assert_eq!(arrived, known, "{way:?} is another than before");
        }
        let meaning = self
            .truth
            .meanings
            .entry((at, arrived))
            .or_insert(way.clone());
        assert_eq!(*meaning, way, "a name of node {at} means something else");
        *self.truth.handles.entry(way.clone()).or_default() += 1;
        self.truth.locals.insert(way, arrived);
    }

    /// Whatever is under way: the tables count the handles as the oracle does, and what somebody
    /// holds is known to its owner.
    fn compare(&self) {
        for (way, &handles) in &self.truth.handles {
            let tables = &self.mesh.nodes[way.end()].tables;
            let local = self.truth.locals[way];
            assert_eq!(tables.handles(local.into()), handles, "handles of {way:?}");
            let (owner, made) = self.truth.owners[way.object];
            let state = self.mesh.nodes[owner].tables.object(made);
            let taken_back = self.truth.taken_back.get(&way.object);
            if taken_back != Some(&Hardness::Hard) {
                assert!(state.is_some(), "{way:?} is held, and its owner forgot it");
            }
            if self.truth.told.contains(way) {
                assert_ne!(tables.object(local), Some(ObjectState::Live), "{way:?}");
            }
        }
    }

    fn rest(&mut self) {
        self.mesh.rest();
        self.look();
    }

    /// Nothing is under way: each link names exactly what an application behind it holds.
    fn judge(&self) {
        let mut named = BTreeMap::<(usize, usize), usize>::new();
        let mut alive: Vec<&[usize]> = Vec::new();
        let ways: Vec<Way> = self.truth.handles.keys().cloned().collect();
        let mut links: Vec<Way> = Vec::new();
        for way in &ways {
            if self.truth.taken_back.get(&way.object) == Some(&Hardness::Hard) {
                continue;
            }
            for length in 2..=way.nodes.len() {
                links.push(Way {
                    object: way.object,
                    nodes: way.nodes[..length].to_vec(),
                });
            }
        }
        links.sort();
        links.dedup();
        for way in &links {
            let [.., from, to] = way.nodes[..] else {
                continue;
            };
            *named.entry((from, to)).or_default() += 1;
            alive.push(&way.nodes);
        }
        for (one, other) in LINKS {
            for (at, peer) in [(one, other), (other, one)] {
                let view = self.mesh.view(at, peer);
                let expected = named.get(&(at, peer)).copied().unwrap_or(0);
                // The door is named from the beginning.
                assert_eq!(
                    view.exports,
                    1 + expected,
                    "{at} exports to {peer}: {alive:?}"
                );
                let imports = self.mesh.view(peer, at).imports;
                assert_eq!(view.exports, imports, "the ends of {at} and {peer} agree");
            }
        }
        for (way, &local) in &self.truth.locals {
            let state = self.mesh.nodes[way.end()].tables.object(local);
            let is_live = state == Some(ObjectState::Live);
            assert_eq!(
                is_live,
                !self.is_taken_back(way),
                "{way:?} is {state:?} at rest"
            );
        }
        self.judge_calls();
    }

    fn judge_calls(&self) {
        let mut last = BTreeMap::<&Way, u32>::new();
        for (number, got) in &self.truth.got {
            let mut once = got.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), got.len(), "object {number} got something twice");
            for &call in got {
                let way = &self.truth.said[call as usize].way;
                let before = last.insert(way, call);
                assert!(before < Some(call), "{way:?}: {before:?} came after {call}");
            }
        }
        for (call, said) in self.truth.said.iter().enumerate() {
            let call = u32::try_from(call).unwrap();
            if said.to.is_none() && !self.is_taken_back(&said.way) {
                let got = self.truth.got.get(&said.way.object);
                let came = got.is_some_and(|got| got.contains(&call));
                assert!(came, "call {call} through {:?} was lost", said.way);
            }
        }
    }

    fn let_go_of_everything(&mut self) {
        while let Some((way, local)) = self
            .truth
            .locals
            .first_key_value()
            .map(|(way, local)| (way.clone(), *local))
        {
            self.release(&way, local);
        }
        self.rest();
        for at in 0..NODES {
            let peers = LINKS
                .iter()
                .filter(|(one, other)| *one == at || *other == at);
            // The own door and that of each peer.
            let doors = 1 + peers.count();
            let known = self.mesh.nodes[at].tables.known();
            assert_eq!(known, (doors, 0), "node {at} still knows of something");
        }
    }
}

fn cases() -> u32 {
    let cases = std::env::var("OVERLANE_ORACLE_CASES").ok();
    cases.and_then(|cases| cases.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn prop_the_tables_and_the_oracle_agree_on_who_holds_what(
        acts in proptest::collection::vec(act(), 1..120),
    ) {
        converse(&[], acts);
    }
}

fn converse(broken: &[Mutant], acts: Vec<Act>) {
    let mut run = Run::new(broken);
    for act in acts {
        run.act(act);
    }
    run.rest();
    run.judge();
    run.let_go_of_everything();
}

/// An oracle that agrees with broken tables would prove nothing.
#[test]
fn law_the_oracle_disagrees_with_broken_tables() {
    let broken = [
        Mutant::LateStamp,
        Mutant::StrictlyLater,
        Mutant::NoBump,
        Mutant::NoTombstones,
        Mutant::SoftDeletes,
        Mutant::HardForgets,
        Mutant::ReuseIds,
        Mutant::TombstoneForgets,
        Mutant::SilentIntroduction,
    ];
    for mutant in broken {
        let mut runner = TestRunner::deterministic();
        let conversations = proptest::collection::vec(act(), 60..120);
        let disagrees = |_: &u32| {
            let acts = conversations.new_tree(&mut runner).unwrap().current();
            std::panic::catch_unwind(|| converse(&[mutant], acts)).is_err()
        };
        let found = (0..5_000).find(disagrees);
        println!("{mutant:?}: conversation {found:?}");
        assert!(found.is_some(), "{mutant:?} is not noticed");
    }
}
