//! A STUN and TURN server on loopback that does as a test says, and links by way of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rtc::stun::attributes::{ATTR_NONCE, ATTR_REALM, ATTR_USERNAME};
use rtc::stun::error_code::{CODE_BAD_REQUEST, CODE_STALE_NONCE, CODE_UNAUTHORIZED, ErrorCode};
use rtc::stun::message::{
    CLASS_ERROR_RESPONSE, CLASS_INDICATION, CLASS_SUCCESS_RESPONSE, Getter, METHOD_ALLOCATE,
    METHOD_BINDING, METHOD_CHANNEL_BIND, METHOD_CREATE_PERMISSION, METHOD_DATA, METHOD_REFRESH,
    METHOD_SEND, Message, MessageClass, MessageType, Method, Setter, TransactionId,
};
use rtc::stun::textattrs::{Nonce, Realm};
use rtc::stun::xoraddr::XorMappedAddress;
use rtc::turn::proto::data::Data;
use rtc::turn::proto::lifetime::Lifetime;
use rtc::turn::proto::peeraddr::PeerAddress;
use rtc::turn::proto::relayaddr::RelayedAddress;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use super::must;
use super::node::{Identity, Node, Pair, frame};
use super::wrap::{Trick, Tricky};
use crate::link::connection::ConnectionConfig;
use crate::link::count::Held;
use crate::link::ice::{IceServer, IceServerState, IceServers, LinkPath};
use crate::link::transport::Ended;
use crate::link::tried::{AttemptEnd, Nat, Way};
use crate::link::{DownReason, LinkConfig, LinkError};
use overlane_core::{Class, Coded};

/// What the server does that another would not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Manners {
    /// It takes nobody's credentials.
    pub(super) refuses: bool,
    /// Every nonce is old once it was used.
    pub(super) forgets_nonces: bool,
    /// It tells each client an address that it does not have.
    pub(super) lies_of_addresses: bool,
}

/// What it was asked.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) channel_binds: AtomicUsize,
    pub(super) stale: AtomicUsize,
    pub(super) relayed: AtomicUsize,
}

/// The server; it ends when it is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) seen: Arc<Seen>,
    allocations: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(super) async fn new(manners: Manners) -> Self {
        Self::at(UdpSocket::bind("127.0.0.1:0").await.unwrap(), manners)
    }

    fn at(socket: UdpSocket, manners: Manners) -> Self {
        let socket = Arc::new(socket);
        let address = socket.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let (count, allocations) = watch::channel(0);
        let desk = Desk {
            socket,
            manners,
            seen: Arc::clone(&seen),
            count,
            clients: BTreeMap::new(),
            nonce: 0,
        };
        Self {
            address,
            seen,
            allocations,
            task: tokio::spawn(desk.serve()),
        }
    }

    pub(super) fn stun(&self) -> IceServer {
        IceServer::new(&format!("stun:{}", self.address), None, None).unwrap()
    }

    pub(super) fn turn(&self) -> IceServer {
        let url = format!("turn:{}", self.address);
        IceServer::new(&url, Some("me"), Some("s3cret")).unwrap()
    }

    /// Waits until it holds as many allocations.
    async fn holds(&mut self, many: usize) {
        let held = self.allocations.wait_for(|held| *held == many);
        must("the allocations", held).await.unwrap();
    }
}

struct Client {
    relay: Arc<UdpSocket>,
    permitted: watch::Sender<BTreeSet<IpAddr>>,
    listens: AbortHandle,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.listens.abort();
    }
}

struct Desk {
    socket: Arc<UdpSocket>,
    manners: Manners,
    seen: Arc<Seen>,
    count: watch::Sender<usize>,
    clients: BTreeMap<SocketAddr, Client>,
    nonce: usize,
}

type Attributes = Vec<Box<dyn Setter>>;

impl Desk {
    async fn serve(mut self) {
        let mut buffer = [0; 2_000];
        loop {
            let (bytes, from) = self.socket.recv_from(&mut buffer).await.unwrap();
            let mut request = Message::new();
            request.raw = buffer[..bytes].to_vec();
            if request.decode().is_err() {
                continue;
            }
            if request.typ.class == CLASS_INDICATION {
                self.relay(&request, from).await;
                continue;
            }
            let (class, attributes) = match self.answer(&request, from).await {
                Ok(attributes) => (CLASS_SUCCESS_RESPONSE, attributes),
                Err(code) => (CLASS_ERROR_RESPONSE, self.refusal(code)),
            };
            let id = request.transaction_id;
            let answer = message(request.typ.method, class, id, attributes);
            self.socket.send_to(&answer, from).await.unwrap();
            self.count.send_replace(self.clients.len());
        }
    }

    async fn answer(
        &mut self,
        request: &Message,
        from: SocketAddr,
    ) -> Result<Attributes, ErrorCode> {
        let shift = u16::from(self.manners.lies_of_addresses);
        let mapped = XorMappedAddress {
            ip: from.ip(),
            port: from.port() ^ shift,
        };
        if request.typ.method == METHOD_BINDING {
            return Ok(vec![Box::new(mapped)]);
        }
        if !request.contains(ATTR_USERNAME) || self.manners.refuses {
            return Err(CODE_UNAUTHORIZED);
        }
        let nonce = Nonce::get_from_as(request, ATTR_NONCE).unwrap().text;
        if nonce != self.nonce.to_string() {
            self.seen.stale.fetch_add(1, Ordering::Relaxed);
            return Err(CODE_STALE_NONCE);
        }
        self.nonce += usize::from(self.manners.forgets_nonces);
        match request.typ.method {
            METHOD_ALLOCATE => {
                let relay = self.allocate(from).await;
                let (ip, port) = (relay.ip(), relay.port());
                Ok(vec![
                    Box::new(RelayedAddress { ip, port }),
                    Box::new(Lifetime(Duration::from_secs(600))),
                    Box::new(mapped),
                ])
            }
            METHOD_REFRESH => {
                let mut lifetime = Lifetime::default();
                lifetime.get_from(request).unwrap();
                if lifetime.0.is_zero() {
                    self.clients.remove(&from);
                }
                Ok(vec![Box::new(lifetime)])
            }
            METHOD_CREATE_PERMISSION => {
                let peer = peer_of(request);
                let client = self.clients.get(&from).unwrap();
                client.permitted.send_modify(|it| it.extend([peer.ip()]));
                Ok(Vec::new())
            }
            METHOD_CHANNEL_BIND => {
                self.seen.channel_binds.fetch_add(1, Ordering::Relaxed);
                Err(CODE_BAD_REQUEST)
            }
            method => panic!("asked for {method}"),
        }
    }

    fn refusal(&self, code: ErrorCode) -> Attributes {
        let attribute = rtc::stun::error_code::ErrorCodeAttribute {
            code,
            reason: Vec::new(),
        };
        vec![
            Box::new(attribute),
            Box::new(Realm::new(ATTR_REALM, "test".to_owned())),
            Box::new(Nonce::new(ATTR_NONCE, self.nonce.to_string())),
        ]
    }

    async fn allocate(&mut self, from: SocketAddr) -> SocketAddr {
        let relay = Arc::new(UdpSocket::bind((from.ip(), 0)).await.unwrap());
        let address = relay.local_addr().unwrap();
        let (permitted, permits) = watch::channel(BTreeSet::new());
        let (heard, back) = (Arc::clone(&relay), Arc::clone(&self.socket));
        let listens = tokio::spawn(async move {
            let mut buffer = [0; 2_000];
            loop {
                let (bytes, peer) = heard.recv_from(&mut buffer).await.unwrap();
                if permits.borrow().contains(&peer.ip()) {
                    let data = indication(peer, buffer[..bytes].to_vec());
                    back.send_to(&data, from).await.unwrap();
                }
            }
        });
        let client = Client {
            relay,
            permitted,
            listens: listens.abort_handle(),
        };
        self.clients.insert(from, client);
        address
    }

    /// Passes on what a client sends to a peer that it has a permission for.
    async fn relay(&self, indication: &Message, from: SocketAddr) {
        assert_eq!(indication.typ.method, METHOD_SEND);
        let mut data = Data::default();
        data.get_from(indication).unwrap();
        let (client, peer) = (self.clients.get(&from).unwrap(), peer_of(indication));
        assert!(client.permitted.borrow().contains(&peer.ip()));
        client.relay.send_to(&data.0, peer).await.unwrap();
        self.seen.relayed.fetch_add(1, Ordering::Relaxed);
    }
}

fn peer_of(request: &Message) -> SocketAddr {
    let mut peer = PeerAddress::default();
    peer.get_from(request).unwrap();
    SocketAddr::new(peer.ip, peer.port)
}

fn indication(peer: SocketAddr, data: Vec<u8>) -> Vec<u8> {
    let (ip, port) = (peer.ip(), peer.port());
    let attributes: Attributes = vec![Box::new(PeerAddress { ip, port }), Box::new(Data(data))];
    message(
        METHOD_DATA,
        CLASS_INDICATION,
        TransactionId::new(),
        attributes,
    )
}

fn message(method: Method, class: MessageClass, id: TransactionId, more: Attributes) -> Vec<u8> {
    let mut setters: Attributes = vec![Box::new(id), Box::new(MessageType::new(method, class))];
    setters.extend(more);
    let mut message = Message::new();
    message.build(&setters).unwrap();
    message.raw
}

/// Links that ask these servers.
fn asking(servers: Vec<IceServer>) -> LinkConfig {
    LinkConfig {
        connection: ConnectionConfig {
            ice_servers: IceServers::new(servers).unwrap(),
            ..ConnectionConfig::default()
        },
        ..LinkConfig::default()
    }
}

/// A node from which nothing leads to its peers but by way of a server.
async fn walled(seed: u8, config: LinkConfig) -> Node {
    let held = Held::default();
    let connector = Tricky::new(config.connection.clone(), held.clone(), Trick::Walled);
    Node::over(Identity::new(seed), config, connector, held).await
}

fn state(node: &Node) -> Vec<IceServerState> {
    node.links.ice_servers().iter().map(|(_, it)| it).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_by_way_of_a_turn_server_carries_both_ways_and_gives_its_places_back() {
    let mut server = Server::new(Manners::default()).await;
    let (a, b) = relayed_both_ways(&mut server).await;
    assert_eq!(server.seen.channel_binds.load(Ordering::Relaxed), 0);
    must("the end", a.links.shutdown()).await;
    must("the end", b.links.shutdown()).await;
    server.holds(0).await;
}

/// As that of a server whose nonces live ten minutes, after ten minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_server_whose_nonces_are_good_for_one_request_relays() {
    let forgets_nonces = true;
    let mut server = Server::new(Manners {
        forgets_nonces,
        ..Manners::default()
    })
    .await;
    relayed_both_ways(&mut server).await;
    assert!(server.seen.stale.load(Ordering::Relaxed) > 0);
}

/// Two nodes with nothing but the server between them, once each heard all that the other sent.
async fn relayed_both_ways(server: &mut Server) -> (Node, Node) {
    let config = asking(vec![server.turn()]);
    let (a, b) = tokio::join!(walled(1, config.clone()), walled(2, config));
    let Pair {
        mut a,
        mut b,
        at_a,
        at_b,
    } = Pair::of(a, b).await;
    server.holds(2).await;
    for node in [&a, &b] {
        assert_eq!(node.links.status()[0].path, Some(LinkPath::Relayed));
        assert_eq!(state(node), [IceServerState::Works]);
    }
    const COUNT: u32 = 25;
    for number in 0..COUNT {
        for class in Class::ALL {
            a.links.send(at_a, class, frame(number)).unwrap();
            b.links.send(at_b, class, frame(number)).unwrap();
        }
        for node in [&mut a, &mut b] {
            for _ in Class::ALL {
                let (link, class, bytes) = node.frame().await;
                assert_eq!(bytes, frame(number), "{class}");
                node.links.taken(link, class, 1);
            }
        }
    }
    assert!(server.seen.relayed.load(Ordering::Relaxed) > 0);
    (a, b)
}

/// The crate sets the address of such a server without brackets, and asks for it so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_server_at_an_ipv6_address_relays() {
    let here = IpAddr::from(std::net::Ipv6Addr::LOCALHOST);
    let Ok(socket) = UdpSocket::bind((here, 0)).await else {
        eprintln!("skipped: this machine has no IPv6");
        return;
    };
    let mut server = Server::at(socket, Manners::default());
    let mut config = asking(vec![server.turn(), server.stun()]);
    config.connection.bind = here;
    let (a, b) = tokio::join!(walled(1, config.clone()), walled(2, config));
    let Pair { a, b, .. } = Pair::of(a, b).await;
    server.holds(2).await;
    for node in [&a, &b] {
        assert_eq!(node.links.status()[0].path, Some(LinkPath::Relayed));
        assert_eq!(state(node), [IceServerState::Works; 2]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_server_that_refuses_is_said_and_holds_up_nothing() {
    let server = Server::new(Manners {
        refuses: true,
        ..Manners::default()
    })
    .await;
    let config = asking(vec![server.turn(), server.stun()]);
    let a = Node::with(Identity::new(1), config).await;
    let Pair { a, .. } = Pair::of(a, Node::new(2).await).await;
    assert_eq!(a.links.status()[0].path, Some(LinkPath::Host));
    assert_eq!(state(&a), [IceServerState::Refused, IceServerState::Works]);
    // No NAT is between; the address that the peer offered answered, and the link came up by it.
    assert_eq!(a.links.ice_servers().nat(), Nat::None);
    let tried = a.links.ice_servers().attempts().kept();
    let [tried] = tried.as_slice() else {
        panic!("{tried:?}");
    };
    assert_eq!(tried.end, AttemptEnd::Connected(Some(LinkPath::Host)));
    let host = |it: &Way| it.kind == LinkPath::Host && it.answered;
    assert!(
        tried.ways.len() == 1 && tried.ways.iter().all(host),
        "{tried:?}"
    );
}

/// The node that wants direct links asks no server to relay, and takes no link that another's does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_a_relayed_link_is_refused_where_links_are_to_be_direct() {
    let server = Server::new(Manners::default()).await;
    let mut direct = asking(vec![server.turn()]);
    direct.connection.require_direct = true;
    direct.dial_attempts = 1;
    let mut a = Node::with(Identity::new(1), direct).await;
    let mut b = walled(2, asking(vec![server.turn()])).await;
    let refused = must("a refusal", a.links.dial(&b.url)).await.unwrap_err();
    let LinkError::NotOpened { peer, reason } = refused else {
        panic!("{refused}");
    };
    assert_eq!(peer, b.did());
    assert_eq!(reason, DownReason::Transport(Ended::Relayed));
    assert_eq!(a.links.not_opened(), BTreeMap::from([(reason.code(), 1)]));
    assert_eq!(state(&a), [IceServerState::Unasked]);
    let tried = a.links.ice_servers().attempts().kept();
    assert_eq!(tried.last().map(|it| it.end), Some(AttemptEnd::Relayed));
    must("the release", a.links.held().all_released()).await;
    must("the release", b.links.held().all_released()).await;
    assert!(a.events.try_recv().is_err());
    assert!(b.events.try_recv().is_err());
}
