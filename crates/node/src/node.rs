//! A running node, to embed.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use overlane_core::identity::{AccountKey, DelegateeKey, Signer};
use overlane_core::ring::Ring;
use overlane_core::{Class, Did, NetworkId, replay};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::{Duration, timeout};

use crate::builder::NodeBuilder;
use crate::error::NodeError;
use crate::link::{LinkError, LinkId, LinkStatus, Links};
use crate::messages::Messages;
use crate::peer::{Counters, Event, Peer, SlotUse, bounds};
use crate::places::Places;
use crate::refs::Shared as SharedRefs;
use crate::runtime::{Clock, Command, GroupDoor, Identity, LinksUp, Posted, Supervisor};
use crate::status::{NeighbourStatus, PeerStatus, QueueStatus, Status, StoreStatus};
use crate::store_times::StoreTimes;
use crate::watch::Watches;

/// How long a link of the destination's own is waited for where another leads there.
const LINK_OF_ITS_OWN: Duration = Duration::from_millis(500);

/// How long an open link may take to reach the driver.
const UP_WITHIN: Duration = Duration::from_secs(5);

/// A running node. Clones are handles to the same node; it shuts down in order when the last one
/// is dropped, or when told to.
///
/// # Example
/// ```no_run
/// # async fn example(account: overlane_core::identity::Account,
/// #     store: Box<dyn overlane_core::store::RecordStore>,
/// #     friend: overlane_core::Did) -> Result<(), Box<dyn std::error::Error>> {
/// use overlane_core::transaction::{Message, Namespace};
/// use overlane_node::Node;
///
/// let node = Node::builder().account(account).store(store).spawn().await?;
/// node.connect("http://127.0.0.1:7400").await?;
/// let receipt = node.send(friend, Message::Application {
///     namespace: Namespace::new("hello")?,
///     body: b"world",
/// }).await?;
/// println!("signed as {} of {}", receipt.sequence, receipt.stream);
/// if let Some(message) = node.messages().next().await {
///     println!("{:?} from {}", message.item().message(), message.item().origin());
/// }
/// node.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Node {
    parts: Arc<Shared>,
}

struct Shared {
    parts: Parts,
    stop_listening: Mutex<Option<oneshot::Sender<()>>>,
}

/// What a node is made of.
pub(crate) struct Parts {
    pub(crate) identity: Arc<Identity>,
    pub(crate) clock: Clock,
    pub(crate) url: Option<String>,
    pub(crate) links: Links,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) posts: mpsc::UnboundedSender<Posted>,
    pub(crate) places: Arc<Places>,
    pub(crate) next_send: AtomicU64,
    pub(crate) messages: Messages,
    pub(crate) events: broadcast::Sender<Event>,
    pub(crate) refs: Arc<SharedRefs>,
    pub(crate) groups: Arc<GroupDoor>,
    pub(crate) up: watch::Receiver<LinksUp>,
    pub(crate) watches: Watches,
    pub(crate) supervisor: Supervisor,
    pub(crate) store_times: Arc<Mutex<StoreTimes>>,
    pub(crate) stop_listening: Option<oneshot::Sender<()>>,
}

impl Node {
    /// Begins a node.
    pub fn builder() -> NodeBuilder {
        NodeBuilder::new()
    }

    pub(crate) fn new(mut parts: Parts) -> Self {
        let stop_listening = Mutex::new(parts.stop_listening.take());
        Self {
            parts: Arc::new(Shared {
                parts,
                stop_listening,
            }),
        }
    }

    // Who it is.

    /// The account's place on the ring.
    pub fn did(&self) -> Did {
        self.parts().identity.did()
    }

    /// The account's public key, which also names it as `did:key` and as a libp2p peer.
    pub fn account(&self) -> AccountKey {
        self.parts().identity.account().clone()
    }

    /// The network this node is part of.
    pub fn network(&self) -> NetworkId {
        self.parts().identity.network()
    }

    /// Where this node takes offers, for other nodes to connect to; `None` when it takes none. One that listens at every
    /// address of its machine names the one that its links are bound to.
    pub fn url(&self) -> Option<&str> {
        self.parts().url.as_deref()
    }

    // Links.

    /// Links to the node at `url`, once, and says who it is. Messages to it can be sent as soon
    /// as this returns.
    ///
    /// # Errors
    /// [`NodeError::Link`]: nobody answers there, it refused, or it is not who it says it is.
    pub async fn connect(&self, url: &str) -> Result<Did, NodeError> {
        let dialed = self.parts().links.dial(url).await?;
        let (link, peer) = (dialed.link, dialed.peer);
        let mut up = self.parts().up.clone();
        // The link may also have been replaced by a newer one to the same peer.
        let told = up
            .wait_for(|links| links.contains_key(&link) || links.values().any(|did| *did == peer));
        match timeout(UP_WITHIN, told).await {
            Ok(Ok(_)) => Ok(peer),
            Ok(Err(_)) => Err(NodeError::Closed),
            Err(_) => Err(NodeError::Link(LinkError::Unknown(link))),
        }
    }

    /// Waits until a link to `peer` is up. `false` once the node has shut down.
    pub async fn linked(&self, peer: Did) -> bool {
        let mut up = self.parts().up.clone();
        let linked = up.wait_for(|links| links.values().any(|did| *did == peer));
        linked.await.is_ok()
    }

    /// Waits until some link is up, so that messages to `peer` go somewhere: to it, or into the ring.
    /// `false` once the node has shut down.
    pub(crate) async fn reachable(&self, peer: Did) -> bool {
        let mut up = self.parts().up.clone();
        let some = up.wait_for(|links| !links.is_empty());
        if some.await.is_err() {
            return false;
        }
        // A link of its own may be a moment away.
        let _ = timeout(LINK_OF_ITS_OWN, self.linked(peer)).await;
        true
    }

    /// Keeps a link to the node at `url` from now on, dialling it again whenever the link is
    /// lost.
    ///
    /// # Errors
    /// [`NodeError::PeersFull`].
    pub fn add_peer(&self, url: &str) -> Result<(), NodeError> {
        if self.parts().supervisor.add(url) {
            return Ok(());
        }
        Err(NodeError::PeersFull)
    }

    /// Keeps a link to the node at `url` no longer, and closes the one there is. `false` when it
    /// is none of the kept ones.
    pub async fn drop_peer(&self, url: &str) -> bool {
        self.parts().supervisor.drop_peer(url).await
    }

    /// The peers this node keeps a link to.
    pub fn peers(&self) -> Vec<PeerStatus> {
        self.parts().supervisor.status()
    }

    /// Every link: its peer, its lanes, its credit.
    pub fn links(&self) -> Vec<LinkStatus> {
        self.parts().links.status()
    }

    // Messages.

    /// Admitted messages. Every handle takes from the same queue, each message once.
    pub fn messages(&self) -> Messages {
        self.parts().messages.clone()
    }

    /// What happens from now on: links, verdicts, refusals. A watcher that falls more than
    /// [`EVENTS_KEPT_MAX`](crate::EVENTS_KEPT_MAX) behind is told how many it missed.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.parts().events.subscribe()
    }

    /// This node at this instant.
    ///
    /// # Errors
    /// [`NodeError::Closed`].
    pub async fn status(&self) -> Result<Status, NodeError> {
        let parts = self.parts();
        let peers = self.peers();
        let known: Vec<Did> = peers.iter().filter_map(|peer| peer.did).collect();
        let seen = self.seen(move |peer| Seen::of(peer, &known)).await?;
        Ok(Status {
            did: self.did(),
            network: self.network(),
            url: parts.url.clone(),
            uptime_ms: parts.clock.now().steady_ms,
            store: seen.store,
            renews_itself: parts.identity.renews_itself(),
            delegation_ends_ms: parts.identity.signer().delegation().life().last_ms(),
            links: seen.links,
            slots: seen.slots,
            peers,
            peers_via: seen.peers_via,
            neighbours: seen.neighbours,
            place_confirmed_ago_ms: seen
                .place_confirmed_ms
                .map(|at_ms| parts.clock.now().steady_ms.saturating_sub(at_ms)),
            queues: seen.queues,
            pending_sends: seen.pending_sends,
            counters: seen.counters,
            ice_servers: (parts.links.ice_servers().iter())
                .map(|(server, state)| (server.url(), state))
                .collect(),
            nat: parts.links.ice_servers().nat(),
            attempts: parts.links.ice_servers().attempts().kept(),
            offers_refused: parts.links.offers_refused(),
            links_not_opened: parts.links.not_opened(),
            replay: seen.replay,
            verdicts: seen.verdicts,
            store_times: {
                let times = parts.store_times.lock();
                times.unwrap_or_else(PoisonError::into_inner).clone()
            },
            bounds: {
                let queued = bounds::queued(parts.links.queued_levels());
                seen.bounds.into_iter().chain([queued]).collect()
            },
        })
    }

    /// What `look` makes of the node's protocol as it is now.
    pub(crate) async fn seen<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Peer) -> T + Send + 'static,
    ) -> Result<T, NodeError> {
        let (reply, answer) = oneshot::channel();
        let look = Command::Look(Box::new(move |peer: &Peer| {
            let _ = reply.send(look(peer));
        }));
        let commands = &self.parts().commands;
        let asked = commands.send(look).await;
        asked.map_err(|_| NodeError::Closed)?;
        answer.await.map_err(|_| NodeError::Closed)
    }

    // Its life.

    /// Signs with a new delegatee key from now on. Streams, links and windows stay as they are.
    ///
    /// # Errors
    /// [`NodeError::Random`], [`NodeError::Closed`].
    pub async fn rotate_delegatee(&self) -> Result<(), NodeError> {
        let (reply, answer) = oneshot::channel();
        let rotate = Command::Rotate(reply);
        let sent = self.parts().commands.send(rotate).await;
        sent.map_err(|_| NodeError::Closed)?;
        answer.await.map_err(|_| NodeError::Closed)?
    }

    /// Signs with what the account signed for since, where that is kept elsewhere
    /// ([`NodeBuilder::delegated`](crate::NodeBuilder::delegated)). Streams, links and windows stay as they are.
    ///
    /// # Errors
    /// [`NodeError::OtherAccount`], [`NodeError::NotDelegated`], [`NodeError::Closed`]; what signed before still does.
    pub async fn renew_delegatee(&self, signer: Signer) -> Result<(), NodeError> {
        let (reply, answer) = oneshot::channel();
        let renew = Command::Renew(Box::new(signer), reply);
        let sent = self.parts().commands.send(renew).await;
        sent.map_err(|_| NodeError::Closed)?;
        answer.await.map_err(|_| NodeError::Closed)?
    }

    /// The delegatee key that signs now, and when its delegation ends, in milliseconds since the Unix
    /// epoch.
    pub fn delegatee(&self) -> (DelegateeKey, u64) {
        let signer = self.parts().identity.signer();
        let delegation = signer.delegation();
        (*delegation.delegatee(), delegation.life().last_ms())
    }

    /// Ends in order: no more offers, links closed once what is queued is delivered, the last
    /// batch durable, the store closed. Admitted messages can still be taken. Repeating it does
    /// nothing.
    pub async fn shutdown(&self) {
        self.parts.stop();
        let (reply, done) = oneshot::channel();
        if self
            .parts()
            .commands
            .send(Command::Shutdown(reply))
            .await
            .is_ok()
        {
            let _ = done.await;
        }
    }

    /// Returns once the node runs no more: it was shut down, or it broke off.
    pub async fn ended(&self) {
        self.parts().commands.closed().await;
    }

    /// How long it has run, in milliseconds.
    pub(crate) fn uptime_ms(&self) -> u64 {
        self.parts().clock.now().steady_ms
    }

    /// Hands the driver a command.
    pub(crate) async fn command(&self, command: Command) -> Result<(), NodeError> {
        let sent = self.parts().commands.send(command).await;
        sent.map_err(|_| NodeError::Closed)
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts.parts
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("did", &self.did())
            .field("url", &self.url())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Dials and listens no more.
    fn stop(&self) {
        self.parts.supervisor.stop();
        let stop = self.stop_listening.lock();
        drop(stop.unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What is seen of the peer at one instant.
struct Seen {
    store: StoreStatus,
    links: Vec<(LinkId, Did)>,
    slots: BTreeMap<LinkId, SlotUse>,
    peers_via: BTreeMap<Did, Did>,
    neighbours: Vec<NeighbourStatus>,
    place_confirmed_ms: Option<u64>,
    queues: Vec<QueueStatus>,
    pending_sends: usize,
    counters: Counters,
    replay: replay::Counters,
    verdicts: Vec<(Class, &'static str, u64)>,
    bounds: Vec<replay::Bound>,
}

impl Seen {
    /// With how messages go to those that are `known` from the configuration.
    fn of(peer: &Peer, known: &[Did]) -> Self {
        let queues = Class::ALL.into_iter().zip(peer.queues());
        let queue = |(class, (held, high_water))| QueueStatus {
            class,
            held,
            high_water,
        };
        Self {
            store: StoreStatus::of(peer),
            links: peer.links().collect(),
            slots: peer.slots().collect(),
            peers_via: known
                .iter()
                .filter_map(|&did| Some((did, peer.route(did).next_hop()?)))
                .filter(|(did, next_hop)| did != next_hop)
                .collect(),
            neighbours: peer.neighbours(),
            place_confirmed_ms: peer.ring().and_then(Ring::confirmed_ms),
            queues: queues.map(queue).collect(),
            pending_sends: peer.pending_sends(),
            counters: peer.counters().clone(),
            replay: *peer.engine().counters(),
            verdicts: peer.engine().verdicts().collect(),
            bounds: peer.engine().bounds().chain(peer.bounds()).collect(),
        }
    }
}
