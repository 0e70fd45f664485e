//! What is kept so that a fork can be shown to others.
//!
//! The headers of recently admitted transactions are held in memory, so that a fork of one of
//! them is evidenced by both signatures. Signed evidences are records: one a stream, the first,
//! so that a flood of forks writes no more than the log holds, and evicts nothing. Source: protocol
//! decision 2 (fork evidence).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::ids::TransactionDigest;

/// Headers of admitted transactions that are held.
pub const HEADER_RING_CAPACITY: usize = 4_096;

/// The largest header that is held, in bytes.
pub const HEADER_MAX_BYTES: usize = 1_024;

/// Evidences the store keeps.
pub const FORK_LOG_CAPACITY: usize = 128;

/// The headers of the last admitted transactions.
#[derive(Debug, Clone, Default)]
pub(super) struct HeaderRing {
    order: VecDeque<TransactionDigest>,
    headers: BTreeMap<TransactionDigest, Arc<[u8]>>,
}

impl HeaderRing {
    /// Holds one header, and lets the oldest go where the ring is full.
    pub(super) fn hold(&mut self, digest: TransactionDigest, header: Vec<u8>) {
        if header.len() > HEADER_MAX_BYTES || self.headers.contains_key(&digest) {
            return;
        }
        while self.order.len() >= HEADER_RING_CAPACITY {
            let oldest = self.order.pop_front();
            oldest.and_then(|oldest| self.headers.remove(&oldest));
        }
        self.order.push_back(digest);
        self.headers.insert(digest, header.into());
    }

    pub(super) fn header(&self, digest: &TransactionDigest) -> Option<Arc<[u8]>> {
        self.headers.get(digest).cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}
