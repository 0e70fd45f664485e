//! Nothing is told before it is durable, and an envelope is numbered once.

use crate::support::*;
use overlane_core::Coded;
use overlane_relay::log::{Event, Frame, Full, LogStore, Logs, LogsError, Mutant, Retention};

#[test]
fn law_an_acknowledgement_waits_for_its_transaction_and_one_flush_acknowledges_all() {
    let mut host = node(Plain::of(&[1, 2], &[]));
    for number in 0..32 {
        send(&mut host, 1, &envelope(1, number));
        send(&mut host, 2, &envelope(2, number));
    }
    assert!(owed(&mut host).is_empty(), "nothing is durable yet");
    assert!(events(&mut host).is_empty());
    host.flush(NOW_MS).unwrap();
    assert_eq!(host.store().commits, 1);
    let acks = owed(&mut host);
    assert_eq!(acks.len(), 64);
    assert_eq!(events(&mut host).len(), 64);
    // Each in the order it came.
    let one: Vec<_> = acks.iter().filter(|it| it.to == did(1)).cloned().collect();
    assert_eq!(words(&one)[..3], ["ack 1", "ack 3", "ack 5"]);
    host.flush(NOW_MS).unwrap();
    assert_eq!(host.store().commits, 1, "nothing was staged");
}

#[test]
fn law_an_envelope_is_numbered_once() {
    let mut host = node(Plain::of(&[1, 2], &[9]));
    let first = envelope(1, 1);
    // Twice in one transaction, again after it, and from another holder.
    send(&mut host, 1, &first);
    send(&mut host, 1, &first);
    send(&mut host, 2, &envelope(2, 1));
    host.flush(NOW_MS).unwrap();
    send(&mut host, 1, &first);
    send(&mut host, 9, &first);
    host.flush(NOW_MS).unwrap();
    let frames = owed(&mut host);
    let mine: Vec<_> = frames.into_iter().filter(|it| it.to != did(2)).collect();
    assert_eq!(words(&mine), ["ack 1", "ack 1", "ack 1", "ack 1"]);
    assert_eq!(host.counters().kept, 2);
    assert_eq!(host.counters().known, 3);
    // After a restart, too; and numbers go on behind the highest.
    let store = host.into_store().reopened();
    let mut host = Logs::open(store, Plain::of(&[1, 2], &[])).unwrap();
    send(&mut host, 1, &first);
    send(&mut host, 1, &envelope(1, 2));
    host.flush(NOW_MS).unwrap();
    assert_eq!(words(&owed(&mut host)), ["ack 1", "ack 3"]);
    assert_eq!(host.size(&LOG).unwrap().0, 3);
}

#[test]
fn law_a_failed_transaction_tells_nothing_and_closes() {
    for kept in [false, true] {
        let mut host = node(Plain::of(&[1], &[]));
        send(&mut host, 1, &envelope(1, 1));
        host.flush(NOW_MS).unwrap();
        owed(&mut host);
        events(&mut host);
        host.store().fail_at = Some((2, kept));
        send(&mut host, 1, &envelope(1, 2));
        let error = host.flush(NOW_MS).unwrap_err();
        assert_eq!(error.code(), "log/store_failed");
        assert!(host.poll_transmit().is_err());
        assert!(events(&mut host).is_empty());
        let closed = host.handle_frame(peer(1), &[], NOW_MS).unwrap_err();
        assert!(matches!(closed, LogsError::Closed));
        assert!(matches!(host.flush(NOW_MS), Err(LogsError::Closed)));
        // The sender, who heard nothing, sends again: the same number whatever the store kept.
        let mut host = Logs::open(host.into_store().reopened(), Plain::of(&[1], &[])).unwrap();
        send(&mut host, 1, &envelope(1, 2));
        host.flush(NOW_MS).unwrap();
        assert_eq!(words(&owed(&mut host)), ["ack 2"]);
        assert_eq!(host.store().entries(&LOG, 0, 9).unwrap().len(), 2);
    }
}

/// Every commit of a run, failing in either way: what was acknowledged is held, under its number.
#[test]
fn crash_what_was_acknowledged_is_held_whichever_transaction_fails() {
    for fails in 1..=8 {
        for kept in [false, true] {
            let mut host = node(Plain::of(&[1], &[]));
            host.store().fail_at = Some((fails, kept));
            let mut told = Vec::new();
            for number in 0..16 {
                let frame = Frame::Send {
                    log: LOG,
                    envelope: &envelope(1, number),
                }
                .to_bytes();
                if host.handle_frame(peer(1), &frame, NOW_MS).is_err() {
                    break;
                }
                if number % 2 == 1 && host.flush(NOW_MS).is_err() {
                    break;
                }
                told.extend(owed(&mut host));
            }
            let mut store = host.into_store().reopened();
            for ack in &told {
                let Ok(Frame::SendAck { id, seq, .. }) = Frame::from_bytes(&ack.frame) else {
                    panic!("{ack:?}")
                };
                assert_eq!(store.seq_of(&LOG, &id).unwrap(), Some(seq));
                let bytes = store.envelope(&LOG, seq).unwrap().unwrap();
                assert_eq!(id_of(&bytes), id);
            }
            assert_eq!(told.len() as u64, 2 * (fails - 1));
        }
    }
}

fn retained(entries: u64, full: Full) -> Plain {
    Plain {
        retention: Retention {
            entries,
            bytes: 1 << 20,
            age_ms: 1_000,
            full,
        },
        ..Plain::of(&[1, 2, 3], &[9])
    }
}

#[test]
fn law_a_full_log_lets_go_of_its_oldest_and_no_author_has_more_than_its_share_of_it() {
    let mut host = node(retained(8, Full::Oldest));
    for number in 0..7 {
        send(&mut host, 1, &envelope(1, number));
    }
    send(&mut host, 2, &envelope(2, 0));
    send(&mut host, 2, &envelope(2, 1));
    host.flush(NOW_MS).unwrap();
    assert_eq!(host.size(&LOG).unwrap().0, 8, "the oldest made room");
    // The first has more than its half: it comes in for its own oldest alone.
    send(&mut host, 1, &envelope(1, 7));
    host.flush(NOW_MS).unwrap();
    for number in 2..8 {
        send(&mut host, 2, &envelope(2, number));
        host.flush(NOW_MS).unwrap();
    }
    owed(&mut host);
    let held = host.store().entries(&LOG, 0, 99).unwrap();
    let of = |author: u8| held.iter().filter(|it| it.author == did(author)).count();
    assert_eq!(held.len(), 8);
    assert!(of(2) >= 4, "{held:?}");
    // The second has its share, and the oldest of all is not its own: it comes in for its own oldest.
    assert_eq!(held[0].author, did(1));
    send(&mut host, 2, &envelope(2, 99));
    host.flush(NOW_MS).unwrap();
    assert_eq!(words(&owed(&mut host)), ["ack 17"]);
    let after = host.store().entries(&LOG, 0, 99).unwrap();
    let mut gone = held.iter().filter(|it| !after.contains(it));
    let first = held.iter().find(|it| it.author == did(2));
    assert_eq!((gone.next(), gone.next()), (first, None));
    let let_go = events(&mut host).into_iter();
    let let_go = let_go.filter(|it| matches!(it, Event::LetGo { expired: false, .. }));
    assert!(let_go.count() >= 2);
}

/// One member floods a log in which the others have little; how much each has then.
fn flooded(mutant: Option<Mutant>, bytes: bool) -> [usize; 3] {
    let mut rules = retained(90, Full::Oldest);
    if bytes {
        // 28 bytes each: the bytes are used up, and not the entries.
        rules.retention.bytes = 90 * 28;
        rules.retention.entries = 1_000;
    }
    let mut host = node(rules);
    if let Some(mutant) = mutant {
        host.break_rule(mutant);
    }
    let mut number = 0;
    let mut posts = |host: &mut Node, author: u8, count: u64| {
        for _ in 0..count {
            number += 1;
            send(host, author, &envelope(author, number));
            host.flush(NOW_MS).unwrap();
            owed(host);
        }
    };
    posts(&mut host, 2, 10);
    posts(&mut host, 3, 25);
    posts(&mut host, 1, 300);
    posts(&mut host, 2, 15);
    // Its first is far behind those of the others, and still found after a restart.
    let rules = host.rules().clone();
    let mut host = Logs::open(host.into_store().reopened(), rules).unwrap();
    if let Some(mutant) = mutant {
        host.break_rule(mutant);
    }
    posts(&mut host, 1, 50);
    let held = host.store().entries(&LOG, 0, 999).unwrap();
    assert_eq!(held.len(), 90);
    [1, 2, 3].map(|author| held.iter().filter(|it| it.author == did(author)).count())
}

#[test]
fn law_group_one_members_flood_takes_no_room_of_others() {
    for bytes in [false, true] {
        assert_eq!(flooded(None, bytes), [40, 25, 25]);
        let [_, two, three] = flooded(Some(Mutant::OldestOfAnyone), bytes);
        assert!(two < 25 || three < 25, "the mutant is not found");
    }
}

/// What each makes room for is counted, and who has its share lets go of its own.
#[test]
fn law_group_a_member_that_has_its_share_makes_room_for_itself() {
    let mut host = node(retained(8, Full::Oldest));
    for number in 0..8 {
        send(&mut host, 1, &envelope(1, number));
    }
    for number in 0..6 {
        send(&mut host, 2, &envelope(2, number));
        host.flush(NOW_MS).unwrap();
    }
    let counters = host.counters();
    assert_eq!((counters.made_room, counters.own_room), (6, 2));
    assert_eq!((counters.let_go, counters.refused), (6, 0));
}

/// One author has four of eight entries, and another brings forty, each by a slot of its own; how many the first has then.
fn flooded_by_slots(full: Full) -> usize {
    let mut host = node(retained(8, full));
    let put = |host: &mut Node, author: u8, slot: u32, number: u64| {
        let envelope = envelope(author, number);
        let frame = Frame::Send {
            log: LOG,
            envelope: &envelope,
        };
        let account = did(author);
        let by = overlane_relay::log::Peer { account, slot };
        host.handle_frame(by, &frame.to_bytes(), NOW_MS).unwrap();
        host.flush(NOW_MS).unwrap();
        owed(host);
    };
    for number in 0..4 {
        put(&mut host, 2, 7, number);
    }
    for number in 0..40 {
        put(&mut host, 1, 100 + number, u64::from(number));
    }
    let held = host.store().entries(&LOG, 0, 99).unwrap();
    assert_eq!(held.len(), 8);
    held.iter().filter(|it| it.author == did(2)).count()
}

/// A share of a group's log is an author's. In a log that is shared by slots, as an inbox is, who has many connections has
/// the room of who has one.
#[test]
fn law_group_a_share_is_an_authors_by_however_many_slots_its_posts_come() {
    assert_eq!(flooded_by_slots(Full::Oldest), 4);
    assert!(flooded_by_slots(Full::Fair) < 4, "the check sees it");
}

#[test]
fn law_what_is_over_its_age_goes() {
    let mut host = node(retained(8, Full::Oldest));
    send(&mut host, 1, &envelope(1, 0));
    host.flush(NOW_MS).unwrap();
    assert!(!host.expire(&LOG, NOW_MS + 1_000).unwrap());
    host.flush(NOW_MS).unwrap();
    assert_eq!(host.size(&LOG).unwrap().0, 1);
    host.expire(&LOG, NOW_MS + 1_001).unwrap();
    host.flush(NOW_MS).unwrap();
    assert_eq!(host.size(&LOG).unwrap(), (0, 0));
    assert!(host.store().entries(&LOG, 0, 9).unwrap().is_empty());
    // Numbers are not used again.
    send(&mut host, 1, &envelope(1, 1));
    host.flush(NOW_MS).unwrap();
    assert_eq!(words(&owed(&mut host))[1..], ["ack 2"]);
}

#[test]
fn law_a_fair_log_is_shared_by_slots_first_and_by_authors_then() {
    let mut rules = retained(4, Full::Fair);
    rules.members = (1..=60).map(did).collect();
    let mut host = node(rules);
    // One slot with four authors fills it.
    let from = |author: u8, slot: u32| overlane_relay::log::Peer {
        account: did(author),
        slot,
    };
    let put = |host: &mut Node, author: u8, slot: u32, number: u64| {
        let bytes = envelope(author, number);
        let frame = Frame::Send {
            log: LOG,
            envelope: &bytes,
        }
        .to_bytes();
        host.handle_frame(from(author, slot), &frame, NOW_MS + number)
            .unwrap();
        host.flush(NOW_MS).unwrap();
        words(&owed(host)).pop().unwrap()
    };
    for author in 1..=4 {
        assert!(put(&mut host, author, 50, u64::from(author)).starts_with("ack"));
    }
    // A second slot gets half, from the newest of the first, and then no more.
    assert!(put(&mut host, 20, 51, 10).starts_with("ack"));
    assert!(put(&mut host, 21, 51, 11).starts_with("ack"));
    assert_eq!(put(&mut host, 22, 51, 12), "log/share_full");
    assert_eq!(put(&mut host, 5, 50, 13), "log/share_full");
    let held = host.store().entries(&LOG, 0, 9).unwrap();
    let authors: Vec<_> = held.iter().map(|it| it.author.0[0]).collect();
    assert_eq!(authors, [1, 2, 20, 21]);
}

#[test]
fn law_a_slot_brings_no_more_than_its_bytes() {
    let mut rules = retained(64, Full::Fair);
    rules.slot_bytes = 28 * 2;
    let mut host = node(rules);
    for number in 0..3 {
        send(&mut host, 1, &envelope(1, number));
    }
    send(&mut host, 2, &envelope(2, 0));
    host.flush(NOW_MS).unwrap();
    let mut words = words(&owed(&mut host));
    words.sort();
    assert_eq!(words, ["ack 1", "ack 2", "ack 3", "log/slot_full"]);
    // What goes gives its slot room again, after a restart too.
    let rules = host.rules().clone();
    let mut host = Logs::open(host.into_store().reopened(), rules).unwrap();
    assert!(host.remove(&LOG, &id_of(&envelope(1, 0))).unwrap());
    assert!(!host.remove(&LOG, &id_of(&envelope(1, 0))).unwrap());
    send(&mut host, 1, &envelope(1, 5));
    send(&mut host, 1, &envelope(1, 6));
    host.flush(NOW_MS).unwrap();
    assert_eq!(
        crate::support::words(&owed(&mut host)),
        ["log/slot_full", "ack 4"]
    );
}
