//! Presence, in a namespace that guards its own replay: "I am here" a hundred times, and no write for
//! any of them.
//!
//! A namespace that **delegates its replay** promises to act on each of its payloads at most once by a key of
//! its own. Presence can: a beat carries the instant it was made at, and one that is not newer than what is known says
//! nothing new, whoever brings it, after a restart too. In return a link's own messages cost their
//! destination no flush. Run it with `cargo run --release -p overlane-node --example presence`.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use overlane_core::Did;
use overlane_core::identity::Account;
use overlane_core::transaction::{Message, Namespace};
use overlane_node::{Node, Sealing};
use overlane_storage_native::vfs::RealVfs;
use overlane_storage_native::{FILES_BUDGET_BYTES, FilesStore};
use zeroize::Zeroizing;

const PRESENCE: &str = "presence";
const BEATS: u64 = 100;

/// Who is here, as of which of its beats.
#[derive(Default)]
struct Present(BTreeMap<Did, u64>);

impl Present {
    /// Takes a beat; `false` for one that says nothing new.
    fn beat(&mut self, of: Did, number: u64) -> bool {
        let known = self.0.entry(of).or_default();
        let is_new = number > *known;
        *known = number.max(*known);
        is_new
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let desk = node(folder.path().join("desk")).await?;
    let phone = node(folder.path().join("phone")).await?;
    phone
        .connect(desk.url().ok_or("the desk takes no offers")?)
        .await?;

    let mut present = Present::default();
    for number in 1..=BEATS {
        // The second of each pair is the first once more, as an application's own retry may make it.
        for _ in 0..2 {
            let body = number.to_be_bytes();
            let namespace = Namespace::new(PRESENCE)?;
            phone
                .send_as(
                    desk.did(),
                    Message::Application {
                        namespace,
                        body: &body,
                    },
                    // Sealed, the namespace would be inside, and not seen in time.
                    Sealing::Plain,
                )
                .await?;
        }
    }
    let mut acted_on = 0;
    for _ in 0..2 * BEATS {
        let beat = desk
            .messages()
            .next()
            .await
            .ok_or("the desk has shut down")?;
        let number = u64::from_be_bytes(beat.item().message().body().try_into()?);
        if present.beat(beat.item().stream().origin, number) {
            acted_on += 1;
        }
    }
    let replay = desk.status().await?.replay;
    println!(
        "{} beats came, {acted_on} said something new, {} were admitted without a write",
        2 * BEATS,
        replay.link_local
    );
    if acted_on != BEATS {
        return Err("a beat was acted on twice, or not at all".into());
    }
    phone.shutdown().await;
    desk.shutdown().await;
    Ok(())
}

/// A node of a new account that lets presence guard itself, with its records in `folder`.
async fn node(folder: PathBuf) -> Result<Node, Box<dyn Error>> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)?;
    let store = FilesStore::open(Arc::new(RealVfs), &folder, FILES_BUDGET_BYTES)?;
    let builder = Node::builder().account(Account::ed25519(seed)?);
    let builder = builder.delegate_replay(Namespace::new(PRESENCE)?);
    Ok(builder.store(Box::new(store)).spawn().await?)
}
