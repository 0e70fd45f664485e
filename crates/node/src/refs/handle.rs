//! Handles of references.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use overlane_relay::refs::table::{Local, LocalObject};
use overlane_relay::refs::wire::{Hardness, Reason};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::{ASKS_MAX, Pending, RefState, ReferenceError, Service, Token};
use crate::peer::refs::{Ask, Handle};
use crate::runtime::{Command, Given};

/// A reference to something at this node or another. Clones are the same handle; when the last of
/// them is dropped, the reference is let go of.
#[derive(Clone)]
pub struct Ref {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    local: Local,
    /// Handles of the tables that this one stands for.
    handles: AtomicU32,
    state: watch::Sender<RefState>,
    shared: Arc<Shared>,
}

/// What all handles of a node share.
pub(crate) struct Shared {
    refs: Mutex<BTreeMap<Local, Weak<Inner>>>,
    dropped: mpsc::UnboundedSender<(Local, u32)>,
    /// Handles do not keep a node running.
    commands: mpsc::WeakSender<Command>,
    asks: Semaphore,
}

impl Ref {
    /// Calls what the reference stands for. The answer is awaited with the [`Pending`] that this
    /// gives once the call is durable here; from then on it reaches the other node whenever that can
    /// be reached, over restarts of both.
    ///
    /// # Errors
    /// [`ReferenceError`]: a bound, or a store that failed. Nothing was sent then. A reference that
    /// was taken back is called all the same, and the answer says why.
    pub async fn send(
        &self,
        bytes: impl Into<Bytes>,
        refs: &[Ref],
    ) -> Result<Pending, ReferenceError> {
        let ask = Ask::Send {
            target: self.inner.local,
            bytes: bytes.into().to_vec(),
            refs: refs.iter().map(Self::local).collect(),
        };
        let mut holds = refs.to_vec();
        holds.push(self.clone());
        match self.inner.shared.ask(ask, None, holds).await? {
            Given::Pending(pending) => Ok(pending),
            _ => Err(ReferenceError::Closed),
        }
    }

    /// What the reference is worth now.
    pub fn state(&self) -> RefState {
        self.inner.state.borrow().clone()
    }

    /// Waits until the reference is worth nothing any more, and says why.
    pub async fn lost(&self) -> RefState {
        let mut state = self.inner.state.subscribe();
        let lost = state.wait_for(|state| *state != RefState::Live).await;
        // The sender is this handle's own.
        lost.map_or_else(|_| self.state(), |state| state.clone())
    }

    /// Takes it back: calls are refused from now on, with `reason` and `text`, and everyone who holds
    /// it is told. It stays itself.
    ///
    /// # Errors
    /// [`ReferenceError`]: it is another node's, or was taken back before.
    pub async fn revoke_soft(&self, reason: Reason, text: &str) -> Result<(), ReferenceError> {
        self.revoke(Hardness::Soft, reason, text).await
    }

    /// Takes it back for good: its identity goes too, and speaking of it is refused.
    ///
    /// # Errors
    /// As [`revoke_soft`](Self::revoke_soft).
    pub async fn revoke_hard(&self, reason: Reason, text: &str) -> Result<(), ReferenceError> {
        self.revoke(Hardness::Hard, reason, text).await
    }

    /// Keeps it over restarts, until [`Node::forget`](crate::Node::forget). The note, of at most
    /// [`NOTE_MAX_BYTES`](super::NOTE_MAX_BYTES), is for whoever looks through what is kept.
    ///
    /// # Errors
    /// [`ReferenceError`]: a bound.
    pub async fn token(&self, note: &[u8]) -> Result<Token, ReferenceError> {
        let ask = Ask::Keep {
            local: self.inner.local,
            note: note.to_vec(),
        };
        match self.inner.shared.ask(ask, None, vec![self.clone()]).await? {
            Given::Token(token) => Ok(token),
            _ => Err(ReferenceError::Closed),
        }
    }

    async fn revoke(
        &self,
        hardness: Hardness,
        reason: Reason,
        text: &str,
    ) -> Result<(), ReferenceError> {
        let Local::Object(object) = self.inner.local else {
            return Err(ReferenceError::NotOwn);
        };
        let ask = Ask::Revoke {
            object,
            hardness,
            reason,
            text: text.to_owned(),
        };
        let asked = self.inner.shared.ask(ask, None, vec![self.clone()]);
        asked.await.map(drop)
    }

    pub(crate) fn local(&self) -> Local {
        self.inner.local
    }
}

impl PartialEq for Ref {
    fn eq(&self, other: &Self) -> bool {
        self.inner.local == other.inner.local
            && Arc::ptr_eq(&self.inner.shared, &other.inner.shared)
    }
}

impl Eq for Ref {}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ref")
            .field("local", &self.inner.local)
            .field("state", &self.state())
            .finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut refs = self.shared.lock();
        if refs
            .get(&self.local)
            .is_some_and(|known| known.strong_count() == 0)
        {
            refs.remove(&self.local);
        }
        drop(refs);
        // A node that is gone has let go of everything.
        let _ = self
            .shared
            .dropped
            .send((self.local, *self.handles.get_mut()));
    }
}

impl Shared {
    pub(crate) fn new(
        dropped: mpsc::UnboundedSender<(Local, u32)>,
        commands: mpsc::WeakSender<Command>,
    ) -> Arc<Self> {
        Arc::new(Self {
            refs: Mutex::default(),
            dropped,
            commands,
            asks: Semaphore::new(ASKS_MAX),
        })
    }

    /// One more handle of the tables, as a reference.
    pub(crate) fn hand(self: &Arc<Self>, handle: Handle) -> Ref {
        let Handle { local, state } = handle;
        let mut refs = self.lock();
        if let Some(inner) = refs.get(&local).and_then(Weak::upgrade) {
            inner.handles.fetch_add(1, Ordering::Relaxed);
            inner.state.send_replace(state);
            return Ref { inner };
        }
        let inner = Arc::new(Inner {
            local,
            handles: AtomicU32::new(1),
            state: watch::Sender::new(state),
            shared: Arc::clone(self),
        });
        refs.insert(local, Arc::downgrade(&inner));
        Ref { inner }
    }

    /// A reference is worth something else now.
    pub(crate) fn state(&self, object: LocalObject, state: RefState) {
        let known = self.lock().get(&object.into()).and_then(Weak::upgrade);
        if let Some(inner) = known {
            inner.state.send_replace(state);
        }
    }

    /// Asks the node. What `holds` stands for is held until it has taken the request.
    pub(crate) async fn ask(
        &self,
        ask: Ask,
        service: Option<Arc<dyn Service>>,
        holds: Vec<Ref>,
    ) -> Result<Given, ReferenceError> {
        let place = self.asks.acquire().await;
        let _place = place.map_err(|_| ReferenceError::Closed)?;
        self.ask_at_once(ask, service, holds).await
    }

    /// As [`ask`](Self::ask), for what waits for no place among the requests.
    pub(crate) async fn ask_at_once(
        &self,
        ask: Ask,
        service: Option<Arc<dyn Service>>,
        holds: Vec<Ref>,
    ) -> Result<Given, ReferenceError> {
        let (reply, answer) = oneshot::channel();
        let commands = self.commands.upgrade().ok_or(ReferenceError::Closed)?;
        let command = Command::References(Box::new(crate::runtime::Request {
            ask,
            service,
            holds,
            reply,
        }));
        let sent = commands.send(command).await;
        drop(commands);
        sent.map_err(|_| ReferenceError::Closed)?;
        answer.await.map_err(|_| ReferenceError::Closed)?
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Local, Weak<Inner>>> {
        // A panic elsewhere cannot leave an entry half changed: each change is one call.
        self.refs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
