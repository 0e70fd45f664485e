//! What a service manager hears: that the node is up, that it still does its work, that it ends.
//!
//! Source: `sd_notify(3)`. Without a manager that asked for it, nothing is said.

use std::time::Duration;

use overlane_node::Node;
use sd_notify::NotifyState;

/// What is said to the manager while the node runs; says that the node ends when dropped.
pub(super) struct Told;

impl Told {
    /// The node is up.
    pub(super) fn up() -> Self {
        say(&[NotifyState::Ready]);
        Self
    }

    /// Says, as often as the manager wants to hear it, that the node does its work; ends only when dropped.
    ///
    /// A node whose state machine does not answer is not spoken for, and the manager restarts it.
    pub(super) async fn alive(&self, node: &Node) {
        let Some(within) = sd_notify::watchdog_enabled() else {
            return std::future::pending().await;
        };
        let mut often = tokio::time::interval(half(within));
        loop {
            often.tick().await;
            if node.status().await.is_ok() {
                say(&[NotifyState::Watchdog]);
            }
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        say(&[NotifyState::Stopping]);
    }
}

/// Whether a manager asked to hear of this process.
pub(super) fn is_managed() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// One that is late once is still in time.
fn half(within: Duration) -> Duration {
    (within / 2).max(Duration::from_millis(1))
}

fn say(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
