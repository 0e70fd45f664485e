//! The engine against a naive model that copies everything before each batch.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::replay::record::{FloorRecord, ReceiverRecord, SenderRecord};
use overlane_core::replay::{
    Bucket, Candidate, Introducer, LEASE_SEQUENCES, Outcome, Slot, Ticket, WINDOW_SLOTS,
};
use overlane_core::store::StoreError;
use overlane_core::{Class, StreamKey};
use proptest::prelude::*;

use crate::support::*;

/// One thing that happens to a node.
#[derive(Debug, Clone)]
enum Step {
    /// A transaction of one of four streams, this far from the stream's highest, of one of two
    /// tags, out of the inbox or over the connection.
    Offer(u64, i64, u8, bool),
    /// The application takes a mail it was given.
    Take,
    Reserve(u64, u64),
    TakeBatch,
    Written,
    /// The batch in flight fails before anything is written.
    RefusedBefore,
    /// The caller of one pending call goes away.
    Abandon(prop::sample::Index),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let offer = (0..4u64, -34i64..6, 0..2u8, prop::bool::weighted(0.2));
    prop_oneof![
        8 => offer.prop_map(|(origin, offset, tag, mail)| Step::Offer(origin, offset, tag, mail)),
        1 => Just(Step::Take),
        3 => (0..3u64, prop_oneof![4 => Just(1u64), 1 => 2..200u64])
            .prop_map(|(stream, count)| Step::Reserve(stream, count)),
        3 => Just(Step::TakeBatch),
        3 => Just(Step::Written),
        1 => Just(Step::RefusedBefore),
        1 => any::<prop::sample::Index>().prop_map(Step::Abandon),
        1 => (1..40_000u64).prop_map(Step::Pass),
    ]
}

/// What each call should answer, from histories that forget nothing.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    admitted: BTreeMap<StreamKey, BTreeMap<u64, u8>>,
    custody: BTreeSet<(StreamKey, u64)>,
    next: BTreeMap<StreamKey, (u64, u64)>,
}

impl Model {
    fn offer(&mut self, item: &Item, mail: bool) -> &'static str {
        let history = self.admitted.entry(item.stream).or_default();
        let high = history.last_key_value().map(|(sequence, _)| *sequence);
        let held = self.custody.contains(&(item.stream, item.sequence));
        if held && history.get(&item.sequence) == Some(&item.tag) {
            return "held";
        }
        let verdict = match (high, history.get(&item.sequence)) {
            (None, _) => "first",
            (Some(high), _) if item.sequence + WINDOW_SLOTS as u64 <= high => {
                return "replay/stale";
            }
            (_, Some(tag)) if *tag == item.tag => return "replay/replay",
            (_, Some(_)) => return "replay/fork",
            (Some(high), None) if item.sequence > high => "advance",
            (Some(_), None) => "late",
        };
        history.insert(item.sequence, item.tag);
        if mail {
            self.custody.insert((item.stream, item.sequence));
            return "held";
        }
        verdict
    }

    fn reserve(&mut self, stream: StreamKey, count: u64, start: u64) -> &'static str {
        let (next, end) = self.next.entry(stream).or_insert((start, start));
        if *next + count > *end {
            *end = (*next + count).max(*next + LEASE_SEQUENCES);
        }
        *next += count;
        "reserved"
    }
}

/// Everything a node shows of its state.
#[derive(Debug, PartialEq)]
struct View {
    receivers: Vec<ReceiverRecord>,
    senders: Vec<(SenderRecord, Option<u64>)>,
    floor: FloorRecord,
    custody: usize,
    charged: Vec<usize>,
    quota: Vec<Option<Bucket>>,
}

fn view(node: &Node, slot: Slot) -> View {
    let engine = &node.engine;
    let introducers = [Introducer::Slot(slot), Introducer::Inbox, Introducer::Own];
    let senders = engine.senders();
    View {
        receivers: engine.receivers().cloned().collect(),
        senders: senders
            .map(|it| (it.clone(), engine.next_sequence(&it.stream)))
            .collect(),
        floor: *engine.floor(),
        custody: engine.custody(),
        charged: introducers.map(|it| engine.charged(it)).to_vec(),
        quota: (0..4).map(|it| engine.quota(&stream(it))).collect(),
    }
}

/// A call that waits, and how many batches were done since it was made.
struct Call {
    ticket: Ticket,
    expected: &'static str,
    batches: u32,
}

struct Run {
    node: Node,
    slot: Slot,
    model: Model,
    /// The state to which a failure goes back, and the model's: as of the start of the batch in
    /// flight, or of the open one where none is.
    base: (View, Model),
    /// As of the start of the open batch, while one is in flight.
    open: Option<(View, Model)>,
    in_flight: Option<overlane_core::replay::Batch>,
    calls: Vec<Call>,
    abandoned: BTreeSet<Ticket>,
    mails: Vec<overlane_core::replay::Custodial<Item>>,
    dispatched: BTreeSet<(StreamKey, u64)>,
}

impl Run {
    fn new() -> Self {
        let mut node = Node::new();
        let slot = node.engine.claim_slot(did(99)).unwrap();
        let base = (view(&node, slot), Model::default());
        Self {
            node,
            slot,
            model: Model::default(),
            base,
            open: None,
            in_flight: None,
            calls: Vec::new(),
            abandoned: BTreeSet::new(),
            mails: Vec::new(),
            dispatched: BTreeSet::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Offer(origin, offset, tag, mail) => {
                let stream = stream(origin);
                let history = self.model.admitted.get(&stream);
                let high = history.and_then(|it| it.last_key_value());
                let high = high.map_or(1_000, |(sequence, _)| *sequence);
                let sequence = high.saturating_add_signed(offset);
                let item = self.node.item(stream, sequence, tag);
                let introducer = if mail {
                    Introducer::Inbox
                } else {
                    Introducer::Slot(self.slot)
                };
                let full = mail && self.node.engine.custody() >= 64;
                let expected = self.model.offer(&item, mail && !full);
                assert!(!full, "the steps are too few to fill custody");
                let ticket = self.node.offer(item, introducer);
                self.called(ticket, expected);
            }
            Step::Take => {
                let Some(mail) = self.mails.pop() else { return };
                let place = (mail.item().stream, mail.item().sequence);
                let expected = if self.model.custody.remove(&place) {
                    mail.verdict().name()
                } else {
                    "replay/not_in_custody"
                };
                let ticket = self.node.engine.stage_take(mail, self.node.now);
                self.called(ticket, expected);
            }
            Step::Reserve(destination, count) => {
                let stream = outgoing(destination);
                let start = self.node.now.wall_ms << 20;
                let expected = self.model.reserve(stream, count, start);
                let now = self.node.now;
                let ticket = self.node.engine.stage_reservation(stream, count, now);
                self.called(ticket, expected);
                let next = self.node.engine.next_sequence(&stream);
                assert_eq!(next, self.model.next.get(&stream).map(|it| it.0));
            }
            Step::TakeBatch => {
                let Some(batch) = self.node.engine.take_batch() else {
                    return;
                };
                assert!(self.in_flight.is_none());
                self.in_flight = Some(batch);
                self.open = Some((view(&self.node, self.slot), self.model.clone()));
            }
            Step::Written => {
                let Some(batch) = self.in_flight.take() else {
                    return;
                };
                let changes = batch.changes.iter();
                changes.for_each(|change| self.node.disk.apply(change));
                self.node.engine.batch_done(batch.id, Ok(())).unwrap();
                self.base = self.open.take().unwrap();
                self.calls.iter_mut().for_each(|call| call.batches += 1);
            }
            Step::RefusedBefore => self.refused(),
            Step::Abandon(index) => {
                if !self.calls.is_empty() {
                    let call = index.get(&self.calls);
                    self.node.engine.abandon(call.ticket);
                    self.abandoned.insert(call.ticket);
                }
            }
            Step::Pass(ms) => self.node.pass(ms),
        }
        self.answers();
        if self.node.engine.pending() == 0 {
            self.base = (view(&self.node, self.slot), self.model.clone());
        }
    }

    fn called(&mut self, ticket: Ticket, expected: &'static str) {
        self.calls.push(Call {
            ticket,
            expected,
            batches: 0,
        });
    }

    fn refused(&mut self) {
        let Some(batch) = self.in_flight.take() else {
            return;
        };
        let failures = self.node.engine.counters().persistence_failure;
        let refusal = StoreError::BudgetExhausted {
            budget_bytes: 0,
            needed_bytes: 1,
        };
        self.node.engine.batch_done(batch.id, Err(refusal)).unwrap();
        let counted = self.node.engine.counters().persistence_failure;
        assert_eq!(counted, failures + 1, "a failed batch counts once");
        self.open = None;
        self.model = self.base.1.clone();
        assert_eq!(view(&self.node, self.slot), self.base.0, "undo is exact");
        self.calls
            .iter_mut()
            .for_each(|call| call.expected = "replay/store_failed");
    }

    /// Every answer comes in order, is the model's, and came within two batches.
    fn answers(&mut self) {
        for (ticket, outcome) in self.node.drain() {
            assert!(!self.abandoned.contains(&ticket));
            while self.calls[0].ticket != ticket {
                let skipped = self.calls.remove(0).ticket;
                assert!(self.abandoned.contains(&skipped), "answers are in order");
            }
            let call = self.calls.remove(0);
            assert_eq!(word(&outcome), call.expected);
            assert!(call.batches <= 2, "a transition waited for a third batch");
            match outcome {
                Outcome::InCustody(mail) => self.mails.push(mail),
                Outcome::Admitted(admitted) => {
                    let item = admitted.into_item();
                    let once = self.dispatched.insert((item.stream(), item.sequence));
                    assert!(once, "{} was dispatched twice", item.sequence);
                }
                _ => {}
            }
        }
        if self.node.engine.pending() == 0 {
            assert!(
                self.calls
                    .iter()
                    .all(|it| self.abandoned.contains(&it.ticket))
            );
            self.calls.clear();
        }
    }
}

proptest! {
    #[test]
    fn law_fail_closed_undo_is_exact_and_law_latency_two_batches(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
        }
        // What is durable at the end is what a restart finds.
        while run.node.engine.pending() > 0 {
            run.step(&Step::TakeBatch);
            run.step(&Step::Written);
        }
        let shown: Vec<_> = run.node.engine.receivers().cloned().collect();
        let node = run.node.restarted();
        prop_assert_eq!(node.engine.receivers().cloned().collect::<Vec<_>>(), shown);
        for record in node.engine.senders() {
            prop_assert_eq!(node.engine.next_sequence(&record.stream), Some(record.end));
        }
        prop_assert!(node.engine.receivers().all(|it| it.stream.class == Class::Application));
    }
}
