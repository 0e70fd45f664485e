//! What must hold of any bytes at all. The fuzz targets and the test suite run the same functions.

use overlane_core::identity::{Delegation, VerifyContext};
use overlane_core::lane::bounds::{HELD_DEFAULT_MAX_BYTES, QUEUED_MAX};
use overlane_core::lane::{ControlFrame, Session, SessionConfig, SessionEvent};
use overlane_core::signal::{Answer, Offer, OfferDigest};
use overlane_core::transaction::{ForkEvidence, Payload, SignedHeader, Transaction};
use overlane_core::wire::cbor::{Decode, Encode, Value, from_slice, to_vec};
use overlane_core::wire::frame::{Frame, PAYLOAD_MARKER};
use overlane_core::{Class, NetworkId};

/// The context the corpus was signed in.
const CONTEXT: VerifyContext = VerifyContext {
    network: NetworkId(7),
    now_ms: 1_700_000_000_000,
};

/// Bytes are the one form of a value, or refused.
pub(crate) fn cbor(bytes: &[u8]) {
    let _: Option<Value> = one_form(bytes);
}

/// Bytes are read and verified as everything a stranger sends, or refused.
pub(crate) fn payload(bytes: &[u8]) {
    if let Ok(mut payload) = Payload::from_frame(bytes) {
        // After the marker.
        assert_eq!(bytes.get(4..), Some(to_vec(&payload).as_slice()));
        let resolved = payload.resolve(|_| None);
        let verified = payload.verify(&CONTEXT);
        assert!(resolved.is_ok() || verified.is_err());
        if let Ok(verified) = verified {
            assert!(verified.header().verify().is_ok());
            assert_eq!(verified.message().class(), verified.class());
        }
    }
    one_form::<Transaction>(bytes);
    if let Some(delegation) = one_form::<Delegation>(bytes) {
        let _ = delegation.verify(&CONTEXT);
    }
    if let Some(header) = one_form::<SignedHeader>(bytes) {
        let _ = header.verify();
    }
    if let Some(evidence) = one_form::<ForkEvidence>(bytes) {
        let _ = evidence.verify();
    }
    if let Ok(offer) = Offer::from_bytes(bytes) {
        assert_eq!(offer.to_bytes(), bytes);
        let _ = offer.verify(&CONTEXT);
    }
    if let Ok(answer) = Answer::from_bytes(bytes) {
        assert_eq!(answer.to_bytes(), bytes);
        let _ = answer.verify(OfferDigest([0; 32]), &CONTEXT);
    }
}

/// Bytes are the steps of a link's life, among them any messages of its peer: it stays within its
/// bounds, sends only frames in their one form, and ends once.
pub(crate) fn link(mut bytes: &[u8]) {
    let mut session = Session::new(SessionConfig::new(CONTEXT.network), 0);
    let mut now_ms = 0;
    let mut closed = false;
    while let Some(step) = take(&mut bytes, 1).first().copied() {
        let Some(class) = Class::from_index(step % 4) else {
            return;
        };
        match step / 4 {
            0 => session.handle_channel_open(class, now_ms),
            1 => {
                let length = take(&mut bytes, 2).iter();
                let length = length.fold(0, |length, &byte| length * 256 + usize::from(byte));
                session.handle_message(class, take(&mut bytes, length).to_vec(), now_ms);
            }
            2 => session.handle_accepted(class, now_ms),
            3 => session.taken(class, 1, now_ms),
            4 => drop(session.send(class, PAYLOAD_MARKER.repeat(64))),
            5 => {
                let seconds = take(&mut bytes, 1).first().copied().unwrap_or(1);
                now_ms += u64::from(seconds) * 1_000;
                session.handle_timeout(now_ms);
            }
            6 => closed |= drain(&mut session, now_ms, closed),
            7 if step == 28 => session.close(now_ms),
            7 if step == 29 => session.handle_transport_closed(String::new(), now_ms),
            _ => {}
        }
        let queued = (QUEUED_MAX * PAYLOAD_MARKER.len() * 64) as u64;
        assert!(session.held_bytes() <= HELD_DEFAULT_MAX_BYTES + queued);
    }
}

/// Takes everything a session wants sent and told; whether it ended.
fn drain(session: &mut Session, now_ms: u64, closed: bool) -> bool {
    while let Some(transmit) = session.poll_transmit(now_ms) {
        if let Ok(Frame::Control(body)) = Frame::split(&transmit.bytes) {
            assert!(ControlFrame::from_body(body).is_ok());
        }
    }
    let mut ended = false;
    while let Some(event) = session.poll_event() {
        assert!(!closed && !ended, "{event:?} after the end");
        ended = matches!(event, SessionEvent::Closed { .. });
    }
    ended
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length.min(bytes.len()));
    *bytes = rest;
    taken
}

fn one_form<'a, T: Decode<'a> + Encode>(bytes: &'a [u8]) -> Option<T> {
    let value = from_slice::<T>(bytes).ok()?;
    assert_eq!(to_vec(&value), bytes);
    // A structure that miscounts its fields reads its own bytes, but they are not one item.
    assert!(from_slice::<Value>(bytes).is_ok());
    Some(value)
}
