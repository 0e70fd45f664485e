//! Sends that are sealed on their way out: from the wish to the stream's queue.
//!
//! Law (sealed or refused): a message that is to be sealed leaves sealed, or its send fails with what is
//! missing. It never leaves in the clear. Law **signing order** holds through it: what is sealed waits in
//! its stream's line, and what was asked for later waits behind it, sealed or not.
//! Source: protocol decision 8 (sealing).

use std::collections::{BTreeMap, VecDeque};

use overlane_core::seal::SealingKey;
use overlane_core::{Coded, Did};

use super::super::outbound::OutKey;
use super::super::{Outgoing, SendError, SendId};
use super::job::SealTicket;

/// Destinations that are asked for their keys at once. A send to one more is refused with
/// `seal/keys_asked`. What waits for the answers is within the bound of sends under way.
pub const ASKED_KEYS_MAX: usize = 64;

/// The lines of streams whose first message is not sealed yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: BTreeMap<OutKey, VecDeque<Waiting>>,
    working: BTreeMap<SealTicket, OutKey>,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: SendId,
    /// What it counts of the bytes pending.
    pub(super) bytes: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The destination's key is not known.
    NoKey(Box<Outgoing>),
    /// With a worker.
    Working(SealTicket),
    /// It goes on once it is the first.
    Ready(Box<Outgoing>),
}

/// What became of a wish to take a send back.
pub(super) enum Withdrawn {
    /// It was not with a worker: its bytes.
    Taken(u64),
    /// It is with a worker.
    Working,
}

impl Lines {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether something of this stream waits.
    pub(super) fn holds(&self, stream: OutKey) -> bool {
        self.lines.contains_key(&stream)
    }

    /// A message joins its stream's line.
    pub(super) fn push(&mut self, stream: OutKey, id: SendId, outgoing: Outgoing) {
        let bytes = outgoing.data_bytes();
        let state = match outgoing.seal.is_some() || outgoing.in_session {
            true => State::NoKey(Box::new(outgoing)),
            false => State::Ready(Box::new(outgoing)),
        };
        let waiting = Waiting { id, bytes, state };
        self.lines.entry(stream).or_default().push_back(waiting);
    }

    /// Gives what waits for this key to workers.
    pub(super) fn work(
        &mut self,
        stream: OutKey,
        key: SealingKey,
        mut begin: impl FnMut(SealingKey, Box<Outgoing>) -> SealTicket,
    ) {
        for waiting in self.lines.get_mut(&stream).into_iter().flatten() {
            // The state is replaced at once; the ticket is none that was given.
            let state = std::mem::replace(&mut waiting.state, State::Working(SealTicket(u64::MAX)));
            waiting.state = match state {
                State::NoKey(outgoing) => {
                    let ticket = begin(key, outgoing);
                    self.working.insert(ticket, stream);
                    State::Working(ticket)
                }
                state => state,
            };
        }
    }

    /// Takes out what waits for this key to be sent in a session.
    pub(super) fn take_for_session(&mut self, stream: OutKey) -> Vec<(SendId, Outgoing)> {
        let Some(line) = self.lines.get_mut(&stream) else {
            return Vec::new();
        };
        let (mut taken, mut kept) = (Vec::new(), VecDeque::new());
        for waiting in std::mem::take(line) {
            match waiting.state {
                State::NoKey(outgoing) if outgoing.in_session => {
                    taken.push((waiting.id, *outgoing))
                }
                state => kept.push_back(Waiting { state, ..waiting }),
            }
        }
        *line = kept;
        taken
    }

    /// Whether something of this stream waits for its destination's key.
    pub(super) fn waits(&self, stream: OutKey) -> bool {
        let mut line = self.lines.get(&stream).into_iter().flatten();
        line.any(|waiting| matches!(waiting.state, State::NoKey(_)))
    }

    /// The streams to `destination` that wait.
    pub(super) fn of(&self, destination: Did) -> Vec<OutKey> {
        let streams = self.lines.keys().filter(|(to, _)| *to == destination);
        streams.copied().collect()
    }

    /// The send that a worker has under this ticket.
    pub(super) fn id_of(&self, ticket: SealTicket) -> Option<SendId> {
        let line = self.lines.get(self.working.get(&ticket)?)?;
        let is_it =
            |waiting: &&Waiting| matches!(waiting.state, State::Working(it) if it == ticket);
        line.iter().find(is_it).map(|waiting| waiting.id)
    }

    /// A worker is done with a message: whose it was. Where it is sealed it goes on in its turn.
    pub(super) fn finish(
        &mut self,
        ticket: SealTicket,
        sealed: Option<Box<Outgoing>>,
    ) -> Option<(OutKey, SendId, u64)> {
        let stream = self.working.remove(&ticket)?;
        let line = self.lines.get_mut(&stream)?;
        let is_it = |waiting: &Waiting| matches!(waiting.state, State::Working(it) if it == ticket);
        let at = line.iter().position(is_it)?;
        let (id, bytes) = line.get(at).map(|waiting| (waiting.id, waiting.bytes))?;
        match sealed {
            Some(outgoing) => {
                if let Some(waiting) = line.get_mut(at) {
                    waiting.state = State::Ready(outgoing);
                }
            }
            None => drop(line.remove(at)),
        }
        Some((stream, id, bytes))
    }

    /// The stream's first message, if it may go on.
    pub(super) fn pop(&mut self, stream: OutKey) -> Option<(SendId, Outgoing)> {
        let line = self.lines.get_mut(&stream)?;
        if line.is_empty() {
            self.lines.remove(&stream);
            return None;
        }
        if !matches!(line.front()?.state, State::Ready(_)) {
            return None;
        }
        let first = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&stream);
        }
        match first.state {
            State::Ready(outgoing) => Some((first.id, *outgoing)),
            State::NoKey(_) | State::Working(_) => None,
        }
    }

    /// Takes out what waits for this stream's key.
    pub(super) fn give_up(&mut self, stream: OutKey) -> Vec<Waiting> {
        let Some(line) = self.lines.get_mut(&stream) else {
            return Vec::new();
        };
        let waits = |waiting: &Waiting| matches!(waiting.state, State::NoKey(_));
        let (given_up, kept): (Vec<_>, VecDeque<_>) = {
            let line = std::mem::take(line).into_iter();
            let (given_up, kept): (Vec<_>, Vec<_>) = line.partition(waits);
            (given_up, kept.into())
        };
        *line = kept;
        given_up
    }

    /// Takes a send back.
    pub(super) fn withdraw(&mut self, id: SendId) -> Option<(OutKey, Withdrawn)> {
        for (&stream, line) in &mut self.lines {
            let Some(at) = line.iter().position(|waiting| waiting.id == id) else {
                continue;
            };
            let working = |waiting: &Waiting| matches!(waiting.state, State::Working(_));
            if line.get(at).is_some_and(working) {
                return Some((stream, Withdrawn::Working));
            }
            let bytes = line.remove(at).map_or(0, |waiting| waiting.bytes);
            return Some((stream, Withdrawn::Taken(bytes)));
        }
        None
    }
}

/// Why a destination's key is not to be had.
pub(super) fn no_key(destination: Did, why: &impl Coded) -> SendError {
    SendError::NoKey {
        destination,
        why: why.code(),
    }
}
