//! The bounds on sizes on the wire, checked against each other at compile time.

/// The largest frame of any kind, its marker included. Larger ones are refused before they are
/// decoded. Source: protocol decision 6 (credit).
pub const FRAME_MAX_BYTES: usize = 64 * 1024;

/// The marker at the head of every frame.
pub const MARKER_BYTES: usize = 4;

/// The largest link control frame, its marker included.
pub const CONTROL_FRAME_MAX_BYTES: usize = 1024;

/// The largest batch of payload frames, its marker included: a message that other lanes wait behind
/// for no longer than for a chunk.
pub const BATCH_MAX_BYTES: usize = 16 * 1024;

/// Payload frames that one batch holds at most.
pub const BATCH_MAX_FRAMES: usize = 32;

/// What a payload adds to its data at most: marker, two inline delegations, two proofs, relay
/// fields, digests and heads. The largest payload is built in a test, and fits.
pub const PAYLOAD_OVERHEAD_MAX_BYTES: usize = 2 * 1024;

/// The most data one payload frame carries. Larger messages are cut into chunks.
pub const DATA_MAX_BYTES: usize = FRAME_MAX_BYTES - PAYLOAD_OVERHEAD_MAX_BYTES;

/// The most data of a message that travels in chunks.
pub const MESSAGE_MAX_BYTES: usize = 60_000_000;

/// How long a frame with a chunk is: other lanes wait behind it for no longer than for a batch.
pub const CHUNK_FRAME_BYTES: usize = BATCH_MAX_BYTES;

/// Chunks of one message at most: what the longest needs where an envelope costs the most.
pub const CHUNKS_MAX: u32 = (MESSAGE_MAX_BYTES + PAYLOAD_OVERHEAD_MAX_BYTES)
    .div_ceil(CHUNK_FRAME_BYTES - PAYLOAD_OVERHEAD_MAX_BYTES) as u32;

/// The longest namespace of an application message.
pub const NAMESPACE_MAX_BYTES: usize = 64;

/// The longest SDP in an offer or an answer, judged before anything else is.
pub const SDP_MAX_BYTES: usize = 16 * 1024;

/// The largest encoded offer or answer: its SDP, one inline delegation and the signed fields.
pub const SIGNAL_MAX_BYTES: usize = SDP_MAX_BYTES + 1024;

const _: () = assert!(CONTROL_FRAME_MAX_BYTES <= FRAME_MAX_BYTES);
const _: () = assert!(BATCH_MAX_BYTES <= FRAME_MAX_BYTES);
const _: () = assert!(
    SIGNAL_MAX_BYTES < DATA_MAX_BYTES,
    "a routed offer must fit a frame"
);
const _: () = assert!(PAYLOAD_OVERHEAD_MAX_BYTES < FRAME_MAX_BYTES);
