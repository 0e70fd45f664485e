//! From the signed payload to the disk, as a node's threads share the work: a verification worker
//! a core, one thread that drives the engine, one that owns the store. A batch waits for what is being verified as a
//! node's does (`replay::Gather`).
//!
//! `verify_only` runs the same loop without engine and store: what the cores reach at most. The
//! ratio of the two is what an admission costs beside its signatures.

use std::hint::black_box;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use overlane_core::replay::{Batch, BatchId};
use overlane_core::store::{RecordStore, StoreError};
use overlane_core::transaction::Payload;

use crate::support::{Admissions, known, payload, verify_context};

/// What comes back to the driving thread.
enum Done {
    Verified,
    Written(BatchId, Result<(), StoreError>),
}

/// A verification worker a core.
pub(crate) struct Workers {
    jobs: async_channel::Sender<Payload>,
    payload: Payload,
    done: Receiver<Done>,
    done_out: Sender<Done>,
}

impl Workers {
    pub(crate) fn start() -> Self {
        let (jobs, queue) = async_channel::unbounded::<Payload>();
        let (done_out, done) = mpsc::channel();
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (queue, done) = (queue.clone(), done_out.clone());
            thread::spawn(move || {
                while let Ok(payload) = queue.recv_blocking() {
                    assert!(black_box(payload.verify(&verify_context())).is_ok());
                    if done.send(Done::Verified).is_err() {
                        return;
                    }
                }
            });
        }
        Self {
            jobs,
            payload: known(payload()),
            done,
            done_out,
        }
    }

    fn submit(&self, count: usize) {
        for _ in 0..count {
            assert!(self.jobs.try_send(self.payload.clone()).is_ok());
        }
    }

    /// Waits for the next thing done, then takes what else is.
    fn next(&self) -> impl Iterator<Item = Done> {
        self.done.recv().into_iter().chain(self.done.try_iter())
    }

    /// Verifies `count` payloads, `in_flight` of them at any time.
    pub(crate) fn verify_only(&self, count: usize, in_flight: usize) -> Duration {
        let started = Instant::now();
        let mut asked = in_flight.min(count);
        self.submit(asked);
        let mut verified = 0;
        while verified < count {
            let came = self.next().count();
            verified += came;
            let more = came.min(count - asked);
            self.submit(more);
            asked += more;
        }
        started.elapsed()
    }

    /// Verifies `count` payloads and makes their admissions durable, `in_flight` of them on the
    /// way at any time.
    pub(crate) fn admit(
        &self,
        writer: &Writer,
        admissions: &mut Admissions,
        count: usize,
        in_flight: usize,
    ) -> Duration {
        let started = Instant::now();
        let mut asked = in_flight.min(count);
        self.submit(asked);
        let mut verifying = asked;
        let mut admitted = 0;
        while admitted < count {
            for done in self.next() {
                match done {
                    Done::Verified => {
                        verifying -= 1;
                        admissions.stage_verified();
                    }
                    Done::Written(id, written) => admissions.done(id, written),
                }
            }
            if let Some(batch) = admissions.gather_batch(verifying) {
                writer.write(batch);
            }
            let came = admissions.poll_admitted();
            admitted += came;
            let more = came.min(count - asked);
            self.submit(more);
            asked += more;
            verifying += more;
        }
        started.elapsed()
    }
}

/// The thread that owns the store.
pub(crate) struct Writer {
    batches: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn start(mut store: Box<dyn RecordStore>, workers: &Workers) -> Self {
        let (batches, inbox) = mpsc::sync_channel::<Batch>(1);
        let done = workers.done_out.clone();
        let thread = thread::spawn(move || {
            for batch in inbox {
                let written = store.write(&batch.changes);
                if done.send(Done::Written(batch.id, written)).is_err() {
                    return;
                }
            }
        });
        Self {
            batches: Some(batches),
            thread: Some(thread),
        }
    }

    fn write(&self, batch: Batch) {
        let batches = self.batches.as_ref();
        assert!(batches.is_some_and(|batches| batches.send(batch).is_ok()));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.batches.take());
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok());
        }
    }
}
