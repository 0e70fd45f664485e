//! Each deliberately broken variant of a store must be caught: suites that pass it prove
//! nothing about the store that is not broken.

use overlane_storage_native::testkit::conformance as law;
use overlane_storage_native::testkit::crash::{self, CrashPlan};
use overlane_storage_native::testkit::{
    CrashChoices, FilesSubject, JournalSubject, Mutant, Scenario, Subject, alone_scenario, failing,
    long_scenario, scenarios,
};

const CHOICES: CrashChoices = CrashChoices {
    exhaustive_max: 2,
    samples: 12,
    seed: 0,
    last_kept: false,
};

/// The part of the suites that is to catch a mutant: the whole of them would, later.
#[derive(Clone, Copy)]
enum By {
    Law(fn(&dyn Subject) -> Result<(), String>),
    Crash(&'static str),
    FailingCall(&'static str),
}

impl By {
    fn check(self, subject: &dyn Subject) -> Result<(), String> {
        match self {
            Self::Law(law) => law(subject),
            Self::Crash(scenario) => {
                let plan = CrashPlan {
                    choices: CHOICES,
                    crash_recovery_every: 7,
                };
                crash::enumerate(subject, &named(scenario), plan).map(drop)
            }
            Self::FailingCall(scenario) => {
                failing::every_call(subject, &named(scenario), CHOICES).map(drop)
            }
        }
    }
}

fn named(name: &str) -> Vec<Scenario> {
    let mut all = scenarios();
    all.extend([long_scenario(), alone_scenario()]);
    all.retain(|scenario| scenario.name == name);
    all
}

/// The same check passes the store as it is.
fn must_catch(mutant: Mutant, subject: &dyn Subject, by: By) {
    let caught = mutant.run(|| by.check(subject));
    println!("{mutant:?}: {caught:?}");
    assert!(caught.is_err(), "{mutant:?} passes");
    assert_eq!(by.check(subject), Ok(()), "the store that is not broken");
}

#[test]
fn law_files_every_broken_variant_is_caught() {
    let files = &FilesSubject;
    must_catch(Mutant::NoFolderFlush, files, By::Law(law::law_release));
    must_catch(Mutant::NoValueFlush, files, By::Law(law::law_release));
    must_catch(Mutant::MarkerFirst, files, By::Law(law::law_order));
    must_catch(Mutant::MarkerWithRecord, files, By::Crash("remove"));
}

#[test]
fn law_journal_every_broken_variant_is_caught() {
    let journal = &JournalSubject::SHORT;
    must_catch(Mutant::NoFolderFlush, journal, By::Law(law::law_release));
    must_catch(Mutant::NoFrameFlush, journal, By::Law(law::law_release));
    must_catch(Mutant::StopAtFirstBad, journal, By::Law(law::law_isolation));
    must_catch(Mutant::AnyName, journal, By::Law(law::law_own_key));
    must_catch(Mutant::RetryFlush, journal, By::Law(law::law_fail_closed));
    must_catch(Mutant::OldSnapshotFirst, journal, By::Crash("many batches"));
    must_catch(
        Mutant::FreeAtBegin,
        &JournalSubject::LATE,
        By::Crash("long"),
    );
}

#[test]
fn law_journal_every_broken_recovery_is_caught() {
    let journal = &JournalSubject::LATE;
    must_catch(
        Mutant::TrustLastFrame,
        journal,
        By::FailingCall("first record"),
    );
    must_catch(
        Mutant::FreeSuperseded,
        journal,
        By::FailingCall("alone in its segment"),
    );
}
