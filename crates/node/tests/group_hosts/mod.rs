//! Members whose host is gone go on with another, and members that were away over changes of the key read what was posted
//! while they were in.

use std::collections::BTreeSet;

use overlane_core::group::GroupId;
use overlane_core::wire::cbor::Writer;
use overlane_node::peer::groups::{
    Ask, EVERY_MS, GONE_MS, GroupEvent, GroupTicket, GroupView, Reply,
};
use overlane_relay::log::group::POST_AGE_MAX_MS;
use overlane_relay::log::{LogId, Mutant};

use super::group_net::{NETWORK, Net};

fn view(net: &mut Net, node: usize) -> GroupView {
    match net.asked(node, Ask::List) {
        Ok(Reply::Groups(mut views)) => views.remove(0),
        other => panic!("{other:?}"),
    }
}

/// Node 0 owns a group and hosts it, and so does node 1, which reads nothing. The others are members; the last follows
/// node 1, and the rest node 0.
fn two_hosts(net: &mut Net) -> GroupId {
    let group = net.create(0, &[1]);
    let hosts = vec![net.nodes[0].did, net.nodes[1].did];
    let ticket = GroupTicket {
        network: NETWORK,
        group,
        owner: net.nodes[0].did,
        revision: 1,
        hosts,
        name: "team".into(),
        url: None,
    };
    let joined = net.join(1, ticket);
    assert!(joined.host && !joined.member, "{joined:?}");
    let last = net.nodes.len() - 1;
    let tickets: Vec<_> = (2..=last).map(|node| net.invite(0, group, node)).collect();
    net.run_for(2 * EVERY_MS);
    for (node, ticket) in (2..=last).zip(tickets) {
        let other = usize::from(node != last);
        net.unlink(other, node);
        let follows = net.join(node, ticket).follows;
        assert_eq!(follows, Some(net.nodes[1 - other].did));
        net.link(other, node);
    }
    group
}

/// What a node reads, each once, or what is wrong with it.
fn said(net: &mut Net, node: usize, group: GroupId) -> Result<BTreeSet<String>, String> {
    let posts = net.read(node, group, false);
    let mut bodies = BTreeSet::new();
    for post in posts {
        let body = post
            .body
            .ok_or(format!("node {node} cannot read {}", post.seq))?;
        let body = String::from_utf8(body).unwrap();
        if !bodies.insert(body.clone()) {
            return Err(format!("node {node} has {body} twice"));
        }
    }
    Ok(bodies)
}

fn expect(net: &mut Net, group: GroupId, nodes: &[usize], all: &[String]) -> Result<(), String> {
    let all: BTreeSet<String> = all.iter().cloned().collect();
    for node in nodes {
        let has = said(net, *node, group)?;
        if has != all {
            let lacks: Vec<_> = all.difference(&has).collect();
            return Err(format!("node {node} lacks {lacks:?}"));
        }
        let waiting = view(net, *node).waiting;
        if waiting > 0 {
            return Err(format!("{waiting} posts of node {node} wait"));
        }
    }
    Ok(())
}

/// How host 1 goes away from the member that follows it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Goes {
    Dies,
    IsRemoved,
    IsRemovedAndDead,
}

/// The host of the last member goes, with posts that it took and handed to nobody, posts on their way to it, and posts
/// that wait for it.
fn the_host_goes(goes: Goes, seed: u64, mutant: Option<Mutant>) -> Result<(), String> {
    let mut net = Net::linked(4, seed);
    let group = two_hosts(&mut net);
    let mut all = Vec::new();
    let post = |net: &mut Net, all: &mut Vec<String>, node: usize, body: String| {
        net.post(node, group, &[&body]);
        all.push(body);
    };
    for node in [0, 2, 3] {
        post(&mut net, &mut all, node, format!("first of {node}"));
    }
    net.run_until(|net| (0..4).all(|node| net.held(node, group) == 3));
    if let Some(mutant) = mutant {
        net.groups(3).logs().break_rule(mutant);
    }
    net.unlink(0, 1);
    post(&mut net, &mut all, 3, "taken by its host alone".into());
    net.run_until(|net| net.held(1, group) == 4);
    for number in 0..5 {
        post(&mut net, &mut all, 3, format!("on its way {number}"));
        net.flush(3);
        for _ in 0..seed % 4 {
            net.deliver(3, 1);
            net.flush(1);
        }
    }
    match goes {
        Goes::Dies => net.crash(1),
        Goes::IsRemoved => net.unlink(1, 3),
        Goes::IsRemovedAndDead => net.crash(1),
    }
    net.unlink(0, 3);
    for number in 0..3 {
        post(&mut net, &mut all, 3, format!("waits {number}"));
    }
    net.run_for(GONE_MS / 2);
    let account = net.nodes[1].did;
    if goes != Goes::Dies {
        net.ask(0, Ask::Remove { group, account });
    }
    net.link(0, 3);
    net.link(0, 1);
    if goes == Goes::IsRemoved {
        net.link(1, 3);
    }
    post(&mut net, &mut all, 0, "after".into());
    net.run_for(GONE_MS + 3 * EVERY_MS);
    post(&mut net, &mut all, 3, "goes on".into());
    post(&mut net, &mut all, 2, "goes on, too".into());
    net.run_for(3 * EVERY_MS);
    expect(&mut net, group, &[0, 2, 3], &all)?;
    assert_eq!(view(&mut net, 3).follows, None);
    if goes == Goes::Dies {
        net.start(1);
        post(&mut net, &mut all, 3, "all are back".into());
        net.run_for(3 * EVERY_MS);
        expect(&mut net, group, &[0, 2, 3], &all)?;
        assert_eq!(net.held(1, group), all.len() as u64);
    }
    Ok(())
}

#[test]
fn law_group_a_member_whose_host_dies_goes_on_with_another_and_nothing_is_lost_or_doubled() {
    for seed in 0..6 {
        println!("seed {seed}");
        the_host_goes(Goes::Dies, seed, None).unwrap();
    }
    let broken = the_host_goes(Goes::Dies, 1, Some(Mutant::LoseTheWaiting));
    assert!(broken.unwrap_err().contains("lacks"));
}

#[test]
fn law_group_posts_that_wait_for_a_host_that_leaves_the_roster_go_to_another() {
    for goes in [Goes::IsRemoved, Goes::IsRemovedAndDead] {
        for seed in 0..4 {
            println!("{goes:?}, seed {seed}");
            the_host_goes(goes, seed, None).unwrap();
        }
    }
    // Where the old host does not take it first.
    let broken = the_host_goes(Goes::IsRemovedAndDead, 2, Some(Mutant::LoseTheWaiting));
    assert!(broken.unwrap_err().contains("lacks"));
}

/// A host that is away for less than that is waited for: the member keeps its numbers.
#[test]
fn group_a_host_that_comes_back_soon_is_followed_on() {
    let mut net = Net::linked(4, 3);
    let group = two_hosts(&mut net);
    net.crash(1);
    net.post(3, group, &["waits"]);
    net.run_for(GONE_MS - 5_000);
    net.start(1);
    net.run_for(2 * EVERY_MS);
    let known = view(&mut net, 3);
    assert_eq!(known.follows, Some(net.nodes[1].did));
    assert_eq!((known.waiting, known.posts), (0, 1));
    assert_eq!(known.courses.len(), 1, "who stood by is asked no more");
    assert_eq!(net.groups(3).counters().went_over, 0);
}

/// Its user sends a member to another host at once, and to none that is none.
#[test]
fn group_a_member_is_sent_to_another_host_by_its_user() {
    let mut net = Net::linked(4, 5);
    let group = two_hosts(&mut net);
    net.post(0, group, &["a"]);
    net.run_until(|net| net.held(3, group) == 1);
    let with = Some(net.nodes[0].did);
    // One that gives no answer changes nothing.
    net.unlink(0, 3);
    assert!(net.asked(3, Ask::Sync { group, with }).is_err());
    assert_eq!(view(&mut net, 3).follows, Some(net.nodes[1].did));
    assert_eq!(view(&mut net, 3).courses.len(), 1);
    net.link(0, 3);
    net.crash(1);
    net.post(3, group, &["b"]);
    let synced = net.asked(3, Ask::Sync { group, with });
    let Ok(Reply::Synced(host, report)) = synced else {
        panic!("{synced:?}")
    };
    assert_eq!((Some(host), report.sent), (with, 1));
    assert_eq!(net.held(0, group), 2);
    assert_eq!(view(&mut net, 3).follows, None);
    let member = Some(net.nodes[2].did);
    let refused = net.asked(
        3,
        Ask::Sync {
            group,
            with: member,
        },
    );
    assert_eq!(
        overlane_core::Coded::code(&refused.unwrap_err()),
        "group/not_a_host"
    );
}

/// A host that was put back from a copy numbers anew: who followed it notices, and has everything once.
#[test]
fn law_group_a_host_that_numbered_anew_is_noticed_by_who_followed_it() {
    for seed in 0..2 {
        println!("seed {seed}");
        let mut net = Net::linked(4, seed);
        let group = two_hosts(&mut net);
        let mut all: Vec<String> = (0..5).map(|it| format!("early {it}")).collect();
        let bodies: Vec<_> = all.iter().map(String::as_str).collect();
        net.post(0, group, &bodies);
        net.run_until(|net| (0..4).all(|node| net.held(node, group) == 5));
        let copy = net.copied(1);
        for number in 0..10 {
            for node in [0, 2, 3] {
                let body = format!("{node} {number}");
                net.post(node, group, &[&body]);
                all.push(body);
            }
            net.run_for(200);
        }
        net.run_until(|net| (0..4).all(|node| net.held(node, group) == 35));
        net.put_back(1, copy);
        net.run_for(3 * EVERY_MS);
        net.post(3, group, &["on"]);
        net.post(2, group, &["and on"]);
        all.extend(["on".into(), "and on".into()]);
        net.run_for(3 * EVERY_MS);
        expect(&mut net, group, &[0, 2, 3], &all).unwrap();
        assert_eq!(net.held(1, group), 37);
        assert_eq!(net.groups(3).counters().went_over, 1);
    }
}

/// What no host can be given is refused once none would take it any more.
#[test]
fn group_posts_that_wait_for_longer_than_any_host_takes_them_are_refused() {
    let mut net = Net::linked(4, 7);
    let group = two_hosts(&mut net);
    net.unlink(1, 3);
    net.unlink(0, 3);
    net.post(3, group, &["too late"]);
    net.run_for(EVERY_MS);
    assert_eq!(view(&mut net, 3).waiting, 1);
    net.now_ms += POST_AGE_MAX_MS;
    net.run_for(2 * EVERY_MS);
    assert_eq!(view(&mut net, 3).waiting, 0);
    let told = net.nodes[3].events.iter();
    let refused = told
        .filter(|it| matches!(it, GroupEvent::PostRefused { code, .. } if code == "log/too_old"));
    assert_eq!(refused.count(), 1);
    assert_eq!(net.groups(3).counters().posts_refused, 1);
}

/// What a member wrote that went over to another host, and that no host takes, is refused and not kept as if it had been
/// posted.
#[test]
fn group_a_post_that_the_next_host_refuses_is_told_to_its_author() {
    let mut net = Net::linked(4, 8);
    let group = two_hosts(&mut net);
    net.crash(1);
    let with = Some(net.nodes[0].did);
    net.asked(3, Ask::Sync { group, with }).unwrap();
    net.unlink(0, 3);
    net.post(3, group, &["too late"]);
    net.run_for(EVERY_MS);
    assert_eq!(net.held(3, group), 1, "it numbers for itself");
    net.now_ms += POST_AGE_MAX_MS;
    net.link(0, 3);
    net.run_for(2 * EVERY_MS);
    assert_eq!((net.held(0, group), net.held(3, group)), (0, 0));
    let told = net.nodes[3].events.iter();
    let refused = told
        .filter(|it| matches!(it, GroupEvent::PostRefused { code, .. } if code == "log/too_old"));
    assert_eq!(refused.count(), 1);
}

/// A member is away over many changes of the key, each with posts of its epoch. Who gives it the keys is
/// the owner, or a host that was away itself for the most of it.
fn away_over_rotations(rotations: usize, by_host: bool, given: bool) -> Result<(), String> {
    let mut net = Net::linked(5, 41);
    let group = two_hosts(&mut net);
    // Node 4 is away, and follows host 1.
    let mut all = vec!["epoch 1".to_owned()];
    net.post(0, group, &["epoch 1"]);
    net.run_until(|net| (0..5).all(|node| net.held(node, group) == 1));
    for node in 0..4 {
        net.unlink(node, 4);
    }
    if by_host {
        // The host that serves it later is away for the most of it, too.
        net.unlink(0, 1);
    }
    let account = net.nodes[3].did;
    for number in 0..rotations {
        net.asked(0, Ask::Remove { group, account }).unwrap();
        let body = format!("epoch {}", number + 2);
        net.post(0, group, &[&body]);
        all.push(body);
        net.invite(0, group, 3);
    }
    net.asked(0, Ask::Remove { group, account }).unwrap();
    if by_host {
        net.link(0, 1);
        net.run_for(3 * EVERY_MS);
        net.crash(0);
        // Its keys and rosters are durable.
        net.crash(1);
        net.start(1);
    } else {
        net.link(0, 4);
    }
    net.link(1, 4);
    net.link(2, 4);
    net.loses_earlier = !given;
    net.run_for(4 * EVERY_MS);
    let has = net.held(4, group);
    if has != all.len() as u64 {
        return Err(format!("it holds {has} posts"));
    }
    let read = said(&mut net, 4, group)?;
    if read.len() != all.len() {
        return Err(format!("it reads {} posts", read.len()));
    }
    // Who follows sees them too, in their order.
    assert_eq!(net.bodies(4, group).len(), all.len());
    // After a restart as before.
    net.crash(4);
    net.start(4);
    assert_eq!(said(&mut net, 4, group)?.len(), all.len());
    // Who was removed is given nothing of it.
    let log = LogId::group(group);
    let host = usize::from(by_host);
    let keys = view(&mut net, 3).keys;
    let turned_away = net.groups(host).counters().turned_away;
    let mut ask = Writer::new();
    ask.array(4).uint(7).bytes(&log.0).uint(u64::MAX).uint(0);
    let (removed, now) = (net.nodes[3].did, net.now());
    net.groups(host)
        .handle_message(removed, ask.as_bytes(), now);
    assert_eq!(net.groups(host).counters().turned_away, turned_away + 1);
    net.run_for(EVERY_MS);
    assert_eq!(view(&mut net, 3).keys, keys);
    Ok(())
}

#[test]
fn law_group_a_member_away_over_changes_of_the_key_reads_what_was_posted_while_it_was_in() {
    for rotations in [2, 7] {
        for by_host in [false, true] {
            println!("{rotations} rotations, by the other host: {by_host}");
            away_over_rotations(rotations, by_host, true).unwrap();
        }
    }
    // A network that carries no roster of an epoch that is over: the check finds it.
    let broken = away_over_rotations(2, false, false).unwrap_err();
    assert!(broken.contains("cannot read"), "{broken}");
}

/// Who came later is shown no roster of before, asks less and less, and reads on behind what it cannot read.
#[test]
fn law_group_who_came_later_is_given_no_key_of_before() {
    let mut net = Net::linked(4, 43);
    let group = net.create(0, &[]);
    let ticket = net.invite(0, group, 1);
    net.join(1, ticket);
    net.invite(0, group, 2);
    let account = net.nodes[2].did;
    for number in 0..3 {
        net.post(0, group, &[&format!("before {number}")]);
        net.asked(0, Ask::Remove { group, account }).unwrap();
        net.invite(0, group, 2);
    }
    net.asked(0, Ask::Remove { group, account }).unwrap();
    let ticket = net.invite(0, group, 3);
    net.join(3, ticket);
    net.post(0, group, &["since"]);
    net.run_until_all_hold(&[0, 1, 3], group, 4);
    let posts = net.read(3, group, true);
    let opened: Vec<_> = posts.iter().map(|it| it.body.is_some()).collect();
    assert_eq!(opened, [false, false, false, true]);
    assert_eq!(view(&mut net, 3).keys, 1);
    let asks = |net: &mut Net| net.groups(3).counters().earlier_asked;
    let asked = asks(&mut net);
    net.run_for(4 * 60 * EVERY_MS);
    assert_eq!(net.groups(3).counters().earlier, 0);
    assert!((1..20).contains(&(asks(&mut net) - asked)), "less and less");
}

/// A host that is made a member later follows what is posted from then on: what was sealed before holds nothing back.
#[test]
fn law_group_a_host_that_is_a_member_later_follows_what_is_posted_since() {
    let mut net = Net::linked(3, 59);
    let group = two_hosts(&mut net);
    net.post(0, group, &["before"]);
    let account = net.nodes[2].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.run_for(2 * EVERY_MS);
    net.invite(0, group, 1);
    net.post(0, group, &["since"]);
    net.run_until_all_hold(&[0, 1], group, 2);
    net.run_for(4 * EVERY_MS);
    let posts = net.read(1, group, true);
    let opened: Vec<_> = posts.iter().map(|it| it.body.is_some()).collect();
    assert_eq!(opened, [false, true]);
}

/// What nobody asked for, what is of another epoch, and what the owner did not sign: no key comes of it.
#[test]
fn law_group_rosters_of_epochs_that_are_over_count_only_where_they_were_asked_for() {
    let mut net = Net::linked(3, 47);
    let group = net.team();
    net.run_for(EVERY_MS);
    let log = LogId::group(group);
    let first = net
        .groups(0)
        .logs()
        .rules()
        .roster(&log)
        .unwrap()
        .to_bytes();
    net.unlink(0, 1);
    let account = net.nodes[2].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.settle();
    let mut earlier = Writer::new();
    earlier.array(2).uint(8).bytes(&first);
    let refused = net.groups(1).counters().rosters_refused;
    for from in [0, 2] {
        let (did, now) = (net.nodes[from].did, net.now());
        net.groups(1).handle_message(did, earlier.as_bytes(), now);
    }
    let counters = net.groups(1).counters();
    assert_eq!(
        (counters.rosters_refused - refused, counters.earlier),
        (2, 0)
    );
    assert_eq!(view(&mut net, 1).revision, view(&mut net, 2).revision);
}

fn bytes(net: &mut Net, node: usize, group: GroupId) -> u64 {
    net.groups(node)
        .logs()
        .size(&LogId::group(group))
        .unwrap()
        .1
}

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
