//! Requests of one node that have no answer yet.
//!
//! Law (correlation): a request has one number, one node that it was put to and one kind of answer; it
//! ends once, by its answer, by a report or by time.

use std::collections::{BTreeMap, VecDeque};

use super::bounds::{LATE_MAX, OWN_REQUESTS, REQUESTS_MAX};
use super::chain::Behind;
use super::lookup::Lookup;
use super::message::{RequestId, RingMessage};
use super::trace::{Path, Trace};
use crate::ids::Did;

/// What came of a request of this node's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RingAnswer {
    /// The node is there.
    Pong {
        /// Hops that the request took.
        hops: u8,
        /// From asking to answer, in milliseconds.
        round_trip_ms: u64,
    },
    /// It answers the offer.
    Answered(Vec<u8>),
    /// The way that messages take.
    Path(Path),
    /// What it says of an account; nothing of it is checked.
    Key {
        /// The account's public key, in libp2p's protobuf form.
        account: Option<Vec<u8>>,
        /// Its contact card.
        card: Option<Vec<u8>>,
    },
    /// The first nodes after a place, without the one at it.
    Chain(Vec<Did>),
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// The first successor's neighbours.
    Refresh,
    /// Whether a nearer node is there, and its neighbours.
    Candidate,
    /// Whether the predecessor is there.
    Predecessor,
    /// A step of a lookup.
    Lookup(Lookup),
    /// Who comes behind the last node found of a chain.
    Behind(Behind),
    /// A step of a trace.
    Trace(Trace),
    /// The user's: a ping, an offer, a question for a key.
    User,
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) to: Did,
    pub(super) purpose: Purpose,
    pub(super) message: RingMessage,
    /// When its user asked.
    pub(super) asked_ms: u64,
    pub(super) due_ms: u64,
    pub(super) tries: u8,
}

/// The requests of one node.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    open: BTreeMap<RequestId, Request>,
    late: VecDeque<(RequestId, Did)>,
    next: u64,
}

impl Requests {
    /// No request yet; the first has the number `first`.
    pub(super) fn new(first: u64) -> Self {
        Self {
            open: BTreeMap::new(),
            late: VecDeque::new(),
            next: first,
        }
    }

    /// A number of its own.
    pub(super) fn draw(&mut self) -> RequestId {
        let id = RequestId(self.next);
        self.next = self.next.wrapping_add(1);
        id
    }

    /// Whether the user may put another.
    pub(super) fn has_room(&self) -> bool {
        self.open.len() < REQUESTS_MAX - OWN_REQUESTS
    }

    pub(super) fn open(&mut self, id: RequestId, request: Request) {
        self.open.insert(id, request);
    }

    pub(super) fn get(&self, id: RequestId) -> Option<&Request> {
        self.open.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.open.get_mut(&id)
    }

    /// Ends a request. One that was put more than once may be answered as often.
    pub(super) fn close(&mut self, id: RequestId) -> Option<Request> {
        let request = self.open.remove(&id)?;
        if request.tries > 1 {
            self.note_late(id, request.to);
        }
        Some(request)
    }

    /// Ends a request whose answer may still come.
    pub(super) fn give_up(&mut self, id: RequestId) -> Option<Request> {
        let request = self.open.remove(&id)?;
        self.note_late(id, request.to);
        Some(request)
    }

    fn note_late(&mut self, id: RequestId, to: Did) {
        if self.late.len() >= LATE_MAX {
            self.late.pop_front();
        }
        self.late.push_back((id, to));
    }

    /// Whether this answers a request that was given up, or put more than once.
    pub(super) fn is_late(&self, id: RequestId, from: Did) -> bool {
        self.late.contains(&(id, from))
    }

    /// Whether a request for this is open.
    pub(super) fn any(&self, of: impl Fn(&Purpose) -> bool) -> bool {
        self.open.values().any(|request| of(&request.purpose))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        self.open.iter().map(|(&id, request)| (id, request))
    }

    /// Those that wait no longer.
    pub(super) fn due(&self, now_ms: u64) -> Vec<RequestId> {
        let due = self.open.iter().filter(|(_, it)| it.due_ms <= now_ms);
        due.map(|(&id, _)| id).collect()
    }

    pub(super) fn due_ms(&self) -> Option<u64> {
        self.open.values().map(|request| request.due_ms).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(tries: u8) -> (Requests, RequestId) {
        let mut requests = Requests::new(7);
        let id = requests.draw();
        let request = Request {
            to: Did([1; 20]),
            purpose: Purpose::Refresh,
            message: RingMessage::Ask { id },
            asked_ms: 0,
            due_ms: 5,
            tries,
        };
        requests.open(id, request);
        (requests, id)
    }

    #[test]
    fn an_answer_to_a_second_asking_is_late_and_one_to_nothing_is_not() {
        for (tries, late) in [(1, false), (2, true)] {
            let (mut requests, id) = put(tries);
            assert!(requests.close(id).is_some());
            assert_eq!(requests.is_late(id, Did([1; 20])), late);
            assert!(!requests.is_late(id, Did([2; 20])));
        }
        let (mut requests, id) = put(1);
        assert!(requests.give_up(id).is_some());
        assert!(requests.is_late(id, Did([1; 20])));
    }
}
