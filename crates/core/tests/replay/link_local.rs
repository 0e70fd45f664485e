//! Link-local windows: what they are for, and what they are not.

use overlane_core::Class;
use overlane_core::replay::{DELEGATING_NAMESPACES, Introducer, Slot, VOLATILE_STREAMS};

use crate::support::*;

const PINGS: &str = "overlane.presence";

fn connected() -> (Node, Slot) {
    let mut node = Node::new();
    assert!(node.engine.delegate_replay(PINGS));
    let slot = node.engine.claim_slot(did(7)).unwrap();
    (node, slot)
}

fn ping(node: &Node, origin: u64, sequence: u64) -> Item {
    let mut item = node.item(stream(origin), sequence, 1);
    item.namespace = Some(PINGS);
    item
}

#[test]
fn law_link_local_all_three_conditions_or_the_durable_window() {
    let (mut node, slot) = connected();
    let other = node.engine.claim_slot(did(8)).unwrap();
    let own = Introducer::Slot(slot);
    let mut of_class = ping(&node, 7, 1);
    of_class.stream.class = Class::E2e;
    let mut of_namespace = ping(&node, 7, 1);
    of_namespace.namespace = Some("chat");
    for (item, introducer, durable) in [
        (ping(&node, 7, 5), own, false),
        (of_class, own, true),
        (of_namespace, own, true),
        (ping(&node, 7, 2), Introducer::Slot(other), true),
        (ping(&node, 7, 3), Introducer::Own, true),
        (ping(&node, 6, 1), own, true),
    ] {
        node.offer(item, introducer);
        assert_eq!(node.write(), durable);
        node.drain();
    }
    assert_eq!(node.engine.counters().link_local, 1);
}

#[test]
fn law_link_local_a_window_spans_one_link_generation() {
    let (mut node, slot) = connected();
    let answers = |node: &mut Node, slot: Slot| -> Vec<_> {
        let mut forked = ping(node, 7, 5);
        forked.tag = 2;
        let items = [
            ping(node, 7, 5),
            ping(node, 7, 5),
            forked,
            ping(node, 7, 40),
            ping(node, 7, 39),
            ping(node, 7, 8),
        ];
        let answers = items.map(|item| word(&node.admit(item, Introducer::Slot(slot))));
        answers.to_vec()
    };
    let expected = [
        "first",
        "replay/replay",
        "replay/fork",
        "advance",
        "late",
        "replay/stale",
    ];
    assert_eq!(answers(&mut node, slot), expected);
    assert!(node.disk.records.is_empty(), "the window is never written");
    node.engine.release_slot(slot);
    let again = node.engine.claim_slot(did(7)).unwrap();
    assert_eq!(again, slot);
    assert_eq!(answers(&mut node, again), expected);
}

#[test]
fn law_link_local_streams_are_bounded_by_connection() {
    let (mut node, slot) = connected();
    let with_destination = |node: &Node, destination: u64| {
        let mut item = ping(node, 7, 1);
        item.stream.destination = did(destination);
        item
    };
    for destination in 0..VOLATILE_STREAMS as u64 {
        let item = with_destination(&node, destination);
        assert_eq!(word(&node.admit(item, Introducer::Slot(slot))), "first");
    }
    let item = with_destination(&node, 1_000);
    let answer = word(&node.admit(item, Introducer::Slot(slot)));
    assert_eq!(answer, "replay/link_local_streams_full");
    let line = node
        .engine
        .bounds()
        .find(|it| it.name == "replay_link_local_streams");
    assert_eq!(line.unwrap().current, 64);
    let other = node.engine.claim_slot(did(8)).unwrap();
    assert_eq!(
        word(&node.admit(ping(&node, 8, 1), Introducer::Slot(other))),
        "first"
    );
    node.engine.release_slot(slot);
    let line = node
        .engine
        .bounds()
        .find(|it| it.name == "replay_link_local_streams");
    let line = line.unwrap();
    assert_eq!((line.current, line.high_water), (1, 64));
}

#[test]
fn law_link_local_waits_with_the_batch_it_joined_and_is_undone_with_it() {
    let (mut node, slot) = connected();
    let own = Introducer::Slot(slot);
    node.offer(node.item(stream(1), 1, 1), own);
    let batch = node.engine.take_batch().unwrap();
    node.offer(ping(&node, 7, 5), own);
    assert!(node.drain().is_empty());
    let refused = overlane_core::store::StoreError::BudgetExhausted {
        budget_bytes: 0,
        needed_bytes: 1,
    };
    node.engine.batch_done(batch.id, Err(refused)).unwrap();
    assert_eq!(node.drain().len(), 2);
    assert_eq!(word(&node.admit(ping(&node, 7, 5), own)), "first");
    // A window that ended with its connection does not come back with an undo.
    node.offer(node.item(stream(1), 1, 1), own);
    let batch = node.engine.take_batch().unwrap();
    node.offer(ping(&node, 7, 6), own);
    node.engine.release_slot(slot);
    node.engine.batch_done(batch.id, Err(io_error())).unwrap();
    let line = node
        .engine
        .bounds()
        .find(|it| it.name == "replay_link_local_streams");
    assert_eq!(line.unwrap().current, 0);
}

#[test]
fn law_quota_a_stream_charged_both_ways_is_given_back_exactly() {
    for link_local_first in [false, true] {
        let (mut node, slot) = connected();
        let own = Introducer::Slot(slot);
        for sequence in 0..3 {
            node.admit(node.item(stream(7), sequence, 1), own);
        }
        node.pass(1);
        let bucket = node.engine.quota(&stream(7));
        let mut items = [node.item(stream(7), 9, 1), ping(&node, 7, 9)];
        if link_local_first {
            items.reverse();
        }
        // Something to be written, without which a link-local answer waits for nothing.
        node.offer(node.item(stream(1), 1, 1), own);
        for item in items {
            node.offer(item, own);
        }
        let batch = node.engine.take_batch().unwrap();
        node.engine.batch_done(batch.id, Err(io_error())).unwrap();
        assert_eq!(node.engine.quota(&stream(7)), bucket);
    }
}

#[test]
fn namespaces_are_registered_up_to_their_bound() {
    let (mut node, _) = connected();
    for number in 1..DELEGATING_NAMESPACES {
        assert!(node.engine.delegate_replay(&format!("namespace {number}")));
    }
    assert!(!node.engine.delegate_replay("one more"));
    assert!(node.engine.delegate_replay(PINGS));
}
