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

use overlane_node::sim::{Act, Broken, Fault, Faults, Phase, Report, Sim, SimConfig, Topology};

fn run(config: SimConfig) -> Report {
    Sim::new(config).unwrap().run(|_| ())
}

/// Nodes that keep fixed links and carry nothing for others.
fn config(nodes: usize, minutes: u64, seed: u64) -> SimConfig {
    SimConfig {
        topology: Topology::Mesh,
        ..ring(nodes, minutes, seed)
    }
}

/// Nodes of a ring.
fn ring(nodes: usize, minutes: u64, seed: u64) -> SimConfig {
    SimConfig {
        nodes,
        minutes,
        seed,
        mails_per_minute: 0,
        groups: 0,
        references_per_minute: 0,
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
    let hostile = SimConfig {
        faults: Faults::none(),
        hostile: Act::ALL.iter().copied().collect(),
        messages_per_minute: 10,
        ..ring(6, 1, 8)
    };
    let mail = SimConfig {
        mails_per_minute: 10,
        groups: 1,
        references_per_minute: 10,
        messages_per_minute: 2,
        ..ring(5, 2, 9)
    };
    for config in [config(8, 2, 7), hostile, mail] {
        let seed = config.seed;
        let (mut lines, mut again) = (Vec::new(), Vec::new());
        let traced = |lines: &mut Vec<String>| {
            let tracer = |line: &str| lines.push(line.to_owned());
            Sim::traced(config.clone(), tracer).unwrap().run(|_| ())
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
        assert_eq!(run(config).trace, one.trace);
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
fn sim_on_the_ring_every_law_holds_with_all_faults_and_after_healing() {
    for seed in 1..=2 {
        let report = run(SimConfig {
            messages_per_minute: 10,
            ..ring(8, 2, seed)
        });
        assert_kept(&report);
        assert!(report.healed_after_ms.is_some(), "seed {seed}");
        let counts = &report.counts;
        assert!(counts.dispatched > 300, "seed {seed}: {counts:?}");
        assert!(counts.offers_answered > 0, "seed {seed}: {counts:?}");
        assert!(counts.forwarded > 0, "seed {seed}: {counts:?}");
    }
}

#[test]
fn sim_on_a_ring_that_is_not_disturbed_every_message_arrives_over_its_hops() {
    let report = run(SimConfig {
        faults: Faults::none(),
        messages_per_minute: 4,
        ..ring(24, 1, 3)
    });
    assert_kept(&report);
    let counts = &report.counts;
    assert_eq!(counts.signed, counts.dispatched);
    assert!(counts.forwarded > counts.signed / 8, "{counts:?}");
    assert!(counts.rings_checked > 0, "{counts:?}");
    assert_eq!(counts.starts, 24);
}

/// A burst of 240 messages by way of another node is more than waits there for one lane. The sender is told of those
/// that go no further, and what it sends in their place arrives; without that, this seed breaks “delivery after healing”.
#[test]
fn sim_what_met_a_congested_way_is_told_to_its_sender_and_arrives_when_it_is_sent_again() {
    let report = run(SimConfig {
        faults: Faults::none(),
        messages_per_minute: 120,
        ..ring(16, 1, 13)
    });
    assert_kept(&report);
    let counts = &report.counts;
    assert!(counts.unreachable.contains_key("route/congested"));
    assert!(counts.sent_in_place > 0, "{counts:?}");
}

/// How often some of these refusals came.
fn came(report: &Report, codes: &[&str]) -> u64 {
    let counts = &report.counts;
    let tables = [
        &counts.refused,
        &counts.cut,
        &counts.offers_failed,
        &counts.sends_refused,
    ];
    let found = |code| {
        tables
            .iter()
            .filter_map(move |table| table.get(code))
            .sum::<u64>()
    };
    let of_mail = |code: &str| counts.mail.refused.get(code).copied();
    let found = |code| found(code) + of_mail(code).unwrap_or_default();
    codes.iter().copied().map(found).sum()
}

/// How a hostile act is refused, and the run in which it comes.
fn contained(act: Act) -> (&'static [&'static str], SimConfig) {
    let few = SimConfig {
        faults: Faults::none(),
        hostile: [act].into_iter().collect(),
        messages_per_minute: 6,
        ..ring(8, 1, 1)
    };
    let mail = SimConfig {
        faults: [Fault::Churn].into_iter().collect(),
        messages_per_minute: 1,
        mails_per_minute: 6,
        minutes: 2,
        ..few.clone()
    };
    match act {
        Act::Lies => (&["ring/disordered", "ring/no_progress"], few),
        Act::Reports => (&["route/unknown_report"], few),
        Act::Offers => (&["link/other_signer", "signal/malformed"], few),
        Act::Loops => (
            &["route/no_progress", "route/hop_budget"],
            SimConfig { nodes: 16, ..few },
        ),
        Act::Mute => (
            &["route/congested", "send/too_many_pending"],
            SimConfig {
                nodes: 3,
                messages_per_minute: 4_000,
                ..few
            },
        ),
        Act::Delegations => (&["payload/unknown_delegation"], few),
        Act::Garbage => (
            &[
                "payload/wrong_lane",
                "payload/wrong_next_hop",
                "payload/wrong_hop",
                "payload/malformed",
            ],
            few,
        ),
        // Nobody refuses it: it is the other holders that matter.
        Act::Drops => (&[], mail),
        Act::OldMail => (&["inbox/removed"], mail),
        Act::BackDates => (
            &["statement/from_the_future", "delegation/from_the_future"],
            mail,
        ),
        // It is refused by members, each as it likes; what they did not take is counted.
        Act::Hosts => (
            &[],
            SimConfig {
                mails_per_minute: 0,
                groups: 1,
                ..mail
            },
        ),
    }
}

#[test]
fn sim_each_hostile_act_is_contained_refused_with_its_code_and_heals() {
    for &act in Act::ALL {
        let (codes, config) = contained(act);
        let met = (config.seed..config.seed + 4).any(|seed| {
            let config = config.clone();
            let report = run(SimConfig { seed, ..config });
            assert_kept(&report);
            let counts = &report.counts;
            assert!(counts.hostile_acts > 0, "{act}: {counts:?}");
            assert!(report.healed_after_ms.is_some(), "{act}");
            let mail = &counts.mail;
            let acted = match act {
                Act::Drops => mail.dropped,
                Act::OldMail | Act::BackDates => mail.brought,
                Act::Hosts => counts.groups.lies.min(counts.groups.not_taken),
                _ => counts.hostile_acts,
            };
            acted > 0 && (codes.is_empty() || came(&report, codes) > 0)
        });
        assert!(met, "{act}: none of {codes:?}");
    }
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
    let joins = SimConfig {
        faults: Faults::none(),
        messages_per_minute: 2,
        ..ring(4, 1, 1)
    };
    let fails = SimConfig {
        faults: [Fault::Churn].into_iter().collect(),
        messages_per_minute: 2,
        ..ring(8, 6, 1)
    };
    let mail = SimConfig {
        faults: [Fault::Churn, Fault::Crash].into_iter().collect(),
        messages_per_minute: 1,
        mails_per_minute: 10,
        ..ring(5, 2, 1)
    };
    let more_holders = SimConfig {
        nodes: 8,
        ..mail.clone()
    };
    let groups = SimConfig {
        faults: [Fault::Churn].into_iter().collect(),
        messages_per_minute: 1,
        groups: 1,
        ..ring(6, 1, 1)
    };
    let liars = SimConfig {
        hostile: [Act::Hosts].into_iter().collect(),
        ..groups.clone()
    };
    let references = SimConfig {
        faults: [Fault::Churn, Fault::Crash].into_iter().collect(),
        messages_per_minute: 1,
        references_per_minute: 40,
        ..ring(4, 2, 1)
    };
    match broken {
        Broken::ForgetfulReferences => ("what is kept survives", references),
        Broken::ForgetfulInbox => ("mail is kept", mail),
        Broken::DroppedInbox => ("mail is kept", more_holders),
        Broken::EarlyRemoval => ("mail is let go of when taken", mail),
        Broken::EarlyTake => ("at most once", mail),
        Broken::DeafKeeper => ("every member has every post", groups),
        Broken::AnyPost => ("a post is its author's", liars),
        Broken::ForgottenRemoval => ("who was removed reads nothing later", groups),
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
        Broken::RoundList => ("ordered lists", joins),
        Broken::OldTail | Broken::NoNotify | Broken::NoCandidates => ("healing", joins),
        Broken::NoSuccessors | Broken::Unasked | Broken::NoRing => ("one ordered ring", fails),
        Broken::DeadPredecessor => ("who is gone is forgotten", SimConfig { seed: 5, ..fails }),
    }
}

#[test]
fn broken_parts_are_caught_by_the_checker_of_the_law_they_break() {
    let mut clean = BTreeSet::new();
    for &broken in Broken::ALL {
        let (law, config) = caught(broken);
        let found = (config.seed..config.seed + 30).find_map(|seed| {
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
