//! When something signed counts.

use crate::wire::cbor::{CborError, Reader, Writer};

/// σ: how far two honest clocks may be apart, in milliseconds.
pub const CLOCK_SKEW_MS: u64 = 3_000;

/// The life of something signed: live iff `issued − σ ≤ now ≤ issued + ttl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Life {
    /// When it was issued, in milliseconds of Unix time.
    pub issued_ms: u64,
    /// How long it counts.
    pub ttl_ms: u64,
}

impl Life {
    /// The last instant at which it counts.
    pub fn last_ms(self) -> u64 {
        self.issued_ms.saturating_add(self.ttl_ms)
    }

    /// Whether it counts at `now_ms`, with a life of at most `ttl_max_ms`.
    ///
    /// # Errors
    /// Its life is too long, or has not begun, or is over.
    pub fn check(self, now_ms: u64, ttl_max_ms: u64) -> Result<(), LifeError> {
        let Self { issued_ms, ttl_ms } = self;
        if ttl_ms > ttl_max_ms {
            return Err(LifeError::TooLong { ttl_ms, ttl_max_ms });
        }
        if issued_ms > now_ms.saturating_add(CLOCK_SKEW_MS) {
            return Err(LifeError::FromTheFuture { issued_ms, now_ms });
        }
        let last_ms = self.last_ms();
        if now_ms > last_ms {
            return Err(LifeError::Expired { last_ms, now_ms });
        }
        Ok(())
    }

    /// Writes both fields; they stand in their structure's own array.
    pub(crate) fn encode_fields<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        writer.uint(self.issued_ms).uint(self.ttl_ms)
    }

    /// Reads both fields.
    pub(crate) fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, CborError> {
        Ok(Self {
            issued_ms: reader.uint()?,
            ttl_ms: reader.uint()?,
        })
    }
}

/// Why something signed does not count now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LifeError {
    /// Issued more than σ after now.
    #[error("issued at {issued_ms}, in the future of {now_ms}; compare the two clocks")]
    FromTheFuture {
        /// When it says it was issued.
        issued_ms: u64,
        /// The instant it was judged at.
        now_ms: u64,
    },
    /// Its last instant has passed.
    #[error("expired at {last_ms}, before {now_ms}")]
    Expired {
        /// Its last instant.
        last_ms: u64,
        /// The instant it was judged at.
        now_ms: u64,
    },
    /// It asks for a longer life than such things may have.
    #[error("a life of {ttl_ms} ms; at most {ttl_max_ms} ms are allowed")]
    TooLong {
        /// The life it asks for.
        ttl_ms: u64,
        /// The most there is.
        ttl_max_ms: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_life_is_closed_at_both_ends_and_begins_a_skew_early() {
        let life = Life {
            issued_ms: 10_000,
            ttl_ms: 500,
        };
        let at = |now_ms| life.check(now_ms, 500);
        assert!(matches!(at(6_999), Err(LifeError::FromTheFuture { .. })));
        assert_eq!(at(7_000), Ok(()));
        assert_eq!(at(10_500), Ok(()));
        assert!(matches!(at(10_501), Err(LifeError::Expired { .. })));
        assert!(matches!(
            life.check(10_000, 499),
            Err(LifeError::TooLong { .. })
        ));
    }

    #[test]
    fn law_no_instant_overflows() {
        let life = Life {
            issued_ms: u64::MAX,
            ttl_ms: u64::MAX,
        };
        assert_eq!(life.check(u64::MAX, u64::MAX), Ok(()));
        assert!(life.check(0, u64::MAX).is_err());
    }
}
