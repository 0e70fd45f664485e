//! What one peer may cost: work and pushed envelopes, refilled with time.
//!
//! Law kept here: *bounded by cost*. Fifteen bytes can ask for everything, so a peer is charged for bytes hashed and
//! envelopes pushed, never for frames.

/// A peer's allowance: two buckets that refill evenly and may be overdrawn by the message that empties them.
#[derive(Debug, Clone)]
pub struct Budget {
    work: Bucket,
    push: Bucket,
}

/// The allowance is used up. The wire code is `retry/backpressure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer's allowance of {of} is used up; it may ask again in {retry_ms} ms")]
pub struct Exhausted {
    /// Which allowance: `work` or `pushes`.
    pub of: &'static str,
    /// When the bucket is above zero again, in milliseconds from now.
    pub retry_ms: u64,
}

#[derive(Debug, Clone)]
struct Bucket {
    per_minute: u64,
    left: i128,
    updated_ms: Option<u64>,
}

const MINUTE_MS: u64 = 60_000;

impl Default for Budget {
    /// 4 GiB hashed and 1 GiB pushed a minute: what one peer may cost a relay of a million items at cold caches.
    fn default() -> Self {
        Self::per_minute(1 << 32, 1 << 30)
    }
}

impl Budget {
    /// Allows `work_bytes` hashed and `push_bytes` of envelopes pushed a minute, and as much at once.
    #[must_use]
    pub fn per_minute(work_bytes: u64, push_bytes: u64) -> Self {
        Self {
            work: Bucket::full(work_bytes),
            push: Bucket::full(push_bytes),
        }
    }

    /// Refills up to `now_ms` and says whether the peer may ask.
    pub fn ask(&mut self, now_ms: u64) -> Result<(), Exhausted> {
        self.work.refill(now_ms);
        self.push.refill(now_ms);
        self.work.above_zero("work")?;
        self.push.above_zero("pushes")
    }

    /// Charges what the message has cost.
    pub fn charge(&mut self, work_bytes: u64, push_bytes: u64) {
        self.work.left -= i128::from(work_bytes);
        self.push.left -= i128::from(push_bytes);
    }
}

impl Bucket {
    fn full(per_minute: u64) -> Self {
        Self {
            per_minute,
            left: i128::from(per_minute),
            updated_ms: None,
        }
    }

    fn refill(&mut self, now_ms: u64) {
        let since = now_ms.saturating_sub(self.updated_ms.unwrap_or(now_ms));
        let added = i128::from(since) * i128::from(self.per_minute) / i128::from(MINUTE_MS);
        if added == 0 && self.updated_ms.is_some() {
            return;
        }
        self.left = self
            .left
            .saturating_add(added)
            .min(i128::from(self.per_minute));
        self.updated_ms = Some(self.updated_ms.unwrap_or(now_ms).max(now_ms));
    }

    fn above_zero(&self, of: &'static str) -> Result<(), Exhausted> {
        if self.left > 0 {
            return Ok(());
        }
        let due = (1 - self.left) * i128::from(MINUTE_MS);
        let wait = due / i128::from(self.per_minute.max(1)) + 1;
        Err(Exhausted {
            of,
            retry_ms: u64::try_from(wait).unwrap_or(u64::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_an_overdrawn_allowance_refuses_until_refilled() {
        let mut budget = Budget::per_minute(60_000, 60_000);
        budget.ask(1_000).unwrap();
        budget.charge(70_000, 10);
        let refusal = budget.ask(1_000).unwrap_err();
        assert_eq!(refusal.of, "work");
        budget.ask(1_000 + refusal.retry_ms - 2).unwrap_err();
        budget.ask(1_000 + refusal.retry_ms).unwrap();
    }

    #[test]
    fn law_pushes_are_charged_on_their_own() {
        let mut budget = Budget::per_minute(u64::MAX, 100);
        budget.charge(u64::MAX / 2, 100);
        assert_eq!(budget.ask(0).unwrap_err().of, "pushes");
    }
}
