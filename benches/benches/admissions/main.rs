//! Criterion benches of admission: what each step costs, and how many a node makes durable.
//!
//! `cargo bench -p overlane-benches --bench admissions`
//!
//! Throughput is in admissions (elements) a second. Every row over a table runs on 16,384 receiver
//! streams, visited in turn: few streams would share records within a batch and flatter any store.
//! Stores live under the target folder, or in `OVERLANE_BENCH_DIR`; a RAM disk measures nothing.

#![allow(
    clippy::panic,
    reason = "a bench that cannot set up has nothing to measure"
)]

mod support;
mod whole;

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use overlane_core::TransactionDigest;
use overlane_core::replay::Window;
use overlane_core::store::Effect;
use overlane_core::transaction::Payload;
use overlane_storage_native::StoreKind;
use support::{Admissions, Scratch, full_scan, known, name, payload, verify_context};
use whole::{Workers, Writer};

fn observe(c: &mut Criterion) {
    let mut group = c.benchmark_group("admissions/observe");
    group.throughput(Throughput::Elements(1));
    group.bench_function("advance", |bencher| {
        let mut window = Window::first(0, TransactionDigest([1; 32]));
        bencher.iter(|| {
            let next = window.high() + 1;
            black_box(window.observe(next, TransactionDigest([2; 32])))
        });
    });
    group.bench_function("replay", |bencher| {
        let mut window = Window::first(0, TransactionDigest([1; 32]));
        bencher.iter(|| black_box(window.observe(0, TransactionDigest([1; 32]))));
    });
    group.finish();
}

/// The engine alone: judged, charged, staged, batched, released, and nothing encoded.
fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("admissions/engine");
    for in_flight in [1usize, 64] {
        group.throughput(Throughput::Elements(in_flight as u64));
        group.bench_function(BenchmarkId::new("no_disk", in_flight), |bencher| {
            let mut admissions = Admissions::new();
            bencher.iter(|| admissions.round(in_flight, |_| Ok(())));
        });
    }
    group.throughput(Throughput::Elements(64));
    group.bench_function("encode_whole/64", |bencher| {
        let mut admissions = Admissions::new();
        bencher.iter(|| {
            admissions.round(64, |batch| {
                for change in &batch.changes {
                    if let Effect::Write(image) = &change.effect {
                        black_box(image.whole());
                    }
                }
                Ok(())
            });
        });
    });
    group.bench_function("encode_delta/64", |bencher| {
        let mut admissions = Admissions::new();
        let mut deltas = Vec::new();
        bencher.iter(|| {
            admissions.round(64, |batch| {
                deltas.clear();
                for change in &batch.changes {
                    if let Effect::Write(image) = &change.effect {
                        black_box(image.delta_into(&mut deltas));
                    }
                }
                Ok(())
            });
        });
    });
    group.finish();
}

/// The whole way to the disk, with this many admissions waiting at any time.
fn durable(c: &mut Criterion) {
    for (kind, in_flights) in [
        (StoreKind::Files, &[1usize, 64][..]),
        (StoreKind::Journal, &[1, 64, 512]),
    ] {
        let mut group = c.benchmark_group(format!("admissions/{}", name(kind)));
        group.sample_size(10);
        let scratch = Scratch::new();
        // Filling a store takes long: only where a row is asked for, and once for all rows.
        let mut filled = None;
        for in_flight in in_flights {
            group.throughput(Throughput::Elements(*in_flight as u64));
            group.bench_function(BenchmarkId::new("in_flight", in_flight), |bencher| {
                let (store, admissions) = filled.get_or_insert_with(|| scratch.filled(kind));
                bencher.iter(|| admissions.round(*in_flight, |batch| store.write(&batch.changes)));
            });
        }
        group.finish();
    }
}

/// From the signed payload to the disk: both proofs checked strictly, then durable, beside what the
/// same cores reach that only verify.
fn whole(c: &mut Criterion) {
    let mut group = c.benchmark_group("admissions/whole");
    group.sample_size(10);
    let scratch = Scratch::new();
    let workers = Workers::start();
    let mut filled = None;
    for in_flight in [64usize, 512] {
        group.throughput(Throughput::Elements(in_flight as u64));
        let rounds = |iters: u64| usize::try_from(iters).unwrap_or(usize::MAX) * in_flight;
        group.bench_function(BenchmarkId::new("verify_only", in_flight), |bencher| {
            bencher.iter_custom(|iters| workers.verify_only(rounds(iters), in_flight));
        });
        group.bench_function(BenchmarkId::new("journal", in_flight), |bencher| {
            let (writer, admissions) = filled.get_or_insert_with(|| {
                let (store, admissions) = scratch.filled(StoreKind::Journal);
                (Writer::start(store, &workers), admissions)
            });
            bencher
                .iter_custom(|iters| workers.admit(writer, admissions, rounds(iters), in_flight));
        });
    }
    group.finish();
}

/// What a restart does with a full store: 16,384 receiver and 16,384 sender streams, decoded.
fn restore(c: &mut Criterion) {
    let mut group = c.benchmark_group("admissions/restore");
    group.sample_size(10);
    let scan = full_scan();
    group.throughput(Throughput::Elements(scan.records.len() as u64));
    group.bench_function("full_tables", |bencher| {
        bencher.iter_batched(
            || scan.clone(),
            |scan| black_box(Admissions::over(scan)),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// Every signature checked strictly, two a delegation and one a proof: what bounds a node's rate.
fn verification(c: &mut Criterion) {
    let mut group = c.benchmark_group("admissions/verify");
    group.throughput(Throughput::Elements(1));
    let payload = payload();
    group.bench_function("payload", |bencher| {
        bencher.iter_batched(
            || payload.clone(),
            |payload: Payload| payload.verify(&verify_context()),
            BatchSize::SmallInput,
        );
    });
    // As on a link that has seen both delegations: the two proofs alone.
    let known = known(payload);
    group.bench_function("payload_of_known_delegations", |bencher| {
        bencher.iter_batched(
            || known.clone(),
            |payload: Payload| payload.verify(&verify_context()),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(
    benches,
    observe,
    engine,
    restore,
    verification,
    durable,
    whole
);
criterion_main!(benches);
