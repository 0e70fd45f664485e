//! The names of logs and of envelopes.

use overlane_core::group::GroupId;
use overlane_core::wire::cbor::{CborError, Reader};
use overlane_core::{Did, TransactionDigest};
use std::fmt;

pub use overlane_recon::Id as EnvelopeId;

/// Context of the name of an inbox's log.
const INBOX_CONTEXT: &str = "overlane inbox";

/// The name of a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub [u8; 32]);

impl LogId {
    /// The log of a group.
    pub fn group(group: GroupId) -> Self {
        Self(group.0)
    }

    /// The log that the holders of an account's inbox keep.
    pub fn inbox(owner: &Did) -> Self {
        Self(blake3::derive_key(INBOX_CONTEXT, &owner.0))
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, CborError> {
        reader.byte_array().map(Self)
    }
}

/// The content address of an envelope's bytes: BLAKE3 over all of them.
pub fn address(envelope: &[u8]) -> EnvelopeId {
    overlane_recon::Id(*blake3::hash(envelope).as_bytes())
}

/// Mail is named by its transaction's digest: two holders that hold one mail under their own proofs
/// hold the same.
pub(crate) fn mail_id(digest: TransactionDigest) -> EnvelopeId {
    overlane_recon::Id(digest.0)
}

/// The place of an envelope in the space that every holder shares: its first eight bytes, one bit
/// short, as no item stands at the top.
pub fn shared_place(id: &EnvelopeId) -> u64 {
    u64::from_be_bytes(*id.0.first_chunk().unwrap_or(&[0; 8])) >> 1
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogId({self})")
    }
}
