//! The window against a model that forgets nothing.

use std::collections::BTreeMap;

use overlane_core::replay::{Introducer, Verdict, WINDOW_SLOTS, Window, observe};
use overlane_core::{Class, TransactionDigest};
use proptest::prelude::*;

use crate::support::*;

fn digest(tag: u8) -> TransactionDigest {
    TransactionDigest([tag; 32])
}

/// Every admission ever made, and the six verdicts read off it.
#[derive(Default)]
struct Naive {
    admitted: BTreeMap<u64, TransactionDigest>,
}

impl Naive {
    fn observe(&mut self, sequence: u64, offered: TransactionDigest) -> Verdict {
        let Some((&high, _)) = self.admitted.last_key_value() else {
            self.admitted.insert(sequence, offered);
            return Verdict::First;
        };
        let lowest = high.saturating_sub(WINDOW_SLOTS as u64 - 1);
        if sequence < lowest {
            return Verdict::Stale { lowest };
        }
        match self.admitted.get(&sequence) {
            Some(&accepted) if accepted == offered => return Verdict::Replay,
            Some(&accepted) => return Verdict::Fork { accepted, offered },
            None => self.admitted.insert(sequence, offered),
        };
        if sequence > high {
            Verdict::Advance {
                gap: sequence - high - 1,
            }
        } else {
            Verdict::Late
        }
    }
}

/// Steps that stay near the window's edges, and some that jump far.
fn steps() -> impl Strategy<Value = (u64, Vec<(i64, u8)>)> {
    let base = prop_oneof![0..40u64, Just(u64::MAX - 20), Just(1 << 61)];
    let offset = prop_oneof![
        8 => -40i64..40,
        2 => prop_oneof![Just(-33i64), Just(-32), Just(-31), Just(31), Just(32), Just(33)],
        1 => -1_000_000i64..1_000_000,
    ];
    (base, prop::collection::vec((offset, 0u8..3), 1..120))
}

proptest! {
    #[test]
    fn law_window_agrees_with_a_model_that_forgets_nothing((base, steps) in steps()) {
        let (mut window, mut naive) = (None, Naive::default());
        let mut sequence = base;
        for (offset, tag) in steps {
            sequence = sequence.saturating_add_signed(offset);
            let expected = naive.observe(sequence, digest(tag));
            prop_assert_eq!(observe(&mut window, sequence, digest(tag)), expected);
            let Some(window) = &window else { continue };
            let held: Vec<_> = window.admitted().collect();
            let model = naive.admitted.range(window.lowest()..).rev();
            prop_assert_eq!(held, model.map(|(s, d)| (*s, *d)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn prop_a_window_is_its_parts((base, steps) in steps()) {
        let mut window = Window::first(base, digest(9));
        for (offset, tag) in steps {
            window.observe(window.high().saturating_add_signed(offset), digest(tag));
            let digests: Vec<_> = window.admitted().map(|(_, digest)| digest).collect();
            let again = Window::from_parts(window.high(), window.occupied(), &digests);
            prop_assert_eq!(again.as_ref(), Ok(&window));
        }
    }

    #[test]
    fn law_window_admits_a_sequence_at_most_once((base, steps) in steps()) {
        let mut window = None;
        let mut admitted = std::collections::BTreeSet::new();
        let mut sequence = base;
        for (offset, tag) in steps {
            sequence = sequence.saturating_add_signed(offset);
            if observe(&mut window, sequence, digest(tag)).admits() {
                prop_assert!(admitted.insert(sequence), "{sequence} was admitted twice");
            }
        }
    }
}

#[test]
fn law_window_refusals_change_nothing() {
    let mut window = Window::first(100, digest(1));
    window.observe(90, digest(2));
    let before = window.clone();
    for (sequence, tag, expected) in [
        (100, 1, "replay"),
        (90, 2, "replay"),
        (100, 3, "fork"),
        (68, 1, "stale"),
        (0, 1, "stale"),
    ] {
        assert_eq!(window.observe(sequence, digest(tag)).name(), expected);
        assert_eq!(window, before);
    }
    assert_eq!(window.observe(69, digest(4)), Verdict::Late);
}

#[test]
fn law_window_moves_past_mail_in_custody_and_it_is_still_the_same_mail_s12() {
    let mut node = Node::new();
    let mails = 2 * WINDOW_SLOTS as u64;
    let offer = |node: &mut Node, sequence, tag| {
        let item = node.item(stream(1), sequence, tag);
        word(&node.admit(item, Introducer::Inbox))
    };
    for sequence in 0..mails {
        assert_eq!(offer(&mut node, sequence, 1), "held");
    }
    // The process ends before the application has taken any of it; its holders offer it again.
    let mut node = node.restarted();
    for sequence in 0..mails {
        assert_eq!(offer(&mut node, sequence, 1), "held");
    }
    assert_eq!(node.engine.custody(), 64);
    assert_eq!(offer(&mut node, 0, 2), "replay/stale");
    assert_eq!(offer(&mut node, mails - 1, 2), "replay/fork");
}

/// How many transactions of a lane are on the way together.
const LANE_WINDOW: usize = 8;

/// Offers bursts of the classes, as the lanes let them through.
fn interleaved(
    bursts: Vec<(usize, usize)>,
    picks: Vec<(usize, usize)>,
) -> Result<(), TestCaseError> {
    let mut node = Node::new();
    let mut lanes: [std::collections::VecDeque<u64>; 4] = Default::default();
    let mut next = [0u64; 4];
    for (lane, count) in bursts {
        for _ in 0..count {
            let counter = match faulty(Fault::OneSequenceForAllClasses) {
                true => 0,
                false => lane,
            };
            lanes[lane].push_back(next[counter]);
            next[counter] += 1;
        }
    }
    for (lane, place) in picks.into_iter().chain((0..2_000).map(|at| (at % 4, 0))) {
        // A lane sends eight, and the next eight once they have arrived.
        let group = |sequence: &u64| sequence / LANE_WINDOW as u64;
        let first = lanes[lane].front().map(group);
        let together = lanes[lane]
            .iter()
            .take(LANE_WINDOW)
            .filter(|it| Some(group(it)) == first);
        let Some(place) = place.checked_rem(together.count()) else {
            continue;
        };
        let Some(sequence) = lanes[lane].remove(place) else {
            continue;
        };
        let class = match faulty(Fault::OneSequenceForAllClasses) {
            true => Class::Application,
            false => Class::ALL[lane],
        };
        let item = node.item(stream_of(1, class), sequence, 1);
        node.offer(item, Introducer::Own);
    }
    while node.write() {}
    for (_, outcome) in node.drain() {
        let answer = word(&outcome);
        prop_assert!(["first", "advance", "late"].contains(&answer), "{answer}");
    }
    prop_assert!(lanes.iter().all(std::collections::VecDeque::is_empty));
    Ok(())
}

/// A backlog, and a burst of another class that overtakes it.
pub(crate) fn a_backlog_is_overtaken() {
    let control_first = std::iter::repeat_n((1, 0), 40).collect();
    interleaved(vec![(0, 40), (1, 40)], control_first).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Bursts of every class, one class's backlog overtaken by the others' as far as they like, and
    /// within a lane what was in flight together arriving in any order.
    #[test]
    fn law_window_no_interleaving_of_classes_makes_a_transaction_stale_s01(
        bursts in prop::collection::vec((0..4usize, 1..80usize), 1..6),
        picks in prop::collection::vec((0..4usize, 0..LANE_WINDOW), 1..300),
    ) {
        interleaved(bursts, picks)?;
    }
}
