//! References as a store kept them: what the process that ended held and did not keep is let go of.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use overlane_core::wire::cbor::{CborError, from_slice};
use overlane_core::{Coded, Did, Fault};
use overlane_relay::refs::Limits;
use overlane_relay::refs::store::Row;
use overlane_relay::refs::table::{LoadError, Local, LocalObject, Tables};
use overlane_relay::refs::wire::{Hardness, Reason};

use super::book::{Book, Far};
use super::calls::OpenCall;
use super::rows::{FarRow, Key, Numbers};
use super::{Now, ReferenceCounters, References};

/// Why what a store kept are no references.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The rows of the tables.
    #[error("the tables of references cannot be trusted: {0}")]
    Tables(#[from] LoadError),
    /// A row of the node's.
    #[error("a row of the store of references does not decode: {0}")]
    Row(CborError),
    /// A row speaks of what the tables do not know.
    #[error("a row of the store of references speaks of {what} that its tables do not know")]
    Stray {
        /// Of what.
        what: &'static str,
    },
}

impl Coded for OpenError {
    fn code(&self) -> &'static str {
        "refs/store_corrupt"
    }

    fn fault(&self) -> Fault {
        Fault::StoreFailedClosed
    }
}

/// What the reason [`Reason::SERVICE_ENDED`] is told with.
const SERVICE_ENDED: &[u8] = b"the program that offered it ended";

impl References {
    /// The references of the node `did` that a store kept in these rows, or none to begin with.
    ///
    /// # Errors
    /// The rows are no references, or contradict each other. Nothing of them may be used then.
    pub fn open(did: Did, limits: Limits, rows: &[Row], now: Now) -> Result<Self, OpenError> {
        let mut of_node = Vec::new();
        let mut of_tables = Vec::new();
        for (key, value) in rows {
            match Key::read(key) {
                Some(key) => of_node.push((key.map_err(OpenError::Row)?, value)),
                None => of_tables.push((key.as_slice(), value.as_slice())),
            }
        }
        let mut references = Self {
            did,
            limits,
            tables: Tables::load(limits, of_tables)?,
            base_ms: now.wall_ms.saturating_sub(now.steady_ms),
            linked: BTreeSet::new(),
            book: Book::default(),
            strays: 0,
            numbers: Numbers::default(),
            kept: BTreeMap::new(),
            tickets: BTreeMap::new(),
            calls: BTreeMap::new(),
            calls_of: BTreeMap::new(),
            attached: BTreeSet::new(),
            said: BTreeMap::new(),
            changes: BTreeMap::new(),
            held: Vec::new(),
            writing: None,
            next_commit: 0,
            failure: None,
            out: VecDeque::new(),
            counters: ReferenceCounters::default(),
        };
        for (key, value) in of_node {
            references.load(key, value).map_err(OpenError::Row)?;
        }
        references.settle_with_the_past(now)?;
        Ok(references)
    }

    fn load(&mut self, key: Key, value: &[u8]) -> Result<(), CborError> {
        match key {
            Key::Numbers => self.numbers = from_slice(value)?,
            Key::Far(link) => {
                let FarRow { did, floor, door } = from_slice(value)?;
                self.book.load(link, Far::new(did, floor, door));
            }
            Key::Kept(id) => {
                let row: super::rows::KeptRow = from_slice(value)?;
                for &digest in &row.tickets {
                    self.tickets.insert(digest, id);
                }
                if let (Local::Object(object), Some((reason, said))) = (row.local, &row.taken_back)
                {
                    let said = said.as_slice().into();
                    self.said.insert(object, (*reason, said));
                }
                self.kept.insert(id, row);
            }
            Key::Call(id) => {
                let row: super::rows::CallRow = from_slice(value)?;
                *self.calls_of.entry(row.from).or_default() += 1;
                self.calls.insert(id, OpenCall { row, begun: false });
            }
        }
        Ok(())
    }

    /// What the process that ended had, and nobody kept, is let go of; what it alone answered for is
    /// taken back.
    fn settle_with_the_past(&mut self, now: Now) -> Result<(), OpenError> {
        let now_ms = self.at(now);
        let links: Vec<_> = self.tables.links().collect();
        for link in links {
            if self.book.far(link).is_none_or(|far| far.door.is_none()) {
                return Err(OpenError::Stray { what: "a link" });
            }
            let step = self.tables.handle_disconnected(link);
            self.follow(step, now_ms);
        }
        let expected = self.expected_handles();
        let found: Vec<_> = self.tables.concerns().collect();
        let known: BTreeSet<_> = found.iter().map(|found| found.local).collect();
        if expected.keys().any(|local| !known.contains(local)) {
            return Err(OpenError::Stray {
                what: "a reference",
            });
        }
        let kept: BTreeSet<_> = self.kept.values().map(|row| row.local).collect();
        for concern in found {
            let local = concern.local;
            let due = expected.get(&local).copied().unwrap_or_default();
            if concern.handles < due {
                return Err(OpenError::Stray { what: "handles" });
            }
            let gone = concern.own && !kept.contains(&local);
            if let Local::Object(object) = local
                && gone
                && self.numbers.door != Some(object)
            {
                self.end_service(object, now_ms);
            }
            self.release(local, concern.handles - due, now_ms);
        }
        // Nobody is linked yet, and nobody waits for anything.
        self.held.clear();
        Ok(())
    }

    fn end_service(&mut self, object: LocalObject, now_ms: u64) {
        let of_it = self
            .calls
            .iter()
            .filter(|(_, call)| call.row.target == object);
        let of_it: Vec<_> = of_it.map(|(&id, _)| id).collect();
        let (hardness, reason) = (Hardness::Soft, Reason::SERVICE_ENDED);
        // One that was taken back before stays so.
        if let Ok(step) = self
            .tables
            .revoke(object, hardness, reason, SERVICE_ENDED, now_ms)
        {
            self.follow(step, now_ms);
        }
        for call in of_it {
            let ended = overlane_relay::refs::wire::Outcome::Broken {
                reason,
                error: SERVICE_ENDED.into(),
            };
            let _ = self.answer(call, ended, now_ms);
        }
    }

    /// The handles that outlived the process: of what is kept, of calls that are not answered, of
    /// doors.
    fn expected_handles(&self) -> BTreeMap<Local, u32> {
        let kept = self.kept.values().map(|row| row.local);
        let calls = self
            .calls
            .values()
            .flat_map(|call| call.row.body.refs().copied());
        let doors = self.book.iter().filter_map(|(_, far)| far.door);
        let doors = doors.chain(self.numbers.door).map(Local::Object);
        let mut expected = BTreeMap::new();
        for local in kept.chain(calls).chain(doors) {
            *expected.entry(local).or_default() += 1;
        }
        expected
    }
}
