//! How connections are made, and what the WebRTC crate is told of it.

use std::net::IpAddr;
use std::time::Duration;

use overlane_core::wire::bounds::FRAME_MAX_BYTES;
use rtc::ice::mdns::MulticastDnsMode;
use rtc::peer_connection::configuration::setting_engine::SctpMaxMessageSize;
use webrtc::peer_connection::{RTCIceServer, SettingEngine, SettingEngineBuilder};

use super::ice::{ICE_SERVERS_MAX, IceServer, IceServers};
use super::ports::Ports;
use super::relay::{ALLOCATION_REFRESH, RELAY_ACCEPTED_AFTER};
use super::sdp::SDP_MAX_CANDIDATES;
use super::socket::RECEIVE_BUFFER_WANTED_BYTES;

/// How connections are made.
#[derive(Debug, Clone)]
pub struct ConnectionConfig {
    /// The address that every connection's socket is bound to.
    pub bind: IpAddr,
    /// The ports they are bound to.
    pub ports: Ports,
    /// The servers that help through NATs.
    pub ice_servers: IceServers,
    /// Whether a connection by way of a TURN server is refused.
    pub require_direct: bool,
    /// Without a datagram for this long, a connection counts as disturbed.
    pub disconnected_ms: u64,
    /// Disturbed for this long, a connection is lost.
    pub failed_ms: u64,
    /// How often an idle connection is kept alive.
    pub keepalive_ms: u64,
    /// How often connectivity is tried while connecting.
    pub check_interval_ms: u64,
    /// The receive buffer to ask the kernel for.
    pub receive_buffer_bytes: usize,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            bind: IpAddr::from([127, 0, 0, 1]),
            ports: Ports::default(),
            ice_servers: IceServers::default(),
            require_direct: false,
            disconnected_ms: 2_000,
            failed_ms: 8_000,
            keepalive_ms: 1_000,
            check_interval_ms: 50,
            receive_buffer_bytes: RECEIVE_BUFFER_WANTED_BYTES,
        }
    }
}

impl ConnectionConfig {
    /// Whether a connection asks this server: no TURN server where links are to be direct.
    pub(super) fn asks(&self, server: &IceServer) -> bool {
        !(self.require_direct && server.is_turn())
    }

    /// Whether it asks a server to relay.
    pub(super) fn asks_relays(&self) -> bool {
        self.ice_servers.has_turn() && !self.require_direct
    }

    /// How many of its own addresses a connection may come to know, each of which is tried with each
    /// candidate of the peer: its socket's, and one of each server that it asks.
    pub(super) fn own_candidates_max(&self) -> u16 {
        let asked = self.ice_servers.iter().map(|(server, _)| server);
        let asked = asked.filter(|server| self.asks(server)).count();
        u16::try_from(1 + asked).unwrap_or(u16::MAX)
    }
}

/// The servers as the crate takes them.
pub(super) fn servers(config: &ConnectionConfig) -> Vec<RTCIceServer> {
    let servers = config.ice_servers.iter().map(|(server, _)| server);
    let asked = servers.filter(|server| config.asks(server));
    let form = |server: &IceServer| {
        let (username, credential) = server.credentials().unwrap_or_default();
        RTCIceServer {
            urls: vec![server.url()],
            username: username.to_owned(),
            credential: credential.to_owned(),
        }
    };
    asked.map(form).collect()
}

pub(super) fn settings(config: &ConnectionConfig) -> SettingEngine {
    let ms = |ms| Some(Duration::from_millis(ms));
    // The more pairs there are, the rarer each is tried: as long as before, and no more datagrams.
    let own_max = config.own_candidates_max();
    let check_interval_ms = config.check_interval_ms.saturating_mul(own_max.into());
    SettingEngineBuilder::new()
        .with_ice_timeouts(
            ms(config.disconnected_ms),
            ms(config.failed_ms),
            ms(config.keepalive_ms),
        )
        .with_ice_connection_attempts(ms(check_interval_ms), Some(CHECKS_MAX / own_max.max(1)))
        .with_relay_acceptance_min_wait(Some(RELAY_ACCEPTED_AFTER))
        .with_turn_allocation_refresh_interval_cap(ALLOCATION_REFRESH)
        .with_include_loopback_candidate(config.bind.is_loopback())
        .with_multicast_dns_mode(MulticastDnsMode::Disabled)
        .with_sctp_max_message_size(SctpMaxMessageSize::Bounded(FRAME_MAX_BYTES as u32))
        .build()
}

/// Connectivity checks of all pairs with one candidate of the peer before they are given up. The
/// default of 7 a pair is for checks 200 ms apart; ours come faster, and a busy peer needs the time
/// all the same.
const CHECKS_MAX: u16 = 60;

/// Datagrams that one description makes this node send to addresses that never answer, and that
/// its signer chose. One socket is bound; each server that is asked may add an address of this node's
/// own, from which each candidate is tried too, and then each pair less often.
pub const CHECKS_PER_OFFER_MAX: usize = 256;

const OWN_CANDIDATES_MAX: usize = 1 + ICE_SERVERS_MAX;

// The crate sends one check more than it is told before it gives a pair up.
const _: () = assert!(
    SDP_MAX_CANDIDATES * (CHECKS_MAX as usize + OWN_CANDIDATES_MAX) <= CHECKS_PER_OFFER_MAX
);
