//! Groups: real posts, real rosters, and a member that is taken away.

use overlane_core::NetworkId;
use overlane_core::group::{GroupId, GroupKey, Membership, Post, Roster, RosterSubject};
use overlane_core::identity::{
    Account, Delegatee, Delegation, Life, Signer, Verified, VerifyContext,
};
use overlane_core::seal::SealingKey;
use overlane_relay::log::group::{GroupRules, POST_AGE_MAX_MS};
use overlane_relay::log::testkit::MemoryLogs;
use overlane_relay::log::{Frame, LogId, LogStore, Logs, Mutant, Peer, Retention};
use zeroize::Zeroizing;

const NETWORK: NetworkId = NetworkId(7);
const NOW_MS: u64 = 1_700_000_000_000;
const NONCE: [u8; 16] = [4; 16];

fn secret(seed: u8) -> Zeroizing<[u8; 32]> {
    Zeroizing::new([seed; 32])
}

fn account(seed: u8) -> Account {
    Account::ed25519(secret(seed)).unwrap()
}

fn signer(seed: u8) -> Signer {
    let context = VerifyContext {
        network: NETWORK,
        now_ms: NOW_MS,
    };
    let delegatee = Delegatee::from_seed(secret(seed ^ 0x80));
    let life = Life {
        issued_ms: NOW_MS - POST_AGE_MAX_MS - 10_000,
        ttl_ms: 2 * POST_AGE_MAX_MS,
    };
    let delegation = Delegation::issue(&account(seed), &delegatee, NETWORK, life).unwrap();
    Signer::new(delegatee, delegation.verify(&context).unwrap()).unwrap()
}

fn group() -> GroupId {
    GroupId::of(NETWORK, account(1).did(), &NONCE)
}

fn roster(revision: u64, key: &GroupKey, members: &[u8]) -> Verified<Roster> {
    let members = members.iter().map(|seed| {
        let to = SealingKey::of_account(account(*seed).key()).unwrap();
        let member = account(*seed).did();
        let key = key.wrap(group(), member, &to, secret(*seed)).unwrap();
        Membership { member, key }
    });
    let hosts = vec![account(8).did(), account(9).did()];
    let subject = RosterSubject::new(NONCE, revision, key.epoch(), members.collect(), hosts);
    let life = Life {
        issued_ms: NOW_MS,
        ttl_ms: 1_000_000,
    };
    let roster = Roster::sign(subject.unwrap(), &signer(1), life).unwrap();
    let context = VerifyContext {
        network: NETWORK,
        now_ms: NOW_MS,
    };
    Roster::read(&roster.to_bytes(), &context).unwrap()
}

fn post(author: u8, key: &GroupKey, number: u8, written_ms: u64) -> Vec<u8> {
    let post = Post::write(
        group(),
        key,
        &signer(author),
        &[number],
        [number; 24],
        written_ms,
    );
    post.unwrap().to_bytes()
}

fn send(host: &mut Logs<MemoryLogs, GroupRules>, from: u8, envelope: &[u8]) -> String {
    let log = LogId::group(group());
    let frame = Frame::Send { log, envelope }.to_bytes();
    let peer = Peer {
        account: account(from).did(),
        slot: 0,
    };
    host.handle_frame(peer, &frame, NOW_MS).unwrap();
    host.flush(NOW_MS).unwrap();
    let reply = host.poll_transmit().unwrap().unwrap();
    match Frame::from_bytes(&reply.frame).unwrap() {
        Frame::SendAck { seq, .. } => format!("ack {seq}"),
        Frame::Refuse { code, .. } => code.to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn group_posts_are_taken_from_members_and_hosts_and_from_nobody_else() {
    let (old, new) = (GroupKey::new(1, secret(30)), GroupKey::new(2, secret(31)));
    let mut rules = GroupRules::new(NETWORK, Retention::GROUP);
    let log = rules.set_roster(roster(1, &old, &[1, 2, 3])).unwrap();
    let mut host = Logs::open(MemoryLogs::default(), rules).unwrap();
    assert_eq!(send(&mut host, 2, &post(2, &old, 1, NOW_MS)), "ack 1");
    assert_eq!(send(&mut host, 3, &post(3, &old, 2, NOW_MS)), "ack 2");
    // A stranger, one who brings another's, one who forges.
    assert_eq!(
        send(&mut host, 4, &post(4, &old, 3, NOW_MS)),
        "log/not_here"
    );
    assert_eq!(
        send(&mut host, 2, &post(3, &old, 4, NOW_MS)),
        "log/not_its_author"
    );
    let mut forged = post(2, &old, 5, NOW_MS);
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(send(&mut host, 2, &forged), "statement/bad_signature");
    assert_eq!(send(&mut host, 2, b"x"), "group/malformed");
    // Dated ahead, and dated back beyond what a member may.
    assert_eq!(
        send(&mut host, 2, &post(2, &old, 6, NOW_MS + 3_001)),
        "log/too_old"
    );
    let long_ago = NOW_MS - POST_AGE_MAX_MS - 1;
    assert_eq!(
        send(&mut host, 2, &post(2, &old, 7, long_ago)),
        "log/too_old"
    );
    assert_eq!(send(&mut host, 9, &post(2, &old, 7, long_ago)), "ack 3");
    // One is taken away: nothing from it any more, but what it wrote before comes from hosts.
    host.rules().set_roster(roster(2, &new, &[1, 2])).unwrap();
    assert_eq!(
        send(&mut host, 3, &post(3, &old, 8, NOW_MS)),
        "log/not_here"
    );
    assert_eq!(send(&mut host, 9, &post(3, &old, 8, NOW_MS)), "ack 4");
    assert_eq!(
        send(&mut host, 9, &post(3, &new, 9, NOW_MS)),
        "group/not_a_member"
    );
    assert!(
        host.rules()
            .set_roster(roster(2, &new, &[1, 2, 3]))
            .is_err(),
        "not newer"
    );
    assert_eq!(host.store().entries(&log, 0, 99).unwrap().len(), 4);
}

/// A host that lies hands on what accounts wrote that it made up, in an epoch that is over. How many of its twenty posts a
/// member has then, in a log of ninety.
fn flooded_by_a_host(mutant: Option<Mutant>) -> usize {
    let (old, new) = (GroupKey::new(1, secret(30)), GroupKey::new(2, secret(31)));
    let retention = Retention {
        entries: 90,
        ..Retention::GROUP
    };
    let mut rules = GroupRules::new(NETWORK, retention);
    let log = rules.set_roster(roster(2, &new, &[1, 2])).unwrap();
    let mut host = Logs::open(MemoryLogs::default(), rules).unwrap();
    if let Some(mutant) = mutant {
        host.break_rule(mutant);
    }
    for number in 0..20 {
        send(&mut host, 2, &post(2, &new, number, NOW_MS));
    }
    for author in 40..100 {
        for number in 0..4 {
            send(&mut host, 9, &post(author, &old, number, NOW_MS));
        }
    }
    let held = host.store().entries(&log, 0, 999).unwrap();
    assert_eq!(held.len(), 90);
    let member = account(2).did();
    held.iter().filter(|it| it.author == member).count()
}

#[test]
fn law_group_who_is_no_member_has_no_share_of_its_own() {
    assert_eq!(flooded_by_a_host(None), 20);
    let broken = flooded_by_a_host(Some(Mutant::OneShareEach));
    assert!(broken < 20, "the mutant is not found: {broken}");
}
