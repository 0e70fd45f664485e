//! The engine on the store: verdicts, restarts, group commit, failures.

use futures_util::future::join_all;
use overlane_core::replay::record::{Record, Table};
use overlane_core::replay::{Candidate, EngineConfig, Introducer, Outcome, Refusal};
use overlane_core::store::testkit::batch;
use overlane_core::{Class, Coded, Did, NetworkId, StreamKey, TransactionDigest};
use overlane_storage_web::{Replay, WebConfig, WebStore, now};
use wasm_bindgen_test::wasm_bindgen_test;

use crate::harm;
use crate::subject::{InBrowser, in_frames};

/// What a test admits in place of a verified payload.
#[derive(Debug, Clone)]
struct Item {
    stream: StreamKey,
    sequence: u64,
    tag: u8,
}

impl Candidate for Item {
    fn stream(&self) -> StreamKey {
        self.stream
    }
    fn sequence(&self) -> u64 {
        self.sequence
    }
    fn digest(&self) -> TransactionDigest {
        let mut digest = [self.tag; 32];
        digest[..8].copy_from_slice(&self.sequence.to_be_bytes());
        TransactionDigest(digest)
    }
    fn data_bytes(&self) -> u64 {
        1
    }
    fn issued_ms(&self) -> u64 {
        now().wall_ms
    }
    fn last_ms(&self) -> u64 {
        now().wall_ms + 600_000
    }
    fn namespace(&self) -> Option<&str> {
        None
    }
    fn signed_header(&self) -> Vec<u8> {
        self.digest().0.to_vec()
    }
}

fn item(origin: u64, sequence: u64, tag: u8) -> Item {
    let mut did = [0; 20];
    did[12..].copy_from_slice(&origin.to_be_bytes());
    let stream = StreamKey {
        network: NetworkId(1),
        origin: Did(did),
        destination: Did([0xbb; 20]),
        class: Class::Application,
    };
    Item {
        stream,
        sequence,
        tag,
    }
}

/// As the application opens it: replay's own deltas.
async fn store(subject: &InBrowser) -> WebStore {
    let config = WebConfig {
        lock_wait_ms: 500,
        ..WebConfig::default()
    };
    subject.open_with(config).await.unwrap()
}

async fn replay(subject: &InBrowser) -> Replay<Item> {
    Replay::open(store(subject).await, EngineConfig::default())
        .await
        .unwrap()
}

fn word(outcome: &Outcome<Item>) -> &'static str {
    match outcome {
        Outcome::Admitted(admitted) => admitted.verdict().name(),
        Outcome::Refused { refusal, .. } => refusal.code(),
        Outcome::Reserved(_) => "reserved",
        _ => "another",
    }
}

async fn admit(replay: &Replay<Item>, item: Item) -> &'static str {
    word(&replay.admit(item, Introducer::Own).await)
}

#[wasm_bindgen_test]
async fn every_verdict_comes_out_and_holds_after_opening_again() {
    let subject = in_frames();
    let first = replay(&subject).await;
    assert_eq!(admit(&first, item(1, 100, 1)).await, "first");
    assert_eq!(admit(&first, item(1, 105, 1)).await, "advance");
    assert_eq!(admit(&first, item(1, 103, 1)).await, "late");
    assert_eq!(admit(&first, item(1, 105, 1)).await, "replay/replay");
    assert_eq!(admit(&first, item(1, 105, 2)).await, "replay/fork");
    assert_eq!(admit(&first, item(1, 9, 1)).await, "replay/stale");
    first.close().await.unwrap();
    let again = replay(&subject).await;
    assert_eq!(admit(&again, item(1, 100, 1)).await, "replay/replay");
    assert_eq!(admit(&again, item(1, 103, 1)).await, "replay/replay");
    assert_eq!(admit(&again, item(1, 105, 2)).await, "replay/fork");
    assert_eq!(admit(&again, item(1, 106, 1)).await, "advance");
    // Without a word to the store, as when the page is gone.
    drop(again);
    let last = replay(&subject).await;
    assert_eq!(admit(&last, item(1, 106, 1)).await, "replay/replay");
}

#[wasm_bindgen_test]
async fn a_reservation_is_covered_by_a_durable_lease_after_opening_again() {
    let subject = in_frames();
    let mut next = 0;
    for _ in 0..3 {
        let replay = replay(&subject).await;
        for _ in 0..70 {
            let stream = item(1, 0, 0).stream;
            let Outcome::Reserved(reservation) = replay.reserve(stream, 1).await else {
                panic!("it is reserved")
            };
            assert!(reservation.first() >= next, "a sequence was given twice");
            next = reservation.first() + 1;
        }
        drop(replay);
    }
}

/// What is staged while one batch is written gathers in the next.
#[wasm_bindgen_test]
async fn law_latency_what_is_in_flight_together_waits_for_two_transactions_at_most() {
    let replay = replay(&in_frames()).await;
    let changes = harm::changes().length();
    let lone = replay.admit(item(0, 1, 1), Introducer::Own);
    let many: Vec<_> = (1..=200)
        .map(|it| replay.admit(item(it, 1, 1), Introducer::Own))
        .collect();
    assert_eq!(word(&lone.await), "first");
    let outcomes = join_all(many).await;
    assert!(outcomes.iter().all(|it| word(it) == "first"));
    assert!(harm::changes().length() - changes <= 2);
}

/// Law (cancellation): who goes away abandons its wait, not its effect.
#[wasm_bindgen_test]
async fn law_cancellation_an_admission_nobody_waits_for_is_durable() {
    let subject = in_frames();
    let replay = replay(&subject).await;
    drop(replay.admit(item(1, 5, 1), Introducer::Own));
    assert_eq!(admit(&replay, item(2, 5, 1)).await, "first");
    replay.close().await.unwrap();
    let replay = self::replay(&subject).await;
    assert_eq!(admit(&replay, item(1, 5, 1)).await, "replay/replay");
}

#[wasm_bindgen_test]
async fn law_fail_closed_a_batch_that_fails_fails_all_that_is_pending() {
    let subject = in_frames();
    let replay = replay(&subject).await;
    assert_eq!(admit(&replay, item(1, 1, 1)).await, "first");
    harm::abort_after(0);
    let pending: Vec<_> = (2..9)
        .map(|it| replay.admit(item(it, 1, 1), Introducer::Own))
        .collect();
    for outcome in join_all(pending).await {
        assert_eq!(word(&outcome), "replay/store_failed");
    }
    assert!(harm::healed());
    assert_eq!(admit(&replay, item(1, 2, 1)).await, "replay/store_failed");
    // It lets go of the store, though that cannot be sealed.
    assert!(replay.close().await.is_err());
    let again = self::replay(&subject).await;
    assert_eq!(admit(&again, item(1, 1, 1)).await, "replay/replay");
    assert_eq!(
        admit(&again, item(5, 1, 1)).await,
        "first",
        "what failed was undone"
    );
}

/// A bound of rows is no failure: it refuses what would pass it, and the engine goes on.
#[wasm_bindgen_test]
async fn law_budget_a_full_store_refuses_new_streams_and_serves_the_others() {
    let config = WebConfig {
        records_max: 2,
        ..WebConfig::default()
    };
    let store = in_frames().open_with(config).await.unwrap();
    let replay = Replay::open(store, EngineConfig::default()).await.unwrap();
    assert_eq!(admit(&replay, item(1, 1, 1)).await, "first");
    assert_eq!(admit(&replay, item(2, 1, 1)).await, "first");
    let Outcome::Refused {
        refusal: Refusal::StoreFailed { cause },
        ..
    } = replay.admit(item(3, 1, 1), Introducer::Own).await
    else {
        panic!("it is refused")
    };
    assert_eq!(cause.code(), "store/capacity_exhausted");
    assert_eq!(admit(&replay, item(2, 2, 1)).await, "advance");
}

/// A record whose window no engine leaves is bad, and one stream's trouble.
#[wasm_bindgen_test]
async fn law_isolation_an_invalid_window_refuses_its_own_stream() {
    let subject = in_frames();
    let first = replay(&subject).await;
    assert_eq!(admit(&first, item(1, 40, 1)).await, "first");
    assert_eq!(admit(&first, item(2, 40, 1)).await, "first");
    first.close().await.unwrap();
    let mut store = store(&subject).await;
    let scan = store.scan().await.unwrap();
    let name = Table::Receiver.record_name(&item(1, 0, 0).stream);
    let found = scan
        .records
        .into_iter()
        .find(|(of, _)| *of == name)
        .unwrap()
        .1;
    let overlane_core::store::Found::Bytes(mut bytes) = found else {
        panic!("it is whole")
    };
    assert!(Record::decode(&bytes).is_ok());
    // `[high, occupied, …]`: a window whose highest place is empty.
    let high = bytes.windows(3).position(|it| it == [0x18, 40, 1]).unwrap();
    bytes[high + 2] = 2;
    assert!(Record::decode(&bytes).is_err(), "no engine leaves this");
    store.write(&batch(&[(name, Some(bytes))])).await.unwrap();
    store.close().await.unwrap();
    let again = replay(&subject).await;
    assert_eq!(
        again.with(|engine| engine.counters().unrestorable_record),
        1
    );
    assert_eq!(
        admit(&again, item(1, 41, 1)).await,
        "replay/stream_unavailable"
    );
    assert_eq!(admit(&again, item(2, 41, 1)).await, "advance");
}
