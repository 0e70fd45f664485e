//! `status`: what the running node knows.

use std::collections::BTreeMap;

use overlane_node::api::{Client, StatusReport};
use overlane_node::home::Home;

use super::output::{Done, Failure, Output};
use super::{ask, peers};

/// Shows it.
pub(super) fn status(home: &Home, output: &Output) -> Result<Done, Failure> {
    let client = Client::of(home);
    let report = ask(async {
        let report = client.get::<StatusReport>("/v1/status").await;
        report.map_err(|error| Failure::of_daemon(&error))
    })?;
    output.answer(&report, in_words)?;
    Ok(Done::Yes)
}

fn in_words(report: &StatusReport) -> String {
    let StatusReport {
        identity,
        home,
        url,
        uptime_ms,
        store,
        links,
        ice_servers,
        peers,
        neighbours,
        place_confirmed_ago_ms,
        queues,
        pending_sends,
        counters,
        refused,
        sends_refused,
        offers_refused,
        links_not_opened,
        references_failed,
        references,
        groups_failed,
        groups,
        mail_failed,
        mail,
        replay,
        api,
        api_refused,
        ..
    } = report;
    let mut text = format!(
        "  did      {}\n  did:key  {}\n  peer id  {}\n  network  {}\n  url      {}\n  home     {home}\n  up       {} s\n  store    {} in {}: {}",
        identity.did,
        identity.did_key,
        identity.peer_id,
        identity.network,
        url.as_deref().unwrap_or("takes no offers"),
        uptime_ms / 1_000,
        store.kind,
        store.path,
        store.state,
    );
    if let Some(api) = api {
        text += &format!("\n  api      {api}");
    }
    if let Some(cause) = &store.error {
        text += &format!("\n           {} ({})", cause.message, cause.error);
    }
    if let Some(cause) = groups_failed {
        text += &format!("\n  groups failed, and are refused: {cause}");
    }
    if let Some(cause) = references_failed {
        text += &format!("\n  references failed, and are refused: {cause}");
    }
    if let Some(cause) = mail_failed {
        text += &format!("\n  mail failed, and is refused: {cause}");
    }
    let up = links.iter().filter(|link| link.up).count();
    text += &format!("\n\nlinks: {up}");
    if links.len() > up {
        text += &format!(", and {} not up", links.len() - up);
    }
    for link in links {
        let dialed = link.dialed_url.as_deref();
        let way = dialed.map_or("dialled by it".to_owned(), |url| format!("at {url}"));
        let quiet = match (link.up, link.disturbed) {
            (false, _) => "  (not up: on its way, or ending)",
            (true, true) => "  (nothing heard of it for some seconds)",
            (true, false) => "",
        };
        text += &format!("\n  {} {way}{quiet}", link.peer);
        if let Some(path) = &link.path {
            text += &format!(", {path}");
        }
        if let Some(round_trip_ms) = link.round_trip_ms {
            text += &format!(", {round_trip_ms} ms there and back");
        }
        let references = link.delegation_references.iter();
        let references: Vec<_> = references
            .filter(|(_, count)| **count > 0)
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        if !references.is_empty() {
            text += &format!("\n    delegation references: {}", references.join(", "));
        }
        text +=
            "\n    lane         queued     bytes  in flight  credit     sent  received  untaken";
        for lane in &link.lanes {
            text += &format!(
                "\n    {:<11} {:>7} {:>9} {:>10} {:>7} {:>8} {:>9} {:>8}",
                lane.class,
                lane.queued,
                lane.queued_bytes,
                lane.in_flight,
                lane.credit,
                lane.sent,
                lane.received,
                lane.untaken
            );
        }
    }
    for server in ice_servers {
        let code = server.error.as_deref();
        let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
        text += &format!("\n\nice server {}: {}{code}", server.url, server.state);
    }
    text += &format!("\n\npeers: {}", peers.len());
    for peer in peers {
        text += &format!("\n  {}", peers::in_words(peer));
    }
    text += &format!("\n\nring neighbours: {}", neighbours.len());
    text += &match place_confirmed_ago_ms {
        Some(ago_ms) => format!(" (place confirmed by a lookup {} s ago)", ago_ms / 1_000),
        None => " (no lookup has confirmed its place yet)".to_owned(),
    };
    for neighbour in neighbours {
        text += &format!("\n  {}", peers::neighbour_in_words(neighbour));
    }
    text += "\n\nadmitted and not taken:";
    for queue in queues {
        text += &format!(
            "\n  {:<16} {:>10}  (at most {})",
            queue.class, queue.held, queue.high_water
        );
    }
    text += &format!("\n\nsends under way: {pending_sends}");
    for (title, table) in [
        ("counters", counters),
        ("replay", replay),
        ("refused frames", refused),
        ("refused sends", sends_refused),
        ("refused offers", offers_refused),
        ("links not opened", links_not_opened),
        ("references", references),
        ("groups", groups),
        ("mail", mail),
        ("refused requests to the API on TCP", api_refused),
    ] {
        text += &counts(title, table);
    }
    text
}

fn counts(title: &str, table: &BTreeMap<String, u64>) -> String {
    let happened = table.iter().filter(|(_, count)| **count > 0);
    let lines: String = happened
        .map(|(name, count)| format!("\n  {name:<28} {count:>10}"))
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\n\n{title}:{lines}")
}
