//! What must hold of any bytes at all. The fuzz targets and the test suite run the same functions.

use overlane_core::NetworkId;
use overlane_core::identity::{Delegation, VerifyContext};
use overlane_core::signal::{Answer, Offer, OfferDigest};
use overlane_core::transaction::{ForkEvidence, Payload, SignedHeader, Transaction};
use overlane_core::wire::cbor::{Decode, Encode, Value, from_slice, to_vec};

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

fn one_form<'a, T: Decode<'a> + Encode>(bytes: &'a [u8]) -> Option<T> {
    let value = from_slice::<T>(bytes).ok()?;
    assert_eq!(to_vec(&value), bytes);
    Some(value)
}
