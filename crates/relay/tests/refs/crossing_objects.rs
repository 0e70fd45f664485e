//! Messages that cross, of objects. Node 0 owns, node 1 imports. The numbers are those of the table of
//! crossings in `papers/references.tex`.

use crate::mesh::{WHY, link, mesh, object, pair, revoked};
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{Answer, Event, ObjectState};
use overlane_relay::refs::wire::{Body, Frame, Hardness, Op, Slot};

#[test]
fn law_crossing_01_plain_drop() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.release(1, held);
    let Frame::Numbered(frame) = mesh.next(1, 0) else {
        panic!("a drop is numbered");
    };
    assert_eq!(frame.ack_delta, 1, "the drop has seen the mention");
    assert!(matches!(&frame.ops[..], [Op::Drop(ids)] if ids.len() == 1));
    assert_eq!(mesh.view(1, 0).tombstones, 1);
    mesh.deliver(1, 0);
    assert_eq!(mesh.name(0, 1, x), None);
    assert_eq!(mesh.nodes[0].counts.drops_executed, 1);
    assert!(mesh.nodes[0].events.contains(&Event::Unreferenced(x)));
    mesh.say(0, 1);
    mesh.deliver(0, 1);
    assert_eq!(mesh.view(1, 0).tombstones, 0);
}

#[test]
fn law_crossing_02_and_03_a_mention_crosses_a_drop_and_the_next_drop_is_executed() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let first = mesh.give(0, 1, x);
    let name = mesh.name(0, 1, x);
    mesh.release(1, first);
    mesh.mention(0, 1, x);
    mesh.deliver(1, 0);
    assert_eq!(mesh.nodes[0].counts.drops_uninformed, 1);
    assert_eq!(mesh.name(0, 1, x), name, "the name stays");
    mesh.deliver(0, 1);
    let again = mesh.handed(1)[0];
    assert_ne!(again, first);
    assert_eq!(mesh.nodes[1].counts.resurrections, 1);
    assert_eq!(
        mesh.nodes[1].tables.object(object(again)),
        Some(ObjectState::Live)
    );

    mesh.release(1, again);
    mesh.deliver(1, 0);
    assert_eq!(mesh.nodes[0].counts.drops_executed, 1);
    assert_eq!(mesh.name(0, 1, x), None);
    mesh.rest();
}

#[test]
fn law_crossing_04_a_mention_after_the_drop_has_a_new_name() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let first = mesh.give(0, 1, x);
    let old = mesh.name(0, 1, x).unwrap().id.number;
    mesh.release(1, first);
    mesh.deliver(1, 0);
    mesh.mention(0, 1, x);
    assert_eq!(mesh.name(0, 1, x).unwrap().id.number, old + 1);
    mesh.deliver(0, 1);
    assert_eq!(mesh.nodes[1].counts.resurrections, 0);
    assert_eq!(
        mesh.view(1, 0).tombstones,
        0,
        "the same frame acknowledged the drop"
    );
    mesh.rest();
}

#[test]
fn law_crossing_05_a_message_before_the_drop_arrives() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.send(1, held, Body::data(b"last words"));
    mesh.release(1, held);
    mesh.deliver(1, 0);
    mesh.deliver(1, 0);
    assert_eq!(mesh.got(0, x), [b"last words"]);
    assert_eq!(mesh.name(0, 1, x), None);
}

#[test]
fn law_crossing_06_an_argument_goes_home_before_the_drop() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.mention(1, 0, held);
    mesh.release(1, held);
    mesh.deliver(1, 0);
    mesh.deliver(1, 0);
    assert_eq!(mesh.handed(0), [x.into()]);
    assert_eq!(mesh.name(0, 1, x), None);
}

#[test]
fn law_crossing_15_a_soft_revocation_crosses_a_message() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.revoke(0, x, Hardness::Soft);
    let early = mesh.ask(1, held, b"crosses");
    mesh.deliver(1, 0);
    assert!(mesh.got(0, x).is_empty());
    assert!(mesh.nodes[0].tables.keeps_error(x));
    mesh.deliver_all();
    assert_eq!(mesh.told(1, early), [revoked()]);
    let state = mesh.nodes[1].tables.object(object(held));
    assert_eq!(state, Some(ObjectState::Revoked(WHY)));

    let late = mesh.ask(1, held, b"answered here");
    assert_eq!(mesh.told(1, late), [revoked()]);
    assert!(mesh.under_way[&(1, 0)].is_empty());
    mesh.say(1, 0);
    mesh.deliver(1, 0);
    assert!(!mesh.nodes[0].tables.keeps_error(x), "everyone has seen it");
    // The identity stays: it goes home as what it was.
    mesh.nodes[0].events.clear();
    mesh.mention(1, 0, held);
    mesh.deliver(1, 0);
    assert_eq!(mesh.handed(0), [x.into()]);
}

#[test]
fn law_crossing_16_a_soft_revocation_crosses_a_drop() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.revoke(0, x, Hardness::Soft);
    mesh.release(1, held);
    mesh.deliver(1, 0);
    assert_eq!(mesh.nodes[0].counts.drops_executed, 1);
    assert!(!mesh.nodes[0].tables.keeps_error(x));
    mesh.rest();
    assert_eq!(mesh.name(0, 1, x), None);
    assert_eq!(mesh.view(1, 0).imports, 1, "the door");
}

/// The hole of the seed as it is written: forgotten by the importer, alive again, and unrevoked.
#[test]
fn law_crossing_17_a_revocation_and_a_mention_cross_a_drop() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.release(1, held);
    mesh.revoke(0, x, Hardness::Soft);
    mesh.mention(0, 1, x);
    mesh.deliver(1, 0);
    assert_eq!(mesh.nodes[0].counts.drops_uninformed, 1);
    mesh.deliver(0, 1);
    mesh.deliver(0, 1);
    let again = mesh.handed(1)[0];
    let state = mesh.nodes[1].tables.object(object(again));
    assert_eq!(state, Some(ObjectState::Revoked(WHY)));
    mesh.rest();
    let answer = mesh.ask(1, again, b"answered here");
    assert!(mesh.under_way[&(1, 0)].is_empty());
    assert_eq!(mesh.told(1, answer).len(), 1);
}

#[test]
fn law_crossing_18_a_hard_revocation_crosses_a_message_and_an_argument() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.revoke(0, x, Hardness::Hard);
    let answer = mesh.ask(1, held, b"crosses");
    mesh.mention(1, 0, held);
    mesh.deliver(1, 0);
    mesh.deliver(1, 0);
    let slots = mesh.nodes[0].events.iter().find_map(|event| match event {
        Event::Deliver { body, .. } => Some(body.slots.clone()),
        _ => None,
    });
    assert_eq!(
        slots,
        Some(vec![Slot::Broken(WHY)]),
        "the message itself arrives"
    );
    mesh.deliver_all();
    assert_eq!(mesh.told(1, answer), [revoked()]);
    assert_eq!(mesh.name(1, 0, held), None);
    mesh.say(1, 0);
    mesh.deliver_all();
    assert_eq!(mesh.name(0, 1, x), None);
    mesh.release(1, held);
    assert!(
        mesh.under_way[&(1, 0)].is_empty(),
        "there is nothing left to drop"
    );
    mesh.rest();
}

#[test]
fn law_crossing_19_a_hard_revocation_crosses_a_drop() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.revoke(0, x, Hardness::Hard);
    mesh.release(1, held);
    mesh.deliver(1, 0);
    assert_eq!(mesh.name(0, 1, x), None);
    mesh.rest();
    assert_eq!(mesh.ended(0), None);
    assert_eq!(mesh.ended(1), None);
}

#[test]
fn law_crossing_20_a_revoked_object_is_introduced_as_revoked() {
    let mut mesh = mesh(3, &[(0, 1), (0, 2)], Limits::default());
    let x = mesh.export(0);
    mesh.give(0, 1, x);
    mesh.revoke(0, x, Hardness::Soft);
    mesh.rest();
    assert!(!mesh.nodes[0].tables.keeps_error(x));
    mesh.mention(0, 2, x);
    let ops = mesh.next_ops(0, 2);
    assert!(
        matches!(&ops[..], [Op::Deliver { .. }, Op::Revoke(_)]),
        "{ops:?}"
    );
    assert_eq!(mesh.view(0, 2).revokes_outstanding, 1);
    assert_eq!(mesh.view(0, 1).revokes_outstanding, 0);
    mesh.deliver(0, 2);
    let held = object(mesh.handed(2)[0]);
    assert_eq!(
        mesh.nodes[2].tables.object(held),
        Some(ObjectState::Revoked(WHY))
    );
    mesh.rest();
}

#[test]
fn law_crossing_21_the_error_is_kept_for_the_importer_that_is_silent() {
    for ends in [false, true] {
        let mut mesh = mesh(3, &[(0, 1), (0, 2)], Limits::default());
        let x = mesh.export(0);
        mesh.give(0, 1, x);
        mesh.give(0, 2, x);
        mesh.revoke(0, x, Hardness::Soft);
        mesh.deliver(0, 1);
        mesh.say(1, 0);
        mesh.deliver(1, 0);
        assert!(
            mesh.nodes[0].tables.keeps_error(x),
            "node 2 has not seen it"
        );
        if ends {
            let step = mesh.nodes[0].tables.end_epoch(link(2), 0).unwrap();
            mesh.take(0, step);
        } else {
            mesh.deliver(0, 2);
            mesh.say(2, 0);
            mesh.deliver(2, 0);
        }
        assert!(!mesh.nodes[0].tables.keeps_error(x));
    }
}

#[test]
fn law_crossing_22_a_result_outlives_its_target() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    let answer = mesh.ask(1, held, b"question");
    mesh.release(1, held);
    mesh.deliver(1, 0);
    mesh.deliver(1, 0);
    assert_eq!(mesh.name(0, 1, x), None);
    let result = mesh.nodes[0].events.iter().find_map(|event| match event {
        Event::Deliver { result, .. } => *result,
        _ => None,
    });
    let reply = overlane_relay::refs::wire::Outcome::Data(Body::data(b"reply"));
    mesh.resolve(0, result.unwrap(), reply.clone());
    mesh.deliver_all();
    assert_eq!(mesh.told(1, answer), [reply]);
}

/// Node 1 passes on what node 0 owns to node 2.
#[test]
fn law_crossing_25_a_third_party_drops_what_was_passed_on() {
    let mut mesh = mesh(3, &[(0, 1), (1, 2)], Limits::default());
    let x = mesh.export(0);
    let larry = mesh.give(0, 1, x);
    let bob = mesh.give(1, 2, larry);
    mesh.release(1, larry);
    assert!(
        mesh.under_way[&(1, 0)].is_empty(),
        "node 2 holds it through node 1"
    );
    mesh.send(2, bob, Body::data(b"through"));
    mesh.deliver_all();
    assert_eq!(mesh.got(0, x), [b"through"]);

    mesh.release(2, bob);
    mesh.deliver(2, 1);
    assert!(
        matches!(&mesh.next_ops(1, 0)[..], [Op::Drop(_)]),
        "the drop goes on"
    );
    // A mention crosses it: ignored, and the name comes back.
    mesh.mention(0, 1, x);
    mesh.deliver(1, 0);
    assert_eq!(mesh.nodes[0].counts.drops_uninformed, 1);
    mesh.rest();
    assert!(mesh.name(0, 1, x).is_some());
}

/// What is in a message that the application has not looked at is held.
#[test]
fn law_crossing_32_a_message_not_yet_taken_holds_its_references() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.mention(0, 1, x);
    mesh.deliver(0, 1);
    assert_eq!(mesh.handed(1), [held], "waits in the application's inbox");
    mesh.release(1, held);
    assert!(mesh.under_way[&(1, 0)].is_empty(), "no drop is decided");
    mesh.release(1, held);
    assert!(matches!(&mesh.next_ops(1, 0)[..], [Op::Drop(_)]));
}

#[test]
fn law_a_taboo_object_is_refused_before_anything_is_sent() {
    let mut mesh = pair();
    let x = mesh.export(0);
    mesh.give(0, 1, x);
    mesh.revoke(0, x, Hardness::Hard);
    let door = mesh.door(0, 1);
    let refused = mesh.try_send(0, door, Body::of([x.into()]), Answer::Unwanted);
    assert_eq!(refused, Err(overlane_relay::refs::SendError::Taboo));
}
