//! What is asked about groups, what comes of it, and what they want done.

use overlane_core::group::GroupId;
use overlane_core::seal::SealingKey;
use overlane_core::transaction::Data;
use overlane_core::{Did, NetworkId};
use overlane_recon::Report;
use overlane_relay::log::EnvelopeId;

use super::{GroupNumbers, GroupTicket, GroupsError};

/// Names a request until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Something to be done about groups.
#[derive(Debug, Clone)]
pub enum Ask {
    /// Make a group that this node owns; it hosts it, and so may others.
    Create {
        /// What it is called.
        name: String,
        /// Who else is to host it.
        hosts: Vec<Did>,
    },
    /// Put an account on the roster, and give a ticket for it.
    Invite {
        /// The group.
        group: GroupId,
        /// Who.
        account: Did,
        /// The key to seal the group's key to: a member's. A host alone needs none, and reads nothing.
        member: Option<SealingKey>,
        /// Whether it hosts the group.
        hosts: bool,
    },
    /// Take an account off the roster, and begin an epoch without it.
    Remove {
        /// The group.
        group: GroupId,
        /// Who.
        account: Did,
    },
    /// Be part of a group, as its roster says.
    Join {
        /// The group.
        ticket: GroupTicket,
        /// What it is called here, if not as its owner calls it.
        name: Option<String>,
    },
    /// Write to a group.
    Post {
        /// The group.
        group: GroupId,
        /// What each post says.
        bodies: Vec<Vec<u8>>,
    },
    /// Read posts that are here.
    Read {
        /// The group.
        group: GroupId,
        /// From which number on.
        from: u64,
        /// How many at most; [`PAGE_MAX`](super::PAGE_MAX) in any case.
        most: usize,
        /// Whether to end before the first number that may be missing still: what is read so comes in
        /// order, also while the host's posts come in.
        complete: bool,
    },
    /// Reconcile with a host now.
    Sync {
        /// The group.
        group: GroupId,
        /// With whom, if not with the host that this node follows.
        with: Option<Did>,
    },
    /// Say what that would cost.
    Plan {
        /// The group.
        group: GroupId,
        /// With whom, if not with the host that this node follows.
        with: Option<Did>,
    },
    /// Be part of a group no more, and delete what is here of it.
    Leave {
        /// The group.
        group: GroupId,
    },
    /// Every group that this node has.
    List,
    /// What groups come to.
    Numbers,
}

/// What comes of a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The group as it is now.
    Group(Box<GroupView>),
    /// A ticket for whoever was invited.
    Ticket(Box<GroupTicket>),
    /// Posts that are durable here.
    Posted(Vec<Posted>),
    /// Posts.
    Page(Page),
    /// How the reconciliation ended.
    Synced(Did, Box<Report>),
    /// What it would cost.
    Planned(PlanView),
    /// The groups.
    Groups(Vec<GroupView>),
    /// It is left.
    Left,
    /// What groups come to.
    Numbers(GroupNumbers),
}

/// A post that was written here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// Its name.
    pub id: EnvelopeId,
    /// Its number; none until the host has numbered it.
    pub seq: Option<u64>,
}

/// Some posts of a group, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The posts.
    pub posts: Vec<PostView>,
    /// From which number on there are more; none if these were the last.
    pub next: Option<u64>,
}

/// A post as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostView {
    /// Its number.
    pub seq: u64,
    /// Its name.
    pub id: EnvelopeId,
    /// Who wrote it.
    pub author: Did,
    /// When, by its author's clock.
    pub written_ms: u64,
    /// The epoch under whose key it is sealed.
    pub epoch: u64,
    /// What it says; none if this node has not the key of its epoch.
    pub body: Option<Vec<u8>>,
}

/// What a reconciliation would cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanView {
    /// With whom.
    pub with: Did,
    /// Posts that are here.
    pub here: u64,
    /// Posts that the host says it holds.
    pub there: u64,
    /// Posts that would come.
    pub receive: u64,
    /// Their bytes.
    pub receive_bytes: u64,
    /// Posts that would be sent.
    pub send: u64,
    /// Their bytes.
    pub send_bytes: u64,
    /// Messages that compare, each with its answer.
    pub rounds: u32,
    /// Bytes of those, both directions.
    pub bytes: u64,
    /// Whether it would be just so, if nothing else is posted; else at least so.
    pub exact: bool,
}

/// A group as this node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    /// The group.
    pub group: GroupId,
    /// The network it is on.
    pub network: NetworkId,
    /// Its name here.
    pub name: String,
    /// Who owns it.
    pub owner: Did,
    /// Whether this node does.
    pub owned: bool,
    /// Revision of the roster in force; zero until one has come.
    pub revision: u64,
    /// The epoch that posts are sealed in.
    pub epoch: u64,
    /// When the roster ends, in milliseconds of Unix time.
    pub roster_ends_ms: u64,
    /// The members.
    pub members: Vec<Did>,
    /// The hosts.
    pub hosts: Vec<Did>,
    /// Whether this node is a member.
    pub member: bool,
    /// Whether this node hosts it.
    pub host: bool,
    /// The host whose numbers the posts have here, if not this node's own.
    pub follows: Option<Did>,
    /// The host that this node asks, and no other while it answers; none at a host, which asks all others.
    pub asks: Option<Did>,
    /// Posts that are here.
    pub posts: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Posts that wait for the host's number.
    pub waiting: usize,
    /// Keys of epochs that this node has.
    pub keys: usize,
    /// What each host came to last.
    pub courses: Vec<CourseView>,
}

/// Where this node stands with one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CourseView {
    /// The host.
    pub with: Did,
    /// `idle`, `asking`, `waiting` or `reconciling`.
    pub stage: &'static str,
    /// When they last reconciled to the end, in milliseconds of Unix time.
    pub settled_ms: Option<u64>,
    /// Failures since.
    pub failures: u32,
    /// The code of the last one.
    pub error: Option<String>,
}

/// Something to do or to know.
#[derive(Debug)]
pub enum Effect {
    /// Say this, and tell with `handle_said` what became of it.
    Say {
        /// To whom.
        to: Did,
        /// The message.
        data: Data,
    },
    /// The oldest message is taken: what came of it is durable.
    Taken,
    /// What comes of a request.
    Answer(AskId, Result<Reply, GroupsError>),
    /// Something worth watching.
    Event(GroupEvent),
    /// The store failed: nothing more is done until the node is started again.
    Failed {
        /// What it said.
        cause: String,
    },
}

/// What happened, told once it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupEvent {
    /// A post is here that was not before.
    Kept {
        /// The group.
        group: GroupId,
        /// Its number.
        seq: u64,
        /// Its name.
        id: EnvelopeId,
        /// Who wrote it.
        author: Did,
    },
    /// The host refused a post of this node's.
    PostRefused {
        /// The group.
        group: GroupId,
        /// Its name.
        id: EnvelopeId,
        /// The host's code.
        code: String,
    },
    /// All that the followed host has is here, up to this number.
    Complete {
        /// The group.
        group: GroupId,
        /// The first number of which nothing is known yet.
        to: u64,
    },
    /// A key of an epoch that is over came, or it is known that none comes.
    Keys {
        /// The group.
        group: GroupId,
    },
    /// Another roster is in force.
    Roster {
        /// The group.
        group: GroupId,
        /// Its revision.
        revision: u64,
    },
}
