//! The links that a node's place in the ring needs, and when to ask for each.
//!
//! What is needed and not linked is asked for, neighbours first, [`CONNECTS_MAX`] at once; after a
//! failure later and later.

use std::collections::BTreeMap;

use super::bounds::{
    CONNECT_AGAIN_MAX_MS, CONNECT_AGAIN_MS, CONNECT_MS, CONNECTS_MAX, PREDECESSOR_DIALS_MS,
};
use super::chance::Chance;
use crate::ids::Did;

/// What is wanted.
#[derive(Debug, Clone, Default)]
pub(super) struct Wants {
    wanted: BTreeMap<Did, Want>,
    /// The order in which it is asked for.
    order: Vec<Did>,
}

#[derive(Debug, Clone)]
struct Want {
    next_ms: u64,
    failures: u32,
    asked: bool,
}

impl Wants {
    /// These are needed and not linked, the most needed first. `later` names one that is to dial
    /// this node first.
    pub(super) fn set(&mut self, needed: Vec<Did>, later: Option<Did>, now_ms: u64) {
        self.wanted.retain(|node, _| needed.contains(node));
        for &node in &needed {
            let wait_ms = if later == Some(node) {
                PREDECESSOR_DIALS_MS
            } else {
                0
            };
            self.wanted.entry(node).or_insert(Want {
                next_ms: now_ms.saturating_add(wait_ms),
                failures: 0,
                asked: false,
            });
        }
        self.order = needed;
    }

    /// The next one to ask for now.
    pub(super) fn poll(&mut self, now_ms: u64, chance: &mut Chance) -> Option<Did> {
        for want in self.wanted.values_mut() {
            if want.asked && want.next_ms <= now_ms {
                want.failed(now_ms, chance);
            }
        }
        if self.under_way() >= CONNECTS_MAX {
            return None;
        }
        let due = |node: &Did| {
            let want = self.wanted.get(node);
            want.is_some_and(|want| !want.asked && want.next_ms <= now_ms)
        };
        let next = self.order.iter().copied().find(due)?;
        let want = self.wanted.get_mut(&next)?;
        want.asked = true;
        want.next_ms = now_ms.saturating_add(CONNECT_MS);
        Some(next)
    }

    /// When there is something to do next.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let full = self.under_way() >= CONNECTS_MAX;
        let wanted = self.wanted.values().filter(|want| want.asked || !full);
        wanted.map(|want| want.next_ms).min()
    }

    /// The link could not be had.
    pub(super) fn failed(&mut self, node: Did, now_ms: u64, chance: &mut Chance) {
        if let Some(want) = self.wanted.get_mut(&node) {
            want.failed(now_ms, chance);
        }
    }

    /// How often a link to it failed in a row.
    #[cfg(test)]
    fn failures(&self, node: Did) -> u32 {
        self.wanted.get(&node).map_or(0, |want| want.failures)
    }

    fn under_way(&self) -> usize {
        self.wanted.values().filter(|want| want.asked).count()
    }
}

impl Want {
    fn failed(&mut self, now_ms: u64, chance: &mut Chance) {
        let pause_ms = CONNECT_AGAIN_MS.saturating_mul(1 << self.failures.min(20));
        let pause_ms = chance.spread(pause_ms.min(CONNECT_AGAIN_MAX_MS));
        self.failures = self.failures.saturating_add(1);
        self.asked = false;
        self.next_ms = now_ms.saturating_add(pause_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(number: u8) -> Did {
        Did([number; 20])
    }

    #[test]
    fn a_few_at_once_in_order_and_later_after_each_failure() {
        let mut chance = Chance::new(1);
        let mut wants = Wants::default();
        let needed: Vec<_> = (1..=6).map(did).collect();
        wants.set(needed.clone(), Some(did(2)), 0);
        let mut asked = Vec::new();
        while let Some(node) = wants.poll(0, &mut chance) {
            asked.push(node);
        }
        assert_eq!(asked, [1, 3, 4, 5].map(did));
        assert_eq!(wants.due_ms(), Some(CONNECT_MS));
        wants.failed(did(3), 0, &mut chance);
        assert_eq!(wants.poll(0, &mut chance), Some(did(6)));
        wants.failed(did(1), 0, &mut chance);
        assert_eq!(wants.poll(0, &mut chance), None);
        wants.set(vec![did(1)], None, 0);
        let (mut now_ms, mut last_ms) = (0, 0);
        for failures in 1..12 {
            assert_eq!(wants.failures(did(1)), failures);
            let due_ms = wants.due_ms().unwrap();
            let pause_ms = due_ms - now_ms;
            assert!(pause_ms >= last_ms.min(CONNECT_AGAIN_MAX_MS) && pause_ms >= CONNECT_AGAIN_MS);
            assert!(pause_ms <= CONNECT_AGAIN_MAX_MS * 6 / 5);
            assert_eq!(wants.poll(due_ms, &mut chance), Some(did(1)));
            wants.failed(did(1), due_ms, &mut chance);
            (now_ms, last_ms) = (due_ms, pause_ms);
        }
    }

    #[test]
    fn what_is_needed_no_more_is_forgotten_and_what_never_ends_has_failed() {
        let mut chance = Chance::new(1);
        let mut wants = Wants::default();
        wants.set(vec![did(1)], None, 0);
        assert_eq!(wants.poll(0, &mut chance), Some(did(1)));
        assert_eq!(wants.poll(CONNECT_MS - 1, &mut chance), None);
        assert_eq!(wants.poll(CONNECT_MS, &mut chance), None);
        assert_eq!(wants.failures(did(1)), 1);
        wants.set(Vec::new(), None, 0);
        assert_eq!(wants.due_ms(), None);
    }
}
