//! A file by reference: ann shares one and gives a ticket, ben fetches it by that, then ann takes it
//! back and ben hears why. Two nodes in one process, over a real WebRTC link, each on durable stores
//! of its own.
//!
//! Run it with `cargo run --release -p overlane-node --example file`.

use std::error::Error;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use overlane_core::Coded;
use overlane_core::identity::Account;
use overlane_node::Node;
use overlane_node::refs::{Answer, Call, Reason, RefState};
use overlane_node::share::{self, Fetch};
use overlane_storage_native::vfs::RealVfs;
use overlane_storage_native::{FILES_BUDGET_BYTES, FilesStore, RefsStore};
use zeroize::Zeroizing;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let ann = node(&folder.path().join("ann")).await?;
    let ben = node(&folder.path().join("ben")).await?;

    // A file: the ticket says who has it, and where.
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "to be fetched, not sent\n".repeat(10_000))?;
    let offer = share::share(&ann, &path).await?;
    println!(
        "ann shares {} of {} bytes",
        offer.about.name, offer.about.size
    );

    let fetch = Fetch::of(&ben, &offer.ticket).await?;
    let (token, hash) = (fetch.token(), fetch.about().hash);
    let mut hasher = blake3::Hasher::new();
    let mut parts = pin!(fetch.parts(0));
    while let Some(part) = parts.next().await {
        hasher.update(&part?.1);
    }
    println!(
        "ben has it, and its hash is right: {}",
        *hasher.finalize().as_bytes() == hash
    );

    // A service of one's own, passed on in a call: ann calls back what ben gave her.
    let greeter = ann.export(|call: Call| async move {
        match call.refs.into_iter().next() {
            Some(Ok(back)) => match back.send("who are you?", &[]).await {
                Ok(answer) => match answer.await {
                    Ok(reply) => Answer::bytes([b"hello, ", &reply.bytes[..]].concat()),
                    Err(error) => Answer::refuse(&error.to_string()),
                },
                Err(error) => Answer::refuse(&error.to_string()),
            },
            _ => Answer::refuse("call with a reference to be called back"),
        }
    });
    let greeter = greeter.await?;
    let ticket = ann.ticket(greeter.token(b"greeter").await?).await?;
    let name = ben.export(|_: Call| async { Answer::bytes("ben") }).await?;
    let at_ben = ben.redeem(&ticket).await?;
    let reply = at_ben.send("", &[name]).await?.await?;
    println!("ann says: {}", String::from_utf8_lossy(&reply.bytes));

    // Ann takes both back. Ben is told, without asking.
    let shared = ann.restore(offer.token).await?;
    shared
        .revoke_soft(Reason::FIRST_FREE, "the notes are out of date")
        .await?;
    let file = ben.restore(token).await?;
    if let RefState::Revoked(why) = file.lost().await {
        println!("ben hears of the file: {why}");
    }
    greeter
        .revoke_hard(Reason::FIRST_FREE, "ann is asleep")
        .await?;
    at_ben.lost().await;
    if let Err(error) = at_ben.send("", &[]).await?.await {
        println!("and of the greeter: {error} ({})", error.code());
    }

    ann.shutdown().await;
    ben.shutdown().await;
    Ok(())
}

/// A node of a new account, with its stores in `folder`.
async fn node(folder: &Path) -> Result<Node, Box<dyn Error>> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)?;
    let store = FilesStore::open(
        Arc::new(RealVfs),
        &folder.join("replay"),
        FILES_BUDGET_BYTES,
    )?;
    let builder = Node::builder().account(Account::ed25519(seed)?);
    let builder = builder.store(Box::new(store));
    let references = RefsStore::open(&folder.join("references"))?;
    Ok(builder.refs_store(references).spawn().await?)
}
