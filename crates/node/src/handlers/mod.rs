//! Serves admitted messages with a handler of the application's, beside each other where streams
//! differ.
//!
//! The desk decides (law *handler deadline*); this task begins handlers, ends them, and holds each
//! message's place on the application's side until its handler is done, so that what may be handled and
//! may wait here is bounded there.

mod desk;

use std::collections::BTreeMap;
use std::future::Future;

use overlane_core::StreamKey;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Duration, Instant, sleep_until};

use crate::messages::{Ended, Messages, Place};
use crate::peer::Delivery;

pub use desk::HANDLER_DEADLINE_MS;
use desk::{Desk, Work, WorkId};

impl Messages {
    /// Handles every admitted message with `handler`, until the node has shut down and no message is
    /// left. The messages of one stream are handled one after another, in their order; those of
    /// different streams beside each other. A handler that takes longer than [`HANDLER_DEADLINE_MS`] is
    /// dropped where it waits, counted (`handlers_late`), and its stream goes on; so is one that
    /// panics (`handlers_broken`). In neither case is the message handled again.
    ///
    /// Dropping the future ends the handlers that run; what they had is not handled again either.
    ///
    /// A handler answers with [`Node::post`](crate::Node::post), which never waits. One that blocks its
    /// thread cannot be dropped; its stream goes on all the same.
    pub async fn serve<H, F>(&self, handler: H)
    where
        H: Fn(Delivery) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let next = || async {
            let (delivery, place) = self.next_held().await?;
            Some((delivery.item().stream(), delivery, place))
        };
        serve(HANDLER_DEADLINE_MS, Steady::default(), next, handler).await;
    }
}

/// The time that handlers are held to.
trait Time {
    /// Milliseconds since the serving began.
    fn now_ms(&self) -> u64;

    /// Waits until then.
    fn until(&self, due_ms: u64) -> impl Future<Output = ()> + Send;
}

/// The system's steady clock.
struct Steady(Instant);

impl Default for Steady {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Time for Steady {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn until(&self, due_ms: u64) {
        match self.0.checked_add(Duration::from_millis(due_ms)) {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

/// Handles what `next` gives until it gives no more.
async fn serve<T, C, N, G, H, F>(deadline_ms: u64, time: C, next: N, handler: H)
where
    C: Time,
    N: Fn() -> G,
    G: Future<Output = Option<(StreamKey, T, Place)>>,
    H: Fn(T) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let mut hands = Hands::new(deadline_ms, time);
    let mut open = true;
    while open || !hands.desk.is_idle() {
        let due_ms = hands.desk.poll_timeout();
        tokio::select! {
            // What is done is done, also if its time ran out while nobody looked.
            biased;
            Some(done) = hands.tasks.join_next_with_id() => hands.handle_done(&done),
            () = hands.time.until(due_ms.unwrap_or_default()), if due_ms.is_some() => {
                hands.handle_timeout();
            }
            next = next(), if open => match next {
                Some((stream, message, place)) => {
                    let now_ms = hands.time.now_ms();
                    hands.desk.handle_message(stream, (message, place), now_ms);
                }
                None => open = false,
            },
        }
        while let Some(work) = hands.desk.poll_work() {
            match work {
                Work::Begin(id, (message, place)) => hands.begin(id, place, handler(message)),
                Work::End(id) => hands.end(id),
            }
        }
    }
}

/// The handlers that run.
struct Hands<T, C> {
    time: C,
    desk: Desk<(T, Place)>,
    tasks: JoinSet<()>,
    running: BTreeMap<WorkId, (AbortHandle, Place)>,
    of: BTreeMap<Id, WorkId>,
}

impl<T, C: Time> Hands<T, C> {
    fn new(deadline_ms: u64, time: C) -> Self {
        Self {
            time,
            desk: Desk::new(deadline_ms),
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            of: BTreeMap::new(),
        }
    }

    fn begin(
        &mut self,
        id: WorkId,
        place: Place,
        handling: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = self.tasks.spawn(handling);
        self.of.insert(task.id(), id);
        self.running.insert(id, (task, place));
    }

    /// A handler's time is over.
    fn end(&mut self, id: WorkId) {
        if let Some((task, place)) = self.running.remove(&id) {
            task.abort();
            tracing::warn!("a handler was ended: it took longer than it may");
            place.ended(Ended::Late);
        }
    }

    fn handle_timeout(&mut self) {
        let now_ms = self.time.now_ms();
        self.desk.handle_timeout(now_ms);
    }

    fn handle_done(&mut self, done: &Result<(Id, ()), JoinError>) {
        let (task, broke) = match done {
            Ok((task, ())) => (*task, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let Some(id) = self.of.remove(&task) else {
            return;
        };
        if let Some((_, place)) = self.running.remove(&id) {
            if broke {
                tracing::error!("a handler panicked: its message is not handled again");
            }
            place.ended(if broke { Ended::Broke } else { Ended::Taken });
        }
        let now_ms = self.time.now_ms();
        self.desk.handle_done(id, now_ms);
    }
}

#[cfg(test)]
mod tests;
