//! `send --receipt` and `receipt verify`.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::fs;

use support::{Pair, Place};

#[test]
fn cli_receipt_comes_with_a_send_and_is_checked_anywhere() {
    let mut pair = Pair::linked();
    let to = pair.receiver.did().to_owned();
    let sent = pair
        .here
        .overlane(["send", &to, "hello", "--receipt=hello.receipt", "--json"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let sent = sent.json();
    assert_eq!(
        (&sent["receipt"]["verdict"], &sent["receipt"]["digest"]),
        (&"First".into(), &sent["digest"])
    );
    let large = pair.here.dir.path().join("large");
    fs::write(&large, vec![7; 300_000]).expect("written");
    let large = pair
        .here
        .overlane(["send", &to, "--file", "large", "--receipt", "--json"]);
    assert_eq!(
        (large.code, &large.json()["receipt"]["verdict"]),
        (0, &"Advance".into()),
        "{large:?}"
    );

    // Elsewhere, with no node and no home.
    let file = pair.here.dir.path().join("hello.receipt");
    let elsewhere = Place::new();
    let verify = |file: &std::path::Path| {
        elsewhere.overlane(["receipt", "verify", file.to_str().expect("text"), "--json"])
    };
    let good = verify(&file);
    assert_eq!(
        (good.code, &good.json()["destination"]),
        (0, &to.as_str().into()),
        "{good:?}"
    );
    assert_eq!(good.json()["sequence"], sent["sequence"]);
    let whole = fs::read(&file).expect("kept");
    let mut changed = whole.clone();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    fs::write(&file, &changed).expect("written");
    verify(&file).is_refused(1, "statement/bad_signature");
    fs::write(&file, &whole[..last]).expect("written");
    verify(&file).is_refused(1, "receipt/form");

    // Who is not there signs nothing.
    assert_eq!(pair.receiver.running.terminate(), Some(0));
    let none = pair
        .here
        .overlane(["send", &to, "hello", "--receipt", "--wait", "1", "--json"]);
    assert_ne!(none.code, 0, "{none:?}");
}
