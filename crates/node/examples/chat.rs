//! A room: whoever is linked to it says something, and everybody else hears it, each from the handler
//! that served it.
//!
//! A handler answers with [`Node::post`], which never waits, so a guest that takes nothing holds up no
//! other. Run it with `cargo run --release -p overlane-node --example chat`.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use overlane_core::Did;
use overlane_core::identity::Account;
use overlane_core::transaction::{Message, Namespace};
use overlane_node::Node;
use overlane_storage_native::vfs::RealVfs;
use overlane_storage_native::{FILES_BUDGET_BYTES, FilesStore};
use zeroize::Zeroizing;

const CHAT: &str = "chat";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let room = node(folder.path().join("room")).await?;
    let url = room.url().ok_or("the room takes no offers")?.to_owned();
    tokio::spawn(host(room.clone()));

    let mut guests = Vec::new();
    for name in ["ann", "ben", "cem"] {
        let guest = node(folder.path().join(name)).await?;
        guest.connect(&url).await?;
        say(&guest, room.did(), &format!("{name} is here")).await?;
        // The room says so to everybody in it, the newcomer too: whoever hears of itself is in.
        hear(&guest).await?;
        guests.push((name, guest));
    }
    for (name, guest) in &guests {
        say(guest, room.did(), &format!("{name} says hello")).await?;
    }
    for (name, guest) in &guests {
        let mut heard = BTreeSet::new();
        while !guests
            .iter()
            .all(|(other, _)| heard.contains(&format!("{other} says hello")))
        {
            heard.insert(hear(guest).await?);
        }
        println!("{name} heard {} lines", heard.len());
    }
    for (_, guest) in guests {
        guest.shutdown().await;
    }
    room.shutdown().await;
    Ok(())
}

/// Passes on what each guest says, to every guest so far.
async fn host(room: Node) {
    let guests: Arc<Mutex<BTreeSet<Did>>> = Arc::default();
    let serve = |delivery: overlane_node::Delivery| {
        let (room, guests) = (room.clone(), Arc::clone(&guests));
        async move {
            let payload = delivery.item();
            let present = {
                let mut guests = guests.lock().unwrap_or_else(PoisonError::into_inner);
                guests.insert(payload.stream().origin);
                guests.clone()
            };
            for guest in present {
                let line = message(payload.message().body());
                // Refused where this guest takes nothing: it misses a line, and nobody waits for it.
                if let Ok(Err(refused)) = line.map(|line| room.post(guest, line).map(drop)) {
                    println!("{guest} misses a line: {refused}");
                }
            }
        }
    };
    room.messages().serve(serve).await;
}

async fn say(guest: &Node, room: Did, line: &str) -> Result<(), Box<dyn Error>> {
    guest.send(room, message(line.as_bytes())?).await?;
    Ok(())
}

async fn hear(guest: &Node) -> Result<String, Box<dyn Error>> {
    let heard = guest
        .messages()
        .next()
        .await
        .ok_or("the node has shut down")?;
    Ok(String::from_utf8_lossy(heard.item().message().body()).into_owned())
}

fn message(body: &[u8]) -> Result<Message<'_>, Box<dyn Error>> {
    let namespace = Namespace::new(CHAT)?;
    Ok(Message::Application { namespace, body })
}

/// A node of a new account, with its records in `folder`.
async fn node(folder: PathBuf) -> Result<Node, Box<dyn Error>> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)?;
    let store = FilesStore::open(Arc::new(RealVfs), &folder, FILES_BUDGET_BYTES)?;
    let builder = Node::builder().account(Account::ed25519(seed)?);
    Ok(builder.store(Box::new(store)).spawn().await?)
}
