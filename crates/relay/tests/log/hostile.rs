//! Peers that ask for everything, never end, lie, or bring what is not theirs.

use crate::support::*;
use overlane_core::Coded;
use overlane_recon::{Initiator, ItemSet, Limits, Patience, Request};
use overlane_relay::log::bounds::{
    ASKED_MAX, CHECK_WORK_BYTES, OWED_MAX, PEERS_MAX, PUSH_IDS, SHARELESS_MAX, STAGED_MAX,
    WORK_BYTES_PER_MINUTE,
};
use overlane_relay::log::{Allowance, Frame, LogId, Space, Turn};

fn ask(host: &mut Node, from: u8, payload: &[u8]) {
    let frame = Frame::Recon {
        log: LOG,
        space: Space::Numbered,
        turn: Turn::Ask,
        payload,
    };
    host.handle_frame(peer(from), &frame.to_bytes(), NOW_MS)
        .unwrap();
}

/// What an empty set says: fifteen bytes that ask for everything.
fn everything() -> Vec<u8> {
    let Ok(payload) = overlane_recon::initiate(&mut ItemSet::new(), &Limits::default());
    payload
}

fn host_of(posts: u64) -> Node {
    host_allowing(posts, Allowance::default())
}

fn host_allowing(posts: u64, allowance: Allowance) -> Node {
    let mut host = node(Plain {
        allowance,
        ..Plain::of(&[1, 2], &[9])
    });
    for number in 0..posts {
        if host.is_full() {
            host.flush(NOW_MS).unwrap();
        }
        host.post(LOG, envelope(2, number), peer(2), NOW_MS)
            .unwrap();
    }
    host.flush(NOW_MS).unwrap();
    events(&mut host);
    host
}

#[test]
fn law_who_does_not_take_what_it_asked_for_is_answered_no_more() {
    let mut host = host_of(3_000);
    ask(&mut host, 1, &everything());
    host.flush(NOW_MS).unwrap();
    for _ in 0..100 {
        ask(&mut host, 1, &everything());
        host.flush(NOW_MS).unwrap();
    }
    let words = words(&owed(&mut host));
    let count = |word: &str| words.iter().filter(|it| it.starts_with(word)).count();
    assert_eq!((count("push"), count("recon")), (PUSH_IDS, 1));
    assert_eq!(count("log/unread"), 100);
    // What waits for one that takes nothing at all has a bound, and it is of names.
    ask(&mut host, 1, &everything());
    host.flush(NOW_MS).unwrap();
    for _ in 0..2 * OWED_MAX {
        ask(&mut host, 1, &everything());
    }
    host.flush(NOW_MS).unwrap();
    assert_eq!(owed(&mut host).len(), OWED_MAX);
}

#[test]
fn law_who_asks_for_everything_again_and_again_is_charged_for_it() {
    const PUSH_BYTES: u64 = 1 << 20;
    let allowance = Allowance {
        push_bytes: PUSH_BYTES,
        ..Allowance::default()
    };
    let mut host = host_allowing(3_000, allowance);
    let mut answered = 0_u64;
    loop {
        ask(&mut host, 1, &everything());
        host.flush(NOW_MS).unwrap();
        let words = words(&owed(&mut host));
        if words.last().unwrap() == "log/exhausted" {
            break;
        }
        answered += 1;
        assert!(answered < 100_000);
    }
    let pushed = host.counters().pushed * 28;
    assert!(pushed <= PUSH_BYTES + PUSH_IDS as u64 * 28);
    assert!(answered >= PUSH_BYTES / (PUSH_IDS as u64 * 28));
    // Another is served meanwhile, and the first again a minute later.
    ask(&mut host, 2, &everything());
    host.flush(NOW_MS).unwrap();
    assert_eq!(words(&owed(&mut host)).last().unwrap(), "recon");
    let frame = Frame::Recon {
        log: LOG,
        space: Space::Numbered,
        turn: Turn::Ask,
        payload: &everything(),
    };
    host.handle_frame(peer(1), &frame.to_bytes(), NOW_MS + 60_000)
        .unwrap();
    host.flush(NOW_MS + 60_000).unwrap();
    assert_eq!(words(&owed(&mut host)).last().unwrap(), "recon");
}

#[test]
fn law_checking_envelopes_is_charged_before_it_is_done() {
    let mut host = host_of(0);
    let mut sent = 0;
    loop {
        send(&mut host, 1, &envelope(1, sent));
        if sent % 512 == 511 {
            host.flush(NOW_MS).unwrap();
            if words(&owed(&mut host)).last().unwrap() == "log/exhausted" {
                break;
            }
        }
        sent += 1;
    }
    let most = WORK_BYTES_PER_MINUTE / CHECK_WORK_BYTES;
    assert!(sent <= most + 512, "{sent}");
    assert!(host.counters().kept <= most);
}

#[test]
fn law_a_peer_that_never_ends_costs_no_more_than_it_may() {
    // It answers each answer with its opening, forever; nothing is kept of it between.
    let mut host = host_of(500);
    let mut set: ItemSet = (1..=400)
        .map(|seq| overlane_recon::Item {
            seq,
            id: overlane_recon::Id([seq as u8; 32]),
        })
        .collect();
    for _ in 0..200 {
        let mut initiator = Initiator::open(&mut set, Limits::default(), Patience::default(), 0);
        let Some(Request::Recon(payload)) = initiator.poll_transmit() else {
            panic!()
        };
        ask(&mut host, 1, &payload);
        host.flush(NOW_MS).unwrap();
        assert_eq!(words(&owed(&mut host)).last().unwrap(), "recon");
    }
    assert_eq!(host.counters().answered, 200);
    assert_eq!(host.counters().kept, 500);
}

#[test]
fn law_questions_that_wait_for_a_flush_are_few() {
    let mut host = host_of(10);
    for _ in 0..20 {
        ask(&mut host, 1, &everything());
    }
    host.flush(NOW_MS).unwrap();
    assert_eq!(host.counters().answered, ASKED_MAX as u64);
    // A payload that is none is refused with the payload's own code, and the session lives on.
    owed(&mut host);
    ask(&mut host, 1, &[0x82, 0x02, 0x80]);
    ask(&mut host, 1, &[0xff]);
    host.flush(NOW_MS).unwrap();
    let words = words(&owed(&mut host));
    assert_eq!(
        words,
        ["reject/malformed_header", "reject/noncanonical_cbor"]
    );
}

#[test]
fn law_a_stranger_learns_nothing_and_leaves_nothing() {
    let mut host = host_of(10);
    ask(&mut host, 5, &everything());
    send(&mut host, 5, &envelope(5, 1));
    // A log that is not here looks the same to it.
    let elsewhere = Frame::Recon {
        log: LogId([1; 32]),
        space: Space::Shared,
        turn: Turn::Ask,
        payload: &everything(),
    };
    host.handle_frame(peer(5), &elsewhere.to_bytes(), NOW_MS)
        .unwrap();
    // A member brings what another wrote; a holder may.
    send(&mut host, 1, &envelope(2, 77));
    send(&mut host, 9, &envelope(2, 78));
    host.flush(NOW_MS).unwrap();
    let frames = owed(&mut host);
    let to = |seed: u8| {
        words(
            &frames
                .iter()
                .filter(|it| it.to == did(seed))
                .cloned()
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(to(5), ["log/not_here", "log/not_here", "log/not_here"]);
    assert_eq!(to(1), ["log/not_its_author"]);
    assert_eq!(to(9), ["ack 11"]);
}

#[test]
fn law_a_member_removed_while_it_synchronises_is_given_nothing_more() {
    let mut host = host_of(100);
    ask(&mut host, 1, &everything());
    host.flush(NOW_MS).unwrap();
    for _ in 0..10 {
        assert!(host.poll_transmit().unwrap().is_some());
    }
    host.rules().members.remove(&did(1));
    let rest = words(&owed(&mut host));
    assert!(rest.is_empty(), "neither envelopes nor names: {rest:?}");
    ask(&mut host, 1, &everything());
    assert_eq!(words(&owed(&mut host)), ["log/not_here"]);
}

#[test]
fn law_a_batch_and_the_peers_in_memory_are_bounded() {
    let mut host = host_of(0);
    for number in 0..STAGED_MAX as u64 + 10 {
        send(&mut host, 1, &envelope(1, number));
    }
    assert!(host.is_full());
    host.flush(NOW_MS).unwrap();
    let words = words(&owed(&mut host));
    assert!(words.iter().any(|it| it == "log/busy"));
    assert!(host.counters().kept <= STAGED_MAX as u64);
    let mut refused = 0;
    for at in 0..=PEERS_MAX as u32 {
        let mut account = did(0);
        account.0[..4].copy_from_slice(&(at + 1_000).to_be_bytes());
        let stranger = overlane_relay::log::Peer { account, slot: at };
        let frame = Frame::Send {
            log: LOG,
            envelope: b"x",
        }
        .to_bytes();
        host.handle_frame(stranger, &frame, NOW_MS).unwrap();
        refused += 1;
    }
    let told = owed(&mut host).len();
    assert!(told < refused, "who has no place is not answered");
    let none = host.handle_frame(peer(1), b"no frame", NOW_MS).unwrap_err();
    assert_eq!(none.code(), "log/malformed");
}

/// A host brings what accounts wrote that it made up: they find place up to a bound, and members beyond it.
#[test]
fn law_group_authors_without_a_share_are_bounded() {
    let mut host = node(Plain {
        shares: Some([did(1), did(2)].into()),
        ..Plain::of(&[1, 2], &[9])
    });
    let mut told = Vec::new();
    for number in 0..=SHARELESS_MAX as u32 {
        let mut author = [3; 20];
        author[..4].copy_from_slice(&number.to_be_bytes());
        for post in 0..2_u8 {
            send(&mut host, 9, &[&author[..], &[post]].concat());
        }
        host.flush(NOW_MS).unwrap();
        told.extend(words(&owed(&mut host)));
    }
    let (acks, refused) = told.split_at(2 * SHARELESS_MAX);
    assert!(acks.iter().all(|it| it.starts_with("ack")));
    assert_eq!(refused, ["log/authors_full", "log/authors_full"]);
    // A member that is new is none of them, and who has a place keeps it.
    send(&mut host, 1, &envelope(1, 1));
    let mut author = [3; 20];
    author[..4].copy_from_slice(&0_u32.to_be_bytes());
    send(&mut host, 9, &[&author[..], &[9]].concat());
    host.flush(NOW_MS).unwrap();
    let told = words(&owed(&mut host));
    assert!(told.iter().all(|it| it.starts_with("ack")), "{told:?}");
}
