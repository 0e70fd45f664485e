//! The origin quota: how fast one stream may be admitted.
//!
//! Law (quota): replays, forks and stale transactions cost nothing; a refusal for quota changes
//! no window; what a failed batch was charged is given back exactly. The state is this process's
//! alone and is in no record. Two token buckets a stream key, messages and bytes, both charged or
//! neither. Levels are counted in thousandths, so that a rate per second is a whole number per
//! millisecond. Source: protocol decision 4.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{Class, StreamKey};

/// Quota records of one class.
pub const QUOTA_RECORDS: usize = 1_024;

/// How fast, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QuotaLimits {
    /// Messages a second.
    pub messages_per_s: u64,
    /// Messages at once after a rest.
    pub burst_messages: u64,
    /// Bytes a second.
    pub bytes_per_s: u64,
    /// Bytes at once after a rest.
    pub burst_bytes: u64,
}

impl QuotaLimits {
    /// What a node keeps unless told otherwise, and what senders pace themselves to.
    pub const DEFAULT: Self = Self {
        messages_per_s: 256,
        burst_messages: 2_048,
        bytes_per_s: 4 * 1024 * 1024,
        burst_bytes: 64 * 1024 * 1024,
    };
}

impl Default for QuotaLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Why the quota refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaRefusal {
    /// Too many messages.
    #[error("the stream's message quota is used up: again in {again_ms} ms")]
    Messages {
        /// In how long one message is allowed.
        again_ms: u64,
    },
    /// Too many bytes.
    #[error("the stream's byte quota is used up: again in {again_ms} ms")]
    Bytes {
        /// In how long as many bytes are allowed.
        again_ms: u64,
    },
    /// More bytes than the quota ever allows at once.
    #[error("{data_bytes} bytes at once; the quota allows {burst_bytes}")]
    OverBurst {
        /// The transaction's data.
        data_bytes: u64,
        /// The most it may be.
        burst_bytes: u64,
    },
    /// Every quota record of the class is in use by a stream that has not rested.
    #[error("all {QUOTA_RECORDS} quota records of the class are in use")]
    Records,
}

const MILLI: u64 = 1_000;

/// One stream's two buckets. Also what a sender paces itself by before it signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bucket {
    milli_messages: u64,
    milli_bytes: u64,
    at_ms: u64,
}

impl Bucket {
    /// Full buckets.
    pub const fn full(limits: &QuotaLimits, steady_ms: u64) -> Self {
        Self {
            milli_messages: limits.burst_messages.saturating_mul(MILLI),
            milli_bytes: limits.burst_bytes.saturating_mul(MILLI),
            at_ms: steady_ms,
        }
    }

    /// Takes one message of `data_bytes`, or nothing.
    ///
    /// # Errors
    /// [`QuotaRefusal`] with the time until the same is allowed.
    pub fn take(
        &mut self,
        limits: &QuotaLimits,
        data_bytes: u64,
        steady_ms: u64,
    ) -> Result<(), QuotaRefusal> {
        if data_bytes > limits.burst_bytes {
            return Err(QuotaRefusal::OverBurst {
                data_bytes,
                burst_bytes: limits.burst_bytes,
            });
        }
        let filled = self.filled(limits, steady_ms);
        let cost = data_bytes.saturating_mul(MILLI);
        let milli_messages = filled.milli_messages.checked_sub(MILLI).ok_or_else(|| {
            let again_ms = wait_ms(MILLI - filled.milli_messages, limits.messages_per_s);
            QuotaRefusal::Messages { again_ms }
        })?;
        let milli_bytes = filled.milli_bytes.checked_sub(cost).ok_or_else(|| {
            let again_ms = wait_ms(cost - filled.milli_bytes, limits.bytes_per_s);
            QuotaRefusal::Bytes { again_ms }
        })?;
        *self = Self {
            milli_messages,
            milli_bytes,
            at_ms: filled.at_ms,
        };
        Ok(())
    }

    /// Gives back what one message of `data_bytes` took, for one that did not leave.
    pub fn give_back(&mut self, limits: &QuotaLimits, data_bytes: u64) {
        let back = |level: u64, cost: u64, burst: u64| {
            level
                .saturating_add(cost.saturating_mul(MILLI))
                .min(burst.saturating_mul(MILLI))
        };
        self.milli_messages = back(self.milli_messages, 1, limits.burst_messages);
        self.milli_bytes = back(self.milli_bytes, data_bytes, limits.burst_bytes);
    }

    /// From when on the buckets are full if nothing is taken.
    pub fn full_at_ms(&self, limits: &QuotaLimits) -> u64 {
        let messages = limits.burst_messages.saturating_mul(MILLI) - self.milli_messages;
        let bytes = limits.burst_bytes.saturating_mul(MILLI) - self.milli_bytes;
        let longest =
            wait_ms(messages, limits.messages_per_s).max(wait_ms(bytes, limits.bytes_per_s));
        self.at_ms.saturating_add(longest)
    }

    fn filled(&self, limits: &QuotaLimits, steady_ms: u64) -> Self {
        let passed = steady_ms.saturating_sub(self.at_ms);
        let fill = |level: u64, per_s: u64, burst: u64| {
            level
                .saturating_add(passed.saturating_mul(per_s))
                .min(burst.saturating_mul(MILLI))
        };
        Self {
            milli_messages: fill(
                self.milli_messages,
                limits.messages_per_s,
                limits.burst_messages,
            ),
            milli_bytes: fill(self.milli_bytes, limits.bytes_per_s, limits.burst_bytes),
            at_ms: self.at_ms.max(steady_ms),
        }
    }
}

/// How long until `milli` thousandths have come in at `per_s` a second.
const fn wait_ms(milli: u64, per_s: u64) -> u64 {
    match per_s {
        0 if milli > 0 => u64::MAX,
        0 => 0,
        _ => milli.div_ceil(per_s),
    }
}

/// The buckets of every stream that has not rested.
#[derive(Debug, Clone, Hash)]
pub(super) struct Quota {
    limits: QuotaLimits,
    classes: [Records; Class::ALL.len()],
}

/// One class's buckets, by place. A place is short, so that ordering the rested costs little.
#[derive(Debug, Clone, Default, Hash)]
struct Records {
    places: BTreeMap<StreamKey, usize>,
    buckets: Vec<(StreamKey, Bucket)>,
    /// Places that no stream has.
    free: Vec<usize>,
    /// Every place in use once, at an instant not after the one from which its bucket is full.
    resting: BTreeSet<(u64, usize)>,
}

impl Quota {
    pub(super) fn new(limits: QuotaLimits) -> Self {
        Self {
            limits,
            classes: Default::default(),
        }
    }

    /// Charges one message to the stream and returns its bucket as it was, for
    /// [`restore`](Self::restore).
    pub(super) fn charge(
        &mut self,
        stream: &StreamKey,
        data_bytes: u64,
        steady_ms: u64,
    ) -> Result<Option<Bucket>, QuotaRefusal> {
        let limits = self.limits;
        let Some(records) = self.records_mut(stream.class) else {
            return Err(QuotaRefusal::Records);
        };
        if let Some(bucket) = records.bucket_mut(stream) {
            let before = *bucket;
            bucket.take(&limits, data_bytes, steady_ms)?;
            return Ok(Some(before));
        }
        let mut bucket = Bucket::full(&limits, steady_ms);
        bucket.take(&limits, data_bytes, steady_ms)?;
        let place = records.make_room(&limits, steady_ms)?;
        records.put(place, *stream, bucket, &limits);
        Ok(None)
    }

    /// Puts a stream's bucket back to what it was before a charge.
    pub(super) fn restore(&mut self, stream: &StreamKey, before: Option<Bucket>) {
        let limits = self.limits;
        let Some(records) = self.records_mut(stream.class) else {
            return;
        };
        if let Some(place) = records.places.remove(stream) {
            records.resting.retain(|(_, resting)| *resting != place);
            records.free.push(place);
        }
        if let Some(bucket) = before {
            let place = records.free_place();
            records.put(place, *stream, bucket, &limits);
        }
    }

    /// A stream's bucket; a stream without one is fully rested.
    pub(super) fn bucket(&self, stream: &StreamKey) -> Option<Bucket> {
        let records = self.classes.get(usize::from(stream.class.index()))?;
        let place = records.places.get(stream)?;
        records.buckets.get(*place).map(|(_, bucket)| *bucket)
    }

    /// Quota records in use in one class.
    pub(super) fn records(&self, class: Class) -> usize {
        self.classes
            .get(usize::from(class.index()))
            .map_or(0, |records| records.places.len())
    }

    pub(super) const fn limits(&self) -> &QuotaLimits {
        &self.limits
    }

    fn records_mut(&mut self, class: Class) -> Option<&mut Records> {
        self.classes.get_mut(usize::from(class.index()))
    }
}

impl Records {
    fn bucket_mut(&mut self, stream: &StreamKey) -> Option<&mut Bucket> {
        let place = self.places.get(stream)?;
        self.buckets.get_mut(*place).map(|(_, bucket)| bucket)
    }

    fn put(&mut self, place: usize, stream: StreamKey, bucket: Bucket, limits: &QuotaLimits) {
        self.resting.insert((bucket.full_at_ms(limits), place));
        self.places.insert(stream, place);
        match self.buckets.get_mut(place) {
            Some(held) => *held = (stream, bucket),
            None => self.buckets.push((stream, bucket)),
        }
    }

    /// A place no stream has: one given back, or the next new one.
    fn free_place(&mut self) -> usize {
        self.free.pop().unwrap_or(self.buckets.len())
    }

    /// A free place. Where all are in use, that of a fully rested stream, whose record is a new
    /// one's equal, so that nothing is forgotten.
    fn make_room(&mut self, limits: &QuotaLimits, steady_ms: u64) -> Result<usize, QuotaRefusal> {
        if self.places.len() < QUOTA_RECORDS {
            return Ok(self.free_place());
        }
        loop {
            let earliest = self.resting.first().copied();
            let Some((at_ms, place)) = earliest.filter(|(at_ms, _)| *at_ms <= steady_ms) else {
                return Err(QuotaRefusal::Records);
            };
            self.resting.remove(&(at_ms, place));
            let Some((stream, bucket)) = self.buckets.get(place) else {
                continue;
            };
            let full_at_ms = bucket.full_at_ms(limits);
            if full_at_ms <= steady_ms {
                self.places.remove(stream);
                return Ok(place);
            }
            self.resting.insert((full_at_ms, place));
        }
    }
}
