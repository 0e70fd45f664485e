//! The task that drives a peer: every event goes in here, every effect is done from here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use overlane_core::identity::{AccountKey, Signer};
use overlane_core::ring::{RingAnswer, RingError};
use overlane_core::{Class, Did};
use overlane_relay::refs::table::Local;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval, sleep_until};

use super::clock::Clock;
use super::committer::Committed;
use super::courier::Courier;
use super::handoff::{BatchDone, stopped};
use super::identity::Identity;
use super::keeper::{KeeperThread, Word};
use super::mailroom::{MailHands, MailRequest};
use super::neighbours::{Neighbour, Neighbours};
use super::references::{Hands, Request};
use super::supervisor::LinksUp;
use super::verify::{VERIFY_OUTSTANDING_MAX, Worked, Workers};
use super::writer::Writer;
use crate::error::NodeError;
use crate::link::{LinkError, LinkEvent, LinkHandle, LinkId, LinkUp, Links};
use crate::messages::{Ended, Messages, Taken};
use crate::peer::inbox::{Arrived, InboxError, Told};
use crate::peer::{Admission, ReceivedReceipt};
use crate::peer::{
    Ask, AskId, Effect, Event, Keeper, LaneAnswer, OfferId, Outgoing, Peer, Receipt, Refusal,
    SealResult, SendError, SendId,
};
use crate::places::Place;
use crate::store_times::StoreWatch;
use crate::watch::Teller;

/// How often it is looked whether the delegatee is due for rotation.
const ROTATION_CHECK: Duration = Duration::from_secs(60);

/// How long the word that this node leaves the ring may take to its lanes, where a neighbour takes
/// none. What is in a lane is waited for as the links close: until its FIN is answered.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// How long, once every link is down, what has no way any more is waited for: nobody brings it one.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// The reply to a send.
pub(crate) type SendReply = oneshot::Sender<Result<Receipt, SendError>>;

/// The reply to a question to another node.
pub(crate) type AskReply = oneshot::Sender<Result<RingAnswer, RingError>>;

/// The reply to a dial by way of the ring.
pub(crate) type DialReply = oneshot::Sender<Result<LinkUp, LinkError>>;

/// The reply to a send that was to be delivered or held, after its own.
pub(crate) type ArrivedReply = oneshot::Sender<Result<Arrived, InboxError>>;

/// How far a message came into its lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes in the lane.
    pub placed_bytes: u64,
    /// Bytes in all; zero until the first part is there.
    pub total_bytes: u64,
}

/// What a node has sent. It waits for nobody on its way to the driver: how much of it there can be is
/// bounded by the places.
pub(crate) enum Posted {
    /// Sign and send.
    Send(SendId, Outgoing, Option<watch::Sender<Progress>>, Awaited),
    /// Sign and send, and have it delivered or held.
    SendOrHold(SendId, Outgoing, Awaited, ArrivedReply),
    /// Offer signed bytes again, to their destination or by way of another peer.
    Offer(SendId, Bytes, Option<Did>, Awaited),
    /// Take a send back, if it has not left.
    Cancel(SendId),
}

/// Who waits for the result of a send, and its place until then.
pub(crate) struct Awaited {
    pub(crate) reply: SendReply,
    pub(crate) place: Place,
}

/// Who waits for a receipt.
pub(crate) type ReceiptReply = oneshot::Sender<ReceivedReceipt>;

/// What a node asks its driver.
pub(crate) enum Command {
    /// Ask another node by way of the ring.
    Ask(Ask, AskReply),
    /// Have a link to this node made by way of the ring.
    Dial(Did, DialReply),
    /// The answer to an offer that came by way of the ring.
    OfferAnswered(OfferId, Result<Vec<u8>, &'static str>),
    /// A link that the ring wanted could not be had.
    ConnectFailed(Did, &'static str),
    /// End the sessions with a node.
    EndSession(Did),
    /// An account's public key.
    Learn(Box<AccountKey>),
    /// Ask for something about references.
    References(Box<Request>),
    /// Ask for something about mail.
    Mail(MailRequest),
    /// Show the peer as it is.
    Look(Box<dyn FnOnce(&Peer) + Send>),
    /// Ask the destination of a transaction for its receipt; who asked before for the same waits no more.
    Receipt(Admission, ReceiptReply),
    /// Wait for it no longer.
    NoReceipt(Admission),
    /// Sign with another delegatee from now on.
    Rotate(oneshot::Sender<Result<(), NodeError>>),
    /// Sign with this from now on, which an account that is kept elsewhere signed for.
    Renew(Box<Signer>, oneshot::Sender<Result<(), NodeError>>),
    /// End everything in order.
    Shutdown(oneshot::Sender<()>),
}

/// What comes to the driver from the rest of the node.
pub(crate) struct Inbox {
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) posted: mpsc::UnboundedReceiver<Posted>,
    pub(crate) links: mpsc::Receiver<LinkEvent>,
    pub(crate) worked: mpsc::UnboundedReceiver<Worked>,
    pub(crate) batches: mpsc::UnboundedReceiver<BatchDone>,
    pub(crate) taken: mpsc::UnboundedReceiver<Taken>,
    pub(crate) committed: mpsc::UnboundedReceiver<Committed>,
    pub(crate) told: mpsc::UnboundedReceiver<Vec<Told>>,
    pub(crate) dropped: mpsc::UnboundedReceiver<(Local, u32)>,
    pub(crate) words: mpsc::UnboundedReceiver<(Keeper, Word)>,
}

/// The driver's hands.
pub(crate) struct Driver {
    pub(crate) peer: Peer,
    pub(crate) clock: Clock,
    pub(crate) identity: Arc<Identity>,
    pub(crate) links: Links,
    /// The links that are up.
    pub(crate) handles: BTreeMap<LinkId, LinkHandle>,
    pub(crate) workers: Workers,
    pub(crate) writer: Option<Writer>,
    pub(crate) store_watch: StoreWatch,
    pub(crate) messages: Messages,
    pub(crate) events: broadcast::Sender<Event>,
    pub(crate) up: watch::Sender<LinksUp>,
    pub(crate) teller: Teller,
    pub(crate) courier: Courier,
    pub(crate) questions: BTreeMap<AskId, AskReply>,
    pub(crate) receipts: BTreeMap<Admission, ReceiptReply>,
    pub(crate) next_ask: u64,
    pub(crate) refs: Hands,
    pub(crate) keepers: BTreeMap<Keeper, KeeperThread>,
    pub(crate) mail: MailHands,
    pub(crate) neighbours: Neighbours,
    /// Ends once the last of them is kept.
    pub(crate) keeping: Option<JoinHandle<()>>,
    pub(crate) replies: BTreeMap<SendId, Awaited>,
    /// Who watches how far a large message came.
    pub(crate) progress: BTreeMap<SendId, watch::Sender<Progress>>,
    pub(crate) outstanding: usize,
    /// Frames that came and wait to be read until fewer checks are out: those of one link event.
    pub(crate) came: VecDeque<(LinkId, Class, Bytes)>,
    /// Frames of a lane that were taken and whose link was not told yet.
    pub(crate) taken: Vec<(LinkId, Class, usize)>,
}

/// A shutdown under way: the neighbours are told, then every link closes once they have what is in
/// its lanes.
struct Closing {
    /// When the links close, whoever was not told.
    until: Instant,
    /// Resolves once every link is down; `None` before they close.
    links: Option<oneshot::Receiver<()>>,
    links_down: bool,
    /// When what has no way any more is given up; set once every link is down.
    settled_by: Option<Instant>,
    replies: Vec<oneshot::Sender<()>>,
}

impl Closing {
    fn begin(reply: Option<oneshot::Sender<()>>) -> Self {
        Self {
            until: Instant::now() + LEAVE_MAX,
            links: None,
            links_down: false,
            settled_by: None,
            replies: reply.into_iter().collect(),
        }
    }

    /// What is asked of a node that ends is given up at once: the links wait for those who ask.
    fn handle_command(&mut self, command: Option<Command>) {
        if let Some(Command::Shutdown(reply)) = command {
            self.replies.push(reply);
        }
    }

    /// When there is something to do that nothing else wakes the driver for.
    fn due(&self) -> Option<Instant> {
        if self.links.is_none() {
            return Some(self.until);
        }
        self.settled_by
    }

    /// Whether all has been waited for that may still come.
    fn waited(&self) -> bool {
        self.settled_by.is_some_and(|by| Instant::now() >= by)
    }

    /// Closes the links, if it is time.
    fn go_on(&mut self, has_left: bool, links: &Links) {
        if self.links_down && self.settled_by.is_none() {
            self.settled_by = Some(Instant::now() + SETTLE_MAX);
        }
        if self.links.is_some() || !has_left && Instant::now() < self.until {
            return;
        }
        if !has_left {
            tracing::warn!("a neighbour was not told that this node leaves: its lane is full");
        }
        let links = links.clone();
        let (down, links_down) = oneshot::channel();
        self.links = Some(links_down);
        tokio::spawn(async move {
            links.shutdown().await;
            let _ = down.send(());
        });
    }
}

impl Driver {
    /// Drives the peer until the node is shut down, or nobody holds it any more.
    pub(crate) async fn run(mut self, mut inbox: Inbox) {
        let mut rotation = interval(ROTATION_CHECK);
        rotation.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut closing: Option<Closing> = None;
        let mut asked = true;
        loop {
            self.do_effects();
            self.read_frames(VERIFY_OUTSTANDING_MAX);
            self.teller.look(&self.peer);
            if let Some(closing) = &mut closing {
                closing.go_on(self.peer.has_left(), &self.links);
            }
            if closing.as_ref().is_some_and(|it| self.may_end(it)) {
                break;
            }
            let deadline = self.deadline(closing.as_ref());
            tokio::select! {
                Some(done) = inbox.batches.recv() => self.handle_batch(done),
                Some(worked) = inbox.worked.recv() => {
                    self.handle_worked(worked);
                    // What is there already shares the next batch.
                    while let Ok(worked) = inbox.worked.try_recv() {
                        self.handle_worked(worked);
                    }
                }
                Some(done) = inbox.committed.recv() => self.handle_committed(done),
                Some(told) = inbox.told.recv() => {
                    self.peer.handle_kept(told, self.clock.now());
                }
                Some(dropped) = inbox.dropped.recv() => self.handle_dropped(dropped),
                Some((keeper, word)) = inbox.words.recv() => self.handle_word(keeper, word),
                Some(taken) = inbox.taken.recv() => self.handle_taken(&taken),
                Some(posted) = inbox.posted.recv(), if closing.is_none() => {
                    self.handle_posted(posted);
                }
                Some(event) = inbox.links.recv(), if self.outstanding < VERIFY_OUTSTANDING_MAX => {
                    // All that came before was read.
                    self.handle_link(event);
                }
                command = inbox.commands.recv(), if asked => {
                    asked = command.is_some();
                    match &mut closing {
                        Some(closing) => closing.handle_command(command),
                        None => closing = self.handle_asked(command, &mut inbox),
                    }
                }
                () = links_down(&mut closing) => {
                    self.read_frames(usize::MAX);
                    while let Ok(event) = inbox.links.try_recv() {
                        self.handle_link(event);
                        self.read_frames(usize::MAX);
                    }
                }
                _ = rotation.tick() => {
                    self.rotate_if_due();
                    self.note_neighbours();
                }
                () = sleep_until(deadline) => self.peer.handle_timeout(self.clock.now()),
            }
        }
        self.finish(closing, inbox.commands).await;
    }

    /// A command came, or nobody is left who could give one: whether the node is to end.
    fn handle_asked(&mut self, command: Option<Command>, inbox: &mut Inbox) -> Option<Closing> {
        // What the application took before it asked is counted in the answer.
        while let Ok(taken) = inbox.taken.try_recv() {
            self.handle_taken(&taken);
        }
        // So is what was sent before, and what the store of mail said.
        while let Ok(posted) = inbox.posted.try_recv() {
            self.handle_posted(posted);
        }
        while let Ok(told) = inbox.told.try_recv() {
            self.peer.handle_kept(told, self.clock.now());
        }
        let closing = match command {
            Some(Command::Shutdown(reply)) => Closing::begin(Some(reply)),
            Some(command) => {
                self.handle_command(command);
                return None;
            }
            None => Closing::begin(None),
        };
        self.questions.clear();
        self.peer.leave_ring(self.clock.now());
        Some(closing)
    }

    fn handle_batch(&mut self, (batch, result): BatchDone) {
        let now = self.clock.now();
        self.store_watch.done(result.is_ok());
        self.peer.handle_batch_done(batch, result, now);
    }

    fn handle_committed(&mut self, (commit, result): Committed) {
        self.peer.handle_committed(commit, result, self.clock.now());
    }

    fn handle_dropped(&mut self, (local, handles): (Local, u32)) {
        self.refs.dropped(local);
        self.peer.let_go_of(local, handles, self.clock.now());
    }

    fn handle_word(&mut self, keeper: Keeper, word: Word) {
        let now = self.clock.now();
        match word {
            Word::Say { to, data } => self.peer.say_for(keeper, to, data, now),
            Word::Failed { cause } => self.teller.groups_failed(cause),
            Word::Took => self.peer.handle_keeper_took(keeper, now),
            Word::Ended => self.peer.detach_keeper(keeper, now),
        }
    }

    fn handle_worked(&mut self, worked: Worked) {
        let now = self.clock.now();
        match worked {
            Worked::Verified(ticket, result) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                self.peer.handle_verified(ticket, result, now);
            }
            Worked::Sealed(ticket, result) => self.peer.handle_sealed(ticket, result, now),
        }
    }

    /// Reads what came, while fewer checks than that are out.
    fn read_frames(&mut self, outstanding_max: usize) {
        while self.outstanding < outstanding_max
            && let Some((link, class, frame)) = self.came.pop_front()
        {
            let now = self.clock.now();
            self.peer.handle_frame(link, class, &frame, now);
            self.do_effects();
        }
    }

    fn handle_link(&mut self, event: LinkEvent) {
        let now = self.clock.now();
        match event {
            LinkEvent::Up {
                link,
                peer,
                witness,
                account,
                leaving,
                dialed_url,
                ..
            } => {
                if let Some(account) = account {
                    self.peer.learn(&account, now);
                }
                let asked_for = |url: &str| !self.neighbours.is_sought(url);
                if dialed_url.as_deref().is_some_and(asked_for) {
                    // Somebody wished for it: it is not given up for others.
                    self.peer.pin(peer);
                }
                if let Some(handle) = self.links.handle(link) {
                    self.handles.insert(link, handle);
                }
                let witness_ms = witness.map(|witness| witness.at_ms(Instant::now()));
                self.peer.handle_link_up(link, peer, witness_ms, now);
                if leaving {
                    self.peer.handle_link_leaving(link);
                }
                self.note_neighbours();
            }
            LinkEvent::Frames {
                link,
                class,
                frames,
            } => {
                let frames = frames.into_iter();
                self.came.extend(frames.map(|frame| (link, class, frame)));
            }
            LinkEvent::Room { link, class } => self.peer.handle_lane_room(link, class, now),
            LinkEvent::Down { link, peer, reason } => {
                self.handles.remove(&link);
                self.peer.handle_link_down(link, &reason.to_string(), now);
                // Of two dialled links one gives way, and the other is still wished for.
                if !self.peer.links().any(|(_, linked)| linked == peer) {
                    self.peer.unpin(peer);
                }
            }
        }
    }

    fn handle_command(&mut self, command: Command) {
        let now = self.clock.now();
        match command {
            Command::Ask(ask, reply) => {
                let id = AskId(self.next_ask);
                self.next_ask += 1;
                self.questions.insert(id, reply);
                self.peer.ask(id, ask, now);
            }
            Command::Dial(peer, reply) => self.courier.dial(peer, Some(reply)),
            Command::OfferAnswered(offer, answer) => {
                self.peer.handle_offer_answered(offer, answer, now);
            }
            Command::ConnectFailed(peer, code) => {
                self.peer.handle_connect_failed(peer, code, now);
            }
            Command::EndSession(with) => self.peer.end_session(with, now),
            Command::Learn(account) => self.peer.learn(&account, now),
            Command::References(request) => {
                let Request {
                    ask,
                    service,
                    holds,
                    reply,
                } = *request;
                let id = self.refs.note(service, reply);
                self.peer.ask_references(id, ask, now);
                drop(holds);
            }
            Command::Mail(MailRequest::Take(digest, reply)) => {
                let id = self.mail.note_take(reply);
                self.peer.take_mail(id, digest, now);
            }
            Command::Mail(MailRequest::Fetch) => self.peer.fetch(now),
            Command::Mail(MailRequest::Leave(holder, payload)) => {
                self.peer.leave_mail(holder, payload, now);
            }
            Command::Receipt(of, reply) => {
                if self.peer.ask_receipt(of, now) {
                    self.receipts.insert(of, reply);
                }
            }
            Command::NoReceipt(of) => {
                self.receipts.remove(&of);
                self.peer.give_up_receipt(&of);
            }
            Command::Look(look) => look(&self.peer),
            Command::Rotate(reply) => {
                let renewed = self.identity.rotate();
                let _ = reply.send(renewed.and_then(|signer| self.sign_with(signer)));
            }
            Command::Renew(signer, reply) => {
                let renewed = self.identity.renew(*signer);
                let _ = reply.send(renewed.and_then(|signer| self.sign_with(signer)));
            }
            // Taken where it comes in.
            Command::Shutdown(_) => {}
        }
    }

    fn handle_posted(&mut self, posted: Posted) {
        let now = self.clock.now();
        match posted {
            Posted::Send(id, outgoing, progress, awaited) => {
                self.replies.insert(id, awaited);
                if let Some(progress) = progress {
                    self.progress.insert(id, progress);
                }
                self.peer.send(id, outgoing, now);
            }
            Posted::SendOrHold(id, outgoing, awaited, arrived) => {
                self.replies.insert(id, awaited);
                self.mail.note_arrival(id, arrived);
                self.peer.send_or_hold(id, outgoing, now);
            }
            Posted::Offer(id, signed, via, awaited) => {
                self.replies.insert(id, awaited);
                self.peer.offer_again(id, &signed, via, now);
            }
            Posted::Cancel(id) => self.peer.cancel(id, now),
        }
    }

    fn handle_taken(&mut self, taken: &Taken) {
        let (place, now) = (taken.place, self.clock.now());
        match taken.ended {
            Ended::Taken => self.peer.handle_dispatch_taken(place, now),
            Ended::Late => self.peer.handle_handler_late(place, now),
            Ended::Broke => self.peer.handle_handler_broke(place, now),
        }
    }

    fn sign_with(&mut self, signer: Arc<Signer>) -> Result<(), NodeError> {
        if !self.peer.rotate(signer) {
            let cause = "it is another account's".to_owned();
            return Err(NodeError::Delegation { cause });
        }
        for keeper in self.keepers.values() {
            keeper.sign_with(self.identity.signer());
        }
        Ok(())
    }

    /// Where those that are linked take offers, for the next time that this node knows nobody.
    fn note_neighbours(&self) {
        let links = self.links.status().into_iter();
        let listening: BTreeMap<Did, Neighbour> = links
            .filter(|link| self.handles.contains_key(&link.link))
            .filter_map(|link| {
                let (did, at) = (link.peer, link.listens_at?);
                Some((did, Neighbour { did, at }))
            })
            .collect();
        if listening.is_empty() {
            return;
        }
        let ring = self.peer.ring();
        let needed = ring.map(|ring| ring.needs()).unwrap_or_default();
        let needed = needed.iter().filter_map(|did| listening.get(did));
        // Who is named twice counts where it comes first.
        self.neighbours
            .note(needed.chain(listening.values()).copied());
    }

    fn rotate_if_due(&mut self) {
        if self.identity.is_rotation_due(Clock::wall_ms()) {
            let rotated = self.identity.rotate();
            match rotated.and_then(|signer| self.sign_with(signer)) {
                Ok(()) => tracing::info!("the delegatee was rotated"),
                Err(error) => tracing::error!(%error, "the delegatee could not be rotated"),
            }
        }
    }

    fn deadline(&self, closing: Option<&Closing>) -> Instant {
        let deadline = self.clock.at(self.peer.poll_timeout().unwrap_or(u64::MAX));
        let due = closing.and_then(Closing::due);
        due.map_or(deadline, |due| deadline.min(due))
    }

    /// Whether nothing holds up the end any more: all is settled, or what is left has no way, is not on
    /// its way to a store, and was waited for.
    fn may_end(&self, closing: &Closing) -> bool {
        if !closing.links_down {
            return false;
        }
        let durable = self.outstanding == 0 && self.peer.is_durable();
        let given_up = durable && closing.waited() && !self.is_settled();
        if given_up {
            let sends = self.peer.pending_sends();
            tracing::info!(sends, "what has no way any more is given up");
        }
        given_up || self.is_settled()
    }

    /// Whether nothing is left to do but to close the store.
    fn is_settled(&self) -> bool {
        self.outstanding == 0 && self.peer.is_settled()
    }

    fn do_effects(&mut self) {
        while let Some(effect) = self.peer.poll_effect() {
            self.do_effect(effect);
        }
        for (link, class, frames) in self.taken.drain(..) {
            if let Some(handle) = self.handles.get(&link) {
                handle.taken(class, frames);
            }
        }
        self.store_watch.gathered(self.peer.engine().gathered());
    }

    /// A frame was taken: its link is told once what else is to be done is done, of all together.
    fn note_taken(&mut self, link: LinkId, class: Class) {
        let mut noted = self.taken.iter_mut();
        match noted.find(|noted| (noted.0, noted.1) == (link, class)) {
            Some((_, _, frames)) => *frames += 1,
            None => self.taken.push((link, class, 1)),
        }
    }

    fn do_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send { link, class, frame } => {
                let handle = self.handles.get(&link);
                let answer = match handle.map(|handle| handle.send(class, frame)) {
                    Some(Ok(())) => LaneAnswer::Placed,
                    Some(Err(LinkError::Lane { error, .. })) if error.is_full() => LaneAnswer::Full,
                    Some(Err(_)) | None => LaneAnswer::Gone,
                };
                self.peer.handle_lane(link, class, answer, self.clock.now());
            }
            Effect::Verify { ticket, job } => match self.workers.verify(ticket, job) {
                Ok(()) => self.outstanding += 1,
                Err(ticket) => {
                    let stopped = Err(Refusal::VerifierStopped);
                    self.peer.handle_verified(ticket, stopped, self.clock.now());
                }
            },
            Effect::Seal { ticket, job } => {
                if let Err(ticket) = self.workers.seal(ticket, job) {
                    let stopped = SealResult::stopped();
                    self.peer.handle_sealed(ticket, stopped, self.clock.now());
                }
            }
            Effect::Write(batch) => {
                let engine = self.peer.engine();
                let answers = engine.pending().saturating_sub(engine.gathered());
                self.store_watch.handed_over(answers);
                let written = match &self.writer {
                    Some(writer) => writer.write(batch),
                    None => Err((batch.id, Err(stopped()))),
                };
                if let Err(done) = written {
                    self.handle_batch(done);
                }
            }
            Effect::Dispatch {
                place,
                class,
                delivery,
            } => self.messages.push(place, class, *delivery),
            Effect::InSession { place, from, body } => {
                self.messages.push_in_session(place, from, body);
            }
            Effect::Taken { link, class } => self.note_taken(link, class),
            Effect::Close { link } => {
                let links = self.links.clone();
                tokio::spawn(async move { links.close(link).await });
            }
            Effect::Cut { link, code } => {
                tracing::warn!(%link, code, "a link is cut: its peer broke the payload protocol");
                self.links.cut(link, code);
            }
            Effect::Connect { peer } => self.courier.dial(peer, None),
            Effect::Offered {
                offer,
                from,
                by,
                bytes,
            } => self.courier.answer(offer, from, by, bytes),
            Effect::Asked { id, result } => {
                if let Some(reply) = self.questions.remove(&id) {
                    let _ = reply.send(result);
                }
            }
            Effect::Sent { id, result } => {
                self.progress.remove(&id);
                if result.is_err() {
                    self.mail.not_sent(id);
                }
                if let Some(Awaited { reply, place }) = self.replies.remove(&id) {
                    // Whoever asked may have gone: it abandoned only its wait.
                    let _ = reply.send(result);
                    drop(place);
                }
            }
            Effect::Receipt { of, receipt } => {
                if let Some(reply) = self.receipts.remove(&of) {
                    let _ = reply.send(receipt);
                }
            }
            Effect::Commit(commit) => {
                if let Err(done) = self.refs.commit(commit) {
                    self.handle_committed(done);
                }
            }
            Effect::References(effect) => self.refs.do_effect(effect),
            Effect::Keeper(keeper, heard) => {
                let thread = self.keepers.get(&keeper);
                if !thread.is_some_and(|thread| thread.hear(heard)) {
                    self.peer.detach_keeper(keeper, self.clock.now());
                }
            }
            Effect::Keep(work) => {
                if let Some(told) = self.mail.keep(work) {
                    self.peer.handle_kept(told, self.clock.now());
                }
            }
            Effect::Mail(effect) => self.mail.do_effect(effect),
            Effect::Event(event) => self.tell(event),
        }
    }

    fn tell(&self, event: Event) {
        match event {
            Event::SendProgress {
                id,
                placed_bytes,
                total_bytes,
            } => {
                if let Some(progress) = self.progress.get(&id) {
                    progress.send_replace(Progress {
                        placed_bytes,
                        total_bytes,
                    });
                }
            }
            Event::LinkUp { link, peer } => self.up.send_modify(|up| {
                up.insert(link, peer);
            }),
            Event::LinkDown { link, .. } => self.up.send_modify(|up| {
                up.remove(&link);
            }),
            _ => {}
        }
        // Nobody may be watching.
        let _ = self.events.send(event);
    }

    async fn finish(self, closing: Option<Closing>, mut commands: mpsc::Receiver<Command>) {
        drop(self.workers);
        if let Some(writer) = self.writer {
            writer.close().await;
        }
        self.refs.close().await;
        for (_, keeper) in self.keepers {
            keeper.close().await;
        }
        self.mail.close().await;
        self.neighbours.close();
        if let Some(keeping) = self.keeping {
            let _ = keeping.await;
        }
        self.messages.close();
        let mut replies = closing.map(|closing| closing.replies).unwrap_or_default();
        // Who asked for the end while it came is told of it as well; nobody can ask any more.
        commands.close();
        while let Some(command) = commands.recv().await {
            if let Command::Shutdown(reply) = command {
                replies.push(reply);
            }
        }
        for reply in replies {
            let _ = reply.send(());
        }
    }
}

/// Resolves once, when every link of a closing node is down.
async fn links_down(closing: &mut Option<Closing>) {
    let waiting = closing.as_mut().filter(|closing| !closing.links_down);
    match waiting.and_then(|closing| Some((closing.links.as_mut()?, &mut closing.links_down))) {
        Some((links, down)) => {
            let _ = links.await;
            *down = true;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
