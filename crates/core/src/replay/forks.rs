//! What is kept so that a fork can be shown to others.
//!
//! The headers of recently admitted transactions are held in memory, so that a fork of one of
//! them is evidenced by both signatures. Signed evidences are records: one a stream, the first,
//! so that a flood of forks writes no more than the log holds, and evicts nothing. Source: protocol
//! decision 2 (fork evidence).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::ids::TransactionDigest;

/// Headers of admitted transactions that are held.
pub const HEADER_RING_CAPACITY: usize = 4_096;

/// The largest header that is held, in bytes.
pub const HEADER_MAX_BYTES: usize = 1_024;

/// Evidences the store keeps.
pub const FORK_LOG_CAPACITY: usize = 128;

/// The headers of the last admitted transactions, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct HeaderRing {
    headers: VecDeque<(TransactionDigest, Vec<u8>)>,
}

impl HeaderRing {
    /// Holds one header, and lets the oldest go where the ring is full.
    pub(super) fn hold(&mut self, digest: TransactionDigest, header: Vec<u8>) {
        if header.len() > HEADER_MAX_BYTES {
            return;
        }
        while self.headers.len() >= HEADER_RING_CAPACITY {
            self.headers.pop_front();
        }
        self.headers.push_back((digest, header));
    }

    /// The header of this digest. Every admission holds one and few are asked for, so they are
    /// not indexed.
    pub(super) fn header(&self, digest: &TransactionDigest) -> Option<Arc<[u8]>> {
        let mut newest_first = self.headers.iter().rev();
        let (_, header) = newest_first.find(|(held, _)| held == digest)?;
        Some(Arc::from(header.as_slice()))
    }

    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }
}
