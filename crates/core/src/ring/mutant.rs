//! Deliberately broken variants of the ring, for checkers to catch: the explorer's in this crate's own
//! tests, and the simulator's, which turns on the feature `sim`. Without either, `mutant!` is the constant
//! `false`; with `sim`, none is on but within [`with`].

/// Whether this broken variant is on.
macro_rules! mutant {
    ($name:ident) => {{
        #[cfg(any(test, feature = "sim"))]
        let on = $crate::ring::mutant::is_on($crate::ring::mutant::Mutant::$name);
        #[cfg(not(any(test, feature = "sim")))]
        let on = false;
        on
    }};
}

#[cfg(any(test, feature = "sim"))]
pub(super) use variants::is_on;
#[cfg(any(test, feature = "sim"))]
pub use variants::{Mutant, with};

#[cfg(any(test, feature = "sim"))]
mod variants {
    use std::cell::Cell;

    /// What is broken.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Mutant {
        /// Any predecessor that a successor names takes its place, wherever it lies.
        TakesAnyCandidate,
        /// A nearer successor is put before the old list, whose members it may skip.
        KeepsItsOldTail,
        /// A list goes on past its own node.
        ListsRoundTheRing,
        /// A dead first successor takes the others with it.
        DropsAllSuccessors,
        /// A candidate is taken before it was asked.
        TakesCandidatesUnasked,
        /// Who has no successor yet is taken, with its empty list.
        TakesWhoIsInNoRing,
        /// Nobody is told who takes it for its successor.
        NotifiesNobody,
        /// A dead predecessor stays.
        KeepsADeadPredecessor,
        /// Nearer successors are not asked for.
        SeesNoCandidates,
    }

    thread_local! {
        static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    pub(in crate::ring) fn is_on(mutant: Mutant) -> bool {
        ON.get() == Some(mutant)
    }

    /// Runs `check` on the ring, broken so, in this thread.
    pub fn with<R>(mutant: Mutant, check: impl FnOnce() -> R) -> R {
        ON.set(Some(mutant));
        let result = check();
        ON.set(None);
        result
    }
}
