//! What the defaults are made for.

use std::str::FromStr;

use crate::Limits;
use crate::link::ports::Ports;
use crate::peer::LINKS_DEFAULT_MAX;

/// What a node's defaults are made for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// A machine that does other things too, behind a router.
    #[default]
    Home,
    /// A machine that carries for many.
    Server,
}

/// Links of a node at home.
const HOME_LINKS_MAX: usize = 32;

/// UDP ports of a node at home: below those that systems give out by themselves.
const HOME_PORTS: (u16, u16) = (24_000, 25_023);

const HOME_CHUNKS_MAX_BYTES: u64 = 128 << 20;

const SERVER_LINKS_MAX: usize = 128;
const SERVER_SENDS_MAX_BYTES: u64 = 512 << 20;
const SERVER_DISPATCH_MAX_BYTES: u64 = 256 << 20;
const SERVER_CHUNKS_MAX_BYTES: u64 = 1 << 30;
const SERVER_QUEUED_MAX_BYTES: usize = 128 << 20;

const _: () = assert!(HOME_LINKS_MAX <= LINKS_DEFAULT_MAX);

impl Profile {
    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Server => "server",
        }
    }

    /// Its bounds.
    pub fn limits(self) -> Limits {
        match self {
            Self::Home => Limits {
                links_max: HOME_LINKS_MAX,
                chunks_max_bytes: HOME_CHUNKS_MAX_BYTES,
                ..Limits::default()
            },
            Self::Server => Limits {
                links_max: SERVER_LINKS_MAX,
                sends_max_bytes: SERVER_SENDS_MAX_BYTES,
                dispatch_max_bytes: SERVER_DISPATCH_MAX_BYTES,
                chunks_max_bytes: SERVER_CHUNKS_MAX_BYTES,
                queued_max_bytes: SERVER_QUEUED_MAX_BYTES,
            },
        }
    }

    /// The UDP ports of its links.
    pub fn ports(self) -> Ports {
        match self {
            Self::Home => Ports::range(HOME_PORTS.0, HOME_PORTS.1).unwrap_or_default(),
            Self::Server => Ports::default(),
        }
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "home" => Ok(Self::Home),
            "server" => Ok(Self::Server),
            _ => Err(format!(
                "\"{name}\" is no profile; there is \"home\" and \"server\""
            )),
        }
    }
}
