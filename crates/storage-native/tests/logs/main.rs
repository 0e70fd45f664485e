//! The store of logs: its index against a set in memory, and every crash as far as the suite goes.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod crash;
mod index;
