//! What an operator sees of a link.

use super::per_lane::PerLane;
use super::session::Phase;

/// One lane of a link, both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneStatus {
    /// Frames that wait to be sent.
    pub queued: usize,
    /// Bytes of them.
    pub queued_bytes: usize,
    /// Messages, frames or batches, handed out that the channel's send buffer has not yet taken.
    pub in_flight: usize,
    /// Messages that the receiver's lane window still allows.
    pub credit: u64,
    /// Messages that came and that the application has not taken.
    pub untaken: usize,
    /// Frames sent since the link was made.
    pub sent: u64,
    /// Frames received since the link was made.
    pub received: u64,
}

/// Queues, windows and counters of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionStatus {
    /// How far it came.
    pub phase: Phase,
    /// Its lanes.
    pub lanes: PerLane<LaneStatus>,
    /// Bytes sent that the receiver has not said came off the channels.
    pub undrained_bytes: u64,
    /// Control frames sent that the receiver has not said it heard.
    pub unanswered_control: u64,
    /// How long the last answered probe took, or a HELLO before there was one.
    pub round_trip_ms: Option<u64>,
    /// How many times its windows this side granted, and how many times its windows the other did.
    pub window_scales: (u8, u8),
    /// What happened so far.
    pub counters: Counters,
}

/// What happened on a link since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that came, of any kind.
    pub messages_received: u64,
    /// Messages that came after the link ended, dropped.
    pub messages_after_end: u64,
    /// HELLOs sent, the first of each channel included.
    pub hellos_sent: u64,
    /// Messages sent that held more than one payload frame.
    pub batches_sent: u64,
    /// Grants sent.
    pub credits_sent: u64,
    /// Grants that came.
    pub credits_received: u64,
    /// Numbered control frames that came again, ignored.
    pub control_repeated: u64,
    /// Probes sent.
    pub probes_sent: u64,
    /// Probes that the other side answered.
    pub probes_answered: u64,
    /// Frames refused because their lane was full.
    pub sends_refused: u64,
    /// Calls of `taken` for no frame, ignored.
    pub takes_without_frame: u64,
    /// Delegations sent by reference.
    pub references_sent: u64,
    /// References that came to delegations that are not held; their frames wait until those are shown.
    pub references_missed: u64,
    /// Frames that went on without a delegation they refer to, because it was not shown in time; the
    /// node refuses them.
    pub references_lost: u64,
    /// Violations of the other side: none or one.
    pub violations: u64,
    /// Frames unconfirmed when the link ended.
    pub unconfirmed_at_end: u64,
}
