//! The sender's side: a message is delivered, or held by the chain of its destination, or refused.
//!
//! Whether it arrived, its destination says itself once it is durable there (`Ask`, `Have`). Where it says
//! nothing in time, or a node on the way reports that nothing leads there, the very transaction is given
//! to the chain. So it is admitted once however it comes, and nobody is taken for away for good. That a message
//! is held is told when the book has it, durably.
//!
//! A node without a link is alone in its ring, and so the owner of every place there: what can be held is signed all
//! the same, is held here, and handed over when its destination comes.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::identity::VerifyContext;
use overlane_core::mail::{HoldProof, MAIL_DATA_MAX_BYTES, check_holdable};
use overlane_core::replay::Now;
use overlane_core::transaction::Payload;
use overlane_core::{Class, Coded, Did, TransactionDigest};
use overlane_relay::inbox::{Outcome, OutcomeKind};

use super::super::story::Step;
use super::super::{
    Effect as PeerEffect, Event, Outgoing, Peer, Receipt, SendError, SendId, claims_sealed,
};
use super::STORE_FAILED;
use super::book::HeldElsewhere;
use super::keeper::Job;
use super::types::{Arrived, Effect, InboxError, MailEvent};
use super::wire::Said;

/// Messages that wait to be delivered or held, at most.
pub const SENDING_MAX: usize = 1_024;

/// How long a destination has to say that it admitted a message, in milliseconds.
pub const DELIVERED_WITHIN_MS: u64 = 5_000;

/// How long holders have to give their receipts, in milliseconds.
pub const HELD_WITHIN_MS: u64 = 10_000;

/// How long the other holders have for theirs once another node has given its receipt, in milliseconds.
pub const HELD_TOO_WITHIN_MS: u64 = 2_000;

/// How often a message is given to the chain, as the ring names it by then.
pub const DEPOSITS_MAX: u8 = 3;

/// The sender's part.
#[derive(Debug, Default)]
pub(super) struct Sender {
    /// Sends whose results decide what is next.
    asked: BTreeSet<SendId>,
    /// Those of them that can be held, as far as that is known before they are signed.
    holdable: BTreeSet<SendId>,
    sending: BTreeMap<TransactionDigest, Sending>,
    /// Held, and on their way into the book.
    remembering: BTreeMap<TransactionDigest, Remembering>,
    /// As the book has it.
    held: BTreeMap<TransactionDigest, HeldElsewhere>,
}

#[derive(Debug)]
struct Sending {
    id: SendId,
    receipt: Receipt,
    state: State,
    due_ms: u64,
    tries: u8,
    /// All that it was ever given to: law **asked**, nobody else's receipt counts, whoever signed it.
    asked: BTreeSet<Did>,
}

#[derive(Debug)]
struct Remembering {
    id: SendId,
    destination: Did,
    receipts: Vec<HoldProof>,
    /// Those that were asked and have given no receipt.
    asked: BTreeSet<Did>,
}

#[derive(Debug)]
enum State {
    /// The destination was asked whether it has it.
    Asked,
    /// The ring was asked who would hold it.
    Looking,
    /// It was given to these.
    Given {
        to: BTreeSet<Did>,
        receipts: Vec<HoldProof>,
        refused: BTreeMap<Did, String>,
    },
}

impl Sender {
    /// Whether a send can be held, as far as that is known before it is signed.
    pub(super) fn is_to_be_held(&self, id: SendId) -> bool {
        self.holdable.contains(&id)
    }

    pub(super) fn sending(&self) -> usize {
        self.asked.len() + self.sending.len() + self.remembering.len()
    }

    pub(super) fn due_ms(&self) -> Option<u64> {
        self.sending.values().map(|it| it.due_ms).min()
    }

    /// Mail that others hold: what has not ended, and what has.
    pub(super) fn held(&self) -> (Vec<HeldElsewhere>, Vec<HeldElsewhere>) {
        let held = self.held.values().cloned();
        held.partition(|it| it.end.is_none())
    }

    /// Those that hold mail of this node's whose end is not known.
    pub(super) fn holders(&self) -> BTreeSet<Did> {
        let open = self.held.values().filter(|it| it.end.is_none());
        open.flat_map(|it| it.by.keys().copied()).collect()
    }

    /// Whom mail of this node's is for whose end is not known.
    pub(super) fn open_destinations(&self) -> BTreeSet<Did> {
        let open = self.held.values().filter(|it| it.end.is_none());
        open.map(|it| it.destination).collect()
    }
}

impl Peer {
    /// As [`send`](Self::send), and then says where the message is, as [`Effect::Arrived`]: its destination
    /// admitted it, or others hold it. It is to be sealed to its destination, or to be sealed before it is
    /// signed; what is not, or is too large, is delivered or not, and held by nobody.
    pub fn send_or_hold(&mut self, id: SendId, outgoing: Outgoing, now: Now) {
        let refused = if !self.mail.open {
            Some(InboxError::NoStore)
        } else if self.mail.sender.sending() >= SENDING_MAX {
            Some(InboxError::TooManySends)
        } else {
            self.mail.failure()
        };
        if let Some(refused) = refused {
            self.send(id, outgoing, now);
            return self.arrived(id, Err(refused));
        }
        if !may_be_held(&outgoing) {
            self.mail.sender.asked.insert(id);
            return self.send(id, outgoing, now);
        }
        self.mail.sender.asked.insert(id);
        self.mail.sender.holdable.insert(id);
        // Where nothing leads there, it is signed to be held.
        match self.check_send(outgoing.destination, now) {
            Ok(()) | Err(SendError::Unreachable { .. }) => self.take_on(id, outgoing, now),
            Err(error) => self.sent(id, Err(error)),
        }
    }

    /// The result of a send: whether what is to be delivered or held left.
    pub(in crate::peer) fn note_mail_sent(
        &mut self,
        id: SendId,
        result: &Result<Receipt, SendError>,
    ) {
        if !self.mail.sender.asked.remove(&id) {
            return;
        }
        self.mail.sender.holdable.remove(&id);
        if let Ok(receipt) = result {
            let digest = receipt.digest;
            let sending = Sending {
                id,
                receipt: receipt.clone(),
                state: State::Asked,
                due_ms: 0,
                tries: 0,
                asked: BTreeSet::new(),
            };
            self.mail.sender.sending.insert(digest, sending);
            self.mail.begun.push(digest);
        }
    }

    /// What was sent since is asked after.
    pub(super) fn begin_asking(&mut self, now: Now) {
        for digest in std::mem::take(&mut self.mail.begun) {
            let Some(sending) = self.mail.sender.sending.get_mut(&digest) else {
                continue;
            };
            sending.due_ms = now.steady_ms.saturating_add(DELIVERED_WITHIN_MS);
            let destination = sending.receipt.stream.destination;
            match self.way(destination, (None, None)) {
                Some(_) => self.say_of_mail(destination, &Said::Ask(digest), now),
                // It is nowhere yet, and its destination cannot be asked.
                None => self.look_for_holders(digest, now),
            }
        }
    }

    /// Its destination says that it admitted a message.
    pub(super) fn handle_have(&mut self, from: Did, digest: TransactionDigest, now: Now) {
        let sender = &mut self.mail.sender;
        let its = |it: &Sending| it.receipt.stream.destination == from;
        if sender.sending.get(&digest).is_some_and(its)
            && let Some(sending) = sender.sending.remove(&digest)
        {
            self.mail.counters.delivered += 1;
            self.note_later(digest, Step::Delivered, now);
            self.arrived(sending.id, Ok(Arrived::Delivered));
        }
    }

    /// A node on the way says that a message does not arrive. Whether nobody else is to hear of it.
    pub(in crate::peer) fn mail_unreachable(
        &mut self,
        digest: &TransactionDigest,
        now: Now,
    ) -> bool {
        if let Some(sending) = self.mail.sender.sending.get(digest) {
            if matches!(sending.state, State::Asked) {
                self.look_for_holders(*digest, now);
            }
            return false;
        }
        self.is_said_of_mail(digest)
    }

    /// Time passed.
    pub(super) fn sender_timeout(&mut self, now: Now) {
        let due = |it: &Sending| it.due_ms <= now.steady_ms && it.due_ms > 0;
        let due: Vec<TransactionDigest> = {
            let sending = self.mail.sender.sending.iter();
            sending.filter(|it| due(it.1)).map(|it| *it.0).collect()
        };
        for digest in due {
            let state = self.mail.sender.sending.get(&digest).map(|it| &it.state);
            match state {
                Some(State::Asked) => self.look_for_holders(digest, now),
                Some(State::Looking) => self.no_holders(digest, "ring/no_answer", now),
                Some(State::Given { .. }) => self.end_giving(digest, now),
                None => {}
            }
        }
    }

    /// The ring is asked who would hold a message, if it can be held.
    fn look_for_holders(&mut self, digest: TransactionDigest, now: Now) {
        let context = VerifyContext {
            network: self.network,
            now_ms: now.wall_ms,
        };
        let Some(sending) = self.mail.sender.sending.get_mut(&digest) else {
            return;
        };
        let destination = sending.receipt.stream.destination;
        sending.state = State::Looking;
        sending.due_ms = now.steady_ms.saturating_add(HELD_WITHIN_MS);
        // Larger than a frame it is no mail in any case.
        let payload = Payload::from_frame(&sending.receipt.signed);
        let payload = payload.and_then(|it| it.verify(&context));
        let holdable = match payload {
            Ok(payload) => check_holdable(&payload),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = holdable {
            let id = sending.id;
            self.mail.sender.sending.remove(&digest);
            self.mail.counters.not_held += 1;
            let code = error.code();
            self.note_later(digest, Step::NotHeld { code }, now);
            return self.arrived(id, Err(InboxError::NotHoldable { destination, error }));
        }
        // Without a place it is asked for again when its time is over.
        self.look_up(destination, true, now);
    }

    /// The ring named these to hold what is for `destination`, or a reason.
    pub(super) fn holders_known(
        &mut self,
        destination: Did,
        chain: Result<&[Did], &'static str>,
        now: Now,
    ) {
        let looking = |it: &Sending| {
            matches!(it.state, State::Looking) && it.receipt.stream.destination == destination
        };
        let sending = self.mail.sender.sending.iter();
        let looking: Vec<TransactionDigest> =
            sending.filter(|it| looking(it.1)).map(|it| *it.0).collect();
        for digest in looking {
            match chain {
                Ok(chain) if !chain.is_empty() => self.give(digest, chain, now),
                Ok(_) => self.no_holders(digest, "ring/no_answer", now),
                Err(code) => self.no_holders(digest, code, now),
            }
        }
        self.heirs_known(destination, chain, now);
    }

    fn give(&mut self, digest: TransactionDigest, chain: &[Did], now: Now) {
        let Some(sending) = self.mail.sender.sending.get_mut(&digest) else {
            return;
        };
        sending.tries = sending.tries.saturating_add(1);
        sending.due_ms = now.steady_ms.saturating_add(HELD_WITHIN_MS);
        sending.asked.extend(chain);
        sending.state = State::Given {
            to: chain.iter().copied().collect(),
            receipts: Vec::new(),
            refused: BTreeMap::new(),
        };
        let destination = sending.receipt.stream.destination;
        let payload = sending.receipt.signed.to_vec();
        for &to in chain {
            if to == self.did && self.mail.failure.is_some() {
                self.handle_not_held(to, digest, STORE_FAILED.to_owned(), now);
            } else if to == self.did {
                let job = Job::Deposit {
                    payload: payload.clone(),
                    by: self.own_bringer(),
                    owner: destination,
                    chain: chain.to_vec(),
                    signer: self.signer.clone(),
                };
                self.keep(job, false, now);
            } else {
                self.say_of_mail(to, &Said::Deposit(payload.clone()), now);
            }
        }
    }

    /// A receipt whose signature counts. It does where its signer was asked to hold this very mail.
    pub(super) fn handle_receipt(&mut self, proof: HoldProof, now: Now) {
        let (digest, by) = (proof.digest(), proof.signer());
        let Some(sending) = self.mail.sender.sending.get_mut(&digest) else {
            return self.handle_late_receipt(&proof, now);
        };
        let given = match &mut sending.state {
            State::Given { to, receipts, .. } if sending.asked.contains(&by) => {
                let fresh = receipts.iter().all(|it| it.signer() != by);
                Some((to, receipts)).filter(|_| fresh)
            }
            _ => None,
        };
        let Some((to, receipts)) = given else {
            self.mail.counters.malformed += 1;
            return;
        };
        to.remove(&by);
        receipts.push(proof);
        // Its own holding comes at once, and says nothing of how far away the others are.
        if by != self.did {
            let due_ms = now.steady_ms.saturating_add(HELD_TOO_WITHIN_MS);
            sending.due_ms = sending.due_ms.min(due_ms);
        }
        if to.is_empty() {
            self.end_giving(digest, now);
        }
    }

    /// One that came late is one more that holds it.
    fn handle_late_receipt(&mut self, proof: &HoldProof, now: Now) {
        let (digest, by) = (proof.digest(), proof.signer());
        let remembering = self.mail.sender.remembering.get_mut(&digest);
        let Some(held) = remembering.filter(|it| it.asked.contains(&by)) else {
            self.mail.counters.malformed += 1;
            return;
        };
        held.asked.remove(&by);
        let job = Job::Remember {
            digest,
            destination: held.destination,
            by: vec![(by, proof.until_ms())],
            asked: held.asked.iter().copied().collect(),
        };
        self.keep(job, false, now);
    }

    /// One that was to hold a mail does not.
    pub(super) fn handle_not_held(
        &mut self,
        from: Did,
        digest: TransactionDigest,
        code: String,
        now: Now,
    ) {
        let Some(sending) = self.mail.sender.sending.get_mut(&digest) else {
            return;
        };
        let State::Given { to, refused, .. } = &mut sending.state else {
            return;
        };
        if !to.remove(&from) {
            return;
        }
        refused.insert(from, code);
        if to.is_empty() {
            self.end_giving(digest, now);
        }
    }

    /// What was given to this node's own keeper, and is not told to be held, is not.
    pub(super) fn own_deposits_failed(&mut self, now: Now) {
        let sending = self.mail.sender.sending.iter();
        let digests: Vec<TransactionDigest> = sending.map(|it| *it.0).collect();
        for digest in digests {
            self.handle_not_held(self.did, digest, STORE_FAILED.to_owned(), now);
        }
    }

    fn no_holders(&mut self, digest: TransactionDigest, code: &'static str, now: Now) {
        let Some(sending) = self.mail.sender.sending.get_mut(&digest) else {
            return;
        };
        sending.tries = sending.tries.saturating_add(1);
        let destination = sending.receipt.stream.destination;
        if sending.tries < DEPOSITS_MAX {
            return self.look_for_holders(digest, now);
        }
        let id = sending.id;
        self.mail.sender.sending.remove(&digest);
        self.mail.counters.not_held += 1;
        self.note_later(digest, Step::NotHeld { code }, now);
        self.arrived(id, Err(InboxError::NoHolder { destination, code }));
    }

    /// All have answered, or had their time.
    fn end_giving(&mut self, digest: TransactionDigest, now: Now) {
        let Some(sending) = self.mail.sender.sending.get(&digest) else {
            return;
        };
        let destination = sending.receipt.stream.destination;
        let State::Given {
            receipts, refused, ..
        } = &sending.state
        else {
            return;
        };
        // What was taken was delivered, by whichever way. That it was, one node says who may lie: it counts
        // where nobody holds it.
        if receipts.is_empty() && refused.values().any(|code| code == "inbox/removed") {
            return self.handle_have(destination, digest, now);
        }
        // Where nobody else was there to be asked, its own store decides.
        if receipts.is_empty()
            && sending.asked.iter().eq([&self.did])
            && let Some(failed) = self.mail.failure()
        {
            let id = sending.id;
            self.mail.sender.sending.remove(&digest);
            self.mail.counters.not_held += 1;
            let code = failed.code();
            self.note_later(digest, Step::NotHeld { code }, now);
            return self.arrived(id, Err(failed));
        }
        if receipts.is_empty() && sending.tries < DEPOSITS_MAX {
            self.forget_chain(destination);
            return self.look_for_holders(digest, now);
        }
        let Some(ended) = self.mail.sender.sending.remove(&digest) else {
            return;
        };
        let (id, mut asked) = (ended.id, ended.asked);
        let State::Given {
            receipts, refused, ..
        } = ended.state
        else {
            return;
        };
        if receipts.is_empty() {
            self.mail.counters.not_held += 1;
            let refused = InboxError::NotHeld {
                destination,
                refused,
            };
            let code = refused.code();
            self.note_later(digest, Step::NotHeld { code }, now);
            return self.arrived(id, Err(refused));
        }
        self.mail.counters.held += 1;
        for proof in &receipts {
            let (by, until_ms) = (proof.signer(), proof.until_ms());
            self.note_later(digest, Step::Held { by, until_ms }, now);
        }
        let by: Vec<(Did, u64)> = {
            let by = receipts.iter().map(|it| (it.signer(), it.until_ms()));
            by.collect()
        };
        asked.retain(|it| by.iter().all(|(by, _)| by != it));
        let job = Job::Remember {
            digest,
            destination,
            by,
            asked: asked.iter().copied().collect(),
        };
        let remembering = Remembering {
            id,
            destination,
            receipts,
            asked,
        };
        self.mail.sender.remembering.insert(digest, remembering);
        self.keep(job, false, now);
        if self.mail.failure.is_some() {
            self.book_failed();
        }
    }

    /// A mail that others hold is in the book.
    pub(super) fn handle_remembered(&mut self, digest: TransactionDigest) {
        if let Some(held) = self.mail.sender.remembering.remove(&digest) {
            self.arrived(held.id, Ok(Arrived::Held(held.receipts)));
        }
    }

    /// The book takes nothing any more: what others hold, they hold all the same.
    pub(super) fn book_failed(&mut self) {
        let waiting = std::mem::take(&mut self.mail.sender.remembering);
        for held in waiting.into_values() {
            self.arrived(held.id, Ok(Arrived::Held(held.receipts)));
        }
    }

    /// How a mail that others hold is, as the book has it.
    pub(super) fn note_held(&mut self, digest: TransactionDigest, mail: Option<HeldElsewhere>) {
        match mail {
            Some(mail) => drop(self.mail.sender.held.insert(digest, mail)),
            None => drop(self.mail.sender.held.remove(&digest)),
        }
    }

    /// The end of a mail that others held is in the book.
    pub(super) fn handle_ended(&mut self, digest: TransactionDigest, now: Now) {
        let held = self.mail.sender.held.get(&digest);
        let Some((destination, end)) = held.and_then(|it| Some((it.destination, it.end?))) else {
            return;
        };
        let (by, kind) = (end.by, end.kind);
        self.note_later(digest, Step::Ended { by, kind }, now);
        self.tell(Event::Mail(MailEvent::Ended {
            destination,
            digest,
            kind: end.kind,
            by: end.by,
        }));
    }

    /// Asks those that hold mail of this node's what became of it.
    pub(super) fn ask_what_became(&mut self, now: Now) {
        for holder in self.mail.sender.holders() {
            self.say_here(holder, now);
        }
    }

    /// A holder says what became of a mail that is not in the book: it came before all receipts had.
    pub(super) fn handle_outcome(&mut self, by: Did, outcome: Outcome, now: Now) {
        let Outcome {
            digest,
            destination,
            kind,
            ..
        } = outcome;
        if self.mail.sender.remembering.contains_key(&digest) {
            return self.keep(Job::Outcome(by, outcome), false, now);
        }
        if self.mail.sender.held.contains_key(&digest) {
            return self.handle_heir(by, outcome, now);
        }
        let Some(sending) = self.mail.sender.sending.get_mut(&digest) else {
            return;
        };
        let State::Given { to, receipts, .. } = &mut sending.state else {
            return;
        };
        let gave = receipts.iter().any(|it| it.signer() == by);
        if sending.receipt.stream.destination != destination || !gave && !to.contains(&by) {
            return;
        }
        if kind == OutcomeKind::Taken {
            // What was taken was delivered, by whichever way.
            self.handle_have(destination, digest, now);
        } else {
            receipts.retain(|it| it.signer() != by);
        }
    }

    pub(super) fn arrived(&mut self, id: SendId, result: Result<Arrived, InboxError>) {
        if let Err(error) = &result {
            super::super::counters::count(&mut self.counters.sends_refused, error.code());
        }
        self.effects
            .push_back(PeerEffect::Mail(Effect::Arrived(id, result)));
    }
}

/// Whether a message can be held, as far as that is known before it is signed.
fn may_be_held(outgoing: &Outgoing) -> bool {
    let data = &outgoing.data;
    let sealed = outgoing.seal.is_some() || claims_sealed(&data.message());
    let bytes = usize::try_from(outgoing.data_bytes()).unwrap_or(usize::MAX);
    outgoing.class() == Class::Application && sealed && bytes <= MAIL_DATA_MAX_BYTES
}

#[cfg(test)]
mod tests {
    use overlane_core::{NetworkId, StreamKey};

    use super::super::fixture::{NOW, peer};
    use super::*;

    const DIGEST: TransactionDigest = TransactionDigest([4; 32]);

    fn given(to: &[Did]) -> Peer {
        let mut peer = peer();
        let stream = StreamKey {
            network: NetworkId(7),
            origin: peer.did,
            destination: Did([8; 20]),
            class: Class::Application,
        };
        let sending = Sending {
            id: SendId(1),
            receipt: Receipt {
                stream,
                sequence: 1,
                digest: DIGEST,
                signed: Vec::new().into(),
            },
            state: State::Given {
                to: to.iter().copied().collect(),
                receipts: Vec::new(),
                refused: BTreeMap::new(),
            },
            due_ms: NOW.steady_ms + HELD_WITHIN_MS,
            tries: DEPOSITS_MAX,
            asked: to.iter().copied().collect(),
        };
        peer.mail.sender.sending.insert(DIGEST, sending);
        peer
    }

    fn arrived(peer: &mut Peer) -> Option<Result<Arrived, InboxError>> {
        let mut effects = std::iter::from_fn(|| peer.poll_effect());
        effects.find_map(|effect| match effect {
            PeerEffect::Mail(Effect::Arrived(_, result)) => Some(result),
            _ => None,
        })
    }

    /// One of them may lie; where all have answered and nobody holds it, it was delivered.
    #[test]
    fn one_holder_alone_does_not_say_that_a_mail_was_taken() {
        let holders = [Did([1; 20]), Did([2; 20])];
        let says = |peer: &mut Peer, holder, code: &str| {
            peer.handle_not_held(holder, DIGEST, code.to_owned(), NOW);
        };
        let mut peer = given(&holders);
        says(&mut peer, holders[0], "inbox/removed");
        assert_eq!(arrived(&mut peer), None, "the other is waited for");
        says(&mut peer, holders[1], "inbox/not_a_holder");
        assert_eq!(arrived(&mut peer), Some(Ok(Arrived::Delivered)));
        let mut peer = given(&holders);
        for holder in holders {
            says(&mut peer, holder, "inbox/not_a_holder");
        }
        assert!(matches!(
            arrived(&mut peer),
            Some(Err(InboxError::NotHeld { .. }))
        ));
    }
}
