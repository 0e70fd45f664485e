//! Mail: messages for those who are away.
//!
//! - The sender's side (`sender`, `book`): a message is delivered, or held by the chain of its destination, and
//!   what becomes of it there is told.
//! - The holders' side (`keeper`, `chains`): what is held for others, by whom the ring names.
//! - The owner's side (`owner`): what holders have for this node, until its application takes it.
//!
//! The store is behind the [`Keeper`]: the peer gives it [`Work`] as
//! [`Effect::Keep`](super::Effect::Keep), and hears what came of it, durably, by
//! [`Peer::handle_kept`]. Law **its own place**: what another node says of mail holds its place on the
//! application's side until it is dealt with, so that a node that says more than this one's disk takes is
//! held back as by a slow application. Source: protocol decision 8, seed 1 (relay inbox), refs.md 6.1.

mod book;
mod chains;
#[cfg(test)]
mod fixture;
mod heirs;
mod keeper;
mod out;
mod owner;
mod sender;
mod types;
mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use overlane_core::identity::Verified;
use overlane_core::replay::{CUSTODY_CAPACITY, Now};
use overlane_core::transaction::{Message, Payload};
use overlane_core::{Coded, Did, TransactionDigest};
use overlane_relay::log::Peer as Bringer;

use super::counters::count;
use super::lanes::InboundLane;
use super::{Delivery, Effect as PeerEffect, Event, Peer, SendId};
use chains::{Chains, Deposit};
use heirs::Heirs;
use out::Out;
use owner::Owner;
use sender::Sender;

use crate::policy::{Holding, PolicyRefusal};

pub use book::{
    ASKED_AFTER_MS, ENDED_KEPT_MS, HELD_BY_MAX, HELD_ELSEWHERE_MAX, HeldElsewhere, MailEnd,
    SILENT_FOR_MS,
};
pub use chains::{
    ANNOUNCED_MAX, ANNOUNCED_OWNERS_MAX, CHAIN_FRESH_MS, CHAINS_KNOWN_MAX, DEPOSITS_WAITING_MAX,
    LOOKUPS_AT_ONCE, LOOKUPS_WAITING_MAX,
};
pub use heirs::{HEIRS_PAUSE_MAX_MS, HEIRS_SOUGHT_MAX, HEIRS_WAITING_MAX};
pub use keeper::{
    FORGET_EVERY, GONE_SLOT, Holdings, Job, Keeper, OWN_SLOT, RECONCILE_WAITING_MAX,
    RECONCILED_AT_ONCE, Told, Work,
};
pub use out::{SAYING_ALL_MAX_BYTES, SAYING_AT_ONCE, SAYING_MAX_BYTES};
pub use owner::{FETCHED_MAX, FETCHED_MAX_BYTES, GATHER_MS, SIGN_AFTER_MS};
pub use sender::{
    DELIVERED_WITHIN_MS, DEPOSITS_MAX, HELD_TOO_WITHIN_MS, HELD_WITHIN_MS, SENDING_MAX,
};
pub use types::{Arrived, Effect, InboxError, MailEvent, MailStatus, TakeId, WaitingMail};
pub use wire::{INBOX_NAMESPACE, Said};

/// Between two maintenances, in milliseconds.
pub const TICK_MS: u64 = 15_000;

/// Maintenances between two rounds of looking up, reconciling and fetching.
pub const ROUND_TICKS: u64 = 4;

/// Digests of what was admitted not long ago, to say so to those who ask.
pub const ADMITTED_KEPT: usize = 4_096;

/// Questions after messages that are not here yet.
pub const ASKED_MAX: usize = 1_024;

/// The code of all that a store of mail that failed refuses.
const STORE_FAILED: &str = "inbox/store_failed";

/// What happened to mail since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailCounters {
    /// Messages whose destination said that it admitted them.
    pub delivered: u64,
    /// Messages that others hold.
    pub held: u64,
    /// Messages that are neither.
    pub not_held: u64,
    /// Mails that entered custody, those that came again after a restart with them.
    pub fetched: u64,
    /// Mails that were taken.
    pub taken: u64,
    /// Mails that can be admitted no more, by code.
    pub lost: BTreeMap<&'static str, u64>,
    /// Mails that were refused and are fetched again, by code.
    pub put_off: BTreeMap<&'static str, u64>,
    /// Mail of others that was not taken in to be held, by code.
    pub turned_away: BTreeMap<&'static str, u64>,
    /// What was to be said about mail and found no room or no way.
    pub unsaid: u64,
    /// What others said about mail that says nothing: no one form, or a receipt of who was not asked.
    pub malformed: u64,
}

/// All that a peer keeps of mail.
#[derive(Debug, Default)]
pub(super) struct MailPart {
    /// Whether there is a store of mail.
    open: bool,
    failure: Option<String>,
    out: Out,
    /// To whom something more may be said.
    freed: BTreeSet<Did>,
    /// Lanes whose messages hold a place until the keeper is done with them, in their order.
    places: VecDeque<InboundLane>,
    chains: Chains,
    sender: Sender,
    heirs: Heirs,
    /// Sent since, and not asked after yet.
    begun: Vec<TransactionDigest>,
    owner: Owner,
    admitted: Admitted,
    holdings: Holdings,
    /// This node's predecessor: with it, the chains change that this node is in.
    before: Option<Did>,
    counters: MailCounters,
    next_tick_ms: u64,
    ticks: u64,
}

/// What was admitted not long ago, and who asked after what was not.
#[derive(Debug, Default)]
struct Admitted {
    /// By whom they are.
    digests: BTreeMap<TransactionDigest, Did>,
    order: VecDeque<TransactionDigest>,
    asked: BTreeMap<TransactionDigest, Did>,
    asked_order: VecDeque<TransactionDigest>,
}

impl Admitted {
    fn note(&mut self, digest: TransactionDigest, origin: Did) -> Option<Did> {
        if self.digests.insert(digest, origin).is_none() {
            if self.order.len() >= ADMITTED_KEPT
                && let Some(oldest) = self.order.pop_front()
            {
                self.digests.remove(&oldest);
            }
            self.order.push_back(digest);
        }
        self.asked.remove(&digest)
    }

    /// Whether this message of `by` was admitted. Nobody else's question is answered or waits.
    fn ask(&mut self, digest: TransactionDigest, by: Did) -> bool {
        if let Some(origin) = self.digests.get(&digest) {
            return *origin == by;
        }
        if self.asked_order.len() >= ASKED_MAX
            && let Some(oldest) = self.asked_order.pop_front()
        {
            self.asked.remove(&oldest);
        }
        self.asked.insert(digest, by);
        self.asked_order.push_back(digest);
        false
    }
}

impl MailPart {
    fn failure(&self) -> Option<InboxError> {
        let cause = self.failure.clone()?;
        Some(InboxError::StoreFailed { cause })
    }

    pub(super) fn is_settled(&self) -> bool {
        self.places.is_empty() && self.out.is_empty() && self.begun.is_empty()
    }

    /// Whether a send without a way is to be signed all the same, to be held.
    pub(super) fn is_to_be_held(&self, id: SendId) -> bool {
        self.sender.is_to_be_held(id)
    }

    pub(super) fn due_ms(&self) -> Option<u64> {
        let due = [
            self.open.then_some(self.next_tick_ms),
            self.sender.due_ms(),
            self.owner.due_ms(),
        ];
        due.into_iter().flatten().min()
    }
}

impl Peer {
    /// Keeps mail from now on: for others in what its driver made of a [`Keeper`], and for itself. `seed`
    /// is drawn at random: the names of transactions come from it.
    pub fn open_inbox(&mut self, seed: [u8; 32], now: Now) {
        self.mail.open = true;
        self.mail.out = Out::new(seed);
        self.mail.next_tick_ms = now.steady_ms;
    }

    /// What is said about mail by a node that keeps none has names that nobody foresees either.
    pub(super) fn seed_mail(&mut self, seed: &[u8; 32]) {
        if !self.mail.open {
            self.mail.out = Out::new(blake3::derive_key("overlane said of mail", seed));
        }
    }

    /// This node's mail.
    pub fn mail(&self) -> MailStatus {
        let mail = &self.mail;
        let mut counters = mail.counters.clone();
        counters.unsaid = mail.out.dropped;
        let (held, ended) = mail.sender.held();
        MailStatus {
            has_store: mail.open,
            failure: mail.failure.clone(),
            waiting: mail.owner.waiting(),
            custody: self.engine.custody(),
            fetched: mail.owner.fetched(),
            full_until_ms: self.custody_full_until_ms(),
            waits_until_ms: mail.owner.waits_until_ms(),
            holders: mail.owner.holders.clone(),
            drained: mail.owner.drained.iter().copied().collect(),
            sending: mail.sender.sending(),
            held,
            ended,
            holdings: mail.holdings.clone(),
            counters,
        }
    }

    /// Why the store of mail failed, if it did.
    pub fn mail_failure(&self) -> Option<&str> {
        self.mail.failure.as_deref()
    }

    /// How many mails wait to be taken.
    pub fn mails_waiting(&self) -> usize {
        self.mail.owner.takeable()
    }

    /// When the first mail in custody is spent, while custody is full.
    fn custody_full_until_ms(&self) -> Option<u64> {
        if self.engine.custody() < CUSTODY_CAPACITY || !self.mail.owner.leaves_some() {
            return None;
        }
        let entries = self.engine.receivers().flat_map(|it| &it.custody);
        entries.map(|it| it.spent_ms).min()
    }

    /// Asks the holders of this node's inbox for what they have, now.
    pub fn fetch(&mut self, now: Now) {
        if self.mail.open {
            self.fetch_mail(now);
        }
        self.settle(now);
    }

    /// Leaves a payload with a node that would hold it for its destination. Who signed it hears what comes
    /// of that, wherever it is.
    pub fn leave_mail(&mut self, holder: Did, payload: Vec<u8>, now: Now) {
        self.say_of_mail(holder, &Said::Deposit(payload), now);
        self.settle(now);
    }

    /// What came of work, durably.
    pub fn handle_kept(&mut self, told: Vec<Told>, now: Now) {
        for told in told {
            self.handle_told(told, now);
        }
        self.settle(now);
    }

    fn handle_told(&mut self, told: Told, now: Now) {
        match told {
            Told::Say(to, frame) if to == self.did => {
                let by = self.own_bringer();
                self.keep(Job::Frame { by, frame }, false, now);
            }
            Told::Say(to, frame) => self.say_of_mail(to, &Said::Inbox(frame), now),
            Told::SayLog(to, frame) => self.say_of_mail(to, &Said::Log(frame), now),
            Told::Refused(to, digest, code) if to == self.did => {
                self.handle_not_held(to, digest, code.to_owned(), now);
            }
            Told::Refused(to, digest, code) => {
                count(&mut self.mail.counters.turned_away, code);
                let said = Said::Refused(digest, code.to_owned());
                self.say_of_mail(to, &said, now);
            }
            Told::Receipt(proof) => self.handle_receipt(*proof, now),
            Told::Outcome(by, outcome) => self.handle_outcome(by, outcome, now),
            Told::Sent(digest, mail) => self.note_held(digest, mail.map(|mail| *mail)),
            Told::Remembered(digest) => self.handle_remembered(digest),
            Told::Ended(digest) => self.handle_ended(digest, now),
            Told::Announced { owner, by } if owner == self.did => {
                self.handle_announced_own(by, now);
            }
            Told::Announced { owner, by } => self.handle_announced(owner, by, now),
            Told::Fetched(mail) => self.handle_fetched(mail, now),
            Told::Drained {
                from,
                settled,
                lets_go,
                never_ends,
            } => {
                if let Some(code) = never_ends {
                    count(&mut self.counters.refused, code);
                }
                self.handle_drained(from, settled, now);
                if lets_go {
                    self.sign_removals_soon(now);
                }
            }
            Told::NotLetIn(code) => count(&mut self.counters.refused, code),
            Told::Held(holdings) => {
                for (&owner, &mails) in &holdings.inboxes {
                    self.note_holds(owner, mails);
                }
                self.mail.holdings = holdings;
            }
            Told::Holds(owner, mails) => self.note_holds(owner, mails),
            Told::Done(places) => {
                for _ in 0..places {
                    if let Some(lane) = self.mail.places.pop_front() {
                        self.free_place(lane, 0, now);
                    }
                }
            }
            Told::Failed(cause) => self.keeper_failed(cause, now),
        }
    }

    /// Nothing is kept any more, and nobody says when what was given is dealt with: its places are free.
    fn keeper_failed(&mut self, cause: String, now: Now) {
        if self.mail.failure.is_none() {
            tracing::error!(cause, "the store of mail failed; start the node again");
            self.mail.failure = Some(cause);
        }
        self.book_failed();
        self.own_deposits_failed(now);
        for lane in std::mem::take(&mut self.mail.places) {
            self.free_place(lane, 0, now);
        }
    }

    /// So many mails are held here for another account.
    fn note_holds(&mut self, owner: Did, mails: u64) {
        let before = self.mail.holdings.inboxes.insert(owner, mails);
        if before.unwrap_or_default() != mails {
            self.tell(Event::Mail(MailEvent::Holds { owner, mails }));
        }
    }

    /// Whether an admitted message is about mail, and not for the application.
    pub(super) fn is_about_mail(&self, delivery: &Delivery) -> bool {
        self.is_own_matter(delivery.item())
    }

    /// The same of a payload that is not admitted yet.
    pub(super) fn is_own_matter(&self, payload: &Verified<Payload>) -> bool {
        match payload.message() {
            Message::Storage(body) => Said::is_said(body),
            _ => false,
        }
    }

    /// Takes what another node says about mail. Its place comes free when that is dealt with.
    pub(super) fn take_said(
        &mut self,
        delivery: &Delivery,
        lane: InboundLane,
        slot: Option<u16>,
        bytes: u64,
        now: Now,
    ) {
        let payload = delivery.item();
        let from = payload.origin();
        self.dispatch.free_bytes(lane.1, lane.0, bytes);
        let said = match Said::from_body(payload.message().body()) {
            Ok(said) if self.mail.open && self.mail.failure.is_none() => said,
            Ok(Said::Deposit(payload)) => {
                let by = bringer(from, slot);
                let deposit = Deposit { payload, by, lane };
                let failed = self.mail.failure();
                let code = failed.map_or(InboxError::NoStore.code(), |it| it.code());
                return self.refuse_deposit(&deposit, code, now);
            }
            Ok(Said::Ask(digest)) => {
                self.handle_ask(from, digest, now);
                return self.free_place(lane, 0, now);
            }
            Ok(_) => return self.free_place(lane, 0, now),
            Err(_) => {
                self.mail.counters.malformed += 1;
                return self.free_place(lane, 0, now);
            }
        };
        let by = bringer(from, slot);
        match said {
            Said::Inbox(frame) => {
                self.mail.places.push_back(lane);
                self.keep(Job::Frame { by, frame }, true, now);
            }
            Said::Log(frame) => {
                self.mail.places.push_back(lane);
                self.keep(Job::Log { by, frame }, true, now);
            }
            Said::Here => {
                self.mail.places.push_back(lane);
                self.keep(Job::Met(from), true, now);
            }
            Said::Deposit(payload) => {
                let deposit = Deposit { payload, by, lane };
                match claims(&deposit.payload) {
                    Some((owner, _)) => match self.may_hold(owner, &deposit) {
                        Ok(()) => self.take_deposit(owner, deposit, now),
                        Err(refusal) => {
                            count(&mut self.counters.refused, refusal.code());
                            self.refuse_deposit(&deposit, refusal.code(), now);
                        }
                    },
                    None => {
                        self.mail.counters.malformed += 1;
                        self.free_place(lane, 0, now);
                    }
                }
            }
            Said::Refused(digest, code) => {
                self.handle_not_held(from, digest, code, now);
                self.free_place(lane, 0, now);
            }
            Said::Ask(digest) => {
                self.handle_ask(from, digest, now);
                self.free_place(lane, 0, now);
            }
            Said::Have(digest) => {
                self.handle_have(from, digest, now);
                self.free_place(lane, 0, now);
            }
        }
    }

    /// Whether the policy lets mail be held for its owner.
    fn may_hold(&self, owner: Did, deposit: &Deposit) -> Result<(), PolicyRefusal> {
        self.policies.hold(&Holding {
            owner,
            by: deposit.by.account,
            bytes: deposit.payload.len(),
        })
    }

    fn handle_ask(&mut self, from: Did, digest: TransactionDigest, now: Now) {
        if self.mail.admitted.ask(digest, from) {
            self.say_of_mail(from, &Said::Have(digest), now);
        }
    }

    /// A message was admitted, durably: whoever asked after it hears so.
    pub(super) fn note_admitted(&mut self, delivery: &Delivery, now: Now) {
        let (digest, origin) = (delivery.item().digest(), delivery.item().origin());
        if self.mail.admitted.note(digest, origin) == Some(origin) {
            self.say_of_mail(origin, &Said::Have(digest), now);
        }
    }

    fn refuse_deposit(&mut self, deposit: &Deposit, code: &'static str, now: Now) {
        count(&mut self.mail.counters.turned_away, code);
        let by = deposit.by.account;
        if let Some((_, digest)) = claims(&deposit.payload) {
            self.say_of_mail(by, &Said::Refused(digest, code.to_owned()), now);
        }
        self.free_place(deposit.lane, 0, now);
    }

    pub(super) fn mail_linked(&mut self, peer: Did, now: Now) {
        if self.mail.open {
            self.keep(Job::Met(peer), false, now);
        }
    }

    pub(super) fn mail_unlinked(&mut self, peer: Did, now: Now) {
        if self.mail.open && self.links.to(peer).is_none() {
            self.keep(Job::Unlinked(peer), false, now);
        }
    }

    pub(super) fn mail_timeout(&mut self, now: Now) {
        if !self.mail.open {
            return;
        }
        self.sender_timeout(now);
        self.owner_timeout(now);
        if self.mail.next_tick_ms > now.steady_ms {
            return;
        }
        self.mail.next_tick_ms = now.steady_ms.saturating_add(TICK_MS);
        self.mail.ticks = self.mail.ticks.wrapping_add(1);
        self.keep(Job::Maintain, false, now);
        if self.mail.ticks % ROUND_TICKS == 1 {
            self.look_up_held(false);
            self.fetch_mail(now);
            self.sign_removals(now);
            self.ask_what_became(now);
            self.seek_heirs(now);
        }
    }

    /// Moves mail on; whether there was anything.
    pub(super) fn serve_mail(&mut self, now: Now) -> bool {
        if !self.mail.open {
            // Who keeps none still says what arrived.
            return self.pump_freed(now);
        }
        let mut any = self.pump_freed(now);
        if !self.mail.begun.is_empty() {
            self.begin_asking(now);
            any = true;
        }
        let ring = self.ring.ring.as_ref();
        let before = ring.and_then(|ring| ring.members().predecessor());
        let moved = std::mem::replace(&mut self.mail.before, before) != before;
        if self.note_holders(now) || moved {
            self.look_up_held(true);
            any = true;
        }
        any |= self.pump_lookups(now);
        any
    }

    fn pump_freed(&mut self, now: Now) -> bool {
        let freed = std::mem::take(&mut self.mail.freed);
        let any = !freed.is_empty();
        for to in freed {
            self.pump_mail(to, now);
        }
        any
    }

    fn keep(&mut self, job: Job, holds_place: bool, now: Now) {
        if !self.mail.open || self.mail.failure.is_some() {
            return;
        }
        let now_ms = now.wall_ms;
        self.effects.push_back(PeerEffect::Keep(Work {
            job,
            now_ms,
            holds_place,
        }));
    }

    fn own_bringer(&self) -> Bringer {
        Bringer {
            account: self.did,
            slot: OWN_SLOT,
        }
    }
}

fn bringer(account: Did, slot: Option<u16>) -> Bringer {
    let slot = slot.map_or(GONE_SLOT, u32::from);
    Bringer { account, slot }
}

/// Whom a payload is for and its digest, as it claims.
fn claims(payload: &[u8]) -> Option<(Did, TransactionDigest)> {
    let payload = Payload::from_frame(payload).ok()?;
    let (stream, digest) = payload.transaction().claims().ok()?;
    Some((stream.destination, digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_origin_hears_that_a_message_was_admitted() {
        let (origin, other) = (Did([1; 20]), Did([2; 20]));
        let digest = |number: u8| TransactionDigest([number; 32]);
        let mut admitted = Admitted::default();
        assert_eq!(admitted.note(digest(1), origin), None);
        assert!(admitted.ask(digest(1), origin));
        assert!(!admitted.ask(digest(1), other));
        // Who asks before it comes is told when it does.
        assert!(!admitted.ask(digest(2), origin));
        assert_eq!(admitted.note(digest(2), origin), Some(origin));
        assert_eq!(admitted.note(digest(2), origin), None);
    }
}
