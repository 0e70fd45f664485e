//! Numbers that spread pauses, from a seed. Nothing secret depends on them.

use super::bounds::JITTER_PART;

/// A sequence of numbers from a seed: SplitMix64.
#[derive(Debug, Clone)]
pub(super) struct Chance {
    state: u64,
}

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `pause_ms`, longer by at most a part of itself.
    pub(super) fn spread(&mut self, pause_ms: u64) -> u64 {
        let most_ms = pause_ms / JITTER_PART;
        pause_ms.saturating_add(self.next() % most_ms.saturating_add(1))
    }
}
