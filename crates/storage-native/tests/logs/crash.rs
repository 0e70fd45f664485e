//! Every crash point: every prefix of the effects, subsets of those not yet durable, tears. What the
//! store shows then is what it held before a transaction or after it: envelopes, names, index and rows.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use overlane_core::Did;
use overlane_core::store::StoreError;
use overlane_relay::log::{Change, Entry, LogId, LogStore};
use overlane_storage_native::testkit::{CrashChoices, Disk, Image, Mutant};
use overlane_storage_native::{LEAF_RECORDS, LogsStore};

const FOLDER: &str = "/home/logs";

const CHOICES: CrashChoices = CrashChoices {
    exhaustive_max: 3,
    samples: 4,
    seed: 11,
    last_kept: false,
};

/// What a store should hold: envelopes by log and number, and rows.
type Held = (BTreeMap<(LogId, u64), Vec<u8>>, BTreeMap<Vec<u8>, Vec<u8>>);

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<Change>),
    Kill,
}

const LOGS: [LogId; 2] = [LogId([1; 32]), LogId([2; 32])];

fn append(log: usize, seq: u64, bytes: usize) -> Change {
    let envelope = vec![seq as u8; bytes];
    let entry = Entry {
        seq,
        id: overlane_recon::Id(*blake3::hash(&seq.to_be_bytes()).as_bytes()),
        author: Did([1; 20]),
        slot: 1,
        stored_ms: 5,
        expires_ms: 9,
        bytes: bytes as u32,
    };
    Change::Append {
        log: LOGS[log],
        entry,
        envelope,
    }
}

fn remove(log: usize, seq: u64) -> Change {
    Change::Remove {
        log: LOGS[log],
        seq,
        id: overlane_recon::Id(*blake3::hash(&seq.to_be_bytes()).as_bytes()),
    }
}

fn row(key: u8, value: Option<u8>) -> Change {
    Change::Row {
        key: vec![key],
        value: value.map(|it| vec![it; 20]),
    }
}

fn steps() -> Vec<Step> {
    let leaf = LEAF_RECORDS as u64;
    vec![
        Step::Commit(vec![append(0, 1, 300), row(1, Some(1))]),
        Step::Commit(
            (2..20)
                .map(|seq| append(0, seq, 60))
                .chain([append(1, 1, 9_000)])
                .collect(),
        ),
        Step::Commit(vec![remove(0, 3), row(1, Some(2)), append(0, 20, 10)]),
        Step::Kill,
        // The first leaf is parted, and those of the names.
        Step::Commit((21..leaf + 5).map(|seq| append(0, seq, 1)).collect()),
        Step::Commit(vec![remove(1, 1), row(1, None), append(0, leaf + 5, 1)]),
        Step::Commit(vec![append(1, 2, 40)]),
    ]
}

fn after(step: &Step, held: &Held) -> Held {
    let (mut envelopes, mut rows) = held.clone();
    if let Step::Commit(changes) = step {
        for change in changes.clone() {
            match change {
                Change::Append {
                    log,
                    entry,
                    envelope,
                } => drop(envelopes.insert((log, entry.seq), envelope)),
                Change::Remove { log, seq, .. } => drop(envelopes.remove(&(log, seq))),
                Change::Row { key, value } => match value {
                    Some(value) => drop(rows.insert(key, value)),
                    None => drop(rows.remove(&key)),
                },
            }
        }
    }
    (envelopes, rows)
}

fn open(disk: &Disk) -> Result<LogsStore, StoreError> {
    LogsStore::open_on(disk.vfs(), Path::new(FOLDER))
}

/// What it holds, its index held against its envelopes.
fn held(store: &mut LogsStore) -> Result<Held, StoreError> {
    let mut envelopes = BTreeMap::new();
    for log in LOGS {
        store.verify(&log)?;
        for entry in store.entries(&log, 0, usize::MAX)? {
            let bytes = store.envelope(&log, entry.seq)?.unwrap_or_default();
            envelopes.insert((log, entry.seq), bytes);
        }
    }
    let rows = store.rows(&[])?.into_iter().collect();
    Ok((envelopes, rows))
}

struct Span {
    from: usize,
    to: usize,
    before: Held,
    after: Held,
}

fn run(disk: &Disk) -> Result<Vec<Span>, String> {
    let mut spans: Vec<Span> = Vec::new();
    let mut store: Option<LogsStore> = None;
    for step in [Step::Kill].iter().chain(&steps()) {
        let before = spans
            .last()
            .map(|span| span.after.clone())
            .unwrap_or_default();
        let from = disk.position();
        let done = match (step, &mut store) {
            (Step::Commit(changes), Some(store)) => store.commit(changes.clone()),
            _ => {
                if let Some(store) = store.take() {
                    disk.cut_off(|| drop(store));
                }
                open(disk).map(|opened| store = Some(opened))
            }
        };
        done.map_err(|error| format!("{step:?} on a sound disk: {error}"))?;
        spans.push(Span {
            from,
            to: disk.position(),
            after: after(step, &before),
            before,
        });
    }
    Ok(spans)
}

/// Opens what a crash left, and lets it go on.
fn check(image: &Image, allowed: &[&Held]) -> Result<(), String> {
    let disk = Disk::from_image(image);
    let mut store = open(&disk).map_err(|error| format!("does not open: {error}"))?;
    let shown = held(&mut store).map_err(|error| format!("does not read: {error}"))?;
    if !allowed.contains(&&shown) {
        return Err(format!(
            "{} envelopes, neither before nor after",
            shown.0.len()
        ));
    }
    let going_on = store.commit(vec![append(0, 5_000, 3)]);
    going_on.map_err(|error| format!("does not go on: {error}"))?;
    held(&mut store)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// How many crash images were opened, all different.
fn enumerate() -> Result<usize, String> {
    let disk = Disk::new();
    let spans = run(&disk)?;
    let recording = disk.recording();
    let mut seen = HashSet::new();
    let mut violation = None;
    for position in 0..=recording.len() {
        let ended = spans.iter().rev().find(|span| span.to == position);
        let mut within = spans
            .iter()
            .filter(|span| span.from < position && position < span.to);
        let allowed: Vec<&Held> = match (ended, within.next()) {
            (Some(span), _) => vec![&span.after],
            (None, Some(span)) => vec![&span.before, &span.after],
            (None, None) => continue,
        };
        recording.crash_images(position, CHOICES, |image| {
            if violation.is_none() && seen.insert((allowed.len(), image.digest())) {
                let why = check(&image, &allowed).err();
                violation =
                    why.map(|why| format!("effect {position}, seed {}: {why}", CHOICES.seed));
            }
        });
    }
    violation.map_or(Ok(seen.len()), Err)
}

#[test]
fn crash_logs_every_prefix_subset_and_tear_shows_one_of_two_states() {
    let images = enumerate().unwrap_or_else(|why| panic!("{why}"));
    println!("logs: {images} distinct crash images, 0 violations");
    assert!(images > 300, "{images}");
}

/// Envelopes and their index apart, after a crash between the two.
#[test]
fn law_logs_an_index_that_changes_apart_is_caught_by_a_crash() {
    let caught = Mutant::IndexApart.run(enumerate);
    assert!(caught.is_err(), "{caught:?}");
}

#[test]
fn law_logs_a_store_that_does_not_flush_is_caught_by_a_crash() {
    let caught = Mutant::NoDatabaseFlush.run(enumerate);
    assert!(caught.is_err(), "{caught:?}");
}
