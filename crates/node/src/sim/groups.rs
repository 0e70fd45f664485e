//! Groups, and the keeper of groups of each node. The simulated twin of `runtime::keeper`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use overlane_core::Did;
use overlane_core::group::GroupId;
use overlane_core::transaction::{Data, Message};
use overlane_relay::log::{EnvelopeId, Frame, LogId, Turn};
use overlane_storage_native::LogsStore;

use super::check::{Read, of_groups, of_rounds};
use super::forged::Forged;
use super::mailbox::OnDisk;
use super::names::{Act, Broken};
use super::node::seed_of;
use super::world::{Event, Life, World};
use crate::peer::groups::{Ask, AskId, Effect, GroupTicket, Groups, Own, Said};
use crate::peer::{Heard, Keeper, Now};

/// Members of a group, its owner among them; one more hosts it and reads nothing.
const MEMBERS: usize = 5;

/// Fewest nodes of a simulation with groups.
const NODES_LEAST: usize = 4;

/// A group, and how far its people are with it.
#[derive(Debug)]
pub(super) struct SimGroup {
    /// The owner first; the last is removed some time.
    pub(super) members: Vec<usize>,
    pub(super) host: usize,
    pub(super) ticket: Option<GroupTicket>,
    pub(super) invited: BTreeSet<usize>,
    pub(super) joined: BTreeSet<usize>,
    /// The revision of the roster that the last member is not on.
    pub(super) removed_at: Option<u64>,
    /// What the last member wrote.
    pub(super) wrote: BTreeSet<EnvelopeId>,
    /// When each post was written, in simulated time.
    pub(super) posted_ms: BTreeMap<EnvelopeId, u64>,
    pub(super) posts: u64,
}

/// What an application waits for.
#[derive(Debug)]
pub(super) enum Doing {
    Create(usize),
    Invite(usize, usize),
    Join(usize),
    Remove(usize),
    Post(usize, Vec<Vec<u8>>),
    Look,
    Read(usize, Option<Did>),
}

/// What a keeper is to hear.
#[derive(Debug)]
enum Input {
    Heard(Heard),
    /// What a hostile host has its keeper hear, of this node.
    Misheard(Did, Vec<u8>),
    Ask(AskId, Box<Ask>),
}

/// What a node's process has of groups.
#[derive(Debug)]
pub(super) struct GroupRoom {
    groups: Groups<LogsStore>,
    inputs: VecDeque<Input>,
    due: bool,
    wake_ms: Option<u64>,
    pub(super) doing: BTreeMap<AskId, Doing>,
    next_ask: u64,
    /// Pages of groups that are being read.
    pub(super) pages: BTreeMap<usize, Vec<Read>>,
    /// The newest rosters that its application heard of.
    pub(super) revisions: BTreeMap<GroupId, u64>,
    /// Questions to each host since it was greeted.
    rounds: BTreeMap<(Did, LogId), u32>,
    now: Now,
    deaf: bool,
    /// What a broken reader takes for posts.
    pub(super) forged: Option<Forged>,
}

impl GroupRoom {
    /// Does what waits, and makes it durable.
    fn work(&mut self, now: Now) -> Vec<Effect> {
        self.now = now;
        self.groups.handle_timeout(now);
        while let Some(input) = self.inputs.pop_front() {
            match input {
                Input::Heard(Heard::Message { delivery, .. }) => {
                    let payload = delivery.item();
                    let (from, message) = (payload.origin(), payload.message());
                    let body = match message {
                        Message::Application { body, .. } if !self.deaf => body,
                        _ => &[][..],
                    };
                    if let Some(forged) = &mut self.forged {
                        forged.look(body, self.groups.logs().rules());
                    }
                    self.groups.handle_message(from, body, now);
                }
                Input::Misheard(from, body) => self.groups.handle_message(from, &body, now),
                Input::Heard(Heard::Linked(peer)) => self.groups.handle_linked(peer, now),
                Input::Heard(Heard::Unlinked(peer)) => self.groups.handle_unlinked(peer, now),
                Input::Heard(Heard::Said { to, result }) => {
                    self.groups.handle_said(to, result, now);
                }
                Input::Ask(id, ask) => self.groups.ask(id, *ask, now),
            }
            if self.groups.is_full() {
                break;
            }
        }
        self.groups.flush(now);
        std::iter::from_fn(|| self.groups.poll_effect()).collect()
    }

    /// The first of its tables that is over its bound.
    pub(super) fn check_bounds(&self) -> Result<(), String> {
        of_groups(&self.groups.numbers())
    }

    /// Notes what is said to a host; says what is wrong with that.
    fn note_said(&mut self, to: Did, data: &Data) -> Result<(), String> {
        match Said::read(data.message().body()) {
            Ok(Said::Greet { log, .. }) => drop(self.rounds.insert((to, log), 0)),
            Ok(Said::Frames(frames)) => {
                for frame in frames {
                    let frame = Frame::from_bytes(frame.0);
                    if let Ok(Frame::Recon { log, turn, .. }) = frame
                        && turn != Turn::Answer
                    {
                        let rounds = self.rounds.entry((to, log)).or_default();
                        *rounds += 1;
                        of_rounds(*rounds)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn ask(&mut self, ask: Ask, doing: Doing) {
        self.next_ask += 1;
        let id = AskId(self.next_ask);
        self.doing.insert(id, doing);
        self.inputs.push_back(Input::Ask(id, Box::new(ask)));
    }
}

impl OnDisk for GroupRoom {
    fn rests(&self) -> bool {
        self.inputs.is_empty()
    }

    fn finish(&mut self) {
        while !self.inputs.is_empty() {
            self.work(self.now);
        }
    }
}

impl SimGroup {
    /// Its log and its members, if that node hosts it and there is something of it.
    pub(super) fn hosted_by(&self, node: usize) -> Option<(LogId, &[usize])> {
        let ticket = self.ticket.as_ref().filter(|_| self.host == node)?;
        Some((LogId::group(ticket.group), &self.members))
    }
}

impl World<'_> {
    /// Chooses the groups and their people.
    pub(super) fn begin_groups(&mut self) {
        if !self.config.has_groups() || self.nodes.len() < NODES_LEAST {
            return;
        }
        for number in 0..self.config.groups {
            let mut people = Vec::new();
            let honest = self.nodes.len() - self.hostile.len();
            let lies = self.config.hostile.has(Act::Hosts);
            let hosts = usize::from(!lies);
            while people.len() < honest.min(MEMBERS + hosts) {
                let drawn = self.any_of(self.nodes.len());
                if !people.contains(&drawn) && !self.hostile.contains(&drawn) {
                    people.push(drawn);
                }
            }
            let host = match lies {
                true => {
                    let drawn = self.any_of(self.hostile.len());
                    self.group_watch.is_hosted_by_a_liar(number);
                    self.hostile.iter().nth(drawn).copied()
                }
                false => people.pop(),
            };
            let host = host.unwrap_or_default();
            self.groups.push(SimGroup {
                members: people,
                host,
                ticket: None,
                invited: BTreeSet::new(),
                joined: BTreeSet::new(),
                removed_at: None,
                wrote: BTreeSet::new(),
                posted_ms: BTreeMap::new(),
                posts: 0,
            });
            self.group_later(number);
        }
    }

    /// Opens a node's store of groups.
    ///
    /// # Errors
    /// As the store says.
    pub(super) fn open_groups(&mut self, number: usize) -> Result<Option<LogsStore>, String> {
        let node = self.nodes.get_mut(number);
        match node.filter(|_| self.config.has_groups()) {
            Some(node) => node.group_disk.open_store().map(Some),
            None => Ok(None),
        }
    }

    /// A node that has just started keeps groups.
    ///
    /// # Errors
    /// What the store holds does not read.
    pub(super) fn begin_keeping(
        &mut self,
        number: usize,
        store: Option<LogsStore>,
    ) -> Result<(), String> {
        let Some(store) = store else {
            return Ok(());
        };
        let (deaf, any_post) = (
            self.is_broken(Broken::DeafKeeper),
            self.is_broken(Broken::AnyPost),
        );
        let (seed, names) = (seed_of(&mut self.chance), *seed_of(&mut self.chance));
        let now = self.now_at(number);
        let Some(node) = self.nodes.get_mut(number) else {
            return Ok(());
        };
        let (secret, life) = (node.sealing(), node.life);
        let Some(running) = &mut node.running else {
            return Ok(());
        };
        let own = Own {
            signer: Arc::clone(&running.signer),
            secret,
            seed,
        };
        let groups = Groups::open(store, own, now).map_err(|error| error.to_string())?;
        running.peer.attach_keeper(Keeper::Groups, names);
        running.groups = Some(GroupRoom {
            groups,
            inputs: VecDeque::new(),
            due: false,
            wake_ms: None,
            doing: BTreeMap::new(),
            next_ask: 0,
            pages: BTreeMap::new(),
            revisions: BTreeMap::new(),
            rounds: BTreeMap::new(),
            now,
            deaf: deaf && life > 1,
            forged: any_post.then(Forged::default),
        });
        self.keeper_soon(number);
        Ok(())
    }

    // The keeper's thread.

    /// The peer has something for a keeper.
    pub(super) fn hear(&mut self, node: usize, heard: Heard) {
        let input = match self.misheard(node, &heard) {
            Some((from, body)) => Input::Misheard(from, body),
            None => Input::Heard(heard),
        };
        let Some(room) = self.running(node).and_then(|it| it.groups.as_mut()) else {
            return self.broke("one keeper of groups", format!("node {node} has none"));
        };
        room.inputs.push_back(input);
        self.keeper_soon(node);
    }

    pub(super) fn ask_groups(&mut self, node: usize, ask: Ask, doing: Doing) {
        let running = self.running(node).filter(|it| !it.leaving);
        if let Some(room) = running.and_then(|it| it.groups.as_mut()) {
            room.ask(ask, doing);
            self.keeper_soon(node);
        }
    }

    fn keeper_soon(&mut self, node: usize) {
        let life = self.life(node);
        let room = self.running(node).and_then(|it| it.groups.as_mut());
        if room.is_some_and(|room| !std::mem::replace(&mut room.due, true)) {
            let slow = self.permille(20);
            let wait_ms = self.idle_ms(node) + self.chance.below(if slow { 200 } else { 4 });
            self.maybe_cut_power(life, wait_ms);
            self.after(wait_ms, Event::Keeper(life));
        }
    }

    /// A node's keeper of groups works.
    pub(super) fn keeper_works(&mut self, life: Life) {
        let node = life.node;
        let now = self.now_at(node);
        let Some(running) = self.living(life) else {
            return;
        };
        let Some(room) = &mut running.groups else {
            return;
        };
        room.due = false;
        room.wake_ms = None;
        room.groups.sign_with(Arc::clone(&running.signer));
        let refused = room.groups.numbers().logs.refused;
        let effects = room.work(now);
        let refused = room.groups.numbers().logs.refused.saturating_sub(refused);
        let more = !room.inputs.is_empty();
        self.counts.groups.not_taken += refused;
        if let Some(node) = self.nodes.get_mut(node) {
            node.group_disk.wrote(false);
        }
        for effect in effects {
            self.keeper_did(life, effect, now);
        }
        if more {
            self.keeper_soon(node);
        }
        self.wake_keeper(node);
        self.dirty_nodes.insert(node);
    }

    /// A keeper is due.
    pub(super) fn keeper_due(&mut self, life: Life) {
        let now = self.now_at(life.node);
        let room = self.living(life).and_then(|it| it.groups.as_mut());
        let Some(room) = room else {
            return;
        };
        room.wake_ms = None;
        let due = room.groups.poll_timeout();
        if due.is_some_and(|due_ms| due_ms <= now.steady_ms) {
            self.keeper_soon(life.node);
        } else {
            self.wake_keeper(life.node);
        }
    }

    fn wake_keeper(&mut self, node: usize) {
        let (life, now_ms) = (self.life(node), self.now_ms);
        let clock = self.nodes.get(node).map(|it| it.clock);
        let room = self.running(node).and_then(|it| it.groups.as_mut());
        let Some((room, clock)) = room.zip(clock).filter(|it| !it.0.due) else {
            return;
        };
        let due_ms = room
            .groups
            .poll_timeout()
            .map(|due| clock.when(due, now_ms));
        if let Some(due_ms) = due_ms.filter(|due| room.wake_ms.is_none_or(|at| *due < at)) {
            room.wake_ms = Some(due_ms);
            self.queue.push(due_ms, Event::KeeperDue(life));
        }
    }

    fn keeper_did(&mut self, life: Life, effect: Effect, now: Now) {
        let node = life.node;
        match effect {
            Effect::Say { to, data } => self.keeper_says(node, to, data, now),
            Effect::Taken => {
                if let Some(running) = self.running(node) {
                    running.peer.handle_keeper_took(Keeper::Groups, now);
                }
            }
            Effect::Answer(id, result) => {
                let room = self.running(node).and_then(|it| it.groups.as_mut());
                match room.and_then(|room| room.doing.remove(&id)) {
                    Some(doing) => self.group_answered(node, doing, result),
                    None => {
                        let words = format!("node {node} answered a request twice");
                        self.broke("one result a request", words);
                    }
                }
            }
            Effect::Event(event) => self.group_told(node, event),
            Effect::Failed { .. } => {
                self.counts.stores_failed += 1;
                if let Some(state) = self.nodes.get_mut(node) {
                    state.store_failed = true;
                }
                self.mend_later(life);
            }
        }
    }

    fn keeper_says(&mut self, node: usize, to: Did, data: Data, now: Now) {
        let data = self.misspoken(node, data);
        let watched = self.config.hostile.has(Act::Hosts) && !self.hostile.contains(&node);
        let Some(running) = self.running(node) else {
            return;
        };
        let room = running.groups.as_mut().filter(|_| watched);
        let noted = room.zip(data.as_ref());
        let noted = noted.map(|(room, data)| room.note_said(to, data));
        match data {
            Some(data) => running.peer.say_for(Keeper::Groups, to, data, now),
            // To its own code it is gone as it should be.
            None => {
                let result = Ok(());
                self.hear(node, Heard::Said { to, result });
            }
        }
        if let Some(Err(words)) = noted {
            self.broke("bounds", format!("node {node}: {words}"));
        }
    }
}
