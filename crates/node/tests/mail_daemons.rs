//! Mail between real daemons on loopback: a sender, a receiver that is away, and three that hold its mail, of
//! which one is killed and one leaves while messages come in. Nothing waits by the clock: each step begins when
//! the nodes say that the one before is done.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod mail_disk;
mod mail_node;
mod support;

use std::collections::BTreeSet;

use axum::http::Method;
use mail_node::{Node, ring_of};
use overlane_core::replay::CUSTODY_CAPACITY;
use overlane_node::api::{ArrivedReport, SendReceipt, SendRequest, StatusReport, instant};
use tokio::task::{JoinSet, block_in_place};

/// Mails that a holder of these keeps for one account.
const MAILS_KEPT: u64 = 256;

/// Messages that are sent while nothing happens, while one holder is killed, and while one leaves.
const SENT: [usize; 3] = [80, 60, 60];

/// All of them.
const ALL: usize = SENT[0] + SENT[1] + SENT[2];

/// Who is who: in the order of the ring, so that the three lie behind the receiver's place, and the sender
/// lies before it.
struct Cast {
    sender: Node,
    receiver: Node,
    holders: Vec<Node>,
}

impl Cast {
    /// Five nodes in a ring at rest.
    async fn at_rest() -> Self {
        let mut nodes = ring_of(5, MAILS_KEPT).await;
        let holders = nodes.split_off(2);
        let receiver = nodes.pop().expect("two");
        let sender = nodes.pop().expect("one");
        Self {
            sender,
            receiver,
            holders,
        }
    }
}

/// Sends of one part of the test, all at once.
struct Sends(JoinSet<SendReceipt>);

impl Sends {
    fn of(cast: &Cast, numbers: std::ops::Range<usize>) -> Self {
        let mut sends = JoinSet::new();
        for number in numbers {
            let client = cast.sender.client();
            let asked = SendRequest {
                destination: cast.receiver.did_key.clone(),
                namespace: "letters".to_owned(),
                class: Default::default(),
                body: hex::encode(letter(number)),
                plain: false,
                hold: true,
                wait_ms: 0,
                receipt_ms: 0,
            };
            sends.spawn(async move {
                let sent = client.call(Method::POST, "/v1/send", &asked).await;
                sent.expect("it is signed")
            });
        }
        Self(sends)
    }

    /// Waits for one more; it is held.
    async fn next(&mut self) -> Option<String> {
        let sent = self.0.join_next().await?.expect("an answer");
        match sent.arrived {
            Some(ArrivedReport::Held { by }) => assert!(!by.is_empty()),
            other => panic!("not held: {other:?}"),
        }
        Some(sent.digest)
    }

    async fn rest(mut self, digests: &mut BTreeSet<String>) {
        while let Some(digest) = self.next().await {
            digests.insert(digest);
        }
    }
}

fn letter(number: usize) -> String {
    format!("letter {number}")
}

/// Custody is full: mail waits at its holders, and whoever asks is told until when.
async fn says_until_when_mail_waits(node: &Node) {
    let inbox = node.inbox().await;
    assert_eq!(inbox.custody, CUSTODY_CAPACITY, "{inbox:?}");
    assert!(inbox.waits_until_ms.is_some(), "{inbox:?}");
    let spent = inbox.full_until_ms.expect("it is full");
    let run = |args: &[&str]| block_in_place(|| node.place.overlane(args));
    // Another holder may have given some since that are held not so long.
    let waits = "wait there until some are taken; the first of them is held until ";
    let spent = format!(" GMT; the first here is spent at {}", instant(spent));
    let says = |text: &str| text.contains(waits) && text.contains(&spent);
    let list = run(&["inbox", "list"]);
    assert!(says(&list.out), "{list:?}");
    let doctor = run(&["doctor", "mail"]);
    assert!(says(&doctor.out), "{doctor:?}");
    assert!(doctor.out.contains("inbox take --all"), "{doctor:?}");
    // Nothing more may come, so nothing is tried with.
    let probe = run(&["inbox", "probe", "--json"]);
    probe.is_refused(3, "inbox/custody_full");
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_200_letters_come_once_though_a_holder_is_killed_and_one_leaves_s25_s26() {
    let mut cast = Cast::at_rest().await;
    let (to, dids) = (cast.receiver.did.clone(), cast.holders.iter());
    let dids: Vec<String> = dids.map(|it| it.did.clone()).collect();
    cast.receiver.stop();
    cast.sender.until(|seen| seen.holders == dids).await;

    let mut digests = BTreeSet::new();
    let (first, second) = (SENT[0], SENT[0] + SENT[1]);
    Sends::of(&cast, 0..first).rest(&mut digests).await;
    for holder in &mut cast.holders {
        holder.holds(&to, 80).await;
    }
    // The nearest of the three, where the ways of all messages to the receiver end, is killed.
    let mut sends = Sends::of(&cast, first..second);
    digests.extend(sends.next().await);
    cast.holders[0].kill();
    sends.rest(&mut digests).await;
    // The farthest leaves.
    let mut sends = Sends::of(&cast, second..ALL);
    digests.extend(sends.next().await);
    cast.holders[2].stop();
    sends.rest(&mut digests).await;
    assert_eq!(digests.len(), ALL);

    // The receiver is back, and takes nothing yet: what has no room waits, and it is said until when.
    cast.receiver.start().await;
    cast.receiver
        .until(|seen| seen.came >= CUSTODY_CAPACITY)
        .await;
    says_until_when_mail_waits(&cast.receiver).await;
    // Its application takes what comes.
    let count = ALL.to_string();
    let take = [
        "inbox", "take", "--count", &count, "--wait", "120", "--json",
    ];
    let taken = block_in_place(|| cast.receiver.place.overlane(take));
    assert_eq!(taken.code, 0, "{taken:?}");
    let lines = taken.out.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a message");
        assert_eq!(line["origin"], cast.sender.did.as_str());
        line["text"].as_str().expect("text").to_owned()
    });
    let mut taken: Vec<String> = lines.collect();
    taken.sort_unstable();
    let mut sent: Vec<String> = (0..ALL).map(letter).collect();
    sent.sort_unstable();
    assert_eq!(taken, sent, "each once");

    // Those that are there let go of all, and the sender hears of each.
    cast.holders[1].holds(&to, 0).await;
    cast.sender.holds(&to, 0).await;
    cast.sender.until(|seen| seen.ended.len() == ALL).await;
    let inbox = cast.sender.inbox().await;
    assert_eq!(inbox.held, Vec::new());
    let ended = inbox.ended.iter().map(|it| {
        assert_eq!((it.outcome.as_str(), &it.destination), ("taken", &to));
        it.digest.clone()
    });
    assert_eq!(ended.collect::<BTreeSet<_>>(), digests);

    // So do those that come back with what was taken meanwhile, and it is nobody's mail again.
    for holder in [0, 2] {
        cast.holders[holder].start().await;
    }
    for holder in &mut cast.holders {
        holder.holds(&to, 0).await;
        assert_eq!(holder.inbox().await.inboxes, Vec::new());
    }
    let more = cast.receiver.place.overlane(["inbox", "take", "--json"]);
    assert_eq!((more.code, more.out.as_str()), (1, "{}\n"));
    let status: StatusReport = cast.receiver.client().get("/v1/status").await.expect("one");
    let number = |name: &str| status.mail.get(name).copied();
    assert_eq!(number("taken"), Some(200));
    assert_eq!((number("lost"), number("waiting")), (Some(0), Some(0)));
}
