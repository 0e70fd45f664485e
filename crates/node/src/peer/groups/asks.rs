//! What this node's user asks for.

use std::collections::BTreeMap;

use overlane_core::Did;
use overlane_core::group::{GroupId, GroupKey, Post};
use overlane_core::seal::SealingKey;
use overlane_relay::log::{EnvelopeId, LogId, LogStore, LogsError, Numbering, Refusal};

use super::book::{Group, Want};
use super::rosters::Draft;
use super::rows::GroupRow;
use super::{
    ASKS_WAITING_MAX, Ask, AskId, GROUPS_MAX, GroupTicket, GroupView, Groups, GroupsError,
    POSTS_PER_ASK, POSTS_WAITING_MAX, Posted, Reply, is_name,
};
use crate::peer::Now;

/// Parts of a log that make room for one post of this node's user, or are let go of in one maintenance.
const ROOM_PARTS_MAX: usize = 64;

impl<S: LogStore> Groups<S> {
    /// Does what is asked; no reply yet where other nodes are waited for.
    pub(super) fn try_ask(
        &mut self,
        id: AskId,
        ask: Ask,
        now: Now,
    ) -> Result<Option<Reply>, GroupsError> {
        Ok(Some(match ask {
            Ask::Create { name, hosts } => Reply::Group(Box::new(self.create(name, hosts, now)?)),
            Ask::Invite {
                group,
                account,
                member,
                hosts,
            } => Reply::Ticket(Box::new(self.invite(group, account, member, hosts, now)?)),
            Ask::Remove { group, account } => {
                self.remove(group, account, now)?;
                Reply::Group(Box::new(self.view(&LogId::group(group))?))
            }
            Ask::Join { ticket, name } => {
                self.check_waiting()?;
                self.join(id, ticket, name, now)?;
                return Ok(None);
            }
            Ask::Post { group, bodies } => Reply::Posted(self.post(group, &bodies, now)?),
            Ask::Read {
                group,
                from,
                most,
                complete,
            } => Reply::Page(self.page(group, from, most, complete)?),
            Ask::Numbers => Reply::Numbers(self.numbers()),
            Ask::Sync { group, with } => {
                self.check_waiting()?;
                let host = self.host_for(group, with)?;
                self.want(LogId::group(group), host, Want::Sync(id), now);
                return Ok(None);
            }
            Ask::Plan { group, with } => {
                self.check_waiting()?;
                let host = self.host_for(group, with)?;
                self.want(LogId::group(group), host, Want::Plan(id), now);
                return Ok(None);
            }
            Ask::Leave { group } => {
                self.leave(group, now)?;
                Reply::Left
            }
            Ask::List => {
                let logs: Vec<_> = self.groups.keys().copied().collect();
                let views = logs.iter().map(|log| self.view(log));
                Reply::Groups(views.collect::<Result<_, _>>()?)
            }
        }))
    }

    fn create(
        &mut self,
        name: String,
        mut hosts: Vec<Did>,
        now: Now,
    ) -> Result<GroupView, GroupsError> {
        self.check_name(&name)?;
        let own = self.secret.as_ref().ok_or(GroupsError::NoSealingKey)?.key();
        let drawn = self.draw();
        let nonce: [u8; 16] = drawn.first_chunk().copied().unwrap_or_default();
        let group = GroupId::of(self.network, self.did, &nonce);
        hosts.push(self.did);
        let row = GroupRow {
            name,
            owner: self.did,
            least_revision: 0,
            hosts: Vec::new(),
            roster: None,
        };
        let draft = Draft {
            nonce,
            revision: 1,
            key: GroupKey::new(1, self.draw()),
            members: BTreeMap::from([(self.did, own)]),
            hosts,
        };
        let log = LogId::group(group);
        self.groups.insert(log, Group::new(row));
        if let Err(refused) = self.sign_roster(group, draft, now) {
            self.groups.remove(&log);
            return Err(refused);
        }
        self.view(&log)
    }

    fn invite(
        &mut self,
        group: GroupId,
        account: Did,
        member: Option<SealingKey>,
        hosts: bool,
        now: Now,
    ) -> Result<GroupTicket, GroupsError> {
        self.note_member(group, account, member);
        let mut draft = self.next_draft(group, Some(account))?;
        let is_in = draft.members.contains_key(&account);
        let is_host = draft.hosts.contains(&account);
        if (is_in || member.is_none()) && (is_host || !hosts) {
            return Err(GroupsError::InAlready { account });
        }
        if let Some(key) = member {
            draft.members.insert(account, key);
        }
        if hosts && !is_host {
            draft.hosts.push(account);
        }
        self.sign_roster(group, draft, now)?;
        self.ticket(group)
    }

    /// Keeps the key of one that is on the roster, where it is not known here.
    fn note_member(&mut self, group: GroupId, account: Did, key: Option<SealingKey>) {
        let log = LogId::group(group);
        let own = self.did;
        let owned = self.groups.get_mut(&log).filter(|it| it.row.owner == own);
        let listed = owned.filter(|it| it.has(&account) && !it.members.contains_key(&account));
        if let (Some(group), Some(key)) = (listed, key) {
            group.members.insert(account, key);
            self.keep_group(log);
        }
    }

    fn ticket(&self, group: GroupId) -> Result<GroupTicket, GroupsError> {
        let known = self.groups.get(&LogId::group(group));
        let known = known.ok_or(GroupsError::NotKnown { group })?;
        Ok(GroupTicket {
            network: self.network,
            group,
            owner: known.row.owner,
            revision: known.revision(),
            hosts: known.hosts().to_vec(),
            name: known.row.name.clone(),
            url: None,
        })
    }

    fn join(
        &mut self,
        id: AskId,
        ticket: GroupTicket,
        name: Option<String>,
        now: Now,
    ) -> Result<(), GroupsError> {
        let log = LogId::group(ticket.group);
        if let Some(known) = self.groups.get(&log) {
            let name = known.row.name.clone();
            return Err(GroupsError::KnownAlready { name });
        }
        let name = name.unwrap_or(ticket.name);
        self.check_name(&name)?;
        let row = GroupRow {
            name,
            owner: ticket.owner,
            least_revision: ticket.revision,
            hosts: ticket.hosts,
            roster: None,
        };
        let mut group = Group::new(row);
        group.joining.push(id);
        self.waiting += 1;
        self.groups.insert(log, group);
        // One that was left may be joined again: what of it is not deleted yet stays.
        self.stop_leaving(log);
        if self.left.remove(&log) {
            let row = super::rows::key(super::rows::LEFT_ROWS, &log, &[]);
            self.logs.put_row(row, None);
        }
        self.keep_group(log);
        self.set_courses(log, now);
        Ok(())
    }

    /// Writes posts. They are durable here when this is answered; at a host they have numbers then,
    /// else they wait for the host's.
    fn post(
        &mut self,
        group: GroupId,
        bodies: &[Vec<u8>],
        now: Now,
    ) -> Result<Vec<Posted>, GroupsError> {
        let posts = bodies.len();
        if posts > POSTS_PER_ASK {
            return Err(GroupsError::TooManyPosts { posts });
        }
        let log = LogId::group(group);
        let numbering = self.logs.numbering(&log);
        let own = self.check(numbering)? == Numbering::Own;
        if !own {
            let waiting = self.logs.waiting(&log);
            let staged = self.check(waiting)?;
            if staged.saturating_add(posts) > POSTS_WAITING_MAX {
                return Err(GroupsError::PostsWaiting);
            }
        }
        let known = self.groups.get(&log);
        let known = known.ok_or(GroupsError::NotKnown { group })?;
        if known.roster.is_none() {
            return Err(GroupsError::NoRoster);
        }
        let author = self.did;
        let not_in = overlane_core::group::GroupError::NotAMember { group, author };
        let key = known.has(&author).then(|| known.key().cloned()).flatten();
        let key = key.ok_or(not_in)?;
        let hosts = known.is_host(&author);
        // What was written before and waited is numbered before it.
        while self.groups.get(&log).is_some_and(|it| it.numbers_waiting) {
            self.commit(now);
            self.number_what_waits(now);
            if let Some(cause) = self.failure.clone() {
                return Err(GroupsError::StoreFailed { cause });
            }
        }
        // All of them are made before any is kept: one that is too long takes none along.
        let mut envelopes = Vec::with_capacity(posts);
        for body in bodies {
            let drawn = self.draw();
            let nonce: [u8; 24] = drawn.first_chunk().copied().unwrap_or_default();
            let signer = std::sync::Arc::clone(&self.signer);
            let post = Post::write(group, &key, &signer, body, nonce, now.wall_ms)?;
            envelopes.push(post.to_bytes());
        }
        let mut posted = Vec::with_capacity(posts);
        for envelope in envelopes {
            if self.logs.is_full() {
                self.commit(now);
            }
            let id = self.post_with_room(log, envelope, now)?;
            let entry = self.logs.entry_of(&log, &id);
            let seq = self.check(entry)?.map(|entry| entry.seq);
            posted.push(Posted { id, seq });
        }
        if !hosts {
            self.ask_soon(&log, now);
        }
        Ok(posted)
    }

    /// Posts. A log that has more than is kept of it by now makes room a part at a time
    /// ([`EVICTED_PER_CALL`](overlane_relay::log::bounds::EVICTED_PER_CALL)): so many parts are waited for, and no more.
    fn post_with_room(
        &mut self,
        log: LogId,
        envelope: Vec<u8>,
        now: Now,
    ) -> Result<EnvelopeId, GroupsError> {
        for _ in 0..ROOM_PARTS_MAX {
            let (envelope, own) = (envelope.clone(), self.own());
            let id = self.logs.post(log, envelope, own, now.wall_ms);
            if !matches!(id, Err(LogsError::Peer(Refusal::Busy))) {
                return self.check(id);
            }
            self.commit(now);
        }
        let id = self.logs.post(log, envelope, self.own(), now.wall_ms);
        self.check(id)
    }

    fn leave(&mut self, group: GroupId, now: Now) -> Result<(), GroupsError> {
        let log = LogId::group(group);
        let known = self.groups.get(&log);
        let known = known.ok_or(GroupsError::NotKnown { group })?;
        let owner = known.row.owner;
        let members = known.others();
        if owner == self.did && members > 0 {
            return Err(GroupsError::OwnerStays { members });
        }
        if owner != self.did && known.roster.is_some() {
            self.leaves(log, owner, now);
        }
        let ids = self.forget_wants(&log);
        for id in ids {
            let refused = Err(GroupsError::NotKnown { group });
            self.held.push(super::Effect::Answer(id, refused));
        }
        self.forget_group(log);
        Ok(())
    }

    fn forget_wants(&mut self, log: &LogId) -> Vec<AskId> {
        let Some(group) = self.groups.get_mut(log) else {
            return Vec::new();
        };
        let mut ids = std::mem::take(&mut group.joining);
        for course in group.courses.values_mut() {
            let wants = std::mem::take(&mut course.wants).into_iter();
            ids.extend(wants.map(|(Want::Sync(id) | Want::Plan(id))| id));
        }
        self.waiting = self.waiting.saturating_sub(ids.len());
        ids
    }

    fn check_waiting(&self) -> Result<(), GroupsError> {
        match self.waiting < ASKS_WAITING_MAX {
            true => Ok(()),
            false => Err(GroupsError::AsksFull),
        }
    }

    fn check_name(&self, name: &str) -> Result<(), GroupsError> {
        if !is_name(name) {
            return Err(GroupsError::BadName);
        }
        if self.groups.values().any(|group| group.row.name == name) {
            let name = name.to_owned();
            return Err(GroupsError::NameTaken { name });
        }
        match self.groups.len() < GROUPS_MAX {
            true => Ok(()),
            false => Err(GroupsError::Full),
        }
    }
}
