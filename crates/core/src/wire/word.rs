//! Values as one word that people carry: a prefix, and in base58 the value's bytes with four bytes of their
//! BLAKE3, so that a slip of the pen is told from a word that leads nowhere.

use super::cbor::{Decode, Encode, from_slice, to_vec};

const CHECK_BYTES: usize = 4;

/// The word.
pub(crate) fn write(prefix: &str, value: &impl Encode) -> String {
    let mut bytes = to_vec(value);
    let check = check(&bytes);
    bytes.extend_from_slice(&check);
    format!("{prefix}{}", bs58::encode(bytes).into_string())
}

/// The value of a word, white space around it aside; `None` for text that is none, or has more than `most`
/// bytes behind its prefix: no longer one is decoded.
pub(crate) fn read<T: for<'a> Decode<'a>>(prefix: &str, text: &str, most: usize) -> Option<T> {
    let word = text.trim().strip_prefix(prefix)?;
    if word.len() > most {
        return None;
    }
    let bytes = bs58::decode(word).into_vec().ok()?;
    let (value, found) = bytes.split_last_chunk::<CHECK_BYTES>()?;
    if *found != check(value) {
        return None;
    }
    from_slice(value).ok()
}

fn check(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let [a, b, c, d, ..] = *blake3::hash(bytes).as_bytes();
    [a, b, c, d]
}
