//! Every N-th call fails, for every kind of fault and every N, once and for good.

use overlane_core::store::StoreError;
use overlane_core::{Coded as _, Fault};
use overlane_relay::refs::store::Store as _;
use overlane_relay::refs::table::Change;
use overlane_storage_native::testkit::{CrashChoices, Disk, FaultKind, FaultPlan, Mutant};

use super::script::{Owner, Rows, Step, open, rows, short};

const CHOICES: CrashChoices = CrashChoices {
    exhaustive_max: 0,
    samples: 2,
    seed: 3,
    last_kept: false,
};

#[derive(Debug, Default)]
struct Report {
    runs: usize,
    carried_on: usize,
}

fn every_call(kinds: &[FaultKind]) -> Result<Report, String> {
    let mut report = Report::default();
    for &kind in kinds {
        for for_good in [false, true] {
            for at in 1.. {
                let plan = FaultPlan { kind, at, for_good };
                let fired = run(plan, &mut report);
                if !fired.map_err(|why| format!("{plan:?}: {why}"))? {
                    break;
                }
            }
        }
    }
    Ok(report)
}

/// Whether a call failed at all.
fn run(plan: FaultPlan, report: &mut Report) -> Result<bool, String> {
    let disk = Disk::new();
    let mut owner = Owner::default();
    let mut before = Rows::new();
    let mut after = Rows::new();
    let mut failure = None;
    disk.fail(plan);
    for step in [Step::Reopen].iter().chain(&short()) {
        after = step.after(&before);
        match owner.step(&disk, step) {
            Ok(()) => before.clone_from(&after),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    if let Some(failure) = &failure {
        if failure.fault() != Fault::StoreFailedClosed {
            return Err(format!("{failure} is nobody's fault"));
        }
        if let Some(store) = &mut owner.0 {
            stays_closed(store)?;
        }
    }
    drop(owner);
    if !disk.heal() {
        return failure.map_or(Ok(false), |error| {
            Err(format!("failed unprovoked: {error}"))
        });
    }
    report.runs += 1;
    report.carried_on += usize::from(failure.is_none());
    go_on(&disk, &before, &after)?;
    Ok(true)
}

fn stays_closed(store: &mut overlane_storage_native::RefsStore) -> Result<(), String> {
    match (store.commit(Vec::new()), store.rows()) {
        (Err(StoreError::Poisoned { .. }), Err(StoreError::Poisoned { .. })) => Ok(()),
        other => Err(format!("a failed store went on: {other:?}")),
    }
}

/// The process starts again on the same system, whose cache still shows what a failed flush
/// lost. What is made durable now must outlive a crash.
fn go_on(disk: &Disk, before: &Rows, after: &Rows) -> Result<(), String> {
    let mut store = open(disk).map_err(|error| format!("does not open again: {error}"))?;
    let shown = rows(&mut store).map_err(|error| format!("does not read again: {error}"))?;
    if shown != *before && shown != *after {
        return Err(format!("shows {} rows after a restart", shown.len()));
    }
    let probe = Change {
        key: vec![255],
        value: Some(vec![9; 700]),
    };
    let going_on = store.commit(vec![probe.clone()]);
    going_on.map_err(|error| format!("does not go on: {error}"))?;
    let expected = Step::Commit(vec![probe]).after(&shown);
    let mut violation = None;
    let recording = disk.recording();
    recording.crash_images(recording.len(), CHOICES, |image| {
        let again = open(&Disk::from_image(&image)).and_then(|mut store| rows(&mut store));
        match again {
            Ok(again) if again == expected => {}
            Ok(again) => violation = Some(format!("shows {} rows", again.len())),
            Err(error) => violation = Some(error.to_string()),
        }
    });
    violation.map_or(Ok(()), |why| {
        Err(format!("after a restart and a crash: {why}"))
    })
}

#[test]
fn crash_references_every_failing_call_fails_closed() {
    let report = every_call(&FaultKind::ALL).unwrap_or_else(|why| panic!("{why}"));
    println!("references: {report:?}, 0 violations");
    assert!(report.runs > 2 * report.carried_on && report.carried_on > 0);
}

#[test]
fn law_references_an_open_that_trusts_the_cache_is_caught() {
    let caught = Mutant::TrustCache.run(|| every_call(&[FaultKind::FileFlush]));
    println!("{caught:?}");
    assert!(caught.is_err());
}
