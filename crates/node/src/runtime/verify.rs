//! Verification workers: a bounded pool of threads that check signatures.
//!
//! Strict Ed25519 checks are what an admission costs, and they would hold up an asynchronous
//! worker. The pool leaves one core to the driver and the store's writer. Results come back in
//! any order; the peer puts each lane's back in the order its frames arrived.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use tokio::sync::mpsc::UnboundedSender;

use crate::peer::{VerifyJob, VerifyResult, VerifyTicket};

/// Frames handed to the workers and not yet back. Beyond it the driver reads no link events:
/// the credit of the links then holds the far side.
pub(crate) const VERIFY_OUTSTANDING_MAX: usize = 1_024;

/// What a worker found.
pub(crate) type Verification = (VerifyTicket, VerifyResult);

/// The pool. Dropping it ends the workers once the queue is empty.
pub(crate) struct Workers {
    jobs: async_channel::Sender<(VerifyTicket, VerifyJob)>,
}

impl Workers {
    /// Starts as many workers as there are cores but one, and at least one.
    ///
    /// # Errors
    /// When the platform starts no thread.
    pub(crate) fn start(results: &UnboundedSender<Verification>) -> std::io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        // The driver keeps what is outstanding under the bound, so this queue never fills.
        let (jobs, queue) = async_channel::bounded(VERIFY_OUTSTANDING_MAX);
        for worker in 0..cores.saturating_sub(1).max(1) {
            let (queue, results) = (queue.clone(), results.clone());
            thread::Builder::new()
                .name(format!("overlane-verify-{worker}"))
                .spawn(move || run(&queue, &results))?;
        }
        Ok(Self { jobs })
    }

    /// Hands a frame to the pool.
    ///
    /// # Errors
    /// The ticket, when the pool has stopped or its queue is full.
    pub(crate) fn verify(&self, ticket: VerifyTicket, job: VerifyJob) -> Result<(), VerifyTicket> {
        self.jobs
            .try_send((ticket, job))
            .map_err(|refused| refused.into_inner().0)
    }
}

fn run(
    queue: &async_channel::Receiver<(VerifyTicket, VerifyJob)>,
    results: &UnboundedSender<Verification>,
) {
    while let Ok((ticket, job)) = queue.recv_blocking() {
        // One hostile frame that found a way to panic must not stop the pool.
        let result = catch_unwind(AssertUnwindSafe(|| job.run()))
            .unwrap_or_else(|_| Err(crate::peer::Refusal::VerifierStopped));
        if results.send((ticket, result)).is_err() {
            return;
        }
    }
}
