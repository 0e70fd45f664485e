//! The models that are walked, and the broken rules that one of them must notice.

use super::explore::{Found, explore};
use super::hostile::Hostile;
use super::objects::Objects;
use super::promises::{Become, Promises};
use overlane_relay::refs::Limits;
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

fn objects(name: &'static str, budgets: &[u8], faults: u8, acks: bool, limits: Limits) -> Case {
    let budgets = budgets.to_vec();
    Case {
        name,
        run: Box::new(move |broken, bound| {
            let model = Objects {
                budgets: budgets.clone(),
                faults,
                acks,
                limits,
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
        limits: Limits::default(),
        outcomes: outcomes.to_vec(),
        passes: false,
        mentions: false,
        drops: false,
        broken: Vec::new(),
    }
}

const OBJECTS: &str = "objects";
const OBJECT_FAULTS: &str = "objects, faults";
const COME_BACK: &str = "promises that come back";
const OUTCOMES: &str = "promises and what they become";
const DROPPED: &str = "promises that are dropped";
const PASSED_ON: &str = "promises that are passed on";
const THREE_NODES: &str = "promises, three nodes";
const FAULTS: &str = "promises, faults";

/// Limits that a few messages reach: the application is refused, and what is due waits. Nobody may
/// take an honest peer for one that is not.
const TIGHT: Limits = Limits {
    exports: 2,
    imports: 2,
    promises: 1,
    unacked_frames: 1,
    queued_messages: 1,
    introductions_per_s: u32::MAX,
    frames_per_s: u32::MAX,
    soft_violations: 0,
    ack_delay_ms: 50,
    probe_ms: 5_000,
    ack_deadline_ms: 60_000,
    explicit_seq: true,
};

/// The models of honest nodes.
pub fn honest(size: Size) -> Vec<Case> {
    let Size { owner, other } = size;
    let (less, fewer) = (
        owner.saturating_sub(1).max(1),
        other.saturating_sub(1).max(1),
    );
    let roomy = Limits::default();
    vec![
        objects(OBJECTS, &[owner, other], 0, false, roomy),
        objects(
            "objects, acknowledged alone",
            &[less, fewer],
            0,
            true,
            roomy,
        ),
        objects("objects, three nodes", &[less, 1, fewer], 0, false, roomy),
        objects(OBJECT_FAULTS, &[less, fewer], 2, true, roomy),
        promises(COME_BACK, plain(&[other, owner], &[Become::Door(0)])),
        promises(
            OUTCOMES,
            Promises {
                mentions: true,
                ..plain(&[fewer, less], &[Become::Data, Become::Own, Become::Itself])
            },
        ),
        promises(
            DROPPED,
            Promises {
                drops: true,
                mentions: true,
                ..plain(&[fewer, less], &[Become::Data, Become::Door(0)])
            },
        ),
        promises(
            PASSED_ON,
            Promises {
                passes: true,
                drops: true,
                ..plain(&[fewer, less], &[Become::Door(0), Become::Door(1)])
            },
        ),
        promises(
            THREE_NODES,
            plain(&[other, 1, less], &[Become::Door(1), Become::Own]),
        ),
        promises(
            FAULTS,
            Promises {
                faults: 2,
                acks: true,
                ..plain(&[fewer, less], &[Become::Door(0)])
            },
        ),
        objects("objects, tight limits", &[owner, fewer], 0, true, TIGHT),
        promises(
            "promises, tight limits",
            Promises {
                drops: true,
                mentions: true,
                acks: true,
                limits: TIGHT,
                ..plain(&[fewer, less], &[Become::Data, Become::Door(0)])
            },
        ),
    ]
}

/// A peer that sends anything.
pub fn hostile(depth: u8, bound: usize) -> Found {
    explore(&Hostile::new(depth), bound)
}

/// A rule that is broken, and the model that must notice.
pub struct Broken {
    pub name: &'static str,
    pub mutants: &'static [Mutant],
    pub noticed_by: &'static str,
}

impl Broken {
    /// Walks the model at growing sizes until it notices.
    pub fn look(&self, bound: usize) -> Option<(String, Vec<String>)> {
        let sizes = [(2, 2), (3, 2), (3, 3)].map(|(owner, other)| Size { owner, other });
        let cases = sizes.into_iter().flat_map(honest);
        let mut cases = cases.filter(|case| case.name == self.noticed_by);
        cases.find_map(|case| (case.run)(self.mutants, bound).broken)
    }
}

const fn broken(
    name: &'static str,
    mutants: &'static [Mutant],
    noticed_by: &'static str,
) -> Broken {
    Broken {
        name,
        mutants,
        noticed_by,
    }
}

/// The broken rules, alone and together.
pub const BROKEN: &[Broken] = &[
    broken(
        "the acknowledgement beside a DROP is stamped late",
        &[Mutant::LateStamp],
        OBJECTS,
    ),
    broken(
        "a drop must be newer than the mention",
        &[Mutant::StrictlyLater],
        OBJECTS,
    ),
    broken(
        "a repeated mention is not recorded",
        &[Mutant::NoBump],
        OBJECTS,
    ),
    broken(
        "REVOKE counts as a mention",
        &[Mutant::RevokeMentions],
        OBJECTS,
    ),
    broken(
        "REVOKE counts as a mention, without tombstones",
        &[Mutant::RevokeMentions, Mutant::NoTombstones],
        OBJECTS,
    ),
    broken("no tombstones", &[Mutant::NoTombstones], OBJECTS),
    broken(
        "an acknowledged soft REVOKE removes the name",
        &[Mutant::SoftDeletes],
        OBJECTS,
    ),
    broken(
        "a hard REVOKE removes the name at once",
        &[Mutant::HardForgets],
        OBJECTS,
    ),
    broken("ids are used again", &[Mutant::ReuseIds], OBJECTS),
    broken(
        "a REVOKE that crosses a DROP is forgotten (the seed as written)",
        &[Mutant::TombstoneForgets],
        OBJECTS,
    ),
    broken(
        "a revoked object is introduced silently",
        &[Mutant::SilentIntroduction],
        OBJECTS,
    ),
    broken(
        "no hold after a resolution that points back",
        &[Mutant::NoHold],
        COME_BACK,
    ),
    broken(
        "acknowledged on receipt",
        &[Mutant::AckOnReceipt],
        COME_BACK,
    ),
    broken(
        "a promise is retired without waiting",
        &[Mutant::RetireAtOnce],
        COME_BACK,
    ),
    broken(
        "an acknowledgement is believed across a gap",
        &[Mutant::AckAcrossGap],
        FAULTS,
    ),
    broken(
        "a repeated mention of a promise is not recorded",
        &[Mutant::NoPromiseBump],
        DROPPED,
    ),
    broken(
        "a promise is dropped with messages under way",
        &[Mutant::DropInFlight],
        PASSED_ON,
    ),
    broken(
        "others are told during a hold",
        &[Mutant::ToldEarly],
        THREE_NODES,
    ),
    broken("no mark pass", &[Mutant::NoMarkPass], OUTCOMES),
    broken(
        "a duplicate is counted again",
        &[Mutant::DuplicatesCount],
        OBJECT_FAULTS,
    ),
];
