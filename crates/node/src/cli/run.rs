//! `run`: the daemon.

use std::net::SocketAddr;
use std::time::Duration;

use overlane_core::{Fault, NetworkId};
use overlane_node::api::{self, Gate, Identity, LocalApi, OpenedStore};
use overlane_node::home::{Config, Home, HomeLock, Sources, Stillness, check_ripe};
use overlane_node::logs::Logs;
use overlane_node::{Node, NodeError, share};
use overlane_storage_native::{StoreAdmin, StoreSummary};
use serde::Serialize;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::args::Run;
use super::config::sources_with;
use super::output::{Done, Failure, Output};
use super::service::{self, Told};
use super::{keys, no_runtime, replay};

/// A database that takes seconds to be checked.
const LARGE_BYTES: u64 = 256 * 1024 * 1024;

/// What a daemon says once it is up.
#[derive(Serialize)]
struct Up {
    up: bool,
    #[serde(flatten)]
    identity: Identity,
    url: Option<String>,
    /// Where `GET /metrics` is answered, if that is switched on.
    metrics: Option<String>,
    /// Where the local API is answered on TCP, if that is switched on.
    api: Option<String>,
    home: String,
    store: StoreUp,
    peers: Vec<String>,
}

/// What is listened on before anything is started.
struct Tcp {
    metrics: Option<std::net::TcpListener>,
    api: Option<std::net::TcpListener>,
}

#[derive(Serialize)]
struct StoreUp {
    kind: &'static str,
    path: String,
    records: usize,
    /// Records among them that do not restore: each refuses its own stream.
    unrestorable: u64,
    held_bytes: u64,
    budget_bytes: u64,
}

/// Runs the node of this home until it is told to stop.
pub(super) fn run(home: &Home, run: Run, output: &Output) -> Result<Done, Failure> {
    if let Some(address) = run.metrics {
        require_loopback(address)?;
    }
    let settings = home.settings(&run.sources())?;
    let config = settings.config;
    let logs = Logs::start(&config.log, config.logs);
    for (name, meant) in &settings.strays {
        tracing::warn!(
            name,
            ?meant,
            "a variable of the environment that is no key of the configuration"
        );
    }
    let lock = keys::opening(home, &config)?;
    let node = Node::builder().network(config.network);
    let node = if home.is_delegated()? {
        let key = home.delegated(&lock)?;
        let signer = key.signer(config.network, replay::now().wall_ms)?;
        node.delegated(signer, key.sealing())
    } else {
        node.account(home.account(&lock)?)
    };
    drop(lock);
    let tcp = Tcp {
        metrics: config.metrics.map(metrics_listener).transpose()?,
        api: config.api.listen.map(api_listener).transpose()?,
    };
    let lock = home.lock()?;
    // Opening reads and writes files: before the runtime, so on none of its workers.
    check_ripe(home)?;
    let store = home.open_store(config.store)?;
    let still = Stillness::default();
    let references = still.keep(home.open_references()?);
    let groups_bytes = home.groups_bytes();
    if groups_bytes > LARGE_BYTES {
        // Every page is read once, whatever the last process came to.
        tracing::warn!(
            bytes = groups_bytes,
            "the logs of groups are checked before the start: some seconds a gigabyte"
        );
    }
    let groups = still.keep(home.open_groups()?);
    let inbox = still.keep(home.open_inbox()?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(no_runtime)?;
    let node = node.refs_store(references).logs_store(groups);
    let kept = home.clone();
    let node = node.neighbours(home.neighbours(), move |neighbours| {
        if let Err(error) = kept.keep_neighbours(neighbours) {
            tracing::warn!(%error, "the addresses of neighbours are not kept");
        }
    });
    let node = node.inbox_store(inbox).inbox_mails(config.inbox_mails);
    let gone = Duration::from_millis(config.groups.host_gone_ms);
    let node = node
        .group_host_gone(gone)
        .group_retention(config.groups.retention());
    runtime.block_on(daemon(
        node,
        home,
        &lock,
        config,
        (store, still),
        (tcp, logs),
        output,
    ))
}

async fn daemon(
    node: overlane_node::NodeBuilder,
    home: &Home,
    lock: &HomeLock,
    config: Config,
    (store, still): (Box<dyn StoreAdmin>, Stillness),
    (tcp, logs): (Tcp, Logs),
    output: &Output,
) -> Result<Done, Failure> {
    // Before anything that a signal should end in order.
    let mut stop = Stop::listen()?;
    let api_at = tcp.api.as_ref().and_then(|it| it.local_addr().ok());
    let gate = |at| Gate::new(home, at, &config.api.hosts, &config.api.origins);
    let gate = api_at.map(gate).transpose()?;
    let listener = api::bind(home, lock)?;
    let summary = store.summary();
    let node = node.links_bind(config.links_bind());
    let node = node.links_ports(config.links.ports).limits(config.limits);
    let node = node.require_direct(config.links.require_direct);
    let node = node.ice_servers(config.ice_servers.clone());
    let node =
        node.map_err(|cause| Failure::new("cli/ice_servers", Fault::Usage, cause.to_string()))?;
    let mut node = node
        .listen(config.listen)
        .store(Box::new(still.keep(store)));
    for peer in &config.peers {
        node = node.peer(peer);
    }
    let node = match node.spawn().await {
        Ok(node) => node,
        Err(refused) => {
            // Nobody answers on it.
            let _ = std::fs::remove_file(home.socket_path());
            return Err(refused.into());
        }
    };
    if let Err(error) = share::restore(&node).await {
        tracing::error!(%error, "what was shared before is not offered again");
    }
    let opened = OpenedStore {
        kind: summary.kind.name().to_owned(),
        path: summary.folder.display().to_string(),
        still,
    };
    let api = LocalApi::serve(listener, node.clone(), home.clone(), opened, logs);
    api.renew_by(keys::renewal(home, &config));
    if let Some((listener, gate)) = tcp.api.zip(gate) {
        let listener = tokio::net::TcpListener::from_std(listener);
        api.serve_tcp(listener.map_err(|cause| no_api(&cause))?, gate);
    }
    let scraped_at = tcp.metrics.as_ref().and_then(|it| it.local_addr().ok());
    if let Some(listener) = tcp.metrics {
        let listener = tokio::net::TcpListener::from_std(listener);
        api.serve_metrics(listener.map_err(|cause| no_metrics(&cause))?);
    }
    let unrestorable = node.status().await?.replay.unrestorable_record;
    let store = StoreUp::of(&summary, unrestorable);
    let up = Up {
        metrics: scraped_at.map(|address| format!("http://{address}/metrics")),
        api: api_at.map(|address| format!("http://{address}")),
        ..Up::of(&node, config.network, home, store, config.peers)
    };
    let told = output.answer(&up, |up| up.in_words(output));
    let mut broken = false;
    if told.is_ok() {
        let manager = Told::up();
        tokio::select! {
            () = stop.asked() => {}
            () = node.ended() => broken = true,
            () = manager.alive(&node) => {}
        }
    }
    tokio::select! {
        () = end(api, &node) => {}
        // Whoever asks a second time does not want to wait for the order of things.
        () = stop.asked() => {}
    }
    // A socket that leads nowhere is only a socket to be replaced.
    let _ = std::fs::remove_file(home.socket_path());
    told?;
    if broken {
        return Err(NodeError::Broken.into());
    }
    output.answer(&json!({"up": false}), |_| "node has stopped".to_owned())?;
    Ok(Done::Yes)
}

fn require_loopback(address: SocketAddr) -> Result<(), Failure> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let message = format!("--metrics takes an address of the loopback, not {address}");
    Err(Failure::new(
        "cli/metrics_not_loopback",
        Fault::Usage,
        message,
    ))
}

impl Run {
    /// What the environment and these flags say.
    fn sources(&self) -> Sources {
        let mut sources = sources_with(&self.set);
        let Self {
            listen,
            metrics,
            log,
            set: _,
        } = self;
        let mut flag = |flag: &str, name: &str, value: Option<String>| {
            if let Some(value) = value {
                sources.flag(flag, name, &value);
            }
        };
        flag("--listen", "listen", listen.map(|it| it.to_string()));
        flag("--metrics", "metrics", metrics.map(|it| it.to_string()));
        flag("--log", "log", log.as_ref().map(|it| it.text().to_owned()));
        sources
    }
}

/// Listens before anything is started: an address that is taken is said at once.
fn metrics_listener(address: SocketAddr) -> Result<std::net::TcpListener, Failure> {
    bound(address).map_err(|cause| no_metrics(&cause))
}

fn api_listener(address: SocketAddr) -> Result<std::net::TcpListener, Failure> {
    bound(address).map_err(|cause| no_api(&cause))
}

fn bound(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn no_api(cause: &std::io::Error) -> Failure {
    let message = format!("the address of api.listen cannot be listened on: {cause}");
    Failure::new("cli/api_listen", Fault::Usage, message)
}

fn no_metrics(cause: &std::io::Error) -> Failure {
    let message = format!("the address of --metrics cannot be listened on: {cause}");
    Failure::new("cli/metrics_listen", Fault::Usage, message)
}

async fn end(api: LocalApi, node: &Node) {
    api.shutdown().await;
    node.shutdown().await;
}

impl StoreUp {
    fn of(store: &StoreSummary, unrestorable: u64) -> Self {
        Self {
            kind: store.kind.name(),
            path: store.folder.display().to_string(),
            records: store.records,
            unrestorable,
            held_bytes: store.held_bytes,
            budget_bytes: store.budget_bytes,
        }
    }
}

impl Up {
    fn of(
        node: &Node,
        network: NetworkId,
        home: &Home,
        store: StoreUp,
        peers: Vec<String>,
    ) -> Self {
        Self {
            up: true,
            identity: Identity::of(&node.account(), network),
            url: node.url().map(str::to_owned),
            metrics: None,
            api: None,
            home: home.dir().display().to_string(),
            store,
            peers,
        }
    }

    fn in_words(&self, output: &Output) -> String {
        let Self {
            identity,
            url,
            metrics,
            api,
            home,
            store,
            peers,
            ..
        } = self;
        let Identity {
            did,
            did_key,
            peer_id,
            network,
        } = identity;
        let url = url.as_deref().unwrap_or("takes no offers");
        let peers = match peers.as_slice() {
            [] => "none configured".to_owned(),
            peers => peers.join(", "),
        };
        let metrics = metrics
            .as_ref()
            .map_or_else(String::new, |metrics| format!("\n  metrics  {metrics}"));
        let api = api.as_ref().map_or_else(String::new, |api| {
            format!("\n  api      {api}, with the token in {home}/api.token")
        });
        let overlane = &output.overlane;
        let dashboard = match self.api {
            Some(_) => {
                format!("\n  {overlane} dashboard                 where a browser shows this node")
            }
            None => String::new(),
        };
        let bad = match store.unrestorable {
            0 => String::new(),
            bad => format!(
                "\n           {bad} of them do not restore, and their streams are refused; stop the \
                 node, then: {overlane} replay verify"
            ),
        };
        let text = format!(
            "node is up
  did      {did}
  did:key  {did_key}
  peer id  {peer_id}
  network  {network}
  url      {url}
  peers    {peers}
  home     {home}{metrics}{api}
  store    {} in {}: {} records, {} of {} bytes{bad}",
            store.kind, store.path, store.records, store.held_bytes, store.budget_bytes
        );
        // A journal has no other terminals, and no Ctrl-C.
        if service::is_managed() {
            return text;
        }
        format!(
            "{text}

next, in other terminals:
  {overlane} watch                     messages as they are admitted
  {overlane} peer add URL              stay linked to the node at URL
  {overlane} send DID \"hello\"          to a linked node
  {overlane} share FILE                a ticket, with which others fetch it
  {overlane} group create NAME         a log that several write and read{dashboard}
Ctrl-C ends it."
        )
    }
}

/// The signals that ask a daemon to end.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|cause| {
                let message = format!("the platform gives no signals: {cause}");
                Failure::new("cli/no_signals", Fault::Usage, message)
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
