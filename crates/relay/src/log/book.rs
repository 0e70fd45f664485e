//! The account of one log: its next number, how much it holds, and whose that is.

use super::bounds::{EVICTED_PER_CALL, SHARELESS_MAX};
use super::id::LogId;
use super::refusal::Refusal;
use super::retention::{Full, Retention};
use super::store::Entry;
use overlane_core::Did;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};
use std::collections::{BTreeMap, BTreeSet};

/// The slot of what another holder handed on: the slot that brought it first is not known here.
pub(crate) const HANDED_ON_SLOT: u32 = u32::MAX;

pub(super) const HEAD_ROWS: u8 = b'H';
pub(super) const AUTHOR_ROWS: u8 = b'A';

/// Who numbers a log at this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// This node: it holds the log for others.
    Own,
    /// That account's node: this one follows it, and keeps its numbers.
    Of(Did),
}

/// Part of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Book {
    pub(super) numbering: Numbering,
    pub(super) next_seq: u64,
    /// Nothing below is held.
    pub(super) first_seq: u64,
    pub(super) whole: Share,
    authors: BTreeMap<Did, Share>,
    /// Where an author's oldest was looked for last: it has none below.
    oldest: BTreeMap<Did, u64>,
    changed: BTreeSet<Did>,
    /// All entries, of a log that makes room fairly and has few.
    pub(super) few: Option<BTreeMap<u64, Entry>>,
}

impl Book {
    pub(super) fn new(numbering: Numbering) -> Self {
        Self {
            numbering,
            next_seq: 1,
            first_seq: 1,
            whole: Share::default(),
            authors: BTreeMap::new(),
            oldest: BTreeMap::new(),
            changed: BTreeSet::new(),
            few: None,
        }
    }

    /// The account that these rows keep.
    pub(super) fn load(
        head: &[u8],
        authors: impl Iterator<Item = (Did, Vec<u8>)>,
    ) -> Result<Self, CborError> {
        let mut book: Self = from_slice(head)?;
        for (author, share) in authors {
            book.authors.insert(author, from_slice(&share)?);
        }
        Ok(book)
    }

    pub(super) fn head_key(log: &LogId) -> Vec<u8> {
        key(HEAD_ROWS, log, &[])
    }

    pub(super) fn authors_key(log: &LogId) -> Vec<u8> {
        key(AUTHOR_ROWS, log, &[])
    }

    /// The author whose share a row of this name is.
    pub(super) fn author_of(row: &[u8]) -> Option<Did> {
        row.get(33..).and_then(|did| did.try_into().ok()).map(Did)
    }

    /// The rows that changed since last asked; the head is always one.
    pub(super) fn changed_rows(&mut self, log: &LogId) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut rows = vec![(Self::head_key(log), Some(to_vec(&*self)))];
        for author in std::mem::take(&mut self.changed) {
            let share = self.authors.get(&author).map(to_vec);
            rows.push((key(AUTHOR_ROWS, log, &author.0), share));
        }
        rows
    }

    pub(super) fn add(&mut self, entry: &Entry) {
        self.next_seq = self.next_seq.max(entry.seq.saturating_add(1));
        self.first_seq = self.first_seq.min(entry.seq);
        self.whole.add(entry);
        self.authors.entry(entry.author).or_default().add(entry);
        self.changed.insert(entry.author);
        if let Some(oldest) = self.oldest.get_mut(&entry.author) {
            *oldest = entry.seq.min(*oldest);
        }
        if let Some(few) = &mut self.few {
            few.insert(entry.seq, *entry);
        }
    }

    pub(super) fn take(&mut self, entry: &Entry) {
        self.whole.take(entry);
        if let Some(share) = self.authors.get_mut(&entry.author) {
            share.take(entry);
            if share.entries == 0 {
                self.authors.remove(&entry.author);
                self.oldest.remove(&entry.author);
            }
        }
        self.changed.insert(entry.author);
        if let Some(few) = &mut self.few {
            few.remove(&entry.seq);
        }
        if self.whole.entries == 0 {
            self.first_seq = self.next_seq;
        }
    }

    /// Whether an envelope more of this length is too much.
    pub(super) fn is_full(&self, bytes: usize, retention: &Retention) -> bool {
        self.whole.entries >= retention.entries
            || self.whole.bytes.saturating_add(bytes as u64) > retention.bytes
    }

    /// Whether the log has more than is kept of it.
    pub(super) fn is_over(&self, retention: &Retention) -> bool {
        self.whole.entries > retention.entries || self.whole.bytes > retention.bytes
    }

    /// Whose oldest makes room for an author, in a full log that lets go of its oldest: its own once it has its share,
    /// else that of whoever has most of what there is too much of. So who has less than its share loses nothing to others.
    /// A share is the log's bound divided by the authors that have one of their own, and one for all others together.
    pub(super) fn makes_room(
        &self,
        author: &Did,
        retention: &Retention,
        has_share: &dyn Fn(&Did) -> bool,
    ) -> Option<Did> {
        let of_entries = self.whole.entries >= retention.entries;
        let weight = |share: &Share| match of_entries {
            true => share.entries,
            false => share.bytes,
        };
        let (mut shares, mut others) = (0_u64, Share::default());
        let (mut most, mut most_of_others) = (None, None);
        for (author, share) in &self.authors {
            let heaviest = match has_share(author) {
                true => {
                    shares += 1;
                    &mut most
                }
                false => {
                    others.join(share);
                    &mut most_of_others
                }
            };
            if heaviest.is_none_or(|(_, most)| weight(share) > most) {
                *heaviest = Some((*author, weight(share)));
            }
        }
        let own = has_share(author);
        let has = match own {
            true => self.authors.get(author).copied().unwrap_or_default(),
            false => others,
        };
        shares += u64::from(others.entries > 0) + u64::from(has.entries == 0);
        let has_its_share = has.entries.saturating_mul(shares) >= retention.entries
            || has.bytes.saturating_mul(shares) >= retention.bytes;
        let gives = match (has_its_share, own) {
            (true, true) => return self.authors.contains_key(author).then_some(*author),
            (true, false) => most_of_others,
            (false, _) if most.is_none_or(|(_, most)| weight(&others) > most) => most_of_others,
            (false, _) => most,
        };
        gives.map(|(author, _)| author)
    }

    /// Whether the author is a new one that finds no place among those that have no share of their own.
    pub(super) fn has_no_place(&self, author: &Did, has_share: &dyn Fn(&Did) -> bool) -> bool {
        if self.authors.contains_key(author) || has_share(author) {
            return false;
        }
        let others = self.authors.keys().filter(|it| !has_share(it));
        others.count() >= SHARELESS_MAX
    }

    /// From which number on an author's oldest is to be looked for.
    pub(super) fn oldest_from(&self, author: &Did) -> u64 {
        let known = self.oldest.get(author).copied();
        known.unwrap_or_default().max(self.first_seq)
    }

    /// An author has nothing below this number.
    pub(super) fn note_oldest(&mut self, author: Did, seq: u64) {
        self.oldest.insert(author, seq);
    }

    /// Who gives way to a newcomer of this slot and author, in a log that makes room fairly.
    pub(super) fn gives_way(&self, slot: u32, author: &Did) -> Option<Entry> {
        let few = self.few.as_ref()?;
        let slots = |slot: u32| few.values().filter(|it| it.slot == slot).count();
        let authors = |author: &Did| few.values().filter(|it| it.author == *author).count();
        let weight = |slot: u32, author: &Did| {
            let by_author = authors(author);
            let by_slot = if slot == HANDED_ON_SLOT {
                by_author
            } else {
                slots(slot)
            };
            (by_slot, by_author)
        };
        let newcomer = weight(slot, author);
        let heaviest = few
            .values()
            .max_by_key(|it| (weight(it.slot, &it.author), it.stored_ms, it.seq))?;
        let (by_slot, by_author) = weight(heaviest.slot, &heaviest.author);
        let lighter =
            by_slot > newcomer.0 + 1 || (heaviest.slot == slot && by_author > newcomer.1 + 1);
        // What an author has here does not give way to what it brings next, by whichever slot.
        (lighter && heaviest.author != *author).then_some(*heaviest)
    }
}

/// A call makes so much room and no more.
pub(super) fn check_evicted(evicted: usize) -> Result<(), Refusal> {
    if evicted >= EVICTED_PER_CALL {
        return Err(Refusal::Busy);
    }
    Ok(())
}

/// Whether all entries of such a log are kept in its account.
pub(super) fn is_few(retention: &Retention) -> bool {
    retention.full == Full::Fair
}

fn key(kind: u8, log: &LogId, rest: &[u8]) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(&log.0);
    key.extend_from_slice(rest);
    key
}

impl Share {
    fn join(&mut self, other: &Self) {
        self.entries = self.entries.saturating_add(other.entries);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn add(&mut self, entry: &Entry) {
        self.entries = self.entries.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u64::from(entry.bytes));
    }

    fn take(&mut self, entry: &Entry) {
        self.entries = self.entries.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(u64::from(entry.bytes));
    }
}

impl Encode for Share {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).uint(self.entries).uint(self.bytes);
    }
}

impl<'a> Decode<'a> for Share {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        Ok(Self {
            entries: reader.uint()?,
            bytes: reader.uint()?,
        })
    }
}

/// The head: `[numbering host or null, next number, first number, [entries, bytes]]`.
impl Encode for Book {
    fn encode(&self, writer: &mut Writer) {
        let host = match self.numbering {
            Numbering::Own => None,
            Numbering::Of(host) => Some(host),
        };
        writer
            .array(4)
            .value(&host)
            .uint(self.next_seq)
            .uint(self.first_seq)
            .value(&self.whole);
    }
}

impl<'a> Decode<'a> for Book {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        let host: Option<Did> = reader.value()?;
        Ok(Self {
            next_seq: reader.uint()?,
            first_seq: reader.uint()?,
            whole: reader.value()?,
            ..Self::new(host.map_or(Numbering::Own, Numbering::Of))
        })
    }
}
