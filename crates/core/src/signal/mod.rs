//! Signed offers and answers: who a WebRTC link is with.
//!
//! The delegatee signs the session description, and with it the fingerprint of the DTLS certificate
//! in it. So a link's peer is the signer of the description whose fingerprint DTLS proved: whoever
//! swaps a fingerprint breaks a signature, and whoever signs another's description cannot prove its
//! fingerprint.
//!
//! Law (once): [`OfferGuard`] lets an offer through at most once while its process runs, however the
//! clock goes, and refuses a description that another account signed before.
//!
//! Law (share): a [`Source`] takes no more of a bound's places than it leaves to others.
//!
//! Law (answered): an answer covers the digest of its offer, so it counts for no other.
//!
//! Source: protocol decision 6 (offers and answers), threats 1, 2 and 4.

mod description;
mod error;
mod guard;
mod source;

pub use description::{
    Answer, Offer, OfferDigest, SIGNAL_TTL_DEFAULT_MS, SIGNAL_TTL_MAX_MS, SignalFacts,
};
pub use error::{SignalError, SignalRefusal};
pub use guard::{OFFER_GUARD_MAX, OfferGuard};
pub use source::Source;
