//! The primitives of the Noise handshake, from the crates that this one uses already.

use crate::seal::SealingSecret;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce};
use sha2::{Digest, Sha256};
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};
use zeroize::Zeroizing;

/// The handshake: IK, as the initiator knows whom it speaks to and says who it is.
const PROTOCOL: &str = "Noise_IK_25519_ChaChaPoly_SHA256";

/// Bytes of a key, public or secret.
pub(super) const KEY_BYTES: usize = 32;

/// Bytes of an authentication tag.
pub(super) const TAG_BYTES: usize = 16;

/// The first message of the handshake, without a payload: an ephemeral key, the initiator's own key and
/// two tags.
pub(super) const FIRST_BYTES: usize = KEY_BYTES + KEY_BYTES + TAG_BYTES + TAG_BYTES;

/// The second: an ephemeral key and a tag.
pub(super) const SECOND_BYTES: usize = KEY_BYTES + TAG_BYTES;

/// Begins a handshake with the node whose static key is `remote`. `ephemeral` are fresh random bytes.
pub(super) fn initiator(
    own: &SealingSecret,
    remote: &[u8; KEY_BYTES],
    prologue: &[u8],
    ephemeral: Zeroizing<[u8; KEY_BYTES]>,
) -> Result<HandshakeState, Error> {
    let secret = own.to_bytes();
    builder(prologue, ephemeral)?
        .local_private_key(secret.as_slice())?
        .remote_public_key(remote)?
        .build_initiator()
}

/// Answers one.
pub(super) fn responder(
    own: &SealingSecret,
    prologue: &[u8],
    ephemeral: Zeroizing<[u8; KEY_BYTES]>,
) -> Result<HandshakeState, Error> {
    let secret = own.to_bytes();
    builder(prologue, ephemeral)?
        .local_private_key(secret.as_slice())?
        .build_responder()
}

fn builder<'a>(
    prologue: &'a [u8],
    ephemeral: Zeroizing<[u8; KEY_BYTES]>,
) -> Result<Builder<'a>, Error> {
    let params: NoiseParams = PROTOCOL.parse()?;
    Builder::with_resolver(params, Box::new(Primitives(ephemeral))).prologue(prologue)
}

/// What the handshake draws on: the caller's random bytes, and the primitives.
struct Primitives(Zeroizing<[u8; KEY_BYTES]>);

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Given(Some(self.0.clone()))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        let is = matches!(choice, DHChoice::Curve25519);
        is.then(|| Box::<X25519>::default() as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        let is = matches!(choice, HashChoice::SHA256);
        is.then(|| Box::<HashSha256>::default() as Box<dyn Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        let is = matches!(choice, CipherChoice::ChaChaPoly);
        is.then(|| Box::<ChaChaPoly>::default() as Box<dyn Cipher>)
    }
}

/// The caller's random bytes, given out once: a handshake draws one ephemeral key.
struct Given(Option<Zeroizing<[u8; KEY_BYTES]>>);

impl Random for Given {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Error> {
        let bytes = self.0.take().ok_or(Error::Rng)?;
        if out.len() != bytes.len() {
            return Err(Error::Rng);
        }
        out.copy_from_slice(bytes.as_slice());
        Ok(())
    }
}

#[derive(Default)]
struct X25519 {
    secret: Zeroizing<[u8; KEY_BYTES]>,
    key: [u8; KEY_BYTES],
}

impl X25519 {
    fn note(&mut self) {
        self.key = x25519(*self.secret, X25519_BASEPOINT_BYTES);
    }
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY_BYTES
    }

    fn priv_len(&self) -> usize {
        KEY_BYTES
    }

    fn set(&mut self, secret: &[u8]) {
        if let Ok(secret) = <[u8; KEY_BYTES]>::try_from(secret) {
            *self.secret = secret;
            self.note();
        }
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        rng.try_fill_bytes(self.secret.as_mut_slice())?;
        self.note();
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.key
    }

    fn privkey(&self) -> &[u8] {
        self.secret.as_slice()
    }

    /// A key of small order gives every secret the same answer, and is refused.
    fn dh(&self, key: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let key = key.first_chunk::<KEY_BYTES>().ok_or(Error::Dh)?;
        let shared = Zeroizing::new(x25519(*self.secret, *key));
        if *shared == [0; KEY_BYTES] {
            return Err(Error::Dh);
        }
        let out = out.get_mut(..KEY_BYTES).ok_or(Error::Dh)?;
        out.copy_from_slice(shared.as_slice());
        Ok(())
    }
}

#[derive(Default)]
struct HashSha256(Sha256);

impl Hash for HashSha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = Sha256::new();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let hash = std::mem::take(&mut self.0).finalize();
        if let Some(out) = out.get_mut(..hash.len()) {
            out.copy_from_slice(&hash);
        }
    }
}

#[derive(Default)]
struct ChaChaPoly(Zeroizing<[u8; KEY_BYTES]>);

impl ChaChaPoly {
    fn cipher(&self) -> ChaCha20Poly1305 {
        ChaCha20Poly1305::new((&*self.0).into())
    }

    /// Four zero bytes and the number, little-endian.
    fn nonce(number: u64) -> Nonce {
        let mut nonce = [0; 12];
        let (_, counter) = nonce.split_at_mut(4);
        counter.copy_from_slice(&number.to_le_bytes());
        Nonce::from(nonce)
    }
}

impl Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; KEY_BYTES]) {
        *self.0 = *key;
    }

    fn encrypt(&self, nonce: u64, aad: &[u8], plain: &[u8], out: &mut [u8]) -> usize {
        let payload = Payload { msg: plain, aad };
        let sealed = self.cipher().encrypt(&Self::nonce(nonce), payload);
        let sealed = sealed.unwrap_or_default();
        match out.get_mut(..sealed.len()) {
            Some(out) => out.copy_from_slice(&sealed),
            None => return 0,
        }
        sealed.len()
    }

    fn decrypt(
        &self,
        nonce: u64,
        aad: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let payload = Payload { msg: sealed, aad };
        let plain = self.cipher().decrypt(&Self::nonce(nonce), payload);
        let plain = Zeroizing::new(plain.map_err(|_| Error::Decrypt)?);
        let out = out.get_mut(..plain.len()).ok_or(Error::Decrypt)?;
        out.copy_from_slice(&plain);
        Ok(plain.len())
    }
}

#[cfg(test)]
mod tests {
    //! The vector of cacophony, an implementation of Noise in Haskell, as snow ships it.

    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// `name value` lines, the values in hexadecimal.
    const VECTOR: &str = include_str!("../../tests/data/noise_ik_cacophony.txt");

    fn all(name: &str) -> Vec<Vec<u8>> {
        let lines = VECTOR.lines().filter_map(|line| line.strip_prefix(name));
        let values = lines.filter_map(|it| it.strip_prefix(' '));
        values.map(|it| hex::decode(it.trim()).unwrap()).collect()
    }

    fn key(name: &str) -> Zeroizing<[u8; 32]> {
        let [value] = all(name).try_into().unwrap();
        Zeroizing::new(value.try_into().unwrap())
    }

    #[test]
    fn golden_noise_ik_of_cacophony() {
        let [prologue] = all("prologue").try_into().unwrap();
        let init = SealingSecret::from_bytes(&key("init_static")).unwrap();
        let resp = SealingSecret::from_bytes(&key("resp_static")).unwrap();
        assert_eq!(resp.key().as_bytes(), &*key("init_remote_static"));
        let remote = *resp.key().as_bytes();
        let mut init = initiator(&init, &remote, &prologue, key("init_ephemeral")).unwrap();
        let mut resp = responder(&resp, &prologue, key("resp_ephemeral")).unwrap();
        let (payloads, ciphertexts) = (all("payload"), all("ciphertext"));
        let (mut out, mut read) = ([0; 256], [0; 256]);
        for (number, (payload, ciphertext)) in payloads.iter().zip(&ciphertexts).enumerate().take(2)
        {
            let (from, to) = match number {
                0 => (&mut init, &mut resp),
                _ => (&mut resp, &mut init),
            };
            let length = from.write_message(payload, &mut out).unwrap();
            assert_eq!(&out[..length], ciphertext.as_slice(), "message {number}");
            let length = to.read_message(&out[..length], &mut read).unwrap();
            assert_eq!(&read[..length], payload.as_slice());
        }
        let [hash] = all("handshake_hash").try_into().unwrap();
        assert_eq!(init.get_handshake_hash(), hash);
        let init = init.into_stateless_transport_mode().unwrap();
        let resp = resp.into_stateless_transport_mode().unwrap();
        let rest = payloads.iter().zip(&ciphertexts).skip(2);
        for (number, (payload, ciphertext)) in rest.enumerate() {
            let (from, to) = match number % 2 {
                0 => (&init, &resp),
                _ => (&resp, &init),
            };
            let nonce = u64::try_from(number / 2).unwrap();
            let length = from.write_message(nonce, payload, &mut out).unwrap();
            assert_eq!(&out[..length], ciphertext.as_slice(), "transport {number}");
            let length = to.read_message(nonce, &out[..length], &mut read).unwrap();
            assert_eq!(&read[..length], payload.as_slice());
        }
    }
}
