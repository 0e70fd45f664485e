//! What a program watches of its node: links, health, and what waits, as they change.

#![allow(clippy::expect_used, reason = "a test that cannot go on has failed")]

use overlane_core::identity::Account;
use overlane_core::transaction::{Message, Namespace};
use overlane_node::inbox::Arrived;
use overlane_node::{Node, NodeBuilder, StoreStatus};
use overlane_storage_native::LogsStore;
use overlane_storage_native::testkit::MemoryStore;
use zeroize::Zeroizing;

fn builder(seed: u8, store: &MemoryStore) -> NodeBuilder {
    let account = Account::ed25519(Zeroizing::new([seed; 32])).expect("an account");
    let store = Box::new(store.clone());
    Node::builder().account(account).store(store)
}

fn said(body: &str) -> Message<'_> {
    Message::Application {
        namespace: Namespace::new("notes").expect("short"),
        body: body.as_bytes(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_see_links_what_waits_and_a_store_that_fails() {
    let (store, others) = (MemoryStore::new(), MemoryStore::new());
    let ben = builder(2, &store).spawn().await.expect("ben");
    let ann = builder(1, &others).spawn().await.expect("ann");
    let (mut links, mut waiting) = (ben.watch_links(), ben.watch_waiting());
    let mut health = ben.watch_health();
    assert!(links.borrow().is_empty() && health.borrow().is_well());
    assert!(
        !links.has_changed().expect("it runs"),
        "as it is now was seen"
    );

    ann.connect(ben.url().expect("listens"))
        .await
        .expect("a link");
    let linked = links.wait_for(|links| links.values().any(|peer| *peer == ann.did()));
    linked.await.expect("it runs");

    ann.send(ben.did(), said("one")).await.expect("it leaves");
    waiting
        .wait_for(|it| it.messages > 0)
        .await
        .expect("it runs");
    // What was asked and said beside it is served by the node itself and waits for nobody.
    ben.messages().next().await.expect("a message");
    waiting
        .wait_for(|it| it.messages == 0)
        .await
        .expect("it runs");

    store.fail_next();
    ann.send(ben.did(), said("two")).await.expect("it leaves");
    let failed = health.wait_for(|health| !health.is_well()).await;
    let failed = failed.expect("it runs").clone();
    assert!(matches!(failed.store, StoreStatus::Failed(_)), "{failed:?}");
    assert_eq!((failed.mail_failed, failed.groups_failed), (None, None));
    // Who comes later sees it as it is.
    assert!(!ben.watch_health().borrow().is_well());

    ann.shutdown().await;
    links
        .wait_for(|links| links.is_empty())
        .await
        .expect("it runs");
    ben.shutdown().await;
    while waiting.changed().await.is_ok() {}
    assert!(links.changed().await.is_err() && health.changed().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_sees_mail_that_waits_until_it_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let mail = |builder: NodeBuilder, name: &str| {
        builder.inbox_store(LogsStore::open(&folder.path().join(name)).expect("a store"))
    };
    let (ann_store, ben_store) = (MemoryStore::new(), MemoryStore::new());
    let ben = mail(builder(2, &ben_store), "ben")
        .spawn()
        .await
        .expect("ben");
    let (did, account) = (ben.did(), ben.account());
    ben.shutdown().await;
    let ann = mail(builder(1, &ann_store), "ann")
        .spawn()
        .await
        .expect("ann");
    ann.learn(account).await.expect("it runs");
    let sent = ann
        .send_or_hold(did, said("for later"))
        .await
        .expect("it leaves");
    assert!(matches!(sent.arrived, Ok(Arrived::Held(_))), "{sent:?}");

    ben_store.reopen();
    let ben = mail(builder(2, &ben_store), "ben again")
        .spawn()
        .await
        .expect("ben");
    let mut waiting = ben.watch_waiting();
    assert_eq!(waiting.borrow().mails, 0);
    ben.connect(ann.url().expect("listens"))
        .await
        .expect("a link");
    waiting.wait_for(|it| it.mails == 1).await.expect("it runs");
    ben.take_mail(None).await.expect("it waits");
    waiting.wait_for(|it| it.mails == 0).await.expect("it runs");
    ann.shutdown().await;
    ben.shutdown().await;
}
