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

use super::{Cutoff, Judged, Part, Role, Says, plain};
use crate::bounds::{IDLIST_LIMIT, MESSAGE_HEAD_BYTES, SPLIT_FACTOR, TAIL_SHARE, TOP};
use crate::limits::Limits;
use crate::storage::Storage;

/// A folded range has at most one in this many of the items between it and the answered ones.
const FOLD_STEPS: usize = 32;

/// Items a responder names without waiting for the initiator to do so.
const SMALL_LIST: usize = 8;

/// Narrow ranges in a message from which their differing ones are taken for a rate.
const NARROW_ENOUGH: usize = 16;

/// Most differences a range is taken to hold however many of its kind differ.
const DIFFERENCES_PER_RANGE_MAX: f64 = 4.0;

/// Differences per named range above which ranges are named twice as long.
const DENSE_PIECE: f64 = 0.4;

/// Differences per named range below which ranges are named short.
const SPARSE_PIECE: f64 = 0.2;

/// How many messages' worth of ranges an answer may leave to be answered next.
const AHEAD_MESSAGES: f64 = 3.0;

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
    role: Role,
    limits: &Limits,
) -> Result<Vec<Part>, S::Error> {
    let items = set.position(TOP)?;
    let whole = Cost::whole(limits);
    let tail = whole.share();
    let density = density(judged, limits.planned_piece());
    let piece = piece(density, limits.planned_piece());
    let mut ahead = Ahead::new(density, whole, piece);
    let mut answers: Vec<Answer> = judged
        .iter()
        .map(|range| answer(range, cutoff, role, piece))
        .collect();
    let front = judged
        .iter()
        .zip(&mut answers)
        .find(|(_, answer)| **answer != Answer::Skip);
    if let Some((range, answer)) = front
        && *answer == Answer::Defer
        && !range.settled
    {
        // Progress: the first open range is answered in full whatever it costs. A settled one is open only until its
        // pushes are through, each answer brings some, and it may hold more than can be named.
        *answer = Answer::Name;
    }
    #[cfg(test)]
    super::progress_tests::spoil(&mut answers);
    let rest = rest_costs(judged, &answers);
    let mut layout = Layout::default();
    let mut answered_open = false;
    for (index, (range, answer)) in judged.iter().zip(&answers).enumerate() {
        let all = layout
            .cost
            .and(rest.get(index).copied().unwrap_or_default());
        let here = layout.cost.and(cost(range, *answer)).and(tail);
        let first = !answered_open && *answer != Answer::Skip;
        let room = all.within(whole) || here.within(whole);
        #[cfg(test)]
        let (first, room) = if first && super::progress_tests::front_is_folded() {
            (false, all.within(whole))
        } else {
            (first, room)
        };
        if !first && (!room || ahead.full()) {
            let judged = judged.get(index..).unwrap_or_default();
            let rest: Vec<_> = judged.iter().zip(answers.iter().skip(index)).collect();
            let left = whole.less(layout.cost);
            layout.extend(fold(&rest, range.span.start..items, left));
            break;
        }
        answered_open |= *answer != Answer::Skip;
        ahead.add(range, *answer);
        let span = range.span.clone();
        match answer {
            Answer::Skip => layout.push(Part::skip(range.upper)),
            Answer::Defer => layout.push(Part::fingerprint(range.upper, span)),
            Answer::Name => layout.push(Part::ids(range.upper, span)),
            Answer::Split(buckets) => {
                let stable = limits.splits_are_stable();
                let parts = plain::split_or_name(set, range.upper, span.clone(), *buckets, stable)?;
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
pub(super) enum Answer {
    Skip,
    /// Own fingerprint over the same range: settled but for items whose push was put off, or left for the initiator
    /// to name, whose list alone may settle it.
    Defer,
    Name,
    Split(usize),
}

fn answer(range: &Judged, cutoff: Option<&Cutoff>, role: Role, piece: usize) -> Answer {
    let items = range.span.len();
    if range.settled {
        let omitted = cutoff.is_some_and(|cutoff| cutoff.omits(range.greatest_lacked.as_ref()));
        return if omitted { Answer::Defer } else { Answer::Skip };
    }
    if role == Role::Responder && !range.named && items > SMALL_LIST && items <= piece {
        return Answer::Defer;
    }
    if items <= piece.max(IDLIST_LIMIT)
        && (role == Role::Initiator || range.named || items <= SMALL_LIST)
    {
        return Answer::Name;
    }
    Answer::Split(items.div_ceil(piece).clamp(2, SPLIT_FACTOR))
}

fn cost(range: &Judged, answer: Answer) -> Cost {
    let span = range.span.clone();
    match answer {
        Answer::Skip => Cost::of(&Part::skip(range.upper)),
        Answer::Defer => Cost::of(&Part::fingerprint(range.upper, span)),
        Answer::Name => Cost::of(&Part::ids(range.upper, span)),
        Answer::Split(buckets) => {
            let one = Cost::of(&Part::fingerprint(range.upper, span));
            Cost {
                ranges: buckets,
                open: buckets,
                bytes: buckets * one.bytes,
            }
        }
    }
}

/// A guess of how many differences there are per item, from how many of the narrow ranges differ. A guess steers how
/// fast an exchange goes, never where it ends.
fn density(judged: &[Judged], piece: usize) -> f64 {
    let of_width = |most: usize| {
        let compared = judged
            .iter()
            .filter(|range| !range.skipped && range.span.len() <= most);
        compared.fold((0, 0, 0), |(count, differing, items), range| {
            (
                count + 1,
                differing + usize::from(!range.settled),
                items + range.span.len(),
            )
        })
    };
    let narrow = of_width(SPLIT_FACTOR * piece);
    let (count, differing, items) = if narrow.0 >= NARROW_ENOUGH {
        narrow
    } else {
        of_width(usize::MAX)
    };
    let odds = as_float(differing) / as_float(count - differing + 1);
    odds.min(DIFFERENCES_PER_RANGE_MAX) * as_float(count) / as_float(items.max(1))
}

/// Items to leave in a range: few where few would differ, as naming is then the dearer part, and twice as many where
/// nearly all would.
fn piece(density: f64, piece: usize) -> usize {
    match density * as_float(piece) {
        expected if expected > DENSE_PIECE => 2 * piece,
        expected if expected < SPARSE_PIECE => piece.min(SMALL_LIST),
        _ => piece,
    }
}

/// What the other side will need to answer what was laid out so far: beyond a message's worth, splitting further
/// ranges is work and bytes for nothing.
struct Ahead {
    density: f64,
    piece: f64,
    ranges: f64,
    enough: f64,
}

impl Ahead {
    fn new(density: f64, whole: Cost, piece: usize) -> Self {
        Self {
            density,
            piece: as_float(piece),
            ranges: 0.0,
            enough: AHEAD_MESSAGES * as_float(whole.ranges.min(whole.open)),
        }
    }

    fn full(&self) -> bool {
        self.ranges >= self.enough
    }

    fn add(&mut self, range: &Judged, answer: Answer) {
        if let Answer::Split(buckets) = answer {
            let buckets = as_float(buckets);
            let width = as_float(range.span.len()) / buckets;
            let expected = self.density * width;
            let differs = expected / (1.0 + expected);
            let split = (width / self.piece).clamp(1.0, as_float(SPLIT_FACTOR));
            self.ranges += buckets * differs * split;
        }
    }
}

fn as_float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
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

/// Folds what is left into ranges that widen with their distance from here: fine where the next message will go on,
/// coarse where it will not come to. Ranges that are wide already stay as they are.
fn fold(rest: &[(&Judged, &Answer)], span: Range<usize>, room: Cost) -> Vec<Part> {
    let mut steps = FOLD_STEPS;
    while steps > 0 {
        let layout = fold_in_steps(rest, span.start, steps);
        if layout.cost.within(room) {
            return layout.parts;
        }
        steps /= 2;
    }
    alloc::vec![Part::fingerprint(TOP, span)]
}

fn fold_in_steps(rest: &[(&Judged, &Answer)], start: usize, steps: usize) -> Layout {
    let mut layout = Layout::default();
    let mut group: Option<Group> = None;
    for (range, answer) in rest {
        let this = Group {
            upper: range.upper,
            span: range.span.clone(),
            open: **answer != Answer::Skip,
        };
        group = Some(match group.take() {
            Some(before) if before.joins(&this, (before.span.start - start) / steps) => Group {
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
    /// Whether two neighbours become one range where ranges should have `width` items.
    fn joins(&self, next: &Self, width: usize) -> bool {
        let both_skipped = !self.open && !next.open;
        both_skipped || (self.span.len() < width && next.span.len() < width)
    }

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
            ranges: limits.ranges(),
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

    fn less(self, other: Self) -> Self {
        Self {
            ranges: self.ranges.saturating_sub(other.ranges),
            open: self.open.saturating_sub(other.open),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn within(self, limit: Self) -> bool {
        self.ranges <= limit.ranges && self.open <= limit.open && self.bytes <= limit.bytes
    }
}
