//! Accounts, delegatees and delegations: golden vectors, and what is refused.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use overlane_core::NetworkId;
use overlane_core::identity::{
    Account, AccountKey, CLOCK_SKEW_MS, DELEGATION_TTL_DEFAULT_MS, DELEGATION_TTL_MAX_MS,
    Delegatee, DelegateeKey, Delegation, DelegationReason, KeyError, Life, LifeError,
    VerifyContext,
};
use overlane_core::wire::cbor::{from_slice, to_vec};
use proptest::prelude::*;
use zeroize::Zeroizing;

const NETWORK: NetworkId = NetworkId(7);
const ISSUED_MS: u64 = 1_700_000_000_000;

const LIFE: Life = Life {
    issued_ms: ISSUED_MS,
    ttl_ms: DELEGATION_TTL_DEFAULT_MS,
};

const NOW: VerifyContext = VerifyContext {
    network: NETWORK,
    now_ms: ISSUED_MS + 1,
};

fn accounts() -> [Account; 2] {
    [
        Account::ed25519(Zeroizing::new([1; 32])).unwrap(),
        Account::secp256k1(Zeroizing::new([1; 32])).unwrap(),
    ]
}

fn delegatee(seed: u8) -> Delegatee {
    Delegatee::from_seed(Zeroizing::new([seed; 32]))
}

fn delegation(account: &Account) -> Delegation {
    Delegation::issue(account, &delegatee(2), NETWORK, LIFE).unwrap()
}

#[test]
fn golden_accounts_and_delegations_of_fixed_keys() {
    let mut shown = String::new();
    for (kind, account) in ["ed25519", "secp256k1"].into_iter().zip(accounts()) {
        let delegation = delegation(&account);
        for (name, value) in [
            ("key", hex::encode(account.key().to_protobuf())),
            ("did", account.did().to_string()),
            ("did:key", account.key().to_string()),
            ("peer", account.key().peer_id().to_string()),
            ("delegation", hex::encode(to_vec(&delegation))),
            ("digest", delegation.digest().to_string()),
        ] {
            shown += &format!("{kind} {name} {value}\n");
        }
    }
    assert_eq!(shown, include_str!("data/identity_golden.txt"));
}

#[test]
fn golden_did_key_of_the_method_specification() {
    // The examples of the did:key method for Ed25519 and secp256k1.
    for text in [
        "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
        "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
        "did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
        "did:key:zQ3shtxV1FrJfhqE1dvxYRcCknWNjHc3c5X1y3ZSoPDi2aur2",
    ] {
        assert_eq!(text.parse::<AccountKey>().expect(text).to_string(), text);
    }
}

#[test]
fn did_key_text_of_another_shape_is_refused() {
    let good = accounts()[0].key().to_string();
    for (text, error) in [
        (String::new(), KeyError::NotDidKey),
        (good.replace("did:key:", "did:web:"), KeyError::NotDidKey),
        (good.replace(":z", ":m"), KeyError::NotDidKey),
        (good.replace("6Mk", "6M0"), KeyError::NotDidKey),
        (format!("{good}{good}"), KeyError::NotDidKey),
        (good[..good.len() - 1].to_owned(), KeyError::Malformed),
        ("did:key:z".to_owned(), KeyError::Malformed),
        // X25519, a key kind that does not sign.
        (
            "did:key:z6LSeu9HkTHSfLLeUs2nnzUSNedgDUevfNQgQjQC23ZCit6F".to_owned(),
            KeyError::Malformed,
        ),
    ] {
        assert_eq!(text.parse::<AccountKey>().unwrap_err(), error, "{text}");
    }
}

#[test]
fn account_survives_its_protobuf_form() {
    for account in accounts() {
        let bytes = account.to_protobuf().unwrap();
        let again = Account::from_protobuf(&bytes).unwrap();
        assert_eq!(again.key(), account.key());
        assert_eq!(delegation(&again), delegation(&account));
        let key = AccountKey::from_protobuf(account.key().to_protobuf()).unwrap();
        assert_eq!(
            (key.did(), key.peer_id()),
            (account.did(), account.key().peer_id())
        );
    }
    assert!(Account::from_protobuf(&Zeroizing::new(vec![8, 1])).is_err());
    assert!(Account::secp256k1(Zeroizing::new([0; 32])).is_err());
}

#[test]
fn law_an_account_key_has_one_form() {
    for account in accounts() {
        let good = account.key().to_protobuf();
        let (kind, key) = good.split_at(2);
        let with_unknown_field = [good, &[0x18, 0x00]].concat();
        let reordered = [key, kind].concat();
        for bytes in [
            &with_unknown_field[..],
            &reordered,
            &good[..good.len() - 1],
            &[],
        ] {
            assert_eq!(
                AccountKey::from_protobuf(bytes).unwrap_err(),
                KeyError::Malformed
            );
        }
    }
}

/// Every encoding of a point of small order, canonical or not.
const SMALL_ORDER: [&str; 14] = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
];

#[test]
fn law_no_key_of_small_order_is_taken() {
    let ed25519_protobuf = |key: &[u8]| [&[0x08, 0x01, 0x12, 0x20], key].concat();
    for text in SMALL_ORDER {
        let bytes: [u8; 32] = hex::decode(text).unwrap().try_into().unwrap();
        assert!(DelegateeKey::from_bytes(&bytes).is_none(), "{text}");
        assert!(
            AccountKey::from_protobuf(&ed25519_protobuf(&bytes)).is_err(),
            "{text}"
        );
    }
    // y = p + 3 and the like: points on the curve whose encodings are not reduced.
    for low in 0xed..=0xff_u8 {
        for high in [0x7f, 0xff] {
            let mut bytes = [0xff; 32];
            (bytes[0], bytes[31]) = (low, high);
            assert!(DelegateeKey::from_bytes(&bytes).is_none(), "{bytes:02x?}");
        }
    }
}

#[test]
fn law_rotation_keeps_the_account() {
    for account in accounts() {
        let first = Delegation::issue(&account, &delegatee(2), NETWORK, LIFE).unwrap();
        let second = Delegation::issue(&account, &delegatee(3), NETWORK, LIFE).unwrap();
        assert_ne!(first.digest(), second.digest());
        assert_ne!(first.delegatee(), second.delegatee());
        for delegation in [first, second] {
            assert_eq!(delegation.verify(&NOW).unwrap().did(), account.did());
        }
    }
}

#[test]
fn delegation_counts_on_its_network_and_in_its_life_only() {
    let delegation = delegation(&accounts()[0]);
    let at = |network, now_ms| {
        let context = VerifyContext { network, now_ms };
        delegation
            .clone()
            .verify(&context)
            .map(drop)
            .map_err(|error| error.reason)
    };
    let last_ms = ISSUED_MS + DELEGATION_TTL_DEFAULT_MS;
    assert_eq!(at(NETWORK, ISSUED_MS - CLOCK_SKEW_MS), Ok(()));
    assert_eq!(at(NETWORK, last_ms), Ok(()));
    assert!(matches!(
        at(NETWORK, ISSUED_MS - CLOCK_SKEW_MS - 1),
        Err(DelegationReason::Life(LifeError::FromTheFuture { .. }))
    ));
    assert!(matches!(
        at(NETWORK, last_ms + 1),
        Err(DelegationReason::Life(LifeError::Expired { .. }))
    ));
    assert!(matches!(
        at(NetworkId(8), ISSUED_MS),
        Err(DelegationReason::WrongNetwork {
            wanted: NetworkId(8),
            found: NETWORK
        })
    ));
}

#[test]
fn delegation_of_more_than_the_longest_life_is_refused() {
    let issue = |ttl_ms| {
        let life = Life {
            issued_ms: ISSUED_MS,
            ttl_ms,
        };
        let delegation = Delegation::issue(&accounts()[0], &delegatee(2), NETWORK, life).unwrap();
        delegation
            .verify(&NOW)
            .map(drop)
            .map_err(|error| error.reason)
    };
    assert_eq!(issue(DELEGATION_TTL_MAX_MS), Ok(()));
    assert!(matches!(
        issue(DELEGATION_TTL_MAX_MS + 1),
        Err(DelegationReason::Life(LifeError::TooLong { .. }))
    ));
}

/// Where the fields of an encoded Ed25519 delegation begin: the delegatee's key, and the proof.
const DELEGATEE_AT: usize = 3;

#[test]
fn law_an_account_cannot_be_attached_to_a_key_of_anothers() {
    // The attacker's account signs over the victim's delegatee, with the best proof it can make:
    // that of its own delegatee.
    let [attacker, _] = accounts();
    let mut bytes = to_vec(&Delegation::issue(&attacker, &delegatee(9), NETWORK, LIFE).unwrap());
    bytes[DELEGATEE_AT..DELEGATEE_AT + 32].copy_from_slice(delegatee(2).key().as_bytes());
    let forged = from_slice::<Delegation>(&bytes).unwrap();
    let error = forged.verify(&NOW).unwrap_err();
    assert_eq!(error.reason, DelegationReason::WrongPossession);
    assert_eq!(error.account, attacker.did());
}

#[test]
fn delegation_that_the_account_did_not_sign_is_refused() {
    let [account, _] = accounts();
    let other = Account::ed25519(Zeroizing::new([9; 32])).unwrap();
    let signed_by_other = to_vec(&delegation(&other));
    let mut bytes = to_vec(&delegation(&account));
    let signature_at = bytes.len() - 64;
    bytes[signature_at..].copy_from_slice(&signed_by_other[signature_at..]);
    let error = from_slice::<Delegation>(&bytes)
        .unwrap()
        .verify(&NOW)
        .unwrap_err();
    assert_eq!(error.reason, DelegationReason::BadSignature);
}

/// The order of the base point, least significant byte first.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

#[test]
fn law_no_second_form_of_a_signature_verifies() {
    // s + order: the same signature to a verifier that does not look.
    let mut bytes = to_vec(&delegation(&accounts()[0]));
    let s_at = bytes.len() - 32;
    let mut carry = 0;
    for (byte, order) in bytes[s_at..].iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        *byte = u8::try_from(sum & 0xff).unwrap();
        carry = sum >> 8;
    }
    let error = from_slice::<Delegation>(&bytes)
        .unwrap()
        .verify(&NOW)
        .unwrap_err();
    assert_eq!(error.reason, DelegationReason::BadSignature);
}

#[test]
fn law_no_secret_is_shown() {
    let [account, _] = accounts();
    let shown = format!("{account:?} {:?}", delegatee(2));
    assert!(!shown.contains(&hex::encode([1; 8])) && !shown.contains(&hex::encode([2; 8])));
    assert!(!shown.contains("1, 1, 1") && !shown.contains("2, 2, 2"));
}

proptest! {
    #[test]
    fn law_any_changed_byte_of_a_delegation_is_refused(
        secp256k1 in any::<bool>(), at in any::<prop::sample::Index>(), with in 1..=255_u8,
    ) {
        let original = delegation(&accounts()[usize::from(secp256k1)]);
        let mut bytes = to_vec(&original);
        prop_assert_eq!(from_slice::<Delegation>(&bytes).unwrap(), original);
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        let verified = from_slice::<Delegation>(&bytes).map(|changed| changed.verify(&NOW).is_ok());
        prop_assert_ne!(verified, Ok(true), "byte {}", at);
    }

    #[test]
    fn prop_did_key_text_round_trips(seed in any::<[u8; 32]>()) {
        let accounts = [Account::ed25519(Zeroizing::new(seed)), Account::secp256k1(Zeroizing::new(seed))];
        for account in accounts.into_iter().flatten() {
            let text = account.key().to_string();
            prop_assert_eq!(&text.parse::<AccountKey>().unwrap(), account.key());
        }
    }
}
