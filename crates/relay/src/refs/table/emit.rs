//! Sending: names become ids, operations become frames.
//!
//! Operations that belong together (a message, the outcomes of what it mentions, the revocations of
//! what it introduces) go into one frame. A group that does not fit what is left of a frame is undone
//! and built again for the next, so that every number it writes down is the number of its frame.

use super::link::{Entry, Pending, Way};
use super::local::{Decider, Promise, Queued, State};
use super::mutant::Mutant;
use super::names::{By, Id, LinkId, Local, LocalObject, LocalPromise};
use super::tx::Tx;
use crate::refs::error::SendError;
use crate::refs::wire::{
    Body, FRAME_MAX_BYTES, Hardness, Kind, OPS_PER_FRAME_MAX, Op, Outcome, REFS_PER_BODY_MAX,
    RESOLUTIONS_PER_OP_MAX, Reason, Resolution, Revocation, Seq, Slot, WireId,
};
use overlane_core::wire::cbor::Writer;
use std::collections::{BTreeMap, VecDeque};

/// A frame that is being filled.
#[derive(Debug, Default)]
pub(super) struct Open {
    pub(super) ops: usize,
    pub(super) bytes: Vec<u8>,
}

/// Who asks for a frame: the application keeps to the window, what a frame of a peer asks for has
/// as much room again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    App,
    Caused,
}

/// Operations of one frame that belong together.
pub(super) struct Group {
    link: LinkId,
    pub(super) seq: Seq,
    /// Resolved promises that have an id in this group.
    pub(super) named: BTreeMap<LocalPromise, Id>,
    /// Those whose outcome is not written yet.
    pub(super) unwritten: VecDeque<(LocalPromise, Id)>,
    revocations: Vec<Revocation>,
}

impl Tx<'_> {
    /// Puts what `build` makes into the frame that is being filled, or into the next.
    pub(super) fn emit(
        &mut self,
        link: LinkId,
        reach: Reach,
        build: impl Fn(&mut Self, &mut Group) -> Result<Option<Op>, SendError>,
    ) -> Result<(), SendError> {
        loop {
            let seq = self.window(link, reach)?;
            let savepoint = self.savepoint(link);
            let mut group = Group {
                link,
                seq,
                named: BTreeMap::new(),
                unwritten: VecDeque::new(),
                revocations: Vec::new(),
            };
            let built = build(self, &mut group).and_then(|op| self.complete(&mut group, op));
            let ops = match built {
                Ok(ops) => ops,
                Err(error) => {
                    self.rollback_to(link, savepoint);
                    return Err(error);
                }
            };
            let mut writer = Writer::new();
            for op in &ops {
                writer.value(op);
            }
            let open = self.open.entry(link).or_default();
            if open.append(ops.len(), writer.as_bytes()) {
                return Ok(());
            }
            let empty = open.ops == 0;
            self.rollback_to(link, savepoint);
            if empty {
                self.open.remove(&link);
                return Err(SendError::TooLarge);
            }
            self.seal(link, false);
        }
    }

    /// The number of the frame that is filled next, if the window lets one be sent.
    fn window(&mut self, link: LinkId, reach: Reach) -> Result<Seq, SendError> {
        let table = self.link_mut(link).ok_or(SendError::NoLink(link))?;
        let frames = match reach {
            Reach::App => table.limits.unacked_frames as usize,
            Reach::Caused => table.limits.outbox_frames(),
        };
        if table.outbox.len() < frames {
            Ok(table.next_seq())
        } else {
            Err(SendError::WindowFull(link))
        }
    }

    /// The group's operations: its own, then the outcomes and the revocations it needs.
    fn complete(&mut self, group: &mut Group, op: Option<Op>) -> Result<Vec<Op>, SendError> {
        let mut ops: Vec<_> = op.into_iter().collect();
        let mut resolutions = Vec::new();
        while let Some((promise, id)) = group.unwritten.pop_front() {
            if resolutions.len() == RESOLUTIONS_PER_OP_MAX {
                return Err(SendError::TooManyResolutions);
            }
            let outcome = match self.promise(promise).map(|promise| &promise.state) {
                Some(State::Resolved(outcome)) => outcome.clone(),
                _ => continue,
            };
            resolutions.push(Resolution {
                promise: id.written(),
                outcome: self.write_outcome(group, &outcome)?,
            });
        }
        if !resolutions.is_empty() {
            ops.push(Op::Resolve(resolutions));
        }
        let revocations = std::mem::take(&mut group.revocations);
        let lists = revocations.chunks(REFS_PER_BODY_MAX);
        ops.extend(lists.map(|list| Op::Revoke(list.to_vec())));
        Ok(ops)
    }

    /// A message to something that the other end of `link` owns or decides.
    pub(super) fn emit_message(
        &mut self,
        link: LinkId,
        target: Local,
        message: &Queued,
    ) -> Result<(), SendError> {
        self.emit(link, self.reach, |tx, group| {
            let result = message
                .result
                .map(|promise| tx.pass_decision(group, promise))
                .transpose()?;
            let body = tx.write_body(group, &message.body)?;
            let target = tx.target(group, target).ok_or(SendError::NotHeld)?;
            Ok(Some(Op::Deliver {
                target,
                result,
                body,
            }))
        })
    }

    fn target(&mut self, group: &Group, target: Local) -> Option<WireId> {
        let seq = group.seq;
        let link = self.link_mut(group.link)?;
        let id = *link.by_local.get(&target.into())?;
        if id.kind() == Kind::Promise {
            link.entries
                .update(&id, |entry| entry.last_targeted = seq)?;
        }
        Some(id.written())
    }

    /// S6: whoever gets the message decides the promise.
    fn pass_decision(
        &mut self,
        group: &mut Group,
        promise: LocalPromise,
    ) -> Result<WireId, SendError> {
        let decider = Decider::Link(group.link);
        let held = match self.promise(promise) {
            Some(row) if row.decider() == Some(Decider::App) => row.hold.is_some(),
            _ => return Err(SendError::NotDecider),
        };
        // While messages to it are held here, another promise takes its place on the way.
        let promise = if held {
            let mut stand_in = Promise::new(decider);
            stand_in.followed_by = Some(promise);
            stand_in.refs.pins = 1;
            self.new_promise(stand_in)
        } else {
            promise
        };
        let seq = group.seq;
        let known = self
            .link(group.link)
            .and_then(|link| link.by_local.get(&promise.into()))
            .copied();
        if let (Some(id), Some(link)) = (known, self.link_mut(group.link)) {
            link.entries.update(&id, |entry| entry.passed = seq);
        }
        let id = self.mention_open(group, promise)?;
        self.tables
            .promises
            .update(&promise, |row| row.state = State::Unresolved(decider));
        Ok(id.written())
    }

    fn write_body(
        &mut self,
        group: &mut Group,
        body: &Body<Local>,
    ) -> Result<Body<WireId>, SendError> {
        let slots = body.slots.iter().map(|slot| match *slot {
            Slot::Ref(local) => self.mention(group, local),
            Slot::Broken(reason) => Ok(Slot::Broken(reason)),
        });
        Ok(Body {
            slots: slots.collect::<Result<_, _>>()?,
            bytes: body.bytes.clone(),
        })
    }

    fn write_outcome(
        &mut self,
        group: &mut Group,
        outcome: &Outcome<Local>,
    ) -> Result<Outcome<WireId>, SendError> {
        Ok(match outcome {
            Outcome::Reference(local) => match self.mention(group, *local)? {
                Slot::Ref(id) => Outcome::Reference(id),
                Slot::Broken(reason) => Outcome::broken(reason),
            },
            Outcome::Data(body) => Outcome::Data(self.write_body(group, body)?),
            Outcome::Rejected(body) => Outcome::Rejected(self.write_body(group, body)?),
            Outcome::Broken { reason, error } => Outcome::Broken {
                reason: *reason,
                error: error.clone(),
            },
        })
    }

    fn mention(&mut self, group: &mut Group, local: Local) -> Result<Slot<WireId>, SendError> {
        match local {
            Local::Object(object) => self.mention_object(group, object),
            Local::Promise(promise) => {
                let announced = self
                    .promise(promise)
                    .is_some_and(|row| row.announced().is_some());
                let id = if announced {
                    self.mention_resolved(group, promise)?
                } else {
                    self.mention_open(group, promise)?
                };
                Ok(Slot::Ref(id.written()))
            }
        }
    }

    /// S1 and S2.
    fn mention_object(
        &mut self,
        group: &mut Group,
        object: LocalObject,
    ) -> Result<Slot<WireId>, SendError> {
        let Some(row) = self.object(object) else {
            return Ok(Slot::Broken(Reason::DISCONNECTED));
        };
        if let Some((Hardness::Hard, reason)) = row.revoked() {
            return Ok(Slot::Broken(reason));
        }
        let bump = !self.is(Mutant::NoBump);
        let seq = group.seq;
        let link = self
            .link_mut(group.link)
            .ok_or(SendError::NoLink(group.link))?;
        if let Some(&id) = link.by_local.get(&object.into()) {
            link.entries.update(&id, |entry| {
                if entry.way == Way::Export && bump {
                    entry.last_mentioned = seq;
                }
            });
            return Ok(Slot::Ref(id.written()));
        }
        self.introduce_object(group, object).map(Slot::Ref)
    }

    /// A new name for an object. If it was taken back, that is said beside it.
    fn introduce_object(
        &mut self,
        group: &mut Group,
        object: LocalObject,
    ) -> Result<WireId, SendError> {
        let reuse = self.is(Mutant::ReuseIds);
        let silent = self.is(Mutant::SilentIntroduction);
        let row = self.object(object).ok_or(SendError::NotHeld)?;
        let taken_back = row.revoked().filter(|_| !silent);
        let error = row.error().cloned();
        let seq = group.seq;
        let link = self
            .link_mut(group.link)
            .ok_or(SendError::NoLink(group.link))?;
        if link.head.get().exports >= link.limits.exports {
            return Err(SendError::TableFull(group.link));
        }
        let name = |number| Id::new(Kind::Object, By::Us, number);
        let next = link.head.get().next_object;
        let number = if reuse {
            let free = |&number: &u64| !link.entries.contains(&name(number));
            (1..next).find(free).unwrap_or(next)
        } else {
            next
        };
        link.head.change().next_object = next.max(number + 1);
        let id = name(number);
        let mut entry = Entry::new(object.into(), Way::Export, seq);
        if let Some((hardness, reason)) = taken_back {
            entry.revoked = Some(hardness);
            entry.needs_error = true;
            link.wait(seq, Pending::Revoked(id, hardness));
            group.revocations.push(Revocation {
                object: id.written(),
                hardness,
                reason,
                error: error.unwrap_or_default(),
            });
        }
        link.enter(id, entry);
        self.tables.objects.update(&object, |row| {
            row.refs.links += 1;
            if taken_back.is_some() {
                row.error_is_needed();
            }
        });
        Ok(id.written())
    }

    /// S4: the peer will be told what it becomes.
    fn mention_open(&mut self, group: &mut Group, promise: LocalPromise) -> Result<Id, SendError> {
        let bump = !self.is(Mutant::NoPromiseBump);
        let seq = group.seq;
        let link = self
            .link_mut(group.link)
            .ok_or(SendError::NoLink(group.link))?;
        if let Some(&id) = link.by_local.get(&promise.into()) {
            if bump {
                link.entries.update(&id, |entry| entry.last_mentioned = seq);
            }
            return Ok(id);
        }
        let entry = Entry::new(promise.into(), Way::Promise, seq);
        self.introduce_promise(group, promise, entry)
    }

    /// S5: what was announced is never named again; a fresh id lives until its RESOLVE, which goes
    /// into the same frame, is acknowledged.
    fn mention_resolved(
        &mut self,
        group: &mut Group,
        promise: LocalPromise,
    ) -> Result<Id, SendError> {
        if let Some(&id) = group.named.get(&promise) {
            return Ok(id);
        }
        let entry = Entry {
            retiring: true,
            ..Entry::new(promise.into(), Way::Promise, group.seq)
        };
        let id = self.introduce_promise(group, promise, entry)?;
        let seq = group.seq;
        if let Some(link) = self.link_mut(group.link) {
            link.wait(seq, Pending::RetirePromise(id));
        }
        group.named.insert(promise, id);
        group.unwritten.push_back((promise, id));
        Ok(id)
    }

    fn introduce_promise(
        &mut self,
        group: &Group,
        promise: LocalPromise,
        entry: Entry,
    ) -> Result<Id, SendError> {
        let link = self
            .link_mut(group.link)
            .ok_or(SendError::NoLink(group.link))?;
        if link.head.get().our_promises >= link.limits.promises {
            return Err(SendError::TableFull(group.link));
        }
        let head = link.head.change();
        let number = head.next_promise;
        head.next_promise += 1;
        let id = Id::new(Kind::Promise, By::Us, number);
        link.enter(id, entry);
        self.tables
            .promises
            .update(&promise, |row| row.refs.links += 1);
        Ok(id)
    }
}

/// What a frame holds besides its operations, at most: two array heads, a tag and three numbers.
const FRAME_OVERHEAD_BYTES: usize = 1 + 1 + 3 * 9 + 3;

impl Open {
    fn append(&mut self, ops: usize, bytes: &[u8]) -> bool {
        let fits = self.ops + ops <= OPS_PER_FRAME_MAX
            && FRAME_OVERHEAD_BYTES + self.bytes.len() + bytes.len() <= FRAME_MAX_BYTES;
        if fits {
            self.ops += ops;
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }
}
