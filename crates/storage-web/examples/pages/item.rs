//! What the pages admit in place of a verified payload.

use overlane_core::replay::Candidate;
use overlane_core::{Class, Did, NetworkId, StreamKey, TransactionDigest};
use overlane_storage_web::now;

#[derive(Debug)]
pub(crate) struct Item {
    stream: StreamKey,
    sequence: u64,
    tag: u8,
}

impl Item {
    /// A transaction of origin number `origin`; `tag` makes the digest.
    pub(crate) fn new(origin: u32, sequence: u64, tag: u8) -> Self {
        let mut did = [0xaa; 20];
        for (to, from) in did.iter_mut().zip(origin.to_be_bytes()) {
            *to = from;
        }
        let stream = StreamKey {
            network: NetworkId(1),
            origin: Did(did),
            destination: Did([0xbb; 20]),
            class: Class::Application,
        };
        Self {
            stream,
            sequence,
            tag,
        }
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
        let mut digest = [self.tag; 32];
        for (to, from) in digest.iter_mut().zip(self.sequence.to_be_bytes()) {
            *to = from;
        }
        TransactionDigest(digest)
    }
    fn data_bytes(&self) -> u64 {
        100
    }
    fn issued_ms(&self) -> u64 {
        now().wall_ms
    }
    fn last_ms(&self) -> u64 {
        now().wall_ms.saturating_add(600_000)
    }
    fn namespace(&self) -> Option<&str> {
        None
    }
    fn signed_header(&self) -> Vec<u8> {
        self.digest().0.to_vec()
    }
}
