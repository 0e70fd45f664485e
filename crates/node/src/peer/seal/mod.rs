//! A peer's sealing: sends that are sealed on their way out, admitted messages that are opened on their
//! way in, and the keys for it.
//!
//! Laws: **sealed or refused** (`sealing`), **opened in its turn** (`opening`), and of this module
//! **its own key**: a message is sealed to the key whose hash its destination's Did is, or to that account's
//! signed card, whoever told of it. A key that is not known here is asked for by way of the ring (`asking`).
//! Source: protocol decision 8 (sealing).

mod asking;
mod job;
mod keys;
mod opening;
mod sealing;

use std::sync::Arc;

use overlane_core::identity::AccountKey;
use overlane_core::seal::{SealContext, SealError, SealingKey, SealingSecret};
use overlane_core::transaction::Message;
use overlane_core::{Class, Coded, Did};

use super::lanes::InboundLane;
use super::outbound::OutKey;
use super::story::{Step, named};
use super::{Delivery, Effect, Now, Outgoing, Peer, Refusal, SendError, SendId, is_reserved};
use crate::link::LinkId;

pub use job::{SealJob, SealResult, SealSeed, SealTicket};
pub use keys::KEYS_MAX;
pub use sealing::ASKED_KEYS_MAX;

use asking::Asking;
use job::{Done, Work};
use keys::Keys;
use opening::{Arrived, Opening};
use sealing::{Lines, Withdrawn};

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
    asking: Asking,
    tickets: u64,
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
