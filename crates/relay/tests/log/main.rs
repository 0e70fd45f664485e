//! Logs: what a host keeps and answers, what a follower gets, and what a hostile peer costs.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod durable;
mod frames;
mod groups;
mod hostile;
mod mutants;
mod shared;
mod support;
mod sync;
mod trim;
