//! A record's own file or row: a marker, the record's name, the record, and a checksum over all
//! three. A bit that changed, a cut, or another record's file under this name is noticed here,
//! before the record is decoded (laws isolation and own-key).

use super::{Found, RecordName};

const MARKER: [u8; 4] = *b"OVRC";
const NAME_BYTES: usize = 20;
const CHECKSUM_BYTES: usize = 32;
const CHECKSUM_CONTEXT: &str = "overlane record file";

/// What the envelope adds to a record.
pub const ENVELOPE_BYTES: usize = MARKER.len() + NAME_BYTES + CHECKSUM_BYTES;

/// The file of a record.
pub fn seal(name: RecordName, record: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(record.len().saturating_add(ENVELOPE_BYTES));
    file.extend_from_slice(&MARKER);
    file.extend_from_slice(&name.0);
    file.extend_from_slice(record);
    let checksum = blake3::derive_key(CHECKSUM_CONTEXT, &file);
    file.extend_from_slice(&checksum);
    file
}

/// What a file under this name holds.
pub fn open(name: RecordName, file: &[u8]) -> Found {
    let Some((sealed, checksum)) = file.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Found::Torn(format!("{} bytes are too few for a record", file.len()));
    };
    if blake3::derive_key(CHECKSUM_CONTEXT, sealed) != *checksum {
        return Found::Torn("its checksum does not match".into());
    }
    let parts = sealed
        .strip_prefix(&MARKER)
        .and_then(|rest| rest.split_first_chunk::<NAME_BYTES>());
    match parts {
        None => Found::Torn("it is no record".into()),
        Some((own, _)) if *own != name.0 => Found::Foreign(RecordName(*own)),
        Some((_, record)) => Found::Bytes(record.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_isolation_every_flipped_bit_and_every_cut_is_torn() {
        let name = RecordName::of(b"stream");
        let file = seal(name, b"a record of some length");
        assert_eq!(
            open(name, &file),
            Found::Bytes(b"a record of some length".to_vec())
        );
        for bit in 0..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(open(name, &flipped), Found::Torn(_)), "bit {bit}");
        }
        for cut in 0..file.len() {
            assert!(matches!(open(name, &file[..cut]), Found::Torn(_)));
        }
        let longer = [file.as_slice(), &[0]].concat();
        assert!(matches!(open(name, &longer), Found::Torn(_)));
    }

    #[test]
    fn law_own_key_another_records_file_is_foreign() {
        let (own, other) = (RecordName::of(b"own"), RecordName::of(b"other"));
        assert_eq!(open(own, &seal(other, b"record")), Found::Foreign(other));
    }
}
