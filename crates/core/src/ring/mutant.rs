//! Deliberately broken variants of the ring, for the checker to catch; outside this crate's own test
//! build `mutant!` is the constant `false`.

/// Whether this broken variant is on.
macro_rules! mutant {
    ($name:ident) => {{
        #[cfg(test)]
        let on = $crate::ring::mutant::is_on($crate::ring::mutant::Mutant::$name);
        #[cfg(not(test))]
        let on = false;
        on
    }};
}

#[cfg(test)]
pub(super) use variants::{Mutant, is_on, with};

#[cfg(test)]
mod variants {
    use std::cell::Cell;

    /// What is broken.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(in crate::ring) enum Mutant {
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

    /// Runs `check` on the ring, broken so.
    pub(in crate::ring) fn with<R>(mutant: Mutant, check: impl FnOnce() -> R) -> R {
        ON.set(Some(mutant));
        let result = check();
        ON.set(None);
        result
    }
}
