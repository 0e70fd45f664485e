//! Mail between whole peers on virtual time: who is away gets it once, and holders come, go, lie and fail.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(dead_code, reason = "the mesh serves other tests too")]

mod mail_alone;
mod mail_ends;
mod mail_hostile;
mod mesh;

use std::collections::BTreeSet;

use mesh::broken::{Broken, caught};
use mesh::{Mesh, data_in, signer};
use overlane_core::identity::Life;
use overlane_core::mail::{MAIL_DATA_MAX_BYTES, MAIL_LIFE_DEFAULT_MS, Removal, RemovalSubject};
use overlane_core::replay::CUSTODY_CAPACITY;
use overlane_core::{Class, Coded};
use overlane_node::inbox::{Arrived, HeldElsewhere, InboxError, MailEvent, Said};
use overlane_node::peer::{Event, SendId};
use overlane_relay::inbox::bounds::INBOX_MAILS;
use overlane_relay::inbox::{Frame, OutcomeKind};

const MINUTE_MS: u64 = 60_000;

/// Interleavings that the laws which begin with a ring at rest are tried in.
const SEEDS: [u64; 1] = [1];

/// A ring of so many nodes that keep mail; all begin with a link to the first.
fn ring_of(nodes: usize, seed: u64, mails_max: u64) -> Mesh {
    let mut mesh = Mesh::new(nodes, seed);
    mesh.with_mail(mails_max);
    for index in 1..nodes {
        mesh.link(0, index);
    }
    mesh.join_ring();
    mesh.run_for(3 * MINUTE_MS);
    mesh
}

/// The node comes back, by way of another.
fn comes_back(mesh: &mut Mesh, index: usize, by: usize) {
    mesh.start(index, true);
    mesh.link(index, by);
    mesh.join_one(index);
}

/// The nodes of a ring in its order, beginning behind `index`.
fn behind(mesh: &Mesh, index: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..mesh.nodes.len()).collect();
    all.sort_by_key(|&it| mesh.nodes[it].did);
    let at = all.iter().position(|&it| it == index).unwrap();
    all.rotate_left(at);
    all.remove(0);
    all
}

/// A ring, who is away, who sends, and those who hold.
fn cast(mesh: &Mesh) -> (usize, usize, Vec<usize>) {
    let away = 1;
    let behind = behind(mesh, away);
    let sender = *behind.last().unwrap();
    (away, sender, behind[..3].to_vec())
}

fn letters(mesh: &mut Mesh, from: usize, to: usize, count: u8) -> Vec<SendId> {
    let send = |it: u8| mesh.mail(from, to, &[it; 5]);
    (0..count).map(send).collect()
}

fn arrived(mesh: &Mesh, from: usize, id: SendId) -> &'static str {
    match mesh.nodes[from].mail.arrived.get(&id) {
        None => "nothing yet",
        Some(Ok(Arrived::Delivered)) => "delivered",
        Some(Ok(Arrived::Held(_))) => "held",
        Some(Err(error)) => error.code(),
    }
}

fn bodies(count: u8) -> BTreeSet<Vec<u8>> {
    (0..count).map(|it| vec![it; 5]).collect()
}

fn taken(mesh: &mut Mesh, index: usize) -> BTreeSet<Vec<u8>> {
    mesh.take_all(index).into_iter().collect()
}

#[test]
fn mail_to_one_who_is_there_is_delivered() {
    let mut mesh = ring_of(5, 1, INBOX_MAILS);
    let (to, from, holders) = cast(&mesh);
    let ids = letters(&mut mesh, from, to, 3);
    mesh.run_for(1_000);
    for id in ids {
        assert_eq!(arrived(&mesh, from, id), "delivered");
    }
    assert_eq!(mesh.nodes[to].taken.len(), 3, "as any message");
    for holder in holders {
        assert_eq!(mesh.held(holder, to), 0);
    }
}

fn law_mail_comes_once_to_one_who_was_away() {
    for seed in SEEDS {
        let mut mesh = ring_of(6, seed, INBOX_MAILS);
        let (away, from, holders) = cast(&mesh);
        mesh.crash(away, true);
        // Nobody has noticed, and then everybody has.
        let mut ids = letters(&mut mesh, from, away, 4);
        mesh.run_for(2 * MINUTE_MS);
        for it in 4..8 {
            ids.push(mesh.mail(from, away, &[it; 5]));
        }
        mesh.run_for(MINUTE_MS);
        for &id in &ids {
            assert_eq!(arrived(&mesh, from, id), "held", "seed {seed}");
            let by: BTreeSet<usize> = mesh.holders(from, id).into_iter().collect();
            assert_eq!(by, holders.iter().copied().collect(), "seed {seed}");
        }
        for &holder in &holders {
            assert_eq!(mesh.held(holder, away), 8, "seed {seed}");
        }
        comes_back(&mut mesh, away, from);
        mesh.run_for(2 * MINUTE_MS);
        assert_eq!(mesh.mail_of(away).waiting.len(), 8, "seed {seed}");
        assert_eq!(mesh.mail_of(away).drained.len(), 3, "seed {seed}");
        // It is in custody and was not taken: it is gone nowhere, and comes again after a crash.
        mesh.crash(away, true);
        comes_back(&mut mesh, away, from);
        mesh.run_for(2 * MINUTE_MS);
        assert_eq!(
            taken(&mut mesh, away),
            bodies(8),
            "seed {seed}: all that was told to be held"
        );
        mesh.run_for(2 * MINUTE_MS);
        for &holder in &holders {
            assert_eq!(mesh.held(holder, away), 0, "seed {seed}: let go of");
        }
        // The sender heard of each, once.
        let ended = |event: &&Event| matches!(event, Event::Mail(MailEvent::Ended { kind, .. }) if *kind == OutcomeKind::Taken);
        let told = mesh.nodes[from].events.iter().filter(ended).count();
        assert_eq!(told, 8, "seed {seed}");
        assert!(mesh.mail_of(from).held.is_empty());
        // Nothing comes again.
        mesh.crash(away, true);
        comes_back(&mut mesh, away, from);
        mesh.run_for(2 * MINUTE_MS);
        assert!(mesh.mail_of(away).waiting.is_empty(), "seed {seed}");
    }
}

#[test]
fn law_mail_comes_once() {
    law_mail_comes_once_to_one_who_was_away();
    let said = caught(
        Broken::MailReleasedUntaken,
        law_mail_comes_once_to_one_who_was_away,
    );
    assert!(said.contains("all that was told to be held"), "{said}");
}

fn law_mail_that_was_told_to_be_held_is_durable() {
    for seed in SEEDS {
        let mut mesh = ring_of(5, seed, INBOX_MAILS);
        let (away, from, holders) = cast(&mesh);
        mesh.crash(away, true);
        mesh.run_for(2 * MINUTE_MS);
        let id = mesh.mail(from, away, &[0; 5]);
        // The instant it is told, every holder loses its power.
        let mut held = false;
        for _ in 0..60_000 {
            mesh.run_for(1);
            held = arrived(&mesh, from, id) == "held";
            if held {
                break;
            }
        }
        assert!(held, "seed {seed}");
        for &holder in &holders {
            mesh.crash(holder, false);
            assert_eq!(
                mesh.held(holder, away),
                1,
                "seed {seed}: told, and not durable"
            );
        }
    }
}

#[test]
fn law_mail_held_when_told() {
    law_mail_that_was_told_to_be_held_is_durable();
    let said = caught(
        Broken::MailToldBeforeDurable,
        law_mail_that_was_told_to_be_held_is_durable,
    );
    assert!(said.contains("told, and not durable"), "{said}");
}

fn law_mail_outlives_all_but_one_of_its_holders() {
    let mut mesh = ring_of(9, 4, INBOX_MAILS);
    let (away, from, holders) = cast(&mesh);
    mesh.crash(away, true);
    // Those that lie nearest come later: they take the places of all that hold by then.
    let behind = behind(&mesh, away);
    for &later in &holders {
        mesh.crash(later, true);
    }
    mesh.run_for(4 * MINUTE_MS);
    let first: BTreeSet<usize> = behind[3..6].iter().copied().collect();
    let ids = letters(&mut mesh, from, away, 6);
    mesh.run_for(MINUTE_MS);
    for id in ids {
        let by: BTreeSet<usize> = mesh.holders(from, id).into_iter().collect();
        assert_eq!(by, first);
    }
    for &later in &holders {
        comes_back(&mut mesh, later, from);
    }
    mesh.run_for(4 * MINUTE_MS);
    for holder in 0..mesh.nodes.len() {
        let holds = holders.contains(&holder);
        let held = mesh.held(holder, away);
        assert_eq!(
            held,
            if holds { 6 } else { 0 },
            "handed on, then let go of: {holder}"
        );
    }
    // Two of the chain are gone for good, at once.
    mesh.crash(holders[0], true);
    mesh.crash(holders[2], true);
    mesh.run_for(4 * MINUTE_MS);
    comes_back(&mut mesh, away, from);
    mesh.run_for(3 * MINUTE_MS);
    assert_eq!(taken(&mut mesh, away), bodies(6));
}

#[test]
fn law_mail_is_handed_on_s25_s26() {
    law_mail_outlives_all_but_one_of_its_holders();
    let said = caught(
        Broken::MailDroppedByLeaver,
        law_mail_outlives_all_but_one_of_its_holders,
    );
    assert!(
        said.contains("handed on") || said.contains("left"),
        "{said}"
    );
}

/// What is said of a removal that `signer` signs of all that waits; how many are held then.
fn removed_by(
    mesh: &mut Mesh,
    stranger: usize,
    as_node: usize,
    away: usize,
    held: &[usize],
) -> usize {
    let (_, from, _) = cast(mesh);
    let digests = mesh.mail_of(from).held.into_iter().map(|it| it.digest);
    let life = Life {
        issued_ms: mesh.now_ms,
        ttl_ms: 60_000,
    };
    let subject = RemovalSubject::of(digests).unwrap();
    let as_node = signer(
        u8::try_from(as_node).unwrap(),
        mesh::NETWORK,
        mesh::START_MS,
    );
    let removal = Removal::sign(subject, &as_node, life).unwrap();
    let frame = Frame::Remove(Box::new(removal)).to_bytes();
    for &holder in held {
        let to = mesh.nodes[holder].did;
        if holder != stranger {
            mesh.say_of_mail(stranger, to, &Said::Inbox(frame.clone()));
        }
    }
    mesh.run_for(5_000);
    held.iter().map(|&it| mesh.held(it, away)).sum()
}

#[test]
fn law_mail_is_removed_by_its_owner_alone_s27() {
    let mut mesh = ring_of(6, 2, INBOX_MAILS);
    let (away, from, holders) = cast(&mesh);
    mesh.crash(away, true);
    mesh.run_for(2 * MINUTE_MS);
    letters(&mut mesh, from, away, 3);
    mesh.run_for(MINUTE_MS);
    let all = 3 * holders.len();
    // A stranger, the sender itself, and a holder; each under its own name.
    let stranger = behind(&mesh, away)[3];
    for by in [stranger, from, holders[0]] {
        assert_eq!(
            removed_by(&mut mesh, by, by, away, &holders),
            all,
            "by {by}"
        );
    }
    // A stranger shadows nothing: it says that it holds the inbox, and is asked for nothing.
    let announce = Frame::Announce(mesh.nodes[away].did).to_bytes();
    for &holder in &holders {
        let to = mesh.nodes[holder].did;
        mesh.say_of_mail(stranger, to, &Said::Inbox(announce.clone()));
    }
    mesh.run_for(MINUTE_MS);
    assert_eq!(mesh.held(stranger, away), 0);
    // With the owner's name on it, the same words remove: so it is the name that counts.
    let left = removed_by(&mut mesh, stranger, away, away, &holders);
    assert_eq!(left, 0, "the test would not notice");
}

#[test]
fn mail_over_a_bound_is_refused_by_name_and_custody_that_is_full_lets_it_wait() {
    let mut mesh = ring_of(5, 3, 2 * INBOX_MAILS);
    let (away, from, holders) = cast(&mesh);
    mesh.crash(away, true);
    mesh.run_for(2 * MINUTE_MS);
    let count = u8::try_from(2 * INBOX_MAILS).unwrap();
    let ids = letters(&mut mesh, from, away, count);
    mesh.run_for(MINUTE_MS);
    for &id in &ids {
        assert_eq!(arrived(&mesh, from, id), "held");
    }
    let over = mesh.mail(from, away, b"one more");
    mesh.run_for(MINUTE_MS);
    assert_eq!(arrived(&mesh, from, over), "inbox/not_held");
    let Some(Err(InboxError::NotHeld { refused, .. })) = mesh.nodes[from].mail.arrived.get(&over)
    else {
        panic!("refused by all")
    };
    assert!(
        refused.values().all(|code| code == "log/share_full"),
        "{refused:?}"
    );
    comes_back(&mut mesh, away, from);
    mesh.run_for(2 * MINUTE_MS);
    let status = mesh.mail_of(away);
    assert_eq!(status.waiting.len(), CUSTODY_CAPACITY);
    assert_eq!(status.custody, CUSTODY_CAPACITY);
    // It says until when what waits for room is held, and when there is room if nothing is taken.
    let (now_ms, day_ms) = (mesh.now_ms, MAIL_LIFE_DEFAULT_MS);
    let waits_until = status.waits_until_ms.unwrap();
    let held_since = |it: u64| (now_ms - 10 * MINUTE_MS..now_ms).contains(&(it - day_ms));
    assert!(held_since(waits_until), "{waits_until} at {now_ms}");
    assert!(status.full_until_ms.unwrap() > waits_until);
    for &holder in &holders {
        assert_eq!(
            mesh.held(holder, away),
            usize::from(count),
            "nothing is let go of"
        );
    }
    // Taken in shares, and again after a crash in the middle.
    assert_eq!(mesh.take_all(away).len(), CUSTODY_CAPACITY);
    mesh.crash(away, true);
    comes_back(&mut mesh, away, from);
    for _ in 0..4 {
        mesh.run_for(2 * MINUTE_MS);
        mesh.take_all(away);
    }
    let all: BTreeSet<_> = mesh.opened(away).into_iter().collect();
    assert_eq!(all, bodies(count));
    mesh.run_for(2 * MINUTE_MS);
    for &holder in &holders {
        assert_eq!(mesh.held(holder, away), 0);
    }
    assert_eq!(mesh.nodes[away].mail.not_taken, Vec::<&str>::new());
    mesh.take_mail(away);
    mesh.run_for(100);
    assert_eq!(mesh.nodes[away].mail.not_taken, ["inbox/empty"]);
}

#[test]
fn mail_that_holders_could_read_or_that_is_too_large_is_held_by_nobody() {
    let mut mesh = ring_of(5, 5, INBOX_MAILS);
    let (away, from, holders) = cast(&mesh);
    mesh.crash(away, true);
    mesh.run_for(2 * MINUTE_MS);
    let to = mesh.nodes[away].did;
    let open = mesh.mail_data(from, to, data_in("chat", b"in the open"));
    let storage = mesh.mail_data(from, to, mesh::data(Class::Storage, b"no mail"));
    let large = mesh.mail(from, away, &vec![7; MAIL_DATA_MAX_BYTES]);
    mesh.run_for(MINUTE_MS);
    assert_eq!(arrived(&mesh, from, open), "mail/not_sealed");
    assert_eq!(arrived(&mesh, from, storage), "mail/not_application");
    assert_eq!(arrived(&mesh, from, large), "mail/too_large");
    for holder in holders {
        assert_eq!(mesh.held(holder, away), 0);
    }
}

#[test]
fn mail_of_a_node_without_a_store_is_refused_and_so_is_mail_for_others() {
    let mut mesh = Mesh::new(4, 6);
    for index in 1..4 {
        mesh.link(0, index);
    }
    mesh.join_ring();
    mesh.run_for(2 * MINUTE_MS);
    let id = mesh.mail(0, 1, b"with no store");
    mesh.run_for(MINUTE_MS);
    assert_eq!(arrived(&mesh, 0, id), "inbox/no_store");
    assert_eq!(mesh.nodes[1].taken.len(), 1, "it went its way all the same");
    // One that has a store, in a ring of those who have none.
    mesh.nodes[0].mail.give_store(INBOX_MAILS);
    mesh.crash(0, true);
    mesh.start(0, true);
    for index in 1..4 {
        mesh.link(0, index);
    }
    mesh.join_one(0);
    mesh.run_for(2 * MINUTE_MS);
    let there = mesh.mail(0, 1, b"to one who is there");
    mesh.run_for(MINUTE_MS);
    assert_eq!(arrived(&mesh, 0, there), "delivered");
    mesh.crash(1, true);
    mesh.run_for(2 * MINUTE_MS);
    let away = mesh.mail(0, 1, b"to one who is not");
    mesh.run_for(2 * MINUTE_MS);
    // It is in the chain itself, and alone.
    assert_eq!(mesh.holders(0, away), [0]);
}

/// How often a node heard what became of mail of its own.
fn ends_told(mesh: &Mesh, index: usize) -> usize {
    let ended = |event: &&Event| matches!(event, Event::Mail(MailEvent::Ended { kind, .. }) if *kind == OutcomeKind::Taken);
    mesh.nodes[index].events.iter().filter(ended).count()
}

#[test]
fn mail_has_its_end_told_once_to_a_sender_that_was_started_again() {
    let mut mesh = ring_of(6, 1, INBOX_MAILS);
    let (away, from, holders) = cast(&mesh);
    mesh.crash(away, true);
    mesh.run_for(2 * MINUTE_MS);
    let ids = letters(&mut mesh, from, away, 3);
    mesh.run_for(MINUTE_MS);
    for &id in &ids {
        assert_eq!(arrived(&mesh, from, id), "held");
    }
    // The sender is away while its mail is taken.
    mesh.crash(from, true);
    mesh.run_for(MINUTE_MS);
    comes_back(&mut mesh, away, holders[0]);
    mesh.run_for(2 * MINUTE_MS);
    assert_eq!(taken(&mut mesh, away), bodies(3));
    mesh.run_for(MINUTE_MS);
    assert_eq!(ends_told(&mesh, from), 0);
    comes_back(&mut mesh, from, holders[0]);
    mesh.run_for(2 * MINUTE_MS);
    assert_eq!(ends_told(&mesh, from), 3);
    // In its next life it knows them, and is told nothing anew.
    mesh.crash(from, true);
    comes_back(&mut mesh, from, holders[0]);
    mesh.run_for(2 * MINUTE_MS);
    let mail = mesh.mail_of(from);
    assert_eq!((mail.held.len(), mail.ended.len()), (0, 3));
    let to = mesh.nodes[away].did;
    let taken = |it: &HeldElsewhere| {
        it.destination == to && it.end.is_some_and(|end| end.kind == OutcomeKind::Taken)
    };
    assert!(mail.ended.iter().all(taken));
    assert_eq!(ends_told(&mesh, from), 3);
}

#[test]
fn mail_that_was_taken_is_let_go_of_by_a_holder_that_was_away_meanwhile() {
    let mut mesh = ring_of(6, 1, INBOX_MAILS);
    let (away, from, holders) = cast(&mesh);
    mesh.crash(away, true);
    mesh.run_for(2 * MINUTE_MS);
    // More than a window tells apart.
    letters(&mut mesh, from, away, 60);
    mesh.run_for(MINUTE_MS);
    assert_eq!(mesh.held(holders[1], away), 60);
    mesh.crash(holders[1], true);
    mesh.run_for(2 * MINUTE_MS);
    comes_back(&mut mesh, away, from);
    mesh.run_for(2 * MINUTE_MS);
    assert_eq!(taken(&mut mesh, away), bodies(60));
    mesh.run_for(MINUTE_MS);
    // All that were there then are started again: it is known from what they kept.
    for index in [away, holders[0], holders[2]] {
        mesh.crash(index, true);
        comes_back(&mut mesh, index, from);
        mesh.run_for(MINUTE_MS);
    }
    assert_eq!(mesh.held(holders[1], away), 60);
    comes_back(&mut mesh, holders[1], from);
    mesh.run_for(MINUTE_MS);
    for &holder in &holders {
        assert_eq!(mesh.held(holder, away), 0, "holder {holder}");
    }
    let mail = mesh.mail_of(away);
    assert!(
        mail.waiting.is_empty() && mail.counters.lost.is_empty(),
        "{mail:?}"
    );
}
