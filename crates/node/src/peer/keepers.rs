//! Keepers: machines beside the peer that keep things for others, in stores whose every call waits
//! for a disk.
//!
//! A keeper runs on a thread of its own (`runtime::keeper`), and the peer carries what it hears and
//! says: application transactions in a namespace of its own.
//!
//! Law **its own namespace**: what comes under a keeper's namespace never reaches the application, and
//! is dropped and counted where no such keeper is.
//!
//! Law **held back**: a message holds its place on the application's side until the keeper took it,
//! which it does once what came of it is durable. A node that sends faster than this one's disk
//! writes is held back as by a slow application.

use std::collections::{BTreeMap, VecDeque};

use overlane_core::replay::Now;
use overlane_core::transaction::Data;
use overlane_core::{Class, Coded, Did};

use super::lanes::InboundLane;
use super::{Delivery, Effect, Peer, Receipt, SendError};

/// A machine beside the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keeper {
    /// The logs of groups.
    Groups,
}

impl Keeper {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Groups => "groups",
        }
    }

    /// The namespace that its messages travel in.
    pub const fn namespace(self) -> &'static str {
        match self {
            Self::Groups => super::groups::GROUPS_NAMESPACE,
        }
    }
}

/// What a keeper hears.
#[derive(Debug)]
pub enum Heard {
    /// A message in its namespace was admitted. It holds its place until
    /// [`Peer::handle_keeper_took`].
    Message {
        /// The message.
        delivery: Box<Delivery>,
        /// The linked peer that brought it.
        by: Did,
    },
    /// A node is linked, or linked once more.
    Linked(Did),
    /// No link leads to a node any more.
    Unlinked(Did),
    /// A message of the keeper's is in a lane, or did not come so far.
    Said {
        /// Whom it was for.
        to: Did,
        /// The code of why it was not sent.
        result: Result<(), &'static str>,
    },
}

/// The keepers that are there, each with the lanes whose messages hold a place, in their order.
#[derive(Debug, Default)]
pub(super) struct Keepers {
    attached: BTreeMap<Keeper, VecDeque<InboundLane>>,
}

impl Keepers {
    /// The keeper that is there for this namespace.
    pub(super) fn of(&self, namespace: &str) -> Option<Keeper> {
        let mut keepers = self.attached.keys();
        keepers.find(|it| it.namespace() == namespace).copied()
    }
}

impl Peer {
    /// Carries the messages of a keeper from now on. `seed` is drawn at random: the names of
    /// transactions come from it.
    pub fn attach_keeper(&mut self, keeper: Keeper, seed: [u8; 32]) {
        self.keepers.attached.entry(keeper).or_default();
        self.name_sends(seed);
    }

    /// A keeper runs no more: what is for it is dropped, and its places are free.
    pub fn detach_keeper(&mut self, keeper: Keeper, now: Now) {
        for lane in self.keepers.attached.remove(&keeper).unwrap_or_default() {
            self.free_place(lane, 0, now);
        }
        self.settle(now);
    }

    /// A keeper took the oldest of the messages it was given.
    pub fn handle_keeper_took(&mut self, keeper: Keeper, now: Now) {
        let places = self.keepers.attached.get_mut(&keeper);
        if let Some(lane) = places.and_then(VecDeque::pop_front) {
            self.free_place(lane, 0, now);
        }
        self.settle(now);
    }

    /// Sends what a keeper says; what becomes of it comes back as [`Heard::Said`].
    pub fn say_for(&mut self, keeper: Keeper, to: Did, data: Data, now: Now) {
        self.say(Some(keeper), to, data, now);
        self.settle(now);
    }

    /// Gives a keeper what is for it.
    pub(super) fn give_keeper(
        &mut self,
        keeper: Keeper,
        admitted: Delivery,
        lane: InboundLane,
        bytes: u64,
    ) {
        if let Some(places) = self.keepers.attached.get_mut(&keeper) {
            places.push_back(lane);
        }
        self.dispatch.free_bytes(Class::Application, lane.0, bytes);
        let delivery = Box::new(admitted);
        let by = lane.0;
        let heard = Heard::Message { delivery, by };
        self.effects.push_back(Effect::Keeper(keeper, heard));
    }

    pub(super) fn keepers_linked(&mut self, peer: Did) {
        self.tell_keepers(|| Heard::Linked(peer));
    }

    pub(super) fn keepers_unlinked(&mut self, peer: Did) {
        if self.links.to(peer).is_none() {
            self.tell_keepers(|| Heard::Unlinked(peer));
        }
    }

    pub(super) fn keeper_said(
        &mut self,
        keeper: Keeper,
        to: Did,
        result: &Result<Receipt, SendError>,
    ) {
        let result = result.as_ref().map(drop).map_err(Coded::code);
        if self.keepers.attached.contains_key(&keeper) {
            let said = Heard::Said { to, result };
            self.effects.push_back(Effect::Keeper(keeper, said));
        }
    }

    fn tell_keepers(&mut self, heard: impl Fn() -> Heard) {
        let keepers = self.keepers.attached.keys();
        let told = keepers.map(|keeper| Effect::Keeper(*keeper, heard()));
        self.effects.extend(told);
    }
}
