//! The daemon's end of the local API.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::uri::Authority;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use overlane_core::identity::AccountKey;
use overlane_core::transaction::{Message, Namespace, Payload};
use overlane_core::wire::bounds::MESSAGE_MAX_BYTES;
use overlane_core::{Class, Did};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, spawn_blocking};

use super::error::ApiError;
use super::metrics::{METRICS_CONTENT_TYPE, metrics_text};
use super::socket::LocalListener;
use super::types::{
    BoundReport, BoundsReport, DestinationRequest, OfferAgainRequest, PeerChanged, PeerRequest,
    PeersReport, PingReport, RouteReport, SendReceipt, SendRequest, StatusReport, StoreReport,
};
use super::{groups, inbox, references, report, streams, upload};
use crate::home::{Home, peer_url};
use crate::{Node, Outcome, Receipt, Sealing};

/// The longest body of a request: the longest signed frame in hexadecimal, and what surrounds it.
const REQUEST_MAX_BYTES: usize = 256 << 10;

/// The longest upload: the largest message, and its line.
const UPLOAD_MAX_BYTES: usize = MESSAGE_MAX_BYTES + 4 * 1024;

/// How long answers under way may take once the API is told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// The local API of a running node.
pub struct LocalApi {
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
    daemon: Arc<Daemon>,
}

impl fmt::Debug for LocalApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalApi").finish_non_exhaustive()
    }
}

impl LocalApi {
    /// Answers on `listener` for `node`, whose home is `home` and whose store was opened as
    /// `store` says.
    pub fn serve(listener: LocalListener, node: Node, home: Home, store: OpenedStore) -> Self {
        let (stop, stopping) = watch::channel(false);
        let daemon = Daemon {
            node,
            home,
            store,
            stopping: stopping.clone(),
            watching: streams::Watching::new(),
            editing: Mutex::new(()),
        };
        let daemon = Arc::new(daemon);
        let server = axum::serve(listener, router(Arc::clone(&daemon)));
        let server = server.with_graceful_shutdown(stopped(stopping));
        let server = tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::error!(%error, "the local API answers no more");
            }
        });
        Self {
            stop,
            server,
            daemon,
        }
    }

    /// Answers `GET /metrics`, and nothing else, on a TCP listener too, until the API is shut down.
    ///
    /// Who may read a socket of the loopback is everybody on the machine, and a browser's pages by
    /// a name that leads there: so only requests to the address itself are answered.
    pub fn serve_metrics(&self, listener: TcpListener) {
        let stopping = self.daemon.stopping.clone();
        let router = Router::new()
            .route("/metrics", get(metrics))
            .layer(middleware::from_fn(by_address))
            .with_state(Arc::clone(&self.daemon));
        let server = axum::serve(listener, router).with_graceful_shutdown(stopped(stopping));
        tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::error!(%error, "metrics are answered no more");
            }
        });
    }

    /// Takes no more requests, ends streams of answers, and lets other answers end.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(STOP_WITHIN, &mut self.server)
            .await
            .is_err()
        {
            self.server.abort();
        }
    }
}

/// Which replay store a daemon opened.
#[derive(Debug, Clone)]
pub struct OpenedStore {
    /// Its kind's name.
    pub kind: String,
    /// Its folder.
    pub path: String,
}

/// What every answer is made from.
pub(super) struct Daemon {
    pub(super) node: Node,
    home: Home,
    store: OpenedStore,
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) watching: streams::Watching,
    /// Held while the configured peers are read, changed and written.
    editing: Mutex<()>,
}

pub(super) type Shared = State<Arc<Daemon>>;

pub(super) type Answer<T> = Result<Json<T>, ApiError>;

/// A request's body, or why it is none.
pub(super) type Asked<T> = Result<Json<T>, JsonRejection>;

fn router(daemon: Arc<Daemon>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/v1/status", get(status))
        .route("/v1/bounds", get(bounds))
        .route("/v1/send", post(send))
        .route("/v1/offer_again", post(offer_again))
        .route("/v1/ping", post(ping))
        .route("/v1/route", post(route))
        .route("/v1/peers", get(peers).post(add_peer).delete(drop_peer))
        .route(
            "/v1/references",
            get(references::list).delete(references::drop),
        )
        .route("/v1/references/revoke", post(references::revoke))
        .route("/v1/share", post(references::share))
        .route("/v1/fetch", post(references::fetch))
        .route("/v1/groups", get(groups::list).post(groups::create))
        .route("/v1/groups/invite", post(groups::invite))
        .route("/v1/groups/remove", post(groups::remove))
        .route("/v1/groups/join", post(groups::join))
        .route("/v1/groups/post", post(groups::post))
        .route("/v1/groups/read", post(groups::read))
        .route("/v1/groups/follow", post(groups::follow))
        .route("/v1/groups/sync", post(groups::sync))
        .route("/v1/groups/plan", post(groups::plan))
        .route("/v1/groups/leave", post(groups::leave))
        .route("/v1/inbox", get(inbox::show))
        .route("/v1/inbox/fetch", post(inbox::fetch))
        .route("/v1/inbox/take", post(inbox::take))
        .route("/v1/inbox/probe", post(inbox::probe))
        .route("/v1/watch", get(streams::watch))
        .route("/v1/take", post(streams::take))
        .route("/v1/events", get(streams::events))
        .fallback(|| async { ApiError::NoSuchRequest })
        .method_not_allowed_fallback(|| async { ApiError::NoSuchRequest })
        .layer(DefaultBodyLimit::max(REQUEST_MAX_BYTES))
        .merge(
            Router::new()
                .route("/v1/upload", post(upload::upload))
                .layer(DefaultBodyLimit::max(UPLOAD_MAX_BYTES)),
        )
        .with_state(daemon)
}

async fn status(State(daemon): Shared) -> Answer<StatusReport> {
    daemon.status().await.map(Json)
}

async fn metrics(State(daemon): Shared) -> Result<Response, ApiError> {
    let status = daemon.status().await?;
    let bounds = daemon.bounds().await?;
    // An empty text would say that there is nothing to tell.
    let Ok(text) = metrics_text(status, bounds) else {
        return Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response());
    };
    Ok(([(CONTENT_TYPE, METRICS_CONTENT_TYPE)], text).into_response())
}

/// Refuses requests that name the host otherwise than by an address of the loopback, or `localhost`.
async fn by_address(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|it| it.to_str().ok());
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    let local = host.is_some_and(|host| {
        let name = host.host().trim_matches(['[', ']']);
        name == "localhost" || name.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
    });
    match local {
        true => next.run(request).await,
        false => ApiError::NoSuchRequest.into_response(),
    }
}

async fn bounds(State(daemon): Shared) -> Answer<BoundsReport> {
    let bounds = daemon.bounds().await?;
    Ok(Json(BoundsReport { bounds }))
}

async fn send(State(daemon): Shared, asked: Asked<SendRequest>) -> Answer<SendReceipt> {
    let Json(asked) = asked?;
    let destination = daemon.destination(&asked.destination).await?;
    let body = bytes("body", &asked.body)?;
    let message = match Class::from(asked.class) {
        Class::Control => Message::Control(&body),
        Class::Storage => Message::Storage(&body),
        Class::E2e => Message::E2e(&body),
        Class::Application => Message::Application {
            namespace: Namespace::new(&asked.namespace).map_err(ApiError::Namespace)?,
            body: &body,
        },
    };
    daemon.wait_for(destination, asked.wait_ms).await;
    if asked.hold && !asked.plain {
        let sent = daemon.node.send_or_hold(destination, message).await?;
        let arrived = Some(inbox::arrived(&sent.arrived));
        let receipt = daemon.receipt(sent.receipt, None);
        return Ok(Json(SendReceipt { arrived, ..receipt }));
    }
    let sealing = sealing(asked.plain);
    let outcomes = daemon.node.outcomes();
    let sent = daemon.node.send_as(destination, message, sealing).await?;
    let outcome = outcomes.of(&sent).await;
    Ok(Json(daemon.receipt(sent, Some(outcome))))
}

async fn offer_again(
    State(daemon): Shared,
    asked: Asked<OfferAgainRequest>,
) -> Answer<SendReceipt> {
    let Json(asked) = asked?;
    let signed = bytes("signed", &asked.signed)?;
    // Bytes that are no payload are the node's to refuse.
    if let Ok(payload) = Payload::from_frame(&signed) {
        let destination = payload.transaction().destination();
        daemon.wait_for(destination, asked.wait_ms).await;
    }
    let outcomes = daemon.node.outcomes();
    let offered = daemon.node.offer_again(signed).await?;
    let outcome = outcomes.of(&offered).await;
    Ok(Json(daemon.receipt(offered, Some(outcome))))
}

async fn peers(State(daemon): Shared) -> Answer<PeersReport> {
    let status = daemon.node.status().await?;
    let links = daemon.node.links();
    Ok(Json(PeersReport {
        peers: report::peers(&status, &links),
        neighbours: report::neighbours(&status, &links),
    }))
}

async fn ping(State(daemon): Shared, asked: Asked<DestinationRequest>) -> Answer<PingReport> {
    let Json(asked) = asked?;
    let to = destination(&asked.destination)?;
    let pong = daemon.node.ping(to).await?;
    Ok(Json(PingReport {
        did: to.to_string(),
        hops: pong.hops,
        round_trip_ms: pong.round_trip_ms,
    }))
}

async fn route(State(daemon): Shared, asked: Asked<DestinationRequest>) -> Answer<RouteReport> {
    let Json(asked) = asked?;
    let to = destination(&asked.destination)?;
    let path = daemon.node.way(to).await?;
    Ok(Json(report::route(to, &path)))
}

async fn add_peer(State(daemon): Shared, asked: Asked<PeerRequest>) -> Answer<PeerChanged> {
    let url = asked_url(asked)?;
    let _editing = daemon.editing.lock().await;
    // What the node has no place for is not written down either.
    daemon.node.add_peer(&url)?;
    let edited = daemon.edit_peers(url.clone(), Edit::Add).await;
    if edited.is_err() {
        daemon.node.drop_peer(&url).await;
    }
    let changed = edited?;
    Ok(Json(PeerChanged { url, changed }))
}

async fn drop_peer(State(daemon): Shared, asked: Asked<PeerRequest>) -> Answer<PeerChanged> {
    let url = asked_url(asked)?;
    let _editing = daemon.editing.lock().await;
    let configured = daemon.edit_peers(url.clone(), Edit::Drop).await?;
    let kept = daemon.node.drop_peer(&url).await;
    let changed = configured || kept;
    Ok(Json(PeerChanged { url, changed }))
}

fn asked_url(asked: Asked<PeerRequest>) -> Result<String, ApiError> {
    let Json(PeerRequest { url }) = asked?;
    peer_url(&url).map_err(|cause| ApiError::BadPeerUrl { cause })
}

#[derive(Clone, Copy)]
enum Edit {
    Add,
    Drop,
}

impl Daemon {
    async fn status(&self) -> Result<StatusReport, ApiError> {
        let status = self.node.status().await?;
        let store = StoreReport {
            kind: self.store.kind.clone(),
            path: self.store.path.clone(),
            ..report::store(&status.store)
        };
        let home = self.home.dir().display().to_string();
        let account = self.node.account();
        let links = self.node.links();
        let (failed, numbers) = references::numbers(&self.node.references().await?);
        let (groups_failed, groups) = groups::numbers(self.node.group_numbers().await);
        let (mail_failed, mail) = inbox::numbers(&self.node.mail().await?);
        Ok(StatusReport {
            references_failed: failed,
            references: numbers,
            groups_failed,
            groups,
            mail_failed,
            mail,
            ..report::status(&account, home, store, &links, &status)
        })
    }

    async fn bounds(&self) -> Result<Vec<BoundReport>, ApiError> {
        let status = self.node.status().await?;
        Ok(status.bounds.into_iter().map(BoundReport::from).collect())
    }

    /// Waits until a link leads to `destination`, and at most `wait_ms`. What comes of it the
    /// node says when it is asked to send.
    pub(super) async fn wait_for(&self, destination: Did, wait_ms: u64) {
        if destination == self.node.did() {
            return;
        }
        let wait = Duration::from_millis(wait_ms);
        let mut stopping = self.stopping.clone();
        let linked = tokio::time::timeout(wait, self.node.reachable(destination));
        tokio::select! {
            _ = linked => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    }

    /// The destination that a request names. Who names an account by its key says the key, too.
    pub(super) async fn destination(&self, text: &str) -> Result<Did, ApiError> {
        if let Ok(account) = text.parse::<AccountKey>() {
            self.node.learn(account).await?;
        }
        destination(text)
    }

    /// What is known of a send: also what became of it, and whether its link had gone quiet.
    pub(super) fn receipt(&self, receipt: Receipt, outcome: Option<Outcome>) -> SendReceipt {
        let to = receipt.stream.destination;
        let mut links = self.node.links().into_iter();
        let disturbed = links.any(|link| link.peer == to && !link.leaving && link.disturbed);
        SendReceipt {
            stream: receipt.stream.to_string(),
            sequence: receipt.sequence,
            digest: receipt.digest.to_string(),
            signed: hex::encode(&receipt.signed),
            disturbed,
            arrived: None,
            outcome: outcome.map(report::outcome),
        }
    }

    /// Changes the list in the configuration, off the asynchronous workers; whether it is
    /// another list now.
    async fn edit_peers(&self, url: String, edit: Edit) -> Result<bool, ApiError> {
        let home = self.home.clone();
        let edited = spawn_blocking(move || match edit {
            Edit::Add => home.add_peer(&url),
            Edit::Drop => home.drop_peer(&url),
        });
        let edited = edited.await.map_err(|_| ApiError::Stopping)?;
        Ok(edited?)
    }
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    // Ends as well when nobody is left who could say so.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// How a message is to travel.
pub(super) fn sealing(plain: bool) -> Sealing {
    match plain {
        true => Sealing::Plain,
        false => Sealing::Sealed,
    }
}

pub(super) fn destination(text: &str) -> Result<Did, ApiError> {
    if let Ok(did) = text.parse() {
        return Ok(did);
    }
    let key: Result<AccountKey, _> = text.parse();
    key.map(|key| key.did())
        .map_err(|_| ApiError::BadDestination {
            text: text.chars().take(100).collect(),
        })
}

pub(super) fn bytes(field: &'static str, text: &str) -> Result<Vec<u8>, ApiError> {
    hex::decode(text).map_err(|_| ApiError::NotHex { field })
}
