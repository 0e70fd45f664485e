//! Groups on the local API.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use futures_util::stream::unfold;
use overlane_core::identity::AccountKey;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::ToSchema;

use super::error::ApiError;
use super::object::Object;
use super::openapi::Refused;
use super::server::{Answer, Asked, Shared, bytes, destination};
use super::streams::{line, lines};
use super::types::Refusal;
use crate::Node;
use crate::groups::{
    Follow, Group, GroupCounters, GroupNumbers, GroupTicket, GroupView, GroupsError, PostView,
};

/// Every group that the node has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupsReport {
    /// The groups.
    pub groups: Vec<GroupReport>,
}

/// One group as the node knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupReport {
    /// Its name on the network.
    pub group: String,
    /// Its name here.
    pub name: String,
    /// Who owns it.
    pub owner: String,
    /// Whether this node does.
    pub owned: bool,
    /// Whether this node is a member.
    pub member: bool,
    /// Whether this node hosts it.
    pub host: bool,
    /// Revision of the roster in force; zero until one has come.
    pub revision: u64,
    /// The epoch that posts are sealed in.
    pub epoch: u64,
    /// When the roster ends, in milliseconds of Unix time.
    pub roster_ends_ms: u64,
    /// The members.
    pub members: Vec<String>,
    /// The hosts.
    pub hosts: Vec<String>,
    /// The host whose numbers the posts have here, if not this node's own.
    pub follows: Option<String>,
    /// The host that this node asks, and no other while it answers; none at a host, which asks all others.
    pub asks: Option<String>,
    /// Posts that are here.
    pub posts: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Posts of this node's own that wait for the host's number.
    pub waiting: usize,
    /// Keys of epochs that this node has.
    pub keys: usize,
    /// Where this node stands with each host.
    pub courses: Vec<CourseReport>,
}

/// Where the node stands with one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CourseReport {
    /// The host.
    pub with: String,
    /// `idle`, `asking`, `waiting` or `reconciling`.
    pub stage: String,
    /// When they last reconciled to the end, in milliseconds of Unix time.
    pub settled_ms: Option<u64>,
    /// Failures since.
    pub failures: u32,
    /// The code of the last one.
    pub error: Option<String>,
}

/// Makes a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateGroupRequest {
    /// What it is called.
    pub name: String,
    /// Who else may host it.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// Puts an account on a group's roster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InviteGroupRequest {
    /// The group: its name here, or on the network.
    pub group: String,
    /// Who: `did:key:z…`; a host that is no member also as 40 hexadecimal digits.
    pub account: String,
    /// Whether it is a member.
    pub member: bool,
    /// Whether it hosts the group.
    pub host: bool,
}

/// Who was invited, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitedReport {
    /// The group.
    pub group: String,
    /// Who.
    pub account: String,
    /// What to give to it.
    pub ticket: String,
}

/// Takes an account off a group's roster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveGroupRequest {
    /// The group: its name here, or on the network.
    pub group: String,
    /// Who.
    pub account: String,
}

/// Joins a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinGroupRequest {
    /// The ticket.
    pub ticket: String,
    /// What the group is called here, if not as its owner calls it.
    pub name: Option<String>,
}

/// Writes to a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PostRequest {
    /// The group: its name here, or on the network.
    pub group: String,
    /// What each post says, in hexadecimal.
    pub bodies: Vec<String>,
}

/// Posts that were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PostedReport {
    /// In the order they were given.
    pub posts: Vec<PostedPost>,
}

/// One post that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PostedPost {
    /// Its name: BLAKE3 of its sealed bytes.
    pub id: String,
    /// Its number; null until the host has numbered it.
    pub seq: Option<u64>,
}

/// Reads posts that are here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadGroupRequest {
    /// The group: its name here, or on the network.
    pub group: String,
    /// From which number on.
    #[serde(default)]
    pub from: u64,
    /// How many at most.
    #[serde(default)]
    pub most: Option<usize>,
}

/// Some posts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageReport {
    /// In the order of their numbers.
    pub posts: Vec<PostReport>,
    /// From which number on there are more.
    pub next: Option<u64>,
}

/// One post.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PostReport {
    /// Its number.
    pub seq: u64,
    /// Its name.
    pub id: String,
    /// Who wrote it.
    pub author: String,
    /// When, by its author's clock, in milliseconds of Unix time.
    pub written_ms: u64,
    /// The epoch under whose key it is sealed.
    pub epoch: u64,
    /// What it says, where it is text.
    pub text: Option<String>,
    /// What it says, in hexadecimal; null if this node has not the key.
    pub body: Option<String>,
}

/// A line of a group that is followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum FollowLine {
    /// A post.
    Post(PostReport),
    /// It goes no further.
    Failed(Refusal),
}

/// Asks about a group and one of its hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupRequest {
    /// The group: its name here, or on the network.
    pub group: String,
    /// The host, if not the one that the node follows.
    #[serde(default)]
    pub host: Option<String>,
}

/// How a reconciliation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SyncedReport {
    /// With whom.
    pub with: String,
    /// Whether both have the same now, but for what either refused.
    pub settled: bool,
    /// The code of its end.
    pub end: String,
    /// The same in words.
    pub words: String,
    /// Messages sent, each with its answer.
    pub rounds: u32,
    /// Bytes of both directions, posts not counted.
    pub bytes: u64,
    /// Posts that came.
    pub received: u64,
    /// Posts that went.
    pub sent: u64,
    /// Posts refused here, with the codes of why.
    pub refused_here: BTreeMap<String, usize>,
    /// Posts that the host refused, with the codes of why.
    pub refused_there: BTreeMap<String, usize>,
}

/// What a reconciliation would cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanReport {
    /// With whom.
    pub with: String,
    /// Posts that are here.
    pub here: u64,
    /// Posts that the host says it holds.
    pub there: u64,
    /// Posts that would come.
    pub receive: u64,
    /// Their bytes.
    pub receive_bytes: u64,
    /// Posts that would go.
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

/// A group that was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftReport {
    /// The group.
    pub group: String,
    /// What it was called here.
    pub name: String,
    /// Whether this node owned it.
    pub owned: bool,
}

/// Every group that the node has.
#[utoipa::path(get, path = "/v1/groups",
    responses((status = 200, description = "as asked", body = GroupsReport), Refused))]
pub(super) async fn list(State(daemon): Shared) -> Answer<GroupsReport> {
    let groups = daemon.node.groups().await?;
    let groups = groups.iter().map(report).collect();
    Ok(Json(GroupsReport { groups }))
}

/// Makes a group.
#[utoipa::path(post, path = "/v1/groups", request_body = CreateGroupRequest,
    responses((status = 200, description = "as asked", body = GroupReport), Refused))]
pub(super) async fn create(
    State(daemon): Shared,
    asked: Asked<CreateGroupRequest>,
) -> Answer<GroupReport> {
    let Json(Object(CreateGroupRequest { name, hosts })) = asked?;
    let hosts: Result<Vec<_>, _> = hosts.iter().map(|host| destination(host)).collect();
    let group = daemon.node.create_group(&name, &hosts?).await?;
    Ok(Json(report(&group.view().await?)))
}

/// Puts an account on a group's roster.
#[utoipa::path(post, path = "/v1/groups/invite", request_body = InviteGroupRequest,
    responses((status = 200, description = "as asked", body = InvitedReport), Refused))]
pub(super) async fn invite(
    State(daemon): Shared,
    asked: Asked<InviteGroupRequest>,
) -> Answer<InvitedReport> {
    let Json(Object(asked)) = asked?;
    let (group, _) = named(&daemon.node, &asked.group).await?;
    let account = destination(&asked.account)?;
    let ticket = if asked.member {
        let key: Result<AccountKey, _> = asked.account.parse();
        let key = key.map_err(|_| ApiError::NoKey { account })?;
        group.invite(&key, asked.host).await?
    } else {
        group.invite_host(account).await?
    };
    Ok(Json(InvitedReport {
        group: group.id().to_string(),
        account: account.to_string(),
        ticket: ticket.to_string(),
    }))
}

/// Takes an account off a group's roster.
#[utoipa::path(post, path = "/v1/groups/remove", request_body = RemoveGroupRequest,
    responses((status = 200, description = "as asked", body = GroupReport), Refused))]
pub(super) async fn remove(
    State(daemon): Shared,
    asked: Asked<RemoveGroupRequest>,
) -> Answer<GroupReport> {
    let Json(Object(asked)) = asked?;
    let (group, _) = named(&daemon.node, &asked.group).await?;
    let view = group.remove(destination(&asked.account)?).await?;
    Ok(Json(report(&view)))
}

/// Joins the group that a ticket is of.
#[utoipa::path(post, path = "/v1/groups/join", request_body = JoinGroupRequest,
    responses((status = 200, description = "as asked", body = GroupReport), Refused))]
pub(super) async fn join(
    State(daemon): Shared,
    asked: Asked<JoinGroupRequest>,
) -> Answer<GroupReport> {
    let Json(Object(JoinGroupRequest { ticket, name })) = asked?;
    let ticket: GroupTicket = ticket.parse().map_err(ApiError::GroupTicket)?;
    let (wanted, found) = (daemon.node.network(), ticket.network);
    if wanted != found {
        return Err(ApiError::GroupOfOtherNetwork { wanted, found });
    }
    let group = daemon.node.join_group(&ticket, name.as_deref()).await?;
    Ok(Json(report(&group.view().await?)))
}

/// Posts to a group.
#[utoipa::path(post, path = "/v1/groups/post", request_body = PostRequest,
    responses((status = 200, description = "as asked", body = PostedReport), Refused))]
pub(super) async fn post(State(daemon): Shared, asked: Asked<PostRequest>) -> Answer<PostedReport> {
    let Json(Object(PostRequest { group, bodies })) = asked?;
    let (group, _) = named(&daemon.node, &group).await?;
    let bodies: Result<Vec<_>, _> = bodies.iter().map(|body| bytes("bodies", body)).collect();
    let posted = group.post(bodies?).await?;
    let posts = posted.into_iter().map(|post| PostedPost {
        id: post.id.to_string(),
        seq: post.seq,
    });
    let posts = posts.collect();
    Ok(Json(PostedReport { posts }))
}

/// Posts that are here, in their order.
#[utoipa::path(post, path = "/v1/groups/read", request_body = ReadGroupRequest,
    responses((status = 200, description = "as asked", body = PageReport), Refused))]
pub(super) async fn read(
    State(daemon): Shared,
    asked: Asked<ReadGroupRequest>,
) -> Answer<PageReport> {
    let Json(Object(ReadGroupRequest { group, from, most })) = asked?;
    let (group, _) = named(&daemon.node, &group).await?;
    let page = group.read(from, most.unwrap_or(usize::MAX)).await?;
    Ok(Json(PageReport {
        posts: page.posts.iter().map(shown).collect(),
        next: page.next,
    }))
}

/// Posts as they come, until the reader goes away, the group is left, or the node is stopping.
#[utoipa::path(post, path = "/v1/groups/follow", request_body = ReadGroupRequest,
    responses((status = 200, description = "as asked", body = FollowLine, content_type = "application/x-ndjson"), Refused))]
pub(super) async fn follow(
    State(daemon): Shared,
    asked: Asked<ReadGroupRequest>,
) -> Result<Response, ApiError> {
    let Json(Object(ReadGroupRequest { group, from, .. })) = asked?;
    let (group, _) = named(&daemon.node, &group).await?;
    let follower = Follower {
        follow: Some(group.follow(from)),
        stopping: daemon.stopping.clone(),
    };
    let next = |mut follower: Follower| async move {
        let next = follower.next().await?;
        Some((line(&next), follower))
    };
    Ok(lines(unfold(follower, next)))
}

/// Reconciles with a host, now.
#[utoipa::path(post, path = "/v1/groups/sync", request_body = GroupRequest,
    responses((status = 200, description = "as asked", body = SyncedReport), Refused))]
pub(super) async fn sync(
    State(daemon): Shared,
    asked: Asked<GroupRequest>,
) -> Answer<SyncedReport> {
    let Json(Object(GroupRequest { group, host })) = asked?;
    let (group, _) = named(&daemon.node, &group).await?;
    let host = host.as_deref().map(destination).transpose()?;
    let (with, report) = group.sync(host).await?;
    let why = |refused: &[overlane_recon::Refused]| {
        let mut codes: BTreeMap<String, usize> = BTreeMap::new();
        for it in refused {
            *codes.entry(it.why.clone()).or_default() += 1;
        }
        codes
    };
    let end = report.end.as_ref();
    Ok(Json(SyncedReport {
        with: with.to_string(),
        settled: end == Some(&crate::groups::End::Settled),
        end: end
            .map_or("recon/gave_up_idle", |end| end.code())
            .to_owned(),
        words: end.map_or_else(String::new, ToString::to_string),
        rounds: report.rounds,
        bytes: report.bytes(),
        received: report.received,
        sent: report.sent,
        refused_here: why(&report.refused_here),
        refused_there: why(&report.refused_by_peer),
    }))
}

/// What a reconciliation would cost.
#[utoipa::path(post, path = "/v1/groups/plan", request_body = GroupRequest,
    responses((status = 200, description = "as asked", body = PlanReport), Refused))]
pub(super) async fn plan(State(daemon): Shared, asked: Asked<GroupRequest>) -> Answer<PlanReport> {
    let Json(Object(GroupRequest { group, host })) = asked?;
    let (group, _) = named(&daemon.node, &group).await?;
    let host = host.as_deref().map(destination).transpose()?;
    let plan = group.plan(host).await?;
    Ok(Json(PlanReport {
        with: plan.with.to_string(),
        here: plan.here,
        there: plan.there,
        receive: plan.receive,
        receive_bytes: plan.receive_bytes,
        send: plan.send,
        send_bytes: plan.send_bytes,
        rounds: plan.rounds,
        bytes: plan.bytes,
        exact: plan.exact,
    }))
}

/// Leaves a group, and forgets it.
#[utoipa::path(post, path = "/v1/groups/leave", request_body = GroupRequest,
    responses((status = 200, description = "as asked", body = LeftReport), Refused))]
pub(super) async fn leave(State(daemon): Shared, asked: Asked<GroupRequest>) -> Answer<LeftReport> {
    let Json(Object(GroupRequest { group, .. })) = asked?;
    let (group, view) = named(&daemon.node, &group).await?;
    group.leave().await?;
    Ok(Json(LeftReport {
        group: view.group.to_string(),
        name: view.name,
        owned: view.owned,
    }))
}

/// What groups come to, for the status: why their store failed, and numbers by name.
pub(super) fn numbers(
    numbers: Result<GroupNumbers, GroupsError>,
) -> (Option<String>, BTreeMap<String, u64>) {
    let numbers = match numbers {
        Ok(numbers) => numbers,
        Err(error) => return (Some(error.to_string()), BTreeMap::new()),
    };
    let GroupCounters {
        heard,
        malformed,
        turned_away,
        not_said,
        kept,
        let_go,
        posts_refused,
        went_over,
        settled,
        failed,
        rosters,
        rosters_refused,
        earlier_asked,
        earlier,
        earlier_given,
        earlier_let_go,
        news,
    } = numbers.counters;
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let logs = numbers.logs;
    let named = [
        ("groups", count(numbers.groups)),
        ("asks_waiting", count(numbers.asks_waiting)),
        ("nodes_spoken_to", count(numbers.lines)),
        ("reconciling", count(numbers.syncing)),
        ("messages_heard", heard),
        ("messages_malformed", malformed),
        ("messages_turned_away", turned_away),
        ("words_not_said", not_said),
        ("posts_kept", kept),
        ("posts_let_go", let_go),
        ("posts_that_made_room", logs.made_room),
        ("posts_that_made_room_for_their_author", logs.own_room),
        ("posts_refused_there", posts_refused),
        ("went_over", went_over),
        ("posts_refused_here", logs.refused),
        ("posts_known_already", logs.known),
        ("posts_pushed", logs.pushed),
        ("transactions", logs.flushes),
        ("recon_answered", logs.answered),
        ("recon_refused", logs.not_answered),
        ("frames_unexpected", logs.unexpected),
        ("settled", settled),
        ("failed", failed),
        ("rosters_taken", rosters),
        ("rosters_refused", rosters_refused),
        ("earlier_rosters_asked", earlier_asked),
        ("earlier_rosters_taken", earlier),
        ("earlier_rosters_given", earlier_given),
        ("earlier_rosters_let_go", earlier_let_go),
        ("news_told", news),
    ];
    let named = named.into_iter();
    let named = named.map(|(name, number)| (name.to_owned(), number));
    (None, named.collect())
}

/// The group of this name here, or on the network.
async fn named(node: &Node, text: &str) -> Result<(Group, GroupView), ApiError> {
    let groups = node.groups().await?;
    let found = groups
        .into_iter()
        .find(|it| it.name == text || it.group.to_string() == text);
    let text = text.chars().take(100).collect();
    let view = found.ok_or(ApiError::NoSuchGroup { text })?;
    Ok((node.group(view.group), view))
}

struct Follower {
    follow: Option<Follow>,
    stopping: watch::Receiver<bool>,
}

impl Follower {
    async fn next(&mut self) -> Option<FollowLine> {
        let follow = self.follow.as_mut()?;
        let next = tokio::select! {
            next = follow.next() => next,
            _ = self.stopping.wait_for(|stopping| *stopping) => return None,
        };
        Some(match next {
            Ok(post) => FollowLine::Post(shown(&post)),
            Err(error) => {
                self.follow = None;
                FollowLine::Failed(Refusal::of(&error))
            }
        })
    }
}

fn report(view: &GroupView) -> GroupReport {
    let all = |dids: &[overlane_core::Did]| dids.iter().map(ToString::to_string).collect();
    let courses = view.courses.iter().map(|course| CourseReport {
        with: course.with.to_string(),
        stage: course.stage.to_owned(),
        settled_ms: course.settled_ms,
        failures: course.failures,
        error: course.error.clone(),
    });
    GroupReport {
        group: view.group.to_string(),
        name: view.name.clone(),
        owner: view.owner.to_string(),
        owned: view.owned,
        member: view.member,
        host: view.host,
        revision: view.revision,
        epoch: view.epoch,
        roster_ends_ms: view.roster_ends_ms,
        members: all(&view.members),
        hosts: all(&view.hosts),
        follows: view.follows.map(|host| host.to_string()),
        asks: view.asks.map(|host| host.to_string()),
        posts: view.posts,
        bytes: view.bytes,
        waiting: view.waiting,
        keys: view.keys,
        courses: courses.collect(),
    }
}

fn shown(post: &PostView) -> PostReport {
    let text = post
        .body
        .as_ref()
        .and_then(|body| std::str::from_utf8(body).ok());
    PostReport {
        seq: post.seq,
        id: post.id.to_string(),
        author: post.author.to_string(),
        written_ms: post.written_ms,
        epoch: post.epoch,
        text: text.map(str::to_owned),
        body: post.body.as_ref().map(hex::encode),
    }
}
