//! What is bounded on either side of the lanes: places of the application's side, frames of lost links,
//! sends on their way.

use overlane_core::Class;
use overlane_core::identity::Life;
use overlane_node::peer::{
    DISPATCH_QUEUE_MAX, ORPHAN_FRAMES_MAX, PACE, PENDING_SENDS_MAX, SendError,
};

use crate::mesh::{Mesh, START_MS};
use crate::{frame, numbers};

/// What one lane alone gets of its class's places.
const SHARE: usize = DISPATCH_QUEUE_MAX / 2;

#[test]
pub(crate) fn law_room_a_slow_application_holds_its_class_and_loses_nothing_s16() {
    let mut mesh = Mesh::new(2, 9);
    mesh.link(0, 1);
    let receiver = mesh.nodes[1].did;
    mesh.nodes[1].takes = false;
    let more = u64::try_from(DISPATCH_QUEUE_MAX).unwrap() + 200;
    for number in 0..more {
        mesh.send(0, receiver, Class::Application, &number.to_be_bytes());
    }
    mesh.send(0, receiver, Class::Control, &0u64.to_be_bytes());
    mesh.settle();
    let held = mesh.nodes[1].waiting();
    assert_eq!(
        held,
        SHARE + 1,
        "its share is full; the other class went by"
    );
    assert!(
        mesh.nodes[0].sent.len() < usize::try_from(more).unwrap(),
        "the sender waits"
    );
    mesh.nodes[1].takes = true;
    mesh.settle();
    let all: Vec<_> = (0..more).collect();
    assert_eq!(numbers(&mesh, 1, Class::Application), all);
    assert!(mesh.refusals(1).is_empty());
}

#[test]
fn frames_of_lost_links_are_bounded_and_what_is_dropped_is_counted() {
    let mut mesh = Mesh::new(2, 21);
    mesh.nodes[1].takes = false;
    let (sender, to) = (mesh.nodes[0].signer.clone(), mesh.nodes[1].did);
    let now = Life {
        issued_ms: START_MS,
        ttl_ms: 600_000,
    };
    // The application's side is full, and every link leaves as much behind as it has credit for.
    let mut sequences = 1..;
    let mut brought = 0;
    while mesh.refusals(1).is_empty() {
        let link = mesh.link(0, 1);
        for sequence in sequences.by_ref().take(40) {
            let frame = frame(&sender, to, sequence, now);
            mesh.inject(0, 1, Class::Application, frame);
        }
        mesh.settle();
        brought = mesh.peer(1).counters().frames_received;
        mesh.cut(link);
        mesh.settle();
    }
    let dropped = mesh.refusals(1)["payload/orphaned"];
    assert_eq!(mesh.refusals(1).len(), 1);
    let held = u64::try_from(SHARE + ORPHAN_FRAMES_MAX).unwrap();
    assert!(
        brought > held && brought - dropped <= held,
        "{brought} {dropped}"
    );
    mesh.nodes[1].takes = true;
    mesh.settle();
    assert_eq!(mesh.taken_once(1).len() as u64, brought - dropped);
}

#[test]
fn sends_are_paced_before_they_are_signed_and_bounded_before_that() {
    let mut mesh = Mesh::new(2, 17);
    mesh.link(0, 1);
    let receiver = mesh.nodes[1].did;
    let total = PACE.burst_messages + 600;
    let mut started_ms = None;
    let mut asked = 0;
    while asked < total {
        let room = PENDING_SENDS_MAX / 2 - mesh.peer(0).pending_sends();
        for _ in 0..room.min(usize::try_from(total - asked).unwrap()) {
            mesh.send(0, receiver, Class::Storage, &asked.to_be_bytes());
            asked += 1;
        }
        started_ms.get_or_insert(mesh.now_ms);
        mesh.run(|mesh| mesh.nodes[0].sent.len() as u64 == asked);
    }
    mesh.settle();
    let took_ms = mesh.now_ms - started_ms.unwrap();
    let least_ms = 600 * 1_000 / PACE.messages_per_s;
    assert!(
        (least_ms..least_ms + 1_000).contains(&took_ms),
        "{took_ms} ms"
    );
    let all: Vec<_> = (0..total).collect();
    assert_eq!(numbers(&mesh, 1, Class::Storage), all);
    assert!(
        mesh.refusals(1).is_empty(),
        "an honest sender meets no quota"
    );

    mesh.nodes[1].takes = false;
    let mut refused = 0;
    for number in 0..4_000u64 {
        let id = mesh.send(0, receiver, Class::E2e, &number.to_be_bytes());
        let sent = mesh.nodes[0].sent.get(&id);
        refused += usize::from(sent == Some(&Err(SendError::TooManyPending)));
    }
    assert!(refused > 0);
    assert_eq!(mesh.peer(0).pending_sends(), PENDING_SENDS_MAX / 2);
}

#[test]
fn law_share_a_lane_that_is_not_taken_leaves_places_to_other_peers() {
    let mut mesh = Mesh::new(3, 23);
    mesh.link(0, 1);
    mesh.link(0, 2);
    let to = mesh.nodes[0].did;
    mesh.nodes[0].takes = false;
    for number in 0..(2 * DISPATCH_QUEUE_MAX) as u64 {
        mesh.send(1, to, Class::Application, &number.to_be_bytes());
    }
    mesh.settle();
    assert_eq!(mesh.nodes[0].waiting(), SHARE);
    for number in 0..20u64 {
        mesh.send(2, to, Class::Application, &number.to_be_bytes());
    }
    mesh.settle();
    assert_eq!(
        mesh.nodes[0].waiting(),
        SHARE + 20,
        "another peer's went by"
    );
    mesh.nodes[0].takes = true;
    mesh.settle();
    assert_eq!(mesh.taken_once(0).len(), 2 * DISPATCH_QUEUE_MAX + 20);
}

#[test]
fn law_share_a_stuck_destination_leaves_sends_to_others() {
    let mut mesh = Mesh::new(3, 25);
    mesh.link(0, 1);
    mesh.link(0, 2);
    let (stuck, other) = (mesh.nodes[1].did, mesh.nodes[2].did);
    mesh.nodes[1].takes = false;
    for number in 0..4_000u64 {
        mesh.send(0, stuck, Class::E2e, &number.to_be_bytes());
    }
    mesh.settle();
    let held = mesh.peer(0).pending_sends();
    assert!(held >= 64, "{held}: the destination is stuck");
    for number in 0..4_000u64 {
        mesh.send(0, stuck, Class::E2e, &number.to_be_bytes());
    }
    assert_eq!(mesh.peer(0).pending_sends(), PENDING_SENDS_MAX / 2);
    let sends: Vec<_> = (0..PENDING_SENDS_MAX as u64 / 4)
        .map(|number| mesh.send(0, other, Class::E2e, &number.to_be_bytes()))
        .collect();
    mesh.settle();
    for id in sends {
        assert!(mesh.nodes[0].sent[&id].is_ok());
    }
    assert_eq!(mesh.nodes[2].taken.len(), PENDING_SENDS_MAX / 4);
}
