//! The fingerprint of a range: one BLAKE3 over a label, the count and the range's records.
//!
//! Law kept here: *exact preimage*. `"weald negentropy fingerprint v1" || u64be(count) || records`, the count inside,
//! so that no two different sets collide by construction. Source: seed 4, "The fingerprint".

use core::ops::Range;

use crate::item::{Fingerprint, RECORD_BYTES, Record};
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
    // The buffer is cleared for each range, so a small range gets a small one.
    match HEADER_BYTES + range.len() * RECORD_BYTES {
        0..=1024 => staged::<S, 1024>(storage, range),
        1025..=2048 => staged::<S, 2048>(storage, range),
        _ => staged::<S, STAGE_BYTES>(storage, range),
    }
}

/// A hasher that has taken the header of `count` records.
pub(crate) fn begin(count: usize) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header(count));
    hasher
}

/// Sixteen chunks: what the widest vector unit hashes at once.
const STAGE_BYTES: usize = 16 * blake3::CHUNK_LEN;

fn header(count: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let source = LABEL.iter().copied().chain((count as u64).to_be_bytes());
    header
        .iter_mut()
        .zip(source)
        .for_each(|(to, from)| *to = from);
    header
}

/// Hashes a range through a buffer that keeps every update but the last on a multiple of its size: the header would
/// else shift all records off the edges at which BLAKE3 hashes many chunks at once.
fn staged<S: Storage + ?Sized, const N: usize>(
    storage: &mut S,
    range: Range<usize>,
) -> Result<Fingerprint, S::Error> {
    let mut stage = Stage {
        buffer: [0_u8; N],
        filled: 0,
        hasher: None,
    };
    stage.take(&header(range.len()));
    storage.visit(range, &mut |records| stage.take(records.as_flattened()))?;
    Ok(stage.finish())
}

struct Stage<const N: usize> {
    buffer: [u8; N],
    filled: usize,
    /// Made when the buffer first overflows: what fits is hashed in one call.
    hasher: Option<blake3::Hasher>,
}

impl<const N: usize> Stage<N> {
    fn take(&mut self, mut bytes: &[u8]) {
        while self.filled + bytes.len() > N {
            if self.filled == 0 {
                let whole = bytes.len() - bytes.len() % N;
                let (now, later) = bytes.split_at_checked(whole).unwrap_or((bytes, &[]));
                self.hasher.get_or_insert_default().update(now);
                bytes = later;
                break;
            }
            let (now, later) = bytes
                .split_at_checked(N - self.filled)
                .unwrap_or((bytes, &[]));
            self.fill(now);
            self.hasher.get_or_insert_default().update(&self.buffer);
            self.filled = 0;
            bytes = later;
        }
        self.fill(bytes);
    }

    fn fill(&mut self, bytes: &[u8]) {
        if let Some(room) = self.buffer.get_mut(self.filled..self.filled + bytes.len()) {
            room.copy_from_slice(bytes);
            self.filled += bytes.len();
        }
    }

    fn finish(self) -> Fingerprint {
        let rest = self.buffer.get(..self.filled).unwrap_or_default();
        let hash = match self.hasher {
            None => blake3::hash(rest),
            Some(mut hasher) => hasher.update(rest).finalize(),
        };
        Fingerprint(*hash.as_bytes())
    }
}
