//! What became of a mail that a sender was given a receipt for.

use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer};
use overlane_core::{Did, TransactionDigest};

/// How a mail left its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutcomeKind {
    /// Its destination took it, and signed for that.
    Taken,
    /// It was held to its end.
    Expired,
    /// It made room for those who had less.
    Evicted,
}

impl OutcomeKind {
    /// Its one name, in events and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Expired => "expired",
            Self::Evicted => "evicted",
        }
    }
}

/// `[digest, destination, kind, at_ms]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outcome {
    /// The mail's transaction.
    pub digest: TransactionDigest,
    /// Whose mail it was.
    pub destination: Did,
    /// How it left.
    pub kind: OutcomeKind,
    /// When, by the holder's clock.
    pub at_ms: u64,
}

impl Encode for Outcome {
    fn encode(&self, writer: &mut Writer) {
        let kind = match self.kind {
            OutcomeKind::Taken => 0,
            OutcomeKind::Expired => 1,
            OutcomeKind::Evicted => 2,
        };
        let writer = writer.array(4).value(&self.digest).value(&self.destination);
        writer.uint(kind).uint(self.at_ms);
    }
}

impl<'a> Decode<'a> for Outcome {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        let (digest, destination) = (reader.value()?, reader.value()?);
        let at = reader.at();
        let kind = match reader.u8()? {
            0 => OutcomeKind::Taken,
            1 => OutcomeKind::Expired,
            2 => OutcomeKind::Evicted,
            _ => return Err(Reader::invalid(at, "outcome")),
        };
        let at_ms = reader.uint()?;
        Ok(Self {
            digest,
            destination,
            kind,
            at_ms,
        })
    }
}
