//! Staging: a batch is checked and encoded before anything of it is written, so that a refusal
//! leaves the store as it was.
//!
//! What a batch needs stands in buffers that the next one uses again: an admission of a known
//! stream allocates nothing here.

use std::sync::Arc;

use overlane_core::store::{Change, Effect, Image, RecordName, Step, StoreError};

use super::cell::CellKind;
use super::table::{Place, Row, Table, counted};

/// What the buffers keep from one batch to the next.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// A batch, encoded.
#[derive(Debug, Default)]
pub(super) struct Stage {
    list: Vec<Staged>,
    bytes: Vec<u8>,
}

/// One change, encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staged {
    pub(super) name: RecordName,
    pub(super) kind: CellKind,
    pub(super) old: u64,
    pub(super) new: u64,
    pub(super) bytes_bound: u64,
    /// Where the table has it, if it does.
    pub(super) row: Option<Row>,
    /// Its place in the batch.
    change: usize,
    /// What the record counts now.
    counted: u64,
    /// Where its bytes begin and end.
    start: usize,
    end: usize,
}

impl Stage {
    /// Checks and encodes a batch.
    ///
    /// # Errors
    /// [`StoreError::BadRecord`], [`StoreError::RecordTooLarge`] for more than `bytes_max`
    /// bytes, and [`StoreError::BudgetExhausted`].
    pub(super) fn fill(
        &mut self,
        batch: &[Change],
        table: &mut Table,
        bytes_max: usize,
    ) -> Result<(), StoreError> {
        self.list.clear();
        self.list.shrink_to(KEPT_BYTES_MAX / size_of::<Staged>());
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        // All lookups first: those that wait for memory wait together.
        for (change, Change { name, .. }) in batch.iter().enumerate() {
            self.list.push(look_up(*name, change, table)?);
        }
        for (staged, change) in self.list.iter_mut().zip(batch) {
            if let Effect::Write(image) = &change.effect {
                encode(staged, image.as_ref(), &mut self.bytes, bytes_max)?;
            }
        }
        // A batch that takes several frames removes in the last of them (law removals-last).
        if self.list.iter().any(Staged::removes) {
            self.list.sort_by_key(Staged::removes);
        }
        self.check_budget(batch, table)
    }

    pub(super) fn list(&self) -> &[Staged] {
        &self.list
    }

    pub(super) fn bytes(&self, staged: &Staged) -> &[u8] {
        self.bytes.get(staged.start..staged.end).unwrap_or_default()
    }

    fn check_budget(&self, batch: &[Change], table: &mut Table) -> Result<(), StoreError> {
        let sum =
            |count: fn(&Staged) -> u64| self.list.iter().map(count).fold(0, u64::saturating_add);
        let (leaving, coming) = (sum(|staged| staged.counted), sum(Staged::counted_new));
        if table.fits(leaving, coming) {
            return Ok(());
        }
        // Deltas were counted as if each only added.
        let change: Vec<_> = self
            .list
            .iter()
            .map(|staged| {
                let image = staged.image(batch);
                (staged.name, image.map(|image| image.whole().len() as u64))
            })
            .collect();
        table.check_exactly(&change)
    }
}

impl Staged {
    pub(super) const fn removes(&self) -> bool {
        matches!(self.kind, CellKind::Remove)
    }

    /// The record's new value; `None` for a removal.
    pub(super) fn image<'a>(&self, batch: &'a [Change]) -> Option<&'a Arc<dyn Image>> {
        match &batch.get(self.change)?.effect {
            Effect::Write(image) => Some(image),
            Effect::Remove => None,
        }
    }

    const fn counted_new(&self) -> u64 {
        match self.kind {
            CellKind::Remove => 0,
            _ => counted(self.bytes_bound),
        }
    }
}

fn look_up(name: RecordName, change: usize, table: &Table) -> Result<Staged, StoreError> {
    let row = table.row(name);
    let entry = row.and_then(|row| table.entry_at(row));
    if matches!(entry, Some(entry) if matches!(entry.place, Place::Bad(_))) {
        return Err(StoreError::BadRecord { name });
    }
    let bytes_bound = entry.map(|entry| entry.bytes_bound);
    Ok(Staged {
        name,
        kind: CellKind::Remove,
        old: entry.map_or(0, |entry| entry.version),
        new: 0,
        bytes_bound: bytes_bound.unwrap_or(0),
        row,
        change,
        counted: bytes_bound.map_or(0, counted),
        start: 0,
        end: 0,
    })
}

/// Appends the change as a delta to the value that the store has, or else the whole record.
fn encode(
    staged: &mut Staged,
    image: &dyn Image,
    into: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<(), StoreError> {
    staged.start = into.len();
    let step = staged.row.and_then(|_| image.delta_into(into));
    match step.filter(|step| step.from == staged.old) {
        Some(Step { to, .. }) => {
            staged.kind = CellKind::Delta;
            staged.new = to;
        }
        None => {
            into.truncate(staged.start);
            into.extend_from_slice(&image.whole());
            staged.kind = CellKind::Whole;
            staged.new = image.version();
            staged.bytes_bound = 0;
        }
    }
    staged.end = into.len();
    let bytes = staged.end.saturating_sub(staged.start);
    staged.bytes_bound = staged.bytes_bound.saturating_add(bytes as u64);
    if bytes > bytes_max {
        return Err(StoreError::RecordTooLarge {
            name: staged.name,
            bytes,
            bytes_max,
        });
    }
    Ok(())
}
