//! The laws of an open link between honest ends.

use super::pair::{Broken, Net, Pair, Rng, Takes};
use crate::ids::Class;
use crate::lane::CloseReason;
use crate::lane::rules::Rules;
use crate::wire::bounds::FRAME_MAX_BYTES;

const HONEST: [Rules; 2] = [Rules::PROTOCOL; 2];

/// Seeds of a law's runs.
const SEEDS: u64 = 30;

/// Runs a law's scenario for every seed; the seed is in the message of a failure.
fn for_each_seed(run: impl Fn(u64) -> Result<(), Broken>) {
    for seed in 0..SEEDS {
        if let Err(broken) = run(seed) {
            panic!("seed {seed}: {broken}");
        }
    }
}

/// Bursts on all lanes both ways, over channels with every fault but an end; then one side closes.
fn traffic(seed: u64, rules: [Rules; 2]) -> Result<(), Broken> {
    let mut rng = Rng(seed ^ 0x7261_6666_6963);
    let net = Net {
        latency_ms: rng.below(120),
        jitter_ms: rng.below(80),
        buffer: 1 + rng.below(40) as usize,
        repeats_percent: rng.below(40),
        dials_ms: rng.below(600),
    };
    let mut pair = Pair::new(seed, net, rules);
    for end in &mut pair.ends {
        for class in Class::ALL {
            *end.takes.of_mut(class) = match rng.below(3) {
                0 => Takes::Every(rng.below(30)),
                _ => Takes::AtOnce,
            };
        }
    }
    pair.run_until_open()?;
    for _ in 0..60 {
        for side in 0..2 {
            let class = Class::ALL[rng.below(4) as usize];
            for _ in 0..rng.below(40) {
                let size = match rng.below(8) {
                    0 => FRAME_MAX_BYTES,
                    1..3 => 16 * 1024,
                    _ => 13 + rng.below(1_000) as usize,
                };
                if pair.send(side, class, size).is_err() {
                    break;
                }
            }
            if rng.chance(10) {
                let until_ms = pair.now_ms + rng.below(3_000);
                pair.stall(side, class, until_ms);
            }
        }
        pair.run_for(rng.below(100))?;
    }
    // the receivers take, so all of it comes
    pair.run_until(120_000, |pair| pair.all_came(0) && pair.all_came(1))?;
    for side in 0..2 {
        if !pair.all_came(side) {
            let what = format!(
                "{:?} {:?}",
                pair.ends[side].session.status(),
                pair.ends[1 - side].closed
            );
            return Err(Broken {
                law: "progress",
                what,
            });
        }
    }
    let closer = rng.below(2) as usize;
    pair.close(closer);
    pair.run_for(10_000)?;
    let reasons = [CloseReason::Local, CloseReason::Peer];
    for (side, reason) in [closer, 1 - closer].into_iter().zip(reasons) {
        let closed = pair.ends[side].closed.as_ref();
        if closed.map(|(_, reason)| reason) != Some(&reason) {
            let what = format!("{closed:?}");
            return Err(Broken { law: "fin", what });
        }
    }
    Ok(())
}

#[test]
fn law_order_nothing_lost_nothing_repeated_and_progress() {
    for_each_seed(|seed| traffic(seed, HONEST));
}
