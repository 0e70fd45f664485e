//! Sends on their way out: paced, reserved, signed, placed in a lane.
//!
//! Law **signing order**: within one stream, messages are reserved, signed and placed in the order
//! they were asked for, and a lane that is full holds the next one back instead of losing it. At
//! most [`SIGNING_MAX`] messages and [`SIGNING_MAX_BYTES`] bytes of a stream are past its pace and not yet in a lane.
//! A message too large for one frame stays at the head of its lane until its last chunk is placed; that
//! one waits for the stream's pace, as the destination charges the message when it is whole.
//! Source: seed 1 ("Stream and transcript"), protocol decisions 3, 4 and 6.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use overlane_core::lane::bounds::{
    LANE_PAYLOADS_MAX, LANE_WINDOW_DEFAULT_BYTES, QUEUED_MAX, QUEUED_MAX_BYTES, WINDOW_SCALE_MAX,
};
use overlane_core::transaction::{Cutter, RelayFields};
use overlane_core::wire::bounds::FRAME_MAX_BYTES;
use overlane_core::{Class, Did, TransactionDigest};

use super::pace::{PIPE_BYTES, PIPE_FRAMES, Pace};
use super::ring::is_own;
use super::share::Shares;
use super::{Outgoing, Receipt, SendId};
use crate::link::LinkId;

/// Sends that are waiting for their pace, their reservation or room in a lane. A destination has its
/// share of them.
pub const PENDING_SENDS_MAX: usize = 1_024;

/// Bytes of them; a message that finds none pending is taken whatever it is.
pub const PENDING_SENDS_MAX_BYTES: u64 = 128 * 1024 * 1024;

/// Messages of one stream that are past its pace and not yet in a lane.
pub const SIGNING_MAX: usize = 128;

/// Bytes of them; the message that passes it is the last.
pub const SIGNING_MAX_BYTES: u64 = 2 * 1024 * 1024;

/// From so many paced streams on, a new one first sweeps the rested ones out.
const PACED_STREAMS_SWEEP: usize = 1_024;

const _: () = assert!(
    (SIGNING_MAX + QUEUED_MAX) as u64 + LANE_PAYLOADS_MAX <= PIPE_FRAMES,
    "what lies between a stream's pace and the destination's quota is within the pipe"
);
const _: () = assert!(
    SIGNING_MAX_BYTES
        + (FRAME_MAX_BYTES + QUEUED_MAX_BYTES) as u64
        + LANE_WINDOW_DEFAULT_BYTES as u64 * WINDOW_SCALE_MAX as u64
        <= PIPE_BYTES,
    "in bytes too"
);

/// What became of a frame that was put in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneAnswer {
    /// The lane took it.
    Placed,
    /// The lane is full; `handle_lane_room` says when it is not.
    Full,
    /// The link is gone.
    Gone,
}

/// Everything on its way out.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    streams: BTreeMap<OutKey, OutStream>,
    lanes: BTreeMap<LaneKey, VecDeque<Placing>>,
    /// Lanes whose first frame is with the driver.
    in_hand: BTreeSet<LaneKey>,
    /// Lanes that said they are full.
    full: BTreeSet<LaneKey>,
    /// Streams with one message less past their pace, and messages that wait.
    freed: BTreeSet<OutKey>,
    pending: Pending,
    /// Sends that were withdrawn and could not be taken back at once.
    withdrawn: BTreeSet<SendId>,
    /// Streams whose first waiting message waits for the pace, until then.
    paced_streams: BTreeMap<OutKey, u64>,
    /// Lanes whose next chunk waits for its stream's pace, until then.
    paced_lanes: BTreeMap<LaneKey, u64>,
}

/// Sends that have no result yet, and their destinations' shares of them.
#[derive(Debug)]
struct Pending(Shares);

impl Default for Pending {
    fn default() -> Self {
        Self(Shares::new(PENDING_SENDS_MAX, PENDING_SENDS_MAX_BYTES))
    }
}

/// The number of what is sent for others: nobody waits for its result.
pub(super) const FORWARDED: SendId = SendId(u64::MAX);

/// One lane of one link.
pub(super) type LaneKey = (LinkId, Class);

/// A stream of this node's, by its destination and class.
pub(super) type OutKey = (Did, Class);

#[derive(Debug)]
struct OutStream {
    pace: Pace,
    waiting: VecDeque<(SendId, Outgoing)>,
    signing: usize,
    signing_bytes: u64,
}

/// Signed bytes that wait for their place in a lane.
#[derive(Debug)]
pub(super) struct Placing {
    pub(super) id: SendId,
    pub(super) receipt: Receipt,
    /// The stream whose pace this message passed, and with how many bytes; `None` for bytes offered
    /// again.
    pub(super) paced: Option<Paced>,
    /// How a message too large for one frame is cut, and which chunk is next.
    pub(super) cut: Option<Cut>,
    /// What it counts of the bytes pending.
    pub(super) bytes: u64,
}

/// How a message is cut, which chunk is next, and how it travels.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) cutter: Arc<Cutter<Bytes>>,
    pub(super) next: u32,
    pub(super) relay: RelayFields,
}

impl Cut {
    fn is_last(&self) -> bool {
        self.next.saturating_add(1) == self.cutter.total()
    }
}

/// What is to be placed next in a lane.
#[derive(Debug)]
pub(super) enum Next {
    /// A signed frame.
    Frame(Bytes),
    /// This chunk of the message with this digest, to be signed now.
    Chunk(Arc<Cutter<Bytes>>, u32, RelayFields, TransactionDigest),
}

/// What became of what was placed.
#[derive(Debug)]
pub(super) enum Placed {
    /// The message is in the lane, or its link is gone.
    Done(Box<Placing>),
    /// A chunk is, and others follow: the send, and bytes placed and in all.
    More(SendId, u64, u64),
}

/// A message past its stream's pace: the stream, and its bytes.
pub(super) type Paced = (OutKey, u64);

impl Outbound {
    /// Holds so many bytes of sends at most.
    pub(super) fn set_max_bytes(&mut self, max_bytes: u64) {
        self.pending.0.set_max_bytes(max_bytes);
    }

    /// Bytes of sends: the most there may be, held now, the most ever.
    pub(super) fn bytes(&self) -> [u64; 3] {
        self.pending.0.bytes()
    }

    /// Sends that have no result yet.
    pub(super) fn pending(&self) -> usize {
        self.pending.0.places()
    }

    /// One more send, of so many bytes, is on its way to `destination`, within its share.
    pub(super) fn begin(&mut self, destination: Did, bytes: u64) -> bool {
        self.pending.0.take(destination, bytes)
    }

    /// A send of so many bytes has its result. `paced` as in [`Placing`].
    pub(super) fn end(&mut self, id: SendId, to: Did, bytes: u64, paced: Option<Paced>) {
        // What the ring sends, and what goes on for others, holds no place of a user's send.
        if !is_own(id) {
            self.pending.0.give_back(to, bytes);
            self.withdrawn.remove(&id);
        }
        let Some((key, bytes)) = paced else { return };
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.signing = stream.signing.saturating_sub(1);
            stream.signing_bytes = stream.signing_bytes.saturating_sub(bytes);
            if !self.paced_streams.contains_key(&key) && !stream.waiting.is_empty() {
                self.freed.insert(key);
            }
        }
    }

    /// A stream that may go on, because one of its messages is no longer between pace and lane.
    pub(super) fn next_freed(&mut self) -> Option<OutKey> {
        self.freed.pop_first()
    }

    /// A message joins its stream.
    pub(super) fn wait(&mut self, key: OutKey, id: SendId, outgoing: Outgoing, steady_ms: u64) {
        if !self.streams.contains_key(&key) && self.streams.len() >= PACED_STREAMS_SWEEP {
            self.streams
                .retain(|_, stream| !stream.is_rested(steady_ms));
            self.paced_streams
                .retain(|key, _| self.streams.contains_key(key));
        }
        let stream = self.streams.entry(key).or_insert_with(|| OutStream {
            pace: Pace::new(steady_ms),
            waiting: VecDeque::new(),
            signing: 0,
            signing_bytes: 0,
        });
        stream.waiting.push_back((id, outgoing));
    }

    /// The stream's next message, if it may be signed now.
    pub(super) fn pass(&mut self, key: OutKey, steady_ms: u64) -> Option<(SendId, Outgoing)> {
        let stream = self.streams.get_mut(&key)?;
        self.paced_streams.remove(&key);
        if stream.signing >= SIGNING_MAX || stream.signing_bytes >= SIGNING_MAX_BYTES {
            return None;
        }
        let (_, outgoing) = stream.waiting.front()?;
        let bytes = outgoing.data_bytes();
        // A large one pays when its last chunk leaves.
        let paid = match outgoing.data.is_large() {
            true => Ok(()),
            false => stream.pace.take(bytes, steady_ms),
        };
        match paid {
            Ok(()) => {
                stream.signing += 1;
                stream.signing_bytes = stream.signing_bytes.saturating_add(bytes);
                stream.waiting.pop_front()
            }
            Err(again_ms) => {
                self.paced_streams.insert(key, again_ms);
                None
            }
        }
    }

    /// The streams whose next message may be signed by now.
    pub(super) fn due(&self, steady_ms: u64) -> Vec<OutKey> {
        let due = self.paced_streams.iter();
        let due = due.filter(|&(_, &at_ms)| at_ms <= steady_ms);
        due.map(|(&key, _)| key).collect()
    }

    /// The lanes whose next chunk may be placed by now.
    pub(super) fn due_lanes(&mut self, steady_ms: u64) -> Vec<LaneKey> {
        let due = |(&lane, &at_ms): (&LaneKey, &u64)| (at_ms <= steady_ms).then_some(lane);
        let due: Vec<_> = self.paced_lanes.iter().filter_map(due).collect();
        for lane in &due {
            self.paced_lanes.remove(lane);
        }
        due
    }

    /// When the next stream or lane is due.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let paced = self.paced_streams.values();
        paced.chain(self.paced_lanes.values()).copied().min()
    }

    /// Every message of every stream to `destination` that is not past its pace, but for those that stay.
    pub(super) fn drain_waiting(
        &mut self,
        destination: Did,
        stays: impl Fn(SendId) -> bool,
    ) -> Vec<(SendId, u64)> {
        let mut drained = Vec::new();
        for class in Class::ALL {
            if let Some(stream) = self.streams.get_mut(&(destination, class)) {
                let waiting = std::mem::take(&mut stream.waiting).into_iter();
                let (stay, go): (Vec<_>, Vec<_>) = waiting.partition(|it| stays(it.0));
                stream.waiting = stay.into();
                if stream.waiting.is_empty() {
                    self.paced_streams.remove(&(destination, class));
                }
                drained.extend(go.into_iter().map(|(id, it)| (id, it.data_bytes())));
            }
        }
        drained
    }

    /// How many messages of others wait for this lane.
    pub(super) fn forwarded(&self, lane: LaneKey) -> usize {
        let waiting = self.lanes.get(&lane).into_iter().flatten();
        waiting.filter(|placing| placing.id == FORWARDED).count()
    }

    /// Signed bytes join their lane.
    pub(super) fn queue(&mut self, lane: LaneKey, placing: Placing) {
        self.lanes.entry(lane).or_default().push_back(placing);
    }

    /// Signed bytes join their lane before all that are not with the driver.
    pub(super) fn queue_first(&mut self, lane: LaneKey, placing: Placing) {
        let at = usize::from(self.in_hand.contains(&lane));
        let queue = self.lanes.entry(lane).or_default();
        queue.insert(at.min(queue.len()), placing);
    }

    /// What waits for a lane of one link waits for the other's, unless it is with the driver.
    pub(super) fn move_lane(&mut self, from: LaneKey, to: LaneKey) {
        let Some(queue) = self.lanes.get_mut(&from) else {
            return;
        };
        let kept = usize::from(self.in_hand.contains(&from)).min(queue.len());
        let moved = queue.split_off(kept);
        if queue.is_empty() {
            self.lanes.remove(&from);
        }
        if !moved.is_empty() {
            self.lanes.entry(to).or_default().extend(moved);
        }
    }

    /// The lane's next frame, for the driver to place; one of a lane is out at a time.
    pub(super) fn next_frame(&mut self, lane: LaneKey, steady_ms: u64) -> Option<Next> {
        let waits = self.full.contains(&lane) || self.paced_lanes.contains_key(&lane);
        if waits || self.in_hand.contains(&lane) {
            return None;
        }
        let placing = self.lanes.get(&lane)?.front()?;
        let Some(cut) = &placing.cut else {
            self.in_hand.insert(lane);
            return Some(Next::Frame(placing.receipt.signed.clone()));
        };
        if let (true, Some((stream, bytes))) = (placing.is_last_chunk(), placing.paced)
            && let Some(stream) = self.streams.get_mut(&stream)
            && let Err(again_ms) = stream.pace.take(bytes, steady_ms)
        {
            self.paced_lanes.insert(lane, again_ms);
            return None;
        }
        self.in_hand.insert(lane);
        let digest = placing.receipt.digest;
        let cutter = Arc::clone(&cut.cutter);
        Some(Next::Chunk(cutter, cut.next, cut.relay, digest))
    }

    /// The driver says what became of the lane's first frame; `None` if it must wait.
    pub(super) fn answer(&mut self, lane: LaneKey, answer: LaneAnswer) -> Option<Placed> {
        self.in_hand.remove(&lane);
        let queue = self.lanes.get_mut(&lane)?;
        // The last chunk paid when it was handed out, and pays again when it is the next time.
        if answer != LaneAnswer::Placed
            && let Some(placing) = queue.front()
            && placing.is_last_chunk()
            && let Some((stream, bytes)) = placing.paced
            && let Some(stream) = self.streams.get_mut(&stream)
        {
            stream.pace.give_back(bytes);
        }
        if answer == LaneAnswer::Full {
            self.full.insert(lane);
            return None;
        }
        if let (LaneAnswer::Placed, Some(placing)) = (answer, queue.front_mut())
            && let Some(cut) = placing.cut.as_mut().filter(|cut| !cut.is_last())
        {
            cut.next += 1;
            let of = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
            let placed = of(cut.cutter.bytes_before(cut.next));
            let total = of(cut.cutter.whole_bytes());
            return Some(Placed::More(placing.id, placed, total));
        }
        let placing = queue.pop_front();
        if queue.is_empty() {
            self.lanes.remove(&lane);
        }
        placing.map(|placing| Placed::Done(Box::new(placing)))
    }

    /// The lane has room again.
    pub(super) fn room(&mut self, lane: LaneKey) {
        self.full.remove(&lane);
    }

    /// The link went down: everything that waits for its lanes.
    pub(super) fn drain_lanes(&mut self, link: LinkId) -> Vec<Placing> {
        let lanes = Class::ALL.map(|class| (link, class));
        for lane in lanes {
            self.in_hand.remove(&lane);
            self.full.remove(&lane);
            self.paced_lanes.remove(&lane);
        }
        let queues = lanes.map(|lane| self.lanes.remove(&lane));
        queues.into_iter().flatten().flatten().collect()
    }
}

/// What became of a wish to take a send back.
#[derive(Debug)]
pub(super) enum Withdrawn {
    /// It was not signed: its destination and its bytes.
    Unsigned(Did, u64),
    /// It was signed, and waited for this lane.
    Queued(LaneKey, Box<Placing>),
    /// It is with the driver, whose answer decides.
    InHand,
    /// It is neither waiting nor signed.
    NotHere,
}

impl Outbound {
    /// Takes a send back that is in no lane yet. One that is with the driver is taken back when the
    /// driver says that it is not placed.
    pub(super) fn withdraw(&mut self, id: SendId) -> Withdrawn {
        for (key, stream) in &mut self.streams {
            if let Some(at) = stream.waiting.iter().position(|(of, _)| *of == id)
                && let Some((_, outgoing)) = stream.waiting.remove(at)
            {
                return Withdrawn::Unsigned(key.0, outgoing.data_bytes());
            }
        }
        let found = self.lanes.iter().find_map(|(&lane, queue)| {
            let at = queue.iter().position(|placing| placing.id == id)?;
            Some((lane, at))
        });
        match found {
            Some((lane, 0)) if self.in_hand.contains(&lane) => {
                self.withdrawn.insert(id);
                Withdrawn::InHand
            }
            Some((lane, at)) => match self.take_out(lane, at) {
                Some(placing) => Withdrawn::Queued(lane, Box::new(placing)),
                None => Withdrawn::NotHere,
            },
            None => Withdrawn::NotHere,
        }
    }

    /// A send that is being signed is taken back when it is.
    pub(super) fn withdraw_later(&mut self, id: SendId) {
        self.withdrawn.insert(id);
    }

    /// Whether the send is to be taken back.
    pub(super) fn is_withdrawn(&self, id: SendId) -> bool {
        self.withdrawn.contains(&id)
    }

    /// The lane's first message, if it is to be taken back and is not with the driver.
    pub(super) fn withdrawn_head(&mut self, lane: LaneKey) -> Option<Placing> {
        let head = self.lanes.get(&lane)?.front()?;
        let back = self.withdrawn.contains(&head.id) && !self.in_hand.contains(&lane);
        back.then(|| self.take_out(lane, 0))?
    }

    /// A paced message of so many bytes does not leave.
    pub(super) fn give_back(&mut self, (key, bytes): Paced) {
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.pace.give_back(bytes);
        }
    }

    fn take_out(&mut self, lane: LaneKey, at: usize) -> Option<Placing> {
        let queue = self.lanes.get_mut(&lane)?;
        let placing = queue.remove(at);
        if queue.is_empty() {
            self.lanes.remove(&lane);
        }
        if at == 0 {
            // What it waited for is not what the next one waits for.
            self.paced_lanes.remove(&lane);
        }
        placing
    }
}

impl Placing {
    /// Whether only one chunk of the message is left.
    fn is_last_chunk(&self) -> bool {
        self.cut.as_ref().is_some_and(Cut::is_last)
    }
}

impl OutStream {
    fn is_rested(&self, steady_ms: u64) -> bool {
        self.waiting.is_empty() && self.signing == 0 && self.pace.is_rested(steady_ms)
    }
}
