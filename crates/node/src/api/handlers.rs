//! What is answered at each path, but for references and streams.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use overlane_core::Class;
use overlane_core::transaction::{Message, Namespace, Payload};

use super::error::ApiError;
use super::metrics::{METRICS_CONTENT_TYPE, metrics_text};
use super::object::Object;
use super::openapi::{Refused, openapi};
use super::server::{Answer, Asked, Daemon, Edit, Shared, bytes, destination, sealing};
use super::types::{
    BackupReport, BackupRequest, BoundsReport, DelegateeReport, DestinationRequest, HealthReport,
    LinksReport, LogReport, LogRequest, Nothing, OfferAgainRequest, PeerChanged, PeerRequest,
    PeersReport, PingReport, RouteReport, SendReceipt, SendRequest, StatusReport, StreamsReport,
};
use super::{inbox, report};
use crate::home::peer_url;

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json",
    responses((status = 200, description = "as asked", body = serde_json::Value), Refused))]
pub(super) async fn document() -> Response {
    Json(openapi()).into_response()
}

/// Whether the node does its work.
#[utoipa::path(get, path = "/v1/health",
    responses((status = 200, description = "as asked", body = HealthReport), Refused))]
pub(super) async fn health(State(daemon): Shared) -> Answer<HealthReport> {
    daemon
        .status()
        .await
        .map(|status| Json(report::health(&status)))
}

/// What is logged, and the latest lines.
#[utoipa::path(get, path = "/v1/log",
    responses((status = 200, description = "as asked", body = LogReport), Refused))]
pub(super) async fn log(State(daemon): Shared) -> Answer<LogReport> {
    Ok(Json(LogReport {
        filter: daemon.logs.filter().text().to_owned(),
        lines: daemon.logs.kept(),
    }))
}

/// Logs something else from now on, until the node is started again.
#[utoipa::path(put, path = "/v1/log", request_body = LogRequest,
    responses((status = 200, description = "as asked", body = LogReport), Refused))]
pub(super) async fn set_log(state: Shared, asked: Asked<LogRequest>) -> Answer<LogReport> {
    let Json(Object(LogRequest { filter })) = asked?;
    let filter = filter
        .parse()
        .map_err(|cause| ApiError::BadLogFilter { cause })?;
    state.logs.set(filter);
    log(state).await
}

/// Copies the home while the node runs, all of one instant, and says what putting it back costs.
#[utoipa::path(post, path = "/v1/backup", request_body = BackupRequest,
    responses((status = 200, description = "as asked", body = BackupReport), Refused))]
pub(super) async fn backup(
    State(daemon): Shared,
    asked: Asked<BackupRequest>,
) -> Answer<BackupReport> {
    let Json(Object(BackupRequest { path })) = asked?;
    let to = std::path::PathBuf::from(&path);
    if !to.is_absolute() {
        return Err(ApiError::RelativePath { path });
    }
    daemon.backup(to).await.map(Json)
}

/// Signs with a new delegatee key from now on.
#[utoipa::path(post, path = "/v1/key/rotate", request_body = Nothing,
    responses((status = 200, description = "as asked", body = DelegateeReport), Refused))]
pub(super) async fn rotate(
    State(daemon): Shared,
    asked: Asked<Nothing>,
) -> Answer<DelegateeReport> {
    let Json(Object(Nothing {})) = asked?;
    daemon.node.rotate_delegatee().await?;
    Ok(Json(delegatee(&daemon)))
}

/// Signs from now on with what an account that is kept elsewhere signed for, as the key in the home says since
/// `overlane key accept`.
#[utoipa::path(post, path = "/v1/key/renew", request_body = Nothing,
    responses((status = 200, description = "as asked", body = DelegateeReport), Refused))]
pub(super) async fn renew(State(daemon): Shared, asked: Asked<Nothing>) -> Answer<DelegateeReport> {
    let Json(Object(Nothing {})) = asked?;
    daemon.renew().await?;
    Ok(Json(delegatee(&daemon)))
}

fn delegatee(daemon: &Daemon) -> DelegateeReport {
    let (delegatee, ends_ms) = daemon.node.delegatee();
    DelegateeReport {
        delegatee: hex::encode(delegatee.as_bytes()),
        ends_ms,
    }
}

/// Every admitted link, and its lanes.
#[utoipa::path(get, path = "/v1/links",
    responses((status = 200, description = "as asked", body = LinksReport), Refused))]
pub(super) async fn links(State(daemon): Shared) -> Answer<LinksReport> {
    daemon.status().await.map(|status| {
        Json(LinksReport {
            links: status.links,
        })
    })
}

/// The streams that the node keeps windows and leases of, the first thousand of each.
#[utoipa::path(get, path = "/v1/streams",
    responses((status = 200, description = "as asked", body = StreamsReport), Refused))]
pub(super) async fn streams(State(daemon): Shared) -> Answer<StreamsReport> {
    Ok(Json(daemon.node.seen(report::streams).await?))
}

/// What the node knows: links, peers, streams, counters.
#[utoipa::path(get, path = "/v1/status",
    responses((status = 200, description = "as asked", body = StatusReport), Refused))]
pub(super) async fn status(State(daemon): Shared) -> Answer<StatusReport> {
    daemon.status().await.map(Json)
}

/// The numbers of the node as OpenMetrics text.
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, description = "as asked", body = String, content_type = "application/openmetrics-text"), Refused))]
pub(super) async fn metrics(State(daemon): Shared) -> Result<Response, ApiError> {
    let status = daemon.status().await?;
    let bounds = daemon.bounds().await?;
    // An empty text would say that there is nothing to tell.
    let Ok(text) = metrics_text(status, bounds) else {
        return Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response());
    };
    Ok(([(CONTENT_TYPE, METRICS_CONTENT_TYPE)], text).into_response())
}

/// Every bound: limit, current, high water, what happens at it.
#[utoipa::path(get, path = "/v1/bounds",
    responses((status = 200, description = "as asked", body = BoundsReport), Refused))]
pub(super) async fn bounds(State(daemon): Shared) -> Answer<BoundsReport> {
    let bounds = daemon.bounds().await?;
    Ok(Json(BoundsReport { bounds }))
}

/// Signs a message and hands it to its lane.
#[utoipa::path(post, path = "/v1/send", request_body = SendRequest,
    responses((status = 200, description = "as asked", body = SendReceipt), Refused))]
pub(super) async fn send(State(daemon): Shared, asked: Asked<SendRequest>) -> Answer<SendReceipt> {
    let Json(Object(asked)) = asked?;
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
        let arrived = Some(inbox::arrived(&sent.arrived, daemon.node.did()));
        let receipt = daemon
            .with_receipt(sent.receipt, asked.receipt_ms, None)
            .await?;
        return Ok(Json(SendReceipt { arrived, ..receipt }));
    }
    let sealing = sealing(asked.plain);
    let outcomes = daemon.node.outcomes();
    let sent = daemon.node.send_as(destination, message, sealing).await?;
    let outcome = Some(outcomes.of(&sent).await);
    Ok(Json(
        daemon.with_receipt(sent, asked.receipt_ms, outcome).await?,
    ))
}

/// Offers signed bytes again.
#[utoipa::path(post, path = "/v1/offer_again", request_body = OfferAgainRequest,
    responses((status = 200, description = "as asked", body = SendReceipt), Refused))]
pub(super) async fn offer_again(
    State(daemon): Shared,
    asked: Asked<OfferAgainRequest>,
) -> Answer<SendReceipt> {
    let Json(Object(asked)) = asked?;
    let signed = bytes("signed", &asked.signed)?;
    // Bytes that are no payload are the node's to refuse.
    if let Ok(payload) = Payload::from_frame(&signed) {
        let destination = payload.transaction().destination();
        daemon.wait_for(destination, asked.wait_ms).await;
    }
    let outcomes = daemon.node.outcomes();
    let offered = daemon.node.offer_again(signed).await?;
    let outcome = Some(outcomes.of(&offered).await);
    Ok(Json(
        daemon
            .with_receipt(offered, asked.receipt_ms, outcome)
            .await?,
    ))
}

/// The nodes to stay linked to, and the neighbours in the ring.
#[utoipa::path(get, path = "/v1/peers",
    responses((status = 200, description = "as asked", body = PeersReport), Refused))]
pub(super) async fn peers(State(daemon): Shared) -> Answer<PeersReport> {
    let status = daemon.node.status().await?;
    let links = daemon.node.links();
    Ok(Json(PeersReport {
        peers: report::peers(&status, &links),
        neighbours: report::neighbours(&status, &links),
    }))
}

/// Asks a node whether it is there, by way of the ring.
#[utoipa::path(post, path = "/v1/ping", request_body = DestinationRequest,
    responses((status = 200, description = "as asked", body = PingReport), Refused))]
pub(super) async fn ping(
    State(daemon): Shared,
    asked: Asked<DestinationRequest>,
) -> Answer<PingReport> {
    let Json(Object(asked)) = asked?;
    let to = destination(&asked.destination)?;
    let pong = daemon.node.ping(to).await?;
    Ok(Json(PingReport {
        did: to.to_string(),
        hops: pong.hops,
        round_trip_ms: pong.round_trip_ms,
    }))
}

/// The way that messages to a node take.
#[utoipa::path(post, path = "/v1/route", request_body = DestinationRequest,
    responses((status = 200, description = "as asked", body = RouteReport), Refused))]
pub(super) async fn route(
    State(daemon): Shared,
    asked: Asked<DestinationRequest>,
) -> Answer<RouteReport> {
    let Json(Object(asked)) = asked?;
    let to = destination(&asked.destination)?;
    let path = daemon.node.way(to).await?;
    Ok(Json(report::route(to, &path)))
}

/// Stays linked to a node.
#[utoipa::path(post, path = "/v1/peers", request_body = PeerRequest,
    responses((status = 200, description = "as asked", body = PeerChanged), Refused))]
pub(super) async fn add_peer(
    State(daemon): Shared,
    asked: Asked<PeerRequest>,
) -> Answer<PeerChanged> {
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

/// Stays linked to a node no longer.
#[utoipa::path(delete, path = "/v1/peers", request_body = PeerRequest,
    responses((status = 200, description = "as asked", body = PeerChanged), Refused))]
pub(super) async fn drop_peer(
    State(daemon): Shared,
    asked: Asked<PeerRequest>,
) -> Answer<PeerChanged> {
    let url = asked_url(asked)?;
    let _editing = daemon.editing.lock().await;
    let configured = daemon.edit_peers(url.clone(), Edit::Drop).await?;
    let kept = daemon.node.drop_peer(&url).await;
    let changed = configured || kept;
    Ok(Json(PeerChanged { url, changed }))
}

fn asked_url(asked: Asked<PeerRequest>) -> Result<String, ApiError> {
    let Json(Object(PeerRequest { url })) = asked?;
    peer_url(&url).map_err(|cause| ApiError::BadPeerUrl { cause })
}
