//! A group log: ann makes a group, ben and eve join it by a ticket; ben is away while ann posts, comes
//! back and has it all; eve is taken away, and what comes then is sealed without her. Three nodes in
//! one process, over real WebRTC links, each on durable stores of its own.
//!
//! Run it with `cargo run --release -p overlane-node --example group`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use overlane_core::identity::Account;
use overlane_node::Node;
use overlane_node::groups::Follow;
use overlane_storage_native::vfs::RealVfs;
use overlane_storage_native::{FILES_BUDGET_BYTES, FilesStore, LogsStore};
use zeroize::Zeroizing;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (ann_home, ben_home, eve_home) = (
        folder.path().join("ann"),
        folder.path().join("ben"),
        folder.path().join("eve"),
    );
    let ann = node(&ann_home, 1).await?;
    let ben = node(&ben_home, 2).await?;
    let eve = node(&eve_home, 3).await?;

    // Ann owns the group and hosts it. A ticket is no secret: the roster says who is in.
    let hers = ann.create_group("plans", &[]).await?;
    let his = ben
        .join_group(&hers.invite(&ben.account(), false).await?, None)
        .await?;
    let eves = eve
        .join_group(&hers.invite(&eve.account(), false).await?, None)
        .await?;
    let id = his.id();
    hers.post(vec![b"let us meet".to_vec()]).await?;
    his.post(vec![b"on friday?".to_vec()]).await?;
    println!(
        "eve reads: {}",
        texts(&mut eves.follow(0), 2).await?.join(", ")
    );

    // Ben is away for a thousand posts. What he wants to know first is what catching up costs.
    ben.shutdown().await;
    drop((ben, his));
    let bodies = (0..1_000).map(|number| format!("note {number}").into_bytes());
    hers.post(bodies.collect()).await?;
    let ben = node(&ben_home, 2).await?;
    let url = ann.url().ok_or("ann listens")?;
    ben.connect(url).await?;
    let his = ben.group(id);
    let behind = texts(&mut his.follow(3), 1_000).await?;
    println!(
        "ben was away, and has {} more: from {:?} to {:?}",
        behind.len(),
        behind.first(),
        behind.last()
    );
    let plan = his.plan(None).await?;
    println!("and now he lacks {} of {}", plan.receive, plan.there);

    // Eve goes: what is posted from now on, she cannot read, and no host gives it to her.
    let view = hers.remove(eve.did()).await?;
    hers.post(vec![b"a surprise for eve".to_vec()]).await?;
    println!(
        "ben reads: {:?} (epoch {})",
        texts(&mut his.follow(1_003), 1).await?,
        view.epoch
    );
    let refused = eves.sync(None).await;
    println!(
        "eve is told: {}",
        match refused {
            Ok((_, report)) => format!("{:?}", report.end),
            Err(error) => error.to_string(),
        }
    );

    for node in [&ann, &ben, &eve] {
        node.shutdown().await;
    }
    Ok(())
}

/// The next posts of a group, as text.
async fn texts(follow: &mut Follow, count: usize) -> Result<Vec<String>, Box<dyn Error>> {
    let mut texts = Vec::new();
    for _ in 0..count {
        let post = follow.next().await?;
        let body = post.body.ok_or("the key of its epoch is here")?;
        texts.push(String::from_utf8(body)?);
    }
    Ok(texts)
}

/// A node of an account of its own, in a home of its own.
async fn node(home: &Path, seed: u8) -> Result<Node, Box<dyn Error>> {
    std::fs::create_dir_all(home)?;
    let store = FilesStore::open(Arc::new(RealVfs), &home.join("replay"), FILES_BUDGET_BYTES)?;
    Ok(Node::builder()
        .account(Account::ed25519(Zeroizing::new([seed; 32]))?)
        .store(Box::new(store))
        .logs_store(LogsStore::open(&home.join("groups"))?)
        .spawn()
        .await?)
}
