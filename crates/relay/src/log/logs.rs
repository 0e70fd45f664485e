//! The logs of one node: those it holds for others, and those it follows.
//!
//! Frames come in by [`Logs::handle_frame`] and are staged; [`Logs::flush`] makes what is staged
//! durable in one transaction, and only then is anything of it owed to a peer or told as an
//! [`Event`]. Whoever drives this gathers what is there before it flushes: so one flush of the disk
//! acknowledges all that came while the one before was written.

pub use super::book::Numbering;
use super::book::{Book, HANDED_ON_SLOT, is_few};
use super::bounds::{
    ASKED_MAX, BOOKS_CACHED, CHECK_WORK_BYTES, ENVELOPE_MAX_BYTES, EVICTED_PER_CALL,
    FRAME_WORK_BYTES, OWED_MAX, PEERS_MAX,
};
use super::exchange::Exchange;
use super::frame::{Frame, Refused, Space, Turn};
use super::id::{EnvelopeId, LogId};
use super::mutant::Mutant;
use super::refusal::Refusal;
use super::rules::{Access, Judged, Rules};
use super::stage::Stage;
use super::store::{Entry, LogStore};
use overlane_core::{Coded, Did, Fault};
use overlane_recon::{Budget, Report};
use std::collections::{BTreeMap, VecDeque};

/// A peer as its link knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The account that proved itself.
    pub account: Did,
    /// The connection slot that what it brings is charged to.
    pub slot: u32,
}

/// A frame to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// To whom.
    pub to: Did,
    /// The frame.
    pub frame: Vec<u8>,
}

/// What happened, told once it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An envelope is kept that was not before.
    Kept {
        /// The log.
        log: LogId,
        /// What is known of it.
        entry: Entry,
    },
    /// An envelope went: its time was over, or its log is full.
    LetGo {
        /// The log.
        log: LogId,
        /// What was known of it.
        entry: Entry,
        /// Whether its own time was over; else it made room.
        expired: bool,
    },
    /// An envelope of this node's own was refused by the host of a log it follows.
    PostRefused {
        /// The log.
        log: LogId,
        /// The envelope.
        id: EnvelopeId,
        /// The host's code.
        code: String,
    },
    /// A reconciliation that this node drove has ended.
    Synced {
        /// The log.
        log: LogId,
        /// With whom.
        with: Did,
        /// How, and what it moved.
        report: Report,
    },
}

/// What the logs did since they were opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Transactions that became durable.
    pub flushes: u64,
    /// Envelopes kept.
    pub kept: u64,
    /// Envelopes that were here already.
    pub known: u64,
    /// Envelopes refused.
    pub refused: u64,
    /// Envelopes let go of.
    pub let_go: u64,
    /// RECON messages answered.
    pub answered: u64,
    /// RECON messages refused.
    pub not_answered: u64,
    /// Envelopes pushed.
    pub pushed: u64,
    /// Frames that nothing was asked for.
    pub unexpected: u64,
}

/// Why the logs do nothing more, or a peer's frame was none.
#[derive(Debug, thiserror::Error)]
pub enum LogsError<E> {
    /// The peer sent what no honest peer sends, and there is no log to tell it about.
    #[error(transparent)]
    Peer(Refusal),
    /// The store failed.
    #[error("the store of logs failed: {0}")]
    Store(E),
    /// A row of the store's is not what this node wrote.
    #[error("the store of logs cannot be trusted: the account of log {log} does not read")]
    Corrupt {
        /// The log.
        log: LogId,
    },
    /// The store failed before.
    #[error("the store of logs failed before; open it again")]
    Closed,
}

impl<E> Coded for LogsError<E> {
    fn code(&self) -> &'static str {
        match self {
            Self::Peer(refusal) => refusal.code(),
            Self::Store(_) => "log/store_failed",
            Self::Corrupt { .. } => "log/store_corrupt",
            Self::Closed => "log/store_closed",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Peer(refusal) => refusal.fault(),
            _ => Fault::StoreFailedClosed,
        }
    }
}

/// A frame that is owed to a peer, its envelope still in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owed {
    Ack(LogId, EnvelopeId, u64),
    Push(LogId, u64),
    Send(LogId, EnvelopeId),
    /// An envelope of the outbox.
    Post(LogId, EnvelopeId),
    Recon(LogId, Space, Turn, Vec<u8>),
    Refuse(LogId, Refused, String, u64),
}

/// What one peer is owed and may still cost.
#[derive(Debug)]
pub(super) struct PeerState {
    pub(super) owed: VecDeque<Owed>,
    pub(super) asked: VecDeque<(LogId, Space, Turn, Vec<u8>)>,
    pub(super) budget: Budget,
}

/// Refused, or the store failed.
#[derive(Debug)]
pub(super) enum Failure<E> {
    Refused(Refusal),
    Failed(LogsError<E>),
}

impl<E> From<Refusal> for Failure<E> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl<E> From<LogsError<E>> for Failure<E> {
    fn from(error: LogsError<E>) -> Self {
        Self::Failed(error)
    }
}

/// Where an accepted envelope is numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Next,
    At(u64),
}

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
    turn: Option<Did>,
    pub(super) exchanges: BTreeMap<(LogId, Did), Exchange>,
    pub(super) events: VecDeque<Event>,
    pub(super) counters: Counters,
    closed: bool,
    #[cfg(feature = "mutants")]
    broken: Option<Mutant>,
}

pub(super) const SLOT_ROWS: u8 = b'S';

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
            events: VecDeque::new(),
            counters: Counters::default(),
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
    pub(super) fn is_broken(&self, mutant: Mutant) -> bool {
        self.broken == Some(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    pub(super) fn is_broken(&self, _: Mutant) -> bool {
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

    /// What to send next, until there is nothing: peer by peer, each in its order.
    ///
    /// # Errors
    /// The store fails.
    pub fn poll_transmit(&mut self) -> Closing<Option<Transmit>, S> {
        if self.closed {
            return Err(LogsError::Closed);
        }
        while let Some(to) = self.next_peer() {
            let Some(owed) = self.peers.get_mut(&to).and_then(|it| it.owed.pop_front()) else {
                continue;
            };
            let framed = self.frame(to, owed);
            if let Some(frame) = framed.map_err(|error| self.close(error))? {
                return Ok(Some(Transmit { to, frame }));
            }
        }
        Ok(None)
    }

    /// What happened, until there is nothing.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The link to a peer is gone: what it was owed and what it asked are forgotten.
    pub fn handle_disconnected(&mut self, peer: &Did) {
        self.peers.remove(peer);
        self.end_exchanges(peer);
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
            Numbering::Of(host) => self.put_out(log, judged.id, envelope, host),
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

    /// Charges a frame to its peer before anything is done for it.
    fn charge(
        &mut self,
        account: &Did,
        frame: &Frame<'_>,
        now_ms: u64,
    ) -> std::result::Result<(), Refusal> {
        let check = matches!(frame, Frame::Send { .. });
        let work = FRAME_WORK_BYTES + if check { CHECK_WORK_BYTES } else { 0 };
        let peer = self.peer(account)?;
        peer.budget.ask(now_ms).map_err(|it| Refusal::Exhausted {
            of: it.of,
            retry_ms: it.retry_ms,
        })?;
        peer.budget.charge(work, 0);
        Ok(())
    }

    pub(super) fn peer(&mut self, account: &Did) -> std::result::Result<&mut PeerState, Refusal> {
        if !self.peers.contains_key(account) && self.peers.len() >= PEERS_MAX {
            return Err(Refusal::PeersFull);
        }
        let allowance = self.rules.allowance();
        Ok(self.peers.entry(*account).or_insert_with(|| PeerState {
            owed: VecDeque::new(),
            asked: VecDeque::new(),
            budget: Budget::per_minute(allowance.work_bytes, allowance.push_bytes),
        }))
    }

    /// Queues a frame for a peer. One that takes nothing of what it is owed loses what is owed
    /// beyond the bound: it asks or sends again.
    pub(super) fn owe(&mut self, to: Did, owed: Owed) {
        if let Ok(peer) = self.peer(&to) {
            if peer.owed.len() < OWED_MAX {
                peer.owed.push_back(owed);
            } else {
                self.counters.unexpected += 1;
            }
        }
    }

    pub(super) fn refuse(&mut self, to: Did, log: LogId, what: Refused, refusal: &Refusal) {
        let code = refusal.code().to_owned();
        self.owe(to, Owed::Refuse(log, what, code, refusal.retry_ms()));
    }

    pub(super) fn close(&mut self, error: LogsError<S::Error>) -> LogsError<S::Error> {
        if !matches!(error, LogsError::Peer(_)) {
            self.closed = true;
            self.peers.clear();
            self.stage = Stage::default();
        }
        error
    }

    /// The next peer that is owed something, after the one served last.
    fn next_peer(&mut self) -> Option<Did> {
        let owing = |(did, peer): (&Did, &PeerState)| (!peer.owed.is_empty()).then_some(*did);
        let after = self.turn.and_then(|turn| {
            let bounds = (std::ops::Bound::Excluded(turn), std::ops::Bound::Unbounded);
            self.peers.range(bounds).find_map(owing)
        });
        let next = after.or_else(|| self.peers.iter().find_map(owing));
        self.turn = next;
        next
    }

    pub(super) fn may_ask(&mut self, account: &Did) -> std::result::Result<(), Refusal> {
        let anyway = self.is_broken(Mutant::AnswerTheUnread);
        let peer = self.peer(account)?;
        let pushes = peer
            .owed
            .iter()
            .filter(|it| matches!(it, Owed::Push(..) | Owed::Recon(..)));
        let owed = pushes.count();
        if owed > 0 && !anyway {
            return Err(Refusal::Unread { owed });
        }
        if peer.asked.len() >= ASKED_MAX {
            return Err(Refusal::Unread {
                owed: peer.asked.len(),
            });
        }
        Ok(())
    }

    /// What a refusal of this frame is about; none for one that is not refused.
    fn subject(&self, frame: &Frame<'_>) -> Option<Refused> {
        match frame {
            Frame::Send { envelope, .. } => Some(Refused::Envelope(self.rules.name(envelope))),
            Frame::Recon {
                turn: Turn::Ask, ..
            } => Some(Refused::Recon),
            _ => None,
        }
    }
}
