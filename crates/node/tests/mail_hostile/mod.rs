//! What strangers say of mail, what becomes of it where its keeper breaks off, and who tells a key.

use std::collections::BTreeSet;

use overlane_core::identity::Life;
use overlane_core::mail::{HoldProof, HoldSubject, MAIL_LIFE_DEFAULT_MS};
use overlane_core::wire::cbor::Writer;
use overlane_core::{Class, Coded, Did, TransactionDigest};
use overlane_node::inbox::{DELIVERED_WITHIN_MS, Said};
use overlane_relay::inbox::bounds::{DRAIN_ROUNDS_MAX, INBOX_MAILS};
use overlane_relay::inbox::{Frame, Outcome, OutcomeKind};
use overlane_relay::log::{Frame as LogFrame, LogId, Space, Turn};

use super::mesh::broken::{Broken, caught};
use super::mesh::{self, Mesh, signer};
use super::{
    MINUTE_MS, arrived, behind, bodies, cast, comes_back, ends_told, letters, ring_of, taken,
};

/// A receipt that this node signs, whatever it holds.
fn receipt(mesh: &Mesh, by: usize, digest: TransactionDigest) -> Said {
    let life = Life {
        issued_ms: mesh.now_ms,
        ttl_ms: MAIL_LIFE_DEFAULT_MS,
    };
    let signer = signer(u8::try_from(by).unwrap(), mesh::NETWORK, mesh::START_MS);
    let proof = HoldProof::sign(HoldSubject(digest), &signer, life).unwrap();
    Said::Inbox(Frame::Held(Box::new(proof)).to_bytes())
}

/// Who holds a sender's one mail, by its book.
fn held_by(mesh: &mut Mesh, from: usize) -> BTreeSet<Did> {
    let held = mesh.mail_of(from).held;
    held.into_iter().flat_map(|it| it.by.into_keys()).collect()
}

#[test]
fn mail_counts_as_held_by_those_that_were_asked_and_by_nobody_else_that_says_so() {
    let mut mesh = ring_of(6, 3, INBOX_MAILS);
    let (away, from, holders) = cast(&mesh);
    let stranger = behind(&mesh, away)[3];
    let dids = |of: &[usize]| {
        of.iter()
            .map(|&it| mesh.nodes[it].did)
            .collect::<BTreeSet<_>>()
    };
    let (all, some) = (dids(&holders), dids(&holders[..2]));
    let (own, to) = (mesh.nodes[from].did, mesh.nodes[away].did);
    mesh.crash(away, true);
    mesh.run_for(2 * MINUTE_MS);
    // One of them is slow.
    mesh.deaf.insert(holders[2]);
    let id = mesh.mail(from, away, b"a letter");
    let sent = |mesh: &Mesh| mesh.nodes[from].sent.get(&id).cloned();
    mesh.run(|mesh| sent(mesh).is_some());
    let digest = sent(&mesh).unwrap().unwrap().digest;
    // Before the chain was asked, while it is, and when all is settled.
    for wait_ms in [1, 5_000, 500, 1_000, 10_000, 1_000] {
        let said = receipt(&mesh, stranger, digest);
        mesh.say_of_mail(stranger, own, &said);
        mesh.run_for(wait_ms);
    }
    assert_eq!(arrived(&mesh, from, id), "held");
    let by: BTreeSet<usize> = mesh.holders(from, id).into_iter().collect();
    assert_eq!(by, holders[..2].iter().copied().collect());
    assert_eq!(held_by(&mut mesh, from), some);
    // Nor is its word on the end of any weight.
    let taken = Outcome {
        digest,
        destination: to,
        kind: OutcomeKind::Taken,
        at_ms: mesh.now_ms,
    };
    let taken = Said::Inbox(Frame::Outcomes(vec![taken]).to_bytes());
    mesh.say_of_mail(stranger, own, &taken);
    mesh.run_for(1_000);
    assert_eq!(ends_told(&mesh, from), 0);
    // One that was asked counts, however late.
    mesh.deaf.clear();
    mesh.run_for(10_000);
    assert_eq!(held_by(&mut mesh, from), all);
    // What a stranger said is counted as what says nothing.
    let mail = mesh.mail_of(from);
    assert!(
        mail.counters.malformed + mail.holdings.bad_frames >= 3,
        "{mail:?}"
    );
}

/// An answer to whatever the owner asks that agrees with nobody, another one each time.
fn endless(owner: Did, number: u64) -> Said {
    let mut cover = Writer::new();
    cover.array(2).uint(1).array(2);
    for upper in [number, u64::MAX] {
        let fingerprint = [u8::try_from(number % 251).unwrap(); 32];
        let range = cover.array(3).uint(upper).uint(1);
        range.bytes(&fingerprint);
    }
    let frame = LogFrame::Recon {
        log: LogId::inbox(&owner),
        space: Space::Shared,
        turn: Turn::Answer,
        payload: cover.as_bytes(),
    };
    Said::Log(frame.to_bytes())
}

#[test]
fn mail_comes_from_the_others_while_one_holder_never_ends() {
    let mut mesh = ring_of(6, 3, INBOX_MAILS);
    let (away, from, holders) = cast(&mesh);
    let own = mesh.nodes[away].did;
    mesh.crash(away, true);
    mesh.run_for(2 * MINUTE_MS);
    letters(&mut mesh, from, away, 3);
    mesh.run_for(MINUTE_MS);
    let liar = holders[0];
    assert_eq!(mesh.held(liar, away), 3);
    // Its own keeper says nothing; this test does.
    mesh.nodes[liar].mail.is_stuck = true;
    comes_back(&mut mesh, away, from);
    let mut answers = 0;
    while !mesh.refusals(away).contains_key("recon/gave_up_rounds") {
        answers += 1;
        assert!(answers < 1_200, "it never ends");
        let said = endless(own, answers);
        mesh.say_of_mail(liar, own, &said);
        mesh.run_for(100);
    }
    assert!(answers >= u64::from(DRAIN_ROUNDS_MAX));
    mesh.run_for(1_000);
    assert_eq!(taken(&mut mesh, away), bodies(3));
    let drained: BTreeSet<Did> = mesh.mail_of(away).drained.into_iter().collect();
    let honest = holders[1..].iter().map(|&it| mesh.nodes[it].did).collect();
    assert_eq!(drained, honest);
}

#[test]
fn law_mail_places_are_free_where_the_keeper_broke_off() {
    its_places_are_free();
    let said = caught(Broken::KeeperBreaksUntold, its_places_are_free);
    assert!(said.contains("its places are held for ever"), "{said}");
}

fn its_places_are_free() {
    let mut mesh = Mesh::new(2, 5);
    mesh.with_mail(INBOX_MAILS);
    mesh.link(0, 1);
    mesh.join_ring();
    mesh.run_for(MINUTE_MS);
    let to = mesh.nodes[1].did;
    // Its keeper waits for a disk, and what comes for it holds its places.
    mesh.nodes[1].mail.is_stuck = true;
    for _ in 0..400 {
        mesh.say_of_mail(0, to, &Said::Inbox(vec![0]));
    }
    mesh.run_for(2_000);
    mesh.send(0, to, Class::Storage, b"behind it");
    mesh.run_for(2_000);
    assert_eq!(mesh.nodes[1].taken.len(), 0, "the places are not full");
    mesh.keeper_breaks(1);
    mesh.run_for(2_000);
    let taken = &mesh.nodes[1].taken;
    assert_eq!(taken.len(), 1, "its places are held for ever");
    assert_eq!(taken[0].body, b"behind it");
    // Nothing more holds one.
    for _ in 0..400 {
        mesh.say_of_mail(0, to, &Said::Inbox(vec![0]));
    }
    mesh.send(0, to, Class::Storage, b"and again");
    mesh.run_for(5_000);
    assert_eq!(mesh.nodes[1].taken.len(), 2, "places are held again");
    assert!(mesh.peer(1).is_settled());
    // Its own mail is refused by name, and what was under way has its end.
    let id = mesh.mail(1, 0, b"a letter");
    mesh.run_for(MINUTE_MS);
    assert_eq!(arrived(&mesh, 1, id), "inbox/store_failed");
}

/// What it would hold itself alone, it says at once that it cannot.
#[test]
fn mail_that_nobody_but_its_sender_would_hold_is_refused_at_once_where_its_keeper_broke_off() {
    let mut mesh = Mesh::new(2, 5);
    mesh.with_mail(INBOX_MAILS);
    mesh.link(0, 1);
    mesh.join_ring();
    mesh.run_for(MINUTE_MS);
    // Its destination is silent, and not known to be away.
    mesh.deaf.insert(1);
    let asked = mesh.mail(0, 1, b"asked after");
    mesh.run_for(1_000);
    mesh.crash(1, true);
    mesh.nodes[0].mail.is_stuck = true;
    let given = mesh.mail(0, 1, b"given to its keeper");
    mesh.run_for(1_000);
    for id in [asked, given] {
        assert_eq!(arrived(&mesh, 0, id), "nothing yet");
    }
    mesh.keeper_breaks(0);
    assert_eq!(arrived(&mesh, 0, given), "inbox/store_failed");
    mesh.run_for(DELIVERED_WITHIN_MS);
    assert_eq!(arrived(&mesh, 0, asked), "inbox/store_failed");
    assert_eq!(mesh.mail_of(0).counters.not_held, 2);
}

/// A node that was started when its friend was away already: it never met it, and has to be told its key.
fn who_was_never_met_has_its_key_told() {
    let mut mesh = ring_of(6, 11, INBOX_MAILS);
    let (away, from, _) = cast(&mesh);
    let all = behind(&mesh, away);
    mesh.crash(away, true);
    mesh.run_for(2 * MINUTE_MS);
    // Keys are forgotten with a process: the sender knows none of before.
    let again = match mesh::broken::now() {
        Some(Broken::KeysForgottenBehind) => all.clone(),
        _ => vec![from],
    };
    for &index in &again {
        mesh.crash(index, true);
    }
    for &index in &again {
        mesh.start(index, true);
        mesh.join_one(index);
    }
    for &index in &again {
        if index != all[0] {
            mesh.link(index, all[0]);
        }
    }
    mesh.run_for(2 * MINUTE_MS);
    let to = mesh.nodes[away].did;
    let body = b"to one never met";
    let id = mesh.mail_to_seal(from, to, mesh::data_in("chat", body));
    mesh.run_for(2 * MINUTE_MS);
    let sent = mesh.nodes[from].sent[&id].as_ref();
    assert_eq!(sent.map(drop).map_err(Coded::code), Ok(()), "its key");
    assert_eq!(arrived(&mesh, from, id), "held");
    comes_back(&mut mesh, away, from);
    mesh.run_for(2 * MINUTE_MS);
    assert_eq!(mesh.take_all(away), [body.to_vec()]);
}

#[test]
fn law_mail_to_one_never_met_is_sealed_to_the_key_that_those_behind_its_place_tell() {
    who_was_never_met_has_its_key_told();
    let broken = Broken::KeysForgottenBehind;
    let said = caught(broken, who_was_never_met_has_its_key_told);
    assert!(said.contains("seal/no_key"), "{said}");
}
