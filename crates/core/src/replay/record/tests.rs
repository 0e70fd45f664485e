//! Records and deltas: one encoding each, and deltas that are the engine's own changes.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::ids::{Class, Did, NetworkId, TransactionDigest};
use crate::store::Image;

fn key() -> StreamKey {
    StreamKey {
        network: NetworkId(u32::MAX),
        origin: Did([0xaa; 20]),
        destination: Did([0xbb; 20]),
        class: Class::Application,
    }
}

fn window() -> impl Strategy<Value = Window> {
    let digest = any::<[u8; 32]>().prop_map(TransactionDigest);
    let steps = prop::collection::vec((0u64..70, digest), 1..40);
    (any::<u64>(), steps).prop_map(|(base, steps)| {
        let base = base.min(u64::MAX - 200);
        let mut window = Window::first(base, TransactionDigest([1; 32]));
        for (above, digest) in steps {
            window.observe(base + above, digest);
        }
        window
    })
}

fn receiver() -> impl Strategy<Value = ReceiverRecord> {
    let entries =
        prop::collection::btree_map(any::<u64>(), (any::<[u8; 32]>(), any::<u64>()), 0..8);
    let introducer = prop_oneof![
        any::<u16>().prop_map(|number| Introducer::Slot(Slot::restored(number))),
        Just(Introducer::Inbox),
        Just(Introducer::Own),
    ];
    let parts = (window(), entries, introducer, any::<u64>(), 1..u64::MAX);
    parts.prop_map(
        |(window, entries, introducer, spent_ms, version)| ReceiverRecord {
            stream: key(),
            version,
            window,
            custody: entries
                .into_iter()
                .map(|(sequence, (digest, spent_ms))| CustodyEntry {
                    sequence,
                    digest: TransactionDigest(digest),
                    spent_ms,
                })
                .collect(),
            introducer,
            spent_ms,
        },
    )
}

/// Any record, by way of the receiver's: the others have a number for each field.
fn record() -> impl Strategy<Value = Record> {
    let receiver = receiver().prop_map(Box::new).prop_map(Record::Receiver);
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>());
    let sender = numbers.prop_map(|(version, end, spent_ms)| {
        let stream = key();
        Record::Sender(SenderRecord {
            stream,
            version,
            end,
            spent_ms,
        })
    });
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>());
    let floor = numbers.prop_map(|(version, mail_ms, sender_end)| {
        Record::Floor(FloorRecord {
            version,
            mail_ms,
            sender_end,
        })
    });
    let fork = (
        any::<u64>(),
        any::<u64>(),
        prop::collection::vec(any::<u8>(), 0..99),
    );
    let fork = fork.prop_map(|(version, sequence, evidence)| {
        let stream = key();
        Record::Fork(ForkRecord {
            stream,
            version,
            sequence,
            evidence,
        })
    });
    prop_oneof![4 => receiver, 1 => sender, 1 => floor, 1 => fork]
}

proptest! {
    #[test]
    fn prop_a_record_is_its_bytes_and_lies_under_its_own_name(record in record()) {
        let bytes = to_vec(&record);
        prop_assert!(bytes.len() <= RECORD_MAX_BYTES);
        prop_assert_eq!(Record::decode(&bytes), Ok(record.clone()));
        prop_assert_eq!(Record::decode_filed(&bytes, record.id().name()), Ok(record));
    }

    #[test]
    fn law_canonical_a_changed_byte_is_another_record_or_none(
        record in record(),
        at in any::<prop::sample::Index>(),
        flip in 1u8..=255,
    ) {
        let mut bytes = to_vec(&record);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(other) = Record::decode(&bytes) {
            prop_assert_ne!(&other, &record);
            prop_assert_eq!(to_vec(&other), bytes);
        }
    }

    #[test]
    fn law_delta_leads_from_each_version_to_the_next(
        before in receiver(),
        steps in prop::collection::vec((-40i64..40, any::<u8>(), any::<u64>(), any::<bool>()), 1..40),
    ) {
        let mut after = before.clone();
        let mut ops = Vec::new();
        for (offset, tag, spent_ms, mail) in steps {
            let op = match after.custody.first() {
                Some(entry) if mail && tag % 2 == 0 => {
                    Op::LeaveCustody { sequence: entry.sequence }
                }
                _ => Op::Admit {
                    sequence: after.window.high().saturating_add_signed(offset),
                    digest: TransactionDigest([tag; 32]),
                    spent_ms,
                    custody: mail,
                },
            };
            let unchanged = after.clone();
            match after.apply(&op) {
                Ok(()) => ops.push(op),
                Err(_) => prop_assert_eq!(&after, &unchanged),
            }
        }
        after.version = before.version + 1;
        let count = ops.len();
        let image = RecordImage::new(Arc::new(after), ops);
        match image.delta() {
            None => prop_assert!(count == 0 || count > DELTA_OPS_MAX),
            Some(delta) => {
                prop_assert_eq!((delta.from, delta.to), (before.version, image.version()));
                let whole = apply(&to_vec(&before), &delta.bytes);
                prop_assert_eq!(whole, Ok(image.whole()));
                let misapplied = apply(&image.whole(), &delta.bytes);
                let refused = matches!(misapplied, Err(DeltaError::Version { .. }));
                prop_assert!(refused, "a delta applies to its own version alone");
            }
        }
    }
}

fn full_receiver() -> ReceiverRecord {
    let mut window = Window::first(u64::MAX - 31, TransactionDigest([0xff; 32]));
    for sequence in u64::MAX - 30..=u64::MAX {
        window.observe(sequence, TransactionDigest([0xff; 32]));
    }
    let custody = (0..CUSTODY_CAPACITY as u64).map(|behind| CustodyEntry {
        sequence: u64::MAX - 63 + behind,
        digest: TransactionDigest([0xff; 32]),
        spent_ms: u64::MAX,
    });
    ReceiverRecord {
        stream: key(),
        version: u64::MAX,
        window,
        custody: custody.collect(),
        introducer: Introducer::Slot(Slot::restored(u16::MAX)),
        spent_ms: u64::MAX,
    }
}

#[test]
fn the_fullest_records_reach_their_bounds_exactly() {
    let receiver = full_receiver();
    assert_eq!(to_vec(&receiver).len(), STREAM_RECORD_MAX_BYTES);
    let fork = ForkRecord {
        stream: key(),
        version: u64::MAX,
        sequence: u64::MAX,
        evidence: vec![0xff; EVIDENCE_MAX_BYTES],
    };
    assert_eq!(to_vec(&fork).len(), FORK_RECORD_MAX_BYTES);
}

#[test]
fn an_admission_takes_at_most_eighty_bytes_of_delta() {
    let mut receiver = full_receiver();
    receiver.window = Window::first(u64::MAX - 1, TransactionDigest([1; 32]));
    let op = Op::Admit {
        sequence: u64::MAX,
        digest: TransactionDigest([2; 32]),
        spent_ms: u64::MAX,
        custody: false,
    };
    receiver.apply(&op).unwrap();
    let delta = RecordImage::new(Arc::new(receiver), vec![op])
        .delta()
        .unwrap();
    assert!(delta.bytes.len() <= 80, "{} bytes", delta.bytes.len());
}

#[test]
fn law_own_key_another_streams_record_is_foreign() {
    let record = Record::Receiver(Box::new(full_receiver()));
    let own = record.id().name();
    for other in [
        RecordId::Sender(key()),
        RecordId::Floor,
        RecordId::Fork(key()),
    ] {
        let found = Record::decode_filed(&to_vec(&record), other.name());
        assert_eq!(found, Err(NotFiled::Foreign { own }));
    }
}

#[test]
fn records_of_impossible_states_do_not_decode() {
    let mut descending = full_receiver();
    descending.custody.reverse();
    let mut doubled = full_receiver();
    doubled.custody[1] = doubled.custody[0];
    let mut crowded = full_receiver();
    crowded.custody.insert(0, crowded.custody[0]);
    crowded.custody[0].sequence = 0;
    for record in [descending, doubled, crowded] {
        assert!(Record::decode(&to_vec(&record)).is_err());
    }
    let fork = ForkRecord {
        stream: key(),
        version: 1,
        sequence: 1,
        evidence: vec![0; EVIDENCE_MAX_BYTES + 1],
    };
    assert!(Record::decode(&to_vec(&fork)).is_err());
}
