//! Deltas of the suites: the bytes between a common beginning and a common end, under the hash
//! of the value they apply to.

use crate::store::{Image, Step};

const HASH_BYTES: usize = 8;

/// A value that says how it came from the one before it.
#[derive(Debug)]
pub struct Spliced {
    whole: Vec<u8>,
    version: u64,
    delta: Option<Vec<u8>>,
}

impl Spliced {
    /// The image of `whole`, the record's `version`-th value, after `old`.
    pub fn new(old: Option<&[u8]>, whole: Vec<u8>, version: u64) -> Self {
        let delta = old.map(|old| splice(old, &whole));
        let delta = delta.filter(|delta| delta.len() < whole.len());
        Self {
            whole,
            version,
            delta,
        }
    }
}

impl Image for Spliced {
    fn whole(&self) -> Vec<u8> {
        self.whole.clone()
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn delta_into(&self, into: &mut Vec<u8>) -> Option<Step> {
        let (from, delta) = (self.version.checked_sub(1)?, self.delta.as_ref()?);
        into.extend_from_slice(delta);
        Some(Step {
            from,
            to: self.version,
        })
    }
}

fn splice(old: &[u8], new: &[u8]) -> Vec<u8> {
    let alike = |pair: &(&u8, &u8)| pair.0 == pair.1;
    let head = old.iter().zip(new).take_while(alike).count();
    let rest = old.len().min(new.len()).saturating_sub(head);
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest);
    let tail = tail.take_while(alike).count();
    let middle = new.get(head..new.len().saturating_sub(tail));
    let mut delta = hash_of(old).to_vec();
    delta.extend_from_slice(&(head as u32).to_be_bytes());
    delta.extend_from_slice(&(tail as u32).to_be_bytes());
    delta.extend_from_slice(middle.unwrap_or_default());
    delta
}

/// Applies the suites' deltas.
///
/// # Errors
/// In words, when a delta does not apply to the value at hand.
pub fn apply(whole: &[u8], deltas: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let mut whole = whole.to_vec();
    for delta in deltas {
        whole = apply_one(&whole, delta).ok_or("a delta of another value")?;
    }
    Ok(whole)
}

fn apply_one(whole: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let (hash, rest) = delta.split_first_chunk::<HASH_BYTES>()?;
    let (head, rest) = rest.split_first_chunk::<4>()?;
    let (tail, middle) = rest.split_first_chunk::<4>()?;
    let head = whole.get(..usize::try_from(u32::from_be_bytes(*head)).ok()?)?;
    let tail = usize::try_from(u32::from_be_bytes(*tail)).ok()?;
    let tail = whole.get(whole.len().checked_sub(tail)?..)?;
    (hash_of(whole) == *hash).then(|| [head, middle, tail].concat())
}

fn hash_of(bytes: &[u8]) -> [u8; HASH_BYTES] {
    let mut hash = [0; HASH_BYTES];
    blake3::Hasher::new()
        .update(bytes)
        .finalize_xof()
        .fill(&mut hash);
    hash
}
