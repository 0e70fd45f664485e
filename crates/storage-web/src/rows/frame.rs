//! A frame: one batch as one row.
//!
//! Law (isolation): each cell has its own check, so damage to one record's bytes is that record's
//! trouble alone. A frame names the records of the frame before it, and the seal those of the newest:
//! so a frame that is damaged as a whole, or gone, still tells whose change it held.
//!
//! `[digest, header, payload, checks]`: the header is `[number, names before, [[name, kind, length] …]]`,
//! the digest is over the header, the payload is the cells' bytes one after the other, and the checks
//! are 16 bytes a cell over the frame's number, the cell's name, kind and bytes.

use std::ops::Range;

use overlane_core::store::{RECORD_BYTES_MAX, RecordName};
use overlane_core::wire::cbor::{CborError, Reader, Writer};

const HEADER_CONTEXT: &str = "overlane web store frame";
const CELL_CONTEXT: &str = "overlane web store cell";
const SEAL_CONTEXT: &str = "overlane web store seal";
const CHECK_BYTES: usize = 16;

/// What a batch did to one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The record, whole.
    Whole(Vec<u8>),
    /// What changed since the value before.
    Delta(Vec<u8>),
    /// It left.
    Remove,
}

/// One record's change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The record.
    pub name: RecordName,
    /// Its change; `None` where the bytes are not what the store wrote.
    pub change: Option<Change>,
}

/// One batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its number, which is its key.
    pub number: u64,
    /// The records of the frame before it.
    pub before: Vec<RecordName>,
    /// What it did.
    pub cells: Vec<Cell>,
}

/// The row of a batch.
pub fn seal<'a>(
    number: u64,
    before: &[RecordName],
    cells: impl ExactSizeIterator<Item = (RecordName, &'a Change)>,
) -> Vec<u8> {
    let (mut payload, mut checks) = (Vec::new(), Vec::new());
    let mut header = Writer::new();
    header.array(3).uint(number);
    names(&mut header, before);
    header.array(cells.len());
    for (name, change) in cells {
        let (kind, bytes) = change.parts();
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        header.array(3).bytes(&name.0).uint(kind).uint(length);
        payload.extend_from_slice(bytes);
        checks.extend_from_slice(&check(number, name, kind, bytes));
    }
    let header = header.into_bytes();
    let digest = blake3::derive_key(HEADER_CONTEXT, &header);
    let mut row = Writer::new();
    row.array(4)
        .bytes(&digest)
        .bytes(&header)
        .bytes(&payload)
        .bytes(&checks);
    row.into_bytes()
}

/// The frame that this row is; `None` where it cannot even be told whose changes it held.
pub fn open(row: &[u8]) -> Option<Frame> {
    let parts = Parts::of(row).ok()?;
    if blake3::derive_key(HEADER_CONTEXT, parts.header) != *parts.digest {
        return None;
    }
    let (number, before, table) = parts.table().ok()?;
    let mut cells = Vec::with_capacity(table.len());
    let (mut payload, mut checks) = (parts.payload, parts.checks);
    for (name, kind, length) in table {
        let bytes = take(&mut payload, length);
        let own = take(&mut checks, CHECK_BYTES);
        let change = bytes.zip(own).and_then(|(bytes, own)| {
            let sound = check(number, name, kind, bytes) == *own;
            sound.then(|| Change::of(kind, bytes)).flatten()
        });
        cells.push(Cell { name, change });
    }
    Some(Frame {
        number,
        before,
        cells,
    })
}

/// Where in a frame's row a record's bytes and their check are.
pub fn locate(row: &[u8], name: RecordName) -> Option<(Range<usize>, Range<usize>)> {
    let parts = Parts::of(row).ok()?;
    let (_, _, table) = parts.table().ok()?;
    let checks_from = row.len().checked_sub(parts.checks.len())?;
    let mut from = parts.payload_at;
    for (index, (own, _, length)) in table.into_iter().enumerate() {
        let to = from.checked_add(length)?;
        if own == name {
            let check = checks_from.checked_add(index.checked_mul(CHECK_BYTES)?)?;
            return Some((from..to, check..check.checked_add(CHECK_BYTES)?));
        }
        from = to;
    }
    None
}

/// The row that says which frame is the newest, and whose changes it holds.
pub fn seal_row(number: u64, of: &[RecordName]) -> Vec<u8> {
    let mut body = Writer::new();
    body.array(2).uint(number);
    names(&mut body, of);
    let body = body.into_bytes();
    let mut row = Writer::new();
    row.array(2)
        .bytes(&blake3::derive_key(SEAL_CONTEXT, &body))
        .bytes(&body);
    row.into_bytes()
}

/// What such a row says.
pub fn open_seal(row: &[u8]) -> Option<(u64, Vec<RecordName>)> {
    let read = || -> Result<Option<(u64, Vec<RecordName>)>, CborError> {
        let mut reader = Reader::new(row);
        reader.expect_array(2)?;
        let digest: [u8; 32] = reader.byte_array()?;
        let body = reader.bytes()?;
        reader.finish()?;
        if blake3::derive_key(SEAL_CONTEXT, body) != digest {
            return Ok(None);
        }
        let mut reader = Reader::new(body);
        reader.expect_array(2)?;
        Ok(Some((reader.uint()?, read_names(&mut reader)?)))
    };
    read().ok().flatten()
}

impl Change {
    fn parts(&self) -> (u64, &[u8]) {
        match self {
            Self::Whole(bytes) => (0, bytes),
            Self::Delta(bytes) => (1, bytes),
            Self::Remove => (2, &[]),
        }
    }

    fn of(kind: u64, bytes: &[u8]) -> Option<Self> {
        match kind {
            0 => Some(Self::Whole(bytes.to_vec())),
            1 => Some(Self::Delta(bytes.to_vec())),
            2 => Some(Self::Remove),
            _ => None,
        }
    }
}

type Line = (RecordName, u64, usize);

struct Parts<'a> {
    digest: &'a [u8],
    header: &'a [u8],
    payload: &'a [u8],
    payload_at: usize,
    checks: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(row: &'a [u8]) -> Result<Self, CborError> {
        let mut reader = Reader::new(row);
        reader.expect_array(4)?;
        let digest = reader.bytes()?;
        let header = reader.bytes()?;
        let payload = reader.bytes()?;
        let payload_at = reader.at().saturating_sub(payload.len());
        let checks = reader.bytes()?;
        reader.finish()?;
        Ok(Self {
            digest,
            header,
            payload,
            payload_at,
            checks,
        })
    }

    fn table(&self) -> Result<(u64, Vec<RecordName>, Vec<Line>), CborError> {
        let mut reader = Reader::new(self.header);
        reader.expect_array(3)?;
        let number = reader.uint()?;
        let before = read_names(&mut reader)?;
        let mut lines = Vec::new();
        for _ in 0..reader.array()? {
            reader.expect_array(3)?;
            let name = RecordName(reader.byte_array()?);
            let kind = reader.uint()?;
            let at = reader.at();
            let length = reader.uint_as()?;
            if length > RECORD_BYTES_MAX {
                return Err(Reader::invalid(at, "a record's length"));
            }
            lines.push((name, kind, length));
        }
        reader.finish()?;
        Ok((number, before, lines))
    }
}

fn names(writer: &mut Writer, names: &[RecordName]) {
    let names: Vec<u8> = names.iter().flat_map(|name| name.0).collect();
    writer.bytes(&names);
}

fn read_names(reader: &mut Reader<'_>) -> Result<Vec<RecordName>, CborError> {
    let at = reader.at();
    let (names, rest) = reader.bytes()?.as_chunks();
    if !rest.is_empty() {
        return Err(Reader::invalid(at, "names"));
    }
    Ok(names.iter().map(|name| RecordName(*name)).collect())
}

fn take<'a>(from: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(head)
}

fn check(number: u64, name: RecordName, kind: u64, bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = blake3::Hasher::new_derive_key(CELL_CONTEXT);
    hasher.update(&number.to_be_bytes());
    hasher.update(&name.0);
    hasher.update(&kind.to_be_bytes());
    hasher.update(bytes);
    let mut check = [0; CHECK_BYTES];
    hasher.finalize_xof().fill(&mut check);
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(index: u64) -> RecordName {
        RecordName::of(&index.to_be_bytes())
    }

    fn frame() -> (Vec<u8>, Vec<Change>) {
        let changes = vec![
            Change::Whole(b"a record".to_vec()),
            Change::Delta(b"what changed".to_vec()),
            Change::Remove,
            Change::Whole(Vec::new()),
        ];
        let cells = changes.iter().enumerate();
        let cells: Vec<_> = cells.map(|(at, it)| (name(at as u64), it)).collect();
        (
            seal(9, &[name(100), name(101)], cells.into_iter()),
            changes.clone(),
        )
    }

    #[test]
    fn a_frame_comes_back() {
        let (row, changes) = frame();
        let frame = open(&row).unwrap();
        assert_eq!(
            (frame.number, frame.before),
            (9, vec![name(100), name(101)])
        );
        let cells = frame.cells.into_iter().map(|cell| cell.change.unwrap());
        assert_eq!(cells.collect::<Vec<_>>(), changes);
    }

    #[test]
    fn law_isolation_a_flipped_bit_of_a_frame_harms_one_cell_or_the_whole_frame_and_is_noticed() {
        let (row, changes) = frame();
        let (mut one, mut whole) = (0, 0);
        for bit in 0..row.len() * 8 {
            let mut flipped = row.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match open(&flipped) {
                None => whole += 1,
                Some(frame) => {
                    let bad = frame.cells.iter().filter(|cell| cell.change.is_none());
                    assert_eq!(bad.count(), 1, "bit {bit}");
                    let good = frame.cells.into_iter().zip(&changes);
                    for (cell, change) in good.filter(|(cell, _)| cell.change.is_some()) {
                        assert_eq!(cell.change.as_ref(), Some(change));
                    }
                    one += 1;
                }
            }
        }
        assert!(one > 0 && whole > 0);
        for cut in 0..row.len() {
            assert_eq!(open(&row[..cut]), None);
        }
    }

    #[test]
    fn law_own_key_a_cell_of_another_record_or_frame_is_noticed() {
        let (one, two) = (Change::Whole(vec![1; 9]), Change::Whole(vec![2; 9]));
        let cells = [(name(1), &one), (name(2), &two)];
        let mut row = seal(3, &[], cells.into_iter());
        let ((from, check), (to, to_check)) = (
            locate(&row, name(1)).unwrap(),
            locate(&row, name(2)).unwrap(),
        );
        row.copy_within(from, to.start);
        row.copy_within(check, to_check.start);
        let frame = open(&row).unwrap();
        assert_eq!(frame.cells[0].change, Some(one));
        assert_eq!(frame.cells[1].change, None);
    }

    #[test]
    fn a_seal_comes_back_and_no_flipped_bit_does() {
        let row = seal_row(4, &[name(1)]);
        assert_eq!(open_seal(&row), Some((4, vec![name(1)])));
        for bit in 0..row.len() * 8 {
            let mut flipped = row.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open_seal(&flipped), None, "bit {bit}");
        }
    }
}
