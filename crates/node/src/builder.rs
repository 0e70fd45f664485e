//! How a node is put together.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use overlane_core::NetworkId;
use overlane_core::identity::{Account, Signer};
use overlane_core::seal::SealingSecret;
use overlane_core::store::RecordStore;
use overlane_core::transaction::Namespace;
use overlane_relay::log::{LogStore, Retention};
use overlane_relay::refs::store::Store;

use crate::Limits;
use crate::error::NodeError;
use crate::home::Profile;
use crate::link::connection::ConnectionConfig;
use crate::link::count::Held;
use crate::link::ice::{IceServer, IceServerError, IceServers};
use crate::link::ports::Ports;
use crate::link::transport::Connector;
use crate::node::Node;
use crate::policy::{Policies, Policy};
use crate::runtime::{self, AnyStore, GroupSettings, InboxStore, Keep, Neighbour, OpenGroups};

/// Collects what a node is made of; [`spawn`](Self::spawn) starts it.
#[must_use = "a builder does nothing until it is spawned"]
pub struct NodeBuilder {
    pub(crate) network: NetworkId,
    pub(crate) account: Option<Account>,
    pub(crate) delegated: Option<(Signer, SealingSecret)>,
    pub(crate) store: Option<Box<dyn RecordStore>>,
    pub(crate) refs_store: Option<Box<dyn AnyStore>>,
    pub(crate) groups: Option<OpenGroups>,
    pub(crate) inbox_store: Option<InboxStore>,
    pub(crate) group_settings: GroupSettings,
    pub(crate) inbox_mails: u64,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) peers: Vec<String>,
    pub(crate) neighbours: Option<(Vec<Neighbour>, Option<Keep>)>,
    pub(crate) delegation_ttl_ms: u64,
    pub(crate) delegating: Vec<String>,
    pub(crate) limits: Limits,
    pub(crate) require_sealed: bool,
    pub(crate) connection: ConnectionConfig,
    pub(crate) connector: Option<(Arc<dyn Connector>, Held)>,
    pub(crate) policies: Policies,
}

impl NodeBuilder {
    pub(crate) fn new() -> Self {
        Self {
            network: NetworkId(1),
            account: None,
            delegated: None,
            store: None,
            refs_store: None,
            groups: None,
            inbox_store: None,
            group_settings: GroupSettings::default(),
            inbox_mails: overlane_relay::inbox::bounds::INBOX_MAILS,
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            peers: Vec::new(),
            neighbours: None,
            delegation_ttl_ms: overlane_core::identity::DELEGATION_TTL_DEFAULT_MS,
            delegating: Vec::new(),
            limits: Limits::default(),
            require_sealed: false,
            connection: ConnectionConfig::default(),
            connector: None,
            policies: Policies::default(),
        }
    }

    /// The network to be part of; 1 by default. It is signed into everything, so nodes of two
    /// networks never hear each other.
    pub fn network(mut self, network: NetworkId) -> Self {
        self.network = network;
        self
    }

    /// The account this node speaks for. Required. It signs delegations only; what the node
    /// sends is signed by a delegatee key that lives in memory.
    pub fn account(mut self, account: Account) -> Self {
        self.account = Some(account);
        self
    }

    /// Speaks for an account whose key is kept elsewhere, instead of [`account`](Self::account): with the
    /// delegatee of a delegation that the account signed, as long as that lives, and no longer. `sealing` opens
    /// what is sealed to this node; the account's contact card says it to others, so the account must not be
    /// Ed25519, which is sealed to by its own key alone. Such a node is in no group.
    pub fn delegated(mut self, signer: Signer, sealing: SealingSecret) -> Self {
        self.delegated = Some((signer, sealing));
        self
    }

    /// The authoritative store of replay records. There is no default, and above all none in
    /// memory: such a one would lose every window at a restart, admit everything again and sign
    /// used sequences. A node without a store runs, and refuses every send and every admission
    /// with `replay/storage_unavailable`.
    pub fn store(mut self, store: Box<dyn RecordStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// The store of references. There is no default: a reference outlives its process, so one kept
    /// in memory would be broken at every restart. A node without it runs, and refuses everything
    /// about references with [`NoStore`](crate::refs::ReferenceError::NoStore).
    pub fn refs_store<S>(mut self, store: S) -> Self
    where
        S: Store + Send + 'static,
        S::Error: std::fmt::Display,
    {
        self.refs_store = Some(Box::new(store));
        self
    }

    /// The store of the logs of groups. There is no default: what is acknowledged is kept. A node
    /// without it runs, and refuses everything about groups with
    /// [`NoStore`](crate::groups::GroupsError::NoStore).
    pub fn logs_store<S: LogStore + Send + 'static>(mut self, store: S) -> Self {
        self.groups = Some(runtime::opens(store));
        self
    }

    /// How long the host of a group that this node asks may give no answer before it goes over to another: 30 s by
    /// default, a second at least and a day at most.
    pub fn group_host_gone(mut self, gone: Duration) -> Self {
        self.group_settings.host_gone = gone;
        self
    }

    /// How much of each group's log this node keeps, as a host and as a member; [`Retention::GROUP`] by default.
    pub fn group_retention(mut self, retention: Retention) -> Self {
        self.group_settings.retention = retention;
        self
    }

    /// The store of mail: what this node holds for others who are away. There is no default: what is
    /// held is promised. A node without it holds nothing, is held nothing for by its own word, and
    /// refuses everything about mail with [`NoStore`](crate::inbox::InboxError::NoStore).
    pub fn inbox_store<S: LogStore + Send + 'static>(mut self, store: S) -> Self {
        self.inbox_store = Some(InboxStore::new(store));
        self
    }

    /// How many mails this node holds in one inbox; 64 by default, 1,024 at most.
    pub fn inbox_mails(mut self, mails: u64) -> Self {
        self.inbox_mails = mails;
        self
    }

    /// Where to take signed offers; by default a free port on 127.0.0.1.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Takes no offers: this node dials, nobody dials it.
    pub fn no_listen(mut self) -> Self {
        self.listen = None;
        self
    }

    /// A peer to keep a link to, by its URL; dialled again whenever the link is lost.
    pub fn peer(mut self, url: impl Into<String>) -> Self {
        self.peers.push(url.into());
        self
    }

    /// The neighbours of an earlier life, as `keep` was given them then. They are dialled while this node has no
    /// link, so that those of a ring find each other again without the node that all of them joined by. `keep` is
    /// called when others are known, at most [`NEIGHBOURS_MAX`](crate::NEIGHBOURS_MAX), and may block.
    pub fn neighbours(
        mut self,
        known: Vec<Neighbour>,
        keep: impl FnMut(&[Neighbour]) + Send + 'static,
    ) -> Self {
        self.neighbours = Some((known, Some(Box::new(keep))));
        self
    }

    /// Is linked to so many peers at once at most,
    /// [`LINKS_DEFAULT_MAX`](crate::peer::LINKS_DEFAULT_MAX) unless told otherwise; the others are
    /// reached through these.
    pub fn links_max(mut self, links_max: usize) -> Self {
        self.limits.links_max = links_max;
        self
    }

    /// The bounds and ports that the daemon has under this profile: [`Profile::Home`] for a machine that does other things
    /// too, [`Profile::Server`] for one that carries for many. Said first, so that what is said after it counts.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.limits = profile.limits();
        self.connection.ports = profile.ports();
        self
    }

    /// Keeps within these bounds.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The UDP ports that links are bound to; any that the system gives unless told otherwise.
    pub fn links_ports(mut self, ports: Ports) -> Self {
        self.connection.ports = ports;
        self
    }

    /// The address of this machine that links are bound to; 127.0.0.1 by default, from where only
    /// nodes on this machine are reached.
    pub fn links_bind(mut self, address: IpAddr) -> Self {
        self.connection.bind = address;
        self
    }

    /// Refuses links by way of a TURN server: such a peer is reached by way of other nodes.
    pub fn require_direct(mut self, direct: bool) -> Self {
        self.connection.require_direct = direct;
        self
    }

    /// STUN servers, which help links through NATs, and TURN servers, which relay the links that
    /// find no other way. What a TURN server sees is in `docs/security.md`.
    ///
    /// # Errors
    /// [`IceServerError::TooMany`].
    pub fn ice_servers(mut self, servers: Vec<IceServer>) -> Result<Self, IceServerError> {
        self.connection.ice_servers = IceServers::new(servers)?;
        Ok(self)
    }

    /// Links over transports of another make, or over [`WebRtc`](crate::link::connection::WebRtc) with
    /// something around it; what they hold of the system is counted in `held`. What is said here of
    /// addresses and servers is then the connector's to know.
    pub fn connector(mut self, connector: Arc<dyn Connector>, held: Held) -> Self {
        self.connector = Some((connector, held));
        self
    }

    /// Asks these hooks before it links, admits and holds; without them nothing is refused but by the
    /// protocol's laws and bounds.
    pub fn policy(mut self, policy: impl Policy) -> Self {
        self.policies = Policies::of(policy);
        self
    }

    /// How long a delegatee key is good for; 30 days by default. It is rotated at half of that.
    pub fn delegation_ttl_ms(mut self, ttl_ms: u64) -> Self {
        self.delegation_ttl_ms = ttl_ms;
        self
    }

    /// Takes the application's messages only if they are sealed; others are admitted, refused as
    /// `seal/required`, and counted. By default both are taken, and a message says which it is
    /// (`is_sealed` of its payload).
    pub fn require_sealed(mut self, require: bool) -> Self {
        self.require_sealed = require;
        self
    }

    /// A namespace that delegates its replay: it guards itself, and this node writes no record for
    /// what it need not guard.
    ///
    /// The namespace's application **promises** to act on each of its payloads at most once, by a
    /// replay key of its own that outlives connections, restarts, and other envelopes around the
    /// same payload. One that does not is open to replay: once a link is replaced, its peer can
    /// present again what it sent before.
    ///
    /// In return a *link-local* message (an application's, in such a namespace, on the link of
    /// its own origin) is admitted in a window that lives in memory and ends with the link, so it
    /// costs no write. Every other message of the namespace, a relayed copy included, keeps the
    /// durable window; a message that came both ways may be admitted twice. Source: seed 1,
    /// "Persistence and bounds" (link-local transactions).
    ///
    /// A sealed message's namespace is inside, so that only those that are sent plain
    /// ([`Sealing::Plain`](crate::Sealing::Plain)) are link-local.
    ///
    /// At most [`DELEGATING_NAMESPACES`](overlane_core::replay::DELEGATING_NAMESPACES); one
    /// more, and [`spawn`](Self::spawn) is refused.
    pub fn delegate_replay(mut self, namespace: Namespace<'_>) -> Self {
        self.delegating.push(namespace.as_str().to_owned());
        self
    }

    /// Opens everything and starts the node on the current tokio runtime.
    ///
    /// # Errors
    /// [`NodeError`]: no account, more peers than are kept, a port in use, a store that cannot be read, a platform that
    /// gives no randomness or no thread.
    pub async fn spawn(self) -> Result<Node, NodeError> {
        runtime::start(self).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_sets_bounds_and_ports_and_what_is_said_after_it_counts() {
        let server = NodeBuilder::new().profile(Profile::Server);
        assert_eq!(server.limits, Profile::Server.limits());
        assert_eq!(server.connection.ports, Profile::Server.ports());
        let home = server.profile(Profile::Home).links_max(7);
        let limits = Limits {
            links_max: 7,
            ..Profile::Home.limits()
        };
        assert_eq!(home.limits, limits);
        assert_eq!(home.connection.ports, Profile::Home.ports());
    }
}
