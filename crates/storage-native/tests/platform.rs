//! Both stores on the platform's own file system.

#![expect(
    clippy::disallowed_methods,
    reason = "what the stores must cope with is put in place past their door"
)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use overlane_core::store::{Change, Effect, Found, RecordName, RecordStore as _, StoreError};
use overlane_storage_native::testkit::{name, splice};
use overlane_storage_native::vfs::RealVfs;
use overlane_storage_native::{
    JournalConfig, JournalStore, Pace, StoreAdmin, StoreKind, kind_of, open,
};

const BUDGET_BYTES: u64 = 40 * 1024 * 1024;
const KINDS: [StoreKind; 2] = [StoreKind::Files, StoreKind::Journal];

fn put(record: u64, value: &[u8]) -> Change {
    Change {
        name: name(record),
        effect: Effect::Write(Arc::new(value.to_vec())),
    }
}

fn scanned(store: &mut dyn StoreAdmin) -> Vec<(RecordName, Found)> {
    store.scan().unwrap().records
}

#[test]
fn records_outlive_the_process_that_wrote_them() {
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/b/replay");
        let mut store = open(&folder, kind, BUDGET_BYTES).unwrap();
        assert_eq!(scanned(store.as_mut()), []);
        store.write(&[put(1, b"one"), put(2, b"two")]).unwrap();
        store.write(&[put(1, b"more")]).unwrap();
        store.seal().unwrap();
        drop(store);
        assert_eq!(kind_of(&RealVfs, &folder), Ok(Some(kind)));
        let mut store = open(&folder, kind, BUDGET_BYTES).unwrap();
        let mut expected = vec![
            (name(1), Found::Bytes(b"more".to_vec())),
            (name(2), Found::Bytes(b"two".to_vec())),
        ];
        expected.sort_by_key(|(name, _)| *name);
        assert_eq!(scanned(store.as_mut()), expected);
    }
}

#[test]
fn law_one_owner_names_the_process_that_holds_the_store() {
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let held = open(home.path(), kind, BUDGET_BYTES).unwrap();
        let second = open(home.path(), kind, BUDGET_BYTES).unwrap_err();
        let pid = Some(std::process::id());
        let path = home.path().display().to_string();
        assert_eq!(second, StoreError::Locked { path, pid });
        drop(held);
        open(home.path(), kind, BUDGET_BYTES).unwrap();
    }
}

#[test]
fn a_store_of_the_other_kind_is_refused_and_unharmed() {
    for (kind, other) in [(KINDS[0], KINDS[1]), (KINDS[1], KINDS[0])] {
        let home = tempfile::tempdir().unwrap();
        let mut store = open(home.path(), kind, BUDGET_BYTES).unwrap();
        store.write(&[put(1, b"one")]).unwrap();
        drop(store);
        let refused = open(home.path(), other, BUDGET_BYTES).unwrap_err();
        assert!(matches!(refused, StoreError::WrongKind { .. }), "{refused}");
        let mut store = open(home.path(), kind, BUDGET_BYTES).unwrap();
        assert_eq!(scanned(store.as_mut()).len(), 1);
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_is_refused_by_name() {
    use std::os::unix::fs::PermissionsExt as _;
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        std::fs::write(&file, b"not a folder").unwrap();
        let refused = open(&file.join("replay"), kind, BUDGET_BYTES).unwrap_err();
        assert!(
            matches!(&refused, StoreError::Io { path, .. } if path.contains("file")),
            "{refused}"
        );
        let locked = home.path().join("locked");
        std::fs::create_dir(&locked).unwrap();
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o500)).unwrap();
        // A privileged user may write there all the same.
        if std::fs::write(locked.join("probe"), b"").is_err() {
            let refused = open(&locked.join("replay"), kind, BUDGET_BYTES).unwrap_err();
            assert!(matches!(refused, StoreError::Io { .. }), "{refused}");
        }
    }
}

#[cfg(unix)]
#[test]
fn what_the_store_makes_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("replay");
        let mut store = open(&folder, kind, BUDGET_BYTES).unwrap();
        store.write(&[put(1, b"one")]).unwrap();
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&folder) & 0o777, 0o700);
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
        }
    }
}

#[test]
fn checkpoints_in_the_background_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    let config = JournalConfig {
        segments: 3,
        segment_bytes: 64 * 1024,
        pace: Pace::Background,
        apply: splice::apply,
        ..JournalConfig::default()
    };
    let open = || JournalStore::open(Arc::new(RealVfs), home.path(), config).unwrap();
    let mut store = open();
    for round in 0..400_u64 {
        let value = round.to_be_bytes().repeat(40);
        store
            .write(&[put(round % 50, &value), put(99, &value)])
            .unwrap();
    }
    drop(store);
    let mut store = open();
    let records = scanned(&mut store);
    assert_eq!(records.len(), 51);
    for (record, round) in (0..50)
        .map(|record| (record, 350 + record))
        .chain([(99, 399)])
    {
        let found = records.iter().find(|(of, _)| *of == name(record)).unwrap();
        let value = u64::to_be_bytes(round).repeat(40);
        assert_eq!(found.1, Found::Bytes(value), "record {record}");
    }
}
