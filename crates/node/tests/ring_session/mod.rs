//! E2E sessions of whole peers, through a middle that relays.

use overlane_core::Coded;
use overlane_core::Did;
use overlane_core::e2e::bounds::{REKEY_MS, SESSION_ANSWER_MS, SESSION_TRIES, SESSION_WAITING_MAX};
use overlane_node::peer::{Event, SendError};

use crate::mesh::Mesh;

const CANARY: &[u8] = b"a canary that sings in a session";

fn through_a_middle(seed: u64) -> Mesh {
    let mut mesh = Mesh::new(3, seed);
    mesh.apart = [1, 2].into();
    mesh.link(0, 1);
    mesh.link(0, 2);
    mesh.join_ring();
    mesh.run_for(30_000);
    mesh
}

fn heard(mesh: &Mesh, index: usize) -> Vec<Vec<u8>> {
    let heard = mesh.nodes[index].in_sessions.iter();
    heard.map(|(_, body)| body.clone()).collect()
}

#[test]
fn law_session_bodies_come_once_in_order_and_a_relay_sees_none() {
    for seed in 0..2 {
        let mut mesh = through_a_middle(seed);
        mesh.overheard = Some((0, Vec::new()));
        let [one, two] = [1, 2].map(|index| mesh.nodes[index].did);
        let mut expected = [Vec::new(), Vec::new()];
        for number in 0..30_u32 {
            let body = [CANARY, number.to_be_bytes().as_slice()].concat();
            mesh.say(1, two, &body);
            mesh.say(2, one, &body);
            expected[0].push(body.clone());
            expected[1].push(body);
            if number % 10 == 0 {
                mesh.run_for(1_000);
            }
        }
        mesh.run_for(10_000);
        assert_eq!(heard(&mesh, 1), expected[0], "seed {seed}");
        assert_eq!(heard(&mesh, 2), expected[1], "seed {seed}");
        assert!(mesh.nodes[1].sent.values().all(Result::is_ok));
        let (_, frames) = mesh.overheard.as_ref().unwrap();
        let sings = |frame: &&Vec<u8>| frame.windows(CANARY.len()).any(|it| it == CANARY);
        assert_eq!(frames.iter().filter(sings).count(), 0);
        // Ten minutes later another session follows, and nobody notices.
        let opened = mesh.peer(1).sessions().unwrap().counters().opened;
        mesh.run_for(REKEY_MS);
        for _ in 0..3 {
            mesh.say(1, two, b"later");
            mesh.run_for(1_000);
        }
        assert_eq!(heard(&mesh, 2).len(), 33);
        assert_eq!(
            mesh.peer(1).sessions().unwrap().counters().opened,
            opened + 1
        );
        assert_eq!(mesh.peer(1).pending_sends(), 0);
    }
}

#[test]
fn law_a_session_that_a_restart_lost_is_followed_by_another() {
    let mut mesh = Mesh::new(2, 9);
    mesh.link(0, 1);
    mesh.join_ring();
    mesh.run_for(5_000);
    let to = mesh.nodes[1].did;
    mesh.say(0, to, b"before");
    mesh.run_for(1_000);
    assert_eq!(heard(&mesh, 1), [b"before".to_vec()]);
    mesh.crash(1, true);
    mesh.start(1, true);
    mesh.link(0, 1);
    mesh.join_one(1);
    mesh.run_for(5_000);
    mesh.say(0, to, b"into nothing");
    mesh.run_for(1_000);
    assert_eq!(mesh.refusals(1)["e2e/unknown_session"], 1);
    let lost = |event: &Event| matches!(event, Event::SessionLost { with, sent: 2 } if *with == to);
    assert!(mesh.nodes[0].events.iter().any(lost));
    mesh.say(0, to, b"after");
    mesh.run_for(1_000);
    assert_eq!(heard(&mesh, 1), [b"before".to_vec(), b"after".to_vec()]);
}

#[test]
fn law_what_waits_for_a_session_has_one_result_and_its_bound() {
    let mut mesh = through_a_middle(4);
    // It is there, and its node takes no part: nothing of it comes back.
    let nobody = Did([0x5a; 20]);
    let id = mesh.say(1, nobody, CANARY);
    mesh.run_for(30_000);
    assert!(matches!(
        mesh.nodes[1].sent[&id],
        Err(SendError::NoKey { .. })
    ));
    let two = mesh.nodes[2].did;
    mesh.crash(2, true);
    let ids: Vec<_> = (0..=SESSION_WAITING_MAX)
        .map(|_| mesh.say(1, two, b"x"))
        .collect();
    let last = mesh.nodes[1].sent[ids.last().unwrap()].clone();
    assert_eq!(last.unwrap_err().code(), "e2e/waiting_full");
    mesh.cancel(1, ids[3]);
    assert_eq!(mesh.nodes[1].sent[&ids[3]], Err(SendError::Cancelled));
    mesh.run_for(SESSION_ANSWER_MS * (u64::from(SESSION_TRIES) + 1));
    let failed = ids.iter().filter(|id| {
        let sent = &mesh.nodes[1].sent[id];
        sent.as_ref()
            .is_err_and(|error| error.code() == "e2e/no_answer")
    });
    assert_eq!(failed.count(), SESSION_WAITING_MAX - 1);
    assert_eq!(mesh.peer(1).pending_sends(), 0);
}
