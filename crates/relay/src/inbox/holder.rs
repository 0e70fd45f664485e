//! The holder's side: deposits, receipts, removals, outcomes, and handing on.

use super::bounds::{OUTCOME_LIFE_MS, OUTCOMES_MAX, OUTCOMES_PER_FRAME, OUTCOMES_PER_ORIGIN};
use super::frame::Frame;
use super::outcome::{Outcome, OutcomeKind};
use super::rules::{InboxRefusal, InboxRules, MayHold, claimed_name, judged};
use crate::log::{
    Access, EnvelopeId, Event as LogEvent, Frame as LogFrame, LogId, LogStore, Logs, LogsError,
    Mutant, Peer, Refusal, Rules, Transmit,
};
use overlane_core::identity::{Signer, Verified, VerifyContext};
use overlane_core::mail::{HeldMail, HoldProof, MAIL_LIFE_DEFAULT_MS, Mail, Removal};
use overlane_core::transaction::Payload;
use overlane_core::wire::cbor::{from_slice, to_vec};
use overlane_core::{Coded, Did, Fault, NetworkId, TransactionDigest};
use overlane_recon::End;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What happened at a holder, told once it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A peer holds mail for an account and thinks that this node should too. If the ring says so,
    /// [`Inboxes::set_chain`] begins to hold it, and [`Inboxes::reconcile`] fetches it.
    Announced {
        /// The account.
        owner: Did,
        /// Who said it.
        by: Did,
    },
    /// Mail of this node's own is held by another: its receipt.
    Receipt(Box<HoldProof>),
    /// What became of mail of this node's own.
    Outcome(Outcome),
    /// The inbox was reconciled with a member of its chain, or that was given up.
    Reconciled {
        /// The inbox's owner.
        owner: Did,
        /// With whom.
        with: Did,
        /// How it ended.
        end: Option<End>,
    },
    /// This node left the chain, and everything it held is held by all of it.
    HandedOn {
        /// The inbox's owner.
        owner: Did,
    },
}

/// Why the inboxes do nothing more, or a peer's frame was none.
#[derive(Debug, thiserror::Error)]
pub enum InboxesError<E> {
    /// What was asked is refused; nothing else is concerned.
    #[error(transparent)]
    Refused(InboxRefusal),
    /// The store of the logs below.
    #[error(transparent)]
    Logs(LogsError<E>),
}

impl<E: std::error::Error> Coded for InboxesError<E> {
    fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Logs(error) => error.code(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Refused(refusal) => refusal.fault(),
            Self::Logs(error) => error.fault(),
        }
    }
}

impl<E> From<LogsError<E>> for InboxesError<E> {
    fn from(error: LogsError<E>) -> Self {
        match error {
            LogsError::Peer(refusal) => Self::Refused(refusal.into()),
            error => Self::Logs(error),
        }
    }
}

impl<E, R: Into<InboxRefusal>> From<R> for InboxesError<E> {
    fn from(refusal: R) -> Self {
        Self::Refused(refusal.into())
    }
}

type Result<T, S> = std::result::Result<T, InboxesError<<S as LogStore>::Error>>;

/// Rows of this module's own, above those of the logs.
const OWNER_ROWS: u8 = 0x80;
const REMOVAL_ROWS: u8 = 0x81;
const OUTCOME_ROWS: u8 = 0x82;

/// What a holder that left a chain has still to do.
#[derive(Debug, Default)]
struct HandOff {
    /// What was held when each of the chain was asked; what comes later is handed on later. A reconciliation that ran
    /// already when this holder left may have begun over less, and counts for nothing.
    asked: BTreeMap<Did, BTreeSet<EnvelopeId>>,
    /// What each of those has of that, of those that have settled.
    settled: BTreeMap<Did, BTreeSet<EnvelopeId>>,
}

/// The inboxes that one node holds.
#[derive(Debug)]
pub struct Inboxes<S: LogStore> {
    logs: Logs<S, InboxRules>,
    outcomes: BTreeMap<Did, BTreeMap<TransactionDigest, Outcome>>,
    outcomes_lost: u64,
    hand_offs: BTreeMap<LogId, HandOff>,
    /// What became of mail since the last transaction: told with the next, should its sender be there.
    fresh: BTreeMap<Did, Vec<Outcome>>,
    /// Removals handed to who would bring what they took, since the last transaction.
    handed: BTreeSet<(Did, TransactionDigest)>,
    /// Leave with the next transaction.
    staged: Vec<Transmit>,
    due: VecDeque<Transmit>,
    events: VecDeque<Event>,
}

impl<S: LogStore> Inboxes<S> {
    /// The inboxes that `store` kept. Their chains are to be set anew.
    ///
    /// # Errors
    /// The store fails.
    pub fn open(store: S, network: NetworkId, own: Did, now_ms: u64) -> Result<Self, S> {
        let mut logs = Logs::open(store, InboxRules::new(network, own))?;
        let rows = |logs: &mut Logs<S, InboxRules>, kind| {
            logs.store().rows(&[kind]).map_err(LogsError::Store)
        };
        for (_, owner) in rows(&mut logs, OWNER_ROWS)? {
            if let Ok(owner) = owner.try_into().map(Did)
                && let Err(refusal) = logs.rules().open(owner)
            {
                return Err(refusal.into());
            }
        }
        for (key, removal) in rows(&mut logs, REMOVAL_ROWS)? {
            let context = VerifyContext { network, now_ms };
            let removal = from_slice::<Removal>(&removal).ok();
            let removal = removal.and_then(|it| Verified::verify(it, &context).ok());
            match (removal, key.get(33..).and_then(|it| it.try_into().ok())) {
                (Some(removal), Some(address)) => {
                    let log = LogId::inbox(&removal.signer());
                    logs.rules().remember(&log, address, removal);
                }
                // It is over: what it removed is over with it.
                _ => logs.put_row(key, None),
            }
        }
        let mut this = Self {
            outcomes: BTreeMap::new(),
            outcomes_lost: 0,
            hand_offs: BTreeMap::new(),
            fresh: BTreeMap::new(),
            handed: BTreeSet::new(),
            staged: Vec::new(),
            due: VecDeque::new(),
            events: VecDeque::new(),
            logs,
        };
        for (key, outcome) in rows(&mut this.logs, OUTCOME_ROWS)? {
            let origin = key.get(1..21).and_then(|it| it.try_into().ok()).map(Did);
            if let (Some(origin), Ok(outcome)) = (origin, from_slice::<Outcome>(&outcome)) {
                let kept = this.outcomes.entry(origin).or_default();
                kept.insert(outcome.digest, outcome);
            }
        }
        Ok(this)
    }

    /// Keeps at most so many mails in an inbox from now on; at least one, at most
    /// [`INBOX_MAILS_MAX`](super::bounds::INBOX_MAILS_MAX).
    pub fn set_mails_max(&mut self, mails: u64) {
        self.logs.rules().set_mails(mails);
    }

    /// Asks `may_hold` from now on, of all mail that other holders hand on and that counts. What it refuses is
    /// not held here, and who brought it is told why.
    pub fn ask_before_held(&mut self, may_hold: MayHold) {
        self.logs.rules().may_hold = Some(may_hold);
    }

    /// The logs below, to ask them.
    pub fn logs(&mut self) -> &mut Logs<S, InboxRules> {
        &mut self.logs
    }

    /// The store, to open it again.
    pub fn into_store(self) -> S {
        self.logs.into_store()
    }

    /// Outcomes that were not kept, because a sender or all of them had too many.
    pub fn outcomes_lost(&self) -> u64 {
        self.outcomes_lost
    }

    /// The accounts whose inboxes are here.
    pub fn owners(&mut self) -> Vec<Did> {
        self.logs
            .rules()
            .inboxes
            .values()
            .map(|it| it.owner)
            .collect()
    }

    /// Whether an account's inbox is here.
    pub fn knows(&mut self, owner: &Did) -> bool {
        let log = LogId::inbox(owner);
        self.logs.rules().inboxes.contains_key(&log)
    }

    /// Mails held for an account, with what is staged.
    ///
    /// # Errors
    /// The store fails.
    pub fn held(&mut self, owner: &Did) -> Result<u64, S> {
        Ok(self.logs.size(&LogId::inbox(owner))?.0)
    }

    /// Says who holds an account's inbox now, by the ring, and who did until not long ago (the next
    /// successor behind the chain, where this node is new in it; whoever was in the chain that was set
    /// before is known). Those may still hand on. A node that is no longer in the chain hands on what
    /// it holds.
    ///
    /// # Errors
    /// Too many inboxes are held here.
    pub fn set_chain(
        &mut self,
        owner: Did,
        chain: impl IntoIterator<Item = Did>,
        former: impl IntoIterator<Item = Did>,
    ) -> Result<(), S> {
        let known = self
            .logs
            .rules()
            .inboxes
            .contains_key(&LogId::inbox(&owner));
        let log = self.logs.rules().open(owner)?;
        if !known {
            self.logs
                .put_row(row(OWNER_ROWS, &log.0, &[]), Some(owner.0.to_vec()));
        }
        self.logs.rules().set_chain(&log, chain, former);
        if self.logs.rules().holds(&log) {
            self.hand_offs.remove(&log);
        } else {
            self.hand_offs.entry(log).or_default().settled.clear();
        }
        Ok(())
    }

    /// Reconciles an inbox with a member of its chain: at every change of membership and at every
    /// maintenance. Tells it first, should it not know.
    ///
    /// # Errors
    /// Too many reconciliations run, or the store fails.
    pub fn reconcile(&mut self, owner: Did, with: Did, now_ms: u64) -> Result<(), S> {
        let log = LogId::inbox(&owner);
        self.expire(&log, now_ms)?;
        if !self.logs.rules().holds(&log) && self.logs.size(&log)?.0 == 0 {
            return Ok(());
        }
        let begins = !self.logs.is_syncing(&log, &with)
            || self.logs.is_broken(Mutant::HandOnWhatWasNotAsked);
        if let Some(hand_off) = self.hand_offs.get_mut(&log).filter(|_| begins) {
            let entries = self.logs.store().entries(&log, 0, usize::MAX);
            let entries = entries.map_err(LogsError::Store)?;
            let held = entries.into_iter().map(|it| it.id).collect();
            hand_off.asked.insert(with, held);
        }
        let frame = Frame::Announce(owner).to_bytes();
        self.due.push_back(Transmit { to: with, frame });
        self.logs.start_sync(log, with, now_ms)?;
        Ok(())
    }

    /// A mail arrived for an account that is away: it is held, and its sender given a receipt after
    /// the next [`flush`](Self::flush). `by` is who brought it.
    ///
    /// # Errors
    /// It is refused, with the reason, or the store fails.
    pub fn handle_deposit(
        &mut self,
        payload: Verified<Payload>,
        by: Peer,
        holder: &Signer,
        now_ms: u64,
    ) -> Result<(), S> {
        let owner = payload.stream().destination;
        let log = LogId::inbox(&owner);
        if !self.logs.rules().holds(&log) {
            return Err(InboxRefusal::NotAHolder { owner }.into());
        }
        let last_ms = payload.last_ms();
        if last_ms < now_ms {
            return Err(InboxRefusal::NotFresh { last_ms, now_ms }.into());
        }
        let (digest, origin) = (payload.digest(), payload.origin());
        let id = crate::log::mail_id(digest);
        if self.logs.rules().removal_of(&log, &id).is_some() {
            return Err(InboxRefusal::Removed { digest }.into());
        }
        let mail = match self.held_mail(&log, &id)? {
            Some(hold) => return self.stage_receipt(origin, hold),
            None => Mail::hold(payload, holder, now_ms, MAIL_LIFE_DEFAULT_MS),
        };
        let mail = mail.map_err(InboxRefusal::from)?;
        let bytes = mail.to_held().to_bytes();
        self.logs
            .keep(log, judged(&mail), &bytes, by.slot, now_ms)?;
        self.stage_receipt(origin, mail.hold_proof().clone())
    }

    /// A frame of the inbox's log arrived from a peer.
    ///
    /// # Errors
    /// As [`Logs::handle_frame`].
    pub fn handle_log_frame(&mut self, peer: Peer, bytes: &[u8], now_ms: u64) -> Result<(), S> {
        self.logs.handle_frame(peer, bytes, now_ms)?;
        self.hand_removal(peer.account, bytes);
        Ok(())
    }

    /// The owner of an inbox, by the name of its log.
    pub fn owner_of(&mut self, log: &LogId) -> Option<Did> {
        self.logs.rules().inboxes.get(log).map(|it| it.owner)
    }

    /// A frame of this module's own arrived.
    ///
    /// # Errors
    /// It is none, or does not count; or the store fails.
    pub fn handle_frame(&mut self, peer: Peer, bytes: &[u8], now_ms: u64) -> Result<(), S> {
        let by = peer.account;
        match Frame::from_bytes(bytes).map_err(Refusal::from)? {
            Frame::Announce(owner) => self.events.push_back(Event::Announced { owner, by }),
            Frame::Held(proof) => {
                let network = self.logs.rules().network;
                let proof = Verified::verify(*proof, &VerifyContext { network, now_ms });
                let proof = proof.map_err(|error| InboxRefusal::Mail(error.into()))?;
                let proof = Box::new(proof.into_inner());
                self.events.push_back(Event::Receipt(proof));
            }
            Frame::Remove(removal) => self.handle_removal(by, *removal, now_ms)?,
            // Said to the owner, whose drain hears it.
            Frame::Removed(..) => {}
            Frame::Outcomes(outcomes) => {
                let digests = outcomes.iter().map(|it| it.digest).collect();
                self.events.extend(outcomes.into_iter().map(Event::Outcome));
                let frame = Frame::Heard(digests).to_bytes();
                self.due.push_back(Transmit { to: by, frame });
            }
            Frame::Heard(digests) => self.handle_heard(by, &digests),
        }
        Ok(())
    }

    /// The link to an account is up: it is told what became of its mail.
    pub fn handle_met(&mut self, account: &Did) {
        let Some(outcomes) = self.outcomes.get(account) else {
            return;
        };
        let outcomes: Vec<Outcome> = outcomes.values().copied().collect();
        self.tell_outcomes(*account, &outcomes);
    }

    fn tell_outcomes(&mut self, to: Did, outcomes: &[Outcome]) {
        for some in outcomes.chunks(OUTCOMES_PER_FRAME) {
            let frame = Frame::Outcomes(some.to_vec()).to_bytes();
            self.due.push_back(Transmit { to, frame });
        }
    }

    /// The link to an account is gone.
    pub fn handle_disconnected(&mut self, account: &Did) {
        self.logs.handle_disconnected(account);
    }

    /// Lets go of what is over: mail, outcomes nobody fetched. At every maintenance.
    ///
    /// # Errors
    /// The store fails.
    pub fn maintain(&mut self, now_ms: u64) -> Result<(), S> {
        self.logs.handle_timeout(now_ms);
        let logs: Vec<LogId> = self.logs.rules().inboxes.keys().copied().collect();
        for log in logs {
            self.expire(&log, now_ms)?;
        }
        let over = |it: &Outcome| it.at_ms.saturating_add(OUTCOME_LIFE_MS) < now_ms;
        for (origin, outcomes) in &mut self.outcomes {
            let gone: Vec<_> = outcomes.values().filter(|it| over(it)).copied().collect();
            for outcome in gone {
                outcomes.remove(&outcome.digest);
                let key = row(OUTCOME_ROWS, &origin.0, &outcome.digest.0);
                self.logs.put_row(key, None);
            }
        }
        self.outcomes.retain(|_, it| !it.is_empty());
        Ok(())
    }

    /// Forgets removals that have ended, and inboxes that nothing is left of: one that a node was just
    /// named a holder of is forgotten too, so this is for now and then.
    ///
    /// # Errors
    /// The store fails.
    pub fn forget_empty(&mut self, now_ms: u64) -> Result<(), S> {
        // What leaves next leaves with its outcome, which is its inbox's.
        let leaving: BTreeSet<LogId> = self.logs.leaving().map(|it| it.0).collect();
        let logs: Vec<LogId> = self.logs.rules().inboxes.keys().copied().collect();
        for log in logs.into_iter().filter(|log| !leaving.contains(log)) {
            for address in self.logs.rules().end_removals(&log, now_ms) {
                self.logs.put_row(row(REMOVAL_ROWS, &log.0, &address), None);
            }
            let (mails, _) = self.logs.size(&log)?;
            if mails == 0 && self.logs.rules().forget(&log) {
                self.hand_offs.remove(&log);
                self.logs.put_row(row(OWNER_ROWS, &log.0, &[]), None);
            }
        }
        Ok(())
    }

    /// Makes all that is staged durable, in one transaction, and releases what came of it.
    ///
    /// # Errors
    /// The store failed: nothing of it was told.
    pub fn flush(&mut self, now_ms: u64) -> Result<(), S> {
        self.stage_outcomes(now_ms);
        self.logs.flush(now_ms)?;
        self.handed.clear();
        self.due.extend(std::mem::take(&mut self.staged));
        for (origin, outcomes) in std::mem::take(&mut self.fresh) {
            self.tell_outcomes(origin, &outcomes);
        }
        while let Some(event) = self.logs.poll_event() {
            if let LogEvent::Synced { log, with, report } = event {
                self.handle_synced(log, with, &report, now_ms)?;
            }
        }
        Ok(())
    }

    /// What to send next of this module's own frames, until there is nothing. Those of the logs below
    /// are [`Self::poll_log_transmit`]'s; the two travel under namespaces of their own.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.due.pop_front()
    }

    /// What of the inboxes' logs to send next, until there is nothing.
    ///
    /// # Errors
    /// The store fails.
    pub fn poll_log_transmit(&mut self) -> Result<Option<Transmit>, S> {
        Ok(self.logs.poll_transmit()?)
    }

    /// What happened, until there is nothing.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn held_mail(&mut self, log: &LogId, id: &EnvelopeId) -> Result<Option<HoldProof>, S> {
        let Some(entry) = self.logs.entry_of(log, id)? else {
            return Ok(None);
        };
        let bytes = self.logs.store().envelope(log, entry.seq);
        let bytes = bytes.map_err(LogsError::Store)?;
        let mail = bytes.and_then(|bytes| HeldMail::from_bytes(&bytes).ok());
        Ok(mail.map(|it| it.hold().clone()))
    }

    fn stage_receipt(&mut self, origin: Did, hold: HoldProof) -> Result<(), S> {
        let frame = Frame::Held(Box::new(hold)).to_bytes();
        self.staged.push(Transmit { to: origin, frame });
        Ok(())
    }

    fn handle_removal(&mut self, by: Did, removal: Removal, now_ms: u64) -> Result<(), S> {
        let network = self.logs.rules().network;
        let removal = Verified::verify(removal, &VerifyContext { network, now_ms });
        let removal = removal.map_err(|error| InboxRefusal::Mail(error.into()))?;
        let owner = removal.signer();
        let log = LogId::inbox(&owner);
        if !self.logs.rules().inboxes.contains_key(&log) {
            return Err(InboxRefusal::NotAHolder { owner }.into());
        }
        let digests = removal.subject().digests().to_vec();
        for digest in &digests {
            let id = crate::log::mail_id(*digest);
            if let Some(entry) = self.logs.entry_of(&log, &id)? {
                self.logs.remove(&log, &id)?;
                self.keep_outcome(
                    entry.author,
                    Outcome {
                        digest: *digest,
                        destination: owner,
                        kind: OutcomeKind::Taken,
                        at_ms: now_ms,
                    },
                );
            }
        }
        let bytes = to_vec(&removal);
        let address = *blake3::hash(&bytes).as_bytes();
        self.logs
            .put_row(row(REMOVAL_ROWS, &log.0, &address), Some(bytes));
        for forgotten in self.logs.rules().remember(&log, address, removal) {
            self.logs
                .put_row(row(REMOVAL_ROWS, &log.0, &forgotten), None);
        }
        let frame = Frame::Removed(owner, digests).to_bytes();
        self.staged.push(Transmit { to: by, frame });
        Ok(())
    }

    fn handle_heard(&mut self, by: Did, digests: &[TransactionDigest]) {
        let Some(outcomes) = self.outcomes.get_mut(&by) else {
            return;
        };
        for digest in digests {
            if outcomes.remove(digest).is_some() {
                self.logs.put_row(row(OUTCOME_ROWS, &by.0, &digest.0), None);
            }
        }
        if outcomes.is_empty() {
            self.outcomes.remove(&by);
        }
    }

    /// What is about to leave in the next transaction leaves with its outcome.
    fn stage_outcomes(&mut self, now_ms: u64) {
        let leaving: Vec<_> = self.logs.leaving().collect();
        for (log, entry, expired) in leaving {
            let owner = self.logs.rules().inboxes.get(&log).map(|it| it.owner);
            let kind = if expired {
                OutcomeKind::Expired
            } else {
                OutcomeKind::Evicted
            };
            if let Some(destination) = owner {
                self.keep_outcome(
                    entry.author,
                    Outcome {
                        digest: TransactionDigest(entry.id.0),
                        destination,
                        kind,
                        at_ms: now_ms,
                    },
                );
            }
        }
    }

    fn keep_outcome(&mut self, origin: Did, outcome: Outcome) {
        let all: usize = self.outcomes.values().map(BTreeMap::len).sum();
        let kept = self.outcomes.entry(origin).or_default();
        if kept.len() >= OUTCOMES_PER_ORIGIN || all >= OUTCOMES_MAX {
            self.outcomes_lost += 1;
            return;
        }
        kept.insert(outcome.digest, outcome);
        let key = row(OUTCOME_ROWS, &origin.0, &outcome.digest.0);
        self.logs.put_row(key, Some(to_vec(&outcome)));
        self.fresh.entry(origin).or_default().push(outcome);
    }

    /// Another holder that brings what its owner removed had not heard of that: it is told, once for each
    /// removal and transaction.
    fn hand_removal(&mut self, by: Did, frame: &[u8]) {
        let Ok(LogFrame::Send { log, envelope }) = LogFrame::from_bytes(frame) else {
            return;
        };
        if self.logs.rules().access(&log, &by) != Access::Holder {
            return;
        }
        let name = claimed_name(envelope);
        let Some(removal) = self.logs.rules().removal_of(&log, &name) else {
            return;
        };
        let first = removal.subject().digests().first().copied();
        let frame = Frame::Remove(Box::new(Removal::clone(removal))).to_bytes();
        if first.is_some_and(|first| self.handed.insert((by, first))) {
            self.due.push_back(Transmit { to: by, frame });
        }
    }

    fn expire(&mut self, log: &LogId, now_ms: u64) -> Result<(), S> {
        while self.logs.expire(log, now_ms)? {}
        Ok(())
    }

    fn handle_synced(
        &mut self,
        log: LogId,
        with: Did,
        report: &overlane_recon::Report,
        now_ms: u64,
    ) -> Result<(), S> {
        let Some(inbox) = self.logs.rules().inboxes.get(&log) else {
            return Ok(());
        };
        let (owner, chain) = (inbox.owner, inbox.chain.clone());
        // What one side would not take because its owner removed it, the other lets go of.
        let removed = |it: &&overlane_recon::Refused| it.why == "inbox/removed";
        for refused in report.refused_here.iter().filter(removed) {
            if let Some(removal) = self.logs.rules().removal_of(&log, &refused.id) {
                let removal = Box::new(Removal::clone(removal));
                let frame = Frame::Remove(removal).to_bytes();
                self.due.push_back(Transmit { to: with, frame });
            }
        }
        let end = report.end.clone();
        let hand_off = self.hand_offs.get_mut(&log);
        let asked = hand_off.and_then(|it| Some((it.asked.remove(&with)?, it)));
        if let Some((mut has, hand_off)) = asked
            && end == Some(End::Settled)
        {
            for refused in &report.refused_by_peer {
                has.remove(&refused.id);
            }
            hand_off.settled.insert(with, has);
            let settled: Option<Vec<_>> = chain.iter().map(|it| hand_off.settled.get(it)).collect();
            // What all of them have.
            let handed = settled.and_then(|all| {
                let (first, others) = all.split_first()?;
                let has = |id: &&EnvelopeId| others.iter().all(|it| it.contains(*id));
                Some(first.iter().filter(has).copied().collect())
            });
            if let Some(handed) = handed {
                hand_off.settled.clear();
                self.let_go_of(&log, &handed, now_ms)?;
                if self.logs.size(&log)?.0 == 0 {
                    self.events.push_back(Event::HandedOn { owner });
                }
            }
        }
        self.events
            .push_back(Event::Reconciled { owner, with, end });
        Ok(())
    }

    /// Lets go of what all of the chain acknowledged; it is with them, so it has no outcome here.
    fn let_go_of(
        &mut self,
        log: &LogId,
        held: &BTreeSet<EnvelopeId>,
        now_ms: u64,
    ) -> Result<(), S> {
        for id in held {
            self.logs.remove(log, id)?;
        }
        self.logs.flush(now_ms)?;
        Ok(())
    }
}

fn row(kind: u8, one: &[u8], two: &[u8]) -> Vec<u8> {
    [&[kind], one, two].concat()
}
