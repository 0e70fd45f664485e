//! Logs on a disk: sends a second, the first answer on a large log, catching up, and memory.
//!
//! `cargo run --release -p overlane-benches --bin logs -- --dir DIR` prints all of it. The host of the
//! large log is a process of its own, so that its memory is its own.

#![allow(clippy::print_stdout, reason = "it prints its figures")]

mod catch_up;
mod host;
mod rules;
mod sends;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Measures logs on a disk.")]
struct Args {
    /// A folder on the disk to measure; emptied of what this program made before.
    #[arg(long, default_value = "target/bench-logs")]
    dir: PathBuf,
    /// Envelopes of the large log.
    #[arg(long, default_value_t = 1_000_000)]
    envelopes: u64,
    /// Bytes of an envelope.
    #[arg(long, default_value_t = 200)]
    envelope_bytes: usize,
    /// How many the client lacks.
    #[arg(long, default_value_t = 1_000)]
    behind: u64,
    /// How often the host is started anew for its first answer.
    #[arg(long, default_value_t = 5)]
    starts: usize,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Sends alone.
    Sends,
    /// The large log alone.
    Recon,
    /// Serves the large log on its standard streams: what the program starts for itself.
    #[command(hide = true)]
    Host,
}

fn main() -> Result<()> {
    let args = Args::parse();
    std::fs::create_dir_all(&args.dir)?;
    match args.part {
        Some(Part::Host) => return host::serve(&args.dir.join("large")),
        Some(Part::Sends) => sends::measure(&args)?,
        Some(Part::Recon) => catch_up::measure(&args)?,
        None => {
            sends::measure(&args)?;
            catch_up::measure(&args)?;
        }
    }
    Ok(())
}
