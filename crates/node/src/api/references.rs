//! References on the local API, and files by reference.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use futures_util::stream::{StreamExt, once};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::ApiError;
use super::object::Object;
use super::openapi::Refused;
use super::server::{Answer, Asked, Shared};
use super::streams::{line, lines};
use super::types::Refusal;
use crate::Node;
use crate::refs::{
    KeptView, Reason, RefState, ReferenceCounters, ReferenceError, ReferenceStatus, Ticket, Token,
};
use crate::share::{self, About, Fetch, Note};

/// Every reference that the node keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReferencesReport {
    /// In the order they were kept.
    pub references: Vec<ReferenceReport>,
}

/// One reference that the node keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReferenceReport {
    /// Its number.
    pub number: u64,
    /// `shared` for a file of this node, `fetched` for one of another, `other` for what a program
    /// keeps that embeds the node.
    pub kind: String,
    /// Whether what it stands for is this node's own.
    pub own: bool,
    /// `live`, `revoked`, or `broken` for one that was revoked for good or lost.
    pub state: String,
    /// Why, unless it is live.
    pub reason: Option<ReasonReport>,
    /// The node whose it is, if it is another's.
    pub from: Option<String>,
    /// The nodes that hold it, if it is this node's.
    pub holders: Vec<String>,
    /// How many tickets lead to it.
    pub tickets: usize,
    /// The file, if it is one.
    pub file: Option<FileReport>,
}

/// Why a reference works no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReasonReport {
    /// As a number; below 256 the protocol's own.
    pub number: u32,
    /// In words.
    pub text: String,
}

/// A file by reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileReport {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// BLAKE3 of its bytes.
    pub hash: String,
    /// Where it is, if it is this node's.
    pub path: Option<String>,
}

/// Takes a reference back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// Its number.
    pub number: u64,
    /// Whether its identity goes too.
    #[serde(default)]
    pub hard: bool,
    /// Why, for those who hold it.
    pub reason: String,
}

/// Keeps a reference no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DropRequest {
    /// Its number.
    pub number: u64,
}

/// Shares a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareRequest {
    /// Where it is, from the root.
    pub path: String,
}

/// A file that is shared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedReport {
    /// The number of its reference.
    pub number: u64,
    /// What to give to whoever may have it. It is shown this once.
    pub ticket: String,
    /// The file.
    #[serde(flatten)]
    pub file: FileReport,
}

/// Fetches a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FetchRequest {
    /// The ticket.
    pub ticket: String,
    /// From which byte on; null for nothing but what the file is.
    pub from: Option<u64>,
}

/// A line of what is fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum FetchLine {
    /// What it is: the first line.
    File {
        /// The number of its reference here.
        number: u64,
        /// Whose it is.
        from: String,
        /// The file.
        #[serde(flatten)]
        file: FileReport,
    },
    /// Some of its bytes.
    Part {
        /// Where they begin.
        at: u64,
        /// The bytes, in hexadecimal.
        bytes: String,
    },
    /// That was all.
    End,
    /// It goes no further.
    Failed(Refusal),
}

/// Every reference that the node keeps.
#[utoipa::path(get, path = "/v1/refs",
    responses((status = 200, description = "as asked", body = ReferencesReport), Refused))]
pub(super) async fn list(State(daemon): Shared) -> Answer<ReferencesReport> {
    let kept = daemon.node.kept().await?;
    let references = kept.iter().map(report).collect();
    Ok(Json(ReferencesReport { references }))
}

/// Takes one of the node's own references back.
#[utoipa::path(post, path = "/v1/refs/revoke", request_body = RevokeRequest,
    responses((status = 200, description = "as asked", body = ReferenceReport), Refused))]
pub(super) async fn revoke(
    State(daemon): Shared,
    asked: Asked<RevokeRequest>,
) -> Answer<ReferenceReport> {
    let Json(Object(asked)) = asked?;
    let of = daemon.node.restore(Token(asked.number)).await?;
    if asked.hard {
        of.revoke_hard(Reason::FIRST_FREE, &asked.reason).await?;
    } else {
        of.revoke_soft(Reason::FIRST_FREE, &asked.reason).await?;
    }
    Ok(Json(one(&daemon.node, asked.number).await?))
}

/// Lets go of a reference.
#[utoipa::path(delete, path = "/v1/refs", request_body = DropRequest,
    responses((status = 200, description = "as asked", body = ReferenceReport), Refused))]
pub(super) async fn drop(
    State(daemon): Shared,
    asked: Asked<DropRequest>,
) -> Answer<ReferenceReport> {
    let Json(Object(DropRequest { number })) = asked?;
    let was = one(&daemon.node, number).await?;
    daemon.node.forget(Token(number)).await?;
    Ok(Json(was))
}

/// Shares a file by reference.
#[utoipa::path(post, path = "/v1/share", request_body = ShareRequest,
    responses((status = 200, description = "as asked", body = SharedReport), Refused))]
pub(super) async fn share(
    State(daemon): Shared,
    asked: Asked<ShareRequest>,
) -> Answer<SharedReport> {
    let Json(Object(ShareRequest { path })) = asked?;
    let offer = share::share(&daemon.node, path.as_ref()).await?;
    Ok(Json(SharedReport {
        number: offer.token.0,
        ticket: offer.ticket.to_string(),
        file: file(&offer.about, Some(path)),
    }))
}

/// The file's parts as they come, until it is whole, the reader goes away, or the node is stopping.
#[utoipa::path(post, path = "/v1/fetch", request_body = FetchRequest,
    responses((status = 200, description = "as asked", body = FetchLine, content_type = "application/x-ndjson"), Refused))]
pub(super) async fn fetch(
    State(daemon): Shared,
    asked: Asked<FetchRequest>,
) -> Result<Response, ApiError> {
    let Json(Object(FetchRequest { ticket, from })) = asked?;
    let ticket: Ticket = ticket.parse().map_err(ApiError::Ticket)?;
    let fetch = Fetch::of(&daemon.node, &ticket).await?;
    let begin = FetchLine::File {
        number: fetch.token().0,
        from: fetch.from().to_string(),
        file: file(fetch.about(), None),
    };
    let size = fetch.about().size;
    let parts = fetch.parts(from.unwrap_or(size)).map(|part| match part {
        Ok((at, bytes)) => FetchLine::Part {
            at,
            bytes: hex::encode(bytes),
        },
        Err(error) => FetchLine::Failed(Refusal::of(&error)),
    });
    let mut stopping = daemon.stopping.clone();
    let stopped = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let all = once(std::future::ready(begin))
        .chain(parts)
        .chain(once(std::future::ready(FetchLine::End)));
    let mut failed = false;
    let until_it_fails = all.take_while(move |line| {
        let go_on = !failed;
        failed = matches!(line, FetchLine::Failed(_));
        std::future::ready(go_on)
    });
    let stopped = Box::pin(until_it_fails.take_until(Box::pin(stopped)));
    Ok(lines(stopped.map(|each| line(&each))))
}

/// What references come to, for the status: why their store failed, and numbers by name.
pub(super) fn numbers(status: &ReferenceStatus) -> (Option<String>, BTreeMap<String, u64>) {
    let ReferenceCounters {
        commits,
        begins,
        refused_begins,
        calls,
        calls_refused,
        answers_unwanted,
        tickets_redeemed,
        tickets_unknown,
        drops_executed,
        drops_uninformed,
        resurrections,
        dead_letters,
        undeliverable,
        soft_violations,
        duplicates,
        gaps,
        stale,
        ends,
    } = &status.counters;
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let numbers = [
        ("services", count(status.exports)),
        ("open_calls", count(status.open_calls)),
        ("objects", count(status.known.0)),
        ("promises", count(status.known.1)),
        ("nodes", count(status.fars.len())),
        ("commits", *commits),
        ("epochs_begun", *begins),
        ("epochs_refused", *refused_begins),
        ("calls", *calls),
        ("calls_refused", *calls_refused),
        ("answers_unwanted", *answers_unwanted),
        ("tickets_redeemed", *tickets_redeemed),
        ("tickets_unknown", *tickets_unknown),
        ("drops_executed", *drops_executed),
        ("drops_uninformed", *drops_uninformed),
        ("resurrections", *resurrections),
        ("dead_letters", *dead_letters),
        ("undeliverable", *undeliverable),
        ("soft_violations", *soft_violations),
        ("duplicates", *duplicates),
        ("gaps", *gaps),
        ("stale", *stale),
    ];
    let named = numbers.into_iter();
    let named = named.map(|(name, number)| (name.to_owned(), number));
    let ends = ends
        .iter()
        .map(|(code, count)| (format!("ended {code}"), *count));
    let failed = match &status.store {
        Some(Err(cause)) => Some(cause.clone()),
        _ => None,
    };
    (failed, named.chain(ends).collect())
}

async fn one(node: &Node, number: u64) -> Result<ReferenceReport, ApiError> {
    let kept = node.kept().await?;
    let one = kept.iter().find(|kept| kept.id == Token(number));
    let one = one.ok_or(ReferenceError::NotKept { number })?;
    Ok(report(one))
}

fn report(kept: &KeptView) -> ReferenceReport {
    let note = Note::read(&kept.note);
    let kind = match &note {
        Some(Note::Shared { .. }) => "shared",
        Some(Note::Fetched { .. }) => "fetched",
        None => "other",
    };
    let (state, why) = match &kept.state {
        RefState::Live => ("live", None),
        RefState::Revoked(why) => ("revoked", Some(why)),
        RefState::Broken(why) => ("broken", Some(why)),
    };
    let from = match &note {
        Some(Note::Fetched { from, .. }) => Some(*from),
        _ => kept.owner,
    };
    let path = match &note {
        Some(Note::Shared { path, .. }) => Some(path.display().to_string()),
        _ => None,
    };
    ReferenceReport {
        number: kept.id.0,
        kind: kind.to_owned(),
        own: kept.own,
        state: state.to_owned(),
        reason: why.map(|why| ReasonReport {
            number: why.reason.0,
            text: why.to_string(),
        }),
        from: from.map(|did| did.to_string()),
        holders: kept.holders.iter().map(ToString::to_string).collect(),
        tickets: kept.tickets,
        file: note.as_ref().map(|note| file(note.about(), path)),
    }
}

fn file(about: &About, path: Option<String>) -> FileReport {
    FileReport {
        name: about.name.clone(),
        size: about.size,
        hash: hex::encode(about.hash),
        path,
    }
}
