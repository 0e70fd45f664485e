//! What the tests of this crate share.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each test uses its part"
)]
#![allow(clippy::unwrap_used, reason = "a failing helper fails the test")]

pub mod progress;

use overlane_recon::pair::{Event, Relay, Side, reconcile};
use overlane_recon::{Id, Item, ItemSet, Limits, Patience, Report};

pub fn hashed_id(seq: u64) -> Id {
    let mut preimage = b"recon vector id".to_vec();
    preimage.extend(seq.to_be_bytes());
    Id(*blake3::hash(&preimage).as_bytes())
}

pub fn item(seq: u64) -> Item {
    let id = hashed_id(seq);
    Item { seq, id }
}

/// What an exchange was like.
#[derive(Debug, Default)]
pub struct Seen {
    pub client: Vec<Vec<u8>>,
    pub relay: Vec<Vec<u8>>,
    pub pushed: Vec<Item>,
    pub sent: Vec<Item>,
    pub redundant: usize,
    pub largest: usize,
}

pub fn run(client: &mut ItemSet, relay: &mut Relay, limits: Limits) -> (Report, Seen) {
    run_between(client, relay, limits, limits)
}

pub fn run_between(
    client: &mut ItemSet,
    relay: &mut Relay,
    limits: Limits,
    relay_limits: Limits,
) -> (Report, Seen) {
    let mut seen = Seen::default();
    let patience = Patience::default();
    let report = reconcile(
        client,
        relay,
        limits,
        relay_limits,
        patience,
        &mut |event| match event {
            Event::Said(Side::Client, payload) => seen.client.push(payload.to_vec()),
            Event::Said(_, payload) => seen.relay.push(payload.to_vec()),
            Event::Pushed(item) => seen.pushed.push(item),
            Event::Sent(item) => seen.sent.push(item),
            Event::Turn(_) => {}
        },
    )
    .unwrap();
    seen.largest = seen
        .client
        .iter()
        .chain(&seen.relay)
        .map(Vec::len)
        .max()
        .unwrap_or(0);
    (report, seen)
}

/// A small generator, so that a case is its seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// `count` distinct numbers in `1..=top`.
    pub fn distinct(&mut self, count: usize, top: u64) -> std::collections::BTreeSet<u64> {
        let mut chosen = std::collections::BTreeSet::new();
        while chosen.len() < count {
            chosen.insert(1 + self.below(top));
        }
        chosen
    }
}
