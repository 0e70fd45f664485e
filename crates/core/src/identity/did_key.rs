//! `did:key:z…`: how an account is shown and typed. Multibase base58btc over the multicodec of the
//! key's kind and its bytes (the W3C `did:key` method).

use super::account::{AccountKey, KeyError, KeyKind};
use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "did:key:z";

/// The longest text taken, before anything is decoded: a secp256k1 key's is 57 characters.
const TEXT_MAX_BYTES: usize = 64;

/// Multicodec `ed25519-pub`, as a varint.
const ED25519_CODEC: [u8; 2] = [0xed, 0x01];

/// Multicodec `secp256k1-pub`, as a varint.
const SECP256K1_CODEC: [u8; 2] = [0xe7, 0x01];

impl fmt::Display for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let codec = match self.kind() {
            KeyKind::Ed25519 => ED25519_CODEC,
            KeyKind::Secp256k1 => SECP256K1_CODEC,
        };
        let text = bs58::encode([codec.as_slice(), &self.raw()].concat()).into_string();
        write!(f, "{PREFIX}{text}")
    }
}

impl FromStr for AccountKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if text.len() > TEXT_MAX_BYTES {
            return Err(KeyError::NotDidKey);
        }
        let encoded = text.strip_prefix(PREFIX).ok_or(KeyError::NotDidKey)?;
        let bytes = bs58::decode(encoded).into_vec();
        let bytes = bytes.map_err(|_| KeyError::NotDidKey)?;
        match bytes.split_first_chunk() {
            Some((&ED25519_CODEC, raw)) => Self::from_raw(KeyKind::Ed25519, raw),
            Some((&SECP256K1_CODEC, raw)) => Self::from_raw(KeyKind::Secp256k1, raw),
            _ => Err(KeyError::Malformed),
        }
    }
}
