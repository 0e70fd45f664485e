//! The HTTP side of signalling: `POST /v1/offer`.
//!
//! The body is a signed offer, the response a signed answer or a [`Refusal`], all deterministic CBOR
//! (`application/cbor`; a page in a browser cannot post that here without asking first, and nobody
//! answers the question). The request's host is not looked at.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use overlane_core::signal::Source;
use overlane_core::wire::bounds::SIGNAL_MAX_BYTES;
use overlane_core::wire::cbor::to_vec;
use overlane_core::{Coded, Fault};

use super::error::LinkError;
use super::http::{CONTENT_TYPE, OFFER_PATH, Refusal};
use super::links::Links;

/// The routes that other nodes call.
pub fn router(links: Links) -> Router {
    let deadline = links.config().signal_deadline();
    Router::new()
        .route(OFFER_PATH, post(offer))
        .layer(DefaultBodyLimit::max(SIGNAL_MAX_BYTES))
        .layer(middleware::from_fn_with_state(
            (links.clone(), deadline),
            within_deadline,
        ))
        .with_state(links)
}

async fn offer(
    State(links): State<Links>,
    source: Option<Extension<Source>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let is_cbor = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes() == CONTENT_TYPE.as_bytes());
    if !is_cbor {
        return refuse(&links, &RequestError::ContentType);
    }
    // The listener of `super::server` says where a request comes from; no other is for strangers.
    let source = source.map_or(Source::Local, |Extension(source)| source);
    let body = match body {
        Ok(body) => body,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            return refuse(&links, &RequestError::Oversized);
        }
        Err(_) => return refuse(&links, &RequestError::Broken),
    };
    match links.answer(&body, source).await {
        Ok(answer) => cbor(StatusCode::OK, answer),
        Err(error) => {
            tracing::debug!(code = error.code(), %error, "offer refused");
            refuse(&links, &error)
        }
    }
}

/// A request that dawdles gives its place to others.
async fn within_deadline(
    State((links, deadline)): State<(Links, Duration)>,
    request: Request,
    next: Next,
) -> Response {
    let answered = tokio::time::timeout(deadline, next.run(request)).await;
    answered.unwrap_or_else(|_| refuse(&links, &RequestError::Late))
}

/// An error that has a status in HTTP.
trait Status: Coded + std::fmt::Display {
    fn status(&self) -> StatusCode;
}

impl Status for LinkError {
    fn status(&self) -> StatusCode {
        match (self, self.fault()) {
            (Self::Crossed { .. }, _) => StatusCode::CONFLICT,
            (_, Fault::PeerMisbehaved | Fault::Usage) => StatusCode::BAD_REQUEST,
            (Self::Signal(_), _) => StatusCode::FORBIDDEN,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// What may be wrong with a request before its offer is read.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("the content type of an offer is {CONTENT_TYPE}")]
    ContentType,
    #[error("an offer has at most {SIGNAL_MAX_BYTES} bytes")]
    Oversized,
    #[error("the request ended early")]
    Broken,
    #[error("the request took too long")]
    Late,
}

impl Coded for RequestError {
    fn code(&self) -> &'static str {
        match self {
            Self::ContentType => "signal/content_type",
            Self::Oversized => "signal/oversized",
            Self::Broken => "signal/broken_request",
            Self::Late => "signal/late_request",
        }
    }

    fn fault(&self) -> Fault {
        Fault::PeerMisbehaved
    }
}

impl Status for RequestError {
    fn status(&self) -> StatusCode {
        match self {
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Oversized => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

fn refuse(links: &Links, error: &impl Status) -> Response {
    links.count_refused(error.code());
    let refusal = Refusal::of(error, links.did());
    cbor(error.status(), to_vec(&refusal))
}

fn cbor(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response()
}
