//! Calls of others to objects of this node, kept until they are answered; and the door.

use overlane_relay::refs::table::{LinkId, Local, LocalObject, LocalPromise, Source};
use overlane_relay::refs::wire::{Body, Epoch, Outcome, Reason, Seq};

use super::effect::map_body;
use super::rows::{CallRow, Key};
use super::wire::Knock;
use super::{CALLS_MAX, Call, CallId, Effect, ReferenceError, References, Reply};

/// A call that is not answered.
#[derive(Debug)]
pub(super) struct OpenCall {
    pub(super) row: CallRow,
    /// Whether its service has it, in this life of the process.
    pub(super) begun: bool,
}

/// A message to an object of the application, as the tables tell it.
pub(super) struct Delivered {
    pub(super) from: Source,
    pub(super) target: LocalObject,
    pub(super) body: Body<Local>,
    pub(super) result: Option<LocalPromise>,
}

/// Stands for the link of calls that no frame brought.
const NO_LINK: LinkId = LinkId(u32::MAX);

impl References {
    /// A call came, in the frame and at the place of `named`.
    pub(super) fn delivered(
        &mut self,
        named: Option<(LinkId, Seq, u32)>,
        delivered: Delivered,
        now_ms: u64,
    ) {
        let Delivered {
            from,
            target,
            body,
            result,
        } = delivered;
        if self.numbers.door == Some(target) {
            return self.knocked(&body, result, now_ms);
        }
        let open = self.calls_of.get(&from).copied().unwrap_or_default();
        if open >= CALLS_MAX {
            self.counters.calls_refused += 1;
            self.give_back(&body, now_ms);
            return self.answer_at_once(result, Outcome::broken(Reason::BUSY), now_ms);
        }
        let id = self.call_id(named);
        let row = CallRow {
            from,
            target,
            body,
            result,
        };
        self.counters.calls += 1;
        self.change(Key::Call(id).holds(&row));
        self.calls_of.insert(from, open + 1);
        self.calls.insert(id, OpenCall { row, begun: false });
        if self.attached.contains(&target) {
            self.hand_out(id, false);
        }
    }

    /// Calls that waited for their service go to it.
    pub(super) fn hand_out_waiting(&mut self, target: LocalObject) {
        let waits = |call: &OpenCall| call.row.target == target && !call.begun;
        let waiting = self.calls.iter().filter(|(_, call)| waits(call));
        let waiting: Vec<_> = waiting.map(|(&id, _)| id).collect();
        for id in waiting {
            self.hand_out(id, true);
        }
    }

    /// A call's answer, and with it the end of the call.
    pub(super) fn answer(
        &mut self,
        id: CallId,
        outcome: Outcome<Local>,
        now_ms: u64,
    ) -> Result<Reply, ReferenceError> {
        let Some(OpenCall { row, .. }) = self.calls.remove(&id) else {
            return Err(ReferenceError::NoSuchCall);
        };
        self.change(Key::Call(id).is_gone());
        self.one_call_less(row.from);
        self.answer_at_once(row.result, outcome, now_ms);
        self.give_back(&row.body, now_ms);
        Ok(Reply::Done)
    }

    pub(super) fn one_call_less(&mut self, from: super::Source) {
        if let Some(open) = self.calls_of.get_mut(&from) {
            *open = open.saturating_sub(1);
            if *open == 0 {
                self.calls_of.remove(&from);
            }
        }
    }

    /// Sends a ticket's secret to a node's door.
    pub(super) fn knock(
        &mut self,
        link: LinkId,
        secret: [u8; 32],
        now_ms: u64,
    ) -> Result<Reply, ReferenceError> {
        let far = self.book.far(link);
        let Some((peer, door)) = far.map(|far| (far.did, far.door)) else {
            return Err(ReferenceError::PeersFull);
        };
        let door = door.ok_or(ReferenceError::NoAnswer { peer })?;
        let secret = overlane_core::wire::cbor::to_vec(&Knock::Redeem(secret));
        self.send(door.into(), &secret, &[], now_ms)
    }

    /// A call to the door: it is answered here, in the commit that it came in.
    fn knocked(&mut self, body: &Body<Local>, result: Option<LocalPromise>, now_ms: u64) {
        let outcome = match Knock::read(&body.bytes) {
            Ok(Knock::Redeem(secret)) => self.redeemed(&secret),
            Err(_) => Outcome::broken(Reason::UNKNOWN_TICKET),
        };
        self.give_back(body, now_ms);
        self.answer_at_once(result, outcome, now_ms);
    }

    fn redeemed(&mut self, secret: &[u8; 32]) -> Outcome<Local> {
        let kept = self.tickets.get(&super::asks::ticket_digest(secret));
        match kept.and_then(|id| self.kept.get(id)) {
            Some(row) => {
                self.counters.tickets_redeemed += 1;
                match &row.taken_back {
                    Some((reason, said)) => Outcome::Broken {
                        reason: *reason,
                        error: said.as_slice().into(),
                    },
                    None => Outcome::Reference(row.local),
                }
            }
            None => {
                self.counters.tickets_unknown += 1;
                Outcome::broken(Reason::UNKNOWN_TICKET)
            }
        }
    }

    /// Resolves the promise of an answer, if anybody has it.
    fn answer_at_once(
        &mut self,
        result: Option<LocalPromise>,
        outcome: Outcome<Local>,
        now_ms: u64,
    ) {
        let Some(result) = result else {
            return;
        };
        use overlane_relay::refs::SendError;
        let resolved = match self.tables.resolve(result, outcome, now_ms) {
            // What the answer speaks of was taken back for good meanwhile, or let go of.
            Err(SendError::Taboo | SendError::NotHeld) => {
                let broken = Outcome::broken(Reason::UNDELIVERABLE);
                self.tables.resolve(result, broken, now_ms)
            }
            resolved => resolved,
        };
        // Who asked may be gone: then nobody is left to be answered.
        if let Ok(step) = resolved {
            self.follow(step, now_ms);
        }
    }

    /// Gives a call to its service. The row keeps its handles, so that it can be given once more.
    fn hand_out(&mut self, id: CallId, again: bool) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        call.begun = true;
        let CallRow {
            from, target, body, ..
        } = call.row.clone();
        for &local in body.refs() {
            // It holds one, so there is one more.
            let _ = self.tables.retain(local);
        }
        let body = map_body(body, |local| self.handle(local));
        let from = match from {
            Source::App => None,
            Source::Link(link) => self.book.far(link).map(|far| far.did),
        };
        self.hold(Effect::Call(Box::new(Call {
            id,
            target,
            from,
            body,
            again,
        })));
    }

    /// Lets go of what a message spoke of.
    fn give_back(&mut self, body: &Body<Local>, now_ms: u64) {
        for &local in body.refs() {
            self.release(local, 1, now_ms);
        }
    }

    fn call_id(&mut self, named: Option<(LinkId, Seq, u32)>) -> CallId {
        match named {
            Some((link, seq, index)) => CallId {
                link,
                epoch: self.book.far(link).map_or(Epoch(0), |far| far.floor),
                seq,
                index,
            },
            None => {
                self.numbers.next_own_call = self.numbers.next_own_call.saturating_add(1);
                self.keep_numbers();
                CallId {
                    link: NO_LINK,
                    epoch: Epoch(0),
                    seq: Seq(self.numbers.next_own_call),
                    index: 0,
                }
            }
        }
    }
}
