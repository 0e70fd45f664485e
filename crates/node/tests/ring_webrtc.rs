//! Rings of whole nodes over real WebRTC on loopback. Nothing here waits by the clock.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::net::SocketAddr;

use overlane_core::identity::Account;
use overlane_core::ring::{PathEnd, WhyUnreachable};
use overlane_core::transaction::{Message, Namespace};
use overlane_core::{Coded, Did};
use overlane_node::{Event, Neighbour, Node, NodeBuilder, Outcome, PeerState, Sealing};
use overlane_storage_native::testkit::MemoryStore;
use tokio::sync::mpsc;
use zeroize::Zeroizing;

fn builder(number: u8) -> NodeBuilder {
    let account = Account::ed25519(Zeroizing::new([number; 32])).expect("an account");
    Node::builder()
        .account(account)
        .store(Box::new(MemoryStore::new()))
}

fn message(body: &[u8]) -> Message<'_> {
    Message::Application {
        namespace: Namespace::new("test").expect("a namespace"),
        body,
    }
}

/// Hops to another node; both ends of the way there have their links.
async fn reaches(from: &Node, to: Did) -> u8 {
    from.ping(to).await.expect("an answer").hops
}

/// Waits until both ends have the link between them.
async fn are_linked(one: &Node, other: &Node) {
    assert!(one.linked(other.did()).await);
    assert!(other.linked(one.did()).await);
}

async fn sends(from: &Node, to: &Node, body: &[u8]) {
    from.send(to.did(), message(body)).await.expect("sent");
    let taken = to.messages().next().await.expect("a message");
    assert_eq!(taken.item().origin(), from.did());
    assert_eq!(taken.item().message().body(), body);
    assert!(taken.item().is_sealed() && taken.item().is_open());
}

#[tokio::test(flavor = "multi_thread")]
async fn five_nodes_reach_each_other_through_a_middle_that_all_are_linked_to() {
    let middle = builder(1).spawn().await.expect("a node");
    let url = middle.url().expect("a URL").to_owned();
    let mut nodes = Vec::new();
    for number in 2..=6 {
        // One link, and the middle has it.
        let node = builder(number).links_max(1).peer(url.clone());
        nodes.push(node.spawn().await.expect("a node"));
    }
    for node in &nodes {
        are_linked(node, &middle).await;
    }
    for from in &nodes {
        for to in nodes.iter().filter(|to| to.did() != from.did()) {
            assert_eq!(reaches(from, to.did()).await, 2);
            sends(from, to, from.did().to_string().as_bytes()).await;
        }
    }
    let outcomes = nodes[0].outcomes();
    let sent = nodes[0].send(nodes[1].did(), message(b"through it")).await;
    let outcome = outcomes.of(&sent.expect("sent")).await;
    assert_eq!(outcome, Outcome::PassedOn { hops: 2 });
    let outcomes = nodes[0].outcomes();
    let sent = nodes[0].send(middle.did(), message(b"to it")).await;
    assert_eq!(outcomes.of(&sent.expect("sent")).await, Outcome::Placed);
    let path = nodes[0].way(nodes[1].did()).await.expect("a way");
    assert_eq!(path.hops, [middle.did(), nodes[1].did()]);
    assert_eq!(path.end, PathEnd::Arrives);
    let status = middle.status().await.expect("its status");
    assert!(status.counters.forwarded.values().sum::<u64>() >= 20);
    assert!(status.counters.links_cut.is_empty());
    for node in nodes.iter().chain([&middle]) {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_speak_in_a_session_through_a_middle_and_after_a_restart() {
    let middle = builder(1).spawn().await.expect("a node");
    let url = middle.url().expect("a URL").to_owned();
    let node = |number| builder(number).links_max(1).peer(url.clone()).spawn();
    let (one, two) = (
        node(2).await.expect("a node"),
        node(3).await.expect("a node"),
    );
    for node in [&one, &two] {
        assert!(node.linked(middle.did()).await);
    }
    reaches(&one, two.did()).await;
    reaches(&two, one.did()).await;
    let (here, there) = (one.session(two.did()), two.session(one.did()));
    for number in 0..20_u8 {
        here.send(&[number]).await.expect("sent");
        assert_eq!(there.recv().await.expect("a body").as_slice(), [number]);
        there.send(&[number, 1]).await.expect("sent");
        assert_eq!(here.recv().await.expect("a body").as_slice(), [number, 1]);
    }
    // The other one is started again, and knows of no session.
    let mut events = one.events();
    two.shutdown().await;
    let two = node(3).await.expect("a node");
    assert!(two.linked(middle.did()).await);
    reaches(&two, one.did()).await;
    reaches(&one, two.did()).await;
    here.send(b"into nothing").await.expect("sent");
    loop {
        if let Event::SessionLost { with, .. } = events.recv().await.expect("an event") {
            assert_eq!(with, two.did());
            break;
        }
    }
    here.send(b"after").await.expect("sent");
    let there = two.session(one.did());
    assert_eq!(there.recv().await.expect("a body").as_slice(), b"after");
    there.end().await.expect("it runs");
    for node in [&one, &two, &middle] {
        node.shutdown().await;
    }
    assert!(there.recv().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_for_nobody_is_reported_to_its_sender() {
    let here = builder(1).spawn().await.expect("a node");
    let there = builder(2).peer(here.url().expect("a URL")).spawn().await;
    let there = there.expect("a node");
    assert!(here.linked(there.did()).await);
    let mut events = here.events();
    let nobody = Did([0x5a; 20]);
    // Sealed it is not sent at all: nobody tells the key.
    let sealed = here.send(nobody, message(b"anybody?")).await;
    assert_eq!(sealed.expect_err("no key").code(), "seal/no_key");
    let outcomes = here.outcomes();
    let sent = here.send_as(nobody, message(b"anybody?"), Sealing::Plain);
    let sent = sent.await.expect("sent");
    let outcome = outcomes.of(&sent).await;
    assert!(
        matches!(
            outcome,
            Outcome::Unreachable {
                why: WhyUnreachable::NoRoute,
                ..
            }
        ),
        "{outcome:?}"
    );
    loop {
        if let Event::Unreachable {
            digest, reporter, ..
        } = events.recv().await.expect("an event")
        {
            assert_eq!(digest, sent.digest);
            assert!([here.did(), there.did()].contains(&reporter));
            break;
        }
    }
    here.shutdown().await;
    there.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_that_lose_their_bootstrap_stay_a_ring_and_find_it_again_s22() {
    let seed = builder(1).spawn().await.expect("a node");
    let url = seed.url().expect("a URL").to_owned();
    let address: SocketAddr = url
        .trim_start_matches("http://")
        .parse()
        .expect("an address");
    let mut nodes = Vec::new();
    for number in 2..=4 {
        let node = builder(number).peer(url.clone()).spawn().await;
        nodes.push(node.expect("a node"));
    }
    // By way of the first they find each other, and are linked.
    for from in &nodes {
        for to in nodes.iter().filter(|to| to.did() != from.did()) {
            are_linked(from, to).await;
        }
    }
    seed.shutdown().await;
    for from in &nodes {
        for to in nodes.iter().filter(|to| to.did() != from.did()) {
            assert_eq!(reaches(from, to.did()).await, 1);
        }
    }
    sends(&nodes[0], &nodes[2], b"without it").await;
    // It comes back where it was, and knows nobody.
    let again = builder(1).listen(address).spawn().await.expect("a node");
    for node in &nodes {
        are_linked(node, &again).await;
        assert!(reaches(node, again.did()).await >= 1);
        let kept = node.peers();
        assert_eq!(
            (kept[0].did, kept[0].state),
            (Some(again.did()), PeerState::Linked)
        );
        assert_eq!((kept[0].dials, kept[0].next_dial_ms), (0, None));
    }
    sends(&again, &nodes[1], b"again").await;
    for node in nodes.iter().chain([&again]) {
        node.shutdown().await;
    }
}

/// A node with these neighbours of before; others are told as they are known.
async fn with_neighbours(
    number: u8,
    known: Vec<Neighbour>,
    bootstrap: &str,
) -> (Node, mpsc::UnboundedReceiver<Vec<Neighbour>>) {
    let (told_out, told) = mpsc::unbounded_channel();
    // Nobody listens any more when the test is over.
    let keep = move |known: &[Neighbour]| drop(told_out.send(known.to_vec()));
    let node = builder(number).peer(bootstrap).neighbours(known, keep);
    (node.spawn().await.expect("a node"), told)
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_bootstrap_is_gone_find_each_other_again_after_a_restart() {
    let seed = builder(1).spawn().await.expect("a node");
    let url = seed.url().expect("a URL").to_owned();
    let (one, mut told) = with_neighbours(2, Vec::new(), &url).await;
    let (two, _told) = with_neighbours(3, Vec::new(), &url).await;
    are_linked(&one, &two).await;
    let known = loop {
        let known = told.recv().await.expect("it goes on");
        if known.iter().any(|it| it.did == two.did()) {
            break known;
        }
    };
    let of_two = known.iter().find(|it| it.did == two.did());
    assert_eq!(of_two.map(Neighbour::url).as_deref(), two.url());
    seed.shutdown().await;
    one.shutdown().await;
    // Those that it was told to stay linked to are away; it knows where the other one is.
    let (again, _told) = with_neighbours(2, known, &url).await;
    are_linked(&again, &two).await;
    sends(&again, &two, b"without it").await;
    again.shutdown().await;
    two.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_dropped_is_sought_no_more_as_a_neighbour_of_before() {
    let other = builder(2).spawn().await.expect("a node");
    let url = other.url().expect("a URL").to_owned();
    let (one, mut told) = with_neighbours(3, Vec::new(), &url).await;
    are_linked(&one, &other).await;
    let did = other.did();
    let is_kept = |known: Vec<Neighbour>| known.iter().any(|it| it.did == did);
    while !is_kept(told.recv().await.expect("it goes on")) {}
    // It is away: nobody else changes what is kept.
    other.shutdown().await;
    assert!(one.drop_peer(&url).await);
    while is_kept(told.recv().await.expect("it goes on")) {}
    one.shutdown().await;
}
