//! Rows as bytes: what a store keeps, in the one form of everything that is stored.

use super::Next;
use super::link::{Due, Entry, Head, Pending, Sent, Tombstone, Way};
use super::local::{Decider, Object, Owner, Promise, Queued, Refs, Source, State, TakenBack};
use super::names::{By, Id, LinkId, Local, LocalObject, LocalPromise, Packed};
use crate::refs::wire::{FRAME_MAX_BYTES, Hardness, Reason, Seq, Side, WireId};
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer};
use std::sync::Arc;

/// Values that are one integer.
macro_rules! numbers {
    ($($name:ident),*) => {$(
        impl Encode for $name {
            fn encode(&self, writer: &mut Writer) {
                self.0.encode(writer);
            }
        }

        impl<'a> Decode<'a> for $name {
            fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
                reader.value().map(Self)
            }
        }
    )*};
}

numbers!(LinkId, LocalObject, LocalPromise);

/// Structures that are an array of their fields.
macro_rules! structures {
    ($($name:ident { $($field:ident),* $(,)? })*) => {$(
        impl Encode for $name {
            fn encode(&self, writer: &mut Writer) {
                writer.array([$(stringify!($field)),*].len());
                $(self.$field.encode(writer);)*
            }
        }

        impl<'a> Decode<'a> for $name {
            fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
                reader.expect_array([$(stringify!($field)),*].len())?;
                Ok(Self { $($field: reader.value()?),* })
            }
        }
    )*};
}

structures! {
    Next { object, promise }
    Refs { app, links, data, pins }
    Entry {
        local, way, last_mentioned, last_targeted, passed, retiring, revoked, needs_error,
    }
    Head {
        sent, recv, unacked_in, acked_by_frames, peer_acked, next_object, next_promise, high_object,
        high_promise, exports, imports, our_promises, peer_promises, soft_violations,
        introductions_since_ms, introductions, frames_since_ms, frames, ack_due_ms, probe_due_ms,
        connected_since_ms, asked_ms, resent_ms,
    }
    Queued { from, body, result }
}

impl Encode for Way {
    fn encode(&self, writer: &mut Writer) {
        writer.uint(match self {
            Self::Export => 0,
            Self::Import => 1,
            Self::Promise => 2,
        });
    }
}

impl<'a> Decode<'a> for Way {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        match reader.u8()? {
            0 => Ok(Self::Export),
            1 => Ok(Self::Import),
            2 => Ok(Self::Promise),
            _ => Err(Reader::invalid(at, "way")),
        }
    }
}

/// One integer, of which the lowest bit tells a promise.
impl Encode for Local {
    fn encode(&self, writer: &mut Writer) {
        writer.uint(match self {
            Self::Object(object) => object.0 << 1,
            Self::Promise(promise) => promise.0 << 1 | 1,
        });
    }
}

impl<'a> Decode<'a> for Local {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let word = reader.uint()?;
        Ok(if word & 1 == 0 {
            Self::Object(LocalObject(word >> 1))
        } else {
            Self::Promise(LocalPromise(word >> 1))
        })
    }
}

impl Encode for Packed {
    fn encode(&self, writer: &mut Writer) {
        Local::from(*self).encode(writer);
    }
}

impl<'a> Decode<'a> for Packed {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        Local::decode(reader).map(Self::from)
    }
}

/// As our own frames write it.
impl Encode for Id {
    fn encode(&self, writer: &mut Writer) {
        self.written().encode(writer);
    }
}

impl<'a> Decode<'a> for Id {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let WireId { kind, side, number } = reader.value()?;
        let by = match side {
            Side::Sender => By::Us,
            Side::Receiver => By::Peer,
        };
        Ok(Self::new(kind, by, number))
    }
}

/// The application is null.
impl Encode for Source {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::App => writer.null(),
            Self::Link(link) => writer.value(link),
        };
    }
}

impl<'a> Decode<'a> for Source {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        Ok(reader
            .value::<Option<LinkId>>()?
            .map_or(Self::App, Self::Link))
    }
}

/// The application is null.
impl Encode for Decider {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::App => writer.null(),
            Self::Link(link) => writer.value(link),
        };
    }
}

impl<'a> Decode<'a> for Decider {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        Ok(reader
            .value::<Option<LinkId>>()?
            .map_or(Self::App, Self::Link))
    }
}

impl Encode for Owner {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::App => writer.array(1).uint(0),
            Self::Gone => writer.array(1).uint(1),
            Self::Link(link) => writer.array(2).uint(2).value(link),
        };
    }
}

impl<'a> Decode<'a> for Owner {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        match (reader.u8()?, fields) {
            (0, 1) => Ok(Self::App),
            (1, 1) => Ok(Self::Gone),
            (2, 2) => reader.value().map(Self::Link),
            _ => Err(Reader::invalid(at, "owner")),
        }
    }
}

/// A pair of values, which is an array of both.
struct Pair<A, B>(A, B);

impl<A: Encode, B: Encode> Encode for Pair<A, B> {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).value(&self.0).value(&self.1);
    }
}

impl<'a, A: Decode<'a>, B: Decode<'a>> Decode<'a> for Pair<A, B> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        Ok(Self(reader.value()?, reader.value()?))
    }
}

/// A byte string that is shared.
struct Shared(Arc<[u8]>);

impl Encode for Shared {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.0);
    }
}

impl<'a> Decode<'a> for Shared {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        Ok(Self(reader.bytes()?.into()))
    }
}

impl Encode for Object {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(5)
            .value(&self.owner)
            .value(&self.refs)
            .value(
                &self
                    .revoked()
                    .map(|(hardness, reason)| Pair(hardness, reason)),
            )
            .value(&self.error().cloned().map(Shared))
            .value(&self.error_needed());
    }
}

impl<'a> Decode<'a> for Object {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        reader.expect_array(5)?;
        let (owner, refs) = (reader.value()?, reader.value()?);
        let revoked = revoked(reader)?;
        let error = reader.value::<Option<Shared>>()?.map(|error| error.0);
        let error_needed = reader.value()?;
        let taken_back = match revoked {
            Some((hardness, reason)) => Some(TakenBack {
                hardness,
                reason,
                error,
                error_needed,
            }),
            None if error.is_none() && error_needed == 0 => None,
            None => return Err(Reader::invalid(at, "error of what was not revoked")),
        };
        Ok(Self::kept(owner, refs, taken_back))
    }
}

fn revoked(reader: &mut Reader<'_>) -> Result<Option<(Hardness, Reason)>, CborError> {
    let pair = reader.value::<Option<Pair<Hardness, Reason>>>()?;
    Ok(pair.map(|Pair(hardness, reason)| (hardness, reason)))
}

impl Encode for Promise {
    fn encode(&self, writer: &mut Writer) {
        writer.array(7);
        match &self.state {
            State::Unresolved(decider) => writer.array(2).uint(0).value(decider),
            State::Resolved(outcome) => writer.array(2).uint(1).value(&**outcome),
        };
        writer
            .value(&self.refs)
            .value(&self.told)
            .value(&self.hold.map(|(link, seq)| Pair(link, seq)))
            .list(&self.queue)
            .list(&self.held)
            .value(&self.followed_by);
    }
}

impl<'a> Decode<'a> for Promise {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(7)?;
        reader.expect_array(2)?;
        let at = reader.at();
        let state = match reader.u8()? {
            0 => State::Unresolved(reader.value()?),
            1 => State::Resolved(Arc::new(reader.value()?)),
            _ => return Err(Reader::invalid(at, "state of a promise")),
        };
        let refs = reader.value()?;
        let told = reader.value()?;
        let hold = reader.value::<Option<Pair<LinkId, Seq>>>()?;
        Ok(Self {
            state,
            refs,
            told,
            hold: hold.map(|Pair(link, seq)| (link, seq)),
            queue: reader.list(FRAME_MAX_BYTES)?,
            held: reader.list(FRAME_MAX_BYTES)?,
            followed_by: reader.value()?,
        })
    }
}

impl Encode for Tombstone {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(3)
            .value(&self.dropped)
            .value(&self.last_mentioned)
            .value(
                &self
                    .revoked
                    .map(|(hardness, reason)| Pair(hardness, reason)),
            );
    }
}

impl<'a> Decode<'a> for Tombstone {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(3)?;
        Ok(Self {
            dropped: reader.value()?,
            last_mentioned: reader.value()?,
            revoked: revoked(reader)?,
        })
    }
}

impl Encode for Pending {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::RetirePromise(id) => writer.array(2).uint(0).value(id),
            Self::Revoked(id, hardness) => writer.array(3).uint(1).value(id).value(hardness),
            Self::DropSent(id) => writer.array(2).uint(2).value(id),
        };
    }
}

impl<'a> Decode<'a> for Pending {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        match (reader.u8()?, fields) {
            (0, 2) => reader.value().map(Self::RetirePromise),
            (1, 3) => Ok(Self::Revoked(reader.value()?, reader.value()?)),
            (2, 2) => reader.value().map(Self::DropSent),
            _ => Err(Reader::invalid(at, "pending row")),
        }
    }
}

impl Encode for Due {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Revoke(object) => writer.array(2).uint(0).value(object),
            Self::Resolve(promise) => writer.array(2).uint(1).value(promise),
            Self::Drop(id) => writer.array(2).uint(2).value(id),
        };
    }
}

impl<'a> Decode<'a> for Due {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        let at = reader.at();
        match reader.u8()? {
            0 => reader.value().map(Self::Revoke),
            1 => reader.value().map(Self::Resolve),
            2 => reader.value().map(Self::Drop),
            _ => Err(Reader::invalid(at, "what is due")),
        }
    }
}

impl Encode for Sent {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).bytes(&self.bytes).value(&self.at_ms);
    }
}

impl<'a> Decode<'a> for Sent {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        Ok(Self {
            bytes: reader.bytes()?.into(),
            at_ms: reader.value()?,
        })
    }
}
