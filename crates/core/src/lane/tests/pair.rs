//! Two sessions, four ordered channels each way, virtual time.
//!
//! The channels have the faults of the transport: what arrives before a channel is dialled vanishes;
//! closing drops what is still on its way; the send buffer takes a few messages only.

use std::collections::VecDeque;
use std::fmt;

use crate::ids::{Class, NetworkId};
use crate::lane::bounds::{
    CONTROL_IN_FLIGHT_MAX, CONTROL_WINDOW_FRAMES, LANE_IN_FLIGHT_MAX, LANE_WINDOW_FRAMES,
    LINK_WINDOW_MESSAGES, QUEUED_MAX, QUEUED_MAX_BYTES,
};
use crate::lane::rules::Rules;
use crate::lane::{
    CloseReason, PerLane, Phase, SendError, Session, SessionConfig, SessionEvent, Windows,
};
use crate::wire::frame::{BATCH_MARKER, CONTROL_MARKER, PAYLOAD_MARKER};

pub(super) const NETWORK: NetworkId = NetworkId(7);

/// The first law that a run saw broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) law: &'static str,
    pub(super) what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "law {} broken: {}", self.law, self.what)
    }
}

pub(super) fn broken(law: &'static str, what: impl fmt::Display) -> Broken {
    let what = what.to_string();
    Broken { law, what }
}

/// A small generator, so that one seed replays a run.
#[derive(Debug, Clone)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// One channel in one direction.
#[derive(Debug, Default)]
struct Pipe {
    /// Handed out by the session, not yet in the send buffer.
    offered: VecDeque<Vec<u8>>,
    /// In the send buffer or on the way, each with the time it arrives.
    under_way: VecDeque<(u64, Vec<u8>)>,
    /// Nothing arrives before this.
    stalled_until_ms: u64,
    /// Nothing arrives any more, and nobody is told.
    cut: bool,
}

/// How an application takes from a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    AtOnce,
    Every(u64),
    Never,
}

/// One end: a session, its application, and what it saw.
#[derive(Debug)]
pub(super) struct End {
    pub(super) session: Session,
    /// When each channel is dialled on this side.
    dials_ms: PerLane<u64>,
    dialled: PerLane<bool>,
    pub(super) takes: PerLane<Takes>,
    takes_next_ms: PerLane<u64>,
    /// Frames handed to the application's side and not taken.
    pub(super) held: PerLane<usize>,
    /// Payload frames queued, and payload frames that came, a lane.
    pub(super) queued: PerLane<u64>,
    pub(super) came: PerLane<u64>,
    /// How often a lane that had refused told that it has room.
    pub(super) rooms: PerLane<u64>,
    pub(super) opened_ms: Option<u64>,
    pub(super) closed: Option<(u64, CloseReason)>,
}

/// How the channels behave.
#[derive(Debug, Clone)]
pub(super) struct Net {
    pub(super) latency_ms: u64,
    /// Each message takes up to this much longer; the order of a channel is kept.
    pub(super) jitter_ms: u64,
    /// Messages that a channel's send buffer takes.
    pub(super) buffer: usize,
    /// How often a control frame arrives twice.
    pub(super) repeats_percent: u64,
    /// The latest time at which a channel is dialled.
    pub(super) dials_ms: u64,
    /// Lets a payload pass the one before it: what several channels a class, taken in turn, would do
    /// (story 2).
    pub(super) overtakes: bool,
}

impl Default for Net {
    fn default() -> Self {
        Self {
            latency_ms: 10,
            jitter_ms: 0,
            buffer: 64,
            repeats_percent: 0,
            dials_ms: 0,
            overtakes: false,
        }
    }
}

/// Two ends and what lies between them.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) now_ms: u64,
    pub(super) ends: [End; 2],
    pipes: [PerLane<Pipe>; 2],
    /// When each end hears that the other closed the transport.
    hangs_up_ms: [Option<u64>; 2],
    pub(super) net: Net,
    rng: Rng,
    /// The larger link byte window of the two.
    window_bytes: u64,
    /// The most messages, and payload bytes, that were under way in one direction.
    pub(super) most_messages: u64,
    pub(super) most_bytes: u64,
}

/// More steps than any run takes.
const STEPS_MAX: u64 = 2_000_000;

impl Pair {
    pub(super) fn new(seed: u64, net: Net, rules: [Rules; 2]) -> Self {
        Self::with_windows(seed, net, rules, [Windows::default(); 2])
    }

    pub(super) fn with_windows(
        seed: u64,
        net: Net,
        rules: [Rules; 2],
        windows: [Windows; 2],
    ) -> Self {
        let mut rng = Rng(seed);
        let mut end = |side: usize| {
            let config = SessionConfig {
                jitter_seed: rng.next(),
                windows: windows[side],
                rules: rules[side],
                ..SessionConfig::new(NETWORK)
            };
            End {
                session: Session::new(config, 0),
                dials_ms: PerLane([(); 4].map(|()| rng.below(net.dials_ms + 1))),
                dialled: PerLane::default(),
                takes: PerLane([Takes::AtOnce; 4]),
                takes_next_ms: PerLane::default(),
                held: PerLane::default(),
                queued: PerLane::default(),
                came: PerLane::default(),
                rooms: PerLane::default(),
                opened_ms: None,
                closed: None,
            }
        };
        Self {
            now_ms: 0,
            ends: [end(0), end(1)],
            pipes: Default::default(),
            hangs_up_ms: [None; 2],
            net,
            rng,
            window_bytes: windows
                .map(Windows::link_bytes)
                .into_iter()
                .fold(0, u64::max),
            most_messages: 0,
            most_bytes: 0,
        }
    }

    /// A pair whose links are open.
    pub(super) fn opened(seed: u64, net: Net, rules: [Rules; 2]) -> Result<Self, Broken> {
        let mut pair = Self::new(seed, net, rules);
        pair.run_until_open()?;
        Ok(pair)
    }

    pub(super) fn run_until_open(&mut self) -> Result<(), Broken> {
        let opened = |pair: &Self| pair.ends.iter().all(|end| end.opened_ms.is_some());
        self.run_until(60_000, opened)?;
        if !opened(self) {
            let [one, two] = &self.ends;
            let (one, two) = (&one.closed, &two.closed);
            return Err(broken("hello", format!("not open: {one:?}, {two:?}")));
        }
        Ok(())
    }

    /// Queues the lane's next frame, which carries its class and its number.
    pub(super) fn send(&mut self, side: usize, class: Class, size: usize) -> Result<(), SendError> {
        let end = &mut self.ends[side];
        let number = end.queued.of_mut(class);
        end.session
            .send(class, numbered_frame(class, *number, size))?;
        *number += 1;
        Ok(())
    }

    /// Nothing of this direction arrives any more, on one channel or on all.
    pub(super) fn cut(&mut self, from: usize) {
        self.pipes[from]
            .each_mut()
            .for_each(|(_, pipe)| pipe.cut = true);
    }

    /// Nothing arrives on this channel before `until_ms`.
    pub(super) fn stall(&mut self, from: usize, class: Class, until_ms: u64) {
        self.pipes[from].of_mut(class).stalled_until_ms = until_ms;
    }

    /// The newest payload message on this channel's way is lost.
    pub(super) fn lose_one(&mut self, from: usize, class: Class) -> bool {
        let pipe = self.pipes[from].of_mut(class);
        let newest = pipe.under_way.back();
        let payload = newest.is_some_and(|(_, message)| is_payload(message));
        payload && pipe.under_way.pop_back().is_some()
    }

    pub(super) fn close(&mut self, side: usize) {
        self.ends[side].session.close(self.now_ms);
    }

    /// The application of this side takes the lane's oldest frame, if it holds one.
    pub(super) fn take_one(&mut self, side: usize, class: Class) -> bool {
        let end = &mut self.ends[side];
        let held = end.held.of_mut(class);
        if *held == 0 {
            return false;
        }
        *held -= 1;
        end.session.taken(class, 1, self.now_ms);
        true
    }

    /// Runs until `done`, nothing is left to happen, or so much time has passed.
    pub(super) fn run_until(
        &mut self,
        for_ms: u64,
        done: impl Fn(&Self) -> bool,
    ) -> Result<(), Broken> {
        let until_ms = self.now_ms + for_ms;
        for _ in 0..STEPS_MAX {
            self.settle()?;
            if done(self) {
                return Ok(());
            }
            match self.next_ms() {
                Some(next_ms) if next_ms <= until_ms => self.now_ms = next_ms.max(self.now_ms),
                _ => {
                    self.now_ms = until_ms;
                    return Ok(());
                }
            }
        }
        Err(broken("quiet", "the sessions never rest"))
    }

    pub(super) fn run_for(&mut self, for_ms: u64) -> Result<(), Broken> {
        self.run_until(for_ms, |_| false)
    }

    /// Everything that was queued on one side came on the other, in order and once.
    pub(super) fn all_came(&self, from: usize) -> bool {
        self.ends[from].queued == self.ends[1 - from].came
    }

    /// Lets happen all that is due now, until nothing more is.
    pub(super) fn settle(&mut self) -> Result<(), Broken> {
        for _ in 0..STEPS_MAX {
            let mut moved = false;
            for side in 0..2 {
                moved |= self.dial(side);
                moved |= self.wake(side);
                moved |= self.hang_up(side);
                moved |= self.arrive(side)?;
                moved |= self.tell(side)?;
                moved |= self.take(side);
                moved |= self.transmit(side)?;
                moved |= self.accept(side);
            }
            if !moved {
                return Ok(());
            }
        }
        Err(broken("quiet", "the sessions never rest"))
    }

    fn dial(&mut self, side: usize) -> bool {
        let end = &mut self.ends[side];
        let mut moved = false;
        for class in Class::ALL {
            if !end.dialled.of(class) && self.now_ms >= *end.dials_ms.of(class) {
                *end.dialled.of_mut(class) = true;
                end.session.handle_channel_open(class, self.now_ms);
                moved = true;
            }
        }
        moved
    }

    fn wake(&mut self, side: usize) -> bool {
        let session = &mut self.ends[side].session;
        let due = session.poll_timeout().is_some_and(|at| at <= self.now_ms);
        if due {
            session.handle_timeout(self.now_ms);
        }
        // a HELLO that is due stays due until it is polled
        due && session.poll_timeout().is_none_or(|at| at > self.now_ms)
    }

    fn hang_up(&mut self, side: usize) -> bool {
        let due = self.hangs_up_ms[side].is_some_and(|at| at <= self.now_ms);
        if due {
            self.hangs_up_ms[side] = None;
            let session = &mut self.ends[side].session;
            session.handle_transport_closed("the other side closed".to_owned(), self.now_ms);
        }
        due
    }

    /// Delivers what is due to this side, a message of each channel at a time.
    fn arrive(&mut self, side: usize) -> Result<bool, Broken> {
        let mut moved = false;
        for (class, pipe) in self.pipes[1 - side].each_mut() {
            let due = pipe.under_way.front();
            let due = due.is_some_and(|&(at, _)| at.max(pipe.stalled_until_ms) <= self.now_ms);
            if !due || pipe.cut {
                continue;
            }
            let payload = |at: usize| {
                let message = pipe.under_way.get(at);
                message.is_some_and(|(_, message)| message.starts_with(&PAYLOAD_MARKER))
            };
            if self.net.overtakes && payload(0) && payload(1) {
                pipe.under_way.swap(0, 1);
            }
            let Some((_, message)) = pipe.under_way.pop_front() else {
                continue;
            };
            moved = true;
            let end = &mut self.ends[side];
            if !end.dialled.of(class) {
                continue;
            }
            let control = message.starts_with(&CONTROL_MARKER);
            let again = control && self.rng.chance(self.net.repeats_percent);
            if again {
                end.session
                    .handle_message(class, message.clone(), self.now_ms);
            }
            end.session.handle_message(class, message, self.now_ms);
        }
        self.check(side)?;
        Ok(moved)
    }

    fn tell(&mut self, side: usize) -> Result<bool, Broken> {
        let mut moved = false;
        loop {
            // One side is told of frames one by one, the other as they came.
            let session = &mut self.ends[side].session;
            let event = match side {
                0 => session.poll_event(),
                _ => session.poll_event_together(),
            };
            let Some(event) = event else { break };
            moved = true;
            let end = &mut self.ends[side];
            if end.closed.is_some() {
                return Err(broken("closed last", format!("{event:?}")));
            }
            match event {
                SessionEvent::Open { .. } if end.opened_ms.is_some() => {
                    return Err(broken("open once", "told twice"));
                }
                SessionEvent::Open { .. } => end.opened_ms = Some(self.now_ms),
                SessionEvent::Frames { .. } if end.opened_ms.is_none() => {
                    return Err(broken("open first", "a frame before"));
                }
                SessionEvent::Frames { frames, .. } if frames.is_empty() => {
                    return Err(broken("frames", "none of them"));
                }
                SessionEvent::Frames { class, frames } => {
                    for bytes in frames {
                        let number = *end.came.of(class);
                        if bytes != numbered_frame(class, number, bytes.len()) {
                            return Err(broken("order", format!("{class} lane, frame {number}")));
                        }
                        *end.came.of_mut(class) += 1;
                        *end.held.of_mut(class) += 1;
                        if *end.held.of(class) == 1 {
                            *end.takes_next_ms.of_mut(class) = self.now_ms + end.pause_ms(class);
                        }
                    }
                }
                SessionEvent::Room { class } => {
                    if !matches!(end.session.phase(), Phase::Opening | Phase::Open) {
                        return Err(broken("room", "told on a link that takes no frames"));
                    }
                    *end.rooms.of_mut(class) += 1;
                }
                SessionEvent::Closed { reason } => {
                    end.closed = Some((self.now_ms, reason));
                    self.drop_transport(side);
                }
            }
        }
        self.check(side)?;
        Ok(moved)
    }

    /// The side closes its transport: what it sent and has not arrived is dropped.
    fn drop_transport(&mut self, side: usize) {
        let cut = self.pipes[side].iter().any(|pipe| pipe.cut);
        self.pipes = Default::default();
        if !cut {
            self.hangs_up_ms[1 - side] = Some(self.now_ms + self.net.latency_ms);
        }
    }

    fn take(&mut self, side: usize) -> bool {
        let end = &mut self.ends[side];
        let mut moved = false;
        for class in Class::ALL {
            while *end.held.of(class) > 0
                && *end.takes.of(class) != Takes::Never
                && *end.takes_next_ms.of(class) <= self.now_ms
            {
                *end.held.of_mut(class) -= 1;
                end.session.taken(class, 1, self.now_ms);
                *end.takes_next_ms.of_mut(class) = self.now_ms + end.pause_ms(class);
                moved = true;
            }
        }
        moved
    }

    fn transmit(&mut self, side: usize) -> Result<bool, Broken> {
        let mut moved = false;
        while let Some(message) = self.ends[side].session.poll_transmit(self.now_ms) {
            moved = true;
            let pipe = self.pipes[side].of_mut(message.class);
            pipe.offered.push_back(message.bytes);
            if pipe.offered.len() > LANE_IN_FLIGHT_MAX + CONTROL_IN_FLIGHT_MAX {
                return Err(broken("in flight", format!("{} lane", message.class)));
            }
        }
        Ok(moved)
    }

    fn accept(&mut self, side: usize) -> bool {
        let mut moved = false;
        for (class, pipe) in self.pipes[side].each_mut() {
            while pipe.under_way.len() < self.net.buffer {
                let Some(message) = pipe.offered.pop_front() else {
                    break;
                };
                let takes_ms = self.net.latency_ms + self.rng.below(self.net.jitter_ms + 1);
                let after_ms = pipe.under_way.back().map_or(0, |&(at, _)| at);
                let at_ms = after_ms.max(self.now_ms + takes_ms);
                pipe.under_way.push_back((at_ms, message));
                self.ends[side].session.handle_accepted(class, self.now_ms);
                moved = true;
            }
        }
        if moved {
            self.note_under_way(side);
        }
        moved
    }

    fn note_under_way(&mut self, side: usize) {
        let pipes = self.pipes[side].iter();
        let messages = pipes.flat_map(|pipe| pipe.offered.iter().chain(bytes(&pipe.under_way)));
        let (mut count, mut payload) = (0, 0);
        for message in messages.filter(|message| !is_greeting(message)) {
            count += 1;
            if is_payload(message) {
                payload += message.len() as u64;
            }
        }
        self.most_messages = self.most_messages.max(count);
        self.most_bytes = self.most_bytes.max(payload);
    }

    /// What holds at every step, whatever the other side does.
    fn check(&self, side: usize) -> Result<(), Broken> {
        let status = self.ends[side].session.status();
        for (class, lane) in status.lanes.each() {
            let scale = usize::from(status.window_scales.0);
            if lane.untaken > scale * usize::from(LANE_WINDOW_FRAMES) {
                return Err(broken("bounded lanes", format!("{class} lane: {lane:?}")));
            }
        }
        let queued: usize = status.lanes.iter().map(|lane| lane.queued).sum();
        if queued > QUEUED_MAX {
            return Err(broken("bounded queue", queued));
        }
        let queued_bytes: usize = status.lanes.iter().map(|lane| lane.queued_bytes).sum();
        if queued_bytes > QUEUED_MAX_BYTES {
            return Err(broken("bounded queue", queued_bytes));
        }
        let ends = self.ends.iter();
        let scales = ends.map(|end| end.session.status().window_scales.0);
        let scale = u64::from(scales.max().unwrap_or(1));
        let messages = LINK_WINDOW_MESSAGES
            + (scale - 1) * u64::from(LANE_WINDOW_FRAMES) * Class::ALL.len() as u64;
        if self.most_messages > messages || self.most_bytes > scale * self.window_bytes {
            let what = format!("{} messages, {} bytes", self.most_messages, self.most_bytes);
            return Err(broken("credit", what));
        }
        if status.unanswered_control > CONTROL_WINDOW_FRAMES {
            return Err(broken("bounded control", status.unanswered_control));
        }
        Ok(())
    }

    /// Neither link ended.
    pub(super) fn both_live(&self) -> Result<(), Broken> {
        for end in &self.ends {
            if let Some((at_ms, reason)) = &end.closed {
                return Err(broken("live", format!("at {at_ms} ms: {reason}")));
            }
        }
        Ok(())
    }

    /// When something is next due.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let mut next_ms: Option<u64> = None;
        let mut soonest = |at_ms: u64| {
            next_ms = Some(next_ms.map_or(at_ms, |next_ms| next_ms.min(at_ms)));
        };
        self.hangs_up_ms
            .iter()
            .flatten()
            .for_each(|&at| soonest(at));
        for (side, end) in self.ends.iter().enumerate() {
            end.session
                .poll_timeout()
                .into_iter()
                .for_each(&mut soonest);
            for class in Class::ALL {
                if !end.dialled.of(class) {
                    soonest(*end.dials_ms.of(class));
                }
                if *end.held.of(class) > 0 && *end.takes.of(class) != Takes::Never {
                    soonest(*end.takes_next_ms.of(class));
                }
                let pipe = self.pipes[side].of(class);
                if let Some(&(at_ms, _)) = pipe.under_way.front().filter(|_| !pipe.cut) {
                    soonest(at_ms.max(pipe.stalled_until_ms));
                }
            }
        }
        next_ms
    }
}

impl End {
    fn pause_ms(&self, class: Class) -> u64 {
        match self.takes.of(class) {
            Takes::Every(pause_ms) => *pause_ms,
            Takes::AtOnce | Takes::Never => 0,
        }
    }
}

fn bytes(messages: &VecDeque<(u64, Vec<u8>)>) -> impl Iterator<Item = &Vec<u8>> {
    messages.iter().map(|(_, message)| message)
}

fn is_payload(message: &[u8]) -> bool {
    message.starts_with(&PAYLOAD_MARKER) || message.starts_with(&BATCH_MARKER)
}

/// HELLO and HELLO-ACK, which no window holds: their tags are 0 and 1.
fn is_greeting(message: &[u8]) -> bool {
    message.starts_with(&CONTROL_MARKER) && matches!(message.get(5), Some(0 | 1))
}

/// A payload frame of at least 13 bytes that tells its class and its number.
pub(super) fn numbered_frame(class: Class, number: u64, size: usize) -> Vec<u8> {
    let mut frame = PAYLOAD_MARKER.to_vec();
    frame.push(class.index());
    frame.extend(number.to_be_bytes());
    frame.resize(size.max(frame.len()), 0xa5);
    frame
}
