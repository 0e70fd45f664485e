//! The snapshot: every record of the store as of one frame.
//!
//! ```text
//! header | directory | a block a record | directory | header
//! ```
//!
//! It is written beside the one in use and renamed when it is durable. Its directory is the
//! presence set (law missing): a name in it without a block that reads whole is a record that
//! was made durable and is damaged or gone. Header and directory stand at both ends.

use std::io;
use std::path::{Path, PathBuf};

use overlane_core::store::{RecordName, StoreError};

use super::bad::{Bad, BadKind};
use super::fields::{CHECK_BYTES, HASH_BYTES, Keys, NAME_BYTES, Put, Take, check, check_named};
use crate::vfs::{OpenMode, Vfs, VfsFile, failed, read_full_at, write_all_at};

const HEADER_MARKER: [u8; 4] = *b"OVSH";
const BLOCK_MARKER: [u8; 4] = *b"OVSR";
const HEADER_BYTES: usize = 4 + 4 + 8 + 8 + HASH_BYTES + 4 + 4 + 8 + CHECK_BYTES;
const LISTED_BYTES: usize = NAME_BYTES + 8 + 4 + 8 + 4;
const BLOCK_HEAD_BYTES: usize = 4 + NAME_BYTES + 8 + 4 + 4;

/// What the snapshot adds to a record: its block's envelope, and its place in both copies of
/// the directory.
pub(crate) const RECORD_OVERHEAD_BYTES: usize = BLOCK_HEAD_BYTES + CHECK_BYTES + 2 * LISTED_BYTES;

/// How much is written, or read, at a time.
const STEP_BYTES: usize = 1024 * 1024;

/// More records than any store has; a longer directory is damage.
const ENTRIES_MAX: usize = 1 << 20;

pub(super) const SNAPSHOT_PREFIX: &str = "snapshot-";

/// What a snapshot says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// The epoch that wrote it.
    pub(super) epoch: u64,
    /// The number of the last frame it covers.
    pub(super) covered: u64,
    /// That frame's hash.
    pub(super) hash: [u8; HASH_BYTES],
}

/// Where one record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: RecordName,
    pub(super) version: u64,
    /// Nothing for a whole record.
    pub(super) bad: Option<BadKind>,
    pub(super) offset: u64,
    /// Of the whole block.
    pub(super) length: u32,
}

/// Where the record of a name that is known stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    version: u64,
    offset: u64,
    length: u32,
    bad: Option<BadKind>,
}

impl Spot {
    pub(super) const fn of(listed: &Listed) -> Self {
        Self {
            version: listed.version,
            offset: listed.offset,
            length: listed.length,
            bad: listed.bad,
        }
    }

    pub(super) const fn listed(self, name: RecordName) -> Listed {
        let Self {
            version,
            offset,
            length,
            bad,
        } = self;
        Listed {
            name,
            version,
            bad,
            offset,
            length,
        }
    }
}

/// What a block holds.
#[derive(Debug)]
pub(super) enum Block {
    Whole(Vec<u8>),
    Bad(Bad),
}

pub(super) fn file_name(covered: u64) -> String {
    format!("{SNAPSHOT_PREFIX}{covered:016x}")
}

pub(super) fn covered_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(SNAPSHOT_PREFIX)?;
    let covered = u64::from_str_radix(digits, 16).ok()?;
    (file_name(covered) == name).then_some(covered)
}

/// Writes a snapshot, a record at a time, in the order of the names.
#[derive(Debug)]
pub(super) struct SnapshotWriter {
    keys: Keys,
    path: PathBuf,
    file: Box<dyn VfsFile>,
    header: Header,
    entries: usize,
    listed: Vec<Listed>,
    buffer: Vec<u8>,
    written: u64,
}

impl SnapshotWriter {
    pub(super) fn create(
        vfs: &dyn Vfs,
        path: PathBuf,
        keys: Keys,
        header: Header,
        entries: usize,
    ) -> Result<Self, StoreError> {
        let file = vfs
            .open(&path, OpenMode::Create)
            .map_err(failed("create", &path))?;
        let head = HEADER_BYTES.saturating_add(directory_bytes(entries));
        Ok(Self {
            keys,
            path,
            file,
            header,
            entries,
            listed: Vec::with_capacity(entries),
            buffer: Vec::new(),
            written: head as u64,
        })
    }

    pub(super) fn push(
        &mut self,
        name: RecordName,
        version: u64,
        block: &Block,
    ) -> Result<(), StoreError> {
        let (bad, bytes) = match block {
            Block::Whole(bytes) => (None, bytes),
            Block::Bad(bad) => (Some(bad.kind), &bad.block_bytes()),
        };
        let start = self.buffer.len();
        self.buffer.raw(&BLOCK_MARKER);
        self.buffer.raw(&name.0);
        self.buffer.u64(version);
        self.buffer.u32(bad.map_or(0, |kind| kind as u32));
        self.buffer
            .u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.buffer.raw(bytes);
        let sealed = self.buffer.get(start..).unwrap_or_default();
        let block_check = check_named(&self.keys.snapshot, name, sealed);
        self.buffer.raw(&block_check);
        let length = self.buffer.len().saturating_sub(start);
        self.listed.push(Listed {
            name,
            version,
            bad,
            offset: self.written.saturating_add(start as u64),
            length: u32::try_from(length).unwrap_or(u32::MAX),
        });
        if self.buffer.len() >= STEP_BYTES {
            self.write_buffer()?;
        }
        Ok(())
    }

    /// Writes both directories and headers and flushes; the file is then whole, and durable
    /// once it has its name.
    pub(super) fn finish(mut self) -> Result<(Vec<Listed>, u64), StoreError> {
        let directory = self.directory();
        let head_bytes = HEADER_BYTES.saturating_add(directory_bytes(self.entries)) as u64;
        let end = self.written.saturating_add(self.buffer.len() as u64);
        let file_bytes = end.saturating_add(head_bytes);
        let header = self.header_bytes(file_bytes);
        self.buffer.raw(&directory);
        self.buffer.raw(&header);
        self.write_buffer()?;
        let head = [header, directory].concat();
        write_all_at(self.file.as_mut(), &head, 0).map_err(failed("write", &self.path))?;
        self.file.flush().map_err(failed("flush", &self.path))?;
        Ok((self.listed, file_bytes))
    }

    fn write_buffer(&mut self) -> Result<(), StoreError> {
        write_all_at(self.file.as_mut(), &self.buffer, self.written)
            .map_err(failed("write", &self.path))?;
        self.written = self.written.saturating_add(self.buffer.len() as u64);
        self.buffer.clear();
        Ok(())
    }

    fn directory(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(directory_bytes(self.entries));
        for listed in &self.listed {
            bytes.raw(&listed.name.0);
            bytes.u64(listed.version);
            bytes.u32(listed.bad.map_or(0, |kind| kind as u32));
            bytes.u64(listed.offset);
            bytes.u32(listed.length);
        }
        let directory_check = check(&self.keys.snapshot, &bytes);
        bytes.raw(&directory_check);
        bytes
    }

    fn header_bytes(&self, file_bytes: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.raw(&HEADER_MARKER);
        bytes.u32(0);
        bytes.u64(self.header.epoch);
        bytes.u64(self.header.covered);
        bytes.raw(&self.header.hash);
        bytes.u32(u32::try_from(self.entries).unwrap_or(u32::MAX));
        bytes.u32(0);
        bytes.u64(file_bytes);
        let header_check = check(&self.keys.snapshot, &bytes);
        bytes.raw(&header_check);
        bytes
    }
}

/// Reads a snapshot's blocks. In the order of the directory it reads ahead.
#[derive(Debug)]
pub(super) struct BlockReader {
    keys: Keys,
    file: Box<dyn VfsFile>,
    file_bytes: u64,
    buffer: Vec<u8>,
    buffer_start: u64,
}

impl BlockReader {
    pub(super) fn open(
        vfs: &dyn Vfs,
        path: &Path,
        keys: Keys,
        file_bytes: u64,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            keys,
            file: vfs
                .open(path, OpenMode::Read)
                .map_err(failed("open", path))?,
            file_bytes,
            buffer: Vec::new(),
            buffer_start: 0,
        })
    }

    /// What the snapshot says about itself and which records it lists.
    pub(super) fn read_ends(&mut self, path: &Path) -> Result<(Header, Vec<Listed>), StoreError> {
        let ends = read_ends(self.file.as_mut(), &self.keys, self.file_bytes);
        ends.ok_or_else(|| StoreError::Damaged {
            path: path.display().to_string(),
            cause: "neither its head nor its tail says which records it holds".into(),
        })
    }

    /// One record's block.
    pub(super) fn read(&mut self, listed: &Listed) -> Block {
        let length = usize::try_from(listed.length).unwrap_or(usize::MAX);
        let keys = self.keys.clone();
        match self.bytes(listed.offset, length) {
            Ok(bytes) => open_block(&keys, listed, bytes),
            Err(error) => Block::Bad(Bad {
                kind: BadKind::Unreadable,
                reason: error.to_string(),
                kept: Vec::new(),
            }),
        }
    }

    fn bytes(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let start = offset.checked_sub(self.buffer_start);
        let start = start.and_then(|start| usize::try_from(start).ok());
        let end = start.and_then(|start| start.checked_add(length));
        if let (Some(start), Some(end)) = (start, end)
            && end <= self.buffer.len()
        {
            return Ok(self.buffer.get(start..end).unwrap_or_default());
        }
        let rest = self.file_bytes.saturating_sub(offset);
        let ahead = STEP_BYTES.min(usize::try_from(rest).unwrap_or(STEP_BYTES));
        if self.fill(offset, ahead.max(length)).is_err() {
            self.fill(offset, length)?;
        }
        Ok(self.buffer.get(..length).unwrap_or(&self.buffer))
    }

    fn fill(&mut self, offset: u64, length: usize) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.resize(length, 0);
        self.buffer_start = offset;
        let read = read_full_at(self.file.as_mut(), &mut self.buffer, offset);
        self.buffer.truncate(*read.as_ref().unwrap_or(&0));
        read.map(drop)
    }
}

fn open_block(keys: &Keys, listed: &Listed, bytes: &[u8]) -> Block {
    let whole = take_block(keys, listed, bytes);
    whole.unwrap_or_else(|| {
        let gone = bytes.iter().all(|byte| *byte == 0);
        Block::Bad(Bad {
            kind: if gone {
                BadKind::Missing
            } else {
                BadKind::Torn
            },
            reason: "its block of the snapshot does not match its checksum".into(),
            kept: bytes.to_vec(),
        })
    })
}

fn take_block(keys: &Keys, listed: &Listed, bytes: &[u8]) -> Option<Block> {
    let (sealed, block_check) = bytes.split_last_chunk::<CHECK_BYTES>()?;
    if check_named(&keys.snapshot, listed.name, sealed) != *block_check {
        return None;
    }
    let mut fields = Take(sealed);
    let own = fields.array()? == BLOCK_MARKER
        && fields.name()? == listed.name
        && fields.u64()? == listed.version
        && fields.u32()? == listed.bad.map_or(0, |kind| kind as u32)
        && fields.size()? == fields.0.len();
    if !own {
        return None;
    }
    match listed.bad {
        None => Some(Block::Whole(fields.0.to_vec())),
        Some(kind) => Bad::from_block(kind, fields.0).map(Block::Bad),
    }
}

fn directory_bytes(entries: usize) -> usize {
    entries
        .saturating_mul(LISTED_BYTES)
        .saturating_add(CHECK_BYTES)
}

/// The header and the directory, from whichever end has them whole.
fn read_ends(
    file: &mut dyn VfsFile,
    keys: &Keys,
    file_bytes: u64,
) -> Option<(Header, Vec<Listed>)> {
    let header_at = |file: &mut dyn VfsFile, offset| read_header(file, keys, offset);
    let tail = file_bytes.checked_sub(HEADER_BYTES as u64);
    let head = header_at(file, 0);
    let (header, entries, whole_bytes) = head.or_else(|| header_at(file, tail?))?;
    let directory = directory_bytes(entries) as u64;
    let tail = whole_bytes
        .checked_sub(HEADER_BYTES as u64)
        .and_then(|end| end.checked_sub(directory));
    let listed = read_directory(file, keys, HEADER_BYTES as u64, entries)
        .or_else(|| read_directory(file, keys, tail?, entries))?;
    Some((header, listed))
}

fn read_exact(file: &mut dyn VfsFile, offset: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let read = read_full_at(file, &mut bytes, offset).ok()?;
    (read == length).then_some(bytes)
}

fn read_header(file: &mut dyn VfsFile, keys: &Keys, offset: u64) -> Option<(Header, usize, u64)> {
    let bytes = read_exact(file, offset, HEADER_BYTES)?;
    let (sealed, header_check) = bytes.split_last_chunk::<CHECK_BYTES>()?;
    if check(&keys.snapshot, sealed) != *header_check {
        return None;
    }
    let mut fields = Take(sealed);
    if fields.array()? != HEADER_MARKER || fields.u32()? != 0 {
        return None;
    }
    let header = Header {
        epoch: fields.u64()?,
        covered: fields.u64()?,
        hash: fields.array()?,
    };
    let entries = fields.size().filter(|entries| *entries <= ENTRIES_MAX)?;
    let _zero = fields.u32()?;
    Some((header, entries, fields.u64()?))
}

fn read_directory(
    file: &mut dyn VfsFile,
    keys: &Keys,
    offset: u64,
    entries: usize,
) -> Option<Vec<Listed>> {
    let bytes = read_exact(file, offset, directory_bytes(entries))?;
    let (sealed, directory_check) = bytes.split_last_chunk::<CHECK_BYTES>()?;
    if check(&keys.snapshot, sealed) != *directory_check {
        return None;
    }
    let mut fields = Take(sealed);
    (0..entries)
        .map(|_| {
            let name = fields.name()?;
            let version = fields.u64()?;
            let bad = match fields.u32()? {
                0 => None,
                kind => Some(BadKind::from_index(u8::try_from(kind).ok()?)?),
            };
            Some(Listed {
                name,
                version,
                bad,
                offset: fields.u64()?,
                length: fields.u32()?,
            })
        })
        .collect()
}

/// Where a snapshot holds a record's block.
#[cfg(any(test, feature = "testkit"))]
pub(super) fn block_range(bytes: &[u8], name: RecordName) -> Option<std::ops::Range<usize>> {
    let head = [BLOCK_MARKER.as_slice(), &name.0].concat();
    let start = bytes.windows(head.len()).position(|at| at == head)?;
    let mut fields = Take(bytes.get(start..)?);
    fields.raw(BLOCK_HEAD_BYTES.checked_sub(4)?)?;
    let length = fields.size()?.checked_add(BLOCK_HEAD_BYTES + CHECK_BYTES)?;
    Some(start..start.checked_add(length)?)
}
