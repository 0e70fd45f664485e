//! The owner's side: what it fetches from its holders, and what it has them let go of.
//!
//! A mail goes: **fetched** (it verified as of its hold instant) → **in hand** (it is in custody,
//! durably) → **taken** (its application took it, durably) → removed at every holder. Each step is
//! told here by who did it; nothing goes on by itself, and no holder's silence is a step. What was taken is
//! remembered, so that a holder that was away, and comes back with it, is told to let go of it too.
//!
//! Law (a holder ends): whatever a holder says, it is asked [`DRAIN_ROUNDS_MAX`] times and gives [`DRAIN_PUSHES_MAX`]
//! mails, and one that brings nothing new for [`DRAIN_IDLE_MS`] is left; the others are asked meanwhile.

use super::bounds::{
    DRAIN_IDLE_MS, DRAIN_PUSHES_MAX, DRAIN_ROUNDS_MAX, IN_HAND_MAX, IN_HAND_OTHERS_MAX,
    INBOX_MAILS, LOST_KEPT, REMOVING_MAX, TAKEN_KEPT,
};
use super::frame::Frame;
use crate::log::{EnvelopeId, LogId, Space, Transmit, Turn, mail_id};
use overlane_core::identity::{Life, Signer, VerifyContext};
use overlane_core::mail::{
    HeldMail, MAIL_LIFE_MAX_MS, Mail, MailError, REMOVAL_DIGESTS_MAX, Removal, RemovalSubject,
};
use overlane_core::{Coded, Did, TransactionDigest};
use overlane_recon::{Initiator, Item, ItemSet, Limits, Patience, Report, Request};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a drain tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainEvent {
    /// A mail was fetched: it is to be admitted, charged to the inbox.
    Fetched(Box<Mail>),
    /// What a holder gave is no mail of this node's.
    Refused {
        /// Who gave it.
        from: Did,
        /// Why.
        error: Box<MailError>,
    },
    /// A holder has been asked to its end.
    Drained {
        /// Who.
        from: Did,
        /// How it ended, and what it moved.
        report: Box<Report>,
    },
}

/// What one account fetches from the holders of its inbox.
#[derive(Debug)]
pub struct Drain {
    context: VerifyContext,
    own: Did,
    log: LogId,
    /// Fetched and not answered, or in custody and not taken.
    in_hand: BTreeSet<EnvelopeId>,
    /// Of no use to anybody, the one noted first at the front.
    lost: VecDeque<EnvelopeId>,
    /// Taken, and by whom of the holders that is not heard yet.
    removing: BTreeMap<TransactionDigest, BTreeSet<Did>>,
    /// Taken, in that order.
    taken: BTreeSet<TransactionDigest>,
    taken_order: VecDeque<TransactionDigest>,
    holders: BTreeSet<Did>,
    exchanges: BTreeMap<Did, (Initiator, ItemSet)>,
    due: VecDeque<Transmit>,
    log_due: VecDeque<Transmit>,
    events: VecDeque<DrainEvent>,
}

impl Drain {
    /// Nothing fetched yet. `context` is asked anew with every frame's time.
    pub fn new(own: Did, context: VerifyContext) -> Self {
        Self {
            context,
            own,
            log: LogId::inbox(&own),
            in_hand: BTreeSet::new(),
            lost: VecDeque::new(),
            removing: BTreeMap::new(),
            taken: BTreeSet::new(),
            taken_order: VecDeque::new(),
            holders: BTreeSet::new(),
            exchanges: BTreeMap::new(),
            due: VecDeque::new(),
            log_due: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Who holds the inbox now. What is being removed is removed at newcomers too; who holds no more
    /// hears of it from those who do.
    pub fn set_holders(&mut self, holders: impl IntoIterator<Item = Did>) {
        let holders: BTreeSet<Did> = holders.into_iter().collect();
        let new: Vec<Did> = holders.difference(&self.holders).copied().collect();
        self.holders = holders;
        for waiting in self.removing.values_mut() {
            waiting.extend(new.iter().copied());
            waiting.retain(|it| self.holders.contains(it) || self.holders.is_empty());
        }
        self.removing
            .retain(|_, waiting| !waiting.is_empty() || self.holders.is_empty());
    }

    /// Mails in hand, and digests whose removal is not heard by all.
    pub fn waiting(&self) -> (usize, usize) {
        (self.in_hand.len(), self.removing.len())
    }

    /// Asks a holder for what this node has not.
    pub fn start(&mut self, holder: Did, now_ms: u64) {
        if self.exchanges.contains_key(&holder) {
            return;
        }
        let removing = self.removing.keys().map(|it| mail_id(*it));
        let known = self.in_hand.iter().chain(&self.lost).copied();
        let known = known.chain(removing);
        let mut set: ItemSet = known.map(item).collect();
        let limits = Limits::default().push_ids(usize::try_from(INBOX_MAILS).unwrap_or(64));
        let patience = Patience {
            rounds: DRAIN_ROUNDS_MAX,
            pushes: DRAIN_PUSHES_MAX,
            idle_ms: DRAIN_IDLE_MS,
            ..Patience::default()
        };
        let initiator = Initiator::open(&mut set, limits, patience, now_ms);
        self.exchanges.insert(holder, (initiator, set));
        self.say_due(holder, now_ms);
    }

    /// A frame of the inbox's log arrived from a holder.
    pub fn handle_log_frame(&mut self, from: Did, bytes: &[u8], now_ms: u64) {
        use crate::log::Frame as LogFrame;
        let Ok(frame) = LogFrame::from_bytes(bytes) else {
            return;
        };
        if frame.log() != self.log || !self.exchanges.contains_key(&from) {
            return;
        }
        match frame {
            LogFrame::Push { envelope, .. } => {
                self.handle_push(from, envelope, now_ms);
                self.end_if_ended(from);
            }
            LogFrame::Recon {
                turn: Turn::Answer,
                payload,
                ..
            } => {
                if let Some((initiator, set)) = self.exchanges.get_mut(&from) {
                    // A refusal of the answer is the exchange's end, and stands in its report.
                    let _ = initiator.handle_answer(set, payload, now_ms);
                }
                self.say_due(from, now_ms);
            }
            LogFrame::Refuse { code, .. } => {
                if let Some((initiator, _)) = self.exchanges.get_mut(&from) {
                    initiator.handle_refusal(code.into());
                }
                self.end_if_ended(from);
            }
            _ => {}
        }
    }

    /// A holder's own frame arrived: what it let go of.
    pub fn handle_frame(&mut self, from: Did, bytes: &[u8]) {
        if let Ok(Frame::Removed(owner, digests)) = Frame::from_bytes(bytes)
            && owner == self.own
        {
            for digest in digests {
                if let Some(waiting) = self.removing.get_mut(&digest) {
                    waiting.remove(&from);
                    if waiting.is_empty() {
                        self.removing.remove(&digest);
                    }
                }
            }
        }
    }

    /// A fetched mail is not in custody: it was refused there, and waits at its holders.
    pub fn handle_not_kept(&mut self, digest: TransactionDigest) {
        self.in_hand.remove(&mail_id(digest));
    }

    /// A fetched mail can be admitted no more: it holds no place here, and is not fetched again while it is
    /// remembered ([`LOST_KEPT`]).
    pub fn handle_lost(&mut self, digest: TransactionDigest) {
        let id = mail_id(digest);
        self.in_hand.remove(&id);
        if self.lost.contains(&id) {
            return;
        }
        if self.lost.len() >= LOST_KEPT {
            self.lost.pop_front();
        }
        self.lost.push_back(id);
    }

    /// A mail was taken by its application, durably, or had been before: its holders are told to let
    /// go of it by the next [`sign_removals`](Self::sign_removals). Gives the one that is forgotten for it.
    pub fn handle_taken(&mut self, digest: TransactionDigest) -> Option<TransactionDigest> {
        self.in_hand.remove(&mail_id(digest));
        if self.removing.len() < REMOVING_MAX {
            self.removing.insert(digest, self.holders.clone());
        }
        self.remember_taken(digest)
    }

    /// A mail was taken in an earlier life. Gives the one that is forgotten for it.
    pub fn remember_taken(&mut self, digest: TransactionDigest) -> Option<TransactionDigest> {
        if !self.taken.insert(digest) {
            return None;
        }
        self.taken_order.push_back(digest);
        let over = self.taken_order.len() > TAKEN_KEPT;
        let forgotten = over.then(|| self.taken_order.pop_front()).flatten()?;
        self.taken.remove(&forgotten);
        Some(forgotten)
    }

    /// Whether this holder is to let go of something.
    pub fn is_to_let_go(&self, holder: &Did) -> bool {
        self.removing.values().any(|it| it.contains(holder))
    }

    /// Signs what was taken, and sends it to every holder that has not said it let go.
    pub fn sign_removals(&mut self, signer: &Signer, now_ms: u64) {
        let life = Life {
            issued_ms: now_ms,
            ttl_ms: MAIL_LIFE_MAX_MS,
        };
        let digests: Vec<TransactionDigest> = self.removing.keys().copied().collect();
        for some in digests.chunks(REMOVAL_DIGESTS_MAX) {
            let Some(subject) = RemovalSubject::of(some.iter().copied()) else {
                continue;
            };
            let Ok(removal) = Removal::sign(subject, signer, life) else {
                continue;
            };
            let waiting = |it: &TransactionDigest| self.removing.get(it).into_iter().flatten();
            let to: BTreeSet<Did> = some.iter().flat_map(waiting).copied().collect();
            let frame = Frame::Remove(Box::new(removal)).to_bytes();
            for to in to {
                let frame = frame.clone();
                self.due.push_back(Transmit { to, frame });
            }
        }
    }

    /// Time has come to `now_ms`.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        let from: Vec<Did> = self.exchanges.keys().copied().collect();
        for from in from {
            if let Some((initiator, _)) = self.exchanges.get_mut(&from) {
                initiator.handle_timeout(now_ms);
            }
            self.end_if_ended(from);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due, in the caller's milliseconds.
    pub fn poll_timeout(&self) -> Option<u64> {
        let due = self.exchanges.values().filter_map(|it| it.0.poll_timeout());
        due.min()
    }

    /// The link to a holder is gone. That proves nothing of what it holds.
    pub fn handle_disconnected(&mut self, holder: &Did) {
        if let Some((initiator, _)) = self.exchanges.get_mut(holder) {
            initiator.handle_closed();
        }
        self.end_if_ended(*holder);
    }

    /// What to send next, until there is nothing.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.due.pop_front()
    }

    /// What of the inbox's log to send next, until there is nothing.
    pub fn poll_log_transmit(&mut self) -> Option<Transmit> {
        self.log_due.pop_front()
    }

    /// What happened, until there is nothing.
    pub fn poll_event(&mut self) -> Option<DrainEvent> {
        self.events.pop_front()
    }

    fn handle_push(&mut self, from: Did, envelope: &[u8], now_ms: u64) {
        let most = match self.holders.contains(&from) {
            true => IN_HAND_MAX,
            false => IN_HAND_OTHERS_MAX,
        };
        if self.in_hand.len() >= most {
            if let Some((initiator, _)) = self.exchanges.get_mut(&from) {
                let id = super::rules::claimed_name(envelope);
                initiator.handle_push_refused(id, "inbox/in_hand_full".into());
            }
            return;
        }
        let read = self.read(envelope, now_ms);
        let Some((initiator, set)) = self.exchanges.get_mut(&from) else {
            return;
        };
        match read {
            Ok(mail) => {
                let id = mail_id(mail.digest());
                // The seq is not at the top: it is a bit short of it.
                let _ = initiator.handle_push(set, item(id), now_ms);
                let digest = mail.digest();
                if self.taken.contains(&digest) || self.removing.contains_key(&digest) {
                    self.let_go_too(from, digest);
                } else if !self.lost.contains(&id) && self.in_hand.insert(id) {
                    self.events.push_back(DrainEvent::Fetched(Box::new(mail)));
                }
            }
            Err(error) => {
                let id = super::rules::claimed_name(envelope);
                initiator.handle_push_refused(id, error.code().into());
                let error = Box::new(error);
                self.events.push_back(DrainEvent::Refused { from, error });
            }
        }
    }

    /// A holder has what was taken: it is to let go of it as the others did.
    fn let_go_too(&mut self, holder: Did, digest: TransactionDigest) {
        if self.removing.len() < REMOVING_MAX || self.removing.contains_key(&digest) {
            self.removing.entry(digest).or_default().insert(holder);
        }
    }

    fn read(&self, envelope: &[u8], now_ms: u64) -> Result<Mail, MailError> {
        let mail = HeldMail::from_bytes(envelope)?;
        let (wanted, found) = (self.own, mail.destination());
        if wanted != found {
            return Err(MailError::WrongDestination { wanted, found });
        }
        mail.verify(&VerifyContext {
            now_ms,
            ..self.context
        })
    }

    fn say_due(&mut self, to: Did, now_ms: u64) {
        let Some((initiator, set)) = self.exchanges.get_mut(&to) else {
            return;
        };
        while let Some(request) = initiator.poll_transmit() {
            match request {
                Request::Recon(payload) => {
                    let (log, space, turn) = (self.log, Space::Shared, Turn::Ask);
                    let payload = payload.as_slice();
                    let frame = crate::log::Frame::Recon {
                        log,
                        space,
                        turn,
                        payload,
                    };
                    let frame = frame.to_bytes();
                    self.log_due.push_back(Transmit { to, frame });
                }
                // What the holder lacks is in custody here, and goes to no holder.
                Request::Send(item) => {
                    initiator.handle_send_refused(set, item.id, "inbox/in_hand".into(), now_ms);
                }
            }
        }
        self.end_if_ended(to);
    }

    fn end_if_ended(&mut self, from: Did) {
        let ended = self
            .exchanges
            .get(&from)
            .is_some_and(|it| it.0.ended().is_some());
        if ended && let Some((initiator, _)) = self.exchanges.remove(&from) {
            let report = Box::new(initiator.report());
            self.events.push_back(DrainEvent::Drained { from, report });
        }
    }
}

fn item(id: EnvelopeId) -> Item {
    Item {
        seq: crate::log::shared_place(&id),
        id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlane_core::NetworkId;

    const OWN: Did = Did([1; 20]);

    fn drain() -> Drain {
        let context = VerifyContext {
            network: NetworkId(7),
            now_ms: 1,
        };
        Drain::new(OWN, context)
    }

    fn digest(number: usize) -> TransactionDigest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        TransactionDigest(digest)
    }

    #[test]
    fn law_what_can_be_admitted_no_more_takes_no_place_and_is_remembered_to_its_bound() {
        let mut drain = drain();
        for number in 0..IN_HAND_MAX {
            drain.in_hand.insert(mail_id(digest(number)));
        }
        for number in 0..IN_HAND_MAX {
            drain.handle_lost(digest(number));
            drain.handle_lost(digest(number));
        }
        assert_eq!(drain.waiting(), (0, 0));
        assert_eq!(drain.lost.len(), LOST_KEPT);
        assert_eq!(drain.lost.back(), Some(&mail_id(digest(IN_HAND_MAX - 1))));
    }

    #[test]
    fn law_who_holds_nothing_by_the_ring_leaves_room_for_those_who_do() {
        let (holder, other) = (Did([2; 20]), Did([3; 20]));
        let mut drain = drain();
        drain.set_holders([holder]);
        for from in [holder, other] {
            drain.start(from, 1);
        }
        // What is no mail is looked at where there is room for one, and refused.
        let looks = |drain: &mut Drain, from| {
            drain.handle_push(from, b"no mail", 1);
            let refused = |it: &DrainEvent| matches!(it, DrainEvent::Refused { .. });
            std::iter::from_fn(|| drain.poll_event()).any(|it| refused(&it))
        };
        for number in 0..IN_HAND_MAX {
            assert_eq!(looks(&mut drain, other), number < IN_HAND_OTHERS_MAX);
            assert!(looks(&mut drain, holder));
            drain.in_hand.insert(mail_id(digest(number)));
        }
        assert!(!looks(&mut drain, holder));
    }
}
