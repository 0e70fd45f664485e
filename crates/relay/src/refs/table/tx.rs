//! One transaction over the tables.

use super::collect::Lost;
use super::emit::{Open, Reach};
use super::link::{LinkSavepoint, LinkTable};
use super::local::{Object, Promise, Queued, Source};
use super::names::{LinkId, Local, LocalObject, LocalPromise};
use super::step::{Event, Step};
use super::{Tables, mutant::Mutant};
use crate::refs::wire::{Body, Outcome};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What is still to be done before a transaction ends.
#[derive(Debug)]
pub(super) enum Work {
    /// Send a message to where its target is now.
    Route(Local, Queued),
    /// A promise that we decide becomes something.
    Resolve(LocalPromise, Outcome<Local>),
    /// A promise became something: tell those who wait.
    Announce(LocalPromise),
    /// A hold ended.
    Release(LocalPromise),
    /// The application got a handle of something it should be told about.
    Tell(Local),
}

/// A transaction: the tables as they are being changed, and what comes of it.
pub(super) struct Tx<'a> {
    pub(super) tables: &'a mut Tables,
    pub(super) now_ms: u64,
    pub(super) touched: BTreeSet<LinkId>,
    pub(super) open: BTreeMap<LinkId, Open>,
    pub(super) work: VecDeque<Work>,
    /// Rows that lost a reference.
    pub(super) checks: BTreeMap<Local, Lost>,
    /// How much of a window messages may take.
    pub(super) reach: Reach,
    pub(super) step: Step,
}

/// How far the logs were that a group of operations for one link can change.
pub(super) struct Savepoint {
    objects: usize,
    promises: usize,
    next: usize,
    link: Option<LinkSavepoint>,
}

impl Tables {
    /// Runs `change`, and everything that follows from it, as one transaction.
    pub(super) fn transact<T, E>(
        &mut self,
        now_ms: u64,
        change: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<(T, Step), E> {
        let mut tx = Tx {
            tables: self,
            now_ms,
            touched: BTreeSet::new(),
            open: BTreeMap::new(),
            work: VecDeque::new(),
            checks: BTreeMap::new(),
            reach: Reach::Caused,
            step: Step::default(),
        };
        match change(&mut tx) {
            Ok(value) => {
                tx.finish();
                let step = std::mem::take(&mut tx.step);
                tx.commit();
                Ok((value, step))
            }
            Err(error) => {
                tx.rollback();
                Err(error)
            }
        }
    }
}

impl Tx<'_> {
    fn finish(&mut self) {
        self.drain();
        self.settle();
        self.flush();
    }

    fn commit(self) {
        self.tables.record(&self.touched);
        self.tables.objects.commit();
        self.tables.promises.commit();
        self.tables.next.commit();
        for link in &self.touched {
            if let Some(link) = self.tables.links.get_mut(link) {
                link.commit();
            }
        }
    }

    fn rollback(self) {
        self.tables.objects.rollback_to(0);
        self.tables.promises.rollback_to(0);
        self.tables.next.rollback_to(0);
        for link in &self.touched {
            if let Some(link) = self.tables.links.get_mut(link) {
                link.rollback_to(LinkSavepoint::default());
            }
        }
    }

    pub(super) fn savepoint(&self, link: LinkId) -> Savepoint {
        Savepoint {
            objects: self.tables.objects.savepoint(),
            promises: self.tables.promises.savepoint(),
            next: self.tables.next.savepoint(),
            link: self.tables.links.get(&link).map(LinkTable::savepoint),
        }
    }

    pub(super) fn rollback_to(&mut self, link: LinkId, savepoint: Savepoint) {
        self.tables.objects.rollback_to(savepoint.objects);
        self.tables.promises.rollback_to(savepoint.promises);
        self.tables.next.rollback_to(savepoint.next);
        if let (Some(link), Some(at)) = (self.tables.links.get_mut(&link), savepoint.link) {
            link.rollback_to(at);
        }
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.tables.is(mutant)
    }

    pub(super) fn link(&self, link: LinkId) -> Option<&LinkTable> {
        self.tables.links.get(&link)
    }

    pub(super) fn link_mut(&mut self, link: LinkId) -> Option<&mut LinkTable> {
        self.touched.insert(link);
        self.tables.links.get_mut(&link)
    }

    pub(super) fn object(&self, object: LocalObject) -> Option<&Object> {
        self.tables.objects.get(&object)
    }

    pub(super) fn promise(&self, promise: LocalPromise) -> Option<&Promise> {
        self.tables.promises.get(&promise)
    }

    pub(super) fn new_object(&mut self, object: Object) -> LocalObject {
        let next = self.tables.next.change();
        next.object += 1;
        let name = LocalObject(next.object);
        self.tables.objects.insert(name, object);
        name
    }

    pub(super) fn new_promise(&mut self, promise: Promise) -> LocalPromise {
        let next = self.tables.next.change();
        next.promise += 1;
        let name = LocalPromise(next.promise);
        self.tables.promises.insert(name, promise);
        name
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.step.events.push(event);
    }

    /// Does what there is to do, in the order it came up.
    pub(super) fn drain(&mut self) {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Route(target, message) => self.route_or_refuse(target, message),
                Work::Resolve(promise, outcome) => self.resolve(promise, outcome, None),
                Work::Announce(promise) => self.announce(promise),
                Work::Release(promise) => self.release_hold(promise),
                Work::Tell(local) => self.tell_state(local),
            }
        }
    }

    /// A message that is refused for a bound: whoever waits for its answer is told.
    pub(super) fn route_or_refuse(&mut self, target: Local, message: Queued) {
        let result = message.result;
        if self.route(target, message).is_err() {
            self.step.counts.undeliverable += 1;
            self.refuse(
                result,
                Outcome::broken(crate::refs::wire::Reason::UNDELIVERABLE),
            );
        }
    }

    /// Answers a message that does not reach its target.
    pub(super) fn refuse(&mut self, result: Option<LocalPromise>, outcome: Outcome<Local>) {
        match result {
            Some(promise) => self.work.push_back(Work::Resolve(promise, outcome)),
            None => self.step.counts.dead_letters += 1,
        }
    }

    /// A message from `from` that is not sent yet.
    pub(super) fn message(from: Source, body: Body<Local>, result: Option<LocalPromise>) -> Queued {
        Queued { from, body, result }
    }
}
