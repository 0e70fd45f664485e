//! The directory: which records have a row, and where the frames begin.
//!
//! Law (missing): a record that was made durable and has no row is noticed, since its name is here.
//! The directory is kept twice, so that losing one row is not losing the store.

use std::collections::BTreeSet;

use overlane_core::store::RecordName;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};

const FORMAT: u64 = 1;
const CONTEXT: &str = "overlane web store directory";
const NAME_BYTES: usize = 20;

/// What the last fold left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    /// The number of the first frame after it.
    pub frames_from: u64,
    /// Every name that has a row, or should have.
    pub names: BTreeSet<RecordName>,
}

impl Directory {
    /// Its row.
    pub fn seal(&self) -> Vec<u8> {
        let body = to_vec(self);
        let mut row = Writer::new();
        row.array(2)
            .bytes(&blake3::derive_key(CONTEXT, &body))
            .bytes(&body);
        row.into_bytes()
    }

    /// The directory that this row is; `None` for anything but what [`seal`](Self::seal) gave.
    pub fn open(row: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(row);
        reader.expect_array(2).ok()?;
        let digest: [u8; 32] = reader.byte_array().ok()?;
        let body = reader.bytes().ok()?;
        reader.finish().ok()?;
        (blake3::derive_key(CONTEXT, body) == digest)
            .then(|| from_slice(body).ok())
            .flatten()
    }
}

/// `[format, first frame, names]`, the names ascending in one byte string.
impl Encode for Directory {
    fn encode(&self, writer: &mut Writer) {
        let names: Vec<u8> = self.names.iter().flat_map(|name| name.0).collect();
        writer
            .array(3)
            .uint(FORMAT)
            .uint(self.frames_from)
            .bytes(&names);
    }
}

impl<'a> Decode<'a> for Directory {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(3)?;
        let at = reader.at();
        if reader.uint()? != FORMAT {
            return Err(Reader::invalid(at, "a directory of this format"));
        }
        let frames_from = reader.uint()?;
        let at = reader.at();
        let (names, rest) = reader.bytes()?.as_chunks::<NAME_BYTES>();
        let ascends = names.is_sorted_by(|one, next| one < next);
        if !rest.is_empty() || !ascends {
            return Err(Reader::invalid(at, "names, ascending"));
        }
        let names = names.iter().map(|name| RecordName(*name)).collect();
        Ok(Self { frames_from, names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_comes_back_and_no_flipped_bit_does() {
        let names = (0_u64..3).map(|it| RecordName::of(&it.to_be_bytes()));
        let directory = Directory {
            frames_from: 7,
            names: names.collect(),
        };
        let row = directory.seal();
        assert_eq!(Directory::open(&row), Some(directory));
        for bit in 0..row.len() * 8 {
            let mut flipped = row.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Directory::open(&flipped), None, "bit {bit}");
        }
        for cut in 0..row.len() {
            assert_eq!(Directory::open(&row[..cut]), None);
        }
    }
}
