//! The sender's side: a message is delivered, or held by the chain of its destination, or refused.
//!
//! Whether it arrived, its destination says itself once it is durable there (`Ask`, `Have`). Where it says
//! nothing in time, or a node on the way reports that nothing leads there, the very transaction is given
//! to the chain. So it is admitted once however it comes, and nobody is taken for away for good.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::identity::VerifyContext;
use overlane_core::mail::{HoldProof, check_holdable};
use overlane_core::replay::Now;
use overlane_core::transaction::Payload;
use overlane_core::{Coded, Did, TransactionDigest};
use overlane_relay::inbox::{Outcome, OutcomeKind};

use super::super::{Effect as PeerEffect, Event, Outgoing, Peer, Receipt, SendError, SendId};
use super::keeper::Job;
use super::types::{Arrived, Effect, HeldElsewhere, InboxError, MailEvent};
use super::wire::Said;

/// Messages that wait to be delivered or held, at most.
pub const SENDING_MAX: usize = 1_024;

/// Mails of this node's own that others hold, remembered for what becomes of them; the one whose end
/// comes first is forgotten.
pub const HELD_ELSEWHERE_MAX: usize = 4_096;

/// How long a destination has to say that it admitted a message, in milliseconds.
pub const DELIVERED_WITHIN_MS: u64 = 5_000;

/// How long holders have to give their receipts, in milliseconds.
pub const HELD_WITHIN_MS: u64 = 10_000;

/// How often a message is given to the chain, as the ring names it by then.
pub const DEPOSITS_MAX: u8 = 3;

/// The sender's part.
#[derive(Debug, Default)]
pub(super) struct Sender {
    /// Sends whose results decide what is next.
    asked: BTreeSet<SendId>,
    sending: BTreeMap<TransactionDigest, Sending>,
    held: BTreeMap<TransactionDigest, HeldMail>,
}

#[derive(Debug)]
struct Sending {
    id: SendId,
    receipt: Receipt,
    state: State,
    due_ms: u64,
    tries: u8,
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

#[derive(Debug)]
struct HeldMail {
    destination: Did,
    by: BTreeMap<Did, u64>,
    ended: BTreeMap<Did, OutcomeKind>,
}

impl Sender {
    pub(super) fn sending(&self) -> usize {
        self.asked.len() + self.sending.len()
    }

    pub(super) fn due_ms(&self) -> Option<u64> {
        self.sending.values().map(|it| it.due_ms).min()
    }

    pub(super) fn held(&self) -> Vec<HeldElsewhere> {
        let held = self.held.iter().map(|(&digest, it)| HeldElsewhere {
            digest,
            destination: it.destination,
            by: it.by.clone(),
        });
        held.collect()
    }

    /// Those that hold mail of this node's whose end is not known.
    pub(super) fn holders(&self, wall_ms: u64) -> BTreeSet<Did> {
        let open = self.held.values().flat_map(|it| {
            let open = it.by.iter().filter(|(by, _)| !it.ended.contains_key(by));
            open.filter(|(_, until_ms)| **until_ms >= wall_ms)
        });
        open.map(|(&by, _)| by).collect()
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
        self.mail.sender.asked.insert(id);
        self.send(id, outgoing, now);
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
        if let Ok(receipt) = result {
            let digest = receipt.digest;
            let sending = Sending {
                id,
                receipt: receipt.clone(),
                state: State::Asked,
                due_ms: 0,
                tries: 0,
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
            self.say_of_mail(destination, &Said::Ask(digest), now);
        }
    }

    /// Its destination says that it admitted a message.
    pub(super) fn handle_have(&mut self, from: Did, digest: TransactionDigest) {
        let sender = &mut self.mail.sender;
        let its = |it: &Sending| it.receipt.stream.destination == from;
        if sender.sending.get(&digest).is_some_and(its)
            && let Some(sending) = sender.sending.remove(&digest)
        {
            self.mail.counters.delivered += 1;
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
        self.forget_ended(now.wall_ms);
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
            return self.arrived(id, Err(InboxError::NotHoldable { destination, error }));
        }
        self.look_up_for_sender(destination, now);
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
    }

    fn give(&mut self, digest: TransactionDigest, chain: &[Did], now: Now) {
        let Some(sending) = self.mail.sender.sending.get_mut(&digest) else {
            return;
        };
        sending.tries = sending.tries.saturating_add(1);
        sending.due_ms = now.steady_ms.saturating_add(HELD_WITHIN_MS);
        sending.state = State::Given {
            to: chain.iter().copied().collect(),
            receipts: Vec::new(),
            refused: BTreeMap::new(),
        };
        let destination = sending.receipt.stream.destination;
        let payload = sending.receipt.signed.to_vec();
        for &to in chain {
            if to == self.did {
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

    /// A verified receipt.
    pub(super) fn handle_receipt(&mut self, proof: HoldProof, now: Now) {
        let (digest, by) = (proof.digest(), proof.signer());
        let Some(sending) = self.mail.sender.sending.get_mut(&digest) else {
            // One that came late is one more that holds it.
            if let Some(held) = self.mail.sender.held.get_mut(&digest) {
                held.by.insert(by, proof.until_ms());
            }
            return;
        };
        if let State::Given { to, receipts, .. } = &mut sending.state
            && to.remove(&by)
        {
            receipts.push(proof);
            if to.is_empty() {
                self.end_giving(digest, now);
            }
        }
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
        // What was taken was delivered, by whichever way.
        let taken = code == "inbox/removed";
        refused.insert(from, code);
        let (destination, all) = (sending.receipt.stream.destination, to.is_empty());
        if taken {
            self.handle_have(destination, digest);
        } else if all {
            self.end_giving(digest, now);
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
        self.arrived(id, Err(InboxError::NoHolder { destination, code }));
    }

    /// All have answered, or had their time.
    fn end_giving(&mut self, digest: TransactionDigest, now: Now) {
        let Some(sending) = self.mail.sender.sending.get(&digest) else {
            return;
        };
        let destination = sending.receipt.stream.destination;
        let State::Given { receipts, .. } = &sending.state else {
            return;
        };
        if receipts.is_empty() && sending.tries < DEPOSITS_MAX {
            self.forget_chain(destination);
            return self.look_for_holders(digest, now);
        }
        let Some(Sending { id, state, .. }) = self.mail.sender.sending.remove(&digest) else {
            return;
        };
        let State::Given {
            receipts, refused, ..
        } = state
        else {
            return;
        };
        if receipts.is_empty() {
            self.mail.counters.not_held += 1;
            let refused = InboxError::NotHeld {
                destination,
                refused,
            };
            return self.arrived(id, Err(refused));
        }
        self.mail.counters.held += 1;
        self.remember_held(destination, digest, &receipts);
        self.arrived(id, Ok(Arrived::Held(receipts)));
    }

    fn remember_held(
        &mut self,
        destination: Did,
        digest: TransactionDigest,
        receipts: &[HoldProof],
    ) {
        let held = &mut self.mail.sender.held;
        if held.len() >= HELD_ELSEWHERE_MAX {
            let end = |it: &HeldMail| it.by.values().copied().max();
            let first = held.iter().min_by_key(|it| end(it.1)).map(|it| *it.0);
            first.and_then(|first| held.remove(&first));
        }
        let by = receipts.iter().map(|it| (it.signer(), it.until_ms()));
        let mail = HeldMail {
            destination,
            by: by.collect(),
            ended: BTreeMap::new(),
        };
        held.insert(digest, mail);
    }

    /// A holder says what became of a mail: that it was taken is the end; that it let go of it is one when
    /// all have.
    pub(super) fn handle_outcome(&mut self, by: Did, outcome: Outcome) {
        let Outcome { digest, kind, .. } = outcome;
        let Some(held) = self.mail.sender.held.get_mut(&digest) else {
            return;
        };
        if held.destination != outcome.destination || !held.by.contains_key(&by) {
            return;
        }
        held.ended.insert(by, kind);
        let all = held.by.keys().all(|by| held.ended.contains_key(by));
        if kind == OutcomeKind::Taken || all {
            let destination = held.destination;
            self.mail.sender.held.remove(&digest);
            self.tell(Event::Mail(MailEvent::Ended {
                destination,
                digest,
                kind,
                by,
            }));
        }
    }

    /// What all holders have kept to its end, whether they said so or not.
    fn forget_ended(&mut self, wall_ms: u64) {
        // A holder's word may come a while after the end itself.
        let over = |until_ms: &u64| until_ms.saturating_add(super::TICK_MS * 20) < wall_ms;
        let ended: Vec<TransactionDigest> = {
            let held = self.mail.sender.held.iter();
            let over = held.filter(|(_, it)| it.by.values().all(over));
            over.map(|it| *it.0).collect()
        };
        for digest in ended {
            // What became of it, nobody said: it may have been taken.
            self.mail.sender.held.remove(&digest);
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
