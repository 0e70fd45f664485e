//! The simulator: seeds replay exactly, honest runs break no law, and broken ones are noticed.
//!
//! More seeds by command: `overlane sim --seed 1 --seeds 400`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]
#![cfg(feature = "sim")]

use std::collections::BTreeSet;

use overlane_node::sim::{Broken, Fault, Faults, Phase, Report, Sim, SimConfig};

fn run(config: SimConfig) -> Report {
    Sim::new(config).unwrap().run(|_| ())
}

fn config(nodes: usize, minutes: u64, seed: u64) -> SimConfig {
    SimConfig {
        nodes,
        minutes,
        seed,
        ..SimConfig::default()
    }
}

/// What a failing test says: the laws, and the command that repeats the run.
fn assert_kept(report: &Report) {
    let command = report.config.command();
    assert_eq!(report.violations, 0, "{command}\n{:#?}", report.first);
}

#[test]
fn law_a_seed_replays_exactly() {
    for seed in [7, 8] {
        let (mut lines, mut again) = (Vec::new(), Vec::new());
        let traced = |lines: &mut Vec<String>| {
            let tracer = |line: &str| lines.push(line.to_owned());
            Sim::traced(config(8, 2, seed), tracer).unwrap().run(|_| ())
        };
        let (one, other) = (traced(&mut lines), traced(&mut again));
        let differs = lines
            .iter()
            .zip(&again)
            .position(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(one, other, "seed {seed}");
        assert!(one.steps > 1_000, "{one:?}");
        // Watching changes nothing.
        assert_eq!(run(config(8, 2, seed)).trace, one.trace);
    }
    assert_ne!(run(config(8, 2, 7)).trace, run(config(8, 2, 8)).trace);
}

#[test]
fn sim_every_law_holds_with_all_faults_and_after_healing() {
    let mut faults = [0; 8];
    for seed in 1..=6 {
        let report = run(config(8, 3, seed));
        assert_kept(&report);
        assert!(report.healed_after_ms.is_some(), "seed {seed}");
        let counts = &report.counts;
        assert!(counts.dispatched > 500, "seed {seed}: {counts:?}");
        let met = [
            counts.stops,
            counts.kills,
            counts.power_cuts,
            counts.stores_failed,
            counts.partitions,
            counts.clocks_set,
            counts.offered_again,
            counts.refused.get("replay/replay").copied().unwrap_or(0),
        ];
        for (all, met) in faults.iter_mut().zip(met) {
            *all += met;
        }
    }
    assert!(
        faults.iter().all(|&met| met > 0),
        "every fault came: {faults:?}"
    );
}

#[test]
fn sim_without_faults_every_message_arrives_and_none_is_refused() {
    let faults = Faults::none();
    let report = run(SimConfig {
        faults,
        ..config(6, 2, 3)
    });
    assert_kept(&report);
    let counts = &report.counts;
    assert_eq!(counts.signed, counts.dispatched);
    assert!(counts.refused.is_empty() && counts.sends_refused.is_empty());
    assert_eq!((counts.starts, counts.links_down), (6, 0));
}

#[test]
fn a_run_tells_of_each_minute_and_of_its_phases() {
    let mut minutes = Vec::new();
    let report = Sim::new(config(4, 2, 5)).unwrap().run(|minute| {
        minutes.push((minute.minute, minute.phase));
    });
    assert_kept(&report);
    let (numbers, phases): (Vec<_>, Vec<_>) = minutes.into_iter().unzip();
    assert!(numbers.iter().copied().eq(1..=report.simulated_ms / 60_000));
    assert_eq!(phases.first(), Some(&Phase::Faults));
    assert_ne!(phases.last(), Some(&Phase::Faults));
}

/// What catches a broken part, and the runs in which it is looked for.
fn caught(broken: Broken) -> (&'static str, SimConfig) {
    let all = config(8, 4, 1);
    let busy = SimConfig {
        faults: [Fault::Stall].into_iter().collect(),
        messages_per_minute: 4_000,
        ..config(4, 1, 1)
    };
    let lives = SimConfig {
        faults: [Fault::Churn].into_iter().collect(),
        messages_per_minute: 60,
        ..config(3, 12, 1)
    };
    let full = SimConfig {
        faults: Faults::none(),
        messages_per_minute: 2_000,
        ..config(2, 1, 1)
    };
    match broken {
        Broken::ForgetfulDisk
        | Broken::EarlyRelease
        | Broken::SwallowedFailure
        | Broken::OpenWindow => ("at most once", all),
        Broken::OldLease => ("no sequence twice", lives),
        Broken::SwappedMessages | Broken::SwappedAnswers => ("order per class", all),
        Broken::HeldMessage => ("no honest refusal", all),
        Broken::LostMessage => ("delivery after healing", all),
        Broken::LostCredit => ("nothing stands still", full),
        Broken::EarlyPlace => ("bounds", busy),
        Broken::NoRedial => ("healing", all),
    }
}

#[test]
fn broken_parts_are_caught_by_the_checker_of_the_law_they_break() {
    let mut clean = BTreeSet::new();
    for &broken in Broken::ALL {
        let (law, config) = caught(broken);
        let found = (1..=30).find_map(|seed| {
            let report = run(SimConfig {
                seed,
                broken: Some(broken),
                ..config.clone()
            });
            report.by_law.get(law).map(|times| (seed, *times))
        });
        let (seed, times) = found.unwrap_or_else(|| panic!("{broken} is not caught by “{law}”"));
        println!("{broken}: seed {seed} breaks “{law}” {times} times");
        // The same run with nothing broken is clean: it is the mutant that was caught.
        let whole = SimConfig { seed, ..config };
        if clean.insert(whole.command()) {
            assert_kept(&run(whole));
        }
    }
}
