//! The fuzz harnesses on the committed corpus, on mutations of it, and on any bytes.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "../fuzz/harness.rs"]
mod harness;

use overlane_relay::refs::wire::Frame;
use proptest::prelude::*;
use proptest::sample::Index;
use std::path::Path;

type Harness = fn(&[u8]);

const HARNESSES: [(&str, Harness); 5] = [
    ("inbox_frame", harness::inbox_frame),
    ("log_frame", harness::log_frame),
    ("log_host", harness::log_host),
    ("refs_frame", harness::refs_frame),
    ("refs_tables", harness::refs_tables),
];

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut files: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has seeds", folder.display());
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

#[test]
fn golden_corpus_holds() {
    for (name, harness) in HARNESSES {
        corpus(name).iter().for_each(|bytes| harness(bytes));
    }
}

/// A seed that decodes to nothing tests nothing.
#[test]
fn golden_corpus_of_frames_is_frames() {
    for bytes in corpus("refs_frame") {
        Frame::from_bytes(&bytes).unwrap();
    }
    for bytes in corpus("log_frame") {
        overlane_relay::log::Frame::from_bytes(&bytes).unwrap();
    }
    for bytes in corpus("inbox_frame") {
        overlane_relay::inbox::Frame::from_bytes(&bytes).unwrap();
    }
}

proptest! {
    #[test]
    fn prop_any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        HARNESSES.iter().for_each(|(_, harness)| harness(&bytes));
    }

    #[test]
    fn prop_mutated_corpus_is_read_or_refused(
        which in 0..HARNESSES.len(),
        seeds in proptest::collection::vec(any::<Index>(), 1..5),
        changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..4),
    ) {
        let (name, harness) = HARNESSES[which];
        let corpus = corpus(name);
        // Runs of the tables may follow one another.
        let mut bytes: Vec<u8> = seeds.iter().flat_map(|seed| seed.get(&corpus).clone()).collect();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        harness(&bytes);
    }
}
