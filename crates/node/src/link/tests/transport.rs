//! The transport alone: what it does for the faults of the crate beneath.

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use overlane_core::lane::bounds::LINK_WINDOW_MIN_BYTES;
use overlane_core::wire::bounds::FRAME_MAX_BYTES;
use overlane_core::{Class, Coded};
use tokio::sync::mpsc;

use super::must;
use super::turn::{Manners, Server};
use crate::link::connection::{CHECKS_PER_OFFER_MAX, Connection, ConnectionConfig, WebRtc};
use crate::link::count::Held;
use crate::link::ice::{ICE_SERVERS_MAX, IceServers, LinkPath};
use crate::link::sdp::{self, Fingerprint, Reach, SDP_MAX_CANDIDATES, SdpError};
use crate::link::socket::RECEIVE_BUFFER_UNTUNED_BYTES;
use crate::link::transport::{
    Ended, SEND_BUFFER_MAX_BYTES, Transport, TransportError, TransportEvent,
};

/// One end of a connection.
struct End {
    connection: Arc<Connection>,
    events: mpsc::Receiver<TransportEvent>,
    held: Held,
}

impl End {
    async fn new(config: &ConnectionConfig) -> Self {
        let held = Held::default();
        let (connection, events) = WebRtc::new(config.clone(), held.clone())
            .connect()
            .await
            .unwrap();
        Self {
            connection,
            events,
            held,
        }
    }

    async fn next(&mut self) -> TransportEvent {
        must("a transport event", self.events.recv()).await.unwrap()
    }

    /// What is told until nothing more can be.
    async fn rest(&mut self) -> Vec<TransportEvent> {
        let mut told = Vec::new();
        while let Some(event) = self.events.recv().await {
            told.push(event);
        }
        told
    }

    async fn message(&mut self) -> (Class, Vec<u8>) {
        match self.next().await {
            TransportEvent::Message(class, bytes) => (class, bytes.into()),
            other => panic!("expected a message, got {other:?}"),
        }
    }

    async fn ended(&mut self) -> Ended {
        loop {
            if let TransportEvent::Ended(ended) = self.next().await {
                return ended;
            }
        }
    }

    async fn send(&self, class: Class, bytes: Vec<u8>) {
        let sent = self.connection.send(class, bytes, super::DEADLINE).await;
        sent.unwrap();
    }
}

/// Two ends whose descriptions were exchanged, and nothing more.
async fn introduced(config: &ConnectionConfig) -> (End, End) {
    let (a, b) = (End::new(config).await, End::new(config).await);
    let offer = must("an offer", a.connection.offer()).await.unwrap();
    let answer = must("an answer", b.connection.answer(&offer))
        .await
        .unwrap();
    a.connection.conclude(&answer).await.unwrap();
    (a, b)
}

/// Two ends with all channels open on both.
async fn connected(config: &ConnectionConfig) -> (End, End) {
    let (mut a, mut b) = introduced(config).await;
    for end in [&mut a, &mut b] {
        // Told before any channel is open, so that a policy on it holds for all of them.
        assert_eq!(end.next().await, TransportEvent::Path(LinkPath::Host));
        let mut open = BTreeSet::new();
        while open.len() < Class::ALL.len() {
            match end.next().await {
                TransportEvent::Open(class) => assert!(open.insert(class)),
                other => panic!("expected an open channel, got {other:?}"),
            }
        }
    }
    (a, b)
}

fn numbered(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_channels_carry_both_ways_and_keep_their_order() {
    const EACH: u32 = 50;
    let (mut a, mut b) = connected(&ConnectionConfig::default()).await;
    for number in 0..EACH {
        for class in Class::ALL {
            a.send(class, numbered(number)).await;
            b.send(class, numbered(number)).await;
        }
    }
    for end in [&mut a, &mut b] {
        let mut next = [0; 4];
        for _ in 0..EACH * 4 {
            let (class, bytes) = end.message().await;
            let next = &mut next[usize::from(class.index())];
            assert_eq!(bytes, numbered(*next), "{class}");
            *next += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_frame_passes_and_a_longer_one_is_refused() {
    let (a, mut b) = connected(&ConnectionConfig::default()).await;
    let frame = vec![7; FRAME_MAX_BYTES];
    a.send(Class::Application, frame.clone()).await;
    assert_eq!(b.message().await, (Class::Application, frame));
    let long = vec![7; FRAME_MAX_BYTES + 1];
    let bytes = long.len();
    let refused = a.connection.send(Class::E2e, long, super::DEADLINE).await;
    assert_eq!(refused, Err(TransportError::MessageTooLong { bytes }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_send_buffer_is_bounded_and_a_send_ends_at_its_deadline() {
    let (a, _b) = connected(&ConnectionConfig::default()).await;
    a.connection.cable().cut();
    let mut held_bytes = 0;
    let refused = loop {
        let message = vec![1; 16 * 1024];
        let deadline = Duration::from_millis(50);
        match a.connection.send(Class::Storage, message, deadline).await {
            Ok(()) => held_bytes += 16 * 1024,
            Err(error) => break error,
        }
        assert!(
            held_bytes <= SEND_BUFFER_MAX_BYTES + FRAME_MAX_BYTES,
            "the channel took {held_bytes} bytes that nobody acknowledged"
        );
    };
    assert_eq!(
        refused,
        TransportError::SendDeadline {
            class: Class::Storage,
            deadline_ms: 50
        }
    );
    // The others still take what fits.
    a.send(Class::Control, numbered(1)).await;
}

/// Timeouts short enough that a test need not wait for the defaults.
fn impatient() -> ConnectionConfig {
    ConnectionConfig {
        disconnected_ms: 300,
        failed_ms: 300,
        keepalive_ms: 50,
        ..ConnectionConfig::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vanished_peer_is_detected_by_the_timeouts_that_were_set() {
    let (mut patient, far_from_patient) = connected(&ConnectionConfig::default()).await;
    let (mut a, b) = connected(&impatient()).await;
    far_from_patient.connection.cable().cut();
    b.connection.cable().cut();
    // Cut first, told last: each by its own timeouts.
    tokio::select! {
        biased;
        ended = patient.ended() => panic!("the patient end was told first: {ended:?}"),
        ended = a.ended() => assert_eq!(ended, Ended::Lost),
    }
}

/// Whoever offers chooses where the checks go, and nobody there need have asked for them. With servers
/// a node tries each address from more of its own, and no more often for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_one_offer_makes_few_checks_go_to_addresses_of_its_choice() {
    let lies_of_addresses = true;
    let server = Server::new(Manners {
        lies_of_addresses,
        ..Manners::default()
    })
    .await;
    let other = Server::new(Manners::default()).await;
    let servers = vec![server.stun(), server.turn(), other.turn()];
    assert_eq!(servers.len(), ICE_SERVERS_MAX);
    for ice_servers in [Vec::new(), servers] {
        let own = 1 + ice_servers.len();
        let config = ConnectionConfig {
            check_interval_ms: 1,
            ice_servers: IceServers::new(ice_servers).unwrap(),
            ..impatient()
        };
        let checks = checks_that_one_offer_makes(&config).await;
        assert!(
            checks >= SDP_MAX_CANDIDATES * own,
            "from {own} addresses {checks} checks: some went elsewhere"
        );
        assert!(checks <= CHECKS_PER_OFFER_MAX, "{checks} checks");
    }
}

async fn checks_that_one_offer_makes(config: &ConnectionConfig) -> usize {
    let (a, mut b) = (End::new(config).await, End::new(config).await);
    let offer = must("an offer", a.connection.offer()).await.unwrap();
    let victims: Vec<_> = (0..SDP_MAX_CANDIDATES)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    let mut aimed = String::new();
    for line in offer.lines().filter(|line| !line.contains("candidate")) {
        aimed.push_str(&format!("{line}\r\n"));
    }
    for (number, victim) in victims.iter().enumerate() {
        let port = victim.local_addr().unwrap().port();
        let line = format!("a=candidate:{number} 1 udp 2130706431 127.0.0.1 {port} typ host\r\n");
        aimed.push_str(&line);
    }
    must("an answer", b.connection.answer(&aimed))
        .await
        .unwrap();
    assert_eq!(b.ended().await, Ended::Lost);
    let mut checks = 0;
    for victim in &victims {
        victim.set_nonblocking(true).unwrap();
        while victim.recv(&mut [0; 1_500]).is_ok() {
            checks += 1;
        }
    }
    checks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timeouts_of_a_node_notice_within_ten_seconds() {
    let config = ConnectionConfig::default();
    assert!(config.disconnected_ms + config.failed_ms <= 10_000);
    assert!(config.keepalive_ms * 2 <= config.disconnected_ms);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_tells_the_peer_and_releases_everything() {
    let (a, mut b) = connected(&ConnectionConfig::default()).await;
    assert_eq!(a.held.sockets.now(), 1);
    a.connection.close().await;
    a.connection.close().await;
    must("the release", a.held.all_released()).await;
    assert_eq!(b.ended().await, Ended::Closed);
    let refused = a.connection.send(Class::Control, vec![1], super::DEADLINE);
    assert_eq!(refused.await, Err(TransportError::Closed));
    b.connection.close().await;
    must("the release", b.held.all_released()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_an_end_leaves_no_driver_and_no_socket() {
    let (a, b) = connected(&ConnectionConfig::default()).await;
    let (a_held, b_held) = (a.held.clone(), b.held.clone());
    assert_eq!((a_held.drivers.now(), a_held.sockets.now()), (1, 1));
    drop((a, b));
    must("the release", a_held.all_released()).await;
    must("the release", b_held.all_released()).await;
    // Half-way through too.
    let half = End::new(&ConnectionConfig::default()).await;
    half.connection.offer().await.unwrap();
    let held = half.held.clone();
    drop(half);
    must("the release", held.all_released()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_of_the_peers_own_ends_the_connection() {
    let (a, mut b) = connected(&ConnectionConfig::default()).await;
    let peer_connection = a.connection.peer_connection();
    let _channel = peer_connection
        .create_data_channel("x", None)
        .await
        .unwrap();
    assert_eq!(b.ended().await, Ended::ForeignChannel);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_channel_ends_the_connection() {
    let (a, mut b) = connected(&ConnectionConfig::default()).await;
    // Only a used channel's close reaches the other side.
    a.send(Class::E2e, numbered(1)).await;
    assert_eq!(b.message().await.0, Class::E2e);
    a.connection.channel(Class::E2e).close().await.unwrap();
    assert_eq!(b.ended().await, Ended::Closed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_window_is_chosen_from_the_granted_buffer() {
    let small = ConnectionConfig {
        receive_buffer_bytes: RECEIVE_BUFFER_UNTUNED_BYTES,
        ..ConnectionConfig::default()
    };
    let end = End::new(&small).await;
    assert_eq!(end.connection.granted_bytes(), RECEIVE_BUFFER_UNTUNED_BYTES);
    assert_eq!(end.connection.byte_window(), LINK_WINDOW_MIN_BYTES);
    let end = End::new(&ConnectionConfig::default()).await;
    let granted_bytes = end.connection.granted_bytes();
    assert!(granted_bytes > 0);
    assert_eq!(
        end.connection.byte_window(),
        crate::link::socket::byte_window(granted_bytes)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_every_connection_has_a_fingerprint_of_its_own() {
    let config = ConnectionConfig::default();
    let (a, b) = (End::new(&config).await, End::new(&config).await);
    let (a, b) = (a.connection.offer().await, b.connection.offer().await);
    let (a, b) = (a.unwrap(), b.unwrap());
    assert!(a.contains("127.0.0.1"), "loopback by default: {a}");
    assert!(!a.contains(".local"), "no mDNS names: {a}");
    let a = sdp::check(&a, Reach::Loopback).unwrap();
    let b = sdp::check(&b, Reach::Loopback).unwrap();
    assert_ne!(a, b);
}

/// The stack checks this too; the link does not take its word alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_the_proved_certificate_is_held_against_the_signed_one() {
    let (mut a, b) = introduced(&ConnectionConfig::default()).await;
    a.connection.expect_fingerprint(Fingerprint([0; 32]));
    let first = a.next().await;
    assert_eq!(first, TransportEvent::Ended(Ended::WrongCertificate));
    // The other side proved its peer, opens its channels and may send: none of it is heard here.
    let told = must("the end of events", a.rest()).await;
    assert_eq!(told, []);
    drop(b);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_description_out_of_reach_is_refused_before_anything_is_sent() {
    let (a, b) = (
        End::new(&ConnectionConfig::default()).await,
        End::new(&ConnectionConfig::default()).await,
    );
    let offer = a.connection.offer().await.unwrap();
    let lan = offer.replace("127.0.0.1", "192.168.1.7");
    let refused = b.connection.answer(&lan).await.unwrap_err();
    let address: IpAddr = "192.168.1.7".parse().unwrap();
    assert_eq!(
        refused,
        TransportError::Sdp(SdpError::CandidateReach {
            address,
            reach: Reach::Loopback
        })
    );
    assert_eq!(refused.code(), "sdp/candidate_reach");
}
