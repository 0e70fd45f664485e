//! Messages for others: signed anew for their next hop, and put in its lane.
//!
//! Law (a relay keeps nothing): what is passed on was verified as what is admitted here is, but no replay
//! state is read, charged or changed for it. Law (no hop waits for another): where the next hop's lane has
//! no place, the message is dropped and its origin told; the lane that brought it goes on.

use overlane_core::identity::{Life, Verified};
use overlane_core::ring::{Route, WhyUnreachable, is_progress};
use overlane_core::transaction::{
    PROOF_TTL_DEFAULT_MS, Payload, RelayFields, SignError, Transaction,
};
use overlane_core::{Class, Coded, Did};

use super::super::counters::count;
use super::super::lanes::InboundLane;
use super::super::outbound::{FORWARDED, Placing};
use super::super::story::{Step, named, named_in};
use super::super::{Now, Peer, Receipt, Refusal};
use super::reports::Undelivered;
use crate::link::LinkId;

/// Messages of others that wait for one lane; more are dropped as `route/congested`.
pub const FORWARDED_MAX: usize = 64;

impl Peer {
    /// Whether a verified payload may go on from here: as an admission, or to its next hop.
    pub(in crate::peer) fn may_go_on(&self, payload: &Verified<Payload>) -> Result<(), Refusal> {
        let destination = payload.stream().destination;
        let relay = payload.relay();
        if destination == self.did {
            return Ok(());
        }
        if relay.destination == self.did && relay.hop_budget <= 1 {
            return Err(Refusal::WrongDestination { destination });
        }
        if relay.destination != self.did && !is_progress(payload.hop(), self.did, relay) {
            return Err(Refusal::NoProgress { destination });
        }
        Ok(())
    }

    /// Passes a message for another node on.
    pub(in crate::peer) fn forward(
        &mut self,
        link: LinkId,
        lane: InboundLane,
        payload: Verified<Payload>,
        now: Now,
    ) {
        match self.next_hop(&payload) {
            Ok((out, relay)) => {
                let class = payload.class();
                let carried = self.carry_on(payload, relay, now);
                match carried {
                    Ok(receipt) => {
                        let neighbour = relay.next_hop;
                        let step = Step::Way { neighbour, class };
                        self.note_step(named_in(&receipt), step, now);
                        let placing = Placing::forwarded(receipt);
                        self.place((out, class), relay.next_hop, placing, now);
                    }
                    Err(error) => tracing::error!(%error, "a verified payload cannot be carried"),
                }
            }
            Err(why) => {
                let code = why.code();
                self.note_step(named(&payload), Step::Refused { code }, now);
                self.report(&Undelivered::of(&payload), why, now);
                let destination = payload.stream().destination;
                self.refuse(link, lane, Refusal::Route { destination, why });
            }
        }
    }

    /// The link and the relay fields of a transaction of this node's own, or one carried again.
    pub(in crate::peer) fn way(
        &self,
        destination: Did,
        (via, reply_via): (Option<Did>, Option<Did>),
    ) -> Option<(LinkId, RelayFields)> {
        // Who hears by way of this node is sought from here.
        let via = via.filter(|&via| via != self.did);
        let toward = via.unwrap_or(destination);
        let routed = self.ring.route(toward, false);
        let next_hop = routed.next_hop()?;
        if self.ring.ring.is_none() && next_hop != destination {
            // Who is in no ring knows nobody who passes things on.
            return None;
        }
        let relay = RelayFields {
            next_hop,
            destination: toward,
            hop_budget: overlane_core::transaction::HOP_BUDGET_MAX,
            handed_off: matches!(routed, Route::Across(_)),
            reply_via,
        };
        Some((self.links.to(next_hop)?, relay))
    }

    /// The same frame for another next hop, where its link took it no more.
    pub(in crate::peer) fn carry_elsewhere(
        &self,
        receipt: &Receipt,
        now: Now,
    ) -> Option<(LinkId, Receipt, Did)> {
        let payload = Payload::from_frame(&receipt.signed).ok()?;
        let mut relay = *payload.relay();
        let routed = self.ring.route(relay.destination, relay.handed_off);
        relay.next_hop = routed.next_hop()?;
        if self.ring.ring.is_none() && relay.next_hop != relay.destination {
            // As in `way`: who is in no ring knows nobody who passes things on.
            return None;
        }
        relay.handed_off |= matches!(routed, Route::Across(_));
        let link = self.links.to(relay.next_hop)?;
        let transaction = payload.into_transaction();
        let signed = self.sign_hop(transaction, relay, now).ok()?;
        let receipt = Receipt {
            signed: signed.to_frame(|_| false).into(),
            ..receipt.clone()
        };
        Some((link, receipt, relay.next_hop))
    }

    fn next_hop(
        &self,
        payload: &Verified<Payload>,
    ) -> Result<(LinkId, RelayFields), WhyUnreachable> {
        let mut relay = *payload.relay();
        if relay.hop_budget <= 1 {
            return Err(WhyUnreachable::HopBudget);
        }
        relay.hop_budget -= 1;
        if relay.destination == self.did {
            // It came by way of this node, and goes on to whom it is for.
            relay.destination = payload.stream().destination;
            relay.handed_off = false;
        }
        let routed = self.ring.route(relay.destination, relay.handed_off);
        relay.next_hop = routed.next_hop().ok_or(WhyUnreachable::NoRoute)?;
        relay.handed_off |= matches!(routed, Route::Across(_));
        let link = self.links.to(relay.next_hop);
        let link = link.ok_or(WhyUnreachable::NoRoute)?;
        if self.outbound.forwarded((link, payload.class())) >= FORWARDED_MAX {
            return Err(WhyUnreachable::Congested);
        }
        Ok((link, relay))
    }

    fn carry_on(
        &self,
        payload: Verified<Payload>,
        relay: RelayFields,
        now: Now,
    ) -> Result<Receipt, SignError> {
        let (stream, digest) = (payload.stream(), payload.digest());
        let sequence = payload.sequence();
        let transaction = payload.into_payload().into_transaction();
        let payload = self.sign_hop(transaction, relay, now)?;
        Ok(Receipt {
            stream,
            sequence,
            digest,
            signed: payload.to_frame(|_| false).into(),
        })
    }

    fn sign_hop(
        &self,
        transaction: Transaction,
        relay: RelayFields,
        now: Now,
    ) -> Result<Payload, SignError> {
        let life = Life {
            issued_ms: now.wall_ms,
            ttl_ms: PROOF_TTL_DEFAULT_MS,
        };
        Payload::carry(transaction, relay, &self.signer, life)
    }

    /// A message of another's waited for a lane whose link is gone, and no other link leads on: it
    /// is dropped, and its origin told.
    pub(in crate::peer) fn drop_forwarded(&mut self, receipt: &Receipt, now: Now) {
        let why = WhyUnreachable::NoRoute;
        count(&mut self.counters.refused, why.code());
        let step = Step::Refused { code: why.code() };
        self.note_step(named_in(receipt), step, now);
        match Undelivered::in_frame(receipt) {
            Some(undelivered) => self.report(&undelivered, why, now),
            None => tracing::error!("a frame of this node's own is none"),
        }
    }

    /// A message of another's left by a lane.
    pub(in crate::peer) fn was_forwarded(&mut self, class: Class) {
        let forwarded = self.counters.forwarded.entry(class.name()).or_default();
        *forwarded = forwarded.saturating_add(1);
    }
}

impl Placing {
    /// Bytes of another's message.
    fn forwarded(receipt: Receipt) -> Self {
        Self {
            id: FORWARDED,
            receipt,
            paced: None,
            cut: None,
            bytes: 0,
        }
    }
}
