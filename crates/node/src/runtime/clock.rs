//! The clocks of the process, read in one place.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::{Duration, Instant};

use crate::peer::Now;

/// Stands for an instant that the platform cannot name.
const FAR: Duration = Duration::from_secs(86_400);

/// Reads both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    /// A clock whose monotonic milliseconds count from now.
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// This instant by both clocks.
    pub(crate) fn now(&self) -> Now {
        Now {
            wall_ms: Self::wall_ms(),
            steady_ms: millis(self.started.elapsed()),
        }
    }

    /// Milliseconds since the Unix epoch; zero for a clock set before it.
    pub(crate) fn wall_ms() -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, millis)
    }

    /// When the monotonic clock reads `steady_ms`; an instant past what the platform can name is
    /// never reached, so any later one stands for it.
    pub(crate) fn at(&self, steady_ms: u64) -> Instant {
        let at = self.started.checked_add(Duration::from_millis(steady_ms));
        at.unwrap_or_else(|| Instant::now() + FAR)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
