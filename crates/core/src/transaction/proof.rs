//! A delegatee's signature, the delegation it is under, and when it counts.

use super::error::{Role, VerifyError};
use crate::identity::{
    Delegation, DelegationDigest, Life, Signature, Signer, Verified, VerifyContext, transcript,
};
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};
use std::sync::Arc;

/// How long a proof counts unless asked otherwise: ten minutes.
pub const PROOF_TTL_DEFAULT_MS: u64 = 600_000;

/// The longest a proof may count.
pub const PROOF_TTL_MAX_MS: u64 = 6_000_000;

const _: () = assert!(PROOF_TTL_DEFAULT_MS <= PROOF_TTL_MAX_MS);

/// How a proof names its delegation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DelegationRef {
    /// Whole, not verified yet.
    Inline(Arc<Delegation>),
    /// By the digest of one the receiver confirmed.
    Digest(DelegationDigest),
    /// Verified earlier; only its network and life are asked again. It is written inline.
    Known(Arc<Verified<Delegation>>),
}

impl DelegationRef {
    /// The digest of the delegation named.
    pub fn digest(&self) -> DelegationDigest {
        match self {
            Self::Inline(delegation) => delegation.digest(),
            Self::Digest(digest) => *digest,
            Self::Known(delegation) => delegation.digest(),
        }
    }

    /// The delegation named, unless it is named by digest.
    pub fn delegation(&self) -> Option<&Delegation> {
        match self {
            Self::Inline(delegation) => Some(delegation),
            Self::Digest(_) => None,
            Self::Known(delegation) => Some(delegation),
        }
    }

    /// Replaces what is named by a verified one, where it is the same. An inline delegation is the
    /// same only if all of it is: a digest's 160 bits do not stand for a signature.
    pub fn resolve(&mut self, known: &Arc<Verified<Delegation>>) {
        let same = match self {
            Self::Inline(delegation) => **delegation == ***known,
            Self::Digest(digest) => *digest == known.digest(),
            Self::Known(_) => false,
        };
        if same {
            *self = Self::Known(Arc::clone(known));
        }
    }
}

impl Encode for DelegationRef {
    fn encode(&self, writer: &mut Writer) {
        match self.delegation() {
            Some(delegation) => writer.array(2).uint(0).value(delegation),
            None => writer.array(2).uint(1).value(&self.digest()),
        };
    }
}

impl<'a> Decode<'a> for DelegationRef {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        let at = reader.at();
        match reader.uint()? {
            0 => reader.value().map(Arc::new).map(Self::Inline),
            1 => reader.value().map(Self::Digest),
            _ => Err(Reader::invalid(at, "delegation reference")),
        }
    }
}

/// `[delegation reference, issued_ms, ttl_ms, signature]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    pub(super) delegation: DelegationRef,
    pub(super) life: Life,
    pub(super) signature: Signature,
}

impl Proof {
    /// Signs `subject` in `domain`.
    pub(super) fn sign(domain: &str, subject: &impl Encode, signer: &Signer, life: Life) -> Self {
        let delegation = signer.delegation();
        let signed = Signed(subject, delegation.digest(), life);
        Self {
            delegation: DelegationRef::Known(Arc::clone(delegation)),
            life,
            signature: signer.sign(&transcript(domain, &signed)),
        }
    }

    /// How it names its delegation.
    pub fn delegation(&self) -> &DelegationRef {
        &self.delegation
    }

    /// When it counts.
    pub fn life(&self) -> Life {
        self.life
    }

    /// Checks life, delegation and signature, and gives the delegation back verified.
    pub(super) fn check(
        &self,
        role: Role,
        subject: &impl Encode,
        context: &VerifyContext,
    ) -> Result<Arc<Verified<Delegation>>, VerifyError> {
        let digest = self.delegation.digest();
        let unknown = VerifyError::UnknownDelegation { role, digest };
        let delegation = self.delegation.delegation().ok_or(unknown)?;
        let did = delegation.did();
        self.life
            .check(context.now_ms, PROOF_TTL_MAX_MS)
            .map_err(|error| VerifyError::Life { role, did, error })?;
        // Under a delegation that counts now and counted then: what verifies here makes a header that
        // verifies anywhere, so nobody signs a fork that cannot be shown.
        delegation
            .check_live(context)
            .and_then(|()| delegation.check_life(self.life.issued_ms))
            .map_err(|error| VerifyError::Delegation { role, error })?;
        // The signature before the delegation's two: a forger pays us the least work.
        self.check_signature(role, role.domain(), subject, delegation)?;
        match &self.delegation {
            DelegationRef::Known(known) => Ok(Arc::clone(known)),
            _ => Verified::verify(delegation.clone(), context)
                .map(Arc::new)
                .map_err(|error| VerifyError::Delegation { role, error }),
        }
    }

    /// Checks the signature alone.
    pub(super) fn check_signature(
        &self,
        role: Role,
        domain: &str,
        subject: &impl Encode,
        delegation: &Delegation,
    ) -> Result<(), VerifyError> {
        let signed = transcript(domain, &Signed(subject, delegation.digest(), self.life));
        if delegation.delegatee().verifies(&signed, &self.signature) {
            return Ok(());
        }
        let did = delegation.did();
        Err(VerifyError::BadSignature { role, did })
    }
}

impl Proof {
    /// Writes it, with its delegation by digest if told so.
    pub(super) fn write(&self, writer: &mut Writer, by_digest: bool) {
        writer.array(4);
        match by_digest {
            true => writer.value(&DelegationRef::Digest(self.delegation.digest())),
            false => writer.value(&self.delegation),
        };
        self.life.encode_fields(writer).value(&self.signature);
    }
}

impl Encode for Proof {
    fn encode(&self, writer: &mut Writer) {
        self.write(writer, false);
    }
}

impl<'a> Decode<'a> for Proof {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        Ok(Self {
            delegation: reader.value()?,
            life: Life::decode_fields(reader)?,
            signature: reader.value()?,
        })
    }
}

/// What a proof's signature covers.
struct Signed<'a, T>(&'a T, DelegationDigest, Life);

impl<T: Encode> Encode for Signed<'_, T> {
    fn encode(&self, writer: &mut Writer) {
        let Self(subject, delegation, life) = self;
        life.encode_fields(writer.array(4).value(*subject).value(delegation));
    }
}
