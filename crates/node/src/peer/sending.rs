//! How a peer sends: one stream's messages in their order, from the pace to the lane.

use std::sync::Arc;

use bytes::Bytes;
use overlane_core::identity::{DelegationReason, Life, LifeError};
use overlane_core::replay::{self, Outcome, Reservation};
use overlane_core::transaction::{
    Cutter, PROOF_TTL_DEFAULT_MS, Payload, RelayFields, SignError, Terms, Transaction,
};
use overlane_core::wire::bounds::FRAME_MAX_BYTES;
use overlane_core::{Class, Coded, Did, StreamKey};

use super::counters::count;
use super::outbound::{Cut, FORWARDED, LaneKey, Next, OutKey, Paced, Placed, Placing};
use super::ring::is_own;
use super::story::Step;
use super::{
    Effect, Event, LaneAnswer, Now, Outgoing, Peer, Receipt, Released, SendError, SendId, Staged,
};
use crate::link::LinkId;

impl Peer {
    /// Signs a message and puts it in the destination's lane. The result comes as
    /// [`Effect::Sent`]. Whoever stops waiting for it abandons only the wait.
    pub fn send(&mut self, id: SendId, outgoing: Outgoing, now: Now) {
        match self.check_send(outgoing.destination, now) {
            Ok(()) => self.take_on(id, outgoing, now),
            Err(error) => self.sent(id, Err(error)),
        }
    }

    /// A send that may be signed begins, if it finds a place.
    pub(super) fn take_on(&mut self, id: SendId, outgoing: Outgoing, now: Now) {
        if !self
            .outbound
            .begin(outgoing.destination, outgoing.data_bytes())
        {
            return self.sent(id, Err(SendError::TooManyPending));
        }
        self.begin_send(id, outgoing, now);
        self.settle(now);
    }

    /// Carries a signed transaction to `via`, or to its destination, under a hop proof of this node
    /// and now. The transaction stays as it is, unchecked, and no sequence is reserved: the
    /// destination judges it as it judges any.
    pub fn offer_again(&mut self, id: SendId, signed: &[u8], via: Option<Did>, now: Now) {
        let (receipt, link, neighbour, cut) = match self.carry_again(signed, via, now) {
            Ok(carried) => carried,
            Err(error) => return self.sent(id, Err(error)),
        };
        let bytes = u64::try_from(receipt.signed.len()).unwrap_or(u64::MAX);
        if !self.outbound.begin(receipt.stream.destination, bytes) {
            return self.sent(id, Err(SendError::TooManyPending));
        }
        self.note_sent(id, &receipt, neighbour);
        self.note_send(id, &receipt, Step::OfferedAgain, now);
        self.note_way(id, &receipt, neighbour, now);
        let lane = (link, receipt.stream.class);
        let placing = Placing {
            id,
            receipt,
            paced: None,
            cut,
            bytes,
        };
        self.place(lane, neighbour, placing, now);
    }

    /// What became of the frame of an [`Effect::Send`].
    pub fn handle_lane(&mut self, link: LinkId, class: Class, answer: LaneAnswer, now: Now) {
        let lane = (link, class);
        let placing = match self.outbound.answer(lane, answer) {
            Some(Placed::Done(placing)) => *placing,
            Some(Placed::More(..)) | None if self.take_back_head(lane) => {
                self.pump_out_lane(lane, now);
                return self.settle(now);
            }
            Some(Placed::More(id, placed_bytes, total_bytes)) => {
                self.tell(Event::SendProgress {
                    id,
                    placed_bytes,
                    total_bytes,
                });
                return self.pump_out_lane(lane, now);
            }
            None => return,
        };
        if answer == LaneAnswer::Gone {
            self.links.gone(link);
            if let Some(peer) = self.links.link(link).map(|link| link.peer) {
                self.ring_links_changed(peer, now);
            }
            self.place_elsewhere(link, placing, now);
            self.pump_out_lane(lane, now);
            return self.settle(now);
        }
        let peer = self.links.link(link).map(|link| link.peer);
        let step = Step::InLane { link, peer };
        self.note_send(placing.id, &placing.receipt, step, now);
        if placing.id == FORWARDED {
            self.was_forwarded(class);
        } else {
            let counter = match placing.paced {
                _ if is_own(placing.id) => &mut self.counters.ring_sent,
                Some(_) => &mut self.counters.sent,
                None => &mut self.counters.offered_again,
            };
            *counter = counter.saturating_add(1);
            let to = placing.receipt.stream.destination;
            self.outbound
                .end(placing.id, to, placing.bytes, placing.paced);
            self.sent(placing.id, Ok(placing.receipt));
        }
        self.pump_out_lane(lane, now);
        self.settle(now);
    }

    /// A lane that was full has room again.
    pub fn handle_lane_room(&mut self, link: LinkId, class: Class, now: Now) {
        self.outbound.room((link, class));
        self.pump_out_lane((link, class), now);
    }

    /// Reserves a sequence for each message of the stream that may be signed now.
    pub(super) fn reserve(&mut self, stream: OutKey, now: Now) {
        while let Some((id, outgoing)) = self.outbound.pass(stream, now.steady_ms) {
            let key = StreamKey {
                network: self.network,
                origin: self.did,
                destination: stream.0,
                class: stream.1,
            };
            let ticket = self.engine.stage_reservation(key, 1, now);
            let staged = Staged::Reservation(stream, id, Box::new(outgoing));
            self.staged.insert(ticket, staged);
        }
    }

    /// The engine released a reservation, or refused it.
    pub(super) fn reserved(
        &mut self,
        stream: OutKey,
        id: SendId,
        outgoing: Outgoing,
        outcome: Released,
        now: Now,
    ) {
        let destination = stream.0;
        let bytes = outgoing.data_bytes();
        if self.outbound.is_withdrawn(id) {
            let paced = (stream, bytes);
            return self.take_back_paced(id, paced, outgoing.data.is_large());
        }
        let way = self.way(destination, (outgoing.via, outgoing.reply_via));
        if let (Outcome::Reserved(reservation), None) = (&outcome, way)
            && self.mail.is_to_be_held(id)
        {
            let direct = RelayFields::direct(destination);
            let signed = self.sign(outgoing, reservation, direct, now);
            self.outbound
                .end(id, destination, bytes, Some((stream, bytes)));
            return match signed {
                Ok((receipt, _)) => {
                    self.note_send(id, &receipt, Step::Signed, now);
                    self.sent(id, Ok(receipt));
                }
                Err(error) => self.sent(id, Err(SendError::Sign(error))),
            };
        }
        let signed = match (outcome, way) {
            (Outcome::Reserved(reservation), Some((link, relay))) => self
                .sign(outgoing, &reservation, relay, now)
                .map(|receipt| (link, relay.next_hop, receipt))
                .map_err(SendError::Sign),
            (Outcome::Refused { refusal, .. }, _) => Err(SendError::Replay(refusal)),
            (_, _) => Err(SendError::Unreachable { destination }),
        };
        match signed {
            Ok((link, next_hop, (receipt, cut))) => {
                self.note_sent(id, &receipt, next_hop);
                self.note_send(id, &receipt, Step::Signed, now);
                self.note_way(id, &receipt, next_hop, now);
                let lane = (link, stream.1);
                let placing = Placing {
                    id,
                    receipt,
                    paced: Some((stream, bytes)),
                    cut,
                    bytes,
                };
                self.place(lane, next_hop, placing, now);
            }
            Err(error) => {
                self.outbound
                    .end(id, destination, bytes, Some((stream, bytes)));
                self.sent(id, Err(error));
            }
        }
    }

    /// A link went down: what waits for its lanes, and what waits for no other link.
    pub(super) fn abandon_lanes(&mut self, link: LinkId, peer: Did, now: Now) {
        for placing in self.outbound.drain_lanes(link).into_iter().rev() {
            self.place_elsewhere(link, placing, now);
        }
        if self.way(peer, (None, None)).is_none() {
            // What can be held is signed all the same when its turn comes.
            let stays = |id| self.mail.is_to_be_held(id);
            let drained = self.outbound.drain_waiting(peer, stays);
            for (id, bytes) in drained {
                self.abandon(id, bytes, None, peer);
            }
        }
    }

    /// Signed bytes join their lane, behind what still waits for another link to this neighbour: that
    /// one gives way, and what is older goes first.
    pub(super) fn place(&mut self, lane: LaneKey, neighbour: Did, placing: Placing, now: Now) {
        let (link, class) = lane;
        for other in self.links.others(neighbour, link) {
            self.outbound.move_lane((other, class), lane);
        }
        self.outbound.queue(lane, placing);
        self.pump_out_lane(lane, now);
    }

    /// A link took no frame any more: another to the same neighbour does, if one is up.
    fn place_elsewhere(&mut self, link: LinkId, mut placing: Placing, now: Now) {
        if self.outbound.is_withdrawn(placing.id) {
            return self.take_back(placing);
        }
        // Which chunks came over the link that is gone, nobody knows.
        if let Some(cut) = &mut placing.cut {
            cut.next = 0;
        }
        let neighbour = self.links.link(link).map(|link| link.peer);
        let other = neighbour.and_then(|neighbour| self.links.to(neighbour));
        // Otherwise the same transaction goes to another neighbour, under another hop proof.
        let other = other.or_else(|| {
            if let Some(cut) = &mut placing.cut {
                let (other, relay) = self.way(placing.receipt.stream.destination, (None, None))?;
                cut.relay = relay;
                self.note_sent(placing.id, &placing.receipt, relay.next_hop);
                self.note_way(placing.id, &placing.receipt, relay.next_hop, now);
                return Some(other);
            }
            let (other, receipt, neighbour) = self.carry_elsewhere(&placing.receipt, now)?;
            placing.receipt = receipt;
            // Who was to be its last hop is not any more: that it does not arrive may be reported.
            self.note_sent(placing.id, &placing.receipt, neighbour);
            self.note_way(placing.id, &placing.receipt, neighbour, now);
            Some(other)
        });
        match other {
            Some(other) => {
                let lane = (other, placing.receipt.stream.class);
                self.outbound.queue_first(lane, placing);
                self.pump_out_lane(lane, now);
            }
            None if placing.id == FORWARDED => self.drop_forwarded(&placing.receipt, now),
            // Signed as it is, it is held.
            None if self.mail.is_to_be_held(placing.id) => {
                let to = placing.receipt.stream.destination;
                self.outbound
                    .end(placing.id, to, placing.bytes, placing.paced);
                self.sent(placing.id, Ok(placing.receipt));
            }
            None => {
                let code = "send/unreachable";
                self.note_send(placing.id, &placing.receipt, Step::NotSent { code }, now);
                let destination = placing.receipt.stream.destination;
                self.abandon(placing.id, placing.bytes, placing.paced, destination);
            }
        }
    }

    fn note_way(&mut self, id: SendId, receipt: &Receipt, neighbour: Did, now: Now) {
        let class = receipt.stream.class;
        self.note_send(id, receipt, Step::Way { neighbour, class }, now);
    }

    pub(super) fn check_send(&self, destination: Did, now: Now) -> Result<(), SendError> {
        if !self.has_store {
            return Err(replay::Refusal::StorageUnavailable.into());
        }
        // Others would refuse it, and its sequence would be gone.
        let live = self
            .signer
            .delegation()
            .check_live(&self.verify_context(now));
        if let Err(error) = live
            && matches!(
                error.reason,
                DelegationReason::Life(LifeError::Expired { .. })
            )
        {
            return Err(SendError::NotDelegated(error));
        }
        if destination == self.did {
            return Err(SendError::ToItself { destination });
        }
        match self.way(destination, (None, None)) {
            Some(_) => Ok(()),
            None => Err(SendError::Unreachable { destination }),
        }
    }

    fn sign(
        &self,
        outgoing: Outgoing,
        reservation: &Reservation,
        relay: RelayFields,
        now: Now,
    ) -> Result<(Receipt, Option<Cut>), SignError> {
        let life = Life {
            issued_ms: now.wall_ms,
            ttl_ms: outgoing.ttl_ms,
        };
        let terms = Terms {
            destination: outgoing.destination,
            tx_id: outgoing.tx_id,
            sequence: reservation.first(),
            life,
        };
        let transaction = Transaction::sign_data(terms, outgoing.data, &self.signer)?;
        let (stream, digest) = transaction.claims()?;
        let payload = Payload::carry(transaction, relay, &self.signer, life)?;
        let signed = Bytes::from(payload.to_frame(|_| false));
        let cut = self.cut(&payload, &signed)?;
        let receipt = Receipt {
            stream,
            sequence: reservation.first(),
            digest,
            signed,
        };
        Ok((receipt, cut))
    }

    /// How a payload is cut, if it is too large for one frame.
    fn cut(&self, payload: &Payload, signed: &Bytes) -> Result<Option<Cut>, SignError> {
        if !payload.transaction().data().is_large() {
            return Ok(None);
        }
        let relay = *payload.relay();
        let cutter = Cutter::new(payload, signed.clone(), relay, &self.signer)?;
        Ok(Some(Cut {
            cutter: Arc::new(cutter),
            next: 0,
            relay,
        }))
    }

    /// The transaction in a signed frame, carried anew, and to whom. What it says of itself is not
    /// checked.
    fn carry_again(
        &self,
        signed: &[u8],
        via: Option<Did>,
        now: Now,
    ) -> Result<(Receipt, LinkId, Did, Option<Cut>), SendError> {
        let read = match signed.len() > FRAME_MAX_BYTES {
            true => Payload::from_whole(signed),
            false => Payload::from_frame(signed),
        };
        let transaction = read.map_err(SendError::NotSigned)?.into_transaction();
        let (stream, digest) = transaction.claims()?;
        let sequence = transaction.sequence();
        let destination = stream.destination;
        if destination == self.did && via.is_none() {
            return Err(SendError::ToItself { destination });
        }
        let way = match via {
            Some(neighbour) => self
                .links
                .to(neighbour)
                .map(|link| (link, RelayFields::direct(neighbour))),
            None => self.way(destination, (None, None)),
        };
        let destination = via.unwrap_or(destination);
        let (link, relay) = way.ok_or(SendError::Unreachable { destination })?;
        let life = Life {
            issued_ms: now.wall_ms,
            ttl_ms: PROOF_TTL_DEFAULT_MS,
        };
        let payload = Payload::carry(transaction, relay, &self.signer, life)?;
        let signed = Bytes::from(payload.to_frame(|_| false));
        let cut = self.cut(&payload, &signed)?;
        let receipt = Receipt {
            stream,
            sequence,
            digest,
            signed,
        };
        Ok((receipt, link, relay.next_hop, cut))
    }

    /// Gives the driver the lane's next frame, one at a time.
    pub(super) fn pump_out_lane(&mut self, lane: LaneKey, now: Now) {
        let (link, class) = lane;
        let frame = match self.outbound.next_frame(lane, now.steady_ms) {
            Some(Next::Frame(frame)) => frame.to_vec(),
            Some(Next::Chunk(cutter, index, relay, of)) => {
                match self.chunk(&cutter, index, relay, now) {
                    Ok(chunk) => {
                        self.note_chunk(&chunk, of);
                        chunk.to_frame(|_| false)
                    }
                    Err(error) => return self.give_up(lane, error),
                }
            }
            None => return,
        };
        self.effects.push_back(Effect::Send { link, class, frame });
    }

    fn chunk(
        &self,
        cutter: &Cutter<Bytes>,
        index: u32,
        relay: RelayFields,
        now: Now,
    ) -> Result<Payload, SignError> {
        let hop = Life {
            issued_ms: now.wall_ms,
            ttl_ms: PROOF_TTL_DEFAULT_MS,
        };
        cutter.chunk(index, relay, &self.signer, hop)
    }

    /// The message at the head of a lane cannot be signed.
    fn give_up(&mut self, lane: LaneKey, error: SignError) {
        let gone = self.outbound.answer(lane, LaneAnswer::Gone);
        if let Some(Placed::Done(placing)) = gone {
            let placing = *placing;
            let to = placing.receipt.stream.destination;
            self.outbound
                .end(placing.id, to, placing.bytes, placing.paced);
            self.sent(placing.id, Err(SendError::Sign(error)));
        }
    }

    fn abandon(&mut self, id: SendId, bytes: u64, paced: Option<Paced>, destination: Did) {
        self.outbound.end(id, destination, bytes, paced);
        self.sent(id, Err(SendError::Unreachable { destination }));
    }

    pub(super) fn sent(&mut self, id: SendId, result: Result<Receipt, SendError>) {
        if Self::is_sessions(id) || self.ring_sent(id, &result) {
            return;
        }
        if let Err(error) = &result {
            count(&mut self.counters.sends_refused, error.code());
        }
        if self.is_own_send(id, &result) || self.said_of_mail(id, &result) {
            return;
        }
        self.note_mail_sent(id, &result);
        self.effects.push_back(Effect::Sent { id, result });
    }
}
