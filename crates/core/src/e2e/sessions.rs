//! The E2E sessions of one node: handshakes, keys, what is sealed and opened under them.

use super::bounds::{
    BODY_MAX_BYTES, REKEY_MESSAGES, REKEY_MS, SESSION_ANSWER_MS, SESSION_LIFE_MS, SESSION_LOSTS,
    SESSION_OPENS, SESSION_PEERS_MAX, SESSION_TRIES, SESSION_WAITING_MAX,
    SESSION_WAITING_MAX_BYTES, SESSIONS_KEPT,
};
use super::error::{SessionError, SessionRefusal};
use super::frame::{E2E_MARKER, Said, SessionId};
use super::noise::{self, FIRST_BYTES, SECOND_BYTES, TAG_BYTES};
use crate::identity::transcript;
use crate::ids::{Did, NetworkId};
use crate::seal::{SealingKey, SealingSecret};
use crate::wire::cbor::{Encode, Writer};
use snow::{HandshakeState, StatelessTransportState};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Context of the handshake's prologue.
const PROLOGUE_CONTEXT: &str = "overlane session";

/// Context of a session's name.
const NAME_CONTEXT: &str = "overlane session name";

/// Context of one ephemeral key's bytes.
const EPHEMERAL_CONTEXT: &str = "overlane session ephemeral";

/// Context of the bytes that the next ones are drawn of.
const RATCHET_CONTEXT: &str = "overlane session ratchet";

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionAction {
    /// Sign this as the body of an E2E message, and send it.
    Say {
        /// Whom it is for.
        to: Did,
        /// The body.
        body: Vec<u8>,
        /// Whose body it holds, if it holds one.
        token: Option<u64>,
    },
    /// A body came in a session.
    Received {
        /// Who sent it.
        from: Did,
        /// What it says.
        body: Zeroizing<Vec<u8>>,
    },
    /// A session is there: what waited for it was sent.
    Established {
        /// With whom.
        with: Did,
    },
    /// The other node does not know a session that this one had; it was restarted, or let go of it. What was
    /// sent in the session lately may be lost; the next body is sent in another session.
    Lost {
        /// With whom.
        with: Did,
        /// How many bodies were sent in it.
        sent: u64,
    },
    /// Bodies that waited for a session are not sent.
    Failed {
        /// To whom.
        to: Did,
        /// Which.
        tokens: Vec<u64>,
        /// Why.
        error: SessionError,
    },
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Sessions that came about, asked for by this node.
    pub opened: u64,
    /// Sessions that came about, asked for by others.
    pub accepted: u64,
    /// Sessions that the other node did not know any more.
    pub lost: u64,
    /// Bodies sent.
    pub sent: u64,
    /// Bodies that came.
    pub received: u64,
    /// Nodes that gave way to others.
    pub given_way: u64,
}

/// The sessions of one node.
#[derive(Debug)]
pub struct Sessions {
    network: NetworkId,
    own: Did,
    secret: Arc<SealingSecret>,
    random: Zeroizing<[u8; 32]>,
    peers: BTreeMap<Did, With>,
    uses: u64,
    counters: SessionCounters,
    actions: VecDeque<SessionAction>,
}

/// What there is with one node.
#[derive(Debug)]
struct With {
    used: u64,
    opening: Option<Opening>,
    /// The newest first.
    sessions: VecDeque<Session>,
    waiting: VecDeque<(u64, Zeroizing<Vec<u8>>)>,
    waiting_bytes: usize,
    opens: Pacer,
    losts: Pacer,
}

/// A handshake that this node began.
#[derive(Debug)]
struct Opening {
    id: SessionId,
    handshake: HandshakeState,
    first: [u8; FIRST_BYTES],
    due_ms: u64,
    tries: u8,
}

#[derive(Debug)]
struct Session {
    id: SessionId,
    keys: StatelessTransportState,
    since_ms: u64,
    /// Whether the other side has shown that it has the keys.
    confirmed: bool,
    /// The answer to the handshake, until then: asked again, it is said again.
    accept: Option<[u8; SECOND_BYTES]>,
    sent: u64,
    taken: Taken,
}

/// The numbers that came lately.
#[derive(Debug, Default)]
struct Taken {
    /// The highest and one.
    next: u64,
    /// Bit `a` says that `next - 1 - a` came.
    lately: u64,
}

/// At most so many at once, and so many in a minute.
#[derive(Debug)]
struct Pacer {
    most: u64,
    left: u64,
    since_ms: u64,
}

impl Sessions {
    /// No session yet. `secret` is what opens what is sealed to the account `own`; `seed` are fresh random
    /// bytes, from which ephemeral keys are drawn, each so that no later state gives it again.
    pub fn new(
        network: NetworkId,
        own: Did,
        secret: Arc<SealingSecret>,
        seed: Zeroizing<[u8; 32]>,
    ) -> Self {
        Self {
            network,
            own,
            secret,
            random: seed,
            peers: BTreeMap::new(),
            uses: 0,
            counters: SessionCounters::default(),
            actions: VecDeque::new(),
        }
    }

    // What it is.

    /// Counts since the start.
    pub fn counters(&self) -> &SessionCounters {
        &self.counters
    }

    /// How many nodes it has sessions with, or is asking for one.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// How many sessions are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.peers.values().map(|with| with.sessions.len()).sum()
    }

    /// Whether a body to this node would be sent at once.
    pub fn is_established(&self, with: Did, now_ms: u64) -> bool {
        let with = self.peers.get(&with);
        with.is_some_and(|with| with.sessions.iter().any(|it| it.is_usable(now_ms)))
    }

    /// Whether an E2E message's body is of a session.
    pub fn is_session(body: &[u8]) -> bool {
        body.starts_with(&E2E_MARKER)
    }

    // What its user wants.

    /// Sends a body in a session with `to`, whose static key is `key`; one is asked for where there is
    /// none. `token` comes back with what becomes of it.
    ///
    /// # Errors
    /// [`SessionError`]; nothing of it is sent.
    pub fn send(
        &mut self,
        to: Did,
        key: &SealingKey,
        token: u64,
        body: Zeroizing<Vec<u8>>,
        now_ms: u64,
    ) -> Result<(), SessionError> {
        let bytes = body.len();
        if bytes > BODY_MAX_BYTES {
            return Err(SessionError::TooLarge { bytes });
        }
        let with = self.with(to, now_ms);
        if let Some(session) = with.sessions.iter_mut().find(|it| it.is_usable(now_ms)) {
            let said = session.seal(&body);
            let due = session.is_old(now_ms) && with.opening.is_none();
            self.say_bodies(to, vec![(token, said)]);
            return if due {
                self.open(to, key, now_ms)
            } else {
                Ok(())
            };
        }
        let full = with.waiting.len() >= SESSION_WAITING_MAX
            || with.waiting_bytes.saturating_add(bytes) > SESSION_WAITING_MAX_BYTES;
        if full {
            return Err(SessionError::WaitingFull);
        }
        if with.opening.is_none() {
            self.open(to, key, now_ms)?;
        }
        let with = self.with(to, now_ms);
        with.waiting_bytes += bytes;
        with.waiting.push_back((token, body));
        Ok(())
    }

    /// Takes a body back that waits for a session; whether it did.
    pub fn take_back(&mut self, token: u64) -> bool {
        for with in self.peers.values_mut() {
            let at = with.waiting.iter().position(|(of, _)| *of == token);
            if let Some((_, body)) = at.and_then(|at| with.waiting.remove(at)) {
                with.waiting_bytes = with.waiting_bytes.saturating_sub(body.len());
                return true;
            }
        }
        false
    }

    /// Ends the sessions with a node: their keys are wiped here, and it is told.
    pub fn end(&mut self, with: Did) {
        let Some(gone) = self.peers.remove(&with) else {
            return;
        };
        for session in &gone.sessions {
            self.say(with, Said::Close(session.id).to_body());
        }
        self.fail(with, gone.waiting, SessionError::Ended);
    }

    // What happened.

    /// An admitted E2E message of `from`, whose static key is `key`.
    ///
    /// # Errors
    /// [`SessionRefusal`]; nothing of it was taken.
    pub fn handle_body(
        &mut self,
        from: Did,
        key: &SealingKey,
        body: &[u8],
        now_ms: u64,
    ) -> Result<(), SessionRefusal> {
        match Said::from_body(body)? {
            Said::Open(first) => self.opened(from, key, first, now_ms),
            Said::Accept(id, second) => self.accepted(from, id, second, now_ms),
            Said::Data(id, number, sealed) => self.data(from, id, number, sealed, now_ms),
            Said::Lost(id) => {
                self.lost(from, id);
                Ok(())
            }
            Said::Close(id) => {
                if let Some(with) = self.peers.get_mut(&from) {
                    with.sessions.retain(|session| session.id != id);
                }
                Ok(())
            }
        }
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        let mut again = Vec::new();
        let mut given_up = Vec::new();
        for (&peer, with) in &mut self.peers {
            with.sessions.retain(|session| !session.is_over(now_ms));
            let due = with.opening.as_mut().filter(|it| it.due_ms <= now_ms);
            let Some(opening) = due else { continue };
            if opening.tries >= SESSION_TRIES {
                with.opening = None;
                with.waiting_bytes = 0;
                given_up.push((peer, std::mem::take(&mut with.waiting)));
                continue;
            }
            opening.tries += 1;
            opening.due_ms = now_ms.saturating_add(SESSION_ANSWER_MS);
            again.push((peer, Said::Open(&opening.first).to_body()));
        }
        for (to, body) in again {
            self.say(to, body);
        }
        for (to, bodies) in given_up {
            self.fail(to, bodies, SessionError::NoAnswer);
        }
        let bare = |with: &With| {
            with.sessions.is_empty() && with.opening.is_none() && with.is_rested(now_ms)
        };
        self.peers.retain(|_, with| !bare(with));
    }

    // What it wants done.

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<SessionAction> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due.
    pub fn poll_timeout(&self) -> Option<u64> {
        let due = self.peers.values().flat_map(|with| {
            let opening = with.opening.as_ref().map(|opening| opening.due_ms);
            let sessions = with.sessions.iter().map(Session::over_ms);
            let rested = (with.sessions.is_empty() && opening.is_none()).then(|| with.rested_ms());
            opening.into_iter().chain(sessions).chain(rested)
        });
        due.min()
    }

    /// The node asks for a session.
    fn opened(
        &mut self,
        from: Did,
        key: &SealingKey,
        first: &[u8; FIRST_BYTES],
        now_ms: u64,
    ) -> Result<(), SessionRefusal> {
        let id = name(first);
        let known = self.peers.get(&from).into_iter();
        let mut known = known.flat_map(|with| &with.sessions);
        if let Some(session) = known.find(|session| session.id == id) {
            // Asked again, as the answer did not come in time.
            if let Some(second) = session.accept {
                self.say(from, Said::Accept(id, &second).to_body());
            }
            return Ok(());
        }
        if !self.with(from, now_ms).opens.take(now_ms) {
            return Err(SessionRefusal::Paced);
        }
        let wrong = |_| SessionRefusal::Handshake;
        let ephemeral = self.draw();
        let prologue = self.prologue(from, self.own);
        let handshake = noise::responder(&self.secret, &prologue, ephemeral);
        let mut handshake = handshake.map_err(wrong)?;
        handshake.read_message(first, &mut []).map_err(wrong)?;
        // Who signed the message around it has this key and no other.
        let proved = handshake.get_remote_static();
        if proved != Some(key.as_bytes().as_slice()) && !mutant!(TakesAnyKey) {
            return Err(SessionRefusal::Handshake);
        }
        let mut second = [0; SECOND_BYTES];
        handshake.write_message(&[], &mut second).map_err(wrong)?;
        let keys = handshake.into_stateless_transport_mode().map_err(wrong)?;
        self.counters.accepted = self.counters.accepted.saturating_add(1);
        let session = Session::new(id, keys, now_ms, Some(second));
        self.with(from, now_ms).keep(session);
        self.say(from, Said::Accept(id, &second).to_body());
        Ok(())
    }

    /// The node answers a handshake.
    fn accepted(
        &mut self,
        from: Did,
        id: SessionId,
        second: &[u8; SECOND_BYTES],
        now_ms: u64,
    ) -> Result<(), SessionRefusal> {
        let with = self.peers.get_mut(&from);
        let with = with.ok_or(SessionRefusal::Unasked(id))?;
        let opening = with.opening.take_if(|opening| opening.id == id);
        let Some(mut opening) = opening else {
            // The answer to one that was sent again came twice.
            let known = with.sessions.iter().any(|session| session.id == id);
            return if known {
                Ok(())
            } else {
                Err(SessionRefusal::Unasked(id))
            };
        };
        // What does not hold ends the handshake: the next body begins another.
        let read = opening.handshake.read_message(second, &mut []);
        let keys = read.and_then(|_| opening.handshake.into_stateless_transport_mode());
        let Ok(keys) = keys else {
            with.waiting_bytes = 0;
            let bodies = std::mem::take(&mut with.waiting);
            self.fail(from, bodies, SessionError::NoAnswer);
            return Err(SessionRefusal::Handshake);
        };
        let mut session = Session::new(id, keys, now_ms, None);
        with.waiting_bytes = 0;
        let waiting = std::mem::take(&mut with.waiting);
        let said = session.seal_all(&waiting);
        with.keep(session);
        self.counters.opened = self.counters.opened.saturating_add(1);
        self.say_bodies(from, said);
        self.actions
            .push_back(SessionAction::Established { with: from });
        Ok(())
    }

    fn data(
        &mut self,
        from: Did,
        id: SessionId,
        number: u64,
        sealed: &[u8],
        now_ms: u64,
    ) -> Result<(), SessionRefusal> {
        let sessions = self.peers.get_mut(&from).into_iter();
        let mut sessions = sessions.flat_map(|with| &mut with.sessions);
        let live = |session: &&mut Session| session.id == id && !session.is_over(now_ms);
        let Some(session) = sessions.find(live) else {
            if self.with(from, now_ms).losts.take(now_ms) {
                self.say(from, Said::Lost(id).to_body());
            }
            return Err(SessionRefusal::Unknown(id));
        };
        if session.taken.has(number) && !mutant!(TakesAgain) {
            return Err(SessionRefusal::Again { number });
        }
        let mut body = Zeroizing::new(vec![0; sealed.len().saturating_sub(TAG_BYTES)]);
        let read = session.keys.read_message(number, sealed, &mut body);
        read.map_err(|_| SessionRefusal::DoesNotOpen)?;
        session.taken.take(number);
        let newly = !std::mem::replace(&mut session.confirmed, true);
        session.accept = None;
        self.counters.received = self.counters.received.saturating_add(1);
        if let Some(with) = self.peers.get_mut(&from) {
            self.uses += 1;
            with.used = self.uses;
        }
        self.actions
            .push_back(SessionAction::Received { from, body });
        if newly {
            self.confirmed(from, id, now_ms);
        }
        Ok(())
    }

    /// The other side has shown that it has a session's keys: what waits is sent in it, and the ones before
    /// the last are let go.
    fn confirmed(&mut self, from: Did, id: SessionId, now_ms: u64) {
        let with = self.with(from, now_ms);
        with.waiting_bytes = 0;
        let waiting = std::mem::take(&mut with.waiting);
        let session = with.sessions.iter_mut().find(|it| it.id == id);
        let said = session.map_or(Vec::new(), |session| session.seal_all(&waiting));
        self.say_bodies(from, said);
        self.actions
            .push_back(SessionAction::Established { with: from });
    }

    /// The other node does not know a session.
    fn lost(&mut self, from: Did, id: SessionId) {
        let Some(with) = self.peers.get_mut(&from) else {
            return;
        };
        let Some(at) = with.sessions.iter().position(|session| session.id == id) else {
            return;
        };
        let sent = with.sessions.remove(at).map_or(0, |session| session.sent);
        self.counters.lost = self.counters.lost.saturating_add(1);
        self.actions
            .push_back(SessionAction::Lost { with: from, sent });
    }

    fn open(&mut self, to: Did, key: &SealingKey, now_ms: u64) -> Result<(), SessionError> {
        let ephemeral = self.draw();
        let prologue = self.prologue(self.own, to);
        let weak = |_| SessionError::WeakKey;
        let handshake = noise::initiator(&self.secret, key.as_bytes(), &prologue, ephemeral);
        let mut handshake = handshake.map_err(weak)?;
        let mut first = [0; FIRST_BYTES];
        handshake.write_message(&[], &mut first).map_err(weak)?;
        let opening = Opening {
            id: name(&first),
            handshake,
            first,
            due_ms: now_ms.saturating_add(SESSION_ANSWER_MS),
            tries: 1,
        };
        self.with(to, now_ms).opening = Some(opening);
        self.say(to, Said::Open(&first).to_body());
        Ok(())
    }

    /// What there is with a node, which is used now.
    fn with(&mut self, peer: Did, now_ms: u64) -> &mut With {
        if !self.peers.contains_key(&peer) && self.peers.len() >= SESSION_PEERS_MAX {
            // Whom this node speaks to gives way last: strangers make room for each other.
            let order = |with: &With| (with.is_spoken_to(), with.used);
            let longest_ago = self.peers.iter().min_by_key(|(_, with)| order(with));
            if let Some((&gone, _)) = longest_ago {
                let waiting = self.peers.remove(&gone).map(|it| it.waiting);
                self.counters.given_way = self.counters.given_way.saturating_add(1);
                self.fail(gone, waiting.unwrap_or_default(), SessionError::Ended);
            }
        }
        self.uses += 1;
        let with = self.peers.entry(peer).or_insert_with(|| With {
            used: 0,
            opening: None,
            sessions: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            opens: Pacer::new(SESSION_OPENS, now_ms),
            losts: Pacer::new(SESSION_LOSTS, now_ms),
        });
        with.used = self.uses;
        with
    }

    fn say(&mut self, to: Did, body: Vec<u8>) {
        let token = None;
        self.actions
            .push_back(SessionAction::Say { to, body, token });
    }

    fn say_bodies(&mut self, to: Did, said: Vec<(u64, Vec<u8>)>) {
        for (token, body) in said {
            self.counters.sent = self.counters.sent.saturating_add(1);
            let token = Some(token);
            self.actions
                .push_back(SessionAction::Say { to, body, token });
        }
    }

    fn fail(&mut self, to: Did, bodies: VecDeque<(u64, Zeroizing<Vec<u8>>)>, error: SessionError) {
        let tokens: Vec<u64> = bodies.into_iter().map(|(token, _)| token).collect();
        if !tokens.is_empty() {
            self.actions
                .push_back(SessionAction::Failed { to, tokens, error });
        }
    }

    /// Bytes for one ephemeral key. What is kept gives none of those that were drawn.
    fn draw(&mut self) -> Zeroizing<[u8; 32]> {
        let mut of = self.random.clone();
        if mutant!(DrawsTheSame) {
            *of = [0; 32];
        }
        let drawn = Zeroizing::new(blake3::derive_key(EPHEMERAL_CONTEXT, of.as_slice()));
        *self.random = blake3::derive_key(RATCHET_CONTEXT, self.random.as_slice());
        drawn
    }

    fn prologue(&self, initiator: Did, responder: Did) -> [u8; 32] {
        transcript(
            PROLOGUE_CONTEXT,
            &Prologue(self.network, initiator, responder),
        )
    }
}

impl With {
    /// Keeps a session, and lets go of what is too many.
    fn keep(&mut self, session: Session) {
        self.sessions.push_front(session);
        if self.sessions.len() > SESSIONS_KEPT && !mutant!(KeepsAll) {
            // The one in use stays: of several that nobody confirmed the oldest goes.
            let idle = self.sessions.iter().skip(1).rposition(|it| !it.confirmed);
            let at = idle.map_or(self.sessions.len().saturating_sub(1), |at| at + 1);
            self.sessions.remove(at);
        }
    }

    /// Whether this node said something to it, or is about to.
    fn is_spoken_to(&self) -> bool {
        self.opening.is_some() || self.sessions.iter().any(|it| it.sent > 0)
    }

    fn is_rested(&self, now_ms: u64) -> bool {
        self.rested_ms() <= now_ms
    }

    fn rested_ms(&self) -> u64 {
        self.opens.full_ms().max(self.losts.full_ms())
    }
}

impl Session {
    fn new(
        id: SessionId,
        keys: StatelessTransportState,
        since_ms: u64,
        accept: Option<[u8; SECOND_BYTES]>,
    ) -> Self {
        Self {
            id,
            keys,
            since_ms,
            // Whoever reads an answer knows that the other side has the keys.
            confirmed: accept.is_none(),
            accept,
            sent: 0,
            taken: Taken::default(),
        }
    }

    fn is_usable(&self, now_ms: u64) -> bool {
        self.confirmed && !self.is_over(now_ms)
    }

    /// Whether another one is to follow.
    fn is_old(&self, now_ms: u64) -> bool {
        let old = self.sent >= REKEY_MESSAGES || now_ms.saturating_sub(self.since_ms) >= REKEY_MS;
        old && !mutant!(NeverRekeys)
    }

    fn over_ms(&self) -> u64 {
        self.since_ms.saturating_add(SESSION_LIFE_MS)
    }

    fn is_over(&self, now_ms: u64) -> bool {
        self.over_ms() <= now_ms && !mutant!(NeverEnds)
    }

    fn seal_all(&mut self, bodies: &VecDeque<(u64, Zeroizing<Vec<u8>>)>) -> Vec<(u64, Vec<u8>)> {
        let seal = |(token, body): &(u64, Zeroizing<Vec<u8>>)| (*token, self.seal(body));
        bodies.iter().map(seal).collect()
    }

    /// The message that says this body.
    fn seal(&mut self, body: &[u8]) -> Vec<u8> {
        let number = self.sent;
        self.sent += 1;
        let mut sealed = vec![0; body.len().saturating_add(TAG_BYTES)];
        // The bodies are bounded far below what a message of Noise may hold.
        let written = self.keys.write_message(number, body, &mut sealed);
        sealed.truncate(written.unwrap_or(0));
        Said::Data(self.id, number, &sealed).to_body()
    }
}

impl Taken {
    /// Whether this number came, or is too old to say.
    fn has(&self, number: u64) -> bool {
        match self
            .next
            .checked_sub(1)
            .and_then(|high| high.checked_sub(number))
        {
            None => false,
            Some(ago) => ago >= 64 || self.lately >> ago & 1 == 1,
        }
    }

    fn take(&mut self, number: u64) {
        if number >= self.next {
            let by = number.saturating_sub(self.next).saturating_add(1);
            let by = u32::try_from(by).unwrap_or(u32::MAX);
            self.lately = self.lately.checked_shl(by).unwrap_or(0) | 1;
            self.next = number.saturating_add(1);
        } else {
            let ago = self.next.saturating_sub(1).saturating_sub(number);
            let ago = u32::try_from(ago).unwrap_or(u32::MAX);
            self.lately |= 1_u64.checked_shl(ago).unwrap_or(0);
        }
    }
}

impl Pacer {
    const MINUTE_MS: u64 = 60_000;

    fn new(most: u64, now_ms: u64) -> Self {
        Self {
            most,
            left: most,
            since_ms: now_ms,
        }
    }

    fn take(&mut self, now_ms: u64) -> bool {
        if now_ms >= self.full_ms() {
            self.left = self.most;
            self.since_ms = now_ms;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }

    fn full_ms(&self) -> u64 {
        self.since_ms.saturating_add(Self::MINUTE_MS)
    }
}

/// The name of the session that this message asks for.
fn name(first: &[u8; FIRST_BYTES]) -> SessionId {
    let [id @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] =
        blake3::derive_key(NAME_CONTEXT, first);
    SessionId(id)
}

/// What both sides must agree on.
struct Prologue(NetworkId, Did, Did);

impl Encode for Prologue {
    fn encode(&self, writer: &mut Writer) {
        let Self(network, initiator, responder) = self;
        writer
            .array(3)
            .value(network)
            .value(initiator)
            .value(responder);
    }
}
