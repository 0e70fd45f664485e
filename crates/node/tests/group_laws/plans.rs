//! What reconciling would move is known before.

use overlane_node::peer::groups::{Ask, EVERY_MS, Reply};
use overlane_relay::log::Mutant;

use crate::net::Net;
use crate::scenes::{bytes, two_hosts, view};

/// A member that holds `held` posts plans and then reconciles with its host, which has `new` more; `waiting` of its own
/// wait.
fn planned(held: usize, new: usize, waiting: usize, mutant: Option<Mutant>) -> Result<(), String> {
    let mut net = Net::linked(2, 53);
    let group = net.team();
    let say = |net: &mut Net, node: usize, count: usize| {
        for _ in 0..count.div_ceil(500) {
            let bodies: Vec<_> = (0..count.min(500)).map(|it| format!("{it:0>40}")).collect();
            let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
            net.post(node, group, &bodies);
            net.settle();
        }
    };
    say(&mut net, 0, held);
    net.run_until(|net| net.held(1, group) == held as u64);
    net.run_for(EVERY_MS);
    net.unlink(0, 1);
    say(&mut net, 0, new);
    say(&mut net, 1, waiting);
    if let Some(mutant) = mutant {
        net.groups(0).logs().break_rule(mutant);
    }
    let before = (bytes(&mut net, 0, group), bytes(&mut net, 1, group));
    let pushed = net.groups(0).logs().counters().pushed;
    net.link(0, 1);
    let plan = net.ask(1, Ask::Plan { group, with: None });
    let sync = net.ask(1, Ask::Sync { group, with: None });
    net.run_until(|net| net.nodes[1].answers.contains_key(&plan));
    let Some(Ok(Reply::Planned(plan))) = net.nodes[1].answers.remove(&plan) else {
        panic!("it is planned")
    };
    let moved = net.groups(0).logs().counters().pushed - pushed;
    if moved > 0 || bytes(&mut net, 1, group) != before.1 {
        return Err(format!("{moved} posts moved for a plan"));
    }
    net.run_until(|net| net.nodes[1].answers.contains_key(&sync));
    let Some(Ok(Reply::Synced(_, report))) = net.nodes[1].answers.remove(&sync) else {
        panic!("it is synced")
    };
    assert!(plan.exact, "{plan:?}");
    assert_eq!((plan.here, plan.there), (held as u64, (held + new) as u64));
    assert_eq!((plan.receive, plan.send), (new as u64, waiting as u64));
    assert_eq!(report.received, plan.receive);
    let after = (bytes(&mut net, 0, group), bytes(&mut net, 1, group));
    assert_eq!(after.0 - before.0, plan.send_bytes);
    assert_eq!(after.1 - before.1, plan.receive_bytes + plan.send_bytes);
    if waiting == 0 {
        assert_eq!((plan.rounds, plan.bytes), (report.rounds, report.bytes()));
    }
    println!("{plan:?}");
    Ok(())
}

#[test]
fn law_group_a_plan_is_what_the_sync_then_moves_and_it_moves_no_post() {
    for (held, new, waiting) in [
        (0, 0, 0),
        (0, 300, 0),
        (100, 200, 0),
        (40, 0, 5),
        (60, 1_500, 3),
    ] {
        planned(held, new, waiting, None).unwrap();
    }
    let broken = planned(40, 40, 0, Some(Mutant::PushThePlanned));
    assert!(broken.unwrap_err().contains("moved"));
}

/// With a host that numbers apart; a plan alone changes nothing of whom a member asks, and no sync comes of it.
#[test]
fn group_a_plan_with_another_host_says_what_going_over_would_move() {
    let mut net = Net::linked(4, 59);
    let group = two_hosts(&mut net);
    let both = |net: &mut Net, number: usize| {
        net.post(0, group, &[&format!("zero {number}")]);
        net.post(3, group, &[&format!("three {number}")]);
        net.run_for(100);
    };
    for number in 0..10 {
        both(&mut net, number);
    }
    net.run_until(|net| (0..4).all(|node| net.held(node, group) == 20));
    net.unlink(0, 1);
    for number in 10..40 {
        both(&mut net, number);
    }
    net.run_for(2 * EVERY_MS);
    assert_eq!((net.held(0, group), net.held(3, group)), (50, 50));
    let with = Some(net.nodes[0].did);
    let Ok(Reply::Planned(plan)) = net.asked(3, Ask::Plan { group, with }) else {
        panic!("it is planned")
    };
    assert_eq!(
        (plan.receive, plan.send, plan.exact),
        (30, 30, true),
        "{plan:?}"
    );
    net.run_for(3 * EVERY_MS);
    assert_eq!(
        (net.held(0, group), net.held(3, group)),
        (50, 50),
        "nothing moved"
    );
    let known = view(&mut net, 3);
    assert_eq!(known.follows, Some(net.nodes[1].did));
    assert_eq!(known.courses.len(), 1);
    let Ok(Reply::Synced(_, report)) = net.asked(3, Ask::Sync { group, with }) else {
        panic!("it is synced")
    };
    assert_eq!((report.received, report.sent), (30, 30));
    assert!(
        report.rounds.abs_diff(plan.rounds) <= 2,
        "{report:?} {plan:?}"
    );
}

/// One that was due for nothing else reconciles when it would have done so anyway.
#[test]
fn group_no_sync_comes_of_a_plan() {
    let mut net = Net::linked(2, 61);
    let group = net.team();
    net.run_for(3 * EVERY_MS);
    let settled = net.groups(1).counters().settled;
    for _ in 0..5 {
        let planned = net.asked(1, Ask::Plan { group, with: None });
        assert!(matches!(planned, Ok(Reply::Planned(_))), "{planned:?}");
    }
    assert_eq!(net.groups(1).counters().settled, settled);
    net.run_for(2 * EVERY_MS);
    assert!(net.groups(1).counters().settled > settled, "it goes on");
}
