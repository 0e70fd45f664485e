//! What is kept of references: the rows of a node's tables, in an embedded database.
//!
//! Law (durable first): `commit` returns when all rows of a step are durable, and a step that it
//! did not return from is whole or absent after the next open. The rows say where each link is
//! (its epoch, what was sent, processed and acknowledged), so that after a restart both ends can
//! tell which of them forgot something, if one did. Source: seed 3, protocol decision 9.

use std::path::Path;
use std::sync::Arc;

use overlane_core::store::StoreError;
use overlane_relay::refs::store::{Row, Store};
use overlane_relay::refs::table::Change;
use redb::{ReadableTable as _, TableDefinition, WriteTransaction};

use crate::database::{Database, Form};
use crate::vfs::{RealVfs, Vfs};

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("references");

const FORM: Form = Form {
    kind: "references",
    rows: 1,
    cache_bytes: REFS_CACHE_BYTES,
    make,
    older: None,
};

/// How much of the file is kept in memory: its rows are read once, at open.
pub const REFS_CACHE_BYTES: usize = 4 * 1024 * 1024;

/// The store of a node's references. One owner at a time; dropping it gives up its lock.
#[derive(Debug)]
pub struct RefsStore(Database);

impl RefsStore {
    /// Opens the store in this folder of the platform's file system, and makes it if the folder
    /// has none.
    ///
    /// # Errors
    /// [`StoreError`]: the folder cannot be written, is held by another process, is another kind
    /// of store or of another program's form, or the file is damaged.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_on(Arc::new(RealVfs), path)
    }

    /// The same behind any door to a disk.
    ///
    /// # Errors
    /// As [`RefsStore::open`].
    pub fn open_on(vfs: Arc<dyn Vfs>, path: &Path) -> Result<Self, StoreError> {
        Database::open(vfs, path, FORM).map(Self)
    }
}

fn make(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(ROWS)?;
    Ok(())
}

impl Store for RefsStore {
    type Error = StoreError;

    fn rows(&mut self) -> Result<Vec<Row>, StoreError> {
        self.0.read(|transaction| {
            let table = transaction.open_table(ROWS)?;
            let rows = table.iter()?.map(|row| {
                let (key, value) = row?;
                Ok((key.value().to_vec(), value.value().to_vec()))
            });
            rows.collect()
        })
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        if changes.is_empty() {
            return self.0.check();
        }
        self.0.write(|transaction| {
            let mut table = transaction.open_table(ROWS)?;
            for Change { key, value } in &changes {
                match value {
                    Some(value) => table.insert(&key[..], &value[..])?,
                    None => table.remove(&key[..])?,
                };
            }
            Ok(())
        })
    }
}
