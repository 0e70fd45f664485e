//! A listener for strangers: what one connection may take, and how many there may be.
//!
//! Law (places come back): a connection serves one request and ends within
//! [`CONNECTION_DEADLINE`], whatever its client sends or leaves unread. Law (share): whoever has as
//! many connections as are left for all others is hung up on ([`Source`]).

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use overlane_core::signal::Source;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;

use super::config::SIGNAL_DEADLINE_MS;

/// Connections that a listener for offers has open at once. More wait to be accepted.
pub const CONNECTIONS_MAX: usize = 64;

/// How long a connection may take to send the head of its request.
pub const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// How long a connection may last in all, the reading of its response included.
pub const CONNECTION_DEADLINE: Duration = Duration::from_secs(25);

/// The most of a request's head that is held, in bytes.
pub const HEAD_MAX_BYTES: usize = 16 * 1024;

const _: () = assert!(
    CONNECTION_DEADLINE.as_millis() > HEAD_DEADLINE.as_millis() + SIGNAL_DEADLINE_MS as u128,
    "whoever is in time for the others is in time for this"
);

/// The longest wait after the system refused to accept a connection, as when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a listener bears.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Connections open at once.
    pub connections_max: usize,
    /// How long a request's head may take.
    pub head_deadline: Duration,
    /// How long a connection may last.
    pub connection_deadline: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            head_deadline: HEAD_DEADLINE,
            connection_deadline: CONNECTION_DEADLINE,
        }
    }
}

/// Serves `router` on `listener` until `stop` resolves; connections that are open then are cut.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServerLimits,
    stop: impl Future<Output = ()>,
) {
    serve_sources(listener, router, limits, Source::of, stop).await;
}

/// As [`serve`], where `source` tells whom an address is charged to.
pub(super) async fn serve_sources(
    listener: TcpListener,
    router: Router,
    limits: ServerLimits,
    source: fn(IpAddr) -> Source,
    stop: impl Future<Output = ()>,
) {
    let mut open: HashMap<Id, Source> = HashMap::new();
    // Dropping the set, by return or by cancellation, ends every connection.
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let used = open.len();
        let full = used >= limits.connections_max;
        tokio::select! {
            () = &mut stop => return,
            Some(ended) = connections.join_next_with_id() => {
                open.remove(&ended.map_or_else(|panicked| panicked.id(), |(task, ())| task));
            }
            (stream, address) = accept(&listener), if !full => {
                let source = source(address);
                let held = open.values().filter(|&&of| of == source).count();
                if !source.may_take(held, used, limits.connections_max) {
                    tracing::debug!(%address, held, "hung up on a source with its share of connections");
                    continue;
                }
                let router = router.clone().layer(Extension(source));
                let task = connections.spawn(connection(stream, router, limits));
                open.insert(task.id(), source);
            }
        }
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address.ip()),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                if !is_of_one_connection(&error) {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Whether a failed accept tells of its connection alone, so that the next may do better at once.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

async fn connection(stream: TcpStream, router: Router, limits: ServerLimits) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_deadline)
        .max_buf_size(HEAD_MAX_BYTES)
        // A client that asks again and again would never give its place back.
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match timeout(limits.connection_deadline, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "connection of a stranger"),
        Err(_) => tracing::debug!("connection of a stranger: cut at its deadline"),
    }
}
