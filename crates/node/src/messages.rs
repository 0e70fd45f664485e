//! The application's end: admitted messages, each handed out once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use overlane_core::{Class, Did};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use zeroize::Zeroizing;

use crate::peer::{Delivery, PlaceId};

/// Admitted messages, in admission order within a class, classes in turn.
///
/// Every message goes to one taker, once: two of these share the messages between them, and what
/// nobody took stays for the next. A class whose messages nobody takes fills up and then holds
/// its senders back; it loses nothing and holds no other class.
#[derive(Debug, Clone)]
pub struct Messages {
    queues: Arc<Queues>,
}

#[derive(Debug)]
struct Queues {
    state: Mutex<State>,
    changed: Notify,
    /// A body came in a session, or nothing more will.
    in_session: Notify,
    taken: UnboundedSender<Taken>,
}

/// A body that came in a session, and its place.
type Body = (PlaceId, Zeroizing<Vec<u8>>);

/// The place of a message that was handed out; it comes free when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    place: PlaceId,
    ended: Ended,
    taken: UnboundedSender<Taken>,
}

/// What became of a message that was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The application has it.
    Taken,
    /// Its handler took longer than it may.
    Late,
    /// Its handler panicked.
    Broke,
}

/// A place that is free again.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) place: PlaceId,
    pub(crate) ended: Ended,
}

impl Place {
    /// A place that nothing holds.
    #[cfg(test)]
    pub(crate) fn of_test(place: PlaceId, taken: UnboundedSender<Taken>) -> Self {
        Self {
            place,
            ended: Ended::Taken,
            taken,
        }
    }

    /// Frees the place, and says how it came to that.
    pub(crate) fn ended(mut self, ended: Ended) {
        self.ended = ended;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A node that is gone has no places.
        let _ = self.taken.send(Taken {
            place: self.place,
            ended: self.ended,
        });
    }
}

#[derive(Debug, Default)]
struct State {
    classes: [VecDeque<(PlaceId, Delivery)>; Class::ALL.len()],
    sessions: BTreeMap<Did, VecDeque<Body>>,
    turn: usize,
    closed: bool,
}

impl Messages {
    /// Queues whose takers are reported to `taken`.
    pub(crate) fn new(taken: UnboundedSender<Taken>) -> Self {
        Self {
            queues: Arc::new(Queues {
                state: Mutex::default(),
                changed: Notify::new(),
                in_session: Notify::new(),
                taken,
            }),
        }
    }

    /// The next admitted message. `None` once the node has shut down and every message is taken.
    /// Dropping the future takes nothing.
    pub async fn next(&self) -> Option<Delivery> {
        let (delivery, _) = self.next_held().await?;
        Some(delivery)
    }

    /// As [`next`](Self::next), holding the message's place on.
    pub(crate) async fn next_held(&self) -> Option<(Delivery, Place)> {
        loop {
            let changed = self.queues.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that what arrives in between is not missed.
            changed.as_mut().enable();
            match self.take() {
                Ok(taken) => return Some(taken),
                Err(closed) if closed => return None,
                Err(_) => changed.await,
            }
        }
    }

    /// The next admitted message, if one is there.
    pub fn try_next(&self) -> Option<Delivery> {
        let (delivery, _) = self.take().ok()?;
        Some(delivery)
    }

    /// Hands an admitted message to the application's side. The peer holds a place for it, so
    /// the queue is bounded there.
    pub(crate) fn push(&self, place: PlaceId, class: Class, delivery: Delivery) {
        let mut state = self.lock();
        if let Some(queue) = state.classes.get_mut(usize::from(class.index())) {
            queue.push_back((place, delivery));
        }
        drop(state);
        self.queues.changed.notify_one();
    }

    /// Hands a body that came in a session to the application's side. The peer holds a place for it.
    pub(crate) fn push_in_session(&self, place: PlaceId, from: Did, body: Zeroizing<Vec<u8>>) {
        let mut state = self.lock();
        let queue = state.sessions.entry(from).or_default();
        queue.push_back((place, body));
        drop(state);
        self.queues.in_session.notify_waiters();
    }

    /// The next body that came in a session with this node. `None` once the node has shut down and every
    /// one of them is taken. Dropping the future takes nothing.
    pub(crate) async fn next_in_session(&self, with: Did) -> Option<Zeroizing<Vec<u8>>> {
        loop {
            let changed = self.queues.in_session.notified();
            tokio::pin!(changed);
            // Registered before looking, so that what arrives in between is not missed.
            changed.as_mut().enable();
            {
                let mut state = self.lock();
                let queue = state.sessions.get_mut(&with);
                if let Some((place, body)) = queue.and_then(VecDeque::pop_front) {
                    state.sessions.retain(|_, queue| !queue.is_empty());
                    drop(state);
                    drop(self.place(place));
                    return Some(body);
                }
                if state.closed {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.queues.changed.notify_waiters();
        self.queues.in_session.notify_waiters();
    }

    /// Takes from the classes in turn; the error says whether nothing more will come.
    fn take(&self) -> Result<(Delivery, Place), bool> {
        let mut state = self.lock();
        for step in 0..Class::ALL.len() {
            let index = (state.turn + step) % Class::ALL.len();
            let taken = state.classes.get_mut(index).and_then(VecDeque::pop_front);
            if let Some((place, delivery)) = taken {
                state.turn = (index + 1) % Class::ALL.len();
                let more = state.classes.iter().any(|queue| !queue.is_empty());
                drop(state);
                if more {
                    // A wake-up that two arrivals shared goes on to the next taker.
                    self.queues.changed.notify_one();
                }
                return Ok((delivery, self.place(place)));
            }
        }
        Err(state.closed)
    }

    fn place(&self, place: PlaceId) -> Place {
        Place {
            place,
            ended: Ended::Taken,
            taken: self.queues.taken.clone(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic elsewhere cannot leave a queue half changed: each change is one call.
        let state = self.queues.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}
