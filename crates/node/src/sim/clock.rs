//! A node's two clocks, as the simulated time moves them.

use crate::peer::Now;

/// When every simulation begins, in milliseconds of Unix time.
pub(super) const START_MS: u64 = 1_900_000_000_000;

/// One in a million: the unit of a clock's rate.
const MILLION: u64 = 1_000_000;

/// A node's clocks. The steady one starts with the node, and runs a little fast or slow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// When the node started, in simulated time.
    pub(super) started_ms: u64,
    /// How many millionths faster than the simulated time its steady clock runs; the whole rate is
    /// a million and these, less [`SLOWEST`].
    pub(super) rate_ppm: u64,
    /// How far its wall clock is ahead, within the allowed skew.
    pub(super) ahead_ms: i64,
    /// How far it is ahead beside that, while it is wrong.
    pub(super) wrong_by_ms: i64,
}

/// What is taken off a rate, so that it is a number without a sign.
pub(super) const SLOWEST: u64 = 200;

impl Clock {
    /// Both clocks at a simulated instant.
    pub(super) fn now(&self, at_ms: u64) -> Now {
        let wall_ms = START_MS.saturating_add(at_ms);
        let ahead_ms = self.ahead_ms.saturating_add(self.wrong_by_ms);
        Now {
            wall_ms: wall_ms.saturating_add_signed(ahead_ms),
            steady_ms: self.steady_ms(at_ms),
        }
    }

    fn steady_ms(&self, at_ms: u64) -> u64 {
        let elapsed = at_ms.saturating_sub(self.started_ms);
        let rate = MILLION + self.rate_ppm - SLOWEST;
        elapsed.saturating_mul(rate) / MILLION
    }

    /// The first simulated instant, not before `at_ms`, at which the steady clock shows
    /// `steady_ms`.
    pub(super) fn when(&self, steady_ms: u64, at_ms: u64) -> u64 {
        let rate = MILLION + self.rate_ppm - SLOWEST;
        let elapsed = steady_ms.saturating_mul(MILLION).div_ceil(rate);
        self.started_ms.saturating_add(elapsed).max(at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_what_was_waited_for_and_not_before() {
        for rate_ppm in [0, SLOWEST, 2 * SLOWEST] {
            let clock = Clock {
                started_ms: 777,
                rate_ppm,
                ahead_ms: -3,
                wrong_by_ms: 0,
            };
            for steady_ms in [0, 1, 999, 15_000, 3_600_001] {
                let at_ms = clock.when(steady_ms, 0);
                assert!(clock.now(at_ms).steady_ms >= steady_ms);
                let before = clock.now(at_ms.saturating_sub(1)).steady_ms;
                assert!(
                    before < steady_ms || steady_ms == 0,
                    "{rate_ppm} {steady_ms}"
                );
            }
            assert_eq!(clock.now(1_000).wall_ms, START_MS + 997);
        }
    }
}
