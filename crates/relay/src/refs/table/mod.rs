//! The tables of a node: what it knows of objects and promises, and of each link on which they have
//! names.
//!
//! Every method that changes something is one transaction: it takes effect whole, and returns what
//! happened as a [`Step`], or it leaves no trace. Nothing else changes the tables, so what a store
//! and a checker see is what runs.
//!
//! Law (frame-atomic): a frame with one operation that no honest peer sends has no effect but the
//! end of that link's epoch.
//! Law (one frame back): processing one frame yields at most one frame for each link; if that is too
//! large it is split, and only the last part acknowledges. So what a peer's frame caused arrives
//! no later than its acknowledgement.
//! Law (no drift): nothing is counted across the link. A drop is judged by comparing two numbers.
//!
//! Source: seed 3, the converged design ("Chip and I worked out some details").

mod app;
mod audit;
mod codec;
mod collect;
mod emit;
mod epoch;
mod flush;
mod kept;
mod link;
mod local;
mod mutant;
mod names;
mod receive;
mod revoke;
mod route;
mod rows;
mod sorted;
mod step;
mod tx;
mod view;

pub use app::Answer;
pub use audit::Inconsistency;
pub use kept::{Change, LoadError};
pub use local::Source;
#[cfg(feature = "mutants")]
pub use mutant::{Mutant, Mutants};
pub use names::{LinkId, Local, LocalObject, LocalPromise};
pub use step::{Counts, Event, Step, Transmit};
pub use view::{Concern, LinkView, Name, ObjectState, PromiseState};

use super::limits::Limits;
use link::LinkTable;
use local::{Object, Promise};
use rows::{Logged, Rows};
use std::collections::{BTreeMap, BTreeSet};

/// All reference tables of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tables {
    limits: Limits,
    links: BTreeMap<LinkId, LinkTable>,
    objects: Rows<LocalObject, Object>,
    promises: Rows<LocalPromise, Promise>,
    next: Logged<Next>,
    /// Rows that a store has not been told of, if one follows these tables.
    unsaved: Option<BTreeSet<kept::Key>>,
    #[cfg(feature = "mutants")]
    mutants: Mutants,
}

/// The next local names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Next {
    object: u64,
    promise: u64,
}

impl Tables {
    /// Empty tables of a node that keeps every link within `limits`.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            links: BTreeMap::new(),
            objects: Rows::default(),
            promises: Rows::default(),
            next: Logged::new(Next::default()),
            unsaved: None,
            #[cfg(feature = "mutants")]
            mutants: Mutants::default(),
        }
    }

    /// The same tables with some of their rules broken, for a checker to find.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn broken_by(self, mutants: &[Mutant]) -> Self {
        Self {
            mutants: Mutants::of(mutants),
            ..self
        }
    }

    #[cfg(feature = "mutants")]
    fn is(&self, mutant: mutant::Mutant) -> bool {
        self.mutants.contains(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    #[expect(
        clippy::unused_self,
        reason = "asks the tables where they can be broken"
    )]
    const fn is(&self, _: mutant::Mutant) -> bool {
        false
    }
}
