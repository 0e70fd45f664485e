//! What the replay store's writes come to: how much a batch carries, how long its write takes, and how long
//! what it decided waited to be durable.
//!
//! Times are of the driver, which hands a batch over and hears that it is done, so a write's time has the way
//! to the store's thread in it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Upper ends of the buckets: of answers by doubling, of times in microseconds by one, two and five.
const ANSWERS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const MICROS: &[u64] = &[
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000,
];

/// How values are distributed, since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// The sum of all values.
    pub sum: u64,
    /// How many values are above the bucket before, and at most this; `None` is the last bucket's, which has no
    /// end.
    pub buckets: Vec<(Option<u64>, u64)>,
}

impl Distribution {
    fn new(ends: &[u64]) -> Self {
        let ends = ends.iter().copied().map(Some).chain([None]);
        Self {
            sum: 0,
            buckets: ends.map(|end| (end, 0)).collect(),
        }
    }

    fn observe(&mut self, value: u64) {
        self.sum = self.sum.saturating_add(value);
        let bucket = self.buckets.iter_mut();
        let mut within = bucket.filter(|(end, _)| end.is_none_or(|end| value <= end));
        if let Some((_, count)) = within.next() {
            *count = count.saturating_add(1);
        }
    }
}

/// Distributions of what batches of the replay store came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreTimes {
    /// Answers that waited for a batch.
    pub batch_answers: Distribution,
    /// Microseconds from handing a batch over until it is done.
    pub batch_write_us: Distribution,
    /// Microseconds that the first answer of a batch waited until it was durable.
    pub durable_wait_us: Distribution,
}

impl Default for StoreTimes {
    fn default() -> Self {
        Self {
            batch_answers: Distribution::new(ANSWERS),
            batch_write_us: Distribution::new(MICROS),
            durable_wait_us: Distribution::new(MICROS),
        }
    }
}

/// The same, as it grows: the driver's end.
#[derive(Debug, Default)]
pub(crate) struct StoreWatch {
    times: Arc<Mutex<StoreTimes>>,
    /// When the open batch gathered its first answer.
    opened: Option<Instant>,
    in_flight: Option<InFlight>,
}

#[derive(Debug)]
struct InFlight {
    opened: Instant,
    handed: Instant,
    answers: u64,
}

impl StoreWatch {
    /// What it adds up to, shared.
    pub(crate) fn times(&self) -> Arc<Mutex<StoreTimes>> {
        Arc::clone(&self.times)
    }

    /// So many answers wait in the open batch.
    pub(crate) fn gathered(&mut self, answers: usize) {
        self.opened = match answers {
            0 => None,
            _ => self.opened.or_else(|| Some(Instant::now())),
        };
    }

    /// A batch that so many answers wait for is handed over.
    pub(crate) fn handed_over(&mut self, answers: usize) {
        let handed = Instant::now();
        self.in_flight = Some(InFlight {
            opened: self.opened.take().unwrap_or(handed),
            handed,
            answers: answers as u64,
        });
    }

    /// It is done.
    pub(crate) fn done(&mut self, durable: bool) {
        let Some(batch) = self.in_flight.take().filter(|_| durable) else {
            return;
        };
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.batch_answers.observe(batch.answers);
        times.batch_write_us.observe(micros(batch.handed));
        times.durable_wait_us.observe(micros(batch.opened));
    }
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_once_in_the_first_bucket_that_holds_it() {
        let mut distribution = Distribution::new(&[1, 2, 4]);
        for value in [0, 1, 2, 3, 4, 5, u64::MAX] {
            distribution.observe(value);
        }
        let expected = [(Some(1), 2), (Some(2), 1), (Some(4), 2), (None, 2)];
        assert_eq!(distribution.buckets, expected);
        assert_eq!(distribution.sum, u64::MAX);
    }

    #[test]
    fn what_waited_is_counted_with_its_batch_and_a_batch_that_failed_is_not() {
        let mut watch = StoreWatch::default();
        let count = |of: &Distribution| of.buckets.iter().map(|(_, count)| count).sum::<u64>();
        let times = watch.times();
        watch.gathered(1);
        watch.gathered(3);
        watch.handed_over(3);
        // The next one gathers while this one is written.
        watch.gathered(2);
        watch.done(true);
        watch.handed_over(2);
        watch.done(false);
        // Released without a write.
        watch.gathered(1);
        watch.gathered(0);
        assert_eq!(watch.opened, None);
        watch.done(true);
        let times = times.lock().expect("not poisoned").clone();
        assert_eq!(times.batch_answers.sum, 3);
        assert_eq!(count(&times.batch_answers), 1);
        assert_eq!(count(&times.batch_write_us), 1);
        assert!(times.durable_wait_us.sum >= times.batch_write_us.sum);
    }
}
