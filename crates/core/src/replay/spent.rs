//! Spent instants: when everything a stream admitted, or signed, can no longer be delivered.
//!
//! Law (spent): after its spent instant no transaction of the stream passes verification on any
//! node whose clock is right within σ, however it travels. A proof is live until its last instant;
//! a clock σ behind sees that σ later. An application transaction may also come out of a relay
//! inbox that took it while its proof lived, kept it seven days, and runs σ behind.
//! Sources: seed 1, "Receiver streams by connection slot"; protocol decision 4.

use crate::identity::CLOCK_SKEW_MS;
use crate::ids::Class;
use crate::transaction::PROOF_TTL_MAX_MS;

/// The longest a relay inbox keeps a mail. Source: protocol decision 8.
pub const MAIL_LIFE_MAX_MS: u64 = 7 * 24 * 3_600 * 1_000;

/// How long a process has run since it loaded a stream or last used it, before it may retire it:
/// by then every proof the stream ever admitted has expired, whatever the wall clock says.
pub const RIPE_MS: u64 = PROOF_TTL_MAX_MS + 2 * CLOCK_SKEW_MS;

/// The instant from which a transaction whose proof lives until `last_ms` is spent.
pub const fn spent_ms(class: Class, last_ms: u64) -> u64 {
    let live = last_ms.saturating_add(CLOCK_SKEW_MS);
    match class {
        Class::Application => live.saturating_add(MAIL_LIFE_MAX_MS + CLOCK_SKEW_MS),
        Class::Control | Class::Storage | Class::E2e => live,
    }
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
