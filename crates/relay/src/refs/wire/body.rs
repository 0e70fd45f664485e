//! What a message holds, and what a promise becomes. Written over the kind of name: ids on the
//! wire, local references in the tables.

use super::{ERROR_MAX_BYTES, FRAME_MAX_BYTES, Kind, REFS_PER_BODY_MAX, WireId};
use overlane_core::wire::cbor::{self, CborError, CborReason, Decode, Encode, Reader, Writer};
use std::sync::Arc;

/// Why a reference no longer works. Numbers below [`Reason::FIRST_FREE`] are the protocol's own,
/// the others belong to the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(pub u32);

impl Reason {
    /// The epoch in which it was known has ended.
    pub const DISCONNECTED: Self = Self(1);
    /// A message was sent to a promise that became data.
    pub const CANNOT_SEND_TO_DATA: Self = Self(2);
    /// A message could not be forwarded: a bound of the way to its target was reached.
    pub const UNDELIVERABLE: Self = Self(3);
    /// A promise was resolved to a promise, or to itself.
    pub const RESOLVED_TO_PROMISE: Self = Self(4);
    /// The node it was for works on as many messages of that sender's as it takes.
    pub const BUSY: Self = Self(5);
    /// The program that answered is gone, and was not to be started again.
    pub const SERVICE_ENDED: Self = Self(6);
    /// A ticket that the node does not know, or knows no longer.
    pub const UNKNOWN_TICKET: Self = Self(7);
    /// The first number an application may use.
    pub const FIRST_FREE: Self = Self(256);
}

/// A place in a message for a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot<R> {
    /// A reference.
    Ref(R),
    /// What is left of a reference that was revoked for good before the message arrived.
    Broken(Reason),
}

/// A message: bytes the protocol does not look at, and the references they speak of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Body<R> {
    /// The references, in the order the bytes count them.
    pub slots: Vec<Slot<R>>,
    /// The application's bytes.
    pub bytes: Arc<[u8]>,
}

impl<R> Body<R> {
    /// A message without references.
    pub fn data(bytes: &[u8]) -> Self {
        Self {
            slots: Vec::new(),
            bytes: bytes.into(),
        }
    }

    /// A message of references only.
    pub fn of(refs: impl IntoIterator<Item = R>) -> Self {
        Self {
            slots: refs.into_iter().map(Slot::Ref).collect(),
            bytes: Arc::default(),
        }
    }

    /// The references that still work.
    pub fn refs(&self) -> impl Iterator<Item = &R> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Ref(name) => Some(name),
            Slot::Broken(_) => None,
        })
    }
}

/// What a promise became.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome<R> {
    /// One object: messages to the promise go there.
    Reference(R),
    /// Data, which takes no messages.
    Data(Body<R>),
    /// An application's refusal.
    Rejected(Body<R>),
    /// The protocol's refusal: whatever should have answered was revoked, lost or unreachable.
    Broken {
        /// Why.
        reason: Reason,
        /// What its owner said about it. It holds no references.
        error: Arc<[u8]>,
    },
}

impl<R> Outcome<R> {
    /// A refusal by the protocol that has nothing more to say.
    pub fn broken(reason: Reason) -> Self {
        Self::Broken {
            reason,
            error: Arc::default(),
        }
    }

    /// The references in it that still work.
    pub fn refs(&self) -> impl Iterator<Item = &R> {
        let (one, body) = match self {
            Self::Reference(name) => (Some(name), None),
            Self::Data(body) | Self::Rejected(body) => (None, Some(body)),
            Self::Broken { .. } => (None, None),
        };
        one.into_iter().chain(body.into_iter().flat_map(Body::refs))
    }
}

impl Encode for Reason {
    fn encode(&self, writer: &mut Writer) {
        self.0.encode(writer);
    }
}

impl<'a> Decode<'a> for Reason {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.u32().map(Self)
    }
}

/// A name, which is an integer, or a reason alone in an array.
impl<R: Encode> Encode for Slot<R> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Ref(id) => writer.value(id),
            Self::Broken(reason) => writer.array(1).value(reason),
        };
    }
}

impl<'a, R: Decode<'a>> Decode<'a> for Slot<R> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        match reader.peek()? {
            cbor::Kind::Array => {
                reader.expect_array(1)?;
                reader.value().map(Self::Broken)
            }
            _ => reader.value().map(Self::Ref),
        }
    }
}

impl<R: Encode> Encode for Body<R> {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).list(&self.slots).bytes(&self.bytes);
    }
}

impl<'a, R: Decode<'a>> Decode<'a> for Body<R> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        Ok(Self {
            slots: reader.list(REFS_PER_BODY_MAX)?,
            bytes: bounded(reader, FRAME_MAX_BYTES)?,
        })
    }
}

impl<R: Encode> Encode for Outcome<R> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Reference(id) => writer.array(2).uint(0).value(id),
            Self::Data(body) => writer.array(2).uint(1).value(body),
            Self::Rejected(body) => writer.array(2).uint(2).value(body),
            Self::Broken { reason, error } => writer.array(3).uint(3).value(reason).bytes(error),
        };
    }
}

impl<'a, R: Decode<'a>> Decode<'a> for Outcome<R> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        match (reader.u8()?, fields) {
            (0, 2) => reader.value().map(Self::Reference),
            (1, 2) => reader.value().map(Self::Data),
            (2, 2) => reader.value().map(Self::Rejected),
            (3, 3) => Ok(Self::Broken {
                reason: reader.value()?,
                error: bounded(reader, ERROR_MAX_BYTES)?,
            }),
            _ => Err(Reader::invalid(at, "outcome")),
        }
    }
}

/// A byte string of at most `bound` bytes, copied only after its length was judged.
pub(super) fn bounded(reader: &mut Reader<'_>, bound: usize) -> Result<Arc<[u8]>, CborError> {
    let at = reader.at();
    let bytes = reader.bytes()?;
    if bytes.len() > bound {
        let found = bytes.len();
        return Err(CborError {
            at,
            reason: CborReason::OverBound { bound, found },
        });
    }
    Ok(bytes.into())
}

impl<R: AsKind> Outcome<R> {
    /// Whether this would resolve a promise to another promise, which is not done: the promise is
    /// broken instead.
    pub fn is_promise(&self) -> bool {
        matches!(self, Self::Reference(name) if name.kind() == Kind::Promise)
    }
}

/// A name that knows what it refers to.
pub trait AsKind {
    /// What it refers to.
    fn kind(&self) -> Kind;
}

impl AsKind for WireId {
    fn kind(&self) -> Kind {
        self.kind
    }
}
