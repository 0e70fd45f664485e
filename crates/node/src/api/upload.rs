//! Large bodies: sent as they are, with a line for each step. Whoever leaves before the last line takes the
//! message back: it is cancelled, unless its lane has all of it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use futures_util::stream::unfold;
use overlane_core::Class;
use overlane_core::transaction::{Message, Namespace};
use overlane_core::wire::bounds::FRAME_MAX_BYTES;
use tokio::sync::{mpsc, watch};

use super::error::ApiError;
use super::object::Object;
use super::openapi::Refused;
use super::server::{Daemon, sealing};
use super::streams::{line, lines};
use super::types::{Refusal, UploadLine, UploadRequest};
use crate::Progress;

/// Steps that wait for whoever reads them; a slow reader holds nobody up but itself.
const LINES_MAX: usize = 16;

/// Takes an [`UploadRequest`] as a line of JSON, and behind it the body, byte by byte.
#[utoipa::path(post, path = "/v1/upload", request_body = Vec<u8>,
    responses((status = 200, description = "as asked", body = UploadLine, content_type = "application/x-ndjson"), Refused))]
pub(super) async fn upload(
    State(daemon): State<Arc<Daemon>>,
    request: Bytes,
) -> Result<Response, ApiError> {
    let bad = |cause: String| ApiError::BadRequest { cause };
    let end = request.iter().position(|&byte| byte == b'\n');
    let end = end.ok_or_else(|| bad("no line of JSON before the body".to_owned()))?;
    let asked = request.slice(..end);
    let asked: Object<UploadRequest> =
        serde_json::from_slice(&asked).map_err(|cause| bad(cause.to_string()))?;
    let Object(asked) = asked;
    let to = daemon.destination(&asked.destination).await?;
    if Class::from(asked.class) == Class::Application {
        Namespace::new(&asked.namespace).map_err(ApiError::Namespace)?;
    }
    let (steps, reads) = mpsc::channel(LINES_MAX);
    tokio::spawn(async move {
        tokio::select! {
            () = daemon.wait_for(to, asked.wait_ms) => {}
            () = steps.closed() => return,
        }
        let (progress, mut progressed) = watch::channel(Progress::default());
        let told = steps.clone();
        let telling = tokio::spawn(async move {
            while progressed.changed().await.is_ok() {
                let Progress {
                    placed_bytes,
                    total_bytes,
                } = *progressed.borrow_and_update();
                let step = UploadLine::Progress {
                    placed_bytes,
                    total_bytes,
                };
                if told.send(step).await.is_err() {
                    return;
                }
            }
        });
        let body = request.get(end.saturating_add(1)..).unwrap_or_default();
        let message = match Class::from(asked.class) {
            Class::Control => Message::Control(body),
            Class::Storage => Message::Storage(body),
            Class::E2e => Message::E2e(body),
            Class::Application => Message::Application {
                namespace: Namespace::new(&asked.namespace).unwrap_or_default(),
                body,
            },
        };
        let sealing = sealing(asked.plain);
        let outcomes = daemon.node.outcomes();
        let begun = tokio::select! {
            begun = daemon.node.sending(to, message, sealing, progress) => begun,
            () = steps.closed() => return,
        };
        let sent = match begun {
            Ok(mut sending) => tokio::select! {
                sent = &mut sending => sent,
                () = steps.closed() => return sending.cancel(),
            },
            Err(error) => Err(error),
        };
        let _ = telling.await;
        let last = match sent {
            Ok(mut receipt) => {
                let outcome = outcomes.of(&receipt).await;
                if receipt.signed.len() > FRAME_MAX_BYTES {
                    receipt.signed = Bytes::new();
                }
                match daemon
                    .with_receipt(receipt, asked.receipt_ms, Some(outcome))
                    .await
                {
                    Ok(sent) => UploadLine::Sent(sent),
                    Err(error) => UploadLine::Refused(Refusal::of(&error)),
                }
            }
            Err(error) => UploadLine::Refused(Refusal::of(&ApiError::from(error))),
        };
        // Whoever asked may have gone meanwhile: the message is sent.
        let _ = steps.send(last).await;
    });
    let next = |mut reads: mpsc::Receiver<UploadLine>| async move {
        let step = reads.recv().await?;
        Some((line(&step), reads))
    };
    Ok(lines(unfold(reads, next)))
}
