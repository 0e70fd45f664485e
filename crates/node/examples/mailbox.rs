//! Mail for one who is away: cem's node is off while ann writes; ben's node and ann's own hold the message, sealed,
//! and cem takes it, once, when cem is back. Three nodes in one process, over real WebRTC links, each on durable
//! stores of its own.
//!
//! Run it with `cargo run --release -p overlane-node --example mailbox`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use overlane_core::identity::Account;
use overlane_core::transaction::{Message, Namespace};
use overlane_node::inbox::{Arrived, InboxError, MailEvent};
use overlane_node::{Event, Node};
use overlane_storage_native::vfs::RealVfs;
use overlane_storage_native::{FILES_BUDGET_BYTES, FilesStore, LogsStore};
use zeroize::Zeroizing;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let home = |name: &str| folder.path().join(name);
    let ann = node(&home("ann"), 1).await?;
    let ben = node(&home("ben"), 2).await?;
    let cem = node(&home("cem"), 3).await?;
    let bens = ben.url().ok_or("ben listens")?;
    ann.connect(bens).await?;
    cem.connect(bens).await?;
    cem.connect(ann.url().ok_or("ann listens")?).await?;

    // While cem is there, ann's first word goes to cem, and cem's key stays with ann.
    let whom = cem.did();
    println!(
        "to one who is there: {}",
        put(&ann, &cem, "are you there?").await?
    );
    cem.shutdown().await;
    drop(cem);
    println!(
        "to one who is away:  {}",
        write(&ann, whom, "read this when you are back").await?
    );

    // Back again, cem asks those who hold mail for its place in the ring.
    let cem = node(&home("cem"), 3).await?;
    let mut events = cem.events();
    cem.connect(bens).await?;
    let digest = loop {
        if let Event::Mail(MailEvent::Waits { digest, .. }) = events.recv().await? {
            break digest;
        }
    };
    // From this on it is spent, here and with whoever held it, whatever crashes.
    let mail = cem.take_mail(Some(digest)).await?;
    let data = cem.open_mail(&mail)?;
    println!(
        "cem takes: {}",
        String::from_utf8_lossy(data.message().body())
    );
    match cem.take_mail(None).await {
        Err(InboxError::Empty) => println!("and nothing is left"),
        other => return Err(format!("{other:?}").into()),
    }
    for node in [ann, ben, cem] {
        node.shutdown().await;
    }
    Ok(())
}

/// Has a message delivered or held, while its destination takes what comes.
async fn put(from: &Node, to: &Node, text: &str) -> Result<String, Box<dyn Error>> {
    let messages = to.messages();
    let (said, _) = tokio::join!(write(from, to.did(), text), messages.next());
    said
}

/// Has a message delivered or held, and says which.
async fn write(from: &Node, to: overlane_core::Did, text: &str) -> Result<String, Box<dyn Error>> {
    let message = Message::Application {
        namespace: Namespace::new("letter")?,
        body: text.as_bytes(),
    };
    Ok(match from.send_or_hold(to, message).await?.arrived? {
        Arrived::Delivered => "delivered".to_owned(),
        Arrived::Held(proofs) => format!("held, by the signed word of {} nodes", proofs.len()),
    })
}

/// A node of an account of its own that holds mail for others, in a home of its own.
async fn node(home: &Path, seed: u8) -> Result<Node, Box<dyn Error>> {
    std::fs::create_dir_all(home)?;
    let store = FilesStore::open(Arc::new(RealVfs), &home.join("replay"), FILES_BUDGET_BYTES)?;
    let builder = Node::builder().account(Account::ed25519(Zeroizing::new([seed; 32]))?);
    let builder = builder.inbox_store(LogsStore::open(&home.join("inbox"))?);
    Ok(builder.store(Box::new(store)).spawn().await?)
}
