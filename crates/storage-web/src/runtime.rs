//! The replay engine over a store, in a page or a worker.
//!
//! Every call is staged at once, in the order of the calls, and answered when the batch it depends on
//! is durable. One task writes the batches; what is staged while it does gathers in the next. Law
//! (cancellation): whoever drops a call's future abandons its wait, never its effect.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use futures_channel::oneshot;
use js_sys::Date;
use overlane_core::StreamKey;
use overlane_core::identity::Verified;
use overlane_core::replay::{
    Batch, BatchId, Candidate, Custodial, Engine, EngineConfig, Introducer, Now, Outcome, Ticket,
};
use overlane_core::store::StoreError;
use overlane_core::transaction::ForkEvidence;
use wasm_bindgen_futures::spawn_local;

use crate::platform::{pause, steady_ms};
use crate::store::WebStore;

/// How long nothing was written before the store is sealed.
pub const SEAL_AFTER_MS: u32 = 20;

/// This instant, by the page's clocks.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "milliseconds since 1970, and since the page began"
)]
pub fn now() -> Now {
    Now {
        wall_ms: Date::now() as u64,
        steady_ms: steady_ms() as u64,
    }
}

/// The engine and its store. Clones share them.
#[derive(Debug)]
pub struct Replay<T>(Rc<Shared<T>>);

impl<T> Clone for Replay<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Shared<T> {
    engine: RefCell<Engine<T>>,
    /// The store, while nobody writes to it.
    store: RefCell<Option<WebStore>>,
    waiting: RefCell<BTreeMap<Ticket, oneshot::Sender<Outcome<T>>>>,
    /// Who wants the store once it is idle.
    closing: RefCell<Option<oneshot::Sender<WebStore>>>,
    closed: Cell<bool>,
    batches: Cell<u64>,
}

impl<T: Candidate + 'static> Replay<T> {
    /// The engine over what the store holds.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub async fn open(mut store: WebStore, config: EngineConfig) -> Result<Self, StoreError> {
        let scan = store.scan().await?;
        Ok(Self(Rc::new(Shared {
            engine: RefCell::new(Engine::restore(config, scan, now())),
            store: RefCell::new(Some(store)),
            waiting: RefCell::default(),
            closing: RefCell::default(),
            closed: Cell::default(),
            batches: Cell::default(),
        })))
    }

    /// Admits a verified transaction whose final destination is this node.
    pub fn admit(
        &self,
        item: T,
        introducer: Introducer,
    ) -> impl Future<Output = Outcome<T>> + use<T> {
        let ticket = self.engine().stage_admission(item, introducer, now());
        self.answered(ticket)
    }

    /// Takes a mail for its application.
    pub fn take(&self, mail: Custodial<T>) -> impl Future<Output = Outcome<T>> + use<T> {
        let ticket = self.engine().stage_take(mail, now());
        self.answered(ticket)
    }

    /// Reserves `count` sequences of a stream that this node signs on.
    pub fn reserve(
        &self,
        stream: StreamKey,
        count: u64,
    ) -> impl Future<Output = Outcome<T>> + use<T> {
        let ticket = self.engine().stage_reservation(stream, count, now());
        self.answered(ticket)
    }

    /// Keeps a signed evidence of a fork.
    pub fn keep(
        &self,
        evidence: &Verified<ForkEvidence>,
    ) -> impl Future<Output = Outcome<T>> + use<T> {
        let ticket = self.engine().stage_evidence(evidence);
        self.answered(ticket)
    }

    /// Looks at the engine, or tells it of links and clocks. Whatever is to be written is written.
    pub fn with<R>(&self, look: impl FnOnce(&mut Engine<T>) -> R) -> R {
        let looked = look(&mut self.0.engine.borrow_mut());
        self.0.answer();
        self.write();
        looked
    }

    /// Waits for what is being written, seals the store and lets go of it. What is staged after this is
    /// refused with [`StoreFailed`](overlane_core::replay::Refusal::StoreFailed).
    ///
    /// # Errors
    /// [`StoreError`]: the seal did not become durable.
    pub async fn close(self) -> Result<(), StoreError> {
        let idle = self.0.store.borrow_mut().take();
        let store = match idle {
            Some(store) => Some(store),
            None if self.0.closed.get() => None,
            None => {
                let (give, given) = oneshot::channel();
                *self.0.closing.borrow_mut() = Some(give);
                given.await.ok()
            }
        };
        self.0.closed.set(true);
        let cause = String::from("the store was closed");
        let closed = Err(StoreError::Poisoned { cause });
        self.0.engine.borrow_mut().handle_scan(closed, now());
        self.0.answer();
        match store {
            Some(store) => store.close().await,
            None => Ok(()),
        }
    }

    fn engine(&self) -> RefMut<'_, Engine<T>> {
        self.0.engine.borrow_mut()
    }

    /// The answer to a call that is staged.
    fn answered(&self, ticket: Ticket) -> impl Future<Output = Outcome<T>> + use<T> {
        let (tell, told) = oneshot::channel();
        self.0.waiting.borrow_mut().insert(ticket, tell);
        self.0.answer();
        self.write();
        async move {
            match told.await {
                Ok(outcome) => outcome,
                // The engine answers every ticket; without an engine there is no answer.
                Err(_) => std::future::pending().await,
            }
        }
    }

    /// Starts the writer, unless it runs or the store is closed.
    fn write(&self) {
        let store = self.0.store.borrow_mut().take();
        if let Some(store) = store {
            spawn_local(write_all(Rc::clone(&self.0), store));
        }
    }
}

/// Writes batch after batch, and seals the store once nothing was written for a while.
async fn write_all<T: Candidate>(shared: Rc<Shared<T>>, mut store: WebStore) {
    loop {
        while let Some(batch) = shared.take_batch() {
            let written = store.write(&batch.changes).await;
            shared.batch_done(batch.id, written);
        }
        let closing = shared.closing.borrow_mut().take();
        if let Some(closing) = closing {
            // Whoever closes waits for it.
            drop(closing.send(store));
            return;
        }
        let batches = shared.batches.get();
        *shared.store.borrow_mut() = Some(store);
        pause(SEAL_AFTER_MS).await;
        let idle = match shared.batches.get() == batches {
            true => shared.store.borrow_mut().take(),
            false => None,
        };
        // Another writer has it, or it was closed.
        let Some(idle) = idle else { return };
        store = idle;
        if store.is_sealed() {
            *shared.store.borrow_mut() = Some(store);
            return;
        }
        // A seal that fails poisons the store, and the next batch says so.
        drop(store.seal().await);
    }
}

impl<T: Candidate> Shared<T> {
    fn take_batch(&self) -> Option<Batch> {
        self.engine.borrow_mut().take_batch()
    }

    fn batch_done(&self, id: BatchId, written: Result<(), StoreError>) {
        // A batch that is not in flight any more was failed by a scan: there is nobody to tell.
        let _ = self.engine.borrow_mut().batch_done(id, written);
        self.batches.set(self.batches.get().saturating_add(1));
        self.answer();
    }

    /// Gives out every answer there is.
    fn answer(&self) {
        loop {
            let answer = self.engine.borrow_mut().poll_outcome();
            let Some((ticket, outcome)) = answer else {
                break;
            };
            let waiting = self.waiting.borrow_mut().remove(&ticket);
            if let Some(waiting) = waiting {
                // Whoever went away abandoned its wait, not the effect.
                drop(waiting.send(outcome));
            }
        }
    }
}
