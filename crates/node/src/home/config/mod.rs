//! The configuration: TOML, one table of every key, every mistake shown with its line.
//!
//! Law (one table): what a key is called, may be, does and is by default is said in [`keys`](KeySpec)
//! alone; reading, showing, explaining, the written file and the page of the documentation are made
//! from it.

mod keys;
mod layers;
mod log;
mod page;
mod profile;
#[cfg(test)]
mod tests;
mod url;
mod values;
mod write;

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use overlane_core::NetworkId;
use overlane_relay::inbox::bounds::INBOX_MAILS;
use overlane_relay::log::Retention;
use overlane_storage_native::StoreKind;

use super::HomeError;
use super::files::{OTHERS, PRIVATE};
use crate::Limits;
use crate::link::ice::{IceServer, facing_the_network};
use crate::link::ports::Ports;
use crate::peer::groups::GONE_MS;

pub use keys::{KEYS, KeySpec, Kind};
pub use layers::{Origin, Setting, Settings, Sources};
pub use log::LogFilter;
pub use page::{config_page, key};
pub use profile::Profile;
pub use url::peer_url;
pub(super) use write::write_peers;

/// The network of a node whose operator chose none.
const DEFAULT_NETWORK: NetworkId = NetworkId(1);

/// Where other nodes post their offers unless the operator chose: loopback, so that nothing is
/// open to others before somebody asked for it.
const DEFAULT_LISTEN: ([u8; 4], u16) = ([127, 0, 0, 1], 7420);

/// How replay records are kept unless the operator chose.
const DEFAULT_STORE: StoreKind = StoreKind::Journal;

/// What the operator chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// What the defaults are made for.
    pub profile: Profile,
    /// The network.
    pub network: NetworkId,
    /// Where other nodes post their offers.
    pub listen: SocketAddr,
    /// Where metrics are answered too.
    pub metrics: Option<SocketAddr>,
    /// The local API on TCP.
    pub api: ApiConfig,
    /// How replay records are kept.
    pub store: StoreKind,
    /// URLs of nodes to stay linked to.
    pub peers: Vec<String>,
    /// What is logged.
    pub log: LogFilter,
    /// How the log is written.
    pub logs: LogsConfig,
    /// What opens the account's key, if it is sealed.
    pub key: KeyConfig,
    /// How links are made.
    pub links: LinksConfig,
    /// The bounds that are not constants.
    pub limits: Limits,
    /// Mails that are held for one account that is away.
    pub inbox_mails: u64,
    /// What is kept of groups, and how long their hosts may be gone.
    pub groups: GroupsConfig,
    /// STUN and TURN servers, which help links through NATs.
    pub ice_servers: Vec<IceServer>,
}

/// What a node's user says of its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupsConfig {
    /// How long the host of a group that this node asks may give no answer, in milliseconds.
    pub host_gone_ms: u64,
    /// How long a post is kept since it came, in milliseconds.
    pub keep_ms: u64,
    /// Posts of one log.
    pub keep_posts: u64,
    /// Bytes of them.
    pub keep_max_bytes: u64,
}

impl GroupsConfig {
    /// How much of a group's log is kept.
    pub fn retention(&self) -> Retention {
        Retention {
            entries: self.keep_posts,
            bytes: self.keep_max_bytes,
            age_ms: self.keep_ms,
            ..Retention::GROUP
        }
    }
}

impl Default for GroupsConfig {
    fn default() -> Self {
        Self {
            host_gone_ms: GONE_MS,
            keep_ms: Retention::GROUP.age_ms,
            keep_posts: Retention::GROUP.entries,
            keep_max_bytes: Retention::GROUP.bytes,
        }
    }
}

/// How the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogsConfig {
    /// In JSON.
    pub json: bool,
    /// With accounts, keys, digests and addresses as they are.
    pub shows_all: bool,
}

/// What opens the account's key, if it is sealed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyConfig {
    /// The file whose first line is its passphrase.
    pub passphrase_file: Option<PathBuf>,
    /// The file that it is sealed under.
    pub file: Option<PathBuf>,
}

/// The local API on TCP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiConfig {
    /// Where it is answered, if it is.
    pub listen: Option<SocketAddr>,
    /// Names of the host that are allowed beside the address itself.
    pub hosts: Vec<String>,
    /// Origins of pages that are allowed beside its own.
    pub origins: Vec<String>,
}

/// How links are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinksConfig {
    /// The address of this machine that links are bound to; one that fits `listen` if none is set.
    pub bind: Option<IpAddr>,
    /// Whether a link by way of a TURN server is refused.
    pub require_direct: bool,
    /// The UDP ports that links are bound to.
    pub ports: Ports,
}

impl Default for Config {
    fn default() -> Self {
        Self::of(Profile::default())
    }
}

impl Config {
    /// The defaults of this profile.
    pub fn of(profile: Profile) -> Self {
        Self {
            profile,
            network: DEFAULT_NETWORK,
            listen: SocketAddr::from(DEFAULT_LISTEN),
            metrics: None,
            api: ApiConfig::default(),
            store: DEFAULT_STORE,
            peers: Vec::new(),
            log: LogFilter::default(),
            logs: LogsConfig::default(),
            key: KeyConfig::default(),
            links: LinksConfig {
                ports: profile.ports(),
                ..LinksConfig::default()
            },
            limits: profile.limits(),
            inbox_mails: INBOX_MAILS,
            groups: GroupsConfig::default(),
            ice_servers: Vec::new(),
        }
    }

    /// What the file at `path` and everybody else says; or everything that is wrong with it. A
    /// missing file says nothing; one that says a credential is its owner's alone.
    pub(super) fn resolve(path: &Path, sources: &Sources) -> Result<Settings, Vec<HomeError>> {
        let Written { text, mode } = written(path).map_err(|error| vec![error])?;
        let settings = layers::resolve(&text, path, sources)?;
        if mode & OTHERS != 0 && settings.file_says_credential() {
            let path = path.to_owned();
            return Err(vec![HomeError::ConfigMode { path, mode }]);
        }
        Ok(settings)
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
}

/// The file as it is.
struct Written {
    text: String,
    /// Its permission bits: of the file that was read.
    mode: u32,
}

/// A missing file is an empty one that its owner alone can read.
fn written(path: &Path) -> Result<Written, HomeError> {
    let read = || -> io::Result<Written> {
        let mut file = File::open(path)?;
        let mode = file.metadata()?.mode() & 0o7777;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = error.utf8_error().valid_up_to();
            let before = error.as_bytes().get(..before).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            io::Error::new(ErrorKind::InvalidData, NotText { line })
        })?;
        Ok(Written { text, mode })
    };
    let not_text = |error: &io::Error| {
        let cause = error.get_ref()?.downcast_ref::<NotText>()?;
        Some(HomeError::Config {
            path: path.to_owned(),
            line: cause.line,
            cause: cause.to_string(),
        })
    };
    match read() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Written {
            text: String::new(),
            mode: PRIVATE,
        }),
        Err(error) => Err(not_text(&error).unwrap_or_else(|| HomeError::io("read", path)(error))),
        Ok(written) => Ok(written),
    }
}

/// A file that is no text.
#[derive(Debug, thiserror::Error)]
#[error("this is no text in UTF-8")]
struct NotText {
    line: usize,
}
