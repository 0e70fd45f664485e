//! The bounds of links and lanes, checked against each other at compile time.
//!
//! Law (grants find a place): two sides never both wait for a place in the control window. Suppose
//! each had filled its own with frames a1… and b1… that nothing answered, and all had arrived. No b
//! left after a1 came, or it would have answered it; no a left after b1 came. Let the a's be the ones
//! that were complete first. Then everything that made them due was sent before a1 came, under the
//! grants before it, which is at most a window of each kind: fewer frames than the control window
//! has places. The last step is checked below; the rest is that channels keep order and lose nothing.

use crate::ids::Class;
pub use crate::wire::bounds::{BATCH_MAX_BYTES, BATCH_MAX_FRAMES};

use crate::wire::bounds::FRAME_MAX_BYTES;

/// Lanes of a link: one a class.
pub const LANES: usize = Class::ALL.len();

/// Payload frames of a lane that are handed out and not yet taken by the channel's send buffer.
/// What the ordered channel has taken cannot be overtaken; this bounds what waits before it.
/// Source: protocol decision 6 (outbound).
pub const LANE_IN_FLIGHT_MAX: usize = 8;

/// Link control frames of a channel that are handed out and not yet taken by its send buffer,
/// beside the payload frames.
pub const CONTROL_IN_FLIGHT_MAX: usize = 4;

/// Frames queued for one peer, over all its lanes.
pub const QUEUED_MAX: usize = 256;

/// Places of [`QUEUED_MAX`] that only the control lane may use.
pub const CONTROL_RESERVE: usize = 16;

/// Places of [`QUEUED_MAX`] that only one data lane may use; each has as many.
pub const DATA_RESERVE: usize = 8;

/// Places that any lane may use once its own reserve is full.
pub const QUEUED_SHARED: usize = QUEUED_MAX - CONTROL_RESERVE - (LANES - 1) * DATA_RESERVE;

/// Places that are free before a lane that was full tells that it has room, unless one of its own reserve is: so whoever
/// fills it is not woken for each frame that leaves.
pub const ROOM_TOLD_PLACES: usize = BATCH_MAX_FRAMES;

/// Bytes queued for one peer, over all its lanes.
pub const QUEUED_MAX_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of [`QUEUED_MAX_BYTES`] that each lane may queue whatever the others hold.
pub const LANE_RESERVE_BYTES: usize = 2 * FRAME_MAX_BYTES;

/// Bytes that any lane may queue once its own reserve is full.
pub const QUEUED_SHARED_BYTES: usize = QUEUED_MAX_BYTES - LANES * LANE_RESERVE_BYTES;

/// Bytes queued for all peers of a node beyond their lanes' reserves.
pub const NODE_QUEUED_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Control frames in a row, while a lower class could send, before it gets a turn.
pub const CONTROL_BURST_MAX: u8 = 4;

/// Messages of a lane that the receiving application has not yet taken, each a payload frame or a
/// batch of them.
pub const LANE_WINDOW_FRAMES: u8 = 16;

/// Messages of a link and direction that are not yet credited, control frames included, while the
/// windows are at their smallest.
pub const LINK_WINDOW_MESSAGES: u64 = 128;

/// Payload frames of a lane that a sender has under way, in batches or alone, whatever the windows
/// allow: what lies between a stream's pace and its destination's quota is bounded in messages too.
pub const LANE_PAYLOADS_MAX: u64 = 512;

/// How many times its HELLO's windows a receiver grants at most: to a peer so far away that a window
/// would be used up long before its grant comes back.
pub const WINDOW_SCALE_MAX: u8 = 4;

/// A receiver grants its windows once more for each so many milliseconds of the round trip.
pub const WINDOW_SCALE_STEP_MS: u64 = 25;

/// Bytes that a transport carries at most in a millisecond. What a sender has under way beyond that, times the
/// round trip, only waits in the transport's queues, and what is sent next on any lane waits behind it.
pub const PIPE_BYTES_PER_MS: u64 = 128 * 1024;

/// Messages undrained on one stream at which the transport of this project may stall.
const STREAM_STALL_MESSAGES: u64 = 256;

/// FIN and FIN-ACK, once a channel each; outside every other window.
pub const CLOSING_FRAMES_MAX: u64 = 2 * LANES as u64;

/// Numbered control frames (CREDIT, PING, PONG) that the other side has not yet said it heard:
/// what the lanes leave of [`LINK_WINDOW_MESSAGES`].
pub const CONTROL_WINDOW_FRAMES: u64 =
    LINK_WINDOW_MESSAGES - LANES as u64 * LANE_WINDOW_FRAMES as u64 - CLOSING_FRAMES_MAX;

/// Places of [`CONTROL_WINDOW_FRAMES`] that CREDIT never uses: a PING and a PONG.
pub const PROBE_RESERVE_FRAMES: u64 = 2;

/// A grant is due when this fraction of a window was used up since the last one.
pub const GRANT_FRACTION: u64 = 4;

/// Control frames heard that make an answer due.
pub(super) const ANSWER_DUE_FRAMES: u64 = CONTROL_WINDOW_FRAMES / GRANT_FRACTION;

/// Places of [`CONTROL_WINDOW_FRAMES`] within which a CREDIT may go for the statements on it alone, or early; beyond,
/// they wait for one that is due.
pub const STATEMENTS_ALONE_MAX: u64 = 8;

/// Bytes of a link that a receiver grants again early, within [`STATEMENTS_ALONE_MAX`]: the sooner a grant comes, the less
/// a sender near by needs to have under way.
pub const GRANT_EARLY_BYTES: u64 = 16 * 1024;

/// Control frames heard after which a side answers early, within [`STATEMENTS_ALONE_MAX`]: so the other side's early
/// grants find their places.
pub const ANSWER_EARLY_FRAMES: u64 = STATEMENTS_ALONE_MAX / 2;

/// Statements about delegations, KNOWN and DISCLAIM together, that one CREDIT carries.
pub const STATEMENTS_MAX: usize = 8;

/// Statements that wait to be said. Of a reference to what it was never shown a receiver then says nothing.
pub const STATEMENTS_OWED_MAX: usize = 128;

/// Delegations that a sender remembers to have shown on a link; the one it used longest ago leaves, and is
/// shown again when it is needed.
pub const SHOWN_DELEGATIONS_MAX: usize = 64;

/// Delegations that a receiver holds for a link's references. When it is full it confirms no other, and
/// disclaims the one that was named longest ago.
pub const HELD_DELEGATIONS_MAX: usize = 128;

/// Of them, those that are disclaimed and not yet forgotten; no other is disclaimed meanwhile.
pub const DISCLAIMED_MAX: usize = 8;

/// The largest delegation that is referred to; a larger one travels inline.
pub const REFERRED_MAX_BYTES: usize = 512;

/// Delegations that a receiver says it misses at a time.
pub const MISSING_MAX: usize = STATEMENTS_MAX;

/// How long a frame waits in its lane for a delegation that was missed and is to be shown.
pub const MISSED_WAITS_MS: u64 = FORGETS_AFTER_MS;

/// How long a message may be under way on a channel: B.
pub const DELIVERY_BOUND_MS: u64 = 25_000;

/// How long a receiver holds a delegation that it disclaimed, after it said so and after the last frame that
/// named it.
pub const FORGETS_AFTER_MS: u64 = 2 * DELIVERY_BOUND_MS;

/// Before KNOWN is said again of a delegation that is still shown.
pub const KNOWN_AGAIN_MS: u64 = 1_000;

/// The default byte window of a link: what one receiver lets lie between the channels and itself.
/// It fits a socket buffer of 4 MiB.
pub const LINK_WINDOW_DEFAULT_BYTES: u32 = 512 * 1024;

/// The smallest byte window of a link, for a socket buffer of 208 KiB.
pub const LINK_WINDOW_MIN_BYTES: u32 = 128 * 1024;

/// The largest byte window that a HELLO may announce, for a link or a lane.
pub const WINDOW_MAX_BYTES: u32 = 16 * 1024 * 1024;

/// The default byte window of a lane: what one receiver holds of it for its application.
pub const LANE_WINDOW_DEFAULT_BYTES: u32 = 256 * 1024;

/// The smallest byte window of a lane.
pub const LANE_WINDOW_MIN_BYTES: u32 = 128 * 1024;

/// What a receiver with the default windows holds at most for one link.
pub const HELD_DEFAULT_MAX_BYTES: u64 = LANES as u64 * LANE_WINDOW_DEFAULT_BYTES as u64;

/// What a receiver with the default windows holds at most for the link of the farthest peer.
pub const HELD_FAR_MAX_BYTES: u64 = HELD_DEFAULT_MAX_BYTES * WINDOW_SCALE_MAX as u64;

/// Shortest wait before an unanswered HELLO is sent again.
pub const HELLO_RESEND_MIN_MS: u64 = 50;

/// Longest wait before an unanswered HELLO is sent again.
pub const HELLO_RESEND_MAX_MS: u64 = 100;

/// HELLOs of a channel that are sent at the quick pace; later ones come at the slow one, so that a
/// peer that reads nothing is not sent more than a link's window.
pub const HELLO_QUICK_MAX: u32 = 16;

/// Wait before an unanswered HELLO is sent again, after the quick ones.
pub const HELLO_RESEND_SLOW_MS: u64 = 1_000;

/// HELLOs that one channel takes from a peer; more are a violation.
pub const HELLOS_TAKEN_MAX: u32 = 64;

/// How long a link may take from its first call to four answered HELLOs.
pub const HANDSHAKE_DEADLINE_MS: u64 = 10_000;

/// How long queued frames and FINs may take once a link is closing.
pub const FIN_DEADLINE_MS: u64 = 5_000;

/// How long the side that answered last stays, so that its answers leave the transport.
pub const LINGER_MS: u64 = 250;

/// Without an answer for this long, a link is probed.
pub const PROBE_IDLE_MS: u64 = 15_000;

/// A probe unanswered for this long means that the peer is gone.
pub const GONE_MS: u64 = 45_000;

const _: () = assert!(
    LANE_IN_FLIGHT_MAX < 32,
    "in flight stays below the replay window's 32 slots"
);
const _: () = assert!(CONTROL_RESERVE + (LANES - 1) * DATA_RESERVE < QUEUED_MAX);
const _: () = assert!(ROOM_TOLD_PLACES <= QUEUED_SHARED);
const _: () = assert!(
    LANE_PAYLOADS_MAX >= LANE_WINDOW_FRAMES as u64 * BATCH_MAX_FRAMES as u64,
    "a near peer's window may be full of full batches"
);
const _: () = assert!(LANES * LANE_RESERVE_BYTES < QUEUED_MAX_BYTES);
const _: () = assert!(
    LANE_RESERVE_BYTES >= FRAME_MAX_BYTES,
    "a lane's reserve takes any frame"
);
const _: () = assert!(
    QUEUED_SHARED_BYTES < NODE_QUEUED_MAX_BYTES,
    "one peer that reads nothing leaves room for others"
);
const _: () = assert!(
    LANE_WINDOW_FRAMES as u64 * WINDOW_SCALE_MAX as u64
        + CONTROL_WINDOW_FRAMES
        + CLOSING_FRAMES_MAX
        < STREAM_STALL_MESSAGES,
    "a stream never has so many undrained messages that the transport stalls"
);
const _: () = assert!(
    LANES as u64 * LANE_WINDOW_FRAMES as u64 + CONTROL_WINDOW_FRAMES + CLOSING_FRAMES_MAX
        == LINK_WINDOW_MESSAGES
);
/// CREDITs that one side can owe while the other has heard none of its frames: a lane's frames and
/// bytes each make four due, the link's bytes four, heard control frames four, larger windows one each,
/// and a rest.
const GRANTS_OWED_MAX: u64 = LANES as u64 * 2 * GRANT_FRACTION
    + GRANT_FRACTION
    + GRANT_FRACTION
    + (WINDOW_SCALE_MAX as u64 - 1)
    + 1;
const _: () = assert!(
    GRANTS_OWED_MAX + PROBE_RESERVE_FRAMES + STATEMENTS_ALONE_MAX
        <= CONTROL_WINDOW_FRAMES - PROBE_RESERVE_FRAMES,
    "a grant always finds a place in the control window, also behind those that went for their statements"
);
const _: () = assert!(
    ANSWER_EARLY_FRAMES < STATEMENTS_ALONE_MAX && STATEMENTS_ALONE_MAX < ANSWER_DUE_FRAMES,
    "early answers keep places free for early grants, and those are heard before an answer is due"
);
const _: () = assert!(
    SHOWN_DELEGATIONS_MAX + DISCLAIMED_MAX <= HELD_DELEGATIONS_MAX,
    "what an honest sender refers to at a time fits the receiver's table"
);
const _: () = assert!(
    (LANE_WINDOW_FRAMES as u64).is_multiple_of(GRANT_FRACTION),
    "a quarter of the lane window is a whole number of frames"
);
/// Bytes of a link's window that a sender of data uses however near the other side is: grants may lag by just
/// under a quarter, or by [`GRANT_EARLY_BYTES`] where they come early and some more of them are under way, and the largest
/// frame finds room all the same.
pub(super) const fn near(link_bytes: u64, early: bool) -> u64 {
    let quarter = link_bytes / GRANT_FRACTION;
    let lag = if early && NEAR_EARLY_BYTES < quarter {
        NEAR_EARLY_BYTES
    } else {
        quarter
    };
    lag + FRAME_MAX_BYTES as u64
}
/// What is under way to a near peer beside a largest frame while grants come early.
const NEAR_EARLY_BYTES: u64 = 5 * GRANT_EARLY_BYTES;
/// Whether a peer so far away is near: its way asks for less than what is used however near it is.
pub(super) const fn is_near(link_bytes: u64, round_trip_ms: u64) -> bool {
    PIPE_BYTES_PER_MS.saturating_mul(round_trip_ms) < near(link_bytes, false)
}
/// What a sender can use at least of a byte window when everything was taken: grants may lag by
/// just under a quarter.
const fn usable(window_bytes: u32) -> u64 {
    window_bytes as u64 - window_bytes as u64 / GRANT_FRACTION
}
const _: () = assert!(usable(LANE_WINDOW_MIN_BYTES) >= FRAME_MAX_BYTES as u64);
const _: () = assert!(usable(LINK_WINDOW_MIN_BYTES) >= FRAME_MAX_BYTES as u64);
const _: () = assert!(
    near(LINK_WINDOW_MIN_BYTES as u64, false) <= LINK_WINDOW_MIN_BYTES as u64
        && near(LINK_WINDOW_DEFAULT_BYTES as u64, false) < LANE_WINDOW_DEFAULT_BYTES as u64,
    "one busy lane already leaves the transport's queues short"
);
const _: () = assert!(LINK_WINDOW_MIN_BYTES <= LINK_WINDOW_DEFAULT_BYTES);
const _: () = assert!(LANE_WINDOW_MIN_BYTES <= LANE_WINDOW_DEFAULT_BYTES);
const _: () = assert!(HELLO_RESEND_MIN_MS < HELLO_RESEND_MAX_MS);
/// HELLOs that one channel sends at most before the deadline.
const HELLOS_SENT_MAX: u64 = HELLO_QUICK_MAX as u64 + HANDSHAKE_DEADLINE_MS / HELLO_RESEND_SLOW_MS;
const _: () = assert!(
    2 * HELLOS_SENT_MAX <= LINK_WINDOW_MESSAGES,
    "HELLOs and their answers, which no window holds, stay far from what stalls a channel"
);
const _: () = assert!(HELLOS_SENT_MAX <= HELLOS_TAKEN_MAX as u64);
const _: () = assert!(PROBE_IDLE_MS < GONE_MS);
const _: () = assert!(LINGER_MS < FIN_DEADLINE_MS);
