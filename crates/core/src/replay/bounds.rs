//! The bound sheet: every bound of replay protection, how full it is, how full it has been, and
//! what happens at it.

use super::custody::CUSTODY_CAPACITY;
use super::forks::{FORK_LOG_CAPACITY, HEADER_RING_CAPACITY};
use super::quota::QUOTA_RECORDS;
use super::refusal::PENDING_MAX;
use super::slots::{INBOX_SHARE, OWN_SHARE, SLOT_FLOOR, SLOT_POOL, STREAM_CAPACITY};
use super::volatile::{DELEGATING_NAMESPACES, VOLATILE_STREAMS};

/// One line of the bound sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The bound's one name.
    pub name: &'static str,
    /// The bound.
    pub limit: u64,
    /// How full it is.
    pub current: u64,
    /// How full it has been since the process started.
    pub high_water: u64,
    /// What is counted.
    pub unit: &'static str,
    /// What happens at the bound.
    pub at_limit: &'static str,
}

/// Which bound a level is of; also the order of the sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Level {
    ReceiverStreams,
    SenderStreams,
    Slots,
    SlotFloor,
    SlotPool,
    InboxShare,
    OwnShare,
    Custody,
    QuotaControl,
    QuotaStorage,
    QuotaE2e,
    QuotaApplication,
    LinkLocal,
    Namespaces,
    ForkLog,
    Headers,
    Pending,
}

pub(super) const LEVELS: usize = Level::Pending as usize + 1;

/// How full each bound is, or has been.
pub(super) type Levels = [usize; LEVELS];

struct Line {
    level: Level,
    name: &'static str,
    limit: usize,
    unit: &'static str,
    at_limit: &'static str,
}

const fn line(
    level: Level,
    name: &'static str,
    limit: usize,
    unit: &'static str,
    at_limit: &'static str,
) -> Line {
    Line {
        level,
        name,
        limit,
        unit,
        at_limit,
    }
}

const SHEET: [Line; LEVELS] = {
    const SHARE: &str = "a new stream is refused: replay/stream_share_full";
    const QUOTA: &str = "a stream without a record is refused: replay/quota_records";
    use Level::*;
    [
        line(
            ReceiverStreams,
            "replay_receiver_streams",
            STREAM_CAPACITY,
            "streams",
            SHARE,
        ),
        line(
            SenderStreams,
            "replay_sender_streams",
            STREAM_CAPACITY,
            "streams",
            "a new stream is refused: replay/sender_streams_full",
        ),
        // The limit depends on the successors; it is filled in.
        line(
            Slots,
            "replay_slots",
            0,
            "connections",
            "a new connection gets no slot",
        ),
        line(
            SlotFloor,
            "replay_slot_floor",
            SLOT_FLOOR,
            "streams of the fullest slot",
            "the slot goes on with its fair claim on the pool",
        ),
        line(
            SlotPool,
            "replay_slot_pool",
            SLOT_POOL,
            "streams past their floors",
            SHARE,
        ),
        line(
            InboxShare,
            "replay_inbox_share",
            INBOX_SHARE,
            "streams",
            SHARE,
        ),
        line(OwnShare, "replay_own_share", OWN_SHARE, "streams", SHARE),
        line(
            Custody,
            "replay_custody",
            CUSTODY_CAPACITY,
            "mails",
            "mail waits at its holders: replay/relay_custody_full",
        ),
        line(
            QuotaControl,
            "replay_quota_control",
            QUOTA_RECORDS,
            "quota records",
            QUOTA,
        ),
        line(
            QuotaStorage,
            "replay_quota_storage",
            QUOTA_RECORDS,
            "quota records",
            QUOTA,
        ),
        line(
            QuotaE2e,
            "replay_quota_e2e",
            QUOTA_RECORDS,
            "quota records",
            QUOTA,
        ),
        line(
            QuotaApplication,
            "replay_quota_application",
            QUOTA_RECORDS,
            "quota records",
            QUOTA,
        ),
        line(
            LinkLocal,
            "replay_link_local_streams",
            VOLATILE_STREAMS,
            "streams of the fullest connection",
            "a new stream is refused: replay/link_local_streams_full",
        ),
        line(
            Namespaces,
            "replay_delegating_namespaces",
            DELEGATING_NAMESPACES,
            "namespaces",
            "a registration is refused",
        ),
        line(
            ForkLog,
            "replay_fork_log",
            FORK_LOG_CAPACITY,
            "evidences",
            "a new evidence is refused: replay/fork_log_full",
        ),
        line(
            Headers,
            "replay_accepted_headers",
            HEADER_RING_CAPACITY,
            "headers",
            "the oldest header is let go; a fork of it is evidenced by its digest",
        ),
        line(
            Pending,
            "replay_pending",
            PENDING_MAX,
            "transitions",
            "a call is refused: replay/pending_full",
        ),
    ]
};

/// The sheet, from how full each bound is and has been.
pub(super) fn sheet(
    slots: usize,
    current: Levels,
    high_water: Levels,
) -> impl Iterator<Item = Bound> {
    let levels = current.into_iter().zip(high_water);
    SHEET
        .iter()
        .zip(levels)
        .map(move |(line, (current, high))| {
            let limit = match line.level {
                Level::Slots => slots,
                _ => line.limit,
            };
            Bound {
                name: line.name,
                limit: count(limit),
                current: count(current),
                high_water: count(high.max(current)),
                unit: line.unit,
                at_limit: line.at_limit,
            }
        })
}

fn count(level: usize) -> u64 {
    level.try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sheet_has_every_level_once_and_in_order() {
        for (index, line) in SHEET.iter().enumerate() {
            assert_eq!(line.level as usize, index);
        }
    }
}
