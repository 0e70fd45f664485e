//! What goes wrong, when, and how it heals.

use super::config::{Broken, Fault};
use super::drive::is_settled;
use super::node::Running;
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
/// some handshakes.
pub(super) const HEAL_WITHIN_MS: u64 = 9 * 60_000;
/// How long what is sent then may take.
pub(super) const DELIVER_WITHIN_MS: u64 = 90_000;

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
                if let Some(node) = self.nodes.get_mut(node) {
                    node.store.fail(&mut self.chance);
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
                    let words = "nothing came for too long";
                    self.after(wait_ms, Event::TransportOver((link, side), words));
                }
            }
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

    // Nodes that stop and start.

    pub(super) fn start(&mut self, number: usize) {
        let torn = self.config.faults.has(Fault::Crash) && self.phase == Phase::Faults;
        let torn = torn && self.permille(100);
        let old_lease = self.is_broken(Broken::OldLease);
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(number).filter(|it| it.running.is_none()) else {
            return;
        };
        if torn {
            node.store.cut_while_opening(&mut self.chance);
            self.counts.power_cuts += 1;
            let wait_ms = self.between(500, 5_000);
            return self.after(wait_ms, Event::Start(number));
        }
        let scan = match node.store.open() {
            Ok(scan) => scan,
            Err(error) => {
                // A disk that fails is mended; one that does not must open.
                if !node.store.heal() {
                    let words = format!("node {number}: the store does not open: {error}");
                    self.broke("a store opens after any crash", words);
                    return;
                }
                let wait_ms = self.between(1_000, 5_000);
                return self.after(wait_ms, Event::Start(number));
            }
        };
        let kept = node.last_scan.replace(scan.clone());
        let scan = kept.filter(|_| old_lease).unwrap_or(scan);
        if node.start(scan, now_ms, &mut self.chance).is_none() {
            return self.broke("a node starts", format!("node {number} does not"));
        }
        let unrestorable = node
            .running
            .as_ref()
            .map_or(0, |it| it.peer.engine().unrestorable().len());
        self.counts.starts += 1;
        let bytes = number.to_be_bytes();
        self.trace.note(now_ms, &[b"start", &bytes], || {
            format!("node {number} starts")
        });
        if unrestorable > 0 {
            let words = format!("node {number}: {unrestorable} records do not restore");
            self.broke("a record survives any crash", words);
        }
        self.dirty_nodes.insert(number);
        self.dial_all(number);
    }

    /// A node stops in order.
    fn leave(&mut self, number: usize) {
        let life = self.life(number);
        let Some(running) = self.running(number).filter(|it| !it.leaving) else {
            return;
        };
        running.leaving = true;
        running.registry.shut_down();
        self.heed_registry(number);
        self.note_fault("leave", || format!("node {number} stops"));
        self.after(100, Event::Stop(life));
    }

    /// A node that leaves ends once its links are down and its store has everything.
    pub(super) fn stop(&mut self, life: Life) {
        let Some(running) = self.living(life) else {
            return;
        };
        let settled = is_settled(&running.peer, running.jobs.len());
        if !running.links.is_empty() || !settled {
            return self.after(100, Event::Stop(life));
        }
        self.counts.stops += 1;
        if let Some(node) = self.nodes.get_mut(life.node) {
            node.running = None;
            node.store.close();
        }
        let away_ms = self.between(500, 60_000);
        self.after(away_ms, Event::Start(life.node));
    }

    /// A process ends at once, and its system goes on.
    fn kill(&mut self, number: usize) {
        let handed = self.permille(500);
        let Some(running) = self.end_process(number) else {
            return;
        };
        self.counts.kills += 1;
        self.note_fault("kill", || format!("node {number} is killed"));
        let batch = running.writing.front().filter(|_| handed);
        if let Some(node) = self.nodes.get_mut(number) {
            node.store.kill(batch);
        }
        let away_ms = self.between(500, 60_000);
        self.after(away_ms, Event::Start(number));
    }

    /// A node that is doomed starts to write: its power fails before that is done.
    pub(super) fn maybe_cut_power(&mut self, life: Life, within_ms: u64) {
        let doomed = self.nodes.get_mut(life.node).map(|it| &mut it.doomed);
        if self.phase == Phase::Faults && doomed.is_some_and(std::mem::take) {
            let wait_ms = self.between(0, within_ms);
            self.after(wait_ms, Event::Weather(Weather::PowerCut(life)));
        }
    }

    fn cut_power(&mut self, number: usize) {
        let forgetful = self.is_broken(Broken::ForgetfulDisk);
        let Some(running) = self.end_process(number) else {
            return;
        };
        self.counts.power_cuts += 1;
        self.note_fault("power", || format!("the power of node {number} fails"));
        if let Some(node) = self.nodes.get_mut(number) {
            match forgetful {
                true => node.store.cut_with_a_forgetful_disk(),
                false => node.store.cut(running.writing.front(), &mut self.chance),
            }
        }
        let away_ms = self.between(500, 60_000);
        self.after(away_ms, Event::Start(number));
    }

    /// The process is gone, and nobody says so to the other ends of its links.
    fn end_process(&mut self, number: usize) -> Option<Running> {
        let running = self.nodes.get_mut(number)?.running.take()?;
        for &(link, side) in running.links.values() {
            let Some(state) = self.links.get_mut(&link) else {
                continue;
            };
            if let Some(end) = state.ends.get_mut(side) {
                *end = None;
            }
            for class in overlane_core::Class::ALL {
                state.channel(side, class).offered.clear();
            }
            if state.is_over() {
                self.links.remove(&link);
                continue;
            }
            let wait_ms = self.between(5_000, 15_000);
            let words = "nothing came for too long";
            self.after(wait_ms, Event::TransportOver((link, 1 - side), words));
        }
        Some(running)
    }

    /// A store failed: its node is started again some seconds later.
    pub(super) fn mend_later(&mut self, life: Life) {
        let wait_ms = self.between(2_000, 20_000);
        self.after(wait_ms, Event::Weather(Weather::Mend(life)));
    }

    fn mend(&mut self, life: Life) {
        if self.living(life).is_none() {
            return;
        }
        self.end_process(life.node);
        if let Some(node) = self.nodes.get_mut(life.node) {
            node.store.heal();
            node.store.kill(None);
        }
        self.after(500, Event::Start(life.node));
    }

    // How it ends.

    fn heal(&mut self) {
        self.note_fault("heal", || "no fault comes any more".to_owned());
        self.phase = Phase::Healing;
        self.net.heal();
        let mut failed = Vec::new();
        for node in &mut self.nodes {
            let fired = node.store.heal();
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
                } else if since_heal_ms > HEAL_WITHIN_MS {
                    self.broke("healing", missing.join("; "));
                    self.phase = Phase::Over;
                }
            }
            Phase::Healed => {
                let healed_ms = self.healed_after_ms.unwrap_or_default();
                let for_ms = since_heal_ms - healed_ms;
                let resting = self.checks.undelivered() == 0 && self.all_settled().is_ok();
                if for_ms >= DELIVER_WITHIN_MS / 3 && resting {
                    self.phase = Phase::Over;
                } else if for_ms > DELIVER_WITHIN_MS {
                    if let Err(words) = self.all_settled() {
                        self.broke("nothing stands still", words);
                    }
                    self.phase = Phase::Over;
                }
            }
        }
    }

    /// Nodes that are down, and wanted links that are not up at both ends.
    fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
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

    /// Whether no node has anything on its way that it should not.
    fn all_settled(&self) -> Result<(), String> {
        for node in &self.nodes {
            let Some(running) = &node.running else {
                continue;
            };
            if !is_settled(&running.peer, running.jobs.len()) {
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
        let nodes = u64::try_from(self.nodes.len()).unwrap_or(1);
        usize::try_from(self.chance.below(nodes)).unwrap_or_default()
    }

    fn note_fault(&mut self, name: &'static str, words: impl FnOnce() -> String) {
        self.trace
            .note(self.now_ms, &[b"fault", name.as_bytes()], words);
    }
}
