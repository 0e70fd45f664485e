//! `group create | list | invite | remove | join | post | log | sync | plan | leave`: logs that
//! several accounts write and read.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write};

use axum::http::Method;
use overlane_core::Fault;
use overlane_node::api::{
    Client, CreateGroupRequest, FollowLine, GroupReport, GroupRequest, GroupsReport,
    InviteGroupRequest, InvitedReport, JoinGroupRequest, LeftReport, PageReport, PlanReport,
    PostReport, PostRequest, PostedReport, ReadGroupRequest, RemoveGroupRequest, SyncedReport,
    counted,
};
use overlane_node::groups::POSTS_PER_ASK;
use overlane_node::home::Home;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::args::{Groups, Post};
use super::ask;
use super::output::{Done, Failure, Output};
use super::refs::quoted;
use super::shell_word;

/// Bytes of the posts of one request.
const REQUEST_BYTES: usize = 96 * 1024;

/// Does what was asked about groups.
pub(super) fn groups(home: &Home, asked: Groups, output: &Output) -> Result<Done, Failure> {
    match asked {
        Groups::Create { name, hosts } => {
            let asked = CreateGroupRequest { name, hosts };
            let made: GroupReport = call(home, Method::POST, "/v1/groups", &asked)?;
            output.answer(&made, |made| {
                let overlane = &output.overlane;
                let name = shell_word(&made.name);
                format!(
                    "{}\nnext:\n  {overlane} group invite {name} DID_KEY    put a member on its \
                     roster; prints a ticket\n  {overlane} group post {name} \"hello\"",
                    in_full(made)
                )
            })?;
        }
        Groups::List => {
            let report = listed(home)?;
            output.answer(&report, |report| {
                if report.groups.is_empty() {
                    return format!("no groups; make one: {} group create NAME", output.overlane);
                }
                let groups: Vec<_> = report.groups.iter().map(in_full).collect();
                groups.join("\n\n")
            })?;
        }
        Groups::Invite {
            group,
            account,
            host,
            host_only,
        } => {
            let asked = InviteGroupRequest {
                group,
                account,
                member: !host_only,
                host: host || host_only,
            };
            let invited: InvitedReport = call(home, Method::POST, "/v1/groups/invite", &asked)?;
            output.answer(&invited, |invited| invited.ticket.clone())?;
        }
        Groups::Remove { group, account } => {
            let asked = RemoveGroupRequest { group, account };
            let now: GroupReport = call(home, Method::POST, "/v1/groups/remove", &asked)?;
            output.answer(&now, |now| {
                format!(
                    "{}\nwhat is posted from now on is sealed under the key of epoch {}; what was \
                     posted before can still be read by who was removed",
                    in_full(now),
                    now.epoch
                )
            })?;
        }
        Groups::Join { ticket, name } => {
            let asked = JoinGroupRequest { ticket, name };
            let joined: GroupReport = call(home, Method::POST, "/v1/groups/join", &asked)?;
            output.answer(&joined, |joined| match joined.revision {
                0 => format!(
                    "{}\nno host has answered yet: the node goes on asking",
                    in_full(joined)
                ),
                _ => in_full(joined),
            })?;
        }
        Groups::Post(asked) => return post(home, &asked, output),
        Groups::Log {
            group,
            from,
            count,
            follow,
        } => return log(home, group, from, count, follow, output),
        Groups::Sync { group, host } => {
            let asked = GroupRequest { group, host };
            let synced: SyncedReport = call(home, Method::POST, "/v1/groups/sync", &asked)?;
            output.answer(&synced, synced_in_words)?;
            return Ok(if synced.settled { Done::Yes } else { Done::No });
        }
        Groups::Plan { group, host } => {
            let asked = GroupRequest { group, host };
            let plan: PlanReport = call(home, Method::POST, "/v1/groups/plan", &asked)?;
            output.answer(&plan, plan_in_words)?;
        }
        Groups::Leave { group, yes } => return leave(home, group, yes, output),
    }
    Ok(Done::Yes)
}

/// What leaving a group loses for good.
#[derive(Debug, Serialize)]
struct Leaving {
    group: String,
    name: String,
    left: bool,
    /// What is lost.
    loses: String,
}

/// Leaves a group, and asks before that where something is lost by it.
fn leave(home: &Home, group: String, yes: bool, output: &Output) -> Result<Done, Failure> {
    let overlane = &output.overlane;
    let known = listed(home)?.groups.into_iter();
    let known = known
        .into_iter()
        .find(|it| it.name == group || it.group == group);
    if let Some((known, loses)) = known.and_then(|it| loses(&it).map(|loses| (it, loses)))
        && !yes
    {
        let name = shell_word(&known.name);
        if output.json || !std::io::stdin().is_terminal() || !agrees(&known.name, &loses)? {
            let leaving = Leaving {
                group: known.group,
                name: known.name,
                left: false,
                loses,
            };
            output.answer(&leaving, |leaving| {
                let loses = &leaving.loses;
                format!(
                    "{loses}\nnothing was changed; to do it: {overlane} group leave {name} --yes"
                )
            })?;
            return Ok(Done::No);
        }
    }
    let asked = GroupRequest { group, host: None };
    let left: LeftReport = call(home, Method::POST, "/v1/groups/leave", &asked)?;
    output.answer(&left, |left| {
        let told = if left.owned {
            ""
        } else {
            "its owner is told, and "
        };
        format!(
            "left {}; {told}what was here of it is deleted",
            quoted(&left.name)
        )
    })?;
    Ok(Done::Yes)
}

/// What is lost for good when this node leaves; none of a group that others keep. One that cannot be left is refused.
fn loses(group: &GroupReport) -> Option<String> {
    let others = group.members.iter().chain(&group.hosts);
    let alone = others.into_iter().all(|it| *it == group.owner);
    let name = quoted(&group.name);
    match (group.owned, group.waiting) {
        (true, _) if alone => Some(format!(
            "{name} is this node's own, and nobody else has it: its {} posts ({} bytes) and its keys are deleted for good. It \
             cannot be handed on, as its name is made of its owner's: have somebody else make a group and invite from there, \
             and keep what was posted with `group log --json`",
            group.posts, group.bytes
        )),
        (false, waiting) if waiting > 0 => Some(format!(
            "{waiting} posts of this node to {name} wait for a host, and are deleted with the rest"
        )),
        _ => None,
    }
}

fn agrees(name: &str, loses: &str) -> Result<bool, Failure> {
    let mut asked = std::io::stderr();
    let mut answer = String::new();
    let read = write!(asked, "{loses}\nto do it, type the group's name: ")
        .and_then(|()| asked.flush())
        .and_then(|()| std::io::stdin().read_line(&mut answer));
    read.map_err(|cause| {
        let message = format!("cannot ask whether to leave: {cause}");
        Failure::new("cli/read", Fault::Usage, message)
    })?;
    Ok(answer.trim() == name)
}

fn listed(home: &Home) -> Result<GroupsReport, Failure> {
    ask(async {
        let report = Client::of(home).get("/v1/groups").await;
        report.map_err(|error| Failure::of_daemon(&error))
    })
}

/// Writes one post, or one a line, as many in a request as it takes.
fn post(home: &Home, asked: &Post, output: &Output) -> Result<Done, Failure> {
    let mut bodies = Bodies::of(asked)?;
    let mut posted = Posted::default();
    loop {
        let mut batch: Vec<String> = Vec::new();
        let mut bytes = 0;
        while batch.len() < POSTS_PER_ASK && bytes < REQUEST_BYTES {
            let Some(body) = bodies.next()? else {
                break;
            };
            bytes += body.len();
            batch.push(hex::encode(body));
        }
        if batch.is_empty() {
            break;
        }
        let group = asked.group.clone();
        let bodies = batch;
        let request = PostRequest { group, bodies };
        let report: PostedReport = call(home, Method::POST, "/v1/groups/post", &request)?;
        posted.posts += report.posts.len();
        posted.numbered += report.posts.iter().filter(|it| it.seq.is_some()).count();
        if let Some(last) = report.posts.last() {
            posted.last_id = Some(last.id.clone());
            posted.last_seq = last.seq;
        }
    }
    output.answer(&posted, |posted| {
        let what = match posted.posts {
            1 => "posted".to_owned(),
            posts => format!("{posts} posted"),
        };
        match posted.last_seq {
            Some(seq) => format!("{what}; the last has number {seq}"),
            None if posted.posts == 0 => "nothing posted".to_owned(),
            None => format!("{what}: durable here, and waiting for the host's number"),
        }
    })?;
    Ok(Done::Yes)
}

#[derive(Debug, Default, Serialize)]
struct Posted {
    posts: usize,
    /// Those that have their number; the others wait for the host's.
    numbered: usize,
    last_id: Option<String>,
    last_seq: Option<u64>,
}

/// What is to be posted.
enum Bodies {
    One(Option<Vec<u8>>),
    Lines(Box<dyn BufRead>),
}

impl Bodies {
    fn of(asked: &Post) -> Result<Self, Failure> {
        if let Some(text) = &asked.text {
            return Ok(Self::One(Some(text.clone().into_bytes())));
        }
        let mut reader: Box<dyn BufRead> = match &asked.file {
            Some(path) => {
                let file = std::fs::File::open(path).map_err(|cause| {
                    let message = format!("cannot read {}: {cause}", path.display());
                    Failure::new("cli/read", Fault::Usage, message)
                })?;
                Box::new(BufReader::new(file))
            }
            None => Box::new(BufReader::new(std::io::stdin())),
        };
        if asked.lines {
            return Ok(Self::Lines(reader));
        }
        let mut body = Vec::new();
        let most = overlane_node::groups::POST_BODY_MAX_BYTES as u64 + 1;
        let read = reader.by_ref().take(most).read_to_end(&mut body);
        read.map_err(|cause| unreadable(&cause))?;
        Ok(Self::One(Some(body)))
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        match self {
            Self::One(body) => Ok(body.take()),
            Self::Lines(reader) => {
                let mut line = Vec::new();
                let read = reader.read_until(b'\n', &mut line);
                if read.map_err(|cause| unreadable(&cause))? == 0 {
                    return Ok(None);
                }
                line.pop_if(|last| *last == b'\n');
                Ok(Some(line))
            }
        }
    }
}

fn unreadable(cause: &std::io::Error) -> Failure {
    let message = format!("cannot read what is to be posted: {cause}");
    Failure::new("cli/read", Fault::Usage, message)
}

/// Shows posts that are here, and those that come if told so.
fn log(
    home: &Home,
    group: String,
    from: u64,
    count: Option<u64>,
    follow: bool,
    output: &Output,
) -> Result<Done, Failure> {
    let client = Client::of(home);
    let failed = |error| Failure::of_daemon(&error);
    let mut left = count.unwrap_or(u64::MAX);
    ask(async {
        let mut asked = ReadGroupRequest {
            group,
            from,
            most: None,
        };
        if follow {
            let lines = client.call_lines("/v1/groups/follow", &asked).await;
            let mut lines = lines.map_err(failed)?;
            while left > 0 {
                match lines.next().await.map_err(failed)? {
                    Some(FollowLine::Post(post)) => output.answer(&post, in_a_line)?,
                    Some(FollowLine::Failed(refusal)) => return Err(Failure::of_refusal(&refusal)),
                    None => return Ok(if count.is_some() { Done::No } else { Done::Yes }),
                }
                left -= 1;
            }
            return Ok(Done::Yes);
        }
        loop {
            asked.most = usize::try_from(left).ok();
            let page: PageReport = client
                .call(Method::POST, "/v1/groups/read", &asked)
                .await
                .map_err(failed)?;
            for post in &page.posts {
                output.answer(post, in_a_line)?;
                left -= 1;
            }
            match page.next {
                Some(next) if left > 0 => asked.from = next,
                _ => return Ok(Done::Yes),
            }
        }
    })
}

fn call<T: DeserializeOwned>(
    home: &Home,
    method: Method,
    path: &str,
    asked: &impl Serialize,
) -> Result<T, Failure> {
    let client = Client::of(home);
    ask(async {
        let answer = client.call(method, path, asked).await;
        answer.map_err(|error| Failure::of_daemon(&error))
    })
}

fn in_a_line(post: &PostReport) -> String {
    let says = match (&post.text, &post.body) {
        (Some(text), _) => quoted(text),
        (None, Some(body)) => format!("{} bytes: {body}", body.len() / 2),
        (None, None) => format!("sealed in epoch {}, whose key is not here", post.epoch),
    };
    format!("{:>6}  {}  {says}", post.seq, post.author)
}

fn in_full(group: &GroupReport) -> String {
    let what = match (group.member, group.host) {
        (true, true) => "member and host",
        (true, false) => "member",
        (false, true) => "host, no member",
        (false, false) if group.revision == 0 => "joined, not on a roster yet",
        (false, false) => "on its roster no more",
    };
    let mut text = format!(
        "{}\n  group    {}\n  here     {what}\n  owner    {}\n  roster   revision {}, epoch {}, {} \
         members\n  posts    {} of {} bytes",
        quoted(&group.name),
        group.group,
        group.owner,
        group.revision,
        group.epoch,
        group.members.len(),
        group.posts,
        group.bytes,
    );
    if group.waiting > 0 {
        text += &format!("\n  waiting  {} for the host's number", group.waiting);
    }
    for host in &group.hosts {
        let course = group.courses.iter().find(|course| &course.with == host);
        let follows = match &group.follows {
            Some(follows) if follows == host => ", followed",
            _ if group.asks.as_ref() == Some(host) => ", asked",
            _ => "",
        };
        let stands = match course {
            None if group.host => "this node".to_owned(),
            None => "not asked while another answers".to_owned(),
            Some(course) => match &course.error {
                Some(error) => format!(
                    "{}, failed {} times: {error}",
                    course.stage, course.failures
                ),
                None => course.stage.clone(),
            },
        };
        text += &format!("\n  host     {host}  {stands}{follows}");
    }
    text
}

fn synced_in_words(synced: &SyncedReport) -> String {
    let mut text = format!(
        "{} with {}: {} posts came, {} went, in {} rounds and {} bytes besides",
        synced.words, synced.with, synced.received, synced.sent, synced.rounds, synced.bytes
    );
    for (side, refused) in [
        ("here", &synced.refused_here),
        ("there", &synced.refused_there),
    ] {
        for (why, posts) in refused {
            text += &format!("\n  {posts} refused {side}: {}", quoted(why));
        }
    }
    text
}

fn plan_in_words(plan: &PlanReport) -> String {
    let posts = |count| counted(count, "post");
    let least = if plan.exact { "" } else { "at least " };
    format!(
        "with {}: {} here, {} there\n  would come  {least}{}, {} bytes\n  would go    \
         {least}{}, {} bytes\n  besides     {least}{} and {} bytes",
        plan.with,
        posts(plan.here),
        plan.there,
        posts(plan.receive),
        plan.receive_bytes,
        posts(plan.send),
        plan.send_bytes,
        counted(plan.rounds, "round"),
        plan.bytes
    )
}
