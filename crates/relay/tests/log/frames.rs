//! The bytes of frames.

use crate::support::{LOG, envelope, id_of};
use overlane_relay::log::bounds::{CODE_MAX_BYTES, ENVELOPE_MAX_BYTES, FRAME_MAX_BYTES};
use overlane_relay::log::{Frame, Refused, Space, Turn};

#[test]
fn golden_log_frames() {
    let envelope = envelope(1, 2);
    let id = id_of(&envelope);
    let log = LOG;
    let frames = [
        (
            "00",
            Frame::Send {
                log,
                envelope: &envelope,
            },
        ),
        ("01", Frame::SendAck { log, id, seq: 24 }),
        (
            "02",
            Frame::Push {
                log,
                seq: 1,
                envelope: &envelope,
            },
        ),
        (
            "03",
            Frame::Recon {
                log,
                space: Space::Shared,
                turn: Turn::Answer,
                payload: b"x",
            },
        ),
        (
            "03",
            Frame::Recon {
                log,
                space: Space::Numbered,
                turn: Turn::Plan,
                payload: b"x",
            },
        ),
        (
            "05",
            Frame::Named {
                log,
                items: &[7; 88],
            },
        ),
        (
            "04",
            Frame::Refuse {
                log,
                what: Refused::Recon,
                code: "log/busy",
                retry_ms: 100,
            },
        ),
        (
            "04",
            Frame::Refuse {
                log,
                what: Refused::Envelope(id),
                code: "a/b",
                retry_ms: 0,
            },
        ),
    ];
    for (kind, frame) in frames {
        let bytes = frame.to_bytes();
        assert_eq!(Frame::from_bytes(&bytes).unwrap(), frame);
        let log = "07".repeat(32);
        let head = format!("8{}{kind}5820{log}", bytes[0] & 0x0f);
        assert!(hex::encode(&bytes).starts_with(&head), "{frame:?}");
        for end in 0..bytes.len() {
            assert!(Frame::from_bytes(&bytes[..end]).is_err());
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Frame::from_bytes(&longer).is_err());
    }
    let recon = Frame::Recon {
        log,
        space: Space::Shared,
        turn: Turn::Answer,
        payload: b"x",
    };
    assert!(hex::encode(recon.to_bytes()).ends_with("01014178"));
}

#[test]
fn law_frames_hold_to_their_bounds() {
    let log = LOG;
    let (full, over) = (vec![0; ENVELOPE_MAX_BYTES], vec![0; ENVELOPE_MAX_BYTES + 1]);
    for (bytes, fits) in [(&full, true), (&over, false)] {
        let envelope = bytes.as_slice();
        let push = Frame::Push {
            log,
            seq: u64::MAX,
            envelope,
        }
        .to_bytes();
        assert_eq!(Frame::from_bytes(&push).is_ok(), fits);
        assert!(!fits || push.len() <= FRAME_MAX_BYTES);
        let send = Frame::Send { log, envelope }.to_bytes();
        assert_eq!(Frame::from_bytes(&send).is_ok(), fits);
    }
    let payload = &vec![0; FRAME_MAX_BYTES][..];
    let large = Frame::Recon {
        log,
        space: Space::Numbered,
        turn: Turn::Ask,
        payload,
    };
    assert!(Frame::from_bytes(&large.to_bytes()).is_err());
    for (code, fits) in [
        ("a".repeat(CODE_MAX_BYTES), true),
        ("a".repeat(CODE_MAX_BYTES + 1), false),
        ("a/\u{202e}b".to_owned(), false),
        ("A/b".to_owned(), false),
    ] {
        let refuse = Frame::Refuse {
            log,
            what: Refused::Recon,
            code: &code,
            retry_ms: 0,
        };
        assert_eq!(
            Frame::from_bytes(&refuse.to_bytes()).is_ok(),
            fits,
            "{code}"
        );
    }
}
