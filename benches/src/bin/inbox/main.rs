//! Inboxes on a disk: mails a second with a durable receipt each, and an owner that comes back.
//!
//! `cargo run --release -p overlane-benches --bin inbox -- --dir DIR` prints all of it. Mails are real: signed,
//! sealed, verified before the clock runs. What is measured is a holder: its checks, its proofs and its store.

#![allow(clippy::print_stdout, reason = "it prints its figures")]

mod cast;
mod drain;
mod holding;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

#[derive(Debug, Parser)]
#[command(about = "Measures inboxes on a disk.")]
struct Args {
    /// A folder on the disk to measure; emptied of what this program made before.
    #[arg(long, default_value = "target/bench-inbox")]
    dir: PathBuf,
    /// Inboxes that the holder fills.
    #[arg(long, default_value_t = 100)]
    owners: u32,
    /// Mails in each, 64 at most.
    #[arg(long, default_value_t = 64)]
    mails: u64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.dir.exists() {
        std::fs::remove_dir_all(&args.dir)?;
    }
    std::fs::create_dir_all(&args.dir)?;
    holding::measure(&args)?;
    drain::measure(&args)
}
