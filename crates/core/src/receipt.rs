//! Admission receipts: a destination's signed word that it admitted a transaction.
//!
//! Law (durable first): a destination signs a receipt only of what its store keeps, so whoever has one knows
//! that no crash makes the transaction be admitted again. Whoever has a receipt can check it, also long
//! after: it names the stream, the sequence and the digest, and carries the delegation it is signed under.
//! It says nothing of what the application did.

use crate::fault::{Coded, Fault};
use crate::identity::{Statement, StatementError, Subject, Verified, VerifyContext, sealed};
use crate::ids::{Did, StreamKey, TransactionDigest};
use crate::replay::Verdict;
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};

/// The longest that a receipt counts: ten years of 365 days.
pub const RECEIPT_TTL_MAX_MS: u64 = 10 * 365 * 24 * 60 * 60 * 1_000;

/// The most bytes that a receipt takes.
pub const RECEIPT_MAX_BYTES: usize = 1_024;

/// How a transaction was admitted, as far as its destination remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Entered {
    /// It started its stream.
    First = 0,
    /// It moved the window up.
    Advance = 1,
    /// It filled an empty place of the window.
    Late = 2,
    /// Before the destination last started: its window says so, and no more.
    Before = 3,
}

impl Entered {
    /// What a verdict that admits says; `None` for one that does not.
    pub const fn of(verdict: Verdict) -> Option<Self> {
        match verdict {
            Verdict::First => Some(Self::First),
            Verdict::Advance { .. } => Some(Self::Advance),
            Verdict::Late => Some(Self::Late),
            Verdict::Replay | Verdict::Fork { .. } | Verdict::Stale { .. } => None,
        }
    }

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::First => "First",
            Self::Advance => "Advance",
            Self::Late => "Late",
            Self::Before => "Before",
        }
    }
}

/// `[stream, sequence, digest, entered, durable_ms]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AdmissionSubject {
    /// The stream; its destination signs.
    pub stream: StreamKey,
    /// The sequence.
    pub sequence: u64,
    /// The transaction's digest.
    pub digest: TransactionDigest,
    /// How it was admitted.
    pub entered: Entered,
    /// When it was durable at the latest, by the destination's clock, in milliseconds since the Unix
    /// epoch.
    pub durable_ms: u64,
}

/// A destination's word that it admitted a transaction.
pub type AdmissionReceipt = Statement<AdmissionSubject>;

/// Why a receipt is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// The statement does not count.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// It is signed by somebody else than the stream's destination.
    #[error("the receipt is signed by {signer}, and the stream leads to {destination}")]
    NotTheDestination {
        /// Who signed.
        signer: Did,
        /// Who should have.
        destination: Did,
    },
}

impl Coded for ReceiptError {
    fn code(&self) -> &'static str {
        match self {
            Self::Statement(error) => error.code(),
            Self::NotTheDestination { .. } => "receipt/not_the_destination",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Statement(error) => error.fault(),
            Self::NotTheDestination { .. } => Fault::PeerMisbehaved,
        }
    }
}

/// Checks a receipt at this instant: signatures, life, and that the stream's destination signed it. The network
/// is the stream's.
///
/// # Errors
/// [`ReceiptError`]
pub fn verify(
    receipt: AdmissionReceipt,
    now_ms: u64,
) -> Result<Verified<AdmissionReceipt>, ReceiptError> {
    let (signer, stream) = (receipt.signer(), receipt.subject().stream);
    let destination = stream.destination;
    if signer != destination {
        return Err(ReceiptError::NotTheDestination {
            signer,
            destination,
        });
    }
    let network = stream.network;
    Ok(Verified::verify(
        receipt,
        &VerifyContext { network, now_ms },
    )?)
}

impl sealed::Sealed for AdmissionSubject {}

impl Subject for AdmissionSubject {
    const NAME: &'static str = "admission receipt";
    const CONTEXT: &'static str = "overlane admission receipt";
    const TTL_MAX_MS: u64 = RECEIPT_TTL_MAX_MS;
}

impl Encode for AdmissionSubject {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(5)
            .value(&self.stream)
            .uint(self.sequence)
            .value(&self.digest)
            .uint(self.entered as u64)
            .uint(self.durable_ms);
    }
}

impl<'a> Decode<'a> for AdmissionSubject {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(5)?;
        let (stream, sequence, digest) = (reader.value()?, reader.uint()?, reader.value()?);
        let at = reader.at();
        let entered = match reader.u8()? {
            0 => Entered::First,
            1 => Entered::Advance,
            2 => Entered::Late,
            3 => Entered::Before,
            _ => return Err(Reader::invalid(at, "how it was admitted")),
        };
        Ok(Self {
            stream,
            sequence,
            digest,
            entered,
            durable_ms: reader.uint()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::identity::{Account, Delegatee, Delegation, Life, Signer};
    use crate::ids::{Class, NetworkId};
    use crate::wire::cbor::{from_slice, to_vec};

    const NOW: u64 = 1_900_000_000_000;
    const NETWORK: NetworkId = NetworkId(7);

    fn signer(number: u8) -> Signer {
        let account = Account::ed25519(Zeroizing::new([number; 32])).expect("an account");
        let delegatee = Delegatee::from_seed(Zeroizing::new([number + 100; 32]));
        let life = Life {
            issued_ms: NOW,
            ttl_ms: 1_000_000,
        };
        let context = VerifyContext {
            network: NETWORK,
            now_ms: NOW,
        };
        let delegation = Delegation::issue(&account, &delegatee, NETWORK, life).expect("issued");
        let delegation = delegation.verify(&context).expect("verified");
        Signer::new(delegatee, delegation).expect("its delegatee")
    }

    fn receipt(by: &Signer, destination: Did) -> AdmissionReceipt {
        let subject = AdmissionSubject {
            stream: StreamKey {
                network: NETWORK,
                origin: signer(9).did(),
                destination,
                class: Class::Application,
            },
            sequence: 5,
            digest: TransactionDigest([3; 32]),
            entered: Entered::Late,
            durable_ms: NOW,
        };
        let life = Life {
            issued_ms: NOW + 10,
            ttl_ms: RECEIPT_TTL_MAX_MS,
        };
        Statement::sign(subject, by, life).expect("signed")
    }

    #[test]
    fn law_a_receipt_is_its_destinations_and_counts_long_after_its_delegation() {
        let (one, other) = (signer(1), signer(2));
        let good = receipt(&one, one.did());
        let later = NOW + 9 * 365 * 24 * 3_600_000;
        assert!(verify(good.clone(), later).is_ok());
        let refused = |receipt, now| verify(receipt, now).expect_err("refused").code();
        assert_eq!(
            refused(good.clone(), NOW + 11 * 365 * 24 * 3_600_000),
            "statement/expired"
        );
        assert_eq!(refused(good, NOW - 10_000), "statement/from_the_future");
        let shadow = receipt(&other, one.did());
        assert_eq!(refused(shadow, later), "receipt/not_the_destination");
    }

    #[test]
    fn law_any_changed_byte_of_a_receipt_is_refused() {
        let one = signer(1);
        let bytes = to_vec(&receipt(&one, one.did()));
        assert!(bytes.len() <= RECEIPT_MAX_BYTES);
        for at in 0..bytes.len() {
            for bit in [1, 128] {
                let mut changed = bytes.clone();
                changed[at] ^= bit;
                let taken = from_slice::<AdmissionReceipt>(&changed);
                let taken = taken.ok().and_then(|it| verify(it, NOW + 20).ok());
                assert!(taken.is_none(), "byte {at}");
            }
        }
        let whole: AdmissionReceipt = from_slice(&bytes).expect("a receipt");
        assert_eq!(to_vec(&whole), bytes);
    }
}
