//! The encoder: writes into one buffer, ids straight from the set into their place.

use alloc::vec::Vec;

use super::cbor::{self, ARRAY, UINT};
use crate::bounds::VERSION;

const SKIP: u64 = 0;
const FINGERPRINT: u64 = 1;
const IDS: u64 = 2;

/// Bytes of an id in a list: `58 20` and the id.
pub(super) const ENTRY_BYTES: usize = 34;

pub(crate) struct Encoder {
    out: Vec<u8>,
}

/// Where the ids of a list are written.
pub(crate) struct Entries<'a> {
    out: &'a mut Vec<u8>,
}

impl Entries<'_> {
    pub(crate) fn add(&mut self, id: &[u8; 32]) {
        cbor::put_bytes(self.out, id);
    }
}

impl Encoder {
    /// Starts a message of `ranges` ranges. `bytes` is a hint for the buffer.
    pub(crate) fn new(ranges: usize, bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes);
        cbor::put_head(&mut out, ARRAY, 2);
        cbor::put_head(&mut out, UINT, VERSION);
        cbor::put_head(&mut out, ARRAY, ranges as u64);
        Self { out }
    }

    pub(crate) fn skip(&mut self, upper: u64) {
        self.range(upper, SKIP);
        cbor::put_null(&mut self.out);
    }

    pub(crate) fn fingerprint(&mut self, upper: u64, bytes: &[u8; 32]) {
        self.range(upper, FINGERPRINT);
        cbor::put_bytes(&mut self.out, bytes);
    }

    /// An id list of `count` ids. `write` appends the entries, each `58 20` and an id, ascending.
    pub(crate) fn ids(&mut self, upper: u64, count: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.range(upper, IDS);
        cbor::put_head(&mut self.out, ARRAY, count as u64);
        write(&mut self.out);
    }

    /// An id list of about `count` ids, given in any order and written where they will stay. A span is ordered by seq
    /// and may hold one id at two seqs; its list ascends by id and names each once.
    pub(crate) fn ids_in_any_order<E>(
        &mut self,
        upper: u64,
        count: usize,
        write: impl FnOnce(&mut Entries<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.out.len();
        self.range(upper, IDS);
        cbor::put_head(&mut self.out, ARRAY, count as u64);
        let first = self.out.len();
        write(&mut Entries { out: &mut self.out })?;
        let tail = self.out.get_mut(first..).unwrap_or_default();
        let (entries, _) = tail.as_chunks_mut::<ENTRY_BYTES>();
        entries.sort_unstable();
        let given = entries.len();
        if given == count && entries.is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        // Rare: the head counted an id twice, so the list is written again without it.
        let mut distinct = entries.to_vec();
        distinct.dedup();
        self.out.truncate(start);
        self.ids(upper, distinct.len(), |out| {
            out.extend_from_slice(distinct.as_flattened());
        });
        Ok(())
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }

    fn range(&mut self, upper: u64, mode: u64) {
        cbor::put_head(&mut self.out, ARRAY, 3);
        cbor::put_head(&mut self.out, UINT, upper);
        cbor::put_head(&mut self.out, UINT, mode);
    }
}

/// Bytes a skip range takes.
pub(crate) fn skip_bytes(upper: u64) -> usize {
    3 + cbor::head_bytes(upper)
}

/// Bytes a fingerprint range takes.
pub(crate) fn fingerprint_bytes(upper: u64) -> usize {
    2 + cbor::head_bytes(upper) + 34
}

/// Bytes an id list range takes.
pub(crate) fn ids_bytes(upper: u64, count: usize) -> usize {
    2 + cbor::head_bytes(upper) + cbor::head_bytes(count as u64) + 34 * count
}
