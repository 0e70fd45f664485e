//! The laws of group commit.

use overlane_core::replay::record::{Record, Table};
use overlane_core::replay::{
    Engine, EngineConfig, GATHER_RESULTS, Gather, Introducer, NotInFlight, Outcome, PENDING_MAX,
    Refusal,
};
use overlane_core::store::{Effect, Scan, StoreError};

use crate::support::*;

#[test]
fn law_release_nothing_comes_out_before_its_batch_is_durable() {
    let mut node = Node::new();
    node.reserve(outgoing(1), 1).unwrap();
    let first = node.offer(node.item(stream(7), 5, 1), Introducer::Own);
    // A replay of what is not yet durable, and a reservation inside its lease: neither writes.
    let replay = node.offer(node.item(stream(7), 5, 1), Introducer::Own);
    let inside = node.engine.stage_reservation(outgoing(1), 1, node.now);
    assert!(node.drain().is_empty());
    let batch = node.engine.take_batch().unwrap();
    assert!(node.drain().is_empty());
    // These gather while the batch is written, and write nothing themselves.
    let late_replay = node.offer(node.item(stream(7), 5, 1), Introducer::Own);
    let late_inside = node.engine.stage_reservation(outgoing(1), 1, node.now);
    assert!(node.drain().is_empty());
    assert!(node.engine.take_batch().is_none(), "one batch in flight");
    node.engine.batch_done(batch.id, Ok(())).unwrap();
    let answers: Vec<_> = node.drain().iter().map(|(t, o)| (*t, word(o))).collect();
    let expected = [
        (first, "first"),
        (replay, "replay/replay"),
        (inside, "reserved"),
        (late_replay, "replay/replay"),
        (late_inside, "reserved"),
    ];
    assert_eq!(answers, expected);
}

#[test]
pub(crate) fn law_release_without_a_store_everything_is_refused_s10() {
    let mut engine = Engine::<Item>::new(EngineConfig::default());
    if faulty(Fault::StoreInMemory) {
        engine.handle_scan(Ok(Scan::default()), START);
    }
    let item = Item::new(stream(7), 5, 1, START);
    engine.stage_admission(item.clone(), Introducer::Own, START);
    engine.stage_reservation(outgoing(1), 1, START);
    assert!(engine.take_batch().is_none());
    for given_back in [Some(item), None] {
        let (_, outcome) = engine.poll_outcome().unwrap();
        let Outcome::Refused { refusal, item } = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(refusal, Refusal::StorageUnavailable);
        assert_eq!(item, given_back);
    }
    engine.handle_scan(Ok(Scan::default()), START);
    engine.stage_reservation(outgoing(1), 1, START);
    assert!(engine.take_batch().is_some());
}

#[test]
fn law_atomicity_a_batch_is_a_snapshot() {
    let mut node = Node::new();
    node.offer(node.item(stream(7), 5, 1), Introducer::Own);
    let batch = node.engine.take_batch().unwrap();
    let [change] = &batch.changes[..] else {
        panic!("one record")
    };
    let Effect::Write(image) = &change.effect else {
        panic!("a write")
    };
    let taken = image.whole();
    node.offer(node.item(stream(7), 6, 1), Introducer::Own);
    assert_eq!(image.whole(), taken);
    let record = Record::decode(&taken).unwrap();
    let Record::Receiver(record) = record else {
        panic!("a receiver")
    };
    assert_eq!(record.window.high(), 5);
}

#[test]
pub(crate) fn law_order_a_record_changed_often_in_one_batch_is_written_once_s08() {
    let mut node = Node::new();
    node.admit(node.item(stream(7), 0, 1), Introducer::Own);
    for sequence in 1..=100 {
        node.offer(node.item(stream(7), sequence, 1), Introducer::Own);
        node.offer(node.item(stream(8), sequence, 1), Introducer::Own);
    }
    let batch = node.engine.take_batch().unwrap();
    assert_eq!(batch.changes.len(), 2);
    batch.changes.iter().for_each(|it| node.disk.apply(it));
    node.engine.batch_done(batch.id, Ok(())).unwrap();
    let Some(Record::Receiver(record)) = node.disk.record(Table::Receiver, &stream(7)) else {
        panic!("a receiver")
    };
    assert_eq!((record.window.high(), record.version), (100, 2));
    assert_eq!(node.drain().len(), 200);
}

#[test]
fn law_fail_closed_a_failed_batch_fails_all_that_is_pending_and_counts_once() {
    let mut node = Node::new();
    node.admit(node.item(stream(7), 5, 1), Introducer::Own);
    let window = node.engine.receiver(&stream(7)).cloned();
    let sent = node.reserve(outgoing(1), 1).unwrap();
    node.offer(node.item(stream(7), 6, 1), Introducer::Own);
    node.offer(node.item(stream(8), 1, 1), Introducer::Own);
    let batch = node.engine.take_batch().unwrap();
    node.offer(node.item(stream(7), 7, 1), Introducer::Own);
    node.offer(node.item(stream(7), 5, 1), Introducer::Own);
    node.engine.stage_reservation(outgoing(1), 1, node.now);
    node.engine.stage_reservation(outgoing(2), 1, node.now);
    node.engine.batch_done(batch.id, Err(io_error())).unwrap();
    let answers = node.drain();
    assert_eq!(answers.len(), 6);
    for (_, outcome) in &answers {
        assert_eq!(word(outcome), "replay/store_failed");
    }
    assert_eq!(node.engine.counters().persistence_failure, 1);
    assert_eq!(node.engine.receiver(&stream(7)).cloned(), window);
    assert_eq!(node.engine.receiver(&stream(8)), None);
    assert_eq!(node.engine.next_sequence(&outgoing(1)), Some(sent + 1));
    assert_eq!(node.engine.next_sequence(&outgoing(2)), None);
    assert_eq!(node.engine.pending(), 0);
    assert_eq!(node.engine.failure(), Some(&io_error()));
    // Until the store is scanned again nothing is believed, not even what was durable before.
    let again = node.item(stream(7), 5, 1);
    assert_eq!(
        word(&node.admit(again, Introducer::Own)),
        "replay/store_failed"
    );
    let mut node = node.restarted();
    let again = node.item(stream(7), 6, 1);
    assert_eq!(word(&node.admit(again, Introducer::Own)), "advance");
}

#[test]
fn law_fail_closed_a_store_that_refused_before_writing_is_still_believed() {
    let mut node = Node::new();
    node.offer(node.item(stream(7), 6, 1), Introducer::Own);
    let batch = node.engine.take_batch().unwrap();
    let full = StoreError::BudgetExhausted {
        budget_bytes: 1,
        needed_bytes: 2,
    };
    node.engine.batch_done(batch.id, Err(full)).unwrap();
    assert_eq!(word(&node.drain()[0].1), "replay/store_failed");
    assert!(node.engine.is_open());
    let item = node.item(stream(7), 6, 1);
    assert_eq!(word(&node.admit(item, Introducer::Own)), "first");
}

#[test]
fn law_cancellation_a_caller_abandons_its_wait_and_nothing_else() {
    let mut node = Node::new();
    let open = node.offer(node.item(stream(7), 5, 1), Introducer::Own);
    let kept = node.offer(node.item(stream(8), 5, 1), Introducer::Own);
    node.engine.abandon(open);
    let batch = node.engine.take_batch().unwrap();
    batch.changes.iter().for_each(|it| node.disk.apply(it));
    let gathered = node.offer(node.item(stream(9), 5, 1), Introducer::Own);
    node.engine.batch_done(batch.id, Ok(())).unwrap();
    let batch = node.engine.take_batch().unwrap();
    node.engine.abandon(gathered);
    batch.changes.iter().for_each(|it| node.disk.apply(it));
    node.engine.batch_done(batch.id, Ok(())).unwrap();
    let answered: Vec<_> = node.drain().iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(answered, [kept]);
    assert_eq!(node.engine.counters().first, 3, "each of them was admitted");
    // So a retransmission is a replay, before a restart and after.
    for mut node in [Node::over(node.disk.clone(), node.now), node] {
        for origin in [7, 9] {
            let again = node.item(stream(origin), 5, 1);
            assert_eq!(word(&node.admit(again, Introducer::Own)), "replay/replay");
        }
    }
}

#[test]
fn law_fail_closed_a_batch_reported_after_a_new_scan_changes_nothing() {
    let mut node = Node::new();
    node.admit(node.item(stream(7), 5, 1), Introducer::Own);
    node.offer(node.item(stream(7), 6, 1), Introducer::Own);
    let batch = node.engine.take_batch().unwrap();
    node.offer(node.item(stream(8), 1, 1), Introducer::Own);
    // The store is opened again while its writer still holds the batch.
    node.engine.handle_scan(Ok(node.disk.scan()), node.now);
    let answers = node.drain();
    assert_eq!(answers.len(), 2);
    assert!(
        answers
            .iter()
            .all(|(_, it)| word(it) == "replay/store_failed")
    );
    let done = node.engine.batch_done(batch.id, Ok(()));
    assert_eq!(done, Err(NotInFlight(batch.id)));
    assert_eq!(node.engine.receiver(&stream(7)).unwrap().window.high(), 5);
    let again = node.item(stream(7), 6, 1);
    assert_eq!(word(&node.admit(again, Introducer::Own)), "advance");
    // And a batch is done once.
    node.offer(node.item(stream(7), 7, 1), Introducer::Own);
    let batch = node.engine.take_batch().unwrap();
    assert_eq!(node.engine.batch_done(batch.id, Ok(())), Ok(()));
    let twice = node.engine.batch_done(batch.id, Err(io_error()));
    assert_eq!(twice, Err(NotInFlight(batch.id)));
    assert!(node.engine.is_open());
}

#[test]
fn what_waits_for_the_store_is_bounded() {
    let mut node = Node::new();
    node.offer(node.item(stream(7), 5, 1), Introducer::Own);
    for _ in 1..PENDING_MAX {
        node.offer(node.item(stream(7), 5, 1), Introducer::Own);
    }
    assert!(node.drain().is_empty());
    let refused = node.offer(node.item(stream(8), 5, 1), Introducer::Own);
    assert_eq!(node.engine.receiver(&stream(8)), None);
    let line = node.engine.bounds().find(|it| it.name == "replay_pending");
    assert!(line.unwrap().current >= line.unwrap().limit);
    node.write();
    let answers = node.drain();
    assert_eq!(word(&answers[0].1), "first");
    let (last, outcome) = answers.last().unwrap();
    assert_eq!((*last, word(outcome)), (refused, "replay/pending_full"));
    assert_eq!(
        word(&node.admit(node.item(stream(8), 5, 1), Introducer::Own)),
        "first"
    );
}

#[test]
fn law_bounded_wait_a_batch_goes_when_nobody_is_verified_or_after_sixteen_results() {
    let mut node = Node::new();
    let mut gather = Gather::default();
    let verified = |node: &mut Node, gather: &mut Gather, origin: u64, good: bool| {
        gather.handle_verified();
        if good {
            node.offer(node.item(stream(origin), 5, 1), Introducer::Own);
        }
    };
    // Alone: at once.
    verified(&mut node, &mut gather, 1, true);
    let batch = gather.take_batch(&mut node.engine, 0).unwrap();
    assert_eq!(batch.changes.len(), 1);
    node.engine.batch_done(batch.id, Ok(())).unwrap();
    // In company: with those who were verified meanwhile, bad ones among them.
    for result in 1..GATHER_RESULTS {
        verified(
            &mut node,
            &mut gather,
            100 + u64::from(result),
            result % 2 == 1,
        );
        assert!(gather.take_batch(&mut node.engine, 1).is_none(), "{result}");
    }
    verified(&mut node, &mut gather, 200, true);
    let batch = gather.take_batch(&mut node.engine, 1).unwrap();
    assert_eq!(batch.changes.len(), 9);
    // The count begins with the batch, also for what comes while it is written.
    for result in 1..=GATHER_RESULTS {
        verified(&mut node, &mut gather, 300 + u64::from(result), false);
    }
    verified(&mut node, &mut gather, 400, true);
    assert!(
        gather.take_batch(&mut node.engine, 1).is_none(),
        "one batch in flight"
    );
    node.engine.batch_done(batch.id, Ok(())).unwrap();
    let batch = gather.take_batch(&mut node.engine, 1).unwrap();
    assert_eq!(
        batch.changes.len(),
        1,
        "a flood of bad ones holds nothing back"
    );
}
