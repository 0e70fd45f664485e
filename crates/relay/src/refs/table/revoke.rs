//! Taking back. Soft: messages are refused from now on, the identity stays. Hard: the identity goes
//! as well, and naming it is taboo.
//!
//! Law (always answered): a message that was sent before its sender saw the REVOKE is answered with
//! the error; so the error is kept until every importer has acknowledged. The reason code is kept as
//! long as the object is known, for those it is introduced to later.
//! Law (monotone): what was seen to be revoked is never seen otherwise; a name that comes back from a
//! crossing DROP comes back revoked.

use super::link::Due;
use super::local::{Object, Owner};
use super::mutant::Mutant;
use super::names::{Id, LinkId, Local, LocalObject};
use super::tx::Tx;
use crate::refs::error::{LinkError, SendError};
use crate::refs::wire::{Hardness, Kind, Reason, Revocation};
use std::sync::Arc;

impl Tx<'_> {
    /// S9 and S10: the application takes an object of its own back.
    pub(super) fn revoke(
        &mut self,
        object: LocalObject,
        hardness: Hardness,
        reason: Reason,
        error: Arc<[u8]>,
    ) -> Result<(), SendError> {
        let row = self.object(object).ok_or(SendError::NotHeld)?;
        if row.owner != Owner::App {
            return Err(SendError::NotOwner);
        }
        if !adds(row.revoked(), hardness) {
            return Err(SendError::AlreadyRevoked);
        }
        self.tables.objects.update(&object, |row| {
            row.take_back(hardness, reason, error);
        });
        self.spread(object, hardness);
        self.keep_needed_error(object);
        Ok(())
    }

    /// Has every importer told.
    fn spread(&mut self, object: LocalObject, hardness: Hardness) {
        let links: Vec<_> = self.tables.links.keys().copied().collect();
        for link in links {
            let Some(id) = self.exported_on(link, object) else {
                continue;
            };
            let Some(table) = self.link_mut(link) else {
                continue;
            };
            table.due.insert(Due::Revoke(object), ());
            let needed = table.entries.update(&id, |entry| {
                entry.revoked = Some(hardness);
                std::mem::replace(&mut entry.needs_error, true)
            });
            if needed == Some(false) {
                self.tables.objects.update(&object, Object::error_is_needed);
            }
        }
    }

    /// The peer has processed our REVOKE.
    pub(super) fn revocation_seen(&mut self, link: LinkId, id: Id, hardness: Hardness) {
        let deletes = hardness == Hardness::Hard || self.is(Mutant::SoftDeletes);
        let Some(table) = self.link_mut(link) else {
            return;
        };
        let Some(entry) = table.entries.get(&id).copied() else {
            // A DROP was faster.
            return;
        };
        if deletes {
            self.forget_export(link, id);
        } else if entry.revoked == Some(Hardness::Soft) {
            table.entries.update(&id, |entry| entry.needs_error = false);
            if let (true, Local::Object(object)) = (entry.needs_error, entry.local()) {
                self.error_not_needed(object);
            }
        }
    }

    /// One link less needs the error of an object.
    pub(super) fn error_not_needed(&mut self, object: LocalObject) {
        self.tables.objects.update(&object, Object::error_was_seen);
        self.keep_needed_error(object);
    }

    fn keep_needed_error(&mut self, object: LocalObject) {
        self.tables.objects.update(&object, Object::forget_error);
    }

    /// A REVOKE of the peer.
    pub(super) fn receive_revocation(
        &mut self,
        link: LinkId,
        revocation: Revocation,
    ) -> Result<(), LinkError> {
        let Revocation {
            object: wire,
            hardness,
            reason,
            error,
        } = revocation;
        let id = Id::read(wire);
        if wire.kind != Kind::Object {
            return Err(LinkError::NotExported(wire));
        }
        let (forgets, careless) = (
            self.is(Mutant::TombstoneForgets),
            self.is(Mutant::NoTombstones),
        );
        let given = self.was_given(link, id);
        let Some(table) = self.link_mut(link) else {
            return Ok(());
        };
        if let Some(tombstone) = table.tombstones.get(&id).copied() {
            if !adds(tombstone.revoked, hardness) {
                return Err(LinkError::RepeatedRevoke(wire));
            }
            if !forgets {
                table
                    .tombstones
                    .update(&id, |row| row.revoked = Some((hardness, reason)));
            }
            return Ok(());
        }
        let Some(object) = self.imported(link, id) else {
            if careless && given {
                return Ok(());
            }
            return Err(LinkError::NotExported(wire));
        };
        if !adds(self.object(object).and_then(Object::revoked), hardness) {
            return Err(LinkError::RepeatedRevoke(wire));
        }
        if hardness == Hardness::Hard
            && let Some(table) = self.link_mut(link)
        {
            table.due.remove(&Due::Drop(id));
            table.leave(id);
        }
        self.lose(object, hardness, reason, error);
        Ok(())
    }

    /// An imported object was taken back: the application and those we passed it to are told.
    pub(super) fn lose(
        &mut self,
        object: LocalObject,
        hardness: Hardness,
        reason: Reason,
        error: Arc<[u8]>,
    ) {
        self.tables.objects.update(&object, |row| {
            row.take_back(hardness, reason, error);
            if hardness == Hardness::Hard {
                row.owner = Owner::Gone;
            }
        });
        self.check(object.into());
        self.tell_state(object.into());
        self.spread(object, hardness);
    }
}

/// Whether a revocation takes more than the one before.
fn adds(before: Option<(Hardness, Reason)>, now: Hardness) -> bool {
    before.is_none_or(|(before, _)| before < now)
}
