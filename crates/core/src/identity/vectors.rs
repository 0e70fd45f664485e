//! Project Wycheproof's vectors on the verifiers that accounts and delegatees use.

use super::account::{AccountKey, KeyKind};

/// Checks every vector and returns how many were `(valid, invalid)`.
fn check(vectors: &str, kind: KeyKind, key_bytes: fn(Vec<u8>) -> Vec<u8>) -> (usize, usize) {
    let (mut valid, mut invalid) = (0, 0);
    for row in vectors.lines().filter(|row| !row.starts_with('#')) {
        let [id, result, fields @ ..] = &row.split(' ').collect::<Vec<_>>()[..] else {
            panic!("five columns in {row}");
        };
        let [key, message, signature] = [0, 1, 2].map(|column| match fields[column] {
            "-" => Vec::new(),
            text => hex::decode(text).unwrap(),
        });
        let key = AccountKey::from_raw(kind, &key_bytes(key));
        let verifies = key.is_ok_and(|key| key.verifies(&message, &signature));
        assert_eq!(verifies, *result == "valid", "{kind:?} {id}");
        *(if verifies { &mut valid } else { &mut invalid }) += 1;
    }
    (valid, invalid)
}

#[test]
fn golden_ed25519_of_wycheproof() {
    let vectors = include_str!("../../tests/data/wycheproof/ed25519.txt");
    assert_eq!(check(vectors, KeyKind::Ed25519, |key| key), (88, 63));
}

#[test]
fn golden_secp256k1_with_low_s_of_wycheproof() {
    let vectors = include_str!("../../tests/data/wycheproof/secp256k1.txt");
    // The vectors' keys are uncompressed points; an account's are compressed.
    let compress = |key: Vec<u8>| {
        assert_eq!((key.len(), key[0]), (65, 4));
        [&[2 + key[64] % 2], &key[1..33]].concat()
    };
    assert_eq!(check(vectors, KeyKind::Secp256k1, compress), (162, 301));
}

/// Whoever holds a key can make this: `R` is the neutral point and `s` the challenge times the secret,
/// so it satisfies the equation of RFC 8032, and one signature more than its key needs exists.
#[test]
fn law_a_signature_whose_r_is_of_small_order_is_refused() {
    let key = "8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394";
    let signature = "0100000000000000000000000000000000000000000000000000000000000000\
                     27f4a98099aef324822bbc2f90ea1bfe33ce8f0f92ebca353ecf9fa41b324e07";
    let (key, signature) = (hex::decode(key).unwrap(), hex::decode(signature).unwrap());
    let bytes: &[u8; 32] = key[..].try_into().unwrap();
    let lenient = ed25519_dalek::VerifyingKey::from_bytes(bytes).unwrap();
    let parsed = ed25519_dalek::Signature::from_slice(&signature).unwrap();
    let message = [7; 32];
    assert!(ed25519_dalek::Verifier::verify(&lenient, &message, &parsed).is_ok());
    let key = AccountKey::from_raw(KeyKind::Ed25519, &key).unwrap();
    assert!(!key.verifies(&message, &signature));
}
