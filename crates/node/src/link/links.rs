//! All links of a node: dialling, answering, and one handle to them.

use std::fmt;
use std::sync::{Arc, Mutex};

use overlane_core::identity::{Life, Signer, Verified, VerifyContext};
use overlane_core::lane::{Session, SessionConfig, SessionStatus, Windows};
use overlane_core::signal::{Answer, Offer, OfferGuard, SIGNAL_TTL_DEFAULT_MS};
use overlane_core::{Class, Did};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::config::{EVENTS_WAITING_MAX, LinkConfig, SHUTDOWN_DEADLINE};
use super::connection::WebRtc;
use super::count::Held;
use super::driver::{Driver, Link, lock};
use super::error::{DownReason, LinkError};
use super::http::{Posted, post_offer};
use super::id::LinkId;
use super::registry::{Direction, Registry, Stage};
use super::rule::Mark;
use super::transport::{Connector, Opened, TransportError};

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
    },
    /// A payload frame came, in its class's order. Answer with [`Links::taken`] once it is taken.
    Frame {
        /// The link.
        link: LinkId,
        /// The lane.
        class: Class,
        /// The whole frame, unread.
        bytes: Vec<u8>,
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
    /// Lanes, credit and counters.
    pub session: SessionStatus,
}

/// What all handles and tasks of a node's links share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: LinkConfig,
    pub(super) registry: Mutex<Registry>,
    pub(super) events: mpsc::Sender<LinkEvent>,
    pub(super) held: Held,
    identity: Arc<dyn LinkIdentity>,
    connector: Arc<dyn Connector>,
    guard: Mutex<OfferGuard>,
    /// Counts changes of the registry, for those who wait for one.
    changes: watch::Sender<u64>,
    stopping: watch::Sender<Stopping>,
    epoch: Instant,
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

/// A handle to all links of a node. Clones are handles to the same.
#[derive(Debug, Clone)]
pub struct Links {
    shared: Arc<Shared>,
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
        let shared = Shared {
            config,
            registry: Mutex::new(registry),
            events,
            held,
            identity,
            connector,
            guard: Mutex::new(OfferGuard::new()),
            changes: watch::Sender::new(0),
            stopping: watch::Sender::new(Stopping::No),
            epoch: Instant::now(),
        };
        let links = Self {
            shared: Arc::new(shared),
        };
        (links, receiver)
    }

    /// This node's place on the ring.
    pub fn did(&self) -> Did {
        self.shared.identity.signer().did()
    }

    /// What links hold of the system.
    pub fn held(&self) -> &Held {
        &self.shared.held
    }

    pub(super) fn config(&self) -> &LinkConfig {
        &self.shared.config
    }

    /// Links to the node at `url`, `http://host:port`, and waits until the link is open. If the peer
    /// dials at the same time, both nodes keep the same one of the two links, and it is given.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn dial(&self, url: &str) -> Result<LinkUp, LinkError> {
        let mut attempts = 1;
        loop {
            match self.dial_once(url).await {
                Err(LinkError::NotOpened { peer, reason })
                    if attempts < self.shared.config.dial_attempts && reason.may_pass() =>
                {
                    tracing::debug!(url, %peer, %reason, attempts, "dialling again");
                    attempts += 1;
                }
                dialed => return dialed,
            }
        }
    }

    /// Answers the offer in the body of a `POST /v1/offer`. The link is told of once it is open.
    ///
    /// # Errors
    /// [`LinkError`]; nothing of the offer is kept but that it came.
    pub async fn answer(&self, offer: &[u8]) -> Result<Vec<u8>, LinkError> {
        let place = Place::begin(&self.shared, Direction::Inbound)?;
        let signer = self.shared.identity.signer();
        let now_ms = self.shared.identity.now_ms();
        let context = VerifyContext {
            network: signer.network(),
            now_ms,
        };
        let offer = Offer::from_bytes(offer)?.verify(&context)?;
        let peer = offer.signer();
        if peer == signer.did() {
            return Err(LinkError::Itself);
        }
        lock(&self.shared.guard).admit(&offer, now_ms)?;
        place.admit(peer, mark(&offer))?;
        let Opened { transport, events } = self.shared.connector.open().await?;
        let answered = async {
            let answer = transport.answer(offer.sdp());
            let sdp = self.within_signal_deadline(answer).await?;
            let life = self.life();
            let nonce = self.shared.identity.nonce();
            Ok(Answer::sign(offer.digest(), sdp, nonce, life, &signer)?)
        };
        match self.unless_stopping(answered).await {
            Ok(answer) => {
                let link = self.link(&place, peer, None, transport.byte_window());
                // Nobody waits for it here: the node hears of it when it is up.
                drop(self.run(place, link, Opened { transport, events }).await?);
                Ok(answer.to_bytes())
            }
            Err(error) => {
                transport.close().await;
                Err(error)
            }
        }
    }

    /// Queues a payload frame in its class's lane. Never waits.
    ///
    /// # Errors
    /// The lane is full, the link is down or going, or it is no payload frame.
    pub fn send(&self, link: LinkId, class: Class, frame: Vec<u8>) -> Result<(), LinkError> {
        let found = lock(&self.shared.registry).link(link);
        found
            .ok_or(LinkError::Unknown(link))?
            .send(class, frame)
            .map_err(|error| LinkError::Lane { link, error })
    }

    /// The node took the oldest untaken frame of this lane: the peer may send another. A link that
    /// is down needs no telling.
    pub fn taken(&self, link: LinkId, class: Class) {
        let found = lock(&self.shared.registry).link(link);
        if let Some(found) = found {
            found.taken(class);
        }
    }

    /// Ends a link once what is queued was delivered, and waits until it is down. A link that is
    /// down already is no error.
    pub async fn close(&self, link: LinkId) {
        let found = lock(&self.shared.registry).link(link);
        if let Some(found) = found {
            found.close();
        }
        let mut changes = self.shared.changes.subscribe();
        while lock(&self.shared.registry).link(link).is_some() && changes.changed().await.is_ok() {}
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
        let status = |(link, stage): (Arc<Link>, Stage)| LinkStatus {
            link: link.id,
            peer: link.peer,
            dialed_url: link.dialed_url.clone(),
            byte_window: link.byte_window,
            leaving: stage == Stage::Leaving,
            session: link.status(),
        };
        links.into_iter().map(status).collect()
    }

    async fn dial_once(&self, url: &str) -> Result<LinkUp, LinkError> {
        let place = Place::begin(&self.shared, Direction::Outbound)?;
        let id = place.id;
        let Opened { transport, events } = self.shared.connector.open().await?;
        let asked = async {
            let (peer, sdp) = self.ask(&place, url, transport.offer()).await?;
            transport.conclude(&sdp).await?;
            Ok(peer)
        };
        let running = match self.unless_stopping(asked).await {
            Ok(peer) => {
                let window = transport.byte_window();
                let link = self.link(&place, peer, Some(url.to_owned()), window);
                let opened = self.run(place, link, Opened { transport, events }).await;
                opened.map(|opened| (peer, opened))
            }
            Err(error) => {
                transport.close().await;
                drop(place);
                Err(error)
            }
        };
        match running {
            Ok((peer, opened)) => match opened.await {
                Ok(Ok(())) => Ok(LinkUp { link: id, peer }),
                Ok(Err(DownReason::Replaced { .. })) => self.wait_for(peer).await,
                Ok(Err(reason)) => Err(LinkError::NotOpened { peer, reason }),
                Err(_) => Err(LinkError::ShuttingDown),
            },
            Err(LinkError::Crossed { peer }) => self.wait_for(peer).await,
            Err(error) => Err(error),
        }
    }

    /// Offers, posts, and checks the answer. Gives who answered and their session description.
    async fn ask(
        &self,
        place: &Place,
        url: &str,
        offer: impl Future<Output = Result<String, TransportError>>,
    ) -> Result<(Did, String), LinkError> {
        let identity = &self.shared.identity;
        let signer = identity.signer();
        let sdp = self.within_signal_deadline(offer).await?;
        let offer = Offer::sign(sdp, identity.nonce(), self.life(), &signer)?;
        let deadline = self.shared.config.signal_deadline();
        let answer = match post_offer(url, offer.to_bytes(), deadline).await? {
            Posted::Answer(answer) => Answer::from_bytes(&answer)?,
            Posted::Refused(refusal) => return Err(refusal.into_error(url)),
        };
        let context = VerifyContext {
            network: signer.network(),
            now_ms: identity.now_ms(),
        };
        let answer = answer.verify(offer.digest(), &context)?;
        let peer = answer.signer();
        if peer == signer.did() {
            return Err(LinkError::Itself);
        }
        place.admit(peer, own_mark(&signer, &offer))?;
        Ok((peer, answer.sdp().to_owned()))
    }

    /// Waits for the link to `peer` that took another's place.
    async fn wait_for(&self, peer: Did) -> Result<LinkUp, LinkError> {
        let mut changes = self.shared.changes.subscribe();
        let stands = async {
            loop {
                {
                    let registry = lock(&self.shared.registry);
                    if let Some(link) = registry.up_to(peer) {
                        return Ok(LinkUp { link, peer });
                    }
                    if !registry.may_reach(peer) {
                        return Err(LinkError::Crossed { peer });
                    }
                }
                if changes.changed().await.is_err() {
                    return Err(LinkError::ShuttingDown);
                }
            }
        };
        let deadline = self.shared.config.handshake_deadline();
        let waited = timeout(deadline, stands).await;
        waited.unwrap_or(Err(LinkError::Crossed { peer }))
    }

    /// What a handshake gives, unless the node shuts down first.
    async fn unless_stopping<T>(
        &self,
        handshake: impl Future<Output = Result<T, LinkError>>,
    ) -> Result<T, LinkError> {
        tokio::select! {
            given = handshake => given,
            () = self.shared.stopping(Stopping::InOrder) => Err(LinkError::ShuttingDown),
        }
    }

    async fn within_signal_deadline(
        &self,
        described: impl Future<Output = Result<String, TransportError>>,
    ) -> Result<String, LinkError> {
        let deadline = self.shared.config.signal_deadline();
        let described = timeout(deadline, described).await;
        Ok(described.unwrap_or(Err(TransportError::Closed))?)
    }

    fn life(&self) -> Life {
        Life {
            issued_ms: self.shared.identity.now_ms(),
            ttl_ms: SIGNAL_TTL_DEFAULT_MS,
        }
    }

    fn link(&self, place: &Place, peer: Did, url: Option<String>, byte_window: u32) -> Arc<Link> {
        let config = &self.shared.config;
        let [
            seed @ ..,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
        ] = self.shared.identity.nonce();
        let mut session = SessionConfig::new(self.shared.identity.signer().network());
        session.windows = Windows::sized(byte_window);
        session.quota = config.quota;
        session.jitter_seed = u64::from_le_bytes(seed);
        session.handshake_deadline_ms = config.handshake_deadline_ms;
        session.fin_deadline_ms = config.fin_deadline_ms;
        let now_ms = u64::try_from(self.shared.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        let session = Session::new(session, now_ms);
        let epoch = self.shared.epoch;
        Arc::new(Link::new(place.id, peer, url, byte_window, session, epoch))
    }

    /// Sets the link's driver to work, which then owns its place.
    async fn run(
        &self,
        place: Place,
        link: Arc<Link>,
        opened: Opened,
    ) -> Result<oneshot::Receiver<Result<(), DownReason>>, LinkError> {
        let Opened { transport, events } = opened;
        let attached = lock(&self.shared.registry).attach(place.id, Arc::clone(&link));
        if let Err(error) = attached {
            transport.close().await;
            return Err(error);
        }
        let (opened, opens) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        let driver = Driver::new(link, shared, transport, events, opened);
        place.keep();
        tokio::spawn(driver.run());
        Ok(opens)
    }
}

fn mark(offer: &Verified<Offer>) -> Mark {
    Mark {
        offerer: offer.signer(),
        issued_ms: offer.life().issued_ms,
        nonce: *offer.nonce(),
    }
}

fn own_mark(signer: &Signer, offer: &Offer) -> Mark {
    Mark {
        offerer: signer.did(),
        issued_ms: offer.life().issued_ms,
        nonce: *offer.nonce(),
    }
}

/// A handshake's place in the registry, given back when it is dropped.
#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
    id: LinkId,
    kept: bool,
}

impl Place {
    fn begin(shared: &Arc<Shared>, direction: Direction) -> Result<Self, LinkError> {
        let id = lock(&shared.registry).begin(direction)?;
        Ok(Self {
            shared: Arc::clone(shared),
            id,
            kept: false,
        })
    }

    fn admit(&self, peer: Did, mark: Mark) -> Result<(), LinkError> {
        lock(&self.shared.registry).admit(self.id, peer, mark)
    }

    /// The driver gives it back.
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.kept {
            lock(&self.shared.registry).remove(self.id);
            self.shared.changed();
        }
    }
}
