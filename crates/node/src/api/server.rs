//! The daemon's end of the local API.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use overlane_core::Did;
use overlane_core::identity::{AccountKey, Signer};
use overlane_core::wire::bounds::MESSAGE_MAX_BYTES;
use overlane_core::wire::cbor::to_vec;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::admissions::{self, Admissions};
use super::dashboard;
use super::error::ApiError;
use super::gate::{self, Gate, Guard, Turned};
use super::object::Object;
use super::openapi::ApiDoc;
use super::socket::LocalListener;
use super::types::{BackupReport, BoundReport, SendReceipt, StatusReport, StoreReport};
use super::{groups, handlers, inbox, references, report, story, streams, upload};
use crate::home::{Home, Stillness, backup};
use crate::link::server::{ServerLimits, serve};
use crate::logs::Logs;
use crate::{Node, Outcome, Receipt, Sealing};

/// The longest body of a request: the longest signed frame in hexadecimal, and what surrounds it.
const REQUEST_MAX_BYTES: usize = 256 << 10;

/// The longest upload: the largest message, and its line.
const UPLOAD_MAX_BYTES: usize = MESSAGE_MAX_BYTES + 4 * 1024;

/// The longest that a receipt is waited for.
const RECEIPT_WAIT_MAX_MS: u64 = 600_000;

/// How long a request waits for a link at most: the longest that `send --wait` can name.
const LINK_WAIT_MAX_MS: u64 = 65_535_000;

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
    /// `logs` is the log of this process.
    pub fn serve(
        listener: LocalListener,
        node: Node,
        home: Home,
        store: OpenedStore,
        logs: Logs,
    ) -> Self {
        let (stop, stopping) = watch::channel(false);
        let daemon = Daemon {
            node,
            home,
            store,
            logs,
            stopping: stopping.clone(),
            watching: streams::Watching::new(),
            editing: Mutex::new(()),
            tcp: OnceLock::new(),
            turned: Arc::default(),
            admissions: Admissions::new(),
            renewal: OnceLock::new(),
        };
        let daemon = Arc::new(daemon);
        tokio::spawn(Admissions::follow(Arc::clone(&daemon)));
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
            .route("/metrics", get(handlers::metrics))
            .layer(middleware::from_fn(by_address))
            .with_state(Arc::clone(&self.daemon));
        let server = axum::serve(listener, router).with_graceful_shutdown(stopped(stopping));
        tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::error!(%error, "metrics are answered no more");
            }
        });
    }

    /// Answers everything on a TCP listener too, to who passes the gate, until the API is shut down.
    ///
    /// A connection serves one request; who does not say in time what it wants is cut.
    pub fn serve_tcp(&self, listener: TcpListener, gate: Gate) {
        let stopping = self.daemon.stopping.clone();
        if let Ok(address) = listener.local_addr() {
            // Once for a daemon.
            let _ = self.daemon.tcp.set(format!("http://{address}"));
        }
        let guard = Guard {
            gate: Arc::new(gate),
            turned: Arc::clone(&self.daemon.turned),
        };
        let guarded = middleware::from_fn_with_state(guard.clone(), gate::guard);
        let for_all = middleware::from_fn_with_state(guard, gate::guard_page);
        let router = router(Arc::clone(&self.daemon)).layer(guarded);
        let (pages, _) = pages().split_for_parts();
        let pages = pages
            .method_not_allowed_fallback(|| async { ApiError::NoSuchRequest })
            .layer(for_all);
        let router = router
            .merge(pages)
            .layer(middleware::from_fn(dashboard::for_browsers));
        let limits = ServerLimits {
            connection_deadline: Duration::MAX,
            ..ServerLimits::default()
        };
        tokio::spawn(serve(listener, router, limits, stopped(stopping)));
    }

    /// Reads anew, whenever it is asked for, what signs for an account that is kept elsewhere. Until this is said
    /// nothing is.
    pub fn renew_by(&self, renewal: Renewal) {
        // Once for a daemon.
        let _ = self.daemon.renewal.set(renewal);
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

/// Reads what signs for an account that is kept elsewhere from its home.
pub type Renewal = Arc<dyn Fn() -> Result<Signer, ApiError> + Send + Sync>;

/// Which replay store a daemon opened.
#[derive(Debug, Clone)]
pub struct OpenedStore {
    /// Its kind's name.
    pub kind: String,
    /// Its folder.
    pub path: String,
    /// Holds it and the store of references still.
    pub still: Stillness,
}

/// What every answer is made from.
pub(super) struct Daemon {
    pub(super) node: Node,
    home: Home,
    store: OpenedStore,
    pub(super) logs: Logs,
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) watching: streams::Watching,
    /// Held while the configured peers are read, changed and written.
    pub(super) editing: Mutex<()>,
    /// Where the API is answered on TCP, if it is.
    tcp: OnceLock<String>,
    /// What was refused there.
    turned: Arc<Turned>,
    pub(super) admissions: Admissions,
    renewal: OnceLock<Renewal>,
}

pub(super) type Shared = State<Arc<Daemon>>;

pub(super) type Answer<T> = Result<Json<T>, ApiError>;

/// A request's body, or why it is none.
pub(super) type Asked<T> = Result<Json<Object<T>>, JsonRejection>;

/// What is answered, and the document of it: no path is in the one and not in the other.
pub(super) fn routes() -> OpenApiRouter<Arc<Daemon>> {
    OpenApiRouter::with_openapi(ApiDoc::openapi())
        .routes(routes!(handlers::metrics))
        .routes(routes!(handlers::document))
        .routes(routes!(handlers::status))
        .routes(routes!(handlers::health))
        .routes(routes!(handlers::links))
        .routes(routes!(handlers::streams))
        .routes(routes!(handlers::bounds))
        .routes(routes!(admissions::admissions))
        .routes(routes!(handlers::send))
        .routes(routes!(handlers::offer_again))
        .routes(routes!(handlers::log, handlers::set_log))
        .routes(routes!(handlers::backup))
        .routes(routes!(handlers::rotate))
        .routes(routes!(handlers::renew))
        .routes(routes!(handlers::ping))
        .routes(routes!(handlers::route))
        .routes(routes!(story::explain))
        .routes(routes!(
            handlers::peers,
            handlers::add_peer,
            handlers::drop_peer
        ))
        .routes(routes!(references::list, references::drop))
        .routes(routes!(references::revoke))
        .routes(routes!(references::share))
        .routes(routes!(references::fetch))
        .routes(routes!(groups::list, groups::create))
        .routes(routes!(groups::invite))
        .routes(routes!(groups::remove))
        .routes(routes!(groups::join))
        .routes(routes!(groups::post))
        .routes(routes!(groups::read))
        .routes(routes!(groups::follow))
        .routes(routes!(groups::sync))
        .routes(routes!(groups::plan))
        .routes(routes!(groups::leave))
        .routes(routes!(inbox::show))
        .routes(routes!(inbox::fetch))
        .routes(routes!(inbox::take))
        .routes(routes!(inbox::probe))
        .routes(routes!(streams::watch))
        .routes(routes!(streams::take))
        .routes(routes!(streams::events))
        .layer(DefaultBodyLimit::max(REQUEST_MAX_BYTES))
        .merge(
            OpenApiRouter::new()
                .routes(routes!(upload::upload))
                .layer(DefaultBodyLimit::max(UPLOAD_MAX_BYTES)),
        )
}

/// The dashboard's page, and what it loads: on TCP alone, without a token.
pub(super) fn pages() -> OpenApiRouter {
    OpenApiRouter::new()
        .routes(routes!(dashboard::page))
        .routes(routes!(dashboard::file))
}

fn router(daemon: Arc<Daemon>) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .fallback(|| async { ApiError::NoSuchRequest })
        .method_not_allowed_fallback(|| async { ApiError::NoSuchRequest })
        .with_state(daemon)
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

#[derive(Clone, Copy)]
pub(super) enum Edit {
    Add,
    Drop,
}

impl Daemon {
    pub(super) async fn status(&self) -> Result<StatusReport, ApiError> {
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
            api: self.tcp.get().cloned(),
            api_refused: self.turned.counts(),
            ..report::status(&account, home, store, &links, &status)
        })
    }

    pub(super) async fn bounds(&self) -> Result<Vec<BoundReport>, ApiError> {
        let status = self.node.status().await?;
        Ok(status.bounds.into_iter().map(BoundReport::from).collect())
    }

    /// Waits until a link leads to `destination`, and at most `wait_ms`, [`LINK_WAIT_MAX_MS`] in any case. What comes of it the
    /// node says when it is asked to send.
    pub(super) async fn wait_for(&self, destination: Did, wait_ms: u64) {
        if destination == self.node.did() {
            return;
        }
        let wait = Duration::from_millis(wait_ms.min(LINK_WAIT_MAX_MS));
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
            receipt: None,
        }
    }

    /// The same, with the destination's receipt if it is asked for and comes within so long.
    pub(super) async fn with_receipt(
        &self,
        sent: Receipt,
        within_ms: u64,
        outcome: Option<Outcome>,
    ) -> Result<SendReceipt, ApiError> {
        if within_ms == 0 {
            return Ok(self.receipt(sent, outcome));
        }
        let within = Duration::from_millis(within_ms.min(RECEIPT_WAIT_MAX_MS));
        let mut stopping = self.stopping.clone();
        let received = tokio::select! {
            received = self.node.receipt(&sent, within) => received?,
            _ = stopping.wait_for(|stopping| *stopping) => None,
        };
        Ok(SendReceipt {
            receipt: received.map(|receipt| hex::encode(to_vec(&*receipt))),
            ..self.receipt(sent, outcome)
        })
    }

    /// Copies the home, off the asynchronous workers.
    pub(super) async fn backup(&self, to: PathBuf) -> Result<BackupReport, ApiError> {
        let (home, still) = (self.home.clone(), self.store.still.clone());
        let copied = spawn_blocking(move || {
            let copy = backup(&home, &to, &still)?;
            Ok(BackupReport::of(&copy, &to))
        });
        copied.await.map_err(|_| ApiError::Stopping)?
    }

    /// Signs with what the home holds since, read off the asynchronous workers.
    pub(super) async fn renew(&self) -> Result<(), ApiError> {
        let renewal = self.renewal.get().ok_or(ApiError::NoSuchRequest)?.clone();
        let signer = spawn_blocking(move || renewal());
        let signer = signer.await.map_err(|_| ApiError::Stopping)??;
        Ok(self.node.renew_delegatee(signer).await?)
    }

    /// Changes the list in the configuration, off the asynchronous workers; whether it is
    /// another list now.
    pub(super) async fn edit_peers(&self, url: String, edit: Edit) -> Result<bool, ApiError> {
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
