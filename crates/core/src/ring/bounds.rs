//! The numbers of the ring. Source: protocol decision 7.

use super::place::PLACE_BITS;
use crate::replay::{SLOTS, SUCCESSORS};
use crate::transaction::HOP_BUDGET_MAX;

/// Successors that a node keeps.
pub const SUCCESSORS_KEPT: usize = SUCCESSORS as usize;

/// Slots of a finger table: one for each power of two.
pub const FINGER_SLOTS: u8 = PLACE_BITS;

/// Links that a node keeps at most, whatever its profile: R.
pub const CONNECTIONS_MAX: usize = SLOTS as usize;

/// Between two rounds of stabilisation of a node at rest.
pub const STABILISE_MS: u64 = 15_000;

/// Between two rounds after something changed; doubled by every round that changes nothing.
pub const STABILISE_QUICK_MS: u64 = 1_000;

/// A pause is longer by at most this part of itself, so that nodes do not move in step.
pub(super) const JITTER_PART: u64 = 5;

/// How long an answer is waited for.
pub const REQUEST_MS: u64 = 5_000;

/// How often a neighbour is asked before it is taken for gone.
pub const NEIGHBOUR_TRIES: u8 = 2;

/// Requests without an answer at once. More are refused with `ring/too_many_requests`.
pub const REQUESTS_MAX: usize = 256;

/// Of them, those that only the ring itself may have.
pub const OWN_REQUESTS: usize = 16;

/// Nodes that a lookup asks at most.
pub const LOOKUP_STEPS_MAX: u8 = 64;

/// Nodes nearer than the first successor that are found and asked one after another in a round.
pub const CANDIDATES_PER_ROUND: u8 = 64;

/// Rounds between two lookups of this node's own place by way of another peer.
pub(super) const SELF_CHECK_ROUNDS: u64 = 2;

/// Nodes that were named and did not answer, remembered so that they are not asked again at once.
pub const SILENT_MAX: usize = 64;

/// How long such a node is not asked again.
pub const SILENT_MS: u64 = 20_000;

/// Nodes found by way of another peer, remembered with it until they are linked.
pub const FOUND_BY_MAX: usize = 64;

/// Links asked for at once.
pub const CONNECTS_MAX: usize = 4;

/// Before a link that failed is asked for again; doubled by every failure.
pub const CONNECT_AGAIN_MS: u64 = 2_000;

/// The longest such pause.
pub const CONNECT_AGAIN_MAX_MS: u64 = 300_000;

/// How long a link that was asked for may take before it counts as failed.
pub const CONNECT_MS: u64 = 60_000;

/// Before a node dials its predecessor, which is to dial it first.
pub const PREDECESSOR_DIALS_MS: u64 = 10_000;

/// The longest code of a declined offer, in bytes.
pub const DECLINE_CODE_MAX_BYTES: usize = 64;

/// The longest account key in an answer about one, in bytes: libp2p's protobuf form.
pub const ACCOUNT_TOLD_MAX_BYTES: usize = 64;

/// The longest contact card in an answer about an account, in bytes.
pub const CARD_TOLD_MAX_BYTES: usize = 512;

/// Answers that nobody waits for are refused; those to this node's latest requests that were given
/// up, or put more than once, are only late. So many are told apart.
pub const LATE_MAX: usize = 64;

const _: () = assert!(
    CONNECTIONS_MAX == 2 * (FINGER_SLOTS as usize + SUCCESSORS_KEPT + 1),
    "a slot for each neighbour, in both directions"
);
const _: () = assert!(OWN_REQUESTS < REQUESTS_MAX);
const _: () = assert!(REQUEST_MS * (NEIGHBOUR_TRIES as u64) < STABILISE_MS);
const _: () = assert!(LOOKUP_STEPS_MAX <= HOP_BUDGET_MAX);
const _: () = assert!(STABILISE_QUICK_MS > 0 && STABILISE_QUICK_MS / JITTER_PART > 0);
