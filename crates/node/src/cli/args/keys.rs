//! What can be typed about accounts and their keys.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use overlane_core::identity::{DELEGATION_TTL_DEFAULT_MS, DELEGATION_TTL_MAX_MS};
use overlane_node::home::Profile;
use overlane_storage_native::StoreKind;

#[derive(Debug, Args)]
pub(in crate::cli) struct Init {
    /// The number of the network to belong to [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub(in crate::cli) network: Option<u32>,
    /// Where other nodes post their offers [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(in crate::cli) listen: Option<SocketAddr>,
    /// How the replay records are kept [default: journal]
    #[arg(long, value_name = "KIND", value_parser = store_kind())]
    pub(in crate::cli) store: Option<StoreKind>,
    /// Leave an account that is there already as it is, and end well
    #[arg(long)]
    pub(in crate::cli) if_missing: bool,
    /// The kind of the new account's key: ed25519, or secp256k1, which can be kept away from its node
    /// (`overlane key delegate`) but is in no group [default: ed25519]
    #[arg(long, value_name = "KIND", value_parser = ["ed25519", "secp256k1"], conflicts_with = "delegated_by")]
    pub(in crate::cli) kind: Option<String>,
    /// Make no account: sign for this one, which is kept elsewhere and lets this home sign
    /// (`overlane key request`)
    #[arg(long, value_name = "DID-KEY")]
    pub(in crate::cli) delegated_by: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) lock: Lock,
    /// What the defaults are made for: home or server [default: home]
    #[arg(long, value_name = "PROFILE")]
    pub(in crate::cli) profile: Option<Profile>,
}

/// What a key at rest is sealed under.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(in crate::cli) struct Lock {
    /// Seal the key under the passphrase in this file (its first line)
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) passphrase_file: Option<PathBuf>,
    /// Seal the key under what this file holds: 32 random bytes or more
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) key_file: Option<PathBuf>,
}

pub(in crate::cli) const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Days that a delegation lives unless asked otherwise.
const DELEGATION_DAYS_DEFAULT: u64 = DELEGATION_TTL_DEFAULT_MS / DAY_MS;

fn days() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=DELEGATION_TTL_MAX_MS / DAY_MS)
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Key {
    /// Show who this is, and what the key at rest is sealed under
    #[command(after_help = "Example: overlane key show")]
    Show,
    /// Seal the key at rest under a passphrase or a key file, or open it for good with neither
    ///
    /// A node that runs goes on; its next start needs what the key is sealed under then, as
    /// key.passphrase_file or key.file says, or as it is typed.
    #[command(after_help = "Example: overlane key seal --passphrase-file secret.txt")]
    Seal(Lock),
    /// Write the key to a file, sealed
    ///
    /// Without a passphrase file or a key file it is written open, which --open has to say. Two nodes
    /// must never run with one key: they would sign the same sequences.
    #[command(
        after_help = "Example: overlane key export account.sealed --passphrase-file secret.txt"
    )]
    Export {
        /// The file; one that is there is never written over
        file: PathBuf,
        #[command(flatten)]
        lock: Lock,
        /// Write it open
        #[arg(long)]
        open: bool,
    },
    /// Make a home of a key that was exported
    ///
    /// The home must hold no account. Its replay store is empty: what the account's last store knew is
    /// not known here, so the node it is of must have stopped for good.
    #[command(
        after_help = "Example: overlane key import account.sealed --passphrase-file secret.txt"
    )]
    Import {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        lock: Lock,
    },
    /// Have the running node sign with a new delegatee key from now on
    ///
    /// Its account, links, streams and windows stay as they are; nothing is sent twice or lost.
    #[command(after_help = "Example: overlane key rotate")]
    Rotate,
    /// Ask an account that is kept elsewhere to let this home sign for it
    ///
    /// Prints a request, which holds no secret: carry it to where the account's key is, and what
    /// `overlane key delegate` prints there back to here. A running node signs with what it has until it is
    /// started again.
    #[command(after_help = "Example: overlane --home node key request --days 30 > request.txt")]
    Request {
        /// How long it may sign: the account sees it, and grants this or nothing
        #[arg(long, default_value_t = DELEGATION_DAYS_DEFAULT, value_parser = days())]
        days: u64,
    },
    /// Let the home that a request is of sign for this account, for a while
    ///
    /// The account's key stays where it is. Whoever has that home signs for the account until the end that is
    /// shown; nothing takes it back before.
    #[command(
        after_help = "Example: overlane --home account key delegate \"$(cat request.txt)\" > word.txt"
    )]
    Delegate {
        /// What `overlane key request` printed
        request: String,
        /// Grant no longer life than this
        #[arg(long, default_value_t = DELEGATION_DAYS_DEFAULT, value_parser = days())]
        days: u64,
    },
    /// Take the account's word on what this home asked for
    #[command(after_help = "Example: overlane --home node key accept \"$(cat word.txt)\"")]
    Accept {
        /// What `overlane key delegate` printed
        delegation: String,
    },
}

/// A store by its kind's name, with the names in the help.
fn store_kind() -> impl TypedValueParser<Value = StoreKind> {
    let names = [StoreKind::Journal, StoreKind::Files].map(StoreKind::name);
    let known = |name: String| StoreKind::from_name(&name).ok_or("no such store");
    PossibleValuesParser::new(names).try_map(known)
}
