//! A file that something else than the store changed.

use std::path::Path;

use overlane_core::Coded as _;
use overlane_relay::refs::store::Store as _;
use overlane_relay::refs::table::Change;
use overlane_storage_native::testkit::{Disk, Image};

use super::script::{FOLDER, Rows, open, rows};

/// After a store was closed in order, every page of its file is what was written, or the open
/// says that it is not: damage is never taken for a crash, and never shown.
#[test]
fn law_a_damaged_file_is_refused_or_shows_what_was_written() {
    let database = Path::new(FOLDER).join("database");
    let disk = Disk::new();
    let mut store = open(&disk).unwrap();
    for round in 0..3 {
        let change = |row| Change {
            key: vec![row],
            value: Some(vec![row ^ round; 60]),
        };
        store.commit((0..200).map(change).collect()).unwrap();
    }
    let expected = rows(&mut store).unwrap();
    drop(store);
    let image = disk.image();
    let whole = image.file(&database).unwrap().to_vec();

    let (mut refused, mut unharmed) = (0, 0);
    let mut judge = |bytes: Vec<u8>, what: String| {
        let mut harmed = image.clone();
        harmed.put(&database, bytes);
        match shown(&harmed) {
            Ok(rows) => {
                assert!(rows == expected, "{what}");
                unharmed += 1;
            }
            Err(code) => {
                assert_eq!(code, "store/damaged", "{what}");
                refused += 1;
            }
        }
    };
    for at in (0..whole.len()).step_by(251) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        judge(bytes, format!("byte {at} of {}", whole.len()));
    }
    for at in 0..320 {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        judge(bytes, format!("byte {at} of the head"));
    }
    for at in (0..whole.len()).step_by(4096) {
        judge(whole[..at].to_vec(), format!("cut to {at} bytes"));
        let mut bytes = whole.clone();
        let end = (at + 4096).min(bytes.len());
        bytes[at..end].fill(0);
        judge(bytes, format!("no page at {at}"));
    }
    println!("{refused} refused, {unharmed} unharmed");
    assert!(refused > 100 && unharmed > 0);

    let mut without = image.clone();
    without.take(&database);
    assert_eq!(shown(&without), Err("store/damaged"));
}

fn shown(image: &Image) -> Result<Rows, &'static str> {
    let store = open(&Disk::from_image(image));
    let rows = store.and_then(|mut store| rows(&mut store));
    rows.map_err(|error| error.code())
}
