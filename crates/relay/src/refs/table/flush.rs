//! The end of a transaction: what is due is said, as far as the window allows, and frames get their
//! numbers.
//!
//! Law (split): an answer too large for a frame is sent in parts, of which only the last
//! acknowledges what caused it, and drops are in no part before that one: there they would be judged
//! as not having seen the newest mention, and leak.

use super::emit::{Group, Reach};
use super::link::{Due, Pending, Sent, Tombstone};
use super::local::{Decider, Object, Owner};
use super::mutant::Mutant;
use super::names::{Id, LinkId, Local, LocalObject, LocalPromise};
use super::step::Transmit;
use super::tx::Tx;
use crate::refs::error::SendError;
use crate::refs::wire::{
    Hardness, Numbered, Op, Outcome, REFS_PER_BODY_MAX, Reason, Resolution, Revocation, Seq,
};

impl Tx<'_> {
    /// Says what is due on every link that was touched, as far as its window allows.
    pub(super) fn flush(&mut self) {
        let links: Vec<_> = self.touched.iter().copied().collect();
        for link in links {
            self.flush_link(link);
        }
    }

    fn flush_link(&mut self, link: LinkId) {
        let Some(table) = self.link(link) else {
            return;
        };
        let due: Vec<_> = table.due.iter().map(|(&due, ())| due).collect();
        let mut drops = Vec::new();
        for due in due {
            let said = match due {
                Due::Revoke(object) => self.emit_revocation(link, object),
                Due::Resolve(promise) => self.emit_resolution(link, promise),
                Due::Drop(id) => {
                    if self.may_drop(link, id) {
                        drops.push(id);
                    }
                    continue;
                }
            };
            if said.is_err() {
                break;
            }
            if let Some(table) = self.link_mut(link) {
                table.due.remove(&due);
            }
        }
        for some in drops.chunks(REFS_PER_BODY_MAX) {
            if self.emit_drops(link, some).is_err() {
                break;
            }
        }
        self.seal(link, true);
    }

    fn emit_revocation(&mut self, link: LinkId, object: LocalObject) -> Result<(), SendError> {
        let mentions = self.is(Mutant::RevokeMentions);
        let forget = self.is(Mutant::HardForgets);
        self.emit(link, Reach::Caused, |tx, group| {
            let Some(row) = tx.object(object) else {
                return Ok(None);
            };
            let (Some((hardness, reason)), error) = (row.revoked(), row.error().cloned()) else {
                return Ok(None);
            };
            let seq = group.seq;
            let Some(table) = tx.link_mut(link) else {
                return Ok(None);
            };
            let Some(&id) = table.by_local.get(&object.into()) else {
                return Ok(None);
            };
            table.wait(seq, Pending::Revoked(id, hardness));
            if mentions {
                table
                    .entries
                    .update(&id, |entry| entry.last_mentioned = seq);
            }
            if forget && hardness == Hardness::Hard {
                tx.forget_export(link, id);
            }
            Ok(Some(Op::Revoke(vec![Revocation {
                object: id.written(),
                hardness,
                reason,
                error: error.unwrap_or_default(),
            }])))
        })
    }

    /// S8. What cannot be written within the bounds of a frame breaks the promise for this peer.
    fn emit_resolution(&mut self, link: LinkId, promise: LocalPromise) -> Result<(), SendError> {
        let at_once = self.is(Mutant::RetireAtOnce);
        let retire = |tx: &mut Self, group: &mut Group| {
            let seq = group.seq;
            let table = tx.link_mut(link)?;
            let id = *table.by_local.get(&promise.into())?;
            table.retire(id, seq);
            if at_once {
                tx.forget_promise(link, id);
            }
            Some(id)
        };
        let told = self.emit(link, Reach::Caused, |tx, group| {
            if let Some(id) = retire(tx, group) {
                group.named.insert(promise, id);
                group.unwritten.push_back((promise, id));
            }
            Ok(None)
        });
        match told {
            Err(SendError::WindowFull(_) | SendError::NoLink(_)) | Ok(()) => told,
            Err(_) => self.emit(link, Reach::Caused, |tx, group| {
                Ok(retire(tx, group).map(|id| {
                    Op::Resolve(vec![Resolution {
                        promise: id.written(),
                        outcome: Outcome::broken(Reason::UNDELIVERABLE),
                    }])
                }))
            }),
        }
    }

    /// Whether a name whose drop is due is still unused, and nothing that needs it is under way.
    fn may_drop(&mut self, link: LinkId, id: Id) -> bool {
        let careless = self.is(Mutant::DropInFlight);
        let Some(table) = self.link(link) else {
            return false;
        };
        let entry = table.entries.get(&id).copied();
        let acked = table.head.get().peer_acked;
        let unused = match entry.map(|entry| entry.local()) {
            Some(Local::Object(object)) => self
                .object(object)
                .is_some_and(|row| row.owner == Owner::Link(link) && row.refs.is_zero()),
            Some(Local::Promise(promise)) => self.promise(promise).is_some_and(|row| {
                let mut others = row.refs;
                others.links = others.links.saturating_sub(1);
                row.decider() == Some(Decider::Link(link)) && others.is_zero()
            }),
            None => false,
        };
        if self.is(Mutant::LateStamp) {
            self.late_drop(link, id, unused);
            return false;
        }
        if !unused {
            if let Some(table) = self.link_mut(link) {
                table.due.remove(&Due::Drop(id));
            }
            return false;
        }
        careless || entry.is_some_and(|entry| entry.passed <= acked)
    }

    /// S7: the names are ours no longer from this frame on, whose acknowledgement is the one of now.
    fn emit_drops(&mut self, link: LinkId, ids: &[Id]) -> Result<(), SendError> {
        self.emit(link, Reach::Caused, |tx, group| {
            for &id in ids {
                tx.bury(link, id, group.seq);
            }
            let ids = ids.iter().map(|id| id.written());
            Ok(Some(Op::Drop(ids.collect())))
        })
    }

    fn bury(&mut self, link: LinkId, id: Id, dropped: Seq) {
        let keep = !self.is(Mutant::NoTombstones);
        let Some(table) = self.link_mut(link) else {
            return;
        };
        table.due.remove(&Due::Drop(id));
        let Some(entry) = table.leave(id) else {
            return;
        };
        if keep && dropped != Seq(u64::MAX) {
            table.wait(dropped, Pending::DropSent(id));
        }
        let revoked = match entry.local() {
            Local::Object(object) => {
                let row = self.tables.objects.remove(&object);
                row.as_ref().and_then(Object::revoked)
            }
            Local::Promise(promise) => {
                self.tables.promises.remove(&promise);
                None
            }
        };
        let last_mentioned = entry.last_mentioned;
        if let Some(table) = self.link_mut(link)
            && keep
        {
            table.bury(
                id,
                Tombstone {
                    dropped,
                    last_mentioned,
                    revoked,
                },
            );
        }
    }

    /// The broken rule of [`Mutant::LateStamp`]: the name goes when the drop is decided, its DROP in a
    /// later frame, whatever came in between.
    fn late_drop(&mut self, link: LinkId, id: Id, decided: bool) {
        if decided {
            self.bury(link, id, Seq(u64::MAX));
            if let Some(table) = self.link_mut(link) {
                table.due.insert(Due::Drop(id), ());
            }
            return;
        }
        let _ = self.emit(link, Reach::Caused, |tx, group| {
            let seq = group.seq;
            if let Some(table) = tx.link_mut(link) {
                table.due.remove(&Due::Drop(id));
                table.tombstones.update(&id, |row| row.dropped = seq);
                table.wait(seq, Pending::DropSent(id));
            }
            Ok(Some(Op::Drop(vec![id.written()])))
        });
    }

    /// Gives the frame that is being filled its number. The last of a step acknowledges what was
    /// processed.
    pub(super) fn seal(&mut self, link: LinkId, last: bool) {
        let Some(open) = self.open.remove(&link) else {
            return;
        };
        let acks = if self.is(Mutant::FirstPartAcks) {
            true
        } else {
            last
        };
        let now_ms = self.now_ms;
        let Some(table) = self.link_mut(link) else {
            return;
        };
        if open.ops == 0 {
            return;
        }
        let (epoch, limits) = (table.epoch, table.limits);
        let head = table.head.change();
        head.sent.0 += 1;
        let seq = head.sent;
        let ack_delta = if acks { head.unacked_in } else { 0 };
        if acks {
            head.unacked_in = 0;
            head.ack_due_ms = None;
        }
        let number = limits.explicit_seq.then_some(seq);
        let bytes = Numbered::assemble(epoch, number, ack_delta, open.ops, &open.bytes);
        let bytes: std::sync::Arc<[u8]> = bytes.into();
        head.probe_due_ms
            .get_or_insert(now_ms.saturating_add(limits.probe_ms));
        table.outbox.insert(
            seq,
            Sent {
                bytes: bytes.clone(),
                at_ms: now_ms,
            },
        );
        self.step.transmits.push(Transmit {
            link,
            seq: Some(seq),
            bytes,
        });
    }
}
