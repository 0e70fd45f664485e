//! Opens the replay store of a home.

use std::path::Path;

use overlane_core::store::StoreError;
use overlane_storage_native::{FILES_BUDGET_BYTES, JOURNAL_BUDGET_BYTES, StoreAdmin, StoreKind};

/// Opens the store in `path`, and makes it if there is none. It is held until dropped.
pub(super) fn open(path: &Path, kind: StoreKind) -> Result<Box<dyn StoreAdmin>, StoreError> {
    let budget_bytes = match kind {
        StoreKind::Files => FILES_BUDGET_BYTES,
        StoreKind::Journal => JOURNAL_BUDGET_BYTES,
    };
    overlane_storage_native::open(path, kind, budget_bytes)
}
