//! The destination's word that it took mail, which is what removes it.

use super::MAIL_LIFE_MAX_MS;
use crate::identity::{Statement, Subject, sealed};
use crate::ids::TransactionDigest;
use crate::wire::cbor::{CborError, CborReason, Decode, Encode, Reader, Writer};

/// The most mails one removal names.
pub const REMOVAL_DIGESTS_MAX: usize = 64;

/// The transactions that were taken: strictly ascending, at least one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemovalSubject(Vec<TransactionDigest>);

/// The signer took these transactions and wants its holders to let go of them. Who signed it says
/// whose inbox it is about; holders hand it on to each other, so that a mail that was taken does not
/// come back from one that had not heard.
pub type Removal = Statement<RemovalSubject>;

impl RemovalSubject {
    /// Names these transactions; `None` for none, or for more than [`REMOVAL_DIGESTS_MAX`].
    pub fn of(digests: impl IntoIterator<Item = TransactionDigest>) -> Option<Self> {
        let mut digests: Vec<_> = digests.into_iter().collect();
        digests.sort_unstable();
        digests.dedup();
        (1..=REMOVAL_DIGESTS_MAX)
            .contains(&digests.len())
            .then_some(Self(digests))
    }

    /// The transactions, ascending.
    pub fn digests(&self) -> &[TransactionDigest] {
        &self.0
    }
}

impl sealed::Sealed for RemovalSubject {}

impl Subject for RemovalSubject {
    const NAME: &'static str = "removal";
    const CONTEXT: &'static str = "overlane mail removal";
    const TTL_MAX_MS: u64 = MAIL_LIFE_MAX_MS;
}

impl Encode for RemovalSubject {
    fn encode(&self, writer: &mut Writer) {
        writer.list(&self.0);
    }
}

impl<'a> Decode<'a> for RemovalSubject {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let digests: Vec<TransactionDigest> = reader.list(REMOVAL_DIGESTS_MAX)?;
        if digests.is_empty() || !digests.is_sorted_by(|one, next| one < next) {
            let reason = CborReason::Invalid("removal: digests not ascending");
            return Err(CborError { at, reason });
        }
        Ok(Self(digests))
    }
}
