//! What is acknowledged is held, through crashes and on full disks.

use std::collections::BTreeSet;

use overlane_core::Coded;
use overlane_node::peer::groups::{Ask, EVERY_MS};
use overlane_relay::log::testkit::MemoryLogs;
use overlane_relay::log::{LogId, LogStore};
use overlane_storage_native::LogsStore;
use overlane_storage_native::testkit::{Disk, FaultKind, FaultPlan};

use crate::net::{Net, acknowledged, group_of_two, over};

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

/// The durable store on a disk that takes nothing more: the first call that fails is told as what it
/// is, and nothing that came with it was acknowledged.
#[test]
fn law_group_a_full_disk_under_the_durable_store_acknowledges_nothing() {
    let mut refused = 0;
    for at in 1..200 {
        let disk = Disk::new();
        let store = LogsStore::open_on(disk.vfs(), "/groups".as_ref());
        let mut host = over(store.unwrap(), 0);
        let mut author = over(MemoryLogs::default(), 1);
        let ticket = group_of_two(&mut host, 1);
        let group = ticket.group;
        disk.fail(FaultPlan {
            kind: FaultKind::NoSpace,
            at,
            for_good: true,
        });
        let acknowledged = acknowledged(&mut author, &mut host, &ticket, 4);
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
