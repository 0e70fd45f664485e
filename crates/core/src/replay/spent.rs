//! Spent instants: when everything a stream admitted, or signed, can no longer be delivered.
//!
//! Law (spent): after its spent instant no transaction of the stream passes verification on any
//! node whose clock is right within σ, however it travels. A proof is live until its last instant;
//! a clock σ behind sees that σ later. An application transaction may also come out of a relay
//! inbox that took it while its proof lived, kept it seven days, and runs σ behind.
//! Sources: seed 1, "Receiver streams by connection slot"; protocol decision 4.

use crate::ids::Class;

/// σ, the bound on how far two clocks differ. Source: protocol decision 1.
pub const SKEW_MS: u64 = 3_000;

/// The longest life of a transaction's proof. Source: protocol decision 2.
pub const PROOF_LIFE_MAX_MS: u64 = 6_000_000;

/// The longest a relay inbox keeps a mail. Source: protocol decision 8.
pub const MAIL_LIFE_MAX_MS: u64 = 7 * 24 * 3_600 * 1_000;

/// How long a process has run since it loaded a stream or last used it, before it may retire it:
/// by then every proof the stream ever admitted has expired, whatever the wall clock says.
pub const RIPE_MS: u64 = PROOF_LIFE_MAX_MS + 2 * SKEW_MS;

/// The instant from which a transaction whose proof lives until `last_ms` is spent.
pub const fn spent_ms(class: Class, last_ms: u64) -> u64 {
    let live = last_ms.saturating_add(SKEW_MS);
    match class {
        Class::Application => live.saturating_add(MAIL_LIFE_MAX_MS + SKEW_MS),
        Class::Control | Class::Storage | Class::E2e => live,
    }
}

/// The two clocks, read together inside the boundary of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the Unix epoch, by a clock that may be set.
    pub wall_ms: u64,
    /// Milliseconds of a clock that only runs forward, from any start.
    pub steady_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn application_streams_are_spent_a_mail_later_than_the_others() {
        for class in [Class::Control, Class::Storage, Class::E2e] {
            assert_eq!(spent_ms(class, 10_000), 13_000);
        }
        let application = spent_ms(Class::Application, 10_000);
        assert_eq!(application, 13_000 + 604_800_000 + 3_000);
        assert_eq!(spent_ms(Class::Application, u64::MAX), u64::MAX);
    }
}
