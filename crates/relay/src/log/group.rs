//! The rules of groups' logs: members write what they signed, hosts hand on what members wrote.

use super::id::{LogId, address};
use super::refusal::Refusal;
use super::retention::Retention;
use super::rules::{Access, Judged, Rules};
use overlane_core::group::{GroupError, GroupId, Post, Roster};
use overlane_core::identity::{CLOCK_SKEW_MS, Verified};
use overlane_core::{Did, NetworkId};
use std::collections::BTreeMap;

/// The most groups that one node hosts or follows.
pub const GROUPS_MAX: usize = 1_024;

/// How far back a post may be dated that comes in for the first time: a month away from every host.
pub const POST_AGE_MAX_MS: u64 = 31 * 24 * 3_600 * 1_000;

/// The groups this node hosts or follows, by their rosters in force.
#[derive(Debug)]
pub struct GroupRules {
    network: NetworkId,
    retention: Retention,
    rosters: BTreeMap<LogId, Verified<Roster>>,
}

impl GroupRules {
    /// No groups yet, each to be kept so.
    pub fn new(network: NetworkId, retention: Retention) -> Self {
        Self {
            network,
            retention,
            rosters: BTreeMap::new(),
        }
    }

    /// How much of each group's log is kept from here on. What a log has beyond it goes as posts come, the oldest first,
    /// and with its age.
    pub fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Puts a roster in force: of a group that is new here, or newer than the one it has. Whoever it
    /// leaves out is served nothing from here on, also of what was asked before.
    ///
    /// # Errors
    /// It is not newer, or there are [`GROUPS_MAX`] groups.
    pub fn set_roster(&mut self, roster: Verified<Roster>) -> Result<LogId, GroupError> {
        let log = LogId::group(roster.group());
        match self.rosters.get(&log) {
            Some(current) => roster.check_follows(current)?,
            None if self.rosters.len() >= GROUPS_MAX => {
                return Err(GroupError::OverBound {
                    what: "groups",
                    found: self.rosters.len() + 1,
                    bound: GROUPS_MAX,
                });
            }
            None => {}
        }
        self.rosters.insert(log, roster);
        Ok(log)
    }

    /// The roster in force.
    pub fn roster(&self, log: &LogId) -> Option<&Verified<Roster>> {
        self.rosters.get(log)
    }

    /// Forgets a group: it is neither served nor followed any more.
    pub fn forget(&mut self, log: &LogId) -> bool {
        self.rosters.remove(log).is_some()
    }
}

impl Rules for GroupRules {
    fn access(&self, log: &LogId, peer: &Did) -> Access {
        match self.rosters.get(log) {
            Some(roster) if roster.subject().hosts().contains(peer) => Access::Holder,
            Some(roster) if roster.subject().has(peer) => Access::Member,
            _ => Access::None,
        }
    }

    fn retention(&self, _: &LogId) -> Retention {
        self.retention
    }

    /// Members. Whoever is one no more keeps what it wrote within the share of all such; and nobody can be made up by a
    /// host that lies to have more.
    fn has_share(&self, log: &LogId, author: &Did) -> bool {
        let roster = self.rosters.get(log);
        roster.is_some_and(|roster| roster.subject().has(author))
    }

    fn judge(
        &mut self,
        log: &LogId,
        envelope: &[u8],
        from: &Did,
        now_ms: u64,
    ) -> Result<Judged, Refusal> {
        let (log, peer) = (*log, *from);
        let not_here = Refusal::NotHere { log, peer };
        let roster = self.rosters.get(&log).ok_or(not_here)?;
        let group = GroupId(log.0);
        let post = Post::read(envelope, self.network, group);
        let post = post.map_err(|error| Refusal::rules(&error))?;
        let author = post.signer();
        // A member that left may have written before it did: its posts of earlier epochs still come
        // from other holders.
        let left = post.subject().epoch() < roster.subject().epoch();
        let handed_on = left && self.access(&log, from) == Access::Holder;
        if !(handed_on || roster.subject().has(&author)) {
            return Err(Refusal::rules(&GroupError::NotAMember { group, author }));
        }
        let written_ms = post.life().issued_ms;
        if written_ms > now_ms.saturating_add(CLOCK_SKEW_MS)
            || written_ms.saturating_add(POST_AGE_MAX_MS) < now_ms
                && self.access(&log, from) != Access::Holder
        {
            return Err(Refusal::TooOld { log });
        }
        Ok(Judged {
            id: address(envelope),
            author,
            expires_ms: u64::MAX,
        })
    }
}
