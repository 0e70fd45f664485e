//! What one durable admission costs: the journal and the files store beside fjall, redb, SQLite
//! and the bare flush, in one run on one disk.
//!
//! Each row keeps `in_flight` admissions waiting: they share a batch, and the next ones start
//! when it is durable, each on another of 16,384 streams whose records are full. A store is
//! given what the replay engine gives it: a whole record of about 1.2 KB, and for those that
//! can use it the delta of about 60 bytes. Rates and latencies are of the time in the store:
//! making the load is no store's work. Processor time is the whole process's, the load's too.

mod device;
mod stores;
mod workload;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use serde_json::json;

use stores::{Kind, Store};
use workload::{STREAMS, Workload};

const IN_FLIGHT: [usize; 4] = [1, 8, 64, 512];

/// Measures durable admissions a second.
#[derive(Debug, Parser)]
struct Args {
    /// A folder on the disk to measure.
    #[arg(long, default_value = "target")]
    dir: PathBuf,
    /// How long each row is measured.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Only these stores.
    #[arg(long, value_enum)]
    store: Vec<Kind>,
    /// Only these numbers of admissions in flight.
    #[arg(long, value_name = "N")]
    in_flight: Vec<usize>,
    /// One JSON object a row.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    kind: Kind,
    in_flight: usize,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Processor time of the whole process, kernel and the store's own threads included.
    cpu_us: f64,
    batches: u64,
    /// Flushes that the device counted meanwhile, where it counts them.
    device_flushes: Option<u64>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let kinds = match args.store.is_empty() {
        true => Kind::ALL.to_vec(),
        false => args.store.clone(),
    };
    let in_flights = match args.in_flight.is_empty() {
        true => IN_FLIGHT.to_vec(),
        false => args.in_flight.clone(),
    };
    std::fs::create_dir_all(&args.dir)
        .with_context(|| format!("cannot make {}", args.dir.display()))?;
    if !args.json {
        println!(
            "{STREAMS} streams, records of {} bytes",
            Workload::record_bytes()
        );
        println!(
            "{:<20} {:>9} {:>12} {:>10} {:>10} {:>8}",
            "store", "in flight", "per second", "p50 ms", "p99 ms", "cpu us"
        );
    }
    let mut rows = Vec::new();
    for kind in kinds {
        for in_flight in in_flights.iter().copied() {
            let row = measure(&args, kind, in_flight)
                .with_context(|| format!("{} with {in_flight} in flight", kind.name()))?;
            show(&args, &row);
            rows.push(row);
        }
    }
    if !args.json {
        show_ratios(&rows);
    }
    Ok(())
}

fn measure(args: &Args, kind: Kind, in_flight: usize) -> anyhow::Result<Row> {
    let folder = tempfile::tempdir_in(&args.dir)?;
    let mut workload = Workload::new();
    let mut store = kind.open(folder.path())?;
    for batch in workload.preload() {
        store.write(&batch)?;
    }
    warm_up(store.as_mut(), &mut workload, in_flight)?;
    let flushes = device::flushes(folder.path());
    let limit = Duration::from_secs_f64(args.seconds);
    let started = Instant::now();
    let cpu_before = cpu();
    let mut waits = Vec::new();
    while started.elapsed() < limit {
        let batch = workload.next_batch(in_flight);
        let asked = Instant::now();
        store.write(&batch)?;
        waits.push(asked.elapsed());
    }
    let cpu = cpu().saturating_sub(cpu_before);
    let device_flushes = device::flushes(folder.path())
        .zip(flushes)
        .map(|(after, before)| after.saturating_sub(before));
    let batches = waits.len() as u64;
    if let Some(flushed) = device_flushes {
        anyhow::ensure!(
            flushed >= batches,
            "the device counted {flushed} flushes for {batches} batches: it is not asked to flush"
        );
    }
    waits.sort_unstable();
    let in_store: Duration = waits.iter().sum();
    let admissions = batches as f64 * in_flight as f64;
    Ok(Row {
        kind,
        in_flight,
        per_second: admissions / in_store.as_secs_f64(),
        p50_ms: percentile(&waits, 0.50),
        p99_ms: percentile(&waits, 0.99),
        cpu_us: cpu.as_secs_f64() * 1e6 / admissions,
        batches,
        device_flushes,
    })
}

fn warm_up(store: &mut dyn Store, workload: &mut Workload, in_flight: usize) -> anyhow::Result<()> {
    for _ in 0..20 {
        store.write(&workload.next_batch(in_flight))?;
    }
    Ok(())
}

/// The processor time that this process has used.
fn cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        used.tv_sec.try_into().unwrap_or_default(),
        used.tv_nsec.try_into().unwrap_or_default(),
    )
}

fn percentile(sorted: &[Duration], share: f64) -> f64 {
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).map_or(0.0, |wait| wait.as_secs_f64() * 1e3)
}

fn show(args: &Args, row: &Row) {
    if args.json {
        let row = json!({
            "store": row.kind.name(),
            "in_flight": row.in_flight,
            "per_second": row.per_second,
            "p50_ms": row.p50_ms,
            "p99_ms": row.p99_ms,
            "cpu_us": row.cpu_us,
            "batches": row.batches,
            "device_flushes": row.device_flushes,
        });
        println!("{row}");
        return;
    }
    println!(
        "{:<20} {:>9} {:>12.0} {:>10.3} {:>10.3} {:>8.2}",
        row.kind.name(),
        row.in_flight,
        row.per_second,
        row.p50_ms,
        row.p99_ms,
        row.cpu_us
    );
}

fn show_ratios(rows: &[Row]) {
    let row = |kind, in_flight| {
        rows.iter()
            .find(|row| row.kind == kind && row.in_flight == in_flight)
    };
    let rates = |of, over, in_flight| {
        let (of, over) = (row(of, in_flight)?, row(over, in_flight)?);
        Some(of.per_second / over.per_second)
    };
    println!();
    for (over, in_flight) in [(Kind::Files, 64), (Kind::Fjall, 64), (Kind::Fjall, 512)] {
        if let Some(ratio) = rates(Kind::Journal, over, in_flight) {
            println!(
                "journal over {}, {in_flight} in flight: {ratio:.1}",
                over.name()
            );
        }
    }
    for in_flight in IN_FLIGHT {
        if let Some(ratio) = rates(Kind::JournalCheckpointing, Kind::Journal, in_flight) {
            println!("journal with checkpoints over without, {in_flight} in flight: {ratio:.2}");
        }
    }
    if let (Some(journal), Some(flush)) = (row(Kind::Journal, 1), row(Kind::Flush, 1)) {
        let ratio = journal.p50_ms / flush.p50_ms;
        println!("journal's p50 over the bare flush's, one at a time: {ratio:.2}");
    }
}
