//! Names inside a node, and ids as a table keeps them.

use crate::refs::wire::{AsKind, Kind, Side, WireId};
use std::fmt;

/// A link of this node, named by the driver for the life of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// An object known to this node: its own, or one it imported. Never used again for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalObject(pub u64);

/// A promise known to this node. Never used again for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalPromise(pub u64);

/// A reference as the application of this node holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Local {
    /// An object.
    Object(LocalObject),
    /// A promise.
    Promise(LocalPromise),
}

impl AsKind for Local {
    fn kind(&self) -> Kind {
        match self {
            Self::Object(_) => Kind::Object,
            Self::Promise(_) => Kind::Promise,
        }
    }
}

impl From<LocalObject> for Local {
    fn from(object: LocalObject) -> Self {
        Self::Object(object)
    }
}

impl From<LocalPromise> for Local {
    fn from(promise: LocalPromise) -> Self {
        Self::Promise(promise)
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for LocalObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for LocalPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which end of a link chose an id, seen from this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum By {
    Us,
    Peer,
}

/// An id on one link, seen from this node: the same for both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id {
    pub(super) kind: Kind,
    pub(super) by: By,
    pub(super) number: u64,
}

impl Id {
    /// As a frame of the peer names it.
    pub(super) fn read(wire: WireId) -> Self {
        Self {
            kind: wire.kind,
            by: match wire.side {
                Side::Sender => By::Peer,
                Side::Receiver => By::Us,
            },
            number: wire.number,
        }
    }

    /// As a frame of ours names it. The way back of [`Id::read`] for the peer.
    pub(super) fn written(self) -> WireId {
        WireId {
            kind: self.kind,
            side: match self.by {
                By::Us => Side::Sender,
                By::Peer => Side::Receiver,
            },
            number: self.number,
        }
    }

    /// As a frame of the peer names it, for a message about that frame.
    pub(super) fn as_read(self) -> WireId {
        let written = self.written();
        WireId {
            side: match written.side {
                Side::Sender => Side::Receiver,
                Side::Receiver => Side::Sender,
            },
            ..written
        }
    }
}
