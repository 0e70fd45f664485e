//! Reconciles the same pairs of sets with `overlane-recon` and with the `negentropy` crate, in one run, and prints
//! both with their ratios.
//!
//! `cargo run --release -p overlane-benches --bin recon-bench` prints the whole table; `--json` prints it as JSON
//! lines. Each exchange runs in a process of its own, so that its peak memory is its own. CPU is the thread's own
//! time, set-up left out, so that the ratios hold on a busy machine.

mod meter;
mod ours;
mod sets;
mod table;
mod theirs;

use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::Value;

use sets::{Case, Shape};

/// Bench of whole reconciliations.
#[derive(Debug, Parser)]
#[command(name = "recon-bench", version)]
struct Arguments {
    /// Items in the union of both sets; several may be given.
    #[arg(long, value_delimiter = ',', default_values_t = [100_000, 1_000_000])]
    items: Vec<u64>,
    /// Items in which the sets differ; several may be given.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 1_000, 50_000])]
    differences: Vec<u64>,
    /// Where the differences lie; several may be given.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Shape::Random, Shape::Tail, Shape::Symmetric])]
    shapes: Vec<Shape>,
    /// Limits on a message in bytes; several may be given.
    #[arg(long, value_delimiter = ',', default_values_t = [1_048_576, 65_536])]
    message_bytes: Vec<u64>,
    /// Seed of the sets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// JSON lines in place of the table.
    #[arg(long)]
    json: bool,
    /// Runs one exchange in this process: `ours` or `negentropy`. The table uses this for its rows.
    #[arg(long, hide = true)]
    one: Option<String>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(contender) = &arguments.one {
        let case = arguments.cases().next().context("a case to run")?;
        let measured = match contender.as_str() {
            "ours" => ours::measure(&case)?,
            _ => theirs::measure(&case)?,
        };
        println!("{measured}");
        return Ok(());
    }
    if !arguments.json {
        table::head();
    }
    for case in arguments.cases() {
        let ours = in_own_process(&case, "ours")?;
        let theirs = in_own_process(&case, "negentropy")?;
        if arguments.json {
            println!("{}", table::json(&case, &ours, &theirs));
        } else {
            table::row(&case, &ours, &theirs);
        }
    }
    Ok(())
}

impl Arguments {
    fn cases(&self) -> impl Iterator<Item = Case> {
        self.items.iter().flat_map(move |items| {
            self.message_bytes.iter().flat_map(move |message_bytes| {
                self.shapes.iter().flat_map(move |shape| {
                    self.differences.iter().map(move |differences| Case {
                        items: *items,
                        differences: *differences,
                        shape: *shape,
                        message_bytes: *message_bytes,
                        seed: self.seed,
                    })
                })
            })
        })
    }
}

fn in_own_process(case: &Case, contender: &str) -> Result<Value> {
    let program = std::env::current_exe().context("the path of this program")?;
    let output = Command::new(program)
        .args(["--one", contender, "--items", &case.items.to_string()])
        .args(["--differences", &case.differences.to_string()])
        .args(["--shapes", case.shape.name()])
        .args(["--message-bytes", &case.message_bytes.to_string()])
        .args(["--seed", &case.seed.to_string()])
        .output()
        .context("a process for one exchange")?;
    ensure!(
        output.status.success(),
        "{contender} on {case:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("what one exchange measured")
}
