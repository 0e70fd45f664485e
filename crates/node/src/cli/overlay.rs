//! `invite`, `join`, `peer ping`, `route`: a node's place among others.

use axum::http::Method;
use overlane_core::Fault;
use overlane_core::ring::Ticket;
use overlane_node::api::{
    Client, DestinationRequest, PeerChanged, PeerRequest, PingReport, RouteReport, StatusReport,
};
use overlane_node::home::Home;
use serde::Serialize;

use super::config::config;
use super::output::{Done, Failure, Output};
use super::{ask, peers};

#[derive(Serialize)]
struct Invited {
    ticket: String,
    did: String,
    network: u32,
    urls: Vec<String>,
}

#[derive(Serialize)]
struct Joined {
    did: String,
    urls: Vec<String>,
    changed: bool,
    running: bool,
}

/// Prints a ticket to this node.
pub(super) fn invite(home: &Home, url: Option<String>, output: &Output) -> Result<Done, Failure> {
    let client = Client::of(home);
    let report = ask(async {
        let report = client.get::<StatusReport>("/v1/status").await;
        report.map_err(|error| Failure::of_daemon(&error))
    })?;
    let url = match url {
        Some(url) => Some(peers::named(&url)?),
        None => report.url,
    };
    let Some(url) = url else {
        let message = "this node takes no offers: give the URL where others reach it with --url";
        return Err(Failure::new("ticket/no_url", Fault::Usage, message));
    };
    let did = report.identity.did;
    let invalid = |_| Failure::new("ticket/malformed", Fault::Usage, "the node's Did is none");
    let ticket = Ticket {
        network: overlane_core::NetworkId(report.identity.network),
        did: did.parse().map_err(invalid)?,
        urls: vec![url.clone()],
    };
    let invited = Invited {
        ticket: ticket.to_string(),
        did,
        network: report.identity.network,
        urls: vec![url],
    };
    output.answer(&invited, |invited| invited.ticket.clone())?;
    Ok(Done::Yes)
}

/// Keeps a link to the node of a ticket from now on, and so joins its ring.
pub(super) fn join(home: &Home, ticket: &str, output: &Output) -> Result<Done, Failure> {
    let ticket: Ticket = ticket.parse()?;
    home.require_account()?;
    let (own, network) = (home.account_key()?.0.did(), config(home)?.network);
    if ticket.network != network {
        let message = format!(
            "the ticket is for network {}, and this node is of network {network}: make one with \
             `overlane init --network {}`",
            ticket.network, ticket.network
        );
        return Err(Failure::new("ticket/other_network", Fault::Usage, message));
    }
    if ticket.did == own {
        let message = "the ticket is this node's own: give it to another";
        return Err(Failure::new("ticket/own", Fault::Usage, message));
    }
    let (mut changed, mut running) = (false, false);
    for url in &ticket.urls {
        let url = peers::named(url)?;
        let asked = PeerRequest { url: url.clone() };
        let answer: Option<PeerChanged> = peers::change(home, Method::POST, &asked)?;
        running = answer.is_some();
        changed |= match answer {
            Some(answer) => answer.changed,
            None => peers::add_without_daemon(home, &url)?,
        };
    }
    let joined = Joined {
        did: ticket.did.to_string(),
        urls: ticket.urls,
        changed,
        running,
    };
    output.answer(&joined, |joined| {
        let next = if joined.running {
            format!("see how far it is: {} peer list", output.overlane)
        } else {
            format!("it is dialled by: {} run", output.overlane)
        };
        format!("joining by way of {}; {next}", joined.did)
    })?;
    Ok(Done::Yes)
}

/// Asks whether a node is there.
pub(super) fn ping(home: &Home, did: String, output: &Output) -> Result<Done, Failure> {
    let pong: PingReport = ask_ring(home, "/v1/ping", did)?;
    output.answer(&pong, |pong| {
        let hops = if pong.hops == 1 { "hop" } else { "hops" };
        format!(
            "{} answers in {} ms, {} {hops} away",
            pong.did, pong.round_trip_ms, pong.hops
        )
    })?;
    Ok(Done::Yes)
}

/// Shows the way that messages to a node take.
pub(super) fn route(home: &Home, did: String, output: &Output) -> Result<Done, Failure> {
    let route: RouteReport = ask_ring(home, "/v1/route", did)?;
    output.answer(&route, |route| {
        let hops = route.hops.iter().enumerate();
        let lines: Vec<String> = hops
            .map(|(at, hop)| format!("{:>3}  {hop}", at + 1))
            .collect();
        let end = match route.end.as_str() {
            "arrives" => "arrives".to_owned(),
            "silent" => "the last hop does not answer".to_owned(),
            "hop_budget" => "it takes more hops than a message may".to_owned(),
            _ => "nobody nearer is known there: it ends".to_owned(),
        };
        format!("{}\n{end}", lines.join("\n"))
            .trim_start_matches('\n')
            .to_owned()
    })?;
    Ok(if route.end == "arrives" {
        Done::Yes
    } else {
        Done::No
    })
}

fn ask_ring<T: serde::de::DeserializeOwned>(
    home: &Home,
    path: &str,
    destination: String,
) -> Result<T, Failure> {
    let client = Client::of(home);
    let asked = DestinationRequest { destination };
    ask(async {
        let answer = client.call(Method::POST, path, &asked).await;
        answer.map_err(|error| Failure::of_daemon(&error))
    })
}
