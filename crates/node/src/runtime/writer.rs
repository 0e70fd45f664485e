//! The one thread that owns the record store.
//!
//! A store's call blocks until it is durable, so it never runs on an asynchronous worker. One
//! batch is in flight at a time; what it decided is released only by the word that comes back
//! from here. A store that panics is a store that failed: that batch and every later one is
//! reported so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use overlane_core::replay::{Batch, BatchId};
use overlane_core::store::{RecordStore, Scan, StoreError};
use tokio::sync::mpsc as tokio_mpsc;
use tokio::sync::oneshot;

/// How long the store is idle before the end of what was written is marked.
const SEAL_AFTER: Duration = Duration::from_millis(5);

/// What became of a batch.
pub(crate) type BatchDone = (BatchId, Result<(), StoreError>);

/// The handle to the store's thread. Dropping it closes the store once the batch in flight is
/// written.
pub(crate) struct Writer {
    batches: mpsc::SyncSender<Batch>,
    closed: oneshot::Receiver<()>,
}

impl Writer {
    /// Starts the thread and scans the store on it. Results of batches go to `done`.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be listed, or its thread not started.
    pub(crate) async fn start(
        store: Box<dyn RecordStore>,
        done: tokio_mpsc::UnboundedSender<BatchDone>,
    ) -> Result<(Self, Scan), StoreError> {
        // One place: the engine has one batch in flight, so handing one over never blocks.
        let (batches, inbox) = mpsc::sync_channel(1);
        let (scanned, scan) = oneshot::channel();
        let (closing, closed) = oneshot::channel();
        thread::Builder::new()
            .name("overlane-store".to_owned())
            .spawn(move || {
                run(store, &inbox, scanned, &done);
                // The store is closed by now: whoever waits may open it again.
                let _ = closing.send(());
            })
            .map_err(|cause| StoreError::Io {
                action: "start the thread of",
                path: "the record store".to_owned(),
                cause: cause.to_string(),
            })?;
        let scan = scan.await.unwrap_or_else(|_| Err(stopped()))?;
        Ok((Self { batches, closed }, scan))
    }

    /// Hands a batch over. Its result comes through the `done` channel, also when the thread is
    /// gone.
    ///
    /// # Errors
    /// The batch's result, when the thread cannot take it.
    pub(crate) fn write(&self, batch: Batch) -> Result<(), BatchDone> {
        self.batches.try_send(batch).map_err(|refused| {
            let (mpsc::TrySendError::Full(batch) | mpsc::TrySendError::Disconnected(batch)) =
                refused;
            (batch.id, Err(stopped()))
        })
    }

    /// Closes the store and waits until it is closed.
    pub(crate) async fn close(self) {
        drop(self.batches);
        let _ = self.closed.await;
    }
}

fn run(
    store: Box<dyn RecordStore>,
    inbox: &mpsc::Receiver<Batch>,
    scanned: oneshot::Sender<Result<Scan, StoreError>>,
    done: &tokio_mpsc::UnboundedSender<BatchDone>,
) {
    let mut store = Guarded {
        store,
        panicked: false,
    };
    let scan = store.call(|store| store.scan());
    let listed = scan.is_ok();
    if scanned.send(scan).is_err() || !listed {
        return;
    }
    let mut sealed = true;
    loop {
        let next = if sealed {
            inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            inbox.recv_timeout(SEAL_AFTER)
        };
        match next {
            Ok(batch) => {
                sealed = false;
                let result = store.call(|store| store.write(&batch.changes));
                if done.send((batch.id, result)).is_err() {
                    break;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                sealed = true;
                store.seal();
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if !sealed {
        store.seal();
    }
}

/// The store, and whether it panicked. A store that fails poisons itself; one that panicked may
/// be in any state, so it is not called again.
struct Guarded {
    store: Box<dyn RecordStore>,
    panicked: bool,
}

impl Guarded {
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

pub(super) fn stopped() -> StoreError {
    StoreError::Poisoned {
        cause: "the record store stopped in the middle of a call".to_owned(),
    }
}
