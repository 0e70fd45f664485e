//! What a disk was told to do, and what a crash may leave of it.
//!
//! An effect is durable once a flush of its file or folder came after it and succeeded. A
//! crash keeps every durable effect and any subset of the others, in order; of a write it may
//! keep any part that the tears below cut out. What a failed flush was to make durable stays
//! optional for ever: a later flush that succeeds says nothing about it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::Seeded;
use super::image::{Image, Key, Node};

/// The unit that a device writes whole or not at all.
const SECTOR_BYTES: usize = 512;

pub(super) type Inode = u64;

/// One effect, in the order of the calls.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    MakeFolder(Key),
    Make(Key, Inode),
    /// Cut to this length, or filled up to it with zeros.
    Resize(Inode, usize),
    Write {
        inode: Inode,
        offset: usize,
        bytes: Arc<[u8]>,
    },
    Rename(Key, Key, Inode),
    Remove(Key),
    /// A flush: no effect of its own, but a point in time.
    Flush,
}

#[derive(Debug, Clone)]
pub(super) struct Logged {
    pub(super) effect: Effect,
    /// The position of the flush that made it durable.
    pub(super) durable_at: Option<usize>,
    /// A failed flush was to make it durable.
    pub(super) in_limbo: bool,
}

/// A disk's contents at some moment and every effect since.
#[derive(Debug, Clone)]
pub struct Recording {
    pub(super) base: Image,
    pub(super) base_inodes: BTreeMap<Key, Inode>,
    pub(super) log: Vec<Logged>,
}

/// How much of what a crash may leave is tried.
#[derive(Debug, Clone, Copy)]
pub struct CrashChoices {
    /// Up to this many effects not yet durable, every subset of them is tried.
    pub exhaustive_max: u32,
    /// Above it, this many subsets are drawn.
    pub samples: u32,
    /// What they are drawn from.
    pub seed: u64,
    /// The last effect is kept: without it, the images are those of the prefix before.
    pub last_kept: bool,
}

impl Default for CrashChoices {
    fn default() -> Self {
        Self {
            exhaustive_max: 8,
            samples: 64,
            seed: 0,
            last_kept: false,
        }
    }
}

/// What a crash leaves of one write.
///
/// All of them are tried on a write alone; in a sample, the named ones are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nothing,
    Whole,
    FirstHalf,
    LastHalf,
    AllButFirstSector,
    AllButLastSector,
    EverySecondSector,
    /// The file grew, and the bytes did not arrive.
    LengthAlone,
    /// The sectors whose bit is set, of a write of eight at most.
    Sectors(u8),
}

const TEARS: [Kept; 6] = [
    Kept::FirstHalf,
    Kept::LastHalf,
    Kept::AllButFirstSector,
    Kept::AllButLastSector,
    Kept::EverySecondSector,
    Kept::LengthAlone,
];

impl Recording {
    /// How many effects and flushes were recorded.
    pub fn len(&self) -> usize {
        self.log.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Visits every image that a crash after the first `position` effects may leave, as far as
    /// `choices` go.
    pub fn crash_images(
        &self,
        position: usize,
        choices: CrashChoices,
        mut visit: impl FnMut(Image),
    ) {
        let pending: Vec<usize> = (0..position.min(self.log.len()))
            .filter(|&index| self.is_pending(index, position))
            .collect();
        let count = u32::try_from(pending.len()).unwrap_or(u32::MAX);
        if choices.last_kept && pending.last() != position.checked_sub(1).as_ref() {
            return;
        }
        // Up to the first of them every crash leaves the same.
        let first = pending.first().copied().unwrap_or(position);
        let mut settled = Replayed::of(&self.base, &self.base_inodes);
        for logged in self.log.iter().take(first.min(position)) {
            settled.apply(&logged.effect, Kept::Whole);
        }
        let replay = |kept: &[Kept]| self.replay(&settled, first..position, &pending, kept);
        let mut kept = vec![Kept::Nothing; pending.len()];
        if count <= choices.exhaustive_max {
            let subsets = 1_u64 << count;
            let first = if choices.last_kept { subsets / 2 } else { 0 };
            for subset in first..subsets {
                fill(&mut kept, subset);
                visit(replay(&kept));
                self.torn(&pending, &settled, &mut kept, |kept| visit(replay(kept)));
            }
        } else {
            let mut chance = Seeded::new(choices.seed ^ position as u64);
            for sample in 0..choices.samples {
                for kept in &mut kept {
                    *kept = draw(&mut chance, sample);
                }
                visit(replay(&kept));
            }
        }
    }

    /// One image that a crash after the first `position` effects may leave, drawn from `chance`.
    pub fn crash_image(&self, position: usize, chance: &mut Seeded) -> Image {
        let position = position.min(self.log.len());
        let pending: Vec<usize> = (0..position)
            .filter(|&index| self.is_pending(index, position))
            .collect();
        let sample = u32::try_from(chance.below(8)).unwrap_or_default();
        let kept: Vec<Kept> = pending.iter().map(|_| draw(chance, sample)).collect();
        let settled = Replayed::of(&self.base, &self.base_inodes);
        self.replay(&settled, 0..position, &pending, &kept)
    }

    fn is_pending(&self, index: usize, position: usize) -> bool {
        self.log.get(index).is_some_and(|logged| {
            !matches!(logged.effect, Effect::Flush)
                && logged.durable_at.is_none_or(|at| at >= position)
        })
    }

    /// Each kept write torn in each way, one at a time.
    fn torn(
        &self,
        pending: &[usize],
        settled: &Replayed,
        kept: &mut [Kept],
        mut visit: impl FnMut(&[Kept]),
    ) {
        for (at, index) in pending.iter().enumerate() {
            let is_write = matches!(
                self.log.get(*index).map(|logged| &logged.effect),
                Some(Effect::Write { .. })
            );
            if !is_write || kept.get(at) != Some(&Kept::Whole) {
                continue;
            }
            for tear in tears(self.log.get(*index), settled) {
                kept.iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|kept| *kept = tear);
                visit(kept);
            }
            kept.iter_mut()
                .skip(at)
                .take(1)
                .for_each(|kept| *kept = Kept::Whole);
        }
    }

    fn replay(
        &self,
        settled: &Replayed,
        positions: Range<usize>,
        pending: &[usize],
        kept: &[Kept],
    ) -> Image {
        let mut disk = settled.clone();
        let mut choices = pending.iter().zip(kept).peekable();
        for index in positions {
            let kept = choices
                .next_if(|(pending, _)| **pending == index)
                .map_or(Kept::Whole, |(_, kept)| *kept);
            if let Some(logged) = self.log.get(index).filter(|_| kept != Kept::Nothing) {
                disk.apply(&logged.effect, kept);
            }
        }
        disk.into_image()
    }
}

/// Every part of a write that a crash may leave, where no more than eight of its sectors
/// change what was there; of a longer one, the six above.
fn tears(logged: Option<&Logged>, settled: &Replayed) -> Vec<Kept> {
    let Some(Effect::Write {
        inode,
        offset,
        bytes,
    }) = logged.map(|logged| &logged.effect)
    else {
        return Vec::new();
    };
    let content = settled.contents.get(inode);
    let content = content.map_or(&[][..], |content| content.as_slice());
    let there = content.get(*offset..).unwrap_or_default();
    if bytes.len() > 8 * SECTOR_BYTES || there.len() < bytes.len() {
        return TEARS.to_vec();
    }
    let sectors = bytes.chunks(SECTOR_BYTES).zip(there.chunks(SECTOR_BYTES));
    let changed = sectors
        .enumerate()
        .filter(|(_, (new, old))| *new != old.get(..new.len()).unwrap_or_default());
    let changed = changed.fold(0_u8, |bits, (sector, _)| bits | 1 << sector);
    let subsets = (0..changed).filter(|bits| bits & !changed == 0);
    subsets.map(Kept::Sectors).collect()
}

fn fill(kept: &mut [Kept], subset: u64) {
    for (bit, kept) in kept.iter_mut().enumerate() {
        *kept = match subset >> bit & 1 {
            0 => Kept::Nothing,
            _ => Kept::Whole,
        };
    }
}

/// The first two samples are nothing and everything.
fn draw(chance: &mut Seeded, sample: u32) -> Kept {
    match (sample, chance.below(16)) {
        (0, _) => Kept::Nothing,
        (1, _) | (_, 8..=13) => Kept::Whole,
        (_, 0..=7) => Kept::Nothing,
        (_, tear) => match tear.wrapping_add(chance.below(3)) % 6 {
            0 => Kept::FirstHalf,
            1 => Kept::LastHalf,
            2 => Kept::AllButFirstSector,
            3 => Kept::AllButLastSector,
            4 => Kept::EverySecondSector,
            _ => Kept::LengthAlone,
        },
    }
}

/// Parts a log into what every crash from now on keeps and what is to be recorded still, each in its order. An effect that
/// no crash loses stays where one before it does that it does not commute with: of the same file's bytes, or, for a name
/// and for the bytes of a file that may have none yet, of any name.
pub(super) fn split(log: Vec<Logged>) -> (Vec<Logged>, Vec<Logged>) {
    let (mut names_wait, mut files_wait) = (false, BTreeSet::new());
    let (settled, mut kept): (Vec<_>, Vec<_>) = log.into_iter().partition(|logged| {
        let file = match &logged.effect {
            Effect::Flush => return true,
            Effect::Resize(inode, _) | Effect::Write { inode, .. } => Some(*inode),
            Effect::MakeFolder(_) | Effect::Make(..) | Effect::Rename(..) | Effect::Remove(_) => {
                None
            }
        };
        let waits = names_wait || file.is_some_and(|file| files_wait.contains(&file));
        let is_settled = logged.durable_at.is_some() && !waits;
        match file {
            _ if is_settled => {}
            Some(file) => {
                files_wait.insert(file);
            }
            None => names_wait = true,
        }
        is_settled
    });
    for logged in &mut kept {
        logged.durable_at = logged.durable_at.map(|_| 0);
    }
    (settled, kept)
}

/// What a disk holds, and under which inodes, once these effects are on it.
pub(super) fn settle(
    base: Image,
    inodes: BTreeMap<Key, Inode>,
    settled: &[Logged],
) -> (Image, BTreeMap<Key, Inode>) {
    let mut disk = Replayed::of(&base, &inodes);
    // The files are this disk's alone now, so that a write to one copies none.
    drop(base);
    for logged in settled {
        disk.apply(&logged.effect, Kept::Whole);
    }
    let inodes = disk.names.clone();
    (disk.into_image(), inodes)
}

/// A disk on which a log is played again.
#[derive(Clone)]
struct Replayed {
    folders: Vec<Key>,
    names: BTreeMap<Key, Inode>,
    contents: BTreeMap<Inode, Arc<Vec<u8>>>,
}

impl Replayed {
    fn of(base: &Image, inodes: &BTreeMap<Key, Inode>) -> Self {
        let mut disk = Self {
            folders: Vec::new(),
            names: inodes.clone(),
            contents: BTreeMap::new(),
        };
        for (path, node) in &base.nodes {
            match (node, inodes.get(path)) {
                (Node::File(bytes), Some(inode)) => {
                    disk.contents.insert(*inode, Arc::clone(bytes));
                }
                _ => disk.folders.push(Arc::clone(path)),
            }
        }
        disk
    }

    fn apply(&mut self, effect: &Effect, kept: Kept) {
        match effect {
            Effect::MakeFolder(path) => self.folders.push(Arc::clone(path)),
            Effect::Make(path, inode) => {
                self.names.insert(Arc::clone(path), *inode);
            }
            Effect::Resize(inode, bytes) => {
                let content = self.contents.entry(*inode).or_default();
                Arc::make_mut(content).resize(*bytes, 0);
            }
            Effect::Write {
                inode,
                offset,
                bytes,
            } => {
                let content = self.contents.entry(*inode).or_default();
                write_kept(Arc::make_mut(content), *offset, bytes, kept);
            }
            Effect::Rename(from, to, inode) => {
                self.names.remove(from);
                self.names.insert(Arc::clone(to), *inode);
            }
            Effect::Remove(path) => {
                self.names.remove(path);
            }
            Effect::Flush => {}
        }
    }

    fn into_image(self) -> Image {
        let mut image = Image::default();
        for folder in self.folders {
            image.nodes.insert(folder, Node::Folder);
        }
        for (path, inode) in self.names {
            let bytes = self.contents.get(&inode).cloned().unwrap_or_default();
            image.nodes.insert(path, Node::File(bytes));
        }
        image.drop_orphans();
        image
    }
}

fn write_kept(content: &mut Vec<u8>, offset: usize, bytes: &[u8], kept: Kept) {
    let end = offset.saturating_add(bytes.len());
    let half = (bytes.len() / 2).next_multiple_of(SECTOR_BYTES);
    let last = bytes.len().saturating_sub(1) / SECTOR_BYTES;
    let arrives = |sector: usize| match kept {
        Kept::Whole => true,
        Kept::Nothing | Kept::LengthAlone => false,
        Kept::FirstHalf => sector.saturating_mul(SECTOR_BYTES) < half,
        Kept::LastHalf => sector.saturating_mul(SECTOR_BYTES) >= half,
        Kept::AllButFirstSector => sector != 0,
        Kept::AllButLastSector => sector != last,
        Kept::EverySecondSector => sector.is_multiple_of(2),
        Kept::Sectors(bits) => bits >> sector.min(7) & 1 == 1,
    };
    if content.len() < end {
        content.resize(end, 0);
    }
    let target = content.get_mut(offset..end).unwrap_or_default();
    let sectors = target
        .chunks_mut(SECTOR_BYTES)
        .zip(bytes.chunks(SECTOR_BYTES));
    for (sector, (to, from)) in sectors.enumerate() {
        if arrives(sector) {
            to.copy_from_slice(from);
        }
    }
}
