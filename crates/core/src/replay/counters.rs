//! What the engine counts. Every counter stops at its end instead of wrapping.

use super::outcome::Staged;
use super::quota::QuotaRefusal;
use super::refusal::Refusal;
use super::window::Verdict;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often each thing has happened since the process started. Everything is counted
        /// when it is durable, so nothing of a batch that failed.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Every counter with its one name, in declared order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }

            /// All counters at their ends.
            #[cfg(test)]
            pub(super) const fn full() -> Self {
                Self { $($name: u64::MAX,)* }
            }
        }
    };
}

counters! {
    /// Transactions that started a stream.
    first,
    /// Transactions that advanced a window.
    advance,
    /// Transactions that filled a slot inside a window.
    late,
    /// Of the admitted: those judged by a link-local window.
    link_local,
    /// Of the admitted: mails that entered custody.
    held,
    /// Mails that came again while in custody.
    held_again,
    /// Mails taken out of custody.
    taken,
    /// Mails that were spent before they were taken.
    custody_expired,
    /// Transactions refused because they were admitted before.
    replay,
    /// Transactions refused because another has their sequence.
    fork,
    /// Transactions refused because their sequence is below the window.
    stale,
    /// Calls refused because the stream's record does not restore.
    unavailable_stream,
    /// Transactions refused for the message quota.
    quota_messages,
    /// Transactions refused for the byte quota.
    quota_bytes,
    /// Transactions refused because all quota records are in use.
    quota_records,
    /// New receiver streams refused: their introducer's share is used up.
    stream_share_full,
    /// New sender streams refused: the table is full.
    sender_streams_full,
    /// Mail refused because custody is full.
    relay_custody_full,
    /// Takes of mail that is not in custody.
    not_in_custody,
    /// Mail refused because it is spent.
    spent_mail,
    /// Transactions refused because their proofs ended while they waited.
    expired,
    /// Transactions refused because the clock is suspect.
    clock_suspect,
    /// New link-local streams refused: the connection has as many as it may.
    link_local_streams_full,
    /// Reservations refused because no sequence is left.
    sequences_exhausted,
    /// Evidences refused because the fork log is full.
    fork_log_full,
    /// Calls refused because too many wait for the store.
    pending_full,
    /// Calls refused because there is no store, or it failed, or they were asked wrongly.
    other_refusal,
    /// Reservations released.
    reserved,
    /// Evidences kept.
    evidence_kept,
    /// Batches that became durable.
    batches,
    /// Records written or removed by them.
    changes,
    /// Batches, and scans, that failed.
    persistence_failure,
    /// Receiver streams retired.
    retired_receiver,
    /// Sender streams retired.
    retired_sender,
    /// Records that did not restore, at the last scan.
    unrestorable_record,
}

pub(super) fn bump(counter: &mut u64) {
    add(counter, 1);
}

pub(super) fn add(counter: &mut u64, count: u64) {
    *counter = counter.saturating_add(count);
}

impl Counters {
    /// Counts an answer as it is released.
    pub(super) fn count<T>(&mut self, staged: &Staged<T>) {
        match staged {
            Staged::Admit { verdict, local, .. } => {
                self.count_verdict(*verdict);
                add(&mut self.link_local, u64::from(*local));
            }
            Staged::Hold { verdict, .. } if verdict.admits() => {
                self.count_verdict(*verdict);
                bump(&mut self.held);
            }
            Staged::Hold { .. } => bump(&mut self.held_again),
            Staged::Take { .. } => bump(&mut self.taken),
            Staged::Reserve { .. } => bump(&mut self.reserved),
            Staged::Keep(_) => bump(&mut self.evidence_kept),
            Staged::Refuse { refusal, .. } => bump(self.of(refusal)),
        }
    }

    fn count_verdict(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::First => bump(&mut self.first),
            Verdict::Advance { .. } => bump(&mut self.advance),
            Verdict::Late => bump(&mut self.late),
            Verdict::Replay | Verdict::Fork { .. } | Verdict::Stale { .. } => {}
        }
    }

    fn of(&mut self, refusal: &Refusal) -> &mut u64 {
        match refusal {
            Refusal::Replay { .. } => &mut self.replay,
            Refusal::Fork(_) => &mut self.fork,
            Refusal::Stale { .. } => &mut self.stale,
            Refusal::StreamUnavailable { .. } => &mut self.unavailable_stream,
            Refusal::Quota { quota, .. } => match quota {
                QuotaRefusal::Messages { .. } => &mut self.quota_messages,
                QuotaRefusal::Bytes { .. } | QuotaRefusal::OverBurst { .. } => {
                    &mut self.quota_bytes
                }
                QuotaRefusal::Records => &mut self.quota_records,
            },
            Refusal::StreamShareFull { .. } => &mut self.stream_share_full,
            Refusal::SenderStreamsFull { .. } => &mut self.sender_streams_full,
            Refusal::RelayCustodyFull { .. } => &mut self.relay_custody_full,
            Refusal::NotInCustody { .. } => &mut self.not_in_custody,
            Refusal::SpentMail { .. } => &mut self.spent_mail,
            Refusal::Expired { .. } => &mut self.expired,
            Refusal::ClockSuspect { .. } => &mut self.clock_suspect,
            Refusal::LinkLocalStreamsFull { .. } => &mut self.link_local_streams_full,
            Refusal::SequencesExhausted { .. } => &mut self.sequences_exhausted,
            Refusal::ForkLogFull => &mut self.fork_log_full,
            Refusal::PendingFull => &mut self.pending_full,
            Refusal::StorageUnavailable
            | Refusal::StoreFailed { .. }
            | Refusal::ReservationSize { .. }
            | Refusal::EvidenceTooLarge { .. } => &mut self.other_refusal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_counters_stop_at_their_ends() {
        let mut counters = Counters::full();
        for name in Counters::full().iter().map(|(name, _)| name) {
            assert!(!name.is_empty());
        }
        let verdict = Verdict::First;
        let local = true;
        let item = ();
        for staged in [
            Staged::Admit {
                item,
                verdict,
                local,
            },
            Staged::Hold { item, verdict },
            Staged::Take { item, verdict },
        ] {
            counters.count(&staged);
        }
        bump(&mut counters.batches);
        add(&mut counters.changes, u64::MAX);
        assert_eq!(counters, Counters::full());
    }
}
