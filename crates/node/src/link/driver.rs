//! One link at work: what drives its session over its transport, beside that.
//!
//! Laws: what comes off a channel is taken at once, whatever waits for the node (a transport event
//! is never left lying for want of a place elsewhere); a class's messages reach its channel in the
//! session's order, one at a time; frames are told before the end of their link is. Law (told if
//! answered): a link whose frames were answered is told of, with them and in order, even if it gave
//! way between its session's opening and its telling.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use overlane_core::identity::AccountKey;
use overlane_core::lane::{
    CloseReason, PerLane, QuotaHint, SendError, Session, SessionEvent, SessionStatus,
};
use overlane_core::{Class, Did};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::count::Counted;
use super::error::DownReason;
use super::ice::LinkPath;
use super::id::LinkId;
use super::links::{ClockWitness, LinkEvent, Shared, Stopping};
use super::queued::{Queued, Share};
use super::registry::Handle;
use super::transport::{Transport, TransportError, TransportEvent};

/// Transport events that are taken in a row before the session is asked what it wants, and events of the
/// session that are told in a row.
const EVENTS_AT_ONCE: usize = 64;

/// Who is at the other end, and what of it only the dialling side knows.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) peer: Did,
    /// Where this node asked; `None` if the peer offered.
    pub(super) url: Option<String>,
    /// What the peer's clock showed when it answered; `None` if the peer offered.
    pub(super) witness: Option<ClockWitness>,
    /// The peer's account, whose key its signature proved.
    pub(super) account: Option<Box<AccountKey>>,
    /// The port that the peer takes offers on, if it does.
    pub(super) listens: Option<NonZeroU16>,
}

/// What of a link its handles share with its driver.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) peer: Did,
    /// Where this node asked for it; `None` if the peer offered.
    pub(super) dialed_url: Option<String>,
    pub(super) byte_window: u32,
    /// What the peer's clock showed when it answered; `None` if the peer offered.
    pub(super) witness: Option<ClockWitness>,
    account: Option<Box<AccountKey>>,
    listens: Option<NonZeroU16>,
    session: Mutex<Session>,
    /// What its lanes hold of the node's bound.
    share: Share,
    queued: Arc<Queued>,
    /// Why this node ends it, if for another reason than that it was told to close it.
    fate: Mutex<Option<DownReason>>,
    /// Nothing was heard of the other side for a while.
    disturbed: AtomicBool,
    /// The way it took, once it is up.
    path: OnceLock<LinkPath>,
    /// The address of the peer's host, if that is known.
    far_host: OnceLock<IpAddr>,
    wake: Notify,
    epoch: Instant,
}

impl Link {
    pub(super) fn new(
        id: LinkId,
        asked: Asked,
        byte_window: u32,
        session: Session,
        queued: Arc<Queued>,
        epoch: Instant,
    ) -> Self {
        let Asked {
            peer,
            url,
            witness,
            account,
            listens,
        } = asked;
        Self {
            id,
            peer,
            dialed_url: url,
            byte_window,
            witness,
            account,
            listens,
            session: Mutex::new(session),
            share: Share::default(),
            queued,
            fate: Mutex::new(None),
            disturbed: AtomicBool::new(false),
            path: OnceLock::new(),
            far_host: OnceLock::new(),
            wake: Notify::new(),
            epoch,
        }
    }

    pub(super) fn send(&self, class: Class, frame: Vec<u8>) -> Result<(), SendError> {
        let mut session = self.session();
        let waited = session.queued(class) > 0;
        let sent = if session.exceeds_reserve(class, frame.len()) {
            let (queued, share) = (&self.queued, &self.share);
            queued.counted(&mut session, share, |session| session.send(class, frame))
        } else {
            session.send(class, frame)
        };
        drop(session);
        // Behind another frame it waits for what that one waits for, and its driver wakes for that. A
        // refused one makes the driver wait for room.
        if !waited || sent.is_err() {
            self.wake.notify_one();
        }
        sent
    }

    pub(super) fn taken(&self, class: Class, frames: usize) {
        let now_ms = self.now_ms();
        let mut session = self.session();
        session.taken(class, frames, now_ms);
        let owes = session.owes_grant();
        drop(session);
        if owes {
            self.wake.notify_one();
        }
    }

    /// Ends the link in order: what is queued leaves first, if it is open.
    pub(super) fn close(&self) {
        let now_ms = self.now_ms();
        self.session().close(now_ms);
        self.wake.notify_one();
    }

    /// Whether nothing was heard of the other side for a while: what it takes may be lost.
    pub(super) fn is_disturbed(&self) -> bool {
        self.disturbed.load(Ordering::Relaxed)
    }

    /// The way it took, once it is up.
    pub(super) fn path(&self) -> Option<LinkPath> {
        self.path.get().copied()
    }

    /// Where the peer takes offers, if it does, and its host is known.
    pub(super) fn listens_at(&self) -> Option<SocketAddr> {
        let host = *self.far_host.get()?;
        Some((host, self.listens?.get()).into())
    }

    pub(super) fn status(&self) -> SessionStatus {
        self.session().status()
    }

    /// Changes what the queues hold, which grows by nothing, within the node's bound.
    fn counted<T>(&self, change: impl FnOnce(&mut Session) -> T) -> T {
        let mut session = self.session();
        self.queued.counted_less(&mut session, &self.share, change)
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        lock(&self.session)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Handle for Arc<Link> {
    /// As [`Link::close`], for a reason of this node's own.
    fn end(&self, reason: DownReason) {
        lock(&self.fate).get_or_insert(reason);
        self.close();
    }

    /// Ends the link at once, without a word to the peer: nothing more is sent or heard.
    fn cut(&self, reason: DownReason) {
        let now_ms = self.now_ms();
        let words = reason.to_string();
        lock(&self.fate).replace(reason);
        self.session().handle_transport_closed(words, now_ms);
        self.wake.notify_one();
    }
}

/// The value behind a lock that no panic can leave half-changed: every change is one call.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Told once: the link is open, or why it will not be.
pub(super) type OpenedSender = oneshot::Sender<Result<(), DownReason>>;

/// A place for one more event, being waited for.
type Reserving = Pin<Box<dyn Future<Output = Option<mpsc::OwnedPermit<LinkEvent>>> + Send>>;

type Sending =
    FuturesUnordered<Pin<Box<dyn Future<Output = (Class, Result<(), TransportError>)> + Send>>>;

/// Drives one link until it is down.
pub(super) struct Driver {
    link: Arc<Link>,
    shared: Arc<Shared>,
    transport: Arc<dyn Transport>,
    transport_events: mpsc::Receiver<TransportEvent>,
    opened: Option<OpenedSender>,
    /// The node was told that the link is up.
    told_up: bool,
    /// Changes when the node's queues have room again.
    room: watch::Receiver<u64>,
    /// What the other side keeps as a destination, once it said so.
    quota: Option<QuotaHint>,
    /// Messages of the session that wait for their channel; the session bounds them.
    outbox: PerLane<VecDeque<Vec<u8>>>,
    /// Channels with a message on its way into the send buffer.
    busy: PerLane<bool>,
    sending: Sending,
    /// Events the node had no place for yet: at most what is told in a row, and an Up before it.
    pending: VecDeque<LinkEvent>,
    reserving: Option<Reserving>,
    /// The node hears no events any more.
    deaf: bool,
    /// Resolves when a shutdown waits no longer for the node to take events.
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// How the transport ended, if it did.
    transport_ended: Option<DownReason>,
    _task: Counted,
}

impl Driver {
    pub(super) fn new(
        link: Arc<Link>,
        shared: Arc<Shared>,
        transport: Arc<dyn Transport>,
        transport_events: mpsc::Receiver<TransportEvent>,
        opened: OpenedSender,
    ) -> Self {
        let task = shared.held.tasks.one();
        let queued = Arc::clone(&link.queued);
        let cut = Box::pin(shared.stopping(Stopping::Cut));
        Self {
            link,
            shared,
            transport,
            transport_events,
            opened: Some(opened),
            told_up: false,
            room: queued.room(),
            quota: None,
            outbox: PerLane::default(),
            busy: PerLane::default(),
            sending: FuturesUnordered::new(),
            pending: VecDeque::new(),
            reserving: None,
            deaf: false,
            cut,
            transport_ended: None,
            _task: task,
        }
    }

    /// Runs the link to its end. Nothing of it is left afterwards.
    pub(super) async fn run(mut self) {
        let reason = loop {
            if let Some(reason) = self.turn() {
                break reason;
            }
            self.wait().await;
        };
        self.sending.clear();
        // What it held of the node's bound is free.
        self.link.counted(|_| ());
        self.transport.close().await;
        let (link, peer) = (self.link.id, self.link.peer);
        tracing::debug!(%link, %peer, %reason, "link down");
        lock(&self.shared.registry).remove(link);
        self.shared.changed();
        if let Some(opened) = self.opened.take() {
            self.shared.count_not_opened(&reason);
            let _ = opened.send(Err(reason.clone()));
        }
        if self.told_up && !self.deaf {
            let down = LinkEvent::Down { link, peer, reason };
            tokio::select! {
                // A node that dropped its receiver misses it, and nobody else.
                _ = self.shared.events.send(down) => {}
                () = &mut self.cut => {}
            }
        }
    }

    /// Does all that can be done without waiting. Gives the reason once the link is down.
    fn turn(&mut self) -> Option<DownReason> {
        loop {
            self.transmit();
            if !self.pending.is_empty() {
                return None;
            }
            self.room.mark_unchanged();
            // As many as the node has places for, so that none is left pending but where other links were
            // quicker.
            let places = self.shared.events.capacity().clamp(1, EVENTS_AT_ONCE);
            let events: Vec<_> = self.link.counted(|session| {
                std::iter::from_fn(|| session.poll_event_together())
                    .take(places)
                    .collect()
            });
            if events.is_empty() {
                return None;
            }
            for event in events {
                match event {
                    SessionEvent::Open { peer } => self.open(peer.quota),
                    // Nobody here was told that it could send on it.
                    SessionEvent::Room { .. } if !self.told_up => {}
                    SessionEvent::Room { class } => self.tell(LinkEvent::Room {
                        link: self.link.id,
                        class,
                    }),
                    SessionEvent::Frames { class, frames } => {
                        // The session answers for what came: a link that gave way before it was told
                        // of is told now, with what it brought.
                        self.tell_up(true);
                        self.tell(LinkEvent::Frames {
                            link: self.link.id,
                            class,
                            frames,
                        });
                    }
                    SessionEvent::Closed { reason } => return Some(self.down_reason(reason)),
                }
            }
        }
    }

    fn open(&mut self, quota: QuotaHint) {
        self.quota = Some(quota);
        if !lock(&self.shared.registry).up(self.link.id) {
            // It gave way, and is ending; the node hears of it only if it brings something.
            return;
        }
        self.tell_up(false);
        if let Some(opened) = self.opened.take() {
            let _ = opened.send(Ok(()));
        }
        self.shared.changed();
    }

    /// Tells the node of the link, once.
    fn tell_up(&mut self, leaving: bool) {
        let Some(quota) = self.quota.filter(|_| !self.told_up) else {
            return;
        };
        self.told_up = true;
        let (link, peer) = (self.link.id, self.link.peer);
        tracing::debug!(%link, %peer, leaving, "link up");
        self.tell(LinkEvent::Up {
            link,
            peer,
            dialed_url: self.link.dialed_url.clone(),
            quota,
            witness: self.link.witness,
            account: self.link.account.clone(),
            leaving,
        });
    }

    fn down_reason(&mut self, reason: CloseReason) -> DownReason {
        match reason {
            CloseReason::Local => lock(&self.link.fate)
                .take()
                .unwrap_or(DownReason::Session(reason)),
            CloseReason::Transport(_) => self
                .transport_ended
                .take()
                .or_else(|| lock(&self.link.fate).take())
                .unwrap_or(DownReason::Session(reason)),
            reason => DownReason::Session(reason),
        }
    }

    /// Moves what the session wants sent towards the channels, each in order.
    fn transmit(&mut self) {
        let now_ms = self.link.now_ms();
        self.link.counted(|session| {
            while let Some(transmit) = session.poll_transmit(now_ms) {
                let outbox = self.outbox.of_mut(transmit.class);
                outbox.push_back(transmit.bytes);
            }
        });
        let deadline = self.shared.config.send_deadline();
        for (class, busy) in self.busy.each_mut() {
            if *busy {
                continue;
            }
            if let Some(message) = self.outbox.of_mut(class).pop_front() {
                *busy = true;
                let transport = Arc::clone(&self.transport);
                self.sending.push(Box::pin(async move {
                    (class, transport.send(class, message, deadline).await)
                }));
            }
        }
    }

    /// Hands an event to the node, or keeps it until there is a place.
    fn tell(&mut self, event: LinkEvent) {
        if self.deaf {
            return;
        }
        if !self.pending.is_empty() {
            return self.pending.push_back(event);
        }
        match self.shared.events.try_send(event) {
            Ok(()) => {}
            Err(TrySendError::Full(event)) => {
                self.pending.push_back(event);
                self.reserve();
            }
            Err(TrySendError::Closed(_)) => self.node_is_gone(),
        }
    }

    fn node_is_gone(&mut self) {
        self.deaf = true;
        self.pending.clear();
        self.reserving = None;
        self.link.end(DownReason::ShuttingDown);
    }

    /// Waits for one thing to happen, and tells the session.
    async fn wait(&mut self) {
        let (timeout, owes_room) = {
            let session = self.link.session();
            (session.poll_timeout(), session.owes_room())
        };
        let due = timeout.map(|ms| self.link.epoch + Duration::from_millis(ms));
        let ended = self.transport_ended.is_some();
        tokio::select! {
            event = self.transport_events.recv(), if !ended => self.take(event),
            Some((class, sent)) = self.sending.next() => self.sent(class, sent),
            permit = reserved(&mut self.reserving) => self.place(permit),
            () = self.link.wake.notified() => {}
            _ = self.room.changed(), if owes_room => {}
            () = &mut self.cut, if !self.deaf => self.node_is_gone(),
            () = until(due) => {
                let now_ms = self.link.now_ms();
                self.link.session().handle_timeout(now_ms);
            }
        }
    }

    fn take(&mut self, event: Option<TransportEvent>) {
        let mut event = event;
        for _ in 0..EVENTS_AT_ONCE {
            self.take_one(event);
            event = match self.transport_events.try_recv() {
                Ok(event) if self.transport_ended.is_none() => Some(event),
                _ => return,
            };
        }
        self.take_one(event);
    }

    fn take_one(&mut self, event: Option<TransportEvent>) {
        let now_ms = self.link.now_ms();
        match event {
            Some(TransportEvent::Open(class)) => {
                self.link.session().handle_channel_open(class, now_ms);
            }
            Some(TransportEvent::Message(class, message)) => {
                self.link.session().handle_message(class, message, now_ms);
            }
            Some(TransportEvent::Disturbed(disturbed)) => {
                self.link.disturbed.store(disturbed, Ordering::Relaxed);
            }
            Some(TransportEvent::Path(path)) => {
                let _ = self.link.path.set(path);
                if let Some(host) = self.transport.far_host() {
                    let _ = self.link.far_host.set(host);
                }
            }
            Some(TransportEvent::Ended(ended)) => self.transport_over(ended.into()),
            None => self.transport_over(TransportError::Closed.into()),
        }
    }

    fn sent(&mut self, class: Class, sent: Result<(), TransportError>) {
        *self.busy.of_mut(class) = false;
        match sent {
            Ok(()) => {
                let now_ms = self.link.now_ms();
                self.link.session().handle_accepted(class, now_ms);
            }
            // Whatever made it close is told by its own event, which comes.
            Err(TransportError::Closed) => {}
            Err(error) => self.transport_over(error.into()),
        }
    }

    fn transport_over(&mut self, ended: DownReason) {
        let now_ms = self.link.now_ms();
        let mut session = self.link.session();
        session.handle_transport_closed(ended.to_string(), now_ms);
        drop(session);
        self.transport_ended.get_or_insert(ended);
    }

    fn place(&mut self, permit: Option<mpsc::OwnedPermit<LinkEvent>>) {
        self.reserving = None;
        match (permit, self.pending.pop_front()) {
            (Some(permit), Some(event)) => drop(permit.send(event)),
            (Some(_), None) => {}
            (None, _) => return self.node_is_gone(),
        }
        if !self.pending.is_empty() {
            self.reserve();
        }
    }

    /// Waits for a place at the node for what is pending.
    fn reserve(&mut self) {
        let events = self.shared.events.clone();
        self.reserving = Some(Box::pin(async move { events.reserve_owned().await.ok() }));
    }
}

async fn reserved(reserving: &mut Option<Reserving>) -> Option<mpsc::OwnedPermit<LinkEvent>> {
    match reserving {
        Some(reserving) => reserving.await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
