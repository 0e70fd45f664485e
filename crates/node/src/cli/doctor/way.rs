//! The way to one node, as far as it goes.

use axum::http::Method;
use overlane_node::api::{
    Client, DestinationRequest, LinkReport, PingReport, RouteReport, StatusReport,
};
use overlane_node::home::Home;
use serde::de::DeserializeOwned;

use super::super::ask;
use super::super::explain::to_do;
use super::super::output::{Failure, Output};
use super::{Finding, Step, running_status};

/// Link, its slot, route, and an answer from the node itself.
pub(super) fn steps(home: &Home, did: &str, output: &Output) -> Result<Vec<Step>, Failure> {
    home.require_account()?;
    let Some(status) = running_status(home)? else {
        let step = Step::good("daemon", "ask it by its socket", "none runs here");
        let meaning = "nothing can be asked of other nodes";
        let next = format!("{} run", output.overlane);
        return Ok(vec![step.but(Finding::Bad, meaning, next)]);
    };
    let route: RouteReport = ask_of(home, "/v1/route", did)?;
    let links = |peer: &str| {
        let mut links = status.links.iter().filter(|link| link.peer == peer);
        let first = links.clone().next();
        links.find(|link| link.up).or(first)
    };
    let link = links(&route.destination);
    let mut steps = Vec::new();
    let tried = "look for a link of its own";
    steps.push(match link {
        Some(link) if !link.up => Step::good("link", tried, "there is one that is not up").but(
            Finding::Warning,
            "it is on its way, or ends: in some seconds it is up or gone",
            None,
        ),
        Some(link) if link.disturbed => Step::good("link", tried, "there is one, and it is quiet")
            .but(
                Finding::Warning,
                "the node may be gone: what the link takes may be lost",
                None,
            ),
        Some(link) => {
            let round_trip = link.round_trip_ms;
            let time = round_trip.map_or(String::new(), |ms| format!(", {ms} ms there and back"));
            let path = link
                .path
                .as_deref()
                .unwrap_or("of a kind that is not known");
            let found = format!("there is one, {path}{time}; its certificate was proved by DTLS");
            Step::good("link", tried, found)
        }
        None => Step::good("link", tried, "there is none: messages go by way of others"),
    });
    let first = route.hops.first().and_then(|hop| links(hop));
    if let Some(link) = link.or(first) {
        steps.push(of_slot(link, &status, output));
    }
    steps.push(of_route(&route, output));
    let pong: Result<PingReport, Failure> = ask_of(home, "/v1/ping", did);
    steps.push(match pong {
        Ok(pong) => {
            let found = format!(
                "it answers in {} ms, {} hops away",
                pong.round_trip_ms, pong.hops
            );
            Step::good("answer", "ask it whether it is there", found)
        }
        Err(failure) => {
            let meaning = "it is away, or nobody who knows it can be reached";
            Step::failed(
                "answer",
                "ask it whether it is there",
                &failure,
                meaning,
                output,
            )
        }
    });
    Ok(steps)
}

/// The place of the link in the accounts of replay protection.
fn of_slot(link: &LinkReport, status: &StatusReport, output: &Output) -> Step {
    let tried = format!("look what the slot of the link to {} is charged", link.peer);
    let Some(slot) = &link.slot else {
        let without = status.counters.get("links_without_slot").copied();
        let found = match without.unwrap_or_default() {
            0 => "it has none yet".to_owned(),
            closed => format!("it has none yet; {closed} links found none and were closed"),
        };
        let meaning = "a link has a slot once it is up; where all are taken it is closed again";
        let next = format!("{} bounds", output.overlane);
        return Step::good("slot", tried, found).but(Finding::Warning, meaning, next);
    };
    let found = format!(
        "slot {}: {} streams, {} are its own whatever others do",
        slot.number, slot.streams, slot.floor
    );
    let step = Step::good("slot", tried, found);
    let refused = status.refused.get(SHARE_FULL).copied().unwrap_or_default();
    if slot.streams < slot.floor || refused == 0 {
        return step;
    }
    let meaning = format!(
        "it is past its own and shares a pool; {refused} messages of new streams were refused, which ends as streams are spent"
    );
    step.but(
        Finding::Warning,
        meaning,
        to_do(SHARE_FULL, &output.overlane),
    )
}

/// The code of what is refused where a slot may have no more streams.
const SHARE_FULL: &str = "replay/stream_share_full";

fn of_route(route: &RouteReport, output: &Output) -> Step {
    let hops = route.hops.len();
    let tried = "follow the way of a message, hop by hop";
    match route.end.as_str() {
        "arrives" => Step::good("route", tried, format!("it arrives after {hops} hops")),
        "silent" => Step::good("route", tried, format!("hop {hops} does not answer")).but(
            Finding::Warning,
            "the ring finds another way by itself, as a rule within a minute",
            None,
        ),
        "hop_budget" => Step::good("route", tried, "it takes more hops than a message may").but(
            Finding::Bad,
            "the ring is not in order around that node",
            None,
        ),
        _ => Step::good("route", tried, format!("it ends after {hops} hops")).but(
            Finding::Bad,
            "nobody there knows a node nearer to it: it is in no ring with this one, or the Did is wrong",
            format!("{} peer list", output.overlane),
        ),
    }
}

fn ask_of<T: DeserializeOwned>(home: &Home, path: &str, did: &str) -> Result<T, Failure> {
    let client = Client::of(home);
    let destination = did.to_owned();
    let asked = DestinationRequest { destination };
    ask(async {
        let answer = client.call(Method::POST, path, &asked).await;
        answer.map_err(|error| Failure::of_daemon(&error))
    })
}
