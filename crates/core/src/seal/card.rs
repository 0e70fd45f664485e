//! Contact cards: an account's word on the key that things are sealed to.
//!
//! An Ed25519 account needs none, its own key is one to seal to. An account of another kind, and one
//! that keeps its account key away from the node, hands out a card.

use super::key::SealingKey;
use crate::identity::{Statement, StatementError, Subject, Verified, VerifyContext, sealed};
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};

/// The longest a contact card counts: thirty days. A lost sealing key is harmful no longer for those
/// who ask again.
pub const CARD_TTL_MAX_MS: u64 = 30 * 24 * 3_600 * 1_000;

/// The key an account's mail is sealed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CardSubject(pub SealingKey);

/// A signed contact card: the account is its signer.
pub type ContactCard = Statement<CardSubject>;

impl ContactCard {
    /// The card, if it counts now.
    ///
    /// # Errors
    /// It does not.
    pub fn verify(self, context: &VerifyContext) -> Result<Verified<Self>, StatementError> {
        Verified::verify(self, context)
    }
}

impl sealed::Sealed for CardSubject {}

impl Subject for CardSubject {
    const NAME: &'static str = "contact card";
    const CONTEXT: &'static str = "overlane contact card";
    const TTL_MAX_MS: u64 = CARD_TTL_MAX_MS;
}

impl Encode for CardSubject {
    fn encode(&self, writer: &mut Writer) {
        writer.value(&self.0);
    }
}

impl<'a> Decode<'a> for CardSubject {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.value().map(Self)
    }
}
