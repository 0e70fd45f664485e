//! What can be typed about the replay store.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use overlane_core::store::RecordName;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Replay {
    /// List every record: what it is of, and whether it restores
    #[command(after_help = "Example: overlane replay list --json")]
    List,
    /// Show one record in full
    #[command(
        after_help = "Example: overlane replay show 0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c"
    )]
    Show {
        /// The record's name: 40 hexadecimal digits, as `overlane replay list` shows it
        name: RecordName,
    },
    /// Read and judge every record; exit code 1 if one does not restore
    #[command(after_help = "Example: overlane replay verify")]
    Verify,
    /// Move one record aside, so that its stream starts again
    ///
    /// Says first what may be replayed or lost, and does nothing without --yes. What is moved
    /// aside is kept in the store's folder.
    #[command(
        after_help = "Example: overlane replay clear 0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c --yes"
    )]
    Clear {
        /// The record's name: 40 hexadecimal digits, as `overlane replay list` shows it
        name: RecordName,
        /// Do it
        #[arg(long)]
        yes: bool,
    },
    /// Show the mail floor; exit code 1 if it lies in the future
    ///
    /// Mail that was spent before the floor is refused. A clock that once ran ahead may have left
    /// the floor in the future; this says so, and what lowering it costs.
    #[command(after_help = "Example: overlane replay floor --json")]
    Floor {
        /// Lower a floor that lies in the future to this instant
        #[arg(long)]
        reset: bool,
    },
    /// List the evidence of forks that the store keeps
    #[command(after_help = FORKS_HELP)]
    Forks(Forks),
}

const FORKS_HELP: &str = "\
Example: overlane replay forks --export evidence
         overlane replay forks verify evidence/0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c.fork";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct Forks {
    /// Write each evidence to a file in this folder
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) export: Option<PathBuf>,
    #[command(subcommand)]
    pub(in crate::cli) check: Option<CheckForks>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum CheckForks {
    /// Check an exported evidence by its signatures; needs no node, no store and no network
    #[command(after_help = "Example: overlane replay forks verify evidence.fork")]
    Verify {
        /// The file
        file: PathBuf,
    },
}
