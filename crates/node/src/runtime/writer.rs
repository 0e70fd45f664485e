//! The one thread that owns the record store.
//!
//! A store's call blocks until it is durable, so it never runs on an asynchronous worker. One
//! batch is in flight at a time; what it decided is released only by the word that comes back
//! from here. What the thread and the driver say to each other is the hand-off's (`handoff`);
//! here are the channels that a node carries it on.

use std::sync::mpsc::{self, RecvTimeoutError, TrySendError};
use std::thread;
use std::time::Duration;

use overlane_core::replay::Batch;
use overlane_core::store::{RecordStore, Scan, StoreError};
use tokio::sync::mpsc as tokio_mpsc;
use tokio::sync::oneshot;

use super::handoff::{BatchDone, Guarded, Inbox, Next, Outbox, Results, hand_over, stopped};

/// How long the store is idle before the end of what was written is marked.
const SEAL_AFTER: Duration = Duration::from_millis(5);

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
                let mut store = Guarded::new(store);
                let scan = store.scan();
                let listed = scan.is_ok();
                if scanned.send(scan).is_ok() && listed {
                    store.serve(&inbox, &done);
                } else {
                    drop(store);
                }
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

    /// Hands a batch over. Its result comes through the `done` channel.
    ///
    /// # Errors
    /// The batch's result, when the thread cannot take it.
    pub(crate) fn write(&self, batch: Batch) -> Result<(), BatchDone> {
        hand_over(batch, &self.batches)
    }

    /// Closes the store and waits until it is closed.
    pub(crate) async fn close(self) {
        drop(self.batches);
        let _ = self.closed.await;
    }
}

impl Outbox for mpsc::SyncSender<Batch> {
    fn put(&self, batch: Batch) -> Result<(), Batch> {
        self.try_send(batch).map_err(|refused| match refused {
            TrySendError::Full(batch) | TrySendError::Disconnected(batch) => batch,
        })
    }
}

impl Inbox for mpsc::Receiver<Batch> {
    fn next(&self, idle_ends: bool) -> Next {
        let next = if idle_ends {
            self.recv_timeout(SEAL_AFTER)
        } else {
            self.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match next {
            Ok(batch) => Next::Write(batch),
            Err(RecvTimeoutError::Timeout) => Next::Idle,
            Err(RecvTimeoutError::Disconnected) => Next::HungUp,
        }
    }
}

impl Results for tokio_mpsc::UnboundedSender<BatchDone> {
    fn tell(&self, done: BatchDone) -> bool {
        self.send(done).is_ok()
    }
}
