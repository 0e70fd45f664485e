//! Members whose host is gone go on with another.

use overlane_node::peer::groups::{
    Ask, EVERY_MS, GONE_MAX_MS, GONE_MIN_MS, GONE_MS, GroupEvent, Reply,
};
use overlane_relay::log::group::POST_AGE_MAX_MS;
use overlane_relay::log::{Change, LogId, LogStore, Mutant};

use crate::net::Net;
use crate::scenes::{expect, two_hosts, view};

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

/// A member went over to another host than the first of its group, by its user's word or as its own was gone, and is
/// started anew; `kept`: as its store has kept whom it chose.
fn restarted_after_going_over(by_user: bool, posts: usize, kept: bool) -> Result<(), String> {
    let mut net = Net::linked(4, 11);
    let group = two_hosts(&mut net);
    for number in 0..posts {
        net.post(0, group, &[&format!("{number}")]);
    }
    net.run_until(|net| (0..4).all(|node| net.held(node, group) == posts as u64));
    // Who would be asked if nothing were known is the first; so the member is one that goes from there to the other.
    let first = view(&mut net, 2).hosts[0];
    let (member, old, chosen) = match first == net.nodes[0].did {
        true => (2, 0, 1),
        false => (3, 1, 0),
    };
    let did = net.nodes[chosen].did;
    net.link(chosen, member);
    if by_user {
        let with = Some(did);
        let synced = net.asked(member, Ask::Sync { group, with });
        assert!(matches!(synced, Ok(Reply::Synced(..))), "{synced:?}");
    } else {
        net.crash(old);
        net.run_until(|net| net.counters(member).went_over == 1);
        net.start(old);
    }
    net.run_for(EVERY_MS);
    assert_eq!(view(&mut net, member).asks, Some(did));
    let asks = |net: &mut Net| {
        let known = view(net, member);
        let asked: Vec<_> = known.courses.iter().map(|it| it.with).collect();
        match (known.asks, asked == [did]) {
            (Some(host), true) if host == did => Ok(()),
            _ => Err(format!("it asks {:?}", known.courses)),
        }
    };
    asks(&mut net)?;
    let mut copy = net.copied(member);
    if !kept {
        let key = [&[0x98][..], &LogId::group(group).0].concat();
        let value = None;
        copy.commit(vec![Change::Row { key, value }]).unwrap();
    }
    net.put_back(member, copy);
    net.run_for(EVERY_MS);
    asks(&mut net)?;
    // A newer roster that lists it changes nothing of that.
    net.ask(
        0,
        Ask::Remove {
            group,
            account: net.nodes[5 - member].did,
        },
    );
    net.run_for(3 * EVERY_MS);
    asks(&mut net)?;
    assert_eq!(net.groups(member).counters().went_over, 0);
    net.post(member, group, &["and on"]);
    net.run_until(|net| net.held(chosen, group) == posts as u64 + 1);
    Ok(())
}

#[test]
fn law_group_the_host_that_a_member_went_over_to_is_asked_after_a_restart_too() {
    for by_user in [false, true] {
        for posts in [0, 5] {
            println!("by its user: {by_user}, {posts} posts");
            restarted_after_going_over(by_user, posts, true).unwrap();
        }
        // A store that has lost the row.
        let broken = restarted_after_going_over(by_user, 5, false).unwrap_err();
        assert!(broken.starts_with("it asks"), "{broken}");
    }
}

/// How long a host may be gone is what its user says.
#[test]
fn group_a_host_may_be_gone_for_as_long_as_the_members_user_says() {
    for (given_ms, gone_ms) in [
        (5_000, 5_000),
        (300_000, 300_000),
        (0, GONE_MIN_MS),
        (u64::MAX, GONE_MAX_MS),
    ] {
        let mut net = Net::linked(3, 15);
        let _ = two_hosts(&mut net);
        net.groups(2).set_host_gone_ms(given_ms);
        net.crash(1);
        let from_ms = net.now_ms;
        net.run_until(|net| net.counters(2).went_over == 1);
        let took_ms = net.now_ms - from_ms;
        // It is noticed when it is tried the next time.
        let most_ms = gone_ms + 2 * EVERY_MS;
        assert!(
            (gone_ms..most_ms).contains(&took_ms),
            "{given_ms}: {took_ms}"
        );
        assert_eq!(view(&mut net, 2).asks, Some(net.nodes[0].did));
    }
}

/// What the host that was followed has numbered was posted: it stays here, though the next host takes it no more.
#[test]
fn group_what_a_host_had_numbered_stays_here_though_the_next_one_refuses_it() {
    let mut net = Net::linked(4, 9);
    let group = two_hosts(&mut net);
    net.unlink(0, 1);
    net.post(3, group, &["numbered"]);
    net.run_until(|net| net.held(1, group) == 1 && net.held(3, group) == 1);
    net.run_for(2 * EVERY_MS);
    net.now_ms += POST_AGE_MAX_MS;
    net.crash(1);
    let with = Some(net.nodes[0].did);
    let Ok(Reply::Synced(_, report)) = net.asked(3, Ask::Sync { group, with }) else {
        panic!("it is synced")
    };
    let why: Vec<_> = report
        .refused_by_peer
        .iter()
        .map(|it| it.why.as_str())
        .collect();
    assert_eq!(why, ["log/too_old"]);
    net.run_for(2 * EVERY_MS);
    assert_eq!((net.held(0, group), net.held(3, group)), (0, 1));
    assert_eq!(net.groups(3).counters().posts_refused, 0);
    let mut told = net.nodes[3].events.iter();
    assert!(!told.any(|it| matches!(it, GroupEvent::PostRefused { .. })));
    assert_eq!(net.bodies(3, group), ["numbered"]);
}

/// What the numbers of the host that is gone held back from who follows can be read once another is asked, and it is told.
#[test]
fn group_who_follows_is_told_that_nothing_is_held_back_by_the_numbers_of_a_host_that_is_gone() {
    let mut net = Net::linked(3, 17);
    let group = two_hosts(&mut net);
    net.unlink(1, 2);
    // More than may be on its way at once.
    let bodies: Vec<_> = (0..900).map(|it| format!("{it:0>1500}")).collect();
    let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
    net.post(0, group, &bodies);
    net.run_until(|net| net.held(1, group) == 900);
    net.unlink(0, 2);
    net.link(1, 2);
    net.run_until(|net| net.held(2, group) > 0);
    net.crash(1);
    net.settle();
    let held = net.held(2, group);
    assert!(held < 900, "it was in the middle");
    assert!(net.read(2, group, true).is_empty(), "held back");
    net.nodes[2].events.clear();
    net.link(0, 2);
    net.run_until(|net| {
        let told = net.nodes[2].events.iter();
        let mut told = told.filter(|it| matches!(it, GroupEvent::Complete { .. }));
        told.next().is_some()
    });
    assert!(net.read(2, group, true).len() as u64 >= held);
    net.run_until(|net| net.held(2, group) == 900);
}

/// A member posts one by one while no host can be reached; how many rows of its store that reads, for the first posts and
/// for as many more.
fn rows_read_for_posts(mutant: Option<Mutant>) -> (u64, u64) {
    let mut net = Net::linked(3, 19);
    let group = two_hosts(&mut net);
    net.run_for(EVERY_MS);
    if let Some(mutant) = mutant {
        net.groups(2).logs().break_rule(mutant);
    }
    net.unlink(0, 2);
    net.unlink(1, 2);
    let count = |net: &mut Net| {
        let before = net.groups(2).logs().store().rows_read;
        for number in 0..200 {
            net.post(2, group, &[&format!("{number}")]);
            net.settle();
        }
        net.groups(2).logs().store().rows_read - before
    };
    let read = (count(&mut net), count(&mut net));
    assert_eq!(view(&mut net, 2).waiting, 400);
    // What waits is counted right after a restart, and as it leaves.
    net.crash(2);
    net.start(2);
    assert_eq!(view(&mut net, 2).waiting, 400);
    net.link(1, 2);
    net.run_until(|net| net.held(1, group) == 400 && net.held(2, group) == 400);
    assert_eq!(view(&mut net, 2).waiting, 0);
    read
}

#[test]
fn law_group_a_post_that_waits_costs_no_more_however_many_wait_before_it() {
    let (first, more) = rows_read_for_posts(None);
    assert!(more <= first && more <= 2 * 200, "{first}, {more}");
    let (first, more) = rows_read_for_posts(Some(Mutant::CountTheStored));
    assert!(more > 2 * first, "the mutant is not found: {first}, {more}");
}
