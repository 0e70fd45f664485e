//! Every crash point: every prefix of the effects, subsets of those not yet durable, tears.

use std::collections::HashSet;

use overlane_relay::refs::store::Store as _;
use overlane_relay::refs::table::Change;
use overlane_storage_native::testkit::{CrashChoices, Disk, Image, Mutant};

use super::script::{Owner, Rows, Step, open, rows, steps};

const CHOICES: CrashChoices = CrashChoices {
    exhaustive_max: 5,
    samples: 24,
    seed: 7,
    last_kept: false,
};

/// Effects of one step: before the first, the store holds `before`; after the last, `after`.
struct Span {
    from: usize,
    to: usize,
    before: Rows,
    after: Rows,
}

fn run(disk: &Disk, steps: &[Step]) -> Result<Vec<Span>, String> {
    let mut owner = Owner::default();
    let mut spans: Vec<Span> = Vec::new();
    for step in [Step::Reopen].iter().chain(steps) {
        let before = spans.last().map(|span| span.after.clone());
        let before = before.unwrap_or_default();
        let from = disk.position();
        let done = owner.step(disk, step);
        done.map_err(|error| format!("{step:?} on a sound disk: {error}"))?;
        spans.push(Span {
            from,
            to: disk.position(),
            after: step.after(&before),
            before,
        });
    }
    Ok(spans)
}

/// Opens what a crash left, and lets a store that was opened go on: what it shows, and what it
/// makes durable then, must outlive the loss of everything that is not durable.
fn check(image: &Image, allowed: &[&Rows]) -> Result<(), String> {
    let disk = Disk::from_image(image);
    let mut store = open(&disk).map_err(|error| format!("does not open: {error}"))?;
    let shown = rows(&mut store).map_err(|error| format!("does not read: {error}"))?;
    if !allowed.contains(&&shown) {
        return Err(format!(
            "shows {} rows, neither those before nor those after",
            shown.len()
        ));
    }
    let probe = Change {
        key: vec![255],
        value: Some(vec![9; 700]),
    };
    let going_on = store.commit(vec![probe.clone()]);
    going_on.map_err(|error| format!("does not go on: {error}"))?;
    let expected = Step::Commit(vec![probe]).after(&shown);
    let nothing_kept = CrashChoices {
        exhaustive_max: 0,
        samples: 1,
        ..CHOICES
    };
    let mut found = Err(String::from("no image"));
    let recording = disk.recording();
    recording.crash_images(recording.len(), nothing_kept, |image| {
        let again = open(&Disk::from_image(&image)).and_then(|mut store| rows(&mut store));
        found = match again {
            Ok(again) if again == expected => Ok(()),
            Ok(again) => Err(format!("shows {} rows", again.len())),
            Err(error) => Err(error.to_string()),
        };
    });
    found.map_err(|why| format!("after going on and a crash: {why}"))
}

/// How many crash images were opened, all different.
fn enumerate(steps: &[Step]) -> Result<usize, String> {
    let disk = Disk::new();
    let spans = run(&disk, steps)?;
    let recording = disk.recording();
    let mut seen = HashSet::new();
    let mut violation = None;
    for position in 0..=recording.len() {
        let ended = spans.iter().rev().find(|span| span.to == position);
        let within = spans
            .iter()
            .find(|span| span.from < position && position < span.to);
        let allowed: Vec<&Rows> = match (ended, within) {
            (Some(span), _) => vec![&span.after],
            (None, Some(span)) => vec![&span.before, &span.after],
            (None, None) => vec![],
        };
        if allowed.is_empty() {
            continue;
        }
        recording.crash_images(position, CHOICES, |image| {
            if violation.is_none() && seen.insert((allowed.len(), image.digest())) {
                let checked = check(&image, &allowed);
                violation = checked
                    .err()
                    .map(|why| format!("crash at effect {position}, seed {}: {why}", CHOICES.seed));
            }
        });
    }
    violation.map_or(Ok(seen.len()), Err)
}

#[test]
fn crash_references_every_prefix_subset_and_tear_shows_one_of_two_states() {
    let images = enumerate(&steps()).unwrap_or_else(|why| panic!("{why}"));
    println!("references: {images} distinct crash images, 0 violations");
    assert!(images > 1_000, "{images}");
}

#[test]
fn law_references_every_broken_variant_is_caught_by_a_crash() {
    for mutant in [
        Mutant::NoDatabaseFlush,
        Mutant::NoFolderFlush,
        Mutant::KindFirst,
    ] {
        let caught = mutant.run(|| enumerate(&steps()));
        println!("{mutant:?}: {caught:?}");
        assert!(caught.is_err(), "{mutant:?} passes");
    }
}
