//! Judging: one serialised boundary in which a transaction is classified, charged and staged.
//!
//! Law (boundary): what a refusal costs is nothing. The order is: bad records, custody, the window,
//! the proof's life, the floors, the introducer's share, the quota; only when none refuses does
//! anything change. Replays, forks and stale transactions are refused by the window, so before the quota.
//! A proof's life is judged here again: what was verified may have waited for its turn since.

use super::state::{State, Use};
use crate::identity::CLOCK_SKEW_MS;
use crate::ids::{Class, StreamKey};
use crate::replay::clock::Now;
use crate::replay::custody::{CUSTODY_CAPACITY, CustodyEntry};
use crate::replay::lease::{Lease, RESERVATION_MAX};
use crate::replay::outcome::Candidate;
use crate::replay::record::{Op, ReceiverRecord, Table};
use crate::replay::refusal::{Forked, Refusal};
use crate::replay::slots::{Introducer, STREAM_CAPACITY, Slot};
use crate::replay::spent::spent_ms;
use crate::replay::volatile::VOLATILE_STREAMS;
use crate::replay::window::{Verdict, Window, observe};
use crate::transaction::PROOF_TTL_MAX_MS;

/// How long a lease may be used; after it the next reservation writes a new spent instant.
pub const LEASE_LIFE_MS: u64 = 3_600_000;

/// How long after its reservation a sequence may be signed and still be covered by the lease's
/// spent instant.
pub const SIGN_WITHIN_MS: u64 = 60_000;

/// What becomes of a transaction that is not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// It enters a window.
    Admit { verdict: Verdict, local: bool },
    /// It is mail, and is in custody.
    Hold(Verdict),
}

impl State {
    /// Judges a transaction and, unless it is refused, stages what it changes.
    pub(super) fn judge(
        &mut self,
        item: &impl Candidate,
        introducer: Introducer,
        now: Now,
    ) -> Result<Judged, Refusal> {
        if let Some(slot) = self.link_local(item, introducer) {
            return self.judge_link_local(item, slot, now);
        }
        let (stream, sequence, digest) = (item.stream(), item.sequence(), item.digest());
        let mail = introducer == Introducer::Inbox;
        let item_spent_ms = spent_ms(stream.class, item.last_ms());
        let Some(receiver) = self.tables.receivers.get(&stream) else {
            self.check_new(item, introducer, now)?;
            let used = self.charge(item, now)?;
            let entry = CustodyEntry {
                sequence,
                digest,
                spent_ms: item_spent_ms,
            };
            let record = ReceiverRecord {
                stream,
                version: 1,
                window: Window::first(sequence, digest),
                custody: mail.then_some(entry).into_iter().collect(),
                introducer,
                spent_ms: item_spent_ms,
            };
            self.create_receiver(record, used);
            return Ok(judged(mail, Verdict::First));
        };
        // The same mail again, however far the window has moved since.
        if in_custody(receiver.record.custody_entry(sequence), item) {
            return Ok(Judged::Hold(Verdict::Replay));
        }
        let verdict = receiver.record.window.classify(sequence, digest);
        refuse_verdict(verdict, item)?;
        self.check_floor(item, introducer, verdict, now)?;
        let used = self.charge(item, now)?;
        let op = Op::Admit {
            sequence,
            digest,
            spent_ms: item_spent_ms,
            custody: mail,
        };
        match self.change_receiver(stream, op, Some(used)) {
            Ok(()) => {
                // What advances a retained stream over a live connection is fresh: a witness.
                if matches!(verdict, Verdict::Advance { .. })
                    && matches!(introducer, Introducer::Slot(_))
                {
                    self.witness.hear(item.issued_ms(), now);
                }
                Ok(judged(mail, verdict))
            }
            // The window admits what it classified so; were it otherwise, fail closed.
            Err(_) => Err(Refusal::Replay { stream, sequence }),
        }
    }

    /// Takes a mail out of custody.
    pub(super) fn take(&mut self, item: &impl Candidate) -> Result<(), Refusal> {
        let (stream, sequence) = (item.stream(), item.sequence());
        let held = self.tables.receivers.get(&stream);
        let entry = held.and_then(|it| it.record.custody_entry(sequence));
        let op = Op::LeaveCustody { sequence };
        if in_custody(entry, item) && self.change_receiver(stream, op, None).is_ok() {
            return Ok(());
        }
        Err(Refusal::NotInCustody { stream, sequence })
    }

    /// Reserves sequences of a sender stream, and leases more where they outrun the lease.
    pub(super) fn reserve(
        &mut self,
        stream: StreamKey,
        count: u64,
        now: Now,
    ) -> Result<u64, Refusal> {
        if !(1..=RESERVATION_MAX).contains(&count) {
            return Err(Refusal::ReservationSize { count });
        }
        let exhausted = |_| Refusal::SequencesExhausted { stream };
        let held = self.tables.senders.get(&stream);
        let mut lease = match held {
            Some(sender) => sender.lease,
            None => {
                self.check_available(Table::Sender, &stream)?;
                if self.tables.senders_used() >= STREAM_CAPACITY {
                    return Err(Refusal::SenderStreamsFull { stream });
                }
                Lease::start(now.wall_ms, self.tables.floor.sender_end).map_err(exhausted)?
            }
        };
        let (leased_to, covered_ms) = held.map_or((None, 0), |sender| {
            (Some(sender.lease.end()), sender.record.spent_ms)
        });
        let first = lease.reserve(count).map_err(exhausted)?;
        let signed_ms = now.wall_ms.saturating_add(SIGN_WITHIN_MS);
        let last_ms = signed_ms.saturating_add(PROOF_TTL_MAX_MS);
        let renew = leased_to != Some(lease.end()) || spent_ms(stream.class, last_ms) > covered_ms;
        let renewed_ms = spent_ms(stream.class, last_ms.saturating_add(LEASE_LIFE_MS));
        self.set_lease(stream, lease, renew.then_some(renewed_ms), now);
        Ok(first)
    }

    /// Whether the record that this stream has, or would have, restores.
    pub(super) fn check_available(&self, table: Table, stream: &StreamKey) -> Result<(), Refusal> {
        if self.tables.unrestorable.is_empty() {
            return Ok(());
        }
        let record = table.record_name(stream);
        match self.tables.unrestorable.get(&record) {
            None => Ok(()),
            Some(bad) => Err(Refusal::StreamUnavailable {
                table,
                stream: *stream,
                record,
                bad: bad.clone(),
            }),
        }
    }

    fn check_new(
        &self,
        item: &impl Candidate,
        introducer: Introducer,
        now: Now,
    ) -> Result<(), Refusal> {
        let stream = item.stream();
        self.check_available(Table::Receiver, &stream)?;
        self.check_floor(item, introducer, Verdict::First, now)?;
        let used = self.tables.receivers_used();
        let share = self.tables.slots.check(introducer, used);
        share.map_err(|full| Refusal::StreamShareFull { stream, full })
    }

    /// Refuses what a stream that was retired may have admitted: a live transaction whose proof has
    /// ended since it was verified; and, by the floor, a first transaction, a late one, since a
    /// retained stream may be one that started again, and any mail. Live traffic that advances a
    /// window is above what its origin signed in the stream's former life.
    fn check_floor(
        &self,
        item: &impl Candidate,
        introducer: Introducer,
        verdict: Verdict,
        now: Now,
    ) -> Result<(), Refusal> {
        let late = verdict == Verdict::Late && !mutant!(AsksNoFloorOfLateOnes);
        let former = late || verdict == Verdict::First;
        let floor_ms = self.tables.floor.mail_ms;
        if introducer == Introducer::Inbox {
            if former {
                self.check_available(Table::Floor, &item.stream())?;
            }
            return self.check_mail(item, now.wall_ms.max(floor_ms));
        }
        let last_ms = item.last_ms();
        if last_ms < now.wall_ms {
            return Err(Refusal::Expired {
                stream: item.stream(),
                sequence: item.sequence(),
                last_ms,
            });
        }
        let below = former && last_ms.saturating_add(CLOCK_SKEW_MS) < floor_ms;
        if below && !self.witness.confirms(now) && !mutant!(BelievesAClockSetBack) {
            let stream = item.stream();
            return Err(Refusal::ClockSuspect { stream, floor_ms });
        }
        Ok(())
    }

    fn check_mail(&self, item: &impl Candidate, floor_ms: u64) -> Result<(), Refusal> {
        let stream = item.stream();
        if spent_ms(stream.class, item.last_ms()) < floor_ms {
            let sequence = item.sequence();
            return Err(Refusal::SpentMail {
                stream,
                sequence,
                floor_ms,
            });
        }
        match self.tables.custody.first() {
            Some(&(earliest_ms, ..)) if self.tables.custody.len() >= CUSTODY_CAPACITY => {
                Err(Refusal::RelayCustodyFull {
                    stream,
                    earliest_ms,
                })
            }
            _ => Ok(()),
        }
    }

    fn link_local(&self, item: &impl Candidate, introducer: Introducer) -> Option<Slot> {
        let Introducer::Slot(slot) = introducer else {
            return None;
        };
        let stream = item.stream();
        let own = self.tables.slots.peer(slot) == Some(stream.origin);
        let local =
            own && stream.class == Class::Application && self.volatile.delegates(item.namespace());
        local.then_some(slot)
    }

    fn judge_link_local(
        &mut self,
        item: &impl Candidate,
        slot: Slot,
        now: Now,
    ) -> Result<Judged, Refusal> {
        let (stream, sequence, digest) = (item.stream(), item.sequence(), item.digest());
        let mut window = self.volatile.window(slot, &stream).cloned();
        if window.is_none() && self.volatile.streams(slot) >= VOLATILE_STREAMS {
            return Err(Refusal::LinkLocalStreamsFull { stream });
        }
        let verdict = observe(&mut window, sequence, digest);
        refuse_verdict(verdict, item)?;
        let used = self.charge(item, now)?;
        if let Some(window) = window {
            self.set_window(slot, stream, window, used);
        }
        let local = true;
        Ok(Judged::Admit { verdict, local })
    }

    fn charge(&mut self, item: &impl Candidate, now: Now) -> Result<Use, Refusal> {
        let stream = item.stream();
        let charged = self.quota.charge(&stream, item.data_bytes(), now.steady_ms);
        charged
            .map(|bucket| Use { now, bucket })
            .map_err(|quota| Refusal::Quota { stream, quota })
    }
}

fn judged(mail: bool, verdict: Verdict) -> Judged {
    if mail {
        Judged::Hold(verdict)
    } else {
        let local = false;
        Judged::Admit { verdict, local }
    }
}

fn in_custody(entry: Option<&CustodyEntry>, item: &impl Candidate) -> bool {
    entry.is_some_and(|entry| entry.digest == item.digest())
}

fn refuse_verdict(verdict: Verdict, item: &impl Candidate) -> Result<(), Refusal> {
    let (stream, sequence) = (item.stream(), item.sequence());
    match verdict {
        Verdict::First | Verdict::Advance { .. } | Verdict::Late => Ok(()),
        Verdict::Replay => Err(Refusal::Replay { stream, sequence }),
        Verdict::Stale { lowest } => Err(Refusal::Stale {
            stream,
            sequence,
            lowest,
        }),
        Verdict::Fork { accepted, offered } => Err(Refusal::Fork(Box::new(Forked {
            stream,
            sequence,
            accepted,
            offered,
            accepted_header: None,
        }))),
    }
}
