//! Joining, failing, leaving, coming together again.

use overlane_core::Did;
use overlane_core::ring::{PathEnd, RingAnswer};

use super::world::World;

const MINUTE_MS: u64 = 60_000;

/// A ring of so many, joined one by one by way of the first.
fn ring_of(nodes: usize, seed: u64) -> (World, Vec<Did>) {
    let mut world = World::new(seed);
    let dids: Vec<Did> = (0..nodes).map(|_| world.chance.did()).collect();
    for &did in &dids {
        world.join(did, Some(dids[0]).filter(|&first| first != did));
        world.run(2_000);
    }
    (world, dids)
}

fn settled(world: &mut World, within_ms: u64, what: &str) {
    if world.settle(within_ms).is_none() {
        let wrong = world.wrong();
        for did in &wrong {
            println!("{did}: {:#?}", world.nodes[did].members());
        }
        let of = world.nodes.len();
        panic!(
            "{what}: {} of {of} nodes are not right: {wrong:?}",
            wrong.len()
        );
    }
}

fn all_reach_all(world: &World) {
    for &from in world.nodes.keys() {
        for &to in world.nodes.keys() {
            assert!(world.hops(from, to).is_some(), "{from} does not reach {to}");
        }
    }
}

#[test]
fn law_rings_of_any_small_size_settle_and_all_reach_all() {
    for seed in 1..=40 {
        let nodes = 1 + (seed as usize) % 12;
        let (mut world, _) = ring_of(nodes, seed);
        settled(
            &mut world,
            2 * MINUTE_MS,
            &format!("seed {seed}, {nodes} nodes"),
        );
        world.run(MINUTE_MS);
        all_reach_all(&world);
        assert_eq!(world.sent.refused, 0, "seed {seed}");
    }
}

#[test]
fn law_all_join_at_once_by_one_node_s23() {
    for seed in 1..=10 {
        let mut world = World::new(seed);
        let dids: Vec<Did> = (0..24).map(|_| world.chance.did()).collect();
        for &did in &dids {
            world.join(did, Some(dids[0]).filter(|&first| first != did));
        }
        settled(&mut world, 5 * MINUTE_MS, &format!("seed {seed}"));
        all_reach_all(&world);
    }
}

#[test]
fn law_a_ring_heals_after_failures_joins_and_leaves_under_loss_s23() {
    for seed in 1..=20 {
        let (mut world, dids) = ring_of(20, seed);
        settled(&mut world, 2 * MINUTE_MS, &format!("seed {seed}"));
        world.loses_one_in = 20;
        for &gone in &dids[5..8] {
            world.fail(gone);
        }
        world.leave(dids[9]);
        for _ in 0..4 {
            let did = world.chance.did();
            world.join(did, Some(dids[1]));
        }
        world.run(3 * MINUTE_MS);
        world.loses_one_in = 0;
        settled(&mut world, 5 * MINUTE_MS, &format!("seed {seed}"));
        all_reach_all(&world);
    }
}

#[test]
fn law_two_rings_that_meet_become_one() {
    for seed in 1..=10 {
        let mut world = World::new(seed);
        let dids: Vec<Did> = (0..20).map(|_| world.chance.did()).collect();
        for (at, &did) in dids.iter().enumerate() {
            world.join(did, (at > 1).then(|| dids[at % 2]));
            world.run(1_000);
        }
        world.run(3 * MINUTE_MS);
        assert!(!world.wrong().is_empty(), "seed {seed}: two rings, not one");
        world.link(dids[2], dids[3]);
        let took_ms = world.settle(30 * MINUTE_MS);
        println!("seed {seed}: two rings are one after {took_ms:?} ms");
        settled(&mut world, 0, &format!("seed {seed}"));
        all_reach_all(&world);
    }
}

#[test]
fn law_nodes_that_can_only_link_to_a_middle_reach_each_other() {
    for seed in 1..=20 {
        let mut world = World::new(seed);
        let middle = world.chance.did();
        world.join(middle, None);
        let dids: Vec<Did> = (0..5).map(|_| world.chance.did()).collect();
        world.unlinkable = dids.iter().copied().collect();
        for &did in &dids {
            world.join(did, Some(middle));
            world.run(1_000);
        }
        settled(&mut world, 3 * MINUTE_MS, &format!("seed {seed}"));
        all_reach_all(&world);
        for &one in &dids {
            let linked: Vec<_> = world.nodes[&one].linked().iter().copied().collect();
            assert_eq!(linked, [middle], "seed {seed}");
        }
    }
}

#[test]
fn law_a_ring_at_rest_asks_little_and_in_spread_rounds_s20() {
    let (mut world, _) = ring_of(12, 3);
    settled(&mut world, 2 * MINUTE_MS, "twelve");
    world.run(5 * MINUTE_MS);
    let before = world.sent;
    world.run(10 * MINUTE_MS);
    // A round is an answered request to the successor, one for a finger, and now and then one for
    // itself: no more than four requests a round, and no change.
    let rounds = 12 * 10 * MINUTE_MS / 15_000;
    let messages = world.sent.messages - before.messages;
    assert!(
        messages <= rounds * 8,
        "{messages} messages in {rounds} rounds"
    );
    assert_eq!(world.sent.unreachable, before.unreachable);
    assert_eq!(world.sent.lost, before.lost);
    for ring in world.nodes.values() {
        assert_eq!(ring.waiting(), 0);
    }
}

#[test]
fn a_ping_tells_time_and_hops_and_a_trace_the_way() {
    let (mut world, dids) = ring_of(40, 9);
    settled(&mut world, 3 * MINUTE_MS, "forty");
    world.run(2 * MINUTE_MS);
    for at in 1..20 {
        let (from, to) = (dids[at], dids[at + 20]);
        let wanted = world.hops(from, to).unwrap();
        let ping = world
            .ask(from, |ring, now_ms| ring.ping(to, now_ms))
            .unwrap();
        let trace = world
            .ask(from, |ring, now_ms| ring.trace(to, now_ms))
            .unwrap();
        world.run(4_000);
        let done = std::mem::take(&mut world.done);
        let result = |id| done.iter().find(|(_, of, _)| *of == id).unwrap().2.clone();
        match result(ping).unwrap() {
            RingAnswer::Pong {
                hops,
                round_trip_ms,
            } => {
                assert_eq!(u32::from(hops), wanted);
                assert!(round_trip_ms >= u64::from(hops) * 20);
            }
            other => panic!("{other:?}"),
        }
        match result(trace).unwrap() {
            RingAnswer::Path(path) => {
                assert_eq!(path.end, PathEnd::Arrives);
                assert_eq!(
                    (path.hops.len() as u32, path.hops.last()),
                    (wanted, Some(&to))
                );
            }
            other => panic!("{other:?}"),
        }
    }
    let nobody = Did([0xee; 20]);
    let from = dids[3];
    let ping = world
        .ask(from, |ring, now_ms| ring.ping(nobody, now_ms))
        .unwrap();
    world.run(6_000);
    let (_, _, result) = world.done.iter().find(|(_, id, _)| *id == ping).unwrap();
    let code = overlane_core::Coded::code(result.as_ref().unwrap_err());
    assert_eq!(code, "route/destination_unreachable");
}
