use overlane_core::store::testkit::{name, splice, value};

use super::*;
use crate::rows::{cleared_key, kept_key};

fn text(key: &str, bytes: Vec<u8>) -> Row {
    Row {
        key: Key::Text(key.to_owned()),
        bytes: Some(bytes),
    }
}

fn directory(frames_from: u64, names: &[u64]) -> Vec<Row> {
    let directory = Directory {
        frames_from,
        names: names.iter().map(|it| name(*it)).collect(),
    };
    DIRECTORIES.map(|key| text(key, directory.seal())).to_vec()
}

fn row(record: u64, version: u64) -> Row {
    let bytes = envelope::seal(name(record), &value(record, version));
    Row {
        key: Key::Record(name(record)),
        bytes: Some(bytes),
    }
}

fn frame(number: u64, before: &[u64], changes: &[(u64, Change)]) -> Row {
    let before: Vec<RecordName> = before.iter().map(|it| name(*it)).collect();
    let cells: Vec<_> = changes
        .iter()
        .map(|(it, change)| (name(*it), change))
        .collect();
    Row {
        key: Key::Frame(number),
        bytes: Some(frame::seal(number, &before, cells.into_iter())),
    }
}

fn whole(record: u64, version: u64) -> (u64, Change) {
    (record, Change::Whole(value(record, version)))
}

/// Two rows, three frames over them, and a seal.
fn store() -> Vec<Row> {
    let mut rows = directory(5, &[0, 1]);
    rows.extend([row(0, 0), row(1, 0)]);
    rows.push(frame(5, &[], &[whole(0, 1), whole(2, 0)]));
    rows.push(frame(6, &[0, 2], &[whole(1, 1)]));
    rows.push(frame(7, &[1], &[(0, Change::Remove), whole(2, 1)]));
    rows.push(text(SEAL, frame::seal_row(7, &[name(0), name(2)])));
    rows
}

fn loaded(rows: Vec<Row>) -> Loaded {
    load("store", rows, splice::apply).unwrap()
}

fn found(loaded: &Loaded, record: u64) -> Option<&Found> {
    loaded.records.get(&name(record)).map(|it| &it.found)
}

fn without(key: &Key) -> Vec<Row> {
    let rows = store().into_iter();
    rows.filter(|row| row.key != *key).collect()
}

#[test]
fn rows_and_frames_together_are_the_records() {
    let loaded = loaded(store());
    assert_eq!(loaded.records.len(), 2);
    assert_eq!(found(&loaded, 1), Some(&Found::Bytes(value(1, 1))));
    assert_eq!(found(&loaded, 2), Some(&Found::Bytes(value(2, 1))));
    assert_eq!(
        loaded.removed,
        vec![name(0)],
        "its row is there until a fold"
    );
    assert_eq!(loaded.frames, 5..8);
    assert_eq!(loaded.newest, vec![name(0), name(2)]);
    assert!(loaded.sealed);
}

#[test]
fn law_isolation_a_frame_that_is_gone_refuses_the_records_it_changed_and_no_other() {
    for (number, bad, good) in [
        (5, [0, 2], vec![1]),
        (7, [0, 2], vec![1]),
        (6, [1, 1], vec![2]),
    ] {
        let loaded = loaded(without(&Key::Frame(number)));
        for record in bad {
            let found = found(&loaded, record);
            assert!(
                matches!(found, Some(Found::Torn(_))),
                "frame {number}: {found:?}"
            );
        }
        for record in good {
            let found = found(&loaded, record);
            assert!(
                matches!(found, Some(Found::Bytes(_))),
                "frame {number}: {found:?}"
            );
        }
        assert_eq!(loaded.frames, 5..8, "its number is not given again");
    }
}

#[test]
fn law_isolation_a_frame_of_which_no_bit_is_left_is_told_from_its_neighbours() {
    let mut rows = store();
    for row in &mut rows {
        if row.key == Key::Frame(7) {
            row.bytes = Some(vec![0; 40]);
        }
    }
    let loaded = loaded(rows);
    assert!(matches!(found(&loaded, 2), Some(Found::Torn(_))));
    assert_eq!(found(&loaded, 1), Some(&Found::Bytes(value(1, 1))));
    assert_eq!(loaded.damaged, vec![(7, vec![0; 40])], "it is kept");
    let entry = loaded.records.get(&name(2)).unwrap();
    assert!(entry.bad_by_frame.is_some(), "a fold has to write down why");
}

#[test]
fn a_store_that_cannot_tell_whose_changes_are_lost_is_damaged_as_a_whole() {
    let lost = |gone: &[Key]| {
        let rows = store().into_iter();
        let rows = rows.filter(|row| !gone.contains(&row.key)).collect();
        load("store", rows, splice::apply)
    };
    let seal = Key::Text(SEAL.into());
    for gone in [
        vec![Key::Frame(5), Key::Frame(6)],
        vec![Key::Frame(6), Key::Frame(7)],
        DIRECTORIES.map(|it| Key::Text(it.into())).to_vec(),
    ] {
        let loaded = lost(&gone);
        assert!(
            matches!(loaded, Err(StoreError::Damaged { .. })),
            "without {gone:?}: {loaded:?}"
        );
    }
    // What the newest frame and its seal said can be taken away together, and only together.
    assert_eq!(lost(&[Key::Frame(7), seal]).map(|it| it.frames), Ok(5..7));
}

#[test]
fn law_missing_a_row_that_the_directory_names_and_one_it_does_not_are_bad() {
    let mut rows = directory(1, &[0, 1]);
    rows.extend([row(1, 0), row(3, 0)]);
    let loaded = loaded(rows);
    assert_eq!(found(&loaded, 0), Some(&Found::Missing));
    assert_eq!(found(&loaded, 1), Some(&Found::Bytes(value(1, 0))));
    assert!(matches!(found(&loaded, 3), Some(Found::Unreadable(_))));
}

#[test]
fn one_copy_of_the_directory_is_enough() {
    for key in DIRECTORIES {
        assert_eq!(loaded(without(&Key::Text(key.into()))), loaded(store()));
    }
}

#[test]
fn law_own_key_a_record_in_anothers_row_is_foreign() {
    let mut rows = directory(1, &[0, 1]);
    let Row { bytes, .. } = row(0, 0);
    rows.push(row(0, 0));
    rows.push(Row {
        key: Key::Record(name(1)),
        bytes,
    });
    assert_eq!(found(&loaded(rows), 1), Some(&Found::Foreign(name(0))));
}

#[test]
fn what_is_not_ours_is_counted_and_left_alone() {
    let mut rows = store();
    rows.push(text("anything", vec![1]));
    rows.push(Row {
        key: Key::Other,
        bytes: None,
    });
    rows.push(frame(2, &[], &[whole(9, 9)]));
    rows.push(text(&cleared_key(name(8), 0), vec![]));
    rows.push(text(&kept_key(3), vec![]));
    let loaded = loaded(rows);
    assert_eq!((loaded.foreign_rows, loaded.cleared_kept), (3, 1));
    assert_eq!(found(&loaded, 9), None, "a frame from before the last fold");
}

#[test]
fn a_delta_without_its_base_is_bad_and_one_with_it_is_applied() {
    use overlane_core::store::Image;
    let (old, new) = (value(0, 0), value(0, 1));
    let delta = splice::Spliced::new(Some(&old), new.clone(), 2)
        .delta()
        .unwrap();
    let changed = |rows: Vec<Row>, delta: &[u8]| {
        let mut rows = rows;
        rows.push(frame(1, &[], &[(0, Change::Delta(delta.to_vec()))]));
        found(&loaded(rows), 0).cloned()
    };
    let based = || {
        let mut rows = directory(1, &[0]);
        rows.push(row(0, 0));
        rows
    };
    assert_eq!(changed(based(), &delta.bytes), Some(Found::Bytes(new)));
    assert!(matches!(changed(based(), b"no"), Some(Found::Torn(_))));
    let nothing = changed(directory(1, &[]), &delta.bytes);
    assert!(matches!(nothing, Some(Found::Torn(_))), "{nothing:?}");
}
