//! Receiving: a frame is judged and applied in one order, and an error anywhere undoes all of it.
//!
//! First whether it came before, then its acknowledgement, then what the acknowledgement settles,
//! then its operations. The peer had processed what it acknowledges when it wrote the operations.

use super::Tables;
use super::link::{Due, Entry, Head, Pending, Way};
use super::local::{Decider, Object, Owner, Promise, Source};
use super::mutant::Mutant;
use super::names::{By, Id, LinkId, Local, LocalObject, LocalPromise};
use super::step::{Step, Transmit};
use super::tx::{Tx, Work};
use crate::refs::error::LinkError;
use crate::refs::wire::{
    AckOnly, AsKind, Body, Frame, Hardness, Kind, Numbered, Op, Outcome, Reason, Seq, Slot, WireId,
};
use std::sync::Arc;

impl Tables {
    /// A frame of the other end of `link` arrived.
    ///
    /// What no honest peer sends ends the epoch of the link, which is told by the step; the frame
    /// itself then had no effect. Frames for a link without an epoch are counted and ignored.
    pub fn handle_frame(&mut self, link: LinkId, bytes: &[u8], now_ms: u64) -> Step {
        let early_ack = self.ack_on_receipt(link, bytes);
        match self.transact(now_ms, |tx| tx.receive(link, bytes)) {
            Ok(((), mut step)) => {
                if let Some(early) = early_ack {
                    step.transmits.insert(0, early);
                }
                step
            }
            Err(cause) => self.end(link, cause, now_ms),
        }
    }

    /// The broken rule of [`Mutant::AckOnReceipt`].
    fn ack_on_receipt(&self, link: LinkId, bytes: &[u8]) -> Option<Transmit> {
        if !self.is(Mutant::AckOnReceipt) {
            return None;
        }
        let table = self.links.get(&link)?;
        let head = table.head.get();
        match Frame::from_bytes(bytes) {
            Ok(Frame::Numbered(frame)) if frame.seq == Some(Seq(head.recv.0 + 1)) => {}
            _ => return None,
        }
        let ack = Frame::AckOnly(AckOnly {
            epoch: table.epoch,
            after: head.sent,
            recv: Seq(head.recv.0 + 1),
        });
        Some(Transmit {
            link,
            seq: None,
            bytes: ack.to_bytes().into(),
        })
    }
}

impl Tx<'_> {
    fn receive(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), LinkError> {
        let Some(table) = self.link(link) else {
            self.step.counts.stale += 1;
            return Ok(());
        };
        let ours = table.epoch;
        let frame = Frame::from_bytes(bytes)?;
        let theirs = frame.epoch();
        if theirs != ours {
            if theirs > ours && matches!(frame, Frame::Resume(_)) {
                return Err(LinkError::OtherEpoch { theirs, ours });
            }
            self.step.counts.stale += 1;
            return Ok(());
        }
        match frame {
            Frame::Numbered(frame) => self.receive_numbered(link, frame),
            Frame::AckOnly(ack) => self.receive_ack(link, ack),
            Frame::Resume(resume) => self.receive_resume(link, resume),
            Frame::Close(close) => Err(LinkError::PeerClosed {
                code: close.code,
                text: close.text,
            }),
        }
    }

    fn receive_numbered(&mut self, link: LinkId, frame: Numbered) -> Result<(), LinkError> {
        let counts_twice = self.is(Mutant::DuplicatesCount);
        let now_ms = self.now_ms;
        let Some(table) = self.link_mut(link) else {
            return Ok(());
        };
        let head = *table.head.get();
        let next = Seq(head.recv.0.saturating_add(1));
        let seq = frame.seq.unwrap_or(next);
        if seq < next {
            // It was lost on the way back that this one is known: say it again.
            let head = table.head.change();
            head.ack_due_ms.get_or_insert(now_ms);
            if counts_twice {
                head.acked_by_frames.0 += frame.ack_delta;
                head.peer_acked = head.peer_acked.max(head.acked_by_frames).min(head.sent);
            }
            self.step.counts.duplicates += 1;
            return Ok(());
        }
        if seq > next {
            self.step.counts.gaps += 1;
            self.ask_again(link);
            return Ok(());
        }
        let acked = head.acked_by_frames.0.saturating_add(frame.ack_delta);
        self.raise_ack(link, Seq(acked))?;
        if let Some(table) = self.link_mut(link) {
            let quiet = frame.ops.iter().all(|op| matches!(op, Op::Deliver { .. }));
            let (delay, half) = (
                table.limits.ack_delay_ms,
                u64::from(table.limits.unacked_frames.div_ceil(2)),
            );
            let limit = table.limits.frames_per_s;
            let head = table.head.change();
            let (since_ms, count) = (&mut head.frames_since_ms, &mut head.frames);
            if Head::is_over(since_ms, count, now_ms, limit) {
                let what = "frames a second";
                return Err(LinkError::LimitExceeded { what, limit });
            }
            head.acked_by_frames = Seq(acked);
            head.recv = seq;
            head.asked_ms = None;
            head.unacked_in += 1;
            let urgent = head.unacked_in >= half;
            if urgent {
                head.ack_due_ms = Some(now_ms);
            } else if !quiet {
                let due_ms = now_ms.saturating_add(delay);
                head.ack_due_ms.get_or_insert(due_ms);
            }
        }
        self.step.cause = Some((link, seq));
        for op in frame.ops {
            self.apply(link, op, Seq(acked))?;
            self.drain();
        }
        self.lift_holds(link);
        Ok(())
    }

    fn apply(&mut self, link: LinkId, op: Op, acked: Seq) -> Result<(), LinkError> {
        match op {
            Op::Deliver {
                target,
                result,
                body,
            } => self.receive_message(link, target, result, &body),
            Op::Resolve(resolutions) => self.receive_resolutions(link, resolutions),
            Op::Drop(ids) => ids
                .into_iter()
                .try_for_each(|id| self.receive_drop(link, id, acked)),
            Op::Revoke(revocations) => revocations
                .into_iter()
                .try_for_each(|revocation| self.receive_revocation(link, revocation)),
        }
    }

    fn receive_ack(&mut self, link: LinkId, ack: AckOnly) -> Result<(), LinkError> {
        let gullible = self.is(Mutant::AckAcrossGap);
        let Some(table) = self.link(link) else {
            return Ok(());
        };
        let recv = table.head.get().recv;
        if ack.after > recv && !gullible {
            self.step.counts.gaps += 1;
            self.ask_again(link);
            return Ok(());
        }
        self.raise_ack(link, ack.recv)?;
        self.lift_holds(link);
        Ok(())
    }

    /// R2 and R3: the peer has processed our frames up to `acked`.
    fn raise_ack(&mut self, link: LinkId, acked: Seq) -> Result<(), LinkError> {
        let Some(table) = self.link_mut(link) else {
            return Ok(());
        };
        let head = *table.head.get();
        if acked > head.sent {
            let sent = head.sent;
            return Err(LinkError::AckBeyondSent { acked, sent });
        }
        if acked <= head.peer_acked {
            return Ok(());
        }
        table.head.change().peer_acked = acked;
        while let Some((&seq, _)) = table.outbox.first()
            && seq <= acked
        {
            table.outbox.remove(&seq);
        }
        let mut settled = Vec::new();
        while let Some((&row, &pending)) = table.pending.first()
            && row.0 <= acked
        {
            table.pending.remove(&row);
            settled.push((row.0, pending));
        }
        for (seq, row) in settled {
            match row {
                Pending::RetirePromise(id) => self.forget_promise(link, id),
                Pending::Revoked(id, hardness) => self.revocation_seen(link, id, hardness),
                Pending::DropSent(id) => {
                    if let Some(table) = self.link_mut(link)
                        && table
                            .tombstones
                            .get(&id)
                            .is_some_and(|row| row.dropped == seq)
                    {
                        table.unbury(id);
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the holds that waited for what the peer has acknowledged by now. Whatever it sent back
    /// before that is routed already.
    fn lift_holds(&mut self, link: LinkId) {
        let Some(table) = self.link_mut(link) else {
            return;
        };
        let acked = table.head.get().peer_acked;
        let mut lifted = Vec::new();
        while let Some((&(seq, promise), ())) = table.holds.first()
            && seq <= acked
        {
            table.holds.remove(&(seq, promise));
            lifted.push(Work::Release(promise));
        }
        self.work.extend(lifted);
    }

    /// A promise's RESOLVE was seen: its name is gone at both ends.
    pub(super) fn forget_promise(&mut self, link: LinkId, id: Id) {
        let entry = self.link_mut(link).and_then(|table| table.leave(id));
        if let Some(Local::Promise(promise)) = entry.map(|entry| entry.local()) {
            self.unref_link(promise.into());
        }
    }

    fn receive_message(
        &mut self,
        link: LinkId,
        target: WireId,
        result: Option<WireId>,
        body: &Body<WireId>,
    ) -> Result<(), LinkError> {
        let target = self.read_target(link, target)?;
        let result = result
            .map(|result| self.read_result(link, result))
            .transpose()?;
        let body = self.read_body(link, body)?;
        let message = Self::message(Source::Link(link), body, result);
        self.work.push_back(Work::Route(target, message));
        Ok(())
    }

    /// What a message is for: an object of ours, or a promise that we decide or decided.
    fn read_target(&mut self, link: LinkId, wire: WireId) -> Result<Local, LinkError> {
        let id = Id::read(wire);
        let entry = self
            .link(link)
            .and_then(|table| table.entries.get(&id))
            .copied()
            .ok_or(self.unknown(link, wire))?;
        match (entry.way, entry.local()) {
            (Way::Import, _) => Err(LinkError::Misdirected(wire)),
            (Way::Export, local) => {
                if entry.revoked.is_some() && !entry.needs_error {
                    self.soft_violation(link)?;
                }
                Ok(local)
            }
            (Way::Promise, local) => Ok(local),
        }
    }

    /// The promise that the answer resolves, which this node decides from now on.
    fn read_result(&mut self, link: LinkId, wire: WireId) -> Result<LocalPromise, LinkError> {
        if wire.kind != Kind::Promise {
            return Err(LinkError::KindMismatch(wire));
        }
        let Local::Promise(promise) = self.read_ref(link, wire)? else {
            return Err(LinkError::KindMismatch(wire));
        };
        let decider = self.promise(promise).and_then(Promise::decider);
        if decider != Some(Decider::Link(link)) {
            return Err(LinkError::NotDecider(wire));
        }
        self.take_decision(link, promise);
        Ok(promise)
    }

    pub(super) fn read_body(
        &mut self,
        link: LinkId,
        body: &Body<WireId>,
    ) -> Result<Body<Local>, LinkError> {
        let slots = body.slots.iter().map(|slot| match *slot {
            Slot::Ref(wire) => {
                let local = self.read_ref(link, wire)?;
                Ok(match self.taboo(local) {
                    Some(reason) => Slot::Broken(reason),
                    None => Slot::Ref(local),
                })
            }
            Slot::Broken(reason) => Ok(Slot::Broken(reason)),
        });
        Ok(Body {
            slots: slots.collect::<Result<_, LinkError>>()?,
            bytes: body.bytes.clone(),
        })
    }

    pub(super) fn read_outcome(
        &mut self,
        link: LinkId,
        outcome: &Outcome<WireId>,
    ) -> Result<Outcome<Local>, LinkError> {
        Ok(match outcome {
            Outcome::Reference(wire) => {
                let local = self.read_ref(link, *wire)?;
                if local.kind() == Kind::Promise {
                    self.soft_violation(link)?;
                    Outcome::broken(Reason::RESOLVED_TO_PROMISE)
                } else if let Some(reason) = self.taboo(local) {
                    Outcome::broken(reason)
                } else {
                    Outcome::Reference(local)
                }
            }
            Outcome::Data(body) => Outcome::Data(self.read_body(link, body)?),
            Outcome::Rejected(body) => Outcome::Rejected(self.read_body(link, body)?),
            Outcome::Broken { reason, error } => Outcome::Broken {
                reason: *reason,
                error: error.clone(),
            },
        })
    }

    /// Why an object may not be mentioned any more.
    pub(super) fn taboo(&self, local: Local) -> Option<Reason> {
        let Local::Object(object) = local else {
            return None;
        };
        match self.object(object)?.revoked() {
            Some((Hardness::Hard, reason)) => Some(reason),
            _ => None,
        }
    }

    /// The local reference that an id of the peer's names, known or introduced here.
    pub(super) fn read_ref(&mut self, link: LinkId, wire: WireId) -> Result<Local, LinkError> {
        let id = Id::read(wire);
        let Some(table) = self.link_mut(link) else {
            return Err(LinkError::UnknownRef(wire));
        };
        if let Some(entry) = table.entries.get(&id) {
            return Ok(entry.local());
        }
        if let Some(tombstone) = table.tombstones.get(&id).copied() {
            if let Some((Hardness::Hard, _)) = tombstone.revoked {
                return Err(LinkError::IdReuse(wire));
            }
            table.unbury(id);
            self.step.counts.resurrections += 1;
            return Ok(self.import(link, id, tombstone.last_mentioned, tombstone.revoked));
        }
        if id.by() == By::Us {
            return Err(self.unknown(link, wire));
        }
        self.introduce(link, id)?;
        Ok(self.import(link, id, Seq(0), None))
    }

    fn import(
        &mut self,
        link: LinkId,
        id: Id,
        last_mentioned: Seq,
        revoked: Option<(Hardness, Reason)>,
    ) -> Local {
        let (local, way) = match id.kind() {
            Kind::Object => {
                let mut object = Object::new(Owner::Link(link));
                if let Some((hardness, reason)) = revoked {
                    object.take_back(hardness, reason, Arc::default());
                }
                (Local::Object(self.new_object(object)), Way::Import)
            }
            Kind::Promise => {
                let mut promise = Promise::new(Decider::Link(link));
                promise.refs.links = 1;
                (Local::Promise(self.new_promise(promise)), Way::Promise)
            }
        };
        if let Some(table) = self.link_mut(link) {
            table.enter(id, Entry::new(local, way, last_mentioned));
        }
        self.check(local);
        local
    }

    /// Ids come strictly in order, within what was agreed on.
    fn introduce(&mut self, link: LinkId, id: Id) -> Result<(), LinkError> {
        let now_ms = self.now_ms;
        let reuse = self.is(Mutant::NoTombstones);
        let Some(table) = self.link_mut(link) else {
            return Ok(());
        };
        let limits = table.limits;
        let head = table.head.change();
        let (high, held, what, limit) = match id.kind() {
            Kind::Object => (
                &mut head.high_object,
                head.imports,
                "imports",
                limits.imports,
            ),
            Kind::Promise => (
                &mut head.high_promise,
                head.peer_promises,
                "promises",
                limits.promises,
            ),
        };
        if id.number() <= *high {
            // Without tombstones nothing tells a name that comes back from one that is used again.
            if reuse {
                return Ok(());
            }
            return Err(LinkError::IdReuse(id.as_read()));
        }
        let next = *high + 1;
        if id.number() != next {
            return Err(LinkError::IdJump(id.as_read(), next));
        }
        *high = next;
        if held >= limit {
            return Err(LinkError::LimitExceeded { what, limit });
        }
        let (since_ms, count) = (&mut head.introductions_since_ms, &mut head.introductions);
        if Head::is_over(since_ms, count, now_ms, limits.introductions_per_s) {
            let (what, limit) = ("introductions a second", limits.introductions_per_s);
            return Err(LinkError::LimitExceeded { what, limit });
        }
        Ok(())
    }

    /// The error for an id that names nothing.
    pub(super) fn unknown(&self, link: LinkId, wire: WireId) -> LinkError {
        if self.was_given(link, Id::read(wire)) {
            LinkError::UnknownRef(wire)
        } else {
            LinkError::ForgedRef(wire)
        }
    }

    /// Whether an id was in use at some time.
    pub(super) fn was_given(&self, link: LinkId, id: Id) -> bool {
        let Some(table) = self.link(link) else {
            return false;
        };
        let head = table.head.get();
        match (id.by(), id.kind()) {
            (By::Us, Kind::Object) => id.number() < head.next_object,
            (By::Us, Kind::Promise) => id.number() < head.next_promise,
            (By::Peer, Kind::Object) => id.number() <= head.high_object,
            (By::Peer, Kind::Promise) => id.number() <= head.high_promise,
        }
    }

    /// What an honest peer with a fault may do, a bounded number of times.
    pub(super) fn soft_violation(&mut self, link: LinkId) -> Result<(), LinkError> {
        self.step.counts.soft_violations += 1;
        let Some(table) = self.link_mut(link) else {
            return Ok(());
        };
        let head = table.head.change();
        head.soft_violations += 1;
        let count = head.soft_violations;
        if count > table.limits.soft_violations {
            return Err(LinkError::SoftViolations(count));
        }
        Ok(())
    }

    fn receive_drop(&mut self, link: LinkId, wire: WireId, seen: Seq) -> Result<(), LinkError> {
        let id = Id::read(wire);
        let strict = self.is(Mutant::StrictlyLater);
        let Some(table) = self.link(link) else {
            return Ok(());
        };
        let Some(entry) = table.entries.get(&id).copied() else {
            // Both ends let go of a promise whose decision was on its way.
            if table
                .tombstones
                .get(&id)
                .is_some_and(|tombstone| seen < tombstone.last_mentioned)
            {
                self.step.counts.drops_uninformed += 1;
                return Ok(());
            }
            return Err(if self.was_given(link, id) {
                LinkError::DoubleDrop(wire)
            } else {
                LinkError::ForgedRef(wire)
            });
        };
        if entry.way == Way::Import {
            return Err(LinkError::NotHeld(wire));
        }
        if seen < entry.last_mentioned || strict && seen == entry.last_mentioned {
            self.step.counts.drops_uninformed += 1;
            return Ok(());
        }
        if let Local::Promise(promise) = entry.local()
            && self.promise(promise).and_then(Promise::decider) == Some(Decider::Link(link))
        {
            return Err(LinkError::NotDecider(wire));
        }
        self.step.counts.drops_executed += 1;
        match entry.local() {
            Local::Object(_) => self.forget_export(link, id),
            Local::Promise(promise) => {
                if let Some(table) = self.link_mut(link) {
                    table.due.remove(&Due::Resolve(promise));
                }
                self.forget_promise(link, id);
            }
        }
        Ok(())
    }

    /// The peer holds an object of ours no longer.
    pub(super) fn forget_export(&mut self, link: LinkId, id: Id) {
        let Some(entry) = self.link_mut(link).and_then(|table| table.leave(id)) else {
            return;
        };
        let Local::Object(object) = entry.local() else {
            return;
        };
        if let Some(table) = self.link_mut(link) {
            table.due.remove(&Due::Revoke(object));
        }
        if entry.needs_error {
            self.error_not_needed(object);
        }
        self.unref_link(entry.local());
    }

    /// The object behind an import of ours.
    pub(super) fn imported(&self, link: LinkId, id: Id) -> Option<LocalObject> {
        let entry = self.link(link)?.entries.get(&id)?;
        match (entry.way, entry.local()) {
            (Way::Import, Local::Object(object)) => Some(object),
            _ => None,
        }
    }
}
