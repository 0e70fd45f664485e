//! Keeping: an envelope is numbered, room is made for it, and the accounts follow.

use super::book::{Book, HANDED_ON_SLOT, Numbering, check_evicted, is_few};
use super::bounds::{EVICTED_PER_CALL, NUMBER_MAX, OLDEST_PAGE, OLDEST_PAGES_PER_CALL};
use super::id::{EnvelopeId, LogId};
use super::logs::{Closing, Logs, Result, SLOT_ROWS};
use super::mutant::Mutant;
use super::refusal::Refusal;
use super::retention::{Full, Retention};
use super::rules::{Judged, Rules};
use super::store::{Entry, LogStore};
use super::told::{Event, Failure, LogsError, Place};
use overlane_core::Did;
use overlane_recon::bounds::TOP;
use std::collections::VecDeque;

/// Who brings nothing, and has no share: for it the oldest of whoever has most makes room.
const NOBODY: Did = Did([0; 20]);

/// Pages of a log that are kept at a time: evictions alternate between those of few authors.
const PAGES_KEPT: usize = 8;

/// Entries of one log that were read in this call, each page with the number that it was read from. Nothing is committed
/// meanwhile.
#[derive(Debug, Default)]
struct Pages(VecDeque<(u64, Vec<Entry>)>);

impl Pages {
    /// The entries from this number on, as far as they were read; none where they were not.
    fn at(&self, from: u64) -> Option<&[Entry]> {
        let covers = |page: &&(u64, Vec<Entry>)| {
            let last = page.1.last();
            page.0 == from || page.0 < from && last.is_some_and(|it| it.seq >= from)
        };
        let (_, entries) = self.0.iter().rev().find(covers)?;
        entries.get(entries.partition_point(|it| it.seq < from)..)
    }

    fn keep(&mut self, from: u64, entries: Vec<Entry>) {
        if self.0.len() >= PAGES_KEPT {
            self.0.pop_front();
        }
        self.0.push_back((from, entries));
    }
}

impl<S: LogStore, R: Rules> Logs<S, R> {
    /// Stages an envelope that its log's rules took, and gives its number: the one it has, or a new
    /// one.
    pub(super) fn accept(
        &mut self,
        log: LogId,
        judged: Judged,
        envelope: &[u8],
        place: Place,
        slot: u32,
        now_ms: u64,
    ) -> Result<u64, S> {
        if let Some(seq) = self.find(&log, &judged.id)? {
            self.counters.known += 1;
            return match place {
                Place::At(other) if other > NUMBER_MAX && other != seq => {
                    Err(Refusal::NumberTooHigh { log, seq: other }.into())
                }
                Place::At(other) if other != seq => self.renumber(&log, seq, other),
                _ => Ok(seq),
            };
        }
        if self.stage.is_full() {
            return Err(Refusal::Busy.into());
        }
        if let Place::At(seq) = place
            && seq > NUMBER_MAX
            && !self.is_broken(Mutant::AnyNumber)
        {
            return Err(Refusal::NumberTooHigh { log, seq }.into());
        }
        self.book(&log)?;
        let has_share = |author: &Did| self.rules.has_share(&log, author);
        let book = self.books.get(&log);
        if book.is_some_and(|book| book.has_no_place(&judged.author, &has_share)) {
            return Err(Refusal::AuthorsFull { log }.into());
        }
        if judged.expires_ms < now_ms {
            return Err(Refusal::TooOld { log }.into());
        }
        self.make_room(&log, &judged.author, slot, envelope.len(), now_ms)?;
        let seq = match place {
            Place::Next => self.book(&log)?.next_seq,
            Place::At(seq) => seq,
        };
        self.check_free(&log, seq)?;
        let entry = Entry {
            seq,
            id: judged.id,
            author: judged.author,
            slot,
            stored_ms: now_ms,
            expires_ms: judged.expires_ms,
            bytes: u32::try_from(envelope.len()).unwrap_or(u32::MAX),
        };
        self.put_in(&log, &entry, envelope.to_vec())?;
        self.counters.kept += 1;
        self.stage.events.push(Event::Kept { log, entry });
        Ok(seq)
    }

    pub(super) fn check_free(&mut self, log: &LogId, seq: u64) -> Result<(), S> {
        let staged = self.stage.entry(log, seq).is_some();
        let held = !self.stage.is_gone(log, seq)
            && self
                .store
                .entry(log, seq)
                .map_err(LogsError::Store)?
                .is_some();
        if seq == 0 || seq == TOP || staged || held {
            return Err(Refusal::NumberTaken { log: *log, seq }.into());
        }
        Ok(())
    }

    /// The host numbered an envelope anew.
    pub(super) fn renumber(&mut self, log: &LogId, old: u64, seq: u64) -> Result<u64, S> {
        self.check_free(log, seq)?;
        // One that is staged keeps the number it was given first until it is durable.
        let Some(entry) = self.store.entry(log, old).map_err(LogsError::Store)? else {
            return Ok(old);
        };
        let Some(envelope) = self.store.envelope(log, old).map_err(LogsError::Store)? else {
            return Ok(old);
        };
        self.take_out(log, &entry)?;
        self.put_in(log, &Entry { seq, ..entry }, envelope)?;
        Ok(seq)
    }

    pub(super) fn make_room(
        &mut self,
        log: &LogId,
        author: &Did,
        slot: u32,
        bytes: usize,
        now_ms: u64,
    ) -> Result<(), S> {
        let retention = self.rules.retention(log);
        if is_few(&retention) {
            self.check_slot(slot, bytes)?;
            if self.book(log)?.is_full(bytes, &retention) {
                self.expire(log, now_ms)?;
            }
        }
        let (mut evicted, mut pages) = (0, Pages::default());
        while self.book(log)?.is_full(bytes, &retention) {
            check_evicted(evicted)?;
            evicted += 1;
            let none = Refusal::ShareFull {
                log: *log,
                author: *author,
            };
            let leaves = match retention.full {
                Full::Oldest if self.is_broken(Mutant::OldestOfAnyone) => self.oldest(log)?,
                Full::Oldest => self.oldest_of_share(log, author, &retention, &mut pages)?,
                Full::Fair => self.book(log)?.gives_way(slot, author),
            };
            let leaves = leaves.ok_or(none)?;
            self.counters.made_room += 1;
            self.counters.own_room += u64::from(leaves.author == *author);
            self.let_go(log, &leaves, false)?;
        }
        Ok(())
    }

    pub(super) fn check_slot(&self, slot: u32, bytes: usize) -> std::result::Result<(), Refusal> {
        let bound_bytes = self.rules.slot_bytes();
        let brought = self.slots.get(&slot).copied().unwrap_or(0);
        if slot != HANDED_ON_SLOT && brought.saturating_add(bytes as u64) > bound_bytes {
            return Err(Refusal::SlotFull { slot, bound_bytes });
        }
        let (held, all_bytes) = (self.slots.values().sum::<u64>(), self.rules.all_bytes());
        if held.saturating_add(bytes as u64) > all_bytes {
            return Err(Refusal::SlotFull {
                slot,
                bound_bytes: all_bytes,
            });
        }
        Ok(())
    }

    /// Lets go of what a log has more than is kept of it by now, a few in a call: of the oldest of whoever has most. Says
    /// whether there is more. A log that makes room fairly is small, and makes it as mail comes.
    ///
    /// # Errors
    /// The store fails.
    pub fn trim(&mut self, log: &LogId) -> Closing<bool, S> {
        let retention = self.rules.retention(log);
        if is_few(&retention) || self.is_broken(Mutant::TrimNothing) {
            return Ok(false);
        }
        let mut pages = Pages::default();
        for _ in 0..EVICTED_PER_CALL {
            if !self.book(log)?.is_over(&retention) {
                return Ok(false);
            }
            match self.oldest_of_share(log, &NOBODY, &retention, &mut pages) {
                Ok(Some(entry)) => self.let_go(log, &entry, false)?,
                Ok(None) => return Ok(false),
                Err(Failure::Refused(_)) => return Ok(true),
                Err(Failure::Failed(error)) => return Err(self.close(error)),
            }
        }
        Ok(true)
    }

    /// The oldest entry of whoever makes room for an author ([`Book::makes_room`]). What is read of the store for that stays
    /// in `pages` for the next in the same call.
    fn oldest_of_share(
        &mut self,
        log: &LogId,
        author: &Did,
        retention: &Retention,
        pages: &mut Pages,
    ) -> Result<Option<Entry>, S> {
        self.book(log)?;
        let each = self.is_broken(Mutant::OneShareEach);
        let has_share = |author: &Did| each || self.rules.has_share(log, author);
        let Some(book) = self.books.get(log) else {
            return Ok(None);
        };
        let Some(whose) = book.makes_room(author, retention, &has_share) else {
            return Ok(None);
        };
        let mut from = book.oldest_from(&whose);
        for _ in 0..OLDEST_PAGES_PER_CALL {
            if pages.at(from).is_none() || self.is_broken(Mutant::ReadForEach) {
                let entries = self.store.entries(log, from, OLDEST_PAGE);
                pages.keep(from, entries.map_err(LogsError::Store)?);
            }
            let entries = pages.at(from).unwrap_or_default();
            let Some(last) = entries.last() else {
                return Ok(self.stage.first_of(log, &whose).copied());
            };
            let mut left = entries.iter().filter(|it| !self.stage.is_gone(log, it.seq));
            let found = left.find(|it| it.author == whose).copied();
            from = found.map_or(last.seq.saturating_add(1), |it| it.seq);
            self.book(log)?.note_oldest(whose, from);
            if found.is_some() {
                return Ok(found);
            }
        }
        // It goes on from there when it is tried again.
        Err(Refusal::Busy.into())
    }

    /// The entry of the lowest number, what is staged with it.
    pub(super) fn oldest(&mut self, log: &LogId) -> Closing<Option<Entry>, S> {
        let mut from = self.book(log)?.first_seq;
        loop {
            let entries = self
                .store
                .entries(log, from, 64)
                .map_err(LogsError::Store)?;
            let Some(last) = entries.last() else {
                return Ok(self.stage.first(log).copied());
            };
            from = last.seq.saturating_add(1);
            if let Some(entry) = entries.iter().find(|it| !self.stage.is_gone(log, it.seq)) {
                self.book(log)?.first_seq = entry.seq;
                return Ok(Some(*entry));
            }
        }
    }

    pub(super) fn let_go(&mut self, log: &LogId, entry: &Entry, expired: bool) -> Closing<(), S> {
        self.take_out(log, entry)?;
        self.counters.let_go += 1;
        let (log, entry) = (*log, *entry);
        self.stage.events.push(Event::LetGo {
            log,
            entry,
            expired,
        });
        Ok(())
    }

    pub(super) fn put_in(
        &mut self,
        log: &LogId,
        entry: &Entry,
        envelope: Vec<u8>,
    ) -> Closing<(), S> {
        let book = self.book(log)?;
        book.add(entry);
        let few = book.few.is_some();
        if few {
            self.charge_slot(entry, true);
        }
        self.stage.append(*log, *entry, envelope);
        Ok(())
    }

    pub(super) fn take_out(&mut self, log: &LogId, entry: &Entry) -> Closing<(), S> {
        let book = self.book(log)?;
        book.take(entry);
        let few = book.few.is_some();
        if few {
            self.charge_slot(entry, false);
        }
        self.stage.remove(*log, entry);
        Ok(())
    }

    pub(super) fn charge_slot(&mut self, entry: &Entry, comes: bool) {
        let held = self.slots.entry(entry.slot).or_default();
        *held = if comes {
            held.saturating_add(u64::from(entry.bytes))
        } else {
            held.saturating_sub(u64::from(entry.bytes))
        };
        let held = *held;
        let mut key = vec![SLOT_ROWS];
        key.extend_from_slice(&entry.slot.to_be_bytes());
        let value = (held > 0).then(|| held.to_be_bytes().to_vec());
        if held == 0 {
            self.slots.remove(&entry.slot);
        }
        self.stage.row(key, value);
    }

    pub(super) fn find(&mut self, log: &LogId, id: &EnvelopeId) -> Closing<Option<u64>, S> {
        match self.stage.find(log, id) {
            Some(staged) => Ok(staged),
            None => self.store.seq_of(log, id).map_err(LogsError::Store),
        }
    }

    /// The account of a log, from memory or from its rows.
    pub(super) fn book(&mut self, log: &LogId) -> Closing<&mut Book, S> {
        if !self.books.contains_key(log) {
            let book = self.load_book(log)?;
            self.books.insert(*log, book);
        }
        let corrupt = LogsError::Corrupt { log: *log };
        self.books.get_mut(log).ok_or(corrupt)
    }

    pub(super) fn load_book(&mut self, log: &LogId) -> Closing<Book, S> {
        let corrupt = || LogsError::Corrupt { log: *log };
        let head = self
            .store
            .rows(&Book::head_key(log))
            .map_err(LogsError::Store)?;
        let mut book = match head.first() {
            None => Book::new(Numbering::Own),
            Some((_, head)) => {
                let rows = self.store.rows(&Book::authors_key(log));
                let rows = rows.map_err(LogsError::Store)?.into_iter();
                let rows = rows.filter_map(|(key, value)| Some((Book::author_of(&key)?, value)));
                Book::load(head, rows).map_err(|_| corrupt())?
            }
        };
        let retention = self.rules.retention(log);
        if is_few(&retention) {
            let most = usize::try_from(book.whole.entries).unwrap_or(usize::MAX);
            let entries = self.store.entries(log, 0, most).map_err(LogsError::Store)?;
            book.few = Some(entries.into_iter().map(|it| (it.seq, it)).collect());
        }
        Ok(book)
    }
}
