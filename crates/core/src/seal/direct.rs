//! One message to one account.

use super::error::SealError;
use super::key::{SealingKey, SealingSecret};
use crate::identity::transcript;
use crate::ids::{Did, NetworkId};
use crate::transaction::{Data, Message, Namespace};
use crate::wire::bounds::DATA_MAX_BYTES;
use crate::wire::cbor::{
    CborError, CborReason, Decode, Encode, Reader, Writer, from_slice, to_vec,
};
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::{Kem, X25519HkdfSha256};
use hpke::rand_core::{TryCryptoRng, TryRng};
use hpke::{
    Deserializable, OpModeR, OpModeS, Serializable, single_shot_open, single_shot_seal_with_rng,
};
use std::convert::Infallible;
use zeroize::Zeroizing;

/// The namespace every sealed message travels in; its own is inside.
pub const SEALED_NAMESPACE: &str = "sealed";

/// Context of the `info` that a sealed message is bound to.
const SEALED_CONTEXT: &str = "overlane sealed message";

/// Bytes of an encapsulated key.
const ENC_BYTES: usize = 32;

/// Bytes of the authentication tag.
const TAG_BYTES: usize = 16;

/// What sealing adds to the message inside, at most: the key, the tag, and the heads and namespace
/// around them.
pub const SEALED_OVERHEAD_BYTES: usize = ENC_BYTES + TAG_BYTES + 32;

/// Whom a message is from and for. It is sealed for exactly these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealContext {
    /// The network.
    pub network: NetworkId,
    /// The account that signs the transaction around it.
    pub origin: Did,
    /// The account that opens it.
    pub destination: Did,
}

/// `[encapsulated key (32 bytes), ciphertext]`: the body of a sealed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedMessage<'a> {
    enc: &'a [u8],
    ciphertext: &'a [u8],
}

impl<'a> SealedMessage<'a> {
    /// Reads the form of a sealed message; whether it opens, [`open`] says.
    ///
    /// # Errors
    /// Another form.
    pub fn parse(body: &'a [u8]) -> Result<Self, CborError> {
        from_slice(body)
    }
}

/// Whether a message has the form of a sealed one: what a holder asks before it keeps it.
pub fn is_sealed(message: &Message<'_>) -> bool {
    match message {
        Message::Application { namespace, body } => {
            namespace.as_str() == SEALED_NAMESPACE && SealedMessage::parse(body).is_ok()
        }
        _ => false,
    }
}

/// The body of the sealed message that says `body` in `namespace`. It goes into a transaction's
/// application message in [`SEALED_NAMESPACE`]. `seed` are fresh random bytes, used once and wiped.
///
/// # Errors
/// The key is weak, or the message would be too large for a transaction.
pub fn seal(
    recipient: &SealingKey,
    context: &SealContext,
    namespace: Namespace<'_>,
    body: &[u8],
    seed: Zeroizing<[u8; 32]>,
) -> Result<Vec<u8>, SealError> {
    let message = Zeroizing::new(to_vec(&Message::Application { namespace, body }));
    let (size_bytes, bound_bytes) = (message.len() + SEALED_OVERHEAD_BYTES, DATA_MAX_BYTES);
    if size_bytes > bound_bytes {
        return Err(SealError::TooLarge {
            size_bytes,
            bound_bytes,
        });
    }
    seal_bytes(recipient, &context.info(), &message, seed)
}

/// What a sealed message's body says, as the application message it was.
///
/// # Errors
/// Not a sealed message, or one that does not open for this secret and context.
pub fn open(
    secret: &SealingSecret,
    context: &SealContext,
    sealed: &[u8],
) -> Result<Data, SealError> {
    let opened = open_bytes(secret, &context.info(), sealed)?;
    let data = Data::parse(opened).map_err(SealError::NotAMessage)?;
    match data.message() {
        Message::Application { .. } => Ok(data),
        _ => Err(SealError::NotAMessage(Reader::invalid(0, "class"))),
    }
}

/// Seals any bytes for `info`.
pub(crate) fn seal_bytes(
    recipient: &SealingKey,
    info: &[u8],
    plain: &[u8],
    seed: Zeroizing<[u8; 32]>,
) -> Result<Vec<u8>, SealError> {
    let public = recipient.public()?;
    let (enc, ciphertext) = single_shot_seal_with_rng::<
        ChaCha20Poly1305,
        HkdfSha256,
        X25519HkdfSha256,
    >(&OpModeS::Base, &public, info, plain, &[], &mut Seed(seed))
    .map_err(|_| SealError::WeakKey)?;
    Ok(to_vec(&SealedMessage {
        enc: &enc.to_bytes(),
        ciphertext: &ciphertext,
    }))
}

/// Opens what [`seal_bytes`] sealed for the same `info`.
pub(crate) fn open_bytes(
    secret: &SealingSecret,
    info: &[u8],
    sealed: &[u8],
) -> Result<Vec<u8>, SealError> {
    let sealed = SealedMessage::parse(sealed).map_err(SealError::Malformed)?;
    let enc = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(sealed.enc);
    single_shot_open::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
        &OpModeR::Base,
        secret.secret(),
        &enc.map_err(|_| SealError::DoesNotOpen)?,
        info,
        sealed.ciphertext,
        &[],
    )
    .map_err(|_| SealError::DoesNotOpen)
}

impl SealContext {
    fn info(&self) -> [u8; 32] {
        transcript(SEALED_CONTEXT, self)
    }
}

impl Encode for SealContext {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(3)
            .value(&self.network)
            .value(&self.origin)
            .value(&self.destination);
    }
}

impl Encode for SealedMessage<'_> {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).bytes(self.enc).bytes(self.ciphertext);
    }
}

impl<'a> Decode<'a> for SealedMessage<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        let enc = some_bytes(reader, ENC_BYTES..=ENC_BYTES)?;
        let ciphertext = some_bytes(reader, TAG_BYTES..=DATA_MAX_BYTES)?;
        Ok(Self { enc, ciphertext })
    }
}

fn some_bytes<'a>(
    reader: &mut Reader<'a>,
    length: std::ops::RangeInclusive<usize>,
) -> Result<&'a [u8], CborError> {
    let at = reader.at();
    let bytes = reader.bytes()?;
    let (wanted, found) = (*length.start(), bytes.len());
    if length.contains(&found) {
        return Ok(bytes);
    }
    let reason = CborReason::Length { wanted, found };
    Err(CborError { at, reason })
}

/// The caller's random bytes, given out once; whoever asked for more would get bytes derived of them.
struct Seed(Zeroizing<[u8; 32]>);

impl Seed {
    fn next(&mut self) -> Zeroizing<[u8; 32]> {
        let next = blake3::derive_key("overlane seal randomness", self.0.as_slice());
        std::mem::replace(&mut self.0, Zeroizing::new(next))
    }

    fn word<const N: usize>(&mut self) -> [u8; N] {
        let mut word = [0; N];
        let source = self.next();
        word.iter_mut()
            .zip(source.iter())
            .for_each(|(to, from)| *to = *from);
        word
    }
}

impl TryRng for Seed {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_le_bytes(self.word()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_le_bytes(self.word()))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for chunk in out.chunks_mut(32) {
            let source = self.next();
            chunk
                .iter_mut()
                .zip(source.iter())
                .for_each(|(to, from)| *to = *from);
        }
        Ok(())
    }
}

impl TryCryptoRng for Seed {}

#[cfg(test)]
mod tests;
