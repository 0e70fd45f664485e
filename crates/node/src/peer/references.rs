//! How a peer carries references: their messages are application transactions in a namespace of
//! their own, which never reach the application.
//!
//! Law **its own namespace**: what comes under a reserved namespace is not dispatched; its place on
//! the application's side is held until what came of it is durable, so that a node that sends faster
//! than this one commits is held back as by a slow application.

use std::collections::{BTreeMap, VecDeque};

use overlane_core::replay::Now;
use overlane_core::transaction::{Data, Message};
use overlane_core::{Class, Did, TxId};
use overlane_relay::refs::table::Local;

use super::keepers::Keeper;
use super::lanes::InboundLane;
use super::receipts::RECEIPTS_NAMESPACE;
use super::refs::{
    self, Ask, AskId, CommitId, REFERENCES_NAMESPACE, RESERVED_NAMESPACES, ReferenceError,
    References,
};
use super::{Delivery, Effect, Outgoing, Peer, Receipt, SendError, SendId};

/// What a peer carries, and the names of what it says for it.
#[derive(Debug, Default)]
pub(super) struct Carried {
    references: Option<References>,
    /// Nobody else knows it, so nobody foresees the names drawn from it.
    seed: [u8; 32],
    drawn: u64,
    /// Messages of references, or of a keeper, that are on their way to a lane.
    on_their_way: BTreeMap<SendId, (Option<Keeper>, Did)>,
    /// Lanes whose messages hold a place until what came of them is durable, in their order.
    places: VecDeque<InboundLane>,
}

/// Context of what the names of the node's own transactions are drawn from.
const NAMES_CONTEXT: &str = "overlane names of own sends";

/// The send ids that neither a driver nor the ring gives.
const OWN_SENDS: u64 = 1 << 62;

impl Peer {
    /// Carries these references from now on. `seed` is drawn at random: the names of transactions
    /// come from it.
    pub fn carry(&mut self, references: References, seed: [u8; 32]) {
        self.carried.references = Some(references);
        self.name_sends(seed);
    }

    /// Draws the names of transactions of the node's own from this seed too.
    pub(super) fn name_sends(&mut self, seed: [u8; 32]) {
        let seeds = [self.carried.seed, seed].concat();
        self.carried.seed = blake3::derive_key(NAMES_CONTEXT, &seeds);
    }

    /// The same, for messages of the node's own that no keeper says.
    pub fn name_own_messages(&mut self, seed: [u8; 32]) {
        self.name_sends(seed);
    }

    /// The references, if there is a store of them.
    pub fn references(&self) -> Option<&References> {
        self.carried.references.as_ref()
    }

    /// Asks for something about references. The answer comes as [`Effect::References`].
    pub fn ask_references(&mut self, id: AskId, ask: Ask, now: Now) {
        match &mut self.carried.references {
            Some(references) => references.ask(id, ask, now),
            None => {
                let refused = refs::Effect::Answer(id, Err(ReferenceError::NoStore));
                self.effects.push_back(Effect::References(refused));
            }
        }
        self.settle(now);
    }

    /// Lets go of handles of a reference.
    pub fn let_go_of(&mut self, local: Local, handles: u32, now: Now) {
        if let Some(references) = &mut self.carried.references {
            references.let_go_of(local, handles, now);
        }
        self.settle(now);
    }

    /// A commit of references became durable, or it is not known whether it did.
    pub fn handle_committed(&mut self, id: CommitId, result: Result<(), String>, now: Now) {
        if let Some(references) = &mut self.carried.references {
            references.handle_committed(id, result);
        }
        self.settle(now);
    }

    pub(super) fn references_linked(&mut self, peer: Did, now: Now) {
        if let Some(references) = &mut self.carried.references {
            references.handle_linked(peer, now);
        }
    }

    pub(super) fn references_unlinked(&mut self, peer: Did, now: Now) {
        if let (Some(references), None) = (&mut self.carried.references, self.links.to(peer)) {
            references.handle_unlinked(peer, now);
        }
    }

    pub(super) fn references_timeout(&mut self, now: Now) {
        if let Some(references) = &mut self.carried.references {
            references.handle_timeout(now);
        }
    }

    /// Takes an admitted message that is not the application's; gives it back if it is.
    pub(super) fn keep_from_application(
        &mut self,
        admitted: Delivery,
        lane: InboundLane,
        bytes: u64,
        now: Now,
    ) -> Option<Delivery> {
        let payload = admitted.item();
        let Message::Application { namespace, body } = payload.message() else {
            return Some(admitted);
        };
        if !namespace.as_str().starts_with(RESERVED_NAMESPACES) {
            return Some(admitted);
        }
        let from = payload.origin();
        self.counters.own_received = self.counters.own_received.saturating_add(1);
        if let Some(keeper) = self.keepers.of(namespace.as_str()) {
            self.give_keeper(keeper, admitted, lane, bytes);
            return None;
        }
        // Its place is given back by itself, once it is dealt with.
        self.dispatch.free_bytes(Class::Application, lane.0, bytes);
        match &mut self.carried.references {
            Some(references) if namespace.as_str() == REFERENCES_NAMESPACE => {
                self.carried.places.push_back(lane);
                references.handle_message(from, payload.sequence(), body, now);
            }
            _ if namespace.as_str() == RECEIPTS_NAMESPACE => {
                self.handle_receipts(from, body, now);
                self.free_place(lane, 0, now);
            }
            _ => {
                self.counters.unclaimed = self.counters.unclaimed.saturating_add(1);
                self.free_place(lane, 0, now);
            }
        }
        None
    }

    /// A message of references, or of a keeper, is in a lane, or lost.
    pub(super) fn is_own_send(&mut self, id: SendId, result: &Result<Receipt, SendError>) -> bool {
        if self.is_of_receipts(id) {
            return true;
        }
        let Some((keeper, peer)) = self.carried.on_their_way.remove(&id) else {
            return false;
        };
        if let Some(keeper) = keeper {
            self.keeper_said(keeper, peer, result);
        } else if let Some(references) = &mut self.carried.references {
            references.handle_said(peer);
        }
        true
    }

    /// Does what references want done; whether there was anything.
    pub(super) fn serve_references(&mut self, now: Now) -> bool {
        let mut any = false;
        while let Some(references) = &mut self.carried.references {
            let Some(effect) = references.poll_effect() else {
                break;
            };
            any = true;
            match effect {
                refs::Effect::Say { peer, data } => self.say(None, peer, data, now),
                refs::Effect::Taken => {
                    if let Some(lane) = self.carried.places.pop_front() {
                        self.free_place(lane, 0, now);
                    }
                }
                effect => self.effects.push_back(Effect::References(effect)),
            }
        }
        any
    }

    pub(super) fn references_commit(&mut self) -> Option<Effect> {
        let references = self.carried.references.as_mut()?;
        references.poll_commit().map(Effect::Commit)
    }

    pub(super) fn references_due_ms(&self) -> Option<u64> {
        self.carried.references.as_ref()?.poll_timeout()
    }

    pub(super) fn references_settled(&self) -> bool {
        let references = self.carried.references.as_ref();
        references.is_none_or(References::is_settled)
    }

    pub(super) fn say(&mut self, keeper: Option<Keeper>, peer: Did, data: Data, now: Now) {
        let id = self.next_own_send();
        self.carried.on_their_way.insert(id.0, (keeper, peer));
        self.say_own(id, peer, data, now);
    }

    /// The names of the node's own next message: of its send, and of its transaction.
    pub(super) fn next_own_send(&mut self) -> (SendId, TxId) {
        let carried = &mut self.carried;
        let id = SendId(OWN_SENDS | carried.drawn);
        let name = blake3::keyed_hash(&carried.seed, &carried.drawn.to_be_bytes());
        carried.drawn = carried.drawn.wrapping_add(1) % OWN_SENDS;
        let name = name.as_bytes().first_chunk().copied().unwrap_or_default();
        (id, TxId(name))
    }

    /// Sends a message of the node's own.
    pub(super) fn say_own(&mut self, (id, name): (SendId, TxId), peer: Did, data: Data, now: Now) {
        if let Err(error) = self.check_send(peer, now) {
            return self.sent(id, Err(error));
        }
        let outgoing = Outgoing::new(peer, data, name);
        if !self.outbound.begin(peer, outgoing.data_bytes()) {
            return self.sent(id, Err(SendError::TooManyPending));
        }
        self.begin_send(id, outgoing, now);
    }
}

/// Whether the node keeps this message's namespace for itself.
pub(crate) fn is_reserved(message: &Message<'_>) -> bool {
    match message {
        Message::Application { namespace, .. } => {
            namespace.as_str().starts_with(RESERVED_NAMESPACES)
        }
        Message::Storage(body) => super::inbox::Said::is_said(body),
        _ => false,
    }
}
