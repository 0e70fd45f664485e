//! Counting what is held, so that a leak shows and a release can be awaited.

use std::sync::Arc;

use tokio::sync::watch;

/// How many of something there are.
#[derive(Debug, Clone)]
pub struct Count(Arc<watch::Sender<usize>>);

impl Default for Count {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Count {
    /// How many there are now.
    pub fn now(&self) -> usize {
        *self.0.borrow()
    }

    /// Resolves once there are none.
    pub async fn none_left(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }

    /// One more, until what is given back is dropped.
    pub(crate) fn one(&self) -> Counted {
        self.0.send_modify(|count| *count += 1);
        Counted(self.clone())
    }
}

/// One of a [`Count`].
#[derive(Debug)]
pub(crate) struct Counted(Count);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// What all links of a node hold.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// Drivers of the WebRTC stack, one for each connection.
    pub drivers: Count,
    /// UDP sockets: one file descriptor for each connection.
    pub sockets: Count,
    /// Tasks of this crate, one for each link.
    pub tasks: Count,
}

impl Held {
    /// Resolves once nothing is held any more.
    pub async fn all_released(&self) {
        self.tasks.none_left().await;
        self.drivers.none_left().await;
        self.sockets.none_left().await;
    }
}
