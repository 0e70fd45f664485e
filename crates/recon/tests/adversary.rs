//! Peers that lie, repeat, withhold, flood or fall silent: memory and work stay bounded, and every exchange ends.

#![allow(clippy::unwrap_used, reason = "a broken case fails the test")]

mod common;

use common::{Rng, item};
use overlane_recon::bounds::{
    IDLE_MS, MESSAGE_BYTES, MISSING_TRACKED_MAX, REASON_BYTES_MAX, REPEATS_MAX, TOP,
};
use overlane_recon::{
    Bound, Budget, Content, End, Id, Initiator, Item, ItemSet, Limits, Message, NotAnswered,
    Outgoing, Patience, Request, Responder, Storage, advance, initiate, respond,
};
use proptest::prelude::*;

fn set(items: u64) -> ItemSet {
    (1..=items).map(item).collect()
}

/// A legal message drawn from a seed: random cover, random claims.
fn legal_message(seed: u64, ranges: usize) -> Vec<u8> {
    let mut rng = Rng(seed);
    let bounds = rng.distinct(ranges.min(1_000), 10_000);
    let mut payload = vec![0x82, 0x01];
    head(&mut payload, 4, bounds.len() as u64 + 1);
    for upper in bounds.into_iter().chain([TOP]) {
        payload.push(0x83);
        head(&mut payload, 0, upper);
        match rng.below(4) {
            0 => payload.extend([0x00, 0xf6]),
            1 | 2 => {
                payload.extend([0x01, 0x58, 0x20]);
                payload.extend(common::hashed_id(rng.next()).0);
            }
            _ => {
                let mut ids: Vec<_> = (0..rng.below(20))
                    .map(|_| common::hashed_id(rng.below(9_000)).0)
                    .collect();
                ids.sort_unstable();
                ids.dedup();
                payload.push(0x02);
                head(&mut payload, 4, ids.len() as u64);
                for id in ids {
                    payload.extend([0x58, 0x20]);
                    payload.extend(id);
                }
            }
        }
    }
    payload
}

fn head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let tag = major << 5;
    match argument {
        0..=23 => out.push(tag | argument as u8),
        24..=0xff => out.extend([tag | 24, argument as u8]),
        0x100..=0xffff => {
            out.push(tag | 25);
            out.extend((argument as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(tag | 26);
            out.extend((argument as u32).to_be_bytes());
        }
        _ => {
            out.push(tag | 27);
            out.extend(argument.to_be_bytes());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a legal message claims, an answer stays within its limits and its work within two passes.
    #[test]
    fn prop_any_legal_message_has_a_bounded_answer(
        seed in any::<u64>(),
        ranges in 0_usize..1_000,
        items in 0_u64..6_000,
        kibibytes in prop::sample::select(vec![2_usize, 16, 1024]),
        pushes in prop::sample::select(vec![0_usize, 10, 65_536]),
    ) {
        let payload = legal_message(seed, ranges);
        let limits = Limits::default().message_bytes(kibibytes * 1024).push_ids(pushes);
        let mut held = set(items);
        let before = held.work_bytes();
        let response = respond(&mut held, &payload, &limits).unwrap();
        let hashed = held.work_bytes() - before;
        prop_assert!(response.reply.len() <= kibibytes * 1024, "{} bytes", response.reply.len());
        prop_assert!(response.push.len() <= pushes);
        prop_assert!(hashed <= 3 * 40 * items + 64 * 1024, "{hashed} bytes hashed over {items} items");
        let reply = Message::decode(&response.reply).unwrap();
        prop_assert!(reply.ranges().len() <= 1024);
        let step = advance(&mut held, &payload, &limits).unwrap();
        prop_assert!(step.reply.is_none_or(|reply| reply.len() <= kibibytes * 1024));
    }

    #[test]
    fn prop_any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), flip in any::<(usize, u8)>()) {
        let mut legal = legal_message(flip.0 as u64, 12);
        let place = flip.0 % legal.len();
        if let Some(byte) = legal.get_mut(place) {
            *byte ^= flip.1;
        }
        for input in [bytes, legal] {
            if let Ok(message) = Message::decode(&input) {
                prop_assert_eq!(message.encode(), input);
            }
        }
    }

    /// An initiator against a relay that answers with whatever is legal ends at one of its bounds, and names nothing
    /// more than it may.
    #[test]
    fn prop_a_lying_relay_is_left(seed in any::<u64>(), items in 0_u64..2_000) {
        let mut held = set(items);
        let patience = Patience { rounds: 40, ..Patience::default() };
        let mut initiator = Initiator::open(&mut held, Limits::default(), patience, 0);
        let mut turns = 0;
        while initiator.ended().is_none() {
            turns += 1;
            prop_assert!(turns <= 45, "not ended after {turns} turns");
            while let Some(request) = initiator.poll_transmit() {
                if let Request::Send(item) = request {
                    initiator.handle_send_refused(&mut held, item.id, "quota/rate_limited".into(), 0);
                }
            }
            initiator.handle_answer(&mut held, &legal_message(seed ^ turns, 40), 0).unwrap();
        }
        prop_assert!(initiator.report().largest_message <= MESSAGE_BYTES);
    }
}

#[test]
fn law_a_relay_that_repeats_itself_is_left_as_stalled() {
    let mut held = set(500);
    let mut initiator = Initiator::open(&mut held, Limits::default(), Patience::default(), 0);
    // Never equal, whatever is asked.
    let mut answer = vec![0x82, 0x01, 0x81, 0x83];
    head(&mut answer, 0, TOP);
    answer.extend([0x01, 0x58, 0x20]);
    answer.extend([9; 32]);
    // The first answer is met by the opening once more.
    for _ in 0..REPEATS_MAX {
        assert!(initiator.ended().is_none());
        assert!(matches!(initiator.poll_transmit(), Some(Request::Recon(_))));
        initiator.handle_answer(&mut held, &answer, 0).unwrap();
    }
    assert_eq!(initiator.ended(), Some(&End::GaveUp(Bound::Stalled)));
    assert_eq!(
        initiator.report().end.unwrap().code(),
        "recon/gave_up_stalled"
    );
}

#[test]
fn law_what_a_relay_names_and_withholds_is_reported_missing() {
    let mut held = set(3);
    let mut relay = set(5);
    let mut initiator = Initiator::open(&mut held, Limits::default(), Patience::default(), 0);
    let limits = Limits::default();
    while let Some(Request::Recon(payload)) = initiator.poll_transmit() {
        // Every id is listed, nothing is pushed.
        drop(payload);
        let Ok(mut list) = initiate(&mut relay, &limits);
        initiator.handle_answer(&mut held, &list, 0).unwrap();
        list.clear();
    }
    let report = initiator.report();
    assert_eq!(report.end, Some(End::GaveUp(Bound::Stalled)));
    let mut missing = vec![item(4).id, item(5).id];
    missing.sort();
    assert_eq!(report.missing, missing);
}

#[test]
fn law_refused_sends_do_not_keep_an_exchange_open() {
    let mut held = set(5);
    let mut relay = set(3);
    let mut initiator = Initiator::open(&mut held, Limits::default(), Patience::default(), 0);
    while let Some(request) = initiator.poll_transmit() {
        match request {
            Request::Recon(payload) => {
                let response = respond(&mut relay, &payload, &Limits::default()).unwrap();
                initiator
                    .handle_answer(&mut held, &response.reply, 1)
                    .unwrap();
            }
            Request::Send(item) => {
                initiator.handle_send_refused(&mut held, item.id, "reject/group_frozen".into(), 2);
            }
        }
    }
    let report = initiator.report();
    assert_eq!(report.end, Some(End::Settled));
    assert_eq!(report.refused_by_peer.len(), 2);
    assert!(
        report
            .refused_by_peer
            .iter()
            .all(|refused| refused.why == "reject/group_frozen")
    );
    assert_eq!(held.len(), 5);
}

#[test]
fn law_refused_pushes_do_not_keep_an_exchange_open() {
    let (mut held, mut relay) = (set(3), set(5));
    let mut initiator = Initiator::open(&mut held, Limits::default(), Patience::default(), 0);
    while let Some(Request::Recon(payload)) = initiator.poll_transmit() {
        let response = respond(&mut relay, &payload, &Limits::default()).unwrap();
        for item in response.push {
            initiator.handle_push_refused(item.id, "wrong content address".into());
        }
        initiator
            .handle_answer(&mut held, &response.reply, 1)
            .unwrap();
    }
    let report = initiator.report();
    assert_eq!(report.end, Some(End::Settled));
    assert_eq!(report.refused_here.len(), 2);
}

#[test]
fn law_refused_pushes_are_remembered_up_to_a_bound() {
    let mut held = set(3);
    let mut initiator = Initiator::open(&mut held, Limits::default(), Patience::default(), 0);
    for number in 0..MISSING_TRACKED_MAX as u64 + 3 {
        initiator.handle_push_refused(common::hashed_id(number), String::new());
    }
    let report = initiator.report();
    assert_eq!(report.refused_here.len(), MISSING_TRACKED_MAX);
    assert_eq!(report.refused_untracked, 3);
}

/// Relays that name more than is remembered: the rest is counted.
#[test]
fn law_missing_ids_are_remembered_up_to_a_bound() {
    let mut held = ItemSet::new();
    let patience = Patience {
        rounds: 40,
        ..Patience::default()
    };
    let mut initiator = Initiator::open(&mut held, Limits::default(), patience, 0);
    let mut turn = 0;
    while initiator.ended().is_none() {
        let first = turn * 4_096;
        let mut relay: Vec<_> = (first..first + 4_096)
            .map(|seq| common::hashed_id(seq).0)
            .collect();
        relay.sort_unstable();
        let mut list = vec![0x82, 0x01, 0x81, 0x83];
        head(&mut list, 0, TOP);
        list.push(0x02);
        head(&mut list, 4, relay.len() as u64);
        relay
            .iter()
            .for_each(|id| list.extend([0x58, 0x20].iter().chain(id)));
        // Something new each time, so that it does not count as a stall.
        initiator
            .handle_push(&mut held, item(1_000_000 + turn), 0)
            .unwrap();
        initiator.handle_answer(&mut held, &list, 0).unwrap();
        while let Some(request) = initiator.poll_transmit() {
            if let Request::Send(item) = request {
                initiator
                    .handle_ack(&mut held, item.id, item.seq, 0)
                    .unwrap();
            }
        }
        turn += 1;
    }
    let report = initiator.report();
    assert_eq!(report.end, Some(End::GaveUp(Bound::Rounds)));
    assert_eq!(report.missing.len(), MISSING_TRACKED_MAX);
    assert!(report.missing_untracked > 0);
}

#[test]
fn law_silence_refusal_nonsense_and_a_lost_link_are_typed_ends() {
    let mut held = set(50);
    let open =
        |held: &mut ItemSet| Initiator::open(held, Limits::default(), Patience::default(), 1_000);

    let mut silent = open(&mut held);
    let due = silent.poll_timeout().unwrap();
    silent.handle_timeout(due - 1);
    assert!(silent.ended().is_none());
    silent.handle_timeout(due);
    assert_eq!(silent.ended(), Some(&End::GaveUp(Bound::Idle)));
    assert_eq!(silent.poll_timeout(), None);

    let mut refused = open(&mut held);
    refused.handle_refusal("reject/malformed_header".into());
    let code = "reject/malformed_header".into();
    assert_eq!(refused.ended(), Some(&End::Refused { code }));

    let mut nonsense = open(&mut held);
    assert!(nonsense.poll_transmit().is_some());
    let refusal = nonsense.handle_answer(&mut held, b"NOTICE", 0).unwrap_err();
    assert_eq!(refusal.code(), "reject/noncanonical_cbor");
    assert_eq!(nonsense.ended(), Some(&End::BrokeRules { refusal }));

    let mut lost = open(&mut held);
    lost.handle_closed();
    assert_eq!(lost.ended(), Some(&End::GaveUp(Bound::Link)));
    assert_eq!(lost.poll_transmit(), None);
}

/// Each of a few items again and again, and such as are refused.
#[test]
fn law_pushes_without_end_are_a_typed_end_and_old_ones_no_progress() {
    let pushes = 100;
    let patience = Patience {
        pushes,
        ..Patience::default()
    };
    let mut held = ItemSet::new();
    let mut initiator = Initiator::open(&mut held, Limits::default(), patience, 0);
    for number in 0..pushes {
        assert!(initiator.ended().is_none(), "{number}");
        if number % 10 == 9 {
            initiator.handle_push_refused(common::hashed_id(number), String::new());
        } else {
            let item = item(1 + number % 3);
            initiator.handle_push(&mut held, item, number).unwrap();
        }
        // The last new one came at 2.
        assert_eq!(initiator.poll_timeout(), Some(number.min(2) + IDLE_MS));
    }
    initiator.handle_push(&mut held, item(9), 0).unwrap();
    assert_eq!(initiator.ended(), Some(&End::GaveUp(Bound::Pushes)));
    let report = initiator.report();
    assert_eq!(report.end.unwrap().code(), "recon/gave_up_pushes");
    assert_eq!((report.pushes, report.received), (pushes + 1, 4));
}

#[test]
fn law_rounds_and_bytes_are_bounds() {
    for (patience, bound) in [
        (
            Patience {
                rounds: 1,
                ..Patience::default()
            },
            Bound::Rounds,
        ),
        (
            Patience {
                bytes: 400,
                ..Patience::default()
            },
            Bound::Bytes,
        ),
    ] {
        let (mut held, mut relay) = (set(900), set(1_000));
        let mut initiator = Initiator::open(&mut held, Limits::default(), patience, 0);
        while let Some(Request::Recon(payload)) = initiator.poll_transmit() {
            let response = respond(&mut relay, &payload, &Limits::default()).unwrap();
            initiator
                .handle_answer(&mut held, &response.reply, 0)
                .unwrap();
        }
        assert_eq!(initiator.ended(), Some(&End::GaveUp(bound)));
    }
}

#[test]
fn law_pushes_leave_before_the_answer_and_a_flood_waits() {
    let mut held = set(10);
    let Ok(empty) = initiate(&mut ItemSet::new(), &Limits::default());
    let mut responder = Responder::new(Limits::default(), Budget::default());
    responder
        .handle_message(&mut held, &empty, &mut |_| 100, 0)
        .unwrap();
    let flood = responder
        .handle_message(&mut held, &empty, &mut |_| 100, 0)
        .unwrap_err();
    assert!(matches!(flood, NotAnswered::Unread(11)));
    assert_eq!(flood.code(), "retry/backpressure");
    let sent: Vec<_> = std::iter::from_fn(|| responder.poll_transmit()).collect();
    let (last, pushes) = sent.split_last().unwrap();
    assert!(matches!(last, Outgoing::Reply(_)));
    assert!(pushes.iter().all(|sent| matches!(sent, Outgoing::Push(_))));
    assert_eq!(pushes.len(), 10);
    assert_eq!(responder.served().refused, 1);
}

/// Fifteen bytes ask for everything: what they cost is charged to who sent them.
#[test]
fn law_work_and_pushes_are_charged_to_the_peer() {
    let mut held = set(1_000);
    let Ok(empty) = initiate(&mut ItemSet::new(), &Limits::default());
    let mut responder = Responder::new(Limits::default(), Budget::per_minute(1 << 30, 50_000));
    responder
        .handle_message(&mut held, &empty, &mut |_| 100, 0)
        .unwrap();
    while responder.poll_transmit().is_some() {}
    let refused = responder
        .handle_message(&mut held, &empty, &mut |_| 100, 0)
        .unwrap_err();
    assert!(matches!(refused, NotAnswered::Exhausted(exhausted) if exhausted.of == "pushes"));
    responder
        .handle_message(&mut held, &empty, &mut |_| 100, 120_000)
        .unwrap();
}

#[test]
fn law_envelope_bytes_bound_pushes() {
    let mut held = set(100);
    let Ok(empty) = initiate(&mut ItemSet::new(), &Limits::default());
    let limits = Limits::default().push_bytes(1_000);
    let response = overlane_recon::respond_sized(&mut held, &empty, &limits, &mut |_| 300).unwrap();
    assert_eq!(response.push.len(), 3);
    assert!(response.push_cut);
    let mut ids: Vec<Id> = (1..=100).map(|seq| item(seq).id).collect();
    ids.sort();
    let pushed: Vec<Id> = response.push.iter().map(|item: &Item| item.id).collect();
    assert_eq!(pushed, ids.get(..3).unwrap());
}

/// A relay that answers what was not asked yet: it gets neither work nor memory for it.
#[test]
fn law_answers_to_nothing_asked_are_counted_and_dropped() {
    let (mut held, mut relay) = (set(2_000), set(2_500));
    let mut initiator = Initiator::open(&mut held, Limits::default(), Patience::default(), 0);
    let Some(Request::Recon(opening)) = initiator.poll_transmit() else {
        panic!("an opening is due");
    };
    let response = respond(&mut relay, &opening, &Limits::default()).unwrap();
    for _ in 0..50 {
        initiator
            .handle_answer(&mut held, &response.reply, 0)
            .unwrap();
    }
    let due: Vec<_> = std::iter::from_fn(|| initiator.poll_transmit()).collect();
    assert!(matches!(due.as_slice(), [Request::Recon(_)]), "{due:?}");
    assert_eq!(initiator.report().unexpected, 49);
    assert_eq!(initiator.report().rounds, 2);
}

/// A refusal may carry a megabyte of words; few of them are kept, cut where a character ends.
#[test]
fn law_a_peers_words_are_kept_up_to_a_bound() {
    let mut held = set(5);
    let mut relay = ItemSet::new();
    let mut initiator = Initiator::open(&mut held, Limits::default(), Patience::default(), 0);
    let words = "é".repeat(500_000);
    while let Some(request) = initiator.poll_transmit() {
        match request {
            Request::Recon(payload) => {
                let response = respond(&mut relay, &payload, &Limits::default()).unwrap();
                initiator
                    .handle_answer(&mut held, &response.reply, 0)
                    .unwrap();
            }
            Request::Send(item) => {
                initiator.handle_send_refused(&mut held, item.id, words.clone(), 0);
            }
        }
    }
    initiator.handle_push_refused(item(9).id, format!("a{words}"));
    let report = initiator.report();
    assert_eq!(report.refused_by_peer.len(), 5);
    let kept = report.refused_by_peer.iter().chain(&report.refused_here);
    for refused in kept {
        assert!(refused.why.len().abs_diff(REASON_BYTES_MAX) <= 1 && refused.why.ends_with('é'));
        assert!(refused.why.len() <= REASON_BYTES_MAX);
    }
    let mut refused = Initiator::open(&mut held, Limits::default(), Patience::default(), 0);
    refused.handle_refusal(words);
    let Some(End::Refused { code }) = refused.ended() else {
        panic!("a refusal ends an exchange");
    };
    assert_eq!(code.len(), REASON_BYTES_MAX);
}

/// The first open range is settled but for thousands of pushes that were put off, and the rest is too much for a
/// plain answer: the range must not be named, as no list may hold what is in it.
#[test]
fn law_a_range_left_open_for_its_pushes_is_not_named() {
    for wide in [3_000, 5_000] {
        let mut held = set(wide + 20_000);
        let mut message = vec![0x82, 0x01];
        head(&mut message, 4, 201);
        message.push(0x83);
        head(&mut message, 0, wide + 1);
        message.extend([0x02, 0x80]);
        for range in 1..=200 {
            message.push(0x83);
            let upper = wide + 1 + 100 * range;
            head(&mut message, 0, if range == 200 { TOP } else { upper });
            message.extend([0x01, 0x58, 0x20]);
            message.extend(common::hashed_id(range).0);
        }
        let limits = Limits::default().message_bytes(16 * 1024).push_ids(100);
        let response = respond(&mut held, &message, &limits).unwrap();
        assert!(response.planned && response.push_cut);
        assert_eq!(response.push.len(), 100);
        assert!(response.reply.len() <= 16 * 1024);
        let reply = Message::decode(&response.reply).unwrap();
        let first = reply.ranges().first().unwrap();
        assert_eq!(first.upper, wide + 1);
        assert!(matches!(first.content, Content::Fingerprint(_)));
    }
}
