//! The owner's side: what holders have for this node, from fetching it to its taking.
//!
//! Law **in order**: mail of a stream is admitted in the order of its sequences, when all holders that answer
//! have given what they hold, and nothing more when asked again, so that no mail makes another stale. Law **custody**:
//! a mail is admitted charged to the inbox's share, and into custody in the same batch; what finds no room waits where
//! it is.
//! Law **released when taken**: its holders are told to let go of a mail when its application has taken it,
//! durably, or had before.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::identity::Verified;
use overlane_core::mail::{HoldProof, Mail};
use overlane_core::replay::{
    self, CUSTODY_CAPACITY, Candidate, Custodial, Introducer, Now, Outcome,
};
use overlane_core::transaction::Payload;
use overlane_core::{Coded, Did, StreamKey, TransactionDigest};
use overlane_relay::inbox::bounds::CHAIN;

use super::super::counters::count;
use super::super::story::{Step, named};
use super::super::{Effect as PeerEffect, Event, Peer, Released, Staged};
use super::keeper::Job;
use super::types::{Effect, InboxError, MailEvent, TakeId, WaitingMail};

/// Mails that were fetched and wait for custody.
pub const FETCHED_MAX: usize = 2_048;

/// Bytes of them.
pub const FETCHED_MAX_BYTES: usize = 32 * 1024 * 1024;

/// How long the slowest holder is waited for before what is there is admitted, in milliseconds.
pub const GATHER_MS: u64 = 10_000;

/// How long takings gather before what was taken is signed once, in milliseconds.
pub const SIGN_AFTER_MS: u64 = 200;

/// The owner's part.
#[derive(Debug, Default)]
pub(super) struct Owner {
    /// Who holds this node's inbox, by the ring.
    pub(super) holders: Vec<Did>,
    /// Those that gave all they hold since.
    pub(super) drained: BTreeSet<Did>,
    /// Those that were asked and have not ended, each with what had come before; and how long they are waited for.
    asked: BTreeMap<Did, u64>,
    gather_until_ms: Option<u64>,
    /// Mails that came since the start.
    fetched_ever: u64,
    fetched: BTreeMap<(StreamKey, u64, TransactionDigest), Box<Mail>>,
    fetched_bytes: usize,
    /// With the engine.
    admitting: BTreeMap<TransactionDigest, HoldProof>,
    custody: BTreeMap<TransactionDigest, Held>,
    taking: BTreeSet<TransactionDigest>,
    came: u64,
    /// Something did not fit: when there is room, holders are asked again.
    left_some: bool,
    sign_at_ms: Option<u64>,
}

/// A mail in custody.
#[derive(Debug)]
struct Held {
    mail: Custodial<Verified<Payload>>,
    hold: HoldProof,
    came: u64,
}

impl Owner {
    pub(super) fn due_ms(&self) -> Option<u64> {
        [self.gather_until_ms, self.sign_at_ms]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn fetched(&self) -> usize {
        self.fetched.len()
    }

    /// The first instant at which a holder lets go of a mail that was fetched and waits for room.
    pub(super) fn waits_until_ms(&self) -> Option<u64> {
        let until = self.fetched.values().map(|it| it.hold_proof().until_ms());
        until.min()
    }

    /// Whether mail waits at its holders for room here.
    pub(super) fn leaves_some(&self) -> bool {
        !self.fetched.is_empty() || self.left_some
    }

    /// How many mails can be taken.
    pub(super) fn takeable(&self) -> usize {
        self.custody.len()
    }

    pub(super) fn waiting(&self) -> Vec<WaitingMail> {
        let mut held: Vec<&Held> = self.custody.values().collect();
        held.sort_by_key(|it| it.came);
        let waiting = held.into_iter().map(|it| {
            let payload = it.mail.item();
            WaitingMail {
                digest: payload.digest(),
                origin: payload.origin(),
                sequence: payload.sequence(),
                bytes: payload.data_bytes(),
                holder: it.hold.signer(),
                held_ms: it.hold.held_ms(),
            }
        });
        waiting.collect()
    }

    fn forget(&mut self, key: &(StreamKey, u64, TransactionDigest)) -> Option<Box<Mail>> {
        let mail = self.fetched.remove(key)?;
        self.fetched_bytes = self
            .fetched_bytes
            .saturating_sub(mail.payload().data_bytes());
        Some(mail)
    }
}

impl Peer {
    /// Takes the mail that came first, or this one, out of custody. What comes of it is
    /// [`Effect::Taken`]: the mail, once that is durable.
    pub fn take_mail(&mut self, id: TakeId, digest: Option<TransactionDigest>, now: Now) {
        if let Err(error) = self.try_take(id, digest, now) {
            self.effects
                .push_back(PeerEffect::Mail(Effect::Taken(id, Err(error))));
        }
        self.settle(now);
    }

    fn try_take(
        &mut self,
        id: TakeId,
        digest: Option<TransactionDigest>,
        now: Now,
    ) -> Result<(), InboxError> {
        if !self.mail.open {
            return Err(InboxError::NoStore);
        }
        let owner = &mut self.mail.owner;
        let first = || {
            owner
                .custody
                .iter()
                .min_by_key(|it| it.1.came)
                .map(|it| *it.0)
        };
        let digest = digest.or_else(first).ok_or(InboxError::Empty)?;
        let held = owner.custody.remove(&digest);
        let held = held.ok_or(InboxError::NotWaiting { digest })?;
        owner.taking.insert(digest);
        let ticket = self.engine.stage_take(held.mail, now);
        self.staged.insert(ticket, Staged::Take(id, digest));
        Ok(())
    }

    /// The engine released a taking, or refused it.
    pub(in crate::peer) fn taken_mail(
        &mut self,
        id: TakeId,
        digest: TransactionDigest,
        outcome: Released,
        now: Now,
    ) {
        self.mail.owner.taking.remove(&digest);
        let result = match outcome {
            Outcome::Admitted(admitted) => {
                self.mail.counters.taken += 1;
                self.note_step(named(admitted.item()), Step::Taken, now);
                self.release_mail(digest, now);
                Ok(Box::new(admitted))
            }
            Outcome::Refused { refusal, .. } => {
                // It is in custody no more, or the store failed: holders keep it.
                self.keep(Job::NotKept(digest), false, now);
                Err(refusal.into())
            }
            _ => Err(InboxError::NotWaiting { digest }),
        };
        self.effects
            .push_back(PeerEffect::Mail(Effect::Taken(id, result)));
        self.admit_fetched(now);
        if self.mail.owner.left_some && self.mail.owner.fetched.is_empty() {
            self.mail.owner.left_some = false;
            self.fetch_mail(now);
        }
    }

    /// Holders may let go of a mail.
    fn release_mail(&mut self, digest: TransactionDigest, now: Now) {
        self.keep(Job::Taken(digest), false, now);
        self.sign_removals_soon(now);
    }

    /// What was taken is signed with what is taken in the next moment.
    pub(super) fn sign_removals_soon(&mut self, now: Now) {
        let at_ms = now.steady_ms.saturating_add(SIGN_AFTER_MS);
        self.mail.owner.sign_at_ms.get_or_insert(at_ms);
    }

    /// Whom the ring names to hold this node's inbox, if that changed. Whether it did.
    pub(super) fn note_holders(&mut self, now: Now) -> bool {
        let successors = self.ring.ring.as_ref().map(|it| it.members().successors());
        let holders = successors.unwrap_or_default();
        let holders = holders.get(..CHAIN).unwrap_or(holders);
        if self.mail.owner.holders == holders {
            return false;
        }
        let holders = holders.to_vec();
        let owner = &mut self.mail.owner;
        owner.drained.retain(|it| holders.contains(it));
        owner.holders.clone_from(&holders);
        self.tell(Event::Mail(MailEvent::Holders(holders.clone())));
        self.keep(Job::Holders(holders), false, now);
        self.fetch_mail(now);
        self.ask_what_became(now);
        true
    }

    /// Asks all holders for what they have for this node.
    pub(super) fn fetch_mail(&mut self, now: Now) {
        let holders = self.mail.owner.holders.clone();
        self.fetch_from(holders, now);
    }

    /// Another node says that it has mail for this one.
    pub(super) fn handle_announced_own(&mut self, by: Did, now: Now) {
        self.fetch_from(vec![by], now);
    }

    fn fetch_from(&mut self, holders: Vec<Did>, now: Now) {
        let owner = &mut self.mail.owner;
        // Those whom the ring names are asked in any case; of others that say they have something, as many
        // as may hand on at a time.
        let others = owner.asked.keys().filter(|it| !owner.holders.contains(it));
        let room = CHAIN.saturating_sub(others.count());
        let fresh = |it: &Did| {
            let may = room > 0 || owner.holders.contains(it);
            may && !owner.asked.contains_key(it)
        };
        let fresh: Vec<Did> = holders.into_iter().filter(fresh).collect();
        if fresh.is_empty() {
            return;
        }
        let before = owner.fetched_ever;
        owner.asked.extend(fresh.iter().map(|it| (*it, before)));
        let until_ms = now.steady_ms.saturating_add(GATHER_MS);
        owner.gather_until_ms.get_or_insert(until_ms);
        self.keep(Job::Fetch(fresh), false, now);
    }

    pub(super) fn handle_fetched(&mut self, mail: Box<Mail>, now: Now) {
        let (payload, bytes) = (mail.payload(), mail.payload().data_bytes());
        let digest = payload.digest();
        let holder = mail.hold_proof().signer();
        if let Err(refusal) = self.policy_allows(payload, holder) {
            let code = refusal.code();
            count(&mut self.counters.refused, code);
            self.note_step(named(payload), Step::CameAsMail { holder }, now);
            self.note_step(named(payload), Step::Refused { code }, now);
            return self.keep(Job::NotKept(digest), false, now);
        }
        let owner = &mut self.mail.owner;
        let key = (payload.stream(), payload.sequence(), digest);
        let room = owner.fetched.len() < FETCHED_MAX
            && owner.fetched_bytes.saturating_add(bytes) <= FETCHED_MAX_BYTES;
        if !room {
            owner.left_some = true;
            return self.keep(Job::NotKept(digest), false, now);
        }
        owner.fetched_bytes += bytes;
        owner.fetched_ever += 1;
        owner.fetched.insert(key, mail);
    }

    pub(super) fn handle_drained(&mut self, from: Did, settled: bool, now: Now) {
        let owner = &mut self.mail.owner;
        let before = owner.asked.remove(&from);
        if settled && owner.holders.contains(&from) {
            owner.drained.insert(from);
        }
        let grew = before.is_some_and(|it| it < owner.fetched_ever);
        if settled && grew && owner.gather_until_ms.is_some_and(|it| it > now.steady_ms) {
            // What it pushed may be behind its last answer, where they came by different ways, and is given again; so
            // it gave all once nothing comes any more. Others that say nothing keep none of it out.
            return self.fetch_from(vec![from], now);
        }
        if !owner.asked.is_empty() {
            return;
        }
        owner.gather_until_ms = None;
        self.admit_fetched(now);
    }

    /// Admits what was fetched, in order, as far as custody has room.
    fn admit_fetched(&mut self, now: Now) {
        if self.mail.owner.gather_until_ms.is_some() {
            return;
        }
        let keys: Vec<_> = self.mail.owner.fetched.keys().copied().collect();
        let mut blocked = BTreeSet::new();
        for key in keys {
            let (stream, sequence, digest) = key;
            let known = self.engine.receiver(&stream).is_some_and(|record| {
                let entry = record.custody.iter().find(|it| it.sequence == sequence);
                entry.is_some_and(|it| it.digest == digest)
            });
            // Those that are with the engine are counted there.
            let room = self.engine.custody() < CUSTODY_CAPACITY;
            // What is behind one that waits would make it stale.
            if !known && (!room || blocked.contains(&stream)) {
                blocked.insert(stream);
                continue;
            }
            let Some(mail) = self.mail.owner.forget(&key) else {
                continue;
            };
            let hold = mail.hold_proof().clone();
            self.mail.owner.admitting.insert(digest, hold);
            let payload = mail.into_payload();
            let ticket = self.engine.stage_admission(payload, Introducer::Inbox, now);
            self.staged.insert(ticket, Staged::Mail(digest));
        }
    }

    /// The engine released the admission of a mail, or refused it.
    pub(in crate::peer) fn admitted_mail(
        &mut self,
        digest: TransactionDigest,
        outcome: Released,
        now: Now,
    ) {
        let Some(hold) = self.mail.owner.admitting.remove(&digest) else {
            return;
        };
        match outcome {
            Outcome::InCustody(mail) => {
                let (of, holder) = (named(mail.item()), hold.signer());
                self.note_step(of, Step::CameAsMail { holder }, now);
                self.note_step(of, Step::InCustody, now);
                let origin = mail.item().origin();
                self.mail.owner.came += 1;
                let came = self.mail.owner.came;
                let held = Held { mail, hold, came };
                if self.mail.owner.custody.insert(digest, held).is_none() {
                    self.mail.counters.fetched += 1;
                    self.tell(Event::Mail(MailEvent::Waits { origin, digest }));
                }
            }
            Outcome::Refused { refusal, item } => {
                if let Some(item) = &item {
                    let (of, holder) = (named(item), hold.signer());
                    self.note_step(of, Step::CameAsMail { holder }, now);
                    let code = refusal.code();
                    self.note_step(of, Step::Refused { code }, now);
                }
                self.mail_refused(digest, &refusal, item, now);
            }
            other => tracing::error!(?other, "a mail was answered by something else"),
        }
    }

    fn mail_refused(
        &mut self,
        digest: TransactionDigest,
        refusal: &replay::Refusal,
        item: Option<Verified<Payload>>,
        now: Now,
    ) {
        let code = refusal.code();
        match refusal {
            // It was admitted before: over a link, or as mail that was taken.
            replay::Refusal::Replay { .. } => self.release_mail(digest, now),
            replay::Refusal::RelayCustodyFull { .. } => {
                self.mail.owner.left_some = true;
                self.keep(Job::NotKept(digest), false, now);
            }
            // Nothing makes these right again: they are not fetched again.
            replay::Refusal::Stale { .. }
            | replay::Refusal::Fork(_)
            | replay::Refusal::SpentMail { .. } => {
                self.keep(Job::Lost(digest), false, now);
                count(&mut self.mail.counters.lost, code);
                if let Some(item) = item {
                    let origin = Candidate::stream(&item).origin;
                    self.tell(Event::Mail(MailEvent::Lost {
                        origin,
                        digest,
                        code,
                    }));
                }
            }
            _ => {
                count(&mut self.mail.counters.put_off, code);
                self.keep(Job::NotKept(digest), false, now);
            }
        }
    }

    /// Time passed.
    pub(super) fn owner_timeout(&mut self, now: Now) {
        let over = |due: &mut u64| *due <= now.steady_ms;
        if self.mail.owner.gather_until_ms.take_if(over).is_some() {
            // Who has not answered by now is asked again at the next maintenance.
            self.mail.owner.asked.clear();
            self.admit_fetched(now);
        }
        if self.mail.owner.sign_at_ms.take_if(over).is_some() {
            self.sign_removals(now);
        }
    }

    pub(super) fn sign_removals(&mut self, now: Now) {
        let signer = self.signer.clone();
        self.keep(Job::SignRemovals(signer), false, now);
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::mail::MAIL_LIFE_DEFAULT_MS;

    use super::super::fixture::{NOW, mail, peer, signer};
    use super::*;

    /// How often holders were asked since.
    fn asked(peer: &mut Peer) -> usize {
        let effects = std::iter::from_fn(|| peer.poll_effect());
        let asks = |it: &PeerEffect| match it {
            PeerEffect::Keep(work) => matches!(work.job, Job::Fetch(_)),
            _ => false,
        };
        effects.filter(asks).count()
    }

    /// A holder gives a mail.
    fn fetched(peer: &mut Peer) {
        let held = Mail::hold(mail(3, 1), &signer(4), NOW.wall_ms, MAIL_LIFE_DEFAULT_MS);
        peer.handle_fetched(Box::new(held.unwrap()), NOW);
    }

    #[test]
    fn law_mail_is_admitted_once_its_holders_give_nothing_more_or_their_time_is_over() {
        let holder = Did([4; 20]);
        let mut peer = peer();
        peer.mail.owner.holders = vec![holder];
        peer.fetch_mail(NOW);
        assert_eq!(asked(&mut peer), 1);
        for _ in 0..3 {
            fetched(&mut peer);
            peer.handle_drained(holder, true, NOW);
            assert_eq!(asked(&mut peer), 1, "something came: it is asked again");
            assert!(peer.mail.owner.gather_until_ms.is_some());
        }
        peer.handle_drained(holder, true, NOW);
        assert_eq!(asked(&mut peer), 0);
        assert_eq!(peer.mail.owner.gather_until_ms, None);
        // It is asked again at once, while another says nothing; who came to no end is not.
        let silent = Did([5; 20]);
        peer.mail.owner.holders.push(silent);
        peer.fetch_mail(NOW);
        assert_eq!(asked(&mut peer), 1);
        fetched(&mut peer);
        peer.handle_drained(holder, true, NOW);
        assert_eq!(asked(&mut peer), 1);
        peer.handle_drained(holder, true, NOW);
        assert!(peer.mail.owner.gather_until_ms.is_some(), "one is awaited");
        peer.handle_drained(silent, false, NOW);
        assert_eq!(asked(&mut peer), 0);
        assert_eq!(peer.mail.owner.gather_until_ms, None);
        peer.mail.owner.holders.pop();
        // One that gives without end is asked no longer than that.
        peer.fetch_mail(NOW);
        let late = Now {
            steady_ms: NOW.steady_ms + GATHER_MS,
            ..NOW
        };
        fetched(&mut peer);
        peer.handle_drained(holder, true, late);
        assert_eq!(asked(&mut peer), 1, "the first question alone");
        assert_eq!(peer.mail.owner.gather_until_ms, None);
    }
}
