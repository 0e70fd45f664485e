//! Early grants: while they come a sender near by has little under way, and it waits for none that does not come.

use super::laws::{HONEST, broken, caught, fill, for_each_seed};
use super::pair::{Broken, Net, Pair, Rng};
use crate::ids::Class;
use crate::lane::bounds::{
    ANSWER_DUE_FRAMES, LINK_WINDOW_DEFAULT_BYTES, STATEMENTS_ALONE_MAX, near,
};
use crate::lane::rules::Rules;

const DATA: [Class; 3] = [Class::Storage, Class::E2e, Class::Application];

const NEAR: Net = Net {
    latency_ms: 0,
    jitter_ms: 0,
    buffer: 64,
    repeats_percent: 0,
    dials_ms: 0,
    overtakes: false,
};

/// A side of before there were early grants.
const OLDER: Rules = Rules {
    grants_early: false,
    answers_early: false,
    ..Rules::PROTOCOL
};

/// The most bytes under way of lanes that are full all the time, to a near peer.
fn kept_full(seed: u64, rules: [Rules; 2]) -> Result<u64, Broken> {
    let mut rng = Rng(seed);
    let mut pair = Pair::opened(seed, NEAR, rules)?;
    // By which it is shown that grants come early.
    pair.send(0, Class::Application, 100).ok();
    pair.settle()?;
    for _ in 0..20 {
        for class in DATA {
            let size = 4 * 1024 + rng.below(16 * 1024) as usize;
            fill(&mut pair, 0, class, 12, size);
        }
        pair.settle()?;
        came(&pair)?;
    }
    Ok(pair.most_bytes)
}

fn came(pair: &Pair) -> Result<(), Broken> {
    for side in 0..2 {
        if !pair.all_came(side) {
            return broken("no wait", pair.ends[side].session.status());
        }
    }
    Ok(())
}

#[test]
fn law_short_queues_stay_short_while_data_flows() {
    let most = near(u64::from(LINK_WINDOW_DEFAULT_BYTES), true);
    for_each_seed(|seed| match kept_full(seed, HONEST)? {
        bytes if bytes <= most => Ok(()),
        bytes => broken("short queues", bytes),
    });
}

#[test]
fn who_answers_only_when_it_is_due_has_more_under_way() -> Result<(), Broken> {
    let late = Rules {
        answers_early: false,
        ..Rules::PROTOCOL
    };
    let most = near(u64::from(LINK_WINDOW_DEFAULT_BYTES), true);
    assert!(kept_full(1, [late; 2])? > most);
    Ok(())
}

/// Three lanes bring a near peer less than makes a grant due, of each; after so much both ways that all that is
/// ever due was.
fn spread(rules: [Rules; 2]) -> Result<(), Broken> {
    let mut pair = Pair::opened(5, NEAR, rules)?;
    // First one way alone: what the receiver then says of its own is an answer and nothing else.
    for senders in [1..2, 0..2] {
        for _ in 0..2 * ANSWER_DUE_FRAMES {
            for side in senders.clone() {
                fill(&mut pair, side, Class::E2e, 6, 16 * 1024);
            }
            pair.settle()?;
        }
    }
    // What is left of it to be granted, is.
    for class in DATA {
        fill(&mut pair, 0, class, 4, 16 * 1024);
        pair.settle()?;
    }
    came(&pair)?;
    for class in DATA {
        fill(&mut pair, 0, class, 2, 41 * 1024 + 512);
    }
    pair.settle()?;
    came(&pair)
}

#[test]
fn law_a_sender_waits_for_no_early_grant_of_who_makes_none() -> Result<(), Broken> {
    spread(HONEST)?;
    spread([Rules::PROTOCOL, OLDER])?;
    spread([OLDER, Rules::PROTOCOL])?;
    spread([OLDER; 2])
}

#[test]
fn a_sender_that_was_not_shown_early_grants_and_relies_on_them_waits() {
    let credulous = Rules {
        early_if_shown: false,
        ..Rules::PROTOCOL
    };
    let waits = spread([credulous, OLDER]).map_err(|broken| broken.law);
    assert_eq!(waits, Err("no wait"));
}

/// Grants of both sides cross, more than find a place early; then three lanes bring less than makes one due. Whether
/// so many crossed.
fn crossed(seed: u64, rules: [Rules; 2]) -> Result<bool, Broken> {
    let mut rng = Rng(seed ^ 0x0065_6172_6c79);
    let net = Net {
        jitter_ms: rng.below(2),
        ..NEAR
    };
    let mut pair = Pair::opened(seed, net, rules)?;
    let until_ms = pair.now_ms + 500;
    for side in 0..2 {
        pair.stall(side, Class::Control, until_ms);
    }
    for side in 0..2 {
        for class in DATA {
            for _ in 0..4 * (2 + rng.below(3)) {
                pair.send(side, class, 100).ok();
                pair.run_for(2)?;
            }
        }
    }
    pair.run_for(until_ms + 10 - pair.now_ms)?;
    came(&pair)?;
    let unheard = [0, 1].map(|side| pair.ends[side].session.status().unanswered_control);
    for side in 0..2 {
        for class in DATA {
            let size = 41 * 1024 + rng.below(1024) as usize;
            fill(&mut pair, side, class, 2, size);
        }
    }
    // Long before a probe.
    pair.run_for(100)?;
    came(&pair)?;
    Ok(unheard.iter().all(|&it| it >= STATEMENTS_ALONE_MAX))
}

#[test]
fn law_a_sender_waits_for_no_early_grant_that_finds_no_place() {
    let met = std::cell::Cell::new(0);
    for_each_seed(|seed| {
        met.set(met.get() + u32::from(crossed(seed, HONEST)?));
        Ok(())
    });
    assert!(met.get() > 3, "{met:?}");
}

#[test]
fn a_sender_that_asks_not_whether_early_grants_find_a_place_waits() {
    let broken = Rules {
        early_if_heard: false,
        ..Rules::PROTOCOL
    };
    let law = caught(|seed| crossed(seed, [broken; 2]).map(drop));
    assert_eq!(law, Some("no wait"));
}
