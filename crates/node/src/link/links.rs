//! All links of a node, and one handle to them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use overlane_core::identity::{AccountKey, Signer};
use overlane_core::lane::{CloseReason, QuotaHint, SessionStatus};
use overlane_core::signal::OfferGuard;
use overlane_core::{Class, Coded, Did};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::config::{EVENTS_WAITING_MAX, LinkConfig, SHUTDOWN_DEADLINE};
use super::connection::WebRtc;
use super::count::Held;
use super::driver::{Link, lock};
use super::error::{DownReason, LinkError};
use super::ice::{IceServers, LinkPath};
use super::id::LinkId;
use super::queued::Queued;
use super::registry::{Registry, Stage};
use super::transport::Connector;
use crate::policy::{Connecting, Policies};

/// Who this node is, and the clock and chance it goes by.
pub trait LinkIdentity: fmt::Debug + Send + Sync + 'static {
    /// Who signs now. Another one after a rotation; always of the same account and network.
    fn signer(&self) -> Signer;

    /// Now, in milliseconds of Unix time.
    fn now_ms(&self) -> u64;

    /// 32 random bytes, never the same twice.
    fn nonce(&self) -> [u8; 32];
}

/// Something that happened on a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// A link is open. Comes once, before anything else of it.
    Up {
        /// The link.
        link: LinkId,
        /// Who is at its other end, proved.
        peer: Did,
        /// The URL this node dialled; `None` if the peer dialled.
        dialed_url: Option<String>,
        /// The quota that the peer keeps for each stream it is the destination of.
        quota: QuotaHint,
        /// What the peer's clock showed a moment ago; `None` if the peer dialled, as nothing that
        /// an offerer signs is over a nonce of ours.
        witness: Option<ClockWitness>,
        /// The peer's account, whose key its signature proved.
        account: Option<Box<AccountKey>>,
        /// Another link to the peer stands against it: it only brings what it brought already.
        leaving: bool,
    },
    /// Payload frames came together, in their class's order. Answer with [`Links::taken`] once they are
    /// taken, all at once or one by one.
    Frames {
        /// The link.
        link: LinkId,
        /// The lane.
        class: Class,
        /// Each whole and unread; one or more, slices of the message that brought them.
        frames: Vec<Bytes>,
    },
    /// A lane that refused a frame because it was full has room again.
    Room {
        /// The link.
        link: LinkId,
        /// The lane.
        class: Class,
    },
    /// The link is down. Comes once, last.
    Down {
        /// The link.
        link: LinkId,
        /// Who was at its other end.
        peer: Did,
        /// Why.
        reason: DownReason,
    },
}

/// What a peer's clock showed when it signed over a nonce of ours: it answered our fresh offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockWitness {
    /// What it showed, in milliseconds of Unix time.
    pub issued_ms: u64,
    /// When that was heard, by the steady clock.
    pub heard: Instant,
}

impl ClockWitness {
    /// What the peer's clock shows at `now`, in milliseconds of Unix time: however long this
    /// waited to be looked at, it is no witness of an instant that is past.
    pub fn at_ms(&self, now: Instant) -> u64 {
        let waited = now.saturating_duration_since(self.heard).as_millis();
        let waited_ms = u64::try_from(waited).unwrap_or(u64::MAX);
        self.issued_ms.saturating_add(waited_ms)
    }
}

/// A link that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkUp {
    /// The link.
    pub link: LinkId,
    /// Who is at its other end, proved.
    pub peer: Did,
}

/// What an operator sees of a link.
#[derive(Debug, Clone)]
pub struct LinkStatus {
    /// The link.
    pub link: LinkId,
    /// Who is at its other end.
    pub peer: Did,
    /// The URL this node dialled; `None` if the peer dialled.
    pub dialed_url: Option<String>,
    /// What the peer may have under way to this node, in bytes.
    pub byte_window: u32,
    /// Whether it gives way to another link, or was told to end.
    pub leaving: bool,
    /// The way it took, once it is up.
    pub path: Option<LinkPath>,
    /// Where the peer takes offers: the port that it says, of the address that the link leads to. `None` if it takes
    /// none, and where a server stands between.
    pub listens_at: Option<SocketAddr>,
    /// Whether nothing was heard of the peer for a while: what the link takes may be lost.
    pub disturbed: bool,
    /// How far the peer's clock is ahead of this node's, in milliseconds, from what it showed when it answered this node's
    /// offer; `None` if the peer dialled.
    pub clock_ahead_ms: Option<i64>,
    /// Lanes, credit and counters.
    pub session: SessionStatus,
}

/// What all handles and tasks of a node's links share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: LinkConfig,
    pub(super) registry: Mutex<Registry<Arc<Link>>>,
    pub(super) events: mpsc::Sender<LinkEvent>,
    pub(super) held: Held,
    pub(super) identity: Arc<dyn LinkIdentity>,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) guard: Mutex<OfferGuard>,
    /// Requests of strangers that were refused, by code: constants, so the table is bounded.
    pub(super) refused: Mutex<BTreeMap<&'static str, u64>>,
    /// Links that ended before they were open, by code: constants too.
    pub(super) not_opened: Mutex<BTreeMap<&'static str, u64>>,
    /// What the lanes of all links hold.
    pub(super) queued: Arc<Queued>,
    /// Counts changes of the registry, for those who wait for one.
    pub(super) changes: watch::Sender<u64>,
    pub(super) stopping: watch::Sender<Stopping>,
    pub(super) epoch: Instant,
    /// Asked before a link is made; set once, before the first.
    pub(super) policies: OnceLock<Policies>,
}

/// How far a shutdown came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stopping {
    /// None.
    No,
    /// Links end in order; handshakes are given up.
    InOrder,
    /// Whoever still waits for the node to take an event gives up.
    Cut,
}

impl Shared {
    pub(super) fn count_refused(&self, code: &'static str) {
        one_more(&self.refused, code);
    }

    /// A link ended before it was open. One that gave way to another is no loss, and is not counted.
    pub(super) fn count_not_opened(&self, reason: &DownReason) {
        if !matches!(
            reason,
            DownReason::Replaced { .. } | DownReason::ShuttingDown
        ) {
            one_more(&self.not_opened, reason.code());
        }
    }

    pub(super) fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Resolves once a shutdown came as far as `stage`.
    pub(super) fn stopping(&self, stage: Stopping) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.subscribe();
        async move {
            if stopping.wait_for(|now| *now >= stage).await.is_err() {
                std::future::pending().await
            }
        }
    }
}

fn one_more(table: &Mutex<BTreeMap<&'static str, u64>>, code: &'static str) {
    let mut table = lock(table);
    let count = table.entry(code).or_default();
    *count = count.saturating_add(1);
}

/// A handle to one link, for who sends or takes much on it: the link is looked up once. It may outlive the
/// link, which then takes nothing.
#[derive(Debug, Clone)]
pub struct LinkHandle(Arc<Link>);

impl LinkHandle {
    /// As [`Links::send`].
    ///
    /// # Errors
    /// As [`Links::send`].
    pub fn send(&self, class: Class, frame: Vec<u8>) -> Result<(), LinkError> {
        let link = self.0.id;
        let sent = self.0.send(class, frame);
        sent.map_err(|error| LinkError::Lane { link, error })
    }

    /// As [`Links::taken`].
    pub fn taken(&self, class: Class, frames: usize) {
        self.0.taken(class, frames);
    }
}

/// A handle to all links of a node. Clones are handles to the same.
#[derive(Debug, Clone)]
pub struct Links {
    pub(super) shared: Arc<Shared>,
}

impl Links {
    /// Links over WebRTC, and what happens on them. Dropping the receiver ends every link.
    pub fn start(
        config: LinkConfig,
        identity: Arc<dyn LinkIdentity>,
    ) -> (Self, mpsc::Receiver<LinkEvent>) {
        let held = Held::default();
        let connector = WebRtc::new(config.connection.clone(), held.clone());
        Self::over(Arc::new(connector), held, config, identity)
    }

    /// Links over transports of another make.
    pub fn over(
        connector: Arc<dyn Connector>,
        held: Held,
        config: LinkConfig,
        identity: Arc<dyn LinkIdentity>,
    ) -> (Self, mpsc::Receiver<LinkEvent>) {
        let (events, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
        let registry = Registry::new(config.peers_max, config.handshakes_max);
        let queued = Queued::new(config.queued_max_bytes);
        let shared = Shared {
            config,
            registry: Mutex::new(registry),
            events,
            held,
            identity,
            connector,
            guard: Mutex::new(OfferGuard::new()),
            refused: Mutex::default(),
            not_opened: Mutex::default(),
            queued: Arc::new(queued),
            changes: watch::Sender::new(0),
            stopping: watch::Sender::new(Stopping::No),
            epoch: Instant::now(),
            policies: OnceLock::new(),
        };
        let links = Self {
            shared: Arc::new(shared),
        };
        (links, receiver)
    }

    /// Asks these hooks before a link is made. What was said before stays.
    pub(crate) fn ask_policy(&self, policies: Policies) {
        let _ = self.shared.policies.set(policies);
    }

    /// Whether the policy allows a link with `peer`.
    pub(super) fn may_connect(&self, peer: Did, dialled: bool) -> Result<(), LinkError> {
        let allowed = self.shared.policies.get().map_or(Ok(()), |policies| {
            policies.connect(&Connecting { peer, dialled })
        });
        Ok(allowed?)
    }

    /// This node's place on the ring.
    pub fn did(&self) -> Did {
        self.shared.identity.signer().did()
    }

    /// How many offers were refused since the start, by the code of the refusal.
    pub fn offers_refused(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.shared.refused).clone()
    }

    /// How many links ended before they were open since the start, by the code of why: handshakes
    /// that a peer never finished, connections that found no way, ways that a policy refused.
    pub fn not_opened(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.shared.not_opened).clone()
    }

    pub(crate) fn count_refused(&self, code: &'static str) {
        self.shared.count_refused(code);
    }

    /// The servers that help through NATs, and how each fared last.
    pub fn ice_servers(&self) -> &IceServers {
        &self.shared.config.connection.ice_servers
    }

    /// What links hold of the system.
    pub fn held(&self) -> &Held {
        &self.shared.held
    }

    /// Bytes that the lanes of all links hold beyond their reserves: the most there may be, held now,
    /// the most ever.
    pub(crate) fn queued_levels(&self) -> [u64; 3] {
        let queued = &self.shared.queued;
        let (max, high_water) = queued.max_and_high_water_bytes();
        [max, queued.held_bytes(), high_water].map(|it| it as u64)
    }

    /// Bytes that the lanes of all links hold beyond their reserves.
    pub fn queued_bytes(&self) -> usize {
        self.shared.queued.held_bytes()
    }

    pub(super) fn config(&self) -> &LinkConfig {
        &self.shared.config
    }

    /// A handle to one link whose descriptions are exchanged; `None` if it is down.
    pub fn handle(&self, link: LinkId) -> Option<LinkHandle> {
        lock(&self.shared.registry).link(link).map(LinkHandle)
    }

    /// Queues a payload frame in its class's lane. Never waits.
    ///
    /// # Errors
    /// The lane is full, the link is down or going, or it is no payload frame.
    pub fn send(&self, link: LinkId, class: Class, frame: Vec<u8>) -> Result<(), LinkError> {
        let found = self.handle(link).ok_or(LinkError::Unknown(link))?;
        found.send(class, frame)
    }

    /// The node took so many of the oldest untaken frames of this lane: the peer may send others. A link
    /// that is down needs no telling.
    pub fn taken(&self, link: LinkId, class: Class, frames: usize) {
        if let Some(found) = self.handle(link) {
            found.taken(class, frames);
        }
    }

    /// Ends a link once what is queued was delivered, and waits until it is down. A link that is
    /// down already is no error. Events must go on being taken meanwhile: the frames that came
    /// before the end are told before it.
    pub async fn close(&self, link: LinkId) {
        let local = DownReason::Session(CloseReason::Local);
        lock(&self.shared.registry).leave(link, local);
        let mut changes = self.shared.changes.subscribe();
        while lock(&self.shared.registry).link(link).is_some() && changes.changed().await.is_ok() {}
    }

    /// Ends a link at once, for the payload frame whose refusal has this code. Never waits.
    pub fn cut(&self, link: LinkId, code: &'static str) {
        lock(&self.shared.registry).cut(link, DownReason::Payload { code });
    }

    /// Ends every link in order, refuses new ones, and waits until nothing is held any more. What
    /// has not ended after [`SHUTDOWN_DEADLINE`](super::config::SHUTDOWN_DEADLINE), because the node takes no more events, is cut.
    pub async fn shutdown(&self) {
        let shared = &self.shared;
        lock(&shared.registry).shut_down();
        shared.stopping.send_replace(Stopping::InOrder);
        let released = timeout(SHUTDOWN_DEADLINE, shared.held.all_released());
        if released.await.is_err() {
            shared.stopping.send_replace(Stopping::Cut);
            shared.held.all_released().await;
        }
    }

    /// Every link whose descriptions are exchanged, in the order of their numbers.
    pub fn status(&self) -> Vec<LinkStatus> {
        let links = lock(&self.shared.registry).links();
        let (now_ms, now) = (self.shared.identity.now_ms(), Instant::now());
        let status = |(link, stage): (Arc<Link>, Stage)| LinkStatus {
            link: link.id,
            peer: link.peer,
            dialed_url: link.dialed_url.clone(),
            byte_window: link.byte_window,
            leaving: stage == Stage::Leaving,
            path: link.path(),
            listens_at: link.listens_at(),
            disturbed: link.is_disturbed(),
            clock_ahead_ms: link.witness.map(|it| {
                let shown_ms = it.at_ms(now);
                let ahead_ms = i128::from(shown_ms).saturating_sub(i128::from(now_ms));
                i64::try_from(ahead_ms).unwrap_or(i64::MAX)
            }),
            session: link.status(),
        };
        links.into_iter().map(status).collect()
    }
}
