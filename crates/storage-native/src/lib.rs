//! Durable stores on a native file system.
//!
//! Two record stores implement one contract ([`overlane_core::store::RecordStore`]) and pass one
//! conformance and crash suite: [`files`], one file a record, and [`journal`], the default.
//! [`RefsStore`] keeps the rows of a node's references in an embedded database, [`LogsStore`] logs
//! and mail. What each of them
//! puts on the disk is described in `docs/store-format.md`.

mod admin;
mod database;
#[cfg(any(test, feature = "disk"))]
pub mod disk;
pub mod files;
mod folder;
pub mod journal;
mod logs;
mod mutant;
mod refs;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod vfs;

use std::path::Path;
use std::sync::Arc;

pub use overlane_core::store::RECORD_BYTES_MAX;
use overlane_core::store::StoreError;

pub use admin::{Cleared, StoreAdmin, StoreSummary};
pub use files::{FILES_BUDGET_BYTES, FilesStore};
pub use folder::{StoreKind, kind_of};
pub use journal::{JOURNAL_BUDGET_BYTES, JournalConfig, JournalStore, Pace};
pub use logs::{
    DIRECTORIES_CACHED, FINGERPRINTS_KEPT, LEAF_RECORDS, LOGS_CACHE_BYTES, LOGS_WARMED_BYTES,
    LogIndex, LogsStore, NAME_LEAF_RECORDS,
};
pub use refs::{REFS_CACHE_BYTES, RefsStore};

/// Opens the store of this kind in this folder of the platform's file system, and makes it if
/// the folder has none. The [`StoreAdmin`] it gives an operator is
/// also the `RecordStore` that a node runs on.
///
/// # Errors
/// As [`FilesStore::open`] and [`JournalStore::open`].
pub fn open(
    path: &Path,
    kind: StoreKind,
    budget_bytes: u64,
) -> Result<Box<dyn StoreAdmin>, StoreError> {
    let vfs = Arc::new(vfs::RealVfs);
    Ok(match kind {
        StoreKind::Files => Box::new(FilesStore::open(vfs, path, budget_bytes)?),
        StoreKind::Journal => {
            let config = JournalConfig {
                budget_bytes,
                ..JournalConfig::default()
            };
            Box::new(JournalStore::open(vfs, path, config)?)
        }
    })
}
