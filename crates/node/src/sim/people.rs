//! What the people of groups do: make one, invite, join, remove, post, and read what their nodes have.

use std::collections::BTreeSet;

use overlane_core::group::GroupId;
use overlane_core::identity::CLOCK_SKEW_MS;
use overlane_core::seal::SealingKey;
use overlane_core::{Coded, Did};

use super::check::Read;
use super::clock::START_MS;
use super::groups::{Doing, SimGroup};
use super::names::Broken;
use super::report::Phase;
use super::world::{Event, World};
use crate::peer::groups::{Ask, GroupEvent, GroupTicket, GroupsError, PAGE_MAX, PostView, Reply};

/// Between two things that the people of a group do.
const STEP_MS: (u64, u64) = (1_000, 5_000);

impl World<'_> {
    pub(super) fn group_later(&mut self, group: usize) {
        let wait_ms = self.between(STEP_MS.0, STEP_MS.1);
        self.after(wait_ms, Event::Group(group));
    }

    /// The people of a group do the next thing.
    pub(super) fn group_step(&mut self, number: usize) {
        if matches!(self.phase, Phase::Healed | Phase::Over) {
            return;
        }
        self.group_later(number);
        let Some(group) = self.groups.get(number) else {
            return;
        };
        let owner = group.members.first().copied().unwrap_or_default();
        let signs = self.is_dated_right(owner);
        let people = group.members.iter().skip(1).chain([&group.host]).copied();
        let uninvited = people.clone().find(|it| !group.invited.contains(it));
        let outside: Vec<usize> = people
            .filter(|it| group.invited.contains(it) && !group.joined.contains(it))
            .collect();
        // The owner is in it from the start; the host joins too.
        let all = group.joined.len() == group.members.len();
        let may_remove = all && group.removed_at.is_none() && self.now_ms > self.remove_ms();
        match (group.ticket.clone(), uninvited) {
            _ if !signs => {}
            (None, _) => self.create(number, owner),
            (Some(ticket), Some(who)) => self.invite(number, owner, who, &ticket),
            (Some(_), None) if may_remove => self.remove(number, owner),
            _ => {}
        }
        for who in outside {
            let ticket = self.groups.get(number).and_then(|it| it.ticket.clone());
            if let Some(ticket) = ticket {
                let ask = Ask::Join { ticket, name: None };
                self.ask_groups(who, ask, Doing::Join(number));
            }
        }
        if self.phase == Phase::Faults {
            self.post(number);
        }
    }

    /// Whether what a node signs is of this time, and so its delegation: what is dated ahead is refused until
    /// then, by each node at another time.
    fn is_dated_right(&self, node: usize) -> bool {
        let Some(node) = self.nodes.get(node) else {
            return false;
        };
        let signer = node.running.as_ref().map(|it| &it.signer);
        let issued_ms = signer.map(|it| it.delegation().life().issued_ms);
        let true_ms = START_MS + self.now_ms;
        let right = issued_ms.is_some_and(|it| it <= true_ms + CLOCK_SKEW_MS);
        node.clock.wrong_by_ms == 0 && right
    }

    fn remove_ms(&self) -> u64 {
        self.config.minutes * 60_000 / 2
    }

    fn create(&mut self, number: usize, owner: usize) {
        let host = self.groups.get(number).map(|it| it.host);
        let host = host.and_then(|it| self.nodes.get(it)).map(|it| it.did);
        let ask = Ask::Create {
            name: format!("group {number}"),
            hosts: host.into_iter().collect(),
        };
        self.ask_groups(owner, ask, Doing::Create(number));
    }

    fn invite(&mut self, number: usize, owner: usize, who: usize, ticket: &GroupTicket) {
        let host = self.groups.get(number).is_some_and(|it| it.host == who);
        if host {
            // It was named when the group was made.
            if let Some(group) = self.groups.get_mut(number) {
                group.invited.insert(who);
            }
            return;
        }
        let Some((account, key)) = self.nodes.get(who).map(|it| (it.did, it.key())) else {
            return;
        };
        let ask = Ask::Invite {
            group: ticket.group,
            account,
            member: SealingKey::of_account(&key),
            hosts: false,
        };
        self.ask_groups(owner, ask, Doing::Invite(number, who));
    }

    fn remove(&mut self, number: usize, owner: usize) {
        let Some(group) = self.groups.get_mut(number) else {
            return;
        };
        let who = group.members.last().and_then(|&it| self.nodes.get(it));
        let Some((who, ticket)) = who.map(|it| it.did).zip(group.ticket.clone()) else {
            return;
        };
        self.group_watch.removes(number, who, &group.wrote);
        if self.config.broken == Some(Broken::ForgottenRemoval) {
            group.removed_at = Some(u64::MAX);
            return;
        }
        let ask = Ask::Remove {
            group: ticket.group,
            account: who,
        };
        self.ask_groups(owner, ask, Doing::Remove(number));
    }

    fn post(&mut self, number: usize) {
        let count = self.groups.get(number).map_or(0, |it| it.members.len());
        let (drawn, posts) = (self.any_of(count), self.between(1, 3));
        let Some(group) = self.groups.get_mut(number) else {
            return;
        };
        let Some(&who) = group.members.get(drawn) else {
            return;
        };
        let Some(id) = group.ticket.as_ref().map(|it| it.group) else {
            return;
        };
        let owner = group.members.first() == Some(&who);
        let removed = group.removed_at.is_some() && group.members.last() == Some(&who);
        if removed || !owner && !group.joined.contains(&who) {
            return;
        }
        let bodies: Vec<Vec<u8>> = (0..posts)
            .map(|_| {
                group.posts += 1;
                format!("post {} of group {number}", group.posts).into_bytes()
            })
            .collect();
        let removed_at = group.removed_at;
        if !self.is_dated_right(who) {
            return;
        }
        let room = self.running(who).and_then(|it| it.groups.as_mut());
        let Some(room) = room else {
            return;
        };
        let heard = room.revisions.get(&id).copied().unwrap_or_default();
        let knows = removed_at.is_some_and(|at| owner || heard >= at);
        for body in bodies.iter().filter(|_| knows) {
            self.group_watch.posts_later(number, body);
        }
        if let Some(did) = self.nodes.get(who).map(|it| it.did) {
            self.group_watch.posts(number, did, &bodies);
        }
        let ask = Ask::Post {
            group: id,
            bodies: bodies.clone(),
        };
        self.ask_groups(who, ask, Doing::Post(number, bodies));
    }

    /// Everything healed: members read what they have, from the first post.
    pub(super) fn read_groups(&mut self) {
        // The host too, which reads nothing: it is its numbers that others have.
        let people = self
            .groups
            .iter()
            .flat_map(|it| it.members.iter().chain([&it.host]));
        let people: BTreeSet<usize> = people.copied().collect();
        for who in people {
            let room = self.running(who).and_then(|it| it.groups.as_ref());
            let reading = room.is_some_and(|room| !room.doing.is_empty());
            if !reading {
                self.ask_groups(who, Ask::List, Doing::Look);
            }
        }
    }

    /// What members lack of posts.
    pub(super) fn groups_lack(&self) -> Option<String> {
        let wall_ms = START_MS.saturating_add(self.now_ms);
        let mut groups = self.groups.iter().enumerate();
        groups.find_map(|(number, group)| {
            let joined =
                |it: &&usize| group.members.first() == Some(*it) || group.joined.contains(*it);
            let members = group.members.iter().filter(joined);
            let members = members.filter_map(|&it| Some(self.nodes.get(it)?.did));
            self.group_watch
                .lacks(number, &members.collect::<Vec<_>>(), wall_ms)
        })
    }

    pub(super) fn group_answered(
        &mut self,
        node: usize,
        doing: Doing,
        result: Result<Reply, GroupsError>,
    ) {
        let did = self
            .nodes
            .get(node)
            .map(|it| it.did)
            .unwrap_or(Did([0; 20]));
        if let Err(error) = &result {
            let refused = &mut self.counts.groups.refused;
            *refused.entry(error.code()).or_default() += 1;
        }
        match (doing, result) {
            (Doing::Create(number), Ok(Reply::Group(view))) => {
                let host = self
                    .groups
                    .get(number)
                    .and_then(|it| self.nodes.get(it.host));
                let hosts = [Some(did), host.map(|it| it.did)];
                if let Some(group) = self.groups.get_mut(number) {
                    group.ticket.get_or_insert(GroupTicket {
                        network: view.network,
                        group: view.group,
                        owner: view.owner,
                        revision: view.revision,
                        hosts: hosts.into_iter().flatten().collect(),
                        name: view.name,
                        url: None,
                    });
                    self.counts.groups.groups += 1;
                }
            }
            (
                Doing::Invite(number, who),
                Ok(Reply::Ticket(_)) | Err(GroupsError::InAlready { .. }),
            ) => {
                if let Some(group) = self.groups.get_mut(number) {
                    group.invited.insert(who);
                }
            }
            (Doing::Join(number), Ok(Reply::Group(view))) => {
                self.joined(node, number, view.revision);
            }
            // It looks whether the roster has come meanwhile.
            (Doing::Join(_), Err(GroupsError::KnownAlready { .. })) => {
                self.ask_groups(node, Ask::List, Doing::Look);
            }
            (Doing::Remove(number), Ok(Reply::Group(view))) => {
                self.counts.groups.removed += 1;
                if let Some(group) = self.groups.get_mut(number) {
                    group.removed_at.get_or_insert(view.revision);
                }
            }
            // It was done before the process ended that was asked.
            (Doing::Remove(number), Err(GroupsError::NotIn { .. })) => {
                if let Some(group) = self.groups.get_mut(number) {
                    group.removed_at.get_or_insert(u64::MAX);
                }
            }
            (Doing::Post(number, bodies), Ok(Reply::Posted(posted))) => {
                let now_ms = self.now_ms;
                // It was written at this instant: its clock may have become wrong since it was asked to.
                let written_ms = self.now_at(node).wall_ms;
                for (post, body) in posted.iter().zip(&bodies) {
                    self.counts.groups.posts += 1;
                    let noted: [&[u8]; 3] = [b"posted", &did.0, &post.id.0];
                    self.trace.note(now_ms, &noted, || {
                        format!("node {node} posted {} to group {number}", post.id)
                    });
                    let written = (&body[..], written_ms);
                    self.group_watch.posted(number, did, post.id, written);
                    if let Some(group) = self.groups.get_mut(number) {
                        group.posted_ms.insert(post.id, now_ms);
                        if group.members.last() == Some(&node) {
                            group.wrote.insert(post.id);
                        }
                    }
                }
            }
            (Doing::Look, Ok(Reply::Groups(views))) => {
                for view in views {
                    if let Some(number) = self.group_of(view.group) {
                        self.joined(node, number, view.revision);
                        self.read_from(node, number, view.group, 0, view.follows);
                    }
                }
            }
            (Doing::Read(number, follows), Ok(Reply::Page(page))) => {
                self.read_page(node, number, page.posts, page.next, follows);
            }
            _ => {}
        }
    }

    /// A node is in a group once it has a roster: with it come the keys, of the epoch that it is of and no earlier.
    fn joined(&mut self, node: usize, number: usize, revision: u64) {
        let group = self.groups.get_mut(number).filter(|_| revision > 0);
        let Some(group) = group.filter(|it| it.members.first() != Some(&node)) else {
            return;
        };
        if (group.members.contains(&node) || group.host == node) && group.joined.insert(node) {
            self.counts.groups.joined += 1;
        }
    }

    fn group_of(&self, id: GroupId) -> Option<usize> {
        let is_it = |it: &SimGroup| it.ticket.as_ref().is_some_and(|it| it.group == id);
        self.groups.iter().position(is_it)
    }

    fn read_from(
        &mut self,
        node: usize,
        number: usize,
        group: GroupId,
        from: u64,
        follows: Option<Did>,
    ) {
        let ask = Ask::Read {
            group,
            from,
            most: PAGE_MAX,
            complete: false,
        };
        self.ask_groups(node, ask, Doing::Read(number, follows));
    }

    fn read_page(
        &mut self,
        node: usize,
        number: usize,
        posts: Vec<PostView>,
        next: Option<u64>,
        follows: Option<Did>,
    ) {
        let group = self.groups.get(number).and_then(|it| it.ticket.as_ref());
        let group = group.map(|it| it.group);
        let Some(did) = self.nodes.get(node).map(|it| it.did) else {
            return;
        };
        let Some(room) = self.running(node).and_then(|it| it.groups.as_mut()) else {
            return;
        };
        let read = room.pages.entry(number).or_default();
        read.extend(posts.into_iter().map(|post| Read {
            seq: post.seq,
            id: post.id,
            author: post.author,
            epoch: post.epoch,
            body: post.body,
            written_ms: post.written_ms,
        }));
        match (next, group) {
            (Some(from), Some(group)) => self.read_from(node, number, group, from, follows),
            _ => {
                let mut read = room.pages.remove(&number).unwrap_or_default();
                if let Some((forged, group)) = room.forged.as_ref().zip(group) {
                    read.extend(forged.of(group));
                }
                let members = self.groups.get(number).map(|it| it.members.clone());
                let members = members.unwrap_or_default().into_iter();
                let members = members
                    .filter_map(|it| Some(self.nodes.get(it)?.did))
                    .collect();
                let checked = self.group_watch.read(number, did, read, follows);
                let signed = self.group_watch.are_signed(number, did, &members);
                for (law, words) in [checked.err(), signed.err()].into_iter().flatten() {
                    self.broke(law, words);
                }
            }
        }
    }

    pub(super) fn group_told(&mut self, node: usize, event: GroupEvent) {
        match event {
            GroupEvent::Kept {
                group, id, author, ..
            } => {
                let noted: [&[u8]; 3] = [b"post", &node.to_be_bytes(), &id.0];
                self.trace.note(self.now_ms, &noted, || {
                    format!("node {node} has post {id} of group {group}")
                });
                let started = self.nodes.get(node).map_or(0, |it| it.clock.started_ms);
                let did = self.nodes.get(node).map(|it| it.did);
                let number = self.group_of(group);
                if let Some((number, did)) = number.zip(did)
                    && let Err((law, words)) = self.group_watch.kept(number, did, id)
                {
                    self.broke(law, words);
                }
                let posted = number.and_then(|it| self.groups.get(it)?.posted_ms.get(&id).copied());
                if did != Some(author) {
                    self.counts.groups.came += 1;
                    if posted.is_some_and(|at_ms| at_ms < started) {
                        self.counts.groups.caught_up += 1;
                    }
                }
            }
            GroupEvent::PostRefused { group, id, code } => {
                *self.counts.groups.posts_refused.entry(code).or_default() += 1;
                let did = self.nodes.get(node).map(|it| it.did);
                if let Some((number, did)) = self.group_of(group).zip(did) {
                    self.group_watch.refused(number, did, id);
                }
            }
            GroupEvent::Roster { group, revision } => {
                let noted: [&[u8]; 3] = [b"roster", &node.to_be_bytes(), &revision.to_be_bytes()];
                self.trace.note(self.now_ms, &noted, || {
                    format!("node {node} has roster {revision} of group {group}")
                });
                if let Some(room) = self.running(node).and_then(|it| it.groups.as_mut()) {
                    room.revisions.insert(group, revision);
                }
                if let Some(number) = self.group_of(group) {
                    self.joined(node, number, revision);
                }
            }
            GroupEvent::Complete { .. } | GroupEvent::Keys { .. } => {}
        }
    }
}
