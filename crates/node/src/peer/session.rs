//! A peer's E2E sessions: bodies that leave in one, and those that came.
//!
//! Sessions are the machine of `overlane_core::e2e`; here its messages become E2E transactions: signed,
//! admitted at most once. Law (a body has one result): what was asked to be sent in a session has its
//! receipt once the message that holds it is in its lane, or the reason why it is not sent. A body that came
//! holds its message's place on the application's side until it is taken. Source: protocol decision 8.

use std::collections::BTreeMap;

use overlane_core::e2e::{SessionAction, SessionError, Sessions};
use overlane_core::seal::SealingKey;
use overlane_core::transaction::{Data, Message};
use overlane_core::wire::cbor::to_vec;
use overlane_core::{Class, Did, TxId};
use zeroize::Zeroizing;

use super::lanes::InboundLane;
use super::outbound::OutKey;
use super::{Delivery, Effect, Event, Now, Outgoing, Peer, PlaceId, Refusal, SendError, SendId};
use crate::link::LinkId;

/// What a session adds to a body at most: marker, name, number, tag, and their heads.
pub(super) const SESSION_OVERHEAD_BYTES: usize = 64;

/// The send ids of handshakes and the like, which nobody waits for.
pub(super) const SESSION_SENDS: u64 = 1 << 61;

/// What a peer keeps for its sessions.
#[derive(Debug, Default)]
pub(super) struct InSessions {
    sessions: Option<Sessions>,
    /// Bodies that wait for a session, by the token they have there.
    waiting: BTreeMap<u64, (OutKey, Outgoing)>,
    /// Nobody else knows it, so nobody foresees the names drawn from it.
    seed: [u8; 32],
    drawn: u64,
}

impl Peer {
    /// Has these sessions from now on. `seed` is drawn at random: the names of transactions come from
    /// it.
    pub fn hold_sessions(&mut self, sessions: Sessions, seed: [u8; 32]) {
        self.in_sessions.sessions = Some(sessions);
        self.in_sessions.seed = seed;
    }

    /// The sessions, if it has any.
    pub fn sessions(&self) -> Option<&Sessions> {
        self.in_sessions.sessions.as_ref()
    }

    /// Ends the sessions with a node: their keys are wiped on both sides.
    pub fn end_session(&mut self, with: Did, now: Now) {
        if let Some(sessions) = &mut self.in_sessions.sessions {
            sessions.end(with);
        }
        self.settle(now);
    }

    /// Sends a body in a session, whose other side has this key.
    pub(super) fn send_in_session(
        &mut self,
        id: SendId,
        mut outgoing: Outgoing,
        key: &SealingKey,
        now: Now,
    ) {
        let stream = (outgoing.destination, outgoing.class());
        let bytes = outgoing.data_bytes();
        let body = Zeroizing::new(outgoing.data.message().body().to_vec());
        let sent = match &mut self.in_sessions.sessions {
            Some(sessions) => sessions.send(stream.0, key, id.0, body, now.steady_ms),
            None => Err(SessionError::Ended),
        };
        if let Err(error) = sent {
            self.outbound.end(id, stream.0, bytes, None);
            return self.sent(id, Err(SendError::Session(error)));
        }
        // What it says is with the session; what is counted stays as it was.
        outgoing.counted_bytes = Some(bytes);
        if let Ok(empty) = Data::parse(to_vec(&Message::E2e(&[]))) {
            outgoing.data = empty;
        }
        self.in_sessions.waiting.insert(id.0, (stream, outgoing));
    }

    /// Takes back a body that waits for a session. Whether it was here.
    pub(super) fn withdraw_from_session(&mut self, id: SendId) -> bool {
        let sessions = self.in_sessions.sessions.as_mut();
        if !sessions.is_some_and(|sessions| sessions.take_back(id.0)) {
            return false;
        }
        self.not_in_session(id.0, SendError::Cancelled);
        true
    }

    /// Takes an admitted E2E message that is of a session; gives it back if it is none.
    pub(super) fn take_for_session(
        &mut self,
        link: LinkId,
        lane: InboundLane,
        bytes: u64,
        message: Box<Delivery>,
        now: Now,
    ) -> Option<Box<Delivery>> {
        let payload = message.item();
        let (from, said) = (payload.origin(), payload.message());
        let Some(sessions) = &mut self.in_sessions.sessions else {
            return Some(message);
        };
        let Message::E2e(body) = said else {
            return Some(message);
        };
        if !Sessions::is_session(body) {
            return Some(message);
        }
        let key = self.sealing.sealing_key(from, now.wall_ms);
        let taken = match key {
            Some(key) => sessions
                .handle_body(from, &key, body, now.steady_ms)
                .map_err(Refusal::Session),
            // An account of another kind, whose card is not known here.
            None => Err(Refusal::NoSessionKey { from }),
        };
        if let Err(refusal) = taken {
            self.refuse(link, lane, refusal);
        }
        // At most one body comes with a message, and takes its place.
        let mut place = Some((lane, bytes));
        while let Some(action) = self.next_of_session() {
            match (action, place) {
                (SessionAction::Received { from, body }, Some(held)) => {
                    place = None;
                    let free = PlaceId(self.next_place);
                    self.next_place += 1;
                    self.dispatched.insert(free, held);
                    self.effects.push_back(Effect::InSession {
                        place: free,
                        from,
                        body,
                    });
                }
                (action, _) => self.do_for_session(action, now),
            }
        }
        if let Some((lane, bytes)) = place {
            self.free_place(lane, bytes, now);
        }
        None
    }

    /// Does what sessions want done; whether there was anything.
    pub(super) fn serve_sessions(&mut self, now: Now) -> bool {
        let mut any = false;
        while let Some(action) = self.next_of_session() {
            any = true;
            self.do_for_session(action, now);
        }
        any
    }

    pub(super) fn sessions_timeout(&mut self, now: Now) {
        if let Some(sessions) = &mut self.in_sessions.sessions {
            sessions.handle_timeout(now.steady_ms);
        }
    }

    pub(super) fn sessions_due_ms(&self) -> Option<u64> {
        self.in_sessions.sessions.as_ref()?.poll_timeout()
    }

    /// Whether a send is a session's own: nobody waits for its result.
    pub(super) fn is_sessions(id: SendId) -> bool {
        id.0 >> 61 == 1
    }

    fn next_of_session(&mut self) -> Option<SessionAction> {
        self.in_sessions.sessions.as_mut()?.poll_action()
    }

    fn do_for_session(&mut self, action: SessionAction, now: Now) {
        match action {
            SessionAction::Say { to, body, token } => self.say_in_session(to, &body, token, now),
            SessionAction::Failed { tokens, error, .. } => {
                for token in tokens {
                    self.not_in_session(token, SendError::Session(error));
                }
            }
            SessionAction::Lost { with, sent } => self.tell(Event::SessionLost { with, sent }),
            // A body without a place cannot be: each came with a message.
            SessionAction::Received { .. } | SessionAction::Established { .. } => {}
        }
    }

    fn say_in_session(&mut self, to: Did, body: &[u8], token: Option<u64>, now: Now) {
        let Ok(data) = Data::parse(to_vec(&Message::E2e(body))) else {
            return tracing::error!("a message of a session is over its bound");
        };
        if let Some(token) = token {
            let Some((stream, mut outgoing)) = self.in_sessions.waiting.remove(&token) else {
                return;
            };
            outgoing.data = data;
            self.outbound
                .wait(stream, SendId(token), outgoing, now.steady_ms);
            return self.reserve(stream, now);
        }
        let part = &mut self.in_sessions;
        let id = SendId(SESSION_SENDS | part.drawn);
        let name = blake3::keyed_hash(&part.seed, &part.drawn.to_be_bytes());
        part.drawn = part.drawn.wrapping_add(1) % SESSION_SENDS;
        let name = name.as_bytes().first_chunk().copied().unwrap_or_default();
        if let Err(error) = self.check_send(to, now) {
            return self.sent(id, Err(error));
        }
        let outgoing = Outgoing::new(to, data, TxId(name));
        if !self.outbound.begin(to, outgoing.data_bytes()) {
            return self.sent(id, Err(SendError::TooManyPending));
        }
        let stream = (to, Class::E2e);
        self.outbound.wait(stream, id, outgoing, now.steady_ms);
        self.reserve(stream, now);
    }

    fn not_in_session(&mut self, token: u64, error: SendError) {
        if let Some(((to, _), outgoing)) = self.in_sessions.waiting.remove(&token) {
            let id = SendId(token);
            self.outbound.end(id, to, outgoing.data_bytes(), None);
            self.sent(id, Err(error));
        }
    }
}
