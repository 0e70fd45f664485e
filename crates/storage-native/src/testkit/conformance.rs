//! One test a law, over any store. Latency is the engine's law and is tested there.

use overlane_core::store::{Found, RecordName, Scan, StoreError};

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

type Checked = Result<(), String>;

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

fn found(scan: &Scan, name: RecordName) -> Option<&Found> {
    let record = scan.records.iter().find(|(of, _)| *of == name);
    record.map(|(_, found)| found)
}

fn is_bad(found: Option<&Found>) -> bool {
    !matches!(found, None | Some(Found::Bytes(_)))
}

/// Every other record is as the model has it.
fn others_whole(scan: &Scan, model: &Model, except: RecordName) -> Checked {
    for (name, value) in model.iter().filter(|(name, _)| **name != except) {
        ensure(
            found(scan, *name) == Some(&Found::Bytes(value.clone())),
            || format!("record {name} was harmed: {:?}", found(scan, *name)),
        )?;
    }
    Ok(())
}

/// Release: a write that returned outlives a crash that keeps nothing unflushed.
///
/// # Errors
/// The violation.
pub fn law_release(subject: &dyn Subject) -> Checked {
    let disk = Disk::new();
    let (mut store, _) = open(subject, &disk)?;
    let mut model = Model::new();
    let nothing_kept = CrashChoices {
        exhaustive_max: 0,
        samples: 1,
        ..CrashChoices::default()
    };
    for version in 0..8 {
        let changes = vec![put(version % 3, version), put(7, version)];
        write(store.as_mut(), &changes)?;
        model = scenario::after(&model, &changes);
        let mut judged = Err("no image".into());
        disk.recording()
            .crash_images(disk.position(), nothing_kept, |image| {
                judged = open(subject, &Disk::from_image(&image))
                    .and_then(|(_, scan)| scenario::judge(&scan, &model, &Vec::new()));
            });
        judged?;
    }
    Ok(())
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

/// Fail closed: after a failed flush every call is refused until the store is opened again.
///
/// # Errors
/// The violation.
pub fn law_fail_closed(subject: &dyn Subject) -> Checked {
    let disk = Disk::new();
    let model = four_records(subject, &disk)?;
    let (mut store, _) = open(subject, &disk)?;
    disk.fail(FaultPlan {
        kind: FaultKind::FileFlush,
        at: 1,
        for_good: false,
    });
    let changes = vec![put(0, 1)];
    let failed = store.write(&batch(&changes));
    ensure(disk.heal() && failed.is_err(), || {
        "a failed flush was taken for a good one".into()
    })?;
    let refused = [
        store.write(&batch(&[put(1, 1)])).err(),
        store.write(&[]).err(),
        store.scan().err(),
        store.seal().err(),
    ];
    for refusal in refused {
        ensure(matches!(refusal, Some(StoreError::Poisoned { .. })), || {
            format!("a poisoned store went on: {refusal:?}")
        })?;
    }
    drop(store);
    let (mut store, scan) = open(subject, &disk)?;
    scenario::judge(&scan, &model, &changes)?;
    write(store.as_mut(), &vec![put(1, 1)])
}

/// Isolation: a bad record is named, and every other one is read and written as ever.
///
/// # Errors
/// The violation.
pub fn law_isolation(subject: &dyn Subject) -> Checked {
    for record in 0..4 {
        let disk = Disk::new();
        let model = four_records(subject, &disk)?;
        disk.tamper(|image| subject.damage(image, name(record)));
        let (mut store, scan) = open(subject, &disk)?;
        ensure(is_bad(found(&scan, name(record))), || {
            format!("a damaged record is {:?}", found(&scan, name(record)))
        })?;
        others_whole(&scan, &model, name(record))?;
        write(store.as_mut(), &vec![put((record + 1) % 4, 1)])?;
        drop(store);
        let (_, scan) = open(subject, &disk)?;
        let model = scenario::after(&model, &vec![put((record + 1) % 4, 1)]);
        others_whole(&scan, &model, name(record))?;
    }
    Ok(())
}

/// Never delete: a bad record is not written over, and stays bad however long the store runs.
///
/// # Errors
/// The violation.
pub fn law_never_delete(subject: &dyn Subject) -> Checked {
    let disk = Disk::new();
    four_records(subject, &disk)?;
    disk.tamper(|image| subject.damage(image, name(1)));
    for round in 0..40 {
        let (mut store, scan) = open(subject, &disk)?;
        ensure(is_bad(found(&scan, name(1))), || {
            format!(
                "in round {round} the bad record is {:?}",
                found(&scan, name(1))
            )
        })?;
        for changes in [
            vec![put(1, 5)],
            vec![(name(1), None)],
            vec![put(0, 5), put(1, 5)],
        ] {
            let refused = store.write(&batch(&changes));
            ensure(
                refused == Err(StoreError::BadRecord { name: name(1) }),
                || format!("a bad record was written over: {refused:?}"),
            )?;
        }
        write(store.as_mut(), &vec![put(0, round), put(2, round)])?;
    }
    Ok(())
}

/// Missing: a record that was made durable and is gone is noticed.
///
/// # Errors
/// The violation.
pub fn law_missing(subject: &dyn Subject) -> Checked {
    let disk = Disk::new();
    let model = four_records(subject, &disk)?;
    disk.tamper(|image| subject.take_away(image, name(2)));
    for _ in 0..2 {
        let (_, scan) = open(subject, &disk)?;
        ensure(is_bad(found(&scan, name(2))), || {
            format!(
                "a record that was taken away is {:?}",
                found(&scan, name(2))
            )
        })?;
        others_whole(&scan, &model, name(2))?;
    }
    Ok(())
}

/// Own key: another record's bytes under a name are bad.
///
/// # Errors
/// The violation.
pub fn law_own_key(subject: &dyn Subject) -> Checked {
    let disk = Disk::new();
    let model = four_records(subject, &disk)?;
    // Of one length, so that nothing but the name tells them apart.
    let pair = vec![
        (name(20), Some(vec![1; 100])),
        (name(21), Some(vec![2; 100])),
    ];
    let (mut store, _) = open(subject, &disk)?;
    write(store.as_mut(), &pair)?;
    store.seal().map_err(|error| format!("seal: {error}"))?;
    drop(store);
    let model = scenario::after(&model, &pair);
    disk.tamper(|image| subject.misplace(image, name(20), name(21)));
    let (_, scan) = open(subject, &disk)?;
    ensure(is_bad(found(&scan, name(21))), || {
        format!("another record's bytes are {:?}", found(&scan, name(21)))
    })?;
    others_whole(&scan, &model, name(21))
}

/// One scan: after it, writing reads nothing.
///
/// # Errors
/// The violation.
pub fn law_one_scan(subject: &dyn Subject) -> Checked {
    let disk = Disk::new();
    four_records(subject, &disk)?;
    let (mut store, _) = open(subject, &disk)?;
    let reads = disk.calls().reads;
    for version in 1..4 {
        write(store.as_mut(), &vec![put(0, version), put(9, version)])?;
    }
    let more = disk.calls().reads.saturating_sub(reads);
    ensure(more == 0, || format!("three batches read {more} times"))
}

/// Budget: a batch beyond it is refused whole and changes nothing, nothing is evicted, and a
/// store beyond a lowered budget does not open.
///
/// # Errors
/// The violation.
pub fn law_budget(subject: &dyn Subject) -> Checked {
    let disk = Disk::new();
    let model = four_records(subject, &disk)?;
    let record_bytes: usize = model.values().map(Vec::len).sum();
    let full = subject.budget_of(4, record_bytes as u64);
    let open_at = |budget| {
        subject
            .open(&disk, budget)
            .map_err(|error| format!("{error}"))
    };
    let mut store = open_at(full)?;
    store.scan().map_err(|error| format!("scan: {error}"))?;
    let refused = store.write(&batch(&[(name(0), None), put(8, 0), put(9, 0), put(10, 0)]));
    ensure(
        matches!(refused, Err(StoreError::BudgetExhausted { .. })),
        || format!("a batch beyond the budget: {refused:?}"),
    )?;
    let scan = store.scan().map_err(|error| format!("scan: {error}"))?;
    scenario::judge(&scan, &model, &Vec::new())?;
    write(store.as_mut(), &vec![(name(0), Some(value(0, 0)))])?;
    write(store.as_mut(), &vec![(name(0), None)])?;
    drop(store);
    drop(open_at(AMPLE_BUDGET_BYTES)?);
    let lowered = subject.open(&disk, subject.budget_of(1, 100)).err();
    ensure(
        matches!(lowered, Some(StoreError::BudgetExhausted { .. })),
        || format!("a lowered budget: {lowered:?}"),
    )
}

/// Clear one: clearing resets that record alone, keeps what was there, and lasts.
///
/// # Errors
/// The violation.
pub fn law_clear_one(subject: &dyn Subject) -> Checked {
    let disk = Disk::new();
    let model = four_records(subject, &disk)?;
    disk.tamper(|image| {
        subject.damage(image, name(1));
        subject.take_away(image, name(2));
    });
    let (mut store, _) = open(subject, &disk)?;
    for record in [1, 2, 3] {
        let cleared = store
            .clear(name(record))
            .map_err(|error| format!("clear: {error}"))?;
        ensure(disk.image().file(&cleared.kept).is_some(), || {
            format!("nothing is kept of record {record}")
        })?;
        let again = store.clear(name(record)).err();
        ensure(
            again == Some(StoreError::UnknownRecord { name: name(record) }),
            || format!("cleared twice: {again:?}"),
        )?;
    }
    let model = Model::from_iter(model.into_iter().filter(|(of, _)| *of == name(0)));
    for _ in 0..2 {
        drop(store);
        let (reopened, scan) = open(subject, &disk)?;
        scenario::judge(&scan, &model, &Vec::new())?;
        store = reopened;
    }
    write(store.as_mut(), &vec![put(1, 1), put(2, 1)])
}

/// One owner: a second opener is refused by name until the first one is gone.
///
/// # Errors
/// The violation.
pub fn law_one_owner(subject: &dyn Subject) -> Checked {
    let disk = Disk::new();
    let (store, _) = open(subject, &disk)?;
    let second = subject.open(&disk, AMPLE_BUDGET_BYTES).err();
    let pid = Some(std::process::id());
    ensure(
        matches!(&second, Some(StoreError::Locked { pid: of, .. }) if *of == pid),
        || format!("a second opener: {second:?}"),
    )?;
    drop(store);
    open(subject, &disk).map(drop)
}
