//! Drives the peers: every event goes in, every effect is done. The simulated twin of
//! `runtime::driver`.

use std::sync::Arc;

use overlane_core::ring::WhyUnreachable;
use overlane_core::transaction::{Payload, RelayFields};
use overlane_core::{Class, Coded};

use super::check::{Seen, Signed};
use super::names::Broken;
use super::node::Asked;
use super::world::{Event, Life, World};
use crate::link::{DownReason, LinkId};
use crate::peer::{
    DISPATCH_QUEUE_MAX, Delivery, Effect, Event as Told, LaneAnswer, Peer, PlaceId, Receipt,
    Refusal, SendError, SendId, VerifyTicket,
};

impl World<'_> {
    /// Does what a peer wants done.
    pub(super) fn drain(&mut self, node: usize) {
        self.read_frames(node);
        let full = self.running(node).filter(|it| it.is_full);
        if let Some(running) = full.filter(|it| !it.reads_nothing()) {
            running.is_full = false;
            let ends: Vec<_> = running.links.values().copied().collect();
            self.dirty_ends.extend(ends);
        }
        self.look_at_neighbours(node);
        self.schedule_node(node);
    }

    /// Reads what came, while fewer checks are out than may be, and does what the peer wants done after each.
    pub(super) fn read_frames(&mut self, node: usize) {
        loop {
            while let Some(effect) = self.running(node).and_then(|it| it.peer.poll_effect()) {
                self.do_effect(node, effect);
            }
            let now = self.now_at(node);
            let reads = self.running(node).filter(|it| !it.is_checking_most());
            let Some(running) = reads else { return };
            let Some((link, class, frame)) = running.came.pop_front() else {
                return;
            };
            running.peer.handle_frame(link, class, &frame, now);
        }
    }

    fn do_effect(&mut self, node: usize, effect: Effect) {
        let life = self.life(node);
        let Some(effect) = self.did_for_ring(node, effect) else {
            return;
        };
        match effect {
            Effect::Send { link, class, frame } => self.place(node, link, class, frame),
            Effect::Verify { ticket, job } => {
                let wait_ms = self.idle_ms(node) + self.chance.below(3);
                if let Some(running) = self.running(node) {
                    running.jobs.insert(ticket, job);
                }
                self.after(wait_ms, Event::Verified(life, ticket));
            }
            Effect::Seal { ticket, job } => {
                let now = self.now_at(node);
                if let Some(running) = self.running(node) {
                    running.peer.handle_sealed(ticket, job.run(), now);
                }
            }
            Effect::Write(batch) => {
                let id = batch.id;
                let slow = self.permille(20);
                let wait_ms = self.idle_ms(node) + self.chance.below(if slow { 200 } else { 4 });
                let early = self.is_broken(Broken::EarlyRelease);
                let now = self.now_at(node);
                self.maybe_cut_power(life, wait_ms);
                if let Some(running) = self.running(node) {
                    running.writing.push_back(batch);
                    if early {
                        running.peer.handle_batch_done(id, Ok(()), now);
                    }
                }
                self.after(wait_ms, Event::Written(life));
            }
            Effect::Dispatch {
                place,
                class,
                delivery,
            } => self.dispatch(node, place, class, &delivery),
            Effect::Taken { link, class } => {
                let lost = self.is_broken(Broken::LostCredit) && self.permille(500);
                if !lost && !self.withhold(node, link, class) {
                    self.taken(node, link, class);
                }
            }
            Effect::Close { link } => self.end_link(node, link),
            Effect::Cut { link, code } => {
                *self.counts.cut.entry(code).or_default() += 1;
                if let Some(running) = self.running(node) {
                    running.registry.cut(link, DownReason::Payload { code });
                }
                self.heed_registry(node);
                self.blamed(node, link, code);
            }
            // What a ring asks for is done.
            Effect::Connect { .. }
            | Effect::Offered { .. }
            | Effect::Asked { .. }
            | Effect::InSession { .. }
            | Effect::Receipt { .. } => {
                let words = format!("node {node} does what it was not asked for");
                self.broke("nothing that was not asked for", words);
            }
            Effect::Commit(commit) => self.commit_references(node, commit),
            Effect::References(effect) => self.references_did(node, effect),
            Effect::Keeper(_, heard) => self.hear(node, heard),
            Effect::Keep(work) => self.keep(node, work),
            Effect::Mail(effect) => self.mail_did(node, effect),
            Effect::Sent { id, result } => self.sent(node, id, result),
            Effect::Event(event) => self.told(node, event),
        }
    }

    /// A frame of a lane was taken: its credit goes back.
    pub(super) fn taken(&mut self, node: usize, link: LinkId, class: Class) {
        let steady_ms = self.now_at(node).steady_ms;
        let at = self
            .running(node)
            .and_then(|it| it.links.get(&link).copied());
        if let Some(at) = at {
            if let Some(end) = self.end(at) {
                end.session.taken(class, 1, steady_ms);
            }
            self.dirty_ends.insert(at);
        }
    }

    fn end_link(&mut self, node: usize, link: LinkId) {
        let reason = DownReason::ShuttingDown;
        if let Some(running) = self.running(node) {
            running.registry.leave(link, reason);
        }
        self.heed_registry(node);
    }

    /// A frame goes to its lane.
    fn place(&mut self, node: usize, link: LinkId, class: Class, frame: Vec<u8>) {
        let now = self.now_at(node);
        let Some(frame) = self.twisted(node, frame) else {
            // To its own code it is gone as it should be.
            if let Some(running) = self.running(node) {
                running
                    .peer
                    .handle_lane(link, class, LaneAnswer::Placed, now);
            }
            return;
        };
        let seen = self.seen(node, &frame);
        let at = self
            .running(node)
            .and_then(|it| it.links.get(&link).copied());
        let answer = match at.and_then(|at| self.end(at)) {
            None => LaneAnswer::Gone,
            Some(end) => match end.session.send(class, frame) {
                Ok(()) => LaneAnswer::Placed,
                Err(error) if error.is_full() => LaneAnswer::Full,
                Err(_) => LaneAnswer::Gone,
            },
        };
        if let (LaneAnswer::Placed, Some(at), Some((signed, relay))) = (answer, at, seen) {
            if self.is_broken(Broken::OpenWindow) {
                self.named
                    .insert((signed.stream, signed.sequence), signed.digest);
            }
            let link = at.0;
            if self.by_did.get(&signed.stream.origin) != Some(&node) {
                self.counts.forwarded += 1;
            }
            self.see(&Seen::OnTheWire {
                signed,
                link,
                node,
                relay,
            });
            self.dirty_ends.insert(at);
        }
        if let Some(running) = self.running(node) {
            running.peer.handle_lane(link, class, answer, now);
        }
    }

    /// What the bytes of a frame say that a node puts into a lane. Delegations that nodes signed under before are not
    /// decoded again.
    fn seen(&mut self, node: usize, frame: &[u8]) -> Option<(Signed, RelayFields)> {
        if let Some(running) = self.running(node) {
            let own = Arc::clone(running.signer.delegation());
            self.shown.entry(own.digest()).or_insert(own);
        }
        let known = |digest| self.shown.get(&digest).map(Arc::clone);
        says(Payload::from_frame_knowing(frame, known).ok()?)
    }

    fn dispatch(&mut self, node: usize, place: PlaceId, class: Class, delivery: &Delivery) {
        let payload = delivery.item();
        let signed = Signed {
            stream: payload.stream(),
            sequence: payload.sequence(),
            digest: payload.digest(),
        };
        self.handed_over(node, signed);
        self.application_hears(node, payload);
        let wait_ms = self.app_idle_ms(node) + self.chance.below(20);
        let (early, now) = (self.is_broken(Broken::EarlyPlace), self.now_at(node));
        if let Some(running) = self.running(node) {
            let waiting = running.waiting.get_mut(usize::from(class.index()));
            let held = waiting.map_or(0, |waiting| {
                waiting.push_back(place);
                waiting.len()
            });
            if early {
                running.peer.handle_dispatch_taken(place, now);
            }
            if held > DISPATCH_QUEUE_MAX {
                let words = format!("node {node}: {held} {class} messages wait to be taken");
                self.broke("bounds", words);
            }
        }
        let life = self.life(node);
        self.after(wait_ms, Event::Take(life, class));
    }

    /// A message reaches its application.
    pub(super) fn handed_over(&mut self, node: usize, signed: Signed) {
        self.counts.dispatched += 1;
        let number = node.to_be_bytes();
        let noted: [&[u8]; 3] = [b"dispatched", &number, &signed.digest.0];
        self.trace.note(self.now_ms, &noted, || {
            let (stream, sequence) = (signed.stream, signed.sequence);
            format!("node {node} dispatched {sequence} of {stream}")
        });
        self.see(&Seen::Dispatched { node, signed });
    }

    fn sent(&mut self, node: usize, id: SendId, result: Result<Receipt, SendError>) {
        let asked = self.running(node).and_then(|it| it.asked.remove(&id));
        let Some(Asked {
            again,
            to,
            congested,
        }) = asked
        else {
            let words = format!("node {node} answered a send twice");
            return self.broke("one result a send", words);
        };
        let number = node.to_be_bytes();
        self.mail_signed(node, id, result.as_ref().ok());
        match result {
            Ok(receipt) => {
                let signed = Signed {
                    stream: receipt.stream,
                    sequence: receipt.sequence,
                    digest: receipt.digest,
                };
                let noted: [&[u8]; 3] = [b"sent", &number, &signed.digest.0];
                self.trace.note(self.now_ms, &noted, || {
                    let sequence = signed.sequence;
                    format!("node {node} sent {sequence} of {}", signed.stream)
                });
                if again {
                    self.counts.offered_again += 1;
                } else {
                    self.counts.signed += 1;
                    if congested > 0 {
                        self.congested.insert(signed.digest, congested);
                    }
                    self.see(&Seen::Receipt(signed));
                    self.maybe_again(node, &receipt);
                }
            }
            Err(error) => {
                let code = error.code();
                *self.counts.sends_refused.entry(code).or_default() += 1;
                let noted: [&[u8]; 3] = [b"send refused", &number, code.as_bytes()];
                self.trace.note(self.now_ms, &noted, || {
                    format!("node {node} could not send to node {to}: {code}")
                });
            }
        }
    }

    fn told(&mut self, node: usize, event: Told) {
        if let Told::Unreachable { why, .. } = &event {
            *self.counts.unreachable.entry(why.code()).or_default() += 1;
        }
        match event {
            Told::LinkUp { peer, .. } => {
                self.counts.links_up += 1;
                if let Some(&to) = self.by_did.get(&peer) {
                    self.linked(node, to);
                    self.not_sure(node, peer);
                }
            }
            Told::LinkDown { peer, reason, .. } => {
                self.counts.links_down += 1;
                let number = node.to_be_bytes();
                self.trace.note(self.now_ms, &[b"down", &number], || {
                    format!("node {node} lost its link to {peer}: {reason}")
                });
                if let Some(&to) = self.by_did.get(&peer) {
                    self.unlinked(node, to);
                }
            }
            Told::Unreachable {
                stream,
                digest,
                why: WhyUnreachable::Congested,
                ..
            } => self.congested(node, stream, digest),
            Told::Admitted { .. } | Told::Unreachable { .. } | Told::SendProgress { .. } => {}
            Told::Mail(event) => self.mail_told(node, event),
            Told::Refused {
                peer,
                class,
                refusal,
                ..
            } => {
                *self.counts.refused.entry(refusal.code()).or_default() += 1;
                let (number, code) = (node.to_be_bytes(), refusal.code());
                self.trace
                    .note(self.now_ms, &[b"refused", &number, code.as_bytes()], || {
                        format!("node {node} refused a frame of {peer}: {refusal}")
                    });
                if !self.is_of_hostile(node, peer, &refusal) {
                    let state = self.nodes.get(node);
                    let ring = state.and_then(|it| it.running.as_ref()?.peer.ring());
                    let gave_up = ring.map_or(0, |ring| {
                        ring.counters().unanswered + ring.counters().late_answers
                    });
                    let seen = Seen::Refused {
                        node,
                        peer,
                        class,
                        refusal: &refusal,
                        wrong_clock: self.clocks_were_wrong(),
                        store_failed: state.is_some_and(|it| it.store_failed),
                        earlier_life: state.is_some_and(|it| it.life > 1),
                        gave_up: usize::try_from(gave_up).unwrap_or(usize::MAX),
                    };
                    self.checks.see(self.now_ms, &seen);
                }
                self.maybe_open_window(node, &refusal);
            }
            Told::SessionLost { .. } => {}
            Told::StoreFailed { error } => {
                self.counts.stores_failed += 1;
                let number = node.to_be_bytes();
                self.trace
                    .note(self.now_ms, &[b"store failed", &number], || {
                        format!("node {node}: the store failed: {error}")
                    });
            }
        }
    }

    /// What a receiver without a window does.
    fn maybe_open_window(&mut self, node: usize, refusal: &Refusal) {
        use overlane_core::replay::Refusal::Replay;
        if !self.is_broken(Broken::OpenWindow) {
            return;
        }
        if let Refusal::Replay(Replay { stream, sequence }) = refusal
            && let Some(digest) = self.named.get(&(*stream, *sequence)).copied()
        {
            let (stream, sequence) = (*stream, *sequence);
            let signed = Signed {
                stream,
                sequence,
                digest,
            };
            self.handed_over(node, signed);
        }
    }

    // What happens to a node.

    /// A worker has checked a frame.
    pub(super) fn verified(&mut self, life: Life, mut ticket: VerifyTicket) {
        let swap = self.is_broken(Broken::SwappedAnswers);
        let now = self.now_at(life.node);
        let Some(running) = self.living(life) else {
            return;
        };
        let Some(job) = running.jobs.remove(&ticket) else {
            return;
        };
        if swap && let Some((other, its_job)) = running.jobs.pop_first() {
            running.jobs.insert(ticket, its_job);
            ticket = other;
        }
        running.peer.handle_verified(ticket, job.run(), now);
        self.dirty_nodes.insert(life.node);
    }

    /// The store's thread has written a batch, or not.
    pub(super) fn written(&mut self, life: Life) {
        let now = self.now_at(life.node);
        let early = self.is_broken(Broken::EarlyRelease);
        let swallowed = self.is_broken(Broken::SwallowedFailure);
        let Some(node) = self.nodes.get_mut(life.node) else {
            return;
        };
        let Some(running) = node.running.as_mut().filter(|_| node.life == life.life) else {
            return;
        };
        let Some(batch) = running.writing.pop_front() else {
            return;
        };
        let mut result = node.store.write(&batch);
        let failed = result.is_err();
        node.store_failed |= failed;
        if swallowed {
            result = Ok(());
        }
        if !early {
            running.peer.handle_batch_done(batch.id, result, now);
        }
        self.dirty_nodes.insert(life.node);
        if failed {
            self.mend_later(life);
        }
    }

    /// The application takes a message.
    pub(super) fn take(&mut self, life: Life, class: Class) {
        let early = self.is_broken(Broken::EarlyPlace);
        let now = self.now_at(life.node);
        let wait_ms = self.app_idle_ms(life.node);
        if wait_ms > 0 {
            return self.after(wait_ms, Event::Take(life, class));
        }
        let Some(running) = self.living(life) else {
            return;
        };
        let waiting = running.waiting.get_mut(usize::from(class.index()));
        if let Some(place) = waiting.and_then(std::collections::VecDeque::pop_front)
            && !early
        {
            running.peer.handle_dispatch_taken(place, now);
            self.dirty_nodes.insert(life.node);
        }
    }

    /// A peer is due.
    pub(super) fn wake_node(&mut self, life: Life) {
        let now = self.now_at(life.node);
        let Some(running) = self.living(life) else {
            return;
        };
        running.wake_ms = None;
        if running
            .peer
            .poll_timeout()
            .is_some_and(|at_ms| at_ms <= now.steady_ms)
        {
            running.peer.handle_timeout(now);
        }
        self.dirty_nodes.insert(life.node);
    }

    fn schedule_node(&mut self, node: usize) {
        let (life, now_ms) = (self.life(node), self.now_ms);
        let clock = self.nodes.get(node).map(|it| it.clock);
        let Some((running, clock)) = self.running(node).zip(clock) else {
            return;
        };
        let due_ms = running
            .peer
            .poll_timeout()
            .map(|due| clock.when(due, now_ms));
        if let Some(due_ms) = due_ms.filter(|due| running.wake_ms.is_none_or(|at| *due < at)) {
            running.wake_ms = Some(due_ms);
            self.queue.push(due_ms, Event::WakeNode(life));
        }
    }

    /// How long the node's workers, disk and application still do nothing.
    pub(super) fn idle_ms(&self, node: usize) -> u64 {
        let stalled = self.nodes.get(node).map_or(0, |node| node.stalled_until_ms);
        stalled.saturating_sub(self.now_ms)
    }

    /// How long the node's application still takes nothing.
    pub(super) fn app_idle_ms(&self, node: usize) -> u64 {
        let idle = self.nodes.get(node).map_or(0, |node| node.idle_until_ms);
        idle.saturating_sub(self.now_ms).max(self.idle_ms(node))
    }
}

/// What the bytes of a payload frame say they are.
pub(super) fn signed(frame: &[u8]) -> Option<Signed> {
    says(Payload::from_frame(frame).ok()?).map(|(signed, _)| signed)
}

/// What a payload says it is, and how it travels.
fn says(payload: Payload) -> Option<(Signed, RelayFields)> {
    let relay = *payload.relay();
    let transaction = payload.into_transaction();
    let (stream, digest) = transaction.claims().ok()?;
    let sequence = transaction.sequence();
    let signed = Signed {
        stream,
        sequence,
        digest,
    };
    Some((signed, relay))
}

/// A peer that is settled has nothing on its way.
pub(super) fn is_settled(peer: &Peer, jobs: usize) -> bool {
    jobs == 0 && peer.is_settled()
}
