//! The driver's hands for references: requests that wait for their answers, promises that are
//! awaited, services that are called.

use std::collections::BTreeMap;
use std::sync::Arc;

use overlane_relay::refs::table::{Local, LocalObject, LocalPromise};
use overlane_relay::refs::wire::{Body, Outcome, Slot};
use tokio::sync::{mpsc, oneshot};

use super::committer::{Committed, Committer, stopped};
use crate::peer::refs::{
    Ask, AskId, Call as TableCall, CallId, Commit, Effect, Handle, ReferenceError, Reply, Token,
};
use crate::refs::{Call, Pending, Ref, Service, Shared, serve};

/// A request about references.
pub(crate) struct Request {
    pub(crate) ask: Ask,
    /// Who answers the calls of what is made or restored.
    pub(crate) service: Option<Arc<dyn Service>>,
    /// What the request speaks of, held until it is taken.
    pub(crate) holds: Vec<Ref>,
    pub(crate) reply: oneshot::Sender<Result<Given, ReferenceError>>,
}

/// What comes of a request.
#[derive(Debug)]
pub(crate) enum Given {
    Done,
    Ref(Ref),
    Pending(Pending),
    Token(Token),
}

/// A request that was taken.
struct Asked {
    service: Option<Arc<dyn Service>>,
    reply: oneshot::Sender<Result<Given, ReferenceError>>,
}

pub(crate) struct Hands {
    shared: Arc<Shared>,
    committer: Option<Committer>,
    asked: BTreeMap<AskId, Asked>,
    next_ask: u64,
    awaited: BTreeMap<LocalPromise, oneshot::Sender<Outcome<Ref>>>,
    services: BTreeMap<LocalObject, mpsc::UnboundedSender<(CallId, Call)>>,
}

impl Hands {
    pub(crate) fn new(shared: Arc<Shared>, committer: Option<Committer>) -> Self {
        Self {
            shared,
            committer,
            asked: BTreeMap::new(),
            next_ask: 0,
            awaited: BTreeMap::new(),
            services: BTreeMap::new(),
        }
    }

    /// Notes who waits for the answer to a request.
    pub(crate) fn note(
        &mut self,
        service: Option<Arc<dyn Service>>,
        reply: oneshot::Sender<Result<Given, ReferenceError>>,
    ) -> AskId {
        let id = AskId(self.next_ask);
        self.next_ask += 1;
        self.asked.insert(id, Asked { service, reply });
        id
    }

    /// Nobody holds a reference any more.
    pub(crate) fn dropped(&mut self, local: Local) {
        if let Local::Promise(promise) = local {
            self.awaited.remove(&promise);
        }
    }

    /// Has a commit made durable.
    ///
    /// # Errors
    /// Its result, when the thread cannot take it.
    pub(crate) fn commit(&self, commit: Commit) -> Result<(), Committed> {
        match &self.committer {
            Some(committer) => committer.commit(commit),
            None => Err((commit.id, Err(stopped()))),
        }
    }

    pub(crate) fn do_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Answer(id, answer) => self.answer(id, answer),
            Effect::Call(call) => self.call(*call),
            Effect::Became { promise, outcome } => {
                let outcome = self.outcome(outcome);
                if let Some(awaited) = self.awaited.remove(&promise) {
                    // Whoever waited may have gone.
                    let _ = awaited.send(outcome);
                }
            }
            Effect::State { object, state } => self.shared.state(object, state),
            Effect::Detach(object) => {
                self.services.remove(&object);
            }
            Effect::Ended { peer, code, text } => {
                tracing::warn!(%peer, code, "what was shared with a node is lost: {text}");
            }
            Effect::Failed { cause } => {
                tracing::error!(
                    cause,
                    "the store of references failed; start the node again"
                );
                self.services.clear();
                self.awaited.clear();
            }
            // The peer does these itself.
            Effect::Say { .. } | Effect::Taken => {}
        }
    }

    pub(crate) async fn close(self) {
        drop((self.services, self.awaited, self.asked));
        if let Some(committer) = self.committer {
            committer.close().await;
        }
    }

    fn answer(&mut self, id: AskId, answer: Result<Reply, ReferenceError>) {
        let Some(Asked { service, reply }) = self.asked.remove(&id) else {
            return;
        };
        let given = answer.map(|answer| match answer {
            Reply::Done => Given::Done,
            Reply::Kept(token) => Given::Token(token),
            Reply::Handle(handle) => {
                if let (Local::Object(object), Some(service)) = (handle.local, service) {
                    self.attach(object, service);
                }
                Given::Ref(self.shared.hand(handle))
            }
            Reply::Promise(promise) => {
                let (tell, answer) = oneshot::channel();
                self.awaited.insert(promise, tell);
                let promise = self.shared.hand(Handle {
                    local: promise.into(),
                    state: crate::refs::RefState::Live,
                });
                Given::Pending(Pending::new(promise, answer))
            }
        });
        // Whoever asked may have gone; then what was given is let go of.
        let _ = reply.send(given);
    }

    fn attach(&mut self, object: LocalObject, service: Arc<dyn Service>) {
        let (calls, inbox) = mpsc::unbounded_channel();
        tokio::spawn(serve(service, inbox, Arc::clone(&self.shared)));
        self.services.insert(object, calls);
    }

    fn call(&mut self, call: TableCall) {
        let TableCall {
            id,
            target,
            from,
            body,
            again,
        } = call;
        let (bytes, refs) = crate::refs::spoken(self.body(body));
        let call = Call {
            from,
            bytes,
            refs,
            again,
            key: id.to_string(),
        };
        match self.services.get(&target) {
            // The task lives as long as it is listed here.
            Some(service) => drop(service.send((id, call))),
            None => tracing::error!(?target, "a call to an object without a service"),
        }
    }

    fn outcome(&self, outcome: Outcome<Handle>) -> Outcome<Ref> {
        match outcome {
            Outcome::Reference(of) => Outcome::Reference(self.shared.hand(of)),
            Outcome::Data(body) => Outcome::Data(self.body(body)),
            Outcome::Rejected(body) => Outcome::Rejected(self.body(body)),
            Outcome::Broken { reason, error } => Outcome::Broken { reason, error },
        }
    }

    fn body(&self, body: Body<Handle>) -> Body<Ref> {
        let slots = body.slots.into_iter().map(|slot| match slot {
            Slot::Ref(of) => Slot::Ref(self.shared.hand(of)),
            Slot::Broken(reason) => Slot::Broken(reason),
        });
        Body {
            slots: slots.collect(),
            bytes: body.bytes,
        }
    }
}
