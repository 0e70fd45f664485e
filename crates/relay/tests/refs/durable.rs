//! Tables that a store follows: what is kept is what there is, and nothing is told before.

use crate::mesh::{WHY, link};
use overlane_core::{Coded, Fault};
use overlane_relay::refs::Limits;
use overlane_relay::refs::store::{DurableTables, Row, Store, StoreError};
use overlane_relay::refs::table::{Answer, Change, Event, Local, LocalPromise, Step, Tables};
use overlane_relay::refs::wire::{Body, Epoch, Hardness, Outcome};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Rows in memory, with a commit that can be made to fail.
#[derive(Debug, Default, Clone)]
struct Rows {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    fails_at: Option<usize>,
    commits: usize,
}

impl Store for Rows {
    type Error = &'static str;

    fn rows(&mut self) -> Result<Vec<Row>, Self::Error> {
        let rows = self.rows.iter();
        Ok(rows
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), Self::Error> {
        if self.fails_at == Some(self.commits) {
            return Err("the disk is full");
        }
        self.commits += 1;
        for Change { key, value } in changes {
            match value {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
        Ok(())
    }
}

/// What opening the tables makes of them: nothing else is different.
fn disconnected(tables: &Tables) -> Tables {
    let mut tables = tables.clone();
    let links: Vec<_> = tables.links().collect();
    for link in links {
        tables.handle_disconnected(link);
    }
    tables
}

/// Two nodes with stores. Each change of either is followed by opening what it kept.
struct Pair {
    nodes: [DurableTables<Rows>; 2],
    doors: [Local; 2],
    under_way: [Vec<std::sync::Arc<[u8]>>; 2],
    held: [Vec<Local>; 2],
    open: [Vec<LocalPromise>; 2],
}

impl Pair {
    fn new() -> Self {
        let mut nodes =
            [(); 2].map(|()| DurableTables::open(Rows::default(), Limits::default()).unwrap());
        let mut at = 0;
        let doors = nodes.each_mut().map(|node| {
            at += 1;
            let theirs = node.change(|tables| {
                let door = tables.export();
                tables.open_link(link(2 - at), Epoch(1), Limits::default(), door, 0)
            });
            theirs.unwrap().unwrap().into()
        });
        Self {
            nodes,
            doors,
            under_way: [Vec::new(), Vec::new()],
            held: [Vec::new(), Vec::new()],
            open: [Vec::new(), Vec::new()],
        }
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Tables) -> Option<Step>) {
        let node = &mut self.nodes[at];
        let step = node.change(change).unwrap();
        let kept = disconnected(node.tables());
        let store = std::mem::replace(
            node,
            DurableTables::open(Rows::default(), Limits::default()).unwrap(),
        );
        self.nodes[at] = DurableTables::open(store.into_store(), Limits::default()).unwrap();
        assert!(
            *self.nodes[at].tables() == kept,
            "what is kept is what there is"
        );
        for transmit in step.iter().flat_map(|step| &step.transmits) {
            self.under_way[at].push(transmit.bytes.clone());
        }
        for event in step.into_iter().flat_map(|step| step.events) {
            match event {
                Event::Deliver { body, result, .. } => {
                    self.held[at].extend(body.refs());
                    self.open[at].extend(result);
                }
                Event::Resolved { outcome, .. } => self.held[at].extend(outcome.refs()),
                Event::Ended { cause, .. } => panic!("{cause}"),
                _ => {}
            }
        }
    }

    fn act(&mut self, at: usize, what: u8) {
        let door = self.doors[at];
        let last = self.held[at].last().copied();
        let promise = self.open[at].last().copied();
        match (what % 8, last, promise) {
            (0, ..) => {
                let mut made = None;
                self.change(at, |tables| {
                    let object = tables.export();
                    let promise = tables.promise_new();
                    made = Some((object, promise));
                    let body = Body::of([object.into(), promise.into()]);
                    let sent = tables.send(door, body, Answer::New, 0);
                    sent.ok().map(|(_, step)| step)
                });
                let (object, promise) = made.unwrap();
                self.held[at].push(object.into());
                self.open[at].push(promise);
            }
            (1, Some(local), _) => self.change(at, |tables| {
                let sent = tables.send(local, Body::of([local]), Answer::Unwanted, 0);
                sent.ok().map(|(_, step)| step)
            }),
            (2, Some(local), _) => {
                self.held[at].pop();
                self.change(at, |tables| tables.release(local, 0).ok());
            }
            (3, _, Some(promise)) => {
                self.open[at].pop();
                self.change(at, |tables| {
                    tables.resolve(promise, Outcome::Reference(door), 0).ok()
                });
            }
            (4, Some(Local::Object(object)), _) => self.change(at, |tables| {
                tables.revoke(object, Hardness::Soft, WHY, b"why", 0).ok()
            }),
            (5, _, Some(promise)) => {
                self.open[at].pop();
                self.change(at, |tables| {
                    let passed = Answer::Passed(promise);
                    let sent = tables.send(door, Body::data(b""), passed, 0);
                    sent.ok().map(|(_, step)| step)
                });
            }
            _ => {
                let from = 1 - at;
                if !self.under_way[from].is_empty() {
                    let bytes = self.under_way[from].remove(0);
                    self.change(at, |tables| {
                        Some(tables.handle_frame(link(from), &bytes, 0))
                    });
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn prop_what_is_kept_is_what_there_is(acts in proptest::collection::vec(any::<(bool, u8)>(), 1..60)) {
        let mut pair = Pair::new();
        for (second, what) in acts {
            pair.act(usize::from(second), what);
        }
    }
}

/// The commit fails at each point of a conversation: what was to be sent is not, the tables refuse
/// everything, and those that are opened again are those of before.
#[test]
fn crash_a_failed_commit_tells_nothing_and_closes_the_store() {
    for fails_at in 0..3 {
        let store = Rows {
            fails_at: Some(fails_at),
            ..Rows::default()
        };
        let mut node = DurableTables::open(store, Limits::default()).unwrap();
        let mut before = node.tables().clone();
        let mut failed = None;
        for step in 0..3 {
            let done = node.change(|tables| match step {
                0 => drop(tables.export()),
                1 => {
                    let door = tables.export();
                    tables
                        .open_link(link(1), Epoch(1), Limits::default(), door, 0)
                        .unwrap();
                }
                _ => drop(tables.end_epoch(link(1), 0)),
            });
            match done {
                Ok(()) => before = node.tables().clone(),
                Err(error) => {
                    failed = Some((step, error));
                    break;
                }
            }
        }
        let (step, error) = failed.unwrap();
        assert_eq!(step, fails_at);
        assert!(matches!(error, StoreError::Store("the disk is full")));
        assert_eq!(error.fault(), Fault::StoreFailedClosed);
        assert!(matches!(node.change(|_| ()), Err(StoreError::Closed)));
        let mut store = node.into_store();
        store.fails_at = None;
        let again = DurableTables::open(store, Limits::default()).unwrap();
        assert!(*again.tables() == disconnected(&before));
    }
}

/// A row that is damaged or missing is noticed when the tables are opened.
#[test]
fn law_rows_that_contradict_each_other_are_refused() {
    let mut pair = Pair::new();
    for (at, what) in [(0, 0), (1, 7), (1, 1), (0, 7), (1, 1), (0, 7)] {
        pair.act(at, what);
    }
    let [node, _] = pair.nodes;
    let whole = node.into_store();
    assert!(DurableTables::open(whole.clone(), Limits::default()).is_ok());
    let mut noticed = 0;
    for key in whole.rows.keys() {
        let mut missing = whole.clone();
        missing.rows.remove(key);
        noticed += usize::from(DurableTables::open(missing, Limits::default()).is_err());
        let mut cut = whole.clone();
        cut.rows.get_mut(key).unwrap().pop();
        let refused = DurableTables::open(cut, Limits::default()).unwrap_err();
        assert_eq!(refused.code(), "refs/store_corrupt");
    }
    assert_eq!(noticed, whole.rows.len(), "a row that is missing is missed");
}
