//! The application's end: admitted messages, each handed out once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use overlane_core::Class;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use crate::peer::Delivery;

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
    taken: UnboundedSender<Class>,
}

#[derive(Debug, Default)]
struct State {
    classes: [VecDeque<Delivery>; Class::ALL.len()],
    turn: usize,
    closed: bool,
}

impl Messages {
    /// Queues whose takers are reported to `taken`.
    pub(crate) fn new(taken: UnboundedSender<Class>) -> Self {
        Self {
            queues: Arc::new(Queues {
                state: Mutex::default(),
                changed: Notify::new(),
                taken,
            }),
        }
    }

    /// The next admitted message. `None` once the node has shut down and every message is taken.
    /// Dropping the future takes nothing.
    pub async fn next(&self) -> Option<Delivery> {
        loop {
            let changed = self.queues.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that what arrives in between is not missed.
            changed.as_mut().enable();
            match self.take() {
                Ok(delivery) => return Some(delivery),
                Err(closed) if closed => return None,
                Err(_) => changed.await,
            }
        }
    }

    /// The next admitted message, if one is there.
    pub fn try_next(&self) -> Option<Delivery> {
        self.take().ok()
    }

    /// Hands an admitted message to the application's side. The peer holds a place for it, so
    /// the queue is bounded there.
    pub(crate) fn push(&self, class: Class, delivery: Delivery) {
        let mut state = self.lock();
        if let Some(queue) = state.classes.get_mut(usize::from(class.index())) {
            queue.push_back(delivery);
        }
        drop(state);
        self.queues.changed.notify_one();
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.queues.changed.notify_waiters();
    }

    /// Takes from the classes in turn; the error says whether nothing more will come.
    fn take(&self) -> Result<Delivery, bool> {
        let mut state = self.lock();
        for step in 0..Class::ALL.len() {
            let index = (state.turn + step) % Class::ALL.len();
            let taken = state.classes.get_mut(index).and_then(VecDeque::pop_front);
            if let Some(delivery) = taken {
                state.turn = (index + 1) % Class::ALL.len();
                let more = state.classes.iter().any(|queue| !queue.is_empty());
                drop(state);
                if more {
                    // A wake-up that two arrivals shared goes on to the next taker.
                    self.queues.changed.notify_one();
                }
                if let Some(class) = Class::ALL.get(index) {
                    let _ = self.queues.taken.send(*class);
                }
                return Ok(delivery);
            }
        }
        Err(state.closed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic elsewhere cannot leave a queue half changed: each change is one call.
        let state = self.queues.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}
