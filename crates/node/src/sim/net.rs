//! The network: how long messages take, what is lost and sent again, who cannot reach whom.
//!
//! A link's channels are ordered and reliable, so what a network does to them is delay: a lost
//! message is sent again after a while, and those behind it on its channel wait; where too many
//! are lost in a row, or nothing passes for too long, the transport ends.

use std::collections::BTreeMap;

use overlane_storage_native::disk::Seeded;

/// The wait before a lost message is sent again; it doubles with each loss.
const RESEND_MS: u64 = 200;

/// Losses in a row at which a transport gives up.
const LOSSES_MAX: u32 = 8;

/// Every path of the network.
#[derive(Debug)]
pub(super) struct Net {
    seed: u64,
    /// Messages of a thousand that are lost.
    loss_permille: u64,
    /// Which part of the network a node is in; all in one where it is whole.
    parts: BTreeMap<usize, u64>,
    parted_until_ms: u64,
    /// Directions in which nothing passes, and until when.
    one_way: BTreeMap<(usize, usize), u64>,
}

/// What becomes of a message that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It takes this long.
    Takes(u64),
    /// The transport gives up.
    Breaks,
}

impl Net {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            loss_permille: 0,
            parts: BTreeMap::new(),
            parted_until_ms: 0,
            one_way: BTreeMap::new(),
        }
    }

    /// How long a message takes on this path when nothing goes wrong: 1 to 120 ms, always the same
    /// for two nodes, near ones being more frequent.
    pub(super) fn latency_ms(&self, one: usize, other: usize) -> u64 {
        let (low, high) = (one.min(other) as u64, one.max(other) as u64);
        let path = self.seed ^ (low << 32 | high).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut drawn = Seeded::new(path);
        let far = drawn.below(120);
        1 + far * drawn.below(120) / 120
    }

    /// A message leaves now.
    pub(super) fn send(&self, from: usize, to: usize, chance: &mut Seeded) -> Way {
        let latency_ms = self.latency_ms(from, to);
        let jitter_ms = chance.below(latency_ms / 4 + 2);
        let (mut took_ms, mut wait_ms, mut losses) = (latency_ms + jitter_ms, RESEND_MS, 0);
        while chance.below(1_000) < self.loss_permille {
            losses += 1;
            if losses >= LOSSES_MAX {
                return Way::Breaks;
            }
            took_ms += wait_ms;
            wait_ms *= 2;
        }
        Way::Takes(took_ms)
    }

    /// Until when nothing passes in this direction; `None` where it does.
    pub(super) fn blocked(&self, from: usize, to: usize, at_ms: u64) -> Option<u64> {
        let apart = self.parts.get(&from) != self.parts.get(&to);
        let parted_ms = if apart { self.parted_until_ms } else { 0 };
        let cut_ms = self.one_way.get(&(from, to)).copied().unwrap_or(0);
        let until_ms = parted_ms.max(cut_ms);
        (until_ms > at_ms).then_some(until_ms)
    }

    /// Messages are lost from now on, of a thousand so many.
    pub(super) fn lose(&mut self, permille: u64) {
        self.loss_permille = permille;
    }

    /// The network falls into two or three parts.
    pub(super) fn part(&mut self, nodes: usize, until_ms: u64, chance: &mut Seeded) {
        let parts = 2 + chance.below(2);
        self.parts = (0..nodes).map(|node| (node, chance.below(parts))).collect();
        self.parted_until_ms = until_ms;
    }

    /// Nothing passes from one node to the other.
    pub(super) fn cut(&mut self, from: usize, to: usize, until_ms: u64) {
        self.one_way.insert((from, to), until_ms);
    }

    /// All paths are whole, and lose nothing.
    pub(super) fn heal(&mut self) {
        self.loss_permille = 0;
        self.parts.clear();
        self.parted_until_ms = 0;
        self.one_way.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_blocked_until_it_heals_and_in_the_cut_direction_only() {
        let mut net = Net::new(3);
        net.cut(1, 2, 500);
        assert_eq!(net.blocked(1, 2, 499), Some(500));
        assert_eq!(net.blocked(1, 2, 500), None);
        assert_eq!(net.blocked(2, 1, 0), None);
        let mut chance = Seeded::new(5);
        net.part(40, 900, &mut chance);
        let apart = |net: &Net| {
            (1..40)
                .filter(|&to| net.blocked(0, to, 0).is_some())
                .count()
        };
        assert!((1..39).contains(&apart(&net)));
        net.heal();
        assert_eq!(apart(&net), 0);
        assert_eq!(net.blocked(1, 2, 0), None);
    }

    #[test]
    fn what_is_lost_takes_longer_and_what_is_lost_always_breaks_the_link() {
        let mut net = Net::new(3);
        let mut chance = Seeded::new(5);
        assert_eq!(net.latency_ms(4, 9), net.latency_ms(9, 4));
        let whole = net.latency_ms(4, 9) + net.latency_ms(4, 9) / 4 + 1;
        for _ in 0..100 {
            assert!(matches!(net.send(4, 9, &mut chance), Way::Takes(ms) if ms <= whole));
        }
        net.lose(500);
        let late = |way: &Way| matches!(way, Way::Takes(ms) if *ms >= whole + RESEND_MS);
        let ways: Vec<_> = (0..400).map(|_| net.send(4, 9, &mut chance)).collect();
        assert!(ways.iter().any(late));
        net.lose(1_000);
        assert_eq!(net.send(4, 9, &mut chance), Way::Breaks);
    }
}
