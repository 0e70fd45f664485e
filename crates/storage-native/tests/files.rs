//! The files store under the suites of the test kit.

use overlane_storage_native::conformance_tests;
use overlane_storage_native::testkit::crash::{self, CrashPlan};
use overlane_storage_native::testkit::{
    CrashChoices, FilesSubject, failing, long_scenario, scenarios,
};

conformance_tests!(FilesSubject);

#[test]
fn crash_files_every_prefix_and_subset_shows_the_model() {
    let mut all = scenarios();
    all.push(long_scenario());
    let plan = CrashPlan {
        choices: CrashChoices::default(),
        crash_recovery_every: 50,
    };
    let report = crash::enumerate(&FilesSubject, &all, plan).unwrap();
    println!("files: {report:?}");
    assert!(report.distinct > 2_000, "{report:?}");
}

#[test]
fn crash_files_every_failing_call_fails_closed() {
    let choices = CrashChoices {
        exhaustive_max: 3,
        samples: 6,
        seed: 1,
        ..CrashChoices::default()
    };
    let report = failing::every_call(&FilesSubject, &scenarios(), choices).unwrap();
    println!("files: {report:?}");
    assert!(
        report.carried_on > 0 && report.runs > report.carried_on,
        "{report:?}"
    );
}
