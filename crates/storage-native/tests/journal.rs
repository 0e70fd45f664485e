//! The journal under the suites of the test kit.

use overlane_storage_native::testkit::crash::{self, CrashPlan};
use overlane_storage_native::testkit::{
    CrashChoices, JournalSubject, failing, long_scenario, scenarios,
};

mod records_in_the_journal {
    use super::JournalSubject;
    use overlane_storage_native::conformance_tests;

    conformance_tests!(JournalSubject::SHORT);
}

mod records_in_the_snapshot {
    use super::JournalSubject;
    use overlane_storage_native::conformance_tests;

    conformance_tests!(JournalSubject::COMPACTED);
}

#[test]
fn crash_journal_every_prefix_and_subset_shows_the_model() {
    let mut all = scenarios();
    all.push(long_scenario());
    let plan = CrashPlan {
        choices: CrashChoices::default(),
        crash_recovery_every: 50,
    };
    for subject in [JournalSubject::SHORT, JournalSubject::COMPACTED] {
        let report = crash::enumerate(&subject, &all, plan).unwrap();
        println!("{subject:?}: {report:?}");
        assert!(report.distinct > 2_000, "{report:?}");
    }
}

#[test]
fn crash_journal_every_failing_call_fails_closed() {
    let choices = CrashChoices {
        exhaustive_max: 3,
        samples: 6,
        seed: 1,
        ..CrashChoices::default()
    };
    for subject in [JournalSubject::SHORT, JournalSubject::COMPACTED] {
        let report = failing::every_call(&subject, &scenarios(), choices).unwrap();
        println!("{subject:?}: {report:?}");
        assert!(
            report.carried_on > 0 && report.runs > report.carried_on,
            "{report:?}"
        );
    }
}
