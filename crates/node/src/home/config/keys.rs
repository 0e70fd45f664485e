//! The table of every key: what `explain`, the written file and `docs/config.md` are made from.

use overlane_core::group::GROUP_MEMBERS_MAX;
use overlane_core::lane::bounds::QUEUED_SHARED_BYTES;
use overlane_core::lane::chunks::LINK_CHUNKS_MAX_BYTES;
use overlane_core::ring::bounds::CONNECTIONS_MAX;
use overlane_relay::inbox::bounds::INBOX_MAILS_MAX;
use overlane_relay::log::Retention;

use crate::PEERS_MAX;
use crate::api::ALLOWED_MAX;
use crate::link::ice::ICE_SERVERS_MAX;
use crate::link::ports::PORTS_MIN;
use crate::peer::groups::{GONE_MAX_MS, GONE_MIN_MS};

/// What comes before a key's name in the environment.
pub(super) const ENVIRONMENT_PREFIX: &str = "OVERLANE_";

/// The most bytes that a bound may be set to.
const BYTES_MAX: u64 = 1 << 40;

/// The shortest time that posts may be kept, and the longest: an hour, and ten years.
const KEEP_MIN_MS: u64 = 3_600 * 1_000;
const KEEP_MAX_MS: u64 = 10 * 365 * 24 * KEEP_MIN_MS;

/// The fewest posts that may be kept: a share of one for each member that a group may have.
const KEEP_POSTS_MIN: u64 = GROUP_MEMBERS_MAX as u64;

/// The fewest bytes that a bound of queues may be set to.
const BYTES_MIN: u64 = 1 << 20;

/// A key of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Profile,
    Network,
    Listen,
    Metrics,
    ApiListen,
    ApiHosts,
    ApiOrigins,
    Store,
    Peers,
    Log,
    LogsFormat,
    LogsIdentities,
    PassphraseFile,
    UnlockFile,
    LinksBind,
    LinksRequire,
    LinksMax,
    LinksPorts,
    LimitsSends,
    LimitsDispatch,
    LimitsChunks,
    LimitsQueued,
    InboxMails,
    GroupsHostGone,
    GroupsKeep,
    GroupsKeepPosts,
    GroupsKeepBytes,
    IceServers,
}

/// What is known of a key.
#[derive(Debug, Clone, Copy)]
pub struct KeySpec {
    pub(super) key: Key,
    /// Its dotted name in the file.
    pub name: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// What it counts; empty where it counts nothing.
    pub unit: &'static str,
    /// What it does, in words.
    pub what: &'static str,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text of a form, with an example.
    Text(&'static str, &'static str),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number from the one to the other.
    Number(u64, u64),
    /// Texts of a form, so many at most.
    List(&'static str, usize),
    /// Tables with these keys, so many at most.
    Tables(&'static [&'static str], usize),
}

impl KeySpec {
    /// The variable of the environment that sets it.
    pub fn environment(&self) -> String {
        format!(
            "{ENVIRONMENT_PREFIX}{}",
            self.name.replace('.', "_").to_uppercase()
        )
    }

    /// The type of its value, in one word.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Text(..) | Kind::Word(_) => "text",
            Kind::Number(..) => "number",
            Kind::List(..) => "list of texts",
            Kind::Tables(..) => "list of tables",
        }
    }

    /// What its value may be, in words.
    pub fn bounds(&self) -> String {
        match self.kind {
            Kind::Text(form, _) => form.to_owned(),
            Kind::Word(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                words.join(" or ")
            }
            Kind::Number(least, most) => format!("{least} to {most}"),
            Kind::List(of, most) => format!("at most {most}, each {of}"),
            Kind::Tables(keys, most) => format!("at most {most}, each with {}", keys.join(", ")),
        }
    }
}

/// Every key, in the order of the file: those of no table first.
pub const KEYS: &[KeySpec] = &[
    KeySpec {
        key: Key::Profile,
        name: "profile",
        kind: Kind::Word(&["home", "server"]),
        unit: "",
        what: "What the defaults are made for: \"home\" is a machine that does other things too, behind a router; \
               \"server\" is one that carries for many. It gives the keys under `links` and `limits` their \
               defaults.",
    },
    KeySpec {
        key: Key::Network,
        name: "network",
        kind: Kind::Number(0, u32::MAX as u64),
        unit: "",
        what: "The number of the network: nodes of another network are refused.",
    },
    KeySpec {
        key: Key::Listen,
        name: "listen",
        kind: Kind::Text("an address of this machine and a port", "127.0.0.1:7420"),
        unit: "",
        what: "Where other nodes post their offers to link. On loopback only nodes on this machine can; port 0 \
               takes any free port.",
    },
    KeySpec {
        key: Key::Metrics,
        name: "metrics",
        kind: Kind::Text("an address of the loopback and a port", "127.0.0.1:9464"),
        unit: "",
        what: "Where GET /metrics is answered too, for Prometheus and the like. Without it they are answered on \
               the local API's socket alone.",
    },
    KeySpec {
        key: Key::Store,
        name: "store",
        kind: Kind::Word(&["journal", "files"]),
        unit: "",
        what: "How the replay records are kept, in the folder \"replay\" of this home. \"journal\": one append a \
               batch, and a snapshot; \"files\": one file a record. A folder of one kind is not opened as the \
               other.",
    },
    KeySpec {
        key: Key::Peers,
        name: "peers",
        kind: Kind::List("http://HOST:PORT", PEERS_MAX),
        unit: "",
        what: "The nodes to stay linked to. `overlane peer add` and `overlane peer drop` edit this line.",
    },
    KeySpec {
        key: Key::Log,
        name: "log",
        kind: Kind::Text("a level, or levels by target", "warn,overlane_node=debug"),
        unit: "",
        what: "What is logged to standard error: \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or \
               levels by target. The libraries under the node tell errors only, unless a target names them, as in \
               \"warn,rtc=debug\".",
    },
    KeySpec {
        key: Key::LogsFormat,
        name: "logs.format",
        kind: Kind::Word(&["text", "json"]),
        unit: "",
        what: "How a line of the log is written: \"text\" for people, \"json\" for programs, an object a line.",
    },
    KeySpec {
        key: Key::LogsIdentities,
        name: "logs.identities",
        kind: Kind::Word(&["hidden", "shown"]),
        unit: "",
        what: "\"hidden\": accounts, keys, digests and addresses off this machine are pseudonyms in the log, the \
               same ones as long as the process runs; \"shown\": they stand there as they are.",
    },
    KeySpec {
        key: Key::PassphraseFile,
        name: "key.passphrase_file",
        kind: Kind::Text("a file", "/run/credentials/overlane/passphrase"),
        unit: "",
        what: "The file whose first line is the passphrase that the account's key is sealed under. Without it, \
               who starts the node at a terminal is asked.",
    },
    KeySpec {
        key: Key::UnlockFile,
        name: "key.file",
        kind: Kind::Text("a file", "/media/key/overlane.key"),
        unit: "",
        what: "The file that the account's key is sealed under.",
    },
    KeySpec {
        key: Key::ApiListen,
        name: "api.listen",
        kind: Kind::Text("an address of the loopback and a port", "127.0.0.1:7490"),
        unit: "",
        what: "Where the local API is answered on TCP too, to who brings the token that is in `api.token` in the \
               home; `overlane dashboard` shows the node there. Without it: on the Unix socket alone.",
    },
    KeySpec {
        key: Key::ApiHosts,
        name: "api.hosts",
        kind: Kind::List("HOST:PORT", ALLOWED_MAX),
        unit: "",
        what: "Names that a request on TCP may give the host, beside the address itself and localhost: for one \
               that is passed on to it.",
    },
    KeySpec {
        key: Key::ApiOrigins,
        name: "api.origins",
        kind: Kind::List("http://HOST:PORT", ALLOWED_MAX),
        unit: "",
        what: "Origins of pages that may ask on TCP, beside the API's own. They need the token too, and no \
               answer lets a browser show them more than their own.",
    },
    KeySpec {
        key: Key::LinksBind,
        name: "links.bind",
        kind: Kind::Text("an address of this machine", "192.0.2.1"),
        unit: "",
        what: "The address of this machine that links are bound to. Without it: the address in `listen`; where \
               that is all of them, the one that faces the network. A node that listens on loopback and links to \
               other machines, or through a NAT, names its own address here.",
    },
    KeySpec {
        key: Key::LinksRequire,
        name: "links.require",
        kind: Kind::Word(&["any", "direct"]),
        unit: "",
        what: "\"any\", or \"direct\": a link by way of a TURN server is refused, and its peer is reached by way \
               of other nodes.",
    },
    KeySpec {
        key: Key::LinksMax,
        name: "links.max",
        kind: Kind::Number(1, CONNECTIONS_MAX as u64),
        unit: "links",
        what: "To how many nodes this one is linked at once; the others are reached through these. A link holds \
               a socket.",
    },
    KeySpec {
        key: Key::LinksPorts,
        name: "links.ports",
        kind: Kind::Text(
            "\"any\", or the first and the last port of a range",
            "24000-25023",
        ),
        unit: "",
        what: "The UDP ports that links are bound to, for the rules of a firewall. Nodes on one machine may share \
               a range. A range needs a port for each link and each handshake under way: no fewer than 64.",
    },
    KeySpec {
        key: Key::LimitsSends,
        name: "limits.sends_max_bytes",
        kind: Kind::Number(BYTES_MIN, BYTES_MAX),
        unit: "bytes",
        what: "Bytes of messages that were sent and are not in a lane yet; at it, a send waits for another's end. \
               One alone may be larger.",
    },
    KeySpec {
        key: Key::LimitsDispatch,
        name: "limits.dispatch_max_bytes",
        kind: Kind::Number(BYTES_MIN, BYTES_MAX),
        unit: "bytes",
        what: "Bytes of admitted messages of one traffic class that nobody has taken; at it, their senders are \
               held back. One alone may be larger.",
    },
    KeySpec {
        key: Key::LimitsChunks,
        name: "limits.chunks_max_bytes",
        kind: Kind::Number(2 * LINK_CHUNKS_MAX_BYTES, BYTES_MAX),
        unit: "bytes",
        what: "Bytes of large messages that are there in part, of all links together; at it, another part is \
               refused with `chunk/node_bytes`.",
    },
    KeySpec {
        key: Key::LimitsQueued,
        name: "limits.queued_max_bytes",
        kind: Kind::Number(QUEUED_SHARED_BYTES as u64 + 1, BYTES_MAX),
        unit: "bytes",
        what: "Bytes that wait in the lanes of all links beyond each lane's reserve; at it, a lane takes no more \
               until some have left.",
    },
    KeySpec {
        key: Key::InboxMails,
        name: "inbox.mails",
        kind: Kind::Number(1, INBOX_MAILS_MAX),
        unit: "mails",
        what: "Mails that this node holds for one account that is away; at it, whoever has most there gives way \
               to whoever has less, and where all have as much, more is refused with `log/share_full`.",
    },
    KeySpec {
        key: Key::GroupsHostGone,
        name: "groups.host_gone_ms",
        kind: Kind::Number(GONE_MIN_MS, GONE_MAX_MS),
        unit: "milliseconds",
        what: "How long the host of a group that this node asks may give no answer; then the group's other hosts are \
               asked, and the first that answers is the one from there on. What waits goes there. A member that goes \
               over numbers posts by itself: less suits a host that is often away for long, more one that is often \
               started anew.",
    },
    KeySpec {
        key: Key::GroupsKeep,
        name: "groups.keep_ms",
        kind: Kind::Number(KEEP_MIN_MS, KEEP_MAX_MS),
        unit: "milliseconds",
        what: "How long a post is kept here since it came, in the log of a group that this node hosts or is in.",
    },
    KeySpec {
        key: Key::GroupsKeepPosts,
        name: "groups.keep_posts",
        kind: Kind::Number(KEEP_POSTS_MIN, Retention::GROUP.entries),
        unit: "posts",
        what: "Posts of one group's log that are kept here; beyond it the oldest goes, of whoever has more than its \
               share.",
    },
    KeySpec {
        key: Key::GroupsKeepBytes,
        name: "groups.keep_max_bytes",
        kind: Kind::Number(BYTES_MIN, BYTES_MAX),
        unit: "bytes",
        what: "Bytes of the posts of one group's log that are kept here; beyond it the oldest goes, of whoever has \
               more than its share. Every group has as many.",
    },
    KeySpec {
        key: Key::IceServers,
        name: "ice.servers",
        kind: Kind::Tables(&["url", "username", "credential"], ICE_SERVERS_MAX),
        unit: "",
        what: "STUN servers, which help links through NATs, and TURN servers, which relay the links that find no \
               other way; both are asked over UDP. `turn:…?transport=tcp`, `turns:` and `stuns:` are refused: the \
               WebRTC library speaks neither TCP nor TLS with such a server. An IPv6 address stands in brackets. \
               A TURN server takes a username and a credential; the file must then be readable by its owner \
               alone (mode 0600).",
    },
];

const _: () = assert!(PORTS_MIN == 64, "the text of links.ports says so");

/// The key of this name.
pub(super) fn named(name: &str) -> Option<&'static KeySpec> {
    KEYS.iter().find(|spec| spec.name == name)
}

/// The key that was probably meant by `typed`: by few changed letters, or by its name without its table.
pub(super) fn nearest(typed: &str) -> Option<&'static str> {
    nearest_of(typed, KEYS.iter().map(|spec| spec.name))
}

/// The nearest of `names` to `typed`, where one is near.
pub(super) fn nearest_of<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters, and two in a short word.
    let near = (typed.chars().count() / 3).max(2);
    let distance = |name: &str| {
        let whole = strsim::damerau_levenshtein(typed, name);
        let last = |text: &str| text.rsplit('.').next().unwrap_or_default().to_owned();
        // Of another table, or of none: less likely than a word misspelt.
        whole.min(1 + strsim::damerau_levenshtein(&last(typed), &last(name)))
    };
    names
        .map(|name| (distance(name), name))
        .filter(|(distance, _)| *distance <= near)
        .min()
        .map(|(_, name)| name)
}
