//! The disk of tests and simulations: what it forgets changes nothing, what it draws can happen.

use std::collections::BTreeSet;
use std::path::Path;

use overlane_storage_native::disk::{CrashChoices, Disk, FaultKind, FaultPlan, Seeded};
use overlane_storage_native::testkit::scenario::Owner;
use overlane_storage_native::testkit::{FilesSubject, JournalSubject, Step, Subject, scenarios};
use overlane_storage_native::vfs::{OpenMode, Vfs};

/// Every image, or none where too much is pending to try all.
const ALL: CrashChoices = CrashChoices {
    exhaustive_max: 5,
    samples: 0,
    seed: 0,
    last_kept: false,
};

fn images(disk: &Disk, position: usize) -> BTreeSet<[u8; 32]> {
    let mut images = BTreeSet::new();
    let recording = disk.recording();
    recording.crash_images(position, ALL, |image| {
        images.insert(image.digest());
    });
    images
}

#[test]
fn law_what_a_disk_forgets_no_crash_could_have_lost() {
    let subjects: [&dyn Subject; 2] = [&FilesSubject, &JournalSubject::SHORT];
    let mut compared = 0;
    for subject in subjects {
        for scenario in scenarios() {
            let (whole, short) = (Disk::new(), Disk::new());
            let mut owners = (Owner::default(), Owner::default());
            for step in std::iter::once(&Step::Reopen).chain(&scenario.steps) {
                let from = short.position();
                owners.0.take(subject, &whole, step).unwrap();
                owners.1.take(subject, &short, step).unwrap();
                let forgotten = whole.position() - short.position();
                for position in from..=short.position() {
                    let left = images(&short, position);
                    assert_eq!(left, images(&whole, forgotten + position));
                    compared += left.len();
                }
                short.forget_durable();
                assert_eq!(short.image(), whole.image());
            }
            assert!(short.position() < whole.position(), "it forgot something");
        }
    }
    assert!(compared > 3_000, "{compared}");
}

#[test]
fn a_drawn_crash_keeps_what_is_durable_and_any_part_of_the_rest() {
    let path = Path::new("/file");
    let disk = Disk::new();
    let mut file = disk.open(path, OpenMode::Create).unwrap();
    file.write_at(&[1; 1_024], 0).unwrap();
    file.flush().unwrap();
    disk.flush_folder(Path::new("/")).unwrap();
    let durable = disk.position();
    file.write_at(&[2; 1_024], 0).unwrap();
    let mut left = BTreeSet::new();
    for seed in 0..200 {
        let mut chance = Seeded::new(seed);
        let before = disk.recording().crash_image(durable, &mut chance);
        assert_eq!(before.file(path), Some(&[1; 1_024][..]));
        let image = disk.recording().crash_image(durable + 1, &mut chance);
        let bytes = image.file(path).unwrap();
        left.insert((bytes[0], bytes[1_023]));
    }
    let all = [(1, 1), (1, 2), (2, 1), (2, 2)];
    assert_eq!(left, BTreeSet::from(all));
}

#[test]
fn a_file_without_a_name_is_kept_for_who_has_it_open_and_no_longer() {
    let (path, next) = (Path::new("/file"), Path::new("/next"));
    let disk = Disk::new();
    let write = |path, byte: u8| {
        let mut file = disk.open(path, OpenMode::Create).unwrap();
        file.write_at(&[byte; 1_000], 0).unwrap();
        file
    };
    for byte in 0..50 {
        drop(write(next, byte));
        disk.rename(next, path).unwrap();
    }
    assert_eq!(disk.bytes(), 1_000, "a file takes the place of another");
    let mut first = disk.open(path, OpenMode::Read).unwrap();
    let mut second = disk.open(path, OpenMode::Read).unwrap();
    disk.remove(path).unwrap();
    drop(write(path, 50));
    assert_eq!(disk.bytes(), 2_000);
    let mut read = [0; 1_000];
    assert_eq!(first.read_at(&mut read, 0).unwrap(), 1_000);
    assert_eq!(read, [49; 1_000]);
    drop(first);
    assert_eq!(second.read_at(&mut read, 0).unwrap(), 1_000);
    drop(second);
    assert_eq!(disk.bytes(), 1_000, "nobody can see it any more");
    // A crash may bring back what was removed.
    let before = disk.recording();
    let removed = before.len() - 3;
    let mut kept = BTreeSet::new();
    before.crash_images(
        removed,
        CrashChoices {
            exhaustive_max: 0,
            samples: 64,
            ..ALL
        },
        |image| {
            kept.insert(image.file(path).map(<[u8]>::len));
        },
    );
    assert!(kept.contains(&Some(1_000)), "{kept:?}");
}

/// One drawn change of a disk of a few files, and of which some are never flushed.
fn change(disk: &Disk, drawn: [u64; 3]) {
    let path = |number: u64| format!("/{}", number % 4);
    let (of, at) = (path(drawn[1]), drawn[2]);
    let (of, to) = (Path::new(&of), path(at));
    let file = || disk.open(of, OpenMode::Update);
    // A call that meets nothing under its name does nothing.
    let _ = match drawn[0] % 16 {
        0 => disk.open(of, OpenMode::Create).map(drop),
        1..=5 => {
            file().and_then(|mut it| it.write_at(&[drawn[2] as u8; 700], at % 2_000).map(drop))
        }
        6 => file().and_then(|mut it| it.resize(at % 2_000)),
        7..=10 => file().and_then(|mut it| it.flush()),
        // What a failed flush was to make durable may be lost for ever, and what is written over it later not.
        11 => {
            disk.fail(FaultPlan {
                kind: FaultKind::FileFlush,
                at: 1,
                for_good: false,
            });
            let flushed = file().and_then(|mut it| it.flush());
            disk.heal();
            flushed
        }
        12 => disk.rename(of, Path::new(&to)),
        13 => disk.remove(of),
        _ => disk.flush_folder(Path::new("/")),
    };
}

#[test]
fn law_a_crash_leaves_the_same_of_a_disk_that_forgets_as_of_one_that_does_not() {
    let mut forgotten = 0;
    for seed in 0..400 {
        let mut chance = Seeded::new(seed);
        let (whole, short) = (Disk::new(), Disk::new());
        for step in 0..120 {
            let drawn = [(); 3].map(|()| chance.next_u64());
            let from = (whole.position(), short.position());
            change(&whole, drawn);
            change(&short, drawn);
            assert_eq!(short.image(), whole.image(), "seed {seed}, step {step}");
            for after in 0..=whole.position() - from.0 {
                let left = |disk: &Disk, from: usize| {
                    let mut chance = Seeded::new(seed ^ (step << 16));
                    disk.recording().crash_image(from + after, &mut chance)
                };
                let (of_whole, of_short) = (left(&whole, from.0), left(&short, from.1));
                assert!(
                    of_short == of_whole,
                    "seed {seed}, step {step}, after {after}"
                );
            }
            if chance.below(4) == 0 {
                let before = short.position();
                short.forget_settled();
                forgotten += before - short.position();
            }
        }
    }
    assert!(forgotten > 10_000, "{forgotten}");
}

#[test]
fn what_is_never_flushed_holds_up_nothing_else() {
    let (path, lock) = (Path::new("/file"), Path::new("/lock"));
    let disk = Disk::new();
    let mut held = disk.lock(lock).unwrap();
    let mut file = disk.open(path, OpenMode::Create).unwrap();
    disk.flush_folder(Path::new("/")).unwrap();
    held.write_at(b"holder", 0).unwrap();
    for number in 0..1_000_u64 {
        file.write_at(&number.to_be_bytes(), number % 4 * 8)
            .unwrap();
        file.flush().unwrap();
        disk.forget_settled();
        assert_eq!(disk.position(), 1, "who holds the lock");
    }
    let mut holders = BTreeSet::new();
    for seed in 0..64 {
        let image = disk.recording().crash_image(1, &mut Seeded::new(seed));
        let last = image.file(path).unwrap().last_chunk().unwrap();
        assert_eq!(u64::from_be_bytes(*last), 999);
        holders.insert(image.file(lock).unwrap().to_vec());
    }
    assert!(holders.contains(&b"holder"[..]) && holders.contains(&b""[..]));
}
