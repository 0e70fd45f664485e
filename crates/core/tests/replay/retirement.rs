//! Spent streams, two-clock retirement and the mail floor.

use overlane_core::Class;
use overlane_core::replay::record::Table;
use overlane_core::replay::{
    INBOX_SHARE, Introducer, Outcome, RIPE_MS, Refusal, Slot, WITNESS_LIFE_MS, spent_ms,
};
use overlane_core::store::{Effect, Found};

use crate::support::*;

/// A node with a peer whose traffic on stream 50 witnesses the clock.
struct Watched {
    node: Node,
    slot: Slot,
    ticks: u64,
}

impl Watched {
    fn new() -> Self {
        Self::over(Node::new())
    }

    fn over(mut node: Node) -> Self {
        let slot = node.engine.claim_slot(did(50)).unwrap();
        let ticks = node
            .engine
            .receiver(&stream(50))
            .map_or(0, |it| it.window.high());
        let mut watched = Self { node, slot, ticks };
        watched.witness();
        watched
    }

    /// A fresh transaction of the peer: the admission that retires what is spent.
    fn tick(&mut self) -> Outcome<Item> {
        self.ticks += 1;
        let item = self.node.item(stream(50), self.ticks, 1);
        self.node.admit(item, Introducer::Slot(self.slot))
    }

    fn witness(&mut self) {
        self.tick();
        self.tick();
    }

    fn restarted(self) -> Self {
        Self::over(self.node.restarted())
    }

    fn pass(&mut self, ms: u64) {
        self.node.pass(ms);
    }

    fn holds(&self, origin: u64, class: Class) -> bool {
        self.node
            .engine
            .receiver(&stream_of(origin, class))
            .is_some()
    }

    fn admit(&mut self, item: Item, introducer: Introducer) -> &'static str {
        word(&self.node.admit(item, introducer))
    }
}

/// A control transaction lives 600 s; its stream is spent 3 s later.
const CONTROL_SPENT_MS: u64 = 600_000 + 3_000;

#[test]
fn law_two_clocks_a_stream_retires_only_by_both_clocks_and_a_witness() {
    for (wall_spent, ripe, witness) in (0..8).map(|it| (it & 1 == 1, it & 2 == 2, it & 4 == 4)) {
        let mut watched = Watched::new();
        let item = watched.node.item(stream_of(7, Class::Control), 5, 1);
        watched.admit(item, Introducer::Own);
        let wall_ms = if wall_spent {
            RIPE_MS.max(CONTROL_SPENT_MS + 1)
        } else {
            CONTROL_SPENT_MS
        };
        watched.node.now.wall_ms += wall_ms;
        watched.node.now.steady_ms += if ripe { RIPE_MS } else { RIPE_MS - 1 };
        if witness {
            watched.witness();
        } else {
            // A proof of yesterday does not say what time it is.
            let mut item = watched.node.item(stream(50), watched.ticks + 1, 1);
            item.issued_ms -= DAY_MS;
            watched.admit(item, Introducer::Slot(watched.slot));
        }
        let retired = wall_spent && ripe && witness;
        assert_eq!(
            watched.holds(7, Class::Control),
            !retired,
            "{wall_spent} {ripe} {witness}"
        );
        assert_eq!(
            watched.node.engine.counters().retired_receiver,
            u64::from(retired)
        );
        let record = watched
            .node
            .disk
            .record(Table::Receiver, &stream_of(7, Class::Control));
        assert_eq!(record.is_none(), retired);
        let floor = if retired { watched.node.now.wall_ms } else { 0 };
        assert_eq!(watched.node.engine.floor().mail_ms, floor);
    }
}

#[test]
fn law_spent_streams_of_each_class_retire_in_their_time() {
    let mut watched = Watched::new();
    let start_ms = watched.node.now.wall_ms;
    for (origin, class) in (1..).zip(Class::ALL) {
        let item = watched.node.item(stream_of(origin, class), 5, 1);
        watched.admit(item, Introducer::Own);
    }
    let spent = spent_ms(Class::Application, start_ms + 600_000) - start_ms;
    for (after_ms, application) in [(RIPE_MS, true), (spent, true), (spent + 1, false)] {
        watched.pass(start_ms + after_ms - watched.node.now.wall_ms);
        watched.witness();
        for (origin, class) in (1..).zip(Class::ALL) {
            let held = watched.holds(origin, class);
            assert_eq!(held, application && class == Class::Application);
        }
    }
}

#[test]
fn law_two_clocks_a_stream_in_use_is_not_retired() {
    let mut watched = Watched::new();
    for sequence in 0..40 {
        let item = watched.node.item(stream_of(7, Class::Control), sequence, 1);
        watched.admit(item, Introducer::Own);
        watched.pass(RIPE_MS / 3);
        watched.witness();
        assert!(watched.holds(7, Class::Control));
    }
    watched.pass(RIPE_MS);
    watched.witness();
    assert!(!watched.holds(7, Class::Control));
}

#[test]
fn law_retirement_rides_in_the_batch_of_the_admission_that_triggered_it() {
    let mut watched = Watched::new();
    for origin in 0..10 {
        let item = watched.node.item(stream_of(origin, Class::Control), 5, 1);
        watched.admit(item, Introducer::Own);
    }
    let before: Vec<_> = watched.node.engine.receivers().cloned().collect();
    watched.pass(RIPE_MS);
    let now = watched.node.now;
    watched.node.engine.handle_witness(now.wall_ms, now);
    let item = watched.node.item(stream(60), 1, 1);
    watched.node.offer(item.clone(), Introducer::Own);
    let batch = watched.node.engine.take_batch().unwrap();
    let removed = batch
        .changes
        .iter()
        .filter(|it| matches!(it.effect, Effect::Remove));
    assert_eq!((removed.count(), batch.changes.len()), (10, 12));
    // A refusal of a store that is full fails it all, and the streams are there again.
    let full = overlane_core::store::StoreError::BudgetExhausted {
        budget_bytes: 0,
        needed_bytes: 1,
    };
    watched.node.engine.batch_done(batch.id, Err(full)).unwrap();
    assert_eq!(
        watched.node.engine.receivers().cloned().collect::<Vec<_>>(),
        before
    );
    assert_eq!(watched.node.engine.charged(Introducer::Own), 10);
    assert_eq!(watched.node.engine.floor().mail_ms, 0);
    assert_eq!(watched.node.engine.counters().retired_receiver, 0);
    assert_eq!(watched.admit(item, Introducer::Own), "first");
    assert_eq!(watched.node.engine.charged(Introducer::Own), 1);
}

#[test]
fn law_spent_a_full_share_ends_when_its_streams_are_spent() {
    let mut watched = Watched::new();
    for origin in 0..INBOX_SHARE as u64 {
        let item = watched
            .node
            .item(stream_of(1_000 + origin, Class::Application), 5, 1);
        watched.pass(4);
        let Outcome::InCustody(mail) = watched.node.admit(item, Introducer::Inbox) else {
            panic!("held")
        };
        let taken = watched.node.engine.stage_take(mail, watched.node.now);
        watched.node.answer(taken);
    }
    let item = watched.node.item(stream(5), 5, 1);
    assert_eq!(
        watched.admit(item, Introducer::Inbox),
        "replay/stream_share_full"
    );
    watched.pass(8 * DAY_MS);
    watched.witness();
    let item = watched.node.item(stream(5), 5, 1);
    assert_eq!(watched.admit(item, Introducer::Inbox), "held");
}

/// A day or ten years: how far a clock may jump, and come back.
const JUMPS_MS: [u64; 2] = [DAY_MS, 10 * YEAR_MS];

#[test]
fn law_mail_floor_a_clock_that_jumps_forward_and_comes_back_reopens_no_replay() {
    for jump_ms in JUMPS_MS {
        let mut watched = Watched::new();
        let mail = watched.node.item(stream(7), 5, 1);
        assert_eq!(watched.admit(mail.clone(), Introducer::Own), "first");
        let live = watched.node.item(stream_of(7, Class::E2e), 5, 1);
        assert_eq!(watched.admit(live, Introducer::Own), "first");
        watched.node.now.wall_ms += jump_ms;
        watched.node.now.steady_ms += RIPE_MS;
        // Everyone who is heard has the wrong time too.
        watched.witness();
        assert!(!watched.holds(7, Class::E2e));
        watched.node.now.wall_ms -= jump_ms;
        let gone = jump_ms > 7 * DAY_MS;
        assert_eq!(watched.holds(7, Class::Application), !gone);
        for restart in [false, true] {
            if restart {
                watched = watched.restarted();
            }
            // The mail would still be live by this clock: a holder may bring it again.
            let answer = watched.admit(mail.clone(), Introducer::Inbox);
            let refused = if gone {
                "replay/spent_mail"
            } else {
                "replay/replay"
            };
            assert_eq!(answer, refused);
            // Live traffic of old and new streams goes on.
            assert_eq!(word(&watched.tick()), "advance");
            let fresh = watched.node.item(stream(70 + u64::from(restart)), 1, 1);
            let slot = Introducer::Slot(watched.slot);
            assert_eq!(watched.admit(fresh, slot), "first");
        }
    }
}

#[test]
fn law_mail_floor_a_stream_that_started_again_admits_nothing_of_its_former_life() {
    let mut watched = Watched::new();
    let mail = watched.node.item(stream(7), 5, 1);
    assert_eq!(watched.admit(mail.clone(), Introducer::Own), "first");
    watched.node.now.wall_ms += 8 * DAY_MS;
    watched.node.now.steady_ms += RIPE_MS;
    watched.witness();
    assert!(!watched.holds(7, Class::Application));
    watched.node.now.wall_ms -= 8 * DAY_MS;
    watched.witness();
    // Its origin goes on: the window that starts with this has a free place for the mail.
    let fresh = watched.node.item(stream(7), 6, 1);
    let slot = Introducer::Slot(watched.slot);
    assert_eq!(watched.admit(fresh, slot), "first");
    for restart in [false, true] {
        if restart {
            watched.node = watched.node.restarted();
        }
        assert_eq!(
            watched.admit(mail.clone(), Introducer::Inbox),
            "replay/spent_mail"
        );
    }
    // Nor does it come back as live traffic, while no peer confirms the clock.
    assert_eq!(watched.admit(mail, Introducer::Own), "replay/clock_suspect");
}

#[test]
fn law_mail_floor_mail_is_no_news_to_a_stream_that_an_older_transaction_started_again() {
    let mut watched = Watched::new();
    let withheld = watched.node.item(stream(7), 4, 1);
    let mail = watched.node.item(stream(7), 5, 1);
    assert_eq!(watched.admit(mail.clone(), Introducer::Own), "first");
    watched.node.now.wall_ms += 8 * DAY_MS;
    watched.node.now.steady_ms += RIPE_MS;
    watched.witness();
    watched.node.now.wall_ms -= 8 * DAY_MS;
    watched.witness();
    let slot = Introducer::Slot(watched.slot);
    assert_eq!(watched.admit(withheld, slot), "first");
    assert_eq!(watched.admit(mail, Introducer::Inbox), "replay/spent_mail");
}

#[test]
fn law_two_clocks_a_clock_set_back_reopens_no_replay() {
    for jump_ms in JUMPS_MS {
        let mut watched = Watched::new();
        let live = watched.node.item(stream_of(7, Class::Storage), 5, 1);
        assert_eq!(watched.admit(live.clone(), Introducer::Own), "first");
        watched.pass(RIPE_MS);
        watched.witness();
        assert!(!watched.holds(7, Class::Storage));
        // By the clock set back, the proof that was retired is live again.
        watched.node.now.wall_ms -= jump_ms;
        for restart in [false, true] {
            if restart {
                watched.node = watched.node.restarted();
            }
            let outcome = watched.node.admit(live.clone(), Introducer::Own);
            let Outcome::Refused { refusal, .. } = outcome else {
                panic!("a replay was reopened")
            };
            assert!(matches!(refusal, Refusal::ClockSuspect { .. }), "{refusal}");
        }
        // Nothing is lost: the clock set right, traffic goes on.
        watched.node.now.wall_ms += jump_ms;
        let fresh = watched.node.item(stream_of(7, Class::Storage), 6, 1);
        assert_eq!(watched.admit(fresh, Introducer::Own), "first");
    }
}

#[test]
fn law_two_clocks_a_copy_that_waited_past_its_proof_is_expired() {
    let mut watched = Watched::new();
    let slot = Introducer::Slot(watched.slot);
    // Two copies are verified while the proof lives; one waits behind a handler for hours.
    let waits = watched.node.item(stream_of(7, Class::E2e), 5, 1);
    assert_eq!(watched.admit(waits.clone(), slot), "first");
    watched.pass(600_000);
    assert_eq!(watched.admit(waits.clone(), slot), "replay/replay");
    watched.pass(RIPE_MS - 600_000);
    watched.witness();
    assert!(!watched.holds(7, Class::E2e));
    assert_eq!(watched.admit(waits, slot), "replay/expired");
    assert_eq!(watched.node.engine.counters().expired, 1);
}

#[test]
fn law_two_clocks_a_jump_alone_retires_nothing() {
    for jump_ms in JUMPS_MS {
        for back in [false, true] {
            let mut watched = Watched::new();
            for class in Class::ALL {
                let item = watched.node.item(stream_of(7, class), 5, 1);
                watched.admit(item, Introducer::Own);
            }
            let wall_ms = &mut watched.node.now.wall_ms;
            *wall_ms = if back {
                *wall_ms - jump_ms
            } else {
                *wall_ms + jump_ms
            };
            for _ in 0..4 {
                watched.node.now.steady_ms += RIPE_MS / 4 - 1;
                watched.witness();
            }
            for class in Class::ALL {
                assert!(watched.holds(7, class));
                let again = watched.node.item(stream_of(7, class), 5, 1);
                assert_eq!(watched.admit(again, Introducer::Own), "replay/replay");
            }
        }
    }
}

#[test]
fn law_retirement_sender_streams_retire_and_start_again_above() {
    let mut watched = Watched::new();
    let mut last = 0;
    for _ in 0..200 {
        last = watched.node.reserve(outgoing(9), 64).unwrap() + 63;
    }
    let end = last + 1;
    watched.pass(8 * DAY_MS);
    watched.witness();
    assert_eq!(watched.node.engine.next_sequence(&outgoing(9)), None);
    assert!(
        watched
            .node
            .disk
            .record(Table::Sender, &outgoing(9))
            .is_none()
    );
    assert_eq!(watched.node.engine.counters().retired_sender, 1);
    assert_eq!(watched.node.engine.floor().sender_end, end);
    // Even by a clock that was set back ten years, before a restart and after.
    watched.node.now.wall_ms -= 10 * YEAR_MS;
    assert_eq!(watched.node.reserve(outgoing(9), 1), Ok(end));
    let mut node = watched.node.restarted();
    assert_eq!(node.reserve(outgoing(10), 1), Ok(end));
}

#[test]
fn law_retirement_a_stream_that_retires_and_starts_again_in_one_batch_is_one_change() {
    let mut watched = Watched::new();
    let first = watched.node.reserve(outgoing(9), 1).unwrap();
    let item = watched.node.item(stream(7), 5, 1);
    watched.admit(item, Introducer::Own);
    watched.pass(8 * DAY_MS);
    let now = watched.node.now;
    watched.node.engine.handle_witness(now.wall_ms, now);
    // Each call retires the stream that it then starts again.
    watched.node.engine.stage_reservation(outgoing(9), 1, now);
    let item = watched.node.item(stream(7), 6, 1);
    watched.node.offer(item, Introducer::Own);
    assert!(watched.node.write());
    let answers: Vec<_> = watched.node.drain().iter().map(|it| word(&it.1)).collect();
    assert_eq!(answers, ["reserved", "first"]);
    let counters = watched.node.engine.counters();
    assert_eq!((counters.retired_sender, counters.retired_receiver), (1, 2));
    assert!(watched.node.engine.next_sequence(&outgoing(9)).unwrap() > first + 64);
}

#[test]
fn law_retirement_a_sender_stream_in_use_renews_its_spent_instant() {
    let mut watched = Watched::new();
    let mut writes = 0;
    for _ in 0..60 {
        watched.pass(3 * 3_600_000);
        watched.node.reserve(outgoing(9), 1).unwrap();
        watched.witness();
        let record = watched.node.engine.senders().next().unwrap();
        let signed_last_ms = watched.node.now.wall_ms + 6_000_000;
        assert!(record.spent_ms >= spent_ms(Class::Application, signed_last_ms));
        writes = record.version;
    }
    assert_eq!(writes, 60, "one a renewal: leases last an hour");
    assert_eq!(watched.node.engine.counters().retired_sender, 0);
}

#[test]
fn law_mail_floor_a_bad_floor_record_holds_retirement_and_new_mail() {
    let mut watched = Watched::new();
    let item = watched.node.item(stream_of(7, Class::Control), 5, 1);
    watched.admit(item, Introducer::Own);
    watched.pass(RIPE_MS);
    watched.witness();
    let name = overlane_core::replay::record::RecordId::Floor.name();
    let mut scan = watched.node.disk.scan();
    let at = scan.records.iter().position(|(it, _)| *it == name).unwrap();
    scan.records[at].1 = Found::Missing;
    watched.node.engine.handle_scan(Ok(scan), watched.node.now);
    watched.pass(RIPE_MS);
    let item = watched.node.item(stream_of(8, Class::Control), 5, 1);
    assert_eq!(watched.admit(item, Introducer::Own), "first");
    watched.pass(RIPE_MS);
    watched.witness();
    assert!(
        watched.holds(8, Class::Control),
        "the floor cannot be raised"
    );
    let mail = watched.node.item(stream(9), 5, 1);
    assert_eq!(
        watched.admit(mail.clone(), Introducer::Inbox),
        "replay/stream_unavailable"
    );
    assert_eq!(watched.admit(mail, Introducer::Own), "first");
}

#[test]
fn a_witness_is_forgotten_in_time() {
    let mut watched = Watched::new();
    let item = watched.node.item(stream_of(7, Class::Control), 5, 1);
    watched.admit(item, Introducer::Own);
    watched.pass(RIPE_MS);
    // Ripe and spent, but the last witness is hours old, and mail is none.
    const { assert!(RIPE_MS > WITNESS_LIFE_MS) };
    let item = watched.node.item(stream(8), 5, 1);
    watched.admit(item, Introducer::Own);
    assert!(watched.holds(7, Class::Control));
}
