//! What a restart costs with both tables full: time, and memory that stays resident.
//!
//! `cargo run --release -p overlane-benches --bin restore`
//!
//! 16,384 receiver streams, each with 32 admitted transactions, and 16,384 sender streams are
//! written to a journal by a process of its own, so that nothing it needed is counted here. Then
//! the journal is opened and scanned, and the replay engine restored over the scan, as a node does
//! when it starts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use clap::Parser;
use overlane_benches::full;
use overlane_core::identity::Verified;
use overlane_core::replay::{Engine, EngineConfig, Now, STREAM_CAPACITY};
use overlane_core::store::{Change, Effect};
use overlane_core::transaction::Payload;
use overlane_core::wire::cbor::to_vec;
use overlane_storage_native::{JOURNAL_BUDGET_BYTES, StoreAdmin, StoreKind};
use serde_json::json;

/// Records written at once while the journal is filled.
const FILL_AT_ONCE: usize = 1_024;

/// Measures a restart with full tables.
#[derive(Debug, Parser)]
struct Args {
    /// A folder on the disk to measure.
    #[arg(long, default_value = "target")]
    dir: PathBuf,
    /// One JSON object.
    #[arg(long)]
    json: bool,
    /// Fill the journal in this folder, and do nothing else.
    #[arg(long, hide = true)]
    fill: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(folder) = &args.fill {
        return fill(folder);
    }
    std::fs::create_dir_all(&args.dir)
        .with_context(|| format!("cannot make {}", args.dir.display()))?;
    let scratch = tempfile::tempdir_in(&args.dir)?;
    let folder = scratch.path().join("journal");
    fill_apart(&folder)?;

    let before_bytes = resident_bytes();
    let started = Instant::now();
    let mut store = open(&folder)?;
    let scan = store.scan()?;
    let records = scan.records.len();
    let scanned = started.elapsed();
    let now = Now {
        wall_ms: full::NOW_MS,
        steady_ms: 0,
    };
    let engine: Engine<Verified<Payload>> = Engine::restore(EngineConfig::default(), scan, now);
    let restored = started.elapsed();
    let after_bytes = resident_bytes();
    let streams = engine.receivers().count();
    anyhow::ensure!(
        (streams, records) == (STREAM_CAPACITY, 2 * STREAM_CAPACITY),
        "{streams} receiver streams restored of {records} records"
    );
    let figures = json!({
        "records": records,
        "open_and_scan_ms": scanned.as_secs_f64() * 1e3,
        "restore_ms": (restored - scanned).as_secs_f64() * 1e3,
        "resident_before_bytes": before_bytes,
        "resident_after_bytes": after_bytes,
    });
    if args.json {
        println!("{figures}");
        return Ok(());
    }
    println!("{records} records: {STREAM_CAPACITY} receiver and as many sender streams");
    for figure in ["open_and_scan_ms", "restore_ms"] {
        println!(
            "{figure:<24} {:>12.1}",
            figures
                .get(figure)
                .and_then(serde_json::Value::as_f64)
                .unwrap_or(0.0)
        );
    }
    for figure in ["resident_before_bytes", "resident_after_bytes"] {
        if let Some(value) = figures.get(figure) {
            println!("{figure:<24} {value:>12}");
        }
    }
    Ok(())
}

/// Fills the journal in another process: what it allocates stays there.
fn fill_apart(folder: &Path) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("where this program is")?;
    let filled = Command::new(own).arg("--fill").arg(folder).status()?;
    anyhow::ensure!(filled.success(), "the journal was not filled: {filled}");
    Ok(())
}

fn fill(folder: &Path) -> anyhow::Result<()> {
    let mut store = open(folder)?;
    let records: Vec<_> = full::records().collect();
    for records in records.chunks(FILL_AT_ONCE) {
        let changes: Vec<_> = records
            .iter()
            .map(|record| Change {
                name: record.id().name(),
                effect: Effect::Write(Arc::new(to_vec(record))),
            })
            .collect();
        store.write(&changes)?;
    }
    Ok(())
}

fn open(folder: &Path) -> anyhow::Result<Box<dyn StoreAdmin>> {
    let opened = overlane_storage_native::open(folder, StoreKind::Journal, JOURNAL_BUDGET_BYTES);
    opened.with_context(|| format!("cannot open the journal in {}", folder.display()))
}

/// What of this process is in memory now; `None` where the system does not tell.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1_024)
}
