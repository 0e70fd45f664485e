//! Frames and operations: one form, bounded lists, and no byte that is read otherwise.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "one of the harnesses is used here")]
#[path = "../fuzz/harness.rs"]
mod harness;

use overlane_core::wire::cbor::CborReason;
use overlane_relay::refs::wire::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn ids() -> impl Strategy<Value = WireId> {
    let number = prop_oneof![0..4_u64, Just(WireId::NUMBER_MAX), 0..=WireId::NUMBER_MAX];
    (any::<bool>(), any::<bool>(), number).prop_map(|(promise, receiver, number)| WireId {
        kind: if promise { Kind::Promise } else { Kind::Object },
        side: if receiver {
            Side::Receiver
        } else {
            Side::Sender
        },
        number,
    })
}

fn bodies() -> impl Strategy<Value = Body<WireId>> {
    let slot = prop_oneof![
        ids().prop_map(Slot::Ref),
        any::<u32>().prop_map(|reason| Slot::Broken(Reason(reason))),
    ];
    (vec(slot, 0..4), vec(any::<u8>(), 0..40)).prop_map(|(slots, bytes)| Body {
        slots,
        bytes: bytes.into(),
    })
}

fn outcomes() -> impl Strategy<Value = Outcome<WireId>> {
    prop_oneof![
        ids().prop_map(Outcome::Reference),
        bodies().prop_map(Outcome::Data),
        bodies().prop_map(Outcome::Rejected),
        (any::<u32>(), vec(any::<u8>(), 0..40)).prop_map(|(reason, error)| Outcome::Broken {
            reason: Reason(reason),
            error: error.into(),
        }),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    let resolution =
        (ids(), outcomes()).prop_map(|(promise, outcome)| Resolution { promise, outcome });
    let revocation = (ids(), any::<bool>(), any::<u32>(), vec(any::<u8>(), 0..40)).prop_map(
        |(object, hard, reason, error)| Revocation {
            object,
            hardness: if hard { Hardness::Hard } else { Hardness::Soft },
            reason: Reason(reason),
            error: error.into(),
        },
    );
    prop_oneof![
        (ids(), proptest::option::of(ids()), bodies()).prop_map(|(target, result, body)| {
            Op::Deliver {
                target,
                result,
                body,
            }
        }),
        vec(resolution, 1..4).prop_map(Op::Resolve),
        vec(ids(), 1..6).prop_map(Op::Drop),
        vec(revocation, 1..4).prop_map(Op::Revoke),
    ]
}

fn frames() -> impl Strategy<Value = Frame> {
    let numbers = || any::<(u64, u64, u64, u64)>();
    prop_oneof![
        (
            any::<u64>(),
            any::<Option<u64>>(),
            any::<u64>(),
            vec(ops(), 1..5)
        )
            .prop_map(|(epoch, seq, ack_delta, ops)| {
                Frame::Numbered(Numbered {
                    epoch: Epoch(epoch),
                    seq: seq.map(Seq),
                    ack_delta,
                    ops,
                })
            }),
        numbers().prop_map(|(epoch, after, recv, _)| Frame::AckOnly(AckOnly {
            epoch: Epoch(epoch),
            after: Seq(after),
            recv: Seq(recv),
        })),
        numbers().prop_map(|(epoch, sent, recv, acked)| Frame::Resume(Resume {
            epoch: Epoch(epoch),
            sent: Seq(sent),
            recv: Seq(recv),
            acked: Seq(acked),
        })),
        (any::<u64>(), "[a-z_/]{0,40}", ".{0,40}").prop_map(|(epoch, code, text)| {
            Frame::Close(Close {
                epoch: Epoch(epoch),
                code,
                text,
            })
        }),
    ]
}

proptest! {
    #[test]
    fn prop_a_frame_reads_back_as_it_was_written(frame in frames()) {
        let bytes = frame.to_bytes();
        prop_assert_eq!(Frame::from_bytes(&bytes).unwrap(), frame);
        harness::refs_frame(&bytes);
    }

    #[test]
    fn prop_changed_frames_are_another_frame_or_refused(
        frame in frames(),
        changes in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = frame.to_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        harness::refs_frame(&bytes);
    }

    #[test]
    fn prop_a_cut_frame_is_refused(frame in frames(), at in any::<proptest::sample::Index>()) {
        let bytes = frame.to_bytes();
        prop_assert!(Frame::from_bytes(&bytes[..at.index(bytes.len())]).is_err());
    }
}

const OBJECT: WireId = WireId {
    kind: Kind::Object,
    side: Side::Sender,
    number: 1,
};

fn numbered(ops: Vec<Op>) -> Frame {
    Frame::Numbered(Numbered {
        epoch: Epoch(1),
        seq: Some(Seq(1)),
        ack_delta: 0,
        ops,
    })
}

fn deliver(slots: usize, bytes: usize) -> Op {
    Op::Deliver {
        target: OBJECT,
        result: None,
        body: Body {
            slots: vec![Slot::Ref(OBJECT); slots],
            bytes: vec![7; bytes].into(),
        },
    }
}

fn revoke(error_bytes: usize) -> Op {
    Op::Revoke(vec![Revocation {
        object: OBJECT,
        hardness: Hardness::Soft,
        reason: Reason::FIRST_FREE,
        error: vec![7; error_bytes].into(),
    }])
}

fn resolve(promises: usize) -> Op {
    let resolution = Resolution {
        promise: WireId {
            kind: Kind::Promise,
            ..OBJECT
        },
        outcome: Outcome::broken(Reason::DISCONNECTED),
    };
    Op::Resolve(vec![resolution; promises])
}

/// Each list at its bound is taken, and one more is refused as over its bound.
#[test]
fn every_list_is_taken_at_its_bound_and_refused_beyond() {
    type Filled = fn(usize) -> Vec<Op>;
    let lists: [(usize, Filled); 5] = [
        (OPS_PER_FRAME_MAX, |n| vec![deliver(0, 0); n]),
        (REFS_PER_BODY_MAX, |n| vec![deliver(n, 0)]),
        (REFS_PER_BODY_MAX, |n| vec![Op::Drop(vec![OBJECT; n])]),
        (RESOLUTIONS_PER_OP_MAX, |n| vec![resolve(n)]),
        (ERROR_MAX_BYTES, |n| vec![revoke(n)]),
    ];
    for (bound, filled) in lists {
        assert!(Frame::from_bytes(&numbered(filled(bound)).to_bytes()).is_ok());
        let found = bound + 1;
        let error = Frame::from_bytes(&numbered(filled(found)).to_bytes()).unwrap_err();
        assert_eq!(error.reason, CborReason::OverBound { bound, found });
    }
}

#[test]
fn a_frame_of_the_largest_size_is_taken_and_one_byte_more_is_refused() {
    let overhead = numbered(vec![deliver(0, FRAME_MAX_BYTES - 100)])
        .to_bytes()
        .len()
        - (FRAME_MAX_BYTES - 100);
    let largest = numbered(vec![deliver(0, FRAME_MAX_BYTES - overhead)]).to_bytes();
    assert_eq!(largest.len(), FRAME_MAX_BYTES);
    assert!(Frame::from_bytes(&largest).is_ok());
    let over = numbered(vec![deliver(0, FRAME_MAX_BYTES - overhead + 1)]).to_bytes();
    assert!(matches!(
        Frame::from_bytes(&over).unwrap_err().reason,
        CborReason::OverBound { .. }
    ));
}

#[test]
fn empty_lists_and_frames_are_refused() {
    for ops in [
        vec![],
        vec![Op::Drop(vec![])],
        vec![Op::Resolve(vec![])],
        vec![Op::Revoke(vec![])],
    ] {
        assert!(Frame::from_bytes(&numbered(ops).to_bytes()).is_err());
    }
}

/// The bytes of one frame of each kind, written out by hand from the protocol's page.
#[test]
fn golden_frames() {
    let promise = WireId {
        kind: Kind::Promise,
        side: Side::Receiver,
        number: 2,
    };
    let frame = numbered(vec![
        Op::Deliver {
            target: OBJECT,
            result: Some(promise),
            body: Body {
                slots: vec![Slot::Ref(OBJECT), Slot::Broken(Reason(9))],
                bytes: b"hi"[..].into(),
            },
        },
        Op::Drop(vec![OBJECT]),
    ]);
    let bytes = [
        0x85, 0, 1, 1, 0, 0x82, // frame: numbered, epoch 1, seq 1, delta 0, two operations
        0x84, 0, 4, 11, 0x82, 0x82, 4, 0x81, 9, 0x42, b'h', b'i', // DELIVER
        0x82, 2, 0x81, 4, // DROP
    ];
    assert_eq!(frame.to_bytes(), bytes);
    let ack = Frame::AckOnly(AckOnly {
        epoch: Epoch(1),
        after: Seq(2),
        recv: Seq(3),
    });
    assert_eq!(ack.to_bytes(), [0x84, 1, 1, 2, 3]);
    let close = Frame::Close(Close {
        epoch: Epoch(1),
        code: "a".into(),
        text: "b".into(),
    });
    assert_eq!(close.to_bytes(), [0x84, 3, 1, 0x61, b'a', 0x61, b'b']);
}
