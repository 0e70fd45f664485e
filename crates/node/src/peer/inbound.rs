//! Frames on their way in: decoded, verified, staged, dispatched.

use std::sync::Arc;

use overlane_core::identity::{Delegation, Verified, VerifyContext};
use overlane_core::lane::chunks::ChunksOf;
use overlane_core::replay::{self, Forked, Introducer, Outcome};
use overlane_core::transaction::{Accepted, ForkEvidence, Payload};
use overlane_core::wire::cbor::from_slice;
use overlane_core::{Class, Coded, Did};

use super::chunks;
use super::counters::count;
use super::lanes::InboundLane;
use super::links::Link;
use super::story::{Step, named};
use super::{Delivery, Effect, Event, Now, Peer, PlaceId, Refusal, Released, Staged, VerifyTicket};
use crate::link::LinkId;

/// Frames of links that went down before their frames were admitted. Beyond it, the frames of
/// the link that goes down next are dropped.
pub const ORPHAN_FRAMES_MAX: usize = 1_024;

/// What became of a frame before it was staged.
pub(super) type Arrival = Result<Box<Verified<Payload>>, Refusal>;

/// What a verification worker found.
pub type VerifyResult = Result<Box<Verified<Payload>>, Refusal>;

/// A frame's two signatures and their delegations, to be checked on any thread.
#[derive(Debug)]
pub struct VerifyJob {
    pub(super) subject: Subject,
    pub(super) context: VerifyContext,
}

/// What is to be checked.
#[derive(Debug)]
pub(super) enum Subject {
    /// What a frame held.
    Frame(Box<Payload>),
    /// What the chunks of this message gave together, and the stream they are of.
    Whole(Vec<u8>, ChunksOf),
}

impl VerifyJob {
    /// Checks them. What passes is the only thing that the peer admits.
    ///
    /// # Errors
    /// [`Refusal`]: what does not hold.
    pub fn run(self) -> VerifyResult {
        match self.subject {
            Subject::Frame(payload) => Ok(Box::new(payload.verify(&self.context)?)),
            Subject::Whole(bytes, of) => chunks::verify(bytes, &of, &self.context),
        }
    }
}

impl Peer {
    /// A payload frame came on a link's lane.
    pub fn handle_frame(&mut self, link: LinkId, class: Class, frame: &[u8], now: Now) {
        let Some(state) = self.links.link(link).filter(|_| self.links.is_up(link)) else {
            return;
        };
        self.counters.frames_received = self.counters.frames_received.saturating_add(1);
        let peer = state.peer;
        let lane = (peer, class);
        if state.is_cut() {
            return self.refuse(link, lane, Refusal::LinkCut);
        }
        match read(state, self.did, class, frame) {
            Ok(payload) => {
                let ticket = self.arrivals.push_working(lane, link);
                let job = VerifyJob {
                    subject: Subject::Frame(Box::new(payload)),
                    context: self.verify_context(now),
                };
                self.effects.push_back(Effect::Verify { ticket, job });
            }
            Err(refusal) => {
                self.cut_for(link, &refusal);
                self.arrivals.push_ready(lane, link, Err(refusal));
                self.pump_lane(lane, now);
                self.settle(now);
            }
        }
    }

    /// A worker is done with a frame.
    pub fn handle_verified(&mut self, ticket: VerifyTicket, result: VerifyResult, now: Now) {
        self.gather.handle_verified();
        let known = result.as_ref().ok().map(|payload| {
            let origin = Arc::clone(payload.origin_delegation());
            (origin, Arc::clone(payload.hop_delegation()))
        });
        let of = result.as_ref().ok().map(|payload| named(payload));
        let arrival = result.and_then(|payload| {
            self.may_go_on(&payload)?;
            self.policy_allows(&payload, payload.hop())?;
            Ok(payload)
        });
        let refusal = arrival.as_ref().err().cloned();
        let refused = refusal.as_ref().map(Refusal::code);
        let finished = self.arrivals.finish(ticket, arrival);
        self.whole_verified(ticket, refusal.as_ref());
        let Some((lane, link)) = finished else {
            return;
        };
        if let (Some(of), Some(code)) = (of, refused) {
            self.note_step(of, Step::Refused { code }, now);
        }
        if let Some(refusal) = refusal {
            self.cut_for(link, &refusal);
            self.cut_for_bad_origins(link, &refusal, now);
        }
        if let Some((origin, hop)) = known {
            self.links.remember(link, &hop);
            self.links.remember(link, &origin);
            for delegation in [&hop, &origin] {
                self.note_account(delegation.did(), delegation.account(), now);
            }
        }
        self.pump_lane(lane, now);
        self.settle(now);
    }

    /// The application took a message that was dispatched: its place is free.
    pub fn handle_dispatch_taken(&mut self, place: PlaceId, now: Now) {
        let Some((lane, bytes)) = self.dispatched.remove(&place) else {
            return tracing::error!(?place, "a place was given back twice");
        };
        self.note_taken(place, now);
        self.counters.dispatched = self.counters.dispatched.saturating_add(1);
        self.free_place(lane, bytes, now);
        self.settle(now);
    }

    /// A handler of a message that was dispatched was ended at its deadline.
    pub fn handle_handler_late(&mut self, place: PlaceId, now: Now) {
        self.counters.handlers_late = self.counters.handlers_late.saturating_add(1);
        self.handle_dispatch_taken(place, now);
    }

    /// A handler of a message that was dispatched panicked.
    pub fn handle_handler_broke(&mut self, place: PlaceId, now: Now) {
        self.counters.handlers_broken = self.counters.handlers_broken.saturating_add(1);
        self.handle_dispatch_taken(place, now);
    }

    pub(super) fn free_place(&mut self, (peer, class): InboundLane, bytes: u64, now: Now) {
        self.dispatch.free_place(class, peer, bytes);
        self.serve_waiting(class, now);
    }

    /// Moves the lane's known frames on: refused ones out, good ones to the engine while the
    /// application's side has a place for their class.
    fn pump_lane(&mut self, lane: InboundLane, now: Now) {
        let (peer, class) = lane;
        while let Some(arrival) = self.arrivals.head(lane) {
            match arrival {
                Ok(payload) if payload.stream().destination != self.did => {}
                Ok(payload) if payload.chunk().is_some() => {
                    self.take_chunk(lane, now);
                    continue;
                }
                Ok(payload) => {
                    let bytes = place_bytes(payload);
                    if !self.dispatch.take_place(class, peer, bytes) {
                        return;
                    }
                }
                Err(_) => {}
            }
            self.move_head(lane, now);
        }
    }

    /// Places came free: the lanes that wait for one take turns.
    fn serve_waiting(&mut self, class: Class, now: Now) {
        while let Some((peer, bytes)) = self.dispatch.next_turn(class) {
            let lane = (peer, class);
            match self.waiting_bytes(lane) {
                Some(_) => self.move_head(lane, now),
                None => self.dispatch.free_place(class, peer, bytes),
            }
            self.pump_lane(lane, now);
        }
    }

    /// Moves a lane's first frame on; a good one holds its place already. Its credit goes back.
    fn move_head(&mut self, lane: InboundLane, now: Now) {
        let Some((link, arrival)) = self.arrivals.pop(lane) else {
            return;
        };
        match arrival {
            Ok(payload) if payload.stream().destination != self.did => {
                self.note_came(lane.0, &payload, now);
                self.forward(link, lane, *payload, now);
            }
            Ok(payload) => self.stage(link, lane, *payload, now),
            Err(refusal) => self.refuse(link, lane, refusal),
        }
        let class = lane.1;
        self.effects.push_back(Effect::Taken { link, class });
        self.retire_link(link);
    }

    fn stage(&mut self, link: LinkId, lane: InboundLane, payload: Verified<Payload>, now: Now) {
        // A link stays in the table, and holds its slot, as long as a frame of it is here.
        let slot = self.links.link(link).map(|link| link.slot);
        let introducer = slot.map_or(Introducer::Own, Introducer::Slot);
        self.whole_staged(&payload);
        self.note_came(lane.0, &payload, now);
        let bytes = place_bytes(&payload);
        let ticket = self.engine.stage_admission(payload, introducer, now);
        self.staged
            .insert(ticket, Staged::Admission(link, lane, bytes));
    }

    /// The engine released an admission, or refused it.
    pub(super) fn released(
        &mut self,
        link: LinkId,
        lane: InboundLane,
        bytes: u64,
        outcome: Released,
        now: Now,
    ) {
        match outcome {
            Outcome::Admitted(admitted) => {
                let verdict = admitted.verdict();
                self.note_step(named(admitted.item()), Step::Admitted { verdict }, now);
                if self.is_about_mail(&admitted) {
                    self.counters.own_received = self.counters.own_received.saturating_add(1);
                    let slot = self.links.link(link).map(|link| link.slot.number());
                    return self.take_said(&admitted, lane, slot, bytes, now);
                }
                if !self.is_for_ring(&admitted) {
                    self.note_admitted(&admitted, now);
                    self.tell_admitted(&admitted);
                    self.remember_admitted(&admitted, now);
                    return self.open_admitted(link, lane, bytes, admitted, now);
                }
                self.counters.ring_received = self.counters.ring_received.saturating_add(1);
                if let Err(refusal) = self.take_ring_message(admitted, lane.0, now) {
                    self.refuse(link, lane, refusal);
                }
                self.free_place(lane, bytes, now);
            }
            Outcome::Refused { refusal, item } => {
                if let (replay::Refusal::Fork(forked), Some(offered)) = (&refusal, &item) {
                    self.keep_evidence(forked, offered, now);
                }
                if let Some(offered) = &item {
                    self.whole_refused(&refusal, offered);
                    let code = refusal.code();
                    self.note_step(named(offered), Step::Refused { code }, now);
                }
                self.refuse(link, lane, refusal.into());
                self.free_place(lane, bytes, now);
            }
            // Nothing else answers an admission from a link.
            other => tracing::error!(?other, "an admission was answered by something else"),
        }
    }

    /// Hands an admitted message, opened where it was sealed, to whom it is for.
    pub(super) fn hand_over(
        &mut self,
        lane: InboundLane,
        bytes: u64,
        admitted: Delivery,
        now: Now,
    ) {
        let Some(admitted) = self.keep_from_application(admitted, lane, bytes, now) else {
            return;
        };
        let place = PlaceId(self.next_place);
        self.next_place += 1;
        self.dispatched.insert(place, (lane, bytes));
        self.note_place(place, named(admitted.item()), now);
        self.effects.push_back(Effect::Dispatch {
            place,
            class: lane.1,
            delivery: Box::new(admitted),
        });
    }

    fn tell_admitted(&mut self, admitted: &Delivery) {
        let payload = admitted.item();
        self.tell(Event::Admitted {
            stream: payload.stream(),
            sequence: payload.sequence(),
            digest: payload.digest(),
            verdict: admitted.verdict(),
        });
    }

    /// Signs what shows that an origin signed twice, and stages it for the fork log, which keeps a
    /// stream's first.
    fn keep_evidence(&mut self, forked: &Forked, offered: &Verified<Payload>, now: Now) {
        let kept = |stream| self.engine.forks().any(|fork| fork.stream == stream);
        if kept(forked.stream) {
            return;
        }
        let header = forked.accepted_header.as_deref();
        let accepted = match header.and_then(|header| from_slice(header).ok()) {
            Some(header) => Accepted::Header(Box::new(header)),
            None => Accepted::Digest(forked.accepted),
        };
        let offered = offered.header();
        let evidence = ForkEvidence::report(accepted, offered, &self.signer, now.wall_ms);
        match evidence.verify() {
            Ok(evidence) => {
                self.engine.stage_evidence(&evidence);
            }
            Err(error) => tracing::error!(%error, stream = %forked.stream, "no evidence of a fork"),
        }
    }

    /// Ends the link of a frame that only its own peer can have made so: a refusal would give the
    /// credit back for the next one, and the verification workers would serve it for ever.
    fn cut_for(&mut self, link: LinkId, refusal: &Refusal) {
        if refusal.cuts_link() && self.links.cut(link) {
            let code = refusal.code();
            count(&mut self.counters.links_cut, code);
            self.effects.push_back(Effect::Cut { link, code });
        }
    }

    /// Ends a link that passes on bad transactions faster than [`BAD_ORIGINS`](super::BAD_ORIGINS).
    fn cut_for_bad_origins(&mut self, link: LinkId, refusal: &Refusal, now: Now) {
        if !refusal.is_bad_origin() || self.links.bad_origin(link, now.steady_ms) {
            return;
        }
        if self.links.cut(link) {
            let code = Refusal::BadOrigins.code();
            count(&mut self.counters.links_cut, code);
            self.effects.push_back(Effect::Cut { link, code });
        }
    }

    pub(super) fn refuse(&mut self, link: LinkId, (peer, class): InboundLane, refusal: Refusal) {
        count(&mut self.counters.refused, refusal.code());
        self.tell(Event::Refused {
            link,
            peer,
            class,
            refusal,
        });
    }

    /// A link went down: what it brought whole may still be admitted, within the bound.
    pub(super) fn handle_orphans(&mut self, link: LinkId, peer: Did, now: Now) {
        let orphans = self.arrivals.count(|link| !self.links.is_up(link));
        if orphans > ORPHAN_FRAMES_MAX {
            self.chunks.drop_link(link);
            for (class, frames) in self.arrivals.forget(peer, link) {
                let lane = (peer, class);
                for _ in 0..frames {
                    self.refuse(link, lane, Refusal::Orphaned);
                }
                self.pump_lane(lane, now);
            }
        }
        self.retire_link(link);
    }

    /// Forgets a link that is down once its last frame has left, and frees its slot.
    pub(super) fn retire_link(&mut self, link: LinkId) {
        if self.links.is_up(link) || self.arrivals.count(|of| of == link) > 0 {
            return;
        }
        if let Some(retired) = self.links.retire(link) {
            self.engine.release_slot(retired.slot);
        }
    }
}

/// What a message holds of its class's bytes on the application's side.
pub(super) fn place_bytes(payload: &Verified<Payload>) -> u64 {
    u64::try_from(payload.data_bytes()).unwrap_or(u64::MAX)
}

/// Frame bounds, then decoding, then what needs no signature to be wrong. Delegations that the link showed before are put in as verified; all
/// else about them is asked again.
fn read(link: &Link, own: Did, lane: Class, frame: &[u8]) -> Result<Payload, Refusal> {
    let mut payload = Payload::from_frame_knowing(frame, |digest| link.known(digest))?;
    let signed = payload.transaction().data().class();
    if signed != lane {
        return Err(Refusal::WrongLane { signed, lane });
    }
    let next_hop = payload.relay().next_hop;
    if next_hop != own {
        return Err(Refusal::WrongNextHop { next_hop });
    }
    payload.resolve(|named| link.known(named.digest()))?;
    let hop = payload.hop_proof().delegation().delegation();
    if let Some(signer) = hop.map(Delegation::did).filter(|&did| did != link.peer) {
        return Err(Refusal::WrongHop { signer });
    }
    Ok(payload)
}
