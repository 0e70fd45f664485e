//! What a person may ask of a store while no node runs on it: whoever has it open knows that, since it
//! has one owner. Nothing here destroys a record.

use js_sys::Array;
use overlane_core::store::{Found, RecordName, StoreError};
use wasm_bindgen::JsValue;
use web_sys::IdbObjectStore;

use super::{WebStore, directory_rows};
use crate::idb::{answer, record_key};
use crate::rows::{bad_key, cleared_key};

/// Figures of an open store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSummary {
    /// The name of its database.
    pub path: String,
    /// How many records it holds or has witnessed, bad ones among them.
    pub records: usize,
    /// How many it takes.
    pub records_max: u64,
    /// How many frames wait to be folded into the rows.
    pub frames: u64,
    /// Rows that are nobody's: left alone, and not counted as records.
    pub foreign_rows: usize,
    /// Records that were cleared and are kept aside; they count against no bound.
    pub cleared_kept: usize,
}

/// What clearing a record did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleared {
    /// What was found under the name.
    pub found: Found,
    /// The key under which what was there is kept. It is also the tombstone.
    pub kept: String,
}

impl WebStore {
    /// Figures of the store.
    pub fn summary(&self) -> WebSummary {
        WebSummary {
            path: self.path.clone(),
            records: self.held.len(),
            records_max: self.config.records_max,
            frames: self.frames.end.saturating_sub(self.frames.start),
            foreign_rows: self.foreign_rows,
            cleared_kept: self.cleared_kept,
        }
    }

    /// Reads one record again.
    ///
    /// # Errors
    /// [`StoreError::UnknownRecord`] when there is none of this name.
    pub async fn show(&mut self, name: RecordName) -> Result<Found, StoreError> {
        let scan = self.scan().await?;
        let found = scan.records.into_iter().find(|(of, _)| *of == name);
        found
            .map(|(_, found)| found)
            .ok_or(StoreError::UnknownRecord { name })
    }

    /// Moves one record aside and forgets that it was ever made durable: its stream starts again. What
    /// that may replay or lose is the caller's to say before it calls.
    ///
    /// # Errors
    /// [`StoreError::UnknownRecord`] when there is none of this name.
    pub async fn clear(&mut self, name: RecordName) -> Result<Cleared, StoreError> {
        let found = self.show(name).await?;
        self.opened = None;
        // So that what is moved aside is all that there is of it.
        self.fold().await?;
        let mut directory = self.directory();
        directory.names.remove(&name);
        let number = u64::try_from(self.cleared_kept).unwrap_or(u64::MAX);
        let kept = cleared_key(name, number);
        let kept_key = JsValue::from_str(&kept);
        let (row, bad) = (record_key(name), JsValue::from_str(&bad_key(name)));
        let change = async |store: &IdbObjectStore| {
            let aside = Array::of2(
                &answer(&store.get(&row)?).await?,
                &answer(&store.get(&bad)?).await?,
            );
            // A free key: an earlier clearing is never written over.
            store.add_with_key(&aside, &kept_key)?;
            store.delete(&row)?;
            store.delete(&bad)?;
            for (key, value) in directory_rows(&directory) {
                store.put_with_key(&value, &key)?;
            }
            Ok(())
        };
        self.commit(change).await?;
        self.held.remove(&name);
        self.cleared_kept = self.cleared_kept.saturating_add(1);
        Ok(Cleared { found, kept })
    }
}
