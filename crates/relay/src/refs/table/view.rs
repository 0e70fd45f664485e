//! What the tables say when they are asked.

use super::Tables;
use super::link::{Pending, Way};
use super::local::{Decider, Object, Owner, Promise, State};
use super::names::{LinkId, Local, LocalObject, LocalPromise};
use crate::refs::wire::{Epoch, Hardness, Outcome, Reason, Seq, WireId};

/// What an object is to this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectState {
    /// Messages reach it.
    Live,
    /// Messages are refused; it is still itself.
    Revoked(Reason),
    /// It is gone: revoked for good, or lost with its link.
    Broken(Reason),
}

/// What a promise is to this node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PromiseState {
    /// The application resolves it.
    Open,
    /// Another node resolves it.
    Elsewhere(LinkId),
    /// It became something.
    Resolved(Outcome<Local>),
}

/// The numbers of a link, for metrics and for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkView {
    /// Its epoch.
    pub epoch: Epoch,
    /// Our newest frame.
    pub sent: Seq,
    /// The peer's newest frame that was processed.
    pub recv: Seq,
    /// Our newest frame that the peer acknowledged.
    pub acked: Seq,
    /// Objects that the peer holds of ours.
    pub exports: usize,
    /// Objects that we hold of the peer's.
    pub imports: usize,
    /// Promises with a name on the link.
    pub promises: usize,
    /// Rows that wait for an acknowledgement.
    pub pending: usize,
    /// Dropped names whose DROP was not acknowledged.
    pub tombstones: usize,
    /// Frames that may have to be sent again.
    pub outbox: usize,
    /// Revocations whose error is kept for the peer.
    pub revokes_outstanding: usize,
    /// What waits for the window to open.
    pub due: usize,
}

/// A name that a reference has on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name {
    /// As a frame of ours writes it.
    pub id: WireId,
    /// What is behind it.
    pub local: Local,
    /// Whether messages to it come here: an object of this side, or a promise it decides.
    pub ours: bool,
    /// Whether the object was taken back, and why.
    pub revoked: Option<Reason>,
}

/// A reference that concerns the application of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Concern {
    /// The reference.
    pub local: Local,
    /// How many handles the application has.
    pub handles: u32,
    /// Whether it is an object of the application's own.
    pub own: bool,
}

impl Tables {
    /// Everything that the application owns or has a handle of, in order: what a driver that starts
    /// again compares with what it knows of.
    pub fn concerns(&self) -> impl Iterator<Item = Concern> {
        let objects = self.objects.iter().map(|(&object, row)| Concern {
            local: object.into(),
            handles: row.refs.app,
            own: row.owner == Owner::App,
        });
        let promises = self.promises.iter().map(|(&promise, row)| Concern {
            local: promise.into(),
            handles: row.refs.app,
            own: false,
        });
        let all = objects.chain(promises);
        all.filter(|concern| concern.own || concern.handles > 0)
    }

    /// The names on a link, in order.
    pub fn names(&self, link: LinkId) -> impl Iterator<Item = Name> {
        let tables = self.links.get(&link).into_iter();
        let entries = tables.flat_map(|table| table.entries.iter());
        entries.map(move |(id, entry)| {
            let (ours, revoked) = match entry.local() {
                Local::Object(object) => {
                    let row = self.objects.get(&object);
                    let revoked = row.and_then(Object::revoked);
                    (entry.way == Way::Export, revoked.map(|(_, reason)| reason))
                }
                Local::Promise(promise) => {
                    let row = self.promises.get(&promise);
                    let decider = row.and_then(Promise::decider);
                    (decider != Some(Decider::Link(link)), None)
                }
            };
            Name {
                id: id.written(),
                local: entry.local(),
                ours,
                revoked,
            }
        })
    }

    /// What an object is, if it is known.
    pub fn object(&self, object: LocalObject) -> Option<ObjectState> {
        let row = self.objects.get(&object)?;
        Some(match (row.revoked(), row.owner) {
            (None, Owner::Gone) => ObjectState::Broken(Reason::DISCONNECTED),
            (None, _) => ObjectState::Live,
            (Some((Hardness::Soft, reason)), Owner::App | Owner::Link(_)) => {
                ObjectState::Revoked(reason)
            }
            (Some((_, reason)), _) => ObjectState::Broken(reason),
        })
    }

    /// The link whose other end an object belongs to, as long as that lasts.
    pub fn owner(&self, object: LocalObject) -> Option<LinkId> {
        match self.objects.get(&object)?.owner {
            Owner::Link(link) => Some(link),
            Owner::App | Owner::Gone => None,
        }
    }

    /// Whether an object is the application's own.
    pub fn is_own(&self, object: LocalObject) -> bool {
        let row = self.objects.get(&object);
        row.is_some_and(|row| row.owner == Owner::App)
    }

    /// What a promise is, if it is known. What it became is told once it may be.
    pub fn promise(&self, promise: LocalPromise) -> Option<PromiseState> {
        let row = self.promises.get(&promise)?;
        Some(match &row.state {
            State::Unresolved(Decider::App) => PromiseState::Open,
            State::Unresolved(Decider::Link(link)) => PromiseState::Elsewhere(*link),
            State::Resolved(outcome) => match row.hold {
                None => PromiseState::Resolved(Outcome::clone(outcome)),
                Some((link, _)) => PromiseState::Elsewhere(link),
            },
        })
    }

    /// How many handles of a reference the application holds.
    pub fn handles(&self, local: Local) -> u32 {
        let refs = match local {
            Local::Object(object) => self.objects.get(&object).map(|row| row.refs),
            Local::Promise(promise) => self.promises.get(&promise).map(|row| row.refs),
        };
        refs.map_or(0, |refs| refs.app)
    }

    /// The links whose peers hold an object of the application's.
    pub fn importers(&self, object: LocalObject) -> impl Iterator<Item = LinkId> {
        self.links.iter().filter_map(move |(&link, table)| {
            let id = table.by_local.get(&object.into())?;
            (table.entries.get(id)?.way == Way::Export).then_some(link)
        })
    }

    /// Whether the error of a revoked object is still kept.
    pub fn keeps_error(&self, object: LocalObject) -> bool {
        self.objects
            .get(&object)
            .is_some_and(|row| row.error().is_some())
    }

    /// How many objects and promises are known.
    pub fn known(&self) -> (usize, usize) {
        (self.objects.len(), self.promises.len())
    }

    /// The links that have an epoch.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        self.links.keys().copied()
    }

    /// The numbers of a link.
    pub fn link(&self, link: LinkId) -> Option<LinkView> {
        let table = self.links.get(&link)?;
        let head = table.head.get();
        let promises = table.entries.iter().filter(|(_, e)| e.way == Way::Promise);
        let revokes = table.pending.iter();
        let revokes = revokes.filter(|(_, row)| matches!(row, Pending::Revoked(..)));
        Some(LinkView {
            epoch: table.epoch,
            sent: head.sent,
            recv: head.recv,
            acked: head.peer_acked,
            exports: head.exports as usize,
            imports: head.imports as usize,
            promises: promises.count(),
            pending: table.pending.len(),
            tombstones: table.tombstones.len(),
            outbox: table.outbox.len(),
            revokes_outstanding: revokes.count(),
            due: table.due.len(),
        })
    }
}
