//! Messages in chunks on their way in: gathered in their lane's order, checked as a whole, admitted
//! once.
//!
//! Law **lane order** holds for them too: a message takes the place of its last chunk in the lane, and
//! what came behind it waits until its signatures are checked. The last chunk's credit goes back when
//! the message leaves the lane, so a peer cannot heap whole messages up. Chunks pay no quota and touch
//! no window; the message does both once. Source: protocol decision 6 (chunks), seed 1.

use overlane_core::identity::{Verified, VerifyContext};
use overlane_core::lane::chunks::{ChunkRefusal, ChunksOf, Gathered};
use overlane_core::replay;
use overlane_core::transaction::{Message, Payload};

use super::inbound::{Subject, place_bytes};
use super::lanes::InboundLane;
use super::{Effect, Now, Peer, Refusal, VerifyJob, VerifyResult, VerifyTicket};

impl Peer {
    /// Takes the chunk at the head of a lane.
    pub(super) fn take_chunk(&mut self, lane: InboundLane, now: Now) {
        let Some((link, Ok(payload))) = self.arrivals.pop(lane) else {
            return;
        };
        let class = lane.1;
        let of = chunks_of(&payload);
        let gathered = match payload.message() {
            Message::Chunk(chunk) => self.chunks.take(link, of, &chunk, now),
            _ => return,
        };
        self.counters.chunks_received = self.counters.chunks_received.saturating_add(1);
        match gathered {
            Ok(Gathered::Whole(bytes)) => {
                let ticket = self.arrivals.push_front_working(lane, link);
                self.wholes.insert(ticket, of);
                let job = VerifyJob {
                    subject: Subject::Whole(bytes, of),
                    context: self.verify_context(now),
                };
                // The message gives the credit back, in the chunk's place.
                return self.effects.push_back(Effect::Verify { ticket, job });
            }
            Ok(Gathered::Waits | Gathered::Again) => {}
            Err(refusal) => self.refuse(link, lane, refusal.into()),
        }
        self.effects.push_back(Effect::Taken { link, class });
        self.retire_link(link);
    }

    /// A worker is done with a message that chunks gave; what was refused is held no more.
    pub(super) fn whole_verified(&mut self, ticket: VerifyTicket, refusal: Option<&Refusal>) {
        let Some(of) = self.wholes.remove(&ticket) else {
            return;
        };
        match refusal {
            Some(Refusal::Chunk(ChunkRefusal::NotWhole)) => self.chunks.release(&of),
            // What the chunks are together is right; it is this node that could not go on.
            Some(_) => self.chunks.reopen(&of),
            None => {}
        }
    }

    /// A message is with the engine: it is held on the application's side from now on.
    pub(super) fn whole_staged(&mut self, payload: &Verified<Payload>) {
        if payload.transaction().data().is_large() {
            self.chunks.release(&chunks_of(payload));
        }
    }

    /// The engine refused a message: one that chunks gave may come again, unless it is refused for ever.
    pub(super) fn whole_refused(&mut self, refusal: &replay::Refusal, payload: &Verified<Payload>) {
        if payload.transaction().data().is_large() && !refusal.is_final() {
            self.chunks.reopen(&chunks_of(payload));
        }
    }

    /// What the lane's first message takes on the application's side, if it is known, good, and for
    /// this node.
    pub(super) fn waiting_bytes(&self, lane: InboundLane) -> Option<u64> {
        let head = self.arrivals.head(lane)?.as_ref().ok()?;
        let here = head.stream().destination == self.did && head.chunk().is_none();
        here.then(|| place_bytes(head))
    }
}

/// Checks what chunks gave together: a payload, by the origin they are of, of their stream.
pub(super) fn verify(bytes: Vec<u8>, of: &ChunksOf, context: &VerifyContext) -> VerifyResult {
    let payload = Payload::from_whole(&bytes);
    drop(bytes);
    // Whoever carried the chunks could not see what they are together: this is the origin's doing.
    let not_whole = || Refusal::Chunk(ChunkRefusal::NotWhole);
    let mut payload = payload.map_err(|_| not_whole())?;
    payload.resolve(|_| None).map_err(|_| not_whole())?;
    let verified = payload.verify(context).map_err(|_| not_whole())?;
    if chunks_of(&verified) != *of || verified.hop() != of.origin {
        return Err(not_whole());
    }
    Ok(Box::new(verified))
}

fn chunks_of(payload: &Verified<Payload>) -> ChunksOf {
    ChunksOf {
        origin: payload.origin(),
        class: payload.class(),
        sequence: payload.sequence(),
        tx_id: payload.transaction().tx_id(),
    }
}
