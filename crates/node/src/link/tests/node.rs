//! A node of links alone: an identity, the links, and a listener for offers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use overlane_core::identity::{Account, Delegatee, Delegation, Life, Signer, VerifyContext};
use overlane_core::wire::bounds::BATCH_MAX_BYTES;
use overlane_core::wire::frame::PAYLOAD_MARKER;
use overlane_core::{Class, Did, NetworkId};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

use super::must;
use crate::link::count::Held;
use crate::link::server::{ServerLimits, serve};
use crate::link::transport::Connector;
use crate::link::{DownReason, LinkConfig, LinkEvent, LinkId, LinkIdentity, LinkUp, Links, signal};

/// The instant that test clocks begin at.
pub(super) const START_MS: u64 = 1_700_000_000_000;

pub(super) const NETWORK: NetworkId = NetworkId(7);

/// An identity with a clock that only its test moves.
#[derive(Debug)]
pub(in crate::link) struct Identity {
    signer: Signer,
    now_ms: AtomicU64,
    nonces: AtomicU64,
    seed: u8,
}

impl Identity {
    pub(in crate::link) fn new(seed: u8) -> Arc<Self> {
        Self::of(seed, NETWORK)
    }

    pub(super) fn of(seed: u8, network: NetworkId) -> Arc<Self> {
        let account = Account::ed25519(Zeroizing::new([seed; 32])).unwrap();
        let delegatee = Delegatee::from_seed(Zeroizing::new([seed ^ 0xff; 32]));
        let life = Life {
            issued_ms: START_MS,
            ttl_ms: 86_400_000,
        };
        let delegation = Delegation::issue(&account, &delegatee, network, life).unwrap();
        let context = VerifyContext {
            network,
            now_ms: START_MS,
        };
        let delegation = delegation.verify(&context).unwrap();
        Arc::new(Self {
            signer: Signer::new(delegatee, delegation).unwrap(),
            now_ms: AtomicU64::new(START_MS),
            nonces: AtomicU64::new(0),
            seed,
        })
    }

    pub(super) fn advance(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl LinkIdentity for Identity {
    fn signer(&self) -> Signer {
        self.signer.clone()
    }

    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn nonce(&self) -> [u8; 32] {
        let count = self.nonces.fetch_add(1, Ordering::SeqCst);
        let mut nonce = [self.seed; 32];
        nonce[..8].copy_from_slice(&count.to_be_bytes());
        nonce
    }
}

/// Two identities, the one with the smaller Did first.
pub(super) fn smaller_first() -> [Arc<Identity>; 2] {
    let mut both = [Identity::new(1), Identity::new(2)];
    both.sort_by_key(|identity| identity.signer().did());
    both
}

/// One node.
pub(super) struct Node {
    pub(super) links: Links,
    pub(super) events: mpsc::Receiver<LinkEvent>,
    /// Frames of an event that were not asked for yet.
    came: VecDeque<(LinkId, Class, Bytes)>,
    pub(super) identity: Arc<Identity>,
    pub(super) url: String,
    server: JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Node {
    pub(super) async fn new(seed: u8) -> Self {
        Self::with(Identity::new(seed), LinkConfig::default()).await
    }

    pub(super) async fn with(identity: Arc<Identity>, config: LinkConfig) -> Self {
        let (links, events) = Links::start(config, identity.clone());
        Self::serve(identity, links, events).await
    }

    pub(super) async fn over(
        identity: Arc<Identity>,
        config: LinkConfig,
        connector: Arc<dyn Connector>,
        held: Held,
    ) -> Self {
        let (links, events) = Links::over(connector, held, config, identity.clone());
        Self::serve(identity, links, events).await
    }

    async fn serve(
        identity: Arc<Identity>,
        links: Links,
        events: mpsc::Receiver<LinkEvent>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = signal::router(links.clone());
        let limits = ServerLimits::default();
        let server = tokio::spawn(serve(listener, router, limits, std::future::pending()));
        Self {
            links,
            events,
            came: VecDeque::new(),
            identity,
            url,
            server,
        }
    }

    pub(super) fn did(&self) -> Did {
        self.identity.signer().did()
    }

    pub(super) async fn next(&mut self) -> LinkEvent {
        must("a link event", self.events.recv()).await.unwrap()
    }

    /// The next event, which is a link coming up.
    pub(super) async fn up(&mut self) -> (LinkId, Did) {
        match self.next().await {
            LinkEvent::Up { link, peer, .. } => (link, peer),
            other => panic!("expected a link to come up, got {other:?}"),
        }
    }

    /// The next frame, not taken yet; room is passed over.
    pub(super) async fn frame(&mut self) -> (LinkId, Class, Bytes) {
        loop {
            if let Some(came) = self.came.pop_front() {
                return came;
            }
            match self.next().await {
                LinkEvent::Frames {
                    link,
                    class,
                    frames,
                } => {
                    let frames = frames.into_iter();
                    self.came.extend(frames.map(|frame| (link, class, frame)));
                }
                LinkEvent::Room { .. } => {}
                other => panic!("expected a frame, got {other:?}"),
            }
        }
    }

    /// Why the link is down, whatever comes before.
    pub(super) async fn down(&mut self, of: LinkId) -> DownReason {
        loop {
            if let LinkEvent::Down { link, reason, .. } = self.next().await
                && link == of
            {
                return reason;
            }
        }
    }
}

/// Two nodes with a link that `a` dialled, and its number at each.
pub(super) struct Pair {
    pub(super) a: Node,
    pub(super) b: Node,
    pub(super) at_a: LinkId,
    pub(super) at_b: LinkId,
}

impl Pair {
    pub(super) async fn new() -> Self {
        Self::of(Node::new(1).await, Node::new(2).await).await
    }

    pub(super) async fn of(mut a: Node, mut b: Node) -> Self {
        let up = must("a link", a.links.dial(&b.url)).await.unwrap();
        let (at_a, peer_of_a) = a.up().await;
        let (at_b, peer_of_b) = b.up().await;
        let peer = b.did();
        assert_eq!(up, LinkUp { link: at_a, peer });
        assert_eq!((peer_of_a, peer_of_b), (b.did(), a.did()));
        Self { a, b, at_a, at_b }
    }
}

/// The payload frame with this number.
pub(super) fn frame(number: u32) -> Vec<u8> {
    let mut frame = PAYLOAD_MARKER.to_vec();
    frame.extend(number.to_be_bytes());
    frame
}

/// The payload frame with this number, too large to share a message with another.
pub(super) fn wide(number: u32) -> Vec<u8> {
    let mut frame = frame(number);
    frame.resize(BATCH_MAX_BYTES / 2 + 1, 0);
    frame
}

/// The number of a frame.
pub(super) fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[4..8].try_into().unwrap())
}
