//! What sealing a message and opening it costs, by its size; beside the two signature checks that every message
//! costs its destination.
//!
//! `cargo bench -p overlane-benches --bench seal`; with `-- --quick` a first look in seconds once it is built.

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use overlane_core::NetworkId;
use overlane_core::identity::Account;
use overlane_core::seal::{SealContext, SealingKey, SealingSecret, open, seal_data};
use overlane_core::transaction::{Data, Message, Namespace};
use overlane_core::wire::cbor::to_vec;
use zeroize::Zeroizing;

fn seal(c: &mut Criterion) {
    let [origin, destination] =
        [1, 2].map(|seed| Account::ed25519(Zeroizing::new([seed; 32])).unwrap());
    let context = SealContext {
        network: NetworkId(1),
        origin: origin.did(),
        destination: destination.did(),
    };
    let key = SealingKey::of_account(destination.key()).unwrap();
    let secret = SealingSecret::for_account(&destination).unwrap();
    let mut group = c.benchmark_group("seal");
    for bytes in [100_usize, 16 << 10, 1 << 20] {
        let body = vec![0x5a; bytes];
        let message = Message::Application {
            namespace: Namespace::new("bench").unwrap(),
            body: &body,
        };
        let message = Data::parse_large(to_vec(&message)).unwrap();
        let seed = || Zeroizing::new([7; 32]);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_with_input(BenchmarkId::new("seal", bytes), &message, |b, message| {
            b.iter(|| seal_data(&key, &context, black_box(message), seed()).unwrap());
        });
        let sealed = seal_data(&key, &context, &message, seed()).unwrap();
        group.bench_with_input(BenchmarkId::new("open", bytes), &sealed, |b, sealed| {
            b.iter(|| open(&secret, &context, black_box(sealed.message().body())).unwrap());
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = seal
}
criterion_main!(benches);
