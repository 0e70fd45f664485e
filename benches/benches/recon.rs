//! Criterion benches of `overlane-recon`: what one operation costs. `recon-bench` measures whole exchanges.
//!
//! `cargo bench -p overlane-benches --bench recon`; with `-- --quick` a first look in seconds once it is built.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use overlane_recon::{Id, Item, ItemSet, Limits, Message, Storage, initiate, respond};

const LARGE: u64 = 1_000_000;

const WARM_UP: Duration = Duration::from_millis(300);
const MEASUREMENT: Duration = Duration::from_secs(1);

fn item(seq: u64) -> Item {
    let id = Id(*blake3::hash(&seq.to_be_bytes()).as_bytes());
    Item { seq, id }
}

fn set(items: u64) -> ItemSet {
    (1..=items).map(item).collect()
}

fn fingerprint(set: &mut ItemSet, range: std::ops::Range<usize>) -> [u8; 32] {
    match set.fingerprint(range) {
        Ok(fingerprint) => fingerprint.0,
        Err(never) => match never {},
    }
}

/// Ranges hashed for the first time, beside a bare BLAKE3 pass over as many bytes. A range of another start is another
/// range, so each turn moves on by an item, and forgets what was kept when it has come to the end.
fn first_pass(c: &mut Criterion) {
    let mut group = c.benchmark_group("recon/fingerprint");
    let fresh = set(200_000);
    for items in [16_usize, 1_000, 100_000] {
        group.throughput(Throughput::Bytes(40 * items as u64));
        group.bench_with_input(BenchmarkId::new("ours", items), &items, |b, &items| {
            let mut held = fresh.clone();
            let mut start = 0;
            b.iter(|| {
                if start + items > held.len() {
                    held = fresh.clone();
                    start = 0;
                }
                start += 1;
                fingerprint(&mut held, start - 1..start - 1 + items)
            });
        });
        let bytes = vec![7_u8; 39 + 40 * items];
        group.bench_with_input(BenchmarkId::new("blake3", items), &bytes, |b, bytes| {
            b.iter(|| blake3::hash(black_box(bytes)));
        });
    }
    group.finish();
}

/// What a set that was asked before answers from what it kept, and what a change costs. One set serves all.
fn kept_and_changed(c: &mut Criterion) {
    let mut group = c.benchmark_group("recon/set");
    let mut all: ItemSet = (1..=LARGE).map(|seq| item(2 * seq)).collect();
    let whole = all.len();
    fingerprint(&mut all, 0..whole);
    group.bench_function("repeated range, 1M", |b| {
        b.iter(|| fingerprint(&mut all, 0..whole));
    });
    let mut seq = 2 * LARGE;
    group.bench_function("growing tail, 1M", |b| {
        b.iter(|| {
            seq += 1;
            let grown = all.insert(item(seq));
            let len = all.len();
            black_box((grown, fingerprint(&mut all, 0..len)))
        });
    });
    let mut seq = LARGE + 1;
    group.bench_function("insert in the middle of 1M", |b| {
        b.iter(|| {
            seq += 2;
            black_box(all.insert(item(seq))).is_ok()
        });
    });
    drop(all);
    let items: Vec<Item> = (1..=10_000).map(item).collect();
    group.bench_function("append 10,000", |b| {
        b.iter(|| items.iter().copied().collect::<ItemSet>().len());
    });
    group.finish();
}

fn messages(c: &mut Criterion) {
    let mut group = c.benchmark_group("recon/message");
    let limits = Limits::default();
    let mut all = set(100_000);
    let mut behind: ItemSet = (1..=100_000)
        .filter(|seq| seq % 1_000 != 0)
        .map(item)
        .collect();
    let Ok(opening) = initiate(&mut behind, &limits);
    group.bench_function("respond again, 100k and 100 holes", |b| {
        b.iter(|| {
            respond(&mut all, black_box(&opening), &limits).map(|response| response.reply.len())
        });
    });
    let reply = respond(&mut all, &opening, &limits)
        .map(|response| response.reply)
        .unwrap_or_default();
    group.throughput(Throughput::Bytes(reply.len() as u64));
    group.bench_function("decode 64 fingerprints", |b| {
        b.iter(|| Message::decode(black_box(&reply)).map(|message| message.ranges().len()));
    });
    group.finish();
}

criterion_group! {
    name = recon;
    config = Criterion::default().sample_size(10).warm_up_time(WARM_UP).measurement_time(MEASUREMENT).without_plots();
    targets = first_pass, kept_and_changed, messages
}
criterion_main!(recon);
