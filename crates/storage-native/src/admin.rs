//! What an operator may ask of a store while the node is stopped.
//!
//! A store is opened under its lock, so whoever holds a [`StoreAdmin`] knows that no node runs
//! on it. Nothing here destroys a record: clearing moves it aside.

use std::fmt;
use std::path::PathBuf;

use overlane_core::store::{Found, RecordName, RecordStore, StoreError};

use crate::StoreKind;

/// Figures of an open store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSummary {
    /// Which store it is.
    pub kind: StoreKind,
    /// Where it is.
    pub folder: PathBuf,
    /// How many names it holds or has witnessed, bad ones among them.
    pub records: usize,
    /// What counts against the budget.
    pub held_bytes: u64,
    /// The budget.
    pub budget_bytes: u64,
    /// Entries of the folder that are nobody's: left alone, and not counted as records.
    pub foreign_entries: usize,
    /// Records that were cleared and are kept aside; they count against no bound.
    pub cleared_kept: usize,
    /// Leftovers of an earlier process that were removed at open.
    pub leftovers_removed: usize,
}

/// What clearing a record did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleared {
    /// What was found under the name.
    pub found: Found,
    /// Where what was there is kept. It is also the tombstone: it says that the record was
    /// cleared, and stays until an operator removes it.
    pub kept: PathBuf,
}

/// A store that an operator can inspect and mend. [`RecordStore::scan`] lists it.
pub trait StoreAdmin: RecordStore + fmt::Debug {
    /// Figures of the store.
    fn summary(&self) -> StoreSummary;

    /// Reads one record again from the disk.
    ///
    /// # Errors
    /// [`StoreError::UnknownRecord`] when there is none of this name.
    fn show(&mut self, name: RecordName) -> Result<Found, StoreError>;

    /// Moves one record aside and forgets that it was ever made durable: its stream starts
    /// again. What that may replay or lose is the caller's to say before it calls.
    ///
    /// # Errors
    /// [`StoreError::UnknownRecord`] when there is none of this name.
    fn clear(&mut self, name: RecordName) -> Result<Cleared, StoreError>;
}
