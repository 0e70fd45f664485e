//! The one thread that owns the store of references.
//!
//! A commit blocks until it is durable, so it never runs on an asynchronous worker. One is on its way
//! at a time; what it decided is told only by the word that comes back from here. A store that
//! panics is a store that failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, TrySendError};
use std::thread;

use overlane_relay::refs::store::{Row, Store};
use overlane_relay::refs::table::Change;
use tokio::sync::{mpsc as tokio_mpsc, oneshot};

use crate::error::NodeError;
use crate::peer::refs::{Commit, CommitId};

/// A store of references, whatever its errors are.
pub(crate) trait AnyStore: Send {
    fn rows(&mut self) -> Result<Vec<Row>, String>;
    fn commit(&mut self, changes: Vec<Change>) -> Result<(), String>;
}

impl<S> AnyStore for S
where
    S: Store + Send,
    S::Error: std::fmt::Display,
{
    fn rows(&mut self) -> Result<Vec<Row>, String> {
        Store::rows(self).map_err(|error| error.to_string())
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), String> {
        Store::commit(self, changes).map_err(|error| error.to_string())
    }
}

/// What became of a commit.
pub(crate) type Committed = (CommitId, Result<(), String>);

/// The handle to the thread. Dropping it closes the store once the commit on its way is done.
pub(crate) struct Committer {
    commits: mpsc::SyncSender<Commit>,
    closed: oneshot::Receiver<()>,
}

impl Committer {
    /// Starts the thread, and reads what the store holds on it.
    ///
    /// # Errors
    /// [`NodeError`]: no thread, or a store that cannot be read.
    pub(crate) async fn start(
        store: Box<dyn AnyStore>,
        done: tokio_mpsc::UnboundedSender<Committed>,
    ) -> Result<(Self, Vec<Row>), NodeError> {
        // One place: one commit is on its way, so handing one over never blocks.
        let (commits, inbox) = mpsc::sync_channel::<Commit>(1);
        let (read, rows) = oneshot::channel();
        let (closing, closed) = oneshot::channel();
        let thread = thread::Builder::new().name("overlane-refs".to_owned());
        let started = thread.spawn(move || {
            let mut store = store;
            let rows = guarded(|| store.rows());
            let usable = rows.is_ok();
            if read.send(rows).is_ok() && usable {
                while let Ok(Commit { id, changes }) = inbox.recv() {
                    let result = guarded(|| store.commit(changes));
                    let failed = result.is_err();
                    // After a failure the store is in no state that anything is built on.
                    if done.send((id, result)).is_err() || failed {
                        break;
                    }
                }
            }
            drop(store);
            // The store is closed by now: whoever waits may open it again.
            let _ = closing.send(());
        });
        started.map_err(|cause| NodeError::Thread {
            cause: cause.to_string(),
        })?;
        let rows = rows.await.unwrap_or_else(|_| Err(stopped()));
        let rows = rows.map_err(|cause| NodeError::ReferenceStore { cause })?;
        Ok((Self { commits, closed }, rows))
    }

    /// Hands a commit over. Its result comes through the `done` channel.
    ///
    /// # Errors
    /// The commit's result, when the thread cannot take it.
    pub(crate) fn commit(&self, commit: Commit) -> Result<(), Committed> {
        self.commits.try_send(commit).map_err(|refused| {
            let (TrySendError::Full(commit) | TrySendError::Disconnected(commit)) = refused;
            (commit.id, Err(stopped()))
        })
    }

    /// Closes the store and waits until it is closed.
    pub(crate) async fn close(self) {
        drop(self.commits);
        let _ = self.closed.await;
    }
}

fn guarded<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(stopped()))
}

/// Why a commit is not known to be durable: the thread, or the store in a call, stopped.
pub(crate) fn stopped() -> String {
    "the store of references stopped in the middle of a call".to_owned()
}
