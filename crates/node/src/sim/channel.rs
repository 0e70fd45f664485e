//! Drives the links: what sessions want sent goes through the network, what they tell goes to the
//! peers. The simulated twin of `link::driver`.

use overlane_core::Class;
use overlane_core::lane::{CloseReason, SessionEvent};
use overlane_core::wire::frame::{BATCH_MARKER, CONTROL_MARKER, PAYLOAD_MARKER};

use super::check::Seen;
use super::link::End;
use super::names::{Broken, Fault};
use super::net::Way;
use super::node::EndId;
use super::report::Phase;
use super::world::{Event, World};

/// Messages that go by before a mutant lets one go that it held back.
const HELD_FOR: u32 = 40;

impl World<'_> {
    pub(super) fn end(&mut self, (link, side): EndId) -> Option<&mut End> {
        self.links.get_mut(&link)?.end(side)
    }

    /// Does what a session wants done.
    pub(super) fn pump(&mut self, at: EndId) {
        let (link, side) = at;
        loop {
            let Some(node) = self.links.get(&link).map(|link| link.node(side)) else {
                return;
            };
            let steady_ms = self.now_at(node).steady_ms;
            self.transmit(at, steady_ms);
            if let Some(running) = self.running(node).filter(|it| it.reads_nothing()) {
                running.is_full = true;
                break;
            }
            let Some(event) = self.end(at).and_then(|end| end.session.poll_event()) else {
                break;
            };
            self.session_event(at, node, event);
        }
        self.schedule_end(at);
    }

    /// Moves what the session wants sent to the channels, and what they take into the network.
    fn transmit(&mut self, (link, side): EndId, steady_ms: u64) {
        while let Some(state) = self.links.get_mut(&link) {
            let Some(transmit) = state
                .end(side)
                .and_then(|it| it.session.poll_transmit(steady_ms))
            else {
                break;
            };
            state
                .channel(side, transmit.class)
                .offered
                .push_back(transmit.bytes);
        }
        for class in Class::ALL {
            self.accept((link, side), class, steady_ms);
        }
    }

    fn accept(&mut self, (link, side): EndId, class: Class, steady_ms: u64) {
        while let Some(state) = self.links.get_mut(&link) {
            let (from, to) = (state.node(side), state.node(1 - side));
            let channel = state.channel(side, class);
            let message = match channel.has_room() {
                true => channel.offered.pop_front(),
                false => None,
            };
            let Some(message) = message else { return };
            if let Some(end) = state.end(side) {
                end.session.handle_accepted(class, steady_ms);
            }
            match self.net.send(from, to, &mut self.chance) {
                Way::Takes(ms) => self.under_way((link, side), class, ms, message),
                Way::Breaks => {
                    for side in [0, 1] {
                        let wait_ms = self.between(1, 2_000);
                        let words = "too much was lost";
                        self.after(wait_ms, Event::TransportOver((link, side), words));
                    }
                }
            }
        }
    }

    /// A message is on its way; it overtakes none of its channel.
    fn under_way(&mut self, (link, side): EndId, class: Class, takes_ms: u64, message: Vec<u8>) {
        let payload = is_payload(&message);
        if payload && self.is_broken(Broken::LostMessage) && self.permille(20) {
            return;
        }
        let Some(message) = self.hold_back((link, side, class), payload, message) else {
            return;
        };
        let swap = payload && self.is_broken(Broken::SwappedMessages) && self.permille(200);
        let now_ms = self.now_ms;
        let Some(state) = self.links.get_mut(&link) else {
            return;
        };
        let channel = state.channel(side, class);
        let before_ms = channel.under_way.back().map_or(0, |&(at_ms, _)| at_ms);
        let at_ms = before_ms.max(now_ms + takes_ms);
        let last = channel
            .under_way
            .back_mut()
            .filter(|(_, last)| swap && is_payload(last));
        let message = match last {
            Some((_, last)) => std::mem::replace(last, message),
            None => message,
        };
        channel.under_way.push_back((at_ms, message));
        if !std::mem::replace(&mut channel.scheduled, true) {
            self.queue.push(at_ms, Event::Arrive(link, side, class));
        }
    }

    /// A mutant's network holds a message back; gives what goes on instead.
    fn hold_back(
        &mut self,
        at: (usize, usize, Class),
        payload: bool,
        message: Vec<u8>,
    ) -> Option<Vec<u8>> {
        if !payload || !self.is_broken(Broken::HeldMessage) {
            return Some(message);
        }
        let starts = self.permille(20);
        match self.held_back.remove(&at) {
            Some((held, 0)) => {
                self.under_way((at.0, at.1), at.2, 1, message);
                Some(held)
            }
            Some((held, left)) => {
                self.held_back.insert(at, (held, left - 1));
                Some(message)
            }
            None if starts => {
                self.held_back.insert(at, (message, HELD_FOR));
                None
            }
            None => Some(message),
        }
    }

    /// What is due on a channel arrives.
    pub(super) fn arrive(&mut self, link: usize, from: usize, class: Class) {
        let Some(state) = self.links.get_mut(&link) else {
            return;
        };
        let (sender, receiver) = (state.node(from), state.node(1 - from));
        state.channel(from, class).scheduled = false;
        if let Some(until_ms) = self.net.blocked(sender, receiver, self.now_ms) {
            let at_ms = until_ms + self.between(50, 1_000);
            if let Some(state) = self.links.get_mut(&link) {
                state.channel(from, class).scheduled = true;
            }
            return self.queue.push(at_ms, Event::Arrive(link, from, class));
        }
        let to = (link, 1 - from);
        let steady_ms = self.now_at(receiver).steady_ms;
        let twice = self.phase == Phase::Faults && self.config.faults.has(Fault::Duplicate);
        while let Some(message) = self.due(link, from, class) {
            let repeat = twice && message.starts_with(&CONTROL_MARKER) && self.permille(30);
            let Some(end) = self.end(to).filter(|end| *end.opened.of(class)) else {
                continue;
            };
            if repeat {
                end.session
                    .handle_message(class, message.clone(), steady_ms);
            }
            end.session.handle_message(class, message, steady_ms);
        }
        let mut next_ms = None;
        if let Some(state) = self.links.get_mut(&link) {
            let channel = state.channel(from, class);
            next_ms = channel.under_way.front().map(|&(at_ms, _)| at_ms);
            channel.scheduled = next_ms.is_some();
            if !channel.offered.is_empty() {
                self.dirty_ends.insert((link, from));
            }
        }
        if let Some(next_ms) = next_ms {
            self.queue.push(next_ms, Event::Arrive(link, from, class));
        }
        self.dirty_ends.insert(to);
    }

    fn due(&mut self, link: usize, from: usize, class: Class) -> Option<Vec<u8>> {
        let now_ms = self.now_ms;
        let channel = self.links.get_mut(&link)?.channel(from, class);
        channel
            .under_way
            .front()
            .filter(|(at_ms, _)| *at_ms <= now_ms)?;
        channel.under_way.pop_front().map(|(_, message)| message)
    }

    pub(super) fn open_channel(&mut self, at: EndId, class: Class) {
        let Some(node) = self.links.get(&at.0).map(|link| link.node(at.1)) else {
            return;
        };
        let steady_ms = self.now_at(node).steady_ms;
        if let Some(end) = self.end(at) {
            *end.opened.of_mut(class) = true;
            end.session.handle_channel_open(class, steady_ms);
            self.dirty_ends.insert(at);
        }
    }

    pub(super) fn wake_end(&mut self, at: EndId) {
        let Some(node) = self.links.get(&at.0).map(|link| link.node(at.1)) else {
            return;
        };
        let steady_ms = self.now_at(node).steady_ms;
        if let Some(end) = self.end(at) {
            end.wake_ms = None;
            if end
                .session
                .poll_timeout()
                .is_some_and(|due| due <= steady_ms)
            {
                end.session.handle_timeout(steady_ms);
            }
            self.dirty_ends.insert(at);
        }
    }

    /// The transport under an end is over, however that came.
    pub(super) fn transport_over(&mut self, at: EndId, words: &'static str) {
        let Some(node) = self.links.get(&at.0).map(|link| link.node(at.1)) else {
            return;
        };
        let steady_ms = self.now_at(node).steady_ms;
        if let Some(end) = self.end(at) {
            end.session
                .handle_transport_closed(words.to_owned(), steady_ms);
            self.dirty_ends.insert(at);
        }
    }

    fn session_event(&mut self, at: EndId, node: usize, event: SessionEvent) {
        let now = self.now_at(node);
        let Some((id, told)) = self.end(at).map(|end| (end.id, end.told)) else {
            return;
        };
        match event {
            SessionEvent::Open { .. } => self.session_open(at, node),
            SessionEvent::Closed { reason } => self.session_closed(at, node, &reason),
            // Nobody here was told that it could send on it.
            SessionEvent::Room { .. } if !told => {}
            SessionEvent::Frames { class, frames } => {
                // A link that gave way before it was told of is told now, with what it brought.
                self.tell_up(at, node, true);
                if let Some(running) = self.running(node) {
                    let frames = frames.into_iter();
                    running.came.extend(frames.map(|it| (id, class, it)));
                    self.read_frames(node);
                    self.dirty_nodes.insert(node);
                }
            }
            SessionEvent::Room { class } => {
                if let Some(running) = self.running(node) {
                    running.peer.handle_lane_room(id, class, now);
                    self.dirty_nodes.insert(node);
                }
            }
        }
    }

    fn session_open(&mut self, at: EndId, node: usize) {
        let Some(id) = self.end(at).map(|end| end.id) else {
            return;
        };
        let up = self.running(node).is_some_and(|it| it.registry.up(id));
        self.heed_registry(node);
        // One that gave way is ending; the node hears of it only if it brings something.
        if up {
            self.tell_up(at, node, false);
        }
    }

    /// Tells the node of a link, once.
    fn tell_up(&mut self, at: EndId, node: usize, leaving: bool) {
        let state = self.links.get(&at.0);
        let dialled = at.1 == 0 && state.is_some_and(|link| !link.by_ring);
        let far = state.map(|link| link.node(1 - at.1));
        let Some(peer) = far.and_then(|far| self.nodes.get(far)).map(|far| far.did) else {
            return;
        };
        let now = self.now_at(node);
        let Some(end) = self.end(at).filter(|end| !end.told) else {
            return;
        };
        end.told = true;
        let id = end.id;
        let witness_ms = end.witness.map(|(wall_ms, heard_ms)| {
            wall_ms.saturating_add(now.steady_ms.saturating_sub(heard_ms))
        });
        let number = node.to_be_bytes();
        self.trace
            .note(self.now_ms, &[b"up", &number, &peer.0], || {
                format!("node {node} is linked to {peer}")
            });
        if let Some(running) = self.running(node) {
            if dialled {
                // Somebody wished for it: it is not given up for others.
                running.peer.pin(peer);
            }
            running.peer.handle_link_up(id, peer, witness_ms, now);
            if leaving {
                running.peer.handle_link_leaving(id);
            }
            self.dirty_nodes.insert(node);
        }
    }

    fn session_closed(&mut self, at: EndId, node: usize, reason: &CloseReason) {
        let (link, side) = at;
        let now = self.now_at(node);
        let Some(state) = self.links.get_mut(&link) else {
            return;
        };
        let (far, takes_ms) = (
            state.node(1 - side),
            self.net.latency_ms(node, state.node(1 - side)),
        );
        state.drop_way(side);
        let by_ring = state.by_ring;
        let Some(end) = state.ends.get_mut(side).and_then(Option::take) else {
            return;
        };
        if state.is_over() {
            self.links.remove(&link);
        } else {
            let words = "the other side closed the connection";
            self.after(takes_ms, Event::TransportOver((link, 1 - side), words));
        }
        if let CloseReason::Violation(violation) = reason {
            let words = violation.to_string();
            if !self.hostile.contains(&far) {
                self.see(&Seen::PeerBlamed {
                    node,
                    words: &words,
                });
            }
        }
        let words = end.fate.unwrap_or_else(|| reason.to_string());
        let far_did = self.nodes.get(far).map(|far| far.did);
        if let Some(running) = self.running(node) {
            running.registry.remove(end.id);
            running.links.remove(&end.id);
            if let (true, Some(far)) = (end.told, far_did) {
                running.peer.unpin(far);
                running.peer.handle_link_down(end.id, &words, now);
                self.dirty_nodes.insert(node);
            }
        }
        // The side that dialled is the first.
        match far_did {
            _ if end.told || side != 0 => {}
            Some(far) if by_ring => self.connect_failed(node, far, "link/not_opened"),
            _ => self.dial_came_to_nothing(node, far),
        }
    }

    /// Ends what the node's registry ended.
    pub(super) fn heed_registry(&mut self, node: usize) {
        let steady_ms = self.now_at(node).steady_ms;
        let ended = self
            .running(node)
            .map(|it| it.ended.take())
            .unwrap_or_default();
        for (at, cut, reason) in ended {
            if let Some(end) = self.end(at) {
                let words = reason.to_string();
                if cut {
                    end.session
                        .handle_transport_closed(words.clone(), steady_ms);
                } else {
                    end.session.close(steady_ms);
                }
                end.fate.get_or_insert(words);
                self.dirty_ends.insert(at);
            }
        }
    }

    fn schedule_end(&mut self, at: EndId) {
        let now_ms = self.now_ms;
        let node = self.links.get(&at.0).map(|link| link.node(at.1));
        let clock = node
            .and_then(|node| self.nodes.get(node))
            .map(|it| it.clock);
        let Some((end, clock)) = self.end(at).zip(clock) else {
            return;
        };
        let due_ms = end
            .session
            .poll_timeout()
            .map(|due| clock.when(due, now_ms));
        if let Some(due_ms) = due_ms.filter(|due| end.wake_ms.is_none_or(|at| *due < at)) {
            end.wake_ms = Some(due_ms);
            self.queue.push(due_ms, Event::WakeEnd(at));
        }
    }
}

/// Whether a message holds payload frames.
fn is_payload(message: &[u8]) -> bool {
    message.starts_with(&PAYLOAD_MARKER) || message.starts_with(&BATCH_MARKER)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use overlane_core::transaction::RelayFields;

    use super::super::config::SimConfig;
    use super::super::names::{Faults, Topology};
    use super::super::trace::Trace;
    use super::*;
    use crate::runtime::VERIFY_OUTSTANDING_MAX;

    const BEYOND: usize = 8;

    /// Nodes 0 and 1 of a mesh, linked, and node 0's end of their link.
    fn linked() -> (World<'static>, EndId) {
        let config = SimConfig {
            nodes: 2,
            topology: Topology::Mesh,
            faults: Faults::none(),
            messages_per_minute: 0,
            mails_per_minute: 0,
            groups: 0,
            references_per_minute: 0,
            ..SimConfig::default()
        };
        let mut world = World::new(config, Trace::new(None));
        world.begin();
        while world.nodes.iter().any(|node| node.linked().is_empty()) {
            let (at_ms, event) = world.queue.pop().unwrap();
            world.now_ms = world.now_ms.max(at_ms);
            world.happen(event);
            world.settle();
        }
        let ends = &world.nodes[0].running.as_ref().unwrap().links;
        let end = *ends.values().next().unwrap();
        (world, end)
    }

    /// As `runtime::driver` does: within frames that came together as well, no more checks are out than may be, the
    /// rest waits in its order, and nothing more is taken of any link.
    #[test]
    fn law_a_simulated_node_reads_no_frame_of_many_at_the_bound_of_outstanding_checks() {
        let (mut world, end) = linked();
        let (life, to) = (world.life(0), world.nodes[0].did);
        let signer = world.nodes[1].running.as_ref().unwrap().signer.clone();
        let sent = world.payload(to, RelayFields::direct(to), &signer, &signer);
        let frame: Bytes = sent.unwrap().to_frame(|_| false).into();
        let frames = vec![frame; VERIFY_OUTSTANDING_MAX + BEYOND];
        let class = Class::Application;
        world.session_event(end, 0, SessionEvent::Frames { class, frames });
        world.settle();
        for read in 0..=BEYOND {
            let running = world.running(0).unwrap();
            assert_eq!(running.jobs.len(), VERIFY_OUTSTANDING_MAX);
            assert_eq!(running.came.len(), BEYOND - read);
            assert!(running.reads_nothing());
            let ticket = *running.jobs.keys().next().unwrap();
            // An end that wants something meanwhile takes nothing of its session.
            world.dirty_ends.insert(end);
            world.verified(life, ticket);
            world.settle();
        }
        let running = world.running(0).unwrap();
        assert_eq!(running.jobs.len(), VERIFY_OUTSTANDING_MAX - 1);
        assert!(
            !running.reads_nothing() && !running.is_full,
            "its ends are asked again"
        );
    }
}
