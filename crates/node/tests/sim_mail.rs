//! Mail, groups and references in the simulator: what holders keep for those who are away, while holders crash, leave
//! and lie; what members of groups read, while they come and go; what is served of what applications share.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]
#![cfg(feature = "sim")]

use overlane_node::sim::{Act, Faults, Report, Sim, SimConfig};

fn run(config: SimConfig) -> Report {
    Sim::new(config).unwrap().run(|_| ())
}

/// A ring whose nodes send mail and little else.
fn ring(nodes: usize, minutes: u64, seed: u64) -> SimConfig {
    SimConfig {
        nodes,
        minutes,
        seed,
        messages_per_minute: 2,
        mails_per_minute: 6,
        groups: 0,
        references_per_minute: 0,
        ..SimConfig::default()
    }
}

fn assert_kept(report: &Report) {
    let command = report.config.command();
    assert_eq!(report.violations, 0, "{command}\n{:#?}", report.first);
}

/// Runs one seed after the other until everything came that `counts` tells of.
fn until_all_came<const N: usize>(config: &SimConfig, counts: impl Fn(&Report) -> [u64; N]) {
    let mut all = [0; N];
    for seed in config.seed..config.seed + 6 {
        let config = config.clone();
        let report = run(SimConfig { seed, ..config });
        assert_kept(&report);
        for (all, came) in all.iter_mut().zip(counts(&report)) {
            *all += came;
        }
        if all.iter().all(|&it| it > 0) {
            return;
        }
    }
    panic!("not everything came: {all:?}");
}

/// In this run a taking is durable though its flush failed: its application is told that it has not, nothing waits
/// again, and nobody is to blame.
#[test]
fn sim_mail_whose_taking_a_failed_store_kept_is_no_loss_of_its_holders() {
    let report = run(SimConfig {
        nodes: 8,
        minutes: 3,
        seed: 2,
        references_per_minute: 0,
        ..SimConfig::default()
    });
    assert_kept(&report);
    assert!(report.counts.stores_failed > 0);
}

#[test]
fn sim_mail_is_kept_taken_once_and_let_go_of_with_all_faults() {
    let config = SimConfig {
        mails_per_minute: 8,
        ..ring(6, 2, 1)
    };
    until_all_came(&config, |report| {
        let mail = &report.counts.mail;
        [
            mail.held,
            mail.delivered,
            mail.taken,
            mail.left_alone,
            mail.let_go,
            mail.handed_on,
        ]
    });
}

#[test]
fn sim_mail_to_those_who_are_there_is_delivered_and_held_by_nobody() {
    let report = run(SimConfig {
        faults: Faults::none(),
        ..ring(6, 1, 1)
    });
    assert_kept(&report);
    let mail = &report.counts.mail;
    // One that is sent before its sender is in the ring has no way yet.
    assert!(mail.delivered > 0, "{mail:?}");
    assert_eq!((mail.held, mail.waited), (0, 0), "{mail:?}");
}

#[test]
fn sim_groups_every_member_has_every_post_and_who_was_removed_reads_nothing_later() {
    let config = SimConfig {
        messages_per_minute: 1,
        mails_per_minute: 0,
        groups: 1,
        ..ring(6, 2, 2)
    };
    until_all_came(&config, |report| {
        let groups = &report.counts.groups;
        [
            groups.groups,
            groups.joined,
            groups.removed,
            groups.posts,
            groups.came,
            groups.caught_up,
        ]
    });
}

/// One host of each group lies in every way that it can, the other is honest.
#[test]
fn sim_groups_whose_host_lies_have_every_post_of_their_members_and_no_other() {
    let config = SimConfig {
        messages_per_minute: 1,
        mails_per_minute: 0,
        groups: 2,
        hostile: [Act::Hosts].into_iter().collect(),
        ..ring(7, 2, 1)
    };
    until_all_came(&config, |report| {
        let groups = &report.counts.groups;
        [
            groups.joined,
            groups.removed,
            groups.posts,
            groups.came,
            groups.lies,
            groups.not_taken,
        ]
    });
}

/// References are shared, fetched, called, let go of and taken back while nodes crash, stores fail and links break.
#[test]
fn sim_references_are_served_once_and_never_after_they_were_taken_back() {
    let config = SimConfig {
        mails_per_minute: 0,
        references_per_minute: 40,
        ..ring(5, 2, 1)
    };
    until_all_came(&config, |report| {
        let references = &report.counts.references;
        [
            references.fetched,
            references.heard_back,
            references.let_go,
            references.taken_back,
            references.heard,
            report.counts.kills + report.counts.power_cuts,
        ]
    });
}
