//! The configuration file: TOML, every key explained, every mistake shown with its line.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use overlane_core::NetworkId;
use overlane_storage_native::StoreKind;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::{HomeError, files};
use crate::PEERS_MAX;
use crate::link::ice::{ICE_SERVERS_MAX, IceServer, IceServerError, facing_the_network};

/// The network of a node whose operator chose none.
const DEFAULT_NETWORK: NetworkId = NetworkId(1);

/// Where other nodes post their offers unless the operator chose: loopback, so that nothing is
/// open to others before somebody asked for it.
const DEFAULT_LISTEN: &str = "127.0.0.1:7420";

/// How replay records are kept unless the operator chose.
const DEFAULT_STORE: StoreKind = StoreKind::Journal;

/// What the targets of this node's own crates begin with.
const OWN_TARGETS: &str = "overlane";

/// What the operator chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The network.
    pub network: NetworkId,
    /// Where other nodes post their offers.
    pub listen: SocketAddr,
    /// How replay records are kept.
    pub store: StoreKind,
    /// URLs of nodes to stay linked to.
    pub peers: Vec<String>,
    /// What is logged.
    pub log: LogFilter,
    /// How links are made.
    pub links: LinksConfig,
    /// STUN and TURN servers, which help links through NATs.
    pub ice_servers: Vec<IceServer>,
}

/// How links are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinksConfig {
    /// The address of this machine that links are bound to; one that fits `listen` if none is set.
    pub bind: Option<IpAddr>,
    /// Whether a link by way of a TURN server is refused.
    pub require_direct: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            network: DEFAULT_NETWORK,
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            store: DEFAULT_STORE,
            peers: Vec::new(),
            log: LogFilter::default(),
            links: LinksConfig::default(),
            ice_servers: Vec::new(),
        }
    }
}

/// What is logged: a level, or levels by target ("info,overlane_node::link=debug"). A level alone
/// is that of the node's own messages: the libraries under it warn of what it handles, so they tell
/// errors only, unless a target names them ("warn,rtc=debug").
#[derive(Debug, Clone, PartialEq)]
pub struct LogFilter {
    text: String,
    /// Boxed, as it is some hundred bytes that few ask for.
    targets: Box<Targets>,
}

impl LogFilter {
    /// The filter, for a subscriber.
    pub fn targets(&self) -> Targets {
        Targets::clone(&self.targets)
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self {
            text: "warn".to_owned(),
            targets: Box::new(own(&Targets::new().with_default(LevelFilter::WARN))),
        }
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |cause: String| format!("\"{text}\" is no log filter: {cause}");
        // A target without a level would be taken for a level misspelt, and silence all else.
        let bare = |part: &&str| !part.contains('=') && part.parse::<LevelFilter>().is_err();
        if let Some(part) = text.split(',').find(bare) {
            return Err(wrong(format!("\"{part}\" is no level, and has none")));
        }
        let targets: Targets = text
            .parse()
            .map_err(|error: tracing_subscriber::filter::ParseError| wrong(error.to_string()))?;
        Ok(Self {
            text: text.to_owned(),
            targets: Box::new(own(&targets)),
        })
    }
}

/// The same, with the default level for this node's own targets, and errors only of all others.
fn own(targets: &Targets) -> Targets {
    let level = targets.default_level().unwrap_or(LevelFilter::OFF);
    Targets::new()
        .with_default(level.min(LevelFilter::ERROR))
        .with_target(OWN_TARGETS, level)
        .with_targets(targets.iter())
}

impl Config {
    /// Reads `path`; a missing file is the defaults.
    pub(super) fn read(path: &Path) -> Result<Self, HomeError> {
        Self::parse(&text(path)?, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, HomeError> {
        let file: ConfigFile = toml::from_str(text)
            .map_err(|error| wrong(path, text, error.span(), error.message()))?;
        let peers = peers(&file.peers)
            .map_err(|(start, cause)| wrong(path, text, Some(start..start), &cause))?;
        let ice_servers = ice_servers(&file.ice.servers)
            .map_err(|(start, cause)| wrong(path, text, Some(start..start), &cause.to_string()))?;
        let default = Self::default();
        Ok(Self {
            network: file.network.map_or(default.network, NetworkId),
            listen: file.listen.map_or(default.listen, |it| it.0),
            store: file.store.map_or(default.store, |it| it.0.0),
            peers,
            log: file.log.map_or(default.log, |it| it.0),
            links: LinksConfig {
                bind: file.links.bind.map(|it| it.0),
                require_direct: matches!(file.links.require, Some(Text(Require::Direct))),
            },
            ice_servers,
        })
    }

    /// The address that links are bound to.
    pub fn links_bind(&self) -> IpAddr {
        let listen = self.listen.ip();
        let fits = || {
            let everywhere = listen.is_unspecified();
            everywhere.then(facing_the_network).flatten()
        };
        let bind = self.links.bind.or_else(fits).unwrap_or(listen);
        if bind.is_unspecified() {
            return IpAddr::from([127, 0, 0, 1]);
        }
        bind
    }

    /// The file that says this, with a word on every key.
    pub fn to_toml(&self) -> String {
        let Self {
            network,
            listen,
            store,
            peers,
            log,
            links,
            ice_servers,
        } = self;
        let store = store.name();
        let log = &log.text;
        let bind = links
            .bind
            .map_or("# bind = \"192.0.2.1\"".to_owned(), |bind| {
                format!("bind = \"{bind}\"")
            });
        let require = if links.require_direct {
            "direct"
        } else {
            "any"
        };
        let servers: String = ice_servers.iter().map(server_in_toml).collect();
        let peers: toml_edit::Array = peers.iter().collect();
        format!(
            r#"# What this node is to do. Every key may be left out; it then has the default named here.
# The daemon reads this file when it starts.

# The number of the network: nodes of another network are refused. Default {DEFAULT_NETWORK}.
network = {network}

# Where other nodes post their offers to link: an address of this machine and a port. On loopback
# (the default, {DEFAULT_LISTEN}) only nodes on this machine can; port 0 takes any free port.
listen = "{listen}"

# How the replay records are kept, in the folder "replay" of this home. "journal" (the default): one
# append a batch, and a snapshot; "files": one file a record. A folder of one kind is not opened as
# the other.
store = "{store}"

# The nodes to stay linked to, as ["http://HOST:PORT", …]. `overlane peer add` and
# `overlane peer drop` edit this line. Default: none.
peers = {peers}

# What is logged to standard error: "off", "error", "warn" (the default), "info", "debug", "trace",
# or levels by target, as in "warn,overlane_node=debug". The libraries under the node tell errors
# only, unless a target names them, as in "warn,rtc=debug".
log = "{log}"

[links]
# The address of this machine that links are bound to. Default: the address in `listen`; where that
# is all of them, the one that faces the network. A node that listens on loopback and links to other
# machines, or through a NAT, names its own address here.
{bind}
# "any" (the default), or "direct": a link by way of a TURN server is refused, and its peer is reached
# by way of other nodes.
require = "{require}"

# STUN servers, which help links through NATs: {ICE_SERVERS_MAX} at most, asked over UDP.
# [[ice.servers]]
# url = "stun:stun.example:3478"
{servers}"#
        )
    }
}

/// Puts `peers` in place of the list in the file, and keeps everything else, comments too.
pub(super) fn write_peers(path: &Path, peers: &[String]) -> Result<(), HomeError> {
    let before = text(path)?;
    let mut document: toml_edit::DocumentMut =
        before.parse().map_err(|error: toml_edit::TomlError| {
            wrong(path, &before, error.span(), error.message())
        })?;
    let list: toml_edit::Array = peers.iter().collect();
    let decor = document
        .get("peers")
        .and_then(toml_edit::Item::as_value)
        .map(|value| value.decor().clone());
    let mut value = toml_edit::Value::from(list);
    if let Some(decor) = decor {
        *value.decor_mut() = decor;
    }
    let value = toml_edit::Item::Value(value);
    // Inserting would put a bare key in the place of one that has comments above it.
    match document.get_mut("peers") {
        Some(there) => *there = value,
        None => drop(document.insert("peers", value)),
    }
    files::replace(path, document.to_string().as_bytes(), 0o644)
}

/// The one form of a node's signalling address: `http://HOST:PORT`.
///
/// # Errors
/// What is wrong with it, in words.
pub fn peer_url(text: &str) -> Result<String, String> {
    let wrong = |cause: &str| Err(format!("\"{text}\" is no peer URL: {cause}"));
    let Ok(uri) = text.parse::<axum::http::Uri>() else {
        return wrong("expected http://HOST:PORT");
    };
    match (uri.scheme_str(), uri.authority(), uri.port_u16()) {
        (Some("http"), Some(authority), Some(_)) if authority.host().is_empty() => {
            wrong("the host is missing, as in http://127.0.0.1:7420")
        }
        (Some("http"), Some(authority), Some(_)) => match uri.path_and_query() {
            Some(more) if more != "/" => wrong("nothing may follow the port"),
            _ => Ok(format!("http://{authority}")),
        },
        (Some("http"), ..) => wrong("the port is missing, as in http://127.0.0.1:7420"),
        _ => wrong("it must begin with http://"),
    }
}

fn text(path: &Path) -> Result<String, HomeError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(HomeError::io("read", path)),
    }
}

fn wrong(path: &Path, text: &str, span: Option<Range<usize>>, cause: &str) -> HomeError {
    let start = span.map_or(0, |span| span.start);
    let before = text.bytes().take(start);
    HomeError::Config {
        path: path.to_owned(),
        line: 1 + before.filter(|&byte| byte == b'\n').count(),
        cause: cause.to_owned(),
    }
}

/// The file as it is written. A type a value, so that a mistake is shown with the value's line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    network: Option<u32>,
    listen: Option<Text<SocketAddr>>,
    store: Option<Text<StoreName>>,
    #[serde(default)]
    peers: Vec<toml::Spanned<String>>,
    log: Option<Text<LogFilter>>,
    #[serde(default)]
    links: LinksTable,
    #[serde(default)]
    ice: IceTable,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinksTable {
    bind: Option<Text<IpAddr>>,
    require: Option<Text<Require>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct IceTable {
    #[serde(default)]
    servers: Vec<toml::Spanned<ServerTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerTable {
    url: toml::Spanned<String>,
    username: Option<String>,
    credential: Option<String>,
}

/// What a link must be.
enum Require {
    Any,
    Direct,
}

impl FromStr for Require {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "any" => Ok(Self::Any),
            "direct" => Ok(Self::Direct),
            _ => Err(format!(
                "links require \"{word}\"; there is \"any\" and \"direct\""
            )),
        }
    }
}

/// The servers, or where one is wrong and why.
fn ice_servers(
    written: &[toml::Spanned<ServerTable>],
) -> Result<Vec<IceServer>, (usize, IceServerError)> {
    if let Some(beyond) = written.get(ICE_SERVERS_MAX) {
        return Err((beyond.span().start, IceServerError::TooMany(written.len())));
    }
    let server = |it: &toml::Spanned<ServerTable>| {
        let ServerTable {
            url,
            username,
            credential,
        } = it.get_ref();
        IceServer::new(url.get_ref(), username.as_deref(), credential.as_deref())
            .map_err(|cause| (url.span().start, cause))
    };
    written.iter().map(server).collect()
}

fn server_in_toml(server: &IceServer) -> String {
    let text = |text: &str| toml_edit::Value::from(text).to_string();
    let url = text(&server.url());
    let turn = server.credentials().map(|(username, credential)| {
        let (username, credential) = (text(username), text(credential));
        format!("username = {username}\ncredential = {credential}\n")
    });
    format!(
        "\n[[ice.servers]]\nurl = {url}\n{}",
        turn.unwrap_or_default()
    )
}

/// The URLs in their one form, or where one is wrong and why. None is left out without a word.
fn peers(written: &[toml::Spanned<String>]) -> Result<Vec<String>, (usize, String)> {
    if let Some(beyond) = written.get(PEERS_MAX) {
        let count = written.len();
        let cause = format!("{count} peers; a node stays linked to at most {PEERS_MAX}");
        return Err((beyond.span().start, cause));
    }
    let form = |it: &toml::Spanned<String>| {
        peer_url(it.get_ref()).map_err(|cause| (it.span().start, cause))
    };
    written.iter().map(form).collect()
}

/// A value that is written as text.
struct Text<T>(T);

impl<'de, T: FromStr<Err: std::fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

struct StoreName(StoreKind);

impl FromStr for StoreName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let kind = StoreKind::from_name(name).map(Self);
        kind.ok_or_else(|| format!("\"{name}\" is no store; there is \"journal\" and \"files\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, HomeError> {
        Config::parse(text, Path::new("config.toml"))
    }

    #[test]
    fn the_written_file_reads_back() {
        let config = Config {
            network: NetworkId(7),
            listen: SocketAddr::from(([127, 0, 0, 1], 1)),
            store: StoreKind::Files,
            peers: vec!["http://127.0.0.1:2".to_owned()],
            log: "info,overlane_node=debug".parse().expect("a filter"),
            links: LinksConfig {
                bind: Some([192, 0, 2, 1].into()),
                require_direct: true,
            },
            ice_servers: vec![
                IceServer::new("stun:a", None, None).expect("a server"),
                IceServer::new("turn:b:1", Some("me"), Some("\"q\"")).expect("a server"),
            ],
        };
        assert_eq!(parse(&config.to_toml()), Ok(config));
        assert_eq!(parse(&Config::default().to_toml()), Ok(Config::default()));
        assert_eq!(parse(""), Ok(Config::default()));
        assert_eq!(Config::default().listen.to_string(), DEFAULT_LISTEN);
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        for (line, text, words) in [
            (2, "\nnetwrk = 1", "netwrk"),
            (1, "network = \"one\"", "invalid type"),
            (1, "network = 4294967296", "u32"),
            (3, "network = 1\n\nlisten = \"127.0.0.1\"", "socket address"),
            (2, "# hm\nstore = \"memory\"", "\"files\""),
            (
                3,
                "peers = [\n \"http://127.0.0.1:1\",\n \"ftp://x:1\"]",
                "http://",
            ),
            (1, "peers = [\"http://127.0.0.1\"]", "port"),
            (1, "log = \"a=loud\"", "log filter"),
            (1, "log = \"loud\"", "no level"),
            (1, "log = \"warn,overlane_nod\"", "no level"),
            (1, "network = = 1", ""),
            (2, "[links]\nrequire = \"drect\"", "\"direct\""),
            (2, "[links]\nbund = \"1.2.3.4\"", "bind"),
            (2, "[[ice.servers]]\nurl = \"turn:a\"", "username"),
            (2, "[[ice.servers]]\nurl = \"stun:\"", "ICE server"),
            (
                3,
                "[[ice.servers]]\nurl = \"stun:a\"\npassword = \"x\"",
                "credential",
            ),
        ] {
            let Err(HomeError::Config {
                line: at, cause, ..
            }) = parse(text)
            else {
                panic!("{text:?} was taken");
            };
            assert_eq!(at, line, "{text:?}: {cause}");
            assert!(cause.contains(words), "{text:?}: {cause}");
        }
    }

    #[test]
    fn more_peers_than_a_node_keeps_are_a_mistake() {
        let text = |count: usize| {
            let urls = (1..=count).map(|port| format!("\"http://127.0.0.1:{port}\""));
            format!("\npeers = [{}]", urls.collect::<Vec<_>>().join(", "))
        };
        let full = parse(&text(PEERS_MAX)).expect("as many as may be");
        assert_eq!(full.peers.len(), PEERS_MAX);
        let Err(HomeError::Config { line, cause, .. }) = parse(&text(PEERS_MAX + 1)) else {
            panic!("one too many was taken");
        };
        assert_eq!((line, cause.contains("at most 64")), (2, true), "{cause}");
    }

    #[test]
    fn libraries_tell_errors_only_unless_they_are_named() {
        use tracing::Level;
        let tells = |text: &str, target: &str, level: Level| {
            let filter: LogFilter = text.parse().expect("a filter");
            filter.targets().would_enable(target, &level)
        };
        assert_eq!(LogFilter::default(), "warn".parse().expect("a filter"));
        assert!(tells("warn", "overlane_node::link", Level::WARN));
        assert!(!tells("warn", "rtc_ice::agent", Level::WARN));
        assert!(tells("warn", "rtc_ice::agent", Level::ERROR));
        assert!(!tells("debug", "rtc", Level::WARN));
        assert!(tells("debug", "overlane", Level::DEBUG));
        assert!(tells("warn,rtc=debug", "rtc_ice", Level::DEBUG));
        assert!(tells(
            "warn,overlane_node=debug",
            "overlane_node::link",
            Level::DEBUG
        ));
        assert!(!tells(
            "warn,overlane_node=debug",
            "overlane_core",
            Level::DEBUG
        ));
        assert!(!tells("off", "rtc", Level::ERROR));
        assert!(!tells("off", "overlane", Level::ERROR));
        assert!(!tells("rtc=debug", "overlane", Level::ERROR));
    }

    #[test]
    fn a_peer_url_has_one_form() {
        let one = Ok("http://127.0.0.1:7420".to_owned());
        assert_eq!(peer_url("http://127.0.0.1:7420"), one);
        assert_eq!(peer_url("http://127.0.0.1:7420/"), one);
        assert_eq!(peer_url("http://[::1]:1"), Ok("http://[::1]:1".to_owned()));
        for wrong in [
            "",
            "7420",
            "127.0.0.1:7420",
            "http://:7420",
            "http://a",
            "http://a:1/b",
            "http://a:1/?b",
            "https://a:1",
        ] {
            assert!(peer_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn editing_the_peers_keeps_every_other_byte() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("config.toml");
        let file = Config::default()
            .to_toml()
            .replace("network = 1", "network =   9 # mine");
        fs::write(&path, &file).expect("written");
        write_peers(&path, &["http://127.0.0.1:5".to_owned()]).expect("edited");
        let edited = fs::read_to_string(&path).expect("read");
        let expected = file.replace("peers = []", "peers = [\"http://127.0.0.1:5\"]");
        assert_eq!(edited, expected);
    }
}
