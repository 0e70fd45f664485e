//! Questions that came before what they ask about, and wait for it.
//!
//! Law (fair): where as many wait as may, the one that goes is the oldest of the origin that has the most
//! waiting. So an origin loses none while another has more, however many that one asks.

use std::collections::{BTreeMap, VecDeque};

use overlane_core::Did;

use super::Admission;

/// Questions that wait, of all origins.
pub const RECEIPTS_OWED_MAX: usize = 256;

/// The questions, by who asked.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// Each origin's in the order they came, with the number of its coming; no queue is empty.
    of: BTreeMap<Did, VecDeque<(u64, Admission)>>,
    count: usize,
    came: u64,
}

impl Owed {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Notes a question; whether another was forgotten for it.
    pub(super) fn note(&mut self, of: Admission) -> bool {
        let origin = of.stream.origin;
        let waiting = self.of.get(&origin);
        if waiting.is_some_and(|queue| queue.iter().any(|(_, owed)| *owed == of)) {
            return false;
        }
        self.came = self.came.saturating_add(1);
        let queue = self.of.entry(origin).or_default();
        queue.push_back((self.came, of));
        self.count += 1;
        let beyond = self.count > RECEIPTS_OWED_MAX;
        if beyond {
            self.forget_one();
        }
        beyond
    }

    /// Takes the question out; whether it was waiting.
    pub(super) fn take(&mut self, of: &Admission) -> bool {
        let origin = of.stream.origin;
        let Some(queue) = self.of.get_mut(&origin) else {
            return false;
        };
        let at = queue.iter().position(|(_, owed)| owed == of);
        let taken = at.and_then(|at| queue.remove(at)).is_some();
        self.count -= usize::from(taken);
        self.drop_if_empty(origin);
        taken
    }

    /// Among origins that have as many, the one whose oldest question came first.
    fn forget_one(&mut self) {
        let most = self.of.iter().max_by_key(|(_, queue)| {
            let oldest = queue.front().map_or(0, |(came, _)| *came);
            (weight(queue.len()), std::cmp::Reverse(oldest))
        });
        let Some(origin) = most.map(|(origin, _)| *origin) else {
            return;
        };
        let queue = self.of.get_mut(&origin);
        let forgotten = queue.and_then(VecDeque::pop_front).is_some();
        self.count -= usize::from(forgotten);
        self.drop_if_empty(origin);
    }

    fn drop_if_empty(&mut self, origin: Did) {
        if self.of.get(&origin).is_some_and(VecDeque::is_empty) {
            self.of.remove(&origin);
        }
    }
}

/// What an origin's waiting questions count for; nothing in the variant that forgets the oldest of all.
fn weight(waiting: usize) -> usize {
    #[cfg(test)]
    if tests::UNFAIR.get() {
        return 0;
    }
    waiting
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use overlane_core::{Class, NetworkId, StreamKey, TransactionDigest};

    use super::*;

    thread_local! {
        pub(super) static UNFAIR: Cell<bool> = const { Cell::new(false) };
    }

    fn question(origin: u8, sequence: usize) -> Admission {
        let stream = StreamKey {
            network: NetworkId(1),
            origin: Did([origin; 20]),
            destination: Did([255; 20]),
            class: Class::Application,
        };
        Admission {
            stream,
            sequence: sequence as u64,
            digest: TransactionDigest([origin; 32]),
        }
    }

    /// An honest origin asks ten times; one that floods comes before, among and after them.
    fn honest_left_in_a_flood() -> usize {
        let mut owed = Owed::default();
        let mut forgotten = 0;
        for number in 0..10 * RECEIPTS_OWED_MAX {
            forgotten += usize::from(owed.note(question(1, number)));
            if number % 100 == 0 && number < 1_000 {
                forgotten += usize::from(owed.note(question(2, number)));
            }
            assert!(owed.len() <= RECEIPTS_OWED_MAX);
        }
        assert_eq!(owed.len(), RECEIPTS_OWED_MAX);
        assert_eq!(forgotten, 10 * RECEIPTS_OWED_MAX + 10 - RECEIPTS_OWED_MAX);
        (0..1_000)
            .filter(|number| owed.take(&question(2, *number)))
            .count()
    }

    #[test]
    fn law_a_flood_of_questions_pushes_out_its_own_alone() {
        assert_eq!(honest_left_in_a_flood(), 10);
        UNFAIR.set(true);
        let left = honest_left_in_a_flood();
        UNFAIR.set(false);
        assert_eq!(
            left, 0,
            "the variant that forgets the oldest of all is caught"
        );
    }

    #[test]
    fn law_origins_that_ask_as_much_keep_as_much() {
        let mut owed = Owed::default();
        for number in 0..1_000 {
            for origin in 1..=4 {
                owed.note(question(origin, number));
                assert!(!owed.note(question(origin, number)), "once");
            }
        }
        for origin in 1..=4 {
            let left = (0..1_000).filter(|number| owed.take(&question(origin, *number)));
            assert_eq!(left.count(), RECEIPTS_OWED_MAX / 4, "{origin}");
        }
        assert_eq!((owed.len(), owed.of.len()), (0, 0));
    }
}
