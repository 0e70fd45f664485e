//! Deliberately broken variants of the stores, for the suites that must catch them. Without the
//! test kit there are none, and the questions below are answered by the compiler.

/// One way to break a store. Each is a line that one could take for superfluous.
#[cfg(any(test, feature = "testkit"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// The folder is never flushed.
    NoFolderFlush,
    /// New values are renamed without having been flushed.
    NoValueFlush,
    /// A marker is made before its record's rename is flushed.
    MarkerFirst,
    /// A removed record's marker is left to the flush that carries the removal.
    MarkerWithRecord,
    /// Frames are not flushed.
    NoFrameFlush,
    /// The first frame that does not read whole ends the journal.
    StopAtFirstBad,
    /// The first frame of an epoch follows the last one instead of taking its place.
    TrustLastFrame,
    /// A segment counts as free while its newest frame is the one that may not be durable.
    FreeSuperseded,
    /// Segments are free when the checkpoint begins.
    FreeAtBegin,
    /// The old snapshot goes before the new one is durable.
    OldSnapshotFirst,
    /// What a frame says about a record is not bound to its name.
    AnyName,
    /// A failed write is tried again.
    RetryFlush,
    /// The database's file is not flushed.
    NoDatabaseFlush,
    /// What the database's file shows at open is taken to be on the device.
    TrustCache,
    /// The kind is said before the database that is made is durable.
    KindFirst,
    /// The form is said before what makes it of the older one is durable.
    FormFirst,
    /// A log's index changes in a transaction of its own.
    IndexApart,
}

#[cfg(any(test, feature = "testkit"))]
mod active {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    impl Mutant {
        /// All of them.
        pub const ALL: [Self; 17] = [
            Self::NoFolderFlush,
            Self::NoValueFlush,
            Self::MarkerFirst,
            Self::MarkerWithRecord,
            Self::NoFrameFlush,
            Self::StopAtFirstBad,
            Self::TrustLastFrame,
            Self::FreeSuperseded,
            Self::FreeAtBegin,
            Self::OldSnapshotFirst,
            Self::AnyName,
            Self::RetryFlush,
            Self::NoDatabaseFlush,
            Self::TrustCache,
            Self::KindFirst,
            Self::FormFirst,
            Self::IndexApart,
        ];

        /// Runs `with` this thread's stores broken so.
        pub fn run<T>(self, with: impl FnOnce() -> T) -> T {
            ACTIVE.set(Some(self));
            let done = with();
            ACTIVE.set(None);
            done
        }
    }

    pub(crate) fn is(mutant: Mutant) -> bool {
        ACTIVE.get() == Some(mutant)
    }
}

#[cfg(any(test, feature = "testkit"))]
pub(crate) use active::is;

/// Whether this variant of the store is the one named; `false` in every build but a test's.
macro_rules! broken {
    ($mutant:ident) => {{
        #[cfg(any(test, feature = "testkit"))]
        {
            crate::mutant::is(crate::mutant::Mutant::$mutant)
        }
        #[cfg(not(any(test, feature = "testkit")))]
        {
            false
        }
    }};
}
pub(crate) use broken;
