//! Offers and answers that are not what they should be.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use overlane_core::identity::Life;
use overlane_core::signal::{Offer, SIGNAL_TTL_DEFAULT_MS, Source};
use overlane_core::{Coded, NetworkId};
use tokio::net::TcpListener;

use super::must;
use super::node::{Identity, Node};
use crate::link::connection::{ConnectionConfig, WebRtc};
use crate::link::count::Held;
use crate::link::transport::Transport;
use crate::link::{LinkError, LinkIdentity};

/// A session description that nobody will conclude.
async fn description() -> String {
    let webrtc = WebRtc::new(ConnectionConfig::default(), Held::default());
    let (connection, _events) = webrtc.connect().await.unwrap();
    let sdp = connection.offer().await.unwrap();
    connection.close().await;
    sdp
}

fn sign(identity: &Identity, sdp: String) -> Offer {
    let life = Life {
        issued_ms: identity.now_ms(),
        ttl_ms: SIGNAL_TTL_DEFAULT_MS,
    };
    Offer::sign(sdp, identity.nonce(), life, &identity.signer()).unwrap()
}

/// A good offer of a node that will not conclude it.
pub(super) async fn offer_of(identity: &Identity) -> Offer {
    sign(identity, description().await)
}

fn code(refused: Result<Vec<u8>, LinkError>) -> &'static str {
    refused.unwrap_err().code()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offer_counts_once_on_its_network_in_its_life_by_its_signer() {
    let b = Node::new(2).await;
    let alice = Identity::new(1);
    let offer = offer_of(&alice).await;
    b.links
        .answer(&offer.to_bytes(), Source::Local)
        .await
        .unwrap();
    let replayed = b.links.answer(&offer.to_bytes(), Source::Local).await;
    assert_eq!(code(replayed), "signal/replayed");

    let resigned = sign(&Identity::new(3), offer.sdp().to_owned());
    let resigned = b.links.answer(&resigned.to_bytes(), Source::Local).await;
    assert_eq!(code(resigned), "signal/resigned");

    let abroad = offer_of(&Identity::of(1, NetworkId(8))).await;
    let abroad = b.links.answer(&abroad.to_bytes(), Source::Local).await;
    assert_eq!(code(abroad), "delegation/wrong_network");

    let mut tampered = offer_of(&alice).await.to_bytes();
    *tampered.last_mut().unwrap() ^= 1;
    let tampered = b.links.answer(&tampered, Source::Local).await;
    assert_eq!(code(tampered), "signal/bad_signature");

    let early = Identity::new(4);
    early.advance(60_000);
    let early = offer_of(&early).await;
    let early = b.links.answer(&early.to_bytes(), Source::Local).await;
    assert_eq!(code(early), "signal/from_the_future");

    let late = offer_of(&alice).await;
    b.identity.advance(SIGNAL_TTL_DEFAULT_MS + 1);
    let late = b.links.answer(&late.to_bytes(), Source::Local).await;
    assert_eq!(code(late), "signal/expired");

    // One link may still come of all that, the first.
    assert_eq!(b.links.status().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_description_that_breaks_the_rules_opens_nothing() {
    let b = Node::new(2).await;
    let alice = Identity::new(1);
    let sdp = description().await;
    let video = format!("{sdp}m=video 9 UDP/TLS/RTP/SAVPF 96\r\n");
    let away = sdp.replace("127.0.0.1", "10.0.0.1");
    for (sdp, expected) in [(video, "sdp/sections"), (away, "sdp/candidate_reach")] {
        let offer = sign(&alice, sdp).to_bytes();
        // Refused before the guard: offers that cost nothing to make take none of its places.
        for _ in 0..2 {
            let refused = b.links.answer(&offer, Source::Local).await;
            assert_eq!(code(refused), expected);
        }
    }
    must("the release", b.links.held().all_released()).await;
}

/// A server that answers every offer with what `answer` says.
async fn server(answer: impl Fn(Bytes) -> Vec<u8> + Clone + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move |offer: Bytes| {
        let body = answer(offer);
        async move { body }
    };
    let router = Router::new().route("/v1/offer", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_counts_for_its_offer_only() {
    let (a, b) = (Node::new(1).await, Node::new(2).await);
    let offer = offer_of(&Identity::new(3)).await.to_bytes();
    let recorded = b.links.answer(&offer, Source::Local).await.unwrap();
    let replay = server(move |_| recorded.clone()).await;
    let refused = must("a refusal", a.links.dial(&replay)).await.unwrap_err();
    assert_eq!(refused.code(), "signal/other_offer");

    let echo = server(|offer| offer.to_vec()).await;
    let refused = must("a refusal", a.links.dial(&echo)).await.unwrap_err();
    assert_eq!(refused.code(), "signal/malformed");
    must("the release", a.links.held().all_released()).await;
}

/// Someone between two nodes can neither swap a description nor pass as either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_swaps_an_offer_is_found_out() {
    let (a, mut b) = (Node::new(1).await, Node::new(2).await);
    let links = b.links.clone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let mallory = Identity::new(9);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let relay = move |offer: Bytes| {
        let (links, mallory, kept) = (links.clone(), Arc::clone(&mallory), Arc::clone(&kept));
        async move {
            kept.lock().unwrap().push(offer);
            // Her own offer instead: the answer is to that one, and says so.
            links
                .answer(&offer_of(&mallory).await.to_bytes(), Source::Local)
                .await
                .unwrap()
        }
    };
    let router = Router::new().route("/v1/offer", post(relay));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let refused = must("a refusal", a.links.dial(&url)).await.unwrap_err();
    assert_eq!(refused.code(), "signal/other_offer");
    assert_eq!(seen.lock().unwrap().len(), 1);
    assert!(b.events.try_recv().is_err(), "no link came up");
}
