//! Links over real WebRTC on loopback, both ends in one process.
//!
//! Nothing here sleeps or measures: a test waits for events, and fails when [`DEADLINE`] passes.

mod closing;
mod crossing;
mod flow;
mod http;
pub(super) mod node;
mod opening;
mod signalling;
mod transport;
mod turn;
mod wrap;

use std::time::Duration;

/// How long a test waits for what must come. Generous: the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(60);

/// What `future` gives, which must come.
async fn must<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(given) => given,
        Err(_) => panic!("{what} did not come within {DEADLINE:?}"),
    }
}
