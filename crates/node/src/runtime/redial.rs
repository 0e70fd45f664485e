//! When to dial a configured peer again.
//!
//! Five tries two seconds apart, then one every five minutes, spread by up to a fifth so that
//! nodes that lost the same peer do not come back at once. Source: protocol decision 7
//! (bootstrap).

use std::time::Duration;

/// Tries two seconds apart after a peer was lost or a dial failed.
const QUICK_TRIES: u32 = 5;
/// Pause before a quick try.
const QUICK_PAUSE_MS: u64 = 2_000;
/// Pause before any later try.
const SLOW_PAUSE_MS: u64 = 300_000;
/// A pause is longer by at most this part of itself.
const JITTER_PART: u64 = 5;

/// Counts the tries since the peer was last linked.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The pause before the next try; `random` spreads it.
    pub(crate) fn pause(&mut self, random: u64) -> Duration {
        let base_ms = if self.tries < QUICK_TRIES {
            QUICK_PAUSE_MS
        } else {
            SLOW_PAUSE_MS
        };
        self.tries = self.tries.saturating_add(1);
        Duration::from_millis(base_ms + random % (base_ms / JITTER_PART + 1))
    }

    /// The peer is linked: the next loss starts with quick tries again.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_quick_tries_then_slow_ones_until_linked() {
        let mut backoff = Backoff::default();
        for _ in 0..QUICK_TRIES {
            assert_eq!(backoff.pause(0), Duration::from_secs(2));
        }
        assert_eq!(backoff.pause(0), Duration::from_secs(300));
        assert_eq!(backoff.pause(60_000), Duration::from_secs(360));
        backoff.reset();
        let pause = backoff.pause(400);
        assert_eq!(pause, Duration::from_millis(2_400));
    }
}
