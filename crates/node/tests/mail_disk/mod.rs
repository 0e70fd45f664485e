//! A holder whose whole home lies on a disk that is full.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::mail_node::{Node, ring_with};
use crate::support::{Answer, Place};

/// What the records, the databases and some mail take, and little more.
const DISK: &str = "40m";

/// Mails that these nodes keep for one account.
const MAILS_KEPT: u64 = 256;

/// Letters that are sent to a disk that is full until one is not held: more than a database has room for inside.
const LETTERS_MAX: usize = 200;

/// A small disk: a file system in memory, in a mount namespace that a process keeps.
struct Disk {
    keeper: Child,
    root: PathBuf,
    /// Where it was mounted, empty outside the namespace, and where its name is.
    _folders: [TempDir; 2],
}

impl Disk {
    /// None where nobody may make one.
    fn small() -> Option<Self> {
        let at = tempfile::tempdir().expect("a folder");
        let mut unshare = Command::new("unshare");
        let script = "mount -t tmpfs -o mode=700,size=\"$1\" tmpfs \"$0\" && echo up && exec cat";
        unshare.args(["-Urm", "sh", "-c", script]).arg(at.path());
        unshare.arg(DISK).stdin(Stdio::piped());
        unshare.stdout(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut keeper) = unshare.spawn() else {
            println!("skipped: there is no unshare, and so no small disk");
            return None;
        };
        let mut said = String::new();
        let out = keeper.stdout.take().expect("its output");
        let _ = BufReader::new(out).read_line(&mut said);
        if said.trim() != "up" {
            let mut why = String::new();
            let _ = keeper
                .stderr
                .take()
                .map(|mut it| it.read_to_string(&mut why));
            let _ = keeper.wait();
            println!(
                "skipped: no permission to make a small disk ({})",
                why.trim()
            );
            return None;
        }
        // By a name of its own, as a node flushes the folders above its home.
        let name = tempfile::tempdir().expect("a folder");
        let root = name.path().join("disk");
        let seen = format!("/proc/{}/root{}", keeper.id(), at.path().display());
        symlink(seen, &root).expect("a link");
        Some(Self {
            keeper,
            root,
            _folders: [at, name],
        })
    }

    /// Takes all room that is left; the file that has it.
    fn fill(&self) -> PathBuf {
        let path = self.root.join("ballast");
        let mut file = File::create(&path).expect("a file");
        for bytes in [1 << 20, 1 << 12, 1] {
            let error = loop {
                if let Err(error) = file.write_all(&vec![7; bytes]) {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

fn run(node: &Node, args: &[&str]) -> Answer {
    block_in_place(|| node.place.overlane(args))
}

/// Sends a letter to one who is away; whether that node is among those that say they hold it.
fn letter(from: &Node, to: &str, text: &str, holder: &Node) -> bool {
    let sent = run(from, &["send", to, text, "--json"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let arrived = &sent.json()["arrived"];
    assert_eq!(arrived["state"], "held", "{arrived}");
    let by = arrived["by"].as_array().expect("holders");
    by.iter().any(|it| it["did"] == holder.did.as_str())
}

/// The number of this name among those of mail.
fn number(node: &Node, name: &str) -> u64 {
    let status = run(node, &["status", "--json"]).json();
    let number = status["mail"][name].as_u64();
    number.unwrap_or_else(|| panic!("no {name}: {status}"))
}

fn texts(taken: &Answer) -> BTreeSet<String> {
    let lines = taken.out.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("a message");
        line["text"].as_str().expect("text").to_owned()
    });
    lines.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_a_full_disk_under_a_holder_has_nothing_acknowledged_that_is_lost() {
    let Some(disk) = Disk::small() else {
        return;
    };
    let dir = TempDir::new_in(&disk.root).expect("a folder on it");
    let place = Place { dir };
    let made = place.overlane(["init", "--listen", "127.0.0.1:0", "--store", "journal"]);
    assert_eq!(made.code, 0, "{made:?}");
    let holder = Node::at(place, MAILS_KEPT);
    let of_holder = holder.did.clone();
    let others = [(); 2].map(|()| Node::at(Place::with_node(), MAILS_KEPT));
    let mut nodes = ring_with([holder].into_iter().chain(others).collect()).await;
    let at = nodes.iter().position(|it| it.did == of_holder);
    let mut holder = nodes.remove(at.expect("it is one of them"));
    let (mut receiver, mut sender) = (nodes.remove(1), nodes.remove(0));
    for node in [&sender, &receiver] {
        run(node, &["peer", "add", &holder.url()]);
    }
    run(&holder, &["peer", "add", &sender.url()]);
    let to = receiver.did.clone();
    receiver.stop();
    sender
        .until(|seen| seen.holders == [of_holder.clone()])
        .await;
    holder
        .until(|seen| seen.holders == [sender.did.clone()])
        .await;

    // What fits is held, and then nothing fits.
    let mut acknowledged = BTreeSet::new();
    for number in 0..3 {
        let text = format!("letter {number}");
        assert!(letter(&sender, &to, &text, &holder), "there is room");
        acknowledged.insert(text);
    }
    let ballast = disk.fill();
    // A receipt may come too late to be told; that it refuses says its number.
    let more = (3..LETTERS_MAX).find(|letters| {
        let text = format!("letter {letters} {}", "x".repeat(10_000));
        if letter(&sender, &to, &text, &holder) {
            acknowledged.insert(text);
        }
        number(&holder, "turned_away") > 0
    });
    more.expect("its disk is full");
    assert!(!letter(&sender, &to, "and again", &holder), "nor later");

    // It says so itself, in words, in numbers and with a code.
    let doctor = run(&holder, &["doctor", "mail"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    for words in [
        "nothing is held, fetched or taken",
        "no space left",
        "start the node again",
    ] {
        assert!(doctor.out.contains(words), "{words}: {doctor:?}");
    }
    assert!(number(&holder, "turned_away") >= 2, "each that it refused");
    let metrics = run(&holder, &["metrics"]);
    assert!(
        metrics.out.contains("overlane_mail_durable 0"),
        "{metrics:?}"
    );
    let own = run(&holder, &["send", &to, "its own", "--json"]);
    own.is_refused(4, "inbox/store_failed");

    // There is room again. It is started anew, alone, and has all that it said it holds.
    sender.stop();
    holder.kill();
    fs::remove_file(ballast).expect("removed");
    holder.start().await;
    let held = u64::try_from(acknowledged.len()).expect("a count");
    let has = |seen: &crate::mail_node::Seen| seen.holds.get(&to).copied().unwrap_or_default();
    let mut holds = 0;
    holder
        .until(|seen| {
            holds = has(seen);
            holds >= held
        })
        .await;
    run(&receiver, &["peer", "add", &holder.url()]);
    receiver.start().await;
    let count = holds.to_string();
    let take = [
        "inbox", "take", "--count", &count, "--wait", "120", "--json",
    ];
    let taken = run(&receiver, &take);
    assert_eq!(taken.code, 0, "{taken:?}");
    let mut taken = texts(&taken);
    // It holds again: this is one more of its own.
    holder.holds(&to, 0).await;
    receiver.stop();
    holder.until(|seen| seen.holders.is_empty()).await;
    let own = run(&holder, &["send", &to, "its own", "--wait", "0", "--json"]);
    assert_eq!(
        own.json()["arrived"]["by"][0]["here"],
        json!(true),
        "{own:?}"
    );

    // The rest was with the sender all the while.
    sender.start().await;
    run(&receiver, &["peer", "add", &sender.url()]);
    run(&receiver, &["peer", "add", &holder.url()]);
    receiver.start().await;
    while !taken.contains("and again") || !taken.contains("its own") {
        let take = ["inbox", "take", "--wait", "120", "--json"];
        let next = run(&receiver, &take);
        assert_eq!(next.code, 0, "{next:?}");
        for text in texts(&next) {
            assert!(taken.insert(text.clone()), "it came twice: {text}");
        }
    }
    assert!(taken.is_superset(&acknowledged));
}
