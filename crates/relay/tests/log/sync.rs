//! Followers and hosts that reconcile.

use std::collections::BTreeSet;

use crate::support::*;
use overlane_recon::{Bound, End};
use overlane_relay::log::testkit::MemoryLogs;
use overlane_relay::log::{Event, Frame, Logs, Turn};

/// A host with this many posts of member 2, and a follower, member 1, with those that `holds` says.
fn behind(posts: u64, holds: impl Fn(u64) -> bool) -> Mesh {
    let rules = Plain::of(&[1, 2], &[9]);
    let mut host = node(rules.clone());
    let mut follower = node(rules);
    follower.follow(LOG, did(9)).unwrap();
    let mut mesh = Mesh::of([]);
    for number in 0..posts {
        if host.is_full() {
            host.flush(NOW_MS).unwrap();
        }
        host.post(LOG, envelope(2, number), peer(2), NOW_MS)
            .unwrap();
    }
    host.flush(NOW_MS).unwrap();
    mesh.nodes.insert(9, host);
    mesh.nodes.insert(1, follower);
    if (0..posts).any(&holds) {
        // It had those before: they come by a first reconciliation with a host that has no others.
        let mut earlier = Mesh::of([
            (9, mesh.nodes.remove(&9).unwrap()),
            (1, mesh.nodes.remove(&1).unwrap()),
        ]);
        let lacked: Vec<_> = (0..posts)
            .filter(|it| !holds(*it))
            .map(|it| id_of(&envelope(2, it)))
            .collect();
        earlier.at(1).rules().refused = lacked.into_iter().collect();
        earlier.at(1).start_sync(LOG, did(9), NOW_MS).unwrap();
        earlier.settle();
        earlier.reports(1);
        earlier.at(1).rules().refused.clear();
        earlier.recon_bytes = 0;
        earlier.recon_frames = 0;
        return earlier;
    }
    mesh
}

#[test]
fn group_log_a_follower_catches_up_and_keeps_the_hosts_numbers() {
    for holds in [
        (|_| false) as fn(u64) -> bool,
        |it| it < 3_000,
        |it| it % 7 != 0,
    ] {
        let mut mesh = behind(3_500, holds);
        mesh.at(1).start_sync(LOG, did(9), NOW_MS).unwrap();
        mesh.settle();
        let report = mesh.reports(1).pop().unwrap();
        assert_eq!(report.end, Some(End::Settled));
        assert_eq!(
            report.received,
            (0..3_500).filter(|it| !holds(*it)).count() as u64
        );
        assert_eq!(report.received_again, 0);
        let numbers = |entries: Vec<overlane_relay::log::Entry>| {
            entries
                .into_iter()
                .map(|it| (it.seq, it.id))
                .collect::<BTreeSet<_>>()
        };
        let (host, follower) = (mesh.entries(9), mesh.entries(1));
        assert_eq!(numbers(host), numbers(follower));
    }
}

#[test]
fn group_log_what_a_follower_posts_is_numbered_by_the_host_before_it_asks() {
    let mut mesh = behind(100, |_| false);
    let ids: Vec<_> = (0..5)
        .map(|number| {
            let post = envelope(1, number);
            mesh.at(1).post(LOG, post, peer(1), NOW_MS).unwrap()
        })
        .collect();
    mesh.at(1).flush(NOW_MS).unwrap();
    assert!(
        mesh.ids(1).is_empty(),
        "not kept before the host gave a number"
    );
    // The follower's process ends; what it posted is still there.
    let (rules, store) = {
        let mut node = mesh.nodes.remove(&1).unwrap();
        (node.rules().clone(), node.into_store().reopened())
    };
    mesh.nodes.insert(1, Logs::open(store, rules).unwrap());
    mesh.at(1).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.settle();
    let report = mesh.reports(1).pop().unwrap();
    assert_eq!(
        (report.received, report.received_again),
        (100, 0),
        "{report:?}"
    );
    let held = mesh.ids(1);
    assert_eq!(held, mesh.ids(9));
    assert!(ids.iter().all(|id| held.contains(id)));
    // One that is connected posts at once.
    let late = mesh
        .at(1)
        .post(LOG, envelope(1, 77), peer(1), NOW_MS)
        .unwrap();
    mesh.settle();
    assert!(mesh.ids(9).contains(&late) && mesh.ids(1).contains(&late));
}

#[test]
fn group_log_what_the_host_refuses_is_told_with_its_reason_s29() {
    let mut mesh = behind(40, |_| false);
    let post = envelope(1, 5);
    mesh.at(9).rules().refused.insert(id_of(&post));
    let unwanted = id_of(&envelope(2, 7));
    mesh.at(1).rules().refused.insert(unwanted);
    mesh.at(1).post(LOG, post.clone(), peer(1), NOW_MS).unwrap();
    mesh.at(1).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.settle();
    let told = events(mesh.at(1));
    let refused = Event::PostRefused {
        log: LOG,
        id: id_of(&post),
        code: "log/not_here".into(),
    };
    assert!(told.contains(&refused), "{told:?}");
    let report = told.iter().find_map(|it| match it {
        Event::Synced { report, .. } => Some(report),
        _ => None,
    });
    let report = report.unwrap();
    assert_eq!(report.end, Some(End::Settled));
    assert_eq!(report.refused_here.len(), 1);
    assert_eq!(report.refused_here[0].id, unwanted);
    assert_eq!(report.refused_here[0].why, "log/not_here");
    assert_eq!(mesh.ids(1).len(), 39);
}

#[test]
fn group_log_two_hosts_that_numbered_apart_come_to_hold_the_same() {
    let rules = Plain::of(&[1, 2, 3], &[8, 9]);
    let (mut one, mut two) = (node(rules.clone()), node(rules));
    for number in 0..2_000 {
        let post = envelope(1 + (number % 3) as u8, number);
        let author = peer(1 + (number % 3) as u8);
        if number % 5 != 0 {
            one.post(LOG, post.clone(), author, NOW_MS).unwrap();
        }
        // The other heard them in another order.
        if number % 4 != 0 {
            two.post(
                LOG,
                envelope(1 + ((1_999 - number) % 3) as u8, 1_999 - number),
                author,
                NOW_MS,
            )
            .unwrap();
        }
        for node in [&mut one, &mut two] {
            if node.is_full() {
                node.flush(NOW_MS).unwrap();
            }
        }
    }
    let mut mesh = Mesh::of([(8, one), (9, two)]);
    mesh.settle();
    let both: BTreeSet<_> = mesh.ids(8).union(&mesh.ids(9)).copied().collect();
    assert_ne!(mesh.ids(8), mesh.ids(9));
    mesh.at(8).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.settle();
    let report = mesh.reports(8).pop().unwrap();
    assert_eq!(report.end, Some(End::Settled), "{report:?}");
    assert_eq!(mesh.ids(8), both);
    assert_eq!(mesh.ids(9), both);
    // Each kept its own numbers, without a gap and without a repeat.
    for host in [8, 9] {
        let numbers: Vec<_> = mesh.entries(host).iter().map(|it| it.seq).collect();
        assert_eq!(numbers, (1..=both.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn group_log_an_exchange_that_ends_with_an_acknowledgement_has_ended() {
    let rules = Plain::of(&[1, 2], &[8, 9]);
    let (mut one, two) = (node(rules.clone()), node(rules));
    for number in 0..30 {
        one.post(LOG, envelope(2, number), peer(2), NOW_MS).unwrap();
    }
    let mut mesh = Mesh::of([(8, one), (9, two)]);
    mesh.settle();
    mesh.at(8).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.settle();
    assert!(!mesh.at(8).is_syncing(&LOG, &did(9)));
    let report = mesh.reports(8).pop().unwrap();
    assert_eq!((report.end, report.sent), (Some(End::Settled), 30));
}

#[test]
fn law_pushes_leave_before_the_answer_and_after_they_are_durable() {
    let mut mesh = behind(200, |_| false);
    mesh.at(1).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.at(1).flush(NOW_MS).unwrap();
    let ask = owed(mesh.at(1)).pop().unwrap();
    let mut host = mesh.nodes.remove(&9).unwrap();
    // Three posts that are not durable yet are not in the answer.
    host.post(LOG, envelope(2, 900), peer(2), NOW_MS).unwrap();
    host.handle_frame(peer(1), &ask.frame, NOW_MS).unwrap();
    assert!(owed(&mut host).is_empty());
    host.flush(NOW_MS).unwrap();
    let words = words(&owed(&mut host));
    assert_eq!(words.len(), 202);
    assert_eq!(words.iter().position(|it| it == "recon"), Some(201));
}

#[test]
fn law_an_exchange_whose_peer_is_silent_or_gone_ends_with_its_reason() {
    let mut mesh = behind(50, |_| false);
    let follower = mesh.at(1);
    follower.start_sync(LOG, did(9), NOW_MS).unwrap();
    follower.flush(NOW_MS).unwrap();
    let due = follower.poll_timeout().unwrap();
    follower.handle_timeout(due - 1);
    assert!(follower.is_syncing(&LOG, &did(9)));
    follower.handle_timeout(due);
    let report = mesh.reports(1).pop().unwrap();
    assert_eq!(report.end, Some(End::GaveUp(Bound::Idle)));
    let follower = mesh.at(1);
    assert_eq!(follower.poll_timeout(), None);
    follower.start_sync(LOG, did(9), NOW_MS).unwrap();
    follower.flush(NOW_MS).unwrap();
    follower.handle_disconnected(&did(9));
    let report = mesh.reports(1).pop().unwrap();
    assert_eq!(report.end, Some(End::GaveUp(Bound::Link)));
}

#[test]
fn law_a_host_that_numbered_anew_is_noticed_and_reconciled_in_the_shared_space() {
    let mut mesh = behind(3, |_| false);
    mesh.at(1).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.settle();
    // The host lost its store and numbers anew, in another order.
    let mut anew = Logs::open(MemoryLogs::default(), Plain::of(&[1, 2], &[9])).unwrap();
    for number in [10, 11, 12, 13, 2, 1, 0] {
        anew.post(LOG, envelope(2, number), peer(2), NOW_MS)
            .unwrap();
    }
    anew.flush(NOW_MS).unwrap();
    mesh.nodes.insert(9, anew);
    mesh.at(1).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.settle();
    let report = mesh.reports(1).pop().unwrap();
    let taken = report
        .refused_here
        .iter()
        .filter(|it| it.why == "log/number_taken");
    assert_eq!(taken.count(), 3, "{report:?}");
    mesh.at(1).hold(LOG).unwrap();
    mesh.at(1).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.settle();
    assert_eq!(mesh.reports(1).pop().unwrap().end, Some(End::Settled));
    assert_eq!(mesh.ids(1).len(), 7);
    assert_eq!(mesh.ids(1), mesh.ids(9));
}

#[test]
fn law_an_answer_nobody_asked_for_does_nothing() {
    let mut mesh = behind(10, |_| false);
    let payload =
        overlane_recon::initiate(&mut overlane_recon::ItemSet::new(), &Default::default());
    let Ok(payload) = payload;
    let envelope = envelope(2, 99);
    for frame in [
        Frame::Push {
            log: LOG,
            seq: 5,
            envelope: &envelope,
        },
        Frame::SendAck {
            log: LOG,
            id: id_of(&envelope),
            seq: 5,
        },
        Frame::Recon {
            log: LOG,
            space: overlane_relay::log::Space::Numbered,
            turn: Turn::Answer,
            payload: &payload,
        },
    ] {
        mesh.at(1)
            .handle_frame(peer(9), &frame.to_bytes(), NOW_MS)
            .unwrap();
    }
    mesh.settle();
    assert!(mesh.ids(1).is_empty());
    assert_eq!(mesh.at(1).counters().unexpected, 2);
}

/// A host that has no time for a post now is given it again; one that never takes it is not.
#[test]
fn group_log_what_is_refused_for_a_reason_that_passes_is_sent_again() {
    let mut mesh = behind(1, |_| false);
    mesh.at(9).rules().allowance.work_bytes = 700 * 1024;
    mesh.at(1).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.settle();
    events(mesh.at(1));
    mesh.at(9).handle_disconnected(&did(1));
    let ids: BTreeSet<_> = (0..3)
        .map(|number| {
            let post = envelope(1, number);
            mesh.at(1).post(LOG, post, peer(1), NOW_MS).unwrap()
        })
        .collect();
    mesh.at(1).flush(NOW_MS).unwrap();
    mesh.at(1).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.settle();
    let waiting = mesh.at(1).waiting(&LOG).unwrap();
    assert!((1..3).contains(&waiting), "{waiting} wait");
    let told = events(mesh.at(1));
    let refused = |it: &Event| matches!(it, Event::PostRefused { .. });
    assert!(!told.iter().any(refused), "{told:?}");
    // Its allowance is whole again.
    mesh.at(9).handle_disconnected(&did(1));
    mesh.at(9).rules().allowance = overlane_relay::log::Allowance::default();
    mesh.at(1).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.settle();
    assert_eq!(mesh.at(1).waiting(&LOG).unwrap(), 0);
    assert!(ids.is_subset(&mesh.ids(9)) && ids.is_subset(&mesh.ids(1)));
}

/// A plan names no more than its bound, and what is named unasked is refused.
#[test]
fn law_group_log_a_plan_names_no_more_than_its_bound() {
    use overlane_relay::log::bounds::PLAN_ITEMS_MAX;
    for (posts, ends) in [
        (PLAN_ITEMS_MAX - 1, End::Settled),
        (PLAN_ITEMS_MAX + 3_000, End::GaveUp(Bound::Link)),
    ] {
        let mut mesh = behind(posts, |_| false);
        mesh.at(1).start_plan(LOG, did(9), NOW_MS).unwrap();
        assert!(
            mesh.at(1).start_plan(LOG, did(9), NOW_MS).is_err(),
            "one at a time"
        );
        mesh.settle();
        let planned = events(mesh.at(1)).into_iter().find_map(|it| match it {
            Event::Planned { planned, .. } => Some(planned),
            _ => None,
        });
        let planned = planned.unwrap();
        assert_eq!(planned.report.end, Some(ends));
        assert_eq!(planned.receive, posts.min(PLAN_ITEMS_MAX));
        assert_eq!(planned.receive_bytes, 28 * planned.receive);
        assert!(mesh.ids(1).is_empty());
        assert_eq!(mesh.at(9).counters().pushed, 0);
    }
    let mut mesh = behind(1, |_| false);
    let named = Frame::Named {
        log: LOG,
        items: &[7; 44],
    };
    mesh.at(1)
        .handle_frame(peer(9), &named.to_bytes(), NOW_MS)
        .unwrap();
    assert_eq!(mesh.at(1).counters().unexpected, 1);
    for items in [vec![0; 43], vec![0; 44 * 1_025]] {
        let log = LOG;
        let frame = Frame::Named { log, items: &items }.to_bytes();
        assert!(Frame::from_bytes(&frame).is_err());
    }
}
