//! Stabilisation: the rounds by which successors, predecessor and fingers come right.
//!
//! A round asks the first successor for its neighbours, takes its list over, asks whoever it names as a
//! nearer successor, and tells the one that is first then. Law (asked first): nobody becomes a first
//! successor but by its own answer, just given, and brings its own list with it. That is what Zave's proof of
//! the corrected Chord rests on.
//! Source: protocol decision 7, failure story 23.

use super::bounds::{
    CANDIDATES_PER_ROUND, NEIGHBOUR_TRIES, REQUEST_MS, SELF_CHECK_ROUNDS, SILENT_MAX, SILENT_MS,
    STABILISE_MS, STABILISE_QUICK_MS,
};
use super::error::RingRefusal;
use super::machine::Ring;
use super::members::Members;
use super::message::{RequestId, RingMessage};
use super::requests::Purpose;
use crate::ids::Did;

/// When rounds are.
#[derive(Debug, Clone)]
pub(super) struct Rounds {
    pub(super) next_ms: u64,
    pause_ms: u64,
    number: u64,
    candidates: u8,
}

impl Rounds {
    pub(super) fn new(next_ms: u64) -> Self {
        Self {
            next_ms,
            pause_ms: STABILISE_QUICK_MS,
            number: 0,
            candidates: 0,
        }
    }
}

impl Ring {
    /// One round.
    pub(super) fn round(&mut self, now_ms: u64) {
        self.counters.rounds = self.counters.rounds.saturating_add(1);
        self.rounds.number = self.rounds.number.wrapping_add(1);
        self.rounds.candidates = 0;
        let pause_ms = self.rounds.pause_ms;
        self.rounds.next_ms = now_ms.saturating_add(self.chance.spread(pause_ms));
        self.rounds.pause_ms = pause_ms.saturating_mul(2).min(STABILISE_MS);
        self.silent.retain(|_, until_ms| *until_ms > now_ms);

        let contact = self.contact();
        match (self.members.first(), self.members.predecessor()) {
            (Some(_), _) => {
                self.refresh(now_ms);
                self.check_predecessor(now_ms);
                self.look_for_finger(true, now_ms);
                let check = self.rounds.number.is_multiple_of(SELF_CHECK_ROUNDS);
                if let (true, Some(contact)) = (check, contact) {
                    self.look_for_itself(contact, now_ms);
                }
            }
            (None, predecessor) => {
                // Who takes this node for its successor is one, as long as there is no other.
                if let Some(predecessor) = predecessor {
                    self.consider(predecessor, now_ms);
                }
                if let Some(contact) = contact {
                    self.look_for_itself(contact, now_ms);
                }
            }
        }
        self.want_links(now_ms);
    }

    /// The next round is soon.
    pub(super) fn hurry(&mut self, now_ms: u64) {
        self.rounds.pause_ms = STABILISE_QUICK_MS;
        let soon_ms = now_ms.saturating_add(self.chance.spread(STABILISE_QUICK_MS));
        self.rounds.next_ms = self.rounds.next_ms.min(soon_ms);
    }

    /// Asks the first successor for its neighbours.
    pub(super) fn refresh(&mut self, now_ms: u64) {
        let under_way = self.requests.any(|purpose| *purpose == Purpose::Refresh);
        if let (Some(first), false) = (self.members.first(), under_way) {
            self.ask_state(first, Purpose::Refresh, now_ms);
        }
    }

    /// Asks the predecessor whether it is there, unless a live link says so.
    pub(super) fn check_predecessor(&mut self, now_ms: u64) {
        let under_way = self
            .requests
            .any(|purpose| *purpose == Purpose::Predecessor);
        if let (Some(predecessor), false) = (self.members.predecessor(), under_way)
            && !self.linked.contains(&predecessor)
        {
            self.ask_state(predecessor, Purpose::Predecessor, now_ms);
        }
    }

    /// Asks `node` whether it is there, if it would be the first successor.
    pub(super) fn consider(&mut self, node: Did, now_ms: u64) {
        let under_way = self
            .requests
            .all()
            .any(|(_, it)| it.purpose == Purpose::Candidate && it.to == node);
        let asks = self.members.is_nearer(node)
            && !self.is_silent(node)
            && !under_way
            && self.rounds.candidates < CANDIDATES_PER_ROUND
            && !mutant!(SeesNoCandidates);
        if !asks {
            return;
        }
        self.rounds.candidates += 1;
        if mutant!(TakesCandidatesUnasked) {
            self.members.adopt(node, &[]);
        }
        self.ask_state(node, Purpose::Candidate, now_ms);
    }

    /// What this node says of its neighbours.
    pub(super) fn state(&self, id: RequestId) -> RingMessage {
        RingMessage::State {
            id,
            predecessor: self.members.predecessor(),
            successors: self.members.successors().to_vec(),
        }
    }

    /// The first successor, or one that lies nearer, answered.
    pub(super) fn neighbour_answered(
        &mut self,
        from: Did,
        its_predecessor: Option<Did>,
        its_successors: &[Did],
        now_ms: u64,
    ) {
        let is_first = self.members.first() == Some(from);
        if !is_first && !self.members.is_nearer(from) {
            return;
        }
        // Who has no successor is in no ring yet: its empty list would take the place of one that holds, and
        // the ring would hang on a node that leads nowhere.
        let in_no_ring = its_successors.is_empty() && !mutant!(TakesWhoIsInNoRing);
        match (in_no_ring && self.members.first().is_some(), is_first) {
            (true, false) => return,
            (true, true) => {}
            (false, _) => {
                if self.members.adopt(from, its_successors) {
                    self.changed(now_ms);
                }
            }
        }
        self.in_its_place = its_predecessor == Some(self.own);
        let nearer = its_predecessor.filter(|&node| {
            self.members.is_nearer(node) && !self.is_silent(node) && !mutant!(SeesNoCandidates)
        });
        match nearer {
            Some(node) if self.rounds.candidates < CANDIDATES_PER_ROUND => {
                self.consider(node, now_ms);
            }
            _ if its_predecessor != Some(self.own) => self.notify(from),
            _ => {}
        }
        self.look_for_finger(false, now_ms);
    }

    /// `from` takes this node for its successor.
    pub(super) fn notified(&mut self, from: Did, now_ms: u64) {
        let before = self.members.predecessor();
        if !self.members.rectify(from) {
            // Whom it has instead may be gone.
            self.check_predecessor(now_ms);
        } else if before != Some(from) {
            self.changed(now_ms);
        }
        if self.members.first().is_none() {
            self.consider(from, now_ms);
        }
    }

    /// `from` leaves; `its_successors` came after it.
    pub(super) fn left(
        &mut self,
        from: Did,
        its_successors: &[Did],
        now_ms: u64,
    ) -> Result<(), RingRefusal> {
        if !Members::is_ordered(from, its_successors) {
            return Err(RingRefusal::Disordered { from });
        }
        self.note_silent(from, now_ms);
        if self.members.drop_predecessor(from) {
            self.changed(now_ms);
        }
        if self.members.successors().contains(&from) {
            self.successor_is_gone(from, now_ms);
        }
        if self.members.first().is_none() {
            let next = its_successors.iter().find(|&&node| node != self.own);
            if let Some(&next) = next {
                self.consider(next, now_ms);
            }
        }
        self.fingers.forget(from);
        self.want_links(now_ms);
        Ok(())
    }

    /// Puts a request to a neighbour once more; `false` if that was done, or is of no use.
    pub(super) fn asks_again(&mut self, id: RequestId, now_ms: u64) -> bool {
        let Some(request) = self.requests.get_mut(id) else {
            return false;
        };
        let neighbour = matches!(request.purpose, Purpose::Refresh | Purpose::Predecessor);
        if !neighbour || request.tries >= NEIGHBOUR_TRIES || request.due_ms > now_ms {
            return false;
        }
        request.tries += 1;
        request.due_ms = now_ms.saturating_add(REQUEST_MS);
        let (to, message) = (request.to, request.message.clone());
        self.counters.requests = self.counters.requests.saturating_add(1);
        self.send(to, message);
        true
    }

    /// A successor is gone: the next one is asked at once.
    pub(super) fn successor_is_gone(&mut self, node: Did, now_ms: u64) {
        self.note_silent(node, now_ms);
        let was_first = self.members.drop_successor(node);
        self.in_its_place &= !was_first;
        self.fingers.forget(node);
        self.changed(now_ms);
        if was_first {
            self.refresh(now_ms);
        }
    }

    /// A node that would be nearer is gone: the first successor stays.
    pub(super) fn candidate_is_gone(&mut self, node: Did, now_ms: u64) {
        self.note_silent(node, now_ms);
        if let Some(first) = self.members.first() {
            self.notify(first);
        }
    }

    /// The predecessor is gone; the next one will tell.
    pub(super) fn predecessor_is_gone(&mut self, node: Did, now_ms: u64) {
        if !mutant!(KeepsADeadPredecessor) && self.members.drop_predecessor(node) {
            self.note_silent(node, now_ms);
            self.changed(now_ms);
        }
    }

    /// A node does not answer.
    pub(super) fn note_silent(&mut self, node: Did, now_ms: u64) {
        if self.silent.len() >= SILENT_MAX
            && let Some((&soonest, _)) = self.silent.iter().min_by_key(|(_, until)| **until)
        {
            self.silent.remove(&soonest);
        }
        self.silent.insert(node, now_ms.saturating_add(SILENT_MS));
    }

    pub(super) fn is_silent(&self, node: Did) -> bool {
        self.silent.contains_key(&node)
    }

    /// Says which links are needed now.
    pub(super) fn want_links(&mut self, now_ms: u64) {
        let unlinked = |node: &Did| !self.linked.contains(node);
        let needed: Vec<Did> = self.needs().into_iter().filter(unlinked).collect();
        let later = self.members.predecessor();
        self.wants.set(needed, later, now_ms);
    }

    fn changed(&mut self, now_ms: u64) {
        self.counters.changes = self.counters.changes.saturating_add(1);
        if self.keeps_fingers {
            self.fingers.prove_successors(self.members.successors());
        }
        self.hurry(now_ms);
        self.want_links(now_ms);
    }

    fn notify(&mut self, successor: Did) {
        if !mutant!(NotifiesNobody) {
            self.send(successor, RingMessage::Notify);
        }
    }

    fn ask_state(&mut self, to: Did, purpose: Purpose, now_ms: u64) {
        let id = self.requests.draw();
        self.ask(id, to, purpose, RingMessage::Ask { id }, now_ms);
    }

    /// A linked peer, by chance: none is asked by all, or never.
    fn contact(&mut self) -> Option<Did> {
        let peers = u64::try_from(self.linked.len()).unwrap_or(u64::MAX);
        let at = self.chance.next().checked_rem(peers)?;
        self.linked.iter().nth(usize::try_from(at).ok()?).copied()
    }
}
