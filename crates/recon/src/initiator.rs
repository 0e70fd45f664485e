//! The driving side, as a state machine without I/O.
//!
//! Laws kept here: *acknowledgements before advancing* (the next message is computed after every SEND was answered,
//! so nothing comes back as a push) and *typed ends* (an exchange settles, gives up at a named bound, or is refused
//! with a code; it never just stops).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::answer::{Least, Role, Settling, StepError, answer, judge, open};
use crate::bounds::{
    EXCHANGE_BYTES_MAX, IDLE_MS, MISSING_TRACKED_MAX, PUSHES_MAX, REASON_BYTES_MAX, REPEATS_MAX,
    ROUNDS_MAX,
};
use crate::codec::{Message, Refusal};
use crate::item::{Id, Item, ReservedSeq};
use crate::limits::Limits;
use crate::report::{Bound, End, Refused, Report};
use crate::set::ItemSet;
use crate::storage::{Storage, infallible};

/// What an initiator makes of one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The next payload; none when everything is settled.
    pub reply: Option<Vec<u8>>,
    /// Ids the peer holds and this side lacks, ascending, each once. They come as pushes after the reply.
    pub want: Vec<Id>,
    /// Items the peer lacks, ascending by id, each id once.
    pub send: Vec<Item>,
    /// Whether the planner laid the reply out because the plain one would break a limit.
    pub planned: bool,
}

/// The opening payload of an exchange.
pub fn initiate<S: Storage>(set: &mut S, limits: &Limits) -> Result<Vec<u8>, S::Error> {
    open(set, limits)
}

/// One step of the driving side, on an answer and the set as it is now.
pub fn advance<S: Storage>(
    set: &mut S,
    payload: &[u8],
    limits: &Limits,
) -> Result<Step, StepError<S::Error>> {
    let nobody = |_: &Id| false;
    let settling = Settling::Equal {
        refused_by_peer: &nobody,
        refused_here: &nobody,
    };
    step(set, payload, limits, &settling)
}

fn step<S: Storage>(
    set: &mut S,
    payload: &[u8],
    limits: &Limits,
    settling: &Settling<'_>,
) -> Result<Step, StepError<S::Error>> {
    let message = Message::decode(payload)?;
    let mut lacked = Least::new(limits.ids());
    let mut want = Vec::new();
    let judged = judge(set, &message, settling, &mut lacked, &mut |id| {
        want.push(*id)
    })
    .map_err(StepError::Storage)?;
    want.sort_unstable();
    want.dedup();
    let (send, _) = lacked.finish(u64::MAX, &mut |_| 0);
    let answered =
        answer(set, &judged, None, Role::Initiator, limits).map_err(StepError::Storage)?;
    Ok(Step {
        reply: answered.open.then_some(answered.payload),
        want,
        send,
        planned: answered.planned,
    })
}

/// Bounds of a whole exchange, from the driving side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Rounds, each a message and its answer.
    pub rounds: u32,
    /// Payload bytes, both directions.
    pub bytes: u64,
    /// Pushes, whatever comes of them.
    pub pushes: u64,
    /// Milliseconds without an answer, a push of something new or an acknowledgement.
    pub idle_ms: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            rounds: ROUNDS_MAX,
            bytes: EXCHANGE_BYTES_MAX,
            pushes: PUSHES_MAX,
            idle_ms: IDLE_MS,
        }
    }
}

/// What an initiator wants sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A RECON payload.
    Recon(Vec<u8>),
    /// The envelope of an item, to be answered by an acknowledgement or a refusal.
    Send(Item),
}

/// One exchange from opening to end.
#[derive(Debug)]
pub struct Initiator {
    limits: Limits,
    patience: Patience,
    due: VecDeque<Request>,
    /// Whether a message of ours is out and unanswered.
    asked: bool,
    /// The answer in hand while its sends are not acknowledged.
    answer: Option<Vec<u8>>,
    unacknowledged: BTreeMap<Id, Item>,
    refused_by_peer: BTreeMap<Id, String>,
    refused_here: BTreeMap<Id, String>,
    wanted: BTreeSet<Id>,
    last: Vec<u8>,
    repeats: u32,
    progress_ms: u64,
    /// Items gained or renumbered since the last message.
    changes: u64,
    report: Report,
}

impl Initiator {
    /// Opens an exchange over the set: the opening message is due at once.
    pub fn open(set: &mut ItemSet, limits: Limits, patience: Patience, now_ms: u64) -> Self {
        let opening = infallible(initiate(set, &limits));
        let mut this = Self {
            limits,
            patience,
            due: VecDeque::new(),
            asked: false,
            answer: None,
            unacknowledged: BTreeMap::new(),
            refused_by_peer: BTreeMap::new(),
            refused_here: BTreeMap::new(),
            wanted: BTreeSet::new(),
            last: Vec::new(),
            repeats: 0,
            progress_ms: now_ms,
            changes: 0,
            report: Report::default(),
        };
        this.say(opening);
        this
    }

    /// What to send next, until there is nothing.
    pub fn poll_transmit(&mut self) -> Option<Request> {
        let request = self.due.pop_front();
        self.asked |= matches!(request, Some(Request::Recon(_)));
        request
    }

    /// When to call [`Self::handle_timeout`], in milliseconds of the caller's clock; none once ended.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let due = self.progress_ms.saturating_add(self.patience.idle_ms);
        self.report.end.is_none().then_some(due)
    }

    /// A pushed envelope arrived and its content address was found right: the item is added. One that was held
    /// already is no progress.
    pub fn handle_push(
        &mut self,
        set: &mut ItemSet,
        item: Item,
        now_ms: u64,
    ) -> Result<(), ReservedSeq> {
        let new = set.insert(item)?;
        self.count_push();
        if new {
            self.progress_ms = now_ms;
            self.wanted.remove(&item.id);
            self.changes += 1;
            self.report.received += 1;
        } else {
            self.report.received_again += 1;
        }
        Ok(())
    }

    /// A pushed envelope was refused here, for `reason`. Its id no longer keeps a range open, up to
    /// [`MISSING_TRACKED_MAX`] ids: beyond, they are counted, and what keeps the ranges open ends the exchange as stalled.
    pub fn handle_push_refused(&mut self, id: Id, reason: String) {
        self.count_push();
        self.wanted.remove(&id);
        if self.refused_here.len() < MISSING_TRACKED_MAX {
            self.refused_here.insert(id, shortened(reason));
        } else {
            self.report.refused_untracked += 1;
        }
    }

    /// The peer answered. On an error nothing changed but the end, if the answer itself was no RECON. An answer to
    /// no message that was polled is counted as unexpected and does nothing.
    pub fn handle_answer(
        &mut self,
        set: &mut ItemSet,
        payload: &[u8],
        now_ms: u64,
    ) -> Result<(), Refusal> {
        if self.report.end.is_some() || !self.asked {
            self.report.unexpected += 1;
            return Ok(());
        }
        self.asked = false;
        self.progress_ms = now_ms;
        self.count_bytes(payload.len());
        let step = match self.advance(set, payload) {
            Ok(step) => step,
            Err(refusal) => {
                self.end(End::BrokeRules { refusal });
                return Err(refusal);
            }
        };
        for item in &step.send {
            self.unacknowledged.insert(item.id, *item);
            self.due.push_back(Request::Send(*item));
        }
        if step.send.is_empty() {
            self.proceed(step);
        } else {
            self.answer = Some(payload.to_vec());
        }
        Ok(())
    }

    /// The peer acknowledged a sent item at `seq`: it is re-keyed. After the last one the exchange advances.
    pub fn handle_ack(
        &mut self,
        set: &mut ItemSet,
        id: Id,
        seq: u64,
        now_ms: u64,
    ) -> Result<(), ReservedSeq> {
        let Some(item) = self.unacknowledged.get(&id) else {
            self.report.unexpected += 1;
            return Ok(());
        };
        set.renumber(item, seq)?;
        self.unacknowledged.remove(&id);
        // Named by the peer under its own seq, and held under another until now.
        self.wanted.remove(&id);
        self.progress_ms = now_ms;
        self.changes += 1;
        self.report.sent += 1;
        self.advance_if_acknowledged(set);
        Ok(())
    }

    /// The peer refused a sent item with a code. The item stays here and no longer keeps a range open.
    pub fn handle_send_refused(&mut self, set: &mut ItemSet, id: Id, code: String, now_ms: u64) {
        if self.unacknowledged.remove(&id).is_none() {
            self.report.unexpected += 1;
            return;
        }
        self.progress_ms = now_ms;
        self.refused_by_peer.insert(id, shortened(code));
        self.advance_if_acknowledged(set);
    }

    /// The peer refused the message itself with a code: the exchange ends.
    pub fn handle_refusal(&mut self, code: String) {
        let code = shortened(code);
        self.end(End::Refused { code });
    }

    /// The link is gone: the exchange ends.
    pub fn handle_closed(&mut self) {
        self.end(End::GaveUp(Bound::Link));
    }

    /// Time has come to `now_ms`: gives up if nothing moved for too long.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        if self.poll_timeout().is_some_and(|due| now_ms >= due) {
            self.end(End::GaveUp(Bound::Idle));
        }
    }

    /// How the exchange ended, once it has.
    #[must_use]
    pub fn ended(&self) -> Option<&End> {
        self.report.end.as_ref()
    }

    /// What happened so far, or in all once ended.
    #[must_use]
    pub fn report(&self) -> Report {
        let refused = |(id, why): (&Id, &String)| Refused {
            id: *id,
            why: why.clone(),
        };
        Report {
            missing: self.wanted.iter().copied().collect(),
            unacknowledged: self.unacknowledged.keys().copied().collect(),
            refused_by_peer: self.refused_by_peer.iter().map(refused).collect(),
            refused_here: self.refused_here.iter().map(refused).collect(),
            ..self.report.clone()
        }
    }

    fn advance_if_acknowledged(&mut self, set: &mut ItemSet) {
        if !self.unacknowledged.is_empty() || self.report.end.is_some() {
            return;
        }
        let Some(payload) = self.answer.take() else {
            return;
        };
        match self.advance(set, &payload) {
            Ok(step) => self.proceed(step),
            Err(refusal) => self.end(End::BrokeRules { refusal }),
        }
    }

    fn advance(&self, set: &mut ItemSet, payload: &[u8]) -> Result<Step, Refusal> {
        let settling = Settling::Equal {
            refused_by_peer: &|id| self.refused_by_peer.contains_key(id),
            refused_here: &|id| self.refused_here.contains_key(id),
        };
        match step(set, payload, &self.limits, &settling) {
            Ok(step) => Ok(step),
            Err(StepError::Refused(refusal)) => Err(refusal),
            Err(StepError::Storage(never)) => match never {},
        }
    }

    fn proceed(&mut self, step: Step) {
        self.report.planned += u64::from(step.planned);
        for id in step.want {
            if self.wanted.len() < MISSING_TRACKED_MAX {
                self.wanted.insert(id);
            } else {
                self.report.missing_untracked += 1;
            }
        }
        match step.reply {
            None => self.end(End::Settled),
            Some(_) if self.report.rounds >= self.patience.rounds => {
                self.end(End::GaveUp(Bound::Rounds));
            }
            Some(_) if self.report.bytes() >= self.patience.bytes => {
                self.end(End::GaveUp(Bound::Bytes));
            }
            Some(payload) => self.say(payload),
        }
    }

    /// Says a message, unless it was said often enough with nothing changed in between.
    fn say(&mut self, payload: Vec<u8>) {
        self.repeats = if payload == self.last && self.changes == 0 {
            self.repeats + 1
        } else {
            0
        };
        if self.repeats >= REPEATS_MAX {
            self.end(End::GaveUp(Bound::Stalled));
            return;
        }
        self.changes = 0;
        self.report.rounds += 1;
        self.report.bytes_out += payload.len() as u64;
        self.report.largest_message = self.report.largest_message.max(payload.len());
        self.last.clone_from(&payload);
        self.due.push_back(Request::Recon(payload));
    }

    fn count_push(&mut self) {
        self.report.pushes += 1;
        if self.report.pushes > self.patience.pushes {
            self.end(End::GaveUp(Bound::Pushes));
        }
    }

    fn count_bytes(&mut self, bytes: usize) {
        self.report.bytes_in += bytes as u64;
        self.report.largest_message = self.report.largest_message.max(bytes);
    }

    fn end(&mut self, end: End) {
        if self.report.end.is_none() {
            self.report.end = Some(end);
            self.due.clear();
            self.answer = None;
        }
    }
}

/// A peer's words, cut to what is kept of them.
fn shortened(mut words: String) -> String {
    let most = words.len().min(REASON_BYTES_MAX);
    let end = (0..=most).rev().find(|end| words.is_char_boundary(*end));
    words.truncate(end.unwrap_or(0));
    words.shrink_to_fit();
    words
}
