//! What the stores put on the disk stays what `docs/store-format.md` says: a change of one byte
//! changes these hashes, and is a cutover.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use overlane_storage_native::testkit::scenario::{self, Owner};
use overlane_storage_native::testkit::{Disk, FilesSubject, JournalSubject, Step, Subject, name};

/// A store with two records, one of them changed by a delta, sealed.
fn image_of(subject: &dyn Subject) -> Vec<(String, usize, String)> {
    let disk = Disk::new();
    let mut owner = Owner::default();
    let record = |version| (name(1), Some(scenario::value(1, version)));
    for step in [
        Step::Reopen,
        Step::Write(vec![(name(0), Some(b"record".to_vec())), record(0)]),
        Step::Write(vec![record(1)]),
        Step::Seal,
    ] {
        owner.take(subject, &disk, &step).unwrap();
    }
    let image = disk.image();
    let describe = |path: &std::path::Path| {
        let bytes = image.file(path).unwrap();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let hash = blake3::hash(bytes).to_hex();
        (file, bytes.len(), hash.as_str()[..16].to_owned())
    };
    let files = image.files().filter(|path| !path.ends_with("lock"));
    files.map(describe).collect()
}

fn check(subject: &dyn Subject, expected: &[(&str, usize, &str)]) {
    let files = image_of(subject);
    let files: Vec<(&str, usize, &str)> = files
        .iter()
        .map(|(file, length, hash)| (file.as_str(), *length, hash.as_str()))
        .collect();
    assert_eq!(files, expected, "{}", subject.name());
}

#[test]
fn golden_files() {
    let files = [
        (
            "68eae1066fca29e3236b08eb29b363fbe204ec65",
            116,
            "9f60fd4918c05d0a",
        ),
        (
            "68eae1066fca29e3236b08eb29b363fbe204ec65.p",
            0,
            "af1349b9f5f9a1a6",
        ),
        (
            "71e0a99173564931c0b8acc52d2685a8e39c64dc",
            62,
            "e9d6da122e7e2ba2",
        ),
        (
            "71e0a99173564931c0b8acc52d2685a8e39c64dc.p",
            0,
            "af1349b9f5f9a1a6",
        ),
        ("kind", 15, "fc85dfbca1bfe944"),
    ];
    check(&FilesSubject, &files);
}

#[test]
fn golden_journal() {
    let files = [
        ("kind", 60, "6bf6bb3480fb736f"),
        ("segment-0", 32_768, "85dcfec505c0a026"),
        ("segment-1", 32_768, "ac169ead597dac88"),
        ("snapshot-0000000000000000", 208, "1cc246ee55cdf6e2"),
    ];
    check(&JournalSubject::SHORT, &files);
}

#[test]
fn golden_snapshot() {
    let files = [
        ("kind", 60, "e4ec6b33e86ef47b"),
        ("segment-0", 32_768, "85dcfec505c0a026"),
        ("segment-1", 32_768, "ac169ead597dac88"),
        ("segment-2", 32_768, "ac169ead597dac88"),
        ("snapshot-0000000000000003", 562, "624e04b4d16a3218"),
    ];
    check(&JournalSubject::COMPACTED, &files);
}
