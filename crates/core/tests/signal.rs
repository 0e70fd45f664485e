//! Offers and answers: what is refused, and with what.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use overlane_core::identity::{
    Account, CLOCK_SKEW_MS, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Life, Signer,
    Verified, VerifyContext,
};
use overlane_core::signal::{
    Answer, OFFER_GUARD_MAX, Offer, OfferDigest, OfferGuard, SIGNAL_TTL_DEFAULT_MS,
    SIGNAL_TTL_MAX_MS, SignalError, SignalRefusal, Source,
};
use overlane_core::wire::bounds::{SDP_MAX_BYTES, SIGNAL_MAX_BYTES};
use overlane_core::wire::cbor::to_vec;
use overlane_core::{Coded, NetworkId};
use proptest::prelude::*;
use zeroize::Zeroizing;

const NETWORK: NetworkId = NetworkId(7);
const NOW_MS: u64 = 1_700_000_000_000;
const SDP: &str = "v=0\r\na=fingerprint:sha-256 AB:CD\r\n";

const NOW: VerifyContext = VerifyContext {
    network: NETWORK,
    now_ms: NOW_MS,
};

const LIFE: Life = Life {
    issued_ms: NOW_MS,
    ttl_ms: SIGNAL_TTL_DEFAULT_MS,
};

const HERE: Source = Source::Local;

fn signer_on(network: NetworkId, account: &Account, seed: u8) -> Signer {
    let delegatee = Delegatee::from_seed(Zeroizing::new([seed + 100; 32]));
    let life = Life {
        issued_ms: NOW_MS,
        ttl_ms: DELEGATION_TTL_DEFAULT_MS,
    };
    let delegation = Delegation::issue(account, &delegatee, network, life).unwrap();
    let context = VerifyContext {
        network,
        now_ms: NOW_MS,
    };
    Signer::new(delegatee, delegation.verify(&context).unwrap()).unwrap()
}

fn signer(seed: u8) -> Signer {
    signer_on(
        NETWORK,
        &Account::ed25519(Zeroizing::new([seed; 32])).unwrap(),
        seed,
    )
}

fn offer_of(sdp: &str, nonce: u8, signer: &Signer) -> Offer {
    Offer::sign(sdp.to_owned(), [nonce; 32], LIFE, signer).unwrap()
}

fn offer() -> Offer {
    offer_of(SDP, 1, &signer(1))
}

fn answer(offer: OfferDigest) -> Answer {
    Answer::sign(offer, SDP.to_owned(), [2; 32], LIFE, &signer(2)).unwrap()
}

fn receive(bytes: &[u8]) -> Result<Verified<Offer>, SignalError> {
    Offer::from_bytes(bytes)?.verify(&NOW)
}

fn verified(offer: Offer) -> Verified<Offer> {
    offer.verify(&NOW).unwrap()
}

#[test]
fn golden_offer_of_fixed_keys() {
    let bytes = offer().to_bytes();
    let shown = format!(
        "offer {}\ndigest {}\nanswer {}\n",
        hex::encode(&bytes),
        hex::encode(offer().digest().0),
        hex::encode(answer(offer().digest()).to_bytes()),
    );
    assert_eq!(shown, include_str!("data/signal_golden.txt"));
    let read = receive(&bytes).unwrap();
    assert_eq!((read.sdp(), read.signer()), (SDP, signer(1).did()));
}

#[test]
fn law_an_answer_counts_for_its_offer_only() {
    let bytes = answer(offer().digest()).to_bytes();
    let read = || Answer::from_bytes(&bytes).unwrap();
    let peer = read().verify(offer().digest(), &NOW).unwrap().signer();
    assert_eq!(peer, signer(2).did());
    let other = offer_of(SDP, 9, &signer(1)).digest();
    let error = read().verify(other, &NOW).unwrap_err();
    assert_eq!(error.code(), "signal/other_offer");
    // The other offer's digest written into the signed answer.
    let mut moved = bytes.clone();
    moved[3..35].copy_from_slice(&other.0);
    let error = Answer::from_bytes(&moved)
        .unwrap()
        .verify(other, &NOW)
        .unwrap_err();
    assert_eq!(error.code(), "signal/bad_signature");
}

#[test]
fn law_offers_and_answers_are_not_each_other() {
    let answer = answer(offer().digest()).to_bytes();
    assert_eq!(
        Offer::from_bytes(&answer).unwrap_err().code(),
        "signal/malformed"
    );
    let offer = offer().to_bytes();
    assert_eq!(
        Answer::from_bytes(&offer).unwrap_err().code(),
        "signal/malformed"
    );
}

#[test]
fn offer_counts_on_its_network_and_in_its_life_only() {
    let code = |network, now_ms| {
        let context = VerifyContext { network, now_ms };
        offer()
            .verify(&context)
            .map(drop)
            .map_err(|error| error.code())
    };
    let last_ms = LIFE.last_ms();
    assert_eq!(code(NETWORK, NOW_MS - CLOCK_SKEW_MS), Ok(()));
    assert_eq!(code(NETWORK, last_ms), Ok(()));
    assert_eq!(code(NETWORK, last_ms + 1), Err("signal/expired"));
    assert_eq!(
        code(NETWORK, NOW_MS - CLOCK_SKEW_MS - 1),
        Err("signal/from_the_future")
    );
    assert_eq!(code(NetworkId(8), NOW_MS), Err("delegation/wrong_network"));
}

#[test]
fn bounds_refuse_before_anything_is_signed_or_decoded() {
    let long = Life {
        ttl_ms: SIGNAL_TTL_MAX_MS + 1,
        ..LIFE
    };
    let error = Offer::sign(SDP.to_owned(), [1; 32], long, &signer(1)).unwrap_err();
    assert_eq!(error.code(), "signal/life_too_long");
    let size_bytes = SDP_MAX_BYTES + 1;
    let error = Offer::sign("x".repeat(size_bytes), [1; 32], LIFE, &signer(1)).unwrap_err();
    assert_eq!(error, SignalError::DescriptionTooLong { size_bytes });
    // The same from a peer that does not refuse itself.
    let written = to_vec(&offer());
    let head = 1 + to_vec(&0_u64).len() + 1 + SDP.len();
    let mut longer = vec![written[0], 0x79];
    longer.extend(u16::try_from(size_bytes).unwrap().to_be_bytes());
    longer.extend(vec![b'x'; size_bytes]);
    longer.extend(&written[head..]);
    let error = Offer::from_bytes(&longer).unwrap_err();
    assert_eq!(error, SignalError::DescriptionTooLong { size_bytes });
    let size_bytes = SIGNAL_MAX_BYTES + 1;
    let error = Offer::from_bytes(&vec![0xff; size_bytes]).unwrap_err();
    assert_eq!(error, SignalError::Oversized { size_bytes });
}

#[test]
fn law_the_largest_offer_and_answer_are_taken() {
    let account = Account::secp256k1(Zeroizing::new([1; 32])).unwrap();
    let signer = signer_on(NetworkId(u32::MAX), &account, 1);
    let context = VerifyContext {
        network: NetworkId(u32::MAX),
        now_ms: NOW_MS,
    };
    let sdp = "x".repeat(SDP_MAX_BYTES);
    let offer = Offer::sign(sdp.clone(), [1; 32], LIFE, &signer).unwrap();
    let answer = Answer::sign(offer.digest(), sdp, [1; 32], LIFE, &signer).unwrap();
    let digest = offer.digest();
    assert!(
        Offer::from_bytes(&offer.to_bytes())
            .unwrap()
            .verify(&context)
            .is_ok()
    );
    let read = Answer::from_bytes(&answer.to_bytes()).unwrap();
    assert!(read.verify(digest, &context).is_ok());
}

#[test]
fn law_an_offer_is_let_through_once_however_the_clock_goes() {
    let mut guard = OfferGuard::new();
    let offer = verified(offer());
    assert_eq!(guard.admit(&offer, HERE, NOW_MS), Ok(()));
    for now_ms in [NOW_MS, NOW_MS - 1_000_000, LIFE.last_ms()] {
        let code = guard.admit(&offer, HERE, now_ms).unwrap_err().code();
        assert_eq!(code, "signal/replayed");
    }
    // A jump forward forgets it; the clock comes back, and it is still refused, while a new one is not.
    let sign = |nonce, issued_ms| {
        let life = Life { issued_ms, ..LIFE };
        let offer = Offer::sign(format!("v={nonce}"), [nonce; 32], life, &signer(1)).unwrap();
        let context = VerifyContext {
            now_ms: issued_ms,
            ..NOW
        };
        offer.verify(&context).unwrap()
    };
    let (new, jumped_ms) = (sign(2, NOW_MS + 1), LIFE.last_ms() + 1);
    let _ = guard.admit(&offer, HERE, jumped_ms);
    assert!(guard.is_empty());
    assert_eq!(
        guard.admit(&offer, HERE, NOW_MS).unwrap_err().code(),
        "signal/before_floor"
    );
    assert_eq!(guard.admit(&new, HERE, NOW_MS), Ok(()));
}

#[test]
fn law_a_description_is_not_signed_twice_nor_a_nonce_used_twice() {
    let mut guard = OfferGuard::new();
    guard.admit(&verified(offer()), HERE, NOW_MS).unwrap();
    let thief = verified(offer_of(SDP, 9, &signer(3)));
    let refusal = SignalRefusal::Resigned {
        first: signer(1).did(),
    };
    let refused = SignalError::Refused {
        signer: signer(3).did(),
        refusal,
    };
    assert_eq!(guard.admit(&thief, HERE, NOW_MS), Err(refused));
    let again = verified(offer_of(SDP, 9, &signer(1)));
    assert_eq!(
        guard.admit(&again, HERE, NOW_MS).unwrap_err().code(),
        "signal/replayed"
    );
    let same_nonce = verified(offer_of("v=0", 1, &signer(3)));
    assert_eq!(
        guard.admit(&same_nonce, HERE, NOW_MS).unwrap_err().code(),
        "signal/replayed"
    );
}

/// The offer numbered `n`, which lives for `life`.
fn nth(n: usize, life: Life) -> Verified<Offer> {
    let mut nonce = [0; 32];
    nonce[..8].copy_from_slice(&n.to_be_bytes());
    let offer = Offer::sign(format!("v={n}"), nonce, life, &signer(1)).unwrap();
    let context = VerifyContext {
        now_ms: life.issued_ms,
        ..NOW
    };
    offer.verify(&context).unwrap()
}

#[test]
fn law_a_full_guard_refuses_until_an_offer_is_over() {
    let mut guard = OfferGuard::new();
    for n in 0..OFFER_GUARD_MAX {
        guard.admit(&nth(n, LIFE), HERE, NOW_MS).unwrap();
    }
    let one_more = nth(OFFER_GUARD_MAX, LIFE);
    let elsewhere = Source::V4([192, 0, 2, 1]);
    for source in [HERE, elsewhere] {
        let refused = guard.admit(&one_more, source, NOW_MS).unwrap_err();
        assert_eq!(refused.code(), "signal/guard_full");
    }
    let later = Life {
        issued_ms: LIFE.last_ms() + 1,
        ..LIFE
    };
    let new = nth(OFFER_GUARD_MAX, later);
    assert_eq!(guard.admit(&new, elsewhere, later.issued_ms), Ok(()));
    assert_eq!(guard.len(), 1);
}

#[test]
fn law_identities_minted_at_one_source_leave_the_guard_to_others() {
    let mut guard = OfferGuard::new();
    let (greedy, honest) = (Source::V4([192, 0, 2, 1]), Source::V4([192, 0, 2, 2]));
    let taken = (0..)
        .take_while(|&n| guard.admit(&nth(n, LIFE), greedy, NOW_MS).is_ok())
        .count();
    assert_eq!(taken, OFFER_GUARD_MAX / 2);
    let refused = guard.admit(&nth(taken, LIFE), greedy, NOW_MS).unwrap_err();
    assert_eq!(refused.code(), "signal/share_full");
    assert_eq!(guard.admit(&nth(taken, LIFE), honest, NOW_MS), Ok(()));
    // What is over gives its place back.
    let later = Life {
        issued_ms: LIFE.last_ms() + 1,
        ..LIFE
    };
    let again = guard.admit(&nth(taken + 1, later), greedy, later.issued_ms);
    assert_eq!(again, Ok(()));
}

proptest! {
    #[test]
    fn law_any_changed_byte_of_an_offer_or_answer_is_refused(
        answered in any::<bool>(), at in any::<prop::sample::Index>(), with in 1..=255_u8,
    ) {
        let digest = offer().digest();
        let mut bytes = if answered { answer(digest).to_bytes() } else { offer().to_bytes() };
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        let accepted = if answered {
            Answer::from_bytes(&bytes).is_ok_and(|read| read.verify(digest, &NOW).is_ok())
        } else {
            receive(&bytes).is_ok()
        };
        prop_assert!(!accepted, "byte {}", at);
    }

    #[test]
    fn prop_any_bytes_are_refused_in_words(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(!receive(&bytes).unwrap_err().to_string().is_empty());
    }
}
