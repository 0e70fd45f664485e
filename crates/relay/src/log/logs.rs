//! The logs of one node: those it holds for others, and those it follows.
//!
//! Frames come in by [`Logs::handle_frame`] and are staged; [`Logs::flush`] makes what is staged
//! durable in one transaction, and only then is anything of it owed to a peer or told as an
//! [`Event`]. Whoever drives this gathers what is there before it flushes: so one flush of the disk
//! acknowledges all that came while the one before was written.

use super::book::{AUTHOR_ROWS, Book, HANDED_ON_SLOT, HEAD_ROWS, Numbering, is_few};
use super::bounds::{BOOKS_CACHED, ENVELOPE_MAX_BYTES, EVICTED_PER_CALL};
use super::exchange::Exchange;
use super::frame::{Frame, Refused, Turn};
use super::id::{EnvelopeId, LogId};
use super::mutant::Mutant;
use super::refusal::Refusal;
use super::rules::{Access, Judged, Rules};
use super::stage::Stage;
use super::store::{Entry, LogStore};
use super::told::{Counters, Event, Failure, LogsError, Owed, Peer, PeerState, Place};
use overlane_core::Did;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The logs of one node.
#[derive(Debug)]
pub struct Logs<S: LogStore, R> {
    pub(super) store: S,
    pub(super) rules: R,
    pub(super) books: BTreeMap<LogId, Book>,
    /// Bytes that each slot brought into logs that make room fairly.
    pub(super) slots: BTreeMap<u32, u64>,
    pub(super) stage: Stage,
    pub(super) peers: BTreeMap<Did, PeerState>,
    /// Whose turn it is to be given a frame.
    pub(super) turn: Option<Did>,
    pub(super) exchanges: BTreeMap<(LogId, Did), Exchange>,
    /// What waits for a host's number, by name; of the logs that were asked about.
    pub(super) outboxes: BTreeMap<LogId, BTreeSet<EnvelopeId>>,
    pub(super) events: VecDeque<Event>,
    pub(super) counters: Counters,
    /// When the envelope that waits last was written.
    pub(super) put_out_ms: u64,
    closed: bool,
    #[cfg(feature = "mutants")]
    broken: Option<Mutant>,
}

pub(super) const SLOT_ROWS: u8 = b'S';

/// The kinds of rows whose keys begin with a log's name.
const LOG_ROWS: [u8; 3] = [HEAD_ROWS, AUTHOR_ROWS, super::exchange::OUTBOX_ROWS];

pub(super) type Result<T, S> = std::result::Result<T, Failure<<S as LogStore>::Error>>;
pub(super) type Closing<T, S> = std::result::Result<T, LogsError<<S as LogStore>::Error>>;

impl<S: LogStore, R: Rules> Logs<S, R> {
    /// The logs that `store` kept.
    ///
    /// # Errors
    /// The store fails, or its rows do not read.
    pub fn open(mut store: S, rules: R) -> Closing<Self, S> {
        let rows = store.rows(&[SLOT_ROWS]).map_err(LogsError::Store)?;
        let slot = |(key, value): &(Vec<u8>, Vec<u8>)| {
            let slot = u32::from_be_bytes(*key.get(1..)?.first_chunk()?);
            let bytes = u64::from_be_bytes(*value.first_chunk()?);
            Some((slot, bytes))
        };
        Ok(Self {
            slots: rows.iter().filter_map(slot).collect(),
            store,
            rules,
            books: BTreeMap::new(),
            stage: Stage::default(),
            peers: BTreeMap::new(),
            turn: None,
            exchanges: BTreeMap::new(),
            outboxes: BTreeMap::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            put_out_ms: 0,
            closed: false,
            #[cfg(feature = "mutants")]
            broken: None,
        })
    }

    /// Breaks one rule.
    #[cfg(feature = "mutants")]
    pub fn break_rule(&mut self, mutant: Mutant) {
        self.broken = Some(mutant);
    }

    /// Whether this rule is broken.
    #[cfg(feature = "mutants")]
    pub(crate) fn is_broken(&self, mutant: Mutant) -> bool {
        self.broken == Some(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) fn is_broken(&self, _: Mutant) -> bool {
        false
    }

    /// The rules, to ask them or to tell them of a change.
    pub fn rules(&mut self) -> &mut R {
        &mut self.rules
    }

    /// The store, to read from.
    pub fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// The store, to open it again.
    pub fn into_store(self) -> S {
        self.store
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Envelopes of a log, and their bytes, with what is staged.
    ///
    /// # Errors
    /// The store fails.
    pub fn size(&mut self, log: &LogId) -> Closing<(u64, u64), S> {
        let whole = self.book(log)?.whole;
        Ok((whole.entries, whole.bytes))
    }

    /// Makes this node follow a log whose numbers are `host`'s. Only while it holds nothing of it.
    ///
    /// # Errors
    /// The store fails.
    pub fn follow(&mut self, log: LogId, host: Did) -> Closing<(), S> {
        let book = self.book(&log)?;
        if book.whole.entries == 0 {
            *book = Book::new(Numbering::Of(host));
            self.stage.books.insert(log);
        }
        Ok(())
    }

    /// Numbers a log at this node from here on: what is held keeps the numbers it has. For one that
    /// becomes a host, and for a log whose host numbered anew; it is then reconciled in the space all
    /// holders share.
    ///
    /// # Errors
    /// The store fails.
    pub fn hold(&mut self, log: LogId) -> Closing<(), S> {
        self.book(&log)?.numbering = Numbering::Own;
        self.stage.books.insert(log);
        Ok(())
    }

    /// Forgets the account of a log that nothing is held of any more, and what waits in it for a
    /// number.
    ///
    /// # Errors
    /// The store fails.
    pub fn forget(&mut self, log: &LogId) -> Closing<(), S> {
        self.books.remove(log);
        self.stage.books.remove(log);
        self.exchanges.retain(|(of, _), _| of != log);
        self.outboxes.remove(log);
        for kind in LOG_ROWS {
            let prefix: Vec<u8> = std::iter::once(kind).chain(log.0).collect();
            let rows = self.store.rows(&prefix).map_err(LogsError::Store)?;
            for (key, _) in rows {
                self.stage.row(key, None);
            }
        }
        Ok(())
    }

    /// Whether what waits should be flushed before more is handed in.
    pub fn is_full(&self) -> bool {
        self.stage.is_full()
    }

    /// A frame of a peer arrived. What comes of it leaves after the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// The store fails, or the peer's bytes are no frame; what else is refused, the peer is told.
    pub fn handle_frame(&mut self, peer: Peer, bytes: &[u8], now_ms: u64) -> Closing<(), S> {
        if self.closed {
            return Err(LogsError::Closed);
        }
        let frame = Frame::from_bytes(bytes).map_err(|error| LogsError::Peer(error.into()))?;
        let (log, what) = (frame.log(), self.subject(&frame));
        let handled = match self.charge(&peer.account, &frame, now_ms) {
            Ok(()) => self.handle(peer, frame, now_ms),
            Err(refusal) => Err(refusal.into()),
        };
        match handled {
            Ok(()) => Ok(()),
            Err(Failure::Failed(error)) => Err(self.close(error)),
            Err(Failure::Refused(refusal)) => {
                self.counters.refused += u64::from(matches!(what, Some(Refused::Envelope(_))));
                self.counters.not_answered += u64::from(what == Some(Refused::Recon));
                match what {
                    Some(what) => self.refuse(peer.account, log, what, &refusal),
                    None => self.counters.unexpected += 1,
                }
                Ok(())
            }
        }
    }

    /// Adds an envelope of this node's own. In a log it follows, it waits for the host's number.
    ///
    /// # Errors
    /// It is refused, or the store fails.
    pub fn post(
        &mut self,
        log: LogId,
        envelope: Vec<u8>,
        own: Peer,
        now_ms: u64,
    ) -> Closing<EnvelopeId, S> {
        match self.try_post(log, envelope, own, now_ms) {
            Ok(id) => Ok(id),
            Err(Failure::Refused(refusal)) => Err(LogsError::Peer(refusal)),
            Err(Failure::Failed(error)) => Err(self.close(error)),
        }
    }

    /// Stages an envelope that the caller judged itself.
    pub(crate) fn keep(
        &mut self,
        log: LogId,
        judged: Judged,
        envelope: &[u8],
        slot: u32,
        now_ms: u64,
    ) -> Closing<u64, S> {
        if self.closed {
            return Err(LogsError::Closed);
        }
        match self.accept(log, judged, envelope, Place::Next, slot, now_ms) {
            Ok(seq) => Ok(seq),
            Err(Failure::Refused(refusal)) => Err(LogsError::Peer(refusal)),
            Err(Failure::Failed(error)) => Err(self.close(error)),
        }
    }

    /// What the next transaction lets go of, and whether because its time is over.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = (LogId, Entry, bool)> {
        self.stage.events.iter().filter_map(|event| match event {
            Event::LetGo {
                log,
                entry,
                expired,
            } => Some((*log, *entry, *expired)),
            _ => None,
        })
    }

    /// Lets go of an envelope. Says whether it was held.
    ///
    /// # Errors
    /// The store fails.
    pub fn remove(&mut self, log: &LogId, id: &EnvelopeId) -> Closing<bool, S> {
        match self.entry_of(log, id) {
            Ok(Some(entry)) => {
                self.take_out(log, &entry)?;
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(self.close(error)),
        }
    }

    /// What is known of an envelope, staged or durable.
    ///
    /// # Errors
    /// The store fails.
    pub fn entry_of(&mut self, log: &LogId, id: &EnvelopeId) -> Closing<Option<Entry>, S> {
        let Some(seq) = self.find(log, id)? else {
            return Ok(None);
        };
        match self.stage.entry(log, seq) {
            Some(entry) => Ok(Some(*entry)),
            None => self.store.entry(log, seq).map_err(LogsError::Store),
        }
    }

    /// Keeps a row of the caller's with the next transaction; `key` begins with a byte above 0x7f,
    /// those below are the logs' own.
    pub fn put_row(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        debug_assert!(key.first().is_some_and(|it| *it > 0x7f));
        self.stage.row(key, value);
    }

    /// Makes all that is staged durable, in one transaction, then answers what was asked. Nothing that
    /// came of it left before.
    ///
    /// # Errors
    /// The store failed: nothing of it was told, and nothing more is done until the logs are opened
    /// again.
    pub fn flush(&mut self, now_ms: u64) -> Closing<(), S> {
        if self.closed {
            return Err(LogsError::Closed);
        }
        if !self.stage.is_empty() || !self.stage.books.is_empty() {
            self.commit()?;
        }
        let answered = self.answer_all(now_ms);
        if self.books.len() > BOOKS_CACHED {
            self.books.clear();
        }
        answered.map_err(|error| self.close(error))
    }

    /// What happened, until there is nothing.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Lets go of envelopes of a log whose time is over: a few in a call. Says whether there may be
    /// more.
    ///
    /// # Errors
    /// The store fails.
    pub fn expire(&mut self, log: &LogId, now_ms: u64) -> Closing<bool, S> {
        let retention = self.rules.retention(log);
        let first = self.book(log)?.first_seq;
        let entries = self.store.entries(log, first, EVICTED_PER_CALL);
        let entries = entries
            .map_err(LogsError::Store)
            .map_err(|error| self.close(error))?;
        let mut over = 0;
        for entry in entries
            .iter()
            .filter(|it| !self.stage.is_gone(log, it.seq))
            .copied()
            .collect::<Vec<_>>()
        {
            let aged = entry.stored_ms.saturating_add(retention.age_ms) < now_ms;
            if aged || entry.expires_ms < now_ms {
                self.let_go(log, &entry, true)?;
                over += 1;
            } else if !is_few(&retention) {
                break;
            }
        }
        Ok(over == EVICTED_PER_CALL)
    }

    fn handle(&mut self, peer: Peer, frame: Frame<'_>, now_ms: u64) -> Result<(), S> {
        match frame {
            Frame::Send { log, envelope } => self.handle_send(peer, log, envelope, now_ms),
            Frame::SendAck { log, id, seq } => self.handle_ack(peer.account, log, id, seq, now_ms),
            Frame::Push { log, seq, envelope } => {
                self.handle_push(peer, log, seq, envelope, now_ms)
            }
            Frame::Recon {
                log,
                space,
                turn,
                payload,
            } => self.handle_recon(peer.account, log, space, turn, payload),
            Frame::Refuse {
                log, what, code, ..
            } => self.handle_refused(peer.account, log, what, code, now_ms),
            Frame::Named { log, items } => self.handle_named(peer.account, log, items, now_ms),
        }
    }

    fn handle_send(
        &mut self,
        peer: Peer,
        log: LogId,
        envelope: &[u8],
        now_ms: u64,
    ) -> Result<(), S> {
        let access = self.rules.access(&log, &peer.account);
        let own = self.book(&log)?.numbering == Numbering::Own;
        if access == Access::None || !own {
            let peer = peer.account;
            return Err(Refusal::NotHere { log, peer }.into());
        }
        let judged = self.rules.judge(&log, envelope, &peer.account, now_ms)?;
        let anyone = self.is_broken(Mutant::AnyAuthor);
        if access == Access::Member && judged.author != peer.account && !anyone {
            let (id, author) = (judged.id, judged.author);
            return Err(Refusal::NotItsAuthor { id, author }.into());
        }
        let slot = if access == Access::Holder {
            HANDED_ON_SLOT
        } else {
            peer.slot
        };
        let seq = self.accept(log, judged, envelope, Place::Next, slot, now_ms)?;
        let ack = Owed::Ack(log, judged.id, seq);
        if self.is_broken(Mutant::AckAtOnce) {
            self.owe(peer.account, ack);
            return Ok(());
        }
        self.stage.owed.push((peer.account, ack));
        Ok(())
    }

    fn try_post(
        &mut self,
        log: LogId,
        envelope: Vec<u8>,
        own: Peer,
        now_ms: u64,
    ) -> Result<EnvelopeId, S> {
        if self.closed {
            return Err(LogsError::Closed.into());
        }
        if self.stage.is_full() || envelope.len() > ENVELOPE_MAX_BYTES {
            return Err(Refusal::Busy.into());
        }
        let judged = self.rules.judge(&log, &envelope, &own.account, now_ms)?;
        match self.book(&log)?.numbering {
            Numbering::Own => {
                self.accept(log, judged, &envelope, Place::Next, own.slot, now_ms)?;
            }
            Numbering::Of(host) => self.put_out(log, judged.id, &envelope, host, now_ms)?,
        }
        Ok(judged.id)
    }

    fn commit(&mut self) -> Closing<(), S> {
        for log in std::mem::take(&mut self.stage.books) {
            for (key, value) in self.book(&log)?.changed_rows(&log) {
                self.stage.row(key, value);
            }
        }
        let changes = self.stage.take_changes();
        if !changes.is_empty() {
            if let Err(error) = self.store.commit(changes) {
                return Err(self.close(LogsError::Store(error)));
            }
            self.counters.flushes += 1;
        }
        for (to, owed) in std::mem::take(&mut self.stage.owed) {
            self.owe(to, owed);
        }
        self.events.extend(std::mem::take(&mut self.stage.events));
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn close(&mut self, error: LogsError<S::Error>) -> LogsError<S::Error> {
        if !matches!(error, LogsError::Peer(_)) {
            self.closed = true;
            self.peers.clear();
            self.outboxes.clear();
            self.stage = Stage::default();
        }
        error
    }

    /// What a refusal of this frame is about; none for one that is not refused.
    fn subject(&self, frame: &Frame<'_>) -> Option<Refused> {
        match frame {
            Frame::Send { envelope, .. } => Some(Refused::Envelope(self.rules.name(envelope))),
            Frame::Recon {
                turn: Turn::Ask | Turn::Plan,
                ..
            } => Some(Refused::Recon),
            _ => None,
        }
    }
}
