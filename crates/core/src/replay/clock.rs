//! The two clocks, and who confirms the one that can be set.
//!
//! The wall clock decides nothing that forgets: a stream retires only while fresh proofs of peers
//! place the wall clock within a few σ. A wrong clock together with a peer that lies the same way
//! is the residual; then the steady clock and the mail floor still hold. Source: protocol
//! decision 4 (two-clock retirement).

use crate::identity::CLOCK_SKEW_MS;

/// How far a fresh proof's issue may lie from the wall clock: both clocks' σ and the way between.
pub const WITNESS_WITHIN_MS: u64 = 4 * CLOCK_SKEW_MS;

/// How long a witness confirms the wall clock, by the steady one.
pub const WITNESS_LIFE_MS: u64 = 600_000;

/// The two clocks, read together inside the boundary of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Now {
    /// Milliseconds since the Unix epoch, by a clock that may be set.
    pub wall_ms: u64,
    /// Milliseconds of a clock that only runs forward, from any start.
    pub steady_ms: u64,
}

/// The last fresh proof that agreed with the wall clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Witness {
    last: Option<Now>,
}

impl Witness {
    /// A fresh proof was issued at `issued_ms` by its signer's clock.
    pub(super) fn hear(&mut self, issued_ms: u64, now: Now) {
        if now.wall_ms.abs_diff(issued_ms) <= WITNESS_WITHIN_MS {
            self.last = Some(now);
        }
    }

    /// Whether the wall clock is confirmed: a witness agreed with it not long ago, and it has
    /// not been set since.
    pub(super) fn confirms(&self, now: Now) -> bool {
        let Some(last) = self.last else { return false };
        let Some(steady) = now.steady_ms.checked_sub(last.steady_ms) else {
            return false;
        };
        let expected_ms = last.wall_ms.saturating_add(steady);
        steady <= WITNESS_LIFE_MS && now.wall_ms.abs_diff(expected_ms) <= WITNESS_WITHIN_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    fn at(wall_ms: u64, steady_ms: u64) -> Now {
        Now { wall_ms, steady_ms }
    }

    #[test]
    fn a_witness_confirms_the_clock_until_it_is_old_or_the_clock_is_set() {
        let mut witness = Witness::default();
        let start = 1_000 * HOUR_MS;
        assert!(!witness.confirms(at(start, 0)));
        witness.hear(start + WITNESS_WITHIN_MS, at(start, 0));
        assert!(witness.confirms(at(start, 0)));
        assert!(witness.confirms(at(start + WITNESS_LIFE_MS, WITNESS_LIFE_MS)));
        assert!(!witness.confirms(at(start + WITNESS_LIFE_MS + 1, WITNESS_LIFE_MS + 1)));
        assert!(!witness.confirms(at(start + 24 * HOUR_MS, 1)));
        assert!(!witness.confirms(at(start - 24 * HOUR_MS, 1)));
        assert!(witness.confirms(at(start, 1)));
    }

    #[test]
    fn a_proof_of_another_hour_is_no_witness() {
        let mut witness = Witness::default();
        let start = 1_000 * HOUR_MS;
        witness.hear(start + WITNESS_WITHIN_MS + 1, at(start, 0));
        witness.hear(start - WITNESS_WITHIN_MS - 1, at(start, 0));
        assert!(!witness.confirms(at(start, 0)));
    }
}
