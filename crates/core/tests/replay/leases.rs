//! Lease reuse at every crash point of the engine: enumerated, not sampled.
//!
//! A script is a word over reservations of two streams and the writer's steps. After every prefix of
//! every script, and for every subset of the records of the batch then in flight, the process
//! crashes and starts again; what it hands out then must never have been handed out before.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::StreamKey;
use overlane_core::replay::{
    Batch, LEASE_SEQUENCES, Outcome, RESERVATION_MAX, Refusal, STREAM_CAPACITY,
};

use crate::support::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Letter {
    /// Reserve this many sequences of this stream.
    Reserve(u64, u64),
    TakeBatch,
    /// The batch in flight is durable, and the engine hears so.
    Done,
    /// The batch in flight fails with its first record durable.
    Fail,
}

const ALPHABET: [Letter; 6] = [
    Letter::Reserve(1, 1),
    Letter::Reserve(1, LEASE_SEQUENCES),
    Letter::Reserve(2, 40),
    Letter::TakeBatch,
    Letter::Done,
    Letter::Fail,
];
const LENGTH: u32 = 5;

/// A node, and every sequence that came out of it. What came out may have been signed.
struct Sender {
    node: Node,
    in_flight: Option<Batch>,
    signed: BTreeSet<(StreamKey, u64)>,
}

impl Sender {
    fn new() -> Self {
        Self {
            node: Node::new(),
            in_flight: None,
            signed: BTreeSet::new(),
        }
    }

    fn step(&mut self, letter: Letter) {
        match letter {
            Letter::Reserve(to, count) => {
                let now = self.node.now;
                self.node.engine.stage_reservation(outgoing(to), count, now);
            }
            Letter::TakeBatch => {
                if let Some(batch) = self.node.engine.take_batch() {
                    self.in_flight = Some(batch);
                }
            }
            Letter::Done => {
                if let Some(batch) = self.in_flight.take() {
                    let changes = batch.changes.iter();
                    changes.for_each(|change| self.node.disk.apply(change));
                    self.node.engine.batch_done(batch.id, Ok(())).unwrap();
                }
            }
            Letter::Fail => {
                if let Some(batch) = self.in_flight.take() {
                    self.node.disk.apply(&batch.changes[0]);
                    let failed = Err(io_error());
                    self.node.engine.batch_done(batch.id, failed).unwrap();
                }
            }
        }
        self.sign_all();
    }

    fn sign_all(&mut self) {
        for (_, outcome) in self.node.drain() {
            if let Outcome::Reserved(reservation) = outcome {
                for sequence in reservation.sequences() {
                    let fresh = self.signed.insert((*reservation.stream(), sequence));
                    assert!(fresh, "{sequence} was handed out twice");
                }
            }
        }
    }

    /// Crashes with these records of the batch in flight durable, restarts, and reserves again.
    fn crash(mut self, landed: u32) {
        let batch = self.in_flight.take();
        let changes = batch.iter().flat_map(|batch| &batch.changes);
        for (at, change) in changes.enumerate() {
            if landed >> at & 1 == 1 {
                self.node.disk.apply(change);
            }
        }
        let mut highest = BTreeMap::new();
        for (stream, sequence) in &self.signed {
            highest.insert(*stream, *sequence);
        }
        self.node = self.node.restarted();
        for to in [1, 2] {
            let first = self.node.reserve(outgoing(to), 1).unwrap();
            let fresh = self.signed.insert((outgoing(to), first));
            assert!(fresh, "{first} was handed out again after a restart");
            if let Some(highest) = highest.get(&outgoing(to)) {
                assert!(first > *highest, "a stream went back");
            }
        }
    }
}

#[test]
pub(crate) fn law_lease_no_sequence_is_reused_at_any_crash_point_s10() {
    let mut points = 0u64;
    let scripts = ALPHABET.len().pow(LENGTH);
    for script in 0..scripts {
        let letters =
            (0..LENGTH).map(|at| ALPHABET[script / ALPHABET.len().pow(at) % ALPHABET.len()]);
        let letters: Vec<_> = letters.collect();
        // A prefix is a crash point of every script it starts: visited once.
        let shortest = letters
            .iter()
            .rposition(|it| *it != ALPHABET[0])
            .map_or(0, |at| at + 1);
        for length in shortest.max(1)..=letters.len() {
            let mut landed = 0;
            loop {
                let mut sender = Sender::new();
                letters[..length]
                    .iter()
                    .for_each(|letter| sender.step(*letter));
                let records = sender.in_flight.as_ref().map_or(0, |it| it.changes.len());
                sender.crash(landed);
                points += 1;
                landed += 1;
                if landed >= 1 << records {
                    break;
                }
            }
            if length > shortest {
                break;
            }
        }
    }
    println!("{points} crash points of {scripts} scripts");
    assert!(points > 8_000);
}

#[test]
pub(crate) fn law_lease_one_durable_write_covers_sixty_four_sequences_s11() {
    let mut node = Node::new();
    let first = node.reserve(outgoing(1), 1).unwrap();
    let mut writes = 0;
    for sequence in 1..10 * LEASE_SEQUENCES {
        let count = match faulty(Fault::AWriteASequence) {
            true => LEASE_SEQUENCES,
            false => 1,
        };
        let ticket = node.engine.stage_reservation(outgoing(1), count, node.now);
        while node.write() {
            writes += 1;
        }
        let (answered, outcome) = node.engine.poll_outcome().unwrap();
        assert_eq!(answered, ticket);
        let Outcome::Reserved(reservation) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(reservation.first(), first + sequence);
    }
    assert_eq!(writes, 9, "the first lease was written before");
}

#[test]
fn law_lease_a_restart_leaves_a_gap_of_at_most_one_lease() {
    let mut node = Node::new();
    let mut last = node.reserve(outgoing(1), 1).unwrap();
    for restart in 0..200 {
        for _ in 0..restart % 70 {
            last = node.reserve(outgoing(1), 1).unwrap();
        }
        node = node.restarted();
        let next = node.reserve(outgoing(1), 1).unwrap();
        assert!(next > last && next - last <= LEASE_SEQUENCES);
        last = next;
    }
}

#[test]
fn law_lease_a_cleared_stream_starts_above_all_it_signed() {
    let mut node = Node::new();
    let mut last = 0;
    for _ in 0..1_000 {
        last = node.reserve(outgoing(1), 64).unwrap() + 63;
    }
    node.disk.records.clear();
    node.pass(1);
    let mut node = node.restarted();
    assert!(node.reserve(outgoing(1), 1).unwrap() > last);
}

#[test]
fn the_sender_table_is_bounded_and_no_stream_is_evicted() {
    let mut node = Node::new();
    for to in 0..STREAM_CAPACITY as u64 {
        node.engine.stage_reservation(outgoing(to), 1, node.now);
    }
    node.write();
    assert!(
        node.drain()
            .iter()
            .all(|(_, it)| matches!(it, Outcome::Reserved(_)))
    );
    let stream = outgoing(STREAM_CAPACITY as u64);
    let full = Refusal::SenderStreamsFull { stream };
    assert_eq!(node.reserve(stream, 1), Err(full));
    assert!(node.reserve(outgoing(0), 1).is_ok());
    let line = node
        .engine
        .bounds()
        .find(|it| it.name == "replay_sender_streams");
    assert_eq!(line.unwrap().current, line.unwrap().limit);
    assert_eq!(node.restarted().engine.senders().count(), STREAM_CAPACITY);
}

#[test]
fn reservations_have_a_size_and_a_clock_has_an_end() {
    let mut node = Node::new();
    for count in [0, RESERVATION_MAX + 1] {
        let refusal = node.reserve(outgoing(1), count).unwrap_err();
        assert_eq!(refusal, Refusal::ReservationSize { count });
    }
    assert!(node.reserve(outgoing(1), RESERVATION_MAX).is_ok());
    node.now.wall_ms = u64::MAX / 2;
    let stream = outgoing(2);
    let refusal = node.reserve(stream, 1).unwrap_err();
    assert_eq!(refusal, Refusal::SequencesExhausted { stream });
    assert!(
        node.reserve(outgoing(1), 1).is_ok(),
        "a stream under way goes on"
    );
}
