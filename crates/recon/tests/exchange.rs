//! Whole exchanges: any two sets end equal, within the round bound, at no redundant push, under the limits.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a broken case fails the test"
)]

mod common;

use common::{Rng, item, run, run_between};
use overlane_recon::bounds::{MESSAGE_BYTES, RANGES_MAX};
use overlane_recon::pair::Relay;
use overlane_recon::{Bound, End, Item, ItemSet, Limits, Message};
use proptest::prelude::*;

/// Rounds within which sets of up to 5,000 items must be equal, whatever the limits of these tests.
const ROUNDS: u32 = 64;

#[derive(Debug, Clone, Copy)]
enum Shape {
    Random,
    Clustered,
    Tail,
    Disjoint,
    Empty,
    Renumbered,
}

/// Two sets of up to `size` items that differ in the shape's way.
fn pair(shape: Shape, size: usize, differing: usize, seed: u64) -> (ItemSet, Relay) {
    let mut rng = Rng(seed);
    let top = 3 * size as u64 + 1;
    let seqs = rng.distinct(size, top);
    let from = rng.below(size as u64 + 1) as usize;
    let mut client = ItemSet::new();
    let mut relay = Vec::new();
    for (place, seq) in seqs.iter().copied().enumerate() {
        let clustered = place >= from && place < from + differing;
        let (to_client, to_relay) = match shape {
            Shape::Random if rng.below(size as u64) < differing as u64 => {
                let both_ways = rng.below(2) == 0;
                (both_ways, !both_ways)
            }
            Shape::Clustered if clustered => (seed.is_multiple_of(2), !seed.is_multiple_of(2)),
            Shape::Tail => (place + differing < size, true),
            Shape::Disjoint => (place % 2 == 0, place % 2 == 1),
            Shape::Empty => (seed.is_multiple_of(2), !seed.is_multiple_of(2)),
            Shape::Random | Shape::Clustered | Shape::Renumbered => (true, true),
        };
        let same = item(seq);
        if to_client {
            let renumbered = matches!(shape, Shape::Renumbered) && rng.below(8) == 0;
            let seq = if renumbered { 1 + rng.below(top) } else { seq };
            client.insert(Item { seq, ..same }).unwrap();
        }
        if to_relay {
            relay.push(same);
        }
    }
    (client, Relay::new(relay))
}

/// Equal items; where some were renumbered, equal ids: a list names ids and no seqs, so an item whose two seqs lie in
/// one listed range keeps the one it has.
fn equal(shape: Shape, client: &mut ItemSet, relay: &mut Relay) -> bool {
    let ids = |set: &ItemSet| -> std::collections::BTreeSet<_> {
        set.iter().map(|item| item.id).collect()
    };
    match shape {
        Shape::Renumbered => ids(client) == ids(&relay.set),
        _ => client.whole_fingerprint() == relay.set.whole_fingerprint(),
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    prop::sample::select(vec![
        Shape::Random,
        Shape::Clustered,
        Shape::Tail,
        Shape::Disjoint,
        Shape::Empty,
        Shape::Renumbered,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn prop_any_two_sets_end_equal(
        shape in shapes(),
        size in 0_usize..=5_000,
        differing in 0_usize..=2_000,
        kibibytes in prop::sample::select(vec![4_usize, 16, 64, 1024]),
        seed in any::<u64>(),
    ) {
        let (mut client, mut relay) = pair(shape, size, differing, seed);
        let limits = Limits::default().message_bytes(kibibytes * 1024);
        let (report, seen) = run(&mut client, &mut relay, limits);
        prop_assert_eq!(&report.end, &Some(End::Settled));
        prop_assert!(equal(shape, &mut client, &mut relay));
        prop_assert!(seen.largest <= kibibytes * 1024, "{} bytes", seen.largest);
        if kibibytes >= 64 {
            prop_assert!(report.rounds <= ROUNDS, "{} rounds", report.rounds);
        }
        // A renumbered item may be pushed under the seq it has been re-keyed to just before.
        prop_assert!(report.received_again == 0 || matches!(shape, Shape::Renumbered));
        prop_assert!(report.missing.is_empty());
    }

    /// Against a peer that answers plainly, a client with few open ranges still gets there.
    #[test]
    fn prop_a_plain_peer_is_reconciled_too(
        shape in shapes(),
        size in 0_usize..=5_000,
        differing in 0_usize..=2_000,
        seed in any::<u64>(),
    ) {
        let (mut client, mut relay) = pair(shape, size, differing, seed);
        let limits = Limits::default().for_plain_peer();
        let (report, seen) = run_between(&mut client, &mut relay, limits, Limits::default());
        prop_assert_eq!(&report.end, &Some(End::Settled));
        prop_assert!(equal(shape, &mut client, &mut relay));
        for payload in &seen.client {
            let message = Message::decode(payload).unwrap();
            let open = message.ranges().iter().filter(|range| range.content != overlane_recon::Content::Skip);
            prop_assert!(open.count() <= overlane_recon::bounds::OPEN_RANGES_PLAIN_PEER);
        }
        // Its range budget never binds, so its plain answers never need more than they may have.
        for payload in &seen.relay {
            prop_assert!(Message::decode(payload).unwrap().ranges().len() <= RANGES_MAX);
        }
    }
}

/// Each side lacks half of `differing` random items of `size`.
fn symmetric(size: u64, differing: usize, seed: u64) -> (ItemSet, Relay) {
    let chosen: Vec<u64> = Rng(seed).distinct(differing, size).into_iter().collect();
    let half = |parity: usize| -> std::collections::BTreeSet<u64> {
        let of_half = chosen
            .iter()
            .enumerate()
            .filter(|(place, _)| place % 2 == parity);
        of_half.map(|(_, seq)| *seq).collect()
    };
    let (client_lacks, relay_lacks) = (half(0), half(1));
    let client = (1..=size)
        .filter(|seq| !client_lacks.contains(seq))
        .map(item);
    let relay = (1..=size)
        .filter(|seq| !relay_lacks.contains(seq))
        .map(item);
    (client.collect(), Relay::new(relay))
}

/// The client lacks `holes` items, evenly spread.
fn holes(size: u64, holes: u64) -> (ItemSet, Relay) {
    let every = size / holes;
    let client = (1..=size).filter(|seq| seq % every != every / 2).map(item);
    (client.collect(), Relay::new((1..=size).map(item)))
}

fn ends_equal(mut client: ItemSet, mut relay: Relay, limits: Limits, bytes: usize, rounds: u32) {
    let (report, seen) = run(&mut client, &mut relay, limits);
    assert_eq!(report.end, Some(End::Settled));
    assert_eq!(client.whole_fingerprint(), relay.set.whole_fingerprint());
    assert_eq!(report.received_again, 0);
    assert!(seen.largest <= bytes, "{} bytes", seen.largest);
    assert!(report.rounds <= rounds, "{} rounds", report.rounds);
}

/// Sets on which plain answers on both sides repeat themselves for ever.
#[test]
fn law_the_never_ending_cases_end() {
    for (size, differing) in [(20_000, 10_000), (50_000, 25_000), (100_000, 50_000)] {
        let (client, relay) = symmetric(size, differing, size);
        ends_equal(client, relay, Limits::default(), MESSAGE_BYTES, 16);
    }
}

#[test]
fn law_spread_holes_stay_under_64_kib_when_asked() {
    let limits = Limits::default().message_bytes(64 * 1024);
    for (size, count) in [(100_000, 300), (100_000, 1_000), (1_000_000, 1_000)] {
        let (client, relay) = holes(size, count);
        ends_equal(client, relay, limits, 64 * 1024, 20);
    }
}

#[test]
fn law_the_smallest_limits_still_end() {
    let limits = Limits::default().message_bytes(0).open_ranges(0);
    let (client, relay) = symmetric(2_000, 300, 7);
    let (bytes, rounds) = (overlane_recon::bounds::MESSAGE_BYTES_MIN, 512);
    ends_equal(client, relay, limits, bytes, rounds);
}

#[test]
fn law_a_bound_on_pushes_reopens_and_ends() {
    for (limits, most) in [
        (Limits::default().push_ids(255), 255),
        (Limits::default().push_ids(1_000).message_bytes(4096), 1_000),
    ] {
        let mut relay = Relay::new((1..=5_000).map(item));
        let mut client = ItemSet::new();
        let response = overlane_recon::respond(
            &mut relay.set,
            &overlane_recon::initiate(&mut client, &limits).unwrap(),
            &limits,
        );
        assert_eq!(response.unwrap().push.len(), most);
        let (report, _) = run(&mut client, &mut relay, limits);
        assert_eq!(report.end, Some(End::Settled));
        assert_eq!(report.received, 5_000);
        assert_eq!(client.whole_fingerprint(), relay.set.whole_fingerprint());
    }
}

/// More items at one seq than a list may name cannot be told apart: the exchange says so instead of going on.
#[test]
fn law_what_cannot_be_split_ends_as_stalled() {
    let mut client: ItemSet = (1..=5_000).map(|n| Item { seq: 7, ..item(n) }).collect();
    let mut relay = Relay::new([item(1)]);
    let limits = Limits::default().push_ids(0);
    let (report, _) = run(&mut client, &mut relay, limits);
    assert_eq!(report.end, Some(End::GaveUp(Bound::Stalled)));
}

/// Progress, as the paper states it: answer by answer, the first open range begins later or ends earlier.
#[test]
fn law_the_first_open_range_shrinks() {
    for (client, relay, limits) in [
        (symmetric(20_000, 10_000, 1), Limits::default()),
        (
            symmetric(5_000, 2_000, 2),
            Limits::default().message_bytes(4096),
        ),
        (holes(20_000, 400), Limits::default().message_bytes(8192)),
    ]
    .map(|((client, relay), limits)| (client, relay, limits))
    {
        let (mut client, mut relay) = (client, relay);
        let (report, seen) = run(&mut client, &mut relay, limits);
        assert_eq!(report.end, Some(End::Settled));
        let said = seen
            .client
            .iter()
            .zip(&seen.relay)
            .flat_map(|(client, relay)| [client, relay]);
        let said = said.map(Vec::as_slice);
        assert_eq!(common::progress::check(said), Ok(()));
    }
}

/// With stable splits the bounds stay where they are while a set grows, so a range is hashed for the first peer only.
#[test]
fn law_stable_splits_keep_their_bounds_while_a_set_grows() {
    let stable = Limits::default().stable_splits();
    let bounds = |items: u64, limits: &Limits| -> Vec<u64> {
        let mut set: ItemSet = (1..=items).map(item).collect();
        let opening = overlane_recon::initiate(&mut set, limits).unwrap();
        let message = Message::decode(&opening).unwrap();
        message.ranges().iter().map(|range| range.upper).collect()
    };
    let mut seen: Option<Vec<u64>> = None;
    // 4 x 512 + 1 to 8 x 512 items are cut at multiples of 512.
    for items in [2_049, 2_500, 2_561, 3_000, 3_333, 4_096] {
        let now = bounds(items, &stable);
        assert!((5..=8).contains(&now.len()), "{items}: {now:?}");
        let inner = |bounds: &[u64]| bounds[..bounds.len() - 1].to_vec();
        if let Some(before) = &seen {
            assert!(now.starts_with(&inner(before)), "{before:?} then {now:?}");
        }
        seen = Some(now);
    }
    // And where they double, every other bound stays.
    let (before, after) = (bounds(4_096, &stable), bounds(4_097, &stable));
    assert_eq!(after[..3], [before[1], before[3], before[5]]);
    // Plain splits move, or this law would hold without the option.
    assert_ne!(
        bounds(2_500, &Limits::default())[0],
        bounds(3_333, &Limits::default())[0]
    );

    // Thirty clients of thirty sizes: what the relay hashes for the later ones is little more than their last ranges.
    let hashed = |limits: Limits| {
        let mut relay = Relay::new((1..=60_000).map(item));
        let mut work = Vec::new();
        for client in 0..30 {
            let mut client: ItemSet = (1..=50_000 + 17 * client).map(item).collect();
            let before = overlane_recon::Storage::work_bytes(&relay.set);
            let (report, _) = run(&mut client, &mut relay, limits);
            assert_eq!(report.end, Some(End::Settled));
            work.push(overlane_recon::Storage::work_bytes(&relay.set) - before);
        }
        work[1..].iter().sum::<u64>()
    };
    let (plain, stable) = (hashed(Limits::default()), hashed(stable));
    assert!(stable * 4 < plain, "{stable} bytes hashed beside {plain}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Stable splits at either side, or both, against a peer that does not know of them.
    #[test]
    fn prop_stable_splits_end_equal_with_a_peer_without_them(
        shape in shapes(),
        size in 0_usize..=4_000,
        differing in 0_usize..=2_000,
        kibibytes in prop::sample::select(vec![4_usize, 64, 1024]),
        sides in 1_u8..4,
        seed in any::<u64>(),
    ) {
        let (mut client, mut relay) = pair(shape, size, differing, seed);
        let plain = Limits::default().message_bytes(kibibytes * 1024);
        let of = |side: u8| if sides & side == 0 { plain } else { plain.stable_splits() };
        let (report, seen) = run_between(&mut client, &mut relay, of(1), of(2));
        prop_assert_eq!(&report.end, &Some(End::Settled));
        prop_assert!(equal(shape, &mut client, &mut relay));
        prop_assert!(seen.largest <= kibibytes * 1024, "{} bytes", seen.largest);
        for payload in seen.client.iter().chain(&seen.relay) {
            prop_assert!(Message::decode(payload).unwrap().ranges().len() <= RANGES_MAX);
        }
    }
}
