//! Credit: what a sender may have under way, and what a receiver has let through.
//!
//! Two windows, for two places where frames lie. A **lane's** window (frames and bytes) counts what
//! the application has not yet taken, so a slow handler holds its own lane, and what a receiver
//! holds is bounded. The **link's** byte window counts what has not yet come off the channels, so
//! bytes under way fit the socket buffer whatever the handlers do. The link's message window is
//! their sum and is checked at compile time.
//!
//! Of the link's byte window a sender of data uses what the round trip asks for
//! ([`PIPE_BYTES_PER_MS`]): more would only wait in the transport, with the control lane behind it. Law
//! (short queues): to a near peer no more data is under way than [`near`] says. It says less while that peer's grants
//! come early, each [`GRANT_EARLY_BYTES`]. That it makes such grants it shows with a CREDIT that nothing made due, which
//! no other peer sends. They come while few of its control frames wait for an answer, which the sender knows: once all
//! that was sent is there, what it heard and did not answer is what waits. Law (no wait for what does not come): a
//! sender holds no frame back for an early grant that will not come.
//!
//! Law (credit): an honest sender never passes what was granted; a receiver knows at once when one
//! does. Law (no deadlock): a grant is due as soon as a quarter of any window was used up, so when
//! everything is taken a sender can use three quarters of each window, which holds the largest
//! frame; and grants find a place (see [`super::bounds`]). Stories 2, 16 and 17.

use std::collections::VecDeque;

use bytes::Bytes;

use super::bounds::{
    GRANT_EARLY_BYTES, GRANT_FRACTION, LANE_PAYLOADS_MAX, PIPE_BYTES_PER_MS, near,
};
use super::control::{Credit, Windows};
use super::delegations::Came;
use super::per_lane::PerLane;
use super::reason::Violation;
use super::rules::Rules;
use crate::ids::Class;

/// A sender's view: what it sent, and what the receiver said it let through.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    frames: PerLane<u64>,
    bytes: PerLane<u64>,
    link_bytes: u64,
    /// Payload frames that were sent, in all, and those of each message that was not yet passed.
    payloads: PerLane<u64>,
    unpassed: PerLane<VecDeque<u64>>,
    unpassed_payloads: PerLane<u64>,
    passed: Credit,
    /// The receiver showed that it grants early.
    early: bool,
}

impl Outgoing {
    /// Whether the receiver's windows have room for a message of this size and so many payload frames, and
    /// the way to it does, which is so long if that is known; and whether its grants come early.
    pub(super) fn has_room(
        &self,
        (windows, round_trip_ms, early): (Windows, Option<u64>, bool),
        class: Class,
        size_bytes: usize,
        payloads: usize,
    ) -> bool {
        let payloads = self
            .unpassed_payloads(class)
            .saturating_add(payloads as u64);
        let size = size_bytes as u64;
        let windows = windows.times(self.passed.scale);
        let link_bytes = match (class, round_trip_ms) {
            (Class::Control, _) | (_, None) => windows.link_bytes,
            (_, Some(ms)) => {
                let pipe = PIPE_BYTES_PER_MS.saturating_mul(ms);
                windows
                    .link_bytes
                    .min(pipe.max(near(windows.link_bytes, early)))
            }
        };
        payloads <= LANE_PAYLOADS_MAX
            && self.unpassed_frames(class) < windows.lane_frames
            && self.unpassed_bytes(class).saturating_add(size) <= windows.lane_bytes
            && self.undrained_bytes().saturating_add(size) <= link_bytes
    }

    /// A message of so many payload frames leaves.
    pub(super) fn sent(&mut self, class: Class, size_bytes: usize, payloads: usize) {
        let size = size_bytes as u64;
        let payloads = payloads as u64;
        self.unpassed.of_mut(class).push_back(payloads);
        *self.unpassed_payloads.of_mut(class) += payloads;
        let all = self.payloads.of_mut(class);
        *all = all.saturating_add(payloads);
        let frames = self.frames.of_mut(class);
        *frames = frames.saturating_add(1);
        let bytes = self.bytes.of_mut(class);
        *bytes = bytes.saturating_add(size);
        self.link_bytes = self.link_bytes.saturating_add(size);
    }

    /// Takes a grant of these windows; what it brought. An older one changes nothing.
    pub(super) fn granted(
        &mut self,
        credit: &Credit,
        windows: Windows,
    ) -> Result<Grant, Violation> {
        let before = self.passed;
        for (class, &frames) in PerLane(credit.taken_frames).each() {
            if frames > *self.frames.of(class) {
                return Err(Violation::CreditUnsent(class));
            }
        }
        for (class, &bytes) in PerLane(credit.taken_bytes).each() {
            if bytes > *self.bytes.of(class) {
                return Err(Violation::CreditUnsent(class));
            }
        }
        if credit.drained_bytes > self.link_bytes {
            return Err(Violation::HeardUnsent);
        }
        raise(&mut self.passed.taken_frames, &credit.taken_frames);
        raise(&mut self.passed.taken_bytes, &credit.taken_bytes);
        self.passed.drained_bytes = self.passed.drained_bytes.max(credit.drained_bytes);
        self.passed.scale = self.passed.scale.max(credit.scale);
        for class in Class::ALL {
            let left = usize::try_from(self.unpassed_frames(class)).unwrap_or(usize::MAX);
            let unpassed = self.unpassed.of_mut(class);
            let passed = unpassed.drain(..unpassed.len().saturating_sub(left));
            *self.unpassed_payloads.of_mut(class) -= passed.sum::<u64>();
        }
        Ok(Grant {
            is_new: self.passed != before,
            was_due: due(&before, &self.passed, windows, GRANT_FRACTION),
        })
    }

    /// Payload frames of a lane that were sent, in all.
    pub(super) fn payloads(&self, class: Class) -> u64 {
        *self.payloads.of(class)
    }

    /// Payload frames of each lane whose message the receiver said was taken.
    pub(super) fn passed(&self) -> PerLane<u64> {
        let passed = |class| {
            let payloads = self.payloads(class);
            payloads.saturating_sub(self.unpassed_payloads(class))
        };
        PerLane(Class::ALL.map(passed))
    }

    /// Payload frames of a lane whose message the receiver has not said was taken.
    pub(super) fn unpassed_payloads(&self, class: Class) -> u64 {
        *self.unpassed_payloads.of(class)
    }

    /// Messages of a lane that the receiver has not said were taken.
    pub(super) fn unpassed_frames(&self, class: Class) -> u64 {
        let passed = PerLane(self.passed.taken_frames);
        self.frames.of(class).saturating_sub(*passed.of(class))
    }

    /// The receiver granted without anything that made it due.
    pub(super) fn shows_early(&mut self) {
        self.early = true;
    }

    /// Whether the receiver showed that it grants early.
    pub(super) fn is_early(&self) -> bool {
        self.early
    }

    /// How many times its HELLO's windows the receiver granted.
    pub(super) fn scale(&self) -> u8 {
        self.passed.scale
    }

    /// Payload bytes of the link that the receiver has not said came off the channels.
    pub(super) fn undrained_bytes(&self) -> u64 {
        self.link_bytes.saturating_sub(self.passed.drained_bytes)
    }

    fn unpassed_bytes(&self, class: Class) -> u64 {
        let passed = PerLane(self.passed.taken_bytes);
        self.bytes.of(class).saturating_sub(*passed.of(class))
    }
}

/// What a grant brought to a sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant {
    /// Anything at all.
    pub(super) is_new: bool,
    /// Enough for it to be due.
    pub(super) was_due: bool,
}

/// Whether what was let through since `granted`, which is all of `now`, makes a grant of these windows due: so large a part
/// of any of them, or larger ones.
fn due(granted: &Credit, now: &Credit, windows: Windows, fraction: u64) -> bool {
    let part = |window: u64| (window / fraction).max(1);
    let windows = windows.times(granted.scale);
    let used = |now: &[u64], granted: &[u64], window: u64| {
        let mut lanes = now.iter().zip(granted);
        lanes.any(|(now, granted)| now.saturating_sub(*granted) >= part(window))
    };
    now.scale > granted.scale
        || now.drained_bytes.saturating_sub(granted.drained_bytes) >= part(windows.link_bytes)
        || used(
            &now.taken_frames,
            &granted.taken_frames,
            windows.lane_frames,
        )
        || used(&now.taken_bytes, &granted.taken_bytes, windows.lane_bytes)
}

fn raise(to: &mut [u64], from: &[u64]) {
    to.iter_mut()
        .zip(from)
        .for_each(|(to, from)| *to = (*to).max(*from));
}

/// A receiver's view: what came, what waits, what the application took, and what it granted.
#[derive(Debug)]
pub(super) struct Incoming {
    windows: Windows,
    rules: Rules,
    lanes: PerLane<IncomingLane>,
    drained_bytes: u64,
    granted: Credit,
    /// How many times the windows are to be granted.
    scale: u8,
}

/// One lane of a receiver. Its two queues together never hold more than the lane's window.
#[derive(Debug, Default)]
struct IncomingLane {
    received_frames: u64,
    received_bytes: u64,
    received_payloads: u64,
    taken_frames: u64,
    taken_bytes: u64,
    /// Messages that came and were not yet handed to the application's side.
    waiting: VecDeque<Waiting>,
    /// What was handed out and not yet taken is charged.
    handed_out: VecDeque<Charge>,
}

/// What waits of a message in its lane.
#[derive(Debug)]
struct Waiting {
    /// Its payload frames, never none.
    frames: Vec<Came>,
    /// What they hold of the lane's window.
    bytes: u64,
}

impl Waiting {
    /// How many of its first frames wait for no delegation.
    fn complete(&self) -> usize {
        let misses = self.frames.iter().position(|came| came.misses);
        misses.unwrap_or(self.frames.len())
    }
}

/// What frames that were handed out together hold of their lane's window until all of them are taken: their
/// share of their message's bytes, and the message itself if its last frame is among them.
#[derive(Debug, Clone, Copy)]
struct Charge {
    frames: usize,
    bytes: u64,
    ends_message: bool,
}

impl Incoming {
    pub(super) fn new(windows: Windows, rules: Rules) -> Self {
        Self {
            windows,
            rules,
            lanes: PerLane::default(),
            drained_bytes: 0,
            granted: Credit::default(),
            scale: 1,
        }
    }

    /// The peer is so far away that the windows are to be granted so many times. Never less than
    /// before.
    pub(super) fn scale_to(&mut self, scale: u8) {
        self.scale = self.scale.max(scale);
    }

    /// Takes the payload frames of a message of this size off its channel into their lane, unless
    /// the message was not granted.
    pub(super) fn receive(
        &mut self,
        class: Class,
        size_bytes: usize,
        frames: Vec<Came>,
    ) -> Result<(), Violation> {
        let size = size_bytes as u64;
        let windows = self.windows.times(self.granted.scale);
        let lane = self.lanes.of_mut(class);
        let granted_frames = *PerLane(self.granted.taken_frames).of(class);
        let granted_bytes = *PerLane(self.granted.taken_bytes).of(class);
        if lane.received_frames.saturating_sub(granted_frames) >= windows.lane_frames {
            return Err(Violation::OverLaneFrames(class));
        }
        let received_bytes = lane.received_bytes.saturating_add(size);
        if received_bytes.saturating_sub(granted_bytes) > windows.lane_bytes {
            let window_bytes = windows.lane_bytes;
            return Err(Violation::OverLaneBytes {
                class,
                window_bytes,
            });
        }
        let drained_bytes = self.drained_bytes.saturating_add(size);
        if drained_bytes.saturating_sub(self.granted.drained_bytes) > windows.link_bytes {
            let window_bytes = windows.link_bytes;
            return Err(Violation::OverLinkBytes { window_bytes });
        }
        lane.received_frames = lane.received_frames.saturating_add(1);
        lane.received_bytes = received_bytes;
        lane.received_payloads = lane.received_payloads.saturating_add(frames.len() as u64);
        lane.waiting.push_back(Waiting {
            frames,
            bytes: size,
        });
        self.drained_bytes = drained_bytes;
        Ok(())
    }

    /// Hands the lane's next frames to the application's side: at most so many of one message, as far as
    /// they wait for no delegation, the first one in any case.
    pub(super) fn hand_out(&mut self, class: Class, most: usize) -> Option<Vec<Bytes>> {
        let lane = self.lanes.of_mut(class);
        let mut message = lane.waiting.pop_front()?;
        let together = message.complete().min(most).max(1);
        let together = together.min(message.frames.len());
        let rest = message.frames.split_off(together);
        let frames: Vec<_> = message.frames.into_iter().map(|came| came.frame).collect();
        // The last ones carry what the message adds to its frames.
        let ends_message = rest.is_empty();
        let own: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
        let bytes = if ends_message {
            message.bytes
        } else {
            message.bytes.min(own)
        };
        if !ends_message {
            let bytes = message.bytes.saturating_sub(bytes);
            let frames = rest;
            lane.waiting.push_front(Waiting { frames, bytes });
        }
        lane.handed_out.push_back(Charge {
            frames: frames.len(),
            bytes,
            ends_message,
        });
        Some(frames)
    }

    /// Since when the lane's next frame waits for a delegation, if it does.
    pub(super) fn head_missed_since_ms(&self, class: Class) -> Option<u64> {
        let head = self.lanes.of(class).waiting.front()?.frames.first()?;
        head.misses.then_some(head.at_ms)
    }

    /// Whether a frame of the lane waits for a delegation.
    pub(super) fn misses(&self, class: Class) -> bool {
        let waiting = self.lanes.of(class).waiting.iter();
        let mut waiting = waiting.flat_map(|message| &message.frames);
        waiting.any(|came| came.misses)
    }

    /// Since when the first lane waits for a delegation.
    pub(super) fn missed_since_ms(&self) -> Option<u64> {
        let heads = Class::ALL.map(|class| self.head_missed_since_ms(class));
        heads.into_iter().flatten().min()
    }

    /// Every frame that waits for a delegation, for `again` to write out once more.
    pub(super) fn write_out_missed(&mut self, mut again: impl FnMut(Came) -> Came) {
        let waiting = self.lanes.each_mut();
        let waiting = waiting.flat_map(|(_, lane)| lane.waiting.iter_mut());
        let waiting = waiting.flat_map(|message| &mut message.frames);
        for came in waiting.filter(|came| came.misses) {
            *came = again(std::mem::take(came));
        }
    }

    /// The application took so many of the oldest frames that were handed out; how many fewer there were.
    pub(super) fn taken(&mut self, class: Class, mut frames: usize) -> usize {
        let lane = self.lanes.of_mut(class);
        while frames > 0
            && let Some(oldest) = lane.handed_out.front_mut()
        {
            let of_oldest = frames.min(oldest.frames);
            frames -= of_oldest;
            oldest.frames -= of_oldest;
            if oldest.frames > 0 {
                break;
            }
            lane.taken_frames = lane
                .taken_frames
                .saturating_add(u64::from(oldest.ends_message));
            lane.taken_bytes = lane.taken_bytes.saturating_add(oldest.bytes);
            lane.handed_out.pop_front();
        }
        frames
    }

    /// Whether a quarter of any window was used up since the last grant, or larger ones are due.
    pub(super) fn grant_due(&self) -> bool {
        due(
            &self.granted,
            &self.now(),
            self.windows,
            self.rules.grant_fraction,
        )
    }

    /// Whether so much was let through since the last grant that another goes if it finds a place early.
    pub(super) fn grant_early(&self) -> bool {
        let since = self
            .let_through()
            .saturating_sub(self.granted.drained_bytes);
        since >= GRANT_EARLY_BYTES
    }

    /// Whether anything came.
    pub(super) fn has_received(&self) -> bool {
        self.drained_bytes > 0
    }

    /// Grants everything that was let through so far.
    pub(super) fn grant(&mut self) -> Credit {
        self.granted = self.now();
        self.granted
    }

    /// Everything that was let through so far.
    fn now(&self) -> Credit {
        Credit {
            taken_frames: self.lanes.0.each_ref().map(|lane| lane.taken_frames),
            taken_bytes: self.lanes.0.each_ref().map(|lane| lane.taken_bytes),
            drained_bytes: self.let_through(),
            scale: self.scale,
        }
    }

    /// What the link's byte window no longer counts.
    fn let_through(&self) -> u64 {
        if self.rules.link_waits_for_taking {
            return self.lanes.iter().map(|lane| lane.taken_bytes).sum();
        }
        self.drained_bytes
    }

    /// Payload frames of a lane that came, in all.
    pub(super) fn received_payloads(&self, class: Class) -> u64 {
        self.lanes.of(class).received_payloads
    }

    /// Messages of a lane that came and were not taken.
    pub(super) fn untaken_frames(&self, class: Class) -> usize {
        let lane = self.lanes.of(class);
        let untaken = lane.received_frames.saturating_sub(lane.taken_frames);
        usize::try_from(untaken).unwrap_or(usize::MAX)
    }

    /// How many times the windows were granted.
    pub(super) fn granted_scale(&self) -> u8 {
        self.granted.scale
    }

    /// Bytes of the frames that came and were not taken, on all lanes.
    pub(super) fn untaken_bytes(&self) -> u64 {
        let untaken = |lane: &IncomingLane| lane.received_bytes.saturating_sub(lane.taken_bytes);
        self.lanes.iter().map(untaken).sum()
    }
}
