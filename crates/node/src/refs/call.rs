//! Calls and their answers.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use overlane_core::Did;
use overlane_relay::refs::table::Local;
use overlane_relay::refs::wire::{Body, Outcome, Reason, Slot};
use tokio::sync::oneshot;

use super::{CallError, Ref, TakenBack};

/// A call to a service.
#[derive(Debug)]
pub struct Call {
    /// The node that sent it, or passed it on; `None` for this node's own program.
    pub from: Option<Did>,
    /// The caller's bytes.
    pub bytes: Bytes,
    /// The references they speak of; what was taken back for good on the way says why.
    pub refs: Vec<Result<Ref, TakenBack>>,
    /// Whether it may have been given to a service before, by a process that ended since: a service
    /// that must not act twice looks whether it did.
    pub again: bool,
    /// The same for every time that this call is given, and no other's.
    pub key: String,
}

/// What a service says to a call.
#[derive(Debug)]
pub enum Answer {
    /// Bytes, and the references they speak of.
    Data(Bytes, Vec<Ref>),
    /// A reference: what waits for the answer can be called as that.
    Reference(Ref),
    /// A refusal, in bytes of the service's own.
    Refused(Bytes),
}

impl Answer {
    /// Bytes that speak of no references.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self::Data(bytes.into(), Vec::new())
    }

    /// A refusal in words.
    pub fn refuse(why: &str) -> Self {
        Self::Refused(Bytes::copy_from_slice(why.as_bytes()))
    }

    /// The outcome it stands for, and what must be held until that is told.
    pub(super) fn into_outcome(self) -> (Outcome<Local>, Vec<Ref>) {
        match self {
            Self::Data(bytes, refs) => {
                let body = Body {
                    slots: refs.iter().map(|of| Slot::Ref(of.local())).collect(),
                    bytes: bytes.as_ref().into(),
                };
                (Outcome::Data(body), refs)
            }
            Self::Reference(of) if matches!(of.local(), Local::Object(_)) => {
                (Outcome::Reference(of.local()), vec![of])
            }
            Self::Reference(of) => (Outcome::broken(Reason::RESOLVED_TO_PROMISE), vec![of]),
            Self::Refused(bytes) => (Outcome::Rejected(Body::data(&bytes)), Vec::new()),
        }
    }
}

/// The answer to a call.
#[derive(Debug)]
pub struct Reply {
    /// The service's bytes.
    pub bytes: Bytes,
    /// The references they speak of; an answer that is a reference has it alone.
    pub refs: Vec<Result<Ref, TakenBack>>,
}

/// An answer that is awaited. Dropping it says that nobody waits; the call is made all the same.
#[derive(Debug)]
pub struct Pending {
    promise: Ref,
    answer: oneshot::Receiver<Outcome<Ref>>,
}

impl Pending {
    pub(crate) fn new(promise: Ref, answer: oneshot::Receiver<Outcome<Ref>>) -> Self {
        Self { promise, answer }
    }

    /// A reference to what the answer will be: it can be called, and spoken of, before the answer is
    /// here, without a round trip.
    pub fn promise(&self) -> Ref {
        self.promise.clone()
    }
}

impl Future for Pending {
    type Output = Result<Reply, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|answer| answer.map_or(Err(CallError::Closed), reply))
    }
}

fn reply(outcome: Outcome<Ref>) -> Result<Reply, CallError> {
    match outcome {
        Outcome::Reference(of) => Ok(Reply {
            bytes: Bytes::new(),
            refs: vec![Ok(of)],
        }),
        Outcome::Data(body) => {
            let (bytes, refs) = spoken(body);
            Ok(Reply { bytes, refs })
        }
        Outcome::Rejected(body) => Err(CallError::Refused(spoken(body).0)),
        Outcome::Broken { reason, error } => Err(CallError::Broken(TakenBack::new(reason, &error))),
    }
}

/// The bytes of a body, and its references.
pub(crate) fn spoken(body: Body<Ref>) -> (Bytes, Vec<Result<Ref, TakenBack>>) {
    let slots = body.slots.into_iter().map(|slot| match slot {
        Slot::Ref(of) => Ok(of),
        Slot::Broken(reason) => Err(TakenBack::new(reason, &[])),
    });
    (Bytes::copy_from_slice(&body.bytes), slots.collect())
}
