//! Laws of a node's references, on virtual time.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod refs_bounds;
mod refs_epochs;
mod refs_net;

use overlane_core::Did;
use overlane_node::peer::refs::{
    ASK_WITHIN_MS, Ask, EPOCH_PAUSE_MS, ReferenceError, Reply, WAITING_MAX,
};
use overlane_relay::refs::SendError;
use overlane_relay::refs::table::Local;
use overlane_relay::refs::wire::{Body, Hardness, Outcome, Reason};
use refs_net::{Net, broken, did, handle, object, said, send};

const SECRET: [u8; 32] = [7; 32];

/// How many seeds the storms run; `REFS_SEEDS` says another number for a longer run.
fn seeds() -> u64 {
    let asked = std::env::var("REFS_SEEDS").ok();
    asked.map_or(24, |seeds| seeds.parse().expect("a number"))
}

/// Echoed calls of one node to another, numbered, while the network does its worst; and what came
/// of it, once it does no more.
fn calls_over(mut net: Net, calls: u32, mut harm: impl FnMut(&mut Net, u32)) {
    let (_, token) = net.share(0, SECRET);
    let target = net.give(0, 1, SECRET);
    let Ok(Reply::Kept(kept)) = net.asked(
        1,
        Ask::Keep {
            local: target,
            note: Vec::new(),
        },
    ) else {
        panic!("it is kept");
    };
    (net.loses, net.repeats, net.reorders) = (20, 20, true);
    let mut durable = Vec::new();
    let mut asked = Vec::new();
    for number in 0..calls {
        let id = net.ask(1, send(target, &number.to_be_bytes(), &[]));
        asked.push((number, id));
        for _ in 0..net.random.below(12) {
            net.step();
        }
        let life = net.ends[1].refs.counters().commits;
        for (number, id) in std::mem::take(&mut asked) {
            match net.answer(1, id) {
                Some(Ok(Reply::Promise(promise))) => durable.push((number, promise)),
                Some(Err(ReferenceError::Tables(SendError::WindowFull(_)))) => {}
                Some(other) => panic!("{other:?}"),
                None => asked.push((number, id)),
            }
        }
        harm(&mut net, number);
        if net.ends[1].refs.counters().commits < life {
            // Another life: what was not durable was never promised.
            asked.clear();
        }
        if net.ends[0].refs.exports() == 0 {
            net.ask(0, Ask::Attach(token));
        }
        if number % 16 == 0 {
            net.pass_to(net.now_ms + 100);
        }
    }
    (net.loses, net.repeats, net.reorders) = (0, 0, false);
    net.quiet(30_000);
    let ends = (net.ends_told(0), net.ends_told(1));
    assert!(
        ends.0.is_empty() && ends.1.is_empty(),
        "honest nodes: {ends:?}"
    );
    let given: Vec<u32> = net.ends[0]
        .order
        .iter()
        .map(|id| u32::from_be_bytes(net.ends[0].given[id][..].try_into().unwrap()))
        .collect();
    assert!(
        given.is_sorted_by(|one, next| one < next),
        "once each, in order: {given:?}"
    );
    for (number, promise) in &durable {
        assert!(
            given.contains(number),
            "call {number} was promised, and lost"
        );
        if let Some(outcome) = net.became(1, *promise) {
            let echo = Body::data(&number.to_be_bytes());
            assert_eq!(outcome, Outcome::Data(echo), "the answer to {number}");
        }
    }
    assert!(
        durable.len() >= calls as usize / 4,
        "{} of {calls}",
        durable.len()
    );
    assert!(net.ends[0].calls.is_empty() && net.ends[0].refs.open_calls() == 0);
    // The reference still works, and nothing waits.
    let last = net.call(1, target, b"last", &[]);
    net.quiet(20_000);
    assert_eq!(
        net.became(1, last),
        Some(Outcome::Data(Body::data(b"last")))
    );
    for end in &net.ends {
        end.assert_at_rest();
    }
    assert_eq!(net.asked(1, Ask::Forget(kept)), Ok(Reply::Done));
}

#[test]
fn law_calls_arrive_once_and_in_order_over_a_network_that_loses_repeats_and_reorders() {
    for seed in 0..seeds() {
        println!("seed {seed}");
        calls_over(Net::new(2, seed), 120, |_, _| {});
    }
}

/// Either node is killed at any instant between receiving, committing and saying; the commit on its
/// way lands or does not.
#[test]
fn crash_of_either_node_loses_no_call_that_was_promised_and_repeats_none_under_another_name() {
    for seed in 0..seeds() {
        println!("seed {seed}");
        calls_over(Net::new(2, 1_000 + seed), 120, |net, _| {
            if net.random.below(6) == 0 {
                let at = usize::try_from(net.random.below(2)).unwrap();
                let lands = net.random.below(2) == 0;
                net.crash(at, lands);
            }
        });
    }
}

#[test]
fn law_durable_first_nothing_is_said_told_or_given_before_the_commit() {
    let mut net = Net::new(2, 0);
    net.share(0, SECRET);
    let target = net.give(0, 1, SECRET);
    // The caller's side: neither an answer nor a word before its commit.
    let id = net.ask(1, send(target, b"one", &[]));
    assert!(net.answer(1, id).is_none() && net.under_way.is_empty());
    net.commit(1);
    assert!(net.answer(1, id).is_some() && net.under_way.len() == 1);
    // The other side: the call is not given, and its place not freed, before its own.
    let (taken, calls) = (net.ends[0].taken, net.ends[0].calls.len());
    let (_, _, _, body) = net.under_way.remove(0);
    net.inject(1, 0, &body);
    assert_eq!((net.ends[0].taken, net.ends[0].calls.len()), (taken, calls));
    net.commit(0);
    assert_eq!(
        (net.ends[0].taken, net.ends[0].calls.len()),
        (taken + 1, calls + 1)
    );
}

#[test]
fn law_fails_closed_after_a_failed_commit_nothing_is_said_and_all_is_refused() {
    let mut net = Net::new(2, 0);
    net.share(0, SECRET);
    let target = net.give(0, 1, SECRET);
    let waiting = net.ask(1, send(target, b"one", &[]));
    let commit = net.ends[1].committing.take().unwrap();
    let second = net.ask(1, send(target, b"two", &[]));
    net.ends[1]
        .refs
        .handle_committed(commit.id, Err("the disk is full".to_owned()));
    net.drain(1);
    for id in [waiting, second] {
        let refused = net.answer(1, id).unwrap().unwrap_err();
        assert!(
            matches!(refused, ReferenceError::StoreFailed { .. }),
            "{refused:?}"
        );
    }
    let after = net.ask(1, Ask::Export);
    let refused = net.answer(1, after).unwrap().unwrap_err();
    assert!(refused.to_string().contains("the disk is full"));
    let taken = net.ends[1].taken;
    net.inject(0, 1, b"\x80");
    assert_eq!(net.ends[1].taken, taken + 1, "its place is free");
    assert!(net.under_way.is_empty() && net.ends[1].committing.is_none());
    assert_eq!(net.ends[1].refs.poll_timeout(), None);
    // Started again on what was durable, everything goes on.
    net.restart(1);
    net.unlink(0, 1);
    net.link(0, 1);
    net.settle();
    assert_eq!(
        net.ends[0].order.len(),
        0,
        "what was not durable was not sent"
    );
    let outcome = net.redeem(1, 0, SECRET);
    assert!(matches!(outcome, Outcome::Reference(_)), "{outcome:?}");
}

#[test]
fn law_a_kept_reference_survives_restarts_of_both_and_one_that_is_not_kept_is_let_go_of() {
    let mut net = Net::new(2, 0);
    let (_, token) = net.share(0, SECRET);
    let target = net.give(0, 1, SECRET);
    let Ok(Reply::Kept(kept)) = net.asked(
        1,
        Ask::Keep {
            local: target,
            note: b"n".to_vec(),
        },
    ) else {
        panic!("it is kept");
    };
    net.crash(0, true);
    net.crash(1, true);
    net.settle();
    // Nobody answers yet: the call waits for its service, over one more restart.
    let back = handle(net.asked(1, Ask::Restore(kept)));
    assert_eq!(back, target, "it is itself");
    let waits = net.call(1, back, b"hello", &[]);
    net.quiet(1_000);
    assert_eq!(net.became(1, waits), None);
    net.crash(0, true);
    net.quiet(1_000);
    handle(net.asked(0, Ask::Attach(token)));
    net.quiet(1_000);
    assert_eq!(
        net.became(1, waits),
        Some(Outcome::Data(Body::data(b"hello")))
    );
    // Not kept any more and the process gone: the owner hears of it.
    assert_eq!(net.asked(1, Ask::Forget(kept)), Ok(Reply::Done));
    net.crash(1, true);
    net.quiet(1_000);
    let holders: Vec<_> = net.ends[0].refs.kept().map(|kept| kept.holders).collect();
    assert_eq!(holders, [Vec::<Did>::new()]);
    assert_eq!(net.asked(0, Ask::Forget(token)), Ok(Reply::Done));
    let outcome = net.redeem(1, 0, SECRET);
    assert_eq!(
        broken(&outcome),
        Some((Reason::UNKNOWN_TICKET.0, String::new()))
    );
}

#[test]
fn law_a_service_that_ended_with_its_process_is_taken_back() {
    let mut net = Net::new(2, 0);
    net.share(0, SECRET);
    let here = net.give(0, 1, SECRET);
    // An object that nobody keeps, given in an answer.
    net.ends[0].echoes = false;
    let asked = net.call(1, here, b"give me one", &[]);
    let passing = net.export(0);
    let call = net.ends[0].calls.remove(0);
    let outcome = Outcome::Reference(passing);
    assert_eq!(
        net.asked(
            0,
            Ask::Answer {
                call: call.id,
                outcome
            }
        ),
        Ok(Reply::Done)
    );
    let Some(Outcome::Reference(given)) = net.became(1, asked) else {
        panic!("it is given");
    };
    // And a call that it has taken when its process ends.
    let open = net.call(1, given.local, b"are you there", &[]);
    assert_eq!(net.ends[0].calls.len(), 1);
    net.crash(0, true);
    net.quiet(1_000);
    let ended = (
        Reason::SERVICE_ENDED.0,
        "the program that offered it ended".to_owned(),
    );
    assert_eq!(said(net.state(1, given.local)), Some(ended.clone()));
    assert_eq!(net.became(1, open).as_ref().and_then(broken), Some(ended));
    assert_eq!(net.state(1, here), None, "what is kept is not");
}

#[test]
fn law_revoked_by_its_owner_every_holder_hears_why_also_one_that_was_away_and_one_that_comes_later()
{
    for hardness in [Hardness::Soft, Hardness::Hard] {
        let mut net = Net::new(3, 0);
        let (local, _) = net.share(0, SECRET);
        let held = net.give(0, 1, SECRET);
        let Ok(Reply::Kept(kept)) = net.asked(
            1,
            Ask::Keep {
                local: held,
                note: Vec::new(),
            },
        ) else {
            panic!("it is kept");
        };
        net.unlink(0, 1);
        let crossed = net.call(1, held, b"crosses it", &[]);
        let why = (Reason::FIRST_FREE.0, "plan expired".to_owned());
        let revoke = Ask::Revoke {
            object: object(local),
            hardness,
            reason: Reason::FIRST_FREE,
            text: "plan expired".to_owned(),
        };
        assert_eq!(net.asked(0, revoke), Ok(Reply::Done));
        assert_eq!(said(net.state(0, local)), Some(why.clone()));
        net.quiet(1_000);
        assert_eq!(net.state(1, held), None, "it is away");
        net.crash(0, true);
        net.link(0, 1);
        net.quiet(10_000);
        assert_eq!(said(net.state(1, held)), Some(why.clone()));
        assert_eq!(
            net.became(1, crossed).as_ref().and_then(broken),
            Some(why.clone())
        );
        // It is still so after a restart of the holder, and in answer to a call.
        net.crash(1, true);
        net.quiet(1_000);
        let state = net.ends[1].refs.kept().next().unwrap().state;
        assert_eq!(said(Some(state)), Some(why.clone()));
        let Ok(Reply::Handle(back)) = net.asked(1, Ask::Restore(kept)) else {
            panic!("it is restored");
        };
        let later = net.call(1, back.local, b"later", &[]);
        net.quiet(1_000);
        assert_eq!(
            net.became(1, later).as_ref().and_then(broken),
            Some(why.clone())
        );
        // Who comes later with the ticket hears it, too.
        assert_eq!(broken(&net.redeem(2, 0, SECRET)), Some(why));
    }
}

#[test]
fn law_passed_on_a_reference_is_called_through_who_passed_it_and_its_end_goes_the_same_way() {
    let mut net = Net::new(3, 0);
    // Node 0 and node 2 never speak: node 1 is between them.
    net.unlink(0, 2);
    let (origin, _) = net.share(0, SECRET);
    let (_, _) = net.share(1, [8; 32]);
    let at_one = net.give(0, 1, SECRET);
    let one_at_two = net.give(1, 2, [8; 32]);
    net.ends[1].echoes = false;
    let asked = net.call(2, one_at_two, b"pass it on", &[]);
    let call = net.ends[1].calls.remove(0);
    let outcome = Outcome::Reference(at_one);
    assert_eq!(
        net.asked(
            1,
            Ask::Answer {
                call: call.id,
                outcome
            }
        ),
        Ok(Reply::Done)
    );
    let Some(Outcome::Reference(at_two)) = net.became(2, asked) else {
        panic!("it is passed on");
    };
    let calls = net.call(2, at_two.local, b"from afar", &[]);
    net.quiet(1_000);
    assert_eq!(
        net.became(2, calls),
        Some(Outcome::Data(Body::data(b"from afar")))
    );
    assert_eq!(net.ends[0].order.len(), 1);
    // Its node between lets go of it; it is not dropped, for the third holds it.
    let now = net.now();
    net.ends[1].refs.let_go_of(at_one, 1, now);
    net.drain(1);
    net.quiet(1_000);
    let again = net.call(2, at_two.local, b"again", &[]);
    net.quiet(1_000);
    assert_eq!(
        net.became(2, again),
        Some(Outcome::Data(Body::data(b"again")))
    );
    let revoke = Ask::Revoke {
        object: object(origin),
        hardness: Hardness::Soft,
        reason: Reason(300),
        text: "no more".to_owned(),
    };
    assert_eq!(net.asked(0, revoke), Ok(Reply::Done));
    net.quiet(1_000);
    assert_eq!(
        said(net.state(2, at_two.local)),
        Some((300, "no more".to_owned()))
    );
}

#[test]
fn law_a_promise_is_called_before_it_is_known() {
    let mut net = Net::new(2, 0);
    net.share(0, SECRET);
    let here = net.give(0, 1, SECRET);
    net.ends[0].echoes = false;
    let first = net.call(1, here, b"which", &[]);
    let second = net.call(1, Local::Promise(first), b"whichever", &[]);
    assert_eq!(
        net.ends[0].calls.len(),
        1,
        "the second waits for the first's answer"
    );
    let target = net.export(0);
    let call = net.ends[0].calls.remove(0);
    let outcome = Outcome::Reference(target);
    net.asked(
        0,
        Ask::Answer {
            call: call.id,
            outcome,
        },
    )
    .unwrap();
    assert_eq!(Local::Object(net.ends[0].calls[0].target), target);
    net.ends[0].echoes = true;
    net.settle();
    assert_eq!(
        net.became(1, second),
        Some(Outcome::Data(Body::data(b"whichever")))
    );
}

#[test]
fn law_its_own_link_alone_ends_for_what_no_honest_node_sends() {
    let mut net = Net::new(3, 0);
    net.share(0, SECRET);
    let (one, two) = (net.give(0, 1, SECRET), net.give(0, 2, SECRET));
    // Bytes that are nothing; a frame that is none.
    for (round, garbage) in [&b"\xff\xff"[..], b"\x82\x02\x41\x00"]
        .into_iter()
        .enumerate()
    {
        net.inject(1, 0, garbage);
        net.quiet(100);
        let ends = net.ends_told(0);
        assert_eq!(ends.len(), round + 1);
        assert_eq!(ends[round], "refs/malformed");
        assert_eq!(net.ends_told(1)[round], "refs/peer_closed", "it is told");
        assert_eq!(
            said(net.state(1, one)),
            Some((Reason::DISCONNECTED.0, String::new()))
        );
        let calls = net.call(2, two, b"still here", &[]);
        net.quiet(100);
        assert_eq!(
            net.became(2, calls),
            Some(Outcome::Data(Body::data(b"still here")))
        );
        // It may begin anew, after a pause.
        net.quiet(EPOCH_PAUSE_MS);
        net.give(0, 1, SECRET);
    }
}

#[test]
fn law_a_node_that_does_not_answer_is_given_up_and_one_without_a_link_at_once() {
    let mut net = Net::new(2, 0);
    net.loses = 100;
    let waiting: Vec<_> = (0..WAITING_MAX)
        .map(|_| net.ask(1, Ask::Redeem(did(0), SECRET)))
        .collect();
    let over = net.ask(1, Ask::Redeem(did(0), SECRET));
    net.settle();
    let refused = net.answer(1, over).unwrap().unwrap_err();
    assert!(
        matches!(refused, ReferenceError::TooManyWaiting { .. }),
        "{refused:?}"
    );
    assert!(waiting.iter().all(|&id| net.answer(1, id).is_none()));
    net.quiet(ASK_WITHIN_MS);
    for id in waiting {
        let refused = net.answer(1, id).unwrap().unwrap_err();
        assert!(
            matches!(refused, ReferenceError::NoAnswer { .. }),
            "{refused:?}"
        );
    }
    net.unlink(0, 1);
    let refused = net.asked(1, Ask::Redeem(did(0), SECRET)).unwrap_err();
    assert!(
        matches!(refused, ReferenceError::Unreachable { .. }),
        "{refused:?}"
    );
    let own = net.asked(1, Ask::Redeem(did(1), SECRET)).unwrap_err();
    assert!(matches!(own, ReferenceError::ToItself { .. }), "{own:?}");
}

#[test]
fn law_handles_that_are_let_go_of_reach_the_owner() {
    let mut net = Net::new(2, 0);
    let (_, token) = net.share(0, SECRET);
    let target = net.give(0, 1, SECRET);
    let held = net.asked(0, Ask::Forget(token)).unwrap_err();
    assert_eq!(held, ReferenceError::HeldElsewhere { holders: 1 });
    let now = net.now();
    net.ends[1].refs.let_go_of(target, 1, now);
    net.drain(1);
    net.quiet(1_000);
    assert_eq!(net.asked(0, Ask::Forget(token)), Ok(Reply::Done));
    let state = net.ends[1].refs.known();
    assert_eq!(state.0, 2, "the doors are left");
}
