//! What the worlds admit.

use crate::ids::{Class, Did, NetworkId, StreamKey, TransactionDigest};
use crate::replay::outcome::Candidate;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Item {
    pub(super) stream: StreamKey,
    pub(super) sequence: u64,
    pub(super) tag: u8,
    pub(super) issued_ms: u64,
    pub(super) last_ms: u64,
}

pub(super) fn stream(origin: u8, class: Class) -> StreamKey {
    StreamKey {
        network: NetworkId(1),
        origin: Did([origin; 20]),
        destination: Did([0xbb; 20]),
        class,
    }
}

impl Candidate for Item {
    fn stream(&self) -> StreamKey {
        self.stream
    }
    fn sequence(&self) -> u64 {
        self.sequence
    }
    fn digest(&self) -> TransactionDigest {
        TransactionDigest([self.tag; 32])
    }
    fn data_bytes(&self) -> u64 {
        1
    }
    fn issued_ms(&self) -> u64 {
        self.issued_ms
    }
    fn last_ms(&self) -> u64 {
        self.last_ms
    }
    fn namespace(&self) -> Option<&str> {
        None
    }
    fn signed_header(&self) -> Vec<u8> {
        Vec::new()
    }
}
