//! What goes wrong, when, and how it heals.

use overlane_core::Class;

use super::check::GroupWatch;
use super::drive::is_settled;
use super::names::{Fault, Topology};
use super::node::{EndId, Running};
use super::report::Phase;
use super::world::{Event, Life, World};

/// How often each node meets a fault of its own, on average.
const CHURN_EVERY_MS: u64 = 180_000;
const CRASH_EVERY_MS: u64 = 240_000;
const STALL_EVERY_MS: u64 = 120_000;
const DISK_EVERY_MS: u64 = 360_000;
const CLOCK_EVERY_MS: u64 = 300_000;
/// How long after the end of the faults a process is ended whose disk still fails, or one begun that is down.
const MEND_AFTER_MS: u64 = 1_000;
/// How often the network changes.
const LOSS_EVERY_MS: u64 = 45_000;
const PARTITION_EVERY_MS: u64 = 90_000;

/// How long links may take to come back: the slowest redial, a peer that is found to be gone, and
/// some handshakes; on a ring, some rounds until rings that met are one, and the links of those who
/// are neighbours only then.
const HEAL_WITHIN_MS: u64 = 9 * 60_000;
const RING_HEALS_WITHIN_MS: u64 = 18 * 60_000;
/// How long what is sent then may take.
pub(super) const DELIVER_WITHIN_MS: u64 = 90_000;

/// How long after the healing what is held may take to be taken, and what was posted to come: an inbox
/// and a group's host are asked every minute, holders reconcile every minute, and who is new among them
/// is asked for it then.
const KEEPERS_WITHIN_MS: u64 = 5 * 60_000;

/// How long a node may have something on its way that comes again and again.
const SETTLED_WITHIN_MS: u64 = 30_000;

/// A change of the weather.
#[derive(Debug, Clone, Copy)]
pub(super) enum Weather {
    /// The next fault of this kind.
    Next(Fault),
    /// The network loses no more.
    Dry,
    /// The power of a node fails.
    PowerCut(Life),
    /// A node's store failed: whoever runs it starts it again.
    Mend(Life),
    /// A node's wall clock is set right.
    ClockRight(usize),
    /// No fault comes any more.
    Heal,
}

impl World<'_> {
    pub(super) fn begin_weather(&mut self) {
        let faults = self.config.faults.clone();
        for fault in faults.iter() {
            self.next_fault(fault);
        }
        self.after(self.config.minutes * 60_000, Event::Weather(Weather::Heal));
    }

    fn next_fault(&mut self, fault: Fault) {
        let nodes = u64::try_from(self.nodes.len()).unwrap_or(1).max(1);
        let mean_ms = match fault {
            Fault::Churn => CHURN_EVERY_MS / nodes,
            Fault::Crash => CRASH_EVERY_MS / nodes,
            Fault::Stall => STALL_EVERY_MS / nodes,
            Fault::Disk => DISK_EVERY_MS / nodes,
            Fault::Clock => CLOCK_EVERY_MS / nodes,
            Fault::Loss => LOSS_EVERY_MS,
            Fault::Partition => PARTITION_EVERY_MS,
            // It happens to messages, not at instants.
            Fault::Duplicate => return,
        };
        let wait_ms = self.between(mean_ms / 4, mean_ms * 7 / 4).max(1);
        self.after(wait_ms, Event::Weather(Weather::Next(fault)));
    }

    pub(super) fn weather(&mut self, weather: Weather) {
        match weather {
            Weather::Next(fault) if self.phase == Phase::Faults => {
                self.next_fault(fault);
                self.strike(fault);
            }
            Weather::Next(_) => {}
            Weather::Dry => self.net.lose(0),
            Weather::PowerCut(life) if self.living(life).is_some() => self.cut_power(life.node),
            Weather::PowerCut(_) => {}
            Weather::Mend(life) => self.mend(life),
            Weather::ClockRight(node) => self.set_clock_right(node),
            Weather::Heal => self.heal(),
        }
    }

    fn strike(&mut self, fault: Fault) {
        let node = self.any_node();
        if !matches!(fault, Fault::Churn | Fault::Crash | Fault::Duplicate) {
            self.ring_disturbed();
        }
        match fault {
            Fault::Churn if self.permille(500) => self.leave(node),
            Fault::Churn => self.kill(node),
            Fault::Crash if self.permille(300) => self.cut_power(node),
            Fault::Crash => {
                if let Some(node) = self.nodes.get_mut(node) {
                    node.doomed = true;
                }
            }
            Fault::Loss => {
                let permille = [5, 20, 50, 100, 250];
                let drawn = usize::try_from(self.chance.below(5)).unwrap_or_default();
                let permille = permille.get(drawn).copied().unwrap_or(20);
                self.note_fault("loss", || format!("{permille} of 1000 messages are lost"));
                self.net.lose(permille);
                let for_ms = self.between(2_000, 40_000);
                self.after(for_ms, Event::Weather(Weather::Dry));
            }
            Fault::Partition => self.part(),
            Fault::Stall => self.stall(node),
            Fault::Disk => {
                self.note_fault("disk", || format!("the disk of node {node} fails"));
                let mail = self.config.has_mail() && self.permille(400);
                let groups = self.config.has_groups() && self.permille(300);
                let references = self.config.has_references() && self.permille(200);
                match self.nodes.get_mut(node) {
                    Some(node) if mail => node.mail.fail(&mut self.chance),
                    Some(node) if groups => node.group_disk.fail(&mut self.chance),
                    Some(node) if references => node.refs_disk.fail(&mut self.chance),
                    Some(node) => node.store.fail(&mut self.chance),
                    None => {}
                }
            }
            Fault::Clock => self.set_clock_wrong(node),
            Fault::Duplicate => {}
        }
    }

    /// An application takes nothing for a while; or a machine does nothing at all.
    fn stall(&mut self, number: usize) {
        let for_ms = self.between(500, 35_000);
        let until_ms = self.now_ms + for_ms;
        let machine = self.permille(400);
        let what = if machine { "machine" } else { "application" };
        self.note_fault("stall", || {
            format!("the {what} of node {number} stands still for {for_ms} ms")
        });
        if let Some(node) = self.nodes.get_mut(number) {
            let stalled = if machine {
                &mut node.stalled_until_ms
            } else {
                &mut node.idle_until_ms
            };
            *stalled = until_ms;
        }
    }

    fn part(&mut self) {
        self.counts.partitions += 1;
        let for_ms = self.between(1_000, 70_000);
        let until_ms = self.now_ms + for_ms;
        if self.permille(500) {
            self.note_fault("partition", || {
                format!("the network falls apart for {for_ms} ms")
            });
            let nodes = self.nodes.len();
            self.net.part(nodes, until_ms, &mut self.chance);
        } else {
            let count = self.between(1, 1 + self.nodes.len() as u64 / 4);
            for _ in 0..count {
                let (from, to) = (self.any_node(), self.any_node());
                self.note_fault("one way", || {
                    format!("nothing passes from node {from} to node {to} for {for_ms} ms")
                });
                self.net.cut(from, to, until_ms);
            }
        }
        self.break_blocked_links(until_ms);
    }

    /// What cannot pass for long ends the transport, in most cases before the session notices.
    fn break_blocked_links(&mut self, until_ms: u64) {
        let blocked: Vec<usize> = self
            .links
            .iter()
            .filter(|(_, link)| {
                let [one, other] = link.nodes;
                let blocked = |from, to| self.net.blocked(from, to, self.now_ms).is_some();
                blocked(one, other) || blocked(other, one)
            })
            .map(|(&link, _)| link)
            .collect();
        for link in blocked {
            let noticed = self.permille(700);
            for side in [0, 1] {
                let wait_ms = self.between(5_000, 30_000);
                if noticed && self.now_ms + wait_ms < until_ms {
                    self.after(wait_ms, Event::Silent((link, side)));
                }
            }
        }
    }

    /// Nothing came for too long on this end of a link, unless something passes again.
    pub(super) fn silent(&mut self, at: EndId) {
        let Some([one, other]) = self.links.get(&at.0).map(|link| link.nodes) else {
            return;
        };
        let blocked = |from, to| self.net.blocked(from, to, self.now_ms).is_some();
        if blocked(one, other) || blocked(other, one) {
            self.transport_over(at, "nothing came for too long");
        }
    }

    /// What could not pass is sent again now that it can, and not when its way would have been free.
    fn send_what_was_blocked(&mut self) {
        let mut blocked = Vec::new();
        for (&number, link) in &mut self.links {
            for (side, class) in [0, 1]
                .into_iter()
                .flat_map(|it| Class::ALL.map(|of| (it, of)))
            {
                let (from, to) = (link.node(side), link.node(1 - side));
                let stands = self.net.blocked(from, to, self.now_ms).is_some();
                if stands && link.channel(side, class).scheduled {
                    blocked.push((number, side, class));
                }
            }
        }
        for (link, side, class) in blocked {
            let wait_ms = self.between(50, 1_000);
            self.after(wait_ms, Event::Arrive(link, side, class));
        }
    }

    fn set_clock_wrong(&mut self, node: usize) {
        self.counts.clocks_set += 1;
        let by_ms = match self.chance.below(4) {
            0 => self.between(4_000, 20_000),
            1 => self.between(20_000, 600_000),
            2 => self.between(600_000, 8_000_000),
            _ => self.between(8_000_000, 200_000_000),
        };
        let by_ms = i64::try_from(by_ms).unwrap_or_default();
        let by_ms = if self.permille(500) { by_ms } else { -by_ms };
        self.note_fault("clock", || {
            format!("the clock of node {node} is {by_ms} ms ahead")
        });
        if let Some(node) = self.nodes.get_mut(node) {
            node.clock.wrong_by_ms = by_ms;
        }
        self.clocks_wrong = true;
        let for_ms = self.between(5_000, 120_000);
        self.after(for_ms, Event::Weather(Weather::ClockRight(node)));
    }

    fn set_clock_right(&mut self, node: usize) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.clock.wrong_by_ms = 0;
        }
    }

    /// Whether some clock was wrong by more than the allowed skew so far.
    pub(super) fn clocks_were_wrong(&self) -> bool {
        self.clocks_wrong
    }

    // How it ends.

    fn heal(&mut self) {
        self.note_fault("heal", || "no fault comes any more".to_owned());
        self.phase = Phase::Healing;
        self.ring_left_alone();
        self.send_what_was_blocked();
        self.net.heal();
        for node in self.hostile.clone() {
            self.unmute(self.life(node));
        }
        let mut failed = Vec::new();
        for node in &mut self.nodes {
            let logs = node.mail.heal() | node.group_disk.heal() | node.refs_disk.heal();
            let fired = node.store.heal() | logs;
            node.clock.wrong_by_ms = 0;
            node.stalled_until_ms = 0;
            node.idle_until_ms = 0;
            if node.running.is_none() {
                failed.push((node.number, false));
            } else if fired || node.store_failed {
                failed.push((node.number, true));
            }
        }
        for (number, up) in failed {
            let life = self.life(number);
            match up {
                true => self.after(MEND_AFTER_MS, Event::Weather(Weather::Mend(life))),
                false => self.after(MEND_AFTER_MS, Event::Start(number)),
            }
        }
    }

    /// Once every wanted link is back, everything that is sent must arrive.
    pub(super) fn look_at_healing(&mut self) {
        let since_heal_ms = self.now_ms.saturating_sub(self.config.minutes * 60_000);
        match self.phase {
            Phase::Faults | Phase::Over => {}
            // Who is to be mended goes down first, and until then seems to be linked.
            Phase::Healing if since_heal_ms <= MEND_AFTER_MS => {}
            Phase::Healing => {
                let missing = self.missing();
                if missing.is_empty() {
                    self.phase = Phase::Healed;
                    self.healed_after_ms = Some(since_heal_ms);
                    self.healed_ms = Some(self.now_ms);
                    self.checks.healed(self.now_ms);
                    self.probe();
                } else if since_heal_ms > self.heals_within_ms() {
                    self.broke("healing", missing.join("; "));
                    self.phase = Phase::Over;
                }
            }
            Phase::Healed => {
                let healed_ms = self.healed_after_ms.unwrap_or_default();
                let for_ms = since_heal_ms - healed_ms;
                self.note_settled();
                self.read_groups();
                let (owed, lack) = (self.mail_owed(), self.groups_lack());
                let undelivered = self.checks.undelivered() + self.sent_later;
                let delivered = undelivered == 0 && owed == 0 && lack.is_none();
                let within_ms = match (owed, &lack) {
                    (0, None) => DELIVER_WITHIN_MS,
                    _ => KEEPERS_WITHIN_MS,
                };
                if for_ms >= DELIVER_WITHIN_MS / 3 && delivered && self.all_settled().is_ok() {
                    self.phase = Phase::Over;
                } else if for_ms > within_ms {
                    if let Some(words) = lack {
                        self.broke(GroupWatch::law_of_lacks(), words);
                    }
                    if let Err(words) = self.all_settled() {
                        self.broke("nothing stands still", words);
                    }
                    self.phase = Phase::Over;
                }
            }
        }
    }

    const fn heals_within_ms(&self) -> u64 {
        match self.config.topology {
            Topology::Mesh => HEAL_WITHIN_MS,
            Topology::Ring => RING_HEALS_WITHIN_MS,
        }
    }

    /// Nodes that are down, wanted links that are not up at both ends, and what the ring lacks.
    fn missing(&self) -> Vec<String> {
        let mut missing = self.ring_lacks();
        for node in &self.nodes {
            if node.running.is_none() {
                missing.push(format!("node {} is down", node.number));
            }
            let linked = node.linked();
            for &to in node.wanted.keys() {
                let far = self.nodes.get(to);
                let there = far.is_some_and(|far| linked.contains(&far.did));
                let back = far.is_some_and(|far| far.linked().contains(&node.did));
                if !there || !back {
                    missing.push(format!("no link between nodes {} and {to}", node.number));
                }
            }
        }
        missing
    }

    /// Notes who has nothing on its way that it should not.
    fn note_settled(&mut self) {
        let now_ms = self.now_ms;
        for node in &mut self.nodes {
            let settled = |it: &Running| is_settled(&it.peer, it.jobs.len());
            if node.running.as_ref().is_some_and(settled) {
                node.settled_ms = now_ms;
            }
        }
    }

    /// Whether no node has had something on its way all the time that it should not. Where mail is held, a
    /// word about it may be on its way at any instant.
    fn all_settled(&self) -> Result<(), String> {
        let settled_within_ms = match self.config.has_keepers() {
            true => SETTLED_WITHIN_MS,
            false => 0,
        };
        for node in &self.nodes {
            let Some(running) = &node.running else {
                continue;
            };
            let since_ms = self.now_ms.saturating_sub(node.settled_ms);
            if since_ms > settled_within_ms {
                let (jobs, sends) = (running.jobs.len(), running.peer.pending_sends());
                return Err(format!(
                    "node {}: {sends} sends and {jobs} frames stand still",
                    node.number
                ));
            }
        }
        Ok(())
    }

    fn any_node(&mut self) -> usize {
        self.any_of(self.nodes.len())
    }

    pub(super) fn note_fault(&mut self, name: &'static str, words: impl FnOnce() -> String) {
        self.trace
            .note(self.now_ms, &[b"fault", name.as_bytes()], words);
    }
}
