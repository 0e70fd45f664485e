//! Durable record stores on a native file system.
//!
//! Two stores implement one contract ([`overlane_core::store::RecordStore`]) and pass one
//! conformance and crash suite: [`files`], one file a record, and [`journal`], the default. What each of
//! them puts on the disk is described to the byte in `docs/store-format.md`.

mod admin;
pub mod files;
mod folder;
pub mod journal;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod vfs;

pub use admin::{Cleared, StoreAdmin, StoreSummary};
pub use files::{FILES_BUDGET_BYTES, FilesStore};
pub use journal::{JOURNAL_BUDGET_BYTES, JournalConfig, JournalStore, Pace};
pub use folder::{StoreKind, kind_of};

/// The longest record a store takes: room for the longest replay record (5,089 bytes, seed 1)
/// twelve times over, and short enough that one damaged length makes nothing read without end.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;
