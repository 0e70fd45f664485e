//! The three nodes.

use std::path::Path;
use std::time::Duration;

use overlane_core::identity::Account;
use overlane_core::replay::Verdict;
use overlane_core::replay::record::{ForkRecord, Record, Table};
use overlane_core::store::Found;
use overlane_core::{Did, Fault, StreamKey};
use overlane_node::home::{Config, Home, KeyLock};
use overlane_node::{Delivery, Event, Node, Refusal};
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

use super::NETWORK;
use crate::cli::identity::new_account;
use crate::cli::output::Failure;

/// How long a node may take to say what it makes of a frame. On loopback it takes milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// One of the three.
pub(super) struct Actor {
    pub(super) name: &'static str,
    pub(super) account: Account,
    home: Home,
    running: Option<Running>,
}

struct Running {
    node: Node,
    events: Receiver<Event>,
}

/// What a node made of a frame.
pub(super) enum Answer {
    Admitted(Verdict),
    Refused(Refusal),
}

impl Actor {
    /// Makes a node in a folder of its own, and starts it.
    pub(super) async fn start(name: &'static str, folder: &Path) -> Result<Self, Failure> {
        let account = new_account()?;
        let home = Home::at(folder.join(name));
        let config = Config {
            network: NETWORK,
            ..Config::default()
        };
        home.init(&account, &config, &KeyLock::Open)?;
        let mut actor = Self {
            name,
            account,
            home,
            running: None,
        };
        actor.restart().await?;
        Ok(actor)
    }

    /// Starts the node on what its folder holds.
    pub(super) async fn restart(&mut self) -> Result<(), Failure> {
        let store = self.home.open_store(Config::default().store)?;
        let node = Node::builder()
            .network(NETWORK)
            .account(self.account.clone())
            .store(store);
        let node = node.spawn().await?;
        let events = node.events();
        self.running = Some(Running { node, events });
        Ok(())
    }

    /// Stops the node in order; its folder stays.
    pub(super) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.node.shutdown().await;
        }
    }

    pub(super) fn did(&self) -> Did {
        self.account.did()
    }

    pub(super) fn node(&self) -> Result<&Node, Failure> {
        let running = self.running.as_ref().ok_or_else(|| self.stopped())?;
        Ok(&running.node)
    }

    /// Links this node to another.
    pub(super) async fn link_to(&self, other: &Self) -> Result<(), Failure> {
        let url = other.node()?.url().unwrap_or_default();
        self.node()?.connect(url).await?;
        other.node()?.linked(self.did()).await;
        Ok(())
    }

    /// What this node makes of the frame on its way to it. An admitted message is taken, as an
    /// application would.
    pub(super) async fn answer(&mut self) -> Result<Answer, Failure> {
        let stopped = self.stopped();
        let silent = format!("{} gave no verdict within {ANSWER_WITHIN:?}", self.name);
        let running = self.running.as_mut().ok_or(stopped)?;
        let answer = timeout(ANSWER_WITHIN, running.answer()).await;
        let silent = Failure::new("demo/no_verdict", Fault::Unreachable, silent);
        answer.ok().flatten().ok_or(silent)
    }

    /// The evidence that this node, now stopped, keeps of the stream's fork.
    pub(super) fn fork_record(&self, stream: &StreamKey) -> Result<ForkRecord, Failure> {
        let mut store = self.home.open_store(Config::default().store)?;
        let name = Table::Fork.record_name(stream);
        if let Ok(Found::Bytes(bytes)) = store.show(name)
            && let Ok(Record::Fork(record)) = Record::decode_filed(&bytes, name)
        {
            return Ok(record);
        }
        let message = format!(
            "{}'s store keeps no evidence of a fork of {stream}",
            self.name
        );
        Err(Failure::new(
            "demo/no_evidence",
            Fault::StoreFailedClosed,
            message,
        ))
    }

    fn stopped(&self) -> Failure {
        let message = format!("{}'s node is stopped", self.name);
        Failure::new("demo/stopped", Fault::Usage, message)
    }
}

impl Running {
    /// `None` once the node has ended.
    async fn answer(&mut self) -> Option<Answer> {
        loop {
            match self.events.recv().await.ok()? {
                Event::Admitted { verdict, .. } => {
                    let _taken: Delivery = self.node.messages().next().await?;
                    return Some(Answer::Admitted(verdict));
                }
                Event::Refused { refusal, .. } => return Some(Answer::Refused(refusal)),
                _ => {}
            }
        }
    }
}
