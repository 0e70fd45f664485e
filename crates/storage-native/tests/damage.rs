//! A flipped bit and a cut at every byte of everything a store writes: a record is then as it
//! was, or bad by name, or the store refuses to open; it is never wrong and never gone. The
//! one residual, the last frame before its seal, is held to its own bounds.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

use std::path::{Path, PathBuf};

use overlane_core::store::{Found, RecordName};
use overlane_storage_native::StoreAdmin;
use overlane_storage_native::testkit::scenario::{self, Model, Owner};
use overlane_storage_native::testkit::{
    Disk, FilesSubject, Image, JournalSubject, STORE_FOLDER, Step, Subject, name,
};

/// Zeros that nothing was ever written over: a flip there is found when a frame is.
const UNUSED_AFTER: usize = 3;

fn put(record: u64, fill: u8, length: usize) -> (RecordName, Option<Vec<u8>>) {
    (name(record), Some(vec![fill; length]))
}

/// A batch of two, one more value of one of them, a removal; then sealed, or not.
fn written(subject: &dyn Subject, seal: bool) -> (Disk, Model) {
    let disk = Disk::new();
    let mut owner = Owner::default();
    let mut steps = vec![
        Step::Reopen,
        Step::Write(vec![put(0, 1, 300), put(1, 2, 700), put(2, 3, 10)]),
        Step::Write(vec![put(1, 4, 700), (name(2), None)]),
    ];
    steps.extend(seal.then_some(Step::Seal));
    let mut model = Model::new();
    for step in &steps {
        owner.take(subject, &disk, step).unwrap();
        model = scenario::after(&model, &step.changes());
    }
    (disk, model)
}

/// What is wrong with what the store shows now, if anything.
fn judge(
    subject: &dyn Subject,
    image: &Image,
    model: &Model,
    may_refuse: bool,
) -> Result<(), String> {
    let scan = match scenario::open(subject, &Disk::from_image(image)) {
        Ok((_, scan)) => scan,
        Err(_) if may_refuse => return Ok(()),
        Err(error) => return Err(format!("the store does not open: {error}")),
    };
    for (name, value) in model {
        match scan.records.iter().find(|(of, _)| of == name) {
            Some((_, Found::Bytes(bytes))) if bytes == value => {}
            Some((_, Found::Bytes(_))) => return Err(format!("{name} is at another value")),
            Some(_) => {}
            None => return Err(format!("{name} is gone")),
        }
    }
    match scan
        .records
        .iter()
        .find(|(of, found)| matches!(found, Found::Bytes(_)) && !model.contains_key(of))
    {
        Some((name, _)) => Err(format!("{name} came back")),
        None => Ok(()),
    }
}

/// Harms each byte of each file the store reads, in turn; gives up each harm that leaves a
/// wrong store to `residual`.
fn harm_every_byte(subject: &dyn Subject, seal: bool, residual: impl Fn(&Path, &str) -> bool) {
    let (disk, model) = written(subject, seal);
    let image = disk.image();
    let files: Vec<PathBuf> = image
        .files()
        .filter(|path| !path.ends_with("lock"))
        .map(Path::to_path_buf)
        .collect();
    let mut harms = 0;
    for path in files {
        let whole = image.file(&path).unwrap().to_vec();
        let used = whole
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        for at in 0..whole.len().min(used + UNUSED_AFTER) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            // One flipped bit closes no store, but in the file that says what it is.
            let is_kind = path.ends_with("kind");
            for (harmed, may_refuse) in [(flipped, is_kind), (whole[..at].to_vec(), true)] {
                let mut image = image.clone();
                image.put(&path, harmed);
                harms += 1;
                if let Err(why) = judge(subject, &image, &model, may_refuse) {
                    let stated = residual(&path, &why);
                    assert!(stated, "{}, byte {at}: {why}", path.display());
                }
            }
        }
    }
    println!("{}: {harms} harms", subject.name());
}

#[test]
fn law_isolation_files_at_every_byte() {
    // An empty marker has no byte to flip; a cut `kind` file names no store.
    harm_every_byte(&FilesSubject, true, |_, _| false);
}

#[test]
fn law_isolation_journal_at_every_byte() {
    harm_every_byte(&JournalSubject::SHORT, true, |_, _| false);
}

#[test]
fn law_isolation_snapshot_at_every_byte() {
    harm_every_byte(&JournalSubject::COMPACTED, true, |_, _| false);
}

#[test]
fn law_residual_without_its_seal_the_last_frame_alone_may_roll_back() {
    let subject = JournalSubject::SHORT;
    let rolled_back = std::cell::Cell::new(0);
    harm_every_byte(&subject, false, |path, _| {
        rolled_back.set(rolled_back.get() + 1);
        path.to_string_lossy().contains("segment-")
    });
    assert!(
        rolled_back.get() > 0,
        "the residual that is stated is there"
    );
    // And what rolls back is that frame's batch, whole: each record at its value before it.
    let (disk, model) = written(&subject, false);
    let before: Model = [
        (name(0), vec![1; 300]),
        (name(1), vec![2; 700]),
        (name(2), vec![3; 10]),
    ]
    .into_iter()
    .collect();
    let mut image = disk.image();
    let segment = Path::new(STORE_FOLDER).join("segment-0");
    let mut bytes = image.take(&segment).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last] ^= 1;
    image.put(&segment, bytes);
    assert!(judge(&subject, &image, &model, false).is_err());
    let disk = Disk::from_image(&image);
    let mut store: Box<dyn StoreAdmin> = subject.open(&disk, scenario::AMPLE_BUDGET_BYTES).unwrap();
    let shown = scenario::judge(&store.scan().unwrap(), &before, &Vec::new());
    assert_eq!(shown, Ok(before));
}
