//! What the local API takes and answers. Dids, digests and signed bytes are hexadecimal; a
//! stream is written `network:origin>destination/class`.

mod events;
mod sends;
mod status;

use overlane_core::NetworkId;
use overlane_core::identity::AccountKey;
use overlane_core::replay::Bound;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::home::Backup;

use super::names::FaultName;

pub use events::{EventLine, TakeRequest, TakenMessage};
pub use sends::{
    OfferAgainRequest, SendOutcome, SendReceipt, SendRequest, UploadLine, UploadRequest,
};
pub use status::{
    AttemptReport, BucketReport, DistributionReport, IceServerReport, LaneReport, LinkReport,
    NeighbourReport, PeerReport, QueueReport, SlotReport, StatusReport, StoreReport, WayReport,
};

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Identity {
    /// The account's place on the ring.
    pub did: String,
    /// The account's public key, as `did:key:z…`.
    pub did_key: String,
    /// The account, as libp2p names it.
    pub peer_id: String,
    /// The network it belongs to.
    pub network: u32,
}

impl Identity {
    /// Who a node with this account's key is.
    pub fn of(key: &AccountKey, network: NetworkId) -> Self {
        Self {
            did: key.did().to_string(),
            did_key: key.to_string(),
            peer_id: key.peer_id().to_string(),
            network: network.0,
        }
    }
}

/// An error that was met earlier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cause {
    /// Its stable code.
    pub error: String,
    /// What happened.
    pub message: String,
}

/// The nodes to stay linked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeersReport {
    /// In the order they were added.
    pub peers: Vec<PeerReport>,
    /// The nodes that this one's place in the ring needs, the most needed first.
    #[serde(default)]
    pub neighbours: Vec<NeighbourReport>,
}

/// A request that says nothing: an empty object. A form of a page cannot send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// A node to ask something of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DestinationRequest {
    /// 40 hexadecimal digits, or `did:key:z…`.
    pub destination: String,
}

/// The answer of a node that was asked whether it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PingReport {
    /// Who.
    pub did: String,
    /// Hops that the question took.
    pub hops: u8,
    /// From asking to answer.
    pub round_trip_ms: u64,
}

/// The way that messages take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteReport {
    /// Whom they are for.
    pub destination: String,
    /// The hops, the destination included where it is reached.
    pub hops: Vec<String>,
    /// `arrives`, `no_route`, `silent` or `hop_budget`.
    pub end: String,
}

/// What became of a change to the list of peers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeerChanged {
    /// The address.
    pub url: String,
    /// Whether the list is another than before.
    pub changed: bool,
}

/// Every admitted link of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinksReport {
    /// In the order they came up.
    pub links: Vec<LinkReport>,
}

/// The log of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogReport {
    /// What is logged: a level, or levels by target.
    pub filter: String,
    /// The latest lines, with pseudonyms for accounts, keys, digests and addresses.
    pub lines: Vec<String>,
}

/// Asks for another log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogRequest {
    /// What is logged from now on.
    pub filter: String,
}

/// Asks for a copy of the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// Where it goes, from the root; nothing is there yet.
    pub path: String,
}

/// A copy of the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackupReport {
    /// Where it is.
    pub path: String,
    /// Whose it is.
    pub did: String,
    /// Its instant, in milliseconds since the Unix epoch.
    pub taken_ms: u64,
    /// Replay records in it.
    pub records: usize,
    /// What putting it back costs.
    pub cost: String,
}

impl BackupReport {
    /// What is told of a copy at `path`.
    pub fn of(backup: &Backup, path: &std::path::Path) -> Self {
        Self {
            path: path.display().to_string(),
            did: backup.did.clone(),
            taken_ms: backup.taken_ms,
            records: backup.records,
            cost: backup.cost(),
        }
    }
}

/// The delegatee that a node signs with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DelegateeReport {
    /// Its public key, in hexadecimal.
    pub delegatee: String,
    /// When its delegation ends, in milliseconds since the Unix epoch.
    pub ends_ms: u64,
}

/// Whether a node does its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthReport {
    /// Whether it does.
    pub healthy: bool,
    /// Why not; where it does, how many links it has.
    pub why: String,
    /// Its links that are up.
    pub links: usize,
}

/// The streams that a node keeps windows and leases of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamsReport {
    /// Streams to this node: what it admitted.
    pub receiving: Vec<ReceivingReport>,
    /// Streams of this node: what it signed.
    pub sending: Vec<SendingReport>,
    /// How many more there are of both than are shown.
    pub left_off: usize,
}

/// A stream to this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceivingReport {
    /// The stream.
    pub stream: String,
    /// The highest sequence that was admitted.
    pub newest: u64,
    /// How many places of its window are taken.
    pub admitted: usize,
    /// Mail of it that was admitted and that the application has not taken.
    pub custody: usize,
    /// When everything it admitted is spent, in milliseconds since the Unix epoch.
    pub spent_ms: u64,
}

/// A stream of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SendingReport {
    /// The stream.
    pub stream: String,
    /// The first sequence that is not leased.
    pub leased_to: u64,
    /// When everything signed under the lease is spent, in milliseconds since the Unix epoch.
    pub spent_ms: u64,
}

/// The bounds of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BoundsReport {
    /// In the order of the bound sheet.
    pub bounds: Vec<BoundReport>,
}

/// One bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BoundReport {
    /// Its one name.
    pub name: String,
    /// The bound.
    pub limit: u64,
    /// How full it is.
    pub current: u64,
    /// How full it has been since the process started.
    pub high_water: u64,
    /// What is counted.
    pub unit: String,
    /// What happens at it.
    pub at_limit: String,
}

impl From<Bound> for BoundReport {
    fn from(bound: Bound) -> Self {
        Self {
            name: bound.name.to_owned(),
            limit: bound.limit,
            current: bound.current,
            high_water: bound.high_water,
            unit: bound.unit.to_owned(),
            at_limit: bound.at_limit.to_owned(),
        }
    }
}

/// Names a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PeerRequest {
    /// Its signalling address, `http://HOST:PORT`.
    pub url: String,
}

/// A refusal, in the words every part of the node uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refusal {
    /// The stable code.
    pub error: String,
    /// What happened.
    pub message: String,
    /// Whose fault it is.
    pub fault: FaultName,
}
