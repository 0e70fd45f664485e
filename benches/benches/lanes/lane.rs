//! A lane of a link between two nodes' link layers: what a node itself sends and takes frames by.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use overlane_core::identity::{Account, Delegatee, Delegation, Life, Signer, VerifyContext};
use overlane_core::wire::frame::PAYLOAD_MARKER;
use overlane_core::{Class, NetworkId};
use overlane_node::link::server::{ServerLimits, serve};
use overlane_node::link::{LinkConfig, LinkEvent, LinkHandle, LinkIdentity, Links, signal};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

use super::Ends;
use super::meter::Meter;

const NETWORK: NetworkId = NetworkId(7);

/// A link layer that answers offers, and where.
async fn listening(seed: u8) -> (Links, mpsc::Receiver<LinkEvent>, String, JoinHandle<()>) {
    let (links, events) = Links::start(LinkConfig::default(), Arc::new(Identity::new(seed)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = signal::router(links.clone());
    let limits = ServerLimits::default();
    let server = tokio::spawn(serve(listener, router, limits, std::future::pending()));
    (links, events, url, server)
}

/// Prints the resident memory of a link's end that carries nothing.
pub(crate) async fn idle(count: usize) {
    let (_links, _events, url, _server) = listening(0).await;
    // One before, so that what every node has once is there.
    let mut others = vec![dial(1, &url).await];
    let before = resident();
    for number in 0..count {
        others.push(dial(u8::try_from(number + 2).unwrap(), &url).await);
    }
    // Until what the opening needed is given back.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let kib = (resident() - before) as f64 / 1_024.0 / (2 * count) as f64;
    println!("{count} idle links: {kib:.0} KiB of resident memory for each of a link's two ends");
}

async fn dial(seed: u8, url: &str) -> (Links, mpsc::Receiver<LinkEvent>) {
    let (links, events) = Links::start(LinkConfig::default(), Arc::new(Identity::new(seed)));
    links.dial(url).await.unwrap();
    (links, events)
}

/// This process's resident memory, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

#[derive(Debug)]
struct Identity {
    signer: Signer,
    nonces: AtomicU64,
}

impl Identity {
    fn new(seed: u8) -> Self {
        let account = Account::ed25519(Zeroizing::new([seed; 32])).unwrap();
        let delegatee = Delegatee::from_seed(Zeroizing::new([seed + 100; 32]));
        let now_ms = now_ms();
        let life = Life {
            issued_ms: now_ms,
            ttl_ms: 86_400_000,
        };
        let context = VerifyContext {
            network: NETWORK,
            now_ms,
        };
        let delegation = Delegation::issue(&account, &delegatee, NETWORK, life).unwrap();
        Self {
            signer: Signer::new(delegatee, delegation.verify(&context).unwrap()).unwrap(),
            nonces: AtomicU64::new(now_ms << 20),
        }
    }
}

impl LinkIdentity for Identity {
    fn signer(&self) -> Signer {
        self.signer.clone()
    }

    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn nonce(&self) -> [u8; 32] {
        let mut nonce = [0; 32];
        let number = self.nonces.fetch_add(1, Ordering::Relaxed);
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        nonce
    }
}

/// Two link layers with a link between them.
pub(crate) struct Lane {
    from: Links,
    to: Links,
    link: LinkHandle,
    meter: Arc<Meter>,
    tasks: Vec<JoinHandle<()>>,
}

pub(crate) async fn open(meter: &Arc<Meter>, size: usize) -> Lane {
    let (from, mut at_from) = Links::start(LinkConfig::default(), Arc::new(Identity::new(1)));
    let (to, mut at_to, url, server) = listening(2).await;
    from.dial(&url).await.unwrap();
    let link = up(&from, &mut at_from).await;
    let far = up(&to, &mut at_to).await;
    let sender = send(link.clone(), at_from, Arc::clone(meter), size);
    let tasks = vec![
        tokio::spawn(sender),
        tokio::spawn(take(far, at_to, Arc::clone(meter))),
        server,
    ];
    Lane {
        from,
        to,
        link,
        meter: Arc::clone(meter),
        tasks,
    }
}

/// The link that comes up.
async fn up(links: &Links, events: &mut mpsc::Receiver<LinkEvent>) -> LinkHandle {
    let up = events.recv().await;
    let Some(LinkEvent::Up { link, .. }) = up else {
        panic!("{up:?}");
    };
    links.handle(link).unwrap()
}

/// Keeps the lane full while data is to flow.
async fn send(
    link: LinkHandle,
    mut events: mpsc::Receiver<LinkEvent>,
    meter: Arc<Meter>,
    size: usize,
) {
    let mut message = PAYLOAD_MARKER.to_vec();
    message.resize(size, 7);
    loop {
        while meter.sends() && link.send(Class::Application, message.clone()).is_ok() {}
        tokio::select! {
            event = events.recv() => match event {
                Some(LinkEvent::Frames { class, frames, .. }) => {
                    for frame in &frames {
                        meter.ponged(frame);
                    }
                    link.taken(class, frames.len());
                }
                Some(LinkEvent::Room { .. }) => {}
                _ => return,
            },
            () = meter.turned() => {}
        }
    }
}

/// Takes what comes, and sends control messages back.
async fn take(link: LinkHandle, mut events: mpsc::Receiver<LinkEvent>, meter: Arc<Meter>) {
    while let Some(event) = events.recv().await {
        match event {
            LinkEvent::Frames { class, frames, .. } => {
                link.taken(class, frames.len());
                for frame in frames {
                    if class == Class::Control {
                        link.send(class, frame.into()).unwrap();
                    } else {
                        meter.arrived();
                        drop(frame);
                    }
                }
            }
            LinkEvent::Room { .. } => {}
            _ => return,
        }
    }
}

#[async_trait]
impl Ends for Lane {
    async fn ping(&self) {
        let mut message = PAYLOAD_MARKER.to_vec();
        message.extend(self.meter.stamp());
        self.link.send(Class::Control, message).unwrap();
    }

    async fn close(self: Box<Self>) {
        tokio::join!(self.from.shutdown(), self.to.shutdown());
        for task in self.tasks {
            task.abort();
        }
    }
}
