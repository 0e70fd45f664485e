//! Mail of a node that is alone in its ring: it holds that itself.

use std::collections::BTreeSet;

use overlane_core::{Class, Coded};
use overlane_node::inbox::InboxError;
use overlane_node::peer::SendError;
use overlane_relay::inbox::bounds::INBOX_MAILS;

use super::mesh::broken::{Broken, caught};
use super::mesh::{Mesh, data, data_in};
use super::{MINUTE_MS, arrived, bodies, comes_back, ends_told, letters, taken};

/// Two nodes that know each other, and one of them is away.
fn pair(seed: u64) -> Mesh {
    let mut mesh = Mesh::new(2, seed);
    mesh.with_mail(INBOX_MAILS);
    mesh.link(0, 1);
    mesh.join_ring();
    mesh.run_for(MINUTE_MS);
    mesh.crash(1, true);
    mesh
}

#[test]
fn law_mail_of_one_that_is_alone_is_held_here_and_comes_once() {
    it_is_held_here_and_comes_once();
    let said = caught(
        Broken::MailToldBeforeDurable,
        it_is_held_here_and_comes_once,
    );
    assert!(said.contains("it outlives its process"), "{said}");
}

fn it_is_held_here_and_comes_once() {
    for seed in 1..4 {
        let mut mesh = pair(seed);
        // At once, before anybody noticed, and long after.
        let mut ids = letters(&mut mesh, 0, 1, 2);
        mesh.run_for(2 * MINUTE_MS);
        for it in 2..4 {
            ids.push(mesh.mail(0, 1, &[it; 5]));
        }
        mesh.run_for(MINUTE_MS);
        for &id in &ids {
            assert_eq!(arrived(&mesh, 0, id), "held", "seed {seed}");
            assert_eq!(mesh.holders(0, id), [0], "seed {seed}: and by nobody else");
        }
        // It outlives the process that holds it.
        mesh.crash(0, true);
        mesh.start(0, true);
        mesh.join_one(0);
        mesh.run_for(MINUTE_MS);
        assert_eq!(mesh.held(0, 1), 4, "seed {seed}: it outlives its process");
        comes_back(&mut mesh, 1, 0);
        mesh.run_for(2 * MINUTE_MS);
        assert_eq!(taken(&mut mesh, 1), bodies(4), "seed {seed}");
        mesh.run_for(MINUTE_MS);
        assert_eq!(mesh.held(0, 1), 0, "seed {seed}: let go of");
        assert_eq!(ends_told(&mesh, 0), 4, "seed {seed}");
        // What is sent from now on goes its way.
        let there = mesh.mail(0, 1, b"to one who is there");
        mesh.run_for(MINUTE_MS);
        assert_eq!(arrived(&mesh, 0, there), "delivered", "seed {seed}");
    }
}

/// It lost all its neighbours at once: whom it knew, it cannot ask.
#[test]
fn mail_of_one_that_lost_a_whole_ring_is_held_here_and_handed_over_when_it_is_back() {
    let mut mesh = Mesh::new(5, 7);
    mesh.with_mail(INBOX_MAILS);
    for index in 1..5 {
        mesh.link(0, index);
    }
    mesh.join_ring();
    mesh.run_for(2 * MINUTE_MS);
    for index in 1..5 {
        mesh.crash(index, true);
    }
    let ids = letters(&mut mesh, 0, 1, 3);
    mesh.run_for(MINUTE_MS);
    for id in ids {
        assert_eq!(mesh.holders(0, id), [0]);
    }
    // The others come first, and make a ring of their own with the one that is away still.
    for index in 2..5 {
        mesh.start(index, true);
        mesh.join_one(index);
    }
    for index in 2..5 {
        mesh.link(index, 0);
    }
    mesh.run_for(2 * MINUTE_MS);
    comes_back(&mut mesh, 1, 3);
    mesh.run_for(3 * MINUTE_MS);
    assert_eq!(taken(&mut mesh, 1), bodies(3));
    mesh.run_for(2 * MINUTE_MS);
    for holder in 0..5 {
        assert_eq!(mesh.held(holder, 1), 0, "holder {holder}");
    }
}

#[test]
fn mail_that_cannot_be_held_is_refused_by_one_that_is_alone_before_it_is_signed() {
    let mut mesh = pair(1);
    mesh.run_for(2 * MINUTE_MS);
    let to = mesh.nodes[1].did;
    let open = mesh.mail_data(0, to, data_in("chat", b"in the open"));
    let storage = mesh.mail_data(0, to, data(Class::Storage, b"no mail"));
    let large = mesh.mail(0, 1, &vec![7; 40_000]);
    mesh.run_for(MINUTE_MS);
    for id in [open, storage, large] {
        let sent = mesh.nodes[0].sent.get(&id);
        let unreachable = Some(&Err(SendError::Unreachable { destination: to }));
        assert_eq!(sent, unreachable);
    }
    // As many as an inbox has places, and then its holder says that there is none.
    let mut held: BTreeSet<&str> = BTreeSet::new();
    for number in 0..=u8::try_from(INBOX_MAILS).unwrap() {
        let id = mesh.mail(0, 1, &[number; 5]);
        mesh.run_for(20_000);
        held.insert(arrived(&mesh, 0, id));
        if let Some(Err(error)) = mesh.nodes[0].mail.arrived.get(&id) {
            assert_eq!(error.code(), "inbox/not_held");
            let InboxError::NotHeld { refused, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(refused[&mesh.nodes[0].did], "log/share_full");
        }
    }
    assert_eq!(held, BTreeSet::from(["held", "inbox/not_held"]));
    assert_eq!(mesh.held(0, 1), usize::try_from(INBOX_MAILS).unwrap());
}
