//! Policy hooks on real nodes: what they refuse is refused with its code and counted, and nothing else changes.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use overlane_core::identity::Account;
use overlane_core::replay::Verdict;
use overlane_core::transaction::{Message, Namespace};
use overlane_core::{Coded, Did};
use overlane_node::inbox::Arrived;
use overlane_node::policy::{Arriving, Connecting, Decision, Holding, Policy};
use overlane_node::{Event, Node, NodeBuilder, Sealing};
use overlane_storage_native::LogsStore;
use overlane_storage_native::testkit::MemoryStore;
use zeroize::Zeroizing;

/// Refuses links with one account, unsealed messages while told to, and all mail.
struct Strict {
    shuns: Did,
    closed: Arc<AtomicBool>,
}

impl Policy for Strict {
    fn before_connect(&self, link: &Connecting) -> Decision {
        match link.peer == self.shuns {
            true => Decision::Refuse,
            false => Decision::Allow,
        }
    }

    fn before_admit(&self, message: &Arriving<'_>) -> Decision {
        assert!(
            message.namespace != Some("breaks"),
            "a hook that breaks on purpose"
        );
        match self.closed.load(Ordering::SeqCst) && !message.is_sealed {
            true => Decision::Refuse,
            false => Decision::Allow,
        }
    }

    fn before_hold(&self, _mail: &Holding) -> Decision {
        Decision::Refuse
    }
}

fn account(seed: u8) -> Account {
    Account::ed25519(Zeroizing::new([seed; 32])).expect("an account")
}

fn builder(seed: u8) -> NodeBuilder {
    let store = Box::new(MemoryStore::new());
    Node::builder().account(account(seed)).store(store)
}

fn strict(seed: u8, shuns: u8) -> (NodeBuilder, Arc<AtomicBool>) {
    let closed = Arc::new(AtomicBool::new(true));
    let policy = Strict {
        shuns: account(shuns).key().did(),
        closed: Arc::clone(&closed),
    };
    (builder(seed).policy(policy), closed)
}

fn said<'a>(namespace: &'a str, body: &'a str) -> Message<'a> {
    Message::Application {
        namespace: Namespace::new(namespace).expect("short"),
        body: body.as_bytes(),
    }
}

async fn refused(events: &mut tokio::sync::broadcast::Receiver<Event>) -> &'static str {
    loop {
        if let Event::Refused { refusal, .. } = events.recv().await.expect("an event") {
            return refusal.code();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_uses_no_place_and_comes_in_when_the_policy_lets_it() {
    let (ben, closed) = strict(2, 9);
    let ben = ben.spawn().await.expect("ben");
    let ann = builder(1).spawn().await.expect("ann");
    ann.connect(ben.url().expect("listens"))
        .await
        .expect("a link");
    let mut events = ben.events();
    let plain = |name, body| ann.send_as(ben.did(), said(name, body), Sealing::Plain);
    let first = plain("notes", "one").await.expect("it leaves");
    assert_eq!(refused(&mut events).await, "policy/refused_message");
    // The hook breaks; the node does not.
    plain("breaks", "two").await.expect("it leaves");
    assert_eq!(refused(&mut events).await, "policy/broken");
    // What the policy has nothing against is admitted, as the first of its stream.
    let sealed = ann.send(ben.did(), said("notes", "three")).await;
    let sealed = sealed.expect("it leaves");
    let came = ben.messages().next().await.expect("a message");
    assert_eq!(came.verdict(), Verdict::First);
    assert_eq!(came.item().sequence(), sealed.sequence);
    // The very bytes that were refused, once the policy lets them: their place was left free.
    closed.store(false, Ordering::SeqCst);
    ann.offer_again(first.signed.clone())
        .await
        .expect("it leaves");
    let came = ben.messages().next().await.expect("a message");
    assert_eq!(came.verdict(), Verdict::Late);
    assert_eq!(came.item().sequence(), first.sequence);
    // And no policy lets anything in that the window refuses.
    ann.offer_again(first.signed).await.expect("it leaves");
    assert_eq!(refused(&mut events).await, "replay/replay");
    let counted = ben.status().await.expect("a status").counters.refused;
    for (code, times) in [
        ("policy/refused_message", 1),
        ("policy/broken", 1),
        ("replay/replay", 1),
    ] {
        assert_eq!(counted.get(code), Some(&times), "{code}: {counted:?}");
    }
    ann.shutdown().await;
    ben.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_refuses_links_either_way_and_counts_the_offers() {
    let (ben, _) = strict(2, 1);
    let ben = ben.spawn().await.expect("ben");
    let ann = builder(1).spawn().await.expect("ann");
    let refused = ann.connect(ben.url().expect("listens")).await;
    let refused = refused.expect_err("ben takes no link with ann").to_string();
    assert!(refused.contains("policy/refused_link"), "{refused}");
    let offers = ben.status().await.expect("a status").offers_refused;
    assert_eq!(offers.get("policy/refused_link"), Some(&1), "{offers:?}");
    let dialled = ben.connect(ann.url().expect("listens")).await;
    let dialled = dialled.expect_err("nor does ben make one");
    assert_eq!(dialled.code(), "policy/refused_link");
    // Anybody else is welcome.
    let cem = builder(3).spawn().await.expect("cem");
    cem.connect(ben.url().expect("listens"))
        .await
        .expect("a link");
    for node in [ann, ben, cem] {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_refuses_to_hold_mail_and_others_hold_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mail = |builder: NodeBuilder, name: &str| {
        builder.inbox_store(LogsStore::open(&folder.path().join(name)).expect("a store"))
    };
    let (ben, _) = strict(2, 9);
    let ben = mail(ben, "ben").spawn().await.expect("ben");
    let ann = mail(builder(1), "ann").spawn().await.expect("ann");
    let cem = mail(builder(3), "cem").spawn().await.expect("cem");
    ann.connect(ben.url().expect("listens"))
        .await
        .expect("a link");
    cem.connect(ben.url().expect("listens"))
        .await
        .expect("a link");
    ann.connect(cem.url().expect("listens"))
        .await
        .expect("a link");
    let whom = cem.did();
    cem.shutdown().await;
    // Until the ring names ben among those that would hold it: it may not have settled yet.
    loop {
        let sent = ann.send_or_hold(whom, said("notes", "for later")).await;
        if let Ok(Arrived::Held(proofs)) = sent.expect("it leaves").arrived {
            assert!(proofs.iter().all(|proof| proof.signer() != ben.did()));
        }
        let counted = ben.status().await.expect("a status").counters.refused;
        if counted.contains_key("policy/refused_mail") {
            break;
        }
    }
    ann.shutdown().await;
    ben.shutdown().await;
}
