//! References in a program that embeds nodes, over real WebRTC on loopback. Nothing here waits by
//! the clock.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use overlane_core::Coded;
use overlane_core::identity::Account;
use overlane_core::transaction::{Message, Namespace};
use overlane_node::refs::{Answer, Call, CallError, Reason, Ref, RefState, ReferenceError, Token};
use overlane_node::{Node, NodeBuilder};
use overlane_storage_native::RefsStore;
use overlane_storage_native::testkit::MemoryStore;
use tempfile::TempDir;
use tokio::sync::mpsc;
use zeroize::Zeroizing;

fn builder(number: u8, store: &MemoryStore) -> NodeBuilder {
    let account = Account::ed25519(Zeroizing::new([number; 32])).expect("an account");
    Node::builder()
        .account(account)
        .store(Box::new(store.clone()))
}

/// A node on stores that outlive it.
struct Place {
    number: u8,
    folder: TempDir,
    store: MemoryStore,
}

impl Place {
    fn new(number: u8) -> Self {
        Self {
            number,
            folder: tempfile::tempdir().expect("a folder"),
            store: MemoryStore::new(),
        }
    }

    async fn start(&self) -> Node {
        self.store.reopen();
        let references = references(self.folder.path());
        let builder = builder(self.number, &self.store).refs_store(references);
        builder.spawn().await.expect("a node")
    }
}

fn references(folder: &Path) -> RefsStore {
    RefsStore::open(&folder.join("references")).expect("a store")
}

async fn link(one: &Node, other: &Node) {
    one.connect(other.url().expect("a URL"))
        .await
        .expect("a link");
    assert!(other.linked(one.did()).await);
}

async fn echo(call: Call) -> Answer {
    let refs = call.refs.into_iter().filter_map(Result::ok).collect();
    Answer::Data(call.bytes, refs)
}

/// A reference to a service of `owner` at `holder`, and what it is kept under.
async fn given(owner: &Node, holder: &Node, service: &Ref) -> (Ref, Token) {
    let token = service.token(b"given").await.expect("kept");
    let ticket = owner.ticket(token).await.expect("a ticket");
    let of = holder.redeem(&ticket).await.expect("redeemed");
    (of, token)
}

#[tokio::test(flavor = "multi_thread")]
async fn references_are_called_passed_in_calls_dropped_and_taken_back() {
    let (here, there) = (Place::new(1), Place::new(2));
    let (ann, ben) = (here.start().await, there.start().await);
    link(&ann, &ben).await;
    let service = ann.export(echo).await.expect("exported");
    let (at_ben, _) = given(&ann, &ben, &service).await;
    assert_eq!(at_ben.state(), RefState::Live);

    // Ben's own object goes to ann in a call, and comes back as itself.
    let (dropped_out, mut calls) = mpsc::unbounded_channel();
    let own = ben.export(move |call: Call| {
        let calls = dropped_out.clone();
        async move {
            let _ = calls.send(call.bytes.clone());
            Answer::bytes("mine")
        }
    });
    let own = own.await.expect("exported");
    let reply = at_ben
        .send("look", std::slice::from_ref(&own))
        .await
        .expect("sent");
    let mut reply = reply.await.expect("answered");
    assert_eq!(&reply.bytes[..], b"look");
    let back = reply.refs.pop().expect("one").expect("a reference");
    assert_eq!(back, own, "it is itself");

    // Ann calls what she was given, and lets go of it: ben's service hears both.
    let keeper = ann.export(|call: Call| async move {
        let given = call.refs.into_iter().next();
        let given = given.expect("one").expect("a reference");
        let said = given.send("hello", &[]).await.expect("sent").await;
        // The last of it is dropped here.
        Answer::bytes(said.expect("answered").bytes)
    });
    let keeper = keeper.await.expect("exported");
    let (keeper, _) = given(&ann, &ben, &keeper).await;
    let said = keeper
        .send("", std::slice::from_ref(&own))
        .await
        .expect("sent")
        .await;
    assert_eq!(&said.expect("answered").bytes[..], b"mine");
    assert_eq!(&calls.recv().await.expect("a call")[..], b"hello");
    // With ben's own handles gone too, his service ends, and with it what it sent on.
    drop((own, back));
    assert!(calls.recv().await.is_none(), "nobody can call it any more");

    // Taken back: whoever waits hears why, and so does whoever calls.
    let waits = tokio::spawn({
        let at_ben = at_ben.clone();
        async move { at_ben.lost().await }
    });
    service
        .revoke_soft(Reason(300), "plan expired")
        .await
        .expect("taken back");
    let RefState::Revoked(why) = waits.await.expect("told") else {
        panic!("it is {:?}", at_ben.state());
    };
    assert_eq!(
        (why.reason, why.text.as_str()),
        (Reason(300), "plan expired")
    );
    let refused = at_ben
        .send("again", &[])
        .await
        .expect("sent")
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "refs/revoked");
    assert!(refused.to_string().contains("plan expired"), "{refused}");
    let twice = service.revoke_soft(Reason(300), "again").await.unwrap_err();
    assert_eq!(twice.code(), "refs/already_revoked");
    let foreign = at_ben
        .revoke_hard(Reason(300), "not his")
        .await
        .unwrap_err();
    assert_eq!(foreign.code(), "refs/not_owner");
    ann.shutdown().await;
    ben.shutdown().await;
    let closed = ann.export(echo).await.unwrap_err();
    assert_eq!(closed, ReferenceError::Closed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_gives_the_reference_back_after_a_restart_of_each_and_a_call_waits_for_its_service()
{
    let (here, there) = (Place::new(1), Place::new(2));
    let (ann, ben) = (here.start().await, there.start().await);
    link(&ann, &ben).await;
    let service = ann.export(echo).await.expect("exported");
    let (at_ben, served) = given(&ann, &ben, &service).await;
    let held = at_ben.token(b"at ben").await.expect("kept");
    drop((service, at_ben));
    ann.shutdown().await;
    ben.shutdown().await;

    let (ann, ben) = (here.start().await, there.start().await);
    let at_ben = ben.restore(held).await.expect("restored");
    assert_eq!(at_ben.state(), RefState::Live);
    // Sent while ann is not even linked, answered once her service is back.
    let waits = at_ben.send("are you there", &[]).await.expect("sent");
    link(&ann, &ben).await;
    let _service = ann.attach(served, echo).await.expect("attached");
    assert_eq!(&waits.await.expect("answered").bytes[..], b"are you there");
    let kept = ann.kept().await.expect("kept");
    assert_eq!(kept[0].note, b"given");
    assert_eq!(kept[0].holders, [ben.did()]);
    // Let go of for good.
    ben.forget(held).await.expect("forgotten");
    assert_eq!(ben.restore(held).await.unwrap_err().code(), "refs/not_kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_panics_refuses_and_an_answer_nobody_waits_for_harms_nothing() {
    let (here, there) = (Place::new(1), Place::new(2));
    let (ann, ben) = (here.start().await, there.start().await);
    link(&ann, &ben).await;
    let service = ann
        .export(|call: Call| async move {
            assert!(call.bytes != "panic", "as it was told to");
            Answer::Data(call.bytes, Vec::new())
        })
        .await
        .expect("exported");
    let (at_ben, _) = given(&ann, &ben, &service).await;
    let refused = at_ben
        .send("panic", &[])
        .await
        .expect("sent")
        .await
        .unwrap_err();
    assert!(matches!(refused, CallError::Refused(_)), "{refused}");
    drop(at_ben.send("nobody waits", &[]).await.expect("sent"));
    let reply = at_ben.send("after it", &[]).await.expect("sent").await;
    assert_eq!(&reply.expect("answered").bytes[..], b"after it");
    // A promise is called before it is known what it becomes.
    let inner = ann.export(echo).await.expect("exported");
    let outer = ann.export(move |_: Call| {
        let inner = inner.clone();
        async move { Answer::Reference(inner) }
    });
    let (outer, _) = given(&ann, &ben, &outer.await.expect("exported")).await;
    let first = outer.send("", &[]).await.expect("sent");
    let second = first.promise().send("at once", &[]).await.expect("sent");
    assert_eq!(&second.await.expect("answered").bytes[..], b"at once");
    assert_eq!(first.await.expect("answered").refs.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_store_of_references_refuses_them_and_keeps_none_in_memory() {
    let node = builder(1, &MemoryStore::new())
        .spawn()
        .await
        .expect("a node");
    let refused = node.export(echo).await.unwrap_err();
    assert_eq!(
        (refused.clone(), refused.code()),
        (ReferenceError::NoStore, "refs/no_store")
    );
    assert_eq!(node.kept().await.unwrap_err(), ReferenceError::NoStore);
    assert_eq!(node.references().await.expect("a status").store, None);
    // The namespace stays the node's own.
    let message = Message::Application {
        namespace: Namespace::new("overlane/refs").expect("a namespace"),
        body: b"",
    };
    let refused = node.send(node.did(), message).await.unwrap_err();
    assert_eq!(refused.code(), "send/reserved_namespace");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_store_of_references_is_not_used() {
    let place = Place::new(1);
    let node = place.start().await;
    let service = node.export(echo).await.expect("exported");
    service.token(b"kept").await.expect("kept");
    node.shutdown().await;
    drop(service);
    let mut store = references(place.folder.path());
    use overlane_relay::refs::store::Store;
    let rows = store.rows().expect("rows");
    let gone = rows
        .into_iter()
        .map(|(key, _)| overlane_relay::refs::table::Change { key, value: None });
    // All but the last, which speaks of what is not there any more.
    let mut gone: Vec<_> = gone.collect();
    gone.sort_by(|one, other| one.key.cmp(&other.key));
    gone.pop();
    store.commit(gone).expect("committed");
    drop(store);
    place.store.reopen();
    let builder = builder(1, &place.store).refs_store(references(place.folder.path()));
    let refused = builder.spawn().await.unwrap_err();
    assert_eq!(refused.code(), "refs/store_corrupt", "{refused}");
}
