//! What a hostile or broken peer may send, row by row, and what it gets for it. Node 0 is under test;
//! the frames of node 1 are forged.

use crate::mesh::{Mesh, WHY, link, mesh};
use overlane_core::{Coded, Fault};
use overlane_relay::refs::table::{Answer, Event, Local, LocalObject, LocalPromise};
use overlane_relay::refs::wire::{
    AckOnly, Body, Epoch, Frame, Hardness, Kind, Numbered, Op, Outcome, Reason, Resolution, Resume,
    Revocation, Seq, Side, WireId,
};
use overlane_relay::refs::{Limits, LinkError, SendError};

fn id(kind: Kind, side: Side, number: u64) -> WireId {
    WireId { kind, side, number }
}

/// An object of node 0, as node 1 names it.
fn ours(number: u64) -> WireId {
    id(Kind::Object, Side::Receiver, number)
}

/// An object of node 1, as it names it.
fn theirs(number: u64) -> WireId {
    id(Kind::Object, Side::Sender, number)
}

fn our_promise(number: u64) -> WireId {
    id(Kind::Promise, Side::Receiver, number)
}

fn their_promise(number: u64) -> WireId {
    id(Kind::Promise, Side::Sender, number)
}

fn deliver(target: WireId, result: Option<WireId>, slots: &[WireId]) -> Op {
    Op::Deliver {
        target,
        result,
        body: Body::of(slots.iter().copied()),
    }
}

fn resolve(promise: WireId, outcome: Outcome<WireId>) -> Op {
    Op::Resolve(vec![Resolution { promise, outcome }])
}

fn to_data(promise: WireId) -> Op {
    resolve(promise, Outcome::Data(Body::data(b"data")))
}

fn revoke(object: WireId, hardness: Hardness) -> Op {
    Op::Revoke(vec![Revocation {
        object,
        hardness,
        reason: WHY,
        error: b"mine"[..].into(),
    }])
}

const LIMITS: Limits = Limits {
    exports: 3,
    imports: 3,
    promises: 4,
    unacked_frames: 4,
    queued_messages: 2,
    introductions_per_s: 5,
    frames_per_s: 64,
    soft_violations: 2,
    ack_delay_ms: 50,
    probe_ms: 5_000,
    ack_deadline_ms: 60_000,
    explicit_seq: true,
};

/// Node 0 with an object that node 1 knows by number 1, a question that node 1 decides (promise 1), a
/// promise (2), and another link, to node 2, that holds the same object.
fn target() -> (Mesh, LocalObject, LocalPromise) {
    let mut mesh = mesh(3, &[(0, 1), (0, 2)], LIMITS);
    let x = mesh.export(0);
    let p = mesh.promise(0);
    mesh.give(0, 2, x);
    let mentions = Body::of([Local::Object(x), p.into()]);
    let door = mesh.door(0, 1);
    let question = mesh.try_send(0, door, mentions, Answer::New).unwrap();
    mesh.deliver(0, 1);
    (mesh, x, question.unwrap())
}

/// A frame that also acknowledges ends the epoch with this error, and has no other effect.
fn ends(ops: Vec<Op>, error: LinkError) {
    let (mut mesh, ..) = target();
    let mut alone = mesh.nodes[0].tables.clone();
    mesh.forge(1, 0, 1, ops.clone());
    assert_eq!(mesh.ended(0), Some(error), "{ops:?}");
    alone.end_epoch(link(1), 0).unwrap();
    assert!(mesh.nodes[0].tables == alone, "{ops:?} had another effect");
    assert!(mesh.nodes[0].tables.link(link(2)).is_some());
    let closes = mesh.under_way[&(0, 1)]
        .back()
        .map(|bytes| Frame::from_bytes(bytes).unwrap());
    assert!(
        matches!(closes, Some(Frame::Close(_))),
        "the peer is told why"
    );
}

#[test]
fn law_drops_of_what_the_peer_does_not_hold_end_the_epoch() {
    let x = ours(1);
    ends(vec![Op::Drop(vec![ours(9)])], LinkError::ForgedRef(ours(9)));
    ends(
        vec![Op::Drop(vec![x]), Op::Drop(vec![x])],
        LinkError::DoubleDrop(x),
    );
    ends(vec![Op::Drop(vec![x, x])], LinkError::DoubleDrop(x));
    ends(
        vec![Op::Drop(vec![theirs(0)])],
        LinkError::NotHeld(theirs(0)),
    );
    ends(
        vec![Op::Drop(vec![theirs(7)])],
        LinkError::ForgedRef(theirs(7)),
    );
    let question = our_promise(1);
    ends(
        vec![Op::Drop(vec![question])],
        LinkError::NotDecider(question),
    );
}

#[test]
fn law_a_drop_that_was_executed_is_not_repeated() {
    let (mut mesh, x, _) = target();
    mesh.forge(1, 0, 1, vec![Op::Drop(vec![ours(1)])]);
    assert_eq!(mesh.ended(0), None);
    assert_eq!(mesh.name(0, 1, x), None);
    mesh.forge(1, 0, 0, vec![Op::Drop(vec![ours(1)])]);
    assert_eq!(mesh.ended(0), Some(LinkError::DoubleDrop(ours(1))));
}

#[test]
fn law_an_acknowledgement_of_what_was_not_sent_releases_nothing() {
    for delta in [2, 1_000, u64::MAX] {
        let (mut mesh, ..) = target();
        let before = mesh.view(0, 1);
        assert_eq!(before.sent, Seq(1));
        mesh.forge(1, 0, delta, vec![deliver(ours(0), None, &[])]);
        let beyond = |acked| LinkError::AckBeyondSent {
            acked: Seq(acked),
            sent: Seq(1),
        };
        assert_eq!(mesh.ended(0), Some(beyond(delta)));
    }
    // A sum that overflows is as much beyond.
    let (mut mesh, ..) = target();
    mesh.forge(1, 0, 1, vec![deliver(ours(0), None, &[])]);
    mesh.forge(1, 0, u64::MAX, vec![deliver(ours(0), None, &[])]);
    assert!(matches!(
        mesh.ended(0),
        Some(LinkError::AckBeyondSent { .. })
    ));
    // And so is one that comes alone.
    let (mut mesh, ..) = target();
    let ack = Frame::AckOnly(AckOnly {
        epoch: Epoch(1),
        after: Seq(0),
        recv: Seq(2),
    });
    mesh.arrive(1, 0, &ack.to_bytes());
    assert!(matches!(
        mesh.ended(0),
        Some(LinkError::AckBeyondSent { .. })
    ));
}

#[test]
fn law_bytes_that_are_no_frame_end_the_epoch() {
    for bytes in [&b""[..], b"\x85\x00\x18\x01", b"junk", &[0x9f; 64]] {
        let (mut mesh, ..) = target();
        mesh.arrive(1, 0, bytes);
        let Some(LinkError::Malformed(error)) = mesh.ended(0) else {
            panic!("{bytes:?}");
        };
        assert_eq!(error.0.fault(), Fault::PeerMisbehaved);
    }
}

/// A frame of an old epoch, or for a link that has none, is no reason to do anything.
#[test]
fn law_a_recorded_session_is_not_replayed_into_another_epoch() {
    let (mut mesh, ..) = target();
    let frame = |epoch| {
        let frame = Frame::Numbered(Numbered {
            epoch: Epoch(epoch),
            seq: Some(Seq(1)),
            ack_delta: 0,
            ops: vec![deliver(ours(0), None, &[])],
        });
        frame.to_bytes()
    };
    let before = mesh.nodes[0].tables.clone();
    mesh.arrive(1, 0, &frame(0));
    assert!(mesh.nodes[0].tables == before);
    assert_eq!(mesh.nodes[0].counts.stale, 1);
    let step = mesh.nodes[0].tables.end_epoch(link(1), 0).unwrap();
    mesh.take(0, step);
    let ended = mesh.nodes[0].tables.clone();
    mesh.arrive(1, 0, &frame(1));
    assert!(mesh.nodes[0].tables == ended);
    assert_eq!(mesh.nodes[0].counts.stale, 2);
}

#[test]
fn law_a_peer_in_a_newer_epoch_ends_ours() {
    let (mut mesh, ..) = target();
    let resume = Frame::Resume(Resume {
        epoch: Epoch(2),
        sent: Seq(0),
        recv: Seq(0),
        acked: Seq(0),
    });
    mesh.arrive(1, 0, &resume.to_bytes());
    let (theirs, ours) = (Epoch(2), Epoch(1));
    assert_eq!(mesh.ended(0), Some(LinkError::OtherEpoch { theirs, ours }));
}

#[test]
fn law_ids_are_introduced_in_their_turn_and_once() {
    let door = ours(0);
    ends(
        vec![deliver(door, None, &[theirs(2)])],
        LinkError::IdJump(theirs(2), 1),
    );
    let last = theirs(WireId::NUMBER_MAX);
    ends(
        vec![deliver(door, None, &[last])],
        LinkError::IdJump(last, 1),
    );
    ends(
        vec![deliver(door, None, &[ours(9)])],
        LinkError::ForgedRef(ours(9)),
    );
    ends(
        vec![deliver(ours(9), None, &[])],
        LinkError::ForgedRef(ours(9)),
    );
    ends(
        vec![deliver(theirs(0), None, &[])],
        LinkError::Misdirected(theirs(0)),
    );
    ends(
        vec![deliver(their_promise(1), None, &[])],
        LinkError::ForgedRef(their_promise(1)),
    );
    // Introduced, dropped by us, settled, and used again.
    let (mut mesh, ..) = target();
    mesh.forge(1, 0, 1, vec![deliver(door, None, &[theirs(1)])]);
    let held = mesh.handed(0)[0];
    mesh.release(0, held);
    mesh.forge(1, 0, 1, vec![deliver(door, None, &[])]);
    assert_eq!(mesh.view(0, 1).tombstones, 0);
    mesh.forge(1, 0, 0, vec![deliver(door, None, &[theirs(1)])]);
    assert_eq!(mesh.ended(0), Some(LinkError::IdReuse(theirs(1))));
}

#[test]
fn law_only_its_owner_revokes_and_only_more_than_before() {
    for id in [ours(1), theirs(1), our_promise(2), their_promise(1)] {
        ends(vec![revoke(id, Hardness::Soft)], LinkError::NotExported(id));
    }
    let (soft, hard) = (Hardness::Soft, Hardness::Hard);
    let introduce = deliver(ours(0), None, &[theirs(1)]);
    let twice = |first, second| {
        vec![
            introduce.clone(),
            revoke(theirs(1), first),
            revoke(theirs(1), second),
        ]
    };
    ends(twice(soft, soft), LinkError::RepeatedRevoke(theirs(1)));
    ends(twice(hard, soft), LinkError::NotExported(theirs(1)));
    let (mut mesh, ..) = target();
    mesh.forge(1, 0, 0, twice(soft, hard));
    assert_eq!(mesh.ended(0), None, "hard takes more than soft");
}

#[test]
fn law_only_the_decider_resolves_and_only_once() {
    for promise in [our_promise(2), our_promise(9), their_promise(3)] {
        let error = match promise.number {
            2 => LinkError::NotDecider(promise),
            3 => LinkError::IdJump(promise, 1),
            _ => LinkError::ForgedRef(promise),
        };
        ends(vec![to_data(promise)], error);
    }
    let question = our_promise(1);
    ends(
        vec![to_data(question), to_data(question)],
        LinkError::UnknownRef(question),
    );
    let both = Op::Resolve(vec![
        Resolution {
            promise: question,
            outcome: Outcome::broken(Reason::FIRST_FREE),
        };
        2
    ]);
    ends(vec![both], LinkError::NotDecider(question));
    ends(vec![to_data(ours(1))], LinkError::KindMismatch(ours(1)));
    ends(
        vec![deliver(ours(0), Some(ours(1)), &[])],
        LinkError::KindMismatch(ours(1)),
    );
    ends(
        vec![deliver(ours(0), Some(our_promise(2)), &[])],
        LinkError::NotDecider(our_promise(2)),
    );
}

/// A promise resolved to a promise, or to itself, is broken; a peer that goes on doing it is not
/// listened to.
#[test]
fn law_a_resolution_to_a_promise_breaks_it() {
    let (mut mesh, _, question) = target();
    let question_id = our_promise(1);
    mesh.forge(
        1,
        0,
        0,
        vec![resolve(question_id, Outcome::Reference(question_id))],
    );
    let broken = Outcome::broken(Reason::RESOLVED_TO_PROMISE);
    assert_eq!(mesh.told(0, question), [broken]);
    assert_eq!(mesh.nodes[0].counts.soft_violations, 1);
    for number in 1..=2 {
        let promise = their_promise(number);
        mesh.forge(
            1,
            0,
            0,
            vec![resolve(promise, Outcome::Reference(our_promise(2)))],
        );
    }
    assert_eq!(mesh.ended(0), Some(LinkError::SoftViolations(3)));
}

#[test]
fn law_messages_to_what_the_peer_knew_was_revoked_are_answered_and_counted() {
    let (mut mesh, x, _) = target();
    mesh.revoke(0, x, Hardness::Soft);
    // It acknowledges the REVOKE, and goes on.
    mesh.forge(1, 0, 2, vec![deliver(ours(1), Some(their_promise(1)), &[])]);
    assert_eq!(mesh.nodes[0].counts.soft_violations, 1);
    assert_eq!(mesh.ended(0), None);
    let answered = mesh.under_way[&(0, 1)].iter().any(|bytes| {
        let Ok(Frame::Numbered(frame)) = Frame::from_bytes(bytes) else {
            return false;
        };
        frame.ops.iter().any(|op| matches!(op, Op::Resolve(_)))
    });
    assert!(answered, "its promise is broken with the reason");
    mesh.forge(1, 0, 0, vec![deliver(ours(1), None, &[])]);
    mesh.forge(1, 0, 0, vec![deliver(ours(1), None, &[])]);
    assert_eq!(mesh.ended(0), Some(LinkError::SoftViolations(3)));
}

#[test]
fn law_a_flood_of_mentions_stops_at_its_limits() {
    // The door is one of three imports.
    let (mut mesh, ..) = target();
    mesh.forge(
        1,
        0,
        0,
        vec![deliver(ours(0), None, &[theirs(1), theirs(2)])],
    );
    assert_eq!((mesh.ended(0), mesh.view(0, 1).imports), (None, 3));
    mesh.forge(1, 0, 0, vec![deliver(ours(0), None, &[theirs(3)])]);
    let (what, limit) = ("imports", LIMITS.imports);
    assert_eq!(
        mesh.ended(0),
        Some(LinkError::LimitExceeded { what, limit })
    );

    let (mut mesh, ..) = target();
    let promises: Vec<_> = (1..=4).map(their_promise).collect();
    mesh.forge(1, 0, 0, vec![deliver(ours(0), None, &promises)]);
    assert_eq!(mesh.ended(0), None);
    mesh.forge(1, 0, 0, vec![deliver(ours(0), None, &[their_promise(5)])]);
    let (what, limit) = ("promises", LIMITS.promises);
    assert_eq!(
        mesh.ended(0),
        Some(LinkError::LimitExceeded { what, limit })
    );

    // Introduced and resolved at once, they do not fill the table, but the second.
    let short_lived = |number| {
        let promise = their_promise(number);
        vec![deliver(ours(0), None, &[promise]), to_data(promise)]
    };
    for (wait_ms, ended) in [(0, true), (1_000, false)] {
        let (mut mesh, ..) = target();
        for number in 1..=LIMITS.introductions_per_s {
            mesh.forge(1, 0, 0, short_lived(number.into()));
            assert_eq!(mesh.ended(0), None);
        }
        mesh.now_ms += wait_ms;
        mesh.forge(
            1,
            0,
            0,
            short_lived(u64::from(LIMITS.introductions_per_s) + 1),
        );
        assert_eq!(mesh.ended(0).is_some(), ended);
    }
}

/// A peer that never drops fills what it may hold, and our own sends say so.
#[test]
fn law_a_peer_that_never_drops_holds_no_more_than_it_may() {
    let (mut mesh, x, _) = target();
    let more = [mesh.export(0), mesh.export(0)];
    mesh.mention(0, 1, more[0]);
    let door = mesh.door(0, 1);
    let refused = mesh.try_send(0, door, Body::of([more[1].into()]), Answer::Unwanted);
    assert_eq!(refused, Err(SendError::TableFull(link(1))));
    mesh.mention(0, 1, x);
    // What is taken back for good makes room as soon as that is seen.
    mesh.revoke(0, more[0], Hardness::Hard);
    mesh.deliver_all();
    mesh.say(1, 0);
    mesh.deliver_all();
    mesh.mention(0, 1, more[1]);
}

/// A peer that never acknowledges stops our sends, and loses its epoch in the end.
#[test]
fn law_a_peer_that_never_acknowledges_fills_a_window_and_ends() {
    let (mut mesh, x, _) = target();
    for _ in 1..LIMITS.unacked_frames {
        mesh.say(0, 1);
    }
    let door = mesh.door(0, 1);
    let refused = mesh.try_send(0, door, Body::data(b"more"), Answer::Unwanted);
    assert_eq!(refused, Err(SendError::WindowFull(link(1))));
    // What is due all the same is said as far as twice the window, and the rest waits.
    mesh.revoke(0, x, Hardness::Soft);
    for number in 0..40 {
        mesh.forge(
            1,
            0,
            0,
            vec![deliver(ours(1), Some(their_promise(1 + number)), &[])],
        );
        if mesh.ended(0).is_some() {
            break;
        }
    }
    let bounded = mesh.nodes[0].tables.link(link(1));
    assert!(bounded.is_none_or(|view| view.outbox <= 2 * LIMITS.unacked_frames as usize));
    assert!(mesh.ended(0).is_some(), "its promises are at their limit");

    let (mut mesh, ..) = target();
    mesh.now_ms = LIMITS.ack_deadline_ms - 1;
    let step = mesh.nodes[0].tables.handle_timeout(mesh.now_ms);
    mesh.take(0, step);
    assert_eq!(mesh.ended(0), None);
    mesh.now_ms += 1;
    let step = mesh.nodes[0].tables.handle_timeout(mesh.now_ms);
    mesh.take(0, step);
    let (seq, waited_ms) = (Seq(1), LIMITS.ack_deadline_ms);
    assert_eq!(
        mesh.ended(0),
        Some(LinkError::AckDeadline { seq, waited_ms })
    );
}

/// One that stays a frame behind for ever is as bad.
#[test]
fn law_a_peer_that_stays_one_behind_ends() {
    let (mut mesh, ..) = target();
    let mut ended = None;
    for _ in 0..20 {
        mesh.say(0, 1);
        mesh.forge(1, 0, 1, vec![deliver(ours(0), None, &[])]);
        mesh.now_ms += LIMITS.ack_deadline_ms;
        let step = mesh.nodes[0].tables.handle_timeout(mesh.now_ms);
        mesh.take(0, step);
        ended = mesh.ended(0);
        if ended.is_some() {
            break;
        }
    }
    assert!(matches!(ended, Some(LinkError::AckDeadline { .. })));
}

/// Away is not silent: nothing ends while the peer cannot be reached.
#[test]
fn law_a_peer_that_is_away_keeps_its_epoch() {
    let (mut mesh, ..) = target();
    let step = mesh.nodes[0].tables.handle_disconnected(link(1));
    mesh.take(0, step);
    mesh.now_ms = 100 * LIMITS.ack_deadline_ms;
    let step = mesh.nodes[0].tables.handle_timeout(mesh.now_ms);
    mesh.take(0, step);
    assert!(mesh.nodes[0].tables.link(link(1)).is_some());
}

#[test]
fn law_messages_that_wait_for_a_promise_are_bounded() {
    let (mut mesh, ..) = target();
    for number in 1..=3 {
        mesh.forge(
            1,
            0,
            0,
            vec![deliver(our_promise(2), Some(their_promise(number)), &[])],
        );
    }
    assert_eq!(mesh.ended(0), None);
    assert_eq!(
        mesh.nodes[0].counts.undeliverable, 1,
        "the third is refused"
    );
}

/// A message that is one promise and mentions another whose outcomes lead on and on.
#[test]
fn law_a_chain_of_outcomes_longer_than_a_frame_is_refused() {
    let mut mesh = mesh(2, &[(0, 1)], Limits::default());
    let mut chain: Option<LocalPromise> = None;
    for length in 1..=65 {
        let promise = mesh.promise(0);
        let outcome = Body::of(chain.map(Local::from));
        mesh.resolve(0, promise, Outcome::Data(outcome));
        chain = Some(promise);
        let door = mesh.door(0, 1);
        let sent = mesh.try_send(0, door, Body::of([promise.into()]), Answer::Unwanted);
        if length <= 64 {
            assert!(sent.is_ok(), "{length}: {sent:?}");
            mesh.deliver_all();
            mesh.rest();
        } else {
            assert_eq!(sent, Err(SendError::TooManyResolutions));
        }
    }
}

#[test]
fn law_an_end_is_told_to_those_it_concerns() {
    let (mut mesh, x, _) = target();
    mesh.forge(1, 0, 0, vec![deliver(ours(0), None, &[theirs(1)])]);
    let held = mesh.handed(0)[0];
    // Node 2 holds what node 1 owns, through node 0.
    let there = mesh.give(0, 2, held);
    mesh.arrive(1, 0, b"junk");
    mesh.deliver_all();
    let lost = mesh.nodes[2].events.iter().any(|event| {
        matches!(event, Event::Revoked { object, reason, .. }
            if there == (*object).into() && *reason == Reason::DISCONNECTED)
    });
    assert!(lost, "the other link learns that it is gone");
    assert!(mesh.name(0, 2, x).is_some(), "and keeps everything else");
    mesh.rest();
}

/// However short they are, no more of a peer's frames are processed in a second than it may send.
#[test]
fn law_a_slow_drip_of_frames_stops_at_its_limit() {
    for (wait_ms, ended) in [(999, true), (1_000, false)] {
        let (mut mesh, ..) = target();
        for _ in 0..LIMITS.frames_per_s {
            mesh.forge(1, 0, 0, vec![deliver(ours(0), None, &[])]);
            assert_eq!(mesh.ended(0), None);
        }
        mesh.now_ms += wait_ms;
        mesh.forge(1, 0, 0, vec![deliver(ours(0), None, &[])]);
        let (what, limit) = ("frames a second", LIMITS.frames_per_s);
        let expected = ended.then_some(LinkError::LimitExceeded { what, limit });
        assert_eq!(mesh.ended(0), expected, "{wait_ms}");
    }
}

/// A peer that says again and again that it misses everything has it sent again once a pause, and a
/// window in which the first frame is lost is asked for once.
#[test]
fn law_what_is_missed_is_sent_again_once_a_pause() {
    let mut mesh = mesh(2, &[(0, 1)], Limits::default());
    for _ in 0..10 {
        mesh.say(0, 1);
    }
    let forged = Frame::Resume(Resume {
        epoch: Epoch(1),
        sent: Seq(0),
        recv: Seq(0),
        acked: Seq(0),
    });
    let said = |mesh: &mut Mesh| mesh.under_way.get_mut(&(0, 1)).unwrap().split_off(0).len();
    assert_eq!(said(&mut mesh), 10);
    for (after_ms, frames) in [(0, 10), (0, 0), (999, 0), (1, 10), (0, 0)] {
        mesh.now_ms += after_ms;
        mesh.arrive(1, 0, &forged.to_bytes());
        assert_eq!(said(&mut mesh), frames, "at {} ms", mesh.now_ms);
    }
    assert_eq!(mesh.nodes[0].counts.hurried, 3);
    // A new connection is another matter.
    let step = mesh.nodes[0].tables.handle_connected(link(1), mesh.now_ms);
    mesh.take(0, step);
    mesh.arrive(1, 0, &forged.to_bytes());
    assert_eq!(said(&mut mesh), 11);

    for _ in 0..10 {
        mesh.say(0, 1);
    }
    mesh.under_way.get_mut(&(0, 1)).unwrap().pop_front();
    mesh.deliver_all();
    assert_eq!(mesh.nodes[1].counts.gaps, 9);
    // The one question was answered within the pause of the answer before: asked again later.
    mesh.now_ms += 1_000;
    mesh.say(0, 1);
    mesh.deliver_all();
    assert_eq!(mesh.view(1, 0).recv, mesh.view(0, 1).sent);
}
