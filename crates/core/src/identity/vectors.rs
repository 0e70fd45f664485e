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
