//! One group, and where this node stands with each of its hosts.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::Did;
use overlane_core::group::{GroupKey, Roster};
use overlane_core::identity::Verified;
use overlane_core::seal::SealingKey;

use super::AskId;
use super::rows::GroupRow;

/// A group of this node's.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) row: GroupRow,
    pub(super) roster: Option<Verified<Roster>>,
    /// Keys of epochs.
    pub(super) keys: BTreeMap<u64, GroupKey>,
    /// At the owner: the keys that the group's key is sealed to.
    pub(super) members: BTreeMap<Did, SealingKey>,
    pub(super) courses: BTreeMap<Did, Course>,
    /// At a host: who is told of news.
    pub(super) followers: BTreeMap<Did, Follower>,
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
    /// Something happened meanwhile: it is asked again.
    pub(super) again: bool,
    pub(super) failures: u32,
    pub(super) error: Option<String>,
    /// When the last one ended, by the steady clock.
    pub(super) ended_ms: u64,
    /// When the last one settled, by the wall clock.
    pub(super) settled_ms: Option<u64>,
    pub(super) wants: Vec<Want>,
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
            members: BTreeMap::new(),
            courses: BTreeMap::new(),
            followers: BTreeMap::new(),
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

    /// The nodes that this one greets: the hosts that it reconciles with, the others that it
    /// brings its own roster to, and whoever may have the first roster.
    pub(super) fn counterparts(&self, own: &Did, home: Option<Did>) -> BTreeSet<Did> {
        let owner = self.row.owner;
        let all = *own == owner || self.is_host(own) || self.roster.is_none();
        let mut them: BTreeSet<Did> = match all {
            true => self.hosts().iter().copied().collect(),
            false => home.into_iter().collect(),
        };
        if self.roster.is_none() {
            them.insert(owner);
        }
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
            Self::Syncing => "reconciling",
        }
    }
}
