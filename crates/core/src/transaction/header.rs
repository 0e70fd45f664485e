//! The digest's transcript, and the signed header that a third party can check without the data.

use super::error::{Role, VerifyError};
use super::proof::{DelegationRef, PROOF_TTL_MAX_MS, Proof};
use crate::identity::{
    Checked, Delegation, DelegationError, Life, Signature, Verified, sealed, transcript,
};
use crate::ids::{Class, Did, NetworkId, StreamKey, TransactionDigest, TxId};
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};

/// Domain of the transaction digest.
const TRANSACTION_DOMAIN: &str = "overlane transaction";

/// Domain of a chunk's digest. Chunks of one message share its sequence, which no two transactions of
/// a stream do: so nothing signed for a chunk is a signed header of anything.
const CHUNK_DOMAIN: &str = "overlane chunk";

/// All that the digest of a transaction is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transcript {
    pub(super) network: NetworkId,
    pub(super) origin: Did,
    pub(super) destination: Did,
    pub(super) class: Class,
    pub(super) tx_id: TxId,
    pub(super) sequence: u64,
    pub(super) data_bytes: u64,
    pub(super) data_hash: [u8; 32],
    /// Whether the data is a chunk; it is in the domain.
    pub(super) chunk: bool,
}

impl Transcript {
    pub(super) fn digest(&self) -> TransactionDigest {
        let domain = if self.chunk {
            CHUNK_DOMAIN
        } else {
            TRANSACTION_DOMAIN
        };
        TransactionDigest(transcript(domain, self))
    }

    pub(super) fn stream(&self) -> StreamKey {
        StreamKey {
            network: self.network,
            origin: self.origin,
            destination: self.destination,
            class: self.class,
        }
    }
}

impl Encode for Transcript {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(8)
            .value(&self.network)
            .value(&self.origin)
            .value(&self.destination)
            .value(&self.class)
            .value(&self.tx_id)
            .value(&self.sequence)
            .value(&self.data_bytes)
            .value(&self.data_hash);
    }
}

/// All of a transaction but its data: `[destination, class, tx_id, sequence, data length, BLAKE3 of
/// the data, delegation, issued_ms, ttl_ms, signature]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHeader {
    pub(super) destination: Did,
    pub(super) class: Class,
    pub(super) tx_id: TxId,
    pub(super) sequence: u64,
    pub(super) data_bytes: u64,
    pub(super) data_hash: [u8; 32],
    pub(super) delegation: Delegation,
    pub(super) life: Life,
    pub(super) signature: Signature,
}

/// What the checks of a header establish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderFacts {
    /// The stream its transaction belongs to.
    pub stream: StreamKey,
    /// The transaction's digest.
    pub digest: TransactionDigest,
}

impl SignedHeader {
    /// The transaction's place in its stream.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The transaction's digest, if the header is true.
    pub fn digest(&self) -> TransactionDigest {
        self.transcript().digest()
    }

    /// The transaction's stream, if the header is true.
    pub fn stream(&self) -> StreamKey {
        self.transcript().stream()
    }

    /// Checks every signature, whatever the time: that the origin once signed this.
    ///
    /// # Errors
    /// A signature does not verify, or the proof was not issued within its delegation's life.
    pub fn verify(self) -> Result<Verified<Self>, VerifyError> {
        Verified::verify(self, ())
    }

    fn transcript(&self) -> Transcript {
        Transcript {
            network: self.delegation.network(),
            origin: self.delegation.did(),
            destination: self.destination,
            class: self.class,
            tx_id: self.tx_id,
            sequence: self.sequence,
            data_bytes: self.data_bytes,
            data_hash: self.data_hash,
            chunk: false,
        }
    }

    fn proof(&self) -> Proof {
        Proof {
            delegation: DelegationRef::Digest(self.delegation.digest()),
            life: self.life,
            signature: self.signature,
        }
    }
}

impl sealed::Sealed for SignedHeader {}

impl Checked for SignedHeader {
    type Context<'c> = ();
    type Facts = HeaderFacts;
    type Error = VerifyError;

    fn check(&self, (): ()) -> Result<HeaderFacts, VerifyError> {
        let role = Role::Origin;
        let transcript = self.transcript();
        let digest = transcript.digest();
        check_once_signed(role, &self.delegation, self.life, PROOF_TTL_MAX_MS)?;
        self.proof()
            .check_signature(role, role.domain(), &digest, &self.delegation)?;
        let stream = transcript.stream();
        Ok(HeaderFacts { stream, digest })
    }
}

/// Checks that `delegation` is signed and counted when something of that life was issued under it.
pub(super) fn check_once_signed(
    role: Role,
    delegation: &Delegation,
    life: Life,
    ttl_max_ms: u64,
) -> Result<(), VerifyError> {
    let did = delegation.did();
    life.check(life.issued_ms, ttl_max_ms)
        .map_err(|error| VerifyError::Life { role, did, error })?;
    let refuse = |error: DelegationError| VerifyError::Delegation { role, error };
    delegation.check_life(life.issued_ms).map_err(refuse)?;
    delegation.check_signatures().map_err(refuse)
}

impl Encode for SignedHeader {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(10)
            .value(&self.destination)
            .value(&self.class)
            .value(&self.tx_id)
            .value(&self.sequence)
            .value(&self.data_bytes)
            .value(&self.data_hash)
            .value(&self.delegation);
        self.life.encode_fields(writer).value(&self.signature);
    }
}

impl<'a> Decode<'a> for SignedHeader {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(10)?;
        let (destination, class) = (reader.value()?, reader.value()?);
        Ok(Self {
            destination,
            class,
            tx_id: reader.value()?,
            sequence: reader.value()?,
            data_bytes: reader.value()?,
            data_hash: reader.value()?,
            delegation: reader.value()?,
            life: Life::decode_fields(reader)?,
            signature: reader.value()?,
        })
    }
}
