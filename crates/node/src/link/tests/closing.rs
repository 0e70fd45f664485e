//! Closing a link, and losing one.

use overlane_core::lane::CloseReason;
use overlane_core::{Class, Coded, Fault};

use super::must;
use super::node::{Identity, Node, Pair, frame, number, wide};
use super::wrap::{Trick, Tricky};
use crate::link::connection::ConnectionConfig;
use crate::link::count::Held;
use crate::link::transport::Ended;
use crate::link::{DownReason, LinkConfig, LinkError, LinkEvent};

/// Closing a channel of the stack drops what it holds: a link says FIN, and waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_closing_loses_nothing_that_was_queued() {
    const EACH: u32 = 50;
    let Pair {
        mut a,
        mut b,
        at_a,
        at_b,
    } = Pair::new().await;
    for number in 0..EACH {
        for class in Class::ALL {
            a.links.send(at_a, class, frame(number)).unwrap();
        }
    }
    let links = a.links.clone();
    let closing = tokio::spawn(async move { links.close(at_a).await });
    let mut next = [0; 4];
    let reason = loop {
        match b.next().await {
            LinkEvent::Frames {
                link,
                class,
                frames,
            } => {
                let next = &mut next[usize::from(class.index())];
                for frame in &frames {
                    assert_eq!(number(frame), *next, "{class}");
                    *next += 1;
                }
                b.links.taken(link, class, frames.len());
            }
            LinkEvent::Down { link, reason, .. } if link == at_b => break reason,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(next, [EACH; 4]);
    assert_eq!(reason, DownReason::Session(CloseReason::Peer));
    must("the close", closing).await.unwrap();
    let reason = a.down(at_a).await;
    assert_eq!(reason, DownReason::Session(CloseReason::Local));
    for node in [&a, &b] {
        must("the release", node.links.held().all_released()).await;
        assert!(node.links.status().is_empty());
    }
    // Closing what is down, and sending to it.
    must("the close", a.links.close(at_a)).await;
    let refused = a.links.send(at_a, Class::E2e, frame(1));
    assert_eq!(refused, Err(LinkError::Unknown(at_a)));
}

/// Nothing but the handshake ever passed on any channel: its close still reaches the peer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unused_link_is_closed_on_both_sides() {
    let Pair {
        a,
        mut b,
        at_a,
        at_b,
    } = Pair::new().await;
    must("the close", a.links.close(at_a)).await;
    let reason = b.down(at_b).await;
    assert_eq!(reason, DownReason::Session(CloseReason::Peer));
}

/// A link between tricky connections that notice a vanished peer early.
async fn impatient(trick: Trick) -> (Pair, std::sync::Arc<Tricky>) {
    let config = LinkConfig {
        connection: ConnectionConfig {
            disconnected_ms: 400,
            failed_ms: 400,
            keepalive_ms: 50,
            ..ConnectionConfig::default()
        },
        ..LinkConfig::default()
    };
    let held = Held::default();
    let connector = Tricky::new(config.connection.clone(), held.clone(), trick);
    let a = Node::over(Identity::new(1), config.clone(), connector.clone(), held).await;
    let b = Node::with(Identity::new(2), config).await;
    (Pair::of(a, b).await, connector)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vanished_peer_ends_the_link_with_its_reason() {
    let (
        Pair {
            mut a,
            mut b,
            at_a,
            at_b,
        },
        cables,
    ) = impatient(Trick::Keep).await;
    cables.cut_all();
    // Each side finds out by itself: neither can say goodbye.
    assert_eq!(b.down(at_b).await, DownReason::Transport(Ended::Lost));
    assert_eq!(a.down(at_a).await, DownReason::Transport(Ended::Lost));
    for node in [&a, &b] {
        must("the release", node.links.held().all_released()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_takes_nothing_ends_the_link_with_its_reason() {
    // A HELLO and its answer pass, and some frames within the lane's window.
    let (pair, _) = impatient(Trick::StuckAfter(8)).await;
    let Pair { mut a, b, at_a, .. } = pair;
    for number in 0..16 {
        let sent = a.links.send(at_a, Class::Application, wide(number));
        if matches!(&sent, Err(gone) if gone.fault() == Fault::Unreachable) {
            // It was stuck for as long as it may be before all were sent.
            break;
        }
        sent.unwrap();
    }
    let reason = a.down(at_a).await;
    assert_eq!(reason.code(), "transport/send_deadline", "{reason}");
    drop(b);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutting_down_ends_every_link_and_releases_everything() {
    let Pair {
        a,
        mut b,
        at_a,
        at_b,
    } = Pair::new().await;
    a.links.send(at_a, Class::E2e, frame(9)).unwrap();
    must("the shutdown", a.links.shutdown()).await;
    assert_eq!(b.frame().await.2, frame(9));
    assert_eq!(b.down(at_b).await, DownReason::Session(CloseReason::Peer));
    let mut a = a;
    assert_eq!(a.down(at_a).await, DownReason::ShuttingDown);
    let refused = a.links.dial(&b.url).await;
    assert_eq!(refused, Err(LinkError::ShuttingDown));
    let refused = must("a refusal", b.links.dial(&a.url)).await.unwrap_err();
    let LinkError::RefusedByPeer { code, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(code, "link/shutting_down");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hears_no_more_events_ends_its_links() {
    let Pair {
        mut a, mut b, at_b, ..
    } = Pair::new().await;
    a.events.close();
    while a.events.recv().await.is_some() {}
    // The next thing there is to tell shows that nobody listens.
    b.links.send(at_b, Class::E2e, frame(1)).unwrap();
    let reason = b.down(at_b).await;
    assert_eq!(reason, DownReason::Session(CloseReason::Peer));
    must("the release", a.links.held().all_released()).await;
}

/// What waits, and a peer that never answers a FIN, hold nothing up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_cut_is_down_with_the_reason_and_hears_nothing_more() {
    let (pair, cables) = impatient(Trick::Keep).await;
    let Pair { mut a, b, at_a, .. } = pair;
    cables.cut_all();
    a.links.send(at_a, Class::E2e, frame(1)).unwrap();
    a.links.cut(at_a, "payload/bad_signature");
    let refused = a.links.send(at_a, Class::E2e, frame(2));
    assert!(refused.is_err(), "{refused:?}");
    let code = "payload/bad_signature";
    let reason = a.down(at_a).await;
    assert_eq!(reason, DownReason::Payload { code });
    assert_eq!(reason.code(), "link/payload_violation");
    must("the release", a.links.held().all_released()).await;
    drop(b);
}
