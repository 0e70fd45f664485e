//! Transactions, payloads and fork evidence: golden vectors, what is refused, and with what.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use overlane_core::identity::{
    Account, CLOCK_SKEW_MS, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Life, Signer,
    VerifyContext,
};
use overlane_core::transaction::{
    Accepted, DelegationRef, Draft, ForkError, ForkEvidence, HOP_BUDGET_MAX, Message, Namespace,
    PROOF_TTL_DEFAULT_MS, PROOF_TTL_MAX_MS, Payload, RelayFields, Role, SignError, SignedHeader,
    Transaction, VerifyError,
};
use overlane_core::wire::bounds::{
    DATA_MAX_BYTES, FRAME_MAX_BYTES, NAMESPACE_MAX_BYTES, PAYLOAD_OVERHEAD_MAX_BYTES,
};
use overlane_core::wire::cbor::{Value, from_slice, to_vec};
use overlane_core::{Class, Coded, Did, NetworkId, StreamKey, TxId};
use proptest::prelude::*;
use std::sync::Arc;
use zeroize::Zeroizing;

const NETWORK: NetworkId = NetworkId(7);
const NOW_MS: u64 = 1_700_000_000_000;

const NOW: VerifyContext = VerifyContext {
    network: NETWORK,
    now_ms: NOW_MS,
};

const DELEGATION_LIFE: Life = Life {
    issued_ms: NOW_MS - 60_000,
    ttl_ms: DELEGATION_TTL_DEFAULT_MS,
};

const LIFE: Life = Life {
    issued_ms: NOW_MS - 1_000,
    ttl_ms: PROOF_TTL_DEFAULT_MS,
};

fn account(seed: u8) -> Account {
    Account::ed25519(Zeroizing::new([seed; 32])).unwrap()
}

fn delegatee(seed: u8) -> Delegatee {
    Delegatee::from_seed(Zeroizing::new([seed; 32]))
}

fn signer_on(network: NetworkId, account: &Account, delegatee: Delegatee, life: Life) -> Signer {
    let delegation = Delegation::issue(account, &delegatee, network, life).unwrap();
    let context = VerifyContext {
        network,
        now_ms: life.issued_ms,
    };
    Signer::new(delegatee, delegation.verify(&context).unwrap()).unwrap()
}

/// The signer of account `seed`, with a delegatee of its own.
fn signer(seed: u8) -> Signer {
    signer_on(
        NETWORK,
        &account(seed),
        delegatee(seed + 100),
        DELEGATION_LIFE,
    )
}

fn draft(message: Message<'_>) -> Draft<'_> {
    Draft {
        destination: signer(2).did(),
        tx_id: TxId([5; 16]),
        sequence: 41,
        message,
        life: LIFE,
    }
}

fn hello() -> Message<'static> {
    Message::Application {
        namespace: Namespace::new("chat").unwrap(),
        body: b"hello",
    }
}

fn carry(transaction: Transaction, hop: &Signer) -> Payload {
    let relay = RelayFields::direct(transaction.destination());
    Payload::carry(transaction, relay, hop, LIFE).unwrap()
}

/// Account 1's message to account 2, carried by account 1 itself.
fn payload() -> Payload {
    carry(
        Transaction::sign(&draft(hello()), &signer(1)).unwrap(),
        &signer(1),
    )
}

/// The frame, all delegations inline where they are not in it already.
fn frame(payload: &Payload) -> Vec<u8> {
    payload.to_frame(|_| false)
}

/// What a receiver that knows nothing makes of a frame.
fn receive(frame: &[u8]) -> Result<overlane_core::identity::Verified<Payload>, VerifyError> {
    let mut payload = Payload::from_frame(frame)?;
    payload.resolve(|_| None)?;
    payload.verify(&NOW)
}

fn replace(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let at = bytes.windows(old.len()).position(|window| window == old);
    let at = at.expect("the old bytes are there");
    [&bytes[..at], new, &bytes[at + old.len()..]].concat()
}

#[test]
fn golden_payload_of_fixed_keys() {
    let payload = payload();
    let verified = receive(&frame(&payload)).unwrap();
    let shown = format!(
        "frame {}\ntransaction {}\nheader {}\ndigest {}\n",
        hex::encode(frame(&payload)),
        hex::encode(to_vec(payload.transaction())),
        hex::encode(to_vec(&verified.header())),
        verified.digest(),
    );
    assert_eq!(shown, include_str!("data/transaction_golden.txt"));
    // Each is one item of CBOR and nothing more, whoever reads it.
    for bytes in [to_vec(payload.transaction()), to_vec(&verified.header())] {
        assert!(from_slice::<Value>(&bytes).is_ok());
    }
}

#[test]
fn verification_establishes_what_admission_needs() {
    let relayed = carry(payload().into_transaction(), &signer(3));
    let verified = receive(&frame(&relayed)).unwrap();
    let stream = StreamKey {
        network: NETWORK,
        origin: account(1).did(),
        destination: account(2).did(),
        class: Class::Application,
    };
    assert_eq!(verified.stream(), stream);
    assert_eq!(verified.sequence(), 41);
    assert_eq!(verified.message(), hello());
    assert_eq!(verified.data_bytes(), to_vec(&hello()).len());
    assert_eq!(verified.hop(), account(3).did());
    assert_eq!(verified.last_ms(), LIFE.last_ms());
    assert_eq!(verified.header().digest(), verified.digest());
    assert_eq!(verified.header().stream(), stream);
}

#[test]
fn law_last_instant_is_the_earlier_of_proof_and_delegation() {
    let short = Life {
        issued_ms: NOW_MS - 10,
        ttl_ms: 20,
    };
    let short = signer_on(NETWORK, &account(1), delegatee(9), short);
    let payload = carry(
        Transaction::sign(&draft(hello()), &short).unwrap(),
        &signer(1),
    );
    assert_eq!(receive(&frame(&payload)).unwrap().last_ms(), NOW_MS + 10);
}

#[test]
fn law_class_is_the_signed_data_s() {
    for (message, class) in [
        (Message::Control(b"c"), Class::Control),
        (Message::Storage(b""), Class::Storage),
        (Message::E2e(b"e"), Class::E2e),
        (hello(), Class::Application),
    ] {
        let transaction = Transaction::sign(&draft(message), &signer(1)).unwrap();
        let verified = receive(&frame(&carry(transaction, &signer(1)))).unwrap();
        assert_eq!((verified.class(), verified.message()), (class, message));
        // Another tag in the same bytes is another message, which nobody signed.
        let data = to_vec(&message);
        let mut retagged = data.clone();
        retagged[1] = (class.index() + 1) % 3;
        let forged = replace(&frame(&verified.into_payload()), &data, &retagged);
        let code = receive(&forged).unwrap_err().code();
        assert!(
            ["payload/bad_signature", "payload/malformed"].contains(&code),
            "{code}"
        );
    }
}

#[test]
fn law_rotation_keeps_the_stream() {
    let streams = [50, 51].map(|seed| {
        let rotated = signer_on(NETWORK, &account(1), delegatee(seed), DELEGATION_LIFE);
        let transaction = Transaction::sign(&draft(hello()), &rotated).unwrap();
        let verified = receive(&frame(&carry(transaction, &rotated))).unwrap();
        (verified.stream(), verified.digest())
    });
    assert_eq!(streams[0], streams[1]);
}

#[test]
fn law_a_transaction_is_never_reattributed() {
    // Another account delegates to a key it holds and puts its delegation in place of the origin's;
    // then the same account with the same delegatee, but a longer life.
    let original = payload();
    let theirs = to_vec(&**signer(1).delegation());
    let renewed = Life {
        ttl_ms: DELEGATION_TTL_DEFAULT_MS + 1,
        ..DELEGATION_LIFE
    };
    let renewed = signer_on(NETWORK, &account(1), delegatee(101), renewed);
    let same_delegatee = signer_on(NETWORK, &account(4), delegatee(101), DELEGATION_LIFE);
    for other in [signer(4), same_delegatee, renewed] {
        let swapped = replace(&frame(&original), &theirs, &to_vec(&**other.delegation()));
        let mut payload = Payload::from_frame(&swapped).unwrap();
        payload
            .resolve(|_| Some(Arc::clone(signer(1).delegation())))
            .unwrap();
        // Whoever swapped it carries it too: no hop proof gives it away.
        let relay = *payload.relay();
        let life = payload.hop_proof().life();
        let transaction = payload.into_transaction();
        let payload = Payload::carry(transaction, relay, &other, life).unwrap();
        let error = payload.verify(&NOW).unwrap_err();
        let did = other.did();
        assert_eq!(
            error,
            VerifyError::BadSignature {
                role: Role::Origin,
                did
            }
        );
    }
}

#[test]
fn law_signatures_do_not_cross_domains() {
    // The hop's signature in the origin's place, and the origin's in the hop's.
    let payload = payload();
    let [origin, hop] = [payload.transaction().proof(), payload.hop_proof()].map(to_vec);
    let [origin, hop] = [&origin[origin.len() - 64..], &hop[hop.len() - 64..]];
    for (old, new, role) in [(origin, hop, Role::Origin), (hop, origin, Role::Hop)] {
        let error = receive(&replace(&frame(&payload), old, new)).unwrap_err();
        let did = account(1).did();
        assert_eq!(error, VerifyError::BadSignature { role, did });
    }
}

#[test]
fn law_a_hop_answers_for_its_relay_fields() {
    let mut relay = RelayFields::direct(account(2).did());
    relay.reply_via = Some(account(3).did());
    relay.hop_budget = HOP_BUDGET_MAX;
    let transaction = payload().into_transaction();
    let payload = Payload::carry(transaction.clone(), relay, &signer(3), LIFE).unwrap();
    let good = frame(&payload);
    assert_eq!(*receive(&good).unwrap().relay(), relay);
    for changed in [
        RelayFields {
            next_hop: account(4).did(),
            ..relay
        },
        RelayFields {
            destination: account(4).did(),
            ..relay
        },
        RelayFields {
            hop_budget: HOP_BUDGET_MAX - 1,
            ..relay
        },
        RelayFields {
            handed_off: true,
            ..relay
        },
        RelayFields {
            reply_via: Some(account(4).did()),
            ..relay
        },
    ] {
        let error = receive(&replace(&good, &to_vec(&relay), &to_vec(&changed))).unwrap_err();
        let did = account(3).did();
        assert_eq!(
            error,
            VerifyError::BadSignature {
                role: Role::Hop,
                did
            }
        );
    }
    let over = RelayFields {
        hop_budget: HOP_BUDGET_MAX + 1,
        ..relay
    };
    let error = receive(&replace(&good, &to_vec(&relay), &to_vec(&over))).unwrap_err();
    assert!(matches!(error, VerifyError::Malformed(_)), "{error}");
    let error = Payload::carry(transaction, over, &signer(3), LIFE).unwrap_err();
    let (hops, bound) = (HOP_BUDGET_MAX + 1, HOP_BUDGET_MAX);
    assert_eq!(error, SignError::TooManyHops { hops, bound });
}

#[test]
fn proof_counts_in_its_life_only() {
    let code_at = |now_ms| {
        let context = VerifyContext { now_ms, ..NOW };
        payload()
            .verify(&context)
            .map(drop)
            .map_err(|error| error.code())
    };
    assert_eq!(code_at(LIFE.issued_ms - CLOCK_SKEW_MS), Ok(()));
    assert_eq!(code_at(LIFE.last_ms()), Ok(()));
    assert_eq!(
        code_at(LIFE.issued_ms - CLOCK_SKEW_MS - 1),
        Err("payload/from_the_future")
    );
    assert_eq!(code_at(LIFE.last_ms() + 1), Err("payload/expired"));
}

#[test]
fn delegation_that_ends_first_ends_its_payload() {
    let short = Life {
        issued_ms: NOW_MS - 10,
        ttl_ms: 20,
    };
    let short = signer_on(NETWORK, &account(1), delegatee(9), short);
    for (origin, hop) in [(&short, &signer(1)), (&signer(1), &short)] {
        let payload = carry(Transaction::sign(&draft(hello()), origin).unwrap(), hop);
        assert!(payload.clone().verify(&NOW).is_ok());
        let context = VerifyContext {
            now_ms: NOW_MS + 11,
            ..NOW
        };
        // The references are `Known` here: a verified delegation is asked again for its life.
        let error = payload.verify(&context).unwrap_err();
        assert_eq!(error.code(), "delegation/expired");
    }
}

/// A proof from before its delegation: both count now, but nobody could ever show who signed it, so a
/// fork of it would leave no evidence.
#[test]
fn law_what_verifies_makes_a_header_that_verifies() {
    let issued = |ms_before_delegation: u64| Life {
        issued_ms: NOW_MS - ms_before_delegation,
        ttl_ms: PROOF_TTL_DEFAULT_MS,
    };
    let new = Life {
        issued_ms: NOW_MS,
        ..DELEGATION_LIFE
    };
    let new = signer_on(NETWORK, &account(1), delegatee(101), new);
    let old = signer(3);
    let sign = |origin: &Signer, hop: &Signer, life| {
        let draft = Draft {
            life,
            ..draft(hello())
        };
        let transaction = Transaction::sign(&draft, origin).unwrap();
        let relay = RelayFields::direct(transaction.destination());
        Payload::carry(transaction, relay, hop, life).unwrap()
    };
    let in_time = receive(&frame(&sign(&new, &old, issued(CLOCK_SKEW_MS)))).unwrap();
    assert!(in_time.header().verify().is_ok());
    let early = issued(CLOCK_SKEW_MS + 1);
    for (role, origin, hop) in [(Role::Origin, &new, &old), (Role::Hop, &old, &new)] {
        let error = receive(&frame(&sign(origin, hop, early))).unwrap_err();
        assert_eq!(error.code(), "delegation/from_the_future");
        assert!(matches!(error, VerifyError::Delegation { role: of, .. } if of == role));
    }
}

#[test]
fn law_a_header_signed_outside_its_delegation_s_life_shows_nothing() {
    let mut bytes = to_vec(&header(41, hello(), 5));
    assert!(from_slice::<SignedHeader>(&bytes).unwrap().verify().is_ok());
    // The origin's own signature, with the instant it would rather have signed at.
    let early = Life {
        issued_ms: DELEGATION_LIFE.issued_ms - CLOCK_SKEW_MS - 1,
        ..LIFE
    };
    let draft = Draft {
        life: early,
        ..draft(hello())
    };
    let transaction = to_vec(&Transaction::sign(&draft, &signer(1)).unwrap());
    let proof_bytes =
        transaction.len() - 64 - to_vec(&early.issued_ms).len() - to_vec(&early.ttl_ms).len();
    let header_at = bytes.len() - (transaction.len() - proof_bytes);
    bytes.truncate(header_at - 2);
    bytes.extend(&transaction[proof_bytes - 2..]);
    let error = from_slice::<SignedHeader>(&bytes)
        .unwrap()
        .verify()
        .unwrap_err();
    assert_eq!(error.code(), "delegation/from_the_future");
}

#[test]
fn payload_of_another_network_is_refused() {
    let foreign = signer_on(NetworkId(8), &account(1), delegatee(101), DELEGATION_LIFE);
    let transaction = Transaction::sign(&draft(hello()), &foreign).unwrap();
    let error = receive(&frame(&carry(transaction, &foreign))).unwrap_err();
    assert_eq!(error.code(), "delegation/wrong_network");
}

#[test]
fn bounds_refuse_before_anything_is_signed() {
    let long = Life {
        ttl_ms: PROOF_TTL_MAX_MS + 1,
        ..LIFE
    };
    let refused = SignError::LifeTooLong {
        ttl_ms: PROOF_TTL_MAX_MS + 1,
        ttl_max_ms: PROOF_TTL_MAX_MS,
    };
    let sign = |draft| Transaction::sign(&draft, &signer(1)).map(drop);
    assert_eq!(
        sign(Draft {
            life: long,
            ..draft(hello())
        }),
        Err(refused)
    );
    let longest = Life {
        ttl_ms: PROOF_TTL_MAX_MS,
        ..LIFE
    };
    assert_eq!(
        sign(Draft {
            life: longest,
            ..draft(hello())
        }),
        Ok(())
    );
    let relay = RelayFields::direct(account(2).did());
    let carried = Payload::carry(payload().into_transaction(), relay, &signer(1), long);
    assert_eq!(carried.unwrap_err(), refused);
    let body = vec![0; DATA_MAX_BYTES];
    let size_bytes = to_vec(&Message::Control(&body)).len();
    assert_eq!(
        sign(draft(Message::Control(&body))),
        Err(SignError::Oversized { size_bytes })
    );
    assert!(Namespace::new(&"n".repeat(NAMESPACE_MAX_BYTES)).is_ok());
    assert!(Namespace::new(&"n".repeat(NAMESPACE_MAX_BYTES + 1)).is_err());
}

#[test]
fn law_the_largest_payload_fits_a_frame() {
    // Two secp256k1 accounts, the longest numbers everywhere, and the most data.
    let longest = |seed| {
        let account = Account::secp256k1(Zeroizing::new([seed; 32])).unwrap();
        let life = Life {
            issued_ms: NOW_MS,
            ttl_ms: DELEGATION_TTL_DEFAULT_MS,
        };
        signer_on(NetworkId(u32::MAX), &account, delegatee(seed), life)
    };
    let overhead = to_vec(&Message::Control(&vec![0; DATA_MAX_BYTES - 100])).len();
    let body = vec![0; DATA_MAX_BYTES - (overhead - (DATA_MAX_BYTES - 100))];
    let draft = Draft {
        sequence: u64::MAX,
        ..draft(Message::Control(&body))
    };
    let transaction = Transaction::sign(&draft, &longest(1)).unwrap();
    assert_eq!(transaction.data().as_bytes().len(), DATA_MAX_BYTES);
    let relay = RelayFields {
        hop_budget: HOP_BUDGET_MAX,
        reply_via: Some(Did([9; 20])),
        ..RelayFields::direct(Did([9; 20]))
    };
    let frame = frame(&Payload::carry(transaction, relay, &longest(2), LIFE).unwrap());
    assert!(frame.len() <= FRAME_MAX_BYTES, "{}", frame.len());
    assert!(frame.len() - DATA_MAX_BYTES <= PAYLOAD_OVERHEAD_MAX_BYTES);
    let context = VerifyContext {
        network: NetworkId(u32::MAX),
        now_ms: NOW_MS,
    };
    let mut read = Payload::from_frame(&frame).unwrap();
    read.resolve(|_| None).unwrap();
    assert!(read.verify(&context).is_ok());
}

#[test]
fn frames_that_are_no_payload_are_refused() {
    let good = frame(&payload());
    let oversized = [&good[..], &vec![0; FRAME_MAX_BYTES]].concat();
    for (bytes, code) in [
        (&b""[..], "frame/unknown_marker"),
        (&good[1..], "frame/unknown_marker"),
        (b"OvLc\x80", "payload/not_payload"),
        (&good[..good.len() - 1], "payload/malformed"),
        (&[&good[..], &[0]].concat(), "payload/malformed"),
        (&oversized, "frame/oversized"),
    ] {
        assert_eq!(receive(bytes).unwrap_err().code(), code);
    }
}

#[test]
fn references_resolve_to_what_was_confirmed_and_to_nothing_else() {
    let relayed = carry(payload().into_transaction(), &signer(3));
    let by_reference = relayed.to_frame(|_| true);
    assert!(by_reference.len() + 300 < frame(&relayed).len());
    for (known, missing) in [(vec![3], Role::Origin), (vec![1], Role::Hop)] {
        let mut read = Payload::from_frame(&by_reference).unwrap();
        let error = read.resolve(|named| {
            let known = known
                .iter()
                .map(|&seed| Arc::clone(signer(seed).delegation()));
            known
                .into_iter()
                .find(|known| known.digest() == named.digest())
        });
        let digest = signer(if missing == Role::Origin { 1 } else { 3 })
            .delegation()
            .digest();
        assert_eq!(
            error,
            Err(VerifyError::UnknownDelegation {
                role: missing,
                digest
            })
        );
        assert!(matches!(
            read.verify(&NOW),
            Err(VerifyError::UnknownDelegation { .. })
        ));
    }
    let mut read = Payload::from_frame(&by_reference).unwrap();
    read.resolve(|named| {
        let known = [1, 3].map(|seed| Arc::clone(signer(seed).delegation()));
        known
            .into_iter()
            .find(|known| known.digest() == named.digest())
    })
    .unwrap();
    assert!(matches!(
        read.hop_proof().delegation(),
        DelegationRef::Known(_)
    ));
    let verified = read.verify(&NOW).unwrap();
    assert_eq!(
        (verified.origin(), verified.hop()),
        (account(1).did(), account(3).did())
    );
}

/// What a receiver makes of a frame that verified the delegations of these accounts before.
fn receive_knowing(
    frame: &[u8],
    accounts: &[u8],
) -> Result<overlane_core::identity::Verified<Payload>, VerifyError> {
    let known = |digest| {
        let known = accounts
            .iter()
            .map(|&seed| Arc::clone(signer(seed).delegation()));
        known.into_iter().find(|known| known.digest() == digest)
    };
    let mut payload = Payload::from_frame_knowing(frame, known)?;
    payload.resolve(|named| known(named.digest()))?;
    payload.verify(&NOW)
}

#[test]
fn what_was_verified_before_is_taken_for_itself_and_what_is_not_it_is_decoded() {
    let relayed = carry(payload().into_transaction(), &signer(3));
    for (payload, hop) in [(payload(), 1), (relayed, 3)] {
        let frame = frame(&payload);
        for known in [&[][..], &[1], &[3], &[1, 3], &[2]] {
            let verified = receive_knowing(&frame, known).unwrap();
            let seen = (verified.origin(), verified.hop(), verified.sequence());
            assert_eq!(
                seen,
                (account(1).did(), account(hop).did(), 41),
                "{known:?}"
            );
            assert_eq!(verified.digest(), receive(&frame).unwrap().digest());
        }
        let known = |digest| {
            let known = Arc::clone(signer(1).delegation());
            (known.digest() == digest).then_some(known)
        };
        let read = Payload::from_frame_knowing(&frame, known).unwrap();
        let origin = read.transaction().proof().delegation();
        assert!(matches!(origin, DelegationRef::Known(_)));
        // A table that answers for every digest with the same one.
        let wrong = |_| Some(Arc::clone(signer(4).delegation()));
        let read = Payload::from_frame_knowing(&frame, wrong).unwrap();
        assert_eq!(read, Payload::from_frame(&frame).unwrap());
    }
    for (bytes, code) in [
        (&b""[..], "frame/unknown_marker"),
        (b"OvLc\x80", "payload/not_payload"),
        (
            &[&frame(&payload())[..], &[0]].concat(),
            "payload/malformed",
        ),
        (
            &[&frame(&payload())[..], &vec![0; FRAME_MAX_BYTES]].concat(),
            "frame/oversized",
        ),
    ] {
        assert_eq!(receive_knowing(bytes, &[1]).unwrap_err().code(), code);
    }
}

#[test]
fn a_table_that_answers_wrongly_changes_nothing() {
    let mut read = Payload::from_frame(&frame(&payload())).unwrap();
    read.resolve(|_| Some(Arc::clone(signer(4).delegation())))
        .unwrap();
    assert_eq!(read.verify(&NOW).unwrap().origin(), account(1).did());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn law_any_changed_byte_of_a_payload_is_refused(
        relayed in any::<bool>(), at in any::<prop::sample::Index>(), with in 1..=255_u8,
    ) {
        let hop = if relayed { signer(3) } else { signer(1) };
        let mut bytes = frame(&carry(payload().into_transaction(), &hop));
        prop_assert!(receive(&bytes).is_ok());
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        prop_assert!(receive(&bytes).is_err(), "byte {}", at);
        prop_assert!(receive_knowing(&bytes, &[1, 3]).is_err(), "byte {}, known delegations", at);
    }

    #[test]
    fn prop_any_bytes_are_refused_in_words(
        marked in any::<bool>(), bytes in proptest::collection::vec(any::<u8>(), 0..512),
    ) {
        let marker: &[u8] = if marked { b"OvPy" } else { b"" };
        let bytes = [marker, &bytes].concat();
        let error = receive(&bytes).unwrap_err();
        prop_assert!(!error.to_string().is_empty());
        prop_assert_eq!(receive_knowing(&bytes, &[1]).unwrap_err(), error);
    }

    #[test]
    fn prop_messages_round_trip(
        name in "\\PC{0,16}", body in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let namespace = Namespace::new(&name).unwrap();
        let message = Message::Application { namespace, body: &body };
        let transaction = Transaction::sign(&draft(message), &signer(1)).unwrap();
        prop_assert_eq!(transaction.data().message(), message);
        let again: Transaction = from_slice(&to_vec(&transaction)).unwrap();
        prop_assert_eq!(again.data().message(), message);
    }
}

fn header(sequence: u64, message: Message<'_>, tx: u8) -> SignedHeader {
    let draft = Draft {
        sequence,
        tx_id: TxId([tx; 16]),
        ..draft(message)
    };
    let transaction = Transaction::sign(&draft, &signer(1)).unwrap();
    carry(transaction, &signer(1))
        .verify(&NOW)
        .unwrap()
        .header()
}

fn report(accepted: Accepted, offered: SignedHeader, reporter: &Signer) -> ForkEvidence {
    let evidence = ForkEvidence::report(accepted, offered, reporter, NOW_MS);
    let bytes = to_vec(&evidence);
    assert_eq!(from_slice::<ForkEvidence>(&bytes).unwrap(), evidence);
    assert!(
        from_slice::<Value>(&bytes).is_ok(),
        "one item, whoever reads it"
    );
    evidence
}

#[test]
fn law_fork_evidence_convicts_without_the_data_at_any_time() {
    let [accepted, offered] = [header(9, hello(), 1), header(9, hello(), 2)];
    let destination = signer(2);
    let whole = report(
        Accepted::Header(Box::new(accepted.clone())),
        offered.clone(),
        &destination,
    );
    let fork = *whole.verify().unwrap().facts();
    assert!(fork.both_signed);
    assert_eq!(
        (fork.accepted, fork.offered),
        (accepted.digest(), offered.digest())
    );
    assert_eq!((fork.stream, fork.sequence), (offered.stream(), 9));
    assert_eq!(
        (fork.reporter, fork.reported_ms),
        (destination.did(), NOW_MS)
    );
    let partial = report(Accepted::Digest(accepted.digest()), offered, &destination);
    assert!(!partial.verify().unwrap().facts().both_signed);
}

#[test]
fn law_what_is_no_fork_convicts_nobody() {
    let offered = header(9, hello(), 2);
    let whole = |header| Accepted::Header(Box::new(header));
    let refused = |accepted, reporter: &Signer| {
        report(accepted, offered.clone(), reporter)
            .verify()
            .unwrap_err()
            .code()
    };
    let destination = signer(2);
    // A replay, another sequence, another class with the same sequence, a bystander's report.
    assert_eq!(
        refused(whole(offered.clone()), &destination),
        "fork/same_transaction"
    );
    assert_eq!(
        refused(whole(header(8, hello(), 1)), &destination),
        "fork/apart_streams"
    );
    let other_class = header(9, Message::E2e(b"e"), 1);
    assert_eq!(
        refused(whole(other_class), &destination),
        "fork/apart_streams"
    );
    let bystander = refused(whole(header(9, hello(), 1)), &signer(3));
    assert_eq!(bystander, "fork/not_the_destination");
}

proptest! {
    #[test]
    fn law_any_changed_byte_of_fork_evidence_is_refused(
        at in any::<prop::sample::Index>(), with in 1..=255_u8,
    ) {
        let accepted = Accepted::Header(Box::new(header(9, hello(), 1)));
        let mut bytes = to_vec(&report(accepted, header(9, hello(), 2), &signer(2)));
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        let verified = from_slice::<ForkEvidence>(&bytes).map(|changed| changed.verify());
        prop_assert!(!matches!(verified, Ok(Ok(_))), "byte {}", at);
        if let Ok(Err(error)) = verified {
            prop_assert!(matches!(error, ForkError::Unverified(_)), "byte {}: {}", at, error);
        }
    }
}
