//! What the suites let a store do, and what it should hold then.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use overlane_core::store::testkit::{Changes, Model, after, batch, judge, value};
use overlane_core::store::{Change, Effect, RecordName, Scan, StoreError};

use super::splice::Spliced;
use super::{Disk, Seeded, Subject, name};
use crate::StoreAdmin;

/// A budget that no scenario reaches.
pub const AMPLE_BUDGET_BYTES: u64 = 64 * 1024 * 1024;

/// One thing a scenario does.
#[derive(Debug, Clone)]
pub enum Step {
    /// Writes a batch.
    Write(Changes),
    /// Seals.
    Seal,
    /// Closes the store and opens it again.
    Reopen,
    /// Clears a record.
    Clear(RecordName),
}

/// A named list of steps, from a store that is yet to be made.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name in reports.
    pub name: &'static str,
    /// What it does.
    pub steps: Vec<Step>,
}

fn put(record: u64, version: u64) -> (RecordName, Option<Vec<u8>>) {
    (name(record), Some(value(record, version)))
}

fn drop_record(record: u64) -> (RecordName, Option<Vec<u8>>) {
    (name(record), None)
}

/// Batches enough for a journal of short segments to turn them several times.
pub fn long_scenario() -> Scenario {
    let batch = |version| Step::Write((0..2).map(|record| put(record, version)).collect());
    Scenario {
        name: "long",
        steps: (0..40).map(batch).collect(),
    }
}

/// One-block batches until the newest one is alone in its segment and a snapshot covers all the
/// others (with two segments of eight blocks and late checkpoints); then an opening.
pub fn alone_scenario() -> Scenario {
    let write = |version| Step::Write(vec![put(1, version)]);
    let opening = std::iter::once(Step::Reopen);
    Scenario {
        name: "alone in its segment",
        steps: (0..16).map(write).chain(opening).collect(),
    }
}

/// A scenario drawn from a seed: batches that write, remove and make again, of one record and
/// of many, with seals, openings and clearings between them.
pub fn drawn_scenario(seed: u64) -> Scenario {
    let mut chance = Seeded::new(seed);
    let mut held = Vec::new();
    let mut version = 0;
    let steps = (0..14)
        .map(|_| draw(&mut chance, &mut held, &mut version))
        .collect();
    Scenario {
        name: "drawn",
        steps,
    }
}

fn draw(chance: &mut Seeded, held: &mut Vec<u64>, version: &mut u64) -> Step {
    match chance.below(12) {
        0 => return Step::Seal,
        1 => return Step::Reopen,
        2 => {
            let at = usize::try_from(chance.below(held.len() as u64)).unwrap_or(0);
            if at < held.len() {
                return Step::Clear(name(held.swap_remove(at)));
            }
        }
        _ => {}
    }
    let mut changes = Changes::new();
    for record in 0..1 + chance.below(4) {
        let record = record * 2 + chance.below(2);
        *version += 1;
        let at = held.iter().position(|of| *of == record);
        match at {
            Some(at) if chance.below(6) == 0 => {
                held.swap_remove(at);
                changes.push(drop_record(record));
            }
            _ => {
                if at.is_none() {
                    held.push(record);
                }
                changes.push(put(record, *version));
            }
        }
    }
    Step::Write(changes)
}

/// The twelve scenarios of the crash and fault suites.
pub fn scenarios() -> Vec<Scenario> {
    use Step::{Clear, Reopen, Seal, Write};
    let scenario = |name, steps| Scenario { name, steps };
    let run = |batches: u64, width: u64| -> Vec<Step> {
        let batch = |version| Write((0..width).map(|record| put(record, version)).collect());
        (0..batches).map(batch).collect()
    };
    let four = || Write((0..4).map(|record| put(record, 0)).collect());
    vec![
        scenario("first record", vec![Write(vec![put(0, 0)])]),
        scenario("overwrite", run(4, 1)),
        scenario("batch of four", vec![four(), Seal]),
        scenario(
            "old and new together",
            vec![
                Write(vec![put(0, 0), put(1, 0)]),
                Write(vec![put(1, 1), put(2, 0), put(3, 0)]),
            ],
        ),
        scenario(
            "remove",
            vec![four(), Write(vec![drop_record(1), drop_record(2)])],
        ),
        scenario(
            "remove and write together",
            vec![
                four(),
                Write(vec![drop_record(0), put(1, 1), put(4, 0)]),
                Seal,
            ],
        ),
        scenario(
            "remove and make again",
            vec![
                Write(vec![put(0, 0), put(1, 0)]),
                Write(vec![drop_record(0)]),
                Write(vec![put(0, 2)]),
            ],
        ),
        scenario("many batches", run(9, 2)),
        scenario(
            "open again",
            vec![
                Write(vec![put(0, 0)]),
                Seal,
                Reopen,
                Write(vec![put(0, 1), put(1, 0)]),
                Reopen,
                Write(vec![put(1, 1)]),
            ],
        ),
        scenario(
            "open again without a seal",
            vec![
                Write(vec![put(0, 0)]),
                Reopen,
                Reopen,
                Write(vec![drop_record(0), put(1, 0)]),
                Reopen,
            ],
        ),
        scenario(
            "seals between",
            vec![
                Write(vec![put(0, 0)]),
                Seal,
                Write(vec![put(0, 1)]),
                Seal,
                Seal,
                Write(vec![put(1, 0)]),
            ],
        ),
        scenario(
            "clear",
            vec![
                four(),
                Clear(name(2)),
                Write(vec![put(2, 1)]),
                Clear(name(0)),
            ],
        ),
    ]
}

/// Whoever has a store open: it knows what it wrote, and so can say what changed.
#[derive(Debug, Default)]
pub struct Owner {
    store: Option<Box<dyn StoreAdmin>>,
    held: BTreeMap<RecordName, (Vec<u8>, u64)>,
}

impl Owner {
    /// The owner of a store that holds this and is yet to be opened.
    pub fn of(model: &Model) -> Self {
        let held = model
            .iter()
            .map(|(name, value)| (*name, (value.clone(), 0)));
        Self {
            store: None,
            held: held.collect(),
        }
    }

    /// The open store.
    ///
    /// # Errors
    /// When it could not be opened.
    pub fn store(&mut self) -> Result<&mut dyn StoreAdmin, StoreError> {
        match &mut self.store {
            Some(store) => Ok(store.as_mut()),
            None => Err(StoreError::Poisoned {
                cause: "it could not be opened".into(),
            }),
        }
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.store.is_some()
    }

    /// Takes one step.
    ///
    /// # Errors
    /// As the store says.
    pub fn take(
        &mut self,
        subject: &dyn Subject,
        disk: &Disk,
        step: &Step,
    ) -> Result<(), StoreError> {
        match step {
            Step::Reopen => {
                self.store = None;
                self.store = Some(open(subject, disk)?.0);
            }
            Step::Write(changes) => {
                let batch = self.batch(changes);
                self.store()?.write(&batch)?;
            }
            Step::Seal => self.store()?.seal()?,
            Step::Clear(name) => self.store()?.clear(*name).map(drop)?,
        }
        self.follow(&step.changes());
        Ok(())
    }

    fn batch(&self, changes: &Changes) -> Vec<Change> {
        let change = |(name, value): &(RecordName, Option<Vec<u8>>)| Change {
            name: *name,
            effect: match value {
                Some(value) => Effect::Write(Arc::new(self.image(*name, value))),
                None => Effect::Remove,
            },
        };
        changes.iter().map(change).collect()
    }

    fn image(&self, name: RecordName, value: &[u8]) -> Spliced {
        match self.held.get(&name) {
            Some((old, version)) => {
                Spliced::new(Some(old), value.to_vec(), version.saturating_add(1))
            }
            None => Spliced::new(None, value.to_vec(), 1),
        }
    }

    fn follow(&mut self, changes: &Changes) {
        for (name, value) in changes {
            let version = self.held.get(name).map_or(0, |(_, version)| *version);
            match value {
                Some(value) => self
                    .held
                    .insert(*name, (value.clone(), version.saturating_add(1))),
                None => self.held.remove(name),
            };
        }
    }
}

/// Opens a subject's store and scans it, as every owner of a store does.
///
/// # Errors
/// As the store says.
pub fn open(subject: &dyn Subject, disk: &Disk) -> Result<(Box<dyn StoreAdmin>, Scan), StoreError> {
    let mut store = subject.open(disk, AMPLE_BUDGET_BYTES)?;
    let scan = store.scan()?;
    Ok((store, scan))
}

impl Step {
    /// The records it concerns and their new values.
    pub fn changes(&self) -> Changes {
        match self {
            Self::Write(changes) => changes.clone(),
            Self::Clear(name) => vec![(*name, None)],
            Self::Seal | Self::Reopen => Vec::new(),
        }
    }
}
