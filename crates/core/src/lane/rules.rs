//! The numbers a session goes by, as data, so that a test can break one and see its law fail.

use super::bounds::{
    BATCH_MAX_FRAMES, CONTROL_BURST_MAX, CONTROL_RESERVE, DATA_RESERVE, FORGETS_AFTER_MS,
    GRANT_FRACTION, HELLO_QUICK_MAX, LANE_IN_FLIGHT_MAX, LANE_RESERVE_BYTES,
};

/// What a session goes by. Outside tests there is only [`Rules::PROTOCOL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// Payload frames of a lane handed out and not yet taken by the send buffer.
    pub(super) lane_in_flight: usize,
    /// Control frames in a row while a lower class could send.
    pub(super) control_burst: u8,
    /// Queue places of the control lane alone.
    pub(super) control_reserve: usize,
    /// Queue places of each data lane alone.
    pub(super) data_reserve: usize,
    /// Bytes of the queue that each lane has alone.
    pub(super) reserve_bytes: usize,
    /// Payload frames that share a message at most.
    pub(super) batch_frames: usize,
    /// A grant is due after a window divided by this.
    pub(super) grant_fraction: u64,
    /// Whether a receiver grants early, and shows it.
    pub(super) grants_early: bool,
    /// Whether a side answers early, so that the other's early grants find their places.
    pub(super) answers_early: bool,
    /// Whether a sender relies on early grants only of who showed that it makes them.
    pub(super) early_if_shown: bool,
    /// Whether a sender relies on early grants only while they find their places.
    pub(super) early_if_heard: bool,
    /// Whether the link's byte window counts what the application took, not what came off the
    /// channels.
    pub(super) link_waits_for_taking: bool,
    /// HELLOs a channel sends at the quick pace; with none, a HELLO is sent once.
    pub(super) hello_quick: u32,
    /// Whether a sender heeds what the receiver granted.
    pub(super) heeds_credit: bool,
    /// Whether a sender keeps what is under way to a near peer short.
    pub(super) short_queues: bool,
    /// Whether a closing end waits for its queues and its FINs.
    pub(super) fin_waits: bool,
    /// Whether probes pass the frames that wait in the control lane.
    pub(super) probes_first: bool,
    /// Whether delegations are referred to.
    pub(super) refers: bool,
    /// How long a delegation is held after it was disclaimed.
    pub(super) forgets_after_ms: u64,
    /// Whether a delegation is disclaimed before it is forgotten.
    pub(super) disclaims: bool,
    /// Whether a delegation that the receiver misses is shown once more.
    pub(super) shows_again: bool,
    /// Whether a sender keeps what a frame refers to that was not taken yet.
    pub(super) keeps_referred: bool,
}

impl Rules {
    /// The protocol's numbers.
    pub(super) const PROTOCOL: Self = Self {
        lane_in_flight: LANE_IN_FLIGHT_MAX,
        control_burst: CONTROL_BURST_MAX,
        control_reserve: CONTROL_RESERVE,
        data_reserve: DATA_RESERVE,
        reserve_bytes: LANE_RESERVE_BYTES,
        batch_frames: BATCH_MAX_FRAMES,
        grant_fraction: GRANT_FRACTION,
        grants_early: true,
        answers_early: true,
        early_if_shown: true,
        early_if_heard: true,
        link_waits_for_taking: false,
        hello_quick: HELLO_QUICK_MAX,
        heeds_credit: true,
        short_queues: true,
        fin_waits: true,
        probes_first: true,
        refers: true,
        forgets_after_ms: FORGETS_AFTER_MS,
        disclaims: true,
        shows_again: true,
        keeps_referred: true,
    };
}
