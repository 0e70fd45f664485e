//! `overlane replay list | show | verify | clear`, on a browser's store: the same words.
//!
//! Whoever has a store open here is its one owner, so no node runs on it meanwhile. Nothing here
//! destroys a record.

use overlane_core::replay::inspect::{Bound, Figures, RecordLine, Verified, cost, full, indented};
use overlane_core::replay::restored;
use overlane_core::store::{RecordName, StoreError};

use crate::store::WebStore;

/// What clearing a record came to, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clearing {
    /// The record's line, and what it costs to clear it.
    pub cost: String,
    /// The key under which what was there is kept; `None` where nothing was changed.
    pub kept: Option<String>,
}

/// Every record, in one line each.
///
/// # Errors
/// [`StoreError`] when the store cannot be read.
pub async fn list(store: &mut WebStore) -> Result<Vec<RecordLine>, StoreError> {
    let records = store.scan().await?.records.into_iter();
    let line = |(name, found)| RecordLine::of(name, &restored(name, found));
    Ok(records.map(line).collect())
}

/// Everything a record says.
///
/// # Errors
/// [`StoreError::UnknownRecord`] when there is none of this name.
pub async fn show(store: &mut WebStore, name: RecordName) -> Result<String, StoreError> {
    let record = restored(name, store.show(name).await?);
    let line = RecordLine::of(name, &record).in_words();
    Ok(format!("{line}\n{}", indented(&full(name, &record))))
}

/// What of the whole store restores, and what does not.
///
/// # Errors
/// [`StoreError`] when the store cannot be read.
pub async fn verify(store: &mut WebStore) -> Result<Verified, StoreError> {
    let scan = store.scan().await?;
    let summary = store.summary();
    let mut verified = Verified::new(Figures {
        kind: "indexeddb",
        path: summary.path,
        records: summary.records,
        bound: Bound::Records {
            records_max: summary.records_max,
        },
        foreign_entries: summary.foreign_rows,
        cleared_kept: summary.cleared_kept,
    });
    for (name, found) in scan.records {
        verified.count(name, &restored(name, found));
    }
    Ok(verified)
}

/// Says what it costs to let a stream start again, and does it if told so.
///
/// # Errors
/// [`StoreError::UnknownRecord`] when there is no record of this name.
pub async fn clear(
    store: &mut WebStore,
    name: RecordName,
    yes: bool,
) -> Result<Clearing, StoreError> {
    let record = restored(name, store.show(name).await?);
    let line = RecordLine::of(name, &record).in_words();
    let kept = match yes {
        true => Some(store.clear(name).await?.kept),
        false => None,
    };
    Ok(Clearing {
        cost: format!("{line}\n{}", cost(&record)),
        kept,
    })
}
