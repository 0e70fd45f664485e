//! Law **bounds**: no table of a node is ever fuller than its named bound.

use overlane_core::lane::SessionStatus;
use overlane_core::lane::bounds::{
    CONTROL_WINDOW_FRAMES, HELD_FAR_MAX_BYTES, LANE_IN_FLIGHT_MAX, LANE_WINDOW_FRAMES, QUEUED_MAX,
    QUEUED_MAX_BYTES, WINDOW_SCALE_MAX,
};
use overlane_core::replay::{SLOT_FLOOR, SLOT_POOL};

use overlane_recon::bounds::ROUNDS_MAX;

use crate::link::config::{HANDSHAKES_DEFAULT_MAX, PEERS_DEFAULT_MAX};
use crate::peer::groups::{ASKS_WAITING_MAX, GroupNumbers, LINES_MAX, SYNCS_MAX};
use crate::peer::{DISPATCH_QUEUE_MAX, PENDING_SENDS_MAX, Peer};
use crate::runtime::VERIFY_OUTSTANDING_MAX;

/// What a session may hold: what came and was not taken, and what waits to be sent.
const SESSION_MAX_BYTES: u64 = HELD_FAR_MAX_BYTES + QUEUED_MAX_BYTES as u64;

/// What a far peer's lane may hold.
const UNTAKEN_MAX: usize = LANE_WINDOW_FRAMES as usize * WINDOW_SCALE_MAX as usize;

/// Streams that one slot may be charged: its floor, and all of the pool.
const SLOT_MAX: u64 = (SLOT_FLOOR + SLOT_POOL) as u64;

/// The first of a node's tables that is over its bound. `jobs` are with workers, `waiting` with
/// the application, by class; `links` have an end here.
pub(in crate::sim) fn of_node(
    peer: &Peer,
    jobs: usize,
    waiting: [usize; 4],
    links: usize,
) -> Result<(), String> {
    let within = |name: &str, level: usize, bound: usize| match level <= bound {
        true => Ok(()),
        false => Err(format!("{name}: {level} of {bound}")),
    };
    for bound in peer.engine().bounds() {
        // A slot at its floor goes on, and takes of the pool.
        let (name, level) = (bound.name, bound.high_water);
        let limit = match name {
            "replay_slot_floor" => SLOT_MAX,
            _ => bound.limit,
        };
        if level > limit {
            return Err(format!("{name}: {level} of {limit}"));
        }
    }
    for (held, most) in peer.queues() {
        within("dispatch queue", held.max(most), DISPATCH_QUEUE_MAX)?;
    }
    for waiting in waiting {
        within("application queue", waiting, DISPATCH_QUEUE_MAX)?;
    }
    within("pending sends", peer.pending_sends(), PENDING_SENDS_MAX)?;
    within("frames with workers", jobs, VERIFY_OUTSTANDING_MAX)?;
    let links_max = PEERS_DEFAULT_MAX + 2 * HANDSHAKES_DEFAULT_MAX;
    within("links", links, links_max)
}

/// The first of a keeper of groups' tables that is over its bound.
pub(in crate::sim) fn of_groups(numbers: &GroupNumbers) -> Result<(), String> {
    let tables = [
        ("lines of groups", numbers.lines, LINES_MAX),
        (
            "requests about groups",
            numbers.asks_waiting,
            ASKS_WAITING_MAX,
        ),
        ("reconciliations", numbers.syncing, SYNCS_MAX),
    ];
    match tables.into_iter().find(|(_, level, bound)| level > bound) {
        Some((name, level, bound)) => Err(format!("{name}: {level} of {bound}")),
        None => Ok(()),
    }
}

/// Whether so many questions may be one reconciliation, however its host answers.
pub(in crate::sim) fn of_rounds(rounds: u32) -> Result<(), String> {
    match rounds <= ROUNDS_MAX {
        true => Ok(()),
        false => Err(format!(
            "rounds of a reconciliation: {rounds} of {ROUNDS_MAX}"
        )),
    }
}

/// The first of a session's tables that is over its bound.
pub(in crate::sim) fn of_session(status: &SessionStatus, held_bytes: u64) -> Result<(), String> {
    let mut queued = 0;
    for (class, lane) in status.lanes.each() {
        queued += lane.queued;
        if lane.untaken > UNTAKEN_MAX {
            return Err(format!("{class} lane: {} frames untaken", lane.untaken));
        }
        if lane.in_flight > LANE_IN_FLIGHT_MAX {
            return Err(format!("{class} lane: {} frames in flight", lane.in_flight));
        }
    }
    if queued > QUEUED_MAX {
        return Err(format!("{queued} frames queued"));
    }
    if status.unanswered_control > CONTROL_WINDOW_FRAMES {
        return Err(format!(
            "{} control frames unanswered",
            status.unanswered_control
        ));
    }
    if held_bytes > SESSION_MAX_BYTES {
        return Err(format!("a session holds {held_bytes} bytes"));
    }
    Ok(())
}
