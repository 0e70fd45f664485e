//! The order in which a step becomes durable and is told.
//!
//! Law (durable first): nothing that came of a change is seen outside before the change is durable.
//! A change runs on the tables, its rows are committed, and only then is its result handed out. If
//! the store fails, the result is lost with it, and nothing more is done until the tables are opened
//! again from what was kept: a frame was then neither processed nor acknowledged, and comes again.
//! Source: seed 3, protocol decision 9.

use super::limits::Limits;
use super::table::{Change, LoadError, Tables};
use overlane_core::{Coded, Fault};

/// A row: its name and its bytes.
pub type Row = (Vec<u8>, Vec<u8>);

/// Rows by their names.
pub trait Store {
    /// Why it failed.
    type Error;

    /// All rows, in any order.
    ///
    /// # Errors
    /// They cannot be read.
    fn rows(&mut self) -> Result<Vec<Row>, Self::Error>;

    /// Makes all of these changes durable, or none of them.
    ///
    /// # Errors
    /// It is not known whether they are durable.
    fn commit(&mut self, changes: Vec<Change>) -> Result<(), Self::Error>;
}

/// Tables that a store follows.
#[derive(Debug)]
pub struct DurableTables<S> {
    tables: Tables,
    store: S,
    failed: bool,
}

/// Why the tables could not be opened, or a change is not known to be durable.
#[derive(Debug, thiserror::Error)]
pub enum StoreError<E> {
    /// The store failed.
    #[error("the store of references failed: {0}")]
    Store(E),
    /// What was kept are no tables.
    #[error("the store of references cannot be trusted: {0}")]
    Load(LoadError),
    /// The store failed before.
    #[error("the store of references failed before; open it again")]
    Closed,
}

impl<E> Coded for StoreError<E> {
    fn code(&self) -> &'static str {
        match self {
            Self::Store(_) => "refs/store_failed",
            Self::Load(_) => "refs/store_corrupt",
            Self::Closed => "refs/store_closed",
        }
    }

    fn fault(&self) -> Fault {
        Fault::StoreFailedClosed
    }
}

impl<S: Store> DurableTables<S> {
    /// The tables that `store` kept, or empty ones. No link is connected to begin with.
    ///
    /// # Errors
    /// The store fails, or its rows are no tables.
    pub fn open(mut store: S, limits: Limits) -> Result<Self, StoreError<S::Error>> {
        let rows = store.rows().map_err(StoreError::Store)?;
        let rows = rows.iter().map(|(key, value)| (&key[..], &value[..]));
        let mut tables = Tables::load(limits, rows).map_err(StoreError::Load)?;
        let links: Vec<_> = tables.links().collect();
        for link in links {
            tables.handle_disconnected(link);
        }
        Ok(Self {
            tables,
            store,
            failed: false,
        })
    }

    /// The tables as they are.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Changes the tables, and hands out what came of it when that is durable.
    ///
    /// # Errors
    /// The store fails now, or failed before. Nothing may be sent or told then.
    pub fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Tables) -> T,
    ) -> Result<T, StoreError<S::Error>> {
        if self.failed {
            return Err(StoreError::Closed);
        }
        let result = change(&mut self.tables);
        let changes = self.tables.take_changes();
        if !changes.is_empty()
            && let Err(error) = self.store.commit(changes)
        {
            self.failed = true;
            return Err(StoreError::Store(error));
        }
        Ok(result)
    }

    /// The store, to open it again.
    pub fn into_store(self) -> S {
        self.store
    }
}
