//! The Ed25519 key that signs everything but delegations, and strict verification.

#[cfg(feature = "sim")]
use super::remembered::{made, verdict};
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use std::fmt;
use zeroize::Zeroizing;

/// The field's prime as bytes, least significant first: `2^255 − 19`. A key's `y` must be below it.
const FIELD_PRIME_LOW_BYTE: u8 = 0xed;

/// An Ed25519 signature over a 32-byte transcript.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature(pub [u8; 64]);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

impl Encode for Signature {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.0);
    }
}

impl<'a> Decode<'a> for Signature {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.byte_array().map(Self)
    }
}

/// A node's signing key. Its secret is wiped when it is dropped.
#[derive(Clone)]
pub struct Delegatee(SigningKey);

impl Delegatee {
    /// The key of 32 random bytes, which are wiped.
    pub fn from_seed(seed: Zeroizing<[u8; 32]>) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// The 32 secret bytes, wiped when dropped.
    pub fn to_seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// The public half.
    pub fn key(&self) -> DelegateeKey {
        DelegateeKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, transcript: &[u8; 32]) -> Signature {
        let signature = Signature(self.0.sign(transcript).to_bytes());
        made(self.0.verifying_key().as_bytes(), transcript, &signature);
        signature
    }
}

impl fmt::Debug for Delegatee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delegatee({:?})", self.key())
    }
}

/// A delegatee's public key, checked: canonical and not of small order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DelegateeKey(VerifyingKey);

impl DelegateeKey {
    /// The key `bytes` encode; `None` if they are no canonical key, or a weak one.
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        strict_key(bytes).map(Self)
    }

    /// The key's 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    pub(crate) fn verifies(&self, transcript: &[u8; 32], signature: &Signature) -> bool {
        verify_strict(&self.0, transcript, signature)
    }
}

impl fmt::Debug for DelegateeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DelegateeKey(")?;
        let mut bytes = self.as_bytes().iter();
        bytes.try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

impl Encode for DelegateeKey {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(self.as_bytes());
    }
}

impl<'a> Decode<'a> for DelegateeKey {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let bytes = reader.byte_array()?;
        Self::from_bytes(&bytes).ok_or(Reader::invalid(at, "delegatee key"))
    }
}

/// The key, if its point is encoded in its one form and is not of small order.
pub(super) fn strict_key(bytes: &[u8; 32]) -> Option<VerifyingKey> {
    let [low, middle @ .., high] = bytes;
    let reduced = *low < FIELD_PRIME_LOW_BYTE
        || high & 0x7f != 0x7f
        || middle.iter().any(|&byte| byte != 0xff);
    let key = VerifyingKey::from_bytes(bytes).ok()?;
    (reduced && !key.is_weak()).then_some(key)
}

/// RFC 8032 without cofactor: `R` compared as bytes, `s` below the order, no small-order point.
pub(super) fn verify_strict(key: &VerifyingKey, message: &[u8], signature: &Signature) -> bool {
    verdict(key.as_bytes(), message, signature, || {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        key.verify_strict(message, &signature).is_ok()
    })
}

/// Nothing is remembered.
#[cfg(not(feature = "sim"))]
fn made(_: &[u8; 32], _: &[u8; 32], _: &Signature) {}

/// Nothing is remembered: what `check` finds.
#[cfg(not(feature = "sim"))]
fn verdict(_: &[u8; 32], _: &[u8], _: &Signature, check: impl FnOnce() -> bool) -> bool {
    check()
}
