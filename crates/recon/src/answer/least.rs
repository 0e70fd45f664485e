//! The least ids of a stream of items, in bounded memory: what is pushed or sent for one message.

use alloc::vec::Vec;

use super::Cutoff;
use crate::item::{Id, Item};

/// Keeps the `limit` items of least id, one per id. Ids ascend, so peers that cut agree on where.
pub(crate) struct Least {
    limit: usize,
    items: Vec<Item>,
    sorted: usize,
    /// Nothing above this can be among the least any more.
    ceiling: Option<Id>,
    omitted: bool,
}

impl Least {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            items: Vec::new(),
            sorted: 0,
            ceiling: None,
            omitted: false,
        }
    }

    pub(crate) fn add(&mut self, item: Item) {
        if self.limit == 0 || self.ceiling.is_some_and(|ceiling| item.id > ceiling) {
            self.omitted = true;
            return;
        }
        self.items.push(item);
        if self.items.len() >= self.limit.saturating_mul(2).max(1024) {
            self.compact();
        }
    }

    /// The items by id, and where they were cut, if they were: by count here, by `bytes` of envelopes next.
    pub(crate) fn finish(
        mut self,
        bytes: u64,
        size_of: &mut dyn FnMut(&Item) -> u64,
    ) -> (Vec<Item>, Option<Cutoff>) {
        self.compact();
        let mut room = bytes;
        let mut taken = 0;
        for item in &self.items {
            let size = size_of(item);
            if size > room && taken > 0 {
                break;
            }
            room = room.saturating_sub(size);
            taken += 1;
        }
        if taken < self.items.len() {
            self.items.truncate(taken);
            self.omitted = true;
        }
        let last = self.items.last().map(|item| item.id);
        let cutoff = self.omitted.then_some(Cutoff { last });
        (self.items, cutoff)
    }

    fn compact(&mut self) {
        if self.sorted == self.items.len() {
            return;
        }
        self.items.sort_unstable_by_key(|item| (item.id, item.seq));
        self.items.dedup_by_key(|item| item.id);
        if self.items.len() > self.limit {
            self.items.truncate(self.limit);
            self.omitted = true;
        }
        if self.items.len() == self.limit {
            self.ceiling = self.items.last().map(|item| item.id);
        }
        self.sorted = self.items.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(seq: u64, id: u8) -> Item {
        Item {
            seq,
            id: Id([id; 32]),
        }
    }

    #[test]
    fn law_the_least_ids_are_kept_once_each() {
        let mut least = Least::new(3);
        for (seq, id) in [(5, 9), (1, 4), (2, 4), (3, 1), (4, 7), (6, 2)] {
            least.add(item(seq, id));
        }
        let (items, cutoff) = least.finish(u64::MAX, &mut |_| 1);
        assert_eq!(items, [item(3, 1), item(6, 2), item(1, 4)]);
        assert_eq!(cutoff.unwrap().last, Some(Id([4; 32])));
    }

    #[test]
    fn law_bytes_cut_after_one_envelope_at_least() {
        let mut least = Least::new(10);
        (1..=4).for_each(|id| least.add(item(1, id)));
        let (items, cutoff) = least.finish(1, &mut |_| 5);
        assert_eq!(items, [item(1, 1)]);
        assert!(cutoff.unwrap().omits(Some(&Id([2; 32]))));
    }

    #[test]
    fn law_nothing_omitted_leaves_no_cutoff() {
        let mut least = Least::new(2);
        (1..=2).for_each(|id| least.add(item(1, id)));
        (1..=2).for_each(|id| least.add(item(9, id)));
        assert!(least.finish(u64::MAX, &mut |_| 1).1.is_none());
    }

    #[test]
    fn law_memory_is_bounded_by_the_limit() {
        let mut least = Least::new(2);
        for seq in 0..100_000 {
            least.add(item(seq, (seq % 251) as u8));
        }
        assert!(least.items.capacity() <= 2048, "{}", least.items.capacity());
        assert!(least.finish(u64::MAX, &mut |_| 1).1.is_some());
    }
}
