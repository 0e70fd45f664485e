//! The sender's pace: a stream is held to less than a destination's default quota *before*
//! anything is signed, so that an honest sender loses no message to a quota.
//!
//! Law **pace**: whatever a stream signs under this pace, a destination at the default quota
//! admits, however long the frames were held up on the way. Between this pace and the
//! destination's bucket lie at most [`PIPE_FRAMES`] frames and [`PIPE_BYTES`] bytes (what is being
//! signed, the outbound lane, the lane's credit); so in any interval the destination meets at most the burst here, what
//! the rate gives, and the pipe. Hence burst here + pipe ≤ burst there, and the rate here stays a
//! little under the rate there, so that two clocks of unequal speed add up to nothing. Source:
//! protocol decision 4 (origin quota).

use overlane_core::replay::{Bucket, QuotaLimits, QuotaRefusal};
use overlane_core::wire::bounds::MESSAGE_MAX_BYTES;

/// Frames of one stream that may lie between its pace and the destination's quota.
pub const PIPE_FRAMES: u64 = 896;

/// Bytes of one stream that may lie there.
pub const PIPE_BYTES: u64 = 6 * 1024 * 1024;

/// What a stream is paced to.
pub const PACE: QuotaLimits = QuotaLimits {
    messages_per_s: QuotaLimits::DEFAULT.messages_per_s / 256 * 255,
    burst_messages: QuotaLimits::DEFAULT.burst_messages - PIPE_FRAMES,
    bytes_per_s: QuotaLimits::DEFAULT.bytes_per_s / 256 * 255,
    burst_bytes: QuotaLimits::DEFAULT.burst_bytes - PIPE_BYTES,
};

const _: () = assert!(PACE.messages_per_s > 0);
const _: () = assert!(PACE.messages_per_s < QuotaLimits::DEFAULT.messages_per_s);
const _: () = assert!(PACE.bytes_per_s < QuotaLimits::DEFAULT.bytes_per_s);
const _: () = assert!(
    PACE.burst_bytes >= MESSAGE_MAX_BYTES as u64,
    "any message can be paced"
);

/// How far one stream is ahead of its pace.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    bucket: Bucket,
}

impl Pace {
    /// A rested stream.
    pub(super) fn new(steady_ms: u64) -> Self {
        Self {
            bucket: Bucket::full(&PACE, steady_ms),
        }
    }

    /// Lets one message of `data_bytes` pass, or says at which steady millisecond to ask again.
    pub(super) fn take(&mut self, data_bytes: u64, steady_ms: u64) -> Result<(), u64> {
        let taken = self.bucket.take(&PACE, data_bytes, steady_ms);
        taken.map_err(|refusal| {
            let again_ms = match refusal {
                QuotaRefusal::Messages { again_ms } | QuotaRefusal::Bytes { again_ms } => again_ms,
                // No message that fits a frame is over the burst, and this bucket is its stream's.
                QuotaRefusal::OverBurst { .. } | QuotaRefusal::Records => u64::MAX,
            };
            steady_ms.saturating_add(again_ms.max(1))
        })
    }

    /// One message of so many bytes did not leave after all.
    pub(super) fn give_back(&mut self, data_bytes: u64) {
        self.bucket.give_back(&PACE, data_bytes);
    }

    /// Whether the stream is rested: forgetting it now changes nothing.
    pub(super) fn is_rested(&self, steady_ms: u64) -> bool {
        self.bucket.full_at_ms(&PACE) <= steady_ms
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_passes_at_once_and_the_next_message_says_when() {
        let mut pace = Pace::new(0);
        for _ in 0..PACE.burst_messages {
            assert_eq!(pace.take(1, 0), Ok(()));
        }
        let again_ms = pace.take(1, 0).unwrap_err();
        assert_eq!(again_ms, 1_000_u64.div_ceil(PACE.messages_per_s));
        assert_eq!(pace.take(1, again_ms - 1), Err(again_ms));
        assert_eq!(pace.take(1, again_ms), Ok(()));
        assert!(!pace.is_rested(again_ms));
        assert!(pace.is_rested(again_ms + 60_000));
    }

    #[test]
    fn bytes_hold_back_as_messages_do() {
        let mut pace = Pace::new(0);
        assert_eq!(pace.take(PACE.burst_bytes, 0), Ok(()));
        assert_eq!(pace.take(PACE.bytes_per_s, 0), Err(1_000));
        assert_eq!(pace.take(PACE.bytes_per_s, 1_000), Ok(()));
    }

    proptest! {
        /// Frames are held up in the pipe at will (up to its bound) and come out in bunches,
        /// while the destination's clock runs slow by 3 in 1,000.
        #[test]
        fn law_pace_a_destination_at_the_default_quota_never_refuses(
            steps in proptest::collection::vec((0u64..2_000, 0usize..600, 0usize..600), 1..200)
        ) {
            let limits = QuotaLimits::default();
            let (mut now_ms, mut pace) = (0, Pace::new(0));
            let mut quota = Bucket::full(&limits, 0);
            let mut pipe = VecDeque::new();
            for (pass_ms, sends, arrivals) in steps {
                now_ms += pass_ms;
                for _ in 0..sends {
                    if pipe.len() as u64 == PIPE_FRAMES || pace.take(100, now_ms).is_err() {
                        break;
                    }
                    pipe.push_back(());
                }
                let slow_ms = now_ms - now_ms * 3 / 1_000;
                for _ in pipe.drain(..arrivals.min(pipe.len())) {
                    prop_assert_eq!(quota.take(&limits, 100, slow_ms), Ok(()));
                }
            }
        }
    }
}
