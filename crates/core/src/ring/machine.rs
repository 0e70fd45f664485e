//! One node's part of the ring: what comes in, what it wants done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::bounds::{FINGER_SLOTS, FOUND_BY_MAX, REQUEST_MS, STABILISE_QUICK_MS, SUCCESSORS_KEPT};
use super::chance::Chance;
use super::error::{RingError, RingRefusal};
use super::fingers::Fingers;
use super::lookup::Aim;
use super::members::Members;
use super::message::{RequestId, RingMessage, WhyUnreachable};
use super::requests::{Purpose, Request, Requests, RingAnswer};
use super::rounds::Rounds;
use super::route::{Route, first_after, route};
use super::trace::{PathEnd, Trace};
use super::wants::Wants;
use crate::ids::Did;
use crate::transaction::HOP_BUDGET_MAX;

/// What a node's part of the ring goes by.
#[derive(Debug, Clone, Copy)]
pub struct RingConfig {
    /// Spreads pauses, and numbers requests: drawn at random by whoever makes the ring.
    pub seed: u64,
    /// Successors kept.
    pub successors: usize,
    /// Whether it keeps fingers.
    pub fingers: bool,
}

impl RingConfig {
    /// The protocol's numbers, spread by `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            successors: SUCCESSORS_KEPT,
            fingers: true,
        }
    }
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RingAction {
    /// Sign this and send it.
    Send {
        /// Whom it is for.
        to: Did,
        /// The node by way of which it goes, where the ring may not lead there.
        via: Option<Did>,
        /// The node by way of which this one hears an answer, likewise.
        reply_via: Option<Did>,
        /// What it says.
        message: RingMessage,
    },
    /// A link to this node is needed; say with [`Ring::handle_linked`] or
    /// [`Ring::handle_connect_failed`] what became of it.
    Connect {
        /// The node.
        peer: Did,
    },
    /// A request of this node's user is over.
    Done {
        /// The request.
        id: RequestId,
        /// What came of it.
        result: Result<RingAnswer, RingError>,
    },
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rounds of stabilisation.
    pub rounds: u64,
    /// Requests put to other nodes, repetitions included.
    pub requests: u64,
    /// Answers that came in time.
    pub answers: u64,
    /// Answers that came after their request was given up.
    pub late_answers: u64,
    /// Requests given up without an answer.
    pub unanswered: u64,
    /// Changes of successors or predecessor.
    pub changes: u64,
}

/// One node's part of the ring.
#[derive(Debug, Clone)]
pub struct Ring {
    pub(super) own: Did,
    pub(super) linked: BTreeSet<Did>,
    pub(super) members: Members,
    pub(super) fingers: Fingers,
    pub(super) keeps_fingers: bool,
    /// The slot that was looked up last.
    pub(super) finger: u8,
    pub(super) requests: Requests,
    pub(super) silent: BTreeMap<Did, u64>,
    /// Linked peers by way of which others were found; the ring may not lead to those yet.
    pub(super) found_by: BTreeMap<Did, Did>,
    pub(super) wants: Wants,
    pub(super) rounds: Rounds,
    pub(super) chance: Chance,
    pub(super) counters: Counters,
    pub(super) leaving: bool,
    /// A lookup ended: the next finger is looked up at once.
    pub(super) lookup_ended: bool,
    /// Whether the first successor said last that this node is its predecessor.
    pub(super) in_its_place: bool,
    /// When the ring last confirmed this node's successor.
    pub(super) checked_ms: Option<u64>,
    pub(super) actions: VecDeque<RingAction>,
}

impl Ring {
    /// A node that is in no ring yet.
    pub fn new(own: Did, config: RingConfig, now_ms: u64) -> Self {
        let mut chance = Chance::new(config.seed);
        let requests = Requests::new(chance.next() >> 1);
        Self {
            own,
            linked: BTreeSet::new(),
            members: Members::new(own, config.successors),
            fingers: Fingers::new(own),
            keeps_fingers: config.fingers,
            finger: FINGER_SLOTS - 1,
            requests,
            silent: BTreeMap::new(),
            found_by: BTreeMap::new(),
            wants: Wants::default(),
            rounds: Rounds::new(now_ms.saturating_add(chance.spread(STABILISE_QUICK_MS))),
            chance,
            counters: Counters::default(),
            leaving: false,
            lookup_ended: false,
            in_its_place: false,
            checked_ms: None,
            actions: VecDeque::new(),
        }
    }

    // What it is.

    /// Its neighbours.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Its finger table.
    pub fn fingers(&self) -> &Fingers {
        &self.fingers
    }

    /// The peers it is linked to.
    pub fn linked(&self) -> &BTreeSet<Did> {
        &self.linked
    }

    /// Counts since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Requests without an answer.
    pub fn waiting(&self) -> usize {
        self.requests.all().count()
    }

    /// When a lookup by way of another peer last confirmed this node's successor.
    pub fn confirmed_ms(&self) -> Option<u64> {
        self.checked_ms
    }

    /// The neighbours and fingers, the most needed first: never to be evicted.
    pub fn needs(&self) -> Vec<Did> {
        let mut needs = self.members.successors().to_vec();
        let fingers = self.fingers.nodes().into_iter();
        for node in self.members.predecessor().into_iter().chain(fingers) {
            if !needs.contains(&node) {
                needs.push(node);
            }
        }
        needs
    }

    /// Where a message for `destination` goes from here.
    pub fn route(&self, destination: Did, handed_off: bool) -> Route {
        route(self.own, &self.linked, destination, handed_off)
    }

    /// The node by way of which this one hears answers as long as the ring may not lead to it: its
    /// nearest linked successor that answers. `None` once it has a predecessor and its first successor has it for one.
    pub fn reply_via(&self) -> Option<Did> {
        let in_its_place = self.members.predecessor().is_some() && self.in_its_place;
        if in_its_place {
            return None;
        }
        // One that did not answer is linked and may pass nothing on.
        let linked = self.linked.iter().copied();
        let awake: BTreeSet<Did> = linked.filter(|&peer| !self.is_silent(peer)).collect();
        first_after(self.own, &awake).or_else(|| first_after(self.own, &self.linked))
    }

    // What happened.

    /// A link to `peer` is up.
    pub fn handle_linked(&mut self, peer: Did, now_ms: u64) {
        if peer == self.own || !self.linked.insert(peer) {
            return;
        }
        self.silent.remove(&peer);
        if self.members.first().is_none() {
            self.hurry(now_ms);
        } else if !self.leaving {
            self.consider(peer, now_ms);
            // It may be of another ring, or know nodes that nobody here knows.
            self.look_for_itself(peer, now_ms);
        }
        self.found_by.remove(&peer);
        self.want_links(now_ms);
    }

    /// The last link to `peer` is down.
    pub fn handle_unlinked(&mut self, peer: Did, now_ms: u64) {
        if !self.linked.remove(&peer) || self.leaving {
            return;
        }
        if self.members.first() == Some(peer) {
            self.refresh(now_ms);
        }
        if self.members.predecessor() == Some(peer) {
            self.check_predecessor(now_ms);
        }
        self.want_links(now_ms);
    }

    /// A link that was wanted could not be had.
    pub fn handle_connect_failed(&mut self, peer: Did, now_ms: u64) {
        self.wants.failed(peer, now_ms, &mut self.chance);
    }

    /// A message of `from`, which signed it. It came over `hops` hops, and hears by way of `via`.
    ///
    /// # Errors
    /// [`RingRefusal`]; it has changed nothing.
    pub fn handle_message(
        &mut self,
        from: Did,
        via: Option<Did>,
        hops: u8,
        message: RingMessage,
        now_ms: u64,
    ) -> Result<(), RingRefusal> {
        if self.leaving && message.asks().is_some() {
            // Who leaves is nobody's neighbour any more.
            return Ok(());
        }
        let answer = match message {
            RingMessage::Ask { id } => self.state(id),
            RingMessage::Find { id, place } => self.found(from, id, place),
            RingMessage::Ping { id } => RingMessage::Pong { id, hops },
            RingMessage::Where {
                id,
                destination,
                handed_off,
            } => self.there(id, destination, handed_off),
            RingMessage::Notify => {
                self.notified(from, now_ms);
                return Ok(());
            }
            RingMessage::Leave { successors, .. } => return self.left(from, &successors, now_ms),
            // Who carries messages knows whether that one was sent; who makes links answers offers; who
            // seals knows keys.
            RingMessage::Unreachable { .. }
            | RingMessage::Offer { .. }
            | RingMessage::KeyOf { .. } => return Ok(()),
            answer => return self.answered(from, answer, now_ms),
        };
        self.reply(from, via, answer);
        Ok(())
    }

    /// A node on the way says that a request does not reach whom it is for.
    pub fn handle_unreachable(
        &mut self,
        id: RequestId,
        reporter: Did,
        why: WhyUnreachable,
        now_ms: u64,
    ) {
        let Some(request) = self.requests.get(id) else {
            return;
        };
        // A neighbour is taken for gone after its time and its tries alone: where the ring is not
        // settled, a route to it may end today and not tomorrow.
        if matches!(request.purpose, Purpose::Refresh | Purpose::Predecessor) {
            return;
        }
        let to = request.to;
        self.gave_no_answer(id, RingError::Unreachable { to, reporter, why }, now_ms);
    }

    /// A request could not be sent.
    pub fn handle_not_sent(&mut self, id: RequestId, code: &'static str, now_ms: u64) {
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let to = request.to;
        self.gave_no_answer(id, RingError::NotSent { to, code }, now_ms);
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        for id in self.requests.due(now_ms) {
            if let Some(request) = self.requests.get(id) {
                let to = request.to;
                let waited_ms = now_ms.saturating_sub(request.asked_ms);
                self.gave_no_answer(id, RingError::NoAnswer { to, waited_ms }, now_ms);
            }
        }
        if self.rounds.next_ms <= now_ms && !self.leaving {
            self.round(now_ms);
        }
        if std::mem::take(&mut self.lookup_ended) {
            self.look_for_finger(false, now_ms);
        }
        while let Some(peer) = self.wants.poll(now_ms, &mut self.chance) {
            self.actions.push_back(RingAction::Connect { peer });
        }
    }

    // What its user wants.

    /// Asks whether `to` is there.
    ///
    /// # Errors
    /// [`RingError::TooManyRequests`].
    pub fn ping(&mut self, to: Did, now_ms: u64) -> Result<RequestId, RingError> {
        let id = self.draw()?;
        self.ask(id, to, Purpose::User, RingMessage::Ping { id }, now_ms);
        Ok(id)
    }

    /// Offers `to` a link.
    ///
    /// # Errors
    /// [`RingError::TooManyRequests`].
    pub fn offer(&mut self, to: Did, offer: Vec<u8>, now_ms: u64) -> Result<RequestId, RingError> {
        let id = self.draw()?;
        let message = RingMessage::Offer { id, offer };
        self.ask(id, to, Purpose::User, message, now_ms);
        Ok(id)
    }

    /// Asks `to` what is sealed to for `account`.
    ///
    /// # Errors
    /// [`RingError::TooManyRequests`].
    pub fn ask_key(&mut self, to: Did, account: Did, now_ms: u64) -> Result<RequestId, RingError> {
        let id = self.draw()?;
        let message = RingMessage::KeyOf { id, account };
        self.ask(id, to, Purpose::User, message, now_ms);
        Ok(id)
    }

    /// Asks each hop for the way that messages to `destination` take.
    ///
    /// # Errors
    /// [`RingError::TooManyRequests`].
    pub fn trace(&mut self, destination: Did, now_ms: u64) -> Result<RequestId, RingError> {
        let id = self.draw()?;
        let trace = Trace {
            destination,
            hops: Vec::new(),
            handed_off: false,
        };
        let routed = self.route(destination, false);
        let handed_off = matches!(routed, Route::Across(_));
        self.follow(id, trace, routed.next_hop(), handed_off, now_ms);
        Ok(id)
    }

    /// Answers an offer, or declines it with a code.
    pub fn answer(
        &mut self,
        to: Did,
        via: Option<Did>,
        id: RequestId,
        answer: Result<Vec<u8>, String>,
    ) {
        let message = match answer {
            Ok(answer) => RingMessage::Answer { id, answer },
            Err(code) => RingMessage::Decline { id, code },
        };
        self.reply(to, via, message);
    }

    /// Answers what is sealed to for an account.
    pub fn answer_key(
        &mut self,
        to: Did,
        via: Option<Did>,
        id: RequestId,
        (account, card): (Option<Vec<u8>>, Option<Vec<u8>>),
    ) {
        self.reply(to, via, RingMessage::Key { id, account, card });
    }

    /// Leaves the ring: tells both neighbours, and does nothing more by itself.
    pub fn leave(&mut self) {
        self.leaving = true;
        let told: BTreeSet<Did> = self
            .members
            .first()
            .into_iter()
            .chain(self.members.predecessor())
            .collect();
        for to in told {
            let message = RingMessage::Leave {
                predecessor: self.members.predecessor(),
                successors: self.members.successors().to_vec(),
            };
            self.send(to, message);
        }
    }

    // What it wants done.

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<RingAction> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.lookup_ended {
            return Some(0);
        }
        let round = (!self.leaving).then_some(self.rounds.next_ms);
        let due = [round, self.requests.due_ms(), self.wants.due_ms()];
        due.into_iter().flatten().min()
    }

    /// Says something of this node's own accord.
    pub(super) fn send(&mut self, to: Did, message: RingMessage) {
        let via = self.way_to(to);
        let reply_via = message.asks().and_then(|_| via.or(self.reply_via()));
        self.actions.push_back(RingAction::Send {
            to,
            via,
            reply_via,
            message,
        });
    }

    pub(super) fn ask(
        &mut self,
        id: RequestId,
        to: Did,
        purpose: Purpose,
        message: RingMessage,
        now_ms: u64,
    ) {
        self.counters.requests = self.counters.requests.saturating_add(1);
        self.send(to, message.clone());
        let request = Request {
            to,
            purpose,
            message,
            asked_ms: now_ms,
            due_ms: now_ms.saturating_add(REQUEST_MS),
            tries: 1,
        };
        self.requests.open(id, request);
    }

    /// `node` was found by way of `contact`.
    pub(super) fn note_found(&mut self, node: Did, contact: Did) {
        if self.found_by.len() >= FOUND_BY_MAX
            && let Some((&any, _)) = self.found_by.first_key_value()
        {
            self.found_by.remove(&any);
        }
        if node != contact && node != self.own {
            self.found_by.insert(node, contact);
        }
    }

    /// The linked peer by way of which `to` was found, unless it is linked itself.
    fn way_to(&self, to: Did) -> Option<Did> {
        let contact = self.found_by.get(&to).copied();
        contact.filter(|contact| self.linked.contains(contact) && !self.linked.contains(&to))
    }

    /// Answers `to`, which hears by way of `via`.
    fn reply(&mut self, to: Did, via: Option<Did>, message: RingMessage) {
        let via = via.filter(|&via| via != self.own);
        self.actions.push_back(RingAction::Send {
            to,
            via,
            reply_via: None,
            message,
        });
    }

    pub(super) fn draw(&mut self) -> Result<RequestId, RingError> {
        if self.requests.has_room() {
            return Ok(self.requests.draw());
        }
        Err(RingError::TooManyRequests)
    }

    fn there(&self, id: RequestId, destination: Did, handed_off: bool) -> RingMessage {
        let routed = if destination == self.own {
            Route::Ends
        } else {
            self.route(destination, handed_off)
        };
        RingMessage::There {
            id,
            next_hop: routed.next_hop(),
            handed_off: handed_off || matches!(routed, Route::Across(_)),
        }
    }

    /// An answer: it counts if its request is open, was put to who answers, and asked for such.
    fn answered(
        &mut self,
        from: Did,
        message: RingMessage,
        now_ms: u64,
    ) -> Result<(), RingRefusal> {
        let Some(id) = message.answers() else {
            return Ok(());
        };
        let put_to = |request: &&Request| request.to == from;
        let Some(request) = self.requests.get(id).filter(put_to) else {
            if self.requests.is_late(id, from) {
                self.counters.late_answers = self.counters.late_answers.saturating_add(1);
                return Ok(());
            }
            return Err(RingRefusal::Unasked { from, id });
        };
        let (purpose, asked_ms) = (request.purpose.clone(), request.asked_ms);
        self.take_answer(from, id, purpose, asked_ms, message, now_ms)?;
        self.counters.answers = self.counters.answers.saturating_add(1);
        Ok(())
    }

    /// What does not hold leaves the request open: it ends as one without an answer.
    fn take_answer(
        &mut self,
        from: Did,
        id: RequestId,
        purpose: Purpose,
        asked_ms: u64,
        message: RingMessage,
        now_ms: u64,
    ) -> Result<(), RingRefusal> {
        let round_trip_ms = now_ms.saturating_sub(asked_ms);
        match (purpose, message) {
            (
                purpose @ (Purpose::Refresh | Purpose::Candidate | Purpose::Predecessor),
                RingMessage::State {
                    predecessor,
                    successors,
                    ..
                },
            ) => {
                if !Members::is_ordered(from, &successors) {
                    return Err(RingRefusal::Disordered { from });
                }
                self.requests.close(id);
                if purpose != Purpose::Predecessor {
                    self.neighbour_answered(from, predecessor, &successors, now_ms);
                }
            }
            (Purpose::Behind(behind), RingMessage::State { successors, .. }) => {
                self.take_behind(from, behind, &successors)?;
                self.requests.close(id);
            }
            (Purpose::Lookup(lookup), RingMessage::Owner { owners, .. }) => {
                self.owner_found(from, &lookup, &owners, now_ms)?;
                self.requests.close(id);
            }
            (Purpose::Lookup(lookup), RingMessage::Nearer { node, after, .. }) => {
                self.nearer_found(from, &lookup, (node, after), now_ms)?;
                self.requests.close(id);
            }
            (
                Purpose::Trace(trace),
                RingMessage::There {
                    next_hop,
                    handed_off,
                    ..
                },
            ) => {
                self.requests.close(id);
                self.follow(id, trace, next_hop, handed_off, now_ms);
            }
            (Purpose::User, RingMessage::Pong { hops, .. }) => {
                let answer = RingAnswer::Pong {
                    hops,
                    round_trip_ms,
                };
                self.done(id, Ok(answer));
            }
            (Purpose::User, RingMessage::Answer { answer, .. }) => {
                self.done(id, Ok(RingAnswer::Answered(answer)));
            }
            (Purpose::User, RingMessage::Key { account, card, .. }) => {
                self.done(id, Ok(RingAnswer::Key { account, card }));
            }
            (Purpose::User, RingMessage::Decline { code, .. }) => {
                self.done(id, Err(RingError::Declined { by: from, code }));
            }
            _ => return Err(RingRefusal::OtherAnswer { from, id }),
        }
        Ok(())
    }

    /// The next step of a trace under its own number.
    fn follow(
        &mut self,
        id: RequestId,
        mut trace: Trace,
        next_hop: Option<Did>,
        handed_off: bool,
        now_ms: u64,
    ) {
        trace.handed_off |= handed_off;
        let Some(next) = next_hop else {
            return self.done(id, Ok(RingAnswer::Path(trace.ends(PathEnd::NoRoute))));
        };
        trace.hops.push(next);
        let destination = trace.destination;
        if next == destination {
            return self.done(id, Ok(RingAnswer::Path(trace.ends(PathEnd::Arrives))));
        }
        if trace.hops.len() >= usize::from(HOP_BUDGET_MAX) {
            return self.done(id, Ok(RingAnswer::Path(trace.ends(PathEnd::HopBudget))));
        }
        if next == self.own {
            // It comes back here, and goes on from here as the message would.
            let routed = self.route(destination, trace.handed_off);
            let crosses = matches!(routed, Route::Across(_));
            return self.follow(id, trace, routed.next_hop(), crosses, now_ms);
        }
        let message = RingMessage::Where {
            id,
            destination,
            handed_off: trace.handed_off,
        };
        self.ask(id, next, Purpose::Trace(trace), message, now_ms);
    }

    pub(super) fn done(&mut self, id: RequestId, result: Result<RingAnswer, RingError>) {
        self.requests.close(id);
        self.actions.push_back(RingAction::Done { id, result });
    }

    /// A request ends without its answer, or is put once more.
    fn gave_no_answer(&mut self, id: RequestId, error: RingError, now_ms: u64) {
        if self.asks_again(id, now_ms) {
            return;
        }
        let Some(Request { to, purpose, .. }) = self.requests.give_up(id) else {
            return;
        };
        self.counters.unanswered = self.counters.unanswered.saturating_add(1);
        match purpose {
            Purpose::Refresh => self.successor_is_gone(to, now_ms),
            Purpose::Candidate => self.candidate_is_gone(to, now_ms),
            Purpose::Predecessor => self.predecessor_is_gone(to, now_ms),
            Purpose::Lookup(lookup) => {
                self.note_silent(to, now_ms);
                if let Aim::Chain(user) = lookup.aim {
                    self.chain_is_lost(user, to);
                }
            }
            Purpose::Behind(behind) => self.behind_is_silent(behind),
            Purpose::Trace(trace) => {
                let path = trace.ends(PathEnd::Silent);
                self.done(id, Ok(RingAnswer::Path(path)));
            }
            Purpose::User => self.done(id, Err(error)),
        }
    }
}
