//! What a session sends next.
//!
//! Answers and HELLOs first, then what keeps the link alive and moving (PONG, PING, CREDIT), then
//! payload by the lanes' turns, and a lane's FIN when nothing of it waits. Law (probes): a probe
//! waits for no payload frame and no grant. Story 15.

use super::bounds::{CONTROL_IN_FLIGHT_MAX, PROBE_RESERVE_FRAMES, is_near};
use super::channel::{Fin, Kind};
use super::control::{ControlFrame, Hello, Numbered};
use super::delegations::Leaves;
use super::session::{Phase, Session, Transmit};
use super::waiting::Leaving;
use crate::ids::Class;

impl Session {
    /// The next message that should go to the transport.
    pub fn poll_transmit(&mut self, now_ms: u64) -> Option<Transmit> {
        self.advance(now_ms);
        if self.phase == Phase::Ended {
            return None;
        }
        let control = Class::ALL
            .into_iter()
            .find_map(|class| Some((class, self.greeting(class)?)))
            .or_else(|| Some((Class::Control, self.numbered()?)));
        if let Some((class, frame)) = control {
            return Some(self.hand_out(class, Kind::Control, frame.to_frame()));
        }
        if let Some((class, Leaving { message, frames })) = self.payload() {
            self.outgoing.sent(class, message.len(), frames);
            self.counters.batches_sent += u64::from(frames > 1);
            return Some(self.hand_out(class, Kind::Payload, message));
        }
        let (class, fin) = self.fin()?;
        Some(self.hand_out(class, Kind::Control, fin.to_frame()))
    }

    fn hand_out(&mut self, class: Class, kind: Kind, bytes: Vec<u8>) -> Transmit {
        self.channels.of_mut(class).handed_out(kind);
        Transmit { class, bytes }
    }

    /// A channel's HELLO or an answer, if one is due.
    fn greeting(&mut self, class: Class) -> Option<ControlFrame> {
        let quick = self.config.rules.hello_quick;
        let hello = Hello {
            network: self.config.network,
            windows: self.config.windows,
            quota: self.config.quota,
        };
        let now_ms = self.now_ms;
        let channel = self.channels.of_mut(class);
        if !channel.opened || channel.in_flight(Kind::Control) >= CONTROL_IN_FLIGHT_MAX {
            return None;
        }
        if std::mem::take(&mut channel.hello_ack_owed) {
            return Some(ControlFrame::HelloAck(class));
        }
        if channel.awaits_hello(quick) && now_ms >= channel.hello_due_ms {
            channel.hellos_sent = channel.hellos_sent.saturating_add(1);
            let sent = channel.hellos_sent;
            let wait_ms = self.hello_wait_ms(sent);
            let channel = self.channels.of_mut(class);
            channel.hello_due_ms = now_ms.saturating_add(wait_ms);
            channel.hello_sent_ms = now_ms;
            self.counters.hellos_sent += 1;
            return Some(ControlFrame::Hello(class, hello));
        }
        // What waits for a delegation did not come through: the other side, which has it, stays.
        if channel.fin_ack_owed && !self.incoming.misses(class) {
            channel.fin_ack_owed = false;
            channel.fin_ack_sent = true;
            return Some(ControlFrame::FinAck(class));
        }
        None
    }

    /// A PONG, a PING or a CREDIT, if one is due and the other side hears them.
    fn numbered(&mut self) -> Option<ControlFrame> {
        let channel = self.channels.of(Class::Control);
        let in_flight = channel.in_flight(Kind::Control);
        if !channel.is_ready() || in_flight >= CONTROL_IN_FLIGHT_MAX {
            return None;
        }
        let probes_go = self.config.rules.probes_first || self.outbound.queued(Class::Control) == 0;
        if probes_go && self.numbers.has_room(0) {
            if let Some(ping) = self.pong_owed.take() {
                return Some(self.number(Numbered::Pong(ping)));
            }
            if self.liveness.wants_probe() {
                let ping = self.number(Numbered::Ping);
                self.liveness.probe_sent(self.numbers.sent(), self.now_ms);
                self.counters.probes_sent += 1;
                return Some(ping);
            }
        }
        let due = self.incoming.grant_due() || self.numbers.answer_due();
        let finds_place = self.numbers.has_room_early();
        if finds_place {
            if let Some(missing) = self.held.missing() {
                return Some(self.number(Numbered::Missing(missing)));
            }
            if let Some(delegation) = self.shown.next_to_show() {
                return Some(self.number(Numbered::Show(delegation)));
            }
        }
        let rules = self.config.rules;
        let shows_early = self.shows_early();
        let grants_early = self.early_shown && self.incoming.grant_early();
        let answers_early = self.outgoing.is_early() && self.numbers.answer_early();
        let early = self.held.owes()
            || shows_early
            || grants_early
            || (answers_early && rules.answers_early);
        if (early && finds_place) || (due && self.numbers.has_room(PROBE_RESERVE_FRAMES)) {
            self.counters.credits_sent += 1;
            let credit = self.incoming.grant();
            let says = match self.held.statements(self.now_ms) {
                Some(statements) => Numbered::Delegations(credit, statements),
                None => {
                    self.early_shown |= shows_early && !due;
                    Numbered::Credit(credit)
                }
            };
            return Some(self.number(says));
        }
        None
    }

    /// Whether the other side is to be shown that this one grants early: it sends, and is near.
    fn shows_early(&self) -> bool {
        let link_bytes = self.config.windows.link_bytes();
        let round_trip_ms = self.liveness.round_trip_ms();
        self.config.rules.grants_early
            && !self.early_shown
            && self.incoming.has_received()
            && round_trip_ms.is_some_and(|ms| is_near(link_bytes, ms))
    }

    fn number(&mut self, says: Numbered) -> ControlFrame {
        let (number, heard) = self.numbers.next();
        ControlFrame::Numbered {
            number,
            heard,
            says,
        }
    }

    /// The payload frames whose turn it is, among the lanes that may send.
    fn payload(&mut self) -> Option<(Class, Leaving)> {
        if self.phase == Phase::Opening {
            return None;
        }
        let windows = self.peer?.windows;
        let rules = self.config.rules;
        let (channels, outgoing) = (&self.channels, &self.outgoing);
        let round_trip_ms = self.liveness.round_trip_ms();
        let early = (outgoing.is_early() || !rules.early_if_shown)
            && (self.numbers.hears_early() || !rules.early_if_heard);
        let way = (windows, round_trip_ms.filter(|_| rules.short_queues), early);
        let shown = &mut self.shown;
        let may_leave = |class, size_bytes, payloads| {
            let room = outgoing.has_room(way, class, size_bytes, payloads) || !rules.heeds_credit;
            room && channels.of(class).in_flight(Kind::Payload) < rules.lane_in_flight
        };
        let passed = outgoing.passed();
        let shorten = |class, before: usize, frame: &[u8]| {
            let number = outgoing.payloads(class).saturating_add(before as u64);
            let place = Leaves {
                class,
                number,
                passed: &passed,
            };
            rules.refers.then(|| shown.shorten(frame, &place)).flatten()
        };
        self.outbound.take(may_leave, shorten)
    }

    /// The FIN of a closing link's lane in which nothing waits any more.
    fn fin(&mut self) -> Option<(Class, ControlFrame)> {
        if self.phase != Phase::Closing {
            return None;
        }
        let class = Class::ALL.into_iter().find(|&class| {
            self.channels.of(class).fin == Fin::Unsent && self.outbound.queued(class) == 0
        })?;
        let frames = self.outgoing.payloads(class);
        let channel = self.channels.of_mut(class);
        let after_ack = channel.fin_ack_sent;
        channel.fin = Fin::Sent { after_ack };
        Some((class, ControlFrame::Fin(class, frames)))
    }
}
