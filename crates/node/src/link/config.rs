//! How a node's links are made, and their bounds.

use std::num::NonZeroU16;
use std::time::Duration;

use overlane_core::lane::QuotaHint;
use overlane_core::lane::bounds::{FIN_DEADLINE_MS, HANDSHAKE_DEADLINE_MS, NODE_QUEUED_MAX_BYTES};

use super::connection::ConnectionConfig;

/// Peers that a node of the default profile is linked to at once.
pub const PEERS_DEFAULT_MAX: usize = 32;

/// Handshakes under way at once, in each direction.
pub const HANDSHAKES_DEFAULT_MAX: usize = 16;

/// Sockets, and so file descriptors, that links of the default profile hold at most.
pub const SOCKETS_DEFAULT_MAX: usize = PEERS_DEFAULT_MAX + 2 * HANDSHAKES_DEFAULT_MAX;

/// How long a node may take to answer an offer.
pub const SIGNAL_DEADLINE_MS: u64 = 10_000;

/// How long a channel may take nothing.
pub const SEND_DEADLINE_MS: u64 = 10_000;

/// How often a dial is tried, each time with a new offer: about 1 in 20 fails at 2 % loss.
pub const DIAL_ATTEMPTS: u32 = 2;

/// Events of all links that the node has not taken. More wait in their links, under credit.
pub const EVENTS_WAITING_MAX: usize = 256;

/// How long links are let go in order when a node shuts down; then they are cut.
pub const SHUTDOWN_DEADLINE: Duration = Duration::from_millis(FIN_DEADLINE_MS + 1_000);

/// The lowest limit of open files that systems set for a process.
const OPEN_FILES_USUAL_MIN: usize = 256;

const _: () = assert!(
    SOCKETS_DEFAULT_MAX * 2 <= OPEN_FILES_USUAL_MIN,
    "links leave half of the file descriptors to the rest of a node"
);

/// How a node's links are made.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// The connections.
    pub connection: ConnectionConfig,
    /// Peers linked at once.
    pub peers_max: usize,
    /// Bytes in the lanes of all links beyond their reserves.
    pub queued_max_bytes: usize,
    /// Handshakes under way at once, in each direction.
    pub handshakes_max: usize,
    /// How long a node may take to answer an offer.
    pub signal_deadline_ms: u64,
    /// How long a link may take to open once its descriptions are exchanged.
    pub handshake_deadline_ms: u64,
    /// How long a channel may take nothing.
    pub send_deadline_ms: u64,
    /// How long a closing link may take to deliver what is queued.
    pub fin_deadline_ms: u64,
    /// How often a dial is tried.
    pub dial_attempts: u32,
    /// The port that this node takes offers on, told to those that it is linked to; `None` if it takes none.
    pub listens: Option<NonZeroU16>,
    /// The quota that this node keeps for each stream, told to its direct peers.
    pub quota: QuotaHint,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            connection: ConnectionConfig::default(),
            peers_max: PEERS_DEFAULT_MAX,
            queued_max_bytes: NODE_QUEUED_MAX_BYTES,
            handshakes_max: HANDSHAKES_DEFAULT_MAX,
            signal_deadline_ms: SIGNAL_DEADLINE_MS,
            handshake_deadline_ms: HANDSHAKE_DEADLINE_MS,
            send_deadline_ms: SEND_DEADLINE_MS,
            fin_deadline_ms: FIN_DEADLINE_MS,
            dial_attempts: DIAL_ATTEMPTS,
            listens: None,
            quota: QuotaHint::default(),
        }
    }
}

impl LinkConfig {
    pub(super) const fn send_deadline(&self) -> Duration {
        Duration::from_millis(self.send_deadline_ms)
    }

    pub(super) const fn signal_deadline(&self) -> Duration {
        Duration::from_millis(self.signal_deadline_ms)
    }

    pub(super) const fn handshake_deadline(&self) -> Duration {
        Duration::from_millis(self.handshake_deadline_ms)
    }
}
