//! Connection slots: who a new receiver stream is charged to.
//!
//! Law (slots): a party with any number of origins and `k` connections can have new streams
//! refused on those `k` slots only. Origins are free to mint, so no bound is per origin; every
//! stream is charged to the connection that brought it, and each slot has a floor of its own that
//! no other slot can use. A stream stays charged to its slot after its connection leaves, so
//! rotating connections never grows the table. Source: seed 1, "Receiver streams by connection
//! slot".

use std::fmt;

use crate::ids::Did;

/// Successors a node keeps by default.
pub const SUCCESSORS: u16 = 3;

/// Slots of a node with the default successors.
pub const SLOTS: u16 = slot_count(SUCCESSORS);

/// Streams a slot may be charged whatever the others are.
pub const SLOT_FLOOR: usize = 32;

/// Streams that slots past their floors share.
pub const SLOT_POOL: usize = 3_328;

/// Streams that mail out of this node's own relay inbox may be charged.
pub const INBOX_SHARE: usize = 768;

/// Streams that this node's own out-of-band signalling may be charged.
pub const OWN_SHARE: usize = 1_024;

/// Streams a table holds at most, and records it keeps as bad among them.
pub const STREAM_CAPACITY: usize = 4 * 4_096;

const _: () = assert!(SLOTS == 328);
const _: () = assert!(
    SLOTS as usize * SLOT_FLOOR + SLOT_POOL + INBOX_SHARE + OWN_SHARE <= STREAM_CAPACITY,
    "the shares fit the table"
);

/// Slots of a node: connections of a ring with 160 fingers and `successors` successors, both ways.
pub const fn slot_count(successors: u16) -> u16 {
    2 * (160 + successors + 1)
}

/// A connection's place in this node's accounts. Numbers are this node's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot's number.
    pub const fn number(self) -> u16 {
        self.0
    }

    pub(super) const fn restored(number: u16) -> Self {
        Self(number)
    }
}

/// Who a new stream is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Introducer {
    /// The connection that delivered its first transaction.
    Slot(Slot),
    /// Mail out of this node's own relay inbox.
    Inbox,
    /// This node itself: out-of-band connection signalling.
    Own,
}

impl fmt::Display for Introducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(Slot(number)) => write!(f, "slot {number}"),
            Self::Inbox => f.write_str("the inbox"),
            Self::Own => f.write_str("this node"),
        }
    }
}

/// Which bound a new stream would pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The slot's floor and its fair claim on the pool.
    FairClaim,
    /// The pool itself.
    Pool,
    /// The inbox's share.
    Inbox,
    /// This node's own share.
    Own,
    /// The table, bad records included.
    Table,
}

/// A new stream refused: its introducer's share is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{introducer} holds {held} streams, its {} is {limit}: it ends as they are spent", share.name())]
pub struct ShareFull {
    /// Whose share.
    pub introducer: Introducer,
    /// Which bound.
    pub share: Share,
    /// What the introducer, or what the bound spans, holds already.
    pub held: usize,
    /// The bound.
    pub limit: usize,
}

impl Share {
    /// The bound's one name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FairClaim => "fair claim",
            Self::Pool => "shared pool",
            Self::Inbox => "inbox share",
            Self::Own => "own share",
            Self::Table => "table",
        }
    }
}

/// The accounts of every introducer.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    /// By slot number: streams charged, and the peer connected there.
    slots: Vec<Account>,
    inbox: usize,
    own: usize,
    /// Streams charged to slots this node no longer has. They count in the table alone.
    beyond: usize,
    over_floor: usize,
    pool: usize,
    connected: usize,
    fullest_ever: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Account {
    streams: usize,
    peer: Option<Did>,
}

impl Slots {
    pub(super) fn new(count: u16) -> Self {
        Self {
            slots: vec![Account::default(); usize::from(count)],
            inbox: 0,
            own: 0,
            beyond: 0,
            over_floor: 0,
            pool: 0,
            connected: 0,
            fullest_ever: 0,
        }
    }

    /// The same connections in the same slots, charged with nothing.
    pub(super) fn without_charges(&self) -> Self {
        let count = u16::try_from(self.slots.len()).unwrap_or(u16::MAX);
        let mut fresh = Self::new(count);
        for (to, from) in fresh.slots.iter_mut().zip(&self.slots) {
            to.peer = from.peer;
        }
        fresh.connected = self.connected;
        fresh.fullest_ever = self.fullest_ever;
        fresh
    }

    /// Gives a connection the cleanest free slot: the one that is charged least.
    pub(super) fn claim(&mut self, peer: Did) -> Option<Slot> {
        let (number, account) = (0u16..)
            .zip(self.slots.iter_mut())
            .filter(|(_, account)| account.peer.is_none())
            .min_by_key(|(_, account)| account.streams)?;
        account.peer = Some(peer);
        self.connected += 1;
        Some(Slot(number))
    }

    /// Frees a connection's slot. What is charged to it stays.
    pub(super) fn release(&mut self, slot: Slot) {
        let held = self.account_mut(slot).and_then(|it| it.peer.take());
        self.connected -= usize::from(held.is_some());
    }

    /// The peer connected in this slot.
    pub(super) fn peer(&self, slot: Slot) -> Option<Did> {
        self.slots.get(usize::from(slot.0))?.peer
    }

    /// Whether one more stream may be charged; `used` places of the table are taken.
    pub(super) fn check(&self, introducer: Introducer, used: usize) -> Result<(), ShareFull> {
        let refuse = |share, held, limit| {
            Err(ShareFull {
                introducer,
                share,
                held,
                limit,
            })
        };
        match introducer {
            Introducer::Inbox if self.inbox >= INBOX_SHARE => {
                return refuse(Share::Inbox, self.inbox, INBOX_SHARE);
            }
            Introducer::Own if self.own >= OWN_SHARE => {
                return refuse(Share::Own, self.own, OWN_SHARE);
            }
            Introducer::Slot(slot) => {
                let held = self.charged(introducer);
                let claim = SLOT_FLOOR + self.fair_claim(slot);
                if held >= claim {
                    return refuse(Share::FairClaim, held, claim);
                }
                if held >= SLOT_FLOOR && self.pool >= SLOT_POOL {
                    return refuse(Share::Pool, self.pool, SLOT_POOL);
                }
            }
            Introducer::Inbox | Introducer::Own => {}
        }
        if used >= STREAM_CAPACITY {
            return refuse(Share::Table, used, STREAM_CAPACITY);
        }
        Ok(())
    }

    /// What the slot may take of the pool, were it over its floor.
    fn fair_claim(&self, slot: Slot) -> usize {
        let counted = self.charged(Introducer::Slot(slot)) > SLOT_FLOOR;
        SLOT_POOL.div_ceil(self.over_floor + usize::from(!counted))
    }

    pub(super) fn charge(&mut self, introducer: Introducer) {
        match introducer {
            Introducer::Inbox => self.inbox += 1,
            Introducer::Own => self.own += 1,
            Introducer::Slot(slot) => match self.account_mut(slot) {
                None => self.beyond += 1,
                Some(account) => {
                    account.streams += 1;
                    let streams = account.streams;
                    self.pool += usize::from(streams > SLOT_FLOOR);
                    self.over_floor += usize::from(streams == SLOT_FLOOR + 1);
                    self.fullest_ever = self.fullest_ever.max(streams);
                }
            },
        }
    }

    pub(super) fn discharge(&mut self, introducer: Introducer) {
        match introducer {
            Introducer::Inbox => self.inbox -= 1,
            Introducer::Own => self.own -= 1,
            Introducer::Slot(slot) => match self.account_mut(slot) {
                None => self.beyond -= 1,
                Some(account) => {
                    let streams = account.streams;
                    account.streams -= 1;
                    self.pool -= usize::from(streams > SLOT_FLOOR);
                    self.over_floor -= usize::from(streams == SLOT_FLOOR + 1);
                }
            },
        }
    }

    /// How many streams an introducer is charged.
    pub(super) fn charged(&self, introducer: Introducer) -> usize {
        match introducer {
            Introducer::Inbox => self.inbox,
            Introducer::Own => self.own,
            Introducer::Slot(slot) => self
                .slots
                .get(usize::from(slot.0))
                .map_or(self.beyond, |account| account.streams),
        }
    }

    /// How many slots there are.
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }

    /// How many slots hold a connection.
    pub(super) fn connected(&self) -> usize {
        self.connected
    }

    /// How many streams the pool is charged.
    pub(super) fn pool(&self) -> usize {
        self.pool
    }

    /// The most streams any slot is charged.
    pub(super) fn fullest(&self) -> usize {
        let charged = self.slots.iter().map(|account| account.streams);
        charged.max().unwrap_or(0)
    }

    /// The most streams any slot has been charged.
    pub(super) const fn fullest_ever(&self) -> usize {
        self.fullest_ever
    }

    fn account_mut(&mut self, slot: Slot) -> Option<&mut Account> {
        self.slots.get_mut(usize::from(slot.0))
    }
}
