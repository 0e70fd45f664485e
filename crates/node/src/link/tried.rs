//! What connections tried: the addresses that peers offered, which of them answered, and how it ended; and what the
//! STUN servers' answers say of a NAT before this node. For whoever looks for what is in the way: nothing decides by it.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::ice::LinkPath;

/// Connections of which it is kept what they tried; the oldest is forgotten for one more.
pub const ATTEMPTS_KEPT_MAX: usize = 8;

/// An address that a peer offered to be reached at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// How it has that address: [`LinkPath::Host`] for its own, [`LinkPath::Reflexive`] for a NAT's before it,
    /// [`LinkPath::Relayed`] for a TURN server's.
    pub kind: LinkPath,
    /// The address.
    pub address: SocketAddr,
    /// Whether a datagram came from there.
    pub answered: bool,
}

impl Way {
    /// Its kind, as it is shown.
    pub const fn kind_word(&self) -> &'static str {
        match self.kind {
            LinkPath::Host => "host",
            LinkPath::Reflexive => "nat",
            LinkPath::Relayed => "relay",
        }
    }
}

/// How a connection came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It is up, or was: by this way, where that is known.
    Connected(Option<LinkPath>),
    /// No address that the peer offered answered.
    Silent,
    /// An address answered, and the handshake of the encryption did not end.
    NotProved,
    /// An address answered, and proved another certificate than was signed for.
    WrongCertificate,
    /// It would be relayed, and links are to be direct.
    Relayed,
}

impl AttemptEnd {
    /// As it is shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Connected(_) => "connected",
            Self::Silent => "no address answered",
            Self::NotProved => "an address answered, and DTLS did not come about",
            Self::WrongCertificate => {
                "an address answered, with another certificate than was signed for"
            }
            Self::Relayed => "it would be relayed, which links.require refuses",
        }
    }
}

/// What one connection tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// When it ended or came up.
    pub at: Instant,
    /// How.
    pub end: AttemptEnd,
    /// The addresses that the peer offered, each tried from every address of this node's.
    pub ways: Vec<Way>,
}

/// What the servers' answers say of what stands before this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Nat {
    /// No server was asked, or none answered.
    #[default]
    Unknown,
    /// None: they see this node's own address.
    None,
    /// A NAT; one server alone cannot tell of what kind.
    Behind,
    /// A NAT that keeps one address for all destinations.
    OneAddress,
    /// A NAT that takes another address for each destination.
    AddressEach,
}

impl Nat {
    /// What the answers of so many servers say, which saw these addresses besides this node's own.
    pub(super) fn seen(servers: usize, addresses: &BTreeSet<SocketAddr>) -> Self {
        match (servers, addresses.len()) {
            (0, _) => Self::Unknown,
            (_, 0) => Self::None,
            (1, _) => Self::Behind,
            (_, 1) => Self::OneAddress,
            _ => Self::AddressEach,
        }
    }

    /// As it is shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "not known: no STUN server has answered yet",
            Self::None => "none: the servers see this machine's own address",
            Self::Behind => "a NAT, of a kind that takes a second server to tell",
            Self::OneAddress => "a NAT that keeps one address for all",
            Self::AddressEach => "a NAT with another address for each destination",
        }
    }
}

/// The latest attempts of a node. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Attempts(Arc<Mutex<VecDeque<Attempt>>>);

impl Attempts {
    pub(super) fn note(&self, attempt: Attempt) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= ATTEMPTS_KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(attempt);
    }

    /// Each, the latest last.
    pub fn kept(&self) -> Vec<Attempt> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_attempts_are_kept_and_no_more() {
        let attempts = Attempts::default();
        let at = Instant::now();
        for tried in 0..=ATTEMPTS_KEPT_MAX {
            let way = Way {
                kind: LinkPath::Host,
                address: ([192, 0, 2, 1], u16::try_from(tried).expect("few")).into(),
                answered: false,
            };
            attempts.note(Attempt {
                at,
                end: AttemptEnd::Silent,
                ways: vec![way],
            });
        }
        let kept = attempts.kept();
        assert_eq!(kept.len(), ATTEMPTS_KEPT_MAX);
        assert_eq!(kept.first().map(|it| it.ways[0].address.port()), Some(1));
    }

    #[test]
    fn a_nat_is_told_by_what_several_servers_see() {
        let seen = |ports: &[u16]| {
            ports
                .iter()
                .map(|&it| ([203, 0, 113, 7], it).into())
                .collect()
        };
        for (servers, addresses, nat) in [
            (0, &[][..], Nat::Unknown),
            (2, &[], Nat::None),
            (1, &[1], Nat::Behind),
            (2, &[1], Nat::OneAddress),
            (2, &[1, 2], Nat::AddressEach),
        ] {
            assert_eq!(Nat::seen(servers, &seen(addresses)), nat);
        }
    }
}
