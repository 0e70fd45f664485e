//! The groups of a node, as a state machine over the store of its logs.
//!
//! [`Groups`] carries the frames of logs (`overlane_relay::log`) between the members and the hosts
//! of groups, in application transactions of a namespace of its own; it hosts the logs of groups
//! whose rosters list this node as a host, and follows those of the others. It reads no clock and
//! draws nothing at random; its store waits for a disk, so it runs beside the peer, on a thread of
//! its own (`runtime::keeper`), and a test drives it on virtual time.
//!
//! Laws. **Durable first**: what came of a message or a request is said, told and answered after the
//! transaction that holds it. **Fails closed**: after a transaction that failed nothing is said, told
//! or promised any more. **Asked for**: a group is hosted or followed here because this node's user
//! said so; nobody else makes one begin. **Listed**: what a log holds is given to those on the roster in
//! force, and asked of its hosts alone; whoever else speaks costs a look-up and one short answer.
//! **Comes to rest**: with one host this node does one thing at a time, at most
//! [`SYNCS_MAX`] reconciliations run, and one that failed is tried again after a pause that grows.
//!
//! A node greets a host before it reconciles: each says which roster it has, and whoever has the
//! newer one hands it over. So a change of the roster travels from its owner to the hosts, and from
//! them to all members. A host tells those who follow that there is something new, once until they
//! have asked. Source: protocol decision 8 (groups), stories 28 to 30.

mod asks;
mod book;
mod courses;
mod earlier;
mod effect;
mod error;
mod hear;
mod homes;
mod leaving;
mod lines;
mod open;
mod plans;
mod read;
mod rosters;
mod rows;
mod ticket;
mod view;
mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use overlane_core::group::GroupId;
use overlane_core::identity::Signer;
use overlane_core::seal::SealingSecret;
use overlane_core::{Did, NetworkId};
use overlane_recon::bounds::IDLE_MS;
use overlane_relay::log::group::GroupRules;
use overlane_relay::log::{Event, LogId, LogStore, Logs, LogsError, Peer, Retention};
use zeroize::Zeroizing;

use super::Now;

pub use earlier::{EARLIER_MAX, EARLIER_MAX_BYTES};
pub use effect::{
    Ask, AskId, CourseView, Effect, GroupEvent, GroupView, Page, PlanView, PostView, Posted, Reply,
};
pub use error::GroupsError;
pub use leaving::{LEAVING_MAX, LEAVING_MS};
pub use open::{OpenError, Own};
pub use overlane_relay::log::group::GROUPS_MAX;
pub use ticket::{BadGroupTicket, GROUP_TICKET_URL_MAX_BYTES, GroupTicket};
pub use view::{GroupCounters, GroupNumbers};
pub use wire::{FRAMES_PER_MESSAGE, GROUPS_NAMESPACE};
#[cfg(feature = "sim")]
pub(crate) use wire::{FrameBytes, Said};

use book::Group;
use leaving::Leaving;
use lines::Line;

/// The longest name of a group, in bytes.
pub const NAME_MAX_BYTES: usize = 64;

/// Posts of one request.
pub const POSTS_PER_ASK: usize = 1_024;

/// Posts of this node's own that wait for the number of one group's host.
pub const POSTS_WAITING_MAX: usize = 2_000;

/// Posts of one page that is read.
pub const PAGE_MAX: usize = 256;

/// Requests that wait for other nodes.
pub const ASKS_WAITING_MAX: usize = 64;

/// Keys of earlier epochs that are kept of one group; beyond it the oldest is let go of.
pub const KEYS_MAX: usize = 1_024;

/// Messages to one node that are on their way to its lane.
pub const IN_HAND_MAX: usize = 8;

/// Nodes with something that waits to be said to them.
pub const LINES_MAX: usize = 1_024;

/// Words that wait to be said to one node, frames of logs not counted.
pub const WORDS_MAX: usize = 256;

/// Bytes of them.
pub const WORDS_MAX_BYTES: usize = 256 * 1024;

/// Answers on their way to nodes that are on no roster here; more are not given.
pub const STRAYS_MAX: usize = 16;

/// Reconciliations that this node drives at a time: fewer than what a host drives before it
/// answers no other, so that two hosts never wait for each other.
pub const SYNCS_MAX: usize = 3;

/// How long a host may take to answer a greeting, in milliseconds.
pub const GREETING_MS: u64 = 10_000;

/// How often a host is asked without a reason, in milliseconds.
pub const EVERY_MS: u64 = 60_000;

/// The first pause after a failure, in milliseconds; each doubles the last, up to [`EVERY_MS`].
pub const PAUSE_MS: u64 = 1_000;

/// How long the host that a member asks may give no answer before the others are asked, in milliseconds, unless its
/// user says otherwise ([`Groups::set_host_gone_ms`]).
pub const GONE_MS: u64 = 30_000;

/// The least that a user may make of it: a host that is started anew in a moment is waited for.
pub const GONE_MIN_MS: u64 = PAUSE_MS;

/// The most: a day.
pub const GONE_MAX_MS: u64 = 24 * 3_600 * 1_000;

/// How long a follower is told of news after it asked, in milliseconds.
pub const FOLLOW_MS: u64 = 5 * 60_000;

/// How often what is too old is let go of, in milliseconds.
pub const MAINTAIN_MS: u64 = 60_000;

/// How soon after one the next comes while a log has more than is kept of it, in milliseconds.
pub const TRIM_AGAIN_MS: u64 = 1_000;

/// How many parts of at most [`EVICTED_PER_CALL`](overlane_relay::log::bounds::EVICTED_PER_CALL) posts the logs of all
/// groups let go of in one maintenance, as each is a write of its own.
pub const TRIM_PARTS_MAX: usize = 4;

const _: () = assert!(WORDS_MAX_BYTES > overlane_core::wire::bounds::DATA_MAX_BYTES);
const _: () = assert!(SYNCS_MAX < overlane_relay::log::bounds::EXCHANGES_MAX);
const _: () = assert!(POSTS_WAITING_MAX < overlane_relay::log::bounds::OWED_MAX);
const _: () = assert!(FOLLOW_MS > 2 * EVERY_MS + IDLE_MS);
const _: () = assert!(GONE_MS > 2 * GREETING_MS && GONE_MS < EVERY_MS);
const _: () = assert!(GONE_MIN_MS <= GONE_MS && GONE_MS <= GONE_MAX_MS);
const _: () = assert!(GONE_MAX_MS < overlane_relay::log::group::POST_AGE_MAX_MS);
const _: () = assert!(POSTS_PER_ASK <= POSTS_WAITING_MAX);

/// All that a node knows of groups.
#[derive(Debug)]
pub struct Groups<S: LogStore> {
    did: Did,
    network: NetworkId,
    signer: Arc<Signer>,
    /// Opens what is sealed to this account; none for an account that has no such key.
    secret: Option<SealingSecret>,
    logs: Logs<S, GroupRules>,
    groups: BTreeMap<LogId, Group>,
    /// Logs that were left, and are being deleted.
    left: BTreeSet<LogId>,
    /// Groups that were left, whose owner has not answered.
    leaving: BTreeMap<LogId, Leaving>,
    /// What is drawn comes from it; nobody else knows it.
    seed: Zeroizing<[u8; 32]>,
    drawn: u64,
    lines: BTreeMap<Did, Line>,
    strays: usize,
    /// Requests that wait for other nodes.
    waiting: usize,
    /// Waits for the next transaction.
    held: Vec<Effect>,
    out: VecDeque<Effect>,
    opened_ms: u64,
    maintain_ms: u64,
    /// How long a home may give no answer.
    host_gone_ms: u64,
    /// How far the wall clock was ahead of the steady one when last told.
    ahead_ms: u64,
    failure: Option<String>,
    counters: GroupCounters,
}

impl<S: LogStore> Groups<S> {
    // What happened.

    /// A message in [`GROUPS_NAMESPACE`] was admitted. [`Effect::Taken`] says when its place is free.
    pub fn handle_message(&mut self, from: Did, body: &[u8], now: Now) {
        self.note(now);
        if self.failure.is_none() {
            self.hear(from, body, now);
        }
        self.held.push(Effect::Taken);
    }

    /// A node is linked, or linked once more: what was to be asked of it is asked at once.
    pub fn handle_linked(&mut self, peer: Did, now: Now) {
        self.note(now);
        for group in self.groups.values_mut() {
            if let Some(course) = group.courses.get_mut(&peer) {
                course.failures = 0;
                course.resumes_ms = None;
                course.due_ms = now.steady_ms;
            }
        }
        if self.failure.is_none() {
            self.leaving_linked(peer, now);
        }
    }

    /// No link leads to a node any more.
    pub fn handle_unlinked(&mut self, peer: Did, now: Now) {
        self.note(now);
        if self.failure.is_none() {
            self.lost(peer, "recon/gave_up_link", now);
            self.link_lost(peer, now);
        }
    }

    /// A message is in a lane, or did not come so far for the reason of this code.
    pub fn handle_said(&mut self, to: Did, result: Result<(), &'static str>, now: Now) {
        self.note(now);
        match self.lines.get_mut(&to).filter(|line| line.in_hand > 0) {
            Some(line) => line.in_hand -= 1,
            None => self.strays = self.strays.saturating_sub(1),
        }
        if let (Err(code), None) = (result, &self.failure) {
            self.lost(to, code, now);
        }
        self.forget_line(to);
    }

    /// Time passed. Called at [`poll_timeout`](Self::poll_timeout) or later.
    pub fn handle_timeout(&mut self, now: Now) {
        self.note(now);
        if self.failure.is_some() {
            return;
        }
        self.logs.handle_timeout(now.wall_ms);
        self.greetings_late(now);
        if self.maintain_ms <= now.steady_ms {
            self.maintain_ms = now.steady_ms.saturating_add(MAINTAIN_MS);
            self.maintain(now);
        }
        self.say_leaving(now);
        self.delete_left();
    }

    // What its user wants.

    /// Signs with this from now on.
    pub fn sign_with(&mut self, signer: Arc<Signer>) {
        self.signer = signer;
    }

    /// How long the host that a member asks may give no answer before it goes over to another, in milliseconds: within
    /// [`GONE_MIN_MS`] and [`GONE_MAX_MS`], whatever is given.
    pub fn set_host_gone_ms(&mut self, host_gone_ms: u64) {
        self.host_gone_ms = host_gone_ms.clamp(GONE_MIN_MS, GONE_MAX_MS);
    }

    /// How much of each group's log is kept here from now on; [`Retention::GROUP`] unless this is called.
    pub fn set_retention(&mut self, retention: Retention) {
        self.logs.rules().set_retention(retention);
    }

    /// Asks for something. The answer comes as [`Effect::Answer`], once it is durable.
    pub fn ask(&mut self, id: AskId, ask: Ask, now: Now) {
        self.note(now);
        let asked = match &self.failure {
            Some(cause) => {
                let cause = cause.clone();
                Err(GroupsError::StoreFailed { cause })
            }
            None => self.try_ask(id, ask, now),
        };
        match asked {
            Ok(None) => {}
            Ok(Some(reply)) => self.held.push(Effect::Answer(id, Ok(reply))),
            Err(error) => self.held.push(Effect::Answer(id, Err(error))),
        }
    }

    // What it wants done.

    /// Whether what it holds is to be flushed before it takes more in.
    pub fn is_full(&self) -> bool {
        self.logs.is_full()
    }

    /// Makes all that happened durable in one transaction, lets go of what waited for that, and goes
    /// on with what is due.
    pub fn flush(&mut self, now: Now) {
        self.note(now);
        self.commit(now);
        if self.go_on(now) {
            self.commit(now);
        }
        self.out.extend(std::mem::take(&mut self.held));
        self.pump();
    }

    /// The next thing to do, until there is nothing.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.out.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due, by the steady clock.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.failure.is_some() {
            return None;
        }
        let logs = self.logs.poll_timeout();
        let logs = logs.map(|due_ms| due_ms.saturating_sub(self.ahead_ms));
        let waits = self.groups.values().any(|group| group.numbers_waiting);
        let left = (waits || !self.left.is_empty()).then_some(0);
        let leaving = self.leaving_due_ms();
        let due = [
            Some(self.maintain_ms),
            logs,
            self.courses_due_ms(),
            left,
            leaving,
        ];
        due.into_iter().flatten().min()
    }

    /// The logs, to look into or to break.
    pub fn logs(&mut self) -> &mut Logs<S, GroupRules> {
        &mut self.logs
    }

    /// The store, to open it again.
    pub fn into_store(self) -> S {
        self.logs.into_store()
    }

    fn commit(&mut self, now: Now) {
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.logs.flush(now.wall_ms) {
            return self.fail(&error);
        }
        while let Some(event) = self.logs.poll_event() {
            self.follow(event, now);
        }
    }

    /// Takes what the logs tell.
    fn follow(&mut self, event: Event, now: Now) {
        match event {
            Event::Kept { log, entry } => {
                self.counters.kept += 1;
                self.spread_news(log, &entry.author, now);
                self.out.push_back(Effect::Event(GroupEvent::Kept {
                    group: GroupId(log.0),
                    seq: entry.seq,
                    id: entry.id,
                    author: entry.author,
                }));
            }
            Event::LetGo { .. } => self.counters.let_go += 1,
            Event::PostRefused { log, id, code } => {
                self.counters.posts_refused += 1;
                let group = GroupId(log.0);
                let refused = GroupEvent::PostRefused { group, id, code };
                self.out.push_back(Effect::Event(refused));
            }
            Event::Synced { log, with, report } => self.synced(log, with, report, now),
            Event::Planned { log, with, planned } => self.planned(log, with, &planned, now),
        }
    }

    /// After a failure of the store nothing is promised any more.
    fn fail(&mut self, error: &LogsError<S::Error>) {
        let cause = error.to_string();
        let refusal = GroupsError::StoreFailed {
            cause: cause.clone(),
        };
        self.failure = Some(cause.clone());
        let held = std::mem::take(&mut self.held);
        self.held = held
            .into_iter()
            .map(|effect| match effect {
                Effect::Answer(id, _) => Effect::Answer(id, Err(refusal.clone())),
                effect => effect,
            })
            .collect();
        for id in self.forget_waiting() {
            let refused = Effect::Answer(id, Err(refusal.clone()));
            self.held.push(refused);
        }
        self.lines.clear();
        self.out.push_back(Effect::Failed { cause });
    }

    /// Passes a failure of the store on, and gives a refusal back.
    fn check<T>(&mut self, result: Result<T, LogsError<S::Error>>) -> Result<T, GroupsError> {
        result.map_err(|error| match error {
            LogsError::Peer(refusal) => refusal.into(),
            error => {
                let cause = error.to_string();
                self.fail(&error);
                GroupsError::StoreFailed { cause }
            }
        })
    }

    fn note(&mut self, now: Now) {
        self.ahead_ms = now.wall_ms.saturating_sub(now.steady_ms);
    }

    fn own(&self) -> Peer {
        Peer {
            account: self.did,
            slot: 0,
        }
    }

    /// 32 bytes that nobody foresees, never the same twice.
    fn draw(&mut self) -> Zeroizing<[u8; 32]> {
        let drawn = blake3::keyed_hash(&self.seed, &self.drawn.to_be_bytes());
        self.drawn = self.drawn.wrapping_add(1);
        Zeroizing::new(*drawn.as_bytes())
    }
}

/// Whether text is the name of a group.
fn is_name(name: &str) -> bool {
    (1..=NAME_MAX_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
}
