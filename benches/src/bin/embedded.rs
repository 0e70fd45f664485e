//! The two embedded databases that came into question for references, logs and mail: redb and
//! SQLite, on rows as the index of a log has them.
//!
//! `cargo run --release -p overlane-benches --bin embedded -- --rows 1000000`
//!
//! Each fills one table with rows of a 40-byte name and a value, is copied as it lies on the disk
//! while it is open (what a kill leaves), opened again from the copy and after an orderly close,
//! read cold and warm in 300 ranges of 16 rows, and written in transactions of several sizes, one
//! flush each. Both may keep 16 MiB in memory. redb is measured three times: as it is, checking the whole file as
//! it opens, and recording its allocator's state with every commit, which makes the open after a kill a short one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use redb::{ReadableDatabase as _, TableDefinition};

const CACHE_BYTES: usize = 16 * 1024 * 1024;
const FILL_BATCH: u64 = 10_000;
const RANGES: u64 = 300;
const RANGE_ROWS: usize = 16;
const BATCHES: [u64; 3] = [1, 64, 512];

/// Measures two embedded databases.
#[derive(Debug, Parser)]
struct Args {
    /// A folder on the disk to measure.
    #[arg(long, default_value = "target")]
    dir: PathBuf,
    /// How many rows.
    #[arg(long, default_value_t = 200_000)]
    rows: u64,
    /// How long a value is.
    #[arg(long, default_value_t = 200)]
    value_bytes: usize,
    /// How long each size of transaction is measured.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

trait Rows {
    fn put(&mut self, rows: &mut dyn Iterator<Item = u64>, value: &[u8]) -> anyhow::Result<()>;
    /// How many rows it found from this one on.
    fn range(&mut self, from: u64) -> anyhow::Result<usize>;
}

type Open = fn(&Path) -> anyhow::Result<Box<dyn Rows>>;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let stores: [(&str, Open); 4] = [
        ("redb", Redb::open),
        ("redb, whole check", Redb::open_checked),
        ("redb, quick repair", Redb::open_quick),
        ("sqlite", Sqlite::open),
    ];
    for (name, open) in stores {
        let home = tempfile::tempdir_in(&args.dir).context("the folder to measure")?;
        measure(name, open, &args, home.path()).with_context(|| name.to_owned())?;
    }
    Ok(())
}

fn measure(name: &str, open: Open, args: &Args, home: &Path) -> anyhow::Result<()> {
    let (folder, killed) = (home.join("rows"), home.join("killed"));
    fs::create_dir(&folder)?;
    fs::create_dir(&killed)?;
    let value = vec![7; args.value_bytes];

    let (mut rows, _) = timed(|| open(&folder))?;
    let ((), filled) = timed(|| {
        for from in (0..args.rows).step_by(FILL_BATCH as usize) {
            let to = args.rows.min(from + FILL_BATCH);
            rows.put(&mut (from..to), &value)?;
        }
        Ok(())
    })?;
    let mut bytes = 0;
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        bytes += fs::copy(entry.path(), killed.join(entry.file_name()))?;
    }
    drop(rows);
    println!(
        "{name}: {} rows of {} bytes, {bytes} bytes on disk, filled in {filled:.1?}",
        args.rows,
        40 + args.value_bytes
    );

    let (rows, after_kill) = timed(|| open(&killed))?;
    drop(rows);
    let (mut rows, after_close) = timed(|| open(&folder))?;
    println!("{name}: opened in {after_close:.1?}, after a kill in {after_kill:.1?}");
    for temperature in ["cold", "warm"] {
        let (found, took) = timed(|| {
            let ranges = (0..RANGES).map(|range| rows.range(mix(range) % args.rows));
            ranges.sum::<anyhow::Result<usize>>()
        })?;
        println!("{name}: {RANGES} ranges {temperature} in {took:.1?} ({found} rows)");
    }
    let mut next = args.rows + FILL_BATCH;
    for batch in BATCHES {
        let (mut transactions, begun) = (0_u64, Instant::now());
        while begun.elapsed().as_secs_f64() < args.seconds {
            rows.put(&mut (next..next + batch), &value)?;
            next += batch;
            transactions += 1;
        }
        let rate = transactions as f64 / begun.elapsed().as_secs_f64();
        println!(
            "{name}: {batch} rows a transaction: {rate:.0} transactions a second, {:.0} rows",
            rate * batch as f64
        );
    }
    if let Some(peak) = peak_memory() {
        println!("{name}: at most {peak} in memory so far");
    }
    Ok(())
}

fn timed<T>(what: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Duration)> {
    let begun = Instant::now();
    let value = what()?;
    Ok((value, begun.elapsed()))
}

/// The most memory that the process has had, where the platform says.
fn peak_memory() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(
        line.split_whitespace()
            .skip(1)
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// Row number `row`: one of a thousand logs, and a digest.
fn key(row: u64) -> [u8; 40] {
    let mut key = [0; 40];
    let parts = [
        row / 1_000,
        mix(row),
        mix(row ^ 1 << 60),
        mix(row ^ 1 << 61),
        mix(row ^ 1 << 62),
    ];
    for (to, part) in key.chunks_mut(8).zip(parts) {
        to.copy_from_slice(&part.to_be_bytes());
    }
    key
}

/// splitmix64.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

struct Redb {
    database: redb::Database,
    quick: bool,
}

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

impl Redb {
    fn open(folder: &Path) -> anyhow::Result<Box<dyn Rows>> {
        Self::open_as(folder, false, false)
    }

    fn open_checked(folder: &Path) -> anyhow::Result<Box<dyn Rows>> {
        Self::open_as(folder, true, false)
    }

    fn open_quick(folder: &Path) -> anyhow::Result<Box<dyn Rows>> {
        Self::open_as(folder, false, true)
    }

    fn open_as(folder: &Path, checked: bool, quick: bool) -> anyhow::Result<Box<dyn Rows>> {
        let mut builder = redb::Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        builder.set_check_integrity_on_open(checked);
        let database = builder.create(folder.join("rows.redb"))?;
        Ok(Box::new(Self { database, quick }))
    }
}

impl Rows for Redb {
    fn put(&mut self, rows: &mut dyn Iterator<Item = u64>, value: &[u8]) -> anyhow::Result<()> {
        let mut write = self.database.begin_write()?;
        write.set_quick_repair(self.quick);
        {
            let mut table = write.open_table(TABLE)?;
            for row in rows {
                table.insert(key(row).as_slice(), value)?;
            }
        }
        Ok(write.commit()?)
    }

    fn range(&mut self, from: u64) -> anyhow::Result<usize> {
        let read = self.database.begin_read()?;
        let table = read.open_table(TABLE)?;
        let from = key(from);
        let mut found = 0;
        for row in table.range(from.as_slice()..)?.take(RANGE_ROWS) {
            found += usize::from(!row?.1.value().is_empty());
        }
        Ok(found)
    }
}

struct Sqlite(rusqlite::Connection);

impl Sqlite {
    fn open(folder: &Path) -> anyhow::Result<Box<dyn Rows>> {
        let connection = rusqlite::Connection::open(folder.join("rows.sqlite"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let cache_kib = i64::try_from(CACHE_BYTES / 1024)?;
        connection.pragma_update(None, "cache_size", -cache_kib)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS rows (name BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        )?;
        Ok(Box::new(Self(connection)))
    }
}

impl Rows for Sqlite {
    fn put(&mut self, rows: &mut dyn Iterator<Item = u64>, value: &[u8]) -> anyhow::Result<()> {
        let write = self.0.transaction()?;
        {
            let mut put = write.prepare_cached("INSERT OR REPLACE INTO rows VALUES (?1, ?2)")?;
            for row in rows {
                put.execute((key(row).as_slice(), value))?;
            }
        }
        Ok(write.commit()?)
    }

    fn range(&mut self, from: u64) -> anyhow::Result<usize> {
        let from = key(from);
        let mut query = self
            .0
            .prepare_cached("SELECT value FROM rows WHERE name >= ?1 ORDER BY name LIMIT ?2")?;
        let mut rows = query.query((from.as_slice(), RANGE_ROWS as i64))?;
        let mut found = 0;
        while let Some(row) = rows.next()? {
            found += usize::from(!row.get_ref(0)?.as_blob()?.is_empty());
        }
        Ok(found)
    }
}
