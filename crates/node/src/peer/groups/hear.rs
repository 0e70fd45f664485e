//! What other nodes say.

use overlane_core::Did;
use overlane_core::wire::cbor::Reader;
use overlane_relay::log::{Access, LogId, LogStore, LogsError, Peer, Rules};

use super::book::Follower;
use super::wire::{FrameBytes, Said};
use super::{FOLLOW_MS, Groups};
use crate::peer::Now;

impl<S: LogStore> Groups<S> {
    pub(super) fn hear(&mut self, from: Did, body: &[u8], now: Now) {
        self.counters.heard += 1;
        match Said::read(body) {
            Ok(Said::Frames(frames)) => self.heard_frames(from, &frames, now),
            Ok(Said::Greet {
                log,
                revision,
                follows,
            }) => self.greeted_by(from, log, revision, follows, now),
            Ok(Said::Greeted {
                log,
                revision,
                entries,
                bytes,
            }) => self.greeting_answered(from, log, revision, (entries, bytes), now),
            Ok(Said::Roster(bytes)) => self.heard_roster(from, bytes, now),
            Ok(Said::News(log)) => self.heard_news(from, log, now),
            Ok(Said::Leave(log)) => self.asked_to_remove(from, log, now),
            Ok(Said::NotHere(log)) => self.told_not_here(from, log, now),
            Ok(Said::AskEarlier {
                log,
                epoch,
                revision,
            }) => self.asked_for_earlier(from, log, epoch, revision),
            Ok(Said::Earlier(bytes)) => self.heard_earlier(from, bytes, now),
            Ok(Said::NoEarlier { log, epoch }) => self.told_no_earlier(from, log, epoch, now),
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// Frames of logs, from those who are on the log's roster.
    fn heard_frames(&mut self, from: Did, frames: &[FrameBytes<'_>], now: Now) {
        // A group's log is shared by authors, and a member brings what it wrote alone: by which connection says
        // no more. The shares of slots are for inboxes, which strangers write to.
        let peer = Peer {
            account: from,
            slot: 0,
        };
        for FrameBytes(frame) in frames {
            let Some(log) = log_of(frame) else {
                self.counters.malformed += 1;
                continue;
            };
            if self.access(&log, &from) == Access::None {
                // Whatever else is in the message: one short answer for it.
                return self.turn_away(from, log);
            }
            if self.logs.is_full() {
                self.commit(now);
            }
            if self.failure.is_some() {
                return;
            }
            self.heard_follower(log, from);
            match self.logs.handle_frame(peer, frame, now.wall_ms) {
                Ok(()) => {}
                Err(LogsError::Peer(_)) => self.counters.malformed += 1,
                Err(error) => return self.fail(&error),
            }
        }
    }

    fn greeted_by(&mut self, from: Did, log: LogId, revision: u64, follows: bool, now: Now) {
        if self.access(&log, &from) == Access::None {
            // One that this node asks for the first roster may bring it.
            let waits = self.groups.get(&log).is_some_and(|group| {
                let known = group.row.owner == from || group.row.hosts.contains(&from);
                group.roster.is_none() && known
            });
            if !waits {
                return self.turn_away(from, log);
            }
        }
        let size = self.logs.size(&log);
        let Ok((entries, bytes)) = self.check(size) else {
            return;
        };
        let Some(group) = self.groups.get_mut(&log) else {
            return;
        };
        let own = group.revision();
        let newer = group.row.roster.clone().filter(|_| own > revision);
        if follows && group.is_host(&self.did) {
            let until_ms = now.steady_ms.saturating_add(FOLLOW_MS);
            let told = false;
            group.followers.insert(from, Follower { until_ms, told });
        }
        if let Some(roster) = newer {
            self.say(from, &Said::Roster(&roster));
        }
        let greeted = Said::Greeted {
            log,
            revision: own,
            entries,
            bytes,
        };
        self.say(from, &greeted);
    }

    /// Tells those who follow that there is something new, once until they have asked.
    pub(super) fn spread_news(&mut self, log: LogId, author: &Did, now: Now) {
        let own = self.did;
        let Some(group) = self.groups.get_mut(&log).filter(|it| it.is_host(&own)) else {
            return;
        };
        group
            .followers
            .retain(|_, follower| follower.until_ms > now.steady_ms);
        let mut told = Vec::new();
        for (did, follower) in &mut group.followers {
            if did != author && !follower.told {
                follower.told = true;
                told.push(*did);
            }
        }
        for did in told {
            self.counters.news += 1;
            self.say(did, &Said::News(log));
        }
    }

    pub(super) fn access(&mut self, log: &LogId, node: &Did) -> Access {
        self.logs.rules().access(log, node)
    }

    /// One that asks is told of what is new after that.
    fn heard_follower(&mut self, log: LogId, from: Did) {
        let follower = self
            .groups
            .get_mut(&log)
            .and_then(|group| group.followers.get_mut(&from));
        if let Some(follower) = follower {
            follower.told = false;
        }
    }
}

/// The log that a frame says it is of; the rest of it is not looked at.
fn log_of(frame: &[u8]) -> Option<LogId> {
    let mut reader = Reader::new(frame);
    reader.array().ok()?;
    reader.u8().ok()?;
    reader.byte_array().ok().map(LogId)
}
