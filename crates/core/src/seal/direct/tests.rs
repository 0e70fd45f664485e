//! The vector of RFC 9180, appendix A.2.1, byte for byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use hpke::single_shot_seal_with_rng;

/// `name value` lines, the values in hexadecimal.
const VECTOR: &str = include_str!("../../../tests/data/rfc9180_a_2_1.txt");

fn of(name: &str) -> Vec<u8> {
    let line = VECTOR.lines().find_map(|line| line.strip_prefix(name));
    hex::decode(line.unwrap().trim()).unwrap()
}

fn seed(name: &str) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(of(name).try_into().unwrap())
}

#[test]
fn golden_hpke_of_rfc_9180() {
    let secret = SealingSecret::from_seed(seed("ikmR"));
    assert_eq!(secret.key().as_bytes().as_slice(), of("pkRm"));
    assert_eq!(secret.secret().to_bytes().as_slice(), clamped(of("skRm")));
    // The vector has associated data, which a sealed message has not: its context is in the info.
    let (enc, ciphertext) =
        single_shot_seal_with_rng::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
            &OpModeS::Base,
            &secret.key().public().unwrap(),
            &of("info"),
            &of("pt"),
            &of("aad"),
            &mut Seed(seed("ikmE")),
        )
        .unwrap();
    assert_eq!(enc.to_bytes().as_slice(), of("enc"));
    assert_eq!(ciphertext, of("ct"));
    // A sealed message is that, without associated data.
    let (enc, ciphertext) =
        single_shot_seal_with_rng::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
            &OpModeS::Base,
            &secret.key().public().unwrap(),
            &of("info"),
            &of("pt"),
            &[],
            &mut Seed(seed("ikmE")),
        )
        .unwrap();
    let sealed = seal_bytes(&secret.key(), &of("info"), &of("pt"), seed("ikmE")).unwrap();
    let message = SealedMessage::parse(&sealed).unwrap();
    assert_eq!(message.enc, enc.to_bytes().as_slice());
    assert_eq!(message.ciphertext, ciphertext);
    let opened = open_bytes(&secret, &of("info"), &sealed);
    assert_eq!(opened.unwrap(), of("pt"));
}

/// RFC 7748: what is done to a scalar before it is used.
fn clamped(mut scalar: Vec<u8>) -> Vec<u8> {
    if let [first, .., last] = scalar.as_mut_slice() {
        *first &= 248;
        *last = *last & 127 | 64;
    }
    scalar
}

#[test]
fn law_randomness_is_the_callers_and_used_once() {
    let mut seed = Seed(Zeroizing::new([7; 32]));
    let (mut first, mut second) = ([0; 32], [0; 40]);
    let Ok(()) = seed.try_fill_bytes(&mut first);
    let Ok(()) = seed.try_fill_bytes(&mut second);
    assert_eq!(first, [7; 32]);
    assert_ne!(second.first_chunk(), Some(&first));
    assert_ne!(second.first_chunk::<8>(), second.last_chunk::<8>());
}
