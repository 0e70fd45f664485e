//! One test a law, over any store: the cases that every record store shares
//! ([`overlane_core::store::testkit`]), on a disk in memory, and those that enumerate its crashes.

use std::cell::RefCell;
use std::path::Path;

use overlane_core::store::testkit::conformance as shared;
pub use overlane_core::store::testkit::conformance::Checked;
use overlane_core::store::testkit::{self, Budget, OpenStore, at_once};
use overlane_core::store::{Change, RecordName, Scan, StoreError};

use super::crash::{self, CrashPlan};
use super::scenario::{self, AMPLE_BUDGET_BYTES, Changes, Model, batch, value};
use super::{CrashChoices, Disk, FaultKind, FaultPlan, Scenario, Step, Subject, name};
use crate::StoreAdmin;

/// Makes one `#[test]` a law for a subject.
#[macro_export]
macro_rules! conformance_tests {
    ($subject:expr) => {
        $crate::conformance_tests!(
            $subject;
            law_release law_atomicity law_order law_removals_last law_fail_closed law_isolation
            law_never_delete law_missing law_own_key law_one_scan law_budget law_clear_one
            law_one_owner
        );
    };
    ($subject:expr; $($law:ident)*) => {
        $(
            #[test]
            fn $law() {
                if let Err(violation) = $crate::testkit::conformance::$law(&$subject) {
                    panic!("{violation}");
                }
            }
        )*
    };
}

fn put(record: u64, version: u64) -> (RecordName, Option<Vec<u8>>) {
    (name(record), Some(value(record, version)))
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn open(subject: &dyn Subject, disk: &Disk) -> Result<(Box<dyn StoreAdmin>, Scan), String> {
    scenario::open(subject, disk).map_err(|error| format!("open: {error}"))
}

fn write(store: &mut dyn StoreAdmin, changes: &Changes) -> Checked {
    let written = store.write(&batch(changes));
    written.map_err(|error| format!("write: {error}"))
}

/// A store with records 0 to 3, sealed and closed.
fn four_records(subject: &dyn Subject, disk: &Disk) -> Result<Model, String> {
    let (mut store, _) = open(subject, disk)?;
    let changes: Changes = (0..4).map(|record| put(record, 0)).collect();
    write(store.as_mut(), &changes)?;
    store.seal().map_err(|error| format!("seal: {error}"))?;
    Ok(scenario::after(&Model::new(), &changes))
}

/// Atomicity: any crash leaves each record whole, at its previous or its new value.
///
/// # Errors
/// The violation.
pub fn law_atomicity(subject: &dyn Subject) -> Checked {
    let batch = |version| Step::Write((0..3).map(|record| put(record, version)).collect());
    let steps = vec![batch(0), batch(1)];
    let scenario = Scenario {
        name: "two batches of three",
        steps,
    };
    crash::enumerate(subject, &[scenario], CrashPlan::default()).map(drop)
}

/// Order: each record's durable values follow the order of the batches.
///
/// # Errors
/// The violation.
pub fn law_order(subject: &dyn Subject) -> Checked {
    let steps = (0..6).map(|version| Step::Write(vec![put(0, version)]));
    let scenario = Scenario {
        name: "six values of one record",
        steps: steps.collect(),
    };
    crash::enumerate(subject, &[scenario], CrashPlan::default()).map(drop)
}

/// Removals last: no crash shows a record gone while a write of the same batch is not there,
/// in whatever order the batch lists them and however many frames it takes.
///
/// # Errors
/// The violation.
pub fn law_removals_last(subject: &dyn Subject) -> Checked {
    let disk = Disk::new();
    let model = four_records(subject, &disk)?;
    let (mut store, _) = open(subject, &disk)?;
    let from = disk.position();
    // Ten of the longest values: more than a short journal's segment.
    let longest = |record: u64| put(record, (10_000 - 3 * record + 7) % 8);
    let mut changes: Changes = vec![(name(0), None), (name(2), None)];
    changes.extend((10..20).map(longest));
    write(store.as_mut(), &changes)?;
    let written = scenario::after(&model, &changes);
    let choices = CrashChoices {
        samples: 16,
        ..CrashChoices::default()
    };
    for position in from..=disk.position() {
        let mut judged = Ok(());
        disk.recording().crash_images(position, choices, |image| {
            let shown = || {
                let (_, scan) = open(subject, &Disk::from_image(&image))?;
                scenario::judge(&scan, &model, &changes)
            };
            let checked = shown().and_then(|shown| {
                let gone = [0, 2].iter().any(|it| !shown.contains_key(&name(*it)));
                let whole = written
                    .iter()
                    .all(|(of, value)| shown.get(of) == Some(value));
                ensure(!gone || whole, || {
                    format!("crash at effect {position}: a record left before a write was there")
                })
            });
            judged = std::mem::replace(&mut judged, Ok(())).and(checked);
        });
        judged?;
    }
    Ok(())
}

/// The shared cases, each on a disk of its own.
macro_rules! shared {
    ($($law:ident)*) => {
        $(
            /// The shared case of this name.
            ///
            /// # Errors
            /// The violation.
            pub fn $law(subject: &dyn Subject) -> Checked {
                at_once(shared::$law(&OnDisk::new(subject)))
            }
        )*
    };
}

shared!(
    law_release law_fail_closed law_isolation law_never_delete law_missing law_own_key
    law_one_scan law_budget law_clear_one law_one_owner
);

/// A subject and the disk its store is on.
struct OnDisk<'a> {
    subject: &'a dyn Subject,
    disk: RefCell<Disk>,
}

impl<'a> OnDisk<'a> {
    fn new(subject: &'a dyn Subject) -> Self {
        let disk = RefCell::new(Disk::new());
        Self { subject, disk }
    }

    fn disk(&self) -> Disk {
        self.disk.borrow().clone()
    }
}

impl testkit::Subject for OnDisk<'_> {
    type Store = Opened;

    fn fresh(&self) -> Self {
        Self::new(self.subject)
    }

    async fn open(&self, budget: Budget) -> Result<Self::Store, StoreError> {
        let budget_bytes = match budget {
            Budget::Ample => AMPLE_BUDGET_BYTES,
            Budget::Of {
                records,
                record_bytes,
            } => self.subject.budget_of(records, record_bytes),
        };
        self.subject.open(&self.disk(), budget_bytes).map(Opened)
    }

    async fn close(&self, store: Self::Store) {
        drop(store);
    }

    async fn crash(&self, store: Self::Store) {
        let nothing_kept = CrashChoices {
            exhaustive_max: 0,
            samples: 1,
            ..CrashChoices::default()
        };
        let disk = self.disk();
        disk.recording()
            .crash_images(disk.position(), nothing_kept, |image| {
                *self.disk.borrow_mut() = Disk::from_image(&image);
            });
        drop(store);
    }

    async fn damage(&self, name: RecordName) {
        self.disk().tamper(|image| self.subject.damage(image, name));
    }

    async fn take_away(&self, name: RecordName) {
        self.disk()
            .tamper(|image| self.subject.take_away(image, name));
    }

    async fn misplace(&self, of: RecordName, under: RecordName) {
        self.disk()
            .tamper(|image| self.subject.misplace(image, of, under));
    }

    fn reads(&self) -> u64 {
        self.disk().calls().reads
    }

    fn fail_next_commit(&self) {
        self.disk().fail(FaultPlan {
            kind: FaultKind::FileFlush,
            at: 1,
            for_good: false,
        });
    }

    fn heal(&self) -> bool {
        self.disk().heal()
    }

    async fn keeps(&self, kept: &str) -> bool {
        self.disk().image().file(Path::new(kept)).is_some()
    }

    fn owner(&self) -> Option<u32> {
        Some(std::process::id())
    }
}

/// The store, as the shared cases use it.
struct Opened(Box<dyn StoreAdmin>);

impl OpenStore for Opened {
    async fn scan(&mut self) -> Result<Scan, StoreError> {
        self.0.scan()
    }

    async fn write(&mut self, batch: &[Change]) -> Result<(), StoreError> {
        self.0.write(batch)
    }

    async fn seal(&mut self) -> Result<(), StoreError> {
        self.0.seal()
    }

    async fn clear(&mut self, name: RecordName) -> Result<String, StoreError> {
        let cleared = self.0.clear(name)?;
        Ok(cleared.kept.display().to_string())
    }
}
