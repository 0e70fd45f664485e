//! Deliberately broken variants of sessions, for their laws to catch; outside this crate's own test build
//! `mutant!` is the constant `false`.

/// Whether this broken variant is on.
macro_rules! mutant {
    ($name:ident) => {{
        #[cfg(test)]
        let on = $crate::e2e::mutant::is_on($crate::e2e::mutant::Mutant::$name);
        #[cfg(not(test))]
        let on = false;
        on
    }};
}

#[cfg(test)]
pub(super) use variants::{Mutant, caught, is_on};

#[cfg(test)]
mod variants {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// What is broken.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(in crate::e2e) enum Mutant {
        /// A handshake counts whoever's static key it proves.
        TakesAnyKey,
        /// A body is taken as often as it comes.
        TakesAgain,
        /// Sessions are kept without a bound.
        KeepsAll,
        /// No session is followed by another.
        NeverRekeys,
        /// A session has no last instant.
        NeverEnds,
        /// Every ephemeral key is the same.
        DrawsTheSame,
    }

    thread_local! {
        static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    pub(in crate::e2e) fn is_on(mutant: Mutant) -> bool {
        ON.get() == Some(mutant)
    }

    /// Whether the law's test fails for sessions broken so.
    pub(in crate::e2e) fn caught(mutant: Mutant, law: fn()) -> bool {
        ON.set(Some(mutant));
        let failed = catch_unwind(AssertUnwindSafe(law)).is_err();
        ON.set(None);
        failed
    }
}
