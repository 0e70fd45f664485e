//! The carrier loses frames, a node crashes between two of its steps, a store is put back.

use crate::mesh::{Mesh, link, mesh, object, pair, promise};
use overlane_relay::refs::table::{Event, LinkId, ObjectState, Tables};
use overlane_relay::refs::wire::{Body, Frame, Op, Outcome, Resume, Seq};
use overlane_relay::refs::{Limits, LinkError};

/// A node comes back with the tables it made durable; nothing else survives.
fn crash(mesh: &mut Mesh, at: usize, durable: Tables) {
    mesh.nodes[at].tables = durable;
    for ((from, to), way) in &mut mesh.under_way {
        if *from == at || *to == at {
            way.clear();
        }
    }
}

pub(crate) fn reconnect(mesh: &mut Mesh, one: usize, other: usize) {
    for (at, peer) in [(one, other), (other, one)] {
        mesh.under_way.get_mut(&(at, peer)).unwrap().clear();
    }
    for (at, peer) in [(one, other), (other, one)] {
        let step = mesh.nodes[at]
            .tables
            .handle_connected(link(peer), mesh.now_ms);
        mesh.take(at, step);
    }
}

/// Resolutions one way and nothing back: acknowledgements alone keep the rows within the window.
#[test]
fn law_crossing_26_a_one_way_link_stays_within_its_window() {
    let limits = Limits {
        unacked_frames: 16,
        ..Limits::default()
    };
    let mut mesh = mesh(2, &[(0, 1)], limits);
    for round in 0..1_000_u32 {
        let p = mesh.promise(0);
        mesh.mention(0, 1, p);
        mesh.resolve(0, p, Outcome::Data(Body::data(&round.to_be_bytes())));
        mesh.release(0, p);
        mesh.deliver_all();
        mesh.now_ms += 10;
        let step = mesh.nodes[1].tables.handle_timeout(mesh.now_ms);
        mesh.take(1, step);
        mesh.deliver_all();
        for local in mesh.handed(1) {
            mesh.release(1, local);
        }
        mesh.nodes[1].events.clear();
        assert!(mesh.view(0, 1).outbox <= 16 && mesh.view(0, 1).pending <= 16);
    }
    mesh.rest();
    assert_eq!(
        mesh.view(1, 0).sent,
        Seq(0),
        "node 1 never had anything to say"
    );
    assert_eq!(mesh.nodes[0].tables.known().1, 0);
    assert_eq!(mesh.nodes[1].tables.known().1, 0);
}

#[test]
fn crash_27_a_durable_drop_is_sent_again_as_it_was() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.release(1, held);
    let first = mesh.under_way[&(1, 0)][0].clone();
    let durable = mesh.nodes[1].tables.clone();
    crash(&mut mesh, 1, durable);
    // Meanwhile the owner mentions it again, and node 1 gets that before its drop goes out again.
    mesh.mention(0, 1, x);
    mesh.deliver(0, 1);
    assert_eq!(mesh.nodes[1].counts.resurrections, 1);
    let again = mesh.handed(1)[0];
    let (_, resent) = mesh.nodes[1].tables.outbox(link(0)).next().unwrap();
    assert_eq!(*resent, first, "the same bytes");
    reconnect(&mut mesh, 0, 1);
    mesh.rest();
    assert_eq!(mesh.nodes[0].counts.drops_uninformed, 1);
    assert_eq!(mesh.nodes[0].counts.drops_executed, 0);
    let state = mesh.nodes[1].tables.object(object(again));
    assert_eq!(
        state,
        Some(ObjectState::Live),
        "the later mention protects it"
    );
}

#[test]
fn crash_28_a_frame_received_and_not_made_durable_comes_again() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let durable = mesh.nodes[1].tables.clone();
    mesh.mention(0, 1, x);
    mesh.deliver(0, 1);
    let told = std::mem::take(&mut mesh.nodes[1].events);
    crash(&mut mesh, 1, durable);
    assert_eq!(mesh.view(0, 1).acked, Seq(0), "nothing was acknowledged");
    reconnect(&mut mesh, 0, 1);
    mesh.deliver_all();
    assert_eq!(mesh.nodes[1].events, told, "as if for the first time");
    mesh.rest();
}

/// Whatever is lost between any two steps, the outcome is that of a run without faults.
#[test]
fn crash_at_every_point_leads_to_the_same_tables() {
    let script = |mesh: &mut Mesh, step: usize| match step {
        0 => mesh.mention(0, 1, mesh.nodes[0].door),
        1 => {
            let p = mesh.promise(0);
            mesh.mention(0, 1, p);
            mesh.resolve(0, p, Outcome::Data(Body::data(b"42")));
            mesh.release(0, p);
        }
        2 => {
            mesh.ask(1, mesh.door(1, 0), b"question");
        }
        _ => mesh.say(0, 1),
    };
    let run = |crashes: &[(usize, usize)]| {
        let mut mesh = pair();
        for step in 0..4 {
            script(&mut mesh, step);
            for &(_, at) in crashes.iter().filter(|(when, _)| *when == step) {
                let durable = mesh.nodes[at].tables.clone();
                crash(&mut mesh, at, durable);
                reconnect(&mut mesh, 0, 1);
            }
            mesh.deliver_all();
        }
        mesh.rest();
        let events = |at: usize| mesh.nodes[at].events.clone();
        (
            events(0),
            events(1),
            mesh.nodes[0].tables.known(),
            mesh.nodes[1].tables.known(),
        )
    };
    let calm = run(&[]);
    for first in 0..4 {
        for second in 0..4 {
            for (one, other) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let crashed = run(&[(first, one), (second, other)]);
                assert_eq!(
                    crashed, calm,
                    "node {one} after {first}, node {other} after {second}"
                );
            }
        }
    }
}

#[test]
fn law_crossing_29_a_frame_that_comes_again_is_not_read() {
    let mut mesh = pair();
    mesh.say(1, 0);
    mesh.deliver(1, 0);
    mesh.say(0, 1);
    let bytes = mesh.under_way[&(0, 1)][0].clone();
    mesh.deliver(0, 1);
    let before = mesh.view(1, 0);
    mesh.nodes[1].events.clear();
    mesh.arrive(0, 1, &bytes);
    assert_eq!(
        mesh.view(1, 0),
        before,
        "its acknowledgement is not added again"
    );
    assert_eq!(mesh.nodes[1].events, []);
    assert_eq!(mesh.nodes[1].counts.duplicates, 1);
}

#[test]
fn crash_30_a_store_that_was_put_back_is_noticed_by_both() {
    for who in [0, 1] {
        let mut mesh = pair();
        let backup = mesh.nodes[who].tables.clone();
        let x = mesh.export(0);
        mesh.give(0, 1, x);
        mesh.say(1, 0);
        mesh.deliver_all();
        mesh.say(0, 1);
        mesh.deliver_all();
        crash(&mut mesh, who, backup);
        reconnect(&mut mesh, 0, 1);
        mesh.deliver_all();
        let other = 1 - who;
        assert!(
            matches!(mesh.ended(other), Some(LinkError::PeerRolledBack { .. })),
            "{:?}",
            mesh.ended(other)
        );
        assert!(
            matches!(
                mesh.ended(who),
                Some(LinkError::WeRolledBack { .. } | LinkError::PeerClosed { .. })
            ),
            "{:?}",
            mesh.ended(who)
        );
    }
}

/// Frames that arrive after one that is missing wait for it to be sent again.
#[test]
fn law_a_gap_is_asked_for_and_nothing_is_done_before_it_is_filled() {
    let mut mesh = pair();
    let x = mesh.export(0);
    mesh.mention(0, 1, x);
    mesh.send(0, mesh.door(0, 1), Body::data(b"second"));
    mesh.under_way.get_mut(&(0, 1)).unwrap().pop_front();
    mesh.deliver(0, 1);
    assert_eq!(mesh.nodes[1].counts.gaps, 1);
    assert_eq!(mesh.nodes[1].events, []);
    let Frame::Resume(resume) = mesh.next(1, 0) else {
        panic!("it says where it is");
    };
    assert_eq!(resume.recv, Seq(0));
    mesh.rest();
    assert_eq!(mesh.got(1, mesh.nodes[1].door), [&b""[..], b"second"]);
}

/// The hole that a carrier which may lose frames opens: what is acknowledged alone must not be
/// believed before the frames that were decided earlier have come.
#[test]
fn law_an_acknowledgement_alone_does_not_overtake_lost_frames() {
    let mut mesh = pair();
    let p = mesh.promise(0);
    let held = promise(mesh.give(0, 1, p));
    let door = mesh.nodes[1].door;
    mesh.send(1, held, Body::data(b"m1"));
    mesh.resolve(0, p, Outcome::Reference(mesh.door(0, 1)));
    mesh.deliver(0, 1);
    mesh.send(1, held, Body::data(b"m2"));
    mesh.deliver(1, 0);
    // The frame that brings m1 back is lost; an acknowledgement of m1 alone arrives.
    mesh.under_way.get_mut(&(0, 1)).unwrap().clear();
    mesh.say(1, 0);
    mesh.deliver(1, 0);
    mesh.now_ms = 50;
    let ack = overlane_relay::refs::wire::AckOnly {
        epoch: mesh.view(0, 1).epoch,
        after: mesh.view(0, 1).sent,
        recv: mesh.view(0, 1).recv,
    };
    mesh.arrive(0, 1, &Frame::AckOnly(ack).to_bytes());
    assert!(mesh.got(1, door).is_empty(), "m2 still waits for m1");
    mesh.rest();
    assert_eq!(mesh.got(1, door), [b"m1", b"m2"]);
}

#[test]
fn law_histories_that_contradict_each_other_are_named() {
    let resume = |sent, recv, acked| Resume {
        epoch: overlane_relay::refs::wire::Epoch(1),
        sent: Seq(sent),
        recv: Seq(recv),
        acked: Seq(acked),
    };
    let mut mesh = pair();
    mesh.say(0, 1);
    mesh.deliver_all();
    mesh.say(1, 0);
    mesh.deliver_all();
    mesh.say(0, 1);
    // Node 0 sent 2, processed 1, and knows that node 1 processed 1.
    let named = |said: Resume| {
        let mut tables = mesh.nodes[0].tables.clone();
        let step = tables.handle_frame(LinkId(1), &Frame::Resume(said).to_bytes(), 0);
        step.events.iter().find_map(|event| match event {
            Event::Ended { cause, .. } => Some(cause.clone()),
            _ => None,
        })
    };
    for honest in [resume(1, 1, 0), resume(1, 2, 1), resume(2, 2, 1)] {
        assert_eq!(named(honest), None, "{honest:?}");
    }
    let lost = |recv, acked| {
        let (recv, acked) = (Seq(recv), Seq(acked));
        Some(LinkError::PeerRolledBack { recv, acked })
    };
    assert_eq!(named(resume(1, 0, 0)), lost(0, 1));
    assert_eq!(named(resume(0, 1, 0)), lost(0, 1));
    let we = |peer, ours| {
        let (peer, ours) = (Seq(peer), Seq(ours));
        Some(LinkError::WeRolledBack { peer, ours })
    };
    assert_eq!(named(resume(1, 3, 0)), we(3, 2));
    assert_eq!(named(resume(2, 2, 2)), we(2, 1));
}

/// A node that lost the last frame learns of it when the sender asks.
#[test]
fn law_a_lost_last_frame_is_found_by_asking() {
    let mut mesh = pair();
    let x = mesh.export(0);
    mesh.mention(0, 1, x);
    mesh.under_way.get_mut(&(0, 1)).unwrap().clear();
    let probe_ms = mesh.nodes[0].tables.poll_timeout().unwrap();
    mesh.now_ms = probe_ms;
    let step = mesh.nodes[0].tables.handle_timeout(probe_ms);
    mesh.take(0, step);
    mesh.deliver_all();
    assert_eq!(mesh.handed(1).len(), 1);
    assert!(matches!(mesh.nodes[1].events[..], [Event::Deliver { .. }]));
    mesh.rest();
}

#[test]
fn law_a_drop_is_never_stamped_again() {
    let mut mesh = pair();
    let x = mesh.export(0);
    let held = mesh.give(0, 1, x);
    mesh.release(1, held);
    let drop = mesh.under_way[&(1, 0)][0].clone();
    mesh.mention(0, 1, x);
    mesh.deliver(0, 1);
    mesh.under_way.get_mut(&(1, 0)).unwrap().clear();
    reconnect(&mut mesh, 0, 1);
    mesh.deliver(0, 1);
    let sent: Vec<_> = mesh.under_way[&(1, 0)].iter().collect();
    assert!(sent.contains(&&drop));
    let Frame::Numbered(frame) = Frame::from_bytes(&drop).unwrap() else {
        panic!("a numbered frame");
    };
    assert!(matches!(frame.ops[..], [Op::Drop(_)]));
}
