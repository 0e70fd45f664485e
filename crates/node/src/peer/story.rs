//! What became of the latest transactions, one by one, for whoever asks afterwards.
//!
//! Remembered in memory is what this node saw of a transaction, step by step. It decides nothing, and nothing
//! depends on it. Only what was signed here or verified has one, so that a
//! stranger writes none in another's name. What this node passes on for others has a shelf of its own, and so has what
//! nodes say to each other by themselves (control messages, and what the ring, references, groups and mail of this node say), so that
//! neither takes room from the messages of applications. Each is bounded by [`STORIES_MAX`], and a story by
//! [`STORY_STEPS_MAX`]; what is forgotten is counted.

use std::collections::{BTreeMap, VecDeque};

use overlane_core::identity::Verified;
use overlane_core::replay::Verdict;
use overlane_core::ring::WhyUnreachable;
use overlane_core::transaction::{HOP_BUDGET_MAX, Payload};
use overlane_core::{Class, Did, StreamKey, TransactionDigest};
use overlane_relay::inbox::OutcomeKind;

use super::outbound::FORWARDED;
use super::{Now, Peer, PlaceId, Receipt, SendId};
use crate::link::LinkId;

/// Transactions whose stories are remembered, of messages from or to this node; as many of what nodes say by themselves, and of
/// what is passed on for others. Of one more, the story that began first is forgotten.
pub const STORIES_MAX: usize = 2_048;

/// Steps of one story: its first ones. More are counted, and only the latest of them is kept.
pub const STORY_STEPS_MAX: usize = 24;

/// The least of the send ids that a peer gives to what it says itself.
const OWN_IDS: u64 = 1 << 60;

/// One thing that happened to a transaction at this node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// It was signed here, under a sequence that a durable lease covers.
    Signed,
    /// Its signed bytes were offered again here.
    OfferedAgain,
    /// It is to go by way of this neighbour, in this class's lane.
    Way {
        /// The neighbour; the destination itself where there is one hop.
        neighbour: Did,
        /// The lane's class.
        class: Class,
    },
    /// A link's lane took it.
    InLane {
        /// The link.
        link: LinkId,
        /// Who is at its other end, as far as that is known still.
        peer: Option<Did>,
    },
    /// It left by no lane.
    NotSent {
        /// Why.
        code: &'static str,
    },
    /// A node on its way says that it does not reach its destination.
    Unreachable {
        /// Where its way ended.
        reporter: Did,
        /// Why.
        why: WhyUnreachable,
    },
    /// Its destination says that it admitted it.
    Delivered,
    /// This node has another's signed word that it holds it.
    Held {
        /// Who holds it.
        by: Did,
        /// Until when, in milliseconds since the Unix epoch.
        until_ms: u64,
    },
    /// It is held by nobody.
    NotHeld {
        /// Why.
        code: &'static str,
    },
    /// A holder says what became of it.
    Ended {
        /// Who says so.
        by: Did,
        /// What.
        kind: OutcomeKind,
    },
    /// It came over a link, and verified.
    Came {
        /// The neighbour that brought it.
        from: Did,
        /// How many hops it has made, as the last one says.
        hops: u8,
    },
    /// It came out of this node's inbox.
    CameAsMail {
        /// The holder that had it.
        holder: Did,
    },
    /// It was admitted, durably.
    Admitted {
        /// How it entered its window.
        verdict: Verdict,
    },
    /// It is in custody, durably, and waits for the application to take it.
    InCustody,
    /// It was refused here.
    Refused {
        /// The code of the refusal, which names the bound or the verdict.
        code: &'static str,
    },
    /// It was handed to the application's queue.
    HandedOver,
    /// The application took it.
    Taken,
}

/// What this node saw of one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// Its digest.
    pub digest: TransactionDigest,
    /// Its stream.
    pub stream: StreamKey,
    /// Its sequence in the stream.
    pub sequence: u64,
    /// What happened, and when by the wall clock, in milliseconds since the Unix epoch.
    pub steps: Vec<(u64, Step)>,
    /// Steps between the last two that were not kept.
    pub left_out: u64,
}

/// Which transactions are asked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoryOf {
    /// The one with this digest.
    Digest(TransactionDigest),
    /// Those from or to this account with this sequence: of one class, or what applications said, of any.
    Sequence(Did, u64, Option<Class>),
}

impl StoryOf {
    /// Whether a transaction is one of them.
    pub fn is(&self, stream: &StreamKey, sequence: u64, digest: TransactionDigest) -> bool {
        match self {
            Self::Digest(of) => *of == digest,
            Self::Sequence(did, of, class) => {
                let ends = stream.origin == *did || stream.destination == *did;
                *of == sequence && ends && class.is_none_or(|class| class == stream.class)
            }
        }
    }
}

#[derive(Debug, Default)]
struct Shelf {
    stories: BTreeMap<TransactionDigest, Story>,
    order: VecDeque<TransactionDigest>,
}

impl Shelf {
    /// Whether the story that began first was forgotten for it.
    fn add(&mut self, (stream, sequence, digest): Named, step: Step, at_ms: u64) -> bool {
        let mut forgot = false;
        if !self.stories.contains_key(&digest) {
            if self.order.len() >= STORIES_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.stories.remove(&oldest);
                forgot = true;
            }
            self.order.push_back(digest);
        }
        let story = self.stories.entry(digest).or_insert_with(|| Story {
            digest,
            stream,
            sequence,
            steps: Vec::new(),
            left_out: 0,
        });
        if story.steps.len() >= STORY_STEPS_MAX {
            story.steps.pop();
            story.left_out = story.left_out.saturating_add(1);
        }
        story.steps.push((at_ms, step));
        forgot
    }
}

/// A transaction, by its stream, its sequence and its digest.
pub(super) type Named = (StreamKey, u64, TransactionDigest);

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Stories {
    own: Shelf,
    by_themselves: Shelf,
    carried: Shelf,
    /// Transactions that hold a place on the application's side.
    places: BTreeMap<PlaceId, Named>,
}

pub(super) fn named(payload: &Verified<Payload>) -> Named {
    (payload.stream(), payload.sequence(), payload.digest())
}

pub(super) fn named_in(receipt: &Receipt) -> Named {
    (receipt.stream, receipt.sequence, receipt.digest)
}

impl Peer {
    /// What this node remembers of the transactions that are asked after, those of its own first.
    pub fn stories(&self, of: StoryOf) -> Vec<&Story> {
        let Stories {
            own,
            by_themselves,
            carried,
            places: _,
        } = &self.stories;
        // Without a class only what applications said is told.
        let asked = !matches!(of, StoryOf::Sequence(_, _, None));
        let shelves = [
            Some(own),
            Some(by_themselves).filter(|_| asked),
            Some(carried),
        ];
        let shelves = shelves.into_iter().flatten();
        let all = shelves.flat_map(|shelf| shelf.stories.values());
        all.filter(|it| of.is(&it.stream, it.sequence, it.digest))
            .collect()
    }

    /// How many stories are remembered, of this node's own transactions and of others'.
    pub fn stories_remembered(&self) -> usize {
        let Stories {
            own,
            by_themselves,
            carried,
            places: _,
        } = &self.stories;
        own.order.len() + by_themselves.order.len() + carried.order.len()
    }

    /// Remembers a step.
    pub(super) fn note_step(&mut self, of: Named, step: Step, now: Now) {
        let (stream, _, digest) = of;
        let by_itself = self.stories.by_themselves.stories.contains_key(&digest);
        self.note_on_shelf(of, by_itself || stream.class == Class::Control, step, now);
    }

    fn note_on_shelf(&mut self, of: Named, by_itself: bool, step: Step, now: Now) {
        let (stream, ..) = of;
        let own = stream.origin == self.did || stream.destination == self.did;
        let shelf = match (own, by_itself) {
            (_, true) => &mut self.stories.by_themselves,
            (true, false) => &mut self.stories.own,
            (false, false) => &mut self.stories.carried,
        };
        if shelf.add(of, step, now.wall_ms) {
            let forgotten = &mut self.counters.stories_forgotten;
            *forgotten = forgotten.saturating_add(1);
        }
    }

    /// Remembers a step of one that has a story already.
    pub(super) fn note_later(&mut self, digest: TransactionDigest, step: Step, now: Now) {
        let by_itself = &self.stories.by_themselves.stories;
        let story = self.stories.own.stories.get(&digest);
        let story = story.or_else(|| by_itself.get(&digest));
        if let Some(of) = story.map(|it| (it.stream, it.sequence, it.digest)) {
            self.note_step(of, step, now);
        }
    }

    /// Remembers a step of a send. The ids that the ring, references, sessions and mail give their own begin at
    /// [`OWN_IDS`].
    pub(super) fn note_send(&mut self, id: SendId, receipt: &Receipt, step: Step, now: Now) {
        let by_itself = id.0 >= OWN_IDS && id != FORWARDED;
        let control = receipt.stream.class == Class::Control;
        self.note_on_shelf(named_in(receipt), by_itself || control, step, now);
    }

    /// A verified payload came over a link.
    pub(super) fn note_came(&mut self, from: Did, payload: &Verified<Payload>, now: Now) {
        let made = HOP_BUDGET_MAX.saturating_sub(payload.relay().hop_budget);
        let hops = made.saturating_add(1);
        let control = payload.stream().class == Class::Control;
        let by_itself = control || self.is_own_matter(payload);
        self.note_on_shelf(named(payload), by_itself, Step::Came { from, hops }, now);
    }

    /// An admitted message holds this place until the application took it.
    pub(super) fn note_place(&mut self, place: PlaceId, of: Named, now: Now) {
        self.stories.places.insert(place, of);
        self.note_step(of, Step::HandedOver, now);
    }

    /// The application took what held this place.
    pub(super) fn note_taken(&mut self, place: PlaceId, now: Now) {
        if let Some(of) = self.stories.places.remove(&place) {
            self.note_step(of, Step::Taken, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::NetworkId;

    use super::*;

    fn named(number: u64) -> Named {
        let stream = StreamKey {
            network: NetworkId(1),
            origin: Did([1; 20]),
            destination: Did([2; 20]),
            class: Class::Application,
        };
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        (stream, number, TransactionDigest(digest))
    }

    #[test]
    fn a_full_shelf_forgets_the_story_that_began_first_and_says_so() {
        let mut shelf = Shelf::default();
        let max = u64::try_from(STORIES_MAX).unwrap();
        for number in 0..max {
            assert!(!shelf.add(named(number), Step::Signed, number));
        }
        // A step of one that is there takes no place.
        assert!(!shelf.add(named(0), Step::Taken, max));
        assert!(shelf.add(named(max), Step::Signed, max));
        assert!(!shelf.stories.contains_key(&named(0).2));
        assert!(shelf.stories.contains_key(&named(1).2));
        assert_eq!(shelf.stories.len(), STORIES_MAX);
        assert_eq!(shelf.stories.len(), shelf.order.len());
    }

    #[test]
    fn a_long_story_keeps_its_first_steps_and_the_latest() {
        let mut shelf = Shelf::default();
        let steps = u64::try_from(STORY_STEPS_MAX).unwrap() + 10;
        for at_ms in 0..steps {
            shelf.add(named(1), Step::OfferedAgain, at_ms);
        }
        let story = &shelf.stories[&named(1).2];
        assert_eq!((story.steps.len(), story.left_out), (STORY_STEPS_MAX, 10));
        let at = |it: Option<&(u64, Step)>| it.map(|it| it.0);
        assert_eq!(at(story.steps.first()), Some(0));
        assert_eq!(at(story.steps.last()), Some(steps - 1));
    }

    #[test]
    fn a_sequence_names_what_is_from_or_to_an_account() {
        let (stream, sequence, digest) = named(7);
        for (of, is) in [
            (StoryOf::Sequence(Did([1; 20]), 7, None), true),
            (StoryOf::Sequence(Did([2; 20]), 7, None), true),
            (StoryOf::Sequence(Did([3; 20]), 7, None), false),
            (StoryOf::Sequence(Did([1; 20]), 8, None), false),
            (
                StoryOf::Sequence(Did([1; 20]), 7, Some(Class::Application)),
                true,
            ),
            (
                StoryOf::Sequence(Did([1; 20]), 7, Some(Class::Control)),
                false,
            ),
            (StoryOf::Digest(digest), true),
            (StoryOf::Digest(TransactionDigest([9; 32])), false),
        ] {
            assert_eq!(of.is(&stream, sequence, digest), is, "{of:?}");
        }
    }
}
