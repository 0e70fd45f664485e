//! Where sends wait for a place, each destination in its own order.
//!
//! A send holds its place from here on until it has its result, whether or not anybody still waits for
//! that. Law **share**, as in the peer: whoever is stuck keeps nobody else's sends out. When a place
//! comes free, destinations take turns.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overlane_core::Did;
use tokio::sync::oneshot;

use crate::peer::{PENDING_SENDS_MAX, Shares};

/// The places of all sends.
#[derive(Debug)]
pub(crate) struct Places {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    shares: Shares,
    waiting: BTreeMap<Did, VecDeque<Waiting>>,
    /// Whose turn was last.
    last: Option<Did>,
}

#[derive(Debug)]
struct Waiting {
    bytes: u64,
    grant: oneshot::Sender<Place>,
}

/// The place of one send; it comes free when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    of: Arc<Places>,
    destination: Did,
    bytes: u64,
}

impl Places {
    /// As many places as a peer has, and so many bytes.
    pub(crate) fn new(max_bytes: u64) -> Arc<Self> {
        let state = State {
            shares: Shares::new(PENDING_SENDS_MAX, max_bytes),
            waiting: BTreeMap::new(),
            last: None,
        };
        let state = Mutex::new(state);
        Arc::new(Self { state })
    }

    /// A place, if there is one for this destination now and nobody waits for one before.
    pub(crate) fn take_now(self: &Arc<Self>, destination: Did, bytes: u64) -> Option<Place> {
        let mut state = self.lock();
        let free = !state.waiting.contains_key(&destination);
        let taken = free && state.shares.take(destination, bytes);
        taken.then(|| self.place(destination, bytes))
    }

    /// A place, once there is one. Dropping the future takes none.
    pub(crate) async fn take(self: &Arc<Self>, destination: Did, bytes: u64) -> Option<Place> {
        if let Some(place) = self.take_now(destination, bytes) {
            return Some(place);
        }
        let (grant, granted) = oneshot::channel();
        let waiting = Waiting { bytes, grant };
        let waits = self.lock().wait(destination, waiting);
        debug_assert!(waits, "a wait joins its destination's");
        self.serve();
        granted.await.ok()
    }

    /// Gives free places to those who wait.
    fn serve(self: &Arc<Self>) {
        loop {
            // Never sent under the lock: a place that nobody takes any more comes back at once.
            let Some((destination, waiting)) = self.lock().next_turn() else {
                return;
            };
            let place = self.place(destination, waiting.bytes);
            drop(waiting.grant.send(place));
        }
    }

    fn place(self: &Arc<Self>, destination: Did, bytes: u64) -> Place {
        let of = Arc::clone(self);
        Place {
            of,
            destination,
            bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave it half changed: each change is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wait(&mut self, destination: Did, waiting: Waiting) -> bool {
        let queue = self.waiting.entry(destination).or_default();
        queue.push_back(waiting);
        !queue.is_empty()
    }

    /// Takes a place for the next destination after the last one whose share allows it.
    fn next_turn(&mut self) -> Option<(Did, Waiting)> {
        self.waiting.retain(|_, queue| {
            queue.retain(|waiting| !waiting.grant.is_closed());
            !queue.is_empty()
        });
        let after = match self.last {
            Some(last) => (Bound::Excluded(last), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let shares = &mut self.shares;
        let mut may = |(&did, queue): (&Did, &VecDeque<Waiting>)| {
            let bytes = queue.front()?.bytes;
            shares.take(did, bytes).then_some(did)
        };
        let later = self.waiting.range(after).find_map(&mut may);
        let turn = later.or_else(|| self.waiting.iter().find_map(&mut may))?;
        self.last = Some(turn);
        let queue = self.waiting.get_mut(&turn)?;
        let next = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&turn);
        }
        Some((turn, next))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.of.lock();
        state.shares.give_back(self.destination, self.bytes);
        drop(state);
        self.of.serve();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::peer::PENDING_SENDS_MAX_BYTES;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn law_share_a_stuck_destination_leaves_places_to_other_sends() {
        let places = Places::new(PENDING_SENDS_MAX_BYTES);
        let (stuck, other) = (Did([1; 20]), Did([2; 20]));
        let mut held: Vec<_> = std::iter::from_fn(|| places.take_now(stuck, 1)).collect();
        assert_eq!(held.len(), PENDING_SENDS_MAX / 2);
        let mut first = pin!(places.take(stuck, 1));
        let mut second = pin!(places.take(stuck, 1));
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
        // Nobody else waits for it.
        assert!(matches!(
            poll(pin!(places.take(other, 1))),
            Poll::Ready(Some(_))
        ));
        // Its own go on in their order, also past who asks without waiting.
        drop(held.pop());
        assert!(places.take_now(stuck, 1).is_none());
        let Poll::Ready(Some(taken)) = poll(first.as_mut()) else {
            panic!("the first has the place")
        };
        assert!(poll(second.as_mut()).is_pending());
        drop(taken);
        assert!(poll(second.as_mut()).is_ready());
    }

    #[test]
    fn a_wait_that_was_dropped_takes_no_place() {
        let places = Places::new(PENDING_SENDS_MAX_BYTES);
        let to = Did([1; 20]);
        let mut held: Vec<_> = std::iter::from_fn(|| places.take_now(to, 1)).collect();
        {
            let mut gone = pin!(places.take(to, 1));
            assert!(poll(gone.as_mut()).is_pending());
        }
        let mut stays = pin!(places.take(to, 1));
        assert!(poll(stays.as_mut()).is_pending());
        drop(held.pop());
        assert!(matches!(poll(stays.as_mut()), Poll::Ready(Some(_))));
    }
}
