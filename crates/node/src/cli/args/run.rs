//! What can be typed of the configuration, and to run with it.

use std::net::SocketAddr;

use clap::{Args, Subcommand};
use overlane_node::home::LogFilter;

#[derive(Debug, Args)]
pub(in crate::cli) struct Run {
    /// Listen here instead of where the configuration says
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(in crate::cli) listen: Option<SocketAddr>,
    /// Answer GET /metrics here too, an address of the loopback
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(in crate::cli) metrics: Option<SocketAddr>,
    /// Log this instead of what the configuration says: a level, or levels by target
    #[arg(long, value_name = "FILTER")]
    pub(in crate::cli) log: Option<LogFilter>,
    #[command(flatten)]
    pub(in crate::cli) set: Set,
}

/// Keys of the configuration as they are typed.
#[derive(Debug, Args)]
pub(in crate::cli) struct Set {
    /// Let a key of the configuration have this value; can be given more than once
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(in crate::cli) set: Vec<(String, String)>,
}

fn key_and_value(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Config {
    /// Find everything that is wrong with the configuration; exit code 2 if anything is
    ///
    /// Of the file with its line, of the environment and of flags with their names, and what was
    /// probably meant.
    #[command(after_help = "Example: overlane config check")]
    Check(Set),
    /// Show every key and its value
    #[command(after_help = "Example: overlane config show --origin")]
    Show {
        /// Show who said so: a flag, the environment, a line of the file, the profile, nobody
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        set: Set,
    },
    /// Say what a key does, what it may be and what it is by default; without one, all of them
    #[command(after_help = "Example: overlane config explain links.max")]
    Explain {
        /// The key
        key: Option<String>,
        /// Print the page of the documentation
        #[arg(long, conflicts_with = "key")]
        page: bool,
    },
}
