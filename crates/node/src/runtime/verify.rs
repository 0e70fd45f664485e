//! Verification workers: a bounded pool of threads that check signatures, and seal and open messages.
//!
//! Strict Ed25519 checks are what an admission costs, and they would hold up an asynchronous
//! worker. There is a worker a core: the driver and the store's writer sleep most of the time, and a
//! thread that wakes goes before those that compute. The bench `admissions/whole` measures what that
//! leaves of the rate that the same cores reach verifying only. Results come back in any order; the peer
//! puts each lane's back in the order its frames arrived.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use tokio::sync::mpsc::UnboundedSender;

use crate::peer::{
    DISPATCH_QUEUE_MAX, PENDING_SENDS_MAX, SealJob, SealResult, SealTicket, VerifyJob,
    VerifyResult, VerifyTicket,
};

/// Frames handed to the workers and not yet back. Beyond it the driver reads no link events:
/// the credit of the links then holds the far side.
pub(crate) const VERIFY_OUTSTANDING_MAX: usize = 1_024;

/// What the pool's queue holds at most: every frame that is to be verified, every send under way that is
/// to be sealed, every admitted message of the one class that is sealed, to be opened.
const JOBS_MAX: usize = VERIFY_OUTSTANDING_MAX + PENDING_SENDS_MAX + DISPATCH_QUEUE_MAX;

/// Work for the pool.
pub(crate) enum Job {
    /// Signatures to check.
    Verify(VerifyTicket, VerifyJob),
    /// A message to seal or to open.
    Seal(SealTicket, SealJob),
}

/// What a worker found.
pub(crate) enum Worked {
    /// Of signatures.
    Verified(VerifyTicket, VerifyResult),
    /// Of a message.
    Sealed(SealTicket, SealResult),
}

/// The pool. Dropping it ends the workers once the queue is empty.
pub(crate) struct Workers {
    jobs: async_channel::Sender<Job>,
}

impl Workers {
    /// Starts a worker a core.
    ///
    /// # Errors
    /// When the platform starts no thread.
    pub(crate) fn start(results: &UnboundedSender<Worked>) -> std::io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        // The driver and the peer keep what is outstanding under the bounds, so this queue never fills.
        let (jobs, queue) = async_channel::bounded(JOBS_MAX);
        for worker in 0..cores {
            let (queue, results) = (queue.clone(), results.clone());
            thread::Builder::new()
                .name(format!("overlane-verify-{worker}"))
                .spawn(move || run(&queue, &results))?;
        }
        Ok(Self { jobs })
    }

    /// A pool without workers, and the queue they would take from.
    #[cfg(test)]
    pub(super) fn idle() -> (Self, async_channel::Receiver<Job>) {
        let (jobs, queue) = async_channel::bounded(JOBS_MAX);
        (Self { jobs }, queue)
    }

    /// Hands a frame to the pool.
    ///
    /// # Errors
    /// The ticket, when the pool has stopped or its queue is full.
    pub(crate) fn verify(&self, ticket: VerifyTicket, job: VerifyJob) -> Result<(), VerifyTicket> {
        let given = self.jobs.try_send(Job::Verify(ticket, job));
        given.map_err(|_| ticket)
    }

    /// Hands a message to the pool, to be sealed or opened.
    ///
    /// # Errors
    /// The ticket, as of [`verify`](Self::verify).
    pub(crate) fn seal(&self, ticket: SealTicket, job: SealJob) -> Result<(), SealTicket> {
        let given = self.jobs.try_send(Job::Seal(ticket, job));
        given.map_err(|_| ticket)
    }
}

fn run(queue: &async_channel::Receiver<Job>, results: &UnboundedSender<Worked>) {
    while let Ok(job) = queue.recv_blocking() {
        // One hostile frame that found a way to panic must not stop the pool.
        let worked = match job {
            Job::Verify(ticket, job) => {
                let result = catch_unwind(AssertUnwindSafe(|| job.run()));
                let stopped = |_| Err(crate::peer::Refusal::VerifierStopped);
                Worked::Verified(ticket, result.unwrap_or_else(stopped))
            }
            Job::Seal(ticket, job) => {
                let result = catch_unwind(AssertUnwindSafe(|| job.run()));
                Worked::Sealed(ticket, result.unwrap_or_else(|_| SealResult::stopped()))
            }
        };
        if results.send(worked).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::Class;
    use overlane_core::store::Scan;
    use tokio::sync::mpsc;

    use super::super::fixture::{frame, frame_of, life, signer};
    use super::*;
    use crate::link::LinkId;
    use crate::peer::{Effect, Now, Peer};

    const NOW: Now = Now {
        wall_ms: 1_800_000_000_000,
        steady_ms: 0,
    };

    #[test]
    fn a_full_pool_gives_a_ticket_back_and_loses_none_that_it_took() {
        let signer = signer(NOW.wall_ms);
        let frame = frame(&signer, life(NOW.wall_ms));
        let did = signer.did();
        let mut peer = Peer::new(signer.into(), Some(Scan::default()), NOW);
        peer.handle_link_up(LinkId(1), did, None, NOW);
        let (workers, queue) = Workers::idle();
        let mut taken = Vec::new();
        let mut refused = Vec::new();
        for _ in 0..=JOBS_MAX {
            peer.handle_frame(LinkId(1), Class::Control, &frame, NOW);
            while let Some(effect) = peer.poll_effect() {
                if let Effect::Verify { ticket, job } = effect {
                    match workers.verify(ticket, job) {
                        Ok(()) => taken.push(ticket),
                        Err(ticket) => refused.push(ticket),
                    }
                }
            }
        }
        assert_eq!((taken.len(), refused.len()), (JOBS_MAX, 1));
        // A worker that comes at last does all of it, and ends with the pool.
        drop(workers);
        let (results, mut found) = mpsc::unbounded_channel();
        run(&queue, &results);
        drop(results);
        let mut done = Vec::new();
        while let Some(worked) = found.blocking_recv() {
            let Worked::Verified(ticket, result) = worked else {
                panic!("nothing was to be sealed");
            };
            assert!(result.is_ok(), "{result:?}");
            done.push(ticket);
        }
        assert_eq!(done, taken);
    }

    #[test]
    fn law_bounded_wait_a_peers_batch_waits_for_what_is_being_verified() {
        let signer = signer(NOW.wall_ms);
        let frames = [5, 6, 7].map(|sequence| frame_of(&signer, life(NOW.wall_ms), sequence));
        let did = signer.did();
        let mut peer = Peer::new(signer.into(), Some(Scan::default()), NOW);
        peer.handle_link_up(LinkId(1), did, None, NOW);
        let mut with_workers = Vec::new();
        for frame in &frames {
            peer.handle_frame(LinkId(1), Class::Control, frame, NOW);
        }
        let mut written = Vec::new();
        let mut drain = |peer: &mut Peer, with_workers: &mut Vec<_>| {
            while let Some(effect) = peer.poll_effect() {
                match effect {
                    Effect::Verify { ticket, job } => with_workers.push((ticket, job)),
                    Effect::Write(batch) => {
                        written.push(batch.id);
                        peer.handle_batch_done(batch.id, Ok(()), NOW);
                    }
                    _ => {}
                }
            }
            written.len()
        };
        assert_eq!(drain(&mut peer, &mut with_workers), 0);
        for (ticket, job) in std::mem::take(&mut with_workers) {
            assert_eq!(
                drain(&mut peer, &mut with_workers),
                0,
                "some are verified yet"
            );
            peer.handle_verified(ticket, job.run(), NOW);
        }
        assert_eq!(
            drain(&mut peer, &mut with_workers),
            1,
            "one flush for all three"
        );
    }
}
