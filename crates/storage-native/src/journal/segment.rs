//! Segments: files of one length, written with zeros when the store is made, so that a full
//! disk is noticed then and not in the middle of an admission, and so that a flush in use moves
//! no file metadata. A segment is used again once a durable snapshot covers every frame in it.

use std::path::PathBuf;

use overlane_core::store::StoreError;

use super::frame::BLOCK_BYTES;
use crate::folder::Folder;
use crate::mutant::broken;
use crate::vfs::{OpenMode, VfsFile, failed, read_full_at, write_all_at};

pub(super) const SEGMENT_PREFIX: &str = "segment-";

/// How many zeros are written at a time.
const STEP_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    file: Box<dyn VfsFile>,
    /// The highest number of a frame in it that is still needed unless a snapshot covers it.
    last_number: u64,
}

/// The segments of an open store.
#[derive(Debug)]
pub(super) struct Segments {
    list: Vec<Segment>,
    blocks: usize,
    active: usize,
    at_block: usize,
}

/// A segment as it was read, and the blocks of it that could not be.
#[derive(Debug)]
pub(super) struct SegmentBytes {
    pub(super) bytes: Vec<u8>,
    pub(super) unreadable: Vec<usize>,
}

pub(super) fn file_name(index: usize) -> String {
    format!("{SEGMENT_PREFIX}{index}")
}

/// Makes the segments, each durable before it has its name.
pub(super) fn create(folder: &Folder, count: usize, blocks: usize) -> Result<(), StoreError> {
    for index in 0..count {
        let name = file_name(index);
        let temp = folder.temp_path(&name);
        let mut file = folder
            .vfs
            .open(&temp, OpenMode::Create)
            .map_err(failed("create", &temp))?;
        let bytes = blocks.saturating_mul(BLOCK_BYTES);
        let zeros = vec![0; STEP_BYTES.min(bytes)];
        let mut written = 0;
        while written < bytes {
            let step = zeros.get(..bytes.saturating_sub(written)).unwrap_or(&zeros);
            write_all_at(file.as_mut(), step, written as u64).map_err(failed("write", &temp))?;
            written = written.saturating_add(step.len());
        }
        file.flush().map_err(failed("flush", &temp))?;
        folder.rename_temp(&name)?;
    }
    Ok(())
}

impl Segments {
    /// Opens the segments and reads them, one after another, through `read`.
    pub(super) fn open(
        folder: &Folder,
        count: usize,
        blocks: usize,
        mut read: impl FnMut(usize, SegmentBytes),
    ) -> Result<Self, StoreError> {
        let mut list = Vec::with_capacity(count);
        for index in 0..count {
            let path = folder.path.join(file_name(index));
            let mut file = folder
                .vfs
                .open(&path, OpenMode::Update)
                .map_err(failed("open", &path))?;
            let bytes = read_segment(file.as_mut(), blocks);
            if bytes.bytes.len() != blocks.saturating_mul(BLOCK_BYTES) {
                return Err(StoreError::Damaged {
                    path: path.display().to_string(),
                    cause: "it is shorter than when it was made".into(),
                });
            }
            read(index, bytes);
            let file = folder
                .vfs
                .open(&path, OpenMode::Direct)
                .map_err(failed("open", &path))?;
            list.push(Segment {
                path,
                file,
                last_number: 0,
            });
        }
        Ok(Self {
            list,
            blocks,
            active: 0,
            at_block: blocks,
        })
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    pub(super) fn path(&self, index: usize) -> PathBuf {
        let segment = self.list.get(index);
        segment.map_or_else(PathBuf::new, |segment| segment.path.clone())
    }

    /// A frame of this number is in this segment.
    pub(super) fn occupy(&mut self, index: usize, number: u64) {
        if let Some(segment) = self.list.get_mut(index) {
            segment.last_number = segment.last_number.max(number);
        }
    }

    pub(super) fn has_room(&self, blocks: usize) -> bool {
        self.at_block.saturating_add(blocks) <= self.blocks
    }

    /// How many segments hold nothing that a snapshot of `covered` does not.
    pub(super) fn free(&self, covered: u64) -> usize {
        self.list
            .iter()
            .enumerate()
            .filter(|(index, segment)| self.is_free(*index, segment, covered))
            .count()
    }

    fn is_free(&self, index: usize, segment: &Segment, covered: u64) -> bool {
        let in_use = index == self.active && self.at_block < self.blocks;
        segment.last_number <= covered && !in_use
    }

    /// Goes on in the first free segment, if there is one.
    pub(super) fn turn(&mut self, covered: u64) -> bool {
        let free = self
            .list
            .iter()
            .enumerate()
            .find(|(index, segment)| self.is_free(*index, segment, covered));
        let Some((index, _)) = free else {
            return false;
        };
        self.active = index;
        self.at_block = 0;
        true
    }

    /// Appends a frame and makes it durable.
    pub(super) fn append(&mut self, frame: &[u8], number: u64) -> Result<(), StoreError> {
        let offset = self.at_block.saturating_mul(BLOCK_BYTES) as u64;
        let Some(segment) = self.list.get_mut(self.active) else {
            return Ok(());
        };
        segment.last_number = number;
        write_all_at(segment.file.as_mut(), frame, offset)
            .map_err(failed("write", &segment.path))?;
        if !broken!(NoFrameFlush) {
            let mut flushed = segment.file.flush();
            if broken!(RetryFlush) && flushed.is_err() {
                flushed = segment.file.flush();
            }
            flushed.map_err(failed("flush", &segment.path))?;
        }
        self.at_block = self
            .at_block
            .saturating_add(frame.len().div_ceil(BLOCK_BYTES));
        Ok(())
    }
}

/// The whole segment; where that fails, block by block, with zeros for what cannot be read.
fn read_segment(file: &mut dyn VfsFile, blocks: usize) -> SegmentBytes {
    let length = blocks.saturating_mul(BLOCK_BYTES);
    let mut bytes = vec![0; length];
    if let Ok(read) = read_full_at(file, &mut bytes, 0) {
        bytes.truncate(read);
        return SegmentBytes {
            bytes,
            unreadable: Vec::new(),
        };
    }
    let mut unreadable = Vec::new();
    for (index, block) in bytes.chunks_mut(BLOCK_BYTES).enumerate() {
        let offset = index.saturating_mul(BLOCK_BYTES) as u64;
        if read_full_at(file, block, offset).is_err() {
            block.fill(0);
            unreadable.push(index);
        }
    }
    SegmentBytes { bytes, unreadable }
}
