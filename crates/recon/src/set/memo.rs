//! Fingerprints of ranges that were hashed before: a table of fixed size, one slot per key.

use alloc::vec::Vec;

use crate::item::{Fingerprint, Record};

/// Ranges of fewer records are hashed anew: cheaper than a slot.
pub(super) const MEMO_RANGE_RECORDS: usize = 64;

/// Most slots, reached when the set holds [`RECORDS_PER_SLOT`] times as many records.
const SLOTS_MAX: usize = 16_384;
const SLOTS_MIN: usize = 64;
const RECORDS_PER_SLOT: usize = 64;

#[derive(Clone, Copy)]
struct Entry {
    /// The range's first record, and how many follow: with unchanged leaves between, that is the range.
    first: Record,
    count: usize,
    made: u64,
    fingerprint: Fingerprint,
}

/// Law kept here: *no stale answer*. An entry is used only if no leaf of its range changed since it was made.
#[derive(Clone, Default)]
pub(super) struct Memo {
    slots: Vec<Option<Entry>>,
}

impl Memo {
    /// The fingerprint kept for a range, if `fresh(made)` says that nothing in the range changed since.
    pub(super) fn find(
        &self,
        first: &Record,
        count: usize,
        fresh: impl FnOnce(u64) -> bool,
    ) -> Option<Fingerprint> {
        let entry = self.slots.get(self.slot(first, count))?.as_ref()?;
        (entry.first == *first && entry.count == count && fresh(entry.made))
            .then_some(entry.fingerprint)
    }

    pub(super) fn keep(
        &mut self,
        first: &Record,
        count: usize,
        made: u64,
        fingerprint: Fingerprint,
        set_records: usize,
    ) {
        self.grow_for(set_records);
        let slot = self.slot(first, count);
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = Some(Entry {
                first: *first,
                count,
                made,
                fingerprint,
            });
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Entry>>()
    }

    fn grow_for(&mut self, set_records: usize) {
        let due = (set_records / RECORDS_PER_SLOT)
            .clamp(SLOTS_MIN, SLOTS_MAX)
            .next_power_of_two();
        if due <= self.slots.len() {
            return;
        }
        let mut slots = Vec::new();
        slots.resize(due, None);
        let old = core::mem::replace(&mut self.slots, slots);
        for entry in old.into_iter().flatten() {
            let slot = self.slot(&entry.first, entry.count);
            if let Some(slot) = self.slots.get_mut(slot) {
                *slot = Some(entry);
            }
        }
    }

    /// A fixed mix of the key: the table's place, never its truth.
    fn slot(&self, first: &Record, count: usize) -> usize {
        let words = first.as_chunks::<8>().0.iter();
        let mixed = words.fold(count as u64, |mixed, word| {
            (mixed.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let mask = self.slots.len().saturating_sub(1) as u64;
        usize::try_from((mixed >> 32) & mask).unwrap_or(0)
    }
}
