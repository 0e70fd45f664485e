//! The set in memory against a plain model, and a log on disk that answers without being loaded.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a broken case fails the test"
)]

mod common;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;

use common::{Rng, item};
use overlane_recon::{
    Item, ItemSet, Limits, RECORD_BYTES, Record, Storage, fingerprint, initiate, record_seq,
    respond,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is inserted, removed and asked in between, kept fingerprints are what hashing anew gives.
    #[test]
    fn prop_the_set_is_its_model(seed in any::<u64>(), start in 0_u64..12_000) {
        let mut rng = Rng(seed);
        let mut set: ItemSet = (1..=start).map(|seq| item(2 * seq)).collect();
        let mut model: BTreeSet<Item> = set.iter().collect();
        for _ in 0..40 {
            match rng.below(6) {
                0 => {
                    let seq = model.last().map_or(1, |last| last.seq + 1);
                    for seq in seq..seq + rng.below(3_000) {
                        prop_assert!(set.insert(item(seq)).unwrap());
                        model.insert(item(seq));
                    }
                }
                1 => for _ in 0..20 {
                    let new = item(1 + rng.below(30_000));
                    prop_assert_eq!(set.insert(new).unwrap(), model.insert(new));
                },
                2 => for _ in 0..20 {
                    let old = item(1 + rng.below(30_000));
                    prop_assert_eq!(set.remove(&old), model.remove(&old));
                },
                3 if rng.below(4) == 0 => {
                    let bound = rng.below(4_000);
                    let kept = model.split_off(&Item { seq: bound, id: overlane_recon::Id([0; 32]) });
                    prop_assert_eq!(set.remove_before(bound), model.len());
                    model = kept;
                }
                _ => {}
            }
            let records: Vec<Record> = model.iter().map(|item| item.record().unwrap()).collect();
            let from = rng.below(records.len() as u64 + 1) as usize;
            let to = from + rng.below((records.len() - from) as u64 + 1) as usize;
            for range in [0..records.len(), from..to, 0..to, from..records.len()] {
                let Ok(kept) = set.fingerprint(range.clone());
                prop_assert_eq!(kept, fingerprint::of_records(&records[range]));
            }
            let bound = rng.below(30_000);
            let Ok(position) = set.position(bound);
            prop_assert_eq!(position, records.partition_point(|record| record_seq(record) < bound));
            prop_assert_eq!(set.len(), model.len());
        }
        prop_assert!(set.iter().eq(model.iter().copied()));
    }
}

#[test]
fn law_memory_stays_under_64_bytes_an_item() {
    const ITEMS: u64 = 200_000;
    let mut set: ItemSet = (1..=ITEMS).map(item).collect();
    let limits = Limits::default();
    for size in [ITEMS - 1, ITEMS / 2, ITEMS / 3] {
        let mut peer: ItemSet = (1..=size).map(item).collect();
        let Ok(opening) = initiate(&mut peer, &limits);
        respond(&mut set, &opening, &limits).unwrap();
    }
    for start in (0..150_000).step_by(701) {
        let Ok(_) = set.fingerprint(start..200_000);
    }
    let per_item = set.memory_bytes() as u64 / ITEMS;
    assert!(per_item <= 64, "{per_item} bytes an item");
}

#[test]
fn law_a_repeated_range_and_a_growing_tail_are_not_hashed_again() {
    let mut set: ItemSet = (1..=100_000).map(item).collect();
    let Ok(whole) = set.fingerprint(0..100_000);
    let first_pass = set.work_bytes();
    assert!(first_pass >= 40 * 100_000);
    let Ok(again) = set.fingerprint(0..100_000);
    assert_eq!((whole, first_pass), (again, set.work_bytes()));
    for seq in 100_001..=100_100 {
        set.insert(item(seq)).unwrap();
        let len = set.len();
        let Ok(_) = set.fingerprint(0..len);
    }
    let each = (set.work_bytes() - first_pass) / 100;
    assert!(each <= 20 * 1024, "{each} bytes hashed for one more item");
}

/// A log of records in a file, read where it is asked.
struct Log {
    file: File,
    records: usize,
    largest_read: usize,
}

impl Log {
    fn record(&mut self, position: usize) -> std::io::Result<Record> {
        let mut record = [0; RECORD_BYTES];
        self.file
            .seek(SeekFrom::Start((position * RECORD_BYTES) as u64))?;
        self.file.read_exact(&mut record)?;
        Ok(record)
    }
}

impl Storage for Log {
    type Error = std::io::Error;

    fn position(&mut self, bound: u64) -> std::io::Result<usize> {
        let (mut low, mut high) = (0, self.records);
        while low < high {
            let middle = low.midpoint(high);
            if record_seq(&self.record(middle)?) < bound {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn seq_at(&mut self, position: usize) -> std::io::Result<Option<u64>> {
        if position >= self.records {
            return Ok(None);
        }
        Ok(Some(record_seq(&self.record(position)?)))
    }

    fn visit(
        &mut self,
        range: Range<usize>,
        each: &mut dyn FnMut(&[Record]),
    ) -> std::io::Result<()> {
        for start in range.clone().step_by(256) {
            let end = range.end.min(start + 256);
            let mut records = vec![[0; RECORD_BYTES]; end - start];
            self.file
                .seek(SeekFrom::Start((start * RECORD_BYTES) as u64))?;
            self.file.read_exact(records.as_flattened_mut())?;
            self.largest_read = self.largest_read.max(records.len());
            each(&records);
        }
        Ok(())
    }
}

#[test]
fn law_a_log_on_disk_answers_as_the_set_in_memory_does() {
    let mut set: ItemSet = (1..=3_000).map(item).collect();
    let mut file = tempfile::tempfile().unwrap();
    for item in set.iter() {
        file.write_all(&item.record().unwrap()).unwrap();
    }
    let mut log = Log {
        file,
        records: 3_000,
        largest_read: 0,
    };
    let limits = Limits::default();
    for peer_items in [0, 10, 2_500, 2_999] {
        let mut peer: ItemSet = (1..=peer_items).map(item).collect();
        let Ok(opening) = initiate(&mut peer, &limits);
        let (from_disk, from_memory) = (
            respond(&mut log, &opening, &limits).unwrap(),
            respond(&mut set, &opening, &limits).unwrap(),
        );
        assert_eq!(from_disk, from_memory);
    }
    assert_eq!(log.largest_read, 256);
}

#[test]
fn law_a_failing_log_answers_nothing() {
    let mut log = Log {
        file: tempfile::tempfile().unwrap(),
        records: 100,
        largest_read: 0,
    };
    let Ok(opening) = initiate(
        &mut (1..=50).map(item).collect::<ItemSet>(),
        &Limits::default(),
    );
    let error = respond(&mut log, &opening, &Limits::default()).unwrap_err();
    assert_eq!(error.code(), "retry/backpressure");
    assert!(
        error.to_string().starts_with("the set could not be read"),
        "{error}"
    );
}
