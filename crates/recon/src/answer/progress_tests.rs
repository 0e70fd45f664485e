//! Planners that are broken on purpose, to show that the progress property tells them from the real one. The hooks
//! are compiled into this crate's own unit tests and nowhere else.

use std::cell::Cell;
use std::vec::Vec;

use super::planner::Answer;
use crate::item::{Id, Item};
use crate::limits::Limits;
use crate::pair::{Event, Relay, reconcile};
use crate::set::ItemSet;
use crate::{End, Patience, Report};

#[path = "../../tests/common/progress.rs"]
mod progress;

/// What is wrong with a planner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// It answers its front with its own fingerprint over the same range.
    LeavesFront,
    /// It folds from the front on when the rest does not fit, as it may from any later range.
    FoldsFront,
}

std::thread_local! {
    static BROKEN: Cell<Option<Broken>> = const { Cell::new(None) };
}

/// The hook after the answers were chosen.
pub(super) fn spoil(answers: &mut [Answer]) {
    if BROKEN.get() == Some(Broken::LeavesFront)
        && let Some(front) = answers.iter_mut().find(|answer| **answer != Answer::Skip)
    {
        *front = Answer::Defer;
    }
}

/// The hook where the front is recognised.
pub(super) fn front_is_folded() -> bool {
    BROKEN.get() == Some(Broken::FoldsFront)
}

/// A pair of sets whose plain answers pass the limit below from the second round on.
fn exchange(broken: Option<Broken>) -> (Report, Result<(), [progress::Front; 2]>) {
    let item = |seq: u64| Item {
        seq,
        id: Id(*blake3::hash(&seq.to_be_bytes()).as_bytes()),
    };
    let without = |rest: u64| {
        (1..=6_000)
            .filter(move |seq| seq % 7 != rest)
            .map(item)
            .collect::<ItemSet>()
    };
    let (mut client, mut relay) = (without(1), Relay::over(without(2)));
    let limits = Limits::default().message_bytes(4096);
    let mut said: Vec<Vec<u8>> = Vec::new();
    BROKEN.set(broken);
    let report = reconcile(
        &mut client,
        &mut relay,
        limits,
        limits,
        Patience::default(),
        &mut |event| {
            if let Event::Said(_, payload) = event {
                said.push(payload.to_vec());
            }
        },
    );
    BROKEN.set(None);
    let checked = progress::check(said.iter().map(Vec::as_slice));
    (report.unwrap(), checked)
}

#[test]
fn law_the_progress_property_tells_a_broken_planner_from_the_real_one() {
    let (report, checked) = exchange(None);
    assert_eq!((report.end, checked), (Some(End::Settled), Ok(())));
    assert!(report.planned > 0);
    for broken in [Broken::LeavesFront, Broken::FoldsFront] {
        let (report, checked) = exchange(Some(broken));
        assert!(checked.is_err(), "{broken:?} passed: {:?}", report.end);
        assert!(report.planned > 0);
    }
}
