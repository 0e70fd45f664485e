//! Objects: two nodes and one object, three nodes in a row, and both with faults of the carrier.

use super::explore::Model;
use super::world::World;
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{LinkId, Local, LocalObject, Mutant, ObjectState};
use overlane_relay::refs::wire::{Body, Hardness, Reason};
use std::collections::BTreeSet;

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// A message that mentions nothing.
    Nothing { at: usize, to: usize },
    /// A message that mentions the object, from its owner or another that holds it.
    Mention { at: usize, to: usize, object: Local },
    /// A message to the object.
    Target { at: usize, object: Local },
    /// The application lets go of it.
    Drop { at: usize, object: Local },
    /// Its owner takes it back.
    Revoke(Hardness),
    /// The next frame arrives.
    Arrive { from: usize, to: usize },
    /// The next frame is lost.
    Lose { from: usize, to: usize },
    /// The connection breaks and is made again.
    Reconnect { one: usize, other: usize },
    /// An acknowledgement goes alone.
    Ack { at: usize },
}

/// Nodes in a row, the first of which owns the object. Each has a budget of actions of its own.
pub struct Objects {
    pub budgets: Vec<u8>,
    pub faults: u8,
    pub acks: bool,
    pub limits: Limits,
    pub broken: Vec<Mutant>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub world: World,
    object: LocalObject,
    revoked: Option<Hardness>,
}

const SERIES: u8 = 1;

impl Model for Objects {
    type State = State;
    type Action = Act;

    fn start(&self) -> State {
        let links: Vec<_> = (1..self.budgets.len()).map(|at| (at - 1, at)).collect();
        let mut world = World::new(&self.budgets, &links, self.limits, &self.broken);
        world.faults = self.faults;
        let object = world.nodes[0].tables.export();
        State {
            world,
            object,
            revoked: None,
        }
    }

    fn actions(&self, state: &State) -> Vec<Act> {
        let mut acts = Vec::new();
        let world = &state.world;
        for (&(from, to), channel) in &world.channels {
            if !channel.is_empty() {
                acts.push(Act::Arrive { from, to });
                if world.faults > 0 {
                    acts.push(Act::Lose { from, to });
                }
            }
        }
        if world.faults > 0 {
            acts.push(Act::Reconnect { one: 0, other: 1 });
        }
        for (at, node) in world.nodes.iter().enumerate() {
            if self.acks && world.owes_ack(at) {
                acts.push(Act::Ack { at });
            }
            if node.budget == 0 {
                continue;
            }
            for &to in node.doors.keys() {
                acts.push(Act::Nothing { at, to });
                if at == 0 && state.revoked != Some(Hardness::Hard) {
                    let object = state.object.into();
                    acts.push(Act::Mention { at, to, object });
                }
                for &object in &node.held {
                    acts.push(Act::Mention { at, to, object });
                }
            }
            for &object in &node.held {
                if is_live(world, at, object) {
                    acts.push(Act::Target { at, object });
                }
                acts.push(Act::Drop { at, object });
            }
        }
        if world.nodes[0].budget > 0 {
            if state.revoked.is_none() {
                acts.push(Act::Revoke(Hardness::Soft));
            }
            if state.revoked != Some(Hardness::Hard) {
                acts.push(Act::Revoke(Hardness::Hard));
            }
        }
        acts
    }

    fn apply(&self, state: &mut State, act: Act) -> Result<(), String> {
        let world = &mut state.world;
        match act {
            Act::Nothing { at, .. }
            | Act::Mention { at, .. }
            | Act::Target { at, .. }
            | Act::Drop { at, .. } => world.nodes[at].budget -= 1,
            Act::Revoke(_) => world.nodes[0].budget -= 1,
            Act::Lose { .. } | Act::Reconnect { .. } => world.faults -= 1,
            Act::Arrive { .. } | Act::Ack { .. } => {}
        }
        match act {
            Act::Nothing { at, to } => world.send_to_door(at, to, Body::data(b"")),
            Act::Mention { at, to, object } => world.send_to_door(at, to, Body::of([object])),
            Act::Target { at, object } => world.send_number(at, object, SERIES + at as u8),
            Act::Drop { at, object } => world.release(at, object),
            Act::Revoke(hardness) => {
                state.revoked = Some(hardness);
                let step = world.nodes[0]
                    .tables
                    .revoke(state.object, hardness, Reason::FIRST_FREE, b"why", 0)
                    .map_err(|error| error.to_string())?;
                world.take(0, step)
            }
            Act::Arrive { from, to } => world.arrive(from, to),
            Act::Lose { from, to } => {
                world.lose(from, to);
                Ok(())
            }
            Act::Reconnect { one, other } => world.reconnect(one, other),
            Act::Ack { at } => world.acks(at),
        }
    }

    fn check(&self, state: &State) -> Result<(), String> {
        let world = &state.world;
        world.no_dangling_import()?;
        if !world.is_quiet() {
            return Ok(());
        }
        let rest = world.comes_to_rest()?;
        if state.revoked.is_none() && rest.sent != rest.came + rest.refused {
            return Err(format!("L3 {} sent, {} came", rest.sent, rest.came));
        }
        // I8 and I3: what others hold, the owner knows as what it is.
        let held: BTreeSet<_> = rest.nodes[1].held.iter().copied().collect();
        for &local in &held {
            let live = is_live(&rest, 1, local);
            if live != state.revoked.is_none() {
                return Err(format!(
                    "I8 node 1 holds {local:?}, revoked: {:?}",
                    state.revoked
                ));
            }
        }
        let passed_on = rest.nodes.get(2).is_some_and(|node| !node.held.is_empty());
        let imported = rest.nodes[0]
            .tables
            .importers(state.object)
            .any(|link| link == LinkId(1));
        if imported != (!held.is_empty() || passed_on) {
            return Err(format!(
                "I3 imported: {imported}, held: {held:?}, on: {passed_on}"
            ));
        }
        if rest.nodes[0].tables.keeps_error(state.object) {
            return Err("I7 an error is kept that nobody needs".into());
        }
        Ok(())
    }
}

fn is_live(world: &World, at: usize, local: Local) -> bool {
    match local {
        Local::Object(object) => world.nodes[at].tables.object(object) == Some(ObjectState::Live),
        Local::Promise(_) => false,
    }
}
