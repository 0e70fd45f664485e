//! X25519 keys that things are sealed to, and where they come from.

use super::error::SealError;
use crate::identity::{Account, AccountKey, KeyError};
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};
use hpke::kem::{Kem, X25519HkdfSha256};
use hpke::{Deserializable, Serializable};
use std::fmt;
use zeroize::Zeroizing;

/// A public key to seal to: X25519, as its 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SealingKey([u8; 32]);

/// The secret half of a [`SealingKey`], wiped when it is dropped.
#[derive(Clone)]
pub struct SealingSecret {
    secret: <X25519HkdfSha256 as Kem>::PrivateKey,
    key: SealingKey,
}

impl SealingKey {
    /// The key of these bytes. One of small order is noticed when it is sealed to.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The X25519 form of an Ed25519 account's key; `None` for an account of another kind, which says
    /// its sealing key in a [contact card](super::ContactCard).
    pub fn of_account(account: &AccountKey) -> Option<Self> {
        account.x25519().map(Self)
    }

    /// Its 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(super) fn public(self) -> Result<<X25519HkdfSha256 as Kem>::PublicKey, SealError> {
        Deserializable::from_bytes(&self.0).map_err(|_| SealError::WeakKey)
    }
}

impl SealingSecret {
    /// The secret that RFC 9180's `DeriveKeyPair` makes of 32 random bytes, which are wiped.
    pub fn from_seed(seed: Zeroizing<[u8; 32]>) -> Self {
        let (secret, _) = X25519HkdfSha256::derive_keypair(seed.as_slice());
        Self::new(secret)
    }

    /// What opens things sealed to an Ed25519 account; `None` for an account of another kind.
    pub fn of_account(account: &Account) -> Option<Self> {
        let scalar = account.x25519_scalar()?;
        let secret = Deserializable::from_bytes(scalar.as_slice()).ok()?;
        Some(Self::new(secret))
    }

    /// What opens things sealed to this account: the X25519 form of an Ed25519 one, and otherwise a
    /// secret derived of the account's own, whose public half its contact card says.
    ///
    /// # Errors
    /// None for the kinds an account has; the library's refusal otherwise.
    pub fn for_account(account: &Account) -> Result<Self, KeyError> {
        match Self::of_account(account) {
            Some(secret) => Ok(secret),
            None => account.sealing_seed().map(Self::from_seed),
        }
    }

    /// The public half.
    pub fn key(&self) -> SealingKey {
        self.key
    }

    pub(super) fn secret(&self) -> &<X25519HkdfSha256 as Kem>::PrivateKey {
        &self.secret
    }

    /// The 32 bytes of the secret, wiped when dropped.
    pub(crate) fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.secret.to_bytes().into())
    }

    /// The secret of these bytes.
    #[cfg(test)]
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        Deserializable::from_bytes(bytes).ok().map(Self::new)
    }

    fn new(secret: <X25519HkdfSha256 as Kem>::PrivateKey) -> Self {
        let key = X25519HkdfSha256::sk_to_pk(&secret).to_bytes();
        Self {
            secret,
            key: SealingKey(key.0),
        }
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

impl fmt::Debug for SealingSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingSecret({:?})", self.key)
    }
}

impl Encode for SealingKey {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.0);
    }
}

impl<'a> Decode<'a> for SealingKey {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.byte_array().map(Self)
    }
}
