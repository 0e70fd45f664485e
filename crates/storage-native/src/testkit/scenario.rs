//! What the suites let a store do, and what it should hold then.

use std::collections::BTreeMap;
use std::sync::Arc;

use overlane_core::store::{Change, Effect, Found, RecordName, Scan, StoreError};

use super::{Disk, Subject, name};
use crate::StoreAdmin;

/// A budget that no scenario reaches.
pub const AMPLE_BUDGET_BYTES: u64 = 64 * 1024 * 1024;

/// What a store should hold.
pub type Model = BTreeMap<RecordName, Vec<u8>>;

/// The new values of a batch; `None` removes.
pub type Changes = Vec<(RecordName, Option<Vec<u8>>)>;

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

/// Record number `record` at its version number `version`: every pair has its own bytes, and
/// lengths vary from nothing to more than a block.
pub fn value(record: u64, version: u64) -> Vec<u8> {
    let lengths = [1200, 0, 1, 60, 511, 513, 1066, 5089];
    let pick = usize::try_from(record.wrapping_mul(3).wrapping_add(version) % 8).unwrap_or(0);
    let length = lengths.get(pick).copied().unwrap_or(0);
    let mut bytes = Vec::with_capacity(length);
    let mut hasher = blake3::Hasher::new();
    hasher.update(&record.to_be_bytes());
    hasher.update(&version.to_be_bytes());
    bytes.resize(length, 0);
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

fn put(record: u64, version: u64) -> (RecordName, Option<Vec<u8>>) {
    (name(record), Some(value(record, version)))
}

fn drop_record(record: u64) -> (RecordName, Option<Vec<u8>>) {
    (name(record), None)
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

/// Takes one step.
///
/// # Errors
/// As the store says; a store that could not be opened again leaves nothing behind.
pub fn take(
    subject: &dyn Subject,
    disk: &Disk,
    store: &mut Option<Box<dyn StoreAdmin>>,
    step: &Step,
) -> Result<(), StoreError> {
    match step {
        Step::Reopen => {
            *store = None;
            *store = Some(open(subject, disk)?.0);
        }
        Step::Write(changes) => owner(store)?.write(&batch(changes))?,
        Step::Seal => owner(store)?.seal()?,
        Step::Clear(name) => owner(store)?.clear(*name).map(drop)?,
    }
    Ok(())
}

fn owner(store: &mut Option<Box<dyn StoreAdmin>>) -> Result<&mut Box<dyn StoreAdmin>, StoreError> {
    store.as_mut().ok_or_else(|| StoreError::Poisoned {
        cause: "it could not be opened".into(),
    })
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

/// A batch of whole records.
pub fn batch(changes: &[(RecordName, Option<Vec<u8>>)]) -> Vec<Change> {
    let change = |(name, value): &(RecordName, Option<Vec<u8>>)| Change {
        name: *name,
        effect: match value {
            Some(value) => Effect::Write(Arc::new(value.clone())),
            None => Effect::Remove,
        },
    };
    changes.iter().map(change).collect()
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

/// The model after these changes.
pub fn after(model: &Model, changes: &Changes) -> Model {
    let mut model = model.clone();
    for (name, value) in changes {
        match value {
            Some(value) => model.insert(*name, value.clone()),
            None => model.remove(name),
        };
    }
    model
}

/// Whether a scan shows every record whole, at its value before the changes in flight or after
/// them; the model it shows, or what is wrong.
///
/// # Errors
/// In words, naming the record.
pub fn judge(scan: &Scan, before: &Model, in_flight: &Changes) -> Result<Model, String> {
    let mut shown = Model::new();
    for (name, found) in &scan.records {
        match found {
            Found::Bytes(bytes) => shown.insert(*name, bytes.clone()),
            bad => return Err(format!("record {name} is {bad:?}")),
        };
    }
    let changed: BTreeMap<_, _> = in_flight
        .iter()
        .map(|(name, value)| (name, value))
        .collect();
    let names = before
        .keys()
        .chain(changed.keys().copied())
        .chain(shown.keys());
    for name in names {
        let value = shown.get(name);
        let is_old = value == before.get(name);
        let is_new = changed.get(name).is_some_and(|new| value == new.as_ref());
        if !is_old && !is_new {
            let length = value.map(Vec::len);
            return Err(format!(
                "record {name} (length {length:?}) is at neither its previous nor its new value"
            ));
        }
    }
    Ok(shown)
}
