//! When to dial a configured peer again.
//!
//! Five tries two seconds apart, then pauses that double up to a minute, each spread by up to a fifth so that
//! nodes that lost the same peer do not come back at once. Protocol decision 7 says five minutes for the later
//! ones: a pair whose second node was off for a minute then stayed apart for five more, and one small request a
//! minute is a load to nobody.

use std::time::Duration;

/// Tries two seconds apart after a peer was lost or a dial failed.
const QUICK_TRIES: u32 = 5;
/// Pause before a quick try, and the least between two dials of a peer.
pub(super) const QUICK_PAUSE_MS: u64 = 2_000;
/// The longest pause, without its spread.
const PAUSE_MAX_MS: u64 = 60_000;
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
        let doublings = self
            .tries
            .saturating_add(1)
            .saturating_sub(QUICK_TRIES)
            .min(16);
        let base_ms = (QUICK_PAUSE_MS << doublings).min(PAUSE_MAX_MS);
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
    fn five_quick_tries_then_later_and_later_up_to_a_minute_until_linked() {
        let mut backoff = Backoff::default();
        let mut seconds = |random| backoff.pause(random).as_millis();
        let pauses: Vec<u128> = (0..12).map(|_| seconds(0) / 1_000).collect();
        assert_eq!(pauses, [2, 2, 2, 2, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(seconds(12_000), 72_000, "and a fifth");
        assert_eq!(seconds(12_001), 60_000, "at most");
        backoff.tries = u32::MAX;
        assert_eq!(backoff.pause(0), Duration::from_secs(60));
        backoff.reset();
        let pause = backoff.pause(400);
        assert_eq!(pause, Duration::from_millis(2_400));
    }
}
