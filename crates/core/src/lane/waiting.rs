//! The frames of one lane that wait to leave, in their order.
//!
//! Small ones lie one behind the other in blocks of the lane, out of which a batch is written. Each kept in the
//! allocation that its sender made, it would be given back by the link's driver, mostly on another thread, and the
//! two would wait for the allocator's locks message by message (`docs/measuring.md`, lanes).
//!
//! Law (little more than waits): the blocks hold at most a third more than the frames in them, and three blocks.

use std::collections::VecDeque;

use super::batch::Measure;
use crate::wire::bounds::{BATCH_MAX_BYTES, BATCH_MAX_FRAMES};

/// The largest frame that is copied into the lane's blocks: of these at least a few leave together.
const COPIED_MAX_BYTES: usize = BATCH_MAX_BYTES / 4;

/// A block of a lane in which more waits.
const BLOCK_BYTES: usize = BATCH_MAX_BYTES;

/// The block of a lane in which nothing waited, unless its frame is longer.
const FIRST_BLOCK_BYTES: usize = 2 * 1024;

/// A message that leaves.
#[derive(Debug)]
pub(super) struct Leaving {
    /// A payload frame, or a batch of them.
    pub(super) message: Vec<u8>,
    /// How many.
    pub(super) frames: usize,
}

/// What waits in a lane.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    frames: VecDeque<Place>,
    /// Those that were copied, in order.
    copied: Blocks,
}

/// Where a frame lies.
#[derive(Debug)]
enum Place {
    /// In the lane's blocks, so many bytes long, behind those before it there.
    Copied(usize),
    Own(Vec<u8>),
}

impl Place {
    fn len(&self) -> usize {
        match self {
            Self::Copied(bytes) => *bytes,
            Self::Own(frame) => frame.len(),
        }
    }
}

impl Waiting {
    /// Frames that wait.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// The length of the first one.
    pub(super) fn head_bytes(&self) -> Option<usize> {
        self.frames.front().map(Place::len)
    }

    /// Another one, behind the others.
    pub(super) fn push(&mut self, frame: Vec<u8>) {
        let place = if frame.is_empty() || frame.len() > COPIED_MAX_BYTES {
            Place::Own(frame)
        } else {
            self.copied.push(&frame);
            Place::Copied(frame.len())
        };
        self.frames.push_back(place);
    }

    /// Takes the first frame and what else fits behind it, in at most `max_frames`, as long as `may_leave` says so of the
    /// message's bytes and frames. `shorten` may give another form of a frame, told how many of the
    /// message go before it. Gives the message, and how many bytes of what waited it took.
    pub(super) fn take(
        &mut self,
        max_frames: usize,
        may_leave: impl Fn(usize, usize) -> bool,
        mut shorten: impl FnMut(usize, &[u8]) -> Option<Vec<u8>>,
    ) -> Option<(Leaving, usize)> {
        let mut waiting = self.iter();
        let first = waiting.next()?;
        let short = shorten(0, first);
        let mut measure = Measure::of(short.as_deref().unwrap_or(first).len(), max_frames);
        let mut shortened = Vec::with_capacity(self.len().min(BATCH_MAX_FRAMES));
        shortened.push(short);
        for frame in waiting {
            let before = measure.frames();
            let short = shorten(before, frame);
            let size = short.as_deref().unwrap_or(frame).len();
            let whole = measure.with(size);
            if !whole.is_some_and(|whole| may_leave(whole, before.saturating_add(1))) {
                break;
            }
            measure.push(size);
            shortened.push(short);
        }
        let frames = measure.frames();
        if frames == 1 {
            let frame = self.pop()?;
            let bytes = frame.len();
            let message = shortened.pop().flatten().unwrap_or(frame);
            return Some((Leaving { message, frames }, bytes));
        }
        let leaving = self.iter().zip(&shortened);
        let message = measure.join(leaving.map(|(frame, short)| short.as_deref().unwrap_or(frame)));
        let bytes = self.drop_first(frames);
        Some((Leaving { message, frames }, bytes))
    }

    /// All of them, in order.
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut blocks = self.copied.blocks.iter();
        let mut rest: &[u8] = &[];
        self.frames.iter().map(move |place| match place {
            Place::Copied(bytes) => {
                if rest.is_empty() {
                    rest = blocks.next().map(Block::rest).unwrap_or_default();
                }
                let (frame, behind) = rest.split_at_checked(*bytes).unwrap_or((rest, &[]));
                rest = behind;
                frame
            }
            Place::Own(frame) => frame,
        })
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = match self.frames.pop_front()? {
            Place::Copied(bytes) => {
                let block = self.copied.blocks.front()?;
                let frame = block.rest().get(..bytes)?.to_vec();
                self.copied.pass(bytes);
                frame
            }
            Place::Own(frame) => frame,
        };
        self.settle();
        Some(frame)
    }

    /// Lets go of so many of the first; how many bytes they were.
    fn drop_first(&mut self, frames: usize) -> usize {
        let mut all: usize = 0;
        for place in self.frames.drain(..frames.min(self.frames.len())) {
            all = all.saturating_add(place.len());
            if let Place::Copied(bytes) = place {
                self.copied.pass(bytes);
            }
        }
        self.settle();
        all
    }

    /// Where nothing waits, nothing is kept.
    fn settle(&mut self) {
        if self.frames.is_empty() {
            self.copied = Blocks::default();
        }
    }
}

/// Frames one behind the other, each whole in one block.
#[derive(Debug, Default)]
struct Blocks {
    blocks: VecDeque<Block>,
    /// One that is empty, for the next.
    spare: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    /// How many of its first bytes have left.
    passed: usize,
}

impl Block {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.passed..).unwrap_or_default()
    }
}

impl Blocks {
    fn push(&mut self, frame: &[u8]) {
        let last = self.blocks.back_mut();
        let fits = |last: &&mut Block| {
            last.bytes.capacity().saturating_sub(last.bytes.len()) >= frame.len()
        };
        if let Some(last) = last.filter(fits) {
            last.bytes.extend_from_slice(frame);
            return;
        }
        let size_bytes = match self.blocks.is_empty() {
            true => FIRST_BLOCK_BYTES,
            false => BLOCK_BYTES,
        };
        let spare = self.spare.take();
        let mut bytes = spare.unwrap_or_else(|| Vec::with_capacity(size_bytes.max(frame.len())));
        bytes.extend_from_slice(frame);
        self.blocks.push_back(Block { bytes, passed: 0 });
    }

    /// So many of the first bytes left: a frame.
    fn pass(&mut self, bytes: usize) {
        let Some(first) = self.blocks.front_mut() else {
            return;
        };
        first.passed = first.passed.saturating_add(bytes);
        if first.passed >= first.bytes.len()
            && let Some(mut empty) = self.blocks.pop_front()
            && empty.bytes.capacity() >= BLOCK_BYTES
        {
            empty.bytes.clear();
            self.spare = Some(empty.bytes);
        }
    }

    #[cfg(test)]
    fn capacity_bytes(&self) -> usize {
        let blocks = self.blocks.iter().map(|block| block.bytes.capacity());
        blocks.chain(self.spare.iter().map(Vec::capacity)).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(number: usize, bytes: usize) -> Vec<u8> {
        vec![u8::try_from(number % 251).unwrap(); bytes]
    }

    proptest! {
        /// Pushed and taken in turns, of sizes on both sides of what is copied, some shortened.
        #[test]
        fn prop_what_waits_leaves_in_its_order_and_whole(
            steps in proptest::collection::vec((1_usize..2 * COPIED_MAX_BYTES, 0_usize..3), 1..120)
        ) {
            let mut waiting = Waiting::default();
            let (mut pushed, mut left) = (Vec::new(), Vec::new());
            let mut queued_bytes = 0;
            let mut take = |waiting: &mut Waiting, most: usize| {
                let mut leaves = Vec::new();
                let shorten = |before: usize, frame: &[u8]| {
                    leaves.truncate(before);
                    leaves.push(frame.to_vec());
                    frame.len().is_multiple_of(5).then(|| frame[..1].to_vec())
                };
                let Some((leaving, bytes)) = waiting.take(most, |_, frames| frames < 9, shorten) else {
                    return 0;
                };
                leaves.truncate(leaving.frames);
                assert_eq!(bytes, leaves.iter().map(Vec::len).sum::<usize>());
                let short = |it: &Vec<u8>| if it.len().is_multiple_of(5) { it[..1].to_vec() } else { it.clone() };
                let short: Vec<_> = leaves.iter().map(short).collect();
                if let [only] = &short[..] {
                    assert_eq!(&leaving.message, only);
                } else {
                    let mut measure = Measure::of(short[0].len(), most);
                    short[1..].iter().for_each(|it| measure.push(it.len()));
                    assert_eq!(leaving.message, measure.join(short.iter().map(Vec::as_slice)));
                }
                left.extend(leaves);
                bytes
            };
            for (number, &(bytes, takes)) in steps.iter().enumerate() {
                waiting.push(frame(number, bytes));
                pushed.push(frame(number, bytes));
                queued_bytes += bytes;
                for _ in 0..takes {
                    queued_bytes -= take(&mut waiting, 1 + number % 32);
                }
                let copied_bytes: usize = waiting.frames.iter().map(|it| match it {
                    Place::Copied(bytes) => *bytes,
                    Place::Own(_) => 0,
                }).sum();
                let most = copied_bytes * 4 / 3 + 3 * BLOCK_BYTES;
                prop_assert!(waiting.copied.capacity_bytes() <= most);
            }
            while waiting.len() > 0 {
                queued_bytes -= take(&mut waiting, 32);
            }
            prop_assert_eq!(queued_bytes, 0);
            prop_assert_eq!(left, pushed);
        }
    }

    #[test]
    fn a_lane_in_which_nothing_waits_keeps_no_block() {
        let mut waiting = Waiting::default();
        for number in 0..64 {
            waiting.push(frame(number, 1_024));
        }
        assert!(waiting.copied.capacity_bytes() >= 64 * 1_024);
        while waiting.take(32, |_, _| true, |_, _| None).is_some() {}
        assert_eq!(waiting.copied.capacity_bytes(), 0);
        assert_eq!(waiting.head_bytes(), None);
    }
}
