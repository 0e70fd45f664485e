//! Drives a peer on tokio.
//!
//! One task owns the [`Peer`](crate::peer::Peer) and does what it wants done: frames to the links,
//! signatures to the verification workers, batches to the store's own thread, messages to the
//! application. Nothing that blocks runs on an asynchronous worker, and every queue between the
//! parts is bounded, or bounded by what the peer lets out.

mod clock;
mod committer;
mod courier;
mod driver;
#[cfg(test)]
mod fixture;
mod groups;
mod handoff;
mod identity;
mod keeper;
mod mailroom;
mod neighbours;
mod redial;
mod references;
mod supervisor;
mod verify;
mod writer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use overlane_core::e2e::Sessions;
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use zeroize::Zeroizing;

use crate::builder::NodeBuilder;
use crate::error::NodeError;
use crate::link::sdp::Reach;
use crate::link::{self, LinkConfig, Links};
use crate::messages::Messages;
use crate::node::{Node, Parts};
use crate::peer::groups::{GroupEvent, Own};
use crate::peer::refs::{References, limits};
use crate::peer::{Keeper, Peer};
use crate::places::Places;
use crate::refs::Shared;
use crate::store_times::StoreWatch;
use crate::watch::Teller;

pub(crate) use clock::Clock;
pub(crate) use committer::AnyStore;
pub use driver::Progress;
pub(crate) use driver::{Awaited, Command, Posted};
pub(crate) use groups::{GroupDoor, GroupSettings, OpenGroups, opens};
pub(crate) use identity::Identity;
#[cfg(feature = "sim")]
pub(crate) use identity::is_rotation_due;
#[cfg(feature = "sim")]
pub(crate) use mailroom::GATHERED_MAX;
pub(crate) use mailroom::{InboxStore, MailRequest};
pub(crate) use neighbours::Keep;
use neighbours::Neighbours;
pub use neighbours::{NEIGHBOURS_MAX, Neighbour};
#[cfg(feature = "sim")]
pub(crate) use redial::Backoff;
pub(crate) use references::{Given, Request};
pub use supervisor::PEERS_MAX;
pub(crate) use supervisor::{LinksUp, Supervisor};

use committer::Committer;
use courier::Courier;
use driver::{Driver, Inbox};
use keeper::{Inlet, KeeperThread, Word};
use mailroom::{MailHands, MailThread, Whose};
use references::Hands;
#[cfg(feature = "sim")]
pub(crate) use verify::VERIFY_OUTSTANDING_MAX;
use verify::Workers;
use writer::Writer;

/// Commands that wait for the driver. More wait in their callers.
const COMMANDS_MAX: usize = 256;

/// Events kept for a watcher that reads slowly; it is told how many it missed.
pub const EVENTS_KEPT_MAX: usize = 1_024;

/// Starts a node.
pub(crate) async fn start(builder: NodeBuilder) -> Result<Node, NodeError> {
    let peers: BTreeSet<_> = builder.peers.iter().collect();
    if peers.len() > PEERS_MAX {
        return Err(NodeError::PeersFull);
    }
    let clock = Clock::start();
    let ttl_ms = builder.delegation_ttl_ms;
    let identity = match (builder.account, builder.delegated) {
        (Some(account), _) => Identity::new(account, builder.network, ttl_ms),
        (None, Some((signer, sealing))) => Identity::delegated(signer, sealing, builder.network),
        (None, None) => Err(NodeError::NoAccount),
    };
    let identity = Arc::new(identity?);
    // What may be refused comes first, so that a refused start leaves nothing running.
    let listener = match builder.listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let (worked_out, worked) = mpsc::unbounded_channel();
    let workers = Workers::start(&worked_out).map_err(|error| NodeError::Thread {
        cause: error.to_string(),
    })?;
    let (batches_out, batches) = mpsc::unbounded_channel();
    let (writer, scan) = match builder.store {
        Some(store) => {
            let (writer, scan) = Writer::start(store, batches_out).await?;
            (Some(writer), Some(scan))
        }
        None => (None, None),
    };
    let mut peer = Peer::new(identity.signer(), scan, clock.now());
    let (committed_out, committed) = mpsc::unbounded_channel();
    let begun = match delegate_replay(&mut peer, builder.delegating) {
        Ok(()) => {
            carry_references(
                &mut peer,
                builder.refs_store,
                committed_out,
                &identity,
                clock,
            )
            .await
        }
        Err(refused) => Err(refused),
    };
    let (told_out, told) = mpsc::unbounded_channel();
    let begun = match begun {
        Ok(committer) => {
            let whose = Whose {
                network: builder.network,
                own: identity.did(),
                mails_max: builder.inbox_mails,
                policies: builder.policies.clone(),
                now_ms: clock.now().wall_ms,
            };
            let store = builder.inbox_store;
            match keep_mail(&mut peer, store, whose, told_out, &identity, clock).await {
                Ok(mail) => Ok((committer, mail)),
                Err(refused) => {
                    if let Some(committer) = committer {
                        committer.close().await;
                    }
                    Err(refused)
                }
            }
        }
        Err(refused) => Err(refused),
    };
    let (words_out, words) = mpsc::unbounded_channel();
    let (group_events, _) = broadcast::channel(EVENTS_KEPT_MAX);
    let begun = match begun {
        Ok((committer, mail)) => {
            let told = group_events.clone();
            let settings = builder.group_settings;
            let groups = builder.groups;
            match carry_groups(
                &mut peer, groups, settings, told, words_out, &identity, clock,
            )
            .await
            {
                Ok(groups) => Ok((committer, mail, groups)),
                Err(refused) => {
                    if let Some(mail) = mail {
                        mail.close().await;
                    }
                    if let Some(committer) = committer {
                        committer.close().await;
                    }
                    Err(refused)
                }
            }
        }
        Err(refused) => Err(refused),
    };
    let (committer, mail, groups) = match begun {
        Ok(begun) => begun,
        Err(refused) => {
            if let Some(writer) = writer {
                writer.close().await;
            }
            return Err(refused);
        }
    };
    let limits = builder.limits;
    peer.set_limits(&limits);
    peer.open_with(identity.sealing());
    let sessions = Sessions::new(
        identity.network(),
        identity.did(),
        identity.sealing(),
        Zeroizing::new(identity.nonce()),
    );
    peer.hold_sessions(sessions, identity.nonce());
    peer.require_sealed(builder.require_sealed);
    peer.ask_policy(builder.policies.clone());
    peer.name_own_messages(identity.nonce());
    peer.join_ring(identity.nonce(), clock.now());
    for (record, bad) in peer.engine().unrestorable() {
        tracing::warn!(
            %record, %bad,
            "replay record does not restore; its stream fails closed until it is cleared"
        );
    }

    // Of use where what links reach can reach the listener too.
    let reach = Reach::of(builder.connection.bind);
    let reached = listener.as_ref().map(|(_, address)| address);
    let reached = reached.filter(|it| Reach::of(it.ip()) == reach);
    let links_at = builder.connection.bind;
    let link_config = LinkConfig {
        peers_max: limits.links_max,
        queued_max_bytes: limits.queued_max_bytes,
        listens: reached.and_then(|it| NonZeroU16::new(it.port())),
        connection: builder.connection,
        ..LinkConfig::default()
    };
    let signer = Arc::clone(&identity) as _;
    let (links, link_events) = match builder.connector {
        Some((connector, held)) => Links::over(connector, held, link_config, signer),
        None => Links::start(link_config, signer),
    };
    links.ask_policy(builder.policies);
    let (stop_listening, url) = match listener {
        Some((listener, address)) => {
            let stop = serve(listener, link::signal::router(links.clone()));
            let address = reached_at(address, links_at);
            (Some(stop), Some(format!("http://{address}")))
        }
        None => (None, None),
    };
    let (commands, commands_in) = mpsc::channel(COMMANDS_MAX);
    let (posts, posted) = mpsc::unbounded_channel();
    let (taken_out, taken) = mpsc::unbounded_channel();
    let messages = Messages::new(taken_out);
    let (events, _) = broadcast::channel(EVENTS_KEPT_MAX);
    let (up_out, up) = watch::channel(LinksUp::new());
    let (mut known, keep) = builder.neighbours.unwrap_or_default();
    known.retain(|it| it.did != identity.did());
    let (neighbours, keeping) = Neighbours::new(known, keep);
    let supervisor = Supervisor::new(links.clone(), up.clone(), neighbours.clone());
    let (dropped_out, dropped) = mpsc::unbounded_channel();
    let refs = Shared::new(dropped_out, commands.downgrade());
    let (keepers, groups) = groups.unzip();
    let (teller, watches) = Teller::new(&peer);
    let driver = Driver {
        peer,
        teller,
        keepers: keepers.into_iter().collect(),
        clock,
        identity: Arc::clone(&identity),
        links: links.clone(),
        workers,
        writer,
        messages: messages.clone(),
        events: events.clone(),
        up: up_out,
        courier: Courier::new(links.clone(), commands.downgrade()),
        questions: BTreeMap::new(),
        receipts: BTreeMap::new(),
        next_ask: 0,
        refs: Hands::new(Arc::clone(&refs), committer),
        mail: MailHands::new(mail),
        neighbours,
        keeping,
        replies: BTreeMap::new(),
        progress: BTreeMap::new(),
        outstanding: 0,
        handles: BTreeMap::new(),
        came: VecDeque::new(),
        taken: Vec::new(),
        store_watch: StoreWatch::default(),
    };
    let store_times = driver.store_watch.times();
    let inbox = Inbox {
        commands: commands_in,
        posted,
        links: link_events,
        worked,
        batches,
        taken,
        committed,
        told,
        dropped,
        words,
    };
    tokio::spawn(watch_over(
        tokio::spawn(driver.run(inbox)),
        messages.clone(),
    ));
    for peer in peers {
        supervisor.add(peer);
    }
    supervisor.seek();
    Ok(Node::new(Parts {
        identity,
        clock,
        url,
        links,
        commands,
        posts,
        places: Places::new(limits.sends_max_bytes),
        next_send: AtomicU64::new(0),
        messages,
        events,
        refs,
        groups: Arc::new(GroupDoor::new(groups, group_events)),
        up,
        watches,
        supervisor,
        store_times,
        stop_listening,
    }))
}

/// Opens what a store of references holds, if there is one.
async fn carry_references(
    peer: &mut Peer,
    store: Option<Box<dyn AnyStore>>,
    done: mpsc::UnboundedSender<committer::Committed>,
    identity: &Identity,
    clock: Clock,
) -> Result<Option<Committer>, NodeError> {
    let Some(store) = store else {
        return Ok(None);
    };
    let (committer, rows) = Committer::start(store, done).await?;
    match References::open(peer.did(), limits(), &rows, clock.now()) {
        Ok(references) => {
            peer.carry(references, identity.nonce());
            Ok(Some(committer))
        }
        Err(refused) => {
            committer.close().await;
            Err(refused.into())
        }
    }
}

/// Opens what a store of logs holds of groups on its thread, if there is one.
async fn carry_groups(
    peer: &mut Peer,
    open: Option<OpenGroups>,
    settings: GroupSettings,
    events: broadcast::Sender<GroupEvent>,
    words: mpsc::UnboundedSender<(Keeper, Word)>,
    identity: &Identity,
    clock: Clock,
) -> Result<Option<((Keeper, KeeperThread), Inlet<groups::GroupAsk>)>, NodeError> {
    let Some(open) = open else {
        return Ok(None);
    };
    let own = Own {
        signer: identity.signer(),
        secret: identity.sealing_secret(),
        seed: zeroize::Zeroizing::new(identity.nonce()),
    };
    let open = move |now| open(own, events, settings, now);
    let (thread, inlet) = KeeperThread::start(Keeper::Groups, clock, open, words).await?;
    peer.attach_keeper(Keeper::Groups, identity.nonce());
    Ok(Some(((Keeper::Groups, thread), inlet)))
}

/// Opens a store of mail, if there is one.
async fn keep_mail(
    peer: &mut Peer,
    store: Option<InboxStore>,
    whose: Whose,
    told: mpsc::UnboundedSender<Vec<crate::peer::inbox::Told>>,
    identity: &Identity,
    clock: Clock,
) -> Result<Option<MailThread>, NodeError> {
    let Some(store) = store else {
        return Ok(None);
    };
    let thread = MailThread::start(store, whose, told).await?;
    peer.open_inbox(identity.nonce(), clock.now());
    Ok(Some(thread))
}

fn delegate_replay(peer: &mut Peer, namespaces: Vec<String>) -> Result<(), NodeError> {
    let mut beyond = namespaces.into_iter();
    match beyond.find(|namespace| !peer.delegate_replay(namespace)) {
        Some(namespace) => Err(NodeError::DelegatingFull { namespace }),
        None => Ok(()),
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), NodeError> {
    let refused = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AddrInUse => NodeError::ListenInUse { address },
        _ => NodeError::Listen {
            address,
            cause: error.to_string(),
        },
    };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((listener, bound))
}

/// Where others reach what listens at `bound`: at 0.0.0.0 nobody does, so where it listens at every address of this
/// machine it is the one of its links.
fn reached_at(bound: SocketAddr, links: IpAddr) -> SocketAddr {
    match bound.ip().is_unspecified() {
        true => SocketAddr::new(links, bound.port()),
        false => bound,
    }
}

/// Serves strangers, each within its limits, until the sender is used or dropped.
fn serve(listener: TcpListener, router: axum::Router) -> oneshot::Sender<()> {
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let stopped = async {
            let _ = stopped.await;
        };
        let limits = link::server::ServerLimits::default();
        link::server::serve(listener, router, limits, stopped).await;
    });
    stop
}

/// Ends the application's stream with the driver, however that ends: one that panicked leaves
/// nobody waiting for a message that cannot come.
async fn watch_over(driver: tokio::task::JoinHandle<()>, messages: Messages) {
    if let Err(broken) = driver.await {
        tracing::error!(%broken, "the node broke off; what was durable is kept: start it again");
    }
    messages.close();
}

/// Fills `bytes` from the platform's randomness.
fn random(bytes: &mut [u8]) -> Result<(), NodeError> {
    getrandom::fill(bytes).map_err(|error| NodeError::Random {
        cause: error.to_string(),
    })
}

/// Spreads pauses; nothing secret depends on it, so a platform without randomness gives zero.
fn random_u64() -> u64 {
    getrandom::u64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_driver_that_panics_ends_the_stream_of_messages() {
        let (taken, _reported) = mpsc::unbounded_channel();
        let messages = Messages::new(taken);
        let driver = tokio::spawn(async { panic!("a driver that breaks off") });
        let watched = tokio::spawn(watch_over(driver, messages.clone()));
        assert!(messages.next().await.is_none());
        watched.await.unwrap();
    }
}
