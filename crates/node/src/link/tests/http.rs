//! `POST /v1/offer` as a stranger calls it.

use axum::Router;
use axum::http::StatusCode;
use overlane_core::Coded;
use overlane_core::signal::Source;
use overlane_core::wire::bounds::SIGNAL_MAX_BYTES;
use overlane_core::wire::cbor::from_slice;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::must;
use super::node::{Identity, Node};
use crate::link::LinkConfig;
use crate::link::http::Refusal;
use crate::link::server::{HEAD_MAX_BYTES, ServerLimits, serve, serve_sources};
use crate::link::signal::router;

/// Sends `request` and reads what comes back, to its end.
async fn ask(node: &Node, request: Vec<u8>) -> (StatusCode, Vec<u8>) {
    let mut stream = TcpStream::connect(node.url.trim_start_matches("http://"))
        .await
        .unwrap();
    stream.write_all(&request).await.unwrap();
    let mut response = Vec::new();
    must("a response", stream.read_to_end(&mut response))
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&response);
    let status = text.split(' ').nth(1).unwrap().parse::<u16>().unwrap();
    let body = response.windows(4).position(|four| four == b"\r\n\r\n");
    let body = response[body.unwrap() + 4..].to_vec();
    (StatusCode::from_u16(status).unwrap(), body)
}

fn request(headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST /v1/offer HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

async fn refused(node: &Node, request: Vec<u8>) -> (u16, String) {
    let (status, body) = ask(node, request).await;
    let refusal: Refusal = from_slice(&body).unwrap();
    assert_eq!(refusal.refuser, node.did());
    (status.as_u16(), refusal.code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_request_gets_a_typed_refusal() {
    const CBOR: &str = "content-type: application/cbor\r\n";
    let b = Node::new(2).await;
    for (headers, body, expected) in [
        ("", &b"\x80"[..], (415, "signal/content_type")),
        (
            "content-type: text/plain\r\n",
            b"\x80",
            (415, "signal/content_type"),
        ),
        (CBOR, b"", (400, "signal/malformed")),
        (CBOR, b"\x80", (400, "signal/malformed")),
        (CBOR, b"{\"sdp\":1}", (400, "signal/malformed")),
        (CBOR, &[0; SIGNAL_MAX_BYTES + 1], (413, "signal/oversized")),
    ] {
        let (status, code) = refused(&b, request(headers, body)).await;
        assert_eq!((status, code.as_str()), expected, "{headers:?}");
    }
    assert_eq!(b.links.held().sockets.now(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_dawdles_is_given_up() {
    let config = LinkConfig {
        signal_deadline_ms: 200,
        ..LinkConfig::default()
    };
    let b = Node::with(Identity::new(2), config).await;
    let mut slow = request("content-type: application/cbor\r\n", b"abc");
    slow.pop();
    assert_eq!(
        refused(&b, slow).await,
        (408, "signal/late_request".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_node_or_nowhere_is_told_apart() {
    let a = Node::new(1).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, axum::Router::new()).await.unwrap() });
    let refused = must("a refusal", a.links.dial(&url)).await.unwrap_err();
    assert_eq!(refused.code(), "link/not_a_node");

    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let refused = must("a refusal", a.links.dial(&url)).await.unwrap_err();
    assert_eq!(refused.code(), "link/unreachable");

    let refused = must("a refusal", a.links.dial("ftp://x"))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "link/url");
    must("the release", a.links.held().all_released()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_is_given_up() {
    let config = LinkConfig {
        signal_deadline_ms: 300,
        ..LinkConfig::default()
    };
    let a = Node::with(Identity::new(1), config).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let refused = must("a refusal", a.links.dial(&url)).await.unwrap_err();
    assert_eq!(refused.code(), "link/unreachable");
    drop(listener);
}

/// Whoever connects and says nothing holds a place for a while, not for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_are_bounded_and_give_their_places_back() {
    let mut b = Node::new(2).await;
    let limits = ServerLimits {
        connections_max: 2,
        head_deadline: Duration::from_millis(300),
        ..ServerLimits::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    b.url = format!("http://{address}");
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = serve(listener, router(b.links.clone()), limits, async {
        let _ = stopped.await;
    });
    let serving = tokio::spawn(serving);
    let mut idle = Vec::new();
    for _ in 0..limits.connections_max {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let bad = request("content-type: application/cbor\r\n", b"");
    let expected = (400, "signal/malformed".to_owned());
    assert_eq!(refused(&b, bad).await, expected);
    for mut stream in idle {
        // Served only because these were let go.
        let mut rest = Vec::new();
        must("the end", stream.read_to_end(&mut rest))
            .await
            .unwrap();
    }
    stop.send(()).unwrap();
    must("the stop", serving).await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

/// Requests that wait for `go`, and how many were under way at once at most.
fn waiting(go: &Arc<Semaphore>, peak: &Arc<watch::Sender<(usize, usize)>>) -> Router {
    let (go, peak) = (Arc::clone(go), Arc::clone(peak));
    let handler = move || {
        let (go, peak) = (Arc::clone(&go), Arc::clone(&peak));
        async move {
            peak.send_modify(|(now, most)| {
                *now += 1;
                *most = (*most).max(*now);
            });
            go.acquire().await.unwrap().forget();
            peak.send_modify(|(now, _)| *now -= 1);
        }
    };
    Router::new().route("/v1/offer", axum::routing::post(handler))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_bounded() {
    const BOUND: usize = 2;
    let limits = ServerLimits {
        connections_max: BOUND,
        ..ServerLimits::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (go, peak) = (
        Arc::new(Semaphore::new(0)),
        Arc::new(watch::Sender::new((0, 0))),
    );
    let router = waiting(&go, &peak);
    tokio::spawn(serve(listener, router, limits, std::future::pending()));
    let mut streams = Vec::new();
    for _ in 0..3 * BOUND {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&request("", b"")).await.unwrap();
        streams.push(stream);
    }
    for _ in 0..3 * BOUND {
        let mut now = peak.subscribe();
        must("a request", now.wait_for(|(now, _)| *now > 0))
            .await
            .unwrap();
        go.add_permits(1);
    }
    for mut stream in streams {
        let mut response = Vec::new();
        let read = stream.read_to_end(&mut response);
        must("a response", read).await.unwrap();
        assert!(response.starts_with(b"HTTP/1.1 200"));
    }
    assert!(peak.borrow().1 <= BOUND);
}

/// The limits of a listener that only `change` can make give a place back within a test.
fn patient(change: impl Fn(&mut ServerLimits)) -> ServerLimits {
    let hour = Duration::from_secs(3_600);
    let mut limits = ServerLimits {
        connections_max: 1,
        head_deadline: hour,
        connection_deadline: hour,
    };
    change(&mut limits);
    limits
}

/// A listener with these limits, over requests that wait for `go`.
async fn listener(limits: ServerLimits, go: &Arc<Semaphore>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = waiting(go, &Arc::new(watch::Sender::new((0, 0))));
    tokio::spawn(serve(listener, router, limits, std::future::pending()));
    address
}

/// Whoever asks again and again cannot keep a place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_serves_one_request() {
    let address = listener(patient(|_| {}), &Arc::new(Semaphore::new(2))).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let one = b"POST /v1/offer HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(one).await.unwrap();
    let mut response = Vec::new();
    let read = stream.read_to_end(&mut response);
    must("the end of the connection", read).await.unwrap();
    assert!(response.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_ends_at_its_deadline_whatever_it_waits_for() {
    let limits = patient(|limits| limits.connection_deadline = Duration::from_millis(200));
    let address = listener(limits, &Arc::new(Semaphore::new(0))).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&request("", b"")).await.unwrap();
    let mut response = Vec::new();
    let read = stream.read_to_end(&mut response);
    must("the end of the connection", read).await.unwrap();
    assert!(response.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_head_of_a_request_is_bounded() {
    let address = listener(patient(|_| {}), &Arc::new(Semaphore::new(1))).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let padding = "y".repeat(HEAD_MAX_BYTES);
    let head = request(&format!("x: {padding}\r\n"), b"");
    // The listener may hang up before all of it is taken.
    let _ = stream.write_all(&head).await;
    let mut response = Vec::new();
    let _ = must(
        "the end of the connection",
        stream.read_to_end(&mut response),
    )
    .await;
    assert!(!response.starts_with(b"HTTP/1.1 200"));
}

/// Whom a listener of these tests takes a client on this machine for.
fn source(address: IpAddr) -> Source {
    Source::V4(match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => [0; 4],
    })
}

/// The listener says where an offer comes from, and the handshakes are charged for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offer_is_charged_to_where_it_came_from() {
    let config = LinkConfig {
        handshakes_max: 2,
        ..LinkConfig::default()
    };
    let mut b = Node::with(Identity::new(2), config).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    b.url = format!("http://{}", listener.local_addr().unwrap());
    let (routes, limits) = (router(b.links.clone()), ServerLimits::default());
    tokio::spawn(serve_sources(
        listener,
        routes,
        limits,
        source,
        std::future::pending(),
    ));
    let offer = async |seed| {
        let offer = super::signalling::offer_of(&Identity::new(seed)).await;
        request("content-type: application/cbor\r\n", &offer.to_bytes())
    };
    assert_eq!(ask(&b, offer(3).await).await.0, StatusCode::OK);
    let expected = (503, "link/share_full".to_owned());
    assert_eq!(refused(&b, offer(4).await).await, expected);
}

/// One source with all connections that it can get keeps nobody else away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_a_source_that_opens_connections_leaves_places_to_others() {
    let limits = patient(|limits| limits.connections_max = 4);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let go = Arc::new(Semaphore::new(1));
    let router = waiting(&go, &Arc::new(watch::Sender::new((0, 0))));
    let serving = serve_sources(listener, router, limits, source, std::future::pending());
    tokio::spawn(serving);
    let mut greedy = Vec::new();
    for _ in 0..2 {
        greedy.push(TcpStream::connect(address).await.unwrap());
    }
    for _ in 0..4 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // Hung up on, with or without a reset.
        let mut byte = [0];
        let hung_up = must("the end", stream.read(&mut byte)).await;
        assert!(!matches!(hung_up, Ok(1..)));
    }
    let honest = TcpSocket::new_v4().unwrap();
    honest.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut honest = honest.connect(address).await.unwrap();
    honest.write_all(&request("", b"")).await.unwrap();
    let mut response = Vec::new();
    let read = honest.read_to_end(&mut response);
    must("a response", read).await.unwrap();
    assert!(response.starts_with(b"HTTP/1.1 200"));
}
