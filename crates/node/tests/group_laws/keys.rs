//! Which epochs a member reads, whatever happened while it was away.

use overlane_core::group::{GroupId, GroupKey};
use overlane_core::seal::{SealingKey, SealingSecret};
use overlane_core::wire::cbor::Writer;
use overlane_node::peer::groups::{Ask, EARLIER_MAX, EVERY_MS, KEYS_MAX, PostView, Reply};
use overlane_relay::log::testkit::MemoryLogs;
use overlane_relay::log::{Change, LogId, LogStore};
use zeroize::Zeroizing;

use crate::net::{self, Net, account};
use crate::scenes::{said, two_hosts, view};

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

/// One epoch more: who is removed is invited again.
fn rotate(net: &mut Net, group: GroupId, who: usize) {
    let account = net.nodes[who].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.invite(0, group, who);
}

/// The row that keeps the key of an epoch.
fn key_row(group: GroupId, epoch: u64) -> Vec<u8> {
    let log = LogId::group(group);
    [&[0x91][..], &log.0, &epoch.to_be_bytes()].concat()
}

/// A member of six epochs is started anew with nobody else there; `kept`: as its store has kept their keys.
fn started_alone(kept: bool) -> Result<(), String> {
    let mut net = Net::linked(3, 67);
    let group = net.team();
    let epochs = 6;
    for epoch in 1..=epochs {
        net.post(0, group, &[&format!("epoch {epoch}")]);
        net.run_until_all_hold(&[0, 1], group, epoch);
        if epoch < epochs {
            rotate(&mut net, group, 2);
        }
    }
    net.crash(0);
    net.crash(2);
    let mut copy = net.copied(1);
    if !kept {
        let rows = (1..=epochs).map(|epoch| Change::Row {
            key: key_row(group, epoch),
            value: None,
        });
        copy.commit(rows.collect()).unwrap();
    }
    let before = (copy.rows_read, copy.envelopes_read);
    net.put_back(1, copy);
    // What the start cost: every row once at the most, no post, and one opening for each key.
    let store = net.groups(1).logs().store();
    let read = (store.rows_read - before.0, store.envelopes_read - before.1);
    let rows = store.rows(&[]).unwrap();
    assert!(read.0 <= rows.len() as u64, "{read:?} of {}", rows.len());
    assert_eq!(read.1, 0, "no post is read");
    if kept {
        assert_eq!(view(&mut net, 1).keys as u64, epochs);
        // Each is sealed to the member's account: who has its disk alone has none of them.
        for epoch in 1..=epochs {
            let row = rows.iter().find(|it| it.0 == key_row(group, epoch));
            let wrapped = &row.expect("it is kept").1;
            let opens = |number: u8| {
                let secret = SealingSecret::of_account(&account(number)).unwrap();
                GroupKey::unwrap(group, epoch, net.nodes[1].did, &secret, wrapped).is_ok()
            };
            assert_eq!((opens(1), opens(2)), (true, false));
        }
    }
    let read = said(&mut net, 1, group)?;
    assert_eq!(read.len() as u64, epochs);
    // What it writes is sealed under the key in force, and waits.
    net.post(1, group, &["on"]);
    net.settle();
    assert_eq!(view(&mut net, 1).waiting, 1);
    Ok(())
}

#[test]
fn law_group_keys_are_kept_sealed_and_a_start_reads_them_and_no_post() {
    started_alone(true).unwrap();
    let broken = started_alone(false).unwrap_err();
    assert!(broken.contains("cannot read"), "{broken}");
}

/// What a member reads that was removed: the epochs it had the keys of, also what others wrote under them that had not
/// heard, if somebody hands it to it. With the key of a later one that a member gives it, that one too.
#[test]
fn law_group_who_was_removed_reads_the_epochs_it_had_keys_of_and_no_other() {
    let mut net = Net::linked(3, 71);
    let group = net.team();
    net.post(0, group, &["before"]);
    net.run_until_all_hold(&[0, 1, 2], group, 1);
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        net.unlink(one, other);
    }
    let account = net.nodes[2].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.post(1, group, &["by one that had not heard"]);
    net.settle();
    net.link(0, 1);
    net.run_until_all_hold(&[0, 1], group, 2);
    net.post(0, group, &["after"]);
    net.run_until_all_hold(&[0, 1], group, 3);
    // Somebody hands it all of them.
    let log = LogId::group(group);
    let mut copy = net.copied(2);
    for seq in [2, 3] {
        let store = net.groups(0).logs().store();
        let entry = store.entry(&log, seq).unwrap().unwrap();
        let envelope = store.envelope(&log, seq).unwrap().unwrap();
        let put = Change::Append {
            log,
            entry,
            envelope,
        };
        copy.commit(vec![put]).unwrap();
    }
    let reads = |net: &mut Net, copy: MemoryLogs| {
        net.put_back(2, copy);
        let posts = net.read(2, group, false).into_iter();
        let body = |it: PostView| it.body.map(|it| String::from_utf8(it).unwrap());
        posts.map(body).collect::<Vec<_>>()
    };
    let had = ["before", "by one that had not heard"].map(|it| Some(it.to_owned()));
    let read = reads(&mut net, copy.clone());
    assert_eq!(read, [had[0].clone(), had[1].clone(), None]);
    // A member gives it the key that it was not given: then it reads that epoch.
    let roster = net.groups(1).logs().rules().roster(&log).unwrap().clone();
    let secret = SealingSecret::of_account(&net::account(1)).unwrap();
    let key = roster.key(net.nodes[1].did, &secret).unwrap();
    let to = SealingKey::of_account(&net.nodes[2].key).unwrap();
    let seed = Zeroizing::new([9; 32]);
    let wrapped = key.wrap(group, account, &to, seed).unwrap();
    let row = Change::Row {
        key: key_row(group, 2),
        value: Some(wrapped),
    };
    let mut given = copy;
    given.commit(vec![row]).unwrap();
    let read = reads(&mut net, given);
    assert_eq!(read[2].as_deref(), Some("after"), "the check sees it");
}

/// A member has the key of the first epoch, is away over the second, out in the third, and in again from the fourth on.
fn in_again_after_a_break(given: bool) -> Result<(), String> {
    let mut net = Net::linked(4, 73);
    let group = net.team();
    let post = |net: &mut Net, epoch: u64| net.post(0, group, &[&format!("epoch {epoch}")]);
    post(&mut net, 1);
    net.run_until_all_hold(&[0, 1, 2, 3], group, 1);
    for node in 0..3 {
        net.unlink(node, 3);
    }
    rotate(&mut net, group, 2);
    post(&mut net, 2);
    let account = net.nodes[3].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    post(&mut net, 3);
    rotate(&mut net, group, 2);
    post(&mut net, 4);
    net.invite(0, group, 3);
    rotate(&mut net, group, 2);
    post(&mut net, 5);
    net.loses_earlier = !given;
    net.link(0, 3);
    net.run_until_all_hold(&[0], group, 5);
    net.run_for(4 * EVERY_MS);
    let reads = |net: &mut Net, complete: bool| {
        let posts = net.read(3, group, complete).into_iter();
        let read = posts.filter(|it| it.body.is_some()).map(|it| it.epoch);
        read.collect::<Vec<_>>()
    };
    let read = reads(&mut net, false);
    // Not the second, though it was in: its asking ends where it was out.
    if read != [1, 4, 5] {
        return Err(format!("it reads epochs {read:?}"));
    }
    assert_eq!(reads(&mut net, true), read, "nothing is held back for it");
    net.crash(3);
    net.start(3);
    assert_eq!(reads(&mut net, true), read);
    Ok(())
}

#[test]
fn law_group_who_was_out_for_a_while_has_the_keys_it_had_and_those_since_it_is_in_again() {
    in_again_after_a_break(true).unwrap();
    let broken = in_again_after_a_break(false).unwrap_err();
    assert!(broken.contains("[1, 5]"), "{broken}");
}
