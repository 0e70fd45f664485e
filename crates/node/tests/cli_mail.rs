//! `send` to one who is away, `inbox list | take | probe` and `doctor mail`: real processes on loopback.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod mail_node;
mod support;

use mail_node::{Node, ring_of};
use serde_json::{Value, json};
use support::{Answer, Place};
use tokio::task::block_in_place;

/// Mails that these nodes keep for one account.
const MAILS_KEPT: u64 = 2;

/// Nobody's.
const NOBODY: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

fn run(node: &Node, args: &[&str]) -> Answer {
    block_in_place(|| node.place.overlane(args))
}

/// What a command that went well says.
#[track_caller]
fn words(node: &Node, args: &[&str]) -> String {
    let answer = run(node, args);
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.out
}

#[track_caller]
fn says(node: &Node, args: &[&str]) -> Value {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let answer = run(node, &args);
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn cli_mail_is_held_taken_and_its_end_told_with_codes_and_words() {
    let mut nodes = ring_of(3, MAILS_KEPT).await;
    let (mut third, mut receiver) = (nodes.remove(2), nodes.remove(1));
    let mut sender = nodes.remove(0);
    let (to, from) = (receiver.did.clone(), sender.did.clone());
    // The sender is started again below, and listens elsewhere then.
    for node in [&sender, &receiver] {
        says(node, &["peer", "add", &third.url()]);
    }
    let to = to.as_str();

    // To one who is there.
    let sent = words(&sender, &["send", to, "to you"]);
    assert!(
        sent.ends_with("delivered: its destination has admitted it\n"),
        "{sent}"
    );
    let sent = says(&sender, &["send", to, "to you too"]);
    assert_eq!(sent["arrived"], json!({"state": "delivered"}));
    let sent = says(&sender, &["send", to, "its link is enough", "--no-hold"]);
    assert_eq!(
        (&sent["arrived"], &sent["outcome"]["kind"]),
        (&Value::Null, &json!("placed"))
    );

    // To one whose key nobody tells.
    let sent = run(&sender, &["send", NOBODY, "hello", "--json"]);
    let refusal = sent.is_refused(5, "seal/no_key");
    let why = refusal["message"].as_str().expect("words");
    assert!(why.contains("did:key"), "{why}");

    // To one who is away: only what is sealed, small enough and not kept from it is held.
    receiver.stop();
    sender
        .until(|seen| seen.holders == [third.did.clone()])
        .await;
    third.until(|seen| seen.holders == [from.clone()]).await;
    let large = "x".repeat(40_000);
    for args in [
        &["send", to, "now or never", "--no-hold", "--json"][..],
        &["send", to, "in the open", "--plain", "--json"],
        &["send", to, &large, "--json"],
    ] {
        run(&sender, args).is_refused(5, "route/destination_unreachable");
    }
    let sent = words(&sender, &["send", to, "letter one"]);
    let (_, held) = sent
        .split_once("\nheld: its destination does not answer\n")
        .expect("held");
    assert_eq!(held.lines().count(), 2, "{held}");
    for by in ["this node", &third.did] {
        let mut lines = held.lines();
        let line = lines.find(|line| line.starts_with(&format!("  by {by} until ")));
        assert!(line.is_some_and(|line| line.ends_with(" GMT")), "{held}");
    }
    let sent = says(&sender, &["send", to, "letter two"]);
    assert_eq!(sent["arrived"]["state"], "held");
    let by = sent["arrived"]["by"].as_array().expect("holders");
    assert!(
        by.iter()
            .all(|it| it["until_ms"].is_u64() && it["did"].is_string())
    );
    // One more than is kept.
    let refused = run(&sender, &["send", to, "letter three", "--json"]);
    let refusal = refused.is_refused(5, "inbox/not_held");
    let why = refusal["message"].as_str().expect("words");
    assert!(
        why.contains(&format!("{} says log/share_full", third.did)),
        "{why}"
    );
    let refused = run(&sender, &["send", to, "letter three"]);
    assert_eq!((refused.code, refused.out.as_str()), (5, ""));
    assert!(
        refused.err.contains("\ncode:  inbox/not_held\n"),
        "{refused:?}"
    );

    // What others hold is known to a sender that was started again.
    sender.stop();
    sender.start().await;
    let digest = sent["digest"].as_str().expect("a digest");
    let list = says(&sender, &["inbox", "list"]);
    let held = list["held"].as_array().expect("a list").iter();
    let held: Vec<&Value> = held.filter(|it| it["digest"] == digest).collect();
    assert_eq!(
        (held.len(), list["held"].as_array().map(Vec::len)),
        (1, Some(2))
    );
    assert_eq!(
        (&held[0]["destination"], &list["ended"]),
        (&json!(to), &json!([]))
    );
    let list = words(&sender, &["inbox", "list"]);
    assert!(
        list.contains(&format!("held for {to}: {digest} by ")),
        "{list}"
    );
    let list = words(&third, &["inbox", "list"]);
    assert!(
        list.ends_with(&format!("holds 2 mails for {to}\n")),
        "{list}"
    );

    // It is back: its mail waits, and is taken.
    receiver.start().await;
    let first = words(&receiver, &["inbox", "take", "--wait", "120"]);
    assert!(
        first.starts_with(&format!("{from} ")) && first.contains("letter "),
        "{first}"
    );
    let second = says(
        &receiver,
        &["inbox", "take", "--count", "1", "--wait", "120"],
    );
    assert_eq!(
        (&second["origin"], &second["sealed"]),
        (&json!(from), &json!(true))
    );
    let text = second["text"].as_str().expect("text");
    assert!(
        text.starts_with("letter ") && !first.contains(text),
        "{text}"
    );
    for (args, out) in [
        (&["inbox", "take"][..], "no mail waits\n"),
        (&["inbox", "take", "--all"], "no mail waits\n"),
        (&["inbox", "take", "--json"], "{}\n"),
    ] {
        let none = run(&receiver, args);
        assert_eq!((none.code, none.out.as_str()), (1, out));
    }
    let taken = run(&receiver, &["inbox", "take", digest, "--json"]);
    taken.is_refused(2, "inbox/not_waiting");
    let odd = run(&receiver, &["inbox", "take", "odd", "--json"]);
    odd.is_refused(2, "api/bad_digest");

    // Its sender hears of it, and those who held it hold it no more.
    sender.until(|seen| seen.ended.len() == 2).await;
    third.holds(to, 0).await;
    let list = says(&sender, &["inbox", "list"]);
    assert_eq!(list["held"], json!([]));
    let ended = list["ended"].as_array().expect("a list");
    assert!(
        ended
            .iter()
            .all(|it| it["outcome"] == "taken" && it["at_ms"].is_u64()),
        "{list}"
    );
    let list = words(&sender, &["inbox", "list"]);
    assert!(
        list.contains(&format!("taken by {to}: {digest}, says ")),
        "{list}"
    );
    assert!(!list.contains("held for"), "{list}");

    // The whole way of a mail, tried.
    for node in [&mut sender, &mut receiver, &mut third] {
        node.until(|seen| seen.holders.len() == 2).await;
    }
    // Once: what is taken is let go of a moment later, and these holders keep two.
    sender.holds(to, 0).await;
    let probed = words(&receiver, &["inbox", "probe"]);
    assert_eq!(probed.lines().count(), 2, "{probed}");
    for line in probed.lines() {
        let taken = line.contains("  stored a sealed item, and it was taken, in ");
        assert!(taken, "{line}");
    }
    receiver.stop();
    for args in [
        ["inbox", "list", "--json"],
        ["inbox", "take", "--json"],
        ["inbox", "probe", "--json"],
    ] {
        run(&receiver, &args).is_refused(5, "api/not_running");
    }
    let doctor = run(&receiver, &["doctor", "mail", "--json"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
}

#[test]
fn cli_inbox_of_one_that_is_alone_says_that_its_holders_are_not_known() {
    let place = Place::with_node();
    let _daemon = place.daemon();
    let list = place.overlane(["inbox", "list"]);
    assert_eq!(list.code, 0, "{list:?}");
    assert!(
        list.out
            .starts_with("no mail waits\nit is not known yet who holds mail for this node"),
        "{list:?}"
    );
    let probe = place.overlane(["inbox", "probe", "--json"]);
    assert_eq!((probe.code, probe.json()), (1, json!({"holders": []})));
    for args in [
        &["inbox", "take", "--count", "0"][..],
        &["inbox", "take", "--all", "--count", "2"],
        &["inbox", "take", "--wait", "86401"],
    ] {
        assert_eq!(place.overlane(args).code, 2, "{args:?}");
    }
}

/// What a newcomer with two computers meets first.
#[tokio::test(flavor = "multi_thread")]
async fn cli_mail_of_two_nodes_alone_is_held_by_its_sender_until_the_other_is_back() {
    let mut nodes = ring_of(2, MAILS_KEPT).await;
    let (mut receiver, mut sender) = (nodes.remove(1), nodes.remove(0));
    let to = receiver.did_key.clone();
    let did = receiver.did.clone();
    receiver.stop();
    sender.until(|seen| seen.holders.is_empty()).await;
    let sent = words(&sender, &["send", &to, "letter one", "--wait", "0"]);
    let held = sent.lines().nth(2).expect("where it is");
    assert!(
        held.starts_with("held here until ") && held.contains(" GMT: "),
        "{sent}"
    );
    assert!(sent.ends_with("keep it running\n"), "{sent}");
    let sent = says(&sender, &["send", &did, "letter two", "--wait", "0"]);
    assert_eq!(sent["arrived"]["state"], "held");
    let by = sent["arrived"]["by"].as_array().expect("holders");
    assert_eq!((by.len(), &by[0]["here"]), (1, &json!(true)));
    assert_eq!(by[0]["did"], json!(sender.did));
    let list = words(&sender, &["inbox", "list"]);
    assert!(list.contains(" here alone until "), "{list}");
    for args in [
        &[
            "send",
            &did,
            "now or never",
            "--no-hold",
            "--wait",
            "0",
            "--json",
        ][..],
        &[
            "send",
            &did,
            "in the open",
            "--plain",
            "--wait",
            "0",
            "--json",
        ],
    ] {
        run(&sender, args).is_refused(5, "send/unreachable");
    }
    // It outlives both.
    sender.stop();
    sender.start().await;
    receiver.start().await;
    let added = receiver
        .place
        .overlane(["peer", "add", &sender.url(), "--json"]);
    assert_eq!(added.code, 0, "{added:?}");
    for _ in 0..2 {
        let letter = words(&receiver, &["inbox", "take", "--wait", "120"]);
        assert!(letter.starts_with(&format!("{} ", sender.did)), "{letter}");
    }
    sender.until(|seen| seen.ended.len() == 2).await;
    sender.holds(&did, 0).await;
    // It was told to stay linked to nobody, and listens elsewhere now: it finds the other one where it was.
    sender.stop();
    sender.start().await;
    sender.until(|seen| seen.holders == [did.clone()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cli_mail_that_made_room_is_told_to_its_sender_as_evicted() {
    let mut nodes = ring_of(4, MAILS_KEPT).await;
    let url = nodes[3].url();
    for node in &nodes[..3] {
        says(node, &["peer", "add", &url]);
    }
    let (mut receiver, mut sender) = (nodes.remove(2), nodes.remove(0));
    let (to, other) = (receiver.did.clone(), &nodes[0]);
    receiver.stop();
    let is_gone = |seen: &mail_node::Seen| seen.holders.len() == 2 && !seen.holders.contains(&to);
    sender.until(is_gone).await;
    for text in ["letter one", "letter two"] {
        let sent = says(&sender, &["send", &to, text]);
        assert_eq!(sent["arrived"]["state"], "held", "{sent}");
    }
    says(other, &["send", &to, "of another"]);
    sender.until(|seen| seen.ended.len() == 1).await;
    let list = words(&sender, &["inbox", "list"]);
    let end = list.lines().find(|line| line.starts_with("evicted: "));
    let end = end.unwrap_or_else(|| panic!("{list}"));
    assert!(
        end.contains(&format!(" for {to} made room for mail of others, says "))
            && end.ends_with("; send it again"),
        "{list}"
    );
    assert_eq!(list.matches("held for ").count(), 1, "{list}");
}
