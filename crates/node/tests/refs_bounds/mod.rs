//! The bounds of a node's references, each filled.

use overlane_core::Did;
use overlane_core::wire::cbor::Writer;
use overlane_node::peer::refs::{Ask, Effect, ReferenceError, References, Reply, STRAYS_MAX};
use overlane_node::refs::{
    BODY_MAX_BYTES, CALLS_MAX, EXPORTS_MAX, FARS_MAX, KEPT_MAX, NOTE_MAX_BYTES, TICKETS_MAX,
};
use overlane_relay::refs::wire::{Body, Epoch, Frame, Outcome, Reason, Resume, Seq};
use overlane_relay::refs::{Limits, SendError};

use crate::SECRET;
use crate::refs_net::{Net, broken, send};

#[test]
fn law_calls_of_one_sender_are_bounded_and_those_over_it_are_told() {
    let mut net = Net::new(2, 0);
    net.share(0, SECRET);
    let target = net.give(0, 1, SECRET);
    net.ends[0].echoes = false;
    let calls: Vec<_> = (0..CALLS_MAX)
        .map(|_| net.call(1, target, b"x", &[]))
        .collect();
    net.quiet(100);
    assert_eq!(net.ends[0].refs.open_calls(), CALLS_MAX);
    let over = net.call(1, target, b"x", &[]);
    net.quiet(100);
    let busy = net.became(1, over).unwrap();
    assert_eq!(broken(&busy).unwrap().0, Reason::BUSY.0);
    assert_eq!(net.ends[0].refs.counters().calls_refused, 1);
    net.ends[0].echoes = true;
    net.quiet(100);
    assert!(calls.iter().all(|&call| net.became(1, call).is_some()));
    let again = net.call(1, target, b"again", &[]);
    net.quiet(100);
    assert_eq!(
        net.became(1, again),
        Some(Outcome::Data(Body::data(b"again")))
    );
}

#[test]
fn law_a_node_that_is_away_holds_no_more_than_a_window_of_calls() {
    let limits = Limits {
        unacked_frames: 8,
        ..Limits::default()
    };
    let mut net = Net::limited(2, 0, limits);
    net.share(0, SECRET);
    let target = net.give(0, 1, SECRET);
    net.quiet(1_000);
    net.unlink(0, 1);
    let calls: Vec<_> = (0..8).map(|_| net.call(1, target, b"waits", &[])).collect();
    let refused = net.asked(1, send(target, b"over", &[])).unwrap_err();
    assert!(
        matches!(refused, ReferenceError::Tables(SendError::WindowFull(_))),
        "{refused:?}"
    );
    net.link(0, 1);
    net.quiet(1_000);
    assert!(calls.iter().all(|&call| net.became(1, call).is_some()));
}

#[test]
fn law_what_a_node_offers_and_keeps_is_bounded() {
    let mut net = Net::new(1, 0);
    let one = net.export(0);
    for _ in 1..EXPORTS_MAX {
        net.ask(0, Ask::Export);
    }
    assert_eq!(net.asked(0, Ask::Export), Err(ReferenceError::ExportsFull));
    let keep = |note: Vec<u8>| Ask::Keep { local: one, note };
    let long = vec![0; NOTE_MAX_BYTES + 1];
    let refused = net.asked(0, keep(long)).unwrap_err();
    assert!(matches!(refused, ReferenceError::NoteTooLong { .. }));
    let Ok(Reply::Kept(first)) = net.asked(0, keep(vec![0; NOTE_MAX_BYTES])) else {
        panic!("it is kept");
    };
    for _ in 1..KEPT_MAX {
        net.ask(0, keep(Vec::new()));
    }
    assert_eq!(
        net.asked(0, keep(Vec::new())),
        Err(ReferenceError::KeptFull)
    );
    for number in 0..TICKETS_MAX {
        let digest = [u8::try_from(number).unwrap(); 32];
        assert_eq!(net.asked(0, Ask::Admit(first, digest)), Ok(Reply::Done));
    }
    let refused = net.asked(0, Ask::Admit(first, [99; 32]));
    assert_eq!(refused, Err(ReferenceError::TicketsFull));
    assert_eq!(net.asked(0, Ask::Forget(first)), Ok(Reply::Done));
    assert!(matches!(net.asked(0, keep(Vec::new())), Ok(Reply::Kept(_))));
    let none = net.asked(0, Ask::Restore(first)).unwrap_err();
    assert!(matches!(none, ReferenceError::NotKept { .. }));
}

#[test]
fn law_the_largest_body_fits_and_one_over_a_frame_is_refused() {
    let mut net = Net::new(2, 0);
    net.share(0, SECRET);
    let target = net.give(0, 1, SECRET);
    let largest = vec![7; BODY_MAX_BYTES];
    let call = net.call(1, target, &largest, &[]);
    net.quiet(100);
    assert_eq!(
        net.became(1, call),
        Some(Outcome::Data(Body::data(&largest)))
    );
    let over = vec![7; BODY_MAX_BYTES + 1_024];
    let refused = net.asked(1, send(target, &over, &[])).unwrap_err();
    assert_eq!(refused, ReferenceError::Tables(SendError::TooLarge));
}

#[test]
fn law_strangers_are_bounded_idle_ones_give_way_and_what_is_over_is_answered() {
    let mut net = Net::new(2, 0);
    let now = net.now();
    let refs: &mut References = &mut net.ends[0].refs;
    let begin = |epoch: u64| {
        let mut writer = Writer::new();
        writer
            .array(3)
            .uint(0)
            .value(&Epoch(epoch))
            .value(&Limits::default());
        writer.into_bytes()
    };
    let stranger = |number: usize| {
        let mut did = [0xee; 20];
        did[..8].copy_from_slice(&(number as u64).to_be_bytes());
        Did(did)
    };
    for number in 0..FARS_MAX {
        refs.handle_linked(stranger(number), now);
        refs.handle_message(stranger(number), 1, &begin(1), now);
    }
    assert_eq!(refs.fars().count(), FARS_MAX);
    // All of them are linked: there is no place.
    refs.handle_linked(stranger(FARS_MAX), now);
    refs.handle_message(stranger(FARS_MAX), 1, &begin(1), now);
    assert_eq!(refs.fars().count(), FARS_MAX);
    assert_eq!(refs.counters().refused_begins, 1);
    // One goes away and shares nothing: it gives way.
    refs.handle_unlinked(stranger(5), now);
    refs.handle_message(stranger(FARS_MAX), 1, &begin(1), now);
    assert_eq!(refs.fars().count(), FARS_MAX);
    assert!(refs.fars().any(|far| far.did == stranger(FARS_MAX)));
    assert!(refs.fars().all(|far| far.did != stranger(5)));
    // Frames of one that nothing is shared with are answered that it is over, so often.
    refs.handle_linked(stranger(5), now);
    let resume = Frame::Resume(Resume {
        epoch: Epoch(1),
        sent: Seq(1),
        recv: Seq(1),
        acked: Seq(1),
    });
    let mut writer = Writer::new();
    writer.array(2).uint(2).bytes(&resume.to_bytes());
    for _ in 0..2 * STRAYS_MAX {
        refs.handle_message(stranger(5), 2, writer.as_bytes(), now);
    }
    let commit = refs.poll_commit().unwrap();
    refs.handle_committed(commit.id, Ok(()));
    let mut over = 0;
    while let Some(effect) = refs.poll_effect() {
        over += usize::from(matches!(effect, Effect::Say { peer, .. } if peer == stranger(5)));
    }
    assert_eq!(over, STRAYS_MAX);
}
