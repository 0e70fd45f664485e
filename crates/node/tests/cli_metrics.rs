//! A daemon's numbers, by the command and as a collector asks for them.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use support::{Pair, Place};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What `GET path` with this host is answered with.
fn get(address: &str, host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let asked = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

/// The value of a sample, written as the text has it.
fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        (name == sample).then(|| value.parse().expect("a number"))
    });
    line.unwrap_or_else(|| panic!("no {sample} in\n{text}"))
}

/// The sum of a family's samples that have this label, whatever their others are.
fn sum(text: &str, family: &str, label: &str) -> f64 {
    let of_family = text.lines().filter_map(|line| {
        let (labels, value) = line.strip_prefix(family)?.split_once("} ")?;
        let is_it = labels.strip_prefix('{')?.split(',').any(|it| it == label);
        is_it.then(|| value.parse::<f64>().expect("a number"))
    });
    let values: Vec<_> = of_family.collect();
    assert!(!values.is_empty(), "no {family} of {label} in\n{text}");
    values.iter().sum()
}

#[test]
fn cli_metrics_say_what_status_says() {
    let pair = Pair::linked();
    let keep = pair.here.dir.path().join("kept");
    let keep = keep.to_str().expect("a path");
    // What asks whether it arrived would be a transaction of its own.
    pair.send(&["hello", "--keep", keep, "--no-hold"]);
    pair.take();
    pair.here
        .overlane(["send", "--signed", keep, "--json"])
        .json();
    // What the second copy became is told when it is known.
    let metrics = (0..500).find_map(|_| {
        let text = pair.there.overlane(["metrics"]);
        assert_eq!(text.code, 0, "{text:?}");
        let replays = sum(
            &text.out,
            "overlane_not_admitted_total",
            "verdict=\"replay\"",
        );
        (replays > 0.0).then_some(())
    });
    assert!(metrics.is_some(), "the second copy is refused");
    // The ring's own messages may be among them by now, as in what status says before and after.
    let firsts = || {
        let status = pair.there.overlane(["status", "--json"]).json();
        status["replay"]["first"].as_f64().expect("a number")
    };
    let metrics = (firsts(), pair.there.overlane(["metrics"]).out, firsts());
    let (before, metrics, after) = metrics;
    let first = sum(&metrics, "overlane_admitted_total", "verdict=\"first\"");
    let application = "overlane_admitted_total{class=\"application\",verdict=\"first\"}";
    assert!(value(&metrics, application) >= 1.0);
    assert!(before >= 1.0 && (before..=after).contains(&first));
    assert_eq!(value(&metrics, "overlane_links{state=\"up\"}"), 1.0);
    assert_eq!(
        value(&metrics, "overlane_node_events_total{event=\"dispatched\"}"),
        1.0
    );
    assert_eq!(
        value(
            &metrics,
            "overlane_frames_refused_total{code=\"replay/replay\"}"
        ),
        1.0
    );
    let status = pair.there.overlane(["status", "--json"]).json();
    let store = status["store"]["kind"].as_str().expect("a kind");
    let durable = format!("overlane_store_durable{{kind=\"{store}\"}}");
    assert_eq!(value(&metrics, &durable), 1.0);
    let streams = "overlane_bound_current{bound=\"replay_receiver_streams\"}";
    assert!(value(&metrics, streams) >= 1.0);
    assert!(metrics.trim_end().ends_with("# EOF"), "{metrics}");
    // Nobody is named.
    assert!(!metrics.contains(pair.sender.did()), "{metrics}");
    // One text or none in all answers.
    let json = pair.there.overlane(["metrics", "--json"]).json();
    assert!(
        json["openmetrics"]
            .as_str()
            .is_some_and(|it| it.contains("overlane_links"))
    );
}

#[test]
fn cli_metrics_are_answered_on_the_loopback_to_its_own_address_alone() {
    let place = Place::with_node();
    place
        .overlane(["run", "--metrics", "0.0.0.0:0", "--json"])
        .is_refused(2, "cli/metrics_not_loopback");
    let mut running = place.start(["run", "--metrics", "127.0.0.1:0", "--json"]);
    let up = running.line();
    let url = up["metrics"].as_str().expect("where");
    let address = url
        .trim_start_matches("http://")
        .trim_end_matches("/metrics");
    let answer = get(address, address, "/metrics");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("application/openmetrics-text"), "{answer}");
    assert!(answer.contains("overlane_uptime_seconds "), "{answer}");
    // A page of a stranger reaches it by a name of its own: it reads nothing.
    for (host, path) in [("rebound.example", "/metrics"), (address, "/v1/status")] {
        let answer = get(address, host, path);
        assert!(answer.starts_with("HTTP/1.1 404"), "{host}{path}: {answer}");
        assert!(!answer.contains("overlane_uptime"), "{answer}");
    }
    let taken = place.overlane(["run", "--metrics", address, "--json"]);
    taken.is_refused(2, "cli/metrics_listen");
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn cli_metrics_are_the_page_of_the_documentation_and_what_operators_are_given() {
    let page = Place::new().overlane(["metrics", "--page"]).out;
    let kept = fs::read_to_string(workspace().join("docs/metrics.md")).expect("the page");
    assert!(
        page == kept,
        "make it again: overlane metrics --page > docs/metrics.md"
    );
    let known: BTreeSet<&str> = page
        .split('`')
        .filter(|it| it.starts_with("overlane_"))
        .collect();
    assert!(known.len() > 20, "{known:?}");
    for file in [
        "ops/alerts.yml",
        "ops/alerts.test.yml",
        "ops/dashboard.json",
    ] {
        let text = fs::read_to_string(workspace().join(file)).expect(file);
        let named: BTreeSet<&str> = text
            .split(|it: char| !it.is_ascii_alphanumeric() && it != '_')
            .filter(|it| it.starts_with("overlane_"))
            // What a histogram is told by.
            .map(|it| {
                let ends = ["_bucket", "_sum", "_count"];
                let of = ends.iter().find_map(|end| it.strip_suffix(end));
                of.filter(|of| known.contains(of)).unwrap_or(it)
            })
            .collect();
        assert!(!named.is_empty(), "{file}");
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "{file} asks for {unknown:?}");
    }
}
