//! How two nodes agree on an epoch, and how one ends.
//!
//! Who wants something asks for an epoch higher than any it knows of, and again until it begins; the
//! other says that it has begun. Of two that ask at once the higher stands. An epoch is never used
//! again, also not after a lost store: it is at least the millisecond in which it was asked for. A
//! node that is asked for a later one than it is in has been forgotten, and forgets too.
//!
//! Law (epoch pause): at another node's wish an epoch begins at most once a pause, so that one that
//! asks again and again makes no more work than that.

use overlane_core::{Coded, Did};
use overlane_relay::refs::table::{LinkId, LocalObject};
use overlane_relay::refs::wire::{Close, Epoch, Frame, Resume, Seq};
use overlane_relay::refs::{Limits, LinkError};

use super::book::{Asked, Saying};
use super::rows::Key;
use super::wire::Said;
use super::{
    ASK_AGAIN_MS, ASK_WITHIN_MS, AskId, EPOCH_PAUSE_MS, Effect, FARS_MAX, Held, ReferenceError,
    References, STRAYS_MAX, WAITING_MAX,
};

impl References {
    /// A node lets an epoch begin.
    pub(super) fn asked_to_begin(&mut self, from: Did, epoch: Epoch, limits: Limits, now_ms: u64) {
        let Some(link) = self.link_to(from) else {
            self.counters.refused_begins += 1;
            return;
        };
        let Some(far) = self.book.far(link) else {
            return;
        };
        let floor = far.floor;
        let pause_ends_ms = far
            .began_ms
            .map_or(0, |at_ms| at_ms.saturating_add(EPOCH_PAUSE_MS));
        if far.door.is_some() && epoch <= floor {
            // It did not hear that this one has begun, or is behind: then it is told which one is.
            let saying = if epoch == floor {
                Saying::Begun(floor)
            } else {
                Saying::Begin(floor)
            };
            return self.say(link, saying);
        }
        if epoch <= floor {
            // One that is over. The next is later.
            return self.ask_for_epoch(link, now_ms);
        }
        if far.asked.as_ref().is_some_and(|asked| asked.epoch > epoch) {
            return;
        }
        if now_ms < pause_ends_ms {
            self.counters.refused_begins += 1;
            return;
        }
        if far.door.is_some() {
            self.end_for_later(link, epoch, now_ms);
        }
        if let Some(far) = self.book.far_mut(link) {
            far.began_ms = Some(now_ms);
        }
        self.begin(link, epoch, limits, now_ms);
        self.say(link, Saying::Begun(epoch));
    }

    /// An epoch that this node asked for has begun.
    pub(super) fn has_begun(&mut self, from: Did, epoch: Epoch, limits: Limits, now_ms: u64) {
        let Some(link) = self.book.link(from) else {
            return;
        };
        let asked = self.book.far(link).and_then(|far| far.asked.as_ref());
        if asked.is_some_and(|asked| asked.epoch == epoch) {
            self.begin(link, epoch, limits, now_ms);
        }
    }

    /// A frame of the tables came.
    pub(super) fn receive(&mut self, from: Did, frame: &[u8], now_ms: u64) {
        let link = self.book.link(from);
        let far = link.and_then(|link| self.book.far(link));
        match (link, far.map(|far| far.door.is_some())) {
            (Some(link), Some(true)) => {
                let step = self.tables.handle_frame(link, frame, now_ms);
                self.follow(step, now_ms);
            }
            (link, _) => {
                self.counters.stale += 1;
                let asked = far.and_then(|far| far.asked.as_ref());
                // One that this node asked for, and does not know yet to have begun, is not over.
                let asked = asked.map(|asked| asked.epoch);
                if let Some(close) = over(frame, asked) {
                    match link {
                        Some(link) => self.say(link, Saying::frame(None, close.into())),
                        None => self.held.push(Held::SayStray(from, close)),
                    }
                }
            }
        }
    }

    /// To a node that nothing is shared with: what it speaks of is over.
    pub(super) fn say_stray(&mut self, peer: Did, frame: &[u8]) {
        if self.strays >= STRAYS_MAX || !self.linked.contains(&peer) {
            return;
        }
        if let Ok(data) = Said::Frame(frame).to_data() {
            self.strays += 1;
            self.out.push_back(Effect::Say { peer, data });
        }
    }

    /// Has an epoch begin, for a ticket that waits for it.
    pub(super) fn wait_for_epoch(
        &mut self,
        link: LinkId,
        ask: AskId,
        secret: [u8; 32],
        now_ms: u64,
    ) -> Result<(), ReferenceError> {
        if self.book.far(link).is_some_and(|far| far.asked.is_none()) {
            self.ask_for_epoch(link, now_ms);
        }
        let Some(far) = self.book.far_mut(link) else {
            return Err(ReferenceError::PeersFull);
        };
        let peer = far.did;
        let Some(asked) = &mut far.asked else {
            return Err(ReferenceError::NoAnswer { peer });
        };
        if asked.waiting.len() >= WAITING_MAX {
            return Err(ReferenceError::TooManyWaiting { peer });
        }
        asked.waiting.push((ask, secret));
        Ok(())
    }

    /// Says again what was asked and not answered; gives up what was asked too long ago.
    pub(super) fn ask_again(&mut self, now_ms: u64) {
        let mut given_up = Vec::new();
        let mut again = Vec::new();
        for (link, far) in self.book.iter_mut() {
            let Some(asked) = &mut far.asked else {
                continue;
            };
            if asked.until_ms <= now_ms {
                let peer = far.did;
                let waiting = far.asked.take().map(|asked| asked.waiting);
                given_up.extend(waiting.into_iter().flatten().map(|(ask, _)| (ask, peer)));
            } else if asked.again_ms <= now_ms {
                asked.again_ms = now_ms.saturating_add(ASK_AGAIN_MS);
                again.push((link, asked.epoch));
            }
        }
        for (link, epoch) in again {
            self.say(link, Saying::Begin(epoch));
        }
        for (ask, peer) in given_up {
            let refused = Err(ReferenceError::NoAnswer { peer });
            self.hold(Effect::Answer(ask, refused));
        }
    }

    /// The link of a node, with a place made for it if it is new.
    pub(super) fn link_to(&mut self, did: Did) -> Option<LinkId> {
        if did == self.did {
            return None;
        }
        if let Some(link) = self.book.link(did) {
            return Some(link);
        }
        if self.book.len() >= FARS_MAX {
            let idle = self.book.iter().find(|(link, far)| {
                !far.linked && far.asked.is_none() && self.is_idle(*link, far.door)
            });
            let (idle, _) = idle?;
            self.forget_far(idle);
        }
        let link = self.book.add(did);
        if let Some(far) = self.book.far_mut(link) {
            far.linked = self.linked.contains(&did);
        }
        Some(link)
    }

    /// The epoch of a link is over.
    pub(super) fn ended(&mut self, link: LinkId, cause: &LinkError, now_ms: u64) {
        self.count_end(cause);
        let Some(far) = self.book.far_mut(link) else {
            return;
        };
        let (peer, door) = (far.did, far.door.take());
        self.keep_far(link);
        if let Some(door) = door {
            self.release(door.into(), 1, now_ms);
        }
        self.hold(Effect::Ended {
            peer,
            code: cause.code(),
            text: cause.to_string(),
        });
    }

    fn ask_for_epoch(&mut self, link: LinkId, now_ms: u64) {
        let Some(far) = self.book.far_mut(link) else {
            return;
        };
        if far.asked.is_some() || far.door.is_some() {
            return;
        }
        let Some(after) = far.floor.0.checked_add(1) else {
            // The other node used up all numbers there are.
            return;
        };
        let epoch = Epoch(after.max(now_ms));
        far.asked = Some(Asked {
            epoch,
            again_ms: now_ms.saturating_add(ASK_AGAIN_MS),
            until_ms: now_ms.saturating_add(ASK_WITHIN_MS),
            waiting: Vec::new(),
        });
        self.say(link, Saying::Begin(epoch));
    }

    fn begin(&mut self, link: LinkId, epoch: Epoch, limits: Limits, now_ms: u64) {
        let door = self.door();
        let theirs = match self.tables.open_link(link, epoch, limits, door, now_ms) {
            Ok(theirs) => theirs,
            Err(error) => {
                tracing::error!(%error, "an epoch could not begin");
                return;
            }
        };
        let waiting = self.book.far_mut(link).and_then(|far| {
            far.floor = epoch;
            far.door = Some(theirs);
            far.asked.take().map(|asked| asked.waiting)
        });
        self.counters.begins += 1;
        self.keep_far(link);
        if self.book.far(link).is_some_and(|far| !far.linked) {
            let step = self.tables.handle_disconnected(link);
            self.follow(step, now_ms);
        }
        for (ask, secret) in waiting.unwrap_or_default() {
            let at = self.held.len();
            let sent = self.knock(link, secret, now_ms);
            self.hold_answer(at, ask, sent);
        }
    }

    /// The other node has begun a later epoch than this one.
    fn end_for_later(&mut self, link: LinkId, epoch: Epoch, now_ms: u64) {
        let later = Frame::Resume(Resume {
            epoch,
            sent: Seq(0),
            recv: Seq(0),
            acked: Seq(0),
        });
        let step = self.tables.handle_frame(link, &later.to_bytes(), now_ms);
        self.follow(step, now_ms);
    }

    /// This node's door: made when the first other node needs it, and the same for all.
    fn door(&mut self) -> LocalObject {
        if let Some(door) = self.numbers.door {
            return door;
        }
        let door = self.tables.export();
        self.numbers.door = Some(door);
        self.keep_numbers();
        door
    }

    /// Whether nothing is shared with a node but the doors.
    fn is_idle(&self, link: LinkId, door: Option<LocalObject>) -> bool {
        if door.is_none() {
            return true;
        }
        self.tables.link(link).is_none_or(|view| {
            view.exports <= 1
                && view.imports <= 1
                && view.promises == 0
                && view.pending == 0
                && view.outbox == 0
        })
    }

    fn forget_far(&mut self, link: LinkId) {
        if let Ok(step) = self.tables.end_epoch(link, 0) {
            self.follow(step, 0);
        }
        self.book.remove(link);
        self.change(Key::Far(link).is_gone());
    }
}

/// What to answer to a frame of an epoch that is over, or never was here. A CLOSE is not answered.
fn over(frame: &[u8], asked: Option<Epoch>) -> Option<Vec<u8>> {
    let epoch = match Frame::from_bytes(frame) {
        Ok(Frame::Close(_)) | Err(_) => return None,
        Ok(frame) if Some(frame.epoch()) == asked => return None,
        Ok(frame) => frame.epoch(),
    };
    let close = Frame::Close(Close {
        epoch,
        code: LinkError::Ended.code().to_owned(),
        text: "the epoch is over".to_owned(),
    });
    Some(close.to_bytes())
}
