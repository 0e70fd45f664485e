//! What the local API takes and answers: a node at one instant.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::names::ClassName;
use super::{Cause, Identity};

/// A node at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatusReport {
    /// Who it is.
    #[serde(flatten)]
    pub identity: Identity,
    /// Its home folder.
    pub home: String,
    /// Where it takes offers.
    pub url: Option<String>,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// When its current delegation ends, in milliseconds since the Unix epoch.
    pub delegation_ends_ms: u64,
    /// Whether that is renewed by itself: the account's key is here, and not kept elsewhere.
    #[serde(default)]
    pub renews_itself: bool,
    /// Its replay store.
    pub store: StoreReport,
    /// The links, with those that are still on their way.
    pub links: Vec<LinkReport>,
    /// The STUN and TURN servers, and how each fared last.
    #[serde(default)]
    pub ice_servers: Vec<IceServerReport>,
    /// What stands before this node, as those servers see it; `None` where there are none.
    #[serde(default)]
    pub nat: Option<String>,
    /// What the latest connections tried, the latest last.
    #[serde(default)]
    pub attempts: Vec<AttemptReport>,
    /// The nodes it stays linked to.
    pub peers: Vec<PeerReport>,
    /// The nodes that its place in the ring needs, the most needed first.
    #[serde(default)]
    pub neighbours: Vec<NeighbourReport>,
    /// Milliseconds since the ring last confirmed its place by a lookup; `None` until it did.
    #[serde(default)]
    pub place_confirmed_ago_ms: Option<u64>,
    /// Admitted messages that nobody has taken, by class.
    pub queues: Vec<QueueReport>,
    /// Sends not yet in a lane.
    pub pending_sends: usize,
    /// Counts since the start.
    pub counters: BTreeMap<String, u64>,
    /// Refused frames by code.
    pub refused: BTreeMap<String, u64>,
    /// Refused sends by code.
    pub sends_refused: BTreeMap<String, u64>,
    /// Offers of other nodes that were refused, by code.
    pub offers_refused: BTreeMap<String, u64>,
    /// Links that ended before they were open, by code.
    #[serde(default)]
    pub links_not_opened: BTreeMap<String, u64>,
    /// Counts of the replay boundary.
    pub replay: BTreeMap<String, u64>,
    /// What windows said, by class and verdict.
    #[serde(default)]
    pub verdicts: BTreeMap<String, BTreeMap<String, u64>>,
    /// What batches of the replay store came to: `batch_answers` waited for one, `batch_write_us` it took to
    /// write, `durable_wait_us` its first answer waited.
    #[serde(default)]
    pub store_times: BTreeMap<String, DistributionReport>,
    /// Why the store of references failed, if it did: everything about them is refused then.
    #[serde(default)]
    pub references_failed: Option<String>,
    /// What references come to, and counts of them.
    #[serde(default)]
    pub references: BTreeMap<String, u64>,
    /// Why the store of logs failed, if it did: everything about groups is refused then.
    #[serde(default)]
    pub groups_failed: Option<String>,
    /// What groups come to, and counts of them.
    #[serde(default)]
    pub groups: BTreeMap<String, u64>,
    /// Why the store of mail failed, if it did: nothing is held, fetched or taken then.
    #[serde(default)]
    pub mail_failed: Option<String>,
    /// What mail comes to, and counts of it.
    #[serde(default)]
    pub mail: BTreeMap<String, u64>,
    /// Where the local API is answered on TCP; `None` while it is on the Unix socket alone.
    #[serde(default)]
    pub api: Option<String>,
    /// Requests that were refused there, by code.
    #[serde(default)]
    pub api_refused: BTreeMap<String, u64>,
}

/// How values are distributed, since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DistributionReport {
    /// The sum of all values.
    pub sum: u64,
    /// Buckets, ascending.
    pub buckets: Vec<BucketReport>,
}

/// How many values are above the bucket before and within this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BucketReport {
    /// Its end, which is in it; none for the last.
    pub up_to: Option<u64>,
    /// How many.
    pub count: u64,
}

/// A node's replay store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreReport {
    /// Which store it is.
    pub kind: String,
    /// Where it is.
    pub path: String,
    /// `durable`, `failed` or `absent`. Without a durable store nothing is sent or admitted.
    pub state: String,
    /// Why it failed.
    pub error: Option<Cause>,
}

/// One link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkReport {
    /// Its number, never used again in the process.
    pub link: u64,
    /// Who is at its other end.
    pub peer: String,
    /// Whether it is up: messages go over it. One that is still on its way, or ends, is not.
    #[serde(default)]
    pub up: bool,
    /// Its connection slot, once it is up.
    #[serde(default)]
    pub slot: Option<SlotReport>,
    /// The address this node dialled; `None` when the other side did.
    pub dialed_url: Option<String>,
    /// The way it took: `direct`, `direct through a NAT`, `relayed by a TURN server`.
    #[serde(default)]
    pub path: Option<String>,
    /// Whether nothing was heard of the peer for a while: what the link takes may be lost.
    #[serde(default)]
    pub disturbed: bool,
    /// How long the last probe took, there and back.
    pub round_trip_ms: Option<u64>,
    /// How far the peer's clock is ahead of this node's, in milliseconds, from what it showed when it answered this node's
    /// offer; `None` if the peer dialled.
    #[serde(default)]
    pub clock_ahead_ms: Option<i64>,
    /// How many times its windows this node granted the peer, because it is far away.
    pub window_scale: u8,
    /// Delegations sent by reference, references that came to what is not held, and frames that went on
    /// without what they refer to: `sent`, `missed`, `lost`.
    #[serde(default)]
    pub delegation_references: BTreeMap<String, u64>,
    /// Its lanes, in the order of their classes.
    pub lanes: Vec<LaneReport>,
}

/// The place of a link in the accounts of replay protection: streams that it brings are charged to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotReport {
    /// Its number, which is this node's own.
    pub number: u16,
    /// Streams charged to it, with those that links before this one left and that are not spent yet.
    pub streams: usize,
    /// So many it may have whatever others do; beyond, it shares a pool with them.
    pub floor: usize,
}

/// A STUN or TURN server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IceServerReport {
    /// Its address.
    pub url: String,
    /// `works`, `unreachable`, `refused` or `not asked yet`.
    pub state: String,
    /// What is wrong, as a code.
    pub error: Option<String>,
}

/// What one connection tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptReport {
    /// Milliseconds since it came up or ended.
    pub ago_ms: u64,
    /// How it came out.
    pub end: String,
    /// Whether it came up.
    pub connected: bool,
    /// The way it took, as in [`LinkReport`].
    pub path: Option<String>,
    /// The addresses that the peer offered, each tried from every address of this node's.
    pub ways: Vec<WayReport>,
}

/// An address that a peer offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WayReport {
    /// `host`, `nat` or `relay`.
    pub kind: String,
    /// The address.
    pub address: String,
    /// Whether a datagram came from there.
    pub answered: bool,
}

/// One lane of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaneReport {
    /// Its class.
    pub class: ClassName,
    /// Frames that wait to be sent.
    pub queued: usize,
    /// Bytes of them.
    pub queued_bytes: usize,
    /// Messages on their way into the channel's send buffer.
    pub in_flight: usize,
    /// Messages that the peer's window still allows.
    pub credit: u64,
    /// Messages that came and that this node has not taken.
    pub untaken: usize,
    /// Frames sent since the link came up.
    pub sent: u64,
    /// Frames received since then.
    pub received: u64,
}

/// A node to stay linked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeerReport {
    /// Its address.
    pub url: String,
    /// Who answered there last.
    pub did: Option<String>,
    /// `linked`, `dialing` or `waiting`.
    pub state: String,
    /// The way its link took, as in [`LinkReport`]; `via` if it has none and messages go by another
    /// node; `None` if they go nowhere.
    #[serde(default)]
    pub path: Option<String>,
    /// The linked node that messages to it go by.
    #[serde(default)]
    pub via: Option<String>,
    /// Why the last dial failed, until one succeeds.
    pub error: Option<Cause>,
    /// Dials since it was linked last.
    #[serde(default)]
    pub dials: u32,
    /// Milliseconds until the next dial, while it is waited for.
    #[serde(default)]
    pub next_dial_ms: Option<u64>,
}

/// A node that this one's place in the ring needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NeighbourReport {
    /// The node.
    pub did: String,
    /// `successor`, `predecessor` or `finger`.
    pub role: String,
    /// `direct`, `via` another node, or `none`.
    pub link: String,
    /// The way its link took, as in [`LinkReport`].
    #[serde(default)]
    pub path: Option<String>,
    /// The linked node that messages to it go by.
    pub via: Option<String>,
    /// Why there is no direct link, as a code.
    pub error: Option<String>,
}

/// One class's queue of admitted messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueReport {
    /// The class.
    pub class: ClassName,
    /// Places held now.
    pub held: usize,
    /// The most places held at once.
    pub high_water: usize,
}
