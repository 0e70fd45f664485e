//! Two whole nodes over real WebRTC, with a network between them that loses, delays and reorders:
//! a UDP proxy, by a seed. The delays are the network's; nothing here waits by the clock.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use overlane_core::Class;
use overlane_core::identity::Account;
use overlane_core::transaction::{Message, Namespace};
use overlane_node::link::connection::{ConnectionConfig, WebRtc};
use overlane_node::link::count::Held;
use overlane_node::link::sdp::SdpError;
use overlane_node::link::transport::{Connector, Opened, Transport, TransportError};
use overlane_node::{Node, StoreStatus};
use overlane_storage_native::testkit::MemoryStore;
use tokio::net::UdpSocket;
use zeroize::Zeroizing;

/// What happens to datagrams.
#[derive(Debug, Clone, Copy)]
struct Weather {
    seed: u64,
    /// Of a hundred datagrams, so many are lost.
    lost_percent: u64,
    /// Each takes this long.
    delay_ms: u64,
    /// And up to so much longer, so that later ones overtake it.
    jitter_ms: u64,
}

/// The network: a socket of its own in front of each socket of the nodes, with whose address that one
/// is named in descriptions, and from which its datagrams come.
#[derive(Debug)]
struct Proxy {
    weather: Weather,
    fronts: Mutex<BTreeMap<SocketAddr, Arc<UdpSocket>>>,
    datagrams: AtomicU64,
    lost: AtomicU64,
    overtaken: AtomicU64,
    /// Number of the last datagram that arrived, by the pair of sockets.
    arrived: Mutex<BTreeMap<(SocketAddr, SocketAddr), u64>>,
}

/// What becomes of one datagram: the same of every run's number so many (SplitMix64).
fn drawn(seed: u64, number: u64) -> u64 {
    let mut drawn = seed.wrapping_add((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    drawn ^ (drawn >> 31)
}

impl Proxy {
    fn new(weather: Weather) -> Arc<Self> {
        Arc::new(Self {
            weather,
            fronts: Mutex::default(),
            datagrams: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            overtaken: AtomicU64::new(0),
            arrived: Mutex::default(),
        })
    }

    /// The description with the proxy's addresses in the place of the node's.
    async fn shown(self: &Arc<Self>, sdp: &str) -> String {
        let mut shown = String::new();
        for line in sdp.lines() {
            let mut words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            if line.starts_with("a=candidate:") {
                let address = format!("{}:{}", words[4], words[5]);
                let front = self.front(address.parse().expect("an address")).await;
                words[4] = front.ip().to_string();
                words[5] = front.port().to_string();
            }
            shown += &words.join(" ");
            shown += "\r\n";
        }
        shown
    }

    async fn front(self: &Arc<Self>, behind: SocketAddr) -> SocketAddr {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a socket"));
        let address = front.local_addr().expect("its address");
        let mut fronts = self.fronts.lock().expect("the sockets");
        fronts.insert(behind, Arc::clone(&front));
        drop(fronts);
        let proxy = Arc::clone(self);
        tokio::spawn(async move {
            let mut buffer = [0; 2_048];
            while let Ok((bytes, from)) = front.recv_from(&mut buffer).await {
                proxy.carry(buffer[..bytes].to_vec(), from, behind);
            }
        });
        address
    }

    /// This datagram arrives.
    fn note(&self, number: u64, from: SocketAddr, to: SocketAddr) {
        let mut arrived = self.arrived.lock().expect("the numbers");
        let last = arrived.entry((from, to)).or_default();
        if number < *last {
            self.overtaken.fetch_add(1, Ordering::Relaxed);
        }
        *last = number.max(*last);
    }

    fn carry(self: &Arc<Self>, datagram: Vec<u8>, from: SocketAddr, to: SocketAddr) {
        let fronts = self.fronts.lock().expect("the sockets");
        // One that is not in front of anything yet has not been told of: nobody answers it.
        let Some(front) = fronts.get(&from).cloned() else {
            return;
        };
        drop(fronts);
        let number = self.datagrams.fetch_add(1, Ordering::Relaxed);
        let weather = self.weather;
        let fate = drawn(weather.seed, number);
        if fate % 100 < weather.lost_percent {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let more_ms = (fate >> 32) % (weather.jitter_ms + 1);
        let delay = Duration::from_millis(weather.delay_ms + more_ms);
        let proxy = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            proxy.note(number, from, to);
            let _ = front.send_to(&datagram, to).await;
        });
    }
}

/// WebRTC whose datagrams go through the proxy.
#[derive(Debug)]
struct Through(WebRtc, Arc<Proxy>);

#[async_trait]
impl Connector for Through {
    async fn open(&self) -> Result<Opened, TransportError> {
        let Opened { transport, events } = self.0.open().await?;
        let transport = Arc::new(Behind(transport, Arc::clone(&self.1)));
        Ok(Opened { transport, events })
    }

    fn check(&self, sdp: &str) -> Result<(), SdpError> {
        self.0.check(sdp)
    }
}

#[derive(Debug)]
struct Behind(Arc<dyn Transport>, Arc<Proxy>);

#[async_trait]
impl Transport for Behind {
    async fn offer(&self) -> Result<String, TransportError> {
        Ok(self.1.shown(&self.0.offer().await?).await)
    }

    async fn answer(&self, offer: &str) -> Result<String, TransportError> {
        Ok(self.1.shown(&self.0.answer(offer).await?).await)
    }

    async fn conclude(&self, answer: &str) -> Result<(), TransportError> {
        self.0.conclude(answer).await
    }

    async fn send(&self, class: Class, it: Vec<u8>, by: Duration) -> Result<(), TransportError> {
        self.0.send(class, it, by).await
    }

    fn byte_window(&self) -> u32 {
        self.0.byte_window()
    }

    fn window_scale_max(&self) -> u8 {
        self.0.window_scale_max()
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

async fn node(number: u8, proxy: &Arc<Proxy>) -> Node {
    let held = Held::default();
    let webrtc = WebRtc::new(ConnectionConfig::default(), held.clone());
    let account = Account::ed25519(Zeroizing::new([number; 32])).expect("an account");
    let node = Node::builder()
        .account(account)
        .store(Box::new(MemoryStore::new()))
        .connector(Arc::new(Through(webrtc, Arc::clone(proxy))), held);
    node.spawn().await.expect("a node")
}

fn message(class: Class, body: &[u8]) -> Message<'_> {
    match class {
        Class::Control => Message::Control(body),
        Class::Storage => Message::Storage(body),
        Class::E2e => Message::E2e(body),
        Class::Application => Message::Application {
            namespace: Namespace::new("test").expect("a namespace"),
            body,
        },
    }
}

/// Sends `count` messages of every class at once, each class from a task of its own.
async fn send_all(node: &Node, to: &Node, count: u32) {
    let tasks = Class::ALL.map(|class| {
        let (node, to) = (node.clone(), to.did());
        tokio::spawn(async move {
            for number in 0..count {
                let sent = node.send(to, message(class, &number.to_be_bytes())).await;
                sent.unwrap_or_else(|error| panic!("{class} {number}: {error}"));
            }
        })
    });
    for task in tasks {
        task.await.expect("sent");
    }
}

/// Takes `count` messages of every class, and gives the numbers of each as they came.
async fn take_all(node: &Node, count: u32) -> BTreeMap<Class, Vec<u32>> {
    let messages = node.messages();
    let mut taken = BTreeMap::<Class, Vec<u32>>::new();
    for _ in 0..count * 4 {
        let delivery = messages.next().await.expect("a message");
        let body = delivery.item().message().body().try_into();
        let number = u32::from_be_bytes(body.expect("four bytes"));
        let numbers = taken.entry(delivery.item().class()).or_default();
        numbers.push(number);
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn law_loss_delay_and_reordering_lose_nothing_repeat_nothing_and_keep_the_order() {
    const COUNT: u32 = 30;
    let weather = Weather {
        seed: 11,
        lost_percent: 5,
        delay_ms: 30,
        jitter_ms: 15,
    };
    let proxy = Proxy::new(weather);
    let (here, there) = tokio::join!(node(1, &proxy), node(2, &proxy));
    let url = there.url().expect("a URL").to_owned();
    // A handshake may fail on such a network: a peer is dialled again by itself.
    here.add_peer(&url).expect("a peer");
    assert!(here.linked(there.did()).await && there.linked(here.did()).await);
    let (came_here, came_there, (), ()) = tokio::join!(
        take_all(&here, COUNT),
        take_all(&there, COUNT),
        send_all(&here, &there, COUNT),
        send_all(&there, &here, COUNT),
    );
    let sent: Vec<_> = (0..COUNT).collect();
    for came in [came_here, came_there] {
        assert_eq!(
            came.keys().copied().collect::<BTreeSet<_>>(),
            BTreeSet::from(Class::ALL)
        );
        for (class, numbers) in came {
            assert_eq!(numbers, sent, "{class}, {weather:?}");
        }
    }
    for node in [&here, &there] {
        let status = node.status().await.expect("its status");
        assert_eq!(
            status.counters.dispatched,
            u64::from(COUNT) * 4,
            "{weather:?}"
        );
        assert_eq!(status.counters.refused, BTreeMap::new(), "{weather:?}");
        assert_eq!(status.store, StoreStatus::Durable);
    }
    // The network did what it is there for.
    let lost = proxy.lost.load(Ordering::Relaxed);
    let overtaken = proxy.overtaken.load(Ordering::Relaxed);
    assert!(
        lost > 0 && overtaken > 0,
        "{lost} lost, {overtaken} overtaken: {weather:?}"
    );
    here.shutdown().await;
    there.shutdown().await;
}
