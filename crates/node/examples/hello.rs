//! Two nodes in one process say hello to each other over a real WebRTC link, each on a durable
//! store of its own.
//!
//! Run it with `cargo run --release -p overlane-node --example hello`.

use std::error::Error;
use std::sync::Arc;

use overlane_core::Coded;
use overlane_core::identity::Account;
use overlane_core::transaction::{Message, Namespace};
use overlane_node::{Event, Node};
use overlane_storage_native::vfs::RealVfs;
use overlane_storage_native::{FILES_BUDGET_BYTES, FilesStore};
use zeroize::Zeroizing;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let alice = node(folder.path().join("alice")).await?;
    let bob = node(folder.path().join("bob")).await?;

    let url = bob.url().ok_or("bob takes no offers")?;
    let peer = alice.connect(url).await?;
    println!("alice {} is linked to bob {peer}", alice.did());

    let hello = Message::Application {
        namespace: Namespace::new("hello")?,
        body: b"hello, bob",
    };
    let receipt = alice.send(bob.did(), hello).await?;
    println!(
        "alice signed sequence {} of {}",
        receipt.sequence, receipt.stream
    );
    let delivery = bob.messages().next().await.ok_or("bob has shut down")?;
    let said = String::from_utf8_lossy(delivery.item().message().body());
    println!("bob admitted it as {}: {said:?}", delivery.verdict().name());

    // The same signed bytes again: bob refuses them, and tells whoever watches.
    let mut events = bob.events();
    alice.offer_again(receipt.signed).await?;
    if let Event::Refused { refusal, .. } = events.recv().await? {
        println!("and once more: {refusal} ({})", refusal.code());
    }

    alice.shutdown().await;
    bob.shutdown().await;
    Ok(())
}

/// A node of a new account, with its records in `folder`.
async fn node(folder: std::path::PathBuf) -> Result<Node, Box<dyn Error>> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)?;
    let store = FilesStore::open(Arc::new(RealVfs), &folder, FILES_BUDGET_BYTES)?;
    let builder = Node::builder().account(Account::ed25519(seed)?);
    Ok(builder.store(Box::new(store)).spawn().await?)
}
