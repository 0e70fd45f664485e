//! What the algorithm needs of a set, so that a log on disk can answer without being loaded.

use core::convert::Infallible;
use core::ops::Range;

use crate::fingerprint;
use crate::item::{Fingerprint, Record};

/// A set of items in the order of their records. Positions count items from the start, from zero.
///
/// Law asked of an implementation: between two calls of one message the set does not change, no two records are
/// equal, and none has the seq 2^64-1.
pub trait Storage {
    /// What reading can fail with: [`Infallible`] in memory.
    type Error: core::error::Error + 'static;

    /// Items below `bound` by seq: the position at which a range from `bound` starts.
    fn position(&mut self, bound: u64) -> Result<usize, Self::Error>;

    /// The seq of the item at `position`, `None` past the end.
    fn seq_at(&mut self, position: usize) -> Result<Option<u64>, Self::Error>;

    /// Hands the records of `range` to `each`, in order, in as few runs as is convenient.
    fn visit(
        &mut self,
        range: Range<usize>,
        each: &mut dyn FnMut(&[Record]),
    ) -> Result<(), Self::Error>;

    /// The fingerprint over `range`. An implementation that keeps some overrides this.
    fn fingerprint(&mut self, range: Range<usize>) -> Result<Fingerprint, Self::Error> {
        fingerprint::of_range(self, range)
    }

    /// Bytes read or hashed since the storage was made, to charge a peer for the work it causes. Zero if not counted.
    fn work_bytes(&self) -> u64 {
        0
    }
}

/// Takes a result that cannot fail apart.
pub(crate) fn infallible<T>(result: Result<T, Infallible>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}
