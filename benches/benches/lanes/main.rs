//! What a lane costs beside a bare channel: the same messages, over the same library, under the same
//! window, in one run. `cargo bench -p overlane-benches --bench lanes`.
//!
//! Both ends are in this process, over UDP on loopback, with two workers. A pair of runs is one of each
//! side, on a fresh connection each; which side goes first changes from pair to pair. In a run: round
//! trips of control messages alone, then messages as fast as they go, then both together.
//!
//! The same on both sides: the connection's settings and socket buffers, a message is made as its own
//! `Vec`, handed out whole at the other end and taken at once; at most 16 messages of the channel and
//! 256 KiB untaken, granted again by the quarter; small messages leave 32 at a time, in 16 KiB at most.
//! Not the same: a lane is one of four with turns, queues and bounds, and its ends are links of a node
//! (`overlane_node::link`). Nothing is signed or verified here: that is of the messages, not of the lane.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a measuring program stops by panicking"
)]

mod bare;
mod lane;
mod meter;
mod socket;
mod table;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::{Parser, ValueEnum};

use meter::{Figures, Meter};
use table::Pairs;

/// Sizes of messages, in bytes, that are measured.
const SIZES: [usize; 3] = [100, 1_024, 16_384];

/// Before anything is measured under load.
const WARM_UP: Duration = Duration::from_millis(300);

/// From the answer to one control message to the next.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug, Parser)]
#[command(
    about = "Measures lanes beside bare channels of the same library",
    after_help = "Example: cargo bench -p overlane-benches --bench lanes -- --size 1024 --runs 10"
)]
struct Args {
    /// Pairs of runs.
    #[arg(long, default_value_t = 10)]
    runs: usize,
    /// How long each of a run's three parts takes.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Only messages of these sizes, in bytes.
    #[arg(long, value_name = "BYTES")]
    size: Vec<usize>,
    /// Only this side.
    #[arg(long, value_enum)]
    only: Option<Side>,
    /// Another window for the bare side: messages.
    #[arg(long, value_name = "MESSAGES")]
    bare_messages: Option<u64>,
    /// Another window for the bare side: KiB.
    #[arg(long, value_name = "KIB")]
    bare_kib: Option<u64>,
    /// Only the resident memory of an idle link's end, by so many links.
    #[arg(long, value_name = "LINKS")]
    idle: Option<usize>,
    /// A line a run.
    #[arg(long)]
    each: bool,
    /// What cargo passes on.
    #[arg(long, hide = true)]
    bench: bool,
    #[arg(long, hide = true)]
    test: bool,
}

/// What carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// A channel of the library.
    Bare,
    /// A lane of a link.
    Lane,
}

/// Both ends of one connection. Data flows while the [`Meter`] says so.
#[async_trait]
pub(crate) trait Ends: Send + Sync {
    /// Sends a control message, which comes back.
    async fn ping(&self);

    /// Ends the connection, and waits until it is gone.
    async fn close(self: Box<Self>);
}

fn main() {
    let args = Args::parse();
    if args.test {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if let Some(links) = args.idle {
        return runtime.block_on(lane::idle(links));
    }
    let mut most = bare::Most::default();
    most.messages = args.bare_messages.unwrap_or(most.messages);
    most.bytes = args.bare_kib.map_or(most.bytes, |kib| kib * 1_024);
    let sizes = if args.size.is_empty() {
        SIZES.to_vec()
    } else {
        args.size.clone()
    };
    table::head();
    for size in sizes {
        let mut pairs = Pairs::new(size);
        for run in 0..args.runs {
            let mut sides = [Side::Bare, Side::Lane];
            sides.rotate_left(run % 2);
            for side in sides {
                if args.only.is_none_or(|only| only == side) {
                    let figures = runtime.block_on(measure(side, size, args.seconds, most));
                    if args.each {
                        table::run(size, side, &figures);
                    }
                    pairs.add(side, figures);
                }
            }
        }
        pairs.show();
    }
}

async fn measure(side: Side, size: usize, seconds: f64, most: bare::Most) -> Figures {
    let part = Duration::from_secs_f64(seconds);
    let meter = Arc::new(Meter::new());
    let ends: Box<dyn Ends> = match side {
        Side::Bare => Box::new(bare::open(&meter, size, most).await),
        Side::Lane => Box::new(lane::open(&meter, size).await),
    };
    let idle = round_trips(ends.as_ref(), &meter, part).await;
    meter.send(true);
    tokio::time::sleep(WARM_UP).await;
    meter.begin();
    tokio::time::sleep(part).await;
    let alone = meter.so_far();
    let busy = round_trips(ends.as_ref(), &meter, part).await;
    let gaps = meter.end();
    meter.send(false);
    ends.close().await;
    Figures::new(&alone, gaps, idle, busy)
}

/// How long control messages took there and back, one at a time.
async fn round_trips(ends: &dyn Ends, meter: &Meter, part: Duration) -> Vec<Duration> {
    let until = tokio::time::Instant::now() + part;
    let mut took = Vec::new();
    while tokio::time::Instant::now() < until {
        tokio::time::sleep(PAUSE).await;
        ends.ping().await;
        took.push(meter.pong().await);
    }
    took
}
