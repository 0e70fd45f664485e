//! Names on two links: what stays the same, what is counted, and what passes through a node. After the
//! list of situations that an implementation of seed 3 was tested with.

use crate::mesh::{mesh, object, pair, promise};
use overlane_relay::refs::table::{Answer, Event, Local, PromiseState};
use overlane_relay::refs::wire::{Body, Op, Outcome, Slot};
use overlane_relay::refs::{Limits, SendError};

fn data(bytes: &[u8]) -> Outcome<Local> {
    Outcome::Data(Body::data(bytes))
}

#[test]
fn law_a_name_is_stable_and_the_same_at_both_ends() {
    let mut mesh = pair();
    let (x, y) = (mesh.export(0), mesh.export(0));
    let x_there = mesh.give(0, 1, x);
    let first = mesh.name(0, 1, x).unwrap();
    mesh.send(0, mesh.door(0, 1), Body::of([x.into(), x.into(), y.into()]));
    mesh.deliver(0, 1);
    let handed = mesh.handed(1);
    assert_eq!(handed[..2], [x_there, x_there]);
    assert_ne!(handed[2], x_there);
    assert_eq!(mesh.name(0, 1, x), Some(first));
    let there = mesh.name(1, 0, x_there).unwrap();
    assert_eq!(there.id.number, first.id.number);
    assert_ne!(
        there.id.side, first.id.side,
        "the side flips with the direction"
    );
    assert!(first.ours && !there.ours);
}

/// A reference that goes home is what it was, and no new name is made for it.
#[test]
fn law_a_reference_goes_home_as_itself() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    let before = mesh.view(0, 1);
    mesh.mention(1, 0, held);
    mesh.deliver(1, 0);
    assert_eq!(mesh.handed(0), [x.into()]);
    assert_eq!(
        (mesh.view(0, 1).exports, mesh.view(0, 1).imports),
        (before.exports, before.imports)
    );
}

#[test]
fn law_frames_without_a_number_are_counted() {
    let limits = Limits {
        explicit_seq: false,
        ..Limits::default()
    };
    let mut mesh = mesh(2, &[(0, 1)], limits);
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.send(1, held, Body::data(b"hi"));
    mesh.release(1, held);
    mesh.deliver_all();
    assert_eq!(mesh.got(0, x), [b"hi"]);
    assert_eq!(mesh.view(0, 1).recv.0, 2);
    mesh.rest();
    assert_eq!(mesh.name(0, 1, x), None);
}

/// The door is an export like any other: counted, and freed by a drop.
#[test]
fn law_the_door_is_an_ordinary_reference() {
    let mut mesh = pair();
    assert_eq!((mesh.view(0, 1).exports, mesh.view(0, 1).imports), (1, 1));
    let door = mesh.door(1, 0);
    mesh.release(1, door);
    mesh.deliver_all();
    assert_eq!(mesh.view(0, 1).exports, 0);
    let there = mesh.nodes[0].door;
    assert!(mesh.nodes[0].events.contains(&Event::Unreferenced(there)));
    let gone = mesh.try_send(1, door, Body::data(b""), Answer::Unwanted);
    assert_eq!(gone, Err(SendError::NotHeld));
}

/// A reference counts for each importer, and is freed by the last.
#[test]
fn law_two_importers_hold_an_object_until_both_let_go() {
    let mut mesh = mesh(3, &[(0, 1), (0, 2)], Limits::default());
    let x = mesh.export(0);
    let one = mesh.give(0, 1, x);
    let two = mesh.give(0, 2, x);
    mesh.release(0, x);
    mesh.release(1, one);
    mesh.deliver_all();
    assert!(!mesh.nodes[0].events.contains(&Event::Unreferenced(x)));
    mesh.release(2, two);
    mesh.deliver_all();
    assert!(mesh.nodes[0].events.contains(&Event::Unreferenced(x)));
    assert_eq!(mesh.nodes[0].tables.object(x), None);
}

/// Several references let go of in a step are one DROP.
#[test]
fn law_drops_of_one_step_are_one_operation() {
    let mut mesh = pair();
    let (x, y) = (mesh.export(0), mesh.export(0));
    let there = mesh.promise(1);
    mesh.send(0, mesh.door(0, 1), Body::of([x.into(), y.into()]));
    mesh.deliver(0, 1);
    let held = mesh.handed(1);
    // A promise holds both; the handles go first.
    mesh.resolve(1, there, Outcome::Data(Body::of(held.clone())));
    let told = mesh.told(1, there).len();
    assert_eq!(told, 1);
    for &local in held.iter().chain(&held) {
        mesh.release(1, local);
    }
    assert!(mesh.under_way[&(1, 0)].is_empty());
    mesh.release(1, there);
    let ops = mesh.next_ops(1, 0);
    assert!(
        matches!(&ops[..], [Op::Drop(ids)] if ids.len() == 2),
        "{ops:?}"
    );
    mesh.rest();
}

/// The result of a message that passes through a node is resolved through it as well.
#[test]
fn law_an_answer_comes_back_the_way_of_the_question() {
    let mut mesh = mesh(3, &[(0, 1), (1, 2)], Limits::default());
    let x = mesh.export(2);
    let middle = mesh.give(2, 1, x);
    let far = mesh.give(1, 0, middle);
    let answer = mesh.ask(0, far, b"question");
    mesh.deliver(0, 1);
    mesh.deliver(1, 2);
    assert!(mesh.nodes[1].events.is_empty(), "node 1 only passes it on");
    let result = mesh.nodes[2].events.iter().find_map(|event| match event {
        Event::Deliver { result, .. } => *result,
        _ => None,
    });
    let y = mesh.export(2);
    mesh.resolve(2, result.unwrap(), Outcome::Reference(y.into()));
    mesh.send(0, answer, Body::data(b"pipelined"));
    mesh.deliver_all();
    assert_eq!(mesh.got(2, y), [b"pipelined"]);
    let told = mesh.told(0, answer);
    let [Outcome::Reference(y_far)] = told[..] else {
        panic!("{told:?}");
    };
    mesh.send(0, y_far, Body::data(b"direct"));
    mesh.deliver_all();
    assert_eq!(mesh.got(2, y), [&b"pipelined"[..], b"direct"]);
    mesh.rest();
}

/// Pipelined messages reach what the answer becomes, in order.
#[test]
fn law_messages_to_an_answer_wait_for_it() {
    let mut mesh = pair();
    let question = mesh.ask(0, mesh.door(0, 1), b"question");
    mesh.send(0, question, Body::data(b"one"));
    mesh.deliver(0, 1);
    mesh.deliver(0, 1);
    mesh.send(0, question, Body::data(b"two"));
    let result = mesh.nodes[1].events.iter().find_map(|event| match event {
        Event::Deliver { result, .. } => *result,
        _ => None,
    });
    let y = mesh.export(1);
    mesh.resolve(1, result.unwrap(), Outcome::Reference(y.into()));
    mesh.deliver_all();
    mesh.send(0, question, Body::data(b"three"));
    mesh.deliver_all();
    assert_eq!(mesh.got(1, y), [&b"one"[..], b"two", b"three"]);
    mesh.rest();
}

/// The four cases of a promise within a promise: each is decided here or there.
#[test]
fn law_nested_promises_are_resolved_whoever_decides_them() {
    for outer_here in [true, false] {
        for inner_here in [true, false] {
            let mut mesh = pair();
            let (outer_at, inner_at) = (usize::from(!outer_here), usize::from(!inner_here));
            let outer = mesh.promise(outer_at);
            let outer_far = promise(mesh.give(outer_at, 1 - outer_at, outer));
            let inner = mesh.promise(inner_at);
            let inner_far = promise(mesh.give(inner_at, 1 - inner_at, inner));
            let at_outer = if outer_at == inner_at {
                inner
            } else {
                inner_far
            };
            mesh.resolve(outer_at, outer, Outcome::Data(Body::of([at_outer.into()])));
            mesh.resolve(inner_at, inner, data(b"inner"));
            mesh.rest();
            assert_eq!(mesh.told(1 - inner_at, inner_far), [data(b"inner")]);
            assert_eq!(mesh.told(1 - outer_at, outer_far).len(), 1);
            assert_eq!((mesh.view(0, 1).promises, mesh.view(1, 0).promises), (0, 0));
        }
    }
}

#[test]
fn law_a_rejection_may_hold_its_own_promise() {
    let mut mesh = pair();
    let p = mesh.promise(0);
    let held = mesh.give(0, 1, p);
    mesh.resolve(0, p, Outcome::Rejected(Body::of([p.into()])));
    mesh.rest();
    assert_eq!(
        mesh.told(1, promise(held)),
        [Outcome::Rejected(Body::of([held]))]
    );
    for (at, local) in [(0, Local::from(p)), (1, held)] {
        while mesh.nodes[at].tables.handles(local) > 0 {
            mesh.release(at, local);
        }
        assert_eq!(mesh.nodes[at].tables.known().1, 0);
    }
}

/// A resolved promise used later, as an argument, by either side, towards either side: a fresh name
/// that goes with its acknowledgement.
#[test]
fn law_a_resolved_promise_is_mentioned_by_a_fresh_name() {
    for decided_here in [true, false] {
        for used_here in [true, false] {
            let mut mesh = pair();
            let (decider, user) = (usize::from(!decided_here), usize::from(!used_here));
            let p = mesh.promise(decider);
            let far = promise(mesh.give(decider, 1 - decider, p));
            mesh.resolve(decider, p, data(b"42"));
            mesh.rest();
            mesh.nodes[1 - user].events.clear();
            let used = if user == decider { p } else { far };
            mesh.mention(user, 1 - user, used);
            let ops = mesh.next_ops(user, 1 - user);
            assert!(
                matches!(&ops[..], [Op::Deliver { .. }, Op::Resolve(_)]),
                "{ops:?}"
            );
            mesh.deliver(user, 1 - user);
            let fresh = promise(mesh.handed(1 - user)[0]);
            assert_eq!(mesh.told(1 - user, fresh), [data(b"42")]);
            mesh.rest();
            assert_eq!(mesh.view(0, 1).promises + mesh.view(1, 0).promises, 0);
        }
    }
}

#[test]
fn law_the_application_resolves_only_what_it_decides_and_mentions_only_what_it_holds() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    let question = mesh.ask(1, held, b"question");
    let tables = &mut mesh.nodes[1].tables;
    assert_eq!(
        tables.promise(question),
        Some(PromiseState::Elsewhere(crate::mesh::link(0)))
    );
    assert_eq!(
        tables.resolve(question, data(b"mine"), 0),
        Err(SendError::NotDecider)
    );
    let hard = overlane_relay::refs::wire::Hardness::Hard;
    let reason = overlane_relay::refs::wire::Reason::FIRST_FREE;
    let refused = tables.revoke(object(held), hard, reason, b"", 0);
    assert_eq!(refused, Err(SendError::NotOwner));
    tables.release(held, 0).unwrap();
    let body = Body {
        slots: vec![Slot::Ref(held)],
        bytes: b""[..].into(),
    };
    let door = mesh.door(1, 0);
    let refused = mesh.try_send(1, door, body, Answer::Unwanted);
    assert_eq!(refused, Err(SendError::NotHeld));
}
