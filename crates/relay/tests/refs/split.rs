//! Answers too large for a frame: only the last part acknowledges, and drops are in no earlier one.

use crate::mesh::{Mesh, broken_mesh};
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{Local, Mutant};
use overlane_relay::refs::wire::{
    Body, FRAME_MAX_BYTES, Frame, Kind, Numbered, Op, Outcome, Side, Slot, WireId,
};

/// Node 0 answers one frame of node 1 with more than a frame: each message comes back with an outcome
/// of 20 KB beside it, and brings a reference that node 0 has no use for.
fn split(broken: &[Mutant]) -> (Mesh, Vec<Numbered>) {
    let mut mesh = broken_mesh(2, &[(0, 1)], Limits::default(), broken);
    let large = mesh.promise(0);
    let back = mesh.promise(0);
    let large_there = mesh.give(0, 1, large);
    mesh.give(0, 1, back);
    let bytes = vec![7; 20 * 1024];
    mesh.resolve(0, large, Outcome::Data(Body::data(&bytes)));
    let door = mesh.door(0, 1);
    mesh.resolve(0, back, Outcome::Reference(door));
    let Local::Promise(_) = large_there else {
        panic!("a promise");
    };
    let promise = |number| WireId {
        kind: Kind::Promise,
        side: Side::Receiver,
        number,
    };
    let message = |target, slot| Op::Deliver {
        target,
        result: None,
        body: Body {
            slots: vec![Slot::Ref(slot)],
            bytes: b"m"[..].into(),
        },
    };
    let fresh = WireId {
        kind: Kind::Object,
        side: Side::Sender,
        number: 1,
    };
    let mut ops = vec![message(promise(2), promise(1)); 8];
    // To a promise that is data: nobody takes it, and what it brings is dropped.
    ops.push(message(promise(1), fresh));
    mesh.under_way.get_mut(&(0, 1)).unwrap().clear();
    mesh.forge(1, 0, 2, ops);
    let parts = mesh.under_way[&(0, 1)].iter().map(|bytes| {
        assert!(bytes.len() <= FRAME_MAX_BYTES);
        match Frame::from_bytes(bytes).unwrap() {
            Frame::Numbered(frame) => frame,
            other => panic!("{other:?}"),
        }
    });
    let parts = parts.collect();
    (mesh, parts)
}

#[test]
fn law_only_the_last_part_acknowledges_and_drops() {
    let (mesh, parts) = split(&[]);
    assert!(parts.len() >= 3, "{} parts", parts.len());
    let (last, earlier) = parts.split_last().unwrap();
    assert_eq!(last.ack_delta, 1);
    assert!(earlier.iter().all(|part| part.ack_delta == 0));
    let drops = |part: &Numbered| part.ops.iter().any(|op| matches!(op, Op::Drop(_)));
    assert!(drops(last) && !earlier.iter().any(drops));
    let messages = parts.iter().flat_map(|part| &part.ops);
    let messages = messages
        .filter(|op| matches!(op, Op::Deliver { .. }))
        .count();
    assert_eq!(messages, 8, "all of them come back, in order");
    assert_eq!(mesh.nodes[0].counts.dead_letters, 1);
    // A message and the outcome of what it mentions are in one part.
    for part in &parts {
        let delivered = part
            .ops
            .iter()
            .filter(|op| matches!(op, Op::Deliver { .. }))
            .count();
        let resolved = part
            .ops
            .iter()
            .filter(|op| matches!(op, Op::Resolve(_)))
            .count();
        assert_eq!(delivered, resolved);
    }
}

#[test]
fn law_the_first_part_acknowledging_would_be_noticed() {
    let (_, parts) = split(&[Mutant::FirstPartAcks]);
    let (last, earlier) = parts.split_last().unwrap();
    assert!(last.ack_delta != 1 || earlier.iter().any(|part| part.ack_delta != 0));
}
