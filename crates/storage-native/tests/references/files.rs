//! The store of references on the platform's own file system.

#![expect(
    clippy::disallowed_methods,
    reason = "what the store must cope with is put in place past its door"
)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;

use overlane_core::Coded as _;
use overlane_core::store::StoreError;
use overlane_relay::refs::store::Store as _;
use overlane_relay::refs::table::Change;
use overlane_storage_native::{RefsStore, StoreKind, open};

fn put(row: u8, value: &[u8]) -> Change {
    Change {
        key: vec![row],
        value: Some(value.to_vec()),
    }
}

fn made(folder: &Path) {
    let mut store = RefsStore::open(folder).unwrap();
    let rows = (0..200).map(|row| put(row, &[row; 60]));
    store.commit(rows.collect()).unwrap();
}

#[test]
fn rows_outlive_the_process_that_wrote_them() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("a/references");
    made(&folder);
    let mut store = RefsStore::open(&folder).unwrap();
    let mut rows = store.rows().unwrap();
    rows.sort();
    let expected: Vec<_> = (0..200).map(|row| (vec![row], vec![row; 60])).collect();
    assert_eq!(rows, expected);
}

#[test]
fn law_one_owner_is_named_and_what_is_no_store_of_references_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let held = RefsStore::open(home.path()).unwrap();
    let second = RefsStore::open(home.path()).unwrap_err();
    let pid = Some(std::process::id());
    let path = home.path().display().to_string();
    assert_eq!(second, StoreError::Locked { path, pid });
    drop(held);
    RefsStore::open(home.path()).unwrap();

    // Neither store takes the other's folder.
    for kind in [StoreKind::Files, StoreKind::Journal] {
        let refused = open(home.path(), kind, 1 << 26).unwrap_err();
        assert_eq!(refused.code(), "store/wrong_kind");
        let home = tempfile::tempdir().unwrap();
        drop(open(home.path(), kind, 1 << 26).unwrap());
        let refused = RefsStore::open(home.path()).unwrap_err();
        assert_eq!(refused.code(), "store/wrong_kind");
    }
}

#[test]
fn law_rows_of_a_newer_form_are_refused_and_stay_as_they_are() {
    let home = tempfile::tempdir().unwrap();
    made(home.path());
    let database = home.path().join("database");
    let before = std::fs::read(&database).unwrap();
    for (settings, says) in [
        ("rows 2\n", "its rows are of form 2"),
        ("", "does not say"),
        ("rows 1\nmore\n", "does not say"),
    ] {
        let kind = format!("overlane references\n{settings}");
        std::fs::write(home.path().join("kind"), kind).unwrap();
        let refused = RefsStore::open(home.path()).unwrap_err();
        assert_eq!(refused.code(), "store/wrong_kind");
        assert!(refused.to_string().contains(says), "{refused}");
    }
    assert!(std::fs::read(&database).unwrap() == before);
    std::fs::write(home.path().join("kind"), "overlane references\nrows 1\n").unwrap();
    assert_eq!(
        RefsStore::open(home.path()).unwrap().rows().unwrap().len(),
        200
    );
}

#[cfg(unix)]
#[test]
fn what_the_store_makes_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("references");
    made(&folder);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&folder) & 0o777, 0o700);
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
}
