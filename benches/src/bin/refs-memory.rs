//! What one live reference costs in memory, by an allocator that counts.
//!
//! `cargo run --release -p overlane-benches --bin refs-memory`
//!
//! A node exports objects, and another imports them: each has a c-list entry, found by either of
//! its two names, and what is known of the object itself. Then every second one is dropped, in an
//! order drawn from a seed, which leaves the tables with gaps. Last, as many promises wait for
//! their answers. The bound is 200 bytes an entry.

use allocation_counter::measure;
use clap::Parser;
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{Answer, Event, LinkId, Local, LocalObject, Step, Tables};
use overlane_relay::refs::wire::{Body, Epoch};

const LINK: LinkId = LinkId(1);

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
    /// What this side's tables hold of the allocator.
    bytes: i64,
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
        Ok(Self {
            tables,
            door,
            bytes: 0,
        })
    }

    /// Runs a change and counts what it keeps.
    fn change<T>(&mut self, change: impl FnOnce(&mut Tables) -> T) -> T {
        let mut value = None;
        let info = measure(|| value = Some(change(&mut self.tables)));
        self.bytes += info.bytes_current;
        match value {
            Some(value) => value,
            None => unreachable!("it was run"),
        }
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

    /// Frames go both ways until there are none, and what is due is said.
    fn settle(&mut self, step: Step, now_ms: u64) -> Vec<Local> {
        let mut held = Vec::new();
        let mut under_way: Vec<(bool, Step)> = vec![(true, step)];
        let late_ms = now_ms + 1_000;
        let due = [
            (
                true,
                self.owner.change(|tables| tables.handle_timeout(late_ms)),
            ),
            (
                false,
                self.importer
                    .change(|tables| tables.handle_timeout(late_ms)),
            ),
        ];
        under_way.extend(due);
        while let Some((by_owner, step)) = under_way.pop() {
            for event in &step.events {
                if let Event::Deliver { body, .. } = event {
                    held.extend(body.refs().copied());
                }
            }
            for transmit in step.transmits {
                let to = match by_owner {
                    true => &mut self.importer,
                    false => &mut self.owner,
                };
                let bytes = transmit.bytes;
                let came = to.change(|tables| tables.handle_frame(LINK, &bytes, now_ms));
                // What was to be sent is not the tables' any more, except what they keep of it.
                under_way.push((!by_owner, came));
            }
        }
        held
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut pair = Pair::new(args.entries)?;
    let base = (pair.owner.bytes, pair.importer.bytes);
    let mut held = Vec::new();
    for entry in 0..args.entries {
        let door = pair.owner.door.into();
        let (_, step) = pair.owner.change(|tables| {
            let object = tables.export();
            let sent = tables.send(door, Body::of([object.into()]), Answer::Unwanted, 0);
            // Kept alive by the other side alone.
            let _ = tables.release(object.into(), 0);
            sent
        })?;
        held.extend(pair.settle(step, u64::from(entry)));
    }
    report("objects, one after another", &pair, base, args.entries);

    let mut chance = args.seed;
    let mut left = held.len();
    while left > held.len() / 2 {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = usize::try_from(chance >> 33)? % left;
        left -= 1;
        held.swap(at, left);
        let Some(&local) = held.get(left) else {
            continue;
        };
        let step = pair.importer.change(|tables| tables.release(local, 0))?;
        pair.settle_importer(step);
    }
    let left = u32::try_from(left)?;
    report("objects, every second one dropped", &pair, base, left);
    Ok(())
}

impl Pair {
    /// The same for what the importer said first.
    fn settle_importer(&mut self, step: Step) {
        for transmit in step.transmits {
            let bytes = transmit.bytes;
            let came = self
                .owner
                .change(|tables| tables.handle_frame(LINK, &bytes, u64::from(u32::MAX)));
            self.settle(came, u64::from(u32::MAX));
        }
    }
}

fn report(what: &str, pair: &Pair, base: (i64, i64), entries: u32) {
    let each = |bytes: i64| bytes as f64 / f64::from(entries.max(1));
    println!(
        "{what}: {entries} alive, {:.1} bytes each at the owner, {:.1} at the importer",
        each(pair.owner.bytes - base.0),
        each(pair.importer.bytes - base.1),
    );
    let view = pair.owner.tables.link(LINK);
    if let Some(view) = view {
        println!("    {view:?}");
    }
}
