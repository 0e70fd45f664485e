//! The memory of offers: each is let through once.
//!
//! A live offer is never forgotten, so that a full guard must refuse; that no source can fill it alone
//! is the law of [`Source`]s.

use super::description::Offer;
use super::error::{SignalError, SignalRefusal};
use super::source::Source;
use crate::identity::Verified;
use crate::ids::Did;
use std::collections::BTreeMap;

/// The most live offers remembered at a time. Beyond it new offers are refused, since forgetting a
/// live one would let it through again.
pub const OFFER_GUARD_MAX: usize = 1_024;

/// Remembers the offers that are still live, by nonce and by session description.
#[derive(Debug, Clone, Default)]
pub struct OfferGuard {
    nonces: BTreeMap<[u8; 32], Place>,
    descriptions: BTreeMap<[u8; 32], Seen>,
    /// The latest last instant of the offers forgotten. What was over by then is never let through
    /// again, even if the clock goes back; offers made after a wrong jump of the clock are.
    floor_ms: u64,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    source: Source,
    last_ms: u64,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    signer: Did,
    last_ms: u64,
}

impl OfferGuard {
    /// A guard that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many offers are remembered.
    pub fn len(&self) -> usize {
        self.nonces.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.nonces.is_empty()
    }

    /// Lets `offer`, which came from `source`, through, once.
    ///
    /// # Errors
    /// It came before, or its description did under another account, or it was over before what is
    /// forgotten, or the guard is full, or has no more places for this source.
    pub fn admit(
        &mut self,
        offer: &Verified<Offer>,
        source: Source,
        now_ms: u64,
    ) -> Result<(), SignalError> {
        self.forget_before(now_ms);
        let (signer, last_ms) = (offer.signer(), offer.life().last_ms());
        let description = *blake3::hash(offer.sdp().as_bytes()).as_bytes();
        let floor_ms = self.floor_ms;
        if last_ms <= floor_ms {
            return Err(offer.refuse(SignalRefusal::BeforeFloor { last_ms, floor_ms }));
        }
        match self.descriptions.get(&description) {
            Some(seen) if seen.signer != signer => {
                let first = seen.signer;
                return Err(offer.refuse(SignalRefusal::Resigned { first }));
            }
            Some(_) => return Err(offer.refuse(SignalRefusal::Replayed)),
            None if self.nonces.contains_key(offer.nonce()) => {
                return Err(offer.refuse(SignalRefusal::Replayed));
            }
            None => {}
        }
        let used = self.nonces.len();
        if used >= OFFER_GUARD_MAX {
            return Err(offer.refuse(SignalRefusal::GuardFull));
        }
        let places = self.nonces.values();
        let held = places.filter(|place| place.source == source).count();
        if !source.may_take(held, used, OFFER_GUARD_MAX) {
            return Err(offer.refuse(SignalRefusal::ShareFull { held }));
        }
        let place = Place { source, last_ms };
        self.nonces.insert(*offer.nonce(), place);
        self.descriptions
            .insert(description, Seen { signer, last_ms });
        Ok(())
    }

    fn forget_before(&mut self, now_ms: u64) {
        let lasts = self.nonces.values().map(|place| place.last_ms);
        let over = lasts.filter(|&last_ms| last_ms < now_ms);
        self.floor_ms = over.fold(self.floor_ms, u64::max);
        self.nonces.retain(|_, place| place.last_ms >= now_ms);
        self.descriptions.retain(|_, seen| seen.last_ms >= now_ms);
    }
}
