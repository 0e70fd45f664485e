//! An explorer: every state that a small world of the production engine can reach.
//!
//! Breadth first, so a violation comes with a shortest way to it; a state is visited once, by a
//! hash of everything that decides what may follow. Worlds: [`commit`] (a writer that fails,
//! callers that go away, crashes, reopened stores) and [`clocks`] (clocks that are set, witnesses that
//! lie, mail that comes late). For each law a world has broken variants that it must catch.
//! `OVERLANE_EXPLORE=2` in the environment of the tests goes two actions deeper.

mod clocks;
mod commit;
mod item;

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use super::mutant::{Mutant, with};

/// A world: what may happen next, and what must never.
trait World: Clone {
    type Action: fmt::Debug + Copy;

    fn actions(&self) -> Vec<Self::Action>;

    /// Lets it happen.
    ///
    /// # Errors
    /// The law that broke.
    fn act(&mut self, action: Self::Action) -> Result<(), String>;

    /// Everything that decides what may follow.
    fn fingerprint(&self) -> u64;
}

struct Explored {
    states: usize,
    steps: usize,
}

/// Visits every state within `depth` actions of `start`.
fn explore<W: World>(start: W, depth: usize) -> Result<Explored, String> {
    let mut seen = HashSet::from([start.fingerprint()]);
    let mut frontier = vec![(start, Vec::new())];
    let mut steps = 0;
    for _ in 0..depth {
        let mut next = Vec::new();
        for (world, path) in frontier {
            for action in world.actions() {
                let mut then = world.clone();
                let mut path: Vec<W::Action> = path.clone();
                path.push(action);
                steps += 1;
                then.act(action)
                    .map_err(|law| format!("{law}, after {path:?}"))?;
                if seen.insert(then.fingerprint()) {
                    next.push((then, path));
                }
            }
        }
        frontier = next;
    }
    let states = seen.len();
    Ok(Explored { states, steps })
}

fn hash(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

/// Explores the engine as it is, and wants no violation; then each broken variant, and wants one.
fn check<W: World>(name: &str, world: impl Fn() -> W, depth: usize, broken: &[Mutant]) {
    let deeper = std::env::var("OVERLANE_EXPLORE").ok();
    let depth = depth + deeper.map_or(0, |deeper| deeper.parse().unwrap());
    match explore(world(), depth) {
        Ok(Explored { states, steps }) => {
            println!("{name}: {states} states, {steps} steps, depth {depth}: no violation");
            assert!(states > 1_000, "the world is too small to show anything");
        }
        Err(violation) => panic!("{name}: {violation}"),
    }
    for mutant in broken {
        match with(*mutant, || explore(world(), depth)) {
            Ok(_) => panic!("{name}: {mutant:?} was not caught"),
            Err(violation) => println!("{name}: {mutant:?} caught: {violation}"),
        }
    }
}
