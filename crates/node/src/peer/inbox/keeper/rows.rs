//! Rows of the keeper's own, beside those of the inboxes: what was taken, and the book.

use std::collections::BTreeSet;

use overlane_core::TransactionDigest;
use overlane_core::mail::MAIL_LIFE_MAX_MS;
use overlane_relay::inbox::{Drain, Inboxes, InboxesError};
use overlane_relay::log::{LogStore, LogsError};

use super::super::book::Book;

/// What was taken, and when. Above the rows of the inboxes.
pub(super) const TAKEN_ROWS: u8 = 0x83;

/// Rows of the book: mail of this node's own that others hold.
pub(super) const BOOK_ROWS: u8 = 0x84;

/// What was taken in earlier lives, for the drain to remember; the rows of what is over.
pub(super) fn read_taken<S: LogStore>(
    inboxes: &mut Inboxes<S>,
    drain: &mut Drain,
    now_ms: u64,
) -> Result<Vec<Vec<u8>>, InboxesError<S::Error>> {
    let rows = inboxes.logs().store().rows(&[TAKEN_ROWS]);
    let rows = rows.map_err(LogsError::Store)?;
    let mut over = Vec::new();
    let mut taken = BTreeSet::new();
    for (name, value) in rows {
        let at_ms = value.as_slice().try_into().map(u64::from_be_bytes).ok();
        let fresh = at_ms.filter(|at_ms| at_ms.saturating_add(MAIL_LIFE_MAX_MS) >= now_ms);
        match (digest_of(&name), fresh) {
            (Some(digest), Some(at_ms)) => drop(taken.insert((at_ms, digest))),
            _ => over.push(name),
        }
    }
    let forgotten = taken
        .into_iter()
        .filter_map(|it| drain.remember_taken(it.1));
    over.extend(forgotten.map(|digest| key(TAKEN_ROWS, digest)));
    Ok(over)
}

pub(super) fn read_book<S: LogStore>(
    inboxes: &mut Inboxes<S>,
) -> Result<Book, InboxesError<S::Error>> {
    let rows = inboxes.logs().store().rows(&[BOOK_ROWS]);
    let mut book = Book::default();
    for (name, row) in rows.map_err(LogsError::Store)? {
        if !digest_of(&name).is_some_and(|digest| book.read(digest, &row)) {
            tracing::warn!(
                "a mail that others hold is known no more: its row in the book does not read"
            );
            inboxes.logs().put_row(name, None);
        }
    }
    Ok(book)
}

pub(super) fn key(kind: u8, digest: TransactionDigest) -> Vec<u8> {
    std::iter::once(kind).chain(digest.0).collect()
}

pub(super) fn digest_of(name: &[u8]) -> Option<TransactionDigest> {
    let digest = name.get(1..)?.try_into().ok()?;
    Some(TransactionDigest(digest))
}
