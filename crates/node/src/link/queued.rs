//! What the lanes of all links of a node hold, in bytes.
//!
//! Law (node's queues): beyond what each lane may always hold, all lanes together hold at most
//! its bound ([`NODE_QUEUED_MAX_BYTES`] unless told otherwise), so peers that read nothing cost a node no more than that; and a lane
//! that was refused for it is told when there is room.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use overlane_core::lane::Session;
use overlane_core::lane::bounds::{NODE_QUEUED_MAX_BYTES, QUEUED_SHARED_BYTES};
use overlane_core::wire::bounds::FRAME_MAX_BYTES;
use tokio::sync::watch;

use super::driver::lock;

/// The bytes that all lanes hold beyond their reserves.
#[derive(Debug)]
pub(super) struct Queued {
    max_bytes: usize,
    held_bytes: Mutex<usize>,
    high_water_bytes: AtomicUsize,
    /// Counts the times that there was room again after there was none.
    room: watch::Sender<u64>,
}

/// What one link holds of it, as it was counted last. Changes only while its session is locked.
#[derive(Debug, Default)]
pub(super) struct Share(AtomicUsize);

impl Share {
    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Queued {
    fn default() -> Self {
        Self::new(NODE_QUEUED_MAX_BYTES)
    }
}

impl Queued {
    /// A bound of so many bytes; never less than one link may hold.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes: max_bytes.max(QUEUED_SHARED_BYTES + 1),
            held_bytes: Mutex::new(0),
            high_water_bytes: AtomicUsize::new(0),
            room: watch::Sender::new(0),
        }
    }

    /// The bound, and the most that was held at once.
    pub(super) fn max_and_high_water_bytes(&self) -> (usize, usize) {
        (
            self.max_bytes,
            self.high_water_bytes.load(Ordering::Relaxed),
        )
    }

    /// Lets the link's session change while it knows what the other links leave it, and counts what
    /// it holds then.
    pub(super) fn counted<T>(
        &self,
        session: &mut Session,
        share: &Share,
        change: impl FnOnce(&mut Session) -> T,
    ) -> T {
        let mut held = lock(&self.held_bytes);
        let others = held.saturating_sub(share.bytes());
        session.spare(self.max_bytes.saturating_sub(others));
        let changed = change(session);
        let before = *held;
        let share_bytes = session.shared_queued_bytes();
        share.0.store(share_bytes, Ordering::Relaxed);
        *held = others.saturating_add(share_bytes);
        self.high_water_bytes.fetch_max(*held, Ordering::Relaxed);
        let was_full = before.saturating_add(FRAME_MAX_BYTES) > self.max_bytes;
        if was_full && *held < before {
            self.room
                .send_modify(|times| *times = times.wrapping_add(1));
        }
        changed
    }

    /// As [`counted`](Self::counted), of a change that queues nothing. A link that holds nothing of the
    /// bound, and waits for no room, changes without a look at it.
    pub(super) fn counted_less<T>(
        &self,
        session: &mut Session,
        share: &Share,
        change: impl FnOnce(&mut Session) -> T,
    ) -> T {
        if share.bytes() == 0 && !session.owes_room() {
            return change(session);
        }
        self.counted(session, share, change)
    }

    /// Changes when there is room again.
    pub(super) fn room(&self) -> watch::Receiver<u64> {
        self.room.subscribe()
    }

    /// What all lanes hold beyond their reserves.
    pub(super) fn held_bytes(&self) -> usize {
        *lock(&self.held_bytes)
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::lane::bounds::{LANE_RESERVE_BYTES, QUEUED_MAX_BYTES, QUEUED_SHARED_BYTES};
    use overlane_core::lane::{SendError, SessionConfig};
    use overlane_core::wire::frame::PAYLOAD_MARKER;
    use overlane_core::{Class, NetworkId};

    use super::*;

    fn frame() -> Vec<u8> {
        let mut frame = PAYLOAD_MARKER.to_vec();
        frame.resize(FRAME_MAX_BYTES, 0);
        frame
    }

    /// Peers that read nothing, more than the bound allows the full queues of.
    #[test]
    fn law_peers_that_read_nothing_hold_no_more_than_the_nodes_bound() {
        let queued = Queued::default();
        let mut room = queued.room();
        let peers = NODE_QUEUED_MAX_BYTES / QUEUED_SHARED_BYTES + 8;
        let session = || {
            (
                Session::new(SessionConfig::new(NetworkId(7)), 0),
                Share::default(),
            )
        };
        let mut links: Vec<_> = (0..peers).map(|_| session()).collect();
        let class = Class::Application;
        let mut full = Vec::new();
        for (session, share) in &mut links {
            let refused = loop {
                let sent = queued.counted(session, share, |it| it.send(class, frame()));
                if let Err(refused) = sent {
                    break refused;
                }
            };
            full.push(matches!(refused, SendError::NodeFull { .. }));
            assert!(session.held_bytes() <= QUEUED_MAX_BYTES as u64);
            assert!(session.held_bytes() >= LANE_RESERVE_BYTES as u64);
        }
        assert!(!full[0] && full[peers - 1], "{full:?}");
        assert!(queued.held_bytes() <= NODE_QUEUED_MAX_BYTES);
        assert!(!room.has_changed().unwrap());
        // One of them ends: whoever was refused for the node's sake hears of it.
        let (session, share) = &mut links[0];
        queued.counted(session, share, |it| it.close(0));
        assert!(room.has_changed().unwrap());
        room.mark_unchanged();
        let (session, share) = &mut links[peers - 1];
        let room = queued.counted(session, share, |it| it.poll_event());
        let told = overlane_core::lane::SessionEvent::Room { class };
        assert_eq!(room, Some(told));
    }
}
