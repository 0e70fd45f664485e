//! What will happen, in the order of virtual time; at one instant, in an order the seed decides.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use overlane_storage_native::disk::Seeded;

/// How much of the time to come is kept in order: most events are timers that wait for seconds.
const SOON_MS: u64 = 16;

/// Events to come.
#[derive(Debug)]
pub(super) struct Queue<E> {
    /// Those before [`soon_ms`](Self::soon_ms), the next first.
    soon: BinaryHeap<Reverse<Entry<E>>>,
    soon_ms: u64,
    /// Those from then on, by the multiple of [`SOON_MS`].
    later: BTreeMap<u64, Vec<Reverse<Entry<E>>>>,
    order: Seeded,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at_ms: u64,
    tie: u64,
    pushed: u64,
    event: E,
}

impl<E> Queue<E> {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            soon: BinaryHeap::new(),
            soon_ms: 0,
            later: BTreeMap::new(),
            order: Seeded::new(seed),
            pushed: 0,
        }
    }

    /// Lets `event` happen at `at_ms`.
    pub(super) fn push(&mut self, at_ms: u64, event: E) {
        self.pushed += 1;
        let entry = Entry {
            at_ms,
            tie: self.order.next_u64(),
            pushed: self.pushed,
            event,
        };
        if at_ms < self.soon_ms {
            self.soon.push(Reverse(entry));
        } else {
            let later = self.later.entry(at_ms / SOON_MS).or_default();
            later.push(Reverse(entry));
        }
    }

    /// The next event, and when.
    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        if self.soon.is_empty() {
            let (number, entries) = self.later.pop_first()?;
            self.soon_ms = (number + 1).saturating_mul(SOON_MS);
            self.soon = entries.into();
        }
        let Reverse(entry) = self.soon.pop()?;
        Some((entry.at_ms, entry.event))
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (u64, u64, u64) {
        (self.at_ms, self.tie, self.pushed)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_at_one_instant_in_an_order_that_is_drawn() {
        let run = |seed| {
            let (mut queue, mut chance) = (Queue::new(seed), Seeded::new(3));
            let (mut now_ms, mut came) = (0, Vec::new());
            for number in 0..2_000_u64 {
                let far =
                    [1, 3, SOON_MS, 20 * SOON_MS, 5_000][usize::try_from(number % 5).unwrap()];
                queue.push(now_ms + chance.below(far), number);
                if number % 3 == 2 {
                    let (at_ms, event) = queue.pop().unwrap();
                    assert!(at_ms >= now_ms, "{event}");
                    now_ms = at_ms;
                    came.push(event);
                }
            }
            while let Some((at_ms, event)) = queue.pop() {
                assert!(at_ms >= now_ms, "{event}");
                now_ms = at_ms;
                came.push(event);
            }
            came
        };
        let mut came = run(7);
        assert_eq!(came, run(7));
        assert_ne!(came, run(8));
        came.sort_unstable();
        assert!(came.iter().copied().eq(0..2_000));
    }

    #[test]
    fn what_is_pushed_while_an_instant_lasts_is_of_that_instant() {
        let mut queue = Queue::new(1);
        queue.push(100, 0);
        assert_eq!(queue.pop(), Some((100, 0)));
        for event in 1..50 {
            queue.push(if event % 2 == 0 { 100 } else { 101 }, event);
        }
        for _ in 1..25 {
            assert_eq!(queue.pop().map(|(at_ms, _)| at_ms), Some(100));
        }
        queue.push(100, 99);
        assert_eq!(queue.pop(), Some((100, 99)));
        assert_eq!(queue.pop().map(|(at_ms, _)| at_ms), Some(101));
    }
}
