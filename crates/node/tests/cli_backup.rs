//! `backup` and `restore`: one instant, nothing twice.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::fs;
use std::path::Path;

use axum::http::Method;
use overlane_core::replay::LEASE_SEQUENCES;
use overlane_node::api::{ClassName, Client, SendReceipt, SendRequest};
use overlane_node::home::Home;
use support::{Pair, Place};

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Lets a home that was put back be ripe: as if its time had passed.
fn ripen(home: &Path) {
    fs::write(home.join("restored.json"), "{\"until_ms\": 1}").expect("written");
}

/// Sends so many messages; gives the last one's sequence.
fn sends(pair: &Pair, count: u64) -> u64 {
    let client = Client::of(&Home::at(pair.here.home()));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let asked = SendRequest {
        destination: pair.receiver.did().to_owned(),
        namespace: "text".to_owned(),
        class: ClassName::Application,
        body: "00".to_owned(),
        plain: false,
        wait_ms: 10_000,
        receipt_ms: 0,
        hold: false,
    };
    let mut last = 0;
    for _ in 0..count {
        let sent = runtime.block_on(client.call(Method::POST, "/v1/send", &asked));
        let sent: SendReceipt = sent.expect("sent");
        last = sent.sequence;
    }
    last
}

#[test]
fn cli_backup_of_a_running_node_is_put_back_and_signs_and_admits_nothing_twice() {
    for kind in ["journal", "files"] {
        let mut pair = Pair::of(Place::with_store(kind), Place::with_store(kind));
        pair.send(&["one"]);
        pair.take();
        let copies = pair.here.dir.path().join("copy");
        let copy = text(&copies);
        let backup = pair.here.overlane(["backup", copy, "--json"]);
        assert_eq!(backup.code, 0, "{backup:?}");
        let backup = backup.json();
        assert_eq!(backup["did"], pair.sender.did());
        assert!(
            backup["records"].as_u64().is_some_and(|it| it > 0),
            "{backup}"
        );
        assert!(
            backup["cost"]
                .as_str()
                .is_some_and(|it| it.contains("101 minutes")),
            "{backup}"
        );
        pair.here
            .overlane(["backup", copy, "--json"])
            .is_refused(2, "backup/there");
        // The copy is no home: a node started in it would sign and admit everything once more.
        pair.here
            .overlane(["--home", copy, "--json", "run"])
            .is_refused(2, "backup/is_copy");
        // The node goes on, and signs what the copy knows nothing of: more than a lease.
        let after = sends(&pair, LEASE_SEQUENCES + 6);
        let count = (LEASE_SEQUENCES + 6).to_string();
        let taken = pair.there.overlane(["watch", "--count", &count, "--json"]);
        assert_eq!(taken.code, 0, "{taken:?}");
        assert_eq!(pair.sender.running.terminate(), Some(0));

        let home = pair.here.dir.path().join("again");
        let of_home = |args: &[&str]| {
            let home = ["--home", text(&home), "--json"];
            pair.here.overlane(home.iter().chain(args))
        };
        assert_eq!(of_home(&["restore", copy]).code, 0);
        of_home(&["restore", copy]).is_refused(2, "backup/there");
        of_home(&["run"]).is_refused(3, "backup/not_ripe");
        let doctor = of_home(&["doctor"]);
        let start = doctor
            .out
            .lines()
            .find(|line| line.contains("backup/not_ripe"));
        assert!(doctor.code == 1 && start.is_some(), "{doctor:?}");
        let verified = of_home(&["replay", "verify"]);
        assert_eq!(verified.code, 0, "{verified:?}");
        let floor = of_home(&["replay", "floor"]);
        assert!(
            floor.json()["ahead_ms"]
                .as_u64()
                .is_some_and(|it| it > 7 * 24 * 3_600_000),
            "{floor:?}"
        );
        ripen(&home);
        let mut running = pair.here.start(["--home", text(&home), "run", "--json"]);
        assert_eq!(running.line()["did"], pair.sender.did());
        let added = of_home(&["peer", "add", pair.receiver.url()]);
        assert_eq!(added.code, 0, "{added:?}");
        let sent = of_home(&["send", pair.receiver.did(), "from what was put back"]);
        assert_eq!(sent.code, 0, "{sent:?}");
        let sequence = sent.json()["sequence"].as_u64().expect("a number");
        assert!(sequence > after, "{sequence} was signed before: {after}");
        assert_eq!(pair.take()["text"], "from what was put back");
        assert_eq!(running.terminate(), Some(0));
    }
}

#[test]
fn cli_backup_that_is_not_whole_is_not_put_back() {
    let place = Place::with_node();
    // Also of a node that is stopped, and that has not run yet.
    let copied = place.overlane(["backup", "copy", "--json"]);
    assert_eq!(
        (copied.code, &copied.json()["records"]),
        (0, &0.into()),
        "{copied:?}"
    );
    let copy = place.dir.path().join("copy");
    let restore = || place.overlane(["--home", "again", "restore", "copy", "--json"]);
    let config = fs::read(copy.join("config.toml")).expect("copied");
    fs::write(copy.join("config.toml"), b"network = 2").expect("changed");
    restore().is_refused(4, "backup/not_whole");
    fs::write(copy.join("config.toml"), &config).expect("mended");
    fs::create_dir(copy.join("replay")).expect("made");
    fs::write(copy.join("replay").join("stray"), b"x").expect("added");
    restore().is_refused(4, "backup/not_whole");
    fs::remove_dir_all(copy.join("replay")).expect("removed");
    let list = fs::read(copy.join("backup.json")).expect("a list");
    fs::remove_file(copy.join("backup.json")).expect("removed");
    restore().is_refused(4, "backup/not_whole");
    fs::write(copy.join("backup.json"), list).expect("put back");
    assert!(!place.dir.path().join("again").join("account.key").exists());
    assert_eq!(restore().code, 0);
    let id = |home: &str| place.overlane(["--home", home, "id", "--json"]).json()["did"].clone();
    assert_eq!(id("again"), id("home"));
}
