//! Rosters: made and changed by the owner, taken from whoever brings a newer one.

use std::collections::BTreeMap;

use overlane_core::Did;
use overlane_core::group::{
    GroupError, GroupId, GroupKey, Membership, ROSTER_TTL_MAX_MS, Roster, RosterSubject,
};
use overlane_core::identity::{CLOCK_SKEW_MS, Life, Verified, VerifyContext};
use overlane_core::seal::SealingKey;
use overlane_core::wire::cbor::{from_slice, to_vec};
use overlane_relay::log::{Access, LogId, LogStore, Numbering};

use super::book::Group;
use super::earlier::earlier_row;
use super::rows::{
    COMPLETE_ROWS, FLOOR_ROWS, GROUP_ROWS, HOME_ROWS, KEY_ROWS, LEFT_ROWS, MEMBER_ROWS, key,
};
use super::wire::Said;
use super::{
    Effect, GroupEvent, Groups, GroupsError, KEYS_MAX, MAINTAIN_MS, TRIM_AGAIN_MS, TRIM_PARTS_MAX,
};
use crate::peer::Now;

/// Envelopes of a log that was left that one call deletes.
const DELETED_PER_CALL: usize = 256;

/// What a roster says, before it is signed.
pub(super) struct Draft {
    pub(super) nonce: [u8; 16],
    pub(super) revision: u64,
    pub(super) key: GroupKey,
    pub(super) members: BTreeMap<Did, SealingKey>,
    pub(super) hosts: Vec<Did>,
}

impl<S: LogStore> Groups<S> {
    /// Signs a roster, and puts it in force here.
    pub(super) fn sign_roster(
        &mut self,
        group: GroupId,
        draft: Draft,
        now: Now,
    ) -> Result<(), GroupsError> {
        let Draft {
            nonce,
            revision,
            key,
            members,
            hosts,
        } = draft;
        let mut listed = Vec::with_capacity(members.len());
        for (member, to) in &members {
            let seed = self.draw();
            let key = key.wrap(group, *member, to, seed)?;
            let member = *member;
            listed.push(Membership { member, key });
        }
        let subject = RosterSubject::new(nonce, revision, key.epoch(), listed, hosts)?;
        let life = Life {
            issued_ms: now.wall_ms,
            ttl_ms: ROSTER_TTL_MAX_MS,
        };
        let signed = Roster::sign(subject, &self.signer, life).map_err(GroupError::from)?;
        let context = VerifyContext {
            network: self.network,
            now_ms: now.wall_ms,
        };
        let roster = Verified::verify(signed, &context).map_err(GroupError::from)?;
        let log = LogId::group(group);
        if let Some(known) = self.groups.get_mut(&log) {
            known.members = members;
        }
        self.put_in_force(log, roster, None, now)
    }

    /// A roster that another node brings.
    pub(super) fn heard_roster(&mut self, from: Did, bytes: &[u8], now: Now) {
        let taken = self.try_roster(from, bytes, now);
        match taken {
            Ok(true) => self.counters.rosters += 1,
            Ok(false) => {}
            Err(_) => self.counters.rosters_refused += 1,
        }
    }

    fn try_roster(&mut self, from: Did, bytes: &[u8], now: Now) -> Result<bool, GroupsError> {
        // What needs no signature to be of no use here comes first.
        let claimed: Roster = from_slice(bytes).map_err(GroupError::from)?;
        let group = claimed.group();
        let log = LogId::group(group);
        let known = self.groups.get(&log);
        let known = known.ok_or(GroupsError::NotKnown { group })?;
        let current = known
            .revision()
            .max(known.row.least_revision.saturating_sub(1));
        let found = claimed.subject().revision();
        if found <= current {
            return Ok(false);
        }
        let context = VerifyContext {
            network: self.network,
            now_ms: now.wall_ms,
        };
        let roster = Roster::read(bytes, &context)?;
        self.put_in_force(log, roster, Some(from), now)?;
        Ok(true)
    }

    /// Puts a roster in force: from here on it says who is served, and whom this node asks.
    fn put_in_force(
        &mut self,
        log: LogId,
        roster: Verified<Roster>,
        from: Option<Did>,
        now: Now,
    ) -> Result<(), GroupsError> {
        self.logs.rules().set_roster(roster.clone())?;
        let revision = roster.subject().revision();
        let known = self.groups.get(&log);
        let last = known.and_then(|it| it.roster.clone());
        let before = known.map(|it| it.hosts().to_vec());
        self.take_key(log, &roster);
        self.take_members(log, &roster);
        if let Some(group) = self.groups.get_mut(&log) {
            group.row.roster = Some(roster.to_bytes());
            group.roster = Some(roster);
        }
        self.keep_group(log);
        if let Some(last) = last {
            self.keep_before(log, &last);
        }
        self.number(log, from)?;
        self.set_courses(log, now);
        let own = self.did;
        let followers = self.groups.get(&log).map(|it| it.followers.keys().copied());
        for follower in followers.into_iter().flatten().collect::<Vec<_>>() {
            if self.access(&log, &follower) == Access::None
                && let Some(group) = self.groups.get_mut(&log)
            {
                group.followers.remove(&follower);
            }
        }
        // A host that is none any more is told, so that it serves nobody who is not listed now.
        let tells = |it: &Group| it.row.owner == own || it.is_host(&own);
        let gone = before.filter(|_| self.groups.get(&log).is_some_and(tells));
        let gone = gone.unwrap_or_default();
        if let Some(bytes) = self.groups.get(&log).and_then(|it| it.row.roster.clone()) {
            for host in gone {
                let still = self.groups.get(&log).is_some_and(|it| it.is_host(&host));
                if !still && host != own {
                    self.say(host, &Said::Roster(&bytes));
                }
            }
        }
        // The others hear of it when they are greeted, which is now.
        if let Some(group) = self.groups.get_mut(&log) {
            for course in group.courses.values_mut() {
                course.due_ms = course.due_ms.min(now.steady_ms);
                course.again = true;
            }
            let joins = std::mem::take(&mut group.joining);
            self.answer_joins(log, joins);
        }
        let group = GroupId(log.0);
        let told = GroupEvent::Roster { group, revision };
        self.held.push(Effect::Event(told));
        Ok(())
    }

    /// At the owner: whom a roster of its own leaves out, no later one takes in again. It may come from
    /// others, to one that was put back from a copy.
    fn take_members(&mut self, log: LogId, roster: &Verified<Roster>) {
        let own = self.did;
        let owned = self.groups.get_mut(&log).filter(|it| it.row.owner == own);
        let Some(group) = owned else {
            return;
        };
        let gone = |member: &Did| !roster.subject().has(member);
        let gone: Vec<_> = group.members.keys().copied().filter(gone).collect();
        for member in gone {
            group.members.remove(&member);
            self.logs.put_row(key(MEMBER_ROWS, &log, &member.0), None);
        }
    }

    /// Opens the key of the roster's epoch, if this node is a member, and keeps it.
    pub(super) fn take_key(&mut self, log: LogId, roster: &Verified<Roster>) {
        let Some(secret) = self.secret.as_ref() else {
            return;
        };
        let own = self.did;
        let epoch = roster.subject().epoch();
        let listed = roster.subject().members().iter();
        let Some(wrapped) = listed.into_iter().find(|it| it.member == own) else {
            return;
        };
        let Some(group) = self.groups.get_mut(&log) else {
            return;
        };
        if group.keys.contains_key(&epoch) {
            return;
        }
        match roster.key(own, secret) {
            Ok(key) => {
                group.keys.insert(epoch, key);
                let row = key_row(&log, epoch);
                self.logs.put_row(row, Some(wrapped.key.clone()));
                let oldest = group.keys.first_key_value().map(|(epoch, _)| *epoch);
                if let Some(oldest) = oldest.filter(|_| group.keys.len() > KEYS_MAX) {
                    group.keys.remove(&oldest);
                    self.logs.put_row(key_row(&log, oldest), None);
                    self.raise_floor(log, oldest);
                }
            }
            Err(error) => {
                tracing::warn!(group = %GroupId(log.0), %error, "the group's key does not open");
            }
        }
    }

    /// Says whose numbers the log has here: this node's own at a host, else those of the host that it
    /// went over to, of the one that brought the roster, or of the first.
    fn number(&mut self, log: LogId, from: Option<Did>) -> Result<(), GroupsError> {
        let numbering = self.logs.numbering(&log);
        let numbering = self.check(numbering)?;
        let Some(group) = self.groups.get(&log) else {
            return Ok(());
        };
        let hosts = group.hosts();
        let hosts_it = group.is_host(&self.did);
        let first = [group.home, from].into_iter().flatten();
        let first = first
            .filter(|it| hosts.contains(it))
            .chain(hosts.first().copied())
            .next();
        match (numbering, first) {
            (Numbering::Of(host), _) if hosts_it || !hosts.contains(&host) => {
                self.number_here(log);
            }
            (Numbering::Own, Some(first)) if !hosts_it => {
                let follows = self.logs.follow(log, first);
                self.check(follows)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Keeps what is known of a group.
    pub(super) fn keep_group(&mut self, log: LogId) {
        let Some(group) = self.groups.get(&log) else {
            return;
        };
        self.logs
            .put_row(key(GROUP_ROWS, &log, &[]), Some(to_vec(&group.row)));
        if group.row.owner != self.did {
            return;
        }
        for (member, sealing) in &group.members {
            let row = key(MEMBER_ROWS, &log, &member.0);
            self.logs.put_row(row, Some(sealing.as_bytes().to_vec()));
        }
    }

    /// Forgets a group, and begins to delete its log.
    pub(super) fn forget_group(&mut self, log: LogId) {
        let Some(group) = self.groups.remove(&log) else {
            return;
        };
        self.logs.rules().forget(&log);
        self.logs.put_row(key(GROUP_ROWS, &log, &[]), None);
        self.logs.put_row(key(COMPLETE_ROWS, &log, &[]), None);
        self.logs.put_row(key(FLOOR_ROWS, &log, &[]), None);
        self.logs.put_row(key(HOME_ROWS, &log, &[]), None);
        for epoch in group.earlier.epochs() {
            self.logs.put_row(earlier_row(&log, epoch), None);
        }
        for epoch in group.keys.keys() {
            self.logs.put_row(key_row(&log, *epoch), None);
        }
        for member in group.members.keys() {
            self.logs.put_row(key(MEMBER_ROWS, &log, &member.0), None);
        }
        self.logs
            .put_row(key(LEFT_ROWS, &log, &[]), Some(Vec::new()));
        self.left.insert(log);
    }

    /// Deletes some of a log that was left.
    pub(super) fn delete_left(&mut self) {
        let Some(log) = self.left.first().copied() else {
            return;
        };
        if self.logs.is_full() {
            return;
        }
        let entries = self.logs.store().entries(&log, 0, DELETED_PER_CALL);
        let entries = entries.map_err(overlane_relay::log::LogsError::Store);
        let Ok(entries) = self.check(entries) else {
            return;
        };
        for entry in &entries {
            let removed = self.logs.remove(&log, &entry.id);
            if self.check(removed).is_err() {
                return;
            }
        }
        if entries.is_empty() {
            let emptied = self.logs.forget(&log);
            if self.check(emptied).is_ok() {
                self.logs.put_row(key(LEFT_ROWS, &log, &[]), None);
                self.left.remove(&log);
            }
        }
    }

    /// The owner of a group is asked to take a node off its roster.
    pub(super) fn asked_to_remove(&mut self, from: Did, log: LogId, now: Now) {
        if self.access(&log, &from) == Access::None {
            return self.turn_away(from, log);
        }
        let group = GroupId(log.0);
        match self.remove(group, from, now) {
            // Told once that is durable; until then it asks again.
            Ok(()) => drop(self.say(from, &Said::NotHere(log))),
            Err(error) => {
                tracing::warn!(%group, %from, %error, "one who leaves is not taken off the roster");
            }
        }
    }

    /// Takes an account off the roster, and begins an epoch without it.
    pub(super) fn remove(
        &mut self,
        group: GroupId,
        account: Did,
        now: Now,
    ) -> Result<(), GroupsError> {
        let mut draft = self.next_draft(group, Some(account))?;
        let was = draft.members.len() + draft.hosts.len();
        let member = draft.members.remove(&account).is_some();
        draft.hosts.retain(|host| *host != account);
        if was == draft.members.len() + draft.hosts.len() {
            return Err(GroupsError::NotIn { account });
        }
        if account == self.did {
            let members = was.saturating_sub(2);
            return Err(GroupsError::OwnerStays { members });
        }
        if member {
            let epoch = draft.key.epoch().saturating_add(1);
            draft.key = GroupKey::new(epoch, self.draw());
            self.logs
                .put_row(key(MEMBER_ROWS, &LogId::group(group), &account.0), None);
        }
        self.sign_roster(group, draft, now)
    }

    /// What the owner's next roster says, unless something is changed: of `about` its user says what.
    pub(super) fn next_draft(
        &self,
        group: GroupId,
        about: Option<Did>,
    ) -> Result<Draft, GroupsError> {
        let known = self.groups.get(&LogId::group(group));
        let known = known.ok_or(GroupsError::NotKnown { group })?;
        let owner = known.row.owner;
        if owner != self.did {
            return Err(GroupsError::NotOwner { owner });
        }
        let roster = known.roster.as_ref().ok_or(GroupsError::NoRoster)?;
        let listed = roster.subject().members().iter().map(|it| it.member);
        let mut unknown = listed.filter(|it| !known.members.contains_key(it) && about != Some(*it));
        if let Some(account) = unknown.next() {
            return Err(GroupsError::MemberKeyUnknown { account });
        }
        Ok(Draft {
            nonce: *roster.subject().nonce(),
            revision: roster.subject().revision().saturating_add(1),
            key: known.key().cloned().ok_or(GroupsError::NoSealingKey)?,
            members: known.members.clone(),
            hosts: roster.subject().hosts().to_vec(),
        })
    }

    /// Signs rosters of this node's own again before they end, or if they are dated ahead, lets go of what is too old, and
    /// stops serving groups whose roster has ended.
    pub(super) fn maintain(&mut self, now: Now) {
        self.logs.forget_idle(now.wall_ms);
        let logs: Vec<_> = self.groups.keys().copied().collect();
        let mut parts = TRIM_PARTS_MAX;
        for log in logs {
            let expired = self.logs.expire(&log, now.wall_ms);
            if self.check(expired).is_err() || self.trim(&log, &mut parts, now).is_err() {
                return;
            }
            self.give_up_waiting(log, now);
            let Some(group) = self.groups.get(&log) else {
                continue;
            };
            let Some(roster) = group.roster.as_ref() else {
                continue;
            };
            let life = roster.life();
            let half_ms = life.issued_ms.saturating_add(life.ttl_ms / 2);
            // Signed while this node's clock was ahead: nobody takes it before then, and who it leaves out stays in.
            let ahead = is_ahead(life, now) || is_ahead(roster.delegation().life(), now);
            // One that was put back from a copy is told by its hosts first what it has forgotten.
            let told = self.opened_ms.saturating_add(MAINTAIN_MS) <= now.steady_ms;
            let again = half_ms <= now.wall_ms
                || ahead && told && !is_ahead(self.signer.delegation().life(), now);
            if group.row.owner == self.did && again {
                self.renew(log, now);
            } else if life.last_ms() < now.wall_ms && self.logs.rules().forget(&log) {
                tracing::warn!(group = %GroupId(log.0), "the group's roster has ended: its owner signs another");
            }
        }
    }

    /// A log of which less is kept from now on lets go of what is too much, however little comes: of all logs so many
    /// parts in each maintenance, and the next is soon while there is more.
    fn trim(&mut self, log: &LogId, parts: &mut usize, now: Now) -> Result<(), GroupsError> {
        while *parts > 0 {
            let more = self.logs.trim(log);
            if !self.check(more)? {
                return Ok(());
            }
            self.commit(now);
            *parts -= 1;
        }
        self.maintain_ms = now.steady_ms.saturating_add(TRIM_AGAIN_MS);
        Ok(())
    }

    fn renew(&mut self, log: LogId, now: Now) {
        let group = GroupId(log.0);
        let renewed = self
            .next_draft(group, None)
            .and_then(|draft| self.sign_roster(group, draft, now));
        if let Err(error) = renewed {
            tracing::warn!(%group, %error, "the group's roster is not signed again");
        }
    }
}

impl Group {
    /// Everybody on the roster but the owner.
    pub(super) fn others(&self) -> usize {
        let Some(roster) = &self.roster else {
            return 0;
        };
        let subject = roster.subject();
        let members = subject.members().iter().map(|it| it.member);
        let mut all: Vec<_> = members.chain(subject.hosts().iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all.iter().filter(|it| **it != self.row.owner).count()
    }
}

/// Whether others refuse what begins to count then, for now.
fn is_ahead(life: Life, now: Now) -> bool {
    life.issued_ms > now.wall_ms.saturating_add(CLOCK_SKEW_MS)
}

fn key_row(log: &LogId, epoch: u64) -> Vec<u8> {
    key(KEY_ROWS, log, &epoch.to_be_bytes())
}
