//! Custody of mail: story 12, the bound, and what ends it.

use overlane_core::replay::record::{Record, Table};
use overlane_core::replay::{CUSTODY_CAPACITY, Custodial, Introducer, Outcome, Refusal};

use crate::support::*;

fn hold(node: &mut Node, origin: u64, sequence: u64) -> Custodial<Item> {
    match node.admit(node.item(stream(origin), sequence, 1), Introducer::Inbox) {
        Outcome::InCustody(mail) => mail,
        other => panic!("{other:?}"),
    }
}

fn take(node: &mut Node, mail: Custodial<Item>) -> &'static str {
    let ticket = node.engine.stage_take(mail, node.now);
    word(&node.answer(ticket))
}

#[test]
pub(crate) fn law_custody_mail_enters_window_and_custody_in_one_batch_and_comes_again_until_taken_s12()
 {
    let mut node = Node::new();
    let held = [(1, 5), (1, 6), (2, 5)].map(|(origin, sequence)| hold(&mut node, origin, sequence));
    if faulty(Fault::EmptyDrainDropsCustody) {
        for mail in held {
            take(&mut node, mail);
        }
    }
    // The application took none of it before the restart. A drain that reads no mail at all
    // changes nothing, because nothing but a take and the spent instant does.
    node = node.restarted();
    assert_eq!(node.engine.custody(), 3);
    let first = hold(&mut node, 1, 5);
    let second = hold(&mut node, 1, 5);
    assert_eq!(node.engine.counters().held_again, 2);
    assert_eq!(take(&mut node, first), "replay");
    assert_eq!(take(&mut node, second), "replay/not_in_custody");
    // Taken: now it is a replay, before a restart and after.
    for node in [Node::over(node.disk.clone(), node.now), node] {
        let mut node = node;
        for introducer in [Introducer::Inbox, Introducer::Own] {
            let again = node.item(stream(1), 5, 1);
            assert_eq!(word(&node.admit(again, introducer)), "replay/replay");
        }
        assert_eq!(node.engine.custody(), 2);
    }
}

#[test]
fn law_custody_a_fork_of_held_mail_is_a_fork() {
    let mut node = Node::new();
    hold(&mut node, 1, 5);
    let forked = node.item(stream(1), 5, 2);
    assert_eq!(word(&node.admit(forked, Introducer::Inbox)), "replay/fork");
    assert_eq!(node.engine.custody(), 1);
}

#[test]
fn law_custody_a_take_is_durable_before_the_mail_is_dispatched() {
    let mut node = Node::new();
    let mail = hold(&mut node, 1, 5);
    node.engine.stage_take(mail, node.now);
    assert!(node.drain().is_empty());
    let batch = node.engine.take_batch().unwrap();
    assert!(node.drain().is_empty());
    node.engine.batch_done(batch.id, Err(io_error())).unwrap();
    let (_, outcome) = node.drain().remove(0);
    assert_eq!(word(&outcome), "replay/store_failed");
    assert_eq!(node.engine.custody(), 1, "the failed take is undone");
    let mut node = node.restarted();
    let mail = hold(&mut node, 1, 5);
    assert_eq!(take(&mut node, mail), "replay");
}

#[test]
fn law_custody_sixty_four_mails_in_the_whole_store() {
    let mut node = Node::new();
    let mut mails: Vec<_> = (0..CUSTODY_CAPACITY as u64)
        .map(|at| hold(&mut node, at % 8, 100 + at))
        .collect();
    let earliest_ms = node.now.wall_ms + 600_000 + 3_000 + 7 * DAY_MS + 3_000;
    node.pass(60_000);
    for origin in [3, 99] {
        let item = node.item(stream(origin), 500, 1);
        let Outcome::Refused { refusal, .. } = node.admit(item, Introducer::Inbox) else {
            panic!("custody is full")
        };
        let stream = stream(origin);
        assert_eq!(
            refusal,
            Refusal::RelayCustodyFull {
                stream,
                earliest_ms
            }
        );
    }
    assert_eq!(
        node.engine.receiver(&stream(99)),
        None,
        "a refusal costs nothing"
    );
    // Live traffic is not concerned, and what is held comes again.
    let item = node.item(stream(3), 500, 1);
    assert_eq!(word(&node.admit(item, Introducer::Own)), "advance");
    hold(&mut node, 7, 100 + 63);
    let mut node = node.restarted();
    assert_eq!(node.engine.custody(), CUSTODY_CAPACITY);
    assert_eq!(take(&mut node, mails.remove(0)), "first");
    hold(&mut node, 99, 500);
    let line = node.engine.bounds().find(|it| it.name == "replay_custody");
    assert_eq!(line.unwrap().current, 64);
}

#[test]
fn law_custody_ends_when_the_mail_is_spent_and_not_before() {
    let mut node = Node::new();
    let slot = Introducer::Slot(node.engine.claim_slot(did(1)).unwrap());
    node.admit(node.item(stream(50), 1, 1), slot);
    let mail = hold(&mut node, 1, 5);
    let life_ms = 600_000 + 3_000 + 7 * DAY_MS + 3_000;
    node.pass(life_ms);
    node.admit(node.item(stream(50), 2, 1), slot);
    node.admit(node.item(stream(50), 3, 1), slot);
    assert_eq!(node.engine.custody(), 1, "its last instant");
    node.pass(1);
    node.admit(node.item(stream(50), 4, 1), slot);
    assert_eq!(node.engine.custody(), 0);
    assert_eq!(node.engine.counters().custody_expired, 1);
    assert_eq!(take(&mut node, mail), "replay/not_in_custody");
}

#[test]
fn law_custody_is_in_the_record_of_its_stream() {
    let mut node = Node::new();
    hold(&mut node, 1, 5);
    let mail = hold(&mut node, 1, 6);
    take(&mut node, mail);
    let Some(Record::Receiver(record)) = node.disk.record(Table::Receiver, &stream(1)) else {
        panic!("a receiver")
    };
    let held: Vec<_> = record.custody.iter().map(|it| it.sequence).collect();
    assert_eq!(held, [5]);
    assert_eq!(record.introducer, Introducer::Inbox);
}
