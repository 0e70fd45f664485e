//! Who has what: every post once, in one order, however it came.

use std::collections::BTreeSet;

use overlane_core::Coded;
use overlane_node::peer::groups::{Ask, EVERY_MS, GroupEvent, GroupTicket, Reply};
use overlane_recon::End;

use crate::net::{NETWORK, Net};
use crate::scenes::posted;

#[test]
fn law_group_everybody_reads_every_post_once_in_the_hosts_order() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut net = Net::linked(4, seed);
        let group = net.team();
        for round in 0..5 {
            for node in 0..4 {
                let bodies: Vec<_> = (0..3).map(|it| format!("{node} {round} {it}")).collect();
                let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
                net.post(node, group, &bodies);
            }
            net.settle();
        }
        net.run_until_all_hold(&[0, 1, 2, 3], group, 60);
        let said = net.bodies(0, group);
        for node in 0..4 {
            assert_eq!(net.bodies(node, group), said, "node {node}");
            let seqs: Vec<_> = net
                .read(node, group, false)
                .iter()
                .map(|it| it.seq)
                .collect();
            assert_eq!(seqs, (1..=60).collect::<Vec<_>>(), "node {node}");
            // What each wrote stands in the order it wrote it.
            let mine = |it: &&String| it.starts_with(&format!("{node} "));
            let mine: Vec<_> = said.iter().filter(mine).collect();
            assert!(mine.is_sorted(), "{mine:?}");
        }
        let all: BTreeSet<_> = said.iter().collect();
        assert_eq!(all.len(), 60, "each once");
        for node in &net.nodes {
            assert_eq!(node.given, node.taken, "each message's place is free again");
        }
    }
}

#[test]
fn law_group_what_is_posted_arrives_once_whatever_the_way_loses() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut net = Net::linked(3, seed);
        let group = net.team();
        net.loses = 250;
        for number in 0..20 {
            net.post(1, group, &[&format!("one {number}")]);
            net.post(2, group, &[&format!("two {number}")]);
            net.run_for(500);
        }
        net.loses = 0;
        net.run_until_all_hold(&[0, 1, 2], group, 40);
        let said = net.bodies(0, group);
        assert_eq!(net.bodies(1, group), said);
        assert_eq!(net.bodies(2, group), said);
        assert_eq!(said.iter().collect::<BTreeSet<_>>().len(), 40);
    }
}

#[test]
fn group_two_hosts_that_were_apart_come_to_hold_the_same() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut net = Net::linked(4, seed);
        let group = net.create(0, &[1]);
        // One that hosts and is no member: it keeps what it cannot read.
        let ticket = GroupTicket {
            network: NETWORK,
            group,
            owner: net.nodes[0].did,
            revision: 1,
            hosts: vec![net.nodes[0].did, net.nodes[1].did],
            name: "team".into(),
            url: None,
        };
        let view = net.join(1, ticket);
        assert!(view.host && !view.member, "{view:?}");
        let mut tickets = Vec::new();
        for node in 2..4 {
            tickets.push(net.invite(0, group, node));
        }
        // The third follows the second host: that is whom it hears first.
        net.unlink(0, 3);
        net.unlink(1, 2);
        net.run_for(2 * EVERY_MS);
        let view = net.join(2, tickets[1].clone());
        assert_eq!(view.follows, Some(net.nodes[0].did));
        let view = net.join(3, tickets[1].clone());
        assert_eq!(view.follows, Some(net.nodes[1].did));
        net.unlink(0, 1);
        for number in 0..20 {
            net.post(0, group, &[&format!("zero {number}")]);
            net.post(2, group, &[&format!("two {number}")]);
            net.post(3, group, &[&format!("three {number}")]);
            net.run_for(100);
        }
        assert_ne!(net.held(0, group), net.held(1, group));
        net.link(0, 1);
        net.run_until(|net| (0..4).all(|node| net.held(node, group) == 60));
        net.run_for(2 * EVERY_MS);
        let sorted = |net: &mut Net, node| {
            let mut bodies = net.bodies(node, group);
            bodies.sort();
            bodies
        };
        let all = sorted(&mut net, 0);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 60);
        assert_eq!(sorted(&mut net, 3), all);
        // Each host numbered for itself, and who follows one has its order.
        let unread = net.read(1, group, false);
        assert!(unread.iter().all(|post| post.body.is_none()));
        let order = |net: &mut Net, node| {
            let posts = net.read(node, group, false).into_iter();
            posts.map(|it| (it.seq, it.id)).collect::<Vec<_>>()
        };
        assert_eq!(order(&mut net, 1), order(&mut net, 3));
        assert_eq!(order(&mut net, 0), order(&mut net, 2));
    }
}

#[test]
fn group_a_member_away_for_thousands_of_posts_comes_back_and_knows_the_cost_before() {
    let mut net = Net::linked(3, 11);
    let group = net.team();
    net.unlink(0, 2);
    for round in 0..4 {
        let bodies: Vec<_> = (0..500).map(|it| format!("{round} {it:0>3}")).collect();
        let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
        let id = net.post(0, group, &bodies);
        net.settle();
        assert_eq!(posted(net.nodes[0].answers.remove(&id)).len(), 500);
    }
    net.run_until_all_hold(&[0, 1], group, 2_000);
    assert_eq!(net.bodies(2, group).len(), 0);
    let unreached = net.asked(2, Ask::Plan { group, with: None });
    assert_eq!(unreached.unwrap_err().code(), "group/unreachable");
    // A plan first: what it says is what the exchange then takes, within a few rounds.
    net.link(0, 2);
    net.loses = 0;
    let plan = net.ask(2, Ask::Plan { group, with: None });
    let sync = net.ask(2, Ask::Sync { group, with: None });
    net.run_until(|net| net.nodes[2].answers.len() == 2);
    let Some(Ok(Reply::Planned(plan))) = net.nodes[2].answers.remove(&plan) else {
        panic!("it is planned")
    };
    assert_eq!((plan.here, plan.there, plan.receive), (0, 2_000, 2_000));
    assert!(plan.receive_bytes > 2_000 * 100, "{plan:?}");
    let Some(Ok(Reply::Synced(_, report))) = net.nodes[2].answers.remove(&sync) else {
        panic!("it is synced")
    };
    assert_eq!(report.end, Some(End::Settled));
    assert_eq!((report.received, report.received_again), (2_000, 0));
    assert_eq!((report.rounds, report.bytes()), (plan.rounds, plan.bytes));
    let all = net.bodies(0, group);
    assert_eq!(net.bodies(2, group), all);
    let told = net.nodes[2].events.iter();
    let complete = told.filter(|it| matches!(it, GroupEvent::Complete { to: 2_001, .. }));
    assert_eq!(complete.count(), 1);
}

/// While posts come in out of their order, a reader that follows sees none before those below it.
#[test]
fn law_group_who_follows_reads_without_a_gap_while_posts_come_in() {
    let mut net = Net::linked(2, 13);
    let group = net.team();
    net.unlink(0, 1);
    for _ in 0..3 {
        let bodies = vec!["x"; 1_000];
        net.post(0, group, &bodies);
        net.settle();
    }
    net.link(0, 1);
    let mut seen_partial = false;
    net.run_until(|net| {
        let held = net.held(1, group);
        seen_partial |= held > 0 && held < 3_000;
        if held > 0 && held < 3_000 {
            let id = net.ask(
                1,
                Ask::Read {
                    group,
                    from: 0,
                    most: 10,
                    complete: true,
                },
            );
            net.flush(1);
            let page = net.nodes[1].answers.remove(&id);
            assert!(matches!(page, Some(Ok(Reply::Page(page))) if page.posts.is_empty()));
        }
        held == 3_000
    });
    assert!(seen_partial);
    net.run_until_all_hold(&[1], group, 3_000);
}
