//! Criterion benches of the reference tables of `overlane-relay`: two nodes in memory, frames encoded
//! and decoded, no disk.
//!
//! `cargo bench -p overlane-benches --bench refs`

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{Answer, Event, LinkId, Local, LocalObject, Step, Tables};
use overlane_relay::refs::wire::{Body, Epoch, Outcome};

const LINK: LinkId = LinkId(1);

/// What an operation is, in the numbers below: a mention, the message that carries it, the drop, and
/// the acknowledgement of each side are counted as one each.
const OPERATIONS: u64 = 4;

struct Pair {
    owner: Tables,
    importer: Tables,
    /// The importer's door, as the owner holds it.
    door: LocalObject,
}

fn pair() -> Pair {
    let limits = Limits {
        exports: 1 << 20,
        imports: 1 << 20,
        introductions_per_s: u32::MAX,
        frames_per_s: u32::MAX,
        ..Limits::default()
    };
    let open = || {
        let mut tables = Tables::new(limits);
        let own = tables.export();
        let door = tables.open_link(LINK, Epoch(1), limits, own, 0);
        (tables, door)
    };
    let ((owner, door), (importer, _)) = (open(), open());
    let Ok(door) = door else {
        unreachable!("the link is new");
    };
    Pair {
        owner,
        importer,
        door,
    }
}

impl Pair {
    fn mention(&mut self, local: Local) -> Step {
        let sent = self
            .owner
            .send(self.door.into(), Body::of([local]), Answer::Unwanted, 0);
        match sent {
            Ok((_, step)) => step,
            Err(error) => unreachable!("{error}"),
        }
    }

    /// A reference is mentioned in a message, arrives, is let go of, and freed.
    fn live_and_die(&mut self, local: Local) {
        let step = self.mention(local);
        let arrived = self.importer.handle_frame(LINK, only_frame(&step), 0);
        let Some(held) = arrived.events.iter().find_map(handed) else {
            unreachable!("it was mentioned");
        };
        let Ok(dropped) = self.importer.release(held, 0) else {
            unreachable!("it is held");
        };
        black_box(self.owner.handle_frame(LINK, only_frame(&dropped), 0));
    }
}

fn only_frame(step: &Step) -> &Arc<[u8]> {
    match &step.transmits[..] {
        [transmit] => &transmit.bytes,
        other => unreachable!("{} frames", other.len()),
    }
}

fn handed(event: &Event) -> Option<Local> {
    match event {
        Event::Deliver { body, .. } => body.refs().next().copied(),
        _ => None,
    }
}

/// One reference after another, with as many others alive.
fn life_of_a_reference(c: &mut Criterion) {
    let mut group = c.benchmark_group("refs/mention, deliver, drop, ack");
    group.throughput(Throughput::Elements(OPERATIONS));
    for alive in [0_u32, 100, 4_000, 100_000] {
        let mut pair = pair();
        for _ in 0..alive {
            let other = pair.owner.export();
            let step = pair.mention(other.into());
            pair.importer.handle_frame(LINK, only_frame(&step), 0);
            // Quiet frames are acknowledged with the next that goes the other way.
            acknowledge(&mut pair);
        }
        let object = Local::Object(pair.owner.export());
        group.bench_function(BenchmarkId::new("alive", alive), |b| {
            b.iter(|| pair.live_and_die(object));
        });
    }
    group.finish();
}

/// The importer mentions nothing, and acknowledges.
fn acknowledge(pair: &mut Pair) {
    let object = Local::Object(pair.owner.export());
    pair.live_and_die(object);
}

/// A question, its answer, and the end of the promise on both sides.
fn question_and_answer(c: &mut Criterion) {
    let mut group = c.benchmark_group("refs/question and answer");
    group.throughput(Throughput::Elements(1));
    let mut pair = pair();
    group.bench_function("one at a time", |b| {
        b.iter(|| {
            let sent = pair
                .owner
                .send(pair.door.into(), Body::data(b"?"), Answer::New, 0);
            let Ok((Some(answer), step)) = sent else {
                unreachable!("the window is open");
            };
            let asked = pair.importer.handle_frame(LINK, only_frame(&step), 0);
            let result = asked.events.iter().find_map(|event| match event {
                Event::Deliver { result, .. } => *result,
                _ => None,
            });
            let resolved = result.map(|result| {
                let outcome = Outcome::Data(Body::data(b"!"));
                pair.importer.resolve(result, outcome, 0)
            });
            let Some(Ok(resolved)) = resolved else {
                unreachable!("it was asked");
            };
            pair.owner.handle_frame(LINK, only_frame(&resolved), 0);
            black_box(pair.owner.release(answer.into(), 0)).ok();
        });
    });
    group.finish();
}

criterion_group!(benches, life_of_a_reference, question_and_answer);
criterion_main!(benches);
