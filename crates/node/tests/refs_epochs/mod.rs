//! Epochs of two nodes: begun when a store was lost or put back, once, and not again and again.

use overlane_core::wire::cbor::Writer;
use overlane_node::peer::refs::{Ask, EPOCH_PAUSE_MS, ReferenceError, Reply};
use overlane_relay::refs::Limits;
use overlane_relay::refs::wire::{Body, Epoch, Outcome, Reason};

use crate::SECRET;
use crate::refs_net::{Net, broken, did, promise, said};

#[test]
fn law_a_node_that_lost_its_store_begins_a_later_epoch_and_the_other_is_told() {
    let mut net = Net::new(2, 0);
    net.share(0, SECRET);
    let before = net.give(0, 1, SECRET);
    net.unlink(0, 1);
    net.ends[1].rows.clear();
    net.restart(1);
    net.pass_to(5_000);
    net.link(0, 1);
    let after = net.give(0, 1, SECRET);
    assert_eq!(net.ends_told(0), ["refs/other_epoch"]);
    let calls = net.call(1, after, b"anew", &[]);
    net.quiet(1_000);
    assert_eq!(
        net.became(1, calls),
        Some(Outcome::Data(Body::data(b"anew")))
    );
    let _ = before;
    // The owner of what is shared lost its store: who holds it is told when it calls.
    net.unlink(0, 1);
    net.ends[0].rows.clear();
    net.restart(0);
    net.link(0, 1);
    let lost = net.call(1, after, b"nobody", &[]);
    net.quiet(10_000);
    assert_eq!(net.ends_told(1), ["refs/peer_closed"]);
    assert_eq!(
        said(net.state(1, after)),
        Some((Reason::DISCONNECTED.0, String::new()))
    );
    let outcome = net.became(1, lost).unwrap();
    assert_eq!(broken(&outcome).unwrap().0, Reason::DISCONNECTED.0);
}

#[test]
fn law_a_store_put_back_to_an_earlier_state_is_noticed_and_named() {
    let mut net = Net::new(2, 0);
    net.share(0, SECRET);
    let target = net.give(0, 1, SECRET);
    let Ok(Reply::Kept(_)) = net.asked(
        1,
        Ask::Keep {
            local: target,
            note: Vec::new(),
        },
    ) else {
        panic!("it is kept");
    };
    let backup = net.ends[1].rows.clone();
    net.call(1, target, b"forgotten", &[]);
    net.quiet(1_000);
    net.unlink(0, 1);
    net.ends[1].rows = backup;
    net.restart(1);
    net.link(0, 1);
    net.quiet(1_000);
    assert_eq!(net.ends_told(0), ["refs/peer_rolled_back"]);
    let told = net.ends_told(1);
    assert!(
        told == ["refs/we_rolled_back"] || told == ["refs/peer_closed"],
        "{told:?}"
    );
}

#[test]
fn law_two_that_ask_at_once_begin_one_epoch() {
    for seed in 0..16 {
        let mut net = Net::new(2, seed);
        net.share(0, SECRET);
        net.share(1, [8; 32]);
        (net.reorders, net.loses) = (true, 30);
        let one = net.ask(0, Ask::Redeem(did(1), [8; 32]));
        let later_ms = net.random.below(3);
        net.pass_to(later_ms);
        let other = net.ask(1, Ask::Redeem(did(0), SECRET));
        net.quiet(10_000);
        net.loses = 0;
        net.quiet(10_000);
        for (at, id) in [(0, one), (1, other)] {
            let promise = promise(net.answer(at, id).unwrap());
            let became = net.became(at, promise);
            assert!(
                matches!(became, Some(Outcome::Reference(_))),
                "seed {seed}: {became:?}"
            );
        }
        assert_eq!(
            net.ends_told(0).len() + net.ends_told(1).len(),
            0,
            "seed {seed}"
        );
    }
}

#[test]
fn law_epoch_pause_a_node_that_begins_again_and_again_makes_no_more_work() {
    let mut net = Net::new(2, 0);
    let begin = |epoch: u64| {
        let mut writer = Writer::new();
        writer
            .array(3)
            .uint(0)
            .value(&Epoch(epoch))
            .value(&Limits::default());
        writer.into_bytes()
    };
    for epoch in 1..=50 {
        net.inject(1, 0, &begin(epoch));
    }
    net.ends[1].rows.clear();
    assert_eq!(net.ends[0].refs.counters().begins, 1);
    assert_eq!(net.ends[0].refs.counters().refused_begins, 49);
    // The last number there is leaves none for another: nothing overflows.
    net.pass_to(EPOCH_PAUSE_MS);
    net.inject(1, 0, &begin(u64::MAX));
    assert_eq!(net.ends[0].refs.counters().begins, 2);
    net.inject(1, 0, b"\xff");
    let id = net.ask(0, Ask::Redeem(did(1), SECRET));
    net.settle();
    let refused = net.answer(0, id).unwrap().unwrap_err();
    assert!(
        matches!(refused, ReferenceError::NoAnswer { .. }),
        "{refused:?}"
    );
}
