//! Less of a log is kept than there is.

use crate::support::*;
use overlane_relay::log::bounds::EVICTED_PER_CALL;
use overlane_relay::log::{Entry, LogStore, Mutant};

/// A host's log of three parts of posts, each by the author of its number.
fn filled(mutant: Option<Mutant>, author: impl Fn(u64) -> u8) -> Node {
    let mut host = node(Plain::of(&[1, 2], &[9]));
    if let Some(mutant) = mutant {
        host.break_rule(mutant);
    }
    for number in 0..3 * EVICTED_PER_CALL as u64 {
        if host.is_full() {
            host.flush(NOW_MS).unwrap();
        }
        let author = author(number);
        let post = envelope(author, number);
        host.post(LOG, post, peer(author), NOW_MS).unwrap();
    }
    host.flush(NOW_MS).unwrap();
    host
}

/// A log of two authors, one of whom wrote most, of which ten are kept from now on. What is left, and of whom; or how
/// the member's post that came then was answered.
fn trimmed(mutant: Option<Mutant>) -> Result<Vec<u8>, String> {
    let mut host = filled(mutant, |number| if number % 100 == 0 { 1 } else { 2 });
    host.rules().retention.entries = 10;
    loop {
        let before = host.size(&LOG).unwrap().0;
        let more = host.trim(&LOG).unwrap();
        let after = host.size(&LOG).unwrap().0;
        assert!(
            before - after <= EVICTED_PER_CALL as u64,
            "a part at a time"
        );
        host.flush(NOW_MS).unwrap();
        if !more {
            break;
        }
    }
    send(&mut host, 1, &envelope(1, 100_000));
    host.flush(NOW_MS).unwrap();
    let told = words(&owed(&mut host)).pop().unwrap();
    if !told.starts_with("ack") {
        return Err(told);
    }
    let entries = host.store().entries(&LOG, 0, 100).unwrap();
    let author = |it: &Entry| if it.author == did(1) { 1 } else { 2 };
    Ok(entries.iter().map(author).collect())
}

#[test]
fn law_a_log_of_which_less_is_kept_lets_go_of_the_rest_by_itself() {
    let left = trimmed(None).unwrap();
    let of_one = left.iter().filter(|it| **it == 1).count();
    assert_eq!(
        (left.len(), of_one),
        (10, 5),
        "whoever has most gives: {left:?}"
    );
    assert_eq!(trimmed(Some(Mutant::TrimNothing)).unwrap_err(), "log/busy");
}

/// The most reads of the store in one call that trims.
fn reads_to_trim(mutant: Option<Mutant>) -> u64 {
    // Both have most in turn.
    let mut host = filled(mutant, |number| 1 + (number % 2) as u8);
    host.rules().retention.entries = 10;
    let (mut most, mut left) = (0, Vec::new());
    loop {
        let before = host.store().reads;
        let more = host.trim(&LOG).unwrap();
        most = most.max(host.store().reads - before);
        host.flush(NOW_MS).unwrap();
        if !more {
            break;
        }
    }
    let entries = host.store().entries(&LOG, 0, 100).unwrap();
    left.extend(entries.iter().map(|it| it.seq));
    // The newest stay, each author's.
    let newest = 3 * EVICTED_PER_CALL as u64;
    assert!(left.iter().copied().eq(newest - 9..=newest), "{left:?}");
    most
}

#[test]
fn law_logs_a_part_that_is_trimmed_reads_a_page_once() {
    let (reads, each) = (
        reads_to_trim(None),
        reads_to_trim(Some(Mutant::ReadForEach)),
    );
    println!("{reads} reads of the store a part, {each} where each envelope reads anew");
    assert!(each >= EVICTED_PER_CALL as u64);
    assert!(reads + EVICTED_PER_CALL as u64 - 8 <= each, "{reads}");
}
