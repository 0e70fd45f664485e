//! Nodes as processes that keep each other's mail, watched by what they say of it.

#![allow(dead_code, reason = "each test file uses its part of it")]

use std::collections::BTreeMap;
use std::fs::File;

use overlane_node::api::{Client, EventLine, InboxReport};
use overlane_node::home::Home;
use tokio::sync::watch;
use tokio::task::block_in_place;

use crate::support::{Daemon, Place, Running};

/// A node, running or not.
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) did: String,
    pub(crate) did_key: String,
    mails_kept: u64,
    life: Option<Life>,
}

/// One life of a node, watched.
struct Life {
    daemon: Daemon,
    seen: watch::Receiver<Seen>,
}

/// What a node has said of mail in this life.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Who holds its own.
    pub(crate) holders: Vec<String>,
    /// What it holds, by account.
    pub(crate) holds: BTreeMap<String, u64>,
    /// What became of its own, by digest.
    pub(crate) ended: BTreeMap<String, String>,
    /// Mails that came into custody.
    pub(crate) came: usize,
}

impl Node {
    fn new(mails_kept: u64) -> Self {
        Self::at(Place::with_node(), mails_kept)
    }

    /// The node of this place.
    pub(crate) fn at(place: Place, mails_kept: u64) -> Self {
        let id = place.overlane(["id", "--json"]).json();
        let word = |name: &str| id[name].as_str().expect("text").to_owned();
        Self {
            did: word("did"),
            did_key: word("did_key"),
            place,
            mails_kept,
            life: None,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::of(&Home::at(self.place.home()))
    }

    pub(crate) async fn start(&mut self) {
        let mut run = self.place.command(["run", "--json"]);
        run.env("OVERLANE_INBOX_MAILS", self.mails_kept.to_string());
        let mut log = File::options();
        let log = log.create(true).append(true);
        let log = log.open(self.place.dir.path().join("log"));
        let mut running = Running::with_log(run, log.expect("a log"));
        let up = running.line();
        assert_eq!(up["up"], true, "{up}");
        let daemon = Daemon { running, up };
        let seen = watch_mail(&self.client()).await;
        self.life = Some(Life { daemon, seen });
    }

    fn life(&mut self) -> &mut Life {
        self.life.as_mut().expect("it runs")
    }

    /// Where it takes offers.
    pub(crate) fn url(&self) -> String {
        let life = self.life.as_ref().expect("it runs");
        life.daemon.url().to_owned()
    }

    /// Ends in order.
    pub(crate) fn stop(&mut self) {
        let mut life = self.life.take().expect("it runs");
        let ended = block_in_place(|| life.daemon.running.terminate());
        assert_eq!(ended, Some(0), "{}", self.log());
    }

    /// Ends as by a loss of power.
    pub(crate) fn kill(&mut self) {
        let mut life = self.life.take().expect("it runs");
        life.daemon.running.kill();
    }

    /// Waits until what it said of mail is so.
    pub(crate) async fn until(&mut self, is_so: impl FnMut(&Seen) -> bool) {
        let did = self.did.clone();
        let seen = self.life().seen.wait_for(is_so).await;
        assert!(seen.is_ok(), "{did} ended");
    }

    /// Waits until it holds so many mails for that account.
    pub(crate) async fn holds(&mut self, account: &str, mails: u64) {
        let held = |seen: &Seen| seen.holds.get(account).copied().unwrap_or_default();
        self.until(|seen| held(seen) == mails).await;
    }

    pub(crate) async fn inbox(&self) -> InboxReport {
        self.client().get("/v1/inbox").await.expect("a report")
    }

    fn log(&self) -> String {
        let log = std::fs::read(self.place.dir.path().join("log"));
        String::from_utf8_lossy(&log.expect("a log")).into_owned()
    }
}

/// What a node says of mail from its start on: what it knows now, and every event.
async fn watch_mail(client: &Client) -> watch::Receiver<Seen> {
    let mut lines = client.lines("/v1/events").await.expect("events");
    let begin = lines.next().await.expect("a line");
    assert!(matches!(begin, Some(EventLine::Watching { .. })));
    let report: InboxReport = client.get("/v1/inbox").await.expect("a report");
    let holds = report.inboxes.into_iter().map(|it| (it.owner, it.mails));
    let ended = report.ended.into_iter().map(|it| (it.digest, it.outcome));
    let (says, seen) = watch::channel(Seen {
        came: report.waiting.len(),
        holders: report.holders.into_iter().map(|it| it.did).collect(),
        holds: holds.collect(),
        ended: ended.collect(),
    });
    // Ends with the daemon.
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next::<EventLine>().await {
            says.send_modify(|seen| match line {
                EventLine::MailHolders { holders } => seen.holders = holders,
                EventLine::MailHolds { owner, mails } => {
                    seen.holds.insert(owner, mails);
                }
                EventLine::MailEnded {
                    digest, outcome, ..
                } => {
                    seen.ended.insert(digest, outcome);
                }
                EventLine::MailWaits { .. } => seen.came += 1,
                EventLine::Missed { count } => panic!("{count} events were missed"),
                _ => {}
            });
        }
    });
    seen
}

/// So many nodes in a ring at rest, in its order: each knows who holds its mail. All dial the first.
pub(crate) async fn ring_of(count: usize, mails_kept: u64) -> Vec<Node> {
    ring_with((0..count).map(|_| Node::new(mails_kept)).collect()).await
}

/// The same of these nodes.
pub(crate) async fn ring_with(mut nodes: Vec<Node>) -> Vec<Node> {
    let count = nodes.len();
    nodes.sort_by(|one, next| one.did.cmp(&next.did));
    nodes[0].start().await;
    let url = nodes[0].url();
    for node in &mut nodes[1..] {
        let added = node.place.overlane(["peer", "add", &url, "--json"]);
        assert_eq!(added.code, 0, "{added:?}");
        node.start().await;
    }
    let dids: Vec<String> = nodes.iter().map(|it| it.did.clone()).collect();
    let chain = 3.min(count - 1);
    for (at, node) in nodes.iter_mut().enumerate() {
        let behind = dids.iter().cycle().skip(at + 1).take(chain);
        let behind: Vec<String> = behind.cloned().collect();
        node.until(|seen| seen.holders == behind).await;
    }
    nodes
}
