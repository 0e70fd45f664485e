//! `peer add | list | drop`: the nodes to stay linked to.
//!
//! With a daemon these ask it; without one they edit the configuration, under the home's lock,
//! for the next `run` to read.

use axum::http::Method;
use overlane_core::Fault;
use overlane_node::api::{
    Client, NeighbourReport, PeerChanged, PeerReport, PeerRequest, PeersReport,
};
use overlane_node::home::{Home, peer_url};
use serde::Serialize;

use super::args::Peer;
use super::config::config;
use super::output::{Done, Failure, Output};
use super::{ask, only_if_running, overlay};

#[derive(Serialize)]
struct Changed {
    #[serde(flatten)]
    changed: PeerChanged,
    running: bool,
}

/// Does what was asked about peers.
pub(super) fn peer(home: &Home, peer: Peer, output: &Output) -> Result<Done, Failure> {
    match peer {
        Peer::Add { url } => add(home, named(&url)?, output),
        Peer::Drop { url } => drop_peer(home, named(&url)?, output),
        Peer::List => list(home, output),
        Peer::Ping { did } => overlay::ping(home, did, output),
    }
}

pub(super) fn named(url: &str) -> Result<String, Failure> {
    peer_url(url).map_err(|cause| Failure::new("api/bad_peer_url", Fault::Usage, cause))
}

fn add(home: &Home, url: String, output: &Output) -> Result<Done, Failure> {
    let asked = PeerRequest { url: url.clone() };
    let running = change(home, Method::POST, &asked)?;
    let answer = match running {
        Some(changed) => Changed {
            changed,
            running: true,
        },
        None => without_daemon(home, &url, Home::add_peer)?,
    };
    output.answer(&answer, |answer| {
        match (answer.changed.changed, answer.running) {
            (true, true) => format!(
                "{url} is a peer now; see how its link is: {} peer list",
                output.overlane
            ),
            (true, false) => format!(
                "{url} is a peer now; it is dialled by: {} run",
                output.overlane
            ),
            (false, _) => format!("{url} is a peer already"),
        }
    })?;
    Ok(Done::Yes)
}

fn drop_peer(home: &Home, url: String, output: &Output) -> Result<Done, Failure> {
    let asked = PeerRequest { url: url.clone() };
    let answer = match change(home, Method::DELETE, &asked)? {
        Some(changed) => Changed {
            changed,
            running: true,
        },
        None => without_daemon(home, &url, Home::drop_peer)?,
    };
    output.answer(&answer, |answer| {
        if answer.changed.changed {
            format!("{url} is no peer any more")
        } else {
            format!(
                "{url} is no peer; see those that are: {} peer list",
                output.overlane
            )
        }
    })?;
    Ok(if answer.changed.changed {
        Done::Yes
    } else {
        Done::No
    })
}

fn list(home: &Home, output: &Output) -> Result<Done, Failure> {
    let client = Client::of(home);
    let answer = ask(async { only_if_running(client.get::<PeersReport>("/v1/peers").await) })?;
    let report = match answer {
        Some(report) => report,
        None => PeersReport {
            peers: configured(home)?,
            neighbours: Vec::new(),
        },
    };
    output.answer(&report, |report| {
        let mut lines: Vec<String> = report.peers.iter().map(in_words).collect();
        if report.peers.is_empty() {
            lines.push(format!(
                "no peers; add one: {} peer add URL",
                output.overlane
            ));
        }
        lines.extend(report.neighbours.iter().map(neighbour_in_words));
        lines.join("\n")
    })?;
    Ok(Done::Yes)
}

/// A neighbour of the ring, its link, and why there is none.
pub(super) fn neighbour_in_words(neighbour: &NeighbourReport) -> String {
    let NeighbourReport {
        did,
        role,
        link,
        path,
        via,
        error,
    } = neighbour;
    let link = path.as_ref().unwrap_or(link);
    let via = via.as_deref().map(|via| format!(" {via}"));
    let why = error.as_deref().map(|code| format!("  ({code})"));
    format!(
        "{did}  {role:<11}  {link}{}{}",
        via.unwrap_or_default(),
        why.unwrap_or_default()
    )
}

pub(super) fn in_words(peer: &PeerReport) -> String {
    let who = peer.did.as_deref().unwrap_or("");
    let why = peer
        .error
        .as_ref()
        .map(|cause| format!("\n    {} ({})", cause.message, cause.error));
    let next = peer.next_dial_ms.map_or_else(String::new, |in_ms| {
        let dials = if peer.dials == 1 { "dial" } else { "dials" };
        let (dialled, in_s) = (peer.dials, in_ms.div_ceil(1_000));
        format!(" ({dialled} {dials}, the next in {in_s} s)")
    });
    let line = format!("{}  {}{next}  {who}", peer.url, peer.state);
    let way = match (peer.path.as_deref(), peer.via.as_deref()) {
        (Some("via"), Some(via)) => format!("  via {via}"),
        (Some(path), _) => format!("  {path}"),
        (None, _) => String::new(),
    };
    format!("{}{way}{}", line.trim_end(), why.unwrap_or_default())
}

pub(super) fn change(
    home: &Home,
    method: Method,
    asked: &PeerRequest,
) -> Result<Option<PeerChanged>, Failure> {
    let client = Client::of(home);
    ask(async { only_if_running(client.call(method, "/v1/peers", asked).await) })
}

/// Adds a peer to the configuration, for the next `run`; whether it was none before.
pub(super) fn add_without_daemon(home: &Home, url: &str) -> Result<bool, Failure> {
    Ok(without_daemon(home, url, Home::add_peer)?.changed.changed)
}

fn without_daemon(
    home: &Home,
    url: &str,
    edit: impl FnOnce(&Home, &str) -> Result<bool, overlane_node::home::HomeError>,
) -> Result<Changed, Failure> {
    // Fails for a home that holds no node, before a file is made there.
    home.require_account()?;
    let _lock = home.lock()?;
    Ok(Changed {
        changed: PeerChanged {
            url: url.to_owned(),
            changed: edit(home, url)?,
        },
        running: false,
    })
}

fn configured(home: &Home) -> Result<Vec<PeerReport>, Failure> {
    home.require_account()?;
    let peers = config(home)?.peers.into_iter().map(|url| PeerReport {
        url,
        did: None,
        state: "stopped".to_owned(),
        path: None,
        via: None,
        error: None,
        dials: 0,
        next_dial_ms: None,
    });
    Ok(peers.collect())
}
