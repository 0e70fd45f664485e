//! An explorer: every state that small rings of the production code can reach by joins, failures, leaves,
//! messages in any order and rounds at any time, within some actions.
//!
//! Zave's assumptions hold in it: failures are detected without error, a failure leaves every member with
//! a live successor, and as many principals as lists are long, and one, stay. Her invariants are
//! checked in every state ("How to make Chord correct", 2017); in a sample of the last ones, whether the ring
//! becomes ideal once nothing more happens to it. Fingers change no neighbour and are left out. `OVERLANE_EXPLORE=2` in the
//! environment of the tests goes two actions deeper; `--no-capture` shows the counts.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::machine::{Ring, RingAction, RingConfig};
use super::members::Members;
use super::message::RingMessage;
use super::mutant::{Mutant, with};
use super::place::{Distance, is_between};
use crate::ids::Did;

/// Successors kept in the small rings.
const KEPT: usize = 2;

/// Fair steps within which a ring must become ideal once nothing more happens.
const SETTLES_WITHIN: usize = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// The message at this place of the mail arrives.
    Arrives(usize),
    /// The node's time comes: a round, or a request without an answer.
    Time(Did),
    /// A node joins by way of a member.
    Joins(Did, Did),
    Fails(Did),
    Leaves(Did),
}

#[derive(Clone)]
struct World {
    nodes: BTreeMap<Did, Ring>,
    clocks: BTreeMap<Did, u64>,
    mail: Vec<(Did, Did, RingMessage)>,
    outside: Vec<Did>,
    failures: usize,
    leaves: usize,
}

fn did(first: u8) -> Did {
    let mut bytes = [0; 20];
    bytes[0] = first;
    Did(bytes)
}

impl World {
    /// An ideal ring of `members`; `outside` may join, and so many may fail and leave.
    fn ideal(members: &[u8], outside: &[u8], failures: usize, leaves: usize) -> Self {
        let mut world = Self {
            nodes: BTreeMap::new(),
            clocks: BTreeMap::new(),
            mail: Vec::new(),
            outside: outside.iter().map(|&of| did(of)).collect(),
            failures,
            leaves,
        };
        let members: Vec<Did> = members.iter().map(|&of| did(of)).collect();
        for (at, &own) in members.iter().enumerate() {
            let mut ring = ring(own);
            let next: Vec<Did> = (1..=KEPT)
                .map(|by| members[(at + by) % members.len()])
                .collect();
            ring.members.adopt(next[0], &next[1..]);
            ring.members
                .rectify(members[(at + members.len() - 1) % members.len()]);
            ring.linked = members
                .iter()
                .copied()
                .filter(|&peer| peer != own)
                .collect();
            ring.in_its_place = true;
            world.nodes.insert(own, ring);
        }
        world
    }

    fn actions(&self) -> Vec<Action> {
        let mut actions: Vec<Action> = (0..self.mail.len()).map(Action::Arrives).collect();
        let waits = |ring: &Ring| {
            ring.requests
                .all()
                .any(|(_, it)| self.nodes.contains_key(&it.to))
        };
        let idle = self.nodes.iter().filter(|(_, ring)| !waits(ring));
        actions.extend(idle.map(|(&node, _)| Action::Time(node)));
        let members = self.members();
        for &newcomer in &self.outside {
            actions.extend(
                members
                    .iter()
                    .map(|&member| Action::Joins(newcomer, member)),
            );
        }
        let state_on_its_way = self
            .mail
            .iter()
            .any(|(_, _, message)| matches!(message, RingMessage::State { .. }));
        for &member in members.iter().filter(|_| !state_on_its_way) {
            let mut without = self.clone();
            without.remove(member);
            let allowed = without.principals() > KEPT && without.live_successors().is_ok();
            if allowed && self.failures > 0 {
                actions.push(Action::Fails(member));
            }
            if allowed && self.leaves > 0 {
                actions.push(Action::Leaves(member));
            }
        }
        actions
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Arrives(at) => {
                let (from, to, message) = self.mail.remove(at);
                let now_ms = self.now(to);
                if let Some(ring) = self.nodes.get_mut(&to) {
                    // What is refused changes nothing.
                    let _ = ring.handle_message(from, None, 1, message, now_ms);
                }
                self.drain(to);
            }
            Action::Time(node) => {
                let due_ms = self.nodes[&node].poll_timeout().unwrap_or_default();
                let now_ms = self.now(node).max(due_ms);
                self.clocks.insert(node, now_ms);
                if let Some(ring) = self.nodes.get_mut(&node) {
                    ring.handle_timeout(now_ms);
                }
                self.drain(node);
            }
            Action::Joins(node, member) => {
                self.outside.retain(|&of| of != node);
                self.nodes.insert(node, ring(node));
                self.link(node, member);
                self.drain(node);
                self.drain(member);
            }
            Action::Fails(node) => {
                self.failures -= 1;
                self.remove(node);
            }
            Action::Leaves(node) => {
                self.leaves -= 1;
                if let Some(ring) = self.nodes.get_mut(&node) {
                    ring.leave();
                }
                self.drain(node);
                self.remove(node);
            }
        }
    }

    fn remove(&mut self, node: Did) {
        self.nodes.remove(&node);
        let others: Vec<Did> = self.nodes.keys().copied().collect();
        for other in others {
            let now_ms = self.now(other);
            if let Some(ring) = self.nodes.get_mut(&other) {
                ring.handle_unlinked(node, now_ms);
            }
            self.drain(other);
        }
        self.mail.retain(|(_, to, _)| *to != node);
    }

    fn link(&mut self, one: Did, other: Did) {
        for (at, peer) in [(one, other), (other, one)] {
            let now_ms = self.now(at);
            if let Some(ring) = self.nodes.get_mut(&at) {
                ring.handle_linked(peer, now_ms);
            }
        }
    }

    fn drain(&mut self, at: Did) {
        while let Some(action) = self.nodes.get_mut(&at).and_then(Ring::poll_action) {
            match action {
                RingAction::Send { to, message, .. } if self.nodes.contains_key(&to) => {
                    let letter = (at, to, message);
                    if !self.mail.contains(&letter) {
                        self.mail.push(letter);
                    }
                }
                RingAction::Connect { peer } if self.nodes.contains_key(&peer) => {
                    self.link(at, peer);
                    self.drain(peer);
                }
                _ => {}
            }
        }
    }

    fn now(&self, node: Did) -> u64 {
        self.clocks.get(&node).copied().unwrap_or_default()
    }

    /// The live nodes that have a successor.
    fn members(&self) -> Vec<Did> {
        let joined = self.nodes.iter();
        let joined = joined.filter(|(_, ring)| ring.members.first().is_some());
        joined.map(|(&node, _)| node).collect()
    }

    /// A member's first live successor.
    fn best(&self, member: Did) -> Option<Did> {
        let successors = self.nodes[&member].members.successors().iter();
        successors.copied().find(|of| self.nodes.contains_key(of))
    }

    /// Members that no member's list, itself before it, skips.
    fn principals(&self) -> usize {
        let members = self.members();
        let lists = members.iter().map(|&member| {
            let successors = self.nodes[&member].members.successors().iter().copied();
            std::iter::once(member)
                .chain(successors)
                .collect::<Vec<_>>()
        });
        let lists: Vec<Vec<Did>> = lists.collect();
        let skipped = |node: Did| {
            lists.iter().any(|list| {
                list.windows(2)
                    .any(|pair| node != pair[1] && is_between(pair[0], node, pair[1]))
            })
        };
        members.iter().filter(|&&node| !skipped(node)).count()
    }

    fn live_successors(&self) -> Result<(), String> {
        match self
            .members()
            .iter()
            .find(|&&member| self.best(member).is_none())
        {
            Some(member) => Err(format!("one live successor: {member} has none")),
            None => Ok(()),
        }
    }

    /// Zave's invariants.
    fn check(&self) -> Result<(), String> {
        let members = self.members();
        for &member in &members {
            let list = self.nodes[&member].members.successors();
            if list.len() > KEPT || !Members::is_ordered(member, list) {
                return Err(format!("ordered lists: {member} has {list:?}"));
            }
        }
        self.live_successors()?;
        if self.principals() <= KEPT {
            return Err(format!("sufficient principals: {}", self.principals()));
        }
        // Where everybody's best successors lead in the end.
        let end = |from: Did| {
            let steps = std::iter::successors(Some(from), |&at| self.best(at));
            let far: Vec<Did> = steps.take(2 * members.len() + 2).collect();
            far[members.len().min(far.len() - 1)..]
                .iter()
                .copied()
                .collect::<BTreeSet<_>>()
        };
        let mut rings = members.iter().map(|&member| end(member));
        let Some(first) = rings.next() else {
            return Err("at least one ring: there is none".to_owned());
        };
        if rings.any(|ring| ring != first) {
            return Err("at most one ring, and connected appendages".to_owned());
        }
        let ordered = first.iter().all(|&at| {
            let next = self.best(at).unwrap_or(at);
            !first
                .iter()
                .any(|&other| other != next && is_between(at, other, next))
        });
        if !ordered {
            return Err("ordered ring".to_owned());
        }
        Ok(())
    }

    /// Whether all neighbours are as they should be.
    fn is_ideal(&self) -> bool {
        let all: Vec<Did> = self.nodes.keys().copied().collect();
        all.iter().enumerate().all(|(at, node)| {
            let members = &self.nodes[node].members;
            let kept = KEPT.min(all.len() - 1);
            let next: Vec<Did> = (1..=kept).map(|by| all[(at + by) % all.len()]).collect();
            let before = all[(at + all.len() - 1) % all.len()];
            members.successors() == next && members.predecessor() == Some(before)
        })
    }

    /// Who lost the node by which it was joining is linked to another, as the bootstrap does.
    fn dial_again(&mut self) {
        let cut_off = self
            .nodes
            .iter()
            .find(|(_, ring)| ring.members.first().is_none() && ring.linked.is_empty());
        let member = self.members().first().copied();
        if let (Some((&node, _)), Some(member)) = (cut_off, member) {
            self.link(node, member);
            self.drain(node);
            self.drain(member);
        }
    }

    /// Lets messages arrive and time come in turns until the ring is ideal.
    fn settles(mut self) -> Result<(), String> {
        self.outside.clear();
        (self.failures, self.leaves) = (0, 0);
        for step in 0..SETTLES_WITHIN {
            if self.mail.is_empty() && self.is_ideal() {
                return Ok(());
            }
            self.dial_again();
            let actions = self.actions();
            let arrives = actions.iter().find(|it| matches!(it, Action::Arrives(_)));
            let times: Vec<_> = actions
                .iter()
                .filter(|it| matches!(it, Action::Time(_)))
                .collect();
            let next = arrives.or_else(|| times.get(step % times.len().max(1)).copied());
            match next {
                Some(&action) => self.act(action),
                None => break,
            }
        }
        let members = self.nodes.values().map(|ring| &ring.members);
        let members: Vec<String> = members.map(|it| format!("{it:?}")).collect();
        Err(format!(
            "becomes ideal: it does not, {}",
            members.join("; ")
        ))
    }

    fn fingerprint(&self) -> u64 {
        let node = |(did, ring): (&Did, &Ring)| {
            let open = ring.requests.all();
            let mut open: Vec<_> = open
                .map(|(_, it)| (it.to, format!("{:?}", it.purpose), it.tries))
                .collect();
            open.sort();
            let silent: Vec<Did> = ring.silent.keys().copied().collect();
            (
                *did,
                ring.members.clone(),
                open,
                silent,
                ring.linked.clone(),
                ring.in_its_place,
            )
        };
        let nodes: Vec<_> = self.nodes.iter().map(node).collect();
        let mut mail: Vec<_> =
            self.mail
                .iter()
                .map(|(from, to, message)| {
                    let answers = message.answers().or(message.asks());
                    let put = self.nodes.get(from).is_some_and(|ring| {
                        answers.is_some_and(|id| ring.requests.get(id).is_some())
                    });
                    (*from, *to, without_number(message), put)
                })
                .collect();
        mail.sort();
        BuildHasherDefault::<DefaultHasher>::default().hash_one((
            nodes,
            mail,
            &self.outside,
            self.failures,
            self.leaves,
        ))
    }
}

fn ring(own: Did) -> Ring {
    let mut config = RingConfig::new(u64::from(own.0[0]));
    (config.successors, config.fingers) = (KEPT, false);
    Ring::new(own, config, 0)
}

/// What a message says, whatever its request's number is.
fn without_number(message: &RingMessage) -> String {
    match message {
        RingMessage::State {
            predecessor,
            successors,
            ..
        } => format!("{predecessor:?} {successors:?}"),
        RingMessage::Owner { owners, .. } => format!("{owners:?}"),
        RingMessage::Nearer { node, after, .. } => format!("{node} {after:?}"),
        RingMessage::Find { place, .. } => format!("{place}"),
        RingMessage::Leave { successors, .. } => format!("leave {successors:?}"),
        other => other.name().to_owned(),
    }
}

/// Visits every state within `depth` actions, and lets one in `sample` of the last ones settle.
fn explore(start: World, depth: usize, sample: usize) -> Result<usize, String> {
    let mut seen = HashSet::from([start.fingerprint()]);
    let mut frontier = vec![(start, Vec::new())];
    for _ in 0..depth {
        let mut next = Vec::new();
        for (world, path) in frontier {
            for action in world.actions() {
                let mut then = world.clone();
                let mut path: Vec<Action> = path.clone();
                path.push(action);
                then.act(action);
                then.check()
                    .map_err(|law| format!("{law}, after {path:?}"))?;
                if seen.insert(then.fingerprint()) {
                    next.push((then, path));
                }
            }
        }
        frontier = next;
    }
    for (world, path) in frontier.into_iter().step_by(sample) {
        world
            .settles()
            .map_err(|law| format!("{law}, after {path:?}"))?;
    }
    Ok(seen.len())
}

/// The ring as it is breaks no law; each broken variant does.
fn check(name: &str, world: impl Fn() -> World, depth: usize, broken: &[Mutant]) {
    let deeper = std::env::var("OVERLANE_EXPLORE").ok();
    let depth = depth + deeper.map_or(0, |deeper| deeper.parse().unwrap());
    match explore(world(), depth, 97) {
        Ok(states) => {
            println!("{name}: {states} states, depth {depth}: no violation");
            assert!(states > 1_000, "the world is too small to show anything");
        }
        Err(violation) => panic!("{name}: {violation}"),
    }
    let mut escaped = Vec::new();
    for mutant in broken {
        match with(*mutant, || explore(world(), depth, 11)) {
            Ok(_) => escaped.push(mutant),
            Err(violation) => println!("{name}: {mutant:?} caught: {violation}"),
        }
    }
    assert!(escaped.is_empty(), "{name}: not caught: {escaped:?}");
}

#[test]
fn law_zaves_invariants_hold_in_every_state_of_a_ring_that_a_node_joins_and_one_fails_s23() {
    let world = || World::ideal(&[10, 60, 110, 160], &[85], 1, 0);
    let broken = [
        Mutant::KeepsItsOldTail,
        Mutant::TakesCandidatesUnasked,
        Mutant::TakesWhoIsInNoRing,
        Mutant::NotifiesNobody,
        Mutant::KeepsADeadPredecessor,
    ];
    check("a join and a failure", world, 6, &broken);
}

#[test]
fn law_zaves_invariants_hold_in_every_state_of_a_ring_that_two_nodes_join_s23() {
    let world = || World::ideal(&[10, 60, 110], &[75, 90], 0, 0);
    check(
        "two joins",
        world,
        6,
        &[Mutant::SeesNoCandidates, Mutant::TakesAnyCandidate],
    );
}

#[test]
fn law_zaves_invariants_hold_in_every_state_of_a_ring_that_a_node_leaves_s23() {
    let world = || World::ideal(&[10, 60, 110, 160], &[200], 0, 1);
    check(
        "a join and a leave",
        world,
        6,
        &[Mutant::DropsAllSuccessors],
    );
}

#[test]
fn the_checker_knows_rings_that_are_not() {
    let mut world = World::ideal(&[10, 60, 110, 160], &[], 0, 0);
    assert_eq!(world.check(), Ok(()));
    assert!(world.is_ideal());
    if let Some(ring) = world.nodes.get_mut(&did(10)) {
        // It skips two members.
        ring.members = Members::new(did(10), KEPT);
        ring.members.adopt(did(160), &[]);
    }
    let found = world.check().unwrap_err();
    assert!(found.starts_with("sufficient principals"), "{found}");
    assert!(!world.is_ideal());
    let far = Distance::between(did(10), did(160));
    assert!(far > Distance::between(did(10), did(60)));
}
