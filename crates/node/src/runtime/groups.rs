//! Groups on their keeper's thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use overlane_core::transaction::Message;
use overlane_relay::log::{LogStore, Retention};
use tokio::sync::{Semaphore, broadcast, oneshot};

use super::keeper::{Inlet, Input, Machine, Word};
use crate::error::NodeError;
use crate::peer::groups::{
    ASKS_WAITING_MAX, Ask, AskId, Effect, GONE_MS, GroupEvent, Groups, GroupsError, Own, Reply,
};
use crate::peer::{Heard, Now};

/// Requests about groups that a node has taken and not answered; more wait in their callers.
const GROUP_ASKS_MAX: usize = 2 * ASKS_WAITING_MAX;

/// A request about groups, and who waits for its answer.
pub(crate) struct GroupAsk {
    ask: Ask,
    reply: oneshot::Sender<Result<Reply, GroupsError>>,
}

/// What a node's user says of its groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupSettings {
    /// How long a host may be gone.
    pub(crate) host_gone: Duration,
    /// How much of each log is kept.
    pub(crate) retention: Retention,
}

impl Default for GroupSettings {
    fn default() -> Self {
        Self {
            host_gone: Duration::from_millis(GONE_MS),
            retention: Retention::GROUP,
        }
    }
}

/// Opens the groups of a store, on the thread that is to have it.
pub(crate) type OpenGroups = Box<
    dyn FnOnce(
            Own,
            broadcast::Sender<GroupEvent>,
            GroupSettings,
            Now,
        ) -> Result<Box<dyn Machine<Ask = GroupAsk>>, NodeError>
        + Send,
>;

/// What opens the groups that `store` holds.
pub(crate) fn opens<S: LogStore + Send + 'static>(store: S) -> OpenGroups {
    Box::new(move |own, events, settings, now| {
        let mut groups = Groups::open(store, own, now)?;
        let gone_ms = u64::try_from(settings.host_gone.as_millis()).unwrap_or(u64::MAX);
        groups.set_host_gone_ms(gone_ms);
        groups.set_retention(settings.retention);
        Ok(Box::new(OnThread {
            groups,
            asked: BTreeMap::new(),
            next_ask: 0,
            events,
            words: VecDeque::new(),
        }))
    })
}

/// The way to a node's groups.
pub(crate) struct GroupDoor {
    inlet: Option<Inlet<GroupAsk>>,
    asks: Semaphore,
    events: broadcast::Sender<GroupEvent>,
}

impl GroupDoor {
    pub(crate) fn new(
        inlet: Option<Inlet<GroupAsk>>,
        events: broadcast::Sender<GroupEvent>,
    ) -> Self {
        let asks = Semaphore::new(GROUP_ASKS_MAX);
        Self {
            inlet,
            asks,
            events,
        }
    }

    pub(crate) async fn ask(&self, ask: Ask) -> Result<Reply, GroupsError> {
        let inlet = self.inlet.as_ref().ok_or(GroupsError::NoStore)?;
        let _permit = self.asks.acquire().await.map_err(|_| GroupsError::Closed)?;
        let (reply, answer) = oneshot::channel();
        if !inlet.ask(GroupAsk { ask, reply }) {
            return Err(GroupsError::Closed);
        }
        answer.await.unwrap_or(Err(GroupsError::Closed))
    }

    pub(crate) fn events(&self) -> broadcast::Receiver<GroupEvent> {
        self.events.subscribe()
    }

    /// Whether there is a store.
    pub(crate) fn is_open(&self) -> bool {
        self.inlet.is_some()
    }
}

struct OnThread<S: LogStore> {
    groups: Groups<S>,
    asked: BTreeMap<AskId, oneshot::Sender<Result<Reply, GroupsError>>>,
    next_ask: u64,
    events: broadcast::Sender<GroupEvent>,
    words: VecDeque<Word>,
}

impl<S: LogStore> Machine for OnThread<S> {
    type Ask = GroupAsk;

    fn handle(&mut self, input: Input<GroupAsk>, now: Now) {
        match input {
            Input::Heard(Heard::Message { delivery, .. }) => {
                let payload = delivery.item();
                let Message::Application { body, .. } = payload.message() else {
                    return self.words.push_back(Word::Took);
                };
                self.groups.handle_message(payload.origin(), body, now);
            }
            Input::Heard(Heard::Linked(peer)) => self.groups.handle_linked(peer, now),
            Input::Heard(Heard::Unlinked(peer)) => self.groups.handle_unlinked(peer, now),
            Input::Heard(Heard::Said { to, result }) => self.groups.handle_said(to, result, now),
            Input::Signer(signer) => self.groups.sign_with(Arc::clone(&signer)),
            Input::Ask(GroupAsk { ask, reply }) => {
                let id = AskId(self.next_ask);
                self.next_ask += 1;
                self.asked.insert(id, reply);
                self.groups.ask(id, ask, now);
            }
            Input::End => {}
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        self.groups.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<u64> {
        self.groups.poll_timeout()
    }

    fn is_full(&self) -> bool {
        self.groups.is_full()
    }

    fn flush(&mut self, now: Now) {
        self.groups.flush(now);
    }

    fn poll_word(&mut self) -> Option<Word> {
        if let Some(word) = self.words.pop_front() {
            return Some(word);
        }
        loop {
            match self.groups.poll_effect()? {
                Effect::Say { to, data } => return Some(Word::Say { to, data }),
                Effect::Taken => return Some(Word::Took),
                Effect::Answer(id, answer) => {
                    if let Some(reply) = self.asked.remove(&id) {
                        // Whoever asked may have gone.
                        let _ = reply.send(answer);
                    }
                }
                Effect::Event(event) => {
                    // Nobody may be watching.
                    let _ = self.events.send(event);
                }
                Effect::Failed { cause } => {
                    tracing::error!(cause, "the store of logs failed; start the node again");
                    return Some(Word::Failed { cause });
                }
            }
        }
    }
}
