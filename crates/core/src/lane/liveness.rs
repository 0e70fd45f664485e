//! Liveness: a link lives while the other side answers.
//!
//! Only an **answer** counts: a frame that shows the other side heard this one (a PONG, fresh
//! credit, a control number heard). So a link cut one way is found by both. Law (liveness): without
//! an answer for [`PROBE_IDLE_MS`] a probe is due, and a probe unanswered for [`GONE_MS`] after it
//! was due ends the link, whether or not the transport let the probe out. Story 15.

use super::bounds::{GONE_MS, PROBE_IDLE_MS};

/// What one side knows about the other's life.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    answered_ms: u64,
    probe: Option<Probe>,
    /// How long the last answered probe took, from its sending; a HELLO's answer before there was
    /// one.
    round_trip_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Probe {
    due_ms: u64,
    sent: Option<SentProbe>,
}

#[derive(Debug, Clone, Copy)]
struct SentProbe {
    number: u64,
    at_ms: u64,
}

impl Liveness {
    /// The other side answered something.
    pub(super) fn answered(&mut self, now_ms: u64) {
        self.answered_ms = now_ms;
        self.probe = None;
    }

    /// A HELLO was answered after so long: the shortest counts, as the others waited for more than
    /// the way.
    pub(super) fn took(&mut self, round_trip_ms: u64) {
        let shortest_ms = self
            .round_trip_ms
            .map_or(round_trip_ms, |ms| ms.min(round_trip_ms));
        self.round_trip_ms = Some(shortest_ms);
    }

    /// The other side answered the probe with this number; whether that is the one that waits.
    pub(super) fn pong(&mut self, number: u64, now_ms: u64) -> bool {
        let sent = self.probe.and_then(|probe| probe.sent);
        let Some(sent) = sent.filter(|sent| sent.number == number) else {
            return false;
        };
        self.round_trip_ms = Some(now_ms.saturating_sub(sent.at_ms));
        self.answered(now_ms);
        true
    }

    /// Makes a probe due now, if no HELLO told how far away the other side is.
    pub(super) fn opened(&mut self, now_ms: u64) {
        if self.round_trip_ms.is_none() {
            let due_ms = now_ms;
            self.probe = Some(Probe { due_ms, sent: None });
        }
    }

    /// Makes a probe due when it is time.
    pub(super) fn handle_timeout(&mut self, now_ms: u64) {
        let due_ms = self.answered_ms.saturating_add(PROBE_IDLE_MS);
        if self.probe.is_none() && now_ms >= due_ms {
            let due_ms = now_ms;
            self.probe = Some(Probe { due_ms, sent: None });
        }
    }

    /// Whether a probe waits to be sent.
    pub(super) fn wants_probe(&self) -> bool {
        self.probe.is_some_and(|probe| probe.sent.is_none())
    }

    /// The probe left with this number.
    pub(super) fn probe_sent(&mut self, number: u64, at_ms: u64) {
        if let Some(probe) = &mut self.probe {
            probe.sent = Some(SentProbe { number, at_ms });
        }
    }

    /// For how long a probe has gone unanswered, once that is too long.
    pub(super) fn gone(&self, now_ms: u64) -> Option<u64> {
        let unanswered_ms = now_ms.saturating_sub(self.probe?.due_ms);
        (unanswered_ms >= GONE_MS).then_some(unanswered_ms)
    }

    /// When something is next due.
    pub(super) fn timeout_ms(&self) -> u64 {
        match self.probe {
            Some(probe) => probe.due_ms.saturating_add(GONE_MS),
            None => self.answered_ms.saturating_add(PROBE_IDLE_MS),
        }
    }

    /// How long the last answered probe took.
    pub(super) fn round_trip_ms(&self) -> Option<u64> {
        self.round_trip_ms
    }
}
