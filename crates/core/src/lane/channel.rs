//! One channel of a link: its HELLO, its FIN, and what is on its way into the send buffer.
//!
//! Law (hello): nothing but HELLO and HELLO-ACK leaves on a channel before the other side answered
//! this side's HELLO there, so what a transport loses before the other side has dialled the channel
//! is a HELLO, which is sent again. Law (fin): a lane's FIN leaves after everything that was queued,
//! and is answered once all of it came.

use std::collections::VecDeque;

/// One channel of a link.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// The transport can send on it.
    pub(super) opened: bool,
    /// HELLOs sent, and when the next is due; not answered yet.
    pub(super) hellos_sent: u32,
    pub(super) hello_due_ms: u64,
    /// When the last one was sent.
    pub(super) hello_sent_ms: u64,
    pub(super) hello_answered: bool,
    /// HELLOs that came.
    pub(super) hellos_taken: u32,
    pub(super) hello_ack_owed: bool,
    pub(super) fin: Fin,
    /// How many payload frames the other side's FIN told.
    pub(super) peer_fin: Option<u64>,
    pub(super) fin_ack_owed: bool,
    pub(super) fin_ack_sent: bool,
    in_flight: VecDeque<Kind>,
}

/// How far this side's FIN came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Fin {
    /// Not sent.
    #[default]
    Unsent,
    /// Sent; `after_ack`: behind this side's answer to the other's FIN, on the same ordered channel,
    /// so that its answer shows that answer arrived.
    Sent { after_ack: bool },
    /// Answered.
    Answered { after_ack: bool },
}

/// What a message handed to the transport was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Payload,
    Control,
}

impl Channel {
    /// Both sides know that the other hears on this channel.
    pub(super) const fn is_ready(&self) -> bool {
        self.opened && self.hello_answered && self.hellos_taken > 0
    }

    /// Whether a HELLO waits for its time; not while one still waits for the send buffer.
    pub(super) fn awaits_hello(&self, quick: u32) -> bool {
        let again = quick > 0 || self.hellos_sent == 0;
        self.opened && !self.hello_answered && again && self.in_flight(Kind::Control) == 0
    }

    /// A message was handed to the transport.
    pub(super) fn handed_out(&mut self, kind: Kind) {
        self.in_flight.push_back(kind);
    }

    /// The send buffer took the oldest message; `false` if there is none.
    pub(super) fn accepted(&mut self) -> bool {
        self.in_flight.pop_front().is_some()
    }

    /// Messages of a kind that the send buffer has not yet taken.
    pub(super) fn in_flight(&self, kind: Kind) -> usize {
        self.in_flight
            .iter()
            .filter(|&&other| other == kind)
            .count()
    }

    /// Both directions ended, and each side's FIN was answered.
    pub(super) const fn is_finished(&self) -> bool {
        matches!(self.fin, Fin::Answered { .. }) && self.peer_fin.is_some()
    }

    /// The other side is known to have everything, this side's answer to its FIN included.
    pub(super) const fn is_known_finished(&self) -> bool {
        self.is_finished() && matches!(self.fin, Fin::Answered { after_ack: true })
    }
}
