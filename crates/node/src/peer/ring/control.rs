//! Ring messages as control transactions: signed and sent, taken once admitted.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::replay::Admitted;
use overlane_core::ring::bounds::REQUESTS_MAX;
use overlane_core::ring::{RingAction, RingMessage};
use overlane_core::transaction::{Data, HOP_BUDGET_MAX, Message};
use overlane_core::wire::cbor::to_vec;
use overlane_core::{Coded, Did, TxId};

use super::super::counters::count;
use super::super::share::Shares;
use super::super::{Delivery, Effect, Now, Outgoing, Peer, Receipt, Refusal, SendError, SendId};
use super::RequestId;

/// Control messages of the ring on their way to a lane. A neighbour has its share of them, so that one
/// that reads nothing keeps no other from its answers. Beyond it they are refused as
/// `send/too_many_pending`, which ends their requests; what users send takes none of these places.
pub const OWN_SENDS_MAX: usize = 512;

const _: () = assert!(
    OWN_SENDS_MAX / 2 >= REQUESTS_MAX,
    "a node with one neighbour can put every request that may be open"
);

/// Sends with this bit are the ring's own; their results go to the ring.
const OWN_SEND: u64 = 1 << 63;

/// Control messages of the ring on their way to a lane.
#[derive(Debug)]
pub(super) struct Controls {
    seed: [u8; 32],
    sent: u64,
    under_way: BTreeMap<SendId, UnderWay>,
    places: Shares,
    /// Requests whose sends failed, for the ring to hear of.
    failed: Vec<(RequestId, &'static str)>,
    /// Those that say that this node leaves.
    farewells: BTreeSet<SendId>,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    request: Option<RequestId>,
    /// The neighbour whose share it is of; `None` where that is used up.
    neighbour: Option<Did>,
}

impl Controls {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self {
            seed,
            sent: 0,
            under_way: BTreeMap::new(),
            places: Shares::new(OWN_SENDS_MAX, u64::MAX),
            failed: Vec::new(),
            farewells: BTreeSet::new(),
        }
    }

    /// A name that nobody can foresee, never the same twice.
    fn name(&mut self) -> TxId {
        self.sent = self.sent.wrapping_add(1);
        let hash = blake3::keyed_hash(&self.seed, &self.sent.to_le_bytes());
        let [name @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *hash.as_bytes();
        TxId(name)
    }
}

/// Whether a send is the ring's own.
pub(in crate::peer) fn is_own(id: SendId) -> bool {
    id.0 & OWN_SEND != 0
}

impl Peer {
    /// Does what the ring wants done. Whether there was anything.
    pub(in crate::peer) fn pump_ring(&mut self, now: Now) -> bool {
        for (request, code) in std::mem::take(&mut self.ring.controls.failed) {
            if let Some(ring) = &mut self.ring.ring {
                ring.handle_not_sent(request, code, now.steady_ms);
            }
        }
        let Some(action) = self.ring.ring.as_mut().and_then(|ring| ring.poll_action()) else {
            return false;
        };
        match action {
            RingAction::Send {
                to,
                via,
                reply_via,
                message,
            } => self.send_control(to, (via, reply_via), &message, now),
            RingAction::Connect { peer } => {
                self.effects.push_back(Effect::Connect { peer });
            }
            RingAction::Done { id, result } => self.ring_answered(id, result, now),
        }
        true
    }

    /// Signs a message of the ring and sends it by way of `via`; its answer comes by way of
    /// `reply_via`.
    pub(super) fn send_control(
        &mut self,
        to: Did,
        (via, reply_via): (Option<Did>, Option<Did>),
        message: &RingMessage,
        now: Now,
    ) {
        let body = message.to_body();
        let Ok(data) = Data::parse(to_vec(&Message::Control(&body))) else {
            tracing::error!(kind = message.name(), "a ring message is over its bound");
            return;
        };
        let mut outgoing = Outgoing::new(to, data, self.ring.controls.name());
        outgoing.via = via;
        outgoing.reply_via = reply_via;
        let id = SendId(OWN_SEND | self.ring.controls.sent);
        let way = self.way(to, (via, reply_via));
        let neighbour = way.map_or(to, |(_, relay)| relay.next_hop);
        let controls = &mut self.ring.controls;
        let neighbour = Some(neighbour).filter(|&of| controls.places.take(of, 0));
        let request = message.asks();
        let under_way = UnderWay { request, neighbour };
        controls.under_way.insert(id, under_way);
        if matches!(message, RingMessage::Leave { .. }) {
            controls.farewells.insert(id);
        }
        match neighbour {
            Some(_) => self.begin_send(id, outgoing, now),
            None => {
                let refused = SendError::TooManyPending;
                count(&mut self.counters.sends_refused, refused.code());
                self.sent(id, Err(refused));
            }
        }
    }

    /// The result of a send, if it is one of the ring's: nobody else waits for it.
    pub(in crate::peer) fn ring_sent(
        &mut self,
        id: SendId,
        result: &Result<Receipt, SendError>,
    ) -> bool {
        if !is_own(id) {
            return false;
        }
        let controls = &mut self.ring.controls;
        controls.farewells.remove(&id);
        let Some(ended) = controls.under_way.remove(&id) else {
            return true;
        };
        if let Some(neighbour) = ended.neighbour {
            controls.places.give_back(neighbour, 0);
        }
        if let (Some(request), Err(error)) = (ended.request, result) {
            controls.failed.push((request, error.code()));
        }
        true
    }

    /// Whether every word that this node leaves is in a lane, or cannot be brought to one.
    pub(super) fn farewells_said(&self) -> bool {
        self.ring.controls.farewells.is_empty()
    }

    /// The request that a send carries, if it is one of the ring's.
    pub(super) fn ring_request(&self, id: SendId) -> Option<RequestId> {
        self.ring.controls.under_way.get(&id)?.request
    }

    /// Whether an admitted message is the ring's own, and not for the application.
    pub(in crate::peer) fn is_for_ring(&self, delivery: &Delivery) -> bool {
        match delivery.item().message() {
            Message::Control(body) => self.ring.ring.is_some() && RingMessage::is_ring(body),
            _ => false,
        }
    }

    /// Takes an admitted message of the ring.
    ///
    /// # Errors
    /// [`Refusal`]; nothing of it has changed anything.
    pub(in crate::peer) fn take_ring_message(
        &mut self,
        delivery: Delivery,
        carrier: Did,
        now: Now,
    ) -> Result<(), Refusal> {
        let payload = Admitted::item(&delivery);
        let from = payload.origin();
        let relay = *payload.relay();
        let message = RingMessage::from_body(payload.message().body())
            .map_err(|error| Refusal::Ring(error.into()))?;
        if let RingMessage::Unreachable {
            digest,
            destination,
            why,
        } = message
        {
            return self.take_report(from, digest, destination, why, now);
        }
        let via = relay.reply_via;
        if let RingMessage::Offer { id, offer } = message {
            self.take_offer((from, via, id), offer, carrier);
            return Ok(());
        }
        if let RingMessage::KeyOf { id, account } = message {
            let told = self.key_told(account, now);
            if let Some(ring) = &mut self.ring.ring {
                ring.answer_key(from, via, id, told);
            }
            return Ok(());
        }
        let hops = HOP_BUDGET_MAX
            .saturating_sub(relay.hop_budget)
            .saturating_add(1);
        let Some(ring) = &mut self.ring.ring else {
            return Ok(());
        };
        ring.handle_message(from, via, hops, message, now.steady_ms)
            .map_err(Refusal::Ring)
    }
}
