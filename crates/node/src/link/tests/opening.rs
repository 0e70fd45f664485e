//! Opening a link: lost first messages, wrong certificates, retries, bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use overlane_core::Coded;
use overlane_core::identity::{Life, VerifyContext};
use overlane_core::lane::CloseReason;
use overlane_core::signal::{Answer, Offer, SIGNAL_TTL_DEFAULT_MS, Source};
use tokio::time::{Duration, Instant};

use super::must;
use super::node::{Identity, Node, Pair, frame};
use super::wrap::{Trick, Tricky, swap_fingerprint};
use crate::link::connection::{ConnectionConfig, WebRtc};
use crate::link::count::Held;
use crate::link::transport::{Transport, TransportEvent};
use crate::link::{
    ClockWitness, DownReason, LinkConfig, LinkError, LinkEvent, LinkIdentity, LinkUp,
};

async fn tricky(seed: u8, config: LinkConfig, trick: Trick) -> (Node, Arc<Tricky>) {
    let held = Held::default();
    let connector = Tricky::new(config.connection.clone(), held.clone(), trick);
    let node = Node::over(Identity::new(seed), config, connector.clone(), held).await;
    (node, connector)
}

/// The stack drops what arrives on a pre-negotiated channel before it has dialled it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_a_link_opens_though_the_first_message_of_every_channel_is_lost() {
    let config = LinkConfig::default();
    let (a, _) = tricky(1, config.clone(), Trick::LoseFirst).await;
    let (b, _) = tricky(2, config, Trick::LoseFirst).await;
    let Pair { a, mut b, at_a, .. } = Pair::of(a, b).await;
    for class in overlane_core::Class::ALL {
        a.links.send(at_a, class, frame(3)).unwrap();
        assert_eq!(b.frame().await.2, frame(3));
    }
}

fn hasty(dial_attempts: u32) -> LinkConfig {
    LinkConfig {
        handshake_deadline_ms: 2_000,
        dial_attempts,
        ..LinkConfig::default()
    }
}

/// The stack says nothing for a long while: the link's own deadline ends it, with a typed error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_fingerprint_ends_at_our_own_deadline() {
    let (a, made) = tricky(1, hasty(1), Trick::WrongFingerprint(usize::MAX)).await;
    let mut b = Node::with(Identity::new(2), hasty(1)).await;
    let refused = must("the refusal", a.links.dial(&b.url)).await.unwrap_err();
    let LinkError::NotOpened { peer, reason } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(*peer, b.did());
    assert!(
        matches!(
            reason,
            DownReason::Session(CloseReason::HandshakeTimeout {
                deadline_ms: 2_000,
                ..
            }) | DownReason::Transport(_)
        ),
        "{reason}"
    );
    assert_eq!(refused.code(), "link/not_opened");
    assert_eq!(a.links.not_opened(), BTreeMap::from([(reason.code(), 1)]));
    assert_eq!(made.made(), 1);
    // Nothing of it is left on either side, and the other node never heard of a link.
    must("the release", b.links.held().all_released()).await;
    assert_eq!(b.links.not_opened().values().sum::<u64>(), 1);
    must("the release", b.links.shutdown()).await;
    assert!(b.events.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_handshake_is_tried_again_with_a_new_offer() {
    let (mut a, made) = tricky(1, hasty(2), Trick::WrongFingerprint(1)).await;
    let mut b = Node::with(Identity::new(2), LinkConfig::default()).await;
    let up = must("a link", a.links.dial(&b.url)).await.unwrap();
    assert_eq!(up.peer, b.did());
    assert_eq!(made.made(), 2);
    assert_eq!(a.up().await, (up.link, b.did()));
    assert_eq!(b.up().await.1, a.did());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_are_bounded() {
    let config = LinkConfig {
        peers_max: 1,
        ..LinkConfig::default()
    };
    let b = Node::with(Identity::new(2), config).await;
    let Pair { a, b, .. } = Pair::of(Node::new(1).await, b).await;
    let c = Node::new(3).await;
    let refused = must("a refusal", c.links.dial(&b.url)).await.unwrap_err();
    let LinkError::RefusedByPeer { code, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(code, "link/links_full");
    let full = must("a refusal", b.links.dial(&c.url)).await.unwrap_err();
    assert_eq!(full, LinkError::LinksFull { max: 1 });
    assert_eq!(a.links.status().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_handshakes_are_bounded_and_give_their_places_back() {
    let config = LinkConfig {
        handshakes_max: 2,
        handshake_deadline_ms: 1_000,
        ..LinkConfig::default()
    };
    let mut b = Node::with(Identity::new(2), config).await;
    // Offers of two nodes that never conclude.
    for seed in [3, 4] {
        let offer = super::signalling::offer_of(&Identity::new(seed)).await;
        b.links
            .answer(&offer.to_bytes(), Source::Local)
            .await
            .unwrap();
    }
    assert_eq!(b.links.held().sockets.now(), 2);
    let offer = super::signalling::offer_of(&Identity::new(5)).await;
    let refused = b.links.answer(&offer.to_bytes(), Source::Local).await;
    assert_eq!(refused, Err(LinkError::HandshakesFull { max: 2 }));
    must("their end", b.links.held().all_released()).await;
    let a = Node::new(1).await;
    let up = must("a link", a.links.dial(&b.url)).await.unwrap();
    assert_eq!(up.peer, b.did());
    assert_eq!(b.up().await.1, a.did());
}

/// However far a peer takes a handshake that it never finishes, it holds one place until the deadline,
/// and is counted: it never concludes; it begins DTLS with a certificate that nobody signed for, so that
/// it never ends; it opens the channels, and says nothing on them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_that_stop_half_way_fill_their_bound_are_counted_and_end() {
    const MAX: usize = 3;
    let config = LinkConfig {
        handshakes_max: MAX,
        handshake_deadline_ms: 2_000,
        ..LinkConfig::default()
    };
    let b = Node::with(Identity::new(2), config).await;
    let webrtc = WebRtc::new(ConnectionConfig::default(), Held::default());
    let (stranger, _) = webrtc.connect().await.unwrap();
    let stranger = stranger.offer().await.unwrap();
    let mut silent = Vec::new();
    for stops in 0..MAX {
        let (connection, mut events) = webrtc.connect().await.unwrap();
        let identity = Identity::new(3 + u8::try_from(stops).unwrap());
        let mut sdp = connection.offer().await.unwrap();
        if stops == 1 {
            sdp = swap_fingerprint(&sdp, &stranger);
        }
        let life = Life {
            issued_ms: identity.now_ms(),
            ttl_ms: SIGNAL_TTL_DEFAULT_MS,
        };
        let offer = Offer::sign(sdp, identity.nonce(), life, &identity.signer()).unwrap();
        let answer = b.links.answer(&offer.to_bytes(), Source::Local).await;
        let answer = Answer::from_bytes(&answer.unwrap()).unwrap();
        let context = VerifyContext {
            network: identity.signer().network(),
            now_ms: identity.now_ms(),
        };
        let answer = answer.verify(offer.digest(), &context).unwrap();
        if stops > 0 {
            connection.conclude(answer.sdp()).await.unwrap();
        }
        if stops == 2 {
            while !matches!(
                must("its channels", events.recv()).await.unwrap(),
                TransportEvent::Open(_)
            ) {}
        }
        silent.push((connection, events));
    }
    assert_eq!(b.links.held().sockets.now(), MAX);
    let offer = super::signalling::offer_of(&Identity::new(9)).await;
    let refused = b.links.answer(&offer.to_bytes(), Source::Local).await;
    assert_eq!(refused, Err(LinkError::HandshakesFull { max: MAX }));
    must("their end", b.links.held().all_released()).await;
    let counted = b.links.not_opened();
    assert_eq!(counted.values().sum::<u64>(), MAX as u64, "{counted:?}");
    assert!(counted["link/handshake_timeout"] >= 2, "{counted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_does_not_link_to_itself() {
    let a = Node::new(1).await;
    let refused = must("a refusal", a.links.dial(&a.url)).await;
    assert_eq!(refused, Err(LinkError::Itself));
    must("the release", a.links.held().all_released()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dial_that_is_given_up_leaves_nothing() {
    let a = Node::new(1).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    {
        let mut dial = Box::pin(a.links.dial(&url));
        let accepted = tokio::task::spawn_blocking(move || listener.accept().unwrap());
        tokio::select! {
            dialed = &mut dial => panic!("{dialed:?}"),
            accepted = accepted => drop(accepted.unwrap()),
        }
    }
    must("the release", a.links.held().all_released()).await;
    assert!(a.links.status().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_window_of_a_link_is_what_its_socket_got() {
    let Pair { a, at_a, b, at_b } = Pair::new().await;
    let up = LinkUp {
        link: at_a,
        peer: b.did(),
    };
    let status = &a.links.status()[0];
    assert_eq!((status.link, status.peer), (up.link, up.peer));
    assert_eq!(status.dialed_url.as_deref(), Some(b.url.as_str()));
    assert_eq!(b.links.status()[0].dialed_url, None);
    assert_eq!(b.links.status()[0].link, at_b);
    let granted = u64::from(status.byte_window);
    assert!(granted >= u64::from(overlane_core::lane::bounds::LINK_WINDOW_MIN_BYTES));
}

/// Who dialled hears what the other's clock showed when it answered; who answered hears nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_only_an_answer_to_a_fresh_offer_is_a_witness() {
    const AHEAD_MS: u64 = 1_500;
    let mut a = Node::new(1).await;
    let mut b = Node::new(2).await;
    b.identity.advance(AHEAD_MS);
    must("a link", a.links.dial(&b.url)).await.unwrap();
    let witness = |event: LinkEvent| match event {
        LinkEvent::Up { witness, .. } => witness,
        other => panic!("expected a link to come up, got {other:?}"),
    };
    let heard = witness(a.next().await).unwrap();
    assert_eq!(heard.issued_ms, b.identity.now_ms());
    assert_eq!(witness(b.next().await), None);
}

/// A witness that waits to be looked at says what the peer's clock shows by then.
#[test]
fn a_witness_does_not_grow_stale() {
    let heard = Instant::now();
    let witness = ClockWitness {
        issued_ms: 1_000,
        heard,
    };
    assert_eq!(witness.at_ms(heard), 1_000);
    assert_eq!(witness.at_ms(heard + Duration::from_millis(700)), 1_700);
}
