//! Driving: this node reconciles a log with a peer that holds it.
//!
//! First what this node wrote and the peer has not numbered is sent. When all of it is acknowledged
//! or refused, the exchange opens over what is held by then; a round goes on when its pushes are
//! durable and its sends answered.

use super::book::Numbering;
use super::bounds::{EXCHANGE_ITEMS_MAX, EXCHANGES_MAX, PLAN_ITEMS_MAX};
use super::frame::{self, Named, Space, Turn};
use super::id::{EnvelopeId, LogId, shared_place};
use super::logs::{Closing, Logs, Result};
use super::mutant::Mutant;
use super::refusal::{Refusal, is_numbered_anew, is_passing};
use super::rules::Rules;
use super::serve::limits;
use super::store::LogStore;
use super::told::{Event, Failure, LogsError, Owed, Peer, Place, Planned};
use overlane_core::{Coded, Did};
use overlane_recon::bounds::TOP;
use overlane_recon::{
    Bound, End, Initiator, Item, ItemSet, Patience, Record, Refused, Report, Request, Storage,
};
use std::collections::BTreeSet;

/// What stands before an envelope in the outbox: when it was written, each later than the last.
const WRITTEN_BYTES: usize = 8;

pub(super) const OUTBOX_ROWS: u8 = b'O';

/// One reconciliation that this node drives.
#[derive(Debug)]
pub(super) struct Exchange {
    space: Space,
    /// Envelopes of the outbox that the peer did not answer yet; none before the outbox was read.
    posting: Option<BTreeSet<EnvelopeId>>,
    opened: Option<(Initiator, ItemSet)>,
    /// Whose envelopes alone are sent, if this node hands on nothing.
    sends_only: Option<Did>,
    /// Of a plan: what would have moved so far.
    plan: Option<Planned>,
    /// The first envelope of this node's own that the peer gave a number which cannot be, and why.
    anew: Option<(EnvelopeId, &'static str)>,
    since_ms: u64,
}

impl<S: LogStore, R: Rules> Logs<S, R> {
    /// Reconciles a log with a peer that holds it. What comes of it is an [`Event::Synced`]; one that
    /// runs already goes on.
    ///
    /// # Errors
    /// Too many run, or the log is too large to be taken into memory; or the store fails.
    pub fn start_sync(&mut self, log: LogId, with: Did, now_ms: u64) -> Closing<(), S> {
        if self.exchanges.contains_key(&(log, with)) {
            return Ok(());
        }
        if self.exchanges.len() >= EXCHANGES_MAX {
            return Err(LogsError::Peer(Refusal::ExchangesFull));
        }
        let book = self.book(&log)?;
        let (numbering, items) = (book.numbering, book.whole.entries);
        if items > EXCHANGE_ITEMS_MAX {
            return Err(LogsError::Peer(Refusal::TooLarge { log, items }));
        }
        let space = match numbering {
            Numbering::Of(host) if host == with => Space::Numbered,
            _ => Space::Shared,
        };
        let exchange = Exchange {
            space,
            posting: None,
            opened: None,
            sends_only: None,
            plan: None,
            anew: None,
            since_ms: now_ms,
        };
        self.exchanges.insert((log, with), exchange);
        Ok(())
    }

    /// Finds out what reconciling a log with a peer would move, and moves nothing: the rounds are those of the
    /// reconciliation, with names in place of envelopes. What comes of it is an [`Event::Planned`].
    ///
    /// # Errors
    /// As [`start_sync`](Self::start_sync); or a reconciliation of the two runs already.
    pub fn start_plan(&mut self, log: LogId, with: Did, now_ms: u64) -> Closing<(), S> {
        if self.exchanges.contains_key(&(log, with)) {
            return Err(LogsError::Peer(Refusal::ExchangesFull));
        }
        self.start_sync(log, with, now_ms)?;
        let mut plan = Planned::default();
        for (_, _, envelope) in self.waiting_in_order(&log)? {
            plan.send += 1;
            plan.send_bytes += envelope.len() as u64;
        }
        if let Some(exchange) = self.exchanges.get_mut(&(log, with)) {
            exchange.posting = Some(BTreeSet::new());
            exchange.plan = Some(plan);
        }
        Ok(())
    }

    /// A member's reconciliation sends what that account wrote: a holder takes nothing else from a member.
    pub fn send_only(&mut self, log: LogId, with: Did, author: Did) {
        if let Some(exchange) = self.exchanges.get_mut(&(log, with)) {
            exchange.sends_only = Some(author);
        }
    }

    /// Envelopes of this node's own that wait for the host's number, with what is staged. The store is read
    /// once, however many come.
    ///
    /// # Errors
    /// The store fails.
    pub fn waiting(&mut self, log: &LogId) -> Closing<usize, S> {
        if self.is_broken(Mutant::CountTheStored) {
            self.outboxes.remove(log);
        }
        Ok(self.outbox(log)?.len())
    }

    /// The names of what waits, in memory from here on. Asked for before a change of it is staged: the store does not
    /// show that yet.
    fn outbox(&mut self, log: &LogId) -> Closing<&mut BTreeSet<EnvelopeId>, S> {
        if !self.outboxes.contains_key(log) {
            let rows = self.store.rows(&outbox_key(log, None));
            let rows = rows.map_err(LogsError::Store)?;
            let names = rows.iter().filter_map(|(key, _)| outbox_id(key));
            self.outboxes.insert(*log, names.collect());
        }
        Ok(self.outboxes.entry(*log).or_default())
    }

    /// An envelope waits no more: it has a number, or none is to be had.
    fn put_away(&mut self, log: &LogId, id: &EnvelopeId) -> Closing<(), S> {
        self.outbox(log)?.remove(id);
        self.stage.row(outbox_key(log, Some(id)), None);
        Ok(())
    }

    /// Whose numbers a log has here.
    ///
    /// # Errors
    /// The store fails.
    pub fn numbering(&mut self, log: &LogId) -> Closing<Numbering, S> {
        Ok(self.book(log)?.numbering)
    }

    /// The number that the next envelope has: above all that are held.
    ///
    /// # Errors
    /// The store fails.
    pub fn next_seq(&mut self, log: &LogId) -> Closing<u64, S> {
        Ok(self.book(log)?.next_seq)
    }

    /// Reconciliations that this node drives now.
    pub fn syncing(&self) -> usize {
        self.exchanges.len()
    }

    /// Whether a reconciliation of the log runs with the peer.
    pub fn is_syncing(&self, log: &LogId, with: &Did) -> bool {
        self.exchanges.contains_key(&(*log, *with))
    }

    /// When to call [`Self::handle_timeout`] next, in the caller's milliseconds.
    pub fn poll_timeout(&self) -> Option<u64> {
        let due = |exchange: &Exchange| match &exchange.opened {
            Some((initiator, _)) => initiator.poll_timeout(),
            None => Some(
                exchange
                    .since_ms
                    .saturating_add(Patience::default().idle_ms),
            ),
        };
        self.exchanges.values().filter_map(due).min()
    }

    /// Time has come to `now_ms`: a reconciliation whose peer is silent for too long is given up.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        let due: Vec<_> = self.exchanges.keys().copied().collect();
        for (log, with) in due {
            let Some(exchange) = self.exchanges.get_mut(&(log, with)) else {
                continue;
            };
            match &mut exchange.opened {
                Some((initiator, _)) => initiator.handle_timeout(now_ms),
                None if exchange
                    .since_ms
                    .saturating_add(Patience::default().idle_ms)
                    <= now_ms =>
                {
                    self.end_unopened(log, with, Bound::Idle);
                    continue;
                }
                None => {}
            }
            self.end_if_ended(log, with);
        }
    }

    /// An envelope of this node's own waits for the host's number.
    pub(super) fn put_out(
        &mut self,
        log: LogId,
        id: EnvelopeId,
        envelope: &[u8],
        host: Did,
        now_ms: u64,
    ) -> Closing<(), S> {
        self.outbox(&log)?.insert(id);
        // What waits is sent in the order it was written.
        self.put_out_ms = now_ms.max(self.put_out_ms.saturating_add(1));
        let row = [&self.put_out_ms.to_be_bytes()[..], envelope].concat();
        self.stage.row(outbox_key(&log, Some(&id)), Some(row));
        if self.peers.contains_key(&host) {
            self.stage.owed.push((host, Owed::Post(log, id)));
        }
        Ok(())
    }

    /// Numbers here what waits for the number of a host that is asked no more, in the order it was written; of a log that
    /// this node numbers. What its rules take no more is refused. As much as a transaction takes; says whether there is
    /// more. Reads what is durable, so a flush comes before.
    ///
    /// # Errors
    /// The store fails.
    pub fn number_waiting(&mut self, log: LogId, own: Peer, now_ms: u64) -> Closing<bool, S> {
        if self.book(&log)?.numbering != Numbering::Own {
            return Ok(false);
        }
        for (written_ms, id, envelope) in self.waiting_in_order(&log)? {
            if self.stage.is_full() {
                return Ok(true);
            }
            self.put_away(&log, &id)?;
            if self.is_broken(Mutant::LoseTheWaiting) {
                continue;
            }
            let judged = self.rules.judge(&log, &envelope, &own.account, now_ms);
            let kept = match judged {
                Ok(judged) => self.accept(log, judged, &envelope, Place::Next, own.slot, now_ms),
                Err(refusal) => Err(refusal.into()),
            };
            match kept {
                Ok(_) => {}
                Err(Failure::Refused(Refusal::Busy)) => {
                    let row = [&written_ms.to_be_bytes()[..], &envelope].concat();
                    self.stage.row(outbox_key(&log, Some(&id)), Some(row));
                    self.outbox(&log)?.insert(id);
                    return Ok(true);
                }
                Err(Failure::Refused(refusal)) => {
                    let code = refusal.code().to_owned();
                    self.stage.events.push(Event::PostRefused { log, id, code });
                }
                Err(Failure::Failed(error)) => return Err(self.close(error)),
            }
        }
        Ok(false)
    }

    /// Refuses what was written before an instant and still waits for a number.
    ///
    /// # Errors
    /// The store fails.
    pub fn give_up_waiting(&mut self, log: &LogId, before_ms: u64) -> Closing<(), S> {
        for (written_ms, id, _) in self.waiting_in_order(log)? {
            if written_ms < before_ms {
                let code = Refusal::TooOld { log: *log }.code().to_owned();
                self.put_away(log, &id)?;
                let log = *log;
                self.stage.events.push(Event::PostRefused { log, id, code });
            }
        }
        Ok(())
    }

    /// What is durable of what waits: when it was written, its name, itself.
    fn waiting_in_order(&mut self, log: &LogId) -> Closing<Vec<(u64, EnvelopeId, Vec<u8>)>, S> {
        let rows = self.store.rows(&outbox_key(log, None));
        let rows = rows.map_err(LogsError::Store)?.into_iter();
        let waits = |(key, row): (Vec<u8>, Vec<u8>)| {
            let (written_ms, envelope) = row.split_first_chunk()?;
            let written_ms = u64::from_be_bytes(*written_ms);
            Some((written_ms, outbox_id(&key)?, envelope.to_vec()))
        };
        let mut waiting: Vec<_> = rows.filter_map(waits).collect();
        waiting.sort_by_key(|it| it.0);
        Ok(waiting)
    }

    pub(super) fn in_outbox(
        &mut self,
        log: &LogId,
        id: &EnvelopeId,
    ) -> Closing<Option<Vec<u8>>, S> {
        let key = outbox_key(log, Some(id));
        let rows = self.store.rows(&key).map_err(LogsError::Store)?;
        let row = rows.into_iter().find(|it| it.0 == key);
        let envelope = row.and_then(|it| Some(it.1.get(WRITTEN_BYTES..)?.to_vec()));
        Ok(envelope)
    }

    pub(super) fn handle_push(
        &mut self,
        peer: Peer,
        log: LogId,
        seq: u64,
        envelope: &[u8],
        now_ms: u64,
    ) -> Result<(), S> {
        let with = peer.account;
        let asked = self.exchanges.get(&(log, with));
        let Some(space) = asked.filter(|it| it.opened.is_some()).map(|it| it.space) else {
            return Err(Refusal::NotAsked { log }.into());
        };
        let judged = self.rules.judge(&log, envelope, &with, now_ms);
        let place = match space {
            Space::Numbered => Place::At(seq),
            Space::Shared => Place::Next,
        };
        let (id, taken) = match judged {
            Err(refusal) => (self.rules.name(envelope), Err(refusal)),
            Ok(judged) => {
                let taken = self.take_pushed(log, envelope, judged, place, now_ms);
                match taken {
                    Ok(seq) => (judged.id, Ok(seq)),
                    Err(Failure::Refused(refusal)) => (judged.id, Err(refusal)),
                    Err(failed) => return Err(failed),
                }
            }
        };
        let Some((initiator, set)) = self.opened(log, with) else {
            return Ok(());
        };
        match taken {
            Ok(seq) => {
                let seq = match space {
                    Space::Numbered => seq,
                    Space::Shared => shared_place(&id),
                };
                if initiator
                    .handle_push(set, Item { seq, id }, now_ms)
                    .is_err()
                {
                    initiator.handle_push_refused(id, "recon/reserved_seq".into());
                }
            }
            Err(refusal) => {
                initiator.handle_push_refused(id, refusal.code().into());
                self.counters.refused += 1;
            }
        }
        self.end_if_ended(log, with);
        Ok(())
    }

    pub(super) fn handle_ack(
        &mut self,
        from: Did,
        log: LogId,
        id: EnvelopeId,
        seq: u64,
        now_ms: u64,
    ) -> Result<(), S> {
        let mut unnumbered = None;
        if self.book(&log)?.numbering == Numbering::Of(from)
            && let Some(envelope) = self.in_outbox(&log, &id)?
        {
            let kept = match self.rules.judge(&log, &envelope, &from, now_ms) {
                Ok(own) => self.take_pushed(log, &envelope, own, Place::At(seq), now_ms),
                Err(refusal) => Err(refusal.into()),
            };
            match kept {
                Ok(_) => self.put_away(&log, &id)?,
                // A number that cannot be is none: it waits on.
                Err(Failure::Refused(refusal)) => unnumbered = Some(refusal.code()),
                Err(failed) => return Err(failed),
            }
        }
        let Some(exchange) = self.exchanges.get_mut(&(log, from)) else {
            return Ok(());
        };
        exchange.answered(&id);
        exchange.since_ms = now_ms;
        if let Some(code) = unnumbered.filter(|code| is_numbered_anew(code)) {
            exchange.anew.get_or_insert((id, code));
        }
        let seq = match exchange.space {
            Space::Numbered => seq,
            Space::Shared => shared_place(&id),
        };
        if let Some((initiator, set)) = &mut exchange.opened
            && initiator.handle_ack(set, id, seq, now_ms).is_err()
        {
            initiator.handle_send_refused(set, id, "recon/reserved_seq".into(), now_ms);
        }
        self.say_due(log, from, now_ms)?;
        self.end_if_ended(log, from);
        Ok(())
    }

    pub(super) fn handle_refused(
        &mut self,
        from: Did,
        log: LogId,
        what: frame::Refused,
        code: &str,
        now_ms: u64,
    ) -> Result<(), S> {
        // What is refused for a reason that passes waits for the next time.
        if let frame::Refused::Envelope(id) = what
            && !is_passing(code)
            && self.book(&log)?.numbering == Numbering::Of(from)
            && self.in_outbox(&log, &id)?.is_some()
        {
            self.put_away(&log, &id)?;
            let code = code.to_owned();
            self.stage.events.push(Event::PostRefused { log, id, code });
        }
        let Some(exchange) = self.exchanges.get_mut(&(log, from)) else {
            return Ok(());
        };
        exchange.since_ms = now_ms;
        match (&mut exchange.opened, what) {
            (Some((initiator, set)), frame::Refused::Envelope(id)) => {
                initiator.handle_send_refused(set, id, code.into(), now_ms);
            }
            (Some((initiator, _)), frame::Refused::Recon) => initiator.handle_refusal(code.into()),
            (None, frame::Refused::Envelope(id)) => exchange.answered(&id),
            (None, frame::Refused::Recon) => {}
        }
        self.say_due(log, from, now_ms)?;
        self.end_if_ended(log, from);
        Ok(())
    }

    /// The peer's answer, after all that came before it is durable.
    pub(super) fn advance(
        &mut self,
        with: Did,
        log: LogId,
        payload: &[u8],
        now_ms: u64,
    ) -> Closing<(), S> {
        if let Some((initiator, set)) = self.opened(log, with) {
            // A refusal of the answer is the exchange's end, and stands in its report.
            let _ = initiator.handle_answer(set, payload, now_ms);
        }
        self.say_due(log, with, now_ms)?;
        self.end_if_ended(log, with);
        Ok(())
    }

    /// Sends what is in the outbox, and opens the exchanges whose peer has answered all of it.
    pub(super) fn open_exchanges(&mut self, now_ms: u64) -> Closing<(), S> {
        let unread = |(key, exchange): (&(LogId, Did), &Exchange)| {
            exchange.posting.is_none().then_some(*key)
        };
        let unread: Vec<_> = self.exchanges.iter().filter_map(unread).collect();
        for (log, with) in unread {
            self.post_outbox(log, with)?;
        }
        let ready = |(key, exchange): (&(LogId, Did), &Exchange)| {
            let answered = exchange.posting.as_ref().is_some_and(BTreeSet::is_empty);
            let ready = exchange.opened.is_none() && answered;
            ready.then_some((*key, exchange.space))
        };
        let ready: Vec<_> = self.exchanges.iter().filter_map(ready).collect();
        for ((log, with), space) in ready {
            let index = match space {
                Space::Shared => self.store.shared_index(&log),
                Space::Numbered => self.store.index(&log),
            };
            let mut set = set_of(index.map_err(LogsError::Store)?)?;
            let initiator = Initiator::open(&mut set, limits(), Patience::default(), now_ms);
            if let Some(exchange) = self.exchanges.get_mut(&(log, with)) {
                exchange.opened = Some((initiator, set));
            }
            self.say_due(log, with, now_ms)?;
        }
        Ok(())
    }

    fn post_outbox(&mut self, log: LogId, with: Did) -> Closing<(), S> {
        let mut posting = BTreeSet::new();
        if self.book(&log)?.numbering == Numbering::Of(with) {
            for (_, id, _) in self.waiting_in_order(&log)? {
                posting.insert(id);
                self.owe(with, Owed::Post(log, id));
            }
        }
        if let Some(exchange) = self.exchanges.get_mut(&(log, with)) {
            exchange.posting = Some(posting);
        }
        Ok(())
    }

    pub(super) fn end_exchanges(&mut self, with: &Did) {
        let keys: Vec<_> = self.exchanges.keys().copied().collect();
        for (log, peer) in keys.into_iter().filter(|it| it.1 == *with) {
            self.give_up(log, peer);
        }
    }

    /// Ends the reconciliation of a log with a peer, if one runs, as if the link had closed.
    pub fn give_up(&mut self, log: LogId, with: Did) {
        if !self.exchanges.contains_key(&(log, with)) {
            return;
        }
        match self.opened(log, with) {
            Some((initiator, _)) => {
                initiator.handle_closed();
                self.end_if_ended(log, with);
            }
            None => self.end_unopened(log, with, Bound::Link),
        }
    }

    fn opened(&mut self, log: LogId, with: Did) -> Option<&mut (Initiator, ItemSet)> {
        self.exchanges.get_mut(&(log, with))?.opened.as_mut()
    }

    /// Envelopes that the peer of a plan would push.
    pub(super) fn handle_named(
        &mut self,
        from: Did,
        log: LogId,
        items: &[u8],
        now_ms: u64,
    ) -> Result<(), S> {
        let exchange = self.exchanges.get(&(log, from));
        let exchange = exchange.filter(|it| it.plan.is_some() && it.opened.is_some());
        let space = exchange.ok_or(Refusal::NotAsked { log })?.space;
        for Named { seq, id, bytes } in Named::read(items) {
            let seq = match space {
                Space::Numbered => seq,
                Space::Shared => shared_place(&id),
            };
            let held = self.find(&log, &id)?.is_some();
            let Some(exchange) = self.exchanges.get_mut(&(log, from)) else {
                break;
            };
            let (Some((initiator, set)), Some(plan)) = (&mut exchange.opened, &mut exchange.plan)
            else {
                break;
            };
            let item = Item { seq, id };
            let new = !held && !set.contains(&item);
            if initiator.handle_push(set, item, now_ms).is_err() {
                initiator.handle_push_refused(id, "recon/reserved_seq".into());
            } else if new {
                plan.receive += 1;
                plan.receive_bytes += u64::from(bytes);
                if plan.receive >= PLAN_ITEMS_MAX {
                    initiator.handle_closed();
                    break;
                }
            }
        }
        self.end_if_ended(log, from);
        Ok(())
    }

    /// An item that a reconciliation would send. The peer does not have it, so it keeps no range open, as one that the
    /// peer refused.
    fn plan_send(&mut self, log: LogId, with: Did, id: EnvelopeId, now_ms: u64) -> Closing<(), S> {
        let entry = self.entry_of(&log, &id)?;
        let Some(exchange) = self.exchanges.get_mut(&(log, with)) else {
            return Ok(());
        };
        if let (Some((initiator, set)), Some(plan)) = (&mut exchange.opened, &mut exchange.plan) {
            plan.send += 1;
            plan.send_bytes += entry.map_or(0, |it| u64::from(it.bytes));
            initiator.handle_send_refused(set, id, "log/planned".into(), now_ms);
        }
        Ok(())
    }

    /// Owes the peer what the exchange wants said.
    fn say_due(&mut self, log: LogId, with: Did, now_ms: u64) -> Closing<(), S> {
        loop {
            let Some(exchange) = self.exchanges.get_mut(&(log, with)) else {
                return Ok(());
            };
            let (space, only) = (exchange.space, exchange.sends_only);
            let plans = exchange.plan.is_some();
            let turn = if plans { Turn::Plan } else { Turn::Ask };
            let Some((initiator, _)) = &mut exchange.opened else {
                return Ok(());
            };
            let Some(request) = initiator.poll_transmit() else {
                return Ok(());
            };
            let item = match request {
                Request::Recon(payload) => {
                    self.owe(with, Owed::Recon(log, space, turn, payload));
                    continue;
                }
                Request::Send(item) => item,
            };
            let hands_on = match only {
                None => true,
                Some(author) => {
                    let entry = self.entry_of(&log, &item.id)?;
                    entry.is_some_and(|entry| entry.author == author)
                }
            };
            if hands_on && plans {
                self.plan_send(log, with, item.id, now_ms)?;
            } else if hands_on {
                self.owe(with, Owed::Send(log, item.id));
            } else if let Some((initiator, set)) = self.opened(log, with) {
                let code = "log/not_its_author".into();
                initiator.handle_send_refused(set, item.id, code, now_ms);
            }
        }
    }

    fn end_if_ended(&mut self, log: LogId, with: Did) {
        let ended = |it: &mut (Initiator, ItemSet)| it.0.ended().is_some();
        if self.opened(log, with).is_some_and(ended)
            && let Some(exchange) = self.exchanges.remove(&(log, with))
            && let Some((initiator, _)) = &exchange.opened
        {
            let mut report = initiator.report();
            if let Some((id, code)) = exchange.anew {
                let why = code.to_owned();
                report.refused_here.push(Refused { id, why });
            }
            self.tell_end(log, with, report, exchange.plan);
        }
    }

    fn tell_end(&mut self, log: LogId, with: Did, report: Report, plan: Option<Planned>) {
        let event = match plan {
            None => Event::Synced { log, with, report },
            Some(plan) => {
                let planned = Planned { report, ..plan };
                Event::Planned { log, with, planned }
            }
        };
        self.events.push_back(event);
    }

    /// Ends an exchange that never opened.
    fn end_unopened(&mut self, log: LogId, with: Did, bound: Bound) {
        let exchange = self.exchanges.remove(&(log, with));
        let report = Report {
            end: Some(End::GaveUp(bound)),
            ..Report::default()
        };
        self.tell_end(log, with, report, exchange.and_then(|it| it.plan));
    }
}

impl Exchange {
    fn answered(&mut self, id: &EnvelopeId) {
        if let Some(posting) = &mut self.posting {
            posting.remove(id);
        }
    }
}

/// What an index holds, in memory: it changes as the exchange goes on.
fn set_of<I: Storage>(mut index: I) -> std::result::Result<ItemSet, LogsError<I::Error>> {
    let count = index.position(TOP).map_err(LogsError::Store)?;
    let mut set = ItemSet::new();
    let mut add = |records: &[Record]| {
        for record in records {
            // No index has an item at the top.
            let _ = set.insert(Item::from_record(record));
        }
    };
    index.visit(0..count, &mut add).map_err(LogsError::Store)?;
    Ok(set)
}

fn outbox_key(log: &LogId, id: Option<&EnvelopeId>) -> Vec<u8> {
    let mut key = vec![OUTBOX_ROWS];
    key.extend_from_slice(&log.0);
    key.extend_from_slice(id.map_or(&[], |id| id.0.as_slice()));
    key
}

fn outbox_id(key: &[u8]) -> Option<EnvelopeId> {
    let id = key.get(33..)?.try_into().ok()?;
    Some(overlane_recon::Id(id))
}
