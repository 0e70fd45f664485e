//! What can be typed about groups.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Groups {
    /// Make a group that this node owns, and hosts
    #[command(after_help = "Example: overlane group create team")]
    Create {
        /// What it is called
        name: String,
        /// Another node that may host it too, once it has joined; may be given several times
        #[arg(long = "host", value_name = "DID")]
        hosts: Vec<String>,
    },
    /// List the groups of this node: who hosts them, what is here of them, what failed last
    #[command(after_help = "Example: overlane group list --json")]
    List,
    /// Put an account on the roster of a group of this node's own, and print a ticket for it
    ///
    /// A ticket is no secret, and gives no right: the roster does. A member reads what is posted from
    /// the current epoch on.
    #[command(
        after_help = "Example: overlane group invite team did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH"
    )]
    Invite {
        /// The group, by its name here or on the network
        group: String,
        /// Who: did:key:z…, as `overlane id` shows it there
        account: String,
        /// Let it host the group, too
        #[arg(long)]
        host: bool,
        /// Let it host the group and be no member: it keeps what it cannot read
        #[arg(long, conflicts_with = "host")]
        host_only: bool,
    },
    /// Take an account off the roster of a group of this node's own, and change the group's key
    ///
    /// What was posted before can still be read by who is removed; what is posted from then on cannot.
    #[command(
        after_help = "Example: overlane group remove team 0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c"
    )]
    Remove {
        /// The group, by its name here or on the network
        group: String,
        /// Who: 40 hexadecimal digits, or did:key:z…
        account: String,
    },
    /// Join the group that a ticket is of, as a member or as a host
    #[command(after_help = "Example: overlane group join TICKET")]
    Join {
        /// What `overlane group invite` printed
        ticket: String,
        /// What it is called here, if not as its owner calls it
        #[arg(long)]
        name: Option<String>,
    },
    /// Write to a group
    ///
    /// A post is durable here when this returns; without a link to the group's host it waits, and is
    /// sent by itself.
    #[command(
        after_help = "Example: overlane group post team \"hello\"\n         seq 1000 | overlane group post team --lines"
    )]
    Post(Post),
    /// Show the posts of a group that are here, in the order of their numbers
    #[command(after_help = "Example: overlane group log team --follow")]
    Log {
        /// The group, by its name here or on the network
        group: String,
        /// From this number on
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        from: u64,
        /// End after this many posts
        #[arg(long, value_name = "NUMBER")]
        count: Option<u64>,
        /// Go on with those that come, without a gap
        #[arg(long)]
        follow: bool,
    },
    /// Reconcile with a host now; exit code 1 if they did not come to have the same
    ///
    /// The node does so by itself whenever a host can be reached; and with another, once the one that it
    /// asks has given no answer for as long as `groups.host_gone_ms` says: half a minute, if nobody changed it.
    #[command(
        after_help = "Example: overlane group sync team\n         overlane group sync team --host DID    go over to that host, for good"
    )]
    Sync {
        /// The group, by its name here or on the network
        group: String,
        /// Ask this host from now on, after restarts too, if it is not asked already; the node then numbers posts by itself
        #[arg(long, value_name = "DID")]
        host: Option<String>,
    },
    /// Say what a sync would fetch and send, and what it would take, without moving a post
    ///
    /// The two compare as in a sync, with names in place of posts: 44 bytes for each that would come.
    #[command(after_help = "Example: overlane group plan team")]
    Plan {
        /// The group, by its name here or on the network
        group: String,
        /// The host, if not the one that is followed
        #[arg(long, value_name = "DID")]
        host: Option<String>,
    },
    /// Be part of a group no more, and delete what is here of it
    ///
    /// Where that loses something for good (a group of this node's own, or posts that no host has yet) it says what, and asks;
    /// without a terminal it does nothing without --yes, and the exit code is 1.
    #[command(after_help = "Example: overlane group leave team")]
    Leave {
        /// The group, by its name here or on the network
        group: String,
        /// Do it, whatever is lost
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Post {
    /// The group, by its name here or on the network
    pub(in crate::cli) group: String,
    /// What the post says; read from standard input if it is not given
    #[arg(conflicts_with_all = ["file", "lines"])]
    pub(in crate::cli) text: Option<String>,
    /// Take it from this file
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) file: Option<PathBuf>,
    /// Make each line a post of its own
    #[arg(long)]
    pub(in crate::cli) lines: bool,
}
