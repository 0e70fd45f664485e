//! Every crash point of both stores. With `--no-capture` each test prints how many distinct
//! images it opened again; together they are more than 100,000.

#![expect(clippy::panic, reason = "helpers of tests")]

use overlane_storage_native::testkit::crash::{CrashPlan, Enumeration};
use overlane_storage_native::testkit::{
    CrashChoices, FilesSubject, JournalSubject, Subject, drawn_scenario, long_scenario, scenarios,
};

const PLAN: CrashPlan = CrashPlan {
    choices: CrashChoices {
        exhaustive_max: 8,
        samples: 64,
        seed: 20,
        last_kept: false,
    },
    crash_recovery_every: 500,
};

/// Runs the twelve scenarios, the long one, and drawn ones from seed zero on until so many
/// images differed.
fn enumerate(subject: &dyn Subject, distinct_min: u64) {
    let mut all = scenarios();
    all.push(long_scenario());
    let mut enumeration = Enumeration::new(subject, PLAN);
    let mut seed = 0;
    loop {
        let run = enumeration.run(&all);
        run.unwrap_or_else(|why| panic!("{} drawn scenarios in: {why}", seed));
        if enumeration.report.distinct >= distinct_min {
            break;
        }
        all = vec![drawn_scenario(seed)];
        seed += 1;
    }
    let total = enumeration.report;
    println!(
        "{}: {} distinct crash images of {} visited, {seed} drawn scenarios, 0 violations",
        subject.name(),
        total.distinct,
        total.visited
    );
}

#[test]
fn crash_files_every_prefix_subset_and_tear_shows_the_model() {
    enumerate(&FilesSubject, 30_000);
}

#[test]
fn crash_journal_every_prefix_subset_and_tear_shows_the_model() {
    enumerate(&JournalSubject::SHORT, 40_000);
}

#[test]
fn crash_journal_with_snapshots_every_prefix_subset_and_tear_shows_the_model() {
    enumerate(&JournalSubject::COMPACTED, 30_000);
}
