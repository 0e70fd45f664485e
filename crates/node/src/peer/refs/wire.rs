//! What two nodes say to each other about references, each in one application transaction.

use overlane_core::transaction::{Data, Message, Namespace};
use overlane_core::wire::bounds::DATA_MAX_BYTES;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};
use overlane_relay::refs::Limits;
use overlane_relay::refs::wire::{Epoch, FRAME_MAX_BYTES};

/// Names that begin so belong to the node itself: no application sends under one, and what comes
/// under one never reaches an application.
pub const RESERVED_NAMESPACES: &str = "overlane/";

/// The namespace that references travel in.
pub const REFERENCES_NAMESPACE: &str = "overlane/refs";

/// The tag, the heads of two arrays and of the body, and the namespace.
const AROUND_A_FRAME_BYTES: usize = 32 + REFERENCES_NAMESPACE.len();

const _: () = assert!(
    FRAME_MAX_BYTES + AROUND_A_FRAME_BYTES <= DATA_MAX_BYTES,
    "every frame of references fits a transaction"
);

/// One message about references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// Let this epoch begin.
    Begin(Epoch, Limits),
    /// It has begun here.
    Begun(Epoch, Limits),
    /// A frame of the tables.
    Frame(&'a [u8]),
}

impl<'a> Said<'a> {
    /// What the body of a message in [`REFERENCES_NAMESPACE`] says.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, CborError> {
        from_slice(body)
    }

    /// The data of the transaction that says it.
    pub(super) fn to_data(self) -> Result<Data, CborError> {
        let body = to_vec(&self);
        let namespace = Namespace::new(REFERENCES_NAMESPACE).unwrap_or_default();
        Data::parse(to_vec(&Message::Application {
            namespace,
            body: &body,
        }))
    }
}

impl Encode for Said<'_> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Begin(epoch, limits) => writer.array(3).uint(0).value(epoch).value(limits),
            Self::Begun(epoch, limits) => writer.array(3).uint(1).value(epoch).value(limits),
            Self::Frame(frame) => writer.array(2).uint(2).bytes(frame),
        };
    }
}

impl<'a> Decode<'a> for Said<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        match (reader.u8()?, fields) {
            (0, 3) => Ok(Self::Begin(reader.value()?, reader.value()?)),
            (1, 3) => Ok(Self::Begun(reader.value()?, reader.value()?)),
            (2, 2) => Ok(Self::Frame(reader.bytes()?)),
            _ => Err(Reader::invalid(at, "message about references")),
        }
    }
}

/// A call to the door of a node: the object that each end gives the other to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knock {
    /// Whoever knows this secret gets the reference that it stands for.
    Redeem([u8; 32]),
}

impl Knock {
    pub(super) fn read(body: &[u8]) -> Result<Self, CborError> {
        from_slice(body)
    }
}

impl Encode for Knock {
    fn encode(&self, writer: &mut Writer) {
        let Self::Redeem(secret) = self;
        writer.array(2).uint(0).value(secret);
    }
}

impl<'a> Decode<'a> for Knock {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        reader.expect_array(2)?;
        match reader.u8()? {
            0 => reader.value().map(Self::Redeem),
            _ => Err(Reader::invalid(at, "call to a door")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_the_largest_frame_of_references_fits_a_transaction() {
        let frame = vec![7; FRAME_MAX_BYTES];
        let data = Said::Frame(&frame).to_data().unwrap();
        let message = data.message();
        assert_eq!(Said::read(message.body()), Ok(Said::Frame(&frame)));
        for said in [
            Said::Begin(Epoch(u64::MAX >> 2), Limits::default()),
            Said::Begun(Epoch(1), Limits::default()),
        ] {
            let data = said.to_data().unwrap();
            assert_eq!(Said::read(data.message().body()), Ok(said));
        }
        assert!(Said::read(&[0x82, 9, 9]).is_err());
    }
}
