//! Whole nodes over real WebRTC on loopback. Nothing here waits by the clock.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::{SystemTime, UNIX_EPOCH};

use overlane_core::identity::Account;
use overlane_core::replay::DELEGATING_NAMESPACES;
use overlane_core::replay::record::{FloorRecord, Record};
use overlane_core::store::{Change, Effect, RecordStore, Scan, StoreError};
use overlane_core::transaction::{Message, Namespace};
use overlane_core::wire::cbor::to_vec;
use overlane_core::{Class, Coded, Did};
use overlane_node::{Event, Node, NodeBuilder, NodeError, PEERS_MAX, Sealing, StoreStatus};
use overlane_storage_native::testkit::MemoryStore;
use zeroize::Zeroizing;

/// A node to be, of account `number`, on a store that a test can keep and break.
fn builder(number: u8, store: &MemoryStore) -> NodeBuilder {
    let account = Account::ed25519(Zeroizing::new([number; 32])).expect("an account");
    Node::builder()
        .account(account)
        .store(Box::new(store.clone()))
}

async fn pair() -> (Node, Node) {
    let spawn = async |number| {
        let node = builder(number, &MemoryStore::new()).spawn().await;
        node.expect("a node")
    };
    let (here, there) = (spawn(1).await, spawn(2).await);
    let peer = here.connect(there.url().expect("a URL")).await;
    assert_eq!(peer.expect("a link"), there.did());
    assert!(there.linked(here.did()).await);
    (here, there)
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

/// Takes `count` messages of every class, and gives the numbers of each in their order.
async fn take_all(node: &Node, count: u32) -> BTreeMap<Class, Vec<u32>> {
    let messages = node.messages();
    let mut taken = BTreeMap::<Class, Vec<u32>>::new();
    for _ in 0..count * 4 {
        let delivery = messages.next().await.expect("a message");
        let body = delivery.item().message().body().try_into();
        let number = u32::from_be_bytes(body.expect("four bytes"));
        taken
            .entry(delivery.item().class())
            .or_default()
            .push(number);
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn law_order_per_class_holds_over_webrtc_both_ways_at_once() {
    const COUNT: u32 = 150;
    let (here, there) = pair().await;
    let (came_here, came_there, (), ()) = tokio::join!(
        take_all(&here, COUNT),
        take_all(&there, COUNT),
        send_all(&here, &there, COUNT),
        send_all(&there, &here, COUNT),
    );
    let sent: Vec<_> = (0..COUNT).collect();
    for came in [came_here, came_there] {
        for class in Class::ALL {
            assert_eq!(came[&class], sent, "{class}");
        }
    }
    for node in [&here, &there] {
        let status = node.status().await.expect("its status");
        assert_eq!(status.counters.sent, u64::from(COUNT) * 4);
        assert_eq!(status.counters.dispatched, u64::from(COUNT) * 4);
        assert_eq!(status.counters.refused, BTreeMap::new());
        assert_eq!(status.store, StoreStatus::Durable);
    }
    here.shutdown().await;
    there.shutdown().await;
}

/// The next refusal's code.
async fn refusal(events: &mut tokio::sync::broadcast::Receiver<Event>) -> &'static str {
    loop {
        if let Event::Refused { refusal, .. } = events.recv().await.expect("an event") {
            return refusal.code();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_signed_bytes_are_refused_again_after_a_restart_and_a_rotation() {
    let store = MemoryStore::new();
    let here = builder(1, &MemoryStore::new())
        .spawn()
        .await
        .expect("a node");
    let mut receipts = Vec::new();
    for life in 0..2 {
        let there = builder(2, &store).spawn().await.expect("a node");
        let mut events = there.events();
        here.connect(there.url().expect("a URL"))
            .await
            .expect("a link");
        for receipt in &receipts {
            let signed: &overlane_node::Receipt = receipt;
            here.offer_again(signed.signed.clone())
                .await
                .expect("offered");
            assert_eq!(refusal(&mut events).await, "replay/replay", "life {life}");
        }
        let receipt = here
            .send(there.did(), message(Class::Application, b"one"))
            .await;
        let receipt = receipt.expect("sent");
        assert!(there.messages().next().await.is_some());
        here.rotate_delegatee().await.expect("rotated");
        let after = here
            .send(there.did(), message(Class::Application, b"two"))
            .await;
        let after = after.expect("sent");
        assert_eq!(after.sequence, receipt.sequence + 1, "the stream goes on");
        assert!(there.messages().next().await.is_some());
        receipts.extend([receipt, after]);
        there.shutdown().await;
    }
    here.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_store_refuses_and_the_node_stays_up() {
    let store = MemoryStore::new();
    let here = builder(1, &MemoryStore::new())
        .spawn()
        .await
        .expect("a node");
    let there = builder(2, &store).spawn().await.expect("a node");
    here.connect(there.url().expect("a URL"))
        .await
        .expect("a link");
    let mut events = there.events();
    store.fail_next();
    let sent = here
        .send(there.did(), message(Class::Application, b"lost"))
        .await;
    sent.expect("sent: whether it is admitted is the destination's to say");
    assert_eq!(refusal(&mut events).await, "replay/store_failed");
    let answer = there
        .send(here.did(), message(Class::Application, b"no"))
        .await;
    assert_eq!(answer.expect_err("refused").code(), "replay/store_failed");
    let status = there.status().await.expect("it is up");
    assert!(
        matches!(status.store, StoreStatus::Failed(_)),
        "{:?}",
        status.store
    );
    here.shutdown().await;
    there.shutdown().await;
}

/// A store that panics when it is written to.
#[derive(Debug)]
struct Panicking;

impl RecordStore for Panicking {
    fn scan(&mut self) -> Result<Scan, StoreError> {
        Ok(Scan::default())
    }

    fn write(&mut self, _: &[Change]) -> Result<(), StoreError> {
        panic!("a store with a fault");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_panics_is_a_store_that_failed() {
    let account = Account::ed25519(Zeroizing::new([1; 32])).expect("an account");
    let here = Node::builder().account(account).store(Box::new(Panicking));
    let here = here.spawn().await.expect("a node");
    let there = builder(2, &MemoryStore::new())
        .spawn()
        .await
        .expect("a node");
    here.connect(there.url().expect("a URL"))
        .await
        .expect("a link");
    for _ in 0..2 {
        let sent = here.send(there.did(), message(Class::Control, b"no")).await;
        assert_eq!(sent.expect_err("refused").code(), "replay/store_failed");
    }
    here.shutdown().await;
    there.shutdown().await;
}

/// A store whose streams were retired by a clock a day ahead of this one.
fn retired_ahead_of_time() -> MemoryStore {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = u64::try_from(now.expect("after it").as_millis()).expect("this age");
    let floor = Record::Floor(FloorRecord {
        version: 1,
        mail_ms: now_ms + 86_400_000,
        sender_end: 0,
    });
    let mut store = MemoryStore::new();
    let change = Change {
        name: floor.id().name(),
        effect: Effect::Write(Arc::new(to_vec(&floor))),
    };
    store.write(&[change]).expect("written");
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn law_two_clocks_a_node_believes_its_clock_again_once_it_dialled_a_peer() {
    let here = builder(1, &retired_ahead_of_time()).spawn().await;
    let here = here.expect("a node");
    let spawn = async |number| builder(number, &MemoryStore::new()).spawn().await;
    let asking = spawn(2).await.expect("a node");
    let asked = spawn(3).await.expect("a node");
    let mut events = here.events();
    // An offer is no witness.
    let linked = asking.connect(here.url().expect("a URL")).await;
    linked.expect("a link");
    let first = asking.send(here.did(), message(Class::E2e, b"is it so late?"));
    first.await.expect("sent");
    assert_eq!(refusal(&mut events).await, "replay/clock_suspect");

    let linked = here.connect(asked.url().expect("a URL")).await;
    linked.expect("a link");
    let second = asking.send(here.did(), message(Class::E2e, b"it is not"));
    second.await.expect("sent");
    let delivery = here.messages().next().await.expect("a message");
    assert_eq!(delivery.item().message().body(), b"it is not");
    for node in [here, asking, asked] {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_link_local_a_registered_namespace_writes_no_record() {
    let store = MemoryStore::new();
    let namespace = Namespace::new("test").expect("a namespace");
    let there = builder(2, &store).delegate_replay(namespace).spawn().await;
    let there = there.expect("a node");
    let here = builder(1, &MemoryStore::new()).spawn().await;
    let here = here.expect("a node");
    let linked = here.connect(there.url().expect("a URL")).await;
    linked.expect("a link");
    let sent = here.send_as(
        there.did(),
        message(Class::Application, b"guarded by itself"),
        Sealing::Plain,
    );
    sent.await.expect("sent");
    assert!(there.messages().next().await.is_some());
    let status = there.status().await.expect("its status");
    assert_eq!((status.replay.link_local, store.writes()), (1, 0));
    let sent = here.send(there.did(), message(Class::E2e, b"guarded by the node"));
    sent.await.expect("sent");
    assert!(there.messages().next().await.is_some());
    assert_eq!(store.writes(), 1);
    here.shutdown().await;
    there.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_delegating_namespace_beyond_the_bound_is_refused_at_the_start() {
    let with = |count: usize| {
        let names = (0..count).map(|number| format!("namespace {number}"));
        let node = builder(1, &MemoryStore::new());
        names.fold(node, |node, name| {
            node.delegate_replay(Namespace::new(&name).expect("a namespace"))
        })
    };
    let full = with(DELEGATING_NAMESPACES).spawn().await;
    full.expect("a node").shutdown().await;
    let refused = with(DELEGATING_NAMESPACES + 1).spawn().await;
    let refused = refused.expect_err("refused");
    assert_eq!(refused.code(), "node/delegating_full");
    assert!(refused.to_string().contains("namespace 64"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_abandons_only_its_wait() {
    let (here, there) = pair().await;
    {
        let send = here.send(there.did(), message(Class::Application, b"all the same"));
        tokio::pin!(send);
        // Asked for once, and then dropped.
        let polled = std::future::poll_fn(|context| Poll::Ready(send.as_mut().poll(context)));
        assert!(polled.await.is_pending());
    }
    let delivery = there.messages().next().await.expect("a message");
    assert_eq!(delivery.item().message().body(), b"all the same");
    here.shutdown().await;
    there.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_store_a_node_runs_and_refuses_s10() {
    let account = Account::ed25519(Zeroizing::new([2; 32])).expect("an account");
    let there = Node::builder()
        .account(account)
        .spawn()
        .await
        .expect("a node");
    let here = builder(1, &MemoryStore::new())
        .spawn()
        .await
        .expect("a node");
    here.connect(there.url().expect("a URL"))
        .await
        .expect("a link");
    let mut events = there.events();
    let sent = here
        .send(there.did(), message(Class::Application, b"no"))
        .await;
    sent.expect("sent");
    assert_eq!(refusal(&mut events).await, "replay/storage_unavailable");
    let answer = there
        .send(here.did(), message(Class::Application, b"no"))
        .await;
    assert_eq!(
        answer.expect_err("refused").code(),
        "replay/storage_unavailable"
    );
    let status = there.status().await.expect("it is up");
    assert_eq!(status.store, StoreStatus::Absent);
    here.shutdown().await;
    there.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_and_a_missing_account_are_refused_at_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    let node = builder(1, &MemoryStore::new())
        .listen(address)
        .spawn()
        .await;
    let error = node.expect_err("refused");
    assert_eq!(error.code(), "node/listen_in_use");
    assert!(error.to_string().contains(&address.to_string()));
    let node = Node::builder().spawn().await;
    assert!(matches!(node, Err(NodeError::NoAccount)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_shut_down_answers_so() {
    let (here, there) = pair().await;
    there.shutdown().await;
    there.shutdown().await;
    assert!(there.messages().next().await.is_none());
    let send = there
        .send(here.did(), message(Class::Control, b"late"))
        .await;
    assert_eq!(send.expect_err("refused").code(), "node/closed");
    assert!(matches!(there.status().await, Err(NodeError::Closed)));
    here.shutdown().await;
}

#[tokio::test]
async fn a_stranger_has_one_request_a_connection() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let node = builder(1, &MemoryStore::new())
        .spawn()
        .await
        .expect("a node");
    let url = node.url().expect("a URL").to_owned();
    let address = url.strip_prefix("http://").expect("plain HTTP");
    let mut stranger = tokio::net::TcpStream::connect(address)
        .await
        .expect("taken");
    let twice = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(2);
    stranger.write_all(&twice).await.expect("sent");
    let mut answers = Vec::new();
    // A listener without limits answers both, and then keeps the connection for ever.
    let _ = stranger.read_to_end(&mut answers).await;
    let answers = String::from_utf8(answers).expect("text");
    assert_eq!(answers.matches("HTTP/1.1 404").count(), 1, "{answers}");
    node.shutdown().await;
}

#[tokio::test]
async fn refused_offers_are_counted() {
    let (here, there) = pair().await;
    let other = builder(3, &MemoryStore::new()).network(overlane_core::NetworkId(2));
    let other = other.spawn().await.expect("a node");
    let refused = other.connect(here.url().expect("a URL")).await;
    let Err(NodeError::Link(refused)) = refused else {
        panic!("linked across networks: {refused:?}");
    };
    assert_eq!(refused.code(), "link/refused_by_peer");
    let counted = here.status().await.expect("a status").offers_refused;
    assert_eq!(counted.values().sum::<u64>(), 1, "{counted:?}");
    assert!(
        there
            .status()
            .await
            .expect("a status")
            .offers_refused
            .is_empty()
    );
    for node in [here, there, other] {
        node.shutdown().await;
    }
}

#[tokio::test]
async fn more_peers_than_may_be_are_refused_before_anything_runs() {
    let mut builder = builder(1, &MemoryStore::new());
    for port in 0..=PEERS_MAX {
        builder = builder.peer(format!("http://127.0.0.1:{port}"));
    }
    let refused = builder.spawn().await;
    assert!(matches!(refused, Err(NodeError::PeersFull)), "{refused:?}");
}

/// The next change of a link to `peer`, up or down.
async fn next_up(events: &mut tokio::sync::broadcast::Receiver<Event>, peer: Did) -> bool {
    loop {
        match events.recv().await.expect("an event") {
            Event::LinkUp { peer: up, .. } if up == peer => return true,
            Event::LinkDown { peer: down, .. } if down == peer => return false,
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_peer_that_restarts_is_dialled_again() {
    let store = MemoryStore::new();
    let there = builder(2, &store).spawn().await.expect("a node");
    let url = there.url().expect("a URL").to_owned();
    let address = url.trim_start_matches("http://").parse();
    let address: std::net::SocketAddr = address.expect("its address");
    let here = builder(1, &MemoryStore::new()).peer(&url);
    let here = here.spawn().await.expect("a node");
    let mut events = here.events();
    assert!(here.linked(there.did()).await);
    let before = here
        .send(there.did(), message(Class::Application, b"before"))
        .await;
    let before = before.expect("sent");
    assert!(there.messages().next().await.is_some());
    there.shutdown().await;
    while next_up(&mut events, there.did()).await {}

    let there = builder(2, &store).listen(address).spawn().await;
    let there = there.expect("the same node again, where it was");
    assert!(
        next_up(&mut events, there.did()).await,
        "nobody asked for it"
    );
    let status = here.peers();
    assert_eq!(status.len(), 1);
    assert_eq!(status[0].did, Some(there.did()));
    let after = here
        .send(there.did(), message(Class::Application, b"after"))
        .await;
    assert_eq!(after.expect("sent").sequence, before.sequence + 1);
    let delivery = there.messages().next().await.expect("a message");
    assert_eq!(delivery.item().message().body(), b"after");
    here.shutdown().await;
    there.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_peers_are_bounded_after_the_start_too() {
    // Held, and never listened on: every dial is refused at once.
    let nobody = tokio::net::TcpSocket::new_v4().expect("a socket");
    nobody
        .bind("127.0.0.1:0".parse().expect("an address"))
        .expect("a port");
    let address = nobody.local_addr().expect("its address");
    let url = |number: usize| format!("http://{address}/{number}");
    let with = |count: usize| {
        let mut with = builder(1, &MemoryStore::new());
        for number in 0..count {
            with = with.peer(url(number));
        }
        with
    };
    // One that is named twice is one.
    let node = with(PEERS_MAX).peer(url(0)).spawn().await.expect("a node");
    assert_eq!(node.peers().len(), PEERS_MAX);
    let error = node.add_peer(&url(PEERS_MAX)).expect_err("refused");
    assert!(matches!(error, NodeError::PeersFull), "{error}");
    node.add_peer(&url(0)).expect("it is kept already");
    assert!(node.drop_peer(&url(0)).await);
    node.add_peer(&url(PEERS_MAX)).expect("a place came free");
    assert_eq!(node.peers().len(), PEERS_MAX);
    node.shutdown().await;
}
