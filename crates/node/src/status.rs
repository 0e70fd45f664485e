//! What a node says of itself.

use std::collections::BTreeMap;

use overlane_core::store::StoreError;
use overlane_core::{Class, Did, NetworkId, replay};

use crate::link::LinkId;
use crate::link::ice::IceServerState;
use crate::link::tried::{Attempt, Nat};
use crate::peer::{Counters, Peer, SlotUse};
use crate::store_times::StoreTimes;

/// A node at one instant.
#[derive(Debug, Clone)]
pub struct Status {
    /// The account's place.
    pub did: Did,
    /// The network.
    pub network: NetworkId,
    /// Where this node takes offers; `None` when it takes none.
    pub url: Option<String>,
    /// Milliseconds since the node started.
    pub uptime_ms: u64,
    /// The record store.
    pub store: StoreStatus,
    /// When the current delegation ends, in milliseconds since the Unix epoch.
    pub delegation_ends_ms: u64,
    /// Whether that is renewed by itself: the account's key is here, and not kept elsewhere.
    pub renews_itself: bool,
    /// The admitted links, in the order they came up.
    pub links: Vec<(LinkId, Did)>,
    /// The connection slot of each of them.
    pub slots: BTreeMap<LinkId, SlotUse>,
    /// The STUN and TURN servers by their URLs, and how each fared last.
    pub ice_servers: Vec<(String, IceServerState)>,
    /// What stands before this node, as those servers see it.
    pub nat: Nat,
    /// What the latest connections tried, and how they came out.
    pub attempts: Vec<Attempt>,
    /// The peers this node keeps a link to.
    pub peers: Vec<PeerStatus>,
    /// Those of them without a link that messages reach all the same, and the linked peer these go by.
    pub peers_via: BTreeMap<Did, Did>,
    /// The nodes that its place in the ring needs, the most needed first.
    pub neighbours: Vec<NeighbourStatus>,
    /// Milliseconds since a lookup by way of another node last confirmed this node's place; `None` until
    /// one did.
    pub place_confirmed_ago_ms: Option<u64>,
    /// The queues, class by class.
    pub queues: Vec<QueueStatus>,
    /// Sends not yet in a lane.
    pub pending_sends: usize,
    /// Counts since the start.
    pub counters: Counters,
    /// Offers of other nodes that were refused since the start, by code.
    pub offers_refused: BTreeMap<&'static str, u64>,
    /// Links that ended before they were open since the start, by code.
    pub links_not_opened: BTreeMap<&'static str, u64>,
    /// What the replay engine counted since the start: verdicts, refusals, batches.
    pub replay: replay::Counters,
    /// What windows said since the start, by class and verdict.
    pub verdicts: Vec<(Class, &'static str, u64)>,
    /// What batches of the replay store came to.
    pub store_times: StoreTimes,
    /// Every bound of replay protection, and those that the operator sets: how full it is, and has
    /// been.
    pub bounds: Vec<replay::Bound>,
}

/// A node that this one's place in the ring needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourStatus {
    /// The node.
    pub did: Did,
    /// What for.
    pub role: Role,
    /// The linked peer that messages to it go by: itself where it is linked.
    pub next_hop: Option<Did>,
    /// Why it is not linked, as a code.
    pub error: Option<&'static str>,
}

/// What a node is to another in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// One of the nearest after it.
    Successor,
    /// The nearest before it.
    Predecessor,
    /// The first at a power of two ahead.
    Finger,
}

/// The record store of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreStatus {
    /// None was given: every send and every admission is refused.
    Absent,
    /// What is written is durable.
    Durable,
    /// It failed: every send and every admission is refused until a restart.
    Failed(StoreError),
}

impl StoreStatus {
    pub(crate) fn of(peer: &Peer) -> Self {
        match (peer.has_store(), peer.engine().failure()) {
            (false, _) => Self::Absent,
            (true, None) => Self::Durable,
            (true, Some(error)) => Self::Failed(error.clone()),
        }
    }
}

/// A peer that a node keeps a link to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerStatus {
    /// Its URL.
    pub url: String,
    /// Who answered there last.
    pub did: Option<Did>,
    /// How the link is.
    pub state: PeerState,
    /// Why the last dial failed, as a code and in words, until one succeeds.
    pub last_error: Option<(&'static str, String)>,
    /// Dials since it was linked last.
    pub dials: u32,
    /// Milliseconds until the next dial, while it is waited for.
    pub next_dial_ms: Option<u64>,
}

/// How the link to a configured peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// Being dialled.
    Dialing,
    /// Linked.
    Linked,
    /// Not linked; the next dial comes by itself.
    Waiting,
}

/// One class's queue of admitted messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStatus {
    /// The class.
    pub class: Class,
    /// Places held now.
    pub held: usize,
    /// The most places held at once.
    pub high_water: usize,
}
