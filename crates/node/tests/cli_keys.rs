//! `key …`: a key at rest, its copies, and a delegatee that is rotated under load.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use support::{Pair, Place};

/// A file for its owner alone.
fn secret(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a mode");
}

#[test]
fn cli_key_sealed_at_rest_opens_with_its_lock_alone() {
    let place = Place::with_node();
    let did = place.overlane(["id", "--json"]).json()["did"].clone();
    let write = |name: &str, bytes: &[u8]| {
        secret(&place.dir.path().join(name), bytes);
    };
    write("secret.txt", b"correct horse\nbattery\n");
    write("other.txt", b"correct horsf\n");
    write("short.txt", b"horse\n");
    write("key.bin", &[5; 32]);
    let run = |args: &[&str]| place.overlane(["run", "--json"].iter().chain(args));

    place
        .overlane(["key", "seal", "--passphrase-file", "short.txt", "--json"])
        .is_refused(2, "home/key_weak_lock");
    // What others may read protects nothing; a group that may only read is a service manager's.
    for (file, option) in [
        ("secret.txt", "--passphrase-file"),
        ("key.bin", "--key-file"),
    ] {
        let path = place.dir.path().join(file);
        let export = ["key", "export", "copy", option, file, "--json"];
        for mode in [0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            place.overlane(export).is_refused(2, "key/secret_mode");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
    }
    fs::set_permissions(
        place.dir.path().join("secret.txt"),
        fs::Permissions::from_mode(0o440),
    )
    .expect("a mode");
    let sealed = place.overlane(["key", "seal", "--passphrase-file", "secret.txt", "--json"]);
    assert_eq!(sealed.code, 0, "{sealed:?}");
    // A doctor says what opens it, and what does not.
    let unlock = |place: &Place| {
        let doctor = place.overlane(["doctor", "--json"]);
        let steps = doctor.out.lines();
        let steps = steps.map(|it| serde_json::from_str::<serde_json::Value>(it).expect("a step"));
        let mut steps = steps.filter(|it| it["step"] == "unlock");
        steps.next().expect("the step")["finding"].clone()
    };
    assert_eq!(unlock(&place), "warning");
    let file = fs::metadata(place.home().join("account.key")).expect("there");
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    // Who this is needs no passphrase.
    assert_eq!(place.overlane(["id", "--json"]).json()["did"], did);
    let show = place.overlane(["key", "show", "--json"]).json();
    assert_eq!(show["sealed_under"], "a passphrase");
    run(&[]).is_refused(2, "home/key_locked");
    run(&["--set", "key.passphrase_file=other.txt"]).is_refused(2, "home/key_wrong_lock");
    run(&["--set", "key.file=key.bin"]).is_refused(2, "home/key_locked");
    let mut running = place.start(["run", "--set", "key.passphrase_file=secret.txt", "--json"]);
    assert_eq!(running.line()["did"], did);
    assert_eq!(running.terminate(), Some(0));

    // Another lock takes the one that is there, as its environment says.
    let mut again = place.command(["key", "seal", "--key-file", "key.bin", "--json"]);
    let again = again.env("OVERLANE_KEY_PASSPHRASE_FILE", "secret.txt");
    let again = again.output().expect("a process");
    assert!(again.status.success(), "{again:?}");
    run(&["--set", "key.passphrase_file=secret.txt"]).is_refused(2, "home/key_locked");

    // A copy, in another home.
    let mut export = place.command(["key", "export", "copy", "--passphrase-file", "secret.txt"]);
    export.env("OVERLANE_KEY_FILE", "key.bin");
    let exported = export.output().expect("a process");
    assert!(exported.status.success(), "{exported:?}");
    let over = export.output().expect("a process");
    assert_eq!(over.status.code(), Some(2), "no file is written over");
    let words = String::from_utf8_lossy(&over.stderr);
    assert!(words.contains("home/key_there"), "{words}");
    place
        .overlane(["key", "export", "bare", "--json"])
        .is_refused(2, "cli/export_lock");
    let home = place.dir.path().join("elsewhere");
    let home = home.to_str().expect("text");
    let import = |secret: &str| {
        let args = [
            "--home",
            home,
            "key",
            "import",
            "copy",
            "--passphrase-file",
            secret,
            "--json",
        ];
        place.overlane(args)
    };
    import("other.txt").is_refused(2, "home/key_wrong_lock");
    let imported = import("secret.txt");
    assert_eq!(
        (imported.code, &imported.json()["did"]),
        (0, &did),
        "{imported:?}"
    );
    import("secret.txt").is_refused(2, "home/already_initialised");
}

#[test]
fn cli_key_rotation_needs_no_restart_and_breaks_no_stream() {
    let pair = Pair::linked();
    let mut delegatees = Vec::new();
    let mut sequences = Vec::new();
    let mut send = |text: &str| {
        sequences.push(pair.send(&[text])["sequence"].as_u64().expect("a number"));
        let taken = pair.take();
        assert_eq!(taken["text"], text);
        taken["verdict"].clone()
    };
    assert_eq!(send("first"), "First");
    for round in 0..3 {
        let rotated = pair.here.overlane(["key", "rotate", "--json"]);
        assert_eq!(rotated.code, 0, "{rotated:?}");
        delegatees.push(rotated.json()["delegatee"].clone());
        assert_eq!(send(&format!("after {round}")), "Advance");
    }
    assert!(
        sequences.windows(2).all(|two| two[0] + 1 == two[1]),
        "{sequences:?}"
    );
    assert!(
        delegatees.windows(2).all(|two| two[0] != two[1]),
        "{delegatees:?}"
    );
    // The link was there all the time.
    let status = pair.there.overlane(["status", "--json"]).json();
    assert_eq!(status["links"].as_array().map(Vec::len), Some(1));
    assert_eq!(status["refused"], serde_json::json!({}));
}

#[test]
fn cli_key_delegate_lets_a_node_sign_whose_account_is_kept_elsewhere() {
    let (account, node, peer) = (Place::new(), Place::new(), Place::with_node());
    let made = account.overlane(["init", "--kind", "secp256k1", "--json"]);
    assert_eq!(made.code, 0, "{made:?}");
    let (did, key) = (made.json()["did"].clone(), made.json()["did_key"].clone());
    let key = key.as_str().expect("a key");
    let edwards = peer.overlane(["id", "--json"]).json()["did_key"].clone();
    let edwards = edwards.as_str().expect("a key");
    node.overlane(["init", "--delegated-by", edwards, "--json"])
        .is_refused(2, "home/account_kind");
    let init = [
        "init",
        "--delegated-by",
        key,
        "--listen",
        "127.0.0.1:0",
        "--json",
    ];
    assert_eq!(node.overlane(init).json()["did"], did);
    node.overlane(init)
        .is_refused(2, "home/already_initialised");
    node.overlane(["run", "--json"])
        .is_refused(2, "home/not_delegated");

    // What is asked for is granted as it is or not at all, by the account alone, and is for this home alone.
    let asked = node.overlane(["key", "request", "--days", "14", "--json"]);
    assert_eq!(asked.code, 0, "{asked:?}");
    let request = asked.json()["request"].clone();
    let request = request.as_str().expect("a request");
    let delegate = |place: &Place, days: &str| {
        place.overlane(["key", "delegate", request, "--days", days, "--json"])
    };
    delegate(&account, "13").is_refused(3, "key/too_long");
    delegate(&peer, "14").is_refused(2, "home/account_kind");
    delegate(&node, "14").is_refused(2, "home/delegated");
    account
        .overlane(["key", "delegate", &request[1..], "--json"])
        .is_refused(2, "delegation/malformed");
    let granted = delegate(&account, "14");
    assert_eq!(granted.code, 0, "{granted:?}");
    let word = granted.json()["delegation"].clone();
    let word = word.as_str().expect("a delegation");
    peer.overlane(["key", "accept", word, "--json"])
        .is_refused(2, "home/own_account");
    let other = Place::new();
    assert_eq!(other.overlane(init).code, 0);
    other
        .overlane(["key", "accept", word, "--json"])
        .is_refused(2, "home/not_asked_for");
    let accepted = node.overlane(["key", "accept", word, "--json"]);
    assert_eq!(accepted.code, 0, "{accepted:?}");
    assert_eq!(accepted.json()["account"], key);
    node.overlane(["key", "export", "copy", "--open", "--json"])
        .is_refused(2, "home/delegated");

    // At rest as an account's key is.
    secret(&node.dir.path().join("key.bin"), &[5; 32]);
    let sealed = node.overlane(["key", "seal", "--key-file", "key.bin", "--json"]);
    assert_eq!(sealed.code, 0, "{sealed:?}");
    node.overlane(["run", "--json"])
        .is_refused(2, "home/key_locked");
    let mut running = node.start(["run", "--set", "key.file=key.bin", "--json"]);
    assert_eq!(running.line()["did"], did);
    node.overlane(["key", "rotate", "--json"])
        .is_refused(2, "node/delegated");
    let status = node.overlane(["status", "--json"]).json();
    assert_eq!(status["delegation_ends_ms"], accepted.json()["ends_ms"]);

    // It is the account, to others: what is sealed to it opens, and what it signs counts.
    let daemon = peer.daemon();
    let linked = node.overlane(["peer", "add", daemon.url(), "--json"]);
    assert_eq!(linked.code, 0, "{linked:?}");
    let did = did.as_str().expect("a Did");
    let exchange = |from: &Place, to: &Place, did: &str| {
        let sent = (0..500).find_map(|_| {
            // Until both are in the ring, by which the key that is sealed to is asked for.
            let sent = from.overlane(["send", did, "hello", "--no-hold", "--json"]);
            (sent.code == 0).then_some(())
        });
        assert!(sent.is_some(), "a message is sent");
        let taken = to.overlane(["watch", "--count", "1", "--json"]).json();
        assert_eq!(
            (&taken["text"], &taken["sealed"]),
            (&"hello".into(), &true.into())
        );
        taken["origin"].clone()
    };
    exchange(&peer, &node, did);
    assert_eq!(exchange(&node, &peer, daemon.did()), did);

    // Asked again while it runs, it signs with the new word at once, and no link or stream notices.
    let asked = node
        .command(["key", "request", "--days", "2", "--json"])
        .env("OVERLANE_KEY_FILE", "key.bin")
        .output();
    let asked: serde_json::Value =
        serde_json::from_slice(&asked.expect("it runs").stdout).expect("an object");
    let request = asked["request"].as_str().expect("a request");
    let granted = account.overlane(["key", "delegate", request, "--days", "2", "--json"]);
    let word = granted.json()["delegation"].clone();
    let word = word.as_str().expect("a delegation");
    let links = |place: &Place| place.overlane(["status", "--json"]).json()["links"].clone();
    let before = links(&peer)[0]["link"].clone();
    let accepted = node
        .command(["key", "accept", word, "--json"])
        .env("OVERLANE_KEY_FILE", "key.bin")
        .output();
    let accepted: serde_json::Value =
        serde_json::from_slice(&accepted.expect("it runs").stdout).expect("an object");
    assert_eq!(accepted["live"], true, "{accepted}");
    let status = node.overlane(["status", "--json"]).json();
    assert_eq!(status["delegation_ends_ms"], accepted["ends_ms"]);
    exchange(&node, &peer, daemon.did());
    assert_eq!(links(&peer)[0]["link"], before);
    // Two days are soon: a doctor says so, and what to type.
    let doctor = node.overlane(["doctor", "--json"]);
    let mut steps = doctor
        .out
        .lines()
        .map(|it| serde_json::from_str(it).expect("a step"));
    let ends = steps.rfind(|it: &serde_json::Value| it["step"] == "delegation");
    let ends = ends.expect("the step");
    assert_eq!(ends["finding"], "warning", "{ends}");
    assert!(
        ends["next"]
            .as_str()
            .is_some_and(|it| it.contains("key request")),
        "{ends}"
    );
    assert_eq!(running.terminate(), Some(0));
}
