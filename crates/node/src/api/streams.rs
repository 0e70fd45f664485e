//! Events, and the right to take messages, for as long as somebody reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, unfold};
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::time::timeout;

use super::error::ApiError;
use super::object::Object;
use super::openapi::Refused;
use super::report;
use super::server::{Asked, Daemon};
use super::types::{EventLine, TakeRequest, TakenMessage};
use crate::Event;

/// What happens from now on, together with the right to take messages for as long as the reader
/// stays: one watcher at a time, so that nobody's messages go to somebody else.
#[utoipa::path(get, path = "/v1/watch",
    responses((status = 200, description = "as asked", body = EventLine, content_type = "application/x-ndjson"), Refused))]
pub(super) async fn watch(State(daemon): State<Arc<Daemon>>) -> Result<Response, ApiError> {
    let right = daemon.watching.begin().await?;
    let watch = Some(right.watch);
    Ok(events_of(&daemon, watch, Some(right)))
}

/// What happens from now on: an event a line, or a server-sent event each, named by what happened,
/// for who accepts those.
#[utoipa::path(get, path = "/v1/events",
    responses((status = 200, description = "as asked", content(
        (EventLine = "application/x-ndjson"), (EventLine = "text/event-stream"))), Refused))]
pub(super) async fn events(State(daemon): State<Arc<Daemon>>, headers: HeaderMap) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|it| it.to_str().ok());
    if !accepts.is_some_and(|it| it.contains("text/event-stream")) {
        return events_of(&daemon, None, None);
    }
    let next = |mut watcher: Watcher| async move {
        let event = watcher.next().await?;
        let name = event.name();
        Some((SseEvent::default().event(name).json_data(&event), watcher))
    };
    let stream = unfold(Watcher::of(&daemon, None, None), next);
    Sse::new(stream)
        .keep_alive(KeepAlive::default())
        .into_response()
}

fn events_of(daemon: &Daemon, watch: Option<u64>, right: Option<Right>) -> Response {
    let watcher = Watcher::of(daemon, watch, right);
    let next = |mut watcher: Watcher| async move {
        let event = watcher.next().await?;
        Some((line(&event), watcher))
    };
    lines(unfold(watcher, next))
}

struct Watcher {
    begin: Option<EventLine>,
    events: broadcast::Receiver<Event>,
    stopping: watch::Receiver<bool>,
    _right: Option<Right>,
}

impl Watcher {
    fn of(daemon: &Daemon, watch: Option<u64>, right: Option<Right>) -> Self {
        Self {
            begin: Some(EventLine::Watching { watch }),
            events: daemon.node.events(),
            stopping: daemon.stopping.clone(),
            _right: right,
        }
    }

    async fn next(&mut self) -> Option<EventLine> {
        if let Some(begin) = self.begin.take() {
            return Some(begin);
        }
        let event = tokio::select! {
            // An event that is there goes out before the end.
            biased;
            event = self.events.recv() => event,
            _ = self.stopping.wait_for(|stopping| *stopping) => return None,
        };
        match event {
            Ok(event) => Some(report::event(&event)),
            Err(RecvError::Lagged(count)) => Some(EventLine::Missed { count }),
            Err(RecvError::Closed) => None,
        }
    }
}

/// Takes the next admitted message, waiting for one; null once the node is stopping. A watcher
/// that goes away while it waits takes nothing: what nobody takes stays in the node's queue, which
/// holds its senders back when it is full.
#[utoipa::path(post, path = "/v1/take", request_body = TakeRequest,
    responses((status = 200, description = "as asked", body = Option<TakenMessage>), Refused))]
pub(super) async fn take(
    State(daemon): State<Arc<Daemon>>,
    asked: Asked<TakeRequest>,
) -> Result<Json<Option<TakenMessage>>, ApiError> {
    let Json(Object(TakeRequest { watch })) = asked?;
    daemon.watching.check(watch)?;
    let messages = daemon.node.messages();
    let mut stopping = daemon.stopping.clone();
    let delivery = tokio::select! {
        biased;
        delivery = messages.next() => delivery,
        _ = stopping.wait_for(|stopping| *stopping) => None,
    };
    Ok(Json(delivery.as_ref().map(report::message)))
}

/// Who may take messages.
#[derive(Debug)]
pub(super) struct Watching {
    right: Arc<Semaphore>,
    /// The number of the watch that has the right, or last had it.
    current: AtomicU64,
}

/// The right to take messages, until dropped.
struct Right {
    watch: u64,
    _permit: OwnedSemaphorePermit,
}

/// How long a watcher waits for one that is leaving.
const LEAVING_WITHIN: Duration = Duration::from_secs(1);

impl Watching {
    pub(super) fn new() -> Self {
        Self {
            right: Arc::new(Semaphore::new(1)),
            current: AtomicU64::new(0),
        }
    }

    async fn begin(&self) -> Result<Right, ApiError> {
        let right = Arc::clone(&self.right).acquire_owned();
        let permit = timeout(LEAVING_WITHIN, right).await;
        let permit = permit.ok().and_then(Result::ok).ok_or(ApiError::Watched)?;
        // Only the holder of the one permit gets here.
        let watch = self.current.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Right {
            watch,
            _permit: permit,
        })
    }

    fn check(&self, watch: u64) -> Result<(), ApiError> {
        let current = self.current.load(Ordering::Relaxed);
        let holds = watch == current && self.right.available_permits() == 0;
        holds.then_some(()).ok_or(ApiError::NotWatching)
    }
}

pub(super) type Line = Result<Bytes, serde_json::Error>;

pub(super) fn line(value: &impl Serialize) -> Line {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line.into())
}

pub(super) fn lines(lines: impl Stream<Item = Line> + Send + 'static) -> Response {
    let kind = [(CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::from_stream(lines)).into_response()
}
