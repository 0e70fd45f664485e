//! The origin quota beside the window.

use overlane_core::replay::{
    Bucket, Introducer, Outcome, QUOTA_RECORDS, QuotaLimits, QuotaRefusal, Refusal,
};
use overlane_core::{Class, StreamKey};
use proptest::prelude::*;

use crate::support::*;

const LIMITS: QuotaLimits = QuotaLimits {
    messages_per_s: 256,
    burst_messages: 2_048,
    bytes_per_s: 4 * 1024 * 1024,
    burst_bytes: 64 * 1024 * 1024,
};

fn refusal(outcome: Outcome<Item>) -> QuotaRefusal {
    match outcome {
        Outcome::Refused {
            refusal: Refusal::Quota { quota, .. },
            ..
        } => quota,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_default_quota_lets_an_honest_burst_through() {
    assert_eq!(QuotaLimits::default(), LIMITS);
    let mut node = Node::new();
    for sequence in 0..LIMITS.burst_messages {
        node.offer(node.item(stream(1), sequence, 1), Introducer::Own);
    }
    while node.write() {}
    assert!(
        node.drain()
            .iter()
            .all(|(_, it)| matches!(it, Outcome::Admitted(_)))
    );
    let one_more = node.item(stream(1), LIMITS.burst_messages, 1);
    let again_ms = match refusal(node.admit(one_more.clone(), Introducer::Own)) {
        QuotaRefusal::Messages { again_ms } => again_ms,
        other => panic!("{other}"),
    };
    assert_eq!(again_ms, 4, "one in 256 of a second");
    // The refusal changed no window: the same transaction is admitted when its time comes.
    node.pass(again_ms);
    assert_eq!(word(&node.admit(one_more, Introducer::Own)), "advance");
    assert_eq!(node.engine.counters().quota_messages, 1);
}

#[test]
fn bytes_have_their_own_bucket() {
    let mut node = Node::new();
    let mut item = node.item(stream(1), 1, 1);
    item.data_bytes = LIMITS.burst_bytes + 1;
    let over = QuotaRefusal::OverBurst {
        data_bytes: LIMITS.burst_bytes + 1,
        burst_bytes: LIMITS.burst_bytes,
    };
    assert_eq!(refusal(node.admit(item.clone(), Introducer::Own)), over);
    item.data_bytes = LIMITS.burst_bytes;
    assert_eq!(word(&node.admit(item.clone(), Introducer::Own)), "first");
    item.sequence += 1;
    item.data_bytes = LIMITS.bytes_per_s;
    let again = QuotaRefusal::Bytes { again_ms: 1_000 };
    assert_eq!(refusal(node.admit(item.clone(), Introducer::Own)), again);
    node.pass(1_000);
    assert_eq!(word(&node.admit(item, Introducer::Own)), "advance");
}

#[test]
fn law_quota_replays_forks_and_stale_transactions_cost_nothing() {
    let mut node = Node::new();
    for sequence in [100, 101] {
        node.admit(node.item(stream(1), sequence, 1), Introducer::Own);
    }
    let bucket = node.engine.quota(&stream(1));
    for (sequence, tag, answer) in [
        (101, 1, "replay/replay"),
        (101, 2, "replay/fork"),
        (3, 1, "replay/stale"),
    ] {
        let item = node.item(stream(1), sequence, tag);
        assert_eq!(word(&node.admit(item, Introducer::Own)), answer);
        assert_eq!(node.engine.quota(&stream(1)), bucket);
    }
}

#[test]
fn law_quota_a_failed_batch_is_given_back_exactly() {
    let mut node = Node::new();
    node.admit(node.item(stream(1), 1, 1), Introducer::Own);
    let buckets = [1, 2].map(|origin| node.engine.quota(&stream(origin)));
    node.pass(2);
    for sequence in 2..50 {
        node.offer(node.item(stream(1), sequence, 1), Introducer::Own);
        node.offer(node.item(stream(2), sequence, 1), Introducer::Own);
    }
    let batch = node.engine.take_batch().unwrap();
    node.offer(node.item(stream(1), 99, 1), Introducer::Own);
    node.engine.batch_done(batch.id, Err(io_error())).unwrap();
    assert_eq!(
        [1, 2].map(|origin| node.engine.quota(&stream(origin))),
        buckets
    );
}

#[test]
fn law_quota_only_a_rested_record_is_reused() {
    let mut node = Node::new();
    let heavy = |node: &Node, origin: u64, class| {
        let mut item = node.item(stream_of(origin, class), 1, 1);
        item.data_bytes = LIMITS.bytes_per_s;
        item
    };
    for origin in 0..QUOTA_RECORDS as u64 {
        let item = heavy(&node, origin, Class::Storage);
        node.offer(item, Introducer::Own);
    }
    while node.write() {}
    node.drain();
    let item = heavy(&node, 5_000, Class::Storage);
    // Every record of the class is in use by a stream that has not rested; other classes are not
    // concerned.
    let slot = Introducer::Slot(node.engine.claim_slot(did(4)).unwrap());
    assert_eq!(
        refusal(node.admit(item.clone(), slot)),
        QuotaRefusal::Records
    );
    let other = heavy(&node, 5_000, Class::E2e);
    assert_eq!(word(&node.admit(other, slot)), "first");
    node.pass(999);
    assert_eq!(
        refusal(node.admit(item.clone(), slot)),
        QuotaRefusal::Records
    );
    node.pass(1);
    assert_eq!(word(&node.admit(item, slot)), "first");
    let line = node
        .engine
        .bounds()
        .find(|it| it.name == "replay_quota_storage");
    let line = line.unwrap();
    assert_eq!((line.current, line.limit), (1_024, 1_024));
    assert_eq!(node.engine.counters().quota_records, 2);
}

proptest! {
    /// Over any stretch of time a bucket lets through its burst and what came in, and no more;
    /// and it never refuses what both levels of a naive meter would allow.
    #[test]
    fn law_quota_agrees_with_a_naive_meter(
        steps in prop::collection::vec((0..20u64, 0..40u64), 1..300),
    ) {
        let limits = QuotaLimits {
            messages_per_s: 100,
            burst_messages: 5,
            bytes_per_s: 1_000,
            burst_bytes: 60,
        };
        let mut bucket = Bucket::full(&limits, 0);
        let (mut messages, mut bytes) = (5_000u64, 60_000u64);
        let mut steady_ms = 0;
        for (passed, data_bytes) in steps {
            steady_ms += passed;
            messages = (messages + passed * 100).min(5_000);
            bytes = (bytes + passed * 1_000).min(60_000);
            let allowed = messages >= 1_000 && bytes >= data_bytes * 1_000;
            let taken = bucket.take(&limits, data_bytes, steady_ms);
            prop_assert_eq!(taken.is_ok(), allowed);
            if allowed {
                messages -= 1_000;
                bytes -= data_bytes * 1_000;
            } else if let Err(QuotaRefusal::Messages { again_ms } | QuotaRefusal::Bytes { again_ms }) = taken {
                let mut later = bucket;
                prop_assert!(again_ms > 0);
                let early = later.take(&limits, data_bytes, steady_ms + again_ms - 1);
                prop_assert!(early.is_err());
            }
            let mut rested = bucket;
            let full_ms = bucket.full_at_ms(&limits);
            prop_assert!(rested.take(&limits, 60, full_ms).is_ok());
        }
    }
}

#[test]
fn one_key_of_another_network_or_destination_is_another_quota() {
    let mut node = Node::new();
    let mut item = node.item(stream(1), 1, 1);
    item.data_bytes = LIMITS.burst_bytes;
    node.admit(item.clone(), Introducer::Own);
    item.stream = StreamKey {
        destination: did(77),
        ..item.stream
    };
    assert_eq!(word(&node.admit(item, Introducer::Own)), "first");
}
