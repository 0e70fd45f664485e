//! `run` and everything one asks of a daemon, with real processes on loopback.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use axum::http::Method;
use overlane_node::api::{ClassName, Client, UploadLine, UploadRequest};
use overlane_node::home::Home;
use serde_json::{Value, json};
use support::{Pair, Place, Running, event};

#[test]
fn cli_run_says_who_and_where_and_ends_in_order() {
    let place = Place::with_node();
    let mut daemon = place.daemon();
    let id = place.overlane(["id", "--json"]).json();
    assert_eq!(daemon.up["did"], id["did"]);
    assert!(daemon.url().starts_with("http://127.0.0.1:"));
    assert_eq!(daemon.up["store"]["records"], 0);
    let socket = place.home().join("overlane.sock");
    assert_eq!(
        fs::metadata(&socket).expect("a socket").mode() & 0o777,
        0o600
    );

    let status = place.overlane(["status", "--json"]).json();
    assert_eq!(status["did"], id["did"]);
    assert_eq!(status["url"], daemon.up["url"]);
    assert_eq!(status["store"]["state"], "durable");
    let words = place.overlane(["status"]);
    assert!(words.out.contains(daemon.did()), "{words:?}");

    assert_eq!(daemon.running.terminate(), Some(0));
    assert!(!socket.exists());
    place
        .overlane(["status", "--json"])
        .is_refused(5, "api/not_running");
}

#[test]
fn cli_a_second_daemon_on_a_home_is_refused_and_told_who_has_it() {
    let place = Place::with_node();
    let daemon = place.daemon();
    let refusal = place
        .overlane(["run", "--json"])
        .is_refused(3, "home/in_use");
    let pid = format!("process {}", daemon.running.child.id());
    assert!(
        refusal["message"].as_str().expect("words").contains(&pid),
        "{refusal}"
    );
    assert_eq!(
        place.overlane(["status"]).code,
        0,
        "the first one is not harmed"
    );
}

#[test]
fn cli_a_killed_daemon_leaves_nothing_in_the_way_of_the_next() {
    let place = Place::with_node();
    let mut daemon = place.daemon();
    daemon.running.kill();
    assert!(place.home().join("overlane.sock").exists());
    place
        .overlane(["status", "--json"])
        .is_refused(5, "api/not_running");
    let next = place.daemon();
    assert_eq!(next.did(), daemon.did());
    assert_eq!(place.overlane(["status"]).code, 0);
}

#[test]
fn cli_a_port_in_use_is_named() {
    let place = Place::with_node();
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("its address").to_string();
    let refusal = place
        .overlane(["run", "--listen", &address, "--json"])
        .is_refused(2, "node/listen_in_use");
    assert!(
        refusal["message"]
            .as_str()
            .expect("words")
            .contains(&address)
    );
    assert!(
        refusal["next"]
            .as_str()
            .is_some_and(|next| next.contains("--listen"))
    );
    assert!(
        !place.home().join("overlane.sock").exists(),
        "nobody answers there"
    );
}

#[test]
fn cli_a_store_that_cannot_be_written_is_no_store() {
    let place = Place::with_node();
    fs::write(place.home().join("replay"), "not a folder").expect("written");
    let refusal = place.overlane(["run", "--json"]);
    assert_eq!(refusal.code, 4, "{refusal:?}");
    assert!(
        refusal.json()["message"]
            .as_str()
            .expect("words")
            .contains("replay")
    );
}

#[test]
fn cli_a_store_of_another_kind_is_not_opened() {
    let place = Place::with_store("files");
    let mut daemon = place.daemon();
    assert_eq!(daemon.up["store"]["kind"], "files");
    assert_eq!(daemon.running.terminate(), Some(0));
    let config = place.home().join("config.toml");
    let files = fs::read_to_string(&config).expect("a file");
    let journal = files.replace("store = \"files\"", "store = \"journal\"");
    fs::write(&config, journal).expect("written");
    place
        .overlane(["run", "--json"])
        .is_refused(4, "store/wrong_kind");
    fs::write(&config, files).expect("written");
    place.daemon();
}

#[test]
fn cli_a_home_too_deep_for_a_socket_is_named() {
    let place = Place::new();
    let deep = place.dir.path().join("d".repeat(100));
    let home = deep.to_str().expect("text");
    assert_eq!(
        place
            .overlane(["--home", home, "init", "--listen", "127.0.0.1:0"])
            .code,
        0
    );
    let refused = place.overlane(["--home", home, "run", "--json"]);
    refused.is_refused(2, "home/socket_path_too_long");
}

#[test]
fn cli_a_message_is_taken_once_and_its_bytes_again_are_a_replay() {
    let pair = Pair::linked();
    let kept = pair.here.dir.path().join("signed.bin");
    let kept = kept.to_str().expect("text");
    let sent = pair.send(&["hello", "--keep", kept]);
    let taken = pair.take();
    assert_eq!(
        (&taken["verdict"], &taken["text"]),
        (&"First".into(), &"hello".into())
    );
    for field in ["stream", "sequence", "digest"] {
        assert_eq!(taken[field], sent[field], "{field}");
    }
    assert_eq!(taken["origin"], pair.sender.up["did"]);

    let mut watch = pair.watch();
    let again = pair.here.overlane(["send", "--signed", kept, "--json"]);
    assert_eq!(again.json()["digest"], sent["digest"], "{again:?}");
    assert_eq!(event(&mut watch, "refused")["error"], "replay/replay");
    pair.send(&["and more"]);
    let more = loop {
        let line = watch.line();
        if line["event"].is_null() {
            break line;
        }
    };
    assert_eq!(
        (&more["verdict"], &more["text"]),
        (&"Advance".into(), &"and more".into())
    );
    let status = pair.there.overlane(["status", "--json"]).json();
    assert_eq!(status["replay"]["replay"], 1);
    assert_eq!(status["counters"]["dispatched"], 2);
    assert_eq!(watch.terminate(), None, "ended by the signal");
}

#[test]
fn cli_what_nobody_watches_waits_and_bodies_come_from_anywhere() {
    let pair = Pair::linked();
    let file = pair.here.dir.path().join("body");
    fs::write(&file, [0, 159, 146, 150]).expect("written");
    pair.send(&[
        "--file",
        file.to_str().expect("text"),
        "--namespace",
        "bytes",
    ]);
    let to = pair.receiver.did();
    let sent = pair
        .here
        .overlane_reading(["send", to, "--class", "storage", "--json"], b"piped");
    assert_eq!(sent.code, 0, "{sent:?}");
    let mut taken = [pair.take(), pair.take()];
    taken.sort_by_key(|message| message["class"].to_string());
    let [bytes, piped] = taken;
    assert_eq!(bytes["namespace"], "bytes");
    assert_eq!(
        (&bytes["text"], &bytes["body"]),
        (&Value::Null, &"009f9296".into())
    );
    assert_eq!(
        (&piped["class"], &piped["text"]),
        (&"storage".into(), &"piped".into())
    );
}

#[test]
fn cli_one_watcher_at_a_time_takes_messages() {
    let pair = Pair::linked();
    let mut first = pair.watch();
    pair.there
        .overlane(["watch", "--json"])
        .is_refused(3, "api/watched");
    first.kill();
    pair.send(&["hello"]);
    assert_eq!(pair.take()["text"], "hello");
}

#[test]
fn cli_watch_ends_in_order_with_the_node() {
    let place = Place::with_node();
    for (more, code) in [(&[][..], 0), (&["--count", "1"], 1)] {
        let mut daemon = place.daemon();
        let typed = ["watch", "--events", "--json"].iter().chain(more);
        let mut watch = place.start(typed);
        assert_eq!(watch.line()["event"], "watching");
        assert_eq!(daemon.running.terminate(), Some(0));
        let ended = watch.child.wait().expect("its end");
        assert_eq!(ended.code(), Some(code), "{more:?}");
    }
}

#[test]
fn cli_a_large_file_travels_in_chunks_and_is_saved() {
    let pair = Pair::linked();
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let file = pair.here.dir.path().join("large");
    fs::write(&file, &body).expect("a file");
    let sent = pair.send(&["--file", file.to_str().expect("a path")]);
    let folder = pair.there.dir.path().join("saved");
    let save = ["--save", folder.to_str().expect("a path")];
    let watch = ["watch", "--count", "1", "--json"];
    let taken = pair.there.overlane(watch.iter().chain(&save)).json();
    assert_eq!(taken["digest"], sent["digest"]);
    assert_eq!(taken["body_bytes"], body.len());
    let saved = fs::read(taken["saved"].as_str().expect("a path")).expect("a body");
    assert!(saved == body);
    let too_large = pair.here.dir.path().join("too_large");
    fs::write(&too_large, vec![0; 60_000_001]).expect("a file");
    let to = pair.receiver.did();
    let path = too_large.to_str().expect("a path");
    pair.here
        .overlane(["send", to, "--file", path, "--json"])
        .is_refused(3, "cli/too_large");
    let keep = pair.here.dir.path().join("kept");
    let keep = keep.to_str().expect("a path");
    let path = file.to_str().expect("a path");
    pair.here
        .overlane(["send", to, "--file", path, "--keep", keep, "--json"])
        .is_refused(2, "cli/keep_too_large");
}

/// Whoever asked goes in the middle, and what is not yet in its lane never is. The receiver stands still
/// meanwhile, so that the lane cannot take the message whole.
#[test]
fn cli_an_upload_that_is_left_is_taken_back() {
    let pair = Pair::linked();
    pair.send(&["before"]);
    pair.receiver.running.signal("-STOP");
    let client = Client::of(&Home::at(pair.here.home()));
    let asked = UploadRequest {
        destination: pair.receiver.did().to_owned(),
        namespace: "large".to_owned(),
        class: ClassName::Application,
        plain: false,
        wait_ms: 0,
        receipt_ms: 0,
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let body = vec![7; 8_000_000];
    let steps = client.upload(&asked, &body);
    let mut steps = runtime.block_on(steps).expect("steps");
    let first = runtime.block_on(steps.next()).expect("a step");
    assert!(
        matches!(first, Some(UploadLine::Progress { .. })),
        "{first:?}"
    );
    drop(steps);
    let cancelled = (0..500).any(|_| {
        let metrics = pair.here.overlane(["metrics"]).out;
        metrics.contains("overlane_sends_refused_total{code=\"send/cancelled\"} 1")
    });
    assert!(cancelled, "{}", pair.here.overlane(["status"]).out);
    pair.receiver.running.signal("-CONT");
}

/// Its host says that the killed peer's socket is closed, so it is not waited for as one whose
/// datagrams may only be lost.
#[test]
fn cli_a_killed_peer_is_known_by_its_closed_socket() {
    let mut pair = Pair::linked();
    let mut watch = pair.here.start(["watch", "--events", "--json"]);
    event(&mut watch, "watching");
    // Waits until they are linked.
    pair.send(&["before"]);
    pair.receiver.running.kill();
    let down = event(&mut watch, "link_down");
    assert_eq!(down["peer"], pair.receiver.did());
    let reason = down["reason"].as_str().expect("words");
    assert!(
        reason.contains("its process ended without a word"),
        "{reason}"
    );
}

#[test]
fn cli_what_is_private_is_private_under_any_umask() {
    let place = Place::new();
    let overlane = env!("CARGO_BIN_EXE_overlane");
    let open = format!(
        "umask 0; {overlane} init --listen 127.0.0.1:0 > /dev/null && exec {overlane} run --json"
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &open]).env("OVERLANE_HOME", place.home());
    shell
        .env_remove("OVERLANE_LISTEN")
        .env_remove("OVERLANE_LOG");
    let mut daemon = Running::of(shell);
    assert_eq!(daemon.line()["up"], true);
    for (name, mode) in [
        ("", 0o700),
        ("account.key", 0o600),
        ("overlane.sock", 0o600),
    ] {
        let about = fs::metadata(place.home().join(name)).expect("it is there");
        assert_eq!(about.mode() & 0o777, mode, "{name}");
    }
}

#[test]
fn cli_send_says_why_it_cannot() {
    let place = Place::with_node();
    let daemon = place.daemon();
    let nobody = "0f".repeat(20);
    let send = |args: &[&str]| place.overlane(["send"].iter().chain(args).chain(&["--json"]));
    send(&[&nobody, "hello", "--wait", "0"]).is_refused(5, "send/unreachable");
    send(&[daemon.did(), "hello"]).is_refused(2, "send/to_itself");
    send(&["somebody", "hello"]).is_refused(2, "api/bad_destination");
    send(&[&nobody, "hello", "--namespace", &"n".repeat(65)])
        .is_refused(3, "api/namespace_too_long");
    send(&[&nobody, "--file", "nowhere"]).is_refused(2, "cli/read");
    let kept = place.dir.path().join("kept");
    let keep = kept.to_str().expect("text");
    send(&[&nobody, "hello", "--wait", "0", "--keep", keep]).is_refused(5, "send/unreachable");
    assert!(!kept.exists(), "nothing was signed, nothing is kept");
    fs::write(&kept, "these are no signed bytes").expect("written");
    send(&["--signed", keep]).is_refused(2, "send/not_signed");
    let large = place.dir.path().join("large");
    // Of no bytes on the disk: its length alone is more than a message may be.
    let file = fs::File::create(&large).expect("written");
    file.set_len(60_000_001).expect("a length");
    send(&[&nobody, "--file", large.to_str().expect("text")]).is_refused(3, "cli/too_large");
}

#[test]
fn cli_peers_are_kept_across_restarts_until_dropped() {
    let mut pair = Pair::linked();
    let url = pair.receiver.url().to_owned();
    assert_eq!(pair.sender.running.terminate(), Some(0));
    let stopped = pair.here.overlane(["peer", "list", "--json"]).json();
    assert_eq!(stopped["peers"][0]["url"], url.as_str());
    assert_eq!(stopped["peers"][0]["state"], "stopped");
    pair.sender = pair.here.daemon();
    pair.send(&["hello again"]);
    assert_eq!(pair.take()["text"], "hello again");
    let listed = pair.here.overlane(["peer", "list", "--json"]).json();
    assert_eq!(listed["peers"][0]["state"], "linked");
    assert_eq!(listed["peers"][0]["did"], pair.receiver.up["did"]);
    assert_eq!(listed["peers"][0]["path"], "direct");
    let words = pair.here.overlane(["peer", "list"]).out;
    let way = format!("{}  direct", pair.receiver.did());
    assert!(words.contains(&way), "{words}");

    assert_eq!(pair.here.overlane(["peer", "drop", &url]).code, 0);
    assert_eq!(pair.here.overlane(["peer", "drop", &url]).code, 1);
    assert_eq!(pair.sender.running.terminate(), Some(0));
    let stopped = pair.here.overlane(["peer", "list", "--json"]).json();
    assert_eq!(stopped["peers"], serde_json::json!([]));
    assert_eq!(pair.here.overlane(["peer", "add", &url]).code, 0);
    assert_eq!(pair.here.overlane(["peer", "drop", &url]).code, 0);
    assert_eq!(pair.here.overlane(["peer", "drop", &url]).code, 1);
    pair.here
        .overlane(["peer", "add", "http://nowhere", "--json"])
        .is_refused(2, "api/bad_peer_url");
}

#[test]
fn cli_a_peer_of_another_network_is_told_apart() {
    let (here, there) = (Place::with_node(), Place::new());
    let other = ["init", "--listen", "127.0.0.1:0", "--network", "2"];
    assert_eq!(there.overlane(other).code, 0);
    let (_sender, receiver) = (here.daemon(), there.daemon());
    assert_eq!(here.overlane(["peer", "add", receiver.url()]).code, 0);
    // The dial is under way; its end is the only thing that puts an error here.
    let error = loop {
        let listed = here.overlane(["peer", "list", "--json"]).json();
        if listed["peers"][0]["error"].is_object() {
            break listed["peers"][0]["error"].clone();
        }
    };
    assert_eq!(error["error"], "link/refused_by_peer");
    let message = error["message"].as_str().expect("words");
    assert!(message.contains("network"), "{message}");
    let send = ["send", receiver.did(), "hello", "--wait", "0", "--json"];
    here.overlane(send).is_refused(5, "send/unreachable");
    let status = there.overlane(["status", "--json"]).json();
    let counted = status["offers_refused"]["delegation/wrong_network"].as_u64();
    assert!(counted.is_some_and(|count| count > 0), "{status}");
}

#[test]
fn cli_a_daemon_whose_links_are_well_logs_nothing() {
    let mut pair = Pair::linked();
    pair.send(&["hello"]);
    pair.take();
    for daemon in [&mut pair.sender, &mut pair.receiver] {
        assert_eq!(daemon.running.terminate(), Some(0));
        assert_eq!(daemon.running.log(), "");
    }
}

#[tokio::test]
async fn cli_api_refuses_what_it_does_not_understand() {
    let place = Place::with_node();
    let _daemon = place.daemon();
    let client = Client::of(&Home::at(place.home()));
    let post = async |path: &str, body: Value| {
        let answer = client.call::<Value>(Method::POST, path, &body).await;
        answer.expect_err("refused").code().to_owned()
    };
    let hex = json!({"destination": "0f".repeat(20), "namespace": "", "body": "no"});
    for (path, body, code) in [
        ("/v1/send", json!({"to": "nobody"}), "api/bad_request"),
        ("/v1/send", hex, "api/not_hex"),
        ("/v1/offer_again", json!({"signed": ""}), "send/not_signed"),
        ("/v1/peers", json!({"url": "nowhere"}), "api/bad_peer_url"),
        ("/v1/take", json!({"watch": 1}), "api/not_watching"),
        ("/v1/status", json!({}), "api/no_such_request"),
        ("/elsewhere", json!({}), "api/no_such_request"),
    ] {
        assert_eq!(post(path, body).await, code, "{path}");
    }
    assert!(client.get::<Value>("/v1/status").await.is_ok());
}

#[test]
fn cli_a_torn_record_refuses_its_own_stream_and_is_kept() {
    let mut pair = Pair::of(Place::with_node(), Place::with_store("files"));
    pair.send(&["hello", "--no-hold"]);
    pair.take();
    assert_eq!(pair.receiver.running.terminate(), Some(0));
    let record = the_record_in(&pair.there);
    let whole = fs::read(&record).expect("a record");
    let torn = &whole[..whole.len() / 2];
    fs::write(&record, torn).expect("torn");

    pair.receiver = pair.there.daemon();
    assert_eq!(pair.receiver.up["store"]["unrestorable"], 1);
    pair.link();
    let mut watch = pair.watch();
    pair.send(&["hello again", "--no-hold"]);
    let refused = event(&mut watch, "refused");
    assert_eq!(refused["error"], "replay/stream_unavailable");
    let name = record
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a name");
    assert!(
        refused["message"].as_str().expect("words").contains(name),
        "{refused}"
    );
    pair.send(&["another class, another stream", "--class", "storage"]);
    assert_eq!(event(&mut watch, "admitted")["verdict"], "First");
    assert_eq!(fs::read(&record).expect("still there"), torn);
}

/// The one file of a record in the receiver's store.
fn the_record_in(place: &Place) -> PathBuf {
    let entries = fs::read_dir(place.home().join("replay")).expect("a store");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_record = |path: &PathBuf| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let records: Vec<PathBuf> = paths.filter(is_record).collect();
    assert_eq!(records.len(), 1, "{records:?}");
    records.into_iter().next().expect("one")
}

#[test]
fn cli_demo_tells_every_verdict_as_it_should() {
    let place = Place::new();
    let demo = place.overlane(["demo", "--json"]);
    assert_eq!(demo.code, 0, "{demo:?}");
    let lines: Vec<Value> = demo
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let came: Vec<&str> = lines
        .iter()
        .map(|line| {
            line["verdict"]
                .as_str()
                .or(line["error"].as_str())
                .expect("either")
        })
        .collect();
    let should = [
        "First",
        "Advance",
        "Advance",
        "Replay",
        "First",
        "Fork",
        "Stale",
        "Late",
        "payload/bad_signature",
        "payload/wrong_destination",
        "Fork",
        "Replay",
    ];
    assert_eq!(came, should);
    for line in &lines {
        assert!(
            line["step"].is_string() && line["stream"].is_string(),
            "{line}"
        );
        assert!(line["sequence"].is_u64(), "{line}");
    }
    // The same bytes, before and after the restart: one place in one stream.
    let first = (&lines[0]["stream"], &lines[0]["sequence"]);
    assert_eq!((&lines[3]["stream"], &lines[3]["sequence"]), first);
    assert_eq!((&lines[11]["stream"], &lines[11]["sequence"]), first);
    // The evidence of the fork is both signatures, and what the store keeps is what was told.
    assert_eq!(lines[5]["evidence"]["both_signed"], true);
    assert_eq!(lines[10]["evidence"], lines[5]["evidence"]);
}
