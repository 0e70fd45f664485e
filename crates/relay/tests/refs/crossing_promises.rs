//! Messages that cross, of promises. Node 0 decides, node 1 waits, unless a test says otherwise. The
//! numbers are those of the table of crossings in `papers/references.tex`.

use crate::mesh::{Mesh, link, mesh, object, pair, promise};
use overlane_relay::refs::table::{Answer, Event, Local, LocalPromise, PromiseState};
use overlane_relay::refs::wire::{Body, Frame, Kind, Op, Outcome, Reason, Side, Slot, WireId};
use overlane_relay::refs::{Limits, LinkError};

fn data(bytes: &[u8]) -> Outcome<Local> {
    Outcome::Data(Body::data(bytes))
}

fn no_data() -> Outcome<Local> {
    Outcome::broken(Reason::CANNOT_SEND_TO_DATA)
}

/// A pair, a promise of node 0, and what node 1 holds of it.
fn promised() -> (Mesh, LocalPromise, LocalPromise) {
    let mut mesh = pair();
    let p = mesh.promise(0);
    let held = promise(mesh.give(0, 1, p));
    (mesh, p, held)
}

/// The promise that node 0 chose first, as a frame of node 1 names it.
const FIRST: WireId = WireId {
    kind: Kind::Promise,
    side: Side::Receiver,
    number: 1,
};

#[test]
fn law_crossing_07_a_resolution_to_data_crosses_a_message() {
    let (mut mesh, p, held) = promised();
    mesh.resolve(0, p, data(b"42"));
    let answer = mesh.ask(1, held, b"crosses");
    mesh.deliver(1, 0);
    mesh.deliver(0, 1);
    mesh.deliver(0, 1);
    assert_eq!(mesh.told(1, held), [data(b"42")]);
    assert_eq!(mesh.told(1, answer), [no_data()]);
    assert_eq!(
        mesh.view(0, 1).promises,
        2,
        "both wait for the acknowledgement"
    );
    mesh.say(1, 0);
    mesh.deliver(1, 0);
    assert_eq!(mesh.view(0, 1).promises, 0);
    let late = Op::Deliver {
        target: FIRST,
        result: None,
        body: Body::data(b"too late"),
    };
    mesh.forge(1, 0, 0, vec![late]);
    assert_eq!(mesh.ended(0), Some(LinkError::UnknownRef(FIRST)));
}

#[test]
fn law_crossing_08_a_resolution_to_the_deciders_object_crosses_a_message() {
    let (mut mesh, p, held) = promised();
    let y = mesh.export(0);
    mesh.resolve(0, p, Outcome::Reference(y.into()));
    mesh.send(1, held, Body::data(b"one"));
    mesh.deliver_all();
    mesh.send(1, held, Body::data(b"two"));
    mesh.deliver_all();
    assert_eq!(mesh.got(0, y), [b"one", b"two"]);
    mesh.rest();
}

#[test]
fn law_crossing_09_a_resolution_that_points_back_keeps_the_order() {
    let (mut mesh, p, held) = promised();
    let door = mesh.nodes[1].door;
    mesh.send(1, held, Body::data(b"m1"));
    mesh.resolve(0, p, Outcome::Reference(mesh.door(0, 1)));
    mesh.deliver(0, 1);
    mesh.send(1, held, Body::data(b"m2"));
    assert!(mesh.got(1, door).is_empty(), "m2 is held");
    assert!(mesh.told(1, held).is_empty(), "nobody is told yet");
    assert_eq!(
        mesh.nodes[1].tables.promise(held),
        Some(PromiseState::Elsewhere(link(0)))
    );
    mesh.deliver(1, 0);
    let Frame::Numbered(back) = mesh.next(0, 1) else {
        panic!("a numbered frame");
    };
    assert_eq!(back.ack_delta, 1, "m1 comes back with its acknowledgement");
    mesh.deliver(0, 1);
    assert_eq!(mesh.got(1, door), [b"m1", b"m2"]);
    assert_eq!(mesh.told(1, held), [Outcome::Reference(door.into())]);
    mesh.send(1, held, Body::data(b"m3"));
    assert_eq!(mesh.got(1, door).len(), 3, "and from then on it is near");
}

#[test]
fn law_crossing_10_a_rejection_that_mentions_something_crosses_a_message() {
    let (mut mesh, p, held) = promised();
    let z = mesh.export(0);
    let rejection = Body {
        slots: vec![Slot::Ref(Local::Object(z))],
        bytes: b"no"[..].into(),
    };
    mesh.resolve(0, p, Outcome::Rejected(rejection));
    let answer = mesh.ask(1, held, b"crosses");
    mesh.rest();
    let [Outcome::Rejected(told)] = &mesh.told(1, held)[..] else {
        panic!("it was rejected");
    };
    assert_eq!(mesh.told(1, answer), [Outcome::Rejected(told.clone())]);
    let z_there = *told.refs().next().unwrap();
    assert_eq!(&*told.bytes, b"no");
    for local in [held.into(), answer.into(), z_there, z_there] {
        mesh.release(1, local);
    }
    mesh.rest();
    assert_eq!(mesh.name(0, 1, z), None, "what nobody uses is dropped");
}

#[test]
fn law_crossing_11_a_resolution_crosses_an_argument() {
    // Node 1 sends through node 0 to node 2.
    let mut mesh = mesh(3, &[(0, 1), (0, 2)], Limits::default());
    let p = mesh.promise(0);
    let held = mesh.give(0, 1, p);
    let third = mesh.give(0, 1, mesh.door(0, 2));
    mesh.resolve(0, p, data(b"42"));
    mesh.send(1, third, Body::of([held]));
    mesh.deliver(1, 0);
    let ops = mesh.next_ops(0, 2);
    let [Op::Deliver { body, .. }, Op::Resolve(resolutions)] = &ops[..] else {
        panic!("one frame: {ops:?}");
    };
    assert_eq!(body.refs().collect::<Vec<_>>(), [&resolutions[0].promise]);
    mesh.deliver(0, 2);
    let there = promise(mesh.handed(2)[0]);
    assert_eq!(mesh.told(2, there), [data(b"42")]);
    assert_eq!(mesh.view(0, 2).promises, 1);
    mesh.say(2, 0);
    mesh.deliver(2, 0);
    assert_eq!(mesh.view(0, 2).promises, 0);
    assert_eq!(mesh.view(0, 1).promises, 1, "node 1 has not acknowledged");
    mesh.rest();
    assert_eq!(mesh.view(0, 1).promises, 0);
}

#[test]
fn law_crossing_12_two_resolutions_cross_and_one_holds_the_other_promise() {
    let (mut mesh, x, x_there) = promised();
    let y_there = mesh.promise(1);
    let y = promise(mesh.give(1, 0, y_there));
    mesh.resolve(0, x, data(b"x"));
    mesh.resolve(1, y_there, Outcome::Data(Body::of([x_there.into()])));
    mesh.deliver(1, 0);
    assert_eq!(mesh.told(0, y), [Outcome::Data(Body::of([x.into()]))]);
    mesh.deliver(0, 1);
    assert_eq!(mesh.told(1, x_there), [data(b"x")]);
    mesh.rest();
    assert_eq!((mesh.view(0, 1).promises, mesh.view(1, 0).promises), (0, 0));
    for (at, local) in [(0, x), (0, y), (0, x), (1, x_there), (1, y_there)] {
        mesh.release(at, local);
    }
    // The outcome of `y_there` handed one more of `x_there` to the application.
    mesh.release(1, x_there);
    assert_eq!(mesh.nodes[0].tables.known().1, 0);
    assert_eq!(mesh.nodes[1].tables.known().1, 0);
}

#[test]
fn law_crossing_13_promises_that_hold_each_other_go_together() {
    let mut mesh = pair();
    let (p1, p2) = (mesh.promise(0), mesh.promise(0));
    let (h1, h2) = (mesh.give(0, 1, p1), mesh.give(0, 1, p2));
    mesh.resolve(0, p1, Outcome::Data(Body::of([p2.into()])));
    mesh.resolve(0, p2, Outcome::Data(Body::of([p1.into()])));
    mesh.deliver(0, 1);
    let ops = mesh.next_ops(0, 1);
    let [Op::Resolve(batch)] = &ops[..] else {
        panic!("one batch: {ops:?}");
    };
    assert_eq!(
        batch.len(),
        2,
        "the promise, and the one it mentions afresh"
    );
    let mentioned = |at: usize| match &batch[at].outcome {
        Outcome::Data(body) => body.refs().copied().collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(mentioned(0), [batch[1].promise]);
    assert_eq!(
        mentioned(1),
        [batch[0].promise],
        "the cycle is closed inside"
    );
    mesh.rest();
    assert_eq!(mesh.view(0, 1).promises, 0);
    for (at, locals) in [(0, [Local::from(p1), p2.into()]), (1, [h1, h2])] {
        for local in locals {
            while mesh.nodes[at].tables.handles(local) > 0 {
                mesh.release(at, local);
            }
        }
    }
    // The second batch brought the first promise once more, under a local name of its own.
    let known: Vec<_> = mesh.nodes[1].events.iter().flat_map(handles).collect();
    for local in known {
        while mesh.nodes[1].tables.handles(local) > 0 {
            mesh.release(1, local);
        }
    }
    assert_eq!(mesh.nodes[0].tables.known().1, 0);
    assert_eq!(mesh.nodes[1].tables.known().1, 0);
}

fn handles(event: &Event) -> Vec<Local> {
    match event {
        Event::Resolved { outcome, .. } => outcome.refs().copied().collect(),
        Event::Deliver { body, .. } => body.refs().copied().collect(),
        _ => Vec::new(),
    }
}

#[test]
fn law_crossing_14_a_promise_is_freed_by_the_last_acknowledgement() {
    for order in [[1, 2], [2, 1]] {
        let mut mesh = mesh(3, &[(0, 1), (0, 2)], Limits::default());
        let p = mesh.promise(0);
        mesh.give(0, 1, p);
        mesh.give(0, 2, p);
        mesh.release(0, p);
        mesh.resolve(0, p, data(b"both"));
        for (at, left) in order.into_iter().zip([1, 0]) {
            mesh.deliver(0, at);
            mesh.say(at, 0);
            mesh.deliver(at, 0);
            assert_eq!(mesh.nodes[0].tables.known().1, left);
        }
    }
}

/// The decision goes to node 1 and comes back.
#[test]
fn law_crossing_23_the_decision_comes_back() {
    let mut mesh = pair();
    let p = mesh.promise(0);
    let door = mesh.door(0, 1);
    mesh.try_send(0, door, Body::data(b"decide"), Answer::Passed(p))
        .unwrap();
    mesh.send(0, p, Body::data(b"m1"));
    mesh.deliver(0, 1);
    let theirs = mesh.nodes[1].events.iter().find_map(|event| match event {
        Event::Deliver { result, .. } => *result,
        _ => None,
    });
    let theirs = theirs.unwrap();
    mesh.nodes[1].tables.retain(theirs.into()).unwrap_err();
    let back = mesh.door(1, 0);
    mesh.try_send(1, back, Body::data(b"no, you"), Answer::Passed(theirs))
        .unwrap();
    mesh.deliver(1, 0);
    assert_eq!(mesh.nodes[0].tables.promise(p), Some(PromiseState::Open));
    let y = mesh.export(0);
    mesh.resolve(0, p, Outcome::Reference(y.into()));
    mesh.send(0, p, Body::data(b"m2"));
    assert!(mesh.got(0, y).is_empty(), "m1 has not come back yet");
    mesh.deliver_all();
    assert_eq!(mesh.got(0, y), [b"m1", b"m2"]);
    assert_eq!(mesh.told(0, p), [Outcome::Reference(y.into())], "told once");
    mesh.rest();
}

#[test]
fn law_crossing_24_a_message_may_mention_its_own_result() {
    let mut mesh = pair();
    let p = mesh.promise(0);
    let door = mesh.door(0, 1);
    mesh.try_send(0, door, Body::of([p.into()]), Answer::Passed(p))
        .unwrap();
    assert_eq!(mesh.view(0, 1).promises, 1, "one name");
    mesh.deliver(0, 1);
    let theirs = mesh.handed(1)[0];
    mesh.resolve(1, promise(theirs), data(b"done"));
    mesh.deliver_all();
    assert_eq!(mesh.told(0, p), [data(b"done")]);
    assert_eq!(mesh.told(1, promise(theirs)), [data(b"done")]);
    mesh.rest();
}

#[test]
fn law_crossing_31_a_drop_crosses_the_resolution() {
    let (mut mesh, p, held) = promised();
    let z = mesh.export(0);
    mesh.release(1, held);
    mesh.resolve(0, p, Outcome::Data(Body::of([z.into()])));
    mesh.deliver(1, 0);
    assert_eq!(mesh.nodes[0].counts.drops_uninformed, 1);
    mesh.deliver(0, 1);
    assert_eq!(mesh.nodes[1].events, [], "nobody there waits for it");
    assert!(
        matches!(&mesh.next_ops(1, 0)[..], [Op::Drop(_)]),
        "what the resolution brought is dropped"
    );
    mesh.rest();
    assert_eq!(mesh.name(0, 1, z), None);
    assert_eq!(mesh.view(0, 1).promises, 0);
}

#[test]
fn law_a_dropped_promise_is_unwanted_at_its_decider() {
    let (mut mesh, p, held) = promised();
    mesh.release(0, p);
    mesh.release(1, held);
    mesh.deliver(1, 0);
    assert!(mesh.nodes[0].events.contains(&Event::Unwanted(p)));
    mesh.resolve(0, p, data(b"nobody listens"));
    assert!(mesh.under_way[&(0, 1)].is_empty());
    assert_eq!(mesh.nodes[0].tables.known().1, 0);
    mesh.rest();
}

#[test]
fn law_a_promise_is_not_resolved_to_a_promise() {
    let (mut mesh, p, held) = promised();
    mesh.resolve(0, p, Outcome::Reference(p.into()));
    mesh.deliver_all();
    let broken = Outcome::broken(Reason::RESOLVED_TO_PROMISE);
    assert_eq!(mesh.told(1, held), [broken]);
    mesh.rest();
}

/// While messages are held for a promise, another stands in for it where its decision is passed on.
#[test]
fn law_a_held_promise_is_passed_on_by_a_stand_in() {
    let mut mesh = mesh(3, &[(0, 1), (0, 2)], Limits::default());
    let p = mesh.promise(0);
    let door = mesh.door(0, 1);
    mesh.try_send(0, door, Body::data(b"decide"), Answer::Passed(p))
        .unwrap();
    mesh.send(0, p, Body::data(b"m1"));
    mesh.deliver(0, 1);
    let theirs = mesh.nodes[1].events.iter().find_map(|event| match event {
        Event::Deliver { result, .. } => *result,
        _ => None,
    });
    // Back to node 0, with m1 still on its way there.
    let back = mesh.door(1, 0);
    mesh.try_send(
        1,
        back,
        Body::data(b"back"),
        Answer::Passed(theirs.unwrap()),
    )
    .unwrap();
    mesh.deliver(1, 0);
    let third = mesh.door(0, 2);
    mesh.try_send(0, third, Body::data(b"then you"), Answer::Passed(p))
        .unwrap();
    mesh.send(0, p, Body::data(b"m2"));
    mesh.deliver_all();
    let last = mesh.nodes[2].events.iter().find_map(|event| match event {
        Event::Deliver { result, .. } => *result,
        _ => None,
    });
    let y = mesh.export(2);
    mesh.resolve(2, last.unwrap(), Outcome::Reference(y.into()));
    mesh.deliver_all();
    assert_eq!(mesh.got(2, y), [b"m1", b"m2"]);
    assert!(matches!(
        &mesh.told(0, p)[..],
        [Outcome::Reference(Local::Object(_))]
    ));
    mesh.rest();
}

#[test]
fn law_a_lost_link_breaks_what_it_decided() {
    let (mut mesh, _, held) = promised();
    let question = mesh.ask(1, mesh.door(1, 0), b"question");
    let step = mesh.nodes[1].tables.end_epoch(link(0), 0).unwrap();
    mesh.take(1, step);
    let lost = Outcome::broken(Reason::DISCONNECTED);
    for promise in [held, question] {
        assert_eq!(mesh.told(1, promise), std::slice::from_ref(&lost));
    }
    let door = object(mesh.door(1, 0));
    let later = mesh.ask(1, door, b"later");
    assert_eq!(mesh.told(1, later), [lost]);
}
