//! What an exchange will take, before it is opened.
//!
//! The guess follows the tree of ranges level by level, as the plain and the planned answers make it: how many ranges
//! differ at each, what naming the last ones takes, and how many messages of the caller's limit that fills.

use crate::bounds::{IDLIST_LIMIT, RANGES_MAX, SPLIT_FACTOR};
use crate::limits::Limits;

/// Where differences are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Differences {
    /// Anywhere, this many.
    Spread(u64),
    /// In one run this side lacks, most often the end after time apart: found as one place, and pushed unnamed.
    Run(u64),
}

/// A prediction of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Rounds, each a message and its answer.
    pub rounds: u32,
    /// Payload bytes, both directions, envelopes not counted.
    pub bytes: u64,
    /// Whether answers are expected to need the planner, being too large or of too many ranges.
    pub planned: bool,
}

/// Bytes of a fingerprint range with a middling bound, and of the skip that most often follows it.
const FINGERPRINT_BYTES: f64 = 41.0;
const SKIP_BYTES: f64 = 8.0;
const ID_BYTES: f64 = 34.0;

/// Share of a planned message's ranges that is news; the rest keeps the place of what comes later.
const PLANNED_FILL: f64 = 0.8;

/// Messages before the first full one and after the last.
const RAMP_MESSAGES: f64 = 7.0;

/// Predicts an exchange over a set of `items` against a peer's that differs from it as given.
#[must_use]
pub fn plan(items: u64, differences: Differences, limits: &Limits) -> Plan {
    let places = as_float(match differences {
        Differences::Spread(count) => count,
        Differences::Run(count) => count.min(1),
    });
    let piece = as_float(limits.planned_piece() as u64);
    let mut tree = Tree::descend(as_float(items), places, as_float(IDLIST_LIMIT as u64));
    let message = as_float(limits.bytes() as u64);
    let ranges = as_float(limits.open().min(RANGES_MAX) as u64);
    let planned = tree.most_ranges > ranges || tree.most_bytes > message;
    let mut messages = tree.levels + 2.0;
    if planned {
        tree = Tree::descend(as_float(items), places, piece);
        let filled = (tree.ranges / ranges).max(tree.bytes / message) / PLANNED_FILL;
        messages = messages.max(filled + RAMP_MESSAGES);
    }
    Plan {
        rounds: as_count((messages / 2.0).max(1.0))
            .try_into()
            .unwrap_or(u32::MAX),
        bytes: as_count(tree.bytes),
        planned,
    }
}

/// Sums over the levels of a descent.
struct Tree {
    levels: f64,
    ranges: f64,
    bytes: f64,
    most_ranges: f64,
    most_bytes: f64,
}

impl Tree {
    /// Splits eightfold from everything down to ranges of `named` items, which are named by both sides.
    fn descend(items: f64, places: f64, named: f64) -> Self {
        let split = as_float(SPLIT_FACTOR as u64);
        let mut tree = Self {
            levels: 0.0,
            ranges: 0.0,
            bytes: 30.0,
            most_ranges: 0.0,
            most_bytes: 0.0,
        };
        let (mut count, mut differing) = (1.0_f64, 1.0_f64);
        let mut width = items;
        while width > named {
            let made = differing * split.min((width / named).max(2.0));
            count *= split;
            width = items / count;
            tree.level(made, made * FINGERPRINT_BYTES + differing * SKIP_BYTES);
            differing = touched(made, count, places);
            if places == 0.0 {
                return tree;
            }
        }
        tree.level(
            2.0 * differing,
            2.0 * differing * (SKIP_BYTES + width * ID_BYTES),
        );
        tree
    }

    fn level(&mut self, ranges: f64, bytes: f64) {
        self.levels += 1.0;
        self.ranges += ranges;
        self.bytes += bytes;
        self.most_ranges = self.most_ranges.max(ranges);
        self.most_bytes = self.most_bytes.max(bytes);
    }
}

/// Of `made` ranges among `count` of one width, how many hold one of `places` differences at least.
fn touched(made: f64, count: f64, places: f64) -> f64 {
    let x = places / count;
    // 1 - e^-x, well enough for a guess.
    let differs = if x < 4.0 {
        x / (1.0 + x / 2.0 + x * x / 12.0)
    } else {
        1.0
    };
    made.min(count * differs.min(1.0))
}

fn as_float(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a guess, never negative; a cast from float saturates"
)]
fn as_count(value: f64) -> u64 {
    value as u64 + 1
}
