//! Where messages go, and what happens when a promise becomes something.
//!
//! Law (order): messages from one sender through one reference arrive in the order they were sent,
//! also across a resolution that points back at the sender's side. After such a resolution messages
//! to the promise are held until the decider has acknowledged our newest message to it: it sends
//! back what it got before in the frame that first acknowledges it. Until then nobody is told the
//! outcome, or they would take the short way too.

use super::link::{Due, Way};
use super::local::{Decider, Owner, Promise, Queued, Source, State};
use super::mutant::Mutant;
use super::names::{Id, LinkId, Local, LocalObject, LocalPromise};
use super::step::Event;
use super::tx::{Tx, Work};
use crate::refs::error::{LinkError, SendError};
use crate::refs::wire::{Kind, Outcome, Reason, Resolution, Seq};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Tx<'_> {
    /// Sends a message to where its target is now.
    pub(super) fn route(&mut self, target: Local, message: Queued) -> Result<(), SendError> {
        match target {
            Local::Object(object) => self.route_to_object(object, message),
            Local::Promise(promise) => self.route_to_promise(promise, message),
        }
    }

    fn route_to_object(&mut self, target: LocalObject, message: Queued) -> Result<(), SendError> {
        let Some(object) = self.object(target) else {
            self.refuse(message.result, Outcome::broken(Reason::DISCONNECTED));
            return Ok(());
        };
        if let Some((_, reason)) = object.revoked() {
            let error = object.error().cloned().unwrap_or_default();
            self.refuse(message.result, Outcome::Broken { reason, error });
            return Ok(());
        }
        match object.owner {
            Owner::Gone => self.refuse(message.result, Outcome::broken(Reason::DISCONNECTED)),
            Owner::App => self.deliver(target, message),
            Owner::Link(link) => {
                self.emit_message(link, target.into(), &message)?;
                self.passed_on(&message);
            }
        }
        Ok(())
    }

    fn deliver(&mut self, target: LocalObject, message: Queued) {
        let Queued { from, body, result } = message;
        for &local in body.refs() {
            self.hand_out(local);
        }
        self.tell(Event::Deliver {
            from,
            target,
            body,
            result,
        });
    }

    fn route_to_promise(&mut self, target: LocalPromise, message: Queued) -> Result<(), SendError> {
        let Some(promise) = self.promise(target) else {
            self.refuse(message.result, Outcome::broken(Reason::DISCONNECTED));
            return Ok(());
        };
        if let Some((link, _)) = promise.hold
            && message.from != Source::Link(link)
        {
            return self.wait_at(target, message, |row| &mut row.held);
        }
        match &promise.state {
            State::Unresolved(Decider::App) => self.wait_at(target, message, |row| &mut row.queue),
            State::Unresolved(Decider::Link(link)) => {
                let link = *link;
                self.emit_message(link, target.into(), &message)?;
                self.passed_on(&message);
                Ok(())
            }
            State::Resolved(outcome) => {
                let outcome = outcome.clone();
                self.route_to_outcome(&outcome, message)
            }
        }
    }

    fn route_to_outcome(
        &mut self,
        outcome: &Outcome<Local>,
        message: Queued,
    ) -> Result<(), SendError> {
        match outcome {
            Outcome::Reference(local) => self.route(*local, message)?,
            Outcome::Data(_) => {
                self.refuse(message.result, Outcome::broken(Reason::CANNOT_SEND_TO_DATA));
            }
            Outcome::Rejected(_) | Outcome::Broken { .. } => {
                self.refuse(message.result, outcome.clone());
            }
        }
        Ok(())
    }

    /// Keeps a message, and what it mentions, until the promise lets it go on.
    fn wait_at(
        &mut self,
        target: LocalPromise,
        message: Queued,
        queue: impl Fn(&mut Promise) -> &mut Vec<Queued>,
    ) -> Result<(), SendError> {
        let bound = self.tables.limits.queued_messages as usize;
        let refs: Vec<_> = message.body.refs().copied().collect();
        let taken = self.tables.promises.update(&target, |row| {
            if row.queue.len() + row.held.len() >= bound {
                return false;
            }
            queue(row).push(message);
            true
        });
        if taken != Some(true) {
            return Err(SendError::QueueFull);
        }
        for local in refs {
            self.pin(local);
        }
        Ok(())
    }

    /// A message left this node: whoever sent it waits for the other end to resolve its result. What
    /// waited here for that result goes on after it.
    fn passed_on(&mut self, message: &Queued) {
        if let Some(result) = message.result {
            self.send_on(result, |row| std::mem::take(&mut row.queue));
        }
    }

    /// Routes again what waited at a promise.
    fn send_on(&mut self, promise: LocalPromise, take: impl FnOnce(&mut Promise) -> Vec<Queued>) {
        let idle = self
            .promise(promise)
            .is_none_or(|row| row.queue.is_empty() && row.held.is_empty());
        if idle {
            return;
        }
        let waiting = self.tables.promises.update(&promise, take);
        for message in waiting.unwrap_or_default() {
            for &local in message.body.refs() {
                self.unpin(local);
            }
            self.work.push_back(Work::Route(promise.into(), message));
        }
    }

    /// A promise becomes something. `by` is the link that decided it.
    pub(super) fn resolve(
        &mut self,
        promise: LocalPromise,
        outcome: Outcome<Local>,
        by: Option<(LinkId, Option<Seq>)>,
    ) {
        let expected = by.map_or(Decider::App, |(link, _)| Decider::Link(link));
        if self.promise(promise).and_then(Promise::decider) != Some(expected) {
            return;
        }
        for &local in outcome.refs() {
            self.add_data_ref(local);
        }
        let outcome = Arc::new(outcome);
        self.tables
            .promises
            .update(&promise, |row| row.state = State::Resolved(outcome));
        self.check(promise.into());
        if let Some((link, Some(seq))) = by {
            self.hold(promise, link, seq);
        }
        self.work.push_back(Work::Announce(promise));
    }

    /// Tells everyone who waits for a promise what it became, after what waited here for it has gone
    /// on. A held promise is announced when its hold ends.
    pub(super) fn announce(&mut self, promise: LocalPromise) {
        self.send_on(promise, |row| std::mem::take(&mut row.queue));
        let Some(row) = self.promise(promise) else {
            return;
        };
        let State::Resolved(outcome) = &row.state else {
            return;
        };
        if row.hold.is_some() && !self.is(Mutant::ToldEarly) {
            return;
        }
        let (outcome, followed_by) = (outcome.clone(), row.followed_by);
        let links: Vec<_> = self.tables.links.keys().copied().collect();
        for link in links {
            let named = |table: &super::link::LinkTable| table.by_local.contains(&promise.into());
            if self.link(link).is_some_and(named)
                && let Some(table) = self.link_mut(link)
            {
                table.due.insert(Due::Resolve(promise), ());
            }
        }
        self.tell_state(promise.into());
        if let Some(follower) = followed_by {
            self.tables
                .promises
                .update(&promise, |row| row.followed_by = None);
            self.unpin(promise.into());
            let outcome = Outcome::clone(&outcome);
            self.work.push_back(Work::Resolve(follower, outcome));
        }
    }

    /// Tells the application what it should know of a reference that it holds.
    pub(super) fn tell_state(&mut self, local: Local) {
        match local {
            Local::Object(object) => {
                if let Some(row) = self.object(object)
                    && row.refs.app > 0
                    && let Some((hardness, reason)) = row.revoked()
                {
                    let error = row.error().cloned().unwrap_or_default();
                    self.tell(Event::Revoked {
                        object,
                        hardness,
                        reason,
                        error,
                    });
                }
            }
            Local::Promise(promise) => {
                let Some(row) = self.promise(promise) else {
                    return;
                };
                let (true, false, Some(outcome)) = (row.refs.app > 0, row.told, row.announced())
                else {
                    return;
                };
                let outcome = Outcome::clone(outcome);
                self.tables.promises.update(&promise, |row| row.told = true);
                for &local in outcome.refs() {
                    self.hand_out(local);
                }
                self.tell(Event::Resolved { promise, outcome });
            }
        }
    }

    /// A handle for the application, which is told what is known of it.
    pub(super) fn hand_out(&mut self, local: Local) {
        let first = self.add_app_ref(local);
        let news = match local {
            Local::Object(object) => self
                .object(object)
                .is_some_and(|row| row.revoked().is_some()),
            Local::Promise(_) => true,
        };
        if first && news {
            self.work.push_back(Work::Tell(local));
        }
    }

    /// A RESOLVE: all its promises become something together, so that they may mention each other.
    pub(super) fn receive_resolutions(
        &mut self,
        link: LinkId,
        resolutions: Vec<Resolution>,
    ) -> Result<(), LinkError> {
        let mut read = Vec::with_capacity(resolutions.len());
        let mut seen = BTreeSet::new();
        for Resolution { promise, outcome } in resolutions {
            if promise.kind != Kind::Promise {
                return Err(LinkError::KindMismatch(promise));
            }
            let local = match self.read_ref(link, promise)? {
                Local::Promise(local) => local,
                Local::Object(_) => return Err(LinkError::KindMismatch(promise)),
            };
            let decider = self.promise(local).and_then(Promise::decider);
            if decider != Some(Decider::Link(link)) || !seen.insert(local) {
                return Err(LinkError::NotDecider(promise));
            }
            let outcome = self.read_outcome(link, &outcome)?;
            read.push((Id::read(promise), local, outcome));
        }
        let held: Vec<_> = read
            .iter()
            .map(|(id, _, outcome)| self.comes_back(link, *id, outcome))
            .collect();
        for (id, ..) in &read {
            self.forget_promise(link, *id);
        }
        for ((_, local, outcome), seq) in read.into_iter().zip(held) {
            self.resolve(local, outcome, Some((link, seq)));
        }
        Ok(())
    }

    /// The frame with our newest message to a promise, if what it became is not at the other end of
    /// `link` and the message may therefore still come back.
    fn comes_back(&self, link: LinkId, id: Id, outcome: &Outcome<Local>) -> Option<Seq> {
        let Outcome::Reference(Local::Object(object)) = outcome else {
            return None;
        };
        if self.object(*object)?.owner == Owner::Link(link) {
            return None;
        }
        self.in_flight(link, id)
    }

    fn in_flight(&self, link: LinkId, id: Id) -> Option<Seq> {
        if self.is(Mutant::NoHold) {
            return None;
        }
        let table = self.link(link)?;
        let targeted = table.entries.get(&id)?.last_targeted;
        (targeted > table.head.get().peer_acked).then_some(targeted)
    }

    /// S6 at the receiver: a promise that the peer decided is ours to decide. Messages we sent it
    /// come back.
    pub(super) fn take_decision(&mut self, link: LinkId, promise: LocalPromise) {
        let id = self
            .link(link)
            .and_then(|table| table.by_local.get(&promise.into()))
            .copied();
        self.tables.promises.update(&promise, |row| {
            row.state = State::Unresolved(Decider::App);
        });
        if let Some(seq) = id.and_then(|id| self.in_flight(link, id)) {
            self.hold(promise, link, seq);
        }
    }

    fn hold(&mut self, promise: LocalPromise, link: LinkId, seq: Seq) {
        let old = self
            .tables
            .promises
            .update(&promise, |row| row.hold.replace((link, seq)));
        match old.flatten() {
            Some((link, seq)) => {
                if let Some(table) = self.link_mut(link) {
                    table.holds.remove(&(seq, promise));
                }
            }
            None => self.pin(promise.into()),
        }
        if let Some(table) = self.link_mut(link) {
            table.holds.insert((seq, promise), ());
        }
    }

    /// Everything that was to come back has: what waited goes on, and the outcome is told.
    pub(super) fn release_hold(&mut self, promise: LocalPromise) {
        let held = self.promise(promise).is_some_and(|row| row.hold.is_some());
        if !held {
            return;
        }
        self.tables.promises.update(&promise, |row| row.hold = None);
        self.unpin(promise.into());
        self.send_on(promise, |row| std::mem::take(&mut row.held));
        self.work.push_back(Work::Announce(promise));
    }

    /// Whether a name on `link` belongs to an object that is exported there.
    pub(super) fn exported_on(&self, link: LinkId, object: LocalObject) -> Option<Id> {
        let table = self.link(link)?;
        let id = table.by_local.get(&object.into())?;
        let entry = table.entries.get(id)?;
        (entry.way == Way::Export).then_some(*id)
    }
}
