//! The life of a link: opening, reconnecting, timers, and the end of an epoch.
//!
//! Law (isolation): the end of one link reaches another only by what the lost references mean there:
//! objects of the lost peer are revoked as disconnected, promises it decided are broken, and what it
//! alone held is dropped.
//! Law (named rollback): two ends that remember different histories end the epoch and say which of
//! them lost its memory. They never go on.
//! Law (resume pause): a peer that says again and again that it misses frames has them sent again
//! once a pause, whatever it says.

use super::Tables;
use super::link::{Entry, LinkTable, Way};
use super::local::{Decider, Object, Owner};
use super::names::{By, Id, LinkId, Local, LocalObject};
use super::step::{Event, Step, Transmit};
use super::tx::{Tx, Work};
use crate::refs::error::{LinkError, SendError};
use crate::refs::limits::Limits;
use crate::refs::wire::{
    AckOnly, CLOSE_TEXT_MAX_BYTES, Close, Epoch, Frame, Hardness, Kind, Outcome, Reason, Resume,
    Seq,
};
use overlane_core::Coded;
use std::convert::Infallible;
use std::sync::Arc;

/// The number of the object that each end gives the other before anything is said: where the first
/// message goes.
const DOOR: u64 = 0;

/// How often at most frames are sent again to a peer that stays connected, and asked for.
const RESUME_PAUSE_MS: u64 = 1_000;

impl Tables {
    /// Begins an epoch. `door` is the object of the application that the peer gets to begin with; the
    /// peer's is returned, with one handle.
    ///
    /// # Errors
    /// The link has an epoch, or `door` is not an object of the application's that works.
    pub fn open_link(
        &mut self,
        link: LinkId,
        epoch: Epoch,
        peer: Limits,
        door: LocalObject,
        now_ms: u64,
    ) -> Result<LocalObject, SendError> {
        if self.links.contains_key(&link) {
            return Err(SendError::LinkOpen(link));
        }
        let usable = |row: &Object| row.owner == Owner::App && row.revoked().is_none();
        if !self.objects.get(&door).is_some_and(usable) {
            return Err(SendError::NotOwner);
        }
        let mut table = LinkTable::new(epoch, self.limits.with(peer));
        table.head.change().connected_since_ms = Some(now_ms);
        self.links.insert(link, table);
        let opened = self.transact(now_ms, |tx| {
            let mut theirs = Object::new(Owner::Link(link));
            theirs.refs.app = 1;
            let theirs = tx.new_object(theirs);
            tx.tables.objects.update(&door, |row| row.refs.links += 1);
            if let Some(table) = tx.link_mut(link) {
                let id = |by| Id::new(Kind::Object, by, DOOR);
                table.enter(id(By::Us), Entry::new(door.into(), Way::Export, Seq(0)));
                table.enter(id(By::Peer), Entry::new(theirs.into(), Way::Import, Seq(0)));
            }
            Ok::<_, Infallible>(theirs)
        });
        match opened {
            Ok((theirs, _)) => Ok(theirs),
            Err(never) => match never {},
        }
    }

    /// The peer can be reached again: it is told where this node is, and will say the same.
    pub fn handle_connected(&mut self, link: LinkId, now_ms: u64) -> Step {
        self.infallible(now_ms, |tx| {
            if let Some(table) = tx.link_mut(link) {
                let head = table.head.change();
                head.connected_since_ms = Some(now_ms);
                (head.asked_ms, head.resent_ms) = (None, None);
                tx.say_resume(link);
            }
        })
    }

    /// The peer cannot be reached. Nothing is lost by that.
    pub fn handle_disconnected(&mut self, link: LinkId) -> Step {
        self.infallible(0, |tx| {
            if let Some(table) = tx.link_mut(link) {
                table.head.change().connected_since_ms = None;
            }
        })
    }

    /// When [`Tables::handle_timeout`] is to be called, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.links.values().filter_map(LinkTable::timeout).min()
    }

    /// Says what is due by now, and ends the epochs of peers that do not acknowledge.
    pub fn handle_timeout(&mut self, now_ms: u64) -> Step {
        let mut step = self.infallible(now_ms, |tx| {
            let links: Vec<_> = tx.tables.links.keys().copied().collect();
            for link in links {
                tx.say_what_is_due(link);
            }
        });
        let late: Vec<_> = self
            .links
            .iter()
            .filter_map(|(&link, table)| Some((link, table.late(now_ms)?)))
            .collect();
        for (link, cause) in late {
            let ended = self.end(link, cause, now_ms);
            step.events.extend(ended.events);
            step.transmits.extend(ended.transmits);
        }
        step
    }

    /// The frames that the peer has not acknowledged, oldest first, as they were sent.
    pub fn outbox(&self, link: LinkId) -> impl Iterator<Item = (Seq, &Arc<[u8]>)> {
        let rows = self.links.get(&link).into_iter();
        rows.flat_map(|table| table.outbox.iter().map(|(&seq, sent)| (seq, &sent.bytes)))
    }

    pub(super) fn end(&mut self, link: LinkId, cause: LinkError, now_ms: u64) -> Step {
        self.infallible(now_ms, |tx| tx.end(link, cause))
    }

    fn infallible(&mut self, now_ms: u64, change: impl FnOnce(&mut Tx<'_>)) -> Step {
        let done = self.transact(now_ms, |tx| {
            change(tx);
            Ok::<_, Infallible>(())
        });
        match done {
            Ok(((), step)) => step,
            Err(never) => match never {},
        }
    }
}

impl LinkTable {
    fn timeout(&self) -> Option<u64> {
        let head = self.head.get();
        head.connected_since_ms?;
        let deadline = self.deadline().map(|(_, at_ms)| at_ms);
        let times = [head.ack_due_ms, head.probe_due_ms, deadline];
        times.into_iter().flatten().min()
    }

    /// The oldest unacknowledged frame, and when it will have waited too long.
    fn deadline(&self) -> Option<(Seq, u64)> {
        let (&seq, sent) = self.outbox.first()?;
        let since_ms = sent.at_ms.max(self.head.get().connected_since_ms?);
        Some((seq, since_ms.saturating_add(self.limits.ack_deadline_ms)))
    }

    fn late(&self, now_ms: u64) -> Option<LinkError> {
        let (seq, deadline_ms) = self.deadline()?;
        (now_ms >= deadline_ms).then(|| LinkError::AckDeadline {
            seq,
            waited_ms: self.limits.ack_deadline_ms + (now_ms - deadline_ms),
        })
    }
}

impl Tx<'_> {
    pub(super) fn say_resume(&mut self, link: LinkId) {
        let Some(table) = self.link(link) else {
            return;
        };
        let head = table.head.get();
        let resume = Frame::Resume(Resume {
            epoch: table.epoch,
            sent: head.sent,
            recv: head.recv,
            acked: head.peer_acked,
        });
        self.say(link, &resume);
    }

    fn say(&mut self, link: LinkId, frame: &Frame) {
        self.step.transmits.push(Transmit {
            link,
            seq: None,
            bytes: frame.to_bytes().into(),
        });
    }

    fn say_what_is_due(&mut self, link: LinkId) {
        let now_ms = self.now_ms;
        let Some(table) = self.link_mut(link) else {
            return;
        };
        let head = *table.head.get();
        if head.connected_since_ms.is_none() {
            return;
        }
        let due = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        if due(head.ack_due_ms) {
            table.head.change().ack_due_ms = None;
            let ack = Frame::AckOnly(AckOnly {
                epoch: table.epoch,
                after: head.sent,
                recv: head.recv,
            });
            self.say(link, &ack);
        }
        if due(head.probe_due_ms)
            && let Some(table) = self.link_mut(link)
        {
            let waits = !table.outbox.is_empty();
            let next_ms = now_ms.saturating_add(table.limits.probe_ms);
            table.head.change().probe_due_ms = waits.then_some(next_ms);
            if waits {
                self.say_resume(link);
            }
        }
    }

    /// Where the peer is: what it misses is sent again, and two histories that contradict each other
    /// end the epoch.
    pub(super) fn receive_resume(&mut self, link: LinkId, resume: Resume) -> Result<(), LinkError> {
        let now_ms = self.now_ms;
        let Some(table) = self.link_mut(link) else {
            return Ok(());
        };
        let head = *table.head.get();
        judge(resume, head.sent, head.recv, head.peer_acked)?;
        if resume.sent == head.recv {
            table.head.change().ack_due_ms.get_or_insert(now_ms);
        }
        if head.resent_ms.is_none_or(|at_ms| has_passed(at_ms, now_ms)) {
            self.send_again(link, Seq(resume.recv.0 + 1));
        } else if resume.recv < head.sent {
            self.step.counts.hurried += 1;
        }
        if resume.sent > head.recv {
            self.ask_again(link);
        }
        Ok(())
    }

    /// The frames that the peer misses, from this one on.
    fn send_again(&mut self, link: LinkId, first: Seq) {
        let now_ms = self.now_ms;
        let Some(table) = self.link_mut(link) else {
            return;
        };
        let missed = table.outbox.starting_at(&first);
        let again: Vec<_> = missed
            .map(|(&seq, sent)| Transmit {
                link,
                seq: Some(seq),
                bytes: sent.bytes.clone(),
            })
            .collect();
        if !again.is_empty() {
            table.head.change().resent_ms = Some(now_ms);
        }
        self.step.transmits.extend(again);
    }

    /// Asks for frames that are missing, unless that was said just now: of a window in which the
    /// first is lost, each other one shows the same gap.
    pub(super) fn ask_again(&mut self, link: LinkId) {
        let now_ms = self.now_ms;
        let Some(table) = self.link_mut(link) else {
            return;
        };
        let asked_ms = table.head.get().asked_ms;
        if asked_ms.is_none_or(|at_ms| has_passed(at_ms, now_ms)) {
            table.head.change().asked_ms = Some(now_ms);
            self.say_resume(link);
        }
    }

    fn end(&mut self, link: LinkId, cause: LinkError) {
        let Some(table) = self.tables.links.remove(&link) else {
            return;
        };
        self.tables.record_end(link, &table);
        if !matches!(cause, LinkError::PeerClosed { .. }) {
            let mut text = cause.to_string();
            while text.len() > CLOSE_TEXT_MAX_BYTES {
                text.pop();
            }
            let close = Frame::Close(Close {
                epoch: table.epoch,
                code: cause.code().to_owned(),
                text,
            });
            self.say(link, &close);
        }
        let mut lost = Vec::new();
        for (_, entry) in table.entries.iter() {
            self.end_entry(link, entry, &mut lost);
        }
        for (&(_, promise), ()) in table.holds.iter() {
            self.work.push_back(Work::Release(promise));
        }
        self.tell(Event::Ended { link, cause });
        for promise in lost {
            let outcome = Outcome::broken(Reason::DISCONNECTED);
            self.resolve(promise, outcome, Some((link, None)));
        }
    }

    fn end_entry(
        &mut self,
        link: LinkId,
        entry: &Entry,
        lost: &mut Vec<super::names::LocalPromise>,
    ) {
        match entry.local() {
            Local::Object(object) if entry.way == Way::Import => {
                self.tables
                    .objects
                    .update(&object, |row| row.owner = Owner::Gone);
                let revoked = self
                    .object(object)
                    .is_some_and(|row| row.revoked().is_some());
                if revoked {
                    self.check(object.into());
                } else {
                    self.lose(object, Hardness::Soft, Reason::DISCONNECTED, Arc::default());
                }
            }
            Local::Object(object) => {
                if entry.needs_error {
                    self.error_not_needed(object);
                }
                self.unref_link(entry.local());
            }
            Local::Promise(promise) => {
                self.unref_link(entry.local());
                let decider = self
                    .promise(promise)
                    .and_then(super::local::Promise::decider);
                if decider == Some(Decider::Link(link)) {
                    lost.push(promise);
                }
            }
        }
    }
}

fn has_passed(at_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(at_ms) >= RESUME_PAUSE_MS
}

/// Whether the peer's memory and ours are of one history.
fn judge(peer: Resume, sent: Seq, recv: Seq, peer_acked: Seq) -> Result<(), LinkError> {
    if peer.recv > sent {
        return Err(LinkError::WeRolledBack {
            peer: peer.recv,
            ours: sent,
        });
    }
    if peer.acked > recv {
        return Err(LinkError::WeRolledBack {
            peer: peer.acked,
            ours: recv,
        });
    }
    if peer.recv < peer_acked {
        return Err(LinkError::PeerRolledBack {
            recv: peer.recv,
            acked: peer_acked,
        });
    }
    if peer.sent < recv {
        return Err(LinkError::PeerRolledBack {
            recv: peer.sent,
            acked: recv,
        });
    }
    Ok(())
}
