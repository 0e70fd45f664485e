//! Sealed messages of whole peers: what a relay sees, in which order they come, whose key is asked for, and
//! what becomes of one that does not open.

use std::collections::BTreeMap;

use overlane_core::identity::Account;
use overlane_core::seal::{SEALED_NAMESPACE, SealContext, SealingSecret, seal};
use overlane_core::transaction::{Message, Namespace};
use overlane_core::wire::bounds::DATA_MAX_BYTES;
use overlane_core::{Class, Coded, Did};
use overlane_node::peer::{ASKED_KEYS_MAX, SendError};
use zeroize::Zeroizing;

use crate::mesh::broken::{Broken, caught};
use crate::mesh::{Mesh, NETWORK, account, data, data_in};

/// What nobody but its destination may see.
const CANARY: &[u8] = b"a canary that sings to one alone";

/// A middle that both ends are linked to, and no link between the two.
fn through_a_middle(seed: u64) -> Mesh {
    let mut mesh = Mesh::new(3, seed);
    mesh.apart = [1, 2].into();
    mesh.link(0, 1);
    mesh.link(0, 2);
    mesh.join_ring();
    mesh.run_for(30_000);
    mesh
}

fn two(seed: u64) -> Mesh {
    let mut mesh = Mesh::new(2, seed);
    mesh.link(0, 1);
    mesh.join_ring();
    mesh.run_for(5_000);
    mesh
}

fn canary(mesh: &Mesh) -> usize {
    let (_, heard) = mesh.overheard.as_ref().expect("somebody listens");
    let sings = |frame: &&Vec<u8>| frame.windows(CANARY.len()).any(|it| it == CANARY);
    heard.iter().filter(sings).count()
}

fn bodies(mesh: &Mesh, index: usize) -> Vec<Vec<u8>> {
    let taken = mesh.nodes[index].taken.iter();
    taken.map(|taken| taken.body.clone()).collect()
}

/// Sends that are refused, by code.
fn refused(mesh: &Mesh, index: usize) -> BTreeMap<&'static str, usize> {
    let mut codes = BTreeMap::new();
    for sent in mesh.nodes[index].sent.values() {
        if let Err(error) = sent {
            *codes.entry(error.code()).or_default() += 1;
        }
    }
    codes
}

#[test]
fn law_a_relay_sees_nothing_of_a_sealed_message() {
    let mut mesh = through_a_middle(7);
    assert!(!mesh.linked(1, 2));
    mesh.overheard = Some((0, Vec::new()));
    let to = mesh.nodes[2].did;
    let large: Vec<u8> = CANARY
        .iter()
        .copied()
        .cycle()
        .take(3 * DATA_MAX_BYTES)
        .collect();
    mesh.send_sealed(1, to, CANARY);
    mesh.send_sealed(1, to, &large);
    mesh.run_for(30_000);
    assert_eq!(bodies(&mesh, 2), [CANARY.to_vec(), large]);
    assert!(mesh.peer(0).counters().forwarded["application"] >= 13);
    assert_eq!(canary(&mesh), 0, "the relay heard it");
    let (_, heard) = mesh.overheard.as_ref().unwrap();
    assert!(heard.len() > 26, "what the relay takes and what it sends");
}

#[test]
fn law_a_relay_that_hears_a_plain_message_is_noticed() {
    let said = caught(
        Broken::SentPlain,
        law_a_relay_sees_nothing_of_a_sealed_message,
    );
    assert!(said.contains("the relay heard it"), "{said}");
}

fn stay_in_order() {
    for seed in 0..4 {
        let mut mesh = two(seed);
        let to = mesh.nodes[1].did;
        let mut expected = Vec::new();
        for number in 0..40_u32 {
            let mut body = number.to_be_bytes().to_vec();
            if number % 16 == 5 {
                body.resize(2 * DATA_MAX_BYTES, 1);
            }
            match number % 3 {
                0 => mesh.send(0, to, Class::Application, &body),
                _ => mesh.send_sealed(0, to, &body),
            };
            expected.push(body);
        }
        mesh.run_for(30_000);
        assert!(bodies(&mesh, 1) == expected, "seed {seed}: out of order");
        assert_eq!(refused(&mesh, 0), BTreeMap::new());
        assert_eq!(mesh.peer(0).counters().sealed, 26);
        assert_eq!(mesh.peer(1).counters().opened, 26);
        assert!(mesh.peer(0).is_settled() && mesh.peer(1).is_settled());
    }
}

#[test]
fn law_sealed_and_plain_messages_of_a_stream_stay_in_order() {
    stay_in_order();
    let said = caught(Broken::AnswersOfSealersSwapped, stay_in_order);
    assert!(said.contains("out of order"), "{said}");
}

#[test]
fn law_a_key_that_is_not_known_is_asked_for_and_nothing_leaves_without_it() {
    let mut mesh = through_a_middle(3);
    let to = mesh.nodes[2].did;
    assert!(mesh.peer(1).keys_known() >= 1);
    let before = mesh.peer(1).counters().keys_asked;
    for _ in 0..5 {
        mesh.send_sealed(1, to, b"one");
    }
    mesh.run_for(10_000);
    assert_eq!(bodies(&mesh, 2), vec![b"one".to_vec(); 5]);
    let asked = mesh.peer(1).counters().keys_asked - before;
    assert!(asked <= 1, "one question for all: {asked}");
    // Nobody is there: the send fails, and says what is missing.
    let nobody = Did([0x5a; 20]);
    let id = mesh.send_sealed(1, nobody, CANARY);
    mesh.run_for(30_000);
    let sent = mesh.nodes[1].sent[&id].clone();
    assert!(matches!(sent, Err(SendError::NoKey { destination, .. }) if destination == nobody));
    assert_eq!(mesh.peer(1).pending_sends(), 0);
    // One that is taken back while it waits is cancelled, and the next goes its way.
    let id = mesh.send_sealed(1, nobody, CANARY);
    mesh.cancel(1, id);
    assert_eq!(mesh.nodes[1].sent[&id], Err(SendError::Cancelled));
    mesh.send_sealed(1, to, b"two");
    mesh.run_for(10_000);
    assert_eq!(bodies(&mesh, 2).last().unwrap(), b"two");
}

#[test]
fn law_questions_for_keys_are_bounded() {
    let mut mesh = two(1);
    for number in 0..=ASKED_KEYS_MAX {
        let mut nobody = [0x5a; 20];
        nobody[..8].copy_from_slice(&number.to_be_bytes());
        mesh.send_sealed(0, Did(nobody), CANARY);
    }
    assert_eq!(refused(&mesh, 0), [("seal/keys_asked", 1)].into());
    mesh.run_for(30_000);
    let expected = [("seal/keys_asked", 1), ("seal/no_key", ASKED_KEYS_MAX)];
    assert_eq!(refused(&mesh, 0), expected.into());
    assert_eq!(mesh.peer(0).pending_sends(), 0);
    let to = mesh.nodes[1].did;
    mesh.send_sealed(0, to, b"and on");
    mesh.run_for(10_000);
    assert_eq!(bodies(&mesh, 1), [b"and on".to_vec()]);
}

#[test]
fn law_a_message_that_does_not_open_is_consumed_and_holds_nothing() {
    let mut mesh = two(2);
    let to = mesh.nodes[1].did;
    // Sealed to another's key.
    let context = SealContext {
        network: NETWORK,
        origin: mesh.nodes[0].did,
        destination: to,
    };
    let other = SealingSecret::for_account(&account(9)).unwrap().key();
    let seed = Zeroizing::new([1; 32]);
    let wrong = seal(&other, &context, Namespace::default(), b"x", seed).unwrap();
    let id = mesh.send_data(0, to, data_in(SEALED_NAMESPACE, &wrong));
    mesh.send_data(0, to, data_in(SEALED_NAMESPACE, b"none at all"));
    mesh.send_sealed(0, to, b"after");
    mesh.run_for(10_000);
    assert_eq!(bodies(&mesh, 1), [b"after".to_vec()]);
    let refusals = mesh.refusals(1);
    assert_eq!(refusals["seal/does_not_open"], 1);
    assert_eq!(refusals["seal/malformed"], 1);
    // It was admitted: it does not come again, and its place is free.
    let receipt = mesh.nodes[0].sent[&id].clone().unwrap();
    mesh.offer(0, &receipt.signed, None);
    mesh.run_for(10_000);
    assert_eq!(mesh.refusals(1)["replay/replay"], 1);
    assert!(mesh.peer(1).queues().iter().all(|(held, _)| *held == 0));
    assert!(mesh.linked(0, 1));
}

#[test]
fn a_node_that_requires_it_takes_sealed_messages_only() {
    let mut mesh = Mesh::new(2, 4);
    mesh.nodes[1].requires_sealed = true;
    mesh.start(1, true);
    mesh.link(0, 1);
    mesh.join_ring();
    mesh.run_for(5_000);
    let to = mesh.nodes[1].did;
    mesh.send(0, to, Class::Application, b"plain");
    mesh.send(0, to, Class::Storage, b"of another class");
    mesh.send_sealed(0, to, b"sealed");
    mesh.run_for(10_000);
    let mut taken = bodies(&mesh, 1);
    taken.sort();
    assert_eq!(taken, [b"of another class".to_vec(), b"sealed".to_vec()]);
    assert_eq!(mesh.refusals(1)["seal/required"], 1);
}

#[test]
fn an_account_of_another_kind_is_sealed_to_by_its_card() {
    let mut mesh = Mesh::new(3, 5);
    let other = Account::secp256k1(Zeroizing::new([7; 32])).unwrap();
    mesh.with_account(2, other);
    mesh.apart = [1, 2].into();
    mesh.link(0, 1);
    mesh.link(0, 2);
    mesh.join_ring();
    mesh.run_for(30_000);
    let to = mesh.nodes[2].did;
    for from in [0, 1] {
        // That its account is met does not say what it is sealed to.
        let before = mesh.peer(from).counters().keys_asked;
        mesh.send_sealed(from, to, b"to another kind");
        mesh.run_for(10_000);
        assert_eq!(mesh.peer(from).counters().keys_asked, before + 1);
        mesh.send_sealed(from, to, b"again");
        mesh.run_for(10_000);
        assert_eq!(mesh.peer(from).counters().keys_asked, before + 1);
    }
    assert_eq!(mesh.nodes[2].taken.len(), 4);
    assert_eq!(mesh.peer(2).counters().opened, 4);
}

#[test]
fn only_an_applications_message_is_sealed() {
    let mut mesh = two(6);
    let to = mesh.nodes[1].did;
    let body = data(Class::Storage, b"x");
    assert!(matches!(body.message(), Message::Storage(_)));
    let nested = data_in(SEALED_NAMESPACE, b"x");
    for data in [body, nested] {
        mesh.send_to_seal(0, to, data);
    }
    mesh.run_for(10_000);
    assert_eq!(refused(&mesh, 0), [("seal/not_a_message", 2)].into());
}
