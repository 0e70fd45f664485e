//! Link control frames, to the byte.

use proptest::prelude::*;

use crate::identity::DelegationDigest;
use crate::ids::{Class, NetworkId};
use crate::lane::Statements;
use crate::lane::bounds::{
    LANE_WINDOW_MIN_BYTES, LINK_WINDOW_MIN_BYTES, MISSING_MAX, REFERRED_MAX_BYTES, STATEMENTS_MAX,
    WINDOW_SCALE_MAX,
};
use crate::lane::control::{ControlFrame, Credit, Hello, Numbered, QuotaHint, Windows};
use crate::wire::bounds::CONTROL_FRAME_MAX_BYTES;
use crate::wire::cbor::{Writer, from_slice, to_vec};
use crate::wire::frame::Frame;

fn numbered(number: u64, heard: u64, says: Numbered) -> ControlFrame {
    ControlFrame::Numbered {
        number,
        heard,
        says,
    }
}

/// One of each control frame, and its bytes.
pub(super) fn golden_vectors() -> [(ControlFrame, &'static str); 10] {
    let hello = Hello {
        network: NetworkId(7),
        windows: Windows::default(),
        quota: QuotaHint::default(),
    };
    let credit = Credit {
        taken_frames: [1, 2, 3, 4],
        taken_bytes: [100, 200, 300, 70_000],
        drained_bytes: 70_600,
        scale: 2,
    };
    let statements = Statements {
        known: vec![DelegationDigest([0x20; 20])],
        disclaimed: Vec::new(),
    };
    [
        (
            ControlFrame::Hello(Class::E2e, hello),
            "4f764c63 83 00 02 83 07 82 1a00040000 1a00080000 \
             84 190100 190800 1a00400000 1a04000000",
        ),
        (ControlFrame::HelloAck(Class::Storage), "4f764c63 82 01 01"),
        (
            ControlFrame::Fin(Class::Application, 1_000),
            "4f764c63 83 02 03 1903e8",
        ),
        (ControlFrame::FinAck(Class::Control), "4f764c63 82 03 00"),
        (
            numbered(5, 24, Numbered::Credit(credit)),
            "4f764c63 84 04 05 1818 84 8401020304 84186418c819012c1a00011170 1a000113c8 02",
        ),
        (numbered(1, 0, Numbered::Ping), "4f764c63 83 05 01 00"),
        (numbered(2, 9, Numbered::Pong(9)), "4f764c63 84 06 02 09 09"),
        (
            numbered(6, 24, Numbered::Delegations(Credit::default(), statements)),
            "4f764c63 85 07 06 1818 84 8400000000 8400000000 00 01 82 \
             81 542020202020202020202020202020202020202020 80",
        ),
        (
            numbered(7, 24, Numbered::Missing(vec![DelegationDigest([0x20; 20])])),
            "4f764c63 84 08 07 1818 81 542020202020202020202020202020202020202020",
        ),
        (
            numbered(25, 7, Numbered::Show(vec![0x2a; 3])),
            "4f764c63 84 09 1819 07 432a2a2a",
        ),
    ]
}

#[test]
fn golden_control_frames() {
    for (frame, digits) in golden_vectors() {
        let bytes = hex::decode(digits.replace(' ', "")).unwrap();
        assert_eq!(hex::encode(frame.to_frame()), hex::encode(&bytes));
        let Ok(Frame::Control(body)) = Frame::split(&bytes) else {
            panic!("{frame:?} is no control frame");
        };
        assert_eq!(ControlFrame::from_body(body), Ok(frame));
    }
}

#[test]
fn windows_outside_their_bounds_do_not_decode() {
    let windows = |lane: u32, link: u32| {
        let mut writer = Writer::new();
        writer.array(2).value(&lane).value(&link);
        from_slice::<Windows>(writer.as_bytes()).is_ok()
    };
    let (lane, link) = (LANE_WINDOW_MIN_BYTES, LINK_WINDOW_MIN_BYTES);
    assert!(windows(lane, link));
    assert!(!windows(lane - 1, link) && !windows(lane, link - 1));
    assert!(!windows(u32::MAX, link) && !windows(lane, u32::MAX));
    for bytes in [0, link, 200_000, u32::MAX] {
        let sized = Windows::sized(bytes);
        assert_eq!(from_slice(&to_vec(&sized)), Ok(sized));
    }
}

fn class() -> impl Strategy<Value = Class> {
    proptest::sample::select(Class::ALL.to_vec())
}

fn hello() -> impl Strategy<Value = Hello> {
    let quota = any::<[u32; 4]>();
    (any::<u32>(), any::<u32>(), quota).prop_map(|(network, window, quota)| {
        let [messages_per_s, burst_messages, bytes_per_s, burst_bytes] = quota;
        Hello {
            network: NetworkId(network),
            windows: Windows::sized(window),
            quota: QuotaHint {
                messages_per_s,
                burst_messages,
                bytes_per_s,
                burst_bytes,
            },
        }
    })
}

fn credit() -> impl Strategy<Value = Credit> {
    let lanes = || any::<[u64; 4]>();
    let parts = (lanes(), lanes(), any::<u64>(), 1..=WINDOW_SCALE_MAX);
    parts.prop_map(|(taken_frames, taken_bytes, drained_bytes, scale)| Credit {
        taken_frames,
        taken_bytes,
        drained_bytes,
        scale,
    })
}

fn statements() -> impl Strategy<Value = Statements> {
    let digests = proptest::collection::vec(any::<[u8; 20]>(), 1..=STATEMENTS_MAX);
    (digests, 0..=STATEMENTS_MAX).prop_map(|(digests, at)| {
        let mut known: Vec<_> = digests.into_iter().map(DelegationDigest).collect();
        let disclaimed = known.split_off(at.min(known.len()));
        Statements { known, disclaimed }
    })
}

/// Any link control frame.
pub(super) fn control_frame() -> impl Strategy<Value = ControlFrame> {
    let says = prop_oneof![
        credit().prop_map(Numbered::Credit),
        (credit(), statements())
            .prop_map(|(credit, statements)| Numbered::Delegations(credit, statements)),
        proptest::collection::vec(any::<[u8; 20]>(), 1..=MISSING_MAX)
            .prop_map(|it| Numbered::Missing(it.into_iter().map(DelegationDigest).collect())),
        proptest::collection::vec(any::<u8>(), 0..=REFERRED_MAX_BYTES).prop_map(Numbered::Show),
        Just(Numbered::Ping),
        (0..80_u64).prop_map(Numbered::Pong),
    ];
    let number = prop_oneof![0..80_u64, any::<u64>()];
    prop_oneof![
        (class(), hello()).prop_map(|(class, hello)| ControlFrame::Hello(class, hello)),
        class().prop_map(ControlFrame::HelloAck),
        (class(), any::<u64>()).prop_map(|(class, frames)| ControlFrame::Fin(class, frames)),
        class().prop_map(ControlFrame::FinAck),
        (number.clone(), number, says)
            .prop_map(|(number, heard, says)| numbered(number, heard, says)),
    ]
}

proptest! {
    #[test]
    fn prop_a_control_frame_comes_back_and_fits_its_bound(frame in control_frame()) {
        let bytes = frame.to_frame();
        prop_assert!(bytes.len() <= CONTROL_FRAME_MAX_BYTES);
        let Ok(Frame::Control(body)) = Frame::split(&bytes) else {
            panic!("no control frame");
        };
        prop_assert_eq!(ControlFrame::from_body(body), Ok(frame));
    }

    #[test]
    fn prop_a_control_frame_has_one_form(frame in control_frame(), at: usize, bit in 0..8_u32) {
        let mut body = to_vec(&frame);
        let at = at % body.len();
        body[at] ^= 1_u8 << bit;
        if let Ok(other) = ControlFrame::from_body(&body) {
            prop_assert_eq!(to_vec(&other), body);
        }
    }
}
