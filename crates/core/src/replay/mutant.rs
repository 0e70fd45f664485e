//! Deliberately broken variants of the engine, for the checker to catch.
//!
//! A law is checked by a test, and the test by a variant that breaks the law. The variants exist in
//! this crate's own test build alone: elsewhere `mutant!` is the constant `false`.

/// Whether this broken variant is on.
macro_rules! mutant {
    ($name:ident) => {{
        #[cfg(test)]
        let on = $crate::replay::mutant::is_on($crate::replay::mutant::Mutant::$name);
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
    pub(in crate::replay) enum Mutant {
        /// What writes nothing is answered although a batch it saw is in flight.
        ForgetsTheBatchInFlight,
        /// Refusals do not wait for anything.
        RefusesAtOnce,
        /// A failure leaves the effects that gathered behind the failed batch.
        UndoesTheBatchInFlightAlone,
        /// A failure leaves the effects of the failed batch.
        UndoesTheOpenBatchAlone,
        /// A store that failed is written to again without a scan.
        GoesOnAfterAFailure,
        /// A batch that nobody waits for is not written.
        DropsABatchOfNobody,
        /// A lease that grows while a batch is open already is not written again.
        RenewsInMemoryAlone,
        /// A restart hands out the last sequence of the lease again.
        ResumesInsideTheLease,
        /// Streams retire by the wall clock alone.
        TrustsTheWallClock,
        /// Retiring a stream raises no floor.
        RaisesNoFloor,
        /// A late transaction of a stream that started again is not judged by the floor.
        AsksNoFloorOfLateOnes,
        /// New streams are taken by a clock that is behind a retirement.
        BelievesAClockSetBack,
    }

    thread_local! {
        static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    pub(in crate::replay) fn is_on(mutant: Mutant) -> bool {
        ON.get() == Some(mutant)
    }

    /// Runs `check` on the engine, broken so.
    pub(in crate::replay) fn with<R>(mutant: Mutant, check: impl FnOnce() -> R) -> R {
        ON.set(Some(mutant));
        let result = check();
        ON.set(None);
        result
    }
}
