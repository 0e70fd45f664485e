//! What this node keeps of one link: its c-list, what waits for an acknowledgement, and the frames
//! that may have to be sent again.

use super::names::{By, Id, Local, LocalObject, LocalPromise, Packed};
use super::rows::{Logged, Rows};
use crate::refs::limits::Limits;
use crate::refs::wire::{Epoch, Hardness, Kind, Reason, Seq};
use std::sync::Arc;

/// Counters of one link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Head {
    /// Our newest numbered frame.
    pub(super) sent: Seq,
    /// The peer's newest numbered frame that we processed.
    pub(super) recv: Seq,
    /// Its frames that we processed since our newest numbered frame.
    pub(super) unacked_in: u64,
    /// Our newest frame that the peer processed, by its numbered frames alone.
    pub(super) acked_by_frames: Seq,
    /// The same, by whatever it said.
    pub(super) peer_acked: Seq,
    /// The next id of ours.
    pub(super) next_object: u64,
    pub(super) next_promise: u64,
    /// The highest id the peer has introduced.
    pub(super) high_object: u64,
    pub(super) high_promise: u64,
    /// Objects the peer holds.
    pub(super) exports: u32,
    /// Objects of the peer's that we hold.
    pub(super) imports: u32,
    /// Promises that we introduced and that are still named, our tombstones included.
    pub(super) our_promises: u32,
    /// Promises that the peer introduced and that it did not see retired by us.
    pub(super) peer_promises: u32,
    /// Messages of the peer to what it knew was revoked, and the like.
    pub(super) soft_violations: u32,
    /// The second in which introductions are counted, and how many there were.
    pub(super) introductions_since_ms: u64,
    pub(super) introductions: u32,
    /// The second in which the peer's frames are counted, and how many there were.
    pub(super) frames_since_ms: u64,
    pub(super) frames: u32,
    /// Whether the peer waits for an acknowledgement, and from when on we say it by itself.
    pub(super) ack_due_ms: Option<u64>,
    /// When to ask whether the peer has what we sent.
    pub(super) probe_due_ms: Option<u64>,
    /// Since when frames can reach the peer.
    pub(super) connected_since_ms: Option<u64>,
    /// When the peer was asked last for frames that are missing, if none came since.
    pub(super) asked_ms: Option<u64>,
    /// When frames were sent again last, since frames can reach the peer.
    pub(super) resent_ms: Option<u64>,
}

impl Head {
    /// Counts one more of what the peer may do so often in a second; whether that is too often.
    pub(super) fn is_over(since_ms: &mut u64, count: &mut u32, now_ms: u64, limit: u32) -> bool {
        if now_ms.saturating_sub(*since_ms) >= RATE_WINDOW_MS {
            *since_ms = now_ms;
            *count = 0;
        }
        *count = count.saturating_add(1);
        *count > limit
    }
}

/// In which the frames and introductions of a peer are counted.
const RATE_WINDOW_MS: u64 = 1_000;

/// Which end of a link an object belongs to, or neither in the case of promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Way {
    Export,
    Import,
    Promise,
}

/// One reference that both ends have a name for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    /// Read it with [`Entry::local`].
    pub(super) local: Packed,
    pub(super) way: Way,
    /// Our newest frame that mentions it. Kept for what the peer may drop.
    pub(super) last_mentioned: Seq,
    /// Our newest frame that sends a message to this promise.
    pub(super) last_targeted: Seq,
    /// Our frame that handed the decision of this promise to the peer, if it knew it already.
    pub(super) passed: Seq,
    /// A promise whose RESOLVE is under way.
    pub(super) retiring: bool,
    /// An object of ours: the revocation that was decided.
    pub(super) revoked: Option<Hardness>,
    /// An object of ours: messages that crossed the REVOKE must still get its error.
    pub(super) needs_error: bool,
}

impl Entry {
    pub(super) fn new(local: Local, way: Way, last_mentioned: Seq) -> Self {
        Self {
            local: local.into(),
            way,
            last_mentioned,
            last_targeted: Seq(0),
            passed: Seq(0),
            retiring: false,
            revoked: None,
            needs_error: false,
        }
    }

    pub(super) fn local(&self) -> Local {
        self.local.into()
    }
}

/// A name we dropped, until the peer has seen the DROP: a mention that crossed it brings the
/// reference back, with the revocation that crossed it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tombstone {
    /// The frame with the DROP.
    pub(super) dropped: Seq,
    pub(super) last_mentioned: Seq,
    pub(super) revoked: Option<(Hardness, Reason)>,
}

/// What happens when the peer acknowledges the frame of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pending {
    RetirePromise(Id),
    Revoked(Id, Hardness),
    DropSent(Id),
}

/// What is to be told when the window has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Due {
    Revoke(LocalObject),
    Resolve(LocalPromise),
    Drop(Id),
}

/// A numbered frame that the peer has not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    pub(super) bytes: Arc<[u8]>,
    pub(super) at_ms: u64,
}

/// The tables of one link in one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LinkTable {
    pub(super) epoch: Epoch,
    pub(super) limits: Limits,
    pub(super) head: Logged<Head>,
    pub(super) entries: Rows<Id, Entry>,
    pub(super) by_local: Rows<Packed, Id>,
    pub(super) pending: Rows<(Seq, u32), Pending>,
    pub(super) tombstones: Rows<Id, Tombstone>,
    pub(super) outbox: Rows<Seq, Sent>,
    pub(super) due: Rows<Due, ()>,
    /// Promises that are held until this link acknowledges.
    pub(super) holds: Rows<(Seq, LocalPromise), ()>,
}

/// How far each log of a link was.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LinkSavepoint([usize; 8]);

impl LinkTable {
    pub(super) fn new(epoch: Epoch, limits: Limits) -> Self {
        Self {
            epoch,
            limits,
            head: Logged::new(Head {
                next_object: 1,
                next_promise: 1,
                ..Head::default()
            }),
            entries: Rows::default(),
            by_local: Rows::default(),
            pending: Rows::default(),
            tombstones: Rows::default(),
            outbox: Rows::default(),
            due: Rows::default(),
            holds: Rows::default(),
        }
    }

    /// The number the next frame gets.
    pub(super) fn next_seq(&self) -> Seq {
        Seq(self.head.get().sent.0 + 1)
    }

    /// Adds an entry and counts it.
    pub(super) fn enter(&mut self, id: Id, entry: Entry) {
        if !entry.retiring {
            self.by_local.insert(entry.local, id);
        }
        self.count(id, entry, 1);
        self.entries.insert(id, entry);
    }

    /// Removes an entry, and its count with it.
    pub(super) fn leave(&mut self, id: Id) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        if self.by_local.get(&entry.local) == Some(&id) {
            self.by_local.remove(&entry.local);
        }
        self.count(id, entry, -1);
        Some(entry)
    }

    /// A promise of ours is announced: its name is not used again.
    pub(super) fn retire(&mut self, id: Id, seq: Seq) {
        let Some(&entry) = self.entries.get(&id) else {
            return;
        };
        if self.by_local.get(&entry.local) == Some(&id) {
            self.by_local.remove(&entry.local);
        }
        self.count(id, entry, -1);
        let entry = Entry {
            retiring: true,
            last_mentioned: seq,
            ..entry
        };
        self.count(id, entry, 1);
        self.entries.insert(id, entry);
        self.wait(seq, Pending::RetirePromise(id));
    }

    pub(super) fn bury(&mut self, id: Id, tombstone: Tombstone) {
        if id.kind() == Kind::Promise && id.by() == By::Us {
            self.head.change().our_promises += 1;
        }
        self.tombstones.insert(id, tombstone);
    }

    pub(super) fn unbury(&mut self, id: Id) -> Option<Tombstone> {
        let tombstone = self.tombstones.remove(&id)?;
        if id.kind() == Kind::Promise && id.by() == By::Us {
            let head = self.head.change();
            head.our_promises = head.our_promises.saturating_sub(1);
        }
        Some(tombstone)
    }

    /// Appends a row that waits for the acknowledgement of frame `seq`.
    pub(super) fn wait(&mut self, seq: Seq, row: Pending) {
        let index = self
            .pending
            .starting_at(&(seq, 0))
            .next_back()
            .map_or(0, |(&(_, index), _)| index + 1);
        self.pending.insert((seq, index), row);
    }

    fn count(&mut self, id: Id, entry: Entry, by: i32) {
        let head = self.head.change();
        let counter = match (entry.way, id.by()) {
            (Way::Export, _) => &mut head.exports,
            (Way::Import, _) => &mut head.imports,
            (Way::Promise, By::Us) => &mut head.our_promises,
            (Way::Promise, By::Peer) if entry.retiring => return,
            (Way::Promise, By::Peer) => &mut head.peer_promises,
        };
        *counter = counter.saturating_add_signed(by);
    }

    pub(super) fn savepoint(&self) -> LinkSavepoint {
        LinkSavepoint([
            self.head.savepoint(),
            self.entries.savepoint(),
            self.by_local.savepoint(),
            self.pending.savepoint(),
            self.tombstones.savepoint(),
            self.outbox.savepoint(),
            self.due.savepoint(),
            self.holds.savepoint(),
        ])
    }

    pub(super) fn rollback_to(&mut self, LinkSavepoint(at): LinkSavepoint) {
        let [
            head,
            entries,
            by_local,
            pending,
            tombstones,
            outbox,
            due,
            holds,
        ] = at;
        self.head.rollback_to(head);
        self.entries.rollback_to(entries);
        self.by_local.rollback_to(by_local);
        self.pending.rollback_to(pending);
        self.tombstones.rollback_to(tombstones);
        self.outbox.rollback_to(outbox);
        self.due.rollback_to(due);
        self.holds.rollback_to(holds);
    }

    pub(super) fn commit(&mut self) {
        self.head.commit();
        self.entries.commit();
        self.by_local.commit();
        self.pending.commit();
        self.tombstones.commit();
        self.outbox.commit();
        self.due.commit();
        self.holds.commit();
    }
}
