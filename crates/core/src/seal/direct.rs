//! One message to one account.

use super::error::SealError;
use super::key::{SealingKey, SealingSecret};
use crate::identity::transcript;
use crate::ids::{Class, Did, NetworkId};
use crate::transaction::{Data, Message, Namespace};
use crate::wire::bounds::MESSAGE_MAX_BYTES;
use crate::wire::cbor::{
    CborError, CborReason, Decode, Encode, Reader, Writer, from_slice, to_vec,
};
use hpke::aead::{AeadTag, ChaCha20Poly1305};
use hpke::kdf::HkdfSha256;
use hpke::kem::{Kem, X25519HkdfSha256};
use hpke::rand_core::{TryCryptoRng, TryRng};
use hpke::{
    Deserializable, OpModeR, OpModeS, Serializable, single_shot_open_inout_detached,
    single_shot_seal_inout_detached_with_rng,
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
/// around them. [`sealed_bytes`] says how much exactly.
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

/// How large a message's data is once sealed, where it is `plain_bytes` before.
pub fn sealed_bytes(plain_bytes: usize) -> usize {
    // An array of three, the class, the namespace and the body, each with its head.
    1 + 1 + 1 + SEALED_NAMESPACE.len() + counted(body_bytes(plain_bytes))
}

/// The length of a sealed message's body: an array of two, the encapsulated key, the ciphertext.
fn body_bytes(plain_bytes: usize) -> usize {
    1 + counted(ENC_BYTES) + counted(plain_bytes.saturating_add(TAG_BYTES))
}

/// The length of a byte string with its head.
fn counted(bytes: usize) -> usize {
    let head = match bytes {
        0..24 => 1,
        24..0x100 => 2,
        0x100..0x1_0000 => 3,
        _ => 5,
    };
    bytes.saturating_add(head)
}

/// The body of the sealed message that says `body` in `namespace`: [`seal_data`] makes all of it.
///
/// # Errors
/// As [`seal_data`].
pub fn seal(
    recipient: &SealingKey,
    context: &SealContext,
    namespace: Namespace<'_>,
    body: &[u8],
    seed: Zeroizing<[u8; 32]>,
) -> Result<Vec<u8>, SealError> {
    let message = Zeroizing::new(to_vec(&Message::Application { namespace, body }));
    let data = seal_encoded(recipient, context, &message, seed)?;
    Ok(data.message().body().to_vec())
}

/// The data of the transaction that says, sealed, what `message` says: an application message in
/// [`SEALED_NAMESPACE`]. It is the same whether the transaction goes straight to its destination or
/// is held for it. `seed` are fresh random bytes, used once and wiped.
///
/// # Errors
/// The key is weak; the message is none of an application's, or sealed already; or it is too large
/// once sealed.
pub fn seal_data(
    recipient: &SealingKey,
    context: &SealContext,
    message: &Data,
    seed: Zeroizing<[u8; 32]>,
) -> Result<Data, SealError> {
    check_inner(&message.message())?;
    seal_encoded(recipient, context, message.as_bytes(), seed)
}

/// What a sealed message's body says, as the application message it was.
///
/// # Errors
/// Not a sealed message, one that does not open for this secret and context, or one with something
/// else inside than an application message.
pub fn open(
    secret: &SealingSecret,
    context: &SealContext,
    sealed: &[u8],
) -> Result<Data, SealError> {
    let opened = open_bytes(secret, &context.info(), sealed)?;
    let data = Data::parse_large(opened).map_err(SealError::NotAMessage)?;
    check_inner(&data.message())?;
    Ok(data)
}

/// What is sealed is an application message that is not sealed itself.
fn check_inner(message: &Message<'_>) -> Result<(), SealError> {
    let wrong = |what| Err(SealError::NotAMessage(Reader::invalid(0, what)));
    match message {
        Message::Application { namespace, .. } if namespace.as_str() == SEALED_NAMESPACE => {
            wrong("namespace: sealed twice")
        }
        Message::Application { .. } => Ok(()),
        _ => wrong("class"),
    }
}

/// The data of the sealed message around an encoded one.
fn seal_encoded(
    recipient: &SealingKey,
    context: &SealContext,
    message: &[u8],
    seed: Zeroizing<[u8; 32]>,
) -> Result<Data, SealError> {
    let (size_bytes, bound_bytes) = (sealed_bytes(message.len()), MESSAGE_MAX_BYTES);
    if size_bytes > bound_bytes {
        return Err(SealError::TooLarge {
            size_bytes,
            bound_bytes,
        });
    }
    let mut writer = Writer::append(Vec::with_capacity(size_bytes));
    writer.array(3).value(&Class::Application);
    writer.text(SEALED_NAMESPACE);
    writer.bytes_head(body_bytes(message.len()));
    let data = seal_onto(
        writer.into_bytes(),
        recipient,
        &context.info(),
        message,
        seed,
    )?;
    Data::parse_large(data).map_err(SealError::Malformed)
}

/// Seals any bytes for `info`.
pub(crate) fn seal_bytes(
    recipient: &SealingKey,
    info: &[u8],
    plain: &[u8],
    seed: Zeroizing<[u8; 32]>,
) -> Result<Vec<u8>, SealError> {
    let out = Vec::with_capacity(body_bytes(plain.len()));
    seal_onto(out, recipient, info, plain, seed)
}

/// As [`seal_bytes`], behind what `out` holds; where that has the room, the bytes are copied once.
fn seal_onto(
    out: Vec<u8>,
    recipient: &SealingKey,
    info: &[u8],
    plain: &[u8],
    seed: Zeroizing<[u8; 32]>,
) -> Result<Vec<u8>, SealError> {
    let public = recipient.public()?;
    // The form of a sealed message with its key blank, to be sealed in place.
    let mut writer = Writer::append(out);
    writer.array(2).bytes_head(ENC_BYTES);
    let mut sealed = writer.into_bytes();
    let enc_at = sealed.len();
    sealed.extend_from_slice(&[0; ENC_BYTES]);
    let mut writer = Writer::append(sealed);
    writer.bytes_head(plain.len().saturating_add(TAG_BYTES));
    let mut sealed = writer.into_bytes();
    let at = sealed.len();
    sealed.extend_from_slice(plain);
    let (enc, tag) =
        single_shot_seal_inout_detached_with_rng::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
            &OpModeS::Base,
            &public,
            info,
            sealed.get_mut(at..).unwrap_or_default().into(),
            &[],
            &mut Seed(seed),
        )
        .map_err(|_| SealError::WeakKey)?;
    if let Some(blank) = sealed.get_mut(enc_at..enc_at + ENC_BYTES) {
        blank.copy_from_slice(&enc.to_bytes());
    }
    sealed.extend_from_slice(&tag.to_bytes());
    Ok(sealed)
}

/// Opens what [`seal_bytes`] sealed for the same `info`.
pub(crate) fn open_bytes(
    secret: &SealingSecret,
    info: &[u8],
    sealed: &[u8],
) -> Result<Vec<u8>, SealError> {
    let sealed = SealedMessage::parse(sealed).map_err(SealError::Malformed)?;
    let does_not = |_| SealError::DoesNotOpen;
    let enc = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(sealed.enc).map_err(does_not)?;
    let text = sealed.ciphertext.len().saturating_sub(TAG_BYTES);
    let (text, tag) = sealed.ciphertext.split_at(text);
    let tag = AeadTag::<ChaCha20Poly1305>::from_bytes(tag).map_err(does_not)?;
    let mut plain = text.to_vec();
    single_shot_open_inout_detached::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
        &OpModeR::Base,
        secret.secret(),
        &enc,
        info,
        plain.as_mut_slice().into(),
        &[],
        &tag,
    )
    .map_err(does_not)?;
    Ok(plain)
}

impl SealContext {
    pub(super) fn info(&self) -> [u8; 32] {
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
        let ciphertext = some_bytes(reader, TAG_BYTES..=MESSAGE_MAX_BYTES)?;
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
