//! Keys of epochs that began and ended while a member was away.
//!
//! A roster carries the key of its own epoch alone. So hosts keep the last roster of every epoch that is over, and
//! give it to members that are on it: each finds its own wrapped key there, and a host finds nothing that it did not
//! see before. Whoever was not in the group then is not on that roster, and is given nothing.
//!
//! A node asks from the newest epoch that it lacks downward, one at a time, until it has all or is told that there is
//! no more for it: the host's next roster below does not list it. Law (while it was in): a member that comes back has the
//! key of every epoch that it had it of before, and of those it was in without a break up to now, as far back as its host
//! keeps their rosters ([`EARLIER_MAX`], [`EARLIER_MAX_BYTES`]). Those it was away in before a break do not come.
//!
//! A key that came is kept as it stood in its roster, sealed to the account: a start opens it again, and no post is read.

use std::collections::BTreeMap;

use overlane_core::Did;
use overlane_core::group::{GroupError, GroupId, Roster};
use overlane_core::identity::{Verified, VerifyContext};
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};
use overlane_relay::log::{Access, LogId, LogStore, LogsError};

use super::book::{Course, Group};
use super::rows::{EARLIER_ROWS, FLOOR_ROWS, key};
use super::wire::Said;
use super::{Effect, GroupEvent, Groups, GroupsError, KEYS_MAX, PAUSE_MS};
use crate::peer::Now;

/// Rosters of epochs that are over which a host keeps of one group; beyond it the oldest is let go of.
pub const EARLIER_MAX: usize = KEYS_MAX;

/// Bytes of them.
pub const EARLIER_MAX_BYTES: usize = 16 * 1024 * 1024;

/// The rosters of epochs that are over, as a host keeps them: by epoch.
#[derive(Debug, Default)]
pub(super) struct EarlierRosters {
    kept: BTreeMap<u64, Kept>,
    bytes: usize,
}

/// What is known of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) revision: u64,
    pub(super) bytes: usize,
    /// Whether it is known to be the last of its epoch; another host may know a later one if not.
    pub(super) last: bool,
}

/// How far one host was asked for such rosters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asking {
    /// The epoch that it was asked for, and has not answered.
    asked: Option<u64>,
    /// It was asked for all that is lacked from this epoch on.
    below: Option<u64>,
    /// How often it did not have what it was asked for since the epoch in force began.
    missed: u32,
    /// When it is asked again after that, by the steady clock.
    due_ms: u64,
}

/// A row: `[last, roster]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EarlierRow {
    pub(super) last: bool,
    pub(super) roster: Vec<u8>,
}

impl EarlierRosters {
    /// Puts one in, in place of an older one of its epoch. Returns the epochs that make room, which may be its own;
    /// none if what is kept is as new.
    pub(super) fn put(&mut self, epoch: u64, new: Kept) -> Option<Vec<u64>> {
        match self.kept.get(&epoch) {
            Some(old) if old.revision > new.revision => return None,
            Some(old) if old.revision == new.revision && (old.last || !new.last) => return None,
            _ => {}
        }
        self.take(epoch);
        self.bytes += new.bytes;
        self.kept.insert(epoch, new);
        let mut gone = Vec::new();
        while self.kept.len() > EARLIER_MAX || self.bytes > EARLIER_MAX_BYTES {
            let Some(oldest) = self.kept.first_key_value().map(|(epoch, _)| *epoch) else {
                break;
            };
            self.take(oldest);
            gone.push(oldest);
        }
        Some(gone)
    }

    fn take(&mut self, epoch: u64) {
        if let Some(old) = self.kept.remove(&epoch) {
            self.bytes = self.bytes.saturating_sub(old.bytes);
        }
    }

    fn is_sure(&self, epoch: u64) -> bool {
        self.kept.get(&epoch).is_some_and(|it| it.last)
    }

    /// The newest epoch at or below this one of which a roster is kept.
    fn at_or_below(&self, epoch: u64) -> Option<u64> {
        let mut below = self.kept.range(..=epoch);
        below.next_back().map(|(epoch, _)| *epoch)
    }

    pub(super) fn epochs(&self) -> impl Iterator<Item = u64> {
        self.kept.keys().copied()
    }
}

impl Asking {
    /// The host does not have what was asked for. It may come to have it: it is asked again after a pause that grows.
    fn missed(&mut self, now: Now) {
        let pause_ms = PAUSE_MS.saturating_mul(1 << self.missed.min(16));
        self.missed = self.missed.saturating_add(1);
        self.due_ms = now.steady_ms.saturating_add(pause_ms);
    }
}

impl Group {
    /// The least revision of a roster that this node wants: a member was not in before it was invited.
    fn least_earlier(&self, own: &Did) -> u64 {
        match self.is_host(own) {
            true => 0,
            false => self.row.least_revision,
        }
    }

    /// The newest epoch before the one in force, and below `below`, that this node wants to know a roster of.
    fn lacks(&self, own: &Did, below: u64) -> Option<u64> {
        let current = self.roster.as_ref()?.subject().epoch();
        let keeps = self.is_host(own);
        if !keeps && !self.has(own) {
            return None;
        }
        let lacks = |epoch: &u64| match keeps {
            true => !self.earlier.is_sure(*epoch),
            false => !self.keys.contains_key(epoch),
        };
        (1..current.min(below)).rev().take(KEYS_MAX).find(lacks)
    }

    /// Whether the key of this epoch may still come: posts of it are not shown to who follows until it is known.
    pub(super) fn awaits_key(&self, own: &Did, epoch: u64) -> bool {
        let current = self.roster.as_ref().map(|it| it.subject().epoch());
        let over = current.is_some_and(|current| epoch < current);
        // A host that has the epoch's last roster has looked for its key there; without another host nobody is asked.
        let asks = self.hosts().iter().any(|host| host != own)
            && !(self.is_host(own) && self.earlier.is_sure(epoch));
        asks && over && epoch > self.floor && self.has(own) && !self.keys.contains_key(&epoch)
    }
}

impl<S: LogStore> Groups<S> {
    /// At a host: keeps the roster that was in force, once its epoch is over.
    pub(super) fn keep_before(&mut self, log: LogId, before: &Verified<Roster>) {
        let Some(now) = self.groups.get(&log).and_then(|it| it.roster.as_ref()) else {
            return;
        };
        if before.subject().epoch() >= now.subject().epoch() {
            return;
        }
        // Revisions have no gap: what comes right before the first roster of an epoch is the last of the one before.
        let last = before.subject().revision().checked_add(1) == Some(now.subject().revision());
        self.keep_earlier(log, before, last);
        if let Some(group) = self.groups.get_mut(&log) {
            for course in group.courses.values_mut() {
                course.asking = Asking::default();
            }
        }
    }

    /// Keeps the roster of an epoch that is over; whether there is room for it.
    fn keep_earlier(&mut self, log: LogId, roster: &Verified<Roster>, last: bool) -> bool {
        let own = self.did;
        let Some(group) = self.groups.get_mut(&log).filter(|it| it.is_host(&own)) else {
            return true;
        };
        let epoch = roster.subject().epoch();
        let row = EarlierRow {
            last,
            roster: roster.to_bytes(),
        };
        let kept = Kept {
            revision: roster.subject().revision(),
            bytes: row.roster.len(),
            last,
        };
        let Some(gone) = group.earlier.put(epoch, kept) else {
            return true;
        };
        self.logs
            .put_row(earlier_row(&log, epoch), Some(to_vec(&row)));
        for gone in &gone {
            self.counters.earlier_let_go += 1;
            self.logs.put_row(earlier_row(&log, *gone), None);
        }
        !gone.contains(&epoch)
    }

    /// Asks a host that was greeted for what this node lacks, if it was not asked yet, or not lately.
    pub(super) fn ask_for_earlier(&mut self, log: LogId, host: Did, now: Now) {
        let Some(course) = self.course(&log, &host) else {
            return;
        };
        if course.asking.missed > 0 && course.asking.due_ms <= now.steady_ms {
            course.asking.below = None;
        }
        self.ask_next_earlier(log, host);
    }

    fn ask_next_earlier(&mut self, log: LogId, host: Did) {
        let own = self.did;
        let Some(group) = self.groups.get_mut(&log) else {
            return;
        };
        let Some(asking) = group.courses.get(&host).map(|it| it.asking) else {
            return;
        };
        let lacks = group.lacks(&own, asking.below.unwrap_or(u64::MAX));
        let lacks = lacks.filter(|_| group.is_host(&host));
        if let Some(course) = group.courses.get_mut(&host) {
            course.asking.asked = lacks;
        }
        let revision = group.least_earlier(&own);
        if let Some(epoch) = lacks {
            let ask = Said::AskEarlier {
                log,
                epoch,
                revision,
            };
            self.counters.earlier_asked += 1;
            self.say(host, &ask);
        }
    }

    /// A member or a host asks for the roster of an epoch that is over.
    pub(super) fn asked_for_earlier(&mut self, from: Did, log: LogId, epoch: u64, revision: u64) {
        let access = self.access(&log, &from);
        if access == Access::None {
            return self.turn_away(from, log);
        }
        let found = self.groups.get(&log);
        let found = found.and_then(|it| it.earlier.at_or_below(epoch));
        let bytes = match found.map(|epoch| self.read_earlier(&log, epoch)) {
            Some(Err(_)) => return,
            Some(Ok(row)) => row.map(|it| it.roster),
            None => None,
        };
        // Who was in the group then is shown to hosts, and to those who were.
        let shown = |it: Roster| {
            let it = it.subject();
            it.revision() >= revision && (access == Access::Holder || it.has(&from))
        };
        let bytes = bytes.filter(|bytes| from_slice(bytes).is_ok_and(shown));
        match bytes {
            Some(bytes) => {
                self.counters.earlier_given += 1;
                self.say(from, &Said::Earlier(&bytes));
            }
            None => {
                self.say(from, &Said::NoEarlier { log, epoch });
            }
        }
    }

    fn read_earlier(&mut self, log: &LogId, epoch: u64) -> Result<Option<EarlierRow>, GroupsError> {
        let rows = self.logs.store().rows(&earlier_row(log, epoch));
        let rows = self.check(rows.map_err(LogsError::Store))?;
        let first = rows.into_iter().next();
        Ok(first.and_then(|(_, row)| from_slice(&row).ok()))
    }

    /// A host gives the roster of an epoch that is over.
    pub(super) fn heard_earlier(&mut self, from: Did, bytes: &[u8], now: Now) {
        match self.try_earlier(from, bytes, now) {
            Ok(()) => self.counters.earlier += 1,
            Err(_) => self.counters.rosters_refused += 1,
        }
    }

    fn try_earlier(&mut self, from: Did, bytes: &[u8], now: Now) -> Result<(), GroupsError> {
        let own = self.did;
        // What needs no signature to be of no use here comes first.
        let claimed: Roster = from_slice(bytes).map_err(GroupError::from)?;
        let (group, epoch) = (claimed.group(), claimed.subject().epoch());
        let log = LogId::group(group);
        let known = self.groups.get(&log);
        let known = known.ok_or(GroupsError::NotKnown { group })?;
        let (owner, keeps) = (known.row.owner, known.is_host(&own));
        let asked = known.courses.get(&from).and_then(|it| it.asking.asked);
        let (current, found) = (known.revision(), claimed.subject().revision());
        let least = known.least_earlier(&own);
        let asked = asked.filter(|asked| epoch <= *asked && (least..current).contains(&found));
        let asked = asked.ok_or(GroupError::OldRevision { current, found })?;
        // It counts whatever the time: a key for what was posted then comes of it, and nothing else.
        let context = VerifyContext {
            network: self.network,
            now_ms: claimed.life().issued_ms,
        };
        let roster = Roster::read(bytes, &context)?;
        self.take_key(log, &roster);
        let has_room = self.keep_earlier(log, &roster, from == owner);
        let known = self.groups.get(&log);
        let has_key = known.is_some_and(|it| it.keys.contains_key(&epoch));
        // Nobody gives what lies between, and before it was in there is nothing for a member.
        if !has_key || !keeps && epoch < asked {
            self.raise_floor(log, asked);
        }
        if let Some(course) = self.course(&log, &from) {
            course.asking.asked = None;
            course.asking.below = Some(epoch);
            if epoch < asked {
                course.asking.missed(now);
            }
        }
        match if keeps { has_room } else { has_key } {
            true => self.ask_next_earlier(log, from),
            false => self.denied_earlier(log, from, now),
        }
        self.held.push(Effect::Event(GroupEvent::Keys { group }));
        Ok(())
    }

    /// A host has no roster of this epoch or an earlier one for this node.
    pub(super) fn told_no_earlier(&mut self, from: Did, log: LogId, epoch: u64, now: Now) {
        let asked = self.course(&log, &from).and_then(|it| it.asking.asked);
        if asked != Some(epoch) {
            return;
        }
        self.denied_earlier(log, from, now);
        self.raise_floor(log, epoch);
        let group = GroupId(log.0);
        self.held.push(Effect::Event(GroupEvent::Keys { group }));
    }

    /// There is no more at this host for now.
    fn denied_earlier(&mut self, log: LogId, host: Did, now: Now) {
        if let Some(Course { asking, .. }) = self.course(&log, &host) {
            asking.asked = None;
            asking.below = Some(0);
            asking.missed(now);
        }
    }

    /// No key of this epoch or an earlier one is waited for any more.
    pub(super) fn raise_floor(&mut self, log: LogId, epoch: u64) {
        let group = self.groups.get_mut(&log);
        let Some(group) = group.filter(|it| it.floor < epoch) else {
            return;
        };
        group.floor = epoch;
        let row = key(FLOOR_ROWS, &log, &[]);
        self.logs.put_row(row, Some(epoch.to_be_bytes().to_vec()));
    }
}

pub(super) fn earlier_row(log: &LogId, epoch: u64) -> Vec<u8> {
    key(EARLIER_ROWS, log, &epoch.to_be_bytes())
}

impl Encode for EarlierRow {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).boolean(self.last).bytes(&self.roster);
    }
}

impl<'a> Decode<'a> for EarlierRow {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        Ok(Self {
            last: reader.boolean()?,
            roster: reader.bytes()?.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(revision: u64, bytes: usize) -> Kept {
        let last = false;
        Kept {
            revision,
            bytes,
            last,
        }
    }

    /// Many small ones, and few large ones: the oldest epochs make room.
    #[test]
    fn law_rosters_of_epochs_that_are_over_are_bounded_in_number_and_bytes() {
        for (bytes, most) in [(1, EARLIER_MAX), (30_000, EARLIER_MAX_BYTES / 30_000)] {
            let mut earlier = EarlierRosters::default();
            for epoch in 1..=most as u64 {
                assert_eq!(earlier.put(epoch, kept(epoch, bytes)), Some(vec![]));
            }
            let next = most as u64 + 1;
            assert_eq!(earlier.put(next, kept(next, bytes)), Some(vec![1]));
            // One that is older than all finds no room, and takes none away.
            assert_eq!(earlier.put(1, kept(1, bytes)), Some(vec![1]));
            assert_eq!(earlier.epochs().next(), Some(2));
            assert_eq!(earlier.bytes, most * bytes);
        }
    }

    #[test]
    fn law_the_later_roster_of_an_epoch_stays() {
        let mut earlier = EarlierRosters::default();
        assert_eq!(earlier.put(3, kept(5, 10)), Some(vec![]));
        assert_eq!(earlier.put(3, kept(4, 10)), None);
        assert_eq!(earlier.put(3, kept(5, 10)), None, "nothing new");
        let last = Kept {
            last: true,
            ..kept(6, 20)
        };
        assert_eq!(earlier.put(3, last), Some(vec![]));
        assert_eq!(
            earlier.put(3, kept(6, 20)),
            None,
            "it is known to be the last"
        );
        assert!(earlier.is_sure(3));
        assert_eq!((earlier.bytes, earlier.at_or_below(9)), (20, Some(3)));
        assert_eq!(earlier.at_or_below(2), None);
    }
}
