//! What a peer's user asks of other nodes, and offers of links in both directions.

use std::collections::BTreeMap;

use overlane_core::ring::{RequestId, RingAnswer, RingError};
use overlane_core::{Coded, Did, Fault};

use super::super::counters::count;
use super::super::{Effect, Now, Peer};

/// Offers of other nodes that this one's driver has not answered. More are declined with
/// `ring/offers_full`.
pub const OFFERS_MAX: usize = 16;

/// Names one question until its answer is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Names one offer of another node until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferId(pub u64);

/// A question to another node, by way of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Is it there?
    Ping(Did),
    /// Which way do messages to it take?
    Way(Did),
    /// Will it have a link? With a signed offer.
    Offer(Did, Vec<u8>),
}

/// Why an offer is declined before it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Declined {
    /// As many offers wait for an answer as may.
    OffersFull,
    /// No place for a link that the ring does not need.
    SlotsFull,
}

impl Coded for Declined {
    fn code(&self) -> &'static str {
        match self {
            Self::OffersFull => "ring/offers_full",
            Self::SlotsFull => "ring/slots_full",
        }
    }

    fn fault(&self) -> Fault {
        Fault::RefusedByBound
    }
}

/// Questions and offers under way.
#[derive(Debug, Default)]
pub(super) struct Asks {
    asked: BTreeMap<RequestId, AskId>,
    offers: BTreeMap<OfferId, Asker>,
    offers_taken: u64,
}

/// Whom an answer goes to: who asked, by way of whom it hears, its request.
type Asker = (Did, Option<Did>, RequestId);

impl Peer {
    /// Asks another node; the answer comes as [`Effect::Asked`]. Nobody carries what a node says to itself:
    /// it would be no progress.
    pub fn ask(&mut self, id: AskId, ask: Ask, now: Now) {
        let (Ask::Ping(to) | Ask::Way(to) | Ask::Offer(to, _)) = &ask;
        let to = *to;
        let asked = match &mut self.ring.ring {
            _ if to == self.did => Err(RingError::ToItself { did: to }),
            None => Err(RingError::NotJoined),
            Some(ring) => match ask {
                Ask::Ping(to) => ring.ping(to, now.steady_ms),
                Ask::Way(to) => ring.trace(to, now.steady_ms),
                Ask::Offer(to, offer) => ring.offer(to, offer, now.steady_ms),
            },
        };
        match asked {
            Ok(request) => {
                self.ring.asks.asked.insert(request, id);
            }
            Err(error) => {
                let result = Err(error);
                self.effects.push_back(Effect::Asked { id, result });
            }
        }
        self.settle(now);
    }

    /// The driver's answer to an [`Effect::Offered`]: the signed answer, or a code.
    pub fn handle_offer_answered(
        &mut self,
        offer: OfferId,
        answer: Result<Vec<u8>, &'static str>,
        now: Now,
    ) {
        let Some((to, via, id)) = self.ring.asks.offers.remove(&offer) else {
            return;
        };
        if let Some(ring) = &mut self.ring.ring {
            ring.answer(to, via, id, answer.map_err(str::to_owned));
        }
        self.settle(now);
    }

    pub(super) fn ring_answered(
        &mut self,
        request: RequestId,
        result: Result<RingAnswer, RingError>,
        now: Now,
    ) {
        if self.key_answered(request, &result, now) || self.chain_answered(request, &result, now) {
            return;
        }
        if let Some(id) = self.ring.asks.asked.remove(&request) {
            self.effects.push_back(Effect::Asked { id, result });
        }
    }

    /// Another node offers a link; `by` brought the offer.
    pub(super) fn take_offer(&mut self, asker: Asker, bytes: Vec<u8>, by: Did) {
        let (from, via, id) = asker;
        let declined = if self.ring.asks.offers.len() >= OFFERS_MAX {
            Some(Declined::OffersFull)
        } else {
            (!self.has_place_for(from)).then_some(Declined::SlotsFull)
        };
        if let Some(declined) = declined {
            let code = declined.code();
            count(&mut self.counters.offers_declined, code);
            if let Some(ring) = &mut self.ring.ring {
                ring.answer(from, via, id, Err(code.to_owned()));
            }
            return;
        }
        self.ring.asks.offers_taken = self.ring.asks.offers_taken.wrapping_add(1);
        let offer = OfferId(self.ring.asks.offers_taken);
        self.ring.asks.offers.insert(offer, asker);
        let offered = Effect::Offered {
            offer,
            from,
            by,
            bytes,
        };
        self.effects.push_back(offered);
    }
}
