//! What one live reference costs in memory, by an allocator that counts.
//!
//! `cargo run --release -p overlane-benches --bin refs-memory`
//!
//! A node exports objects, and another imports them: each has a c-list entry, found by either of
//! its two names, and what is known of the object itself. Then the same with every second one
//! dropped, in an order drawn from a seed, which leaves the tables with gaps. What is counted is
//! all that the allocator gets back when the tables go.

use std::collections::VecDeque;

use allocation_counter::measure;
use anyhow::Context as _;
use clap::Parser;
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{Answer, Event, LinkId, Local, LocalObject, Step, Tables};
use overlane_relay::refs::wire::{Body, Epoch};

const LINK: LinkId = LinkId(1);

/// Everything happens at one moment, and by this one every acknowledgement is due.
const LATE_MS: u64 = 1_000;

/// Measures the memory of references.
#[derive(Debug, Parser)]
struct Args {
    /// How many references are alive.
    #[arg(long, default_value_t = 100_000)]
    entries: u32,
    /// What the order of the drops is drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

struct Side {
    tables: Tables,
    door: LocalObject,
}

struct Pair {
    owner: Side,
    importer: Side,
}

impl Side {
    fn new(limits: Limits) -> anyhow::Result<Self> {
        let mut tables = Tables::new(limits);
        let own = tables.export();
        let door = tables.open_link(LINK, Epoch(1), limits, own, 0)?;
        Ok(Self { tables, door })
    }

    /// What the allocator gets back when the tables go: all that they held.
    fn into_bytes(self) -> i64 {
        let tables = self.tables;
        -measure(|| drop(tables)).bytes_current
    }
}

impl Pair {
    fn new(entries: u32) -> anyhow::Result<Self> {
        let limits = Limits {
            exports: entries.saturating_add(1),
            imports: entries.saturating_add(1),
            promises: entries,
            introductions_per_s: u32::MAX,
            frames_per_s: u32::MAX,
            ..Limits::default()
        };
        Ok(Self {
            owner: Side::new(limits)?,
            importer: Side::new(limits)?,
        })
    }

    /// Frames go both ways until there are none, in their order, then what is due is said. The
    /// references that the importer was handed are returned.
    fn settle(&mut self, by_owner: bool, step: Step) -> Vec<Local> {
        let mut held = Vec::new();
        let mut steps = VecDeque::from([(by_owner, step)]);
        let mut due_is_said = false;
        loop {
            let Some((by_owner, step)) = steps.pop_front() else {
                if due_is_said {
                    return held;
                }
                due_is_said = true;
                steps.push_back((true, self.owner.tables.handle_timeout(LATE_MS)));
                steps.push_back((false, self.importer.tables.handle_timeout(LATE_MS)));
                continue;
            };
            for event in &step.events {
                if let Event::Deliver { body, .. } = event {
                    held.extend(body.refs().copied());
                }
            }
            let to = match by_owner {
                true => &mut self.importer,
                false => &mut self.owner,
            };
            for transmit in &step.transmits {
                let came = to.tables.handle_frame(LINK, &transmit.bytes, 0);
                steps.push_back((!by_owner, came));
            }
        }
    }
}

/// References that are alive, of these so many in the order in which they were made, or every second
/// one dropped.
fn alive(entries: u32, drops: Option<u64>) -> anyhow::Result<(Pair, u32)> {
    let mut pair = Pair::new(entries)?;
    let mut held = Vec::new();
    for _ in 0..entries {
        let door = pair.owner.door.into();
        let tables = &mut pair.owner.tables;
        let object = Local::Object(tables.export());
        let (_, step) = tables.send(door, Body::of([object]), Answer::Unwanted, 0)?;
        // Kept alive by the other side alone.
        tables.release(object, 0)?;
        held.extend(pair.settle(true, step));
    }
    anyhow::ensure!(held.len() == entries as usize, "{} arrived", held.len());
    let Some(mut chance) = drops else {
        return Ok((pair, entries));
    };
    while held.len() > entries as usize / 2 {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = usize::try_from(chance >> 33)? % held.len();
        let local = held.swap_remove(at);
        let step = pair.importer.tables.release(local, 0)?;
        pair.settle(false, step);
    }
    Ok((pair, u32::try_from(held.len())?))
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let (pair, left) = alive(args.entries, None)?;
    report("one after another", pair, left)?;
    let (pair, left) = alive(args.entries, Some(args.seed))?;
    report("every second one dropped", pair, left)
}

fn report(what: &str, pair: Pair, entries: u32) -> anyhow::Result<()> {
    for (side, name) in [(&pair.owner, "owner"), (&pair.importer, "importer")] {
        let view = side.tables.link(LINK).context("the link has an epoch")?;
        println!("{what}, {name}: {view:?}");
    }
    let each = |side: Side| side.into_bytes() as f64 / f64::from(entries.max(1));
    println!(
        "{what}: {entries} alive, {:.1} bytes each at the owner, {:.1} at the importer",
        each(pair.owner),
        each(pair.importer),
    );
    Ok(())
}
