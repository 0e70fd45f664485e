//! What can be typed to send a message, and of its receipt.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use overlane_core::Class;
use overlane_node::api::ClassName;

pub(super) const SEND_HELP: &str = "\
Without TEXT and --file the body is read from standard input.

Example: overlane send 0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c \"hello\"
         overlane send DID --file photo.jpg          up to 60 MB, in chunks, with a bar
         overlane send DID \"hello\" --receipt=hello.receipt   wait until it is admitted, and keep the proof
         overlane send DID \"hello\" --keep signed.bin    keep the signed bytes,
         overlane send --signed signed.bin              and offer them again: a replay";

#[derive(Debug, Args)]
pub(in crate::cli) struct Send {
    /// The destination: 40 hexadecimal digits, or did:key:z…
    #[arg(required_unless_present = "signed")]
    pub(in crate::cli) did: Option<String>,
    /// The message's body
    #[arg(conflicts_with = "file")]
    pub(in crate::cli) text: Option<String>,
    /// Take the body from this file
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) file: Option<PathBuf>,
    /// What the message is about, for the application at the other end (at most 64 bytes)
    #[arg(long, value_name = "NAME", default_value = "text")]
    pub(in crate::cli) namespace: String,
    /// The traffic class to sign the message into
    #[arg(long, value_name = "CLASS", value_parser = class_name(), default_value = "application")]
    pub(in crate::cli) class: ClassName,
    /// Do not have it held where the destination does not answer, and do not wait for its answer
    #[arg(long)]
    pub(in crate::cli) no_hold: bool,
    /// Send it unsealed: every node on its way can read it
    #[arg(long)]
    pub(in crate::cli) plain: bool,
    /// Wait this long for a link to the destination
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(in crate::cli) wait: u16,
    /// Wait for the destination's signed word that it admitted the message, durably; keep it in FILE
    ///
    /// Waits as long as --wait says; exit code 1 if none came. Anybody can check it, anywhere:
    /// `overlane receipt verify FILE`.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "-"
    )]
    pub(in crate::cli) receipt: Option<PathBuf>,
    /// Keep the signed bytes in this file
    #[arg(long, value_name = "FILE", conflicts_with = "signed")]
    pub(in crate::cli) keep: Option<PathBuf>,
    /// Offer the signed bytes that --keep wrote to this file again, signing nothing
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["did", "text", "file", "namespace", "class", "plain"]
    )]
    pub(in crate::cli) signed: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Receipt {
    /// Check a receipt by its signatures; needs no node and no network
    #[command(after_help = "Example: overlane receipt verify hello.receipt")]
    Verify {
        /// The file
        file: PathBuf,
    },
}

/// A traffic class by its name, with the names in the help.
pub(super) fn class_name() -> impl TypedValueParser<Value = ClassName> {
    PossibleValuesParser::new(Class::ALL.map(Class::name)).try_map(|name| name.parse())
}
