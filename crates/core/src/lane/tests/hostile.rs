//! A session opposite a peer that does what it likes.

use proptest::prelude::*;

use super::frames::control_frame;
use super::pair::{NETWORK, numbered_frame};
use crate::fault::{Coded, Fault};
use crate::ids::{Class, NetworkId};
use crate::lane::bounds::{
    CONTROL_WINDOW_FRAMES, HELD_DEFAULT_MAX_BYTES, HELLOS_TAKEN_MAX, LANE_WINDOW_FRAMES,
    LINK_WINDOW_MIN_BYTES, PROBE_IDLE_MS, PROBE_RESERVE_FRAMES, QUEUED_MAX,
};
use crate::lane::{
    CloseReason, ControlFrame, Credit, Hello, Numbered, Phase, QuotaHint, Session, SessionConfig,
    SessionEvent, Violation, Windows,
};
use crate::wire::bounds::{CONTROL_FRAME_MAX_BYTES, FRAME_MAX_BYTES};
use crate::wire::frame::{CONTROL_MARKER, FrameError};

/// A session, and by hand what its peer sends.
struct Lone(Session);

const HELLO: fn() -> Hello = || Hello {
    network: NETWORK,
    windows: Windows::default(),
    quota: QuotaHint::default(),
};

impl Lone {
    fn new(windows: Windows) -> Self {
        let config = SessionConfig {
            windows,
            ..SessionConfig::new(NETWORK)
        };
        Self(Session::new(config, 0))
    }

    /// Open on all channels.
    fn opened(windows: Windows) -> Self {
        let mut lone = Self::new(windows);
        for class in Class::ALL {
            lone.0.handle_channel_open(class, 0);
        }
        lone.flush();
        for class in Class::ALL {
            lone.control(class, ControlFrame::Hello(class, HELLO()));
            lone.control(class, ControlFrame::HelloAck(class));
        }
        assert_eq!(lone.0.phase(), Phase::Open);
        lone.flush();
        lone
    }

    fn control(&mut self, class: Class, frame: ControlFrame) {
        self.0.handle_message(class, frame.to_frame(), 0);
    }

    fn numbered(&mut self, number: u64, heard: u64, says: Numbered) {
        let frame = ControlFrame::Numbered {
            number,
            heard,
            says,
        };
        self.control(Class::Control, frame);
    }

    fn payload(&mut self, class: Class, size: usize) {
        let frame = numbered_frame(class, 0, size);
        self.0.handle_message(class, frame, 0);
    }

    /// Everything it wants sent goes into the send buffer.
    fn flush(&mut self) -> usize {
        let mut sent = 0;
        while let Some(message) = self.0.poll_transmit(0) {
            self.0.handle_accepted(message.class, 0);
            sent += 1;
        }
        sent
    }

    /// Why it ended, and how many frames it told before.
    fn ended(&mut self) -> (Option<CloseReason>, usize) {
        let mut frames = 0;
        loop {
            match self.0.poll_event() {
                Some(SessionEvent::Closed { reason }) => return (Some(reason), frames),
                Some(SessionEvent::Frames { frames: told, .. }) => frames += told.len(),
                Some(SessionEvent::Open { .. } | SessionEvent::Room { .. }) => {}
                None => return (None, frames),
            }
        }
    }

    fn violates(mut self, violation: Violation) {
        assert_eq!(self.ended().0, Some(violation.into()));
        assert_eq!(self.flush(), 0, "nothing leaves after the end");
        assert_eq!(self.0.poll_timeout(), None);
        assert_eq!(violation.fault(), Fault::PeerMisbehaved);
        assert!(violation.code().contains('/'));
    }
}

#[test]
fn law_over_credit_closes_the_link() {
    for class in Class::ALL {
        let mut lone = Lone::opened(Windows::default());
        for _ in 0..LANE_WINDOW_FRAMES {
            lone.payload(class, 100);
        }
        assert_eq!(lone.0.phase(), Phase::Open, "a full window is no violation");
        lone.payload(class, 100);
        assert_eq!(lone.0.status().lanes.of(class).untaken, 16);
        // what came before is still told
        let (reason, frames) = lone.ended();
        let over = Violation::OverLaneFrames(class);
        assert_eq!((reason, frames), (Some(over.into()), 16));
    }

    let mut lone = Lone::opened(Windows::default());
    for _ in 0..4 {
        lone.payload(Class::Storage, FRAME_MAX_BYTES);
    }
    lone.payload(Class::Storage, 13);
    lone.violates(Violation::OverLaneBytes {
        class: Class::Storage,
        window_bytes: 256 * 1024,
    });

    let mut lone = Lone::opened(Windows::sized(LINK_WINDOW_MIN_BYTES));
    lone.payload(Class::Storage, FRAME_MAX_BYTES);
    lone.payload(Class::E2e, FRAME_MAX_BYTES);
    lone.payload(Class::Application, 13);
    lone.violates(Violation::OverLinkBytes {
        window_bytes: 128 * 1024,
    });

    let mut lone = Lone::opened(Windows::default());
    for number in 1..=CONTROL_WINDOW_FRAMES {
        lone.numbered(number, 0, Numbered::Ping);
    }
    assert_eq!(lone.0.phase(), Phase::Open, "a full window is no violation");
    lone.numbered(CONTROL_WINDOW_FRAMES + 1, 0, Numbered::Ping);
    lone.violates(Violation::OverControl);
}

#[test]
fn a_grant_reopens_exactly_what_was_taken() {
    let mut lone = Lone::opened(Windows::default());
    for _ in 0..LANE_WINDOW_FRAMES {
        lone.payload(Class::E2e, 100);
    }
    // A CREDIT that shows early grants; nothing was taken, so it brings none of the lane's window.
    assert_eq!(lone.flush(), 1);
    assert_eq!(lone.ended(), (None, 16));
    for taken in 1..=4 {
        lone.0.taken(Class::E2e, 1, 0);
        assert_eq!(lone.flush(), usize::from(taken == 4));
    }
    for _ in 0..4 {
        lone.payload(Class::E2e, 100);
    }
    assert_eq!(lone.0.phase(), Phase::Open);
    lone.payload(Class::E2e, 100);
    lone.violates(Violation::OverLaneFrames(Class::E2e));
}

#[test]
fn bytes_that_are_no_frame_close_the_link() {
    let mut lone = Lone::opened(Windows::default());
    lone.0.handle_message(Class::Storage, b"????".to_vec(), 0);
    lone.violates(FrameError::UnknownMarker.into());

    let mut lone = Lone::opened(Windows::default());
    lone.payload(Class::Storage, FRAME_MAX_BYTES + 1);
    let oversized = FrameError::Oversized {
        size_bytes: FRAME_MAX_BYTES + 1,
        bound_bytes: FRAME_MAX_BYTES,
    };
    lone.violates(oversized.into());

    let mut lone = Lone::opened(Windows::default());
    let mut large = CONTROL_MARKER.to_vec();
    large.resize(CONTROL_FRAME_MAX_BYTES + 1, 0);
    lone.0.handle_message(Class::Control, large, 0);
    let oversized = FrameError::Oversized {
        size_bytes: CONTROL_FRAME_MAX_BYTES + 1,
        bound_bytes: CONTROL_FRAME_MAX_BYTES,
    };
    lone.violates(oversized.into());
}

#[test]
fn a_malformed_control_frame_closes_the_link() {
    let ping = [&CONTROL_MARKER[..], &[0x83, 0x05, 0x01, 0x00]].concat();
    let edits: [fn(&mut Vec<u8>); 5] = [
        |bytes| bytes.push(0),
        |bytes| bytes.truncate(6),
        |bytes| bytes[5] = 7,
        |bytes| bytes[4] = 0x9f,
        // the number 1 in two bytes
        |bytes| drop(bytes.splice(6..7, [0x18, 0x01])),
    ];
    for edit in edits {
        let mut lone = Lone::opened(Windows::default());
        let mut bytes = ping.clone();
        edit(&mut bytes);
        lone.0.handle_message(Class::Control, bytes, 0);
        let (reason, _) = lone.ended();
        let reason = reason.expect("it ended");
        assert!(
            matches!(reason, CloseReason::Violation(Violation::Control(_))),
            "{reason}"
        );
        assert_eq!(reason.code(), "link/control_malformed");
    }
}

#[test]
fn greetings_out_of_place_close_the_link() {
    let class = Class::Storage;
    let hello = |network| Hello { network, ..HELLO() };

    let mut lone = Lone::new(Windows::default());
    lone.control(class, ControlFrame::HelloAck(class));
    lone.violates(Violation::Unasked(class));

    let mut lone = Lone::new(Windows::default());
    lone.payload(class, 100);
    lone.violates(Violation::BeforeHello(class));

    let mut lone = Lone::new(Windows::default());
    let (ours, theirs) = (NETWORK, NetworkId(8));
    lone.control(class, ControlFrame::Hello(class, hello(theirs)));
    lone.violates(Violation::WrongNetwork { ours, theirs });

    let mut lone = Lone::new(Windows::default());
    lone.control(class, ControlFrame::Hello(Class::E2e, HELLO()));
    lone.violates(Violation::WrongChannel {
        belongs: Class::E2e,
        arrived: class,
    });

    let mut lone = Lone::opened(Windows::default());
    let windows = Windows::sized(LINK_WINDOW_MIN_BYTES);
    let changed = Hello { windows, ..HELLO() };
    lone.control(class, ControlFrame::Hello(class, changed));
    lone.violates(Violation::HelloChanged(class));

    let mut lone = Lone::new(Windows::default());
    for _ in 0..HELLOS_TAKEN_MAX {
        lone.control(class, ControlFrame::Hello(class, HELLO()));
    }
    assert_eq!(lone.0.phase(), Phase::Opening);
    lone.control(class, ControlFrame::Hello(class, HELLO()));
    lone.violates(Violation::HelloFlood(class));
}

#[test]
fn endings_out_of_place_close_the_link() {
    let class = Class::Application;

    let mut lone = Lone::opened(Windows::default());
    lone.control(class, ControlFrame::FinAck(class));
    lone.violates(Violation::Unasked(class));

    let mut lone = Lone::opened(Windows::default());
    lone.payload(class, 100);
    lone.control(class, ControlFrame::Fin(class, 1));
    lone.control(class, ControlFrame::Fin(class, 1));
    assert_eq!(lone.0.phase(), Phase::Closing);
    lone.payload(class, 100);
    lone.violates(Violation::AfterFin(class));

    let mut lone = Lone::opened(Windows::default());
    lone.payload(class, 100);
    lone.control(class, ControlFrame::Fin(class, 2));
    lone.violates(Violation::FinCount {
        class,
        announced: 2,
        received: 1,
    });
}

#[test]
fn numbers_and_grants_for_what_was_not_sent_close_the_link() {
    let grants = |lane: usize, frames, bytes, drained_bytes| {
        let mut credit = Credit {
            drained_bytes,
            ..Credit::default()
        };
        credit.taken_frames[lane] = frames;
        credit.taken_bytes[lane] = bytes;
        Numbered::Credit(credit)
    };
    let opened = || {
        let mut lone = Lone::opened(Windows::default());
        let frame = numbered_frame(Class::E2e, 0, 100);
        lone.0.send(Class::E2e, frame).unwrap();
        lone.flush();
        lone
    };
    for (says, violation) in [
        (grants(2, 2, 100, 0), Violation::CreditUnsent(Class::E2e)),
        (grants(2, 1, 101, 0), Violation::CreditUnsent(Class::E2e)),
        (grants(0, 1, 0, 0), Violation::CreditUnsent(Class::Control)),
        (grants(2, 1, 100, 101), Violation::HeardUnsent),
        (Numbered::Pong(1), Violation::HeardUnsent),
    ] {
        let mut lone = opened();
        lone.numbered(1, 0, says);
        lone.violates(violation);
    }

    let mut lone = opened();
    lone.numbered(1, 0, grants(2, 1, 100, 100));
    assert_eq!(lone.0.status().lanes.of(Class::E2e).credit, 16);
    // an older grant, and the same one again, change nothing
    lone.numbered(2, 0, grants(2, 0, 0, 0));
    lone.numbered(1, 0, grants(2, 0, 0, 0));
    let status = lone.0.status();
    assert_eq!(status.lanes.of(Class::E2e).credit, 16);
    assert_eq!(status.counters.control_repeated, 1);
    lone.numbered(3, 1, Numbered::Ping);
    lone.violates(Violation::HeardUnsent);

    let mut lone = opened();
    lone.numbered(2, 0, Numbered::Ping);
    lone.violates(Violation::ControlGap {
        number: 2,
        heard: 0,
    });
}

#[test]
fn law_a_reader_of_nothing_is_held_to_the_windows_s16() {
    // the peer says HELLO, takes everything off its channels, and never answers again
    let mut lone = Lone::opened(Windows::default());
    for _ in 0..40 {
        for class in Class::ALL {
            let frame = || numbered_frame(class, 0, 13);
            while lone.0.send(class, frame()).is_ok() {}
        }
        lone.flush();
    }
    let status = lone.0.status();
    assert!(status.lanes.iter().all(|lane| lane.credit == 0));
    assert!(status.counters.batches_sent > 0);
    let queued: usize = status.lanes.iter().map(|lane| lane.queued).sum();
    assert_eq!(queued, QUEUED_MAX);
    for _ in 0..3 {
        let due_ms = lone.0.poll_timeout().unwrap_or(0);
        lone.0.handle_timeout(due_ms);
        lone.0.poll_transmit(due_ms);
    }
    let (reason, _) = lone.ended();
    assert!(
        matches!(reason, Some(CloseReason::Gone { .. })),
        "{reason:?}"
    );
    assert_eq!(lone.0.held_bytes(), 0);
}

#[test]
fn law_probes_pass_a_full_control_window_s15() {
    // the peer keeps sending, and never says that it heard a grant
    let mut lone = Lone::opened(Windows::default());
    let mut frames = 0;
    while lone.0.status().unanswered_control < CONTROL_WINDOW_FRAMES - PROBE_RESERVE_FRAMES {
        lone.payload(Class::E2e, 100);
        frames += lone.ended().1;
        lone.0.taken(Class::E2e, 1, 0);
        lone.flush();
    }
    // The first one shows that grants come early.
    assert_eq!(frames, 1 + 4 * 53);
    for _ in 0..4 {
        lone.payload(Class::E2e, 100);
        assert_eq!(lone.ended(), (None, 1));
        lone.0.taken(Class::E2e, 1, 0);
    }
    assert_eq!(lone.flush(), 0, "a grant is due and waits for an answer");
    lone.0.handle_timeout(PROBE_IDLE_MS);
    lone.numbered(1, 0, Numbered::Ping);
    assert_eq!(lone.flush(), 2, "a PONG and a PING");
    assert_eq!(lone.0.status().counters.probes_sent, 1);
    lone.numbered(2, 56, Numbered::Pong(56));
    assert_eq!(lone.0.status().counters.probes_answered, 1);
    assert_eq!(lone.flush(), 1, "the grant");
}

/// What can happen to a session.
#[derive(Debug, Clone)]
enum Step {
    Opened(Class),
    Came(Class, Vec<u8>),
    Accepted(Class),
    Taken(Class),
    Sent(Class, usize),
    Passed(u64),
    Polled,
    Closed,
    TransportClosed,
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..80);
    let size = prop_oneof![6 => 0..2_000_usize, 1 => 0..=FRAME_MAX_BYTES];
    prop_oneof![
        1 => bytes(),
        1 => bytes().prop_map(|bytes| [&CONTROL_MARKER[..], &bytes].concat()),
        2 => control_frame().prop_map(|frame| frame.to_frame()),
        4 => size.prop_map(|size| numbered_frame(Class::E2e, 0, size)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let class = || proptest::sample::select(Class::ALL.to_vec());
    let honest = class().prop_map(|class| {
        let hello = ControlFrame::Hello(class, HELLO());
        Step::Came(class, hello.to_frame())
    });
    let answer =
        class().prop_map(|class| Step::Came(class, ControlFrame::HelloAck(class).to_frame()));
    prop_oneof![
        2 => class().prop_map(Step::Opened),
        2 => honest,
        2 => answer,
        6 => (class(), message()).prop_map(|(class, message)| Step::Came(class, message)),
        2 => class().prop_map(Step::Accepted),
        4 => class().prop_map(Step::Taken),
        4 => (class(), 13..2_000_usize).prop_map(|(class, size)| Step::Sent(class, size)),
        2 => any::<u16>().prop_map(|ms| Step::Passed(u64::from(ms))),
        6 => Just(Step::Polled),
        1 => Just(Step::Closed),
        1 => Just(Step::TransportClosed),
    ]
}

proptest! {
    #[test]
    fn prop_nothing_that_comes_panics_or_grows(
        opened: bool,
        steps in proptest::collection::vec(step(), 0..300),
    ) {
        let mut lone = match opened {
            true => Lone::opened(Windows::default()),
            false => Lone::new(Windows::default()),
        };
        let mut now_ms = 0;
        let mut closed = 0;
        for step in steps {
            let session = &mut lone.0;
            match step {
                Step::Opened(class) => session.handle_channel_open(class, now_ms),
                Step::Came(class, message) => session.handle_message(class, message, now_ms),
                Step::Accepted(class) => session.handle_accepted(class, now_ms),
                Step::Taken(class) => session.taken(class, 1, now_ms),
                Step::Sent(class, size) => {
                    let _ = session.send(class, numbered_frame(class, 0, size));
                }
                Step::Passed(ms) => {
                    now_ms += ms;
                    session.handle_timeout(now_ms);
                }
                Step::Polled => {
                    let mut polled = 0;
                    while session.poll_transmit(now_ms).is_some() {
                        polled += 1;
                        prop_assert!(polled <= 64, "what is handed out is bounded");
                    }
                    while let Some(event) = session.poll_event() {
                        closed += usize::from(matches!(event, SessionEvent::Closed { .. }));
                    }
                }
                Step::Closed => session.close(now_ms),
                Step::TransportClosed => {
                    session.handle_transport_closed("it ended".to_owned(), now_ms);
                }
            }
            let queued = (QUEUED_MAX * 2_000) as u64;
            prop_assert!(session.held_bytes() <= HELD_DEFAULT_MAX_BYTES + queued);
            prop_assert!(closed <= 1);
        }
    }

    #[test]
    fn prop_a_peer_that_only_floods_is_held_to_the_windows(
        messages in proptest::collection::vec((0..4_u8, message()), 0..400),
    ) {
        let mut lone = Lone::opened(Windows::default());
        for (class, message) in messages {
            let class = Class::from_index(class).unwrap_or(Class::Control);
            lone.0.handle_message(class, message, 0);
            prop_assert!(lone.0.held_bytes() <= HELD_DEFAULT_MAX_BYTES);
            let handed_out = lone.0.status().lanes;
            prop_assert!(handed_out.iter().all(|lane| lane.untaken <= 16));
        }
    }
}
