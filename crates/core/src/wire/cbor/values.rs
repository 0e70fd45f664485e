//! The small values every structure is made of.

use super::{CborError, Decode, Encode, Kind, Reader, Writer};
use crate::ids::{Class, Did, NetworkId, StreamKey, TransactionDigest, TxId};

macro_rules! uints {
    ($($uint:ty),*) => {$(
        impl Encode for $uint {
            fn encode(&self, writer: &mut Writer) {
                writer.uint(u64::from(*self));
            }
        }

        impl<'a> Decode<'a> for $uint {
            fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
                reader.uint_as()
            }
        }
    )*};
}

uints!(u8, u16, u32, u64);

macro_rules! byte_strings {
    ($($name:ident),*) => {$(
        impl Encode for $name {
            fn encode(&self, writer: &mut Writer) {
                writer.bytes(&self.0);
            }
        }

        impl<'a> Decode<'a> for $name {
            fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
                reader.byte_array().map(Self)
            }
        }
    )*};
}

byte_strings!(Did, TransactionDigest, TxId);

impl Encode for bool {
    fn encode(&self, writer: &mut Writer) {
        writer.boolean(*self);
    }
}

impl<'a> Decode<'a> for bool {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.boolean()
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(self);
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.byte_array()
    }
}

/// Null, or the value.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Some(value) => value.encode(writer),
            None => drop(writer.null()),
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        match reader.peek()? {
            Kind::Null => reader.null().map(|()| None),
            _ => T::decode(reader).map(Some),
        }
    }
}

impl Encode for NetworkId {
    fn encode(&self, writer: &mut Writer) {
        self.0.encode(writer);
    }
}

impl<'a> Decode<'a> for NetworkId {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.u32().map(Self)
    }
}

impl Encode for Class {
    fn encode(&self, writer: &mut Writer) {
        self.index().encode(writer);
    }
}

impl<'a> Decode<'a> for Class {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        Self::from_index(reader.u8()?).ok_or(Reader::invalid(at, "class"))
    }
}

impl Encode for StreamKey {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(4)
            .value(&self.network)
            .value(&self.origin)
            .value(&self.destination)
            .value(&self.class);
    }
}

impl<'a> Decode<'a> for StreamKey {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        Ok(Self {
            network: reader.value()?,
            origin: reader.value()?,
            destination: reader.value()?,
            class: reader.value()?,
        })
    }
}
