//! The WebRTC implementation of [`Transport`].
//!
//! The crate beneath has faults that are mended here or in the link above (each has a test in
//! `link::tests` that fails without its remedy):
//!
//! * it parks more than 256 undrained messages of a channel and may then sleep: every channel has
//!   something of its own that drains it at once, and credit keeps the burst smaller;
//! * its send buffer is unbounded: [`SEND_BUFFER_MAX_BYTES`] is always set, and every send has a
//!   deadline;
//! * it tells of a vanished peer after half a minute: its ICE timeouts are shortened, its state
//!   ends the link, and a disturbed connection asks whether the far socket is still there
//!   (`probe`);
//! * what it hands to its TURN client waits for something else to wake it, and a channel that it bound
//!   on the server is lost with an old nonce (`relay`);
//! * dropping a connection does not stop its driver: the last handle closes it;
//! * Ed25519 certificates fail in DTLS: the certificate is ECDSA on P-256, one a connection.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use overlane_core::Class;
use overlane_core::wire::bounds::FRAME_MAX_BYTES;
use rtc::peer_connection::certificate::CertificateParams;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use webrtc::data_channel::{DataChannel, DataChannelEvent, RTCDataChannelInit};
use webrtc::error::Error as RtcError;
use webrtc::peer_connection::crypto::{self, HashAlgorithm, RTCCryptoProvider, SignatureScheme};
use webrtc::peer_connection::{
    PeerConnection, PeerConnectionBuilder, PeerConnectionEventHandler, RTCCertificate,
    RTCConfigurationBuilder, RTCIceCandidateType, RTCIceGatheringState, RTCPeerConnectionIceEvent,
    RTCPeerConnectionState, RTCSessionDescription,
};

use super::beside::{Until, Work};
use super::count::Held;
use super::ice::{GATHER_DEADLINE_MS, Gathering, LinkPath};
use super::probe;
use super::relay::Rounds;
use super::sdp::{self, Fingerprint, Reach, SdpError};
use super::settings::{servers, settings};
use super::socket::{FarEnd, LinkRuntime, byte_window, window_scale_max};
use super::transport::{
    Connector, EVENTS_MAX, Ended, Opened, SEND_BUFFER_MAX_BYTES, Transport, TransportError,
    TransportEvent,
};
use super::tried::{Attempt, AttemptEnd, Attempts};

mod bound;

pub use super::settings::{CHECKS_PER_OFFER_MAX, ConnectionConfig};

/// Makes WebRTC connections.
#[derive(Debug)]
pub struct WebRtc {
    config: ConnectionConfig,
    held: Held,
}

impl WebRtc {
    /// Connections of this form; what they hold of the system is counted in `held`.
    pub fn new(config: ConnectionConfig, held: Held) -> Self {
        Self { config, held }
    }

    pub(crate) async fn connect(
        &self,
    ) -> Result<(Arc<Connection>, mpsc::Receiver<TransportEvent>), TransportError> {
        let crypto = crypto::default_provider().map_err(|error| open_error(&error))?;
        let certificate = certificate(crypto.as_ref()).map_err(|error| open_error(&error))?;
        let runtime = Arc::new(LinkRuntime::new(
            self.held.clone(),
            self.config.receive_buffer_bytes,
            self.config.asks_relays(),
        ));
        let (state, _) = watch::channel(State::default());
        let state = Arc::new(state);
        let peer_connection = self.bound(&certificate, &state, &runtime).await?;
        let channels = match open_channels(peer_connection.as_ref()).await {
            Ok(channels) => channels,
            Err(error) => {
                let _ = peer_connection.close().await;
                return Err(open_error(&error));
            }
        };

        let (event_tx, events) = mpsc::channel(EVENTS_MAX);
        let mut tasks = JoinSet::new();
        let (proved, proves) = watch::channel(false);
        let mut drains = Vec::with_capacity(channels.len());
        for (class, channel) in Class::ALL.into_iter().zip(&channels) {
            let channel = Arc::clone(channel);
            let drain = drain(class, channel, proves.clone(), event_tx.clone());
            drains.push(runtime.beside().add_until(Box::pin(drain)));
        }
        let (expected, expects) = watch::channel(None);
        let far_host = Arc::new(OnceLock::new());
        tasks.spawn(watch_state(
            state.subscribe(),
            expects,
            proved,
            Arc::downgrade(&peer_connection),
            (crypto, self.config.require_direct),
            Far {
                bind: self.config.bind,
                end: runtime.far_end(),
                rounds: runtime.rounds().clone(),
                tries: Tries {
                    gathering: runtime.gathering().clone(),
                    attempts: self.config.ice_servers.attempts().clone(),
                },
                host: Arc::clone(&far_host),
            },
            event_tx,
        ));
        let connection = Connection {
            peer_connection,
            channels,
            state,
            expected,
            reach: Reach::of(self.config.bind),
            config: self.config.clone(),
            runtime,
            far_host,
            closed: AtomicBool::new(false),
            tasks: std::sync::Mutex::new((drains, tasks)),
        };
        Ok((Arc::new(connection), events))
    }
}

#[async_trait]
impl Connector for WebRtc {
    async fn open(&self) -> Result<Opened, TransportError> {
        let (transport, events) = self.connect().await?;
        Ok(Opened { transport, events })
    }

    fn check(&self, sdp: &str) -> Result<(), SdpError> {
        sdp::check(sdp, Reach::of(self.config.bind)).map(drop)
    }
}

fn certificate(crypto: &dyn RTCCryptoProvider) -> Result<RTCCertificate, RtcError> {
    let params = CertificateParams::new(vec!["overlane".to_owned()])
        .map_err(|error| RtcError::Other(error.to_string()))?;
    RTCCertificate::generate(crypto.crypto(), SignatureScheme::EcdsaP256Sha256, params)
}

async fn open_channels(
    peer_connection: &dyn PeerConnection,
) -> Result<Vec<Arc<dyn DataChannel>>, RtcError> {
    let mut channels = Vec::with_capacity(Class::ALL.len());
    for class in Class::ALL {
        let init = RTCDataChannelInit {
            ordered: true,
            negotiated: Some(u16::from(class.index())),
            ..RTCDataChannelInit::default()
        };
        channels.push(
            peer_connection
                .create_data_channel(class.name(), Some(init))
                .await?,
        );
    }
    Ok(channels)
}

fn open_error(error: &impl fmt::Display) -> TransportError {
    TransportError::Open(error.to_string())
}

/// What the crate's driver told. Only the latest counts, so telling never waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct State {
    gathered: bool,
    foreign_channel: bool,
    connection: RTCPeerConnectionState,
}

/// Hears the driver. It runs on the driver's own task, so nothing in it may wait.
struct Handler(Arc<watch::Sender<State>>, Gathering);

#[async_trait]
impl PeerConnectionEventHandler for Handler {
    async fn on_ice_candidate(&self, event: RTCPeerConnectionIceEvent) {
        let candidate = &event.candidate;
        match candidate.typ {
            RTCIceCandidateType::Relay => self.1.relays(&event.url),
            RTCIceCandidateType::Srflx => {
                let own = (&candidate.related_address, candidate.related_port);
                let seen = (&candidate.address, candidate.port);
                if let Ok(address) = candidate.address.parse::<IpAddr>()
                    && seen != own
                {
                    self.1.mapped((address, candidate.port).into());
                }
            }
            _ => {}
        }
    }

    async fn on_ice_gathering_state_change(&self, gathering: RTCIceGatheringState) {
        let gathered = gathering == RTCIceGatheringState::Complete;
        self.0.send_modify(|state| state.gathered |= gathered);
    }

    async fn on_connection_state_change(&self, connection: RTCPeerConnectionState) {
        tracing::debug!(?connection, "connection state");
        self.0.send_modify(|state| state.connection = connection);
    }

    async fn on_data_channel(&self, _channel: Arc<dyn DataChannel>) {
        self.0.send_modify(|state| state.foreign_channel = true);
    }
}

/// Drains one channel at once, whatever becomes of the others: the crate stops reading all of
/// them while one has more than it parks. Law (proved first): nothing is told of a channel before
/// the certificate at its other end is proved to be the one that was signed for.
async fn drain(
    class: Class,
    channel: Arc<dyn DataChannel>,
    mut proves: watch::Receiver<bool>,
    events: mpsc::Sender<TransportEvent>,
) {
    if proves.wait_for(|proved| *proved).await.is_err() {
        return;
    }
    while let Some(event) = channel.poll().await {
        let event = match event {
            DataChannelEvent::OnOpen => TransportEvent::Open(class),
            DataChannelEvent::OnMessage(message) => {
                TransportEvent::Message(class, message.data.freeze())
            }
            DataChannelEvent::OnClose => TransportEvent::Ended(Ended::Closed),
            _ => continue,
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
    // Whatever stopped the stack, a driver that died without a word included.
    let _ = events.send(TransportEvent::Ended(Ended::Closed)).await;
}

/// Turns the connection's state into the event that ends it, and holds the certificate that DTLS
/// proved against the fingerprint that was signed.
async fn watch_state(
    mut states: watch::Receiver<State>,
    expects: watch::Receiver<Option<Fingerprint>>,
    proved: watch::Sender<bool>,
    peer_connection: std::sync::Weak<dyn PeerConnection>,
    (crypto, require_direct): (Arc<dyn RTCCryptoProvider>, bool),
    far: Far,
    events: mpsc::Sender<TransportEvent>,
) {
    let mut told_disturbed = false;
    loop {
        let disturbed = states.borrow().connection == RTCPeerConnectionState::Disconnected;
        if disturbed != told_disturbed {
            told_disturbed = disturbed;
            let _ = events.send(TransportEvent::Disturbed(disturbed)).await;
        }
        tokio::select! {
            changed = states.changed() => if changed.is_err() { return },
            () = far.is_closed(), if disturbed => {
                let _ = events.send(TransportEvent::Ended(Ended::Vanished)).await;
                return;
            }
        }
        let state = *states.borrow_and_update();
        let ended = match state.connection {
            _ if state.foreign_channel => Some(Ended::ForeignChannel),
            RTCPeerConnectionState::Failed => {
                if !*proved.borrow() {
                    far.tries.note_failed();
                }
                Some(Ended::Lost)
            }
            RTCPeerConnectionState::Closed => Some(Ended::Closed),
            RTCPeerConnectionState::Connected if !*proved.borrow() => {
                let Some(peer_connection) = peer_connection.upgrade() else {
                    return;
                };
                let seen = seen_fingerprint(peer_connection.as_ref(), crypto.as_ref()).await;
                let right = seen.is_some() && seen == *expects.borrow();
                let taken = taken(peer_connection.as_ref()).await;
                let path = taken.map(|it| it.path);
                if let Some(taken) = taken {
                    far.rounds.set_relays(taken.by_own_relay);
                    if let Some(host) = taken.far_host {
                        // As with the way: the first one stands.
                        let _ = far.host.set(host);
                    }
                }
                if !right {
                    far.tries.note(AttemptEnd::WrongCertificate);
                    Some(Ended::WrongCertificate)
                } else if require_direct && path.is_none_or(|it| it == LinkPath::Relayed) {
                    far.tries.note(AttemptEnd::Relayed);
                    Some(Ended::Relayed)
                } else {
                    far.tries.note(AttemptEnd::Connected(path));
                    if let Some(path) = path {
                        let _ = events.send(TransportEvent::Path(path)).await;
                    }
                    proved.send_replace(true);
                    None
                }
            }
            _ => None,
        };
        if let Some(ended) = ended {
            let _ = events.send(TransportEvent::Ended(ended)).await;
            return;
        }
    }
}

/// What the connection tries, and where that is kept.
struct Tries {
    gathering: Gathering,
    attempts: Attempts,
}

impl Tries {
    fn note(&self, end: AttemptEnd) {
        self.attempts.note(Attempt {
            at: std::time::Instant::now(),
            end,
            ways: self.gathering.ways(),
        });
    }

    fn note_failed(&self) {
        let answered = self.gathering.ways().iter().any(|it| it.answered);
        self.note(match answered {
            true => AttemptEnd::NotProved,
            false => AttemptEnd::Silent,
        });
    }
}

/// The other end's socket, where to ask from, the rounds of the driver in between, and what was tried to get there.
struct Far {
    bind: IpAddr,
    end: FarEnd,
    rounds: Rounds,
    tries: Tries,
    /// Its address, once the way is known and no server stands between.
    host: Arc<OnceLock<IpAddr>>,
}

impl Far {
    /// Resolves once its host says that it is closed.
    async fn is_closed(&self) {
        match self.end.address() {
            Some(address) => probe::closed(self.bind, address).await,
            None => std::future::pending().await,
        }
    }
}

/// The fingerprint of the certificate that the other side proved to hold.
async fn seen_fingerprint(
    peer_connection: &dyn PeerConnection,
    crypto: &dyn RTCCryptoProvider,
) -> Option<Fingerprint> {
    let dtls = peer_connection.sctp().await?.transport();
    let certificates = dtls.get_remote_certificates().await.ok()?;
    let hash = crypto
        .crypto()
        .hash(HashAlgorithm::Sha256, certificates.first()?)
        .ok()?;
    hash.try_into().ok().map(Fingerprint)
}

/// The way a connection took, by what either side said of the candidate it uses.
#[derive(Debug, Clone, Copy)]
struct TakenWay {
    path: LinkPath,
    /// Whether a server of this node's relays it.
    by_own_relay: bool,
    /// The other side's address, where it is its own.
    far_host: Option<IpAddr>,
}

async fn taken(peer_connection: &dyn PeerConnection) -> Option<TakenWay> {
    let dtls = peer_connection.sctp().await?.transport();
    let pair = dtls.ice_transport().get_selected_candidate_pair().await;
    let pair = pair.ok()??;
    let kinds = [pair.local().typ, pair.remote().typ];
    let path = if kinds.contains(&RTCIceCandidateType::Relay) {
        LinkPath::Relayed
    } else if kinds == [RTCIceCandidateType::Host; 2] {
        LinkPath::Host
    } else {
        LinkPath::Reflexive
    };
    let far = pair.remote();
    let own = far.typ != RTCIceCandidateType::Relay;
    Some(TakenWay {
        path,
        by_own_relay: pair.local().typ == RTCIceCandidateType::Relay,
        far_host: own.then(|| far.address.parse().ok()).flatten(),
    })
}

/// One WebRTC connection.
pub(crate) struct Connection {
    peer_connection: Arc<dyn PeerConnection>,
    channels: Vec<Arc<dyn DataChannel>>,
    state: Arc<watch::Sender<State>>,
    /// The fingerprint in the other side's session description.
    expected: watch::Sender<Option<Fingerprint>>,
    reach: Reach,
    config: ConnectionConfig,
    runtime: Arc<LinkRuntime>,
    far_host: Arc<OnceLock<IpAddr>>,
    closed: AtomicBool,
    /// What drains the four channels, and the task of the state. They end with the connection.
    tasks: std::sync::Mutex<(Vec<Until>, JoinSet<()>)>,
}

impl Connection {
    #[cfg(test)]
    pub(crate) fn cable(&self) -> super::socket::Cable {
        self.runtime.cable.clone()
    }

    #[cfg(test)]
    pub(crate) fn granted_bytes(&self) -> usize {
        self.runtime.granted_bytes()
    }

    #[cfg(test)]
    pub(crate) fn channel(&self, class: Class) -> Arc<dyn DataChannel> {
        Arc::clone(&self.channels[usize::from(class.index())])
    }

    #[cfg(test)]
    pub(crate) fn peer_connection(&self) -> Arc<dyn PeerConnection> {
        Arc::clone(&self.peer_connection)
    }

    #[cfg(test)]
    pub(crate) fn expect_fingerprint(&self, fingerprint: Fingerprint) {
        self.expected.send_replace(Some(fingerprint));
    }

    /// Applies this side's description and gives it back with every candidate in it.
    async fn gather(&self, local: RTCSessionDescription) -> Result<String, TransportError> {
        self.peer_connection
            .set_local_description(local)
            .await
            .map_err(negotiation("gather candidates"))?;
        let mut states = self.state.subscribe();
        let gathered = states.wait_for(|state| state.gathered);
        if self.config.own_candidates_max() == 1 {
            gathered.await.map_err(|_| TransportError::Closed)?;
        } else {
            // What has not come by then is left out: no server holds a link up.
            let deadline = Duration::from_millis(GATHER_DEADLINE_MS);
            if let Ok(ended) = tokio::time::timeout(deadline, gathered).await {
                ended.map_err(|_| TransportError::Closed)?;
            }
            let servers = &self.config.ice_servers;
            servers.judge(self.runtime.gathering(), |it| self.config.asks(it));
        }
        self.peer_connection
            .local_description()
            .await
            .map(|description| sdp::told(&description.sdp, self.reach))
            .ok_or(TransportError::Closed)
    }

    async fn set_remote(
        &self,
        sdp: &str,
        parse: fn(String) -> Result<RTCSessionDescription, RtcError>,
    ) -> Result<(), TransportError> {
        let fingerprint = sdp::check(sdp, self.reach)?;
        let refused = negotiation("take the peer's session description");
        let remote = parse(sdp.to_owned()).map_err(&refused)?;
        self.runtime.gathering().offered(sdp::offered(sdp));
        self.expected.send_replace(Some(fingerprint));
        self.peer_connection
            .set_remote_description(remote)
            .await
            .map_err(&refused)
    }
}

fn negotiation(action: &'static str) -> impl Fn(RtcError) -> TransportError {
    move |error| TransportError::Negotiation {
        action,
        cause: error.to_string(),
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("state", &*self.state.borrow())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Transport for Connection {
    async fn offer(&self) -> Result<String, TransportError> {
        let offer = self
            .peer_connection
            .create_offer(None)
            .await
            .map_err(negotiation("make an offer"))?;
        self.gather(offer).await
    }

    async fn answer(&self, offer: &str) -> Result<String, TransportError> {
        self.set_remote(offer, RTCSessionDescription::offer).await?;
        let answer = self
            .peer_connection
            .create_answer(None)
            .await
            .map_err(negotiation("make an answer"))?;
        self.gather(answer).await
    }

    async fn conclude(&self, answer: &str) -> Result<(), TransportError> {
        self.set_remote(answer, RTCSessionDescription::answer).await
    }

    async fn send(
        &self,
        class: Class,
        message: Vec<u8>,
        deadline: Duration,
    ) -> Result<(), TransportError> {
        if message.len() > FRAME_MAX_BYTES {
            return Err(TransportError::MessageTooLong {
                bytes: message.len(),
            });
        }
        let channel = self
            .channels
            .get(usize::from(class.index()))
            .ok_or(TransportError::Closed)?;
        let sent =
            tokio::time::timeout(deadline, channel.send(BytesMut::from(Bytes::from(message))))
                .await;
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(TransportError::Closed),
            Err(_) => Err(TransportError::SendDeadline {
                class,
                deadline_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
            }),
        }
    }

    fn beside(&self, work: Work) {
        self.runtime.beside().add(work);
    }

    fn far_host(&self) -> Option<IpAddr> {
        self.far_host.get().copied()
    }

    fn byte_window(&self) -> u32 {
        byte_window(self.runtime.granted_bytes())
    }

    fn window_scale_max(&self) -> u8 {
        window_scale_max(self.runtime.granted_bytes())
    }

    async fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Err(error) = self.peer_connection.close().await {
            tracing::debug!(%error, "closing a connection");
        }
        if let Ok(mut tasks) = self.tasks.lock() {
            tasks.0.clear();
            tasks.1.abort_all();
        }
    }
}
