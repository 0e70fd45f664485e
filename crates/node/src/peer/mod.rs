//! One node's protocol as a state machine: events in, effects out.
//!
//! A [`Peer`] reads no clock, draws nothing at random and does no I/O. `handle_*` says what
//! happened and when; [`send`](Peer::send) and its like are its user's; [`poll_effect`] gives what
//! it wants done, drained until none; [`poll_timeout`] says when it wants to be called again. The
//! runtime drives it on tokio, a test drives many of them on virtual time.
//!
//! A frame takes one way, and each step's output is a type the next one requires: frame bounds →
//! decode → both signatures (`Verified`) → final destination → a place on the application's side →
//! the engine's one serialised boundary → durable (`Admitted`) → dispatch.
//!
//! Laws, and where they are kept: **lane order** (`lanes`), **room** (`dispatch`), **pace**
//! (`pace`), **sealed or refused** and **opened in its turn** (`seal`), and of this module **no store, no service**: without an authoritative store every
//! send and every admission is refused with `ReplayStorageUnavailable`; nothing is kept in memory
//! instead. Source: protocol decisions 3, 4 and 6; seed 1.
//!
//! [`poll_effect`]: Peer::poll_effect
//! [`poll_timeout`]: Peer::poll_timeout

pub(crate) mod bounds;
mod chunks;
mod counters;
mod dispatch;
mod effect;
pub mod groups;
mod inbound;
pub mod inbox;
mod keepers;
mod lanes;
mod links;
mod outbound;
mod pace;
mod receipts;
mod references;
pub mod refs;
mod refusal;
mod ring;
mod seal;
mod send;
mod sending;
mod session;
mod share;
mod story;
mod withdraw;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use overlane_core::identity::{Signer, Verified, VerifyContext};
use overlane_core::lane::chunks::{Chunks, ChunksOf};
use overlane_core::replay::{BatchId, Engine, EngineConfig, Gather, Introducer, Outcome, Ticket};
use overlane_core::store::{Scan, StoreError};
use overlane_core::transaction::{Message, Payload};
use overlane_core::{Class, Did, NetworkId, TransactionDigest};

use crate::link::LinkId;
use crate::policy::{Arriving, Policies};

pub use counters::Counters;
pub use dispatch::{DISPATCH_QUEUE_MAX, DISPATCH_QUEUE_MAX_BYTES, PlaceId};
pub use effect::{Delivery, Effect, Event, SendId};
pub use inbound::{ORPHAN_FRAMES_MAX, VerifyJob, VerifyResult};
pub use keepers::{Heard, Keeper};
pub use lanes::VerifyTicket;
pub use links::{BAD_ORIGINS, DELEGATIONS_MAX, SlotUse};
pub use outbound::{
    LaneAnswer, PENDING_SENDS_MAX, PENDING_SENDS_MAX_BYTES, SIGNING_MAX, SIGNING_MAX_BYTES,
};
pub use overlane_core::replay::Now;
pub use pace::{PACE, PIPE_BYTES, PIPE_FRAMES};
pub use receipts::{
    ADMISSIONS_REMEMBERED_MAX, Admission, RECEIPTS_NAMESPACE, RECEIPTS_OWED_MAX,
    RECEIPTS_WAITED_MAX, ReceivedReceipt,
};
pub(crate) use references::is_reserved;
pub use refusal::Refusal;
pub use ring::{
    Ask, AskId, FORWARDED_MAX, LINKS_DEFAULT_MAX, OFFERS_MAX, OWN_SENDS_MAX, OfferId,
    RECENT_CHUNKS_MAX, RECENT_MAX, REPORTS, RING_RESERVE,
};
pub(crate) use seal::claims_sealed;
pub use seal::{ASKED_KEYS_MAX, KEYS_MAX, SealJob, SealResult, SealSeed, SealTicket};
pub use send::{Outgoing, Receipt, SendError};
pub(crate) use share::Shares;
pub use story::{STORIES_MAX, STORY_STEPS_MAX, Step, Story, StoryOf};

use dispatch::Dispatch;
use inbound::Arrival;
use inbox::{MailPart, TakeId};
use keepers::Keepers;
use lanes::{InboundLane, InboundLanes};
use links::LinkTable;
use outbound::{OutKey, Outbound};
use receipts::Receipts;
use references::Carried;
use ring::RingPart;
use seal::Sealing;
use session::InSessions;
use story::Stories;

/// One node's protocol.
#[derive(Debug)]
pub struct Peer {
    network: NetworkId,
    did: Did,
    signer: Arc<Signer>,
    engine: Engine<Verified<Payload>>,
    gather: Gather,
    has_store: bool,
    links: LinkTable,
    arrivals: InboundLanes<Arrival>,
    chunks: Chunks<LinkId>,
    /// Messages that chunks gave, with the workers.
    wholes: BTreeMap<VerifyTicket, ChunksOf>,
    dispatch: Dispatch,
    /// What was dispatched and not taken: its lane, and the bytes it holds there.
    dispatched: BTreeMap<PlaceId, (InboundLane, u64)>,
    next_place: u64,
    staged: BTreeMap<Ticket, Staged>,
    outbound: Outbound,
    ring: RingPart,
    sealing: Sealing,
    in_sessions: InSessions,
    counters: Counters,
    failure_told: bool,
    carried: Carried,
    keepers: Keepers,
    mail: MailPart,
    receipts: Receipts,
    stories: Stories,
    policies: Policies,
    effects: VecDeque<Effect>,
}

/// What the engine answers.
type Released = Outcome<Verified<Payload>>;

/// What a call into the engine was for.
#[derive(Debug)]
enum Staged {
    /// A frame of this link and peer; it holds a place of its class, and so many bytes there.
    Admission(LinkId, InboundLane, u64),
    /// A message that waits for its sequence.
    Reservation(OutKey, SendId, Box<Outgoing>),
    /// A mail that holders gave.
    Mail(TransactionDigest),
    /// A mail that the application takes.
    Take(TakeId, TransactionDigest),
}

impl Peer {
    /// A peer that signs with `signer`, over what its store holds; `None` when it has no store.
    pub fn new(signer: Arc<Signer>, scan: Option<Scan>, now: Now) -> Self {
        let network = signer.network();
        let did = signer.did();
        let config = EngineConfig::default();
        let has_store = scan.is_some();
        let engine = match scan {
            Some(scan) => Engine::restore(config, scan, now),
            None => Engine::new(config),
        };
        Self {
            network,
            did,
            signer,
            engine,
            gather: Gather::default(),
            has_store,
            links: LinkTable::default(),
            arrivals: InboundLanes::default(),
            chunks: Chunks::default(),
            wholes: BTreeMap::new(),
            dispatch: Dispatch::default(),
            dispatched: BTreeMap::new(),
            next_place: 0,
            staged: BTreeMap::new(),
            outbound: Outbound::default(),
            ring: RingPart::new(did, now.steady_ms),
            sealing: Sealing::default(),
            in_sessions: InSessions::default(),
            counters: Counters::default(),
            failure_told: false,
            carried: Carried::default(),
            keepers: Keepers::default(),
            mail: MailPart::default(),
            receipts: Receipts::default(),
            stories: Stories::default(),
            policies: Policies::default(),
            effects: VecDeque::new(),
        }
    }

    // What it is.

    /// This node's place.
    pub fn did(&self) -> Did {
        self.did
    }

    /// Counts since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The admitted links, in the order they came up.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, Did)> {
        self.links.iter()
    }

    /// The connection slot of each admitted link, and how many streams the slot is charged.
    pub fn slots(&self) -> impl Iterator<Item = (LinkId, SlotUse)> {
        self.links.slots().map(|(link, slot)| {
            let of = SlotUse {
                slot,
                streams: self.engine.charged(Introducer::Slot(slot)),
            };
            (link, of)
        })
    }

    /// The replay engine: its counters, its bounds, its streams.
    pub fn engine(&self) -> &Engine<Verified<Payload>> {
        &self.engine
    }

    /// Whether this node has an authoritative store, failed or not.
    pub fn has_store(&self) -> bool {
        self.has_store
    }

    /// Messages that came in part, the bytes they hold, and how many were given up since the start.
    pub fn in_part(&self) -> (usize, u64, u64) {
        let chunks = &self.chunks;
        (chunks.sets(), chunks.held_bytes(), chunks.given_up())
    }

    /// Sends that have no result yet.
    pub fn pending_sends(&self) -> usize {
        self.outbound.pending()
    }

    /// Places of the application's queues: held now, and the most held at once, by class.
    pub fn queues(&self) -> [(usize, usize); Class::ALL.len()] {
        self.dispatch.occupancy()
    }

    /// Whether nothing is on its way to a store.
    pub fn is_durable(&self) -> bool {
        let staged = self.engine.pending() == 0 && self.staged.is_empty();
        staged && self.references_settled()
    }

    /// Whether nothing is on its way to the store, to a lane or to a caller. Frames that are with
    /// a worker, or wait for a place on the application's side, are not admitted yet.
    pub fn is_settled(&self) -> bool {
        let staged = self.engine.pending() == 0 && self.staged.is_empty();
        let sent = self.outbound.pending() == 0 && self.effects.is_empty();
        let parts = self.references_settled() && self.mail.is_settled();
        staged && sent && self.sealing.is_settled() && parts
    }

    // What its user wants, before its first link.

    /// Admits this namespace's link-local messages in windows that no record is written for; see
    /// [`NodeBuilder::delegate_replay`](crate::NodeBuilder::delegate_replay). `false` where as
    /// many namespaces as allowed ([`DELEGATING_NAMESPACES`](overlane_core::replay::DELEGATING_NAMESPACES)) are registered.
    #[must_use]
    pub fn delegate_replay(&mut self, namespace: &str) -> bool {
        self.engine.delegate_replay(namespace)
    }

    /// Asks these hooks before a message is admitted, and before mail of others is held.
    pub(crate) fn ask_policy(&mut self, policies: Policies) {
        self.policies = policies;
    }

    /// Whether the policy lets a verified payload that `from` brought be admitted. What the node says to itself is not
    /// asked about, nor are parts of a message.
    fn policy_allows(&self, payload: &Verified<Payload>, from: Did) -> Result<(), Refusal> {
        let stream = payload.stream();
        let passes_by = stream.class == Class::Control || stream.destination != self.did;
        if passes_by || payload.chunk().is_some() {
            return Ok(());
        }
        let message = payload.message();
        if is_reserved(&message) {
            return Ok(());
        }
        let is_sealed = payload.is_sealed();
        let arriving = Arriving {
            origin: stream.origin,
            from,
            class: stream.class,
            sequence: payload.sequence(),
            bytes: payload.data_bytes(),
            namespace: match &message {
                Message::Application { namespace, .. } if !is_sealed => Some(namespace.as_str()),
                _ => None,
            },
            is_sealed,
        };
        Ok(self.policies.admit(&arriving)?)
    }

    // What happened.

    /// A link to `peer` was admitted. Where the peer signed over a nonce of ours for it, what its
    /// clock shows now is a witness of this node's. Source: protocol decision 4 (two-clock
    /// retirement).
    pub fn handle_link_up(&mut self, link: LinkId, peer: Did, witness_ms: Option<u64>, now: Now) {
        if let Some(witness_ms) = witness_ms {
            self.engine.handle_witness(witness_ms, now);
        }
        let Some(slot) = self.engine.claim_slot(peer) else {
            self.counters.links_without_slot = self.counters.links_without_slot.saturating_add(1);
            return self.effects.push_back(Effect::Close { link });
        };
        self.links.up(link, peer, slot, now.steady_ms);
        self.tell(Event::LinkUp { link, peer });
        self.ring_links_changed(peer, now);
        self.references_linked(peer, now);
        self.keepers_linked(peer);
        self.mail_linked(peer, now);
        self.settle(now);
    }

    /// A link that is up gives way to another: it takes no frames any more, and may still bring
    /// some.
    pub fn handle_link_leaving(&mut self, link: LinkId) {
        self.links.gone(link);
    }

    /// A link is gone. What it brought whole is still admitted, within
    /// [`ORPHAN_FRAMES_MAX`]; what waits for its lanes is refused.
    pub fn handle_link_down(&mut self, link: LinkId, reason: &str, now: Now) {
        let Some(peer) = self.links.down(link) else {
            return;
        };
        let reason = reason.to_owned();
        self.tell(Event::LinkDown { link, peer, reason });
        self.ring_links_changed(peer, now);
        self.handle_orphans(link, peer, now);
        self.abandon_lanes(link, peer, now);
        self.references_unlinked(peer, now);
        self.keepers_unlinked(peer);
        self.mail_unlinked(peer, now);
        self.settle(now);
    }

    /// A batch became durable, or did not.
    pub fn handle_batch_done(&mut self, batch: BatchId, result: Result<(), StoreError>, now: Now) {
        if let Err(error) = &result {
            tracing::error!(%error, "a batch of replay records did not become durable");
        }
        if let Err(stray) = self.engine.batch_done(batch, result) {
            tracing::error!(%stray, "a batch was reported twice");
        }
        if let (false, Some(error)) = (self.failure_told, self.engine.failure()) {
            let error = error.clone();
            self.failure_told = true;
            self.tell(Event::StoreFailed { error });
        }
        self.settle(now);
    }

    /// Time passed. Called at [`poll_timeout`](Self::poll_timeout) or later.
    pub fn handle_timeout(&mut self, now: Now) {
        for stream in self.outbound.due(now.steady_ms) {
            self.reserve(stream, now);
        }
        self.sessions_timeout(now);
        self.ring_timeout(now);
        self.references_timeout(now);
        self.mail_timeout(now);
        for lane in self.outbound.due_lanes(now.steady_ms) {
            self.pump_out_lane(lane, now);
        }
        self.chunks.give_up(now);
        self.settle(now);
    }

    // What its user wants.

    /// Signs with `signer` from now on: the same account's, under another delegation. No stream
    /// notices. `false`, and nothing changes, when it signs for another account or network.
    #[must_use]
    pub fn rotate(&mut self, signer: Arc<Signer>) -> bool {
        let same = signer.did() == self.did && signer.network() == self.network;
        if same {
            self.signer = signer;
        }
        same
    }

    // What it wants done.

    /// The next thing to do. A batch is taken when there is nothing else, so that everything
    /// that was told before shares it, and what is being verified may (law *bounded wait*).
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let next = self.effects.pop_front();
        let next = next.or_else(|| {
            let verifying = self.arrivals.verifying();
            let batch = self.gather.take_batch(&mut self.engine, verifying);
            batch.map(Effect::Write)
        });
        next.or_else(|| self.references_commit())
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due, by the steady clock.
    pub fn poll_timeout(&self) -> Option<u64> {
        let due = [
            self.outbound.due_ms(),
            self.ring_due_ms(),
            self.references_due_ms(),
            self.sessions_due_ms(),
            self.chunks.due_ms(),
            self.mail.due_ms(),
        ];
        due.into_iter().flatten().min()
    }

    /// Moves on whatever can.
    fn settle(&mut self, now: Now) {
        loop {
            self.settle_engine(now);
            if !self.serve_references(now) && !self.serve_mail(now) {
                return;
            }
        }
    }

    /// Takes what the engine released, in the order it was staged, and moves on what waited for
    /// that.
    fn settle_engine(&mut self, now: Now) {
        loop {
            while let Some((ticket, outcome)) = self.engine.poll_outcome() {
                match self.staged.remove(&ticket) {
                    Some(Staged::Admission(link, lane, bytes)) => {
                        self.released(link, lane, bytes, outcome, now);
                    }
                    Some(Staged::Reservation(stream, id, outgoing)) => {
                        self.reserved(stream, id, *outgoing, outcome, now);
                    }
                    Some(Staged::Mail(digest)) => self.admitted_mail(digest, outcome, now),
                    Some(Staged::Take(id, digest)) => self.taken_mail(id, digest, outcome, now),
                    None => {}
                }
            }
            match self.outbound.next_freed() {
                Some(stream) => self.reserve(stream, now),
                None if self.pump_ring(now) => {}
                None if self.serve_sessions(now) => {}
                None => return,
            }
        }
    }

    fn tell(&mut self, event: Event) {
        self.effects.push_back(Effect::Event(event));
    }

    fn verify_context(&self, now: Now) -> VerifyContext {
        VerifyContext {
            network: self.network,
            now_ms: now.wall_ms,
        }
    }
}
