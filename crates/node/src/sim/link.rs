//! A simulated link: two production sessions, and four ordered channels each way between them.

use std::collections::VecDeque;

use overlane_core::Class;
use overlane_core::lane::{PerLane, Session, SessionConfig};

use super::node::NETWORK;
use crate::link::LinkId;

/// Messages that a channel's send buffer takes.
const SEND_BUFFER: usize = 64;

/// A link, until both its ends are over.
#[derive(Debug)]
pub(super) struct SimLink {
    pub(super) ends: [Option<End>; 2],
    /// What is under way from each side.
    pub(super) ways: [PerLane<Channel>; 2],
    /// The nodes at its ends; the first dialled.
    pub(super) nodes: [usize; 2],
    /// The offer came by way of the ring.
    pub(super) by_ring: bool,
}

/// One end of a link.
#[derive(Debug)]
pub(super) struct End {
    /// Its number at its node.
    pub(super) id: LinkId,
    pub(super) session: Session,
    /// The node was told that it is up.
    pub(super) told: bool,
    /// Channels that this end has opened; what comes before vanishes.
    pub(super) opened: PerLane<bool>,
    /// When it is next woken, if it is.
    pub(super) wake_ms: Option<u64>,
    /// What the other side's clock showed, and when by this node's steady clock that was heard.
    pub(super) witness: Option<(u64, u64)>,
    /// Why its node ended it.
    pub(super) fate: Option<String>,
}

/// One class's channel in one direction.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// Messages that the send buffer has not taken.
    pub(super) offered: VecDeque<Vec<u8>>,
    /// Messages under way, and when each arrives.
    pub(super) under_way: VecDeque<(u64, Vec<u8>)>,
    /// An arrival is scheduled.
    pub(super) scheduled: bool,
}

impl End {
    pub(super) fn new(id: LinkId, jitter_seed: u64, steady_ms: u64) -> Self {
        let mut config = SessionConfig::new(NETWORK);
        config.jitter_seed = jitter_seed;
        Self {
            id,
            session: Session::new(config, steady_ms),
            told: false,
            opened: PerLane::default(),
            wake_ms: None,
            witness: None,
            fate: None,
        }
    }
}

impl SimLink {
    pub(super) fn end(&mut self, side: usize) -> Option<&mut End> {
        self.ends.get_mut(side)?.as_mut()
    }

    pub(super) fn node(&self, side: usize) -> usize {
        let [one, other] = self.nodes;
        if side == 0 { one } else { other }
    }

    pub(super) fn channel(&mut self, from: usize, class: Class) -> &mut Channel {
        let [one, other] = &mut self.ways;
        let way = if from == 0 { one } else { other };
        way.of_mut(class)
    }

    /// Nothing of what this side sent arrives any more.
    pub(super) fn drop_way(&mut self, from: usize) {
        for class in Class::ALL {
            let channel = self.channel(from, class);
            channel.offered.clear();
            channel.under_way.clear();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(Option::is_none)
    }
}

impl Channel {
    /// Whether the send buffer takes another message.
    pub(super) fn has_room(&self) -> bool {
        self.under_way.len() < SEND_BUFFER
    }
}
