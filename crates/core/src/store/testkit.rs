//! The suite that every record store runs, whatever it keeps its records on: one case a law.
//!
//! A store under test is a [`Subject`]. The cases are written once, as futures, since a browser's
//! store answers later; a native store answers at once ([`at_once`]).

pub mod conformance;
mod model;
pub mod splice;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::{Change, RecordName, Scan, StoreError};

pub use model::{Changes, Model, after, batch, judge, name, value};

/// How much a store may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// More than any case reaches.
    Ample,
    /// So many records, of so many bytes together, and no more.
    Of {
        /// How many records.
        records: u64,
        /// The sum of their lengths.
        record_bytes: u64,
    },
}

/// One store under test, and how something outside it would harm it. The store is closed while
/// it is harmed.
#[expect(async_fn_in_trait, reason = "the suites run on one thread")]
pub trait Subject: Sized {
    /// The store, open.
    type Store: OpenStore;

    /// The same subject with nothing made yet.
    fn fresh(&self) -> Self;

    /// Opens the store, and makes it if there is none.
    ///
    /// # Errors
    /// As the store says.
    async fn open(&self, budget: Budget) -> Result<Self::Store, StoreError>;

    /// Closes it as its owner does.
    async fn close(&self, store: Self::Store);

    /// Ends its owner without notice: what was not promised is lost, where the subject can do that.
    async fn crash(&self, store: Self::Store);

    /// Flips one bit of a record.
    async fn damage(&self, name: RecordName);

    /// Takes one record away.
    async fn take_away(&self, name: RecordName);

    /// Puts a copy of one record in the place of another of the same length.
    async fn misplace(&self, of: RecordName, under: RecordName);

    /// How often anything was read so far.
    fn reads(&self) -> u64;

    /// Lets the next commit fail.
    fn fail_next_commit(&self);

    /// Lets no commit fail any more, and tells whether one did.
    fn heal(&self) -> bool;

    /// Whether what was moved aside is still kept in this place.
    async fn keeps(&self, kept: &str) -> bool;

    /// Who an opener is told has the store open.
    fn owner(&self) -> Option<u32>;
}

/// An open store, as the suites use it.
#[expect(async_fn_in_trait, reason = "the suites run on one thread")]
pub trait OpenStore {
    /// As [`RecordStore::scan`](super::RecordStore::scan).
    ///
    /// # Errors
    /// As there.
    async fn scan(&mut self) -> Result<Scan, StoreError>;

    /// As [`RecordStore::write`](super::RecordStore::write).
    ///
    /// # Errors
    /// As there.
    async fn write(&mut self, batch: &[Change]) -> Result<(), StoreError>;

    /// As [`RecordStore::seal`](super::RecordStore::seal).
    ///
    /// # Errors
    /// As there.
    async fn seal(&mut self) -> Result<(), StoreError>;

    /// Moves one record aside, and tells where it is kept.
    ///
    /// # Errors
    /// [`StoreError::UnknownRecord`] when there is none of this name.
    async fn clear(&mut self, name: RecordName) -> Result<String, StoreError>;
}

/// What a case of a store that never waits comes to.
///
/// # Errors
/// When it waited.
pub fn at_once<T>(case: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(case).poll(&mut context) {
        Poll::Ready(result) => result,
        Poll::Pending => Err("the store waited".into()),
    }
}
