//! What the suites write, and what a store should hold then.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::store::{Change, Effect, Found, RecordName, Scan};

/// The record names of the suites.
pub fn name(index: u64) -> RecordName {
    RecordName::of(&index.to_be_bytes())
}

/// What a store should hold.
pub type Model = BTreeMap<RecordName, Vec<u8>>;

/// The new values of a batch; `None` removes.
pub type Changes = Vec<(RecordName, Option<Vec<u8>>)>;

/// Record number `record` at its version number `version`. Most versions of a record differ in
/// a few bytes, as a window's do, every third one in length too; lengths go from nothing to
/// more than a block.
pub fn value(record: u64, version: u64) -> Vec<u8> {
    let lengths = [1200, 60, 1066, 0, 513, 1, 511, 5089];
    let pick = record.wrapping_add(u64::from(version % 3 == 2)) % 8;
    let length = usize::try_from(pick)
        .ok()
        .and_then(|pick| lengths.get(pick));
    let mut bytes = vec![0; length.copied().unwrap_or(0)];
    fill(&mut bytes, &[record]);
    let changed = usize::try_from(version).unwrap_or(0).wrapping_mul(40);
    let at = changed.checked_rem(bytes.len()).unwrap_or(0);
    let rest = bytes.get_mut(at..).unwrap_or_default();
    let few = rest.len().min(24);
    fill(rest.get_mut(..few).unwrap_or_default(), &[record, version]);
    bytes
}

fn fill(bytes: &mut [u8], of: &[u64]) {
    let mut hasher = blake3::Hasher::new();
    for number in of {
        hasher.update(&number.to_be_bytes());
    }
    hasher.finalize_xof().fill(bytes);
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
