//! A holder's word that it keeps a mail: when it took it and for how long.

use super::MAIL_LIFE_MAX_MS;
use crate::identity::{Statement, Subject, sealed};
use crate::ids::TransactionDigest;
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};

/// How long a holder keeps a mail unless asked otherwise: a day.
pub const MAIL_LIFE_DEFAULT_MS: u64 = 24 * 3_600 * 1_000;

const _: () = assert!(MAIL_LIFE_DEFAULT_MS <= MAIL_LIFE_MAX_MS);

/// The transaction that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HoldSubject(pub TransactionDigest);

/// The holder states that it holds a transaction: `issued_ms` is the hold instant, and it keeps the
/// mail until its last instant. Beside the payload it is what the destination judges by; alone it is
/// the sender's holding receipt.
pub type HoldProof = Statement<HoldSubject>;

impl HoldProof {
    /// The transaction held.
    pub fn digest(&self) -> TransactionDigest {
        self.subject().0
    }

    /// The hold instant, by the holder's clock.
    pub fn held_ms(&self) -> u64 {
        self.life().issued_ms
    }

    /// The last instant at which it is kept.
    pub fn until_ms(&self) -> u64 {
        self.life().last_ms()
    }
}

impl sealed::Sealed for HoldSubject {}

impl Subject for HoldSubject {
    const NAME: &'static str = "hold proof";
    const CONTEXT: &'static str = "overlane held mail";
    const TTL_MAX_MS: u64 = MAIL_LIFE_MAX_MS;
}

impl Encode for HoldSubject {
    fn encode(&self, writer: &mut Writer) {
        writer.value(&self.0);
    }
}

impl<'a> Decode<'a> for HoldSubject {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.value().map(Self)
    }
}
