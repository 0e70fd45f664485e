//! Groups for whoever embeds a node: logs that several accounts write and read, kept by hosts that
//! cannot read them.
//!
//! A node that creates a group owns it: it says who is in it, and hosts it, alone or with others. A
//! node that was invited joins by a ticket; from then on it follows a host of the group, by itself,
//! whenever one can be reached. What is posted is durable here when [`Group::post`] returns, and has
//! its number once a host has it.
//!
//! What a host sees, and what a member who was taken away can still read, is in `docs/security.md`.

use std::collections::VecDeque;

use overlane_core::Did;
use overlane_core::identity::AccountKey;
use overlane_core::seal::SealingKey;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::{Duration, timeout};

pub use overlane_core::group::{GROUP_HOSTS_MAX, GROUP_MEMBERS_MAX, GroupId, POST_BODY_MAX_BYTES};
pub use overlane_recon::{End, Report};
pub use overlane_relay::log::{EnvelopeId, Full, Retention};

pub use crate::peer::groups::{
    ASKS_WAITING_MAX, BadGroupTicket, CourseView, GROUPS_MAX, GroupCounters, GroupEvent,
    GroupNumbers, GroupTicket, GroupView, GroupsError, NAME_MAX_BYTES, PAGE_MAX, POSTS_PER_ASK,
    POSTS_WAITING_MAX, Page, PlanView, PostView, Posted,
};

use crate::node::Node;
use crate::peer::groups::{Ask, GROUP_TICKET_URL_MAX_BYTES, Reply};

/// How long a link may take that is being made while a group is joined.
const LINK_WITHIN: Duration = Duration::from_secs(2);

/// A group of a node's. Dropping it changes nothing.
#[derive(Debug, Clone)]
pub struct Group {
    node: Node,
    id: GroupId,
}

impl Node {
    /// Makes a group that this node owns, and hosts; `hosts` are nodes that may host it too, once
    /// they have joined.
    ///
    /// # Errors
    /// [`GroupsError`]
    pub async fn create_group(&self, name: &str, hosts: &[Did]) -> Result<Group, GroupsError> {
        let name = name.to_owned();
        let hosts = hosts.to_vec();
        let view = self.group_view(Ask::Create { name, hosts }).await?;
        Ok(self.group(view.group))
    }

    /// Is part of a group from now on, as its roster says: a member, a host, or both. Returns once
    /// its roster is here, or every node that may have it was tried; then it is asked for again by
    /// itself. The ticket's own node is linked to first, if it says where it is.
    ///
    /// # Errors
    /// [`GroupsError`]
    pub async fn join_group(
        &self,
        ticket: &GroupTicket,
        name: Option<&str>,
    ) -> Result<Group, GroupsError> {
        if let Some(url) = &ticket.url {
            // The ring may lead there without it, or a link that is being made already.
            if let Err(error) = self.connect(url).await {
                tracing::debug!(%error, "no link to where the ticket says");
                let host = ticket.hosts.first().copied().unwrap_or(ticket.owner);
                let _ = timeout(LINK_WITHIN, self.reachable(host)).await;
            }
        }
        let (ticket, name) = (ticket.clone(), name.map(str::to_owned));
        let view = self.group_view(Ask::Join { ticket, name }).await?;
        Ok(self.group(view.group))
    }

    /// The group of this name, to ask about; nothing is looked up yet.
    pub fn group(&self, id: GroupId) -> Group {
        let node = self.clone();
        Group { node, id }
    }

    /// Every group that this node has.
    ///
    /// # Errors
    /// [`GroupsError`]
    pub async fn groups(&self) -> Result<Vec<GroupView>, GroupsError> {
        match self.parts().groups.ask(Ask::List).await? {
            Reply::Groups(groups) => Ok(groups),
            _ => Err(GroupsError::Closed),
        }
    }

    /// What groups come to; nothing of a node without a store of logs.
    ///
    /// # Errors
    /// [`GroupsError::StoreFailed`], [`GroupsError::Closed`].
    pub async fn group_numbers(&self) -> Result<GroupNumbers, GroupsError> {
        if !self.parts().groups.is_open() {
            return Ok(GroupNumbers::default());
        }
        match self.parts().groups.ask(Ask::Numbers).await? {
            Reply::Numbers(numbers) => Ok(numbers),
            _ => Err(GroupsError::Closed),
        }
    }

    /// What happens in groups from now on. A watcher that falls more than
    /// [`EVENTS_KEPT_MAX`](crate::EVENTS_KEPT_MAX) behind is told how many it missed.
    pub fn group_events(&self) -> broadcast::Receiver<GroupEvent> {
        self.parts().groups.events()
    }

    async fn group_view(&self, ask: Ask) -> Result<GroupView, GroupsError> {
        match self.parts().groups.ask(ask).await? {
            Reply::Group(view) => Ok(*view),
            _ => Err(GroupsError::Closed),
        }
    }
}

impl Group {
    /// Its name on the network.
    pub fn id(&self) -> GroupId {
        self.id
    }

    /// The group as this node knows it.
    ///
    /// # Errors
    /// [`GroupsError`]
    pub async fn view(&self) -> Result<GroupView, GroupsError> {
        let groups = self.node.groups().await?;
        let mut groups = groups.into_iter();
        let group = self.id;
        let view = groups.find(|it| it.group == group);
        view.ok_or(GroupsError::NotKnown { group })
    }

    /// Puts an account on the roster as a member, and as a host if told so. It reads from the current
    /// epoch on.
    ///
    /// # Errors
    /// [`GroupsError`]: not the owner, or an account of a kind that has no key to seal to.
    pub async fn invite(
        &self,
        account: &AccountKey,
        hosts: bool,
    ) -> Result<GroupTicket, GroupsError> {
        let key = SealingKey::of_account(account).ok_or(GroupsError::NoSealingKey)?;
        self.invited(account.did(), Some(key), hosts).await
    }

    /// Puts an account on the roster as a host that is no member: it keeps what it cannot read.
    ///
    /// # Errors
    /// As [`invite`](Self::invite).
    pub async fn invite_host(&self, account: Did) -> Result<GroupTicket, GroupsError> {
        self.invited(account, None, true).await
    }

    /// Takes an account off the roster. What is posted from then on is sealed under a key that it is
    /// not given; hosts give it nothing more as soon as they have heard.
    ///
    /// # Errors
    /// [`GroupsError`]
    pub async fn remove(&self, account: Did) -> Result<GroupView, GroupsError> {
        let group = self.id;
        self.node.group_view(Ask::Remove { group, account }).await
    }

    /// Writes posts, of at most [`POST_BODY_MAX_BYTES`] each and [`POSTS_PER_ASK`] at once, in one
    /// transaction of the store as far as they fit one. They are durable here when this returns.
    ///
    /// # Errors
    /// [`GroupsError`]
    pub async fn post(&self, bodies: Vec<Vec<u8>>) -> Result<Vec<Posted>, GroupsError> {
        let group = self.id;
        match self.asked(Ask::Post { group, bodies }).await? {
            Reply::Posted(posted) => Ok(posted),
            _ => Err(GroupsError::Closed),
        }
    }

    /// Posts that are here from number `from` on, at most [`PAGE_MAX`] of them, whether or not others
    /// between them are still to come.
    ///
    /// # Errors
    /// [`GroupsError`]
    pub async fn read(&self, from: u64, most: usize) -> Result<Page, GroupsError> {
        self.page(from, most, false).await
    }

    /// Posts from number `from` on, in order and without a gap, those that are here and then those
    /// that come.
    pub fn follow(&self, from: u64) -> Follow {
        Follow {
            events: self.node.group_events(),
            group: self.clone(),
            from,
            page: VecDeque::new(),
            more: true,
        }
    }

    /// Reconciles with a host now, and says how that ended.
    ///
    /// # Errors
    /// [`GroupsError`]: there was no reconciliation.
    pub async fn sync(&self, with: Option<Did>) -> Result<(Did, Report), GroupsError> {
        let group = self.id;
        match self.asked(Ask::Sync { group, with }).await? {
            Reply::Synced(with, report) => Ok((with, *report)),
            _ => Err(GroupsError::Closed),
        }
    }

    /// What that would move and take: the rounds of a reconciliation with names in place of posts, so no
    /// post moves.
    ///
    /// # Errors
    /// [`GroupsError`]: the host did not answer to the end.
    pub async fn plan(&self, with: Option<Did>) -> Result<PlanView, GroupsError> {
        let group = self.id;
        match self.asked(Ask::Plan { group, with }).await? {
            Reply::Planned(plan) => Ok(plan),
            _ => Err(GroupsError::Closed),
        }
    }

    /// Is part of the group no more, and deletes what is here of it. Its owner is told once; until it
    /// has heard, this account stays on the roster.
    ///
    /// # Errors
    /// [`GroupsError::OwnerStays`]
    pub async fn leave(self) -> Result<(), GroupsError> {
        let group = self.id;
        self.asked(Ask::Leave { group }).await.map(drop)
    }

    async fn invited(
        &self,
        account: Did,
        member: Option<SealingKey>,
        hosts: bool,
    ) -> Result<GroupTicket, GroupsError> {
        let ask = Ask::Invite {
            group: self.id,
            account,
            member,
            hosts,
        };
        let Reply::Ticket(mut ticket) = self.asked(ask).await? else {
            return Err(GroupsError::Closed);
        };
        let url = self.node.url();
        let url = url.filter(|url| url.len() <= GROUP_TICKET_URL_MAX_BYTES);
        ticket.url = url.map(str::to_owned);
        Ok(*ticket)
    }

    async fn page(&self, from: u64, most: usize, complete: bool) -> Result<Page, GroupsError> {
        let ask = Ask::Read {
            group: self.id,
            from,
            most,
            complete,
        };
        match self.asked(ask).await? {
            Reply::Page(page) => Ok(page),
            _ => Err(GroupsError::Closed),
        }
    }

    async fn asked(&self, ask: Ask) -> Result<Reply, GroupsError> {
        self.node.parts().groups.ask(ask).await
    }
}

/// The posts of a group as they come.
#[derive(Debug)]
pub struct Follow {
    group: Group,
    events: broadcast::Receiver<GroupEvent>,
    from: u64,
    page: VecDeque<PostView>,
    /// Whether there may be posts that were not read.
    more: bool,
}

impl Follow {
    /// The next post.
    ///
    /// # Errors
    /// [`GroupsError`]: the group was left, or the node ends.
    pub async fn next(&mut self) -> Result<PostView, GroupsError> {
        loop {
            if let Some(post) = self.page.pop_front() {
                return Ok(post);
            }
            while !self.more {
                self.more = match self.events.recv().await {
                    Ok(
                        GroupEvent::Kept { group, .. }
                        | GroupEvent::Complete { group, .. }
                        | GroupEvent::Keys { group }
                        | GroupEvent::Roster { group, .. },
                    ) => group == self.group.id,
                    Ok(GroupEvent::PostRefused { .. }) => false,
                    // What it missed is read.
                    Err(RecvError::Lagged(_)) => true,
                    Err(RecvError::Closed) => return Err(GroupsError::Closed),
                };
            }
            let page = self.group.page(self.from, PAGE_MAX, true).await?;
            self.more = page.next.is_some();
            if let Some(last) = page.posts.last() {
                self.from = last.seq.saturating_add(1);
            }
            self.page = page.posts.into();
        }
    }
}
