//! What is seen of a node's references.

use std::collections::BTreeMap;

use overlane_core::Did;
use overlane_relay::refs::table::{LinkView, Local, ObjectState};

use super::{RefState, References, Token};

/// Counts since the node started. Each only rises.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReferenceCounters {
    /// Commits that became durable.
    pub commits: u64,
    /// Epochs that began.
    pub begins: u64,
    /// Epochs that other nodes asked for, and did not get.
    pub refused_begins: u64,
    /// Calls that were taken.
    pub calls: u64,
    /// Calls that were refused as too many of one sender.
    pub calls_refused: u64,
    /// Answers that nobody waits for any more.
    pub answers_unwanted: u64,
    /// Tickets that led to a reference.
    pub tickets_redeemed: u64,
    /// Tickets that led nowhere.
    pub tickets_unknown: u64,
    /// Drops that freed a name.
    pub drops_executed: u64,
    /// Drops that had not seen the newest mention, and were ignored.
    pub drops_uninformed: u64,
    /// Names that a crossing mention brought back.
    pub resurrections: u64,
    /// Messages without a result that could not be answered.
    pub dead_letters: u64,
    /// Messages that a bound kept from their target.
    pub undeliverable: u64,
    /// Messages to what the peer knew takes none.
    pub soft_violations: u64,
    /// Frames that had been processed before.
    pub duplicates: u64,
    /// Frames that came before one that is missing.
    pub gaps: u64,
    /// Frames of another epoch, or of none.
    pub stale: u64,
    /// Epochs that ended, by code.
    pub ends: BTreeMap<&'static str, u64>,
}

/// A kept reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptView {
    /// Its number.
    pub id: Token,
    /// What it was kept with.
    pub note: Vec<u8>,
    /// Whether it is an object of this node's own.
    pub own: bool,
    /// The node whose object it is, as long as that is known.
    pub owner: Option<Did>,
    /// The nodes that hold it, if it is this node's.
    pub holders: Vec<Did>,
    /// What it is worth.
    pub state: RefState,
    /// How many tickets lead to it.
    pub tickets: usize,
    /// Whether its calls are answered now.
    pub attached: bool,
}

/// A node that references are shared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FarView {
    /// The node.
    pub did: Did,
    /// Whether a link leads there.
    pub linked: bool,
    /// The numbers of the epoch that lasts, if one does.
    pub link: Option<LinkView>,
}

impl References {
    /// Counts since the start.
    pub fn counters(&self) -> &ReferenceCounters {
        &self.counters
    }

    /// Why the store failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Services that are offered.
    pub fn exports(&self) -> usize {
        self.attached.len()
    }

    /// Calls that are not answered.
    pub fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// How many objects and promises are known.
    pub fn known(&self) -> (usize, usize) {
        self.tables.known()
    }

    /// The nodes that references are shared with.
    pub fn fars(&self) -> impl Iterator<Item = FarView> {
        self.book.iter().map(|(link, far)| FarView {
            did: far.did,
            linked: far.linked,
            link: self.tables.link(link),
        })
    }

    /// Everything that is kept, in the order it was kept.
    pub fn kept(&self) -> impl Iterator<Item = KeptView> {
        self.kept.iter().map(|(&id, row)| {
            let own = self.own(row.local);
            let did = |link| self.book.far(link).map(|far| far.did);
            let owner = match row.local {
                Local::Object(object) if own.is_none() => self.tables.owner(object).and_then(did),
                _ => None,
            };
            let holders = own.map(|object| self.tables.importers(object).filter_map(did).collect());
            KeptView {
                id,
                note: row.note.clone(),
                own: own.is_some(),
                owner,
                holders: holders.unwrap_or_default(),
                state: self.kept_state(row.local, row),
                tickets: row.tickets.len(),
                attached: own.is_some_and(|object| self.attached.contains(&object)),
            }
        })
    }

    /// One that was taken back for good, and whose object is forgotten, is remembered here.
    fn kept_state(&self, local: Local, row: &super::rows::KeptRow) -> RefState {
        let known = match local {
            Local::Object(object) => self.tables.object(object),
            Local::Promise(_) => Some(ObjectState::Live),
        };
        match (known, &row.taken_back) {
            (None, Some((reason, said))) => RefState::Broken(super::TakenBack::new(*reason, said)),
            _ => self.state(local),
        }
    }
}
