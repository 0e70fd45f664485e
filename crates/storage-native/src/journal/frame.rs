//! A frame: what one flush makes durable.
//!
//! ```text
//! head | names, check | names of the frame before, check | cells | zeros | names | tail
//! ```
//!
//! A frame fills whole blocks, so no flush rewrites a block that holds a released frame. Its
//! names stand at its head, at its tail, and once more in the next frame: wherever a block is
//! lost, the streams it concerned can be named and fail closed alone (law isolation).

use overlane_core::store::RecordName;

use super::cell::{CELL_OVERHEAD_BYTES, Cell, CellKind, CellMaker};
use super::fields::{CHECK_BYTES, HASH_BYTES, Keys, NAME_BYTES, Put, Take, check};
use crate::vfs::DIRECT_BYTES;

/// What a device writes whole, and what a flush never rewrites.
pub(super) const BLOCK_BYTES: usize = 4096;
const _: () = assert!(BLOCK_BYTES.is_multiple_of(DIRECT_BYTES));

const HEAD_MARKER: [u8; 4] = *b"OVJF";
const TAIL_MARKER: [u8; 4] = *b"OVJT";
const HEAD_BYTES: usize = 4 + 4 + 8 + 8 + 8 + HASH_BYTES + 4 + 4 + 4 + 4 + CHECK_BYTES;
const NAMED_BYTES: usize = NAME_BYTES + 4 + 4;
const TAIL_BYTES: usize = 4 + 4 + 8 + 8 + 4 + 4 + CHECK_BYTES + HASH_BYTES;

const _: () = assert!(HEAD_BYTES + TAIL_BYTES + 2 * CHECK_BYTES < BLOCK_BYTES);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameKind {
    /// A batch.
    Batch = 0,
    /// The end of what was written before an idle moment.
    Seal = 1,
    /// The first of an epoch. It takes the number, and carries the cells, of the last frame
    /// of the epoch before: the only one that may not be durable though it can be read.
    Open = 2,
}

impl FrameKind {
    fn from_index(index: u8) -> Option<Self> {
        [Self::Batch, Self::Seal, Self::Open]
            .into_iter()
            .find(|kind| *kind as u8 == index)
    }
}

/// What a frame's head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: FrameKind,
    /// Counts the openings of the store.
    pub(super) epoch: u64,
    /// The number of the epoch's first frame.
    pub(super) epoch_start: u64,
    pub(super) number: u64,
    /// The hash of the frame before.
    pub(super) previous: [u8; HASH_BYTES],
}

/// A frame that was read whole.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) head: Head,
    pub(super) hash: [u8; HASH_BYTES],
    pub(super) blocks: usize,
    /// The names of the frame before.
    pub(super) witnesses: Vec<RecordName>,
    pub(super) cells: Vec<(RecordName, Cell)>,
}

/// What is left of a frame whose hash does not match.
#[derive(Debug, Clone)]
pub(super) struct Broken {
    pub(super) epoch: u64,
    pub(super) number: u64,
    /// Its first block, counted from where the reading began.
    pub(super) start: usize,
    pub(super) blocks: usize,
    /// Its names, each with its cell where that can be read; `None` when neither copy can.
    pub(super) cells: Option<Vec<(RecordName, Option<Cell>)>>,
    /// The names of the frame before, where they can be read.
    pub(super) witnesses: Option<Vec<RecordName>>,
}

/// What stands at a block.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    Whole(Box<Frame>),
    Broken(Box<Broken>),
}

/// Gathers one frame.
#[derive(Debug)]
pub(super) struct FrameWriter {
    keys: Keys,
    names: Vec<(RecordName, u32, u32)>,
    maker: CellMaker,
    cells: Vec<u8>,
    bytes: Vec<u8>,
}

impl FrameWriter {
    pub(super) fn new(keys: Keys) -> Self {
        Self {
            keys,
            names: Vec::new(),
            maker: CellMaker::default(),
            cells: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// What the frame takes as it is.
    pub(super) fn blocks(&self, witnesses: usize) -> usize {
        blocks_of(self.names.len(), witnesses, self.cells.len())
    }

    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.cells.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// What the frame would take with one more cell of this many bytes.
    pub(super) fn blocks_with(&self, witnesses: usize, cell_bytes: usize) -> usize {
        let more = cell_bytes.saturating_add(CELL_OVERHEAD_BYTES);
        blocks_of(
            self.names.len().saturating_add(1),
            witnesses,
            self.cells.len().saturating_add(more),
        )
    }

    pub(super) fn push(&mut self, name: RecordName, head: (CellKind, u64, u64), bytes: &[u8]) {
        let start = self.cells.len();
        let Self {
            keys, maker, cells, ..
        } = self;
        maker.put(keys, name, head, bytes, cells);
        let length = self.cells.len().saturating_sub(start);
        self.names.push((name, narrow(start), narrow(length)));
    }

    /// The frame's names, for the next one to repeat.
    pub(super) fn names(&self) -> impl Iterator<Item = RecordName> {
        self.names.iter().map(|(name, ..)| *name)
    }

    /// The frame's bytes, aligned for a direct write, and its hash. What was gathered stays until it
    /// is cleared.
    pub(super) fn finish(&mut self, head: &Head, witnesses: &[RecordName]) -> (&[u8], [u8; 32]) {
        let blocks = blocks_of(self.names.len(), witnesses.len(), self.cells.len());
        let frame_bytes = blocks.saturating_mul(BLOCK_BYTES);
        let out = &mut self.bytes;
        out.clear();
        out.reserve(frame_bytes.saturating_add(DIRECT_BYTES));
        let start = out.as_ptr().align_offset(DIRECT_BYTES).min(DIRECT_BYTES);
        let end = start.saturating_add(frame_bytes);
        out.resize(start, 0);
        put_head(
            &self.keys,
            head,
            blocks,
            [self.names.len(), self.cells.len(), witnesses.len()],
            out,
        );
        let cells_start = narrow(cells_start(self.names.len(), witnesses.len()));
        let names_start = out.len();
        for (name, start, length) in &self.names {
            out.raw(&name.0);
            out.u32(cells_start.saturating_add(*start));
            out.u32(*length);
        }
        let names_end = out.len();
        put_check(&self.keys.part, names_start, out);
        let witnesses_start = out.len();
        witnesses.iter().for_each(|name| out.raw(&name.0));
        put_check(&self.keys.part, witnesses_start, out);
        out.raw(&self.cells);
        let names_bytes = names_end.saturating_sub(names_start);
        let tail = TAIL_BYTES.saturating_add(names_bytes);
        out.resize(end.saturating_sub(tail), 0);
        let tail_start = out.len();
        out.extend_from_within(names_start..names_end);
        out.raw(&TAIL_MARKER);
        out.u32(narrow(blocks));
        out.u64(head.epoch);
        out.u64(head.number);
        out.u32(narrow(self.names.len()));
        out.u32(0);
        put_check(&self.keys.part, tail_start, out);
        let sealed = out.get(start..).unwrap_or_default();
        let hash = *blake3::keyed_hash(&self.keys.frame, sealed).as_bytes();
        out.raw(&hash);
        (self.bytes.get(start..).unwrap_or_default(), hash)
    }
}

/// Appends the check of everything from `start` on.
fn put_check(key: &[u8; 32], start: usize, out: &mut Vec<u8>) {
    let part = check(key, out.get(start..).unwrap_or_default());
    out.raw(&part);
}

fn put_head(keys: &Keys, head: &Head, blocks: usize, sizes: [usize; 3], out: &mut Vec<u8>) {
    let start = out.len();
    out.raw(&HEAD_MARKER);
    out.u8(head.kind as u8);
    out.raw(&[0; 3]);
    out.u64(head.epoch);
    out.u64(head.epoch_start);
    out.u64(head.number);
    out.raw(&head.previous);
    out.u32(narrow(blocks));
    sizes.into_iter().for_each(|size| out.u32(narrow(size)));
    put_check(&keys.part, start, out);
}

/// Sizes within a frame fit: a frame fits a segment, and a segment's length is a `u32`.
fn narrow(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

fn cells_start(names: usize, witnesses: usize) -> usize {
    HEAD_BYTES
        .saturating_add(names.saturating_mul(NAMED_BYTES))
        .saturating_add(CHECK_BYTES)
        .saturating_add(witnesses.saturating_mul(NAME_BYTES))
        .saturating_add(CHECK_BYTES)
}

fn blocks_of(names: usize, witnesses: usize, cells_bytes: usize) -> usize {
    cells_start(names, witnesses)
        .saturating_add(cells_bytes)
        .saturating_add(names.saturating_mul(NAMED_BYTES))
        .saturating_add(TAIL_BYTES)
        .div_ceil(BLOCK_BYTES)
}

/// The blocks of a frame, as one slice of what is read.
fn blocks_at(bytes: &[u8], start: usize, blocks: usize) -> Option<&[u8]> {
    let start = start.checked_mul(BLOCK_BYTES)?;
    let end = start.checked_add(blocks.checked_mul(BLOCK_BYTES)?)?;
    bytes.get(start..end)
}

struct ReadHead {
    head: Head,
    blocks: usize,
    names: usize,
    cells_bytes: usize,
    witnesses: usize,
}

fn read_head(keys: &Keys, block: &[u8]) -> Option<ReadHead> {
    let sealed = block.get(..HEAD_BYTES.saturating_sub(CHECK_BYTES))?;
    let mut fields = Take(block);
    if fields.array()? != HEAD_MARKER {
        return None;
    }
    let kind = FrameKind::from_index(fields.u8()?)?;
    let zeros: [u8; 3] = fields.array()?;
    let head = Head {
        kind,
        epoch: fields.u64()?,
        epoch_start: fields.u64()?,
        number: fields.u64()?,
        previous: fields.array()?,
    };
    let read = ReadHead {
        head,
        blocks: fields.size()?,
        names: fields.size()?,
        cells_bytes: fields.size()?,
        witnesses: fields.size()?,
    };
    let fits = blocks_of(read.names, read.witnesses, read.cells_bytes) == read.blocks;
    let whole = check(&keys.part, sealed) == fields.array()? && zeros == [0; 3];
    (fits && whole).then_some(read)
}

/// What the frame that begins at this block is, if one does; `None` too for a frame whose
/// number is not above `covered`: it was read before the snapshot was.
pub(super) fn read_at(keys: &Keys, bytes: &[u8], start: usize, covered: u64) -> Option<Piece> {
    let read = read_head(keys, blocks_at(bytes, start, 1)?)?;
    let frame = blocks_at(bytes, start, read.blocks)?;
    if read.head.number <= covered {
        return None;
    }
    Some(read_whole(keys, frame, &read).map_or_else(
        || Piece::Broken(Box::new(break_down(keys, frame, start, &read))),
        |frame| Piece::Whole(Box::new(frame)),
    ))
}

fn read_whole(keys: &Keys, frame: &[u8], read: &ReadHead) -> Option<Frame> {
    let (sealed, hash) = frame.split_last_chunk::<HASH_BYTES>()?;
    if blake3::keyed_hash(&keys.frame, sealed) != *hash {
        return None;
    }
    let cells = names_at_head(keys, frame, read)?
        .into_iter()
        .map(|named| Some((named.name, cell_of(keys, frame, named)?)))
        .collect::<Option<_>>()?;
    Some(Frame {
        head: read.head.clone(),
        hash: *hash,
        blocks: read.blocks,
        witnesses: witnesses(keys, frame, read)?,
        cells,
    })
}

fn break_down(keys: &Keys, frame: &[u8], start: usize, read: &ReadHead) -> Broken {
    let names =
        names_at_head(keys, frame, read).or_else(|| read_tail(keys, frame).map(|(_, names)| names));
    Broken {
        epoch: read.head.epoch,
        number: read.head.number,
        start,
        blocks: read.blocks,
        cells: names.map(|names| cells_of(keys, frame, names)),
        witnesses: witnesses(keys, frame, read),
    }
}

/// A frame whose head is lost and whose tail ends with this block.
pub(super) fn read_tail_at(keys: &Keys, bytes: &[u8], end: usize) -> Option<Broken> {
    let (tail, _) = read_tail(keys, blocks_at(bytes, 0, end.checked_add(1)?)?)?;
    let start = end.checked_add(1)?.checked_sub(tail.blocks)?;
    let frame = blocks_at(bytes, start, tail.blocks)?;
    let (_, names) = read_tail(keys, frame)?;
    Some(Broken {
        epoch: tail.epoch,
        number: tail.number,
        start,
        blocks: tail.blocks,
        cells: Some(cells_of(keys, frame, names)),
        witnesses: None,
    })
}

#[derive(Debug, Clone, Copy)]
struct Named {
    name: RecordName,
    start: usize,
    length: usize,
}

fn take_names(bytes: &[u8], count: usize) -> Option<Vec<Named>> {
    let mut fields = Take(bytes);
    (0..count)
        .map(|_| {
            Some(Named {
                name: fields.name()?,
                start: fields.size()?,
                length: fields.size()?,
            })
        })
        .collect()
}

fn names_at_head(keys: &Keys, frame: &[u8], read: &ReadHead) -> Option<Vec<Named>> {
    let mut fields = Take(frame.get(HEAD_BYTES..)?);
    let names = fields.raw(read.names.checked_mul(NAMED_BYTES)?)?;
    (check(&keys.part, names) == fields.array()?).then(|| take_names(names, read.names))?
}

fn witnesses(keys: &Keys, frame: &[u8], read: &ReadHead) -> Option<Vec<RecordName>> {
    let before = read.names.checked_mul(NAMED_BYTES)?;
    let start = HEAD_BYTES.checked_add(before)?.checked_add(CHECK_BYTES)?;
    let mut fields = Take(frame.get(start..)?);
    let witnesses = fields.raw(read.witnesses.checked_mul(NAME_BYTES)?)?;
    if check(&keys.part, witnesses) != fields.array()? {
        return None;
    }
    let mut fields = Take(witnesses);
    (0..read.witnesses).map(|_| fields.name()).collect()
}

struct Tail {
    blocks: usize,
    epoch: u64,
    number: u64,
}

/// The tail at the end of these bytes and the names before it.
fn read_tail(keys: &Keys, bytes: &[u8]) -> Option<(Tail, Vec<Named>)> {
    let tail_start = bytes.len().checked_sub(TAIL_BYTES)?;
    let mut fields = Take(bytes.get(tail_start..)?);
    if fields.array()? != TAIL_MARKER {
        return None;
    }
    let blocks = fields.size()?;
    let (epoch, number) = (fields.u64()?, fields.u64()?);
    let count = fields.size()?;
    let _zero = fields.u32()?;
    let names_start = tail_start.checked_sub(count.checked_mul(NAMED_BYTES)?)?;
    let checked = tail_start.checked_add(TAIL_BYTES.checked_sub(CHECK_BYTES + HASH_BYTES)?)?;
    if check(&keys.part, bytes.get(names_start..checked)?) != fields.array()? {
        return None;
    }
    let names = take_names(bytes.get(names_start..tail_start)?, count)?;
    Some((
        Tail {
            blocks,
            epoch,
            number,
        },
        names,
    ))
}

fn cell_of(keys: &Keys, frame: &[u8], named: Named) -> Option<Cell> {
    let end = named.start.checked_add(named.length)?;
    Cell::take(keys, named.name, frame.get(named.start..end)?)
}

fn cells_of(keys: &Keys, frame: &[u8], names: Vec<Named>) -> Vec<(RecordName, Option<Cell>)> {
    names
        .into_iter()
        .map(|named| (named.name, cell_of(keys, frame, named)))
        .collect()
}

/// Where a segment holds cells of a record, in the order of the blocks.
#[cfg(any(test, feature = "testkit"))]
pub(super) fn cell_ranges(
    keys: &Keys,
    bytes: &[u8],
    name: RecordName,
) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut block = 0;
    while let Some(at) = blocks_at(bytes, block, 1) {
        let read = read_head(keys, at);
        let blocks = read.as_ref().map_or(1, |read| read.blocks);
        let frame = blocks_at(bytes, block, blocks);
        let names = frame.zip(read.as_ref());
        let names = names.and_then(|(frame, read)| names_at_head(keys, frame, read));
        for named in names
            .into_iter()
            .flatten()
            .filter(|named| named.name == name)
        {
            let start = block
                .saturating_mul(BLOCK_BYTES)
                .saturating_add(named.start);
            ranges.push(start..start.saturating_add(named.length));
        }
        block = block.saturating_add(blocks.max(1));
    }
    ranges
}
