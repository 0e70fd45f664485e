//! The plain answer: what every implementation says, byte for byte, as long as no limit is near.
//!
//! Law kept here: *byte-exact*. The range budget, the fewer than eight sub-ranges of a small split, the cut that
//! moves past items of one seq and the reopening after a push bound are those of the published vectors.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Cutoff, Judged, Part, nameable};
use crate::bounds::{IDLIST_LIMIT, RANGES_MAX, SPLIT_FACTOR};
use crate::storage::Storage;

pub(super) struct Plain {
    pub(super) parts: Vec<Part>,
    /// Where the parts of each judged range end.
    ends: Vec<usize>,
    /// A range was answered by its own fingerprint for want of room, which may go on for ever.
    pub(super) stuck: bool,
}

pub(super) fn lay_out<S: Storage>(
    set: &mut S,
    judged: &[Judged],
    stable: bool,
) -> Result<Plain, S::Error> {
    let mut plain = Plain {
        parts: Vec::with_capacity(judged.len()),
        ends: Vec::with_capacity(judged.len()),
        stuck: false,
    };
    for (index, range) in judged.iter().enumerate() {
        let still_to_come = judged.len() - index - 1;
        let budget = RANGES_MAX
            .saturating_sub(plain.parts.len() + still_to_come)
            .max(1);
        if range.settled {
            plain.parts.push(Part::skip(range.upper));
        } else if range.span.len() <= IDLIST_LIMIT {
            plain.parts.push(Part::ids(range.upper, range.span.clone()));
        } else {
            let buckets = budget.min(SPLIT_FACTOR);
            plain.stuck |= buckets == 1 && !nameable(&range.span);
            let parts = split_or_name(set, range.upper, range.span.clone(), buckets, stable)?;
            plain.parts.extend(parts);
        }
        plain.ends.push(plain.parts.len());
    }
    Ok(plain)
}

impl Plain {
    /// Opens every range that holds an omitted id again: its last part becomes one fingerprint over the whole range.
    pub(super) fn reopen(&mut self, judged: &[Judged], cutoff: &Cutoff) {
        for (range, end) in judged.iter().zip(&self.ends) {
            if cutoff.omits(range.greatest_lacked.as_ref())
                && let Some(part) = self.parts.get_mut(end - 1)
            {
                *part = Part::fingerprint(range.upper, range.span.clone());
            }
        }
    }
}

/// Splits a range at item positions into at most `buckets` fingerprints. A range that does not split is named, or,
/// with too many items for a list, stays one fingerprint.
pub(super) fn split_or_name<S: Storage>(
    set: &mut S,
    upper: u64,
    span: Range<usize>,
    buckets: usize,
    stable: bool,
) -> Result<Vec<Part>, S::Error> {
    let bucket = span.len().div_ceil(buckets.max(1)).max(1);
    let mut parts = Vec::new();
    if stable && let Some(bucket) = stable_bucket(&span, buckets) {
        parts = split(set, upper, span.clone(), |start| {
            (start / bucket + 1) * bucket
        })?;
    }
    if parts.len() < 2 {
        parts = split(set, upper, span.clone(), |start| start + bucket)?;
    }
    if parts.len() == 1 && nameable(&span) {
        return Ok(alloc::vec![Part::ids(upper, span)]);
    }
    Ok(parts)
}

/// The power of two whose multiples cut the span into two to `buckets` ranges: five to eight of a whole set. None
/// where the span lies so that there is none, as can be for two or three buckets.
fn stable_bucket(span: &Range<usize>, buckets: usize) -> Option<usize> {
    let least = span.len().div_ceil(buckets.max(1)).next_power_of_two();
    // A span may begin and end inside a bucket, and then touches one more.
    [least, least * 2].into_iter().find(|bucket| {
        let inside = span.end.saturating_sub(1) / bucket - span.start / bucket;
        (1..buckets).contains(&inside)
    })
}

/// Cuts a span after its start, and after every cut, where `next` has the next cut.
fn split<S: Storage>(
    set: &mut S,
    upper: u64,
    span: Range<usize>,
    next: impl Fn(usize) -> usize,
) -> Result<Vec<Part>, S::Error> {
    let mut parts = Vec::with_capacity(SPLIT_FACTOR);
    let mut start = span.start;
    while next(start) < span.end {
        let cut = whole_seq(set, next(start))?;
        let Some(bound) = set.seq_at(cut)? else {
            break;
        };
        if cut >= span.end {
            break;
        }
        parts.push(Part::fingerprint(bound, start..cut));
        start = cut;
    }
    parts.push(Part::fingerprint(upper, start..span.end));
    Ok(parts)
}

/// Moves a cut to the right until the items on both sides differ in seq.
fn whole_seq<S: Storage>(set: &mut S, cut: usize) -> Result<usize, S::Error> {
    let before = set.seq_at(cut.saturating_sub(1))?;
    match before {
        Some(seq) if set.seq_at(cut)? == before => set.position(seq.saturating_add(1)),
        _ => Ok(cut),
    }
}
