//! Frames that refer to what the receiver holds no more: nothing of them is lost, and only their lane
//! waits.

use std::collections::VecDeque;

use super::delegations::{delegation, outline};
use super::pair::NETWORK;
use crate::ids::Class;
use crate::lane::bounds::*;
use crate::lane::rules::Rules;
use crate::lane::{CloseReason, Session, SessionConfig, SessionEvent};

/// Two open sessions. What the first sends on storage is under way for as long as the test wants.
struct Slow {
    ends: [Session; 2],
    now_ms: u64,
    slow: bool,
    under_way: VecDeque<Vec<u8>>,
    /// What came to the second, with its lane.
    came: Vec<(Class, Vec<u8>)>,
    closed: Option<CloseReason>,
}

/// A frame of this origin's.
fn frame(origin: u64) -> Vec<u8> {
    outline(&delegation(origin), &delegation(0))
}

impl Slow {
    fn new(rules: Rules) -> Self {
        let session = || {
            let mut config = SessionConfig::new(NETWORK);
            config.rules = rules;
            Session::new(config, 0)
        };
        let mut slow = Self {
            ends: [session(), session()],
            now_ms: 0,
            slow: false,
            under_way: VecDeque::new(),
            came: Vec::new(),
            closed: None,
        };
        for class in Class::ALL {
            let ends = slow.ends.iter_mut();
            ends.for_each(|end| end.handle_channel_open(class, 0));
        }
        slow.settle();
        slow.slow = true;
        slow
    }

    fn settle(&mut self) {
        let now_ms = self.now_ms;
        loop {
            self.take(now_ms);
            let next = (0..2).find_map(|side| Some((side, self.ends[side].poll_transmit(now_ms)?)));
            let Some((side, sent)) = next else {
                return;
            };
            self.ends[side].handle_accepted(sent.class, now_ms);
            if side == 0 && sent.class == Class::Storage && self.slow {
                self.under_way.push_back(sent.bytes);
            } else {
                self.ends[1 - side].handle_message(sent.class, sent.bytes, now_ms);
            }
        }
    }

    fn take(&mut self, now_ms: u64) {
        while let Some(event) = self.ends[1].poll_event() {
            match event {
                SessionEvent::Frames { class, frames } => {
                    self.ends[1].taken(class, frames.len(), now_ms);
                    let frames = frames.into_iter();
                    self.came.extend(frames.map(|frame| (class, frame.into())));
                }
                SessionEvent::Closed { reason } => self.closed = Some(reason),
                _ => {}
            }
        }
    }

    fn sends(&mut self, class: Class, frame: Vec<u8>) {
        self.ends[0].send(class, frame).unwrap();
        self.settle();
    }

    /// What was under way for so long arrives.
    fn arrives(&mut self) {
        for message in std::mem::take(&mut self.under_way) {
            let now_ms = self.now_ms;
            self.ends[1].handle_message(Class::Storage, message, now_ms);
        }
    }

    fn came_on(&self, class: Class) -> Vec<Vec<u8>> {
        let came = self.came.iter().filter(|(of, _)| *of == class);
        came.map(|(_, frame)| frame.clone()).collect()
    }

    /// Two frames on storage that refer to one delegation, and so many others on another lane that the
    /// receiver forgets it before they arrive.
    fn forgotten(rules: Rules) -> Self {
        let mut slow = Self::new(rules);
        slow.sends(Class::Application, frame(1));
        slow.sends(Class::Storage, frame(1));
        slow.sends(Class::Storage, frame(1));
        assert!(
            slow.under_way
                .iter()
                .all(|sent| sent.len() < frame(1).len())
        );
        let others = HELD_DELEGATIONS_MAX as u64 + 2 * FORGETS_AFTER_MS / 1_000;
        for origin in 2..others {
            slow.now_ms += 1_000;
            slow.sends(Class::Application, frame(origin));
        }
        slow
    }
}

/// What came on storage, where the first frame's delegation was forgotten while it was under way.
fn late(rules: Rules) -> (Vec<Vec<u8>>, Slow) {
    let mut slow = Slow::forgotten(rules);
    slow.arrives();
    // Before anything is said about it the other lanes go on.
    slow.take(slow.now_ms);
    assert!(slow.came_on(Class::Storage).is_empty(), "its lane waits");
    slow.ends[0].send(Class::E2e, frame(2)).unwrap();
    slow.settle();
    assert_eq!(slow.came_on(Class::E2e), [frame(2)]);
    slow.sends(Class::Storage, frame(3));
    slow.arrives();
    slow.settle();
    (slow.came_on(Class::Storage), slow)
}

#[test]
fn law_a_frame_whose_delegation_was_forgotten_keeps_its_place_and_is_not_lost_s03() {
    let (came, slow) = late(Rules::PROTOCOL);
    assert_eq!(came, [frame(1), frame(1), frame(3)], "whole, in order");
    let counters = slow.ends[1].status().counters;
    assert_eq!(
        (counters.references_missed, counters.references_lost),
        (2, 0)
    );
    assert_eq!(slow.closed, None);
}

#[test]
fn a_sender_that_forgets_what_it_refers_to_or_does_not_show_it_again_is_caught() {
    let silent = Rules {
        shows_again: false,
        ..Rules::PROTOCOL
    };
    let forgetful = Rules {
        keeps_referred: false,
        ..Rules::PROTOCOL
    };
    for broken in [silent, forgetful] {
        let (came, _) = late(broken);
        assert_eq!(came, [[0; 0]; 0], "{broken:?}");
    }
}

/// The other side stays until it has shown what is missed.
#[test]
fn law_a_link_that_closes_while_a_frame_misses_loses_nothing() {
    let mut slow = Slow::forgotten(Rules::PROTOCOL);
    slow.ends[0].close(slow.now_ms);
    slow.settle();
    slow.arrives();
    slow.slow = false;
    slow.settle();
    assert_eq!(slow.came_on(Class::Storage), [frame(1), frame(1)]);
    slow.now_ms += LINGER_MS;
    for end in &mut slow.ends {
        end.handle_timeout(slow.now_ms);
    }
    slow.settle();
    assert_eq!(slow.closed, Some(CloseReason::Peer));
}

/// Who refers to what it never shows holds one lane of its own link, for a time.
#[test]
fn law_a_frame_that_misses_for_good_goes_on_as_it_is_after_its_time() {
    let silent = Rules {
        shows_again: false,
        ..Rules::PROTOCOL
    };
    let (came, mut slow) = late(silent);
    assert!(came.is_empty());
    let due_ms = slow.ends[1].poll_timeout().unwrap();
    assert!(due_ms <= slow.now_ms + MISSED_WAITS_MS, "{due_ms}");
    slow.now_ms += MISSED_WAITS_MS;
    slow.ends[1].handle_timeout(slow.now_ms);
    slow.settle();
    let came = slow.came_on(Class::Storage);
    assert_eq!(came.len(), 3);
    assert!(came[0].len() < frame(1).len(), "as it came: to be refused");
    assert_eq!(came[2], frame(3), "what is behind it goes on");
    assert_eq!(slow.ends[1].status().counters.references_lost, 2);
}

#[test]
fn what_waits_for_a_delegation_is_told_before_its_link_ends() {
    let silent = Rules {
        shows_again: false,
        ..Rules::PROTOCOL
    };
    let (came, mut slow) = late(silent);
    assert!(came.is_empty());
    slow.ends[1].handle_transport_closed("lost".to_owned(), slow.now_ms);
    slow.take(slow.now_ms);
    assert_eq!(slow.came_on(Class::Storage).len(), 3);
    assert!(slow.closed.is_some());
}
