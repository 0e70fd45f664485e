//! What can be typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

const OVERVIEW: &str = "\
Example: overlane init

Exit codes: 0 done, 1 negative answer, 2 usage, 3 refused by a bound, 4 store failed closed,
5 unreachable.";

/// A peer-to-peer node that admits every signed message at most once, across crashes too.
#[derive(Debug, Parser)]
#[command(name = "overlane", version, after_help = OVERVIEW, disable_help_subcommand = true)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(super) struct Global {
    /// The node's folder [default: $XDG_DATA_HOME/overlane or ~/.local/share/overlane]
    #[arg(
        long,
        global = true,
        env = "OVERLANE_HOME",
        value_name = "DIR",
        hide_env_values = true
    )]
    pub(super) home: Option<PathBuf>,
    /// Answer in JSON, on standard output: an object, or an object a line; errors too
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make an account and a configuration in the home folder
    #[command(after_help = "Example: overlane --home /tmp/second init --listen 127.0.0.1:7421")]
    Init(Init),
    /// Show who this node is: Did, did:key and PeerId
    #[command(after_help = "Example: overlane id --json")]
    Id,
}

#[derive(Debug, Args)]
pub(super) struct Init {
    /// The number of the network to belong to [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub(super) network: Option<u32>,
    /// Where other nodes post their offers [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) listen: Option<SocketAddr>,
}
