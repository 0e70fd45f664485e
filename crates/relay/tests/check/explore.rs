//! Walks every state that a model can reach, and finds the shortest way to one that is wrong.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// States, what can happen in each, and what must hold.
pub trait Model {
    type State: Clone + Hash;
    type Action: Copy + Debug;

    fn start(&self) -> Self::State;
    /// What can happen next.
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;
    /// Makes it happen; the error is a broken invariant.
    fn apply(&self, state: &mut Self::State, action: Self::Action) -> Result<(), String>;
    /// What must hold in a state by itself.
    fn check(&self, state: &Self::State) -> Result<(), String>;
}

/// What exploring found.
#[derive(Debug)]
pub struct Found {
    pub states: usize,
    /// Whether the bound came before the end.
    pub cut_short: bool,
    /// The broken invariant, and the shortest way there.
    pub broken: Option<(String, Vec<String>)>,
}

/// Two hashes of a state. That two states of a run share both has a chance below one in 10^24.
type Print = (u64, u64);

fn print(state: &impl Hash) -> Print {
    let mut first = DefaultHasher::new();
    let mut second = DefaultHasher::new();
    second.write_u64(0x9e37_79b9_7f4a_7c15);
    state.hash(&mut first);
    state.hash(&mut second);
    (first.finish(), second.finish())
}

/// Walks all states, deepest first, which keeps few of them in memory. At most `bound` are visited.
pub fn explore<M: Model>(model: &M, bound: usize) -> Found {
    let start = model.start();
    let mut seen = HashSet::from([print(&start)]);
    let mut todo = vec![start];
    while let Some(state) = todo.pop() {
        let mut broken = model.check(&state).is_err();
        for action in model.actions(&state) {
            let mut next = state.clone();
            broken |= model.apply(&mut next, action).is_err();
            if !broken && seen.insert(print(&next)) {
                todo.push(next);
            }
        }
        if broken {
            return shortest(model);
        }
        if seen.len() > bound {
            break;
        }
    }
    Found {
        states: seen.len(),
        cut_short: seen.len() > bound,
        broken: None,
    }
}

/// Walks the states in the order of their distance until one is wrong.
pub fn shortest<M: Model>(model: &M) -> Found {
    let start = model.start();
    let mut seen = HashMap::from([(print(&start), 0)]);
    let mut came: Vec<(usize, Option<M::Action>)> = vec![(0, None)];
    let mut todo = VecDeque::from([(0, start)]);
    while let Some((at, state)) = todo.pop_front() {
        let mut broken = model.check(&state).err().map(|error| (error, None));
        for action in model.actions(&state) {
            let mut next = state.clone();
            if let Err(error) = model.apply(&mut next, action) {
                broken = broken.or(Some((error, Some(action))));
                continue;
            }
            let index = came.len();
            if let std::collections::hash_map::Entry::Vacant(new) = seen.entry(print(&next)) {
                new.insert(index);
                came.push((at, Some(action)));
                todo.push_back((index, next));
            }
        }
        if let Some((error, last)) = broken {
            let mut trace: Vec<String> = last.iter().map(|last| format!("{last:?}")).collect();
            let mut at = at;
            while let (before, Some(action)) = came[at] {
                trace.push(format!("{action:?}"));
                at = before;
            }
            trace.reverse();
            return Found {
                states: seen.len(),
                cut_short: false,
                broken: Some((error, trace)),
            };
        }
    }
    Found {
        states: seen.len(),
        cut_short: false,
        broken: None,
    }
}
