//! Every N-th call fails, for every N of the twelve scenarios, once and for good.

#![expect(clippy::panic, reason = "helpers of tests")]

use overlane_storage_native::testkit::{
    CrashChoices, FilesSubject, JournalSubject, Subject, alone_scenario, failing, scenarios,
};

const CHOICES: CrashChoices = CrashChoices {
    exhaustive_max: 2,
    samples: 4,
    seed: 1,
    last_kept: false,
};

fn every_call(subject: &dyn Subject) {
    let mut all = scenarios();
    all.push(alone_scenario());
    let report = failing::every_call(subject, &all, CHOICES);
    let report = report.unwrap_or_else(|why| panic!("{why}"));
    println!(
        "{}: {} runs with a failing call ({} carried on), {} images opened again, 0 violations",
        subject.name(),
        report.runs,
        report.carried_on,
        report.images
    );
    // Interruptions, short reads and short writes are no failures; all else is.
    assert!(report.carried_on > 0 && report.runs > 2 * report.carried_on);
}

#[test]
fn crash_files_every_failing_call_fails_closed() {
    every_call(&FilesSubject);
}

#[test]
fn crash_journal_every_failing_call_fails_closed() {
    every_call(&JournalSubject::LATE);
}

#[test]
fn crash_journal_with_snapshots_every_failing_call_fails_closed() {
    every_call(&JournalSubject::COMPACTED);
}
