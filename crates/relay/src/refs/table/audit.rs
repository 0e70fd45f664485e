//! The invariants that one node can check of itself, by counting everything again. A checker runs
//! this after every step; an operator's `doctor` may too.

use super::Tables;
use super::link::{LinkTable, Pending, Way};
use super::local::{Decider, Object, Owner, Promise, State};
use super::names::{By, Id, LinkId, Local, LocalObject, LocalPromise};
use crate::refs::wire::{Hardness, Kind};
use std::collections::BTreeMap;

/// Tables that contradict themselves, which no input may bring about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{law}: {found}")]
pub struct Inconsistency {
    /// The invariant that does not hold.
    pub law: &'static str,
    /// Where.
    pub found: String,
}

/// References found by looking: links, outcomes, pins.
type Found = BTreeMap<Local, (u32, u32, u32)>;

impl Tables {
    /// Counts everything again.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn audit(&self) -> Result<(), Inconsistency> {
        for (&link, table) in &self.links {
            table.audit(link)?;
            self.audit_entries(link, table)?;
        }
        let next = self.next.get();
        let last_object = self
            .objects
            .iter()
            .next_back()
            .map_or(0, |(name, _)| name.0);
        let last_promise = self
            .promises
            .iter()
            .next_back()
            .map_or(0, |(name, _)| name.0);
        require(
            "I4 every local name was given in its turn",
            last_object <= next.object && last_promise <= next.promise,
            || format!("{next:?}, object {last_object}, promise {last_promise}"),
        )?;
        let found = self.find_refs();
        for (&name, row) in self.objects.iter() {
            self.audit_object(name, row, &found)?;
        }
        for (&name, row) in self.promises.iter() {
            self.audit_promise(name, row, &found)?;
        }
        Ok(())
    }

    fn find_refs(&self) -> Found {
        let mut found = Found::new();
        for table in self.links.values() {
            for (_, entry) in table.entries.iter() {
                if entry.way != Way::Import {
                    found.entry(entry.local()).or_default().0 += 1;
                }
            }
        }
        for (&name, promise) in self.promises.iter() {
            if let State::Resolved(outcome) = &promise.state {
                for &local in outcome.refs() {
                    found.entry(local).or_default().1 += 1;
                }
            }
            for message in promise.queue.iter().chain(&promise.held) {
                for &local in message.body.refs() {
                    found.entry(local).or_default().2 += 1;
                }
            }
            let holds = u32::from(promise.hold.is_some());
            let stands_in = u32::from(promise.followed_by.is_some());
            found.entry(name.into()).or_default().2 += holds + stands_in;
        }
        found
    }

    fn audit_object(
        &self,
        name: LocalObject,
        row: &Object,
        found: &Found,
    ) -> Result<(), Inconsistency> {
        let local = name.into();
        let refs = row.refs;
        let counted = (refs.links, refs.data, refs.pins);
        require(
            "I15 counts are exact",
            found.get(&local).copied().unwrap_or_default() == counted,
            || format!("{local:?}: {refs:?}, found {:?}", found.get(&local)),
        )?;
        let needing = self.links.values().filter(|table| {
            let id = table.by_local.get(&local.into());
            id.and_then(|id| table.entries.get(id))
                .is_some_and(|entry| entry.needs_error)
        });
        let needing = needing.count() as u32;
        require(
            "I7 an error is kept exactly as long as a link needs it",
            needing == row.error_needed()
                && (row.owner != Owner::App || row.error().is_some() == (needing > 0)),
            || format!("{local:?}: {needing} links need its error, {row:?}"),
        )?;
        let named = match row.owner {
            Owner::Link(link) => self
                .links
                .get(&link)
                .is_some_and(|table| table.by_local.contains(&local.into())),
            Owner::App | Owner::Gone => !refs.is_zero(),
        };
        require("I15 nothing is kept for nobody", named, || {
            format!("{local:?}: {row:?}")
        })
    }

    fn audit_promise(
        &self,
        name: LocalPromise,
        row: &Promise,
        found: &Found,
    ) -> Result<(), Inconsistency> {
        let local = name.into();
        let refs = row.refs;
        let counted = (refs.links, refs.data, refs.pins);
        require(
            "I15 counts are exact",
            found.get(&local).copied().unwrap_or_default() == counted,
            || format!("{local:?}: {refs:?}, found {:?}", found.get(&local)),
        )?;
        let kept = match &row.state {
            State::Unresolved(Decider::App) => true,
            State::Unresolved(Decider::Link(link)) => self
                .links
                .get(link)
                .is_some_and(|table| table.by_local.contains(&local.into())),
            State::Resolved(_) => !refs.is_zero(),
        };
        require("I15 nothing is kept for nobody", kept, || {
            format!("{local:?}: {row:?}")
        })?;
        let held = row.hold.is_none_or(|(link, seq)| {
            self.links
                .get(&link)
                .is_some_and(|table| table.holds.contains(&(seq, name)))
        });
        require("L4 a hold ends with an acknowledgement", held, || {
            format!("{local:?}: {row:?}")
        })
    }

    fn audit_entries(&self, link: LinkId, table: &LinkTable) -> Result<(), Inconsistency> {
        for (&id, entry) in table.entries.iter() {
            let there = match entry.local() {
                Local::Object(object) => self.objects.get(&object).is_some_and(|row| {
                    (entry.way == Way::Import) == (row.owner == Owner::Link(link))
                }),
                Local::Promise(promise) => self.promises.contains(&promise),
            };
            require("a name has something behind it", there, || {
                format!("link {link}: {id:?} {entry:?}")
            })?;
            let named = table.by_local.get(&entry.local().into()) == Some(&id);
            require(
                "I13 what is retiring is not named, everything else is",
                named != entry.retiring,
                || format!("link {link}: {id:?} {entry:?}"),
            )?;
        }
        Ok(())
    }
}

impl LinkTable {
    fn audit(&self, link: LinkId) -> Result<(), Inconsistency> {
        let head = self.head.get();
        require(
            "I9 nothing is acknowledged that was not sent",
            head.peer_acked <= head.sent && head.acked_by_frames <= head.peer_acked,
            || format!("link {link}: {head:?}"),
        )?;
        let settled = self
            .pending
            .first()
            .is_some_and(|(row, _)| row.0 <= head.peer_acked);
        let ahead = self.pending.iter().any(|(row, _)| row.0 > head.sent);
        require(
            "I10 every row waits for a frame that is under way",
            !settled && !ahead,
            || format!("link {link}: {head:?}, {:?}", self.pending),
        )?;
        let unacked = (head.sent.0 - head.peer_acked.0) as usize;
        require(
            "I16 the outbox holds what is unacknowledged, within its bound",
            self.outbox.len() == unacked
                && unacked <= self.limits.outbox_frames()
                && self.pending.len() <= self.limits.pending_rows(),
            || format!("link {link}: {} frames, {head:?}", self.outbox.len()),
        )?;
        let count = |way, by| {
            let these = self.entries.iter();
            let these = these.filter(|(id, entry)| {
                entry.way == way
                    && (way != Way::Promise || id.by() == by)
                    && (by == By::Us || !entry.retiring)
            });
            these.count() as u32
        };
        let buried = self.tombstones.iter();
        let buried = buried.filter(|(id, _)| id.kind() == Kind::Promise && id.by() == By::Us);
        let ours = count(Way::Promise, By::Us) + buried.count() as u32;
        let theirs = count(Way::Promise, By::Peer);
        require(
            "I15 the counts of a link are exact",
            head.exports == count(Way::Export, By::Us)
                && head.imports == count(Way::Import, By::Us)
                && head.our_promises == ours
                && head.peer_promises == theirs,
            || format!("link {link}: {head:?}"),
        )?;
        require(
            "I16 the tables are within what was agreed on",
            head.exports <= self.limits.exports.max(1)
                && head.imports <= self.limits.imports.max(1)
                && theirs <= self.limits.promises
                && self.by_local.len() <= self.entries.len(),
            || format!("link {link}: {head:?}"),
        )?;
        self.audit_ids(link)
    }

    fn audit_ids(&self, link: LinkId) -> Result<(), Inconsistency> {
        let head = self.head.get();
        let given = |id: &Id| match (id.by(), id.kind()) {
            (By::Us, Kind::Object) => id.number() < head.next_object,
            (By::Us, Kind::Promise) => id.number() < head.next_promise,
            (By::Peer, Kind::Object) => id.number() <= head.high_object,
            (By::Peer, Kind::Promise) => id.number() <= head.high_promise,
        };
        let known = self.entries.iter().map(|(id, _)| id);
        let all = known.chain(self.tombstones.iter().map(|(id, _)| id));
        let stray = all.copied().find(|id| !given(id));
        require(
            "I4 every name was introduced in its turn",
            stray.is_none(),
            || format!("link {link}: {stray:?}"),
        )?;
        let both = self
            .tombstones
            .iter()
            .find(|(id, _)| self.entries.contains(id));
        require(
            "a name is alive or buried, not both",
            both.is_none(),
            || format!("link {link}: {both:?}"),
        )?;
        let waits = |id: &Id| {
            self.pending.iter().any(|(_, row)| match row {
                Pending::RetirePromise(row) | Pending::DropSent(row) => row == id,
                Pending::Revoked(row, hardness) => row == id && *hardness == Hardness::Hard,
            })
        };
        let forgotten = self
            .entries
            .iter()
            .find(|(id, entry)| entry.retiring && !waits(id));
        require(
            "I3 what goes with an acknowledgement waits for one",
            forgotten.is_none()
                && self
                    .tombstones
                    .iter()
                    .all(|(id, tombstone)| waits(id) || tombstone.dropped > head.sent),
            || format!("link {link}: {forgotten:?}"),
        )
    }
}

fn require(
    law: &'static str,
    holds: bool,
    found: impl FnOnce() -> String,
) -> Result<(), Inconsistency> {
    if holds {
        return Ok(());
    }
    Err(Inconsistency {
        law,
        found: found(),
    })
}
