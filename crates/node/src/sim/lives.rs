//! Nodes that start and stop: in order, killed, without power, and again.

use super::drive::is_settled;
use super::names::{Broken, Fault};
use super::node::Running;
use super::report::Phase;
use super::weather::Weather;
use super::world::{Event, Life, World};

/// How long a link's transport may take to find out that its other end is gone.
pub(super) const LINK_DEAD_WITHIN_MS: u64 = 15_000;
/// How long a node that leaves leaves its links open, for its neighbours to be told: as in a daemon.
const LEAVE_WITHIN_MS: u64 = 100;

impl World<'_> {
    pub(super) fn start(&mut self, number: usize) {
        let torn = self.config.faults.has(Fault::Crash) && self.phase == Phase::Faults;
        let torn = torn && self.permille(100);
        let old_lease = self.is_broken(Broken::OldLease);
        let (mail, groups) = (self.config.has_mail(), self.config.has_groups());
        let references = self.config.has_references();
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(number).filter(|it| it.running.is_none()) else {
            return;
        };
        if torn {
            node.store.cut_while_opening(&mut self.chance);
            if mail {
                node.mail.cut_while_opening(&mut self.chance);
            }
            if groups {
                node.group_disk.cut_while_opening(&mut self.chance);
            }
            if references {
                node.refs_disk
                    .cut_while_opening_references(&mut self.chance);
            }
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
        let opened = self.open_mail(number);
        let opened = opened.and_then(|mail| Ok((mail, self.open_groups(number)?)));
        let opened = opened.and_then(|(mail, groups)| {
            let references = self.open_references(number)?;
            Ok((mail, groups, references))
        });
        let (mail, groups, references) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.logs_do_not_open(number, &error),
        };
        let Some(node) = self.nodes.get_mut(number) else {
            return;
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
        self.begin_mail(number, mail);
        self.begin_references(number, references);
        if let Err(error) = self.begin_keeping(number, groups) {
            let node = self.nodes.get_mut(number);
            if !node.is_some_and(|it| it.group_disk.heal()) {
                let words = format!("node {number}: what it has of groups does not open: {error}");
                self.broke("a store opens after any crash", words);
            }
            self.mend_later(self.life(number));
        }
        self.join(number);
        self.dial_all(number);
    }

    /// As with the records: a disk that fails is mended; one that does not must open.
    fn logs_do_not_open(&mut self, number: usize, error: &str) {
        let healed = self.nodes.get_mut(number).is_some_and(|node| {
            node.store.kill(None);
            node.mail.heal() | node.group_disk.heal() | node.refs_disk.heal()
        });
        if !healed {
            let words = format!("node {number}: a store does not open: {error}");
            return self.broke("a store opens after any crash", words);
        }
        let wait_ms = self.between(1_000, 5_000);
        self.after(wait_ms, Event::Start(number));
    }

    /// A node stops in order.
    pub(super) fn leave(&mut self, number: usize) {
        let (life, now) = (self.life(number), self.now_at(number));
        let Some(running) = self.running(number).filter(|it| !it.leaving) else {
            return;
        };
        running.leaving = true;
        running.peer.leave_ring(now);
        self.dirty_nodes.insert(number);
        self.ring_lost_a_node();
        self.note_fault("leave", || format!("node {number} stops"));
        // The neighbours are told first.
        self.after(LEAVE_WITHIN_MS, Event::EndLinks(life));
    }

    /// A node that leaves ends its links.
    pub(super) fn end_links(&mut self, life: Life) {
        let Some(running) = self.living(life) else {
            return;
        };
        running.registry.shut_down();
        self.heed_registry(life.node);
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
        let now_ms = self.now_ms;
        self.mail_ended(life.node, true);
        if let Some(node) = self.nodes.get_mut(life.node) {
            let running = node.running.take();
            node.down_since_ms = Some(now_ms);
            node.store.close();
            let rooms = running.map(|it| (it.mail, it.groups, it.refs));
            let rooms = rooms.unwrap_or_default();
            if let Some(mail) = rooms.0 {
                node.mail.close(mail);
            }
            if let Some(groups) = rooms.1 {
                node.group_disk.close(groups);
            }
            if let Some(references) = rooms.2 {
                node.refs_disk.close(references);
            }
        }
        let away_ms = self.between(500, 60_000);
        self.after(away_ms, Event::Start(life.node));
    }

    /// A process ends at once, and its system goes on.
    pub(super) fn kill(&mut self, number: usize) {
        let handed = self.permille(500);
        let Some(mut running) = self.end_process(number) else {
            return;
        };
        self.counts.kills += 1;
        self.note_fault("kill", || format!("node {number} is killed"));
        let batch = running.writing.front().filter(|_| handed);
        if let Some(node) = self.nodes.get_mut(number) {
            node.store.kill(batch);
            if let Some(mail) = running.mail.take() {
                node.mail.kill(mail, handed);
            }
            if let Some(groups) = running.groups.take() {
                node.group_disk.kill(groups, handed);
            }
            if let Some(references) = running.refs.take() {
                node.refs_disk.kill(references, handed);
            }
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

    pub(super) fn cut_power(&mut self, number: usize) {
        let forgetful = self.is_broken(Broken::ForgetfulDisk);
        let Some(mut running) = self.end_process(number) else {
            return;
        };
        self.counts.power_cuts += 1;
        self.note_fault("power", || format!("the power of node {number} fails"));
        if let Some(node) = self.nodes.get_mut(number) {
            match forgetful {
                true => node.store.cut_with_a_forgetful_disk(),
                false => node.store.cut(running.writing.front(), &mut self.chance),
            }
            if let Some(mail) = running.mail.take() {
                node.mail.cut(mail, &mut self.chance);
            }
            if let Some(groups) = running.groups.take() {
                node.group_disk.cut(groups, &mut self.chance);
            }
            if let Some(references) = running.refs.take() {
                node.refs_disk.cut(references, &mut self.chance);
            }
        }
        let away_ms = self.between(500, 60_000);
        self.after(away_ms, Event::Start(number));
    }

    /// The process is gone, and nobody says so to the other ends of its links.
    fn end_process(&mut self, number: usize) -> Option<Running> {
        let now_ms = self.now_ms;
        let node = self.nodes.get_mut(number)?;
        let running = node.running.take()?;
        node.down_since_ms = Some(now_ms);
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
            let wait_ms = self.between(5_000, LINK_DEAD_WITHIN_MS);
            let words = "nothing came for too long";
            self.after(wait_ms, Event::TransportOver((link, 1 - side), words));
        }
        self.mail_ended(number, false);
        self.ring_lost_a_node();
        Some(running)
    }

    /// A store failed: its node is started again some seconds later.
    pub(super) fn mend_later(&mut self, life: Life) {
        let wait_ms = self.between(2_000, 20_000);
        self.after(wait_ms, Event::Weather(Weather::Mend(life)));
    }

    pub(super) fn mend(&mut self, life: Life) {
        if self.living(life).is_none() {
            return;
        }
        let running = self.end_process(life.node);
        if let Some(node) = self.nodes.get_mut(life.node) {
            node.store.heal();
            node.store.kill(None);
            let rooms = running.map(|it| (it.mail, it.groups, it.refs));
            let rooms = rooms.unwrap_or_default();
            if let Some(mail) = rooms.0 {
                node.mail.kill(mail, false);
            }
            if let Some(groups) = rooms.1 {
                node.group_disk.kill(groups, false);
            }
            if let Some(references) = rooms.2 {
                node.refs_disk.kill(references, false);
            }
            node.mail.heal();
            node.group_disk.heal();
            node.refs_disk.heal();
        }
        self.after(500, Event::Start(life.node));
    }
}
