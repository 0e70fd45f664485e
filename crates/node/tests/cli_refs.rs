//! Files by reference, between real daemons on loopback: shared, fetched, taken back, over restarts
//! and kills of either.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod support;

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use overlane_node::api::{Client, FetchLine, FetchRequest};
use overlane_node::home::Home;
use serde_json::Value;
use support::{Answer, Place};

/// A home whose node listens at the same address in every life.
fn place() -> Place {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("its address").to_string();
    drop(free);
    let place = Place::new();
    let made = place.overlane(["init", "--listen", &address]);
    assert_eq!(made.code, 0, "{made:?}");
    place
}

/// Bytes that no part of equals another.
fn bytes(size: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"a file");
    let mut bytes = vec![0; size];
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

fn shared(place: &Place, name: &str, bytes: &[u8]) -> Value {
    let file = place.dir.path().join(name);
    fs::write(&file, bytes).expect("written");
    let shared = place.overlane(["share", name, "--json"]);
    assert_eq!(shared.code, 0, "{shared:?}");
    shared.json()
}

fn fetch(place: &Place, shared: &Value, to: &str) -> Answer {
    let ticket = shared["ticket"].as_str().expect("a ticket");
    place.overlane(["fetch", ticket, "-o", to, "--json"])
}

fn show(place: &Place, number: u64) -> Value {
    let shown = place.overlane(["ref", "show", &number.to_string(), "--json"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    shown.json()
}

fn leftovers(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.dir.path()).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|it| it == "part"))
        .collect()
}

#[test]
fn cli_a_file_is_shared_fetched_and_taken_back_with_a_restart_of_each_node_between() {
    let (ann, ben) = (place(), place());
    let (mut at_ann, mut at_ben) = (ann.daemon(), ben.daemon());
    let file = bytes(300_000);
    let shared = shared(&ann, "notes.bin", &file);
    let number = shared["number"].as_u64().expect("a number");
    assert_eq!(at_ann.running.terminate(), Some(0));
    let mut at_ann = ann.daemon();

    let fetched = fetch(&ben, &shared, "mine.bin");
    assert_eq!(fetched.code, 0, "{fetched:?}");
    assert_eq!(fetched.json()["from"], at_ann.up["did"]);
    assert_eq!(fetched.json()["hash"], shared["hash"]);
    assert_eq!(
        fs::read(ben.dir.path().join("mine.bin")).expect("a file"),
        file
    );
    assert_eq!(leftovers(&ben), Vec::<PathBuf>::new());
    let kept = fetched.json()["number"].as_u64().expect("a number");
    assert_eq!(show(&ann, number)["holders"][0], at_ben.up["did"]);
    assert_eq!(show(&ben, kept)["state"], "live");

    // Ben is away when ann takes it back; she is started again before he is.
    assert_eq!(at_ben.running.terminate(), Some(0));
    let number = number.to_string();
    let held = ann.overlane(["ref", "drop", &number, "--json"]);
    held.is_refused(3, "refs/held_elsewhere");
    let revoked = ann.overlane([
        "ref",
        "revoke",
        &number,
        "--reason",
        "plan expired",
        "--json",
    ]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    assert_eq!(revoked.json()["state"], "revoked");
    let again = ann.overlane(["ref", "revoke", &number, "--reason", "again", "--json"]);
    again.is_refused(2, "refs/already_revoked");
    assert_eq!(at_ann.running.terminate(), Some(0));
    let back_at_ann = ann.daemon();
    let at_ben = ben.daemon();
    let added = ben.overlane(["peer", "add", back_at_ann.url(), "--json"]);
    assert_eq!(added.code, 0, "{added:?}");

    // Whether he has heard of it already or asks, he is told why.
    let refused = fetch(&ben, &shared, "again.bin");
    let refusal = refused.is_refused(1, "refs/revoked");
    assert!(
        refusal["message"]
            .as_str()
            .expect("words")
            .contains("plan expired")
    );
    let known = show(&ben, kept);
    assert_eq!(known["state"], "revoked");
    assert_eq!(known["reason"]["text"], "plan expired");
    let words = ben.overlane(["ref", "list"]);
    assert!(words.out.contains("plan expired"), "{words:?}");
    // And so is one who comes later.
    let eve = place();
    let at_eve = eve.daemon();
    let refused = fetch(&eve, &shared, "late.bin");
    let refusal = refused.is_refused(1, "refs/revoked");
    assert!(
        refusal["message"]
            .as_str()
            .expect("words")
            .contains("plan expired")
    );

    let kept = kept.to_string();
    let dropped = ben.overlane(["ref", "drop", &kept, "--json"]);
    assert_eq!(dropped.code, 0, "{dropped:?}");
    let gone = ben.overlane(["ref", "show", &kept, "--json"]);
    gone.is_refused(2, "refs/not_kept");
    drop((back_at_ann, at_ben, at_eve));
}

#[test]
fn cli_a_fetch_waits_for_a_node_that_is_killed_and_goes_on_where_it_was() {
    let (ann, ben) = (place(), place());
    let (mut at_ann, mut at_ben) = (ann.daemon(), ben.daemon());
    let file = bytes(3_000_000);
    let shared = shared(&ann, "large.bin", &file);
    // She dials him, so that a restart links them again at once.
    let added = ann.overlane(["peer", "add", at_ben.url(), "--json"]);
    assert_eq!(added.code, 0, "{added:?}");
    let ticket = shared["ticket"].as_str().expect("a ticket").to_owned();

    // Ann is killed in the middle of it: calls are open on both sides, answers on their way. The
    // same fetch goes on when she is back.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = Client::of(&Home::at(ben.home()));
    let asked = FetchRequest {
        ticket,
        from: Some(0),
    };
    let mut come = Vec::new();
    let mut lines = runtime
        .block_on(client.call_lines("/v1/fetch", &asked))
        .expect("lines");
    loop {
        match runtime.block_on(lines.next()).expect("a line") {
            Some(FetchLine::File { .. }) => {}
            Some(FetchLine::Part { at, bytes }) => {
                assert_eq!(at as usize, come.len(), "in order, none twice");
                come.extend(hex::decode(bytes).expect("bytes"));
                if at == 10 * 61_440 || at == 25 * 61_440 {
                    at_ann.running.kill();
                    at_ann = ann.daemon();
                }
            }
            Some(FetchLine::End) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(come == file, "whole, and the same");

    // Ben is killed in the middle: his command ends, and the next one goes on from what is here.
    let place = ben.dir.path().join("mine.bin");
    let hash = shared["hash"].as_str().expect("a hash");
    let part = ben
        .dir
        .path()
        .join(format!("mine.bin.{}.part", &hash[..16]));
    fs::write(&part, &file[..1_000_000]).expect("what an earlier try left");
    at_ben.running.kill();
    let at_ben = ben.daemon();
    let fetched = fetch(&ben, &shared, "mine.bin");
    assert_eq!(fetched.code, 0, "{fetched:?}");
    assert_eq!(fetched.json()["resumed_at"], 1_000_000);
    assert!(fs::read(&place).expect("a file") == file);
    assert!(!part.exists());
    drop((at_ann, at_ben));
}

#[test]
fn cli_what_is_not_the_file_is_not_kept_and_what_is_there_is_not_written_over() {
    let (ann, ben) = (place(), place());
    let _both = (ann.daemon(), ben.daemon());
    let file = bytes(100_000);
    let shared = shared(&ann, "notes.bin", &file);
    fs::write(ben.dir.path().join("there.bin"), "mine").expect("written");
    fetch(&ben, &shared, "there.bin").is_refused(2, "share/exists");

    // An earlier try left bytes that are not the file's: found out at the end, and thrown away.
    let hash = shared["hash"].as_str().expect("a hash");
    let part = ben.dir.path().join(format!("bad.bin.{}.part", &hash[..16]));
    fs::write(&part, vec![0; 5_000]).expect("written");
    fetch(&ben, &shared, "bad.bin").is_refused(1, "share/wrong_hash");
    assert!(!part.exists() && !ben.dir.path().join("bad.bin").exists());
    assert_eq!(
        fetch(&ben, &shared, "bad.bin").code,
        0,
        "the next one is right"
    );

    // The file is changed at its owner: it is refused, where it is stays there.
    fs::write(ann.dir.path().join("notes.bin"), "other").expect("written");
    let refused = fetch(&ben, &shared, "changed.bin").is_refused(1, "refs/refused");
    let words = refused["message"].as_str().expect("words");
    assert!(
        words.contains("changed") && !words.contains("notes.bin"),
        "{words}"
    );
}

#[test]
fn cli_references_say_what_is_wrong() {
    let place = place();
    place
        .overlane(["ref", "list", "--json"])
        .is_refused(5, "api/not_running");
    let daemon = place.daemon();
    assert_eq!(place.overlane(["ref", "list"]).code, 0);
    place
        .overlane(["share", "nothing.txt", "--json"])
        .is_refused(2, "share/unreadable");
    place
        .overlane(["share", ".", "--json"])
        .is_refused(2, "share/no_file");
    place
        .overlane(["fetch", "ref:00", "--json"])
        .is_refused(2, "refs/bad_ticket");
    place
        .overlane(["ref", "drop", "7", "--json"])
        .is_refused(2, "refs/not_kept");
    // One's own ticket, and one whose node is gone.
    let own = shared(&place, "own.txt", b"own");
    fetch(&place, &own, "out.txt").is_refused(2, "refs/to_itself");
    let number = own["number"].as_u64().expect("a number").to_string();
    let other = self::place();
    let mut at_other = other.daemon();
    let gone = shared(&other, "gone.txt", b"gone");
    assert_eq!(at_other.running.terminate(), Some(0));
    assert_eq!(fetch(&place, &gone, "out.txt").code, 5);
    // What nobody holds is dropped, and its ticket leads nowhere.
    let dropped = place.overlane(["ref", "drop", &number, "--json"]);
    assert_eq!(dropped.code, 0, "{dropped:?}");
    let back = other.daemon();
    fetch(&other, &own, "out.txt").is_refused(1, "refs/unknown_ticket");
    // Nobody else speaks in the node's own name.
    let reserved = [
        "send",
        back.did(),
        "x",
        "--namespace",
        "overlane/refs",
        "--json",
    ];
    place
        .overlane(reserved)
        .is_refused(2, "send/reserved_namespace");
    drop((daemon, back));
}
