//! The world of a simulation: the nodes, the links between them, the time.
//!
//! Events happen one at a time, in the order of [`Queue`]; after each, every node and every link
//! that it touched does what it wants done until nothing more is. Nothing reads a clock, a thread
//! or a source of randomness, so that a seed decides everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use overlane_core::identity::{Delegation, DelegationDigest, Verified};
use overlane_core::signal::{Answer, Offer, OfferDigest};
use overlane_core::transaction::Transaction;
use overlane_core::{Class, Did, StreamKey, TransactionDigest};
use overlane_storage_native::disk::Seeded;

use super::apps::Applications;
use super::check::{Checks, GroupWatch, Seen, Signed, of_node, of_session};
use super::config::SimConfig;
use super::courier::Carried;
use super::groups::{GroupRoom, SimGroup};
use super::holders::Seized;
use super::hosts::Liar;
use super::link::SimLink;
use super::load::SentAgain;
use super::names::{Broken, Topology};
use super::net::Net;
use super::node::{EndId, Running, SimNode};
use super::queue::Queue;
use super::report::{Counts, Phase};
use super::ring::RingWatch;
use super::trace::Trace;
use super::weather::Weather;
use crate::link::LinkId;
use crate::link::rule::Mark;
use crate::peer::{Now, VerifyTicket};

/// A node in one of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) node: usize,
    pub(super) life: u32,
}

/// What happens at an instant.
#[derive(Debug)]
pub(super) enum Event {
    /// Messages arrive on a channel.
    Arrive(usize, usize, Class),
    /// An end of a link can use a channel.
    OpenChannel(EndId, Class),
    /// An end's session is due.
    WakeEnd(EndId),
    /// The transport under an end is over.
    TransportOver(EndId, &'static str),
    /// Nothing came for too long on an end of a link, if it still does not.
    Silent(EndId),
    /// A peer is due.
    WakeNode(Life),
    /// A worker is done.
    Verified(Life, VerifyTicket),
    /// The store's thread is done.
    Written(Life),
    /// The application takes a message.
    Take(Life, Class),
    /// A node starts.
    Start(usize),
    /// A node that leaves looks whether it may end.
    Stop(Life),
    /// A node dials another.
    Dial(Life, usize),
    /// A dial came to nothing.
    DialFails(Life, LinkId, usize),
    /// A node makes an offer that the ring is to bring.
    Connect(Life, Did),
    /// A node looks at an offer that the ring brought.
    Carried(Life, Box<Carried>),
    /// A node whose offer crossed another looks for the link that stands, until then.
    Crossed(Life, Did, u64),
    /// A node that leaves ends its links.
    EndLinks(Life),
    /// A hostile node does something.
    Act(usize),
    /// A hostile node takes again what it is sent.
    Unmute(Life),
    /// An offer arrives.
    Offered(Box<Offered>),
    /// An answer arrives.
    Answered(Box<Answered>),
    /// A node's application sends.
    Load(usize),
    /// A node's application sends mail.
    Mail(usize),
    /// A node's keeper of mail is to work.
    Kept(Life),
    /// The application takes a mail.
    TakeMail(Life, TransactionDigest),
    /// The people of a group do something.
    Group(usize),
    /// A node's keeper of groups is to work.
    Keeper(Life),
    /// A keeper of groups is due.
    KeeperDue(Life),
    /// A node's application does something with references.
    Reference(usize),
    /// A commit of references is durable.
    Committed(Life),
    /// A node sends what it was told does not arrive.
    SendAgain(SentAgain),
    /// Signed bytes are offered again, by this node.
    Again(usize, Bytes),
    /// The weather changes.
    Weather(Weather),
    /// A few seconds are over: the bounds are looked at.
    Look,
    /// A minute is over.
    Minute,
}

/// An offer on its way.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) from: Life,
    pub(super) to: usize,
    pub(super) id: LinkId,
    pub(super) offer: Offer,
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) to: Life,
    pub(super) from: usize,
    pub(super) id: LinkId,
    pub(super) link: usize,
    pub(super) mark: Mark,
    pub(super) digest: OfferDigest,
    pub(super) answer: Answer,
}

/// Everything there is.
#[derive(Debug)]
pub(super) struct World<'t> {
    pub(super) config: SimConfig,
    pub(super) now_ms: u64,
    pub(super) queue: Queue<Event>,
    /// What nodes, paths and people draw from.
    pub(super) chance: Seeded,
    pub(super) nodes: Vec<SimNode>,
    pub(super) by_did: BTreeMap<Did, usize>,
    pub(super) links: BTreeMap<usize, SimLink>,
    pub(super) next_link: usize,
    pub(super) net: Net,
    /// Nodes that are hostile while faults come.
    pub(super) hostile: BTreeSet<usize>,
    /// What hostile nodes said instead of their messages; none where they said the truth.
    pub(super) lies: BTreeMap<TransactionDigest, Option<Transaction>>,
    /// What hostile nodes have seen of mail.
    pub(super) seized: BTreeMap<usize, Seized>,
    /// What hostile hosts of groups are up to.
    pub(super) liars: BTreeMap<usize, Liar>,
    /// Mail, by its digest.
    pub(super) mails: BTreeMap<TransactionDigest, Signed>,
    pub(super) groups: Vec<SimGroup>,
    pub(super) group_watch: GroupWatch,
    pub(super) checks: Checks,
    pub(super) ring_watch: RingWatch,
    pub(super) trace: Trace<'t>,
    pub(super) applications: Applications<'t>,
    pub(super) counts: Counts,
    pub(super) phase: Phase,
    /// Some wall clock was wrong by more than the allowed skew.
    pub(super) clocks_wrong: bool,
    /// When every link was back, and how long after the last fault that was.
    pub(super) healed_ms: Option<u64>,
    pub(super) healed_after_ms: Option<u64>,
    /// What a mutant without a receiver window dispatches again.
    pub(super) named: BTreeMap<(StreamKey, u64), TransactionDigest>,
    /// Delegations that nodes signed under.
    pub(super) shown: BTreeMap<DelegationDigest, Arc<Verified<Delegation>>>,
    /// Messages that were sent in place of such as met a congested way, and how many did one after the other.
    pub(super) congested: BTreeMap<TransactionDigest, u8>,
    /// Such that are still to be sent.
    pub(super) sent_later: usize,
    pub(super) dirty_nodes: BTreeSet<usize>,
    pub(super) dirty_ends: BTreeSet<EndId>,
    /// What a mutant holds back of a channel, and for how many messages more.
    pub(super) held_back: BTreeMap<(usize, usize, Class), (Vec<u8>, u32)>,
}

impl<'t> World<'t> {
    pub(super) fn new(config: SimConfig, trace: Trace<'t>) -> Self {
        let mut chance = Seeded::new(config.seed);
        let forgetful = config.broken == Some(Broken::ForgetfulDisk);
        let drawn = (0..config.nodes).map(|number| SimNode::new(number, forgetful, &mut chance));
        let nodes: Vec<_> = drawn.flatten().collect();
        let by_did = nodes.iter().map(|node| (node.did, node.number)).collect();
        Self {
            now_ms: 0,
            queue: Queue::new(chance.next_u64()),
            net: Net::new(chance.next_u64()),
            nodes,
            by_did,
            links: BTreeMap::new(),
            next_link: 0,
            checks: Checks::new(
                config.topology == Topology::Ring,
                config.has_mail(),
                config.has_keepers(),
            ),
            hostile: BTreeSet::new(),
            seized: BTreeMap::new(),
            liars: BTreeMap::new(),
            lies: BTreeMap::new(),
            mails: BTreeMap::new(),
            groups: Vec::new(),
            group_watch: GroupWatch::default(),
            ring_watch: RingWatch::default(),
            trace,
            applications: Applications::default(),
            counts: Counts::default(),
            phase: Phase::Faults,
            clocks_wrong: false,
            healed_ms: None,
            healed_after_ms: None,
            named: BTreeMap::new(),
            shown: BTreeMap::new(),
            congested: BTreeMap::new(),
            sent_later: 0,
            dirty_nodes: BTreeSet::new(),
            dirty_ends: BTreeSet::new(),
            held_back: BTreeMap::new(),
            chance,
            config,
        }
    }

    /// One event after the other, until the run is over; `minute` is told of each minute.
    pub(super) fn run(&mut self, minute: &mut dyn FnMut(&Self)) {
        self.begin();
        while self.phase != Phase::Over {
            let Some((at_ms, event)) = self.queue.pop() else {
                break;
            };
            self.now_ms = self.now_ms.max(at_ms);
            if matches!(event, Event::Minute) {
                self.after(60_000, Event::Minute);
                minute(self);
                continue;
            }
            self.happen(event);
            self.settle();
        }
        self.checks.end(self.now_ms);
    }

    pub(super) fn begin(&mut self) {
        for number in 0..self.nodes.len() {
            let at_ms = self.chance.below(2_000);
            self.queue.push(at_ms, Event::Start(number));
            self.want(number);
            self.load_later(number);
            self.mail_later(number);
            self.references_later(number);
        }
        self.begin_weather();
        self.begin_hostility();
        self.begin_groups();
        self.after(60_000, Event::Minute);
        self.after(LOOK_MS, Event::Look);
    }

    pub(super) fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(link, from, class) => self.arrive(link, from, class),
            Event::OpenChannel(end, class) => self.open_channel(end, class),
            Event::WakeEnd(end) => self.wake_end(end),
            Event::TransportOver(end, words) => self.transport_over(end, words),
            Event::Silent(end) => self.silent(end),
            Event::WakeNode(life) => self.wake_node(life),
            Event::Verified(life, ticket) => self.verified(life, ticket),
            Event::Written(life) => self.written(life),
            Event::Take(life, class) => self.take(life, class),
            Event::Start(node) => self.start(node),
            Event::Stop(life) => self.stop(life),
            Event::Dial(life, to) => self.dial(life, to),
            Event::DialFails(life, id, to) => self.dial_fails(life, id, to),
            Event::Connect(life, peer) => self.connect(life, peer),
            Event::Carried(life, carried) => self.carried(life, *carried),
            Event::Crossed(life, peer, until_ms) => self.crossed(life, peer, until_ms),
            Event::EndLinks(life) => self.end_links(life),
            Event::Act(node) => self.act(node),
            Event::Unmute(life) => self.unmute(life),
            Event::Offered(offered) => self.offered(*offered),
            Event::Answered(answered) => self.answered(*answered),
            Event::Load(node) => self.load(node),
            Event::Mail(node) => self.send_mail(node),
            Event::Kept(life) => self.kept(life),
            Event::TakeMail(life, digest) => self.take_mail(life, digest),
            Event::Group(number) => self.group_step(number),
            Event::Keeper(life) => self.keeper_works(life),
            Event::KeeperDue(life) => self.keeper_due(life),
            Event::Reference(node) => self.use_references(node),
            Event::Committed(life) => self.committed(life),
            Event::SendAgain(again) => self.send_again(again),
            Event::Again(carrier, signed) => self.again(carrier, &signed),
            Event::Weather(weather) => self.weather(weather),
            Event::Look => self.look(),
            Event::Minute => {}
        }
    }

    /// Lets everything that was touched do what it wants done.
    pub(super) fn settle(&mut self) {
        loop {
            if let Some(end) = self.dirty_ends.pop_first() {
                self.pump(end);
            } else if let Some(node) = self.dirty_nodes.pop_first() {
                self.drain(node);
            } else {
                return;
            }
        }
    }

    // What the other parts of the world use.

    pub(super) fn after(&mut self, wait_ms: u64, event: Event) {
        self.queue.push(self.now_ms.saturating_add(wait_ms), event);
    }

    /// A drawn number from `low` to `high`.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.chance.below(high.saturating_sub(low) + 1)
    }

    /// Whether a thing that happens `permille` times in a thousand does.
    pub(super) fn permille(&mut self, permille: u64) -> bool {
        self.chance.below(1_000) < permille
    }

    /// One of so many, drawn.
    pub(super) fn any_of(&mut self, count: usize) -> usize {
        let drawn = self.chance.below(count.try_into().unwrap_or(1).max(1));
        usize::try_from(drawn).unwrap_or_default()
    }

    pub(super) fn is_broken(&self, broken: Broken) -> bool {
        self.config.broken == Some(broken)
    }

    /// This instant by the clocks of one node.
    pub(super) fn now_at(&self, node: usize) -> Now {
        let clock = self.nodes.get(node).map(|node| node.clock);
        clock.map_or(
            Now {
                wall_ms: 0,
                steady_ms: 0,
            },
            |it| it.now(self.now_ms),
        )
    }

    /// A node that is up.
    pub(super) fn running(&mut self, node: usize) -> Option<&mut Running> {
        self.nodes.get_mut(node)?.running.as_mut()
    }

    /// A node that is up, in the life that an event was meant for.
    pub(super) fn living(&mut self, life: Life) -> Option<&mut Running> {
        let node = self.nodes.get_mut(life.node)?;
        node.running.as_mut().filter(|_| node.life == life.life)
    }

    /// A node as it lives now.
    pub(super) fn life(&self, node: usize) -> Life {
        let life = self.nodes.get(node).map_or(0, |node| node.life);
        Life { node, life }
    }

    pub(super) fn see(&mut self, seen: &Seen<'_>) {
        self.checks.see(self.now_ms, seen);
    }

    pub(super) fn broke(&mut self, law: &'static str, words: String) {
        self.trace
            .note(self.now_ms, &[b"violation", law.as_bytes()], || {
                format!("VIOLATION of {law}: {words}")
            });
        self.checks.broke(law, self.now_ms, words);
    }

    fn look(&mut self) {
        self.after(LOOK_MS, Event::Look);
        let mut found = Vec::new();
        for node in &self.nodes {
            let Some(running) = &node.running else {
                continue;
            };
            let waiting = [0, 1, 2, 3]
                .map(|class: usize| running.waiting.get(class).map_or(0, |it| it.len()));
            let (jobs, links) = (running.jobs.len(), running.links.len());
            if let Err(words) = of_node(&running.peer, jobs, waiting, links) {
                found.push(format!("node {}: {words}", node.number));
            }
            if let Some(Err(words)) = running.groups.as_ref().map(GroupRoom::check_bounds) {
                found.push(format!("node {}: {words}", node.number));
            }
            if running.peer.engine().forks().next().is_some() {
                let number = node.number;
                self.checks
                    .see(self.now_ms, &Seen::Evidence { node: number });
            }
        }
        for link in self.links.values() {
            for end in link.ends.iter().flatten() {
                let (status, held_bytes) = (end.session.status(), end.session.held_bytes());
                if let Err(words) = of_session(&status, held_bytes) {
                    found.push(format!("a link of nodes {:?}: {words}", link.nodes));
                }
            }
        }
        for words in found {
            self.broke("bounds", words);
        }
        self.rotate();
        self.look_at_ring();
        self.look_at_healing();
    }

    fn rotate(&mut self) {
        for node in &mut self.nodes {
            node.rotate(self.now_ms, &mut self.chance);
        }
    }
}

/// How often the bounds are looked at.
pub(super) const LOOK_MS: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_hostile_node_sent_over_a_link_that_is_gone_is_not_held_against_an_honest_one() {
        let config = SimConfig {
            nodes: 3,
            mails_per_minute: 0,
            groups: 0,
            references_per_minute: 0,
            ..SimConfig::default()
        };
        let mut world = World::new(config, Trace::new(None));
        world.hostile.insert(1);
        while world.nodes.first().is_some_and(|it| it.running.is_none()) {
            world.start(0);
        }
        let (of_hostile, of_honest) = (LinkId(7), LinkId(8));
        let far = &mut world.running(0).unwrap().far;
        far.extend([(of_hostile, 1), (of_honest, 2)]);
        world.blamed(0, of_hostile, "payload/wrong_next_hop");
        assert_eq!(world.checks.violations, 0);
        // Of an honest node, and of one that nobody knows.
        for (link, violations) in [(of_honest, 1), (LinkId(9), 2)] {
            world.blamed(0, link, "payload/wrong_next_hop");
            assert_eq!(world.checks.violations, violations);
        }
    }
}
