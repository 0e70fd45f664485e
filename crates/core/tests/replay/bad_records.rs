//! Records that do not restore: stories 5, 6 and 7.

use overlane_core::replay::record::Table;
use overlane_core::replay::{Bad, Introducer, Outcome, Refusal, Share};
use overlane_core::store::{Effect, Found, RecordName, Scan};

use crate::support::*;

/// A disk with ten receiver streams and a sender stream, all with a first transaction.
fn ten_streams() -> Node {
    let mut node = Node::new();
    for origin in 0..10 {
        let item = node.item(stream(origin), 5, 1);
        assert_eq!(word(&node.admit(item, Introducer::Own)), "first");
    }
    node.reserve(outgoing(1), 1).unwrap();
    node
}

fn with(node: &Node, name: RecordName, found: Found) -> Scan {
    let mut scan = node.disk.scan();
    let at = scan.records.iter().position(|(it, _)| *it == name).unwrap();
    scan.records[at].1 = found;
    if faulty(Fault::BadIsAbsent) {
        scan.records.remove(at);
    }
    scan
}

fn every_kind(node: &Node, name: RecordName) -> Vec<(Found, &'static str)> {
    let own = &node.disk.records[&name];
    let mut flipped = own.clone();
    flipped[3] ^= 1;
    let other = Table::Receiver.record_name(&stream(3));
    let foreign = node.disk.records[&other].clone();
    let mut invalid = own.clone();
    // The lowest occupied bit of the window: its head is followed by the high sequence.
    let window = invalid
        .windows(3)
        .position(|it| it == [0x83, 5, 1])
        .unwrap();
    invalid[window + 2] = 2;
    vec![
        (Found::Torn(String::from("bad checksum")), "torn"),
        (Found::Bytes(own[..own.len() - 1].to_vec()), "corrupt"),
        (Found::Bytes(Vec::new()), "corrupt"),
        (Found::Bytes(flipped), "foreign"),
        (Found::Bytes(foreign), "foreign"),
        (Found::Foreign(other), "foreign"),
        (Found::Bytes(invalid), "corrupt"),
        (
            Found::Unreadable(String::from("permission denied")),
            "unreadable",
        ),
        (Found::Missing, "missing"),
    ]
}

#[test]
pub(crate) fn law_isolation_a_bad_record_fails_its_own_stream_and_no_other_s06() {
    let written = ten_streams();
    let name = Table::Receiver.record_name(&stream(7));
    for (found, kind) in every_kind(&written, name) {
        let mut node = Node::over(written.disk.clone(), written.now);
        node.rescan(with(&written, name, found));
        assert_eq!(node.engine.unrestorable().len(), 1);
        assert_eq!(node.engine.unrestorable()[&name].name(), kind);
        assert_eq!(node.engine.counters().unrestorable_record, 1);
        for origin in 0..10 {
            let again = node.item(stream(origin), 5, 1);
            let next = node.item(stream(origin), 6, 1);
            let answers = [again, next].map(|it| word(&node.admit(it, Introducer::Own)));
            if origin == 7 {
                assert_eq!(answers, ["replay/stream_unavailable"; 2]);
            } else {
                assert_eq!(answers, ["replay/replay", "advance"]);
            }
        }
        assert!(node.reserve(outgoing(1), 1).is_ok());
        assert_eq!(node.engine.counters().unavailable_stream, 2);
    }
}

#[test]
fn law_isolation_a_refusal_names_the_stream_the_record_and_what_to_do() {
    let written = ten_streams();
    let record = Table::Receiver.record_name(&stream(7));
    let scan = with(&written, record, Found::Missing);
    let mut node = Node::over(written.disk.clone(), written.now);
    node.engine.handle_scan(Ok(scan), node.now);
    let item = node.item(stream(7), 6, 1);
    let Outcome::Refused { refusal, .. } = node.admit(item, Introducer::Own) else {
        panic!("it is refused")
    };
    let expected = Refusal::StreamUnavailable {
        table: Table::Receiver,
        stream: stream(7),
        record,
        bad: Bad::Missing,
    };
    assert_eq!(refusal, expected);
    let words = refusal.to_string();
    assert!(
        words.contains(&format!("overlane replay clear {record}")),
        "{words}"
    );
}

#[test]
pub(crate) fn law_never_delete_no_call_touches_a_bad_record_s05() {
    let written = ten_streams();
    let name = Table::Receiver.record_name(&stream(7));
    for (found, _) in every_kind(&written, name) {
        let mut node = Node::over(written.disk.clone(), written.now);
        node.rescan(with(&written, name, found));
        for origin in 0..20 {
            node.offer(node.item(stream(origin), 6, 1), Introducer::Own);
            node.engine.stage_reservation(stream(origin), 1, node.now);
        }
        let batch = node.engine.take_batch().unwrap();
        assert!(batch.changes.iter().all(|change| change.name != name));
    }
}

#[test]
pub(crate) fn law_missing_a_sender_stream_whose_record_is_gone_signs_nothing_s07() {
    let written = ten_streams();
    let name = Table::Sender.record_name(&outgoing(1));
    let scan = with(&written, name, Found::Missing);
    let mut node = Node::over(written.disk.clone(), written.now);
    node.rescan(scan);
    let refusal = node.reserve(outgoing(1), 1).unwrap_err();
    assert!(matches!(refusal, Refusal::StreamUnavailable { .. }));
    assert!(node.reserve(outgoing(2), 1).is_ok());
    // The receiver stream of the same key is another record.
    let item = node.item(outgoing(1), 6, 1);
    assert_eq!(word(&node.admit(item, Introducer::Own)), "first");
}

#[test]
pub(crate) fn law_missing_a_receiver_stream_whose_record_is_gone_does_not_start_again_s07() {
    let written = ten_streams();
    let name = Table::Receiver.record_name(&stream(7));
    let scan = with(&written, name, Found::Missing);
    let mut node = Node::over(written.disk.clone(), written.now);
    node.rescan(scan);
    let replayed = node.item(stream(7), 5, 1);
    let answer = word(&node.admit(replayed, Introducer::Own));
    assert_eq!(answer, "replay/stream_unavailable");
}

#[test]
fn law_isolation_bad_records_hold_places_of_both_tables() {
    let mut node = Node::new();
    let bad = |at: u32| {
        let mut name = [0xee; 20];
        name[..4].copy_from_slice(&at.to_be_bytes());
        (RecordName(name), Found::Missing)
    };
    let records = (0..16_384 - 1).map(bad).collect();
    node.engine.handle_scan(Ok(Scan { records }), node.now);
    let item = node.item(stream(1), 1, 1);
    assert_eq!(word(&node.admit(item, Introducer::Own)), "first");
    let item = node.item(stream(2), 1, 1);
    let Outcome::Refused { refusal, .. } = node.admit(item, Introducer::Own) else {
        panic!("the table is full")
    };
    let Refusal::StreamShareFull { full, .. } = refusal else {
        panic!("{refusal}")
    };
    assert_eq!((full.share, full.limit), (Share::Table, 16_384));
    assert!(node.reserve(outgoing(1), 1).is_ok());
    let stream = outgoing(2);
    let refusal = node.reserve(stream, 1).unwrap_err();
    assert_eq!(refusal, Refusal::SenderStreamsFull { stream });
}

#[test]
fn law_one_scan_a_scan_that_fails_restores_nothing_and_the_next_one_may() {
    let written = ten_streams();
    let mut node = Node::over(written.disk.clone(), written.now);
    node.engine.handle_scan(Err(io_error()), node.now);
    assert_eq!(node.engine.counters().persistence_failure, 1);
    let item = node.item(stream(7), 6, 1);
    assert_eq!(
        word(&node.admit(item.clone(), Introducer::Own)),
        "replay/store_failed"
    );
    node.engine.handle_scan(Ok(written.disk.scan()), node.now);
    assert_eq!(word(&node.admit(item, Introducer::Own)), "advance");
}

#[test]
pub(crate) fn law_one_record_an_admission_writes_its_own_stream_alone_s13() {
    let mut node = Node::new();
    for origin in 0..2_000 {
        let item = node.item(stream(origin), 5, 1);
        node.offer(item, Introducer::Own);
    }
    while node.write() {}
    let written = match faulty(Fault::WritesEveryStream) {
        true => 0..2_000,
        false => 7..8,
    };
    for origin in written {
        node.offer(node.item(stream(origin), 6, 1), Introducer::Own);
    }
    let batch = node.engine.take_batch().unwrap();
    let [change] = &batch.changes[..] else {
        panic!("{} records", batch.changes.len())
    };
    let Effect::Write(image) = &change.effect else {
        panic!("a write")
    };
    let delta_bytes = image.delta().unwrap().bytes.len();
    assert!(delta_bytes <= 80, "{delta_bytes} bytes");
}
