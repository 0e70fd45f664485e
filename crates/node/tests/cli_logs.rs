//! The log of a running node, and the support bundle.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::Value;
use support::{Pair, Place};

#[test]
fn cli_log_is_changed_while_the_node_runs_and_names_nobody() {
    let place = Place::with_node();
    let mut daemon = place.start(["run", "--json", "--set", "logs.format=json"]);
    assert_eq!(daemon.line()["up"], true);
    let log = |args: &[&str]| {
        let answer = place.overlane(["log", "--json"].iter().chain(args));
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.json()
    };
    let quiet = log(&["--lines"]);
    assert_eq!(
        (&quiet["filter"], &quiet["lines"]),
        (&"warn".into(), &serde_json::json!([]))
    );
    assert_eq!(log(&["trace"])["filter"], "trace");
    let other = Place::with_node();
    let peer = other.daemon();
    assert_eq!(
        place.overlane(["peer", "add", peer.url(), "--json"]).code,
        0
    );
    let sent = place.overlane(["send", peer.did(), "CANARY body", "--json"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let lines = log(&["--lines"])["lines"]
        .as_array()
        .expect("lines")
        .clone();
    assert!(!lines.is_empty());
    for line in &lines {
        let line = line.as_str().expect("a line");
        let entry: Value = serde_json::from_str(line).expect("an object a line");
        assert!(entry["level"].is_string(), "{line}");
        assert!(
            !line.contains(peer.did()) && !line.contains("CANARY"),
            "{line}"
        );
    }
    // Quiet again, from one line to the next.
    log(&["off"]);
    let kept = log(&["--lines"])["lines"].as_array().expect("lines").len();
    place.overlane(["send", peer.did(), "hello", "--json"]);
    assert_eq!(
        log(&["--lines"])["lines"].as_array().expect("lines").len(),
        kept
    );
    place
        .overlane(["log", "loud", "--json"])
        .is_refused(2, "api/bad_log_filter");
    assert_eq!(daemon.terminate(), Some(0));
    let written = daemon.log();
    assert!(
        written.lines().count() > 1 && !written.contains(peer.did()),
        "{written}"
    );
}

#[test]
fn cli_support_bundle_holds_no_secret_and_names_nobody() {
    let pair = Pair::linked();
    let (here, dir) = (&pair.here, pair.here.dir.path());
    assert_eq!(here.overlane(["log", "trace", "--json"]).code, 0);
    pair.send(&["CANARYbody"]);
    fs::write(dir.join("CANARYsecret"), "CANARYpassphrase\n").expect("written");
    let alone = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(dir.join("CANARYsecret"), alone).expect("a mode");
    let sealed = here.overlane(["key", "seal", "--passphrase-file", "CANARYsecret", "--json"]);
    assert_eq!(sealed.code, 0, "{sealed:?}");
    fs::write(dir.join("notes"), "CANARYfile").expect("written");
    let shared = here.overlane(["share", "notes", "--json"]).json();
    let ticket = shared["ticket"].as_str().expect("a ticket").to_owned();
    let config = here.home().join("config.toml");
    let token = "ab12".repeat(16);
    fs::write(here.home().join("api.token"), &token).expect("written");
    let mut text = fs::read_to_string(&config).expect("read");
    text += "\n[[ice.servers]]\nurl = \"turn:192.0.2.9\"\nusername = \"ann\"\ncredential = \"CANARYcredential\"\n";
    fs::write(&config, text).expect("written");
    let bundle = |name: &str| {
        let made = here.overlane(["support-bundle", name, "--json"]);
        let mode = fs::metadata(dir.join(name)).expect("a file").mode();
        assert_eq!(mode & 0o777, 0o600, "whatever the umask");
        assert_eq!(made.code, 0, "{made:?}");
        fs::read_to_string(dir.join(name)).expect("a bundle")
    };
    let running = bundle("running.json");
    let parsed: Value = serde_json::from_str(&running).expect("JSON");
    assert!(parsed["status"]["links"].is_array() && parsed["log"]["lines"].is_array());
    assert!(
        parsed["doctor"].as_array().is_some_and(|it| it.len() > 4),
        "{running}"
    );
    let again = here.overlane(["support-bundle", "running.json", "--json"]);
    again.is_refused(2, "cli/write");
    // A secret in a line that is no configuration.
    fs::write(&config, "CANARYcredential = \"CANARYcredential\"\n").expect("written");
    let mistaken = bundle("mistaken.json");
    for text in [&running, &mistaken] {
        for hidden in [
            "CANARY",
            &ticket,
            &token,
            pair.sender.did(),
            pair.receiver.did(),
            "192.0.2.9",
            dir.to_str().expect("text"),
        ] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
    }
    let nobody = Place::new().overlane(["support-bundle", "bundle.json", "--json"]);
    assert_eq!(
        nobody.code, 0,
        "a home without a node is what somebody may want help with: {nobody:?}"
    );
}
