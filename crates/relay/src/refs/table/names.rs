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

/// An id on one link, seen from this node: the same for both directions. One word, as there are many:
/// a bit for its kind, one for who chose it, and the number, which has no more than 62 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id(u64);

const ID_PROMISE: u64 = 1 << 63;
const ID_PEER: u64 = 1 << 62;
const _: () = assert!(WireId::NUMBER_MAX < ID_PEER);

impl Id {
    pub(super) const fn new(kind: Kind, by: By, number: u64) -> Self {
        let kind = match kind {
            Kind::Object => 0,
            Kind::Promise => ID_PROMISE,
        };
        let by = match by {
            By::Us => 0,
            By::Peer => ID_PEER,
        };
        Self(kind | by | (number & WireId::NUMBER_MAX))
    }

    pub(super) const fn kind(self) -> Kind {
        match self.0 & ID_PROMISE {
            0 => Kind::Object,
            _ => Kind::Promise,
        }
    }

    pub(super) const fn by(self) -> By {
        match self.0 & ID_PEER {
            0 => By::Us,
            _ => By::Peer,
        }
    }

    pub(super) const fn number(self) -> u64 {
        self.0 & WireId::NUMBER_MAX
    }

    /// As a frame of the peer names it.
    pub(super) fn read(wire: WireId) -> Self {
        let by = match wire.side {
            Side::Sender => By::Peer,
            Side::Receiver => By::Us,
        };
        Self::new(wire.kind, by, wire.number)
    }

    /// As a frame of ours names it. The way back of [`Id::read`] for the peer.
    pub(super) fn written(self) -> WireId {
        WireId {
            kind: self.kind(),
            side: match self.by() {
                By::Us => Side::Sender,
                By::Peer => Side::Receiver,
            },
            number: self.number(),
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

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {}", self.by(), self.kind(), self.number())
    }
}

/// A [`Local`] in one word, as it is kept: a bit for a promise, and the number, which a node does not
/// live long enough to give 63 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Packed(u64);

const LOCAL_PROMISE: u64 = 1 << 63;

impl From<Local> for Packed {
    fn from(local: Local) -> Self {
        Self(match local {
            Local::Object(object) => object.0 & !LOCAL_PROMISE,
            Local::Promise(promise) => promise.0 | LOCAL_PROMISE,
        })
    }
}

impl From<Packed> for Local {
    fn from(packed: Packed) -> Self {
        let number = packed.0 & !LOCAL_PROMISE;
        match packed.0 & LOCAL_PROMISE {
            0 => Self::Object(LocalObject(number)),
            _ => Self::Promise(LocalPromise(number)),
        }
    }
}

impl From<LocalObject> for Packed {
    fn from(object: LocalObject) -> Self {
        Local::from(object).into()
    }
}

impl From<LocalPromise> for Packed {
    fn from(promise: LocalPromise) -> Self {
        Local::from(promise).into()
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Local::from(*self).fmt(f)
    }
}
