//! The checker at a size that a test run has time for. `examples/refs_check.rs` walks further.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "shared with the example")]
#[allow(unreachable_pub, reason = "shared with the example")]
mod check;

use check::suite::{BROKEN, Size, honest, hostile};

/// Enough for the test run; the example has no such bound.
const STATES_MAX: usize = 30_000;

#[test]
fn law_no_interleaving_of_honest_nodes_breaks_an_invariant() {
    for case in honest(Size { owner: 3, other: 3 }) {
        let found = (case.run)(&[], STATES_MAX);
        assert!(found.broken.is_none(), "{}: {:#?}", case.name, found.broken);
    }
}

/// Each broken rule is noticed by a small model, which is what shows that the rules that are not
/// broken were looked at.
#[test]
fn law_every_broken_rule_is_noticed() {
    for broken in BROKEN {
        let noticed = broken.look(STATES_MAX);
        assert!(noticed.is_some(), "not noticed: {}", broken.name);
    }
}

/// I16, I19 and I20 against every sequence of two steps, one of which may be any of the hostile
/// frames.
#[test]
fn law_a_hostile_peer_ends_its_own_epoch_and_nothing_else() {
    let found = hostile(2, 60_000);
    assert!(found.broken.is_none(), "{:#?}", found.broken);
    assert!(found.states > 1_000, "{} states", found.states);
}
