//! What can be typed.

mod groups;
mod keys;
mod replay;
mod run;
mod send;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use overlane_node::api::ClassName;

pub(super) use groups::{Groups, Post};
pub(super) use keys::{DAY_MS, Init, Key, Lock};
pub(super) use replay::{CheckForks, Forks, Replay};
pub(super) use run::{Config, Run, Set};
pub(super) use send::{Receipt, Send};
use send::{SEND_HELP, class_name};

const OVERVIEW: &str = "\
Example: overlane demo                 three nodes tell the whole story in seconds
         overlane init                 make an account and a configuration
         overlane run                  run the node until Ctrl-C
         overlane send DID \"hello\"     in another terminal: to a linked node

Exit codes: 0 done, 1 negative answer, or the other side misbehaved, 2 usage, 3 refused by a bound,
4 store failed closed, 5 unreachable.";

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
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make an account and a configuration in the home folder
    #[command(after_help = "Example: overlane --home /tmp/second init --listen 127.0.0.1:7421")]
    Init(Init),
    /// Run the node until SIGINT or SIGTERM
    #[command(after_help = "Example: overlane run --log info")]
    Run(Run),
    /// Show who this node is: Did, did:key and PeerId
    #[command(after_help = "Example: overlane id --json")]
    Id,
    /// The configuration: what is wrong with it, what it comes to, what a key does
    #[command(subcommand, after_help = "Example: overlane config show --origin")]
    Config(Config),
    /// The account's key: how it lies, copies of it, and the delegatee that signs for it
    #[command(subcommand, after_help = "Example: overlane key rotate")]
    Key(Key),
    /// Copy the home to a new folder, while the node runs or not, and say what putting it back costs
    ///
    /// The copy is of one instant. It holds the account's key as it lies here: seal it first
    /// (`overlane key seal`), or keep the copy as safe as the home.
    #[command(after_help = "Example: overlane backup /mnt/backup/monday")]
    Backup {
        /// The folder to make
        to: PathBuf,
    },
    /// Put a copy back into a home without an account
    ///
    /// Moves the floors, so that no sequence is signed twice; what was admitted since the copy is kept out
    /// by not starting the node for some time. The node the copy is of must have stopped for good.
    #[command(after_help = "Example: overlane --home /srv/overlane restore /mnt/backup/monday")]
    Restore {
        /// The copy
        from: PathBuf,
    },
    /// Show what the running node knows: links, peers, streams, counters
    #[command(after_help = "Example: overlane status --json")]
    Status,
    /// The nodes to stay linked to
    #[command(
        subcommand,
        after_help = "Example: overlane peer add http://127.0.0.1:7421"
    )]
    Peer(Peer),
    /// Print a ticket with which others join this node's ring
    ///
    /// A ticket holds this node's Did, where it takes offers, and the network. It is no secret, and
    /// gives no right.
    #[command(after_help = "Example: overlane invite --url http://192.0.2.1:7420")]
    Invite {
        /// Where others reach this node, if that is not where it listens
        #[arg(long, value_name = "URL")]
        url: Option<String>,
    },
    /// Join the ring of the node that a ticket is of
    ///
    /// This node stays linked to that one, and by way of it finds its own neighbours.
    #[command(after_help = "Example: overlane join TICKET")]
    Join {
        /// What `overlane invite` printed
        ticket: String,
    },
    /// Show the way that messages to a node take, hop by hop; exit code 1 if they do not arrive
    #[command(after_help = "Example: overlane route 0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c")]
    Route {
        /// The node: 40 hexadecimal digits, or did:key:z…
        did: String,
    },
    /// Sign a message, and send it to any node of the ring
    #[command(after_help = SEND_HELP)]
    Send(Send),
    /// What `send --receipt` kept
    #[command(
        subcommand,
        after_help = "Example: overlane receipt verify hello.receipt"
    )]
    Receipt(Receipt),
    /// Print messages as they are admitted
    ///
    /// One watcher at a time takes messages; what is admitted while nobody watches waits, in a
    /// bounded queue that holds its senders back when it is full. A message is taken once: what
    /// was printed is not printed again.
    #[command(after_help = "Example: overlane watch --count 1 --json")]
    Watch(Watch),
    /// Share a file by reference, and print a ticket for it
    ///
    /// The running node offers the file from where it is, over restarts, until its reference is
    /// taken back. Whoever has the ticket can fetch it.
    #[command(after_help = "Example: overlane share notes.txt")]
    Share(Share),
    /// Fetch the file that a ticket leads to
    ///
    /// It comes in parts, into a temporary file beside its goal, and gets its name when it is whole
    /// and its hash is right. While either node is away it waits; a fetch that was interrupted goes
    /// on from where it was when it is asked for again.
    #[command(after_help = "Example: overlane fetch TICKET -o notes.txt")]
    Fetch(Fetch),
    /// The references that the running node keeps
    #[command(
        subcommand,
        after_help = "Example: overlane ref revoke 1 --reason \"plan expired\""
    )]
    Ref(Refs),
    /// Groups: logs that several accounts write and read, kept by hosts that cannot read them
    #[command(
        subcommand,
        after_help = "Example: overlane group create team\n         overlane group post team \"hello\""
    )]
    Group(Groups),
    /// Mail that came while this node was away, and who holds mail for it
    #[command(subcommand, after_help = "Example: overlane inbox take --all")]
    Inbox(Inbox),
    /// Look into the replay store, and mend it, while the node is stopped
    #[command(subcommand, after_help = "Example: overlane replay verify")]
    Replay(Replay),
    /// Show every bound of replay protection, and those the configuration sets: limit, current,
    /// high water, what happens at it
    ///
    /// Asks the running node; without one, counts what the store holds.
    #[command(after_help = "Example: overlane bounds --json")]
    Bounds,
    /// Find out what is wrong, step by step: what was tried, what came back, what to do
    ///
    /// Works without a daemon and without a network: then it looks at what a start would meet.
    /// Exit code 1 if anything is bad.
    #[command(after_help = "Example: overlane doctor")]
    Doctor(Doctor),
    /// Say in one line whether the node does its work; exit code 1 if it does not
    #[command(after_help = "Example: overlane health --wait 10 --links 1")]
    Health(Health),
    /// Show where programs ask the running node: its socket, and its URL and token if it has one
    ///
    /// The commands of this program use nothing else. `--openapi` prints the document of it.
    #[command(after_help = "Example: overlane api --openapi > openapi.json")]
    Api {
        /// Print the OpenAPI document, made from what is answered
        #[arg(long)]
        openapi: bool,
    },
    /// Print where a browser on this machine shows the running node
    ///
    /// The address holds the token of the local API behind `#`, which a browser sends to nobody: whoever has the
    /// address drives the node. The page is there while `api.listen` is set.
    #[command(after_help = "Example: overlane dashboard --open")]
    Dashboard {
        /// Open it in this user's browser
        #[arg(long)]
        open: bool,
    },
    /// Show or change what the running node logs, without a restart
    ///
    /// What is changed lasts until the node ends; the configuration's `log` says what it starts with.
    #[command(after_help = "Example: overlane log warn,overlane_node::link=debug")]
    Log {
        /// What to log from now on: a level, or levels by target
        filter: Option<String>,
        /// Show the latest lines; accounts, keys, digests and addresses are pseudonyms there
        #[arg(long)]
        lines: bool,
    },
    /// Collect what somebody who helps needs, without secrets, in one file of text
    ///
    /// Configuration without credentials, the doctor's steps, status, bounds, metrics and the latest
    /// lines of the log; accounts, keys, digests and addresses are pseudonyms. Read it before you give it away.
    #[command(after_help = "Example: overlane support-bundle bundle.json")]
    SupportBundle {
        /// The file to write; one that is there is never written over
        file: PathBuf,
    },
    /// Print the running node's numbers as OpenMetrics text, for Prometheus and the like
    ///
    /// `overlane run --metrics 127.0.0.1:9464` answers them at /metrics there.
    #[command(after_help = "Example: overlane metrics | grep admitted")]
    Metrics(Metrics),
    /// Say what an error code means, and what to do; or what became of one transaction
    ///
    /// Without an argument, all codes. Of a transaction the running node tells what it saw: signed, its way, the lane
    /// that took it, where it is held, how it was admitted or what refused it; what its stores hold; and what it does not
    /// know any more. Exit code 1 if it knows nothing.
    #[command(after_help = EXPLAIN_HELP)]
    Explain(Explain),
    /// Print what a shell completes this program's commands by
    #[command(
        after_help = "Example: overlane completions bash >~/.local/share/bash-completion/completions/overlane"
    )]
    Completions(Completions),
    /// Write the manual pages of this program and of each of its commands
    #[command(after_help = "Example: overlane man ~/.local/share/man/man1")]
    Man(Manual),
    /// Three nodes in one process show every verdict over real WebRTC on loopback
    #[command(after_help = "Example: overlane demo --json")]
    Demo,
    /// Run many nodes of this program on a virtual clock, network and disk, and check every law
    ///
    /// The nodes run the code that a daemon runs; a seed decides everything else and replays
    /// exactly. Faults come for the minutes asked for; then everything heals, and what is sent
    /// from then on must arrive. Exit code 1 if any law did not hold.
    #[cfg(feature = "sim")]
    #[command(after_help = SIM_HELP)]
    Sim(Sim),
}

const EXPLAIN_HELP: &str = "\
Example: overlane explain replay/fork
         overlane explain DIGEST                        as `overlane send` printed it
         overlane explain DID SEQUENCE                  from or to that account; also DID#SEQUENCE
         overlane explain DID SEQUENCE --class control  what the ring said";

#[cfg(feature = "sim")]
const SIM_HELP: &str = "\
Example: overlane sim --nodes 16 --minutes 10 --seed 7
         overlane sim --nodes 64 --minutes 10 --seed 7 --faults churn,loss,partition --json
         overlane sim --seed 7 --hostile lies,offers    one node in eight is hostile
         overlane sim --seed 7 --mails 10               much mail to those who are away
         overlane sim --seed 7 --groups 4 --hostile hosts  hosts of groups that lie
         overlane sim --seed 7 --references 20          much done with references
         overlane sim --seed 1 --seeds 400              seeds 1 to 400, a line each
         overlane sim --seed 7 --trace 2>trace.txt      everything that happens, a line each
         overlane sim --seed 7 --broken early-release   a broken part, which must be noticed";

#[cfg(feature = "sim")]
#[derive(Debug, Args)]
pub(super) struct Sim {
    /// How many nodes
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    pub(super) nodes: usize,
    /// How many simulated minutes with faults
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub(super) minutes: u64,
    /// What everything is drawn from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// So many seeds, one after the other, from --seed on
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seeds: u64,
    /// Who links to whom: ring, or mesh for fixed links to a few others and nothing carried
    #[arg(long, value_name = "KIND", default_value = "ring")]
    pub(super) topology: overlane_node::sim::Topology,
    /// What goes wrong: all, none, or some of churn, crash, loss, partition, stall, disk, clock and
    /// duplicate, with commas between
    #[arg(long, value_name = "FAULTS", default_value = "all")]
    pub(super) faults: overlane_node::sim::Faults,
    /// What hostile nodes do, one node in eight: all, none, or some of lies, reports, offers, loops,
    /// mute, delegations, garbage, drops, old-mail, back-dates and hosts, with commas between
    #[arg(long, value_name = "ACTS", default_value = "none")]
    pub(super) hostile: overlane_node::sim::Acts,
    /// Messages that each node sends in a simulated minute, on average
    #[arg(long, value_name = "NUMBER", default_value_t = 30)]
    pub(super) messages: u64,
    /// Mails that each node sends in a simulated minute, on average, to nodes that are away where any are
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    pub(super) mails: u64,
    /// How many groups there are, each of five members and a host
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    pub(super) groups: usize,
    /// How often each node shares, fetches, calls, lets go of or takes back a reference in a simulated minute, on average
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) references: u64,
    /// Break one part on purpose; an unknown name shows them all
    #[arg(long, value_name = "NAME")]
    pub(super) broken: Option<overlane_node::sim::Broken>,
    /// Tell everything that happens on standard error
    #[arg(long)]
    pub(super) trace: bool,
}

#[derive(Debug, Args)]
pub(super) struct Health {
    /// Wait so long for it, as after a start
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=3600))]
    pub(super) wait: u64,
    /// Ask for so many links at least
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(super) links: usize,
}

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(super) struct Manual {
    /// The folder; it is made if it is not there
    pub(super) dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(super) enum Peer {
    /// Stay linked to the node at URL; the configuration keeps it
    #[command(after_help = "Example: overlane peer add http://127.0.0.1:7421")]
    Add {
        /// The node's address, as its `overlane run` shows it
        url: String,
    },
    /// Ask a node whether it is there, by way of the ring; shows the time and the hops
    #[command(after_help = "Example: overlane peer ping 0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c")]
    Ping {
        /// The node: 40 hexadecimal digits, or did:key:z…
        did: String,
    },
    /// Show the nodes to stay linked to, and the neighbours in the ring, and how each link is
    #[command(after_help = "Example: overlane peer list --json")]
    List,
    /// Stay linked to the node at URL no longer, and close the link
    #[command(after_help = "Example: overlane peer drop http://127.0.0.1:7421")]
    Drop {
        /// The address, as `overlane peer list` shows it
        url: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct Share {
    /// The file
    pub(super) file: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Fetch {
    /// The ticket, as `overlane share` printed it
    pub(super) ticket: String,
    /// Where to put the file [default: its own name, in this folder]
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Let go of the reference when the file is whole
    #[arg(long)]
    pub(super) drop: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Inbox {
    /// List the mail that waits, the nodes that hold some, and what this node holds for others
    #[command(after_help = "Example: overlane inbox list --json")]
    List {
        /// Ask the holders first
        #[arg(long)]
        fetch: bool,
    },
    /// Take a mail: it is shown, and those who hold it let go of it
    ///
    /// The one that came first, unless a digest is named. Exit code 1 if none waits, or fewer than were
    /// asked for. With --json, an object for each, and an empty one if none waits.
    #[command(after_help = "Example: overlane inbox take --count 10 --wait 60 --json")]
    Take {
        /// Which one, by its digest
        #[arg(conflicts_with = "all")]
        digest: Option<String>,
        /// All that wait, also those that come into custody meanwhile
        #[arg(long)]
        all: bool,
        /// So many, one after another
        #[arg(long, value_name = "N", conflicts_with_all = ["digest", "all"], value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
        /// Seconds to wait for each, while none waits
        #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=86_400))]
        wait: u32,
    },
    /// Leave a sealed item with each node that holds mail for this one, and take it again
    ///
    /// Exit code 1 if one of them does not give it back.
    #[command(after_help = "Example: overlane inbox probe")]
    Probe,
}

#[derive(Debug, Subcommand)]
pub(super) enum Refs {
    /// List them: number, kind, file, state, and why one works no longer
    #[command(after_help = "Example: overlane ref list --json")]
    List,
    /// Show one in full
    #[command(after_help = "Example: overlane ref show 1")]
    Show {
        /// Its number, as `overlane ref list` shows it
        number: u64,
    },
    /// Let go of one
    ///
    /// One of this node's own that others hold must be revoked first. A ticket to what was dropped
    /// leads nowhere.
    #[command(after_help = "Example: overlane ref drop 1")]
    Drop {
        /// Its number, as `overlane ref list` shows it
        number: u64,
    },
    /// Take one of this node's own back; everyone who holds it is told why
    #[command(after_help = "Example: overlane ref revoke 1 --reason \"plan expired\"")]
    Revoke {
        /// Its number, as `overlane ref list` shows it
        number: u64,
        /// Take its identity, too: nothing is left of it but the reason
        #[arg(long)]
        hard: bool,
        /// Why, for those who hold it
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// What to look at, if not at everything
    #[command(subcommand)]
    pub(super) of: Option<DoctorOf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum DoctorOf {
    /// The way to one node: link, route, and whether it answers
    #[command(
        after_help = "Example: overlane doctor peer 0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c"
    )]
    Peer {
        /// The node: 40 hexadecimal digits, or did:key:z…
        did: String,
    },
    /// Mail: its store, its holders, what waits and until when, and the whole way tried once
    #[command(after_help = "Example: overlane doctor mail")]
    Mail,
}

#[derive(Debug, Args)]
pub(super) struct Metrics {
    /// Print the page of the documentation
    #[arg(long)]
    pub(super) page: bool,
}

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The code, as an error shows it; a transaction's digest, or an account
    #[arg(value_name = "CODE|DIGEST|DID")]
    pub(super) code: Option<String>,
    /// The sequence of a transaction from or to that account
    #[arg(requires = "code")]
    pub(super) sequence: Option<u64>,
    /// Of this class alone. What nodes say by themselves, as control messages are, is told of a class that is named,
    /// or by its digest
    #[arg(long, value_name = "CLASS", value_parser = class_name(), requires = "code")]
    pub(super) class: Option<ClassName>,
    /// Print the page of the documentation
    #[arg(long, conflicts_with = "code")]
    pub(super) page: bool,
}

#[derive(Debug, Args)]
pub(super) struct Watch {
    /// End after this many messages
    #[arg(long, value_name = "NUMBER")]
    pub(super) count: Option<u64>,
    /// Show links and refusals too
    #[arg(long)]
    pub(super) events: bool,
    /// Save bodies of more than 4 KiB in this folder, each under its digest, and show where
    #[arg(long, value_name = "DIR")]
    pub(super) save: Option<PathBuf>,
}
