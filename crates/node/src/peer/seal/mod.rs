//! A peer's sealing: sends that are sealed on their way out, admitted messages that are opened on their
//! way in, and the keys for it.
//!
//! Laws: **sealed or refused** (`sealing`), **opened in its turn** (`opening`), and of this module
//! **its own key**: a message is sealed to the key whose hash its destination's Did is, or to that account's
//! signed card, whoever told of it. A key that is not known here is asked for by way of the ring.
//! Source: protocol decision 8 (sealing).

mod job;
mod keys;
mod opening;
mod sealing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use overlane_core::identity::{AccountKey, KeyKind, Life};
use overlane_core::ring::{RequestId, RingAnswer, RingError};
use overlane_core::seal::{
    CARD_TTL_MAX_MS, CardSubject, ContactCard, SealContext, SealError, SealingKey, SealingSecret,
};
use overlane_core::transaction::Message;
use overlane_core::wire::cbor::{from_slice, to_vec};
use overlane_core::{Class, Coded, Did, Fault};

use super::lanes::InboundLane;
use super::outbound::OutKey;
use super::story::{Step, named};
use super::{Delivery, Effect, Now, Outgoing, Peer, Refusal, SendError, SendId, is_reserved};
use crate::link::LinkId;

pub use job::{SealJob, SealResult, SealSeed, SealTicket};
pub use keys::KEYS_MAX;
pub use sealing::ASKED_KEYS_MAX;

use job::{Done, Work};
use keys::Keys;
use opening::{Arrived, Opening};
use sealing::{Lines, Withdrawn, no_key};

/// All that a peer keeps for sealing.
#[derive(Debug, Default)]
pub(super) struct Sealing {
    /// What opens messages sealed to this node's account.
    secret: Option<Arc<SealingSecret>>,
    /// Whether the application's messages count only if they are sealed.
    requires: bool,
    keys: Keys,
    lines: Lines,
    opening: Opening,
    /// Destinations whose keys are asked for.
    asked: BTreeSet<Did>,
    requests: BTreeMap<RequestId, Did>,
    tickets: u64,
}

/// What an answer about a key does not hold.
struct NotToldOf;

impl Coded for NotToldOf {
    fn code(&self) -> &'static str {
        "seal/not_told"
    }

    fn fault(&self) -> Fault {
        Fault::Unreachable
    }
}

impl Sealing {
    fn ticket(&mut self) -> SealTicket {
        let ticket = SealTicket(self.tickets);
        self.tickets += 1;
        ticket
    }

    /// The key that is sealed to for this account, if it is known.
    pub(super) fn sealing_key(&mut self, of: Did, now_ms: u64) -> Option<SealingKey> {
        self.keys.sealing_key(of, now_ms)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.lines.is_empty() && self.opening.is_empty()
    }
}

impl Peer {
    // What its user wants.

    /// Opens with `secret` what is sealed to this account. A peer that was given none hands sealed
    /// messages out as they came.
    pub fn open_with(&mut self, secret: Arc<SealingSecret>) {
        self.sealing.secret = Some(secret);
    }

    /// Refuses the application's messages that are not sealed, or takes them again.
    pub fn require_sealed(&mut self, requires: bool) {
        self.sealing.requires = requires;
    }

    /// Notes an account's public key, wherever it was learnt: its Did is its hash.
    pub fn learn(&mut self, account: &AccountKey, now: Now) {
        if self.note_account(account.did(), account, now) {
            self.settle(now);
        }
    }

    /// How many accounts' keys are known.
    pub fn keys_known(&self) -> usize {
        self.sealing.keys.len()
    }

    // What happened.

    /// A worker has sealed or opened a message, or stopped.
    pub fn handle_sealed(&mut self, ticket: SealTicket, result: SealResult, now: Now) {
        match result.0 {
            Done::Sealed(Ok(outgoing)) => self.sealed(ticket, Ok(outgoing), now),
            Done::Sealed(Err(error)) => self.sealed(ticket, Err(error.into()), now),
            Done::Opened(opened) => self.opened(ticket, opened.map_err(Refusal::Seal), now),
            Done::Stopped => {
                self.sealed(ticket, Err(SendError::SealerStopped), now);
                self.opened(ticket, Err(Refusal::VerifierStopped), now);
            }
        }
        self.settle(now);
    }

    // On its way out.

    /// A message joins its stream, sealed if that is asked for.
    pub(super) fn begin_send(&mut self, id: SendId, outgoing: Outgoing, now: Now) {
        let stream = (outgoing.destination, outgoing.class());
        let needs_key = outgoing.seal.is_some() || outgoing.in_session;
        if !needs_key && !self.sealing.lines.holds(stream) {
            self.outbound.wait(stream, id, outgoing, now.steady_ms);
            return self.reserve(stream, now);
        }
        self.sealing.lines.push(stream, id, outgoing);
        self.move_line(stream, now);
    }

    /// Moves a stream's line on: what waits for a key that is known goes to workers, what is sealed
    /// leaves, and a key that is not known is asked for.
    fn move_line(&mut self, stream: OutKey, now: Now) {
        let destination = stream.0;
        if self.sealing.lines.waits(stream) {
            match self.sealing.keys.sealing_key(destination, now.wall_ms) {
                Some(key) => {
                    for (id, outgoing) in self.sealing.lines.take_for_session(stream) {
                        self.send_in_session(id, outgoing, &key, now);
                    }
                    self.seal_line(stream, key);
                }
                None => {
                    if let Err(error) = self.ask_key(destination, now) {
                        self.give_up_keys(stream, &error);
                    }
                }
            }
        }
        let mut moved = false;
        while let Some((id, outgoing)) = self.sealing.lines.pop(stream) {
            self.outbound.wait(stream, id, outgoing, now.steady_ms);
            moved = true;
        }
        if moved {
            self.reserve(stream, now);
        }
    }

    fn seal_line(&mut self, stream: OutKey, key: SealingKey) {
        let context = SealContext {
            network: self.network,
            origin: self.did,
            destination: stream.0,
        };
        let (tickets, effects) = (&mut self.sealing.tickets, &mut self.effects);
        self.sealing.lines.work(stream, key, |key, outgoing| {
            let ticket = SealTicket(*tickets);
            *tickets += 1;
            let job = SealJob(Work::Seal(key, context, outgoing));
            effects.push_back(Effect::Seal { ticket, job });
            ticket
        });
    }

    fn sealed(&mut self, ticket: SealTicket, sealed: Result<Box<Outgoing>, SendError>, now: Now) {
        let (outgoing, error) = match sealed {
            Ok(outgoing) => (Some(outgoing), None),
            Err(error) => (None, Some(error)),
        };
        let withdrawn = |id| self.outbound.is_withdrawn(id);
        let is_withdrawn = self.sealing.lines.id_of(ticket).is_some_and(withdrawn);
        let outgoing = outgoing.filter(|_| !is_withdrawn);
        let Some((stream, id, bytes)) = self.sealing.lines.finish(ticket, outgoing) else {
            return;
        };
        let error = if is_withdrawn {
            Some(SendError::Cancelled)
        } else {
            error
        };
        match error {
            Some(error) => self.not_sealed(stream, id, bytes, error),
            None => self.counters.sealed = self.counters.sealed.saturating_add(1),
        }
        self.move_line(stream, now);
    }

    fn not_sealed(&mut self, stream: OutKey, id: SendId, bytes: u64, error: SendError) {
        self.outbound.end(id, stream.0, bytes, None);
        self.sent(id, Err(error));
    }

    fn give_up_keys(&mut self, stream: OutKey, error: &SendError) {
        for waiting in self.sealing.lines.give_up(stream) {
            self.not_sealed(stream, waiting.id, waiting.bytes, error.clone());
        }
    }

    /// Takes back a send that is being sealed, or waits to be. Whether it was here.
    pub(super) fn withdraw_unsealed(&mut self, id: SendId, now: Now) -> bool {
        match self.sealing.lines.withdraw(id) {
            None => return false,
            Some((_, Withdrawn::Working)) => self.outbound.withdraw_later(id),
            Some((stream, Withdrawn::Taken(bytes))) => {
                self.not_sealed(stream, id, bytes, SendError::Cancelled);
                self.move_line(stream, now);
            }
        }
        true
    }

    // Keys.

    /// Notes an account that was met; whether what waited for it went on.
    pub(super) fn note_account(&mut self, did: Did, account: &AccountKey, now: Now) -> bool {
        if !self.sealing.keys.learn(did, account) {
            return false;
        }
        let streams = self.sealing.lines.of(did);
        for &stream in &streams {
            self.move_line(stream, now);
        }
        !streams.is_empty()
    }

    /// Asks for a destination's key, unless it is being asked for.
    fn ask_key(&mut self, destination: Did, now: Now) -> Result<(), SendError> {
        if self.sealing.asked.contains(&destination) {
            return Ok(());
        }
        if self.sealing.asked.len() >= ASKED_KEYS_MAX {
            return Err(SendError::KeysAsked);
        }
        let Some(ring) = &mut self.ring.ring else {
            return Err(no_key(destination, &RingError::NotJoined));
        };
        let asked = ring.ask_key(destination, destination, now.steady_ms);
        let request = asked.map_err(|error| no_key(destination, &error))?;
        self.counters.keys_asked = self.counters.keys_asked.saturating_add(1);
        self.sealing.asked.insert(destination);
        self.sealing.requests.insert(request, destination);
        Ok(())
    }

    /// The answer to a request, if it was for a key.
    pub(super) fn key_answered(
        &mut self,
        request: RequestId,
        result: &Result<RingAnswer, RingError>,
        now: Now,
    ) -> bool {
        let Some(destination) = self.sealing.requests.remove(&request) else {
            return false;
        };
        self.sealing.asked.remove(&destination);
        let why = match result {
            Ok(RingAnswer::Key { account, card }) => {
                self.learn_told(destination, account.as_deref(), card.as_deref(), now);
                no_key(destination, &NotToldOf)
            }
            Ok(_) => no_key(destination, &NotToldOf),
            Err(error) => no_key(destination, error),
        };
        let known = self.sealing.keys.sealing_key(destination, now.wall_ms);
        for stream in self.sealing.lines.of(destination) {
            if known.is_none() {
                self.give_up_keys(stream, &why);
            }
            self.move_line(stream, now);
        }
        true
    }

    /// What somebody says of an account: a key of its hash is its key, and a card that it signed is its
    /// card; anything else is nothing.
    fn learn_told(&mut self, of: Did, account: Option<&[u8]>, card: Option<&[u8]>, now: Now) {
        let account = account.and_then(|bytes| AccountKey::from_protobuf(bytes).ok());
        if let Some(account) = account.filter(|account| account.did() == of) {
            self.note_account(of, &account, now);
        }
        let card = card.and_then(|bytes| from_slice::<ContactCard>(bytes).ok());
        let card = card.and_then(|card| card.verify(&self.verify_context(now)).ok());
        if let Some(card) = card.filter(|card| card.signer() == of) {
            self.sealing.keys.learn_card(&card);
        }
    }

    /// What this node says of an account to whoever asks: of its own, and of those it knows.
    pub(super) fn key_told(&self, of: Did, now: Now) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        if of != self.did {
            return self.sealing.keys.told(of);
        }
        let account = self.signer.delegation().account();
        let card = match (&self.sealing.secret, account.kind()) {
            (Some(secret), kind) if kind != KeyKind::Ed25519 => {
                let life = Life {
                    issued_ms: now.wall_ms,
                    ttl_ms: CARD_TTL_MAX_MS,
                };
                ContactCard::sign(CardSubject(secret.key()), &self.signer, life).ok()
            }
            _ => None,
        };
        let card = card.map(|card| to_vec(&card));
        (Some(account.to_protobuf().to_vec()), card)
    }

    // On its way in.

    /// Opens an admitted message that is sealed, and hands over what is not, each in its turn.
    pub(super) fn open_admitted(
        &mut self,
        link: LinkId,
        lane: InboundLane,
        bytes: u64,
        message: Delivery,
        now: Now,
    ) {
        let payload = message.item();
        let origin = (payload.origin(), payload.class());
        let secret = self.sealing.secret.as_ref();
        if let Some(secret) = secret.filter(|_| payload.is_sealed()) {
            let job = SealJob(Work::Open(Arc::clone(secret), Box::new(message)));
            let ticket = self.sealing.ticket();
            let place = (link, lane, bytes);
            self.sealing.opening.push_working(origin, place, ticket);
            return self.effects.push_back(Effect::Seal { ticket, job });
        }
        let arrived = Arrived {
            link,
            lane,
            bytes,
            message: Ok(Box::new(message)),
        };
        if self.sealing.opening.holds(origin) {
            return self.sealing.opening.push_ready(origin, arrived);
        }
        self.hand_over_opened(arrived, now);
    }

    fn opened(&mut self, ticket: SealTicket, opened: Result<Box<Delivery>, Refusal>, now: Now) {
        let Some(origin) = self.sealing.opening.finish(ticket, opened) else {
            return;
        };
        while let Some(arrived) = self.sealing.opening.pop(origin) {
            self.hand_over_opened(arrived, now);
        }
    }

    fn hand_over_opened(&mut self, arrived: Arrived, now: Now) {
        let Arrived {
            link,
            lane,
            bytes,
            message,
        } = arrived;
        let message = message.and_then(|message| {
            let payload = message.item();
            if payload.is_open() {
                self.counters.opened = self.counters.opened.saturating_add(1);
            }
            let is_apps = payload.class() == Class::Application && !is_reserved(&payload.message());
            match self.sealing.requires && is_apps && !payload.is_open() {
                true => {
                    let code = Refusal::NotSealed.code();
                    self.note_step(named(payload), Step::Refused { code }, now);
                    Err(Refusal::NotSealed)
                }
                false => Ok(message),
            }
        });
        match message {
            Ok(message) => {
                if let Some(message) = self.take_for_session(link, lane, bytes, message, now) {
                    self.hand_over(lane, bytes, *message, now);
                }
            }
            // It was admitted, so it is consumed; its place is free again.
            Err(refusal) => {
                self.refuse(link, lane, refusal);
                self.free_place(lane, bytes, now);
            }
        }
    }
}

impl From<SealError> for SendError {
    fn from(error: SealError) -> Self {
        Self::Seal(error)
    }
}

/// Whether the message claims to be sealed: no application says so itself.
pub(crate) fn claims_sealed(message: &Message<'_>) -> bool {
    match message {
        Message::Application { namespace, .. } => {
            namespace.as_str() == overlane_core::seal::SEALED_NAMESPACE
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::NetworkId;
    use overlane_core::identity::{
        Account, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Signer, VerifyContext,
    };
    use zeroize::Zeroizing;

    use super::*;

    const NOW: Now = Now {
        wall_ms: 1_900_000_000_000,
        steady_ms: 0,
    };

    fn signer(account: &Account) -> Signer {
        let (network, now_ms) = (NetworkId(7), NOW.wall_ms);
        let life = Life {
            issued_ms: now_ms,
            ttl_ms: DELEGATION_TTL_DEFAULT_MS,
        };
        let delegatee = Delegatee::from_seed(Zeroizing::new([2; 32]));
        let delegation = Delegation::issue(account, &delegatee, network, life).unwrap();
        let delegation = delegation.verify(&VerifyContext { network, now_ms });
        Signer::new(delegatee, delegation.unwrap()).unwrap()
    }

    fn card(account: &Account, key: SealingKey, issued_ms: u64) -> Vec<u8> {
        let life = Life {
            issued_ms,
            ttl_ms: 60_000,
        };
        to_vec(&ContactCard::sign(CardSubject(key), &signer(account), life).unwrap())
    }

    #[test]
    fn law_a_key_counts_by_its_hash_and_a_card_by_its_signature() {
        let own = Account::ed25519(Zeroizing::new([1; 32])).unwrap();
        let edwards = Account::ed25519(Zeroizing::new([3; 32])).unwrap();
        let other = Account::secp256k1(Zeroizing::new([4; 32])).unwrap();
        let evil = Account::ed25519(Zeroizing::new([5; 32])).unwrap();
        let mut peer = Peer::new(Arc::new(signer(&own)), None, NOW);
        let mut told = |of: &Account, key: Option<&Account>, card: Option<&[u8]>, wall_ms: u64| {
            let now = Now { wall_ms, ..NOW };
            let key = key.map(|account| account.key().to_protobuf().to_vec());
            peer.learn_told(of.did(), key.as_deref(), card, now);
            peer.sealing.keys.sealing_key(of.did(), wall_ms)
        };
        let its_own = SealingKey::of_account(edwards.key());
        let evils = SealingSecret::for_account(&evil).unwrap().key();
        let cards = SealingSecret::for_account(&other).unwrap().key();
        let at_ms = NOW.wall_ms;
        // Another's key, and none.
        assert_eq!(told(&edwards, Some(&evil), None, at_ms), None);
        assert_eq!(told(&edwards, None, None, at_ms), None);
        // Its own key; and no card changes that, signed by itself or by another.
        assert_eq!(told(&edwards, Some(&edwards), None, at_ms), its_own);
        for by in [&edwards, &evil] {
            let card = card(by, evils, at_ms);
            assert_eq!(told(&edwards, None, Some(&card), at_ms), its_own);
        }
        // An account of another kind: by its own card alone, and while that counts.
        assert_eq!(told(&other, Some(&other), None, at_ms), None);
        let forged = card(&evil, evils, at_ms);
        assert_eq!(told(&other, None, Some(&forged), at_ms), None);
        let early = card(&other, cards, at_ms + 60_000);
        assert_eq!(told(&other, None, Some(&early), at_ms), None);
        let good = card(&other, cards, at_ms);
        assert_eq!(told(&other, None, Some(&good), at_ms), Some(cards));
        assert_eq!(told(&other, None, None, at_ms + 60_000), Some(cards));
        assert_eq!(told(&other, None, None, at_ms + 60_001), None);
        assert_eq!(peer.keys_known(), 2);
    }
}
