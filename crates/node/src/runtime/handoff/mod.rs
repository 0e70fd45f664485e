//! The hand-off between the driver and the store's thread, whatever carries it.
//!
//! The driver takes a batch from the engine and hands it over; the thread writes it and tells what
//! became of it; only that word releases what the batch decided. Both ends are generic over what
//! lies between them, so that a checker of schedules runs the very code that a node runs.
//!
//! Laws: **told after** — a batch is told to be durable after the store said so and never before;
//! **every batch is told** — one that was handed over is written and told, in the order given,
//! also when the driver hangs up at once, and one that cannot be handed over is told by the
//! refusal; **closed after** — the thread ends only once what it wrote is marked. A store that
//! panics is a store that failed: that batch and every later one is told so.

#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};

use overlane_core::replay::{Batch, BatchId};
use overlane_core::store::{RecordStore, Scan, StoreError};

/// What became of a batch.
pub(crate) type BatchDone = (BatchId, Result<(), StoreError>);

/// The driver's end of the way to the store's thread. Dropping it hangs up.
pub(super) trait Outbox {
    /// Puts a batch on the way without blocking.
    ///
    /// # Errors
    /// The batch, when the thread is gone or has one waiting.
    fn put(&self, batch: Batch) -> Result<(), Batch>;
}

/// The thread's end of that way.
pub(super) trait Inbox {
    /// Waits for the next batch; if `idle_ends`, for a few idle milliseconds at most.
    fn next(&self, idle_ends: bool) -> Next;
}

/// What the store's thread does next.
#[derive(Debug)]
pub(super) enum Next {
    /// Write it.
    Write(Batch),
    /// Nothing came for a while.
    Idle,
    /// The driver hung up, and nothing is left.
    HungUp,
}

/// The thread's way back to the driver.
pub(super) trait Results {
    /// Tells what became of a batch; `false` when nobody listens any more.
    fn tell(&self, done: BatchDone) -> bool;
}

/// Hands a batch over. Its result comes back by the [`Results`].
///
/// # Errors
/// The batch's result, when the thread cannot take it.
pub(super) fn hand_over(batch: Batch, outbox: &impl Outbox) -> Result<(), BatchDone> {
    outbox
        .put(batch)
        .map_err(|batch| (batch.id, Err(stopped())))
}

/// The store on its thread, and whether it panicked. A store that fails poisons itself; one that
/// panicked may be in any state, so it is not called again.
pub(super) struct Guarded {
    store: Box<dyn RecordStore>,
    panicked: bool,
}

impl Guarded {
    pub(super) fn new(store: Box<dyn RecordStore>) -> Self {
        Self {
            store,
            panicked: false,
        }
    }

    /// Reads everything once.
    pub(super) fn scan(&mut self) -> Result<Scan, StoreError> {
        self.call(|store| store.scan())
    }

    /// Writes what comes until the driver hangs up, then closes the store.
    pub(super) fn serve(mut self, inbox: &impl Inbox, results: &impl Results) {
        let mut sealed = true;
        loop {
            match inbox.next(!sealed) {
                Next::Write(batch) => {
                    sealed = false;
                    let result = self.call(|store| store.write(&batch.changes));
                    if !results.tell((batch.id, result)) {
                        break;
                    }
                }
                Next::Idle => {
                    sealed = true;
                    self.seal();
                }
                Next::HungUp => break,
            }
        }
        if !sealed {
            self.seal();
        }
    }

    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut dyn RecordStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.panicked {
            return Err(stopped());
        }
        let store = self.store.as_mut();
        catch_unwind(AssertUnwindSafe(|| call(store))).unwrap_or_else(|_| {
            self.panicked = true;
            Err(stopped())
        })
    }

    /// Marks the end of what was written. A failure poisons the store; the next batch tells.
    fn seal(&mut self) {
        if let Err(error) = self.call(|store| store.seal()) {
            tracing::error!(%error, "the record store could not mark the end of what it wrote");
        }
    }
}

/// Why a batch was not written: the store's thread, or the store in a call, stopped.
pub(super) fn stopped() -> StoreError {
    StoreError::Poisoned {
        cause: "the record store stopped in the middle of a call".to_owned(),
    }
}
