//! A cell: what one frame says about one record.

use overlane_core::store::RecordName;

use super::fields::{CHECK_BYTES, Keys, Put, Take, check, check_named};
use crate::mutant::broken;

/// `kind, old version, new version, length` before the bytes, the check behind them.
pub(super) const CELL_OVERHEAD_BYTES: usize = 1 + 8 + 8 + 4 + CHECK_BYTES;

/// What one frame says about one record. Its bytes are the whole record, or a delta to the
/// value of the old version, or the reason why it is bad; nothing for a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) kind: CellKind,
    pub(super) old: u64,
    pub(super) new: u64,
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum CellKind {
    /// The record takes this value.
    Whole = 0,
    /// The record's value changes by this.
    Delta = 1,
    /// The record leaves the store.
    Remove = 2,
    /// The record is kept as bad until an operator clears it.
    Bad = 3,
    /// An operator cleared the record: the tombstone.
    Clear = 4,
}

impl CellKind {
    fn from_index(index: u8) -> Option<Self> {
        [
            Self::Whole,
            Self::Delta,
            Self::Remove,
            Self::Bad,
            Self::Clear,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == index)
    }
}

impl Cell {
    /// The cell that fills exactly these bytes under this name; `None` when they are damaged.
    pub(super) fn take(keys: &Keys, name: RecordName, bytes: &[u8]) -> Option<Self> {
        let (sealed, check) = bytes.split_last_chunk::<CHECK_BYTES>()?;
        if check_named(&keys.cell, name, sealed) != *check {
            return None;
        }
        let mut fields = Take(sealed);
        let kind = CellKind::from_index(fields.u8()?)?;
        let old = fields.u64()?;
        let new = fields.u64()?;
        let length = fields.size()?;
        (fields.0.len() == length).then(|| Self {
            kind,
            old,
            new,
            bytes: fields.0.to_vec(),
        })
    }
}

/// Makes cells one after the other. The check of a cell hashes the name it stands under before it,
/// and is cheapest over bytes that lie together: they are brought together here.
#[derive(Debug, Default)]
pub(super) struct CellMaker {
    named: Vec<u8>,
}

impl CellMaker {
    /// Appends a cell without making a [`Cell`].
    pub(super) fn put(
        &mut self,
        keys: &Keys,
        name: RecordName,
        (kind, old, new): (CellKind, u64, u64),
        bytes: &[u8],
        into: &mut Vec<u8>,
    ) {
        let named = &mut self.named;
        named.clear();
        if !broken!(AnyName) {
            named.raw(&name.0);
        }
        let start = named.len();
        named.u8(kind as u8);
        named.u64(old);
        named.u64(new);
        // Bounded by `RECORD_BYTES_MAX` before it comes here.
        named.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        named.raw(bytes);
        into.raw(named.get(start..).unwrap_or_default());
        into.raw(&check(&keys.cell, named));
    }
}
