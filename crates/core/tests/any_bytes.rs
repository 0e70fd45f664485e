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

use proptest::prelude::*;
use proptest::sample::Index;
use std::path::Path;

type Harness = fn(&[u8]);

const HARNESSES: [(&str, Harness); 3] = [
    ("cbor", harness::cbor),
    ("link", harness::link),
    ("payload", harness::payload),
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

proptest! {
    #[test]
    fn prop_any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        HARNESSES.iter().for_each(|(_, harness)| harness(&bytes));
    }

    #[test]
    fn prop_mutated_corpus_is_read_or_refused(
        seed in any::<Index>(),
        changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        (from, to) in any::<(Index, Index)>(),
        splice in any::<bool>(),
    ) {
        for (name, harness) in HARNESSES {
            let corpus = corpus(name);
            let mut bytes = seed.get(&corpus).clone();
            for (at, with) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *with;
            }
            if splice {
                let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
                bytes = [&bytes[..from], &bytes[to..]].concat();
            }
            harness(&bytes);
        }
    }
}
