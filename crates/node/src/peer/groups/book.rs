//! One group, and where this node stands with each of its hosts.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::Did;
use overlane_core::group::{GroupKey, Roster};
use overlane_core::identity::Verified;
use overlane_core::seal::SealingKey;

use super::AskId;
use super::earlier::{Asking, EarlierRosters};
use super::rows::GroupRow;
use crate::peer::Now;

/// A group of this node's.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) row: GroupRow,
    pub(super) roster: Option<Verified<Roster>>,
    /// Keys of epochs.
    pub(super) keys: BTreeMap<u64, GroupKey>,
    /// No key of this epoch or an earlier one is waited for, but those that are here.
    pub(super) floor: u64,
    /// At a host: the rosters of epochs that are over.
    pub(super) earlier: EarlierRosters,
    /// At the owner: the keys that the group's key is sealed to.
    pub(super) members: BTreeMap<Did, SealingKey>,
    pub(super) courses: BTreeMap<Did, Course>,
    /// At a host: who is told of news.
    pub(super) followers: BTreeMap<Did, Follower>,
    /// Of a member that numbers for itself: the host that it asks. Kept in a row.
    pub(super) home: Option<Did>,
    /// Posts waited for the number of a host that is asked no more: they are to be numbered here.
    pub(super) numbers_waiting: bool,
    /// Who waits for the first roster.
    pub(super) joining: Vec<AskId>,
    /// Below this number nothing is missing that the host has.
    pub(super) complete_to: u64,
}

/// Where this node stands with one host.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// When it is asked next, by the steady clock.
    pub(super) due_ms: u64,
    pub(super) stage: Stage,
    /// Something happened here meanwhile: it is asked again.
    pub(super) again: bool,
    /// It said meanwhile that there is something new: it is asked again once what that costs is paid.
    pub(super) news: bool,
    pub(super) failures: u32,
    pub(super) error: Option<String>,
    /// Since when it has given no answer, by the steady clock.
    pub(super) failing_since_ms: Option<u64>,
    /// When the last one ended, by the steady clock.
    pub(super) ended_ms: u64,
    /// When the last one settled, by the wall clock.
    pub(super) settled_ms: Option<u64>,
    pub(super) wants: Vec<Want>,
    /// Posts that it said it holds, and their bytes.
    pub(super) there: (u64, u64),
    /// It was not due before then, by the steady clock, when it was asked for a plan.
    pub(super) resumes_ms: Option<u64>,
    /// How far it was asked for rosters of epochs that are over.
    pub(super) asking: Asking,
}

/// What is done with a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Idle,
    /// It was greeted at this time of the steady clock.
    Greeting(u64),
    /// It answered; others reconcile first.
    Ready,
    /// It is found out what reconciling would move.
    Planning,
    Syncing,
}

/// A request that waits for a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Sync(AskId),
    Plan(AskId),
}

/// Who is told of news.
#[derive(Debug, Clone, Copy)]
pub(super) struct Follower {
    /// Until when, by the steady clock.
    pub(super) until_ms: u64,
    /// It was told, and has not asked since.
    pub(super) told: bool,
}

impl Group {
    pub(super) fn new(row: GroupRow) -> Self {
        Self {
            row,
            roster: None,
            keys: BTreeMap::new(),
            floor: 0,
            earlier: EarlierRosters::default(),
            members: BTreeMap::new(),
            courses: BTreeMap::new(),
            followers: BTreeMap::new(),
            home: None,
            numbers_waiting: false,
            joining: Vec::new(),
            complete_to: 0,
        }
    }

    pub(super) fn revision(&self) -> u64 {
        let roster = self.roster.as_ref();
        roster.map_or(0, |roster| roster.subject().revision())
    }

    /// Whether the account is a member, by the roster in force.
    pub(super) fn has(&self, account: &Did) -> bool {
        let roster = self.roster.as_ref();
        roster.is_some_and(|roster| roster.subject().has(account))
    }

    /// The hosts, by the roster in force, or by the ticket until one has come.
    pub(super) fn hosts(&self) -> &[Did] {
        match &self.roster {
            Some(roster) => roster.subject().hosts(),
            None => &self.row.hosts,
        }
    }

    pub(super) fn is_host(&self, account: &Did) -> bool {
        self.roster.is_some() && self.hosts().contains(account)
    }

    /// The key that posts are sealed under now.
    pub(super) fn key(&self) -> Option<&GroupKey> {
        self.keys.get(&self.roster.as_ref()?.subject().epoch())
    }

    /// Whether a host has given no answer for so long that others are asked.
    pub(super) fn is_gone(&self, host: &Did, gone_ms: u64, now: Now) -> bool {
        let course = self.courses.get(host);
        let since_ms = course.and_then(|course| course.failing_since_ms);
        since_ms.is_some_and(|since_ms| since_ms.saturating_add(gone_ms) <= now.steady_ms)
    }

    /// The nodes that this one greets: the hosts that it reconciles with, the others that it
    /// brings its own roster to, whoever may have the first roster, whoever may stand in for a home
    /// that is gone, and whom its user asks about.
    pub(super) fn counterparts(
        &self,
        own: &Did,
        home: Option<Did>,
        gone_ms: u64,
        now: Now,
    ) -> BTreeSet<Did> {
        let owner = self.row.owner;
        let gone = home.is_some_and(|home| self.is_gone(&home, gone_ms, now));
        let all = *own == owner || self.is_host(own) || self.roster.is_none() || gone;
        let mut them: BTreeSet<Did> = match all {
            true => self.hosts().iter().copied().collect(),
            false => home.into_iter().collect(),
        };
        if self.roster.is_none() {
            them.insert(owner);
        }
        let asked = |host: &&Did| {
            let course = self.courses.get(*host);
            course.is_some_and(|course| !course.wants.is_empty())
        };
        them.extend(self.hosts().iter().filter(asked).copied());
        them.remove(own);
        them
    }
}

impl Stage {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Greeting(_) => "asking",
            Self::Ready => "waiting",
            Self::Planning => "planning",
            Self::Syncing => "reconciling",
        }
    }
}
