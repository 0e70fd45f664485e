//! Numbers with a meaning: frame numbers, epochs, and the ids references have on one link.

use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer};
use std::fmt;

/// The number of a frame in one direction of a link, counted from 1 in each epoch.
/// Zero stands for "none yet".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// One life of the tables two nodes keep of each other. Ids mean nothing outside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// What a reference is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Something that takes messages.
    Object,
    /// The outcome of something still running.
    Promise,
}

/// Which end of the link chose an id. An id is written for its reader's convenience: the side flips
/// with the direction of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The sender of the frame chose it.
    Sender,
    /// The receiver of the frame chose it.
    Receiver,
}

/// A reference as a frame names it. One integer on the wire: the number, then a bit each for kind
/// and side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireId {
    /// What it refers to.
    pub kind: Kind,
    /// Who chose it.
    pub side: Side,
    /// The number, unique for its kind and side in an epoch, at most [`WireId::NUMBER_MAX`].
    pub number: u64,
}

impl WireId {
    /// The highest number: two bits of the integer are taken.
    pub const NUMBER_MAX: u64 = u64::MAX >> 2;
}

impl fmt::Display for WireId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Object => "object",
            Kind::Promise => "promise",
        };
        let side = match self.side {
            Side::Sender => "sender's",
            Side::Receiver => "receiver's",
        };
        write!(f, "{side} {kind} {}", self.number)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Encode for WireId {
    fn encode(&self, writer: &mut Writer) {
        let kind = u64::from(self.kind == Kind::Promise) << 1;
        let side = u64::from(self.side == Side::Receiver);
        writer.uint(self.number << 2 | kind | side);
    }
}

impl<'a> Decode<'a> for WireId {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let word = reader.uint()?;
        Ok(Self {
            kind: if word & 2 == 0 {
                Kind::Object
            } else {
                Kind::Promise
            },
            side: if word & 1 == 0 {
                Side::Sender
            } else {
                Side::Receiver
            },
            number: word >> 2,
        })
    }
}

macro_rules! numbers {
    ($($name:ident),*) => {$(
        impl Encode for $name {
            fn encode(&self, writer: &mut Writer) {
                writer.uint(self.0);
            }
        }

        impl<'a> Decode<'a> for $name {
            fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
                reader.uint().map(Self)
            }
        }
    )*};
}

numbers!(Seq, Epoch);
