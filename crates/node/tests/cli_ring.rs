//! `invite`, `join`, `peer ping`, `route`, and `send` by way of others: real processes on loopback.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use support::{Answer, Daemon, Pair, Place, Running};

/// Nobody's.
const NOBODY: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

/// What a refusal is in words.
#[track_caller]
fn is_refused_in_words(answer: &Answer, exit: i32, code: &str) {
    assert_eq!(answer.code, exit, "{answer:?}");
    assert!(answer.out.is_empty(), "{answer:?}");
    assert!(answer.err.starts_with("error: "), "{answer:?}");
    assert!(
        answer.err.contains(&format!("\ncode:  {code}\n")),
        "{answer:?}"
    );
}

/// Waits until both ends have the link: a message over it is there.
fn linked(place: &Place, (there, at): (&Place, &Daemon)) {
    let sent = place.overlane(["send", at.did(), "here", "--wait", "60", "--json"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let taken = there.overlane(["watch", "--count", "1", "--json"]);
    assert_eq!(taken.code, 0, "{taken:?}");
}

#[test]
fn cli_invite_and_join_make_a_ring_that_ping_and_route_go_through() {
    let first = Place::with_node();
    let here = first.daemon();
    let invited = first.overlane(["invite", "--json"]).json();
    assert_eq!(invited["did"], here.did());
    assert_eq!(invited["urls"][0], here.url());
    let ticket = invited["ticket"].as_str().expect("a ticket").to_owned();
    let words = first.overlane(["invite"]);
    assert_eq!((words.code, words.out.trim_end()), (0, ticket.as_str()));

    // One joins before it runs, the other while it does.
    let second = Place::with_node();
    let joined = second.overlane(["join", &ticket, "--json"]);
    assert_eq!(joined.code, 0, "{joined:?}");
    let joined = joined.json();
    assert_eq!(joined["did"], here.did());
    assert_eq!(
        (&joined["changed"], &joined["running"]),
        (&true.into(), &false.into())
    );
    let two = second.daemon();
    let third = Place::with_node();
    let three = third.daemon();
    let joined = third.overlane(["join", &ticket]);
    assert_eq!(joined.code, 0, "{joined:?}");
    let words = format!("joining by way of {}; see how far it is:", here.did());
    assert!(joined.out.starts_with(&words), "{joined:?}");
    let again = third.overlane(["join", &ticket, "--json"]).json();
    assert_eq!(
        (&again["changed"], &again["running"]),
        (&false.into(), &true.into())
    );
    for place in [&second, &third] {
        linked(place, (&first, &here));
    }

    let pong = second.overlane(["peer", "ping", three.did(), "--json"]);
    assert_eq!(pong.code, 0, "{pong:?}");
    let pong = pong.json();
    assert_eq!(pong["did"], three.did());
    // By way of the first, or over a link that the ring made meanwhile.
    let hops = pong["hops"].as_u64().expect("a number");
    assert!((1..=2).contains(&hops), "{pong}");
    assert!(pong["round_trip_ms"].is_u64(), "{pong}");
    let words = second.overlane(["peer", "ping", here.did()]);
    assert_eq!(words.code, 0, "{words:?}");
    assert!(
        words
            .out
            .starts_with(&format!("{} answers in ", here.did())),
        "{words:?}"
    );
    assert!(words.out.trim_end().ends_with(", 1 hop away"), "{words:?}");

    let route = third.overlane(["route", two.did(), "--json"]);
    assert_eq!(route.code, 0, "{route:?}");
    let route = route.json();
    let hops = route["hops"].as_array().expect("hops");
    assert_eq!(hops.last().expect("one"), two.did());
    assert_eq!(
        (&route["end"], &route["destination"]),
        (&"arrives".into(), &two.did().into())
    );
    let words = third.overlane(["route", here.did()]);
    let line = format!("  1  {}\narrives\n", here.did());
    assert_eq!((words.code, words.out.as_str()), (0, line.as_str()));
}

#[test]
fn cli_tickets_that_are_none_or_lead_elsewhere_are_refused() {
    let place = Place::with_node();
    let daemon = place.daemon();
    let ticket = place.overlane(["invite"]).out.trim_end().to_owned();
    let other = Place::new();
    let made = other.overlane(["init", "--listen", "127.0.0.1:0", "--network", "9"]);
    assert_eq!(made.code, 0, "{made:?}");

    for bad in [
        "overlane",
        "overlane0",
        "http://127.0.0.1:1",
        &ticket[..ticket.len() - 1],
    ] {
        let refused = place.overlane(["join", bad, "--json"]);
        refused.is_refused(2, "ticket/malformed");
    }
    is_refused_in_words(&place.overlane(["join", "nothing"]), 2, "ticket/malformed");
    let refused = other.overlane(["join", &ticket, "--json"]);
    let refusal = refused.is_refused(2, "ticket/other_network");
    let words = refusal["message"].as_str().expect("words");
    assert!(words.contains("network 9"), "{words}");
    is_refused_in_words(
        &other.overlane(["join", &ticket]),
        2,
        "ticket/other_network",
    );
    let own = place.overlane(["join", &ticket, "--json"]);
    own.is_refused(2, "ticket/own");
    let status = place.overlane(["peer", "list", "--json"]).json();
    assert_eq!(
        status["peers"].as_array().map(Vec::len),
        Some(0),
        "nothing was kept"
    );

    let elsewhere = ["invite", "--url", "http://192.0.2.1:7420", "--json"];
    let elsewhere = place.overlane(elsewhere).json();
    assert_eq!(elsewhere["urls"][0], "http://192.0.2.1:7420");
    // Nobody reaches a node at 0.0.0.0, so no ticket leads there.
    let everywhere = Place::new();
    let made = everywhere.overlane(["init", "--listen", "0.0.0.0:0"]);
    assert_eq!(made.code, 0, "{made:?}");
    let open = everywhere.daemon();
    assert!(!open.url().contains("//0.0.0.0:"), "{}", open.url());
    let ticket = everywhere.overlane(["invite", "--json"]).json();
    assert_eq!(ticket["urls"][0], open.url());
    let refused = place.overlane(["invite", "--url", "nowhere", "--json"]);
    refused.is_refused(2, "api/bad_peer_url");
    drop(daemon);
    other
        .overlane(["invite", "--json"])
        .is_refused(5, "api/not_running");
}

#[test]
fn cli_who_cannot_be_reached_is_told_with_a_code_and_where_the_way_ends() {
    let pair = Pair::linked();
    linked(&pair.here, (&pair.there, &pair.receiver));
    let ends = [pair.sender.did(), pair.receiver.did()];

    let ping = pair.here.overlane(["peer", "ping", NOBODY, "--json"]);
    let refusal = ping.is_refused(5, "route/destination_unreachable");
    let words = refusal["message"].as_str().expect("words");
    assert!(
        ends.iter()
            .any(|end| words.ends_with(&format!("says {end}"))),
        "{words}"
    );
    let ping = pair.here.overlane(["peer", "ping", NOBODY]);
    is_refused_in_words(&ping, 5, "route/destination_unreachable");
    for command in [&["peer", "ping"][..], &["route"]] {
        let refused = pair
            .here
            .overlane(command.iter().chain(&["nobody", "--json"]));
        refused.is_refused(2, "api/bad_destination");
    }
    let route = pair.here.overlane(["route", NOBODY, "--json"]);
    assert_eq!((route.code, &route.json()["end"]), (1, &"no_route".into()));
    let route = pair.here.overlane(["route", NOBODY]);
    assert_eq!(route.code, 1, "{route:?}");
    assert!(
        route
            .out
            .ends_with("nobody nearer is known there: it ends\n"),
        "{route:?}"
    );

    // A message is signed, its bytes are kept, and the report ends the wait.
    let kept = pair.here.dir.path().join("kept");
    let keep = kept.to_str().expect("a path");
    let sent = pair.here.overlane([
        "send", NOBODY, "anybody?", "--plain", "--keep", keep, "--json",
    ]);
    let refusal = sent.is_refused(5, "route/destination_unreachable");
    let words = refusal["message"].as_str().expect("words");
    assert!(words.starts_with("signed as sequence "), "{words}");
    assert!(
        ends.iter()
            .any(|end| words.ends_with(&format!("its way ends at {end}"))),
        "{words}"
    );
    assert!(fs::metadata(&kept).expect("a file").len() > 0);
    let sent = pair.here.overlane(["send", NOBODY, "anybody?", "--plain"]);
    is_refused_in_words(&sent, 5, "route/destination_unreachable");
    let again = pair.here.overlane(["send", "--signed", keep, "--json"]);
    again.is_refused(5, "route/destination_unreachable");
    // Who is linked has what its link took.
    let sent = pair.send(&["somebody", "--no-hold"]);
    assert_eq!(sent["outcome"]["kind"], "placed");

    let status = pair.here.overlane(["status", "--json"]).json();
    // Two pings and three messages, and the questions that went beside those.
    let unreachable = status["counters"]["unreachable"].as_u64();
    assert!(unreachable >= Some(5), "{unreachable:?}");
    let link = &status["links"][0]["delegation_references"];
    assert_eq!(
        (&link["missed"], &link["lost"]),
        (&0.into(), &0.into()),
        "{link}"
    );
    assert!(link["sent"].as_u64().expect("a number") > 0, "{link}");
    let confirmed = &status["place_confirmed_ago_ms"];
    assert!(confirmed.is_null() || confirmed.is_u64(), "{confirmed}");
    let metrics = pair.here.overlane(["metrics"]).out;
    assert!(metrics.contains("overlane_delegation_references{number=\"lost\"}"));
    let peer = &status["peers"][0];
    assert_eq!(
        (&peer["state"], &peer["dials"]),
        (&"linked".into(), &0.into())
    );
}

/// Five daemons, each with one link: to a middle that has one to each.
#[test]
fn cli_five_daemons_reach_each_other_through_a_middle_that_alone_has_links() {
    let middle = Place::with_node();
    let at = middle.daemon();
    let ticket = middle.overlane(["invite"]).out.trim_end().to_owned();
    let daemon = |_| {
        let place = Place::with_node();
        assert_eq!(place.overlane(["join", &ticket]).code, 0);
        let mut run = place.command(["run", "--json"]);
        run.env("OVERLANE_LINKS_MAX", "1");
        let mut running = Running::of(run);
        let up = running.line();
        (place, Daemon { running, up })
    };
    let daemons: Vec<(Place, Daemon)> = (0..5).map(daemon).collect();
    for (place, _) in &daemons {
        linked(place, (&middle, &at));
    }
    for (index, (place, from)) in daemons.iter().enumerate() {
        for (_, to) in daemons.iter().filter(|(_, to)| to.did() != from.did()) {
            let pong = place.overlane(["peer", "ping", to.did(), "--json"]);
            assert_eq!(pong.code, 0, "{pong:?}");
            assert_eq!(pong.json()["hops"], 2);
        }
        let (next, to) = &daemons[(index + 1) % daemons.len()];
        let sent = place.overlane(["send", to.did(), "through it", "--no-hold", "--json"]);
        assert_eq!(sent.code, 0, "{sent:?}");
        let outcome = &sent.json()["outcome"];
        assert_eq!(
            (&outcome["kind"], &outcome["hops"]),
            (&"passed_on".into(), &2.into())
        );
        let taken = next.overlane(["watch", "--count", "1", "--json"]).json();
        assert_eq!(
            (&taken["origin"], &taken["text"]),
            (&from.did().into(), &"through it".into())
        );
        let status = place.overlane(["status", "--json"]).json();
        assert_eq!(
            status["links"].as_array().map(Vec::len),
            Some(1),
            "{status}"
        );
        assert_eq!(status["links"][0]["peer"], at.did());
    }
    let (first, second) = (&daemons[0].0, daemons[1].1.did());
    let route = first.overlane(["route", second, "--json"]).json();
    assert_eq!(route["hops"], serde_json::json!([at.did(), second]));
    let words = first.overlane(["send", second, "again", "--no-hold"]);
    assert_eq!(words.code, 0, "{words:?}");
    assert!(
        words.out.contains("its destination is there, 2 hops away"),
        "{words:?}"
    );
}

/// What a node is linked to, as its events tell.
struct Links {
    watch: Running,
    up: BTreeSet<String>,
}

impl Links {
    /// Of a node that has no link yet.
    fn of(place: &Place) -> Self {
        let mut watch = place.start(["watch", "--events", "--json"]);
        assert_eq!(watch.line()["event"], "watching");
        let up = BTreeSet::new();
        Self { watch, up }
    }

    /// Waits until it is linked to all of these and, where so told, to nobody else.
    fn until(&mut self, wanted: &BTreeSet<String>, and_nobody_else: bool) {
        while !self.up.is_superset(wanted) || and_nobody_else && self.up != *wanted {
            self.line();
        }
    }

    /// Waits until it is handed this.
    fn takes(&mut self, text: &str) {
        while self.line()["text"] != text {}
    }

    fn line(&mut self) -> Value {
        let line = self.watch.line();
        let peer = line["peer"].as_str().unwrap_or_default().to_owned();
        match line["event"].as_str() {
            Some("link_up") => drop(self.up.insert(peer)),
            Some("link_down") => drop(self.up.remove(&peer)),
            _ => {}
        }
        line
    }
}

/// Their bootstrap crashes, and they are a ring without it; it comes back where it was, and they find it by
/// themselves.
#[test]
#[cfg(target_os = "linux")]
fn cli_three_daemons_that_lose_their_bootstrap_stay_a_ring_and_find_it_again_s22() {
    // An address that nobody else listens on: its port stays free while nobody has it.
    let [_, a, b, c] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{b}.{}:0", a | 0x40, c.max(1));
    let first = Place::new();
    let made = first.overlane(["init", "--listen", &address]);
    assert_eq!(made.code, 0, "{made:?}");
    let mut bootstrap = first.daemon();
    let (did, url) = (bootstrap.did().to_owned(), bootstrap.url().to_owned());
    let mut three: Vec<(Place, Daemon, Links)> = (0..3)
        .map(|_| {
            let place = Place::with_node();
            let daemon = place.daemon();
            let links = Links::of(&place);
            (place, daemon, links)
        })
        .collect();
    for (place, _, _) in &three {
        assert_eq!(place.overlane(["peer", "add", &url]).code, 0);
    }
    let dids = three.iter().map(|(_, daemon, _)| daemon.did().to_owned());
    let all: BTreeSet<String> = dids.chain([did.clone()]).collect();
    let others = |of: &Daemon, without: &str| {
        let mut others = all.clone();
        others.retain(|it| it != of.did() && it != without);
        others
    };
    for (_, daemon, links) in &mut three {
        links.until(&others(daemon, ""), false);
    }

    bootstrap.running.kill();
    for (_, daemon, links) in &mut three {
        links.until(&others(daemon, &did), true);
    }
    for from in 0..three.len() {
        let (to, text) = ((from + 1) % three.len(), format!("without it, from {from}"));
        let did = three[to].1.did().to_owned();
        let sent = three[from].0.overlane(["send", &did, &text, "--no-hold"]);
        assert_eq!(sent.code, 0, "{sent:?}");
        three[to].2.takes(&text);
    }

    let where_it_was = url.trim_start_matches("http://");
    let mut running = first.start(["run", "--json", "--listen", where_it_was]);
    let up = running.line();
    assert_eq!(
        (&up["up"], &up["did"], &up["url"]),
        (&true.into(), &did.into(), &url.into())
    );
    let bootstrap = Daemon { running, up };
    for (_, daemon, links) in &mut three {
        links.until(&others(daemon, ""), false);
    }
    for (place, _, _) in &three {
        linked(place, (&first, &bootstrap));
    }
}
