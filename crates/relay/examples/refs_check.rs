//! Walks every interleaving of small models over the production tables, then breaks one rule after
//! another and sees that the walk notices. Prints the states seen and the shortest way to each fault.
//!
//! `cargo run --release -p overlane-relay --example refs_check -- 4 4`
//!
//! The numbers are how many actions the owner and the other side have. A third argument bounds the
//! states of each model.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a checker fails by panicking"
)]

#[allow(dead_code, reason = "shared with the tests")]
#[allow(unreachable_pub, reason = "shared with the tests")]
#[path = "../tests/check/mod.rs"]
mod check;

use check::explore::Found;
use check::suite::{BROKEN, Broken, Size, honest, hostile};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>());
    let mut next = |default| args.next().and_then(Result::ok).unwrap_or(default);
    let size = Size {
        owner: next(3) as u8,
        other: next(3) as u8,
    };
    let bound = next(usize::MAX);
    let mut failed = false;
    for case in honest(size) {
        failed |= !clean(case.name, &(case.run)(&[], bound));
    }
    failed |= !clean("a hostile peer", &hostile(size.owner.min(3), bound));
    for broken in BROKEN {
        failed |= !caught(broken, bound);
    }
    if failed {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn clean(name: &str, found: &Found) -> bool {
    match &found.broken {
        None if found.cut_short => {
            println!("{name}: {} states and more, clean so far", found.states)
        }
        None => println!("{name}: {} states, clean", found.states),
        Some((error, trace)) => println!("{name}: BROKEN: {error}\n    {}", trace.join("\n    ")),
    }
    found.broken.is_none()
}

fn caught(broken: &Broken, bound: usize) -> bool {
    let Some((error, trace)) = broken.look(bound) else {
        println!("broken rule \"{}\": NOT NOTICED", broken.name);
        return false;
    };
    println!(
        "broken rule \"{}\": noticed in {} steps by {}: {error}\n    {}",
        broken.name,
        trace.len(),
        broken.noticed_by,
        trace.join("\n    ")
    );
    true
}
