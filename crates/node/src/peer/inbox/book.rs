//! What became of this node's own mail that others hold, kept beside the mail that is held here.
//!
//! Law **owed an outcome**: from when a message is told to be held until its end is known, it is in the book, and
//! the book is durable; a holder's word on the end is answered when it is. So the end is told once, also to a
//! sender that was started again meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};
use overlane_core::{Did, TransactionDigest};
use overlane_relay::inbox::bounds::OUTCOME_LIFE_MS;
use overlane_relay::inbox::{Outcome, OutcomeKind};

/// Mails of this node's own that others hold, or held until not long ago. The one whose end is known longest
/// is forgotten for another, then the one that is kept the shortest.
pub const HELD_ELSEWHERE_MAX: usize = 4_096;

/// Holders of one of them: the chain, and those that took it late.
pub const HELD_BY_MAX: usize = 8;

/// How long a mail stays in the book once its end is known, in milliseconds: a day.
pub const ENDED_KEPT_MS: u64 = 24 * 3_600 * 1_000;

/// How long after its last instant a mail is asked after: as long as holders keep its outcome.
pub const ASKED_AFTER_MS: u64 = OUTCOME_LIFE_MS;

/// How long after its last instant those that hold a mail may still say what became of it, once one of them has
/// said it, in milliseconds: by their own word they hold it no longer.
pub const SILENT_FOR_MS: u64 = 10 * 60 * 1_000;

/// A mail of this node's own that others hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldElsewhere {
    /// Its transaction.
    pub digest: TransactionDigest,
    /// Whom it is for.
    pub destination: Did,
    /// Who holds it, and until when.
    pub by: BTreeMap<Did, u64>,
    /// How it ended, once that is known.
    pub end: Option<MailEnd>,
}

/// How a mail that others held ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailEnd {
    /// How.
    pub kind: OutcomeKind,
    /// The holder that says so.
    pub by: Did,
    /// When, by that holder's clock.
    pub at_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    destination: Did,
    by: BTreeMap<Did, Holding>,
    /// Those that were asked and may come late, in this life of the node: a late receipt of an earlier life's is
    /// not noted any more.
    asked: BTreeSet<Did>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Holding {
    until_ms: u64,
    end: Option<(OutcomeKind, u64)>,
}

/// What a change of the book comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) digest: TransactionDigest,
    /// The row it has now; none if it is forgotten.
    pub(super) row: Option<Vec<u8>>,
    /// How it is now.
    pub(super) mail: Option<HeldElsewhere>,
    /// Whether its end came to be known by this.
    pub(super) ended: bool,
}

/// The book.
#[derive(Debug, Default)]
pub(super) struct Book {
    mails: BTreeMap<TransactionDigest, Entry>,
}

impl Entry {
    /// That it was taken is the end; that it was let go of is one when all have.
    fn end(&self) -> Option<MailEnd> {
        let ended = self.by.iter().filter_map(|(&by, holding)| {
            let (kind, at_ms) = holding.end?;
            Some(MailEnd { kind, by, at_ms })
        });
        let ended: Vec<MailEnd> = ended.collect();
        let taken = ended.iter().find(|it| it.kind == OutcomeKind::Taken);
        let last = || ended.iter().max_by_key(|it| it.at_ms);
        let all = ended.len() == self.by.len();
        taken.or_else(|| all.then(last).flatten()).copied()
    }

    fn until_ms(&self) -> u64 {
        let until = self.by.values().map(|it| it.until_ms).max();
        until.unwrap_or_default()
    }

    /// When it ended. A holder names any instant it likes: none counts that is after the last of the mail.
    fn ended_ms(&self) -> Option<u64> {
        self.end().map(|end| end.at_ms.min(self.until_ms()))
    }

    fn is_over(&self, now_ms: u64) -> bool {
        match self.ended_ms() {
            Some(ended_ms) => ended_ms.saturating_add(ENDED_KEPT_MS) < now_ms,
            None => self.until_ms().saturating_add(ASKED_AFTER_MS) < now_ms,
        }
    }

    fn shown(&self, digest: TransactionDigest) -> HeldElsewhere {
        let by = self.by.iter().map(|(&by, it)| (by, it.until_ms));
        HeldElsewhere {
            digest,
            destination: self.destination,
            by: by.collect(),
            end: self.end(),
        }
    }
}

impl Book {
    /// A row that was kept; whether it reads.
    pub(super) fn read(&mut self, digest: TransactionDigest, row: &[u8]) -> bool {
        let entry = from_slice::<Entry>(row).ok();
        let room = self.mails.len() < HELD_ELSEWHERE_MAX;
        entry
            .filter(|_| room)
            .map(|entry| self.mails.insert(digest, entry))
            .is_some()
    }

    /// All that it holds.
    pub(super) fn all(&self) -> impl Iterator<Item = HeldElsewhere> {
        self.mails.iter().map(|(&digest, it)| it.shown(digest))
    }

    /// A mail is held by these, and those were asked to hold it as well.
    pub(super) fn hold(
        &mut self,
        digest: TransactionDigest,
        destination: Did,
        by: &[(Did, u64)],
        asked: &[Did],
    ) -> Vec<Changed> {
        let mut changed = Vec::new();
        if self.mails.len() >= HELD_ELSEWHERE_MAX && !self.mails.contains_key(&digest) {
            let rank = |it: &Entry| match it.ended_ms() {
                Some(ended_ms) => (false, ended_ms),
                None => (true, it.until_ms()),
            };
            let first = self.mails.iter().min_by_key(|it| rank(it.1));
            if let Some(first) = first.map(|it| *it.0) {
                changed.push(self.forget(first));
            }
        }
        let entry = self.mails.entry(digest).or_insert_with(|| Entry {
            destination,
            by: BTreeMap::new(),
            asked: BTreeSet::new(),
        });
        entry.asked = asked.iter().copied().take(HELD_BY_MAX).collect();
        for &(by, until_ms) in by {
            entry.note(by, until_ms);
        }
        changed.push(Changed::of(digest, entry, false));
        changed
    }

    /// A receipt that came late: one more holds it, if it was asked to. `Err` where there is no such mail.
    pub(super) fn hold_too(
        &mut self,
        digest: TransactionDigest,
        by: Did,
        until_ms: u64,
    ) -> Result<Option<Changed>, ()> {
        let entry = self.mails.get_mut(&digest).ok_or(())?;
        let counts = entry.asked.remove(&by) && entry.end().is_none();
        let fresh = counts && entry.note(by, until_ms);
        Ok(fresh.then(|| Changed::of(digest, entry, false)))
    }

    /// A holder says what became of a mail. `Err` where there is no such mail.
    pub(super) fn end(&mut self, by: Did, outcome: &Outcome) -> Result<Option<Changed>, ()> {
        let digest = outcome.digest;
        let entry = self.mails.get_mut(&digest).ok_or(())?;
        let open = entry.destination == outcome.destination && entry.end().is_none();
        let holding = entry.by.get_mut(&by).filter(|it| open && it.end.is_none());
        let Some(holding) = holding else {
            return Ok(None);
        };
        holding.end = Some((outcome.kind, outcome.at_ms));
        let ended = entry.end().is_some();
        Ok(Some(Changed::of(digest, entry, ended)))
    }

    /// Whether a word on the end of a mail comes from one that is not known to hold it, and the end is open.
    pub(super) fn may_be_of_heir(&self, by: &Did, outcome: &Outcome) -> bool {
        self.mails.get(&outcome.digest).is_some_and(|it| {
            let same = it.destination == outcome.destination && it.end().is_none();
            same && !it.by.contains_key(by)
        })
    }

    /// One that those who held a mail handed it on to says what became of it.
    pub(super) fn end_of_heir(&mut self, by: Did, outcome: &Outcome) -> Option<Changed> {
        if !self.may_be_of_heir(&by, outcome) {
            return None;
        }
        let entry = self.mails.get_mut(&outcome.digest)?;
        let until_ms = entry.until_ms();
        entry.note(by, until_ms);
        self.end(by, outcome).ok().flatten()
    }

    /// Ends what has ended though some say nothing of it, and forgets what is over.
    pub(super) fn maintain(&mut self, now_ms: u64) -> Vec<Changed> {
        let mut changed = Vec::new();
        for (&digest, entry) in &mut self.mails {
            if entry.forget_silent(now_ms) {
                changed.push(Changed::of(digest, entry, true));
            }
        }
        let over = self.mails.iter().filter(|it| it.1.is_over(now_ms));
        let over: Vec<TransactionDigest> = over.map(|it| *it.0).collect();
        changed.extend(over.into_iter().map(|digest| self.forget(digest)));
        changed
    }

    fn forget(&mut self, digest: TransactionDigest) -> Changed {
        self.mails.remove(&digest);
        Changed {
            digest,
            row: None,
            mail: None,
            ended: false,
        }
    }
}

impl Entry {
    /// Forgets those that said nothing in time, where another said what became of the mail: it is its end then.
    /// Whether that is so since now.
    fn forget_silent(&mut self, now_ms: u64) -> bool {
        let said = self.by.values().any(|it| it.end.is_some());
        let late = self.until_ms().saturating_add(SILENT_FOR_MS) < now_ms;
        if !said || !late || self.end().is_some() {
            return false;
        }
        self.by.retain(|_, it| it.end.is_some());
        true
    }

    /// One more holds it, if there is room for it. Whether that is new.
    fn note(&mut self, by: Did, until_ms: u64) -> bool {
        if self.by.len() >= HELD_BY_MAX || self.by.contains_key(&by) {
            return false;
        }
        let end = None;
        self.by.insert(by, Holding { until_ms, end });
        true
    }
}

impl Changed {
    fn of(digest: TransactionDigest, entry: &Entry, ended: bool) -> Self {
        Self {
            digest,
            row: Some(to_vec(entry)),
            mail: Some(entry.shown(digest)),
            ended,
        }
    }
}

/// `[destination, [[holder, until_ms, end, at_ms], …]]`, where `end` is zero while it is not known.
impl Encode for Entry {
    fn encode(&self, writer: &mut Writer) {
        let holders: Vec<Row> = self
            .by
            .iter()
            .map(|(&by, it)| Row(by, it.clone()))
            .collect();
        writer.array(2).value(&self.destination).list(&holders);
    }
}

impl<'a> Decode<'a> for Entry {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        let destination = reader.value()?;
        let holders: Vec<Row> = reader.list(HELD_BY_MAX)?;
        let by = holders.into_iter().map(|Row(by, holding)| (by, holding));
        let by = by.collect();
        let asked = BTreeSet::new();
        Ok(Self {
            destination,
            by,
            asked,
        })
    }
}

struct Row(Did, Holding);

impl Encode for Row {
    fn encode(&self, writer: &mut Writer) {
        let Self(by, Holding { until_ms, end }) = self;
        let (kind, at_ms) = match end {
            None => (0, 0),
            Some((OutcomeKind::Taken, at_ms)) => (1, *at_ms),
            Some((OutcomeKind::Expired, at_ms)) => (2, *at_ms),
            Some((OutcomeKind::Evicted, at_ms)) => (3, *at_ms),
        };
        let writer = writer.array(4).value(by).uint(*until_ms);
        writer.uint(kind).uint(at_ms);
    }
}

impl<'a> Decode<'a> for Row {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        let (by, until_ms) = (reader.value()?, reader.uint()?);
        let at = reader.at();
        let kind = match reader.u8()? {
            0 => None,
            1 => Some(OutcomeKind::Taken),
            2 => Some(OutcomeKind::Expired),
            3 => Some(OutcomeKind::Evicted),
            _ => return Err(Reader::invalid(at, "end of a mail")),
        };
        let at_ms = reader.uint()?;
        let end = kind.map(|kind| (kind, at_ms));
        Ok(Self(by, Holding { until_ms, end }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(byte: u8) -> Did {
        Did([byte; 20])
    }

    fn digest(number: u64) -> TransactionDigest {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        TransactionDigest(bytes)
    }

    fn outcome(number: u64, kind: OutcomeKind, at_ms: u64) -> Outcome {
        Outcome {
            digest: digest(number),
            destination: did(9),
            kind,
            at_ms,
        }
    }

    #[test]
    fn mail_in_the_book_ends_when_it_was_taken_or_all_let_go_of_it() {
        let mut book = Book::default();
        for number in 0..2 {
            let by = [(did(1), 50), (did(2), 60)];
            book.hold(digest(number), did(9), &by, &[did(3)]);
        }
        let late = book.hold_too(digest(1), did(3), 70).unwrap();
        assert!(late.is_some_and(|it| it.row.is_some() && !it.ended));
        let again = book.hold_too(digest(1), did(3), 80);
        assert_eq!(again, Ok(None), "it is noted");
        let stranger = book.hold_too(digest(0), did(4), 70);
        assert_eq!(stranger, Ok(None), "who was not asked");
        assert_eq!(book.hold_too(digest(7), did(3), 70), Err(()), "not its own");

        let taken = outcome(0, OutcomeKind::Taken, 5);
        let other = Outcome {
            destination: did(8),
            ..taken
        };
        assert_eq!(book.end(did(1), &other), Ok(None), "for somebody else");
        assert_eq!(book.end(did(4), &taken), Ok(None), "who does not hold it");
        assert_eq!(
            book.end(did(1), &outcome(7, OutcomeKind::Taken, 5)),
            Err(())
        );
        let change = book.end(did(1), &taken).unwrap().unwrap();
        let end = change.mail.unwrap().end.unwrap();
        assert!(change.ended);
        assert_eq!(
            (end.kind, end.by, end.at_ms),
            (OutcomeKind::Taken, did(1), 5)
        );
        assert_eq!(book.end(did(2), &taken), Ok(None), "told once");

        for (by, ended) in [(1, false), (2, false), (3, true)] {
            let gone = outcome(1, OutcomeKind::Expired, u64::from(by));
            let change = book.end(did(by), &gone).unwrap().unwrap();
            assert_eq!(change.ended, ended, "by {by}");
        }
        // What the rows say is what it was.
        let mut again = Book::default();
        for (digest, entry) in &book.mails {
            assert!(again.read(*digest, &to_vec(entry)));
        }
        for entry in book.mails.values_mut() {
            entry.asked.clear();
        }
        assert_eq!(again.mails, book.mails);
        assert!(!again.read(digest(3), b"no row"));
        assert!(again.maintain(ENDED_KEPT_MS).is_empty());
        assert_eq!(again.maintain(ENDED_KEPT_MS + 9).len(), 2);
    }

    #[test]
    fn mail_in_the_book_ends_though_a_holder_never_says_so() {
        let mut book = Book::default();
        let by = [(did(1), 50), (did(2), 60)];
        for number in 0..2 {
            book.hold(digest(number), did(9), &by, &[]);
        }
        let gone = book.end(did(1), &outcome(0, OutcomeKind::Expired, 50));
        assert!(!gone.unwrap().unwrap().ended);
        assert!(book.maintain(60 + SILENT_FOR_MS).is_empty());
        let changed = book.maintain(61 + SILENT_FOR_MS);
        // Of the other nobody has said anything.
        assert_eq!((changed.len(), changed[0].digest), (1, digest(0)));
        let mail = changed[0].mail.clone().unwrap();
        let end = mail.end.unwrap();
        assert!(changed[0].ended);
        assert_eq!((end.kind, end.by), (OutcomeKind::Expired, did(1)));
        // Once, also over a start.
        assert!(book.maintain(62 + SILENT_FOR_MS).is_empty());
        let mut again = Book::default();
        assert!(again.read(digest(0), changed[0].row.as_ref().unwrap()));
        assert!(again.maintain(63 + SILENT_FOR_MS).is_empty());
        assert_eq!(again.all().next().unwrap(), mail);
    }

    #[test]
    fn mail_in_the_book_has_its_end_told_by_whom_it_was_handed_on_to() {
        let mut book = Book::default();
        book.hold(digest(0), did(9), &[(did(1), 50), (did(2), 60)], &[]);
        let taken = outcome(0, OutcomeKind::Taken, 5);
        assert!(!book.may_be_of_heir(&did(1), &taken), "it holds it");
        assert!(book.may_be_of_heir(&did(4), &taken));
        assert_eq!(book.end(did(4), &taken), Ok(None), "nobody vouches for it");
        let changed = book.end_of_heir(did(4), &taken).unwrap();
        assert_eq!(changed.mail.unwrap().end.unwrap().by, did(4));
        assert_eq!(book.end_of_heir(did(5), &taken), None, "told once");
        // As many as there is room for.
        book.hold(digest(1), did(9), &[(did(1), 50)], &[]);
        for by in 2..=20 {
            book.end_of_heir(did(by), &outcome(1, OutcomeKind::Expired, 5));
        }
        let by = book.all().find(|it| it.digest == digest(1)).unwrap().by;
        assert_eq!(by.len(), HELD_BY_MAX);
    }

    #[test]
    fn mail_in_the_book_is_over_however_late_a_holder_says_it_ended() {
        let mut book = Book::default();
        book.hold(digest(0), did(9), &[(did(1), 50)], &[]);
        let ended = outcome(0, OutcomeKind::Taken, u64::MAX);
        assert!(book.end(did(1), &ended).unwrap().unwrap().ended);
        assert!(book.maintain(50 + ENDED_KEPT_MS).is_empty());
        assert_eq!(book.maintain(51 + ENDED_KEPT_MS).len(), 1);
    }

    #[test]
    fn mail_in_the_book_is_bounded_and_what_ended_makes_room_first() {
        let mut book = Book::default();
        let many = u64::try_from(HELD_ELSEWHERE_MAX).unwrap();
        for number in 0..many {
            let changed = book.hold(digest(number), did(9), &[(did(1), 1_000 + number)], &[]);
            assert_eq!(changed.len(), 1);
        }
        let ended = outcome(77, OutcomeKind::Taken, 5);
        assert!(book.end(did(1), &ended).unwrap().unwrap().ended);
        let gone = |book: &mut Book, number| {
            let changed = book.hold(digest(number), did(9), &[(did(1), 9_000)], &[]);
            assert_eq!(book.mails.len(), HELD_ELSEWHERE_MAX);
            let gone = changed.iter().find(|it| it.row.is_none());
            gone.unwrap().digest
        };
        assert_eq!(gone(&mut book, many), digest(77));
        assert_eq!(gone(&mut book, many + 1), digest(0));
        let asked: Vec<Did> = (2..20).map(did).collect();
        for some in asked.chunks(HELD_BY_MAX) {
            book.hold(digest(9), did(9), &[], some);
            for &by in some {
                assert!(book.hold_too(digest(9), by, 2_000).is_ok());
            }
        }
        let by = book.all().find(|it| it.digest == digest(9)).unwrap().by;
        assert_eq!(by.len(), HELD_BY_MAX);
    }
}
