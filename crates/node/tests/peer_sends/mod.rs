//! Sends that are taken back, wherever they are when that is asked.

use std::collections::BTreeSet;

use overlane_core::Class;
use overlane_core::wire::bounds::DATA_MAX_BYTES;
use overlane_node::peer::{SendError, SendId};
use overlane_storage_native::testkit::Seeded;

use crate::mesh::Mesh;

/// Every so many messages one travels in chunks.
const LARGE_EVERY: u64 = 40;

fn body(number: u64) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    if number % LARGE_EVERY == 7 {
        body.resize(3 * DATA_MAX_BYTES, 5);
    }
    body
}

/// A driver that answers late, so that messages are cancelled in its hand too, and an application
/// that takes nothing for a while.
#[test]
fn law_cancellation_a_send_is_either_cancelled_or_admitted() {
    let (mut cancelled, mut late) = (0, 0);
    for seed in 0..12 {
        let mut mesh = Mesh::new(2, seed);
        mesh.slow_lanes = true;
        mesh.nodes[1].takes = seed % 2 == 0;
        mesh.link(0, 1);
        let to = mesh.nodes[1].did;
        let mut random = Seeded::new(seed);
        let mut sends = Vec::new();
        for number in 0..2 * LARGE_EVERY {
            sends.push((mesh.send(0, to, Class::Storage, &body(number)), number));
        }
        for &(id, _) in &sends {
            let mut steps = random.below(5);
            mesh.run(|_| {
                steps = steps.saturating_sub(1);
                steps == 0
            });
            if random.below(2) == 0 {
                mesh.cancel(0, id);
            }
        }
        mesh.nodes[1].takes = true;
        mesh.settle();
        let taken: Vec<_> = mesh.nodes[1].taken.iter().map(|it| &it.body).collect();
        let mut expected = Vec::new();
        for (id, number) in sends {
            match &mesh.nodes[0].sent[&id] {
                Ok(_) => expected.push(body(number)),
                Err(SendError::Cancelled) => cancelled += 1,
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
        late += expected.len();
        assert!(
            taken.iter().copied().eq(&expected),
            "seed {seed}: {} taken of {}",
            taken.len(),
            expected.len()
        );
        assert!(mesh.refusals(1).is_empty(), "seed {seed}");
        assert_eq!(mesh.peer(0).pending_sends(), 0, "seed {seed}");
        // What was in part there is given up in time, and the stream goes on.
        mesh.send(0, to, Class::Storage, b"after");
        mesh.settle();
        assert_eq!(mesh.nodes[1].taken.last().unwrap().body, b"after");
        assert_eq!(mesh.peer(1).in_part().0, 0, "seed {seed}");
    }
    assert!(cancelled > 80 && late > 80, "{cancelled} {late}");
}

#[test]
pub(crate) fn law_cancellation_is_never_lost_where_nothing_moves() {
    for seed in 0..4 {
        let mut mesh = Mesh::new(2, seed);
        mesh.slow_lanes = true;
        mesh.nodes[1].takes = false;
        mesh.link(0, 1);
        let to = mesh.nodes[1].did;
        let sends: Vec<SendId> = (0..400u64)
            .map(|number| mesh.send(0, to, Class::E2e, &number.to_be_bytes()))
            .collect();
        // One is in the driver's hand, and the lane is full when that answers.
        mesh.run(|mesh| {
            mesh.nodes[0].sent.len() > 150 && mesh.nodes[0].in_hand() > 0 && mesh.is_full(0)
        });
        let pending = |mesh: &Mesh| -> BTreeSet<SendId> {
            let sent = &mesh.nodes[0].sent;
            let pending = sends.iter().filter(|id| !sent.contains_key(id));
            pending.copied().collect()
        };
        let wished = pending(&mesh);
        assert!(wished.len() > 100, "seed {seed}");
        for &id in &wished {
            mesh.cancel(0, id);
            // A second wish is none.
            mesh.cancel(0, id);
        }
        mesh.settle();
        assert_eq!(pending(&mesh).len(), 0, "seed {seed}: a cancel was lost");
        for id in wished {
            assert_eq!(
                mesh.nodes[0].sent[&id],
                Err(SendError::Cancelled),
                "seed {seed}"
            );
        }
        assert_eq!(mesh.peer(0).pending_sends(), 0, "seed {seed}");
        mesh.nodes[1].takes = true;
        mesh.settle();
        let placed = mesh.nodes[0].receipts().len();
        assert_eq!(mesh.taken_once(1).len(), placed, "seed {seed}");
    }
}

#[test]
fn what_is_with_the_driver_when_its_link_goes_is_taken_back() {
    let mut mesh = Mesh::new(2, 5);
    mesh.slow_lanes = true;
    let link = mesh.link(0, 1);
    let to = mesh.nodes[1].did;
    let id = mesh.send(0, to, Class::Application, b"taken back");
    mesh.run(|mesh| mesh.nodes[0].in_hand() > 0);
    mesh.cancel(0, id);
    assert_eq!(
        mesh.nodes[0].sent.get(&id),
        None,
        "the driver's answer decides"
    );
    mesh.cut(link);
    assert_eq!(mesh.nodes[0].sent[&id], Err(SendError::Cancelled));
    mesh.link(0, 1);
    mesh.settle();
    assert!(mesh.nodes[1].taken.is_empty());
}
