//! The pairs of sets to reconcile.

use std::collections::BTreeSet;

use overlane_recon::{Id, Item};

/// One exchange to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) items: u64,
    pub(crate) differences: u64,
    pub(crate) shape: Shape,
    pub(crate) message_bytes: u64,
    pub(crate) seed: u64,
}

/// Where the differences lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shape {
    /// The client lacks items at random places.
    Random,
    /// The client lacks the last items.
    Tail,
    /// Each side lacks half of the differences, at random places.
    Symmetric,
}

impl Shape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Tail => "tail",
            Self::Symmetric => "symmetric",
        }
    }
}

/// The items of the two sides, made as they are asked for: neither contender is measured beside a copy of its input.
pub(crate) struct Pair {
    case: Case,
    client_lacks: BTreeSet<u64>,
    relay_lacks: BTreeSet<u64>,
}

impl Pair {
    pub(crate) fn of(case: &Case) -> Self {
        let (client_lacks, relay_lacks) = lacking(case);
        Self {
            case: *case,
            client_lacks,
            relay_lacks,
        }
    }

    /// The client's items, in order.
    pub(crate) fn client(&self) -> impl Iterator<Item = Item> {
        self.without(&self.client_lacks)
    }

    /// The relay's items, in order.
    pub(crate) fn relay(&self) -> impl Iterator<Item = Item> {
        self.without(&self.relay_lacks)
    }

    fn without(&self, lacks: &BTreeSet<u64>) -> impl Iterator<Item = Item> {
        let seqs = (1..=self.case.items).filter(|seq| !lacks.contains(seq));
        seqs.map(|seq| item(self.case.seed, seq))
    }
}

fn lacking(case: &Case) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let differences = case.differences.min(case.items / 2);
    if case.shape == Shape::Tail {
        let first = case.items - differences + 1;
        return ((first..=case.items).collect(), BTreeSet::new());
    }
    let mut chosen = BTreeSet::new();
    let mut in_turn = (BTreeSet::new(), BTreeSet::new());
    let mut draw = 0_u64;
    while (chosen.len() as u64) < differences {
        let seq = 1 + place(case.seed, draw) % case.items;
        draw += 1;
        if !chosen.insert(seq) {
            continue;
        }
        if case.shape == Shape::Symmetric && chosen.len() % 2 == 0 {
            in_turn.1.insert(seq);
        } else {
            in_turn.0.insert(seq);
        }
    }
    in_turn
}

fn item(seed: u64, seq: u64) -> Item {
    Item {
        seq,
        id: Id(digest("recon-bench id", seed, seq)),
    }
}

fn place(seed: u64, draw: u64) -> u64 {
    let digest = digest("recon-bench place", seed, draw);
    u64::from_be_bytes(*digest.first_chunk().unwrap_or(&[0; 8]))
}

fn digest(label: &str, seed: u64, number: u64) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(label.as_bytes());
    hasher.update(&seed.to_be_bytes());
    hasher.update(&number.to_be_bytes());
    *hasher.finalize().as_bytes()
}
