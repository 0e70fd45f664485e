//! The models that are walked, and the broken rules that one of them must notice.

use super::explore::{Found, explore};
use super::hostile::Hostile;
use super::objects::Objects;
use super::promises::{Become, Promises};
use overlane_relay::refs::table::Mutant;

/// How many actions each side has: the owner or decider, and the other.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub owner: u8,
    pub other: u8,
}

/// Walks a model with these rules broken, as far as so many states.
type Run = Box<dyn Fn(&[Mutant], usize) -> Found>;

/// One model by its name.
pub struct Case {
    pub name: &'static str,
    pub run: Run,
}

fn objects(name: &'static str, budgets: &[u8], faults: u8, acks: bool) -> Case {
    let budgets = budgets.to_vec();
    Case {
        name,
        run: Box::new(move |broken, bound| {
            let model = Objects {
                budgets: budgets.clone(),
                faults,
                acks,
                broken: broken.to_vec(),
            };
            explore(&model, bound)
        }),
    }
}

fn promises(name: &'static str, shape: Promises) -> Case {
    Case {
        name,
        run: Box::new(move |broken, bound| {
            let model = Promises {
                budgets: shape.budgets.clone(),
                outcomes: shape.outcomes.clone(),
                broken: broken.to_vec(),
                ..shape
            };
            explore(&model, bound)
        }),
    }
}

fn plain(budgets: &[u8], outcomes: &[Become]) -> Promises {
    Promises {
        budgets: budgets.to_vec(),
        faults: 0,
        acks: false,
        outcomes: outcomes.to_vec(),
        passes: false,
        mentions: false,
        drops: false,
        broken: Vec::new(),
    }
}

/// The models of honest nodes.
pub fn honest(size: Size) -> Vec<Case> {
    let Size { owner, other } = size;
    let (less, fewer) = (
        owner.saturating_sub(1).max(1),
        other.saturating_sub(1).max(1),
    );
    vec![
        objects("objects", &[owner, other], 0, false),
        objects("objects, acknowledged alone", &[less, fewer], 0, true),
        objects("objects, three nodes", &[less, 1, fewer], 0, false),
        objects("objects, faults", &[less, fewer], 2, true),
        promises(
            "promises that come back",
            plain(&[other, owner], &[Become::Door(0)]),
        ),
        promises(
            "promises and what they become",
            Promises {
                mentions: true,
                ..plain(&[fewer, less], &[Become::Data, Become::Own, Become::Itself])
            },
        ),
        promises(
            "promises that are dropped",
            Promises {
                drops: true,
                mentions: true,
                ..plain(&[fewer, less], &[Become::Data, Become::Door(0)])
            },
        ),
        promises(
            "promises that are passed on",
            Promises {
                passes: true,
                drops: true,
                ..plain(&[fewer, less], &[Become::Door(0), Become::Door(1)])
            },
        ),
        promises(
            "promises, three nodes",
            plain(&[fewer, 1, less], &[Become::Door(1), Become::Own]),
        ),
        promises(
            "promises, faults",
            Promises {
                faults: 2,
                acks: true,
                ..plain(&[fewer, less], &[Become::Door(0)])
            },
        ),
    ]
}

/// A peer that sends anything.
pub fn hostile(depth: u8, bound: usize) -> Found {
    explore(&Hostile::new(depth), bound)
}

/// The broken rules, alone and together.
pub const MUTANTS: &[(&str, &[Mutant])] = &[
    (
        "the acknowledgement beside a DROP is stamped late",
        &[Mutant::LateStamp],
    ),
    (
        "a drop must be newer than the mention",
        &[Mutant::StrictlyLater],
    ),
    ("a repeated mention is not recorded", &[Mutant::NoBump]),
    ("REVOKE counts as a mention", &[Mutant::RevokeMentions]),
    (
        "REVOKE counts as a mention, without tombstones",
        &[Mutant::RevokeMentions, Mutant::NoTombstones],
    ),
    ("no tombstones", &[Mutant::NoTombstones]),
    (
        "an acknowledged soft REVOKE removes the name",
        &[Mutant::SoftDeletes],
    ),
    (
        "a hard REVOKE removes the name at once",
        &[Mutant::HardForgets],
    ),
    ("ids are used again", &[Mutant::ReuseIds]),
    (
        "a REVOKE that crosses a DROP is forgotten (the seed as written)",
        &[Mutant::TombstoneForgets],
    ),
    (
        "a revoked object is introduced silently",
        &[Mutant::SilentIntroduction],
    ),
    (
        "no hold after a resolution that points back",
        &[Mutant::NoHold],
    ),
    ("acknowledged on receipt", &[Mutant::AckOnReceipt]),
    (
        "a promise is retired without waiting",
        &[Mutant::RetireAtOnce],
    ),
    (
        "an acknowledgement is believed across a gap",
        &[Mutant::AckAcrossGap],
    ),
    (
        "a repeated mention of a promise is not recorded",
        &[Mutant::NoPromiseBump],
    ),
    (
        "a promise is dropped with messages under way",
        &[Mutant::DropInFlight],
    ),
    ("others are told during a hold", &[Mutant::ToldEarly]),
    ("no mark pass", &[Mutant::NoMarkPass]),
    ("a duplicate is counted again", &[Mutant::DuplicatesCount]),
];
