//! Promises: who decides them, what they become, and in which order messages through them arrive.

use super::explore::Model;
use super::world::World;
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{Answer, Local, LocalPromise, Mutant, PromiseState};
use overlane_relay::refs::wire::{Body, Outcome};

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// A message that mentions nothing.
    Nothing { at: usize, to: usize },
    /// A message that mentions the promise.
    Mention {
        at: usize,
        to: usize,
        promise: LocalPromise,
    },
    /// A message to the promise.
    Target { at: usize, promise: LocalPromise },
    /// The application lets go of it.
    Drop { at: usize, promise: LocalPromise },
    /// It is passed on as the result of a message.
    Pass {
        at: usize,
        to: usize,
        promise: LocalPromise,
    },
    /// It becomes something.
    Resolve {
        at: usize,
        promise: LocalPromise,
        to: Become,
    },
    /// The next frame arrives.
    Arrive { from: usize, to: usize },
    /// The next frame is lost.
    Lose { from: usize, to: usize },
    /// The connection breaks and is made again.
    Reconnect { one: usize, other: usize },
    /// An acknowledgement goes alone.
    Ack { at: usize },
}

/// What a promise becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Become {
    /// The door of this node, as seen by the decider.
    Door(usize),
    /// The decider's own door.
    Own,
    /// Data.
    Data,
    /// Data that mentions the promise itself.
    Itself,
}

/// Nodes in a row. The last decides a promise that every other one was told of.
pub struct Promises {
    pub budgets: Vec<u8>,
    pub faults: u8,
    pub acks: bool,
    pub limits: Limits,
    /// What the promise may become.
    pub outcomes: Vec<Become>,
    /// Whether the decision may be passed on.
    pub passes: bool,
    /// Whether it may be mentioned again.
    pub mentions: bool,
    pub drops: bool,
    pub broken: Vec<Mutant>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub world: World,
    resolved: bool,
}

impl Promises {
    fn link_ends(&self) -> Vec<(usize, usize)> {
        (1..self.budgets.len()).map(|at| (at - 1, at)).collect()
    }
}

impl Model for Promises {
    type State = State;
    type Action = Act;

    fn start(&self) -> State {
        let links = self.link_ends();
        let mut world = World::new(&self.budgets, &links, self.limits, &self.broken);
        let last = self.budgets.len() - 1;
        let promise = world.nodes[last].tables.promise_new();
        world.nodes[last].held.insert(promise.into());
        world.nodes[last].deciding.insert(promise);
        let mut promise = Local::Promise(promise);
        for at in (1..=last).rev() {
            world.send_to_door(at, at - 1, Body::of([promise])).unwrap();
            world.arrive(at, at - 1).unwrap();
            promise = *world.nodes[at - 1].held.iter().next().unwrap();
        }
        let mut world = world.comes_to_rest().unwrap();
        world.faults = self.faults;
        State {
            world,
            resolved: false,
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
        for at in 0..world.nodes.len() {
            if self.acks && world.owes_ack(at) {
                acts.push(Act::Ack { at });
            }
            if world.nodes[at].budget > 0 {
                self.own_actions(state, at, &mut acts);
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
            | Act::Drop { at, .. }
            | Act::Pass { at, .. }
            | Act::Resolve { at, .. } => world.nodes[at].budget -= 1,
            Act::Lose { .. } | Act::Reconnect { .. } => world.faults -= 1,
            Act::Arrive { .. } | Act::Ack { .. } => {}
        }
        match act {
            Act::Nothing { at, to } => world.send_to_door(at, to, Body::data(b"")),
            Act::Mention { at, to, promise } => {
                world.send_to_door(at, to, Body::of([promise.into()]))
            }
            Act::Target { at, promise } => {
                // Order is promised for one reference, and a name that came back is another one.
                let series = (at as u8) << 5 | promise.0 as u8;
                world.send_number(at, promise.into(), series)
            }
            Act::Drop { at, promise } => world.release(at, promise.into()),
            Act::Pass { at, to, promise } => {
                let door = world.nodes[at].doors[&to];
                world.nodes[at].deciding.remove(&promise);
                let (_, step) = world.nodes[at]
                    .tables
                    .send(door.into(), Body::data(b""), Answer::Passed(promise), 0)
                    .map_err(|error| error.to_string())?;
                world.take(at, step)
            }
            Act::Resolve { at, promise, to } => {
                state.resolved = true;
                resolve(world, at, promise, to)
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
        one_decider(&state.world)?;
        if !state.world.is_quiet() {
            return Ok(());
        }
        let mut rest = state.world.comes_to_rest()?;
        if state.resolved && rest.sent != rest.came + rest.refused {
            let (sent, came, refused) = (rest.sent, rest.came, rest.refused);
            return Err(format!("L3 {sent} sent, {came} came, {refused} refused"));
        }
        // Once everyone lets go, nothing may be left of a resolved promise.
        if state.resolved {
            for at in 0..rest.nodes.len() {
                for local in rest.nodes[at].held.clone() {
                    rest.release(at, local)?;
                }
            }
            let rest = rest.comes_to_rest()?;
            for (at, node) in rest.nodes.iter().enumerate() {
                let (_, promises) = node.tables.known();
                if promises > 0 {
                    return Err(format!(
                        "I3 node {at} keeps {promises} promises nobody holds"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Promises {
    fn own_actions(&self, state: &State, at: usize, acts: &mut Vec<Act>) {
        let node = &state.world.nodes[at];
        for &to in node.doors.keys() {
            acts.push(Act::Nothing { at, to });
        }
        let held = node.held.iter().filter_map(|local| match local {
            Local::Promise(promise) => Some(*promise),
            Local::Object(_) => None,
        });
        for promise in held {
            acts.push(Act::Target { at, promise });
            if self.mentions {
                for &to in node.doors.keys() {
                    acts.push(Act::Mention { at, to, promise });
                }
            }
            if self.drops {
                acts.push(Act::Drop { at, promise });
            }
        }
        for &promise in &node.deciding {
            if node.tables.promise(promise) != Some(PromiseState::Open) {
                continue;
            }
            for &to in &self.outcomes {
                let reachable = match to {
                    Become::Door(to) => node.doors.contains_key(&to),
                    Become::Itself => node.held.contains(&promise.into()),
                    Become::Own | Become::Data => true,
                };
                if reachable {
                    acts.push(Act::Resolve { at, promise, to });
                }
            }
            if self.passes {
                for &to in node.doors.keys() {
                    acts.push(Act::Pass { at, to, promise });
                }
            }
        }
    }
}

fn resolve(world: &mut World, at: usize, promise: LocalPromise, to: Become) -> Result<(), String> {
    let node = &mut world.nodes[at];
    node.deciding.remove(&promise);
    let outcome = match to {
        Become::Door(to) => Outcome::Reference(node.doors[&to].into()),
        Become::Own => Outcome::Reference(node.door.into()),
        Become::Data => Outcome::Data(Body::data(b"data")),
        Become::Itself => Outcome::Data(Body::of([promise.into()])),
    };
    let step = node
        .tables
        .resolve(promise, outcome, 0)
        .map_err(|error| error.to_string())?;
    world.take(at, step)
}

/// I11: of the nodes of a row at most one may resolve the promise.
fn one_decider(world: &World) -> Result<(), String> {
    let open = world.nodes.iter().map(|node| {
        let open = node.deciding.iter();
        open.filter(|&&promise| node.tables.promise(promise) == Some(PromiseState::Open))
            .count()
    });
    let open: usize = open.sum();
    if open > 1 {
        return Err(format!("I11 {open} nodes may resolve the promise"));
    }
    Ok(())
}
