//! What the application asks for.

use super::Tables;
use super::emit::Reach;
use super::local::{Decider, Object, Owner, Promise, Source};
use super::names::{LinkId, Local, LocalObject, LocalPromise};
use super::step::Step;
use super::tx::{Tx, Work};
use crate::refs::error::SendError;
use crate::refs::wire::{Body, ERROR_MAX_BYTES, Hardness, Outcome, Reason};
use std::convert::Infallible;

/// What is to become of the answer to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Nobody waits for it.
    Unwanted,
    /// It resolves a promise made for it, which the application holds.
    New,
    /// It resolves this promise, which was the application's to resolve and is so no longer.
    Passed(LocalPromise),
}

impl Tables {
    /// Makes an object of the application, which holds one handle of it.
    pub fn export(&mut self) -> LocalObject {
        let made = self.transact(0, |tx| {
            let mut object = Object::new(Owner::App);
            object.refs.app = 1;
            Ok::<_, Infallible>(tx.new_object(object))
        });
        match made {
            Ok((object, _)) => object,
            Err(never) => match never {},
        }
    }

    /// Makes a promise that the application resolves, and holds one handle of.
    pub fn promise_new(&mut self) -> LocalPromise {
        let made = self.transact(0, |tx| {
            let mut promise = Promise::new(Decider::App);
            promise.refs.app = 1;
            Ok::<_, Infallible>(tx.new_promise(promise))
        });
        match made {
            Ok((promise, _)) => promise,
            Err(never) => match never {},
        }
    }

    /// Sends a message to what `target` is, or becomes. The promise of the answer is returned.
    ///
    /// # Errors
    /// A bound on the way, a reference that is not held, or an object that was revoked for good among
    /// those that are mentioned. Nothing changed then. A message to what was revoked is sent: its
    /// answer is the error.
    pub fn send(
        &mut self,
        target: Local,
        body: Body<Local>,
        answer: Answer,
        now_ms: u64,
    ) -> Result<(Option<LocalPromise>, Step), SendError> {
        self.transact(now_ms, |tx| {
            tx.held(target)?;
            for &local in body.refs() {
                tx.held(local)?;
                if tx.taboo(local).is_some() {
                    return Err(SendError::Taboo);
                }
            }
            let result = tx.result(answer)?;
            let message = Tx::message(Source::App, body, result);
            tx.reach = Reach::App;
            tx.route(target, message)?;
            tx.reach = Reach::Caused;
            Ok(result)
        })
    }

    /// Says what a promise of the application's became.
    ///
    /// # Errors
    /// The promise is not open for the application to resolve, or the outcome mentions what it does
    /// not hold. A promise that is resolved to a promise is broken instead.
    pub fn resolve(
        &mut self,
        promise: LocalPromise,
        outcome: Outcome<Local>,
        now_ms: u64,
    ) -> Result<Step, SendError> {
        let resolved = self.transact(now_ms, |tx| {
            if tx.promise(promise).and_then(Promise::decider) != Some(Decider::App) {
                return Err(SendError::NotDecider);
            }
            for &local in outcome.refs() {
                tx.held(local)?;
                if tx.taboo(local).is_some() {
                    return Err(SendError::Taboo);
                }
            }
            let outcome = if outcome.is_promise() {
                Outcome::broken(Reason::RESOLVED_TO_PROMISE)
            } else {
                outcome
            };
            tx.work.push_back(Work::Resolve(promise, outcome));
            Ok(())
        });
        resolved.map(|((), step)| step)
    }

    /// Takes an object of the application's back. Nobody needs to agree, and everyone who holds it is
    /// told; `error` answers messages that were sent before.
    ///
    /// # Errors
    /// The object is another node's, was revoked as much before, or the error is over
    /// [`ERROR_MAX_BYTES`].
    pub fn revoke(
        &mut self,
        object: LocalObject,
        hardness: Hardness,
        reason: Reason,
        error: &[u8],
        now_ms: u64,
    ) -> Result<Step, SendError> {
        if error.len() > ERROR_MAX_BYTES {
            return Err(SendError::TooLarge);
        }
        let revoked = self.transact(now_ms, |tx| {
            tx.revoke(object, hardness, reason, error.into())
        });
        revoked.map(|((), step)| step)
    }

    /// One more handle of a reference that the application holds.
    ///
    /// # Errors
    /// It holds none.
    pub fn retain(&mut self, local: Local) -> Result<(), SendError> {
        let retained = self.transact(0, |tx| {
            tx.held(local)?;
            tx.add_app_ref(local);
            Ok(())
        });
        retained.map(|((), _)| ())
    }

    /// One handle less. With the last one, what nobody else here needs is dropped.
    ///
    /// # Errors
    /// The application holds none.
    pub fn release(&mut self, local: Local, now_ms: u64) -> Result<Step, SendError> {
        let released = self.transact(now_ms, |tx| {
            tx.held(local)?;
            tx.drop_app_ref(local);
            Ok(())
        });
        released.map(|((), step)| step)
    }

    /// Ends the epoch of a link: its references are broken, what it held is free.
    ///
    /// # Errors
    /// The link has no epoch.
    pub fn end_epoch(&mut self, link: LinkId, now_ms: u64) -> Result<Step, SendError> {
        if !self.links.contains_key(&link) {
            return Err(SendError::NoLink(link));
        }
        Ok(self.end(link, crate::refs::error::LinkError::Ended, now_ms))
    }
}

impl Tx<'_> {
    fn held(&self, local: Local) -> Result<(), SendError> {
        let refs = match local {
            Local::Object(object) => self.object(object).map(|row| row.refs),
            Local::Promise(promise) => self.promise(promise).map(|row| row.refs),
        };
        match refs {
            Some(refs) if refs.app > 0 => Ok(()),
            _ => Err(SendError::NotHeld),
        }
    }

    fn result(&mut self, answer: Answer) -> Result<Option<LocalPromise>, SendError> {
        match answer {
            Answer::Unwanted => Ok(None),
            Answer::New => {
                let mut promise = Promise::new(Decider::App);
                promise.refs.app = 1;
                Ok(Some(self.new_promise(promise)))
            }
            Answer::Passed(promise) => {
                let decider = self.promise(promise).and_then(Promise::decider);
                if decider == Some(Decider::App) {
                    Ok(Some(promise))
                } else {
                    Err(SendError::NotDecider)
                }
            }
        }
    }
}
