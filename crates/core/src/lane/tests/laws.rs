//! The laws of a link between honest ends, and for each a session with one rule broken that it
//! catches.

use super::pair::{self, Broken, Net, Pair, Rng, Takes};
use crate::ids::Class;
use crate::lane::bounds::{
    BATCH_MAX_BYTES, BATCH_MAX_FRAMES, GONE_MS, LANE_IN_FLIGHT_MAX, LANE_RESERVE_BYTES,
    LANE_WINDOW_FRAMES, LINK_WINDOW_DEFAULT_BYTES, LINK_WINDOW_MIN_BYTES, PIPE_BYTES_PER_MS,
    PROBE_IDLE_MS, QUEUED_MAX, QUEUED_MAX_BYTES, WINDOW_SCALE_MAX, near,
};
use crate::lane::rules::Rules;
use crate::lane::{CloseReason, PerLane, SendError, Violation, Windows};
use crate::wire::bounds::FRAME_MAX_BYTES;

pub(super) const HONEST: [Rules; 2] = [Rules::PROTOCOL; 2];

/// Seeds of a law's runs.
pub(super) const SEEDS: u64 = 24;

/// Runs a law's scenario for every seed; the seed is in the message of a failure.
pub(super) fn for_each_seed(run: impl Fn(u64) -> Result<(), Broken>) {
    for seed in 0..SEEDS {
        if let Err(broken) = run(seed) {
            panic!("seed {seed}: {broken}");
        }
    }
}

/// The law that some seed's run of a broken session is caught by.
pub(super) fn caught(run: impl Fn(u64) -> Result<(), Broken>) -> Option<&'static str> {
    (0..SEEDS)
        .find_map(|seed| run(seed).err())
        .map(|broken| broken.law)
}

pub(super) fn broken<T>(law: &'static str, what: impl std::fmt::Debug) -> Result<T, Broken> {
    Err(pair::broken(law, format_args!("{what:?}")))
}

/// Queues as many frames as a lane takes, at most `frames`.
pub(super) fn fill(
    pair: &mut Pair,
    side: usize,
    class: Class,
    frames: usize,
    size: usize,
) -> usize {
    (0..frames)
        .take_while(|_| pair.send(side, class, size).is_ok())
        .count()
}

fn closed(pair: &Pair, side: usize) -> Option<&CloseReason> {
    pair.ends[side].closed.as_ref().map(|(_, reason)| reason)
}

// Traffic: order, nothing lost, nothing repeated, progress.

/// Bursts on all lanes both ways, over channels with every fault but an end; then one side closes.
fn traffic(seed: u64, rules: [Rules; 2]) -> Result<(), Broken> {
    let overtakes = false;
    traffic_over(seed, rules, overtakes)
}

fn traffic_over(seed: u64, rules: [Rules; 2], overtakes: bool) -> Result<(), Broken> {
    let mut rng = Rng(seed ^ 0x7261_6666_6963);
    let net = Net {
        latency_ms: rng.below(120),
        jitter_ms: rng.below(80),
        buffer: 1 + rng.below(40) as usize,
        repeats_percent: rng.below(40),
        dials_ms: rng.below(600),
        overtakes,
    };
    let windows = [(); 2].map(|()| match rng.below(2) {
        0 => Windows::sized(LINK_WINDOW_MIN_BYTES),
        _ => Windows::default(),
    });
    let mut pair = Pair::with_windows(seed, net, rules, windows);
    for end in &mut pair.ends {
        for class in Class::ALL {
            *end.takes.of_mut(class) = match rng.below(3) {
                0 => Takes::Every(rng.below(30)),
                _ => Takes::AtOnce,
            };
        }
    }
    pair.run_until_open()?;
    for _ in 0..40 {
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
        pair.both_live()?;
    }
    progress(&mut pair)?;
    let closer = rng.below(2) as usize;
    pair.close(closer);
    pair.run_for(10_000)?;
    let reasons = [closed(&pair, closer), closed(&pair, 1 - closer)];
    if reasons != [Some(&CloseReason::Local), Some(&CloseReason::Peer)] {
        return broken("fin", reasons);
    }
    Ok(())
}

/// While the receivers take, everything that was queued comes.
fn progress(pair: &mut Pair) -> Result<(), Broken> {
    pair.run_until(600_000, |pair| pair.all_came(0) && pair.all_came(1))?;
    pair.both_live()?;
    for side in 0..2 {
        if !pair.all_came(side) {
            return broken("progress", pair.ends[side].session.status());
        }
    }
    Ok(())
}

#[test]
fn law_order_nothing_lost_nothing_repeated_and_progress_s02() {
    for_each_seed(|seed| traffic(seed, HONEST));
}

#[test]
fn several_channels_a_class_taken_in_turn_are_caught_s02() {
    let overtakes = true;
    let law = caught(|seed| traffic_over(seed, HONEST, overtakes));
    assert_eq!(law, Some("order"));
}

#[test]
fn a_sender_that_heeds_no_credit_is_caught() {
    let heedless = Rules {
        heeds_credit: false,
        ..Rules::PROTOCOL
    };
    let law = caught(|seed| traffic(seed, [heedless, Rules::PROTOCOL]));
    assert!(matches!(law, Some("live" | "credit")), "{law:?}");
}

#[test]
fn a_receiver_that_grants_only_whole_windows_stops_large_frames() {
    let miserly = Rules {
        grant_fraction: 1,
        ..Rules::PROTOCOL
    };
    let law = caught(|seed| traffic(seed, [miserly, miserly]));
    assert_eq!(law, Some("progress"));
}

#[test]
fn a_scheduler_without_an_in_flight_bound_is_caught() {
    let greedy = Rules {
        lane_in_flight: usize::MAX,
        ..Rules::PROTOCOL
    };
    assert_eq!(
        caught(|seed| traffic(seed, [greedy, greedy])),
        Some("in flight")
    );
}

#[test]
fn a_frame_that_the_transport_loses_is_not_lost_silently() -> Result<(), Broken> {
    let mut pair = Pair::opened(1, Net::default(), HONEST)?;
    fill(&mut pair, 0, Class::Application, 3, 100);
    pair.run_for(1)?;
    assert!(pair.lose_one(0, Class::Application));
    pair.close(0);
    pair.run_for(10_000)?;
    let violation = Violation::FinCount {
        class: Class::Application,
        announced: 3,
        received: 0,
    };
    assert_eq!(closed(&pair, 1), Some(&violation.into()));
    Ok(())
}

#[test]
fn law_a_window_is_filled_each_round_trip_s17() -> Result<(), Broken> {
    let frames = 1_600;
    // Each frame a message of its own.
    let alone = [Rules {
        batch_frames: 1,
        ..Rules::PROTOCOL
    }; 2];
    let mut pair = Pair::opened(1, Net::default(), alone)?;
    let round_trip_ms = 2 * pair.net.latency_ms;
    let start_ms = pair.now_ms;
    for _ in 0..frames / 100 {
        fill(&mut pair, 0, Class::Application, 100, 100);
        pair.run_until(60_000, |pair| {
            pair.ends[0]
                .session
                .status()
                .lanes
                .of(Class::Application)
                .queued
                < 100
        })?;
    }
    progress(&mut pair)?;
    // grants lag by less than a quarter, so three quarters of a window go each round trip
    let rounds = frames / (u64::from(LANE_WINDOW_FRAMES) * 3 / 4) + 1;
    let took_ms = pair.now_ms - start_ms;
    assert_eq!(*pair.ends[1].came.of(Class::Application), frames);
    assert!(took_ms <= rounds * round_trip_ms, "{took_ms} ms");
    Ok(())
}

/// Small frames that wait in one lane, and how many messages they took.
fn small_frames(rules: Rules, frames: usize) -> Result<u64, Broken> {
    let mut pair = Pair::opened(1, Net::default(), [rules; 2])?;
    let before = pair.ends[1].session.status().counters.messages_received;
    assert_eq!(fill(&mut pair, 0, Class::Application, frames, 100), frames);
    progress(&mut pair)?;
    let after = pair.ends[1].session.status().counters.messages_received;
    Ok(after - before)
}

#[test]
fn law_small_frames_share_messages_and_none_waits_for_another() -> Result<(), Broken> {
    let alone = Rules {
        batch_frames: 1,
        ..Rules::PROTOCOL
    };
    let batches = QUEUED_FOR_BATCHES.div_ceil(BATCH_MAX_FRAMES) as u64;
    assert_eq!(small_frames(Rules::PROTOCOL, QUEUED_FOR_BATCHES)?, batches);
    let alone = small_frames(alone, QUEUED_FOR_BATCHES)?;
    assert!(alone >= QUEUED_FOR_BATCHES as u64, "{alone}");
    // One that is alone leaves at once, and as itself.
    let mut pair = Pair::opened(1, Net::default(), HONEST)?;
    fill(&mut pair, 0, Class::Application, 1, 100);
    pair.run_for(pair.net.latency_ms)?;
    assert!(pair.all_came(0));
    assert_eq!(pair.ends[0].session.status().counters.batches_sent, 0);
    Ok(())
}

/// As many as leave without a grant.
const QUEUED_FOR_BATCHES: usize = 8 * BATCH_MAX_FRAMES / 2;

/// How long so many chunks take to a peer this far away, and how often its windows were granted.
fn far(latency_ms: u64, frames: usize) -> Result<(u64, u8), Broken> {
    let net = Net {
        latency_ms,
        ..Net::default()
    };
    let mut pair = Pair::opened(1, net, HONEST)?;
    // What a probe and the grant of larger windows take.
    pair.run_for(4 * latency_ms)?;
    let start_ms = pair.now_ms;
    let mut queued = 0;
    while queued < frames {
        queued += fill(
            &mut pair,
            0,
            Class::Application,
            frames - queued,
            BATCH_MAX_BYTES,
        );
        pair.run_for(latency_ms)?;
    }
    progress(&mut pair)?;
    let scale = pair.ends[0].session.status().window_scales.1;
    Ok((pair.now_ms - start_ms, scale))
}

/// A window goes each round trip, so a far peer's windows are as many times larger.
#[test]
fn law_a_far_peer_has_larger_windows_s17() -> Result<(), Broken> {
    let frames = 600;
    for (latency_ms, wanted) in [(10, 1), (12, 1), (13, 2), (30, 3), (100, WINDOW_SCALE_MAX)] {
        let (took_ms, scale) = far(latency_ms, frames)?;
        assert_eq!(scale, wanted, "{latency_ms} ms");
        // Grants lag by less than a quarter.
        let window = u64::from(LANE_WINDOW_FRAMES) * u64::from(scale) * 3 / 4;
        let rounds = (frames as u64).div_ceil(window) + 2;
        assert!(
            took_ms <= rounds * 2 * latency_ms,
            "{took_ms} ms at {latency_ms} ms"
        );
    }
    Ok(())
}

/// A pair so far apart that carried something, whose data lanes are full and whose channels bring nothing, and the bytes
/// under way.
fn under_way(latency_ms: u64, rules: [Rules; 2]) -> Result<(Pair, u64), Broken> {
    let net = Net {
        latency_ms,
        ..Net::default()
    };
    let mut pair = Pair::opened(5, net, rules)?;
    pair.send(0, Class::Application, 100).ok();
    pair.run_for(4 * latency_ms)?;
    for class in Class::ALL {
        pair.stall(0, class, u64::MAX);
    }
    for class in [Class::Storage, Class::E2e, Class::Application] {
        fill(&mut pair, 0, class, 40, 16 * 1024);
    }
    pair.settle()?;
    let bytes = pair.ends[0].session.status().undrained_bytes;
    Ok((pair, bytes))
}

#[test]
fn law_short_queues_a_near_peer_has_no_more_under_way_than_its_way_needs() -> Result<(), Broken> {
    let window = u64::from(LINK_WINDOW_DEFAULT_BYTES);
    let frame = 17 * 1024;
    let (mut pair, bytes) = under_way(0, HONEST)?;
    let most = near(window, true);
    assert!((most - frame..=most).contains(&bytes), "{bytes} of {most}");
    // The control lane has the rest of the window.
    pair.send(0, Class::Control, FRAME_MAX_BYTES).unwrap();
    pair.settle()?;
    let with_control = pair.ends[0].session.status().undrained_bytes;
    assert_eq!(with_control, bytes + FRAME_MAX_BYTES as u64);
    // Two milliseconds there and back ask for more, and ten for all of it.
    let (_, bytes) = under_way(1, HONEST)?;
    let most = 2 * PIPE_BYTES_PER_MS;
    assert!((most - frame..=most).contains(&bytes), "{bytes} of {most}");
    let (_, bytes) = under_way(5, HONEST)?;
    assert!((window - frame..=window).contains(&bytes), "{bytes}");
    Ok(())
}

#[test]
fn a_sender_that_fills_its_window_leaves_control_behind_all_of_it() -> Result<(), Broken> {
    let broken = Rules {
        short_queues: false,
        ..Rules::PROTOCOL
    };
    let (_, bytes) = under_way(0, [broken; 2])?;
    assert!(
        bytes > near(u64::from(LINK_WINDOW_DEFAULT_BYTES), false),
        "{bytes}"
    );
    Ok(())
}

#[test]
fn law_a_link_at_rest_sends_only_probes() -> Result<(), Broken> {
    let mut pair = Pair::opened(1, Net::default(), HONEST)?;
    for class in Class::ALL {
        fill(&mut pair, 0, class, 50, 1_000);
        fill(&mut pair, 1, class, 50, 1_000);
    }
    pair.run_for(5_000)?;
    assert!(pair.all_came(0) && pair.all_came(1));
    let before = pair.ends[0].session.status().counters;
    pair.run_for(600_000)?;
    pair.both_live()?;
    let after = pair.ends[0].session.status().counters;
    assert!(after.probes_sent - before.probes_sent <= 600_000 / PROBE_IDLE_MS);
    let idle_messages = after.messages_received - before.messages_received;
    assert!(
        idle_messages <= 2 * 600_000 / PROBE_IDLE_MS + 8,
        "{idle_messages}"
    );
    Ok(())
}

// Isolation: a stalled handler holds its own lane.

/// Some lanes' handlers never return; the others' frames all come. Then they return after all.
fn isolation(stalled: &[Class], rules: [Rules; 2]) -> Result<(), Broken> {
    let small = [Windows::sized(LINK_WINDOW_MIN_BYTES); 2];
    let mut pair = Pair::with_windows(3, Net::default(), rules, small);
    pair.run_until_open()?;
    for &class in stalled {
        *pair.ends[1].takes.of_mut(class) = Takes::Never;
        fill(&mut pair, 0, class, 30, FRAME_MAX_BYTES);
    }
    pair.run_for(1_000)?;
    let others = Class::ALL
        .into_iter()
        .filter(|class| !stalled.contains(class));
    for class in others.clone() {
        fill(&mut pair, 0, class, 40, FRAME_MAX_BYTES);
    }
    pair.run_for(60_000)?;
    pair.both_live()?;
    for class in others {
        let came = *pair.ends[1].came.of(class);
        if came != *pair.ends[0].queued.of(class) {
            return broken("isolation", (class, came));
        }
    }
    for &class in stalled {
        let held = *pair.ends[1].held.of(class);
        assert!(held > 0 && held <= usize::from(LANE_WINDOW_FRAMES));
        *pair.ends[1].takes.of_mut(class) = Takes::AtOnce;
    }
    progress(&mut pair)
}

/// Every set of lanes but the empty and the full one.
fn some_lanes() -> impl Iterator<Item = Vec<Class>> {
    (1..15).map(|set: u8| {
        let belongs = |class: &Class| set & (1 << class.index()) != 0;
        Class::ALL.into_iter().filter(belongs).collect()
    })
}

#[test]
fn law_a_stalled_handler_holds_only_its_lane_s16() {
    for stalled in some_lanes() {
        isolation(&stalled, HONEST).unwrap_or_else(|broken| panic!("{stalled:?}: {broken}"));
    }
}

#[test]
fn a_link_window_that_waits_for_handlers_lets_one_hold_all() {
    let shared = Rules {
        link_waits_for_taking: true,
        ..Rules::PROTOCOL
    };
    let laws: Vec<_> = some_lanes()
        .filter_map(|stalled| isolation(&stalled, [shared, shared]).err())
        .map(|broken| broken.law)
        .collect();
    assert!(laws.contains(&"isolation"), "{laws:?}");
}

// Liveness.

/// All handlers stall on both sides and every queue is full; the link lives.
fn saturated(rules: [Rules; 2]) -> Result<(), Broken> {
    let mut pair = Pair::opened(5, Net::default(), rules)?;
    for side in 0..2 {
        pair.ends[side].takes = PerLane([Takes::Never; 4]);
        for class in Class::ALL {
            fill(&mut pair, side, class, QUEUED_MAX, 1_000);
        }
        pair.run_for(1_000)?;
        for class in Class::ALL {
            fill(&mut pair, side, class, QUEUED_MAX, 1_000);
        }
    }
    pair.run_for(600_000)?;
    pair.both_live()?;
    for end in &mut pair.ends {
        let counters = end.session.status().counters;
        if counters.probes_answered < 600_000 / (PROBE_IDLE_MS + 100) - 1 {
            return broken("probes", counters);
        }
        end.takes = PerLane([Takes::AtOnce; 4]);
    }
    progress(&mut pair)
}

#[test]
fn law_probes_pass_a_saturated_link_s15() {
    saturated(HONEST).unwrap();
}

#[test]
fn probes_that_wait_behind_data_end_a_healthy_link() {
    let queued = Rules {
        probes_first: false,
        ..Rules::PROTOCOL
    };
    let law = saturated([queued, queued]).map_err(|broken| broken.law);
    assert_eq!(law, Err("live"));
}

#[test]
fn a_grant_is_an_answer_so_slow_traffic_needs_no_probe() -> Result<(), Broken> {
    let mut pair = Pair::opened(5, Net::default(), HONEST)?;
    for _ in 0..60 {
        fill(&mut pair, 0, Class::Application, 1, 100);
        pair.run_for(1_000)?;
    }
    pair.both_live()?;
    assert_eq!(pair.ends[0].session.status().counters.probes_sent, 0);
    Ok(())
}

#[test]
fn law_a_silent_peer_is_gone_even_if_only_one_way_is_cut() -> Result<(), Broken> {
    for cuts in [&[0][..], &[1], &[0, 1]] {
        let mut pair = Pair::opened(5, Net::default(), HONEST)?;
        fill(&mut pair, 0, Class::Storage, 100, 1_000);
        fill(&mut pair, 1, Class::Storage, 100, 1_000);
        pair.run_for(1_000)?;
        cuts.iter().for_each(|&from| pair.cut(from));
        let cut_ms = pair.now_ms;
        pair.run_for(2 * (PROBE_IDLE_MS + GONE_MS))?;
        let [one, two] = [0, 1].map(|side| pair.ends[side].closed.clone());
        let gone = [&one, &two].into_iter().flatten();
        let gone = gone.filter(|(_, reason)| matches!(reason, CloseReason::Gone { .. }));
        let gone: Vec<_> = gone.map(|&(at_ms, _)| at_ms - cut_ms).collect();
        assert!(
            one.is_some() && two.is_some(),
            "cuts {cuts:?}: {one:?} {two:?}"
        );
        let soonest = gone.iter().min().copied();
        assert!(
            soonest.is_some_and(|ms| (GONE_MS..=GONE_MS + PROBE_IDLE_MS).contains(&ms)),
            "cuts {cuts:?}: {one:?} {two:?}"
        );
    }
    Ok(())
}

// Bounded queues.

#[test]
fn law_a_channel_that_takes_nothing_grows_no_queue_s18() -> Result<(), Broken> {
    let mut pair = Pair::opened(5, Net::default(), HONEST)?;
    pair.net.buffer = 0;
    for _ in 0..LANE_IN_FLIGHT_MAX {
        for class in Class::ALL {
            fill(&mut pair, 0, class, 2 * QUEUED_MAX, 1_000);
        }
        pair.run_for(1_000)?;
    }
    for class in Class::ALL {
        fill(&mut pair, 0, class, 2 * QUEUED_MAX, 1_000);
        let queued = pair.ends[0].session.status().lanes.of(class).queued;
        assert_eq!(
            pair.send(0, class, 100),
            Err(SendError::LaneFull { class, queued })
        );
    }
    pair.run_for(10_000)?;
    let session = &pair.ends[0].session;
    let lanes = session.status().lanes;
    assert_eq!(
        lanes.iter().map(|lane| lane.queued).sum::<usize>(),
        QUEUED_MAX
    );
    assert!(
        lanes
            .iter()
            .all(|lane| lane.in_flight <= LANE_IN_FLIGHT_MAX)
    );
    assert_eq!(session.held_bytes(), (QUEUED_MAX * 1_000) as u64);
    // each lane refused a frame, so each tells when it has room, and then takes one
    let told = pair.ends[0].rooms;
    pair.net.buffer = 64;
    pair.run_for(10_000)?;
    for class in Class::ALL {
        assert!(pair.ends[0].rooms.of(class) > told.of(class), "{class}");
        assert_eq!(pair.send(0, class, 100), Ok(()));
    }
    progress(&mut pair)
}

#[test]
fn law_a_channel_that_takes_nothing_holds_no_more_bytes_than_its_bound_s18() -> Result<(), Broken> {
    let mut pair = Pair::opened(5, Net::default(), HONEST)?;
    pair.net.buffer = 0;
    for class in Class::ALL {
        fill(&mut pair, 0, class, QUEUED_MAX, FRAME_MAX_BYTES);
    }
    pair.run_for(10_000)?;
    for class in Class::ALL {
        fill(&mut pair, 0, class, QUEUED_MAX, FRAME_MAX_BYTES);
        let queued_bytes = pair.ends[0].session.status().lanes.of(class).queued_bytes;
        assert!(queued_bytes >= LANE_RESERVE_BYTES, "{class}");
        let full = SendError::LaneFullBytes {
            class,
            queued_bytes,
        };
        assert_eq!(pair.send(0, class, FRAME_MAX_BYTES), Err(full));
    }
    assert_eq!(pair.ends[0].session.held_bytes(), QUEUED_MAX_BYTES as u64);
    let told = pair.ends[0].rooms;
    pair.net.buffer = 64;
    pair.run_for(10_000)?;
    for class in Class::ALL {
        assert!(pair.ends[0].rooms.of(class) > told.of(class), "{class}");
    }
    progress(&mut pair)
}

/// What other links of the node hold leaves every lane its reserve, and one that was refused is told
/// when the node has room.
#[test]
fn law_a_full_node_keeps_no_lane_from_its_reserve() -> Result<(), Broken> {
    let mut pair = Pair::opened(5, Net::default(), HONEST)?;
    pair.net.buffer = 0;
    pair.ends[0].session.spare(0);
    let reserve = LANE_RESERVE_BYTES / FRAME_MAX_BYTES;
    for class in Class::ALL {
        let queued = fill(&mut pair, 0, class, QUEUED_MAX, FRAME_MAX_BYTES);
        assert_eq!(queued, reserve, "{class}");
        let full = Err(SendError::NodeFull { class });
        assert_eq!(pair.send(0, class, FRAME_MAX_BYTES), full);
    }
    assert!(pair.ends[0].session.owes_room());
    assert_eq!(pair.ends[0].session.shared_queued_bytes(), 0);
    pair.ends[0].session.spare(FRAME_MAX_BYTES);
    pair.run_for(10)?;
    assert!(pair.ends[0].rooms.iter().sum::<u64>() > 0);
    assert_eq!(pair.send(0, Class::Control, FRAME_MAX_BYTES), Ok(()));
    pair.net.buffer = 64;
    progress(&mut pair)
}

// Opening and closing.

/// Channels are dialled at times far apart: what came before vanished.
fn late_dials(seed: u64, rules: [Rules; 2]) -> Result<(), Broken> {
    let net = Net {
        dials_ms: 4_000,
        ..Net::default()
    };
    let mut pair = Pair::new(seed, net, rules);
    for class in Class::ALL {
        fill(&mut pair, 0, class, 20, 1_000);
        fill(&mut pair, 1, class, 20, 1_000);
    }
    pair.run_until_open()?;
    progress(&mut pair)
}

#[test]
fn law_what_vanishes_before_a_channel_is_dialled_is_a_hello_sent_again() {
    for_each_seed(|seed| late_dials(seed, HONEST));
}

#[test]
fn a_hello_sent_once_opens_no_link() {
    let once = Rules {
        hello_quick: 0,
        ..Rules::PROTOCOL
    };
    assert_eq!(caught(|seed| late_dials(seed, [once, once])), Some("hello"));
}

/// Everything is queued, then the link is closed at once.
fn close_with_full_queues(seed: u64, closers: &[usize], rules: [Rules; 2]) -> Result<(), Broken> {
    let mut pair = Pair::opened(seed, Net::default(), rules)?;
    for side in 0..2 {
        for class in Class::ALL {
            fill(&mut pair, side, class, 64, 1_000);
        }
    }
    closers.iter().for_each(|&side| pair.close(side));
    pair.run_for(10_000)?;
    for side in 0..2 {
        if !pair.all_came(side) {
            return broken("delivered before close", closed(&pair, 1 - side));
        }
        let clean = match closers.contains(&side) {
            true => CloseReason::Local,
            false => CloseReason::Peer,
        };
        if closed(&pair, side) != Some(&clean) {
            return broken("fin", closed(&pair, side));
        }
    }
    Ok(())
}

#[test]
fn law_what_is_queued_is_delivered_before_a_link_ends() {
    for closers in [&[0][..], &[1], &[0, 1]] {
        for_each_seed(|seed| close_with_full_queues(seed, closers, HONEST));
    }
}

#[test]
fn closing_without_a_fin_loses_what_is_queued() {
    let rude = Rules {
        fin_waits: false,
        ..Rules::PROTOCOL
    };
    let law = caught(|seed| close_with_full_queues(seed, &[0], [rude, rude]));
    assert_eq!(law, Some("delivered before close"));
}

#[test]
fn closing_ends_at_its_deadline_when_a_handler_takes_nothing_s16() -> Result<(), Broken> {
    let mut pair = Pair::opened(5, Net::default(), HONEST)?;
    *pair.ends[1].takes.of_mut(Class::E2e) = Takes::Never;
    // More than the lane's window holds.
    let queued = fill(&mut pair, 0, Class::E2e, 50, BATCH_MAX_BYTES) as u64;
    pair.run_for(1_000)?;
    pair.close(0);
    assert_eq!(pair.send(0, Class::E2e, 100), Err(SendError::Ended));
    pair.run_for(60_000)?;
    let timeout = CloseReason::FinTimeout {
        deadline_ms: 5_000,
        unconfirmed: queued,
    };
    assert_eq!(closed(&pair, 0), Some(&timeout));
    Ok(())
}

#[test]
fn a_handshake_that_nobody_answers_ends_at_its_deadline() -> Result<(), Broken> {
    let mut pair = Pair::new(5, Net::default(), HONEST);
    pair.cut(1);
    pair.run_for(60_000)?;
    let timeout = CloseReason::HandshakeTimeout {
        deadline_ms: 10_000,
        waiting: "control, storage, e2e, application".to_owned(),
    };
    assert_eq!(closed(&pair, 0), Some(&timeout));
    let sent = pair.ends[0].session.status().counters.hellos_sent;
    assert!((4 * 16..=4 * 26).contains(&sent), "{sent}");
    Ok(())
}
