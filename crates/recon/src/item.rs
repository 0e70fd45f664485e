//! An item of a reconciled set, its record, and the fingerprint of a run of records.

use core::fmt;

use crate::bounds::TOP;

/// Content address of an item: 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub [u8; 32]);

/// BLAKE3 over the items of a range. Source: seed 4, "The fingerprint".
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// One item: the sequence number the relay gave it, and its content address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// Place in the sequence space; never [`TOP`].
    pub seq: u64,
    /// Content address.
    pub id: Id,
}

/// An item as it is stored and hashed: eight bytes of `seq`, big-endian, then the id. Records sort as items do.
pub type Record = [u8; RECORD_BYTES];

/// Bytes of a [`Record`].
pub const RECORD_BYTES: usize = 40;

/// An item at seq 2^64-1 lies in no range, so no set holds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("seq 2^64-1 is the top bound and names no item (id {id}); number the item below it")]
pub struct ReservedSeq {
    /// The item that was offered.
    pub id: Id,
}

impl ReservedSeq {
    /// The stable code of this refusal.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "recon/reserved_seq"
    }
}

impl Item {
    /// The item's record. Refused at [`TOP`].
    pub fn record(&self) -> Result<Record, ReservedSeq> {
        if self.seq == TOP {
            return Err(ReservedSeq { id: self.id });
        }
        let mut record = [0; RECORD_BYTES];
        let source = self.seq.to_be_bytes().into_iter().chain(self.id.0);
        record
            .iter_mut()
            .zip(source)
            .for_each(|(to, from)| *to = from);
        Ok(record)
    }

    /// The item a record stands for.
    #[must_use]
    pub fn from_record(record: &Record) -> Self {
        Self {
            seq: record_seq(record),
            id: Id(*record_id(record)),
        }
    }
}

/// The seq of a record.
#[inline]
#[must_use]
pub fn record_seq(record: &Record) -> u64 {
    u64::from_be_bytes(*record.first_chunk().unwrap_or(&[0; 8]))
}

/// The id of a record.
#[inline]
#[must_use]
pub fn record_id(record: &Record) -> &[u8; 32] {
    record.last_chunk().unwrap_or(&[0; 32])
}

macro_rules! hex_text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

hex_text!(Id);
hex_text!(Fingerprint);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_records_sort_as_items_do() {
        let item = |seq, id| Item {
            seq,
            id: Id([id; 32]),
        };
        let items = [
            item(0, 9),
            item(1, 0),
            item(255, 1),
            item(256, 0),
            item(256, 1),
        ];
        let records = items.map(|item| item.record().unwrap());
        assert!(records.is_sorted());
        assert_eq!(records.map(|record| Item::from_record(&record)), items);
    }

    #[test]
    fn law_the_top_names_no_item() {
        let item = Item {
            seq: TOP,
            id: Id([1; 32]),
        };
        let refusal = item.record().unwrap_err();
        assert_eq!(refusal.code(), "recon/reserved_seq");
    }
}
