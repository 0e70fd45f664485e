//! What a peer tells its replay engine beside the messages: whose clock was witnessed, which
//! namespaces guard themselves, which links ended.

use overlane_core::identity::{Life, Signer};
use overlane_core::replay::{RIPE_MS, WITNESS_LIFE_MS};
use overlane_core::transaction::{Payload, RelayFields};
use overlane_core::{Class, Did};

use crate::mesh::{Mesh, START_MS};

const DAY_MS: u64 = 86_400_000;

/// Node 1 retired the stream of node 0 under a clock a day ahead, which node 2's agreed with.
/// Both clocks came back; nodes 0 and 1 are not linked.
fn retired_ahead_of_time(seed: u64) -> Mesh {
    let mut mesh = Mesh::new(3, seed);
    let dids = [0, 1, 2].map(|index: usize| mesh.nodes[index].did);
    let link = mesh.link(0, 1);
    mesh.send(0, dids[1], Class::Control, b"before");
    mesh.settle();
    mesh.cut(link);
    mesh.pass(RIPE_MS + 1);
    for index in [1, 2] {
        mesh.nodes[index].ahead_ms = DAY_MS;
    }
    // The clock alone retires nothing: nobody fresh has agreed with it.
    let link = mesh.link(2, 1);
    mesh.send(1, dids[2], Class::Control, b"is it so late?");
    mesh.settle();
    assert_eq!(mesh.peer(1).engine().counters().retired_receiver, 0);
    assert_eq!(mesh.peer(1).engine().receivers().count(), 1);
    mesh.cut(link);
    // A peer that answers a fresh offer by a clock as wrong: the residual.
    let link = mesh.link(1, 2);
    mesh.send(1, dids[2], Class::Control, b"it is");
    mesh.settle();
    assert_eq!(mesh.peer(1).engine().counters().retired_receiver, 1);
    mesh.cut(link);
    for index in [1, 2] {
        mesh.nodes[index].ahead_ms = 0;
    }
    mesh
}

#[test]
fn law_two_clocks_a_fresh_link_confirms_a_clock_that_came_back() {
    for seed in 0..20 {
        let mut mesh = retired_ahead_of_time(seed);
        let receiver = mesh.nodes[1].did;
        let suspect = |mesh: &Mesh| {
            let refusals = mesh.refusals(1);
            refusals.get("replay/clock_suspect").copied().unwrap_or(0)
        };
        // An offer says nothing fresh: the link that node 0 dialled is no witness.
        let link = mesh.link(0, 1);
        mesh.send(0, receiver, Class::Control, b"after");
        mesh.settle();
        assert_eq!(
            (suspect(&mesh), mesh.nodes[1].taken.len()),
            (1, 1),
            "{seed}"
        );
        mesh.cut(link);
        // Nor is an answer by a clock that agrees with no other.
        mesh.nodes[0].ahead_ms = DAY_MS;
        let link = mesh.link(1, 0);
        mesh.nodes[0].ahead_ms = 0;
        mesh.send(0, receiver, Class::Control, b"after");
        mesh.settle();
        assert_eq!(
            (suspect(&mesh), mesh.nodes[1].taken.len()),
            (2, 1),
            "{seed}"
        );
        mesh.cut(link);

        mesh.link(1, 0);
        mesh.send(0, receiver, Class::Control, b"after");
        mesh.settle();
        assert_eq!(
            (suspect(&mesh), mesh.nodes[1].taken.len()),
            (2, 2),
            "{seed}"
        );
        mesh.taken_once(1);
    }
}

#[test]
fn law_two_clocks_a_fresh_link_lets_go_what_is_spent_until_it_is_old() {
    for (waited_ms, retired) in [(0, 1), (WITNESS_LIFE_MS + 1, 0)] {
        let mut mesh = Mesh::new(3, waited_ms);
        let dids = [0, 1, 2].map(|index: usize| mesh.nodes[index].did);
        let link = mesh.link(0, 1);
        mesh.send(0, dids[1], Class::Control, b"once");
        mesh.settle();
        mesh.cut(link);
        mesh.pass(RIPE_MS + 1);
        mesh.link(1, 2);
        mesh.pass(waited_ms);
        mesh.send(1, dids[2], Class::Control, b"the next transition");
        mesh.settle();
        assert_eq!(mesh.peer(1).engine().counters().retired_receiver, retired);
    }
}

/// The same transaction, carried by another than its origin.
fn carried_by(carrier: &Signer, destination: Did, signed: &[u8]) -> Vec<u8> {
    let payload = Payload::from_frame(signed).unwrap();
    let life = Life {
        issued_ms: START_MS,
        ttl_ms: 600_000,
    };
    let relay = RelayFields::direct(destination);
    let transaction = payload.transaction().clone();
    let carried = Payload::carry(transaction, relay, carrier, life).unwrap();
    carried.to_frame(|_| false)
}

const SELF_GUARDED: &str = "onion";

/// Nodes 0 and 1 linked, node 1's namespace guarding itself.
fn delegating(count: usize, seed: u64) -> Mesh {
    let mut mesh = Mesh::new(count, seed);
    mesh.crash(1, true);
    mesh.nodes[1].delegating = vec![SELF_GUARDED];
    mesh.start(1, true);
    mesh
}

#[test]
fn law_link_local_a_message_on_its_origins_link_writes_no_record() {
    for seed in 0..20 {
        let mut mesh = delegating(2, seed);
        mesh.link(0, 1);
        let to = mesh.nodes[1].did;
        for number in 0..40u8 {
            mesh.send_in(0, to, SELF_GUARDED, &[number]);
        }
        mesh.settle();
        let receipts = mesh.nodes[0].receipts();
        for receipt in &receipts {
            mesh.offer(0, &receipt.signed, None);
        }
        mesh.settle();
        let counters = *mesh.peer(1).engine().counters();
        assert_eq!((counters.link_local, mesh.nodes[1].taken.len()), (40, 40));
        // The window of the link refuses what it admitted, and nothing of it was written.
        assert_eq!(counters.replay + counters.stale, 40, "seed {seed}");
        assert_eq!(mesh.nodes[1].store.writes(), 0, "seed {seed}");
        assert_eq!(mesh.peer(1).engine().receivers().count(), 0);
    }
}

#[test]
fn law_link_local_every_other_message_keeps_the_durable_window() {
    let admitted = |mesh: &mut Mesh| {
        let counters = *mesh.peer(1).engine().counters();
        (counters.link_local, mesh.nodes[1].store.writes())
    };
    // Of another namespace, or of another class.
    let mut mesh = delegating(2, 1);
    mesh.link(0, 1);
    let to = mesh.nodes[1].did;
    mesh.send_in(0, to, "chat", b"kept");
    mesh.settle();
    assert_eq!(admitted(&mut mesh), (0, 1));
    mesh.send(0, to, Class::E2e, b"kept");
    mesh.settle();
    assert_eq!(admitted(&mut mesh), (0, 2));

    // On the link of another than its origin.
    let mut mesh = delegating(3, 2);
    let link = mesh.link(0, 1);
    let to = mesh.nodes[1].did;
    mesh.send_in(0, to, SELF_GUARDED, b"carried");
    mesh.settle();
    assert_eq!(admitted(&mut mesh), (1, 0));
    let signed = mesh.nodes[0].receipts()[0].signed.clone();
    mesh.cut(link);
    mesh.link(2, 1);
    let carried = carried_by(&mesh.nodes[2].signer, to, &signed);
    mesh.inject(2, 1, Class::Application, carried);
    mesh.settle();
    assert_eq!(mesh.refusals(1).len(), 0);
    assert_eq!(admitted(&mut mesh), (1, 1));

    // Where nobody registered the namespace.
    let mut mesh = Mesh::new(2, 3);
    mesh.link(0, 1);
    let to = mesh.nodes[1].did;
    mesh.send_in(0, to, SELF_GUARDED, b"kept");
    mesh.settle();
    assert_eq!(admitted(&mut mesh), (0, 1));
}

#[test]
fn law_link_local_a_window_ends_with_its_link() {
    let mut mesh = delegating(2, 5);
    let to = mesh.nodes[1].did;
    let mut link = mesh.link(0, 1);
    mesh.send_in(0, to, SELF_GUARDED, b"once a link");
    mesh.settle();
    let signed = mesh.nodes[0].receipts()[0].signed.clone();
    for generation in 1..=3u64 {
        let counters = *mesh.peer(1).engine().counters();
        assert_eq!(
            (counters.link_local, counters.replay),
            (generation, generation - 1)
        );
        mesh.offer(0, &signed, None);
        mesh.settle();
        let counters = *mesh.peer(1).engine().counters();
        assert_eq!(
            (counters.link_local, counters.replay),
            (generation, generation)
        );
        mesh.cut(link);
        link = mesh.link(0, 1);
        mesh.offer(0, &signed, None);
        mesh.settle();
    }
    assert_eq!(mesh.nodes[1].store.writes(), 0);
}
