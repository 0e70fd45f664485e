//! What the suites let the store do, and what it should hold then.

use std::collections::BTreeMap;
use std::path::Path;

use overlane_core::store::StoreError;
use overlane_relay::refs::store::Store as _;
use overlane_relay::refs::table::Change;
use overlane_storage_native::RefsStore;
use overlane_storage_native::testkit::Disk;

pub(crate) const FOLDER: &str = "/home/references";

/// What a store should hold.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// One thing the script does.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Commit(Vec<Change>),
    /// Closes the store in order and opens it again.
    Reopen,
    /// Opens the store again as after a kill: it was not closed.
    Kill,
}

fn put(row: u8, bytes: usize, version: u8) -> Change {
    Change {
        key: vec![row],
        value: Some(vec![version; bytes]),
    }
}

fn take(row: u8) -> Change {
    Change {
        key: vec![row],
        value: None,
    }
}

/// From a store that is yet to be made: one row and many, short and longer than a page, written
/// over and removed, with openings between them.
pub(crate) fn steps() -> Vec<Step> {
    let many = |version: u8| (0..40).map(|row| put(row, 90, version)).collect();
    vec![
        Step::Commit(vec![put(1, 20, 1)]),
        Step::Commit(many(2)),
        Step::Commit(vec![put(1, 20, 3), take(2), put(200, 9_000, 3)]),
        Step::Kill,
        Step::Commit(vec![put(1, 20, 4), put(201, 1, 4)]),
        Step::Reopen,
        Step::Commit((0..40).map(take).collect()),
        Step::Commit(vec![put(200, 30, 5), put(7, 200, 5)]),
        Step::Kill,
        Step::Reopen,
        Step::Commit(vec![put(8, 20, 6)]),
    ]
}

/// The beginning of it, for suites that take it again for every call of it.
pub(crate) fn short() -> Vec<Step> {
    let mut steps = steps();
    steps.truncate(5);
    steps
}

impl Step {
    /// The rows after this step.
    pub(crate) fn after(&self, rows: &Rows) -> Rows {
        let mut rows = rows.clone();
        if let Self::Commit(changes) = self {
            for Change { key, value } in changes {
                match value {
                    Some(value) => rows.insert(key.clone(), value.clone()),
                    None => rows.remove(key),
                };
            }
        }
        rows
    }
}

/// Whoever has the store open.
#[derive(Debug, Default)]
pub(crate) struct Owner(pub(crate) Option<RefsStore>);

impl Owner {
    pub(crate) fn step(&mut self, disk: &Disk, step: &Step) -> Result<(), StoreError> {
        match step {
            Step::Commit(changes) => match &mut self.0 {
                Some(store) => store.commit(changes.clone()),
                None => Ok(()),
            },
            Step::Reopen => {
                self.0 = None;
                self.0 = Some(open(disk)?);
                Ok(())
            }
            Step::Kill => {
                // The process is gone, and what it had open with it: no call of it reaches the
                // disk any more. A disk that holds the same bytes stands for the next one's.
                if let Some(store) = self.0.take() {
                    disk.cut_off(|| drop(store));
                }
                self.0 = Some(open(disk)?);
                Ok(())
            }
        }
    }
}

pub(crate) fn open(disk: &Disk) -> Result<RefsStore, StoreError> {
    RefsStore::open_on(disk.vfs(), Path::new(FOLDER))
}

pub(crate) fn rows(store: &mut RefsStore) -> Result<Rows, StoreError> {
    Ok(store.rows()?.into_iter().collect())
}
