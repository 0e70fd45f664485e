//! The fingerprint of a range: one BLAKE3 over a label, the count and the range's records.
//!
//! Law kept here: *exact preimage*. `"weald negentropy fingerprint v1" || u64be(count) || records`, the count inside,
//! so that no two different sets collide by construction. Source: seed 4, "The fingerprint".

use core::ops::Range;

use crate::item::{Fingerprint, Record};
use crate::storage::Storage;

/// The 31 bytes every fingerprint's preimage starts with.
pub const LABEL: &[u8; 31] = b"weald negentropy fingerprint v1";

/// Bytes before the first record: the label and the count.
pub(crate) const HEADER_BYTES: usize = LABEL.len() + 8;

/// The fingerprint of the records, given in order. They must be distinct and ascending.
#[must_use]
pub fn of_records(records: &[Record]) -> Fingerprint {
    let mut hasher = begin(records.len());
    hasher.update(records.as_flattened());
    Fingerprint(*hasher.finalize().as_bytes())
}

/// The fingerprint of a range, reading every record of it once.
pub fn of_range<S: Storage + ?Sized>(
    storage: &mut S,
    range: Range<usize>,
) -> Result<Fingerprint, S::Error> {
    let mut hasher = begin(range.len());
    storage.visit(range, &mut |records| {
        hasher.update(records.as_flattened());
    })?;
    Ok(Fingerprint(*hasher.finalize().as_bytes()))
}

/// A hasher that has taken the header of `count` records.
pub(crate) fn begin(count: usize) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(LABEL);
    hasher.update(&(count as u64).to_be_bytes());
    hasher
}
