//! That this node left a group: said to its owner until that answers.
//!
//! Who leaves is taken off the roster by the owner, and by nobody else. So the word waits, durably, for one that is
//! away, and is said again after a pause that doubles and whenever the owner is linked. The owner's answer, once
//! its new roster is in force, is that the group is not here for who left; it answers the same to one that is on no
//! roster.

use overlane_core::Did;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, to_vec};
use overlane_relay::log::{LogId, LogStore};

use super::rows::{LEAVING_ROWS, key};
use super::wire::Said;
use super::{EVERY_MS, Groups, PAUSE_MS};
use crate::peer::Now;

/// Groups that were left whose owner has not answered; the one whose word is given up first makes room.
pub const LEAVING_MAX: usize = 64;

/// How long the owner of a group is told that this node left it, in milliseconds: 31 days.
pub const LEAVING_MS: u64 = 31 * 24 * 3_600 * 1_000;

/// A group that was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaving {
    owner: Did,
    /// By the wall clock.
    until_ms: u64,
    /// When it is said next, by the steady clock.
    due_ms: u64,
    tries: u32,
}

impl<S: LogStore> Groups<S> {
    /// A group was left: its owner is told from now on.
    pub(super) fn leaves(&mut self, log: LogId, owner: Did, now: Now) {
        if self.leaving.len() >= LEAVING_MAX {
            let first = self.leaving.iter().min_by_key(|it| it.1.until_ms);
            if let Some(first) = first.map(|it| *it.0) {
                self.stop_leaving(first);
            }
        }
        let leaving = Leaving {
            owner,
            until_ms: now.wall_ms.saturating_add(LEAVING_MS),
            due_ms: now.steady_ms,
            tries: 0,
        };
        let row = key(LEAVING_ROWS, &log, &[]);
        self.logs.put_row(row, Some(to_vec(&leaving)));
        self.leaving.insert(log, leaving);
        self.say_leaving(now);
    }

    /// Says what is due.
    pub(super) fn say_leaving(&mut self, now: Now) {
        let over = |it: &Leaving| it.until_ms < now.wall_ms;
        let over: Vec<LogId> = self
            .leaving
            .iter()
            .filter(|it| over(it.1))
            .map(|it| *it.0)
            .collect();
        for log in over {
            self.stop_leaving(log);
        }
        let mut due = Vec::new();
        for (log, leaving) in &mut self.leaving {
            if leaving.due_ms <= now.steady_ms {
                let pause_ms = PAUSE_MS.saturating_mul(1 << leaving.tries.min(6));
                leaving.tries = leaving.tries.saturating_add(1);
                leaving.due_ms = now.steady_ms.saturating_add(pause_ms.min(EVERY_MS));
                due.push((leaving.owner, *log));
            }
        }
        for (owner, log) in due {
            self.say(owner, &Said::Leave(log));
        }
    }

    /// A node answers that a group is not here for this one: from the owner of one that was left, that is the end.
    pub(super) fn has_left(&mut self, from: Did, log: LogId) {
        if self.leaving.get(&log).is_some_and(|it| it.owner == from) {
            self.stop_leaving(log);
        }
    }

    /// An owner is linked: what is to be said to it is said now.
    pub(super) fn leaving_linked(&mut self, owner: Did, now: Now) {
        for leaving in self.leaving.values_mut().filter(|it| it.owner == owner) {
            leaving.due_ms = now.steady_ms;
            leaving.tries = 0;
        }
        self.say_leaving(now);
    }

    pub(super) fn stop_leaving(&mut self, log: LogId) {
        if self.leaving.remove(&log).is_some() {
            self.logs.put_row(key(LEAVING_ROWS, &log, &[]), None);
        }
    }

    pub(super) fn leaving_due_ms(&self) -> Option<u64> {
        self.leaving.values().map(|it| it.due_ms).min()
    }
}

/// `[owner, until_ms]`.
impl Encode for Leaving {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).value(&self.owner).uint(self.until_ms);
    }
}

impl<'a> Decode<'a> for Leaving {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        Ok(Self {
            owner: reader.value()?,
            until_ms: reader.uint()?,
            due_ms: 0,
            tries: 0,
        })
    }
}
