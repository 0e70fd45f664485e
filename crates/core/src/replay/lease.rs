//! The sender's lease: which sequences its durable record covers.
//!
//! Law (lease): a sequence is handed out at most once, whatever the crash point. The durable
//! record names an end; a sequence is handed out only below a durable end; a restart resumes at
//! the durable end. Proof sketch: let `e` be the end last made durable before a crash. Every
//! sequence handed out before it was below some end that was durable then, and ends only grow,
//! so it was below `e`; every sequence handed out after it is `e` or above. A crash between the
//! write of an end and its release leaves `e` larger than anything handed out: a gap of at most
//! one lease, which a receiver takes as one advance.
//! Sources: seed 1, "Persistence and bounds"; protocol decision 3.

/// How many sequences a new lease covers at least.
pub const LEASE_SEQUENCES: u64 = 64;

/// How many sequences one reservation may ask for.
pub const RESERVATION_MAX: u64 = 1_024;

/// A stream without a record starts at its clock's milliseconds shifted left by this many bits:
/// room for a thousand million signatures a second without two starts ever crossing.
pub const START_SHIFT: u32 = 20;

/// The sequences of a stream ran out, or its clock is beyond what a start can hold. The stream
/// fails closed; it never wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stream has no sequence left")]
pub struct SequencesExhausted;

/// What a sender stream may hand out without a write, and what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    next: u64,
    /// The first sequence that the durable record does not cover.
    end: u64,
}

impl Lease {
    /// The empty lease of a stream without a record. It starts above everything the stream can
    /// have signed at an earlier instant of the same clock, and above `floor`, which is the end of
    /// every stream this node has retired.
    ///
    /// # Errors
    /// [`SequencesExhausted`] when the clock's milliseconds do not fit.
    pub fn start(wall_ms: u64, floor: u64) -> Result<Self, SequencesExhausted> {
        let start = wall_ms
            .checked_mul(1 << START_SHIFT)
            .ok_or(SequencesExhausted)?
            .max(floor);
        Ok(Self::resume(start))
    }

    /// The empty lease of a stream whose durable record names this end.
    pub const fn resume(end: u64) -> Self {
        Self { next: end, end }
    }

    /// The first sequence the lease does not cover.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// The sequence handed out next.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Takes `count` sequences and returns the first. Where they outrun the lease, the lease
    /// grows to cover them and [`LEASE_SEQUENCES`] from the first of them at least; the new end
    /// has to be durable before any of them is used.
    ///
    /// # Errors
    /// [`SequencesExhausted`]; the lease is unchanged.
    pub fn reserve(&mut self, count: u64) -> Result<u64, SequencesExhausted> {
        let first = self.next;
        let needed = first.checked_add(count).ok_or(SequencesExhausted)?;
        if needed > self.end {
            self.end = needed.max(first.saturating_add(LEASE_SEQUENCES));
        }
        self.next = needed;
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lease_covers_sixty_four_single_reservations() {
        let mut lease = Lease::start(5, 0).unwrap();
        assert_eq!(lease.reserve(1), Ok(5 << 20));
        let end = lease.end();
        for taken in 1..LEASE_SEQUENCES {
            assert_eq!(lease.reserve(1), Ok((5 << 20) + taken));
            assert_eq!(lease.end(), end);
        }
        assert_eq!(lease.reserve(1), Ok(end));
        assert_eq!(lease.end(), end + LEASE_SEQUENCES);
    }

    #[test]
    fn a_start_is_above_the_floor_of_retired_streams_and_the_clock() {
        assert_eq!(Lease::start(1, 7 << 20).map(|l| l.next()), Ok(7 << 20));
        assert_eq!(Lease::start(9, 7 << 20).map(|l| l.next()), Ok(9 << 20));
    }

    #[test]
    fn law_lease_wrap_fails_closed() {
        let mut lease = Lease::resume(u64::MAX - 2);
        assert_eq!(lease.reserve(2), Ok(u64::MAX - 2));
        assert_eq!(lease.end(), u64::MAX);
        let before = lease;
        assert_eq!(lease.reserve(1), Err(SequencesExhausted));
        assert_eq!(lease, before);
        assert_eq!(Lease::start(1 << 44, 0), Err(SequencesExhausted));
        assert!(Lease::start((1 << 44) - 1, 0).is_ok());
    }
}
