//! The servers that help a link through a NAT, and how they fared; the kind of way a link took.
//!
//! Law (host first): no server holds a link up. What a server has not answered within
//! [`GATHER_DEADLINE_MS`] is left out of the description, and said in the node's status.
//!
//! Source: RFC 8445 (ICE), RFC 8489 (STUN), RFC 8656 (TURN).

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use super::sdp::SDP_MAX_CANDIDATES;
use super::tried::{Attempts, Nat, Way};

/// STUN and TURN servers of a node at most: with the address of its socket, each may add one
/// candidate to a description.
pub const ICE_SERVERS_MAX: usize = SDP_MAX_CANDIDATES - 1;

/// How long a description waits for what the servers answer.
pub const GATHER_DEADLINE_MS: u64 = 1_000;

/// How long a server's name may take to resolve.
pub(super) const RESOLVE_DEADLINE_MS: u64 = 300;

/// The port of a server that names none. Source: RFC 7064, RFC 7065.
const DEFAULT_PORT: u16 = 3478;

const _: () = assert!(ICE_SERVERS_MAX >= 1 && ICE_SERVERS_MAX < SDP_MAX_CANDIDATES);
const _: () = assert!(ICE_SERVERS_MAX as u64 * RESOLVE_DEADLINE_MS < GATHER_DEADLINE_MS);
const _: () = assert!(GATHER_DEADLINE_MS < super::config::SIGNAL_DEADLINE_MS / 2);

/// A STUN or TURN server, over UDP. Its credential is never shown, not by [`fmt::Debug`] either.
#[derive(Clone, PartialEq, Eq)]
pub struct IceServer {
    turn: Option<(String, String)>,
    host: String,
    port: u16,
}

/// Why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IceServerError {
    /// Another form than `stun:HOST:PORT` or `turn:HOST:PORT`.
    #[error("\"{0}\" is no ICE server: expected stun:HOST:PORT or turn:HOST:PORT")]
    Form(String),
    /// Over TCP or TLS.
    #[error(
        "\"{0}\": only UDP is spoken with STUN and TURN servers; leave ?transport and the s out"
    )]
    Transport(String),
    /// A TURN server without a user name and a credential.
    #[error("\"{0}\" needs a username and a credential: a TURN server relays for its users alone")]
    NoCredential(String),
    /// A STUN server with one.
    #[error("\"{0}\" takes no username and no credential: a STUN server answers everybody")]
    Credential(String),
    /// More than [`ICE_SERVERS_MAX`].
    #[error("{0} ICE servers; a node asks at most {ICE_SERVERS_MAX}")]
    TooMany(usize),
}

impl IceServer {
    /// The server at `url`, which is `stun:HOST:PORT` or `turn:HOST:PORT`; the port may be left out,
    /// and an IPv6 address stands in brackets.
    ///
    /// # Errors
    /// [`IceServerError`].
    pub fn new(
        url: &str,
        username: Option<&str>,
        credential: Option<&str>,
    ) -> Result<Self, IceServerError> {
        let form = || IceServerError::Form(url.to_owned());
        let (scheme, place) = url.split_once(':').ok_or_else(form)?;
        if matches!(scheme, "stuns" | "turns") {
            return Err(IceServerError::Transport(url.to_owned()));
        }
        let place = match place.split_once('?') {
            Some((place, "transport=udp")) if scheme == "turn" => place,
            Some((_, query)) if query.starts_with("transport=") => {
                return Err(IceServerError::Transport(url.to_owned()));
            }
            Some(_) => return Err(form()),
            None => place,
        };
        let (host, port) = host_and_port(place).ok_or_else(form)?;
        let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let turn = match (scheme, given(username), given(credential)) {
            ("stun", None, None) => None,
            ("stun", ..) => return Err(IceServerError::Credential(url.to_owned())),
            ("turn", Some(username), Some(credential)) => Some((username, credential)),
            ("turn", ..) => return Err(IceServerError::NoCredential(url.to_owned())),
            _ => return Err(form()),
        };
        Ok(Self { turn, host, port })
    }

    /// Its address, without who uses it.
    pub fn url(&self) -> String {
        let scheme = if self.is_turn() { "turn" } else { "stun" };
        format!("{scheme}:{}:{}", self.host, self.port)
    }

    /// Whether it relays, and does not only tell an address.
    pub fn is_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// The user name and the credential of a TURN server.
    pub(crate) fn credentials(&self) -> Option<(&str, &str)> {
        let turn = self.turn.as_ref();
        turn.map(|(username, credential)| (username.as_str(), credential.as_str()))
    }

    /// What is asked to be resolved for it.
    fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The host, an IPv6 address in brackets and in its one form, and the port.
fn host_and_port(place: &str) -> Option<(String, u16)> {
    let port = |after: &str| match after.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|&port| port != 0),
        None => after.is_empty().then_some(DEFAULT_PORT),
    };
    if let Some(literal) = place.strip_prefix('[') {
        let (address, after) = literal.split_once(']')?;
        let address: Ipv6Addr = address.parse().ok()?;
        return Some((format!("[{address}]"), port(after)?));
    }
    let (host, after) = place.split_at(place.find(':').unwrap_or(place.len()));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let named = !host.is_empty() && host.bytes().all(plain);
    named.then_some((host.to_owned(), port(after)?))
}

/// A place without the brackets of an IPv6 address, which the crate sets here and not there.
fn bare(place: &str) -> String {
    place.replace(['[', ']'], "")
}

impl fmt::Debug for IceServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IceServer").field(&self.url()).finish()
    }
}

/// How a server fared when it was asked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IceServerState {
    /// It was not asked yet.
    Unasked,
    /// It gave what it is there for.
    Works,
    /// Its name does not resolve, or nothing came from it in time.
    Unreachable,
    /// It answered, and relays nothing for this node: the credentials are wrong, or it is full.
    Refused,
}

impl IceServerState {
    /// As it is shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unasked => "not asked yet",
            Self::Works => "works",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
        }
    }

    /// The code of what is wrong, if anything is.
    pub const fn code(&self) -> Option<&'static str> {
        match self {
            Self::Unasked | Self::Works => None,
            Self::Unreachable => Some("ice/unreachable"),
            Self::Refused => Some("ice/refused"),
        }
    }
}

/// The way a link's datagrams take, as its two sides told it in their candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkPath {
    /// From socket to socket.
    Host,
    /// From socket to socket, through a NAT.
    Reflexive,
    /// By way of a TURN server.
    Relayed,
}

impl LinkPath {
    /// As it is shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Host => "direct",
            Self::Reflexive => "direct through a NAT",
            Self::Relayed => "relayed by a TURN server",
        }
    }
}

/// The servers of a node and how each fared last, what they say of a NAT, and what connections tried. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct IceServers(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    servers: Vec<(IceServer, Mutex<IceServerState>)>,
    nat: Mutex<Nat>,
    attempts: Attempts,
}

impl IceServers {
    /// These servers, none asked yet.
    ///
    /// # Errors
    /// [`IceServerError::TooMany`].
    pub fn new(servers: Vec<IceServer>) -> Result<Self, IceServerError> {
        if servers.len() > ICE_SERVERS_MAX {
            return Err(IceServerError::TooMany(servers.len()));
        }
        let unasked = |server| (server, Mutex::new(IceServerState::Unasked));
        Ok(Self(Arc::new(Known {
            servers: servers.into_iter().map(unasked).collect(),
            ..Known::default()
        })))
    }

    /// Each, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = (&IceServer, IceServerState)> {
        let state = |state: &Mutex<_>| *state.lock().unwrap_or_else(PoisonError::into_inner);
        self.0
            .servers
            .iter()
            .map(move |(server, it)| (server, state(it)))
    }

    /// What stands before this node, as the servers saw it last.
    pub fn nat(&self) -> Nat {
        *self.0.nat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What connections tried.
    pub fn attempts(&self) -> &Attempts {
        &self.0.attempts
    }

    /// Whether there is a server that relays.
    pub fn has_turn(&self) -> bool {
        self.0.servers.iter().any(|(server, _)| server.is_turn())
    }

    /// Keeps what one gathering showed of each server that was `asked`, and warns of what is new and
    /// bad.
    pub(super) fn judge(&self, seen: &Gathering, asked: impl Fn(&IceServer) -> bool) {
        for (server, state) in self.0.servers.iter().filter(|(server, _)| asked(server)) {
            let now = seen.state_of(server);
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if *state != now
                && let Some(code) = now.code()
            {
                tracing::warn!(server = %server.url(), code, "an ICE server is of no help: links go on without it");
            }
            *state = now;
        }
        let nat = seen.nat();
        if nat != Nat::Unknown {
            *self.0.nat.lock().unwrap_or_else(PoisonError::into_inner) = nat;
        }
    }
}

/// What one connection heard of the servers. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Gathering(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    /// The addresses of each place that was resolved.
    places: Vec<(String, Vec<SocketAddr>)>,
    /// The addresses of servers that something came from.
    from: BTreeSet<SocketAddr>,
    /// The places of the TURN servers that gave a relayed candidate.
    relays: BTreeSet<String>,
    /// The addresses that servers saw this node at, besides its own.
    mapped: BTreeSet<SocketAddr>,
    /// The addresses that the peer offered.
    ways: Vec<Way>,
}

impl Gathering {
    pub(super) fn resolved(&self, place: &str, addresses: &[SocketAddr]) {
        self.with(|heard| heard.places.push((bare(place), addresses.to_vec())));
    }

    pub(super) fn came_from(&self, address: SocketAddr) {
        self.with(|heard| {
            if heard.is_server(address) {
                heard.from.insert(address);
            } else if let Some(way) = heard.ways.iter_mut().find(|it| it.address == address) {
                way.answered = true;
            }
        });
    }

    /// A server saw this node at another address than its own.
    pub(super) fn mapped(&self, address: SocketAddr) {
        self.with(|heard| heard.mapped.insert(address));
    }

    /// The peer offers these addresses.
    pub(super) fn offered(&self, ways: Vec<Way>) {
        self.with(|heard| heard.ways = ways);
    }

    /// The addresses that the peer offered, and which of them answered.
    pub(super) fn ways(&self) -> Vec<Way> {
        self.with(|heard| heard.ways.clone())
    }

    fn nat(&self) -> Nat {
        self.with(|heard| {
            // Of two names of one server it is one.
            Nat::seen(heard.from.len(), &heard.mapped)
        })
    }

    /// The TURN server at this URL of the crate's gave a relayed candidate.
    pub(super) fn relays(&self, url: &str) {
        let url = url.split('?').next().unwrap_or(url);
        let place = url.strip_prefix("turn:").unwrap_or(url);
        self.with(|heard| heard.relays.insert(bare(place)));
    }

    /// Whether a server is there, and no peer.
    pub(super) fn is_server(&self, address: SocketAddr) -> bool {
        self.with(|heard| heard.is_server(address))
    }

    fn state_of(&self, server: &IceServer) -> IceServerState {
        let place = bare(&server.place());
        self.with(|heard| {
            let named = heard.places.iter().filter(|(name, _)| *name == place);
            let mut addresses = named.flat_map(|(_, addresses)| addresses);
            if !addresses.any(|address| heard.from.contains(address)) {
                IceServerState::Unreachable
            } else if server.is_turn() && !heard.relays.contains(&place) {
                IceServerState::Refused
            } else {
                IceServerState::Works
            }
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Heard) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Heard {
    fn is_server(&self, address: SocketAddr) -> bool {
        let mut places = self.places.iter();
        places.any(|(_, addresses)| addresses.contains(&address))
    }
}

/// The address of this machine that faces the network: that of the default route. Nothing is sent.
pub fn facing_the_network() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // An address of documentation (RFC 5737): what counts is the route to it.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_one_form_and_its_credential_is_not_shown() {
        let turn = IceServer::new(
            "turn:relay.example?transport=udp",
            Some("me"),
            Some("s3cret"),
        )
        .expect("a server");
        assert_eq!(turn.url(), "turn:relay.example:3478");
        assert!(!format!("{turn:?}").contains("s3cret"));
        for (url, user, error) in [
            ("stun:", None, IceServerError::Form("stun:".into())),
            ("http://a", None, IceServerError::Form("http://a".into())),
            ("stun:a:0", None, IceServerError::Form("stun:a:0".into())),
            ("stun:a b", None, IceServerError::Form("stun:a b".into())),
            ("stun:::1", None, IceServerError::Form("stun:::1".into())),
            ("stun:[::1", None, IceServerError::Form("stun:[::1".into())),
            (
                "stun:[a]:1",
                None,
                IceServerError::Form("stun:[a]:1".into()),
            ),
            (
                "stun:[::1]1",
                None,
                IceServerError::Form("stun:[::1]1".into()),
            ),
            (
                "turn:a",
                None,
                IceServerError::NoCredential("turn:a".into()),
            ),
            (
                "stun:a",
                Some("u"),
                IceServerError::Credential("stun:a".into()),
            ),
            (
                "turns:a",
                Some("u"),
                IceServerError::Transport("turns:a".into()),
            ),
            (
                "turn:a?transport=tcp",
                Some("u"),
                IceServerError::Transport("turn:a?transport=tcp".into()),
            ),
        ] {
            assert_eq!(IceServer::new(url, user, user), Err(error));
        }
    }

    #[test]
    fn an_ipv6_address_stands_in_brackets() {
        for (url, one_form) in [
            ("stun:[::1]:19302", "stun:[::1]:19302"),
            ("stun:[2001:DB8:0:0:0:0:0:1]", "stun:[2001:db8::1]:3478"),
        ] {
            let server = IceServer::new(url, None, None).expect("a server");
            assert_eq!(server.url(), one_form);
        }
        // The crate names such a server with and without brackets.
        let url = "turn:[2001:db8:1:2:3:4:5:6]";
        let turn = IceServer::new(url, Some("u"), Some("c")).expect("a server");
        let servers = IceServers::new(vec![turn]).expect("one server");
        let seen = Gathering::default();
        let there = "[2001:db8:1:2:3:4:5:6]:3478".parse().expect("an address");
        seen.resolved("2001:db8:1:2:3:4:5:6:3478", &[there]);
        seen.came_from(there);
        seen.relays("turn:2001:db8:1:2:3:4:5:6:3478?transport=udp");
        servers.judge(&seen, |_| true);
        let states: Vec<_> = servers.iter().map(|(_, state)| state).collect();
        assert_eq!(states, [IceServerState::Works]);
    }

    #[test]
    fn a_full_list_of_servers_is_taken_and_one_more_is_refused() {
        let stun = IceServer::new("stun:a", None, None).expect("a server");
        assert!(IceServers::new(vec![stun.clone(); ICE_SERVERS_MAX]).is_ok());
        let more = IceServers::new(vec![stun; ICE_SERVERS_MAX + 1]);
        assert_eq!(
            more.err(),
            Some(IceServerError::TooMany(ICE_SERVERS_MAX + 1))
        );
    }

    #[test]
    fn a_server_is_unreachable_refuses_or_works() {
        let turn = IceServer::new("turn:a", Some("u"), Some("c")).expect("a server");
        let servers = IceServers::new(vec![turn.clone()]).expect("one server");
        let state = |servers: &IceServers| servers.iter().map(|(_, it)| it).collect::<Vec<_>>();
        assert_eq!(state(&servers), [IceServerState::Unasked]);
        let seen = Gathering::default();
        servers.judge(&seen, |server| !server.is_turn());
        assert_eq!(state(&servers), [IceServerState::Unasked]);
        let (there, elsewhere) = (([1, 2, 3, 4], 3478).into(), ([1, 2, 3, 5], 3478).into());
        seen.resolved("a:3478", &[there]);
        seen.came_from(elsewhere);
        servers.judge(&seen, |_| true);
        assert_eq!(state(&servers), [IceServerState::Unreachable]);
        seen.came_from(there);
        servers.judge(&seen, |_| true);
        assert_eq!(state(&servers), [IceServerState::Refused]);
        seen.relays("turn:a:3478?transport=udp");
        servers.judge(&seen, |_| true);
        assert_eq!(state(&servers), [IceServerState::Works]);
    }
}
