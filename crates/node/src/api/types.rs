//! What the local API takes and answers. Dids, digests and signed bytes are hexadecimal; a
//! stream is written `network:origin>destination/class`.

use std::collections::BTreeMap;

use overlane_core::NetworkId;
use overlane_core::identity::AccountKey;
use overlane_core::replay::Bound;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::home::Backup;

use super::inbox::ArrivedReport;
use super::names::{ClassName, FaultName};

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

/// A message to sign and send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// The destination: 40 hexadecimal digits, or `did:key:z…`.
    pub destination: String,
    /// What the message is about, for the application at the other end.
    pub namespace: String,
    /// The traffic class.
    #[serde(default)]
    pub class: ClassName,
    /// The body, in hexadecimal.
    pub body: String,
    /// Whether an application's message is sent as it is, and not sealed to its destination.
    #[serde(default)]
    pub plain: bool,
    /// Whether the answer waits until the message is delivered, or held for a destination that is away.
    /// Only what is sealed is held.
    #[serde(default)]
    pub hold: bool,
    /// How long to wait for a link to the destination.
    #[serde(default)]
    pub wait_ms: u64,
    /// How long to wait for the destination's receipt; 0 asks for none.
    #[serde(default)]
    pub receipt_ms: u64,
}

/// A large message to sign and send; its body follows this line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UploadRequest {
    /// The destination: 40 hexadecimal digits, or `did:key:z…`.
    pub destination: String,
    /// What the message is about, for the application at the other end.
    pub namespace: String,
    /// The traffic class.
    #[serde(default)]
    pub class: ClassName,
    /// Whether an application's message is sent as it is, and not sealed to its destination.
    #[serde(default)]
    pub plain: bool,
    /// How long to wait for a link to the destination.
    #[serde(default)]
    pub wait_ms: u64,
    /// How long to wait for the destination's receipt; 0 asks for none.
    #[serde(default)]
    pub receipt_ms: u64,
}

/// A step of an upload. The last is how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UploadLine {
    /// How far the message came into its lane.
    Progress {
        /// Bytes in the lane.
        placed_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
    },
    /// It is in its lane whole. The signed bytes are empty if they are longer than a frame.
    Sent(SendReceipt),
    /// It was refused.
    Refused(Refusal),
}

/// Signed bytes to offer again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferAgainRequest {
    /// The signed bytes, in hexadecimal, as a [`SendReceipt`] had them.
    pub signed: String,
    /// How long to wait for a link to the destination.
    #[serde(default)]
    pub wait_ms: u64,
    /// How long to wait for the destination's receipt; 0 asks for none.
    #[serde(default)]
    pub receipt_ms: u64,
}

/// What is known here once a message has been signed and handed to its lane. Whether the
/// destination admitted it, is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SendReceipt {
    /// The message's stream.
    pub stream: String,
    /// Its sequence in the stream.
    pub sequence: u64,
    /// The transaction's digest.
    pub digest: String,
    /// The signed bytes.
    pub signed: String,
    /// Whether nothing had been heard of the peer behind the link for a while.
    #[serde(default)]
    pub disturbed: bool,
    /// Where the message is, if it was to be delivered or held.
    #[serde(default)]
    pub arrived: Option<ArrivedReport>,
    /// The destination's signed word that it admitted the message, in hexadecimal, if it was asked for and
    /// came.
    #[serde(default)]
    pub receipt: Option<String>,
    /// What became of it since, as far as is known; `None` where `arrived` says more.
    #[serde(default)]
    pub outcome: Option<SendOutcome>,
}

/// What became of a message after a lane took it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SendOutcome {
    /// A link of the destination's own has it.
    Placed,
    /// A neighbour has it, and the destination is there.
    PassedOn {
        /// Hops to the destination.
        hops: u8,
    },
    /// A node on the way says that it does not arrive.
    Unreachable {
        /// Why, as a code.
        error: String,
        /// The node where the way ended.
        reporter: String,
    },
    /// A neighbour has it; neither a report nor an answer of the destination came in time.
    Unanswered,
}

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
    /// Its replay store.
    pub store: StoreReport,
    /// The admitted links.
    pub links: Vec<LinkReport>,
    /// The STUN and TURN servers, and how each fared last.
    #[serde(default)]
    pub ice_servers: Vec<IceServerReport>,
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

/// An error that was met earlier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cause {
    /// Its stable code.
    pub error: String,
    /// What happened.
    pub message: String,
}

/// One admitted link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkReport {
    /// Its number, never used again in the process.
    pub link: u64,
    /// Who is at its other end.
    pub peer: String,
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
    /// How many times its windows this node granted the peer, because it is far away.
    pub window_scale: u8,
    /// Delegations sent by reference, references that came to what is not held, and frames that went on
    /// without what they refer to: `sent`, `missed`, `lost`.
    #[serde(default)]
    pub delegation_references: BTreeMap<String, u64>,
    /// Its lanes, in the order of their classes.
    pub lanes: Vec<LaneReport>,
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

/// The nodes to stay linked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeersReport {
    /// In the order they were added.
    pub peers: Vec<PeerReport>,
    /// The nodes that this one's place in the ring needs, the most needed first.
    #[serde(default)]
    pub neighbours: Vec<NeighbourReport>,
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

/// Takes one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeRequest {
    /// The number that the stream of `GET /v1/watch` began with.
    pub watch: u64,
}

/// An admitted message, taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TakenMessage {
    /// Its stream.
    pub stream: String,
    /// Who signed it.
    pub origin: String,
    /// Its traffic class.
    pub class: ClassName,
    /// Its sequence in the stream.
    pub sequence: u64,
    /// The transaction's digest.
    pub digest: String,
    /// How it entered the window: `First`, `Advance` or `Late`.
    pub verdict: String,
    /// Whether it was sealed, so that nobody on its way could read it.
    #[serde(default)]
    pub sealed: bool,
    /// What an application message is about.
    pub namespace: Option<String>,
    /// The body, where it is text.
    pub text: Option<String>,
    /// The body, in hexadecimal.
    pub body: String,
}

/// Something that happened in the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventLine {
    /// The stream of events has begun: what happens from here on is in it.
    Watching {
        /// The number to take messages with, where that right comes with the stream.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        watch: Option<u64>,
    },
    /// A link was admitted.
    LinkUp {
        /// The link.
        link: u64,
        /// Who is at its other end.
        peer: String,
    },
    /// A link is gone.
    LinkDown {
        /// The link.
        link: u64,
        /// Who was at its other end.
        peer: String,
        /// Why.
        reason: String,
    },
    /// A message was admitted.
    Admitted {
        /// Its stream.
        stream: String,
        /// Its sequence.
        sequence: u64,
        /// Its digest.
        digest: String,
        /// How it entered the window.
        verdict: String,
    },
    /// A frame was refused.
    Refused {
        /// The link it came on.
        link: u64,
        /// Who is at its other end.
        peer: String,
        /// The lane it came on.
        class: ClassName,
        /// Why, as a code.
        error: String,
        /// Why, in words.
        message: String,
    },
    /// A message of this node's does not reach its destination.
    Unreachable {
        /// Its stream.
        stream: String,
        /// Its sequence.
        sequence: u64,
        /// Its digest.
        digest: String,
        /// The node where its way ended.
        reporter: String,
        /// Why, as a code.
        error: String,
    },
    /// The other side of an E2E session does not know it any more.
    SessionLost {
        /// The other side.
        with: String,
        /// How many bodies were sent in it.
        sent: u64,
    },
    /// A part of a large message is in its lane.
    SendProgress {
        /// The send.
        send: u64,
        /// Bytes in the lane.
        placed_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
    },
    /// A mail for this node waits to be taken.
    MailWaits {
        /// Who sent it.
        origin: String,
        /// Its transaction.
        digest: String,
    },
    /// A mail for this node can be admitted no more.
    MailLost {
        /// Who sent it.
        origin: String,
        /// Its transaction.
        digest: String,
        /// Why, as a code.
        error: String,
    },
    /// What became of a mail of this node's that others held.
    MailEnded {
        /// Whom it was for.
        destination: String,
        /// Its transaction.
        digest: String,
        /// `taken`, `expired` or `evicted`.
        outcome: String,
        /// The holder that says so.
        by: String,
    },
    /// What this node holds for another account changed.
    MailHolds {
        /// Whose mail it is.
        owner: String,
        /// How many there are now.
        mails: u64,
    },
    /// Other nodes hold this node's mail now while it is away.
    MailHolders {
        /// Them, by the ring.
        holders: Vec<String>,
    },
    /// The replay store failed: nothing is sent or admitted until the node is restarted.
    StoreFailed {
        /// Why, as a code.
        error: String,
        /// Why, in words.
        message: String,
    },
    /// The reader was too slow for this many events.
    Missed {
        /// How many.
        count: u64,
    },
}

impl EventLine {
    /// What happened, in the word that its line says.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Watching { .. } => "watching",
            Self::LinkUp { .. } => "link_up",
            Self::LinkDown { .. } => "link_down",
            Self::Admitted { .. } => "admitted",
            Self::Refused { .. } => "refused",
            Self::Unreachable { .. } => "unreachable",
            Self::SendProgress { .. } => "send_progress",
            Self::StoreFailed { .. } => "store_failed",
            Self::SessionLost { .. } => "session_lost",
            Self::MailWaits { .. } => "mail_waits",
            Self::MailLost { .. } => "mail_lost",
            Self::MailEnded { .. } => "mail_ended",
            Self::MailHolds { .. } => "mail_holds",
            Self::MailHolders { .. } => "mail_holders",
            Self::Missed { .. } => "missed",
        }
    }
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
