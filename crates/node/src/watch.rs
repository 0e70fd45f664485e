//! What a program watches of its node: values that are there at any time, and who waits for the next one is woken.
//!
//! Unlike events, nothing can be missed that matters: a watcher that is slow sees the value as it is by then.

use std::collections::BTreeMap;

use overlane_core::Did;
use tokio::sync::watch;

use crate::link::LinkId;
use crate::node::Node;
use crate::peer::Peer;
use crate::status::StoreStatus;

/// Whether the stores of a node keep what they are given. One that fails stays so until the node is started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The record store. Unless it is durable, every send and every admission is refused.
    pub store: StoreStatus,
    /// Why the store of references failed: all about them is refused.
    pub references_failed: Option<String>,
    /// Why the store of mail failed: nothing is held, fetched or taken.
    pub mail_failed: Option<String>,
    /// Why the store of logs failed: all about groups is refused.
    pub groups_failed: Option<String>,
}

impl Health {
    /// Whether all of them do. A store that was not given is none that failed, but for the record store.
    pub const fn is_well(&self) -> bool {
        let others = self.references_failed.is_none()
            && self.mail_failed.is_none()
            && self.groups_failed.is_none();
        matches!(self.store, StoreStatus::Durable) && others
    }
}

/// What waits in a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Admitted messages that the application has not taken.
    pub messages: usize,
    /// Mails that can be taken: fetched from their holders, durable here, and taken by nobody yet.
    pub mails: usize,
    /// Sends without a result.
    pub sends: usize,
}

/// Where watchers begin.
pub(crate) struct Watches {
    pub(crate) health: watch::Receiver<Health>,
    pub(crate) waiting: watch::Receiver<Waiting>,
}

/// Tells what changed to whoever watches.
pub(crate) struct Teller {
    health: watch::Sender<Health>,
    waiting: watch::Sender<Waiting>,
    /// As it was told last.
    told: (Failed, Waiting),
    groups_failed: Option<String>,
}

/// Which stores failed: what is compared instead of the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failed {
    records: bool,
    references: bool,
    mail: bool,
    groups: bool,
}

impl Teller {
    /// Begins with the peer as it is.
    pub(crate) fn new(peer: &Peer) -> (Self, Watches) {
        let (health, watched_health) = watch::channel(health(peer, None));
        let (waiting, watched_waiting) = watch::channel(waiting(peer));
        let teller = Self {
            health,
            waiting,
            told: (failed(peer, false), self::waiting(peer)),
            groups_failed: None,
        };
        let watches = Watches {
            health: watched_health,
            waiting: watched_waiting,
        };
        (teller, watches)
    }

    /// The store of logs failed.
    pub(crate) fn groups_failed(&mut self, cause: String) {
        self.groups_failed.get_or_insert(cause);
    }

    /// Tells what is otherwise than it was told last.
    pub(crate) fn look(&mut self, peer: &Peer) {
        let now = (failed(peer, self.groups_failed.is_some()), waiting(peer));
        if now.0 != self.told.0 {
            let groups_failed = self.groups_failed.clone();
            self.health.send_replace(health(peer, groups_failed));
        }
        if now.1 != self.told.1 {
            self.waiting.send_replace(now.1);
        }
        self.told = now;
    }
}

fn failed(peer: &Peer, groups: bool) -> Failed {
    Failed {
        records: peer.engine().failure().is_some(),
        references: references_failure(peer).is_some(),
        mail: peer.mail_failure().is_some(),
        groups,
    }
}

fn references_failure(peer: &Peer) -> Option<&str> {
    peer.references()?.failure()
}

fn health(peer: &Peer, groups_failed: Option<String>) -> Health {
    Health {
        store: StoreStatus::of(peer),
        references_failed: references_failure(peer).map(str::to_owned),
        mail_failed: peer.mail_failure().map(str::to_owned),
        groups_failed,
    }
}

fn waiting(peer: &Peer) -> Waiting {
    Waiting {
        messages: peer.queues().iter().map(|(held, _)| held).sum(),
        mails: peer.mails_waiting(),
        sends: peer.pending_sends(),
    }
}

impl Node {
    // What is watched: each ends (`changed` is an error) once the node has shut down, with its last value.

    /// The links that are up, and who is at the other end of each.
    pub fn watch_links(&self) -> watch::Receiver<BTreeMap<LinkId, Did>> {
        fresh(&self.parts().up)
    }

    /// Whether its stores keep what they are given.
    pub fn watch_health(&self) -> watch::Receiver<Health> {
        fresh(&self.parts().watches.health)
    }

    /// What waits: for the application to take it, or to be sent. Messages that were refused are none.
    pub fn watch_waiting(&self) -> watch::Receiver<Waiting> {
        fresh(&self.parts().watches.waiting)
    }
}

/// A watcher that has seen the value as it is now.
fn fresh<T>(of: &watch::Receiver<T>) -> watch::Receiver<T> {
    let mut fresh = of.clone();
    fresh.mark_unchanged();
    fresh
}
