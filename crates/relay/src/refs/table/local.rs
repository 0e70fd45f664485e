//! What this node knows of objects and promises, whatever links they are known on.

use super::names::{LinkId, Local, LocalPromise};
use crate::refs::wire::{Body, Hardness, Outcome, Reason, Seq};
use std::sync::Arc;

/// Who keeps a local row alive. The row goes when all are zero (and a promise's outcome is known).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Refs {
    /// Handles of the application, those in events it has not looked at yet included.
    pub(super) app: u32,
    /// Links to which we export it (objects) or on which it has an id (promises).
    pub(super) links: u32,
    /// Mentions in the outcomes of other promises.
    pub(super) data: u32,
    /// Mentions in messages that wait here, and holds.
    pub(super) pins: u32,
}

impl Refs {
    pub(super) fn is_zero(self) -> bool {
        self == Self::default()
    }
}

/// Where messages to an object go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    App,
    Link(LinkId),
    /// Nowhere: revoked for good, or its epoch has ended.
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Object {
    pub(super) owner: Owner,
    pub(super) refs: Refs,
    /// Kept for as long as the row.
    pub(super) revoked: Option<(Hardness, Reason)>,
    /// What messages to it are answered with. An owner keeps it until no link needs it any more, an
    /// importer as long as the row.
    pub(super) error: Option<Arc<[u8]>>,
    /// Links on which an importer may not have seen the revocation yet.
    pub(super) error_needed: u32,
}

impl Object {
    pub(super) fn new(owner: Owner) -> Self {
        Self {
            owner,
            refs: Refs::default(),
            revoked: None,
            error: None,
            error_needed: 0,
        }
    }
}

/// Who may say what a promise becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Decider {
    App,
    Link(LinkId),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum State {
    Unresolved(Decider),
    Resolved(Arc<Outcome<Local>>),
}

/// Where a message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The application of this node.
    App,
    /// A link.
    Link(LinkId),
}

/// A message that waits for the promise it was sent to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Queued {
    pub(super) from: Source,
    pub(super) body: Body<Local>,
    pub(super) result: Option<LocalPromise>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Promise {
    pub(super) state: State,
    pub(super) refs: Refs,
    /// The application holds it and was told what it became.
    pub(super) told: bool,
    /// Messages that others than this link send wait until it has acknowledged our frame of this
    /// number: what we sent it before may still come back.
    pub(super) hold: Option<(LinkId, Seq)>,
    /// Messages that wait for our own decision.
    pub(super) queue: Vec<Queued>,
    /// Messages that wait for the hold to end.
    pub(super) held: Vec<Queued>,
    /// A promise of ours that becomes what this one does.
    pub(super) followed_by: Option<LocalPromise>,
}

impl Promise {
    pub(super) fn new(decider: Decider) -> Self {
        Self {
            state: State::Unresolved(decider),
            refs: Refs::default(),
            told: false,
            hold: None,
            queue: Vec::new(),
            held: Vec::new(),
            followed_by: None,
        }
    }

    pub(super) fn decider(&self) -> Option<Decider> {
        match self.state {
            State::Unresolved(decider) => Some(decider),
            State::Resolved(_) => None,
        }
    }

    /// Its outcome, once it may be told to others.
    pub(super) fn announced(&self) -> Option<&Arc<Outcome<Local>>> {
        match &self.state {
            State::Resolved(outcome) if self.hold.is_none() => Some(outcome),
            _ => None,
        }
    }
}
