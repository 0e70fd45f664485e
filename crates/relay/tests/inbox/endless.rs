//! A holder that never ends is left, and the owner gets what the others hold.

use crate::support::*;
use overlane_core::wire::cbor::Writer;
use overlane_recon::{Bound, End, Report};
use overlane_relay::inbox::bounds::{DRAIN_IDLE_MS, DRAIN_PUSHES_MAX, DRAIN_ROUNDS_MAX};
use overlane_relay::inbox::{Drain, DrainEvent};
use overlane_relay::log::{Frame, LogId, Space, Turn};

const LIAR: u8 = 9;
const MAILS: u64 = 12;

/// What the liar says to a question, or unasked, for the so-manieth time.
type Says<'a> = &'a mut dyn FnMut(u64) -> Vec<Vec<u8>>;

fn log() -> LogId {
    LogId::inbox(&did(OWNER))
}

fn answer(payload: &[u8]) -> Vec<u8> {
    let (log, space, turn) = (log(), Space::Shared, Turn::Answer);
    let frame = Frame::Recon {
        log,
        space,
        turn,
        payload,
    };
    frame.to_bytes()
}

fn push(envelope: &[u8]) -> Vec<u8> {
    let frame = Frame::Push {
        log: log(),
        seq: 1,
        envelope,
    };
    frame.to_bytes()
}

/// A cover that agrees with nobody, another one each time.
fn cover(number: u64) -> Vec<u8> {
    let mut cover = Writer::new();
    cover.array(2).uint(1).array(2);
    for upper in [number + 1, u64::MAX] {
        let fingerprint = blake3::hash(&(number ^ upper).to_be_bytes());
        let range = cover.array(3).uint(upper).uint(1);
        range.bytes(fingerprint.as_bytes());
    }
    cover.into_bytes()
}

/// A cover that names a mail, which is then not given.
fn names(number: u64) -> Vec<u8> {
    let mut cover = Writer::new();
    cover.array(2).uint(1).array(1);
    let list = cover.array(3).uint(u64::MAX).uint(2).array(1);
    list.bytes(blake3::hash(&number.to_be_bytes()).as_bytes());
    cover.into_bytes()
}

/// The owner asks two honest holders and the liar at once. What came of the liar, and how often it spoke; the owner
/// has all that the others hold when it is left.
fn drained_beside(says: Says<'_>, most: u64) -> (Report, u64) {
    let mut world = World::of(&[1, 2]);
    for number in 0..MAILS {
        world.deposit(1 + (number % 2) as u8, mail(20, number, T0_MS), 20);
    }
    world.drain.set_holders([1, 2, LIAR].map(did));
    for holder in [1, 2, LIAR] {
        world.drain.start(did(holder), world.now_ms);
    }
    let (mut fetched, mut settled, mut spoke) = (0, 0, 0);
    loop {
        world.settle();
        while let Some(event) = world.drain.poll_event() {
            match event {
                DrainEvent::Fetched(_) => fetched += 1,
                DrainEvent::Drained { from, report } if from == did(LIAR) => {
                    assert_eq!((fetched, settled), (MAILS, 2), "of the others");
                    assert!(!is_asked(&mut world.drain, world.now_ms), "it is left");
                    return (*report, spoke);
                }
                DrainEvent::Drained { report, .. } => {
                    assert_eq!(report.end, Some(End::Settled));
                    settled += 1;
                }
                DrainEvent::Refused { from, .. } => assert_eq!(from, did(LIAR)),
            }
        }
        for frame in says(spoke) {
            spoke += 1;
            assert!(spoke <= most, "it never ends");
            let now_ms = world.now_ms + spoke;
            world.drain.handle_log_frame(did(LIAR), &frame, now_ms);
        }
        world.drain.handle_timeout(world.now_ms + spoke);
    }
}

/// Whether a timeout is due of a holder that is asked.
fn is_asked(drain: &mut Drain, now_ms: u64) -> bool {
    drain.handle_timeout(now_ms);
    drain.poll_timeout().is_some()
}

#[test]
fn mail_a_holder_that_never_ends_is_left_and_the_others_are_drained() {
    let rounds = u64::from(DRAIN_ROUNDS_MAX);
    // It answers each question with another.
    let (report, spoke) = drained_beside(&mut |it| vec![answer(&cover(it))], 2 * rounds);
    assert_eq!(report.end, Some(End::GaveUp(Bound::Rounds)));
    assert_eq!((u64::from(report.rounds), spoke), (rounds, rounds));
    // It always says that there is more, and gives nothing: something else each time, or the same.
    let (report, spoke) = drained_beside(&mut |it| vec![answer(&names(it))], 2 * rounds);
    assert_eq!(report.end, Some(End::GaveUp(Bound::Stalled)));
    assert_eq!((report.missing.len() as u64, spoke < rounds), (spoke, true));
    let (report, again) = drained_beside(&mut |_| vec![answer(&names(0))], 2 * rounds);
    assert_eq!(report.end, Some(End::GaveUp(Bound::Stalled)));
    assert_eq!((report.missing.len(), again), (1, spoke));
    // It gives what is no mail, a hundred at a time, and never answers.
    let nothing = |_| vec![push(b"no mail"); 100];
    let (report, spoke) = drained_beside(&mut { nothing }, 2 * DRAIN_PUSHES_MAX);
    assert_eq!(report.end, Some(End::GaveUp(Bound::Pushes)));
    assert_eq!(report.pushes, DRAIN_PUSHES_MAX + 1);
    assert!(spoke < DRAIN_PUSHES_MAX + 101);
}

/// Mail that came before, once a second, keeps nothing open.
#[test]
fn mail_a_holder_that_gives_the_same_for_ever_is_left_as_one_that_is_silent() {
    let mut world = World::of(&[1]);
    world.deposit(1, mail(20, 1, T0_MS), 20);
    let held = world.at(1).logs().store().clone();
    let envelope = {
        use overlane_relay::log::LogStore;
        let mut held = held;
        let seq = held.entries(&log(), 0, 1).unwrap()[0].seq;
        held.envelope(&log(), seq).unwrap().unwrap()
    };
    let mut drain = Drain::new(did(OWNER), at(T0_MS));
    drain.set_holders([did(LIAR)]);
    drain.start(did(LIAR), T0_MS);
    let mut now_ms = T0_MS;
    let report = loop {
        drain.handle_log_frame(did(LIAR), &push(&envelope), now_ms);
        drain.handle_timeout(now_ms);
        let ended = std::iter::from_fn(|| drain.poll_event()).find_map(|it| match it {
            DrainEvent::Drained { report, .. } => Some(report),
            _ => None,
        });
        if let Some(report) = ended {
            break report;
        }
        now_ms += 1_000;
        assert!(now_ms <= T0_MS + 2 * DRAIN_IDLE_MS, "it never ends");
    };
    assert_eq!(report.end, Some(End::GaveUp(Bound::Idle)));
    assert_eq!((report.received, now_ms), (1, T0_MS + DRAIN_IDLE_MS));
}
