//! Services: what answers calls.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use super::handle::Shared;
use super::{Answer, Call};
use crate::peer::refs::{Ask, CallId};

/// What answers the calls of a reference. Calls begin in the order they came; they are worked on
/// together.
#[async_trait]
pub trait Service: Send + Sync + 'static {
    /// Answers one call. A service that panics has refused it.
    async fn call(&self, call: Call) -> Answer;
}

#[async_trait]
impl<F, A> Service for F
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    async fn call(&self, call: Call) -> Answer {
        self(call).await
    }
}

/// Calls of one service, as they come.
pub(crate) type Calls = mpsc::UnboundedReceiver<(CallId, Call)>;

/// Has a service answer calls, until nobody can call it any more and every call is answered. How
/// many are open the references bound.
pub(crate) async fn serve(service: Arc<dyn Service>, mut calls: Calls, shared: Arc<Shared>) {
    let mut open = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            call = calls.recv() => match call {
                Some((id, call)) => open.push(answer(&*service, id, call, &shared)),
                None => break,
            },
            Some(()) = open.next(), if !open.is_empty() => {}
        }
    }
    while open.next().await.is_some() {}
}

async fn answer(service: &dyn Service, id: CallId, call: Call, shared: &Shared) {
    let called = async { service.call(call).await };
    let answer = AssertUnwindSafe(called).catch_unwind().await;
    let answer = answer.unwrap_or_else(|_| {
        tracing::error!("a service panicked; its caller is told that it refused");
        Answer::refuse("the service failed")
    });
    let (outcome, holds) = answer.into_outcome();
    let ask = Ask::Answer { call: id, outcome };
    // A node that has shut down gives the call to the next one to be started.
    if let Err(error) = shared.ask_at_once(ask, None, holds).await {
        tracing::debug!(%error, "an answer was not taken");
    }
}
