//! Fixed-width fields, big-endian, and the checksums over them.
//!
//! The store's own envelope is of fixed width, and not CBOR as the records in it are, so that
//! a frame can be found in damaged bytes and every field has one place.

use overlane_core::store::RecordName;

use crate::mutant::broken;

pub(super) const NAME_BYTES: usize = 20;
pub(super) const CHECK_BYTES: usize = 16;
pub(super) const HASH_BYTES: usize = 32;

/// The first half of a BLAKE3 hash under a key of its own: notices damage, and tells one kind
/// of content from another.
pub(super) type Check = [u8; CHECK_BYTES];

/// The keys that separate the kinds of content. Each is derived from a context string.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) frame: [u8; 32],
    pub(super) part: [u8; 32],
    pub(super) cell: [u8; 32],
    pub(super) snapshot: [u8; 32],
}

impl Keys {
    pub(super) fn new() -> Self {
        let key = |context| blake3::derive_key(context, b"");
        Self {
            frame: key("overlane journal frame"),
            part: key("overlane journal frame part"),
            cell: key("overlane journal cell"),
            snapshot: key("overlane journal snapshot"),
        }
    }
}

pub(super) fn check(key: &[u8; 32], bytes: &[u8]) -> Check {
    first_half(blake3::keyed_hash(key, bytes))
}

/// The check of a cell or a record's block binds the name it stands under.
pub(super) fn check_named(key: &[u8; 32], name: RecordName, bytes: &[u8]) -> Check {
    let mut hasher = blake3::Hasher::new_keyed(key);
    if !broken!(AnyName) {
        hasher.update(&name.0);
    }
    hasher.update(bytes);
    first_half(hasher.finalize())
}

fn first_half(hash: blake3::Hash) -> Check {
    let mut check = [0; CHECK_BYTES];
    check
        .iter_mut()
        .zip(hash.as_bytes())
        .for_each(|(to, from)| *to = *from);
    check
}

/// Appends fields.
pub(super) trait Put {
    fn u8(&mut self, value: u8);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn raw(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Takes fields off the front. `None` once they run out: damaged bytes are an answer, never a
/// panic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Take<'a>(pub(super) &'a [u8]);

impl<'a> Take<'a> {
    pub(super) fn raw(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn size(&mut self) -> Option<usize> {
        usize::try_from(self.u32()?).ok()
    }

    pub(super) fn name(&mut self) -> Option<RecordName> {
        self.array().map(RecordName)
    }
}
