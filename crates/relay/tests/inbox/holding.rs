//! One holder: what it takes, for how long, and what it tells.

use crate::support::*;
use overlane_core::identity::Verified;
use overlane_core::mail::MAIL_LIFE_DEFAULT_MS;
use overlane_core::transaction::PROOF_TTL_DEFAULT_MS;
use overlane_relay::inbox::bounds::{INBOX_MAILS, REMOVALS_KEPT};
use overlane_relay::inbox::{Frame, OutcomeKind};
use overlane_relay::log::{Peer, Transmit};

#[test]
fn mail_a_receipt_leaves_when_the_mail_is_durable_and_is_the_same_again() {
    let mut world = World::of(&[1]);
    let letter = mail(20, 1, T0_MS);
    let digest = letter.digest();
    let by = peer(20);
    let holder = world.at(1);
    holder
        .handle_deposit(letter.clone(), by, &signer(1), T0_MS + 5)
        .unwrap();
    assert!(holder.poll_transmit().is_none(), "nothing is durable yet");
    holder.flush(T0_MS + 5).unwrap();
    let receipt = holder.poll_transmit().unwrap();
    assert_eq!(receipt.to, did(20));
    let Frame::Held(proof) = Frame::from_bytes(&receipt.frame).unwrap() else {
        panic!("{receipt:?}")
    };
    let proof = Verified::verify(*proof, &at(T0_MS + 5)).unwrap();
    assert_eq!((proof.digest(), proof.signer()), (digest, did(1)));
    assert_eq!(proof.held_ms(), T0_MS + 5);
    assert_eq!(proof.until_ms(), T0_MS + 5 + MAIL_LIFE_DEFAULT_MS);
    // Sent again, after a restart, it is held once and the word is the first one.
    world.restart(1, &[1]);
    let holder = world.at(1);
    holder
        .handle_deposit(letter, by, &signer(1), T0_MS + 99)
        .unwrap();
    holder.flush(T0_MS + 99).unwrap();
    assert_eq!(holder.poll_transmit().unwrap(), receipt);
    assert_eq!(world.held(1).len(), 1);
}

#[test]
fn mail_that_did_not_become_durable_has_no_receipt_s14() {
    let mut world = World::of(&[1]);
    let holder = world.at(1);
    holder.flush(T0_MS).unwrap();
    let commits = holder.logs().store().commits;
    holder.logs().store().fail_at = Some((commits + 1, true));
    holder
        .handle_deposit(mail(20, 1, T0_MS), peer(20), &signer(1), T0_MS)
        .unwrap();
    assert!(holder.flush(T0_MS).is_err());
    assert!(holder.poll_transmit().is_none());
    assert!(holder.poll_log_transmit().is_err());
}

#[test]
fn mail_is_taken_only_while_its_proof_lives_and_only_by_its_chain() {
    let mut world = World::of(&[1]);
    world.now_ms = T0_MS + PROOF_TTL_DEFAULT_MS + 1;
    assert_eq!(world.deposit(1, mail(20, 1, T0_MS), 20), "inbox/not_fresh");
    world.now_ms -= 1;
    assert_eq!(world.deposit(1, mail(20, 1, T0_MS), 20), "held");
    world.set_chain(&[5, 6, 7]);
    assert_eq!(
        world.deposit(1, mail(20, 2, T0_MS), 20),
        "inbox/not_a_holder"
    );
}

#[test]
fn mail_floods_take_from_themselves_and_what_made_room_is_told() {
    let mut world = World::of(&[1]);
    // One slot with many origins fills the inbox.
    for sequence in 0..INBOX_MAILS {
        let origin = 30 + (sequence % 8) as u8;
        assert_eq!(world.deposit(1, mail(origin, sequence, T0_MS), 9), "held");
    }
    assert_eq!(world.deposit(1, mail(30, 99, T0_MS), 9), "log/share_full");
    // Another slot has room, at the cost of the flood; and so on, up to its half.
    for sequence in 0..INBOX_MAILS / 2 {
        assert_eq!(world.deposit(1, mail(20, sequence, T0_MS), 3), "held");
    }
    assert_eq!(world.deposit(1, mail(20, 99, T0_MS), 3), "log/share_full");
    assert_eq!(world.held(1).len() as u64, INBOX_MAILS);
    // Whoever was put out is told at once, should it be there,
    let told = |it: &Transmit| match Frame::from_bytes(&it.frame) {
        Ok(Frame::Outcomes(outcomes)) => outcomes.len() as u64,
        _ => 0,
    };
    let at_once = std::iter::from_fn(|| world.at(1).poll_transmit());
    assert_eq!(at_once.map(|it| told(&it)).sum::<u64>(), INBOX_MAILS / 2);
    // and when it is met, until it says that it heard.
    let mut heard = 0;
    for origin in 30..38 {
        for _ in 0..2 {
            world.at(1).handle_met(&did(origin));
        }
        let frames: Vec<_> = std::iter::from_fn(|| world.at(1).poll_transmit())
            .filter(|it| it.to == did(origin))
            .collect();
        let frames: Vec<_> = frames
            .iter()
            .filter(|it| matches!(Frame::from_bytes(&it.frame), Ok(Frame::Outcomes(_))))
            .collect();
        assert_eq!(frames.len(), 2);
        let Ok(Frame::Outcomes(outcomes)) = Frame::from_bytes(&frames[0].frame) else {
            panic!()
        };
        assert!(outcomes.iter().all(|it| it.kind == OutcomeKind::Evicted));
        heard += outcomes.len() as u64;
        let digests = outcomes.iter().map(|it| it.digest).collect();
        let frame = Frame::Heard(digests).to_bytes();
        world
            .at(1)
            .handle_frame(peer(origin), &frame, T0_MS)
            .unwrap();
        world.at(1).handle_met(&did(origin));
        assert!(world.at(1).poll_transmit().is_none());
    }
    assert_eq!(heard, INBOX_MAILS / 2);
}

#[test]
fn mail_that_is_over_goes_and_its_sender_is_told_after_a_restart_too() {
    let mut world = World::of(&[1]);
    world.deposit(1, mail(20, 1, T0_MS), 20);
    world.now_ms = T0_MS + MAIL_LIFE_DEFAULT_MS;
    let now_ms = world.now_ms;
    world.at(1).maintain(now_ms).unwrap();
    world.at(1).flush(now_ms).unwrap();
    assert_eq!(world.held(1).len(), 1, "its last instant");
    world.at(1).maintain(now_ms + 1).unwrap();
    world.at(1).flush(now_ms + 1).unwrap();
    assert!(world.held(1).is_empty());
    world.restart(1, &[1]);
    world.at(1).handle_met(&did(20));
    let told = world.at(1).poll_transmit().unwrap();
    let Ok(Frame::Outcomes(outcomes)) = Frame::from_bytes(&told.frame) else {
        panic!()
    };
    assert_eq!(outcomes[0].kind, OutcomeKind::Expired);
    assert_eq!(outcomes[0].destination, did(OWNER));
}

#[test]
fn mail_is_removed_by_its_owner_alone_and_does_not_come_back() {
    let mut world = World::of(&[1]);
    let letter = mail(20, 1, T0_MS);
    world.deposit(1, letter.clone(), 20);
    let digest = letter.digest();
    // A stranger's removal names the stranger's inbox.
    let subject = || overlane_core::mail::RemovalSubject::of([digest]).unwrap();
    let life = overlane_core::identity::Life {
        issued_ms: T0_MS,
        ttl_ms: 1_000_000,
    };
    let by = |who: u8| {
        let removal = overlane_core::mail::Removal::sign(subject(), &signer(who), life).unwrap();
        Frame::Remove(Box::new(removal)).to_bytes()
    };
    let stranger = Peer {
        account: did(66),
        slot: 0,
    };
    assert!(world.at(1).handle_frame(stranger, &by(66), T0_MS).is_err());
    world.settle();
    assert_eq!(world.held(1).len(), 1);
    // The owner's counts, whoever hands it on; also a second time.
    for _ in 0..2 {
        world
            .at(1)
            .handle_frame(stranger, &by(OWNER), T0_MS)
            .unwrap();
        world.settle();
    }
    assert!(world.held(1).is_empty());
    // What was removed is not taken again, by a restart neither.
    assert_eq!(world.deposit(1, letter.clone(), 20), "inbox/removed");
    world.restart(1, &[1]);
    assert_eq!(world.deposit(1, letter, 20), "inbox/removed");
    world.at(1).handle_met(&did(20));
    let told = world.at(1).poll_transmit().unwrap();
    let Ok(Frame::Outcomes(outcomes)) = Frame::from_bytes(&told.frame) else {
        panic!()
    };
    assert_eq!(outcomes[0].kind, OutcomeKind::Taken);
    assert_eq!(outcomes.len(), 1);
}

#[test]
fn mail_removals_remembered_for_an_inbox_are_bounded() {
    let mut world = World::of(&[1]);
    for number in 0..REMOVALS_KEPT as u64 + 10 {
        let digest = overlane_core::TransactionDigest([number as u8; 32]);
        let subject = overlane_core::mail::RemovalSubject::of([digest]).unwrap();
        let life = overlane_core::identity::Life {
            issued_ms: T0_MS,
            ttl_ms: 1_000 + number,
        };
        let removal = overlane_core::mail::Removal::sign(subject, &signer(OWNER), life).unwrap();
        let frame = Frame::Remove(Box::new(removal)).to_bytes();
        world.at(1).handle_frame(peer(66), &frame, T0_MS).unwrap();
        let now_ms = world.now_ms;
        world.at(1).flush(now_ms).unwrap();
    }
    use overlane_relay::log::LogStore;
    let rows = world.at(1).logs().store().rows(&[0x81]).unwrap();
    assert_eq!(rows.len(), REMOVALS_KEPT);
}
