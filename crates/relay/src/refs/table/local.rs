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
    /// In a place of its own, as most objects never are.
    taken_back: Option<Box<TakenBack>>,
}

/// What there is to say of an object that was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TakenBack {
    /// Kept for as long as the row.
    pub(super) hardness: Hardness,
    pub(super) reason: Reason,
    /// What messages to it are answered with. An owner keeps it until no link needs it any more, an
    /// importer as long as the row.
    pub(super) error: Option<Arc<[u8]>>,
    /// Links on which an importer may not have seen the revocation yet.
    pub(super) error_needed: u32,
}

impl Object {
    pub(super) fn new(owner: Owner) -> Self {
        Self::kept(owner, Refs::default(), None)
    }

    pub(super) fn kept(owner: Owner, refs: Refs, taken_back: Option<TakenBack>) -> Self {
        Self {
            owner,
            refs,
            taken_back: taken_back.map(Box::new),
        }
    }

    pub(super) fn taken_back(&self) -> Option<&TakenBack> {
        self.taken_back.as_deref()
    }

    pub(super) fn revoked(&self) -> Option<(Hardness, Reason)> {
        let taken_back = self.taken_back()?;
        Some((taken_back.hardness, taken_back.reason))
    }

    pub(super) fn error(&self) -> Option<&Arc<[u8]>> {
        self.taken_back()?.error.as_ref()
    }

    pub(super) fn error_needed(&self) -> u32 {
        self.taken_back().map_or(0, |taken| taken.error_needed)
    }

    /// It is taken back, or taken back for good after it was softly.
    pub(super) fn take_back(&mut self, hardness: Hardness, reason: Reason, error: Arc<[u8]>) {
        let error_needed = self.error_needed();
        self.taken_back = Some(Box::new(TakenBack {
            hardness,
            reason,
            error: Some(error),
            error_needed,
        }));
    }

    /// One link more may not have seen that it was taken back.
    pub(super) fn error_is_needed(&mut self) {
        if let Some(taken_back) = &mut self.taken_back {
            taken_back.error_needed += 1;
            taken_back.error.get_or_insert_default();
        }
    }

    /// One link less.
    pub(super) fn error_was_seen(&mut self) {
        if let Some(taken_back) = &mut self.taken_back {
            taken_back.error_needed = taken_back.error_needed.saturating_sub(1);
        }
    }

    /// An owner does not keep what no link needs.
    pub(super) fn forget_error(&mut self) {
        if let Some(taken_back) = &mut self.taken_back
            && self.owner == Owner::App
            && taken_back.error_needed == 0
        {
            taken_back.error = None;
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
