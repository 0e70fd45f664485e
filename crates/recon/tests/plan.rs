//! Predictions against what exchanges take.

#![allow(clippy::unwrap_used, reason = "a broken case fails the test")]

mod common;

use common::{Rng, item, run};
use overlane_recon::pair::Relay;
use overlane_recon::{Differences, End, ItemSet, Limits, plan};

/// Predictions are good to this factor, both ways, and to this many rounds beside it.
const FACTOR: f64 = 2.5;
const ROUNDS_OFF: f64 = 2.0;

#[test]
fn law_a_plan_is_near_what_the_exchange_takes() {
    for (items, differences, kibibytes) in [
        (1_000, Differences::Spread(0), 1024),
        (1_000, Differences::Spread(1), 1024),
        (100_000, Differences::Spread(10), 1024),
        (100_000, Differences::Spread(100), 1024),
        (100_000, Differences::Spread(1_000), 64),
        (100_000, Differences::Spread(20_000), 1024),
        (100_000, Differences::Run(10), 1024),
        (100_000, Differences::Run(1_000), 1024),
    ] {
        let lacked = match differences {
            Differences::Spread(count) => Rng(items + count).distinct(count as usize, items),
            Differences::Run(count) => (items - count + 1..=items).collect(),
        };
        let limits = Limits::default().message_bytes(kibibytes * 1024);
        let mut client: ItemSet = (1..=items)
            .filter(|seq| !lacked.contains(seq))
            .map(item)
            .collect();
        let mut relay = Relay::new((1..=items).map(item));
        let predicted = plan(items, differences, &limits);
        let (report, _) = run(&mut client, &mut relay, limits);
        assert_eq!(report.end, Some(End::Settled));
        let case = format!(
            "{items} items, {differences:?}, {kibibytes} KiB: predicted {predicted:?}, took {} rounds, {} bytes, {} planned",
            report.rounds,
            report.bytes(),
            report.planned
        );
        println!("{case}");
        let (rounds, took) = (f64::from(predicted.rounds), f64::from(report.rounds));
        assert!(
            rounds <= took * FACTOR + ROUNDS_OFF && took <= rounds * FACTOR + ROUNDS_OFF,
            "{case}"
        );
        let (bytes, took) = (predicted.bytes as f64, report.bytes() as f64);
        assert!(took <= bytes * FACTOR && bytes <= took * FACTOR, "{case}");
        assert_eq!(predicted.planned, report.planned > 0, "{case}");
    }
}
