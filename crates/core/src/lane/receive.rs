//! What a session does with a message that came.

use bytes::Bytes;

use super::batch;
use super::bounds::{ANSWER_DUE_FRAMES, HELLOS_TAKEN_MAX};
use super::channel::Fin;
use super::control::{ControlFrame, Hello, Numbered};
use super::delegations::Came;
use super::numbers::Arrival;
use super::reason::Violation;
use super::session::Session;
use crate::identity::DelegationDigest;
use crate::ids::Class;
use crate::wire::frame::Frame;

impl Session {
    /// Takes one message off a channel.
    pub(super) fn receive(&mut self, class: Class, message: Bytes) -> Result<(), Violation> {
        let frame = match Frame::split(&message)? {
            Frame::Payload(_) => {
                let size_bytes = message.len();
                return self.receive_payload(class, size_bytes, vec![message]);
            }
            Frame::Batch(body) => {
                let frames = batch::split(&message.slice_ref(body))?;
                return self.receive_payload(class, message.len(), frames);
            }
            Frame::Control(body) => ControlFrame::from_body(body)?,
        };
        match frame {
            ControlFrame::Hello(belongs, hello) => {
                on_channel(belongs, class)?;
                self.receive_hello(class, hello)
            }
            ControlFrame::HelloAck(belongs) => {
                on_channel(belongs, class)?;
                let channel = self.channels.of_mut(class);
                if channel.hellos_sent == 0 {
                    return Err(Violation::Unasked(class));
                }
                // Which of several HELLOs this answers, nobody knows.
                if !channel.hello_answered && channel.hellos_sent == 1 {
                    let round_trip_ms = self.now_ms.saturating_sub(channel.hello_sent_ms);
                    self.liveness.took(round_trip_ms);
                }
                channel.hello_answered = true;
                Ok(())
            }
            ControlFrame::Fin(belongs, frames) => {
                on_channel(belongs, class)?;
                self.receive_fin(class, frames)
            }
            ControlFrame::FinAck(belongs) => {
                on_channel(belongs, class)?;
                self.receive_fin_ack(class)
            }
            ControlFrame::Numbered {
                number,
                heard,
                says,
            } => {
                on_channel(Class::Control, class)?;
                self.after_hello(class)?;
                self.receive_numbered(number, heard, says)
            }
        }
    }

    fn receive_payload(
        &mut self,
        class: Class,
        size_bytes: usize,
        frames: Vec<Bytes>,
    ) -> Result<(), Violation> {
        self.after_hello(class)?;
        if self.channels.of(class).peer_fin.is_some() {
            return Err(Violation::AfterFin(class));
        }
        let now_ms = self.now_ms;
        let frames = frames.into_iter();
        let frames = frames.map(|frame| self.held.write_out(Came::now(frame, now_ms), now_ms));
        let frames = frames.collect();
        self.incoming.receive(class, size_bytes, frames)
    }

    fn receive_hello(&mut self, class: Class, hello: Hello) -> Result<(), Violation> {
        let ours = self.config.network;
        if hello.network != ours {
            let theirs = hello.network;
            return Err(Violation::WrongNetwork { ours, theirs });
        }
        if *self.peer.get_or_insert(hello) != hello {
            return Err(Violation::HelloChanged(class));
        }
        let channel = self.channels.of_mut(class);
        if channel.hellos_taken >= HELLOS_TAKEN_MAX {
            return Err(Violation::HelloFlood(class));
        }
        channel.hellos_taken += 1;
        channel.hello_ack_owed = true;
        Ok(())
    }

    fn receive_fin(&mut self, class: Class, announced: u64) -> Result<(), Violation> {
        self.after_hello(class)?;
        let received = self.incoming.received_payloads(class);
        if announced != received {
            return Err(Violation::FinCount {
                class,
                announced,
                received,
            });
        }
        let channel = self.channels.of_mut(class);
        channel.peer_fin = Some(announced);
        channel.fin_ack_owed = true;
        Ok(())
    }

    fn receive_fin_ack(&mut self, class: Class) -> Result<(), Violation> {
        let channel = self.channels.of_mut(class);
        channel.fin = match channel.fin {
            Fin::Unsent => return Err(Violation::Unasked(class)),
            Fin::Sent { after_ack } | Fin::Answered { after_ack } => Fin::Answered { after_ack },
        };
        Ok(())
    }

    fn receive_numbered(
        &mut self,
        number: u64,
        heard: u64,
        says: Numbered,
    ) -> Result<(), Violation> {
        let answered = match self.numbers.receive(number, heard)? {
            Arrival::Next { answers } => answers,
            Arrival::Repeated => {
                self.counters.control_repeated += 1;
                return Ok(());
            }
        };
        let mut answers = answered > 0;
        let windows = self.peer.map(|hello| hello.windows).unwrap_or_default();
        match says {
            Numbered::Credit(credit) => {
                self.counters.credits_received += 1;
                let grant = self.outgoing.granted(&credit, windows)?;
                answers |= grant.is_new;
                if !grant.was_due && answered < ANSWER_DUE_FRAMES {
                    self.outgoing.shows_early();
                }
            }
            Numbered::Delegations(credit, statements) => {
                self.counters.credits_received += 1;
                answers |= self.outgoing.granted(&credit, windows)?.is_new;
                let known = statements.known.into_iter().map(|digest| (digest, true));
                let disclaimed = statements.disclaimed.into_iter();
                for (digest, known) in known.chain(disclaimed.map(|digest| (digest, false))) {
                    self.shown.known(digest, known);
                }
            }
            Numbered::Missing(digests) => {
                let passed = self.outgoing.passed();
                for digest in digests {
                    self.shown.missed(digest, &passed);
                }
            }
            Numbered::Show(delegation) => {
                let (held, now_ms) = (&mut self.held, self.now_ms);
                held.hold(&delegation, now_ms);
                let digest = DelegationDigest::of(&delegation);
                self.incoming.write_out_missed(|came| {
                    held.write_out_shown(came, digest, &delegation, now_ms)
                });
            }
            Numbered::Ping => self.pong_owed = Some(number),
            Numbered::Pong(ping) => {
                if ping > self.numbers.sent() {
                    return Err(Violation::HeardUnsent);
                }
                let answered = self.liveness.pong(ping, self.now_ms);
                self.counters.probes_answered += u64::from(answered);
                self.widen();
            }
        }
        if answers {
            self.liveness.answered(self.now_ms);
        }
        Ok(())
    }

    fn after_hello(&self, class: Class) -> Result<(), Violation> {
        match self.channels.of(class).hellos_taken {
            0 => Err(Violation::BeforeHello(class)),
            _ => Ok(()),
        }
    }
}

fn on_channel(belongs: Class, arrived: Class) -> Result<(), Violation> {
    if belongs == arrived {
        return Ok(());
    }
    Err(Violation::WrongChannel { belongs, arrived })
}
