//! What the segments say since the snapshot.
//!
//! Torn or damaged? A frame that does not read whole and has a frame of its epoch, or of a
//! later one that follows it, behind it was released: the records it concerned are lost from
//! there on and fail closed, and reading goes on. One with nothing behind it was never
//! released, or was the last one before its seal: the one residual, stated in
//! `docs/store-format.md`. Stopping at the first bad checksum would roll released admissions
//! back.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::store::RecordName;

use super::cell::Cell;
use super::fields::{HASH_BYTES, Keys};
use super::frame::{self, BLOCK_BYTES, Broken, Frame, Piece};
use super::segment::SegmentBytes;
use crate::mutant::broken;

/// What stands where in the segments, above the snapshot's frame.
#[derive(Debug, Default)]
pub(super) struct Found {
    wholes: Vec<(At, Frame)>,
    broken: Vec<(At, Broken)>,
    unreadable: BTreeSet<(usize, usize)>,
}

/// A run of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) segment: usize,
    pub(super) start: usize,
    pub(super) blocks: usize,
}

/// One number of the journal, in order.
#[derive(Debug)]
pub(super) enum Logged {
    Whole(Frame),
    /// It was released and does not read whole.
    Damaged {
        number: u64,
        at: Option<At>,
        cells: Vec<(RecordName, Option<Cell>)>,
    },
}

/// The journal since the snapshot.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    pub(super) frames: Vec<Logged>,
    /// Which segment holds which needed number.
    pub(super) occupied: Vec<(usize, u64)>,
    /// The highest epoch seen.
    pub(super) epoch: u64,
}

impl Found {
    /// Walks through one segment.
    pub(super) fn walk(&mut self, keys: &Keys, segment: usize, read: &SegmentBytes, covered: u64) {
        let blocks = read.bytes.len() / BLOCK_BYTES;
        let unreadable = read.unreadable.iter().map(|block| (segment, *block));
        self.unreadable.extend(unreadable);
        let mut block = 0;
        while block < blocks {
            let at = |start, blocks| At {
                segment,
                start,
                blocks,
            };
            let taken = match frame::read_at(keys, &read.bytes, block, covered) {
                Some(Piece::Whole(frame)) => {
                    let blocks = frame.blocks;
                    self.wholes.push((at(block, blocks), *frame));
                    blocks
                }
                Some(Piece::Broken(broken)) => {
                    let blocks = broken.blocks;
                    self.broken.push((at(block, blocks), *broken));
                    blocks
                }
                None => {
                    let tail = frame::read_tail_at(keys, &read.bytes, block);
                    if let Some(broken) = tail.filter(|broken| broken.number > covered) {
                        self.broken.push((at(broken.start, broken.blocks), broken));
                    }
                    1
                }
            };
            block = block.saturating_add(taken.max(1));
        }
    }

    /// Brings what was found into order.
    ///
    /// # Errors
    /// In words, when released frames are lost and nothing says which records they concerned.
    pub(super) fn recover(self, covered: u64, hash: [u8; HASH_BYTES]) -> Result<Recovered, String> {
        let epochs = self.wholes.iter().map(|(_, frame)| frame.head.epoch);
        let broken_epochs = self.broken.iter().map(|(_, broken)| broken.epoch);
        let mut recovered = Recovered {
            epoch: epochs.chain(broken_epochs).max().unwrap_or(0),
            ..Recovered::default()
        };
        // What an earlier epoch left torn under a number was never released, and is not what a
        // later epoch wrote under it.
        let starts = starts(&self.wholes);
        let rightful = |piece: &Broken| {
            let epoch = starts
                .iter()
                .rev()
                .find(|(_, start)| **start <= piece.number);
            epoch.is_some_and(|(epoch, _)| *epoch == piece.epoch)
        };
        let broken = self.broken.into_iter().filter(|(_, piece)| rightful(piece));
        let mut broken: BTreeMap<u64, (At, Broken)> = broken
            .map(|(at, piece)| (piece.number, (at, piece)))
            .collect();
        // Superseded frames too: the one that took their place may not be durable yet.
        let whole = |(at, frame): &(At, Frame)| (at.segment, frame.head.number);
        recovered.occupied.extend(self.wholes.iter().map(whole));
        let mut accepted = accept(self.wholes);
        if broken!(FreeSuperseded) {
            let occupied = accepted.iter();
            recovered.occupied = occupied
                .map(|(number, (at, _))| (at.segment, *number))
                .collect();
        }
        let last = accepted.last_key_value();
        let last = last.map(|(number, (at, _))| (*number, *at));
        refuse_unreadable(&self.unreadable, last.map(|(_, at)| at))?;
        let last = last.map_or(covered, |(number, _)| number);
        let mut previous = (Some(covered), hash);
        for number in covered.saturating_add(1)..=last {
            if let Some((_, frame)) = accepted.remove(&number) {
                if previous.0 == number.checked_sub(1) && previous.1 != frame.head.previous {
                    return Err(format!("frame {number} does not follow the one before it"));
                }
                previous = (Some(number), frame.hash);
                recovered.frames.push(Logged::Whole(frame));
                continue;
            }
            if broken!(StopAtFirstBad) {
                break;
            }
            let piece = broken.remove(&number);
            let next = number.saturating_add(1);
            let witnesses = match (accepted.get(&next), broken.get(&next)) {
                (Some((_, next)), _) => Some(&next.witnesses),
                (None, Some((_, next))) => next.witnesses.as_ref(),
                (None, None) => None,
            };
            let cells = names_of(piece.as_ref().map(|(_, piece)| piece), witnesses);
            let at = piece.map(|(at, _)| at);
            recovered.occupied.extend(at.map(|at| (at.segment, number)));
            recovered.frames.push(Logged::Damaged {
                number,
                at,
                cells: cells.ok_or_else(|| {
                    format!(
                        "frame {number} is lost, and so is what says which records it concerned"
                    )
                })?,
            });
        }
        Ok(recovered)
    }
}

/// The number at which each epoch began.
fn starts(wholes: &[(At, Frame)]) -> BTreeMap<u64, u64> {
    let start = |(_, frame): &(At, Frame)| (frame.head.epoch, frame.head.epoch_start);
    wholes.iter().map(start).collect()
}

/// Of frames of one number, the newest epoch's counts; and what an epoch wrote from the number
/// on at which a later one began was never released.
fn accept(wholes: Vec<(At, Frame)>) -> BTreeMap<u64, (At, Frame)> {
    let starts = starts(&wholes);
    let is_superseded = |frame: &Frame| {
        let mut later = starts.range(frame.head.epoch.saturating_add(1)..);
        later.any(|(_, start)| *start <= frame.head.number)
    };
    wholes
        .into_iter()
        .filter(|(_, frame)| !is_superseded(frame))
        .map(|(at, frame)| (frame.head.number, (at, frame)))
        .collect()
}

/// The names of a damaged frame from every copy that can be read, each with its cell where
/// that can be.
fn names_of(
    piece: Option<&Broken>,
    witnesses: Option<&Vec<RecordName>>,
) -> Option<Vec<(RecordName, Option<Cell>)>> {
    let own = piece.and_then(|piece| piece.cells.as_ref());
    if own.is_none() && witnesses.is_none() {
        return None;
    }
    let mut cells = own.cloned().unwrap_or_default();
    for name in witnesses.into_iter().flatten() {
        if !cells.iter().any(|(known, _)| known == name) {
            cells.push((*name, None));
        }
    }
    Some(cells)
}

/// A block that cannot be read where the next frame would stand may hold a released one.
fn refuse_unreadable(
    unreadable: &BTreeSet<(usize, usize)>,
    last: Option<At>,
) -> Result<(), String> {
    let next = last.map(|at| (at.segment, at.start.saturating_add(at.blocks)));
    let at_next = unreadable
        .iter()
        .find(|(segment, block)| *block == 0 || Some((*segment, *block)) == next);
    at_next.map_or(Ok(()), |(segment, block)| {
        Err(format!(
            "block {block} of segment {segment} cannot be read, and may hold the last frame"
        ))
    })
}
