//! Sealed messages, held mail and groups: what opens for whom, what counts when, and what is refused.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use overlane_core::group::{
    GROUP_MEMBERS_MAX, GroupError, GroupId, GroupKey, Membership, POST_BODY_MAX_BYTES,
    POST_MAX_BYTES, Post, Roster, RosterSubject, WRAPPED_KEY_MAX_BYTES,
};
use overlane_core::identity::{
    Account, CLOCK_SKEW_MS, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Life, Signer,
    Verified, VerifyContext,
};
use overlane_core::mail::{
    HELD_MAIL_MAX_BYTES, HeldMail, MAIL_DATA_MAX_BYTES, MAIL_LIFE_DEFAULT_MS, MAIL_LIFE_MAX_MS,
    Mail, MailError, Removal, RemovalSubject,
};
use overlane_core::replay::spent_ms;
use overlane_core::seal::{
    CardSubject, ContactCard, SEALED_NAMESPACE, SEALED_OVERHEAD_BYTES, SealContext, SealError,
    SealingKey, SealingSecret, is_sealed, open, seal, seal_data, sealed_bytes,
};
use overlane_core::transaction::{
    Data, Draft, Message, Namespace, PROOF_TTL_DEFAULT_MS, Payload, RelayFields, Transaction,
};
use overlane_core::wire::bounds::MESSAGE_MAX_BYTES;
use overlane_core::wire::cbor::{from_slice, to_vec};
use overlane_core::{Class, Coded, Did, NetworkId, TransactionDigest, TxId};
use proptest::prelude::*;
use zeroize::Zeroizing;

const NETWORK: NetworkId = NetworkId(7);
const T0_MS: u64 = 1_700_000_000_000;

fn at(now_ms: u64) -> VerifyContext {
    VerifyContext {
        network: NETWORK,
        now_ms,
    }
}

fn secret(seed: u8) -> Zeroizing<[u8; 32]> {
    Zeroizing::new([seed; 32])
}

fn account(seed: u8) -> Account {
    Account::ed25519(secret(seed)).unwrap()
}

fn signer(seed: u8) -> Signer {
    let delegatee = Delegatee::from_seed(secret(seed ^ 0x80));
    let life = Life {
        issued_ms: T0_MS - 1_000,
        ttl_ms: DELEGATION_TTL_DEFAULT_MS,
    };
    let delegation = Delegation::issue(&account(seed), &delegatee, NETWORK, life).unwrap();
    Signer::new(delegatee, delegation.verify(&at(T0_MS)).unwrap()).unwrap()
}

fn context(origin: u8, destination: u8) -> SealContext {
    SealContext {
        network: NETWORK,
        origin: account(origin).did(),
        destination: account(destination).did(),
    }
}

fn sealed(origin: u8, destination: u8, body: &[u8]) -> Vec<u8> {
    let key = SealingKey::of_account(account(destination).key()).unwrap();
    let chat = Namespace::new("chat").unwrap();
    let context = context(origin, destination);
    seal(&key, &context, chat, body, secret(9)).unwrap()
}

fn payload(origin: u8, destination: u8, message: Message<'_>, issued_ms: u64) -> Payload {
    let life = Life {
        issued_ms,
        ttl_ms: PROOF_TTL_DEFAULT_MS,
    };
    let destination = account(destination).did();
    let draft = Draft {
        destination,
        tx_id: TxId([5; 16]),
        sequence: 41,
        message,
        life,
    };
    let origin = signer(origin);
    let transaction = Transaction::sign(&draft, &origin).unwrap();
    Payload::carry(transaction, RelayFields::direct(destination), &origin, life).unwrap()
}

fn mail_payload(body: &[u8]) -> Verified<Payload> {
    let body = sealed(1, 2, body);
    let namespace = Namespace::new(SEALED_NAMESPACE).unwrap();
    let message = Message::Application {
        namespace,
        body: &body,
    };
    payload(1, 2, message, T0_MS).verify(&at(T0_MS)).unwrap()
}

#[test]
fn law_a_sealed_message_opens_for_its_destination_alone() {
    let body = sealed(1, 2, b"see you at six");
    let two = SealingSecret::of_account(&account(2)).unwrap();
    let data = open(&two, &context(1, 2), &body).unwrap();
    let chat = Namespace::new("chat").unwrap();
    let said = Message::Application {
        namespace: chat,
        body: b"see you at six",
    };
    assert_eq!(data.message(), said);
    // Neither another account, nor in the name of another origin, nor on another network.
    let three = SealingSecret::of_account(&account(3)).unwrap();
    let elsewhere = SealContext {
        network: NetworkId(8),
        ..context(1, 2)
    };
    for (secret, context) in [
        (&three, context(1, 2)),
        (&two, context(3, 2)),
        (&two, context(1, 3)),
        (&two, elsewhere),
    ] {
        assert_eq!(open(secret, &context, &body), Err(SealError::DoesNotOpen));
    }
    // Nothing of it is in what holders see.
    assert!(!body.windows(4).any(|it| it == b"chat" || it == b"see "));
}

#[test]
fn law_any_changed_byte_of_a_sealed_message_is_refused() {
    let body = sealed(1, 2, b"x");
    let two = SealingSecret::of_account(&account(2)).unwrap();
    for place in 0..body.len() {
        let mut changed = body.clone();
        changed[place] ^= 1;
        assert!(
            open(&two, &context(1, 2), &changed).is_err(),
            "byte {place}"
        );
    }
    let weak = SealingKey::from_bytes([0; 32]);
    let chat = Namespace::new("chat").unwrap();
    let refused = seal(&weak, &context(1, 2), chat, b"x", secret(9));
    assert_eq!(refused.unwrap_err().code(), "seal/weak_key");
    let body = vec![0; MESSAGE_MAX_BYTES - SEALED_OVERHEAD_BYTES];
    let large = seal(&two.key(), &context(1, 2), chat, &body, secret(9));
    assert_eq!(large.unwrap_err().code(), "seal/too_large");
}

/// A sender counts a message's bytes before it is sealed; and what is carried in chunks is sealed whole.
#[test]
fn law_the_size_of_a_sealed_message_is_known_before_it_is_sealed() {
    let two = SealingSecret::of_account(&account(2)).unwrap();
    let namespace = Namespace::new("chat").unwrap();
    for plain in (0..300).chain(65_400..65_560).chain([200_000]) {
        let body = vec![0x5a; plain];
        let message = Message::Application {
            namespace,
            body: &body,
        };
        let message = Data::parse_large(to_vec(&message)).unwrap();
        let sealed = seal_data(&two.key(), &context(1, 2), &message, secret(9)).unwrap();
        let bytes = sealed.as_bytes().len();
        assert_eq!(bytes, sealed_bytes(message.as_bytes().len()));
        assert!(bytes <= message.as_bytes().len() + SEALED_OVERHEAD_BYTES);
        assert!(is_sealed(&sealed.message()));
        let opened = open(&two, &context(1, 2), sealed.message().body()).unwrap();
        assert_eq!(opened, message);
    }
}

#[test]
fn law_only_an_applications_message_is_sealed_and_once() {
    let two = SealingSecret::of_account(&account(2)).unwrap();
    let once = sealed(1, 2, b"x");
    let namespace = Namespace::new(SEALED_NAMESPACE).unwrap();
    let twice = Message::Application {
        namespace,
        body: &once,
    };
    for message in [Message::Control(b"x"), Message::E2e(b"x"), twice] {
        let data = Data::parse(to_vec(&message)).unwrap();
        let refused = seal_data(&two.key(), &context(1, 2), &data, secret(9)).unwrap_err();
        assert_eq!(refused.code(), "seal/not_a_message");
    }
    // One that does so all the same is refused by who opens it.
    let nested = seal(&two.key(), &context(1, 2), namespace, &once, secret(9)).unwrap();
    let refused = open(&two, &context(1, 2), &nested).unwrap_err();
    assert_eq!(refused.code(), "seal/not_a_message");
}

#[test]
fn law_an_account_is_sealed_to_by_its_own_key_or_by_its_card() {
    for seed in 1..20 {
        let account = account(seed);
        let key = SealingKey::of_account(account.key()).unwrap();
        assert_eq!(SealingSecret::of_account(&account).unwrap().key(), key);
    }
    let other = Account::secp256k1(secret(1)).unwrap();
    assert!(SealingKey::of_account(other.key()).is_none());
    assert!(SealingSecret::of_account(&other).is_none());
    let kept = SealingSecret::for_account(&other).unwrap();
    assert_eq!(
        SealingSecret::for_account(&other).unwrap().key(),
        kept.key()
    );
    let its_own = SealingSecret::for_account(&account(2)).unwrap();
    assert_eq!(
        SealingKey::of_account(account(2).key()),
        Some(its_own.key())
    );
    let life = Life {
        issued_ms: T0_MS,
        ttl_ms: 60_000,
    };
    let card = ContactCard::sign(CardSubject(kept.key()), &signer(1), life).unwrap();
    let bytes = to_vec(&card);
    let read: ContactCard = from_slice(&bytes).unwrap();
    let read = read.verify(&at(T0_MS + 60_000)).unwrap();
    assert_eq!(
        (read.subject().0, read.signer()),
        (kept.key(), account(1).did())
    );
    let late = card.clone().verify(&at(T0_MS + 60_001)).unwrap_err();
    assert_eq!(late.code(), "statement/expired");
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        let counts =
            from_slice::<ContactCard>(&changed).is_ok_and(|it| it.verify(&at(T0_MS)).is_ok());
        assert!(!counts, "byte {place}");
    }
}

#[test]
fn mail_is_held_and_judged_as_of_its_hold_instant() {
    let held_ms = T0_MS + PROOF_TTL_DEFAULT_MS;
    let mail = Mail::hold(
        mail_payload(b"hello"),
        &signer(3),
        held_ms,
        MAIL_LIFE_DEFAULT_MS,
    );
    let mail = mail.unwrap();
    let bytes = mail.to_held().to_bytes();
    assert!(bytes.len() <= HELD_MAIL_MAX_BYTES);
    // A day later the sender's proof is long over, and the mail counts.
    let later = at(held_ms + MAIL_LIFE_DEFAULT_MS);
    let read = HeldMail::from_bytes(&bytes).unwrap();
    assert!(mail.payload().clone().into_inner().verify(&later).is_err());
    assert_eq!(read.destination(), account(2).did());
    let read = read.verify(&later).unwrap();
    assert_eq!(read.digest(), mail.digest());
    assert_eq!(
        (read.origin(), read.hold_proof().signer()),
        (account(1).did(), account(3).did())
    );
    // After its holder's word ended it does not.
    let over = HeldMail::from_bytes(&bytes).unwrap();
    let over = over.verify(&at(later.now_ms + 1)).unwrap_err();
    assert_eq!(over.code(), "statement/expired");
}

#[test]
fn mail_that_is_not_sealed_application_data_is_not_held() {
    let hold = |payload| Mail::hold(payload, &signer(3), T0_MS, 1_000).unwrap_err();
    let open_text = Message::Application {
        namespace: Namespace::new("chat").unwrap(),
        body: b"in the clear",
    };
    let body = [0x82, 0x41, 0x00, 0x41, 0x00];
    let ill_formed = Message::Application {
        namespace: Namespace::new(SEALED_NAMESPACE).unwrap(),
        body: &body,
    };
    for (message, code) in [
        (Message::Control(b"x"), "mail/not_application"),
        (Message::Storage(b"x"), "mail/not_application"),
        (Message::E2e(b"x"), "mail/not_application"),
        (open_text, "mail/not_sealed"),
        (ill_formed, "mail/not_sealed"),
    ] {
        let payload = payload(1, 2, message, T0_MS).verify(&at(T0_MS)).unwrap();
        assert_eq!(hold(payload).code(), code);
    }
    let bound = MAIL_DATA_MAX_BYTES - SEALED_OVERHEAD_BYTES - 16;
    Mail::hold(mail_payload(&vec![0; bound]), &signer(3), T0_MS, 1_000).unwrap();
    let larger = hold(mail_payload(&vec![0; MAIL_DATA_MAX_BYTES]));
    assert_eq!(larger.code(), "mail/too_large");
    let long = Mail::hold(mail_payload(b"x"), &signer(3), T0_MS, MAIL_LIFE_MAX_MS + 1);
    assert_eq!(long.unwrap_err().code(), "statement/life_too_long");
}

#[test]
fn law_any_changed_byte_of_held_mail_is_refused() {
    let mail = Mail::hold(mail_payload(b"x"), &signer(3), T0_MS + 5, 1_000).unwrap();
    let bytes = mail.to_held().to_bytes();
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        let counts =
            HeldMail::from_bytes(&changed).is_ok_and(|it| it.verify(&at(T0_MS + 6)).is_ok());
        assert!(!counts, "byte {place}");
    }
}

#[test]
fn mail_under_the_hold_proof_of_another_is_refused() {
    let one = Mail::hold(mail_payload(b"one"), &signer(3), T0_MS, 1_000).unwrap();
    let two = Mail::hold(mail_payload(b"two"), &signer(3), T0_MS, 1_000).unwrap();
    let mut bytes = vec![0x82];
    bytes.extend(to_vec(one.payload()));
    bytes.extend(to_vec(two.hold_proof()));
    let mixed = HeldMail::from_bytes(&bytes).unwrap();
    assert_eq!(mixed.verify(&at(T0_MS)), Err(MailError::OtherTransaction));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever instant a holder states and whatever it promises, mail counts only while the stream
    /// of its transaction is remembered.
    #[test]
    fn law_mail_counts_only_while_its_stream_is_remembered(
        held in 0..2 * PROOF_TTL_DEFAULT_MS,
        keep_ms in 0..=MAIL_LIFE_MAX_MS,
        after in 0..=MAIL_LIFE_MAX_MS + 2 * PROOF_TTL_DEFAULT_MS,
    ) {
        let held_ms = T0_MS - PROOF_TTL_DEFAULT_MS / 2 + held;
        let last_ms = T0_MS + PROOF_TTL_DEFAULT_MS;
        let mail = Mail::hold(mail_payload(b"x"), &signer(3), held_ms, keep_ms).unwrap();
        for now_ms in [held_ms + after, held_ms + keep_ms, held_ms - CLOCK_SKEW_MS, T0_MS] {
            let counts = mail.to_held().verify(&at(now_ms));
            if let Ok(mail) = &counts {
                prop_assert_eq!(mail.payload().last_ms(), last_ms);
                prop_assert!(now_ms < spent_ms(Class::Application, last_ms));
                prop_assert!(held_ms <= last_ms && held_ms + CLOCK_SKEW_MS >= T0_MS);
            }
            let should = held_ms <= last_ms
                && held_ms + CLOCK_SKEW_MS >= T0_MS
                && now_ms <= held_ms + keep_ms
                && now_ms + CLOCK_SKEW_MS >= held_ms;
            prop_assert_eq!(counts.is_ok(), should);
        }
    }
}

#[test]
fn law_a_removal_is_its_owners_and_names_no_more_than_an_inbox_holds() {
    let digests = |count: u8| (0..count).rev().map(|at| TransactionDigest([at; 32]));
    assert!(RemovalSubject::of(digests(0)).is_none());
    assert!(RemovalSubject::of(digests(65)).is_none());
    let subject = RemovalSubject::of(digests(64)).unwrap();
    let life = Life {
        issued_ms: T0_MS,
        ttl_ms: MAIL_LIFE_MAX_MS,
    };
    let removal = Removal::sign(subject, &signer(2), life).unwrap();
    let bytes = to_vec(&removal);
    let read: Removal = from_slice(&bytes).unwrap();
    let read = Verified::verify(read, &at(T0_MS)).unwrap();
    assert_eq!(
        (read.signer(), read.subject().digests().len()),
        (account(2).did(), 64)
    );
    // A list out of order has another form, and is none.
    let mut swapped = bytes.clone();
    let last = swapped.windows(32).position(|it| it == [63; 32]).unwrap();
    swapped[last] = 1;
    assert!(from_slice::<Removal>(&swapped).is_err());
}

const NONCE: [u8; 16] = [3; 16];

fn group() -> GroupId {
    GroupId::of(NETWORK, account(1).did(), &NONCE)
}

fn roster(revision: u64, key: &GroupKey, members: &[u8]) -> Verified<Roster> {
    let members = members.iter().map(|seed| {
        let member = account(*seed).did();
        let to = SealingKey::of_account(account(*seed).key()).unwrap();
        let key = key.wrap(group(), member, &to, secret(*seed)).unwrap();
        assert!(key.len() <= WRAPPED_KEY_MAX_BYTES);
        Membership { member, key }
    });
    let hosts = vec![account(9).did(), account(8).did()];
    let subject = RosterSubject::new(NONCE, revision, key.epoch(), members.collect(), hosts);
    let life = Life {
        issued_ms: T0_MS,
        ttl_ms: 30 * 24 * 3_600_000,
    };
    let roster = Roster::sign(subject.unwrap(), &signer(1), life).unwrap();
    Roster::read(&roster.to_bytes(), &at(T0_MS)).unwrap()
}

fn opened(member: u8, roster: &Verified<Roster>) -> Result<GroupKey, GroupError> {
    let secret = SealingSecret::of_account(&account(member)).unwrap();
    roster.key(account(member).did(), &secret)
}

#[test]
fn group_posts_are_read_by_members_and_a_removed_member_reads_no_later_epoch() {
    let (old, new) = (GroupKey::new(1, secret(21)), GroupKey::new(2, secret(22)));
    let before = roster(1, &old, &[1, 2, 3]);
    let after = roster(2, &new, &[1, 2]);
    assert_eq!(after.group(), group());
    after.check_follows(&before).unwrap();
    assert_eq!(
        before.check_follows(&after).unwrap_err().code(),
        "group/old_revision"
    );
    let first = Post::write(group(), &old, &signer(2), b"all three", [1; 24], T0_MS).unwrap();
    let later = Post::write(group(), &new, &signer(2), b"the two", [2; 24], T0_MS).unwrap();
    let read = |post: &Post| Post::read(&post.to_bytes(), NETWORK, group()).unwrap();
    let (first, later) = (read(&first), read(&later));
    for member in [1, 2, 3] {
        assert_eq!(
            first.open(&opened(member, &before).unwrap()).unwrap(),
            b"all three"
        );
    }
    // Who was removed still reads what was written to it, and nothing of what came after.
    let kept = opened(3, &before).unwrap();
    assert_eq!(first.open(&kept).unwrap(), b"all three");
    assert_eq!(later.open(&kept), Err(GroupError::NoKey { epoch: 2 }));
    let relabelled = GroupKey::new(2, kept.to_secret());
    assert_eq!(
        later.open(&relabelled),
        Err(GroupError::DoesNotOpen { epoch: 2 })
    );
    assert_eq!(opened(3, &after).unwrap_err().code(), "group/not_a_member");
    assert_eq!(later.open(&opened(2, &after).unwrap()).unwrap(), b"the two");
    // A stranger opens no member's key.
    let stranger = SealingSecret::of_account(&account(4)).unwrap();
    let stolen = before.key(account(3).did(), &stranger);
    assert_eq!(stolen.unwrap_err().code(), "seal/does_not_open");
}

#[test]
fn group_posts_count_only_with_their_authors_signature_and_in_their_group() {
    let key = GroupKey::new(1, secret(21));
    let post = Post::write(group(), &key, &signer(2), b"x", [1; 24], T0_MS).unwrap();
    let bytes = post.to_bytes();
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        assert!(
            Post::read(&changed, NETWORK, group()).is_err(),
            "byte {place}"
        );
    }
    let elsewhere = GroupId::of(NETWORK, account(1).did(), &[4; 16]);
    let refused = Post::read(&bytes, NETWORK, elsewhere).unwrap_err();
    assert_eq!(refused.code(), "group/other_group");
    assert!(Post::read(&bytes, NetworkId(8), group()).is_err());
    let long = Post::write(
        group(),
        &key,
        &signer(2),
        &vec![0; POST_BODY_MAX_BYTES],
        [1; 24],
        T0_MS,
    );
    assert!(long.unwrap().to_bytes().len() <= POST_MAX_BYTES);
    let longer = vec![0; POST_BODY_MAX_BYTES + 1];
    let longer = Post::write(group(), &key, &signer(2), &longer, [1; 24], T0_MS).unwrap_err();
    assert_eq!(longer.code(), "group/over_bound");
}

#[test]
fn group_rosters_hold_to_their_bounds_and_fit_a_transaction() {
    let member = |at: usize| {
        let mut did = [0; 20];
        did[..8].copy_from_slice(&(at as u64).to_be_bytes());
        Membership {
            member: Did(did),
            key: vec![0; WRAPPED_KEY_MAX_BYTES],
        }
    };
    let of = |count| {
        let members = (0..count).map(member).collect();
        RosterSubject::new(NONCE, 1, 1, members, Vec::new())
    };
    let life = Life {
        issued_ms: T0_MS,
        ttl_ms: 1_000,
    };
    let full = Roster::sign(of(GROUP_MEMBERS_MAX).unwrap(), &signer(1), life).unwrap();
    Roster::read(&full.to_bytes(), &at(T0_MS)).unwrap();
    assert_eq!(
        of(GROUP_MEMBERS_MAX + 1).unwrap_err().code(),
        "group/over_bound"
    );
}
