//! What a sender is told of its mail's end: that nobody took it in its time, that it made room for others, and what
//! those say that it was handed on to.

use std::collections::BTreeMap;

use overlane_core::TransactionDigest;
use overlane_core::mail::MAIL_LIFE_DEFAULT_MS;
use overlane_node::inbox::{MailEvent, SILENT_FOR_MS};
use overlane_node::peer::{Event, SendId};
use overlane_relay::inbox::OutcomeKind;
use overlane_relay::inbox::bounds::INBOX_MAILS;

use super::mesh::Mesh;
use super::mesh::broken::{Broken, caught};
use super::{MINUTE_MS, arrived, behind, bodies, cast, comes_back, letters, ring_of, taken};

/// The ends that a node was told of its mail, in all its lives; none twice.
fn ends(mesh: &Mesh, index: usize) -> BTreeMap<TransactionDigest, OutcomeKind> {
    let mut ends = BTreeMap::new();
    for event in &mesh.nodes[index].events {
        if let Event::Mail(MailEvent::Ended { digest, kind, .. }) = event {
            let before = ends.insert(*digest, *kind);
            assert_eq!(before, None, "an end is told once");
        }
    }
    ends
}

fn digest_of(mesh: &Mesh, from: usize, id: SendId) -> TransactionDigest {
    mesh.nodes[from].sent[&id].as_ref().unwrap().digest
}

/// All of these are off while so much time passes, and then back.
fn rest(mesh: &mut Mesh, nodes: &[usize], ms: u64) {
    for &index in nodes {
        mesh.crash(index, true);
    }
    mesh.pass(ms);
    let (&first, others) = nodes.split_first().unwrap();
    mesh.start(first, true);
    mesh.join_one(first);
    for &index in others {
        comes_back(mesh, index, first);
    }
}

#[test]
fn mail_that_nobody_took_in_its_time_is_told_to_have_expired_also_to_a_sender_that_was_away() {
    let mut mesh = ring_of(6, 1, INBOX_MAILS);
    let (away, from, holders) = cast(&mesh);
    let others = behind(&mesh, away);
    let late = others[3];
    mesh.crash(away, true);
    mesh.run_for(2 * MINUTE_MS);
    let ids: Vec<(usize, SendId)> = [from, late]
        .into_iter()
        .map(|it| (it, mesh.mail(it, away, &[1; 5])))
        .collect();
    mesh.run_for(MINUTE_MS);
    for &(by, id) in &ids {
        assert_eq!(arrived(&mesh, by, id), "held");
    }
    // Not a minute less than its time, though those who hold it were off.
    rest(&mut mesh, &others, MAIL_LIFE_DEFAULT_MS - 8 * MINUTE_MS);
    mesh.run_for(3 * MINUTE_MS);
    for &holder in &holders {
        assert_eq!(mesh.held(holder, away), 2, "it is held to its end");
    }
    assert!(ends(&mesh, from).is_empty());
    mesh.crash(late, true);
    mesh.run_for(8 * MINUTE_MS);
    for &holder in &holders {
        assert_eq!(mesh.held(holder, away), 0, "and no longer");
    }
    let expired = |(by, id): (usize, SendId)| {
        let digest = digest_of(&mesh, by, id);
        BTreeMap::from([(digest, OutcomeKind::Expired)])
    };
    let expected: Vec<_> = ids.iter().map(|&it| expired(it)).collect();
    assert_eq!(ends(&mesh, from), expected[0]);
    let mail = mesh.mail_of(from);
    assert_eq!((mail.held.len(), mail.ended.len()), (0, 1));
    // The other hears of it when they meet.
    assert!(ends(&mesh, late).is_empty());
    comes_back(&mut mesh, late, holders[0]);
    mesh.run_for(2 * MINUTE_MS);
    assert_eq!(ends(&mesh, late), expected[1]);
    // Whom it was for comes too late, and nothing is told anew.
    comes_back(&mut mesh, away, holders[0]);
    mesh.run_for(2 * MINUTE_MS);
    assert!(mesh.mail_of(away).waiting.is_empty());
    assert_eq!(ends(&mesh, from), expected[0]);
}

#[test]
fn mail_has_expired_though_one_that_held_it_never_comes_back() {
    let mut mesh = ring_of(6, 1, INBOX_MAILS);
    let (away, from, holders) = cast(&mesh);
    mesh.crash(away, true);
    mesh.run_for(2 * MINUTE_MS);
    let id = mesh.mail(from, away, &[1; 5]);
    mesh.run_for(MINUTE_MS);
    assert_eq!(mesh.holders(from, id).len(), holders.len());
    mesh.crash(holders[2], true);
    let mut rest_of = behind(&mesh, away);
    rest_of.retain(|it| *it != holders[2]);
    rest(&mut mesh, &rest_of, MAIL_LIFE_DEFAULT_MS - 2 * MINUTE_MS);
    mesh.run_for(5 * MINUTE_MS);
    // The two that answer say so; the third may have said that it was taken.
    assert!(ends(&mesh, from).is_empty());
    mesh.run_for(SILENT_FOR_MS);
    let digest = digest_of(&mesh, from, id);
    assert_eq!(
        ends(&mesh, from),
        BTreeMap::from([(digest, OutcomeKind::Expired)])
    );
    mesh.crash(from, true);
    comes_back(&mut mesh, from, holders[0]);
    mesh.run_for(2 * MINUTE_MS);
    assert_eq!(ends(&mesh, from).len(), 1);
}

#[test]
fn mail_that_made_room_for_mail_of_others_is_told_to_have_been_evicted() {
    const MAILS: u64 = 4;
    let mut mesh = ring_of(6, 1, MAILS);
    let (away, from, holders) = cast(&mesh);
    let other = behind(&mesh, away)[3];
    mesh.crash(away, true);
    mesh.run_for(2 * MINUTE_MS);
    let mut ids = Vec::new();
    for it in 0..4 {
        ids.push(mesh.mail(from, away, &[it; 5]));
        mesh.run_for(20_000);
    }
    for &id in &ids {
        assert_eq!(arrived(&mesh, from, id), "held");
    }
    mesh.crash(from, true);
    mesh.run_for(2 * MINUTE_MS);
    // One that has less in the inbox comes in for the latest of who has most, and no more than that.
    let mut theirs = Vec::new();
    for it in 4..7 {
        theirs.push(mesh.mail(other, away, &[it; 5]));
        mesh.run_for(MINUTE_MS);
    }
    let said: Vec<&str> = theirs.iter().map(|&id| arrived(&mesh, other, id)).collect();
    assert_eq!(said, ["held", "held", "inbox/not_held"]);
    for &holder in &holders {
        assert_eq!(mesh.held(holder, away), 4);
    }
    assert!(ends(&mesh, from).is_empty(), "it is away");
    comes_back(&mut mesh, from, holders[0]);
    mesh.run_for(2 * MINUTE_MS);
    let evicted = [2, 3].map(|it| (digest_of(&mesh, from, ids[it]), OutcomeKind::Evicted));
    assert_eq!(ends(&mesh, from), BTreeMap::from(evicted));
    let mail = mesh.mail_of(from);
    assert_eq!((mail.held.len(), mail.ended.len()), (2, 2));
    // What is left comes, and its senders hear of that too.
    comes_back(&mut mesh, away, holders[0]);
    mesh.run_for(2 * MINUTE_MS);
    let came = taken(&mut mesh, away);
    let expected = [0, 1, 4, 5].map(|it| vec![it; 5]);
    assert_eq!(came, expected.into_iter().collect());
    mesh.run_for(2 * MINUTE_MS);
    let took = |mesh: &Mesh, of| {
        let ends = ends(mesh, of).into_values();
        ends.filter(|it| *it == OutcomeKind::Taken).count()
    };
    assert_eq!((took(&mesh, from), took(&mesh, other)), (2, 2));
}

/// All that held it have handed it on: the sender knows none of those that hold it now.
#[test]
fn mail_that_was_handed_on_by_all_has_its_end_told_by_those_it_was_handed_to() {
    let mut mesh = ring_of(7, 4, INBOX_MAILS);
    let away = 1;
    let others = behind(&mesh, away);
    let (later, first) = (&others[..3], &others[3..]);
    let from = first[2];
    mesh.crash(away, true);
    for &index in later {
        mesh.crash(index, true);
    }
    mesh.run_for(4 * MINUTE_MS);
    let ids = letters(&mut mesh, from, away, 3);
    mesh.run_for(MINUTE_MS);
    for id in ids {
        assert_eq!(mesh.holders(from, id).len(), 3);
    }
    for &index in later {
        comes_back(&mut mesh, index, from);
    }
    mesh.run_for(4 * MINUTE_MS);
    for &index in first {
        assert_eq!(mesh.held(index, away), 0, "handed on: {index}");
    }
    comes_back(&mut mesh, away, from);
    mesh.run_for(2 * MINUTE_MS);
    assert_eq!(taken(&mut mesh, away), bodies(3));
    mesh.run_for(2 * MINUTE_MS);
    let ends = ends(&mesh, from);
    assert_eq!(ends.len(), 3, "its end is told");
    assert!(ends.values().all(|it| *it == OutcomeKind::Taken));
}

/// Those that it was handed on to told its end while its sender was away, and its sender is linked to none of them.
fn a_sender_that_was_away_hears_of_the_end_from_those_it_is_not_linked_to() {
    let mut mesh = ring_of(11, 4, INBOX_MAILS);
    let away = 1;
    let others = behind(&mesh, away);
    let (later, first) = (&others[..3], &others[3..6]);
    // The ring needs no link between it and those that come later.
    let (from, by) = (others[6], first[2]);
    mesh.crash(away, true);
    for &index in later {
        mesh.crash(index, true);
    }
    mesh.run_for(4 * MINUTE_MS);
    let ids = letters(&mut mesh, from, away, 3);
    mesh.run_for(MINUTE_MS);
    for id in ids {
        assert_eq!(mesh.holders(from, id).len(), 3);
    }
    mesh.strangers = later.iter().map(|&it| [it, from]).collect();
    for &index in later {
        comes_back(&mut mesh, index, by);
    }
    mesh.run_for(4 * MINUTE_MS);
    for &index in first {
        assert_eq!(mesh.held(index, away), 0, "handed on: {index}");
    }
    mesh.crash(from, true);
    mesh.run_for(2 * MINUTE_MS);
    comes_back(&mut mesh, away, by);
    mesh.run_for(2 * MINUTE_MS);
    assert_eq!(taken(&mut mesh, away), bodies(3));
    mesh.run_for(2 * MINUTE_MS);
    mesh.crash(away, true);
    comes_back(&mut mesh, from, others[8]);
    mesh.run_for(5 * MINUTE_MS);
    for &index in later {
        assert!(!mesh.linked(from, index), "no link to {index}");
    }
    let ends = ends(&mesh, from);
    assert_eq!(ends.len(), 3, "its end is told");
    assert!(ends.values().all(|it| *it == OutcomeKind::Taken));
}

#[test]
fn law_mail_has_its_end_told_also_by_those_its_sender_is_not_linked_to() {
    a_sender_that_was_away_hears_of_the_end_from_those_it_is_not_linked_to();
    let said = caught(
        Broken::HeirsNotSought,
        a_sender_that_was_away_hears_of_the_end_from_those_it_is_not_linked_to,
    );
    assert!(said.contains("its end is told"), "{said}");
}
