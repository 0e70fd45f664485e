//! The answer when the plain one would break a limit or stand still.
//!
//! Answer from the left as plainly as ever, merge neighbouring skips, and when the rest no longer fits, fold it into
//! a few ranges up to the top.
//!
//! Law kept here: *progress*. The first open range of the incoming message is always answered in full, so after each
//! answer it is settled, named, or strictly smaller; the proof is in `papers/reconciliation.tex`. Folding keeps wide
//! ranges as they are: both sides then keep the same bounds from message to message, know their fingerprints by
//! heart, and need not descend again from one range over everything.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Cutoff, Judged, Part, Says, plain};
use crate::bounds::{MESSAGE_HEAD_BYTES, RANGES_MAX, SPLIT_FACTOR, TAIL_SHARE, TOP};
use crate::limits::Limits;
use crate::storage::Storage;

/// A folded range aims to hold at least one item in this many of the whole set.
const FOLD_GRID: usize = 96;

/// What a message, or a part of one, takes.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    ranges: usize,
    open: usize,
    bytes: usize,
}

pub(super) fn lay_out<S: Storage>(
    set: &mut S,
    judged: &[Judged],
    cutoff: Option<&Cutoff>,
    limits: &Limits,
) -> Result<Vec<Part>, S::Error> {
    let items = set.position(TOP)?;
    let whole = Cost::whole(limits);
    let tail = whole.share();
    let list = limits.planned_list();
    let answers: Vec<Answer> = judged
        .iter()
        .map(|range| answer(range, cutoff, list))
        .collect();
    let rest = rest_costs(judged, &answers);
    let mut layout = Layout::default();
    let mut answered_open = false;
    for (index, (range, answer)) in judged.iter().zip(&answers).enumerate() {
        let all = layout
            .cost
            .and(rest.get(index).copied().unwrap_or_default());
        let here = layout.cost.and(cost(range, *answer)).and(tail);
        let first = !answered_open && *answer != Answer::Skip;
        if !(all.within(whole) || here.within(whole) || first) {
            let (judged, answers) = (judged.get(index..), answers.get(index..));
            let rest = judged
                .unwrap_or_default()
                .iter()
                .zip(answers.unwrap_or_default());
            let rest: Vec<_> = rest.collect();
            layout.extend(fold(&rest, range.span.start..items, items, tail));
            break;
        }
        answered_open |= *answer != Answer::Skip;
        let span = range.span.clone();
        match answer {
            Answer::Skip => layout.push(Part::skip(range.upper)),
            Answer::Reopen => layout.push(Part::fingerprint(range.upper, span)),
            Answer::Name => layout.push(Part::ids(range.upper, span)),
            Answer::Split => {
                let parts = plain::split_or_name(set, range.upper, span.clone(), SPLIT_FACTOR)?;
                let taken = parts
                    .iter()
                    .fold(layout.cost, |sum, part| sum.and(Cost::of(part)));
                // Items of one seq do not split; where their list has no room, the exchange will end as stalled.
                let alone = parts.len() == 1 && !taken.and(tail).within(whole);
                if alone {
                    layout.push(Part::fingerprint(range.upper, span));
                } else {
                    layout.extend(parts);
                }
            }
        }
    }
    Ok(layout.parts)
}

/// How a range is answered when there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Skip,
    /// Settled but for items whose push was put off: asked again by its own fingerprint.
    Reopen,
    Name,
    Split,
}

fn answer(range: &Judged, cutoff: Option<&Cutoff>, list: usize) -> Answer {
    if range.settled {
        let omitted = cutoff.is_some_and(|cutoff| cutoff.omits(range.greatest_lacked.as_ref()));
        return if omitted {
            Answer::Reopen
        } else {
            Answer::Skip
        };
    }
    if range.span.len() <= list {
        Answer::Name
    } else {
        Answer::Split
    }
}

fn cost(range: &Judged, answer: Answer) -> Cost {
    let span = range.span.clone();
    match answer {
        Answer::Skip => Cost::of(&Part::skip(range.upper)),
        Answer::Reopen => Cost::of(&Part::fingerprint(range.upper, span)),
        Answer::Name => Cost::of(&Part::ids(range.upper, span)),
        Answer::Split => {
            let one = Cost::of(&Part::fingerprint(range.upper, span));
            Cost {
                ranges: SPLIT_FACTOR,
                open: SPLIT_FACTOR,
                bytes: SPLIT_FACTOR * one.bytes,
            }
        }
    }
}

/// For each range, what it and all after it take when answered in full.
fn rest_costs(judged: &[Judged], answers: &[Answer]) -> Vec<Cost> {
    let mut sum = Cost::default();
    let mut costs: Vec<Cost> = judged
        .iter()
        .zip(answers)
        .rev()
        .map(|(range, answer)| {
            sum = sum.and(cost(range, *answer));
            sum
        })
        .collect();
    costs.reverse();
    costs
}

/// Folds what is left into ranges of at least a grid's width, doubling the width until they fit their share.
fn fold(rest: &[(&Judged, &Answer)], span: Range<usize>, items: usize, room: Cost) -> Vec<Part> {
    let mut width = (items / FOLD_GRID).max(1);
    while width <= items {
        let layout = fold_at(rest, width);
        if layout.cost.within(room) {
            return layout.parts;
        }
        width = width.saturating_mul(2);
    }
    alloc::vec![Part::fingerprint(TOP, span)]
}

fn fold_at(rest: &[(&Judged, &Answer)], width: usize) -> Layout {
    let mut layout = Layout::default();
    let mut group: Option<Group> = None;
    for (range, answer) in rest {
        let this = Group {
            upper: range.upper,
            span: range.span.clone(),
            open: **answer != Answer::Skip,
        };
        group = Some(match group.take() {
            Some(before) if before.span.len() < width && this.span.len() < width => Group {
                span: before.span.start..this.span.end,
                open: before.open || this.open,
                ..this
            },
            before => {
                layout.extend(before.map(Group::part));
                this
            }
        });
    }
    layout.extend(group.map(Group::part));
    layout
}

struct Group {
    upper: u64,
    span: Range<usize>,
    open: bool,
}

impl Group {
    fn part(self) -> Part {
        if self.open {
            Part::fingerprint(self.upper, self.span)
        } else {
            Part::skip(self.upper)
        }
    }
}

/// Parts with neighbouring skips merged, and what they take.
#[derive(Default)]
struct Layout {
    parts: Vec<Part>,
    cost: Cost,
}

impl Layout {
    fn push(&mut self, part: Part) {
        if part.says == Says::Skip
            && let Some(last) = self.parts.last_mut()
            && last.says == Says::Skip
        {
            self.cost.bytes = self.cost.bytes + part.bytes() - last.bytes();
            last.upper = part.upper;
            return;
        }
        self.cost = self.cost.and(Cost::of(&part));
        self.parts.push(part);
    }

    fn extend(&mut self, parts: impl IntoIterator<Item = Part>) {
        parts.into_iter().for_each(|part| self.push(part));
    }
}

impl Cost {
    fn of(part: &Part) -> Self {
        Self {
            ranges: 1,
            open: usize::from(part.says != Says::Skip),
            bytes: part.bytes(),
        }
    }

    fn whole(limits: &Limits) -> Self {
        Self {
            ranges: RANGES_MAX,
            open: limits.open(),
            bytes: limits.bytes() - MESSAGE_HEAD_BYTES,
        }
    }

    fn share(self) -> Self {
        Self {
            ranges: self.ranges / TAIL_SHARE,
            open: self.open / TAIL_SHARE,
            bytes: self.bytes / TAIL_SHARE,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            ranges: self.ranges + other.ranges,
            open: self.open + other.open,
            bytes: self.bytes + other.bytes,
        }
    }

    fn within(self, limit: Self) -> bool {
        self.ranges <= limit.ranges && self.open <= limit.open && self.bytes <= limit.bytes
    }
}
