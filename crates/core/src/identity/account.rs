//! The long-lived key pair, and its public half.

use super::delegatee::{Signature, strict_key, verify_strict};
use crate::fault::{Coded, Fault};
use crate::ids::Did;
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};
use ed25519_dalek::VerifyingKey;
use libp2p_identity::{KeyType, Keypair, PeerId, PublicKey, ed25519, secp256k1};
use std::fmt;
use std::hash::{Hash, Hasher};
use zeroize::Zeroizing;

/// Domain of the hash that places an account on the ring.
const DID_DOMAIN: &str = "overlane did";

/// Domain of the secret that an account which is not Ed25519 opens sealed messages with.
const SEALING_DOMAIN: &str = "overlane sealing secret";

/// The longest account signature: a secp256k1 signature in DER.
pub(super) const ACCOUNT_SIGNATURE_MAX_BYTES: usize = 72;

/// The kinds of account key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// Ed25519, the default.
    Ed25519,
    /// ECDSA over secp256k1.
    Secp256k1,
}

/// Why bytes or text are no account key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a key of a known kind in its one form.
    #[error("not an Ed25519 or secp256k1 key in its canonical form")]
    Malformed,
    /// A key of small order: a signature under it proves nothing.
    #[error("the key is of small order or not canonical, so a signature under it proves nothing")]
    Weak,
    /// Text that does not begin `did:key:z`, or is not base58btc.
    #[error("expected did:key:z followed by base58btc")]
    NotDidKey,
}

impl Coded for KeyError {
    fn code(&self) -> &'static str {
        match self {
            Self::Malformed => "identity/malformed_key",
            Self::Weak => "identity/weak_key",
            Self::NotDidKey => "identity/not_did_key",
        }
    }

    fn fault(&self) -> Fault {
        Fault::Usage
    }
}

/// An account's key pair. It signs delegations and nothing else.
#[derive(Clone)]
pub struct Account {
    keypair: Keypair,
    key: AccountKey,
}

impl Account {
    /// The Ed25519 account of 32 random bytes, which are wiped.
    ///
    /// # Errors
    /// None for an Ed25519 seed in practice; the library's refusal otherwise.
    pub fn ed25519(mut seed: Zeroizing<[u8; 32]>) -> Result<Self, KeyError> {
        let secret = ed25519::SecretKey::try_from_bytes(seed.as_mut_slice());
        let secret = secret.map_err(|_| KeyError::Malformed)?;
        Self::from_keypair(ed25519::Keypair::from(secret).into())
    }

    /// The secp256k1 account of 32 random bytes, which are wiped.
    ///
    /// # Errors
    /// The bytes are zero or not below the group's order; draw others.
    pub fn secp256k1(mut secret: Zeroizing<[u8; 32]>) -> Result<Self, KeyError> {
        let secret = secp256k1::SecretKey::try_from_bytes(secret.as_mut_slice());
        let secret = secret.map_err(|_| KeyError::Malformed)?;
        Self::from_keypair(secp256k1::Keypair::from(secret).into())
    }

    /// The account whose libp2p protobuf form `bytes` is.
    ///
    /// # Errors
    /// Not such a form, or a key of another kind.
    pub fn from_protobuf(bytes: &Zeroizing<Vec<u8>>) -> Result<Self, KeyError> {
        let keypair = Keypair::from_protobuf_encoding(bytes).map_err(|_| KeyError::Malformed)?;
        Self::from_keypair(keypair)
    }

    /// The libp2p protobuf form: the secret, wiped when dropped.
    ///
    /// # Errors
    /// None for the kinds an account has; the library's refusal otherwise.
    pub fn to_protobuf(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let bytes = self.keypair.to_protobuf_encoding();
        bytes.map(Zeroizing::new).map_err(|_| KeyError::Malformed)
    }

    /// The public half.
    pub fn key(&self) -> &AccountKey {
        &self.key
    }

    /// The account's place on the ring.
    pub fn did(&self) -> Did {
        self.key.did()
    }

    /// The X25519 scalar of an Ed25519 account: what opens what is sealed to its key.
    pub(crate) fn x25519_scalar(&self) -> Option<Zeroizing<[u8; 32]>> {
        let keypair = self.keypair.clone().try_into_ed25519().ok()?;
        let secret = keypair.secret();
        let seed = Zeroizing::new(<[u8; 32]>::try_from(secret.as_ref()).ok()?);
        let key = ed25519_dalek::SigningKey::from_bytes(&seed);
        Some(Zeroizing::new(key.to_scalar_bytes()))
    }

    /// Of what an account of another kind makes its sealing key: bytes that its secret alone gives.
    pub(crate) fn sealing_seed(&self) -> Result<Zeroizing<[u8; 32]>, KeyError> {
        let secret = self.to_protobuf()?;
        Ok(Zeroizing::new(blake3::derive_key(SEALING_DOMAIN, &secret)))
    }

    pub(super) fn sign(&self, transcript: &[u8; 32]) -> Result<Vec<u8>, KeyError> {
        self.keypair
            .sign(transcript)
            .map_err(|_| KeyError::Malformed)
    }

    fn from_keypair(keypair: Keypair) -> Result<Self, KeyError> {
        let key = AccountKey::from_public(keypair.public())?;
        Ok(Self { keypair, key })
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({})", self.key)
    }
}

/// An account's public key, checked: of a kind in use, canonical, and not of small order.
#[derive(Clone)]
pub struct AccountKey {
    inner: Inner,
    /// The libp2p protobuf form, which is what the [`Did`] is derived from.
    encoded: Box<[u8]>,
    peer: PeerId,
}

#[derive(Clone)]
enum Inner {
    Ed25519(VerifyingKey),
    Secp256k1(secp256k1::PublicKey),
}

impl AccountKey {
    /// The key whose libp2p protobuf form `bytes` is.
    ///
    /// # Errors
    /// Not the one form of a key of a kind in use, or a weak key.
    pub fn from_protobuf(bytes: &[u8]) -> Result<Self, KeyError> {
        let public = PublicKey::try_decode_protobuf(bytes).map_err(|_| KeyError::Malformed)?;
        let key = Self::from_public(public)?;
        // Protobuf has many forms of one message; only the canonical one is a key here.
        if key.encoded.as_ref() == bytes {
            Ok(key)
        } else {
            Err(KeyError::Malformed)
        }
    }

    pub(super) fn from_raw(kind: KeyKind, bytes: &[u8]) -> Result<Self, KeyError> {
        let public = match kind {
            KeyKind::Ed25519 => ed25519::PublicKey::try_from_bytes(bytes).map(PublicKey::from),
            KeyKind::Secp256k1 => secp256k1::PublicKey::try_from_bytes(bytes).map(PublicKey::from),
        };
        let key = Self::from_public(public.map_err(|_| KeyError::Malformed)?)?;
        // A secp256k1 point has an uncompressed form too.
        if key.raw() == bytes {
            Ok(key)
        } else {
            Err(KeyError::Malformed)
        }
    }

    fn from_public(public: PublicKey) -> Result<Self, KeyError> {
        let encoded = public.encode_protobuf().into_boxed_slice();
        let peer = public.to_peer_id();
        let inner = match public.key_type() {
            KeyType::Ed25519 => {
                let key = public.try_into_ed25519().map_err(|_| KeyError::Malformed)?;
                Inner::Ed25519(strict_key(&key.to_bytes()).ok_or(KeyError::Weak)?)
            }
            KeyType::Secp256k1 => {
                let key = public.try_into_secp256k1();
                Inner::Secp256k1(key.map_err(|_| KeyError::Malformed)?)
            }
            _ => return Err(KeyError::Malformed),
        };
        Ok(Self {
            inner,
            encoded,
            peer,
        })
    }

    /// The libp2p protobuf form.
    pub fn to_protobuf(&self) -> &[u8] {
        &self.encoded
    }

    /// The kind of key.
    pub fn kind(&self) -> KeyKind {
        match self.inner {
            Inner::Ed25519(_) => KeyKind::Ed25519,
            Inner::Secp256k1(_) => KeyKind::Secp256k1,
        }
    }

    /// The account's place on the ring: the first 20 bytes of the domain-separated BLAKE3 of the
    /// protobuf form. Source: protocol decision 1.
    pub fn did(&self) -> Did {
        let [did @ .., _, _, _, _, _, _, _, _, _, _, _, _] =
            blake3::derive_key(DID_DOMAIN, &self.encoded);
        Did(did)
    }

    /// The same key as libp2p names it.
    pub fn peer_id(&self) -> PeerId {
        self.peer
    }

    /// The X25519 form of an Ed25519 key.
    pub(crate) fn x25519(&self) -> Option<[u8; 32]> {
        match &self.inner {
            Inner::Ed25519(key) => Some(key.to_montgomery().to_bytes()),
            Inner::Secp256k1(_) => None,
        }
    }

    /// The key's own bytes: 32 for Ed25519, 33 (compressed) for secp256k1.
    pub(super) fn raw(&self) -> Vec<u8> {
        match &self.inner {
            Inner::Ed25519(key) => key.to_bytes().to_vec(),
            Inner::Secp256k1(key) => key.to_bytes().to_vec(),
        }
    }

    /// Whether `signature` is this key's over `message`: strict Ed25519, or secp256k1 with a low
    /// `s` in DER.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.inner {
            Inner::Ed25519(key) => signature
                .try_into()
                .is_ok_and(|bytes| verify_strict(key, message, &Signature(bytes))),
            Inner::Secp256k1(key) => key.verify(message, signature),
        }
    }
}

impl PartialEq for AccountKey {
    fn eq(&self, other: &Self) -> bool {
        self.encoded == other.encoded
    }
}

impl Eq for AccountKey {}

impl Hash for AccountKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.encoded.hash(state);
    }
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccountKey({self})")
    }
}

impl Encode for AccountKey {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.encoded);
    }
}

impl<'a> Decode<'a> for AccountKey {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        Self::from_protobuf(reader.bytes()?).map_err(|error| {
            Reader::invalid(
                at,
                match error {
                    KeyError::Weak => "account key: weak",
                    _ => "account key",
                },
            )
        })
    }
}
