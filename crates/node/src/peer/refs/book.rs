//! The nodes that references are shared with: which link of the tables is whose, which epoch it is
//! in, and what is to be said there.
//!
//! Law (said within bounds): what waits for a node is at most its unacknowledged frames, each once,
//! and one of each kind that counts for nothing: a newer one takes the place of the older. What
//! waits when the last link goes is forgotten; the outbox of the tables has it still.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use overlane_core::Did;
use overlane_relay::refs::table::{LinkId, LocalObject};
use overlane_relay::refs::wire::{Epoch, Seq};

use super::{AskId, IN_HAND_MAX};

/// One other node.
#[derive(Debug)]
pub(super) struct Far {
    pub(super) did: Did,
    /// The highest epoch that ever was or was asked for.
    pub(super) floor: Epoch,
    /// Its door, as long as an epoch lasts.
    pub(super) door: Option<LocalObject>,
    /// Whether a link leads there.
    pub(super) linked: bool,
    /// The epoch this node asked for, until it begins.
    pub(super) asked: Option<Asked>,
    /// When an epoch last began at its wish.
    pub(super) began_ms: Option<u64>,
    /// The highest sequence of a message of its, in this life of the process.
    pub(super) newest: u64,
    queue: Queue,
    in_hand: usize,
}

/// A request to begin an epoch.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) epoch: Epoch,
    pub(super) again_ms: u64,
    pub(super) until_ms: u64,
    /// Who waits for it, and for what ticket.
    pub(super) waiting: Vec<(AskId, [u8; 32])>,
}

/// Something to say to one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Saying {
    Begin(Epoch),
    Begun(Epoch),
    Numbered(Seq, Arc<[u8]>),
    /// A frame that counts for nothing, by its tag.
    Other(u8, Arc<[u8]>),
}

#[derive(Debug, Default)]
struct Queue {
    line: VecDeque<Saying>,
    numbered: BTreeSet<Seq>,
}

impl Queue {
    fn push(&mut self, saying: Saying) {
        match &saying {
            Saying::Numbered(seq, _) => {
                if !self.numbered.insert(*seq) {
                    return;
                }
            }
            other => {
                let kind = other.kind();
                self.line.retain(|waiting| waiting.kind() != kind);
            }
        }
        self.line.push_back(saying);
    }

    fn pop(&mut self) -> Option<Saying> {
        let saying = self.line.pop_front()?;
        if let Saying::Numbered(seq, _) = &saying {
            self.numbered.remove(seq);
        }
        Some(saying)
    }
}

impl Saying {
    /// What a newer one takes the place of.
    fn kind(&self) -> Option<u8> {
        match self {
            Self::Numbered(..) => None,
            Self::Begin(_) => Some(u8::MAX),
            Self::Begun(_) => Some(u8::MAX - 1),
            Self::Other(kind, _) => Some(*kind),
        }
    }

    /// A frame of the tables. One without a number tells its kind in its second byte.
    pub(super) fn frame(seq: Option<Seq>, bytes: Arc<[u8]>) -> Self {
        match seq {
            Some(seq) => Self::Numbered(seq, bytes),
            None => Self::Other(bytes.get(1).copied().unwrap_or_default(), bytes),
        }
    }
}

impl Far {
    pub(super) fn new(did: Did, floor: Epoch, door: Option<LocalObject>) -> Self {
        Self {
            did,
            floor,
            door,
            linked: false,
            asked: None,
            began_ms: None,
            newest: 0,
            queue: Queue::default(),
            in_hand: 0,
        }
    }

    /// Something to say, if anybody hears it.
    pub(super) fn say(&mut self, saying: Saying) {
        if self.linked {
            self.queue.push(saying);
        }
    }

    /// What to say next, as long as not too much is on its way.
    pub(super) fn next(&mut self) -> Option<Saying> {
        if !self.linked || self.in_hand >= IN_HAND_MAX {
            return None;
        }
        let saying = self.queue.pop()?;
        self.in_hand += 1;
        Some(saying)
    }

    /// What was said last is in a lane, or lost.
    pub(super) fn said(&mut self) {
        self.in_hand = self.in_hand.saturating_sub(1);
    }

    /// Nobody hears anything any more.
    pub(super) fn forget_sayings(&mut self) {
        self.queue = Queue::default();
    }

    #[cfg(test)]
    fn waiting_sayings(&self) -> usize {
        self.queue.line.len()
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Book {
    fars: BTreeMap<LinkId, Far>,
    by_did: BTreeMap<Did, LinkId>,
    next_link: u32,
}

impl Book {
    /// One that a store kept.
    pub(super) fn load(&mut self, link: LinkId, far: Far) {
        self.next_link = self.next_link.max(link.0.saturating_add(1));
        self.by_did.insert(far.did, link);
        self.fars.insert(link, far);
    }

    /// A new one, under a number that no other has had in this life.
    pub(super) fn add(&mut self, did: Did) -> LinkId {
        let link = LinkId(self.next_link);
        self.load(link, Far::new(did, Epoch(0), None));
        link
    }

    pub(super) fn remove(&mut self, link: LinkId) {
        if let Some(far) = self.fars.remove(&link) {
            self.by_did.remove(&far.did);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.fars.len()
    }

    pub(super) fn link(&self, did: Did) -> Option<LinkId> {
        self.by_did.get(&did).copied()
    }

    pub(super) fn far(&self, link: LinkId) -> Option<&Far> {
        self.fars.get(&link)
    }

    pub(super) fn far_mut(&mut self, link: LinkId) -> Option<&mut Far> {
        self.fars.get_mut(&link)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LinkId, &Far)> {
        self.fars.iter().map(|(&link, far)| (link, far))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (LinkId, &mut Far)> {
        self.fars.iter_mut().map(|(&link, far)| (link, far))
    }

    /// When the next request to begin an epoch is due again.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let asked = self.fars.values().filter_map(|far| far.asked.as_ref());
        asked.map(|asked| asked.again_ms.min(asked.until_ms)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tag: u8) -> Arc<[u8]> {
        Arc::from([0x84, tag, 0])
    }

    #[test]
    fn law_said_within_bounds_each_frame_waits_once_and_newer_words_replace_older() {
        let mut far = Far::new(Did([1; 20]), Epoch(1), None);
        far.say(Saying::Begin(Epoch(1)));
        assert_eq!(far.waiting_sayings(), 0, "nobody hears");
        far.linked = true;
        for _ in 0..3 {
            for seq in 1..=2 {
                far.say(Saying::frame(Some(Seq(seq)), frame(0)));
            }
            for tag in 1..=3 {
                far.say(Saying::frame(None, frame(tag)));
            }
            far.say(Saying::Begin(Epoch(1)));
            far.say(Saying::Begun(Epoch(1)));
        }
        assert_eq!(far.waiting_sayings(), 7);
        assert_eq!(far.next(), Some(Saying::Numbered(Seq(1), frame(0))));
        far.say(Saying::frame(Some(Seq(1)), frame(0)));
        assert_eq!(
            far.waiting_sayings(),
            7,
            "it is on its way, so it may wait again"
        );
        for _ in 1..IN_HAND_MAX {
            far.say(Saying::Begin(Epoch(1)));
            let _ = far.next();
        }
        far.say(Saying::Begin(Epoch(1)));
        for seq in 10..40 {
            far.say(Saying::frame(Some(Seq(seq)), frame(0)));
        }
        while far.next().is_some() {}
        assert!(far.waiting_sayings() > 0, "what is on its way is bounded");
        far.said();
        assert!(far.next().is_some());
        far.forget_sayings();
        assert_eq!(far.waiting_sayings(), 0);
    }
}
