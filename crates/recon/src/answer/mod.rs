//! One step of the comparison: an incoming message and a set in, an answer out. Both roles take the same step.
//!
//! `judge` says of every incoming range whether it is settled; `plain` lays the answer out as every implementation
//! does; `planner` takes over when that would break a limit; `write` turns the layout into bytes.

mod judge;
mod least;
mod plain;
mod planner;
#[cfg(test)]
mod progress_tests;
mod write;

use alloc::vec::Vec;
use core::ops::Range;

pub(crate) use self::judge::{Judged, Settling, judge};
pub(crate) use self::least::Least;
use crate::bounds::{IDLIST_LIMIT, IDS_PER_RANGE_MAX, SPLIT_FACTOR, TOP};
use crate::codec::Refusal;
use crate::item::Id;
use crate::limits::Limits;
use crate::storage::Storage;

/// One range of an answer, before its bytes: `span` are the positions it speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) upper: u64,
    pub(crate) says: Says,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Says {
    Skip,
    Fingerprint(Range<usize>),
    Ids(Range<usize>),
}

/// Why a step could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum StepError<E: core::error::Error + 'static> {
    /// The peer's payload is refused, with a code to answer it with. The session lives on.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Reading the own set failed: nothing was answered, and nothing is settled.
    #[error("the set could not be read: {0}")]
    Storage(E),
}

impl<E: core::error::Error + 'static> StepError<E> {
    /// The stable code of the failure.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Storage(_) => "retry/backpressure",
        }
    }
}

/// The opening: all ids of a small set, else a split of everything.
pub(crate) fn open<S: Storage>(set: &mut S, limits: &Limits) -> Result<Vec<u8>, S::Error> {
    let all = 0..set.position(TOP)?;
    let mut parts = if all.len() <= IDLIST_LIMIT {
        alloc::vec![Part::ids(TOP, all.clone())]
    } else {
        plain::split_or_name(
            set,
            TOP,
            all.clone(),
            SPLIT_FACTOR,
            limits.splits_are_stable(),
        )?
    };
    if !fits(&parts, limits) {
        // Only items of one seq, named because they do not split, can be too many bytes.
        parts = alloc::vec![Part::fingerprint(TOP, all)];
    }
    write::message(set, &parts)
}

/// The answer to judged ranges, and whether any of it is open. `cutoff` is the greatest id that is still pushed;
/// ranges that hold an omitted one are opened again.
pub(crate) fn answer<S: Storage>(
    set: &mut S,
    judged: &[Judged],
    cutoff: Option<&Cutoff>,
    role: Role,
    limits: &Limits,
) -> Result<Answered, S::Error> {
    let mut plain = plain::lay_out(set, judged, limits.splits_are_stable())?;
    if let Some(cutoff) = cutoff {
        plain.reopen(judged, cutoff);
    }
    let planned = plain.stuck || !fits(&plain.parts, limits);
    let parts = if planned {
        planner::lay_out(set, judged, cutoff, role, limits)?
    } else {
        plain.parts
    };
    let open = parts.iter().any(|part| part.says != Says::Skip);
    Ok(Answered {
        payload: write::message(set, &parts)?,
        open,
        planned,
    })
}

/// Which side answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Initiator,
    Responder,
}

/// An answer's bytes.
pub(crate) struct Answered {
    pub(crate) payload: Vec<u8>,
    /// Whether any range is not skipped.
    pub(crate) open: bool,
    /// Whether the planner laid it out.
    pub(crate) planned: bool,
}

/// Where pushing was cut: ids above `last` were omitted, all of them if there is none.
pub(crate) struct Cutoff {
    pub(crate) last: Option<Id>,
}

impl Cutoff {
    fn omits(&self, greatest: Option<&Id>) -> bool {
        greatest.is_some_and(|greatest| self.last.as_ref().is_none_or(|last| greatest > last))
    }
}

impl Part {
    pub(crate) fn skip(upper: u64) -> Self {
        Self {
            upper,
            says: Says::Skip,
        }
    }

    pub(crate) fn fingerprint(upper: u64, span: Range<usize>) -> Self {
        Self {
            upper,
            says: Says::Fingerprint(span),
        }
    }

    pub(crate) fn ids(upper: u64, span: Range<usize>) -> Self {
        Self {
            upper,
            says: Says::Ids(span),
        }
    }

    /// Bytes of the part in a message; an upper limit where items share an id.
    fn bytes(&self) -> usize {
        write::part_bytes(self)
    }
}

fn fits(parts: &[Part], limits: &Limits) -> bool {
    let open = parts.iter().filter(|part| part.says != Says::Skip).count();
    let bytes: usize = parts.iter().map(Part::bytes).sum();
    parts.len() <= limits.ranges()
        && open <= limits.open()
        && bytes + crate::bounds::MESSAGE_HEAD_BYTES <= limits.bytes()
}

/// Whether a span may be named as an id list at all.
fn nameable(span: &Range<usize>) -> bool {
    span.len() <= IDS_PER_RANGE_MAX
}
