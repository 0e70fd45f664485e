//! Who still needs what: references are counted, and looked at once when a transaction ends.
//!
//! Law (exact counts): a count equals what is found by looking. Zeros in the middle of a transaction
//! mean nothing, so rows are judged at its end, until nothing more goes.

use super::link::Due;
use super::local::{Decider, Owner, Refs, State};
use super::mutant::Mutant;
use super::names::{LinkId, Local, LocalPromise};
use super::step::Event;
use super::tx::Tx;
use std::collections::{BTreeMap, BTreeSet};

/// What kind of reference a row may have lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// A handle of the application, which knows that.
    Handle,
    /// What others had.
    Other,
}

impl Tx<'_> {
    /// Has a row judged at the end.
    pub(super) fn check(&mut self, local: Local) {
        self.checks.entry(local).or_insert(Lost::Handle);
    }

    fn check_lost(&mut self, local: Local) {
        self.checks.insert(local, Lost::Other);
    }

    fn change_refs(&mut self, local: Local, change: impl FnOnce(&mut Refs)) -> Option<Refs> {
        match local {
            Local::Object(object) => self.tables.objects.update(&object, |row| {
                change(&mut row.refs);
                row.refs
            }),
            Local::Promise(promise) => self.tables.promises.update(&promise, |row| {
                change(&mut row.refs);
                row.told &= row.refs.app > 0;
                row.refs
            }),
        }
    }

    /// One more handle of the application; whether it is the only one.
    pub(super) fn add_app_ref(&mut self, local: Local) -> bool {
        self.change_refs(local, |refs| refs.app = refs.app.saturating_add(1))
            .is_some_and(|refs| refs.app == 1)
    }

    pub(super) fn drop_app_ref(&mut self, local: Local) {
        self.change_refs(local, |refs| refs.app = refs.app.saturating_sub(1));
        self.check(local);
    }

    pub(super) fn add_data_ref(&mut self, local: Local) {
        self.change_refs(local, |refs| refs.data = refs.data.saturating_add(1));
    }

    fn drop_data_ref(&mut self, local: Local) {
        self.change_refs(local, |refs| refs.data = refs.data.saturating_sub(1));
        self.check_lost(local);
    }

    pub(super) fn pin(&mut self, local: Local) {
        self.change_refs(local, |refs| refs.pins = refs.pins.saturating_add(1));
    }

    pub(super) fn unpin(&mut self, local: Local) {
        self.change_refs(local, |refs| refs.pins = refs.pins.saturating_sub(1));
        self.check_lost(local);
    }

    pub(super) fn unref_link(&mut self, local: Local) {
        self.change_refs(local, |refs| refs.links = refs.links.saturating_sub(1));
        self.check_lost(local);
    }

    /// Frees what nobody needs, until nothing more goes.
    pub(super) fn settle(&mut self) {
        loop {
            let mut cyclic = BTreeSet::new();
            while let Some((local, lost)) = self.checks.pop_first() {
                match local {
                    Local::Object(_) => self.judge_object(local, lost),
                    Local::Promise(promise) => {
                        if self.judge_promise(promise, lost) {
                            cyclic.insert(promise);
                        }
                    }
                }
            }
            if !self.is(Mutant::NoMarkPass) {
                self.mark_pass(cyclic);
            }
            if self.checks.is_empty() {
                return;
            }
        }
    }

    fn judge_object(&mut self, local: Local, lost: Lost) {
        let Local::Object(object) = local else {
            return;
        };
        let Some(row) = self.object(object) else {
            return;
        };
        let (refs, owner) = (row.refs, row.owner);
        let others = Refs { app: 0, ..refs };
        match owner {
            Owner::App if others.is_zero() && (lost == Lost::Other || refs.app == 0) => {
                self.tell(Event::Unreferenced(object));
            }
            Owner::Link(link) if refs.is_zero() => self.drop_due(link, local),
            _ => {}
        }
        if refs.is_zero() && !matches!(owner, Owner::Link(_)) {
            self.tables.objects.remove(&object);
        }
    }

    /// True if only the outcomes of other promises mention it.
    fn judge_promise(&mut self, promise: LocalPromise, lost: Lost) -> bool {
        let Some(row) = self.promise(promise) else {
            return false;
        };
        let refs = row.refs;
        match &row.state {
            State::Unresolved(Decider::App) => {
                if refs.is_zero() && lost == Lost::Other {
                    self.tell(Event::Unwanted(promise));
                }
            }
            State::Unresolved(Decider::Link(link)) => {
                let link = *link;
                // Its name on that link is what may be dropped.
                let others = Refs {
                    links: refs.links.saturating_sub(1),
                    ..refs
                };
                if others.is_zero() {
                    self.drop_due(link, promise.into());
                }
            }
            State::Resolved(_) => {
                let others = Refs { data: 0, ..refs };
                if refs.is_zero() {
                    self.free_promise(promise);
                } else {
                    return others.is_zero();
                }
            }
        }
        false
    }

    fn free_promise(&mut self, promise: LocalPromise) {
        let Some(row) = self.tables.promises.remove(&promise) else {
            return;
        };
        if let State::Resolved(outcome) = row.state {
            for &local in outcome.refs() {
                self.drop_data_ref(local);
            }
        }
    }

    fn drop_due(&mut self, link: LinkId, local: Local) {
        if let Some(table) = self.link_mut(link)
            && let Some(&id) = table.by_local.get(&local.into())
        {
            table.due.insert(Due::Drop(id), ());
        }
    }

    /// Frees resolved promises that only mention each other. Looks at what `candidates` lead to, and
    /// no further.
    fn mark_pass(&mut self, candidates: BTreeSet<LocalPromise>) {
        if candidates.is_empty() {
            return;
        }
        let mut inside: BTreeMap<LocalPromise, u32> = BTreeMap::new();
        let mut todo: Vec<_> = candidates.into_iter().collect();
        while let Some(promise) = todo.pop() {
            let resolved = |row: &super::local::Promise| matches!(row.state, State::Resolved(_));
            if inside.contains_key(&promise) || !self.promise(promise).is_some_and(resolved) {
                continue;
            }
            inside.insert(promise, 0);
            todo.extend(self.mentioned(promise));
        }
        let members: Vec<_> = inside.keys().copied().collect();
        for &promise in &members {
            for mentioned in self.mentioned(promise) {
                if let Some(count) = inside.get_mut(&mentioned) {
                    *count += 1;
                }
            }
        }
        let mut live = BTreeSet::new();
        let mut todo: Vec<_> = members
            .iter()
            .copied()
            .filter(|promise| {
                let inner = inside.get(promise).copied().unwrap_or_default();
                self.promise(*promise).is_some_and(|row| {
                    let others = Refs {
                        data: 0,
                        ..row.refs
                    };
                    !others.is_zero() || row.refs.data > inner
                })
            })
            .collect();
        while let Some(promise) = todo.pop() {
            if live.insert(promise) {
                todo.extend(self.mentioned(promise));
            }
        }
        for promise in members {
            if !live.contains(&promise) {
                self.free_promise(promise);
            }
        }
    }

    /// The promises that the outcome of a promise mentions.
    fn mentioned(&self, promise: LocalPromise) -> Vec<LocalPromise> {
        let Some(State::Resolved(outcome)) = self.promise(promise).map(|row| &row.state) else {
            return Vec::new();
        };
        let promises = outcome.refs().filter_map(|local| match local {
            Local::Promise(promise) => Some(*promise),
            Local::Object(_) => None,
        });
        promises.collect()
    }
}
