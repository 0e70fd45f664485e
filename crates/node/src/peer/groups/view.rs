//! What is shown of groups.

use overlane_core::group::GroupId;
use overlane_relay::log::{LogId, LogStore, Numbering};

use super::{CourseView, GroupView, Groups, GroupsError};

/// What groups did since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupCounters {
    /// Messages heard.
    pub heard: u64,
    /// Messages, or frames in them, that are none.
    pub malformed: u64,
    /// Messages of nodes that are on no roster here.
    pub turned_away: u64,
    /// Words that found no room.
    pub not_said: u64,
    /// Posts kept.
    pub kept: u64,
    /// Posts let go of.
    pub let_go: u64,
    /// Posts of this node's own that a host refused.
    pub posts_refused: u64,
    /// Changes to another host, as the one that was asked is gone, numbered anew, or its user wanted it.
    pub went_over: u64,
    /// Reconciliations that settled.
    pub settled: u64,
    /// Greetings and reconciliations that failed.
    pub failed: u64,
    /// Rosters taken.
    pub rosters: u64,
    /// Rosters refused.
    pub rosters_refused: u64,
    /// Rosters of epochs that are over asked for.
    pub earlier_asked: u64,
    /// Such rosters taken.
    pub earlier: u64,
    /// Such rosters given.
    pub earlier_given: u64,
    /// Such rosters let go of, as there were more than a bound.
    pub earlier_let_go: u64,
    /// News told to followers.
    pub news: u64,
}

/// What the groups of a node come to, at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupNumbers {
    /// Groups.
    pub groups: usize,
    /// Requests that wait for other nodes.
    pub asks_waiting: usize,
    /// Nodes with something that waits to be said to them.
    pub lines: usize,
    /// Reconciliations that are driven.
    pub syncing: usize,
    /// Counts since the start.
    pub counters: GroupCounters,
    /// What the logs did since the start.
    pub logs: overlane_relay::log::Counters,
}

impl<S: LogStore> Groups<S> {
    /// What groups come to.
    pub fn numbers(&self) -> GroupNumbers {
        GroupNumbers {
            groups: self.groups.len(),
            asks_waiting: self.waiting,
            lines: self.lines.len(),
            syncing: self.logs.syncing(),
            counters: self.counters,
            logs: self.logs.counters(),
        }
    }

    /// Counts since the start.
    pub fn counters(&self) -> GroupCounters {
        self.counters
    }

    /// Why the store failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub(super) fn view(&mut self, log: &LogId) -> Result<GroupView, GroupsError> {
        let size = self.logs.size(log);
        let (posts, bytes) = self.check(size)?;
        let waiting = self.logs.waiting(log);
        let waiting = self.check(waiting)?;
        let numbering = self.logs.numbering(log);
        let follows = match self.check(numbering)? {
            Numbering::Own => None,
            Numbering::Of(host) => Some(host),
        };
        let asks = self.home(log);
        let id = GroupId(log.0);
        let group = self.groups.get(log);
        let group = group.ok_or(GroupsError::NotKnown { group: id })?;
        let roster = group.roster.as_ref();
        let members = roster.map(|it| it.subject().members().iter().map(|it| it.member).collect());
        let courses = group.courses.iter().map(|(with, course)| CourseView {
            with: *with,
            stage: course.stage.name(),
            settled_ms: course.settled_ms,
            failures: course.failures,
            error: course.error.clone(),
        });
        Ok(GroupView {
            group: id,
            network: self.network,
            name: group.row.name.clone(),
            owner: group.row.owner,
            owned: group.row.owner == self.did,
            revision: group.revision(),
            epoch: roster.map_or(0, |it| it.subject().epoch()),
            roster_ends_ms: roster.map_or(0, |it| it.life().last_ms()),
            members: members.unwrap_or_default(),
            hosts: group.hosts().to_vec(),
            member: group.has(&self.did),
            host: group.is_host(&self.did),
            follows,
            asks,
            posts,
            bytes,
            waiting,
            keys: group.keys.len(),
            courses: courses.collect(),
        })
    }
}
