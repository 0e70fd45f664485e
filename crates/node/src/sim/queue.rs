//! What will happen, in the order of virtual time; at one instant, in an order the seed decides.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use overlane_storage_native::disk::Seeded;

/// Events to come.
#[derive(Debug)]
pub(super) struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
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
            heap: BinaryHeap::new(),
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
        self.heap.push(Reverse(entry));
    }

    /// The next event, and when.
    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        let Reverse(entry) = self.heap.pop()?;
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
