//! The two orders of a log's index: by the holder's numbers, and by the envelopes' names, which every holder shares.

use overlane_recon::{Item, RECORD_BYTES, Record, record_id, record_seq};
use overlane_relay::log::{EnvelopeId, LogId, shared_place};
use redb::TableDefinition;

use crate::database::Bytes;

/// The most records of a leaf in the order of the numbers: with its key it fills a page of 16 KiB.
pub const LEAF_RECORDS: usize = 400;

/// The most records of a leaf in the order of the names, where one that comes goes anywhere: with its key it fills a
/// page of 8 KiB, which is what an envelope rewrites.
pub const NAME_LEAF_RECORDS: usize = 200;

/// An order of a log's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// By the holder's number.
    Numbers,
    /// By name, each at the place that all holders give it.
    Names,
}

/// Below every record of a range that starts at this place.
pub(super) fn floor(place: u64) -> Record {
    record(place, &[0; 32])
}

/// Above every record.
pub(super) const TOP_RECORD: Record = [0xff; RECORD_BYTES];

impl Order {
    pub(super) const BOTH: [Self; 2] = [Self::Numbers, Self::Names];

    /// Its leaves: by the log and a lower bound, the records.
    pub(super) fn leaves(self) -> Bytes {
        TableDefinition::new(match self {
            Self::Numbers => "leaves",
            Self::Names => "name-leaves",
        })
    }

    /// A line for each leaf: how many records it has.
    pub(super) fn lines(self) -> Bytes {
        TableDefinition::new(match self {
            Self::Numbers => "directory",
            Self::Names => "name-directory",
        })
    }

    pub(super) fn leaf_records(self) -> usize {
        match self {
            Self::Numbers => LEAF_RECORDS,
            Self::Names => NAME_LEAF_RECORDS,
        }
    }

    /// The record of an envelope; none of one at the top, which is in no index.
    pub(super) fn record(self, seq: u64, id: EnvelopeId) -> Option<Record> {
        let seq = match self {
            Self::Numbers => seq,
            Self::Names => shared_place(&id),
        };
        Item { seq, id }.record().ok()
    }

    /// The key of the leaf with this lower bound.
    pub(super) fn key(self, log: &LogId, lower: &Record) -> Vec<u8> {
        let place = record_seq(lower).to_be_bytes();
        let lower: &[u8] = match self {
            Self::Numbers => &place,
            Self::Names => record_id(lower),
        };
        [&log.0[..], lower].concat()
    }

    /// The lower bound in a key.
    pub(super) fn lower(self, key: &[u8]) -> Record {
        match self {
            Self::Numbers => floor(super::number_of(key)),
            Self::Names => {
                let id = *key.last_chunk().unwrap_or(&[0; 32]);
                record(shared_place(&overlane_recon::Id(id)), &id)
            }
        }
    }

    /// The lower bound of a leaf that begins with this record: what its key says of it.
    pub(super) fn lower_of(self, first: &Record) -> Record {
        match self {
            Self::Numbers => floor(record_seq(first)),
            Self::Names => *first,
        }
    }
}

fn record(place: u64, id: &[u8; 32]) -> Record {
    let mut record = [0; RECORD_BYTES];
    let source = place.to_be_bytes().into_iter().chain(*id);
    record
        .iter_mut()
        .zip(source)
        .for_each(|(to, from)| *to = from);
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_logs_a_key_says_the_lower_bound_and_keys_sort_as_records_do() {
        const LOG: LogId = LogId([5; 32]);
        for order in Order::BOTH {
            let mut keys = Vec::new();
            for first in [0, 1, 0x80, 0xff] {
                for last in [0, 1, 0xff] {
                    let mut id = [last; 32];
                    id[..8].fill(first);
                    let seq = u64::from(first) << 8 | u64::from(last);
                    let record = order.record(seq, overlane_recon::Id(id)).unwrap();
                    let lower = order.lower_of(&record);
                    assert!(lower <= record);
                    let key = order.key(&LOG, &lower);
                    assert_eq!(order.lower(&key), lower);
                    keys.push((record, key));
                }
            }
            assert!(
                keys.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1),
                "{order:?}"
            );
            let first = order.key(&LOG, &floor(0));
            assert!(keys.iter().all(|it| first <= it.1));
            assert!(keys.iter().all(|it| it.1 <= order.key(&LOG, &TOP_RECORD)));
        }
        // A number at the top is in no index; no name has its place there.
        let top = overlane_recon::Id([0xff; 32]);
        assert_eq!(Order::Numbers.record(u64::MAX, top), None);
        assert!(Order::Names.record(u64::MAX, top).is_some());
    }
}
