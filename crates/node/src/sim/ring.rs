//! Nodes in the ring: how they join it, what it lacks, and when its invariants are to hold.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::Did;
use overlane_core::ring::bounds::{NEIGHBOUR_TRIES, REQUEST_MS};

use super::check::{Member, is_ideal, lets_another_join, of_ring};
use super::lives::LINK_DEAD_WITHIN_MS;
use super::names::Topology;
use super::node::{SimNode, seed_of};
use super::world::World;

/// When Zave's invariants are looked at.
#[derive(Debug, Default)]
pub(super) struct RingWatch {
    /// The ring was as it should be, and since then nothing happened to it but that nodes joined, failed or left,
    /// one after the other.
    calm: bool,
    /// Until when nodes that are up may be taken for gone.
    disturbed_until_ms: u64,
    /// Changes of all neighbours that were looked at, by node.
    changes: BTreeMap<usize, u64>,
    /// Nodes that have had a successor in this life.
    placed: BTreeSet<usize>,
}

/// How long a fault other than a node's going may last, with all that comes of it: the longest is a clock
/// that is wrong.
const DISTURBED_FOR_MS: u64 = 180_000;

/// How long a node that is gone may be a neighbour's: a link that is found to be dead, and the tries
/// that whoever was linked to it is given; twice over.
const FORGOTTEN_WITHIN_MS: u64 = 2 * (LINK_DEAD_WITHIN_MS + REQUEST_MS * NEIGHBOUR_TRIES as u64);

impl World<'_> {
    /// A node that has just started joins the ring.
    pub(super) fn join(&mut self, number: usize) {
        if self.config.topology != Topology::Ring {
            return;
        }
        let (seed, now) = (*seed_of(&mut self.chance), self.now_at(number));
        if self.ring_watch.calm && !self.joins_by_the_ring(number) {
            self.ring_watch.calm = false;
        }
        if let Some(running) = self.running(number) {
            running.peer.join_ring(seed, now);
        }
        self.ring_watch.changes.remove(&number);
        self.ring_watch.placed.remove(&number);
    }

    /// Whether this is a join that Zave's proof is of: all others are members, enough of them are known to all before
    /// them, and to none of them is the newcomer a neighbour still, from an earlier life.
    fn joins_by_the_ring(&self, number: usize) -> bool {
        let own = self.nodes.get(number).map(|it| it.did);
        let mut others = self.members();
        others.retain(|did, _| Some(*did) != own);
        let known = others.values().all(|member| {
            let mut neighbours = member.successors.iter().chain(&member.predecessor);
            !member.successors.is_empty() && neighbours.all(|&of| Some(of) != own)
        });
        known && lets_another_join(&others)
    }

    /// Something happened after which nodes that are up may be taken for gone.
    pub(super) fn ring_disturbed(&mut self) {
        self.ring_watch.calm = false;
        self.ring_watch.disturbed_until_ms = self.now_ms + DISTURBED_FOR_MS;
    }

    /// Nothing of that kind is on any more.
    pub(super) fn ring_left_alone(&mut self) {
        let until_ms = self.now_ms + FORGOTTEN_WITHIN_MS;
        let disturbed_ms = self.ring_watch.disturbed_until_ms;
        self.ring_watch.disturbed_until_ms = disturbed_ms.min(until_ms);
    }

    /// A node is gone, or leaves. Zave's proof allows that only where every member still has a successor
    /// that is up, and enough others.
    pub(super) fn ring_lost_a_node(&mut self) {
        if self.ring_watch.calm && of_ring(&self.members()).is_err() {
            self.ring_watch.calm = false;
        }
    }

    /// A node may have other neighbours now: looks at all of them, where it has.
    pub(super) fn look_at_neighbours(&mut self, number: usize) {
        let node = self.nodes.get(number).and_then(|it| it.running.as_ref());
        let Some(ring) = node.and_then(|it| it.peer.ring()) else {
            return;
        };
        let changes = ring.counters().changes;
        if self.ring_watch.changes.insert(number, changes) == Some(changes) {
            return;
        }
        let mine = self.nodes.get(number).and_then(member);
        if let Some(mine) = mine.as_ref().filter(|mine| !mine.is_ordered()) {
            let words = format!("node {number} has {:?}", mine.successors);
            self.broke("ordered lists", words);
        }
        let alone = mine.as_ref().is_some_and(|mine| mine.successors.is_empty());
        if !alone {
            self.ring_watch.placed.insert(number);
        } else if self.ring_watch.calm && self.ring_watch.placed.contains(&number) {
            let words = format!("node {number} has no successor any more");
            self.broke("one ordered ring", words);
        }
        if self.ring_watch.calm {
            self.look_at_ring();
        }
    }

    /// Looks whether the ring is as it should be, and where it was, whether it still is a ring.
    pub(super) fn look_at_ring(&mut self) {
        if self.config.topology != Topology::Ring {
            return;
        }
        let members = self.members();
        if self.now_ms >= self.ring_watch.disturbed_until_ms {
            self.look_for_the_gone(&members);
        }
        if self.ring_watch.calm {
            self.counts.rings_checked += 1;
            if let Err(words) = of_ring(&members) {
                self.ring_watch.calm = false;
                self.broke("one ordered ring", words);
            }
        } else if self.now_ms >= self.ring_watch.disturbed_until_ms
            && members.len() > 1
            && is_ideal(&members).is_empty()
        {
            self.ring_watch.calm = true;
        }
    }

    /// Looks whether somebody has a nearest neighbour that is long gone. Farther successors are heard of from
    /// one another, a round each.
    fn look_for_the_gone(&mut self, members: &BTreeMap<Did, Member>) {
        let gone = |node: &&SimNode| {
            let long = node.down_since_ms.map(|since_ms| self.now_ms - since_ms);
            node.running.is_none() && long.is_some_and(|ms| ms > FORGOTTEN_WITHIN_MS)
        };
        let gone: BTreeSet<Did> = self.nodes.iter().filter(gone).map(|it| it.did).collect();
        let keeps = members.values().find_map(|member| {
            let first = member.successors.first();
            let mut neighbours = first.into_iter().chain(&member.predecessor);
            let found = neighbours.find(|of| gone.contains(of))?;
            Some((member.did, *found))
        });
        if let Some((keeper, gone)) = keeps {
            let words = format!("{keeper} has {gone} for a neighbour, which is long gone");
            self.broke("who is gone is forgotten", words);
        }
    }

    /// What the ring lacks: neighbours that are wrong, and links to them.
    pub(super) fn ring_lacks(&self) -> Vec<String> {
        if self.config.topology != Topology::Ring {
            return Vec::new();
        }
        let members = self.members();
        let mut lacks = is_ideal(&members);
        for node in &self.nodes {
            let linked = node.linked();
            let Some(member) = members.get(&node.did) else {
                continue;
            };
            let neighbours = member.successors.iter().chain(&member.predecessor);
            for to in neighbours.filter(|to| !linked.contains(to)) {
                let number = node.number;
                lacks.push(format!("node {number} has no link to its neighbour {to}"));
            }
        }
        lacks
    }

    /// The nodes that are up and do not leave.
    fn members(&self) -> BTreeMap<Did, Member> {
        let members = self.nodes.iter().filter_map(member);
        members.map(|member| (member.did, member)).collect()
    }
}

fn member(node: &SimNode) -> Option<Member> {
    let running = node.running.as_ref().filter(|it| !it.leaving)?;
    let members = running.peer.ring()?.members();
    Some(Member {
        did: node.did,
        successors: members.successors().to_vec(),
        predecessor: members.predecessor(),
    })
}
