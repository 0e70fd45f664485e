//! Who comes and goes: removed, left, renewed, put back.

use overlane_core::Coded;
use overlane_core::group::GroupId;
use overlane_core::seal::SealingKey;
use overlane_node::peer::groups::{Ask, EVERY_MS, GroupsError, LEAVING_MAX, LEAVING_MS, Reply};
use overlane_relay::log::{LogId, LogStore, Mutant};

use crate::net::{NETWORK, Net};
use crate::scenes::{ask_everything, expect, listed, view};

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

/// Node 0 owns and hosts a group of four, and node 1 hosts it too.
fn of_four(net: &mut Net) -> GroupId {
    let group = net.create(0, &[1]);
    for node in [1, 2, 3] {
        let ticket = net.invite(0, group, node);
        net.join(node, ticket);
    }
    net.run_for(EVERY_MS);
    group
}

/// One that is removed while the owner's clock is ahead: the others take no roster of a time to come, and the owner signs it
/// again once its clock is right. What it posted meanwhile comes when its date does, and is lost to nobody.
#[test]
fn group_what_an_owner_does_while_its_clock_is_ahead_is_in_force_once_it_is_right() {
    const AHEAD_MS: u64 = 3_600_000;
    let mut net = Net::linked(4, 37);
    let group = of_four(&mut net);
    net.ahead_ms.insert(0, AHEAD_MS);
    let account = net.nodes[3].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.post(0, group, &["ahead"]);
    net.run_for(2 * EVERY_MS);
    let (ahead, others) = (view(&mut net, 0), view(&mut net, 2));
    assert_eq!((ahead.members.len(), others.members.len()), (3, 4));
    net.ahead_ms.clear();
    net.run_for(3 * EVERY_MS);
    let right = view(&mut net, 0);
    assert_eq!(
        right.revision,
        ahead.revision + 1,
        "it is signed again, once"
    );
    for node in [1, 2] {
        let it = view(&mut net, node);
        assert_eq!((it.revision, it.members.len()), (right.revision, 3));
    }
    let all = |bodies: &[&str]| bodies.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    net.post(0, group, &["right"]);
    net.run_for(2 * EVERY_MS);
    expect(&mut net, group, &[0], &all(&["ahead", "right"])).unwrap();
    expect(&mut net, group, &[1, 2], &all(&["right"])).unwrap();
    net.run_for(AHEAD_MS);
    expect(&mut net, group, &[0, 1, 2], &all(&["ahead", "right"])).unwrap();
}

/// An owner whose copy has a roster dated ahead hears from its hosts what came after it before it signs that again: who
/// was removed meanwhile stays out.
#[test]
fn group_an_owner_put_back_to_a_roster_dated_ahead_hears_its_hosts_before_it_signs() {
    let mut net = Net::linked(4, 41);
    let group = of_four(&mut net);
    net.ahead_ms.insert(0, 3_600_000);
    let account = net.nodes[3].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    let copy = net.copied(0);
    net.ahead_ms.clear();
    let account = net.nodes[2].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.run_for(5_000);
    assert_eq!(view(&mut net, 1).members.len(), 2);
    net.put_back(0, copy);
    net.run_for(3 * EVERY_MS);
    assert_eq!(listed(&mut net, 0), 2);
    assert_eq!(view(&mut net, 1).members.len(), 2);
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
