//! The bounds of a node that its operator sets.

use overlane_core::lane::bounds::NODE_QUEUED_MAX_BYTES;
use overlane_core::lane::chunks::CHUNKS_MAX_BYTES;

use crate::peer::{DISPATCH_QUEUE_MAX_BYTES, LINKS_DEFAULT_MAX, PENDING_SENDS_MAX_BYTES};

/// The bounds of a node that its operator sets. The others are constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Links at once; the other nodes are reached through these.
    pub links_max: usize,
    /// Bytes of sends that are not in a lane yet.
    pub sends_max_bytes: u64,
    /// Bytes of admitted messages of one class that nobody has taken.
    pub dispatch_max_bytes: u64,
    /// Bytes of large messages that are there in part.
    pub chunks_max_bytes: u64,
    /// Bytes in the lanes of all links beyond their reserves.
    pub queued_max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            links_max: LINKS_DEFAULT_MAX,
            sends_max_bytes: PENDING_SENDS_MAX_BYTES,
            dispatch_max_bytes: DISPATCH_QUEUE_MAX_BYTES,
            chunks_max_bytes: CHUNKS_MAX_BYTES,
            queued_max_bytes: NODE_QUEUED_MAX_BYTES,
        }
    }
}
