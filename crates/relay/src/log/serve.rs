//! Answering: what a peer asks about a log, and the frames it is owed.
//!
//! Law (bounded work per byte): a question is answered against the peer's allowance of bytes hashed
//! and bytes pushed, and only when everything the last one brought was taken. An envelope is read
//! when its frame leaves, so what waits for a slow peer is names. Both spaces are answered out of the
//! store's index: what is read are the records of the ranges that are open.

use super::bounds::{NAMED_WORK_BYTES, PUSH_IDS, RECON_MAX_BYTES};
use super::frame::{Frame, NAMED_BYTES, Named, Refused, Space, Turn};
use super::id::LogId;
use super::logs::{Closing, Logs, Result};
use super::mutant::Mutant;
use super::refusal::Refusal;
use super::rules::{Access, Rules};
use super::store::LogStore;
use super::told::{Failure, LogsError, Owed, Place};
use overlane_core::Did;
use overlane_recon::bounds::TOP;
use overlane_recon::{Limits, Response, StepError, Storage, respond};

/// The limits of what this side says.
pub(super) fn limits() -> Limits {
    Limits::default()
        .message_bytes(RECON_MAX_BYTES)
        .push_ids(PUSH_IDS)
}

impl<S: LogStore, R: Rules> Logs<S, R> {
    /// A RECON message is put where the next flush finds it: behind what was sent before it.
    pub(super) fn handle_recon(
        &mut self,
        peer: Did,
        log: LogId,
        space: Space,
        turn: Turn,
        payload: &[u8],
    ) -> Result<(), S> {
        match turn {
            Turn::Ask | Turn::Plan if self.rules.access(&log, &peer) == Access::None => {
                return Err(Refusal::NotHere { log, peer }.into());
            }
            Turn::Ask | Turn::Plan => self.may_ask(&peer)?,
            Turn::Answer if !self.exchanges.contains_key(&(log, peer)) => {
                return Err(Refusal::NotAsked { log }.into());
            }
            Turn::Answer => {}
        }
        let asked = &mut self.peer(&peer)?.asked;
        asked.push_back((log, space, turn, payload.to_vec()));
        Ok(())
    }

    /// Answers what was asked, and goes on with what was answered.
    pub(super) fn answer_all(&mut self, now_ms: u64) -> Closing<(), S> {
        let asking: Vec<Did> = self.peers.keys().copied().collect();
        for peer in asking {
            while let Some((log, space, turn, payload)) = self
                .peers
                .get_mut(&peer)
                .and_then(|it| it.asked.pop_front())
            {
                match turn {
                    Turn::Ask | Turn::Plan => self.answer(peer, log, space, turn, &payload)?,
                    Turn::Answer => self.advance(peer, log, &payload, now_ms)?,
                }
            }
        }
        self.open_exchanges(now_ms)
    }

    fn answer(
        &mut self,
        peer: Did,
        log: LogId,
        space: Space,
        turn: Turn,
        payload: &[u8],
    ) -> Closing<(), S> {
        match self.respond(peer, log, space, payload) {
            Ok(response) => {
                self.counters.answered += 1;
                let answer = Owed::Recon(log, space, Turn::Answer, response.reply);
                if self.is_broken(Mutant::AnswerFirst) {
                    self.owe(peer, answer.clone());
                }
                let plans = turn == Turn::Plan && !self.is_broken(Mutant::PushThePlanned);
                let mut named = Vec::new();
                for item in response.push {
                    // In the shared space an item's place is not its number.
                    let seq = match space {
                        Space::Numbered => Some(item.seq),
                        Space::Shared => self.find(&log, &item.id)?,
                    };
                    match seq {
                        Some(seq) if plans => self.name(&log, seq, &mut named)?,
                        Some(seq) => self.owe(peer, Owed::Push(log, seq)),
                        None => {}
                    }
                }
                if !named.is_empty() {
                    let names = (named.len() / NAMED_BYTES) as u64;
                    if let Ok(peer) = self.peer(&peer) {
                        peer.budget
                            .charge(names.saturating_mul(NAMED_WORK_BYTES), 0);
                    }
                    self.owe(peer, Owed::Named(log, named));
                }
                self.owe(peer, answer);
                Ok(())
            }
            Err(Failure::Refused(refusal)) => {
                self.counters.not_answered += 1;
                self.refuse(peer, log, Refused::Recon, &refusal);
                Ok(())
            }
            Err(Failure::Failed(error)) => Err(error),
        }
    }

    /// Names an envelope in a plan.
    fn name(&mut self, log: &LogId, seq: u64, named: &mut Vec<u8>) -> Closing<(), S> {
        if let Some(entry) = self.store.entry(log, seq).map_err(LogsError::Store)? {
            let (id, bytes) = (entry.id, entry.bytes);
            Named { seq, id, bytes }.write(named);
        }
        Ok(())
    }

    fn respond(
        &mut self,
        peer: Did,
        log: LogId,
        space: Space,
        payload: &[u8],
    ) -> Result<Response, S> {
        let loads = space == Space::Shared && self.is_broken(Mutant::LoadTheShared);
        let index = match space {
            Space::Numbered => self.store.index(&log),
            Space::Shared => self.store.shared_index(&log),
        };
        let mut index = index.map_err(LogsError::Store)?;
        let before = index.work_bytes();
        if loads {
            let all = 0..index.position(TOP).map_err(LogsError::Store)?;
            index.visit(all, &mut |_| {}).map_err(LogsError::Store)?;
        }
        let response = respond(&mut index, payload, &limits());
        let work = index.work_bytes().saturating_sub(before);
        drop(index);
        let response = response.map_err(|error| match error {
            StepError::Refused(refusal) => Failure::Refused(of_payload(&refusal)),
            StepError::Storage(error) => Failure::Failed(LogsError::Store(error)),
        });
        let budget = &mut self.peer(&peer)?.budget;
        budget.charge(work.saturating_add(payload.len() as u64), 0);
        response
    }

    /// The frame that is owed, its envelope read now; none if the envelope has gone since.
    pub(super) fn frame(&mut self, to: Did, owed: Owed) -> Closing<Option<Vec<u8>>, S> {
        let frame = match owed {
            Owed::Ack(log, id, seq) => Frame::SendAck { log, id, seq }.to_bytes(),
            Owed::Recon(log, space, turn, payload) => {
                // Nor the names of what is there.
                let answers = turn == Turn::Answer && !self.is_broken(Mutant::ServeTheRemoved);
                if answers && self.rules.access(&log, &to) == Access::None {
                    return Ok(None);
                }
                let payload = payload.as_slice();
                Frame::Recon {
                    log,
                    space,
                    turn,
                    payload,
                }
                .to_bytes()
            }
            Owed::Refuse(log, what, code, retry_ms) => {
                let code = code.as_str();
                Frame::Refuse {
                    log,
                    what,
                    code,
                    retry_ms,
                }
                .to_bytes()
            }
            Owed::Push(log, seq) => {
                // A member that was removed while it synchronised is given nothing more.
                let allowed = self.rules.access(&log, &to) != Access::None
                    || self.is_broken(Mutant::ServeTheRemoved);
                let envelope = self.store.envelope(&log, seq).map_err(LogsError::Store)?;
                let Some(envelope) = envelope.filter(|_| allowed) else {
                    return Ok(None);
                };
                self.counters.pushed += 1;
                if let Ok(peer) = self.peer(&to) {
                    peer.budget.charge(0, envelope.len() as u64);
                }
                let envelope = envelope.as_slice();
                Frame::Push { log, seq, envelope }.to_bytes()
            }
            Owed::Named(log, items) => {
                if self.rules.access(&log, &to) == Access::None {
                    return Ok(None);
                }
                let items = items.as_slice();
                Frame::Named { log, items }.to_bytes()
            }
            Owed::Send(log, id) => {
                let Some(seq) = self.find(&log, &id)? else {
                    return Ok(None);
                };
                let envelope = self.store.envelope(&log, seq).map_err(LogsError::Store)?;
                let Some(envelope) = envelope else {
                    return Ok(None);
                };
                let envelope = envelope.as_slice();
                Frame::Send { log, envelope }.to_bytes()
            }
            Owed::Post(log, id) => {
                let Some(envelope) = self.in_outbox(&log, &id)? else {
                    return Ok(None);
                };
                let envelope = envelope.as_slice();
                Frame::Send { log, envelope }.to_bytes()
            }
        };
        Ok(Some(frame))
    }

    /// A pushed envelope, from a peer that this node asked.
    pub(super) fn take_pushed(
        &mut self,
        log: LogId,
        envelope: &[u8],
        judged: super::Judged,
        place: Place,
        now_ms: u64,
    ) -> Result<u64, S> {
        let slot = super::book::HANDED_ON_SLOT;
        self.accept(log, judged, envelope, place, slot, now_ms)
    }
}

fn of_payload(refusal: &overlane_recon::Refusal) -> Refusal {
    Refusal::Recon {
        code: refusal.code(),
        reason: refusal.to_string(),
    }
}
