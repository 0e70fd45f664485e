//! A session: one link generation, from its first HELLO to its last FIN.
//!
//! The driver tells it what happened on four ordered, reliable channels (`handle_…`), its user
//! queues frames and says what was taken, and it says what it wants done (`poll_…`, each drained
//! until it gives nothing). Payload frames pass through it unread.
//!
//! Laws, each with a test of that name: order per class, nothing lost or repeated while the link is
//! open, credit, progress, a stalled handler holds only its lane, liveness, bounded memory under any
//! peer.

use bytes::Bytes;

use super::bounds::{
    BATCH_MAX_FRAMES, FIN_DEADLINE_MS, HANDSHAKE_DEADLINE_MS, HELLO_RESEND_MAX_MS,
    HELLO_RESEND_MIN_MS, HELLO_RESEND_SLOW_MS, LINGER_MS, MISSED_WAITS_MS, WINDOW_SCALE_MAX,
    WINDOW_SCALE_STEP_MS,
};
use super::channel::{Channel, Fin, Kind};
use super::control::{Hello, QuotaHint, Windows};
use super::credit::{Incoming, Outgoing};
use super::delegations::{Held, Shown};
use super::liveness::Liveness;
use super::numbers::Numbers;
use super::per_lane::PerLane;
use super::queue::Outbound;
use super::reason::{CloseReason, SendError};
use super::rules::Rules;
use super::status::{Counters, LaneStatus, SessionStatus};
use crate::ids::{Class, NetworkId};
use crate::wire::frame::{Frame, FrameError};

/// What a session is made with.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// This node's network.
    pub network: NetworkId,
    /// What this side lets the other have under way.
    pub windows: Windows,
    /// The quota this node keeps as a destination.
    pub quota: QuotaHint,
    /// How many times its windows this side grants a far peer at most; a socket's buffer may hold
    /// less than [`WINDOW_SCALE_MAX`] of them.
    pub window_scale_max: u8,
    /// Any number; spreads the times at which HELLOs are sent again.
    pub jitter_seed: u64,
    /// How long the handshake may take.
    pub handshake_deadline_ms: u64,
    /// How long closing may take.
    pub fin_deadline_ms: u64,
    pub(super) rules: Rules,
}

impl SessionConfig {
    /// The defaults, for a node of this network.
    pub fn new(network: NetworkId) -> Self {
        Self {
            network,
            windows: Windows::default(),
            window_scale_max: WINDOW_SCALE_MAX,
            quota: QuotaHint::default(),
            jitter_seed: 0,
            handshake_deadline_ms: HANDSHAKE_DEADLINE_MS,
            fin_deadline_ms: FIN_DEADLINE_MS,
            rules: Rules::PROTOCOL,
        }
    }
}

/// A message that the session wants on a channel. The driver calls
/// [`Session::handle_accepted`] once for each, in their order, when the send buffer has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// The channel.
    pub class: Class,
    /// The whole message.
    pub bytes: Vec<u8>,
}

/// What a session tells its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEvent {
    /// All four channels carry data both ways. Comes once, before any frame.
    Open {
        /// What the other side said of itself.
        peer: Hello,
    },
    /// Payload frames, unread, in their lane's order. The user tells of each
    /// ([`Session::taken`]) when its own side has taken it.
    Frames {
        /// The lane they came on.
        class: Class,
        /// Each whole, its marker included; one or more.
        frames: Vec<Bytes>,
    },
    /// A lane that refused a frame ([`SendError::LaneFull`]) has room again.
    Room {
        /// The lane.
        class: Class,
    },
    /// The link ended; the driver closes the transport. Comes once, last, after every frame that
    /// came.
    Closed {
        /// Why.
        reason: CloseReason,
    },
}

/// How far a session came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// HELLOs are being exchanged.
    Opening,
    /// Data flows.
    Open,
    /// What is queued leaves, then the link ends.
    Closing,
    /// Nothing leaves any more.
    Ended,
}

/// Who began the closing of a link, and until when.
#[derive(Debug, Clone)]
pub(super) struct Closing {
    pub(super) clean: CloseReason,
    pub(super) deadline_ms: u64,
    pub(super) linger_until_ms: Option<u64>,
}

/// One link generation. See the module.
#[derive(Debug)]
pub struct Session {
    pub(super) config: SessionConfig,
    pub(super) now_ms: u64,
    pub(super) started_ms: u64,
    pub(super) phase: Phase,
    pub(super) closing: Option<Closing>,
    pub(super) ended: Option<CloseReason>,
    pub(super) open_untold: bool,
    /// The link was open before it ended.
    pub(super) was_open: bool,
    pub(super) peer: Option<Hello>,
    pub(super) channels: PerLane<Channel>,
    pub(super) outbound: Outbound,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    /// The delegations that this side showed, and those it was shown.
    pub(super) shown: Shown,
    pub(super) held: Held,
    pub(super) numbers: Numbers,
    /// The other side was shown that this one grants early, and relies on it.
    pub(super) early_shown: bool,
    pub(super) liveness: Liveness,
    /// The PING to answer: the latest, which answers those before it.
    pub(super) pong_owed: Option<u64>,
    pub(super) jitter: u64,
    pub(super) next_out: usize,
    pub(super) counters: Counters,
}

impl Session {
    /// A session whose transport is being made.
    pub fn new(config: SessionConfig, now_ms: u64) -> Self {
        let rules = config.rules;
        Self {
            now_ms,
            started_ms: now_ms,
            phase: Phase::Opening,
            closing: None,
            ended: None,
            open_untold: false,
            was_open: false,
            peer: None,
            channels: PerLane::default(),
            outbound: Outbound::new(rules),
            outgoing: Outgoing::default(),
            incoming: Incoming::new(config.windows, rules),
            shown: Shown::new(rules),
            held: Held::new(rules),
            numbers: Numbers::default(),
            early_shown: false,
            liveness: Liveness::default(),
            pong_owed: None,
            jitter: config.jitter_seed,
            next_out: 0,
            counters: Counters::default(),
            config,
        }
    }

    // What happened.

    /// The transport can send on this class's channel.
    pub fn handle_channel_open(&mut self, class: Class, now_ms: u64) {
        self.advance(now_ms);
        let now_ms = self.now_ms;
        let channel = self.channels.of_mut(class);
        if !channel.opened {
            channel.opened = true;
            channel.hello_due_ms = now_ms;
        }
    }

    /// A message came on this class's channel. Every message is taken at once, whatever waits.
    pub fn handle_message(&mut self, class: Class, message: impl Into<Bytes>, now_ms: u64) {
        self.take_message(class, message.into(), now_ms);
    }

    fn take_message(&mut self, class: Class, message: Bytes, now_ms: u64) {
        self.advance(now_ms);
        if self.phase == Phase::Ended {
            self.counters.messages_after_end += 1;
            return;
        }
        self.counters.messages_received += 1;
        match self.receive(class, message) {
            Ok(()) => self.settle(),
            Err(violation) => self.end(violation.into()),
        }
    }

    /// The channel's send buffer took the oldest message that was handed out for it.
    pub fn handle_accepted(&mut self, class: Class, now_ms: u64) {
        self.advance(now_ms);
        self.channels.of_mut(class).accepted();
    }

    /// Time passed. Called at [`Session::poll_timeout`] or later.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        self.advance(now_ms);
        match self.phase {
            Phase::Opening if self.now_ms >= self.handshake_deadline_ms() => {
                let reason = CloseReason::HandshakeTimeout {
                    deadline_ms: self.config.handshake_deadline_ms,
                    waiting: self.waiting_lanes(),
                };
                self.end(reason);
            }
            Phase::Opening | Phase::Ended => {}
            Phase::Open | Phase::Closing => {
                self.liveness.handle_timeout(self.now_ms);
                if let Some(unanswered_ms) = self.liveness.gone(self.now_ms) {
                    self.end(CloseReason::Gone { unanswered_ms });
                }
                self.settle();
            }
        }
    }

    /// The transport ended. What came before is still told.
    pub fn handle_transport_closed(&mut self, reason: String, now_ms: u64) {
        self.advance(now_ms);
        let clean = self.closing.as_ref().filter(|_| self.is_finished());
        let reason = match clean {
            Some(closing) => closing.clean.clone(),
            None => CloseReason::Transport(reason),
        };
        self.end(reason);
    }

    // What the user wants.

    /// Queues a payload frame, its marker included. Never waits; may be called before the link is
    /// open.
    ///
    /// # Errors
    /// [`SendError`]; the frame was not queued.
    pub fn send(&mut self, class: Class, frame: Vec<u8>) -> Result<(), SendError> {
        if !self.takes_frames() {
            return Err(SendError::Ended);
        }
        match Frame::split(&frame) {
            Ok(Frame::Payload(_)) => {}
            Ok(Frame::Control(_) | Frame::Batch(_)) => {
                return Err(SendError::NotPayload(FrameError::UnknownMarker));
            }
            Err(error) => return Err(SendError::NotPayload(error)),
        }
        let pushed = self.outbound.push(class, frame);
        self.counters.sends_refused += u64::from(pushed.is_err());
        pushed
    }

    /// How many bytes beyond their lanes' reserves this link's queues may hold, where a node has a
    /// bound on all its links together.
    pub fn spare(&mut self, bytes: usize) {
        self.outbound.spare(bytes);
    }

    /// The application's side took so many of the oldest frames of this lane that were handed to it.
    pub fn taken(&mut self, class: Class, frames: usize, now_ms: u64) {
        self.advance(now_ms);
        let without = self.incoming.taken(class, frames) as u64;
        let counted = &mut self.counters.takes_without_frame;
        *counted = counted.saturating_add(without);
    }

    /// Ends the link once everything that is queued was delivered, or the deadline passes. A link
    /// that is not open yet ends at once.
    pub fn close(&mut self, now_ms: u64) {
        self.advance(now_ms);
        match self.phase {
            Phase::Opening => self.end(CloseReason::Local),
            Phase::Open => self.begin_closing(CloseReason::Local),
            Phase::Closing | Phase::Ended => {}
        }
        self.settle();
    }

    // What it wants done.

    /// The next thing to tell the user; frames come one by one, the lanes in turns.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        self.next_event(1)
    }

    /// As [`poll_event`](Self::poll_event), but the frames that came in one message come together.
    pub fn poll_event_together(&mut self) -> Option<SessionEvent> {
        self.next_event(BATCH_MAX_FRAMES)
    }

    fn next_event(&mut self, frames_max: usize) -> Option<SessionEvent> {
        if let Some(peer) = self.peer.filter(|_| self.open_untold) {
            self.open_untold = false;
            return Some(SessionEvent::Open { peer });
        }
        if let Some(class) = self
            .takes_frames()
            .then(|| self.outbound.poll_room())
            .flatten()
        {
            return Some(SessionEvent::Room { class });
        }
        if self.was_opened() {
            for turn in 0..Class::ALL.len() {
                let at = (self.next_out + turn) % Class::ALL.len();
                let Some(&class) = Class::ALL.get(at) else {
                    continue;
                };
                if let Some(frames) = self.next_frames(class, frames_max) {
                    self.next_out = at + 1;
                    return Some(SessionEvent::Frames { class, frames });
                }
            }
        }
        let reason = self.ended.take()?;
        Some(SessionEvent::Closed { reason })
    }

    /// When [`Session::handle_timeout`] is next due, in the clock that the driver passes in.
    pub fn poll_timeout(&self) -> Option<u64> {
        match self.phase {
            Phase::Ended => None,
            Phase::Opening => {
                let quick = self.config.rules.hello_quick;
                let hellos = self.channels.iter();
                let hellos = hellos.filter(|channel| channel.awaits_hello(quick));
                let hellos = hellos.map(|channel| channel.hello_due_ms);
                hellos.chain([self.handshake_deadline_ms()]).min()
            }
            Phase::Open | Phase::Closing => {
                let closing = self.closing.as_ref();
                let until = |closing: &Closing| {
                    let linger_ms = closing.linger_until_ms.unwrap_or(u64::MAX);
                    linger_ms.min(closing.deadline_ms)
                };
                let closing = closing.map_or(u64::MAX, until);
                let missed = self.incoming.missed_since_ms();
                let missed = missed.map_or(u64::MAX, |at| at.saturating_add(MISSED_WAITS_MS));
                Some(closing.min(missed).min(self.liveness.timeout_ms()))
            }
        }
    }

    /// The lane's next frames, unless they wait for a delegation: until that is shown, the time is over,
    /// or the link is.
    fn next_frames(&mut self, class: Class, most: usize) -> Option<Vec<Bytes>> {
        if let Some(since_ms) = self.incoming.head_missed_since_ms(class) {
            let waits = since_ms.saturating_add(MISSED_WAITS_MS) > self.now_ms;
            if waits && self.phase != Phase::Ended {
                return None;
            }
            self.held.lost = self.held.lost.saturating_add(1);
        }
        self.incoming.hand_out(class, most)
    }

    // What it is.

    /// How far it came.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// What the other side said of itself, once it did.
    pub fn peer(&self) -> Option<&Hello> {
        self.peer.as_ref()
    }

    /// Frames that were queued or sent and that the other side has not confirmed.
    pub fn unconfirmed(&self) -> u64 {
        let lanes = self.channels.each();
        let open = lanes.filter(|(_, channel)| !matches!(channel.fin, Fin::Answered { .. }));
        let sent: u64 = open
            .map(|(class, _)| self.outgoing.unpassed_payloads(class))
            .sum();
        sent.saturating_add(self.outbound.queued_total() as u64)
    }

    /// Bytes that wait to be sent beyond their lanes' reserves.
    pub fn shared_queued_bytes(&self) -> usize {
        self.outbound.shared_bytes()
    }

    /// Whether a frame of this size would make the lane hold more than its reserve: of others no node needs
    /// to know.
    pub fn exceeds_reserve(&self, class: Class, size_bytes: usize) -> bool {
        self.outbound.exceeds_reserve(class, size_bytes)
    }

    /// Frames of a lane that wait to be sent.
    pub fn queued(&self, class: Class) -> usize {
        self.outbound.queued(class)
    }

    /// Whether what was taken is to be granted again, or the link is not simply open: its driver then asks
    /// what it wants sent.
    pub fn owes_grant(&self) -> bool {
        self.phase != Phase::Open || self.incoming.grant_due()
    }

    /// Whether a lane refused a frame and has not told since that it has room.
    pub fn owes_room(&self) -> bool {
        self.takes_frames() && self.outbound.has_refused()
    }

    /// Bytes this session holds for the other side and for its user: what waits to be sent, and what
    /// came and was not taken.
    pub fn held_bytes(&self) -> u64 {
        let queued = self.outbound.queued_bytes() as u64;
        queued.saturating_add(self.incoming.untaken_bytes())
    }

    /// Queues, windows and counters, for an operator.
    pub fn status(&self) -> SessionStatus {
        let windows = self.peer.map(|hello| hello.windows);
        let lane = |class| {
            let under_way = self.outgoing.unpassed_frames(class);
            let scale = self.outgoing.scale();
            let granted = windows.map_or(0, |windows| windows.times(scale).lane_frames);
            LaneStatus {
                queued: self.outbound.queued(class),
                queued_bytes: self.outbound.queued_lane_bytes(class),
                in_flight: self.channels.of(class).in_flight(Kind::Payload),
                credit: granted.saturating_sub(under_way),
                untaken: self.incoming.untaken_frames(class),
                sent: self.outgoing.payloads(class),
                received: self.incoming.received_payloads(class),
            }
        };
        SessionStatus {
            phase: self.phase,
            lanes: PerLane(Class::ALL.map(lane)),
            undrained_bytes: self.outgoing.undrained_bytes(),
            unanswered_control: self.numbers.unanswered(),
            round_trip_ms: self.liveness.round_trip_ms(),
            window_scales: (self.incoming.granted_scale(), self.outgoing.scale()),
            counters: Counters {
                references_sent: self.shown.referred,
                references_missed: self.held.missed,
                references_lost: self.held.lost,
                ..self.counters
            },
        }
    }

    // How it moves on.

    pub(super) fn advance(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// Moves to the next phase when what it waits for is there.
    pub(super) fn settle(&mut self) {
        if self.phase == Phase::Opening && self.channels.iter().all(Channel::is_ready) {
            self.phase = Phase::Open;
            self.open_untold = true;
            self.widen();
            self.liveness.answered(self.now_ms);
            self.liveness.opened(self.now_ms);
        }
        let peer_fin = self
            .channels
            .iter()
            .any(|channel| channel.peer_fin.is_some());
        if self.phase == Phase::Open && peer_fin {
            self.begin_closing(CloseReason::Peer);
        }
        self.settle_closing();
    }

    fn begin_closing(&mut self, clean: CloseReason) {
        if !self.config.rules.fin_waits {
            return self.end(clean);
        }
        self.phase = Phase::Closing;
        self.closing = Some(Closing {
            clean,
            deadline_ms: self.now_ms.saturating_add(self.config.fin_deadline_ms),
            linger_until_ms: None,
        });
    }

    /// Ends a closing link: at once if the other side is known to have everything, after a while if
    /// only this side's last answers may still be on their way, and at the deadline in any case.
    fn settle_closing(&mut self) {
        let finished = self.is_finished();
        let known = self.channels.iter().all(Channel::is_known_finished);
        let unconfirmed = self.unconfirmed();
        let Some(closing) = self
            .closing
            .as_mut()
            .filter(|_| self.phase == Phase::Closing)
        else {
            return;
        };
        if finished && !known && closing.linger_until_ms.is_none() {
            closing.linger_until_ms = Some(self.now_ms.saturating_add(LINGER_MS));
        }
        let lingered = closing
            .linger_until_ms
            .is_some_and(|until| self.now_ms >= until);
        let late = self.now_ms >= closing.deadline_ms;
        if finished && (known || lingered || late) {
            let clean = closing.clean.clone();
            self.end(clean);
        } else if late {
            let deadline_ms = self.config.fin_deadline_ms;
            self.end(CloseReason::FinTimeout {
                deadline_ms,
                unconfirmed,
            });
        }
    }

    /// Ends the link, once, for the first reason there was. What waits to be sent is counted and
    /// given up; what came is still told if the link was open.
    pub(super) fn end(&mut self, reason: CloseReason) {
        if self.phase == Phase::Ended {
            return;
        }
        if matches!(reason, CloseReason::Violation(_)) {
            self.counters.violations += 1;
        }
        self.counters.unconfirmed_at_end = self.unconfirmed();
        self.was_open |= self.phase != Phase::Opening;
        self.phase = Phase::Ended;
        self.outbound.clear();
        self.ended = Some(reason);
    }

    /// Grants the windows as often as the round trip asks for.
    pub(super) fn widen(&mut self) {
        let round_trip_ms = self.liveness.round_trip_ms().unwrap_or(0);
        let times = 1 + round_trip_ms / WINDOW_SCALE_STEP_MS;
        let most = self.config.window_scale_max.clamp(1, WINDOW_SCALE_MAX);
        let scale = u8::try_from(times).unwrap_or(most).min(most);
        self.incoming.scale_to(scale);
    }

    fn takes_frames(&self) -> bool {
        matches!(self.phase, Phase::Opening | Phase::Open)
    }

    fn was_opened(&self) -> bool {
        self.was_open || matches!(self.phase, Phase::Open | Phase::Closing)
    }

    fn is_finished(&self) -> bool {
        self.channels.iter().all(Channel::is_finished)
    }

    fn handshake_deadline_ms(&self) -> u64 {
        self.started_ms
            .saturating_add(self.config.handshake_deadline_ms)
    }

    fn waiting_lanes(&self) -> String {
        let waiting = self.channels.each();
        let waiting = waiting.filter(|(_, channel)| !channel.is_ready());
        let names: Vec<_> = waiting.map(|(class, _)| class.name()).collect();
        names.join(", ")
    }

    /// When a HELLO that leaves now is sent again, if it is not answered.
    pub(super) fn hello_wait_ms(&mut self, hellos_sent: u32) -> u64 {
        if hellos_sent >= self.config.rules.hello_quick {
            return HELLO_RESEND_SLOW_MS;
        }
        // splitmix64: spreads the channels and the peers of a node over the interval
        self.jitter = self.jitter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.jitter;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let spread_ms = HELLO_RESEND_MAX_MS - HELLO_RESEND_MIN_MS + 1;
        HELLO_RESEND_MIN_MS + (mixed ^ (mixed >> 31)) % spread_ms
    }
}
