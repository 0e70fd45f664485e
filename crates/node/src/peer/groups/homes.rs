//! Which host a member asks, and what it does when that one is gone.
//!
//! A member asks one host, its **home**. While it follows it, its posts have that host's numbers, and what it writes waits
//! for them. A home that has given no answer for [`GONE_MS`](super::GONE_MS), or as
//! long as its user says, is gone: then the other hosts are greeted too,
//! and the first that answers is the home from there on. Two hosts number apart, so the member keeps the numbers it has,
//! numbers for itself what comes, and reconciles in the space that all holders share. The same happens when the roster
//! lists the home no more, when the home numbered anew, and when the user asks for another host. Whom a member went over
//! to is kept: it is asked after a restart, too.
//!
//! Law (none waits for ever): what waited for the number of a host that is asked no more is numbered here then, in the
//! order it was written, and goes to the next host; an envelope has one name everywhere, so what the old host had taken
//! already comes once. What no host takes any more is refused by name.

use std::collections::BTreeMap;

use overlane_core::Did;
use overlane_core::group::GroupId;
use overlane_recon::Report;
use overlane_relay::log::group::POST_AGE_MAX_MS;
use overlane_relay::log::{LogId, LogStore, Numbering, is_passing};

use super::book::{Course, Stage, Want};
use super::rows::{HOME_ROWS, key};
use super::{Effect, GroupEvent, Groups, GroupsError};
use crate::peer::Now;

impl<S: LogStore> Groups<S> {
    /// The hosts that a group is asked of now, after its roster, its home or what is known of them changed.
    pub(super) fn set_courses(&mut self, log: LogId, now: Now) {
        let home = self.home(&log);
        let own = self.did;
        let Some(group) = self.groups.get_mut(&log) else {
            return;
        };
        let wanted = group.counterparts(&own, home, self.host_gone_ms, now);
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut group.courses)
            .into_iter()
            .partition(|(host, _)| wanted.contains(host));
        group.courses = kept;
        for host in wanted {
            group.courses.entry(host).or_insert_with(|| Course {
                due_ms: now.steady_ms,
                ..Course::default()
            });
        }
        for (host, course) in gone {
            self.logs.give_up(log, host);
            for want in course.wants {
                self.answer_want(want, Err(GroupsError::NotAHost { host }));
            }
        }
    }

    /// The host that a member asks; none at a host, which asks all others.
    pub(super) fn home(&mut self, log: &LogId) -> Option<Did> {
        match self.logs.numbering(log) {
            Ok(Numbering::Of(host)) => Some(host),
            Ok(Numbering::Own) => {
                let group = self.groups.get(log)?;
                if group.is_host(&self.did) {
                    return None;
                }
                let chosen = group.home.filter(|home| group.hosts().contains(home));
                let first = || group.hosts().iter().find(|host| **host != self.did);
                chosen.or_else(|| first().copied())
            }
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    /// Whether this node reconciles with the host, and does not only bring it the roster.
    pub(super) fn reconciles(&mut self, log: &LogId, host: &Did) -> bool {
        let home = self.home(log);
        let Some(group) = self.groups.get(log) else {
            return false;
        };
        let both = group.is_host(&self.did) && group.is_host(host);
        both || (group.is_host(host) && home == Some(*host))
    }

    /// The host that a request is about.
    pub(super) fn host_for(
        &mut self,
        group: GroupId,
        with: Option<Did>,
    ) -> Result<Did, GroupsError> {
        let log = LogId::group(group);
        let known = self.groups.get(&log);
        let known = known.ok_or(GroupsError::NotKnown { group })?;
        if known.roster.is_none() {
            return Err(GroupsError::NoRoster);
        }
        match with {
            Some(host) if host != self.did && known.is_host(&host) => Ok(host),
            Some(host) => Err(GroupsError::NotAHost { host }),
            None => {
                let hosts: Vec<_> = known.courses.keys().copied().collect();
                let mut hosts = hosts.into_iter();
                let host = hosts.find(|host| self.reconciles(&log, host));
                host.ok_or(GroupsError::Alone)
            }
        }
    }

    /// A host answered. One that is not the home becomes it, if the home is gone or the user wants that.
    pub(super) fn answered(&mut self, log: LogId, from: Did, now: Now) {
        let home = self.home(&log);
        let (own, gone_ms) = (self.did, self.host_gone_ms);
        let Some(group) = self.groups.get_mut(&log) else {
            return;
        };
        let gone = home.is_none_or(|home| group.is_gone(&home, gone_ms, now));
        let stands_in = group.is_host(&from) && !group.is_host(&own) && home != Some(from);
        let Some(course) = group.courses.get_mut(&from) else {
            return;
        };
        course.failing_since_ms = None;
        let wanted = course.wants.iter().any(|it| matches!(it, Want::Sync(_)));
        if stands_in && (gone || wanted) {
            self.go_over(log, from, now);
        } else if !stands_in {
            // Who might have stood in for it is asked no more.
            self.set_courses(log, now);
        }
    }

    /// From here on this member asks that host, and numbers for itself.
    pub(super) fn go_over(&mut self, log: LogId, host: Did, now: Now) {
        tracing::info!(group = %GroupId(log.0), %host, "another host of the group is asked from now on");
        self.counters.went_over += 1;
        if let Some(group) = self.groups.get_mut(&log) {
            group.home = Some(host);
            let row = key(HOME_ROWS, &log, &[]);
            self.logs.put_row(row, Some(host.0.to_vec()));
        }
        self.number_here(log);
        self.set_courses(log, now);
        // What the old numbers held back from who follows can be read now.
        let next = self.logs.next_seq(&log);
        if let Ok(to) = self.check(next) {
            let group = GroupId(log.0);
            self.held
                .push(Effect::Event(GroupEvent::Complete { group, to }));
        }
    }

    /// Numbers a log here from now on, and what waits for another's number too.
    pub(super) fn number_here(&mut self, log: LogId) {
        let held = self.logs.hold(log);
        if self.check(held).is_ok()
            && let Some(group) = self.groups.get_mut(&log)
        {
            group.numbers_waiting = true;
        }
    }

    /// Numbers what waited for the number of a host that is asked no more, as much as a transaction takes. What waits is
    /// read from the store, so this comes after a commit. Whether anything was done.
    pub(super) fn number_what_waits(&mut self, now: Now) -> bool {
        let own = self.own();
        let groups = self.groups.iter().filter(|it| it.1.numbers_waiting);
        let logs: Vec<_> = groups.map(|(log, _)| *log).collect();
        for log in &logs {
            let more = self.logs.number_waiting(*log, own, now.wall_ms);
            let Ok(more) = self.check(more) else {
                break;
            };
            if let Some(group) = self.groups.get_mut(log) {
                group.numbers_waiting = more;
            }
            self.ask_soon(log, now);
        }
        !logs.is_empty()
    }

    /// A member that numbers for itself lets go of what it wrote and a host refuses for good: it is told, as of what
    /// waits for a number.
    pub(super) fn take_refusals(&mut self, log: LogId, with: Did, report: &Report) {
        let own = self.did;
        let hosts = self.groups.get(&log).is_none_or(|it| it.is_host(&own));
        if hosts || self.home(&log) != Some(with) {
            return;
        }
        // What lies below was numbered by a host that was followed: it was posted, whatever this one says.
        let taken = self.groups.get(&log).map_or(0, |it| it.complete_to);
        for refused in &report.refused_by_peer {
            if is_passing(&refused.why) {
                continue;
            }
            let entry = self.logs.entry_of(&log, &refused.id);
            let Ok(entry) = self.check(entry) else {
                return;
            };
            if entry.is_none_or(|entry| entry.author != own || entry.seq < taken) {
                continue;
            }
            let removed = self.logs.remove(&log, &refused.id);
            if self.check(removed).is_err() {
                return;
            }
            self.counters.posts_refused += 1;
            self.held.push(Effect::Event(GroupEvent::PostRefused {
                group: GroupId(log.0),
                id: refused.id,
                code: refused.why.clone(),
            }));
        }
    }

    /// What waits for a number for longer than any host would still take it is refused.
    pub(super) fn give_up_waiting(&mut self, log: LogId, now: Now) {
        let before_ms = now.wall_ms.saturating_sub(POST_AGE_MAX_MS);
        let given_up = self.logs.give_up_waiting(&log, before_ms);
        let _ = self.check(given_up);
    }

    /// A link to a host is gone: whether it can still be reached is asked soon.
    pub(super) fn link_lost(&mut self, host: Did, now: Now) {
        let soon_ms = now.steady_ms.saturating_add(super::PAUSE_MS);
        for group in self.groups.values_mut() {
            if let Some(course) = group.courses.get_mut(&host)
                && course.stage == Stage::Idle
            {
                course.due_ms = course.due_ms.min(soon_ms);
            }
        }
    }
}
