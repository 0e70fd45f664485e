//! The groups of nodes on virtual time: who has what, who is given what, and what happens when
//! nodes lie, crash and run out of disk.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod group_hosts;
mod group_net;

use std::collections::BTreeSet;

use group_net::{NETWORK, Net, frames_in};
use overlane_core::group::GroupId;
use overlane_core::seal::SealingKey;
use overlane_core::wire::cbor::Writer;
use overlane_core::{Coded, Did};
use overlane_node::peer::groups::{
    ASKS_WAITING_MAX, Ask, EARLIER_MAX, EVERY_MS, GroupEvent, GroupTicket, GroupsError,
    IN_HAND_MAX, KEYS_MAX, LEAVING_MAX, LEAVING_MS, LINES_MAX, NAME_MAX_BYTES, POSTS_PER_ASK,
    POSTS_WAITING_MAX, Reply, STRAYS_MAX, WORDS_MAX,
};
use overlane_recon::{End, ItemSet, Limits};
use overlane_relay::log::testkit::MemoryLogs;
use overlane_relay::log::{Frame, LogId, LogStore, Mutant, Space, Turn};
use overlane_storage_native::LogsStore;
use overlane_storage_native::testkit::{Disk, FaultKind, FaultPlan};

fn posted(answer: Option<Result<Reply, GroupsError>>) -> Vec<Option<u64>> {
    match answer {
        Some(Ok(Reply::Posted(posted))) => posted.iter().map(|it| it.seq).collect(),
        other => panic!("{other:?}"),
    }
}

/// `[0, [frame]]`, as a node that speaks of logs says it.
fn frames(frames: &[&[u8]]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.array(2).uint(0).array(frames.len());
    for frame in frames {
        writer.bytes(frame);
    }
    writer.into_bytes()
}

fn say(net: &mut Net, from: usize, to: usize, body: &[u8]) {
    let (did, now) = (net.nodes[from].did, net.now());
    net.nodes[to].given += 1;
    net.groups(to).handle_message(did, body, now);
    net.flush(to);
}

fn ask_everything(log: LogId) -> Vec<u8> {
    let Ok(payload) = overlane_recon::initiate(&mut ItemSet::new(), &Limits::default());
    let frame = Frame::Recon {
        log,
        space: Space::Numbered,
        turn: Turn::Ask,
        payload: &payload,
    };
    frames(&[&frame.to_bytes()])
}

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

/// A member far behind is taken off the roster while it is being served; how much more it has then
/// than what was on its way.
fn served_after_removal(mutant: Option<Mutant>) -> u64 {
    let mut net = Net::linked(3, 5);
    let group = net.team();
    net.unlink(0, 2);
    // More than may be on its way at once.
    let bodies: Vec<_> = (0..900).map(|it| format!("{it:0>1500}")).collect();
    let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
    net.post(0, group, &bodies);
    net.settle();
    net.link(0, 2);
    let pushes = |net: &Net| net.frames(0, 2).iter().filter(|it| **it == "push").count();
    net.run_until(|net| pushes(net) > 0);
    if let Some(mutant) = mutant {
        net.groups(0).logs().break_rule(mutant);
    }
    let account = net.nodes[2].did;
    let removed = net.ask(0, Ask::Remove { group, account });
    net.flush(0);
    assert!(matches!(
        net.nodes[0].answers[&removed],
        Ok(Reply::Group(_))
    ));
    let had = net.held(2, group) + pushes(&net) as u64;
    net.run_for(3 * EVERY_MS);
    // The others go on, under another key.
    net.post(0, group, &["after"]);
    net.run_until_all_hold(&[0, 1], group, 901);
    assert_eq!(net.bodies(1, group).last().unwrap(), "after");
    let has = net.held(2, group);
    assert!(
        mutant.is_some() || has < 900,
        "it was removed in the middle"
    );
    // It is told so, and asks less and less often.
    let view = net.asked(2, Ask::List);
    let Ok(Reply::Groups(views)) = view else {
        panic!("{view:?}")
    };
    let course = &views[0].courses[0];
    assert_eq!(
        course.error.as_deref(),
        Some("group/not_here"),
        "{course:?}"
    );
    assert!(course.failures < 15, "{course:?}");
    has.saturating_sub(had)
}

#[test]
fn law_group_a_member_removed_in_the_middle_of_a_sync_is_given_nothing_more() {
    assert_eq!(served_after_removal(None), 0);
    assert!(
        served_after_removal(Some(Mutant::ServeTheRemoved)) > 0,
        "the mutant is not found"
    );
}

/// What a removed member holds of the time after it, it cannot read; what it was there for, it can.
#[test]
fn law_group_gone_is_gone_and_what_was_read_can_still_be_read() {
    let mut net = Net::linked(3, 9);
    let group = net.team();
    net.post(0, group, &["before"]);
    net.run_until_all_hold(&[0, 1, 2], group, 1);
    net.unlink(0, 2);
    let account = net.nodes[2].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.post(0, group, &["after"]);
    net.settle();
    // Somebody hands it the envelope: it is one who was a member, and keeps its log.
    let log = LogId::group(group);
    let envelope = net
        .groups(0)
        .logs()
        .store()
        .envelope(&log, 2)
        .unwrap()
        .unwrap();
    let posts = net.read(2, group, false);
    assert_eq!(posts[0].body.as_deref(), Some(&b"before"[..]));
    let post = overlane_core::group::Post::read(&envelope, NETWORK, group).unwrap();
    assert_eq!(post.subject().epoch(), 2);
    let keys = match net.asked(2, Ask::List) {
        Ok(Reply::Groups(views)) => views[0].keys,
        other => panic!("{other:?}"),
    };
    assert_eq!(keys, 1, "the key of the second epoch never came to it");
    // One that comes later reads from its first epoch on.
    let ticket = net.invite(0, group, 2);
    net.link(0, 2);
    let leave = net.asked(2, Ask::Leave { group });
    assert!(matches!(leave, Ok(Reply::Left)), "{leave:?}");
    net.run_for(1_000);
    let _ = ticket;
    let ticket = match net.asked(0, Ask::List) {
        Ok(Reply::Groups(views)) if views[0].members.contains(&account) => None,
        _ => Some(net.invite(0, group, 2)),
    };
    if let Some(ticket) = ticket {
        net.join(2, ticket);
        net.run_until(|net| net.held(2, group) == 2);
        net.run_for(EVERY_MS);
        let posts = net.read(2, group, false);
        assert!(posts.iter().all(|post| post.body.is_none()), "{posts:?}");
        net.post(0, group, &["again"]);
        net.run_until_all_hold(&[0, 1, 2], group, 3);
        assert_eq!(
            net.read(2, group, false)[2].body.as_deref(),
            Some(&b"again"[..])
        );
    } else {
        panic!("who left is still on the roster");
    }
}

#[test]
fn law_group_a_stranger_costs_a_look_up_and_one_short_answer() {
    let mut net = Net::linked(4, 3);
    let group = net.create(0, &[]);
    let ticket = net.invite(0, group, 1);
    net.join(1, ticket);
    net.post(0, group, &["secret"]);
    net.run_until_all_hold(&[0, 1], group, 1);
    let log = LogId::group(group);
    let before = net.groups(0).logs().counters();
    let (lines, rosters) = (
        net.groups(0).numbers().lines,
        net.groups(0).counters().rosters,
    );
    let send = Frame::Send {
        log,
        envelope: &[7; 300],
    };
    let mut greet = Writer::new();
    greet.array(4).uint(1).bytes(&log.0).uint(0).boolean(true);
    let mut news = Writer::new();
    news.array(2).uint(4).bytes(&log.0);
    let mut leave = Writer::new();
    leave.array(2).uint(5).bytes(&log.0);
    let mut roster = Writer::new();
    roster.array(2).uint(3).bytes(&[1; 500]);
    let said = net.said;
    for _ in 0..100 {
        for body in [
            frames(&[&send.to_bytes(), &send.to_bytes()]),
            ask_everything(log),
            greet.as_bytes().to_vec(),
            leave.as_bytes().to_vec(),
            news.as_bytes().to_vec(),
            roster.as_bytes().to_vec(),
            vec![0x82, 9, 9],
        ] {
            let (did, now) = (net.nodes[3].did, net.now());
            net.groups(0).handle_message(did, &body, now);
        }
    }
    net.nodes[0].given += 700;
    net.flush(0);
    assert_eq!(
        net.said - said,
        STRAYS_MAX as u64,
        "answers in the air are bounded"
    );
    let answers: Vec<_> = net.wires[&(0, 3)].iter().cloned().collect();
    assert!(answers.iter().all(|data| data.message().body().len() < 40));
    assert!(
        answers
            .iter()
            .all(|data| frames_in(data.message().body()).is_empty())
    );
    let counters = net.groups(0).counters();
    assert_eq!((counters.turned_away, counters.malformed), (400, 100));
    assert_eq!(counters.rosters_refused, 100);
    assert_eq!(
        (net.groups(0).numbers().lines, counters.rosters),
        (lines, rosters)
    );
    assert_eq!(
        net.groups(0).logs().counters(),
        before,
        "no log heard of it"
    );
    net.run_for(EVERY_MS);
    assert_eq!(net.held(3, group), 0);
    assert_eq!(net.nodes[0].given, net.nodes[0].taken);
}

/// A member asks for everything again and again, takes nothing, and sends what is no RECON message.
#[test]
fn law_group_a_member_that_asks_for_everything_again_is_answered_once_it_took_what_it_asked_for() {
    let mut net = Net::linked(2, 3);
    let group = net.team();
    let bodies: Vec<_> = (0..900).map(|it| format!("{it:0>500}")).collect();
    let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
    net.post(0, group, &bodies);
    net.settle();
    let log = LogId::group(group);
    net.run_for(2 * EVERY_MS);
    let answered = net.groups(0).logs().counters().answered;
    // Its own machine does not see what is said to it: it reads nothing.
    net.nodes[1].given = 0;
    let before = net.said;
    for _ in 0..200 {
        let (did, now) = (net.nodes[1].did, net.now());
        net.groups(0).handle_message(did, &ask_everything(log), now);
        // Flushed without what was said coming to a lane: the driver's `handle_said` is late.
        net.groups(0).flush(now);
        let effects = std::iter::from_fn(|| net.groups(0).poll_effect()).count();
        assert!(effects <= 2 * IN_HAND_MAX + 3, "{effects}");
    }
    let counters = net.groups(0).logs().counters();
    assert_eq!(counters.answered - answered, 1, "{counters:?}");
    assert!(counters.not_answered >= 199, "{counters:?}");
    assert_eq!(net.said, before);
    // No message: refused by its own code, and the session lives on.
    let frame = Frame::Recon {
        log,
        space: Space::Numbered,
        turn: Turn::Ask,
        payload: b"\xff",
    };
    say(&mut net, 1, 0, &frames(&[&frame.to_bytes()]));
    assert!(net.groups(0).failure().is_none());
}

/// A host that names what it never gives, or says the same again, or nothing: each reconciliation
/// ends with a reason, and the next comes after a pause that grows.
#[test]
fn law_group_a_host_that_lies_is_asked_less_and_less() {
    for lie in 0..3 {
        let mut net = Net::linked(2, lie);
        let group = net.team();
        net.run_for(EVERY_MS);
        let log = LogId::group(group);
        let greetings = net.groups(1).counters().failed;
        let mut asked = 0;
        net.deaf.insert(0);
        let until_ms = net.now_ms + 60 * EVERY_MS;
        while net.now_ms < until_ms {
            // What the follower says is answered by the liar.
            let said: Vec<_> = net.wires.remove(&(1, 0)).into_iter().flatten().collect();
            for data in said {
                let body = data.message().body().to_vec();
                let greeted = body.get(1) == Some(&1);
                if greeted {
                    let mut answer = Writer::new();
                    answer
                        .array(5)
                        .uint(2)
                        .bytes(&log.0)
                        .uint(2)
                        .uint(1_000)
                        .uint(1);
                    say(&mut net, 0, 1, answer.as_bytes());
                } else if frames_in(&body).contains(&"recon") {
                    asked += 1;
                    let payload: Vec<u8> = match lie {
                        // A name nobody has.
                        0 => {
                            let mut ids = Writer::new();
                            ids.array(2).uint(1).array(1).array(3);
                            ids.uint(u64::MAX).uint(2).array(1).bytes(&[9; 32]);
                            ids.into_bytes()
                        }
                        // No message.
                        1 => vec![0xff],
                        _ => continue,
                    };
                    let frame = Frame::Recon {
                        log,
                        space: Space::Numbered,
                        turn: Turn::Answer,
                        payload: &payload,
                    };
                    say(&mut net, 0, 1, &frames(&[&frame.to_bytes()]));
                }
            }
            // The true host hears nothing of it.
            net.wires.remove(&(0, 1));
            let before = net.now_ms;
            net.run_for(500);
            assert!(net.now_ms > before);
        }
        let failed = net.groups(1).counters().failed - greetings;
        assert!(failed >= 10, "lie {lie}: {failed}");
        assert!(failed <= 80, "lie {lie}: {failed} in an hour");
        assert!(asked <= 8 * failed, "lie {lie}: {asked} rounds");
        assert!(net.groups(1).logs().syncing() <= 1);
    }
}

#[test]
fn law_group_what_a_host_acknowledged_it_has_after_a_crash() {
    for seed in 0..8 {
        println!("seed {seed}");
        let mut net = Net::linked(3, seed);
        let group = net.team();
        for number in 0..12_u64 {
            net.post(1, group, &[&format!("one {number}")]);
            net.post(2, group, &[&format!("two {number}")]);
            net.flush(1);
            net.flush(2);
            for _ in 0..(seed + number) % 9 {
                net.flush(0);
                net.deliver(1, 0);
                net.deliver(2, 0);
            }
            if number % 3 == seed % 3 {
                let crashed = usize::try_from(number % 2).unwrap();
                net.crash(crashed);
                net.start(crashed);
            }
            net.run_for(700);
        }
        net.run_until_all_hold(&[0, 1, 2], group, 24);
        let said = net.bodies(0, group);
        assert_eq!(net.bodies(1, group), said);
        assert_eq!(net.bodies(2, group), said);
        let all: BTreeSet<_> = said.iter().collect();
        assert_eq!(
            all.len(),
            24,
            "what was durable at its author arrives, once"
        );
    }
}

/// A full disk: whoever posts is told, whoever sends is not acknowledged, and after the start that
/// follows the posts that wait come in.
#[test]
fn law_group_nothing_is_acknowledged_that_is_not_durable_on_a_full_disk() {
    for kept in [false, true] {
        let mut net = Net::linked(3, 7);
        let group = net.team();
        net.post(0, group, &["first"]);
        net.run_until_all_hold(&[0, 1, 2], group, 1);
        let commits = net.groups(0).logs().store().commits;
        net.groups(0).logs().store().fail_at = Some((commits + 1, kept));
        net.post(1, group, &["sent while it fails"]);
        net.run_until(|net| net.nodes[0].failed.is_some());
        assert!(
            net.nodes[0]
                .failed
                .as_ref()
                .unwrap()
                .contains("made to fail")
        );
        net.settle();
        let frames = net.frames(0, 1);
        assert!(!frames.contains(&"ack"), "{frames:?}");
        let refused = net.asked(
            0,
            Ask::Post {
                group,
                bodies: vec![b"refused".to_vec()],
            },
        );
        assert_eq!(refused.unwrap_err().code(), "group/store_failed");
        net.run_for(2 * EVERY_MS);
        assert_eq!(
            net.nodes[0].given, net.nodes[0].taken,
            "places are free all the same"
        );
        net.crash(0);
        net.start(0);
        net.run_until_all_hold(&[0, 1, 2], group, 2);
        assert_eq!(net.bodies(2, group), ["first", "sent while it fails"]);
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

#[test]
fn group_left_is_left_and_its_log_is_deleted() {
    let mut net = Net::linked(3, 17);
    let group = net.team();
    let bodies = vec!["x"; 700];
    net.post(0, group, &bodies);
    net.run_until_all_hold(&[0, 1, 2], group, 700);
    let stays = net.asked(0, Ask::Leave { group }).unwrap_err();
    assert_eq!(stays, GroupsError::OwnerStays { members: 2 });
    let left = net.asked(2, Ask::Leave { group });
    assert!(matches!(left, Ok(Reply::Left)));
    net.run_until(|net| net.held(2, group) == 0);
    net.run_for(EVERY_MS);
    let log = LogId::group(group);
    let store = net.groups(2).logs().store();
    let rows = store.rows(&[]).unwrap();
    assert!(
        rows.iter()
            .all(|(key, _)| key.get(1..33) != Some(&log.0[..])),
        "{rows:?}"
    );
    let Ok(Reply::Groups(views)) = net.asked(0, Ask::List) else {
        panic!("it has a group")
    };
    assert_eq!(views[0].members.len(), 2, "its owner heard");
    assert_eq!(views[0].epoch, 2);
    // Alone, the owner goes too.
    let account = net.nodes[1].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    let left = net.asked(0, Ask::Leave { group });
    assert!(matches!(left, Ok(Reply::Left)), "{left:?}");
    net.crash(0);
    net.start(0);
    net.run_for(EVERY_MS);
    assert_eq!(net.held(0, group), 0);
}

/// Who is on the roster, as its owner has it.
fn listed(net: &mut Net, owner: usize) -> usize {
    let Ok(Reply::Groups(views)) = net.asked(owner, Ask::List) else {
        panic!("it has a group")
    };
    views[0].members.len()
}

#[test]
fn group_left_while_its_owner_is_away_is_told_until_the_owner_answers() {
    let mut net = Net::linked(3, 18);
    let group = net.team();
    net.post(0, group, &["x"]);
    net.run_until_all_hold(&[0, 1, 2], group, 1);
    net.crash(0);
    let left = net.asked(2, Ask::Leave { group });
    assert!(matches!(left, Ok(Reply::Left)));
    // Who left is started anew before the owner is back.
    net.run_for(EVERY_MS);
    net.crash(2);
    net.start(2);
    net.run_for(EVERY_MS);
    net.start(0);
    net.run_for(EVERY_MS);
    assert_eq!(listed(&mut net, 0), 2);
    // It answered: nothing of it is kept any more.
    let rows = net.groups(2).logs().store().rows(&[]).unwrap();
    let log = LogId::group(group);
    let of_it = |key: &[u8]| key.get(1..33) == Some(&log.0[..]);
    assert!(rows.iter().all(|(key, _)| !of_it(key)), "{rows:?}");
}

#[test]
fn group_left_is_told_for_no_longer_than_a_roster_lives_and_to_no_more_than_a_bound() {
    let mut net = Net::linked(2, 19);
    let mut groups = Vec::new();
    for _ in 0..=LEAVING_MAX {
        let name = format!("group {}", groups.len());
        let hosts = Vec::new();
        let Ok(Reply::Group(made)) = net.asked(0, Ask::Create { name, hosts }) else {
            panic!("it is made")
        };
        let ticket = net.invite(0, made.group, 1);
        net.join(1, ticket);
        groups.push(made.group);
    }
    net.crash(0);
    let leaving = |net: &mut Net| {
        let rows = net.groups(1).logs().store().rows(&[0x95]).unwrap();
        rows.len()
    };
    for group in groups {
        let left = net.asked(1, Ask::Leave { group });
        assert!(matches!(left, Ok(Reply::Left)), "{left:?}");
    }
    net.settle();
    assert_eq!(leaving(&mut net), LEAVING_MAX);
    net.now_ms += LEAVING_MS;
    net.run_for(EVERY_MS);
    assert_eq!(leaving(&mut net), 0);
}

#[test]
fn law_group_bounds_refuse_by_name() {
    let mut net = Net::linked(2, 19);
    let group = net.team();
    net.unlink(0, 1);
    let code = |answer: Result<Reply, GroupsError>| answer.unwrap_err().code();
    // Names.
    for name in ["", "a\nb", &"n".repeat(NAME_MAX_BYTES + 1)] {
        let hosts = Vec::new();
        let name = name.to_owned();
        assert_eq!(
            code(net.asked(0, Ask::Create { name, hosts })),
            "group/bad_name"
        );
    }
    let taken = Ask::Create {
        name: "team".into(),
        hosts: Vec::new(),
    };
    assert_eq!(code(net.asked(0, taken)), "group/name_taken");
    // Posts of one request, and posts that wait.
    let post = |net: &mut Net, count: usize| {
        let bodies = vec![b"x".to_vec(); count];
        net.asked(1, Ask::Post { group, bodies })
    };
    assert_eq!(
        code(post(&mut net, POSTS_PER_ASK + 1)),
        "group/too_many_posts"
    );
    post(&mut net, POSTS_PER_ASK).unwrap();
    post(&mut net, POSTS_WAITING_MAX - POSTS_PER_ASK).unwrap();
    assert_eq!(code(post(&mut net, 1)), "group/posts_waiting");
    let long = vec![vec![0; overlane_node::groups::POST_BODY_MAX_BYTES + 1]];
    assert_eq!(
        code(net.asked(
            0,
            Ask::Post {
                group,
                bodies: long
            }
        )),
        "group/over_bound"
    );
    // Requests that wait for other nodes: none is answered while nothing moves.
    for _ in 0..ASKS_WAITING_MAX {
        net.ask(1, Ask::Sync { group, with: None });
    }
    let over = net.ask(1, Ask::Sync { group, with: None });
    net.flush(1);
    let refused = net.nodes[1].answers.remove(&over).unwrap();
    assert_eq!(code(refused), "group/asks_full");
    net.link(0, 1);
    net.run_until(|net| net.nodes[1].answers.len() == ASKS_WAITING_MAX);
    net.run_until_all_hold(&[0, 1], group, POSTS_WAITING_MAX as u64);
    // Others that are not asked.
    let unknown = GroupId([9; 32]);
    assert_eq!(
        code(net.asked(
            0,
            Ask::Sync {
                group: unknown,
                with: None
            }
        )),
        "group/not_known"
    );
    assert_eq!(
        code(net.asked(0, Ask::Sync { group, with: None })),
        "group/alone"
    );
    let other = Some(Did([1; 20]));
    assert_eq!(
        code(net.asked(1, Ask::Sync { group, with: other })),
        "group/not_a_host"
    );
    let account = net.nodes[0].did;
    assert_eq!(
        code(net.asked(1, Ask::Remove { group, account })),
        "group/not_owner"
    );
    let again = Ask::Invite {
        group,
        account: net.nodes[1].did,
        member: SealingKey::of_account(&net.nodes[1].key),
        hosts: false,
    };
    assert_eq!(code(net.asked(0, again)), "group/in_already");
}

/// Words and nodes that something waits to be said to, while nothing comes to a lane.
#[test]
fn law_group_what_waits_to_be_said_is_bounded() {
    let mut net = Net::linked(2, 23);
    let group = net.team();
    net.run_for(EVERY_MS);
    let log = LogId::group(group);
    let mut greet = Writer::new();
    greet.array(4).uint(1).bytes(&log.0).uint(0).boolean(true);
    let not_said = net.groups(0).counters().not_said;
    let (did, now) = (net.nodes[1].did, net.now());
    for _ in 0..2 * WORDS_MAX {
        net.groups(0).handle_message(did, greet.as_bytes(), now);
    }
    let counters = net.groups(0).counters();
    // Each is answered with the roster and what is here.
    assert_eq!(
        counters.not_said - not_said,
        (4 * WORDS_MAX - WORDS_MAX) as u64
    );
    assert!(net.groups(0).numbers().lines <= LINES_MAX);
    net.groups(0).flush(now);
    let said = std::iter::from_fn(|| net.groups(0).poll_effect());
    let said = said.filter(|it| matches!(it, overlane_node::peer::groups::Effect::Say { .. }));
    assert!(said.count() <= IN_HAND_MAX);
}

/// A member that comes and goes again and again makes an epoch each time; only so many keys stay.
#[test]
fn law_group_keys_of_earlier_epochs_are_bounded() {
    let mut net = Net::new(2, 29);
    let group = net.create(0, &[]);
    let account = net.nodes[1].did;
    for _ in 0..=KEYS_MAX {
        net.invite(0, group, 1);
        net.asked(0, Ask::Remove { group, account }).unwrap();
    }
    let Ok(Reply::Groups(views)) = net.asked(0, Ask::List) else {
        panic!("it has a group")
    };
    assert_eq!(
        (views[0].keys, views[0].epoch),
        (KEYS_MAX, KEYS_MAX as u64 + 2)
    );
    // Of the epochs that are over, it keeps as many rosters for who was away.
    assert_eq!(net.groups(0).counters().earlier_let_go, 1);
    let earlier = |net: &mut Net| net.copied(0).rows(&[0x96]).unwrap().len();
    assert_eq!(earlier(&mut net), EARLIER_MAX);
    net.crash(0);
    net.start(0);
    let Ok(Reply::Groups(views)) = net.asked(0, Ask::List) else {
        panic!("it has a group")
    };
    assert_eq!(views[0].keys, KEYS_MAX);
}

/// A roster is signed again before it ends, and one that has ended serves nobody.
#[test]
fn group_a_roster_is_renewed_by_its_owner_and_serves_nobody_after_its_end() {
    let mut net = Net::linked(3, 31);
    let group = net.create(0, &[1]);
    let ticket = net.invite(0, group, 1);
    net.join(1, ticket);
    let ticket = net.invite(0, group, 2);
    net.join(2, ticket);
    let Ok(Reply::Groups(views)) = net.asked(0, Ask::List) else {
        panic!("it has a group")
    };
    let (revision, ends_ms) = (views[0].revision, views[0].roster_ends_ms);
    // Its owner away for good: half a year later nobody signed, a year later it is over.
    net.crash(0);
    let year_ms = ends_ms - net.now_ms;
    net.now_ms += year_ms + 1;
    net.run_for(2 * EVERY_MS);
    let Ok(Reply::Groups(views)) = net.asked(1, Ask::List) else {
        panic!("it has a group")
    };
    assert_eq!(views[0].revision, revision);
    let log = LogId::group(group);
    let (two, now) = (net.nodes[2].did, net.now());
    let away = net.groups(1).counters().turned_away;
    net.groups(1).handle_message(two, &ask_everything(log), now);
    assert_eq!(net.groups(1).counters().turned_away, away + 1);
}

/// A roster of another's making, an older one, and one of a group that nobody here joined.
#[test]
fn law_group_rosters_come_from_the_owner_alone_and_never_go_back() {
    let mut net = Net::linked(4, 37);
    let group = net.team();
    net.run_for(EVERY_MS);
    let log = LogId::group(group);
    let roster_of = |net: &mut Net, node: usize, group: GroupId| {
        let log = LogId::group(group);
        let roster = net
            .groups(node)
            .logs()
            .rules()
            .roster(&log)
            .unwrap()
            .to_bytes();
        let mut body = Writer::new();
        body.array(2).uint(3).bytes(&roster);
        body.into_bytes()
    };
    let first = roster_of(&mut net, 0, group);
    let account = net.nodes[3].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.run_for(EVERY_MS);
    let revision = |net: &mut Net, node: usize| {
        let rules = net.groups(node).logs().rules();
        rules.roster(&log).map(|it| it.subject().revision())
    };
    let current = revision(&mut net, 0);
    assert_eq!(revision(&mut net, 1), current);
    // Who was removed brings the roster that it was on.
    say(&mut net, 3, 0, &first);
    say(&mut net, 3, 1, &first);
    assert_eq!(
        (revision(&mut net, 0), revision(&mut net, 1)),
        (current, current)
    );
    // A member makes a group of its own: nobody hosts or follows it for that.
    let other = net.asked(
        1,
        Ask::Create {
            name: "mine".into(),
            hosts: vec![net.nodes[0].did],
        },
    );
    let Ok(Reply::Group(other)) = other else {
        panic!("{other:?}")
    };
    let unasked = roster_of(&mut net, 1, other.group);
    say(&mut net, 1, 0, &unasked);
    net.run_for(EVERY_MS);
    assert!(
        net.groups(0)
            .logs()
            .rules()
            .roster(&LogId::group(other.group))
            .is_none()
    );
    assert!(matches!(net.asked(0, Ask::List), Ok(Reply::Groups(views)) if views.len() == 1));
    // Any changed byte of a newer roster.
    let account = net.nodes[2].did;
    net.unlink(0, 1);
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.settle();
    let newer = roster_of(&mut net, 0, group);
    for at in (8..newer.len()).step_by(37) {
        let mut changed = newer.clone();
        changed[at] ^= 1;
        say(&mut net, 3, 1, &changed);
        assert_eq!(revision(&mut net, 1), current, "byte {at}");
    }
    // Whole, it counts whoever brings it.
    say(&mut net, 3, 1, &newer);
    assert!(revision(&mut net, 1) > current);
}

/// The durable store on a disk that takes nothing more: the first call that fails is told as what it
/// is, and nothing that came with it was acknowledged.
#[test]
fn law_group_a_full_disk_under_the_durable_store_acknowledges_nothing() {
    let mut refused = 0;
    for at in 1..200 {
        let disk = Disk::new();
        let store = LogsStore::open_on(disk.vfs(), "/groups".as_ref());
        let mut host = group_net::over(store.unwrap(), 0);
        let mut author = group_net::over(MemoryLogs::default(), 1);
        let ticket = group_net::group_of_two(&mut host, 1);
        let group = ticket.group;
        disk.fail(FaultPlan {
            kind: FaultKind::NoSpace,
            at,
            for_good: true,
        });
        let acknowledged = group_net::acknowledged(&mut author, &mut host, &ticket, 4);
        let failed = host.failure().map(str::to_owned);
        drop(host);
        disk.heal();
        let store = LogsStore::open_on(disk.vfs(), "/groups".as_ref());
        let mut store = store.unwrap();
        for id in &acknowledged {
            let held = store.seq_of(&LogId::group(group), id).unwrap();
            assert!(held.is_some(), "call {at}: {id} was acknowledged");
        }
        match failed {
            Some(cause) => {
                refused += 1;
                assert!(acknowledged.len() < 4, "call {at}: {cause}");
            }
            None => {
                assert_eq!(acknowledged.len(), 4);
                break;
            }
        }
    }
    assert!(refused > 3, "{refused}");
}

/// What the owner forgets when it is put back from a copy, its hosts tell it: who was removed since stays
/// out, and who came since is not left out by the way.
#[test]
fn law_group_an_owner_that_was_put_back_takes_nobody_in_again() {
    let mut net = Net::linked(5, 31);
    let group = net.create(0, &[1]);
    let tickets: Vec<_> = [1, 2].map(|it| net.invite(0, group, it)).into();
    for (node, ticket) in [1, 2].into_iter().zip(tickets) {
        net.join(node, ticket);
    }
    net.run_for(EVERY_MS);
    let copy = net.copied(0);
    let account = net.nodes[2].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.invite(0, group, 3);
    net.run_for(2 * EVERY_MS);
    net.put_back(0, copy);
    net.run_for(2 * EVERY_MS);
    let invite = |net: &Net, who: usize| Ask::Invite {
        group,
        account: net.nodes[who].did,
        member: SealingKey::of_account(&net.nodes[who].key),
        hosts: false,
    };
    let ask = invite(&net, 4);
    let refused = net.asked(0, ask).unwrap_err();
    assert_eq!(refused.code(), "group/member_key_unknown");
    // Its key is told by inviting it again, which changes nothing else.
    let ask = invite(&net, 3);
    assert_eq!(net.asked(0, ask).unwrap_err().code(), "group/in_already");
    net.invite(0, group, 4);
    let Ok(Reply::Groups(views)) = net.asked(0, Ask::List) else {
        panic!("it has a group")
    };
    let mut members: Vec<_> = [0, 1, 3, 4].map(|it| net.nodes[it].did).into();
    members.sort_unstable();
    let mut listed = views[0].members.clone();
    listed.sort_unstable();
    assert_eq!(listed, members);
}

/// What docs/protocol.md says of bounds is so.
#[test]
fn group_the_page_tells_every_bound_as_it_is() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, part) = page.split_once("\n### Groups between nodes\n").unwrap();
    let part = part.split("\n## ").next().unwrap();
    use overlane_node::peer::groups as bounds;
    macro_rules! told {
        ($($name:ident),* $(,)?) => {
            $(
                let (name, value) = (stringify!($name), bounds::$name);
                let row = format!("| `{name}` | {value}");
                assert!(part.contains(&row), "no row {row}");
            )*
        };
    }
    told![
        FRAMES_PER_MESSAGE,
        IN_HAND_MAX,
        LINES_MAX,
        WORDS_MAX,
        WORDS_MAX_BYTES,
        STRAYS_MAX,
        SYNCS_MAX,
        POSTS_PER_ASK,
        POSTS_WAITING_MAX,
        ASKS_WAITING_MAX,
        KEYS_MAX,
        PAGE_MAX,
        NAME_MAX_BYTES,
        GREETING_MS,
        GONE_MS,
        EARLIER_MAX,
        EARLIER_MAX_BYTES,
        FOLLOW_MS,
        LEAVING_MAX,
        LEAVING_MS,
    ];
    assert!(part.contains(&format!("`{}`", bounds::GROUPS_NAMESPACE)));
    let row = format!(
        "| `EVERY_MS`, `PAUSE_MS` | {}, {} |",
        bounds::EVERY_MS,
        bounds::PAUSE_MS
    );
    assert!(part.contains(&row));
}
