//! Lookups: who owns a place, asked of one node after another, each nearer before it.
//!
//! Law (progress): each node that is asked lies nearer before the place than the one that named it, so a
//! lookup ends, and who names anything else has lied. Every answer is signed by the node that was asked.

use std::collections::BTreeSet;

use super::bounds::LOOKUP_STEPS_MAX;
use super::error::RingRefusal;
use super::machine::Ring;
use super::members::Members;
use super::message::{RequestId, RingMessage};
use super::place::{Distance, is_between, is_owned};
use super::requests::Purpose;
use crate::ids::Did;

/// A lookup under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Lookup {
    pub(super) aim: Aim,
    pub(super) place: Did,
    pub(super) steps: u8,
    /// The linked peer by way of which the nodes are asked.
    pub(super) contact: Did,
}

/// What a lookup is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Aim {
    /// This node's own successor, by way of another peer: to join, and to see whether it is right.
    Itself,
    /// A finger.
    Finger(u8),
    /// The nodes behind a place, for this request of the node's user.
    Chain(RequestId),
}

impl Ring {
    /// Looks for this node's own successor by way of `contact`, unless that is under way.
    pub(super) fn look_for_itself(&mut self, contact: Did, now_ms: u64) {
        let under_way =
            |purpose: &Purpose| matches!(purpose, Purpose::Lookup(it) if it.aim == Aim::Itself);
        if !self.requests.any(under_way) {
            let place = Distance::power_of_two(0).after(self.own);
            let lookup = Lookup {
                aim: Aim::Itself,
                place,
                steps: 0,
                contact,
            };
            self.step(contact, lookup, now_ms);
        }
    }

    /// Proves the next finger that is not, or looks the next one up again.
    pub(super) fn look_for_finger(&mut self, again: bool, now_ms: u64) {
        let under_way = |purpose: &Purpose| matches!(purpose, Purpose::Lookup(it) if matches!(it.aim, Aim::Finger(_)));
        let none = !self.keeps_fingers || self.members.first().is_none();
        if none || self.requests.any(under_way) {
            return;
        }
        self.fingers.prove_successors(self.members.successors());
        let slot = match self.fingers.unproven() {
            Some(slot) => slot,
            None if again => {
                self.finger = self.fingers.next_run(self.finger);
                self.finger
            }
            None => return,
        };
        let place = self.fingers.place(slot);
        let aim = Aim::Finger(slot);
        match self.nearest_before(place, None) {
            Some(nearest) => {
                let lookup = Lookup {
                    aim,
                    place,
                    steps: 0,
                    contact: nearest,
                };
                self.step(nearest, lookup, now_ms);
            }
            // Nobody known lies between: the first successor owns it, as far as anybody knows.
            None => {
                if let Some(first) = self.members.first() {
                    self.fingers.prove(slot, first);
                }
            }
        }
    }

    /// What this node answers to who asks for the owner of `place`.
    pub(super) fn found(&self, asker: Did, id: RequestId, place: Did) -> RingMessage {
        let Some(first) = self.members.first() else {
            let owners = vec![self.own];
            return RingMessage::Owner { id, owners };
        };
        if is_owned(self.own, place, first) {
            let owners = self.members.successors().to_vec();
            return RingMessage::Owner { id, owners };
        }
        let nearest = self.nearest_before(place, Some(asker));
        match nearest.or_else(|| self.nearest_before(place, None)) {
            Some(node) => {
                let after = self.first_known_at(place, asker);
                RingMessage::Nearer { id, node, after }
            }
            None => RingMessage::Owner {
                id,
                owners: self.members.successors().to_vec(),
            },
        }
    }

    /// The owner, according to `from`.
    pub(super) fn owner_found(
        &mut self,
        from: Did,
        lookup: &Lookup,
        owners: &[Did],
        now_ms: u64,
    ) -> Result<(), RingRefusal> {
        let Some((&owner, rest)) = owners.split_first() else {
            return Err(RingRefusal::NoProgress { from });
        };
        if !is_owned(from, lookup.place, owner) {
            return Err(RingRefusal::NoProgress { from });
        }
        if !Members::is_ordered(owner, rest) {
            return Err(RingRefusal::Disordered { from });
        }
        match lookup.aim {
            Aim::Itself => {
                self.checked_ms = Some(now_ms);
                self.note_found(owner, lookup.contact);
                self.consider(owner, now_ms);
            }
            Aim::Finger(slot) => {
                self.fingers.prove(slot, owner);
                self.want_links(now_ms);
                self.lookup_ended = true;
            }
            Aim::Chain(user) => self.chain_found((user, lookup.place), from, owners, now_ms),
        }
        Ok(())
    }

    /// A node nearer before the place, according to `from`.
    pub(super) fn nearer_found(
        &mut self,
        from: Did,
        lookup: &Lookup,
        (node, after): (Did, Option<Did>),
        now_ms: u64,
    ) -> Result<(), RingRefusal> {
        if !is_between(from, node, lookup.place) {
            return Err(RingRefusal::NoProgress { from });
        }
        // Two rings whose nodes only find themselves come together by whom others know: it is asked
        // before it is taken, as any nearer successor.
        if let (Aim::Itself, Some(after)) = (lookup.aim, after) {
            self.note_found(after, lookup.contact);
            self.consider(after, now_ms);
        }
        let goes_on = lookup.steps < LOOKUP_STEPS_MAX && !self.is_silent(node);
        if let Aim::Chain(user) = lookup.aim
            && (node == self.own || !goes_on)
        {
            self.chain_is_lost(user, node);
        } else if node == self.own {
            // The ring leads back here: what this node has for its successor is what the ring has.
            self.checked_ms = Some(now_ms);
            self.lookup_ended = true;
        } else if goes_on {
            let steps = lookup.steps + 1;
            let lookup = lookup.clone();
            if lookup.aim == Aim::Itself {
                self.note_found(node, lookup.contact);
            }
            self.step(node, Lookup { steps, ..lookup }, now_ms);
        }
        Ok(())
    }

    /// The known node nearest before `place`, and after this one.
    pub(super) fn nearest_before(&self, place: Did, but: Option<Did>) -> Option<Did> {
        let first = self.members.first();
        let fits = |node: &Did| Some(*node) != but && is_between(self.own, *node, place);
        // What is linked lives; the first successor was asked not long ago.
        let mut backwards = self.linked.range(..place).rev();
        let linked = backwards.find(|node| Some(**node) != but);
        let mut wrapped = self.linked.iter().rev();
        let linked = linked.or_else(|| wrapped.find(|node| Some(**node) != but));
        let known: BTreeSet<Did> = first.into_iter().chain(linked.copied()).collect();
        let fitting = known.into_iter().filter(fits);
        fitting.max_by_key(|&node| Distance::between(self.own, node))
    }

    /// The first node at `place` or after it that is linked, or next, or this one.
    fn first_known_at(&self, place: Did, but: Did) -> Option<Did> {
        let known = self.linked.iter().copied().chain(self.members.first());
        let known = known.chain([self.own]).filter(|&node| node != but);
        known.min_by_key(|&node| Distance::between(place, node))
    }

    pub(super) fn step(&mut self, to: Did, lookup: Lookup, now_ms: u64) {
        let id = self.requests.draw();
        let place = lookup.place;
        let message = RingMessage::Find { id, place };
        self.ask(id, to, Purpose::Lookup(lookup), message, now_ms);
    }
}
